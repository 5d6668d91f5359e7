// Attention written out by hand becomes the row `attention`, which never makes its scores (tracer/attention.h), and its recorded gradient the
// row `attention_gradient`. Only under fast_math: the row sums in blocks of keys, and a query that may see no key gets zeros: with -inf it
// would get NaNs, with a low number the values' mean.
// What is recognised, with types converted anywhere in between:
//
//   s = matmul(q, turned) [* or / a number] [masked]     p = e / sum(e), e = exp(s - amax(s))     matmul(p [dropped], v)
//
// masked: + mask, or where with -inf or with a number so low that its exponential vanishes. A mask that the trace makes itself and that lets a query
// see the keys up to its own place makes the row causal. The gradient is the one that the gradient rules record, found from e's readers.
// Nothing is changed where anything in between is read by others, shown or written. Start at recognise_attention.
#include "tracer/attention.h"
#include <algorithm>
#include <bit>
#include "jit/passes/attention_match.h"

namespace frit::jit {

using namespace tracer;

namespace {
// The row's: true where a key is allowed.
uint32_t mask_for_row(Graph& g, const AttentionMatch& m, uint32_t& after) {
  if (!m.forbids) return m.mask;
  Call call{.op = Op::logical_not};
  call.in[0] = m.mask;
  return after = g.append(call, Dtype::Bool, Dtype::Bool, m.mask, m.product, after);
}
std::vector<Rewrite::Argument> arguments_of(const Graph& g, const AttentionMatch& m) {
  using Form = Rewrite::Form;
  std::vector<Rewrite::Argument> a;
  if (m.scale == no_node) a.push_back({std::bit_cast<uint64_t>(1.0), no_node});
  else a.push_back({0, m.scale, g.node(m.scale).call.op == Op::div ? Form::reciprocal : Form::number});
  if (m.keep == no_node) a.insert(a.end(), 3, {0, no_node});
  else a.push_back({0, m.keep, Form::number}), a.push_back({0, m.random, Form::argument}), a.push_back({1, m.random, Form::argument});
  return a;
}
void replace_gradients(Graph& g, const AttentionMatch& m, uint32_t key, const std::vector<uint32_t>& in, uint64_t attr, const std::vector<Rewrite::Argument>& arguments) {
  const Dtype d = g.node(m.query).result.dtype;
  const uint32_t result = in[3], like = m.first_gradient();
  uint32_t after = std::max(result, m.gradient, [&](uint32_t a, uint32_t b) { return g.position(a) < g.position(b); });
  const uint32_t of_query = after = g.append(Call{.op = Op::attention_gradient, .attr = attr}, in, d, m.query, like, after, arguments);
  const auto beside = [&](int which, uint32_t shape) {
    Call call{.op = Op::companion, .kind = uint8_t(which)};
    call.in[0] = of_query, call.in[1] = shape;
    return after = g.append(call, d, compute_dtype(d), shape, like, after);
  };
  if (m.of_query != no_node) g.replace(m.of_query, of_query);
  if (m.of_value != no_node) g.replace(m.of_value, beside(1, m.value));
  if (m.of_turned == no_node) return;
  const uint32_t of_key = beside(0, key);
  const std::vector<uint32_t> readers = g.readers(m.of_turned);
  for (uint32_t r : readers)  // turned again
    if (swaps_last_two(g.node(r)) && !g.shown(r) && g.replaceable(r)) {
      const std::vector<uint32_t> copies = g.readers(r);
      g.replace(r, of_key), g.needed[r] = false;
      // Copied to be in order: it is.
      const uint32_t c = copies.size() == 1 && readers.size() == 1 ? copies[0] : no_node;
      if (c != no_node && g.node(c).call.op == Op::copy && g.node(c).call.attr && g.node(c).result.dtype == d && !(g.node(c).call.mode & in_place) && g.replaceable(c)) g.replace(c, of_key);
    }
  g.drop_unneeded();
  if (!g.needed[m.of_turned]) return;
  Call copy{.op = Op::copy, .kind = uint8_t(d), .attr = 1};
  copy.in[0] = g.append_turned(of_key, of_key, after);
  g.replace(m.of_turned, g.append(copy, d, compute_dtype(d), m.of_turned, like, copy.in[0]));
}
void rewrite(Graph& g, const AttentionMatch& m) {
  const Dtype d = g.node(m.query).result.dtype;
  const uint64_t attr = (m.causal ? uint64_t(causal_attention) : 0) | (m.keep != no_node ? uint64_t(attention_dropout) : 0);
  uint32_t after = m.product;
  const uint32_t key = swaps_last_two(g.node(m.turned)) ? g.node(m.turned).call.in[0] : (after = g.append_turned(m.turned, m.turned, after));
  const uint32_t mask = mask_for_row(g, m, after);
  const std::vector<Rewrite::Argument> arguments = arguments_of(g, m);
  std::vector<uint32_t> in{m.query, key, m.value};
  if (mask != no_node) in.push_back(mask);
  const uint32_t result = g.append(Call{.op = Op::attention, .attr = attr}, in, d, m.product, m.product, after, arguments);
  g.rewrite.known.insert(g.rewrite.known.end(), m.known.begin(), m.known.end());
  if (m.gradient != no_node) {
    g.want_gradient(result);
    g.number_nodes();
    in = {m.query, key, m.value, result, m.gradient};
    if (mask != no_node) in.push_back(mask);
    replace_gradients(g, m, key, in, attr, arguments);
  }
  g.replace(m.product, result);
  g.drop_unneeded();
  g.number_nodes();
}
}  // namespace

void recognise_attention(Graph& g) {
  if (!g.trace().fast_math) return;
  g.number_nodes();
  int count = 0, gradients = 0;
  const std::vector<uint32_t> order = g.order();
  for (uint32_t n : order) {
    if (!g.needed[n] || g.node(n).call.op != Op::matmul) continue;
    const std::optional<AttentionMatch> m = match_attention(g, n);
    if (!m) continue;
    ++count, gradients += m->gradient != no_node;
    rewrite(g, *m);
  }
  if (count) g.note = "attention written out by hand, " + std::to_string(count) + (count == 1 ? " time" : " times") + (gradients ? ", its gradient " + std::to_string(gradients) + (gradients == 1 ? " time" : " times") : "") + "; no scores are made";
}

}  // namespace frit::jit
