// Attention written out by hand under fast_math: what is recognised becomes one op, close to the ops one by one, with gradients and without
// scores in memory; what only looks like it is left alone; and without fast_math nothing changes.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include "frit/frit.h"
#include "tests/support/op_harness.h"

using namespace frit;

namespace {
struct Operands {
  Tensor q, k, v, weight;
};
Operands draw(Dtype d, IntArrayRef leading, int64_t l, int64_t s, int64_t e, int64_t w) {
  const auto one = [&](int64_t rows, int64_t columns, bool grad) {
    std::vector<int64_t> shape = leading.vec();
    shape.push_back(rows), shape.push_back(columns);
    Tensor t = randn(shape).to(d);
    synchronize();
    return grad ? t.detach().clone().requires_grad_() : t;
  };
  return {one(l, e, true), one(s, e, true), one(s, w, true), one(l, w, false)};
}
using Formula = std::function<Tensor(const Operands&)>;
// The result and the gradients of q, k and v.
std::vector<Tensor> step(const Formula& f, const Operands& o) {
  for (const Tensor* t : {&o.q, &o.k, &o.v}) Tensor(*t).set_grad({});
  const Tensor out = f(o);
  (out * o.weight).sum().backward();
  std::vector<Tensor> all{out};
  for (const Tensor* t : {&o.q, &o.k, &o.v})
    if (t->grad().defined()) all.push_back(t->grad());
  return all;
}
std::vector<Tensor> eagerly(const Formula& f, const Operands& o) {
  jit::ModeGuard eager(jit::Mode::eager);
  return step(f, o);
}
int times(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
struct FastMath {
  FastMath() { jit::set_fast_math(true); }
  ~FastMath() { jit::set_fast_math(false); }
};
// Of a training step under fast_math.
std::string explained(const Formula& f, const Operands& o) {
  const FastMath fast;
  std::vector<Tensor> kept;
  return jit::explain([&] {
    kept = step(f, o);
    return kept[0];
  });
}
// Largest difference, relative to the largest number.
double distance(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(kFloat64), y = b.to(kFloat64);
  const double scale = std::max(1e-3, y.abs().amax().item<double>());
  return (x - y).abs().amax().item<double>() / scale;
}
double tolerance(Dtype d) { return d == kFloat64 ? 1e-12 : d == kFloat32 ? 2e-5 : d == kFloat16 ? 6e-3 : 4e-2; }
void check_close(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted, Dtype d) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("result " << i);
    CHECK(got[i].dtype() == wanted[i].dtype());
    CHECK(distance(got[i], wanted[i]) <= tolerance(d));
  }
}
Tensor turned(const Tensor& t) { return t.transpose(-2, -1); }
double root(const Tensor& q) { return std::sqrt(double(q.size(-1))); }
const Scalar minus_infinity(-INFINITY);

struct Written {
  const char* name;
  Formula formula;
  bool causal = false;
};
std::vector<Written> written() {
  return {
      {"plain", [](const Operands& o) { return o.q.matmul(turned(o.k)).softmax(-1).matmul(o.v); }},
      {"divided", [](const Operands& o) { return (o.q.matmul(turned(o.k)) / root(o.q)).softmax(-1).matmul(o.v); }},
      {"multiplied, from the left", [](const Operands& o) { return (Scalar(0.3) * o.q.matmul(turned(o.k))).softmax(-1).matmul(o.v); }},
      {"the query scaled", [](const Operands& o) { return (o.q / root(o.q)).matmul(turned(o.k)).softmax(-1).matmul(o.v); }},
      {"the key scaled", [](const Operands& o) { return o.q.matmul(turned(o.k * 0.25)).softmax(-1).matmul(o.v); }},
      {"a whole number as scale", [](const Operands& o) { return (o.q.matmul(turned(o.k)) / 3).softmax(-1).matmul(o.v); }},
      {"tril of ones, zeros filled",
       [](const Operands& o) {
         const Tensor s = o.q.matmul(turned(o.k)) / root(o.q);
         return s.masked_fill(ones({o.q.size(-2), o.k.size(-2)}).tril().eq(0), minus_infinity).softmax(-1).matmul(o.v);
       }, true},
      {"triu of booleans, a low number",
       [](const Operands& o) {
         const Tensor s = o.q.matmul(turned(o.k)) / root(o.q);
         return s.masked_fill(ones({o.q.size(-2), o.k.size(-2)}, kBool).triu(1), -1e9).softmax(-1).matmul(o.v);
       }, true},
      {"places compared",
       [](const Operands& o) {
         const Tensor s = o.q.matmul(turned(o.k)), row = arange(o.q.size(-2)).unsqueeze(1), column = arange(o.k.size(-2)).unsqueeze(0);
         return where(column.gt(row), minus_infinity, s).softmax(-1).matmul(o.v);
       }, true},
      {"triu added",
       [](const Operands& o) {
         const Tensor s = o.q.matmul(turned(o.k)) * 0.5;
         return (s + full({o.q.size(-2), o.k.size(-2)}, -INFINITY, kFloat32).triu(1).to(o.q.dtype())).softmax(-1).matmul(o.v);
       }, true},
      {"dropout", [](const Operands& o) {
         manual_seed(11);
         return dropout((o.q.matmul(turned(o.k)) * 0.4).softmax(-1), 0.3, true).matmul(o.v);
       }},
  };
}
}  // namespace

TEST_CASE("attention written out by hand: one op and one for its gradients, close to the ops one by one", "[attention_pass]") {
  for (Dtype d : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    manual_seed(5);
    const Operands shapes[] = {draw(d, {2, 3}, 70, 90, 16, 9), draw(d, {}, 33, 33, 7, 7), draw(d, {2}, 5, 130, 8, 20)};
    for (const Operands& o : shapes)
      for (const Written& w : written()) {
        INFO(dtype_name(d) << " " << w.name << " q " << testing::sizes_text(o.q.sizes().vec()) << " k " << testing::sizes_text(o.k.sizes().vec()));
        const std::string text = explained(w.formula, o);
        INFO(text);
        CHECK(times(text, "attention written out by hand, 1 time, its gradient 1 time") == 1);
        CHECK(times(text, "attention_gradient [") == 1);
        CHECK(times(text, "amax") == 0);
        CHECK((times(text, "arange") == 0 || !w.causal));
        auto fast = compile([&] { return step(w.formula, o); }, jit::Options().fast_math());
        check_close(fast(), eagerly(w.formula, o), d);
      }
  }
}

namespace {
// With a mask from outside, in the shapes that are used.
struct Masked {
  const char* name;
  Tensor mask;
  std::function<Tensor(const Tensor& scores, const Tensor& mask)> apply;
};
Tensor booleans(IntArrayRef shape) {
  Tensor t = rand(shape).lt(0.7);
  synchronize();
  return t;
}
Formula with_mask(const Masked& m) {
  return [m](const Operands& o) { return m.apply(o.q.matmul(turned(o.k)) / root(o.q), m.mask).softmax(-1).matmul(o.v); };
}
}  // namespace

TEST_CASE("attention written out by hand, with a mask from outside", "[attention_pass]") {
  manual_seed(6);
  const auto keep = [](const Tensor& s, const Tensor& m) { return where(m, s, minus_infinity); };
  const auto fill = [](const Tensor& s, const Tensor& m) { return s.masked_fill(m, minus_infinity); };
  const auto fill_low = [](const Tensor& s, const Tensor& m) { return s.masked_fill(m, -1e9); };
  const auto keep_low = [](const Tensor& s, const Tensor& m) { return where(m, s, Scalar(-30000.0)); };
  const auto add = [](const Tensor& s, const Tensor& m) { return s + m; };
  const auto both = [](const Tensor& s, const Tensor& m) { return where(m, s.masked_fill(ones({s.size(-2), s.size(-1)}, kBool).triu(1), minus_infinity), minus_infinity); };
  // A key that every query may see, so that no row is forbidden whole.
  const auto seen = [](Tensor t) { return t.logical_or(arange(t.size(-1)).eq(0)); };
  for (Dtype d : {kFloat32, kFloat64, kBFloat16}) {
    const Operands o = draw(d, {2, 3}, 40, 70, 8, 8);
    const Masked all[] = {
        {"keep", seen(booleans({40, 70})), keep},          {"keep keys", seen(booleans({2, 1, 1, 70})), keep},
        {"fill", seen(booleans({2, 1, 40, 70})).logical_not(), fill}, {"fill low", seen(booleans({2, 1, 40, 70})).logical_not(), fill_low},
        {"keep low keys", seen(booleans({70})), keep_low},       {"add", randn({40, 70}).to(d), add},
        {"add by head", randn({3, 1, 70}).to(d), add},     {"causal too", seen(booleans({70})), both},
    };
    synchronize();
    for (const Masked& m : all) {
      INFO(dtype_name(d) << " " << m.name);
      const Formula f = with_mask(m);
      const std::string text = explained(f, o);
      INFO(text);
      CHECK(times(text, "attention written out by hand, 1 time, its gradient 1 time") == 1);
      CHECK(times(text, "amax") == 0);
      auto fast = compile([&] { return step(f, o); }, jit::Options().fast_math());
      check_close(fast(), eagerly(f, o), d);
    }
  }
}

TEST_CASE("attention written out by hand: a query that may see no key gets zeros, and gives no gradient", "[attention_pass]") {
  manual_seed(12);
  const Tensor rows = arange(10).lt(4).unsqueeze(1);
  synchronize();
  for (double low : {double(-INFINITY), -1e9}) {
    const Operands o = draw(kFloat32, {2}, 10, 140, 8, 8);
    const Formula f = [&](const Operands& p) {
      const Tensor s = p.q.matmul(turned(p.k));
      return (std::isinf(low) ? where(rows, s, minus_infinity) : s.masked_fill(rows.logical_not(), low)).softmax(-1).matmul(p.v);
    };
    auto fast = compile([&] { return step(f, o); }, jit::Options().fast_math());
    const std::string text = explained(f, o);
    INFO(text);
    CHECK(times(text, "attention [") == 1);
    const std::vector<Tensor> got = fast();
    CHECK(got[0].narrow(1, 4, 6).eq(0).all().item<bool>());
    CHECK(got[1].narrow(1, 4, 6).eq(0).all().item<bool>());
    const Operands some{o.q.detach().narrow(1, 0, 4).clone().requires_grad_(), o.k, o.v, o.weight.narrow(1, 0, 4)};
    const std::vector<Tensor> wanted = eagerly([](const Operands& p) { return p.q.matmul(turned(p.k)).softmax(-1).matmul(p.v); }, some);
    check_close({got[0].narrow(1, 0, 4), got[1].narrow(1, 0, 4), got[2], got[3]}, wanted, kFloat32);
  }
}

TEST_CASE("attention written out by hand, as layers write it: packed heads, without gradients, in a training step", "[attention_pass]") {
  manual_seed(7);
  const int64_t batch = 2, length = 33, heads = 3, size = 8, wide = heads * size;
  const Tensor x = randn({batch, length, wide}), target = randn({batch, length, wide});
  Tensor w = (randn({wide, 3 * wide}) * 0.2).detach().requires_grad_(), out = (randn({wide, wide}) * 0.2).detach().requires_grad_();
  synchronize();
  const auto layer = [&] {
    const TensorList parts = x.matmul(w).chunk(3, -1);
    const auto split = [&](const Tensor& t) { return t.reshape({batch, length, heads, size}).transpose(1, 2); };
    const Tensor q = split(parts[0]), k = split(parts[1]), v = split(parts[2]);
    const Tensor s = (q.matmul(k.transpose(-2, -1)) * (1 / std::sqrt(double(size)))).masked_fill(ones({length, length}).tril().eq(0), minus_infinity);
    return s.softmax(-1).matmul(v).transpose(1, 2).reshape({batch, length, wide}).matmul(out);
  };
  {
    const NoGradGuard no_grad;
    const FastMath fast;
    const std::string text = jit::explain([&] { return layer(); });
    INFO(text);
    CHECK(times(text, "attention written out by hand, 1 time; no scores") == 1);
    CHECK(times(text, "amax") == 0);
  }
  const auto train = [&](bool fast_math) {
    Tensor a = w.detach().clone().requires_grad_(), b = out.detach().clone().requires_grad_();
    std::swap(a, w), std::swap(b, out);
    optim::SGD sgd({w, out}, optim::SGDOptions(0.05));
    auto once = compile([&] {
      sgd.zero_grad();
      const Tensor loss = (layer() - target).square().mean();
      loss.backward();
      sgd.step();
      return loss;
    }, jit::Options().fast_math(fast_math));
    std::vector<double> losses;
    for (int i = 0; i < 4; ++i) losses.push_back(once().item<double>());
    std::swap(a, w), std::swap(b, out);
    return losses;
  };
  const std::vector<double> exact = train(false), fast = train(true);
  for (size_t i = 0; i < exact.size(); ++i) CHECK(fast[i] == Approx(exact[i]).epsilon(1e-5));
  CHECK(exact[3] < exact[0]);
}

TEST_CASE("attention written out by hand: the memory of a training step grows as the length, not as its square", "[attention_pass]") {
  const auto peak = [](int64_t length, bool fast_math) {
    manual_seed(8);
    const Operands o = draw(kFloat32, {1, 2}, length, length, 16, 16);
    const Formula f = [](const Operands& p) {
      const Tensor s = p.q.matmul(turned(p.k)) / root(p.q);
      return s.masked_fill(ones({s.size(-2), s.size(-1)}).tril().eq(0), minus_infinity).softmax(-1).matmul(p.v);
    };
    auto once = compile([&] { return step(f, o); }, jit::Options().fast_math(fast_math));
    once();
    for (const Tensor* t : {&o.q, &o.k, &o.v}) Tensor(*t).set_grad({});
    memory::reset_peak();
    const int64_t before = memory::stats(kCPU).current;
    once();
    return memory::stats(kCPU).peak - before;
  };
  const int64_t row = 1024 * 2 * 16 * 4, scores = int64_t(1024) * 1024 * 2 * 4;
  CHECK(peak(1024, true) <= 8 * row);
  CHECK(peak(1024, false) >= scores);
  CHECK(double(peak(1024, true)) <= 2.2 * double(peak(512, true)));
}

TEST_CASE("what only looks like attention is left alone, and so is everything without fast_math", "[attention_pass]") {
  manual_seed(9);
  const Operands o = draw(kFloat32, {2}, 24, 24, 8, 8);
  const Tensor rows = rand({24, 1}) + 0.5, allowed = booleans({24, 24});
  Tensor slope = (randn({24, 24}) * 0.1).detach().requires_grad_();
  synchronize();
  const auto scores = [](const Operands& p) { return p.q.matmul(turned(p.k)) / root(p.q); };
  Tensor seen;
  const Written near_misses[] = {
      {"softmax over another axis", [&](const Operands& p) { return scores(p).softmax(-2).matmul(p.v); }},
      {"probabilities read elsewhere", [&](const Operands& p) {
         const Tensor a = scores(p).softmax(-1);
         return a.matmul(p.v) + a.sum(-1, true) * 0.5;
       }},
      {"scores read elsewhere", [&](const Operands& p) {
         const Tensor s = scores(p);
         return s.softmax(-1).matmul(p.v) + s.mean() * 0.1;
       }},
      {"probabilities kept", [&](const Operands& p) { return (seen = scores(p).softmax(-1)).matmul(p.v); }},
      {"a scale of its own for each row", [&](const Operands& p) { return (p.q.matmul(turned(p.k)) * rows).softmax(-1).matmul(p.v); }},
      {"scaled after the mask", [&](const Operands& p) { return (scores(p).masked_fill(allowed, -20000.0) * 0.01).softmax(-1).matmul(p.v); }},
      {"a number that is not low", [&](const Operands& p) { return scores(p).masked_fill(allowed, -2.0).softmax(-1).matmul(p.v); }},
      {"two masks", [&](const Operands& p) { return (scores(p).masked_fill(allowed, -1e9) + rows).softmax(-1).matmul(p.v); }},
      {"a mask that wants a gradient", [&](const Operands& p) { return (scores(p) + slope).softmax(-1).matmul(p.v); }},
      {"another function than e^x", [&](const Operands& p) {
         const Tensor s = scores(p), e = (s - s.detach().amax({-1}, true)).exp2();
         return (e / e.sum({-1}, true)).matmul(p.v);
       }},
      {"one sum for all", [&](const Operands& p) {
         const Tensor s = scores(p), e = (s - s.detach().amax({-1}, true)).exp();
         return (e / e.sum({-2}, true)).matmul(p.v);
       }},
      {"the result of another product between", [&](const Operands& p) { return scores(p).softmax(-1).square().matmul(p.v); }},
      {"written in place between", [&](const Operands& p) {
         const Tensor q = p.q.detach().clone();
         const Tensor s = q.matmul(turned(p.k.detach()));
         q.narrow(1, 0, 5).add_(1);
         return s.softmax(-1).matmul(p.v) + q.mean();
       }},
  };
  for (const Written& w : near_misses) {
    INFO(w.name);
    const std::string text = explained(w.formula, o);
    INFO(text);
    CHECK(times(text, "attention written out") == 0);
    auto fast = compile([&] { return step(w.formula, o); }, jit::Options().fast_math());
    check_close(fast(), eagerly(w.formula, o), kFloat32);
  }
  // A diagonal that is not the main one is a mask like others.
  for (int64_t diagonal : {-1, 1, 3}) {
    const Formula f = [&](const Operands& p) { return where(ones({24, 24}, kBool).tril(diagonal).logical_or(arange(24).eq(0)), scores(p), minus_infinity).softmax(-1).matmul(p.v); };
    const std::string text = explained(f, o);
    INFO(text);
    CHECK(times(text, "attention written out by hand, 1 time") == 1);
    CHECK(times(text, "arange") > 0);
    auto fast = compile([&] { return step(f, o); }, jit::Options().fast_math());
    check_close(fast(), eagerly(f, o), kFloat32);
  }
  for (const Written& w : written()) {
    INFO(w.name);
    std::vector<Tensor> kept;
    const std::string text = jit::explain([&] { return (kept = step(w.formula, o))[0]; });
    CHECK(times(text, "attention [") == 0);
    auto exact = compile([&] { return step(w.formula, o); });
    const std::vector<Tensor> got = exact(), wanted = eagerly(w.formula, o);
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i].equal(wanted[i]));
  }
}

TEST_CASE("numbers that were taken for granted and change: another plan", "[attention_pass]") {
  manual_seed(10);
  const Operands o = draw(kFloat32, {2}, 20, 20, 8, 8);
  double low = -1e9, scale = 0.5;
  int64_t diagonal = 0;
  const Formula f = [&](const Operands& p) {
    return (p.q.matmul(turned(p.k)) * scale).masked_fill(ones({20, 20}).tril(diagonal).eq(0), low).softmax(-1).matmul(p.v);
  };
  auto fast = compile([&] { return step(f, o); }, jit::Options().fast_math());
  const auto again = [&](bool recognised) {
    const std::string text = explained(f, o);
    INFO("low " << low << " scale " << scale << " diagonal " << diagonal << "\n" << text);
    CHECK(times(text, "attention [") == int(recognised));
    check_close(fast(), eagerly(f, o), kFloat32);
  };
  again(true);
  scale = 0.25, again(true);
  low = -1.5, again(false);
  low = -1e5, again(true);
  diagonal = 2, again(false);
  diagonal = 0, low = -INFINITY, again(true);
}
