// The random rows: the same seed and stream give the same bits whatever the mode and however the tensor is split; moments
// and bounds; streams differ.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <set>
#include "tests/support/op_harness.h"

using namespace frit;
using namespace frit::testing;

namespace {
struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0, low = 1e300, high = -1e300;
};
Moments moments(const Tensor& t) {
  const std::vector<double> v = doubles(t);
  Moments m;
  for (double x : v) m.mean += x, m.low = std::min(m.low, x), m.high = std::max(m.high, x);
  m.mean /= double(v.size());
  for (double x : v) {
    const double d = x - m.mean;
    m.variance += d * d, m.skew += d * d * d, m.kurtosis += d * d * d * d;
  }
  m.variance /= double(v.size());
  m.skew /= double(v.size()) * std::pow(m.variance, 1.5), m.kurtosis /= double(v.size()) * m.variance * m.variance;
  return m;
}
}  // namespace

TEST_CASE("random: one seed, one sequence of bits, in every mode") {
  std::vector<std::vector<Var>> drawn;
  for (RunMode mode : all_modes) {
    Checked checked(mode);
    manual_seed(77);
    std::vector<Var> all;
    for (Dtype d : floating_dtypes) all.push_back(rand({3, 333}, d)), all.push_back(randn({1001}, d));
    for (Dtype d : all_dtypes)
      if (is_integral(d)) all.push_back(randint(-100, 100, {515}, d));
    all.push_back(randperm(100));
    all.push_back(randn({4}) * rand({4}));
    synchronize();
    drawn.push_back(all);
  }
  for (size_t m = 1; m < drawn.size(); ++m)
    for (size_t i = 0; i < drawn[0].size(); ++i) {
      INFO("draw " << i << " " << mode_name(all_modes[m]));
      CHECK(same_bits(drawn[0][i], drawn[m][i]));
    }
  manual_seed(77);
  const Tensor again = rand({3, 333}, kFloat16), next = randn({1001}, kFloat16);
  CHECK(same_bits(again, drawn[0][0]));
  CHECK(same_bits(next, drawn[0][1]));
  manual_seed(78);
  CHECK(!same_bits(rand({3, 333}, kFloat16), drawn[0][0]));
  require_covered({Op::random_uniform, Op::random_normal, Op::random_integer});
  report("random rows");
}

TEST_CASE("random: an element depends on its index, not on the shape or the threads") {
  manual_seed(5);
  const Tensor line = randn({150000});
  manual_seed(5);
  const Tensor sheet = randn({300, 500});
  manual_seed(5);
  const Tensor part = randn({17});
  CHECK(same_bits(line, sheet.reshape({150000})));
  CHECK(same_bits(line.narrow(0, 0, 17), part));
}

TEST_CASE("random: distributions") {
  manual_seed(run_seed());
  constexpr int64_t n = 200000;
  const double root = std::sqrt(double(n));
  for (Dtype d : {kFloat32, kFloat64}) {
    INFO(dtype_name(d) << " seed " << run_seed());
    const Moments u = moments(rand({n}, d));
    CHECK(u.low >= 0);
    CHECK(u.high < 1);
    CHECK(std::abs(u.mean - 0.5) < 6 * std::sqrt(1 / 12.0) / root);
    CHECK(std::abs(u.variance - 1 / 12.0) < 6 * 0.075 / root);
    const Moments g = moments(randn({n}, d));
    CHECK(std::abs(g.mean) < 6 / root);
    CHECK(std::abs(g.variance - 1) < 6 * std::sqrt(2.0) / root);
    CHECK(std::abs(g.skew) < 6 * std::sqrt(6.0) / root);
    CHECK(std::abs(g.kurtosis - 3) < 6 * std::sqrt(24.0) / root);
    CHECK(g.high > 3.5);
    CHECK(g.high < 7);
  }
  for (Dtype d : {kFloat16, kBFloat16}) {
    const Moments u = moments(rand({n}, d));
    INFO(dtype_name(d));
    CHECK(u.low >= 0);
    CHECK(u.high < 1);
    CHECK(std::abs(u.mean - 0.5) < 0.01);
    CHECK(std::abs(moments(randn({n}, d)).variance - 1) < 0.03);
  }
  const Tensor dice = randint(1, 7, {n});
  const Moments i = moments(dice);
  CHECK(i.low == 1);
  CHECK(i.high == 6);
  for (int64_t face = 1; face < 7; ++face) CHECK(std::abs(double(dice.eq(Scalar(face)).sum().item<int64_t>()) - n / 6.0) < 6 * std::sqrt(n * 5 / 36.0));
  const std::vector<double> order = doubles(randperm(1000));
  CHECK(std::set<double>(order.begin(), order.end()).size() == 1000);
  CHECK(*std::max_element(order.begin(), order.end()) == 999);
  CHECK(std::abs(doubles(randn({n}).mul(randn({n})).mean())[0]) < 6 / root);  // streams are independent
}
