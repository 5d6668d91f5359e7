// The cost of bucket policies, as a model made of measurements, and the cheapest edges by it.
//
// A run is a list of samples: a structure, with the extents of the tuned axes, so many times, so many seconds each in the steady state. A
// policy puts each extent of an axis into a bucket. Its cost: the samples' seconds, each longer by `slope` for every doubling between the
// least and the largest extent of its buckets; and `compile` seconds for each plan, that is each structure with each tuple of buckets met.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace frit::cli {

using Edges = std::vector<int64_t>;      // ascending: (…, e0], (e0, e1], …; the last is the largest extent met
struct Sample {
  uint64_t structure = 0;
  std::vector<int64_t> extents;          // by axis; 0: it has no such axis
  double times = 1, seconds = 0;
};
struct CostModel {
  std::vector<Sample> samples;
  double compile = 0, slope = 0, runs = 1;  // runs: how often the samples come for one compile
  size_t axes() const { return samples.empty() ? 0 : samples[0].extents.size(); }
  std::vector<int64_t> extents(size_t axis) const;  // met, ascending, 0 left out
};
struct Cost {
  double plans = 0, run = 0, total = 0;  // run: of `runs` runs
  double slowdown = 1;                   // run by the run without any widening
};
Cost cost_of(const CostModel& m, const std::vector<Edges>& policy);  // by axis

// The cheapest policy of at most `most` buckets for this axis, for each number of buckets from 1 to `most` (fewer where there are fewer extents):
// exact, by dynamic programming over the extents met. `policy` says how the other axes are divided.
std::vector<Edges> best_edges(const CostModel& m, const std::vector<Edges>& policy, size_t axis, int most);
// All axes: each in turn, the others held, until nothing gets cheaper. With one axis it is the exact optimum.
std::vector<Edges> best_policy(const CostModel& m, int most);

}  // namespace frit::cli
