// Bodies for `frit bench`. A script may hold any number of them in place of a main:
//
//   FRIT_BENCH(gelu_row) {
//     Tensor x = randn({1024, 768}), b = randn({768});
//     bench.measure([&] { return gelu(x + b); });             // what is timed; what it returns is computed and compared
//   }
//   FRIT_BENCH_ARGS(rows, {1, 64, 4096}) { … arg … }            // once for each; arg is an int64_t
//
// A body that calls no measure is timed as a whole; what it keeps with bench.keep is computed and compared. The body runs again and again,
// eager, automatic and compiled; for the comparison it starts each time from the same random seed.
#pragma once
#include <functional>
#include <string>
#include <vector>
#include "frit/autograd.h"
#include "frit/visit_tensors.h"

namespace frit::bench {

struct Body;
namespace detail {
struct Runner;
}
class Run {  // `bench` in a body
 public:
  // Times f as it runs in each mode. f returns a tensor, a list, tuple or struct of tensors, or nothing.
  template <class F> void measure(F f) {
    measure_function([this, &f] {
      if constexpr (std::is_void_v<std::invoke_result_t<F&>>) f();
      else keep(f());
    });
  }
  // The values count: they are computed in every mode, and compared bit for bit.
  template <class T> void keep(T value) {
    frit::detail::visit_tensors(value, [this](auto& t) { kept_.push_back(t); });
  }

 private:
  friend struct detail::Runner;
  explicit Run(detail::Runner& runner) : runner_(runner) {}
  void measure_function(const std::function<void()>& f);
  detail::Runner& runner_;
  std::vector<Tensor> kept_;
};

struct Body {
  std::string name;
  std::vector<int64_t> arguments;
  std::function<void(Run&, int64_t)> function;
};
struct Register {
  Register(const char* name, std::vector<int64_t> arguments, std::function<void(Run&, int64_t)> function);
};
// The main of a script without one. With FRIT_REPORT set by `frit bench`, the bodies are measured; else each runs once. Exit code 1 when one throws.
int run_bodies(int count, char** words);

}  // namespace frit::bench

#define FRIT_BENCH(name)                                                                                                             \
  static void frit_bench_##name([[maybe_unused]] ::frit::bench::Run& bench);                                                         \
  static const ::frit::bench::Register frit_registered_##name(#name, {}, [](::frit::bench::Run& run, int64_t) { frit_bench_##name(run); }); \
  static void frit_bench_##name([[maybe_unused]] ::frit::bench::Run& bench)
#define FRIT_BENCH_ARGS(name, ...)                                                                                                   \
  static void frit_bench_##name([[maybe_unused]] ::frit::bench::Run& bench, [[maybe_unused]] int64_t arg);                           \
  static const ::frit::bench::Register frit_registered_##name(#name, __VA_ARGS__, [](::frit::bench::Run& run, int64_t arg) { frit_bench_##name(run, arg); }); \
  static void frit_bench_##name([[maybe_unused]] ::frit::bench::Run& bench, [[maybe_unused]] int64_t arg)
