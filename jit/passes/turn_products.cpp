// A product that is only read turned, as the gradient of a linear layer's weight and that of attention's keys are: (A B)T = BT AT, whose
// operands are views. Every element is the same chain of fused multiply-adds, so the bits are the same.
#include <algorithm>
#include "jit/passes/passes.h"

namespace frit::jit {

using namespace tracer;

void turn_products(Graph& g) {
  const Trace& t = g.trace();
  const uint32_t count = g.count();
  for (uint32_t n = 0; n < count; ++n) {
    const uint32_t view = n;
    if (!g.needed[view] || !swaps_last_two(t.nodes[view])) continue;
    const uint32_t product = t.nodes[view].call.in[0];
    const Node made = t.nodes[product];
    if (made.call.op != Op::matmul || !g.pure(product) || g.shown(product) || g.readers(product).size() != 1 || !g.replaceable(view)) continue;
    // Read, through views, by what lays its own result out: anything else would give it the product's layout, which the user has been told.
    uint32_t last = view;
    while (g.readers(last).size() == 1 && t.nodes[g.readers(last)[0]].call.op == Op::permute) last = g.readers(last)[0];
    if (g.readers(last).size() != 1) continue;
    const auto lays_out = [&](uint32_t r) {
      const RowKind kind = row(t.nodes[r].call.op).kind;
      return kind == RowKind::cat || kind == RowKind::product || (kind == RowKind::copy && t.nodes[r].call.attr);
    };
    const uint32_t reader = g.readers(last)[0];
    uint32_t by = view;
    if (t.nodes[reader].call.op == Op::reshape) {
      if (g.shown(reader) || g.readers(reader).empty() || !std::all_of(g.readers(reader).begin(), g.readers(reader).end(), lays_out)) continue;
    } else {
      if (t.nodes[reader].call.op != Op::copy || !lays_out(reader) || t.nodes[reader].result.dtype != made.result.dtype || !g.pure(reader) || !g.replaceable(reader)) continue;
      if (last == view) by = reader;  // the copy itself is not needed where nothing else is between
    }
    const uint32_t a = made.call.in[0], b = made.call.in[1];
    const int a_rank = t.nodes[a].result.rank, b_rank = t.nodes[b].result.rank;
    if (a_rank < 2 || b_rank < 2) continue;
    const uint32_t left = g.append_turned(b, product, product), right = g.append_turned(a, product, left);
    Call call = made.call;
    call.in[0] = left, call.in[1] = right;
    g.replace(by, g.append(call, made.result.dtype, made.result.compute, by, product, right));
  }
}

}  // namespace frit::jit
