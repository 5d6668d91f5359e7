// The tuner's choice against trying every policy, and the model's arithmetic by hand.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include "frontend/cli/tune_measure.h"

using namespace frit::cli;

namespace {
// All divisions of the extents met into at most `most` buckets.
std::vector<Edges> all_edges(const std::vector<int64_t>& met, int most) {
  std::vector<Edges> all;
  for (unsigned cuts = 0; cuts < 1u << (met.size() - 1); ++cuts) {
    Edges e;
    for (size_t i = 0; i + 1 < met.size(); ++i)
      if (cuts >> i & 1) e.push_back(met[i]);
    e.push_back(met.back());
    if (int(e.size()) <= most) all.push_back(std::move(e));
  }
  return all;
}
CostModel random_model(std::mt19937_64& random, size_t axes, int samples) {
  CostModel m;
  m.compile = std::uniform_real_distribution<double>(0, 0.02)(random), m.slope = std::uniform_real_distribution<double>(0, 0.4)(random), m.runs = double(1 + random() % 4);
  for (int i = 0; i < samples; ++i) {
    Sample s{random() % 3, {}, double(1 + random() % 50), 0};
    for (size_t a = 0; a < axes; ++a) s.extents.push_back(random() % 9 == 0 ? 0 : int64_t(2 + random() % 9 * (a + 1)));
    s.seconds = 1e-4 * double(1 + random() % 20);
    m.samples.push_back(std::move(s));
  }
  for (size_t a = 0; a < axes; ++a) m.samples[a].extents[a] = 3;  // each axis is met
  return m;
}
}  // namespace

TEST_CASE("tune: the model's arithmetic") {
  CostModel m;
  m.compile = 1, m.slope = 0.5, m.runs = 2;
  m.samples = {{7, {4}, 10, 0.1}, {7, {16}, 5, 0.2}, {8, {16}, 1, 0.3}};
  const Cost one = cost_of(m, {{16}}), two = cost_of(m, {{4, 16}});
  CHECK(one.plans == 2);
  CHECK(one.run == Approx(2 * (1.0 + 1.0 + 0.3) * (1 + 0.5 * 2)));
  CHECK(one.slowdown == Approx(2));
  CHECK(one.total == Approx(one.run + 2));
  CHECK(two.plans == 3);
  CHECK(two.slowdown == Approx(1));
  CHECK(best_policy(m, 1)[0] == Edges{16});
  CHECK(best_policy(m, 5)[0] == Edges{4, 16});
  m.compile = 100;
  CHECK(best_policy(m, 5)[0] == Edges{16});
  m.runs = 1000;
  CHECK(best_policy(m, 5)[0] == Edges{4, 16});
}

TEST_CASE("tune: one axis is divided as well as by trying everything, for each number of buckets") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    const CostModel m = random_model(random, 1, 24);
    const auto met = m.extents(0);
    const int most = int(1 + random() % 5);
    const auto found = best_edges(m, {{}}, 0, most);
    REQUIRE(found.size() == std::min<size_t>(met.size(), size_t(most)));
    double best_total = 1e300;
    for (size_t k = 1; k <= found.size(); ++k) {
      double best = 1e300;
      for (const Edges& e : all_edges(met, int(k)))
        if (e.size() == k) best = std::min(best, cost_of(m, {e}).total);
      CHECK(found[k - 1].size() == k);
      CHECK(cost_of(m, {found[k - 1]}).total == Approx(best));
      best_total = std::min(best_total, best);
    }
    CHECK(cost_of(m, best_policy(m, most)).total == Approx(best_total));
  }
}

TEST_CASE("tune: with several axes no change of one of them is cheaper") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20; ++round) {
    const CostModel m = random_model(random, 2, 30);
    const auto policy = best_policy(m, 4);
    const double total = cost_of(m, policy).total;
    for (size_t a = 0; a < 2; ++a) {
      CHECK(policy[a].back() == m.extents(a).back());
      for (Edges& e : all_edges(m.extents(a), 4)) {
        auto other = policy;
        other[a] = e;
        CHECK(cost_of(m, other).total >= total * (1 - 1e-9));
      }
    }
  }
}

TEST_CASE("tune: what a plan costs and how width costs are read from records") {
  using nlohmann::json;
  // Extents 8, 16, 32, 64, so many milliseconds each as the extent / 8; 10 % more for each doubling in the bucket, 5 ms more where the plan is new.
  const auto record = [](bool wide) {
    json flushes = json::array();
    for (int round = 0; round < 5; ++round)
      for (int64_t e : {8, 16, 32, 64}) {
        const bool fresh = round == 0 && (!wide || e == 8);
        const double seconds = 1e-3 * double(e) / 8 * (wide ? 1.3 : 1) + (fresh ? 5e-3 : 0) + (round == 3 ? 1 : 0);  // one round was disturbed
        json axes = json::array({json::array({"seq", e, wide ? 1 : e - 1, wide ? 1000 : e}), json::array({"dim", 16, 8, 16})});
        flushes.push_back({{"structure", 77}, {"seconds", seconds}, {"new", fresh}, {"tier", 1}, {"axes", axes}});
        flushes.push_back({{"structure", 5}, {"seconds", 1.0}, {"new", false}, {"tier", 1}, {"axes", json::array({json::array({"dim", 16, 8, 16})})}});  // has no such axis
      }
    return json{{"flushes", flushes}};
  };
  const auto narrow = flushes_of(record(false), {"seq"}), wide = flushes_of(record(true), {"seq"});
  REQUIRE(narrow.size() == 20);
  for (const Flush& f : narrow) CHECK(f.widths[0] == 0);
  for (const Flush& f : wide) CHECK(f.widths[0] == Approx(3));
  for (const Flush& f : narrow) CHECK(f.structure == narrow[0].structure);
  CHECK(narrow[0].alone == 77);
  const auto steady = steady_times(narrow);
  CHECK(steady.size() == 4);
  CHECK(nearest_time(steady, {narrow[0].structure, {32}}) == Approx(4e-3));
  CHECK(nearest_time(steady, {narrow[0].structure, {70}}) == Approx(8e-3));
  CHECK(nearest_time(steady, {narrow[0].structure + 1, {32}}) == 0);
  CHECK(plan_cost(narrow, steady) == Approx(5e-3));
  CHECK(fit_slope({&wide}, steady) == Approx(0.1));
  CHECK(fit_slope({&narrow}, steady) == 0);
}
