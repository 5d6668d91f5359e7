// The CPU launcher on oneTBB. Start at parallel_for. The structure: a Pool is an arena of n threads with the limit on
// workers that goes with it; the current one is published by pointer, pools are kept for ever (one per thread count that was
// ever set), and oneTBB is not touched before the first loop that is really split.
#include "runtime/launch.h"
#include <pthread.h>
#include <xmmintrin.h>
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include "runtime/cpu.h"
#include "runtime/settings.h"

namespace frit {
namespace {

std::atomic<int> thread_count{0};  // 0: not asked yet
thread_local bool inside = false;  // this thread runs the body of a loop
std::atomic<bool> alone{false};    // a forked child: oneTBB's workers stayed with the parent

struct Pools {
  std::mutex mutex;
  std::map<int, std::unique_ptr<tbb::task_arena>> arenas;
  std::optional<tbb::global_control> limit;  // oneTBB starts no more workers than processors unless told to
  std::atomic<tbb::task_arena*> current{nullptr};
  std::atomic<int> current_threads{0};
};

Pools& pools() {
  static Pools* p = new Pools;
  return *p;
}

tbb::task_arena& arena_of(int threads) {
  Pools& p = pools();
  static const int registered = pthread_atfork(nullptr, nullptr, [] { alone = true; });
  (void)registered;
  if (p.current_threads.load(std::memory_order_acquire) == threads) return *p.current.load(std::memory_order_acquire);
  std::lock_guard lock(p.mutex);
  auto& arena = p.arenas[threads];
  if (!arena) arena = std::make_unique<tbb::task_arena>(threads, 1);
  p.limit.reset();
  p.limit.emplace(tbb::global_control::max_allowed_parallelism, size_t(threads));
  p.current.store(arena.get(), std::memory_order_release);
  p.current_threads.store(threads, std::memory_order_release);
  return *arena;
}

// Round to nearest, denormals kept, exceptions masked; sticky exception flags are left alone.
class DefaultFloatMode {
 public:
  DefaultFloatMode() : saved_(_mm_getcsr()), changed_((saved_ & 0xffc0) != 0x1f80) {
    if (changed_) _mm_setcsr(0x1f80);
  }
  ~DefaultFloatMode() {
    if (changed_) _mm_setcsr(saved_);
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;

 private:
  const unsigned saved_;
  const bool changed_;
};

struct Inside {
  Inside() { inside = true; }
  ~Inside() { inside = false; }
};

void split(int64_t count, int64_t grain, int64_t pieces, int threads, const RangeBody& body) {
  const auto run = [&](const tbb::blocked_range<int64_t>& pieces_here) {
    Inside mark;
    DefaultFloatMode mode;
    body(pieces_here.begin() * grain, pieces_here.end() == pieces ? count : pieces_here.end() * grain);
  };
  // Isolated: a thread that waits for this loop must not pick up another caller's work, for it may hold locks or buffers.
  arena_of(threads).execute([&] {
    tbb::this_task_arena::isolate([&] { tbb::parallel_for(tbb::blocked_range<int64_t>(0, pieces, 1), run); });
  });
}

}  // namespace

int num_threads() {
  int n = thread_count.load(std::memory_order_relaxed);
  if (n) return n;
  int unset = 0;
  const int64_t wanted = settings().threads;
  thread_count.compare_exchange_strong(unset, wanted > 0 ? int(std::min<int64_t>(wanted, 1 << 16)) : cpu_info().cores);
  return thread_count.load(std::memory_order_relaxed);
}

void set_num_threads(int n) {
  if (n < 1) throw std::invalid_argument("set_num_threads: the number of threads must be at least 1, but got " + std::to_string(n));
  thread_count = n;
}

void parallel_for(int64_t count, int64_t grain, RangeBody body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(1, grain);
  const int threads = inside || count <= grain || alone.load(std::memory_order_relaxed) ? 1 : num_threads();
  if (threads > 1) return split(count, grain, count / grain + (count % grain != 0), threads, body);
  DefaultFloatMode mode;
  body(0, count);
}

}  // namespace frit
