// Block programs to CUDA C++ source, and that source to a cubin with NVRTC where the toolkit is there.
//
// Order of reductions on this device kind: the reduced axis is cut in chunks of 65,536; within a chunk lane = index mod
// 256, each lane starts from the identity and takes its elements in ascending order; the lanes combine pairwise by
// position, ((l0+l1)+(l2+l3)) + …, and so do the chunks, splitting at the largest power of two below the count. One
// thread block along the axis, a column of threads and a single thread all compute this tree, so neither the choice
// between them nor the launch changes a bit. Order::pairwise is the CPU's, bit for bit.
//
// A kernel computes the right result under any number of thread blocks. A program may not load what another instance
// or lane of it stores, except along a sequential axis.
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
  bool row_block = false;   // the threads of a block work on one item together (it has a reduction), or on a few
  uint8_t item_axes = 0;    // work items: the product of these axes' extents (kernels::extents) …
  uint32_t block_items = 256;  // … of which a thread block takes so many at a time, and then the next
};
// The kernel takes the program's parameters in order: pointers, then Int64 and numbers by value, each as its own type.
CudaSource generate_cuda(const kernels::Program& program);

struct CudaImage {
  std::vector<char> cubin;
  std::string log;          // of the compiler, with registers and spills (--ptxas-options=-v)
  int registers = -1, spill_bytes = -1;
};
bool nvrtc_available();     // false in a build without the toolkit, and where its library cannot be opened
// arch: 80, 90, 120, … Throws std::runtime_error with the compiler's log and the source.
CudaImage compile_cuda(const CudaSource& source, int arch);

}  // namespace frit::jit
