// Short checks of tensors by value.
#pragma once
#include <catch2/catch.hpp>
#include <cmath>
#include "frit/frit.h"

namespace frit::testing {

// Type, shape and elements (within `tolerance`, relative above 1; NaN equals NaN). On a difference the text says which.
inline std::string differs(const Tensor& t, Dtype d, const std::vector<int64_t>& shape, const std::vector<double>& want, double tolerance) {
  if (!t.defined()) return "undefined";
  const auto text = [&] { return t.str(); };
  if (t.dtype() != d) return std::string("type ") + dtype_name(t.dtype()) + "\n" + text();
  if (t.sizes().vec() != shape) return "shape of\n" + text();
  const Tensor got = t.detach().to(kFloat64).contiguous();
  const double* p = got.const_data_ptr<double>();
  if (size_t(got.numel()) != want.size()) return "count of\n" + text();
  for (size_t i = 0; i < want.size(); ++i) {
    if (p[i] == want[i] || (p[i] != p[i] && want[i] != want[i])) continue;
    if (!(std::abs(p[i] - want[i]) <= tolerance * std::max(1.0, std::abs(want[i])))) return "element " + std::to_string(i) + " is not " + std::to_string(want[i]) + " in\n" + text();
  }
  return "";
}
#define IS(tensor, dtype, ...) CHECK(frit::testing::differs(tensor, dtype, __VA_ARGS__, 1e-6) == "")

template <class E, class F> std::string thrown(F f) {
  try {
    f();
    synchronize();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another type: ") + e.what();
  }
  return "nothing was thrown";
}

}  // namespace frit::testing
