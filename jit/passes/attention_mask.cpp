// Masks that a trace makes by itself (ones and tril, comparisons of aranges, what is computed from these): see attention_mask.h. A pattern is
// carried through the ops, element by element where it has one or two numbers. Start at pattern_of.
#include "jit/passes/attention_mask.h"
#include <bit>
#include <cmath>
#include "tracer/call_form.h"

namespace frit::jit {

using namespace tracer;

namespace {
using Shape = Pattern::Shape;
using Is = Rewrite::Known::Is;

void rely_on(const Graph& g, uint32_t n, uint32_t slot, Pattern& p) {
  const Trace& t = g.trace();
  p.known.push_back({{n, slot}, Is::word, t.args[t.nodes[n].call.arg + slot]});
}
// One element, in doubles: exact for what masks are made of.
std::optional<double> element(Op op, double a, double b, double c) {
  switch (op) {
    case Op::copy:
    case Op::detach: return a;
    case Op::neg: return -a;
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::eq: return a == b;
    case Op::ne: return a != b;
    case Op::lt: return a < b;
    case Op::le: return a <= b;
    case Op::gt: return a > b;
    case Op::ge: return a >= b;
    case Op::logical_not: return a == 0;
    case Op::logical_and: return a != 0 && b != 0;
    case Op::logical_or: return a != 0 || b != 0;
    case Op::where: return a != 0 ? b : c;
    default: return {};
  }
}
// column (compare) row: on or below which diagonal is it so, or not so?
std::optional<Pattern> compared(Op op, const Pattern& a, const Pattern& b) {
  if (a.axis == b.axis) return {};
  if (a.axis == 1) op = op == Op::lt ? Op::gt : op == Op::le ? Op::ge : op == Op::gt ? Op::lt : op == Op::ge ? Op::le : op;  // the column goes first
  const Pattern &column = a.axis == 0 ? a : b, &row = a.axis == 0 ? b : a;
  Pattern p{.shape = Shape::triangle, .offset = row.offset - column.offset};
  switch (op) {
    case Op::le: p.inside = 1; break;
    case Op::lt: p.inside = 1, --p.offset; break;
    case Op::gt: p.outside = 1; break;
    case Op::ge: p.outside = 1, --p.offset; break;
    default: return {};
  }
  return p;
}
// Axes counted from the last. A view may take axes of extent 1 in or out, or repeat.
std::optional<Pattern> viewed(const Graph& g, uint32_t n, Pattern p) {
  const Result &to = g.node(n).result, &from = g.node(g.node(n).call.in[0]).result;
  if (p.shape == Shape::number) return p;
  if (p.shape == Shape::count) {
    if (g.node(n).call.op != Op::reshape) return p;
    int found = -1;
    for (int i = 0; i < to.rank; ++i)
      if (to.size[i] != 1) {
        if (found >= 0) return {};
        found = to.rank - 1 - i;
      }
    if (found < 0 || found > 1) return {};
    p.axis = found;
    return p;
  }
  if (to.rank < 2 || from.rank < 2) return {};
  for (int i = 1; i <= 2; ++i)
    if (!g.same_size(to.size[to.rank - i], from.size[from.rank - i])) return {};
  return p;
}
std::optional<Pattern> source(const Graph& g, uint32_t n) {
  const Call& call = g.node(n).call;
  if (call.op == Op::full) {
    Pattern p{.shape = Shape::number, .inside = number_at(g.trace(), n, 0)};
    p.outside = p.inside;
    rely_on(g, n, 0, p);
    return p;
  }
  if (call.op != Op::arange || number_at(g.trace(), n, 1) != 1) return {};
  const double start = number_at(g.trace(), n, 0);
  if (start != std::floor(start) || std::fabs(start) > 1e6) return {};
  Pattern p{.shape = Shape::count, .offset = int64_t(start)};
  rely_on(g, n, 0, p), rely_on(g, n, 1, p);
  return p;
}
}  // namespace

std::optional<Pattern> pattern_of(const Graph& g, uint32_t n, int depth) {
  const Node& node = g.node(n);
  const Call& call = node.call;
  const RowKind kind = row(call.op).kind;
  if (g.written(n) || (call.mode & in_place) || n >= g.rewrite.nodes || call.op == Op::leaf || depth == 0) return {};
  if (kind == RowKind::source) return source(g, n);
  if (call.op == Op::reshape || call.op == Op::expand) {
    std::optional<Pattern> p = pattern_of(g, call.in[0], depth - 1);
    return p ? viewed(g, n, std::move(*p)) : p;
  }
  const int count = g.trace().input_count(n);
  if (!element(call.op, 0, 0, 0) || count > 3) return {};
  Pattern in[3];
  uint32_t numbers = 0;
  std::vector<Rewrite::Known> known;
  const Pattern *first = nullptr, *second = nullptr;  // those that are no number
  for (int k = 0; k < count; ++k) {
    if (g.is_number(call.in[k])) {
      in[k] = {.shape = Shape::number, .inside = number_at(g.trace(), n, numbers)};
      in[k].outside = in[k].inside;
      rely_on(g, n, numbers++, in[k]);
    } else if (std::optional<Pattern> p = pattern_of(g, call.in[k], depth - 1)) in[k] = std::move(*p);
    else return {};
    known.insert(known.end(), in[k].known.begin(), in[k].known.end());
    if (in[k].shape != Shape::number) (first ? second : first) = &in[k];
  }
  Pattern p{.shape = Shape::number};
  if (first) p = *first;
  if (first && first->shape == Shape::count) {
    if (second) {
      if (second->shape != Shape::count) return {};
      std::optional<Pattern> made = compared(call.op, *first, *second);
      if (!made) return {};
      p = *made;
    } else if (count == 2 && (call.op == Op::add || call.op == Op::sub) && (call.op == Op::add || first == &in[0])) {
      const double by = (first == &in[0] ? in[1] : in[0]).inside;
      if (by != std::floor(by) || std::fabs(by) > 1e6) return {};
      p.offset += call.op == Op::add ? int64_t(by) : -int64_t(by);
    } else if (call.op != Op::copy && call.op != Op::detach) return {};
  } else {
    if (second && (second->shape != Shape::triangle || second->offset != first->offset)) return {};
    p.inside = *element(call.op, in[0].inside, in[1].inside, in[2].inside);
    p.outside = *element(call.op, in[0].outside, in[1].outside, in[2].outside);
    for (double* v : {&p.inside, &p.outside}) {
      if (node.result.dtype == Dtype::Bool) *v = *v != 0;
      if (std::isnan(*v) || (!is_floating(node.result.dtype) && *v != std::floor(*v))) return {};
    }
  }
  p.known = std::move(known);
  return p;
}

}  // namespace frit::jit
