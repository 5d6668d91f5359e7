// The oracle for block programs: evaluates one instruction after the other over all lanes of an instance, with
// scalar::evaluate_block for each primitive and the reduction trees of kernels/program.h. Stores run in ascending order
// of the lanes, instances in ascending order.
#pragma once
#include <cstdint>
#include <vector>
#include "kernels/program.h"

namespace frit::test {

// All instances, with these arguments (one slot per parameter).
void interpret(const kernels::Program& program, const std::vector<kernels::Slot>& args);

// Bit for bit; all NaNs of a float type are one value.
bool same_value(Dtype memory, const void* a, const void* b);

}  // namespace frit::test
