// The in-memory cache of compiled kernels: from a key (bytes that hold all that changes the code) to whatever was made for
// it. One creation per key however many threads ask; bounded, the least recently used leave; counted.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace frit {

struct KernelCacheStats {
  int64_t hits = 0, misses = 0, evicted = 0, entries = 0;
};

class KernelCache {
 public:
  explicit KernelCache(size_t capacity);
  ~KernelCache();
  // The entry for the key; when there is none, `create` is called by one thread while others that want the same key wait.
  // An exception of create reaches its caller; the next who asks tries again.
  std::shared_ptr<void> find_or_create(std::string_view key, const std::function<std::shared_ptr<void>()>& create);
  std::shared_ptr<void> find(std::string_view key);  // null when there is none, or it is being made
  void clear();
  KernelCacheStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace frit
