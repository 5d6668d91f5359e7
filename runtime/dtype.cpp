// Names of the element types, and the conversions of the two half formats. The conversions are integer code, so that they
// give on every processor what the F16C instructions give: round to nearest even, overflow to infinity, subnormals exact,
// NaN stays NaN (made quiet, upper payload kept). Start with half_from_float.
#include "runtime/dtype.h"

#include <bit>

namespace frit {
namespace {

uint16_t half_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);  // 65520 and beyond: halfway to 65536 rounds to even
  if (magnitude < 0x38800000) {
    // Below the least normal half: adding 0.5 puts the subnormal unit 2^-24 at the last bit, and the addition rounds to
    // nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return uint16_t(sign | ((rounded - 0x38000000) >> 13));
}

float float_from_half(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16, magnitude = half & 0x7fff;
  if (magnitude >= 0x7c00) {
    const uint32_t quiet = magnitude > 0x7c00 ? 0x400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13 | quiet);
  }
  if (magnitude < 0x400) {
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(float(magnitude) * 0x1p-24f));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
}

uint16_t bfloat16_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

Half::Half(float value) : bits(half_from_float(value)) {}
Half::operator float() const { return float_from_half(bits); }
BFloat16::BFloat16(float value) : bits(bfloat16_from_float(value)) {}
BFloat16::operator float() const {
  const uint32_t wide = uint32_t(bits) << 16;
  const bool nan = (wide & 0x7fffffff) > 0x7f800000;
  return std::bit_cast<float>(nan ? wide | 0x400000 : wide);
}

const char* dtype_name(Dtype d) {
  constexpr const char* names[] = {"bool",  "uint8",   "int8",     "int16",   "int32",
                                   "int64", "float16", "bfloat16", "float32", "float64"};
  return names[size_t(d)];
}

const char* dtype_short_name(Dtype d) {
  constexpr const char* names[] = {
#define X(name, type, bytes, text) #text,
      FRIT_FOR_EACH_DTYPE(X)
#undef X
  };
  return names[size_t(d)];
}

}  // namespace frit
