// sin, cos and tan. Angles up to 2^17 (Float32) or 2^30 (Float64) are reduced by subtracting a multiple of pi in three parts, each
// with one rounding; larger ones by multiplying with as many bits of 2/pi as matter (reduce_large_angle), which sits behind
// select_rare. sin and cos need one odd polynomial on [-pi/2, pi/2], tan one on [-pi/4, pi/4]. Start with reduce_angle.
#include "tracer/scalar_detail.h"
#include "tracer/scalar_tables.h"

namespace frit::scalar {
namespace detail {
namespace {

// (sin(r) / r - 1) / r^2 in r^2
constexpr double sin_f32[] = {-0x1.55554cp-3, 0x1.110edap-7, -0x1.9f70eap-13, 0x1.5dc84ap-19};
constexpr double sin_f64[] = {
    -0x1.5555555555555p-3, 0x1.11111111110c8p-7, -0x1.a01a01a014dc6p-13, 0x1.71de3a52a3955p-19, -0x1.ae6454d5f68e9p-26,
    0x1.6123cd71724d7p-33, -0x1.ae43a1f62d44ap-41, 0x1.8835ed1a24631p-49};
// (tan(r) / r - 1) / r^2 in r^2
constexpr double tan_f32[] = {0x1.5554dp-2, 0x1.1130cap-3, 0x1.b524bp-5, 0x1.932aa6p-6, 0x1.734762p-9, 0x1.392aaep-7};
constexpr double tan_f64[] = {
    0x1.555555555555ep-2, 0x1.11111111105d2p-3, 0x1.ba1ba1babf2e7p-5, 0x1.664f485d263a7p-6, 0x1.226e3a814d59ap-7,
    0x1.d6d2e7b348badp-9, 0x1.7db18ea9a1958p-10, 0x1.34bc1e0ca0518p-11, 0x1.ff2e555ea3a03p-13, 0x1.5e79f4ccc66f9p-14,
    0x1.19f3a29ef70a9p-14, -0x1.ae23098edb3cap-16, 0x1.980b390690dfdp-15, -0x1.9754735382297p-16, 0x1.48d9473bd76afp-17};

double magic(Expr x) { return is_single(x) ? 0x1.8p23 : 0x1.8p52; }

// a + b and what its rounding dropped.
struct Sum {
  Expr high, low;
};
Sum two_sum(Expr a, Expr b) {
  const Expr s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}

Expr modulo_4(Expr a) { return a - rint(a * 0.25) * 4.0; }

// x = (n - shift) pi / units + r, with n's parity in the sign bit of an integer.
struct SmallAngle {
  Expr r, parity;
};

SmallAngle reduce_small_angle(Expr x, double units, double shift) {
  const bool single = is_single(x);
  // 1 / pi and pi, scaled exactly; n - shift is what t and n below hold.
  const double inverse = 0x1.45f306dc9c883p-2 * units, unit = 1 / units;
  Expr t = x, n = x;
  if (shift == 0) {
    t = fma(x, inverse, magic(x));
    n = t - magic(x);
  } else {
    t = fma(x, inverse, shift) + magic(x);
    n = (t - magic(x)) - shift;
  }
  // All parts are positive, so that -0 stays.
  Expr r = fma(n, (single ? -0x1.921fb4p+1 : -0x1.921fb54442d18p+1) * unit, x);
  r = fma(n, (single ? -0x1.4442d0p-23 : -0x1.1a62633145c06p-53) * unit, r);
  r = fma(n, (single ? -0x1.846988p-47 : -0x1.c1cd129024e08p-106) * unit, r);
  return {r, bits_of(t) << (single ? 31.0 : 63.0)};
}

// As above for any x.
SmallAngle reduce_angle(Expr x, double units, double shift) {
  const bool single = is_single(x);
  const SmallAngle small = reduce_small_angle(x, units, shift);
  const Angle large = reduce_large_angle(x, units, shift);
  const Expr rare = abs(x) > (single ? 0x1p17 : 0x1p30);
  const Expr r = convert(large.f * (0x1.921fb54442d18p+1 / units), x.dtype());
  Expr parity = bits_of(large.n + 0x1.8p52) << 63.0;
  if (single) parity = convert(ushr(parity, 32.0), Dtype::Int32);
  return {select_rare(rare, r, small.r), select_rare(rare, parity, small.parity)};
}

// sin(r) for |r| <= pi / 2, its sign flipped by the sign bits in `flip`.
Expr sin_core(Expr r, Expr flip) {
  return float_of(bits_of(with_sign(sin_polynomial(r), sign_bit(r))) ^ flip);
}

}  // namespace

Expr sin_polynomial(Expr r) {
  const Expr z = r * r;
  return fma(r * z, is_single(r) ? polynomial(z, sin_f32) : polynomial(z, sin_f64), r);
}
Expr tan_polynomial(Expr r) {
  const Expr z = r * r;
  return fma(r * z, is_single(r) ? polynomial(z, tan_f32) : polynomial(z, tan_f64), r);
}

// |x| is cut in w0 + w1 + w2 at fixed places 24 bits apart, 2/pi in chunks of 24 bits; the products of equal weight add up
// exactly in columns. Columns that are multiples of 4 for sure are left out: the exponent says where to begin.
Angle reduce_large_angle(Expr x, double units, double shift) {
  const bool single = is_single(x);
  Builder& b = *x.builder;
  const Expr a = convert(x, Dtype::Float64), bits = bits_of(a);
  const Expr exponent = convert(ushr(bits, 52.0) & b.bits(0x7ff, Dtype::Int64), Dtype::Int32);
  // first = (exponent - 1023 - 25) / 24, not below 0
  const Expr first = max_raw(exponent - (1023.0 + 25.0), b.constant(0, Dtype::Int32)) * 2731.0 >> 16.0;
  const Expr scale = float_of((b.bits(1023, Dtype::Int64) - convert(first * 24.0, Dtype::Int64)) << 52.0);
  const Expr w = a * (scale * (units * 0.5));
  const Expr w0 = float_of(bits_of(w) & b.bits(~uint64_t(0x1fffffff), Dtype::Int64));
  const Expr w01 = float_of(bits_of(w) & b.bits(~uint64_t(0x1f), Dtype::Int64));
  const Expr w1 = w01 - w0, w2 = w - w01;
  const int columns = single ? 5 : 8;
  std::vector<Expr> column;
  // The table begins with two chunks that are zero.
  const auto chunk = [&](int k) { return lookup(table_two_over_pi, first + double(k + 2)); };
  for (int k = 0; k < columns; ++k) {
    Expr c = w0 * chunk(k);
    if (!single) c = fma(w2, chunk(k - 2) * 0x1p48, fma(w1, chunk(k - 1) * 0x1p24, c));
    column.push_back(c * __builtin_ldexp(1.0, -24 * (k + 1)));
  }
  const Expr top = modulo_4(column[0]) + (modulo_4(column[1]) + shift);
  const Expr n = rint(top + column[2]);
  // What is left may be as small as 2^-61; the leading parts cancel exactly.
  const Sum s2 = two_sum(top - n, column[2]), s3 = two_sum(s2.high, column[3]), s4 = two_sum(s3.high, column[4]);
  Expr tail = s2.low + s3.low + s4.low;
  for (int k = columns; k-- > 5;) tail = tail + column[size_t(k)];
  return {n, s4.high + tail};
}

}  // namespace detail

using namespace detail;

Expr sin(Expr x) {
  const SmallAngle a = reduce_angle(x, 1, 0);
  return sin_core(a.r, a.parity);
}

// cos(x) = sin(x + pi / 2) = -sin(r) (-1)^n with x = (n + 1/2) pi + r
Expr cos(Expr x) {
  const SmallAngle a = reduce_angle(x, 1, -0.5);
  const Expr flip = integer_like(a.parity, is_single(x) ? 0x80000000u : uint64_t(1) << 63);
  return sin_core(a.r, a.parity ^ flip);
}

// tan(r), or -1 / tan(r) after an odd number of quarter turns.
Expr tan(Expr x) {
  const SmallAngle a = reduce_angle(x, 2, 0);
  const Expr t = with_sign(tan_polynomial(a.r), sign_bit(a.r));
  const Expr odd = a.parity != like(a.parity, 0);
  return select(odd, like(x, -1), t) / select(odd, t, 1.0);
}

}  // namespace frit::scalar
