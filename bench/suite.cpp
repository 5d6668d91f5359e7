// The work of the performance targets (TARGETS P1 to P4, P6 to P8, P14, P16), built from this one source for Frit and for LibTorch, and driven by
// bench/compare, which starts one process for each side and has them measure in turn. Start reading at main; a row is a function that makes
// its inputs and returns what is timed. Inputs follow from formulas, so that every side has the same.
//
//   suite [eager|automatic|compiled [THREADS [cpu]]]      the mode (Frit); cpu: processor time. Reads commands on the standard input:
//   about             ->  what this side is
//   rows              ->  the names of all rows
//   prepare ROW       ->  ok HASH COUNT v v v …   hash of all results' bits, and samples of them    | no REASON
//   time              ->  seconds of one run, the mean over as many as fill some milliseconds
//   peak              ->  bytes that one run held at most, by the allocator
#ifdef USE_TORCH
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>
#include <ATen/Config.h>
#include <ATen/Version.h>
#else
#include <frit/torch.h>
#include "runtime/cpu.h"
#endif
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

using torch::Tensor;
namespace nn = torch::nn;
namespace F = torch::nn::functional;
using Tensors = std::vector<Tensor>;

namespace {

// By the wall, or the time that the process ran: the latter where others use the machine, too.
bool by_cpu_time = false;
double seconds() {
  timespec now;
  clock_gettime(by_cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// ---- what differs between the sides -----------------------------------------------------------------------------------------------------
#ifdef USE_TORCH
std::atomic<int64_t> held{0}, most{0};
// As LibTorch's own, with the size in front.
struct CountingAllocator : c10::Allocator {
  static constexpr size_t head = 64;
  c10::DataPtr allocate(size_t bytes) const override {
    void* base = nullptr;
    if (posix_memalign(&base, head, bytes + head) != 0) throw std::bad_alloc();
    *static_cast<int64_t*>(base) = int64_t(bytes);
    const int64_t now = held += int64_t(bytes);
    for (int64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {}
    void* const data = static_cast<char*>(base) + head;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  static void release(void* data) {
    if (!data) return;
    void* const base = static_cast<char*>(data) - head;
    held -= *static_cast<int64_t*>(base);
    std::free(base);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
};
void finish() {}
void settle() {}
void reset_peak() { most = held.load(); }
int64_t peak() { return most; }
std::function<Tensors()> in_mode(const std::function<Tensors()>& f, const std::string&) { return f; }
std::string capability() {
  const std::string text = at::show_config(), label = "CPU capability usage: ";
  const size_t from = text.find(label);
  return from == std::string::npos ? "" : text.substr(from + label.size(), text.find('\n', from) - from - label.size());
}
std::string about(const std::string&) {
  const char* set = std::getenv("GLIBC_TUNABLES");
  return std::string("LibTorch ") + TORCH_VERSION + (set && *set ? ", tuned malloc" : "") + ", " + capability() + ", " + std::to_string(torch::get_num_threads()) + " thread(s)";
}
void begin(const std::string&) {
  static CountingAllocator counting;
  c10::SetCPUAllocator(&counting, 100);
}
#else
void finish() { frit::synchronize(); }
void settle() { frit::jit::wait_for_compiles(); }
void reset_peak() { frit::memory::reset_peak(); }
int64_t peak() { return frit::memory::stats().peak; }
std::function<Tensors()> in_mode(const std::function<Tensors()>& f, const std::string& mode) {
  if (mode != "compiled") return f;
  return [compiled = std::make_shared<frit::jit::Compiled<std::function<Tensors()>>>(f, frit::jit::Options())] { return (*compiled)(); };
}
std::string about(const std::string& mode) {
  return "Frit, " + mode + (frit::uses_avx512() ? ", AVX-512" : ", AVX2") + ", " + std::to_string(frit::num_threads()) + " thread(s)";
}
void begin(const std::string& mode) { frit::jit::set_mode(mode == "automatic" ? frit::jit::Mode::automatic : frit::jit::Mode::eager); }
#endif

// ---- inputs --------------------------------------------------------------------------------------------------------------------------------
// Multiples of 1/1024 in [-1/2, 1/2), the same on every side.
Tensor numbers(std::vector<int64_t> sizes, uint32_t from = 0) {
  int64_t count = 1;
  for (int64_t s : sizes) count *= s;
  std::vector<float> v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); i++) v[i] = float((uint32_t(i) + from) * 2654435761u >> 8 & 1023) / 1024 - 0.5f;
  return torch::from_blob(v.data(), sizes).clone();
}
Tensor classes(int64_t count, int64_t below, uint32_t from = 0) {
  std::vector<int64_t> v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); i++) v[i] = int64_t((uint32_t(i) + from) * 2654435761u >> 8) % below;
  return torch::from_blob(v.data(), {count}, torch::kInt64).clone();
}
Tensor leaf(const Tensor& t) { return t.detach().clone().requires_grad_(true); }
void set_parameters(nn::Module& net) {
  torch::NoGradGuard none;
  uint32_t from = 1;
  for (auto& p : net.parameters()) {
    const double width = p.dim() > 1 ? 1 / std::sqrt(double(p.size(-1))) : 0.02;
    std::vector<int64_t> sizes(p.sizes().begin(), p.sizes().end());
    p.copy_(numbers(sizes, from++ * 7919) * width);
  }
}

// ---- rows -----------------------------------------------------------------------------------------------------------------------------------
struct Work {
  std::function<Tensors()> run;                     // what is timed; its results count
  std::function<Tensors()> state = nullptr;         // results besides, such as parameters
  int steps = 1;                                    // runs before the results are compared
};
struct Row {
  const char* name;
  std::function<Work()> make;
};

// The value y of f, and the gradients with y itself as its gradient.
Work backward_of(const std::function<Tensor(const Tensors&)>& f, Tensors inputs) {
  auto leaves = std::make_shared<Tensors>();
  for (const Tensor& t : inputs) leaves->push_back(leaf(t));
  return {[f, leaves] {
    const Tensor y = f(*leaves);
    Tensors all{y.detach()};
    for (const Tensor& g : torch::autograd::grad({y}, *leaves, {y.detach()})) all.push_back(g);
    return all;
  }};
}

Tensor rms(const Tensor& x) { return x * torch::rsqrt((x * x).mean(-1, true) + 1e-5); }
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& future) {
  const Tensor scores = torch::matmul(q, k.transpose(-2, -1)) * 0.125;
  return torch::matmul(torch::softmax(scores.masked_fill(future, -INFINITY), -1), v);
}
Tensor future_of(int64_t length) {
  const Tensor at = torch::arange(length, torch::kInt64);
  return at.unsqueeze(0) > at.unsqueeze(1);
}
// On LibTorch the formula; the peer torch has its fused attention as rows of its own.
Work attention_row(int64_t length, bool backward) {
  const std::vector<int64_t> sizes{2, 8, length, 64};
  const Tensor q = numbers(sizes) * 4, k = numbers(sizes, 77) * 4, v = numbers(sizes, 99);
#ifdef USE_TORCH
  const Tensor future = future_of(length);
  const auto causal = [future](const Tensor& q, const Tensor& k, const Tensor& v) { return attention(q, k, v, future); };
#else
  const auto causal = [](const Tensor& q, const Tensor& k, const Tensor& v) { return frit::scaled_dot_product_attention(q, k, v, {}, 0.0, true); };
#endif
  if (backward) return backward_of([causal](const Tensors& t) { return causal(t[0], t[1], t[2]); }, {q, k, v});
  return {[=] { return Tensors{causal(q, k, v)}; }};
}

struct MlpImpl : nn::Module {
  nn::Linear one{784, 512}, two{512, 512}, three{512, 10};
  MlpImpl() {
    register_module("one", one);
    register_module("two", two);
    register_module("three", three);
    set_parameters(*this);
  }
  Tensor forward(const Tensor& x) { return three(torch::relu(two(torch::relu(one(x))))); }
};
TORCH_MODULE(Mlp);

template <class Net, class Optimizer>
Work training(Net net, std::shared_ptr<Optimizer> optimizer, std::function<Tensor(Net&)> loss) {
  return {[net, optimizer, loss]() mutable {
            optimizer->zero_grad();
            const Tensor l = loss(net);
            l.backward();
            optimizer->step();
            return Tensors{l.detach()};
          },
          [net] { return net->parameters(); }, 3};
}
Work mlp_row(int64_t batch, bool adamw) {
  Mlp net;
  const Tensor x = numbers({batch, 784}), y = classes(batch, 10);
  const std::function<Tensor(Mlp&)> loss = [x, y](Mlp& n) { return F::cross_entropy(n->forward(x), y); };
  if (adamw) return training(net, std::make_shared<torch::optim::AdamW>(net->parameters(), torch::optim::AdamWOptions(1e-3)), loss);
  return training(net, std::make_shared<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.05)), loss);
}

struct TransformerImpl : nn::Module {
  int64_t width = 256, heads = 4;
  nn::Embedding token{512, 256}, place{128, 256};
  nn::LayerNorm first{nn::LayerNormOptions({256})}, second{nn::LayerNormOptions({256})}, last{nn::LayerNormOptions({256})};
  nn::Linear qkv{256, 768}, join{256, 256}, up{256, 1024}, down{1024, 256}, head{256, 512};
  TransformerImpl() {
    register_module("token", token);
    register_module("place", place);
    register_module("first", first);
    register_module("qkv", qkv);
    register_module("join", join);
    register_module("second", second);
    register_module("up", up);
    register_module("down", down);
    register_module("last", last);
    register_module("head", head);
    set_parameters(*this);
    torch::NoGradGuard none;
    for (auto* norm : {&first, &second, &last}) (*norm)->weight.fill_(1.0);
  }
  Tensor forward(const Tensor& tokens, const Tensor& future) {
    const int64_t batch = tokens.size(0), length = tokens.size(1);
    Tensor x = token(tokens) + place(torch::arange(length, torch::kInt64));
    const auto part = qkv(first(x)).chunk(3, -1);
    const auto split = [&](const Tensor& t) { return t.reshape({batch, length, heads, width / heads}).transpose(1, 2); };
    const Tensor seen = attention(split(part[0]), split(part[1]), split(part[2]), future);
    x = x + join(seen.transpose(1, 2).reshape({batch, length, width}));
    x = x + down(torch::gelu(up(second(x))));
    return head(last(x));
  }
};
TORCH_MODULE(Transformer);
Work transformer_row() {
  Transformer net;
  const Tensor tokens = classes(8 * 128, 512).view({8, 128}), target = classes(8 * 128, 512, 5), future = future_of(128);
  const std::function<Tensor(Transformer&)> loss = [=](Transformer& n) { return F::cross_entropy(n->forward(tokens, future).flatten(0, 1), target); };
  return training(net, std::make_shared<torch::optim::AdamW>(net->parameters(), torch::optim::AdamWOptions(1e-3)), loss);
}

Work gelu_row(std::vector<int64_t> sizes) {
  const int64_t n = sizes.back();
  const Tensor x = numbers(sizes) * 4, w = numbers({n}, 3), b = numbers({n}, 5);
  return {[=] { return Tensors{torch::gelu(x * w + b)}; }};
}
Work chain_row(int64_t n) {
  const Tensor x = numbers({n}) * 4;
  return {[=] { return Tensors{torch::tanh(torch::sin(x) * 2 + 1) * torch::sigmoid(x)}; }};
}
Work relu_row(torch::Dtype type) {
  const std::vector<int64_t> sizes{8192, 4096};
  const Tensor x = numbers(sizes).to(type), w = numbers({4096}, 3).to(type), b = numbers({4096}, 5).to(type);
  return {[=] { return Tensors{torch::relu(x * w + b)}; }};
}
// Every side draws other numbers: what is made is kept until the next run, and what is compared is true whatever was dropped.
Work dropout_row(bool backward) {
  auto inputs = std::make_shared<Tensors>(), kept = std::make_shared<Tensors>();
  for (const Tensor& t : {numbers({8192, 1024}), numbers({1024}, 3), numbers({1024}, 5)}) inputs->push_back(backward ? leaf(t) : t);
  return {[=] {
    kept->clear();
    const Tensor y = torch::dropout(torch::relu((*inputs)[0] * (*inputs)[1] + (*inputs)[2]), 0.5, true);
    kept->push_back(y.detach());
    if (backward)
      for (const Tensor& g : torch::autograd::grad({y}, *inputs, {y.detach()})) kept->push_back(g);
    return Tensors{(*kept)[0].select(0, 0) >= 0, kept->back().select(0, 0).abs() >= 0};
  }};
}
Work product_row(torch::Dtype type) {
  const Tensor a = numbers({512, 768}).to(type), b = numbers({768, 1024}, 3).to(type);
  return {[=] { return Tensors{torch::matmul(a, b)}; }};
}
Work plain(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  return {[f, x] { return Tensors{f(x)}; }};
}
Work cross_entropy_row(bool backward) {
  const Tensor x = numbers({512, 32000}) * 8, y = classes(512, 32000);
  if (backward) return backward_of([y](const Tensors& t) { return F::cross_entropy(t[0], y); }, {x});
  return plain([y](const Tensor& t) { return F::cross_entropy(t, y); }, x);
}

Tensor soft(const Tensor& x) { return torch::softmax(x, -1); }
Tensor log_soft(const Tensor& x) { return torch::log_softmax(x, -1); }
Work norm_row(bool backward) {
  const Tensor x = numbers({4096, 768}), w = numbers({768}, 3), b = numbers({768}, 5);
  if (backward) return backward_of([](const Tensors& t) { return torch::layer_norm(t[0], {768}, t[1], t[2]); }, {x, w, b});
  return {[=] { return Tensors{torch::layer_norm(x, {768}, w, b)}; }};
}
Work fused_product(int kind) {
  const Tensor x = numbers({512, 768}), w = numbers({768, 768}, 3), b = numbers({768}, 5), r = numbers({512, 768}, 9);
  if (kind == 0) return {[=] { return Tensors{torch::matmul(x, w)}; }};
  return {[=] { return Tensors{torch::gelu(torch::matmul(x, w) + b) + r}; }};
}

Work convolution_row(int64_t batch, int64_t channels, int64_t extent, int64_t groups, bool backward) {
  const Tensor x = numbers({batch, channels, extent, extent}), w = numbers({channels, channels / groups, 3, 3}, 3);
  const auto f = [groups](const Tensors& t) { return torch::conv2d(t[0], t[1], {}, 1, 1, 1, groups); };
  if (backward) return backward_of(f, {x, w});
  return {[=] { return Tensors{f({x, w})}; }};
}
Work pool_row(bool backward) {
  const Tensor x = numbers({32, 64, 56, 56});
  const auto f = [](const Tensor& t) { return torch::max_pool2d(t, {3, 3}, {2, 2}, {1, 1}); };
  if (backward) return backward_of([f](const Tensors& t) { return f(t[0]); }, {x});
  return plain(f, x);
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all{
      {"P1 gelu(x w + b) [32,768]", [] { return gelu_row({32, 768}); }},
      {"P1 gelu(x w + b) [1024,768]", [] { return gelu_row({1024, 768}); }},
      {"P1 tanh(sin(x) 2 + 1) sigmoid(x) 1e5", [] { return chain_row(100000); }},
      {"P1 tanh(sin(x) 2 + 1) sigmoid(x) 1e7", [] { return chain_row(10000000); }},
      {"P2 relu(x w + b) [8192,4096]", [] { return relu_row(torch::kFloat32); }},
      {"D1 dropout(relu(x w + b)) [8192,1024]", [] { return dropout_row(false); }},
      {"D1 dropout(relu(x w + b)) forward + backward [8192,1024]", [] { return dropout_row(true); }},
      {"P3 softmax [1024,1024]", [] { return plain(soft, numbers({1024, 1024}) * 8); }},
      {"P3 log_softmax [1024,1024]", [] { return plain(log_soft, numbers({1024, 1024}) * 8); }},
      {"P3 layer_norm [4096,768]", [] { return norm_row(false); }},
      {"P3 rms_norm by hand [4096,768]", [] { return plain(rms, numbers({4096, 768})); }},
      {"P3 cross_entropy [512,32000]", [] { return cross_entropy_row(false); }},
      {"P3 softmax forward + backward [1024,1024]", [] { return backward_of([](const Tensors& t) { return soft(t[0]); }, {numbers({1024, 1024}) * 8}); }},
      {"P3 layer_norm forward + backward [4096,768]", [] { return norm_row(true); }},
      {"P3 cross_entropy forward + backward [512,32000]", [] { return cross_entropy_row(true); }},
      {"P4 sum over dim 1 [4096,4096]", [] { return plain([](const Tensor& t) { return t.sum(1); }, numbers({4096, 4096})); }},
      {"P4 sum over dim 0 [4096,4096]", [] { return plain([](const Tensor& t) { return t.sum(0); }, numbers({4096, 4096})); }},
      {"P6 product [512,768] [768,768]", [] { return fused_product(0); }},
      {"P6 product + bias, gelu, residual", [] { return fused_product(1); }},
      {"P7 attention S 128", [] { return attention_row(128, false); }},
      {"P7 attention S 512", [] { return attention_row(512, false); }},
      {"P7 attention S 2048", [] { return attention_row(2048, false); }},
      {"P7 attention S 4096", [] { return attention_row(4096, false); }},
      {"P7 attention forward + backward S 128", [] { return attention_row(128, true); }},
      {"P7 attention forward + backward S 512", [] { return attention_row(512, true); }},
      {"P7 attention forward + backward S 2048", [] { return attention_row(2048, true); }},
      {"P7 attention forward + backward S 4096", [] { return attention_row(4096, true); }},
      {"C1 conv2d [32,64,56,56] by [64,64,3,3]", [] { return convolution_row(32, 64, 56, 1, false); }},
      {"C1 conv2d forward + backward [32,64,56,56] by [64,64,3,3]", [] { return convolution_row(32, 64, 56, 1, true); }},
      {"C1 conv2d forward + backward [32,256,14,14] by [256,256,3,3]", [] { return convolution_row(32, 256, 14, 1, true); }},
      {"C1 conv2d depthwise forward + backward [32,64,56,56]", [] { return convolution_row(32, 64, 56, 64, true); }},
      {"C2 max_pool2d [32,64,56,56] by 3, stride 2", [] { return pool_row(false); }},
      {"C2 max_pool2d forward + backward [32,64,56,56] by 3, stride 2", [] { return pool_row(true); }},
      {"P8 MLP step, batch 64, SGD", [] { return mlp_row(64, false); }},
      {"P8 MLP step, batch 64, AdamW", [] { return mlp_row(64, true); }},
      {"P8 MLP step, batch 512, AdamW", [] { return mlp_row(512, true); }},
      {"P8 transformer step", [] { return transformer_row(); }},
      {"P16 relu(x w + b) [8192,4096] bfloat16", [] { return relu_row(torch::kBFloat16); }},
      {"P16 relu(x w + b) [8192,4096] float16", [] { return relu_row(torch::kFloat16); }},
      {"P16 product [512,768] [768,1024] float32", [] { return product_row(torch::kFloat32); }},
      {"P16 product [512,768] [768,1024] bfloat16", [] { return product_row(torch::kBFloat16); }},
      {"P16 product [512,768] [768,1024] float16", [] { return product_row(torch::kFloat16); }},
  };
  return all;
}

// ---- commands ------------------------------------------------------------------------------------------------------------------------------
struct Prepared {
  Work work;
  std::function<Tensors()> run;
  int repeat = 1;
};

constexpr int warm_up_runs = 12;
constexpr double least_time = 4e-3;

void once(const Prepared& p) {
  const Tensors results = p.run();
  finish();
}
std::string described(const Tensors& results) {
  uint64_t hash = 1469598103934665603ull;
  std::string samples;
  int64_t count = 0;
  for (const Tensor& t : results) {
    const Tensor flat = t.detach().to(torch::kFloat32).clone().flatten();  // whose data may be reached: the result itself stays as it was
    const float* v = flat.data_ptr<float>();
    const int64_t n = flat.numel(), step = std::max<int64_t>(1, n / 8);
    for (int64_t i = 0; i < n; i++) {
      uint32_t bits;
      std::memcpy(&bits, v + i, 4);
      hash = (hash ^ (v[i] != v[i] ? 0x7fc00000u : bits)) * 1099511628211ull;
    }
    for (int64_t i = 0; i < n; i += step, count++) samples += " " + std::to_string(double(v[i]));
  }
  char head[64];
  std::snprintf(head, sizeof head, "ok %016llx %lld", static_cast<unsigned long long>(hash), static_cast<long long>(count));
  return head + samples;
}

std::string prepare(const std::string& name, const std::string& mode, std::unique_ptr<Prepared>& to) {
  to.reset();
  for (const Row& row : rows()) {
    if (row.name != name) continue;
    to = std::make_unique<Prepared>();
    to->work = row.make();
    finish();
    to->run = in_mode(to->work.run, mode);
    // In automatic mode the results that are compared come from a trace that is compiled by then, as far as state does not advance.
    Tensors results;
    if (!to->work.state)
      for (int i = 0; i < warm_up_runs; i++) once(*to), settle();
    for (int i = 0; i < to->work.steps; i++) results = to->run(), finish();
    if (to->work.state)
      for (const Tensor& t : to->work.state()) results.push_back(t);
    const std::string text = described(results);
    results.clear();
    for (int i = 0; i < warm_up_runs; i++) once(*to), settle();
    const double start = seconds();
    once(*to);
    to->repeat = std::max(1, int(least_time / std::max(seconds() - start, 1e-7)));
    return text;
  }
  return "no such row";
}

}  // namespace

int main(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "automatic";
  begin(mode);
  torch::set_num_threads(count > 2 ? std::atoi(words[2]) : 1);
  by_cpu_time = count > 3 && std::string(words[3]) == "cpu";
  std::unique_ptr<Prepared> prepared;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      if (line == "about") {
        std::cout << about(mode) << std::endl;
      } else if (line == "rows") {
        for (const Row& row : rows()) std::cout << row.name << (&row == &rows().back() ? "" : "\t");
        std::cout << std::endl;
      } else if (line.rfind("prepare ", 0) == 0) {
        std::cout << prepare(line.substr(8), mode, prepared) << std::endl;
      } else if (line == "time" && prepared) {
        const double start = seconds();
        for (int i = 0; i < prepared->repeat; i++) once(*prepared);
        std::cout << (seconds() - start) / prepared->repeat << std::endl;
      } else if (line == "peak" && prepared) {
        reset_peak();
        once(*prepared);
        std::cout << peak() << std::endl;
      } else {
        std::cout << "no such command" << std::endl;
      }
    } catch (const std::exception& e) {
      const std::string what = e.what();
      prepared.reset();
      std::cout << "no " << what.substr(0, what.find('\n')) << std::endl;
    }
  }
}
