// Every ternary row of the op table, every type, every layout, both modes, against the interpreter. And that the harness
// itself notices what it should.
#include <catch2/catch.hpp>
#include "jit/execute.h"
#include "tests/support/op_crossing.h"

using namespace frit;
using namespace frit::testing;

TEST_CASE("ops: ternary rows") {
  const std::vector<Op> rows = rows_where([](const OpRow& r) { return r.kind == RowKind::pointwise && r.inputs == 3; });
  for (Op op : rows) cross_row(op);
  require_covered(rows);
  report("ternary");
}

namespace {
// The library with one wrong byte: in the last value's last element, or beside a written view.
void wrong_element(tracer::Trace& t, const char* cause) {
  jit::execute(t, cause);
  tracer::Value& v = *t.value.back();
  reinterpret_cast<unsigned char&>(v.data()[(v.numel() - 1) * int64_t(size_of(v.dtype))]) ^= 1;
}
void wrong_neighbour(tracer::Trace& t, const char* cause) {
  jit::execute(t, cause);
  tracer::Value& v = *t.value.back();
  reinterpret_cast<unsigned char&>(v.data()[-1]) ^= 1;
}
size_t noticed() {
  const size_t n = tally().mismatches.size();
  tally().mismatches.clear();
  return n;
}
}  // namespace

TEST_CASE("ops: the harness sees a wrong bit, a byte written beside a view, and a guard overrun") {
  Random r("self-test");
  Var a = make_tensor(r, kFloat32, {3, 9}, frit::testing::Layout::contiguous, 1, 2, Data::domain);
  {
    Checked checked(RunMode::eager, &wrong_element);
    tracer::exp(a);
  }
  CHECK(noticed() == 1);
  {
    Var inner = tracer::slice(a, 0, 1, 1);
    Checked checked(RunMode::eager, &wrong_neighbour);
    tracer::emit_pointwise_(Op::neg, inner, {});
  }
  CHECK(noticed() >= 1);
  {
    Var foreign = make_tensor(r, kFloat32, {5}, frit::testing::Layout::misaligned, 1, 2, Data::domain);
    tracer::value_of(foreign.cell(), "test").data()[-1] ^= 1;
  }
  CHECK(noticed() == 1);
  {
    Checked checked(RunMode::automatic);
    const Var b = tracer::tanh(a);
    synchronize();
    CHECK(same_bits(b, b));
    CHECK(!same_bits(a, b));
  }
  CHECK(noticed() == 0);
}
