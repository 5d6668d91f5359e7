// Automatic mode: when traces are run and what they hold until then, who waits for compiles, how long plans live, and what fast_math
// allows where.
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <thread>
#include "frit/compile.h"
#include "tests/support/automatic.h"

using namespace frit;
using namespace frit::testing;
using Catch::Matchers::Contains;

TEST_CASE("in the background nobody waits for a compile; in the foreground the caller does", "[automatic]") {
  for (const jit::CompileWhere where : {jit::CompileWhere::background, jit::CompileWhere::foreground}) {
    const Automatic automatic(2, where);
    const jit::Stats before = jit::stats();
    for (int64_t i = 0; i < 60; ++i) {
      Tensor x = numbers({3 + i, 5}).requires_grad_();
      ((x * 2.0).tanh() + x.exp()).softmax(-1).sum().backward();
      (void)x.grad().sum().item<float>();
      if (i % 10 == 9) jit::wait_for_compiles();
    }
    const jit::Stats spent = minus(jit::stats(), before);
    CHECK(spent.plans_compiled >= 3);
    CHECK(spent.kernels_compiled >= 1);
    CHECK(spent.compile_ms > 0);
    CHECK((spent.waited_compile_ms > 0) == (where == jit::CompileWhere::foreground));
  }
}

TEST_CASE("a deferred trace that runs op by op holds no more memory than the eager program", "[automatic]") {
  constexpr int64_t mib = int64_t(1) << 20;
  const Tensor x = numbers({512, 512});  // 1 MiB
  const auto f = [&] {
    Tensor y = x;
    for (int i = 0; i < 40; ++i) y = (y * 1.01).transpose(0, 1) + x;
    return y;
  };
  const auto peak_of = [&] {
    synchronize();
    memory::reset_peak();
    const int64_t before = memory::stats().current;
    const Tensor y = f();
    synchronize();
    return memory::stats().peak - before;
  };
  int64_t of_eager;
  {
    const jit::ModeGuard eager(jit::Mode::eager);
    of_eager = peak_of();
  }
  const Automatic automatic(100);  // never hot
  const jit::Stats before = jit::stats();
  const int64_t deferred = peak_of();
  CHECK(minus(jit::stats(), before).tier0_flushes == 1);
  CHECK(of_eager <= 4 * mib);
  CHECK(deferred <= of_eager);
  CHECK(same_bits(f(), f));
}

TEST_CASE("many bytes that are never held at once do not cut a trace; what only the trace keeps alive does", "[automatic]") {
  const Automatic automatic(100);
  const auto flushes = [&](auto f) {
    synchronize();
    const jit::Stats before = jit::stats();
    const Tensor kept = f();
    return minus(jit::stats(), before).flushes;
  };
  const Tensor x = ones({64, 1024, 1024}, kUInt8), wide = x.unsqueeze(0).expand({64, 64, 1024, 1024});  // 64 MiB shown as 4 GiB
  CHECK(flushes([&] { return wide.sum({0, 1, 2, 3}); }) == 0);
  CHECK(flushes([&] {
          Tensor s = zeros({1}, kUInt8);
          for (int i = 0; i < 40; ++i) s = s + x[i].flatten().slice(0, i, i + 1);  // the user keeps x
          return s;
        }) == 0);
  std::vector<Tensor> batches;  // 80 times 32 MiB, touched by nobody
  for (int i = 0; i < 80; ++i) batches.push_back(in_eager([] { return empty({32 << 20}, kUInt8); }));
  const int64_t cuts = flushes([&] {
    Tensor s = zeros({1}, kUInt8);
    for (; !batches.empty(); batches.pop_back()) s = s + batches.back().slice(0, 0, 1);
    return s;
  });
  CHECK(cuts == 2);
}

TEST_CASE("a loop that reads nothing is cut between its turns: its traces are alike", "[automatic]") {
  const Automatic automatic;
  for (const int ops : {3, 5, 7}) {
    const jit::Stats before = jit::stats();
    Tensor x = numbers({4});
    const Tensor w = numbers({4}), zero = zeros({4});
    for (int i = 0; i < 60000 / ops; ++i) {
      Tensor y = x * w;
      for (int k = 0; k < ops - 2; ++k) y = y.tanh();
      x = y + zero;
    }
    const jit::Stats spent = minus(jit::stats(), before);
    CHECK(spent.flushes >= 6);
    CHECK(spent.plans_compiled <= 2);  // the first trace makes its own leaves
    CHECK(spent.tier0_flushes <= 4);  // the number's own, the first of a kind, the last
    CHECK(spent.plan_hits >= spent.flushes - 5);
  }
}

TEST_CASE("a slice that happens to be the whole axis has the trace of every other", "[automatic]") {
  const Automatic automatic;
  const Tensor x = numbers({4, 12});
  const jit::Stats before = jit::stats();
  for (int64_t length = 8; length <= 12; ++length) (void)(x.narrow(1, 0, length) * 2.0).sum().item<float>();
  const jit::Stats spent = minus(jit::stats(), before);
  CHECK(spent.tier0_flushes == 1);
  CHECK(spent.plans_compiled == 1);  // 9 to 12: 8 is another bucket, and came first
}

TEST_CASE("fast_math: a product that is added to is not rounded first, only where it is allowed, and explain says so", "[automatic]") {
  const Automatic automatic;
  const Tensor x = numbers({1000}) / 3.0, y = numbers({1000}) / 7.0, z = numbers({1000}) / 11.0;
  const auto f = [](const Tensor& x, const Tensor& y, const Tensor& z) { return TensorList{x * y + z, z - x * y, x * y - z, x * y + y * z, (x * y) * z}; };
  const auto call = [&](auto compiled) { return compiled(x, y, z); };
  const TensorList eager = in_eager([&] { return f(x, y, z); }), exact = call(compile(f)), fast = call(compile(f, jit::Options().fast_math())), again = call(compile(f));
  bool differs = false;
  for (size_t i = 0; i < eager.size(); ++i) {
    CHECK(bits_of(exact[i]) == bits_of(eager[i]));
    CHECK(bits_of(again[i]) == bits_of(eager[i]));
    CHECK(allclose(fast[i], eager[i], 1e-5, 1e-6));
    differs |= bits_of(fast[i]) != bits_of(eager[i]);
  }
  CHECK(differs);
  // Exactly: what std::fma gives.
  const float *a = x.const_data_ptr<float>(), *b = y.const_data_ptr<float>(), *c = z.const_data_ptr<float>();
  int64_t wrong = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    wrong += fast[0].const_data_ptr<float>()[i] != std::fma(a[i], b[i], c[i]);
    wrong += fast[1].const_data_ptr<float>()[i] != std::fma(-a[i], b[i], c[i]);
    wrong += fast[2].const_data_ptr<float>()[i] != std::fma(a[i], b[i], -c[i]);
  }
  CHECK(wrong == 0);
  CHECK_THAT(jit::explain([&] { (void)f(x, y, z)[0].sum().item<float>(); }), !Contains("fast_math"));
  jit::set_fast_math(true);
  CHECK_THAT(jit::explain([&] { (void)f(x, y, z)[0].sum().item<float>(); }), Contains("fast_math: results may differ"));
  jit::set_fast_math(false);
}

TEST_CASE("a plan that left the cache is gone, also where its flush is known", "[automatic]") {
  const Automatic automatic;
  const Tensor x = numbers({7});
  const auto f = [&] {
    const Tensor y = (x * 2.0).tanh() + 1.0;
    synchronize();
  };
  for (int i = 0; i < 4; ++i) f();
  REQUIRE(jit::kept_plans().size() == 1);
  const std::weak_ptr<jit::Plan> plan = jit::kept_plans()[0];
  jit::forget_plans();
  CHECK(plan.expired());
  const jit::Stats before = jit::stats();
  for (int i = 0; i < 2; ++i) f();  // hot anew
  CHECK(minus(jit::stats(), before).plans_compiled == 1);
}

TEST_CASE("another thread's trace is not run with the fast_math of the thread that needs it", "[automatic]") {
  const Automatic automatic(1);
  const Tensor x = numbers({1000}) / 3.0, y = numbers({1000}) / 7.0, z = numbers({1000}) / 11.0;
  synchronize();
  const std::string exact = in_eager([&] { return bits_of(x * y + z); });
  Tensor made = x * y + z;  // deferred here
  std::string there;
  std::thread([&] {
    const auto fast = compile([&](const Tensor& t) { return t * 2.0; }, jit::Options().fast_math());
    auto call = fast;
    (void)call(made);
    there = bits_of(made);
  }).join();
  CHECK(there == exact);
}
