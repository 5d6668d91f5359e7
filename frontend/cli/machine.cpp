// Measures the machine: copies (read and write counted), and independent chains of multiply-adds in registers; the best of several
// rounds, by as many threads at once as asked for. Start at measure_machine.
#include "frontend/cli/machine.h"
#include <immintrin.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>
#include "runtime/cpu.h"

namespace frit::cli {

namespace {
using Clock = std::chrono::steady_clock;

// Runs work(thread) on all threads at once; the wall time from their common start to the last one's end.
double together(int threads, const std::function<void(int)>& work) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back([&, i] {
      ++ready;
      while (!go) std::this_thread::yield();
      work(i);
    });
  while (ready < threads - 1) std::this_thread::yield();
  const auto start = Clock::now();
  go = true;
  work(0);
  for (std::thread& t : others) t.join();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

__attribute__((target("avx2,fma"))) float multiply_adds(int64_t rounds) {
  constexpr int chains = 12;  // enough to hide the latency of two units
  __m256 sum[chains];
  for (int i = 0; i < chains; ++i) sum[i] = _mm256_set1_ps(float(i));
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) {
      sum[i] = _mm256_fmadd_ps(sum[i], a, b);
      __asm__("" : "+x"(sum[i]));
    }
  }
  __m256 all = sum[0];
  for (int i = 1; i < chains; ++i) all = _mm256_add_ps(all, sum[i]);
  return _mm256_cvtss_f32(all);
}
__attribute__((target("avx2"))) void copy_past_caches(char* to, const char* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i)));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 32), _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i + 32)));
  }
  _mm_sfence();
}

struct Free { void operator()(char* p) const { std::free(p); } };
using Bytes = std::unique_ptr<char, Free>;
Bytes touched(size_t bytes) {
  Bytes b(static_cast<char*>(std::aligned_alloc(64, bytes)));
  std::memset(b.get(), 1, bytes);
  return b;
}
// With ordinary stores, and, where asked for, with stores past the caches too.
double copy_rate(int threads, size_t bytes, int repeat, bool both_ways) {
  std::vector<Bytes> from, to;
  for (int i = 0; i < threads; ++i) from.push_back(touched(bytes)), to.push_back(touched(bytes));
  double best = 0;
  for (int round = 0; round < 6; ++round) {
    const bool past_caches = both_ways && round % 2;
    const double s = together(threads, [&](int i) {
      for (int r = 0; r < repeat; ++r) {
        if (past_caches) copy_past_caches(to[size_t(i)].get(), from[size_t(i)].get(), bytes);
        else std::memcpy(to[size_t(i)].get(), from[size_t(i)].get(), bytes);
        __asm__ volatile("" : : "r"(to[size_t(i)].get()) : "memory");
      }
    });
    best = std::max(best, 2.0 * double(bytes) * repeat * threads / s);
  }
  return best;
}
}  // namespace

MachineLimits measure_machine(int threads) {
  const CpuInfo& cpu = cpu_info();
  MachineLimits m;
  m.threads = std::max(1, threads);
  const size_t far = size_t(std::clamp<int64_t>(4 * cpu.l3_bytes, 64 << 20, 128 << 20)) / size_t(m.threads) & ~size_t(63);
  const size_t near = size_t(cpu.l2_bytes / 4) & ~size_t(63);
  m.memory_bandwidth = copy_rate(m.threads, far, 1, cpu.avx2);
  m.cache_bandwidth = copy_rate(m.threads, std::max<size_t>(near, 4096), int(std::max<size_t>(1, (8 << 20) / near)), false);
  if (cpu.avx2 && cpu.fma) {
    constexpr int64_t rounds = 400000;
    volatile float keep = 0;
    for (int i = 0; i < 5; ++i) {
      const double s = together(m.threads, [&](int) { keep = multiply_adds(rounds); });
      m.flops = std::max(m.flops, double(rounds) * 12 * 8 * 2 * m.threads / s);
    }
  }
  return m;
}

}  // namespace frit::cli
