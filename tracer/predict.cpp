// The strides that a deferred tensor will have, found from the trace without running it: what run_view, run_pointwise and
// their kin in the executor do, on strides alone. Views ask for it (is this reshape a view?), and is_contiguous().
#include <algorithm>
#include "tracer/layout.h"
#include "tracer/trace.h"

namespace frit::tracer {

namespace {
// A value without storage: extents and strides.
void start(const Trace& t, uint32_t n, Value& v) {
  v.dtype = t.nodes[n].result.dtype, v.rank = t.nodes[n].result.rank, v.offset = 0;
  t.sizes(n, v.extent);
}
void make_contiguous(Value& v) {
  int64_t step = 1;
  for (int i = v.rank; i-- > 0; step *= std::max<int64_t>(v.extent[i], 1)) v.stride[i] = step;
}
void predict(const Trace& t, uint32_t n, Value& out);

void predict_view(const Trace& t, uint32_t n, Value& out) {
  const Call& call = t.nodes[n].call;
  Value in{};
  predict(t, call.in[0], in);
  if (const auto l = view_layout(call, t.args.data() + call.arg, in)) std::copy_n(l->stride, out.rank, out.stride);
  else make_contiguous(out);
}
void predict(const Trace& t, uint32_t n, Value& out) {
  start(t, n, out);
  const Node& node = t.nodes[n];
  if (t.value[n]) {
    std::copy_n(t.value[n]->stride, out.rank, out.stride);
    return;
  }
  const RowKind kind = row(node.call.op).kind;
  if (kind == RowKind::view) return predict_view(t, n, out);
  if ((node.call.mode & in_place) || kind == RowKind::alias) return predict(t, node.call.in[0], out);
  if (kind == RowKind::pointwise || (kind == RowKind::copy && !node.call.attr)) {
    for (int k = 0; k < t.input_count(n); ++k) {
      const uint32_t in = t.input(n, k);
      if (in == scalar_operand || t.nodes[in].result.rank != out.rank) continue;
      Value like{};
      predict(t, in, like);
      if (!std::equal(out.extent, out.extent + out.rank, like.extent)) continue;
      ordered_strides(out.extent, out.rank, like, out.stride);
      return;
    }
  }
  make_contiguous(out);
}
}  // namespace

Strides predict_strides(const Trace& t, uint32_t n) {
  Value v{};
  predict(t, n, v);
  Strides s{};
  std::copy_n(v.stride, v.rank, s.stride);
  s.contiguous = v.contiguous();
  return s;
}
Strides strides_of(Cell* c) {
  Strides l{};
  if (c->value) {
    std::copy_n(c->value->stride, c->value->rank, l.stride);
    l.contiguous = c->value->contiguous();
    return l;
  }
  shape_of(c);  // throws when poisoned
  return predict_strides(*c->trace, c->node);
}

}  // namespace frit::tracer
