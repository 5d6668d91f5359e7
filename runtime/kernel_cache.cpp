// A hash map of keys to slots under one lock; a slot being filled is marked, and those who want it wait on it. Slots are in a
// list by last use.
#include "runtime/kernel_cache.h"
#include <condition_variable>
#include <list>
#include <mutex>
#include <unordered_map>

namespace frit {

struct KernelCache::State {
  struct Slot {
    std::string key;
    std::shared_ptr<void> value;  // null while it is being made
  };
  size_t capacity;
  mutable std::mutex lock;
  std::condition_variable filled;
  std::list<Slot> slots;  // most recently used first
  std::unordered_map<std::string_view, std::list<Slot>::iterator> index;
  KernelCacheStats stats;

  void evict() {
    for (auto at = slots.end(); slots.size() > capacity && at != slots.begin();) {
      --at;
      if (!at->value) continue;  // somebody waits for it
      index.erase(at->key);
      at = slots.erase(at);
      ++stats.evicted;
    }
  }
};

KernelCache::KernelCache(size_t capacity) : state_(std::make_unique<State>()) { state_->capacity = capacity; }
KernelCache::~KernelCache() = default;

std::shared_ptr<void> KernelCache::find_or_create(std::string_view key, const std::function<std::shared_ptr<void>()>& create) {
  State& s = *state_;
  std::unique_lock hold(s.lock);
  for (;;) {
    const auto at = s.index.find(key);
    if (at == s.index.end()) break;
    if (at->second->value) {
      s.slots.splice(s.slots.begin(), s.slots, at->second);
      ++s.stats.hits;
      return s.slots.front().value;
    }
    s.filled.wait(hold);
  }
  ++s.stats.misses;
  s.slots.push_front({std::string(key), nullptr});
  const auto mine = s.slots.begin();
  s.index.emplace(mine->key, mine);
  hold.unlock();
  std::shared_ptr<void> made;
  try {
    made = create();
  } catch (...) {
    hold.lock();
    s.index.erase(mine->key);
    s.slots.erase(mine);
    s.filled.notify_all();
    throw;
  }
  hold.lock();
  mine->value = made;
  s.evict();
  s.filled.notify_all();
  return made;
}
std::shared_ptr<void> KernelCache::find(std::string_view key) {
  State& s = *state_;
  const std::lock_guard hold(s.lock);
  const auto at = s.index.find(key);
  if (at == s.index.end() || !at->second->value) return nullptr;
  s.slots.splice(s.slots.begin(), s.slots, at->second);
  ++s.stats.hits;
  return s.slots.front().value;
}
void KernelCache::clear() {
  const std::lock_guard hold(state_->lock);
  for (auto at = state_->slots.begin(); at != state_->slots.end();)
    if (at->value) {
      state_->index.erase(at->key);
      at = state_->slots.erase(at);
    } else {
      ++at;
    }
}
KernelCacheStats KernelCache::stats() const {
  const std::lock_guard hold(state_->lock);
  KernelCacheStats s = state_->stats;
  s.entries = int64_t(state_->slots.size());
  return s;
}

}  // namespace frit
