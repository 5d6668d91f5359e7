// A workload for frit tune: lengths of three groups, so many times. With a second argument it has a policy of its own.
#include <frit/frit.h>
#include <cstdio>
#include <cstdlib>

using namespace frit;

int main(int count, char** words) {
  const int steps = count > 1 ? std::atoi(words[1]) : 120;
  if (count > 2) buckets::set("seq", Buckets::multiple_of(3));
  manual_seed(0);
  const Tensor x = randn({600, 16}), w = randn({16, 16});
  double sum = 0;
  uint64_t state = 1;
  for (int i = 0; i < steps; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const int64_t length = (i % 3 == 0 ? 20 : i % 3 == 1 ? 150 : 500) + int64_t(state >> 60);
    sum += named(x.narrow(0, 0, length), "seq dim").matmul(w).tanh().sum().item<float>();
  }
  std::printf("%.17g\n", sum);
}
