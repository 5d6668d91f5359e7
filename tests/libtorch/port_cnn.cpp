// A network of convolutions for LibTorch, built against both libraries from this one source: BatchNorm in training and evaluation, residual
// blocks, augmentations by flips, crops and erasing on the data's side, a custom dataset with a transform and a batch collation, SGD with
// momentum and Nesterov's step, a StepLR, label smoothing, top-5 accuracy, a confusion matrix, statistics frozen and thawed. Both print the
// same: what is random comes from a sequence of its own. Start reading at main.
#ifdef USE_TORCH
#include <torch/torch.h>
#else
#include <frit/torch.h>
#endif
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

using torch::Tensor;
using torch::indexing::Slice;
namespace F = torch::nn::functional;

namespace {
uint64_t state = 3;
double uniform() { return double((state = state * 6364136223846793005ull + 1442695040888963407ull) >> 40) * 0x1p-24; }
int64_t below(int64_t n) { return int64_t(uniform() * double(n)); }

// ---- data -------------------------------------------------------------------------------------------------------------------
struct Augment : torch::data::transforms::TensorTransform<Tensor> {
  Tensor operator()(Tensor image) override {
    if (uniform() < 0.5) image = torch::flip(image, {-1});
    const int64_t size = image.size(1);
    Tensor padded = F::pad(image, F::PadFuncOptions({1, 1, 1, 1}).mode(torch::kConstant).value(0.0));
    const int64_t y = below(3), x = below(3);
    image = padded.index({Slice(), Slice(y, y + size), Slice(x, x + size)}).clone();
    if (uniform() < 0.3) image.index({Slice(), Slice(2, 4), Slice(1, 4)}).zero_();
    return image;
  }
};
class Stripes : public torch::data::datasets::Dataset<Stripes> {
 public:
  explicit Stripes(int64_t count) {
    images_ = torch::empty({count, 3, 10, 10});
    labels_ = torch::empty({count}, torch::kLong);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t kind = i % 6;
      const Tensor grid = torch::arange(10, torch::kFloat32), wave = torch::sin(grid * (0.5 + 0.4 * double(kind % 3)) + double(i));
      images_[i] = (kind < 3 ? wave.view({1, 1, 10}) : wave.view({1, 10, 1})).expand({3, 10, 10}) * torch::tensor({1.0, 0.5, -0.7}).view({3, 1, 1});
      labels_[i] = kind;
    }
  }
  torch::data::Example<> get(size_t index) override { return {images_[index], labels_[index]}; }
  torch::optional<size_t> size() const override { return images_.size(0); }
  const Tensor& images() const { return images_; }
  const Tensor& labels() const { return labels_; }

 private:
  Tensor images_, labels_;
};

// ---- the model --------------------------------------------------------------------------------------------------------------
struct ResidualImpl : torch::nn::Module {
  torch::nn::Conv2d conv1, conv2;
  torch::nn::BatchNorm2d bn1, bn2;
  torch::nn::Sequential down;
  ResidualImpl(int64_t in, int64_t out, int64_t stride)
      : conv1(torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)), conv2(torch::nn::Conv2dOptions(out, out, /*kernel_size=*/3).padding(1).bias(false)), bn1(out),
        bn2(torch::nn::BatchNorm2dOptions(out).momentum(0.2)) {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    register_module("conv2", conv2);
    register_module("bn2", bn2);
    if (stride != 1 || in != out) down = torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)), torch::nn::BatchNorm2d(out));
    register_module("down", down);
  }
  Tensor forward(const Tensor& x) {
    Tensor y = torch::relu(bn1->forward(conv1->forward(x)));
    y = bn2(conv2(y));
    y += down->is_empty() ? x : down->forward(x);
    return torch::relu_(y);
  }
};
TORCH_MODULE(Residual);

struct Net : torch::nn::Module {
  torch::nn::Sequential features{
      torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, {3, 3}).padding({1, 1}).padding_mode(torch::kZeros)), torch::nn::BatchNorm2d(8), torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)),
      torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)), Residual(8, 8, 1), Residual(8, 16, 2), torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions({1, 1})), torch::nn::Flatten()};
  torch::nn::Linear classifier{16, 6};
  Net() {
    register_module("features", features);
    register_module("classifier", classifier);
    torch::NoGradGuard no_grad;
    int64_t k = 0;
    for (auto& pair : named_parameters()) {
      torch::Tensor& p = pair.value();
      ++k;
      if (pair.key().find("bias") != std::string::npos) p.zero_();
      if (p.dim() < 2) continue;
      const double scale = std::sqrt(2.0 / double(p.numel() / p.size(0)));
      p.set_data((torch::sin(torch::arange(p.numel(), torch::kFloat64) * 2.7 + double(k)) * scale).to(torch::kFloat32).view(p.sizes()));
    }
  }
  Tensor forward(Tensor x) { return classifier->forward(features->forward(x)); }
};

Tensor accuracy(const Tensor& logits, const Tensor& labels, int64_t k) {
  const Tensor best = std::get<1>(logits.topk(k, 1, true, true)).t();
  return best.eq(labels.view({1, -1}).expand_as(best)).to(torch::kFloat).sum(0).mean();
}
}  // namespace

int main() {
  torch::manual_seed(2);
  Net net;
  auto set = Stripes(72).map(Augment()).map(torch::data::transforms::Normalize<>(0.1, 0.9)).map(torch::data::transforms::Stack<>());
  std::cout << "set of " << set.size().value() << "\n";
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(std::move(set), torch::data::DataLoaderOptions().batch_size(24).workers(0).drop_last(true));
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(5e-4));
  torch::optim::StepLR scheduler(optimizer, /*step_size=*/2, /*gamma=*/0.3);
  torch::nn::CrossEntropyLoss criterion(torch::nn::CrossEntropyLossOptions().label_smoothing(0.1).reduction(torch::kMean));
  for (size_t epoch = 1; epoch <= 4; ++epoch) {
    net.train();
    if (epoch == 3) net.features->eval();  // the running statistics are used, and kept, for one epoch
    double running = 0.0;
    size_t index = 0, correct = 0;
    for (auto& batch : *loader) {
      auto data = batch.data.to(torch::kCPU), targets = batch.target.to(torch::kCPU, torch::kLong);
      optimizer.zero_grad();
      auto output = net.forward(data);
      auto loss = criterion(output, targets);
      AT_ASSERT(!std::isnan(loss.template item<float>()));
      loss.backward();
      optimizer.step();
      running += loss.item<double>() * data.size(0);
      correct += output.argmax(1).eq(targets).sum().item<int64_t>();
      ++index;
    }
    scheduler.step();
    std::printf("epoch %zu batches %zu loss %.3f rate %.4f\n", epoch, index, running, optimizer.param_groups().front().options().get_lr());
  }
  std::fflush(stdout);
  net.eval();
  torch::NoGradGuard no_grad;
  const Stripes test(36);
  const Tensor logits = net.forward((test.images() - 0.1) / 0.9);
  std::cout << "sizes " << logits.sizes() << " top5 " << accuracy(logits, test.labels(), 5).item<float>() << "\n";
  const Tensor pairs = test.labels() * 6 + logits.argmax(1);
  std::cout << "confusion rows " << torch::bincount(pairs, {}, 36).view({6, 6}).sum(1) << "\n";
  const auto* bn = net.features[1]->as<torch::nn::BatchNorm2d>();
  std::printf("running mean %.4f variance %.4f batches %lld\n", bn->running_mean.sum().item<double>(), bn->running_var.mean().item<double>(), (long long)bn->num_batches_tracked.item<int64_t>());
  for (const auto& b : net.named_buffers())
    if (b.key().find("tracked") != std::string::npos) std::cout << b.key() << " " << b.value().item<int64_t>() << "\n";
  std::cout.flush();
  std::printf("logits %.3f %.3f\n", logits.mean().item<double>(), logits.std().item<double>());
  const Tensor up = F::interpolate(logits.view({1, 1, 36, 6}), F::InterpolateFuncOptions().size(std::vector<int64_t>{18, 3}).mode(torch::kNearest));
  std::printf("interpolated %.3f\n", up.sum().item<double>());
  const Tensor pooled = torch::max_pool2d(test.images(), {2, 2}), averaged = torch::avg_pool2d(test.images(), 3, 2), unfolded = F::unfold(test.images().slice(0, 0, 2), F::UnfoldFuncOptions({3, 3}).padding(1).stride(2));
  std::cout << pooled.sizes() << averaged.sizes() << unfolded.sizes() << "\n";
  std::printf("%.3f %.3f %.3f\n", pooled.sum().item<double>(), averaged.sum().item<double>(), unfolded.abs().sum().item<double>());
  return 0;
}
