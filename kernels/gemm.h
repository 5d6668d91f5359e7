// The matrix product as a block program: what tracer/product.h defines for m and n above 1. (Products of the library run on
// jit/x86/product.h, which computes the same.)
#pragma once
#include "kernels/program.h"

namespace frit::kernels {

// C = A B, a tile of `tile` x `tile` an instance. Parameters: A, B, C; m, n, k; row and column steps of A, of B and of C, in elements.
Program gemm(Dtype storage, int64_t tile);

}  // namespace frit::kernels
