// See tune_model.h. With the other axes held, the cost of one axis's edges is a sum over its buckets, plans included: a plan belongs to one
// bucket of the axis. So the cheapest division into k buckets follows from the cheapest of its beginning into k - 1. Start at best_edges.
#include "frontend/cli/tune_model.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace frit::cli {

namespace {
size_t bucket_of(const Edges& edges, int64_t extent) {
  return extent == 0 ? SIZE_MAX : size_t(std::lower_bound(edges.begin(), edges.end(), extent) - edges.begin());
}
// The doublings between the least and the largest extent met in each bucket of an axis.
std::vector<double> widths(const CostModel& m, const Edges& edges, size_t axis) {
  std::vector<int64_t> least(edges.size() + 1, 0), largest(edges.size() + 1, 0);
  for (int64_t e : m.extents(axis)) {
    const size_t b = bucket_of(edges, e);
    if (!least[b]) least[b] = e;
    largest[b] = e;
  }
  std::vector<double> w;
  for (size_t b = 0; b < least.size(); ++b) w.push_back(least[b] ? std::log2(double(largest[b]) / double(least[b])) : 0);
  return w;
}
}  // namespace

std::vector<int64_t> CostModel::extents(size_t axis) const {
  std::set<int64_t> met;
  for (const Sample& s : samples)
    if (s.extents[axis]) met.insert(s.extents[axis]);
  return {met.begin(), met.end()};
}

Cost cost_of(const CostModel& m, const std::vector<Edges>& policy) {
  std::vector<std::vector<double>> width;
  for (size_t a = 0; a < policy.size(); ++a) width.push_back(widths(m, policy[a], a));
  std::set<std::pair<uint64_t, std::vector<size_t>>> plans;
  Cost c;
  double plain = 0;
  for (const Sample& s : m.samples) {
    std::vector<size_t> buckets;
    double wide = 0;
    for (size_t a = 0; a < policy.size(); ++a) {
      buckets.push_back(bucket_of(policy[a], s.extents[a]));
      if (s.extents[a]) wide += width[a][buckets.back()];
    }
    plans.emplace(s.structure, std::move(buckets));
    plain += m.runs * s.times * s.seconds;
    c.run += m.runs * s.times * s.seconds * (1 + m.slope * wide);
  }
  c.plans = double(plans.size());
  c.total = c.run + m.compile * c.plans;
  c.slowdown = plain > 0 ? c.run / plain : 1;
  return c;
}

std::vector<Edges> best_edges(const CostModel& m, const std::vector<Edges>& policy, size_t axis, int most) {
  const std::vector<int64_t> met = m.extents(axis);
  const size_t n = met.size();
  if (n == 0) return {};
  // Samples by extent of the axis: which plan they need beside it, and their seconds without this axis's widening.
  struct Part { size_t plan; double seconds, plain; };
  std::vector<std::vector<Part>> at(n);
  std::map<std::pair<uint64_t, std::vector<size_t>>, size_t> plans;
  std::vector<std::vector<double>> width;
  for (size_t a = 0; a < policy.size(); ++a) width.push_back(a == axis ? std::vector<double>{} : widths(m, policy[a], a));
  for (const Sample& s : m.samples) {
    if (!s.extents[axis]) continue;
    std::vector<size_t> others;
    double wide = 0;
    for (size_t a = 0; a < policy.size(); ++a) {
      others.push_back(a == axis ? 0 : bucket_of(policy[a], s.extents[a]));
      if (a != axis && s.extents[a]) wide += width[a][others.back()];
    }
    const size_t plan = plans.emplace(std::pair{s.structure, std::move(others)}, plans.size()).first->second;
    const double seconds = m.runs * s.times * s.seconds;
    at[size_t(std::lower_bound(met.begin(), met.end(), s.extents[axis]) - met.begin())].push_back({plan, seconds * (1 + m.slope * wide), seconds});
  }
  // cost[i][j]: of one bucket that holds the extents i … j.
  std::vector<std::vector<double>> cost(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i) {
    std::vector<bool> needed(plans.size());
    double count = 0, run = 0, plain = 0;
    for (size_t j = i; j < n; ++j) {
      for (const Part& p : at[j]) {
        if (!needed[p.plan]) needed[p.plan] = true, ++count;
        run += p.seconds, plain += p.plain;
      }
      cost[i][j] = run + m.slope * std::log2(double(met[j]) / double(met[i])) * plain + m.compile * count;
    }
  }
  const size_t k_most = std::min<size_t>(n, size_t(std::max(most, 1)));
  std::vector<std::vector<double>> best(k_most + 1, std::vector<double>(n + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<size_t>> from(k_most + 1, std::vector<size_t>(n + 1));
  best[0][0] = 0;
  std::vector<Edges> answers;
  for (size_t k = 1; k <= k_most; ++k) {
    for (size_t end = k; end <= n; ++end)
      for (size_t begin = k - 1; begin < end; ++begin)
        if (const double c = best[k - 1][begin] + cost[begin][end - 1]; c < best[k][end]) best[k][end] = c, from[k][end] = begin;
    Edges edges;
    for (size_t end = n, left = k; left; end = from[left][end], --left) edges.insert(edges.begin(), met[end - 1]);
    answers.push_back(std::move(edges));
  }
  return answers;
}

std::vector<Edges> best_policy(const CostModel& m, int most) {
  std::vector<Edges> policy;
  for (size_t a = 0; a < m.axes(); ++a) {
    const auto met = m.extents(a);
    policy.push_back(met.empty() ? Edges{} : Edges{met.back()});
  }
  double now = cost_of(m, policy).total;
  for (int round = 0; round < 20; ++round) {
    bool cheaper = false;
    for (size_t a = 0; a < policy.size(); ++a)
      for (Edges& edges : best_edges(m, policy, a, most)) {
        std::vector<Edges> other = policy;
        other[a] = std::move(edges);
        if (const double c = cost_of(m, other).total; c < now * (1 - 1e-12)) now = c, policy = std::move(other), cheaper = true;
      }
    if (!cheaper) break;
  }
  return policy;
}

}  // namespace frit::cli
