// The weight's gradient where every channel has a kernel of its own: each sum is one chain, so a register holds the sums of neighbouring
// channels, whose pixels and gradients are laid side by side for it, some rows of places at a time. Start at channel_gradient.
#include <algorithm>
#include <cstring>
#include "jit/x86/product_simd.h"

namespace frit::jit::products {
namespace {

constexpr int64_t band_elements = 1 << 14;  // of pixels and gradients together: they stay in L2

// out[i][lane] = channel `lane` of pixel i; the lanes beyond the channels are zero.
template <class S>
FRIT_AVX2 void interleave(Wide<S>* out, const S* from, int64_t channel_step, int64_t column_step, int64_t channels, int64_t count) {
  constexpr int L = lanes<Wide<S>>;
  if (column_step == 1) {
    for (int64_t i = 0; i < count; i += L) {
      Register<Wide<S>> r[L];
      load_square(r, from + i, channel_step, channels, count - i);
      for (int64_t j = 0; j < std::min<int64_t>(L, count - i); j++) store(out + (i + j) * L, r[j]);
    }
    return;
  }
  for (int64_t i = 0; i < count; i++, out += L, from += column_step) {
    if (channel_step == 1) {
      store(out, channels == L ? load(from) : load_part(from, channels));
      continue;
    }
    for (int64_t j = 0; j < L; j++) out[j] = j < channels ? load_one(from + j * channel_step) : Wide<S>(0);
  }
}

// part[e] goes on with `count` places of a row; pixels of neighbouring places are `stride` registers apart.
template <class T, int N>
FRIT_AVX2 void add_places(T* part, const T* gradient, const T* pixels, const int64_t* offset, int64_t stride, int64_t count) {
  constexpr int L = lanes<T>;
  Register<T> sum[N];
  int64_t at[N];
  for (int e = 0; e < N; e++) sum[e] = load(part + e * L), at[e] = offset[e];
  for (int64_t i = 0; i < count; i++, gradient += L, pixels += stride) {
    const Register<T> g = load(gradient);
#pragma GCC unroll 9
    for (int e = 0; e < N; e++) sum[e] = fma(g, load(pixels + at[e]), sum[e]);
  }
  for (int e = 0; e < N; e++) store(part + e * L, sum[e]);
}
template <class T>
void add_row(T* part, const T* gradient, const T* pixels, const int64_t* offset, int64_t elements, int64_t stride, int64_t count) {
  constexpr int L = lanes<T>;
  using Add = void (*)(T*, const T*, const T*, const int64_t*, int64_t, int64_t);
  static constexpr Add fixed[] = {nullptr, add_places<T, 1>, add_places<T, 2>, add_places<T, 3>, add_places<T, 4>, add_places<T, 5>, add_places<T, 6>, add_places<T, 7>, add_places<T, 8>, add_places<T, 9>};
  for (int64_t e = 0; e < elements; e += 9) fixed[std::min<int64_t>(9, elements - e)](part + e * L, gradient, pixels, offset + e, stride, count);
}
// A panel is complete.
template <class T>
FRIT_AVX2 void end_panel(T* sum, T* part, int64_t elements, bool first) {
  constexpr int L = lanes<T>;
  for (int64_t e = 0; e < elements * L; e += L) {
    store(sum + e, first ? load(part + e) : add(load(sum + e), load(part + e)));
    store(part + e, Register<T>{});
  }
}

template <class S>
struct Channels {
  using T = Wide<S>;
  static constexpr int L = lanes<T>;
  const Windows& w;
  int64_t channel, channels;
  const S* gradient;
  const int64_t* stride;
  const int64_t span = w.highest_row - w.lowest_row + 1;
  const int64_t width = (w.place_columns - 1) * w.column_stride + w.highest_column - w.lowest_column + 1;
  const int64_t rows = std::clamp<int64_t>((band_elements / L / width - span) / w.row_stride + 1, 1, w.place_rows);  // of places, at once
  const int64_t pixel_rows = (rows - 1) * w.row_stride + span;

  void fill(T* pixels, int64_t image, int64_t first, int64_t count) const {
    const S* const from = reinterpret_cast<const S*>(w.from) + image * w.image_step + channel * w.channel_step;
    const int64_t begin = std::clamp<int64_t>(-w.lowest_column, 0, width), end = std::clamp(w.columns - w.lowest_column, begin, width);
    for (int64_t r = 0; r < count; r++, pixels += width * L) {
      const int64_t row = first + r;
      if (row < 0 || row >= w.rows) {
        std::fill_n(pixels, width * L, T(0));
        continue;
      }
      std::fill_n(pixels, begin * L, T(0));
      interleave(pixels + begin * L, from + row * w.row_step + (w.lowest_column + begin) * w.column_step, w.channel_step, w.column_step, channels, end - begin);
      std::fill_n(pixels + end * L, (width - end) * L, T(0));
    }
  }
  void run(int64_t images, S* out) const {
    const int64_t elements = w.elements, columns = w.place_columns;
    const Scratch scratch(size_t((pixel_rows * width + rows * columns + 2 * elements) * L) * sizeof(T) + size_t(elements) * sizeof(int64_t));
    T *const pixels = reinterpret_cast<T*>(scratch.data()), *const given = pixels + pixel_rows * width * L, *const sum = given + rows * columns * L, *const part = sum + elements * L;
    int64_t* const offset = reinterpret_cast<int64_t*>(part + elements * L);
    for (int64_t e = 0; e < elements; e++) offset[e] = ((w.element_row[e] - w.lowest_row) * width + w.element_column[e] - w.lowest_column) * L;
    std::fill_n(part, elements * L, T(0));
    bool begun = false;
    for (int64_t image = 0; image < images; image++) {
      int64_t depth = 0;  // of the panel
      for (int64_t row = 0; row < w.place_rows; row++) {
        if (row % rows == 0) {
          const int64_t here = std::min(rows, w.place_rows - row);
          fill(pixels, image, row * w.row_stride + w.lowest_row, (here - 1) * w.row_stride + span);
          for (int64_t r = 0; r < here; r++) interleave(given + r * columns * L, gradient + image * stride[0] + (row + r) * stride[2], stride[1], stride[3], channels, columns);
        }
        for (int64_t column = 0; column < columns;) {
          const int64_t count = std::min(columns - column, panel_depth - depth);
          add_row(part, given + (row % rows * columns + column) * L, pixels + (row % rows * w.row_stride * width + column * w.column_stride) * L, offset, elements, w.column_stride * L, count);
          column += count, depth += count;
          if (depth == panel_depth) end_panel(sum, part, elements, !begun), begun = true, depth = 0;
        }
      }
      if (depth) end_panel(sum, part, elements, !begun), begun = true;
    }
    for (int64_t j = 0; j < channels; j++)
      for (int64_t e = 0; e < elements; e++) out[j * elements + e] = S(sum[e * L + j]);
  }
};
}  // namespace

void channel_gradient(const Windows& w, int64_t channel, int64_t channels, int64_t images, const char* gradient, const int64_t* stride, char* out) {
  const auto as = [&]<class S>(S*) { Channels<S>{w, channel, channels, reinterpret_cast<const S*>(gradient), stride}.run(images, reinterpret_cast<S*>(out)); };
  switch (w.storage) {
    case Dtype::Float16: return as(static_cast<Half*>(nullptr));
    case Dtype::BFloat16: return as(static_cast<BFloat16*>(nullptr));
    case Dtype::Float64: return as(static_cast<double*>(nullptr));
    default: return as(static_cast<float*>(nullptr));
  }
}

}  // namespace frit::jit::products
