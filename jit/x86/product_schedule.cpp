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
constexpr int64_t few_rows = 48;  // B is read too rarely to be packed

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
  else if (v.m <= 6)
    tile(6, 4);
  else if (v.m == 13 || v.m == 14)
    tile(14, 2);
  else if (v.m <= few_rows)
    tile(8, 3);
  else
    tile(6, 4);
}

Schedule choose_wide_schedule(const View& v) {
  static const int64_t l1 = cpu_info().l1_bytes, l2 = std::max<int64_t>(cpu_info().l2_bytes, 512 << 10);
  Schedule s;
  s.register_bytes = 64;
  const int size = v.compute_size();
  const int64_t lanes = s.register_bytes / size;
  const bool widen = is_half(v.storage);
  const bool left_rows = !widen && v.a_col == 1, right_rows = !widen && v.b_col == 1;
  const double left_bytes = double(size) * double(v.k) * double(v.m), right_bytes = double(size) * double(v.k) * double(v.n);
  const int scale = size / 4;  // blocks are sized in bytes
  const bool columns_in_place = !widen && v.a_row == 1 && (left_bytes <= double(l2 / 4) || v.n <= 4 * lanes || v.m <= few_rows);
  s.left = left_rows ? LeftMode::Rows : columns_in_place ? LeftMode::Columns : LeftMode::Packed;
  choose_wide_tile(v, lanes, s);
  const int64_t most_columns = l2 >= int64_t(3) << 19 ? 768 : 384;  // a panel of them fills half of L2
  s.block_columns = most_columns / scale;
  s.block_rows = s.left == LeftMode::Packed ? 192 / scale : v.m <= few_rows ? few_rows : 24;  // few rows: B's strips are read from memory once
  if (!right_rows) {
    s.right = RightMode::Packed;
  } else if (v.m <= few_rows && (v.m <= 8 || right_bytes <= double(l2))) {
    s.right = RightMode::Rows;
    s.prefetch = right_bytes > double(l1);
  } else if (right_bytes <= double(l1)) {
    s.right = v.m <= 512 && (v.b_row * size) % 64 == 0 ? RightMode::Rows : RightMode::PackOnUse;
    s.block_rows = 96;
  } else {
    s.right = RightMode::PackOnUse;
    s.prefetch = true;
    if (s.vectors == 4) s.rows = 8, s.vectors = 3;
  }
  return s;
}

}  // namespace

Schedule choose_schedule(const View& v) { return uses_avx512() ? choose_wide_schedule(v) : choose_narrow_schedule(v); }

}  // namespace frit::jit::products
