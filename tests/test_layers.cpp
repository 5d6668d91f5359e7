// Convolution, padding and pooling: against loops in double precision over many combinations of their parameters, derivatives
// against differences, layers, errors; op by op and deferred.
#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <sstream>

#include "frit/frit.h"
#include "frit/print.h"
#include "tests/support/layer_checks.h"

using namespace frit;
using namespace frit::indexing;
using namespace frit::layer_checks;
namespace F = frit::nn::functional;
using Catch::Matchers::Contains;

namespace {

// Whole numbers in a small range, so that ties occur.
Tensor tied(IntArrayRef sizes) { return randint(-3, 4, sizes, kInt64).to(kFloat64); }

// ---- oracles ------------------------------------------------------------------------------------------------------------
struct Shape4 {  // a 1-d input is one of height 1
  int64_t n, c, h, w;
};
struct Conv {
  int64_t groups, out;
  Sizes kernel, stride, padding, dilation;  // padding: low ones; high: the same unless given
  Sizes high;
  std::string text() const { return "kernel " + join(kernel) + " stride " + join(stride) + " padding " + join(padding) + " dilation " + join(dilation) + " groups " + std::to_string(groups); }
};
std::vector<double> naive_convolution(const std::vector<double>& x, Shape4 s, const std::vector<double>& w, const std::vector<double>& bias, const Conv& c, Sizes& out_shape) {
  const Sizes& high = c.high.empty() ? c.padding : c.high;
  const int64_t oh = (s.h + c.padding[0] + high[0] - c.dilation[0] * (c.kernel[0] - 1) - 1) / c.stride[0] + 1;
  const int64_t ow = (s.w + c.padding[1] + high[1] - c.dilation[1] * (c.kernel[1] - 1) - 1) / c.stride[1] + 1;
  const int64_t in_group = s.c / c.groups, out_group = c.out / c.groups;
  out_shape = {s.n, c.out, oh, ow};
  std::vector<double> y;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t o = 0; o < c.out; ++o)
      for (int64_t i = 0; i < oh; ++i)
        for (int64_t j = 0; j < ow; ++j) {
          double sum = bias.empty() ? 0 : bias[size_t(o)];
          for (int64_t ci = 0; ci < in_group; ++ci)
            for (int64_t a = 0; a < c.kernel[0]; ++a)
              for (int64_t b = 0; b < c.kernel[1]; ++b) {
                const int64_t r = i * c.stride[0] - c.padding[0] + a * c.dilation[0], q = j * c.stride[1] - c.padding[1] + b * c.dilation[1];
                if (r < 0 || r >= s.h || q < 0 || q >= s.w) continue;
                const int64_t channel = o / out_group * in_group + ci;
                sum += x[size_t(((n * s.c + channel) * s.h + r) * s.w + q)] * w[size_t(((o * in_group + ci) * c.kernel[0] + a) * c.kernel[1] + b)];
              }
          y.push_back(sum);
        }
  return y;
}

struct Pool {
  Sizes kernel, stride, padding, dilation;
  bool ceil = false;
  std::string text() const { return "kernel " + join(kernel) + " stride " + join(stride) + " padding " + join(padding) + " dilation " + join(dilation) + (ceil ? " ceil" : ""); }
  int64_t extent(int64_t length, int i) const {
    const int64_t room = length + 2 * padding[size_t(i)] - dilation[size_t(i)] * (kernel[size_t(i)] - 1) - 1, s = stride[size_t(i)];
    int64_t o = (ceil ? (room + s - 1) / s : room / s) + 1;
    if (ceil && (o - 1) * s >= length + padding[size_t(i)]) --o;
    return o;
  }
};
struct Pooled {
  Sizes shape;
  std::vector<double> maxima, means_all, means_inside, sums;
  std::vector<double> places;
};
Pooled naive_pool(const std::vector<double>& x, Shape4 s, const Pool& p) {
  Pooled r;
  const int64_t oh = p.extent(s.h, 0), ow = p.extent(s.w, 1);
  r.shape = {s.n, s.c, oh, ow};
  for (int64_t nc = 0; nc < s.n * s.c; ++nc)
    for (int64_t i = 0; i < oh; ++i)
      for (int64_t j = 0; j < ow; ++j) {
        double best = -infinity, sum = 0;
        int64_t place = -1, inside = 0;
        for (int64_t a = 0; a < p.kernel[0]; ++a)
          for (int64_t b = 0; b < p.kernel[1]; ++b) {
            const int64_t row = i * p.stride[0] - p.padding[0] + a * p.dilation[0], q = j * p.stride[1] - p.padding[1] + b * p.dilation[1];
            if (row < 0 || row >= s.h || q < 0 || q >= s.w) continue;
            const double v = x[size_t((nc * s.h + row) * s.w + q)];
            if (place < 0 || v > best) best = v, place = row * s.w + q;
            sum += v, ++inside;
          }
        const int64_t top = i * p.stride[0] - p.padding[0], left = j * p.stride[1] - p.padding[1];
        const int64_t all = (std::min(top + p.kernel[0], s.h + p.padding[0]) - top) * (std::min(left + p.kernel[1], s.w + p.padding[1]) - left);
        r.maxima.push_back(best), r.places.push_back(double(place)), r.sums.push_back(sum);
        r.means_all.push_back(sum / double(all)), r.means_inside.push_back(sum / double(inside));
      }
  return r;
}

}  // namespace

// ---- convolution --------------------------------------------------------------------------------------------------------
TEST_CASE("conv2d: against loops") {
  std::mt19937 pick(5);
  in_both_modes([&] {
    pick.seed(5);
    const auto from = [&](std::initializer_list<int64_t> l) { return l.begin()[pick() % l.size()]; };
    int done = 0;
    for (int round = 0; round < 90; ++round) {
      const int64_t groups = from({1, 1, 2, 3});
      Conv c{groups, groups * from({1, 2, 3}), {from({1, 2, 3, 5}), from({1, 2, 3})}, {from({1, 1, 2, 3}), from({1, 2})}, {from({0, 1, 2}), from({0, 1, 3})}, {from({1, 1, 2, 3}), from({1, 2})}, {}};
      const Shape4 s{from({1, 2}), groups * from({1, 2}), from({1, 4, 7, 8}), from({3, 5, 6, 11})};
      if (s.h + 2 * c.padding[0] < c.dilation[0] * (c.kernel[0] - 1) + 1 || s.w + 2 * c.padding[1] < c.dilation[1] * (c.kernel[1] - 1) + 1) continue;
      INFO("round " << round << ", input " << s.n << "x" << s.c << "x" << s.h << "x" << s.w << ": " << c.text());
      Tensor x = random({s.n, s.c, s.h, s.w});
      if (round % 3 == 1) x = random({s.n, s.c, s.w, s.h}).transpose(2, 3);
      if (round % 3 == 2) x = random({s.n, s.h, s.w, s.c}).permute({0, 3, 1, 2});
      const Tensor w = random({c.out, s.c / groups, c.kernel[0], c.kernel[1]}), b = round % 2 ? random({c.out}) : Tensor();
      Sizes shape;
      const auto want = naive_convolution(values(x), s, values(w), b.defined() ? values(b) : std::vector<double>(), c, shape);
      check_close(frit::conv2d(x, w, b, c.stride, c.padding, c.dilation, groups), shape, want);
      if (round % 10 == 0) {
        const F::Conv2dFuncOptions o = F::Conv2dFuncOptions().bias(b).stride(c.stride).padding(c.padding).dilation(c.dilation).groups(groups);
        check_close(F::conv2d(x, w, o), shape, want);
        check_close(F::conv2d(x.select(0, 0), w, o), {shape[1], shape[2], shape[3]}, std::vector<double>(want.begin(), want.begin() + long(want.size()) / s.n));
      }
      ++done;
    }
    CHECK(done > 50);
  });
}
TEST_CASE("conv1d: against loops, by names of padding, in float32") {
  in_both_modes([] {
    for (const int64_t kernel : {1, 2, 3, 4})
      for (const int64_t dilation : {1, 2})
        for (const int64_t stride : {1, 3})
          for (const int64_t padding : {0, 2}) {
            const Shape4 s{2, 4, 1, 13};
            const Conv c{2, 6, {1, kernel}, {1, stride}, {0, padding}, {1, dilation}, {}};
            INFO(c.text());
            const Tensor x = random({2, 4, 13}), w = random({6, 2, kernel}), b = random({6});
            Sizes shape;
            const auto want = naive_convolution(values(x), s, values(w), values(b), c, shape);
            check_close(frit::conv1d(x, w, b, stride, padding, dilation, 2), {2, 6, shape[3]}, want);
            const Tensor f = frit::conv1d(x.to(kFloat32), w.to(kFloat32), b.to(kFloat32), stride, padding, dilation, 2);
            CHECK(f.dtype() == kFloat32);
            check_close(f, {2, 6, shape[3]}, want, 1e-5);
            if (stride != 1) continue;
            Conv same = c;
            const int64_t around = dilation * (kernel - 1);
            same.padding = {0, around / 2}, same.high = {0, around - around / 2};
            const auto whole = naive_convolution(values(x), s, values(w), values(b), same, shape);
            check_close(frit::conv1d(x, w, b, 1, "same", dilation, 2), {2, 6, 13}, whole);
            check_close(F::conv1d(x, w, F::Conv1dFuncOptions().bias(b).padding(kSame).dilation(dilation).groups(2)), {2, 6, 13}, whole);
            if (padding == 0) check_close(frit::conv1d(x, w, b, stride, std::string("valid"), dilation, 2), {2, 6, 13 - around}, want);
          }
    CHECK(frit::conv1d(zeros({0, 2, 5}), zeros({3, 2, 2})).sizes().vec() == Sizes{0, 3, 4});
  });
}
TEST_CASE("convolution: derivatives of first and second order") {
  in_both_modes([] {
    const struct { int64_t stride, padding, dilation, groups; } cases[] = {{1, 1, 1, 1}, {2, 1, 1, 2}, {1, 2, 2, 1}, {3, 0, 1, 4}};
    for (const auto& c : cases) {
      INFO("stride " << c.stride << " padding " << c.padding << " dilation " << c.dilation << " groups " << c.groups);
      const auto f2 = [&](const autograd::variable_list& in) { return autograd::variable_list{frit::conv2d(in[0], in[1], in[2], c.stride, c.padding, c.dilation, c.groups)}; };
      const autograd::variable_list in2{random({2, 4, 5, 6}).requires_grad_(), random({4, 4 / c.groups, 3, 2}).requires_grad_(), random({4}).requires_grad_()};
      CHECK(autograd::gradcheck(f2, in2));
      CHECK(autograd::gradgradcheck(f2, in2));
      const auto f1 = [&](const autograd::variable_list& in) { return autograd::variable_list{frit::conv1d(in[0], in[1], in[2], c.stride, c.padding, c.dilation, c.groups)}; };
      CHECK(autograd::gradcheck(f1, {random({2, 4, 8}).requires_grad_(), random({8, 4 / c.groups, 3}).requires_grad_(), random({8}).requires_grad_()}));
    }
  });
}
TEST_CASE("pad: modes against loops, derivatives") {
  in_both_modes([] {
    const Tensor x = random({2, 3, 4, 5});
    const auto v = values(x);
    const auto want = [&](Sizes pads, PadMode mode, double value) {
      std::vector<double> y;
      for (int64_t n = 0; n < 6; ++n)
        for (int64_t i = -pads[2]; i < 4 + pads[3]; ++i)
          for (int64_t j = -pads[0]; j < 5 + pads[1]; ++j) {
            const auto place = [&](int64_t k, int64_t length) -> int64_t {
              if (k >= 0 && k < length) return k;
              switch (mode) {
                case PadMode::reflect: return k < 0 ? -k : 2 * (length - 1) - k;
                case PadMode::replicate: return k < 0 ? 0 : length - 1;
                case PadMode::circular: return (k + length) % length;
                default: return -1;
              }
            };
            const int64_t r = place(i, 4), q = place(j, 5);
            y.push_back(r < 0 || q < 0 ? value : v[size_t((n * 4 + r) * 5 + q)]);
          }
      return y;
    };
    for (const Sizes& pads : {Sizes{1, 2, 3, 0}, Sizes{4, 0, 1, 2}})
      for (const PadMode mode : {kConstant, kReflect, kReplicate, kCircular}) {
        INFO("mode " << int(mode) << " pads " << join(pads));
        const auto options = F::PadFuncOptions(pads).mode(mode).value(1.5);
        const Sizes shape{2, 3, 4 + pads[2] + pads[3], 5 + pads[0] + pads[1]};
        check_close(F::pad(x, options), shape, want(pads, mode, 1.5), 0);
        CHECK(autograd::gradcheck([&](const autograd::variable_list& in) { return autograd::variable_list{F::pad(in[0], options)}; }, {x.clone().requires_grad_()}));
      }
    CHECK(frit::constant_pad_nd(x, {-1, 1}).index({Ellipsis, Slice(0, 4)}).equal(x.index({Ellipsis, Slice(1, None)})));
    CHECK(frit::pad(x, {1, 1}, "reflect").select(-1, 0).equal(x.select(-1, 1)));
    CHECK(F::pad(ones({2}, kInt32), F::PadFuncOptions({1, 0}).value(7)).equal(tensor({7, 1, 1}, kInt32)));
    CHECK_THROWS_WITH(F::pad(x, F::PadFuncOptions({5, 0}).mode(kReflect)), Contains("pad") && Contains("[2, 3, 4, 5]") && Contains("at most 4"));
    CHECK_THROWS_WITH(F::pad(x, F::PadFuncOptions({-3, -3})), Contains("Cut less away"));
    CHECK_THROWS_AS(F::pad(x, F::PadFuncOptions({1})), ValueError);
    CHECK_THROWS_AS(frit::pad(x, {1, 1}, "mirror"), ValueError);
  });
}
TEST_CASE("convolution: errors name op, shapes and remedy, and nothing is left behind") {
  in_both_modes([] {
    const Tensor x = random({2, 4, 5, 5}), w = random({6, 4, 3, 3});
    CHECK_THROWS_WITH(frit::conv2d(x, random({6, 3, 3, 3})), Contains("conv2d") && Contains("[2, 4, 5, 5]") && Contains("[6, 3, 3, 3]") && Contains("Change"));
    CHECK_THROWS_AS(frit::conv2d(x, random({6, 3, 3, 3})), ShapeError);
    CHECK_THROWS_AS(frit::conv2d(x, random({6, 4, 3})), ShapeError);
    CHECK_THROWS_AS(frit::conv2d(random({4, 5}), w), ShapeError);
    CHECK_THROWS_AS(frit::conv2d(x, w, random({5})), ShapeError);
    CHECK_THROWS_AS(frit::conv2d(x, random({6, 2, 3, 3}), {}, 1, 0, 1, 4), ShapeError);
    CHECK_THROWS_WITH(frit::conv2d(x, random({6, 4, 7, 3})), Contains("does not fit") && Contains("[7, 3]"));
    CHECK_THROWS_WITH(frit::conv2d(x, w, {}, 1, 0, 3), Contains("dilation [3, 3]"));
    CHECK_THROWS_AS(frit::conv2d(x, w, {}, 0), ValueError);
    CHECK_THROWS_AS(frit::conv2d(x, w, {}, 1, -1), ValueError);
    CHECK_THROWS_AS(frit::conv2d(x, w, {}, {1, 1, 1}), ValueError);
    CHECK_THROWS_AS(frit::conv2d(x, w, {}, 1, 0, 1, 0), ValueError);
    CHECK_THROWS_AS(frit::conv2d(x, w, {}, 2, "same"), ValueError);
    CHECK_THROWS_AS(frit::conv2d(x, w, {}, 1, "full"), ValueError);
    CHECK_THROWS_AS(frit::conv2d(x, w.to(kFloat32)), DtypeError);
    CHECK_THROWS_AS(frit::conv2d(Tensor(), w), ValueError);
    CHECK_THROWS_AS(nn::Conv2d(nn::Conv2dOptions(3, 4, 3).groups(2)), ValueError);
    CHECK_THROWS_AS(nn::Conv1d(nn::Conv1dOptions(3, 4, 3).padding(kSame).stride(2)), ValueError);
    CHECK_THROWS_AS(nn::Conv2dOptions(1, 1, {1, 2, 3}), ValueError);
    CHECK(frit::conv2d(x, w).sizes().vec() == Sizes{2, 6, 3, 3});
  });
}
TEST_CASE("convolution layers: parameters, initial values, modes of padding, copies") {
  in_both_modes([] {
    nn::Conv2d conv(nn::Conv2dOptions(4, 6, {3, 5}).stride({1, 2}).padding({1, 2}).groups(2));
    CHECK(conv->weight.sizes().vec() == Sizes{6, 2, 3, 5});
    CHECK(conv->bias.sizes().vec() == Sizes{6});
    CHECK(conv->named_parameters().keys() == std::vector<std::string>{"weight", "bias"});
    const double bound = 1 / std::sqrt(2.0 * 3 * 5);
    const auto w = values(conv->weight);
    CHECK(*std::max_element(w.begin(), w.end()) <= bound);
    CHECK(*std::max_element(w.begin(), w.end()) > 0.8 * bound);
    CHECK(*std::min_element(w.begin(), w.end()) < -0.8 * bound);
    for (double b : values(conv->bias)) CHECK(std::abs(b) <= bound);
    const Tensor x = randn({2, 4, 7, 8});
    CHECK(conv(x).equal(frit::conv2d(x, conv->weight, conv->bias, {1, 2}, {1, 2}, 1, 2)));
    CHECK(!nn::Conv1d(nn::Conv1dOptions(2, 2, 3).bias(false))->bias.defined());
    CHECK(nn::Conv2d(4, 2, 3)(x).sizes().vec() == Sizes{2, 2, 5, 6});

    nn::Conv1d same(nn::Conv1dOptions(4, 3, 4).padding(kSame).dilation(2).padding_mode(kReflect));
    const Tensor line = randn({2, 4, 9});
    CHECK(same(line).allclose(frit::conv1d(F::pad(line, F::PadFuncOptions({3, 3}).mode(kReflect)), same->weight, same->bias, 1, 0, 2)));
    nn::Conv2d circular(nn::Conv2dOptions(4, 3, {3, 1}).padding({1, 0}).padding_mode(kCircular));
    CHECK(circular(x).allclose(frit::conv2d(frit::pad(x, {0, 0, 1, 1}, "circular"), circular->weight, circular->bias)));

    const auto copy = std::dynamic_pointer_cast<nn::Conv2dImpl>(conv->clone());
    CHECK(copy->weight.equal(conv->weight));
    CHECK(!copy->weight.is_alias_of(conv->weight));
    std::ostringstream out;
    out << conv << nn::MaxPool2d(2) << nn::AdaptiveAvgPool2d(1) << nn::BatchNorm2d(3) << nn::GroupNorm(2, 4);
    CHECK_THAT(out.str(), Contains("Conv2d(4, 6, kernel_size=[3, 5], stride=[1, 2], padding=[1, 2], groups=2)") && Contains("MaxPool2d(kernel_size=[2, 2]") && Contains("output_size=[1, 1]") &&
                              Contains("BatchNorm2d(3") && Contains("GroupNorm(2, 4"));
  });
}

// ---- pooling ------------------------------------------------------------------------------------------------------------
TEST_CASE("pooling: against loops, with ties") {
  std::mt19937 pick(9);
  in_both_modes([&] {
    pick.seed(9);
    const auto from = [&](std::initializer_list<int64_t> l) { return l.begin()[pick() % l.size()]; };
    int done = 0;
    for (int round = 0; round < 80; ++round) {
      Pool p{{from({1, 2, 3}), from({2, 3, 4})}, {from({1, 2, 3}), from({1, 2, 4})}, {0, 0}, {from({1, 1, 2}), from({1, 1, 3})}, bool(pick() % 2)};
      for (size_t i = 0; i < 2; ++i) p.padding[i] = int64_t(pick() % uint64_t(p.kernel[i] / 2 + 1));
      const Shape4 s{from({1, 2}), from({1, 3}), from({4, 7, 8}), from({7, 9, 10})};
      if (p.dilation[0] * (p.kernel[0] - 1) >= s.h + 2 * p.padding[0] || p.dilation[1] * (p.kernel[1] - 1) >= s.w + 2 * p.padding[1]) continue;
      INFO("round " << round << ", input " << s.n << "x" << s.c << "x" << s.h << "x" << s.w << ": " << p.text());
      Tensor x = round % 2 ? tied({s.n, s.c, s.h, s.w}) : random({s.n, s.c, s.w, s.h}).transpose(2, 3);
      if (round % 5 == 0) x = frit::where(x.gt(Scalar(0)), x, Scalar(-infinity));
      Pooled want = naive_pool(values(x), s, p);
      check_close(frit::max_pool2d(x, p.kernel, p.stride, p.padding, p.dilation, p.ceil), want.shape, want.maxima, 0);
      const auto [top, place] = frit::max_pool2d_with_indices(x, p.kernel, p.stride, p.padding, p.dilation, p.ceil);
      check_close(top, want.shape, want.maxima, 0);
      check_close(place, want.shape, want.places, 0);
      CHECK(place.dtype() == kInt64);
      Tensor leaf = x.detach().clone().requires_grad_();
      const Tensor traced = frit::max_pool2d(leaf, p.kernel, p.stride, p.padding, p.dilation, p.ceil);
      check_close(traced, want.shape, want.maxima, 0);
      const Tensor g = random(want.shape);
      traced.backward(g);
      std::vector<double> slopes(size_t(x.numel()));
      const auto gv = values(g);
      const size_t of_channel = size_t(want.shape[2] * want.shape[3]);
      for (size_t i = 0; i < gv.size(); ++i) slopes[i / of_channel * size_t(s.h * s.w) + size_t(want.places[i])] += gv[i];
      check_close(leaf.grad(), x.sizes().vec(), slopes);
      ++done;
      if (round % 5 == 0) continue;
      p.dilation = {1, 1};
      want = naive_pool(values(x), s, p);
      check_close(frit::avg_pool2d(x, p.kernel, p.stride, p.padding, p.ceil), want.shape, want.means_all);
      check_close(frit::avg_pool2d(x, p.kernel, p.stride, p.padding, p.ceil, false), want.shape, want.means_inside);
      for (double& v : want.sums) v /= 5;
      check_close(F::avg_pool2d(x, F::AvgPool2dFuncOptions(p.kernel).stride(p.stride).padding(p.padding).ceil_mode(p.ceil).divisor_override(5)), want.shape, want.sums);
    }
    CHECK(done > 40);
  });
}
TEST_CASE("pooling: one axis, no batch, long windows, types") {
  in_both_modes([] {
    for (const Pool& p : {Pool{{1, 3}, {1, 3}, {0, 1}, {1, 1}, true}, Pool{{1, 20}, {1, 20}, {0, 0}, {1, 1}, false}, Pool{{1, 20}, {1, 20}, {0, 7}, {1, 1}, true}, Pool{{1, 18}, {1, 5}, {0, 3}, {1, 1}, false}}) {
      INFO(p.text());
      const Tensor x = random({3, 50});
      const Pooled want = naive_pool(values(x), {1, 3, 1, 50}, p);
      const Sizes shape{3, want.shape[3]};
      check_close(frit::max_pool1d(x, p.kernel[1], p.stride[1], p.padding[1], 1, p.ceil), shape, want.maxima, 0);
      check_close(std::get<1>(F::max_pool1d_with_indices(x, F::MaxPool1dFuncOptions(p.kernel[1]).stride(p.stride[1]).padding(p.padding[1]).ceil_mode(p.ceil))), shape, want.places, 0);
      check_close(frit::avg_pool1d(x, p.kernel[1], p.stride[1], p.padding[1], p.ceil), shape, want.means_all);
      check_close(frit::avg_pool1d(x, p.kernel[1], p.stride[1], p.padding[1], p.ceil, false), shape, want.means_inside);
    }
    const Tensor whole = randint(-50, 50, {2, 2, 6, 6}, kInt64);
    const Pool p{{3, 3}, {2, 2}, {1, 1}, {1, 1}, false};
    const Pooled want = naive_pool(values(whole), {2, 2, 6, 6}, p);
    for (const Dtype d : {kInt64, kInt32, kInt8, kFloat32, kFloat16, kBFloat16}) {
      INFO(dtype_name(d));
      const Tensor y = frit::max_pool2d(whole.to(d), 3, 2, 1);
      CHECK(y.dtype() == d);
      check_close(y, want.shape, want.maxima, 0);
    }
    const Tensor half = frit::avg_pool2d(whole.to(kBFloat16), 3, 2, 1);
    CHECK(half.dtype() == kBFloat16);
    check_close(half, want.shape, want.means_all, 4e-3);
    CHECK(frit::max_pool2d(zeros({0, 2, 4, 4}), 2).sizes().vec() == Sizes{0, 2, 2, 2});
    CHECK(frit::max_pool2d(tensor({{{1., NAN}, {3., 4.}}}), 2).isnan().all().item<bool>());
    CHECK(nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2))(randn({1, 2, 9, 7})).sizes().vec() == Sizes{1, 2, 4, 3});
    CHECK(nn::MaxPool2d(2)(randn({1, 2, 9, 7})).sizes().vec() == Sizes{1, 2, 4, 3});
    CHECK(nn::AvgPool2d(nn::AvgPool2dOptions({3, 2}))(randn({2, 9, 8})).sizes().vec() == Sizes{2, 3, 4});
  });
}
TEST_CASE("adaptive_avg_pool2d: against loops") {
  in_both_modes([] {
    for (const int64_t h : {1, 6, 7})
      for (const Sizes& out : {Sizes{1, 1}, Sizes{3, 2}, Sizes{4, 5}, Sizes{7, 8}, Sizes{9, 3}}) {
        const int64_t w = 8;
        INFO("height " << h << " to " << join(out));
        const Tensor x = random({2, 3, h, w});
        const auto v = values(x);
        std::vector<double> want;
        for (int64_t n = 0; n < 6; ++n)
          for (int64_t i = 0; i < out[0]; ++i)
            for (int64_t j = 0; j < out[1]; ++j) {
              double sum = 0;
              int64_t count = 0;
              for (int64_t a = i * h / out[0]; a < ((i + 1) * h + out[0] - 1) / out[0]; ++a)
                for (int64_t b = j * w / out[1]; b < ((j + 1) * w + out[1] - 1) / out[1]; ++b) sum += v[size_t((n * h + a) * w + b)], ++count;
              want.push_back(sum / double(count));
            }
        check_close(frit::adaptive_avg_pool2d(x, out), {2, 3, out[0], out[1]}, want);
        CHECK(autograd::gradcheck([&](const autograd::variable_list& in) { return autograd::variable_list{frit::adaptive_avg_pool2d(in[0], out)}; }, {x.clone().requires_grad_()}));
      }
    const Tensor x = randn({2, 3, 6, 8});
    CHECK(nn::AdaptiveAvgPool2d(1)(x).allclose(x.mean({2, 3}, true)));
    CHECK(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({std::nullopt, 4}))(x).sizes().vec() == Sizes{2, 3, 6, 4});
    CHECK(F::adaptive_avg_pool2d(x, F::AdaptiveAvgPool2dFuncOptions({3, 2})).sizes().vec() == Sizes{2, 3, 3, 2});
    CHECK(frit::adaptive_avg_pool1d(x.select(0, 0).select(0, 0), 2).allclose(x.select(0, 0).select(0, 0).unflatten(1, {2, 4}).mean(-1)));
    CHECK(frit::adaptive_avg_pool2d(x, {2, 0}).sizes().vec() == Sizes{2, 3, 2, 0});
  });
}
TEST_CASE("pooling: derivatives of first and second order, errors") {
  in_both_modes([] {
    using List = autograd::variable_list;
    const Tensor x = (randperm(2 * 2 * 7 * 6).to(kFloat64) * Scalar(0.1)).reshape({2, 2, 7, 6});  // no ties
    const auto check = [&](const std::function<Tensor(const Tensor&)>& f) {
      CHECK(autograd::gradcheck([&](const List& in) { return List{f(in[0])}; }, {x.clone().requires_grad_()}));
      CHECK(autograd::gradgradcheck([&](const List& in) { return List{f(in[0].square())}; }, {x.clone().requires_grad_()}, 1e-6, 1e-4));
    };
    check([](const Tensor& t) { return frit::max_pool2d(t, 3, 2, 1); });
    check([](const Tensor& t) { return frit::max_pool2d(t, {2, 3}, {2, 3}, 0, 1, true); });
    check([](const Tensor& t) { return frit::avg_pool2d(t, 3, 2, 1, true, false); });
    check([](const Tensor& t) { return frit::avg_pool2d(t, 2); });

    CHECK_THROWS_WITH(frit::max_pool2d(x, 3, 1, 2), Contains("max_pool2d") && Contains("half"));
    CHECK_THROWS_WITH(frit::max_pool2d(x, 8), Contains("[2, 2, 7, 6]") && Contains("does not fit"));
    CHECK_THROWS_AS(frit::max_pool2d(x, 0), ValueError);
    CHECK_THROWS_AS(frit::max_pool2d(x, {2, 2, 2}), ValueError);
    CHECK_THROWS_AS(frit::max_pool2d(x.select(0, 0).select(0, 0), 2), ShapeError);
    CHECK_THROWS_AS(frit::avg_pool2d(x.to(kInt32), 2), DtypeError);
    CHECK_THROWS_AS(frit::avg_pool2d(x, 2, {}, 0, false, true, 0), ValueError);
    CHECK_THROWS_AS(frit::adaptive_avg_pool2d(x, -1), ValueError);
    CHECK_THROWS_WITH(frit::max_pool1d_with_indices(zeros({1, 1}), 2, 1, 1, 2), Contains("nothing but padding"));
  });
}
