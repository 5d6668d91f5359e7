// Packing of operand strips, with half formats widened on the way, and rounding of finished blocks of C. Start at
// pack_strip: three ways, by which side of the source is contiguous.
#include "jit/x86/product_simd.h"
#include <algorithm>
#include "runtime/cpu.h"

namespace frit::jit::products {
namespace {

// Rows of the strip are contiguous in the source. A row's last register may hang over into the next row, which is written later.
template <class S>
FRIT_AVX2 void pack_rows(Wide<S>* out, const S* from, int64_t step_k, int64_t depth, int64_t width, int64_t stride) {
  constexpr int L = lanes<Wide<S>>;
  const int64_t whole = width / L * L, rest = width - whole;
  for (int64_t k = 0; k < depth; k++, from += step_k, out += stride) {
    for (int64_t j = 0; j < whole; j += L) store(out + j, load(from + j));
    if (rest) store(out + whole, load_part(from + whole, rest));
  }
}

// Whole registers a row: squares in any order.
template <class S>
FRIT_AVX2 void pack_squares(Wide<S>* out, const S* from, int64_t step_j, int64_t depth, int64_t width, int64_t stride) {
  using T = Wide<S>;
  constexpr int L = lanes<T>;
  for (int64_t j = 0; j < width; j += L)
    for (int64_t k = 0; k < depth; k += L) {
      Register<T> r[L];
      load_square(r, from + j * step_j + k, step_j, width - j, depth - k);
      const int64_t count = std::min<int64_t>(L, depth - k);
      for (int64_t i = 0; i < count; i++) store(out + (k + i) * stride + j, r[i]);
    }
}

// A square of 16. Quarters of lines are put together while they are loaded, so that only transposing 4 x 4 within the quarters
// remains for the one port that shuffles.
FRIT_AVX512 void pack_square_of_16(float* out, const float* from, int64_t step_j, int64_t stride) {
#pragma GCC unroll 4
  for (int q = 0; q < 4; q++) {
    __m512 t[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      const float* p = from + i * step_j + 4 * q;
      t[i] = _mm512_castps128_ps512(_mm_loadu_ps(p));
      t[i] = _mm512_insertf32x4(t[i], _mm_loadu_ps(p + 4 * step_j), 1);
      t[i] = _mm512_insertf32x4(t[i], _mm_loadu_ps(p + 8 * step_j), 2);
      t[i] = _mm512_insertf32x4(t[i], _mm_loadu_ps(p + 12 * step_j), 3);
    }
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(t[0], t[1])), b = _mm512_castps_pd(_mm512_unpackhi_ps(t[0], t[1]));
    const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(t[2], t[3])), d = _mm512_castps_pd(_mm512_unpackhi_ps(t[2], t[3]));
    const __m512d rows[4] = {_mm512_unpacklo_pd(a, c), _mm512_unpackhi_pd(a, c), _mm512_unpacklo_pd(b, d), _mm512_unpackhi_pd(b, d)};
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) _mm512_storeu_ps(out + (4 * q + i) * stride, _mm512_castpd_ps(rows[i]));
  }
}

void pack_large_squares(float* out, const float* from, int64_t step_j, int64_t depth, int64_t width, int64_t stride) {
  const int64_t whole = width & -16, deep = depth & -16;
  for (int64_t j = 0; j < whole; j += 16)
    for (int64_t k = 0; k < deep; k += 16) pack_square_of_16(out + k * stride + j, from + j * step_j + k, step_j, stride);
  if (deep < depth) pack_squares(out + deep * stride, from + deep, step_j, depth - deep, whole, stride);
  if (whole < width) pack_squares(out + whole, from + whole * step_j, step_j, depth, width - whole, stride);
}

// Columns of the strip are contiguous in the source.
template <class S>
FRIT_AVX2 void pack_columns(Wide<S>* out, const S* from, int64_t step_j, int64_t depth, int64_t width, int64_t stride) {
  using T = Wide<S>;
  constexpr int L = lanes<T>;
  if constexpr (std::is_same_v<S, float>)
    if (width >= 16 && stride % L == 0 && uses_avx512()) return pack_large_squares(out, from, step_j, depth, width, stride);
  if (stride % L == 0 || stride < L) return pack_squares(out, from, step_j, depth, width, stride);
  // The last of a row's registers hangs over: whole rows must be written in order.
  constexpr int most = (max_tile_rows + L - 1) / L;
  const int registers = int((width + L - 1) / L);
  for (int64_t k = 0; k < depth; k += L) {
    Register<T> r[most][L];
    for (int g = 0; g < registers; g++) load_square(r[g], from + g * L * step_j + k, step_j, width - g * L, depth - k);
    const int64_t count = std::min<int64_t>(L, depth - k);
    for (int64_t i = 0; i < count; i++)
      for (int g = 0; g < registers; g++) store(out + (k + i) * stride + g * L, r[g][i]);
  }
}

template <class S>
FRIT_AVX2 void pack_strided(Wide<S>* out, const S* from, int64_t step_k, int64_t step_j, int64_t depth, int64_t width, int64_t stride) {
  for (int64_t k = 0; k < depth; k++, from += step_k, out += stride) {
    for (int64_t j = 0; j < width; j++) out[j] = load_one(from + j * step_j);
    for (int64_t j = width; j < stride; j++) out[j] = 0;
  }
}

template <class S>
void pack(char* out_bytes, const char* from_bytes, int64_t step_k, int64_t step_j, int64_t depth, int64_t width, int64_t stride) {
  auto* out = reinterpret_cast<Wide<S>*>(out_bytes);
  auto* from = reinterpret_cast<const S*>(from_bytes);
  if (step_j == 1) return pack_rows(out, from, step_k, depth, width, stride);
  if (step_k == 1) return pack_columns(out, from, step_j, depth, width, stride);
  pack_strided(out, from, step_k, step_j, depth, width, stride);
}

FRIT_INLINE_AVX2 __m128i round_to(const Half*, __m256 x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
FRIT_INLINE_AVX2 __m128i round_to(const BFloat16*, __m256 x) {
  const __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
  const __m256i up = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), _mm256_and_si256(high, _mm256_set1_epi32(1)));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));  // a NaN must not be carried to infinity
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i words = _mm256_blendv_epi8(rounded, quiet, is_nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

template <class S>
FRIT_AVX2 void store_half(S* c, int64_t c_row, int64_t c_col, const float* from, int64_t from_row, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; i++, c += c_row, from += from_row)
    for (int64_t j = 0; j < columns; j += 8) {  // from_row is a multiple of 8: whole registers can be read
      const __m128i x = round_to(c, _mm256_loadu_ps(from + j));
      const int64_t count = std::min<int64_t>(8, columns - j);
      if (c_col == 1 && count == 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(c + j), x);
        continue;
      }
      alignas(16) uint16_t bits[8];
      _mm_store_si128(reinterpret_cast<__m128i*>(bits), x);
      for (int64_t l = 0; l < count; l++) c[(j + l) * c_col].bits = bits[l];
    }
}

// C's columns are contiguous: squares are transposed.
template <class T>
FRIT_AVX2 void store_columns(T* c, int64_t c_col, const T* from, int64_t from_row, int64_t rows, int64_t columns) {
  constexpr int L = lanes<T>;
  for (int64_t i = 0; i < rows; i += L)
    for (int64_t j = 0; j < columns; j += L) {
      const int64_t high = std::min<int64_t>(L, rows - i), wide = std::min<int64_t>(L, columns - j);
      Register<T> r[L];
      load_square(r, from + i * from_row + j, from_row, high, wide);
      for (int64_t l = 0; l < wide; l++) {
        T* const to = c + i + (j + l) * c_col;
        if (high == L)
          store(to, r[l]);
        else
          store_part(to, r[l], high);
      }
    }
}

// As many as fill registers; what stands between them stays.
FRIT_AVX2 int64_t store_every_second(float* c, const float* from, int64_t count) {
  const __m256i mask = _mm256_setr_epi32(-1, 0, -1, 0, -1, 0, -1, 0), low = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3), high = _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7);
  int64_t j = 0;
  for (; j + 8 <= count; j += 8) {
    const __m256 x = load(from + j);
    _mm256_maskstore_ps(c + 2 * j, mask, _mm256_permutevar8x32_ps(x, low));
    _mm256_maskstore_ps(c + 2 * j + 8, mask, _mm256_permutevar8x32_ps(x, high));
  }
  return j;
}

template <class T>
void store_wide(T* c, int64_t c_row, int64_t c_col, const T* from, int64_t from_row, int64_t rows, int64_t columns) {
  if (c_row == 1) return store_columns(c, c_col, from, from_row, rows, columns);
  for (int64_t i = 0; i < rows; i++) {
    int64_t j = 0;
    if constexpr (std::is_same_v<T, float>)
      if (c_col == 2) j = store_every_second(c + i * c_row, from + i * from_row, columns);
    for (; j < columns; j++) c[i * c_row + j * c_col] = from[i * from_row + j];
  }
}

}  // namespace

PackStrip pack_strip(Dtype storage) {
  switch (storage) {
    case Dtype::Float16: return pack<Half>;
    case Dtype::BFloat16: return pack<BFloat16>;
    case Dtype::Float64: return pack<double>;
    default: return pack<float>;
  }
}

void pack_strips(Dtype storage, char* out, const char* from, int64_t step_k, int64_t step_j, int64_t depth, int64_t columns, int64_t strip, int64_t lanes) {
  const PackStrip pack = pack_strip(storage);
  const int64_t size = storage == Dtype::Float64 ? 8 : 4, storage_size = int64_t(size_of(storage)), rows_at_once = step_j == 1 ? pack_rows_at_once : depth;
  for (int64_t k = 0; k < depth; k += rows_at_once)
    for (int64_t j = 0; j < columns; j += strip) {
      const int64_t width = std::min(strip, columns - j), stride = (width + lanes - 1) & -lanes;
      pack(out + (j * depth + k * stride) * size, from + (k * step_k + j * step_j) * storage_size, step_k, step_j, std::min(rows_at_once, depth - k), width, stride);
    }
}

void store_block(Dtype storage, char* c, int64_t c_row, int64_t c_col, const char* from, int64_t from_row, int64_t rows, int64_t columns) {
  const auto* narrow = reinterpret_cast<const float*>(from);
  switch (storage) {
    case Dtype::Float16: return store_half(reinterpret_cast<Half*>(c), c_row, c_col, narrow, from_row, rows, columns);
    case Dtype::BFloat16: return store_half(reinterpret_cast<BFloat16*>(c), c_row, c_col, narrow, from_row, rows, columns);
    case Dtype::Float64: return store_wide(reinterpret_cast<double*>(c), c_row, c_col, reinterpret_cast<const double*>(from), from_row, rows, columns);
    default: return store_wide(reinterpret_cast<float*>(c), c_row, c_col, narrow, from_row, rows, columns);
  }
}

}  // namespace frit::jit::products
