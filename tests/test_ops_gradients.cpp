// Derivatives of every pointwise row: first (reverse and forward) and second, in Float64 along random directions, against
// central differences, over layouts, broadcasts and numbers, in both modes; types and shapes of half and Float32 gradients;
// what the row's `saved` column says, against what its derivatives read and what backward refuses.
#include <catch2/catch.hpp>
#include <cmath>
#include "runtime/error.h"
#include "tests/support/op_harness.h"

using namespace frit;
using namespace frit::testing;
using L = frit::testing::Layout;
using autograd::variable_list;

namespace {
bool flows(const OpRow& r, int k) { return k < r.inputs && r.derivative[k]; }
bool differentiable(const OpRow& r) { return r.kind == RowKind::pointwise && r.type != TypeRule::assign && (flows(r, 0) || flows(r, 1) || flows(r, 2)); }

// Differences of second order along a random direction shrink with the square of the width where the row is smooth; they do
// not where a kink or a jump lies between.
bool smooth(Op op, const std::vector<Tensor>& x, Random& r) {
  NoGradGuard none;
  std::vector<Tensor> direction;
  for (const Tensor& t : x) direction.push_back(t.dtype() == kBool ? Tensor() : Tensor(make_tensor(r, kFloat64, t.sizes().vec(), L::contiguous, 0.5, 1, Data::domain)));
  const auto at = [&](double h) {
    std::vector<Tensor> moved;
    for (size_t k = 0; k < x.size(); ++k) moved.push_back(direction[k].defined() ? x[k] + direction[k] * h : x[k]);
    return doubles(emit(op, {moved.begin(), moved.end()}));
  };
  const double h = 1e-3;
  const std::vector<double> middle = at(0), far_high = at(h), far_low = at(-h), near_high = at(h / 2), near_low = at(-h / 2);
  for (size_t i = 0; i < middle.size(); ++i) {
    const double wide = far_high[i] - 2 * middle[i] + far_low[i], narrow = near_high[i] - 2 * middle[i] + near_low[i];
    if (!(std::abs(wide - 4 * narrow) <= 0.25 * std::abs(wide) || std::abs(wide) + std::abs(narrow) <= 1e-8 * (1 + std::abs(middle[i])))) return false;
  }
  return true;
}
Tensor operand(Random& r, const OpRow& row, int k, const Sizes& shape, L l) {
  const double margin = 0.01 * (row.high - row.low);
  if (row.type == TypeRule::choice && k == 0) return make_tensor(r, kBool, shape, l, 0, 1, Data::domain);
  return make_tensor(r, kFloat64, shape, l, row.low + margin, row.high - margin, Data::domain);
}
std::vector<Tensor> smooth_operands(Op op, const std::vector<Sizes>& shapes, const std::vector<L>& layouts, Random& r) {
  for (int turn = 0; turn < 500; ++turn) {
    std::vector<Tensor> x;
    for (int k = 0; k < row(op).inputs; ++k) x.push_back(operand(r, row(op), k, shapes[size_t(k)], layouts[size_t(k)]));
    if (smooth(op, x, r)) return x;
  }
  FAIL(row(op).name << ": no smooth point was found");
  return {};
}
// The row as a function of the operands that gradients flow to; the others and `numbers` are fixed.
struct Case {
  autograd::TensorFunction f;
  variable_list in;
};
Case case_of(Op op, const std::vector<Tensor>& x, int numbers) {
  Case c;
  std::vector<int> place(x.size(), -1);
  for (size_t k = 0; k < x.size(); ++k)
    if (flows(row(op), int(k)) && !(numbers >> k & 1)) place[k] = int(c.in.size()), c.in.push_back(x[k]);
  c.f = [op, x, place, numbers](const variable_list& in) -> variable_list {
    std::vector<Tensor> held;
    for (size_t k = 0; k < x.size(); ++k) held.push_back(place[k] >= 0 ? in[size_t(place[k])] : x[k]);
    std::vector<Operand> operands;
    for (size_t k = 0; k < x.size(); ++k) {
      if (numbers >> k & 1) operands.push_back(Number(x[k].flatten()[0].item<double>()));
      else operands.push_back(held[k]);
    }
    return {emit(op, operands)};
  };
  return c;
}
void check(Op op, const Case& c, const std::string& what) {
  if (c.in.empty()) return;
  INFO(row(op).name << " " << what << ", seed " << run_seed());
  CHECK_NOTHROW(autograd::gradcheck(c.f, c.in));
  CHECK_NOTHROW(autograd::gradgradcheck(c.f, c.in, 1e-6, 1e-5, 2e-3));
  ++tally().gradients;
}
}  // namespace

TEST_CASE("ops: first and second derivatives of pointwise rows") {
  for (Op op : rows_where(&differentiable)) {
    const OpRow& r = row(op);
    Random random(std::string("gradient ") + r.name);
    manual_seed(random.bits());
    for (RunMode mode : all_modes) {
      Checked checked(mode);
      const std::vector<Sizes> same(3, Sizes{3, 4});
      struct {
        std::vector<Sizes> shapes;
        std::vector<L> layouts;
        const char* name;
      } plans[] = {{same, {L::contiguous, L::contiguous, L::contiguous}, "contiguous"},
                   {same, {L::transposed, L::stepped, L::misaligned}, "strided"},
                   {{{3, 1, 2}, {4, 1}, {2}}, {L::contiguous, L::transposed, L::contiguous}, "broadcast"},
                   {{{}, {3}, {1}}, {L::contiguous, L::reversed, L::contiguous}, "a tensor without axes"}};
      int plan = 0;
      for (const auto& p : plans)
        if (mode == RunMode::eager || plan++ % 2 == 0) check(op, case_of(op, smooth_operands(op, p.shapes, p.layouts, random), 0), std::string(p.name) + " " + mode_name(mode));
      for (int numbers = 1; r.inputs > 1 && numbers + 1 < 1 << r.inputs; ++numbers) {
        if (r.type == TypeRule::choice && numbers & 1) continue;
        if (mode == RunMode::eager) check(op, case_of(op, smooth_operands(op, std::vector<Sizes>(3, Sizes{1}), {L::contiguous, L::contiguous, L::contiguous}, random), numbers), "numbers " + std::to_string(numbers));
      }
    }
  }
  report("derivatives of pointwise rows");
}

TEST_CASE("ops: derivatives through views of the operands") {
  for (Op op : rows_where(&differentiable)) {
    const OpRow& r = row(op);
    Random random(std::string("through views ") + r.name);
    manual_seed(random.bits());
    std::vector<Tensor> x = smooth_operands(op, std::vector<Sizes>(3, Sizes{2, 3}), {L::contiguous, L::contiguous, L::contiguous}, random);
    // The operands are views of larger or turned leaves with the same elements.
    variable_list leaves{x[0].t().contiguous()};
    if (r.inputs > 1) leaves.push_back(frit::stack({x[1], x[1]}, 1).contiguous());
    if (r.inputs > 2) leaves.push_back(x[2].reshape({6}));
    variable_list varied;
    std::vector<int> place;
    for (size_t k = 0; k < leaves.size(); ++k) place.push_back(flows(r, int(k)) ? int(varied.size()) : -1), flows(r, int(k)) ? varied.push_back(leaves[k]) : void();
    const autograd::TensorFunction f = [&](const variable_list& in) -> variable_list {
      const auto leaf = [&](size_t k) { return place[k] >= 0 ? in[size_t(place[k])] : leaves[k]; };
      std::vector<Tensor> held{leaf(0).transpose(0, 1)};
      if (r.inputs > 1) held.push_back(leaf(1).select(1, 1));
      if (r.inputs > 2) held.push_back(leaf(2).view({2, 3}));
      return {Tensor(emit(op, {held.begin(), held.end()})).flatten().narrow(0, 1, 4)};
    };
    INFO(r.name << " seed " << run_seed());
    CHECK_NOTHROW(autograd::gradcheck(f, varied));
    ++tally().gradients;
  }
  report("derivatives through views");
}

TEST_CASE("ops: gradients have their input's type and shape, and float32's are near float64's") {
  for (Op op : rows_where(&differentiable)) {
    const OpRow& r = row(op);
    Random random(std::string("types ") + r.name);
    const std::vector<Tensor> x = smooth_operands(op, {{3, 4}, {4}, {3, 1}}, {L::contiguous, L::contiguous, L::contiguous}, random);
    const auto gradients = [&](const std::vector<Dtype>& types) {
      variable_list in;
      std::vector<Tensor> wanted;
      for (int k = 0; k < r.inputs; ++k) {
        in.push_back(x[size_t(k)].dtype() == kBool ? x[size_t(k)] : x[size_t(k)].detach().to(types[size_t(k)]));
        if (flows(r, k)) wanted.push_back(in.back().detach().requires_grad_()), in.back() = wanted.back();
      }
      const Tensor y = emit(op, {in.begin(), in.end()});
      y.sum().backward();
      std::vector<Tensor> g;
      for (const Tensor& t : wanted) {
        INFO(r.name << " of " << dtype_name(types[0]) << ", " << dtype_name(types[1]) << ", " << dtype_name(types[2]));
        REQUIRE(t.grad().defined());
        CHECK(t.grad().dtype() == t.dtype());
        CHECK(t.grad().sizes() == t.sizes());
        g.push_back(t.grad());
      }
      return g;
    };
    const std::vector<Tensor> exact = gradients({kFloat64, kFloat64, kFloat64}), single = gradients({kFloat32, kFloat32, kFloat32});
    for (size_t k = 0; k < exact.size(); ++k) {
      const double size = exact[k].abs().max().item<double>() + 1e-3;
      INFO(r.name << " operand " << k << " seed " << run_seed());
      CHECK((exact[k] - single[k].to(kFloat64)).abs().max().item<double>() <= 2e-4 * size);
    }
    for (Dtype a : floating_dtypes)
      for (Dtype b : floating_dtypes) gradients({a, b, random.pick(floating_dtypes)});
  }
}

// ---- the `saved` column ---------------------------------------------------------------------------------------------------
TEST_CASE("ops: derivatives read what their row saves, and nothing else") {
  for (Op op : rows_where([](const OpRow& r) { return r.kind == RowKind::pointwise; })) {
    const OpRow& r = row(op);
    NoGradGuard none;
    InMode mode(RunMode::automatic);
    Tensor in[3], out = full({2}, 0.5, kFloat64), t = full({2}, 0.25, kFloat64);
    for (int k = 0; k < 3; ++k) in[k] = r.type == TypeRule::choice && k == 0 ? full({2}, true) : full({2}, 0.5 + 0.1 * k, kFloat64);
    synchronize();
    const Operand ot(t), a(in[0]), b(in[1]), c(in[2]), result(out);
    std::vector<Var> made;
    for (const auto& derivative : r.derivative)
      if (derivative) made.push_back(derivative(tracer::Operands{ot, a, b, c, result}));
    uint8_t read = 0;
    const tracer::Trace& open = *tracer::recorder().open;
    for (uint32_t n = 0; n < open.nodes.size(); ++n) {
      if (open.nodes[n].call.op != Op::leaf) continue;
      for (int k = 0; k < 3; ++k)
        if (open.value[n] == in[k].cell()->value) read |= uint8_t(tracer::In0 << k);
      if (open.value[n] == out.cell()->value) read |= tracer::Out;
    }
    INFO(r.name << ": the derivatives read " << int(read) << ", the row saves " << int(r.saved));
    CHECK(read == r.saved);
  }
}

TEST_CASE("ops: backward refuses what was overwritten if, and only if, its row saves it") {
  for (RunMode mode : all_modes)
    for (Op op : rows_where(&differentiable)) {
      const OpRow& r = row(op);
      Random random(std::string("overwritten ") + r.name);
      const std::vector<Tensor> x = smooth_operands(op, std::vector<Sizes>(3, Sizes{3}), {L::contiguous, L::contiguous, L::contiguous}, random);
      InMode scope(mode);
      for (int victim = 0; victim <= r.inputs; ++victim) {
        std::vector<Tensor> in;
        Tensor leaf;
        for (int k = 0; k < r.inputs; ++k) {
          Tensor l = x[size_t(k)].detach().clone();
          if (l.dtype() == kBool) in.push_back(l.logical_and(l));
          else in.push_back((flows(r, k) ? leaf = l.requires_grad_() : l).mul(Scalar(1.0)));
        }
        const Tensor y = emit(op, {in.begin(), in.end()});
        Tensor target = (victim == r.inputs ? y : in[size_t(victim)]).detach();
        target.copy_(target.dtype() == kBool ? target.logical_not() : target + 1);
        const bool saved = r.saved & (victim == r.inputs ? tracer::Out : tracer::In0 << victim);
        INFO(r.name << ", " << (victim == r.inputs ? "the result" : "operand " + std::to_string(victim)) << " overwritten, " << mode_name(mode));
        std::string text;
        try {
          y.sum().backward();
          synchronize();
        } catch (const AutogradError& e) {
          text = e.what();
        }
        if (saved) CHECK_THAT(text, Catch::Contains("overwritten in place") && Catch::Contains(r.name) && Catch::Contains("clone()"));
        else CHECK(text.empty());
      }
    }
}
