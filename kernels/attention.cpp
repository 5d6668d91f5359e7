// Attention as block programs: see attention.h. Axes and what both programs share are in Frame; start at attention_forward.
#include "kernels/attention.h"
#include <limits>
#include "tracer/attention.h"
#include "tracer/op_table.h"
#include "tracer/random.h"

namespace frit::kernels {

namespace {
using Slots = AttentionSlot;
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Frame : ProgramBuilder {
  const AttentionKind& kind;
  const Dtype type;
  Value slot[size_t(Slots::count)];

  Frame(const char* name, const AttentionKind& k) : ProgramBuilder(name), kind(k), type(compute_dtype(k.storage)) {
    for (size_t s = 0; s < size_t(Slots::count); ++s) slot[s] = parameter(Slots(s));
  }
  Value parameter(Slots s) {
    if (s <= Slots::value) return pointer(kind.storage);
    if (s == Slots::mask) return pointer(kind.mask_type);
    if (s <= Slots::mask_at) return pointer(Dtype::Int64);
    if (s < Slots::scale) return integer();
    return number(s == Slots::rate ? Dtype::Float32 : s >= Slots::seed ? Dtype::Int64 : type);
  }
  Value operator[](Slots s) const { return slot[size_t(s)]; }
  Value whole(int64_t v) { return integer_constant(v); }
  Value real(double v) { return constant(v, type); }
  Value sub(Value a, Value b) { return apply(Prim::sub, dtype(a), {a, b}); }
  Value div(Value a, Value b) { return apply(Prim::div, dtype(a), {a, b}); }
  Value same(Value a, Value b) { return apply(Prim::eq, Dtype::Bool, {a, b}); }
  Value least(Value a, Value b) { return apply(Prim::min, Dtype::Int64, {a, b}); }
  Value pick(Value c, Value a, Value b) { return apply(Prim::select, dtype(a), {c, a, b}); }
  Value row_of(tracer::Op op, std::initializer_list<Value> in) { return expand(tracer::pointwise_function(op, type), in, {})[0]; }
  Value exp(Value a) {  // attention.h's e
    const Value lowest = real(tracer::lowest_exponent(type)), low = apply(Prim::lt, Dtype::Bool, {a, lowest});
    return pick(low, real(0), row_of(tracer::Op::exp, {pick(low, lowest, a)}));
  }

  // Blocks of a length: how many, and the extent of the one that begins at `first`.
  Value blocks(Value length) { return div(add(length, whole(tracer::attention_block - 1)), whole(tracer::attention_block)); }
  Value begin(int axis) { return mul(index(axis), whole(tracer::attention_block)); }
  Value extent(Value length, Value first) { return least(whole(tracer::attention_block), sub(length, first)); }
  // How many key blocks the query block at index `block` takes.
  Value key_blocks(Value block) { return kind.causal ? least(blocks((*this)[Slots::keys]), add(block, whole(1))) : blocks((*this)[Slots::keys]); }
  // An element's offset in matrix `at` of a table.
  Value place(Value table, Value at, Value row, Value row_step, Value column, Value column_step) {
    return add(load(table, at), add(mul(row, row_step), mul(column, column_step)));
  }
  Value element(Slots matrix, Value at, Value row, Value column) {
    const size_t k = size_t(matrix), steps = size_t(Slots::query_row) + 2 * k;
    return load(slot[k], place(slot[size_t(Slots::query_at) + k], at, row, slot[steps], column, slot[steps + 1]));
  }
  // The scores of rows i and keys j, masked.
  Value scores(Value q, Value k, int e, Value instance, Value i, Value j) {
    Value s = dot(q, k, e);
    if (kind.mask == AttentionKind::Mask::added) s = add(s, element(Slots::mask, instance, i, j));
    if (kind.mask == AttentionKind::Mask::choice) s = pick(element(Slots::mask, instance, i, j), s, real(-infinity));
    return kind.causal ? pick(apply(Prim::lt, Dtype::Bool, {causal_limit, lane}), real(-infinity), s) : s;
  }
  // Key j is forbidden to row i where its place in its block is above the limit. In Int32, so that it is one comparison of as many lanes as the
  // scores have.
  void forbid_later(Value i, Value first_key, int key) {
    const Value ahead = apply(Prim::max, Dtype::Int64, {whole(-1), least(whole(tracer::attention_block), sub(i, first_key))});
    causal_limit = convert(ahead, Dtype::Int32), lane = convert(index(key), Dtype::Int32);
  }
  Value causal_limit, lane;
  // The greatest of a row, by whole numbers in the same order: quicker, and which NaN or which zero it is makes no difference to what follows (a
  // row with a NaN ends in NaNs).
  Value ordered(Value bits) {
    const Value sign = apply(Prim::shr, Dtype::Int32, {bits, apply(Prim::constant, Dtype::Int32, {}, 31)});
    return apply(Prim::bit_xor, Dtype::Int32, {bits, apply(Prim::bit_and, Dtype::Int32, {sign, apply(Prim::constant, Dtype::Int32, {}, 0x7fffffff)})});
  }
  Value greatest(Value s, int axis) {
    if (type == Dtype::Float64) return reduce(Reduce::max, s, axis);
    return apply(Prim::bitcast, type, {ordered(reduce(Reduce::max, ordered(apply(Prim::bitcast, Dtype::Int32, {s})), axis))});
  }
  Value dropped(Value p, Value instance, Value i, Value j) {
    if (!kind.dropout) return p;
    const Value index = add(mul(add(mul(instance, (*this)[Slots::queries]), i), (*this)[Slots::keys]), j);
    const Value u = expand(tracer::random_function(tracer::Op::random_uniform, Dtype::Float32), {index}, {(*this)[Slots::seed], (*this)[Slots::stream]})[0];
    return pick(apply(Prim::le, Dtype::Bool, {(*this)[Slots::rate], u}), mul(p, (*this)[Slots::factor]), real(0));
  }
};
}  // namespace

Program attention_forward(const AttentionKind& kind) {
  Frame b("attention", kind);
  const Value result = b.pointer(kind.storage, true), sums = b.pointer(b.type, true);
  const int instance = b.axis(AxisKind::grid, b[Slots::instances]), block = b.axis(AxisKind::grid, b.blocks(b[Slots::queries]));
  const int row = b.axis(AxisKind::block, b.extent(b[Slots::queries], b.begin(block)));
  const int e = b.axis(AxisKind::block, b[Slots::depth]), f = b.axis(AxisKind::block, b[Slots::width]);
  const int turn = b.axis(AxisKind::loop, b.key_blocks(b.index(block)));
  const int key = b.axis(AxisKind::block, b.extent(b[Slots::keys], b.begin(turn)));
  const Value n = b.index(instance), group = b.div(n, b[Slots::share]);
  const Value i = b.add(b.begin(block), b.index(row)), j = b.add(b.begin(turn), b.index(key));
  b.forbid_later(i, b.begin(turn), key);

  const Value q = b.mul(b.element(Slots::query, n, i, b.index(e)), b[Slots::scale]);
  const Value m = b.carry(turn, b.real(-infinity), {row}), l = b.carry(turn, b.real(0), {row}), acc = b.carry(turn, b.real(0), {row, f});
  const Value s = b.scores(q, b.element(Slots::key, group, j, b.index(e)), e, n, i, j);
  const Value top = b.row_of(tracer::Op::maximum, {m, b.greatest(s, key)});
  const Value safe = b.pick(b.same(top, b.real(-infinity)), b.real(0), top);
  const Value p = b.exp(b.sub(s, safe)), again = b.exp(b.sub(m, safe));
  b.next(m, top);
  b.next(l, b.add(b.mul(l, again), b.reduce(Reduce::sum, p, key)));
  b.next(acc, b.dot(b.dropped(p, n, i, j), b.element(Slots::value, group, j, b.index(f)), key, b.mul(acc, again)));

  const Value total = b.last(l), none = b.same(total, b.real(0)), at = b.add(b.mul(n, b[Slots::queries]), i);
  const Value out = b.pick(none, b.real(0), b.div(b.last(acc), total));
  b.store(result, b.add(b.mul(at, b[Slots::width]), b.index(f)), out);
  if (kind.logsumexp) {
    b.store(sums, b.mul(at, b.whole(2)), b.pick(none, b.real(infinity), b.last(m)));
    b.store(sums, b.add(b.mul(at, b.whole(2)), b.whole(1)), b.pick(none, b.real(0), b.row_of(tracer::Op::log, {total})));
  }
  return b.finish();
}

Program attention_gradient(const AttentionKind& kind) {
  Frame b("attention_gradient", kind);
  const Value result = b.pointer(kind.storage), gradient = b.pointer(kind.storage), result_at = b.pointer(Dtype::Int64), gradient_at = b.pointer(Dtype::Int64);
  const Value result_row = b.integer(), result_column = b.integer(), gradient_row = b.integer(), gradient_column = b.integer();
  const Value sums = b.pointer(b.type), of_query = b.pointer(b.type, true), of_key = b.pointer(b.type, true), of_value = b.pointer(b.type, true);
  const int groups = b.axis(AxisKind::grid, b.div(b[Slots::instances], b[Slots::share]));
  const int head = b.axis(AxisKind::loop, b[Slots::share]), block = b.axis(AxisKind::loop, b.blocks(b[Slots::queries]));
  const int row = b.axis(AxisKind::block, b.extent(b[Slots::queries], b.begin(block)));
  const int e = b.axis(AxisKind::block, b[Slots::depth]), f = b.axis(AxisKind::block, b[Slots::width]);
  const int turn = b.axis(AxisKind::loop, b.key_blocks(b.index(block)));
  const int key = b.axis(AxisKind::block, b.extent(b[Slots::keys], b.begin(turn)));
  const Value group = b.index(groups), n = b.add(b.mul(group, b[Slots::share]), b.index(head));
  const Value i = b.add(b.begin(block), b.index(row)), j = b.add(b.begin(turn), b.index(key)), at = b.add(b.mul(n, b[Slots::queries]), i);
  b.forbid_later(i, b.begin(turn), key);

  const Value q = b.mul(b.element(Slots::query, n, i, b.index(e)), b[Slots::scale]), k = b.element(Slots::key, group, j, b.index(e));
  const Value g = b.load(gradient, b.place(gradient_at, n, i, gradient_row, b.index(f), gradient_column));
  const Value out = b.load(result, b.place(result_at, n, i, result_row, b.index(f), result_column));
  const Value d = b.reduce(Reduce::sum, b.mul(g, out), f);
  const Value dq = b.carry(turn, b.real(0), {head, block, row, e});
  const Value m = b.load(sums, b.mul(at, b.whole(2))), log_l = b.load(sums, b.add(b.mul(at, b.whole(2)), b.whole(1)));
  const Value p = b.exp(b.sub(b.sub(b.scores(q, k, e, n, i, j), m), log_l));
  const Value dp = b.dropped(b.dot(g, b.element(Slots::value, group, j, b.index(f)), f), n, i, j);
  const Value ds = b.mul(p, b.sub(dp, d)), line = b.add(b.mul(group, b[Slots::keys]), j);
  b.next(dq, b.dot(ds, k, key, dq));
  const Value dv_at = b.add(b.mul(line, b[Slots::width]), b.index(f)), dk_at = b.add(b.mul(line, b[Slots::depth]), b.index(e));
  b.store(of_value, dv_at, b.dot(b.dropped(p, n, i, j), g, row, b.load(of_value, dv_at)));
  b.store(of_key, dk_at, b.dot(ds, q, row, b.load(of_key, dk_at)));
  b.store(of_query, b.add(b.mul(at, b[Slots::depth]), b.index(e)), b.mul(b.last(dq), b[Slots::scale]));
  return b.finish();
}

}  // namespace frit::kernels
