// BLIS, by its BLAS interface. It takes processors that it does not know for older ones: with AVX-512 its kernels for that are asked for.
// library: blis
#include <cstdlib>
#include <string>
#include "cblas_product.h"

extern "C" {
void cblas_sgemm(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
void cblas_sgemv(int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
const char* bli_info_get_version_str();
int bli_arch_query_id();
const char* bli_arch_string(int);
void bli_thread_set_num_threads(long);

const char* peer_name(int threads) {
  if (__builtin_cpu_supports("avx512f")) setenv("BLIS_ARCH_TYPE", "skx", 0);
  bli_thread_set_num_threads(threads);
  static const std::string name = std::string("BLIS ") + bli_info_get_version_str() + " (" + bli_arch_string(bli_arch_query_id()) + ")";
  return name.c_str();
}
void* peer_prepare(const PeerProduct* p) { return new PeerProduct(*p); }
void peer_run(void* p) { cblas_product(*static_cast<PeerProduct*>(p), cblas_sgemm, cblas_sgemv); }
void peer_release(void* p) { delete static_cast<PeerProduct*>(p); }
}
