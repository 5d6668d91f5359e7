// Products with one row or one column: a matrix M times a vector x, y[j] = sum over k of M(j, k) x[k], by lanes and chunks
// (tracer/product.h). Start at multiply. Three ways: M contiguous along k (the eight lanes are a vector), M contiguous along j
// (vectors run along j, eight accumulators a column), anything else (strips of M are packed first).
#include <algorithm>
#include <cstring>
#include "jit/x86/product_simd.h"
#include "runtime/cpu.h"

namespace frit::jit::products {
namespace {

constexpr int64_t max_levels = 56;  // of the pairwise sum over chunks: more than 2^63 elements have

// Sums `width` values at a time over chunks, pairwise by position: a binary counter of partial sums.
template <class T>
class Pairwise {
 public:
  Pairwise(T* levels, int64_t width) : levels_(levels), width_(width) {}
  T* next() { return levels_ + top_ * width_; }  // where the next chunk's sums are to be written
  void push() {
    top_++;
    for (int64_t c = count_++; c & 1; c >>= 1) merge();
  }
  const T* finish() {
    while (top_ > 1) merge();
    return levels_;
  }

 private:
  void merge() {
    top_--;
    T *to = levels_ + (top_ - 1) * width_, *from = levels_ + top_ * width_;
    for (int64_t i = 0; i < width_; i++) to[i] += from[i];
  }
  T* levels_;
  const int64_t width_;
  int64_t top_ = 0, count_ = 0;
};

// ---- M contiguous along k -------------------------------------------------------------------------------------------------
FRIT_INLINE_AVX2 float combine(const __m256 (&s)[1]) {
  __m128 t = _mm_add_ps(_mm256_castps256_ps128(s[0]), _mm256_extractf128_ps(s[0], 1));
  t = _mm_add_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
FRIT_INLINE_AVX2 double combine(const __m256d (&s)[2]) {
  const __m256d t = _mm256_add_pd(s[0], s[1]);
  const __m128d u = _mm_add_pd(_mm256_castpd256_pd128(t), _mm256_extractf128_pd(t, 1));
  return _mm_cvtsd_f64(_mm_add_sd(u, _mm_unpackhi_pd(u, u)));
}
FRIT_INLINE_AVX2 __m256 choose(__m256 no, __m256 yes, const int32_t* mask) { return _mm256_blendv_ps(no, yes, _mm256_loadu_ps(reinterpret_cast<const float*>(mask))); }
FRIT_INLINE_AVX2 __m256d choose(__m256d no, __m256d yes, const int32_t* mask) {
  return _mm256_blendv_pd(no, yes, _mm256_castps_pd(_mm256_loadu_ps(reinterpret_cast<const float*>(mask))));
}

constexpr int64_t fetched_ahead = 1024;  // bytes: what the processor fetches by itself ends with each page

// The same stretch of `depth` elements of R lines, `a_step` apart, side by side: R independent sets of lanes. They have one x, or each its own,
// `a_step` apart too.
enum class Others { one, each };
template <class S, int R, Others others, bool fetches = false>
FRIT_AVX2 void dot_lines(const S* a, int64_t a_step, const Wide<S>* x, int64_t depth, Wide<S>* out) {
  const int64_t x_step = others == Others::one ? 0 : a_step;
  using T = Wide<S>;
  constexpr int L = lanes<T>, G = 8 / L;
  Register<T> s[R][G] = {};
  int64_t k = 0;
  for (; k + 8 <= depth; k += 8) {
    if constexpr (fetches) {
      if (k % int64_t(64 / sizeof(S)) == 0) {
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) _mm_prefetch(reinterpret_cast<const char*>(a + r * a_step + k) + fetched_ahead, _MM_HINT_T0);
      }
    }
#pragma GCC unroll 2
    for (int g = 0; g < G; g++) {
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) s[r][g] = fma(load(a + r * a_step + k + g * L), load(x + r * x_step + k + g * L), s[r][g]);
    }
  }
  if (k < depth) {
#pragma GCC unroll 2
    for (int g = 0; g < G; g++) {
      const int64_t count = std::clamp<int64_t>(depth - k - g * L, 0, L);
      if (count == 0) continue;
      const int32_t* mask = tail_mask(count, sizeof(T));
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) {  // lanes beyond the end keep their value, even a negative zero
        const S* line = a + r * a_step + k + g * L;
        const T* other = x + r * x_step + k + g * L;
        const Register<T> sum = count == L ? fma(load(line), load(other), s[r][g]) : fma(load_part(line, count), load_part(other, count), s[r][g]);
        s[r][g] = choose(s[r][g], sum, mask);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; r++) out[r] = combine(s[r]);
}

template <class S, int R>
void dot_rows(const S* a, int64_t step_j, const Wide<S>* x, int64_t k, Wide<S>* y) {
  Wide<S> levels[max_levels * R];
  Pairwise<Wide<S>> sum(levels, R);
  for (int64_t c = 0; c < k; c += chunk_depth) {
    const auto part = k >= 4 * chunk_depth ? dot_lines<S, R, Others::one, true> : dot_lines<S, R, Others::one>;
    part(a + c, step_j, x + c, std::min(chunk_depth, k - c), sum.next());
    sum.push();
  }
  std::copy_n(sum.finish(), R, y);
}

// A single row: its chunks are independent, so several are done side by side.
template <class S>
Wide<S> dot_row(const S* a, const Wide<S>* x, int64_t k) {
  constexpr int C = 4;
  Wide<S> levels[max_levels], sums[C];
  Pairwise<Wide<S>> sum(levels, 1);
  int64_t c = 0;
  for (; c + C * chunk_depth <= k; c += C * chunk_depth) {
    dot_lines<S, C, Others::each>(a + c, chunk_depth, x + c, chunk_depth, sums);
    for (int i = 0; i < C; i++) *sum.next() = sums[i], sum.push();
  }
  for (; c < k; c += chunk_depth) {
    dot_lines<S, 1, Others::one>(a + c, 0, x + c, std::min(chunk_depth, k - c), sum.next());
    sum.push();
  }
  return *sum.finish();
}

template <class S>
void rows_times_vector(const S* a, int64_t step_j, const Wide<S>* x, int64_t count, int64_t k, Wide<S>* y) {
  constexpr int R = sizeof(Wide<S>) == 8 ? 4 : 8;
  int64_t j = 0;
  for (; j + R <= count; j += R) dot_rows<S, R>(a + j * step_j, step_j, x, k, y + j);
  if (R > 4 && j + 4 <= count) dot_rows<S, 4>(a + j * step_j, step_j, x, k, y + j), j += 4;
  if (j + 2 <= count && k < 4 * chunk_depth) dot_rows<S, 2>(a + j * step_j, step_j, x, k, y + j), j += 2;
  for (; j < count; j++) y[j] = dot_row(a + j * step_j, x, k);
}

// ---- M contiguous along j ----------------------------------------------------------------------------------------------------
template <class V>
FRIT_INLINE_AVX2 V combine_lanes(const V (&s)[8]) {
  return add(add(add(s[0], s[4]), add(s[2], s[6])), add(add(s[1], s[5]), add(s[3], s[7])));
}

// One register of columns down one chunk, its eight lanes in registers.
template <class S, bool whole>
FRIT_AVX2 void columns_chunk(const S* b, int64_t step_k, const Wide<S>* x, int64_t depth, int64_t columns, Wide<S>* out) {
  using T = Wide<S>;
  Register<T> s[8] = {};
  int64_t k = 0;
  for (; k + 8 <= depth; k += 8, b += 8 * step_k) {
#pragma GCC unroll 8
    for (int l = 0; l < 8; l++) s[l] = fma(broadcast(x[k + l]), whole ? load(b + l * step_k) : load_part(b + l * step_k, columns), s[l]);
  }
#pragma GCC unroll 7
  for (int l = 0; l < 7; l++)
    if (k + l < depth) s[l] = fma(broadcast(x[k + l]), whole ? load(b + l * step_k) : load_part(b + l * step_k, columns), s[l]);
  store(out, combine_lanes(s));
}

// G rows of one lane along a block of columns: long contiguous reads, the lane's accumulators in L1.
template <class S, int G>
FRIT_AVX2 void visit_lane(Wide<S>* lane, const S* b, int64_t step, const Wide<S>* x, int64_t width, bool first) {
  using T = Wide<S>;
  constexpr int L = lanes<T>;
  Register<T> factor[G];
#pragma GCC unroll 8
  for (int g = 0; g < G; g++) factor[g] = broadcast(x[8 * g]);
  int64_t j = 0;
  for (; j + L <= width; j += L) {
    Register<T> t = first ? Register<T>{} : load(lane + j);
#pragma GCC unroll 8
    for (int g = 0; g < G; g++) t = fma(factor[g], load(b + g * step + j), t);
    store(lane + j, t);
  }
  if (j == width) return;
  Register<T> t = first ? Register<T>{} : load(lane + j);
#pragma GCC unroll 8
  for (int g = 0; g < G; g++) t = fma(factor[g], load_part(b + g * step + j, width - j), t);
  store(lane + j, t);
}

template <class S>
void visit(int64_t rows, Wide<S>* lane, const S* b, int64_t step, const Wide<S>* x, int64_t width, bool first) {
  switch (rows) {
    case 0:
      if (first) std::fill_n(lane, (width + 7) / 8 * 8, Wide<S>(0));
      return;
    case 1: return visit_lane<S, 1>(lane, b, step, x, width, first);
    case 2: return visit_lane<S, 2>(lane, b, step, x, width, first);
    case 3: return visit_lane<S, 3>(lane, b, step, x, width, first);
    case 4: return visit_lane<S, 4>(lane, b, step, x, width, first);
    case 5: return visit_lane<S, 5>(lane, b, step, x, width, first);
    case 6: return visit_lane<S, 6>(lane, b, step, x, width, first);
    case 7: return visit_lane<S, 7>(lane, b, step, x, width, first);
    default: return visit_lane<S, 8>(lane, b, step, x, width, first);
  }
}

template <class T>
FRIT_AVX2 void combine_block(const T* lane, int64_t pitch, int64_t width, T* out) {
  for (int64_t j = 0; j < width; j += lanes<T>) {
    Register<T> s[8];
#pragma GCC unroll 8
    for (int l = 0; l < 8; l++) s[l] = load(lane + l * pitch + j);
    store(out + j, combine_lanes(s));
  }
}

// Bytes of columns in a block: eight lanes of them fill 32 KiB, or, with AVX-512, a part of L2 (long rows are read faster).
int64_t block_bytes() {
  static const int64_t wide = cpu_info().l2_bytes >= 1 << 20 ? 16384 : 4096;
  return uses_avx512() ? wide : 4096;
}
int64_t pitch_of(int64_t width) {
  return (width + 15) / 16 * 16 + 16;  // of the lanes: at a power of two they would share the sets of a cache
}

// y[0, width); memory: eight lanes, then the levels of the sum over chunks.
template <class S>
void block_of_columns(const S* b, int64_t step_k, const Wide<S>* x, int64_t width, int64_t k, Wide<S>* memory, Wide<S>* y) {
  using T = Wide<S>;
  const int64_t pitch = pitch_of(width), at_once = uses_avx512() ? most_rows_at_once : 8;
  const auto add_rows = uses_avx512() ? visit_wide<S> : visit<S>;
  Pairwise<T> sum(memory + 8 * pitch, pitch);
  for (int64_t c = 0; c < k; c += chunk_depth) {
    const int64_t end = std::min(k, c + chunk_depth);
    for (int64_t from = c; from < end; from += 8 * at_once)
      for (int64_t l = 0; l < 8; l++) {
        const int64_t row = from + l, rows = std::clamp<int64_t>((end - row + 7) / 8, 0, at_once);
        add_rows(rows, memory + l * pitch, b + row * step_k, 8 * step_k, x + row, width, from == c);
      }
    (uses_avx512() ? combine_wide<T> : combine_block<T>)(memory, pitch, width, sum.next());
    sum.push();
  }
  std::copy_n(sum.finish(), width, y);
}

template <class S>
void few_columns(const S* b, int64_t step_k, const Wide<S>* x, int64_t columns, int64_t k, Wide<S>* y) {
  using T = Wide<S>;
  const bool wide = uses_avx512();
  const int64_t L = wide ? most_wide_columns<T> : lanes<T>;
  T levels[max_levels * most_wide_columns<T>];
  for (int64_t j = 0; j < columns; j += L) {
    Pairwise<T> sum(levels, L);
    const int64_t count = std::min(L, columns - j);
    const auto part = wide ? columns_wide<S> : count == L ? columns_chunk<S, true> : columns_chunk<S, false>;
    for (int64_t c = 0; c < k; c += chunk_depth) {
      part(b + c * step_k + j, step_k, x + c, std::min(chunk_depth, k - c), count, sum.next());
      sum.push();
    }
    std::copy_n(sum.finish(), count, y + j);
  }
}

// ---- anything else ---------------------------------------------------------------------------------------------------------------
template <class S>
void strided(const S* m, int64_t step_j, int64_t step_k, const Wide<S>* x, int64_t count, int64_t k, Wide<S>* memory, Wide<S>* y) {
  using T = Wide<S>;
  constexpr int64_t L = lanes<T>;
  const PackStrip pack = pack_strip(DtypeOf<S>::value);
  T levels[max_levels * L];
  for (int64_t j = 0; j < count; j += L) {
    Pairwise<T> sum(levels, L);
    const int64_t columns = std::min(L, count - j);
    for (int64_t c = 0; c < k; c += chunk_depth) {
      const int64_t depth = std::min(chunk_depth, k - c);
      pack(reinterpret_cast<char*>(memory), reinterpret_cast<const char*>(m + j * step_j + c * step_k), step_k, step_j, depth, columns, L);
      columns_chunk<T, true>(memory, L, x + c, depth, L, sum.next());
      sum.push();
    }
    std::copy_n(sum.finish(), columns, y + j);
  }
}

// The registers' way strides through pages and reads some lines twice: it is for what fits in the caches.
template <class S>
bool fits_few_columns(int64_t count, int64_t k, int64_t step_k) {
  static const int64_t l2 = cpu_info().l2_bytes;
  const int64_t bytes = count * k * int64_t(sizeof(S));
  const bool rows_share_pages = step_k * int64_t(sizeof(S)) <= 4096;
  return count <= 2 * lanes<Wide<S>> || bytes <= 64 << 10 || (uses_avx512() && rows_share_pages && bytes <= l2 / 2);
}

template <class S>
struct Operands {
  const S *matrix, *vector;
  S* y;
  int64_t step_j, step_k, vector_step, y_step, count, k;
};

// Scratch: x widened and contiguous · y before rounding · lanes and levels of a block.
template <class S>
void multiply(const Operands<S>& o, Dtype storage) {
  using T = Wide<S>;
  constexpr bool same = std::is_same_v<S, T>;
  const bool copy_x = !same || (o.vector_step != 1 && o.k > 1), copy_y = !same || (o.y_step != 1 && o.count > 1);
  const bool by_rows = o.step_k == 1 || o.k == 1, by_columns = !by_rows && (o.step_j == 1 || o.count == 1);
  const bool blocks = by_columns && !fits_few_columns<S>(o.count, o.k, o.step_k);
  const int64_t width = block_bytes() / int64_t(sizeof(T));
  int64_t levels = 2;
  while ((chunk_depth << (levels - 2)) < o.k) levels++;
  const int64_t x_room = copy_x ? o.k + 8 : 0, y_room = copy_y ? o.count + 8 : 0;
  const int64_t room = blocks ? (8 + levels) * pitch_of(std::min(o.count, width)) : by_rows || by_columns ? 0 : chunk_depth * lanes<T> + 8;
  const Scratch scratch(size_t(x_room + y_room + room + 16) * sizeof(T) * (x_room + y_room + room > 0));
  T* const memory = reinterpret_cast<T*>(scratch.data());
  const T* x = reinterpret_cast<const T*>(o.vector);
  if (copy_x) {
    pack_strip(storage)(reinterpret_cast<char*>(memory + room), reinterpret_cast<const char*>(o.vector), o.vector_step, o.vector_step, 1, o.k, o.k);
    x = memory + room;
  }
  T* const y = copy_y ? memory + room + x_room : reinterpret_cast<T*>(o.y);
  if (by_rows) {
    rows_times_vector(o.matrix, o.step_j, x, o.count, o.k, y);
  } else if (blocks) {
    for (int64_t j = 0; j < o.count; j += width) block_of_columns(o.matrix + j, o.step_k, x, std::min(width, o.count - j), o.k, memory, y + j);
  } else if (by_columns) {
    few_columns(o.matrix, o.step_k, x, o.count, o.k, y);
  } else {
    strided(o.matrix, o.step_j, o.step_k, x, o.count, o.k, memory, y);
  }
  if (copy_y) store_block(storage, reinterpret_cast<char*>(o.y), 0, o.y_step, reinterpret_cast<const char*>(y), 0, 1, o.count);
}

}  // namespace

void multiply_vector(const View& v) {
  dispatch(v.storage, [&]<class S>(S) {
    if constexpr (is_floating(DtypeOf<S>::value)) {
      const S *a = reinterpret_cast<const S*>(v.a), *b = reinterpret_cast<const S*>(v.b);
      S* c = reinterpret_cast<S*>(v.c);
      if (v.n == 1)
        multiply<S>({a, b, c, v.a_row, v.a_col, v.b_row, v.c_row, v.m, v.k}, v.storage);
      else
        multiply<S>({b, a, c, v.b_col, v.b_row, v.a_col, v.c_col, v.n, v.k}, v.storage);
    }
  });
}

}  // namespace frit::jit::products
