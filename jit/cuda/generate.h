// Block programs to CUDA C++ source, and that source to a cubin with NVRTC where the toolkit is there.
#pragma once
#include <cstdint>
#include <string>
#include <vector>
#include "kernels/program.h"

namespace frit::jit {

struct CudaSource {
  std::string name;         // of the kernel function (extern "C")
  std::string text;         // one translation unit; no header needed
  uint32_t threads = 256;   // per thread block
  bool row_block = false;   // one thread block per grid instance (it has a reduction); else one thread per lane
};
// The kernel takes the program's parameters in order: pointers, then Int64 and numbers by value, each as its own type.
CudaSource generate_cuda(const kernels::Program& program);

struct CudaImage {
  std::vector<char> cubin;
  std::string log;          // of the compiler, with registers and spills (--ptxas-options=-v)
  int registers = -1, spill_bytes = -1;
};
bool nvrtc_available();     // false in a build without the toolkit
// arch: 80, 90, 120, … Throws std::runtime_error with the compiler's log and the source.
CudaImage compile_cuda(const CudaSource& source, int arch);

}  // namespace frit::jit
