// What code generation asks about a block program before it emits anything.
#pragma once
#include <cstdint>
#include <vector>
#include "kernels/program.h"

namespace frit::jit::x86_code {

using kernels::Id;
using kernels::Instr;
using kernels::Program;

// Axes are bits of a mask; a mask holds grid, sequential and block axes alike.
using AxisMask = uint16_t;
constexpr AxisMask axis_bit(int axis) { return AxisMask(1u << axis); }

// Stores that run in one loop nest: they have the same block axes, and no load must come between them.
struct SinkGroup {
  AxisMask axes = 0;
  int segment = 0;
  std::vector<Id> stores;
};

class Analysis {
 public:
  explicit Analysis(const Program& p);  // throws std::runtime_error when loads and stores conflict

  const Program& program;
  std::vector<AxisMask> depends;  // per value: the axes that it depends on
  AxisMask block_axes = 0, grid_axes = 0;
  int last_block = -1;            // the last block axis
  int grid_count = 0;             // grid and sequential axes
  std::vector<SinkGroup> sinks;   // in the order of execution
  bool lane_split = false, ordered = false;

  bool varies(Id v, int axis) const { return depends[v] >> axis & 1; }
  bool affine(Id v, int axis) const;                  // base + coefficient * index(axis), both independent of the axis
  // Ascending; reduces and `leaves` are leaves; roots are included.
  std::vector<Id> needed(const std::vector<Id>& roots, const std::vector<Id>& leaves = {}) const;
  // The reduces that share a loop with r: same axis, same result axes, same kind of tree, none depending on another.
  std::vector<Id> companions(Id r) const;
  bool is_reduce(Id v) const { return program.instrs[v].op == kernels::Op::reduce; }

  bool reaches(Id from, Id to) const;                 // `from` depends on `to`

 private:
  void find_sinks();
  void check_order() const;
};

bool has_tree(const Instr& reduce);   // float sum or product: the order of the elements matters
bool is_argument(const Instr& reduce);  // argmax, argmin

}  // namespace frit::jit::x86_code
