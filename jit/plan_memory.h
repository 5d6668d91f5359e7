// What memory a plan needs, before it runs.
#pragma once
#include "jit/plan.h"

namespace frit::jit {

// Bytes of what the plan makes, above what is there when it begins, for the trace's extents: as its steps and drops say.
// Left out is what a kernel needs for itself while it runs.
struct PlanMemory {
  int64_t peak = 0;
  int64_t kept = 0;                    // when it is done
  size_t step = 0;                     // at which the peak is
  std::vector<int64_t> during;         // by step
  struct Holder {
    uint32_t node;                     // that made it
    int64_t bytes;
  };
  std::vector<Holder> holders;         // at the peak; the largest first
};
PlanMemory plan_memory(const Plan& p, const Trace& t);
std::string memory_text(const PlanMemory& m, const Plan& p, const Trace& t);  // a line with its peak and holders

}  // namespace frit::jit
