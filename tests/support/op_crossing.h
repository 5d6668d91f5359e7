// Crosses a pointwise row with types, layouts, shapes, numbers and in-place forms, in both modes.
#pragma once
#include "tests/support/op_harness.h"

namespace frit::testing {

void cross_row(Op op);

}  // namespace frit::testing
