// The product by the BLAS interface, shared by the peers that have it.
#pragma once
#include "peer.h"

using Gemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
using Gemv = void (*)(int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

inline void cblas_product(const PeerProduct& s, Gemm gemm, Gemv gemv) {
  const int rows = 101, plain = 111, transposed = 112;  // the interface's numbers
  const int m = int(s.m), n = int(s.n), k = int(s.k), lda = s.transpose_a ? m : k, ldb = s.transpose_b ? k : n;
  const float *a = s.a, *b = s.b;
  float* c = s.c;
  for (int64_t i = 0; i < s.batch; i++, a += s.m * s.k, b += s.k * s.n, c += s.m * s.n) {
    if (m == 1)
      gemv(rows, s.transpose_b ? plain : transposed, s.transpose_b ? n : k, s.transpose_b ? k : n, 1, b, ldb, a, 1, 0, c, 1);
    else if (n == 1)
      gemv(rows, s.transpose_a ? transposed : plain, s.transpose_a ? k : m, s.transpose_a ? m : k, 1, a, lda, b, 1, 0, c, 1);
    else
      gemm(rows, s.transpose_a ? transposed : plain, s.transpose_b ? transposed : plain, m, n, k, 1, a, lda, b, ldb, 0, c, n);
  }
}
