// Pooled maxima: channel by channel; floats a row of places at a time, other types element by element. Start at pool_x86.
#include "jit/x86/pool.h"
#include <algorithm>
#include <climits>
#include <limits>
#include <vector>
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

// ---- floats: eight places at a time --------------------------------------------------------------------------------------------------
// Some rows of a channel are brought to a patch: as floats, with infinities of padding around, and with columns that are a stride apart beside
// each other. There the elements of eight neighbouring windows are eight neighbours.
class Rows {
 public:
  explicit Rows(const Pooling& p)
      : rows_(p.axis[0]), columns_(p.axis[1]), phases_(std::min(columns_.stride, columns_.dilation * (columns_.kernel - 1) + 1)),
        phase_width_((columns_.out - 1) + (columns_.dilation * (columns_.kernel - 1)) / columns_.stride + 1 + 8), row_step_(phases_ * phase_width_), reach_(rows_.dilation * (rows_.kernel - 1)) {
    band_ = std::clamp<int64_t>(((1 << 13) / row_step_ - reach_ - 1) / rows_.stride + 1, 1, rows_.out);
    for (int64_t s = 0; s < columns_.kernel; s++) offset_.push_back(s * columns_.dilation % columns_.stride * phase_width_ + s * columns_.dilation / columns_.stride);
    for (int64_t j = 0; j < columns_.out + 8; j++) {
      const int64_t left = std::min(j, columns_.out - 1) * columns_.stride - columns_.low;
      first_.push_back(int32_t(left + inside_from(columns_, left) * columns_.dilation));
    }
  }
  size_t bytes() const { return size_t(((band_ - 1) * rows_.stride + reach_ + 1) * row_step_ + 16) * sizeof(float); }
  // wide: the elements of a half format, in their computing type.
  template <bool places, class S>
  void plane(const Plane<S>& x, float* patch, std::conditional_t<places, int64_t, float>* out) const {
    for (int64_t i = 0; i < rows_.out; i++) {
      const int64_t top = i * rows_.stride - rows_.low, first = inside_from(rows_, top), last = inside_to(rows_, top);
      if (i % band_ == 0) fill(x, top, std::min(band_, rows_.out - i), patch);
      const int64_t band_top = i / band_ * band_ * rows_.stride - rows_.low;
      one_row<places>(patch + (top - band_top) * row_step_, top, first, last, out + i * columns_.out);
    }
  }

 private:
  template <class S>
  FRIT_AVX2 void fill(const Plane<S>& x, int64_t top, int64_t count, float* patch) const {
    const int64_t rows = (count - 1) * rows_.stride + reach_ + 1, s = columns_.stride;
    for (int64_t r = 0; r < rows; r++, patch += row_step_) {
      if (top + r < 0 || top + r >= rows_.in) continue;
      const S* const from = x.data + (top + r) * x.row_step;
      for (int64_t phase = 0; phase < phases_; phase++) {
        float* const line = patch + phase * phase_width_;
        const int64_t first = phase - columns_.low;  // the pixel of the line's first element
        const int64_t begin = std::min(phase_width_, first < 0 ? (-first + s - 1) / s : 0), end = std::clamp<int64_t>(first < columns_.in ? (columns_.in - first + s - 1) / s : 0, begin, phase_width_);
        std::fill(line, line + begin, -std::numeric_limits<float>::infinity());
        int64_t i = begin;
        if (x.column_step == 1 && s <= 2) {
          for (; i + 8 <= end && first + i * s + 8 * s <= columns_.in; i += 8) {
            const S* const at = from + first + i * s;
            if (s == 1) {
              store(line + i, load(at));
              continue;
            }
            const __m256 even = _mm256_shuffle_ps(load(at), load(at + 8), 0x88);
            store(line + i, _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8)));
          }
        }
        for (; i < end; i++) line[i] = load_one(from + (first + i * s) * x.column_step);
        std::fill(line + end, line + phase_width_, -std::numeric_limits<float>::infinity());
      }
    }
  }
  // NaN is rare: its windows are looked at again, one by one.
  template <bool places>
  FRIT_AVX2 void one_row(const float* top_line, int64_t top, int64_t first, int64_t last, std::conditional_t<places, int64_t, float>* out) const {
    const __m256i lane = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(int(columns_.stride)));
    const __m256i across = _mm256_set1_epi32(int(columns_.dilation));
    const int64_t kernel = columns_.kernel;
    for (int64_t j = 0; j < columns_.out; j += 8) {
      __m256 best = _mm256_set1_ps(-std::numeric_limits<float>::infinity()), unordered = _mm256_setzero_ps();
      const int first_row = int((top + first * rows_.dilation) * columns_.in);
      __m256i best_at = _mm256_add_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first_.data() + j)), _mm256_set1_epi32(first_row));
      for (int64_t r = first; r < last; r++) {
        const float* const line = top_line + r * rows_.dilation * row_step_ + j;
        __m256i at = _mm256_add_epi32(lane, _mm256_set1_epi32(int((top + r * rows_.dilation) * columns_.in + j * columns_.stride - columns_.low)));
        for (int64_t s = 0; s < kernel; s++) {
          const __m256 v = load(line + offset_[size_t(s)]);
          if constexpr (places) {
            best_at = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(best_at), _mm256_castsi256_ps(at), _mm256_cmp_ps(v, best, _CMP_GT_OQ)));
            at = _mm256_add_epi32(at, across);
          }
          best = _mm256_max_ps(v, best);  // the second where they are equal
          unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        }
      }
      const int64_t count = std::min<int64_t>(8, columns_.out - j);
      if (_mm256_movemask_ps(unordered) & ((1 << count) - 1)) {
        for (int64_t l = 0; l < count; l++) out[j + l] = again<places>(top_line, top, first, last, j + l);
        continue;
      }
      if constexpr (!places) {
        if (count == 8) store(out + j, best);
        else store_part(out + j, best, count);
      } else {
        const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(best_at)), high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(best_at, 1));
        long long* const to = reinterpret_cast<long long*>(out + j);
        _mm256_maskstore_epi64(to, mask_of(count), low);
        _mm256_maskstore_epi64(to + 4, mask_of(count - 4), high);
      }
    }
  }
  static FRIT_INLINE_AVX2 __m256i mask_of(int64_t count) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tail_mask(std::clamp<int64_t>(count, 0, 4), 8))); }
  template <bool places>
  std::conditional_t<places, int64_t, float> again(const float* top_line, int64_t top, int64_t first, int64_t last, int64_t j) const {
    float best = 0;
    int64_t at = -1;
    for (int64_t r = first; r < last; r++)
      for (int64_t s = inside_from(columns_, j * columns_.stride - columns_.low); s < inside_to(columns_, j * columns_.stride - columns_.low); s++) {
        const float v = top_line[r * rows_.dilation * row_step_ + offset_[size_t(s)] + j];
        if (at < 0 || (best == best && (v > best || v != v))) best = v, at = (top + r * rows_.dilation) * columns_.in + j * columns_.stride - columns_.low + s * columns_.dilation;
      }
    if constexpr (places) return at;
    else return best;
  }

  const Pooling::Axis &rows_, &columns_;
  const int64_t phases_, phase_width_, row_step_, reach_;
  int64_t band_;  // rows of places whose pixels are a patch
  std::vector<int64_t> offset_;   // of the kernel's columns
  std::vector<int32_t> first_;    // by place: the first column that its window has
};

template <bool places, class T>
void planes(const Pooling& p, const tracer::Images& in, void* out, int64_t begin, int64_t end) {
  const int64_t results = p.axis[0].out * p.axis[1].out;
  const auto plane_of = [&](int64_t k) { return Plane<T>{reinterpret_cast<const T*>(in.data) + k / p.channels * in.stride[0] + k % p.channels * in.stride[1], in.stride[2], in.stride[3]}; };
  constexpr bool half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
  if constexpr (half || std::is_same_v<T, float>) {
    if (p.axis[0].in * p.axis[1].in <= INT_MAX / 2) {
      const Rows rows(p);
      const Scratch scratch(rows.bytes() + (half && !places ? size_t(results) * sizeof(float) : 0));
      float *const patch = reinterpret_cast<float*>(scratch.data()), *const wide = patch + rows.bytes() / sizeof(float);
      for (int64_t k = begin; k < end; k++) {
        if constexpr (places) {
          rows.plane<true>(plane_of(k), patch, static_cast<int64_t*>(out) + k * results);
        } else if constexpr (!half) {
          rows.plane<false>(plane_of(k), patch, static_cast<float*>(out) + k * results);
        } else {
          rows.plane<false>(plane_of(k), patch, wide);
          for (int64_t i = 0; i < results; i++) static_cast<T*>(out)[k * results + i] = T(wide[i]);  // exact: it was one
        }
      }
      return;
    }
  }
  for (int64_t k = begin; k < end; k++)
    for (int64_t i = 0; i < results; i++) {
      auto* const to = static_cast<std::conditional_t<places, int64_t, T>*>(out) + k * results + i;
      if constexpr (places) window<T>(p, plane_of(k), i / p.axis[1].out, i % p.axis[1].out, nullptr, to);
      else window<T>(p, plane_of(k), i / p.axis[1].out, i % p.axis[1].out, to, nullptr);
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
