// Tier 0's reductions: the input's axes are brought to kept axes and one reduced axis, by views where strides allow and by
// one copy where they do not (the order of additions depends on indices only, so the copy changes no bit). Long rows with
// few results are reduced in two launches, chunk by chunk, so that threads share them. Start at run_reduce.
#include <algorithm>
#include "jit/execute_parts.h"

namespace frit::jit {

using namespace tracer;
using kernels::Slot;

namespace {
struct Axes {
  int kept = 0;
  int64_t extent[max_rank], stride[max_rank];  // kept, outermost first
  int64_t reduced = 1, step = 1;
};

// False when the reduced axes do not merge to one.
bool describe(const Value& in, uint64_t axes, Axes& a) {
  bool first = true;
  for (int i = in.rank; i-- > 0;) {
    if (!(axes >> i & 1) || in.extent[i] == 1) continue;
    if (a.reduced == 0 || in.extent[i] == 0) a.reduced = 0, a.step = 1, first = false;
    else if (first) a.reduced = in.extent[i], a.step = in.stride[i], first = false;
    else if (in.stride[i] == a.step * a.reduced) a.reduced *= in.extent[i];
    else return false;
  }
  for (int i = 0; i < in.rank; ++i) {
    if (axes >> i & 1 || in.extent[i] == 1) continue;
    if (a.kept && a.stride[a.kept - 1] == in.stride[i] * in.extent[i]) {
      a.extent[a.kept - 1] *= in.extent[i];
      a.stride[a.kept - 1] = in.stride[i];
    } else {
      a.extent[a.kept] = in.extent[i], a.stride[a.kept++] = in.stride[i];
    }
  }
  return true;
}

void launch_reduce(ReduceSpec spec, const Axes& a, const void* in, void* out, int64_t chunk_count) {
  Slot slot[32];
  int count = 0;
  const auto push = [&](int64_t v) { slot[count++] = Slot(v); };
  const bool columns = spec.layout == ReduceLayout::columns;
  const int outer = a.kept - columns;
  spec.outer = uint8_t(outer);
  int64_t instances = 1;
  for (int i = 0; i < outer; ++i) instances *= a.extent[i];
  push(int64_t(out));
  push(int64_t(in));
  push(a.reduced);
  if (columns) push(a.extent[outer]);
  if (outer) push(instances);
  for (int i = 1; i < outer; ++i) push(a.extent[i]);
  for (int i = 0; i < outer; ++i) push(a.stride[i]);
  if (spec.layout == ReduceLayout::strided_row || columns) push(a.step);
  const int64_t lanes = columns ? a.extent[outer] : spec.layout == ReduceLayout::chunks ? std::min<int64_t>(a.reduced, 1024) : a.reduced;
  launch(find_kernel(spec), slot, instances * chunk_count, lanes, columns ? a.reduced : 1);
}
}  // namespace

ValueRef run_reduce(Trace& t, uint32_t n, Value& in) {
  const Node& node = t.nodes[n];
  int64_t e[max_rank];
  t.sizes(n, e);
  ValueRef out = ValueRef::take(new_value(node.result.dtype, e, node.result.rank));
  const int64_t results = out->numel();
  if (results == 0) return out;
  Axes a;
  ValueRef held;
  if (!describe(in, node.call.attr, a)) {
    // Kept axes first, reduced axes last, as a contiguous copy.
    ValueRef order = ValueRef::take(new_alias(in, in.rank));
    int k = 0;
    uint64_t last = 0;
    for (int turn = 0; turn < 2; ++turn)
      for (int i = 0; i < in.rank; ++i)
        if (int(node.call.attr >> i & 1) == turn) {
          if (turn) last |= uint64_t(1) << k;
          order->extent[k] = in.extent[i], order->stride[k++] = in.stride[i];
        }
    held = ValueRef::take(new_value(in.dtype, order->extent, order->rank));
    copy_values(*order, *held);
    a = Axes{};
    describe(*held, last, a);
  }
  const Value& source = held ? *held : in;
  ReduceSpec spec;
  spec.op = node.call.op, spec.in = in.dtype, spec.out = node.result.dtype;
  const bool indices = spec.op == Op::argmax || spec.op == Op::argmin;
  const bool row = a.step == 1 || a.reduced == 1;
  if (!row && a.kept && a.stride[a.kept - 1] == 1 && a.extent[a.kept - 1] >= 4) spec.layout = ReduceLayout::columns;
  else spec.layout = row ? ReduceLayout::row : ReduceLayout::strided_row;
  const int64_t chunk_count = (a.reduced + 1023) / 1024;
  if (spec.layout == ReduceLayout::row && !indices && results < 8 && chunk_count >= 64) {
    const Dtype acc = accumulator_dtype(spec.op, spec.in);
    const int64_t partial_extents[] = {results, chunk_count};
    ValueRef partial = ValueRef::take(new_value(acc, partial_extents, 2));
    ReduceSpec first = spec;
    first.out = acc, first.layout = ReduceLayout::chunks;
    launch_reduce(first, a, source.data(), partial->data(), chunk_count);
    ReduceSpec second = spec;
    second.in = acc, second.pairwise = true;
    Axes b;
    b.kept = results > 1, b.extent[0] = results, b.stride[0] = chunk_count, b.reduced = chunk_count;
    launch_reduce(second, b, partial->data(), out->data(), 1);
    return out;
  }
  launch_reduce(spec, a, source.data(), out->data(), 1);
  return out;
}

}  // namespace frit::jit
