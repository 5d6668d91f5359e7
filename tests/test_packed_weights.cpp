// Weights that are kept packed while they do not change: eager's bits whoever writes them and however, how often they are packed, and the memory
// that this takes and gives back.
#include <catch2/catch.hpp>
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <frit/frit.h>
#include "jit/packed_weights.h"
#include "jit/tiers.h"
#include "runtime/buffer.h"
#include "tests/support/automatic.h"
#include "tests/support/rows.h"

using namespace frit;
using namespace frit::testing;

namespace {
struct Layer {
  Tensor w, b;
  explicit Layer(int64_t in = 96, int64_t out = 160, Dtype d = kFloat32) : w(spread({out, in}, 0.2, d)), b(spread({out}, 1, d)) { synchronize(); }
  Tensor operator()(const Tensor& x) const { return relu(matmul(x, w.t()) + b); }
};
int64_t packed() { return jit::stats().weights_packed; }
int64_t reads() { return jit::stats().packed_reads; }
// Runs until what can be kept is kept.
template <class F> void settle(F&& f) {
  for (int i = 0; i < 6; ++i) f(), synchronize();
}
template <class F> void agree(F&& compiled, const std::function<Tensor()>& eager) {
  const Tensor got = compiled();
  CHECK((bits_of(got) == in_eager([&] { return bits_of(eager()); })));
}
}  // namespace

TEST_CASE("packed weights: packed once, in the third run with the same bytes, and read from then on", "[packed]") {
  const NoGradGuard none;
  for (Dtype d : {kFloat32, kFloat64, kBFloat16, kFloat16})
    for (int64_t rows : {2, 7, 32, 100}) {
      INFO(dtype_name(d) << ", " << rows << " rows");
      const Layer layer(96, 161, d);
      const Tensor x = spread({rows, 96}, 1, d);
      auto f = compile([&](const Tensor& x) { return layer(x); });
      const int64_t before = packed(), used = reads();
      for (int run = 1; run <= 8; ++run) {
        agree([&] { return f(x); }, [&] { return layer(x); });
        CHECK(packed() - before == (run >= 3));
        CHECK(reads() - used == std::max(0, run - 2));
      }
    }
  CHECK(jit::packed_weight_bytes() == 0);  // the weights are gone
}
TEST_CASE("packed weights: what is written is read anew, however it is written", "[packed]") {
  const NoGradGuard none;
  const Tensor x = spread({8, 96}, 1);
  const std::pair<const char*, std::function<void(Layer&)>> writes[] = {
      {"an op in place", [](Layer& l) { l.w.mul_(1.25); }},
      {"through a view", [](Layer& l) { l.w[3].narrow(0, 5, 2).fill_(7.0); }},
      {"through the view that is read", [](Layer& l) { l.w.t().add_(0.125); }},
      {"copy_", [](Layer& l) { l.w.copy_(spread({160, 96}, 0.7)); }},
      {"a pointer", [](Layer& l) { l.w.data_ptr<float>()[17] = 3; }},
      {"set_data", [](Layer& l) { l.w.set_data(spread({160, 96}, 0.3)); }},
      {"another tensor", [](Layer& l) { l.w = spread({160, 96}, 0.9); }},
      {"another tensor, at the old one's place perhaps", [](Layer& l) { l.w = Tensor(), synchronize(), l.w = spread({160, 96}, 0.9), synchronize(); }},
      {"in eager mode", [](Layer& l) { in_eager([&] { return l.w.sub_(0.5).numel(); }); }},
  };
  for (const auto& [name, write] : writes) {
    INFO(name);
    Layer layer;
    auto f = compile([&](const Tensor& x, const Tensor& w, const Tensor& b) { return relu(matmul(x, w.t()) + b); });
    const auto both = [&] { agree([&] { return f(x, layer.w, layer.b); }, [&] { return layer(x); }); };
    for (int turn = 0; turn < 3; ++turn) {
      for (int i = 0; i < 5; ++i) both();
      write(layer);
      both();
    }
  }
}
TEST_CASE("packed weights: a pointer that the user holds ends it, and writes by it are seen", "[packed]") {
  const NoGradGuard none;
  const Layer layer;
  const Tensor x = spread({8, 96}, 1);
  auto f = compile([&](const Tensor& x) { return layer(x); });
  settle([&] { return f(x); });
  CHECK(jit::packed_weight_bytes() > 0);
  float* const p = layer.w.data_ptr<float>();
  for (int i = 0; i < 5; ++i) {
    p[i * 7] = float(i);
    agree([&] { return f(x); }, [&] { return layer(x); });
  }
  CHECK(jit::packed_weight_bytes() == 0);
  // Nor is the user's own memory ever kept.
  std::vector<float> memory(160 * 96, 0.25f);
  const Tensor own = from_blob(memory.data(), {160, 96});
  auto g = compile([&](const Tensor& x, const Tensor& w) { return relu(matmul(x, w.t()) * 0.5); });
  for (int i = 0; i < 6; ++i) {
    memory[size_t(i) * 5] += 1;
    agree([&] { return g(x, own); }, [&] { return relu(matmul(x, own.t()) * 0.5); });
  }
  CHECK(jit::packed_weight_bytes() == 0);
}
TEST_CASE("packed weights: a training step never packs", "[packed]") {
  nn::Sequential net(nn::Linear(96, 160), nn::ReLU(), nn::Linear(160, 64));
  optim::SGD optimizer(net->parameters(), optim::SGDOptions(0.01));
  const Tensor x = spread({16, 96}, 1), y = spread({16, 64}, 1);
  const int64_t before = packed();
  for (int step = 0; step < 12; ++step) {
    optimizer.zero_grad();
    mse_loss(net->forward(x), y).backward();
    optimizer.step();
    synchronize();
  }
  CHECK(packed() == before);
  // A weight that is used many times in a run, and written after it, neither.
  Tensor w = spread({96, 96}, 0.1).requires_grad_(true);
  auto steps = compile([&](const Tensor& x) {
    Tensor h = x;
    for (int i = 0; i < 6; ++i) h = tanh(matmul(h, w.t()));
    return autograd::grad({h.sum()}, {w})[0];
  });
  for (int i = 0; i < 8; ++i) {
    const Tensor g = steps(x);
    const NoGradGuard none;
    w.sub_(g * 1e-3);
    synchronize();
  }
  CHECK(packed() == before);
}
TEST_CASE("packed weights: what packs in vain waits longer each time", "[packed]") {
  const NoGradGuard none;
  Layer layer;
  const Tensor x = spread({8, 96}, 1);
  auto f = compile([&](const Tensor& x) { return layer(x); });
  const int64_t before = packed();
  for (int turn = 0; turn < 20; ++turn) {  // four runs between writes, as with gradients over four batches
    for (int i = 0; i < 4; ++i) agree([&] { return f(x); }, [&] { return layer(x); });
    layer.w.mul_(0.99);
  }
  CHECK(packed() - before == 1);
}
TEST_CASE("packed weights: their memory is counted, named, bounded, and given back", "[packed]") {
  const NoGradGuard none;
  synchronize(), jit::wait_for_compiles();
  const int64_t start = memory::stats().current;  // what background work of the case before still holds may go meanwhile
  {
    auto layer = std::make_unique<Layer>();
    const Tensor x = spread({8, 96}, 1);
    const auto body = [&](const Tensor& x) { return (*layer)(x); };
    using Compiled = decltype(compile(body));
    std::unique_ptr<Compiled> f(new Compiled(compile(body)));
    synchronize();
    const int64_t without = memory::stats().current;
    settle([&] { return (*f)(x); });
    const int64_t bytes = jit::packed_weight_bytes();
    CHECK(bytes >= 160 * 96 * 4);
    CHECK(memory::stats().current - without >= bytes);
    const memory::Ledger ledger = memory::ledger([&] { return (*f)(x); });
    INFO(ledger.text());
    CHECK(ledger.packed_weights == bytes);
    CHECK(ledger.text().find("packed weights") != std::string::npos);
    SECTION("a write") {
      layer->w.mul_(2.0);
      synchronize();
    }
    SECTION("the weight goes") {
      f.reset(), layer.reset();
      synchronize();
    }
    SECTION("memory is released") { memory::empty_cache(); }
    SECTION("memory is short") {
      set_memory_limit(memory_stats().reserved);
      CHECK_THROWS_AS(empty({int64_t(1) << 34}), OutOfMemoryError);
      set_memory_limit(0);
    }
    SECTION("the plan goes") {
      f.reset();
      jit::forget_plans();
    }
    CHECK(jit::packed_weight_bytes() == 0);
    if (layer && f) agree([&] { return (*f)(x); }, [&] { return (*layer)(x); });
  }
  synchronize();
  CHECK(memory::stats().current <= start);
}
TEST_CASE("packed weights: all of them together are bounded", "[packed]") {
  const NoGradGuard none;
  constexpr int64_t limit = 200 << 10;
  jit::set_packed_weight_limit(limit);
  const Layer layers[] = {Layer(96, 160), Layer(160, 160), Layer(160, 160), Layer(160, 160)};
  auto block = compile([](const Tensor& x, const Tensor& w, const Tensor& b) { return relu(matmul(x, w.t()) + b); });
  const int64_t before = packed();
  for (int i = 0; i < 40; ++i) {
    Tensor x = spread({8, 96}, 1);
    for (const Layer& l : layers) {
      const Tensor y = block(x, l.w, l.b);
      agree([&] { return y; }, [&] { return l(x); });
      CHECK(jit::packed_weight_bytes() <= limit);
      x = y;
    }
  }
  CHECK(jit::packed_weight_bytes() > 0);
  CHECK(packed() - before == 2);  // what is read all the time does not make room
  auto f = compile([&](const Tensor& x) { return layers[2](x); });
  const Tensor x = spread({8, 160}, 1);
  settle([&] { return f(x); });
  CHECK(packed() - before == 3);  // what nobody reads any more does
  CHECK(jit::packed_weight_bytes() <= limit);
  jit::set_packed_weight_limit(0);
  CHECK(jit::packed_weight_bytes() == 0);
  settle([&] { return f(x); });
  CHECK(packed() - before == 3);
  jit::set_packed_weight_limit(int64_t(1) << 30);
}
TEST_CASE("packed weights: two plans read one copy, and layers take turns in one plan", "[packed]") {
  const NoGradGuard none;
  const Layer layer, other(160, 160), third(160, 160);
  const Tensor x = spread({8, 96}, 1);
  auto f = compile([&](const Tensor& x) { return layer(x); });
  auto g = compile([&](const Tensor& x) { return layer(x).sigmoid(); });
  const int64_t before = packed();
  settle([&] { return f(x); });
  settle([&] { return g(x); });
  CHECK(packed() - before == 1);
  const Tensor y = layer(x);
  auto block = compile([](const Tensor& x, const Tensor& w, const Tensor& b) { return relu(matmul(x, w.t()) + b); });
  for (int i = 0; i < 6; ++i)
    for (const Layer* l : {&other, &third}) agree([&] { return block(y, l->w, l->b); }, [&] { return (*l)(y); });
  CHECK(packed() - before == 3);
}
TEST_CASE("packed weights: threads that run one plan while a weight is written in between", "[packed]") {
  const NoGradGuard none;
  Layer layer;
  const Tensor x = spread({8, 96}, 1);
  auto f = compile([](const Tensor& x, const Tensor& w, const Tensor& b) { return relu(matmul(x, w.t()) + b); });
  settle([&] { return f(x, layer.w, layer.b); });
  for (int turn = 0; turn < 8; ++turn) {
    const std::string wanted = in_eager([&] { return bits_of(layer(x)); });
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        const NoGradGuard none;
        for (int k = 0; k < 12; ++k) wrong += bits_of(f(x, layer.w, layer.b)) != wanted;
      });
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
    std::thread([&] {
      const NoGradGuard none;
      layer.w.mul_(1.01);
      synchronize();
    }).join();
  }
}
TEST_CASE("packed weights: parts of a tensor, and one that reads itself", "[packed]") {
  const NoGradGuard none;
  const Tensor all = spread({3, 160, 96}, 0.3), x = spread({8, 96}, 1);
  synchronize();
  auto f = compile([&](const Tensor& x) { return relu(matmul(x, all[0].t())) + tanh(matmul(x, all[1].t())) - matmul(x, all[2].narrow(0, 0, 160).t()); });
  const auto eager = [&] { return relu(matmul(x, all[0].t())) + tanh(matmul(x, all[1].t())) - matmul(x, all[2].narrow(0, 0, 160).t()); };
  const int64_t before = packed();
  for (int i = 0; i < 5; ++i) agree([&] { return f(x); }, eager);
  CHECK(packed() - before == 3);
  all[1].fill_(0.5);
  for (int i = 0; i < 5; ++i) agree([&] { return f(x); }, eager);
  // Written in the run that reads it, before and after.
  Tensor w = spread({96, 96}, 0.2), v = w.clone();
  auto g = compile([](const Tensor& x, Tensor w) {
    const Tensor y = relu(matmul(x, w.t()) + 1.0);
    w.mul_(1.125);
    return y + matmul(x, w.t());
  });
  for (int i = 0; i < 7; ++i) {
    const Tensor got = g(x, w);
    const Tensor y = relu(matmul(x, v.t()) + 1.0);
    v.mul_(1.125);
    CHECK((bits_of(got) == bits_of(y + matmul(x, v.t()))));
  }
}
