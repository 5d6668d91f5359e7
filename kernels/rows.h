// What the row templates (softmax.h, norms.h) share: one instance a row, its elements along a block axis, memory in order.
#pragma once
#include "kernels/program.h"
#include "tracer/op_table.h"

namespace frit::kernels {

// Parameters: pointers and numbers as they are declared, then the number of columns and of rows (finish them with `start`).
struct RowBuilder : ProgramBuilder {
  const Dtype storage, type;  // in memory; in which it computes
  int lanes = 0;              // the block axis
  Value row, lane, columns, at;  // at: the element's place in a matrix in order

  RowBuilder(const char* name, Dtype d) : ProgramBuilder(name), storage(d), type(compute_dtype(d)) {}
  Value in() { return pointer(storage); }
  Value out() { return pointer(storage, true); }
  void start() {
    columns = integer();
    const Value rows = integer();
    row = index(axis(AxisKind::grid, rows));
    lanes = axis(AxisKind::block, columns);
    lane = index(lanes);
    at = add(mul(row, columns), lane);
  }
  Value sub(Value a, Value b) { return apply(Prim::sub, type, {a, b}); }
  Value div(Value a, Value b) { return apply(Prim::div, type, {a, b}); }
  Value neg(Value a) { return apply(Prim::neg, type, {a}); }
  Value square(Value a) { return mul(a, a); }
  Value pick(Value c, Value a, Value b) { return apply(Prim::select, dtype(a), {c, a, b}); }
  Value call(tracer::Op op, Value a) { return expand(tracer::pointwise_function(op, type), {a}, {})[0]; }
  Value exp(Value a) { return call(tracer::Op::exp, a); }
  Value log(Value a) { return call(tracer::Op::log, a); }
  Value sum(Value a) { return reduce(Reduce::sum, a, lanes); }
  Value greatest(Value a) { return reduce(Reduce::max, a, lanes); }
  Value mean(Value a) { return div(sum(a), convert(columns, type)); }
};

}  // namespace frit::kernels
