// See tune_measure.h. Start at flushes_of.
#include "frontend/cli/tune_measure.h"
#include <algorithm>
#include <cmath>
#include <set>

namespace frit::cli {

using nlohmann::json;

double quantile(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  const auto at = v.begin() + std::ptrdiff_t(q * double(v.size() - 1));
  std::nth_element(v.begin(), at, v.end());
  return *at;
}

std::vector<Flush> flushes_of(const json& record, const std::vector<std::string>& axes) {
  std::vector<Flush> list;
  std::map<std::pair<size_t, int64_t>, std::pair<int64_t, int64_t>> met;  // axis and high edge: least and largest extent
  std::vector<std::vector<int64_t>> highs;
  for (const json& f : record["flushes"]) {
    Flush x{f["structure"].get<uint64_t>(), f["structure"].get<uint64_t>(), std::vector<int64_t>(axes.size()), std::vector<double>(axes.size()), f["seconds"].get<double>(), f["new"].get<bool>(), f["tier"].get<int>() > 0};
    std::vector<int64_t> high(axes.size());
    for (const json& a : f["axes"]) {
      const size_t i = size_t(std::find(axes.begin(), axes.end(), a[0].get<std::string>()) - axes.begin());
      if (i == axes.size()) x.structure = (x.structure ^ uint64_t(a[3].get<int64_t>())) * 0x9e3779b97f4a7c15;  // another axis: its bucket makes another plan
      if (i == axes.size() || a[1].get<int64_t>() <= x.extents[i]) continue;  // several of one name: the largest
      x.extents[i] = a[1].get<int64_t>(), high[i] = a[3].get<int64_t>();
    }
    if (std::all_of(x.extents.begin(), x.extents.end(), [](int64_t e) { return e == 0; })) continue;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (!x.extents[i]) continue;
      auto [at, fresh] = met.try_emplace({i, high[i]}, x.extents[i], x.extents[i]);
      at->second = {std::min(at->second.first, x.extents[i]), std::max(at->second.second, x.extents[i])};
    }
    list.push_back(std::move(x));
    highs.push_back(std::move(high));
  }
  for (size_t k = 0; k < list.size(); ++k)
    for (size_t i = 0; i < axes.size(); ++i)
      if (list[k].extents[i]) {
        const auto [least, largest] = met[{i, highs[k][i]}];
        list[k].widths[i] = std::log2(double(largest) / double(least));
      }
  return list;
}
std::map<Place, double> steady_times(const std::vector<Flush>& flushes) {
  std::map<Place, std::vector<double>> samples;
  for (const Flush& f : flushes)
    if (f.compiled && !f.fresh) samples[{f.structure, f.extents}].push_back(f.seconds);
  std::map<Place, double> times;
  for (auto& [place, s] : samples) times[place] = quantile(s, 0.25);
  return times;
}
double nearest_time(const std::map<Place, double>& times, const Place& place) {
  if (const auto at = times.find(place); at != times.end()) return at->second;
  double best = 1e300, seconds = 0;
  for (auto at = times.lower_bound({place.first, {}}); at != times.end() && at->first.first == place.first; ++at) {
    double away = 0;
    for (size_t i = 0; i < place.second.size(); ++i) away += std::fabs(std::log2(double(at->first.second[i] + 1) / double(place.second[i] + 1)));
    if (away < best) best = away, seconds = at->second;
  }
  return seconds;
}

double plan_cost(const std::vector<Flush>& flushes, const std::map<Place, double>& steady) {
  std::set<uint64_t> seen;
  double first = 0, others = 0;
  int first_count = 0, other_count = 0;
  for (const Flush& f : flushes) {
    if (!f.fresh) continue;
    const double more = f.seconds - nearest_time(steady, {f.structure, f.extents});
    if (seen.insert(f.structure).second) first += more, ++first_count;
    else others += more, ++other_count;
  }
  return std::max(0.0, other_count ? others / other_count : first_count ? first / first_count : 0);
}
double fit_slope(const std::vector<const std::vector<Flush>*>& wide, const std::map<Place, double>& exact) {
  double above = 0, below = 0;
  for (const auto* flushes : wide) {
    std::map<Place, double> width;
    for (const Flush& f : *flushes) {
      double& w = width[{f.structure, f.extents}];
      w = 0;
      for (double x : f.widths) w += x;
    }
    for (const auto& [place, seconds] : steady_times(*flushes)) {
      const auto at = exact.find(place);
      if (at == exact.end() || at->second <= 0) continue;
      const double w = width[place];
      above += at->second * w * (seconds / at->second - 1), below += at->second * w * w;
    }
  }
  return below > 0 ? std::max(0.0, above / below) : 0;
}

}  // namespace frit::cli
