// Random lengths under each bucket policy (TARGETS P13): a block with attention, called with lengths that never settle. For each policy: plans,
// kernels, recompiles and compile time; the time of the calls, first pass and later; and the same calls where every length is known (exact),
// interleaved. bench/shapes [lengths] [longest] [repetitions]
#include <frit/frit.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

using namespace frit;

namespace {
double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Block {
  int64_t d = 32;
  Tensor wq = randn({d, d}) * 0.2, wk = randn({d, d}) * 0.2, wv = randn({d, d}) * 0.2, wo = randn({d, d}) * 0.2, up = randn({d, 4 * d}) * 0.2, down = randn({4 * d, d}) * 0.1;
  Tensor operator()(const Tensor& x) const {
    const Tensor n = layer_norm(x, {d}), q = n.matmul(wq), k = n.matmul(wk), v = n.matmul(wv);
    const Tensor weights = (q.matmul(k.transpose(0, 1)) * 0.17677669529663687).softmax(-1);
    const Tensor h = x + weights.matmul(v).matmul(wo);
    return h + gelu(layer_norm(h, {d}).matmul(up)).matmul(down);
  }
};
}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1000, longest = argc > 2 ? std::atoi(argv[2]) : 4096, repetitions = argc > 3 ? std::atoi(argv[3]) : 3;
  set_num_threads(1);
  manual_seed(0);
  const NoGradGuard none;
  const Block block;
  std::mt19937_64 random(7);
  std::vector<int64_t> lengths(static_cast<size_t>(count));
  for (int64_t& n : lengths) n = 1 + int64_t(random() % uint64_t(longest));
  std::vector<Tensor> in;
  for (int64_t n : lengths) in.push_back(named(randn({n, block.d}), "seq dim"));
  synchronize();

  struct Policy { const char* name; Buckets buckets; };
  const Policy policies[] = {{"exact", Buckets::exact()}, {"pow2", Buckets::pow2()}, {"multiple_of(256)", Buckets::multiple_of(256)},
                             {"edges{64,256,1024,4096}", Buckets::edges({64, 256, 1024, 4096})}, {"dynamic", Buckets::dynamic()}};
  std::printf("%d lengths in [1, %d]; one thread; times of all calls in ms\n", count, longest);
  std::printf("%-24s %6s %8s %10s %11s %11s %11s %10s\n", "policy", "plans", "kernels", "recompiles", "compile ms", "first pass", "later pass", "exact/it");
  const auto pass = [&](auto& f) {
    const double start = seconds();
    for (const Tensor& x : in) f(x);
    return (seconds() - start) * 1e3;
  };
  const auto median = [](std::vector<double> v) { return std::sort(v.begin(), v.end()), v[v.size() / 2]; };
  for (const Policy& p : policies) {
    std::fflush(stdout);
    const pid_t child = ::fork();  // each policy in a process that has compiled nothing
    if (child != 0) {
      int status = 0;
      ::waitpid(child, &status, 0);
      if (status != 0) return 1;
      continue;
    }
    buckets::set("seq", p.buckets);
    buckets::set("known", Buckets::exact());
    auto f = compile([&](const Tensor& x) { return block(x); });
    const jit::Stats before = jit::stats();
    const double first = pass(f);
    const jit::Stats after = jit::stats();
    // Every length known beforehand: the exact shapes' speed. Its plans are others, for its axis has another name.
    auto reference = compile([&](const Tensor& x) { return block(named(x, "known dim")); });
    pass(reference);
    std::vector<double> later, exact;
    const jit::Stats warm = jit::stats();
    const auto timed = [](auto& f, const Tensor& x) {
      const double start = seconds();
      f(x);
      return (seconds() - start) * 1e3;
    };
    for (int i = 0; i < repetitions; ++i) {  // call by call and each first in turn, so that both see the same machine
      double of_f = 0, of_exact = 0;
      for (size_t k = 0; k < in.size(); ++k) {
        if (k % 2) of_f += timed(f, in[k]);
        of_exact += timed(reference, in[k]);
        if (k % 2 == 0) of_f += timed(f, in[k]);
      }
      later.push_back(of_f), exact.push_back(of_exact);
    }
    const jit::Stats end = jit::stats();
    std::printf("%-24s %6lld %8lld %10lld %11.2f %11.1f %11.1f %10.3f%s\n", p.name, static_cast<long long>(after.plans_compiled - before.plans_compiled),
                static_cast<long long>(after.kernels_compiled - before.kernels_compiled), static_cast<long long>(after.recompiles - before.recompiles), after.compile_ms - before.compile_ms, first,
                median(later), median(exact) / median(later), end.plans_compiled != warm.plans_compiled || end.kernels_compiled != warm.kernels_compiled ? "  (compiled later)" : "");
    std::fflush(stdout);
    ::_exit(0);
  }
}
