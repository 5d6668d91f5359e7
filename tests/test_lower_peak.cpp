// What is held where a plan's peak is, and is cheap to compute again, is computed by who reads it later: the peak, in explain's words and as counted by
// the allocator, falls; the bits are eager mode's; and where it would be wrong, too dear or of no use, nothing is done.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <functional>
#include "frit/frit.h"

using namespace frit;
namespace F = frit::nn::functional;

namespace {
std::string bits(const Tensor& t) {
  const Tensor c = where(t.detach().isnan(), Scalar(NAN), t.detach()).contiguous();  // all NaNs are one value
  return std::string(reinterpret_cast<const char*>(c.const_data_ptr<float>()), size_t(c.numel()) * sizeof(float));
}
using Body = std::function<TensorList()>;
std::vector<std::string> bits_of(const Body& f) {
  std::vector<std::string> all;
  for (const Tensor& t : f()) all.push_back(bits(t));
  return all;
}
std::vector<std::string> eagerly(const Body& f) {
  jit::ModeGuard eager(jit::Mode::eager);
  return bits_of(f);
}
Tensor spread(IntArrayRef sizes, int seed, double scale = 1) {
  manual_seed(uint64_t(seed));
  return randn(sizes) * scale;
}
bool lowered(const std::string& plan) { return plan.find("pass hold_less") != std::string::npos; }
// "memory: at most 25.7 MiB above what it reads", of the plan that says the most.
double predicted(const std::string& plan) {
  double most = 0;
  const std::string lead = "memory: at most ";
  for (size_t at = plan.find(lead); at != std::string::npos; at = plan.find(lead, at + 1)) {
    char* unit = nullptr;
    const double value = std::strtod(plan.c_str() + at + lead.size(), &unit);
    most = std::max(most, value * (std::strncmp(unit, " MiB", 4) == 0 ? 1 << 20 : std::strncmp(unit, " KiB", 4) == 0 ? 1 << 10 : 1));
  }
  return most;
}
// Above what is there before, of the second call on.
int64_t measured(const Body& f) {
  auto c = compile(f);
  for (int i = 0; i < 2; ++i) c(), synchronize();
  memory::reset_peak();
  const int64_t before = memory::stats().current;
  const TensorList kept = c();
  synchronize();
  return memory::stats().peak - before;
}
struct Told {
  std::string plan;
  int64_t peak;
};
// The bits are right and the allocator counts what explain says.
Told checked(const Body& f) {
  Told told{jit::explain(f), 0};
  INFO(told.plan);
  auto c = compile(f);
  const std::vector<std::string> expected = eagerly(f);
  for (int i = 0; i < 2; ++i) CHECK((bits_of([&] { return c(); }) == expected));
  told.peak = measured(f);
  CHECK(double(told.peak) < 1.05 * predicted(told.plan));
  CHECK(double(told.peak) > 0.95 * predicted(told.plan));
  return told;
}
constexpr int64_t rows = 512, slim = 512, wide = 1024, matrix = rows * wide * 4;
}  // namespace

namespace {
// Blocks that add to what goes through them, and the gradients of their weights.
Body blocks(int64_t rows, int64_t slim, int64_t wide, int count) {
  const Tensor x = spread({rows, slim}, 1);
  TensorList w;
  for (int i = 0; i < count; ++i) w.push_back(spread({slim, wide}, 10 + i, 0.05).requires_grad_()), w.push_back(spread({wide, slim}, 20 + i, 0.05).requires_grad_());
  return [=] {
    Tensor y = x;
    for (size_t i = 0; i < w.size(); i += 2) y = y + matmul(gelu(matmul(y, w[i]) + 0.5), w[i + 1]);
    const Tensor loss = y.square().sum();
    TensorList sums{loss.detach()};  // what is made is used up
    for (const Tensor& g : autograd::grad({loss}, w)) sums.push_back(g.sum(1));
    return sums;
  };
}
}  // namespace
TEST_CASE("gelu and its slope are not kept for the backward pass, but what both come from", "[peak]") {
  const Told told = checked(blocks(rows, slim, wide, 4));
  INFO(told.plan);
  CHECK(lowered(told.plan));
  CHECK(told.peak < 9 * matrix);  // gelus and slopes alone are eight, what lies between the layers two and a half
}
TEST_CASE("as much is computed again as the time allows", "[peak]") {
  const Told few = checked(blocks(rows, 160, 640, 6));  // narrow products are quick: all of it would be too dear
  INFO(few.plan);
  CHECK(lowered(few.plan));
  const int64_t one = rows * 640 * 4;
  CHECK(few.peak > 8 * one);
  CHECK(few.peak < 15 * one);
}
TEST_CASE("scores and probabilities are not both kept", "[peak]") {
  const int64_t heads = 8, length = 192, width = 64;
  Tensor q = spread({heads, length, width}, 1).requires_grad_(), k = spread({heads, length, width}, 2).requires_grad_(), v = spread({heads, length, width}, 3).requires_grad_();
  const Tensor w = spread({width, 1024}, 4, 0.1), more = spread({1024, 512}, 5, 0.03), future = triu(ones({length, length}), 1).gt(0);
  const Body step = [&] {
    const Tensor p = softmax(matmul(q, k.transpose(1, 2)).mul(0.125).masked_fill(future, -INFINITY), -1);
    const Tensor y = matmul(matmul(matmul(p, v), w).relu(), more);  // what has the peak
    return autograd::grad({y.sum()}, {q, k, v});
  };
  const Told told = checked(step);
  INFO(told.plan);
  CHECK(lowered(told.plan));
}
TEST_CASE("a training step of a transformer needs what its plan says, and less than all that it computes", "[peak]") {
  const int64_t batch = 8, length = 96, width = 256, heads = 4, words = 512;
  manual_seed(5);
  nn::Embedding token(words, width);
  nn::LayerNorm first(nn::LayerNormOptions({width})), second(nn::LayerNormOptions({width}));
  nn::Linear qkv(width, 3 * width), join(width, width), up(width, 4 * width), down(4 * width, width), head(width, words);
  TensorList parameters;
  const auto collect = [&](auto& module) {
    for (Tensor& p : module->parameters()) parameters.push_back(p);
  };
  collect(token), collect(first), collect(second), collect(qkv), collect(join), collect(up), collect(down), collect(head);
  const Tensor tokens = randint(0, words, {batch, length}, kInt64), target = randint(0, words, {batch * length}, kInt64), future = triu(ones({length, length}), 1).gt(0);
  const Body step = [&] {
    Tensor x = token(tokens);
    const TensorList part = qkv(first(x)).chunk(3, -1);
    const auto split = [&](const Tensor& t) { return t.reshape({batch, length, heads, width / heads}).transpose(1, 2); };
    const Tensor p = softmax((matmul(split(part[0]), split(part[1]).transpose(-2, -1)) * 0.2).masked_fill(future, -INFINITY), -1);
    x = x + join(matmul(p, split(part[2])).transpose(1, 2).reshape({batch, length, width}));
    x = x + down(gelu(up(second(x))));
    const Tensor loss = F::cross_entropy(head(x).flatten(0, 1), target);
    TensorList all = autograd::grad({loss}, parameters);
    all.push_back(loss.detach());
    return all;
  };
  const Told told = checked(step);
  INFO(told.plan);
  CHECK(lowered(told.plan));
}

namespace {
// Three matrices, with a peak in the middle at which f(x)'s value is held.
TensorList around(const Tensor& held, const Tensor& x, const Tensor& w, const std::function<void()>& between = [] {}) {
  const Tensor first = matmul(held, w);
  between();
  const Tensor y = matmul(first.sin(), w), z = matmul(y.cos(), w), sum = matmul(y * z, w);
  return {matmul(held, sum.sum(0, true).t()), x.sum()};
}
}  // namespace
TEST_CASE("what is computed from memory that is written before it is read again is kept", "[peak]") {
  const Tensor w = spread({wide, wide}, 2, 0.03);
  const Tensor first = spread({rows, wide}, 1);
  Tensor x = first.clone();
  const auto body = [&](bool writes) {
    return [&, writes] {
      x.copy_(first);
      return around(x * 0.5 + 1, x, w, [&] {
        if (writes) x.add_(1);
      });
    };
  };
  const Told kept = checked(body(true)), again = checked(body(false));
  INFO(kept.plan);
  INFO(again.plan);
  CHECK_FALSE(lowered(kept.plan));
}
TEST_CASE("what is dear to compute is kept, and what is cheap is not", "[peak]") {
  const Tensor w = spread({wide, wide}, 2, 0.03), x = spread({rows, wide}, 1);
  const auto body = [&](int times) {
    return [&, times] {
      Tensor v = x + 1.5;
      for (int i = 0; i < times; ++i) v = (v.tanh() * 0.5 + 1.5).lgamma();
      return around(v, x, w);
    };
  };
  const Told cheap = checked(body(0)), dear = checked(body(20));
  INFO(cheap.plan);
  INFO(dear.plan);
  CHECK(lowered(cheap.plan));
  CHECK_FALSE(lowered(dear.plan));
  CHECK(cheap.peak < dear.peak);
}
TEST_CASE("small plans, and those whose peak would not fall, are left alone", "[peak]") {
  const Tensor x = spread({64, 96}, 1), w = spread({96, 96}, 2, 0.1);
  const Body small = [&] {
    const Tensor v = x * 2, y = matmul(v, w), z = matmul(y.sin(), w);
    return TensorList{matmul(v, z.t())};
  };
  CHECK_FALSE(lowered(checked(small).plan));
  const Tensor big = spread({rows, wide}, 1);
  const Body chain = [&] { return TensorList{matmul(gelu(big * 2), spread({wide, 8}, 2))}; };
  CHECK_FALSE(lowered(checked(chain).plan));
}
TEST_CASE("numbers that are drawn inside are drawn once, however often their readers are computed", "[peak]") {
  const Tensor x = spread({rows, slim}, 1), up = spread({slim, wide}, 2, 0.1).requires_grad_(), down = spread({wide, slim}, 4, 0.1).requires_grad_();
  const Body step = [&] {
    manual_seed(11);
    const Tensor y = matmul(dropout(gelu(matmul(x, up)), 0.3, true), down);
    TensorList all = autograd::grad({y.square().sum()}, {up, down});
    all.push_back(rand({3}));
    return all;
  };
  checked(step);
}
