// What the tests of layers share: comparing with values in double precision, both modes, random inputs.
#pragma once
#include <catch2/catch.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "frit/frit.h"

namespace frit::layer_checks {

using Sizes = std::vector<int64_t>;
inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline std::vector<double> values(const Tensor& t) {
  const Tensor d = t.detach().to(kFloat64).contiguous();
  const double* p = d.const_data_ptr<double>();
  return {p, p + d.numel()};
}
inline void check_close(const Tensor& got, const Sizes& shape, const std::vector<double>& want, double tolerance = 1e-11) {
  REQUIRE(got.sizes().vec() == shape);
  const auto g = values(got);
  REQUIRE(g.size() == want.size());
  for (size_t i = 0; i < g.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(g[i])) continue;
    if (std::isinf(want[i]) && g[i] == want[i]) continue;
    if (!(std::abs(g[i] - want[i]) <= tolerance * (1 + std::abs(want[i])))) {
      INFO("element " << i << " of " << got.sizes().vec().size() << " axes");
      CHECK(g[i] == want[i]);
      return;
    }
  }
  SUCCEED();
}
// Each in both modes, with the same random numbers.
inline void in_both_modes(const std::function<void()>& f) {
  for (const jit::Mode m : {jit::Mode::eager, jit::Mode::automatic}) {
    INFO((m == jit::Mode::eager ? "eager" : "automatic"));
    jit::ModeGuard guard(m);
    manual_seed(11);
    f();
  }
}
inline Tensor random(IntArrayRef sizes) { return randn(sizes, kFloat64); }
inline std::string join(const Sizes& v) {
  std::string s;
  for (int64_t x : v) s += (s.empty() ? "" : "x") + std::to_string(x);
  return s;
}

}  // namespace frit::layer_checks
