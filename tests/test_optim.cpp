// Optimisers against loops in double precision over several steps; groups, schedules, errors.
#include <cmath>
#include <catch2/catch.hpp>
#include "frit/frit.h"
#include "frit/print.h"

using namespace frit;
using Catch::Matchers::Contains;

namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) {
  const Tensor d = t.detach().to(kFloat64).contiguous();
  const double* p = d.const_data_ptr<double>();
  return {p, p + d.numel()};
}

// Runs `steps` updates of a parameter with gradients that depend on it and on the step, and the same with `reference(p, g, step)`.
template <class Reference> void compare(optim::Optimizer& optimizer, Tensor p, Reference reference, double tolerance) {
  Values expected = values(p);
  const Values c = values(randn(p.sizes(), kFloat64));
  for (int step = 1; step <= 7; ++step) {
    Values gradient;
    const Values now = values(p);
    for (size_t i = 0; i < now.size(); ++i) gradient.push_back(now[i] * 0.3 + c[i] * std::sin(step + double(i)));
    p.set_grad(tensor(gradient, p.dtype()).reshape(p.sizes()));
    optimizer.step();
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = reference(i, expected[i], gradient[i], step);
    const Values got = values(p);
    for (size_t i = 0; i < got.size(); ++i) {
      INFO("step " << step << " element " << i);
      REQUIRE(got[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
    }
  }
  CHECK(p.requires_grad());
  CHECK(p.is_leaf());
}
Tensor parameter(Dtype d = kFloat64) {
  manual_seed(41);
  return randn({3, 5}, dtype(d).requires_grad(true));
}

}  // namespace

TEST_CASE("optim: SGD") {
  const double momentum = GENERATE(0.0, 0.9), decay = GENERATE(0.0, 0.1), dampening = GENERATE(0.0, 0.3);
  const bool nesterov = GENERATE(false, true);
  if (nesterov && (momentum == 0 || dampening != 0)) return;
  const Dtype type = GENERATE(kFloat64, kFloat32);
  Tensor p = parameter(type);
  optim::SGD sgd({p}, optim::SGDOptions(0.05).momentum(momentum).weight_decay(decay).dampening(dampening).nesterov(nesterov));
  Values buffer(15);
  compare(
      sgd, p,
      [&](size_t i, double w, double g, int step) {
        g += decay * w;
        if (momentum != 0) {
          buffer[i] = step == 1 ? g : momentum * buffer[i] + (1 - dampening) * g;
          g = nesterov ? g + momentum * buffer[i] : buffer[i];
        }
        return w - 0.05 * g;
      },
      type == kFloat64 ? 1e-13 : 2e-5);
}

TEST_CASE("optim: Adam and AdamW") {
  const bool decoupled = GENERATE(false, true), amsgrad = GENERATE(false, true);
  const double decay = GENERATE(0.0, 0.1);
  const Dtype type = GENERATE(kFloat64, kFloat32);
  const double lr = 0.02, b1 = 0.8, b2 = 0.95, eps = 1e-6;
  Tensor p = parameter(type);
  std::unique_ptr<optim::Optimizer> adam;
  if (decoupled) adam = std::make_unique<optim::AdamW>(std::vector<Tensor>{p}, optim::AdamWOptions(lr).betas(std::make_tuple(b1, b2)).eps(eps).weight_decay(decay).amsgrad(amsgrad));
  else adam = std::make_unique<optim::Adam>(std::vector<Tensor>{p}, optim::AdamOptions(lr).betas(std::make_tuple(b1, b2)).eps(eps).weight_decay(decay).amsgrad(amsgrad));
  Values m(15), v(15), top(15);
  compare(
      *adam, p,
      [&](size_t i, double w, double g, int step) {
        if (decoupled) w -= lr * decay * w;
        else g += decay * w;
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        top[i] = std::max(top[i], v[i]);
        const double second = (amsgrad ? top[i] : v[i]) / (1 - std::pow(b2, step));
        return w - lr * (m[i] / (1 - std::pow(b1, step))) / (std::sqrt(second) + eps);
      },
      type == kFloat64 ? 1e-12 : 2e-5);
  const optim::ParamState* state = adam->state(p);
  REQUIRE(state);
  CHECK(state->step == 7);
  CHECK(state->exp_avg.dtype() == type);
  CHECK(state->max_exp_avg_sq.defined() == amsgrad);
}

TEST_CASE("optim: RMSprop") {
  const bool centered = GENERATE(false, true);
  const double momentum = GENERATE(0.0, 0.7), decay = GENERATE(0.0, 0.1);
  const double lr = 0.01, alpha = 0.9, eps = 1e-5;
  Tensor p = parameter();
  optim::RMSprop rms({p}, optim::RMSpropOptions(lr).alpha(alpha).eps(eps).momentum(momentum).weight_decay(decay).centered(centered));
  Values square(15), mean(15), buffer(15);
  compare(
      rms, p,
      [&](size_t i, double w, double g, int) {
        g += decay * w;
        square[i] = alpha * square[i] + (1 - alpha) * g * g;
        mean[i] = alpha * mean[i] + (1 - alpha) * g;
        const double average = std::sqrt(centered ? square[i] - mean[i] * mean[i] : square[i]) + eps;
        buffer[i] = momentum * buffer[i] + g / average;
        return w - lr * buffer[i];
      },
      1e-11);
}

TEST_CASE("optim: the defaults are LibTorch's") {
  CHECK(optim::SGDOptions().lr() == 1e-3);
  CHECK(optim::AdamOptions().lr() == 1e-3);
  CHECK(optim::AdamOptions().weight_decay() == 0);
  CHECK(optim::AdamWOptions().weight_decay() == 1e-2);
  CHECK(optim::AdamWOptions().betas() == std::make_tuple(0.9, 0.999));
  CHECK(optim::RMSpropOptions().lr() == 1e-2);
  CHECK(optim::RMSpropOptions().alpha() == 0.99);
}

TEST_CASE("optim: groups have their own options, and parameters without gradients are passed over") {
  Tensor a = parameter(), b = parameter(), c = parameter();
  std::vector<optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>{a, c});
  groups.emplace_back(std::vector<Tensor>{b}, std::make_unique<optim::SGDOptions>(optim::SGDOptions(0.5)));
  optim::SGD sgd(groups, optim::SGDOptions(0.1));
  CHECK(sgd.size() == 3);
  const Values before = values(a);
  a.set_grad(ones({3, 5}, kFloat64));
  b.set_grad(ones({3, 5}, kFloat64));
  sgd.step();
  for (size_t i = 0; i < 15; ++i) {
    CHECK(values(a)[i] == Approx(before[i] - 0.1));
    CHECK(values(b)[i] == Approx(before[i] - 0.5));
    CHECK(values(c)[i] == before[i]);
  }
  CHECK(sgd.state(c) == nullptr);
  static_cast<optim::SGDOptions&>(sgd.param_groups()[1].options()).lr(0.25);
  sgd.step();
  CHECK(values(b)[0] == Approx(before[0] - 0.75));
  sgd.zero_grad();
  CHECK_FALSE(a.grad().defined());
  a.set_grad(ones({3, 5}, kFloat64));
  sgd.zero_grad(/*set_to_none=*/false);
  CHECK(values(a.grad()) == Values(15, 0.0));

  CHECK_THROWS_WITH(sgd.add_param_group(optim::OptimizerParamGroup({a})), Contains("SGD") && Contains("[3, 5]") && Contains("more than one group"));
  CHECK_THROWS_WITH(sgd.add_param_group({{parameter()}, std::make_unique<optim::AdamOptions>()}), Contains("SGDOptions"));
  CHECK_THROWS_WITH(optim::SGD({a * 2.0}), Contains("leaves"));
  CHECK_THROWS_WITH(optim::SGD({Tensor()}), Contains("undefined"));
  optim::SGD once({b, b}, 0.25);
  CHECK(once.size() == 1);
}

TEST_CASE("optim: options that make no sense are refused") {
  const std::vector<Tensor> p{parameter()};
  CHECK_THROWS_WITH(optim::SGD(p, -1.0), Contains("SGD: lr is -1") && Contains("0 or more"));
  CHECK_THROWS_WITH(optim::SGD(p, optim::SGDOptions(0.1).nesterov(true)), Contains("Nesterov"));
  CHECK_THROWS_WITH(optim::Adam(p, optim::AdamOptions(0.1).betas(std::make_tuple(1.0, 0.9))), Contains("Adam: the first beta is 1"));
  CHECK_THROWS_WITH(optim::AdamW(p, optim::AdamWOptions(0.1).eps(-1)), Contains("AdamW: eps"));
  CHECK_THROWS_WITH(optim::RMSprop(p, optim::RMSpropOptions(0.1).alpha(NAN)), Contains("RMSprop: alpha"));
}

TEST_CASE("optim: a closure computes the loss with gradients, also where they are off") {
  Tensor p = parameter();
  optim::SGD sgd({p}, 0.1);
  const Values before = values(p);
  NoGradGuard no_grad;
  const Tensor loss = sgd.step([&] {
    sgd.zero_grad();
    Tensor l = p.square().sum();
    l.backward();
    return l;
  });
  double want = 0;
  for (double w : before) want += w * w;
  CHECK(loss.item<double>() == Approx(want));
  for (size_t i = 0; i < 15; ++i) CHECK(values(p)[i] == Approx(before[i] * 0.8));
}

TEST_CASE("optim: StepLR and LambdaLR") {
  Tensor a = parameter(), b = parameter();
  std::vector<optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>{a});
  groups.emplace_back(std::vector<Tensor>{b}, std::make_unique<optim::AdamOptions>(0.5));
  optim::Adam adam(groups, 1.0);
  const auto rates = [&] { return Values{adam.param_groups()[0].options().get_lr(), adam.param_groups()[1].options().get_lr()}; };
  {
    optim::StepLR schedule(adam, 2, 0.5);
    const Values first{1, 1, 0.5, 0.5, 0.25, 0.25};
    for (double r : first) {
      schedule.step();
      CHECK(rates() == Values{r, r / 2});
    }
  }
  optim::LambdaLR schedule(adam, [](unsigned n) { return n == 1 ? 2.0 : 4.0; });
  schedule.step();
  CHECK(rates() == Values{0.5, 0.25});
  schedule.step();
  schedule.step();
  CHECK(rates() == Values{1, 0.5});
  CHECK_THROWS_WITH(optim::StepLR(adam, 0), Contains("step size is 0"));
}

TEST_CASE("optim: a regression converges") {
  manual_seed(43);
  const Tensor x = randn({64, 3}, kFloat64), truth = tensor({2., -1., 0.5}, kFloat64), y = x.matmul(truth.unsqueeze(1)) + 0.25;
  const int which = GENERATE(0, 1, 2, 3);
  nn::Linear layer(3, 1);
  layer->to(kFloat64);
  std::unique_ptr<optim::Optimizer> optimizer;
  if (which == 0) optimizer = std::make_unique<optim::SGD>(layer->parameters(), optim::SGDOptions(0.1).momentum(0.5));
  if (which == 1) optimizer = std::make_unique<optim::Adam>(layer->parameters(), 0.1);
  if (which == 2) optimizer = std::make_unique<optim::AdamW>(layer->parameters(), optim::AdamWOptions(0.1).weight_decay(0));
  if (which == 3) optimizer = std::make_unique<optim::RMSprop>(layer->parameters(), 0.02);
  for (int step = 0; step < 200; ++step) {
    optimizer->zero_grad();
    nn::functional::mse_loss(layer(x), y).backward();
    optimizer->step();
  }
  CHECK(nn::functional::mse_loss(layer(x), y).item<double>() < 1e-3);
  CHECK(layer->bias.item<double>() == Approx(0.25).margin(0.03));
}

TEST_CASE("optim: a training loop that sums its losses keeps no earlier step in memory") {
  jit::ModeGuard mode(GENERATE(jit::Mode::eager, jit::Mode::automatic));
  nn::Sequential net(nn::Linear(16, 64), nn::ReLU(), nn::Linear(64, 4));
  optim::AdamW optimizer(net->parameters(), 1e-3);
  const Tensor x = randn({128, 16}), target = randint(4, {128});
  Tensor total = zeros({});
  int64_t held = 0;
  for (int step = 0; step < 40; ++step) {
    optimizer.zero_grad();
    const Tensor loss = nn::functional::cross_entropy(net(x), target);
    loss.backward();
    optimizer.step();
    total += loss.detach();
    if (step == 20) {
      synchronize();
      jit::wait_for_compiles();
      held = memory::stats().current;
    }
  }
  synchronize();
  jit::wait_for_compiles();
  CHECK(memory::stats().current <= held + 4096);
  CHECK(total.item<float>() > 0);
}
