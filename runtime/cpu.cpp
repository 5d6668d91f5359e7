// Asks the processor (CPUID) and the system (sysconf, the affinity mask). Start at detect.
#include "runtime/cpu.h"
#include <cpuid.h>
#include <sched.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cstring>
#include "runtime/settings.h"

namespace frit {
namespace {

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf) {
  Registers r;
  __get_cpuid_count(leaf, 0, &r.a, &r.b, &r.c, &r.d);
  return r;
}

bool bit(unsigned word, int n) { return word >> n & 1; }

// The register states that the system saves (XCR0).
unsigned saved_states() {
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

std::string processor_name() {
  if (cpuid(0x80000000).a < 0x80000004) return "x86-64";
  char text[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    const Registers r = cpuid(0x80000002 + i);
    std::memcpy(text + 16 * i, &r, 16);
  }
  std::string name = text;
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  name.erase(name.find_last_not_of(' ') + 1);
  return name.empty() ? "x86-64" : name;
}

int64_t cache_bytes(int query, int64_t usual) {
  const long bytes = sysconf(query);
  return bytes > 0 ? bytes : usual;
}

int processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

CpuInfo detect() {
  CpuInfo info;
  info.name = processor_name();
  const Registers basic = cpuid(1), extended = cpuid(7);
  const unsigned saved = bit(basic.c, 27) ? saved_states() : 0;
  const bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xe6) == 0xe6;
  info.avx2 = ymm && bit(extended.b, 5);
  info.fma = ymm && bit(basic.c, 12);
  info.f16c = ymm && bit(basic.c, 29);
  info.avx512 = zmm && bit(extended.b, 16) && bit(extended.b, 17) && bit(extended.b, 30) && bit(extended.b, 31);
  info.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
  info.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 512 << 10);
  info.l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 8 << 20);
  info.cores = processors();
  return info;
}

}  // namespace

std::string CpuInfo::text() const {
  std::string s = name + ", " + std::to_string(cores) + (cores == 1 ? " core" : " cores");
  for (const auto& [on, label] : {std::pair{avx2, "AVX2"}, {fma, "FMA"}, {f16c, "F16C"}, {avx512, "AVX-512"}})
    if (on) s += std::string(", ") + label;
  const auto kib = [](int64_t bytes) { return std::to_string(bytes >> 10) + " KiB"; };
  return s + "; caches " + kib(l1_bytes) + ", " + kib(l2_bytes) + ", " + kib(l3_bytes);
}

const CpuInfo& cpu_info() {
  static const CpuInfo* info = new CpuInfo(detect());
  return *info;
}

namespace {
std::atomic<int> avx512_used{-1};  // -1: the setting has not been read yet
}

bool uses_avx512() {
  const int known = avx512_used.load(std::memory_order_relaxed);
  if (known >= 0) return known != 0;
  use_avx512(settings().isa != "avx2");
  return uses_avx512();
}

void use_avx512(bool on) { avx512_used.store(on && cpu_info().avx512, std::memory_order_relaxed); }

void assume_avx512() { avx512_used.store(1, std::memory_order_relaxed); }

}  // namespace frit
