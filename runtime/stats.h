// What the process has done so far, counted. Adding is one relaxed atomic operation; tests and users read a snapshot.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace frit {

// name, what it counts
#define FRIT_FOR_EACH_COUNTER(X)                                                         \
  X(eager_ops, "ops run one by one")                                                     \
  X(eager_kernels, "single-op kernels compiled for eager ops")                           \
  X(kernels_launched, "kernel launches, eager ones included")                            \
  X(kernels_compiled, "kernels compiled for plans")                                      \
  X(library_calls, "calls of matrix products and other steps that are no block program") \
  X(plans_compiled, "traces compiled to plans")                                          \
  X(plan_hits, "flushes that found their plan")                                          \
  X(recompiles, "plans compiled for a structure that had one")                           \
  X(flushes, "flushes of a trace")                                                       \
  X(tier0_flushes, "of those, run op by op")                                             \
  X(compile_ns, "nanoseconds spent compiling")                                           \
  X(waited_compile_ns, "of these for plans and fused kernels, while the program waited")  \
  X(cache_bytes, "bytes of machine code held")                                           \
  X(disk_hits, "kernels taken from the cache on disk")                                   \
  X(tier2_kernels, "kernels compiled for one shape, to be tried")                        \
  X(tier2_kept, "of those, kept: at least 3 % faster than the bucket's kernel")          \
  X(ops_followed, "recorded ops that were compared with a known trace, not inferred")   \
  X(frozen_calls, "calls of frozen functions that did not run them")                     \
  X(evicted, "plans and kernels dropped from full caches")                               \
  X(weights_packed, "weights laid out for products once, to be kept while they do not change") \
  X(packed_reads, "products that read one that was kept")                                 \
  X(bytes_read, "bytes that kernels read, from their arguments")                         \
  X(bytes_written, "bytes that kernels wrote")

struct Stats {
#define X(name, help) int64_t name = 0;
  FRIT_FOR_EACH_COUNTER(X)
#undef X
  Stats operator-(const Stats& earlier) const;
  bool operator==(const Stats&) const = default;
  std::string text() const;  // one line per counter that is not zero
};

struct Counters {
#define X(name, help) std::atomic<int64_t> name{0};
  FRIT_FOR_EACH_COUNTER(X)
#undef X
};
extern Counters counters;

inline void count(std::atomic<int64_t> Counters::*counter, int64_t n = 1) {
  (counters.*counter).fetch_add(n, std::memory_order_relaxed);
}
Stats stats_snapshot();

}  // namespace frit
