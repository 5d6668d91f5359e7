// Memory from the system: small blocks from the C library, pages for large ones as mappings, so that giving them back
// really returns their pages. The address sanitizer is told what in them may be touched.
#include "runtime/system_memory.h"
#include <malloc.h>
#include <sys/mman.h>
#include <cstdint>
#include <cstdlib>
#include "runtime/size_class.h"

#if defined(__SANITIZE_ADDRESS__)
#define FRIT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FRIT_ASAN 1
#endif
#endif
#ifdef FRIT_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace frit {
namespace {
constexpr size_t huge_page = 2 << 20;

void* map(void* place, size_t bytes) noexcept {
  void* p = mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}
// Aligned to huge pages: maps more and gives the ends back.
char* map_aligned(size_t bytes) noexcept {
  char* p = static_cast<char*>(map(nullptr, bytes + huge_page));
  if (!p) return static_cast<char*>(map(nullptr, bytes));
  const size_t front = -uintptr_t(p) % huge_page;
  if (front) munmap(p, front);
  if (front != huge_page) munmap(p + front + bytes, huge_page - front);
  return p + front;
}
}  // namespace

void* map_pages(void* place, size_t bytes) noexcept {
  char* p = place ? static_cast<char*>(map(place, bytes)) : nullptr;
  if (p != place || !p) {
    if (p) munmap(p, bytes);
    p = map_aligned(bytes);
  }
  if (!p) return nullptr;
  madvise(p, bytes, MADV_HUGEPAGE);
  mark_unusable(p, bytes);
  return p;
}
void unmap_pages(void* first, size_t bytes) noexcept {
  mark_usable(first, bytes);
  munmap(first, bytes);
}

void* system_allocate(size_t bytes) noexcept { return std::aligned_alloc(block_alignment, bytes); }
void system_deallocate(void* p, size_t bytes) noexcept {
  mark_usable(p, bytes);
  std::free(p);
}

void system_trim() noexcept {
#ifndef FRIT_ASAN
  malloc_trim(0);
#endif
}

#ifdef FRIT_ASAN
void mark_usable(void* p, size_t bytes) noexcept { __asan_unpoison_memory_region(p, bytes); }
void mark_unusable(void* p, size_t bytes) noexcept { __asan_poison_memory_region(p, bytes); }
#else
void mark_usable(void*, size_t) noexcept {}
void mark_unusable(void*, size_t) noexcept {}
#endif

}  // namespace frit
