// Attention and its gradients in every type, layout, mask and mode, against the interpreter bit for bit; against the formula with the scores
// written out; and the memory that they take.
#include <catch2/catch.hpp>
#include <cmath>
#include "frit/frit.h"
#include "frit/nn/attention.h"
#include "jit/verify.h"
#include "runtime/cpu.h"
#include "runtime/error.h"
#include "runtime/launch.h"
#include "tests/support/op_harness.h"
#include "tracer/attention.h"

using namespace frit;
using namespace frit::testing;
using L = frit::testing::Layout;

namespace {
struct Setting {
  Sizes q, k, v, mask;
  tracer::AttentionCall call;
  std::string text;
};
// Lengths around the block's, head sizes around the registers', batches, groups, masks of any rank.
Setting draw(Random& r) {
  Setting s;
  const int64_t lengths[] = {0, 1, 2, 7, 16, 63, 64, 65, 100, 129, 200}, sizes[] = {0, 1, 3, 8, 16, 20, 33, 64, 70};
  const int64_t l = r.pick(lengths), e = r.pick(sizes), w = r.pick(sizes);
  int64_t n = r.below(3) ? r.pick(lengths) : l;
  const bool grouped = r.below(4) == 0;
  Sizes leading;
  for (int64_t k = r.below(3); k > 0; --k) leading.push_back(1 + r.below(2));
  Sizes shared = leading;
  if (grouped) {
    leading.push_back(4), shared.push_back(r.below(2) ? 2 : 1);
    s.call.attr |= tracer::grouped_attention;
  }
  s.q = leading, s.k = shared, s.v = shared;
  s.q.insert(s.q.end(), {l, e}), s.k.insert(s.k.end(), {n, e}), s.v.insert(s.v.end(), {n, w});
  if (r.below(3) == 0) s.call.attr |= tracer::causal_attention;
  if (r.below(3) == 0) {
    Sizes scores = leading;
    scores.insert(scores.end(), {l, n});
    s.mask = broadcastable(r, scores);
    if (s.mask.empty()) s.mask = {n};
  }
  if (r.below(4) == 0) s.call.attr |= tracer::attention_dropout, s.call.dropout = 0.4, s.call.seed = 7, s.call.stream = uint64_t(r.below(9));
  s.call.scale = 0.1 * double(1 + r.below(9));
  s.text = sizes_text(s.q) + " " + sizes_text(s.k) + " " + sizes_text(s.v) + " mask " + sizes_text(s.mask) + " form " + std::to_string(s.call.attr);
  return s;
}
std::vector<Var> tensors(Random& r, const Setting& s, Dtype d, Data data) {
  std::vector<Var> in;
  for (const Sizes* e : {&s.q, &s.k, &s.v}) in.push_back(make_tensor(r, d, *e, random_layout(r), -2, 2, data));
  if (!s.mask.empty()) in.push_back(make_tensor(r, r.below(2) ? kBool : r.below(2) ? d : compute_dtype(d), s.mask, random_layout(r), -2, 2, data));
  return in;
}
void cross(Dtype d, RunMode mode, int count) {
  INFO(dtype_name(d) << " " << mode_name(mode) << " seed " << run_seed());
  Random r(std::string("attention ") + dtype_name(d));
  Checked checked(mode);
  for (int k = 0; k < count; ++k) {
    const Setting s = draw(r);
    INFO(s.text);
    const std::vector<Var> in = tensors(r, s, d, k % 4 == 0 ? Data::hostile : Data::domain);
    std::vector<Var> kept;
    for (int i = 0; i < 3; ++i) kept.push_back(Tensor(in[size_t(i)]).detach().requires_grad_());
    if (in.size() > 3) kept.push_back(in[3]);
    const Var out = tracer::attention(kept, s.call);
    const Var g = make_tensor(r, d, tracer::sizes_of(out), random_layout(r), -1, 1, Data::domain);
    const autograd::variable_list given = autograd::grad({Tensor(out)}, {Tensor(kept[0]), Tensor(kept[1]), Tensor(kept[2])}, {Tensor(g)});
    for (const Tensor& t : given) kept.push_back(t);
    kept.push_back(tracer::attention(in, s.call));
    synchronize();
    tally().combinations += 2;
  }
}
}  // namespace

TEST_CASE("ops: attention and its gradients") {
  for (RunMode mode : all_modes)
    for (Dtype d : floating_dtypes) cross(d, mode, mode == RunMode::eager ? 24 : 8);
  require_covered(rows_where([](const OpRow& row) { return row.kind == RowKind::attention || row.kind == RowKind::companion; }));
  report("attention");
}

TEST_CASE("ops: attention with narrower registers, and by one thread") {
  const bool wide = uses_avx512();
  const int threads = num_threads();
  use_avx512(false);
  set_num_threads(1);
  cross(kFloat32, RunMode::eager, 12);
  cross(kFloat64, RunMode::eager, 10);
  use_avx512(wide);
  set_num_threads(threads);
  report("attention, AVX2");
}

namespace {
struct Inputs {
  Tensor q, k, v, g;
};
Inputs inputs(const std::string& name, const Sizes& q, const Sizes& k, Dtype d) {
  Random r(name);
  const auto make = [&](const Sizes& s) { return Tensor(make_tensor(r, d, s, L::contiguous, -2, 2, Data::domain)); };
  return {make(q).requires_grad_(), make(k).requires_grad_(), make(k).requires_grad_(), make(q)};
}
// The scores written out.
Tensor written(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& allowed, double scale) {
  return where(allowed, q.matmul(k.mT()) * scale, Scalar(-INFINITY)).softmax(-1).matmul(v);
}
}  // namespace

TEST_CASE("ops: attention's gradients are those of the formula written out, fused and recorded") {
  for (bool recorded : {false, true})
    for (RunMode mode : all_modes) {
      InMode scope(mode);
      const Inputs in = inputs("written", {2, 3, 70, 9}, {2, 3, 70, 9}, kFloat64);
      const Tensor allowed = arange(70).unsqueeze(1).ge(arange(70));
      const Tensor out = scaled_dot_product_attention(in.q, in.k, in.v, {}, 0.0, true), plain = written(in.q, in.k, in.v, allowed, 1.0 / 3);
      const auto a = autograd::grad({out}, {in.q, in.k, in.v}, {in.g}, std::nullopt, recorded), b = autograd::grad({plain}, {in.q, in.k, in.v}, {in.g});
      INFO(mode_name(mode) << (recorded ? ", recorded" : ""));
      CHECK(out.allclose(plain, 1e-12, 1e-12));
      for (size_t i = 0; i < 3; ++i) CHECK(a[i].allclose(b[i], 1e-10, 1e-11));
    }
}

// A row without any key that counts: all its scores are one number, far below, and every key has its share.
TEST_CASE("ops: attention under masks that put whole rows far below") {
  for (double far : {-1e4, -1e9, -1e30}) {
    INFO(far);
    manual_seed(11);
    Tensor in[3], same[3];
    for (int k = 0; k < 3; ++k) in[k] = randn({2, 5, 8}).requires_grad_(true), same[k] = in[k].detach().clone().requires_grad_(true);
    Tensor mask = zeros({5, 5});
    mask.select(0, 2).fill_(far), mask.select(0, 4).narrow(0, 1, 3).fill_(far);
    const Tensor weights = randn({2, 5, 8});
    (scaled_dot_product_attention(in[0], in[1], in[2], mask) * weights).sum().backward();
    (matmul(softmax(matmul(same[0], same[1].transpose(-2, -1)) * (1 / std::sqrt(8.0)) + mask, -1), same[2]) * weights).sum().backward();
    for (int k = 0; k < 3; ++k) CHECK(in[k].grad().allclose(same[k].grad(), 1e-4, 1e-5));
  }
}
TEST_CASE("ops: attention does not depend on threads") {
  const int threads = num_threads();
  std::vector<Var> first;
  for (int n : {1, 2, 5}) {
    set_num_threads(n);
    manual_seed(3);
    const Inputs in = inputs("threads", {3, 4, 200, 24}, {3, 4, 150, 24}, kFloat32);
    const Tensor out = scaled_dot_product_attention(in.q, in.k, in.v, {}, 0.2);
    std::vector<Var> all{out};
    for (const Tensor& t : autograd::grad({out}, {in.q, in.k, in.v}, {in.g})) all.push_back(t);
    if (first.empty()) first = all;
    for (size_t i = 0; i < all.size(); ++i) CHECK(same_bits(all[i], first[i]));
  }
  set_num_threads(threads);
}

TEST_CASE("ops: attention takes no memory for its scores") {
  for (RunMode mode : all_modes) {
    InMode scope(mode);
    const int64_t length = 4096, row = length * 16 * 4;  // bytes of each operand
    const Inputs in = inputs("memory", {1, 1, length, 16}, {1, 1, length, 16}, kFloat32);
    synchronize();
    memory::reset_peak();
    const int64_t before = memory::stats(kCPU).current;
    const Tensor out = scaled_dot_product_attention(in.q, in.k, in.v, {}, 0.1, true);
    const auto given = autograd::grad({out}, {in.q, in.k, in.v}, {in.g});
    synchronize();
    INFO(mode_name(mode));
    CHECK(memory::stats(kCPU).peak - before <= 6 * row);  // the result, its sums, three gradients
    CHECK(given[0].isfinite().all().item<bool>());
  }
}

TEST_CASE("ops: attention in a checkpoint, a frozen step, a verified run and an explanation") {
  const Inputs in = inputs("wirings", {2, 2, 65, 8}, {2, 2, 65, 8}, kFloat32);
  const auto block = [&](const Tensor& q) { return scaled_dot_product_attention(q.sin(), in.k, in.v, {}, 0.0, true).tanh(); };
  const Tensor plain = autograd::grad({block(in.q)}, {in.q}, {in.g})[0];
  const auto saved = autograd::checkpoint([&](const autograd::variable_list& x) -> autograd::variable_list { return {block(x[0])}; }, {in.q});
  CHECK(same_bits(autograd::grad({saved[0]}, {in.q}, {in.g})[0], plain));
  auto step = compile([&](const Tensor& q, const Tensor& g) { return autograd::grad({block(q)}, {q}, {g})[0]; }, jit::Options().frozen(true));
  for (int k = 0; k < 5; ++k) CHECK(same_bits(step(in.q, in.g), plain));
  jit::set_verify(1, true, "");
  const int64_t before = jit::verified_runs();
  {
    auto checked = compile([&](const Tensor& q, const Tensor& g) { return autograd::grad({block(q)}, {q, in.k}, {g})[1] + 1.0; });
    checked(in.q, in.g);
  }
  jit::set_verify(0, false, "");
  CHECK(jit::verified_runs() > before);
  CHECK(jit::verify_reports().empty());
  const std::string text = jit::explain([&] { return autograd::grad({block(in.q)}, {in.q}, {in.g})[0]; });
  CHECK_THAT(text, Catch::Contains("attention") && Catch::Contains("attention_gradient"));
}
