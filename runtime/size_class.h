// Size classes of the allocator: multiples of 64 bytes up to 512, then eight per doubling, so that at most an eighth of a
// block is unused.
#pragma once
#include <bit>
#include <cstddef>

namespace frit {

constexpr size_t block_alignment = 64;
constexpr size_t largest_block = size_t(1) << 46;

constexpr unsigned size_class(size_t bytes) {
  const size_t last_unit = bytes ? (bytes - 1) / block_alignment : 0;
  if (last_unit < 8) return unsigned(last_unit);
  const unsigned shift = unsigned(std::bit_width(last_unit)) - 4;
  return shift * 8 + unsigned(last_unit >> shift);
}

constexpr size_t class_bytes(unsigned size_class) {
  if (size_class < 16) return (size_class + 1) * block_alignment;
  const unsigned shift = size_class / 8 - 1;
  return (size_t(size_class % 8 + 9) << shift) * block_alignment;
}

constexpr unsigned class_count = size_class(largest_block) + 1;

}  // namespace frit
