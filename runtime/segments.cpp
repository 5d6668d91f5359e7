// All mapped memory is cut into blocks, free or in use, in one map by address; free ones also stand in a set by size. Each new
// mapping is asked for right below the last one, so that what is free on both sides becomes one block. Start at take and give.
#include "runtime/segments.h"
#include <algorithm>
#include <iterator>
#include <utility>
#include "runtime/system_memory.h"

namespace frit {
namespace {
constexpr size_t unit = 64, least_rest = 4096;    // a smaller rest stays with its block
constexpr size_t page = 4096, huge_page = 2 << 20, usual_mapping = 64 << 20;
constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
}  // namespace

void Segments::add(char* first, size_t bytes) {  // whatever throws does so before anything has changed
  FreeSet scratch;
  scratch.emplace(bytes, first);
  const auto at = blocks_.emplace(first, Block{bytes, true, {}}).first;
  make_free(at, scratch.extract(scratch.begin()));
}
// Joins the block with its free neighbours. entry: for the set.
void Segments::make_free(Blocks::iterator at, FreeSet::node_type entry) noexcept {
  at->second.free = true;
  const auto join = [&](Blocks::iterator left, Blocks::iterator right) {
    left->second.bytes += right->second.bytes;
    blocks_.erase(right);
  };
  if (const auto next = std::next(at); next != blocks_.end() && next->second.free && at->first + at->second.bytes == next->first) {
    free_set_.erase({next->second.bytes, next->first});
    join(at, next);
  }
  if (at != blocks_.begin())
    if (const auto before = std::prev(at); before->second.free && before->first + before->second.bytes == at->first) {
      free_set_.erase({before->second.bytes, before->first});
      join(before, at);
      at = before;
    }
  entry.value() = {at->second.bytes, at->first};
  free_set_.insert(std::move(entry));
}

void* Segments::take(size_t bytes) {
  bytes = round_up(bytes, unit);
  const auto fit = free_set_.lower_bound({bytes, nullptr});
  if (fit == free_set_.end()) return nullptr;
  const auto at = blocks_.find(fit->second);
  Block& b = at->second;
  const size_t rest = b.bytes - bytes;
  if (rest >= least_rest) {
    char* behind = at->first + bytes;
    const auto cut = blocks_.emplace_hint(std::next(at), behind, Block{rest, true, {}});
    try {
      free_set_.emplace(rest, behind);
    } catch (...) {
      blocks_.erase(cut);
      throw;
    }
    b.bytes = bytes;
  }
  b.entry = free_set_.extract(fit);
  b.free = false;
  free_ -= int64_t(b.bytes);
  return at->first;
}

bool Segments::grow(size_t bytes, int64_t most) {
  const size_t asked = round_up(bytes, unit), grown = std::clamp(size_t(reserved_) / 8, huge_page, usual_mapping);
  for (size_t size : {round_up(std::max(asked, grown), huge_page), round_up(asked, huge_page), round_up(asked, page)}) {
    if (most && int64_t(size) > most) continue;
    char* first = static_cast<char*>(map_pages(lowest_ ? lowest_ - size : nullptr, size));
    if (!first) continue;
    try {
      add(first, size);
    } catch (...) {
      unmap_pages(first, size);
      throw;
    }
    lowest_ = first;
    reserved_ += int64_t(size), free_ += int64_t(size);
    return true;
  }
  return false;
}

size_t Segments::size(const void* block) const { return blocks_.find(static_cast<char*>(const_cast<void*>(block)))->second.bytes; }

void Segments::give(void* block) noexcept {
  const auto at = blocks_.find(static_cast<char*>(block));
  free_ += int64_t(at->second.bytes);
  make_free(at, std::move(at->second.entry));
}

// Of a block between two in use whole pages go; what is left of it at either end are blocks of less than a page.
void Segments::trim(int64_t keep) noexcept {
  for (auto f = free_set_.end(); free_ > keep && f != free_set_.begin();) {
    const auto [bytes, block] = *--f;
    char* from = block + -uintptr_t(block) % page;
    char* to = block + bytes - (uintptr_t(block) + bytes) % page;
    if (from >= to) continue;
    const auto at = blocks_.find(block);
    if (to != block + bytes) try {  // the end first: it needs memory of its own
        const auto end = blocks_.emplace_hint(std::next(at), to, Block{size_t(block + bytes - to), true, {}});
        try {
          free_set_.emplace(end->second.bytes, to);
        } catch (...) {
          blocks_.erase(end);
          throw;
        }
      } catch (...) {
        return;
      }
    const auto after = std::next(f);
    FreeSet::node_type entry = free_set_.extract(f);
    if (from != block) {
      at->second.bytes = size_t(from - block);
      entry.value() = {at->second.bytes, block};
      free_set_.insert(std::move(entry));
    } else {
      blocks_.erase(at);
    }
    f = after;
    unmap_pages(from, size_t(to - from));
    reserved_ -= to - from, free_ -= to - from;
  }
}

}  // namespace frit
