// Runs generated CUDA kernels on the CPU, for tests: the same source text, compiled by the host's compiler in one go.
//
// Every CUDA thread is a fiber. Barriers and warp exchanges are rendezvous: a fiber that arrives stops, and the last one
// makes all of them ready again. Which ready fiber runs next is drawn from the seed (0: in order), so that a result
// that depends on the schedule shows up as a difference between seeds. Threads that meet at different barriers, or wait
// for one that has ended, are an error with the lines of the source. Shared memory is NaN before each thread block.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>
#include "jit/cuda/generate.h"
#include "tests/support/cuda_emulator_hooks.h"

namespace cuda_emulator {

class Module {
 public:
  // Compiles and loads; throws std::runtime_error with the compiler's messages.
  explicit Module(const std::vector<frit::jit::CudaSource>& sources);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // `arguments` point at the kernel's parameters. Throws std::runtime_error on a deadlock or divergence.
  void launch(const std::string& kernel, unsigned blocks, unsigned threads, void** arguments, uint64_t seed = 0) const;

 private:
  void* library_ = nullptr;
};

}  // namespace cuda_emulator
