// The stated error of each scalar function, in units in the last place of the correctly rounded result, over [lo, hi]. The op table
// and the documentation read it; tests/test_scalar_math.cpp measures it. A result that overflows or underflows counts as the nearest
// power of two, or subnormal, so that the bounds hold over the whole range of the type unless the domain says otherwise.
// For negative arguments lgamma and digamma in Float64 are within 8 units of 2^-53 times the size of the terms that cancel.
#pragma once
#include <limits>

namespace frit::scalar {

#define FRIT_INFINITY std::numeric_limits<double>::infinity()
// name, lo, hi, Float32, Float64
#define FRIT_FOR_EACH_SCALAR_BOUND(X)                    \
  X(exp, -FRIT_INFINITY, FRIT_INFINITY, 1.25, 1.25)      \
  X(exp2, -FRIT_INFINITY, FRIT_INFINITY, 1.25, 1.25)     \
  X(expm1, -FRIT_INFINITY, FRIT_INFINITY, 2, 2.5)        \
  X(log, -FRIT_INFINITY, FRIT_INFINITY, 1.25, 1)         \
  X(log2, -FRIT_INFINITY, FRIT_INFINITY, 1.75, 1.25)     \
  X(log10, -FRIT_INFINITY, FRIT_INFINITY, 1.75, 1.25)    \
  X(log1p, -FRIT_INFINITY, FRIT_INFINITY, 1.75, 1.5)     \
  X(sin, -FRIT_INFINITY, FRIT_INFINITY, 2.5, 2.5)        \
  X(cos, -FRIT_INFINITY, FRIT_INFINITY, 2.5, 2.5)        \
  X(tan, -FRIT_INFINITY, FRIT_INFINITY, 3.25, 4)         \
  X(sinh, -FRIT_INFINITY, FRIT_INFINITY, 2.5, 3)         \
  X(cosh, -FRIT_INFINITY, FRIT_INFINITY, 1.75, 1.75)     \
  X(tanh, -FRIT_INFINITY, FRIT_INFINITY, 2.75, 3)        \
  X(asinh, -FRIT_INFINITY, FRIT_INFINITY, 2.25, 2.25)    \
  X(acosh, -FRIT_INFINITY, FRIT_INFINITY, 2.25, 2.25)    \
  X(atanh, -FRIT_INFINITY, FRIT_INFINITY, 2.5, 2.25)     \
  X(erf, -FRIT_INFINITY, FRIT_INFINITY, 1.25, 1.5)       \
  X(erfc, -FRIT_INFINITY, FRIT_INFINITY, 3.5, 4.5)       \
  X(sigmoid, -FRIT_INFINITY, FRIT_INFINITY, 2.75, 2.75)  \
  X(softplus, -FRIT_INFINITY, FRIT_INFINITY, 2.5, 2)     \
  X(gelu, -FRIT_INFINITY, FRIT_INFINITY, 4, 4)           \
  X(asin, -FRIT_INFINITY, FRIT_INFINITY, 2.75, 2.75)     \
  X(acos, -FRIT_INFINITY, FRIT_INFINITY, 1.5, 1.5)       \
  X(atan, -FRIT_INFINITY, FRIT_INFINITY, 2.25, 2)        \
  X(atan2, -FRIT_INFINITY, FRIT_INFINITY, 2.25, 2)       \
  X(pow, -FRIT_INFINITY, FRIT_INFINITY, 0.75, 1.5)       \
  X(lgamma, 0, FRIT_INFINITY, 0.75, 6)                   \
  X(digamma, 0, FRIT_INFINITY, 0.75, 5.5)

struct Bound {
  const char* name;
  double lo, hi, ulp_float32, ulp_float64;
};
constexpr Bound scalar_bounds[] = {
#define X(name, lo, hi, single, twice) {#name, lo, hi, single, twice},
    FRIT_FOR_EACH_SCALAR_BOUND(X)
#undef X
};

}  // namespace frit::scalar
