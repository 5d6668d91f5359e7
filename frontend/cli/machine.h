// What this machine can do at best, measured: bandwidth of memory and caches, multiply-add rate.
#pragma once
#include <cstdint>

namespace frit::cli {

struct MachineLimits {
  int threads = 1;
  double memory_bandwidth = 0, cache_bandwidth = 0;  // bytes a second, read and written together: far beyond the last cache; within the second
  double flops = 0;                                  // float32 multiply and add counted as two
};
MachineLimits measure_machine(int threads);  // takes some tenths of a second

}  // namespace frit::cli
