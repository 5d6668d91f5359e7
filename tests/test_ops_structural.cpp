// Views, copies, joins and sources over every type, layout and mode, against the interpreter; and programs of several ops
// with writes through views.
#include <catch2/catch.hpp>
#include <algorithm>
#include <numeric>
#include "tests/support/op_harness.h"

using namespace frit;
using namespace frit::testing;
using L = frit::testing::Layout;

namespace {
struct Cases {
  Random random;
  Dtype d;
  std::vector<Var> kept;
  Var tensor(const Sizes& shape) { return make_tensor(random, d, shape, random_layout(random), -9, 9); }
  Var tensor(const Sizes& shape, L l) { return make_tensor(random, d, shape, l, -9, 9); }
  void keep(const Var& v) {
    ++tally().combinations;
    kept.push_back(v);
  }
  // A view alone is an alias; an op on it makes its elements be read in the view's order.
  void look(const Var& v) { keep(v), keep(tracer::copy(v, true)); }
};

void views(Cases& c) {
  for (int l = 0; l < layout_count; ++l)
    for (const Sizes& shape : shapes()) {
      if (c.random.below(2)) continue;
      const int rank = int(shape.size());
      const Var x = c.tensor(shape, L(l));
      c.look(tracer::detach(x));
      std::vector<int> axes(shape.size());
      std::iota(axes.begin(), axes.end(), 0);
      for (int i = rank; i-- > 1;) std::swap(axes[size_t(i)], axes[size_t(c.random.below(i + 1))]);
      const Var turned = tracer::permute(x, axes);
      c.look(turned);
      Sizes larger = shape;
      for (int64_t& e : larger)
        if (e == 1) e = 1 + c.random.below(4);
      if (rank < 5) larger.insert(larger.begin(), 1 + c.random.below(3));
      c.look(tracer::expand(x, larger));
      c.look(tracer::reshape(turned, {-1 + (std::count(shape.begin(), shape.end(), 0) ? 1 : 0)}));
      if (!rank) continue;
      Sizes split;
      for (int64_t e : shape) {
        if (e % 3 == 0 && e) split.push_back(3), split.push_back(e / 3);
        else if (e % 2 == 0 && e) split.push_back(e / 2), split.push_back(2);
        else split.push_back(e), split.push_back(1);
      }
      if (split.size() <= 8) c.look(tracer::reshape(x, split));
      const int axis = int(c.random.below(rank));
      const int64_t n = shape[size_t(axis)];
      const int64_t start = n ? c.random.below(n) : 0, step = 1 + c.random.below(3);
      c.look(tracer::slice(x, axis, start, (n - start + step - 1) / step, step));
      c.look(tracer::slice(x, axis, start, 0, 1));
      if (n) c.look(tracer::select(x, axis, start));
      c.keep(tracer::flip(x, uint64_t(c.random.below(1 << rank))));
      c.keep(tracer::unslice(x, axis, c.random.below(3), 1 + c.random.below(3), 3 * n + 3));
      if (rank >= 2) {
        const int other = (axis + 1 + int(c.random.below(rank - 1))) % rank;
        for (int64_t offset : {-2, -1, 0, 1, 3}) {
          const Var diagonal = tracer::diagonal(x, offset, axis, other);
          c.look(diagonal);
          c.keep(tracer::undiagonal(diagonal, offset, axis, other, n, shape[size_t(other)]));
        }
      }
      // Any geometry over the storage, of a value that lies in order.
      const Var whole = tracer::copy(x, true);
      const int64_t total = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
      if (total >= 6) {
        c.look(tracer::as_strided(whole, {2, 3}, {1, 1}, total - 5));
        c.look(tracer::as_strided(whole, {total / 2, 2}, {2, 1}, total % 2));
      }
    }
}
void copies(Cases& c) {
  for (Dtype to : all_dtypes)
    for (int l = 0; l < layout_count; ++l) {
      const Var x = c.tensor(shapes()[size_t(c.random.below(int64_t(shapes().size())))], L(l));
      c.keep(tracer::convert(x, to));
      c.keep(tracer::copy(x, l % 2));
    }
}
void joins(Cases& c) {
  for (const Sizes& shape : shapes()) {
    const int rank = int(shape.size());
    for (int axis = 0; axis < rank; ++axis) {
      std::vector<Var> parts;
      for (int64_t k = c.random.below(5); k >= 0; --k) {
        Sizes e = shape;
        e[size_t(axis)] = c.random.below(7);
        const Dtype own = c.random.below(4) ? c.d : c.random.pick(all_dtypes);
        parts.push_back(make_tensor(c.random, own, e, random_layout(c.random), -9, 9));
      }
      c.keep(tracer::cat(parts, axis));
    }
  }
}
void sources(Cases& c) {
  for (const Sizes& shape : shapes()) {
    for (const Number& n : {Number(3), Number(2.5), Number(true), Number(-1), Number(1e30), Number(300)}) c.keep(tracer::full(shape, n, c.d));
    if (is_floating(c.d)) {
      c.keep(tracer::random_uniform(shape, c.d));
      c.keep(tracer::random_normal(shape, c.d));
    } else {
      CHECK_THROWS_AS(tracer::random_uniform(shape, c.d), DtypeError);
      CHECK_THROWS_AS(tracer::random_normal(shape, c.d), DtypeError);
    }
    c.keep(tracer::random_integer(shape, -7, 90, c.d));
  }
  for (int64_t n : {0, 1, 7, 33, 1000}) {
    c.keep(tracer::arange(3, 2, n, c.d));
    c.keep(tracer::arange(0.5, -0.125, n, c.d));
  }
  c.keep(tracer::random_integer({1000}, INT64_MIN, INT64_MAX, c.d));
}

// Writes through views of views, read again by the base and by other views.
void writes(Cases& c) {
  for (int l = 0; l < layout_count; ++l) {
    if (!writable(L(l))) continue;
    Var base = c.tensor({6, 5, 7}, L(l));
    Var row = tracer::select(base, 0, 2);
    Var part = tracer::slice(row, 1, 1, 3, 2);
    Var line = tracer::reshape(tracer::select(base, 1, 3), {42});
    Var diagonal = tracer::diagonal(base, 1, 0, 2);
    const Var other = c.tensor({5, 3}), wide = c.tensor({7});
    tracer::copy_(part, other);
    c.keep(tracer::copy(base, true));
    tracer::emit_pointwise_(Op::maximum, row, {wide});
    c.keep(tracer::add(part, other));
    tracer::copy_(line, tracer::full({}, 1, c.d));
    tracer::copy_(diagonal, tracer::transpose(c.tensor({6, 5}), 0, 1));
    c.keep(tracer::sum(base, 5, false));
    tracer::emit_pointwise_(Op::minimum, base, {tracer::flip(base, 1)});
    c.keep(base), c.keep(row), c.keep(part), c.keep(line), c.keep(diagonal);
  }
}

void cross(const std::string& name, void (*cases)(Cases&)) {
  for (RunMode mode : all_modes)
    for (Dtype d : all_dtypes) {
      INFO(name << " " << dtype_name(d) << " " << mode_name(mode) << " seed " << run_seed());
      Checked checked(mode);
      Cases c{Random(name + dtype_name(d)), d, {}};
      cases(c);
      synchronize();
    }
}
}  // namespace

TEST_CASE("ops: views") { cross("views", views), report("views"); }
TEST_CASE("ops: copies and conversions") { cross("copies", copies), report("copies"); }
TEST_CASE("ops: cat") { cross("cat", joins), report("cat"); }
TEST_CASE("ops: sources") { cross("sources", sources), report("sources"); }
TEST_CASE("ops: writes through views") { cross("writes", writes), report("writes through views"); }
TEST_CASE("ops: parallel ranges") {  // long enough for several threads
  Random r("parallel");
  for (Dtype d : {kUInt8, kFloat32, kFloat64})
    for (RunMode mode : all_modes) {
      Checked checked(mode);
      Var a = make_tensor(r, d, {301, 523}, L::contiguous, -9, 9), b = make_tensor(r, d, {301, 523}, L::transposed, -9, 9), c = make_tensor(r, d, {523}, L::stepped, -9, 9);
      const Var sum = tracer::add(a, b), product = tracer::mul(sum, c), turned = tracer::copy(tracer::transpose(product, 0, 1), true), joined = tracer::cat({a, b}, 1);
      const Var totals = tracer::sum(product, 1, false), rows = tracer::reduce(tracer::ReduceOp::amax, product, 2, true), all = tracer::sum(product, 3, false);
      tracer::emit_pointwise_(Op::add, a, {tracer::transpose(turned, 0, 1)});
      synchronize();
    }
  report("parallel ranges");
}
TEST_CASE("ops: every view, copy, join and source row ran") {
  require_covered(rows_where([](const OpRow& r) {
    return r.kind == RowKind::view || r.kind == RowKind::copy || r.kind == RowKind::cat || r.kind == RowKind::source || r.kind == RowKind::unslice || r.kind == RowKind::flip;
  }));
}
