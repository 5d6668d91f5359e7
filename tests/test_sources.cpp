// Sources inside fused kernels: random numbers and ranges that a kernel computes where it reads them have the bits of those that
// are stored, for every layout, type, thread count and way to run; and what reads them needs no memory for them. Start at cases().
#include <catch2/catch.hpp>
#include <algorithm>
#include "frit/frit.h"
#include "jit/group.h"
#include "jit/x86/compile.h"
#include "runtime/cpu.h"
#include "runtime/launch.h"
#include "tests/support/automatic.h"
#include "tests/support/cuda_emulator.h"
#include "tests/support/program_interpreter.h"

using namespace frit;
using namespace frit::testing;

namespace {
using indexing::Slice;
enum class Wanted : uint8_t { computed, stored, both };
struct Case {
  const char* name;
  std::function<TensorList()> f;
  Wanted wanted = Wanted::computed;
};
constexpr int64_t N = 37, K = 65;
size_t times(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
// Sources that are steps of their own.
size_t stored(const std::string& plan) { return times(plan, "\n  random_") + times(plan, "\n  arange"); }

const Tensor& x() {
  static const Tensor t = numbers({N, K});
  return t;
}
const Tensor& w() {
  static const Tensor t = numbers({K, K});
  return t;
}
Tensor lower_triangle(int64_t rows, int64_t columns) { return arange(rows).unsqueeze(1).ge(arange(columns).unsqueeze(0)); }

std::vector<Case> cases() {
  x(), w();  // real before anything is traced
  std::vector<Case> all = {
      {"pointwise", [] { return TensorList{x() + rand({N, K})}; }},
      {"one op that reads two", [] { return TensorList{randn({N, K}) * rand({N, K})}; }},
      {"dropout", [] { return TensorList{dropout(x().exp(), 0.3, true)}; }},
      {"permuted", [] { return TensorList{x() * rand({K, N}).t()}; }},
      {"permuted twice", [] { return TensorList{x().unsqueeze(0).exp() - randn({K, 3, N}).permute({1, 2, 0})}; }},
      {"sliced", [] { return TensorList{x() * rand({2 * N, 2 * K + 3}).index({Slice(0, 2 * N, 2), Slice(3, indexing::None, 2)})}; }},
      {"one of many", [] { return TensorList{x() * rand({4, N, K}).select(0, 2)}; }},
      {"a diagonal", [] { return TensorList{x().exp() * randn({K + 2, N, K + 9}).diagonal(2, 0, 2).narrow(1, 0, K)}; }},
      {"strided by hand", [] { return TensorList{x() * arange(3000, kFloat32).as_strided({N, K}, {3, 7}, 5)}; }, Wanted::both},
      {"a row of random numbers", [] { return TensorList{x() + rand({K})}; }, Wanted::stored},
      {"a column of random numbers", [] { return TensorList{x() + rand({N, 1})}; }, Wanted::stored},
      {"repeated", [] { return TensorList{x() + rand({1, K}).expand({N, K})}; }, Wanted::stored},
      {"a row of numbers", [] { return TensorList{x() + arange(K)}; }},
      {"a column of numbers", [] { return TensorList{x() * arange(N).unsqueeze(1)}; }},
      {"a range in rows", [] { return TensorList{x() * arange(N * K, kFloat32).view({N, K})}; }},
      {"a range that is copied", [] { return TensorList{x() * arange(N * K, kFloat32).view({K, N}).t().reshape({N * K}).view({N, K})}; }},
      {"two ranges of other steps", [] { return TensorList{x() + arange(0.5, 0.5 + 0.1 * (K - 0.5), 0.1, kFloat32), x() - arange(7, 7 - 3 * K, -3)}; }},
      {"causal rows", [] { return TensorList{where(lower_triangle(N, K), x(), Scalar(-INFINITY)).softmax(-1)}; }},
      {"random numbers in rows", [] { return TensorList{(x() + randn({N, K})).softmax(-1)}; }},
      {"dropped rows", [] { return TensorList{layer_norm(dropout(x(), 0.2, true), {K}) + dropout(x().softmax(-1), 0.5, true)}; }},
      {"beside rows", [] { return TensorList{x().exp().sum(-1) * rand({N})}; }},
      {"random numbers in columns", [] { return TensorList{(x() * randn({N, K})).sum(0)}; }},
      {"a range in columns", [] { return TensorList{(x() * arange(N).unsqueeze(1)).sum(0), (x() * arange(K)).amax(0)}; }},
      {"three axes", [] { return TensorList{(x().view({N, 5, 13}) + rand({N, 5, 13})).sum({1, 2}), (rand({5, N, 13}).permute({1, 0, 2}) - x().view({N, 5, 13})).amax(1)}; }},
      {"only reduced", [] { return TensorList{rand({N, K}).sum(-1), randn({N, K}).sum(0), rand({N, K}).amax(-1)}; }},
      {"summed to a number", [] { return TensorList{rand({N, K}).mean(), arange(1000).sum()}; }},
      {"a long row", [] { return TensorList{rand({2, 140000}).sum(-1), (arange(140000) * 3).sum()}; }},
      {"many", [] { return TensorList{(rand({300, 1000}) - 0.5) * arange(1000), randn({300, 1000}).exp().sum(0)}; }},
      {"none and one", [] { return TensorList{rand({0, 5}) + 1, rand({1, 1}) * 2, rand({}) + 1, x().narrow(1, 0, 1) + rand({N, 1}), rand({0, 5}).sum(0), arange(0) * 2, arange(1) * 2 + 1}; }, Wanted::both},
      {"two kernels",
       [] {
         const Tensor a = rand({N, K}), y = (x() + a).matmul(w());
         return TensorList{y.exp() * a, y};
       }},
      {"a root",
       [] {
         const Tensor a = rand({N, K});
         return TensorList{a, x() + a};
       },
       Wanted::stored},
      {"a view is a root",
       [] {
         const Tensor a = rand({N, K});
         return TensorList{a.t(), x() + a};
       },
       Wanted::stored},
      {"read by a product too",
       [] {
         const Tensor a = rand({K, K});
         return TensorList{x().matmul(a), a * 2};
       },
       Wanted::stored},
      {"written after it was read",
       [] {
         Tensor a = rand({N, K});
         const Tensor y = x() + a;
         a.mul_(2);
         return TensorList{y, a * x()};
       },
       Wanted::both},
      {"written through a view",
       [] {
         Tensor a = arange(N * K, kFloat32).view({N, K});
         const Tensor y = x() + a;
         a.narrow(0, 3, 5).copy_(x().narrow(0, 0, 5));
         return TensorList{y, a * x()};
       },
       Wanted::stored},
      {"chosen from",
       [] {
         const Tensor a = rand({N, K});
         return TensorList{a.index_select(0, arange(3)), x() + a};
       },
       Wanted::stored},
  };
  for (Dtype d : {kFloat16, kBFloat16, kFloat64}) {
    all.push_back({dtype_name(d), [d] { return TensorList{rand({N, K}, d) * 3, randn({N, K}, d) + x().to(d), arange(K, d) * x().to(d), (randn({N, K}, d) * x().to(d)).sum(-1), dropout(x().to(d), 0.25, true) * 3}; }});
    all.push_back({"whole numbers as floats", [d] { return TensorList{randint(-5, 9, {N, K}, d) * 3, arange(N * K, d).view({N, K}).softmax(-1)}; }});
  }
  for (Dtype d : {kInt64, kInt32, kInt16, kInt8, kUInt8})
    all.push_back({dtype_name(d), [d] { return TensorList{randint(3, 120, {N, K}, d) * 2, arange(K, d) + x().to(d), randint(0, 100, {N, K}, d).sum(-1), (arange(K, d) * 3).amax()}; }});
  return all;
}
}  // namespace

TEST_CASE("sources inside kernels: the bits of eager mode, and no memory", "[sources]") {
  for (const Case& c : cases()) {
    INFO(c.name);
    manual_seed(11);
    const std::string plan = "\n" + jit::explain(c.f);
    INFO(plan);
    if (c.wanted != Wanted::both) CHECK((stored(plan) > 0) == (c.wanted == Wanted::stored));
    if (c.wanted == Wanted::computed) CHECK(times(plan, ", computing ") > 0);
    for (int threads : {1, 3}) {
      const int before = num_threads();
      set_num_threads(threads);
      auto compiled = compile(c.f);
      manual_seed(12);
      std::vector<std::string> got;
      for (int turn = 0; turn < 3; ++turn) got.push_back(bits_and_strides(compiled()));
      manual_seed(12);
      for (int turn = 0; turn < 3; ++turn) CHECK((got[size_t(turn)] == in_eager([&] { return bits_and_strides(c.f()); })));
      CHECK((got[0] != got[1]) == (times(plan, "random") > 0));  // every call draws anew
      set_num_threads(before);
    }
  }
}

TEST_CASE("sources inside kernels: calls that are followed draw new numbers", "[sources]") {
  for (const jit::CompileWhere where : {jit::CompileWhere::foreground, jit::CompileWhere::background})
    for (const Case& c : cases()) {
      INFO(c.name);
      std::vector<std::string> got;
      {
        const Automatic automatic(2, where);
        manual_seed(5);
        for (int turn = 0; turn < 8; ++turn) {
          got.push_back(bits_and_strides(c.f()));
          if (turn == 4) jit::wait_for_background();
        }
        CHECK(jit::compile_failures() == automatic.failures_before);
      }
      manual_seed(5);
      for (int turn = 0; turn < 8; ++turn) CHECK((got[size_t(turn)] == in_eager([&] { return bits_and_strides(c.f()); })));
    }
}

// ---- memory -----------------------------------------------------------------------------------------------------------------
namespace {
int64_t peak_of(const std::function<void()>& f) {
  for (int turn = 0; turn < 3; ++turn) f();
  synchronize();
  memory::reset_peak();
  const int64_t before = memory::stats().current;
  f();
  synchronize();
  return memory::stats().peak - before;
}
// The largest buffers that the plan speaks of, and its steps, hold no mask: with dropout it needs the memory that it needs without.
void check_memory(const std::function<TensorList(double)>& f, size_t kernels_that_draw, int64_t elements) {
  const auto with = [&] { return f(0.25); };
  const auto without = [&] { return f(0.0); };
  manual_seed(3);
  const std::string plan = "\n" + jit::explain(with);
  INFO(plan);
  CHECK(stored(plan) == 0);
  CHECK(times(plan, ", computing random_uniform") == kernels_that_draw);
  auto dropping = compile(with);
  auto plain = compile(without);
  const int64_t needed = peak_of([&] { dropping(); }), of_plain = peak_of([&] { plain(); });
  CHECK(needed < of_plain + elements * 3 / 4);  // a mask has a byte an element
  manual_seed(4);
  const std::string got = bits_and_strides(dropping()) + bits_and_strides(dropping());
  manual_seed(4);
  CHECK((got == in_eager([&] { return bits_and_strides(with()) + bits_and_strides(with()); })));
}
}  // namespace

TEST_CASE("dropout stores no mask between forward and backward", "[sources]") {
  const Tensor a = numbers({256, 128}), v = numbers({512, 64}).requires_grad_(true), first = numbers({128, 512}).requires_grad_(true), bias = numbers({512}).requires_grad_(true);
  check_memory(
      [&](double p) {
        const Tensor y = dropout((a.matmul(first) * 0.1 + bias).tanh(), p, true).matmul(v);
        const std::vector<Tensor> g = autograd::grad({y.square().sum()}, {first, bias, v});
        return TensorList{y.detach(), g[0], g[1], g[2]};
      },
      2, 256 * 512);
}
TEST_CASE("dropout around softmax rows stores no mask", "[sources]") {
  const Tensor a = numbers({256, 128}), v = numbers({512, 64}).requires_grad_(true), first = numbers({128, 512}).requires_grad_(true);
  check_memory(
      [&](double p) {
        const Tensor y = dropout((a.matmul(first) * 0.1).softmax(-1), p, true).matmul(v);
        const std::vector<Tensor> g = autograd::grad({y.square().sum()}, {first, v});
        return TensorList{y.detach(), g[0], g[1]};
      },
      2, 256 * 512);
}
TEST_CASE("dropout in a training step stores no mask", "[sources]") {
  const Tensor a = numbers({512, 96}), target = numbers({512, 32});
  struct Step {
    nn::Sequential net;
    optim::SGD optimizer;
    explicit Step(double p)
        : net(nn::Linear(96, 256), nn::Tanh(), nn::Dropout(p), nn::Linear(256, 256), nn::Tanh(), nn::Dropout(p), nn::Linear(256, 32)), optimizer(net->parameters(), optim::SGDOptions(0.01)) {}
  };
  const auto step = [&](Step& s) {
    s.optimizer.zero_grad();
    const Tensor loss = (s.net->forward(a) - target).square().mean();
    loss.backward();
    s.optimizer.step();
    return loss.detach();
  };
  manual_seed(9);
  Step dropping(0.5);
  manual_seed(9);
  Step plain(0.0);
  manual_seed(9);
  Step eager(0.5);
  const auto run = [&] { return step(dropping); };
  const auto run_plain = [&] { return step(plain); };
  auto compiled = compile(run);
  auto compiled_plain = compile(run_plain);
  manual_seed(10);
  std::string got;
  for (int turn = 0; turn < 4; ++turn) got += bits_of(compiled());
  manual_seed(10);
  CHECK((got == in_eager([&] {
           std::string s;
           for (int turn = 0; turn < 4; ++turn) s += bits_of(step(eager));
           return s;
         })));
  const int64_t needed = peak_of([&] { compiled(); }), of_plain = peak_of([&] { compiled_plain(); });
  // The gradient of tanh wants its result, which without dropout is what the next layer keeps anyway; a mask would have a byte an element more.
  CHECK(needed < of_plain + 512 * 256 * 4 + 512 * 256 / 2);
  const std::string plan = "\n" + jit::explain(run);
  INFO(plan);
  CHECK(stored(plan) == 0);
  CHECK(times(plan, ", computing random_uniform") == 4);
}

// ---- both code generators ---------------------------------------------------------------------------------------------------
namespace {
using jit::GroupCode;
using jit::GroupKind;
using jit::GroupLayout;
using jit::Item;
using jit::Reference;
using jit::Step;
using tracer::Op;

Reference operand(int i) { return {Reference::Kind::operand, uint8_t(i)}; }
Reference item(int i) { return {Reference::Kind::item, uint8_t(i)}; }
Reference number(int i) { return {Reference::Kind::number, uint8_t(i)}; }
Item pointwise(Op op, Dtype compute, Dtype result, Reference a, Reference b, Reference c = {}) { return {op, compute, compute, result, false, {a, b, c}}; }

// A group with one output and, as the first operand, a source; a second operand, if there is one, is memory of float32.
struct Drawn {
  const char* name;
  GroupCode code;
  GroupLayout layout;
  std::vector<kernels::Slot> source;     // first index, params
  std::vector<kernels::Slot> after;      // numbers, extents, strides
  int64_t outputs, inputs;               // elements
};
kernels::Slot bits_of_number(float v) { return std::bit_cast<uint32_t>(v); }

std::vector<Drawn> drawn_groups() {
  std::vector<Drawn> all;
  const int64_t rows = 7, columns = 45;
  const Dtype f32 = kFloat32;
  const auto words = [](std::initializer_list<int64_t> v) { return std::vector<kernels::Slot>(v.begin(), v.end()); };
  for (Dtype d : {kFloat32, kFloat16, kBFloat16, kFloat64})
    for (Op op : {Op::random_uniform, Op::random_normal})
      for (bool turned : {false, true}) {  // where(number <= drawn, x, number) over [rows, columns]; turned: the source is [columns, rows]
        const Dtype c = compute_dtype(d);
        GroupCode code;
        code.items = {pointwise(Op::ge, c, kBool, operand(0), number(0)), pointwise(Op::where, f32, f32, item(0), operand(1), number(1))};
        code.operands = {{d, op}, {f32}}, code.outputs = {{1, f32}}, code.numbers = {c, f32};
        const kernels::Slot low = d == kFloat64 ? std::bit_cast<kernels::Slot>(0.25) : bits_of_number(0.25f);
        Drawn g{"dropped", code, {1, {Step::one, turned ? Step::strided : Step::one, Step::one}, {}}, words({turned ? (int64_t(1) << 32) - 130 : op == Op::random_normal ? -20 : 1000, 0x123456789abcdef, 3}), {low, bits_of_number(-1)}, rows * columns, rows * columns};
        for (kernels::Slot s : words({columns, rows, columns, turned ? 1 : columns})) g.after.push_back(s);
        if (turned) g.after.push_back(kernels::Slot(rows));
        g.after.push_back(kernels::Slot(columns));
        all.push_back(g);
      }
  {  // the greatest of each row where column <= its index, the rest of the row counts as a number
    GroupCode code;
    code.kind = GroupKind::row;
    code.items = {pointwise(Op::ge, kInt64, kBool, operand(0), operand(2)), pointwise(Op::where, f32, f32, item(0), operand(1), number(0)), {Op::amax, f32, f32, f32, true, {item(1)}},
                  pointwise(Op::sub, f32, f32, item(1), item(2))};
    code.operands = {{kInt64, Op::arange}, {f32}, {kInt64, Op::arange}}, code.outputs = {{3, f32}}, code.numbers = {f32};
    Drawn g{"causal rows", code, {1, {Step::one, Step::none, Step::one, Step::one}, {}}, words({0, 0, 1}), {bits_of_number(-1e9f)}, rows * columns, rows * columns};
    for (kernels::Slot s : words({columns, rows, /* strides along the rows */ columns, 1, columns, 0})) g.after.push_back(s);
    all.push_back(g);
  }
  {  // the least of each column of random whole numbers times x
    GroupCode code;
    code.kind = GroupKind::columns;
    code.items = {pointwise(Op::mul, f32, f32, operand(0), operand(1)), {Op::amin, f32, f32, f32, true, {item(0)}}};
    code.operands = {{kInt32, Op::random_integer}, {f32}}, code.outputs = {{1, f32}};
    Drawn g{"columns", code, {0, {Step::one, Step::one, Step::one}, {Step::none, Step::strided, Step::strided}}, words({5, 77, 1, -20, 50}), {}, columns, rows * columns};
    for (kernels::Slot s : words({rows, columns, columns, columns})) g.after.push_back(s);
    all.push_back(g);
  }
  return all;
}
}  // namespace

TEST_CASE("sources inside kernels: the CPU's bits on both code generators", "[sources][cuda]") {
  const std::vector<Drawn> groups = drawn_groups();
  std::vector<kernels::Program> programs;
  std::vector<jit::CudaSource> sources;
  for (const Drawn& g : groups) {
    programs.push_back(lower_group(g.code, g.layout));
    programs.back().name += "_" + std::to_string(programs.size());
    CHECK(kernels::parse_program(programs.back().text()) == programs.back());
    sources.push_back(jit::generate_cuda(programs.back()));
  }
  const cuda_emulator::Module module(sources);
  for (size_t i = 0; i < groups.size(); ++i) {
    const Drawn& g = groups[i];
    INFO(g.name << "\n" << programs[i].text());
    std::vector<float> x(static_cast<size_t>(g.inputs));
    for (size_t k = 0; k < x.size(); ++k) x[k] = float(int(k * 29 % 83) - 41) / 8;
    const auto run = [&](auto launch) {
      std::vector<float> out(size_t(g.outputs), 123.0f);
      std::vector<kernels::Slot> slots{kernels::Slot(out.data())};
      slots.insert(slots.end(), g.source.begin(), g.source.end());
      slots.push_back(kernels::Slot(x.data()));
      if (g.code.operands.size() > 2) slots.insert(slots.end(), {0, 0, 1});
      slots.insert(slots.end(), g.after.begin(), g.after.end());
      REQUIRE(slots.size() == programs[i].params.size());
      launch(slots);
      return out;
    };
    const std::vector<float> wanted = run([&](auto& slots) { frit::test::interpret(programs[i], slots); });
    CHECK(std::count(wanted.begin(), wanted.end(), 123.0f) == 0);
    const jit::CpuKernel kernel = jit::compile_x86(programs[i]);
    const std::string code = jit::disassembly_x86(programs[i]);
    if (g.code.operands[0].source != Op::random_integer) CHECK(times(code, "tzcnt") == 0);  // nothing goes lane by lane but quotients of 64 bits
    if (g.code.operands[0].source == Op::random_uniform) {
      const bool sixteen = uses_avx512() && g.code.operands[0].memory != kFloat64;
      CHECK(times(code, "vpmuludq") >= 40);
      CHECK((times(code, "vpermt2d") > 0) == sixteen);
    }
    const int64_t instances = g.layout.outer ? 7 : 1;
    CHECK((run([&](auto& slots) { kernel.run(slots.data(), 0, instances); }) == wanted));
    for (unsigned blocks : {1u, 3u})
      CHECK((run([&](auto& slots) {
               std::vector<void*> arguments;
               for (kernels::Slot& s : slots) arguments.push_back(&s);
               module.launch(sources[i].name, blocks, sources[i].threads, arguments.data(), blocks);
             }) == wanted));
  }
}
