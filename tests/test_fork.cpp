// A forked child goes on computing: with kernels that the parent compiled, with new ones, in every mode (case E02).
#include <catch2/catch.hpp>
#include <frit/frit.h>
#include <sys/wait.h>
#include <unistd.h>
#include <functional>

using namespace frit;

namespace {
// The exit status of a child that runs f; killed after 30 seconds.
int in_child(const std::function<bool()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(f() ? 0 : 3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
}  // namespace

TEST_CASE("fork: a child runs what its parent compiled, and what it did not") {
  set_num_threads(2);
  auto f = compile([](const Tensor& x) { return (x * 2.0).sum(); });
  const Tensor x = ones({1000000});
  REQUIRE(f(x).item<double>() == 2e6);
  const auto again = [&] { return f(x).item<double>() == 2e6 && f(ones({3, 5})).item<double>() == 30 && (x + 1.0).exp().sum().item<double>() > 0; };
  for (int i = 0; i < 3; ++i) CHECK(in_child(again) == 0);
  CHECK(again());
}

TEST_CASE("fork: while plans are compiled in the background") {
  const jit::ModeGuard mode(jit::Mode::automatic);
  for (int i = 0; i < 20; ++i) {
    const auto work = [i](int rounds) {
      bool right = true;
      for (int k = 0; k < rounds; ++k) {
        Tensor y = ones({100 + i, 7});
        for (int j = 0; j < i + 2; ++j) y = (y * 1.5).tanh() + double(j);
        const double got = (y * 0.0 + 1.0).sum().item<double>();
        right &= got == double((100 + i) * 7);
      }
      return right;
    };
    CHECK(work(3));  // queues compiles
    CHECK(in_child([&] { return work(4) && (jit::wait_for_compiles(), work(2)); }) == 0);
    CHECK(work(1));
  }
}

TEST_CASE("fork: a compiled call in the child of a process that never compiled") {
  CHECK(in_child([] {
          auto f = compile([](const Tensor& a) { return a.sin() * a; });
          return f(zeros({64})).sum().item<double>() == 0;
        }) == 0);
}
