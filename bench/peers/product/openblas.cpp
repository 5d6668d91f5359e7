// OpenBLAS. It chooses its kernels by itself; OPENBLAS_CORETYPE=Haswell in the environment holds it to AVX2.
// library: openblas
#include <string>
#include "cblas_product.h"

extern "C" {
void cblas_sgemm(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
void cblas_sgemv(int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
char* openblas_get_config();
char* openblas_get_corename();
void openblas_set_num_threads(int);

const char* peer_name(int threads) {
  openblas_set_num_threads(threads);
  static const std::string config = openblas_get_config();
  static const std::string name = config.substr(0, config.find(' ', config.find(' ') + 1)) + " (" + openblas_get_corename() + ")";
  return name.c_str();
}
void* peer_prepare(const PeerProduct* p) { return new PeerProduct(*p); }
void peer_run(void* p) { cblas_product(*static_cast<PeerProduct*>(p), cblas_sgemm, cblas_sgemv); }
void peer_release(void* p) { delete static_cast<PeerProduct*>(p); }
}
