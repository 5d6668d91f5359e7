// Whole blocks from the system, for the allocator's pools.
#pragma once
#include <cstddef>

namespace frit {

// 64-byte aligned, of a whole size class; null when the system has none. Blocks of 4 MiB and more ask for huge pages.
void* system_allocate(size_t bytes) noexcept;
void system_deallocate(void* p, size_t bytes) noexcept;
void system_trim() noexcept;  // asks the C library to return the pages that it keeps

// Tells the address sanitizer what may be touched; nothing in other builds.
void mark_usable(void* p, size_t bytes) noexcept;
void mark_unusable(void* p, size_t bytes) noexcept;

}  // namespace frit
