// erf, erfc and gelu. The tails rest on erfcx(t) = e^(t^2) erfc(t), which is smooth and slow: (t + k) erfcx(t) is a polynomial in
// 1 - 2 k / (t + k). The square in the exponent is taken with its rounding error, else the tail would lose digits in
// proportion to its size. Start with times_exp.
#include "tracer/scalar_detail.h"

namespace frit::scalar {
namespace detail {
namespace {

// erf(x) / x - 1 in x^2 on [0, 0.93]
constexpr double erf_near_f32[] = {0x1.06eba6p-3, -0x1.8126e4p-2, 0x1.ce19e6p-4, -0x1.b681aep-6, 0x1.46fbacp-8, -0x1.38fed8p-11};
constexpr double erf_near_f64[] = {
    0x1.06eba8214db69p-3, -0x1.812746b0379e7p-2, 0x1.ce2f21a042bb9p-4, -0x1.b82ce31287b26p-6, 0x1.565bcd0e35523p-8,
    -0x1.c02db3f34c44ep-11, 0x1.f9a324f058a8fp-14, -0x1.f4d225301aaap-17, 0x1.b9e2cc19b7aa4p-20, -0x1.5f411996c70adp-23,
    0x1.f94bfd9047255p-27, -0x1.3e097c8059a72p-30, 0x1.162bcadbb353bp-34};
// -log(1 - erf(t)) / t - 1 on [0.93, 3.93]
constexpr double erf_far_f32[] = {0x1.077b3p-3,   0x1.453032p-1, 0x1.b34492p-4, -0x1.85bc58p-6,
                                  0x1.df0086p-9, -0x1.559476p-12, 0x1.82c108p-17};
// (t + 3) erfcx(t), t up to 10.1; (t + 4) erfcx(t), t up to 27.5
constexpr double erfcx_f32[] = {
    0x1.12f21ep+0, -0x1.c44c48p-1, 0x1.2e3268p-1, -0x1.3deadp-2, 0x1.e99734p-4, -0x1.b7bd66p-6, -0x1.415774p-10,
    0x1.93b5e2p-9, -0x1.fbe5eap-12, -0x1.55c8d6p-12};
constexpr double erfcx_f64[] = {
    0x1.18932bf08e154p+0, -0x1.f3fe31ecb49bfp-1, 0x1.8be202d26c707p-1, -0x1.14eacb1ad033cp-1, 0x1.52cac2371009cp-2,
    -0x1.645fd8a4bc069p-3, 0x1.38dbd2c8e7d4dp-4, -0x1.b00c052c3c1e4p-6, 0x1.908f471e805b4p-8, -0x1.269b5217f89a3p-12,
    -0x1.dd2841b62137cp-12, 0x1.72cda78ff4decp-13, -0x1.e7f3ce671145p-19, -0x1.3c6ede7d27fa2p-16, 0x1.3b1e68b41234cp-18,
    0x1.7e551b778608fp-20, -0x1.c7c2f417cb25p-21, -0x1.466af28d4b0a4p-24, 0x1.12dd16e02b50bp-23, 0x1.f23f2d8b9e8dp-30,
    -0x1.3f2a2591b7716p-26, -0x1.caae6d8df22d6p-31, 0x1.2014589ebc1ebp-29, 0x1.c6e3709f5716p-32};
// (t + 3) e^(t^2 / 2) Phi(-t), t up to 14.5; (t + 5) …, t up to 39.5
constexpr double mills_f32[] = {
    0x1.754a76p-1, -0x1.04c73p-1, 0x1.d71386p-3, -0x1.83239cp-5, -0x1.56d55ap-7, 0x1.c6a758p-8, 0x1.0aa286p-10,
    -0x1.f05e78p-11, -0x1.ab9c8ap-13, 0x1.b2fcc8p-15};
constexpr double mills_f64[] = {
    0x1.89d3abe1f95aep-1, -0x1.54ad03f27ca16p-1, 0x1.fb31653876f9cp-2, -0x1.410ed5f875b5ap-2, 0x1.51f6329f01461p-3,
    -0x1.1b1c254c93379p-4, 0x1.54b4d4f4d837ep-6, -0x1.88590eb77a164p-9, -0x1.a25037ee4b0b1p-11, 0x1.1daf1ed556647p-11,
    -0x1.f2145a0f69249p-15, -0x1.a17147b17abc2p-15, 0x1.17dcd650b7725p-16, 0x1.0b3205c85bb03p-18, -0x1.73a5632a1ce78p-19,
    -0x1.6aaf88c197f7cp-22, 0x1.d078ad0a54e4bp-22, 0x1.76b01ec90ea6ap-25, -0x1.18245baeda229p-24, -0x1.5e2062aeb157ap-27,
    0x1.eb425f774f134p-28, 0x1.12d17a46cd11bp-29};

constexpr double near = 475.0 / 512;

// A product with e^(-square), times a power of two that keeps it normal.
struct Tail {
  Expr scaled;
  double shift, unshift;
};
// `minus_square_low` is what the rounding of minus_square dropped. The factor is multiplied in before 1 is added to e^r - 1.
Tail times_exp(Expr factor, Expr minus_square, Expr minus_square_low) {
  const bool single = is_single(factor);
  const Reduced red = reduce_ln2(minus_square);
  const Expr v = factor * power_of_two(red.bits, single ? 32 : 80);
  return {fma(expm1_core(red.r + minus_square_low), v, v), single ? 0x1p32 : 0x1p80, single ? 0x1p-32 : 0x1p-80};
}

// e^(-a^2) erfc's slow factor; a >= 0 and not too large.
Tail erfc_tail(Expr a) {
  const bool single = is_single(a);
  const Expr minus_square = a * -a, low = fma(a, -a, -minus_square);
  // z = 2 a / (a + k) - 1 is accurate for small a too, where erfcx depends on it most.
  const Expr d = a + (single ? 3.0 : 4.0), z = fma(a / d, 2.0, -1.0);
  const Expr p = single ? polynomial(z, erfcx_f32) : polynomial(z, erfcx_f64);
  return times_exp(p / d, minus_square, low);
}

}  // namespace
}  // namespace detail

using namespace detail;

Expr erf(Expr x) {
  const bool single = is_single(x);
  const Expr z = x * x, a = abs(x);
  const Expr near_value = fma(single ? polynomial(z, erf_near_f32) : polynomial(z, erf_near_f64), x, x);
  Expr tail = x;
  if (single) {
    const Expr t = min_raw(like(x, 3.93), a);
    const Reduced red = reduce_ln2(fma(polynomial(t, erf_far_f32), -t, -t));
    const Expr scale = power_of_two(red.bits);
    tail = fma(expm1_core(red.r), scale, scale);
  } else {
    const Tail t = erfc_tail(min_raw(like(x, 6), a));
    tail = t.scaled * t.unshift;
  }
  return select(a > near, with_sign(1.0 - tail, sign_bit(x)), near_value);
}

Expr erfc(Expr x) {
  const bool single = is_single(x);
  const Expr z = x * x, a = abs(x);
  const Expr near_value = fma(single ? polynomial(z, erf_near_f32) : polynomial(z, erf_near_f64), -x, 1.0 - x);
  const Tail t = erfc_tail(min_raw(like(x, single ? 10.1 : 27.3), a));
  // One multiplication by a power of two rounds.
  const Expr far_value = select(x < 0.0, fma(t.scaled, -t.unshift, 2.0), t.scaled * t.unshift);
  return select(a < 0.5, near_value, far_value);
}

Expr gelu(Expr x) {
  const bool single = is_single(x);
  // x Phi(x) = max(x, 0) - t Phi(-t), t = |x|
  const Expr t = min_raw(like(x, single ? 14.5 : 39), abs(x));
  const Expr half = t * -0.5, minus_square = t * half, low = fma(t, half, -minus_square);
  const Expr q = t / (t + (single ? 3.0 : 5.0)), z = fma(q, 2.0, -1.0);
  const Expr slow = (single ? polynomial(z, mills_f32) : polynomial(z, mills_f64)) * q;
  const Tail e = times_exp(slow, minus_square, low);
  return fma(e.scaled, -e.unshift, max_raw(like(x, 0), x));
}

}  // namespace frit::scalar
