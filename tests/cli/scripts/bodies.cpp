// Bodies of every kind for frit bench.
#include <frit/frit.h>

using namespace frit;

FRIT_BENCH(chain) {
  const Tensor x = randn({64, 256});
  bench.measure([&] { return tanh(x * 2.0 + 1.0) * sigmoid(x); });
}
FRIT_BENCH_ARGS(rows, {1, 17, 256}) {
  const Tensor x = randn({arg, 100});
  bench.measure([&] { return std::make_tuple(x.softmax(-1), x.sum(0)); });
}
FRIT_BENCH(whole) { bench.keep((ones({100}) * 2.0).exp().sum()); }  // no measure: all of it is timed
FRIT_BENCH(training) {  // changes what it works on
  Tensor w = randn({8, 8}, requires_grad());
  const Tensor x = randn({4, 8});
  optim::SGD optimizer({w}, optim::SGDOptions(0.1));
  bench.measure([&] {
    optimizer.zero_grad();
    const Tensor loss = x.matmul(w).square().mean();
    loss.backward();
    optimizer.step();
    return loss;
  });
}
FRIT_BENCH(unequal) {  // not the same from call to call: that has to be found
  static int calls = 0;
  bench.measure([&] { return full({4}, double(++calls)); });
}
FRIT_BENCH(throwing) { bench.keep(ones({2, 3}).matmul(ones({2, 3}))); }
