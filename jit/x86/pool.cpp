// Pooled maxima: channel by channel, rows of places eight at a time where whole windows lie inside; element by element at the edges, and for
// types other than floats. Start at pool_x86.
#include "jit/x86/pool.h"
#include <algorithm>
#include <climits>
#include "jit/x86/product_simd.h"
#include "runtime/launch.h"

namespace frit::jit {
namespace {
using namespace products;
using tracer::Pooling;

template <class T>
struct Plane {
  const T* data;
  int64_t row_step, column_step;
};
template <class T> auto computed(T v) {
  if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>) return float(v);
  else return v;
}
int64_t inside_from(const Pooling::Axis& a, int64_t at) { return at < 0 ? (-at + a.dilation - 1) / a.dilation : 0; }
int64_t inside_to(const Pooling::Axis& a, int64_t at) { return at >= a.in ? 0 : std::min(a.kernel, (a.in - at + a.dilation - 1) / a.dilation); }

// One window: its best element and its place.
template <class T>
void window(const Pooling& p, const Plane<T>& x, int64_t i, int64_t j, T* value, int64_t* place) {
  const Pooling::Axis &rows = p.axis[0], &columns = p.axis[1];
  const int64_t top = i * rows.stride - rows.low, left = j * columns.stride - columns.low;
  const int64_t first = inside_from(columns, left), end = inside_to(columns, left);
  bool any = false;
  T best = tracer::lowest_value<T>();
  int64_t at = -1;
  for (int64_t r = inside_from(rows, top), last = inside_to(rows, top); r < last; r++)
    for (int64_t s = first; s < end; s++) {
      const int64_t row = top + r * rows.dilation, column = left + s * columns.dilation;
      const T element = x.data[row * x.row_step + column * x.column_step];
      const auto v = computed(element), b = computed(best);
      if (!any || (b == b && (v > b || v != v))) any = true, best = element, at = row * columns.in + column;
    }
  if (value) *value = best;
  else *place = at;
}

// ---- eight places of a row, whose windows are inside ---------------------------------------------------------------------------------
struct Step {  // from place to place, and how many there are
  int64_t stride, count;
  __m256i first, second;  // masks of the pixels that are read
};
FRIT_INLINE_AVX2 __m256i mask_of(int64_t count, int size) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tail_mask(std::clamp<int64_t>(count, 0, 32 / size), size)));
}
FRIT_AVX2 Step step_of(int64_t stride, int64_t count) {
  const int64_t pixels = (count - 1) * stride + 1;
  return stride > 2 ? Step{stride, count, mask_of(count, 4), mask_of(0, 4)} : Step{stride, count, mask_of(pixels, 4), mask_of(pixels - 8, 4)};
}
FRIT_INLINE_AVX2 __m256 load_places(const float* p, const Step& s) {
  if (s.stride == 1) return _mm256_maskload_ps(p, s.first);
  if (s.stride == 2) {
    const __m256 a = _mm256_maskload_ps(p, s.first), b = _mm256_maskload_ps(p + 8, s.second);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88)), 0xd8));
  }
  alignas(32) float v[8] = {};
  for (int64_t i = 0; i < s.count; i++) v[i] = p[i * s.stride];
  return _mm256_load_ps(v);
}
template <bool places>
FRIT_INLINE_AVX2 void eight(const Pooling& p, const Plane<float>& x, int64_t i, int64_t j, const Step& step, void* out) {
  const Pooling::Axis &rows = p.axis[0], &columns = p.axis[1];
  const int64_t top = i * rows.stride - rows.low, left = j * columns.stride - columns.low;
  const int64_t first = inside_from(rows, top), last = inside_to(rows, top);
  const float* line = x.data + (top + first * rows.dilation) * x.row_step + left;
  __m256i at = _mm256_add_epi32(_mm256_set1_epi32(int((top + first * rows.dilation) * columns.in + left)), _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(int(step.stride))));
  __m256i best_at = at;
  __m256 best = load_places(line, step);
  const __m256i down = _mm256_set1_epi32(int(rows.dilation * columns.in)), across = _mm256_set1_epi32(int(columns.dilation));
  for (int64_t r = first; r < last; r++, line += rows.dilation * x.row_step, at = _mm256_add_epi32(at, down)) {
    __m256i here = at;
    for (int64_t s = 0; s < columns.kernel; s++, here = _mm256_add_epi32(here, across)) {
      const __m256 v = load_places(line + s * columns.dilation, step);
      const __m256 better = _mm256_and_ps(_mm256_cmp_ps(v, best, _CMP_NLE_UQ), _mm256_cmp_ps(best, best, _CMP_ORD_Q));
      best = _mm256_blendv_ps(best, v, better);
      if constexpr (places) best_at = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(best_at), _mm256_castsi256_ps(here), better));
    }
  }
  if constexpr (!places) {
    _mm256_maskstore_ps(static_cast<float*>(out), mask_of(step.count, 4), best);
  } else {
    const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(best_at)), high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(best_at, 1));
    long long* const to = static_cast<long long*>(out);
    _mm256_maskstore_epi64(to, mask_of(step.count, 8), low);
    _mm256_maskstore_epi64(to + 4, mask_of(step.count - 4, 8), high);
  }
}

template <bool places, class T>
FRIT_AVX2 void one_plane(const Pooling& p, const Plane<T>& x, std::conditional_t<places, int64_t, T>* out) {
  const Pooling::Axis &rows = p.axis[0], &columns = p.axis[1];
  // Places whose windows have all of their columns.
  const int64_t reach = columns.dilation * (columns.kernel - 1), begin = std::min(columns.out, (columns.low + columns.stride - 1) / columns.stride);
  const int64_t end = columns.in > reach ? std::clamp((columns.in - 1 - reach + columns.low) / columns.stride + 1, begin, columns.out) : begin;
  const auto each = [&](int64_t i, int64_t from, int64_t to) {
    for (int64_t j = from; j < to; j++) {
      auto* const place = out + i * columns.out + j;
      if constexpr (places) window<T>(p, x, i, j, nullptr, place);
      else window<T>(p, x, i, j, place, nullptr);
    }
  };
  for (int64_t i = 0; i < rows.out; i++) {
    if constexpr (std::is_same_v<T, float>) {
      const int64_t top = i * rows.stride - rows.low;
      if (x.column_step == 1 && rows.in * columns.in <= INT_MAX && inside_from(rows, top) < inside_to(rows, top)) {
        each(i, 0, begin);
        const Step whole = step_of(columns.stride, 8), tail = step_of(columns.stride, std::max<int64_t>(1, (end - begin) % 8));
        int64_t j = begin;
        for (; j + 8 <= end; j += 8) eight<places>(p, x, i, j, whole, out + i * columns.out + j);
        if (j < end) eight<places>(p, x, i, j, tail, out + i * columns.out + j);
        each(i, end, columns.out);
        continue;
      }
    }
    each(i, 0, columns.out);
  }
}

// Half formats and columns that lie apart are brought to floats beside each other first.
template <class S>
FRIT_AVX2 void widen(const Pooling& p, const Plane<S>& x, float* out) {
  for (int64_t r = 0; r < p.axis[0].in; r++, out += p.axis[1].in)
    for (int64_t c = 0; c < p.axis[1].in; c++) out[c] = load_one(x.data + r * x.row_step + c * x.column_step);
}
template <bool places, class T>
void planes(const Pooling& p, const tracer::Images& in, void* out, int64_t begin, int64_t end) {
  constexpr bool half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
  const int64_t pixels = p.axis[0].in * p.axis[1].in, results = p.axis[0].out * p.axis[1].out;
  const bool apart = std::is_same_v<T, float> && in.stride[3] != 1;
  const bool copies = half || apart;
  const Scratch scratch(copies ? size_t(pixels + (places ? 0 : results)) * sizeof(float) : 0);
  float *const plane = reinterpret_cast<float*>(scratch.data()), *const wide = plane + pixels;
  for (int64_t k = begin; k < end; k++) {
    const Plane<T> x{reinterpret_cast<const T*>(in.data) + k / p.channels * in.stride[0] + k % p.channels * in.stride[1], in.stride[2], in.stride[3]};
    auto* const to = static_cast<std::conditional_t<places, int64_t, T>*>(out) + k * results;
    if constexpr (half || std::is_same_v<T, float>)
      if (copies) {
        widen(p, x, plane);
        const Plane<float> copy{plane, p.axis[1].in, 1};
        if constexpr (places || !half) {
          one_plane<places, float>(p, copy, to);
        } else {
          one_plane<false, float>(p, copy, wide);
          for (int64_t i = 0; i < results; i++) to[i] = T(wide[i]);  // exact: it was one
        }
        continue;
      }
    one_plane<places, T>(p, x, to);
  }
}
}  // namespace

void pool_x86(bool places, const Pooling& p, const tracer::Images& in, void* out) {
  const int64_t per_plane = p.axis[0].out * p.axis[1].out * p.axis[0].kernel * p.axis[1].kernel;
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, per_plane));
  dispatch(p.dtype, [&]<class T>(T) {
    parallel_for(p.batch * p.channels, grain, [&](int64_t begin, int64_t end) { places ? planes<true, T>(p, in, out, begin, end) : planes<false, T>(p, in, out, begin, end); });
  });
}

}  // namespace frit::jit
