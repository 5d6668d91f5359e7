// Attention and its gradients in every type, layout, mask and mode, against the interpreter bit for bit; against the formula with the scores
// written out; and the memory that they take.
#include <catch2/catch.hpp>
#include <cmath>
#include "frit/nn/attention.h"
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
    for (Dtype d : floating_dtypes) cross(d, mode, mode == RunMode::eager ? 40 : 12);
  require_covered(rows_where([](const OpRow& row) { return row.kind == RowKind::attention || row.kind == RowKind::companion; }));
  report("attention");
}

TEST_CASE("ops: attention with narrower registers, and by one thread") {
  const bool wide = uses_avx512();
  const int threads = num_threads();
  use_avx512(false);
  set_num_threads(1);
  cross(kFloat32, RunMode::eager, 20);
  cross(kFloat64, RunMode::eager, 10);
  use_avx512(wide);
  set_num_threads(threads);
  report("attention, AVX2");
}
