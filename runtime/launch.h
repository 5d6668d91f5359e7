// The CPU launcher: splits an index range over threads. The only place that knows oneTBB.
#pragma once
#include <cstdint>
#include <functional>

namespace frit {

int num_threads();                // threads that parallel_for may use, the caller included
void set_num_threads(int n);      // 1 = serial; throws std::invalid_argument when n < 1

// Calls body(begin, end) on disjoint subranges that cover [0, count); each but the last holds a multiple of `grain`
// indices. Serial, on the caller's thread, when count <= grain or one thread is set, or inside another parallel_for.
// Exceptions of a body reach the caller.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace frit
