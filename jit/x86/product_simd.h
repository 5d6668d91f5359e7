// Registers of 256 bits by overloading: loads that widen the storage type, and the few operations that packing and the
// vector products need. Every function asks for AVX2, FMA and F16C itself, since the library is built for any x86-64.
#pragma once
#include <immintrin.h>
#include <cstdint>
#include <type_traits>
#include "jit/x86/product_parts.h"
#include "runtime/dtype.h"

#define FRIT_AVX2 __attribute__((target("avx2,fma,f16c")))
#define FRIT_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define FRIT_INLINE_AVX2 inline __attribute__((target("avx2,fma,f16c"), always_inline))

namespace frit::jit::products {

template <class S>
using Wide = std::conditional_t<std::is_same_v<S, double>, double, float>;  // the computing type of a storage type
template <class T>
struct RegisterOf {
  using Type = __m256;
};
template <>
struct RegisterOf<double> {
  using Type = __m256d;
};
template <class T>
using Register = typename RegisterOf<T>::Type;
template <class T>
constexpr int lanes = 32 / int(sizeof(T));

FRIT_INLINE_AVX2 __m256 widen(const Half*, __m128i x) { return _mm256_cvtph_ps(x); }
FRIT_INLINE_AVX2 __m256 widen(const BFloat16*, __m128i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)); }

FRIT_INLINE_AVX2 __m256 load(const float* p) { return _mm256_loadu_ps(p); }
FRIT_INLINE_AVX2 __m256d load(const double* p) { return _mm256_loadu_pd(p); }
template <class S>
  requires(sizeof(S) == 2)
FRIT_INLINE_AVX2 __m256 load(const S* p) { return widen(p, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }

// The first `count` elements, 0 to all but one, and zeros after them; reads nothing beyond.
FRIT_INLINE_AVX2 __m256 load_part(const float* p, int64_t count) {
  return _mm256_maskload_ps(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tail_mask(count, 4))));
}
FRIT_INLINE_AVX2 __m256d load_part(const double* p, int64_t count) {
  return _mm256_maskload_pd(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tail_mask(count, 8))));
}
template <class S>
  requires(sizeof(S) == 2)
FRIT_INLINE_AVX2 __m256 load_part(const S* p, int64_t count) {
  alignas(16) uint16_t bits[8] = {};
  for (int64_t i = 0; i < count; i++) bits[i] = p[i].bits;
  return widen(p, _mm_load_si128(reinterpret_cast<const __m128i*>(bits)));
}

FRIT_INLINE_AVX2 float load_one(const float* p) { return *p; }
FRIT_INLINE_AVX2 double load_one(const double* p) { return *p; }
template <class S>
  requires(sizeof(S) == 2)
FRIT_INLINE_AVX2 float load_one(const S* p) { return _mm256_cvtss_f32(widen(p, _mm_cvtsi32_si128(p->bits))); }

FRIT_INLINE_AVX2 void store(float* p, __m256 v) { _mm256_storeu_ps(p, v); }
FRIT_INLINE_AVX2 void store(double* p, __m256d v) { _mm256_storeu_pd(p, v); }
FRIT_INLINE_AVX2 void store_part(float* p, __m256 v, int64_t count) {
  _mm256_maskstore_ps(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tail_mask(count, 4))), v);
}
FRIT_INLINE_AVX2 void store_part(double* p, __m256d v, int64_t count) {
  _mm256_maskstore_pd(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tail_mask(count, 8))), v);
}
FRIT_INLINE_AVX2 __m256 add(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
FRIT_INLINE_AVX2 __m256d add(__m256d a, __m256d b) { return _mm256_add_pd(a, b); }
FRIT_INLINE_AVX2 __m256 fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
FRIT_INLINE_AVX2 __m256d fma(__m256d a, __m256d b, __m256d c) { return _mm256_fmadd_pd(a, b, c); }
FRIT_INLINE_AVX2 __m256 broadcast(float x) { return _mm256_set1_ps(x); }
FRIT_INLINE_AVX2 __m256d broadcast(double x) { return _mm256_set1_pd(x); }

// r[i] becomes column i of the square r.
FRIT_INLINE_AVX2 void transpose(__m256 (&r)[8]) {
  __m256 t[8], s[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 2; h++) {
    s[4 * h] = _mm256_shuffle_ps(t[4 * h], t[4 * h + 2], 0x44);
    s[4 * h + 1] = _mm256_shuffle_ps(t[4 * h], t[4 * h + 2], 0xee);
    s[4 * h + 2] = _mm256_shuffle_ps(t[4 * h + 1], t[4 * h + 3], 0x44);
    s[4 * h + 3] = _mm256_shuffle_ps(t[4 * h + 1], t[4 * h + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    r[i] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x31);
  }
}
FRIT_INLINE_AVX2 void transpose(__m256d (&r)[4]) {
  const __m256d t0 = _mm256_unpacklo_pd(r[0], r[1]), t1 = _mm256_unpackhi_pd(r[0], r[1]);
  const __m256d t2 = _mm256_unpacklo_pd(r[2], r[3]), t3 = _mm256_unpackhi_pd(r[2], r[3]);
  r[0] = _mm256_permute2f128_pd(t0, t2, 0x20);
  r[1] = _mm256_permute2f128_pd(t1, t3, 0x20);
  r[2] = _mm256_permute2f128_pd(t0, t2, 0x31);
  r[3] = _mm256_permute2f128_pd(t1, t3, 0x31);
}

// A square of the source, `columns` lines along k of `count` elements each, transposed; missing ones are zero.
template <class S>
FRIT_INLINE_AVX2 void load_square(Register<Wide<S>> (&r)[lanes<Wide<S>>], const S* from, int64_t step_j, int64_t columns, int64_t count) {
  constexpr int L = lanes<Wide<S>>;
  if (columns >= L && count >= L) {
#pragma GCC unroll 8
    for (int j = 0; j < L; j++) r[j] = load(from + j * step_j);
  } else {
    for (int j = 0; j < L; j++) r[j] = j >= columns ? Register<Wide<S>>{} : count >= L ? load(from + j * step_j) : load_part(from + j * step_j, count);
  }
  transpose(r);
}

// AVX-512, in product_vector_wide.cpp. visit_wide: `rows` rows, `step` apart, of one lane are added to its sums (or are the first of them) over
// `width` columns. columns_wide: up to most_wide_columns down one chunk; `out` has whole registers.
constexpr int64_t most_rows_at_once = 12;
template <class T>
constexpr int64_t most_wide_columns = 12 * 64 / int64_t(sizeof(T));
template <class S>
void visit_wide(int64_t rows, Wide<S>* lane, const S* b, int64_t step, const Wide<S>* x, int64_t width, bool first);
template <class S>
void columns_wide(const S* b, int64_t step_k, const Wide<S>* x, int64_t depth, int64_t columns, Wide<S>* out);
template <class T>
FRIT_AVX512 void combine_wide(const T* lane, int64_t pitch, int64_t width, T* out);

}  // namespace frit::jit::products
