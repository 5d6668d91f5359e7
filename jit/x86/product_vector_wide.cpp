// AVX-512 for a vector times a matrix whose rows are contiguous (product_vector.cpp): several rows of one lane along a block of columns, with
// the lane's sums in L1 or L2 (visit_wide), or a few registers of columns with all eight lanes in registers (columns_wide).
#include <algorithm>
#include <array>
#include <utility>
#include "jit/x86/product_simd.h"

#define FRIT_INLINE_AVX512 inline __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"), always_inline))

namespace frit::jit::products {
namespace {

template <class T>
struct WideOf {
  using Type = __m512;
  using Mask = __mmask16;
};
template <>
struct WideOf<double> {
  using Type = __m512d;
  using Mask = __mmask8;
};
template <class T>
using Zmm = typename WideOf<T>::Type;
template <class T>
using Mask = typename WideOf<T>::Mask;
template <class T>
constexpr int64_t wide_lanes = 64 / int64_t(sizeof(T));

FRIT_INLINE_AVX512 __m512 every(float x) { return _mm512_set1_ps(x); }
FRIT_INLINE_AVX512 __m512d every(double x) { return _mm512_set1_pd(x); }
FRIT_INLINE_AVX512 __m512 fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
FRIT_INLINE_AVX512 __m512d fma(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(a, b, c); }
FRIT_INLINE_AVX512 __m512 add(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
FRIT_INLINE_AVX512 __m512d add(__m512d a, __m512d b) { return _mm512_add_pd(a, b); }
FRIT_INLINE_AVX512 __m512 widened(const Half*, __m256i x) { return _mm512_maskz_cvtph_ps(__mmask16(~0u), x); }
FRIT_INLINE_AVX512 __m512 widened(const BFloat16*, __m256i x) { return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(__mmask16(~0u), _mm512_maskz_cvtepu16_epi32(__mmask16(~0u), x), 16)); }

template <class T>
Mask<T> first_lanes(int64_t count) {
  return count >= wide_lanes<T> ? Mask<T>(~0u) : Mask<T>((1u << count) - 1);
}
// Lanes outside of the mask are neither read nor written, and are zero.
FRIT_INLINE_AVX512 __m512 read(const float* p, __mmask16 m) { return _mm512_maskz_loadu_ps(m, p); }
FRIT_INLINE_AVX512 __m512d read(const double* p, __mmask8 m) { return _mm512_maskz_loadu_pd(m, p); }
template <class S>
  requires(sizeof(S) == 2)
FRIT_INLINE_AVX512 __m512 read(const S* p, __mmask16 m) { return widened(p, _mm256_maskz_loadu_epi16(m, p)); }
FRIT_INLINE_AVX512 __m512 read(const float* p) { return _mm512_loadu_ps(p); }
FRIT_INLINE_AVX512 __m512d read(const double* p) { return _mm512_loadu_pd(p); }
template <class S>
  requires(sizeof(S) == 2)
FRIT_INLINE_AVX512 __m512 read(const S* p) { return widened(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
FRIT_INLINE_AVX512 void write(float* p, __m512 v) { _mm512_storeu_ps(p, v); }
FRIT_INLINE_AVX512 void write(double* p, __m512d v) { _mm512_storeu_pd(p, v); }
FRIT_INLINE_AVX512 void write(float* p, __m512 v, __mmask16 m) { _mm512_mask_storeu_ps(p, m, v); }
FRIT_INLINE_AVX512 void write(double* p, __m512d v, __mmask8 m) { _mm512_mask_storeu_pd(p, m, v); }

constexpr int64_t fetched_ahead = 512;  // bytes

template <class S, int G>
FRIT_AVX512 void visit_rows(Wide<S>* lane, const S* b, int64_t step, const Wide<S>* x, int64_t width, bool first) {
  using T = Wide<S>;
  constexpr int64_t L = wide_lanes<T>;
  Zmm<T> factor[G];
#pragma GCC unroll 12
  for (int g = 0; g < G; g++) factor[g] = every(x[8 * g]);
  int64_t j = 0;
  for (; j + L <= width; j += L) {
    Zmm<T> t = first ? Zmm<T>{} : read(lane + j);
#pragma GCC unroll 12
    for (int g = 0; g < G; g++) {
      _mm_prefetch(reinterpret_cast<const char*>(b + g * step + j) + fetched_ahead, _MM_HINT_T0);
      t = fma(factor[g], read(b + g * step + j), t);
    }
    write(lane + j, t);
  }
  if (j == width) return;
  const Mask<T> m = first_lanes<T>(width - j);
  Zmm<T> t = first ? Zmm<T>{} : read(lane + j, m);
#pragma GCC unroll 12
  for (int g = 0; g < G; g++) t = fma(factor[g], read(b + g * step + j, m), t);
  write(lane + j, t, m);
}

constexpr int lanes_at_once(int vectors) { return vectors <= 3 ? 8 : vectors <= 6 ? 4 : 2; }  // in registers

// Some lanes, from `lane` on, of V registers of columns down one chunk; the last register is masked. out: [lanes][V registers].
template <class S, int V>
FRIT_AVX512 void columns_down(const S* b, int64_t step_k, const Wide<S>* x, int64_t depth, int64_t lane, int64_t columns, Wide<S>* out) {
  using T = Wide<S>;
  constexpr int64_t L = wide_lanes<T>;
  constexpr int N = lanes_at_once(V);
  const Mask<T> m = first_lanes<T>(columns - (V - 1) * L);
  Zmm<T> s[N][V] = {};
  const auto row = [&](Zmm<T>(&sum)[V], const S* from, T factor) __attribute__((always_inline, target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))) {
    const Zmm<T> f = every(factor);
#pragma GCC unroll 12
    for (int v = 0; v < V; v++) sum[v] = fma(f, v == V - 1 ? read(from + v * L, m) : read(from + v * L), sum[v]);
  };
  int64_t k = lane;
  b += lane * step_k;
  for (; k + N <= depth; k += 8, b += 8 * step_k) {
#pragma GCC unroll 8
    for (int l = 0; l < N; l++) row(s[l], b + l * step_k, x[k + l]);
  }
#pragma GCC unroll 8
  for (int l = 0; l < N - 1; l++)
    if (k + l < depth) row(s[l], b + l * step_k, x[k + l]);
#pragma GCC unroll 8
  for (int l = 0; l < N; l++) {
#pragma GCC unroll 12
    for (int v = 0; v < V; v++) write(out + (l * V + v) * L, s[l][v]);
  }
}

}  // namespace

template <class S>
void visit_wide(int64_t rows, Wide<S>* lane, const S* b, int64_t step, const Wide<S>* x, int64_t width, bool first) {
  using Visit = void (*)(Wide<S>*, const S*, int64_t, const Wide<S>*, int64_t, bool);
  static constexpr auto visits = []<int... G>(std::integer_sequence<int, G...>) {
    return std::array<Visit, sizeof...(G)>{visit_rows<S, G + 1>...};
  }(std::make_integer_sequence<int, most_rows_at_once>());
  if (rows)
    visits[size_t(rows - 1)](lane, b, step, x, width, first);
  else if (first)
    std::fill_n(lane, width, Wide<S>(0));
}

template <class T>
FRIT_AVX512 void combine_wide(const T* lane, int64_t pitch, int64_t width, T* out) {
  for (int64_t j = 0; j < width; j += wide_lanes<T>) {
    const Mask<T> m = first_lanes<T>(width - j);
    Zmm<T> s[8];
#pragma GCC unroll 8
    for (int l = 0; l < 8; l++) s[l] = read(lane + l * pitch + j, m);
    write(out + j, add(add(add(s[0], s[4]), add(s[2], s[6])), add(add(s[1], s[5]), add(s[3], s[7]))), m);
  }
}

template <class S>
void columns_wide(const S* b, int64_t step_k, const Wide<S>* x, int64_t depth, int64_t columns, Wide<S>* out) {
  using T = Wide<S>;
  constexpr int64_t L = wide_lanes<T>;
  using Down = void (*)(const S*, int64_t, const T*, int64_t, int64_t, int64_t, T*);
  static constexpr auto downs = []<int... V>(std::integer_sequence<int, V...>) {
    return std::array<Down, sizeof...(V)>{columns_down<S, V + 1>...};
  }(std::make_integer_sequence<int, int(most_wide_columns<T> / L)>());
  alignas(64) T sums[8 * most_wide_columns<T>];
  const int64_t vectors = (columns + L - 1) / L;
  const int at_once = lanes_at_once(int(vectors));
  for (int lane = 0; lane < 8; lane += at_once) downs[size_t(vectors - 1)](b, step_k, x, depth, lane, columns, sums + lane * vectors * L);
  combine_wide(sums, vectors * L, vectors * L, out);
}

#define FRIT_FOR(S)                                                                                                      \
  template void visit_wide(int64_t, Wide<S>*, const S*, int64_t, const Wide<S>*, int64_t, bool);                         \
  template void columns_wide(const S*, int64_t, const Wide<S>*, int64_t, int64_t, Wide<S>*);
FRIT_FOR(float)
FRIT_FOR(double)
FRIT_FOR(Half)
FRIT_FOR(BFloat16)
template void combine_wide(const float*, int64_t, int64_t, float*);
template void combine_wide(const double*, int64_t, int64_t, double*);

}  // namespace frit::jit::products
