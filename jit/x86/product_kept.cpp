// A right side that is packed before the product and kept: strips of all of K, one after the other, each as wide as the tiles that read it.
// (A product by itself packs panel by panel, for blocks of columns that depend on its rows.) Start at pack_right.
#include <algorithm>
#include "jit/x86/product_parts.h"
#include "runtime/cpu.h"

namespace frit::jit {
namespace products {
namespace {
constexpr int strip_vectors = 3;

int64_t register_bytes() { return uses_avx512() ? 64 : 32; }
int64_t lanes_of(Dtype storage) { return register_bytes() / (storage == Dtype::Float64 ? 8 : 4); }
int64_t whole_registers(int64_t width, int64_t lanes) { return (width + lanes - 1) / lanes * lanes; }
}  // namespace

const char* kept_strip(const View& v, int64_t column, int64_t depth_from, int64_t width) {
  return v.kept + (column * v.k + depth_from * whole_registers(width, lanes_of(v.storage))) * v.compute_size();
}

Schedule kept_schedule(const View& v) {
  Schedule s;
  const int scale = v.compute_size() / 4;  // blocks are sized in bytes
  s.register_bytes = int(register_bytes());
  s.vectors = strip_vectors;
  s.right = RightMode::Packed;
  const bool widen = is_half(v.storage), wide = s.register_bytes == 64;
  s.rows = wide ? 8 : 4;
  s.left = !widen && v.a_col == 1 ? LeftMode::Rows : !widen && v.a_row == 1 && v.m <= 48 ? LeftMode::Columns : LeftMode::Packed;
  s.block_columns = (wide ? 768 : 384) / scale;
  s.block_rows = s.left == LeftMode::Packed ? 192 / scale : v.m <= 48 ? 48 : wide ? 24 : 48;
  return s;
}
}  // namespace products

using namespace products;

bool gains_from_packed(const Product& p) {
  static const int64_t l2 = std::max<int64_t>(cpu_info().l2_bytes, 512 << 10);
  const int64_t bytes = p.k * p.n * int64_t(size_of(p.dtype));
  if (bytes < 8 << 10 || !packed_right_bytes(p)) return false;
  if (is_half(p.dtype)) return p.m <= 128;                         // it is widened each time
  if (p.b_col == 1) return p.m >= 8 && p.m <= 64 && bytes > l2;    // a stream instead of pieces of rows
  if (bytes > l2 && p.m > 8 && computes_transpose(p)) return false;  // it streams in place as well
  return p.m <= (bytes < 32 << 10 ? 64 : 128);                     // it is turned each time
}

size_t packed_right_bytes(const Product& p) {
  static const bool generates_code = cpu_info().generates_code();
  if (!generates_code || !is_floating(p.dtype) || p.m < 2 || p.n < 2 || p.k < 1 || p.batch < 1 || p.c_col != 1) return 0;
  if (p.b_offset)
    for (int64_t i = 0; i < p.batch; i++)
      if (p.b_offset[i] != 0) return 0;
  const int64_t size = p.dtype == Dtype::Float64 ? 8 : 4, lanes = lanes_of(p.dtype);
  return size_t(whole_registers(p.n, lanes) * p.k * size + register_bytes());
}

void pack_right(const Product& p, const void* b, char* out) {
  const int64_t lanes = lanes_of(p.dtype);
  pack_strips(p.dtype, out, static_cast<const char*>(b), p.b_row, p.b_col, p.k, p.n, strip_vectors * lanes, lanes);
}

}  // namespace frit::jit
