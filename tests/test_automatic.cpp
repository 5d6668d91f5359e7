// Automatic mode: plans, what they compute and what they leave out, counts, errors inside plans, gradients, in-place writes and
// views across flushes, compile(f). Differences from eager mode that random programs have found are kept here, each small.
#include <catch2/catch.hpp>
#include <algorithm>
#include <stdexcept>
#include "frit/compile.h"
#include "tests/support/automatic.h"

using namespace frit;
using namespace frit::testing;
using Catch::Matchers::Contains;

// ---- counts ---------------------------------------------------------------------------------------------------------------
TEST_CASE("a loop is run op by op once, compiled, and then runs its plan", "[automatic]") {
  const Automatic automatic;
  const Tensor w = numbers({7}), b = numbers({5, 7});
  const auto f = [&](const Tensor& x) { return ((x * w + b).tanh() * 0.5).exp(); };
  std::vector<jit::Stats> steps;
  for (int i = 0; i < 5; ++i) {
    const Tensor x = numbers({5, 7});
    const jit::Stats before = jit::stats();
    const Tensor y = f(x);
    synchronize();
    steps.push_back(minus(jit::stats(), before));
    CHECK(same_bits(y, [&] { return f(x); }));
  }
  CHECK(steps[0].tier0_flushes == 1);
  CHECK(steps[0].kernels_launched == 5);
  CHECK(steps[0].plans_compiled == 0);
  CHECK(steps[1].plans_compiled == 1);
  CHECK(steps[1].kernels_compiled == 1);
  for (int i = 1; i < 5; ++i) {
    CHECK(steps[size_t(i)].flushes == 1);
    CHECK(steps[size_t(i)].tier0_flushes == 0);
    CHECK(steps[size_t(i)].kernels_launched == 1);
    CHECK(steps[size_t(i)].plan_hits == (i > 1));
  }
  CHECK(steps[4].plans_compiled == 0);
  CHECK(steps[4].kernels_compiled == 0);
}

TEST_CASE("what nobody can see is not computed", "[automatic]") {
  const Automatic automatic(1);
  const Tensor x = numbers({6, 9});
  const auto launched = [&](auto f) {
    const jit::Stats before = jit::stats();
    [[maybe_unused]] const auto kept = f();
    synchronize();
    return minus(jit::stats(), before).kernels_launched;
  };
  CHECK(launched([&] { return x.exp().sum({0}); }) == 1);
  CHECK(launched([&] { return x.exp(), 0; }) == 0);  // a trace of one dead op
  // Dead: a chain whose handles are gone, a product, an unread random tensor (its stream number is taken all the same).
  CHECK(launched([&] {
          (void)x.sin().cos();
          (void)x.matmul(x.t());
          (void)rand({1000});
          return x.exp().sum({0});
        }) == 1);
  // A write to memory that nobody sees is dead too; one to memory that somebody sees is not.
  CHECK(launched([&] {
          Tensor t = x * 2;
          t.add_(1);
          t = Tensor();
          return x.exp().sum({0});
        }) == 1);
  Tensor seen = numbers({6, 9});
  const std::string before = bits_of(seen);
  {
    Tensor view = seen.slice(0, 1, 3);
    view.add_(1);
  }
  synchronize();
  CHECK(bits_of(seen) != before);
}

TEST_CASE("random numbers are those of eager mode, dead ones in between", "[automatic]") {
  const auto draw = [] {
    manual_seed(7);
    const Tensor a = rand({40});
    (void)randn({3});
    const Tensor b = randn({40});
    return cat({a, b});
  };
  const std::string wanted = in_eager([&] { return bits_of(draw()); });
  const Automatic automatic(1);
  CHECK(bits_of(draw()) == wanted);
  CHECK(bits_of(draw()) == wanted);
}

TEST_CASE("a captured value is an argument; one that changes the shape or the path makes another trace", "[automatic]") {
  const Automatic automatic(1);
  const Tensor x = numbers({4, 6});
  const auto f = [&](double scale, int64_t rows, bool twice) {
    Tensor y = (x * scale + 1).slice(0, 0, rows);
    if (twice) y = y * y;
    return y.sum({1});
  };
  for (int i = 0; i < 6; ++i)
    for (const int64_t rows : {2, 3, 4})
      for (const bool twice : {false, true}) CHECK(same_bits(f(0.5 * i, rows, twice), [&] { return f(0.5 * i, rows, twice); }));
}

TEST_CASE("the plan budget is kept: the least recently used leave and come again", "[automatic]") {
  const Automatic automatic(1);
  jit::tier_settings().plan_budget = 3;
  const Tensor x = numbers({5, 3});
  const auto f = [&](int depth) {
    Tensor y = x;
    for (int i = 0; i <= depth; ++i) y = (y * 0.5 + 1).tanh();
    return y;
  };
  const jit::Stats before = jit::stats();
  for (int round = 0; round < 3; ++round)
    for (int depth = 0; depth < 6; ++depth) CHECK(same_bits(f(depth), [&] { return f(depth); }));
  const jit::Stats used = minus(jit::stats(), before);
  CHECK(used.plans_compiled == 18);
  CHECK(used.evicted == 15);
  CHECK(used.plan_hits == 0);
  CHECK(same_bits(f(5), [&] { return f(5); }));
  CHECK(minus(jit::stats(), before).plan_hits == 1);
}

TEST_CASE("a group of very many tensors is split rather than overflow", "[automatic]") {
  const Automatic automatic(1);
  TensorList parts, results;
  for (int i = 0; i < 70; ++i) parts.push_back(numbers({3, 5}));
  const auto sum_all = [&] {
    Tensor s = parts[0];
    for (const Tensor& p : parts) s = s + p * 2;
    return s;
  };
  CHECK(same_bits(sum_all(), sum_all));
  const auto many = [&] {
    TensorList r;
    const Tensor shared = parts[0] * 3;
    for (int i = 0; i < 130; ++i) r.push_back((shared + double(i)).exp());
    return r;
  };
  const TensorList got = many();
  synchronize();
  const TensorList wanted = in_eager(many);
  for (size_t i = 0; i < got.size(); ++i) CHECK(bits_of(got[i]) == bits_of(wanted[i]));
}

// ---- recompiles --------------------------------------------------------------------------------------------------------------
TEST_CASE("a new bucket says which axis left which bucket", "[automatic]") {
  const Automatic automatic(1);
  const auto f = [](int64_t batch, int64_t seq) {
    const Tensor x = named(numbers({batch, seq}), "batch seq");
    return (x * 2 + 1).exp().sum({1});
  };
  const size_t before = jit::recompiles().size();
  (void)bits_of(f(6, 100));
  (void)bits_of(f(7, 128));
  (void)bits_of(f(5, 65));
  CHECK(jit::recompiles().size() == before);
  (void)bits_of(f(6, 129));
  REQUIRE(jit::recompiles().size() == before + 1);
  CHECK(jit::recompiles().back().reason == "axis \"seq\": 129 left bucket (64, 128]");
  (void)bits_of(f(9, 129));
  REQUIRE(jit::recompiles().size() == before + 2);
  CHECK(jit::recompiles().back().reason == "axis \"batch\": 9 left bucket (4, 8]");
  (void)bits_of(f(40, 600));
  CHECK_THAT(jit::recompiles().back().reason, Contains("axis \"batch\": 40 left bucket") && Contains("axis \"seq\": 600 left bucket"));
  const auto histogram = jit::histogram();
  CHECK(histogram.at("seq").count(129) == 1);
}

TEST_CASE("a new bucket of a hot structure compiles at first sight and shares its kernels", "[automatic]") {
  const Automatic automatic(2);
  const auto g = [](const Tensor& x) { return (x * 2 + 1).exp().sum({1}); };
  const auto f = [&](int64_t n) { return g(numbers({n, 12})); };
  for (int i = 0; i < 3; ++i) CHECK(same_bits(f(20), [&] { return f(20); }));
  TensorList inputs, results;
  for (const int64_t n : {40, 70, 200, 3, 1000}) inputs.push_back(numbers({n, 12}));
  const jit::Stats before = jit::stats();
  for (const Tensor& x : inputs) {
    results.push_back(g(x));
    synchronize();
  }
  const jit::Stats used = minus(jit::stats(), before);
  for (size_t i = 0; i < results.size(); ++i) CHECK(same_bits(results[i], [&] { return g(inputs[i]); }));
  CHECK(used.tier0_flushes == 0);
  CHECK(used.plans_compiled == 5);
  CHECK(used.recompiles == 5);
  CHECK(used.kernels_compiled == 0);
}

TEST_CASE("a RecompileGuard stops compiles, and the values are made all the same", "[automatic]") {
  const Automatic automatic(1);
  const auto f = [](int64_t n) {
    const Tensor x = numbers({n, 12});
    return (x * 2 + 1).exp();
  };
  (void)bits_of(f(20));
  {
    const jit::RecompileGuard none(0);
    CHECK(same_bits(f(31), [&] { return f(31); }));  // the bucket is known
    const Tensor y = f(40);
    CHECK_THROWS_AS(y.sum().item(), RecompileError);
    CHECK(bits_of(y) == in_eager([&] { return bits_of(f(40)); }));
  }
  {
    const jit::RecompileGuard one(1);
    CHECK_NOTHROW(bits_of(f(41)));
    CHECK_NOTHROW(bits_of(f(41)));
    const Tensor y = f(90);
    CHECK_THROWS_AS(synchronize(), RecompileError);
    CHECK(bits_of(y) == in_eager([&] { return bits_of(f(90)); }));
  }
  CHECK_NOTHROW(bits_of(f(90)));
  const jit::RecompileGuard none(0);
  auto compiled = compile([](const Tensor& x) { return (x - 3).cos() * 7; });
  const Tensor x = numbers({3});
  CHECK_THROWS_AS(compiled(x), RecompileError);
}

// ---- errors ------------------------------------------------------------------------------------------------------------------
TEST_CASE("an error that depends on values poisons what depends on it, and leaves the rest real", "[automatic]") {
  for (const int hot : {1000, 1}) {  // op by op, and in a plan
    INFO("hot " << hot);
    const Automatic automatic(hot);
    const Tensor x = numbers({4, 6}), index = tensor({0, 2, 9});
    synchronize();
    const Tensor before = (x * 2).exp();
    const Tensor bad_index = index + 1;  // deferred: nobody can check it yet
    const Tensor taken = x.gather(0, bad_index.unsqueeze(1).expand({3, 6}));
    const Tensor follows = (taken * 2 + 1).sum({0}), view = taken.transpose(0, 1);
    const Tensor after = (x - 1).cos().sum({1});
    Tensor written = x.clone();
    const Tensor seen = written.slice(0, 0, 2);
    CHECK_THROWS_WITH(after.sum().item(), Contains("gather") && Contains("10"));
    CHECK(bits_of(before) == in_eager([&] { return bits_of((x * 2).exp()); }));
    CHECK(bits_of(after) == in_eager([&] { return bits_of((x - 1).cos().sum({1})); }));
    CHECK(bits_of(written) == bits_of(x));
    CHECK(bits_of(bad_index) == bits_of(tensor({1, 3, 10})));
    for (const Tensor& t : {taken, follows, view}) {
      CHECK_THROWS_AS(t.sum().item(), Error);
      CHECK_THROWS_AS(t.sizes(), Error);
      CHECK_THROWS_AS(t.dim(), Error);
      CHECK_THROWS_AS(t.dtype(), Error);
      CHECK_FALSE(t.requires_grad());
    }
    // The thread goes on.
    CHECK(same_bits((x * 3).sum({0}), [&] { return (x * 3).sum({0}); }));
  }
}

TEST_CASE("a write that fails takes what reads the memory afterwards with it, not the memory", "[automatic]") {
  for (const int hot : {1000, 1}) {
    INFO("hot " << hot);
    const Automatic automatic(hot);
    Tensor x = numbers({4, 6});
    const Tensor source = numbers({3, 6}), index = tensor({0, 2, 9}), same = x.detach();
    synchronize();
    const std::string content = bits_of(same);
    const Tensor before = x * 2;
    x.scatter_add_(0, (index + 1).unsqueeze(1).expand({3, 6}), source);
    const Tensor after = same * 3, apart = source * 4;
    CHECK_THROWS_WITH(synchronize(), Contains("scatter_add"));
    CHECK(bits_of(before) == in_eager([&] { return bits_of(same * 2); }));
    CHECK(bits_of(apart) == in_eager([&] { return bits_of(source * 4); }));
    CHECK_THROWS_AS(bits_of(after), Error);
    CHECK_THROWS_AS(bits_of(x), Error);
    CHECK(bits_of(same) == content);
  }
}

TEST_CASE("an expanded tensor is refused as the target of a write before it is real", "[automatic]") {
  const Automatic automatic;
  const Tensor x = numbers({1, 6});
  Tensor wide = (x * 2).expand({4, 6});
  CHECK_THROWS_AS(wide.add_(1), ValueError);
  CHECK_THROWS_AS(wide.slice(1, 0, 2).zero_(), ValueError);
  Tensor one = (x * 2).expand({1, 6});
  CHECK_NOTHROW(one.add_(1));
}

TEST_CASE("a user's exception inside compile(f) leaves everything as it was", "[automatic]") {  // case A09
  const jit::ModeGuard eager(jit::Mode::eager);
  bool fails = true;
  auto f = compile([&](const Tensor& x) {
    const Tensor y = x + 1;
    if (fails) throw std::runtime_error("user");
    return y;
  });
  auto always = compile([](const Tensor& x) -> Tensor {
    (void)(x * 2);
    throw std::runtime_error("always");
  });
  const Tensor x = tensor({1.0, 2.0});
  CHECK_THROWS_WITH(f(x), "user");
  CHECK(jit::mode() == jit::Mode::eager);
  fails = false;
  CHECK(bits_of(f(x)) == bits_of(tensor({2.0, 3.0})));
  for (int i = 0; i < 3; ++i) CHECK_THROWS_WITH(always(x), "always");
  fails = true;
  CHECK_THROWS(f(x));
  fails = false;
  CHECK(bits_of(f(x)) == bits_of(tensor({2.0, 3.0})));
  // What was written before the throw is written, as in eager mode.
  Tensor state = zeros({2});
  auto writes = compile([&](bool fail) {
    state.add_(1);
    if (fail) throw std::runtime_error("user");
  });
  CHECK_THROWS(writes(true));
  CHECK(bits_of(state) == bits_of(ones({2})));
  writes(false);
  CHECK(bits_of(state) == bits_of(full({2}, 2.0)));
}

// ---- compile(f) ---------------------------------------------------------------------------------------------------------------
TEST_CASE("a nested compiled function belongs to the outer region", "[automatic]") {
  const jit::ModeGuard eager(jit::Mode::eager);
  jit::forget_plans();
  auto inner = compile([](const Tensor& x) { return (x * 2 + 1).exp(); });
  auto outer = compile([&](const Tensor& x) { return inner(x - 1) * 3; });
  const Tensor x = numbers({5, 5});
  const jit::Stats before = jit::stats();
  CHECK(same_bits(outer(x), [&] { return (((x - 1) * 2 + 1).exp()) * 3; }));
  const jit::Stats used = minus(jit::stats(), before);
  CHECK(used.plans_compiled == 1);
  CHECK(used.flushes - used.tier0_flushes == 1);
}

TEST_CASE("results that alias inputs stay aliases, and writes to inputs arrive", "[automatic]") {
  const jit::ModeGuard eager(jit::Mode::eager);
  Tensor x = numbers({4, 6});
  auto f = compile([](Tensor t) {
    const Tensor v = t.transpose(0, 1);
    Tensor w = t.slice(0, 1, 3);
    w.mul_(2);
    return std::vector<Tensor>{v, w, t, t * 1};
  });
  for (int i = 0; i < 3; ++i) {
    const Tensor wanted = x.clone();
    wanted.slice(0, 1, 3).mul_(2);
    const std::vector<Tensor> r = f(x);
    CHECK(r[0].is_alias_of(x));
    CHECK(r[1].is_alias_of(x));
    CHECK(r[2].is_same(x));
    CHECK_FALSE(r[3].is_alias_of(x));
    CHECK(bits_of(x) == bits_of(wanted));
    CHECK(bits_of(r[0]) == bits_of(wanted.transpose(0, 1)));
    CHECK(bits_of(r[3]) == bits_of(wanted));
  }
}

// ---- gradients ----------------------------------------------------------------------------------------------------------------
TEST_CASE("reads in the middle split the plan and change nothing else", "[automatic]") {
  const auto program = [](int reads) {
    std::string seen;
    Tensor w = numbers({6, 5}).requires_grad_(), b = numbers({5}).requires_grad_();
    for (int i = 0; i < 5; ++i) {
      const Tensor x = numbers({7, 6}), h = (x.matmul(w) + b).tanh();
      if (reads & 1) (void)h.sum().item();
      const Tensor loss = (h * h).mean();
      if (reads & 2) (void)loss.item();
      loss.backward();
      if (reads & 4) (void)w.grad().sum().item();
      {
        const NoGradGuard no_grad;
        w.sub_(w.grad() * 0.25);
        b.sub_(b.grad() * 0.25);
      }
      w.zero_grad(), b.zero_grad();
      if (reads & 8) seen += bits_of(loss);
    }
    return bits_of(w) + bits_of(b);
  };
  const std::string wanted = in_eager([&] { return program(0); });
  for (int reads = 0; reads < 16; ++reads) {
    const Automatic automatic(2);
    INFO("reads " << reads);
    CHECK(program(reads) == wanted);
  }
}

TEST_CASE("hooks, retain_grad, retain_graph and double backward are those of eager mode", "[automatic]") {
  const auto program = [] {
    std::string seen;
    for (int i = 0; i < 4; ++i) {
      const Tensor x = numbers({4, 5}).requires_grad_();
      const Tensor h = (x * 2).sin(), y = (h * h).sum({1});
      h.retain_grad();
      int calls = 0;
      h.register_hook([&](const Tensor& g) {
        ++calls;
        return g * 0.5;
      });
      x.register_hook([&](const Tensor& g) { seen += bits_of(g); });  // a read inside backward
      y.sum().backward({}, true);
      y.square().sum().backward();
      CHECK(calls == 2);
      seen += bits_of(h.grad()) + bits_of(x.grad());
      CHECK_THROWS_AS(y.sum().backward(), AutogradError);
      const Tensor z = (x.exp() * x).sum();
      const Tensor g = autograd::grad({z}, {x}, {}, true, true)[0];
      seen += bits_of(autograd::grad({(g * g).sum()}, {x})[0]);
    }
    return seen;
  };
  const std::string wanted = in_eager(program);
  const Automatic automatic(2);
  CHECK(program() == wanted);
}

TEST_CASE("a saved tensor that was overwritten is an error at the same call", "[automatic]") {
  for (const bool automatic : {false, true}) {
    INFO("automatic " << automatic);
    const jit::ModeGuard mode(automatic ? jit::Mode::automatic : jit::Mode::eager);
    const Tensor x = numbers({3, 4}).requires_grad_();
    Tensor a = x * 2;
    const Tensor b = a * a;  // saves a
    a.add_(1);
    CHECK_THROWS_WITH(b.sum().backward(), Contains("overwritten"));
    Tensor c = x * 2;
    const Tensor d = c.exp();  // saves its own result, not c
    c.add_(1);
    CHECK_NOTHROW(d.sum().backward());
    Tensor e = x * 2;
    const Tensor f = e * e;
    e.slice(0, 0, 1).add_(1);  // through a view
    CHECK_THROWS_AS(f.sum().backward(), AutogradError);
  }
}

TEST_CASE("a loop of forward, backward and step is one plan with few kernels", "[automatic]") {
  const Automatic automatic(2);
  Tensor w = numbers({6, 5}).requires_grad_(), b = numbers({5}).requires_grad_();
  TensorList batches;
  for (int i = 0; i < 6; ++i) batches.push_back(numbers({7, 6}));
  jit::Stats before{};
  for (int i = 0; i < 6; ++i) {
    if (i == 3) before = jit::stats();
    const Tensor& x = batches[size_t(i)];
    const Tensor loss = (x.matmul(w) + b).tanh().square().mean();
    loss.backward();
    {
      const NoGradGuard no_grad;
      w.sub_(w.grad() * 0.25);
      b.sub_(b.grad() * 0.25);
    }
    w.zero_grad(), b.zero_grad();
    (void)loss.item();
  }
  const jit::Stats used = minus(jit::stats(), before);
  CHECK(used.plan_hits == 3);
  CHECK(used.tier0_flushes == 0);
  CHECK(used.library_calls == 6);  // two products a step
  CHECK(used.kernels_launched <= 3 * 6);
}

// ---- what random programs found ---------------------------------------------------------------------------------------------------
namespace {
// The program's result in eager mode, and in automatic mode op by op, compiled, and compiled again.
void same_in_all_modes(const std::function<std::string()>& program) {
  const std::string wanted = in_eager([&] { return program(); });
  const Automatic automatic(2);
  for (int i = 0; i < 4; ++i) CHECK(program() == wanted);
  CHECK(jit::compile_failures() == automatic.failures_before);
}
}  // namespace

TEST_CASE("a reduction of what does not vary along its axis", "[automatic]") {
  same_in_all_modes([] {
    const Tensor x = numbers({5, 1}), y = numbers({4, 1}).expand({4, 6});
    synchronize();
    return bits_of((x * 2).sum({1})) + bits_of((x + 1).sum({0, 1})) + bits_of((y * 2).sum({1})) + bits_of((y - 1).exp().sum({0})) +
           bits_of((zeros({3, 5}) + 0.1).sum({1})) + bits_of(y.logsumexp({1}));
  });
}
TEST_CASE("a constant tensor that is written through a view is no number", "[automatic]") {
  same_in_all_modes([] {
    Tensor x = zeros({4, 6});
    x.select(0, 1).add_(2);
    const Tensor y = (x + 1).exp(), z = (x * 3).sum({1});
    return bits_of(y) + bits_of(z) + bits_of(x);
  });
}
TEST_CASE("memory that a kernel makes is not written by the same kernel", "[automatic]") {
  same_in_all_modes([] {
    const Tensor x = numbers({4, 6});
    synchronize();
    Tensor y = (x * 2).tanh();
    y.detach().sub_(1);
    const Tensor z = y * 3;
    y.detach().mul_(z);
    return bits_of(y) + bits_of(z);
  });
}
TEST_CASE("conversions inside kernels are those of the copy row", "[automatic]") {
  same_in_all_modes([] {
    const Tensor x = numbers({4, 6}) * 1e6;
    synchronize();
    std::string s;
    for (const Dtype d : {kInt8, kUInt8, kInt16, kInt32, kInt64, kBool, kFloat16, kBFloat16}) s += bits_of((x + 1).to(d)) + bits_of((x * NAN).to(d)) + bits_of((x.div(0.0) + 1).to(d).to(kFloat64).neg());
    return s;
  });
}
TEST_CASE("a view taken before a write that keeps the old content shows the new one", "[automatic]") {
  same_in_all_modes([] {
    const Tensor x = numbers({4, 6}).requires_grad_();
    const Tensor w = numbers({4, 6});
    synchronize();
    Tensor y = x * 2;
    const Tensor shown = y.detach();
    y.mul_(w.sigmoid());
    y.mul_(y);
    y.sum().backward();
    return bits_of(shown) + bits_of(y) + bits_of(x.grad()) + bits_of(shown * 2);
  });
}
TEST_CASE("foreign memory under two names is one memory", "[automatic]") {
  same_in_all_modes([] {
    std::vector<float> memory(24);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = float(i) * 0.25f - 2;
    Tensor a = from_blob(memory.data(), {4, 6}), b = from_blob(memory.data() + 6, {3, 6});
    const Tensor before = b * 2;
    a.add_(1);
    const Tensor after = b * 2;
    b.mul_(3);
    const Tensor last = a * 1;
    return bits_of(before) + bits_of(after) + bits_of(last);
  });
}
TEST_CASE("a kept value that is expanded along another axis of the same extent", "[automatic]") {
  same_in_all_modes([] {
    const Tensor x = numbers({6, 6});
    synchronize();
    const Tensor kept = x.sum({1}), across = kept.expand({6, 6}), along = kept.unsqueeze(1).expand({6, 6});
    const Tensor y = (across * across).minimum(across), z = along * 2 + x, both = x + y + z;
    return bits_of(y) + bits_of(z) + bits_of(both) + bits_of(across.sum({1}) + x.amax({1}));
  });
}
TEST_CASE("a tensor that was written through a detached view passes gradients on", "[automatic]") {
  same_in_all_modes([] {
    const Tensor x = numbers({4, 6}).requires_grad_();
    const Tensor y = x * 2, before = y.sum();
    int calls = 0;
    y.register_hook([&](const Tensor& g) {
      ++calls;
      return g * 0.5;
    });
    y.retain_grad();
    {
      const NoGradGuard no_grad;
      y.detach().mul_(3);
      (void)(y + 1);  // the first to use it wants no gradient
    }
    const Tensor loss = y.square().sum() + before;
    y.register_hook([&](const Tensor& g) {
      ++calls;
      return g * 0.25;
    });
    const std::string alone = bits_of(autograd::grad({loss}, {y}, {}, true)[0]);
    loss.backward();
    CHECK(calls == 4);
    return alone + bits_of(x.grad()) + bits_of(y.grad()) + bits_of(y);
  });
}
TEST_CASE("a gradient of create_graph is a tensor of its own", "[automatic]") {
  same_in_all_modes([] {
    const Tensor x = numbers({4, 6}).requires_grad_();
    x.sum().backward({}, {}, true);
    x.zero_grad(false);
    CHECK_NOTHROW(x.grad().detach().add_(1));
    return bits_of(x.grad());
  });
}
TEST_CASE("axis names stay with the tensors that have them", "[automatic]") {
  same_in_all_modes([] {
    std::string seen;
    const Tensor x = numbers({4, 4}), a = named(numbers({4, 4}), "batch seq"), b = named(numbers({4, 4}), "time _");
    synchronize();
    const Tensor first = x + a, second = x * b;  // what has no name meets both
    Tensor written = x.clone();
    written.add_(a);
    const Tensor w = named(numbers({4, 4}).requires_grad_(), "batch _"), y = w.exp();
    y.sum().backward();
    for (const Tensor& t : {a.narrow(1, 1, 2), a.slice(1, 0, 4), a.slice(1, 0, 4, 2)}) CHECK(names(t) == std::vector<std::string>{"batch", "seq"});
    for (const Tensor& t : {x, first, second, written, y}) {
      for (const std::string& n : names(t)) seen += n + ",";
      seen += bits_of(t) + ";";
    }
    CHECK_THROWS_WITH(a + b, Contains("axis \"batch\"") && Contains("meets axis \"time\""));
    return seen;
  });
}
TEST_CASE("memory that the user can reach is read and written at the call", "[automatic]") {
  same_in_all_modes([] {
    std::vector<float> memory{1, 2, 3, 4};
    Tensor blob = from_blob(memory.data(), {4});
    const Tensor y = blob * 2, part = blob.slice(0, 0, 2) * 3;
    memory[0] = 10;
    blob.add_(1);
    CHECK(memory[1] == 3);
    Tensor owned = numbers({4}) + 1;
    const Tensor before = owned * 1;
    float* p = owned.data_ptr<float>();
    p[0] = 7;
    const Tensor after = owned.slice(0, 0, 2) * 3;
    p[0] = 8;
    owned.mul_(2);
    CHECK(p[0] == 16);
    return bits_of(y) + bits_of(part) + bits_of(blob) + bits_of(before) + bits_of(after) + bits_of(owned);
  });
}
TEST_CASE("a value that is stored, and wanted by a choice that a reduction keeps", "[automatic]") {
  same_in_all_modes([] {
    const Tensor x = (numbers({3, 3, 3}) * 2).to(kInt32);
    synchronize();
    const Tensor y = x.exp(), z = y.maximum(x), scaled = z.square().mean({2}, true) * z;
    return bits_of(y) + bits_of(scaled);
  });
}
TEST_CASE("a reshape that has to copy is memory of its own", "[automatic]") {
  same_in_all_modes([] {
    const Tensor w = numbers({}).requires_grad_(), x = numbers({4, 6});
    Tensor y = x * 1;
    const Tensor apart = y.transpose(0, 1).reshape({24});
    y.slice(0, 0, 2).add_(w);
    apart.unsqueeze(0).add_(0.5);
    const Tensor z = y.gelu();
    z.sum().backward();
    return bits_of(apart) + bits_of(y) + bits_of(z) + bits_of(w.grad());
  });
}

TEST_CASE("a tensor read after its memory was written through another leaf of the trace is read anew") {
  const auto run = [](jit::Mode mode) {
    const jit::ModeGuard guard(mode);
    manual_seed(3);
    Tensor base = rand({1, 1}).clone();
    synchronize();
    const Tensor w = rand({1}).requires_grad_();
    Tensor view = base.slice(0, 0, 1, 1);
    view.add_(w);  // the base enters a second time: its version is another
    const Tensor root = view.sqrt(), same = base.detach().detach();
    view.index_put_({indexing::Slice(1, indexing::None, 2)}, 0.0);  // nothing, but a write
    root.matmul(same).sum().backward();
    return w.grad();
  };
  CHECK(run(jit::Mode::automatic).equal(run(jit::Mode::eager)));
}
