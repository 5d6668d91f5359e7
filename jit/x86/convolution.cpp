// The three convolutions as matrix products (tracer/convolution.h): forward and input gradient are weights times windows, [channels, K] x
// [K, places], the latter once for each distance modulo the stride; the weight gradient is windows times gradient, [k, places] x [places,
// channels], image after image. Start at convolution_x86. Parts are computed independently, so no bit depends on the split.
#include "jit/x86/convolution.h"
#include <algorithm>
#include <cstring>
#include <vector>
#include "jit/x86/product_parts.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"

namespace frit::jit {
namespace {
using namespace products;
using tracer::Convolution;
using tracer::Images;

constexpr double serial_work = 4e6;      // flops under which splitting does not pay
constexpr int64_t few_places = 256;      // of an image: images are taken together
constexpr int64_t folded_rows = 4;       // of weights: packing would cost more than the products
constexpr int64_t row_unit = 48, column_unit = 192;  // parts are multiples of every tile
int64_t up(int64_t x, int64_t by) { return (x + by - 1) / by; }

class Memory {  // counted as every tensor's
 public:
  explicit Memory(int64_t bytes) : bytes_(size_t(bytes)), data_(static_cast<char*>(allocate(bytes_))) {}
  ~Memory() { deallocate(data_, bytes_); }
  Memory(const Memory&) = delete;
  char* data() const { return data_; }

 private:
  size_t bytes_;
  char* data_;
};

// The kernel's elements as a place sees them.
struct Elements {
  std::vector<int64_t> row, column;
  void add(int64_t r, int64_t c) { row.push_back(r), column.push_back(c); }
  int64_t count() const { return int64_t(row.size()); }
};
Windows windows_of(const Convolution& c, const Images& from, bool of_input, const Elements& e) {
  Windows w{};
  w.storage = c.dtype, w.from = from.data;
  w.image_step = from.stride[0], w.channel_step = from.stride[1], w.row_step = from.stride[2], w.column_step = from.stride[3];
  w.rows = of_input ? c.axis[0].in : c.axis[0].out, w.columns = of_input ? c.axis[1].in : c.axis[1].out;
  w.place_rows = c.axis[0].out, w.place_columns = c.axis[1].out;
  w.row_stride = of_input ? c.axis[0].stride : 1, w.column_stride = of_input ? c.axis[1].stride : 1;
  w.elements = e.count(), w.element_row = e.row.data(), w.element_column = e.column.data();
  const auto [low_row, high_row] = std::minmax_element(e.row.begin(), e.row.end());
  const auto [low_column, high_column] = std::minmax_element(e.column.begin(), e.column.end());
  w.lowest_row = *low_row, w.highest_row = *high_row, w.lowest_column = *low_column, w.highest_column = *high_column;
  return w;
}
Elements elements_of(const Convolution& c) {
  Elements e;
  for (int64_t r = 0; r < c.axis[0].kernel; r++)
    for (int64_t s = 0; s < c.axis[1].kernel; s++) e.add(r * c.axis[0].dilation - c.axis[0].low, s * c.axis[1].dilation - c.axis[1].low);
  return e;
}

// ---- weights times windows -------------------------------------------------------------------------------------------------------
struct Job {
  Dtype storage;
  int64_t groups, batch, m, k;
  const char* left;         // [groups][m][k]
  Windows windows;          // of image 0, group 0
  int64_t group_step;       // of their source, in elements
  char* out;
  int64_t out_group, out_row;  // steps in elements
  Scattered places;            // where an image's places lie
  bool plain;                  // the matrix is one in memory: each pixel is seen by its own place alone
  Epilogue* then;              // is told the result's blocks; its places are dense

  int64_t size() const { return int64_t(size_of(storage)); }
  int64_t wide() const { return storage == Dtype::Float64 ? 8 : 4; }
  bool dense() const { return places.column_step == 1 && (places.rows == 1 || places.row_step == places.columns); }
};

// Tasks: units of a group and an image (or all images), each cut in parts of rows and columns.
struct Split {
  int64_t units, rows, columns, down, across, grain;
  Split(const Job& j, int64_t units_, int64_t m, int64_t n) : units(units_) {
    const double work = 2.0 * double(m) * double(n) * double(j.k) * double(units);
    const int64_t threads = work < serial_work ? 1 : num_threads();
    const int64_t wanted = threads == 1 ? 1 : std::min<int64_t>(4 * threads, int64_t(work / (serial_work / 4)) + 1);
    columns = up(up(n, std::clamp<int64_t>(up(wanted, units), 1, up(n, column_unit))), column_unit) * column_unit;
    across = up(n, columns);
    rows = up(up(m, std::clamp<int64_t>(up(wanted, units * across), 1, up(m, row_unit))), row_unit) * row_unit;
    down = up(m, rows);
    grain = std::max<int64_t>(1, int64_t(serial_work / 4 / (work / double(units * down * across) + 1)));
  }
  template <class F>
  void run(F f) const {
    parallel_for(units * down * across, grain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; t++) f(t / (down * across), t / across % down * rows, t % across * columns);
    });
  }
};

// Columns are the places of one image after the other.
class OfImages final : public Epilogue {
 public:
  OfImages(const Job& j, int64_t group) : j_(j), group_(group) {}
  void run(int64_t row, int64_t rows, int64_t column, int64_t columns) override {
    const int64_t places = j_.windows.places();
    for (int64_t done = 0; done < columns;) {
      const int64_t image = (column + done) / places, place = (column + done) % places, count = std::min(places - place, columns - done);
      j_.then->run((image * j_.groups + group_) * j_.m + row, rows, place, count);
      done += count;
    }
  }

 private:
  const Job& j_;
  const int64_t group_;
};

void multiply(const Job& j) {
  const bool together = j.batch > 1 && j.windows.places() < few_places;
  const int64_t n = j.windows.places() * (together ? j.batch : 1);
  const Split split(j, j.groups * (together ? 1 : j.batch), j.m, n);
  split.run([&](int64_t unit, int64_t row, int64_t column) {
    const int64_t group = unit % j.groups, image = unit / j.groups;
    Windows w = j.windows;
    w.from += (image * w.image_step + group * j.group_step) * j.size();
    w.joined = together;
    View v{j.storage, std::min(split.rows, j.m - row), std::min(split.columns, n - column), j.k, nullptr, nullptr, nullptr, j.k, 1, 0, 0, j.out_row, 0};
    v.a = j.left + (group * j.m + row) * j.k * j.size();
    v.c = j.out + (group * j.out_group + image * j.places.image_step + row * j.out_row) * j.size();
    v.first = column;
    OfImages of_images(j, group);
    if (j.then) v.then = &of_images, v.then_row = row, v.then_column = image * w.places() + column;
    Scattered places = j.places;
    if (j.dense() && !together) {
      v.c += column * j.size();
      v.c_col = 1;
    } else {
      if (j.dense()) places.rows = 1, places.columns = n / j.batch;
      v.result = &places;
    }
    if (j.plain && !together) {
      v.b = w.from + column * w.column_step * j.size();
      v.b_row = w.channel_step, v.b_col = w.column_step;
    } else {
      v.right = &w;
    }
    multiply_matrices(v);
  });
}

// A few rows of weights: their sums are made straight from the patch.
void fold(const Job& j) {
  const Windows& all = j.windows;
  const int64_t span = all.highest_row - all.lowest_row, channels = j.k / all.elements;
  const int64_t pixels = std::max<int64_t>(1, channels * all.columns * all.row_stride);
  const int64_t rows = std::clamp<int64_t>((int64_t(1) << 14) / pixels - span, std::min<int64_t>(all.place_rows, 4), all.place_rows);  // of places, whose patch stays in L1 or nearly
  const int64_t blocks = up(all.place_rows, rows), units = j.groups * j.batch;
  const double work = 2.0 * double(j.m) * double(all.places()) * double(j.k) * double(units);
  const int64_t grain = std::max<int64_t>(1, int64_t(serial_work / 4 / (work / double(units * blocks) + 1)));
  const size_t patch = up(int64_t(patch_bytes(all, j.k, rows * all.place_columns)), 64) * 64;
  const int64_t run = std::min<int64_t>(all.place_columns * rows, 384);
  parallel_for(units * blocks, grain, [&](int64_t begin, int64_t end) {
    const Scratch scratch(patch + size_t(up(j.m * j.k * j.wide(), 64) * 64) + size_t(j.m * (run + 16)) * size_t(j.wide()));
    char *const left = scratch.data() + patch, *const line = left + up(j.m * j.k * j.wide(), 64) * 64;
    for (int64_t t = begin; t < end; t++) {
      const int64_t unit = t / blocks, group = unit % j.groups, image = unit / j.groups, first = t % blocks * rows * all.place_columns;
      const int64_t count = std::min(rows * all.place_columns, all.places() - first);
      Windows w = all;
      w.from += (image * w.image_step + group * j.group_step) * j.size();
      const WindowPanel panel(w, 0, j.k, first, count, scratch.data());
      pack_strip(j.storage)(left, j.left + group * j.m * j.k * j.size(), j.m * j.k, 1, 1, j.m * j.k, j.m * j.k);
      char* const out = j.out + (group * j.out_group + image * j.places.image_step) * j.size();
      for (int64_t at = 0; at < count; at += run) {
        const int64_t width = std::min(run, count - at);
        if (j.dense() && !is_half(j.storage)) {
          panel.fold(out + (first + at) * j.size(), j.out_row, left, j.m, at, width);
          continue;
        }
        panel.fold(line, run + 16, left, j.m, at, width);
        for (int64_t i = 0; i < width;) {
          const int64_t place = first + at + i, r = place / all.place_columns, c = place % all.place_columns, here = std::min(width - i, all.place_columns - c);
          store_block(j.storage, out + (r * j.places.row_step + c * j.places.column_step) * j.size(), j.out_row, j.places.column_step, line + i * j.wide(), run + 16, j.m, here);
          i += here;
        }
      }
      if (j.then) j.then->run((image * j.groups + group) * j.m, j.m, first, count);
    }
  });
}

void run(const Job& j) {
  if (j.m == 0 || j.batch == 0 || j.windows.places() == 0) return;
  j.m <= folded_rows && j.k <= chunk_depth ? fold(j) : multiply(j);
}

bool is_plain(const Convolution& c, const Images& from) {
  for (const Convolution::Axis& a : c.axis)
    if (a.kernel != 1 || a.stride != 1 || a.low != 0 || a.in != a.out) return false;
  return c.axis[0].in == 1 || from.stride[2] == c.axis[1].in * from.stride[3];
}
void forward(const Convolution& c, const Images& input, const Images& weight, char* out, Epilogue* then) {
  const Elements e = elements_of(c);
  const int64_t outputs = c.groups * c.out_channels;
  const Job j{c.dtype, c.groups, c.batch, c.out_channels, c.in_channels * e.count(), weight.data, windows_of(c, input, true, e), c.in_channels * input.stride[1], out,
        c.out_channels * c.places(), c.places(), {c.axis[0].out, c.axis[1].out, outputs * c.places(), c.axis[1].out, 1}, is_plain(c, input), then};
  run(j);
}

// ---- the input's gradient ------------------------------------------------------------------------------------------------------------
// The kernel's elements of one axis that lie on pixels at this distance modulo the stride, with the places that they lie there from.
struct Meeting {
  int64_t element, place;
};
std::vector<Meeting> meetings(const Convolution::Axis& a, int64_t pixel) {
  std::vector<Meeting> m;
  for (int64_t k = 0; k < a.kernel; k++)
    if (const int64_t from = pixel + a.low - k * a.dilation; from % a.stride == 0) m.push_back({k, from / a.stride});
  return m;
}
template <class T>
void turn_weights(const Convolution& c, const T* weight, T* out, const std::vector<Meeting>& rows, const std::vector<Meeting>& columns) {
  const int64_t elements = c.elements(), kernel_columns = c.axis[1].kernel;
  for (int64_t g = 0; g < c.groups; g++)
    for (int64_t i = 0; i < c.in_channels; i++)
      for (int64_t o = 0; o < c.out_channels; o++) {
        const T* const from = weight + ((g * c.out_channels + o) * c.in_channels + i) * elements;
        for (const Meeting& r : rows)
          for (const Meeting& s : columns) *out++ = from[r.element * kernel_columns + s.element];
      }
}
void input_gradient(const Convolution& c, const Images& gradient, const Images& weight, char* out, Epilogue* then) {
  const int64_t size = int64_t(size_of(c.dtype)), inputs = c.groups * c.in_channels;
  const Convolution::Axis &rows = c.axis[0], &columns = c.axis[1];
  const Memory turned(std::max<int64_t>(1, c.groups * c.out_channels * c.in_channels * c.elements() * size));
  bool all_met = true;
  for (int64_t r = 0; r < std::min(rows.stride, rows.in); r++) all_met = all_met && !meetings(rows, r).empty();
  for (int64_t s = 0; s < std::min(columns.stride, columns.in); s++) all_met = all_met && !meetings(columns, s).empty();
  if (!all_met) std::memset(out, 0, size_t(c.batch * inputs * c.pixels() * size));
  for (int64_t r = 0; r < std::min(rows.stride, rows.in); r++)
    for (int64_t s = 0; s < std::min(columns.stride, columns.in); s++) {
      const std::vector<Meeting> down = meetings(rows, r), across = meetings(columns, s);
      if (down.empty() || across.empty()) continue;
      Elements e;
      for (const Meeting& x : down)
        for (const Meeting& y : across) e.add(x.place, y.place);
      switch (size) {
        case 2: turn_weights(c, reinterpret_cast<const uint16_t*>(weight.data), reinterpret_cast<uint16_t*>(turned.data()), down, across); break;
        case 4: turn_weights(c, reinterpret_cast<const uint32_t*>(weight.data), reinterpret_cast<uint32_t*>(turned.data()), down, across); break;
        default: turn_weights(c, reinterpret_cast<const uint64_t*>(weight.data), reinterpret_cast<uint64_t*>(turned.data()), down, across);
      }
      Windows w = windows_of(c, gradient, false, e);
      w.place_rows = up(rows.in - r, rows.stride), w.place_columns = up(columns.in - s, columns.stride);
      run({c.dtype, c.groups, c.batch, c.in_channels, c.out_channels * e.count(), turned.data(), w, c.out_channels * gradient.stride[1], out + (r * columns.in + s) * size,
           c.in_channels * c.pixels(), c.pixels(), {w.place_rows, w.place_columns, inputs * c.pixels(), rows.stride * columns.in, columns.stride}, is_plain(c, gradient), then});
    }
}

// ---- the weight's gradient -------------------------------------------------------------------------------------------------------------
// Groups of one channel: a register of them side by side (product_channels.cpp).
void channels_gradient(const Convolution& c, const Images& gradient, const Images& input, char* out) {
  const Elements e = elements_of(c);
  const Windows w = windows_of(c, input, true, e);
  const int64_t lanes = c.dtype == Dtype::Float64 ? 4 : 8, size = int64_t(size_of(c.dtype));
  const double work = 2.0 * double(e.count()) * double(c.places()) * double(c.batch) * double(lanes);
  parallel_for(up(c.groups, lanes), std::max<int64_t>(1, int64_t(serial_work / 8 / work)), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      const int64_t group = t * lanes, count = std::min(lanes, c.groups - group);
      products::channel_gradient(w, group, count, c.batch, gradient.data + group * gradient.stride[1] * size, gradient.stride, out + group * e.count() * size);
    }
  });
}
void weight_gradient(const Convolution& c, const Images& gradient, const Images& input, char* out) {
  if (c.in_channels == 1 && c.out_channels == 1 && c.groups > 1) return channels_gradient(c, gradient, input, out);
  const Elements e = elements_of(c);
  const Windows all = windows_of(c, input, true, e);
  const int64_t m = c.in_channels * e.count(), n = c.out_channels, size = int64_t(size_of(c.dtype)), wide = c.dtype == Dtype::Float64 ? 8 : 4;
  const double work = 2.0 * double(m) * double(n) * double(c.places()) * double(c.batch) * double(c.groups);
  const int64_t wanted = work < serial_work ? 1 : num_threads() == 1 ? 1 : 2 * num_threads();
  // A part's sums stay in L2 while the images go by.
  const int64_t n_part = up(std::min<int64_t>(up(n, std::clamp<int64_t>(up(wanted, c.groups * up(m, row_unit)), 1, up(n, row_unit))), 512), row_unit) * row_unit;
  const int64_t m_most = std::max(row_unit, (int64_t(1) << 20) / wide / std::min(n, n_part) / row_unit * row_unit);
  const int64_t m_part = std::min(m_most, up(up(m, std::clamp<int64_t>(up(wanted, c.groups * up(n, n_part)), 1, up(m, row_unit))), row_unit) * row_unit);
  const int64_t down = up(m, m_part), across = up(n, n_part);
  const int64_t step = gradient.stride[c.axis[1].out == 1 ? 2 : 3];  // from place to place
  parallel_for(c.groups * down * across, wanted == 1 ? c.groups * down * across : 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      const int64_t group = t / (down * across), row = t / across % down * m_part, column = t % across * n_part;
      const int64_t rows = std::min(m_part, m - row), columns = std::min(n_part, n - column), c_row = up(columns, 16) * 16;
      const Memory sums(rows * c_row * wide);
      for (int64_t image = 0; image < c.batch; image++) {
        Windows w = all;
        w.from += (image * w.image_step + group * c.in_channels * w.channel_step) * size;
        View v{c.dtype, rows, columns, c.places(), nullptr, nullptr, sums.data(), 0, 1, step, gradient.stride[1], c_row, 1};
        v.b = gradient.data + (image * gradient.stride[0] + (group * n + column) * gradient.stride[1]) * size;
        v.left = &w;
        v.first = row;
        v.accumulate = image > 0;
        v.wide_result = true;
        multiply_matrices(v);
      }
      store_block(c.dtype, out + ((group * n + column) * m + row) * size, 1, m, sums.data(), c_row, rows, columns);
    }
  });
}
}  // namespace

bool tells_blocks(tracer::Op op, const Convolution& c) {
  if (op == tracer::Op::convolution) return c.in_channels * c.elements() > 0;
  return op == tracer::Op::convolution_input && c.axis[0].stride == 1 && c.axis[1].stride == 1 && c.out_channels * c.elements() > 0;
}

void convolution_x86(tracer::Op op, const Convolution& c, const Images& a, const Images& b, void* result, Epilogue* then) {
  char* const out = static_cast<char*>(result);
  const int64_t depth = op == tracer::Op::convolution ? c.in_channels * c.elements() : op == tracer::Op::convolution_input ? c.out_channels * c.elements() : c.batch * c.places();
  const int64_t results = op == tracer::Op::convolution         ? c.batch * c.groups * c.out_channels * c.places()
                          : op == tracer::Op::convolution_input ? c.batch * c.groups * c.in_channels * c.pixels()
                                                                : c.groups * c.out_channels * c.in_channels * c.elements();
  if (results == 0) return;
  if (depth == 0) {
    std::memset(out, 0, size_t(results) * size_of(c.dtype));
    return;
  }
  op == tracer::Op::convolution ? forward(c, a, b, out, then) : op == tracer::Op::convolution_input ? input_gradient(c, a, b, out, then) : weight_gradient(c, a, b, out);
}

}  // namespace frit::jit
