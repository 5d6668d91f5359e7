// In place of nvrtc.cpp where the build has no CUDA toolkit.
#include <stdexcept>

#include "jit/cuda/generate.h"

namespace frit::jit {

bool nvrtc_available() { return false; }

CudaImage compile_cuda(const CudaSource& source, int) {
  throw std::runtime_error("cannot compile the CUDA kernel " + source.name + ": this build has no NVRTC");
}

}  // namespace frit::jit
