// exp and its family. All share one core: x = n ln 2 + r, e^r - 1 by a polynomial, and 2^n put together from bits. Start with
// reduce_ln2 and expm1_core; what differs between the functions is how the pieces are joined without overflow or
// cancellation, and how results below the normal range come to be rounded once (by a last multiplication by a power of
// two). Polynomials are weighted minimax fits, rounded coefficient by coefficient.
#include "tracer/scalar_detail.h"

namespace frit::scalar {
namespace detail {
namespace {

// (e^r - 1 - r) / r^2
constexpr double expm1_f32[] = {0x1.fffffep-2, 0x1.5554aap-3, 0x1.55579ap-5, 0x1.122c3ap-7, 0x1.6ac01cp-10};
constexpr double expm1_f64[] = {
    0x1.0000000000005p-1, 0x1.55555555554ebp-3, 0x1.5555555551e2ep-5, 0x1.1111111133022p-7, 0x1.6c16c18040c28p-10,
    0x1.a01a00c8dc032p-13, 0x1.a019a2da24cefp-16, 0x1.71e046d83f296p-19, 0x1.28a6a891f5c33p-22, 0x1.ab50cf07ce302p-26};
// (2^r - 1) / r
constexpr double exp2m1_f32[] = {0x1.62e43p-1, 0x1.ebfbep-3, 0x1.c6b08cp-5, 0x1.3b2a1ap-7, 0x1.5d88cp-10, 0x1.4440a2p-13, 0x1.ffcbe6p-17};
constexpr double exp2m1_f64[] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0c6p-5,  0x1.3b2ab6fba4e60p-7,
                                 0x1.5d87fe78a3f44p-10, 0x1.430912f874359p-13, 0x1.ffcbfc6dcdd26p-17, 0x1.62c0221b0231dp-20,
                                 0x1.b524eb65c7297p-24, 0x1.e4cfaf1b1f3b6p-28, 0x1.e9ece93f86220p-32, 0x1.c3bd57993e1d2p-36};
// log(1 + e) / e on [0, 1]
constexpr double softplus_f32[] = {0x1p+0,          -0x1.ffffd2p-2, 0x1.554ddp-2,   -0x1.ff23e6p-3, 0x1.934b54p-3,
                                   -0x1.3a435ep-3, 0x1.b4ae08p-4, -0x1.d6b0acp-5, 0x1.491888p-6,  -0x1.af4db6p-9};

// Adding it rounds to an integer, which then stands in the low bits.
double magic(Expr x) { return is_single(x) ? 0x1.8p23 : 0x1.8p52; }
int mantissa_bits(Dtype bits) { return bits == Dtype::Int32 ? 23 : 52; }
int bias(Dtype bits) { return bits == Dtype::Int32 ? 127 : 1023; }

// Where both factors of scale_full are 0, and no less is asked for: from there on down (masked scores are -inf) the result is exactly 0.
// Multiplying two powers of two to something below the normal range would cost a hundred cycles.
double zero_exponent(Expr x) { return is_single(x) ? -254 : -2046; }

// 2^n (1 + e) for any n, in two factors: only the last multiplication can overflow or round to a subnormal.
Expr scale_full(Expr e, Expr bits) {
  const Expr half = ushr(bits, 1.0), scale = power_of_two(half);
  return fma(e, scale, scale) * power_of_two(bits - half);
}

// e^-|x| times 2^shift, where shift keeps the result normal, for the joined forms below.
struct Decay {
  Expr scaled;
  double shift, unshift;
};
Decay decay(Expr x) {
  const bool single = is_single(x);
  const Reduced red = reduce_ln2(max_raw(like(x, single ? -104.67 : -750.7), minus_abs(x)));
  const Expr scale = power_of_two(red.bits, single ? 24 : 60);  // 0 at the lowest x: see zero_exponent
  return {fma(expm1_core(red.r), scale, scale), single ? 0x1p24 : 0x1p60, single ? 0x1p-24 : 0x1p-60};
}

}  // namespace

Reduced reduce_ln2(Expr x) {
  const bool single = is_single(x);
  const Expr t = fma(x, 0x1.71547652b82fep+0, magic(x));
  const Expr n = t - magic(x);
  Expr r = fma(n, single ? -0x1.62e43p-1 : -0x1.62e42fefa39efp-1, x);
  r = fma(n, single ? 0x1.05c61p-29 : -0x1.abc9e3b39803fp-56, r);
  return {n, bits_of(t), r};
}

Expr expm1_core(Expr r) {
  const Expr p = is_single(r) ? polynomial(r, expm1_f32) : polynomial(r, expm1_f64);
  return fma(p, r * r, r);
}

Expr power_of_two(Expr bits, int add) {
  const int mantissa = mantissa_bits(bits.dtype());
  return float_of((bits << double(mantissa)) + integer_like(bits, uint64_t(bias(bits.dtype()) + add) << mantissa));
}

namespace {
// 2^(n + r) with n in the low bits of t.
Expr exp2_rest(Expr t, Expr r) {
  return scale_full((is_single(r) ? polynomial(r, exp2m1_f32) : polynomial(r, exp2m1_f64)) * r, bits_of(t));
}
}  // namespace

Expr exp2_pair(Expr high, Expr low) {
  const Expr t = high + magic(high);
  return exp2_rest(t, (high - (t - magic(high))) + low);
}

}  // namespace detail

using namespace detail;

Expr exp(Expr x) {
  const bool single = is_single(x);
  // The constant comes first in both, so that NaN passes.
  const Expr clamped = max_raw(like(x, zero_exponent(x) * 0x1.62e43p-1), min_raw(like(x, single ? 89 : 710), x));
  const Reduced red = reduce_ln2(clamped);
  return scale_full(expm1_core(red.r), red.bits);
}

Expr exp2(Expr x) {
  const bool single = is_single(x);
  const Expr clamped = max_raw(like(x, zero_exponent(x)), min_raw(like(x, single ? 129 : 1025), x));
  const Expr t = clamped + magic(x);
  return exp2_rest(t, clamped - (t - magic(x)));
}

Expr expm1(Expr x) {
  const bool single = is_single(x);
  const Reduced red = reduce_ln2(max_raw(like(x, single ? -20 : -40), min_raw(like(x, single ? 89 : 710), x)));
  // Halves, since 2^n itself may not be a number.
  const Expr half = power_of_two(red.bits, -1);
  const Expr y = fma(expm1_core(red.r), half, half - 0.5) * 2.0;
  return select(abs(x) < (single ? 0x1p-25 : 0x1p-54), x, y);  // keeps -0 and the last bit of subnormals
}

Expr sinh(Expr x) {
  const bool single = is_single(x);
  const Reduced red = reduce_ln2(min_raw(like(x, single ? 89.5 : 710.7), abs(x)));
  // E = (e^|x| - 1) / 4; sinh = 2 (E + E / (4 E + 1))
  const Expr quarter = power_of_two(red.bits, -2);
  const Expr e = fma(expm1_core(red.r), quarter, quarter - 0.25);
  const Expr y = (e + e / fma(e, 4.0, 1.0)) * 2.0;
  return select(abs(x) < (single ? 0x1p-12 : 0x1p-26), x, with_sign(y, sign_bit(x)));
}

Expr cosh(Expr x) {
  const Reduced red = reduce_ln2(min_raw(like(x, is_single(x) ? 89.5 : 710.7), abs(x)));
  // C = e^|x| / 4; cosh = 2 (C + 1 / (16 C))
  const Expr quarter = power_of_two(red.bits, -2);
  const Expr c = fma(expm1_core(red.r), quarter, quarter);
  return (c + 0.0625 / c) * 2.0;
}

Expr tanh(Expr x) {
  // E / (E + 2), E = e^(2|x|) - 1
  const Expr a = min_raw(like(x, is_single(x) ? 9.1 : 20), abs(x));
  const Reduced red = reduce_ln2(a + a);
  const Expr scale = power_of_two(red.bits);
  const Expr e = fma(expm1_core(red.r), scale, scale - 1.0);
  return with_sign(e / (e + 2.0), sign_bit(x));
}

Expr sigmoid(Expr x) {
  // With e = e^-|x|: 1 / (1 + e), or e / (1 + e) where x is negative.
  const Decay d = decay(x);
  return select(x < 0.0, d.scaled, d.shift) / fma(d.scaled, d.unshift, 1.0) * d.unshift;
}

Expr softplus(Expr x) {
  // max(x, 0) + log(1 + e), e = e^-|x|
  const Decay d = decay(x);
  const Expr e = d.scaled * d.unshift, positive = max_raw(like(x, 0), x);
  if (is_single(x)) return fma(d.scaled * polynomial(e, softplus_f32), d.unshift, positive);
  return positive + log1p_positive(e);
}

}  // namespace frit::scalar
