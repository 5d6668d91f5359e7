// Large blocks, cut out of mapped memory: best fit, neighbours joined when they are free, so that memory which held one
// shape holds the next one. Not locked: the allocator calls it under its own lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

namespace frit {

class Segments {
 public:
  // A block of at least `bytes`, from free memory alone; null when none is large enough.
  void* take(size_t bytes);
  // Maps memory in which a block of `bytes` fits, `most` bytes of it at most (0: no bound). False: the bound or the system forbids it.
  bool grow(size_t bytes, int64_t most);
  void give(void* block) noexcept;                // it is free again
  size_t size(const void* block) const;           // of a block in use
  // Gives free pages back to the system, those of the largest blocks first, until at most `keep` bytes are free.
  void trim(int64_t keep) noexcept;
  int64_t reserved() const { return reserved_; }  // mapped

 private:
  using FreeSet = std::set<std::pair<size_t, char*>>;  // by size, then address
  struct Block {
    size_t bytes;
    bool free;
    FreeSet::node_type entry;                     // of a block in use: its place in the set, so that freeing needs no memory
  };
  using Blocks = std::map<char*, Block>;

  void add(char* first, size_t bytes);
  void make_free(Blocks::iterator at, FreeSet::node_type entry) noexcept;
  Blocks blocks_;
  FreeSet free_set_;
  int64_t reserved_ = 0, free_ = 0;
  char* lowest_ = nullptr;                        // of what was mapped last
};

}  // namespace frit
