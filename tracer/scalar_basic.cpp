// Scalar functions of sign, order and kind, and the family of fmod.
#include <cmath>
#include <limits>

#include "tracer/scalar_detail.h"

namespace frit::scalar {
namespace detail {

namespace {
Expr sign_mask(Expr bits) { return integer_like(bits, bits.dtype() == Dtype::Int32 ? 0x80000000u : uint64_t(1) << 63); }
}  // namespace

Expr sign_bit(Expr a) {
  const Expr bits = bits_of(a);
  return bits & sign_mask(bits);
}
Expr with_sign(Expr a, Expr sign) { return float_of(bits_of(a) | sign); }
Expr minus_abs(Expr a) {
  const Expr bits = bits_of(a);
  return float_of(bits | sign_mask(bits));
}

}  // namespace detail

using namespace detail;

// Raw min and max give the second operand when either is NaN: that is right when the second is the NaN. Of two zeros, the
// bits decide: or keeps the minus, and drops it.
Expr minimum(Expr a, Expr b) {
  if (!is_floating(a.dtype())) return min_raw(a, b);
  const Expr lesser = select(a == b, float_of(bits_of(a) | bits_of(b)), min_raw(a, b));
  return select(is_nan(a), a, lesser);
}
Expr maximum(Expr a, Expr b) {
  if (!is_floating(a.dtype())) return max_raw(a, b);
  const Expr greater = select(a == b, float_of(bits_of(a) & bits_of(b)), max_raw(a, b));
  return select(is_nan(a), a, greater);
}

Expr is_nan(Expr a) { return a != a; }
Expr is_inf(Expr a) {
  if (!is_floating(a.dtype())) return a != a;
  return abs(a) == infinity();
}
Expr is_finite(Expr a) {
  if (!is_floating(a.dtype())) return a == a;
  return abs(a) < infinity();
}
Expr copysign(Expr magnitude, Expr sign) {  // a NaN's sign is nobody's: it counts as plus
  return with_sign(abs(magnitude), select(is_nan(sign), sign_bit(like(sign, 0)), sign_bit(sign)));
}
Expr sign(Expr a) {
  if (a.dtype() == Dtype::Bool) return a;
  const Expr zero = like(a, 0);
  const Expr positive = select(a > zero, like(a, 1), is_floating(a.dtype()) ? a : zero);  // keeps ±0 and NaN
  if (!is_signed(a.dtype())) return positive;
  return select(a < zero, like(a, -1), positive);
}

// Each step takes away the rounded quotient's whole part times the divisor: fma gives what is left exactly, and it is 2^52 times
// smaller than before. One step is enough for quotients below 2^52; the rare others take more, up to 2^300 (so any Float32).
// A quotient that was rounded up to a whole number leaves a negative rest, which one divisor puts right, exactly again.
Expr fmod(Expr a, Expr b) {
  if (!is_floating(a.dtype())) return a % b;
  const Expr x = abs(convert(a, Dtype::Float64)), y = abs(convert(b, Dtype::Float64));
  const auto step = [&](Expr r) { return fma(-trunc(r / y), y, r); };
  const Expr near_rest = step(x);
  Expr far_rest = near_rest;
  for (int k = 0; k < 5; ++k) far_rest = step(far_rest);
  Expr r = select_rare(x / y >= 0x1p52, far_rest, near_rest);
  r = select(r < 0.0, r + y, r);
  r = select(x < y, x, r);  // also b infinite and a finite
  return with_sign(abs(convert(r, a.dtype())), sign_bit(a));
}

Expr floor_divide(Expr a, Expr b) {
  if (!is_floating(a.dtype())) {
    const Expr q = a / b;
    if (!is_signed(a.dtype())) return q;
    const Expr zero = like(a, 0);
    const Expr inexact = (a % b) != zero, below = ((a ^ b) < zero) & inexact;
    return select(below, q - 1.0, q);
  }
  if (is_single(a)) return convert(floor_divide(convert(a, Dtype::Float64), convert(b, Dtype::Float64)), a.dtype());
  // As Python and NumPy: from the exact remainder.
  const Expr m = fmod(a, b);
  const Expr other_sign = ((m < 0.0) ^ (b < 0.0)) & (m != 0.0);
  const Expr q = (a - m) / b;
  const Expr d = select(other_sign, q - 1.0, q);
  const Expr f = floor(d);
  const Expr near = select(d - f > 0.5, f + 1.0, f);
  const Expr quotient = a / b;
  const Expr whole = select(d == 0.0, with_sign(like(a, 0), sign_bit(quotient)), near);
  return select(b == 0.0, quotient, whole);
}

Expr remainder(Expr a, Expr b) {
  if (!is_floating(a.dtype())) {
    const Expr r = a % b;
    if (!is_signed(a.dtype())) return r;
    const Expr zero = like(a, 0);
    const Expr other_sign = ((r ^ b) < zero) & (r != zero);
    return select(other_sign, r + b, r);
  }
  const Expr m = fmod(a, b);
  const Expr other_sign = (m < 0.0) ^ (b < 0.0);
  return select(m == 0.0, copysign(m, b), select(other_sign, m + b, m));
}

}  // namespace frit::scalar
