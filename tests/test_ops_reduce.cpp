// Reductions over every subset of axes, odd and long extents, every type, layout and mode, against the interpreter; scans
// and sorts along every axis.
#include <catch2/catch.hpp>
#include "runtime/error.h"
#include "tests/support/op_harness.h"

using namespace frit;
using namespace frit::testing;
using L = frit::testing::Layout;

namespace {
bool reduces(const OpRow& r) { return r.kind == RowKind::reduce; }
bool runs_along(const OpRow& r) { return r.kind == RowKind::scan || r.kind == RowKind::library; }

void reduce_shape(Random& r, Op op, Dtype d, const Sizes& shape, L l, std::vector<Var>& kept) {
  const Var x = make_tensor(r, d, shape, l, -3, 3, r.below(3) ? Data::hostile : Data::domain);
  const bool needs_elements = op == Op::amax || op == Op::amin || op == Op::argmax || op == Op::argmin;
  for (uint64_t axes = 0; axes < uint64_t(1) << shape.size(); ++axes) {
    bool empty = false;
    for (size_t i = 0; i < shape.size(); ++i) empty = empty || (axes >> i & 1 && shape[i] == 0);
    if (needs_elements && empty) {
      CHECK_THROWS_AS(tracer::reduce(tracer::ReduceOp(op), x, axes, false), ValueError);
      continue;
    }
    if ((op == Op::argmax || op == Op::argmin) && axes == 0 && !shape.empty()) continue;
    ++tally().combinations;
    kept.push_back(tracer::reduce(tracer::ReduceOp(op), x, axes, r.below(2)));
  }
}
}  // namespace

TEST_CASE("ops: reductions") {
  const std::vector<Op> rows = rows_where(&reduces);
  const std::vector<Sizes> more = {{1023}, {1024}, {1025}, {2049}, {3, 1031}, {1031, 5}, {1031, 4, 3}, {7, 17, 33}, {40, 41}, {3, 5, 7, 9}, {2, 9, 8, 17}, {5, 7, 130}};
  for (RunMode mode : all_modes)
    for (Op op : rows)
      for (Dtype d : all_dtypes) {
        INFO(op_name(op) << " " << dtype_name(d) << " " << mode_name(mode) << " seed " << run_seed());
        Random r(std::string("reduce ") + tracer::op_name(op) + dtype_name(d));
        Checked checked(mode);
        std::vector<Var> kept;
        for (int l = 0; l < layout_count; ++l)
          for (int k = 0; k < 3; ++k) reduce_shape(r, op, d, r.pick(shapes()), L(l), kept);
        for (int k = 0; k < 4; ++k) reduce_shape(r, op, d, r.pick(more), random_layout(r), kept);
        synchronize();
      }
  require_covered(rows);
  report("reductions");
}

TEST_CASE("ops: long reductions") {  // chunks in two stages, shared by threads
  Random r("long");
  for (Op op : rows_where(&reduces))
    for (Dtype d : {kBool, kInt32, kBFloat16, kFloat32, kFloat64}) {
      Checked checked(r.below(2) ? RunMode::eager : RunMode::compiled);
      const Var x = make_tensor(r, d, {3, 70001}, r.below(2) ? L::contiguous : L::misaligned, -3, 3, Data::domain), y = make_tensor(r, d, {70001, 3}, L::contiguous, -1, 1, Data::domain);
      const Var a = tracer::reduce(tracer::ReduceOp(op), x, 2, false), b = tracer::reduce(tracer::ReduceOp(op), x, 3, true), c = tracer::reduce(tracer::ReduceOp(op), y, 1, false);
      synchronize();
    }
  report("long reductions");
}

TEST_CASE("ops: scans and sorts along every axis") {
  const std::vector<Op> rows = rows_where(&runs_along);
  for (RunMode mode : all_modes)
    for (Dtype d : all_dtypes) {
      Random r(std::string("along ") + dtype_name(d));
      Checked checked(mode);
      std::vector<Var> kept;
      for (int l = 0; l < layout_count; ++l)
        for (const Sizes& shape : shapes())
          for (int axis = 0; axis < std::max(1, int(shape.size())); ++axis) {
            if (r.below(3)) continue;
            const Var x = make_tensor(r, d, shape, L(l), -3, 3);
            for (Op op : rows) {
              ++tally().combinations;
              switch (op) {
                case Op::cumsum: kept.push_back(tracer::cumsum(x, axis)); break;
                case Op::cumprod: kept.push_back(tracer::cumprod(x, axis)); break;
                case Op::sort: kept.push_back(tracer::sort(x, axis, r.below(2))); break;
                case Op::argsort: kept.push_back(tracer::argsort(x, axis, r.below(2))); break;
                default: FAIL(tracer::op_name(op) << " has no case here");
              }
            }
          }
      synchronize();
    }
  require_covered(rows);
  report("scans and sorts");
}
