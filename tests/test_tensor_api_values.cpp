// The public tensor's reductions, scans, sorts, products and composites, each with a value known by hand.
#include "runtime/error.h"
#include "tests/support/tensor_check.h"

using namespace frit;
using namespace frit::testing;

namespace {
template <class T> const T& first(const std::tuple<T, T>& t) { return std::get<0>(t); }
template <class T> const T& second(const std::tuple<T, T>& t) { return std::get<1>(t); }
}  // namespace

TEST_CASE("api: reductions") {
  for (const jit::Mode mode : {jit::Mode::eager, jit::Mode::automatic}) {
    jit::ModeGuard guard(mode);
    const Tensor t = tensor({{1., 5., 3.}, {4., 2., 6.}}), i = tensor({{1, 0}, {3, 4}}), odd = tensor({1., NAN, 3.});
    IS(t.sum(), kFloat32, {}, {21});
    IS(frit::sum(t), kFloat32, {}, {21});
    IS(t.sum(0), kFloat32, {3}, {5, 7, 9});
    IS(t.sum(IntArrayRef({0, 1}), true), kFloat32, {1, 1}, {21});
    IS(frit::sum(t, IntArrayRef({-1}), true), kFloat32, {2, 1}, {9, 12});
    IS(i.sum(kFloat64), kFloat64, {}, {8});
    IS(t.mean(), kFloat32, {}, {3.5});
    IS(frit::mean(t, 1), kFloat32, {2}, {3, 4});
    IS(frit::mean(t), kFloat32, {}, {3.5});
    IS(t.mean(0, true), kFloat32, {1, 3}, {2.5, 3.5, 4.5});
    IS(odd.nansum(), kFloat32, {}, {4});
    IS(frit::nansum(odd, IntArrayRef({0})), kFloat32, {}, {4});
    IS(odd.nanmean(), kFloat32, {}, {2});
    IS(frit::nanmean(odd), kFloat32, {}, {2});
    IS(i.prod(), kInt64, {}, {0});
    IS(t.prod(0), kFloat32, {3}, {4, 10, 18});
    IS(frit::prod(t, 1, true), kFloat32, {2, 1}, {15, 48});
    IS(frit::prod(t), kFloat32, {}, {720});
    IS(t.amax(), kFloat32, {}, {6});
    IS(t.amax(1, true), kFloat32, {2, 1}, {5, 6});
    IS(frit::amax(t, 0), kFloat32, {3}, {4, 5, 6});
    IS(t.amin(0), kFloat32, {3}, {1, 2, 3});
    IS(frit::amin(t), kFloat32, {}, {1});
    IS(t.max(), kFloat32, {}, {6});
    IS(frit::max(t), kFloat32, {}, {6});
    IS(frit::min(t), kFloat32, {}, {1});
    IS(t.min(), kFloat32, {}, {1});
    IS(t.max(full({}, 3.5)), kFloat32, {2, 3}, {3.5, 5, 3.5, 4, 3.5, 6});
    IS(frit::min(t, full({}, 3.5)), kFloat32, {2, 3}, {1, 3.5, 3, 3.5, 2, 3.5});
    IS(frit::max(t, full({}, 3.5)), kFloat32, {2, 3}, {3.5, 5, 3.5, 4, 3.5, 6});
    IS(t.min(full({}, 1.5)), kFloat32, {2, 3}, {1, 1.5, 1.5, 1.5, 1.5, 1.5});
    IS(first(t.max(1)), kFloat32, {2}, {5, 6});
    IS(second(t.max(1)), kInt64, {2}, {1, 2});
    IS(second(frit::max(t, 0, true)), kInt64, {1, 3}, {1, 0, 1});
    IS(first(t.min(1)), kFloat32, {2}, {1, 2});
    IS(second(frit::min(t, 1)), kInt64, {2}, {0, 1});
    IS(first(t.aminmax()), kFloat32, {}, {1});
    IS(second(frit::aminmax(t, 1)), kFloat32, {2}, {5, 6});
    IS(t.argmax(), kInt64, {}, {5});
    IS(t.argmax(0), kInt64, {3}, {1, 0, 1});
    IS(frit::argmax(t, 1, true), kInt64, {2, 1}, {1, 2});
    IS(t.argmin(), kInt64, {}, {0});
    IS(frit::argmin(t, 0), kInt64, {3}, {0, 1, 0});
    IS(odd.argmax(), kInt64, {}, {1});
    IS(i.any(), kBool, {}, {1});
    IS(i.all(), kBool, {}, {0});
    IS(i.any(0), kBool, {2}, {1, 1});
    IS(i.all(0), kBool, {2}, {1, 0});
    IS(i.all(OptionalIntArrayRef(IntArrayRef({0, 1}))), kBool, {}, {0});
    IS(i.any(OptionalIntArrayRef(IntArrayRef({1})), true), kBool, {2, 1}, {1, 1});
    IS(frit::any(i, 1), kBool, {2}, {1, 1});
    IS(frit::all(i, 1), kBool, {2}, {0, 1});
    IS(frit::any(i), kBool, {}, {1});
    IS(frit::all(i), kBool, {}, {0});
    IS(t.var(), kFloat32, {}, {3.5});
    IS(t.var(false), kFloat32, {}, {17.5 / 6});
    IS(frit::var(t, IntArrayRef({1})), kFloat32, {2}, {4, 4});
    IS(frit::var(t), kFloat32, {}, {3.5});
    IS(t.var(IntArrayRef({1}), std::optional<Scalar>(0)), kFloat32, {2}, {8. / 3, 8. / 3});
    IS(t.std(), kFloat32, {}, {1.8708287});
    IS(t.std(IntArrayRef({1}), true, true), kFloat32, {2, 1}, {2, 2});
    IS(frit::std(t), kFloat32, {}, {1.8708287});
    IS(second(var_mean(t)), kFloat32, {}, {3.5});
    IS(first(std_mean(t, IntArrayRef({1}))), kFloat32, {2}, {2, 2});
    IS(tensor({3., -4.}).norm(), kFloat32, {}, {5});
    IS(tensor({3., -4.}).norm(1), kFloat32, {}, {7});
    IS(tensor({3., -4.}).norm(Scalar(INFINITY)), kFloat32, {}, {4});
    IS(frit::norm(tensor({3., -4.})), kFloat32, {}, {5});
    IS(t.norm(std::optional<Scalar>(2), IntArrayRef({1})), kFloat32, {2}, {5.9160798, 7.4833148});
    IS(tensor({1., 2.}).dist(tensor({4., 6.})), kFloat32, {}, {5});
    IS(frit::dist(tensor({1., 2.}), tensor({4., 6.}), 1), kFloat32, {}, {7});
    IS(tensor({0., 0.}).logsumexp(0), kFloat32, {}, {0.6931472});
    IS(frit::logsumexp(tensor({{1000., 1000.}}), 1, true), kFloat32, {1, 1}, {1000.6931472});
    IS(tensor({0., 1.0986123}).softmax(0), kFloat32, {2}, {0.25, 0.75});
    IS(frit::softmax(tensor({1., 1.}), -1), kFloat32, {2}, {0.5, 0.5});
    IS(tensor({1, 1}).softmax(0, kFloat64), kFloat64, {2}, {0.5, 0.5});
    IS(tensor({0., 1.0986123}).log_softmax(0), kFloat32, {2}, {-1.3862944, -0.2876821});
    IS(frit::log_softmax(tensor({1., 1.}), 0), kFloat32, {2}, {-0.6931472, -0.6931472});
    IS(i.trace(), kInt64, {}, {5});
    IS(frit::trace(i), kInt64, {}, {5});
    IS(i.count_nonzero(), kInt64, {}, {3});
    IS(i.count_nonzero(1), kInt64, {2}, {1, 2});
    IS(frit::count_nonzero(i), kInt64, {}, {3});
    CHECK(t.equal(t.clone()));
    CHECK(!t.equal(t.t()));
    CHECK(frit::equal(i, i));
    CHECK(t.allclose(t + 1e-6));
    CHECK(!frit::allclose(t, t + 1e-3));
    CHECK(odd.allclose(odd, 0, 0, true));
    CHECK(!odd.allclose(odd));
    IS(tensor({1., 2.}).isclose(tensor({1., 2.1})), kBool, {2}, {1, 0});
    IS(frit::isclose(tensor({1., 2.}), tensor({1., 2.1}), 0.1), kBool, {2}, {1, 1});
    IS(zeros({0, 2}).sum(0), kFloat32, {2}, {0, 0});
    IS(zeros({2, 0, 3}).sum(IntArrayRef({0, 1})), kFloat32, {3}, {0, 0, 0});
    IS(zeros({2, 0, 3}).prod(1), kFloat32, {2, 3}, {1, 1, 1, 1, 1, 1});
    IS(zeros({0}, kInt32).all(), kBool, {}, {1});
  }
}

TEST_CASE("api: scans and sorts") {
  const Tensor t = tensor({3., 1., 2.}), ties = tensor({{2, 1, 2}, {0, 0, 5}});
  IS(t.cumsum(0), kFloat32, {3}, {3, 4, 6});
  IS(frit::cumsum(ties, 1), kInt64, {2, 3}, {2, 3, 5, 0, 0, 5});
  IS(ties.cumsum(-1, kFloat64), kFloat64, {2, 3}, {2, 3, 5, 0, 0, 5});
  IS(t.cumprod(0), kFloat32, {3}, {3, 3, 6});
  IS(frit::cumprod(ties, 0), kInt64, {2, 3}, {2, 1, 2, 0, 0, 10});
  Tensor w = t.clone();
  IS(w.cumsum_(0), kFloat32, {3}, {3, 4, 6});
  IS(w.cumprod_(0), kFloat32, {3}, {3, 12, 72});
  IS(first(t.sort()), kFloat32, {3}, {1, 2, 3});
  IS(second(t.sort(0, true)), kInt64, {3}, {0, 2, 1});
  IS(second(frit::sort(ties, 1)), kInt64, {2, 3}, {1, 0, 2, 0, 1, 2});
  IS(first(frit::sort(t, std::optional<bool>(true))), kFloat32, {3}, {1, 2, 3});
  IS(first(tensor({NAN, 1., -INFINITY}).sort()), kFloat32, {3}, {-INFINITY, 1, NAN});
  IS(t.argsort(), kInt64, {3}, {1, 2, 0});
  IS(frit::argsort(t, 0, true), kInt64, {3}, {0, 2, 1});
  IS(first(t.topk(2)), kFloat32, {2}, {3, 2});
  IS(second(frit::topk(t, 1, 0, false)), kInt64, {1}, {1});
  IS(first(t.kthvalue(2)), kFloat32, {}, {2});
  IS(second(frit::kthvalue(t, 1)), kInt64, {}, {1});
  IS(t.median(), kFloat32, {}, {2});
  IS(frit::median(t), kFloat32, {}, {2});
  IS(first(t.median(0)), kFloat32, {}, {2});
  IS(second(frit::median(t, 0, true)), kInt64, {1}, {2});
  IS(unique(ties), kInt64, {4}, {0, 1, 2, 5});
  IS(std::get<2>(_unique2(ties, true, true, true)), kInt64, {4}, {2, 1, 2, 1});
  IS(std::get<1>(_unique2(ties, true, true)), kInt64, {2, 3}, {2, 1, 2, 0, 0, 3});
}

TEST_CASE("api: products") {
  for (const jit::Mode mode : {jit::Mode::eager, jit::Mode::automatic}) {
    jit::ModeGuard guard(mode);
    const Tensor a = tensor({{1., 2.}, {3., 4.}}), b = tensor({{5., 6.}, {7., 8.}}), v = tensor({1., -1.}), batch = frit::stack({a, b});
    IS(a.matmul(b), kFloat32, {2, 2}, {19, 22, 43, 50});
    IS(frit::matmul(a, v), kFloat32, {2}, {-1, -1});
    IS(v.matmul(a), kFloat32, {2}, {-2, -2});
    IS(v.matmul(v), kFloat32, {}, {2});
    IS(batch.matmul(a), kFloat32, {2, 2, 2}, {7, 10, 15, 22, 23, 34, 31, 46});
    IS(a.mm(b), kFloat32, {2, 2}, {19, 22, 43, 50});
    IS(frit::mm(a, b.t()), kFloat32, {2, 2}, {17, 23, 39, 53});
    IS(batch.bmm(batch), kFloat32, {2, 2, 2}, {7, 10, 15, 22, 67, 78, 91, 106});
    IS(frit::bmm(batch, batch).select(0, 0), kFloat32, {2, 2}, {7, 10, 15, 22});
    IS(a.mv(v), kFloat32, {2}, {-1, -1});
    IS(frit::mv(a, v), kFloat32, {2}, {-1, -1});
    IS(v.dot(tensor({3., 5.})), kFloat32, {}, {-2});
    IS(frit::dot(v, v), kFloat32, {}, {2});
    IS(v.vdot(v), kFloat32, {}, {2});
    IS(frit::vdot(v, v), kFloat32, {}, {2});
    IS(v.outer(tensor({3., 5.})), kFloat32, {2, 2}, {3, 5, -3, -5});
    IS(frit::outer(v, v), kFloat32, {2, 2}, {1, -1, -1, 1});
    IS(ger(v, v), kFloat32, {2, 2}, {1, -1, -1, 1});
    IS(a.inner(b), kFloat32, {2, 2}, {17, 23, 39, 53});
    IS(frit::inner(v, v), kFloat32, {}, {2});
    IS(ones({2, 2}).addmm(a, b, 10, 2), kFloat32, {2, 2}, {48, 54, 96, 110});
    IS(frit::addmm(v, a, b), kFloat32, {2, 2}, {20, 21, 44, 49});
    Tensor w = ones({2, 2});
    IS(w.addmm_(a, b), kFloat32, {2, 2}, {20, 23, 44, 51});
    IS(full({2, 2}, NAN).addmm(a, b, 0), kFloat32, {2, 2}, {19, 22, 43, 50});
    IS(frit::baddbmm(ones({2, 2, 2}), batch, batch).select(0, 0), kFloat32, {2, 2}, {8, 11, 16, 23});
    IS(zeros({2, 2, 2}).baddbmm(batch, batch).select(0, 1), kFloat32, {2, 2}, {67, 78, 91, 106});
    w = zeros({2, 2, 2});
    IS(w.baddbmm_(batch, batch).select(0, 1), kFloat32, {2, 2}, {67, 78, 91, 106});
    IS(v.addmv(a, v), kFloat32, {2}, {0, -2});
    IS(frit::addmv(v, a, v, 2), kFloat32, {2}, {1, -3});
    IS(a.addr(v, v), kFloat32, {2, 2}, {2, 1, 2, 5});
    IS(frit::addr(a, v, v, 0), kFloat32, {2, 2}, {1, -1, -1, 1});
    IS(a.addbmm(batch, batch), kFloat32, {2, 2}, {75, 90, 109, 132});
    IS(frit::addbmm(a, batch, batch, 0), kFloat32, {2, 2}, {74, 88, 106, 128});
    IS(zeros({2, 0}).matmul(zeros({0, 3})), kFloat32, {2, 3}, {0, 0, 0, 0, 0, 0});
    IS(tensor({{1, 2}}).matmul(tensor({{3}, {4}})), kInt64, {1, 1}, {11});
  }
}

TEST_CASE("api: composites") {
  const Tensor x = tensor({-2., 0., 0.5, 3.}), y = tensor({2., 4., 0., 1.});
  IS(rsub(x, y), kFloat32, {4}, {4, 4, -0.5, -2});
  IS(rsub(x, Scalar(1)), kFloat32, {4}, {3, 1, 0.5, -2});
  IS(frit::multiply(x, y), kFloat32, {4}, {-4, 0, 0, 3});
  IS(frit::subtract(x, y), kFloat32, {4}, {-4, -4, 0.5, 2});
  IS(frit::divide(x, tensor(2.)), kFloat32, {4}, {-1, 0, 0.25, 1.5});
  IS(frit::true_divide(x, tensor(2.)), kFloat32, {4}, {-1, 0, 0.25, 1.5});
  IS(frit::negative(x), kFloat32, {4}, {2, 0, -0.5, -3});
  IS(frit::absolute(x), kFloat32, {4}, {2, 0, 0.5, 3});
  IS(fix(tensor({-1.5})), kFloat32, {1}, {-1});
  IS(sgn(x), kFloat32, {4}, {-1, 0, 1, 1});
  IS(arcsin(tensor({1.})), kFloat32, {1}, {1.5707963});
  IS(arccos(tensor({1.})), kFloat32, {1}, {0});
  IS(arctan(tensor({1.})), kFloat32, {1}, {0.7853982});
  IS(arctan2(tensor({1.}), tensor({1.})), kFloat32, {1}, {0.7853982});
  IS(arcsinh(tensor({1.})), kFloat32, {1}, {0.8813736});
  IS(arccosh(tensor({2.})), kFloat32, {1}, {1.3169579});
  IS(arctanh(tensor({0.5})), kFloat32, {1}, {0.5493061});
  IS(deg2rad(tensor({180.})), kFloat32, {1}, {3.1415927});
  IS(rad2deg(tensor({1.})), kFloat32, {1}, {57.2957795});
  IS(frit::round(tensor({1.256}), 2), kFloat32, {1}, {1.26});
  IS(tensor({1256.}).round(-2), kFloat32, {1}, {1300});
  IS(frit::softplus(tensor({1.}), 2), kFloat32, {1}, {1.0634640});
  IS(tensor({30.}).softplus(Scalar(1), Scalar(20)), kFloat32, {1}, {30});
  IS(frit::elu(tensor({-1.}), 1, 2), kFloat32, {1}, {-1.2642411});
  IS(tensor({-1.}).elu(Scalar(1), Scalar(2), Scalar(1)), kFloat32, {1}, {-1.2642411});
  IS(frit::hardtanh(x), kFloat32, {4}, {-1, 0, 0.5, 1});
  IS(celu(tensor({-1., 1.}), 2), kFloat32, {2}, {-0.7869387, 1});
  IS(hardsigmoid(tensor({-4., 0., 4.})), kFloat32, {3}, {0, 0.5, 1});
  IS(log_sigmoid(tensor({0.})), kFloat32, {1}, {-0.6931472});
  IS(prelu(tensor({-2., 2.}), tensor({0.25})), kFloat32, {2}, {-0.5, 2});
  IS(threshold(x, 0.25, 9), kFloat32, {4}, {9, 9, 0.5, 3});
  IS(hypot(tensor({3e30}), tensor({4e30})), kFloat32, {1}, {5e30});
  IS(xlogy(tensor({0., 2.}), tensor({0., 1.})), kFloat32, {2}, {0, 0});
  IS(logaddexp2(tensor({1.}), tensor({1.})), kFloat32, {1}, {2});
  IS(logit(tensor({0.75})), kFloat32, {1}, {1.0986123});
  IS(sinc(tensor({0., 0.5})), kFloat32, {2}, {1, 0.6366198});
  IS(heaviside(x, tensor(7.)), kFloat32, {4}, {0, 7, 1, 1});
  IS(isposinf(tensor({INFINITY, -INFINITY})), kBool, {2}, {1, 0});
  IS(isneginf(tensor({INFINITY, -INFINITY})), kBool, {2}, {0, 1});
  IS(signbit(tensor({-0.0, 1.})), kBool, {2}, {1, 0});
  IS(fmax(tensor({NAN, 1.}), tensor({2., 0.})), kFloat32, {2}, {2, 1});
  IS(fmin(tensor({NAN, 1.}), tensor({2., 0.})), kFloat32, {2}, {2, 0});
  IS(frit::greater(x, y), kBool, {4}, {0, 0, 1, 1});
  IS(frit::greater_equal(x, y), kBool, {4}, {0, 0, 1, 1});
  IS(frit::less(x, y), kBool, {4}, {1, 1, 0, 0});
  IS(frit::less_equal(x, y), kBool, {4}, {1, 1, 0, 0});
  IS(frit::not_equal(x, y), kBool, {4}, {1, 1, 1, 1});
  IS(x.greater_equal(y), kBool, {4}, {0, 0, 1, 1});
  IS(x.less_equal(y), kBool, {4}, {1, 1, 0, 0});
  IS(x.not_equal(y), kBool, {4}, {1, 1, 1, 1});
  manual_seed(9);
  const Tensor dropped = dropout(ones({1000}), 0.25, true);
  CHECK(dropped.eq(0).logical_or(dropped.sub(4. / 3).abs().lt(1e-6)).all().item<bool>());
  CHECK(std::abs(dropped.mean().item<double>() - 1) < 0.1);
  IS(dropout(ones({2}), 0.5, false), kFloat32, {2}, {1, 1});
  Tensor w = tensor({7., -7.});
  IS(w.div_(Scalar(2), std::optional<std::string>("floor")), kFloat32, {2}, {3, -4});
  IS(w.div_(tensor({2., 3.}), std::optional<std::string>("trunc")), kFloat32, {2}, {1, -1});
  IS(tensor({7., -7.}).clamp_(std::optional<Tensor>(tensor(0.))), kFloat32, {2}, {7, 0});
  IS(tensor({7., -7.}).clamp_max(tensor(1.)), kFloat32, {2}, {1, -7});
}
