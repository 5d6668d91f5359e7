// What a plan does on a convolution's blocks as they are finished: the same bits as eager for every shape, type and number of threads, and that it
// happens at all.
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <frit/frit.h>
#include "tests/support/automatic.h"
#include "tests/support/rows.h"

using namespace frit;
using namespace frit::testing;

namespace {
struct Shape {
  const char* name;
  int64_t batch, in, out, rows, columns, kernel, stride, padding, dilation, groups;
};
const Shape shapes[] = {
    {"3 x 3", 2, 8, 12, 17, 19, 3, 1, 1, 1, 1},
    {"many blocks", 1, 20, 70, 40, 41, 3, 1, 1, 1, 1},
    {"more than a panel", 2, 40, 9, 20, 20, 3, 1, 0, 1, 1},
    {"1 x 1", 3, 24, 50, 18, 17, 1, 1, 0, 1, 1},
    {"1 x 1, one place", 3, 5, 7, 1, 1, 1, 1, 0, 1, 1},
    {"strided", 2, 6, 10, 23, 21, 3, 2, 1, 1, 1},
    {"dilated", 1, 4, 6, 20, 22, 3, 1, 2, 2, 1},
    {"few places, images together", 5, 16, 33, 7, 6, 3, 1, 1, 1, 1},
    {"groups, images together", 5, 12, 20, 8, 7, 3, 1, 1, 1, 2},
    {"groups", 2, 12, 30, 19, 18, 3, 1, 1, 1, 3},
    {"each channel by itself", 3, 10, 10, 18, 21, 3, 1, 1, 1, 10},
    {"few channels", 2, 3, 4, 33, 35, 5, 2, 2, 1, 1},
    {"one channel", 1, 1, 1, 9, 130, 3, 1, 1, 1, 1},
};
using Body = std::function<Tensor(const Tensor& y, const Tensor& bias, const Tensor& r)>;
struct Form {
  const char* name;
  Body f;
  bool follows = true;
};
Tensor per_channel(const Tensor& b) { return b.reshape({1, -1, 1, 1}); }
const Form forms[] = {
    {"relu alone", [](auto& y, auto&, auto&) { return relu(y); }},
    {"bias, relu", [](auto& y, auto& b, auto&) { return relu(y + per_channel(b)); }},
    {"bias, gelu, residual", [](auto& y, auto& b, auto& r) { return gelu(y + per_channel(b)) + r; }},
    {"scale and shift", [](auto& y, auto& b, auto&) { return relu((y - per_channel(b)) * per_channel(b * 0.5) + 0.25); }},
    {"read twice", [](auto& y, auto& b, auto& r) { return (y * per_channel(b) + r) * y; }},
    {"softmax of rows", [](auto& y, auto&, auto&) { return softmax(y * 0.5, -1); }},
    {"normed images", [](auto& y, auto& b, auto&) { return layer_norm(y, {y.size(2), y.size(3)}, {}, {}) + per_channel(b); }, false},
    {"over the channels", [](auto& y, auto& b, auto&) { return softmax(y + per_channel(b), 1); }, false},
    {"turned", [](auto& y, auto&, auto& r) { return (y.transpose(2, 3) * 2.0 + 1.0).transpose(2, 3) - r; }, false},
};
Tensor convolved(const Shape& s, const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, s.stride, s.padding, s.dilation, s.groups); }
}  // namespace

TEST_CASE("plans: what follows a convolution has eager's bits on its blocks", "[plan][convolution]") {
  const NoGradGuard none;
  for (int threads : {1, 4}) {
    const Threads scope(threads);
    for (const Shape& s : shapes)
      for (Dtype d : {kFloat32, kFloat64, kBFloat16}) {
        const Tensor x = spread({s.batch, s.in, s.rows, s.columns}, 0.5, d), w = spread({s.out, s.in / s.groups, s.kernel, s.kernel}, 0.5, d), b = spread({s.out}, 1, d);
        const Tensor r = spread(convolved(s, x, w).sizes(), 1, d), sliced = spread({s.batch, s.in, s.rows + 1, s.columns + 2}, 0.5, d).narrow(2, 1, s.rows).narrow(3, 1, s.columns);
        for (const Form& form : forms) {
          INFO(s.name << ", " << form.name << ", " << dtype_name(d) << ", " << threads << " threads");
          auto compiled = compile([&](const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& r) { return form.f(convolved(s, x, w), b, r); });
          CHECK((bits_of(compiled(x, w, b, r)) == in_eager([&] { return bits_of(form.f(convolved(s, x, w), b, r)); })));
          CHECK((bits_of(compiled(sliced, w, b, r)) == in_eager([&] { return bits_of(form.f(convolved(s, sliced, w), b, r)); })));
        }
      }
  }
}
TEST_CASE("plans: what follows a transposed convolution, or one over a line", "[plan][convolution]") {
  const NoGradGuard none;
  for (int threads : {1, 4})
    for (int64_t stride : {1, 2}) {
      const Threads scope(threads);
      INFO(threads << " threads, stride " << stride);
      const Tensor x = spread({2, 9, 14, 15}), w = spread({9, 13, 3, 3}), b = spread({13}, 1);
      const auto up = [&](const Tensor& x, const Tensor& w, const Tensor& b) { return relu(conv_transpose2d(x, w, {}, stride, 1) + per_channel(b)); };
      CHECK((bits_of(compile(up)(x, w, b)) == in_eager([&] { return bits_of(up(x, w, b)); })));
      const Tensor line = spread({3, 6, 301}), v = spread({11, 6, 5}), c = spread({11, 1}, 1);
      const auto along = [&](const Tensor& x, const Tensor& w, const Tensor& b) { return tanh(conv1d(x, w, {}, stride, 2) * 0.5 + b); };
      CHECK((bits_of(compile(along)(line, v, c)) == in_eager([&] { return bits_of(along(line, v, c)); })));
    }
}
TEST_CASE("plans: what a convolution reads does not change while it runs", "[plan][convolution]") {
  const NoGradGuard none;
  for (int threads : {1, 4}) {
    const Threads scope(threads);
    const Tensor x = spread({2, 8, 40, 41}), w = spread({8, 8, 3, 3}, 0.2);
    const auto residual = [](const Tensor& x, const Tensor& w) {  // the operand dies where it is read last, and lends its memory
      const Tensor h = tanh(x * 2.0), k = tanh(w);
      return relu(conv2d(h, k, {}, 1, 1) + h);
    };
    auto compiled = compile(residual);
    for (int i = 0; i < 3; ++i) CHECK((bits_of(compiled(x, w)) == in_eager([&] { return bits_of(residual(x, w)); })));
    const auto writes = [](Tensor x, const Tensor& w) {
      x.add_(relu(conv2d(x, w, {}, 1, 1)));
      return x * 1.0;
    };
    auto in_place = compile(writes);
    for (int i = 0; i < 3; ++i) {
      Tensor a = x.clone(), b = x.clone();
      CHECK((bits_of(in_place(a, w)) == in_eager([&] { return bits_of(writes(b, w)); })));
      CHECK((bits_of(a) == bits_of(b)));
    }
  }
}
TEST_CASE("plans: integers and empty images are convolved as before", "[plan][convolution]") {
  const NoGradGuard none;
  const Tensor x = arange(int64_t(2 * 3 * 6 * 6)).reshape({2, 3, 6, 6}), w = arange(int64_t(4 * 3 * 3 * 3)).reshape({4, 3, 3, 3});
  const auto whole = [](const Tensor& x, const Tensor& w) { return relu(conv2d(x, w) - 40000); };
  CHECK((bits_of(compile(whole)(x, w)) == in_eager([&] { return bits_of(whole(x, w)); })));
  const Tensor nothing = zeros({0, 3, 6, 6}), v = spread({4, 3, 3, 3});
  CHECK(compile(whole)(nothing, v).sizes() == whole(nothing, v).sizes());
}
TEST_CASE("plans say what runs on a convolution's blocks", "[plan][convolution]") {
  const NoGradGuard none;
  const Tensor x = spread({2, 8, 20, 20}), w = spread({12, 8, 3, 3}), b = spread({12}), r = spread({2, 12, 20, 20});
  for (const Form& form : forms) {
    INFO(form.name);
    const std::string text = jit::explain([&] { return form.f(conv2d(x, w, {}, 1, 1), b, r); });
    INFO(text);
    if (form.follows) CHECK(text.find("on its rows as they are finished") != std::string::npos);
  }
}
TEST_CASE("plans: layers of images are one launch each", "[plan][convolution]") {
  const NoGradGuard none;
  nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)), nn::BatchNorm2d(8), nn::ReLU(), nn::Conv2d(nn::Conv2dOptions(8, 16, 1)), nn::ReLU());
  net->eval();
  const Tensor x = spread({2, 3, 20, 20});
  auto f = compile([&](const Tensor& x) { return net->forward(x); });
  for (int i = 0; i < 2; ++i) CHECK((bits_of(f(x)) == in_eager([&] { return bits_of(net->forward(x)); })));
  jit::record_history(100);
  const Tensor y = f(x);
  synchronize();
  const auto launches = jit::history();
  jit::record_history(0);
  size_t convolutions = 0, with_more = 0;
  for (const jit::LaunchRecord& l : launches) {
    INFO(l.kernel);
    const bool is = l.kernel.find("convolution") != std::string::npos;
    convolutions += is, with_more += is && l.kernel.find("relu") != std::string::npos;
  }
  CHECK(convolutions == 2);
  CHECK(with_more == 2);
}
