// See minimum_cut.h.
#include "jit/passes/minimum_cut.h"
#include <algorithm>
#include <deque>
#include "tracer/op_table.h"
#include "tracer/scalar.h"

namespace frit::jit {

using namespace tracer;

double pointwise_cost(const Node& n) {
  double cost = 0;
  for (const scalar::Node& e : pointwise_function(n.call.op, n.result.compute).nodes) {
    const bool given = e.prim == scalar::Prim::input || e.prim == scalar::Prim::param || e.prim == scalar::Prim::constant;
    const bool slow = e.prim == scalar::Prim::div || e.prim == scalar::Prim::sqrt || e.prim == scalar::Prim::table;
    cost += given ? 0 : slow ? 1 : 0.15;
  }
  return cost;
}

bool Network::cut(int source, int sink) {
  while (true) {
    std::vector<int> by(next_.size(), -1);  // the edge on which a vertex was reached
    std::deque<int> queue{source};
    while (!queue.empty() && by[size_t(sink)] < 0) {
      const int v = queue.front();
      queue.pop_front();
      for (int e : next_[size_t(v)])
        if (const int to = edges_[size_t(e)].to; edges_[size_t(e)].left > 1e-9 && to != source && by[size_t(to)] < 0) by[size_t(to)] = e, queue.push_back(to);
    }
    if (by[size_t(sink)] < 0) break;
    double least = infinite;
    for (int v = sink; v != source; v = edges_[size_t(by[size_t(v)] ^ 1)].to) least = std::min(least, edges_[size_t(by[size_t(v)])].left);
    if (least == infinite) return false;
    for (int v = sink; v != source; v = edges_[size_t(by[size_t(v)] ^ 1)].to) edges_[size_t(by[size_t(v)])].left -= least, edges_[size_t(by[size_t(v)] ^ 1)].left += least;
    flow_ += least;
  }
  sink_side_.assign(next_.size(), false);
  std::deque<int> queue{sink};
  sink_side_[size_t(sink)] = true;
  while (!queue.empty()) {  // what still reaches the sink; the rest is read as early as possible
    const int v = queue.front();
    queue.pop_front();
    for (int e : next_[size_t(v)])
      if (const int from = edges_[size_t(e)].to; edges_[size_t(e ^ 1)].left > 1e-9 && !sink_side_[size_t(from)]) sink_side_[size_t(from)] = true, queue.push_back(from);
  }
  return true;
}

}  // namespace frit::jit
