// Elements as words, the form in which scalar functions take and give them (scalar.h): the bits in the element's compute
// type, extended to 64 bits. Memory holds any dtype; a word never is of a half format. number_word makes
// one of a number of the user's.
#pragma once
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include "runtime/dtype.h"
#include "tracer/node.h"

namespace frit::tracer {

// Calls f with a value of the C++ type in which d computes.
template <class F> decltype(auto) dispatch_compute(Dtype d, F&& f) {
  switch (d) {
    case Dtype::Bool: return f(bool{});
    case Dtype::UInt8: return f(uint8_t{});
    case Dtype::Int8: return f(int8_t{});
    case Dtype::Int16: return f(int16_t{});
    case Dtype::Int32: return f(int32_t{});
    case Dtype::Int64: return f(int64_t{});
    case Dtype::Float16:
    case Dtype::BFloat16:
    case Dtype::Float32: return f(float{});
    case Dtype::Float64: return f(double{});
  }
  __builtin_unreachable();
}

// The type in which a storage type computes: half formats widen to float.
template <class M> using ComputeType = std::conditional_t<std::is_same_v<M, Half> || std::is_same_v<M, BFloat16>, float, M>;

template <class T> T word_value(uint64_t w) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(uint32_t(w));
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(w);
  else if constexpr (std::is_same_v<T, bool>) return w != 0;
  else return T(w);
}
template <class T> uint64_t value_word(T v) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(v);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(v);
  else return uint64_t(int64_t(v));
}

// scalar.h's convert.
template <class To, class From> To convert_value(From v) {
  if constexpr (std::is_same_v<To, bool>) return v != From(0);
  else if constexpr (std::is_floating_point_v<To> || !std::is_floating_point_v<From>) return To(v);
  else {
    using Wide = std::conditional_t<(sizeof(To) < 8), int32_t, int64_t>;
    constexpr double limit = sizeof(Wide) == 4 ? 0x1p31 : 0x1p63;
    const double t = std::trunc(double(v));
    return To(t >= -limit && t < limit ? Wide(t) : std::numeric_limits<Wide>::min());
  }
}

uint64_t convert_word(uint64_t w, Dtype from, Dtype to);           // half formats stand for Float32
uint64_t copied_word(uint64_t w, Dtype from, Dtype to);            // what the copy row makes of it: copy_function (op_table.h)
uint64_t number_word(uint64_t argument, Category c, Dtype d);      // a bound number as a word of d's compute type
uint64_t load_word(const void* element, Dtype d);
void store_word(void* element, Dtype d, uint64_t w);               // w: of d's compute type; rounds to a half format

// Many at once: elements base[offset[i]] of type `memory` as words of type `as`; and back, to base[first], base[first + 1] …
void load_words(const void* base, Dtype memory, const int64_t* offset, size_t count, Dtype as, uint64_t* out);
void store_words(void* base, Dtype memory, int64_t first, size_t count, Dtype from, const uint64_t* words);

}  // namespace frit::tracer
