// The cache of single-op kernels and their launch. A lookup goes through a small table of the thread's own (no lock), then
// the process's cache. Start at find.
#include "jit/eager_kernels.h"
#include <algorithm>
#include <chrono>
#include <climits>
#include "jit/kernel_store.h"
#include "jit/run_log.h"
#include "runtime/kernel_cache.h"
#include "runtime/launch.h"
#include "runtime/log.h"
#include "runtime/stats.h"

namespace frit::jit {

namespace {
KernelCache& cache() {
  static KernelCache* c = new KernelCache(1 << 16);  // never destroyed: a static Tensor may die last
  return *c;
}

template <class Spec> uint64_t hash(const Spec& s) {
  uint64_t h = 0x9e3779b97f4a7c15;
  unsigned char bytes[(sizeof(Spec) + 7) / 8 * 8] = {};
  std::memcpy(bytes, &s, sizeof s);
  for (size_t i = 0; i < sizeof bytes; i += 8) {
    uint64_t w;
    std::memcpy(&w, bytes + i, 8);
    h = (h ^ w) * 0xff51afd7ed558ccd;
    h ^= h >> 32;
  }
  return h;
}

template <class Spec> kernels::Program lower(const Spec& s) {
  if constexpr (std::is_same_v<Spec, ElementSpec>) return lower_elements(s);
  else if constexpr (std::is_same_v<Spec, ReduceSpec>) return lower_reduce(s);
  else return lower_index(s);
}

template <class Spec> std::shared_ptr<CpuKernel> create(const Spec& s) {
  char key[1 + sizeof(Spec)];
  key[0] = std::is_same_v<Spec, ElementSpec> ? 'e' : std::is_same_v<Spec, ReduceSpec> ? 'r' : 'i';
  std::memcpy(key + 1, &s, sizeof s);
  return std::static_pointer_cast<CpuKernel>(cache().find_or_create({key, sizeof key}, [&]() -> std::shared_ptr<void> {
    const auto start = std::chrono::steady_clock::now();
    bool loaded;
    std::shared_ptr<CpuKernel> k = load_or_compile(key[0], {key + 1, sizeof(Spec)}, [&] { return lower(s); }, loaded);
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
    if (!loaded) count(&Counters::eager_kernels);
    count(&Counters::compile_ns, ns);
    count(&Counters::cache_bytes, k->code_bytes);
    log_compile("eager kernel " + k->name, start, k->code_bytes, loaded);
    return k;
  }));
}

template <class Spec> const CpuKernel& find(const Spec& s) {
  struct Entry {
    Spec spec;
    std::shared_ptr<CpuKernel> kernel;
  };
  constexpr size_t size = 256;
  static thread_local Entry table[size];
  Entry& e = table[hash(s) % size];
  if (e.kernel && e.spec == s) [[likely]] return *e.kernel;
  e.kernel = create(s);
  e.spec = s;
  return *e.kernel;
}
}  // namespace

const CpuKernel& find_kernel(const ElementSpec& s) { return find(s); }
const CpuKernel& find_kernel(const ReduceSpec& s) { return find(s); }
const CpuKernel& find_kernel(const IndexSpec& s) { return find(s); }

void launch(const CpuKernel& k, const kernels::Slot* args, int64_t instances, int64_t lanes, int64_t cost) {
  constexpr int64_t worth = 1 << 15;  // elements below which a second thread costs more than it brings
  count(&Counters::kernels_launched);
  const int64_t work = instances * std::max<int64_t>(lanes, 1) * cost;
  if (work < 2 * worth || num_threads() == 1 || (k.ordered && !k.lane_split)) {
    k.run(args, 0, instances);
  } else if (instances >= 2 * num_threads() && !k.ordered) {
    const int64_t grain = std::max<int64_t>(1, worth / std::max<int64_t>(1, lanes * cost));
    parallel_for(instances, grain, [&](int64_t begin, int64_t end) { k.run(args, begin, end); });
  } else if (k.lane_split) {
    const int64_t grain = std::max<int64_t>(64, worth / std::max<int64_t>(1, instances * cost) / 64 * 64);
    parallel_for(lanes, grain, [&](int64_t begin, int64_t end) { k.run(args, 0, instances, begin, end); });
  } else {
    parallel_for(instances, 1, [&](int64_t begin, int64_t end) { k.run(args, begin, end); });
  }
}

}  // namespace frit::jit
