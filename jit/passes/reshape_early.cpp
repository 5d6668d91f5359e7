// A reshape of what was computed becomes one of what it was computed from, so that an op and its neighbours have one shape and fuse:
// a linear layer of three axes adds its bias in two, and what follows works in three. The operands are reshaped as views; those
// that lie along the last axis alone stay as they are.
#include <algorithm>
#include "jit/passes/passes.h"

namespace frit::jit {

using namespace tracer;

namespace {
// Does the reshape leave the last axis alone? Its groups of axes: 4 bits an axis, the result's below, the input's above.
bool keeps_last_axis(const Node& reshape, const Node& in) {
  const int rank = reshape.result.rank, from = in.result.rank;
  if (rank == 0 || from == 0) return false;
  const uint64_t attr = reshape.call.attr, last = attr >> (4 * (rank - 1)) & 15;
  if (last != (attr >> (32 + 4 * (from - 1)) & 15)) return false;
  for (int i = 0; i + 1 < rank; ++i)
    if ((attr >> (4 * i) & 15) == last) return false;
  for (int i = 0; i + 1 < from; ++i)
    if ((attr >> (32 + 4 * i) & 15) == last) return false;
  return true;
}
}  // namespace

void reshape_early(Graph& g) {
  const Trace& t = g.trace();
  g.number_nodes();
  const std::vector<uint32_t> order = g.order();
  for (uint32_t view : order) {
    const Node reshape = t.nodes[view];
    if (!g.needed[view] || reshape.call.op != Op::reshape || g.shown(view)) continue;
    const uint32_t n = reshape.call.in[0];
    const Node node = t.nodes[n];
    if (row(node.call.op).kind != RowKind::pointwise || g.roots[n] || g.readers(n).size() != 1 || !keeps_last_axis(reshape, node) || !g.repeatable(n, view) || !g.replaceable(view)) continue;
    // Its readers must gain: one that is no view.
    const std::vector<uint32_t>& readers = g.readers(view);
    if (std::none_of(readers.begin(), readers.end(), [&](uint32_t r) { const RowKind k = row(t.nodes[r].call.op).kind; return k == RowKind::pointwise || k == RowKind::reduce; })) continue;
    bool possible = true;
    int whole = 0;
    for (int k = 0; k < t.input_count(n) && possible; ++k) {
      const uint32_t in = t.input(n, k);
      if (g.is_number(in)) continue;
      const Result& r = t.nodes[in].result;
      if (g.same_shape(in, n)) possible = row(t.nodes[in].call.op).kind == RowKind::product, ++whole;  // whose memory is in order
      else possible = r.rank == 1 && g.same_size(r.size[0], node.result.size[node.result.rank - 1]);
    }
    if (!possible || whole != 1) continue;
    Call call = node.call;
    uint32_t after = view;
    for (int k = 0; k < t.input_count(n); ++k)
      if (const uint32_t in = t.input(n, k); !g.is_number(in) && g.same_shape(in, n)) {
        Call shaped = reshape.call;
        shaped.in[0] = in;
        call.in[k] = after = g.append(shaped, t.nodes[in].result.dtype, t.nodes[in].result.compute, view, view, after);
      }
    g.replace(view, g.append(call, node.result.dtype, node.result.compute, view, n, after));
    g.number_nodes();
  }
}

}  // namespace frit::jit
