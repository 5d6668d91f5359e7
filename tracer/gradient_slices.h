// The gradients that one tensor is given, summed as they come. Slices of it that do not overlap, as chunk, split and unbind make them, wait
// and are laid beside each other in one pass, with zeros between; each by itself would be a tensor of the whole extent, mostly zeros.
#pragma once
#include <vector>
#include "tracer/var.h"

namespace frit::tracer {

struct SliceGradient {
  int axis;
  int64_t start, extent;  // extent: of the whole axis
  Var gradient;
  const CallSite* site;   // of the slice: what is emitted stands for it
};
class GradientSum {
 public:
  GradientSum() = default;
  explicit GradientSum(Var g) : sum_(std::move(g)) {}
  void add(const Var& g);
  void add(SliceGradient s) { slices_.push_back(std::move(s)); }
  const Var& settle();    // emits what waits; undefined when nothing came
  const Var& settled() const { return sum_; }
  Var take() { return settle(), std::move(sum_); }

 private:
  Var sum_;
  std::vector<SliceGradient> slices_;  // in order of arrival
};

}  // namespace frit::tracer
