// pow: 2^(b log2 a). Float32 computes inside in Float64, which has digits to spare; Float64 carries the logarithm as an unevaluated
// sum of two numbers. Special values are put in at the end. Start with pow.
#include "tracer/scalar_detail.h"

namespace frit::scalar {
namespace detail {
namespace {

// log2((1 + s) / (1 - s)) / s in s^2, and 2^r: 2^-37 and 2^-29, for results rounded to Float32
constexpr double log2_short[] = {
    0x1.71547652beep+1, 0x1.ec709d12bceb2p-1, 0x1.27777ff78a897p-1, 0x1.a58d81487c761p-2, 0x1.5ce8e6c7e5557p-2};
constexpr double exp2_short[] = {
    0x1.000000026119p+0, 0x1.62e430c7eac83p-1, 0x1.ebfbdadd0eb89p-3, 0x1.c6aed4b94f3adp-5, 0x1.3b2dbb829d627p-7,
    0x1.5f456a813b852p-10, 0x1.41d35ce514e28p-13};
// (log((1 + s) / (1 - s)) / s - 2) / s^2 - 2/3, divided by s^2, in s^2
constexpr double log_rest_long[] = {
    0x1.9999999999b3p-2, 0x1.2492492457d41p-2, 0x1.c71c722d6b50fp-3, 0x1.745ce9e0ebf49p-3, 0x1.3b1eec99542f8p-3,
    0x1.0f7fda37a2975p-3, 0x1.0e434f860e46p-3};

// high + low, |low| at most about half a unit in the last place of high
struct Pair {
  Expr high, low;
};
Pair quick_sum(Expr a, Expr b) {  // |a| >= |b|, or a = 0
  const Expr s = a + b;
  return {s, (a - s) + b};
}
Pair product(Expr a, Expr b) {
  const Expr p = a * b;
  return {p, fma(a, b, -p)};
}

// 2^(a log2 b) for Float32, a positive magnitude; Float64 inside.
Expr power_short(Expr magnitude, Expr exponent) {
  const Expr a = convert(magnitude, Dtype::Float64), b = convert(exponent, Dtype::Float64);
  const Split split = split_exponent(a);
  const Expr s = split.f / (split.f + 2.0);
  const Expr l = select(a == 0.0, like(a, -infinity()), select(a < infinity(), fma(polynomial(s * s, log2_short), s, split.k), a));
  const Expr e = max_raw(like(a, -200), min_raw(like(a, 200), b * l));
  const Expr t = e + 0x1.8p52, r = e - (t - 0x1.8p52);
  return convert(polynomial(r, exp2_short) * power_of_two(bits_of(t)), Dtype::Float32);
}

// log2 of a positive number.
Pair log2_pair(Expr a) {
  const Split split = split_exponent(a);
  const Expr f = split.f;
  const Pair d = quick_sum(like(a, 2), f);
  const Expr s = f / d.high, s_low = fma(-s, d.low, fma(-s, d.high, f)) / d.high;
  Pair z = product(s, s);
  z.low = fma(s + s, s_low, z.low);
  // log = 2 s + s z (2/3 + z rest)
  Pair w = quick_sum(like(a, 0x1.5555555555555p-1), z.high * polynomial(z.high, log_rest_long));
  w.low = w.low + 0x1.5555555555555p-55;
  Pair c = product(s, z.high);
  c.low = fma(s_low, z.high, fma(s, z.low, c.low));
  Pair u = product(c.high, w.high);
  u.low = fma(c.high, w.low, fma(c.low, w.high, u.low));
  Pair l = quick_sum(s + s, u.high);
  l.low = l.low + (u.low + (s_low + s_low));
  Pair g = product(l.high, like(a, 0x1.71547652b82fep+0));
  g.low = fma(l.high, 0x1.777d0ffda0d24p-56, fma(l.low, 0x1.71547652b82fep+0, g.low));
  Pair sum = quick_sum(split.k, g.high);
  sum.low = sum.low + g.low;
  return sum;
}

Expr power_long(Expr a, Expr b) {
  const Pair l = log2_pair(a);
  const Expr high = select(a == 0.0, like(a, -infinity()), select(a < infinity(), l.high, a));
  const Expr wide = b * high;
  const Expr e = max_raw(like(a, -1100), min_raw(like(a, 1100), wide));
  const Expr low = select(abs(wide) < 1100.0, fma(b, high, -wide) + b * l.low, 0.0);
  return exp2_pair(e, low);
}

// Wrapping power by repeated squaring; a negative exponent truncates 1 / a^|b| (0 for a = 0).
Expr power_whole(Expr a, Expr b) {
  const Dtype d = a.dtype();
  const Expr zero = like(a, 0), one = like(a, 1);
  const int bits = 8 * int(size_of(d)) - (is_signed(d) ? 1 : 0);
  Expr r = one, square = a;
  for (int k = 0; k < bits; ++k) {
    r = select((ushr(b, double(k)) & one) != zero, r * square, r);
    square = square * square;
  }
  if (!is_signed(d)) return r;
  const Expr minus_one = like(a, -1), odd = (b & one) != zero;
  const Expr unit = select(a == one, one, select(a == minus_one, select(odd, minus_one, one), zero));
  return select(b < zero, unit, r);
}

}  // namespace
}  // namespace detail

using namespace detail;

Expr pow(Expr a, Expr b) {
  if (!is_floating(a.dtype())) return power_whole(a, b);
  const Expr magnitude = abs(a), whole = trunc(b) == b;
  const Expr even = trunc(b * 0.5) * 2.0 == b;
  const Expr r = is_single(a) ? power_short(magnitude, b) : power_long(magnitude, b);
  const Expr sign = sign_bit(a);
  const Expr negative = sign != like(sign, 0);
  const Expr y = with_sign(r, select(whole & ~even, sign, like(sign, 0)));
  const Expr no_root = negative & ~whole & (magnitude < infinity()) & (magnitude > 0.0);
  const Expr defined = select(no_root, like(a, __builtin_nan("")), select((a == a) & (b == b), y, a + b));
  const Expr one = (b == 0.0) | (a == 1.0) | ((a == -1.0) & (abs(b) == infinity()));
  return select(one, like(a, 1), defined);
}

}  // namespace frit::scalar
