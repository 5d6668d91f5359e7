// Masks that a trace makes by itself: what is a number, a count along an axis, or one number on and below a diagonal and another above it.
#pragma once
#include <optional>
#include "jit/passes/passes.h"

namespace frit::jit {

struct Pattern {
  enum class Shape : uint8_t { number, count, triangle };
  Shape shape;
  double inside = 0;   // number: it; triangle: where column <= row + offset
  double outside = 0;
  int axis = 0;        // count: 1 along rows, 0 along columns; its element is offset + index
  int64_t offset = 0;
  std::vector<Rewrite::Known> known = {};  // what was read to find out
};
std::optional<Pattern> pattern_of(const Graph& g, uint32_t n, int depth = 12);  // depth: of ops looked through
double number_at(const Trace& t, uint32_t n, uint32_t slot);  // as a double, whatever its category

}  // namespace frit::jit
