// The crossing of pointwise rows. Each function takes a row and one more dimension; start at cross_row.
#include "tests/support/op_crossing.h"
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include "runtime/error.h"

namespace frit::testing {

using namespace tracer;

namespace {
using L = frit::testing::Layout;

const Number numbers[] = {Number(3),   Number(-2),   Number(0),    Number(1),   Number(300), Number(-129), Number(int64_t(1) << 40), Number(true), Number(false),
                          Number(2.5), Number(-0.5), Number(1e10), Number(0.0), Number(-0.0), Number(1e-3),
                          Number(std::numeric_limits<double>::infinity()), Number(std::numeric_limits<double>::quiet_NaN())};

Dtype dtype_of(const Number& n) { return n.category() == Category::floating ? kFloat32 : n.category() == Category::integer ? kInt64 : kBool; }

struct Crossing {
  Op op;
  const OpRow& r;
  Random random;
  size_t turn = 0;
  std::vector<Var> kept;  // deferred results are made only for live handles; one in eight dies unread
  explicit Crossing(Op o) : op(o), r(row(o)), random(r.name) {}

  bool condition(int k) const { return r.type == TypeRule::choice && k == 0; }
  Var operand(int k, Dtype d, const Sizes& shape, L l) { return make_tensor(random, condition(k) ? kBool : d, shape, l, r.low, r.high); }

  // Emits and checks type and refusal against the rule.
  Var run(const std::vector<Operand>& in) {
    std::vector<Typed> types;
    for (const Operand& o : in) types.push_back(o.var ? Typed{tracer::dtype_of(*o.var), sizes_of(*o.var).empty() ? 1 : 0} : Typed{dtype_of(o.number), 2});
    const Expectation want = expected_type(r, types);
    ++tally().combinations;
    Var made;
    try {
      made = emit(op, in);
    } catch (const DtypeError& e) {
      INFO(e.what());
      if (want.taken) FAIL(r.name << " refuses " << dtype_name(types[0].dtype));
      if (std::string(e.what()).rfind(std::string(r.name) + ": ", 0) != 0) FAIL("the text does not name the op: " << e.what());
      return {};
    }
    if (!want.taken) FAIL(r.name << " takes " << dtype_name(types[0].dtype) << ", its rule does not");
    if (tracer::dtype_of(made) != want.dtype) FAIL(r.name << " of " << dtype_name(types[0].dtype) << " has type " << dtype_name(tracer::dtype_of(made)) << ", not " << dtype_name(want.dtype));
    if (random.below(8)) kept.push_back(made);
    return made;
  }

  void layouts(Dtype d) {
    for (int l = 0; l < layout_count; ++l)
      for (int k = 0; k < (r.inputs == 1 ? 4 : 3); ++k) {
        const Sizes& shape = shapes()[turn++ % shapes().size()];
        std::vector<Var> in;
        for (int j = 0; j < r.inputs; ++j) {
          const L own = k == 0 ? L(l) : k == 1 ? j == int(turn) % r.inputs ? L(l) : L::contiguous : random_layout(random);
          in.push_back(operand(j, d, k == 2 && j ? broadcastable(random, shape) : shape, own));
        }
        if (!run({in.begin(), in.end()}).defined()) return;
      }
  }
  // An axis that cannot merge, on every operand another way.
  void high_rank(Dtype d) {
    std::vector<Var> in;
    for (int j = 0; j < r.inputs; ++j) {
      Sizes e = {3, 2, 5, 2, 9};
      if (j == 1) e[1] = 1, e[3] = 1;
      if (j == 2) e[0] = 1, e[2] = 1;
      in.push_back(operand(j, d, e, j == 0 ? L::permuted : j == 1 ? L::stepped : L::contiguous));
    }
    run({in.begin(), in.end()});
  }
  void with_numbers(Dtype d) {
    for (int mask = 1; mask + 1 < 1 << r.inputs; ++mask)
      for (int k = 0; k < 4; ++k) {
        const Sizes shape = k == 3 ? Sizes{} : k == 2 ? Sizes{3, 9} : Sizes{17};
        std::vector<Var> tensors;
        std::vector<Operand> in;
        for (int j = 0; j < r.inputs; ++j) tensors.push_back(mask >> j & 1 ? Var() : operand(j, d, shape, random_layout(random)));
        for (int j = 0; j < r.inputs; ++j) {
          if (mask >> j & 1) in.push_back(condition(j) ? Number(bool(random.bits() & 1)) : random.pick(numbers));
          else in.push_back(tensors[size_t(j)]);
        }
        run(in);
      }
  }
  void mixed(Dtype d) {
    for (Dtype other : all_dtypes) {
      std::vector<Var> in;
      const int64_t without_axes = random.below(4);  // an operand of rank 0 is a class of its own
      for (int j = 0; j < r.inputs; ++j) in.push_back(operand(j, j == r.inputs - 1 ? other : j == 0 ? d : random.pick(all_dtypes), j == without_axes ? Sizes{} : Sizes{3, 5}, random_layout(random)));
      run({in.begin(), in.end()});
    }
  }
  void in_place(Dtype d) {
    if (condition(0) && d != kBool) return;
    for (int l = 0; l < layout_count; ++l) {
      if (!writable(L(l))) continue;
      const Sizes& shape = shapes()[turn++ % shapes().size()];
      Var target = operand(0, d, shape, L(l));
      std::vector<Var> tensors;
      std::vector<Operand> rest;
      std::vector<Typed> types{{d, shape.empty() ? 1 : 0}};
      for (int j = 1; j < r.inputs; ++j) {
        const Dtype own = l % 3 == 0 ? random.pick(all_dtypes) : d;
        tensors.push_back(operand(j, own, l % 2 ? broadcastable(random, shape) : shape, random_layout(random)));
        types.push_back({own, sizes_of(tensors.back()).empty() ? 1 : 0});
      }
      for (int j = 1; j < r.inputs; ++j) {
        if (op != Op::assign && random.below(4) == 0) rest.push_back(random.pick(numbers)), types[size_t(j)] = {dtype_of(rest.back().number), 2};
        else rest.push_back(tensors[size_t(j - 1)]);
      }
      write(target, rest, types);
      kept.push_back(target);
    }
    overlapping(d);
  }
  void write(Var& target, const std::vector<Operand>& rest, const std::vector<Typed>& types) {
    const Expectation want = expected_type(r, types);
    const auto category = [](Dtype x) { return is_floating(x) ? 2 : x == kBool ? 0 : 1; };
    const bool rounds_whole = r.type == TypeRule::rounding && !is_floating(types[0].dtype);
    const bool taken = want.taken && (op == Op::assign || category(want.dtype) <= category(types[0].dtype));
    ++tally().combinations;
    try {
      emit_in_place(op, target, rest);
    } catch (const DtypeError& e) {
      INFO(e.what());
      if (taken) FAIL(r.name << "_ refuses " << dtype_name(types[0].dtype));
      return;
    }
    if (!taken && !rounds_whole) FAIL(r.name << "_ takes " << dtype_name(types[0].dtype));
    if (tracer::dtype_of(target) != types[0].dtype) FAIL(r.name << "_ changed its target's type");
  }
  // Operands that are other views of the target's memory are read before it is written.
  void overlapping(Dtype d) {
    if (r.inputs != 2 || condition(0)) return;
    const std::vector<Typed> types(2, {d, 0});
    Var square = operand(0, d, {9, 9}, random.below(2) ? L::contiguous : L::transposed);
    const Var turned = transpose(square, 0, 1);
    write(square, {turned}, types);
    Var line = operand(0, d, {40}, L::contiguous);
    Var head = slice(line, 0, 0, 33);
    const Var tail = slice(line, 0, 7, 33);
    write(head, {tail}, types);
    Var later = slice(line, 0, 3, 33);
    write(later, {head}, types);
    write(line, {line}, types);
    const Var first = slice(line, 0, 0, 1);
    write(line, {first}, types);
  }
};
}  // namespace

void cross_row(Op op) {
  for (RunMode mode : all_modes) {
    Crossing c(op);
    for (Dtype d : all_dtypes) {
      INFO(c.r.name << " " << dtype_name(d) << " " << mode_name(mode) << " seed " << run_seed());
      Checked checked(mode);
      if (op == Op::assign) {
        c.in_place(d);
        continue;
      }
      c.layouts(d);
      c.high_rank(d);
      if (c.r.inputs > 1) c.mixed(d);
      if (c.r.inputs > 1) c.with_numbers(d);
      c.in_place(d);
      synchronize();
      c.kept.clear();
    }
  }
}

}  // namespace frit::testing
