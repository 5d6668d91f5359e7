// The cases that speak of compiled functions: what is compiled how often, what a failed call leaves, what results share.
#include "tests/support/cases.h"

using namespace frit;
using namespace frit::testing;

namespace {
int64_t plans() { return jit::stats().plans_compiled; }
}  // namespace

TEST_CASE("A09 a first call that throws poisons nothing") {
  const Tensor x = tensor({1., 2.});
  bool legal = false;
  auto f = compile([&](const Tensor& t) {
    const Tensor y = t + 1;
    if (!legal) throw std::runtime_error("the user's");
    return y;
  });
  CHECK_THROWS_WITH(f(x), "the user's");
  legal = true;
  CHECK(same(f(x), {2, 3}));
  auto never = compile([](const Tensor& t) -> Tensor {
    const Tensor y = t * 2;
    throw std::runtime_error("the user's");
  });
  for (int k = 0; k < 3; ++k) CHECK_THROWS_WITH(never(x), "the user's");
  CHECK(same(x + 1, {2, 3}));
}
TEST_CASE("A11 toggling a mode compiles once each") {
  const jit::ModeGuard eager(jit::Mode::eager);  // what is counted is what compile() makes
  auto f = compile([](const Tensor& x, bool training) { return dropout(x, 0.5, training) * 2; });
  const Tensor x = ones({8});
  const int64_t before = plans();
  for (int k = 0; k < 20; ++k) {
    const Tensor y = f(x, k % 2 == 0);
    if (k % 2) CHECK(y.equal(full({8}, 2.0)));
    else CHECK(y.eq(0).logical_or(y.eq(4)).all().item<bool>());
  }
  CHECK(plans() - before <= 2);
}
TEST_CASE("A12, A21 numbers are arguments: other values compile nothing") {
  const jit::ModeGuard eager(jit::Mode::eager);  // what is counted is what compile() makes
  const Tensor x = tensor({1., 2.});
  double c = 2;
  auto f = compile([&](const Tensor& t) { return t * c; });
  CHECK(same(f(x), {2, 4}));
  const int64_t before = plans();
  for (double v : {3., NaN, NaN, NaN, NaN, NaN, 0., -0.}) {
    c = v;
    CHECK(same(f(x), {v, 2 * v}, 0, 0, true));
  }
  CHECK(plans() == before);
  auto g = compile([&](const Tensor& t) { return t + c; });
  for (int k = 0; k < 50; ++k) {
    c = k;
    CHECK(same(g(x), {1. + k, 2. + k}));
  }
  CHECK(plans() - before <= 2);
}
TEST_CASE("A14, A17 sizes of one compiled pair of forward and backward") {
  const Tensor x = tensor({{1., -1.}, {3., 0.5}, {-1., -1.}, {2., 2.}});
  const Doubles gradients[] = {{6, 2, 1.5, 2}, {1, 0, -1, 0}, {4, 0, -0.5, 0}, {0, 0, 0, 0}};
  const double losses[] = {8.75, 0.5, 3.75, 0};
  auto step = compile([](const Tensor& in, const Tensor& w) {
    const Tensor loss = relu(in.matmul(w.reshape({2, 2}))).sum();
    loss.backward();
    return loss;
  });
  for (int turn = 0; turn < 3; ++turn) {
    int k = 0;
    for (int64_t n : {4, 1, 3, 0}) {
      INFO("batch " << n);
      Tensor w = parameter({1, -1, 0.5, 2});
      CHECK(step(x.slice(0, 0, n), w).item<double>() == losses[k]);
      CHECK(same(w.grad(), gradients[k++]));
    }
  }
}
TEST_CASE("B29 results of two compiled calls have storages of their own") {
  auto f = compile([](const Tensor& x) { return x + 1; });
  for (int k = 0; k < 5; ++k) f(tensor({double(k)}));
  const Tensor r1 = f(tensor({1.1})), r2 = f(tensor({1.2}));
  CHECK(!r1.is_alias_of(r2));
  CHECK(same(r1, {2.1}, 1e-6));
  CHECK(same(r2, {2.2}, 1e-6));
}
TEST_CASE("F01, F02 compiled draws advance, and are those of eager") {
  auto f = compile([] { return dropout(ones({1024}), 0.5, true); });
  manual_seed(11);
  const Tensor m1 = f(), m2 = f(), m3 = f();
  CHECK(!m1.equal(m2));
  CHECK(!m2.equal(m3));
  manual_seed(11);
  CHECK(f().equal(m1));
  jit::ModeGuard eager(jit::Mode::eager);
  manual_seed(11);
  for (const Tensor& m : {m1, m2, m3}) CHECK(dropout(ones({1024}), 0.5, true).equal(m));
}
TEST_CASE("C04, B36 compiled: casts saturate and small deviations count") {
  auto f = compile([](const Tensor& x) { return (x * 1).to(kInt32) + 0; });
  for (int turn = 0; turn < 2; ++turn) CHECK(same(f(floats({NaN, inf, -inf, 3e9, -1.5, 255.7, 256, -1})), {0, 2147483647, -2147483648., 2147483647, -1, 255, 256, -1}));
  auto g = compile([](const Tensor& x) {
    x.std().backward();
    return x.grad();
  });
  for (int turn = 0; turn < 2; ++turn)
    CHECK(same(g(parameter({1e-30, 2e-30, 3e-30, 4e-30})), {-0.3872983346207417, -0.12909944487358055, 0.12909944487358055, 0.3872983346207417}, 1e-5));
}
