// The ops on handles: each binds its arguments, finds its operands' nodes, emits one node and finishes it. Then the
// composites that gradient rules are written with.
#include "tracer/var.h"
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include "runtime/error.h"
#include "tracer/trace.h"
#include "tracer/user_call.h"

void frit::handle::Number::does_not_fit(bool has_sign, size_t bytes) const {
  const std::string value = category_ == Category::floating ? std::to_string(bits_.d) : std::to_string(bits_.i);
  throw ValueError("Scalar: " + value + " does not fit into a" + (has_sign ? " signed" : "n unsigned") + " integer of " + std::to_string(bytes * 8) + " bits. Use a wider type.");
}

namespace frit::tracer {

namespace {

Call pointwise_call(Recorder& r, Op op, std::initializer_list<Operand> in) {
  Call call{.op = op};
  int k = 0;
  uint64_t words[3];
  size_t numbers = 0;
  for (const Operand& o : in) {
    if (o.var) {
      if (!o.var->cell()) throw ValueError(std::string(op_name(op)) + ": operand " + std::to_string(k) + " is an undefined tensor. Give it a value first.");
      call.in[k] = r.node_of(o.var->cell());
    } else {
      call.in[k] = scalar_operand;
      call.kind |= uint8_t(o.number.category()) << (2 * k);
      words[numbers++] = o.number.word();
    }
    ++k;
  }
  if (numbers) {
    call.arg = r.bind(reinterpret_cast<const int64_t*>(words), numbers);
  }
  return call;
}

Dtype number_dtype(const Number& n) {
  return n.category() == Category::floating ? Dtype::Float64 : n.category() == Category::integer ? Dtype::Int64 : Dtype::Bool;
}

Cell* defined(const Var& v, Op op) {
  if (!v.cell()) throw ValueError(std::string(op_name(op)) + ": the tensor is undefined. Give it a value first.");
  return v.cell();
}

// Before a call is recorded: what other threads have deferred is made real.
void settle_operands(std::initializer_list<Operand> in) {
  for (const Operand& o : in)
    if (o.var && o.var->cell()) settle_operand(o.var->cell());
}

// One operand, words bound after it.
Var emit1(Op op, const Var& a, std::initializer_list<uint64_t> words, uint64_t attr = 0, uint8_t kind = 0, bool view = false) {
  settle_operand(defined(a, op));
  const Turn turn;
  Recorder& r = turn.r;
  Call call{.op = op, .kind = kind, .attr = attr};
  call.in[0] = r.node_of(defined(a, op));
  call.arg = r.bind(words);
  const uint32_t n = r.emit(call);
  return view ? r.finish_view(n, a.cell()) : r.finish(n);
}
Var emit_source(Op op, std::initializer_list<uint64_t> words, const Sizes& extents, Dtype d, uint64_t attr = 0) {
  if (extents.size() > max_rank) throw ShapeError(std::string(op_name(op)) + ": " + std::to_string(extents.size()) + " axes were asked for. At most 8 are supported.");
  const Turn turn;
  Recorder& r = turn.r;
  Call call{.op = op, .kind = uint8_t(d), .attr = attr | extents.size()};
  call.arg = r.bind(words);
  r.bind(extents.data(), extents.size());
  return r.finish(r.emit(call));
}

std::atomic<uint64_t> random_seed{0}, random_stream{0};

// The groups of a reshape: runs of input and output axes with equal products, 4 bits an axis.
uint64_t reshape_groups(const Sizes& in, const Sizes& out) {
  uint64_t attr = 0;
  unsigned g = 0;
  for (int64_t e : in)
    if (e == 0) return 0;  // no elements: one group
  for (size_t i = 0, j = 0; i < in.size() || j < out.size(); ++g) {
    int64_t pi = 1, pj = 1;
    const auto more_in = [&] { attr |= uint64_t(g & 15) << (32 + 4 * i), pi *= in[i++]; };
    const auto more_out = [&] { attr |= uint64_t(g & 15) << (4 * j), pj *= out[j++]; };
    if (i < in.size()) more_in();
    if (j < out.size()) more_out();
    while (pi != pj) {
      if (pi < pj ? i == in.size() : j == out.size()) break;  // zeros: one group takes the rest
      pi < pj ? more_in() : more_out();
    }
    if (pi != pj) {
      while (i < in.size()) more_in();
      while (j < out.size()) more_out();
    }
  }
  return attr;
}

}  // namespace

void set_random_seed(uint64_t seed) { random_seed = seed, random_stream = 0; }
std::pair<uint64_t, uint64_t> random_state() { return {random_seed, random_stream}; }
std::pair<uint64_t, uint64_t> draw_stream() { return {random_seed, random_stream++}; }
void set_random_state(std::pair<uint64_t, uint64_t> state) { random_seed = state.first, random_stream = state.second; }

namespace {
thread_local RandomLog* random_log = nullptr;
}
RandomLog::Scope::Scope(RandomLog& log) : before(std::exchange(random_log, &log)) { log.outer_ = before; }
RandomLog::Scope::~Scope() { random_log = before; }
std::pair<uint64_t, uint64_t> RandomLog::take() { return random_log ? random_log->take_from(random_log->outer_) : std::pair{random_seed.load(), random_stream++}; }
std::pair<uint64_t, uint64_t> RandomLog::take_from(RandomLog* outer) {
  if (next_ == taken_.size()) taken_.push_back(outer ? outer->take_from(outer->outer_) : std::pair{random_seed.load(), random_stream++});
  return taken_[next_++];
}

Var emit_pointwise(Op op, std::initializer_list<Operand> in) {
  settle_operands(in);
  const Turn turn;
  Recorder& r = turn.r;
  const OpRow& row_of = row(op);
  if (std::none_of(in.begin(), in.end(), [](const Operand& o) { return o.var; })) {  // numbers alone: the first becomes a tensor
    // (Without axes it yields to the other operands' type; as float64 it loses nothing before it does.)
    const Number n = in.begin()->number;
    const bool floating = n.category() == Category::floating || row_of.type == TypeRule::floating;
    const Var first = full({}, n, floating ? kFloat64 : number_dtype(n));
    return in.size() == 1 ? emit_pointwise(op, {first}) : in.size() == 2 ? emit_pointwise(op, {first, in.begin()[1]})
                                                                         : emit_pointwise(op, {first, in.begin()[1], in.begin()[2]});
  }
  if (row_of.type == TypeRule::rounding && in.begin()->var && in.begin()->var->cell() && !is_floating(dtype_of(*in.begin()->var)))
    return copy(*in.begin()->var);
  return r.finish(r.emit(pointwise_call(r, op, in)));
}
Var& emit_pointwise_(Op op, Var& target, std::initializer_list<Operand> rest) {
  settle_operand(defined(target, op));
  settle_operands(rest);
  const Turn turn;
  Recorder& r = turn.r;
  Cell* c = defined(target, op);
  check_writable(c, op);
  if (row(op).type == TypeRule::rounding && !is_floating(dtype_of(c))) return target;
  // A gradient that reads what is overwritten needs a copy of it, which is made when the write runs: it runs by itself.
  bool keeps = !r.eager && (r.mode & grad_mode) && (row(op).saved & In0) && wants_gradient(c);
  if (!r.eager && (r.mode & grad_mode) && (row(op).saved & In0))
    for (const Operand& o : rest) keeps |= o.var && o.var->cell() && wants_gradient(o.var->cell());
  if (keeps) r.flush("in-place op with a gradient");
  Call call = rest.size() == 0   ? pointwise_call(r, op, {target})
              : rest.size() == 1 ? pointwise_call(r, op, {target, rest.begin()[0]})
                                 : pointwise_call(r, op, {target, rest.begin()[0], rest.begin()[1]});
  call.mode = in_place;
  r.finish_write(c, r.emit(call));
  if (keeps) r.flush("in-place op with a gradient");
  return target;
}
namespace {
// Only what was expanded does, and what the user gave; a deferred tensor is judged by the strides that it will have.
bool shows_elements_twice(Cell* c) {
  const Reading reading(c);
  if (c->value) return overlaps_itself(*c->value);
  shape_of(c);  // throws when poisoned
  const Trace& t = *c->trace;
  bool can = false;
  for (uint32_t n = c->node; !can;) {
    const Call& call = t.nodes[n].call;
    const RowKind kind = row(call.op).kind;
    if (call.op == Op::leaf) {
      can = !t.value[n]->contiguous() && overlaps_itself(*t.value[n]);
      break;
    }
    if (kind != RowKind::view && kind != RowKind::alias && !(call.mode & in_place)) break;
    can = call.op == Op::expand || call.op == Op::as_strided;
    n = call.in[0];
  }
  if (!can) return false;
  Value v{};
  v.rank = uint8_t(rank_of(c));
  std::copy_n(shape_of(c), v.rank, v.extent);
  std::copy_n(strides_of(c).stride, v.rank, v.stride);
  return overlaps_itself(v);
}
}  // namespace
void check_writable(Cell* c, Op written) {
  const Recorder& r = recorder();
  const auto op = [&] { return std::string(UserCall::name_or(shown_name(Call{.op = written, .mode = in_place}).c_str())); };
  if ((c->flags & gradient_leaf) && (r.mode & grad_mode))
    throw AutogradError(op() + ": a leaf tensor that requires grad is written in place. Write it under NoGradGuard, or write a copy.");
  for (Cell* b = c->base; b; b = b->base)
    if ((b->flags & gradient_leaf) && (r.mode & grad_mode))
      throw AutogradError(op() + ": a view of a leaf tensor that requires grad is written in place. Write it under NoGradGuard, or write a copy.");
  if (shows_elements_twice(c))
    throw ValueError(op() + ": several elements of the written tensor share one memory location (it was expanded). Write a clone() instead.");
}
Var& copy_(Var& target, const Var& source) {
  settle_operands({target, source});
  const Turn turn;
  Recorder& r = turn.r;
  Cell* c = defined(target, Op::copy);
  check_writable(c, Op::assign);
  if (source.cell() && is_floating(dtype_of(source)) && is_integral(dtype_of(c))) return copy_(target, convert(source, dtype_of(c)));  // as `copy` converts
  // As a pointwise op in place: `where(true, source, target)` would read the target; add_ of nothing does not exist. So the
  // row is `assign`, whose result is its second operand.
  Call call = pointwise_call(r, Op::assign, {target, source});
  call.mode = in_place;
  r.finish_write(c, r.emit(call));
  return target;
}

// ---- sources ----------------------------------------------------------------------------------------------------
Var full(const Sizes& extents, Number value, Dtype d) {
  return emit_source(Op::full, {value.word()}, extents, d, uint64_t(value.category()) << 8);
}
Var arange(Number start, Number step, int64_t count, Dtype d) {
  const bool floating = start.category() == Category::floating || step.category() == Category::floating;
  const Number s = floating ? Number(start.to_double()) : Number(start.to_int()), t = floating ? Number(step.to_double()) : Number(step.to_int());
  return emit_source(Op::arange, {s.word(), t.word()}, {count}, d, uint64_t(s.category()) << 8);
}
namespace {
Var emit_random(Op op, const Sizes& extents, Dtype d) {
  const auto [seed, stream] = RandomLog::take();
  return emit_source(op, {seed, stream}, extents, d);
}
}  // namespace
Var random_uniform(const Sizes& extents, Dtype d) { return emit_random(Op::random_uniform, extents, d); }
Var random_uniform_of(const Sizes& extents, Dtype d, uint64_t seed, uint64_t stream) { return emit_source(Op::random_uniform, {seed, stream}, extents, d); }
Var random_normal(const Sizes& extents, Dtype d) { return emit_random(Op::random_normal, extents, d); }
Var random_integer(const Sizes& extents, int64_t low, int64_t high, Dtype d) {
  if (high <= low) throw ValueError("randint: the range [" + std::to_string(low) + ", " + std::to_string(high) + ") is empty. Give high > low.");
  const auto [seed, stream] = RandomLog::take();
  return emit_source(Op::random_integer, {seed, stream, uint64_t(low), uint64_t(high) - uint64_t(low)}, extents, d);
}

// ---- views ----------------------------------------------------------------------------------------------------------
// Not a view for gradients: writes to it reach the storage and nothing else.
Var detach(const Var& a) { return emit1(Op::detach, a, {}); }
Var permute(const Var& a, const std::vector<int>& axes) {
  uint64_t attr = 0;
  for (size_t i = 0; i < axes.size(); ++i) attr |= uint64_t(axes[i]) << (4 * i);
  return emit1(Op::permute, a, {}, attr, 0, true);
}
Var transpose(const Var& a, int i, int j) {
  std::vector<int> axes(sizes_of(a).size());
  for (size_t k = 0; k < axes.size(); ++k) axes[k] = int(k);
  if (!axes.empty()) std::swap(axes[i], axes[j]);
  return permute(a, axes);
}
Var expand(const Var& a, const Sizes& extents) {
  if (extents.size() > max_rank) throw ShapeError("expand: " + std::to_string(extents.size()) + " axes were asked for. At most 8 are supported.");
  settle_operands({a});
  const Turn turn;
  Recorder& r = turn.r;
  Call call{.op = Op::expand, .attr = extents.size()};
  call.in[0] = r.node_of(defined(a, Op::expand));
  call.arg = r.bind(extents.data(), extents.size());
  return r.finish_view(r.emit(call), a.cell());
}
Var reshape(const Var& a, const Sizes& wanted, bool copy_allowed) {
  Cell* c = defined(a, Op::reshape);
  const char* name = copy_allowed ? "reshape" : "view";
  const Sizes from = sizes_of(c);
  int64_t numel = 1, known = 1;
  int open = -1;
  for (int64_t e : from) numel *= e;
  Sizes extents = wanted;
  const auto text = [](const Sizes& s) {
    std::string t = "[";
    for (size_t i = 0; i < s.size(); ++i) t += (i ? ", " : "") + std::to_string(s[i]);
    return t + "]";
  };
  if (extents.size() > max_rank) throw ShapeError(std::string(name) + ": " + std::to_string(extents.size()) + " axes were asked for. At most 8 are supported.");
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == -1 && open < 0) open = int(i);
    else if (extents[i] < 0) throw ShapeError(std::string(name) + ": shape " + text(wanted) + " is not valid for " + text(from) + ". At most one extent may be -1, none may be less.");
    else known *= extents[i];
  }
  if (open >= 0) {
    if (known == 0 ? numel != 0 || true : numel % known != 0)
      throw ShapeError(std::string(name) + ": the -1 in " + text(wanted) + " has no single right value for " + text(from) + ". Give the extent.");
    extents[open] = numel / known, known *= extents[open];
  }
  if (known != numel)
    throw ShapeError(std::string(name) + ": " + text(from) + " has " + std::to_string(numel) + " elements, " + text(wanted) + " has " + std::to_string(known) + ". The counts must be equal.");
  // A reshape that has to copy is no view: writes to it do not reach its base.
  const Strides strides = strides_of(c);
  bool view = strides.contiguous;
  if (!view) {
    Value shape{};
    shape.rank = uint8_t(from.size());
    std::copy(from.begin(), from.end(), shape.extent);
    std::copy_n(strides.stride, from.size(), shape.stride);
    view = reshape_strides(shape, extents, nullptr);
  }
  if (!copy_allowed && !view)
    throw ShapeError("view: shape " + text(wanted) + " does not fit the strides of " + text(from) + " (it is not contiguous there). Use reshape(), which copies when it must.");
  // What has to be copied has a place of its own in the order of reads and writes, and memory of its own from there on.
  const Var from_where = view ? a : copy(a, true);
  settle_operand(c);
  const Turn turn;
  Recorder& r = turn.r;
  Call call{.op = Op::reshape, .kind = uint8_t(extents.size()), .attr = reshape_groups(from, extents)};
  call.in[0] = r.node_of(from_where.cell());
  call.arg = r.bind(extents.data(), extents.size());
  const uint32_t n = r.emit(call);
  return view ? r.finish_view(n, c) : r.finish(n);
}
Var slice(const Var& a, int axis, int64_t start, int64_t length, int64_t step) {
  return emit1(Op::slice, a, {uint64_t(start), uint64_t(length), uint64_t(step)}, uint64_t(axis), 0, true);
}
Var select(const Var& a, int axis, int64_t index) { return emit1(Op::select, a, {uint64_t(index)}, uint64_t(axis), 0, true); }
Var diagonal(const Var& a, int64_t offset, int axis1, int axis2) {
  const Sizes e = sizes_of(a);
  const int64_t length = std::max<int64_t>(0, offset >= 0 ? std::min(e[axis1], e[axis2] - offset) : std::min(e[axis1] + offset, e[axis2]));
  return emit1(Op::diagonal, a, {uint64_t(offset), uint64_t(length)}, uint64_t(axis1) | uint64_t(axis2) << 4, 0, true);
}

Var as_strided(const Var& a, const Sizes& extents, const Sizes& strides, int64_t offset) {
  const Value& v = value_of(defined(a, Op::as_strided), "as_strided");
  if (extents.size() != strides.size())
    throw ValueError("as_strided: " + std::to_string(extents.size()) + " extents and " + std::to_string(strides.size()) + " strides are given. Give one stride per axis.");
  if (extents.size() > max_rank) throw ShapeError("as_strided: " + std::to_string(extents.size()) + " axes were asked for. At most 8 are supported.");
  int64_t last = offset, elements = 1;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] < 0 || strides[i] < 0)
      throw ValueError("as_strided: extent " + std::to_string(extents[i]) + " with stride " + std::to_string(strides[i]) + " at axis " + std::to_string(i) + ". Neither may be negative.");
    elements *= std::min<int64_t>(extents[i], 1);
    int64_t way;
    if (extents[i] > 0 && (__builtin_mul_overflow(extents[i] - 1, strides[i], &way) || __builtin_add_overflow(last, way, &last)))
      throw ValueError("as_strided: extent " + std::to_string(extents[i]) + " with stride " + std::to_string(strides[i]) + " leaves 64 bits. Make it smaller.");
  }
  const int64_t held = int64_t(v.storage->bytes / size_of(v.dtype));
  if (offset < 0 || (elements && last >= held))
    throw ValueError("as_strided: the view reaches element " + std::to_string(offset < 0 ? offset : last) + " of a storage of " + std::to_string(held) + " elements. Make the extents, strides or offset smaller.");
  std::vector<int64_t> words{offset};
  words.insert(words.end(), extents.begin(), extents.end());
  words.insert(words.end(), strides.begin(), strides.end());
  words.push_back(v.offset);
  words.insert(words.end(), v.stride, v.stride + v.rank);
  const Turn turn;
  Recorder& r = turn.r;
  Call call{.op = Op::as_strided, .attr = extents.size()};
  call.in[0] = r.node_of(a.cell());
  call.arg = r.bind(words.data(), words.size());
  return r.finish_view(r.emit(call), a.cell());
}

Var take_view(const Var& base, const ViewRecipe& recipe) {
  settle_operands({base});
  const Turn turn;
  Recorder& r = turn.r;
  Call call = recipe.call;
  call.mode = 0;
  call.in[0] = r.node_of(base.cell());
  call.arg = r.bind(reinterpret_cast<const int64_t*>(recipe.args.data()), recipe.args.size());
  return r.finish_view(r.emit(call), base.cell());
}

// ---- copies, reductions, products -------------------------------------------------------------------------------------
Var copy(const Var& a, bool contiguous) { return emit1(Op::copy, a, {}, contiguous, uint8_t(dtype_of(a))); }
Var convert(const Var& a, Dtype d) { return dtype_of(a) == d ? a : emit1(Op::copy, a, {}, 0, uint8_t(d)); }
Var reduce(ReduceOp op, const Var& a, uint64_t axes, bool keepdim) { return emit1(Op(op), a, {}, axes, keepdim); }
Var sum(const Var& a, uint64_t axes, bool keepdim) { return reduce(ReduceOp::sum, a, axes, keepdim); }
Var matmul(const Var& a, const Var& b) {
  settle_operands({a, b});
  const Turn turn;
  Recorder& r = turn.r;
  Call call{.op = Op::matmul};
  call.in[0] = r.node_of(defined(a, Op::matmul)), call.in[1] = r.node_of(defined(b, Op::matmul));
  return r.finish(r.emit(call));
}
namespace {
Var convolved(Op op, const Var& a, const Var& b, const std::vector<WindowAxis>& axes, int64_t groups, const Sizes& extents) {
  settle_operands({a, b});
  const Turn turn;
  Recorder& r = turn.r;
  Call call{.op = op};
  call.in[0] = r.node_of(defined(a, op)), call.in[1] = r.node_of(defined(b, op));
  Sizes words{groups};
  for (const WindowAxis& w : axes) words.insert(words.end(), {w.stride, w.dilation, w.low, w.high});
  words.insert(words.end(), extents.begin(), extents.end());
  call.arg = r.bind(words.data(), words.size());
  return r.finish(r.emit(call));
}
}  // namespace
Var convolution(const Var& input, const Var& weight, const std::vector<WindowAxis>& axes, int64_t groups) { return convolved(Op::convolution, input, weight, axes, groups, {}); }
Var convolution_input(const Var& gradient, const Var& weight, const std::vector<WindowAxis>& axes, int64_t groups, const Sizes& extents) {
  return convolved(Op::convolution_input, gradient, weight, axes, groups, extents);
}
Var convolution_weight(const Var& gradient, const Var& input, const std::vector<WindowAxis>& axes, int64_t groups, const Sizes& extents) {
  return convolved(Op::convolution_weight, gradient, input, axes, groups, extents);
}
namespace {
Var pooled(Op op, const Var& a, const std::vector<PoolAxis>& axes) {
  settle_operands({a});
  const Turn turn;
  Recorder& r = turn.r;
  Call call{.op = op};
  call.in[0] = r.node_of(defined(a, op));
  Sizes words;
  for (const PoolAxis& w : axes) words.insert(words.end(), {w.kernel, w.stride, w.dilation, w.low, w.count});
  call.arg = r.bind(words.data(), words.size());
  return r.finish(r.emit(call));
}
}  // namespace
Var pool_max(const Var& a, const std::vector<PoolAxis>& axes) { return pooled(Op::pool_max, a, axes); }
Var pool_argmax(const Var& a, const std::vector<PoolAxis>& axes) { return pooled(Op::pool_argmax, a, axes); }
Var cat(const std::vector<Var>& parts, int axis) {
  if (parts.empty()) throw ValueError("cat: the list of tensors is empty. Give at least one.");
  for (const Var& p : parts) settle_operand(defined(p, Op::cat));
  const Turn turn;
  Recorder& r = turn.r;
  std::vector<uint32_t> nodes;
  for (const Var& p : parts) nodes.push_back(r.node_of(defined(p, Op::cat)));
  Call call{.op = Op::cat, .attr = uint64_t(axis)};
  call.in[0] = r.bind_list(nodes), call.in[1] = uint32_t(nodes.size());
  return r.finish(r.emit(call));
}
namespace {
// The node of an attention row, in a call that the caller holds open.
uint32_t emit_attention(Recorder& r, Op op, const std::vector<Var>& in, const AttentionCall& a) {
  std::vector<uint32_t> nodes;
  for (const Var& v : in) nodes.push_back(r.node_of(defined(v, op)));
  Call call{.op = op, .attr = a.attr};
  call.in[0] = r.bind_list(nodes), call.in[1] = uint32_t(nodes.size());
  call.arg = r.bind({std::bit_cast<uint64_t>(a.scale), std::bit_cast<uint64_t>(a.dropout), a.seed, a.stream});
  return r.emit(call);
}
}  // namespace
Var attention(const std::vector<Var>& in, const AttentionCall& call) {
  for (const Var& v : in) settle_operand(defined(v, Op::attention));
  const Turn turn;
  return turn.r.finish(emit_attention(turn.r, Op::attention, in, call));
}
// The three nodes are one call: nothing is flushed between them, so what the first makes beside its value is there for the others.
std::vector<Var> attention_gradient(const std::vector<Var>& in, const AttentionCall& call) {
  for (const Var& v : in) settle_operand(defined(v, Op::attention_gradient));
  const Turn turn;
  Recorder& r = turn.r;
  const uint32_t query = emit_attention(r, Op::attention_gradient, in, call);
  uint32_t beside[2];
  for (int k = 0; k < 2; ++k) {
    Call part{.op = Op::companion, .kind = uint8_t(k)};
    part.in[0] = query, part.in[1] = r.open->lists[r.open->nodes[query].call.in[0] + 1 + uint32_t(k)];
    beside[k] = r.emit(part);
  }
  std::vector<Var> given{Var::take(r.show(query)), Var::take(r.show(beside[0]))};
  given.push_back(r.finish(beside[1]));
  return given;
}
namespace {
Var indexed(Op op, int axis, std::initializer_list<const Var*> in, bool write = false) {
  for (const Var* v : in) settle_operand(defined(*v, op));
  const Turn turn;
  Recorder& r = turn.r;
  Call call{.op = op, .attr = uint64_t(axis)};
  int k = 0;
  for (const Var* v : in) call.in[k++] = r.node_of(defined(*v, op));
  if (write) {
    call.mode = in_place;
    r.finish_write((*in.begin())->cell(), r.emit(call));
    return **in.begin();
  }
  return r.finish(r.emit(call));
}
}  // namespace
Var gather(const Var& a, int axis, const Var& index) { return indexed(Op::gather, axis, {&a, &index}); }
Var scatter_add(const Var& a, int axis, const Var& index, const Var& source) { return indexed(Op::scatter_add, axis, {&a, &index, &source}); }
Var scatter(const Var& a, int axis, const Var& index, const Var& source) { return indexed(Op::scatter, axis, {&a, &index, &source}); }
Var scatter_(Op op, const Var& a, int axis, const Var& index, const Var& source) {
  check_writable(defined(a, op), op);
  return indexed(op, axis, {&a, &index, &source}, true);
}
Var unslice(const Var& a, int axis, int64_t start, int64_t step, int64_t extent) {
  return emit1(Op::unslice, a, {uint64_t(start), uint64_t(step), uint64_t(extent)}, uint64_t(axis));
}
Var undiagonal(const Var& a, int64_t offset, int axis1, int axis2, int64_t extent1, int64_t extent2) {
  return emit1(Op::undiagonal, a, {uint64_t(offset), uint64_t(extent1), uint64_t(extent2)}, uint64_t(axis1) | uint64_t(axis2) << 4);
}
Var flip(const Var& a, uint64_t axes) { return emit1(Op::flip, a, {}, axes); }
Var cumsum(const Var& a, int axis) { return emit1(Op::cumsum, a, {}, uint64_t(axis)); }
Var cumprod(const Var& a, int axis) { return emit1(Op::cumprod, a, {}, uint64_t(axis)); }
Var sort(const Var& a, int axis, bool descending) { return emit1(Op::sort, a, {}, uint64_t(axis), descending); }
Var argsort(const Var& a, int axis, bool descending) { return emit1(Op::argsort, a, {}, uint64_t(axis), descending); }

// ---- composites ---------------------------------------------------------------------------------------------------------
Var zeros_of(const Operand& like) { return full(sizes_of(*like.var), 0, dtype_of(*like.var)); }
Var sum_to(const Var& a, const Sizes& extents) {
  const Sizes from = sizes_of(a);
  const size_t added = from.size() - extents.size();
  uint64_t axes = 0;
  for (size_t i = 0; i < from.size(); ++i)
    if (i < added || (extents[i - added] == 1 && from[i] != 1)) axes |= uint64_t(1) << i;
  if (!axes) return a;
  return reshape(sum(a, axes, true), extents);
}
Var share(const Operand& wins, const Operand& ties) { return where(wins, 1.0, where(ties, 0.5, 0.0)); }
Var gelu_slope(const Operand& a) {  // Phi(a) + a * phi(a)
  return erfc(a * -0.70710678118654752440) * 0.5 + a * (exp(a * a * -0.5) * 0.39894228040143267794);
}
Var gelu_tanh_slope(const Operand& a) {
  const Var y = tanh((a + a * a * a * 0.044715) * 0.79788456080286535588);
  const Var inner = (a * a * 0.134145 + 1.0) * 0.79788456080286535588;
  return (y + 1.0) * 0.5 + a * 0.5 * ((1.0 - y * y) * inner);
}
Var silu_slope(const Operand& a) {
  const Var s = sigmoid(a);
  return s * ((1.0 - s) * a + 1.0);
}
Var mish_slope(const Operand& a) {
  const Var y = tanh(softplus(a));
  return y + a * (sigmoid(a) * (1.0 - y * y));
}
// Reflection below 1/2; above, the recurrence to a + 8 and the asymptotic series there.
Var trigamma(const Operand& a) {
  constexpr double pi = 3.14159265358979323846;
  const Var reflected = lt(a, 0.5), x = where(reflected, 1.0 - a, a);
  Var total = 1.0 / (x * x);
  for (int k = 1; k < 8; ++k) total = total + 1.0 / square(x + double(k));
  const Var y = 1.0 / (x + 8.0), z = y * y;
  const Var tail = y + z * 0.5 + y * z * (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42 - z * (1.0 / 30 - z * (5.0 / 66)))));
  const Var s = sin(a * pi);
  return where(reflected, pi * pi / (s * s) - (total + tail), total + tail);
}

Sizes sizes_of(const Var& a) {
  if (!a.cell()) throw ValueError("sizes: the tensor is undefined. Give it a value first.");
  return sizes_of(a.cell());
}
Dtype dtype_of(const Var& a) {
  if (!a.cell()) throw ValueError("dtype: the tensor is undefined. Give it a value first.");
  return dtype_of(a.cell());
}

}  // namespace frit::tracer
