// Block programs with loops and dots on x86-64: dots run on the product's micro-kernels over tiles in scratch memory, what lies between
// them becomes ordinary generated row programs over the rows of tiles, and a small driver goes through the loops.
#pragma once
#include <cstdint>
#include <memory>
#include "kernels/program.h"

namespace frit::jit {

namespace tiles {
struct Plan;
}
struct TileKernel {
  std::shared_ptr<const tiles::Plan> plan;
};

// Throws std::runtime_error, with the reason, when the program is not of the kind that can be run so: the product of a dot has two axes; what it is
// added to is used by it alone; and an axis is never longer than at the first or the last indices of the loops and the grid.
TileKernel compile_tiles(const kernels::Program& program);
// All instances, by threads in runs of `grain`; 0: chosen.
void run_tiles(const TileKernel& kernel, const kernels::Slot* args, int64_t grain = 0);

}  // namespace frit::jit
