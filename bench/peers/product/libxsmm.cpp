// libxsmm: its generated kernel, looked up once for the shape; it has none for transposed A^T in row-major terms, nor for large shapes.
// library: xsmm
#include <libxsmm.h>
#include <string>
#include "peer.h"

namespace {
struct Prepared {
  PeerProduct p;
  libxsmm_smmfunction kernel;
};
}  // namespace

extern "C" {
const char* peer_name(int) {
  libxsmm_init();
  static const std::string name = std::string("libxsmm ") + LIBXSMM_VERSION + " (" + libxsmm_get_target_arch() + ")";
  return name.c_str();
}
void* peer_prepare(const PeerProduct* p) {
  // Column-major C^T = B^T A^T.
  const int m = int(p->n), n = int(p->m), k = int(p->k), lda = p->transpose_b ? k : m, ldb = p->transpose_a ? n : k, ldc = m;
  const float one = 1, zero = 0;
  const int flags = (p->transpose_b ? LIBXSMM_GEMM_FLAG_TRANS_A : 0) | (p->transpose_a ? LIBXSMM_GEMM_FLAG_TRANS_B : 0);
  const libxsmm_smmfunction kernel = libxsmm_smmdispatch(m, n, k, &lda, &ldb, &ldc, &one, &zero, &flags, nullptr);
  return kernel ? new Prepared{*p, kernel} : nullptr;
}
void peer_run(void* prepared) {
  const Prepared& s = *static_cast<Prepared*>(prepared);
  const PeerProduct& p = s.p;
  for (int64_t i = 0; i < p.batch; i++) s.kernel(p.b + i * p.k * p.n, p.a + i * p.m * p.k, p.c + i * p.m * p.n);
}
void peer_release(void* p) { delete static_cast<Prepared*>(p); }
}
