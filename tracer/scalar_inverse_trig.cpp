// asin, acos, atan and atan2: one polynomial each on a small interval, the rest of the range by identities.
#include "tracer/scalar_detail.h"

namespace frit::scalar {
namespace detail {
namespace {

constexpr double pi = 0x1.921fb54442d18p+1;
// (asin(s) / s - 1) / s^2 in s^2, s up to 1/2
constexpr double asin_f32[] = {0x1.5555c8p-3, 0x1.3301fcp-4, 0x1.747d06p-5, 0x1.8c2d7ap-6, 0x1.596d74p-5};
constexpr double asin_f64[] = {
    0x1.555555555538ep-3, 0x1.333333336ec3dp-4, 0x1.6db6db424ba53p-5, 0x1.f1c72c48e9bcdp-6, 0x1.6e89f2b0223bdp-6,
    0x1.1c6bfa20327fap-6, 0x1.c6fbce22abc4ep-7, 0x1.8ed02bc089f61p-7, 0x1.ab5a5c1fc686fp-8, 0x1.40469a014f647p-6,
    -0x1.0a568755a4f8ep-6, 0x1.059b5b14bda9ep-5};
// (atan(t) / t - 1) / t^2 in t^2, t up to 1
constexpr double atan_f32[] = {
    -0x1.5554dcp-2, 0x1.9978f4p-3, -0x1.230adcp-3, 0x1.b4e128p-4, -0x1.3556acp-4, 0x1.61fdc2p-5, -0x1.0c2bfap-6,
    0x1.7ed20ap-9};
constexpr double atan_f64[] = {
    -0x1.555555555544cp-2, 0x1.999999998410ep-3, -0x1.2492491fa20f7p-3, 0x1.c71c709e19ba8p-4, -0x1.745d02310a81bp-4,
    0x1.3b12b2e96f0ep-4, -0x1.11089d08f7d08p-4, 0x1.e178178964bcbp-5, -0x1.ad32bbd7fa738p-5, 0x1.7ee3fb68b269bp-5,
    -0x1.4f452efbea449p-5, 0x1.1715f407d950dp-5, -0x1.a726f0c62b13bp-6, 0x1.162c8aabb973ep-6, -0x1.2cf7e6882fd5cp-7,
    0x1.f96ddee085e38p-9, -0x1.312b17767a163p-10, 0x1.d3bca82c052cdp-13, -0x1.53e7282a07d68p-16};

// asin(|x|) = p where |x| <= 1/2, and pi / 2 - 2 p beyond.
struct ArcSine {
  Expr beyond, p;
};
ArcSine arc_sine(Expr x) {
  const Expr a = abs(x), beyond = a > 0.5;
  const Expr half = (1.0 - a) * 0.5;  // exact beyond 1/2
  const Expr z = select(beyond, half, x * x), s = select(beyond, sqrt(half), a);
  const Expr q = is_single(x) ? polynomial(z, asin_f32) : polynomial(z, asin_f64);
  return {beyond, fma(s * z, q, s)};
}

Expr atan_core(Expr t) {
  const Expr z = t * t;
  return fma(t * z, is_single(t) ? polynomial(z, atan_f32) : polynomial(z, atan_f64), t);
}

}  // namespace
}  // namespace detail

using namespace detail;

Expr asin(Expr x) {
  const ArcSine s = arc_sine(x);
  return with_sign(abs(select(s.beyond, fma(s.p, -2.0, pi / 2), s.p)), sign_bit(x));
}

Expr acos(Expr x) {
  const ArcSine s = arc_sine(x);
  const Expr p = float_of(bits_of(s.p) ^ sign_bit(x));
  const Expr far_base = select(x < 0.0, like(x, pi), 0.0);
  return fma(p, select(s.beyond, like(x, 2), -1.0), select(s.beyond, far_base, pi / 2));
}

Expr atan(Expr x) {
  const Expr a = abs(x), one = like(x, 1);
  const Expr p = atan_core(min_raw(one, a) / max_raw(one, a));
  return with_sign(select(a > 1.0, pi / 2 - p, p), sign_bit(x));
}

Expr atan2(Expr y, Expr x) {
  const Expr ay = abs(y), ax = abs(x);
  const Expr low = min_raw(ay, ax), high = max_raw(ay, ax);
  const Expr equal = select(high == 0.0, like(x, 0), 1.0);  // both zero, both infinite, or just equal
  const Expr p = atan_core(select(low == high, equal, low / high));
  const Expr first = select(ay > ax, pi / 2 - p, p);
  const Expr negative_x = sign_bit(x) != like(sign_bit(x), 0);
  const Expr angle = with_sign(select(negative_x, pi - first, first), sign_bit(y));
  return select(x == x, select(y == y, angle, y), x);
}

}  // namespace frit::scalar
