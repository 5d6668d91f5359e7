// autograd::Function: first and second order against the same function made of ops, several outputs, in-place writes, what is kept and
// freed, errors. Everything runs in both modes.
#include <catch2/catch.hpp>
#include <frit/frit.h>
#include <frit/custom_function.h>

using namespace frit;
using autograd::AutogradContext;
using autograd::variable_list;

namespace {
struct Cube : autograd::Function<Cube> {
  static Tensor forward(AutogradContext* ctx, Tensor x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const Tensor x = ctx->get_saved_variables()[0];
    return {g[0] * 3 * x * x};
  }
};
// Saves its own output.
struct Exponential : autograd::Function<Exponential> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    const Tensor y = x.exp();
    ctx->save_for_backward({y});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) { return {g[0] * ctx->get_saved_variables()[0]}; }
};
// scale * a @ b and a's sum; a number and a flag among the arguments.
struct Mixed : autograd::Function<Mixed> {
  static variable_list forward(AutogradContext* ctx, Tensor a, double scale, Tensor b, bool negate) {
    ctx->save_for_backward({a, b});
    ctx->saved_data["scale"] = negate ? -scale : scale;
    return {a.matmul(b) * (negate ? -scale : scale), a.sum()};
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const variable_list saved = ctx->get_saved_variables();
    const double scale = ctx->saved_data["scale"].toDouble();
    Tensor da, db;
    if (ctx->needs_input_grad(0)) da = g[0].matmul(saved[1].t()) * scale + g[1].expand(saved[0].sizes());
    if (ctx->needs_input_grad(1)) db = saved[0].t().matmul(g[0]) * scale;
    return {da, Tensor(), db, Tensor()};
  }
};
struct Double : autograd::Function<Double> {  // in place
  static Tensor forward(AutogradContext* ctx, Tensor x) {
    ctx->mark_dirty({x});
    return x.mul_(2);
  }
  static variable_list backward(AutogradContext*, variable_list g) { return {g[0] * 2}; }
};
struct Split : autograd::Function<Split> {
  static inline bool materialize = true;
  static inline int defined = 0;
  static variable_list forward(AutogradContext* ctx, Tensor x) {
    ctx->set_materialize_grads(materialize);
    const Tensor index = x.argmax(), constant = x.floor();
    ctx->mark_non_differentiable({constant});
    return {x * 2, index, constant, x * 3};
  }
  static variable_list backward(AutogradContext*, variable_list g) {
    defined = 0;
    for (const Tensor& t : g) defined += t.defined();
    Tensor sum;
    if (g[0].defined()) sum = g[0] * 2;
    if (g[3].defined()) sum = sum.defined() ? sum + g[3] * 3 : g[3] * 3;
    return {sum};
  }
};
struct ByNumbers : autograd::Function<ByNumbers> {  // a backward that is not made of ops
  static Tensor forward(AutogradContext* ctx, Tensor x) {
    ctx->save_for_backward({x});
    return x.square();
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const Tensor x = ctx->get_saved_variables()[0];
    std::vector<double> v;
    for (int64_t i = 0; i < x.numel(); ++i) v.push_back(2 * x[i].item<double>() * g[0][i].item<double>());
    return {tensor(v, x.dtype())};
  }
};

template <class F> void in_both_modes(F f) {
  for (const jit::Mode mode : {jit::Mode::eager, jit::Mode::automatic}) {
    const jit::ModeGuard guard(mode);
    INFO((mode == jit::Mode::eager ? "eager" : "automatic"));
    f();
  }
}
Tensor values(IntArrayRef sizes, uint64_t seed) {
  manual_seed(seed);
  return randn(sizes, kFloat64);
}
}  // namespace

TEST_CASE("Function: gradients of first and second order are those of the ops") {
  in_both_modes([] {
    for (const bool deep : {false, true}) {  // a leaf, or something computed
      const Tensor x = values({3, 4}, 1).requires_grad_(), w = values({3, 4}, 2).requires_grad_();
      const auto in = [&] { return deep ? x * w : x + 0; };
      const Tensor h = in(), y = Cube::apply(h) * Exponential::apply(h);
      const Tensor h2 = in(), z = h2.pow(3) * h2.exp();
      CHECK(y.requires_grad());
      CHECK(y.detach().allclose(z.detach()));
      const auto g = autograd::grad({(y * y).sum()}, {x, w}, {}, true, true, true), k = autograd::grad({(z * z).sum()}, {x, w}, {}, true, true, true);
      CHECK(g[0].detach().allclose(k[0].detach()));
      CHECK(g[1].defined() == deep);
      if (deep) CHECK(g[1].detach().allclose(k[1].detach()));
      const auto gg = autograd::grad({g[0].square().sum()}, {x}), kk = autograd::grad({k[0].square().sum()}, {x});
      CHECK(gg[0].allclose(kk[0]));
    }
  });
}
TEST_CASE("Function: gradcheck, in both directions and twice") {
  in_both_modes([] {
    CHECK(autograd::gradcheck([](const variable_list& in) -> variable_list { return {Cube::apply(in[0]), Exponential::apply(in[0].sin())}; }, {values({5}, 3)}));
    CHECK(autograd::gradgradcheck([](const variable_list& in) -> variable_list { return {Cube::apply(in[0]) * Exponential::apply(in[0])}; }, {values({4}, 4)}));
    CHECK(autograd::gradcheck([](const variable_list& in) { return Mixed::apply(in[0], 1.5, in[1], true); }, {values({2, 3}, 5), values({3, 2}, 6)}));
    CHECK(autograd::gradgradcheck([](const variable_list& in) { return Mixed::apply(in[0], 1.5, in[1], false); }, {values({2, 3}, 7), values({3, 2}, 8)}));
  });
}
TEST_CASE("Function: inputs that need no gradient, outputs that got none, outputs that have none") {
  in_both_modes([] {
    const Tensor a = values({2, 3}, 9), b = values({3, 2}, 10).requires_grad_();
    const variable_list y = Mixed::apply(a, 2.0, b, false);
    y[0].sum().backward();
    CHECK_FALSE(a.grad().defined());
    CHECK(b.grad().allclose(a.sum(0).unsqueeze(1).expand({3, 2}) * 2));

    const Tensor x = values({4}, 11).requires_grad_();
    for (const bool materialize : {true, false}) {
      Split::materialize = materialize;
      const variable_list s = Split::apply(x);
      CHECK(s[0].requires_grad());
      CHECK_FALSE(s[1].requires_grad());
      CHECK(s[1].dtype() == kInt64);
      CHECK_FALSE(s[2].requires_grad());
      CHECK(autograd::grad({s[3].sum()}, {x})[0].allclose(full({4}, 3, kFloat64)));
      CHECK(Split::defined == (materialize ? 4 : 1));
    }
    const variable_list s = Split::apply(x);
    CHECK(autograd::grad({s[0].sum() + s[3].sum()}, {x})[0].allclose(full({4}, 5, kFloat64)));

    NoGradGuard no_grad;
    CHECK_FALSE(Cube::apply(x).requires_grad());
  });
}
TEST_CASE("Function: in place") {
  in_both_modes([] {
    const Tensor x = values({3}, 12).requires_grad_();
    Tensor h = x * x;
    const Tensor y = Double::apply(h);
    CHECK(y.is_same(h));
    CHECK(h.detach().allclose((x * x * 2).detach()));
    CHECK(autograd::grad({h.sum()}, {x})[0].allclose((x * 4).detach()));
    CHECK_THROWS_WITH(Double::apply(x), Catch::Contains("clone()"));
  });
}
TEST_CASE("Function: hooks, retained gradients and leaves of an output") {
  in_both_modes([] {
    const Tensor x = values({3}, 13).requires_grad_();
    const Tensor y = Cube::apply(x);
    y.retain_grad();
    y.register_hook([](const Tensor& g) { return g * 2; });
    CHECK_FALSE(y.is_leaf());
    y.sum().backward();
    CHECK(y.grad().allclose(full({3}, 2, kFloat64)));
    CHECK(x.grad().allclose((x * x * 6).detach()));
  });
}
TEST_CASE("Function: a chain of calls, values read in between") {
  in_both_modes([] {
    const Tensor x = full({2}, 1.01, kFloat64).requires_grad_();
    Tensor y = x;
    for (int i = 0; i < 4; ++i) {
      y = Cube::apply(y);
      if (i == 1) CHECK(y[0].item<double>() == Approx(std::pow(1.01, 9)));
    }
    y.sum().backward();
    CHECK(x.grad()[1].item<double>() == Approx(81 * std::pow(1.01, 80)));
  });
}
TEST_CASE("Function: a backward by numbers has a first derivative alone") {
  in_both_modes([] {
    const Tensor x = values({3}, 14).requires_grad_();
    CHECK(autograd::grad({ByNumbers::apply(x).sum()}, {x})[0].allclose((x * 2).detach()));
    CHECK_THROWS_WITH(autograd::jvp([](const variable_list& in) -> variable_list { return {ByNumbers::apply(in[0])}; }, {x}, {ones_like(x)}), Catch::Contains("ByNumbers"));
  });
}
TEST_CASE("Function: what is freed, overwritten or of the wrong form is an error that names the function") {
  in_both_modes([] {
    const Tensor x = values({3}, 15).requires_grad_();
    const Tensor y = Cube::apply(x).sum();
    y.backward({}, true);
    y.backward();
    CHECK(x.grad().allclose((x * x * 6).detach()));
    CHECK_THROWS_WITH(y.backward(), Catch::Contains("Cube") && Catch::Contains("retain_graph"));

    Tensor h = x * 1;
    const Tensor z = Cube::apply(h).sum();
    synchronize();
    h.add_(1);
    CHECK_THROWS_WITH(z.backward(), Catch::Contains("Cube") && Catch::Contains("overwritten"));

    struct Wrong : autograd::Function<Wrong> {
      static Tensor forward(AutogradContext*, Tensor x, int) { return x * 2; }
      static variable_list backward(AutogradContext*, variable_list g) { return {g[0].expand({2, 5}), Tensor()}; }
    };
    struct Few : autograd::Function<Few> {
      static Tensor forward(AutogradContext*, Tensor x, Tensor) { return x * 2; }
      static variable_list backward(AutogradContext*, variable_list g) { return {g[0]}; }
    };
    const Tensor five = values({5}, 16).requires_grad_(), one = values({2, 1}, 17).requires_grad_();
    CHECK(autograd::grad({Wrong::apply(five, 3).sum()}, {five})[0].allclose(full({5}, 2, kFloat64)));
    CHECK_THROWS_WITH(Wrong::apply(values({3}, 18).requires_grad_(), 3).sum().backward(), Catch::Contains("[2, 3]") || Catch::Contains("[3]") || Catch::Contains("expand"));
    CHECK_THROWS_WITH(Few::apply(five, one).sum().backward(), Catch::Contains("Few") && Catch::Contains("2 arguments"));
  });
}
TEST_CASE("Function: a graph that is dropped gives its memory back") {
  in_both_modes([] {
    const Tensor x = values({1 << 16}, 19).requires_grad_();
    synchronize();
    const auto round = [&] {
      const Tensor h = x * 2;
      const Tensor y = Exponential::apply(Cube::apply(h)).sum();
      synchronize();
      return y.item<double>();
    };
    for (int i = 0; i < 3; ++i) round();
    jit::wait_for_compiles();  // what is queued holds shapes
    const int64_t before = memory::stats().current;
    for (int i = 0; i < 5; ++i) round();
    jit::wait_for_compiles();
    CHECK(memory::stats().current <= before);
  });
}
