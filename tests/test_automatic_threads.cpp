// Many threads in automatic mode: random programs beside each other give eager's bits, one compile per key however many threads
// ask, shared parameters are read by all, statistics and records are read meanwhile; and what one thread has deferred, written or
// let go of, while another thread uses it.
#include <catch2/catch.hpp>
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include "tests/support/automatic.h"
#include "tests/support/random_program.h"

using namespace frit;
using namespace frit::testing;

namespace {
// Calls f(thread) on so many threads, let go at the same moment.
void on_threads(int count, const std::function<void(int)>& f) {
  std::barrier gate(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      gate.arrive_and_wait();
      f(i);
      synchronize();
    });
  for (std::thread& t : threads) t.join();
}
struct Settings {  // of the tiers, in a scope
  jit::TierSettings before = jit::tier_settings();
  Settings(int hot, jit::CompileWhere where) {
    jit::tier_settings().hot = hot, jit::tier_settings().where = where;
    jit::forget_plans();
    jit::forget_kernels();
  }
  ~Settings() {
    jit::wait_for_compiles();
    jit::tier_settings() = before;
  }
};
}  // namespace

TEST_CASE("one compile per key, however many threads ask", "[automatic][threads]") {
  constexpr int count = 32;
  const Tensor x = numbers({30, 20}), w = numbers({20});
  const auto f = [&](double s) { return ((x * w + s).tanh() * x).softmax(1).sum({0}); };
  const std::string wanted = in_eager([&] { return bits_of(f(0.5)); });
  int64_t alone = 0;
  {
    const Settings settings(1, jit::CompileWhere::foreground);
    const jit::Stats before = jit::stats();
    std::thread([&] {
      const jit::ModeGuard automatic(jit::Mode::automatic);
      (void)bits_of(f(0.5));
    }).join();
    alone = minus(jit::stats(), before).kernels_compiled;
    CHECK(alone >= 1);
  }
  for (const jit::CompileWhere where : {jit::CompileWhere::foreground, jit::CompileWhere::background})
    for (int round = 0; round < 4; ++round) {
      const Settings settings(1, where);
      const jit::Stats before = jit::stats();
      std::atomic<int> wrong{0};
      on_threads(count, [&](int) {
        const jit::ModeGuard automatic(jit::Mode::automatic);
        for (int i = 0; i < 4; ++i) wrong += bits_of(f(0.5)) != wanted;
      });
      jit::wait_for_compiles();
      const jit::Stats used = minus(jit::stats(), before);
      CHECK(wrong == 0);
      CHECK(used.plans_compiled <= 1);
      CHECK(used.kernels_compiled <= alone);
      if (where == jit::CompileWhere::foreground) {
        CHECK(used.plans_compiled == 1);
        CHECK(used.kernels_compiled == alone);
        CHECK(used.tier0_flushes == 0);
        CHECK(used.plan_hits == 4 * count - 1);
      }
    }
}

TEST_CASE("many threads compile the same and different graphs, each once", "[automatic][threads]") {
  constexpr int count = 32, graphs = 8;
  const Tensor x = numbers({12, 20}), w = numbers({20});
  const auto f = [&](int graph) {
    Tensor y = x * w;
    for (int i = 0; i < graph; ++i) y = (y + 1).tanh() * x;
    return y.sum({1});
  };
  std::vector<std::string> wanted;
  for (int g = 0; g < graphs; ++g) wanted.push_back(in_eager([&] { return bits_of(f(g)); }));
  for (const jit::CompileWhere where : {jit::CompileWhere::foreground, jit::CompileWhere::background}) {
    const Settings settings(1, where);
    const jit::Stats before = jit::stats();
    std::atomic<int> wrong{0};
    on_threads(count, [&](int thread) {
      const jit::ModeGuard automatic(jit::Mode::automatic);
      for (int i = 0; i < 2 * graphs; ++i) wrong += bits_of(f((thread + i) % graphs)) != wanted[size_t((thread + i) % graphs)];
    });
    jit::wait_for_compiles();
    const jit::Stats used = minus(jit::stats(), before);
    CHECK(wrong == 0);
    if (where == jit::CompileWhere::foreground) CHECK(used.plans_compiled == graphs);
    else CHECK(used.plans_compiled <= graphs);
    CHECK(used.recompiles == 0);
  }
}

TEST_CASE("random programs on many threads give eager's bits", "[automatic][threads]") {
  constexpr int count = 8, each = 12;
  struct Work {
    TensorProgram program;
    std::vector<Shown> wanted;
  };
  std::vector<Work> work;
  for (uint64_t seed = 500001; work.size() < count * each; ++seed) {
    TensorProgram p = random_tensor_program(seed);
    const std::string text = p.text();
    if (text.find("rand(") != std::string::npos || text.find("randn(") != std::string::npos || text.find("randint(") != std::string::npos || text.find("dropout(") != std::string::npos || text.find(", 0.25, ") != std::string::npos) continue;  // one stream for all; attention drops too
    const jit::ModeGuard eager(jit::Mode::eager);
    std::vector<Shown> wanted = run_program(p, [](int, const std::function<void()>& body) { body(); });
    work.push_back({std::move(p), std::move(wanted)});
  }
  for (const jit::CompileWhere where : {jit::CompileWhere::background, jit::CompileWhere::foreground}) {
    const Settings settings(2, where);
    std::vector<std::string> wrong(count);
    on_threads(count, [&](int thread) {
      const jit::ModeGuard automatic(jit::Mode::automatic);
      for (int i = 0; i < each; ++i) {
        // Half of the programs are everybody's, so that structures, plans and kernels meet.
        const Work& w = work[size_t(i % 2 ? i : thread * each + i)];
        const std::vector<Shown> got = run_program(w.program, [](int, const std::function<void()>& body) { body(); });
        const std::string text = difference(w.program, w.wanted, got);
        if (!text.empty() && wrong[size_t(thread)].empty()) wrong[size_t(thread)] = "seed " + std::to_string(w.program.seed) + ": " + text;
        (void)jit::stats();
        if (i % 4 == 0) (void)jit::recompiles(), (void)jit::flushes(), (void)jit::histogram();
      }
    });
    for (const std::string& text : wrong) CHECK(text == "");
  }
}

TEST_CASE("threads that come and go leave nothing undone", "[automatic][threads]") {
  const Settings settings(2, jit::CompileWhere::background);
  const Tensor x = numbers({20, 20});
  const std::string wanted = in_eager([&] { return bits_of((x * 2).exp().sum({1})); });
  std::atomic<int> wrong{0};
  for (int round = 0; round < 10; ++round)
    on_threads(4, [&](int) {
      const jit::ModeGuard automatic(jit::Mode::automatic);
      wrong += bits_of((x * 2).exp().sum({1})) != wanted;
      const Tensor left = (x * 3).cos();  // dies deferred
    });
  CHECK(wrong == 0);
}

// ---- across threads -------------------------------------------------------------------------------------------------------------
TEST_CASE("what a thread that ended has deferred is there for others", "[automatic][threads]") {
  const jit::ModeGuard automatic(jit::Mode::automatic);
  const Tensor x = numbers({6, 5});
  Tensor w = numbers({5}).requires_grad_(), written = numbers({6, 5});
  const Tensor same = written.detach();
  synchronize();
  Tensor y, view, loss, operand;
  std::thread([&] {
    const jit::ModeGuard automatic_there(jit::Mode::automatic);
    y = (x * 2).exp();
    view = (x + 1).transpose(0, 1);
    operand = x.cos();
    loss = (x * w).tanh().sum();
    written.add_(1);
  }).join();
  CHECK(y.dim() == 2);
  CHECK(view.sizes() == IntArrayRef({5, 6}));
  CHECK(same_bits(operand * x, [&] { return x.cos() * x; }));
  CHECK(same_bits(same * 1, [&] { return numbers({6, 5}) + 1; }));
  CHECK(same_bits(written, [&] { return numbers({6, 5}) + 1; }));
  CHECK(same_bits(y, [&] { return (x * 2).exp(); }));
  CHECK(same_bits(view, [&] { return (x + 1).transpose(0, 1); }));
  loss.backward();
  CHECK(same_bits(w.grad(), [&] {
    const Tensor v = numbers({5}).requires_grad_();
    (x * v).tanh().sum().backward();
    return v.grad();
  }));
}

TEST_CASE("threads hand deferred tensors on while they go on recording", "[automatic][threads]") {
  constexpr int makers = 3, users = 3, each = 300;
  const Tensor x = numbers({4, 5});
  std::vector<std::string> wanted;
  for (int i = 0; i < 7; ++i) wanted.push_back(in_eager([&] { return bits_of((x * double(i)).exp().sum({1}) + 1); }));
  std::mutex lock;
  std::condition_variable more;
  std::deque<std::pair<int, Tensor>> queue;
  std::atomic<int> wrong{0}, used{0};
  on_threads(makers + users, [&](int thread) {
    const jit::ModeGuard automatic(jit::Mode::automatic);
    if (thread < makers) {
      for (int i = 0; i < each; ++i) {
        Tensor made = (x * double(i % 7)).exp().sum({1});
        const Tensor left = made * 2;  // dies here or there, deferred
        {
          const std::lock_guard hold(lock);
          queue.emplace_back(i % 7, std::move(made));
        }
        more.notify_one();
        (void)(left + 1);
      }
      return;
    }
    for (int i = 0; i < makers * each / users; ++i) {
      std::unique_lock hold(lock);
      more.wait(hold, [&] { return !queue.empty(); });
      auto [k, t] = std::move(queue.front());
      queue.pop_front();
      hold.unlock();
      if (i % 5 == 0) continue;  // let go of unread
      if (i % 2) wrong += t.size(0) != 4;
      wrong += bits_of(t + 1) != wanted[size_t(k)];
      ++used;
    }
  });
  CHECK(wrong == 0);
  CHECK(used == makers * each * 4 / 5);
}
