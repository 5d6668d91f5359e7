// The pooling allocator. Start at allocate.
//
// ThreadCache  per thread: for every small class a few free blocks, taken and put back without a lock or an atomic
//              read-modify-write. Created at the thread's first use, given to the shared pools when the thread ends.
// Pools        shared, under one mutex: free small blocks by class, each with the time at which it came, so that the ones
//              unused for longest leave first when the cache outgrows its bounds; and the memory of large blocks (segments.h).
// Counts       `published` is the number of bytes handed out plus what threads have freed without saying so yet (each
//              thread's `unpublished`): a free adds to the thread's own number, and the next allocation of that thread uses
//              it up, so that the usual allocate-free-allocate touches nothing shared. `current` is the difference.
#include "runtime/buffer.h"
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>
#include <vector>
#include "runtime/error.h"
#include "runtime/segments.h"
#include "runtime/settings.h"
#include "runtime/size_class.h"
#include "runtime/system_memory.h"

namespace frit {
namespace {

constexpr size_t largest_small = 32 << 10;
constexpr unsigned small_classes = size_class(largest_small) + 1;
constexpr unsigned bin_capacity = 32;
constexpr size_t bin_bytes = 128 << 10;         // a bin holds no more than this, but always four blocks
constexpr int64_t publish_from = 4096;          // unpublished frees per thread
constexpr int64_t free_floor = 256 << 20;       // free blocks up to here are kept whatever is in use
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t red_zone = 64;                 // behind a large block; small ones have the C library's
#else
constexpr size_t red_zone = 0;
#endif

constexpr unsigned bin_limit(unsigned size_class) {
  return unsigned(std::clamp<size_t>(bin_bytes / class_bytes(size_class), 4, bin_capacity));
}

// Written by one thread, read by any: no read-modify-write.
class OwnCount {
 public:
  int64_t get() const { return value_.load(std::memory_order_relaxed); }
  void set(int64_t v) { value_.store(v, std::memory_order_relaxed); }
  void add(int64_t v) { set(get() + v); }

 private:
  std::atomic<int64_t> value_{0};
};

struct Counts {
  OwnCount allocations, hits, unpublished;
};

struct Bin {
  unsigned count = 0;
  void* blocks[bin_capacity];
};

struct ThreadCache {
  Counts counts;
  Bin bins[small_classes];
};

struct FreeBlock {
  void* block;
  uint64_t came;
};

struct Pools {
  std::mutex mutex;
  std::vector<FreeBlock> free[small_classes];  // newest last
  int64_t small_bytes = 0;                     // in `free`
  Segments large;
  uint64_t clock = 0;
  std::vector<ThreadCache*> caches;           // of all live threads
  int64_t allocations = 0, hits = 0;          // of threads that ended
  std::atomic<int64_t> published{0}, peak{0}, small_reserved{0};
  std::atomic<int64_t> limit{-1};             // -1: not read from the settings yet
};

Pools& pools() {
  static Pools* p = new Pools;  // never destroyed: tensors may die after every static object
  return *p;
}

constinit std::atomic<void (*)() noexcept> let_go_first[8] = {};

void publish(Pools& p, int64_t delta) {
  const int64_t now = p.published.fetch_add(delta, std::memory_order_relaxed) + delta;
  int64_t peak = p.peak.load(std::memory_order_relaxed);
  while (now > peak && !p.peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

int64_t memory_limit(Pools& p) {
  int64_t limit = p.limit.load(std::memory_order_relaxed);
  if (limit >= 0) return limit;
  p.limit.compare_exchange_strong(limit, settings().memory_limit);
  return p.limit.load(std::memory_order_relaxed);
}

// --- shared pools; the functions named _locked need the mutex ---

int64_t reserved_locked(const Pools& p) { return p.small_reserved.load() + p.large.reserved(); }

void drop_locked(Pools& p, void* block, unsigned size_class) noexcept {
  p.small_reserved -= int64_t(class_bytes(size_class));
  system_deallocate(block, class_bytes(size_class));
}

void put_locked(Pools& p, void* block, unsigned size_class) noexcept {
  try {
    p.free[size_class].push_back({block, p.clock++});
    p.small_bytes += int64_t(class_bytes(size_class));
  } catch (const std::bad_alloc&) {
    drop_locked(p, block, size_class);
  }
}

void* take_locked(Pools& p, unsigned size_class) {
  auto& list = p.free[size_class];
  if (list.empty()) return nullptr;
  void* block = list.back().block;
  list.pop_back();
  p.small_bytes -= int64_t(class_bytes(size_class));
  return block;
}

// Gives free small blocks back to the system, those unused for longest first, until at most `keep` bytes of them are left.
void trim_small_locked(Pools& p, int64_t keep) noexcept {
  while (p.small_bytes > keep) {
    unsigned oldest = small_classes;
    for (unsigned c = 0; c < small_classes; ++c)
      if (!p.free[c].empty() && (oldest == small_classes || p.free[c].front().came < p.free[oldest].front().came)) oldest = c;
    if (oldest == small_classes) return;
    const int64_t bytes = int64_t(class_bytes(oldest));
    auto& list = p.free[oldest];
    const size_t enough = size_t((p.small_bytes - keep + bytes - 1) / bytes), few = std::min({enough, list.size(), size_t(16)});
    for (size_t i = 0; i < few; ++i) drop_locked(p, list[i].block, oldest);
    list.erase(list.begin(), list.begin() + ptrdiff_t(few));
    p.small_bytes -= int64_t(few) * bytes;
  }
}

[[noreturn]] void out_of_memory(size_t bytes) {
  const MemoryStats s = memory_stats();
  const int64_t limit = memory_limit(pools());
  std::string text = "out of memory: " + readable_bytes(int64_t(std::min<size_t>(bytes, INT64_MAX))) + " asked for, " +
                     readable_bytes(s.reserved) + " held (" + readable_bytes(s.current) + " in tensors, highest " + readable_bytes(s.peak) + ")";
  if (limit) text += ", limit FRIT_MEMORY_LIMIT = " + readable_bytes(limit);
  throw OutOfMemoryError(text + ". Free tensors that are not needed, use smaller batches or autograd::checkpoint" + (limit ? ", or raise the limit." : "."));
}

// A small block that no cache has. Fails only after all free memory went back to the system.
void* fresh_block(Pools& p, unsigned size_class, size_t asked) {
  const int64_t bytes = int64_t(class_bytes(size_class)), limit = memory_limit(p);
  for (bool last : {false, true}) {
    p.small_reserved += bytes;
    const auto within = [&] {
      const std::lock_guard lock(p.mutex);
      return reserved_locked(p) <= limit;
    };
    if (!limit || within())
      if (void* block = system_allocate(size_t(bytes))) return block;
    p.small_reserved -= bytes;
    if (!last) release_cached_memory();
  }
  out_of_memory(asked);
}

// A large block: from free memory, else from newly mapped memory. What was freed and does not fit the present sizes must not pile
// up beside it.
void* allocate_large(Pools& p, size_t bytes, bool& hit) {
  const int64_t limit = memory_limit(p);
  const size_t whole = bytes + red_zone;
  for (bool last : {false, true}) {
    {
      const std::lock_guard lock(p.mutex);
      void* block = p.large.take(whole);
      hit = block != nullptr;
      if (!block) {
        p.large.trim(std::max(free_floor, p.peak.load(std::memory_order_relaxed) / 2));
        const int64_t most = limit - reserved_locked(p);
        if ((!limit || most > 0) && p.large.grow(whole, limit ? most : 0)) block = p.large.take(whole);
      }
      if (block) return block;
    }
    if (!last) release_cached_memory();
  }
  out_of_memory(bytes);
}

// --- per-thread caches ---

thread_local ThreadCache* own_cache = nullptr;
thread_local bool thread_ended = false;  // its cache is gone; other destructors of the thread may still free

void give_back(ThreadCache* c) {
  Pools& p = pools();
  std::lock_guard lock(p.mutex);
  for (unsigned k = 0; k < small_classes; ++k)
    for (unsigned i = 0; i < c->bins[k].count; ++i) put_locked(p, c->bins[k].blocks[i], k);
  p.allocations += c->counts.allocations.get();
  p.hits += c->counts.hits.get();
  p.published -= c->counts.unpublished.get();
  std::erase(p.caches, c);
  delete c;
}

struct AtThreadEnd {
  ~AtThreadEnd() {
    thread_ended = true;
    if (ThreadCache* c = std::exchange(own_cache, nullptr)) give_back(c);
  }
};

[[gnu::noinline]] ThreadCache* make_cache() {
  if (thread_ended) return nullptr;
  static thread_local AtThreadEnd at_end;
  asm volatile("" : : "r"(&at_end));  // its construction registers the destructor
  auto* c = new ThreadCache;
  Pools& p = pools();
  std::lock_guard lock(p.mutex);
  p.caches.push_back(c);
  return own_cache = c;
}

inline void count_allocation(ThreadCache& c, size_t bytes, bool hit) {
  c.counts.allocations.add(1);
  c.counts.hits.add(hit);
  const int64_t left = c.counts.unpublished.get() - int64_t(bytes);
  c.counts.unpublished.set(std::max<int64_t>(left, 0));
  if (left < 0) publish(pools(), -left);
}

inline void count_free(ThreadCache& c, size_t bytes) {
  const int64_t freed = c.counts.unpublished.get() + int64_t(bytes);
  c.counts.unpublished.set(freed < publish_from ? freed : 0);
  if (freed >= publish_from) pools().published.fetch_sub(freed, std::memory_order_relaxed);
}

// Takes up to half a bin from the shared pool; the last block is the caller's.
void* refill(Pools& p, ThreadCache* c, unsigned size_class) {
  std::lock_guard lock(p.mutex);
  void* block = take_locked(p, size_class);
  if (!c) return block;
  Bin& bin = c->bins[size_class];
  while (block && bin.count < bin_limit(size_class) / 2) {
    void* more = take_locked(p, size_class);
    if (!more) break;
    bin.blocks[bin.count++] = more;
  }
  return block;
}

[[gnu::noinline]] void* allocate_slow(size_t bytes) {
  if (bytes > largest_block) out_of_memory(bytes);
  Pools& p = pools();
  ThreadCache* c = own_cache ? own_cache : make_cache();
  const unsigned k = size_class(bytes);
  bool hit = false;
  void* block;
  if (k < small_classes) {
    block = refill(p, c, k);
    hit = block != nullptr;
    if (!block) block = fresh_block(p, k, bytes);
  } else {
    block = allocate_large(p, bytes, hit);
  }
  if (k < small_classes) mark_unusable(block, class_bytes(k));
  mark_usable(block, bytes);
  if (c) {
    count_allocation(*c, bytes, hit);
  } else {
    publish(p, int64_t(bytes));
    std::lock_guard lock(p.mutex);
    ++p.allocations;
    p.hits += hit;
  }
  return block;
}

[[gnu::noinline]] void deallocate_slow(void* block, size_t bytes) noexcept {
  Pools& p = pools();
  ThreadCache* c = own_cache;
  if (!c) {
    try {
      c = make_cache();
    } catch (const std::bad_alloc&) {
    }
  }
  const unsigned k = size_class(bytes);
  {
    std::lock_guard lock(p.mutex);
    if (k < small_classes) put_locked(p, block, k);
    else mark_unusable(block, p.large.size(block)), p.large.give(block);
    if (c && k < small_classes)  // the bin is full: half of it goes too, so that the next frees are cheap again
      for (Bin& bin = c->bins[k]; bin.count > bin_limit(k) / 2;) put_locked(p, bin.blocks[--bin.count], k);
  }
  c ? count_free(*c, bytes) : void(p.published -= int64_t(bytes));
}

}  // namespace

void* allocate(size_t bytes) {
  ThreadCache* c = own_cache;
  if (bytes > largest_small || !c) return allocate_slow(bytes);
  Bin& bin = c->bins[size_class(bytes)];
  if (!bin.count) return allocate_slow(bytes);
  void* block = bin.blocks[--bin.count];
  mark_usable(block, bytes);
  count_allocation(*c, bytes, true);
  return block;
}

void deallocate(void* block, size_t bytes) noexcept {
  if (!block) return;
  const unsigned k = size_class(bytes);
  if (k < small_classes) mark_unusable(block, class_bytes(k));
  ThreadCache* c = own_cache;
  if (k >= small_classes || !c || c->bins[k].count >= bin_limit(k)) return deallocate_slow(block, bytes);
  Bin& bin = c->bins[k];
  bin.blocks[bin.count++] = block;
  count_free(*c, bytes);
}

MemoryStats memory_stats() {
  Pools& p = pools();
  std::lock_guard lock(p.mutex);
  MemoryStats s;
  s.allocations = p.allocations;
  s.cache_hits = p.hits;
  s.current = p.published.load();
  for (const ThreadCache* c : p.caches) {
    s.allocations += c->counts.allocations.get();
    s.cache_hits += c->counts.hits.get();
    s.current -= c->counts.unpublished.get();
  }
  s.peak = std::max(p.peak.load(), s.current);
  s.reserved = reserved_locked(p);
  s.fragmentation = s.reserved ? 1 - double(s.current) / double(s.reserved) : 0;
  return s;
}

void reset_memory_peak() {
  // This thread's frees are made known first, so that its next allocations raise the peak from what is really in use.
  if (ThreadCache* c = own_cache) {
    pools().published -= c->counts.unpublished.get();
    c->counts.unpublished.set(0);
  }
  pools().peak = pools().published.load();
}

void set_memory_limit(int64_t bytes) { pools().limit = std::max<int64_t>(bytes, 0); }

std::string readable_bytes(int64_t bytes) {
  if (bytes < 10 << 10) return std::to_string(bytes) + " bytes";
  double value = double(bytes);
  int unit = -1;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %ciB", value, "KMGTP"[unit]);
  return text;
}

void before_release(void (*let_go)() noexcept) {
  for (std::atomic<void (*)() noexcept>& place : let_go_first) {
    void (*none)() noexcept = nullptr;
    if (place.compare_exchange_strong(none, let_go)) return;
  }
}

void release_cached_memory() {
  for (const auto& place : let_go_first)
    if (void (*const let_go)() noexcept = place.load()) let_go();
  Pools& p = pools();
  {
    std::lock_guard lock(p.mutex);
    if (ThreadCache* c = own_cache)
      for (unsigned k = 0; k < small_classes; ++k)
        while (c->bins[k].count) put_locked(p, c->bins[k].blocks[--c->bins[k].count], k);
    trim_small_locked(p, 0);
    p.large.trim(0);
  }
  system_trim();
}

}  // namespace frit
