// A variational autoencoder for LibTorch, built against both libraries from this one source: convolutions and transposed ones replaced by
// reshapes, a latent of mean and deviation, two losses, saving of module and optimiser, parameter groups, training that goes on from the
// files. What is random comes from a sequence of its own, so that both print the same. Start reading at main.
#ifdef USE_TORCH
#include <torch/torch.h>
#else
#include <frit/torch.h>
#endif
#include <cmath>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <string>
#include <tuple>
#include <vector>

namespace F = torch::nn::functional;

namespace {
// The same numbers in both libraries.
class Source {
 public:
  explicit Source(uint64_t seed) : state_(seed) {}
  float uniform() { return float(((state_ = state_ * 6364136223846793005ull + 1442695040888963407ull) >> 40) * 0x1p-24); }
  torch::Tensor normal(at::IntArrayRef sizes) {
    int64_t n = 1;
    for (auto e : sizes) n *= e;
    std::vector<float> v(n);
    for (auto& x : v) x = std::sqrt(-2 * std::log(uniform() + 1e-7f)) * std::cos(6.2831853f * uniform());
    return torch::from_blob(v.data(), sizes, torch::TensorOptions().dtype(torch::kFloat32)).clone();
  }

 private:
  uint64_t state_;
};

struct VAEOutput {
  torch::Tensor reconstruction, mu, log_var;
};

class VAEImpl : public torch::nn::Module {
 public:
  VAEImpl(int64_t image_size, int64_t h_dim, int64_t z_dim)
      : fc1(torch::nn::Linear(image_size, h_dim)), fc2(h_dim, z_dim), fc3(h_dim, z_dim), fc4(z_dim, h_dim), fc5(h_dim, image_size) {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    register_module("fc3", fc3);
    register_module("fc4", fc4);
    register_module("fc5", fc5);
    beta_ = register_parameter("beta", torch::tensor(1.0f), /*requires_grad=*/false);
  }
  std::pair<torch::Tensor, torch::Tensor> encode(torch::Tensor x) {
    auto h = torch::nn::functional::relu(fc1->forward(x));
    return {fc2->forward(h), fc3->forward(h)};
  }
  torch::Tensor reparameterize(const torch::Tensor& mu, const torch::Tensor& log_var, const torch::Tensor& noise) {
    if (!is_training()) return mu;
    auto std = log_var.div(2).exp();
    return mu + std * noise.to(mu.device());
  }
  torch::Tensor decode(torch::Tensor z) {
    auto h = F::elu(fc4->forward(z), F::ELUFuncOptions().alpha(0.7));
    return torch::sigmoid(fc5->forward(h));
  }
  VAEOutput forward(torch::Tensor x, const torch::Tensor& noise) {
    auto encoded = encode(x);
    auto& mu = encoded.first;
    auto& log_var = encoded.second;
    auto z = reparameterize(mu, log_var, noise);
    return {decode(z), mu, log_var};
  }

 private:
  torch::nn::Linear fc1, fc2, fc3, fc4, fc5;
  torch::Tensor beta_;
};
TORCH_MODULE(VAE);

void initialise(torch::nn::Module& m) {
  torch::NoGradGuard guard;
  Source source(7);
  for (auto& pair : m.named_parameters()) {
    auto& p = pair.value();
    if (p.dim() >= 2) p.copy_(source.normal(p.sizes()) / std::sqrt(static_cast<double>(p.size(-1))));
    else if (pair.key() != "beta") torch::nn::init::constant_(p, 0.01);
  }
}

torch::Tensor pictures(int64_t count, int64_t side) {
  auto x = torch::linspace(-1, 1, side).unsqueeze(0), y = torch::linspace(-1, 1, side).unsqueeze(1);
  std::vector<torch::Tensor> list;
  for (int64_t i = 0; i < count; ++i) {
    const double radius = 0.3 + 0.05 * (i % 10), shift = 0.1 * (i % 3) - 0.1;
    list.push_back(((x - shift).square() + y.square()).le(radius).to(torch::kFloat));
  }
  return torch::stack(list).flatten(1);
}

double epoch(VAE& model, torch::optim::Optimizer& optimizer, const torch::Tensor& data, Source& source) {
  model->train();
  double total = 0;
  for (const auto& batch : data.split(16)) {
    auto output = model->forward(batch, source.normal({batch.size(0), 4}));
    auto reconstruction = F::binary_cross_entropy(output.reconstruction, batch, F::BinaryCrossEntropyFuncOptions().reduction(torch::kSum));
    auto kl = -0.5 * torch::sum(1 + output.log_var - output.mu.pow(2) - output.log_var.exp());
    auto loss = (reconstruction + kl) / batch.size(0);
    optimizer.zero_grad();
    loss.backward();
    torch::nn::utils::clip_grad_value_(model->parameters(), 5.0);
    optimizer.step();
    total += loss.item<double>();
  }
  return total;
}
}  // namespace

int main() {
  torch::manual_seed(1);
  torch::Device device("cpu");
  if (torch::cuda::is_available()) device = torch::Device(torch::kCUDA);
  std::cout << "Training on " << (device.type() == torch::kCUDA ? "gpu" : "cpu") << " " << device << '\n';
  VAE model(64, 24, 4);
  model->to(device);
  initialise(*model);
  int64_t trainable = 0;
  for (auto& p : model->parameters())
    if (p.requires_grad()) trainable += p.numel();
  std::cout << "trainable " << trainable << "\n";

  std::vector<torch::Tensor> weights, biases;
  for (const auto& p : model->named_parameters()) (p.key().find("weight") != std::string::npos ? weights : biases).push_back(p.value());
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(weights, std::make_unique<torch::optim::AdamOptions>(torch::optim::AdamOptions(2e-3).weight_decay(1e-4)));
  groups.emplace_back(biases);
  torch::optim::Adam optimizer(groups, torch::optim::AdamOptions(5e-3).betas(std::make_tuple(0.9, 0.95)));
  const auto data = pictures(48, 8);
  Source source(99);
  std::cout << std::fixed << std::setprecision(2);
  for (int i = 0; i < 6; ++i) std::cout << "epoch " << i << " loss " << epoch(model, optimizer, data, source) << std::endl;

  // The rest from files, as in a run that was interrupted.
  const std::string folder = std::getenv("PORT_FOLDER") ? std::getenv("PORT_FOLDER") : ".";
  torch::save(model, folder + "/vae_model.pt");
  torch::save(optimizer, folder + "/vae_optimizer.pt");
  VAE again(64, 24, 4);
  torch::load(again, folder + "/vae_model.pt");
  std::vector<torch::optim::OptimizerParamGroup> groups_again;
  std::vector<torch::Tensor> w, b;
  for (const auto& p : again->named_parameters()) (p.key().find("weight") != std::string::npos ? w : b).push_back(p.value());
  groups_again.emplace_back(w, std::make_unique<torch::optim::AdamOptions>(torch::optim::AdamOptions(2e-3).weight_decay(1e-4)));
  groups_again.emplace_back(b);
  torch::optim::Adam optimizer_again(groups_again, torch::optim::AdamOptions(5e-3).betas(std::make_tuple(0.9, 0.95)));
  torch::load(optimizer_again, folder + "/vae_optimizer.pt");
  std::cout << "resumed " << epoch(again, optimizer_again, data, source) << "\n";

  torch::serialize::OutputArchive archive;
  again->save(archive);
  optimizer_again.save(archive);
  archive.save_to(folder + "/vae_all.pt");
  torch::serialize::InputArchive in;
  in.load_from(folder + "/vae_all.pt");
  model->load(in);
  again->eval();
  model->eval();
  torch::NoGradGuard no_grad;
  const auto out = again->forward(data.slice(0, 0, 3), {});
  const auto same = model->forward(data.slice(0, 0, 3), {});
  std::cout << "loaded " << torch::allclose(out.reconstruction, same.reconstruction) << " " << torch::equal(out.mu, same.mu) << "\n";
  std::cout << std::setprecision(4) << "mean " << out.reconstruction.mean().item().toDouble() << " " << out.log_var.exp().max().item().to<float>() << "\n";
  const auto grid = out.reconstruction.view({3, 8, 8}).transpose(0, 1).reshape({8, 24}).mul(9).round().to(torch::kInt);
  std::cout << grid.index({torch::indexing::Slice(2, 6), torch::indexing::Slice(0, 8)}) << "\n";
  std::cout << "mse " << F::mse_loss(out.reconstruction, data.slice(0, 0, 3), torch::nn::MSELossOptions(torch::kMean)).item<float>() << " "
            << torch::nn::L1Loss()(out.mu, torch::zeros_like(out.mu)).item<float>() << " " << F::smooth_l1_loss(out.mu, torch::ones_like(out.mu)).item<float>() << " "
            << F::kl_div(F::log_softmax(out.mu, F::LogSoftmaxFuncOptions(1)), F::softmax(out.log_var, 1), F::KLDivFuncOptions().reduction(torch::kBatchMean)).item<float>() << "\n";
  return 0;
}
