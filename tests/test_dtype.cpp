// The half formats against their definition: every finite value, the midpoint to its successor and the midpoint's neighbours.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "runtime/dtype.h"

using namespace frit;

namespace {

// The value of a pattern with the given widths, by the formula.
double value_of(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = int(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double mantissa = std::ldexp(double(bits & ((1u << mantissa_bits) - 1)), -mantissa_bits);
  return exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1 + mantissa, exponent - bias);
}

template <class T> void check_format(int exponent_bits, int mantissa_bits) {
  const uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  int wrong = 0;
  const auto expect = [&](double v, uint32_t bits) {
    if (T(float(v)).bits != bits || T(float(-v)).bits != (bits | 0x8000)) ++wrong;
  };
  for (uint32_t bits = 0; bits < infinity; ++bits) {
    T t;
    t.bits = uint16_t(bits);
    const double here = value_of(bits, exponent_bits, mantissa_bits), next = value_of(bits + 1, exponent_bits, mantissa_bits);
    if (double(float(t)) != here) ++wrong;
    expect(here, bits);
    const float middle = float((here + next) / 2);
    if (double(middle) != (here + next) / 2) continue;  // below float's own subnormals
    expect(middle, bits + (bits & 1));
    if (middle > 0) expect(std::nextafter(middle, 0.0f), bits);
    expect(std::nextafter(middle, HUGE_VALF), bits + 1);
  }
  CHECK(wrong == 0);
  CHECK(T(HUGE_VALF).bits == infinity);
  CHECK(T(-HUGE_VALF).bits == (infinity | 0x8000));
  for (uint32_t bits = infinity + 1; bits < 0x8000; ++bits) {
    T t;
    t.bits = uint16_t(bits);
    const float wide = t;
    if (!std::isnan(wide) || !std::isnan(float(T(wide)))) ++wrong;
  }
  for (uint32_t nan : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    if (!std::isnan(float(T(std::bit_cast<float>(nan))))) ++wrong;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("float16 rounds to nearest even over its whole range", "[dtype]") { check_format<Half>(5, 10); }
TEST_CASE("bfloat16 rounds to nearest even over its whole range", "[dtype]") { check_format<BFloat16>(8, 7); }

TEST_CASE("a cast down and up again rounds", "[dtype]") {
  const float in[] = {1.005f, 3.14159265f, 257.0f, 258.0f, 259.0f, 0.001f, -1.003f};
  const float out[] = {1.0078125f, 3.140625f, 256.0f, 258.0f, 260.0f, 0.00099945068359375f, -1.0f};
  for (size_t i = 0; i < std::size(in); ++i) CHECK(float(BFloat16(in[i])) == out[i]);
  const float half_in[] = {2049.0f, 2051.0f, 65519.0f, 65520.0f, 1e-08f, 6e-08f, 0.1f};
  const float half_out[] = {2048.0f, 2052.0f, 65504.0f, HUGE_VALF, 0.0f, 5.960464477539063e-08f, 0.0999755859375f};
  for (size_t i = 0; i < std::size(half_in); ++i) CHECK(float(Half(half_in[i])) == half_out[i]);
}

TEST_CASE("dtypes have names and promote like LibTorch's", "[dtype]") {
  CHECK(std::string(dtype_name(kBFloat16)) == "bfloat16");
  CHECK(std::string(dtype_name(kBool)) == "bool");
  CHECK(std::string(dtype_short_name(kFloat32)) == "f32");
  for (int d = 0; d < dtype_count; ++d) {
    const Dtype dtype = Dtype(d);
    CHECK(dispatch(dtype, [](auto zero) { return sizeof zero; }) == size_of(dtype));
    CHECK(promote(dtype, kBool) == dtype);
    for (int e = 0; e < dtype_count; ++e) CHECK(promote(dtype, Dtype(e)) == promote(Dtype(e), dtype));
  }
  CHECK(promote(kUInt8, kInt8) == kInt16);
  CHECK(promote(kHalf, kBFloat16) == kFloat32);
  CHECK(promote(kLong, kHalf) == kHalf);
}
