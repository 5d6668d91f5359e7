// Convolutions and the places of pooled maxima over types, layouts, shapes and modes: bit for bit with the interpreter, and against loops in
// double precision. What lies in memory meanwhile is counted.
#include <catch2/catch.hpp>
#include <sys/mman.h>
#include <array>
#include <cstring>
#include <utility>
#include "frit/memory.h"
#include "frit/nn.h"
#include "runtime/cpu.h"
#include "runtime/error.h"
#include "runtime/launch.h"
#include "tests/support/op_harness.h"

using namespace frit;
using namespace frit::testing;
using tracer::PoolAxis;
using tracer::WindowAxis;
using L = frit::testing::Layout;

namespace {
struct Case {
  int64_t batch, groups, in, out;  // channels of a group
  Sizes extents, kernel;
  std::vector<WindowAxis> axes;
  std::string text() const {
    std::string s = std::to_string(batch) + " images, " + std::to_string(groups) + " groups of " + std::to_string(in) + " to " + std::to_string(out) + ", " + sizes_text(extents) + " kernel " + sizes_text(kernel);
    for (const WindowAxis& a : axes) s += " stride " + std::to_string(a.stride) + " dilation " + std::to_string(a.dilation) + " padding " + std::to_string(a.low) + " " + std::to_string(a.high);
    return s;
  }
  int64_t places(size_t i) const { return (extents[i] + axes[i].low + axes[i].high - axes[i].dilation * (kernel[i] - 1) - 1) / axes[i].stride + 1; }
  bool fits() const {
    for (size_t i = 0; i < extents.size(); ++i)
      if (extents[i] + axes[i].low + axes[i].high <= axes[i].dilation * (kernel[i] - 1)) return false;
    return true;
  }
  Sizes input() const { return with(batch, groups * in, extents); }
  Sizes weight() const { return with(groups * out, in, kernel); }
  Sizes output() const {
    Sizes e;
    for (size_t i = 0; i < extents.size(); ++i) e.push_back(places(i));
    return with(batch, groups * out, e);
  }
  static Sizes with(int64_t a, int64_t b, const Sizes& e) {
    Sizes s{a, b};
    s.insert(s.end(), e.begin(), e.end());
    return s;
  }
};
// Tails, one and no image, one channel, padding beyond the kernel, cut edges, kernels as large as the input, strides beyond the kernel.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {2, 1, 3, 5, {7, 9}, {3, 3}, {{1, 1, 1, 1}, {1, 1, 1, 1}}},
      {1, 1, 4, 8, {6, 6}, {1, 1}, {{}, {}}},
      {3, 2, 4, 6, {5, 8}, {1, 1}, {{2}, {3}}},
      {2, 1, 2, 3, {9, 11}, {3, 2}, {{2, 1, 1, 1}, {2, 1, 0, 1}}},
      {2, 3, 1, 1, {8, 19}, {3, 3}, {{1, 1, 1, 1}, {1, 1, 1, 1}}},
      {2, 4, 1, 1, {9, 10}, {3, 5}, {{2, 1, 1, 1}, {2, 1, 2, 2}}},
      {1, 3, 1, 2, {7, 7}, {2, 3}, {{1, 2, 2, 2}, {1, 1, 0, 0}}},
      {2, 2, 2, 3, {6, 7}, {3, 3}, {{1, 2, 2, 2}, {1, 2, 3, 3}}},
      {2, 1, 2, 4, {5, 5}, {5, 5}, {{}, {}}},
      {2, 1, 2, 4, {4, 4}, {2, 2}, {{3, 1, 5, 4}, {3, 1, 6, 5}}},
      {2, 1, 3, 2, {9, 9}, {2, 3}, {{1, 1, -1, -2}, {2, 1, -2, -1}}},
      {1, 1, 1, 1, {1, 1}, {1, 1}, {{}, {}}},
      {1, 1, 2, 3, {1, 40}, {1, 7}, {{1}, {1, 3, 4, 4}}},
      {1, 1, 2, 3, {40, 1}, {7, 1}, {{1, 3, 4, 4}, {1}}},
      {0, 1, 2, 3, {4, 4}, {3, 3}, {{}, {}}},
      {2, 1, 2, 0, {4, 4}, {3, 3}, {{}, {}}},
      {5, 1, 3, 4, {33}, {4}, {{2, 1, 1, 2}}},
      {2, 2, 3, 2, {50}, {5}, {{1, 2, 4, 4}}},
      {3, 5, 1, 1, {17}, {3}, {{1, 1, 1, 1}}},
      {2, 1, 40, 9, {6, 7}, {3, 3}, {{1, 1, 1, 1}, {1, 1, 1, 1}}},   // several panels
      {1, 1, 3, 17, {19, 17}, {3, 3}, {{1, 1, 1, 1}, {1, 1, 1, 1}}},  // images of more places than a panel
      {9, 1, 5, 50, {7, 7}, {3, 3}, {{1, 1, 1, 1}, {1, 1, 1, 1}}},    // images that are taken together
      {3, 1, 8, 70, {9, 8}, {3, 3}, {{2, 1, 1, 1}, {2, 1, 1, 1}}},
      {1, 1, 300, 1, {3, 5}, {1, 2}, {{}, {}}},                      // one row, several panels
      {1, 1, 1, 300, {3, 5}, {2, 1}, {{}, {}}},
  };
  return all;
}
void emit_all(const Case& c, Random& r, Dtype d, L l, std::vector<Var>& kept, bool hostile) {
  const Data data = hostile ? Data::hostile : Data::domain;
  const auto make = [&](const Sizes& s, L layout) { return make_tensor(r, d, s, layout, -2, 2, data); };
  kept.push_back(tracer::convolution(make(c.input(), l), make(c.weight(), random_layout(r)), c.axes, c.groups));
  kept.push_back(tracer::convolution_input(make(c.output(), l), make(c.weight(), random_layout(r)), c.axes, c.groups, c.extents));
  kept.push_back(tracer::convolution_weight(make(c.output(), l), make(c.input(), random_layout(r)), c.axes, c.groups, c.kernel));
  tally().combinations += 3;
}
}  // namespace

TEST_CASE("ops: convolutions") {
  for (RunMode mode : all_modes)
    for (Dtype d : all_dtypes) {
      Random r(std::string("convolutions ") + dtype_name(d));
      Checked checked(mode);
      std::vector<Var> kept;
      int turn = 0;
      for (const Case& c : cases()) {
        if (!c.fits()) FAIL(c.text());
        INFO(c.text() << " " << dtype_name(d) << " " << mode_name(mode) << " seed " << run_seed());
        const bool few = !is_floating(d);
        for (int k = 0; k < (few ? 1 : 2); ++k) emit_all(c, r, d, turn % 3 == 0 ? L::contiguous : random_layout(r), kept, turn % 4 == 3), ++turn;
        if (mode == RunMode::eager) kept.clear();
      }
      for (int l = 0; l < layout_count && is_floating(d); ++l) emit_all(cases()[size_t(l) % 8], r, d, L(l), kept, false);
      synchronize();
    }
  require_covered({Op::convolution, Op::convolution_input, Op::convolution_weight});
  report("convolutions");
}

TEST_CASE("ops: convolutions of random geometry, whatever the number of threads and the registers") {
  const int before = num_threads();
  const bool wide = uses_avx512();
  Random r("random convolutions");
  for (int round = 0; round < 120; ++round) {
    const auto some = [&](int64_t low, int64_t high) { return low + r.below(high - low + 1); };
    const size_t n = size_t(some(1, 2));
    Case c{some(1, 4), some(0, 3) ? 1 : some(2, 3), some(1, 6), some(1, 12), {}, {}, {}};
    if (round % 7 == 0) c.groups = some(2, 9), c.in = c.out = 1;
    if (round % 9 == 0) c.in = some(20, 60);
    for (size_t i = 0; i < n; ++i) {
      c.extents.push_back(some(1, n == 1 ? 300 : 24)), c.kernel.push_back(some(1, 5));
      c.axes.push_back({some(0, 1) ? 1 : some(1, 4), some(0, 2) ? 1 : some(1, 3), some(0, 1) ? 0 : some(0, 4), some(0, 1) ? 0 : some(0, 4)});
    }
    if (!c.fits()) continue;
    INFO("round " << round << ": " << c.text() << " seed " << run_seed());
    set_num_threads(round % 2 ? 3 : 1);
    use_avx512(wide && round % 3);
    Checked checked(RunMode::eager);
    std::vector<Var> kept;
    emit_all(c, r, r.pick(floating_dtypes), random_layout(r), kept, round % 10 == 0);
  }
  set_num_threads(before);
  use_avx512(wide);
  report("convolutions of random geometry");
}

// The same tensor in memory of its own, which ends, or begins, where nothing may be read.
struct Fenced {
  static Var copy(const Var& v, bool at_end) {
    const Sizes e = tracer::sizes_of(v);
    const Var flat = tracer::copy(v, true);
    const tracer::Value& from = tracer::value_of(flat.cell(), "test");
    const size_t page = 4096, bytes = size_t(from.numel()) * size_of(from.dtype), room = (bytes + page - 1) / page * page;
    char* const all = static_cast<char*>(mmap(nullptr, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(all != MAP_FAILED);
    REQUIRE((room == 0 || mprotect(all + page, room, PROT_READ | PROT_WRITE) == 0));
    char* const data = all + page + (at_end ? room - bytes : 0);
    std::memcpy(data, from.data(), bytes);
    Sizes strides(e.size(), 1);
    for (size_t i = e.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(e[i], 1);
    auto* const fence = new std::pair<char*, size_t>(all, room + 2 * page);
    return Var::take(tracer::new_cell(tracer::new_foreign_value(data, from.dtype, e.data(), strides.data(), int(e.size()), &open, fence)));
  }
  static void open(void* context) {
    auto* const fence = static_cast<std::pair<char*, size_t>*>(context);
    munmap(fence->first, fence->second);
    delete fence;
  }
};

TEST_CASE("ops: window rows read nothing beside their operands") {
  const InMode mode(RunMode::eager);
  const bool wide = uses_avx512();
  Random r("fenced windows");
  for (Dtype d : floating_dtypes)
    for (const Case& c : cases())
      for (int k = 0; k < 4; ++k) {
        INFO(c.text() << " " << dtype_name(d) << (k & 1 ? ", memory ends" : ", memory begins") << " at a fence, seed " << run_seed());
        use_avx512(wide && k < 2);
        const auto make = [&](const Sizes& s, bool turned) {
          const Var v = Fenced::copy(make_tensor(r, d, turned && s.size() == 4 ? Sizes{s[0], s[2], s[3], s[1]} : s, L::contiguous, -2, 2, Data::domain), k & 1);
          return turned && s.size() == 4 ? tracer::permute(v, {0, 3, 1, 2}) : v;
        };
        for (bool turned : {false, true}) {  // channels last
          const Var x = make(c.input(), turned), w = make(c.weight(), turned), g = make(c.output(), turned);
          const Var y = tracer::convolution(x, w, c.axes, c.groups), dx = tracer::convolution_input(g, w, c.axes, c.groups, c.extents), dw = tracer::convolution_weight(g, x, c.axes, c.groups, c.kernel);
          CHECK(tracer::sizes_of(y) == c.output());
          CHECK(tracer::sizes_of(dx) == c.input());
          CHECK(tracer::sizes_of(dw) == c.weight());
          std::vector<PoolAxis> axes;
          for (size_t i = 0; i < c.extents.size(); ++i) axes.push_back({std::min<int64_t>(c.kernel[i], c.extents[i]), c.axes[i].stride, 1, 0, (c.extents[i] - std::min(c.kernel[i], c.extents[i])) / c.axes[i].stride + 1});
          CHECK(tracer::sizes_of(tracer::pool_max(x, axes)) == tracer::sizes_of(tracer::pool_argmax(x, axes)));
        }
      }
  use_avx512(wide);
}

TEST_CASE("ops: pooled maxima and their places") {
  struct Pool {
    Sizes shape;
    std::vector<PoolAxis> axes;
  };
  const Pool pools[] = {{{2, 3, 8, 10}, {{2, 2, 1, 0, 4}, {2, 2, 1, 0, 5}}},     {{2, 3, 9, 23}, {{3, 2, 1, 1, 5}, {3, 2, 1, 1, 12}}}, {{1, 2, 7, 40}, {{3, 1, 1, 1, 7}, {3, 1, 1, 1, 40}}},
                        {{2, 2, 9, 17}, {{2, 3, 2, 1, 4}, {3, 2, 3, 2, 7}}},     {{3, 1, 1, 5}, {{1, 1, 1, 0, 1}, {5, 1, 1, 0, 1}}}, {{0, 2, 4, 4}, {{2, 2, 1, 0, 2}, {2, 2, 1, 0, 2}}},
                        {{2, 5, 33}, {{4, 3, 1, 2, 11}}},                        {{2, 2, 70}, {{20, 7, 1, 9, 9}}},                    {{1, 1, 6, 70}, {{2, 2, 1, 0, 3}, {2, 2, 1, 0, 35}}},
                        {{1, 2, 5, 64}, {{5, 1, 1, 2, 5}, {5, 1, 1, 2, 64}}},    {{2, 1, 12, 100}, {{3, 3, 1, 0, 4}, {3, 3, 1, 0, 33}}}, {{1, 1, 4, 21}, {{1, 1, 1, 0, 4}, {4, 4, 1, 1, 6}}}};
  for (RunMode mode : all_modes)
    for (Dtype d : all_dtypes) {
      Random r(std::string("pooled maxima ") + dtype_name(d));
      Checked checked(mode);
      std::vector<Var> kept;
      for (const Pool& p : pools)
        for (int l = 0; l < layout_count; ++l) {
          Var x = make_tensor(r, d, p.shape, L(l), -3, 3, l % 2 ? Data::hostile : Data::domain);
          if (l % 3 == 0 && is_floating(d)) x = tracer::round(x);  // ties, zeros of both signs
          kept.push_back(tracer::pool_argmax(x, p.axes));
          kept.push_back(tracer::pool_max(x, p.axes));
          tally().combinations += 2;
        }
      synchronize();
    }
  require_covered({Op::pool_max, Op::pool_argmax});
  report("pooled maxima");
}

TEST_CASE("ops: window rows refuse what they cannot take") {
  const Tensor x = zeros({2, 4, 5, 5}), w = zeros({6, 4, 3, 3});
  const std::vector<WindowAxis> axes(2);
  CHECK_THROWS_AS(tracer::convolution(x, w, axes, 4), ShapeError);
  CHECK_THROWS_AS(tracer::convolution(x, w, axes, 2), ShapeError);
  CHECK_THROWS_AS(tracer::convolution(x, w.to(kFloat64), axes, 1), DtypeError);
  CHECK_THROWS_AS(tracer::convolution(x, w, {{0}, {1}}, 1), ValueError);
  CHECK_THROWS_AS(tracer::convolution(x, zeros({6, 4, 6, 3}), axes, 1), ShapeError);
  CHECK_THROWS_AS(tracer::convolution(zeros({4, 5}), zeros({4, 5}), {}, 1), ShapeError);
  CHECK_THROWS_AS(tracer::convolution_input(zeros({2, 6, 3, 3}), w, axes, 1, {6, 5}), ShapeError);
  CHECK_THROWS_AS(tracer::convolution_weight(zeros({2, 6, 3, 3}), x, axes, 1, {3, 4}), ShapeError);
  CHECK_THROWS_AS(tracer::convolution_weight(zeros({3, 6, 3, 3}), x, axes, 1, {3, 3}), ShapeError);
  CHECK_THROWS_AS(tracer::pool_argmax(x, {{2, 2, 1, 0, 2}, {2, 2, 1, 0, 4}}), ShapeError);
  CHECK_THROWS_AS(tracer::pool_argmax(x, {{2, 2, 7, 1, 2}, {2, 2, 1, 0, 2}}), ShapeError);
  CHECK(tracer::sizes_of(tracer::convolution(x, w, axes, 1)) == Sizes{2, 6, 3, 3});
}

TEST_CASE("convolution: the bits of the unfolded product") {
  for (Dtype d : floating_dtypes)
    for (const auto& [batch, in, out, extent] : {std::array<int64_t, 4>{2, 3, 4, 9}, {3, 40, 17, 8}, {1, 30, 64, 23}}) {
      INFO(dtype_name(d) << " " << in << " to " << out << " channels of " << extent);
      const Tensor x = randn({batch, in, extent, extent}).to(d), w = randn({out, in, 3, 3}).to(d);
      const Tensor columns = im2col(x, 3, 1, 1, 2), y = conv2d(x, w, {}, 2, 1);
      CHECK(y.flatten(2).equal(w.reshape({out, in * 9}).matmul(columns)));
    }
}

TEST_CASE("convolution: nothing is unfolded, forward and backward") {
  for (const jit::Mode mode : {jit::Mode::eager, jit::Mode::automatic}) {
    const jit::ModeGuard guard(mode);
    const Tensor x = randn({4, 32, 32, 32}).requires_grad_(), w = randn({32, 32, 3, 3}).requires_grad_(), g = ones({4, 32, 32, 32});
    synchronize();
    const int64_t image = x.numel() * 4, weights = w.numel() * 4, before = memory::stats().current;
    memory::reset_peak();
    const Tensor y = nn::functional::conv2d(x, w, nn::functional::Conv2dFuncOptions().padding(1));
    const TensorList gradients = autograd::grad({y}, {x, w}, {g});
    synchronize();
    const int64_t held = memory::stats().peak - before;
    INFO("peak " << held << ", an image batch has " << image);
    CHECK(held >= 2 * image);                 // the result and the input's gradient
    CHECK(held < 2 * image + image / 2 + 4 * weights);  // nine times as much would be unfolded
  }
}
