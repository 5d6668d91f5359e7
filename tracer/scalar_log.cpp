// log and its family, with the inverse hyperbolic functions. An argument is split in m 2^k with m around 1, so that no
// cancellation occurs near 1; log(1 + f), f = m - 1, is a polynomial (Float32) or a series in f / (2 + f) (Float64). Start
// with split_exponent and join_log.
#include "tracer/scalar_detail.h"

namespace frit::scalar {
namespace detail {
namespace {

// (log(1 + f) - f + f^2 / 2) / f^3 on [-1/3, 1/3]
constexpr double log_f32[] = {
    0x1.555506p-2, -0x1.fffefp-3, 0x1.99d02ap-3, -0x1.559dccp-3, 0x1.1ed6fcp-3, -0x1.f31124p-4, 0x1.1e673p-3, -0x1.0805c6p-3};
// (log((1 + s) / (1 - s)) / s - 2) / s^2, a polynomial in s^2
constexpr double log_f64[] = {
    0x1.5555555555592p-1, 0x1.999999997fef2p-2, 0x1.24924941e4ed6p-2, 0x1.c71c5210816a4p-3, 0x1.74663ddc8f9ap-3,
    0x1.39a1cd41e67aap-3, 0x1.2f04ee7f1df99p-3};

constexpr uint64_t low_bits_f32 = 0x3f2aaaab;          // 2/3
constexpr uint64_t low_bits_f64 = 0x3fe6a09e667f3bcd;  // sqrt 1/2

Expr mantissa_mask(Expr bits) { return integer_like(bits, bits.dtype() == Dtype::Int32 ? 0x7fffff : 0xfffffffffffff); }

}  // namespace

Split split_exponent(Expr a) {
  const bool single = is_single(a);
  const Expr small = a < (single ? 0x1p-126 : 0x1p-1022);
  const Expr lifted = select(small, a * (single ? 0x1p23 : 0x1p52), a);
  const Expr bits = bits_of(lifted);
  const uint64_t low = single ? low_bits_f32 : low_bits_f64;
  if (single) {
    const Expr i = bits - integer_like(bits, low);
    const Expr k = convert(i >> 23.0, Dtype::Float32) - select(small, like(a, 23), like(a, 0));
    return {k, float_of((i & mantissa_mask(bits)) + integer_like(bits, low)) - 1.0};
  }
  const Expr i = bits + integer_like(bits, (uint64_t(1023) << 52) - low);
  // Not all processors convert 64-bit integers: the biased exponent becomes the low bits of 2^52 + …
  const Expr biased = float_of(ushr(i, 52.0) | integer_like(bits, 0x4330000000000000));
  const Expr k = biased - select(small, like(a, 0x1p52 + 1023 + 52), like(a, 0x1p52 + 1023));
  return {k, float_of((i & mantissa_mask(bits)) + integer_like(bits, low)) - 1.0};
}

namespace {

// log(1 + f) - f
Expr log_rest(Expr f) {
  if (is_single(f)) return fma(polynomial(f, log_f32), f, -0.5) * (f * f);
  const Expr s = f / (f + 2.0), z = s * s, half = f * f * 0.5;
  return fma(s, fma(z, polynomial(z, log_f64), half), -half);
}

// k ln 2 + log(1 + f)
Expr join_log(Expr k, Expr f) {
  if (is_single(f)) return fma(k, 0x1.62e43p-1, fma(fma(polynomial(f, log_f32), f, -0.5), f * f, f));
  return fma(k, 0x1.62e42fefa39efp-1, f + fma(k, 0x1.abc9e3b39803fp-56, log_rest(f)));
}

// What a logarithm gives outside (pole, infinity).
Expr with_special_values(Expr a, double pole, Expr y) {
  const Expr edge = select(a == pole, like(a, -infinity()), like(a, __builtin_nan("")));
  return select(a <= pole, edge, select(a < infinity(), y, a));
}

}  // namespace

Expr log_positive(Expr a) {
  const Split s = split_exponent(a);
  return join_log(s.k, s.f);
}

// f = (1 + a) 2^-k - 1 in one rounding from a itself, with k from the rounded 1 + a. From 2^25 (2^54) on, 1 + a is a.
namespace {
Expr log1p_core(Expr a) {
  const bool single = is_single(a);
  const Expr u = a + 1.0, bits = bits_of(u);
  const uint64_t low = single ? low_bits_f32 : low_bits_f64, one = single ? 0x3f800000 : uint64_t(1023) << 52;
  const Expr i = bits - integer_like(bits, low);
  const Expr place = i & ~mantissa_mask(bits);
  const Expr m = float_of(bits - place);
  const Expr scale = float_of(integer_like(bits, one) - place);  // 2^-k; unused where it is not a number
  const Expr f = select(u < (single ? 0x1p25 : 0x1p54), fma(a, scale, scale - 1.0), m - 1.0);
  Expr k = a;
  if (single) k = convert(i >> 23.0, Dtype::Float32);
  else k = float_of(ushr(i + integer_like(bits, one), 52.0) | integer_like(bits, 0x4330000000000000)) - (0x1p52 + 1023);
  return join_log(k, f);
}
}  // namespace

Expr log1p_positive(Expr a) { return select(a < infinity(), log1p_core(a), a); }

}  // namespace detail

using namespace detail;

Expr log(Expr a) { return with_special_values(a, 0, log_positive(a)); }

// log(1 + f) times a constant in two parts, so that only the small rest is rounded twice.
Expr log2(Expr a) {
  const Split s = split_exponent(a);
  const bool single = is_single(a);
  const double high = single ? 0x1.715476p+0 : 0x1.71547652b82fep+0, low = single ? 0x1.4ae0cp-26 : 0x1.777d0ffda0d24p-56;
  const Expr small = fma(s.f, low, log_rest(s.f) * high);
  return with_special_values(a, 0, fma(s.f, high, small) + s.k);
}

Expr log10(Expr a) {
  const Split s = split_exponent(a);
  const bool single = is_single(a);
  const double high = single ? 0x1.bcb7b2p-2 : 0x1.bcb7b1526e50ep-2, low = single ? -0x1.5b235ep-27 : 0x1.95355baaafad3p-57;
  const double two_high = single ? 0x1.344136p-2 : 0x1.34413509f79ffp-2, two_low = single ? -0x1.ec10cp-27 : -0x1.9dc1da994fd21p-59;
  const Expr small = fma(s.f, low, log_rest(s.f) * high);
  return with_special_values(a, 0, fma(s.k, two_high, fma(s.f, high, fma(s.k, two_low, small))));
}

Expr log1p(Expr a) {
  const Expr y = with_sign(abs(log1p_core(a)), sign_bit(a));
  return with_special_values(a, -1, y);
}

Expr asinh(Expr x) {
  // log1p(a + a^2 / (1 + sqrt(1 + a^2))); for large a log(2 a).
  const bool single = is_single(x);
  const double large = single ? 0x1p13 : 0x1p28;
  const Expr a = abs(x), w = a * a;
  const Expr small = log1p_core(a + w / (sqrt(w + 1.0) + 1.0));
  const Expr big = log_positive(a) + 0x1.62e42fefa39efp-1;
  const Expr y = select_rare(a >= large, big, small);
  return with_sign(select(a < infinity(), abs(y), a), sign_bit(x));
}

Expr acosh(Expr x) {
  const bool single = is_single(x);
  const double large = single ? 0x1p13 : 0x1p28;
  const Expr t = x - 1.0;
  const Expr small = log1p_core(t + sqrt(fma(t, t, t + t)));
  const Expr big = log_positive(x) + 0x1.62e42fefa39efp-1;
  const Expr y = select_rare(x >= large, big, small);
  return select(x >= 1.0, select(x < infinity(), y, x), select(x < 1.0, like(x, __builtin_nan("")), x));
}

Expr atanh(Expr x) {
  // log1p(2 a / (1 - a)) / 2
  const Expr a = abs(x);
  const Expr y = abs(log1p_core((a + a) / (1.0 - a)) * 0.5);
  const Expr edge = select(a == 1.0, like(x, infinity()), like(x, __builtin_nan("")));
  return with_sign(select(a < 1.0, select(a < (is_single(x) ? 0x1p-13 : 0x1p-28), a, y), edge), sign_bit(x));
}

}  // namespace frit::scalar
