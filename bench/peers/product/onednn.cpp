// oneDNN: its matmul primitive, made once for the shape, or dnnl_sgemm where that is the faster (tried at the start).
// library: dnnl
#include <oneapi/dnnl/dnnl.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include "peer.h"

namespace {
struct Prepared {
  PeerProduct p;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul matmul;
  std::unordered_map<int, dnnl::memory> arguments;
  bool primitive = true;

  explicit Prepared(const PeerProduct& s) : p(s) {
    using dnnl::memory;
    const auto described = [&](int64_t rows, int64_t columns, bool transposed) {
      const int64_t all = rows * columns;
      return memory::desc({s.batch, rows, columns}, memory::data_type::f32,
                          transposed ? memory::dims{all, 1, rows} : memory::dims{all, columns, 1});
    };
    const auto a = described(s.m, s.k, s.transpose_a), b = described(s.k, s.n, s.transpose_b), c = described(s.m, s.n, false);
    matmul = dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), engine));
    arguments = {{DNNL_ARG_SRC, memory(a, engine, const_cast<float*>(s.a))}, {DNNL_ARG_WEIGHTS, memory(b, engine, const_cast<float*>(s.b))},
                 {DNNL_ARG_DST, memory(c, engine, s.c)}};
    double best[2] = {1e9, 1e9};
    for (int i = 0; i < 6; i++)
      for (const bool way : {false, true}) {
        primitive = way;
        const auto start = std::chrono::steady_clock::now();
        run();
        best[way] = std::min(best[way], std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
    primitive = best[1] < best[0];
  }
  void run() {
    if (primitive) {
      matmul.execute(stream, arguments);
      stream.wait();
      return;
    }
    for (int64_t i = 0; i < p.batch; i++)
      dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k, 1, p.a + i * p.m * p.k, p.transpose_a ? p.m : p.k,
                 p.b + i * p.k * p.n, p.transpose_b ? p.k : p.n, 0, p.c + i * p.m * p.n, p.n);
  }
};
}  // namespace

extern "C" {
void omp_set_num_threads(int);

const char* peer_name(int threads) {
  omp_set_num_threads(threads);
  const dnnl_version_t* v = dnnl_version();
  const bool avx512 = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core && dnnl::get_effective_cpu_isa() != dnnl::cpu_isa::avx2_vnni;
  static const std::string name = "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch) +
                                  (avx512 ? " (AVX-512)" : " (AVX2 or less)");
  return name.c_str();
}
void* peer_prepare(const PeerProduct* p) { return new Prepared(*p); }
void peer_run(void* p) { static_cast<Prepared*>(p)->run(); }
void peer_release(void* p) { delete static_cast<Prepared*>(p); }
}
