// Gathers and scatters with one index a row (the classes of a loss, the places of maxima). What was computed element by element
// and is gathered so needs to be computed at those places alone; and such a scatter is a comparison, which fuses.
#include <utility>
#include "jit/passes/passes.h"

namespace frit::jit {

using namespace tracer;

namespace {
constexpr int deepest = 24;
constexpr int64_t longest = int64_t(1) << 30;  // places are compared as Int32

bool one_index(const Graph& g, uint32_t n) {
  const Call& c = g.node(n).call;
  const Result& index = g.node(c.in[1]).result;
  return index.rank > 0 && index.size[c.attr] == 1;
}

class Sinking {
 public:
  Sinking(Graph& g, uint32_t gather) : g_(g), gather_(gather), from_(g.node(gather).call.in[0]), index_(g.node(gather).call.in[1]), axis_(int(g.node(gather).call.attr)) {}
  bool possible() {
    if (!g_.pure(from_) || row(g_.node(from_).call.op).kind != RowKind::pointwise) return false;
    const Result &in = g_.node(from_).result, &out = g_.node(gather_).result;
    if (in.rank != out.rank) return false;
    for (int i = 0; i < in.rank; ++i)
      if (i != axis_ && !g_.equal(from_, i, gather_, i)) return false;
    return !broadcasts(from_) /* it would be its own gather, with one memory */ && sinks(from_, 0);
  }
  uint32_t run() {
    for (int i = 0; i < g_.node(from_).result.rank; ++i)
      if (i != axis_) g_.equal(from_, i, gather_, i, true);
    return at_places(from_);
  }

 private:
  // Along the axis it is one element; along the others it lies as what is gathered from does.
  bool broadcasts(uint32_t n) const {
    const Result &r = g_.node(n).result, &whole = g_.node(from_).result;
    if (r.rank > whole.rank) return false;
    for (int j = 0; j < r.rank; ++j) {
      const int i = j + whole.rank - r.rank;
      if (r.size[j] != 1 && (i == axis_ || !g_.same_size(r.size[j], whole.size[i]))) return false;
    }
    return true;
  }
  bool computed(uint32_t n) const { return g_.pure(n) && row(g_.node(n).call.op).kind == RowKind::pointwise; }
  bool can(uint32_t n) const {
    if (broadcasts(n)) return true;
    if (!g_.same_shape(n, from_)) return false;
    return g_.node(n).call.op == Op::leaf || g_.pure(n) || (row(g_.node(n).call.op).kind == RowKind::view && !g_.written(n));  // where the gather does not sink further it is taken of this
  }
  bool sinks(uint32_t n, int depth) const {
    if (!computed(n) || depth > deepest) return false;
    for (int k = 0; k < g_.trace().input_count(n); ++k)
      if (const uint32_t in = g_.trace().input(n, k); !g_.is_number(in) && !can(in)) return false;
    return true;
  }
  uint32_t at_places(uint32_t n, int depth = 0) {
    if (broadcasts(n)) return n;
    for (const auto& [from, to] : made_)
      if (from == n) return to;
    const Result r = g_.node(n).result;
    Call call = g_.node(n).call;
    uint32_t made;
    if (!sinks(n, depth)) {
      call = g_.node(gather_).call;
      call.in[0] = n;
      made = g_.append(call, r.dtype, compute_dtype(r.dtype), gather_, gather_, last());
    } else {
      for (int k = 0; k < g_.trace().input_count(n); ++k)
        if (!g_.is_number(call.in[k])) call.in[k] = at_places(call.in[k], depth + 1);
      made = g_.append(call, r.dtype, r.compute, gather_, n, last());
    }
    made_.push_back({n, made});
    return made;
  }
  uint32_t last() const { return made_.empty() ? gather_ : made_.back().second; }  // all operands come before

  Graph& g_;
  const uint32_t gather_, from_, index_;
  const int axis_;
  std::vector<std::pair<uint32_t, uint32_t>> made_;
};
}  // namespace

void sink_gathers(Graph& g) {
  const uint32_t count = g.count();
  for (uint32_t n = 0; n < count; ++n) {
    if (!g.needed[n] || g.node(n).call.op != Op::gather || !one_index(g, n) || !g.pure(n) || !g.replaceable(n)) continue;
    Sinking s(g, n);
    if (s.possible()) g.replace(n, s.run());
  }
}

namespace {
// A scatter refuses an index that is out of range, a comparison does not: somebody has to look at the same index, before. A gather that
// nobody reads any more is enough: what it read, or was computed from, is gathered instead.
uint32_t looked_at(Graph& g, uint32_t index, uint32_t scatter, int axis) {
  const uint32_t count = g.count();
  for (int wanted = 1; wanted >= 0; --wanted)
    for (uint32_t n = 0; n < count; ++n) {
      const tracer::Node other = g.node(n);
      if (g.needed[n] != bool(wanted) || other.call.op != Op::gather || other.call.in[1] != index || int(other.call.attr) != axis || !g.equal(other.call.in[0], axis, scatter, axis)) continue;
      uint32_t found = n;
      if (!wanted) {
        uint32_t base = other.call.in[0];
        for (bool deeper = true; std::exchange(deeper, false);)
          if (row(g.node(base).call.op).kind == RowKind::pointwise && g.pure(base))
            for (int k = 0; k < g.trace().input_count(base) && !deeper; ++k)
              if (const uint32_t in = g.trace().input(base, k); !g.is_number(in) && g.same_shape(in, base)) base = in, deeper = true;
        if (g.written(base) || (g.node(base).call.op != Op::leaf && !(g.needed[base] && g.pure(base) && row(g.node(base).call.op).kind != RowKind::pointwise))) continue;
        Call call = other.call;
        call.in[0] = base;
        g.keep(found = g.append(call, g.node(base).result.dtype, compute_dtype(g.node(base).result.dtype), n, n, index));
      }
      g.equal(other.call.in[0], axis, scatter, axis, true);
      return found;
    }
  return no_node;
}
}  // namespace

// self with source added or put at one index a row: where(place == index, self + source, self).
void compare_for_scatters(Graph& g) {
  const uint32_t count = g.count();
  const Trace& t = g.trace();
  for (uint32_t n = 0; n < count; ++n) {
    if (!g.needed[n] || (g.node(n).call.op != Op::scatter_add && g.node(n).call.op != Op::scatter) || !one_index(g, n) || !g.pure(n) || !g.replaceable(n)) continue;
    const Node node = t.nodes[n];
    const uint32_t self = node.call.in[0], index = node.call.in[1], source = node.call.in[2];
    const int axis = int(node.call.attr);
    if (axis + 1 != node.result.rank || t.extent[node.result.size[axis]] > longest || t.nodes[source].result.rank != node.result.rank || t.nodes[self].result.dtype != t.nodes[source].result.dtype || t.extent[node.result.size[axis]] < 2) continue;
    bool aligned = true;
    for (int i = 0; i < node.result.rank; ++i) aligned = aligned && g.equal(index, i, source, i) && (i == axis || g.equal(index, i, n, i));
    const uint32_t check = aligned ? looked_at(g, index, n, axis) : no_node;
    if (check == no_node) continue;
    for (int i = 0; i < axis; ++i) g.equal(index, i, n, i, true), g.equal(index, i, source, i, true);
    const Rewrite::Argument zero{0, no_node}, one{1, no_node}, length{uint64_t(axis), n};
    const auto integer = [](int operand) { return uint8_t(uint8_t(Category::integer) << (2 * operand)); };
    const auto call = [](Op op, uint8_t kind, std::initializer_list<uint32_t> in, uint64_t attr = 0) {
      Call c{.op = op, .kind = kind, .attr = attr};
      std::copy(in.begin(), in.end(), c.in);
      return c;
    };
    constexpr Dtype i32 = Dtype::Int32;
    const Dtype d = node.result.dtype;
    const uint32_t place = g.append(call(Op::arange, uint8_t(i32), {}, 1 | uint64_t(Category::integer) << 8), i32, i32, n, n, n, axis, {zero, one, length});
    const uint32_t given = g.append(call(Op::copy, uint8_t(i32), {index}), i32, i32, index, n, place);
    const uint32_t below = g.append(call(Op::lt, integer(1), {given, scalar_operand}), Dtype::Bool, i32, index, n, given, all_axes, {zero});
    const uint32_t wrapped = g.append(call(Op::add, integer(1), {given, scalar_operand}), i32, i32, index, n, below, all_axes, {length});
    const uint32_t at = g.append(call(Op::where, 0, {below, wrapped, given}), i32, i32, index, n, wrapped);
    const uint32_t here = g.append(call(Op::eq, 0, {place, at}), Dtype::Bool, i32, n, n, at);
    g.rewrite.checks.push_back({check, here});
    const uint32_t value = node.call.op == Op::scatter ? source : g.append(call(Op::add, 0, {self, source}), d, compute_dtype(d), n, n, here);
    g.replace(n, g.append(call(Op::where, 0, {here, value, self}), d, compute_dtype(d), n, n, value == source ? here : value));
  }
}

}  // namespace frit::jit
