// Measures the error of every scalar function against long double, and compares it with the bound that scalar_bounds.h states.
// Start with measure().
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <random>
#include <type_traits>

#include "tracer/scalar_bounds.h"
#include "tracer/scalar_math.h"

using namespace frit;
namespace sc = frit::scalar;

namespace {

constexpr unsigned seed = 20240611;
using Wide = long double;

template <class T> using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
template <class T> uint64_t to_bits(T v) { return std::bit_cast<BitsOf<T>>(v); }
template <class T> T from_bits(uint64_t bits) { return std::bit_cast<T>(BitsOf<T>(bits)); }
template <class T> constexpr Dtype dtype_of = DtypeOf<T>::value;

template <class T> std::vector<T> evaluate_all(const sc::Function& f, const std::vector<std::vector<T>>& inputs) {
  const size_t count = inputs[0].size(), block = 512;
  std::vector<T> out(count);
  std::vector<uint64_t> scratch, result(block);
  std::vector<std::vector<uint64_t>> rows(inputs.size(), std::vector<uint64_t>(block));
  for (size_t start = 0; start < count; start += block) {
    const size_t n = std::min(block, count - start);
    const uint64_t* in[3] = {};
    for (size_t k = 0; k < inputs.size(); ++k) {
      for (size_t i = 0; i < n; ++i) rows[k][i] = to_bits(inputs[k][start + i]);
      in[k] = rows[k].data();
    }
    uint64_t* results[] = {result.data()};
    sc::evaluate_block(f, in, nullptr, results, n, scratch);
    for (size_t i = 0; i < n; ++i) out[start + i] = from_bits<T>(result[i]);
  }
  return out;
}

sc::Function build(sc::Expr (*f)(sc::Expr), Dtype d) {
  sc::Builder b;
  return b.finish({f(b.input(0, d))});
}
sc::Function build(sc::Expr (*f)(sc::Expr, sc::Expr), Dtype d) {
  sc::Builder b;
  const sc::Expr x = b.input(0, d), y = b.input(1, d);
  return b.finish({f(x, y)});
}

// The distance in units in the last place of `exact`'s neighbourhood; infinite when NaN or the sign of a zero is wrong.
template <class T> double ulp_error(T got, Wide exact) {
  using Limits = std::numeric_limits<T>;
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : wrong;
  if (exact == 0) return got == 0 && std::signbit(got) == std::signbit(exact) ? 0 : wrong;
  const Wide beyond = std::ldexp(Wide(1), Limits::max_exponent);
  const Wide target = std::min(std::max(exact, -beyond), beyond);
  if (std::isinf(exact) && !std::isinf(got)) return wrong;
  const Wide value = std::isinf(got) ? std::copysign(beyond, Wide(got)) : Wide(got);
  const int exponent = std::max(std::min(std::ilogb(target), Limits::max_exponent - 1), Limits::min_exponent - 1);
  return double(std::fabs(value - target) / std::ldexp(Wide(1), exponent - Limits::digits + 1));
}

// Bit patterns at random (all exponents, NaN, subnormals), uniform values in several ranges, special values and their neighbours.
template <class T> std::vector<T> samples(size_t count, double lo, double hi) {
  std::mt19937_64 random(seed);
  std::vector<T> out;
  const auto take = [&](T v) {
    if (!(v < lo) && !(v > hi)) out.push_back(v);
  };
  using Limits = std::numeric_limits<T>;
  for (double v : {0.0, 0.5, 1.0, 1.4142135623730951, 2.0, 3.0, 0.6931471805599453, 0.34657359027997264, 1.5707963267948966, 0.7853981633974483,
                   3.141592653589793, 6.283185307179586, 0.93, 4.0, 8.0, 10.0, 13.0, 88.72, 89.41, 104.0, 709.78, 710.4758, 745.13, 1e5, 1048576.0,
                   1073741824.0, 1e15, 1e22, 1e38, double(Limits::min()), double(Limits::denorm_min()), double(Limits::max()),
                   double(Limits::infinity()), double(Limits::epsilon())}) {
    for (T s : {T(v), T(-v)}) {
      T up = s, down = s;
      take(s);
      for (int k = 0; k < 20; ++k) {
        up = std::nextafter(up, Limits::infinity());
        down = std::nextafter(down, -Limits::infinity());
        take(up);
        take(down);
      }
    }
  }
  for (int k = -64; k <= 64; ++k) {
    take(T(k));
    take(T(k * 3.14159265358979323846));
    take(T(k * 1.57079632679489661923));
  }
  take(Limits::quiet_NaN());
  constexpr double ranges[] = {0.05, 1, 4, 12, 40, 110, 760, 1e5, 3e6};
  for (size_t i = 0; out.size() < count; ++i) {
    const uint64_t bits = random();
    if (i % 2 == 0 || i > 4 * count) {
      take(from_bits<T>(bits));
    } else {
      const double range = ranges[i / 2 % std::size(ranges)];
      take(T(std::uniform_real_distribution<double>(std::max(lo, -range), std::min(hi, range))(random)));
    }
  }
  return out;
}

struct Worst {
  double ulp = -1, at = 0, second = 0, got = 0, exact = 0;
};
template <class T> Worst measure(sc::Expr (*f)(sc::Expr), Wide (*oracle)(Wide), size_t count, double lo, double hi) {
  const std::vector<T> x = samples<T>(count, lo, hi);
  const std::vector<T> y = evaluate_all<T>(build(f, dtype_of<T>), {x});
  Worst worst;
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide exact = oracle(x[i]);
    const double e = ulp_error(y[i], exact);
    if (e > worst.ulp) worst = {e, double(x[i]), 0, double(y[i]), double(exact)};
  }
  return worst;
}

Wide sigmoid_oracle(Wide x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
Wide softplus_oracle(Wide x) { return std::fmax(x, Wide(0)) + std::log1p(std::exp(-std::fabs(x))); }
Wide gelu_oracle(Wide x) {
  if (std::isnan(x) || x == 0) return x;
  if (std::isinf(x)) return x > 0 ? x : -Wide(0);
  return x / 2 * std::erfc(-x * 0.70710678118654752440084436210484903L);
}

Wide lgamma_oracle(Wide x) { return std::isinf(x) ? std::fabs(x) : std::lgamma(x); }

// digamma by its Taylor series around the root, and by recurrence and the asymptotic series elsewhere.
Wide digamma_oracle(Wide x) {
  if (std::isnan(x)) return x;
  if (x == 0) return std::copysign(std::numeric_limits<Wide>::infinity(), -x);
  if (std::isinf(x)) return x > 0 ? x : std::numeric_limits<Wide>::quiet_NaN();
  constexpr Wide pi = 3.14159265358979323846264338327950288L;
  if (x < 0) {
    const Wide f = x - std::rint(x);
    return f == 0 ? std::numeric_limits<Wide>::quiet_NaN() : digamma_oracle(-x) - 1 / x - pi / std::tan(pi * f);
  }
  const Wide h = (x - 1.461632144968362245762705242668744176626L) - 9.549995429965697715184199e-17L;
  if (std::fabs(h) < 0.06L) {
    constexpr Wide taylor[] = {
        0.9676722454476211704274L, -0.4427631689835921060929L, 0.2584997609556510106244L, -0.1639427054424065275043L,
        0.1078240506912623657572L, -0.07219956125645471092612L, 0.04880428816414310722509L, -0.03316112647484735929226L,
        0.02259764823221810465962L, -0.0154247659049489591388L, 0.01053879161661217538812L, -0.00720453438635686824097L,
        0.004926781395729853446354L, -0.003369801655439328082793L, 0.002305126326734927836938L};
    Wide sum = 0;
    for (size_t k = std::size(taylor); k-- > 0;) sum = (sum + taylor[k]) * h;
    return sum;
  }
  Wide shift = 0;
  for (; x < 40; x += 1) shift += 1 / x;
  const Wide w = 1 / (x * x);
  const Wide series = w * (1 / 12.0L - w * (1 / 120.0L - w * (1 / 252.0L - w * (1 / 240.0L - w * (1 / 132.0L - w * 691 / 32760.0L)))));
  return std::log(x) - 0.5L / x - series - shift;
}

struct Row {
  const char* name;
  sc::Expr (*function)(sc::Expr);
  Wide (*oracle)(Wide);
};
#define ROW(name) {#name, sc::name, [](Wide x) { return std::name(x); }}
const Row rows[] = {ROW(exp),  ROW(exp2),  ROW(expm1), ROW(log),   ROW(log2),  ROW(log10), ROW(log1p), ROW(sin), ROW(cos),  ROW(tan),
                    ROW(sinh), ROW(cosh),  ROW(tanh),  ROW(asinh), ROW(acosh), ROW(atanh), ROW(erf),   ROW(erfc),  ROW(asin),
                    ROW(acos), ROW(atan),
                    {"lgamma", sc::lgamma, lgamma_oracle},
                    {"digamma", sc::digamma, digamma_oracle},
                    {"sigmoid", sc::sigmoid, sigmoid_oracle},
                    {"softplus", sc::softplus, softplus_oracle},
                    {"gelu", sc::gelu, gelu_oracle}};

const sc::Bound& bound_of(const std::string& name) {
  for (const sc::Bound& b : sc::scalar_bounds)
    if (name == b.name) return b;
  throw std::logic_error("no bound stated for " + name);
}

}  // namespace

template <class T>
Worst measure2(sc::Expr (*f)(sc::Expr, sc::Expr), Wide (*oracle)(Wide, Wide), const std::vector<T>& x, const std::vector<T>& y) {
  const std::vector<T> z = evaluate_all<T>(build(f, dtype_of<T>), {x, y});
  Worst worst;
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide exact = oracle(x[i], y[i]);
    const double e = ulp_error(z[i], exact);
    if (e > worst.ulp) worst = {e, double(x[i]), double(y[i]), double(z[i]), double(exact)};
  }
  return worst;
}

// Pairs: everything special against everything special, then random bits, then moderate values.
template <class T> void pairs(size_t count, std::vector<T>& x, std::vector<T>& y) {
  using L = std::numeric_limits<T>;
  std::vector<T> special;
  for (T v : {T(0), L::denorm_min(), L::min(), T(0.25), T(0.5), T(1) - L::epsilon() / 2, T(1), T(1) + L::epsilon(), T(1.5), T(2), T(2.5), T(3), T(4),
              T(5), T(33), T(128), T(149), T(1074), T(2) / L::epsilon() - 1, T(2) / L::epsilon(), T(4) / L::epsilon(), L::max(), L::infinity(),
              L::quiet_NaN()}) {
    special.push_back(v);
    special.push_back(-v);
  }
  for (T a : special)
    for (T b : special) x.push_back(a), y.push_back(b);
  std::mt19937_64 random(seed + 1);
  std::uniform_real_distribution<double> unit(0, 1);
  while (x.size() < count) {
    switch (random() % 4) {
      case 0: x.push_back(from_bits<T>(random())), y.push_back(from_bits<T>(random())); break;
      case 1: x.push_back(T(unit(random) * 10)), y.push_back(T(unit(random) * 80 - 40)); break;
      case 2: x.push_back(T(1 + (unit(random) - 0.5) * std::exp2(-12 * unit(random)))), y.push_back(T((unit(random) - 0.5) * std::exp2(14 * unit(random)))); break;
      default: x.push_back(T(unit(random) * 20 - 10)), y.push_back(T(int(random() % 21) - 10)); break;
    }
  }
}

TEST_CASE("functions of two arguments keep their stated error", "[scalar]") {
  std::vector<float> x, y;
  std::vector<double> xd, yd;
  pairs<float>(200000, x, y);
  pairs<double>(60000, xd, yd);
  const struct {
    const char* name;
    sc::Expr (*function)(sc::Expr, sc::Expr);
    Wide (*oracle)(Wide, Wide);
  } two[] = {{"pow", sc::pow, [](Wide a, Wide b) { return std::pow(a, b); }}, {"atan2", sc::atan2, [](Wide a, Wide b) { return std::atan2(a, b); }}};
  for (const auto& row : two) {
    const sc::Bound& bound = bound_of(row.name);
    const Worst single = measure2<float>(row.function, row.oracle, x, y), twice = measure2<double>(row.function, row.oracle, xd, yd);
    std::printf("%-10s %9.3f %9.2f %6zu %9.3f %9.2f %6zu\n", row.name, single.ulp, bound.ulp_float32, build(row.function, kFloat32).nodes.size(),
                twice.ulp, bound.ulp_float64, build(row.function, kFloat64).nodes.size());
    INFO(row.name << " float32 at " << std::hexfloat << single.at << ", " << single.second << std::defaultfloat << ": got " << single.got << ", exact " << single.exact);
    CHECK(single.ulp <= bound.ulp_float32);
    INFO(row.name << " float64 at " << std::hexfloat << twice.at << ", " << twice.second << std::defaultfloat << ": got " << twice.got << ", exact " << twice.exact);
    CHECK(twice.ulp <= bound.ulp_float64);
  }
}

// Where lgamma and digamma of negative arguments cross zero, what counts is the error against the size of the two terms.
TEST_CASE("lgamma and digamma of negative numbers", "[scalar]") {
  std::mt19937_64 random(seed + 2);
  std::vector<double> x;
  while (x.size() < 20000) {
    const double r = double(random() >> 11) * 0x1p-53;
    x.push_back(random() % 2 ? -20 * r : -std::exp2(60 * r - 40));
  }
  const std::vector<double> l = evaluate_all<double>(build(sc::lgamma, kFloat64), {x}), d = evaluate_all<double>(build(sc::digamma, kFloat64), {x});
  double worst_l = 0, worst_d = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide exact_l = lgamma_oracle(x[i]), exact_d = digamma_oracle(x[i]);
    if (std::isinf(exact_l)) {
      CHECK(std::isinf(l[i]));
      CHECK(std::isnan(d[i]));
      continue;
    }
    const Wide size_l = 1 + std::fabs(exact_l) + std::fabs(std::lgamma(1 - Wide(x[i]))), size_d = 1 + std::fabs(exact_d) + std::log(1 - Wide(x[i]));
    worst_l = std::max(worst_l, double(std::fabs(l[i] - exact_l) / size_l));
    worst_d = std::max(worst_d, double(std::fabs(d[i] - exact_d) / size_d));
  }
  std::printf("negative arguments, against the size of the terms: lgamma %.2f, digamma %.2f times 2^-53\n", worst_l * 0x1p53, worst_d * 0x1p53);
  CHECK(worst_l < 4 * 0x1p-53);
  CHECK(worst_d < 8 * 0x1p-53);
}

TEST_CASE("lgamma and digamma of negative numbers in float32 are rounded once", "[scalar]") {
  const struct {
    sc::Expr (*function)(sc::Expr);
    Wide (*oracle)(Wide);
  } two[] = {{sc::lgamma, lgamma_oracle}, {sc::digamma, digamma_oracle}};
  for (const auto& row : two) {
    const Worst w = measure<float>(row.function, row.oracle, 200000, -std::numeric_limits<double>::infinity(), 0);
    INFO("float32 at " << std::hexfloat << w.at << std::defaultfloat << " = " << w.at << ": got " << w.got << ", exact " << w.exact);
    CHECK(w.ulp <= 1);
  }
}

template <class T> void check_fmod(int count, int most_exponent) {
  std::mt19937_64 random(seed + 3);
  std::vector<T> a, b;
  using L = std::numeric_limits<T>;
  const T special[] = {0, L::denorm_min(), L::min(), 1, T(1.5), 3, T(0.1), 1000, L::infinity(), L::quiet_NaN()};
  const auto take = [&](T v, T w) {
    if (std::isfinite(v) && std::isfinite(w) && v != 0 && w != 0 && std::ilogb(v) - std::ilogb(w) > most_exponent) return;
    a.push_back(v), b.push_back(w);
  };
  for (T v : special)
    for (T w : special)
      for (int s = 0; s < 4; ++s) take(s & 1 ? -v : v, s & 2 ? -w : w);
  while (a.size() < size_t(count)) {
    T v = from_bits<T>(random()), w = from_bits<T>(random());
    const int kind = int(random() % 3);
    if (kind == 0) v = T(int(random() % 2000000) - 1000000), w = T(int(random() % 2000) - 1000);
    if (kind == 1) w = v / T(1 + random() % 100000) * (1 + L::epsilon() * T(int(random() % 5) - 2));  // near whole quotients
    take(v, w);
  }
  const std::vector<T> m = evaluate_all<T>(build(sc::fmod, dtype_of<T>), {a, b}), r = evaluate_all<T>(build(sc::remainder, dtype_of<T>), {a, b}),
                       q = evaluate_all<T>(build(sc::floor_divide, dtype_of<T>), {a, b});
  int wrong = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const T exact = std::fmod(a[i], b[i]);
    const auto same = [](T x, T y) { return std::isnan(x) ? std::isnan(y) : to_bits(x) == to_bits(y); };
    const T rest = exact == 0 ? std::copysign(exact, b[i]) : (exact < 0) != (b[i] < 0) ? exact + b[i] : exact;
    bool good = same(exact, m[i]) && same(rest, r[i]);
    // The exact quotient has up to 106 significant bits before it is whole or clearly not.
    const __float128 quotient = __float128(a[i]) / b[i];
    if (std::isfinite(a[i]) && std::isfinite(b[i]) && b[i] != 0 && quotient < 0x1p24 && quotient > -0x1p24) {
      int64_t floored = int64_t(quotient);
      if (floored > quotient) --floored;
      good = good && q[i] == T(floored);
    }
    if (!good && ++wrong < 4) UNSCOPED_INFO("fmod family at " << std::hexfloat << a[i] << ", " << b[i] << ": " << m[i] << " " << r[i] << " " << q[i]);
  }
  CHECK(wrong == 0);
}

TEST_CASE("fmod is exact, floor division and remainder follow it", "[scalar]") {
  check_fmod<float>(100000, 300);
  check_fmod<double>(50000, 299);
}

TEST_CASE("functions keep relative accuracy and sign near zero", "[scalar]") {
  const auto at = [](sc::Expr (*f)(sc::Expr), std::vector<float> x) { return evaluate_all<float>(build(f, kFloat32), {x}); };
  const auto close = [](const std::vector<float>& got, const std::vector<double>& expected) {
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) <= 5e-7 * std::abs(expected[i]));
  };
  const float inf = std::numeric_limits<float>::infinity();
  close(at(sc::tanh, {5.820766091346741e-10f, -5.820766091346741e-10f, 1e-05f, -0.0001f, 20.0f, -50.0f, inf}),
        {5.820766091346741e-10, -5.820766091346741e-10, 9.999999747045419e-06, -9.999999714045421e-05, 1.0, -1.0, 1.0});
  close(at(sc::erf, {1e-08f, 1e-07f, 1e-05f, 0.001f, 0.5f, 3.9f, 6.0f}),
        {1.1283791602378209e-08, 1.1283791802818576e-07, 1.1283791385526445e-05, 0.0011283788445643173, 0.5204998778130465, 0.9999999652077781, 1.0});
  close(at(sc::atanh, {1e-08f, -1e-05f, 0.5f}), {9.99999993922529e-09, -9.999999747712085e-06, 0.5493061443340548});
  close(at(sc::expm1, {1e-7f, -1e-7f, 1e-5f, -3e-10f, 1e-3f, -200.0f}),
        {1.0000000616861003e-07, -9.999999616860979e-08, 1.0000049747542893e-05, -2.9999999702153566e-10, 0.0010005002502142533, -1.0});
  close(at(sc::log1p, {1e-7f, -1e-7f, 1e-5f, -3e-10f, 1e-3f}),
        {9.999999616860996e-08, -1.000000061686102e-07, 9.999949747714609e-06, -2.999999971115357e-10, 0.0009995003805335345});
  CHECK(at(sc::expm1, {89.0f})[0] == inf);
  CHECK(at(sc::log1p, {-1.0f})[0] == -inf);
  CHECK(std::isnan(at(sc::log1p, {-1.5f})[0]));
  CHECK(at(sc::cos, {0.0f})[0] == 1);
  CHECK(at(sc::exp, {0.0f})[0] == 1);
  CHECK(at(sc::sigmoid, {0.0f})[0] == 0.5f);
}

TEST_CASE("every scalar function keeps its stated error", "[scalar]") {
  std::printf("%-10s %9s %9s %6s %9s %9s %6s   (worst ulp, bound, nodes; seed %u)\n", "function", "float32", "bound", "nodes", "float64", "bound", "nodes", seed);
  for (const Row& row : rows) {
    const sc::Bound& bound = bound_of(row.name);
    const Worst single = measure<float>(row.function, row.oracle, 300000, bound.lo, bound.hi);
    const Worst twice = measure<double>(row.function, row.oracle, 80000, bound.lo, bound.hi);
    std::printf("%-10s %9.3f %9.2f %6zu %9.3f %9.2f %6zu\n", row.name, single.ulp, bound.ulp_float32, build(row.function, kFloat32).nodes.size(),
                twice.ulp, bound.ulp_float64, build(row.function, kFloat64).nodes.size());
    INFO(row.name << " float32 at " << std::hexfloat << single.at << std::defaultfloat << " = " << single.at << ": got " << single.got << ", exact " << single.exact);
    CHECK(single.ulp <= bound.ulp_float32);
    INFO(row.name << " float64 at " << std::hexfloat << twice.at << std::defaultfloat << " = " << twice.at << ": got " << twice.got << ", exact " << twice.exact);
    CHECK(twice.ulp <= bound.ulp_float64);
  }
}
