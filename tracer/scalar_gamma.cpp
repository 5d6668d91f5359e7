// lgamma and digamma. Float64 whatever the type outside: Float32 results are rounded once. Arguments from 8 on take Stirling's series,
// smaller ones are shifted to [1, 2], where a polynomial carries the zero (or both zeros) as an exact factor; negative ones are
// reflected. Start with lgamma_double and digamma_double.
#include "tracer/scalar_detail.h"

namespace frit::scalar {
namespace detail {
namespace {

constexpr double pi = 0x1.921fb54442d18p+1;
constexpr int steps = 6;  // from below 8 down to [1, 2)

// lgamma(1 + u) / (u (u - 1)) in u - 1/2, u in [0, 1]
constexpr double lgamma_near[] = {
    0x1.eeb95b094c191p-2, -0x1.2aed059bd6083p-3, 0x1.01af62a292da5p-4, -0x1.007aa83cefef9p-5, 0x1.13342351fe849p-6,
    -0x1.34dbda123178ep-7, 0x1.64f066b33e00ap-8, -0x1.a50353a47030fp-9, 0x1.f81490dfd5fcbp-10, -0x1.313e4ccced4d9p-10,
    0x1.750f5ab567a6dp-11, -0x1.cb512d4a03d85p-12, 0x1.1c25738f5cc6ep-12, -0x1.6178df615d8f9p-13, 0x1.c1b270e03136bp-14,
    -0x1.1d4e0bdce02fp-14, 0x1.33dbdaa0ab0b6p-15, -0x1.65a976338331fp-16, 0x1.a514e244a7b0fp-16, -0x1.393d455876ab3p-16,
    0x1.5e462576a0dafp-19};
// (lgamma(x) - (x - 1/2) log x + x - log(2 pi) / 2) x in 1 / x^2, x >= 8
constexpr double lgamma_far[] = {
    0x1.5555555555555p-4, -0x1.6c16c16c16b32p-9, 0x1.a01a019ee9b17p-11, -0x1.38137ecdac394p-11, 0x1.b94f76d794bdp-11,
    -0x1.f600eadbcae04p-10, 0x1.96ef605396043p-8, -0x1.560f9bc31b7b7p-6};
// digamma(1 + u) / (u - root) in u - 1/2, u in [0, 1]
constexpr double digamma_near[] = {
    0x1.e6f0cbb873616p-1, -0x1.b1cb63005ee98p-2, 0x1.eca189b8e6f76p-3, -0x1.2feeeb98a78d4p-3, 0x1.8512e590384c8p-4,
    -0x1.fb44202a24ecbp-5, 0x1.4de9aa17d3a4p-5, -0x1.b9f8b11b65b89p-6, 0x1.256471620f041p-6, -0x1.8635640e35557p-7,
    0x1.03c0b0fb34c54p-7, -0x1.5a06a32df7d99p-8, 0x1.cd1f7781582d5p-9, -0x1.336dea2301a04p-9, 0x1.99dcf50e406f1p-10,
    -0x1.0fb1c6e54e9cdp-10, 0x1.69e7e8862f3f5p-11, -0x1.fda4e782d83bbp-12, 0x1.55b71838f3a8bp-12, -0x1.2f5de80c0344fp-13,
    0x1.87471450b6241p-14, -0x1.75fde999bbe4p-13, 0x1.fc428fdf01c72p-14};
// (log x - 1 / (2 x) - digamma(x)) x^2 in 1 / x^2, x >= 8
constexpr double digamma_far[] = {
    0x1.5555555555555p-4, -0x1.1111111110d76p-7, 0x1.04104101a9728p-8, -0x1.11110c2d7d7c6p-8, 0x1.f07735ab6a039p-8,
    -0x1.58e87a3ecf144p-6, 0x1.47dd03669df27p-4, -0x1.3303004936eb9p-2};
constexpr double root_high = 0x1.d8b618d5af8fep-2, root_low = -0x1.1e563779a1f5bp-56;

// lgamma of a > 0; of 1 + a where a < 1 and shift_below_one is false.
Expr lgamma_positive(Expr a, Expr shift_below_one) {
  const Expr u = a - floor(a);
  const Expr near_value = u * (u - 1.0) * polynomial(u - 0.5, lgamma_near);
  Expr rising = like(a, 1);  // gamma(a) / gamma(1 + u) for a >= 1
  for (int k = 1; k <= steps; ++k) rising = rising * max_raw(a - double(k), like(a, 1));
  const Expr is_far = a >= 8.0, below_one = a < 1.0;
  const Expr l = log_positive(select(is_far, a, select(below_one, a, rising)));
  const Expr inverse = 1.0 / a;
  const Expr far_value = fma(a - 0.5, l - 1.0, fma(polynomial(inverse * inverse, lgamma_far), inverse, 0x1.acfe390c97d69p-2));
  const Expr shift = select(below_one, select(shift_below_one, -l, 0.0), l);
  return select(is_far, far_value, near_value + shift);
}

Expr lgamma_double(Expr x) {
  const Expr a = abs(x), negative = x < -0x1p-60;
  const Expr positive_value = lgamma_positive(a, ~negative);
  // gamma(-a) gamma(1 + a) = -pi / sin(pi a); from 1 on, gamma(1 + a) = a gamma(a).
  const Expr f = a - rint(a);
  const Expr sine = abs(sin_polynomial(f * pi)) * max_raw(a, like(a, 1));
  const Expr reflected = log_positive(pi / sine) - positive_value;
  const Expr pole = (a == 0.0) | (negative & (abs(f) <= 0.0)) | (a == infinity());
  return select(pole, infinity(), select(negative, reflected, positive_value));
}

// digamma of a > 0; with `next` of 1 + a.
Expr digamma_positive(Expr a, Expr next) {
  const Expr u = a - floor(a);
  const Expr near_value = ((u - root_high) - root_low) * polynomial(u - 0.5, digamma_near);
  const Expr below_one = a < 1.0;
  // The sum of 1 / (a - k) over all a - k >= 1, as one fraction; or -1 / a.
  Expr above = like(a, 0), below = like(a, 1);
  for (int k = 1; k <= steps; ++k) {
    const Expr factor = a - double(k), active = factor >= 1.0;
    above = select(active, fma(above, factor, below), above);
    below = select(active, below * factor, below);
  }
  above = select(below_one, select(next, like(a, 0), -1.0), select(next, fma(above, a, below), above));
  below = select(below_one, a, select(next, below * a, below));
  const Expr inverse = 1.0 / a, w = inverse * inverse;
  const Expr half = select(next, inverse * 0.5, inverse * -0.5);
  const Expr far_value = log_positive(a) + fma(polynomial(w, digamma_far), -w, half);
  return select(a >= 8.0, select(a < infinity(), far_value, a), near_value + above / below);
}

Expr digamma_double(Expr x) {
  const Expr a = abs(x), negative = x < 0.0;
  const Expr value = digamma_positive(a, negative);
  // digamma(-a) = digamma(1 + a) + pi cot(pi a)
  const Expr f = a - rint(a), g = abs(f), far_from_whole = g > 0.25;
  const Expr t = tan_polynomial(select(far_from_whole, 0.5 - g, g) * pi);
  const Expr cotangent = float_of(bits_of(select(far_from_whole, t, 1.0 / t)) ^ sign_bit(f));
  const Expr reflected = select(g > 0.0, fma(cotangent, pi, value), __builtin_nan(""));
  return select(a == 0.0, with_sign(like(x, infinity()), sign_bit(-x)), select(negative, reflected, value));
}

}  // namespace
}  // namespace detail

using namespace detail;

Expr lgamma(Expr a) { return convert(lgamma_double(convert(a, Dtype::Float64)), a.dtype()); }
Expr digamma(Expr a) { return convert(digamma_double(convert(a, Dtype::Float64)), a.dtype()); }

}  // namespace frit::scalar
