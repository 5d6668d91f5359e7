// Block programs: the level at which kernels are written, before any processor is chosen. Both code generators take
// them. One *program instance* handles one point of the grid axes and a whole block of the block axes.
//
// Axes      grid: independent instances, any order, any thread · sequential: like grid, but instances that differ in it
//           run in ascending order (scatter) · block: the lanes of one instance · loop: gone through in ascending order
//           within an instance. An axis's extent is a uniform Int64 value of the program (an argument, or computed from
//           arguments; of block and loop axes also from the indices of grid axes and of loops before it), so nothing is
//           padded and no extent is baked.
// Values    SSA, in dependency order. A value varies along a set of block and loop axes (its `axes` bits); one with no bits
//           is uniform. A lane outside its axis's extent does not exist: tails need no mask in the program.
// Loops     What varies along a loop is computed anew in each turn, in the order of the program; the rest before the loop
//           (`last`: after it). Of two loops along which one value varies the lower axis is the outer one, and what varies
//           along the inner one alone is computed inside both. A `carry` is its first operand in the first turn, and what
//           its `next` said in the turn before after that; `last` is what it would be in the next turn.
// Memory    load/store take a pointer parameter and an element offset (Int64; any bytes alignment of the element size).
// Order     reduce follows DESIGN section 4 on the CPU: the reduced axis is cut in chunks of 1024; within a chunk lane =
//           index mod 8, each lane starts from the identity and takes its elements in ascending order; lanes combine as
//           ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)); chunk results combine pairwise, splitting at the largest power of two
//           below the count. With order = pairwise there are no lanes and chunks: elements combine pairwise by position.
//           (A sum of a product marked `fused` keeps its lanes as fma chains.) dot follows the section's products: its axis
//           in panels of 256, each one fma chain in ascending order from +0, added in order, to the third operand if there
//           is one. Other device kinds have constants of
//           their own; no schedule, stride or thread count changes the result.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>
#include "tracer/scalar.h"

namespace frit::kernels {

using scalar::Prim;

enum class AxisKind : uint8_t { grid, sequential, block, loop };
enum class Op : uint8_t {
  pointer,  // imm: parameter number; dtype: of the elements
  integer,  // imm: parameter number; Int64 argument
  number,   // imm: parameter number; scalar argument of type dtype, passed as its bits
  scalar,   // a scalar primitive: prim, in[0..2], imm as in scalar.h (constant and table included)
  index,    // imm: axis; Int64 index of the instance or lane along the axis
  load,     // in: pointer, offset[, mask, other]: other (default 0) where the mask is false, and nothing is read there
  store,    // in: pointer, offset, value[, mask]; converts nothing: the value has the pointer's compute type
  reduce,   // in: value[, mask]; imm: the one reduced block axis; kind, order; masked lanes do not take part
  dot,      // in: two values[, a third, added to]; imm: the block axis of both that is contracted
  carry,    // in: the value of the first turn; imm: the loop | the other axes along which it varies << 8
  next,     // in: a carry, and its value in the next turn; one for each carry
  last,     // in: a carry, after all that varies along its loop
};
// Half formats: a load gives Float32, a store rounds from Float32. argmax/argmin give the Int64 index along the axis: the
// first NaN wins, else the lowest index of the extreme value. max/min propagate NaN (scalar_math.h's maximum/minimum).
// sum and prod of the value's own type; any/all of Bool.
enum class Reduce : uint8_t { sum, prod, max, min, argmax, argmin, any, all };
enum class Order : uint8_t { lanes, pairwise };

using Id = uint16_t;
constexpr Id no_value = 0xffff;

struct Instr {
  Op op = Op::scalar;
  Prim prim = Prim::constant;
  Dtype dtype = Dtype::Float32;  // of the result (compute type; for store: of the value)
  uint8_t axes = 0;              // block and loop axes along which the value varies (bit = axis number)
  Reduce kind = Reduce::sum;
  Order order = Order::lanes;
  bool fused = false;            // reduce sum over a mul: acc = fma(a, b, acc)
  Id in[4] = {no_value, no_value, no_value, no_value};
  uint64_t imm = 0;
  bool operator==(const Instr&) const = default;
};

enum class ParamKind : uint8_t { pointer, integer, number };
struct Param {
  ParamKind kind;
  Dtype dtype;           // pointer: element type in memory; integer: Int64; number: compute type
  bool written = false;  // pointer that some store uses
  bool operator==(const Param&) const = default;
};
struct Axis {
  AxisKind kind;
  Id extent;  // a uniform Int64 value
  bool operator==(const Axis&) const = default;
};

// At most 8 axes. Grid axes come first, slowest first; block and loop axes in any order.
struct Program {
  std::string name;  // a C identifier; shown in perf, statistics and CUDA source
  std::vector<Param> params;
  std::vector<Axis> axes;
  std::vector<Instr> instrs;

  std::string text() const;                      // parse_program(text()) == *this
  bool operator==(const Program&) const = default;
};
Program parse_program(const std::string& text);  // throws std::invalid_argument with the line
void verify(const Program& p);                   // throws std::logic_error with the text of p
// Is every lane of this Float32 value one of the half format? (Of BFloat16 then the lower half of its bits is zero.)
bool is_rounded(const Program& p, Id v, Dtype half);

struct Value {
  Id id = no_value;
};

// Appends instructions, sharing equal pure ones; infers dtype and axes.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name) { program_.name = std::move(name); }
  Value pointer(Dtype memory, bool written = false);
  Value integer();
  Value number(Dtype compute);
  int axis(AxisKind kind, Value extent);  // its number
  Value index(int axis);
  Value constant(double v, Dtype d);
  Value integer_constant(int64_t v);
  Value apply(Prim p, Dtype result, std::initializer_list<Value> in, uint64_t imm = 0);
  // Expands a scalar function: operands for its inputs, numbers for its params.
  std::vector<Value> expand(const scalar::Function& f, const std::vector<Value>& inputs, const std::vector<Value>& params);
  Value add(Value a, Value b) { return apply(Prim::add, dtype(a), {a, b}); }
  Value mul(Value a, Value b) { return apply(Prim::mul, dtype(a), {a, b}); }
  Value convert(Value a, Dtype d);  // no instruction when it is d already
  Value load(Value pointer, Value offset, Value mask = {}, Value other = {});
  void store(Value pointer, Value offset, Value value, Value mask = {});
  Value reduce(Reduce kind, Value v, int axis, Value mask = {}, Order order = Order::lanes, bool fused = false);
  Value dot(Value a, Value b, int axis, Value to = {});
  Value carry(int loop, Value first, std::initializer_list<int> along = {});  // varies along `first`'s axes, its loop and these (outer loops too)
  void next(Value carry, Value value);
  Value last(Value carry);
  Dtype dtype(Value v) const { return program_.instrs[v.id].dtype; }
  bool is_rounded(Value v, Dtype half) const { return kernels::is_rounded(program_, v.id, half); }
  Dtype memory_dtype(Value pointer) const;
  Program finish();  // drops what no store or extent needs, verifies, and leaves the builder empty

 private:
  Value push(Instr i);
  bool belongs(Value v) const { return v.id < program_.instrs.size(); }
  Program program_;
  std::unordered_multimap<uint64_t, Id> known_;  // hash of a shareable instruction to its id
  size_t loads_from_ = 0;                        // loads before this id may have been overtaken by a store
};

// Arguments of a launch, one 64-bit slot per parameter in order: a pointer (element address), an Int64, or the bits of a
// number in its compute type (zero-extended).
using Slot = uint64_t;

// The extents of a verified program's axes under these arguments. indices: by axis, of grid axes and loops, on which extents may
// depend; null: all 0.
std::vector<int64_t> extents(const Program& p, const Slot* args, const int64_t* indices = nullptr);
// The same for many launches. Params: the program's, then the indices by axis; results: the extents by axis.
scalar::Function extents_function(const Program& p);
// By axis that is a loop: the loops around it (bits), and itself. What varies along the bit's loop runs inside of all of them.
std::vector<uint8_t> loop_nest(const Program& p);
// The loops in which an instruction runs (bits).
uint8_t loops_of(const Program& p, const std::vector<uint8_t>& nest, const Instr& i);
bool has_tiles(const Program& p);  // loops, dots, or extents that depend on indices: what one loop nest a store cannot run

}  // namespace frit::kernels
