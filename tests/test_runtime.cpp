// The runtime floor: size classes, allocator, statistics, settings, log, device, processor.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>
#include <thread>
#include <unistd.h>
#include <catch2/catch.hpp>
#include "runtime/buffer.h"
#include "runtime/cpu.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "runtime/size_class.h"
#include "runtime/stats.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

using namespace frit;
using Catch::Matchers::Contains;

namespace {

int64_t resident_bytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

struct MemoryLimit {
  explicit MemoryLimit(int64_t bytes) { set_memory_limit(bytes); }
  ~MemoryLimit() { set_memory_limit(0); }
};

Settings with(std::initializer_list<std::pair<const char*, const char*>> environment) {
  return parse_settings([&](const char* name) -> const char* {
    for (const auto& [variable, value] : environment)
      if (!std::strcmp(variable, name)) return value;
    return nullptr;
  });
}

std::vector<std::string> lines;

}  // namespace

TEST_CASE("allocator: size classes hold what they promise") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const size_t bytes = i < 70000 ? size_t(i) : size_t(random() >> (18 + random() % 40));
    const unsigned c = size_class(bytes);
    REQUIRE(class_bytes(c) >= std::max<size_t>(bytes, 1));
    REQUIRE(class_bytes(c) % block_alignment == 0);
    if (c) REQUIRE(class_bytes(c - 1) < bytes);
    if (bytes > 512) REQUIRE(double(class_bytes(c)) <= double(bytes) * 1.125 + 64);
    REQUIRE(c < class_count);
  }
  for (unsigned c = 0; c < class_count; ++c) REQUIRE(size_class(class_bytes(c)) == c);
}

TEST_CASE("allocator: blocks are aligned, distinct, and hold their bytes") {
  struct Block {
    uint8_t* at;
    size_t bytes;
    uint8_t mark;
  };
  std::mt19937 random(2);
  std::vector<Block> live;
  const auto release = [&](size_t i) {
    for (size_t at : {size_t(0), live[i].bytes / 2, live[i].bytes - 1}) REQUIRE(live[i].at[at] == live[i].mark);
    deallocate(live[i].at, live[i].bytes);
    live[i] = live.back();
    live.pop_back();
  };
  for (int round = 0; round < 6000; ++round) {
    const size_t bytes = 1 + random() % (size_t(64) << random() % 15);
    auto* at = static_cast<uint8_t*>(allocate(bytes));
    REQUIRE(uintptr_t(at) % 64 == 0);
    const uint8_t mark = uint8_t(round * 37 + 11);
    std::memset(at, mark, bytes);
    live.push_back({at, bytes, mark});
    while (live.size() > 120 || (random() % 5 == 0 && !live.empty())) release(random() % live.size());
  }
  while (!live.empty()) release(live.size() - 1);
  void *a = allocate(0), *b = allocate(0);
  CHECK(a != nullptr);
  CHECK(a != b);
  deallocate(a, 0);
  deallocate(b, 0);
  deallocate(nullptr, 64);
}

TEST_CASE("allocator: statistics are exact on one thread") {
  release_cached_memory();
  reset_memory_peak();
  const MemoryStats start = memory_stats();
  CHECK(start.peak == start.current);
  void* a = allocate(100);
  void* b = allocate(3000000);
  CHECK(memory_stats().current == start.current + 3000100);
  deallocate(b, 3000000);
  void* c = allocate(5000);
  CHECK(memory_stats().current == start.current + 5100);
  CHECK(memory_stats().peak == start.current + 3000100);
  CHECK(memory_stats().allocations == start.allocations + 3);
  reset_memory_peak();
  CHECK(memory_stats().peak == start.current + 5100);
  deallocate(c, 5000);
  for (int i = 0; i < 1000; ++i) deallocate(allocate(64), 64);
  CHECK(memory_stats().peak == start.current + 5100);
  const MemoryStats now = memory_stats();
  CHECK(now.allocations == start.allocations + 1003);
  CHECK(now.cache_hits >= start.cache_hits + 999);
  CHECK(now.fragmentation == Approx(1 - double(now.current) / double(now.reserved)));
  deallocate(a, 100);
  CHECK(memory_stats().current == start.current);
}

TEST_CASE("allocator: free blocks are used again") {
  for (size_t bytes : {size_t(64), size_t(30000), size_t(100000), size_t(9) << 20}) {
    void* a = allocate(bytes);
    deallocate(a, bytes);
    const int64_t reserved = memory_stats().reserved;
    void* b = allocate(bytes - bytes / 64);
    CHECK(a == b);
    CHECK(memory_stats().reserved == reserved);
    deallocate(b, bytes - bytes / 64);
  }
}

TEST_CASE("allocator: released memory goes back to the system") {
  release_cached_memory();
  const int64_t reserved = memory_stats().reserved, resident = resident_bytes();
  std::vector<std::pair<void*, size_t>> blocks;
  const auto fill = [&](size_t bytes, int count) {
    for (int i = 0; i < count; ++i) {
      blocks.push_back({allocate(bytes), bytes});
      std::memset(blocks.back().first, 1, bytes);
    }
  };
  fill(size_t(40) << 20, 1);
  fill(size_t(1) << 20, 40);
  fill(1000, 40000);
  CHECK(resident_bytes() - resident > 100 << 20);
  for (auto& [block, bytes] : blocks) deallocate(block, bytes);
  CHECK(memory_stats().reserved - reserved > 100 << 20);
  release_cached_memory();
  CHECK(memory_stats().reserved == reserved);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep freed memory themselves
  CHECK(resident_bytes() - resident < 10 << 20);
#endif
}

TEST_CASE("allocator: memory that held one size holds the next, and what is free lies together") {
  release_cached_memory();
  const int64_t reserved = memory_stats().reserved;
  std::mt19937 random(7);
  int64_t most = 0;
  for (int shape = 0; shape < 200; ++shape) {  // a step of a program whose sizes never come again
    std::vector<std::pair<unsigned char*, size_t>> blocks;
    int64_t bytes = 0;
    while (bytes < int64_t(40) << 20) {
      const size_t size = (40 << 10) + random() % (3 << 20);
      blocks.push_back({static_cast<unsigned char*>(allocate(size)), size});
      blocks.back().first[0] = blocks.back().first[size - 1] = static_cast<unsigned char>(blocks.size());
      bytes += int64_t(size);
      if (random() % 3 == 0) {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        bytes -= int64_t(blocks.back().second);
        deallocate(blocks.back().first, blocks.back().second);
        blocks.pop_back();
      }
    }
    int damaged = 0;
    for (auto& [block, size] : blocks) damaged += block[0] != block[size - 1];
    CHECK(damaged == 0);
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (auto& [block, size] : blocks) deallocate(block, size);
    most = std::max(most, memory_stats().reserved - reserved);
  }
  CHECK(most < int64_t(64) << 20);
  const int64_t held = memory_stats().reserved;
  void* whole = allocate(size_t(held - reserved) / 2);  // the rests of all shapes have become one
  CHECK(memory_stats().reserved == held);
  deallocate(whole, size_t(held - reserved) / 2);
  release_cached_memory();
  CHECK(memory_stats().reserved == reserved);
}

TEST_CASE("allocator: free pages between blocks in use go back on request, and serve again") {
  release_cached_memory();
  const int64_t resident = resident_bytes();
  std::vector<unsigned char*> blocks;
  constexpr size_t size = size_t(1) << 20;
  for (int i = 0; i < 64; ++i) std::memset(blocks.emplace_back(static_cast<unsigned char*>(allocate(size))), i, size);
  const int64_t held = memory_stats().reserved;
  for (int i = 1; i < 64; i += 2) deallocate(blocks[size_t(i)], size);
  release_cached_memory();
  CHECK(held - memory_stats().reserved > int64_t(28) << 20);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(resident_bytes() - resident < int64_t(40) << 20);
#endif
  for (int i = 1; i < 64; i += 2) std::memset(blocks[size_t(i)] = static_cast<unsigned char*>(allocate(size)), i, size);
  int damaged = 0;
  for (int i = 0; i < 64; ++i) {
    for (size_t at = 0; at < size; at += 4093) damaged += blocks[size_t(i)][at] != i;
    deallocate(blocks[size_t(i)], size);
  }
  CHECK(damaged == 0);
  release_cached_memory();
}

TEST_CASE("allocator: freed sizes that do not come back do not pile up") {
  release_cached_memory();
  const int64_t reserved = memory_stats().reserved;
  for (size_t mib = 10; mib < 200; ++mib) deallocate(allocate(mib << 20), mib << 20);  // touched by nobody: costs no pages
  CHECK(memory_stats().reserved - reserved < int64_t(600) << 20);
  release_cached_memory();
}

#ifdef __SANITIZE_ADDRESS__
TEST_CASE("allocator: the address sanitizer sees what lies beyond a block, and blocks that wait in a cache") {
  for (size_t bytes : {size_t(1), size_t(100), size_t(5000), size_t(200001)}) {
    auto* block = static_cast<char*>(allocate(bytes));
    CHECK(!__asan_region_is_poisoned(block, bytes));
    CHECK(__asan_address_is_poisoned(block + bytes));
    deallocate(block, bytes);
    CHECK(__asan_address_is_poisoned(block));
    CHECK(__asan_address_is_poisoned(block + bytes - 1));
  }
}
#endif

TEST_CASE("allocator: many threads, blocks freed by others, caches given back at the end") {
  release_cached_memory();
  const MemoryStats start = memory_stats();
  constexpr int threads = 4, rounds = 20000;
  std::mutex mutex;
  std::vector<std::pair<uint32_t*, size_t>> shared;
  std::atomic<int> damaged{0};
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < rounds; ++i) {
      const size_t bytes = 4 + random() % (i % 50 == 0 ? 100000 : 3000);
      auto* block = static_cast<uint32_t*>(allocate(bytes));
      *block = uint32_t(bytes) * 2654435761u;
      std::lock_guard lock(mutex);
      shared.push_back({block, bytes});
      if (shared.size() < 64) continue;
      std::swap(shared[random() % shared.size()], shared.back());
      damaged += *shared.back().first != uint32_t(shared.back().second) * 2654435761u;
      deallocate(shared.back().first, shared.back().second);
      shared.pop_back();
    }
  };
  std::vector<std::thread> pool;
  for (unsigned i = 0; i < threads; ++i) pool.emplace_back(work, i);
  for (auto& t : pool) t.join();
  int64_t left = 0;
  for (auto& [block, bytes] : shared) left += int64_t(bytes);
  CHECK(damaged == 0);
  CHECK(memory_stats().current == start.current + left);
  CHECK(memory_stats().peak >= memory_stats().current);
  CHECK(memory_stats().allocations == start.allocations + threads * rounds);
  for (auto& [block, bytes] : shared) deallocate(block, bytes);
  CHECK(memory_stats().current == start.current);
  release_cached_memory();
  CHECK(memory_stats().reserved == start.reserved);
}

TEST_CASE("allocator: blocks that outlive their thread, and destructors that run after its cache is gone") {
  struct Late {
    void* block = nullptr;
    ~Late() {
      deallocate(block, 128);
      deallocate(allocate(256), 256);
    }
  };
  const MemoryStats start = memory_stats();
  void* kept = nullptr;
  std::thread([&] {
    static thread_local Late late;  // constructed first, so destroyed after the allocator's own
    late.block = allocate(128);
    kept = allocate(1000);
  }).join();
  CHECK(memory_stats().current == start.current + 1000);
  CHECK(memory_stats().allocations == start.allocations + 3);
  deallocate(kept, 1000);
  CHECK(memory_stats().current == start.current);
}

TEST_CASE("allocator: the limit, and what the error says") {
  release_cached_memory();
  void* held = allocate(size_t(8) << 20);
  const int64_t reserved = memory_stats().reserved;
  {
    MemoryLimit limit(reserved + (20 << 20));
    CHECK_THROWS_AS(allocate(size_t(24) << 20), OutOfMemoryError);  // more than the limit allows, and than what is free beside `held`
    CHECK_THROWS_WITH(allocate(size_t(30) << 20), Contains("out of memory: 30.0 MiB asked for") &&
                                                      Contains("held (8.0 MiB in tensors") && Contains("limit FRIT_MEMORY_LIMIT = "));
    CHECK(memory_stats().reserved <= reserved);  // free pages beside `held` may have gone
    // Cached blocks of another size make room.
    deallocate(allocate(size_t(16) << 20), size_t(16) << 20);
    void* other = allocate(size_t(12) << 20);
    CHECK(memory_stats().reserved >= reserved + (12 << 20));
    CHECK(memory_stats().reserved <= reserved + (20 << 20));
    deallocate(other, size_t(12) << 20);
  }
  void* now_allowed = allocate(size_t(21) << 20);
  deallocate(now_allowed, size_t(21) << 20);
  CHECK_THROWS_WITH(allocate(SIZE_MAX / 2), Contains("out of memory") && Contains("asked for"));
  CHECK_THROWS_AS(allocate(SIZE_MAX), OutOfMemoryError);
  deallocate(held, size_t(8) << 20);
}

TEST_CASE("statistics: counted from many threads, printed, subtracted") {
  const Stats before = stats_snapshot();
  std::vector<std::thread> pool;
  for (int i = 0; i < 4; ++i)
    pool.emplace_back([] {
      for (int n = 0; n < 10000; ++n) count(&Counters::kernels_launched);
      count(&Counters::bytes_read, 4096);
    });
  for (auto& t : pool) t.join();
  const Stats done = stats_snapshot() - before;
  CHECK(done.kernels_launched == 40000);
  CHECK(done.bytes_read == 16384);
  CHECK(done.flushes == 0);
  CHECK(done.text() ==
        "kernels_launched: 40000 (kernel launches, eager ones included)\n"
        "bytes_read: 16384 (bytes that kernels read, from their arguments)\n");
}

TEST_CASE("settings: defaults and good values") {
  const Settings standard = with({});
  CHECK(standard.mode == "automatic");
  CHECK(standard.threads == 0);
  CHECK(standard.memory_limit == 0);
  CHECK(standard.log.empty());
  CHECK(!standard.perf);
  const Settings s = with({{"FRIT_MODE", "eager"}, {"FRIT_THREADS", "3"}, {"FRIT_LOG", "trace,cache"}, {"FRIT_MEMORY_LIMIT", "3g"},
                           {"FRIT_PERF", "1"}});
  CHECK(s.mode == "eager");
  CHECK(s.threads == 3);
  CHECK(s.log == std::vector<std::string>{"trace", "cache"});
  CHECK(s.memory_limit == int64_t(3) << 30);
  CHECK(s.perf);
  CHECK(with({{"FRIT_MEMORY_LIMIT", "1000"}}).memory_limit == 1000);
  CHECK(with({{"FRIT_MEMORY_LIMIT", "7K"}}).memory_limit == 7168);
  CHECK(with({{"FRIT_MODE", ""}}).mode == "automatic");
}

TEST_CASE("settings: a bad value names the variable, the value and what is allowed") {
  CHECK_THROWS_WITH(with({{"FRIT_MODE", "fast"}}), Contains("FRIT_MODE=fast: expected one of automatic, eager"));
  CHECK_THROWS_WITH(with({{"FRIT_LOG", "trace,nothing"}}),
                    Contains("FRIT_LOG=trace,nothing: expected a comma-separated list of trace, fusion"));
  CHECK_THROWS_WITH(with({{"FRIT_PERF", "yes"}}), Contains("FRIT_PERF=yes: expected 0 or 1"));
  for (const char* bad : {"-1", "two", "1.5", "3 ", "99999999999999999999", "+1"})
    CHECK_THROWS_AS(with({{"FRIT_THREADS", bad}}), ValueError);
  for (const char* bad : {"-1", "G", "1GB", "1X", "9999999999G", "1 G"}) {
    INFO(bad);
    CHECK_THROWS_AS(with({{"FRIT_MEMORY_LIMIT", bad}}), ValueError);
  }
}

TEST_CASE("settings: the table lists every setting with its origin") {
  setenv("FRIT_SEED", "42", 1);
  setenv("FRIT_SPEED", "9", 1);
  const auto rows = setting_rows();
  const auto row = [&](const std::string& name) {
    return *std::find_if(rows.begin(), rows.end(), [&](const SettingRow& r) { return r.name == name; });
  };
  CHECK(row("FRIT_SEED").from_environment);
  CHECK(row("FRIT_SEED").value == "42");
  CHECK(row("FRIT_SEED").standard == "0");
  const std::string text = settings_text();
  for (const auto& r : rows) CHECK_THAT(text, Contains(r.name + "=") && Contains(r.help));
  CHECK_THAT(text, Contains("FRIT_SEED=42  (environment; default 0)") && Contains("FRIT_SPEED is set, but no such setting exists"));
  unsetenv("FRIT_SEED");
  unsetenv("FRIT_SPEED");
}

TEST_CASE("settings: the README's table lists them all, with their defaults") {
  std::ifstream in(std::string(FRIT_SOURCE_DIR) + "/README.md");
  const std::string readme{std::istreambuf_iterator<char>(in), {}};
  for (const auto& row : setting_rows()) {
    const std::string standard = row.standard.empty() ? "| |" : "| `" + row.standard + "` |";
    CHECK_THAT(readme, Contains("| `" + row.name + "` " + standard));
  }
}

TEST_CASE("log: categories, and text that is not built when nobody reads it") {
  lines.clear();
  set_log_sink([](const std::string& line) { lines.push_back(line); });
  int built = 0;
  const auto text = [&] { return "line " + std::to_string(++built); };
  set_log_category(LogCategory::fusion, false);
  FRIT_LOG_LINE(fusion, text());
  CHECK(built == 0);
  set_log_category(LogCategory::fusion, true);
  FRIT_LOG_LINE(fusion, text());
  FRIT_LOG_LINE(cache, text());
  log_warning("careful");
  set_log_category(LogCategory::fusion, false);
  FRIT_LOG_LINE(fusion, text());
  set_log_sink(nullptr);
  CHECK(lines == std::vector<std::string>{"[frit fusion] line 1\n", "[frit warning] careful\n"});
}

TEST_CASE("devices compare and print") {
  CHECK(Device() == Device(kCPU));
  CHECK(Device(kCPU).str() == "cpu");
  CHECK(Device(kCUDA).str() == "cuda");
  CHECK(Device(kCUDA, 1).str() == "cuda:1");
  CHECK(Device(kCUDA, 1) != Device(kCUDA, 0));
  CHECK(Device(kCUDA).is_cuda());
}

TEST_CASE("the processor is described") {
  const CpuInfo& cpu = cpu_info();
  CHECK(!cpu.name.empty());
  CHECK(cpu.cores >= 1);
  CHECK(cpu.l1_bytes >= 8 << 10);
  CHECK(cpu.l2_bytes >= cpu.l1_bytes);
  __builtin_cpu_init();
  CHECK(cpu.avx2 == bool(__builtin_cpu_supports("avx2")));
  CHECK(cpu.fma == bool(__builtin_cpu_supports("fma")));
  CHECK(cpu.avx512 == (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512vl")));
  CHECK_THAT(cpu.text(), Contains(cpu.name) && Contains("KiB"));
}
