// DetectAnomalyGuard and checkpoint, in eager, automatic and compiled programs.
#include <catch2/catch.hpp>
#include <frit/frit.h>
#include "tests/support/tensor_check.h"

using namespace frit;
using autograd::variable_list;
using frit::testing::thrown;

namespace {
const jit::Mode modes[] = {jit::Mode::eager, jit::Mode::automatic};
#define HAS(text, ...) CHECK_THAT(text, Catch::Matchers::Contains(__VA_ARGS__))
std::string at(int line) { return "test_anomaly.cpp:" + std::to_string(line); }
}  // namespace

TEST_CASE("anomaly: a gradient with a NaN names the op, its line and the first NaN of the forward computation") {
  for (const jit::Mode mode : modes)
    for (const Dtype d : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      const jit::ModeGuard guard(mode);
      const Tensor x = tensor({1., 0., 4.}, d).requires_grad_();
      const autograd::DetectAnomalyGuard detect;
      const Tensor root = x.sqrt(); const int root_line = __LINE__;
      const Tensor loss = (root * tensor({1., 0., 1.}, d) * root.detach()).sum();  // 0 * infinity in the gradient of sqrt
      std::string text = thrown<AutogradError>([&] { loss.backward(); });
      HAS(text, "sqrt (called at ");
      HAS(text, at(root_line));
      CHECK(text.find("first NaN") == text.npos);
      const Tensor below = x - 2;
      const Tensor bad = below.log(); const int log_line = __LINE__;
      text = thrown<AutogradError>([&] { (bad * 2).pow(2).sum().backward(); });
      HAS(text, "The first NaN of the forward computation was made by log at ");
      HAS(text, at(log_line));
    }
}
TEST_CASE("anomaly: nothing is thrown without the guard, outside of its scope, or when it is told not to look") {
  for (const jit::Mode mode : modes) {
    const jit::ModeGuard guard(mode);
    const auto run = [] {
      const Tensor x = tensor({0.}).requires_grad_();
      (x.sqrt() * 0).sum().backward();
      return x.grad().item<float>();
    };
    CHECK(std::isnan(run()));
    {
      const autograd::DetectAnomalyGuard silent(false);
      CHECK(autograd::AnomalyMode::is_enabled());
      CHECK(std::isnan(run()));
      const autograd::DetectAnomalyGuard loud;
      CHECK_THROWS_AS(run(), AutogradError);
    }
    CHECK_FALSE(autograd::AnomalyMode::is_enabled());
    CHECK(std::isnan(run()));
    autograd::AnomalyMode::set_enabled(true);
    CHECK(autograd::AnomalyMode::should_check_nan());
    CHECK_THROWS_AS(run(), AutogradError);
    autograd::AnomalyMode::set_enabled(false);
  }
}
TEST_CASE("anomaly: a whole training step is as without it, in a compiled function too") {
  const auto train = [](bool detect, bool compiled) {
    manual_seed(4);
    nn::Sequential net(nn::Linear(6, 8), nn::Tanh(), nn::Linear(8, 3));
    optim::Adam adam(net->parameters(), optim::AdamOptions(0.01));
    const Tensor x = randn({5, 6}), y = randint(3, {5});
    auto loss_of = [&] { return nn::functional::cross_entropy(net->forward(x), y); };
    auto fast = compile(loss_of);
    for (int i = 0; i < 4; ++i) {
      std::optional<autograd::DetectAnomalyGuard> guard;
      if (detect) guard.emplace();
      adam.zero_grad();
      (compiled ? fast() : loss_of()).backward();
      adam.step();
    }
    return net->parameters()[0].detach().clone();
  };
  for (const jit::Mode mode : modes) {
    const jit::ModeGuard guard(mode);
    for (const bool compiled : {false, true}) CHECK(equal(train(true, compiled), train(false, compiled)));
  }
}

// ---- checkpoints ------------------------------------------------------------------------------------------------------------
namespace {
struct Layer : nn::Module {
  nn::Linear in{nullptr}, out{nullptr};
  nn::Dropout drop{nullptr};
  Layer() {
    in = register_module("in", nn::Linear(6, 12));
    out = register_module("out", nn::Linear(12, 6));
    drop = register_module("drop", nn::Dropout(0.3));
  }
  Tensor forward(const Tensor& x) { return x + drop(out(gelu(in(x)))); }
};
enum class How { plain, checkpointed, nested };
struct Outcome {
  Tensor loss;
  variable_list gradients;
};
Outcome run(How how, bool compiled) {
  manual_seed(11);
  auto a = std::make_shared<Layer>(), b = std::make_shared<Layer>();
  const Tensor x = randn({4, 6}).requires_grad_();
  const auto both = [&](const Tensor& t) {
    return how == How::nested ? autograd::checkpoint([&](const Tensor& u) { return b->forward(u); }, a->forward(t)) : b->forward(a->forward(t));
  };
  const auto body = [&] {
    const Tensor h = x * 2;
    const Tensor y = how == How::plain ? both(h) : autograd::checkpoint([&](const Tensor& u) { return both(u); }, h);
    return (y * y).mean() + dropout(y, 0.5, true).sum();
  };
  auto fast = compile(body);
  Outcome o{compiled ? fast() : body(), {}};
  o.loss.backward();
  o.gradients.push_back(x.grad());
  for (const auto& m : {a, b})
    for (const Tensor& p : m->parameters()) o.gradients.push_back(p.grad());
  return o;
}
}  // namespace

TEST_CASE("checkpoint: values and gradients are those of the plain function, dropout included, nested and compiled") {
  for (const jit::Mode mode : modes)
    for (const bool compiled : {false, true}) {
      const jit::ModeGuard guard(mode);
      const Outcome plain = run(How::plain, compiled);
      for (const How how : {How::checkpointed, How::nested}) {
        INFO("mode " << int(mode) << " compiled " << compiled << " how " << int(how));
        const Outcome o = run(how, compiled);
        CHECK(equal(o.loss, plain.loss));
        REQUIRE(o.gradients.size() == plain.gradients.size());
        for (size_t i = 0; i < o.gradients.size(); ++i) {
          INFO("gradient " << i);
          REQUIRE(o.gradients[i].defined());
          CHECK(o.gradients[i].allclose(plain.gradients[i], 1e-5, 1e-6));
        }
      }
    }
}
TEST_CASE("checkpoint: autograd::grad, second order, forward derivatives, several inputs and outputs") {
  for (const jit::Mode mode : modes) {
    const jit::ModeGuard guard(mode);
    manual_seed(3);
    const Tensor w = randn({3}, kFloat64);
    const autograd::TensorFunction f = [&](const variable_list& in) {
      return autograd::checkpoint([](const variable_list& v) -> variable_list { return {v[0].sin() * v[1], (v[1] * v[2]).tanh(), v[0].argmax()}; }, in);
    };
    const autograd::TensorFunction first_two = [&](const variable_list& in) { auto o = f(in); return variable_list{o[0], o[1]}; };
    const variable_list in{randn({3}, kFloat64), randn({3}, kFloat64), w};
    CHECK(autograd::gradcheck(first_two, in));
    CHECK(autograd::gradgradcheck(first_two, in));
    const variable_list out = f(in);
    CHECK(out[2].dtype() == kInt64);
    const Tensor x = in[0].clone().requires_grad_();
    const Tensor y = autograd::checkpoint([&](const Tensor& t) { return (t * w).exp(); }, x);
    const Tensor g = autograd::grad({y.sum()}, {x}, {}, true)[0];
    CHECK(g.allclose((x * w).exp() * w));
    y.sum().backward();   // the graph was retained
    CHECK(x.grad().allclose(g));
    CHECK_THROWS_AS(y.sum().backward(), AutogradError);
  }
}
TEST_CASE("checkpoint: captured tensors that were computed before get their gradients; hooks run once; nothing is kept in between") {
  for (const jit::Mode mode : modes) {
    const jit::ModeGuard guard(mode);
    const Tensor a = tensor({1., 2.}).requires_grad_(), x = tensor({3., 4.}).requires_grad_();
    Tensor h = a.exp();
    int calls = 0;
    h.register_hook([&](const Tensor& g) { ++calls; return g * 2; });
    x.register_hook([&](const Tensor&) { ++calls; });
    const Tensor y = autograd::checkpoint([&](const Tensor& t) { return t * h + t; }, x);
    (y.sum() + h.sum()).backward();
    CHECK(calls == 2);
    CHECK(a.grad().allclose(2 * a.exp() * (x + 1)));
    CHECK(x.grad().allclose(a.exp() + 1));
  }
  const jit::ModeGuard eager(jit::Mode::eager);
  const Tensor x = randn({1 << 16}).requires_grad_();
  const auto chain = [](const Tensor& t) {
    Tensor u = t;
    for (int i = 0; i < 20; ++i) u = u.sin();
    return u;
  };
  const auto held = [&](bool checkpointed) {
    const int64_t before = memory::stats().current;
    const Tensor y = checkpointed ? autograd::checkpoint(chain, x) : chain(x);
    return memory::stats().current - before;
  };
  CHECK(held(true) < 3 << 18);
  CHECK(held(false) > 18 << 18);
}
TEST_CASE("checkpoint: errors") {
  for (const jit::Mode mode : modes) {
    const jit::ModeGuard guard(mode);
    const Tensor x = randn({3}).requires_grad_();
    HAS(thrown<AutogradError>([&] { autograd::checkpoint([](const Tensor& t) { Tensor u = t; u.mul_(2); return u * 2; }, x * 1); }), "wrote its input 0 in place");
    int times = 0;
    const variable_list y = autograd::checkpoint([&](const variable_list& v) { return ++times == 1 ? variable_list{v[0] * 2} : variable_list{v[0], v[0]}; }, {x});
    HAS(thrown<AutogradError>([&] { y[0].sum().backward(); }), "returned 2 tensors when it was run again, 1 before");
    NoGradGuard none;
    CHECK_FALSE(autograd::checkpoint([](const Tensor& t) { return t * 2; }, x).requires_grad());
  }
}
