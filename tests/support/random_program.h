// Random programs over the public API, for differential tests of the ways to run one program. A seed gives a program; it is
// run several times with other extents (0 and 1 among them), other data and other numbers, and every result that it shows is
// kept as text and bits.
//
//   Dim          an extent as the program knows it: a base extent, a constant, a product, a sum or a part of others
//   Instruction  one statement: its C++ text and how it is run; one that throws shows the error, and what it would have made
//                stays undefined, so that what needs it is skipped
//   Machine      one run: the tensors, the extents of this repetition, what was shown
//
// Start reading at Generator::program in random_program.cpp.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>
#include "frit/compile.h"
#include "frit/nn/functional.h"
#include "frit/optim.h"

namespace frit::testing {

struct Dim {
  enum Kind : uint8_t { base, constant, product, sum, part } kind;
  int a = 0, b = 0;                        // dims; base: which; constant: its value
  int skip_front = 0, skip_back = 0, step = 1;  // part: eighths of the extent that are left away
};
inline int64_t part_start(int64_t extent, int eighths) { return extent * eighths / 8; }

constexpr int base_extents = 4;  // the last two change from repetition to repetition

struct Machine;
struct Instruction {
  std::string text;
  std::function<void(Machine&)> run;
  std::vector<int> in;         // slots that must be defined
  bool once = false;           // in the first repetition only
  int when = -1;               // >= 0: only where repetition % 2 equals it
  bool no_grad = false;
};

// One result, as a mode shows it. Equal programs show equal lists.
struct Shown {
  int repetition, instruction;
  std::string what;            // type, shape, strides, flags; or an error's text
  std::string bits;            // in row-major order; every NaN is the same NaN
  bool operator==(const Shown&) const = default;
};

struct TensorProgram {
  uint64_t seed = 0;
  std::vector<Dim> dims;
  std::vector<std::vector<int64_t>> extents;  // by repetition: the base extents
  std::vector<Instruction> instructions;
  std::vector<bool> skipped;                  // by instruction: left out, while a failure is made small
  int slots = 0, kept_slots = 0;              // slots below kept_slots live through the repetitions
  bool gradients = false, view_writes = false, waits = false;
  std::string text() const;                   // as C++, with the extents of each repetition
};
struct Machine {
  const TensorProgram* program = nullptr;
  std::vector<Tensor> slot;
  std::vector<std::shared_ptr<optim::Optimizer>> optimizers;
  std::vector<int64_t> dim;                   // of this repetition
  int repetition = 0, instruction = 0;
  std::vector<Shown>* shown = nullptr;
  Machine() = default;
  Machine(Machine&&) = default;
  Machine& operator=(Machine&&) = default;
  ~Machine() { let_go(0); }
  void enter(int repetition);
  void run(const Instruction& i);             // throws what it throws
  // A leaf whose gradient has a graph of its own is part of a circle, until the gradient is taken from it: those in the slots
  // from `first` on; `run` lets go of those that it replaces.
  void let_go(int first);
  void show(const Tensor& t);
  void show(std::string text) { shown->push_back({repetition, instruction, std::move(text), ""}); }
  std::vector<int64_t> sizes(const std::vector<int>& dims) const;
  uint64_t data_seed() const { return program->seed * 1000003 + uint64_t(instruction) * 1009 + uint64_t(repetition); }
};

TensorProgram random_tensor_program(uint64_t seed);

// A tensor of random data in memory of the program's own (from_blob). special: one element in so many is NaN, infinite or -0.
Tensor random_data(uint64_t seed, IntArrayRef sizes, Dtype d, int special);
Tensor random_index(uint64_t seed, IntArrayRef sizes, int64_t extent);  // in [0, extent)

// Runs one repetition's instructions; `body` runs each repetition and may wrap it.
using Around = std::function<void(int repetition, const std::function<void()>& body)>;
std::vector<Shown> run_program(const TensorProgram& p, const Around& around);

// The ways to run a program: with compiles in the foreground or in the background, or as the body of a compiled function, which
// is called with each repetition's sizes.
enum class Way : uint8_t { foreground, background, compiled };
constexpr Way all_ways[] = {Way::foreground, Way::background, Way::compiled};
const char* way_name(Way way);
std::vector<Shown> run_eager(const TensorProgram& p);
// How the program shows something else this way, or nothing. Plans are forgotten before; every third program runs on two threads.
std::string compare(const TensorProgram& p, const std::vector<Shown>& wanted, Way way);

// The first difference as text, or nothing.
std::string difference(const TensorProgram& p, const std::vector<Shown>& wanted, const std::vector<Shown>& got);
// Leaves out instructions as long as `fails` stays true.
TensorProgram shrink(TensorProgram p, const std::function<bool(const TensorProgram&)>& fails);

}  // namespace frit::testing
