// Products of tiles on the matrix product's micro-kernels: few rows and columns, so a strip of B at a time against all of A. Start at multiply.
#include <algorithm>
#include "jit/x86/tiles_parts.h"
#include "runtime/cpu.h"

namespace frit::jit::tiles {

using namespace products;

namespace {
// Tiles as wide as the registers allow; the strips into which B is packed follow from the width of C alone.
struct Form {
  bool zmm = uses_avx512();
  int64_t size, lanes;
  int vectors;
  explicit Form(bool wide, int64_t n) : size(wide ? 8 : 4), lanes((zmm ? 64 : 32) / size), vectors(int(std::clamp<int64_t>((n + lanes - 1) / lanes, 1, zmm ? 4 : 2))) {}
  int64_t strip() const { return vectors * lanes; }
  static int rows(bool zmm, int vectors) {
    constexpr int large[] = {14, 14, 12, 8, 6}, small[] = {12, 12, 6};
    return zmm ? large[vectors] : small[vectors];
  }
};
}  // namespace

void multiply(const TileProduct& p) {
  if (p.m <= 0 || p.n <= 0) return;
  const Form form(p.wide, p.n);
  TileArgs g{};
  TileKey key{};
  key.wide = p.wide, key.zmm = form.zmm;
  key.left = p.a_column == form.size ? LeftMode::Rows : LeftMode::Columns;
  key.right = p.packed ? RightMode::Packed : RightMode::Rows;
  g.a_row = p.a_row, g.a_col = p.a_column, g.b_row = p.b_row, g.c_row = p.c_row;
  for (int64_t k = 0; k == 0 || k < p.k; k += panel_depth) {
    g.k = std::min(panel_depth, p.k - k);
    key.accumulate = p.adds || k > 0;
    for (int64_t j = 0; j < p.n; j += form.strip()) {
      const int64_t width = std::min(form.strip(), p.n - j), tail = width % form.lanes;
      key.vectors = int((width + form.lanes - 1) / form.lanes);
      key.masked = tail != 0;
      g.mask = form.zmm ? mask_bits + tail : tail_mask(tail, int(form.size));
      const int64_t stride = key.vectors * form.lanes;
      g.b = p.packed ? p.b + (j * p.k + k * stride) * form.size : p.b + k * p.b_row + j * form.size;
      g.c = p.c + j * form.size;
      g.a = p.a + k * p.a_column;
      const int64_t full = Form::rows(form.zmm, key.vectors), tiles = (p.m + full - 1) / full, rows = p.m / tiles, more = p.m - rows * tiles;
      for (const auto& [high, count] : {std::pair{rows + 1, more}, std::pair{rows, tiles - more}}) {
        if (count == 0) continue;
        key.rows = int(high);
        g.tiles = count, g.a_step = high * p.a_row;
        tile_kernel(key)(&g);
        g.a += count * g.a_step, g.c += count * high * g.c_row;
      }
    }
  }
}

void pack_right(Dtype storage, char* to, const char* from, int64_t step_k, int64_t step_n, int64_t k, int64_t n) {
  const Form form(storage == Dtype::Float64, n);
  const PackStrip pack = pack_strip(storage);
  for (int64_t j = 0; j < n; j += form.strip()) {
    const int64_t width = std::min(form.strip(), n - j), stride = (width + form.lanes - 1) / form.lanes * form.lanes;
    pack(to + j * k * form.size, from + j * step_n * int64_t(size_of(storage)), step_k, step_n, k, width, stride);
  }
}
size_t packed_right_bytes(bool wide, int64_t k, int64_t n) {
  const Form form(wide, n);
  return size_t((n + form.lanes - 1) / form.lanes * form.lanes * k * form.size) + 64;
}

}  // namespace frit::jit::tiles
