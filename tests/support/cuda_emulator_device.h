// CUDA C++ for the host compiler: included in front of generated kernels by the emulator. Defines the keywords, the
// built-in variables and the functions that generated kernels use; what needs other threads goes through Hooks.
#pragma once
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "cuda_emulator_hooks.h"

#define FRIT_EMULATED 1
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("frit_shared")))

static cuda_emulator::Hooks* frit_hooks;
extern "C" __attribute__((visibility("default"))) void frit_set_hooks(cuda_emulator::Hooks* hooks) { frit_hooks = hooks; }
#define threadIdx (frit_hooks->current->thread)
#define blockIdx (frit_hooks->current->block)
#define blockDim (frit_hooks->current->block_extent)
#define gridDim (frit_hooks->current->grid_extent)

inline void __syncthreads(int line = __builtin_LINE()) { frit_hooks->barrier(line); }
template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int distance, int line = __builtin_LINE()) {
  static_assert(sizeof(T) <= cuda_emulator::slot_bytes);
  const unsigned char* slots = frit_hooks->exchange(mask, &value, sizeof value, line);
  T other;
  std::memcpy(&other, slots + cuda_emulator::slot_bytes * (frit_hooks->lane() ^ unsigned(distance)), sizeof other);
  return other;
}

template <class To, class From> inline To frit_bits(From from) {
  To to;
  static_assert(sizeof to == sizeof from);
  std::memcpy(&to, &from, sizeof to);
  return to;
}
inline float __int_as_float(int v) { return frit_bits<float>(v); }
inline int __float_as_int(float v) { return frit_bits<int>(v); }
inline double __longlong_as_double(long long v) { return frit_bits<double>(v); }
inline long long __double_as_longlong(double v) { return frit_bits<long long>(v); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }

// float16 by the definition of its rounding, independent of the host compiler's half type.
inline float emulated_half_to_float(unsigned short bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                    : exponent     ? std::ldexp(float(1024 + fraction), exponent - 25)
                                   : std::ldexp(float(fraction), -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}
inline unsigned short emulated_float_to_half(float value) {
  const unsigned short sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (magnitude != magnitude) return 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < 0x1p-14f) return sign | (unsigned short)std::nearbyint(magnitude * 0x1p24f);
  int exponent;
  const float fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  const int rounded = int(std::nearbyint(fraction * 2048.0f));  // 1024 … 2048; a carry moves into the exponent
  return (unsigned short)(sign | (((exponent + 14) << 10) + rounded - 1024));
}

namespace frit_emulated {
template <class... Arguments, size_t... k>
void call_with(void (*kernel)(Arguments...), void** arguments, std::index_sequence<k...>) {
  kernel(*static_cast<std::remove_reference_t<Arguments>*>(arguments[k])...);
}
template <class... Arguments> void call(void (*kernel)(Arguments...), void** arguments) {
  call_with(kernel, arguments, std::index_sequence_for<Arguments...>());
}
}  // namespace frit_emulated

// Behind a kernel: the entry that the runtime looks up.
#define FRIT_EMULATED_ENTRY(space, kernel)                                                       \
  extern "C" __attribute__((visibility("default"))) void kernel##_entry(void** arguments) {      \
    frit_emulated::call(&space::kernel, arguments);                                              \
  }
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_frit_shared[], __stop_frit_shared[];
extern "C" __attribute__((visibility("default"))) void frit_shared_range(unsigned char** begin, unsigned char** end) {
  *begin = __start_frit_shared, *end = __stop_frit_shared;
}
