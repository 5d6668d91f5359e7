// Random programs of all rows: op by op, collected, and fused, each against the interpreter, and with the same bits in all
// modes; with writes through views, results that die early, and gradients.
#include <catch2/catch.hpp>
#include <algorithm>
#include "runtime/error.h"
#include "tests/support/op_harness.h"

using namespace frit;
using namespace frit::testing;
using L = frit::testing::Layout;

namespace {
// One program: a pool of tensors, grown and written by random steps. What it draws does not depend on the mode.
class Program {
 public:
  Program(const std::string& name, bool gradients) : r_(name), gradients_(gradients) {
    const Sizes rows = {1 + r_.below(6), 1 + r_.below(40)};
    extents_ = {rows[0], rows[1], 1 + r_.below(5)};
    for (int k = 0; k < 5; ++k) {
      const Dtype d = gradients ? kFloat64 : r_.below(3) ? kFloat32 : r_.pick(all_dtypes);
      Tensor t = make_tensor(r_, d, shape(), random_layout(r_), -2, 2, gradients ? Data::domain : Data::hostile);
      if (gradients && r_.below(2)) leaves.push_back(t.requires_grad_());
      pool.push_back(t);
    }
  }
  void step() {
    try {
      choose();
    } catch (const ShapeError&) {
    } catch (const DtypeError&) {
    } catch (const ValueError&) {
    } catch (const AutogradError&) {
    }
    if (pool.size() > 14) pool.erase(pool.begin() + r_.below(int64_t(pool.size())));
  }
  std::vector<Tensor> pool, leaves;

 private:
  Sizes shape() {
    Sizes s;
    for (int64_t k = r_.below(4); k > 0; --k) s.push_back(r_.below(4) ? r_.pick(extents_) : 1);
    return s;
  }
  Tensor& any() { return r_.pick(pool); }
  int axis_of(const Tensor& t) { return int(r_.below(std::max<int64_t>(t.dim(), 1))); }
  Operand operand() {
    if (r_.below(5) == 0) return r_.below(2) ? Number(0.5 + double(r_.below(5))) : Number(int64_t(1 + r_.below(3)));
    return any();
  }
  void add(const Var& v) {
    Tensor t = v;
    if (t.numel() < 20000) pool.push_back(t);
  }
  void choose() {
    static const std::vector<Op> rows = rows_where([](const OpRow& r) { return r.kind == RowKind::pointwise && r.type != TypeRule::assign; });
    const int64_t kind = r_.below(20);
    if (kind < 9) {
      const Op op = r_.pick(rows);
      std::vector<Operand> in{any()};
      while (int(in.size()) < row(op).inputs) in.push_back(operand());
      return add(emit(op, in));
    }
    Tensor& x = any();
    const int axis = axis_of(x);
    const int64_t n = x.dim() ? tracer::sizes_of(x)[size_t(axis)] : 1;
    switch (kind) {
      case 9: {
        Tensor target = x.requires_grad() && x.is_leaf() ? x * 1.0 : x;
        const Op op = r_.pick(rows);
        std::vector<Operand> rest;
        while (int(rest.size()) + 1 < row(op).inputs) rest.push_back(operand());
        emit_in_place(op, target, rest);
        return add(target);
      }
      case 10: {
        Tensor target = x.dim() && n > 1 ? x.narrow(axis, 1, n - 1) : x;
        if (x.requires_grad() && x.is_leaf()) target = (x * 1.0);
        target.copy_(any());
        return add(target);
      }
      case 11: return add(x.dim() > 1 ? x.transpose(0, axis) : x.unsqueeze(0));
      case 12: return add(x.dim() ? x.slice(axis, r_.below(n + 1), std::nullopt, 1 + r_.below(2)) : x.view({1}));
      case 13: return add(r_.below(2) ? x.reshape({-1}) : x.dim() && n ? x.select(axis, r_.below(n)) : x.clone());
      case 14: {
        constexpr tracer::ReduceOp ops[] = {tracer::ReduceOp::sum, tracer::ReduceOp::amax, tracer::ReduceOp::amin, tracer::ReduceOp::prod, tracer::ReduceOp::any, tracer::ReduceOp::argmax};
        const auto op = r_.pick(ops);
        return add(tracer::reduce(op, x, op == tracer::ReduceOp::argmax ? uint64_t(x.dim() ? 1 << axis : 0) : uint64_t(r_.below(int64_t(1) << x.dim())), r_.below(2)));
      }
      case 15: {
        if (!x.dim() || !n) return;
        Sizes e = tracer::sizes_of(x);
        e[size_t(axis)] = r_.below(6);
        return add(tracer::gather(x, axis, make_index(r_, kInt64, e, L::contiguous, n)));
      }
      case 16: {
        if (!x.dim() || !n) return;
        Sizes e = tracer::sizes_of(x);
        e[size_t(axis)] = r_.below(6);
        const Tensor source = make_tensor(r_, x.dtype(), e, L::contiguous, -2, 2, gradients_ ? Data::domain : Data::hostile);
        return add(tracer::scatter_add(x, axis, make_index(r_, kInt64, e, L::contiguous, n), source));
      }
      case 17: {
        const Tensor& y = any();
        return add(x.dim() && y.dim() == x.dim() ? frit::cat({x, y, x}, axis) : x.clone());
      }
      case 18: {
        const Tensor& y = any();
        return add(x.dim() == 2 && x.dtype() == y.dtype() ? x.matmul(y.dim() == 2 ? y.t() : y) : x.flip(IntArrayRef(int64_t(axis))));
      }
      default: return add(x.to(gradients_ ? kFloat64 : r_.pick(all_dtypes)));
    }
  }
  Random r_;
  bool gradients_;
  std::vector<int64_t> extents_;
};

std::vector<Var> run(const std::string& name, RunMode mode, int steps, bool gradients) {
  Checked checked(mode);
  Program p(name, gradients);
  for (int k = 0; k < steps; ++k) p.step();
  std::vector<Var> all(p.pool.begin(), p.pool.end());
  if (gradients && !p.leaves.empty()) {
    autograd::variable_list roots, seeds;
    for (const Tensor& t : p.pool)
      if (t.requires_grad()) roots.push_back(t), seeds.push_back(full(t.sizes(), 0.5, kFloat64));
    try {
      if (!roots.empty())
        for (const Tensor& g : autograd::grad(roots, p.leaves, seeds, false, false, true)) all.push_back(g.defined() ? g : Tensor(zeros({})));
    } catch (const AutogradError&) {  // the program overwrote what it had saved
      all.resize(p.pool.size());
    }
  }
  synchronize();
  return all;
}
void compare(const std::string& kind, int programs, int steps, bool gradients) {
  for (int k = 0; k < programs; ++k) {
    const std::string name = kind + std::to_string(k);
    const size_t before = tally().mismatches.size();
    const std::vector<Var> eager = run(name, RunMode::eager, steps, gradients);
    for (RunMode mode : {RunMode::automatic, RunMode::compiled, RunMode::compiled}) {
      const std::vector<Var> other = run(name, mode, steps, gradients);
      INFO(name << " " << mode_name(mode) << " seed " << run_seed());
      REQUIRE(other.size() == eager.size());
      for (size_t i = 0; i < eager.size(); ++i) {
        INFO("tensor " << i << " of " << eager.size() << ", shape " << sizes_text(tracer::sizes_of(eager[i])) << " " << dtype_name(tracer::dtype_of(eager[i])));
        CHECK(same_bits(eager[i], other[i]));
      }
    }
    ++tally().combinations;
    for (size_t i = before; i < tally().mismatches.size(); ++i) tally().mismatches[i] = name + ": " + tally().mismatches[i];
  }
}
}  // namespace

TEST_CASE("ops: random programs") { compare("program ", 60, 40, false), report("random programs"); }
TEST_CASE("ops: random programs of few steps") { compare("short program ", 200, 6, false), report("short random programs"); }
TEST_CASE("ops: random programs with gradients") { compare("gradient program ", 60, 20, true), report("random programs with gradients"); }
