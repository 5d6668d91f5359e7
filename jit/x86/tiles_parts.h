// What the files of compile_tiles share: the plan of a program, and products of tiles. Not an interface for other parts.
//
// A thread runs instances with an array of slots, the arguments of every generated kernel of the plan (they all have the same parameters):
//   the program's arguments · indices by axis · extents by axis · three pointers to the array itself, as Int64, Float32 and Float64, by
//   which kernels store uniform values · one to 0, 1, 2 … as Int32 · values: a slot for a uniform one; for a tile a pointer and its pitch in elements
// A tile's rows run along the lowest of its block axes.
#pragma once
#include <vector>
#include "jit/x86/compile.h"
#include "jit/x86/product_parts.h"

namespace frit::jit::tiles {

using kernels::Id;
using kernels::Program;
using kernels::Slot;

struct Tile {  // in scratch memory
  int slot;    // its pointer's; the pitch follows
  int rows, columns;  // axes; -1: none, a single element
  Dtype type;
};
// A matrix in memory: where the pointer, the offset and the steps along two axes are found.
struct Matrix {
  int pointer = -1, offset = -1;         // slots
  int axis[2] = {-1, -1}, step[2] = {-1, -1};  // axes; slots
  Dtype storage{};
  uint16_t depends = 0;                  // grid axes and loops on which the offset depends (bits)
};
struct Operand {
  int tile = -1;     // in Plan::tiles; -1: the matrix
  Matrix matrix;
  int packed = -1;   // in State: where it is packed when it has to be
};
struct Dot {
  Dtype type;
  int m, n, k;       // axes
  Operand a, b, c;
  bool adds;
};
struct Step {
  enum class Kind : uint8_t { kernel, dot, loop } kind;
  int index;         // in kernels, dots, loops
  int rows = -1;     // of a kernel: the axis of its rows, and whether they are its instances (else its lanes)
  bool row_by_row = true;
};
struct Block {
  int uniforms = -1;             // a kernel, run first
  std::vector<int> bounded;      // block axes whose extents it finds
  std::vector<Step> steps;
};
struct Loop {
  int axis;
  Block body;
  std::vector<std::pair<int, int>> swapped;  // slots of tiles: a carry's, and that of its next value
};
struct Plan {
  Program program;
  scalar::Function extents;
  std::vector<CpuKernel> kernels;
  std::vector<Tile> tiles;
  std::vector<Dot> dots;
  std::vector<Loop> loops;
  Block root;
  int slots = 0, packs = 0;
  int index_slot(int axis) const { return int(program.params.size()) + axis; }
  int extent_slot(int axis) const { return int(program.params.size() + program.axes.size()) + axis; }
  int self_slot(Dtype d) const { return extent_slot(int(program.axes.size())) + (d == Dtype::Float32 ? 1 : d == Dtype::Float64 ? 2 : 0); }
  int ramp_slot() const { return self_slot(Dtype::Float64) + 1; }
};

// C = A B or C += A B, in the type `wide` says; steps in bytes. A: rows contiguous or columns; B: rows contiguous, or packed.
struct TileProduct {
  bool wide;
  int64_t m, n, k;
  const char *a, *b;
  char* c;
  int64_t a_row, a_column, b_row, c_row;
  bool packed, adds;
};
void multiply(const TileProduct& p);
// Packs B for it, [k][n] with these steps in elements of the storage type; returns nothing that depends on where. `bytes`: how many it takes.
void pack_right(Dtype storage, char* to, const char* from, int64_t step_k, int64_t step_n, int64_t k, int64_t n);
size_t packed_right_bytes(bool wide, int64_t k, int64_t n);

}  // namespace frit::jit::tiles
