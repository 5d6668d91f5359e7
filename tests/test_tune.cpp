// Tier 2: kernels that are tried compute the same bits, the trial ends, and what it decided is data.
#include <catch2/catch.hpp>
#include <frit/frit.h>
#include "jit/tiers.h"

using namespace frit;

namespace {
struct Scope {
  jit::TuneSettings before = jit::tune_settings();
  Scope() { jit::tune_settings() = {4, 3, 0}; }
  ~Scope() { jit::tune_settings() = before; }
};
}  // namespace

TEST_CASE("tier 2: candidates are tried on the runs themselves, with the same bits") {
  const Scope scope;
  const jit::ModeGuard eager(jit::Mode::eager);  // what is counted is what compile() makes
  Tensor w = randn({300}), b = randn({300});
  const auto body = [&](const Tensor& x) { return gelu(x * w + b).softmax(1) * 2.0 + (x - x.mean(1, true)).sum(0); };
  auto f = compile(body);
  std::vector<Tensor> in, wanted;
  for (int64_t rows : {3, 17}) {
    in.push_back(randn({rows, 300}));
    const jit::ModeGuard eager(jit::Mode::eager);
    wanted.push_back(body(in.back()));
  }
  const jit::Stats before = jit::stats();
  jit::record_history(100000);
  for (int i = 0; i < 200; ++i) {
    REQUIRE(f(in[size_t(i % 2)]).equal(wanted[size_t(i % 2)]));
    if (i % 10 == 0) jit::wait_for_compiles();
  }
  int tier2 = 0;
  for (const jit::LaunchRecord& r : jit::history()) tier2 += r.tier == 2;
  jit::record_history(0);
  CHECK(tier2 >= 6);  // each candidate, at least
  CHECK(jit::stats().tier2_kernels - before.tier2_kernels >= 3);
  CHECK(jit::stats().kernels_compiled - before.kernels_compiled <= 4);  // tier 2 counts by itself
  int settled = 0;
  for (const auto& plan : jit::kept_plans())
    for (const jit::PlanGroup& g : plan->groups) settled += !g.tuner.text().empty();
  CHECK(settled > 0);
}

TEST_CASE("tier 2: shapes that change all the time are not tuned") {
  const Scope scope;
  const jit::ModeGuard eager(jit::Mode::eager);  // what is counted is what compile() makes
  auto f = compile([](const Tensor& x) { return (x * 2.0).tanh() + 1.0; });
  const jit::Stats before = jit::stats();
  for (int i = 0; i < 60; ++i) f(ones({100 + i}));
  jit::wait_for_compiles();
  CHECK(jit::stats().tier2_kernels == before.tier2_kernels);
}
