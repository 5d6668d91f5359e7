// Kernels of single ops: looked up by spec, compiled at first sight, launched over threads.
#pragma once
#include <string_view>
#include "jit/lower.h"
#include "jit/x86/compile.h"

namespace frit::jit {

const CpuKernel& find_kernel(const ElementSpec& s);
const CpuKernel& find_kernel(const ReduceSpec& s);
const CpuKernel& find_kernel(const IndexSpec& s);

// instances: of the grid axes; lanes: of the last block axis; cost: elements touched per lane (decides on threads).
void launch(const CpuKernel& k, const kernels::Slot* args, int64_t instances, int64_t lanes, int64_t cost = 1);

}  // namespace frit::jit
