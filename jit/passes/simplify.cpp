// Rules that keep every bit, a line each: an op of the result of another. (abs(relu(x)) is not relu(x): that may be -0.)
#include "jit/passes/passes.h"

namespace frit::jit {

using namespace tracer;

namespace {
enum class Becomes : uint8_t { inner /* op(inner(x)) = inner(x) */, operand /* = x */, outer_of_operand /* = op(x) */ };
struct Rule {
  Op outer, inner;
  Becomes becomes;
};
const Rule rules[] = {
    {Op::neg, Op::neg, Becomes::operand},           {Op::relu, Op::relu, Becomes::inner},          {Op::abs, Op::abs, Becomes::inner},
    {Op::abs, Op::neg, Becomes::outer_of_operand},  {Op::sign, Op::sign, Becomes::inner},
    {Op::floor, Op::floor, Becomes::inner},         {Op::ceil, Op::ceil, Becomes::inner},          {Op::trunc, Op::trunc, Becomes::inner},
    {Op::round, Op::round, Becomes::inner},         {Op::square, Op::neg, Becomes::outer_of_operand}, {Op::square, Op::abs, Becomes::outer_of_operand},
};
}  // namespace

void simplify(Graph& g) {
  const Trace& t = g.trace();
  for (uint32_t n = 0; n < uint32_t(g.rewrite.nodes); ++n) {
    const Node node = t.nodes[n];
    if (!g.needed[n] || node.call.op == Op::leaf || row(node.call.op).kind != RowKind::pointwise || t.input_count(n) != 1 || !g.pure(n)) continue;
    const uint32_t in = node.call.in[0];
    if (g.is_number(in) || row(t.nodes[in].call.op).kind != RowKind::pointwise || !g.pure(in)) continue;
    for (const Rule& r : rules) {
      if (node.call.op != r.outer || t.nodes[in].call.op != r.inner) continue;
      const uint32_t operand = t.nodes[in].call.in[0];
      if (g.is_number(operand) || t.nodes[operand].result.dtype != node.result.dtype || t.nodes[in].result.dtype != node.result.dtype) continue;
      if (r.becomes == Becomes::outer_of_operand) {
        Call call = node.call;
        call.in[0] = operand;
        if (!g.replaceable(n) || !g.same_shape(n, operand)) break;
        g.replace(n, g.append(call, node.result.dtype, node.result.compute, n, n, in));
      } else {
        // Two tensors that users see have memory of their own.
        const uint32_t by = r.becomes == Becomes::inner ? in : operand;
        if (g.shown(n) || !g.replaceable(n) || !g.same_shape(n, by) || (by == operand && t.nodes[by].call.op == Op::leaf)) break;
        g.replace(n, by);
      }
      break;
    }
  }
}

}  // namespace frit::jit
