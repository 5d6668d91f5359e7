// Building scalar expressions, and what each primitive means at its edges. Start with value_of.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "runtime/error.h"
#include "tracer/scalar_math.h"

using namespace frit;
namespace sc = frit::scalar;
using sc::Builder;
using sc::Expr;
using sc::Prim;

namespace {

template <class T> uint64_t bits_of(T v) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(v);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(v);
  else return uint64_t(int64_t(v));
}
template <class T> T from_bits(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(uint32_t(bits));
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
  else return T(bits);
}

// f applied to inputs of type T, its result as R. The result must be canonical: extended as its type demands.
template <class R, class T, class F> R value_of(F f, std::initializer_list<T> in) {
  Builder b;
  std::vector<Expr> inputs;
  std::vector<uint64_t> values;
  for (const T v : in) {
    inputs.push_back(b.input(int(inputs.size()), DtypeOf<T>::value));
    values.push_back(bits_of(v));
  }
  const sc::Function function = b.finish({f(inputs)});
  REQUIRE(function.nodes[function.results[0]].dtype == DtypeOf<R>::value);
  uint64_t result = 0;
  std::vector<uint64_t> scratch;
  sc::evaluate(function, values.data(), nullptr, &result, scratch);
  const R r = from_bits<R>(result);
  CHECK(bits_of(r) == result);
  return r;
}
#define UNARY(T, e, a) value_of<T, T>([](const std::vector<Expr>& x) { return e; }, {T(a)})
#define BINARY(T, e, a, b) value_of<T, T>([](const std::vector<Expr>& x) { return e; }, {T(a), T(b)})
#define TEST_OF(T, e, a, b) value_of<bool, T>([](const std::vector<Expr>& x) { return e; }, {T(a), T(b)})
#define CONVERT(R, T, a) value_of<R, T>([](const std::vector<Expr>& x) { return convert(x[0], DtypeOf<R>::value); }, {T(a)})

constexpr float inf = std::numeric_limits<float>::infinity(), nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr double inf64 = std::numeric_limits<double>::infinity();
constexpr int32_t min32 = INT32_MIN;
constexpr int64_t min64 = INT64_MIN;

template <class T> void check_integer_division() {
  constexpr T least = std::numeric_limits<T>::min();
  for (T a : {T(7), T(0), least}) {
    CHECK(BINARY(T, x[0] / x[1], a, 0) == 0);
    CHECK(BINARY(T, x[0] % x[1], a, 0) == 0);
    CHECK(BINARY(T, floor_divide(x[0], x[1]), a, 0) == 0);
    CHECK(BINARY(T, remainder(x[0], x[1]), a, 0) == 0);
  }
  if constexpr (std::is_signed_v<T>) {
    CHECK(BINARY(T, x[0] / x[1], least, -1) == least);
    CHECK(BINARY(T, x[0] % x[1], least, -1) == 0);
    CHECK(BINARY(T, floor_divide(x[0], x[1]), least, -1) == least);
    CHECK(BINARY(T, remainder(x[0], x[1]), least, -1) == 0);
    CHECK(BINARY(T, x[0] / x[1], -7, 2) == -3);
    CHECK(BINARY(T, x[0] % x[1], -7, 2) == -1);
    CHECK(BINARY(T, x[0] + x[1], std::numeric_limits<T>::max(), 1) == least);
    CHECK(UNARY(T, abs(x[0]), least) == least);
    CHECK(UNARY(T, -x[0], least) == least);
    for (int a = -9; a <= 9; ++a) {
      for (int b = -4; b <= 4; ++b) {
        if (b == 0) continue;
        const int floored = int(std::floor(double(a) / b));
        CHECK(BINARY(T, floor_divide(x[0], x[1]), a, b) == floored);
        CHECK(BINARY(T, remainder(x[0], x[1]), a, b) == a - b * floored);
      }
    }
  }
}

}  // namespace

TEST_CASE("equal nodes are shared and dead ones dropped", "[scalar]") {
  Builder b;
  const Expr x = b.input(0, kFloat32), y = b.input(1, kFloat32);
  const Expr first = x * y + 1.0, second = x * y + 1.0;
  CHECK(first.id == second.id);
  CHECK((y * x).id != (x * y).id);
  CHECK(b.constant(1, kFloat32).id != b.constant(1, kFloat64).id);
  CHECK(b.constant(0.0, kFloat32).id != b.constant(-0.0, kFloat32).id);
  CHECK(b.bits(0xffffffff, kInt32).id == b.constant(-1, kInt32).id);
  const sc::Function f = b.finish({select(x < y, first, 2.0)});
  CHECK(f.text() ==
        "%0 = input f32 0\n"
        "%1 = input f32 1\n"
        "%2 = mul f32 %0 %1\n"
        "%3 = constant f32 0x3f800000\n"
        "%4 = add f32 %2 %3\n"
        "%5 = lt b8 %0 %1\n"
        "%6 = constant f32 0x40000000\n"
        "%7 = select f32 %5 %4 %6\n"
        "return %7\n");
  for (int k = 0; k < 3000; ++k) CHECK(b.constant(k, kInt32).id == b.constant(k, kInt32).id);
}

TEST_CASE("wrong expressions are internal errors", "[scalar]") {
  Builder b, other;
  const Expr x = b.input(0, kFloat32), n = b.input(1, kInt32);
  CHECK_THROWS_AS(x + n, InternalError);
  CHECK_THROWS_AS(x + other.input(0, kFloat32), InternalError);
  CHECK_THROWS_AS(select(x, x, x), InternalError);
  CHECK_THROWS_AS(b.input(0, kFloat16), InternalError);
  CHECK_THROWS_AS(b.constant(0.5, kInt32), InternalError);
  CHECK_THROWS_AS(x % x, InternalError);
  CHECK_THROWS_AS(bitcast(x, kInt64), InternalError);
  CHECK_THROWS_AS(sc::lookup(1000, n), InternalError);
}

TEST_CASE("integers wrap and divide without traps", "[scalar]") {
  check_integer_division<int8_t>();
  check_integer_division<int16_t>();
  check_integer_division<int32_t>();
  check_integer_division<int64_t>();
  check_integer_division<uint8_t>();
  CHECK(BINARY(uint8_t, x[0] - x[1], 3, 5) == 254);
  CHECK(value_of<int8_t, int8_t>([](const std::vector<Expr>& x) { return x[0] * (x[1] + x[2]); }, {7, 50, 20}) == -22);
  CHECK(value_of<int8_t, int8_t>([](const std::vector<Expr>& x) { return x[0] * x[1] + x[0] * x[2]; }, {7, 50, 20}) == -22);
  CHECK(value_of<int64_t, int32_t>([](const std::vector<Expr>& x) { return convert(x[0] + 1.0, kInt64); }, {INT32_MAX}) == min32);
  CHECK(value_of<int64_t, int8_t>([](const std::vector<Expr>& x) { return convert(x[0], kInt64) + convert(x[1], kInt64); }, {100, 100}) == 200);
  CHECK(BINARY(int64_t, x[0] * x[1], INT64_MAX, 3) == INT64_MAX - 2);
  CHECK(BINARY(int32_t, mulhi_u32(x[0], x[1]), -1, -1) == -2);
  CHECK(BINARY(int32_t, mulhi_u32(x[0], x[1]), min32, 4) == 2);
}

TEST_CASE("whole powers wrap", "[scalar]") {
  CHECK(BINARY(int32_t, pow(x[0], x[1]), -3, 5) == -243);
  CHECK(BINARY(int32_t, pow(x[0], x[1]), 0, 0) == 1);
  CHECK(BINARY(int32_t, pow(x[0], x[1]), 3, 31) == int32_t(617673396283947u));
  CHECK(BINARY(int64_t, pow(x[0], x[1]), 7, 22) == 3909821048582988049);
  CHECK(BINARY(int64_t, pow(x[0], x[1]), 2, 64) == 0);
  CHECK(BINARY(uint8_t, pow(x[0], x[1]), 3, 200) == 161);
  CHECK(BINARY(int8_t, pow(x[0], x[1]), -1, -3) == -1);
  CHECK(BINARY(int16_t, pow(x[0], x[1]), 2, -1) == 0);
}

TEST_CASE("shift counts are taken modulo the width", "[scalar]") {
  CHECK(BINARY(int32_t, x[0] << x[1], 1, 33) == 2);
  CHECK(BINARY(int32_t, x[0] << x[1], 1, -1) == min32);
  CHECK(BINARY(int64_t, x[0] << x[1], 1, 65) == 2);
  CHECK(BINARY(int64_t, x[0] << x[1], 1, 63) == min64);
  CHECK(BINARY(int32_t, x[0] >> x[1], -8, 1) == -4);
  CHECK(BINARY(int32_t, ushr(x[0], x[1]), -8, 1) == 0x7ffffffc);
  CHECK(BINARY(int64_t, ushr(x[0], x[1]), -1, 60) == 15);
  CHECK(BINARY(int8_t, x[0] << x[1], 1, 7) == -128);
  CHECK(BINARY(int8_t, x[0] << x[1], 1, 9) == 0);
  CHECK(BINARY(int8_t, ushr(x[0], x[1]), -1, 4) == 15);
  CHECK(BINARY(int16_t, ushr(x[0], x[1]), -1, 4) == 0xfff);
  CHECK(BINARY(uint8_t, x[0] >> x[1], 200, 3) == 25);
  CHECK(UNARY(uint8_t, ~x[0], 1) == 254);
}

TEST_CASE("comparisons, min and max treat NaN and zeros as defined", "[scalar]") {
  CHECK_FALSE(TEST_OF(float, x[0] == x[1], nan_value, nan_value));
  CHECK(TEST_OF(float, x[0] != x[1], nan_value, 1));
  CHECK_FALSE(TEST_OF(float, x[0] < x[1], nan_value, 1));
  CHECK_FALSE(TEST_OF(float, x[0] <= x[1], 1, nan_value));
  CHECK_FALSE(TEST_OF(float, x[0] > x[1], 1, nan_value));
  CHECK(TEST_OF(float, x[0] == x[1], 0.0f, -0.0f));
  CHECK_FALSE(TEST_OF(uint8_t, x[0] < x[1], 200, 100));
  CHECK(TEST_OF(int8_t, x[0] < x[1], -56, 100));
  CHECK(BINARY(float, min_raw(x[0], x[1]), nan_value, 1) == 1);
  CHECK(std::isnan(BINARY(float, min_raw(x[0], x[1]), 1, nan_value)));
  CHECK(BINARY(float, max_raw(x[0], x[1]), nan_value, 1) == 1);
  CHECK(std::signbit(BINARY(float, max_raw(x[0], x[1]), 0.0f, -0.0f)));
  CHECK(BINARY(uint8_t, max_raw(x[0], x[1]), 200, 100) == 200);
  CHECK(std::isnan(BINARY(float, minimum(x[0], x[1]), 1, nan_value)));
  CHECK(std::isnan(BINARY(float, minimum(x[0], x[1]), nan_value, 1)));
  CHECK(std::isnan(BINARY(double, maximum(x[0], x[1]), nan_value, inf)));
  CHECK(std::isnan(BINARY(double, maximum(x[0], x[1]), inf, nan_value)));
  for (float a : {0.0f, -0.0f}) {
    CHECK(std::signbit(BINARY(float, minimum(x[0], x[1]), a, -a)));
    CHECK_FALSE(std::signbit(BINARY(float, maximum(x[0], x[1]), a, -a)));
    CHECK(std::signbit(UNARY(float, sign(x[0]), a)) == std::signbit(a));
  }
  CHECK(UNARY(float, sign(x[0]), -3) == -1);
  CHECK(std::isnan(UNARY(float, sign(x[0]), nan_value)));
  CHECK(UNARY(uint8_t, sign(x[0]), 200) == 1);
  CHECK(UNARY(int64_t, sign(x[0]), min64) == -1);
}

TEST_CASE("conversions round, truncate, wrap and saturate as defined", "[scalar]") {
  CHECK(CONVERT(int32_t, float, -2.9f) == -2);
  CHECK(CONVERT(int32_t, float, 2147483648.0f) == min32);
  CHECK(CONVERT(int32_t, float, nan_value) == min32);
  CHECK(CONVERT(int32_t, double, -2147483648.9) == min32);
  CHECK(CONVERT(int32_t, double, 2147483647.9) == INT32_MAX);
  CHECK(CONVERT(int64_t, double, 0x1p63) == min64);
  CHECK(CONVERT(int64_t, double, -inf64) == min64);
  CHECK(CONVERT(int64_t, float, 0x1p62f) == int64_t(1) << 62);
  CHECK(CONVERT(int8_t, float, 300.7f) == 44);
  CHECK(CONVERT(int8_t, float, 1e10f) == 0);
  CHECK(CONVERT(uint8_t, float, -1.0f) == 255);
  CHECK(CONVERT(uint8_t, double, nan_value) == 0);
  CHECK(CONVERT(int16_t, int32_t, 0x18000) == -32768);
  CHECK(CONVERT(float, int32_t, 16777217) == 16777216);
  CHECK(CONVERT(float, int32_t, 16777219) == 16777220);
  CHECK(CONVERT(float, int64_t, INT64_MAX) == 0x1p63f);
  CHECK(CONVERT(float, int64_t, (int64_t(1) << 62) + (int64_t(1) << 38) + 1) == 0x1.000002p62f);  // rounded once
  CHECK(CONVERT(double, int64_t, (int64_t(1) << 53) + 1) == 0x1p53);
  CHECK(CONVERT(float, double, 1e300) == inf);
  CHECK(CONVERT(float, double, 0x1.000001p0) == 1);
  CHECK(CONVERT(bool, float, nan_value));
  CHECK_FALSE(CONVERT(bool, double, -0.0));
  CHECK(CONVERT(bool, int32_t, 256));
  CHECK(CONVERT(float, bool, true) == 1);
  CHECK(value_of<int32_t, float>([](const std::vector<Expr>& x) { return bitcast(x[0], kInt32); }, {-0.0f}) == min32);
  CHECK(value_of<double, int64_t>([](const std::vector<Expr>& x) { return bitcast(x[0], kFloat64); }, {0x3ff0000000000000}) == 1);
}

TEST_CASE("fma rounds once, and denormals are kept", "[scalar]") {
  const auto fused = [](const std::vector<Expr>& x) { return fma(x[0], x[1], x[2]); };
  CHECK(value_of<float, float>(fused, {1 + 0x1p-12f, 1 - 0x1p-12f, -1}) == -0x1p-24f);
  CHECK(value_of<double, double>(fused, {1 + 0x1p-30, 1 - 0x1p-30, -1}) == -0x1p-60);
  CHECK(BINARY(float, x[0] * x[1], 0x1p-140f, 0.5f) == 0x1p-141f);
  CHECK(BINARY(double, x[0] / x[1], 0x1p-1060, 2) == 0x1p-1061);
  CHECK(UNARY(float, rint(x[0]), 2.5f) == 2);
  CHECK(UNARY(float, rint(x[0]), -3.5f) == -4);
  CHECK(UNARY(double, floor(x[0]), -0.5) == -1);
  CHECK(std::signbit(UNARY(double, ceil(x[0]), -0.5)));
  CHECK(UNARY(float, sqrt(x[0]), 2) == 0x1.6a09e6p0f);
  CHECK(std::isnan(UNARY(float, sqrt(x[0]), -1)));
}

TEST_CASE("floor division and remainder are Python's", "[scalar]") {
  const double a[] = {1, 0.5, 6, -1, -7, 7, 1}, b[] = {0.1, 0.1, 0.2, 0.1, 2, -2, 1.0 / 3};
  const double quotient64[] = {9, 4, 29, -10, -4, -4, 3}, quotient32[] = {9, 4, 29, -10, -4, -4, 2};
  const double rest64[] = {0.09999999999999995, 0.09999999999999998, 0.19999999999999968, 5.551115123125783e-17, 1, -1, 5.551115123125783e-17};
  for (int i = 0; i < 7; ++i) {
    CHECK(BINARY(double, floor_divide(x[0], x[1]), a[i], b[i]) == quotient64[i]);
    CHECK(BINARY(float, floor_divide(x[0], x[1]), a[i], b[i]) == quotient32[i]);
    CHECK(BINARY(double, remainder(x[0], x[1]), a[i], b[i]) == rest64[i]);
  }
  CHECK(std::isnan(BINARY(double, floor_divide(x[0], x[1]), inf, 1)));
  CHECK(std::isnan(BINARY(float, floor_divide(x[0], x[1]), -inf, 1)));
  CHECK(BINARY(float, floor_divide(x[0], x[1]), 1, inf) == 0);
  CHECK(BINARY(float, floor_divide(x[0], x[1]), -1, inf) == -1);
  CHECK(BINARY(double, floor_divide(x[0], x[1]), 1, 0) == inf64);
  CHECK(BINARY(double, floor_divide(x[0], x[1]), -1, 0) == -inf64);
  CHECK(std::isnan(BINARY(double, floor_divide(x[0], x[1]), 0, 0)));
  CHECK(std::isnan(BINARY(double, remainder(x[0], x[1]), 1, 0)));
  CHECK(BINARY(float, remainder(x[0], x[1]), 1, inf) == 1);
  CHECK(BINARY(float, remainder(x[0], x[1]), -1, inf) == inf);
  CHECK(std::signbit(BINARY(float, remainder(x[0], x[1]), 4, -2)));
  CHECK_FALSE(std::signbit(BINARY(float, remainder(x[0], x[1]), -4, 2)));
}

TEST_CASE("Philox gives the published vectors", "[scalar]") {
  Builder b;
  const sc::Random4 r = philox(b.input(0, kInt64), b.input(1, kInt64), b.input(2, kInt64));
  const sc::Function f = b.finish({r.word[0], r.word[1], r.word[2], r.word[3]});
  // seed, stream, counter
  const uint64_t in[3][3] = {{0, 0, 0},
                             {~uint64_t(0), ~uint64_t(0), ~uint64_t(0)},
                             {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88}};
  const uint32_t out[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                              {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                              {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
  std::vector<uint64_t> scratch;
  for (int k = 0; k < 3; ++k) {
    uint64_t words[4];
    sc::evaluate(f, in[k], nullptr, words, scratch);
    for (int i = 0; i < 4; ++i) CHECK(uint32_t(words[i]) == out[k][i]);
  }
}

TEST_CASE("random words become uniform and normal numbers", "[scalar]") {
  CHECK(value_of<float, int32_t>([](const std::vector<Expr>& x) { return uniform_from_bits(x[0], kFloat32); }, {-1}) == 1 - 0x1p-24f);
  CHECK(value_of<float, int32_t>([](const std::vector<Expr>& x) { return uniform_from_bits(x[0], kFloat32); }, {255}) == 0);
  const auto wide = [](const std::vector<Expr>& x) { return uniform_from_bits(x[0], x[1], kFloat64); };
  CHECK(value_of<double, int32_t>(wide, {-1, -1}) == 1 - 0x1p-53);
  CHECK(value_of<double, int32_t>(wide, {32, 64}) == 0x1p-27 + 0x1p-53);
  for (Dtype d : {kFloat32, kFloat64}) {
    Builder b;
    const Expr zero = b.constant(0, kInt64), counter = b.input(0, kInt64);
    const sc::Random4 r = philox(b.constant(42, kInt64), zero, counter);
    const sc::Function f = b.finish({convert(normal_from_bits(r.word[0], r.word[1], d), kFloat64)});
    const size_t count = 20000;
    std::vector<uint64_t> in(count), out(count), scratch;
    for (size_t i = 0; i < count; ++i) in[i] = i;
    const uint64_t* inputs[] = {in.data()};
    uint64_t* outputs[] = {out.data()};
    sc::evaluate_block(f, inputs, nullptr, outputs, count, scratch);
    double sum = 0, square = 0, fourth = 0, below = 0;
    for (const uint64_t bits : out) {
      const double v = from_bits<double>(bits);
      sum += v, square += v * v, fourth += v * v * v * v, below += v < -1;
    }
    CHECK(std::abs(sum / count) < 0.03);
    CHECK(std::abs(square / count - 1) < 0.04);
    CHECK(std::abs(fourth / count - 3) < 0.3);
    CHECK(std::abs(below / count - 0.158655) < 0.01);
  }
  for (int32_t a : {0, -1, 1, INT32_MAX, INT32_MIN}) {
    for (int32_t c : {0, -1, INT32_MAX, INT32_MIN}) {
      const auto one = [](const std::vector<Expr>& x) { return normal_from_bits(x[0], x[1], kFloat32); };
      const auto two = [](const std::vector<Expr>& x) { return normal_from_bits(x[0], x[1], kFloat64); };
      CHECK(std::isfinite(value_of<float, int32_t>(one, {a, c})));
      CHECK(std::isfinite(value_of<double, int32_t>(two, {a, c})));
    }
  }
}
