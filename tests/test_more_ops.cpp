// Views by strides, windows, selections, scans, statistics and other composites: known values, aliases, gradients, errors.
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

#include "tests/support/cases.h"

using namespace frit;
using namespace frit::indexing;
using Catch::Matchers::Contains;

namespace {
using testing::NaN;
using testing::Shape;
constexpr double infinity = testing::inf;
template <class F> void both_modes(F f) { testing::in_each_mode(f); }
bool check_gradients(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, bool second = true) {
  const autograd::TensorFunction g = [&](const autograd::variable_list& in) -> autograd::variable_list { return {f(in[0])}; };
  return autograd::gradcheck(g, {x}) && (!second || autograd::gradgradcheck(g, {x}));
}
template <class F> bool both_gradients(F f, const Tensor& x) {
  bool good = true;
  both_modes([&] { good &= check_gradients(f, x); });
  return good;
}
}  // namespace

TEST_CASE("as_strided: values, aliases, bounds") {
  both_modes([] {
    const Tensor x = arange(12, kFloat32).reshape({3, 4});
    CHECK(x.as_strided({2, 2}, {4, 1}).equal(tensor({{0., 1.}, {4., 5.}})));
    CHECK(x.as_strided({2, 2}, {4, 1}, 5).equal(tensor({{5., 6.}, {9., 10.}})));
    CHECK(x.as_strided({3, 3}, {1, 1}).equal(tensor({{0., 1., 2.}, {1., 2., 3.}, {2., 3., 4.}})));  // overlapping
    CHECK(x.as_strided({2}, {0}).equal(zeros({2})));
    CHECK(x.as_strided({}, {}, 7).item<float>() == 7);
    CHECK(x.as_strided({0, 100}, {1, 1}).numel() == 0);
    const Tensor row = x[1];  // its own offset, by default
    CHECK(row.as_strided({2}, {2}).equal(tensor({4., 6.})));
    CHECK(row.as_strided({2}, {2}, 0).equal(tensor({0., 2.})));
    Tensor y = x.clone();
    Tensor v = y.as_strided({2, 2}, {4, 1}, 1);
    CHECK(v.is_alias_of(y));
    v.mul_(10);
    CHECK(y.equal(tensor({{0., 10., 20., 3.}, {4., 50., 60., 7.}, {8., 9., 10., 11.}})));
    y.add_(1);
    CHECK(v.equal(tensor({{11., 21.}, {51., 61.}})));
    CHECK_THROWS_WITH(x.as_strided({4}, {4}), Contains("element 12") && Contains("12 elements"));
    CHECK_THROWS_WITH(x.as_strided({2}, {1}, -1), Contains("-1"));
    CHECK_THROWS_WITH(x.as_strided({2}, {-1}), Contains("negative"));
    CHECK_THROWS_WITH(x.as_strided({2}, {1, 1}), Contains("One") || Contains("one stride"));
    CHECK_THROWS_AS(x.as_strided({3, 3}, {1, 1}).add_(1), ValueError);  // several elements share memory
  });
}
TEST_CASE("as_strided: gradients, of overlapping views and of views of views") {
  manual_seed(1);
  const Tensor x = randn({3, 4}, kFloat64);
  CHECK(both_gradients([](const Tensor& t) { return t.as_strided({3, 3}, {1, 1}).sin(); }, x));
  CHECK(both_gradients([](const Tensor& t) { return t.contiguous().as_strided({2, 3}, {0, 2}, 1).sin(); }, x));
  CHECK(both_gradients([](const Tensor& t) { return (t * 1).t().as_strided({2, 2, 2}, {4, 1, 2}).exp(); }, x));
  CHECK(both_gradients([](const Tensor& t) { return (t * 1)[1].as_strided({3}, {1}).exp(); }, x));
  CHECK(both_gradients([](const Tensor& t) { return (t * 1).slice(1, 1, 4, 2).as_strided({2, 2}, {4, 2}, 1).exp(); }, x));
  // A written one.
  CHECK(both_gradients([](const Tensor& t) {
    Tensor u = t * 2;
    u.as_strided({2, 2}, {4, 1}, 1).mul_(u.narrow(0, 0, 2).narrow(1, 0, 2).clone());
    return u.sin();
  }, x));
  Tensor w = zeros({4}, dtype(kFloat32).requires_grad(true));
  (w * 1).as_strided({2, 2}, {1, 1}).sum().backward();
  CHECK(w.grad().equal(tensor({1., 2., 1., 0.})));
  Tensor e = zeros({1}, dtype(kFloat32).requires_grad(true));
  e.expand({3}).as_strided({2}, {0}).sum().backward();
  CHECK(e.grad().item<float>() == 2);
}
TEST_CASE("unfold") {
  both_modes([] {
    const Tensor x = arange(10, kFloat32).reshape({2, 5});
    const Tensor u = x.unfold(1, 3, 1);
    CHECK(u.sizes().vec() == Shape{2, 3, 3});
    CHECK(u[1].equal(tensor({{5., 6., 7.}, {6., 7., 8.}, {7., 8., 9.}})));
    CHECK(u.is_alias_of(x));
    CHECK(x.unfold(0, 2, 1).sizes().vec() == Shape{1, 5, 2});
    CHECK(x.unfold(-1, 2, 2).sizes().vec() == Shape{2, 2, 2});
    CHECK(x.t().unfold(0, 2, 3).equal(x.unfold(1, 2, 3).transpose(0, 1)));
    CHECK_THROWS_WITH(x.unfold(1, 6, 1), Contains("size 6") && Contains("[2, 5]"));
    CHECK_THROWS_WITH(x.unfold(1, 2, 0), Contains("step 0"));
    CHECK_THROWS_WITH(x.unfold(2, 2, 1), Contains("axis 2"));
  });
  CHECK(both_gradients([](const Tensor& t) { return t.unfold(1, 3, 1).sin(); }, randn({2, 5}, kFloat64)));
  CHECK(both_gradients([](const Tensor& t) { return t.t().unfold(0, 2, 2).sin(); }, randn({2, 5}, kFloat64)));
}
TEST_CASE("parts and axes") {
  both_modes([] {
    const Tensor x = arange(14).reshape({7, 2});
    const auto parts = x.tensor_split(3);
    CHECK(parts.size() == 3);
    CHECK(parts[0].sizes().vec() == Shape{3, 2});
    CHECK(parts[2].equal(tensor({{10, 11}, {12, 13}})));
    CHECK(parts[1].is_alias_of(x));
    const auto at = x.tensor_split({1, 5, 9}, 0);
    CHECK(at.size() == 4);
    CHECK(at[1].sizes().vec() == Shape{4, 2});
    CHECK(at[3].numel() == 0);
    CHECK(split(x, {3, 4}, 0)[1].equal(x.narrow(0, 3, 4)));
    const Tensor y = zeros({2, 3, 4, 5});
    CHECK(y.movedim({0, 1}, {2, 3}).sizes().vec() == Shape{4, 5, 2, 3});
    CHECK(y.movedim({-1}, {0}).sizes().vec() == Shape{5, 2, 3, 4});
    CHECK(y.movedim(1, -1).sizes().vec() == Shape{2, 4, 5, 3});
    CHECK_THROWS_AS(y.movedim({0, 0}, {1, 2}), ValueError);
    CHECK(zeros({1, 3, 1, 1}).squeeze(IntArrayRef({0, 1, 3})).sizes().vec() == Shape{3, 1});
    CHECK(diag(tensor({1, 2})).equal(tensor({{1, 0}, {0, 2}})));
    CHECK(diag(tensor({1, 2}), 1).equal(tensor({{0, 1, 0}, {0, 0, 2}, {0, 0, 0}})));
    CHECK(diag(tensor({{1, 2}, {3, 4}}), -1).equal(tensor({3})));
    CHECK(diag_embed(tensor({{1, 2}, {3, 4}}), -1, 0, 1).sizes().vec() == Shape{3, 3, 2});
    CHECK(hstack({tensor({1, 2}), tensor({3})}).equal(tensor({1, 2, 3})));
    CHECK(vstack({tensor({1, 2}), tensor({3, 4})}).equal(tensor({{1, 2}, {3, 4}})));
    const auto grid = meshgrid({arange(2), arange(3)});
    CHECK(grid[0].equal(tensor({{0, 0, 0}, {1, 1, 1}})));
    CHECK(grid[1].equal(tensor({{0, 1, 2}, {0, 1, 2}})));
    CHECK(meshgrid({arange(2), arange(3)}, "xy")[0].sizes().vec() == Shape{3, 2});
    CHECK(broadcast_tensors({zeros({2, 1}), zeros({3})})[1].sizes().vec() == Shape{2, 3});
    CHECK(triu_indices(2, 3).equal(tensor({{0, 0, 0, 1, 1}, {0, 1, 2, 1, 2}})));
    CHECK(x.new_zeros({2}).dtype() == kInt64);
  });
}
TEST_CASE("selections by index and mask") {
  both_modes([] {
    const Tensor x = zeros({3, 2}), at = tensor({0, 2});
    CHECK(x.index_fill(0, at, 5).equal(tensor({{5., 5.}, {0., 0.}, {5., 5.}})));
    CHECK(x.index_fill(1, tensor({-1}), 5).equal(tensor({{0., 5.}, {0., 5.}, {0., 5.}})));
    CHECK(x.clone().index_fill_(0, at, 1).sum().item<float>() == 4);
    CHECK(x.index_copy(0, at, ones({2, 2})).equal(x.index_fill(0, at, 1)));
    CHECK_THROWS_WITH(x.index_copy(0, at, ones({3, 2})), Contains("[2, 2]"));
    const Tensor mask = tensor({{true, false}, {false, true}, {true, false}});
    CHECK(x.masked_scatter(mask, tensor({1., 2., 3., 4.})).equal(tensor({{1., 0.}, {0., 2.}, {3., 0.}})));
    CHECK_THROWS_WITH(x.masked_scatter(mask, tensor({1.})), Contains("3 true elements"));
    CHECK(x.clone().masked_fill_(mask, full({}, 2.0)).sum().item<float>() == 6);
    CHECK(where(mask)[0].equal(tensor({0, 1, 2})));
    CHECK(where(mask)[1].equal(tensor({0, 1, 0})));
    CHECK(argwhere(mask).sizes().vec() == Shape{3, 2});
    const Tensor y = tensor({{1., 2., 3.}, {4., 5., 6.}});
    CHECK(y.take(tensor({{0, 5}, {-1, 2}})).equal(tensor({{1., 6.}, {6., 3.}})));
    CHECK(y.take_along_dim(y.argsort(1, true), 1).equal(tensor({{3., 2., 1.}, {6., 5., 4.}})));
    CHECK(y.take_along_dim(tensor({{0}}), 1).equal(tensor({{1.}, {4.}})));
    CHECK(y.repeat_interleave(tensor({0, 2}), 0).equal(tensor({{4., 5., 6.}, {4., 5., 6.}})));
    CHECK(tensor({1, 2}).repeat_interleave(tensor({2, 3})).equal(tensor({1, 1, 2, 2, 2})));
    CHECK_THROWS_WITH(y.repeat_interleave(tensor({1, -1}), 0), Contains("-1"));
    CHECK_THROWS_WITH(y.repeat_interleave(tensor({1, 1, 1}), 0), Contains("3 counts"));
    const auto [u, inverse, counts] = _unique2(tensor({{3, 1, 3}, {2, 1, 3}}), true, true, true);
    CHECK(u.equal(tensor({1, 2, 3})));
    CHECK(inverse.equal(tensor({{2, 0, 2}, {1, 0, 2}})));
    CHECK(counts.equal(tensor({2, 1, 3})));
    CHECK(unique(zeros({0})).numel() == 0);
  });
  CHECK(both_gradients([](const Tensor& t) { return t.index_fill(0, tensor({1}), 2).sin(); }, randn({3, 2}, kFloat64)));
  CHECK(both_gradients([](const Tensor& t) { return t.masked_scatter(eye(3, 2, kBool), t.t().contiguous()).sin(); }, randn({3, 2}, kFloat64)));
  CHECK(both_gradients([](const Tensor& t) { return t.repeat_interleave(tensor({2, 0, 1}), 0).sin(); }, randn({3, 2}, kFloat64)));
  CHECK(both_gradients([](const Tensor& t) { return zeros({4, 4}, kFloat64).scatter_add(1, tensor({{1, 1}}), t).sin(); }, randn({3, 2}, kFloat64)));  // the index is smaller than the source
}
TEST_CASE("scans and order") {
  both_modes([] {
    const Tensor x = tensor({{1., 2., 3.}, {4., 0., 6.}});
    CHECK(x.cumprod(1).equal(tensor({{1., 2., 6.}, {4., 0., 0.}})));
    CHECK(x.cumprod(0).equal(tensor({{1., 2., 3.}, {4., 0., 18.}})));
    CHECK(x.t().cumprod(0).equal(x.cumprod(1).t()));
    CHECK(tensor({2, 3}).cumprod(0).dtype() == kInt64);
    CHECK(tensor({2, 3}, kInt32).cumsum(0, kInt32).dtype() == kInt32);
    CHECK(full({}, 5.0).cumprod(-1).item<float>() == 5);
    CHECK(zeros({0}).cumprod(0).numel() == 0);
    CHECK(zeros({2, 0}).cumprod(1).numel() == 0);
    CHECK(std::get<0>(x.kthvalue(2, 1)).equal(tensor({2., 4.})));
    CHECK(std::get<1>(x.kthvalue(2, 1, true)).equal(tensor({{1}, {0}})));
    CHECK(x.median().item<float>() == 2);
    CHECK(std::get<0>(x.median(1)).equal(tensor({2., 4.})));
    CHECK(std::isnan(tensor({1., NaN, 0.}).median().item<float>()));
    CHECK(std::get<1>(tensor({3, 1, 3, 1}).sort(true, 0, false)).equal(tensor({1, 3, 0, 2})));
    CHECK(std::get<1>(tensor({3, 1, 3, 1}).sort(0, true)).equal(tensor({0, 2, 1, 3})));
    CHECK(tensor({3, 1, 2}).argsort(true).equal(tensor({1, 2, 0})));
  });
  for (const Tensor& x : {randn({2, 5}, kFloat64), tensor({{2., 0., 3., 0., 4.}, {0., 1., 2., 3., 0.}}, kFloat64), tensor({{2.}}, kFloat64)})
    for (int64_t axis : {0, 1}) {
      CHECK(both_gradients([axis](const Tensor& t) { return t.cumprod(axis); }, x));
      CHECK(both_gradients([axis](const Tensor& t) { return t.prod(axis); }, x));
    }
  CHECK(both_gradients([](const Tensor& t) { return t.prod(); }, tensor({{2., 0.}, {0., 3.}}, kFloat64)));
}
TEST_CASE("pow picks its row by the exponent") {
  both_modes([] {
    const Tensor x = tensor({0.5, 1.5, 2., 7.3});
    CHECK(x.pow(2).equal(x * x));
    CHECK(x.pow(2.0).equal(x * x));
    CHECK(x.pow(3).equal(x * x * x));
    CHECK(x.pow(4).equal((x * x) * (x * x)));
    CHECK(x.pow(-1).equal(1 / x));
    CHECK(x.pow(0.5).equal(x.sqrt()));
    CHECK(x.pow(-0.5).equal(x.rsqrt()));
    CHECK(x.pow(1).equal(x));
    CHECK(!x.pow(1).is_alias_of(x));
    CHECK(x.pow(0).equal(ones({4})));
    CHECK(x.pow(2.5).allclose(x * x * x.sqrt()));
    CHECK(x.pow(full({}, 2.0)).allclose(x * x));
    CHECK(pow(2, x).allclose(x.exp2()));
    for (double e : {1., 2., 3., 4., -1., 0.5, -0.5, 1.7}) CHECK(x.clone().pow_(e).equal(x.pow(e)));
    const Tensor i = tensor({-3, 0, 2});
    CHECK(i.pow(2).equal(tensor({9, 0, 4})));
    CHECK(i.pow(2).dtype() == kInt64);
    CHECK(i.pow(2.0).dtype() == kFloat32);
    CHECK(i.pow(3).equal(tensor({-27, 0, 8})));
    CHECK(tensor({2, 3}, kInt8).pow(7).equal(tensor({-128, -117}, kInt8)));  // wraps
    CHECK_THROWS_WITH(i.pow(-1), Contains("-1") && Contains("int64"));
    CHECK_THROWS_AS(i.clone().pow_(0.5), DtypeError);
    CHECK(tensor({true, false}).pow(2).dtype() == kInt64);
    for (Dtype d : {kFloat16, kBFloat16}) CHECK(x.to(d).pow(3).equal(x.to(d).to(kFloat32).pow(3).to(d)));  // rounds once
  });
  for (double e : {0., 1., 2., 3., 4., -1., 0.5, -0.5, 1.7}) CHECK(both_gradients([e](const Tensor& t) { return t.pow(e); }, rand({4}, kFloat64) + 0.5));
}
TEST_CASE("other pointwise composites") {
  both_modes([] {
    const Tensor x = tensor({-3., -0.5, 0., 0.5, 3.});
    CHECK(x.clamp(full({}, -1.0), full({}, 1.0)).equal(x.clamp(-1, 1)));
    CHECK(x.clamp(tensor({-4., 0., 0., 1., 1.})).equal(tensor({-3., 0., 0., 1., 3.})));
    CHECK(x.clamp(std::nullopt, tensor({-4., 0., 0., 1., 1.})).equal(tensor({-4., -0.5, 0., 0.5, 1.})));
    CHECK(x.clone().clamp_(-1, 1).equal(x.clamp(-1, 1)));
    CHECK(tensor({100, -100}, kInt8).clamp(std::nullopt, 300).equal(tensor({100, -100}, kInt8)));
    CHECK(tensor({100, -100}, kInt8).clamp(-300, 50).equal(tensor({50, -100}, kInt8)));
    CHECK(x.softplus(2, 20).allclose((x * 2).softplus() / 2));
    CHECK(tensor({30.}).softplus(1, 20).item<float>() == 30);
    CHECK(x.elu(2, 3, 0.5).allclose(where(x > 0, x * 3, ((x * 0.5).exp() - 1) * 6)));
    CHECK(hardtanh(x).equal(tensor({-1., -0.5, 0., 0.5, 1.})));
    CHECK(threshold(x, 0.2, 9).equal(tensor({9., 9., 9., 0.5, 3.})));
    CHECK(prelu(x, tensor({0.1})).allclose(x.leaky_relu(0.1)));
    CHECK(log_sigmoid(x).allclose(x.sigmoid().log()));
    CHECK(hardsigmoid(x).allclose((x + 3).clamp(0., 6.) / 6));
    CHECK(hypot(tensor({3., 3e30, 0., -infinity}), tensor({4., 4e30, 0., NaN})).equal(tensor({5., 5e30, 0., infinity})));
    CHECK(xlogy(tensor({0., 0., 2.}), tensor({0., 5., 3.})).allclose(tensor({0., 0., 2 * std::log(3.)})));
    CHECK(std::isnan(xlogy(tensor({0.}), tensor({NaN})).item<float>()));
    CHECK(logaddexp2(tensor({3.}), tensor({3.})).item<float>() == Approx(4));
    CHECK(logit(tensor({0.25})).item<float>() == Approx(std::log(1.0 / 3)));
    CHECK(sinc(tensor({0., 0.5})).allclose(tensor({1., 2 / M_PI})));
    CHECK(heaviside(x, tensor({0.3})).equal(tensor({0., 0., double(0.3f), 1., 1.}).to(kFloat32)));
    CHECK(isposinf(tensor({infinity, -infinity, 1.})).equal(tensor({true, false, false})));
    CHECK(isneginf(tensor({infinity, -infinity, 1.})).equal(tensor({false, true, false})));
    CHECK(signbit(tensor({-0.0, 0.0, -1.})).equal(tensor({true, false, true})));
    CHECK(fmax(tensor({1., NaN}), tensor({NaN, 2.})).equal(tensor({1., 2.})));
    CHECK(fmin(tensor({1., 3.}), tensor({NaN, 2.})).equal(tensor({1., 2.})));
    CHECK(round(tensor({1.25, 2.347}), 1).allclose(tensor({1.2, 2.3})));
    CHECK(tensor({NaN, infinity, -infinity}).nan_to_num(1, 2, 3).equal(tensor({1., 2., 3.})));
    CHECK(tensor({NaN, infinity, -infinity}).nan_to_num().equal(tensor({0., double(std::numeric_limits<float>::max()), -double(std::numeric_limits<float>::max())})));
    CHECK(tensor({7, -7}).div(2, "floor").equal(tensor({3, -4})));
    CHECK(tensor({7, -7}).div(2, "trunc").equal(tensor({3, -3})));
    CHECK(tensor({7, -7}).div(2).equal(tensor({3.5, -3.5})));
    CHECK_THROWS_WITH(x.div(2, "up"), Contains("\"up\""));
    Tensor bits = tensor({6, 3});
    bits &= 2, bits |= 8, bits ^= 1, bits <<= 1, bits %= 16;
    CHECK(bits.equal(tensor({6, 6})));
    CHECK(isclose(tensor({1., NaN}), tensor({1. + 1e-7, NaN}), 1e-5, 1e-8, true).equal(tensor({true, true})));
    CHECK(isclose(tensor({1, 2}), tensor({1, 3})).equal(tensor({true, false})));
    CHECK(rsub(x, 1).equal(1 - x));
  });
  CHECK(both_gradients([](const Tensor& t) { return hypot(t, t * 2 + 1); }, randn({4}, kFloat64)));
  CHECK(both_gradients([](const Tensor& t) { return xlogy(t, t + 3); }, rand({4}, kFloat64)));
  CHECK(both_gradients([](const Tensor& t) { return sinc(t) + logit(t) + celu(t, 1.5); }, rand({4}, kFloat64) * 0.5 + 0.2));
}
TEST_CASE("reductions over several axes, and statistics") {
  both_modes([] {
    const Tensor x = arange(24, kFloat32).reshape({2, 3, 4});
    CHECK(any(x, {0, 2}).equal(tensor({true, true, true})));
    CHECK(all(x, {0, 2}, true).equal(tensor({false, true, true}).reshape({1, 3, 1})));
    CHECK(count_nonzero(x, {1, 2}).equal(tensor({11, 12})));
    CHECK(count_nonzero(x, 0).sizes().vec() == Shape{3, 4});
    CHECK(nansum(tensor({{1., NaN}, {2., 3.}}), 1).equal(tensor({1., 5.})));
    CHECK(nanmean(tensor({{1., NaN}, {2., 4.}}), 1).equal(tensor({1., 3.})));
    CHECK(var(x, {0, 2}).allclose(x.permute({1, 0, 2}).reshape({3, 8}).var(IntArrayRef({1}))));
    CHECK(var(x, {0, 2}, Scalar(0)).allclose(x.var({0, 2}, false)));
    CHECK(frit::std(tensor({1., 2., 3., 4.})).item<float>() == Approx(1.2909944));
    const auto [v, m] = var_mean(x, {0, 1});
    CHECK(v.allclose(x.var({0, 1})));
    CHECK(m.equal(x.mean({0, 1})));
    CHECK(norm(x, 2, {1, 2}, true).sizes().vec() == Shape{2, 1, 1});
    CHECK(norm(tensor({3., 4.})).item<float>() == 5);
    CHECK(norm(tensor({3., -4.}), 0).item<float>() == 2);
    CHECK(dist(tensor({3., 4.}), zeros({2})).item<float>() == 5);
    const auto [low, high] = aminmax(x, 0);
    CHECK(low.equal(x[0]));
    CHECK(high.equal(x[1]));
    CHECK(sum(tensor({100, 100}, kInt8)).item<int>() == 200);
    CHECK(sum(tensor({100, 100}, kInt8), kInt8).item<int>() == -56);
    CHECK(sum(tensor({true, true})).dtype() == kInt64);
    CHECK(prod(tensor({2., 3.}), kFloat64).dtype() == kFloat64);
    CHECK_THROWS_AS(mean(arange(3)), DtypeError);
    CHECK(mean(arange(3), kFloat32).item<float>() == 1);
    CHECK(full({70000}, 1.0, kFloat16).mean().item<float>() == 1);  // the sum would overflow
    CHECK(x.amax({0, 1}).equal(tensor({20., 21., 22., 23.})));
  });
}
TEST_CASE("products with a third operand") {
  both_modes([] {
    const Tensor a = tensor({{1., 2.}, {3., 4.}}), i = eye(2), bad = full({2, 2}, NaN);
    CHECK(addmm(bad, a, i, 0, 3).equal(a * 3));
    CHECK(addmm(tensor({10., 20.}), a, i).equal(tensor({{11., 22.}, {13., 24.}})));
    CHECK(baddbmm(bad.unsqueeze(0), a.unsqueeze(0), i.unsqueeze(0), 0).equal(a.unsqueeze(0)));
    CHECK(addmv(tensor({1., 1.}), a, tensor({1., 1.}), 2, 3).equal(tensor({11., 23.})));
    CHECK(addr(zeros({2, 2}), tensor({1., 2.}), tensor({3., 4.})).equal(tensor({{3., 4.}, {6., 8.}})));
    CHECK(addbmm(zeros({2, 2}), a.expand({3, 2, 2}), i.expand({3, 2, 2})).equal(a * 3));
    CHECK(inner(a, a).equal(a.matmul(a.t())));
    CHECK(inner(tensor({1., 2.}), a).equal(tensor({5., 11.})));
    CHECK(inner(full({}, 2.0), a).equal(a * 2));
    CHECK(a.clone().addmm_(a, i).equal(a * 2));
    CHECK_THROWS_WITH(inner(a, ones({2, 3})), Contains("[2, 2]") && Contains("[2, 3]"));
  });
}
TEST_CASE("draws") {
  manual_seed(4);
  const Tensor b = bernoulli(full({1000}, 0.3));
  CHECK(b.eq(0).logical_or(b.eq(1)).all().item<bool>());
  CHECK(b.sum().item<float>() == Approx(300).margin(75));
  CHECK(zeros({1000}).bernoulli_(0.5).sum().item<float>() == Approx(500).margin(80));
  const Tensor m = multinomial(tensor({0., 1., 3., 0.}), 4000, true);
  CHECK(m.ge(1).logical_and(m.le(2)).all().item<bool>());
  CHECK(m.eq(2).sum().item<int64_t>() == Approx(3000).margin(140));
  const Tensor w = multinomial(tensor({{1., 1., 1.}, {0., 5., 1.}}), 2);
  CHECK(w.sizes().vec() == Shape{2, 2});
  CHECK(std::get<0>(w[1].sort(0)).equal(tensor({1, 2})));
  CHECK_THROWS_WITH(multinomial(tensor({0., 1.}), 2), Contains("2 draws"));
  CHECK_THROWS_WITH(multinomial(tensor({-1., 1.}), 1), Contains("negative"));
}
