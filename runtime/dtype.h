// The element types, in the order of promotion within a category.
#pragma once
#include <cstddef>
#include <cstdint>

namespace frit {

// name, C++ storage type, bytes, short name (used in IR text and kernel names)
#define FRIT_FOR_EACH_DTYPE(X)      \
  X(Bool, bool, 1, b8)              \
  X(UInt8, uint8_t, 1, u8)          \
  X(Int8, int8_t, 1, i8)            \
  X(Int16, int16_t, 2, i16)         \
  X(Int32, int32_t, 4, i32)         \
  X(Int64, int64_t, 8, i64)         \
  X(Float16, ::frit::Half, 2, f16)  \
  X(BFloat16, ::frit::BFloat16, 2, bf16) \
  X(Float32, float, 4, f32)         \
  X(Float64, double, 8, f64)

enum class Dtype : uint8_t {
#define X(name, type, bytes, text) name,
  FRIT_FOR_EACH_DTYPE(X)
#undef X
};
using ScalarType = Dtype;
constexpr int dtype_count = 10;

constexpr Dtype kBool = Dtype::Bool, kUInt8 = Dtype::UInt8, kInt8 = Dtype::Int8, kInt16 = Dtype::Int16, kInt32 = Dtype::Int32,
                kInt64 = Dtype::Int64, kFloat16 = Dtype::Float16, kBFloat16 = Dtype::BFloat16, kFloat32 = Dtype::Float32,
                kFloat64 = Dtype::Float64;
constexpr Dtype kByte = kUInt8, kChar = kInt8, kShort = kInt16, kInt = kInt32, kLong = kInt64, kHalf = kFloat16, kFloat = kFloat32,
                kDouble = kFloat64;

// Storage of the two half formats; arithmetic happens in float32 and rounds to nearest even.
struct Half {
  uint16_t bits = 0;
  Half() = default;
  Half(float value);
  operator float() const;
};
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  BFloat16(float value);
  operator float() const;
};

constexpr size_t size_of(Dtype d) {
  constexpr size_t bytes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return bytes[size_t(d)];
}
constexpr bool is_floating(Dtype d) { return d >= Dtype::Float16; }
constexpr bool is_half(Dtype d) { return d == Dtype::Float16 || d == Dtype::BFloat16; }
constexpr bool is_integral(Dtype d) { return d > Dtype::Bool && d < Dtype::Float16; }  // bool excluded
constexpr bool is_signed(Dtype d) { return d >= Dtype::Int8; }
// The type in which a row computes: half formats in float32, everything else in itself.
constexpr Dtype compute_dtype(Dtype d) { return is_half(d) ? Dtype::Float32 : d; }

const char* dtype_name(Dtype d);        // "float32"
const char* dtype_short_name(Dtype d);  // "f32"

// LibTorch's promotion of two tensors' types (both with dimensions, or both without).
constexpr Dtype promote(Dtype a, Dtype b) {
  if (a == b) return a;
  const Dtype lo = a < b ? a : b, hi = a < b ? b : a;
  if (lo == Dtype::UInt8 && hi == Dtype::Int8) return Dtype::Int16;
  if (lo == Dtype::Float16 && hi == Dtype::BFloat16) return Dtype::Float32;
  return hi;
}

template <class T> struct DtypeOf;
#define X(name, type, bytes, text) \
  template <> struct DtypeOf<type> { static constexpr Dtype value = Dtype::name; };
FRIT_FOR_EACH_DTYPE(X)
#undef X

// Calls f(T{}) with the storage type of d.
template <class F> decltype(auto) dispatch(Dtype d, F&& f) {
  switch (d) {
#define X(name, type, bytes, text) \
  case Dtype::name: return f(type{});
    FRIT_FOR_EACH_DTYPE(X)
#undef X
  }
  __builtin_unreachable();
}

}  // namespace frit
