// Lowering of single ops: see lower.h for the specs and the order of arguments. Each function writes one block program;
// start at lower_elements.
#include "jit/lower.h"
#include "runtime/error.h"
#include "tracer/random.h"

namespace frit::jit {

using namespace kernels;
using tracer::RowKind;
using tracer::row;

namespace {

std::string kernel_name(Op op, std::initializer_list<Dtype> types, const char* suffix) {
  std::string s = tracer::op_name(op);
  for (Dtype d : types) s += std::string("_") + dtype_short_name(d);
  return s + suffix;
}

// The coordinates of a linearised grid index, outermost first.
std::vector<Value> coordinates(ProgramBuilder& b, Value linear, const std::vector<Value>& inner_extents) {
  std::vector<Value> c(inner_extents.size() + 1);
  for (size_t i = inner_extents.size(); i > 0; --i) {
    c[i] = b.apply(Prim::rem, Dtype::Int64, {linear, inner_extents[i - 1]});
    linear = b.apply(Prim::div, Dtype::Int64, {linear, inner_extents[i - 1]});
  }
  c[0] = linear;
  return c;
}
Value add_term(ProgramBuilder& b, Value sum, Value index, Value stride) {
  const Value term = stride.id == no_value ? index : b.mul(index, stride);
  return sum.id == no_value ? term : b.add(sum, term);
}
Value or_zero(ProgramBuilder& b, Value v) { return v.id == no_value ? b.integer_constant(0) : v; }

// What one element of a source or a pointwise row computes, as a function of index, numbers and inputs.
scalar::Function element_function(const ElementSpec& s) {
  if (row(s.op).kind == RowKind::pointwise) return tracer::pointwise_function(s.op, s.compute);
  scalar::Builder b;
  switch (s.op) {
    case Op::copy: return tracer::copy_function(s.memory[1], s.memory[0]);
    case Op::full: return b.finish({b.param(0, s.compute)});
    case Op::arange: return tracer::arange_function(tracer::Category(s.category) == tracer::Category::floating, s.memory[0]);
    case Op::random_uniform:
    case Op::random_normal:
    case Op::random_integer: return tracer::random_function(s.op, s.memory[0]);
    default: throw InternalError(std::string("no element function for ") + tracer::op_name(s.op));
  }
}

}  // namespace

std::vector<Dtype> param_types(const scalar::Function& f) {
  std::vector<Dtype> types;
  for (const scalar::Node& n : f.nodes) {
    if (n.prim != Prim::param) continue;
    if (types.size() <= n.imm) types.resize(n.imm + 1, Dtype::Int64);
    types[n.imm] = n.dtype;
  }
  return types;
}

Program lower_elements(const ElementSpec& s) {
  const auto kind = row(s.op).kind;
  const bool source = kind == RowKind::source;
  const int inputs = source ? 0 : row(s.op).inputs;
  ProgramBuilder b(kernel_name(s.op, {s.memory[0], s.compute}, source ? "_fill" : ""));
  const scalar::Function f = element_function(s);

  std::vector<Value> pointer{b.pointer(s.memory[0], true)};
  std::vector<int> operand{0};  // of each pointer
  for (int k = 0; k < inputs; ++k)
    if (!(s.numbers >> k & 1)) pointer.push_back(b.pointer(s.memory[k + 1])), operand.push_back(k + 1);
  std::vector<Value> number(inputs), param;
  for (int k = 0; k < inputs; ++k)
    if (s.numbers >> k & 1) number[k] = b.number(s.memory[k + 1]);  // a number comes in the type that the row takes
  if (source)
    for (Dtype d : param_types(f)) param.push_back(b.number(d));
  const Value block_extent = b.integer();
  std::vector<Value> inner_extents;
  Value grid;
  if (s.outer) grid = b.integer();
  for (int i = 1; i < s.outer; ++i) inner_extents.push_back(b.integer());
  std::vector<std::vector<Value>> outer_stride(pointer.size());
  std::vector<Value> inner_stride(pointer.size());
  for (size_t p = 0; p < pointer.size(); ++p) {
    for (int i = 0; i < s.outer; ++i) outer_stride[p].push_back(b.integer());
    if (s.step[operand[p]] == Step::strided) inner_stride[p] = b.integer();
  }

  std::vector<Value> at;
  if (s.outer) at = coordinates(b, b.index(b.axis(AxisKind::grid, grid)), inner_extents);
  const Value lane = b.index(b.axis(AxisKind::block, block_extent));
  const auto offset = [&](size_t p) {
    Value sum;
    for (int i = 0; i < s.outer; ++i) sum = add_term(b, sum, at[i], outer_stride[p][i]);
    if (s.step[operand[p]] != Step::none) sum = add_term(b, sum, lane, inner_stride[p]);
    return or_zero(b, sum);
  };
  std::vector<bool> used(std::max(inputs, 1));
  for (const scalar::Node& n : f.nodes)
    if (n.prim == Prim::input) used[n.imm] = true;
  std::vector<Value> in(inputs);
  for (int k = 0; k < inputs; ++k) {
    const bool condition = row(s.op).type == tracer::TypeRule::choice && k == 0;
    const Dtype wanted = s.op == Op::copy ? compute_dtype(s.memory[1]) : condition ? Dtype::Bool : s.compute;
    if (s.numbers >> k & 1) in[k] = number[k];
    else if (!used[k]) in[k] = b.constant(0, wanted);
    else {
      size_t p = 1;
      while (operand[p] != k + 1) ++p;
      in[k] = b.convert(b.load(pointer[p], offset(p)), wanted);
    }
  }
  if (source) in = {lane};
  const Value result = b.expand(f, in, param)[0];
  b.store(pointer[0], offset(0), b.convert(result, compute_dtype(s.memory[0])));
  return b.finish();
}

Dtype accumulator_dtype(Op op, Dtype in) {
  switch (op) {
    case Op::sum:
    case Op::prod: return is_floating(in) ? compute_dtype(in) : Dtype::Int64;
    case Op::any:
    case Op::all: return Dtype::Bool;
    default: return in == Dtype::Bool ? Dtype::Int32 : compute_dtype(in);
  }
}

Program lower_reduce(const ReduceSpec& s) {
  const char* suffix[] = {"_row", "_strided_row", "_columns", "_chunks"};
  ProgramBuilder b(kernel_name(s.op, {s.out, s.in}, suffix[int(s.layout)]));
  const bool columns = s.layout == ReduceLayout::columns, chunks = s.layout == ReduceLayout::chunks;
  const Value out = b.pointer(s.out, true), in = b.pointer(s.in);
  const Value reduced = b.integer();
  Value width, grid;
  if (columns) width = b.integer();
  if (s.outer) grid = b.integer();
  std::vector<Value> inner_extents, strides;
  for (int i = 1; i < s.outer; ++i) inner_extents.push_back(b.integer());
  for (int i = 0; i < s.outer; ++i) strides.push_back(b.integer());
  Value step;
  if (s.layout == ReduceLayout::strided_row || columns) step = b.integer();

  Value base, out_at;
  if (s.outer) {
    out_at = b.index(b.axis(AxisKind::grid, grid));
    const std::vector<Value> at = coordinates(b, out_at, inner_extents);
    for (int i = 0; i < s.outer; ++i) base = add_term(b, base, at[i], strides[i]);
  }
  int axis;
  Value k, mask;
  if (chunks) {
    // The chunk is a grid axis of its own; results lie as [kept, chunk].
    const Value size = b.integer_constant(1024);
    const Value last = b.add(reduced, b.integer_constant(1023));
    const Value count = b.apply(Prim::div, Dtype::Int64, {last, size});
    const Value chunk = b.index(b.axis(AxisKind::grid, count));
    axis = b.axis(AxisKind::block, size);
    k = b.add(b.mul(chunk, size), b.index(axis));
    mask = b.apply(Prim::lt, Dtype::Bool, {k, reduced});
    out_at = s.outer ? b.add(b.mul(out_at, count), chunk) : chunk;
  } else {
    axis = b.axis(AxisKind::block, reduced);
    k = b.index(axis);
  }
  Value offset = add_term(b, base, k, step);
  if (columns) {
    const Value lane = b.index(b.axis(AxisKind::block, width));
    offset = b.add(offset, lane);
    out_at = s.outer ? b.add(b.mul(out_at, width), lane) : lane;
  }
  const Dtype acc = accumulator_dtype(s.op, s.in);
  const Value v = b.convert(b.load(in, offset, mask), acc);
  Reduce kind;
  switch (s.op) {
    case Op::sum: kind = Reduce::sum; break;
    case Op::prod: kind = Reduce::prod; break;
    case Op::amax: kind = Reduce::max; break;
    case Op::amin: kind = Reduce::min; break;
    case Op::argmax: kind = Reduce::argmax; break;
    case Op::argmin: kind = Reduce::argmin; break;
    case Op::any: kind = Reduce::any; break;
    default: kind = Reduce::all; break;
  }
  const Value r = b.reduce(kind, v, axis, mask, s.pairwise ? Order::pairwise : Order::lanes);
  b.store(out, or_zero(b, out_at), b.convert(r, compute_dtype(s.out)));
  return b.finish();
}

Program lower_index(const IndexSpec& s) {
  const bool gather = s.op == Op::gather;
  ProgramBuilder b(kernel_name(s.op, {s.memory, s.index}, s.block_is_indexed ? "_line" : ""));
  const Value out = b.pointer(s.memory, true), index = b.pointer(s.index), other = b.pointer(s.memory);
  const Value extent = b.integer(), stride = b.integer(), block_extent = b.integer();
  Value grid, sequential;
  if (s.outer) grid = b.integer();
  if (!gather) sequential = b.integer();
  std::vector<Value> inner_extents;
  for (int i = 1; i < s.outer; ++i) inner_extents.push_back(b.integer());
  std::vector<Value> outer_stride[3];
  Value along[3], step[3];
  for (int p = 0; p < 3; ++p) {
    for (int i = 0; i < s.outer; ++i) outer_stride[p].push_back(b.integer());
    if (!gather && p > 0) along[p] = b.integer();
    if (s.step[p] == Step::strided) step[p] = b.integer();
  }
  std::vector<Value> at;
  if (s.outer) at = coordinates(b, b.index(b.axis(AxisKind::grid, grid)), inner_extents);
  Value turn;
  if (!gather) turn = b.index(b.axis(AxisKind::sequential, sequential));
  const Value lane = b.index(b.axis(AxisKind::block, block_extent));
  const auto offset = [&](int p) {
    Value sum;
    for (int i = 0; i < s.outer; ++i) sum = add_term(b, sum, at[i], outer_stride[p][i]);
    if (along[p].id != no_value) sum = add_term(b, sum, turn, along[p]);
    if (s.step[p] != Step::none) sum = add_term(b, sum, lane, step[p]);
    return or_zero(b, sum);
  };
  const Value raw = b.convert(b.load(index, offset(1)), Dtype::Int64);
  const Value negative = b.apply(Prim::lt, Dtype::Bool, {raw, b.integer_constant(0)});
  const Value position = b.apply(Prim::select, Dtype::Int64, {negative, b.add(raw, extent), raw});
  const Value moved = b.mul(position, stride);
  if (gather) {
    b.store(out, offset(0), b.load(other, b.add(offset(2), moved)));
  } else {
    const Value target = b.add(offset(0), moved);
    Value v = b.load(other, offset(2));
    if (s.op == Op::scatter_add) {
      const Value old = b.load(out, target);
      v = s.memory == Dtype::Bool ? b.apply(Prim::bit_or, Dtype::Bool, {old, v}) : b.add(old, v);
    }
    b.store(out, target, v);
  }
  return b.finish();
}

}  // namespace frit::jit
