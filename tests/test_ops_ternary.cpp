// Every ternary row of the op table, every type, every layout, both modes, against the interpreter.
#include <catch2/catch.hpp>
#include "tests/support/op_crossing.h"

using namespace frit;
using namespace frit::testing;

TEST_CASE("ops: ternary rows") {
  const std::vector<Op> rows = rows_where([](const OpRow& r) { return r.kind == RowKind::pointwise && r.inputs == 3; });
  for (Op op : rows) cross_row(op);
  require_covered(rows);
  report("ternary");
}
