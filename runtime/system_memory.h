// Memory from the system, for the allocator.
#pragma once
#include <cstddef>

namespace frit {

// A small block, 64-byte aligned, of a whole size class; null when the system has none.
void* system_allocate(size_t bytes) noexcept;
void system_deallocate(void* p, size_t bytes) noexcept;
void system_trim() noexcept;  // asks the C library to return the pages that it keeps

// Whole pages, huge ones where they fit, at the place asked for when it is free; null when the system has none.
void* map_pages(void* place, size_t bytes) noexcept;
void unmap_pages(void* first, size_t bytes) noexcept;  // any pages of what was mapped

// Tells the address sanitizer what may be touched; nothing in other builds.
void mark_usable(void* p, size_t bytes) noexcept;
void mark_unusable(void* p, size_t bytes) noexcept;

}  // namespace frit
