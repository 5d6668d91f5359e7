// Random programs, run eagerly, in automatic mode with compiles in the foreground and in the background, and through compile(f):
// everything that they show must be equal bit for bit (all NaNs are one). A failure is made small and printed as C++.
// FRIT_RANDOM_PROGRAMS: how many programs (400) · FRIT_RANDOM_FIRST: the first seed (1).
#include <catch2/catch.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "frit/compile.h"
#include "jit/tiers.h"
#include "tests/support/random_program.h"

using namespace frit;
using namespace frit::testing;

namespace {

enum class Way : uint8_t { foreground, background, compiled };
const char* const way_names[] = {"automatic, compiled in the foreground", "automatic, compiled in the background", "compile(f)"};

std::vector<Shown> run_eager(const TensorProgram& p) {
  const jit::ModeGuard mode(jit::Mode::eager);
  manual_seed(p.seed);
  return run_program(p, [](int, const std::function<void()>& body) { body(); });
}
std::vector<Shown> run(const TensorProgram& p, Way way) {
  const jit::ModeGuard mode(way == Way::compiled ? jit::Mode::eager : jit::Mode::automatic);
  jit::tier_settings().where = way == Way::background ? jit::CompileWhere::background : jit::CompileWhere::foreground;
  jit::forget_plans();
  if (way == Way::background && p.seed % 4 == 0) jit::forget_kernels();
  manual_seed(p.seed);
  std::vector<Shown> shown;
  if (way == Way::compiled) {
    auto f = compile([](const std::function<void()>& body) { body(); });
    shown = run_program(p, [&](int, const std::function<void()>& body) { f(body); });
  } else {
    shown = run_program(p, [&](int, const std::function<void()>& body) {
      body();
      if (way == Way::background && p.waits) jit::wait_for_compiles();
    });
  }
  synchronize();
  return shown;
}
std::string compare(const TensorProgram& p, const std::vector<Shown>& wanted, Way way) {
  const size_t failures = jit::compile_failures().size();
  const std::string text = difference(p, wanted, run(p, way));
  if (!text.empty()) return text;
  const std::vector<std::string> failed = jit::compile_failures();
  return failed.size() > failures ? "a compile failed: " + failed.back() : "";
}
std::string wrong(const TensorProgram& p, Way way) { return compare(p, run_eager(p), way); }

int64_t from_environment(const char* name, int64_t standard) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : standard;
}

}  // namespace

TEST_CASE("random programs show the same bits in every way to run them", "[automatic]") {
  const int64_t programs = from_environment("FRIT_RANDOM_PROGRAMS", 400), first = from_environment("FRIT_RANDOM_FIRST", 1);
  const jit::TierSettings before = jit::tier_settings();
  jit::tier_settings().hot = 2;
  std::vector<size_t> ops;
  int64_t gradients = 0, writes = 0, differences = 0;
  for (int64_t seed = first; seed < first + programs; ++seed) {
    const TensorProgram p = random_tensor_program(uint64_t(seed));
    ops.push_back(p.instructions.size());
    gradients += p.gradients, writes += p.view_writes;
    const std::vector<Shown> wanted = run_eager(p);
    for (const Way way : {Way::foreground, Way::background, Way::compiled}) {
      if (compare(p, wanted, way).empty()) continue;
      ++differences;
      const TensorProgram small = shrink(p, [&](const TensorProgram& q) { return !wrong(q, way).empty(); });
      std::printf("seed %lld differs, %s\n%s\n%s\n", (long long)seed, way_names[int(way)], wrong(small, way).c_str(), small.text().c_str());
      std::fflush(stdout);
      break;
    }
    if (programs > 5000 && (seed - first) % 1000 == 999) std::printf("%lld programs, %lld differ\n", (long long)(seed - first + 1), (long long)differences), std::fflush(stdout);
    if (differences >= 20) break;
  }
  jit::tier_settings() = before;
  std::sort(ops.begin(), ops.end());
  const int64_t ran = int64_t(ops.size());
  std::printf("%lld random programs from seed %lld: median %zu statements, %lld %% with gradients, %lld %% with writes through views, %lld differ\n", (long long)ran, (long long)first,
              ops[ops.size() / 2], (long long)(100 * gradients / ran), (long long)(100 * writes / ran), (long long)differences);
  CHECK(differences == 0);
  if (ran >= 200) {
    CHECK(ops[ops.size() / 2] >= 20);
    CHECK(100 * gradients >= 30 * ran);
    CHECK(100 * writes >= 30 * ran);
  }
}
