// Blocks from the system: small ones from the C library, large ones as mappings of their own, so that giving them back
// really returns their pages. With the address sanitizer all come from the C library, whose red zones it knows.
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

#ifdef FRIT_ASAN
constexpr size_t mapped_from = SIZE_MAX;
#else
constexpr size_t mapped_from = 64 << 10;  // classes from here on are whole pages
#endif
constexpr size_t huge_from = 4 << 20, huge_page = 2 << 20;

void* map(size_t bytes) noexcept {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// Aligned to huge pages: maps more and gives the ends back.
void* map_huge(size_t bytes) noexcept {
  char* p = static_cast<char*>(map(bytes + huge_page));
  if (!p) return map(bytes);
  const size_t front = -uintptr_t(p) % huge_page;
  if (front) munmap(p, front);
  if (front != huge_page) munmap(p + front + bytes, huge_page - front);
  madvise(p + front, bytes, MADV_HUGEPAGE);
  return p + front;
}

}  // namespace

void* system_allocate(size_t bytes) noexcept {
  if (bytes < mapped_from) return std::aligned_alloc(block_alignment, bytes);
  return bytes >= huge_from ? map_huge(bytes) : map(bytes);
}

void system_deallocate(void* p, size_t bytes) noexcept {
  mark_usable(p, bytes);
  if (bytes < mapped_from) return std::free(p);
  munmap(p, bytes);
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
