// Equal ops are one (common subexpressions): the same row, attributes and operands. Ops with arguments (numbers, extents) are left
// alone: two arguments that are equal now need not be the next time.
#include <string>
#include <unordered_map>
#include "jit/passes/passes.h"
#include "tracer/call_form.h"

namespace frit::jit {

using namespace tracer;

void merge_equal(Graph& g) {
  const Trace& t = g.trace();
  std::unordered_map<std::string, uint32_t> seen;
  const std::vector<uint32_t> order = g.order();
  for (uint32_t n : order) {
    if (!g.needed[n] || !g.pure(n) || argument_count(t, n) != 0) continue;
    if (t.fast_math && t.nodes[n].call.op == Op::mul) continue;  // each may become a part of another fused multiply-add
    const Node& node = t.nodes[n];
    std::string key;
    const auto put = [&](auto v) { key.append(reinterpret_cast<const char*>(&v), sizeof v); };
    put(node.call.op), put(node.call.kind), put(node.call.attr), put(node.result.dtype), put(node.result.compute), put(node.result.rank);
    for (int k = 0; k < t.input_count(n); ++k) put(t.input(n, k));
    const auto [at, fresh] = seen.emplace(std::move(key), n);
    if (fresh || !g.same_shape(n, at->second)) continue;
    if (g.shown(n) || !g.replaceable(n) || !g.replaceable(at->second)) continue;
    g.replace(n, at->second);
  }
}

void drop_dead(Graph& g) { g.drop_unneeded(); }

}  // namespace frit::jit
