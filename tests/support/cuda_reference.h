// Block programs evaluated one value at a time, with the reduction order that jit/cuda/generate.h promises: what emulated
// CUDA kernels are compared with, bit for bit. Scalar instructions go through scalar::evaluate.
#pragma once
#include <vector>
#include "kernels/program.h"

namespace cuda_reference {

// Runs all instances, in ascending order. Pointer slots are addresses of memory on the host.
void run(const frit::kernels::Program& program, const std::vector<frit::kernels::Slot>& arguments);

}  // namespace cuda_reference
