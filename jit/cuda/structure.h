// What the CUDA generator finds out about a block program before it writes.
#pragma once
#include <cstdint>
#include <vector>
#include "kernels/program.h"

namespace frit::jit::cuda {

// lanes    one thread per lane of an instance, in strides over the launch; no reduction. With a sequential axis (and no
//          block axes) each thread runs through it.
// row      a thread block of 256 per item: thread t owns lane t of every reduction (generate.h).
// columns  32 items by 8 groups of threads: items are neighbours along the last block axis, which nothing reduces, so
//          that their loads lie side by side; group g owns lanes 32g … 32g+31 of its column's reductions.
enum class Form { lanes, row, columns };

using Done = std::vector<bool>;  // by value: the scope can name it

// Selects on one condition whose first operand is rarely chosen, and the values that only these operands need: most
// threads do not compute them.
struct RareGroup {
  std::vector<kernels::Id> selects, side;
};

struct Structure {
  explicit Structure(const kernels::Program& p);

  Form form = Form::lanes;
  uint8_t item_axes = 0;    // items: instances, and lanes of …
  uint8_t shared_axes = 0;  // … block axes along which every store varies and nothing is reduced
  std::vector<bool> address;  // by value: Int64 arithmetic that only offsets and extents use
  std::vector<int> level;     // by value: reductions it waits for
  int deepest = 0;
  std::vector<std::vector<kernels::Id>> uses;

  // Of a list in order; a group within another's side is found when that side is emitted.
  std::vector<RareGroup> rare_groups(const std::vector<kernels::Id>& list, const Done& done) const;

 private:
  void find_address_arithmetic();
  void find_levels_and_uses();
  void choose_form();
  bool is_rare_select(kernels::Id id) const;
  std::vector<kernels::Id> rare_side(const std::vector<kernels::Id>& selects, const std::vector<kernels::Id>& list, const Done& covered) const;

  const kernels::Program& p_;
};

}  // namespace frit::jit::cuda
