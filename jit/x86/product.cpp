// product_x86: the cases of a product, its batch, and its split over threads. Start at product_x86. Parts of C are computed
// independently by multiply_matrices and multiply_vector, so no bit depends on the split.
#include "jit/x86/product.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include "jit/x86/product_parts.h"
#include "runtime/cpu.h"
#include "runtime/launch.h"

namespace frit::jit {

// C is computed as its transpose when only that makes its rows contiguous, and where A has few rows and B's columns are contiguous (x W^T):
// then B is read in place and A, the smaller one, is packed.
bool products::computes_transpose(const Product& p) {
  if (p.m == 1 || p.n == 1) return false;
  if (p.c_row == 1 && p.c_col != 1) return true;
  if (p.b_row != 1 || p.b_col == 1 || p.a_col != 1 || p.c_col != 1 || !is_floating(p.dtype) || is_half(p.dtype)) return false;
  const int64_t size = int64_t(size_of(p.dtype)), lanes = (uses_avx512() ? 64 : 32) / size;
  const bool lanes_used = p.m <= lanes || p.m * 4 >= (p.m + lanes - 1) / lanes * lanes * 3;
  return p.m <= 4 * lanes && lanes_used && p.n >= 2 * p.m && p.n * p.k * size > 64 << 10;
}

namespace {
using products::View;

constexpr double serial_work = 4e6;  // flops (vector products: bytes) under which splitting does not pay

// ---- integers --------------------------------------------------------------------------------------------------------------
template <class T>
using Sum = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;  // unsigned: the low bits of the sum are the wrapped sum

template <class T>
void multiply_integers(const View& v) {
  const T *a = reinterpret_cast<const T*>(v.a), *b = reinterpret_cast<const T*>(v.b);
  T* c = reinterpret_cast<T*>(v.c);
  constexpr int64_t width = 256;
  for (int64_t i = 0; i < v.m; i++)
    for (int64_t j0 = 0; j0 < v.n; j0 += width) {
      Sum<T> sum[width] = {};
      const int64_t columns = std::min(width, v.n - j0);
      for (int64_t k = 0; k < v.k; k++) {
        const Sum<T> x = Sum<T>(a[i * v.a_row + k * v.a_col]);
        const T* row = b + k * v.b_row + j0 * v.b_col;
        if constexpr (std::is_same_v<T, bool>)
          for (int64_t j = 0; j < columns; j++) sum[j] |= x & Sum<T>(row[j * v.b_col]);
        else if (v.b_col == 1)
          for (int64_t j = 0; j < columns; j++) sum[j] += x * Sum<T>(row[j]);
        else
          for (int64_t j = 0; j < columns; j++) sum[j] += x * Sum<T>(row[j * v.b_col]);
      }
      for (int64_t j = 0; j < columns; j++) c[i * v.c_row + (j0 + j) * v.c_col] = T(sum[j]);
    }
}

void multiply_zero_depth(const View& v) {
  const size_t size = size_of(v.storage);
  for (int64_t i = 0; i < v.m; i++)
    for (int64_t j = 0; j < v.n; j++) std::memset(v.c + (i * v.c_row + j * v.c_col) * int64_t(size), 0, size);
}

// ---- split -------------------------------------------------------------------------------------------------------------------
using Multiply = void (*)(const View&);

Multiply multiply_of(const Product& p) {
  if (p.k == 0) return multiply_zero_depth;
  if (is_floating(p.dtype)) return p.m == 1 || p.n == 1 ? products::multiply_vector : products::multiply_matrices;
  Multiply f = nullptr;
  dispatch(p.dtype, [&]<class T>(T) {
    if constexpr (!is_floating(DtypeOf<T>::value)) f = multiply_integers<T>;
  });
  return f;
}

View whole_view(const Product& p, bool transposed, Epilogue* then, Prologue* before) {
  View v{p.dtype, p.m, p.n, p.k, nullptr, nullptr, nullptr, p.a_row, p.a_col, p.b_row, p.b_col, p.c_row, p.c_col};
  v.then = then, v.before = before, v.turned = transposed;
  if (transposed) {
    std::swap(v.m, v.n);
    v.a_row = p.b_col, v.a_col = p.b_row;
    v.b_row = p.a_col, v.b_col = p.a_row;
    std::swap(v.c_row, v.c_col);
  }
  return v;
}

struct Batch {
  const Product& p;
  View view;
  bool transposed;
  const char *a, *b;
  char* c;
  View operator[](int64_t i) const {
    const auto at = [&](const int64_t* offset) { return (offset ? offset[i] : 0) * int64_t(size_of(p.dtype)); };
    View v = view;
    v.a = a + at(p.a_offset);
    v.b = b + at(p.b_offset);
    v.c = c + at(p.c_offset);
    v.then_row = i * p.m;
    if (transposed) std::swap(v.a, v.b);
    return v;
  }
};

View part_of(const View& v, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const int64_t size = int64_t(size_of(v.storage));
  View part = v;
  part.m = std::min(rows, v.m - row);
  part.n = std::min(columns, v.n - column);
  part.a += row * v.a_row * size;
  part.c += (row * v.c_row + column * v.c_col) * size;
  if (v.kept) part.kept += column * v.k * v.compute_size();  // parts begin at a strip
  else part.b += column * v.b_col * size;
  part.then_row += v.turned ? column : row;
  part.then_column += v.turned ? row : column;
  return part;
}

// A grid of parts, about `wanted` of them, with the least sum of sides: each part reads its rows of A and its columns of B.
struct Grid {
  int64_t rows, columns;  // of a part
  int64_t across, parts;
  Grid(const View& v, int64_t wanted, bool vector) {
    const int64_t row_unit = vector ? 64 : 12, column_unit = vector ? 256 : 48;  // multiples of every tile
    double best = INFINITY;
    rows = v.m, columns = v.n;
    for (int64_t down = 1; down <= wanted; down++) {
      const int64_t beside = (wanted + down - 1) / down;
      const auto side = [](int64_t extent, int64_t count, int64_t unit) { return std::min(extent, (extent / count + unit - 1) / unit * unit); };
      const int64_t r = std::max<int64_t>(1, side(v.m, down, row_unit)), c = std::max<int64_t>(1, side(v.n, beside, column_unit));
      const int64_t count = ((v.m + r - 1) / r) * ((v.n + c - 1) / c);
      const double cost = double(r + c) * double(wanted) / double(std::min(count, wanted));
      if (cost < best) best = cost, rows = r, columns = c;
    }
    across = (v.n + columns - 1) / columns;
    parts = across * ((v.m + rows - 1) / rows);
  }
};

void run(const Batch& batch, int64_t count, Multiply kind) {
  const auto multiply = [kind](const View& part) {
    kind(part);
    if (kind != products::multiply_matrices) part.finished(0, part.m, 0, part.n);  // that says it block by block
  };
  const View& v = batch.view;
  const bool vector = v.m == 1 || v.n == 1;
  const double work = 2.0 * double(v.m) * double(v.n) * double(std::max<int64_t>(v.k, 1));  // about the bytes of a vector product, too
  const int threads = work * double(count) < serial_work ? 1 : num_threads();
  if (threads == 1) {
    for (int64_t i = 0; i < count; i++) multiply(batch[i]);
    return;
  }
  const int64_t enough = std::max<int64_t>(1, int64_t(work * double(count) / (serial_work / 4)));
  const int64_t wanted = std::min<int64_t>(enough, 2 * threads);
  if (count >= wanted) {
    const int64_t grain = std::max<int64_t>(1, int64_t(serial_work / 8 / work));
    parallel_for(count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) multiply(batch[i]);
    });
    return;
  }
  const Grid grid(v, (wanted + count - 1) / count, vector);
  if (v.before && grid.across > 1) {  // several parts read the same rows
    v.before->begin(0, count * v.m);
    Batch after = batch;
    after.view.before = nullptr;
    return run(after, count, kind);
  }
  parallel_for(count * grid.parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      const int64_t part = t % grid.parts;
      multiply(part_of(batch[t / grid.parts], part / grid.across * grid.rows, grid.rows, part % grid.across * grid.columns, grid.columns));
    }
  });
}

// [batch, m, k] x [k, n] with evenly spaced rows is one product of batch * m rows; a single row would change the rule.
bool rows_continue(const Product& p) {
  if (p.batch < 2 || p.b_offset || !p.a_offset || !p.c_offset || (p.m == 1 && p.n != 1)) return false;
  for (int64_t i = 1; i < p.batch; i++)
    if (p.a_offset[i] - p.a_offset[i - 1] != p.m * p.a_row || p.c_offset[i] - p.c_offset[i - 1] != p.m * p.c_row) return false;
  return true;
}

}  // namespace

void product_x86(const Product& p, const void* a, const void* b, void* c, Epilogue* then, Prologue* before, const char* kept) {
  if (p.m <= 0 || p.n <= 0 || p.batch <= 0) return;
  const auto finished = [&] {
    if (then) then->run(0, p.batch * p.m, 0, p.n);
  };
  const double work = 2.0 * double(p.m) * double(p.n) * double(p.k) * double(p.batch);
  const auto all_begins = [&] {
    if (Prologue* const all = std::exchange(before, nullptr)) all->begin(0, p.batch * p.m);
  };
  const bool small = !kept && (work < serial_work || (!then && !before && work < 10 * serial_work && num_threads() == 1));
  if (work < serial_work) all_begins();
  if (small && products::multiply_known(p, a, b, c)) return finished();
  static const bool generates_code = cpu_info().generates_code();
  if (!generates_code) return all_begins(), product_reference(p, a, b, c), finished();
  if (rows_continue(p)) {
    Product one = p;
    one.batch = 1;
    one.m = p.batch * p.m;
    const int64_t size = int64_t(size_of(p.dtype));
    one.a_offset = one.c_offset = nullptr;
    return product_x86(one, static_cast<const char*>(a) + p.a_offset[0] * size, b, static_cast<char*>(c) + p.c_offset[0] * size, then, before, kept);
  }
  const bool transposed = !kept && products::computes_transpose(p);
  const Multiply multiply = multiply_of(p);
  if (transposed || multiply != products::multiply_matrices) all_begins();
  Batch batch{p, whole_view(p, transposed, then, before), transposed, static_cast<const char*>(a), static_cast<const char*>(b), static_cast<char*>(c)};
  batch.view.kept = kept;
  run(batch, p.batch, multiply);
  if (small && multiply == products::multiply_matrices) products::remember(p, batch[0], transposed);
}

}  // namespace frit::jit
