// Scratch memory of the products: one buffer per thread that grows and is kept, in huge pages when large. Start at Scratch.
// Buffers are listed, so that release_product_buffers can free those that are not in use; `busy` decides who has one.
#include <sys/mman.h>
#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <thread>
#include <vector>
#include "jit/x86/product.h"
#include "jit/x86/product_parts.h"

namespace frit::jit {
namespace products {
namespace {

constexpr size_t page = 4096, huge_page = size_t(2) << 20;
constexpr size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

struct Buffer;
struct Registry {
  std::mutex mutex;
  std::vector<Buffer*> buffers;
};
Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

struct Buffer {
  std::atomic<bool> busy{false};
  char* data = nullptr;
  void* mapping = nullptr;
  size_t capacity = 0, mapped = 0;

  Buffer() {
    std::lock_guard lock(registry().mutex);
    registry().buffers.push_back(this);
  }
  ~Buffer() {
    {
      std::lock_guard lock(registry().mutex);
      std::erase(registry().buffers, this);
    }
    release();
  }
  void release() {
    if (mapping) munmap(mapping, mapped);
    mapping = data = nullptr;
    capacity = mapped = 0;
  }
  void grow(size_t bytes) {
    release();
    const bool large = bytes >= huge_page / 2;
    const size_t wanted = round_up(bytes + bytes / 4, large ? huge_page : page);
    const size_t all = wanted + (large ? huge_page : 0);  // room to begin at a huge page
    void* got = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) throw std::bad_alloc();
    mapping = got;
    mapped = all;
    capacity = wanted;
    data = static_cast<char*>(got);
    if (!large) return;
    data = reinterpret_cast<char*>(round_up(reinterpret_cast<size_t>(got), huge_page));
    madvise(data, wanted, MADV_HUGEPAGE);  // advice only: without it the products are a little slower
  }
  void take() {
    while (busy.exchange(true, std::memory_order_acquire)) std::this_thread::yield();  // being released: short
  }
};

Buffer& buffer_of_this_thread() {
  static thread_local Buffer buffer;
  return buffer;
}

}  // namespace

Scratch::Scratch(size_t bytes) : data_(nullptr) {
  if (bytes == 0) return;
  Buffer& buffer = buffer_of_this_thread();
  buffer.take();
  if (buffer.capacity < bytes) {
    try {
      buffer.grow(bytes);
    } catch (...) {
      buffer.busy.store(false, std::memory_order_release);
      throw;
    }
  }
  data_ = buffer.data;
}

Scratch::~Scratch() {
  if (data_) buffer_of_this_thread().busy.store(false, std::memory_order_release);
}

}  // namespace products

void release_product_buffers() {
  products::Registry& registry = products::registry();
  std::lock_guard lock(registry.mutex);
  for (products::Buffer* buffer : registry.buffers) {
    if (buffer->busy.exchange(true, std::memory_order_acquire)) continue;
    buffer->release();
    buffer->busy.store(false, std::memory_order_release);
  }
}

}  // namespace frit::jit
