// Following known traces, repeated flushes and frozen calls: whatever is compared instead of inferred, or not run at all, must be what
// an inference, an eager run and a run of the body give.
#include <catch2/catch.hpp>
#include <frit/frit.h>
#include <random>
#include <thread>
#include "jit/execute.h"
#include "tests/support/follow_checks.h"
#include "tracer/follow.h"

using namespace frit;
using namespace frit::indexing;

namespace {
// Re-runs the shape rules over every trace that is flushed.
struct Verified {
  Verified() {
    tracer::set_executor([](tracer::Trace& t, const char* cause) {
      tracer::verify(t);
      jit::execute(t, cause);
    });
  }
  ~Verified() { tracer::set_executor(&jit::execute); }
};

struct Model {
  Tensor w = randn({8, 16}, requires_grad()), b = zeros({16}, requires_grad()), v = randn({16, 3}, requires_grad());
  optim::SGD sgd{{w, b, v}, optim::SGDOptions(0.01).momentum(0.9)};
};
// Bodies whose traces begin alike, branch, and differ in sizes; each returns what it computed.
using Body = std::function<Tensor(Model&, int64_t)>;
const std::vector<Body>& bodies() {
  static const std::vector<Body> all = {
      [](Model& m, int64_t n) {
        Tensor x = arange(n * 8, kFloat32).reshape({n, 8}).sin();
        Tensor loss = (tanh(x.matmul(m.w) + m.b).matmul(m.v)).pow(2).mean();
        m.sgd.zero_grad();
        loss.backward();
        m.sgd.step();
        return loss;
      },
      [](Model& m, int64_t n) {
        Tensor x = arange(n * 8, kFloat32).reshape({n, 8}).sin();
        Tensor y = x.matmul(m.w.detach());
        return n % 2 ? y.transpose(0, 1).softmax(0) : y.sum(0, true).expand({n, 16}) * y;
      },
      [](Model& m, int64_t n) {
        Tensor x = arange(n * 8, kFloat32).reshape({n, 8}).sin();
        std::vector<Tensor> parts = {x, x.index({Slice(None, None, 2)}), m.w.detach().index({Slice(), Slice(0, 8)})};
        Tensor y = cat(parts, 0);
        y.index({Slice(), 0}).mul_(2.0 + double(n));
        return y.view({-1}).cumsum(0);
      },
      [](Model&, int64_t n) {
        Tensor y = ones({n});
        for (int64_t i = 0; i < n % 7; ++i) y = y * 1.5 + double(i);
        return y;
      },
      [](Model&, int64_t n) {
        Tensor y = named(rand({n, 4}), n % 3 ? "seq dim" : "batch dim");
        return (y * named(ones({4}), "dim")).sum(0);
      },
  };
  return all;
}
std::vector<Tensor> run(jit::Mode mode, uint64_t seed) {
  const jit::ModeGuard guard(mode);
  manual_seed(1);
  Model m;
  std::mt19937_64 random(seed);
  std::vector<Tensor> results;
  for (int step = 0; step < 200; ++step) {
    const Body& body = bodies()[random() % bodies().size()];
    results.push_back(body(m, int64_t(random() % 9)));
    if (random() % 2) synchronize();
  }
  synchronize();
  return results;
}
bool same(const Tensor& a, const Tensor& b) { return a.sizes().vec() == b.sizes().vec() && nan_to_num(a, 1e30).equal(nan_to_num(b, 1e30)); }
}  // namespace

TEST_CASE("follow: repeated and branching traces are what an inference gives") {
  const Verified verified;
  const int64_t before = jit::stats().ops_followed;
  for (uint64_t seed : {1, 2, 3}) {
    const std::vector<Tensor> eager = run(jit::Mode::eager, seed), automatic = run(jit::Mode::automatic, seed);
    CAPTURE(seed);
    for (size_t i = 0; i < eager.size(); ++i) {
      CAPTURE(i);
      REQUIRE(same(eager[i], automatic[i]));
    }
  }
  CHECK(jit::stats().ops_followed - before > 1000);
}

TEST_CASE("follow: the second time every plain call is followed, whatever the extents") {
  const jit::ModeGuard guard(jit::Mode::automatic);
  synchronize();
  const auto body = [](int64_t n) {
    Tensor x = ones({n, 3});
    Tensor y = (x * 2.0 + 1.0).exp().sum(1).softmax(0);
    synchronize();
    return y;
  };
  body(5);
  for (int64_t n : {5, 9, 100}) {
    const int64_t before = jit::stats().ops_followed;
    body(n);
    CHECK(jit::stats().ops_followed - before >= 4);
  }
  // An extent of 1 or 0 is structure: another path, which is then known too.
  body(1);
  const int64_t before = jit::stats().ops_followed;
  body(1);
  CHECK(jit::stats().ops_followed - before >= 4);
}

TEST_CASE("follow: an error on a followed path is the error of an inference") {
  const jit::ModeGuard guard(jit::Mode::automatic);
  synchronize();
  const auto body = [](const Tensor& x, const Tensor& y) { return (x + y).exp(); };
  std::string wanted, told;
  try {
    const jit::ModeGuard eager(jit::Mode::eager);
    body(ones({4, 3}), ones({5}));
  } catch (const ShapeError& e) { wanted = e.what(); }
  const Tensor a = ones({4, 3}), b = ones({3}), c = ones({5});
  synchronize();
  for (int i = 0; i < 3; ++i) {
    Tensor r = body(a, b);
    synchronize();
    CHECK(r.sizes().vec() == std::vector<int64_t>{4, 3});
  }
  try {
    body(a, c);
  } catch (const ShapeError& e) { told = e.what(); }
  CHECK(told == wanted);
  CHECK_FALSE(told.empty());
  CHECK(body(a, b).equal((a + b).exp()));
}

TEST_CASE("follow: what makes a repeated program another one is noticed") {
  CHECK(testing::what_repetition_gets_wrong() == std::vector<std::string>{});
}

TEST_CASE("follow: known traces are bounded") {
  const jit::ModeGuard guard(jit::Mode::automatic);
  for (int i = 0; i < 4000; ++i) {  // no two alike
    Tensor x = ones({3});
    for (int bit = 0; bit < 12; ++bit) x = i >> bit & 1 ? x + 1.0 : x * 2.0;
    if (i % 500 == 0) CHECK(x.sum().item<double>() > 0);
    synchronize();
  }
  Tensor x = ones({3});
  synchronize();
  CHECK((x + 1.0).equal(full({3}, 2.0)));
}

// ---- frozen ---------------------------------------------------------------------------------------------------------------
namespace {
struct Parts {
  Tensor first;
  std::vector<Tensor> rest;
  int count;
};
int64_t frozen_calls() { return jit::stats().frozen_calls; }
}  // namespace

TEST_CASE("frozen: known shapes skip the body and nothing else changes") {
  int bodies = 0;
  Tensor w = randn({6}, requires_grad()), state = zeros({4, 6}), wanted_state = zeros({4, 6});
  auto f = compile(
      [&](const Parts& p, int k) {
        ++bodies;
        Tensor t = p.first * w + p.rest[0];
        state.add_(t.detach());
        return Parts{t, {dropout(t, 0.5, true), t.view({-1})}, k};
      },
      jit::Options().frozen());
  const int64_t before = frozen_calls();
  for (int i = 0; i < 40; ++i) {
    const Tensor x = randn({4, 6}), y = randn({6});
    const std::pair<uint64_t, uint64_t> randomness = tracer::random_state();
    const Parts r = f(Parts{x, {y}, 1}, 7);
    CAPTURE(i);
    const Tensor wanted = x * w + y;
    REQUIRE(r.first.equal(wanted));
    REQUIRE(r.count == 7);
    REQUIRE(r.rest[1].equal(wanted.reshape({-1})));
    tracer::set_random_state(randomness);
    REQUIRE(r.rest[0].equal(dropout(wanted, 0.5, true)));
    wanted_state.add_(wanted.detach());
    REQUIRE(state.equal(wanted_state));
    w.set_grad({});
    r.first.sum().backward();
    REQUIRE(w.grad().equal(x.sum(0)));
    r.rest[1].detach().zero_();  // a view of the first
    REQUIRE(r.first.detach().abs().sum().item<double>() == 0);
  }
  CHECK(f.why_not_frozen() == "");
  CHECK(bodies == 6);  // the first, then calls 2, 4, 8, 16 and 32
  CHECK(frozen_calls() - before == 34);
}

TEST_CASE("frozen: other shapes, strides, dtypes and modes are calls of their own") {
  int bodies = 0;
  auto f = compile([&](const Tensor& x) { return ++bodies, x.is_contiguous() ? x.to(kFloat64) * 2.0 : x.to(kFloat64) * 3.0; }, jit::Options().frozen());
  const auto check = [&](const Tensor& x, double factor) { CHECK(f(x).equal(x.to(kFloat64) * factor)); };
  for (int round = 0; round < 3; ++round) {
    check(ones({3, 4}), 2);
    check(ones({4, 3}), 2);
    check(ones({4, 3}).t(), 3);
    check(ones({3, 4}, kInt64), 2);
    check(ones({3, 1}), 2);
    check(ones({3, 0}), 2);
    NoGradGuard none;
    check(ones({3, 4}), 2);
  }
  CHECK(bodies == 14);  // seven calls, first and second; the third is frozen
}

TEST_CASE("frozen: the sampling check names what changed") {
  double scale = 2;
  bool longer = false;
  auto f = compile([&](const Tensor& x) { return longer ? (x * scale).exp() : x * scale; }, jit::Options().frozen());
  const Tensor x = ones({5});
  for (int i = 0; i < 10; ++i) f(x);
  scale = 3;
  const auto until_found = [&] {
    for (int i = 0; i < 40; ++i) f(x);
  };
  CHECK_THROWS_WITH(until_found(), Catch::Contains("mul") && Catch::Contains("another number") && Catch::Contains("frozen()"));
  f(x), f(x);
  longer = true;
  CHECK_THROWS_WITH(until_found(), Catch::Contains("exp") && Catch::Contains("is new"));
  longer = false;
  CHECK(f(x).equal(x * 3.0));  // recorded anew
}

TEST_CASE("frozen: what cannot be told from the arguments is run") {
  const Tensor x = ones({3});
  Tensor kept, w = ones({3}, requires_grad());
  const auto reason = [&](auto body) {
    auto f = compile(body, jit::Options().frozen());
    const int64_t before = frozen_calls();
    for (int i = 0; i < 5; ++i) CHECK(f(x).equal(x * 2.0));
    CHECK(frozen_calls() == before);
    return f.why_not_frozen();
  };
  CHECK_THAT(reason([&](const Tensor& a) { return a * 2.0 * a.sum().item<double>() / 3.0; }), Catch::Contains("reads a value"));
  CHECK_THAT(reason([&](const Tensor& a) { kept = a + 1.0; return a * 2.0; }), Catch::Contains("outside of its results"));
  CHECK_THAT(reason([&](const Tensor& a) { w.set_grad({}); (a * w).sum().backward(); return a * 2.0; }), Catch::Contains("gradient"));
  CHECK_THAT(reason([&](const Tensor& a) { return a * tensor({2.0, 2.0, 2.0}, kFloat32); }), Catch::Contains("makes a tensor from values"));
  auto two = compile([](const Tensor& a, const Tensor& b) { return a + b; }, jit::Options().frozen());
  for (int i = 0; i < 5; ++i) CHECK(two(x, x).equal(x * 2.0));
  CHECK_THAT(two.why_not_frozen(), Catch::Contains("one tensor"));
}

TEST_CASE("frozen: a gradient is accumulated where it is now") {
  Tensor w = ones({3}, requires_grad());
  auto f = compile([&](const Tensor& a) { Tensor y = a * w; y.sum().backward(); return y.detach(); }, jit::Options().frozen());
  const Tensor x = full({3}, 2.0);
  const int64_t before = frozen_calls();
  for (int round = 0; round < 3; ++round) {
    w.set_grad({});
    for (int i = 1; i <= 12; ++i) {
      CHECK(f(x).equal(x));
      REQUIRE(w.grad().defined());
      CHECK(w.grad().equal(x * double(i)));
    }
  }
  CHECK(frozen_calls() > before);
}

TEST_CASE("frozen: from several threads at once") {
  const Tensor w = randn({32, 32});
  auto f = compile([&](const Tensor& x) { return tanh(x.matmul(w)).sum(1); }, jit::Options().frozen());
  std::vector<Tensor> in, wanted;
  for (int i = 0; i < 4; ++i) in.push_back(randn({8 + i, 32})), wanted.push_back(tanh(in.back().matmul(w)).sum(1));
  synchronize();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&, k] {
      for (int i = 0; i < 200; ++i) wrong += !f(in[size_t(k + i) % 4]).equal(wanted[size_t(k + i) % 4]);
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

// ---- history --------------------------------------------------------------------------------------------------------------
TEST_CASE("history: a ring of launches with bytes and flops, off unless asked for") {
  const Tensor x = randn({32, 64}), w = randn({64, 8});
  auto f = compile([&](const Tensor& a) { return (tanh(a) * 2.0).matmul(w); });
  f(x);
  CHECK(jit::history().empty());
  jit::record_history(3);
  f(x);
  {
    const std::vector<jit::LaunchRecord> h = jit::history();
    REQUIRE(h.size() == 1);  // the product's rows are made as it wants them
    CHECK(h[0].kernel == "tanh mul matmul");
    CHECK(h[0].tier == 1);
    CHECK(h[0].flops == 2 * 32 * 64 + 2 * 32 * 64 * 8);
    CHECK(h[0].bytes >= 4 * (32 * 64 + 64 * 8 + 32 * 8));
    CHECK(h[0].bytes <= 4 * (3 * 32 * 64 + 64 * 8 + 32 * 8));
  }
  f(x), f(x), f(x);
  {
    const std::vector<jit::LaunchRecord> h = jit::history();  // the latest three
    REQUIRE(h.size() == 3);
    CHECK(h[0].start <= h[1].start);
    CHECK(h[1].start <= h[2].start);
  }
  const auto apart = [&](const Tensor& a) { return sum(tanh(a)).add(matmul(a, w).sum()); };
  auto g = compile(apart);
  g(x);
  jit::record_history(10);
  g(x);
  {
    const std::vector<jit::LaunchRecord> h = jit::history();
    REQUIRE(h.size() >= 2);
    const auto product = std::find_if(h.begin(), h.end(), [](const auto& r) { return r.kernel.rfind("matmul", 0) == 0; });
    REQUIRE(product != h.end());
    CHECK(product->flops >= 2 * 32 * 64 * 8);
  }
  jit::record_history(0);
  f(x);
  CHECK(jit::history().empty());
  CHECK_THROWS_WITH(jit::record_history(-1), Catch::Contains("0 or more"));
}
