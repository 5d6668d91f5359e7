// The built-in suite of frit bench: nine families of bodies, run in a process of its own by `frit bench --suite`.
#include <cmath>
#include <frit/frit.h>
#include "frontend/cli/commands.h"

using namespace frit;
namespace fn = frit::nn::functional;

FRIT_BENCH_ARGS(pointwise, {1000, 100000, 4000000}) {
  const Tensor x = randn({arg});
  bench.measure([&] { return tanh(sin(x) * 2.0 + 1.0) * sigmoid(x); });
}
FRIT_BENCH_ARGS(norm, {32, 1024}) {
  const Tensor x = randn({arg, 768}), weight = randn({768}), bias = randn({768});
  bench.measure([&] { return gelu(layer_norm(x, {768}, weight, bias)); });
}
FRIT_BENCH_ARGS(softmax, {64, 1024}) {
  const Tensor x = randn({arg, 1024});
  bench.measure([&] { return frit::softmax(x * 0.125, -1); });
}
FRIT_BENCH_ARGS(gemm, {64, 256, 512}) {
  const Tensor a = randn({arg, arg}), b = randn({arg, arg}), bias = randn({arg});
  bench.measure([&] { return gelu(a.matmul(b) + bias); });
}
FRIT_BENCH_ARGS(attention, {64, 256}) {
  const Tensor q = randn({2, 4, arg, 64}), k = randn({2, 4, arg, 64}), v = randn({2, 4, arg, 64});
  bench.measure([&] { return (q.matmul(k.transpose(-2, -1)) * 0.125).softmax(-1).matmul(v); });
}

namespace {
struct Mlp : nn::Module {
  nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
  Mlp() {
    first = register_module("first", nn::Linear(784, 256));
    second = register_module("second", nn::Linear(256, 256));
    last = register_module("last", nn::Linear(256, 10));
  }
  Tensor forward(const Tensor& x) { return last(relu(second(relu(first(x))))); }
};
struct Block : nn::Module {
  nn::LayerNorm before_attention{nullptr}, before_mlp{nullptr};
  nn::Linear qkv{nullptr}, join{nullptr}, up{nullptr}, down{nullptr};
  explicit Block(int64_t d) {
    before_attention = register_module("before_attention", nn::LayerNorm(std::vector<int64_t>{d}));
    before_mlp = register_module("before_mlp", nn::LayerNorm(std::vector<int64_t>{d}));
    qkv = register_module("qkv", nn::Linear(d, 3 * d));
    join = register_module("join", nn::Linear(d, d));
    up = register_module("up", nn::Linear(d, 4 * d));
    down = register_module("down", nn::Linear(4 * d, d));
  }
  Tensor attention(const Tensor& x) {
    const TensorList part = qkv(x).chunk(3, -1);
    const auto heads = [](const Tensor& t) { return rearrange(t, "b l (h d) -> b h l d", {{"h", 4}}); };
    const Tensor scores = heads(part[0]).matmul(heads(part[1]).transpose(-2, -1)) * (1 / std::sqrt(double(x.size(-1)) / 4));
    return join(rearrange(scores.softmax(-1).matmul(heads(part[2])), "b h l d -> b l (h d)"));
  }
  Tensor forward(Tensor x) {
    x = x + attention(before_attention(x));
    return x + down(gelu(up(before_mlp(x))));
  }
};
}  // namespace

FRIT_BENCH_ARGS(mlp, {64}) {  // a training step
  Mlp net;
  optim::SGD optimizer(net.parameters(), optim::SGDOptions(0.01));
  const Tensor x = randn({arg, 784}), y = randint(10, {arg}, kInt64);
  bench.measure([&] {
    optimizer.zero_grad();
    const Tensor loss = fn::cross_entropy(net.forward(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
}
FRIT_BENCH_ARGS(transformer, {32}) {  // a training step of one block
  Block block(128);
  optim::AdamW optimizer(block.parameters(), optim::AdamWOptions(1e-3));
  const Tensor x = randn({4, arg, 128}), y = randn({4, arg, 128});
  bench.measure([&] {
    optimizer.zero_grad();
    const Tensor loss = (block.forward(x) - y).square().mean();
    loss.backward();
    optimizer.step();
    return loss;
  });
}
FRIT_BENCH_ARGS(decode, {256}) {  // one token against a cache of keys and values, as long as it has become
  const NoGradGuard no_grad;
  const Tensor q = randn({1, 4, 1, 64}), k = randn({1, 4, arg, 64}), v = randn({1, 4, arg, 64});
  int64_t length = arg / 2;
  bench.measure([&] {
    const NoGradGuard inside;
    length = length < arg ? length + 1 : arg / 2 + 1;
    const Tensor keys = k.narrow(2, 0, length), values = v.narrow(2, 0, length);
    return (q.matmul(keys.transpose(-2, -1)) * 0.125).softmax(-1).matmul(values);
  });
}
FRIT_BENCH(shapes) {  // a length that changes with each call
  const Tensor x = randn({512, 64}), w = randn({64, 64});
  int64_t length = 0;
  bench.measure([&] {
    length = (length + 37) % 510 + 2;
    return frit::softmax(named(x.narrow(0, 0, length), "seq dim").matmul(w), -1).sum();
  });
}

namespace frit::cli {

int suite_bodies(const std::vector<std::string>& words) {
  std::vector<std::string> all{"frit"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& w : all) pointers.push_back(w.data());
  return bench::run_bodies(int(pointers.size()), pointers.data());
}

}  // namespace frit::cli
