// Gradients of writes in place against the same computation without them; what backward refuses, by its text; and that a
// call that fails changes nothing.
#include <catch2/catch.hpp>
#include <functional>
#include "frit/compile.h"
#include "runtime/error.h"
#include "tests/support/op_harness.h"

using namespace frit;
using namespace frit::testing;
using namespace frit::indexing;
using Catch::Matchers::Contains;

namespace {
Tensor numbers(const Sizes& shape, double start = 0.5, double step = 0.25) {
  int64_t n = 1;
  for (int64_t e : shape) n *= e;
  return (arange(n, kFloat64) * step + start).reshape(shape);
}
using Function = std::function<Tensor(const Tensor& x, const Tensor& w)>;
struct Pair {
  const char* name;
  Function in_place, plain;
};
std::vector<Pair> pairs() {
  using T = const Tensor&;
  return {
      {"add_", [](T x, T w) { return (x * 1.0).add_(w); }, [](T x, T w) { return x + w; }},
      {"mul_", [](T x, T w) { Tensor y = x * 2.0; y.mul_(w); return y * y; }, [](T x, T w) { const Tensor y = x * 2.0 * w; return y * y; }},
      {"mul_ by itself", [](T x, T) { Tensor y = x * 1.0; y.mul_(y); return y; }, [](T x, T) { return x * x; }},
      {"div_", [](T x, T w) { Tensor y = x * 1.0; y.div_(w); return y; }, [](T x, T w) { return x / w; }},
      {"exp_ and sigmoid_", [](T x, T w) { Tensor y = x * w; y.exp_(); y = y * 1.0; y.sigmoid_(); return y; }, [](T x, T w) { return (x * w).exp().sigmoid(); }},
      {"square_ then log_", [](T x, T w) { Tensor y = x + w; y.square_().log_(); return y; }, [](T x, T w) { return (x + w).square().log(); }},
      {"pow_", [](T x, T) { Tensor y = x * 1.0; y.pow_(Scalar(3)); return y; }, [](T x, T) { return x.pow(Scalar(3)); }},
      {"add_ broadcast", [](T x, T w) { Tensor y = x * 1.0; y.add_(w[0]); return y * w; }, [](T x, T w) { return (x + w[0]) * w; }},
      {"a row written", [](T x, T w) { Tensor y = x * 1.0; y[1].mul_(w[0]); return y * y; }, [](T x, T w) { const Tensor y = frit::stack({x[0], x[1] * w[0], x[2]}); return y * y; }},
      {"a column assigned", [](T x, T w) { Tensor y = x * 1.0; y.select(1, 2).copy_(w.select(1, 0)); return y * y; },
       [](T x, T w) { const Tensor y = frit::cat({x.narrow(1, 0, 2), w.narrow(1, 0, 1), x.narrow(1, 3, 1)}, 1); return y * y; }},
      {"a constant into a part", [](T x, T w) { Tensor y = x * w; y.narrow(1, 1, 2).fill_(Scalar(3.0)); return y.exp(); },
       [](T x, T w) { return frit::cat({x.narrow(1, 0, 1) * w.narrow(1, 0, 1), full({3, 2}, 3.0, kFloat64), x.narrow(1, 3, 1) * w.narrow(1, 3, 1)}, 1).exp(); }},
      {"index_put_ with a slice and a step", [](T x, T w) { Tensor y = x * 1.0; y.index_put_({Slice(), Slice(0, None, 2)}, w.narrow(1, 0, 2)); return y * w; },
       [](T x, T w) { return frit::stack({w.select(1, 0), x.select(1, 1), w.select(1, 1), x.select(1, 3)}, 1) * w; }},
      {"a view of a view of a transpose", [](T x, T w) { Tensor y = x * 1.0; y.t().narrow(0, 1, 2)[0].add_(w.select(1, 3)); return y * y; },
       [](T x, T w) { const Tensor y = frit::stack({x.select(1, 0), x.select(1, 1) + w.select(1, 3), x.select(1, 2), x.select(1, 3)}, 1); return y * y; }},
      {"the view's own value used", [](T x, T w) { Tensor y = x * 1.0, v = y[0]; v.mul_(w[1]); return v * y; }, [](T x, T w) { const Tensor v = x[0] * w[1]; return v * frit::cat({v.unsqueeze(0), x.narrow(0, 1, 2)}, 0); }},
      {"the base written, the view used", [](T x, T w) { Tensor y = x * 1.0, v = y.select(1, 1); y.mul_(w); return v * v; }, [](T x, T w) { const Tensor v = (x * w).select(1, 1); return v * v; }},
      {"a diagonal written", [](T x, T w) { Tensor y = x * 1.0; y.diagonal().mul_(w.select(1, 0)); return y * y; },
       [](T x, T w) { const Tensor mask = eye(3, 4, kFloat64), y = x * (1.0 - mask) + x * mask * w.narrow(1, 0, 1); return y * y; }},
      {"masked_fill_", [](T x, T w) { Tensor y = x * w; y.masked_fill_(x.detach() > Scalar(1.51), Scalar(0.5)); return y * y; }, [](T x, T w) { const Tensor y = frit::where(x.detach() > Scalar(1.51), full({}, 0.5, kFloat64), x * w); return y * y; }},
      {"scatter_", [](T x, T w) { Tensor y = x * 1.0; y.scatter_(0, tensor({{2, 0, 1, 1}}), w.narrow(0, 0, 1)); return y * y; }, [](T x, T w) { const Tensor y = x.scatter(0, tensor({{2, 0, 1, 1}}), w.narrow(0, 0, 1)); return y * y; }},
      {"scatter_add_", [](T x, T w) { Tensor y = x * 1.0; y.scatter_add_(0, tensor({{2, 0, 1, 1}}), w.narrow(0, 0, 1)); return y * y; }, [](T x, T w) { const Tensor y = x.scatter_add(0, tensor({{2, 0, 1, 1}}), w.narrow(0, 0, 1)); return y * y; }},
      {"clamp_", [](T x, T w) { Tensor y = x * w; y.clamp_(Scalar(0.6), Scalar(4.1)); return y * y; }, [](T x, T w) { const Tensor y = (x * w).clamp(Scalar(0.6), Scalar(4.1)); return y * y; }},
      {"many writes", [](T x, T w) { Tensor y = x * 1.0; for (int i = 0; i < 6; ++i) y.mul_(w).add_(x); return y; }, [](T x, T w) { Tensor y = x * 1.0; for (int i = 0; i < 6; ++i) y = y * w + x; return y; }},
      {"rows in a loop", [](T x, T w) { Tensor y = zeros({3, 4}, kFloat64); for (int i = 0; i < 3; ++i) y[i] .copy_(i ? y[i - 1].clone() * w[i] : x[0]); return y; },
       [](T x, T w) { const Tensor a = x[0], b = a * w[1], c = b * w[2]; return frit::stack({a, b, c}); }},
      {"a reshape written", [](T x, T w) { Tensor y = x * 1.0; y.view({12}).narrow(0, 2, 4).mul_(w.flatten().narrow(0, 0, 4)); return y * y; },
       [](T x, T w) { const Tensor f = x.flatten(), y = frit::cat({f.narrow(0, 0, 2), f.narrow(0, 2, 4) * w.flatten().narrow(0, 0, 4), f.narrow(0, 6, 6)}).reshape({3, 4}); return y * y; }},
  };
}
std::string message(const std::function<void()>& f) {
  try {
    f();
    synchronize();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
}  // namespace

TEST_CASE("autograd: writes in place have the gradients of the same computation without") {
  for (RunMode mode : all_modes)
    for (const Pair& p : pairs()) {
      INFO(p.name << " " << mode_name(mode));
      const auto run = [&](const Function& f, std::vector<Var>& all) {
        const Tensor x = numbers({3, 4}).requires_grad_(), w = numbers({3, 4}, 1.25, 0.125).requires_grad_();
        const Tensor y = f(x, w), weights = numbers(y.sizes().vec(), -1, 0.375);
        const autograd::variable_list g = autograd::grad({y}, {x, w}, {weights}, true, true, true);
        all = {y};
        for (const Tensor& t : g) all.push_back(t.defined() ? t : zeros({3, 4}, kFloat64));
        Tensor again;
        for (const Tensor& t : g)
          if (t.defined() && t.requires_grad()) again = again.defined() ? again + t.square().sum() : t.square().sum();
        if (again.defined())
          for (const Tensor& t : autograd::grad({again}, {x, w}, {}, false, false, true)) all.push_back(t.defined() ? t : zeros({3, 4}, kFloat64));
        synchronize();
      };
      std::vector<Var> written, plain;
      Checked checked(mode);
      run(p.in_place, written), run(p.plain, plain);
      REQUIRE(written.size() == plain.size());
      for (size_t i = 0; i < written.size(); ++i) {
        INFO("result " << i << ": " << Tensor(written[i]).str() << "\nwithout: " << Tensor(plain[i]).str());
        CHECK(Tensor(written[i]).allclose(Tensor(plain[i]), 1e-10, 1e-12));
      }
      // And against central differences.
      const autograd::TensorFunction f = [&](const autograd::variable_list& in) -> autograd::variable_list { return {p.in_place(in[0], in[1])}; };
      CHECK_NOTHROW(autograd::gradcheck(f, {numbers({3, 4}), numbers({3, 4}, 1.25, 0.125)}));
      ++tally().gradients;
    }
  report("writes in place");
}

TEST_CASE("autograd: no data moves that a reshape only pretends to share") {
  for (RunMode mode : all_modes) {
    InMode scope(mode);
    const Tensor x = numbers({2, 3});
    for (bool gradient : {false, true}) {
      const Tensor leaf = x.clone().requires_grad_(gradient);
      Tensor y = leaf.t() * 1.0, z = y.reshape({6});  // transposed in memory: a copy
      z.add_(Scalar(100));
      INFO(mode_name(mode) << (gradient ? " with" : " without") << " gradients");
      CHECK(y.equal(x.t()));
      CHECK(z.equal(x.t().reshape({6}) + 100));
    }
  }
}

TEST_CASE("autograd: errors") {
  for (RunMode mode : all_modes) {
    InMode scope(mode);
    INFO(mode_name(mode));
    // Overwritten saved tensors.
    {
      Tensor x = numbers({3}).requires_grad_(), a = x * 1.0, y = a * a;
      a.add_(Scalar(1));
      CHECK_THAT(message([&] { y.sum().backward(); }), Contains("mul") && Contains("overwritten in place") && Contains("clone()"));
      CHECK(!x.grad().defined());
    }
    {
      Tensor x = numbers({3}).requires_grad_(), y = x.exp();
      y.mul_(Scalar(2));
      CHECK_THAT(message([&] { y.sum().backward(); }), Contains("exp") && Contains("overwritten in place"));
    }
    {  // through another view of the same memory
      Tensor x = numbers({3, 4}).requires_grad_(), a = x * 1.0, row = a[0], y = row.sin();
      a.mul_(Scalar(2));
      CHECK_THAT(message([&] { y.sum().backward(); }), Contains("sin") && Contains("overwritten in place"));
    }
    {  // written, but not read by any derivative: legal
      Tensor x = numbers({3}).requires_grad_(), a = x * 2.0, y = a + 1.0;
      a.zero_();
      CHECK(message([&] { y.sum().backward(); }) == "no error");
      CHECK(doubles(x.grad()) == std::vector<double>{2, 2, 2});
    }
    // A second walk.
    {
      Tensor x = numbers({3}).requires_grad_(), y = (x * x).sum();
      synchronize();
      y.backward();
      CHECK_THAT(message([&] { y.backward(); }), Contains("retain_graph=true"));
      CHECK(doubles(x.grad()) == std::vector<double>{1, 1.5, 2});
      Tensor z = (x * x).sum();
      z.backward({}, true), z.backward();
      CHECK(doubles(x.grad()) == std::vector<double>{3, 4.5, 6});
    }
    // Leaves.
    {
      Tensor x = numbers({3}).requires_grad_(), before = x.detach().clone();
      CHECK_THAT(message([&] { x.add_(Scalar(1)); }), Contains("add") && Contains("leaf") && Contains("NoGradGuard"));
      CHECK_THAT(message([&] { x.narrow(0, 0, 1).zero_(); }), Contains("view of a leaf") && Contains("NoGradGuard"));
      CHECK(x.equal(before));
      CHECK(x.is_leaf());
      NoGradGuard none;
      x.add_(Scalar(1));
      CHECK(x.equal(before + 1.0));
      CHECK(x.requires_grad());
    }
    // Roots and gradients.
    {
      Tensor x = numbers({3}).requires_grad_();
      CHECK_THAT(message([&] { (x * 2.0).backward(); }), Contains("3 elements") && Contains("reduce to a scalar"));
      CHECK_THAT(message([&] { (x * 2.0).backward(ones({2}, kFloat64)); }), Contains("shape"));
      CHECK_THAT(message([&] { x.detach().sum().backward(); }), Contains("does not require a gradient") && Contains("requires_grad_()"));
      CHECK_THAT(message([&] { autograd::grad({(x * 2.0).sum()}, {numbers({3}).requires_grad_()}); }), Contains("not used") && Contains("allow_unused"));
      CHECK_THAT(message([&] { autograd::grad({(x * 2.0).sum()}, {numbers({3})}); }), Contains("does not require a gradient"));
      CHECK_THAT(message([&] { autograd::grad({x.sum()}, {}); }), Contains("no inputs"));
      CHECK_THAT(message([&] { numbers({3}).to(kInt64).requires_grad_(); }), Contains("int64") && Contains("floating type"));
      CHECK_THAT(message([&] { (x * 2.0).requires_grad_(false); }), Contains("leaf") && Contains("detach()"));
      CHECK_THAT(message([&] { x.set_grad(ones({2}, kFloat64)); }), Contains("[2]") && Contains("[3]"));
      CHECK_THAT(message([&] { numbers({2}).register_hook([](const Tensor&) {}); }), Contains("register_hook"));
      CHECK_THAT(message([&] { numbers({2}).retain_grad(); }), Contains("retain_grad"));
      CHECK_THAT(message([&] { autograd::jvp([](const autograd::variable_list& in) { return in; }, {x}, {}); }), Contains("1 inputs and 0 tangents"));
      CHECK_THAT(message([&] { autograd::gradcheck([](const autograd::variable_list& in) { return in; }, {ones({2})}); }), Contains("float64"));
      CHECK(!x.grad().defined());
    }
    {
      Tensor made;
      {
        InferenceMode inference;
        made = numbers({2}) * 2.0;
      }
      CHECK_THAT(message([&] { made.requires_grad_(); }), Contains("InferenceMode") && Contains("clone()"));
    }
  }
}

TEST_CASE("autograd: a failed call changes nothing") {
  for (RunMode mode : all_modes) {
    InMode scope(mode);
    INFO(mode_name(mode));
    Tensor x = numbers({2, 3}).requires_grad_(), y = x * 2.0, integers = arange(6).reshape({2, 3}), wide = numbers({2, 3});
    const Tensor view = wide[0];
    struct {
      std::function<void()> call;
      std::vector<const char*> says;
    } const wrong[] = {
        {[&] { x + numbers({4}); }, {"add", "[2, 3]", "[4]", "3 and 4", "broadcast"}},
        {[&] { wide.add_(numbers({5, 2, 3})); }, {"add", "[2, 3]", "[5, 2, 3]", "in place"}},
        {[&] { integers.add_(Scalar(0.5)); }, {"add", "float32", "int64", "in place"}},
        {[&] { x.matmul(x); }, {"matmul", "[2, 3]", "inner extents"}},
        {[&] { x & x; }, {"bitwise_and", "float64"}},
        {[&] { frit::where(x, x, x); }, {"where", "float64", "kBool"}},
        {[&] { wide.expand({2, 2, 3}).mul_(Scalar(2)); }, {"mul", "clone()"}},
        {[&] { frit::cat({x, numbers({3, 2})}, 0); }, {"cat", "[2, 3]", "[3, 2]"}},
        {[&] { x.gather(0, x); }, {"gather", "float64", "kInt64"}},
        {[&] { x.scatter(0, integers, ones({2, 3})); }, {"scatter", "float64", "float32"}},
        {[&] { zeros({0, 3}).amax(IntArrayRef({0})); }, {"amax", "axis 0", "no elements"}},
        {[&] { wide.copy_(numbers({7})); }, {"[2, 3]", "[7]"}},
    };
    for (const auto& w : wrong) {
      const std::string text = message(w.call);
      for (const char* word : w.says) CHECK_THAT(text, Contains(word));
      CHECK(wide.equal(numbers({2, 3})));
      CHECK(integers.equal(arange(6).reshape({2, 3})));
    }
    wide.mul_(Scalar(2));
    CHECK(view.equal(numbers({3}) * 2.0));
    (y * y).sum().backward();
    CHECK(doubles(x.grad()) == doubles(numbers({2, 3}) * 8.0));
  }
}

TEST_CASE("autograd: accumulation, hooks, retained gradients, shared subgraphs") {
  for (RunMode mode : all_modes) {
    InMode scope(mode);
    INFO(mode_name(mode));
    Tensor x = numbers({2}).requires_grad_(), a = x * 3.0;
    int calls = 0;
    const uint64_t first = a.register_hook([&](const Tensor& g) { ++calls; return g * 2.0; });
    x.register_hook([&](const Tensor&) { ++calls; });
    a.retain_grad();
    (a * a + a).sum().backward();
    CHECK(calls == 2);
    CHECK(doubles(a.grad()) == doubles((a.detach() * 2.0 + 1.0) * 2.0));
    CHECK(doubles(x.grad()) == doubles(a.grad() * 3.0));
    const Tensor once = x.grad().clone();
    Tensor b = x * 3.0;
    (b * b + b).sum().backward();
    CHECK(doubles(x.grad()) == doubles(once + once / 2.0));
    x.zero_grad();
    CHECK(!x.grad().defined());
    a.remove_hook(first);
    (x * 1.0).sum().backward();
    x.zero_grad(false);
    CHECK(doubles(x.grad()) == std::vector<double>{0, 0});
  }
}

TEST_CASE("autograd: a reshape that had to copy is written apart from its base") {
  const auto f = [](const Tensor& x, const Tensor& w) {
    Tensor y = x.t() * 1.0, z = y.reshape({12});
    z.mul_(w.flatten());
    return frit::cat({y.flatten(), z});
  };
  const Tensor x = numbers({3, 4}).requires_grad_(), w = numbers({3, 4}, 1.25, 0.125).requires_grad_();
  const auto plain = [](const Tensor& a, const Tensor& b) { return frit::cat({a.t().flatten(), a.t().flatten() * b.flatten()}); };
  const Tensor want = plain(x, w);
  const autograd::variable_list slope = autograd::grad({want.square().sum()}, {x, w});
  auto compiled = frit::compile(f);
  for (int way = 0; way < 3; ++way)
    for (int turn = 0; turn < 3; ++turn) {
      const jit::ModeGuard mode(way == 1 ? jit::Mode::automatic : jit::Mode::eager);
      const Tensor got = way == 2 ? compiled(x, w) : f(x, w);
      CHECK(got.equal(want));
      const autograd::variable_list g = autograd::grad({got.square().sum()}, {x, w});
      CHECK(g[0].allclose(slope[0], 1e-12));
      CHECK(g[1].allclose(slope[1], 1e-12));
      synchronize();
    }
}
