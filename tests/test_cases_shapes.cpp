// The numeric cases of classes a and d: one body with many sizes, degenerate shapes and strides, products. One test a case.
#include "tests/support/cases.h"

#include "frit/einops.h"

using namespace frit;
using namespace frit::testing;
using namespace frit::indexing;

TEST_CASE("A01 a reduction of a gather follows the index's length") {
  in_each_mode([] {
    const Tensor buffer = tensor({3., 5., 7., 11., 13.});
    const double sums[] = {3, 8, 15, 26, 8};
    int k = 0;
    for (int64_t n : {1, 2, 3, 4, 2}) CHECK(take(buffer, arange(n)).sum().item<double>() == sums[k++]);
  });
}
TEST_CASE("A02 extents that happen to be 1 broadcast") {
  in_each_mode([] {
    const Tensor x4 = tensor({1., 2., 3., 4.}), y8 = tensor({10., 20., 30., 40., 50., 60., 70., 80.}), x8 = tensor({1., 2., 3., 4., 5., 6., 7., 8.});
    const auto f = [](const Tensor& x, const Tensor& y) { return x.reshape({-1, 4}) * y.reshape({-1, 4}); };
    CHECK(same(f(x4, y8), {10, 40, 90, 160, 50, 120, 210, 320}));
    CHECK(same(f(x8, y8), {10, 40, 90, 160, 250, 360, 490, 640}));
    CHECK(same(f(x8, x4), {1, 4, 9, 16, 5, 12, 21, 32}));
    CHECK(f(x4.slice(0, 0, 0), x4).sizes().vec() == Shape{0, 4});
  });
}
TEST_CASE("A04 gradients follow the modes of each call") {
  in_each_mode([] {
    const Tensor x = tensor({1., 2., 3.});
    Tensor w = parameter({4, 5, 6});
    const auto f = [&] { return (x * w).sum(); };
    {
      NoGradGuard none;
      const Tensor y = f();
      CHECK(y.item<float>() == 32);
      CHECK(!y.requires_grad());
    }
    Tensor y = f();
    CHECK(y.requires_grad());
    y.backward();
    CHECK(same(w.grad(), {1, 2, 3}));
    w.requires_grad_(false);
    CHECK(!f().requires_grad());
    w.requires_grad_();
    y = f();
    CHECK(y.requires_grad());
    y.backward();
    CHECK(same(w.grad(), {2, 4, 6}));
  });
}
TEST_CASE("A06 pointers that are not aligned after one that was") {
  in_each_mode([] {
    const Tensor buffer = arange(1027, kFloat32);
    for (int64_t start : {0, 1, 3}) {
      const Tensor y = 2 * buffer.slice(0, start, start + 1024) + 1;
      CHECK(y[0].item<float>() == 2 * float(start) + 1);
      CHECK(y[-1].item<float>() == 2 * float(start + 1023) + 1);
      if (start == 1) CHECK(y.sum().item<float>() == 1050624);
    }
  });
}
TEST_CASE("A07 linear indices beyond 2^31", "[.large]") {
  jit::ModeGuard eager(jit::Mode::eager);
  const Tensor wide = ones({1}, kInt8).expand({65536, 65537});
  CHECK(wide.sum().item<int64_t>() == 4295032832);
  CHECK(wide.max().item<int64_t>() == 1);
  const int64_t n = 2147483664;
  Tensor big = zeros({n}, kInt8);
  big.index_put_({n - 1}, 7);
  CHECK(big.argmax().item<int64_t>() == 2147483663);
  CHECK((big + 1)[-1].item<int64_t>() == 8);
  Tensor table = zeros({16385, 131072}, kInt8);
  table.index_put_({16384}, 5);
  CHECK(table.index_select(0, tensor({16384, 0})).select(1, 131071).equal(tensor({5, 0}, kInt8)));
}
TEST_CASE("A12 numbers keep value, type, sign and NaN") {
  in_each_mode([] {
    const Tensor x = tensor({1., 2.}), i = tensor({1, 2}, kInt32), one = tensor({1.});
    CHECK(same(x * 2, {2, 4}));
    CHECK(same(x * 3, {3, 6}));
    CHECK((i * 1).dtype() == kInt32);
    CHECK((i * true).dtype() == kInt32);
    CHECK((i * 1.0).dtype() == kFloat32);
    CHECK(same(one / 0.0, {inf}));
    CHECK(same(one / -0.0, {-inf}));
    for (int k = 0; k < 5; ++k) CHECK(same(x * NaN, {NaN, NaN}));
  });
}
TEST_CASE("A14 batches of 1, 4, 2 and 0 through one body") {
  in_each_mode([] {
    const Tensor x = arange(8, kFloat32).reshape({4, 2}).square();
    const auto f = [](const Tensor& t) { return t - t.mean(0, true); };
    CHECK(same(f(x.slice(0, 0, 1)), {0, 0}));
    CHECK(same(f(x), {-14, -20, -10, -12, 2, 4, 22, 28}));
    CHECK(same(f(x.slice(0, 0, 2)), {-2, -4, 2, 4}));
    CHECK(f(x.slice(0, 0, 0)).sizes().vec() == Shape{0, 2});
  });
}
TEST_CASE("A16 scans of tensors without axes, and of empty ones") {
  in_each_mode([] {
    for (int64_t axis : {0, -1}) {
      CHECK(full({}, 5.0).cumsum(axis).item<float>() == 5);
      CHECK(full({}, 5.0).cumprod(axis).item<float>() == 5);
      CHECK(zeros({0}).cumsum(axis).sizes().vec() == Shape{0});
    }
  });
}
TEST_CASE("A17 backward follows each batch") {
  in_each_mode([] {
    const Tensor x = tensor({{1., -1.}, {3., 0.5}, {-1., -1.}, {2., 2.}});
    const int64_t batch[] = {4, 1, 3, 0};
    const double losses[] = {8.75, 0.5, 3.75, 0};
    const Doubles gradients[] = {{6, 2, 1.5, 2}, {1, 0, -1, 0}, {4, 0, -0.5, 0}, {0, 0, 0, 0}};
    for (int k = 0; k < 4; ++k) {
      Tensor w = parameter({1, -1, 0.5, 2});
      const Tensor loss = relu(x.slice(0, 0, batch[k]).matmul(w.reshape({2, 2}))).sum();
      loss.backward();
      CHECK(loss.item<double>() == losses[k]);
      CHECK(same(w.grad(), gradients[k]));
    }
  });
}
TEST_CASE("A19 [3, 1] + [3] and its relatives") {
  in_each_mode([] {
    const Tensor b = tensor({10., 20., 30.});
    CHECK(same(tensor({{1.}, {2.}, {3.}}) + b, {11, 21, 31, 12, 22, 32, 13, 23, 33}));
    CHECK(same(ones({3, 3}) + b, {11, 21, 31, 11, 21, 31, 11, 21, 31}));
    const Tensor r = full({1, 1}, 5.0) + b;
    CHECK(r.sizes().vec() == Shape{1, 3});
    CHECK(same(r, {15, 25, 35}));
  });
}
TEST_CASE("A21 a thousand iterations without a read") {
  in_each_mode([] {
    Tensor x = zeros({3});
    for (int k = 0; k < 1000; ++k) {
      x = 0.5 * x + 1;
      if (k == 4) CHECK(same(x, {1.9375, 1.9375, 1.9375}, 1e-6));
    }
    CHECK(same(x, {2, 2, 2}, 1e-6));
    const Tensor t1 = ones({4, 3});
    Tensor t2 = zeros({4, 1}), t3 = zeros({4, 1});
    for (int k = 0; k < 1000; ++k) {
      t3 += t1.sum(1, true);
      t2 += t3;
    }
    CHECK(same(t3, {3000, 3000, 3000, 3000}));
    CHECK(same(t2, {1501500, 1501500, 1501500, 1501500}, 1e-6));
  });
}
TEST_CASE("D01 products with an empty inner axis are zeros") {
  in_each_mode([] {
    for (int k = 0; k < 4; ++k) full({64, 64}, NaN).add(1).sum().item<float>();  // leaves NaN in freed memory
    CHECK(zeros({3, 2, 0}).matmul(zeros({3, 0, 3})).equal(zeros({3, 2, 3})));
    CHECK(zeros({16, 0}).matmul(zeros({0, 16})).equal(zeros({16, 16})));
    CHECK(zeros({5, 0}, kInt64).matmul(zeros({0, 5}, kInt64)).equal(zeros({5, 5}, kInt64)));
    CHECK(zeros({0, 4}).matmul(zeros({4, 3})).sizes().vec() == Shape{0, 3});
    CHECK(zeros({0}).dot(zeros({0})).item<float>() == 0);
    Tensor a = zeros({3, 2, 0}).requires_grad_(), b = zeros({3, 0, 3}).requires_grad_();
    a.matmul(b).sum().backward();
    CHECK(a.grad().sizes().vec() == Shape{3, 2, 0});
    CHECK(b.grad().sizes().vec() == Shape{3, 0, 3});
  });
}
TEST_CASE("D02 addmm with an empty inner axis and with beta 0") {
  in_each_mode([] {
    CHECK(addmm(ones({2, 2}), zeros({2, 0}), zeros({0, 2}), 2).equal(full({2, 2}, 2.0)));
    const Tensor a = tensor({{1., 2.}, {3., 4.}});
    CHECK(same(addmm(full({2, 2}, NaN), a, eye(2), 0, 3), {3, 6, 9, 12}));
    CHECK(same(addmm(tensor({10., 20.}), a, eye(2), 1, 3), {13, 26, 19, 32}));
  });
}
TEST_CASE("D04 einsum with repeated labels and ellipses") {
  in_each_mode([] {
    for (const Tensor& x : layouts(arange(18, kFloat32).reshape({3, 3, 2}))) {
      CHECK(same(einsum("iij->ij", {x}), {0, 1, 8, 9, 16, 17}));
      CHECK(same(einsum("iij->i", {x}), {1, 17, 33}));
      CHECK(same(einsum("iij,j->ij", {x, tensor({1., 10.})}), {0, 10, 8, 90, 16, 170}));
      CHECK(same(einsum("ii...->i...", {x}), {0, 1, 8, 9, 16, 17}));
      CHECK(same(einsum("...ii->...i", {x.permute({2, 0, 1})}), {0, 8, 16, 1, 9, 17}));
      CHECK(same(einsum("i...->i", {x}), {15, 51, 87}));
      CHECK(same(einsum("ii...->...", {x}), {24, 27}));
    }
  });
}
TEST_CASE("D06 permuted operands of products") {
  in_each_mode([] {
    for (const Tensor& x : layouts(arange(24, kFloat32).reshape({2, 3, 4}))) {
      CHECK(same(x.matmul(x.mT()), {14, 38, 62, 38, 126, 214, 62, 214, 366, 734, 950, 1166, 950, 1230, 1510, 1166, 1510, 1854}));
      const Tensor p = x.permute({2, 0, 1}).matmul(x.permute({2, 1, 0}));
      CHECK(p.sizes().vec() == Shape{4, 2, 2});
      CHECK(p.sum().item<float>() == 6920);
    }
    Tensor out = zeros({3, 5});
    out.narrow(1, 1, 3).copy_(arange(6, kFloat32).reshape({3, 2}).matmul(arange(6, kFloat32).reshape({2, 3})));
    CHECK(same(out, {0, 3, 4, 5, 0, 0, 9, 14, 19, 0, 0, 15, 24, 33, 0}));
    CHECK(same(tensor({{1., 2.}, {3., 4.}}).flip({0}).matmul(eye(2)), {3, 4, 1, 2}));
  });
}
TEST_CASE("D07 strides of axes of extent 1") {
  in_each_mode([] {
    CHECK(same(tensor({{3.}, {4.}}).t().matmul(tensor({{1., 2., 3.}, {4., 5., 6.}})), {19, 26, 33}));
    const Tensor x = arange(32, kFloat32).reshape({1, 8, 4});
    CHECK(same(x.index({Slice(), 7, Slice()}).matmul(eye(4)), {28, 29, 30, 31}));
    CHECK(same(full({}, 2.0).expand({1}).matmul(tensor({{5.}})), {10}));
  });
}
