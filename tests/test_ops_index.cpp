// gather, scatter and scatter_add along every axis, with negative, repeated and expanded indices, every type, layout and
// mode, against the interpreter; indices out of range.
#include <catch2/catch.hpp>
#include "runtime/error.h"
#include "tests/support/op_harness.h"

using namespace frit;
using namespace frit::testing;
using L = frit::testing::Layout;

namespace {
// An index's shape for `shape`: any extent along the axis, at most the input's elsewhere.
Sizes index_shape(Random& r, const Sizes& shape, int axis) {
  Sizes e = shape;
  for (int i = 0; i < int(e.size()); ++i) {
    if (i == axis) e[size_t(i)] = shape[size_t(i)] ? r.below(9) : 0;
    else if (r.below(3) == 0 && e[size_t(i)] > 1) e[size_t(i)] -= 1;
  }
  return e;
}
Sizes at_least(Random& r, const Sizes& index) {
  Sizes e = index;
  for (int64_t& x : e) x += r.below(3) == 0;
  return e;
}
}  // namespace

TEST_CASE("ops: gather and scatter") {
  for (RunMode mode : all_modes)
    for (Dtype d : all_dtypes) {
      INFO(dtype_name(d) << " " << mode_name(mode) << " seed " << run_seed());
      Random r(std::string("index ") + dtype_name(d));
      Checked checked(mode);
      std::vector<Var> kept;
      for (int l = 0; l < layout_count; ++l)
        for (const Sizes& shape : shapes())
          for (int axis = 0; axis < std::max(1, int(shape.size())); ++axis) {
            if (r.below(2)) continue;
            const int64_t extent = shape.empty() ? 1 : shape[size_t(axis)];
            const Sizes at = index_shape(r, shape, axis);
            const Dtype kind = r.below(3) ? kInt64 : kInt32;
            const Var x = make_tensor(r, d, shape, L(l), -9, 9);
            const Var index = make_index(r, kind, at, random_layout(r), extent);
            kept.push_back(tracer::gather(x, axis, index));
            const Var source = make_tensor(r, d, at_least(r, at), random_layout(r), -9, 9);
            kept.push_back(tracer::scatter(x, axis, index, source));
            kept.push_back(tracer::scatter_add(x, axis, index, source));
            tally().combinations += 3;
            if (!writable(L(l))) continue;
            Var target = x;
            tracer::scatter_(Op::scatter, target, axis, index, source);
            tracer::scatter_(Op::scatter_add, target, axis, index, source);
            kept.push_back(target);
            tally().combinations += 2;
          }
      synchronize();
    }
  require_covered(rows_where([](const OpRow& row) { return row.kind == RowKind::gather || row.kind == RowKind::scatter; }));
  report("gather and scatter");
}

TEST_CASE("ops: scatters whose operands share memory with the target") {
  for (RunMode mode : all_modes) {
    Random r("shared scatter");
    Checked checked(mode);
    for (int k = 0; k < 8; ++k) {
      Var whole = make_index(r, kInt64, {12}, L::contiguous, 6), target = tracer::slice(whole, 0, 0, 6), index = tracer::slice(whole, 0, k % 4, 6);
      tracer::scatter_(k % 2 ? Op::scatter : Op::scatter_add, target, 0, index, tracer::slice(whole, 0, 5, 6));
      synchronize();
      Var self = make_index(r, kInt64, {6}, L::contiguous, 6);
      tracer::scatter_(k % 2 ? Op::scatter : Op::scatter_add, self, 0, self, self);
      synchronize();
    }
  }
  report("scatters in shared memory");
}

TEST_CASE("ops: large scatters in order") {
  Random r("large scatter");
  for (RunMode mode : all_modes) {
    Checked checked(mode);
    const Var x = make_tensor(r, kFloat32, {50, 64}, L::contiguous, -1, 1, Data::domain);
    const Var rows = make_index(r, kInt64, {3000, 1}, L::contiguous, 50), index = tracer::expand(rows, {3000, 64});
    const Var source = make_tensor(r, kFloat32, {3000, 64}, L::contiguous, -1, 1, Data::domain);
    const Var added = tracer::scatter_add(x, 0, index, source), put = tracer::scatter(x, 0, index, source), taken = tracer::gather(added, 0, index);
    const Var line = make_tensor(r, kFloat32, {17}, L::contiguous, -1, 1, Data::domain), at = make_index(r, kInt64, {90000}, L::contiguous, 17);
    const Var piled = tracer::scatter_add(line, 0, at, make_tensor(r, kFloat32, {90000}, L::contiguous, -1, 1, Data::domain));
    synchronize();
  }
  report("large scatters");
}

TEST_CASE("ops: indices out of range are named and change nothing") {
  for (RunMode mode : all_modes) {
    InMode scope(mode);
    Tensor x = arange(6).reshape({2, 3}), before = x.clone();
    const Tensor bad = tensor({{0, 3, 1}}), low = tensor({{-4, 0, 0}});
    synchronize();
    const auto message = [&](auto&& f) -> std::string {
      try {
        f();
        synchronize();
      } catch (const IndexError& e) {
        return e.what();
      }
      return "no error";
    };
    INFO(mode_name(mode));
    CHECK_THAT(message([&] { Tensor y = x.gather(1, bad); synchronize(); }), Catch::Contains("gather") && Catch::Contains("index 3 is out of range") && Catch::Contains("extent 3") && Catch::Contains("-3 to 2"));
    CHECK_THAT(message([&] { Tensor y = x.scatter(1, low, x); synchronize(); }), Catch::Contains("scatter") && Catch::Contains("index -4 is out of range"));
    CHECK_THAT(message([&] { x.scatter_(1, bad, x + 10); }), Catch::Contains("scatter") && Catch::Contains("index 3 is out of range"));
  }
}
