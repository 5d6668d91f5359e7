// memory::ledger: every kind of memory against numbers computed by hand, in both modes; what a plan says of its memory before it runs.
#include <catch2/catch.hpp>
#include <frit/frit.h>
#include <frit/print.h>
#include <algorithm>
#include <sstream>
#include "jit/run_log.h"
#include "jit/tiers.h"

using namespace frit;
using Catch::Matchers::Contains;

namespace {
constexpr int64_t batch = 32, wide = 640, hidden = 480, out = 10;
struct Net : nn::Module {
  nn::Linear first{nullptr}, last{nullptr};
  Net() {
    first = register_module("first", nn::Linear(wide, hidden));
    last = register_module("last", nn::Linear(hidden, out));
  }
  Tensor forward(const Tensor& x) { return last(relu(first(x))); }
};
constexpr int64_t parameter_bytes = 4 * (wide * hidden + hidden + hidden * out + out);

struct Training {
  Net net;
  optim::AdamW optimizer{net.parameters(), optim::AdamWOptions(1e-3)};
  Tensor x = randn({batch, wide}), y = randn({batch, out});
  Tensor loss() { return (net.forward(x) - y).square().sum(); }
  void step() {
    optimizer.zero_grad();
    loss().backward();
    optimizer.step();
  }
};
int64_t held_by(const memory::Ledger& l, const std::string& kind) {
  int64_t n = 0;
  for (const auto& h : l.holders) n += h.kind == kind ? h.bytes : 0;
  return n;
}
void check_sums(const memory::Ledger& l) {
  CAPTURE(l.text());
  CHECK(l.complete);
  CHECK(l.peak == l.at_peak.total());
  int64_t sum = 0;
  for (const auto& h : l.holders) sum += h.bytes;
  CHECK(sum == l.peak);
  CHECK(held_by(l, "parameters") == l.at_peak.parameters);
  CHECK(held_by(l, "gradients") == l.at_peak.gradients);
  CHECK(held_by(l, "saved for backward") == l.at_peak.saved);
  CHECK(held_by(l, "temporaries") == l.at_peak.temporaries);
  CHECK(std::is_sorted(l.holders.begin(), l.holders.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; }));
  CHECK(l.at_peak.saved <= l.saved);
  CHECK(l.at_peak.gradients <= l.gradients);
  CHECK(l.at_peak.temporaries <= l.temporaries);
}
}  // namespace

TEST_CASE("memory ledger: a training step in eager mode, each kind by hand") {
  const jit::ModeGuard eager(jit::Mode::eager);
  manual_seed(1);
  Training t;
  t.step();
  const int64_t before = memory::stats().current;
  memory::reset_peak();
  const memory::Ledger l = memory::ledger([&] { t.step(); });
  CAPTURE(l.text());
  CHECK(l.parameters == parameter_bytes);
  CHECK(l.optimizer_state == 2 * parameter_bytes);
  CHECK(l.gradients == parameter_bytes);
  // Products save the input and relu's result (the layers' inputs), square its operand; relu its own result, which is counted once.
  CHECK(l.saved == 4 * (batch * wide + batch * hidden + batch * out));
  // The square root of the second moment of the largest parameter, when everything else is there.
  CHECK(l.temporaries >= 4 * wide * hidden);
  CHECK(l.temporaries <= 3 * 4 * wide * hidden);
  CHECK(std::abs(l.peak - memory::stats().peak) < 16384);
  CHECK(l.others < before);
  CHECK(memory::stats().current - before < 4096);
  check_sums(l);
}

TEST_CASE("memory ledger: forward alone holds what backward would read; without gradients nothing is saved") {
  const jit::ModeGuard eager(jit::Mode::eager);
  manual_seed(2);
  Training t;
  const memory::Ledger forward = memory::ledger([&] { return t.loss(); });
  CAPTURE(forward.text());
  CHECK(forward.saved == 4 * (batch * wide + batch * hidden + batch * out));
  CHECK(forward.gradients == 0);
  CHECK(forward.optimizer_state == 0);
  CHECK(forward.parameters == parameter_bytes);
  check_sums(forward);
  const memory::Ledger none = memory::ledger([&] {
    const NoGradGuard no_grad;
    return t.net.forward(t.x);
  });
  CHECK(none.saved == 0);
  CHECK(none.parameters == parameter_bytes);
  // Both layers' results and what comes between: at most three of the larger are there at once.
  CHECK(none.temporaries >= 4 * batch * hidden);
  CHECK(none.temporaries <= 3 * 4 * batch * hidden);
  // Gradients that are there count though nobody touches them.
  t.step();
  const memory::Ledger idle = memory::ledger([] {});
  CHECK(idle.gradients == parameter_bytes);
  CHECK(idle.optimizer_state == 2 * parameter_bytes);
  CHECK(idle.saved == 0);
  CHECK(idle.temporaries == 0);
}

TEST_CASE("memory ledger: a gradient that nobody's optimiser knows, also when it is deferred") {
  for (const jit::Mode mode : {jit::Mode::eager, jit::Mode::automatic}) {
    const jit::ModeGuard guard(mode);
    Tensor w = randn({100, 50}, requires_grad()), x = randn({20, 100});
    const memory::Ledger l = memory::ledger([&] { x.matmul(w).sum().backward(); });
    CAPTURE(int(mode), l.text());
    CHECK(l.parameters == 4 * 100 * 50);
    CHECK(l.gradients == 4 * 100 * 50);
    CHECK(l.saved == 4 * 20 * 100);
    check_sums(l);
    const memory::Ledger again = memory::ledger([&] { x.matmul(w).sum().backward(); });  // added to the first
    CHECK(again.gradients == 4 * 100 * 50);
  }
}

TEST_CASE("memory ledger: a training step as one compiled plan") {
  const jit::ModeGuard automatic(jit::Mode::automatic);
  manual_seed(3);
  Training t;
  auto step = compile([&] { t.step(); });
  for (int i = 0; i < 3; ++i) step();
  memory::reset_peak();
  const memory::Ledger l = memory::ledger([&] { step(); });
  CAPTURE(l.text());
  CHECK(l.parameters == parameter_bytes);
  CHECK(l.optimizer_state == 2 * parameter_bytes);
  CHECK(l.gradients == parameter_bytes);
  // The difference from y is not stored where the kernel that squares it makes it again or hands it on.
  CHECK(l.saved >= 4 * (batch * wide + batch * hidden));
  CHECK(l.saved <= 4 * (batch * wide + batch * hidden + batch * out));
  // The update is fused: it needs no memory of its own. What is left are results of products on their way: the largest is a weight's gradient
  // before it is turned over.
  CHECK(l.temporaries <= 4 * (wide * hidden + 2 * batch * hidden));
  CHECK(std::abs(l.peak - memory::stats().peak) < 16384);
  check_sums(l);
}

TEST_CASE("memory ledger: a trace that is run op by op lets go of what is not read again") {
  const jit::ModeGuard automatic(jit::Mode::automatic);
  jit::forget_plans();
  const int64_t bytes = 4 * 256 * 256;
  const Tensor x = randn({256, 256});
  const auto chain = [&] {
    Tensor y = x, kept = sin(x);
    for (int i = 0; i < 25; ++i) y = tanh(y.t() * 0.5 + x).flip({0});
    return std::make_pair(y, kept.add_(y.sum()));
  };
  synchronize();
  const int64_t flushes = jit::stats().tier0_flushes;
  const memory::Ledger cold = memory::ledger(chain);
  REQUIRE(jit::stats().tier0_flushes == flushes + 1);
  CAPTURE(cold.text());
  CHECK(cold.temporaries <= 5 * bytes);
  CHECK(cold.temporaries >= 3 * bytes);
  check_sums(cold);
  // A training step, the first of its kind.
  Training t;
  const memory::Ledger step = memory::ledger([&] { t.step(); });
  CAPTURE(step.text());
  CHECK(step.saved == 4 * (batch * wide + batch * hidden + batch * out));
  CHECK(step.gradients == parameter_bytes);
  CHECK(step.temporaries <= 4 * 4 * wide * hidden);
}

TEST_CASE("memory ledger: holders say the op and the line; errors pass through; ledgers may be nested") {
  const jit::ModeGuard eager(jit::Mode::eager);
  const Tensor x = randn({64, 1024});
  const memory::Ledger l = memory::ledger([&] { return tanh(x); });
  REQUIRE(l.holders.size() >= 1);
  const auto made = std::find_if(l.holders.begin(), l.holders.end(), [](const auto& h) { return h.what == "tanh f32[64, 1024]"; });
  REQUIRE(made != l.holders.end());
  CHECK(made->kind == "temporaries");
  CHECK(made->bytes == 4 * 64 * 1024);
  CHECK_THAT(made->line, Contains("test_memory_ledger.cpp"));
  CHECK_THAT(l.text(), Contains("parameters") && Contains("256.0 KiB") && Contains("tanh f32[64, 1024]"));
  std::ostringstream stream;
  stream << l;
  CHECK(stream.str() == l.text());
  CHECK_THROWS_WITH(memory::ledger([] { throw ValueError("mine"); }), Contains("mine"));
  memory::Ledger within;
  const memory::Ledger around = memory::ledger([&] {
    const Tensor a = sin(x);
    within = memory::ledger([&] { return cos(a); });
  });
  CHECK(within.temporaries == 4 * 64 * 1024);
  CHECK(around.temporaries == 2 * 4 * 64 * 1024);
  CHECK(within.others >= 2 * 4 * 64 * 1024);  // x and a
  check_sums(within);
  check_sums(around);
}

TEST_CASE("plan memory: what a plan says before it runs is what it needs, within 5 %") {
  const jit::ModeGuard automatic(jit::Mode::automatic);
  manual_seed(4);
  for (const int64_t rows : {16, 256}) {
    Training t;
    t.x = randn({rows, wide}), t.y = randn({rows, out});
    auto step = compile([&] { t.step(); });
    step();  // the optimiser's state is made
    jit::forget_plans();
    jit::start_run_log();
    step();
    jit::stop_run_log();
    const jit::RunLog log = jit::run_log();
    REQUIRE(log.plans.size() == 1);
    const auto& predicted = log.plans[0].memory;
    t.optimizer.zero_grad();
    const int64_t before = memory::stats().current;
    memory::reset_peak();
    step();
    const double measured = double(memory::stats().peak - before);
    CAPTURE(rows, predicted.peak, measured, log.plans[0].text);
    CHECK(std::abs(double(predicted.peak) / measured - 1) < 0.05);
    CHECK(predicted.kept >= parameter_bytes);  // gradients stay
    CHECK(predicted.during.size() == log.plans[0].steps.size());
    CHECK(*std::max_element(predicted.during.begin(), predicted.during.end()) == predicted.peak);
    REQUIRE(!predicted.holders.empty());
    CHECK_THAT(log.plans[0].text, Contains("memory: at most"));
  }
}

TEST_CASE("plan memory: chains of products, views that copy, and numbers") {
  const jit::ModeGuard automatic(jit::Mode::automatic);
  const int64_t n = 96;
  const Tensor a = randn({n, n}), b = randn({n, n});
  const auto check = [&](const char* what, const std::function<Tensor()>& f) {
    auto g = compile(f);
    g();
    jit::forget_plans();
    jit::start_run_log();
    g();
    jit::stop_run_log();
    const jit::RunLog log = jit::run_log();
    REQUIRE(log.plans.size() == 1);
    const int64_t before = memory::stats().current;
    memory::reset_peak();
    const Tensor kept = g();
    const double measured = double(memory::stats().peak - before);
    CAPTURE(what, log.plans[0].memory.peak, measured, log.plans[0].text);
    CHECK(std::abs(double(log.plans[0].memory.peak) / measured - 1) < 0.05);
    CHECK(std::abs(double(log.plans[0].memory.kept) / double(memory::stats().current - before) - 1) < 0.05);
  };
  check("a chain", [&] { return a.matmul(b).matmul(a).matmul(b).matmul(a); });
  check("two results live", [&] { const Tensor c = a.matmul(b), d = b.matmul(a); return c.matmul(d) + c; });
  check("a copying reshape", [&] { return a.matmul(b).t().reshape({n * n}).cumsum(0); });
  check("a view kept", [&] { return a.matmul(b).narrow(0, 0, 2); });
  check("pointwise", [&] { return tanh(a) * 2 + b; });
}
