// Matrix products against the best of OpenBLAS, BLIS, oneDNN and libxsmm, interleaved, on one thread unless told otherwise: medians in
// GFLOP/s and the ratio to the best peer for each shape of the performance targets (P5). The peers are modules in peers/ beside this program,
// where they could be built; without them Frit's own figures are printed.
//   product [--half] [--double] [--repetitions N] [--threads N] [--cpu-time] [--json FILE] [M,N,K[ta][tb] ...]
#include <dlfcn.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include "bench/peers/product/peer.h"
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

struct Peer {
  std::string name;
  decltype(&peer_name) describe;
  decltype(&peer_prepare) prepare;
  decltype(&peer_run) run;
  decltype(&peer_release) release;
};

// Each module in a scope of its own: OpenBLAS and BLIS define the same names.
std::vector<Peer> open_peers(int threads) {
  for (const char* variable : {"OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS"}) setenv(variable, std::to_string(threads).c_str(), 1);
  std::vector<Peer> peers;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "peers";
  for (const char* name : {"openblas", "blis", "onednn", "libxsmm"}) {
    const auto path = folder / (std::string(name) + ".so");
    if (!std::filesystem::exists(path)) continue;
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!module) {
      std::printf("left out: %s\n", dlerror());
      continue;
    }
    const auto find = [&]<class F>(F, const char* symbol) { return reinterpret_cast<F>(dlsym(module, symbol)); };
    peers.push_back({name, find(&peer_name, "peer_name"), find(&peer_prepare, "peer_prepare"), find(&peer_run, "peer_run"), find(&peer_release, "peer_release")});
    std::printf("peer: %s, %d thread%s\n", peers.back().describe(threads), threads, threads > 1 ? "s" : "");
  }
  return peers;
}

// By the wall, or the time that the process ran: the latter where others use the machine, too.
bool by_cpu_time = false;
double seconds() {
  timespec now;
  clock_gettime(by_cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}
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

struct Result {
  std::string name;
  bool vector = false, small = false;  // small: below the sizes of the targets
  double ours = 0;                     // seconds
  std::vector<std::pair<std::string, double>> peers;
  double ratio() const {  // of the best peer's time to ours; 0 without one
    double best = INFINITY;
    for (const auto& p : peers) best = std::min(best, p.second);
    return peers.empty() ? 0 : best / ours;
  }
};

struct Contender {
  const Peer* peer;
  std::shared_ptr<void> prepared;
  std::vector<double> times;
};

void check(const Result& r, const Contender& t, const float* c, const float* d, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!(std::fabs(c[i] - d[i]) <= 1e-3f * (1 + std::fabs(d[i])))) {
      std::printf("WRONG: %s, %s, element %lld: %g and %g\n", r.name.c_str(), t.peer->name.c_str(), static_cast<long long>(i), c[i], d[i]);
      std::exit(1);
    }
}

Result row(const std::vector<Peer>& peers, const Shape& s, Dtype dtype, int repetitions) {
  Operands memory;
  const int64_t size = int64_t(size_of(dtype)), ca = s.m * s.k * s.batch, cb = s.k * s.n * s.batch, cc = s.m * s.n * s.batch;
  char *a = memory.make(size_t(ca * size)), *b = memory.make(size_t(cb * size)), *c = memory.make(size_t(cc * size)), *d = memory.make(size_t(cc * size));
  fill(a, ca, dtype), fill(b, cb, dtype), fill(d, cc, dtype);
  std::vector<int64_t> oa, ob, oc;
  for (int64_t i = 0; i < s.batch; i++) oa.push_back(i * s.m * s.k), ob.push_back(i * s.k * s.n), oc.push_back(i * s.m * s.n);
  const Product p{dtype, s.m, s.n, s.k, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1, s.transpose_b ? 1 : s.n, s.transpose_b ? s.k : 1, s.n, 1,
                  s.batch, oa.data(), ob.data(), oc.data()};
  char name[96];
  std::snprintf(name, sizeof name, "%s %lld,%lld,%lld%s%s%s", dtype_short_name(dtype), static_cast<long long>(s.m), static_cast<long long>(s.n),
                static_cast<long long>(s.k), s.transpose_a ? " A^T" : "", s.transpose_b ? " B^T" : "", s.batch > 1 ? (" x" + std::to_string(s.batch)).c_str() : "");
  Result result{name, s.m == 1 || s.n == 1, s.m < 32 && s.m == s.n, 0, {}};
  char* result_of_ours = c;
  const std::function<void()> ours = [&] { jit::product_x86(p, a, b, result_of_ours); };
  ours();
  const PeerProduct asked{s.m, s.n, s.k, s.batch, s.transpose_a, s.transpose_b, reinterpret_cast<float*>(a), reinterpret_cast<float*>(b), reinterpret_cast<float*>(d)};
  std::vector<Contender> against;
  if (dtype == Dtype::Float32)
    for (const Peer& peer : peers) {
      if (void* prepared = peer.prepare(&asked)) against.push_back({&peer, std::shared_ptr<void>(prepared, peer.release), {}});
    }
  for (Contender& t : against) {
    std::memset(d, 255, size_t(cc * size));
    t.peer->run(t.prepared.get());
    check(result, t, reinterpret_cast<float*>(c), reinterpret_cast<float*>(d), cc);
  }
  // All write the same memory, and each runs once untimed before its turn: what the one before left in the caches is nobody's advantage.
  result_of_ours = d;
  const int repeat = std::max(1, int(2e-3 / std::max(time_of(ours, 3), 1e-8)));
  const auto turn = [&](const std::function<void()>& f) {
    f();
    return time_of(f, repeat);
  };
  std::vector<double> times;
  for (int r = 0; r < repetitions; r++) {
    times.push_back(turn(ours));
    for (Contender& t : against) t.times.push_back(turn([&] { t.peer->run(t.prepared.get()); }));
  }
  result.ours = median(times);
  for (Contender& t : against) result.peers.push_back({t.peer->name, median(t.times)});
  const double flops = 2.0 * double(s.m) * double(s.n) * double(s.k) * double(s.batch);
  std::printf("%-24s %9.2f us  ours %6.1f GFLOP/s", name, result.ours * 1e6, flops / result.ours / 1e9);
  for (const auto& [peer, time] : result.peers) std::printf("  %s %6.1f", peer.c_str(), flops / time / 1e9);
  if (!against.empty()) std::printf("  ratio %.2f", result.ratio());
  std::printf("\n");
  std::fflush(stdout);
  return result;
}

struct Summary {
  double sum = 0, least = INFINITY;
  int count = 0;
  std::string worst;
  void add(const Result& r) {
    if (r.peers.empty()) return;
    sum += std::log(r.ratio()), count++;
    if (r.ratio() < least) least = r.ratio(), worst = r.name;
  }
  void print(const char* what) const {
    if (count) std::printf("%s: geometric mean of %d ratios to the best peer %.3f, least %.2f (%s)\n", what, count, std::exp(sum / count), least, worst.c_str());
  }
};

void write_json(const char* path, const std::vector<Result>& results) {
  std::ofstream out(path);
  out << "[";
  for (const Result& r : results) {
    out << (&r == &results[0] ? "\n" : ",\n") << "{\"name\": \"" << r.name << "\", \"vector\": " << (r.vector ? "true" : "false") << ", \"frit\": " << r.ours;
    for (const auto& [peer, time] : r.peers) out << ", \"" << peer << "\": " << time;
    out << "}";
  }
  out << "\n]\n";
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<Dtype> dtypes{Dtype::Float32};
  int repetitions = 15, threads = 1;
  const char* json = nullptr;
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
    } else if (!std::strcmp(arguments[i], "--cpu-time")) {
      by_cpu_time = true;
    } else if (!std::strcmp(arguments[i], "--json") && i + 1 < count) {
      json = arguments[++i];
    } else if (std::sscanf(arguments[i], "%lld,%lld,%lld", &m, &n, &k) == 3) {
      chosen.push_back({m, n, k, std::strstr(arguments[i], "ta") != nullptr, std::strstr(arguments[i], "tb") != nullptr});
    } else {
      std::printf("usage: product [--half] [--double] [--repetitions N] [--threads N] [--cpu-time] [--json FILE] [M,N,K[ta][tb] ...]\n");
      return 2;
    }
  }
  if (chosen.empty()) chosen.assign(std::begin(shapes), std::end(shapes));
  set_num_threads(threads);
  const std::vector<Peer> peers = open_peers(threads);
  std::vector<Result> results;
  Summary matrices, vectors;
  for (Dtype dtype : dtypes)
    for (const Shape& s : chosen) {
      results.push_back(row(peers, s, dtype, s.m * s.n * s.k > 1000000000 ? std::min(repetitions, 15) : repetitions));
      const Result& r = results.back();
      if (!r.small) (r.vector ? vectors : matrices).add(r);
    }
  matrices.print("matrices of 32 and more");
  vectors.print("vectors");
  if (json) write_json(json, results);
}
