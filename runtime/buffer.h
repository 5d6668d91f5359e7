// Memory for tensors: a pooling allocator with 64-byte alignment, and what it counts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace frit {

struct MemoryStats {
  int64_t current = 0;       // bytes handed out now (as asked for)
  // Highest `current` since the start or the last reset_peak: exact while one thread frees and allocates, else it may
  // count up to 4 KiB per thread that were freed already.
  int64_t peak = 0;
  int64_t reserved = 0;      // bytes held from the system, cached free blocks included
  int64_t allocations = 0;   // calls of allocate so far
  int64_t cache_hits = 0;    // of those, served from the cache
  double fragmentation = 0;  // 1 - current / reserved
};

// At least `bytes` bytes, 64-byte aligned, uninitialised; 0 bytes gives a valid unique address. Thread-safe; small blocks
// come from a per-thread cache without a lock. Throws frit::OutOfMemoryError (error.h), which says what was asked and held.
void* allocate(size_t bytes);
void deallocate(void* p, size_t bytes) noexcept;  // the same bytes; any thread
MemoryStats memory_stats();
void reset_memory_peak();
void set_memory_limit(int64_t bytes);  // on `reserved`; 0: none. FRIT_MEMORY_LIMIT sets it at the start
std::string readable_bytes(int64_t bytes);  // "1.5 GiB"
void release_cached_memory();  // gives every cached free block back to the system (this thread's and the shared ones)
// What holds tensors that could be made again lets them go in this call, which comes first when cached memory is released, be it that memory is
// short. It may free, and must not allocate here. As many as eight.
void before_release(void (*let_go)() noexcept);

}  // namespace frit
