// How much a block program does, by instruction, not by element: to compare programs that compute the same.
#pragma once
#include "kernels/program.h"

namespace frit::kernels {

struct Count {
  int loads = 0, stores = 0, reductions = 0;
  int primitives = 0;  // of each lane, but for what is the same for all instances and what only addresses need
  int row_primitives = 0;  // the same, once an instance
  bool operator==(const Count&) const = default;
};
Count count(const Program& p);

}  // namespace frit::kernels
