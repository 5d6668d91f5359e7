// The shadow check: a wrong kernel is found, its values do not count, its plan is put out of use, and a program shows what was run.
#include <catch2/catch.hpp>
#include <frit/frit.h>
#include <frit/verify.h>
#include <unistd.h>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include "jit/tiers.h"
#include "jit/verify.h"

using namespace frit;
namespace fs = std::filesystem;

namespace {
struct Scope {
  std::string folder;
  explicit Scope(int64_t every = 1, bool oracle = false) {
    std::string pattern = fs::temp_directory_path() / "frit_verify_XXXXXX";
    folder = ::mkdtemp(pattern.data());
    jit::set_verify(every, oracle, folder);
  }
  ~Scope() {
    jit::set_verify(0, false, "");
    fs::remove_all(folder);
  }
};
// Runs the right kernel, then flips one bit of its first result's first element.
jit::CpuEntry right = nullptr;
void wrong(const kernels::Slot* args, int64_t begin, int64_t end, int64_t lane_begin, int64_t lane_end, char* scratch) {
  right(args, begin, end, lane_begin, lane_end, scratch);
  reinterpret_cast<unsigned char*>(args[0])[1] ^= 1;
}
// Of the latest plan: its first fused kernel.
void spoil_latest() {
  for (jit::PlanGroup& g : jit::kept_plans().at(0)->groups)
    for (jit::KernelVariant& v : g.variants)
      if (v.kernel) {
        auto copy = std::make_shared<jit::CpuKernel>(*v.kernel);
        right = copy->entry;
        copy->entry = &wrong;
        v.kernel = copy;
        return;
      }
  FAIL("no fused kernel");
}
}  // namespace

TEST_CASE("verify: right programs pass, whatever they do") {
  const Scope scope(1, true);
  const jit::ModeGuard eager(jit::Mode::eager);  // what is counted is what compile() makes
  const int64_t before = jit::verified_runs();
  Tensor w = randn({5, 6}, requires_grad()), state = zeros({4, 6});
  auto f = compile([&](const Tensor& x) {
    Tensor y = tanh(x.matmul(w)) * 2.0 + 1.0;
    {
      NoGradGuard none;
      state.add_(y);
      state.index({indexing::Slice(), 1}).mul_(0.5);
    }
    return y.log_softmax(1).sum();
  });
  auto g = compile([&](const Tensor& x) { return cat({x.transpose(0, 1).cumsum(0), x.t().flip({1})}, 1).pow(2).sum(0).sqrt(); });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = randn({4, 5});
    f(x).backward();
    g(x);
  }
  CHECK(jit::verified_runs() - before >= 8);
  CHECK(jit::verify_findings().empty());
}

TEST_CASE("verify: a wrong kernel is found, and its values do not count") {
  const Scope scope;
  const jit::ModeGuard eager(jit::Mode::eager);  // what is counted is what compile() makes
  Tensor kept = zeros({7});
  auto f = compile([&](const Tensor& x) {
    Tensor y = (x * 3.0 - 1.0).exp() + 0.25;
    kept.copy_(y * 2.0);
    return y;
  });
  const Tensor x = randn({7}), wanted = (x * 3.0 - 1.0).exp() + 0.25;
  f(x);
  CHECK(jit::verify_findings().empty());
  spoil_latest();
  CHECK(f(x).equal(wanted));
  CHECK(kept.equal(wanted * 2.0));
  REQUIRE(jit::verify_findings().size() == 1);
  const jit::VerifyFinding found = jit::verify_findings()[0];
  CHECK_THAT(found.difference, Catch::Contains("element 0") && Catch::Contains("compiled"));
  CHECK_THAT(found.trace, Catch::Contains("exp"));
  // Out of use: op by op from now on, and right.
  const int64_t tier0 = jit::stats().tier0_flushes;
  const Tensor again[] = {f(x), f(x), f(x)};
  CHECK(jit::stats().tier0_flushes - tier0 == 3);
  for (const Tensor& a : again) CHECK(a.equal(wanted));
  CHECK(jit::verify_findings().size() == 1);
  // The program runs the same trace on the same bytes. (The kernel was spoilt in this process only.)
  REQUIRE(fs::exists(found.program));
  std::ifstream in(found.program);
  const std::string source{std::istreambuf_iterator<char>(in), {}};
  CHECK_THAT(source, Catch::Contains("frit::jit::reproduce(") && Catch::Contains("#include <frit/verify.h>"));
  const std::string program = scope.folder + "/shown";
  REQUIRE(std::system((FRIT_COMPILER " -std=c++20 " FRIT_COMPILER_FLAGS " -I" FRIT_SOURCE_DIR "/frontend/include " + found.program + " -o " + program + " " FRIT_LIBRARY " -Wl,-rpath," FRIT_LIBRARY_DIR).c_str()) == 0);
  CHECK(std::system((program + " > /dev/null").c_str()) == 0);
}

TEST_CASE("verify: only every n-th run is checked") {
  const Scope scope(5);
  const jit::ModeGuard eager(jit::Mode::eager);  // what is counted is what compile() makes
  auto f = compile([](const Tensor& x) { return (x + 1.0) * x; });
  const Tensor x = ones({3});
  const int64_t before = jit::verified_runs();
  for (int i = 0; i < 20; ++i) f(x);
  CHECK(jit::verified_runs() - before == 4);
}

TEST_CASE("verify: the oracle in double precision") {
  const Scope scope(1, true);
  const jit::ModeGuard eager(jit::Mode::eager);  // what is counted is what compile() makes
  auto f = compile([](const Tensor& x) { return (x * 1e4 + 0.3 - x * 1e4).sin(); });  // cancels in float32
  f(rand({100}));
  spoil_latest();
  f(rand({100}));
  REQUIRE(jit::verify_findings().size() == 1);

  CHECK(jit::verify_findings()[0].oracle_error > 1e-5);
  CHECK(jit::verify_findings()[0].oracle_error < 1e-2);
}

TEST_CASE("verify: errors of the user's values are told as ever") {
  const Scope scope;
  const jit::ModeGuard eager(jit::Mode::eager);  // what is counted is what compile() makes
  auto f = compile([](const Tensor& x, const Tensor& i) { return (x * 2.0).index_select(0, i) + 1.0; });
  const Tensor x = ones({4});
  CHECK(f(x, tensor({0, 3}, kInt64)).equal(full({2}, 3.0)));
  const Tensor bad = tensor({0, 9}, kInt64);
  CHECK_THROWS_AS(f(x, bad), IndexError);
  CHECK(f(x, tensor({1, 2}, kInt64)).equal(full({2}, 3.0)));
}
