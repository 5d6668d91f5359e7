// The row templates (softmax and its kin, the norms): text and verifier; the interpreter against the library's ops in eager mode, bit for bit; both
// code generators against their references; and what fusion makes of the same ops, compared by what it does.
#include <catch2/catch.hpp>
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <random>
#include "frit/frit.h"
#include "frit/nn/functional.h"
#include "jit/cuda/generate.h"
#include "jit/x86/compile.h"
#include "kernels/count.h"
#include "kernels/norms.h"
#include "kernels/softmax.h"
#include "tests/support/cuda_emulator.h"
#include "tests/support/cuda_reference.h"
#include "tests/support/fused_groups.h"
#include "tests/support/program_interpreter.h"
#include "tests/support/program_random.h"

using namespace frit;
using kernels::Count;
using kernels::Program;
using kernels::Slot;
using test::GuardedBuffer;

namespace {
constexpr Dtype storages[] = {kFloat32, kFloat64, kFloat16, kBFloat16};
constexpr double epsilon = 1e-5;
constexpr int64_t ignored = -100;

using In = std::vector<Tensor>;  // what the program reads, halfs widened
struct Template {
  const char* name;
  Program (*make)(Dtype);
  const char* shapes;  // by pointer: M matrix, R by row, C by column, T targets; then e epsilon, i ignored
  std::function<In(const In&, Dtype)> wanted;  // what it writes, of its results' type
};
Tensor along(const Tensor& t) { return t.sum({-1}, true); }
Tensor row_mean(const Tensor& t) { return t.mean({-1}, true); }
Tensor norm_gradient(const Tensor& c, const Tensor& w, const Tensor& g, bool centred) {
  const Tensor r = (row_mean(c.square()) + Scalar(epsilon)).rsqrt(), n = c * r, h = g * w;
  return r * ((centred ? h - row_mean(h) : h) - n * row_mean(h * n));
}
const std::vector<Template>& templates() {
  using namespace kernels;
  static const std::vector<Template> all{
      {"softmax", softmax, "MM", [](const In& in, Dtype) { return In{in[0].softmax(-1)}; }},
      {"softmax_gradient", softmax_gradient, "MMM", [](const In& in, Dtype) { return In{in[0] * (in[1] - along(in[0] * in[1]))}; }},
      {"log_softmax", log_softmax, "MM", [](const In& in, Dtype) { return In{in[0].log_softmax(-1)}; }},
      {"log_softmax_gradient", log_softmax_gradient, "MMM", [](const In& in, Dtype) { return In{in[1] - in[0].exp() * along(in[1])}; }},
      {"logsumexp", logsumexp, "RM", [](const In& in, Dtype) { return In{in[0].logsumexp(-1)}; }},
      {"logsumexp_gradient", logsumexp_gradient, "MMRR", [](const In& in, Dtype) { return In{in[2].unsqueeze(1) * (in[0] - in[1].unsqueeze(1)).exp()}; }},
      {"cross_entropy", cross_entropy, "RMTi", [](const In& in, Dtype) { return In{cross_entropy_loss(in[0], in[1], {}, 0, ignored)}; }},
      {"cross_entropy_gradient", cross_entropy_gradient, "MMTRi",
       [](const In& in, Dtype) {
         const Tensor g = where(in[1].ne(ignored), in[2], Scalar(0.0)), wanted = arange(in[0].size(1)).eq(in[1].unsqueeze(1)).to(in[0].dtype());
         return In{g.unsqueeze(1) * (in[0].softmax(-1) - wanted)};
       }},
      {"layer_norm", layer_norm, "MMCCe", [](const In& in, Dtype) { return In{frit::layer_norm(in[0], {in[0].size(1)}, in[1], in[2], epsilon)}; }},
      {"layer_norm_gradient", layer_norm_gradient, "MMCMe", [](const In& in, Dtype) { return In{norm_gradient(in[0] - row_mean(in[0]), in[1], in[2], true)}; }},
      {"rms_norm", rms_norm, "MMCe", [](const In& in, Dtype) { return In{frit::rms_norm(in[0], {in[0].size(1)}, in[1], epsilon)}; }},
      {"rms_norm_gradient", rms_norm_gradient, "MMCMe", [](const In& in, Dtype) { return In{norm_gradient(in[0], in[1], in[2], false)}; }},
      {"norm_parameter_gradients", norm_parameter_gradients, "CCMMRR",
       [](const In& in, Dtype) { return In{(in[1] * ((in[0] - in[2].unsqueeze(1)) * in[3].unsqueeze(1))).sum({0}), in[1].sum({0})}; }},
  };
  return all;
}

// The template with memory for a matrix.
struct Laid {
  test::RandomProgram p;
  std::vector<std::vector<int64_t>> sizes;  // by pointer
};
Laid lay(const Template& t, Dtype d, int64_t rows, int64_t columns, bool specials, std::mt19937_64& random) {
  Laid l;
  l.p.program = t.make(d);
  l.p.program.name += std::string("_") + dtype_short_name(d);
  std::normal_distribution<double> normal(0, 2);
  const auto pointer = [&](std::vector<int64_t> sizes, Dtype type, bool targets) {
    int64_t count = 1;
    for (int64_t s : sizes) count *= s;
    l.p.buffers.push_back(std::make_shared<GuardedBuffer>(type, size_t(count), true));
    for (int64_t k = 0; k < count; ++k)
      dispatch(type, [&](auto zero) {
        using T = decltype(zero);
        const bool special = specials && random() % 23 == 0;
        double v = special ? std::vector<double>{INFINITY, -INFINITY, NAN, -0.0, 1e30}[random() % 5] : normal(random);
        if (targets) v = random() % 5 ? double(random() % uint64_t(columns)) : double(ignored);
        T element;
        if constexpr (std::is_arithmetic_v<T>) element = T(v);
        else element = T(float(v));
        std::memcpy(l.p.buffers.back()->data() + size_t(k) * sizeof(T), &element, sizeof(T));
      });
    l.p.args.push_back(reinterpret_cast<Slot>(l.p.buffers.back()->data()));
    l.sizes.push_back(std::move(sizes));
  };
  size_t parameter = 0;
  for (const char* s = t.shapes; *s; ++s) {
    const Dtype type = l.p.program.params[parameter++].dtype;
    if (*s == 'M') pointer({rows, columns}, type, false);
    if (*s == 'R') pointer({rows}, type, false);
    if (*s == 'C') pointer({columns}, type, false);
    if (*s == 'T') pointer({rows}, type, true);
    if (*s == 'i') l.p.args.push_back(Slot(ignored));
    if (*s == 'e') l.p.args.push_back(type == kFloat64 ? std::bit_cast<Slot>(epsilon) : Slot(std::bit_cast<uint32_t>(float(epsilon))));
  }
  l.p.args.push_back(Slot(columns)), l.p.args.push_back(Slot(rows));
  return l;
}
Tensor tensor_of(const Laid& l, size_t n) {
  const Tensor t = from_blob(l.p.buffers[n]->data(), l.sizes[n], l.p.buffers[n]->memory()).clone();
  return is_floating(t.dtype()) ? t.to(compute_dtype(t.dtype())) : t;
}
int64_t instances(const test::RandomProgram& p) {
  int64_t n = 1;
  const std::vector<int64_t> all = kernels::extents(p.program, p.args.data());
  for (size_t a = 0; a < all.size(); ++a)
    if (p.program.axes[a].kind == kernels::AxisKind::grid) n *= all[a];
  return n;
}
constexpr std::pair<int64_t, int64_t> extents_tried[] = {{1, 1}, {3, 7}, {5, 8}, {2, 33}, {4, 100}, {2, 1025}};
}  // namespace

TEST_CASE("templates: their text can be read again, and the verifier takes them", "[templates]") {
  for (const Template& t : templates())
    for (Dtype d : storages) {
      INFO(t.name << " " << dtype_name(d));
      const Program p = t.make(d);
      kernels::verify(p);
      CHECK((kernels::parse_program(p.text()) == p));
    }
}

TEST_CASE("templates: the interpreter gives what the library's ops give, and generated code gives the same", "[templates]") {
  jit::ModeGuard eager(jit::Mode::eager);
  std::mt19937_64 random(20261130);
  for (const Template& t : templates())
    for (Dtype d : storages)
      for (const auto& [rows, columns] : extents_tried)
        for (bool specials : {false, true}) {
          INFO(t.name << " " << dtype_name(d) << " " << rows << " x " << columns << " specials " << specials);
          const Laid l = lay(t, d, rows, columns, specials, random);
          const jit::CpuKernel kernel = jit::compile_x86(l.p.program);
          In in;
          size_t written = 0;
          while (l.p.program.params[written].written) ++written;
          for (size_t n = written; n < l.p.buffers.size(); ++n) in.push_back(tensor_of(l, n));
          const In wanted = t.wanted(in, d);
          const int64_t count = instances(l.p);
          CHECK(test::difference(l.p, [&](const Slot* args) { kernel.run(args, 0, count); }) == "");
          // The code's results are in the buffers now; they are the interpreter's.
          for (size_t n = 0; n < written; ++n) {
            const Tensor w = wanted[n].to(l.p.buffers[n]->memory()).contiguous();
            const char* bytes = dispatch(w.dtype(), [&](auto zero) { return reinterpret_cast<const char*>(w.const_data_ptr<decltype(zero)>()); });
            int wrong = 0;
            const size_t size = size_of(w.dtype());
            for (size_t k = 0; k < l.p.buffers[n]->count(); ++k) wrong += !test::same_value(w.dtype(), bytes + k * size, l.p.buffers[n]->data() + k * size);
            CHECK(wrong == 0);
          }
        }
}

TEST_CASE("templates as CUDA kernels, in the order of that kind of device", "[templates]") {
  std::mt19937_64 random(20261201);
  std::vector<Laid> all;
  std::vector<jit::CudaSource> sources;
  for (const Template& t : templates())
    for (Dtype d : {kFloat32, kFloat16}) {
      all.push_back(lay(t, d, 3, 300, false, random));
      sources.push_back(jit::generate_cuda(all.back().p.program));
    }
  const cuda_emulator::Module module(sources);
  for (size_t n = 0; n < all.size(); ++n) {
    const test::RandomProgram& p = all[n].p;
    INFO(p.program.name);
    std::vector<std::string> before, expected;
    for (const auto& b : p.buffers) before.emplace_back(b->data(), b->bytes());
    cuda_reference::run(p.program, p.args);
    for (size_t k = 0; k < p.buffers.size(); ++k) {
      expected.emplace_back(p.buffers[k]->data(), p.buffers[k]->bytes());
      std::memcpy(p.buffers[k]->data(), before[k].data(), before[k].size());
    }
    std::vector<Slot> slots = p.args;
    std::vector<void*> arguments;
    for (Slot& s : slots) arguments.push_back(&s);
    module.launch(sources[n].name, 3, sources[n].threads, arguments.data(), n);
    for (size_t k = 0; k < p.buffers.size(); ++k) {
      const size_t size = size_of(p.buffers[k]->memory());
      int wrong = 0;
      for (size_t i = 0; i < p.buffers[k]->count(); ++i) wrong += !test::same_value(p.buffers[k]->memory(), expected[k].data() + i * size, p.buffers[k]->data() + i * size);
      CHECK(wrong == 0);
    }
  }
}

namespace {
std::string text_of(const Count& c) {
  return std::to_string(c.loads) + " loads, " + std::to_string(c.stores) + " stores, " + std::to_string(c.reductions) + " reductions, " + std::to_string(c.primitives) + " primitives a lane, " +
         std::to_string(c.row_primitives) + " a row";
}
Count fused(const std::function<std::vector<Tensor>()>& body) {
  const std::vector<test::FusedGroup> groups = test::fused_groups(body);
  REQUIRE(groups.size() == 1);
  return kernels::count(test::program_of(groups[0]));
}
}  // namespace

TEST_CASE("what fusion makes of the library's ops is the template's work", "[templates]") {
  const Tensor x = randn({6, 40}), w = randn({40}), b = randn({40}), g = randn({6, 40});
  synchronize();
  struct Pair { const char* name; Count fusion, model; };
  const Pair pairs[] = {
      {"softmax", fused([&] { return In{x.softmax(-1)}; }), kernels::count(kernels::softmax(kFloat32))},
      {"log_softmax", fused([&] { return In{x.log_softmax(-1)}; }), kernels::count(kernels::log_softmax(kFloat32))},
      {"logsumexp", fused([&] { return In{x.logsumexp({-1}, true)}; }), kernels::count(kernels::logsumexp(kFloat32))},
      {"layer_norm", fused([&] { return In{layer_norm(x, {40}, w, b, epsilon)}; }), kernels::count(kernels::layer_norm(kFloat32))},
      {"rms_norm", fused([&] { return In{rms_norm(x, {40}, w, epsilon)}; }), kernels::count(kernels::rms_norm(kFloat32))},
  };
  for (const Pair& p : pairs) {
    INFO(p.name << "\nfusion:   " << text_of(p.fusion) << "\ntemplate: " << text_of(p.model));
    CHECK((p.fusion == p.model));
  }
}

TEST_CASE("what fusion makes of a forward and its gradient, beside the two templates", "[templates]") {
  Tensor x = randn({6, 40}).requires_grad_(), w = randn({40}).requires_grad_(), b = randn({40}).requires_grad_();
  const Tensor g = randn({6, 40});
  synchronize();
  const auto step = [&](const std::function<Tensor()>& f) {
    return fused([&] {
      const Tensor out = f();
      return In{out.detach(), autograd::grad({out}, {x}, {g})[0]};
    });
  };
  // shared: primitives a lane that both templates have. more: what fusion has above their sum, as the recorded formula divides and negates more
  // often than it needs; it may become less.
  struct Pair { const char* name; Count fusion, forward, gradient; int loads, reductions, shared, more; };
  const Pair pairs[] = {
      {"softmax", step([&] { return x.softmax(-1); }), kernels::count(kernels::softmax(kFloat32)), kernels::count(kernels::softmax_gradient(kFloat32)), 2, 3, 0, 3},
      // The template takes the exponential again: it reads what the forward made.
      {"log_softmax", step([&] { return x.log_softmax(-1); }), kernels::count(kernels::log_softmax(kFloat32)), kernels::count(kernels::log_softmax_gradient(kFloat32)), 2, 3, 23, 1},
      {"layer_norm", step([&] { return layer_norm(x, {40}, w, b, epsilon); }), kernels::count(kernels::layer_norm(kFloat32)), kernels::count(kernels::layer_norm_gradient(kFloat32)), 4, 4, 3, 2},
      {"rms_norm", step([&] { return rms_norm(x, {40}, w, epsilon); }), kernels::count(kernels::rms_norm(kFloat32)), kernels::count(kernels::rms_norm_gradient(kFloat32)), 3, 2, 2, 1},
  };
  for (const Pair& p : pairs) {
    INFO(p.name << "\nfusion:   " << text_of(p.fusion) << "\nforward:  " << text_of(p.forward) << "\ngradient: " << text_of(p.gradient));
    CHECK(p.fusion.loads == p.loads);
    CHECK(p.fusion.stores == 2);
    CHECK(p.fusion.reductions == p.reductions);
    CHECK(p.fusion.primitives <= p.forward.primitives + p.gradient.primitives - p.shared + p.more);
  }
}
