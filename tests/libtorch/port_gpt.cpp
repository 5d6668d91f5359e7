// A small GPT for LibTorch, built against both libraries from this one source: causal attention with a mask in a buffer, embeddings with tied
// weights, ModuleList, weight decay for matrices alone, a cosine schedule with warm-up by hand, accumulation of gradients, top-k and nucleus
// sampling from a sequence of its own. Both print the same. Start reading at main.
#ifdef USE_TORCH
#include <torch/torch.h>
#else
#include <frit/torch.h>
#endif
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

using namespace torch::indexing;
using torch::Tensor;
namespace nn = torch::nn;

namespace {
struct Config {
  int64_t vocabulary = 28, context = 24, layers = 2, heads = 2, width = 32;
  double dropout = 0.0;
};

struct CausalSelfAttentionImpl : nn::Module {
  int64_t heads, width;
  nn::Linear qkv{nullptr}, projection{nullptr};
  nn::Dropout attention_dropout{nullptr}, residual_dropout{nullptr};
  Tensor mask;
  explicit CausalSelfAttentionImpl(const Config& c) : heads(c.heads), width(c.width) {
    TORCH_CHECK(c.width % c.heads == 0, "width ", c.width, " is no multiple of ", c.heads);
    qkv = register_module("qkv", nn::Linear(c.width, 3 * c.width));
    projection = register_module("projection", nn::Linear(nn::LinearOptions(c.width, c.width).bias(true)));
    attention_dropout = register_module("attention_dropout", nn::Dropout(nn::DropoutOptions(c.dropout)));
    residual_dropout = register_module("residual_dropout", nn::Dropout(c.dropout));
    mask = register_buffer("mask", torch::tril(torch::ones({c.context, c.context})).view({1, 1, c.context, c.context}));
  }
  Tensor forward(const Tensor& x) {
    const auto B = x.size(0), T = x.size(1), C = x.size(2);
    auto parts = qkv(x).split(width, 2);
    auto q = parts[0].view({B, T, heads, C / heads}).transpose(1, 2), k = parts[1].view({B, T, heads, C / heads}).transpose(1, 2), v = parts[2].view({B, T, heads, C / heads}).transpose(1, 2);
    auto attention = q.matmul(k.transpose(-2, -1)) * (1.0 / std::sqrt(static_cast<double>(k.size(-1))));
    attention = attention.masked_fill(mask.index({Slice(), Slice(), Slice(None, T), Slice(None, T)}) == 0, -std::numeric_limits<float>::infinity());
    attention = torch::softmax(attention, -1);
    attention = attention_dropout(attention);
    auto y = torch::matmul(attention, v).transpose(1, 2).contiguous().view({B, T, C});
    return residual_dropout(projection(y));
  }
};
TORCH_MODULE(CausalSelfAttention);

struct BlockImpl : nn::Module {
  nn::LayerNorm ln1, ln2;
  CausalSelfAttention attention;
  nn::Sequential mlp;
  explicit BlockImpl(const Config& c)
      : ln1(nn::LayerNormOptions({c.width})), ln2(nn::LayerNormOptions({c.width}).eps(1e-5)), attention(c), mlp(nn::Linear(c.width, 4 * c.width), nn::GELU(), nn::Linear(4 * c.width, c.width), nn::Dropout(c.dropout)) {
    register_module("ln1", ln1);
    register_module("attention", attention);
    register_module("ln2", ln2);
    register_module("mlp", mlp);
  }
  Tensor forward(Tensor x) {
    x = x + attention(ln1(x));
    x = x + mlp->forward(ln2(x));
    return x;
  }
};
TORCH_MODULE(Block);

struct GPTImpl : nn::Module {
  Config c;
  nn::Embedding tokens{nullptr}, positions{nullptr};
  nn::ModuleList blocks;
  nn::LayerNorm norm{nullptr};
  nn::Linear head{nullptr};
  explicit GPTImpl(Config config) : c(config) {
    tokens = register_module("tokens", nn::Embedding(c.vocabulary, c.width));
    positions = register_module("positions", nn::Embedding(nn::EmbeddingOptions(c.context, c.width)));
    for (int64_t i = 0; i < c.layers; ++i) blocks->push_back(Block(c));
    register_module("blocks", blocks);
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({c.width})));
    head = register_module("head", nn::Linear(nn::LinearOptions(c.width, c.vocabulary).bias(false)));
    tokens->weight = head->weight;  // tied
  }
  std::tuple<Tensor, Tensor> forward(const Tensor& ids, const Tensor& targets = {}) {
    const auto T = ids.size(1);
    TORCH_CHECK(T <= c.context, "a sequence of ", T, " tokens does not fit into ", c.context);
    Tensor x = torch::embedding(head->weight, ids) + positions(torch::arange(T, torch::TensorOptions().dtype(torch::kLong).device(ids.device())));
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    Tensor logits = head(norm(x));
    Tensor loss;
    if (targets.defined())
      loss = nn::functional::cross_entropy(logits.view({-1, logits.size(-1)}), targets.reshape(-1), nn::functional::CrossEntropyFuncOptions().ignore_index(-1));
    return std::make_tuple(logits, loss);
  }
};
TORCH_MODULE(GPT);

void initialise(GPT& model) {
  torch::NoGradGuard no_grad;
  int64_t phase = 0;
  for (auto& module : model->modules(/*include_self=*/false)) {
    if (auto* linear = module->as<nn::LinearImpl>()) {
      linear->weight.copy_(torch::cos(torch::arange(linear->weight.numel(), torch::kDouble) * 1.9 + double(++phase)).view_as(linear->weight) * 0.12);
      if (linear->bias.defined()) nn::init::zeros_(linear->bias);
    } else if (auto* embedding = module->as<nn::Embedding>()) {
      embedding->weight.copy_(torch::sin(torch::arange(embedding->weight.numel(), torch::kDouble) * 2.3 + double(++phase)).view(embedding->weight.sizes()) * 0.1);
    } else if (auto* norm = module->as<nn::LayerNorm>()) {
      norm->weight.fill_(1.0);
      norm->bias.zero_();
    }
  }
}

std::vector<int64_t> encode(const std::string& text) {
  std::vector<int64_t> ids;
  for (char ch : text) ids.push_back(ch == ' ' ? 26 : ch == '.' ? 27 : ch - 'a');
  return ids;
}
std::string decode(const Tensor& ids) {
  std::string s;
  auto accessor = ids.accessor<int64_t, 1>();
  for (int64_t i = 0; i < accessor.size(0); ++i) s += accessor[i] == 26 ? ' ' : accessor[i] == 27 ? '.' : char('a' + accessor[i]);
  return s;
}

// From the k likeliest, or from those that make up p: by a number in [0, 1).
Tensor sample(Tensor logits, double temperature, int64_t k, double p, double number) {
  logits = logits / temperature;
  if (k > 0) {
    auto [values, indices] = torch::topk(logits, std::min<int64_t>(k, logits.size(-1)));
    logits = torch::where(logits < values.index({Ellipsis, Slice(-1, None)}), torch::full_like(logits, -INFINITY), logits);
  }
  Tensor probabilities = torch::softmax(logits, -1);
  auto [sorted, order] = probabilities.sort(-1, /*descending=*/true);
  Tensor total = sorted.cumsum(-1);
  sorted = sorted.masked_fill((total - sorted) > p, 0.0);
  sorted /= sorted.sum(-1, /*keepdim=*/true);
  Tensor choice = (sorted.cumsum(-1) < number).sum(-1, true).clamp_max(sorted.size(-1) - 1);
  return order.gather(-1, choice);
}
}  // namespace

int main() {
  torch::set_num_threads(1);
  const std::string text = "the cat sat on the mat. the dog sat on the log. a cat and a dog met on the mat. the log lay on the dog. ";
  Config config;
  GPT model(config);
  initialise(model);
  const Tensor ids = torch::tensor(encode(text + text), torch::dtype(torch::kInt64));
  std::vector<Tensor> decayed, others;
  for (auto& p : model->named_parameters(/*recurse=*/true)) {
    if (p.key() == "tokens.weight") continue;  // tied
    (p->dim() >= 2 ? decayed : others).emplace_back(p.value());
  }
  std::vector<torch::optim::OptimizerParamGroup> groups{torch::optim::OptimizerParamGroup(decayed), torch::optim::OptimizerParamGroup(others, std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions().weight_decay(0.0)))};
  torch::optim::AdamW optimizer(std::move(groups), torch::optim::AdamWOptions(3e-3).weight_decay(0.1).betas({0.9, 0.95}).eps(1e-8));
  std::cout << "groups " << optimizer.param_groups().size() << " of " << decayed.size() << " and " << others.size() << "\n";
  const int steps = 40, warm = 5;
  for (int step = 0; step < steps; ++step) {
    const double progress = double(std::max(0, step - warm)) / (steps - warm);
    const double rate = step < warm ? 3e-3 * (step + 1) / warm : 3e-4 + 0.5 * (3e-3 - 3e-4) * (1 + std::cos(M_PI * progress));
    for (auto& group : optimizer.param_groups()) static_cast<torch::optim::AdamWOptions&>(group.options()).lr(rate);
    double sum = 0;
    for (int micro = 0; micro < 2; ++micro) {
      std::vector<Tensor> xs, ys;
      for (int b = 0; b < 4; ++b) {
        const int64_t at = (step * 17 + micro * 41 + b * 13) % (ids.size(0) - config.context - 1);
        xs.push_back(ids.slice(0, at, at + config.context));
        ys.push_back(ids.narrow(0, at + 1, config.context));
      }
      auto [logits, loss] = model->forward(torch::stack(xs), torch::stack(ys));
      (loss / 2).backward();
      sum += loss.item<double>() / 2;
    }
    const double norm = nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    optimizer.zero_grad();
    if (step % 8 == 0 || step == steps - 1) std::printf("step %d loss %.4f norm %.3f rate %.5f\n", step, sum, norm, rate);
  }
  std::fflush(stdout);
  model->eval();
  torch::InferenceMode inference;
  uint64_t state = 5;
  for (const bool greedy : {true, false}) {
    Tensor out = torch::tensor(encode("the "), torch::kLong).unsqueeze(0);
    for (int i = 0; i < 30; ++i) {
      const Tensor window = out.size(1) <= config.context ? out : out.index({Slice(), Slice(-config.context, None)});
      Tensor logits = std::get<0>(model->forward(window)).index({Slice(), -1, Slice()});
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const double number = double(state >> 40) * 0x1p-24;
      Tensor next = greedy ? logits.argmax(-1, /*keepdim=*/true) : sample(logits, 0.9, 5, 0.95, number);
      out = torch::cat({out, next}, 1);
    }
    std::cout << (greedy ? "greedy: " : "sampled: ") << decode(out[0]) << std::endl;
  }
  try {
    model->forward(torch::zeros({1, 99}, torch::kLong));
  } catch (const c10::Error& e) {
    std::cout << "refused " << std::string(e.what()).substr(0, 44) << "\n";
  }
  std::stringstream shown;
  shown << *model;
  std::cout << shown.str().substr(0, 9) << "\n";
  return 0;
}
