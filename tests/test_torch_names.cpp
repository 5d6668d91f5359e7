// What LibTorch's programs take for granted beyond the ops: numbers and devices as objects, assignment to what an expression returns, memory of
// the user's, archives through members, overloads that tell a flag from an axis. In both modes.
#include <catch2/catch.hpp>
#include <frit/torch.h>
#include <sstream>
#include "tests/support/tensor_check.h"

using namespace frit;
using frit::testing::thrown;

namespace {
const jit::Mode modes[] = {jit::Mode::eager, jit::Mode::automatic};
#define HAS(text, ...) CHECK_THAT(text, Catch::Matchers::Contains(__VA_ARGS__))
}  // namespace

TEST_CASE("torch names: numbers convert, and say what does not fit") {
  CHECK(Scalar().toInt() == 0);
  CHECK(Scalar(2.75).to<int>() == 2);
  CHECK(Scalar(-2.75).toLong() == -2);
  CHECK(Scalar(7).toDouble() == 7);
  CHECK(Scalar(0.5).toBool());
  CHECK_FALSE(Scalar(0).to<bool>());
  CHECK(Scalar(int64_t(1) << 40).toLong() == int64_t(1) << 40);
  CHECK(Scalar(255).toByte() == 255);
  CHECK((-Scalar(3)).toInt() == -3);
  CHECK(Scalar(true).isBoolean());
  CHECK(Scalar(true).isIntegral(true));
  CHECK_FALSE(Scalar(true).isIntegral(false));
  CHECK(Scalar(1.5f).isFloatingPoint());
  CHECK(Scalar(3).type() == kInt64);
  CHECK(Scalar(3).equal(3.0));
  CHECK(Scalar(1e30).toFloat() == 1e30f);
  HAS(thrown<ValueError>([] { Scalar(256).toByte(); }), "256");
  HAS(thrown<ValueError>([] { Scalar(-1).toByte(); }), "-1");
  HAS(thrown<ValueError>([] { Scalar(int64_t(1) << 40).toInt(); }), "32 bits");
  CHECK_THROWS_AS(Scalar(1e30).toLong(), ValueError);
  CHECK_THROWS_AS(Scalar(std::nan("")).toInt(), ValueError);
  CHECK_THROWS_AS(Scalar(128).toChar(), ValueError);
  CHECK(tensor({2.5}).item().to<double>() == 2.5);
}
TEST_CASE("torch names: devices by name") {
  CHECK(Device("cpu") == Device(kCPU));
  CHECK(Device("cuda:1") == Device(kCUDA, 1));
  CHECK(Device("cuda").type() == kCUDA);
  CHECK_FALSE(Device("cuda").has_index());
  CHECK(Device("cuda:3").index() == 3);
  std::ostringstream out;
  out << Device("cuda:2") << Device("cpu");
  CHECK(out.str() == "cuda:2cpu");
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:999", "CPU"}) HAS(thrown<ValueError>([&] { Device d(wrong); }), std::string("\"") + wrong + "\"");
}
TEST_CASE("torch names: what an expression returns is written, a name takes another tensor") {
  for (const jit::Mode mode : modes) {
    const jit::ModeGuard guard(mode);
    Tensor t = zeros({3, 2});
    t[0] = tensor({1., 2.});
    t[1] = 5;
    t.select(1, 1)[2] = 7.5;
    IS(t, kFloat32, {3, 2}, {1, 2, 5, 5, 0, 7.5});
    Tensor other = t;
    other = ones({2});          // t is as it was
    CHECK(t.sizes() == IntArrayRef({3, 2}));
    t.index({indexing::Slice(), 0}) = tensor({-1., -2., -3.});
    IS(t, kFloat32, {3, 2}, {-1, 2, -2, 5, -3, 7.5});
    const Tensor w = zeros({2, 2}).requires_grad_();
    Tensor grown = w * 1;
    grown[1] = w[0] * 3;
    grown.sum().backward();
    IS(w.grad(), kFloat32, {2, 2}, {4, 4, 0, 0});
  }
}
TEST_CASE("torch names: memory of the user's is read at the call") {
  for (const jit::Mode mode : modes) {
    const jit::ModeGuard guard(mode);
    Tensor copy, sum, view_sum, joined;
    {
      std::vector<float> mine{1, 2, 3, 4};
      const Tensor t = from_blob(mine.data(), {2, 2});
      copy = t.clone(), sum = t.sum(), joined = cat({t, t});
      view_sum = t.t()[0].exp();
      std::fill(mine.begin(), mine.end(), 100.f);
      const Tensor late = t * 1;
      std::fill(mine.begin(), mine.end(), -1.f);
      IS(late, kFloat32, {2, 2}, {100, 100, 100, 100});
      Tensor target = t;
      target.add_(3);
      CHECK(mine[2] == 2.f);    // written at the call
      target[1].fill_(9);
      CHECK(mine == std::vector<float>{2, 2, 9, 9});
      std::fill(mine.begin(), mine.end(), NAN);
    }
    IS(copy, kFloat32, {2, 2}, {1, 2, 3, 4});
    IS(sum, kFloat32, {}, {10});
    IS(joined, kFloat32, {4, 2}, {1, 2, 3, 4, 1, 2, 3, 4});
    IS(view_sum, kFloat32, {2}, {std::exp(1.), std::exp(3.)});
    std::vector<double> values{2, 3};
    const Tensor x = from_blob(values.data(), {2}, kFloat64).requires_grad_();
    const Tensor g = autograd::grad({(x * x * x).sum()}, {x}, {}, true, true)[0];
    IS(autograd::grad({g.sum()}, {x})[0], kFloat64, {2}, {12, 18});
  }
}
TEST_CASE("torch names: set_data, accessors, counts") {
  for (const jit::Mode mode : modes) {
    const jit::ModeGuard guard(mode);
    const Tensor p = zeros({2}).requires_grad_(), same = p;
    p.set_data(ones({3}, kFloat64));
    CHECK(same.dtype() == kFloat64);
    IS((same * 2).detach(), kFloat64, {3}, {2, 2, 2});
    CHECK_THROWS_AS((p * 2).set_data(ones({3})), AutogradError);
    Tensor t = arange(6, kFloat32).view({2, 3}).t() * 1;
    auto a = t.accessor<float, 2>();
    CHECK(a.size(0) == 3);
    CHECK(a[2][1] == 5);
    a[0][1] = -4;
    CHECK(t.sum().item<float>() == 15 - 3 - 4);
    HAS(thrown<ShapeError>([&] { t.accessor<float, 1>(); }), "[3, 2]");
    CHECK_THROWS_AS((t.accessor<double, 2>()), DtypeError);
    IS(bincount(tensor({1, 3, 1}, kInt64)), kInt64, {4}, {0, 2, 0, 1});
    IS(bincount(tensor({0, 2}, kInt64), tensor({0.5, 0.25}), 4), kFloat32, {4}, {0.5, 0, 0.25, 0});
    IS(bincount(zeros({0}, kInt64), {}, 2), kInt64, {2}, {0, 0});
  }
}
TEST_CASE("torch names: a flag is no axis, an axis no flag; numbers of the wrong kind") {
  const Tensor x = tensor({{1., 2., 4.}, {3., 5., 9.}});
  IS(x.var(1), kFloat32, {2}, {7. / 3, 28. / 3});
  IS(x.var(1, false), kFloat32, {2}, {14. / 9, 56. / 9});
  IS(x.var(false), kFloat32, {}, {20. / 3});
  IS(x.std(0), kFloat32, {3}, {std::sqrt(2.), std::sqrt(4.5), std::sqrt(12.5)});
  IS(torch::var(x, 1, true, true), kFloat32, {2, 1}, {7. / 3, 28. / 3});
  IS(torch::std(x, {0}, 0), kFloat32, {3}, {1, 1.5, 2.5});
  IS(std::get<1>(torch::var_mean(x, 1)), kFloat32, {2}, {7. / 3, 17. / 3});
  const Tensor b = tensor({true, false, true}), c = tensor({false, false, true});
  IS(torch::add(b, c, 2), kBool, {3}, {1, 0, 1});
  IS(torch::add(c, b, 0), kBool, {3}, {0, 0, 1});
  IS(torch::square(b), kInt64, {3}, {1, 0, 1});
  IS(torch::heaviside(b, c), kBool, {3}, {1, 0, 1});
  CHECK_THROWS_AS(torch::add(x, x, true), DtypeError);
  IS(torch::logsumexp(zeros({2, 0}), {1}), kFloat32, {2}, {-INFINITY, -INFINITY});
  IS(torch::logsumexp(tensor({0, 0}, kInt64), {0}), kFloat32, {}, {std::log(2.)});
  for (const Scalar base : {Scalar(2), Scalar(2.5)}) {  // the logarithm of a number loses nothing
    const Tensor d = tensor({1.5, -0.5}, kFloat64).requires_grad_();
    torch::pow(base, d).sum().backward();
    for (int i = 0; i < 2; ++i) {
      const double want = std::log(base.toDouble()) * std::pow(base.toDouble(), d[i].item<double>());
      CHECK(std::abs(d.grad()[i].item<double>() - want) <= 1e-15 * std::abs(want) * 4);
    }
  }
  IS(torch::addcmul(tensor({1.}), tensor({1e30}), tensor({1e-30}), 1e20), kFloat32, {1}, {INFINITY});  // (value * a) * b
}
TEST_CASE("torch names: modules and optimisers through archives of their own") {
  manual_seed(1);
  nn::Sequential net(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::PReLU()), other(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::PReLU());
  optim::Adam adam(net->parameters(), optim::AdamOptions(0.1)), fresh(other->parameters(), optim::AdamOptions(0.5));
  net->forward(randn({5, 3})).square().sum().backward();
  adam.step();
  serialize::OutputArchive out;
  net->save(out);
  adam.save(out);
  std::stringstream stream;
  out.save_to(stream);
  serialize::InputArchive in;
  in.load_from(stream);
  other->load(in);
  fresh.load(in);
  for (size_t i = 0; i < net->parameters().size(); ++i) CHECK(equal(net->parameters()[i], other->parameters()[i]));
  CHECK(fresh.param_groups()[0].options().get_lr() == 0.1);
  CHECK(equal(fresh.state(other->parameters()[0])->exp_avg, adam.state(net->parameters()[0])->exp_avg));
}
