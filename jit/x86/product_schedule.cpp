// The schedule of a matrix product: tile, what is packed, block sizes. Start at choose_schedule. The rules were measured, those for AVX2 on
// Zen 3, those for AVX-512 on Sapphire Rapids; sizes that follow the caches are taken from the processor.
#include <algorithm>
#include "jit/x86/product_parts.h"
#include "runtime/cpu.h"

namespace frit::jit::products {
namespace {

void choose_tile(const View& v, int64_t lanes, Schedule& s) {
  const bool narrow = v.n <= 24 * lanes && uint32_t(v.n) % uint32_t(3 * lanes) == 0;  // 64-bit division is slow
  const bool short_and_small = v.m > 8 && v.m <= 64 && v.m % 4 == 0 && v.m % 6 != 0 && (v.n & (2 * lanes - 1)) == 0 && v.k <= 128;
  if (v.m <= 2)
    s.rows = 2, s.vectors = 6;
  else if (v.m == 3)
    s.rows = 3, s.vectors = 4;
  else if (short_and_small)
    s.rows = 4, s.vectors = 2;
  else if (v.m <= 8 || narrow)
    s.rows = 4, s.vectors = 3;
}

// The measured rules: A is read in place when its rows are contiguous; B is stored packed by the first row tile that reads it, and
// is not packed at all when it is small or used a few times only.
Schedule choose_narrow_schedule(const View& v) {
  Schedule s;
  const int size = v.compute_size();
  const int64_t lanes = s.register_bytes / size;
  choose_tile(v, lanes, s);
  const bool widen = is_half(v.storage);
  const bool left_rows = !widen && v.a_col == 1, right_rows = !widen && v.b_col == 1;
  const double right_bytes = double(size) * double(v.k) * double(v.n), work = 2.0 * double(v.m) * double(v.n) * double(v.k);
  const int scale = size / 4;  // blocks are sized in bytes
  if (!left_rows) {
    const bool small = !widen && v.a_row == 1 && v.m * v.k <= 4096 / scale;
    s.left = small ? LeftMode::Columns : LeftMode::Packed;
    s.block_rows = 144 / scale;
  }
  s.block_columns = 768 / scale;
  if (!right_rows) {
    s.right = RightMode::Packed;
    s.block_rows = 144 / scale;
  } else if (v.m <= 12) {
    s.right = RightMode::Rows;
    s.prefetch = v.m <= 2;
    s.block_rows = 48;
  } else if (right_bytes <= 72 << 10) {
    s.right = v.m > 512 ? RightMode::PackOnUse : RightMode::Rows;
  } else if (v.m <= 48 && right_bytes > 4 << 20) {  // B streams through: short blocks of columns
    s.rows = 6, s.vectors = 2;
    s.prefetch = true;
    s.block_columns = 384 / scale;
    s.block_rows = 240;
  } else {
    s.prefetch = true;
    if (work > 1e9 && left_rows) {
      s.rows = 4, s.vectors = 3;
      s.block_rows = 48;
      s.block_columns = 384 / scale;
      s.all_panels = double(s.block_columns) * double(v.k) * size <= double(kept_right_bytes);
    }
  }
  return s;
}

// ---- AVX-512: 32 registers of 16 floats --------------------------------------------------------------------------------------
constexpr int64_t few_rows = 48, some_rows = 128, many_rows = 512;  // of A

void choose_wide_tile(const View& v, int64_t lanes, Schedule& s) {
  const auto tile = [&](int rows, int vectors) { s.rows = rows, s.vectors = vectors; };
  if (s.left == LeftMode::Packed)
    tile(8, 3);  // eight rows are packed at once
  else if (v.n <= 2 * lanes)
    tile(v.m <= few_rows ? 8 : 12, 2);
  else if (v.m <= 2)
    tile(2, 6);
  else if (v.m <= 4)
    tile(4, 6);
  else if (v.m <= 6 || (v.m > few_rows && (v.b_col != 1 || is_half(v.storage) || v.n == 4 * lanes || (v.m <= some_rows && v.n % (4 * lanes) == 0))))
    tile(6, 4);
  else if (v.m == 13 || v.m == 14)
    tile(14, 2);
  else
    tile(8, 3);
}

// B stays where it is when its rows are contiguous and it lies in L1 or L2 by itself, or when it is read too rarely for packing to pay.
void place_wide_right(const View& v, int64_t l1, int64_t l2, Schedule& s) {
  const int size = v.compute_size();
  const int64_t lanes = s.register_bytes / size;
  const bool rows = !is_half(v.storage) && v.b_col == 1, rows_are_lines = (v.b_row * size) % 64 == 0;
  const double bytes = double(size) * double(v.k) * double(v.n);
  const bool near = bytes <= double(l2 / 3);
  if (!rows)
    s.right = RightMode::Packed;
  else if (v.m <= 8 || (v.m <= some_rows && bytes <= double(l2)))
    s.right = RightMode::Rows;
  else if (bytes <= double(l1) || (v.n <= 4 * lanes && bytes <= double(l2 / 8)))
    s.right = v.m <= many_rows && rows_are_lines ? RightMode::Rows : RightMode::PackOnUse;
  else
    s.right = near && v.m <= many_rows && s.left != LeftMode::Packed ? RightMode::Rows : RightMode::PackOnUse;
  s.along_rows = near && s.right == RightMode::Rows;
  s.prefetch = s.right == RightMode::Rows ? bytes > double(l2 / 2) : s.right == RightMode::PackOnUse && bytes > double(l2 / 8);
}

// Rows of A that stay in L1 or L2 while B's strips pass.
int64_t wide_block_rows(const View& v, int64_t l2, const Schedule& s) {
  if (s.left == LeftMode::Packed) return 192 * 4 / v.compute_size();
  if (s.right == RightMode::Rows) return s.along_rows && (v.then || v.before) ? 48 : some_rows;  // what follows finds them in the caches
  const int64_t panel = std::min(v.k, panel_depth) * std::min(v.n, s.block_columns) * v.compute_size();
  return panel <= l2 / 4 ? 48 : 24;
}

Schedule choose_wide_schedule(const View& v) {
  static const int64_t l1 = cpu_info().l1_bytes, l2 = std::max<int64_t>(cpu_info().l2_bytes, 512 << 10);
  Schedule s;
  s.register_bytes = 64;
  const int size = v.compute_size();
  const int64_t lanes = s.register_bytes / size;
  const bool widen = is_half(v.storage);
  const bool columns_in_place = !widen && v.a_row == 1 && (v.n <= 8 * lanes || v.m <= some_rows);
  s.left = !widen && v.a_col == 1 ? LeftMode::Rows : columns_in_place ? LeftMode::Columns : LeftMode::Packed;
  choose_wide_tile(v, lanes, s);
  s.block_columns = (l2 >= int64_t(3) << 19 ? 768 : 384) * 4 / size;  // a panel of them fills half of L2
  place_wide_right(v, l1, l2, s);
  s.block_rows = wide_block_rows(v, l2, s);
  return s;
}

}  // namespace

Schedule choose_schedule(const View& v) { return uses_avx512() ? choose_wide_schedule(v) : choose_narrow_schedule(v); }

}  // namespace frit::jit::products
