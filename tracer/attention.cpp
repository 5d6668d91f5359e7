// The geometry of an attention node: see attention.h.
#include "tracer/attention.h"
#include <bit>

namespace frit::tracer {

namespace {
// Where a value's matrices lie for each point of the leading extents (aligned right; axes of extent 1 repeat).
AttentionProblem::Matrix matrix_of(const Value& v, const int64_t* leading, int count) {
  AttentionProblem::Matrix m{v.rank > 1 && v.extent[v.rank - 2] != 1 ? v.stride[v.rank - 2] : 0, v.rank > 0 && v.extent[v.rank - 1] != 1 ? v.stride[v.rank - 1] : 0, {}};
  int64_t total = 1;
  for (int i = 0; i < count; ++i) total *= leading[i];
  m.at.resize(size_t(total));
  for (int64_t n = 0; n < total; ++n) {
    int64_t rest = n, offset = 0;
    for (int i = count; i-- > 0;) {
      const int64_t at = rest % leading[i];
      rest /= leading[i];
      if (const int j = i - (count + 2 - v.rank); j >= 0 && v.extent[j] != 1) offset += at * v.stride[j];
    }
    m.at[size_t(n)] = offset;
  }
  return m;
}
}  // namespace

AttentionProblem attention_problem(const Trace& t, uint32_t n, Value* const* inputs) {
  const Call& call = t.nodes[n].call;
  const bool gradient = call.op == Op::attention_gradient;
  const Value &q = *inputs[0], &k = *inputs[1], &v = *inputs[2];
  const int leading = q.rank - 2, mask = gradient ? 5 : 3;
  AttentionProblem p;
  p.storage = q.dtype, p.compute = compute_dtype(q.dtype);
  p.causal = call.attr & causal_attention, p.dropout = call.attr & attention_dropout;
  p.queries = q.extent[leading], p.keys = k.extent[leading], p.depth = q.extent[leading + 1], p.width = v.extent[leading + 1];
  for (int i = 0; i < leading; ++i) p.instances *= q.extent[i];
  if (call.attr & grouped_attention) p.share = q.extent[leading - 1] / std::max<int64_t>(1, k.extent[leading - 1]);
  const uint64_t* args = t.args.data() + call.arg;
  p.scale = std::bit_cast<double>(args[0]), p.rate = std::bit_cast<double>(args[1]);
  p.seed = args[2], p.stream = args[3];
  p.query = matrix_of(q, q.extent, leading), p.key = matrix_of(k, k.extent, leading), p.value = matrix_of(v, v.extent, leading);
  p.mask = AttentionProblem::Mask::none;
  if (t.input_count(n) > mask) {
    p.mask = inputs[mask]->dtype == Dtype::Bool ? AttentionProblem::Mask::choice : AttentionProblem::Mask::added;
    p.masks = matrix_of(*inputs[mask], q.extent, leading);
  }
  if (gradient) p.result = matrix_of(*inputs[3], q.extent, leading), p.gradient = matrix_of(*inputs[4], q.extent, leading);
  return p;
}

}  // namespace frit::tracer
