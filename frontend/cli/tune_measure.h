// What the record of a run says of the tuned axes: the flushes that have them, their steady times, and what the model needs to be fed.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>
#include "frontend/cli/tune_model.h"

namespace frit::cli {

double quantile(std::vector<double> v, double q);
inline double median(const std::vector<double>& v) { return quantile(v, 0.5); }

struct Flush {
  uint64_t structure = 0, alone = 0;  // with the buckets of the other axes, and without
  std::vector<int64_t> extents;
  std::vector<double> widths;  // doublings within its buckets, of the extents met
  double seconds = 0;
  bool fresh = false, compiled = false;
};
using Place = std::pair<uint64_t, std::vector<int64_t>>;  // structure and extents

std::vector<Flush> flushes_of(const nlohmann::json& record, const std::vector<std::string>& axes);
// Seconds of flushes with a known plan, by structure and extents: their lower quartile, since what else the machine does only makes them longer.
std::map<Place, double> steady_times(const std::vector<Flush>& flushes);
double nearest_time(const std::map<Place, double>& times, const Place& place);  // of the nearest extents with the same structure; 0 where there are none
// Seconds that a new plan costs beyond the steady time, by the mean; the first of each structure is left out where there are others.
double plan_cost(const std::vector<Flush>& flushes, const std::map<Place, double>& steady);
// By how much a steady flush takes longer for each doubling within its buckets: least squares through (0, 1), weighted by time.
double fit_slope(const std::vector<const std::vector<Flush>*>& wide, const std::map<Place, double>& exact);

}  // namespace frit::cli
