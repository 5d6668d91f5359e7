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
// The operand whose order of strides a pointwise result takes: the first of the result's shape.
uint32_t ordered_like(const Trace& t, uint32_t n) {
  const Result& r = t.nodes[n].result;
  for (int k = 0; k < t.input_count(n); ++k) {
    const uint32_t in = t.input(n, k);
    if (in == scalar_operand) continue;
    const Result& i = t.nodes[in].result;
    if (i.rank == r.rank && std::equal(r.size, r.size + r.rank, i.size, [&](SizeId a, SizeId b) { return a == b || t.extent[a] == t.extent[b]; })) return in;
  }
  return no_node;
}
void predict(const Trace& t, uint32_t n, Value& out) {
  start(t, n, out);
  bool ordered = false;  // dense, in the order of what is found
  for (uint32_t at = n;;) {
    const Node& node = t.nodes[at];
    const RowKind kind = kind_of(node.call.op);
    if (t.value[at]) {
      std::copy_n(t.value[at]->stride, out.rank, out.stride);
    } else if (kind == RowKind::view) {
      Value view{};
      start(t, at, view);
      predict_view(t, at, view);
      std::copy_n(view.stride, out.rank, out.stride);
    } else if ((node.call.mode & in_place) || kind == RowKind::alias) {
      at = node.call.in[0];
      continue;
    } else {
      const bool keeps = kind == RowKind::pointwise || (kind == RowKind::copy && !node.call.attr);
      if (const uint32_t like = keeps ? ordered_like(t, at) : no_node; like != no_node) {
        at = like, ordered = true;
        continue;
      }
      return make_contiguous(out);
    }
    break;
  }
  if (!ordered || out.contiguous()) return;
  Value order{};
  order.rank = out.rank;
  std::copy_n(out.extent, out.rank, order.extent);
  std::copy_n(out.stride, out.rank, order.stride);
  ordered_strides(out.extent, out.rank, order, out.stride);
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
  const Reading reading(c);
  if (c->value) {
    std::copy_n(c->value->stride, c->value->rank, l.stride);
    l.contiguous = c->value->contiguous();
    return l;
  }
  shape_of(c);  // throws when poisoned
  return predict_strides(*c->trace, c->node);
}

}  // namespace frit::tracer
