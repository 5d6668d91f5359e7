// Lowering: one recorded op to a block program. What a program's code depends on is a spec, a small plain value that is
// also the key of the cache of eager kernels; extents, strides and numbers are arguments.
#pragma once
#include <cstring>
#include "kernels/program.h"
#include "tracer/op_table.h"

namespace frit::jit {

using tracer::Op;
constexpr int max_operands = 4;  // the result first

// How an operand moves along the innermost axis.
enum class Step : uint8_t { none, one, strided };

// A program over an iteration space: outer axes (linearised in one grid axis) and the innermost as block axis.
struct ElementSpec {
  Op op{};
  Dtype compute{};              // of the row; sources and copies: of the result
  uint8_t outer = 0;            // outer axes
  uint8_t numbers = 0;          // bit k: input k is a number
  Dtype memory[max_operands]{}; // result, inputs
  Step step[max_operands]{};
  uint8_t category = 0;         // full, arange: the numbers' category · gather: number of axes before the indexed one
  uint8_t unused[3]{};
  bool operator==(const ElementSpec& o) const { return !std::memcmp(this, &o, sizeof *this); }
};
static_assert(sizeof(ElementSpec) == 18);

// Arguments, in order: pointers (result, tensor inputs), numbers, block extent, grid extent (when outer > 0), outer extents
// but the first (when outer > 1), then per pointer: its outer strides, and its inner stride when strided.
kernels::Program lower_elements(const ElementSpec& s);

// Reductions of one axis. Kept axes are linearised in the grid axis; in `columns` layout the last kept axis is the block
// axis along which results lie side by side.
enum class ReduceLayout : uint8_t { row, strided_row, columns, chunks /* row, partial results of chunks of 1024 */ };
struct ReduceSpec {
  Op op{};
  Dtype in{}, out{};
  ReduceLayout layout{};
  uint8_t outer = 0;    // kept axes but the block one
  bool pairwise = false;  // the second stage after `chunks`
  bool operator==(const ReduceSpec& o) const { return !std::memcmp(this, &o, sizeof *this); }
};
static_assert(sizeof(ReduceSpec) == 7 || sizeof(ReduceSpec) == 8);

// Arguments: result, input, reduced extent, [columns: block extent], grid extent (when outer > 0), outer extents but the
// first, the input's outer strides, the input's stride along the reduced axis (not for row and chunks).
kernels::Program lower_reduce(const ReduceSpec& s);
Dtype accumulator_dtype(Op op, Dtype in);
std::vector<Dtype> param_types(const scalar::Function& f);

// gather, scatter, scatter_add over the index's iteration space. The indexed axis is sequential for the scatters.
struct IndexSpec {
  Op op{};
  Dtype memory{}, index{};
  uint8_t outer = 0;     // outer axes before the indexed one (gather: all but the block axis)
  Step step[3]{};        // along the block axis: result, index, source (gather: input without the indexed axis's part)
  bool block_is_indexed = false;  // gather: the block axis is the indexed one · scatters: there is no other axis
  bool operator==(const IndexSpec& o) const { return !std::memcmp(this, &o, sizeof *this); }
};
// Arguments: result, index, other pointer, extent of the indexed axis, its stride in the indexed operand, block extent,
// grid extent, [scatters: sequential extent], outer extents but the first, then per pointer (result, index, other) its
// outer strides, [scatters: strides along the sequential axis of index and source], its block stride when strided.
kernels::Program lower_index(const IndexSpec& s);

}  // namespace frit::jit
