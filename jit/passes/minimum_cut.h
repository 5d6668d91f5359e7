// What is read or held, and what is computed again instead: the minimum cut of a network of values, and the price of an op.
#pragma once
#include <limits>
#include <map>
#include <vector>
#include "jit/passes/passes.h"

namespace frit::jit {

// Of an element of a pointwise op, in bytes moved in the same time, at about ten bytes a nanosecond and core: by what its expression does.
double pointwise_cost(const tracer::Node& n);
constexpr double writing_cost = 2;       // of a byte, in terms of reading: lines are fetched before they are written, and memory is held until they are read
constexpr int64_t least_repeated = 1 << 12;  // elements of what is worth computing again
// By op that is to be computed again: the first of the readers that needs it, by itself or for another op. Operands come first in `ops`.
std::map<uint32_t, uint32_t> first_to_need(const Graph& g, const std::vector<uint32_t>& ops, const std::vector<uint32_t>& readers);

// By augmenting paths, shortest first (Edmonds and Karp): the networks have tens of vertices.
class Network {
 public:
  static constexpr double infinite = std::numeric_limits<double>::infinity();
  int vertex() { return next_.emplace_back(), int(next_.size()) - 1; }
  void edge(int from, int to, double capacity) {
    next_[size_t(from)].push_back(int(edges_.size())), edges_.push_back({to, capacity});
    next_[size_t(to)].push_back(int(edges_.size())), edges_.push_back({from, 0});
  }
  bool cut(int source, int sink);  // afterwards on_source_side tells the cut nearest to the sink. False: no finite cut
  bool on_source_side(int v) const { return !sink_side_[size_t(v)]; }
  double flow() const { return flow_; }

 private:
  struct Edge {
    int to;
    double left;
  };
  std::vector<Edge> edges_;             // each followed by its reverse
  std::vector<std::vector<int>> next_;
  std::vector<bool> sink_side_;
  double flow_ = 0;
};

}  // namespace frit::jit
