// Tier 0's convolutions and pooling.
#include "jit/execute_parts.h"
#include "jit/x86/convolution.h"
#include "jit/x86/pool.h"
#include "runtime/stats.h"

namespace frit::jit {

using namespace tracer;

namespace {
ValueRef contiguous_copy(Value& v) {
  ValueRef c = ValueRef::take(new_value(v.dtype, v.extent, v.rank));
  copy_values(v, *c);
  return c;
}
bool rows_continue(const Value& v) {
  return v.rank == 3 || v.extent[2] == 1 || v.extent[3] == 1 || v.stride[2] == v.extent[3] * v.stride[3];
}
}  // namespace

ValueRef run_convolution(Trace& t, uint32_t n, Value& a, Value& b) {
  Value* inputs[] = {&a, &b};
  const Node& node = t.nodes[n];
  if (!is_floating(node.result.dtype)) return interpret(t, n, inputs);
  int64_t e[max_rank];
  t.sizes(n, e);
  ValueRef out = ValueRef::take(new_value(node.result.dtype, e, t.rank_of(n))), held;
  const bool of_weight = node.call.op == Op::convolution_weight;
  if (of_weight && !rows_continue(a)) held = contiguous_copy(a), inputs[0] = held.get();
  if (!of_weight && !b.contiguous()) held = contiguous_copy(b), inputs[1] = held.get();
  count(&Counters::library_calls);
  convolution_x86(node.call.op, convolution_of(t, n), images_of(*inputs[0]), images_of(*inputs[1]), out->data());
  return out;
}
ValueRef run_pool(Trace& t, uint32_t n, Value& in) {
  const Node& node = t.nodes[n];
  int64_t e[max_rank];
  t.sizes(n, e);
  ValueRef out = ValueRef::take(new_value(node.result.dtype, e, t.rank_of(n)));
  count(&Counters::library_calls);
  pool_x86(node.call.op == Op::pool_argmax, pooling_of(t, n), images_of(in), out->data());
  return out;
}

}  // namespace frit::jit
