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

PreparedConvolution::PreparedConvolution(Trace& t, uint32_t n, Value& a, Value& b) : op_(t.nodes[n].call.op), c_(convolution_of(t, n)) {
  int64_t e[max_rank];
  t.sizes(n, e);
  const int rank = t.rank_of(n);
  out = ValueRef::take(new_value(t.nodes[n].result.dtype, e, rank));
  result_ = out->data();
  rows = e[0] * e[1], columns = rank > 3 ? e[2] * e[3] : e[2];
  const bool of_weight = op_ == Op::convolution_weight;
  inputs_[0] = of_weight && !rows_continue(a) ? contiguous_copy(a) : ValueRef::share(&a);
  inputs_[1] = !of_weight && !b.contiguous() ? contiguous_copy(b) : ValueRef::share(&b);
}
bool PreparedConvolution::tells_blocks() const { return jit::tells_blocks(op_, c_); }
void PreparedConvolution::run(Epilogue* then) const {
  count(&Counters::library_calls);
  convolution_x86(op_, c_, images_of(*inputs_[0]), images_of(*inputs_[1]), result_, then);
}
ValueRef run_convolution(Trace& t, uint32_t n, Value& a, Value& b) {
  Value* inputs[] = {&a, &b};
  if (!is_floating(t.nodes[n].result.dtype)) return interpret(t, n, inputs);
  PreparedConvolution convolution(t, n, a, b);
  convolution.run();
  return std::move(convolution.out);
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
