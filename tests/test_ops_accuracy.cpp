// Floating rows against double precision: a Float32 row against the Float64 row on the same values, within the bound of
// tracer/scalar_bounds.h where the row is a scalar function, exactly where it is one rounded operation, and within a few
// roundings of its terms otherwise; a half row against the Float32 row, exactly.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include "tests/support/op_harness.h"
#include "tracer/scalar_bounds.h"

using namespace frit;
using namespace frit::testing;

namespace {
double unit_in_last_place(double x) {  // of Float32 at |x|
  int e;
  std::frexp(std::abs(x), &e);
  return std::ldexp(1.0, std::max(e - 1, -126) - 23);
}
const scalar::Bound* bound_of(const OpRow& r) {
  for (const scalar::Bound& b : scalar::scalar_bounds)
    if (!std::strcmp(b.name, r.name)) return &b;
  return nullptr;
}
bool one_rounding(Op op) {  // a single operation on inputs and constants
  const scalar::Function f = tracer::pointwise_function(op, kFloat32);
  int steps = 0;
  for (const scalar::Node& n : f.nodes) steps += n.prim != scalar::Prim::input && n.prim != scalar::Prim::constant;
  return steps <= 1;
}
bool takes_floats(const OpRow& r) {
  return r.kind == RowKind::pointwise && r.type != TypeRule::bits && r.type != TypeRule::shifts && r.type != TypeRule::assign;
}
std::vector<Var> operands_of(const OpRow& r, Random& random, Dtype d, Data data) {
  std::vector<Var> in;
  for (int k = 0; k < r.inputs; ++k)
    in.push_back(make_tensor(random, r.type == TypeRule::choice && k == 0 ? kBool : d, {4001}, frit::testing::Layout::contiguous, r.low, r.high, data));
  return in;
}
std::vector<Operand> converted(const std::vector<Var>& in, Dtype d, std::vector<Var>& held) {
  for (const Var& v : in) held.push_back(tracer::dtype_of(v) == kBool ? v : tracer::convert(v, d));
  return {held.begin(), held.end()};
}
}  // namespace

TEST_CASE("ops: float32 rows are within their bound of the float64 rows") {
  size_t compared = 0, exact = 0, bounded = 0;
  double worst = 0;
  std::string worst_row;
  for (Op op : rows_where(&takes_floats)) {
    const OpRow& r = row(op);
    Random random(std::string("accuracy ") + r.name);
    const scalar::Bound* bound = bound_of(r);
    const bool single = one_rounding(op);
    for (Data data : {Data::domain, Data::hostile}) {
      if (data == Data::hostile && !single && !bound) continue;  // terms may overflow in one type alone
      const std::vector<Var> in = operands_of(r, random, kFloat32, data);
      std::vector<Var> held;
      const std::vector<double> got = doubles(emit(op, {in.begin(), in.end()})), want = doubles(emit(op, converted(in, kFloat64, held)));
      std::vector<std::vector<double>> terms;
      for (const Var& v : in) terms.push_back(doubles(v));
      for (size_t i = 0; i < got.size(); ++i) {
        INFO(r.name << " of " << terms[0][i] << ", " << (terms.size() > 1 ? terms[1][i] : 0) << ": " << got[i] << ", in double precision " << want[i] << ", seed " << run_seed());
        const double rounded = double(float(want[i]));
        ++compared;
        if (got[i] == rounded || (got[i] != got[i] && rounded != rounded)) continue;
        if (bound && (terms[0][i] < bound->lo || terms[0][i] > bound->hi)) continue;
        if (r.type == TypeRule::compare || single) REQUIRE(got[i] == rounded);
        if (std::isinf(rounded) || std::isinf(got[i])) {  // one rounding apart at the end of the range
          REQUIRE(bound);
          REQUIRE(std::abs(want[i]) > 0x1.fffffp127);
          REQUIRE(std::abs(got[i]) > 0x1.fffffp127);
          continue;
        }
        REQUIRE(std::isfinite(got[i]));
        const double error = std::abs(got[i] - want[i]) / unit_in_last_place(want[i]);
        if (bound) {
          REQUIRE(error <= bound->ulp_float32);
          if (error > worst) worst = error, worst_row = r.name;
          continue;
        }
        // Composites: some roundings of the result, the operands and their products.
        double scale = std::abs(want[i]);
        for (size_t j = 0; j < terms.size(); ++j) {
          scale += std::abs(terms[j][i]);
          for (size_t k = j + 1; k < terms.size(); ++k) scale += std::abs(terms[j][i] * terms[k][i]);
        }
        REQUIRE(std::abs(got[i] - want[i]) <= 8 * 0x1p-24 * scale);
      }
    }
    exact += single, bounded += bound != nullptr;
  }
  std::printf("accuracy: %zu elements; %zu rows of one rounding exact, %zu rows within their stated bound, worst %.2f units (%s)\n", compared, exact, bounded, worst, worst_row.c_str());
  CHECK(exact >= 20);
  CHECK(bounded >= 26);
}

TEST_CASE("ops: half rows are the float32 rows rounded once") {
  for (Op op : rows_where(&takes_floats)) {
    const OpRow& r = row(op);
    for (Dtype d : {kFloat16, kBFloat16}) {
      Random random(std::string("half ") + r.name);
      for (Data data : {Data::domain, Data::hostile}) {
        const std::vector<Var> in = operands_of(r, random, d, data);
        std::vector<Var> held;
        const Var got = emit(op, {in.begin(), in.end()}), wide = emit(op, converted(in, kFloat32, held));
        INFO(r.name << " " << dtype_name(d) << " seed " << run_seed());
        REQUIRE(same_bits(got, r.type == TypeRule::compare ? wide : tracer::convert(wide, d)));
      }
    }
  }
}
