// The matrix driver: blocks of C, K panels and packing around the micro-kernels. Start at multiply_matrices. choose_schedule
// (product_schedule.cpp) maps a shape to a Schedule; no bit of the result depends on it. Driver walks the blocks, and lists its calls for
// whoever asks (product_direct.cpp).
#include <algorithm>
#include <bit>
#include "jit/x86/product_parts.h"

namespace frit::jit::products {
namespace {

constexpr int pack_overhang = 32;                       // bytes that packing may write past a strip
constexpr int64_t kept_result_bytes = int64_t(1) << 20;  // of a block of C that is stored elsewhere later

int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

// Rows of a block as runs of equal tiles: full ones, then a tail balanced so that no tile is thin; or all nearly even.
struct RowTiles {
  struct Run {
    int rows;
    int64_t count;
  } run[4];
  int runs = 0;
  void put(int64_t rows, int64_t count) {
    if (rows > 0 && count > 0) run[runs++] = {int(rows), count};
  }
  RowTiles(int64_t m, int full, bool even) {
    if (even) {
      const int64_t tiles = (uint32_t(m) + uint32_t(full) - 1) / uint32_t(full), rows = uint32_t(m) / uint32_t(tiles), more = m - rows * tiles;
      put(rows + 1, more), put(rows, tiles - more);
      return;
    }
    const int64_t q = uint32_t(m) / uint32_t(full), r = m - q * full;  // a block has few rows
    if (r == 0) {
      put(full, q);
    } else if (full == 6 && r == 1 && q >= 2) {
      put(6, q - 2), put(5, 1), put(4, 2);
    } else if (q >= 1 && r < full - 1) {
      const int64_t last = full + r, half = (last + 1) / 2;
      put(full, q - 1);
      half * 2 == last ? put(half, 2) : (put(half, 1), put(last - half, 1));
    } else {
      put(full, q), put(r, 1);
    }
  }
};

class Driver {
 public:
  explicit Driver(const View& view)
      : v(view),
        s(view.kept ? kept_schedule(view) : choose_schedule(view)),
        size(view.compute_size()),
        storage_size(int64_t(size_of(view.storage))),
        lanes(s.register_bytes / size),
        strip(s.vectors * lanes),
        pack(pack_strip(view.storage)),
        direct(view.c_col == 1 && !view.result && (!is_half(view.storage) || view.wide_result)),
        c_size(view.wide_result ? size : storage_size) {
    if (view.left) s.left = LeftMode::Rows;
    if (view.right) s.right = RightMode::Packed;
    if (packs_nothing()) return;
    const int64_t panels = (v.k + panel_depth - 1) / panel_depth, depth = std::min(v.k, panel_depth);
    columns_kept = std::min(s.block_columns, round_up(view.n, strip));
    if (!direct) s.all_panels = true;
    if (!direct && view.right) {  // all rows of C's block are kept instead: no panel is packed twice
      s.all_panels = false;
      columns_kept = s.block_columns = std::clamp(kept_result_bytes / (view.m * size) / strip * strip, strip, columns_kept);
    }
    keep_right = !s.all_panels || panels * depth * columns_kept * size <= kept_right_bytes;
    if (s.left == LeftMode::Packed) left_bytes = round_up(std::min(s.block_rows, v.m) * (depth * size + pack_overhang) + pack_overhang, 64);
    if (s.right != RightMode::Rows && !view.kept) right_bytes = round_up(columns_kept * depth * size * (s.all_panels && keep_right ? panels : 1), 64) + 64;
    if (!direct) c_bytes = round_up((view.right ? v.m : std::min(s.block_rows, v.m)) * columns_kept * size, 64);
    if (view.left) {
      left_stride = (depth + 7) / 8 * 8 + 8;  // rows of a power of two would share the sets of a cache
      left_bytes = round_up((std::min(s.block_rows, v.m) * left_stride + 16) * size, 64);
      window_bytes = int64_t(patch_bytes(*view.left, std::min(s.block_rows, v.m), depth));
    }
    if (view.right) window_bytes = int64_t(patch_bytes(*view.right, depth, columns_kept));
  }
  void run();
  bool packs_nothing() const { return direct && !v.left && s.left != LeftMode::Packed && s.right == RightMode::Rows; }
  void list_to(TileCalls* calls) { list = calls; }

 private:
  struct Block {  // rows x columns of C for one K panel
    int64_t row, rows, column, columns, depth_from, depth;
    char* right;  // packed B of this panel
    bool fresh;   // it is not packed yet
    char* c;
    int64_t c_row;  // bytes
  };
  void panel_by_panel(int64_t column, int64_t columns);
  void block_by_block(int64_t column, int64_t columns);
  void block(const Block& b);
  void strip_of_tiles(const Block& b, const RowTiles& tiles, int64_t j, int64_t width, TileArgs& g);
  void pack_left(const Block& b, const RowTiles& tiles);
  void pack_right(const Block& b);
  void pack_right_windows(const Block& b);
  void store_result(int64_t row, int64_t rows, int64_t column, int64_t columns);
  const char* left_at(int64_t i, int64_t k) const { return v.a + (i * v.a_row + k * v.a_col) * storage_size; }
  const char* right_at(int64_t k, int64_t j) const { return v.b + (k * v.b_row + j * v.b_col) * storage_size; }
  char* c_at(int64_t i, int64_t j) const { return v.c + (i * v.c_row + j * v.c_col) * c_size; }

  const View& v;
  Schedule s;
  const int size;
  const int64_t storage_size, lanes, strip;
  const PackStrip pack;
  const bool direct;  // the kernels write C itself
  const int64_t c_size;
  bool keep_right = true;
  TileCalls* list = nullptr;  // the calls are noted there, and not made
  int64_t columns_kept = 0, left_bytes = 0, right_bytes = 0, c_bytes = 0, window_bytes = 0, left_stride = 0;
  char *left = nullptr, *right = nullptr, *c_block = nullptr, *patch = nullptr;
};

void Driver::run() {
  const Scratch scratch(size_t(left_bytes + right_bytes + c_bytes + window_bytes));
  left = scratch.data();
  right = left + left_bytes;
  c_block = right + right_bytes;
  patch = c_block + c_bytes;
  for (int64_t column = 0; column < v.n; column += s.block_columns) {
    const int64_t columns = std::min(s.block_columns, v.n - column);
    s.all_panels ? block_by_block(column, columns) : panel_by_panel(column, columns);
  }
}

void Driver::panel_by_panel(int64_t column, int64_t columns) {
  for (int64_t k = 0; k < v.k; k += panel_depth) {
    Block b{0, 0, column, columns, k, std::min(panel_depth, v.k - k), right, true, nullptr, direct ? v.c_row * c_size : columns_kept * size};
    if (s.right == RightMode::Packed) pack_right(b);
    for (; b.row < v.m; b.row += s.block_rows, b.fresh = false) {
      b.rows = std::min(s.block_rows, v.m - b.row);
      b.c = direct ? c_at(b.row, column) : c_block + b.row * b.c_row;
      block(b);
      if (direct && !list && k + panel_depth >= v.k) v.finished(b.row, b.rows, column, columns);
    }
  }
  if (direct) return;
  store_result(0, v.m, column, columns);
  v.finished(0, v.m, column, columns);
}

void Driver::block_by_block(int64_t column, int64_t columns) {
  const int64_t padded = round_up(columns, strip);
  for (int64_t row = 0; row < v.m; row += s.block_rows) {
    Block b{row, std::min(s.block_rows, v.m - row), column, columns, 0, 0, nullptr, row == 0 || !keep_right, nullptr, 0};
    b.c = direct ? c_at(row, column) : c_block;
    b.c_row = direct ? v.c_row * c_size : columns_kept * size;
    for (int64_t k = 0; k < v.k; k += panel_depth) {
      b.depth_from = k;
      b.depth = std::min(panel_depth, v.k - k);
      b.right = keep_right && s.right != RightMode::Rows ? right + padded * k * size : right;
      if (s.right == RightMode::Packed && b.fresh) pack_right(b);
      block(b);
    }
    if (!direct) store_result(row, b.rows, column, columns);
    if (!list) v.finished(row, b.rows, column, columns);
  }
}

void Driver::store_result(int64_t row, int64_t rows, int64_t column, int64_t columns) {
  if (!v.result) return store_block(v.storage, c_at(row, column), v.c_row, v.c_col, c_block, columns_kept, rows, columns);
  const Scattered& r = *v.result;
  int64_t line = (v.first + column) / r.columns, at = (v.first + column) % r.columns;
  for (int64_t j = 0; j < columns; line++, at = 0) {
    const int64_t run = std::min(r.columns - at, columns - j);
    char* const c = v.c + (row * v.c_row + line / r.rows * r.image_step + line % r.rows * r.row_step + at * r.column_step) * storage_size;
    store_block(v.storage, c, v.c_row, r.column_step, c_block + j * size, columns_kept, rows, run);
    j += run;
  }
}

void Driver::pack_right_windows(const Block& b) {
  const WindowPanel panel(*v.right, b.depth_from, b.depth, v.first + b.column, b.columns, patch);
  for (int64_t j = 0; j < b.columns; j += strip) {
    const int64_t width = std::min(strip, b.columns - j);
    panel.copy(b.right + j * b.depth * size, (width + lanes - 1) & -lanes, j, width);
  }
}

void Driver::pack_right(const Block& b) {
  if (v.kept) return;
  if (v.right) return pack_right_windows(b);
  pack_strips(v.storage, b.right, right_at(b.depth_from, b.column), v.b_row, v.b_col, b.depth, b.columns, strip, lanes);
}

// A tile's strip is followed by a gap of one register, since packing may write past its end.
void Driver::pack_left(const Block& b, const RowTiles& tiles) {
  const int64_t rows_at_once = v.a_row == 1 ? pack_rows_at_once : b.depth;
  for (int64_t k = 0; k < b.depth; k += rows_at_once) {
    char* out = left;
    int64_t i = b.row;
    for (int t = 0; t < tiles.runs; t++) {
      const int rows = tiles.run[t].rows;
      for (int64_t n = 0; n < tiles.run[t].count; n++, i += rows) {
        pack(out + k * rows * size, left_at(i, b.depth_from + k), v.a_col, v.a_row, std::min(rows_at_once, b.depth - k), rows, rows);
        out += rows * b.depth * size + pack_overhang;
      }
    }
  }
}

void Driver::block(const Block& b) {
  if (b.column == 0 && b.depth_from == 0 && !list) v.begins(b.row, b.rows);
  const RowTiles tiles(b.rows, s.rows, s.register_bytes == 64);
  if (s.left == LeftMode::Packed) pack_left(b, tiles);
  if (v.left) WindowPanel(*v.left, v.first + b.row, b.rows, b.depth_from, b.depth, patch).copy(left, left_stride, 0, b.depth);
  TileArgs g{};
  g.k = b.depth;
  g.a_row = v.left ? left_stride * size : v.a_row * storage_size;
  g.a_col = v.a_col * storage_size;
  g.b_row = v.b_row * storage_size;
  g.c_row = b.c_row;
  for (int64_t j = 0, width; j < b.columns; j += g.strips * width) {
    width = std::min(strip, b.columns - j);
    g.strips = s.along_rows && width == strip ? (b.columns - j) / strip : 1;  // the kernel walks them
    strip_of_tiles(b, tiles, j, width, g);
  }
}

// One strip of B against all row tiles of the block. A fresh strip is packed by the first tile; the next four tiles, whose quarter
// of K each is enough, prefetch the strip to the right. One that was packed before the product is read by the first tile as if it lay in place, since
// that prefetches; the next four do as above.
void Driver::strip_of_tiles(const Block& b, const RowTiles& tiles, int64_t j, int64_t width, TileArgs& g) {
  const bool packing = s.right == RightMode::PackOnUse && b.fresh;
  const char* const in_place = v.kept ? nullptr : right_at(b.depth_from, b.column + j);
  const char* const packed = v.kept ? kept_strip(v, b.column + j, b.depth_from, width) : s.right == RightMode::Rows ? nullptr : b.right + j * b.depth * size;
  const int64_t tail = width & (lanes - 1);
  const int vectors = int((width + lanes - 1) >> std::countr_zero(uint64_t(lanes)));
  TileKey key{size == 8, s.register_bytes == 64, 1, vectors, s.left, s.right, b.depth_from > 0 || v.accumulate, tail != 0, false};
  g.mask = s.register_bytes == 64 ? mask_bits + tail : tail_mask(tail, size);
  g.c = b.c + j * size;
  g.a = s.left == LeftMode::Packed || v.left ? left : left_at(b.row, b.depth_from);
  g.packed = const_cast<char*>(packed);  // written where it is packed on use
  if (v.kept) g.b_row = vectors * s.register_bytes;
  g.next = v.kept ? packed + b.depth * g.b_row : in_place + width * size;
  const auto call = [&](RightMode mode, bool prefetch, int64_t count) {
    key.right = mode;
    key.prefetch = prefetch;
    g.b = mode == RightMode::Packed || v.kept ? packed : in_place;
    g.tiles = count;
    const TileKernel kernel = tile_kernel(key);
    if (!list)
      kernel(&g);
    else if (list->count++ < list->most)
      list->calls[list->count - 1] = {kernel, g, g.a - v.a, g.b - v.b, g.c - v.c};
    g.a += count * g.a_step;
    g.c += count * key.rows * g.c_row;
  };
  bool first = packing;
  bool streams = v.kept && b.fresh;
  int64_t prefetching = streams ? 4 : packing && s.prefetch && j + width < b.columns ? 4 : 0;
  for (int t = 0; t < tiles.runs; t++) {
    int64_t left_over = tiles.run[t].count;
    key.rows = tiles.run[t].rows;
    g.a_step = s.left == LeftMode::Packed ? key.rows * b.depth * size + pack_overhang : key.rows * g.a_row;
    if (first) {
      call(RightMode::PackOnUse, s.prefetch, 1);
      first = false;
      left_over--;
    }
    if (streams) {
      call(RightMode::Rows, true, 1);
      streams = false;
      left_over--;
    }
    if (const int64_t count = std::min(left_over, prefetching)) {
      call(RightMode::Packed, true, count);
      g.next += count * (b.depth / 4) * g.b_row;
      prefetching -= count;
      left_over -= count;
    }
    if (left_over) {
      const RightMode mode = s.right == RightMode::Rows ? RightMode::Rows : RightMode::Packed;
      call(mode, mode == RightMode::Rows && s.prefetch, left_over);
    }
  }
}

}  // namespace

void multiply_matrices(const View& v) { Driver(v).run(); }

bool list_calls(const View& v, TileCalls& calls) {
  Driver driver(v);
  calls.count = 0;
  if (!driver.packs_nothing()) return false;
  driver.list_to(&calls);
  driver.run();
  return calls.count <= calls.most;
}

}  // namespace frit::jit::products
