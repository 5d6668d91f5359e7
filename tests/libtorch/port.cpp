// A program for LibTorch that is built against both libraries from this one source: a classifier of points on spirals, with modules,
// Sequential, a function with its own gradient, a penalty on the gradient, AdamW, a schedule, a DataLoader and indexing. Nothing in it
// is random, so that both print the same. Start reading at main.
#ifdef USE_TORCH
#include <torch/torch.h>
#else
#include <frit/torch.h>
#endif
#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using torch::indexing::Ellipsis;
using torch::indexing::None;
using torch::indexing::Slice;

namespace {

// ---- a function with a gradient of its own: x * sigmoid(slope * x) --------------------------------------------------------
struct Swish : torch::autograd::Function<Swish> {
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, torch::Tensor x, double slope) {
    ctx->save_for_backward({x});
    ctx->saved_data["slope"] = slope;
    return x * torch::sigmoid(x * slope);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grad) {
    const auto saved = ctx->get_saved_variables();
    const double slope = ctx->saved_data["slope"].toDouble();
    const torch::Tensor s = torch::sigmoid(saved[0] * slope);
    return {grad[0] * (s + saved[0] * slope * s * (1 - s)), torch::Tensor()};
  }
};
torch::Tensor swish(const torch::Tensor& x, double slope) { return Swish::apply(x, slope); }

// ---- data: points of three spiral arms ------------------------------------------------------------------------------------
struct Spirals : torch::data::datasets::Dataset<Spirals> {
  torch::Tensor points, arms;

  explicit Spirals(int64_t count) {
    const torch::Tensor i = torch::arange(count, torch::kFloat64);
    arms = torch::arange(count, torch::kInt64).remainder(3);
    const torch::Tensor radius = (i + 1) / count;
    const torch::Tensor angle = radius * 4 + arms.to(torch::kFloat64) * (2 * M_PI / 3) + torch::sin(i * 12.9898) * 0.1;
    points = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1).to(torch::kFloat32);
  }
  torch::data::Example<> get(size_t index) override { return {points[int64_t(index)], arms[int64_t(index)]}; }
  torch::optional<size_t> size() const override { return size_t(points.size(0)); }
};

// ---- the model --------------------------------------------------------------------------------------------------------------
struct ResidualImpl : torch::nn::Module {
  torch::nn::Linear up{nullptr}, down{nullptr};
  torch::nn::LayerNorm norm{nullptr};

  explicit ResidualImpl(int64_t width) {
    up = register_module("up", torch::nn::Linear(width, 2 * width));
    down = register_module("down", torch::nn::Linear(torch::nn::LinearOptions(2 * width, width).bias(false)));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  }
  torch::Tensor forward(torch::Tensor x) { return x + down->forward(torch::gelu(up->forward(norm->forward(x)))); }
};
TORCH_MODULE(Residual);

struct Net : torch::nn::Module {
  torch::nn::Sequential body{nullptr};
  torch::nn::Linear head{nullptr};
  torch::Tensor scale;

  Net(int64_t width, int64_t classes) {
    body = register_module("body", torch::nn::Sequential(torch::nn::Linear(2, width), torch::nn::Functional(swish, 1.5), Residual(width),
                                                         torch::nn::Dropout(0.3), torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})), torch::nn::Tanh()));
    head = register_module("head", torch::nn::Linear(width, classes));
    scale = register_parameter("scale", torch::ones({classes}));
    register_buffer("steps", torch::zeros({}, torch::kInt64));
  }
  torch::Tensor forward(torch::Tensor x) { return head(body->forward(x)) * scale; }
};

// Values by a formula: both libraries start from the same.
void initialise(torch::nn::Module& net) {
  torch::NoGradGuard no_grad;
  double phase = 0;
  for (auto& p : net.named_parameters()) {
    phase += 1;
    const bool is_matrix = p.value().dim() == 2;
    if (!is_matrix && p.key().find("bias") == std::string::npos) continue;  // scales stay ones
    const torch::Tensor wave = torch::sin(torch::arange(p.value().numel(), torch::kFloat64) * 1.7 + phase);
    p.value().copy_(wave.view(p.value().sizes()) * (is_matrix ? std::sqrt(2.0 / double(p.value().size(1))) : 0.1));
  }
}

void show(const std::string& name, double value) { std::printf("%s %.5g\n", name.c_str(), value); }

// ---- training ---------------------------------------------------------------------------------------------------------------
void train(Net& net, int64_t epochs) {
  auto set = Spirals(240).map(torch::data::transforms::Stack<>());
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(std::move(set), torch::data::DataLoaderOptions().batch_size(48));
  torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(0.01).betas({0.9, 0.99}).weight_decay(0.02));
  torch::optim::StepLR schedule(optimizer, 4, 0.5);
  net.eval();  // dropout draws random numbers
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    double loss_sum = 0, penalty_sum = 0, norm_sum = 0;
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      const torch::Tensor x = batch.data.clone().requires_grad_();
      const torch::Tensor logits = net.forward(x);
      const torch::Tensor loss = torch::nn::functional::cross_entropy(logits, batch.target);
      const torch::Tensor slope = torch::autograd::grad({logits.logsumexp(1).sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
      const torch::Tensor penalty = slope.pow(2).sum(1).mean();
      (loss + 0.01 * penalty).backward();
      norm_sum += torch::nn::utils::clip_grad_norm_(net.parameters(), 1.0);
      optimizer.step();
      loss_sum += loss.item<double>(), penalty_sum += penalty.item<double>();
    }
    schedule.step();
    const std::string name = "epoch " + std::to_string(epoch);
    show(name + " loss", loss_sum), show(name + " penalty", penalty_sum), show(name + " norm", norm_sum);
  }
  show("rate", optimizer.param_groups()[0].options().get_lr());
}

// ---- what came out ------------------------------------------------------------------------------------------------------------
void evaluate(Net& net) {
  torch::NoGradGuard no_grad;
  const Spirals test(90);
  const torch::Tensor logits = net.forward(test.points), choice = logits.argmax(1);
  show("accuracy", choice.eq(test.arms).to(torch::kFloat32).mean().item<double>());
  torch::Tensor confusion = torch::zeros({9}, torch::kInt64);
  confusion.scatter_add_(0, test.arms * 3 + choice, torch::ones_like(choice));
  std::cout << "confusion\n" << confusion.view({3, 3}) << "\n";
  const torch::Tensor best = std::get<0>(logits.softmax(1).max(1));
  const auto [values, order] = best.sort(0);
  std::cout << "least certain\n" << values.slice(0, 0, 4) << "\n";
  show("entropy", -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean().item<double>());
}

void index_things() {
  torch::Tensor a = torch::arange(24, torch::kFloat32).view({2, 3, 4});
  std::cout << "slices\n" << a.index({1, Slice(None, None, 2), Slice(1, 3)}) << "\n";
  std::cout << "ellipsis " << a.index({Ellipsis, -1}).sum().item<float>() << " " << a.index({None, Slice(), 0}).sizes().size() << "\n";
  a.index_put_({a > 20}, -1);
  a.index_put_({0, torch::tensor({0, 2}), Slice()}, torch::full({2, 4}, 7.f));
  std::cout << "written " << a.sum().item<float>() << " " << a.index({a < 0}).numel() << "\n";
  const torch::Tensor rows = a[0].index({torch::tensor({2, 0, 2})});
  std::cout << "rows\n" << rows << "\n";
  std::cout << "einsum\n" << torch::einsum("ij,kj->ik", {a[0], a[1]}) << "\n";
  std::cout << torch::cat({torch::arange(3), torch::full({2}, 9, torch::kInt64)}) << "\n";
  std::cout << torch::where(a[1] > 15, a[1], torch::zeros({})) << "\n";
}

void differentiate() {
  const torch::Tensor x = torch::linspace(-2, 2, 5, torch::kFloat64).requires_grad_();
  const torch::Tensor y = (Swish::apply(x, 2.0) * x.exp()).sum();
  const torch::Tensor first = torch::autograd::grad({y}, {x}, {}, true, true)[0];
  const torch::Tensor second = torch::autograd::grad({first.sum()}, {x}, {}, true, true)[0];
  const torch::Tensor third = torch::autograd::grad({second.sum()}, {x})[0];
  std::cout << "derivatives\n" << torch::stack({first, second, third}).detach() << "\n";
  torch::Tensor hooked = x * 2;
  hooked.register_hook([](torch::Tensor g) { return g * 10; });
  hooked.retain_grad();
  hooked.square().sum().backward();
  std::cout << "hook " << x.grad()[0].item<double>() << " " << hooked.grad()[1].item<double>() << "\n";
}

}  // namespace

int main() {
  Net net(16, 3);
  initialise(net);
  int64_t parameters = 0;
  for (const auto& p : net.named_parameters()) {
    std::printf("%s %lld\n", p.key().c_str(), (long long)p.value().numel());
    parameters += p.value().numel();
  }
  std::printf("parameters %lld\n", (long long)parameters);
  std::fflush(stdout);
  train(net, 8);
  std::fflush(stdout);
  evaluate(net);
  std::cout.flush();

  std::stringstream stream;
  torch::save(net.head, stream);
  torch::nn::Linear copy(16, 3);
  torch::load(copy, stream);
  show("saved", (copy->weight - net.head->weight).abs().max().item<double>());
  std::fflush(stdout);
  index_things();
  differentiate();
  return 0;
}
