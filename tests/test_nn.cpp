// Modules and layers: against loops in double precision, derivatives against differences, registration, containers, errors.
#include <cmath>
#include <limits>
#include <sstream>
#include <catch2/catch.hpp>
#include "frit/frit.h"
#include "frit/print.h"

using namespace frit;
namespace F = frit::nn::functional;
using Catch::Matchers::Contains;

namespace {

std::vector<double> values(const Tensor& t) {
  const Tensor d = t.detach().to(kFloat64).contiguous();
  const double* p = d.const_data_ptr<double>();
  return {p, p + d.numel()};
}
void check_close(const Tensor& got, const std::vector<double>& want, double tolerance = 1e-12) {
  const auto g = values(got);
  REQUIRE(g.size() == want.size());
  for (size_t i = 0; i < g.size(); ++i) {
    INFO("element " << i);
    if (std::isnan(want[i])) CHECK(std::isnan(g[i]));
    else CHECK(g[i] == Approx(want[i]).epsilon(tolerance).margin(tolerance));
  }
}
Tensor random(IntArrayRef sizes) { return randn(sizes, kFloat64); }

// The derivative of sum(c * forward()) in every parameter, along a random direction, against a central difference.
template <class Forward> void check_parameter_gradients(nn::Module& module, Forward forward) {
  module.zero_grad();
  const Tensor c = random(forward().sizes());
  (forward() * c).sum().backward();
  for (const auto& p : module.named_parameters()) {
    INFO(module.name() << " " << p.key());
    REQUIRE(p.value().grad().defined());
    NoGradGuard no_grad;
    const Tensor d = random(p.value().sizes());
    const double eps = 1e-6, slope = (p.value().grad() * d).sum().item<double>();
    const auto shifted = [&](double by) {
      Tensor w = p.value();
      w.add_(d, Scalar(by));
      const double loss = (forward() * c).sum().template item<double>();
      w.add_(d, Scalar(-by));
      return loss;
    };
    CHECK((shifted(eps) - shifted(-eps)) / (2 * eps) == Approx(slope).epsilon(1e-5).margin(1e-6));
  }
}
std::vector<double> log_softmax_row(const double* x, int64_t n, int64_t stride) {
  double top = x[0], sum = 0;
  for (int64_t i = 0; i < n; ++i) top = std::max(top, x[i * stride]);
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i * stride] - top);
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(x[i * stride] - top - std::log(sum));
  return out;
}
std::string text(const nn::Module& m) {
  std::ostringstream out;
  out << m;
  return out.str();
}

struct Net : nn::Module {
  nn::Linear first{nullptr}, second{nullptr};
  nn::Sequential tail{nullptr};
  Tensor scale, offset;
  Net() {
    first = register_module("first", nn::Linear(3, 4));
    scale = register_parameter("scale", frit::ones({4}));
    second = register_module("second", nn::Linear(nn::LinearOptions(4, 2).bias(false)));
    offset = register_buffer("offset", frit::zeros({2}));
    tail = register_module("tail", nn::Sequential(nn::LayerNorm(std::vector<int64_t>{2}), nn::Tanh()));
  }
  Tensor forward(const Tensor& x) { return tail(second(first(x).relu() * scale) + offset); }
};

}  // namespace

// ---- modules ----------------------------------------------------------------------------------------------------------
TEST_CASE("nn: parameters, buffers and modules are listed in the order of their registration, own ones first") {
  auto net = std::make_shared<Net>();
  CHECK(net->named_parameters().keys() == std::vector<std::string>{"scale", "first.weight", "first.bias", "second.weight", "tail.0.weight", "tail.0.bias"});
  CHECK(net->named_parameters(false).keys() == std::vector<std::string>{"scale"});
  CHECK(net->parameters().size() == 6);
  CHECK(net->parameters()[1].is_same(net->first->weight));
  CHECK(net->named_buffers().keys() == std::vector<std::string>{"offset"});
  CHECK(net->named_children().keys() == std::vector<std::string>{"first", "second", "tail"});
  CHECK(net->children().size() == 3);
  CHECK(net->named_modules().keys() == std::vector<std::string>{"", "first", "second", "tail", "tail.0", "tail.1"});
  CHECK(net->named_modules("net", false).keys() == std::vector<std::string>{"net.first", "net.second", "net.tail", "net.tail.0", "net.tail.1"});
  CHECK(net->modules(false).size() == 5);
  std::vector<std::string> seen;
  net->apply([&](const std::string& name, nn::Module& m) { seen.push_back(name + (m.as<nn::Linear>() ? "!" : "")); });
  CHECK(seen == std::vector<std::string>{"", "first!", "second!", "tail", "tail.0", "tail.1"});
  for (const auto& p : net->named_parameters()) CHECK(p.value().requires_grad());
  CHECK_FALSE(net->offset.requires_grad());
  CHECK(net->named_parameters()["scale"].numel() == 4);
  CHECK_THROWS_WITH(net->named_parameters()["scales"], Contains("'scales' is not defined") && Contains("first.weight"));

  Net on_stack;
  CHECK_THROWS_WITH(on_stack.modules(), Contains("no shared_ptr owns it"));
  CHECK(on_stack.modules(false).size() == 5);
}

TEST_CASE("nn: registration refuses empty, dotted and repeated names") {
  struct Bad : nn::Module {};
  Bad m;
  m.register_parameter("w", frit::ones({1}));
  CHECK_THROWS_WITH(m.register_parameter("w", frit::ones({1})), Contains("Parameter 'w' already defined"));
  CHECK_THROWS_WITH(m.register_buffer("w", frit::ones({1})), Contains("already defined as a parameter"));
  CHECK_THROWS_WITH(m.register_parameter("a.b", frit::ones({1})), Contains("must not contain a dot (got 'a.b')"));
  CHECK_THROWS_WITH(m.register_module("", nn::Linear(1, 1)), Contains("Submodule name must not be empty"));
  CHECK_THROWS_WITH(m.register_module("m", std::shared_ptr<nn::LinearImpl>()), Contains("is null"));
  nn::Linear empty{nullptr};
  CHECK(empty.is_empty());
  CHECK_THROWS_WITH(empty->forward(frit::ones({1})), Contains("frit::nn::LinearImpl") && Contains("empty"));
  CHECK_THROWS_AS(m.register_module("e", empty), ValueError);
  m.register_parameter("absent", Tensor(), false);
  CHECK(m.named_parameters().keys() == std::vector<std::string>{"w"});
}

TEST_CASE("nn: train and eval reach every module") {
  Net net;
  const auto all = [&](bool on) {
    bool same = net.is_training() == on;
    net.apply([&](nn::Module& m) { same &= m.is_training() == on; });
    return same;
  };
  CHECK(all(true));
  net.eval();
  CHECK(all(false));
  net.train();
  CHECK(all(true));
}

TEST_CASE("nn: to() converts parameters, buffers and gradients, and every handle sees it") {
  Net net;
  const Tensor held = net.first->weight;
  const auto before = values(held);
  net.forward(randn({5, 3})).sum().backward();
  net.to(kFloat64);
  CHECK(held.dtype() == kFloat64);
  CHECK(held.is_same(net.parameters()[1]));
  CHECK(held.grad().dtype() == kFloat64);
  CHECK(net.offset.dtype() == kFloat64);
  check_close(held, before, 0);
  CHECK(held.requires_grad());
  const Tensor y = net.forward(random({5, 3}));
  CHECK(y.dtype() == kFloat64);
  net.zero_grad();
  CHECK_FALSE(held.grad().defined());
  y.sum().backward();
  CHECK(held.grad().dtype() == kFloat64);
  net.zero_grad(false);
  check_close(held.grad(), std::vector<double>(12, 0.0));
  CHECK_THROWS_WITH(net.to(kInt64), Contains("floating"));
  net.to(kCPU);

  nn::BatchNorm1d norm(3);
  norm->to(kFloat64);
  CHECK(norm->num_batches_tracked.dtype() == kInt64);
  CHECK(norm->running_var.dtype() == kFloat64);
}

TEST_CASE("nn: clone() copies deeply") {
  nn::Sequential net(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Sequential({{"inner", nn::Linear(4, 2)}, {"act", nn::ReLU()}}), nn::Functional(frit::exp));
  net->to(kFloat64);
  net->eval();
  auto copy = std::dynamic_pointer_cast<nn::SequentialImpl>(net->clone());
  REQUIRE(copy);
  CHECK(copy->named_parameters().keys() == net->named_parameters().keys());
  CHECK(copy->named_parameters().keys()[4] == "2.inner.weight");
  const Tensor x = random({5, 3}), y = net(x);
  check_close(copy->forward(x), values(y), 0);
  {
    NoGradGuard no_grad;
    for (Tensor p : copy->parameters()) p.zero_();
  }
  check_close(net(x), values(y), 0);
  CHECK(copy->at<nn::Linear>(0).weight.dtype() == kFloat64);
  CHECK(copy->at<nn::Linear>(0).weight.requires_grad());
  CHECK_FALSE(copy->is_training());
  CHECK_THROWS_WITH(Net().clone(), Contains("Net") && Contains("nn::Cloneable"));

  nn::CrossEntropyLoss loss(nn::CrossEntropyLossOptions().weight(random({3}).exp()));
  auto other = std::dynamic_pointer_cast<nn::CrossEntropyLossImpl>(loss->clone());
  other->weight.fill_(1);
  CHECK(loss->weight.sum().item<double>() != 3);
}

TEST_CASE("nn: modules print as trees") {
  Net net;
  CHECK(text(*net.first) == "frit::nn::Linear(in_features=3, out_features=4, bias=true)");
  const std::string tree = text(net);
  CHECK_THAT(tree, Contains("Net(\n  (first): frit::nn::Linear(in_features=3, out_features=4, bias=true)\n"));
  CHECK_THAT(tree, Contains("  (tail): frit::nn::Sequential(\n    (0): frit::nn::LayerNorm([2], eps=1e-05, elementwise_affine=true)\n    (1): frit::nn::Tanh()\n  )\n)"));
  std::ostringstream out;
  out << nn::Dropout(0.25);
  CHECK(out.str() == "frit::nn::Dropout(p=0.25, inplace=false)");
}

// ---- containers ---------------------------------------------------------------------------------------------------------
namespace {
struct TwoInputsImpl : nn::Module {
  Tensor forward(const Tensor& a, const Tensor& b) { return a * b; }
};
FRIT_MODULE(TwoInputs);
}  // namespace

TEST_CASE("nn: Sequential calls any mix of modules in turn") {
  nn::Linear linear(3, 2);
  linear->to(kFloat64);
  nn::Sequential net(linear, nn::ReLU(), nn::Functional([](const Tensor& x, double a) { return x * a; }, 2.0));
  const Tensor x = random({4, 3});
  check_close(net(x), values(linear(x).relu() * 2.0), 0);
  CHECK(net->size() == 3);
  net->push_back(nn::Identity());
  net->push_back("named", nn::Flatten(nn::FlattenOptions().start_dim(0)));
  CHECK(net->named_children().keys() == std::vector<std::string>{"0", "1", "2", "3", "named"});
  CHECK(net(x).sizes() == IntArrayRef{8});
  CHECK(net->at<nn::Linear>(0).weight.is_same(linear->weight));
  CHECK(net[0].get() == linear.get());
  CHECK_THROWS_AS(net->at<nn::ReLU>(0), ValueError);
  size_t count = 0;
  for (auto& m : *net) count += !m.is_empty();
  CHECK(count == 5);

  nn::Sequential both{TwoInputs(), nn::Tanh()};
  check_close(both->forward(x, x), values((x * x).tanh()), 0);
  CHECK_THROWS_WITH(both->forward(x), Contains("TwoInputs") && Contains("does not take 1 tensors"));
  CHECK_THROWS_WITH(nn::Sequential()->forward(x), Contains("empty Sequential"));
  nn::Sequential joined;
  joined->extend(*net);
  CHECK(joined->size() == 5);
}

TEST_CASE("nn: ModuleList holds modules by place") {
  nn::ModuleList list(nn::Linear(2, 2), nn::ReLU());
  list->push_back(nn::Linear(2, 3));
  CHECK(list->size() == 3);
  CHECK(list->named_parameters().keys() == std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"});
  CHECK(list->at<nn::Linear>(2).options.out_features() == 3);
  CHECK(list[1]->as<nn::ReLU>() != nullptr);
  CHECK(list->ptr<nn::Linear>(1) == nullptr);
  int linears = 0;
  for (const auto& m : *list) linears += m->as<nn::LinearImpl>() != nullptr;
  CHECK(linears == 2);
}

// ---- layers -------------------------------------------------------------------------------------------------------------
TEST_CASE("nn: Linear multiplies the last axis") {
  manual_seed(3);
  nn::Linear layer(5, 3);
  layer->to(kFloat64);
  const auto w = values(layer->weight), b = values(layer->bias);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5}, {4, 5}, {2, 3, 5}, {0, 5}, {2, 1, 2, 5}}) {
    const Tensor x = random(shape), y = layer(x);
    std::vector<int64_t> wanted = shape;
    wanted.back() = 3;
    CHECK(y.sizes().vec() == wanted);
    const auto xs = values(x);
    std::vector<double> want;
    for (size_t row = 0; row < xs.size() / 5; ++row)
      for (size_t o = 0; o < 3; ++o) {
        double s = b[o];
        for (size_t i = 0; i < 5; ++i) s += xs[row * 5 + i] * w[o * 5 + i];
        want.push_back(s);
      }
    check_close(y, want);
  }
  const Tensor x = random({2, 3, 5});
  check_parameter_gradients(*layer, [&] { return layer(x); });
  CHECK(autograd::gradcheck([](const auto& in) { return autograd::variable_list{F::linear(in[0], in[1], in[2])}; }, {random({2, 3, 4}), random({5, 4}), random({5})}));
  CHECK_THROWS_WITH(layer(random({5, 30})), Contains("linear") && Contains("[5, 30]") && Contains("[3, 5]") && Contains("[..., 5]"));
  CHECK_THROWS_AS(layer(random({5, 30})), ShapeError);
  CHECK_THROWS_WITH(layer(randn({2, 5})), Contains("float32") && Contains("float64"));
  CHECK_THROWS_WITH(F::linear(random({2, 5}), random({3, 5}), random({4})), Contains("bias has shape [4]") && Contains("[3]"));
}

TEST_CASE("nn: layers start as LibTorch's do") {
  manual_seed(11);
  nn::Linear layer(100, 400);
  const double bound = 1 / std::sqrt(100.0);
  double sum = 0, squares = 0;
  for (double w : values(layer->weight)) {
    REQUIRE(std::abs(w) <= bound);
    sum += w, squares += w * w;
  }
  CHECK(std::abs(sum / 40000) < 0.002);
  CHECK(squares / 40000 == Approx(bound * bound / 3).epsilon(0.03));
  for (double b : values(layer->bias)) REQUIRE(std::abs(b) <= bound);

  nn::Embedding table(nn::EmbeddingOptions(300, 20).padding_idx(-1));
  CHECK(*table->options.padding_idx() == 299);
  const auto rows = values(table->weight);
  for (size_t i = 299 * 20; i < rows.size(); ++i) REQUIRE(rows[i] == 0);
  squares = 0;
  for (double r : rows) squares += r * r;
  CHECK(squares / (299 * 20) == Approx(1).epsilon(0.06));
  check_close(nn::LayerNorm(std::vector<int64_t>{3})->weight, {1, 1, 1}, 0);
  check_close(nn::LayerNorm(std::vector<int64_t>{3})->bias, {0, 0, 0}, 0);
  CHECK_THROWS_WITH(nn::Linear(-1, 2), Contains("Linear") && Contains("-1"));
}

TEST_CASE("nn: initialisers reach their ranges and variances") {
  manual_seed(5);
  const auto variance = [](const Tensor& t) { return t.square().mean().item<double>() - std::pow(t.mean().item<double>(), 2); };
  CHECK(variance(nn::init::xavier_uniform_(empty({200, 300}, kFloat64), 2)) == Approx(4 * 2.0 / 500).epsilon(0.03));
  CHECK(variance(nn::init::xavier_normal_(empty({200, 300}, kFloat64))) == Approx(2.0 / 500).epsilon(0.03));
  CHECK(variance(nn::init::kaiming_uniform_(empty({200, 300}, kFloat64), 0, kFanIn, kReLU)) == Approx(2.0 / 300).epsilon(0.03));
  CHECK(variance(nn::init::kaiming_normal_(empty({200, 300}, kFloat64), 0, kFanOut, kReLU)) == Approx(2.0 / 200).epsilon(0.03));
  CHECK(variance(nn::init::normal_(empty({60000}, kFloat64), 3, 0.5)) == Approx(0.25).epsilon(0.05));
  CHECK(variance(nn::init::uniform_(empty({60000}, kFloat64), -2, 4)) == Approx(3).epsilon(0.05));
  CHECK(nn::init::calculate_gain(kLeakyReLU, 3) == Approx(std::sqrt(0.2)));
  CHECK(nn::init::calculate_gain(kTanh) == Approx(5.0 / 3));
  CHECK(nn::init::_calculate_fan_in_and_fan_out(empty({2, 3, 5, 7})) == std::tuple<int64_t, int64_t>(105, 70));
  check_close(nn::init::eye_(empty({2, 3}, kFloat64)), {1, 0, 0, 0, 1, 0}, 0);
  check_close(nn::init::constant_(empty({2}, kFloat64), 2.5), {2.5, 2.5}, 0);
  CHECK_THROWS_WITH(nn::init::kaiming_uniform_(empty({3})), Contains("[3]") && Contains("fan"));
}

TEST_CASE("nn: Embedding picks rows, and its padding row gets no gradient") {
  nn::Embedding table(nn::EmbeddingOptions(4, 3).padding_idx(2));
  table->to(kFloat64);
  const Tensor at = tensor({0, 2, 3, 0, 1, 2}, kInt64).reshape({2, 3});
  const Tensor rows = table(at);
  CHECK(rows.sizes() == IntArrayRef{2, 3, 3});
  const auto w = values(table->weight);
  std::vector<double> want;
  for (int64_t i : {0, 2, 3, 0, 1, 2})
    for (int64_t d = 0; d < 3; ++d) want.push_back(w[size_t(i * 3 + d)]);
  check_close(rows, want, 0);
  rows.sum().backward();
  check_close(table->weight.grad(), {2, 2, 2, 1, 1, 1, 0, 0, 0, 1, 1, 1}, 0);
  CHECK(autograd::gradcheck([&](const auto& in) { return autograd::variable_list{F::embedding(at, in[0])}; }, {random({4, 3})}));
  CHECK_THROWS_WITH(table(at.to(kFloat32)), Contains("embedding") && Contains("float32") && Contains("int64"));
  CHECK_THROWS_WITH(F::embedding(tensor({4}, kInt64), random({4, 3})), Contains("embedding: the index 4") && Contains("0 to 3"));
  CHECK_THROWS_AS(F::embedding(tensor({-1}, kInt64), random({4, 3})), IndexError);
  // Computed and strided indices are checked where they are used.
  for (int64_t wrong : {-1, 4}) CHECK_THROWS_AS(F::embedding(tensor({wrong, int64_t(0)}, kInt64).expand({2, 2}).t(), random({4, 3})).sum().item<double>(), IndexError);
  CHECK_THROWS_WITH(nn::Embedding(nn::EmbeddingOptions(4, 3).padding_idx(4)), Contains("padding_idx 4"));
}

TEST_CASE("nn: LayerNorm and RMSNorm") {
  nn::LayerNorm layer(nn::LayerNormOptions({3, 4}).eps(1e-3));
  nn::RMSNorm rms(nn::RMSNormOptions({4}).eps(1e-3));
  layer->to(kFloat64);
  rms->to(kFloat64);
  {
    NoGradGuard no_grad;
    for (Tensor p : {layer->weight, layer->bias, rms->weight}) p.normal_();
  }
  const Tensor x = random({5, 3, 4});
  const auto xs = values(x), w = values(layer->weight), b = values(layer->bias), g = values(rms->weight);
  std::vector<double> want, want_rms;
  for (size_t r = 0; r < 5; ++r) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < 12; ++i) mean += xs[r * 12 + i] / 12;
    for (size_t i = 0; i < 12; ++i) variance += std::pow(xs[r * 12 + i] - mean, 2) / 12;
    for (size_t i = 0; i < 12; ++i) want.push_back((xs[r * 12 + i] - mean) / std::sqrt(variance + 1e-3) * w[i] + b[i]);
  }
  for (size_t r = 0; r < 15; ++r) {
    double squares = 0;
    for (size_t i = 0; i < 4; ++i) squares += std::pow(xs[r * 4 + i], 2) / 4;
    for (size_t i = 0; i < 4; ++i) want_rms.push_back(xs[r * 4 + i] / std::sqrt(squares + 1e-3) * g[i]);
  }
  check_close(layer(x), want);
  check_close(rms(x), want_rms);
  check_parameter_gradients(*layer, [&] { return layer(x); });
  check_parameter_gradients(*rms, [&] { return rms(x); });
  CHECK(autograd::gradcheck([](const auto& in) { return autograd::variable_list{F::layer_norm(in[0], {4}, in[1], in[2]), F::rms_norm(in[0], {3, 4})}; },
                            {x, random({4}), random({4})}));
  CHECK(F::layer_norm(x.to(kBFloat16), {4}).dtype() == kBFloat16);
  CHECK_THROWS_WITH(layer(random({5, 4, 3})), Contains("layer_norm") && Contains("[3, 4]") && Contains("[5, 4, 3]"));
  CHECK_THROWS_WITH(rms(random({5})), Contains("rms_norm") && Contains("[4]"));
  CHECK(nn::LayerNorm(nn::LayerNormOptions({2}).elementwise_affine(false))->parameters().empty());
  CHECK(nn::LayerNorm(nn::LayerNormOptions({2}).bias(false))->parameters().size() == 1);
}

TEST_CASE("nn: BatchNorm1d uses the batch in training and its running statistics in eval") {
  nn::BatchNorm1d norm(nn::BatchNorm1dOptions(3).momentum(0.25));
  norm->to(kFloat64);
  std::vector<double> mean(3, 0), variance(3, 1);
  for (int step = 0; step < 3; ++step) {
    const Tensor x = random({4, 3, 5}) * 2.0 + 1.0, y = norm(x);
    const auto xs = values(x);
    std::vector<double> want(60);
    for (size_t c = 0; c < 3; ++c) {
      double m = 0, v = 0;
      for (size_t n = 0; n < 4; ++n)
        for (size_t l = 0; l < 5; ++l) m += xs[n * 15 + c * 5 + l] / 20;
      for (size_t n = 0; n < 4; ++n)
        for (size_t l = 0; l < 5; ++l) v += std::pow(xs[n * 15 + c * 5 + l] - m, 2) / 20;
      for (size_t n = 0; n < 4; ++n)
        for (size_t l = 0; l < 5; ++l) want[n * 15 + c * 5 + l] = (xs[n * 15 + c * 5 + l] - m) / std::sqrt(v + 1e-5);
      mean[c] = 0.75 * mean[c] + 0.25 * m;
      variance[c] = 0.75 * variance[c] + 0.25 * v * 20 / 19;
    }
    check_close(y, want);
  }
  check_close(norm->running_mean, mean);
  check_close(norm->running_var, variance);
  CHECK(norm->num_batches_tracked.item<int64_t>() == 3);
  const Tensor x = random({6, 3});
  check_parameter_gradients(*norm, [&] { return norm(x); });
  norm->eval();
  mean = values(norm->running_mean), variance = values(norm->running_var);
  const auto xs = values(x);
  std::vector<double> want;
  for (size_t i = 0; i < 18; ++i) want.push_back((xs[i] - mean[i % 3]) / std::sqrt(variance[i % 3] + 1e-5));
  check_close(norm(x), want);
  check_parameter_gradients(*norm, [&] { return norm(x); });
  const Tensor rm = random({3}), rv = random({3}).exp();
  CHECK(autograd::gradcheck(
      [&](const auto& in) {
        return autograd::variable_list{F::batch_norm(in[0], {}, {}, F::BatchNormFuncOptions().training(true).weight(in[1]).bias(in[2])), F::batch_norm(in[0], rm, rv)};
      },
      {random({5, 3}), random({3}), random({3})}));
  norm->train();
  CHECK_THROWS_WITH(norm(random({1, 3})), Contains("batch_norm") && Contains("[1, 3]") && Contains("eval()"));
  CHECK_THROWS_WITH(norm(random({3})), Contains("BatchNorm1d") && Contains("[3]"));
  CHECK_THROWS_WITH(norm(random({4, 2})), Contains("[3]") && Contains("[2]"));

  nn::BatchNorm1d average(nn::BatchNorm1dOptions(1).momentum(std::nullopt));
  average(tensor({1., 3.}).reshape({2, 1}));
  average(tensor({5., 7.}).reshape({2, 1}));
  check_close(average->running_mean, {4}, 1e-6);
}

TEST_CASE("nn: Dropout zeroes and scales in training, and does nothing in eval") {
  manual_seed(17);
  nn::Dropout drop(0.25);
  Tensor x = randn({100, 100}, dtype(kFloat64).requires_grad(true));
  const Tensor y = drop(x);
  int64_t zeros = 0;
  const auto xs = values(x), ys = values(y);
  for (size_t i = 0; i < ys.size(); ++i) {
    zeros += ys[i] == 0;
    if (ys[i] != 0) REQUIRE(ys[i] == Approx(xs[i] / 0.75));
  }
  CHECK(std::abs(double(zeros) / 10000 - 0.25) < 0.02);
  y.sum().backward();
  const auto g = values(x.grad());
  for (size_t i = 0; i < ys.size(); ++i) REQUIRE(g[i] == Approx(ys[i] == 0 ? 0 : 1 / 0.75));
  CHECK(values(drop(x)) != ys);
  manual_seed(17);
  randn({100, 100}, kFloat64);
  drop->eval();
  check_close(drop(x), xs, 0);
  check_close(F::dropout(x), xs, 0);
  check_close(F::dropout(x, 1, true), std::vector<double>(10000, 0.0), 0);
  Tensor z = ones({1000}, kFloat64);
  F::dropout(z, F::DropoutFuncOptions().p(0.5).training(true).inplace(true));
  for (double v : values(z)) REQUIRE((v == 0 || v == 2));
  CHECK_THROWS_WITH(nn::Dropout(1.5), Contains("Dropout") && Contains("1.5"));
  CHECK_THROWS_AS(F::dropout(x, -0.1, true), ValueError);
}

TEST_CASE("nn: activations") {
  const Tensor x = random({3, 4});
  const auto xs = values(x);
  const auto check = [&](const Tensor& y, double (*f)(double)) {
    std::vector<double> want;
    for (double v : xs) want.push_back(f(v));
    check_close(y, want, 1e-11);
  };
  check(nn::ReLU()(x), [](double v) { return std::max(v, 0.0); });
  check(nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2))(x), [](double v) { return v > 0 ? v : 0.2 * v; });
  check(nn::GELU()(x), [](double v) { return v * 0.5 * std::erfc(-v / std::sqrt(2.0)); });
  check(nn::GELU(nn::GELUOptions().approximate("tanh"))(x),
        [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); });
  check(nn::SiLU()(x), [](double v) { return v / (1 + std::exp(-v)); });
  check(nn::Sigmoid()(x), [](double v) { return 1 / (1 + std::exp(-v)); });
  check(nn::Tanh()(x), [](double v) { return std::tanh(v); });
  check_close(nn::Identity()(x), xs, 0);
  CHECK(nn::Flatten()(random({2, 3, 4})).sizes() == IntArrayRef{2, 12});
  std::vector<double> rows;
  for (size_t r = 0; r < 3; ++r)
    for (double v : log_softmax_row(&xs[r * 4], 4, 1)) rows.push_back(v);
  check_close(nn::LogSoftmax(1)(x), rows);
  check_close(nn::Softmax(-1)(x).log(), rows);
  check_close(F::softmax(x, 1).log(), rows);
  Tensor written = x.clone();
  nn::ReLU(nn::ReLUOptions(true))(written);
  check_close(written, values(x.relu()), 0);
  CHECK(autograd::gradcheck(
      [](const auto& in) {
        const Tensor& a = in[0];
        return autograd::variable_list{F::relu(a), F::leaky_relu(a), F::gelu(a), F::gelu(a, F::GELUFuncOptions().approximate("tanh")), F::silu(a),
                                       nn::Sigmoid()(a), nn::Tanh()(a), F::softmax(a, 0), F::log_softmax(a, 1)};
      },
      {x}));
}

// ---- losses -------------------------------------------------------------------------------------------------------------
namespace {

// cross_entropy by its formula. input: [n, classes, positions].
struct Reference {
  int64_t n, classes, positions;
  std::vector<double> input, weight;  // weight empty: ones
  int64_t ignore = -100;
  double smoothing = 0;

  double w(int64_t c) const { return weight.empty() ? 1 : weight[size_t(c)]; }
  std::vector<double> row(int64_t i, int64_t p) const { return log_softmax_row(&input[size_t(i * classes * positions + p)], classes, positions); }
  // The loss of each position, and the sum of the weights that the mean divides by.
  std::pair<std::vector<double>, double> of_indices(const std::vector<int64_t>& target) const {
    std::vector<double> out;
    double total = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t p = 0; p < positions; ++p) {
        const int64_t t = target[size_t(i * positions + p)];
        if (t == ignore) {
          out.push_back(0);
          continue;
        }
        const auto l = row(i, p);
        double smooth = 0;
        for (int64_t c = 0; c < classes; ++c) smooth -= l[size_t(c)] * w(c);
        out.push_back(-(1 - smoothing) * l[size_t(t)] * w(t) + smoothing / double(classes) * smooth);
        total += w(t);
      }
    return {out, total};
  }
  std::vector<double> of_probabilities(const std::vector<double>& target) const {
    std::vector<double> out;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t p = 0; p < positions; ++p) {
        const auto l = row(i, p);
        double s = 0;
        for (int64_t c = 0; c < classes; ++c)
          s -= l[size_t(c)] * w(c) * (target[size_t((i * classes + c) * positions + p)] * (1 - smoothing) + smoothing / double(classes));
        out.push_back(s);
      }
    return out;
  }
};
double sum(const std::vector<double>& v) {
  double s = 0;
  for (double x : v) s += x;
  return s;
}

}  // namespace

TEST_CASE("nn: cross_entropy of class indices is its formula") {
  manual_seed(23);
  const auto shape = GENERATE(std::vector<int64_t>{6, 5}, std::vector<int64_t>{2, 5, 3}, std::vector<int64_t>{5});
  const bool weighted = GENERATE(false, true);
  const double smoothing = GENERATE(0.0, 0.2);
  const int64_t ignore = GENERATE(-100, 1);
  const Tensor x = random(shape), weight = weighted ? random({5}).exp() : Tensor();
  Reference r{shape.size() == 1 ? 1 : shape[0], 5, shape.size() == 3 ? 3 : 1, values(x), weighted ? values(weight) : std::vector<double>(), ignore, smoothing};
  std::vector<int64_t> target;
  for (int64_t i = 0; i < r.n * r.positions; ++i) target.push_back(ignore == 1 && i % 3 == 1 ? 1 : (i * 7 + 3) % 5 == 1 && ignore == 1 ? 4 : (i * 7 + 3) % 5);
  std::vector<int64_t> target_shape = shape;
  target_shape.erase(target_shape.begin() + (shape.size() == 1 ? 0 : 1));
  const Tensor t = tensor(target, kInt64).reshape(target_shape);
  const auto options = [&](Reduction::Kind k) {
    return nn::CrossEntropyLossOptions().weight(weight).ignore_index(ignore).label_smoothing(smoothing).reduction(k);
  };
  const auto [each, total] = r.of_indices(target);
  check_close(F::cross_entropy(x, t, options(kNone)), each);
  CHECK(F::cross_entropy(x, t, options(kNone)).sizes().vec() == target_shape);
  check_close(F::cross_entropy(x, t, options(kSum)), {sum(each)});
  check_close(nn::CrossEntropyLoss(options(kMean))(x, t), {sum(each) / total});
  check_close(F::cross_entropy(x, t.to(kInt32), options(kMean)), {sum(each) / total});
  CHECK(autograd::gradcheck([&](const auto& in) { return autograd::variable_list{F::cross_entropy(in[0], t, options(kMean)), F::cross_entropy(in[0], t, options(kNone))}; }, {x}));
  if (smoothing == 0) {
    const auto nll = nn::NLLLossOptions().weight(weight).ignore_index(ignore);
    check_close(nn::NLLLoss(nll)(x.log_softmax(shape.size() == 1 ? 0 : 1), t), {sum(each) / total});
    CHECK(autograd::gradcheck([&](const auto& in) { return autograd::variable_list{F::nll_loss(in[0], t, nll)}; }, {x}));
  }
}

TEST_CASE("nn: cross_entropy of probabilities is its formula") {
  manual_seed(29);
  const auto shape = GENERATE(std::vector<int64_t>{6, 5}, std::vector<int64_t>{2, 5, 3}, std::vector<int64_t>{5});
  const bool weighted = GENERATE(false, true);
  const double smoothing = GENERATE(0.0, 0.2);
  const Tensor x = random(shape), weight = weighted ? random({5}).exp() : Tensor(), t = random(shape).softmax(shape.size() == 1 ? 0 : 1);
  const Reference r{shape.size() == 1 ? 1 : shape[0], 5, shape.size() == 3 ? 3 : 1, values(x), weighted ? values(weight) : std::vector<double>(), -100, smoothing};
  const auto options = nn::CrossEntropyLossOptions().weight(weight).label_smoothing(smoothing);
  const auto each = r.of_probabilities(values(t));
  check_close(F::cross_entropy(x, t, nn::CrossEntropyLossOptions(options).reduction(kNone)), each);
  check_close(F::cross_entropy(x, t, nn::CrossEntropyLossOptions(options).reduction(kSum)), {sum(each)});
  check_close(F::cross_entropy(x, t, options), {sum(each) / double(r.n * r.positions)});
  CHECK(autograd::gradcheck([&](const auto& in) { return autograd::variable_list{F::cross_entropy(in[0], in[1], options)}; }, {x, t}));
}

TEST_CASE("nn: cross_entropy at its edges") {
  const Tensor x = random({2, 3}), ignored = tensor({-100, -100}, kInt64);
  check_close(F::cross_entropy(x, ignored), {std::numeric_limits<double>::quiet_NaN()});
  check_close(F::cross_entropy(x, ignored, F::CrossEntropyFuncOptions().reduction(kSum)), {0});
  // An ignored position gives no gradient, even where its row is infinite.
  Tensor y = tensor({0., 1., 2., -INFINITY, 0., 0.}, kFloat64).reshape({2, 3}).requires_grad_();
  F::cross_entropy(y, tensor({2, -100}, kInt64)).backward();
  const auto g = values(y.grad());
  for (size_t i = 3; i < 6; ++i) CHECK(g[i] == 0);
  check_close(F::cross_entropy(tensor({1000., 0., -1000.}, kFloat64).reshape({1, 3}), tensor({2}, kInt64)), {2000});
  CHECK_THROWS_WITH(F::cross_entropy(x, tensor({0, 3}, kInt64)), Contains("cross_entropy: the target 3") && Contains("0 to 2"));
  CHECK_THROWS_WITH(frit::nll_loss(x, tensor({-1, 1}, kInt64)), Contains("nll_loss: the target -1"));
  CHECK_THROWS_AS(F::cross_entropy(x, tensor({0, -1}, kInt64)), IndexError);
  for (int64_t wrong : {-1, 3}) CHECK_THROWS_AS(F::cross_entropy(x, tensor({wrong, int64_t(0), wrong}, kInt64).slice(0, 0, 3, 2)).item<double>(), IndexError);
  CHECK_THROWS_WITH(F::cross_entropy(x, tensor({0}, kInt64)), Contains("cross_entropy") && Contains("[2, 3]") && Contains("[1]") && Contains("shape [2]"));
  CHECK_THROWS_WITH(F::cross_entropy(x, random({2})), Contains("float64") && Contains("int64"));
  CHECK_THROWS_WITH(F::cross_entropy(x, ignored, F::CrossEntropyFuncOptions().weight(random({2}))), Contains("weight has shape [2]") && Contains("3 classes"));
  CHECK_THROWS_WITH(F::cross_entropy(x, ignored, F::CrossEntropyFuncOptions().label_smoothing(1.5)), Contains("label_smoothing"));
  CHECK_THROWS_WITH(frit::nll_loss(x, ignored, {}, 7), Contains("reduction 7"));
}

TEST_CASE("nn: regression and binary losses are their formulas") {
  const Tensor x = random({3, 4}), t = random({3, 4}), p = rand({3, 4}, kFloat64), w = random({4}).exp(), pw = random({4}).exp();
  const auto xs = values(x), ts = values(t), ps = values(p), ws = values(w), pws = values(pw);
  std::vector<double> squares, distances, bce, weighted;
  for (size_t i = 0; i < 12; ++i) {
    squares.push_back((xs[i] - ts[i]) * (xs[i] - ts[i]));
    distances.push_back(std::abs(xs[i] - ts[i]));
    const double positive = std::log1p(std::exp(-xs[i])), negative = std::log1p(std::exp(xs[i]));
    bce.push_back(ps[i] * positive + (1 - ps[i]) * negative);
    weighted.push_back(ws[i % 4] * (pws[i % 4] * ps[i] * positive + (1 - ps[i]) * negative));
  }
  check_close(F::mse_loss(x, t), {sum(squares) / 12});
  check_close(nn::MSELoss(nn::MSELossOptions(kNone))(x, t), squares);
  check_close(nn::L1Loss()(x, t), {sum(distances) / 12});
  check_close(F::l1_loss(x, t, kSum), {sum(distances)});
  check_close(nn::BCEWithLogitsLoss()(x, p), {sum(bce) / 12}, 1e-11);
  check_close(nn::BCEWithLogitsLoss(nn::BCEWithLogitsLossOptions().weight(w).pos_weight(pw).reduction(kNone))(x, p), weighted, 1e-11);
  CHECK(frit::binary_cross_entropy_with_logits(tensor({-800., 800.}, kFloat64), tensor({0., 1.}, kFloat64)).item<double>() == Approx(0).margin(1e-300));
  CHECK(autograd::gradcheck(
      [&](const auto& in) {
        return autograd::variable_list{F::mse_loss(in[0], in[1]), F::l1_loss(in[0], in[1], kSum), frit::binary_cross_entropy_with_logits(in[0], in[2], w, pw)};
      },
      {x, t, p}));
  CHECK_THROWS_WITH(frit::binary_cross_entropy_with_logits(x, random({3})), Contains("[3, 4]") && Contains("[3]"));
  CHECK(autograd::gradgradcheck([&](const auto& in) { return autograd::variable_list{F::mse_loss(in[0], in[1]), F::cross_entropy(in[0], p)}; }, {x, t}));
}

// ---- a whole model, clipping --------------------------------------------------------------------------------------------
TEST_CASE("nn: a model's gradients agree with differences") {
  manual_seed(31);
  Net net;
  net.to(kFloat64);
  const Tensor x = random({6, 3});
  check_parameter_gradients(net, [&] { return net.forward(x); });
}

TEST_CASE("nn: clip_grad_norm_ scales by the joint norm, clip_grad_value_ clamps") {
  const double norm_type = GENERATE(1.0, 2.0, 3.0, std::numeric_limits<double>::infinity());
  const double limit = GENERATE(0.5, 1e6);
  std::vector<Tensor> parameters{zeros({2, 3}, dtype(kFloat64).requires_grad(true)), zeros({4}, dtype(kFloat64).requires_grad(true)),
                                 zeros({5}, dtype(kFloat64).requires_grad(true))};
  double total = 0;
  std::vector<std::vector<double>> before;
  for (size_t i = 0; i < 2; ++i) {
    parameters[i].set_grad(random(parameters[i].sizes()));
    before.push_back(values(parameters[i].grad()));
    for (double g : before.back()) total = std::isinf(norm_type) ? std::max(total, std::abs(g)) : total + std::pow(std::abs(g), norm_type);
  }
  if (!std::isinf(norm_type)) total = std::pow(total, 1 / norm_type);
  CHECK(double(nn::utils::clip_grad_norm_(parameters, limit, norm_type)) == Approx(total));
  const double scale = std::min(1.0, limit / (total + 1e-6));
  for (size_t i = 0; i < 2; ++i) {
    for (double& g : before[i]) g *= scale;
    check_close(parameters[i].grad(), before[i], 1e-10);
  }
  CHECK_FALSE(parameters[2].grad().defined());
  nn::utils::clip_grad_value_(parameters, 0.01);
  for (double g : values(parameters[0].grad())) CHECK(std::abs(g) <= 0.01);
  parameters[0].set_grad(full({2, 3}, NAN, kFloat64));
  CHECK_THROWS_WITH(nn::utils::clip_grad_norm_(parameters, 1, 2, true), Contains("clip_grad_norm_") && Contains("not finite"));
  CHECK(double(nn::utils::clip_grad_norm_(std::vector<Tensor>{parameters[2]}, 1)) == 0);
}
