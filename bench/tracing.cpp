// What an op costs the caller: run at its call (TARGETS P9), recorded (P10), compiled (P11), and in a compiled chain.
// Prints medians of interleaved repetitions, in nanoseconds unless said otherwise. One thread.
#include <frit/frit.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

using namespace frit;

namespace {
double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Row {
  const char* name;
  std::function<double()> once;  // seconds for `per` ops
  double per;
  std::vector<double> times;
};
}  // namespace

int main() {
  set_num_threads(1);
  manual_seed(0);
  const Tensor x = randn({16}), y = randn({16}), g = randn({16}, requires_grad());
  constexpr int many = 2000;
  const auto eager = [&](auto f) {
    return [f] {
      const jit::ModeGuard mode(jit::Mode::eager);
      const double start = seconds();
      for (int i = 0; i < many; ++i) f();
      return seconds() - start;
    };
  };
  // Recording alone: the clock stops before the flush. Every result is dead, so the flush computes nothing.
  const auto recorded = [&](auto f) {
    return [f] {
      const jit::ModeGuard mode(jit::Mode::automatic);
      double start = 0, stop = 0;
      for (int turn = 0; turn < 2; ++turn) {  // the first makes the trace known: the rows before may have filled what is followed
        synchronize();
        start = seconds();
        for (int i = 0; i < many; ++i) f();
        stop = seconds();
        synchronize();
      }
      return stop - start;
    };
  };
  const auto chain = [&] {
    Tensor z = x;
    for (int i = 0; i < 50; ++i) z = tanh(z * 1.01);
    return z;
  };
  auto compiled = compile(chain);
  auto frozen = compile([](const Tensor& in) {
    Tensor z = in;
    for (int i = 0; i < 50; ++i) z = tanh(z * 1.01);
    return z;
  }, jit::Options().frozen());
  const auto many_calls = [](auto f) {
    return [f] {
      const double start = seconds();
      for (int i = 0; i < 50; ++i) f();
      return seconds() - start;
    };
  };
  // The same, while every trace is another one: nothing is followed.
  const auto fresh = [&](auto f) {
    return [f, odd = 0]() mutable {
      const jit::ModeGuard mode(jit::Mode::automatic);
      synchronize();
      double total = 0;
      for (int block = 0; block < 40; ++block) {
        Tensor first = zeros({2 + ++odd % 7});
        for (int bit = 0; bit < 20; ++bit) first = odd >> bit & 1 ? first.neg() : first.abs();
        const double start = seconds();
        for (int i = 0; i < many / 40; ++i) f();
        total += seconds() - start;
        synchronize();
      }
      return total;
    };
  };
  std::vector<Row> rows = {
      {"eager add [16]", eager([&] { Tensor z = x + y; }), many, {}},
      {"eager tanh [16]", eager([&] { Tensor z = tanh(x); }), many, {}},
      {"eager mul by a number [16]", eager([&] { Tensor z = x * 2.0; }), many, {}},
      {"eager sum [16]", eager([&] { Tensor z = x.sum(); }), many, {}},
      {"eager add with gradient [16]", eager([&] { Tensor z = g + y; }), many, {}},
      {"eager add, sum, backward [16] (whole)", eager([&] { g.set_grad({}); (g * y).sum().backward(); }), many, {}},
      {"recorded fresh: add", fresh([&] { Tensor z = x + y; }), many, {}},
      {"recorded fresh: tanh", fresh([&] { Tensor z = tanh(x); }), many, {}},
      {"recorded fresh: unsqueeze", fresh([&] { Tensor z = x.unsqueeze(0); }), many, {}},
      {"followed: add", recorded([&] { Tensor z = x + y; }), many, {}},
      {"followed: tanh", recorded([&] { Tensor z = tanh(x); }), many, {}},
      {"followed: mul by a number", recorded([&] { Tensor z = x * 2.0; }), many, {}},
      {"followed: unsqueeze", recorded([&] { Tensor z = x.unsqueeze(0); }), many, {}},
      {"100 ops on [16], eager (whole)", [&] { const jit::ModeGuard mode(jit::Mode::eager); const double s = seconds(); chain(); return seconds() - s; }, 1, {}},
      {"100 ops on [16], compiled (whole)", many_calls([&] { compiled(); }), 50, {}},
      {"100 ops on [16], frozen (whole)", many_calls([&] { frozen(x); }), 50, {}},
  };
  for (int repetition = 0; repetition < 25; ++repetition)
    for (Row& r : rows) {
      const double t = r.once();
      if (repetition >= 3) r.times.push_back(t / r.per * 1e9);
    }
  for (Row& r : rows) {
    std::sort(r.times.begin(), r.times.end());
    std::printf("%-42s %10.0f   (min %.0f, max %.0f)\n", r.name, r.times[r.times.size() / 2], r.times.front(), r.times.back());
  }
  // Compile time of fused kernels: chains of n ops that were never seen.
  for (int n : {3, 10, 30}) {
    const jit::Stats before = jit::stats();
    auto f = compile([n, &x] {
      Tensor z = x;
      for (int i = 0; i < n; ++i) z = i % 3 == 0 ? z * 1.5 : i % 3 == 1 ? z + 0.25 : z.abs();
      return z;
    });
    f();
    const jit::Stats after = jit::stats();
    std::printf("compile a chain of %d ops: %.3f ms, %lld kernels\n", n, after.compile_ms - before.compile_ms, static_cast<long long>(after.kernels_compiled - before.kernels_compiled));
  }
}
