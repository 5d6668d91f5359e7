// Operands that are read through windows: panels of the matrix of a convolution, packed from dense patches of its images, or folded at once
// where so few rows stand on the other side that packing would not pay. Start at WindowPanel's constructor; Windows says what is where.
#include <algorithm>
#include <cstring>
#include <vector>
#include "jit/x86/product_simd.h"

namespace frit::jit::products {
namespace {

constexpr int64_t overhang = 16;  // elements beyond a patch that a register may read
int64_t up(int64_t x, int64_t by) { return (x + by - 1) / by; }

struct Extent {
  int64_t phases, phase_width;
  explicit Extent(const Windows& w) {
    const int64_t span = w.highest_column - w.lowest_column + 1;
    phases = std::min(w.column_stride, span);
    phase_width = up((w.place_columns - 1) * w.column_stride + span, w.column_stride);
  }
};

// `count` pixels of a row, `step` elements apart. May write up to one register past the end; what stands there is written later.
template <class S>
FRIT_AVX2 void widen_row(Wide<S>* out, const S* from, int64_t step, int64_t count) {
  constexpr int L = lanes<Wide<S>>;
  int64_t i = 0;
  if (step == 1) {
    for (; i + L <= count; i += L) store(out + i, load(from + i));
    if (i < count) store(out + i, load_part(from + i, count - i));
    return;
  }
  if constexpr (std::is_same_v<S, float>)
    if (step == 2)
      for (; i + L < count; i += L) {  // another pixel follows: nothing beyond the row is read
        const __m256 even = _mm256_shuffle_ps(load(from + 2 * i), load(from + 2 * i + 8), 0x88);
        store(out + i, _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8)));
      }
  for (; i < count; i++) out[i] = load_one(from + i * step);
}

template <class T, int N, bool parts, class C>
FRIT_AVX2 void copy_rows(T* out, int64_t stride, const T* base, const int64_t* offset, int64_t depth, const C* chunk, int count) {
  int64_t from[N ? N : 1], to[N ? N : 1];
  for (int i = 0; i < N; i++) from[i] = chunk[i].from, to[i] = chunk[i].to;
  for (int64_t k = 0; k < depth; k++, out += stride) {
    const T* const row = base + offset[k];
    if constexpr (N != 0 && !parts) {
#pragma GCC unroll 12
      for (int i = 0; i < N; i++) store(out + to[i], load(row + from[i]));
    } else {
      for (int i = 0; i < count; i++) {
        if (!parts || chunk[i].count == lanes<T>) store(out + chunk[i].to, load(row + chunk[i].from));
        else store(out + chunk[i].to, load_part(row + chunk[i].from, chunk[i].count));
      }
    }
  }
}
template <class T, bool parts, class C>
void copy_chunks(T* out, int64_t stride, const T* base, const int64_t* offset, int64_t depth, const C* chunk, int count) {
  using Copy = void (*)(T*, int64_t, const T*, const int64_t*, int64_t, const C*, int);
  static constexpr Copy fixed[] = {copy_rows<T, 0, parts, C>, copy_rows<T, 1, parts, C>, copy_rows<T, 2, parts, C>, copy_rows<T, 3, parts, C>, copy_rows<T, 4, parts, C>,
                                   copy_rows<T, 5, parts, C>, copy_rows<T, 6, parts, C>, copy_rows<T, 7, parts, C>, copy_rows<T, 8, parts, C>, copy_rows<T, 9, parts, C>,
                                   copy_rows<T, 10, parts, C>};
  fixed[count < 11 ? count : 0](out, stride, base, offset, depth, chunk, count);
}

template <class T>
FRIT_INLINE_AVX2 Register<T> load_some(const T* p, int64_t count, bool parts) {
  return parts && count < lanes<T> ? load_part(p, count) : load(p);
}
// R rows of left times N registers of places.
template <class T, int R, int N, bool parts, class C>
FRIT_AVX2 void fold_tile(T* out, int64_t out_row, const T* left, const T* base, const int64_t* offset, int64_t depth, const C* chunk) {
  Register<T> sum[R][N] = {};
  int64_t from[N];
  for (int i = 0; i < N; i++) from[i] = chunk[i].from;
  for (int64_t first = 0; first < depth; first += panel_depth) {
    Register<T> part[R][N] = {};
    const int64_t end = std::min(depth, first + panel_depth);
    for (int64_t k = first; k < end; k++) {
      const T* const row = base + offset[k];
#pragma GCC unroll 6
      for (int i = 0; i < N; i++) {
        const Register<T> x = load_some(row + from[i], chunk[i].count, parts);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) part[r][i] = fma(broadcast(left[r * depth + k]), x, part[r][i]);
      }
    }
    for (int r = 0; r < R; r++)
      for (int i = 0; i < N; i++) sum[r][i] = first == 0 ? part[r][i] : add(sum[r][i], part[r][i]);
  }
  for (int r = 0; r < R; r++, out += out_row)
    for (int i = 0; i < N; i++) {
      if (chunk[i].count == lanes<T>) store(out + chunk[i].to, sum[r][i]);
      else store_part(out + chunk[i].to, sum[r][i], chunk[i].count);
    }
}
template <class T, int R, bool parts, class C>
void fold_rows(T* out, int64_t out_row, const T* left, const T* base, const int64_t* offset, int64_t depth, const C* chunk, int count) {
  constexpr int most = R == 1 ? 6 : R == 2 ? 5 : 3;
  int i = 0;
  for (; i + most <= count; i += most) fold_tile<T, R, most, parts>(out, out_row, left, base, offset, depth, chunk + i);
  for (; most > 3 && i + 3 <= count; i += 3) fold_tile<T, R, 3, parts>(out, out_row, left, base, offset, depth, chunk + i);
  for (; i < count; i++) fold_tile<T, R, 1, parts>(out, out_row, left, base, offset, depth, chunk + i);
}
template <class T, bool parts, class C>
void fold_chunks(T* out, int64_t out_row, const T* left, int64_t rows, const T* base, const int64_t* offset, int64_t depth, const C* chunk, int count) {
  using Fold = void (*)(T*, int64_t, const T*, const T*, const int64_t*, int64_t, const C*, int);
  static constexpr Fold fixed[] = {fold_rows<T, 1, parts, C>, fold_rows<T, 2, parts, C>, fold_rows<T, 3, parts, C>, fold_rows<T, 4, parts, C>};
  fixed[rows - 1](out, out_row, left, base, offset, depth, chunk, count);
}

}  // namespace

size_t patch_bytes(const Windows& w, int64_t depth, int64_t places) {
  const int64_t channels = depth / w.elements + 2;  // a panel may begin and end within a channel
  const int64_t images = w.joined ? (places - 1) / w.places() + 2 : 1;
  const int64_t rows = images > 1 ? w.place_rows : std::min(w.place_rows, (places - 1) / w.place_columns + 2);
  const Extent e(w);
  const int64_t pixels = ((rows - 1) * w.row_stride + w.highest_row - w.lowest_row + 1) * e.phases * e.phase_width;
  return size_t(images * channels * pixels + overhang) * (w.storage == Dtype::Float64 ? 8 : 4);
}

WindowPanel::WindowPanel(const Windows& w, int64_t k, int64_t depth, int64_t place, int64_t places, char* patch)
    : w_(w), depth_(depth), place_(place), channel_(k / w.elements), channels_((k + depth - 1) / w.elements - channel_ + 1), image_(place / w.places()), images_((place + places - 1) / w.places() - image_ + 1) {
  int64_t last_row = w.place_rows - 1;
  if (images_ == 1) place_row_ = place % w.places() / w.place_columns, last_row = (place + places - 1) % w.places() / w.place_columns;
  row_ = place_row_ * w.row_stride + w.lowest_row;
  row_count_ = (last_row - place_row_) * w.row_stride + w.highest_row - w.lowest_row + 1;
  width_ = (w.place_columns - 1) * w.column_stride + w.highest_column - w.lowest_column + 1;
  in_place_ = !is_half(w.storage) && (w.column_step == 1 || width_ == 1) && w.column_stride == 1 && row_ >= 0 && row_ + row_count_ <= w.rows && w.lowest_column >= 0 && w.lowest_column + width_ <= w.columns;
  line_ = w.place_columns;
  const int64_t size = int64_t(size_of(w.storage));
  if (in_place_) {
    image_step_ = w.image_step, channel_step_ = w.channel_step, row_step_ = w.row_step;
    if (w.row_stride * row_step_ == w.place_columns) line_ = w.places();
    data_ = w.from + (image_ * image_step_ + channel_ * channel_step_ + row_ * row_step_ + w.lowest_column * w.column_step) * size;
  } else {
    const Extent e(w);
    phases_ = e.phases, phase_width_ = e.phase_width;
    row_step_ = phases_ * phase_width_, channel_step_ = row_count_ * row_step_, image_step_ = channels_ * channel_step_;
    data_ = patch;
    switch (w.storage) {
      case Dtype::Float16: fill<Half>(nullptr); break;
      case Dtype::BFloat16: fill<BFloat16>(nullptr); break;
      case Dtype::Float64: fill<double>(nullptr); break;
      default: fill<float>(nullptr);
    }
  }
  int64_t channel = 0, element = k - channel_ * w.elements;
  for (int64_t i = 0; i < depth; i++) {
    const int64_t row = w.element_row[element] - w.lowest_row, column = w.element_column[element] - w.lowest_column;
    offset_[size_t(i)] = channel * channel_step_ + row * row_step_ + (in_place_ ? column : column % w.column_stride * phase_width_ + column / w.column_stride);
    if (++element == w.elements) element = 0, channel++;
  }
}

template <class S>
void WindowPanel::fill(S*) const {
  using T = Wide<S>;
  T* out = reinterpret_cast<T*>(const_cast<char*>(data_));
  std::vector<bool> read(size_t(std::min(w_.row_stride, row_count_)), w_.row_stride == 1);  // rows by their distance modulo the stride
  if (w_.row_stride > 1)
    for (int64_t e = 0; e < w_.elements; e++) read[size_t((w_.element_row[e] - w_.lowest_row) % w_.row_stride)] = true;
  for (int64_t image = 0; image < images_; image++)
    for (int64_t channel = 0; channel < channels_; channel++) {
      const S* const plane = reinterpret_cast<const S*>(w_.from) + (image_ + image) * w_.image_step + (channel_ + channel) * w_.channel_step;
      for (int64_t r = 0; r < row_count_; r++, out += row_step_) {
        if (!read[size_t(r % w_.row_stride)]) continue;
        const bool outside = row_ + r < 0 || row_ + r >= w_.rows;
        for (int64_t phase = 0; phase < phases_; phase++) {
          T* const line = out + phase * phase_width_;
          const int64_t first = w_.lowest_column + phase, s = w_.column_stride;  // the pixel of the line's first place
          const int64_t begin = outside ? phase_width_ : std::clamp<int64_t>(first < 0 ? up(-first, s) : 0, 0, phase_width_);
          const int64_t end = outside ? begin : std::clamp<int64_t>(first < w_.columns ? up(w_.columns - first, s) : 0, begin, phase_width_);
          std::fill(line, line + begin, T(0));
          widen_row(line + begin, plane + (row_ + r) * w_.row_step + (first + begin * s) * w_.column_step, s * w_.column_step, end - begin);
          std::fill(line + end, line + phase_width_, T(0));
        }
      }
    }
  std::fill_n(out, overhang, T(0));
}

int WindowPanel::chunks(int64_t from, int64_t width, int lanes, Chunk* out) const {
  int count = 0;
  const int64_t pitch = w_.row_stride * row_step_;
  int64_t place = place_ + from;
  int64_t image = place / w_.places(), in_image = place % w_.places();
  int64_t row = in_image / w_.place_columns, column = in_image % w_.place_columns, in_line = line_ == w_.place_columns ? column : in_image;
  for (int64_t to = 0; to < width;) {
    const int64_t run = std::min<int64_t>({lanes, width - to, line_ - in_line});
    out[count++] = {(image - image_) * image_step_ + (row - place_row_) * pitch + column, int32_t(to), int32_t(run)};
    to += run, column += run, in_line += run;
    if (in_line == line_) {
      in_line = column = 0;
      if (line_ == w_.place_columns) row++;
      if (line_ != w_.place_columns || row == w_.place_rows) row = 0, image++;
    }
  }
  return count;
}

void WindowPanel::copy(char* out, int64_t stride, int64_t from, int64_t width) const {
  const auto as = [&]<class T>(T* to) {
    Chunk chunk[512];
    const int count = chunks(from, width, lanes<T>, chunk);
    const T* const base = reinterpret_cast<const T*>(data_);
    if (width < stride && stride % lanes<T> == 0) std::memset(to, 0, size_t(stride * depth_) * sizeof(T));
    in_place_ ? copy_chunks<T, true>(to, stride, base, offset_.data(), depth_, chunk, count) : copy_chunks<T, false>(to, stride, base, offset_.data(), depth_, chunk, count);
  };
  w_.storage == Dtype::Float64 ? as(reinterpret_cast<double*>(out)) : as(reinterpret_cast<float*>(out));
}

void WindowPanel::fold(char* out, int64_t out_row, const char* left, int64_t rows, int64_t from, int64_t width) const {
  const auto as = [&]<class T>(T* to) {
    Chunk chunk[512];
    const int count = chunks(from, width, lanes<T>, chunk);
    const T *const base = reinterpret_cast<const T*>(data_), *const a = reinterpret_cast<const T*>(left);
    in_place_ ? fold_chunks<T, true>(to, out_row, a, rows, base, offset_.data(), depth_, chunk, count) : fold_chunks<T, false>(to, out_row, a, rows, base, offset_.data(), depth_, chunk, count);
  };
  w_.storage == Dtype::Float64 ? as(reinterpret_cast<double*>(out)) : as(reinterpret_cast<float*>(out));
}

}  // namespace frit::jit::products
