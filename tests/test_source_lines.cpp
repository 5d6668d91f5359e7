// Source lines of calls, in this program's own lines: built optimised and without frame pointers, as users' programs are. In what the user
// reads: errors at a flush, overwritten saved tensors, axis names, flushes, recompiles; and the modules' and optimisers' lines left out.
#include <catch2/catch.hpp>
#include <frit/frit.h>
#include <thread>
#include "tests/support/tensor_check.h"

using namespace frit;
using frit::testing::thrown;

namespace torch_like = frit;
namespace {
const jit::Mode modes[] = {jit::Mode::eager, jit::Mode::automatic};
std::string at(int line) { return "test_source_lines.cpp:" + std::to_string(line); }
#define HAS(text, ...) CHECK_THAT(text, Catch::Matchers::Contains(__VA_ARGS__))

struct Block : nn::Module {
  nn::Sequential layers;
  Block() : layers(nn::Linear(4, 4), nn::ReLU(), nn::Linear(4, 2)) { register_module("layers", layers); }
  static constexpr int line = __LINE__ + 1;
  Tensor forward(const Tensor& x) { return layers->forward(x); }
};
[[gnu::noinline]] Tensor at_run_time(const Tensor& x, const Tensor& i) { return x.index_select(0, i); }
constexpr int at_run_time_line = __LINE__ - 1;
}  // namespace

TEST_CASE("source lines: an error at a flush names the line of the op's call") {
  for (const jit::Mode mode : modes) {
    const jit::ModeGuard guard(mode);
    const Tensor x = randn({4}), far = tensor(std::vector<int64_t>{1, 9}).add(0);
    const std::string text = thrown<IndexError>([&] {
      const Tensor y = at_run_time(x.exp(), far + 1);
      y.sum().item();
    });
    INFO(text);
    HAS(text, "index 10");
    HAS(text, at(at_run_time_line));
  }
}

TEST_CASE("source lines: an error at the call, also inside a compiled function and in a module") {
  const Tensor a = randn({2, 3}), b = randn({4, 5});
  int line = 0;
  const auto wrong = [&] {
    line = __LINE__ + 1;
    return matmul(a, b);
  };
  const std::string plain = thrown<ShapeError>([&] { wrong(); });
  HAS(plain, at(line));
  HAS(plain, "[2, 3], [4, 5]");
  auto compiled = compile(wrong);
  CHECK(thrown<ShapeError>([&] { compiled(); }) == plain);
  Block block;
  HAS(thrown<ShapeError>([&] { block.forward(a); }), at(Block::line));
  const std::string loss = thrown<ShapeError>([&] { line = __LINE__, nn::functional::mse_loss(nn::Linear(3, 4)(a), randn({3, 3})); });
  HAS(loss, at(line));
}

TEST_CASE("source lines: an overwritten saved tensor names who saved it, who made it and who wrote it") {
  for (const jit::Mode mode : modes) {
    const jit::ModeGuard guard(mode);
    const Tensor x = randn({4}).requires_grad_();
    int made = 0, used = 0, written = 0;
    const std::string text = thrown<AutogradError>([&] {
      Tensor y = (made = __LINE__, x.sigmoid());
      const Tensor z = (used = __LINE__, y.exp()) * y;
      written = __LINE__ + 1;
      y.add_(1);
      z.sum().backward();
    });
    INFO(text);
    HAS(text, "overwritten in place afterwards by add");
    HAS(text, at(written));
    CHECK((text.find(at(made)) != text.npos || text.find(at(used)) != text.npos));
  }
}

TEST_CASE("source lines: axes that do not match are told with the lines where they were named") {
  for (const jit::Mode mode : modes) {
    const jit::ModeGuard guard(mode);
    const Tensor x = named(randn({3, 4}), "batch seq"); const int first = __LINE__;
    const Tensor y = named(randn({3, 4}), "batch dim"); const int second = __LINE__;
    synchronize();
    const std::string text = thrown<ShapeError>([&] { (x.exp() + y.t().t()).sum(); });
    INFO(text);
    HAS(text, "axis \"seq\" (named at ");
    HAS(text, at(first));
    HAS(text, "axis \"dim\" (named at ");
    HAS(text, at(second));
    CHECK(names(x * 2) == std::vector<std::string>{"batch", "seq"});
  }
}

TEST_CASE("source lines: flushes and recompiles tell the call that asked for them") {
  const jit::ModeGuard guard(jit::Mode::automatic);
  synchronize();
  const Tensor x = randn({5, 6});
  const Tensor y = x.exp() * 2 + 1;
  const int line = __LINE__ + 1;
  y.sum().item();
  HAS(jit::flushes().back().line, at(line));
  auto f = compile([](const Tensor& t) { return (t * 3 + 1).tanh(); });
  f(randn({3, 20}));
  const size_t before = jit::recompiles().size();
  f(randn({3, 200})); const int again = __LINE__;
  REQUIRE(jit::recompiles().size() > before);
  HAS(jit::recompiles().back().line, at(again));
}

TEST_CASE("source lines: what was compiled, and what was launched, tell theirs") {
  const jit::ModeGuard guard(jit::Mode::automatic);
  const Tensor x = randn({33});
  int first = 0, second = 0;
  const std::string text = jit::explain([&] {
    first = __LINE__ + 1;
    const Tensor y = x.exp() * 3;
    second = __LINE__ + 1;
    return y.tanh() + 1;
  });
  INFO(text);
  HAS(text, at(first));
  HAS(text, at(second));
  auto f = compile([&] { return (x.sin() * 2).cos(); }); const int line = __LINE__;
  f();
  jit::record_history(16);
  f();
  const auto launches = jit::history();
  jit::record_history(0);
  REQUIRE(!launches.empty());
  REQUIRE(launches.back().lines.size() == 1);
  HAS(launches.back().lines[0], at(line));
}

TEST_CASE("source lines: calls of functions that headers make from the op table, and of the operators") {
  const Tensor a = randn({2}), b = randn({3});
  int line = 0;
  const auto told = [&](const char* what, const std::string& text) {
    INFO(what << ": " << text);
    CHECK_THAT(text, Catch::Matchers::Contains(at(line)));
  };
  told("function", thrown<ShapeError>([&] { line = __LINE__; torch_like::atan2(a, b); }));
  told("operator", thrown<ShapeError>([&] { line = __LINE__; a / b; }));
  told("function of one", thrown<DtypeError>([&] { line = __LINE__; torch_like::bitwise_not(a); }));
  told("where", thrown<ShapeError>([&] { line = __LINE__; torch_like::where(a > 0, a, b); }));
}
TEST_CASE("source lines: on another thread, and through many calls") {
  std::string text;
  int line = 0;
  std::thread([&] {
    text = thrown<ShapeError>([&] { line = __LINE__; randn({2}) + randn({3}); });
  }).join();
  HAS(text, at(line));
  for (int i = 0; i < 300; ++i) {  // more sites than a thread remembers, in turn
    const std::string t = i % 2 ? thrown<ShapeError>([&] { line = __LINE__; randn({2}).mul(randn({3})); }) : thrown<ShapeError>([&] { line = __LINE__; cat({randn({2}), randn({3, 1})}); });
    HAS(t, at(line));
  }
}
