// matmul over every type, layout, batch and mode, against the interpreter; against double precision; errors.
#include <catch2/catch.hpp>
#include <cmath>
#include "runtime/error.h"
#include "tests/support/op_harness.h"

using namespace frit;
using namespace frit::testing;
using L = frit::testing::Layout;

namespace {
struct Shape {
  int64_t m, n, k;
};
const Shape small[] = {{1, 1, 1}, {1, 7, 5}, {9, 1, 4}, {1, 1, 33}, {3, 5, 7}, {8, 8, 8}, {17, 9, 16}, {5, 33, 3}, {0, 3, 2}, {3, 0, 2}, {2, 3, 0}, {6, 16, 40}, {13, 31, 65}, {1, 130, 20}, {130, 1, 20}};
const std::vector<std::pair<Sizes, Sizes>> batches = {{{}, {}}, {{2}, {}}, {{}, {3}}, {{3}, {3}}, {{2, 1}, {3}}, {{2, 3}, {2, 3}}, {{1, 2}, {4, 1}}, {{0}, {}}};

Var operand(Random& r, Dtype d, Sizes batch, int64_t rows, int64_t columns, L l) {
  batch.push_back(rows), batch.push_back(columns);
  return make_tensor(r, d, batch, l, -3, 3, r.below(4) ? Data::domain : Data::hostile);
}
}  // namespace

TEST_CASE("ops: matmul") {
  for (RunMode mode : all_modes)
    for (Dtype d : all_dtypes) {
      INFO(dtype_name(d) << " " << mode_name(mode) << " seed " << run_seed());
      Random r(std::string("matmul ") + dtype_name(d));
      Checked checked(mode);
      std::vector<Var> kept;
      for (const Shape& s : small)
        for (const auto& [left, right] : batches)
          for (int k = 0; k < 2; ++k) {
            const Var a = operand(r, d, left, s.m, s.k, random_layout(r)), b = operand(r, d, right, s.k, s.n, random_layout(r));
            kept.push_back(tracer::matmul(a, b));
            ++tally().combinations;
          }
      for (int l = 0; l < layout_count * layout_count; ++l) {  // every layout with every other
        kept.push_back(tracer::matmul(operand(r, d, {}, 9, 17, L(l / layout_count)), operand(r, d, {}, 17, 11, L(l % layout_count))));
        ++tally().combinations;
      }
      synchronize();
    }
  require_covered({Op::matmul});
  report("matmul");
}

TEST_CASE("ops: larger products") {
  Random r("larger products");
  for (Dtype d : {kInt32, kFloat16, kBFloat16, kFloat32, kFloat64}) {
    Checked checked(RunMode::eager);
    const Shape large[] = {{97, 133, 200}, {200, 65, 300}, {1, 300, 500}, {300, 1, 500}};
    for (const Shape& s : large) {
      const Var a = operand(r, d, {}, s.m, s.k, random_layout(r)), b = operand(r, d, {}, s.k, s.n, random_layout(r));
      tracer::matmul(a, b);
      ++tally().combinations;
    }
  }
  report("larger products");
}

TEST_CASE("ops: products against double precision") {
  Random r("products in double precision");
  const Var a = make_tensor(r, kFloat32, {33, 257}, L::contiguous, -1, 1, Data::domain), b = make_tensor(r, kFloat32, {257, 19}, L::transposed, -1, 1, Data::domain);
  const std::vector<double> x = doubles(a), y = doubles(b), got = doubles(tracer::matmul(a, b));
  for (int i = 0; i < 33; ++i)
    for (int j = 0; j < 19; ++j) {
      double sum = 0, size = 0;
      for (int k = 0; k < 257; ++k) sum += x[size_t(i * 257 + k)] * y[size_t(k * 19 + j)], size += std::abs(x[size_t(i * 257 + k)] * y[size_t(k * 19 + j)]);
      REQUIRE(std::abs(got[size_t(i * 19 + j)] - sum) <= 257 * 0x1p-24 * size);
    }
}

TEST_CASE("ops: matmul's errors") {
  const Tensor a = zeros({2, 3}), b = zeros({4, 5});
  const auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  CHECK_THAT(message([&] { a.matmul(b); }), Catch::Contains("matmul") && Catch::Contains("[2, 3], [4, 5]") && Catch::Contains("transpose"));
  CHECK_THAT(message([&] { a.matmul(zeros({3, 2}, kFloat64)); }), Catch::Contains("float32") && Catch::Contains("float64") && Catch::Contains("to()"));
  CHECK_THAT(message([&] { zeros({2, 2, 3}).matmul(zeros({3, 3, 1})); }), Catch::Contains("batch"));
  CHECK_THROWS_AS(a.matmul(b), ShapeError);
}
