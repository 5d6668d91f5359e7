// Derivatives of the structural rows: first and second, reverse and forward, against central differences, over layouts, in
// every mode; which rows have none, and what they say.
#include <catch2/catch.hpp>
#include <map>
#include "runtime/error.h"
#include "tests/support/op_harness.h"
#include "tracer/attention.h"
#include "tracer/gradient.h"

using namespace frit;
using namespace frit::testing;
using L = frit::testing::Layout;
using autograd::variable_list;

namespace {
struct Case {
  Op op;
  const char* name;
  std::vector<Sizes> inputs;
  std::function<Var(const std::vector<Var>&)> f;
  bool zeros = false;  // some elements are exactly zero
};
Var indices(std::initializer_list<int64_t> l, const Sizes& shape) { return Tensor(tensor(std::vector<int64_t>(l), kInt64)).reshape(shape); }

std::vector<Case> cases() {
  using tracer::ReduceOp;
  using In = const std::vector<Var>&;
  return {
      {Op::permute, "permute", {{2, 3, 4}}, [](In x) { return tracer::permute(x[0], {2, 0, 1}); }},
      {Op::expand, "expand", {{3, 1, 2}}, [](In x) { return tracer::expand(x[0], {4, 3, 5, 2}); }},
      {Op::reshape, "reshape", {{4, 6}}, [](In x) { return tracer::reshape(x[0], {3, 8}); }},
      {Op::slice, "slice", {{3, 9}}, [](In x) { return tracer::slice(x[0], 1, 1, 3, 3); }},
      {Op::select, "select", {{3, 4, 2}}, [](In x) { return tracer::select(x[0], 1, 2); }},
      {Op::diagonal, "diagonal above", {{3, 4, 5}}, [](In x) { return tracer::diagonal(x[0], 1, 0, 2); }},
      {Op::diagonal, "diagonal below", {{4, 3}}, [](In x) { return tracer::diagonal(x[0], -1, 0, 1); }},
      {Op::as_strided, "as_strided, overlapping", {{4, 3}}, [](In x) { return tracer::as_strided(tracer::copy(x[0], true), {3, 4}, {2, 1}, 1); }},
      {Op::write_view, "write through a view", {{3, 4}, {4}}, [](In x) {
         Var base = tracer::mul(x[0], 2.0), first = tracer::select(base, 0, 1);
         tracer::emit_pointwise_(Op::mul, first, {x[1]});
         return base;
       }},
      {Op::write_view, "write through a view of a view", {{4, 4}, {2}}, [](In x) {
         Var base = tracer::mul(x[0], 2.0), part = tracer::slice(tracer::transpose(base, 0, 1), 0, 1, 2, 2), line = tracer::select(part, 1, 3);
         tracer::copy_(line, tracer::mul(x[1], x[1]));
         return tracer::mul(base, base);
       }},
      {Op::copy, "copy", {{3, 4}}, [](In x) { return tracer::copy(tracer::transpose(x[0], 0, 1), true); }},
      {Op::sum, "sum", {{3, 4, 2}}, [](In x) { return tracer::sum(x[0], 5, false); }},
      {Op::sum, "sum of all, kept", {{3, 4}}, [](In x) { return tracer::sum(x[0], 3, true); }},
      {Op::prod, "prod", {{3, 4}}, [](In x) { return tracer::reduce(ReduceOp::prod, x[0], 2, false); }},
      {Op::prod, "prod with zeros", {{3, 4}}, [](In x) { return tracer::reduce(ReduceOp::prod, x[0], 2, true); }, true},
      {Op::prod, "prod of two axes", {{2, 3, 2}}, [](In x) { return tracer::reduce(ReduceOp::prod, x[0], 5, false); }},
      {Op::amax, "amax", {{3, 4, 2}}, [](In x) { return tracer::reduce(ReduceOp::amax, x[0], 6, false); }},
      {Op::amin, "amin", {{3, 4}}, [](In x) { return tracer::reduce(ReduceOp::amin, x[0], 1, true); }},
      {Op::matmul, "matmul", {{3, 4}, {4, 2}}, [](In x) { return tracer::matmul(x[0], x[1]); }},
      {Op::matmul, "matmul of a row", {{1, 4}, {4, 3}}, [](In x) { return tracer::matmul(x[0], x[1]); }},
      {Op::matmul, "matmul of broadcast batches", {{2, 1, 3, 2}, {3, 2, 2}}, [](In x) { return tracer::matmul(x[0], x[1]); }},
      {Op::matmul, "matmul of one tensor with itself", {{3, 3}}, [](In x) { return tracer::matmul(x[0], tracer::transpose(x[0], 0, 1)); }},
      {Op::convolution, "convolution", {{2, 4, 5, 6}, {6, 2, 3, 2}}, [](In x) { return tracer::convolution(x[0], x[1], {{2, 1, 1, 2}, {1, 2, 0, 1}}, 2); }},
      {Op::convolution, "convolution of one axis", {{2, 3, 7}, {2, 3, 3}}, [](In x) { return tracer::convolution(x[0], x[1], {{2, 2, 3, 1}}, 1); }},
      {Op::convolution_input, "convolution_input", {{2, 4, 3, 2}, {4, 1, 2, 3}}, [](In x) { return tracer::convolution_input(x[0], x[1], {{2, 1, 1, 0}, {3, 1, 1, 1}}, 2, {5, 5}); }},
      {Op::convolution_weight, "convolution_weight", {{2, 4, 3, 2}, {2, 2, 5, 5}}, [](In x) { return tracer::convolution_weight(x[0], x[1], {{2, 1, 1, 0}, {3, 1, 1, 1}}, 2, {2, 3}); }},
      {Op::pool_max, "pool_max", {{2, 2, 5, 6}}, [](In x) { return tracer::pool_max(x[0], {{3, 2, 1, 1, 3}, {2, 1, 2, 0, 4}}); }},
      {Op::cat, "cat", {{2, 3}, {2, 1}, {2, 2}}, [](In x) { return tracer::cat({x[0], x[1], x[2], x[1]}, 1); }},
      {Op::attention, "attention", {{2, 3, 4}, {2, 5, 4}, {2, 5, 3}}, [](In x) { return tracer::attention({x[0], x[1], x[2]}, {.scale = 0.7}); }},
      {Op::attention, "causal attention of groups", {{4, 3, 2}, {2, 3, 2}, {2, 3, 1}},
       [](In x) { return tracer::attention({x[0], x[1], x[2]}, {.attr = tracer::causal_attention | tracer::grouped_attention, .scale = 0.7}); }},
      {Op::attention, "masked attention, dropped", {{3, 2}, {4, 2}, {4, 3}, {4}},
       [](In x) { return tracer::attention({x[0], x[1], x[2], x[3]}, {.attr = tracer::attention_dropout, .scale = 0.7, .dropout = 0.3, .seed = 5, .stream = 1}); }},
      {Op::gather, "gather, repeated and negative", {{3, 4}}, [](In x) { return tracer::gather(x[0], 0, indices({0, -1, 1, 0, 2, 2, 0, 0}, {2, 4})); }},
      {Op::scatter, "scatter", {{3, 4}, {2, 4}}, [](In x) { return tracer::scatter(x[0], 0, indices({0, 2, 1, 0, -2, 0, 2, 2}, {2, 4}), x[1]); }},
      {Op::scatter, "scatter of a larger source", {{3, 4}, {3, 5}}, [](In x) { return tracer::scatter(x[0], 1, indices({0, 2, 3, 1}, {2, 2}), x[1]); }},
      {Op::scatter_add, "scatter_add", {{3, 4}, {2, 4}}, [](In x) { return tracer::scatter_add(x[0], 0, indices({0, 2, 1, 0, 0, 2, -1, 0}, {2, 4}), x[1]); }},
      {Op::scatter_add, "scatter_add of a larger source", {{3, 4}, {3, 4}}, [](In x) { return tracer::scatter_add(x[0], 0, indices({0, 2, 0, 1}, {2, 2}), x[1]); }},
      {Op::unslice, "unslice", {{2, 3}}, [](In x) { return tracer::unslice(x[0], 1, 1, 3, 9); }},
      {Op::undiagonal, "undiagonal", {{4, 2}}, [](In x) { return tracer::undiagonal(x[0], 1, 0, 2, 3, 3); }},
      {Op::flip, "flip", {{3, 4}}, [](In x) { return tracer::flip(x[0], 3); }},
      {Op::cumsum, "cumsum", {{3, 4}}, [](In x) { return tracer::cumsum(x[0], 0); }},
      {Op::cumprod, "cumprod", {{3, 5}}, [](In x) { return tracer::cumprod(x[0], 1); }},
      {Op::cumprod, "cumprod with zeros", {{3, 5}}, [](In x) { return tracer::cumprod(x[0], 1); }, true},
      {Op::sum, "a reduction of a broadcast product", {{3, 1}, {1, 4}}, [](In x) { return tracer::sum(tracer::mul(x[0], x[1]), 2, false); }},
      {Op::add, "an operand twice", {{3}}, [](In x) { return tracer::mul(tracer::add(x[0], x[0]), x[0]); }},
  };
}
std::vector<Var> vars(const variable_list& l) { return {l.begin(), l.end()}; }
}  // namespace

TEST_CASE("ops: first and second derivatives of structural rows") {
  std::map<Op, int> seen;
  for (const Case& given : cases()) {
    ++seen[given.op];
    Random r(std::string("structural ") + given.name);
    manual_seed(r.bits());
    for (RunMode mode : all_modes)
      for (L l : {L::contiguous, L::transposed, L::stepped, L::reversed}) {
        if (mode != RunMode::eager && l != L::transposed) continue;
        Checked checked(mode);
        variable_list in;
        for (const Sizes& s : given.inputs) {
          Var v = make_tensor(r, kFloat64, s, l, 0.3, 2, Data::domain);
          if (given.zeros) {
            Var part = tracer::slice(v, 1, 1, 2, 2);
            tracer::copy_(part, tracer::full({}, 0, kFloat64));
          }
          in.push_back(v);
        }
        const autograd::TensorFunction f = [&](const variable_list& x) -> variable_list { return {Tensor(given.f(vars(x)))}; };
        INFO(given.name << " " << layout_name(l) << " " << mode_name(mode) << " seed " << run_seed());
        // Through a square too, so that the second derivative is not zero.
        const autograd::TensorFunction square = [&](const variable_list& x) -> variable_list { return {Tensor(given.f(vars(x))).square().mul(Scalar(0.5))}; };
        CHECK_NOTHROW(autograd::gradcheck(f, in));
        CHECK_NOTHROW(autograd::gradgradcheck(square, in));
        ++tally().gradients;
      }
  }
  // Every row that is no source has a case, or says that it has no gradient.
  for (Op op : rows_where([](const OpRow& r) { return r.kind != RowKind::pointwise && r.kind != RowKind::source; })) {
    const bool none = op == Op::detach || op == Op::sort || op == Op::attention_gradient || op == Op::companion || row(op).type == TypeRule::index || row(op).type == TypeRule::truth;
    INFO(tracer::op_name(op));
    CHECK((seen.count(op) != 0) != none);
  }
  report("derivatives of structural rows");
}

TEST_CASE("ops: rows without a gradient") {
  Tensor x = tensor({3., 1., 2.}, kFloat64).requires_grad_();
  CHECK(!x.detach().requires_grad());
  CHECK(!x.argmax().requires_grad());
  CHECK(!x.argsort().requires_grad());
  CHECK(!x.gt(Scalar(1)).requires_grad());
  CHECK(!x.to(kInt64).requires_grad());
  const Tensor sorted = tracer::sort(x, 0, false);
  CHECK_THROWS_WITH(sorted.sum().backward(), Catch::Contains("sort") && Catch::Contains("no gradient") && Catch::Contains("detach()"));
  CHECK_THROWS_AS(tracer::sort(x, 0, false).cell() ? Tensor(tracer::sort(x, 0, false)).sum().backward() : void(), AutogradError);
  Tensor values = std::get<0>(x.sort());  // the public sort gathers, and has one
  (values * tensor({1., 10., 100.}, kFloat64)).sum().backward();
  CHECK(doubles(x.grad()) == std::vector<double>{100, 1, 10});
}

TEST_CASE("ops: structural gradients keep type and shape") {
  for (const Case& given : cases())
    for (Dtype d : floating_dtypes) {
      Random r(std::string("structural types ") + given.name);
      variable_list in;
      for (const Sizes& s : given.inputs) in.push_back(Tensor(make_tensor(r, d, s, L::contiguous, 0.3, 2, Data::domain)).requires_grad_());
      Tensor(given.f(vars(in))).sum().backward();
      for (const Tensor& t : in) {
        INFO(given.name << " " << dtype_name(d));
        REQUIRE(t.grad().defined());
        CHECK(t.grad().dtype() == d);
        CHECK(t.grad().sizes() == t.sizes());
      }
    }
}

TEST_CASE("ops: structural rows refuse overwritten operands if they save them") {
  for (RunMode mode : all_modes)
    for (const Case& given : cases()) {
      if (given.op == Op::write_view || given.op == Op::add || given.op == Op::as_strided || std::string(given.name).find("with itself") != std::string::npos ||
          std::string(given.name).find("broadcast product") != std::string::npos)
        continue;  // several ops
      for (size_t victim = 0; victim < given.inputs.size(); ++victim) {
        Random r("structural overwritten");
        InMode scope(mode);
        variable_list in;
        for (const Sizes& s : given.inputs) in.push_back(Tensor(make_tensor(r, kFloat64, s, L::contiguous, 0.3, 2, Data::domain)).requires_grad_().mul(Scalar(1.0)));
        const Tensor y = given.f(vars(in));
        in[victim].detach().add_(Scalar(1));
        // gather's and scatter's saved operand is the index, which stands elsewhere.
        const bool saved = given.op != Op::gather && given.op != Op::scatter && given.op != Op::scatter_add && row(given.op).saved & tracer::saved_input(int(victim));
        std::string text;
        try {
          y.sum().backward();
          synchronize();
        } catch (const AutogradError& e) {
          text = e.what();
        }
        INFO(given.name << ", operand " << victim << " overwritten, " << mode_name(mode));
        if (saved) CHECK_THAT(text, Catch::Contains("overwritten in place"));
        else CHECK(text == "");
      }
    }
  for (RunMode mode : all_modes) {  // the index
    InMode scope(mode);
    Tensor x = ones({3}, kFloat64).requires_grad_(), index = tensor({0, 2, 1});
    const Tensor y = x.gather(0, index), z = x.scatter_add(0, index, y);
    index.zero_();
    INFO(mode_name(mode));
    CHECK_THROWS_WITH((y.sum().backward(), synchronize()), Catch::Contains("gather") && Catch::Contains("overwritten in place"));
    CHECK_THROWS_WITH((z.sum().backward(), synchronize()), Catch::Contains("overwritten in place"));
  }
}
