// Matrix products against OpenBLAS, interleaved, on one thread unless told otherwise: medians in GFLOP/s and the ratio of medians for each shape of the
// performance targets. OpenBLAS is opened at run time (Frit's own figures are printed without it) and chooses its instruction
// set by itself; run with OPENBLAS_CORETYPE=Haswell in the environment to hold it to AVX2.
//   product [--half] [--double] [--repetitions N] [--threads N] [M,N,K[ta][tb] ...]
#include <dlfcn.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>
#include "jit/x86/product.h"
#include "runtime/launch.h"

using namespace frit;

namespace {

struct Shape {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  int64_t batch = 1;
};
const Shape shapes[] = {{4, 4, 4}, {8, 8, 8}, {16, 16, 16}, {32, 32, 32}, {48, 48, 48}, {64, 64, 64}, {96, 96, 96}, {128, 128, 128}, {192, 192, 192}, {256, 256, 256},
  {384, 384, 384}, {512, 512, 512}, {768, 768, 768}, {1024, 1024, 1024}, {2048, 2048, 2048}, {100, 100, 100}, {1000, 1000, 1000},
  {32, 3072, 768}, {512, 3072, 768}, {4096, 64, 64}, {128, 512, 2048}, {64, 512, 784}, {64, 128, 784}, {8, 512, 512}, {2, 768, 768},
  {512, 10, 512}, {1024, 1024, 256, true, false}, {1024, 1024, 256, false, true}, {784, 512, 64, true, false}, {64, 512, 512, false, true},
  {256, 256, 256, true, false}, {256, 256, 256, false, true}, {128, 128, 64, false, false, 16}, {64, 64, 64, false, true, 16},
  {1, 768, 768}, {768, 1, 768}, {1, 4096, 4096}, {4096, 1, 4096}, {1, 77, 300}, {1, 2500, 77}, {77, 1, 2500}, {1, 768, 768, false, true},
  {768, 1, 768, true, false}, {1, 1001, 999}, {1001, 1, 999}};

using Gemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
using Gemv = void (*)(int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
struct Peer {
  Gemm gemm = nullptr;
  Gemv gemv = nullptr;
  std::string name = "none";
  explicit Peer(int threads) {
    setenv("OPENBLAS_NUM_THREADS", std::to_string(threads).c_str(), 1);
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    gemm = reinterpret_cast<Gemm>(dlsym(library, "cblas_sgemm"));
    gemv = reinterpret_cast<Gemv>(dlsym(library, "cblas_sgemv"));
    if (auto config = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_config"))) name = config();
    if (auto core = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"))) name += std::string(", running ") + core();
  }
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double time_of(const std::function<void()>& f, int repeat) {
  const double start = seconds();
  for (int i = 0; i < repeat; i++) f();
  return (seconds() - start) / repeat;
}
double median(std::vector<double> t) {
  std::sort(t.begin(), t.end());
  return t[t.size() / 2];
}

struct Operands {
  std::vector<char*> memory;
  ~Operands() {
    for (char* p : memory) std::free(p);
  }
  char* make(size_t bytes) {
    char* p = static_cast<char*>(std::aligned_alloc(4096, (bytes + 8191) / 4096 * 4096));
    memory.push_back(p);
    return p;
  }
};

void fill(char* p, int64_t count, Dtype dtype) {
  dispatch(dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < count; i++) reinterpret_cast<T*>(p)[i] = T(float(uint32_t(i * 2654435761u) >> 8 & 1023) / 1024 - 0.5f);
  });
}

void call_peer(const Peer& peer, const Shape& s, const float* a, const float* b, float* c) {
  const int m = int(s.m), n = int(s.n), k = int(s.k), lda = s.transpose_a ? m : k, ldb = s.transpose_b ? k : n;
  for (int64_t i = 0; i < s.batch; i++, a += s.m * s.k, b += s.k * s.n, c += s.m * s.n) {
    if (m == 1)
      peer.gemv(101, s.transpose_b ? 111 : 112, s.transpose_b ? n : k, s.transpose_b ? k : n, 1, b, ldb, a, 1, 0, c, 1);
    else if (n == 1)
      peer.gemv(101, s.transpose_a ? 112 : 111, s.transpose_a ? k : m, s.transpose_a ? m : k, 1, a, lda, b, 1, 0, c, 1);
    else
      peer.gemm(101, s.transpose_a ? 112 : 111, s.transpose_b ? 112 : 111, m, n, k, 1, a, lda, b, ldb, 0, c, n);
  }
}

// Returns ours : peer's speed, or 0 without a peer.
double row(const Peer& peer, const Shape& s, Dtype dtype, int repetitions) {
  Operands memory;
  const int64_t size = int64_t(size_of(dtype)), ca = s.m * s.k * s.batch, cb = s.k * s.n * s.batch, cc = s.m * s.n * s.batch;
  char *a = memory.make(size_t(ca * size)), *b = memory.make(size_t(cb * size)), *c = memory.make(size_t(cc * size)), *d = memory.make(size_t(cc * size));
  fill(a, ca, dtype), fill(b, cb, dtype), fill(d, cc, dtype);
  std::vector<int64_t> oa, ob, oc;
  for (int64_t i = 0; i < s.batch; i++) oa.push_back(i * s.m * s.k), ob.push_back(i * s.k * s.n), oc.push_back(i * s.m * s.n);
  const Product p{dtype, s.m, s.n, s.k, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1, s.transpose_b ? 1 : s.n, s.transpose_b ? s.k : 1, s.n, 1,
                  s.batch, oa.data(), ob.data(), oc.data()};
  const std::function<void()> ours = [&] { jit::product_x86(p, a, b, c); };
  const bool compare = peer.gemm && dtype == Dtype::Float32;
  const std::function<void()> theirs = [&] { call_peer(peer, s, reinterpret_cast<float*>(a), reinterpret_cast<float*>(b), reinterpret_cast<float*>(d)); };
  ours();
  if (compare) {
    theirs();
    for (int64_t i = 0; i < cc; i++) {
      const float x = reinterpret_cast<float*>(c)[i], y = reinterpret_cast<float*>(d)[i];
      if (!(std::fabs(x - y) <= 1e-3f * (1 + std::fabs(y)))) std::printf("WRONG: element %lld, %g and %g\n", static_cast<long long>(i), x, y), std::exit(1);
    }
  }
  const double flops = 2.0 * double(s.m) * double(s.n) * double(s.k) * double(s.batch);
  const int repeat = std::max(1, int(2e-3 / std::max(time_of(ours, 3), 1e-8)));
  std::vector<double> to, tp;
  for (int r = 0; r < repetitions; r++) {
    to.push_back(time_of(ours, repeat));
    if (compare) tp.push_back(time_of(theirs, repeat));
  }
  const double mo = median(to), mp = compare ? median(tp) : 0;
  char name[96];
  std::snprintf(name, sizeof name, "%s %lld,%lld,%lld%s%s%s", dtype_short_name(dtype), static_cast<long long>(s.m), static_cast<long long>(s.n),
                static_cast<long long>(s.k), s.transpose_a ? " A^T" : "", s.transpose_b ? " B^T" : "", s.batch > 1 ? (" x" + std::to_string(s.batch)).c_str() : "");
  std::printf("%-28s %9.1f ns  ours %7.1f GFLOP/s", name, mo * 1e9, flops / mo / 1e9);
  if (compare) std::printf("  openblas %7.1f  ratio %.2f", flops / mp / 1e9, mp / mo);
  std::printf("\n");
  std::fflush(stdout);
  return compare ? mp / mo : 0;
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<Dtype> dtypes{Dtype::Float32};
  int repetitions = 15, threads = 1;
  std::vector<Shape> chosen;
  for (int i = 1; i < count; i++) {
    long long m, n, k;
    if (!std::strcmp(arguments[i], "--half")) {
      dtypes = {Dtype::Float32, Dtype::Float16, Dtype::BFloat16};
    } else if (!std::strcmp(arguments[i], "--double")) {
      dtypes = {Dtype::Float64};
    } else if (!std::strcmp(arguments[i], "--repetitions") && i + 1 < count) {
      repetitions = std::max(1, std::atoi(arguments[++i]));
    } else if (!std::strcmp(arguments[i], "--threads") && i + 1 < count) {
      threads = std::max(1, std::atoi(arguments[++i]));
    } else if (std::sscanf(arguments[i], "%lld,%lld,%lld", &m, &n, &k) == 3) {
      chosen.push_back({m, n, k, std::strstr(arguments[i], "ta") != nullptr, std::strstr(arguments[i], "tb") != nullptr});
    } else {
      std::printf("usage: product [--half] [--double] [--repetitions N] [--threads N] [M,N,K[ta][tb] ...]\n");
      return 2;
    }
  }
  if (chosen.empty()) chosen.assign(std::begin(shapes), std::end(shapes));
  set_num_threads(threads);
  const Peer peer(threads);
  std::printf("peer: %s, %d thread%s\n", peer.name.c_str(), threads, threads > 1 ? "s" : "");
  double product = 0;
  int compared = 0;
  for (Dtype dtype : dtypes)
    for (const Shape& s : chosen) {
      const double ratio = row(peer, s, dtype, s.m * s.n * s.k > 1000000000 ? std::min(repetitions, 7) : repetitions);
      if (ratio > 0) product += std::log(ratio), compared++;
    }
  if (compared) std::printf("geometric mean of %d ratios: %.3f\n", compared, std::exp(product / compared));
}
