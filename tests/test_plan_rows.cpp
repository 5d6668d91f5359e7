// What a plan does on a product's blocks as they are finished, and memory that a result takes over from an operand that dies: the same bits as
// eager for every shape and number of threads, and the memory that is said.
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <frit/frit.h>
#include "tests/support/automatic.h"
#include "tests/support/rows.h"

using namespace frit;
using namespace frit::testing;

namespace {
struct Form {
  const char* name;
  std::function<Tensor(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& r)> f;
  bool follows = true;  // on the product's rows
};
const Form forms[] = {
    {"bias, gelu, residual", [](auto& x, auto& w, auto& b, auto& r) { return gelu(matmul(x, w) + b) + r; }},
    {"relu alone", [](auto& x, auto& w, auto&, auto&) { return relu(matmul(x, w)); }},
    {"two results", [](auto& x, auto& w, auto& b, auto& r) { const Tensor y = matmul(x, w) + b; return y.sigmoid() * (y.gt(0).to(r.scalar_type()) + r); }},
    {"softmax of rows", [](auto& x, auto& w, auto&, auto&) { return softmax(matmul(x, w) * 0.25, -1); }},
    {"normed rows", [](auto& x, auto& w, auto& b, auto& r) { const Tensor y = matmul(x, w) + r; return layer_norm(y, {y.size(-1)}, b, b); }},
    {"read as another shape", [](auto& x, auto& w, auto& b, auto&) { const Tensor y = matmul(x, w); return tanh(y.reshape({-1}) * 2.0).reshape(y.sizes()) + b; }, false},
    {"read turned", [](auto& x, auto& w, auto&, auto& r) { return (matmul(x, w).transpose(-1, -2) * 2.0 + 1.0).transpose(-1, -2) - r; }, false},
    {"read twice", [](auto& x, auto& w, auto& b, auto& r) { const Tensor y = matmul(x, w); return (y * b + r) * y; }},
};
}  // namespace

TEST_CASE("plans: what follows a product has eager's bits on its blocks", "[plan]") {
  const int64_t shapes[][3] = {{2, 3, 2}, {7, 5, 9}, {64, 32, 48}, {33, 300, 65}, {130, 64, 900}, {300, 520, 40}, {19, 40, 1700}, {1, 30, 20}, {30, 30, 1}};
  const NoGradGuard none;
  for (int threads : {1, 4}) {
    const Threads scope(threads);
    for (const auto& [m, k, n] : shapes)
      for (Dtype d : {kFloat32, kFloat64, kBFloat16})
        for (const Form& form : forms) {
          INFO(form.name << ", [" << m << ", " << k << "] x [" << k << ", " << n << "], " << threads << " threads");
          const Tensor x = spread({m, k}, 0.5, d), w = spread({k, n}, 0.5, d), b = spread({n}, 2, d), r = spread({m, n}, 1, d), wt = spread({n, k}, 0.5, d);
          auto compiled = compile([&](const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& r) { return form.f(x, w, b, r); });
          CHECK((bits_of(compiled(x, w, b, r)) == bits_of(form.f(x, w, b, r))));
          CHECK((bits_of(compiled(x, wt.t(), b, r)) == bits_of(form.f(x, wt.t(), b, r))));
        }
  }
}
TEST_CASE("plans: batches of products and what follows them", "[plan]") {
  const NoGradGuard none;
  for (int threads : {1, 4}) {
    const Threads scope(threads);
    for (const auto& [batch, m, k, n] : {std::array<int64_t, 4>{3, 5, 7, 6}, {8, 40, 16, 40}, {2, 128, 64, 130}}) {
      INFO(batch << " x [" << m << ", " << k << ", " << n << "]");
      const Tensor x = spread({batch, m, k}), y = spread({batch, k, n}), w = spread({k, n}), r = spread({batch, m, n});
      const auto scores = [](const Tensor& x, const Tensor& y, const Tensor& r) { return softmax(matmul(x, y) * 0.125 + r, -1); };
      CHECK((bits_of(compile(scores)(x, y, r)) == bits_of(scores(x, y, r))));
      CHECK((bits_of(compile(scores)(x, w, r)) == bits_of(scores(x, w, r))));  // the rows go on
    }
  }
}
TEST_CASE("plans: what makes a product's rows has eager's bits", "[plan]") {
  const std::function<Tensor(const Tensor& x, const Tensor& w, const Tensor& c, const Tensor& b)> before[] = {
      [](auto& x, auto& w, auto& c, auto&) { return matmul(relu(x * 0.5 + c), w); },
      [](auto& x, auto& w, auto& c, auto& b) { return gelu(matmul(tanh(x + c), w) + b); },
      [](auto& x, auto& w, auto& c, auto& b) { return softmax(matmul(layer_norm(x, {x.size(-1)}, c, c), w) + b, -1); },
      [](auto& x, auto& w, auto& c, auto& b) { const Tensor y = x.sigmoid() * c; return matmul(y, w) * b + y.sum(-1, true); },  // read again
      [](auto& x, auto& w, auto& c, auto&) { return matmul((x + c).square(), w).sum(0); },
  };
  const int64_t shapes[][3] = {{2, 3, 2}, {7, 5, 9}, {33, 300, 65}, {130, 64, 900}, {300, 520, 40}, {1, 30, 20}, {30, 30, 1}, {600, 700, 300}};
  const NoGradGuard none;
  for (int threads : {1, 4}) {
    const Threads scope(threads);
    for (const auto& [m, k, n] : shapes)
      for (Dtype d : {kFloat32, kFloat64, kBFloat16})
        for (size_t f = 0; f < std::size(before); ++f) {
          INFO("form " << f << ", [" << m << ", " << k << "] x [" << k << ", " << n << "], " << threads << " threads");
          const Tensor x = spread({m, k}, 0.5, d), w = spread({k, n}, 0.5, d), c = spread({k}, 2, d), b = spread({n}, 1, d), wt = spread({n, k}, 0.5, d);
          auto compiled = compile([&](const Tensor& x, const Tensor& w, const Tensor& c, const Tensor& b) { return before[f](x, w, c, b); });
          CHECK((bits_of(compiled(x, w, c, b)) == bits_of(before[f](x, w, c, b))));
          CHECK((bits_of(compiled(x, wt.t(), c, b)) == bits_of(before[f](x, wt.t(), c, b))));
          if (m % 2 || k % 2) continue;
          const Tensor apart = x.reshape({2, m / 2, k});  // the rows of a batch go on, or each has its own right side
          CHECK((bits_of(compiled(apart, w, c, b)) == bits_of(before[f](apart, w, c, b))));
          const Tensor ws = stack({w, w * 0.5});
          CHECK((bits_of(compiled(apart, ws, c, b)) == bits_of(before[f](apart, ws, c, b))));
        }
  }
  const Tensor x = spread({64, 32}), w = spread({32, 48}), c = spread({32}), b = spread({48});
  const std::string text = jit::explain([&] { return before[1](x, w, c, b); });
  INFO(text);
  CHECK(text.find("on the rows of the next as they are wanted") != std::string::npos);
}
// Where the rows would be made or finished too early, or over what is still read.
TEST_CASE("plans: what a product reads does not change while it runs", "[plan]") {
  const std::function<Tensor(const Tensor& x, const Tensor& w)> forms[] = {
      [](auto& x, auto& w) { Tensor v = x * 2.0; v.sub_(matmul(v, w)); return v + 1.0; },
      [](auto& x, auto& w) { Tensor v = x.clone(), u = v.view({-1}); v.sub_(matmul(w, v).relu()); return u + 1.0; },
      [](auto& x, auto& w) { Tensor v = x.clone(); const Tensor y = matmul(v, v.t()) * 0.5; v.add_(y); return v * w; },
      [](auto& x, auto& w) { const Tensor h = x.sin(); return matmul(h, w) + h; },
      [](auto& x, auto& w) { const Tensor h = x.sin(); return matmul(w, h) + h; },
      [](auto& x, auto& w) { Tensor v = x.clone(), s = v.exp(); v.mul_(w); return matmul(s, v); },
      [](auto& x, auto& w) { const Tensor s = x.exp() * w; return matmul(s, s.t()); },
      [](auto& x, auto& w) { const Tensor s = x.exp() * w, q = s.sin(); return matmul(s, q); },
      [](auto& x, auto& w) { const Tensor s = x.exp() * w, q = s.sin(); return matmul(q.t(), s) + q; },
  };
  const NoGradGuard none;
  for (int threads : {1, 4}) {
    const Threads scope(threads);
    for (int64_t n : {24, 130, 900})
      for (size_t f = 0; f < std::size(forms); ++f) {
        auto compiled = compile([&](const Tensor& x, const Tensor& w) { return forms[f](x, w); });
        for (double scale : {0.5, 0.25, 0.125}) {  // other numbers each time: what the last run left is not right
          INFO("form " << f << ", " << n << ", " << threads << " threads, scale " << scale);
          const Tensor x = spread({n, n}, scale), w = spread({n, n}, scale * 0.1);
          CHECK((bits_of(compiled(x, w)) == bits_of(in_eager([&] { return forms[f](x, w); }))));
        }
      }
  }
}
TEST_CASE("plans say what runs on a product's rows", "[plan]") {
  const NoGradGuard none;
  const Tensor x = spread({64, 32}), w = spread({32, 48}), b = spread({48}), r = spread({64, 48});
  for (const Form& form : forms) {
    INFO(form.name);
    const std::string text = jit::explain([&] { return form.f(x, w, b, r); });
    INFO(text);
    if (form.follows) CHECK(text.find("on its rows as they are finished") != std::string::npos);
  }
}

namespace {
int64_t peak_of(const std::function<Tensor()>& f) {
  for (int i = 0; i < 3; ++i) f(), synchronize();
  memory::reset_peak();
  const int64_t before = memory::stats().current;
  const Tensor kept = f();
  synchronize();
  return memory::stats().peak - before;
}
}  // namespace
TEST_CASE("plans: a result takes over the memory of an operand that dies", "[plan]") {
  const NoGradGuard none;
  constexpr int64_t m = 512, n = 512, bytes = m * n * 4, some = bytes / 4;
  const Tensor x = spread({m, 64}), w = spread({64, n}), b = spread({n});
  auto layer = compile([](const Tensor& x, const Tensor& w, const Tensor& b) { return gelu(matmul(x, w) + b); });
  CHECK(peak_of([&] { return layer(x, w, b); }) < bytes + some);
  auto rows = compile([](const Tensor& x, const Tensor& w) { return softmax(matmul(x, w), -1); });
  CHECK(peak_of([&] { return rows(x, w); }) < bytes + some);
  // Not when somebody else reads it, afterwards or as another shape.
  auto twice = compile([](const Tensor& x, const Tensor& w, const Tensor& b) { const Tensor y = matmul(x, w); return matmul(gelu(y + b), y); });
  CHECK((bits_of(twice(x, w, b)) == bits_of(matmul(gelu(matmul(x, w) + b), matmul(x, w)))));
  auto turned = compile([](const Tensor& x, const Tensor& w) { const Tensor y = matmul(x, w); return y + y.t() * 2.0; });
  CHECK((bits_of(turned(x, w)) == bits_of(matmul(x, w) + matmul(x, w).t() * 2.0)));
  auto first = compile([](const Tensor& x, const Tensor& w) { const Tensor y = matmul(x, w); return y * 2.0 + y.t(); });
  CHECK((bits_of(first(x, w)) == bits_of(matmul(x, w) * 2.0 + matmul(x, w).t())));
  // Nor when the user holds it.
  auto keeps = compile([&](const Tensor& x, const Tensor& w) { const Tensor y = matmul(x, w); return TensorList{y, relu(y)}; });
  const TensorList both = keeps(x, w);
  CHECK((bits_of(both[0]) == bits_of(matmul(x, w))));
  CHECK((bits_of(both[1]) == bits_of(relu(matmul(x, w)))));
}

TEST_CASE("gradients of slices are laid beside each other", "[autograd]") {
  const auto grad_of = [](const std::function<Tensor(const Tensor&)>& f, IntArrayRef sizes) {
    Tensor x = spread(sizes).requires_grad_(true);
    f(x).backward();
    return x.grad();
  };
  const std::function<Tensor(const Tensor&)> forms[] = {
      [](const Tensor& x) { const auto p = x.chunk(3, -1); return (p[0] * p[1] + p[2].exp()).sum(); },
      [](const Tensor& x) { return (x.narrow(1, 1, 3) * 2.0).sum() + x.narrow(1, 6, 2).square().sum(); },           // gaps
      [](const Tensor& x) { return (x.narrow(1, 0, 5) * 2.0).sum() + x.narrow(1, 3, 4).square().sum(); },           // they overlap
      [](const Tensor& x) { return x.narrow(0, 0, 1).exp().sum() + x.narrow(1, 2, 2).exp().sum(); },                // two axes
      [](const Tensor& x) { return x.square().sum() + x.narrow(1, 2, 3).exp().sum() + x.narrow(1, 0, 2).sum(); },   // the whole, too
      [](const Tensor& x) { Tensor s = x.select(1, 0); for (int64_t i = 1; i < x.size(1); ++i) s = s * 0.5 + x.select(1, i).tanh(); return s.sum(); },
  };
  for (const auto& f : forms) {
    CHECK(autograd::gradcheck([&](const std::vector<Tensor>& t) { return std::vector<Tensor>{f(t[0])}; }, {spread({2, 9}, 0.5, kFloat64).requires_grad_(true)}));
    Tensor x = spread({2, 9}).requires_grad_(true);
    auto step = compile([&](const Tensor& x) { return autograd::grad({f(x)}, {x})[0]; });
    CHECK((bits_of(step(x)) == bits_of(grad_of(f, {2, 9}))));
  }
}
