// The numeric cases of classes c and f, and the threads of class e: gradients, random streams. One test a case.
#include "tests/support/cases.h"

#include <thread>

using namespace frit;
using namespace frit::testing;
using namespace frit::indexing;
using Catch::Matchers::Contains;

namespace {
Tensor gradient(const Tensor& y, const Tensor& x, bool again = false) { return autograd::grad({y}, {x}, {}, again ? std::optional<bool>(true) : std::nullopt, again)[0]; }
}  // namespace

TEST_CASE("C01 gradients of broadcast operands are summed to their shape") {
  in_each_mode([] {
    Tensor a = tensor({{1.}, {2.}, {3.}, {4.}}).requires_grad_(), b = tensor({{10., 20., 30.}}).requires_grad_();
    (a * b).sum().backward();
    CHECK(a.grad().sizes().vec() == Shape{4, 1});
    CHECK(same(a.grad(), {60, 60, 60, 60}));
    CHECK(same(b.grad(), {10, 10, 10}));
    Tensor s = full({}, 2.0).requires_grad_();
    (s * ones({5, 4})).sum().backward();
    CHECK(s.grad().dim() == 0);
    CHECK(same(s.grad(), {20}));
    Tensor v = ones({5, 2, 1}).requires_grad_(), w = ones({5, 2}).requires_grad_();
    (v + w.t()).sum().backward();
    CHECK(v.grad().equal(full({5, 2, 1}, 5.0)));
    CHECK(w.grad().equal(full({5, 2}, 5.0)));
    Tensor e = ones({1}).requires_grad_();
    e.expand({3, 2, 4}).sum().backward();
    CHECK(same(e.grad(), {24}));
  });
}
TEST_CASE("C02 gradients of reductions over several axes") {
  in_each_mode([] {
    Tensor t = arange(24, kFloat32).reshape({2, 3, 4}).requires_grad_();
    (tensor({1., 10.}) * t.mean({1, 2})).sum().backward();
    CHECK(same(t.grad().select(0, 0), Doubles(12, 0.08333333333333333), 1e-6));
    CHECK(same(t.grad().select(0, 1), Doubles(12, 0.8333333333333334), 1e-6));
    t.zero_grad();
    (tensor({1., 2., 3.}) * t.sum({0, -1})).sum().backward();
    for (int64_t j = 0; j < 3; ++j) CHECK(same(t.grad().select(1, j), Doubles(8, double(j + 1))));
    Tensor x = ones({5}).requires_grad_();
    x.square().mean(0).backward();
    CHECK(same(x.grad(), Doubles(5, 0.4), 1e-6));
  });
}
TEST_CASE("C04 gradients of std and var") {
  in_each_mode([] {
    const Doubles by_std{-0.3872983346207417, -0.12909944487358055, 0.12909944487358055, 0.3872983346207417};
    const auto of = [](const Doubles& v, auto f) {
      const Tensor x = parameter(v);
      return gradient(f(x), x);
    };
    const auto std_of = [](const Tensor& x) { return x.std(); };
    CHECK(same(of({2, 2, 2, 2}, std_of), {0, 0, 0, 0}));
    CHECK(same(of({1, 2, 3, 4}, [](const Tensor& x) { return x.var(); }), {-1, -0.3333333333333333, 0.3333333333333333, 1}, 1e-5));
    CHECK(same(of({1, 2, 3, 4}, std_of), by_std, 1e-5));
    CHECK(same(of({1e-30, 2e-30, 3e-30, 4e-30}, std_of), by_std, 1e-5));
  });
}
TEST_CASE("C06 gradients at the edges of clamp and relu") {
  in_each_mode([] {
    Tensor x = parameter({-2, -1, 0, 1, 2});
    CHECK(same(gradient(clamp(x, -1, 1).sum(), x), {0, 1, 1, 1, 0}));
    Tensor z = parameter({-0.0, 0.0, 1});
    CHECK(same(gradient(relu(z).sum(), z), {0, 0, 1}));
    CHECK(same(gradient(minimum(maximum(x, full({}, -1.0)), full({}, 1.0)).sum(), x), {0, 0.5, 1, 0.5, 0}));
    CHECK(same(clamp(floats({NaN}), -1, 1), {NaN}));
    // The same rule in forward mode.
    const autograd::TensorFunction f = [](const autograd::variable_list& v) -> autograd::variable_list { return {clamp(v[0], -1, 1)}; };
    CHECK(same(autograd::jvp(f, {x}, {ones({5})}).second[0], {0, 1, 1, 1, 0}));
  });
}
TEST_CASE("C07 ties of maximum and max share the gradient") {
  in_each_mode([] {
    Tensor a = parameter({1, 2, 5}), b = parameter({1, 3, 5});
    const auto g = autograd::grad({maximum(a, b).sum()}, {a, b});
    CHECK(same(g[0], {0.5, 0, 0.5}));
    CHECK(same(g[1], {0.5, 1, 0.5}));
    Tensor c = parameter({3, 3, 1}), four = parameter({2, 2, 2, 2}), two = parameter({2});
    CHECK(same(gradient(c.amax(), c), {0.5, 0.5, 0}));
    CHECK(same(gradient(std::get<0>(c.max(0)), c), {1, 0, 0}));
    CHECK(same(gradient(four.amax(), four), {0.25, 0.25, 0.25, 0.25}));
    CHECK(same(gradient(two.maximum(2).sum(), two), {0.5}));
  });
}
TEST_CASE("C09 prod's gradient and Hessian with zeros") {
  in_each_mode([] {
    Tensor x = parameter({2, 3, 0, 0}), y = parameter({2, 0, 5}), z = parameter({0});
    const Tensor g = gradient(x.prod(), x, true);
    CHECK(same(g, {0, 0, 0, 0}));
    const Doubles rows[] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 6}, {0, 0, 6, 0}};
    for (int64_t k = 0; k < 4; ++k) CHECK(same(gradient(g[k], x, true), rows[k]));
    CHECK(same(gradient(y.prod(), y), {0, 10, 0}));
    CHECK(same(gradient(z.prod(0), z), {1}));
    CHECK(same(gradient(z.prod(0), z, true), {1}));
  });
}
TEST_CASE("C11 legal writes in place keep working") {
  in_each_mode([] {
    Tensor b = parameter({1, 2, 3, 4});
    Tensor x = b * 1;
    const Tensor y = 2 * x.slice(0, 0, 2);
    x.sub_(1).div_(2);
    (y.sum() + x.sum()).backward();
    CHECK(same(y, {2, 4}));
    CHECK(same(x, {0, 0.5, 1, 1.5}));
    CHECK(same(b.grad(), {2.5, 2.5, 0.5, 0.5}));
  });
}
TEST_CASE("C12 detach_ counts") {
  in_each_mode([] {
    const Tensor x = parameter({1, 2});
    Tensor y = 2 * x;
    y.detach_();
    const Tensor z = y + 1;
    CHECK(same(z, {3, 5}));
    CHECK(!z.requires_grad());
    CHECK(!y.requires_grad());
  });
}
TEST_CASE("C14 freed and unused graphs") {
  in_each_mode([] {
    Tensor x = parameter({1, 2});
    const Tensor y = x.pow(3).sum(), g = gradient(y, x, true);
    CHECK(same(g, {3, 12}));
    CHECK(same(gradient(g.sum(), x, true), {6, 12}));
    CHECK_THROWS_WITH(autograd::grad({y}, {g}, {}, true), Contains("not used"));
    CHECK(!autograd::grad({y}, {g}, {}, true, false, true)[0].defined());
    const Tensor once = x.pow(3).sum();
    once.backward();
    CHECK_THROWS_WITH(once.backward(), Contains("freed"));
    x.zero_grad();
    const Tensor twice = x.pow(3).sum();
    twice.backward({}, true);
    twice.backward({}, true);
    CHECK(same(x.grad(), {6, 24}));
  });
}
TEST_CASE("C16 dropout's gradient has its mask") {
  in_each_mode([] {
    manual_seed(3);
    Tensor x = ones({4096}).requires_grad_();
    const Tensor y = dropout(x, 0.5, true);
    y.sum().backward();
    CHECK(x.grad().equal(y.detach()));
    CHECK(y.eq(0).logical_or(y.eq(2)).all().item<bool>());
  });
}
TEST_CASE("C17 derivatives at points that are not smooth, and the third order") {
  in_each_mode([] {
    Tensor x = parameter({0, 0, 0});
    const Tensor g = gradient(x.norm(), x, true);
    CHECK(same(g, {0, 0, 0}));
    const Tensor s = g.sum();
    if (s.requires_grad()) CHECK(gradient(s, x, true).sizes().vec() == Shape{3});  // zero, by the rule at the kink
    Tensor t = parameter({2}, kFloat64);
    const Tensor d1 = gradient(t.pow(4).sum(), t, true), d2 = gradient(d1.sum(), t, true), d3 = gradient(d2.sum(), t, true);
    CHECK(same(d3, {48}));
    Tensor r = parameter({0, 1});
    const Tensor first = gradient(relu(r).square().sum(), r, true);
    CHECK(same(first, {0, 2}));
    const Tensor only = gradient(relu(r).sum(), r, true);
    CHECK((!only.requires_grad() || same(gradient((only * only.detach()).sum(), r, true), {0, 0})));
  });
}
TEST_CASE("E01 many threads make the first call at once") {
  std::vector<std::thread> threads;
  std::vector<int> good(32, 0);
  for (int k = 0; k < 32; ++k)
    threads.emplace_back([k, &good] {
      jit::ModeGuard mode(k % 2 ? jit::Mode::automatic : jit::Mode::eager);
      const Shape shape = k % 4 < 2 ? Shape{2, 3} : Shape{5};
      const Tensor x = rand(shape), y = full(shape, double(k));
      const Tensor r = x.sin().square() + x.cos().square() + y;
      good[size_t(k)] = r.sub(1.0 + k).abs().lt(1e-5 * (1 + k)).all().item<bool>();
    });
  for (std::thread& t : threads) t.join();
  for (int k = 0; k < 32; ++k) CHECK(good[size_t(k)]);
}
TEST_CASE("F01 random draws advance between calls") {
  in_each_mode([] {
    manual_seed(11);
    const auto f = [] { return dropout(ones({1024}), 0.5, true); };
    const Tensor m1 = f(), m2 = f();
    CHECK(!m1.equal(m2));
    CHECK(std::abs(m1.ne(0).sum().item<int64_t>() - 512) <= 80);
    bool changes = false;
    std::thread([&] { changes = !f().equal(f()); }).join();
    CHECK(changes);
    manual_seed(11);
    CHECK(f().equal(m1));
  });
}
TEST_CASE("F02 both modes draw the same stream in program order") {
  for (int64_t n : {5, 8, 1025, 8192}) {
    TensorList results;
    in_each_mode([&] {
      manual_seed(7);
      const Tensor a = dropout(ones({n}), 0.5, true), b = dropout(ones({16}), 0.5, true);
      results.push_back(a.sum() + b);
      results.push_back(rand({3}));  // the state afterwards
    });
    CHECK(results[0].equal(results[2]));
    CHECK(results[1].equal(results[3]));
  }
}
TEST_CASE("F04 dropout with p 0 and 1") {
  in_each_mode([] {
    Tensor x = parameter({1, 2, inf});
    manual_seed(5);
    const Tensor next = rand({4});
    manual_seed(5);
    CHECK(same(dropout(x, 0, true), {1, 2, inf}));
    CHECK(same(dropout(x, 0.5, false), {1, 2, inf}));
    const Tensor none = dropout(x, 1, true);
    CHECK(same(none, {0, 0, 0}));
    CHECK(same(gradient(none.sum(), x), {0, 0, 0}));
    CHECK(rand({4}).equal(next));  // neither drew
  });
}
