// Block programs with loops and dots: the matrix product and attention, by the interpreter of block programs and on tiles, against each other
// and against the definitions, bit for bit; loops whose extents depend on indices; what is refused.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <random>

#include "jit/x86/compile.h"
#include "jit/x86/tiles.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "runtime/cpu.h"
#include "tests/support/program_interpreter.h"
#include "tests/support/program_random.h"
#include "tracer/numbers.h"
#include "tracer/product.h"

using namespace frit;
using namespace frit::kernels;

namespace {
std::mt19937_64 engine(20251130);
int64_t below(int64_t n) { return int64_t(engine() % uint64_t(n)); }

struct Memory {
  Dtype type;
  std::vector<char> bytes;
  Memory(Dtype d, int64_t elements, bool filled = true) : type(d), bytes(size_t(elements + 1) * size_of(d)) {
    for (int64_t i = 0; filled && i < elements; ++i) set(i, std::normal_distribution<double>()(engine));
  }
  void set(int64_t i, double v) { tracer::store_word(&bytes[size_t(i) * size_of(type)], type, type == Dtype::Float64 ? tracer::value_word(v) : tracer::value_word(float(v))); }
  Slot slot() { return reinterpret_cast<Slot>(bytes.data()); }
  int64_t count() const { return int64_t(bytes.size() / size_of(type)) - 1; }
};
void same(const Memory& a, const Memory& b) {
  REQUIRE(a.count() == b.count());
  int64_t equal = 0;
  for (const size_t size = size_of(a.type); equal < a.count() && test::same_value(a.type, &a.bytes[size_t(equal) * size], &b.bytes[size_t(equal) * size]); ++equal) {
  }
  CHECK(equal == a.count());  // else the first element that differs
}
}  // namespace

TEST_CASE("gemm as a block program is the product") {
  for (Dtype d : {Dtype::Float32, Dtype::Float64, Dtype::Float16, Dtype::BFloat16}) {
    const Program p = gemm(d, 16);
    CHECK(parse_program(p.text()) == p);
    const jit::TileKernel kernel = jit::compile_tiles(p), large = jit::compile_tiles(gemm(d, 96));
    for (int round = 0; round < 12; ++round) {
      const int64_t m = 2 + below(40), n = 2 + below(40), k = round == 0 ? 0 : round == 1 ? 700 : below(90);
      const bool turn_a = below(2), turn_b = below(2), turn_c = below(2);
      const int64_t steps[] = {turn_a ? 1 : k + 1, turn_a ? m : 1, turn_b ? 1 : n, turn_b ? k + 2 : 1, turn_c ? 1 : n, turn_c ? m : 1};
      INFO(dtype_name(d) << " m " << m << " n " << n << " k " << k << " transposed " << turn_a << turn_b << turn_c);
      Memory a(d, (m + 1) * (k + 2)), b(d, (n + 1) * (k + 2)), wanted(d, m * n, false);
      Product product{};
      product.dtype = d, product.m = m, product.n = n, product.k = k;
      product.a_row = steps[0], product.a_col = steps[1], product.b_row = steps[2], product.b_col = steps[3], product.c_row = steps[4], product.c_col = steps[5];
      product_reference(product, a.bytes.data(), b.bytes.data(), wanted.bytes.data());
      for (int way = 0; way < 3; ++way) {
        Memory c(d, m * n, false);
        std::vector<Slot> args{a.slot(), b.slot(), c.slot(), Slot(m), Slot(n), Slot(k)};
        for (int64_t s : steps) args.push_back(Slot(s));
        if (way == 0) test::interpret(p, args);
        else jit::run_tiles(way == 1 ? kernel : large, args.data());
        same(c, wanted);
      }
    }
  }
}

TEST_CASE("attention's programs are the same by the interpreter and on tiles") {
  using Slots = AttentionSlot;
  for (int round = 0; round < 24; ++round) {
    AttentionKind kind;
    kind.storage = std::vector<Dtype>{Dtype::Float32, Dtype::Float64, Dtype::BFloat16}[size_t(below(3))];
    kind.causal = below(2), kind.dropout = below(3) == 0, kind.logsumexp = true;
    if (below(3) == 0) kind.mask = AttentionKind::Mask::added, kind.mask_type = kind.storage;
    const Dtype type = compute_dtype(kind.storage);
    const int64_t heads = 2, share = 1 + below(2), l = 1 + below(140), s = 1 + below(140), e = 1 + below(20), w = 1 + below(20);
    INFO(dtype_name(kind.storage) << " L " << l << " S " << s << " E " << e << " width " << w << " share " << share << " causal " << kind.causal << " dropout " << kind.dropout);
    Memory q(kind.storage, heads * l * e), k(kind.storage, heads * s * e), v(kind.storage, heads * s * w), mask(kind.mask_type, l * s), g(kind.storage, heads * l * w);
    std::vector<int64_t> q_at, k_at, v_at, mask_at{0, 0}, out_at;
    for (int64_t n = 0; n < heads; ++n) q_at.push_back(n * l * e), k_at.push_back(n * s * e), v_at.push_back(n * s * w), out_at.push_back(n * l * w);
    const auto table = [](std::vector<int64_t>& t) { return reinterpret_cast<Slot>(t.data()); };
    const double scale = 0.3, rate = 0.25, factor = 1 / (1 - rate);
    const auto number = [&](double x, Dtype d) { return d == Dtype::Float64 ? Slot(tracer::value_word(x)) : Slot(tracer::value_word(float(x))); };
    std::vector<Slot> common{q.slot(), k.slot(), v.slot(), mask.slot(), table(q_at), table(k_at), table(v_at), table(mask_at)};
    for (int64_t x : {e, int64_t(1), e, int64_t(1), w, int64_t(1), s, int64_t(1), heads, share, l, s, e, w}) common.push_back(Slot(x));
    for (Slot x : {number(scale, type), number(rate, Dtype::Float32), number(factor, type), Slot(7), Slot(3)}) common.push_back(x);
    REQUIRE(common.size() == size_t(Slots::count));
    const Program forward = attention_forward(kind), backward = attention_gradient(kind);
    CHECK(parse_program(forward.text()) == forward);
    CHECK(parse_program(backward.text()) == backward);
    const bool wide = uses_avx512();
    if (round % 3 == 0) use_avx512(false);
    Memory out[2] = {{kind.storage, heads * l * w, false}, {kind.storage, heads * l * w, false}}, sums[2] = {{type, heads * l * 2, false}, {type, heads * l * 2, false}};
    Memory dq[2] = {{type, heads * l * e, false}, {type, heads * l * e, false}}, dk[2] = {{type, heads * s * e, false}, {type, heads * s * e, false}}, dv[2] = {{type, heads * s * w, false}, {type, heads * s * w, false}};
    for (int way = 0; way < 2; ++way) {
      std::vector<Slot> args = common;
      args.insert(args.end(), {out[way].slot(), sums[way].slot()});
      way ? jit::run_tiles(jit::compile_tiles(forward), args.data()) : test::interpret(forward, args);
      args = common;
      args.insert(args.end(), {out[0].slot(), g.slot(), table(out_at), table(out_at), Slot(w), Slot(1), Slot(w), Slot(1), sums[0].slot(), dq[way].slot(), dk[way].slot(), dv[way].slot()});
      way ? jit::run_tiles(jit::compile_tiles(backward), args.data()) : test::interpret(backward, args);
    }
    use_avx512(wide);
    same(out[1], out[0]), same(sums[1], sums[0]), same(dq[1], dq[0]), same(dk[1], dk[0]), same(dv[1], dv[0]);
  }
}

// A running product of rows of numbers: carries that exchange, loops in loops, an inner extent that grows with the outer index.
TEST_CASE("loops carry, nest and end where they say") {
  ProgramBuilder b("triangle");
  const Value x = b.pointer(Dtype::Float32), y = b.pointer(Dtype::Float32, true), n = b.integer(), width = b.integer();
  b.axis(AxisKind::grid, b.integer_constant(2));
  const int outer = b.axis(AxisKind::loop, n), inner = b.axis(AxisKind::loop, b.index(outer)), lane = b.axis(AxisKind::block, width);
  const Value zero = b.constant(0, Dtype::Float32);
  const Value first = b.carry(outer, zero, {lane}), second = b.carry(outer, b.constant(1, Dtype::Float32), {lane});
  const Value sum = b.carry(inner, zero, {outer, lane});
  const Value at = b.add(b.mul(b.index(inner), width), b.index(lane));
  b.next(sum, b.add(sum, b.load(x, at)));
  b.next(first, second);
  b.next(second, b.add(first, b.last(sum)));
  b.store(y, b.add(b.mul(b.index(0), width), b.index(lane)), b.last(second));
  const Program p = b.finish();
  CHECK(parse_program(p.text()) == p);
  CHECK(has_tiles(p));
  for (int64_t turns : {0, 1, 2, 5})
    for (int64_t w : {1, 9, 40}) {
      Memory in(Dtype::Float32, 8 * w), wanted(Dtype::Float32, 2 * w, false), out(Dtype::Float32, 2 * w, false), tiles(Dtype::Float32, 2 * w, false);
      const auto at_of = [&](const Memory& m, int64_t i) { return reinterpret_cast<const float*>(m.bytes.data())[i]; };
      for (int64_t k = 0; k < w; ++k) {
        float one = 0, two = 1;
        for (int64_t t = 0; t < turns; ++t) {
          float s = 0;
          for (int64_t u = 0; u < t; ++u) s += at_of(in, u * w + k);
          const float next = one + s;
          one = two, two = next;
        }
        for (int64_t g = 0; g < 2; ++g) wanted.set(g * w + k, two);
      }
      test::interpret(p, {in.slot(), out.slot(), Slot(turns), Slot(w)});
      same(out, wanted);
      const Slot args[] = {in.slot(), tiles.slot(), Slot(turns), Slot(w)};
      jit::run_tiles(jit::compile_tiles(p), args);
      same(tiles, wanted);
    }
}

TEST_CASE("loops and dots: the verifier, and who refuses them") {
  const Program good = attention_forward({});
  const auto find = [&](Op op) {
    for (size_t k = 0; k < good.instrs.size(); ++k)
      if (good.instrs[k].op == op) return k;
    throw std::logic_error("no such instruction");
  };
  const size_t dot = find(Op::dot), carry = find(Op::carry), next = find(Op::next), last = find(Op::last);
  const std::vector<std::pair<const char*, std::function<void(Program&)>>> breaks = {
      {"contracted axis is a block axis", [&](Program& p) { p.instrs[dot].imm = 0; }},
      {"vary along the contracted axis", [&](Program& p) { p.instrs[dot].imm = 4; }},
      {"belongs to a loop", [&](Program& p) { p.instrs[carry].imm = 2 | 4 << 8; }},
      {"names the axes", [&](Program& p) { p.instrs[carry].imm |= 1u << 15; }},
      {"has one next", [&](Program& p) { p.instrs[next].in[0] = p.instrs[next + 1].op == Op::next ? p.instrs[next + 1].in[0] : Id(carry + 1); }},
      {"varies along its axes alone", [&](Program& p) { p.instrs[next].in[1] = Id(dot); }},
      {"last takes a carry", [&](Program& p) { p.instrs[last].in[0] = Id(dot); }},
      {"depends on more than arguments", [&](Program& p) { p.axes[0].extent = p.axes[2].extent; }},
  };
  for (const auto& [what, apply] : breaks) {
    Program p = good;
    apply(p);
    const std::string message = test::refusal(p);
    INFO("expected: " << what << "\ngot: " << message.substr(0, 200));
    CHECK(message.find(what) != std::string::npos);
  }
  CHECK_THROWS_WITH(jit::compile_x86(good), Catch::Contains("compile_tiles"));
  ProgramBuilder b("outer");  // a dot of vectors has one axis left
  const Value x = b.pointer(Dtype::Float32), y = b.pointer(Dtype::Float32, true), n = b.integer();
  const int i = b.axis(AxisKind::block, n), j = b.axis(AxisKind::block, n);
  const Value matrix = b.load(x, b.add(b.mul(b.index(i), n), b.index(j)));
  b.store(y, b.index(i), b.dot(matrix, b.load(x, b.index(j)), j));
  CHECK_THROWS_WITH(jit::compile_tiles(b.finish()), Catch::Contains("outer") && Catch::Contains("two axes"));
}
