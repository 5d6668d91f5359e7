// The packed weights, by the identity of the storage that they were made from. Start at packed_weight. An entry is one way of reading one storage; it
// counts runs until it is worth packing. Packing is done without the lock; what it made counts only if nothing has changed meanwhile.
#include "jit/packed_weights.h"
#include <pthread.h>
#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>
#include "jit/x86/product.h"
#include "runtime/buffer.h"
#include "runtime/cpu.h"
#include "runtime/error.h"
#include "runtime/settings.h"
#include "runtime/stats.h"
#include "tracer/memory_log.h"

namespace frit::jit {

using namespace tracer;

namespace {
constexpr int first_wait = 3, longest_wait = 1 << 20;  // runs in a row with the same bytes before it is packed
constexpr int64_t worth_it = 16;                       // reads; after fewer the next time waits longer

struct Reading {
  int64_t offset, k, n, row, column;
  Dtype dtype;
  bool wide;
  bool operator==(const Reading&) const = default;
};
struct Entry {
  Reading reading;
  uint32_t version = 0;
  int runs = 0, wait = first_wait;
  const void* plan = nullptr;         // of the latest run
  uint64_t run = 0, began = 0, used = 0;  // began, used: times, in lookups
  int64_t reads = 0;                  // of the packed form
  bool packing = false;               // by somebody, without the lock
  std::shared_ptr<const PackedWeight> packed;
  std::vector<const void*> plans;     // that read it
};
using Given = std::vector<std::shared_ptr<const PackedWeight>>;  // freed after the lock

// Taken after the lock of the plans' cache, by a plan that goes; in a fork, too, since its handlers are installed before that one's.
constinit std::mutex lock;
[[maybe_unused]] const int forks = pthread_atfork([] { lock.lock(); }, [] { lock.unlock(); }, [] { lock.unlock(); });

struct Registry {
  std::unordered_map<uint32_t, std::vector<Entry>> weights;  // by storage
  int64_t bytes = 0;
  uint64_t clock = 0;
  std::atomic<int64_t> most = settings().packed_weights;

  void drop(Entry& e, Given& given) {
    if (!e.packed) return;
    bytes -= int64_t(e.packed->memory().storage->bytes);
    given.push_back(std::exchange(e.packed, nullptr));
  }
  void start_again(Entry& e, Given& given) {
    drop(e, given);
    e.runs = 0, e.reads = 0, e.plans.clear();
  }
  // Because its bytes changed, or memory was short: the next time it has to be worth more.
  void lose(Entry& e, Given& given) {
    if (e.packed && e.reads < worth_it) e.wait = std::min(e.wait * 4, longest_wait);
    start_again(e, given);
  }
  Entry* find(uint32_t storage, const Reading& r) {
    const auto at = weights.find(storage);
    if (at == weights.end()) return nullptr;
    const auto e = std::find_if(at->second.begin(), at->second.end(), [&](const Entry& e) { return e.reading == r; });
    return e == at->second.end() ? nullptr : &*e;
  }
  // Room for so many more: those leave that nobody read since `since`.
  bool make_room(int64_t more, int64_t most, uint64_t since, Given& given) {
    if (more > most) return false;
    while (bytes + more > most) {
      Entry* oldest = nullptr;
      for (auto& [storage, entries] : weights)
        for (Entry& e : entries)
          if (e.packed && e.used < since && (!oldest || e.used < oldest->used)) oldest = &e;
      if (!oldest) return false;
      start_again(*oldest, given);
    }
    return true;
  }
};

void changed(uint32_t storage, bool gone) noexcept;
void let_go() noexcept;
Registry& registry() {
  static Registry* r = [] {
    set_storage_watcher(&changed);
    before_release(&let_go);
    return new Registry;  // never destroyed: tensors may die after every static object
  }();
  return *r;
}
void changed(uint32_t storage, bool gone) noexcept {
  Registry& r = registry();
  Given given;
  const std::lock_guard hold(lock);
  const auto at = r.weights.find(storage);
  if (at == r.weights.end()) return;
  for (Entry& e : at->second) r.lose(e, given);
  if (gone) r.weights.erase(at);
}
void let_go() noexcept {
  Registry& r = registry();
  Given given;
  const std::lock_guard hold(lock);
  for (auto& [storage, entries] : r.weights)
    for (Entry& e : entries) r.lose(e, given);
}

bool may_change_unseen(const Storage& s) {
  return s.foreign || s.reachable.load(std::memory_order_relaxed) || s.pending.load(std::memory_order_relaxed);
}
std::shared_ptr<const PackedWeight> pack(const Product& p, const Value& b) {
  const int64_t size = p.dtype == Dtype::Float64 ? 8 : 4, count = (int64_t(packed_right_bytes(p)) + size - 1) / size;
  ValueRef memory = ValueRef::take(new_value(size == 8 ? Dtype::Float64 : Dtype::Float32, &count, 1));
  if (memory_logged()) log_use(*memory, MemoryUse::packed);
  pack_right(p, b.data(), memory->data());
  frit::count(&Counters::weights_packed);
  return std::make_shared<const PackedWeight>(std::move(memory));
}
}  // namespace

std::shared_ptr<const PackedWeight> packed_weight(const Product& p, const Value& b, const void* plan, uint64_t run) {
  if (!gains_from_packed(p)) return nullptr;
  Storage& s = *b.storage;
  Registry& r = registry();
  const int64_t most = r.most.load(std::memory_order_relaxed);
  if (!most) return nullptr;
  const uint32_t storage = watch(s), version = s.version.load(std::memory_order_acquire);
  if (!storage) return nullptr;
  const Reading reading{b.offset, p.k, p.n, p.b_row, p.b_col, p.dtype, uses_avx512()};
  Given given;
  {
    const std::lock_guard hold(lock);
    Entry* e = r.find(storage, reading);
    const uint64_t now = ++r.clock;
    if (may_change_unseen(s)) {
      if (e) r.start_again(*e, given);
      return nullptr;
    }
    if (!e) e = &r.weights[storage].emplace_back(Entry{.reading = reading, .version = version});
    if (e->version != version) r.lose(*e, given), e->version = version;
    if (e->runs == 0) e->began = now;
    if (e->runs == 0 || e->plan != plan || e->run != run) ++e->runs, e->plan = plan, e->run = run;
    e->used = now;
    if (e->runs < e->wait || e->packing) return nullptr;
    if (std::find(e->plans.begin(), e->plans.end(), plan) == e->plans.end()) e->plans.push_back(plan);
    if (e->packed) {
      ++e->reads;
      frit::count(&Counters::packed_reads);
      return e->packed;
    }
    if (!r.make_room(int64_t(packed_right_bytes(p)), most, e->began, given)) {
      e->runs = 0;
      return nullptr;
    }
    e->packing = true;
  }
  std::shared_ptr<const PackedWeight> made;
  try {
    made = pack(p, b);
  } catch (const OutOfMemoryError&) {
  }
  const std::lock_guard hold(lock);
  Entry* const e = r.find(storage, reading);
  if (!e) return nullptr;  // cannot be: whoever runs the product holds the weight
  e->packing = false;
  if (!made) e->wait = std::min(e->wait * 4, longest_wait), e->runs = 0;
  if (!made || e->version != version || s.version.load(std::memory_order_acquire) != version || e->runs < e->wait || may_change_unseen(s)) {
    given.push_back(std::move(made));
    return nullptr;
  }
  e->packed = made;
  r.bytes += int64_t(made->memory().storage->bytes);
  e->reads = 1;
  frit::count(&Counters::packed_reads);
  return made;
}

void forget_packed_of(const void* plan) noexcept {
  Registry& r = registry();
  Given given;
  const std::lock_guard hold(lock);
  for (auto& [storage, entries] : r.weights)
    for (Entry& e : entries) {
      std::erase(e.plans, plan);
      if (e.packed && e.plans.empty()) r.start_again(e, given);
    }
}
void set_packed_weight_limit(int64_t bytes) {
  Registry& r = registry();
  Given given;
  const std::lock_guard hold(lock);
  r.most = bytes;
  for (auto& [storage, entries] : r.weights)
    for (Entry& e : entries) r.start_again(e, given);
}
int64_t packed_weight_bytes() {
  Registry& r = registry();
  const std::lock_guard hold(lock);
  return r.bytes;
}
void log_packed_weights() {
  Registry& r = registry();
  Given kept;
  const std::lock_guard hold(lock);
  for (const auto& [storage, entries] : r.weights)
    for (const Entry& e : entries)
      if (e.packed) log_use(e.packed->memory(), MemoryUse::packed);
}

}  // namespace frit::jit
