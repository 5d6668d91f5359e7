// See the header. Start at settle.
#include "tracer/gradient_slices.h"
#include <algorithm>
#include "tracer/user_call.h"

namespace frit::tracer {

void GradientSum::add(const Var& g) { sum_ = sum_.defined() ? tracer::add(sum_, g) : g; }

namespace {
int64_t length_of(const SliceGradient& s) { return sizes_of(s.gradient)[s.axis]; }

bool beside_each_other(const std::vector<SliceGradient>& sorted) {
  for (size_t i = 1; i < sorted.size(); ++i) {
    const SliceGradient &a = sorted[i - 1], &b = sorted[i];
    if (a.axis != b.axis || dtype_of(a.gradient) != dtype_of(b.gradient) || a.start + length_of(a) > b.start) return false;
  }
  return sorted.size() > 1;
}
Var joined(const std::vector<SliceGradient>& sorted) {
  const SliceGradient& first = sorted[0];
  const SiteScope line(first.site);
  std::vector<Var> parts;
  int64_t at = 0;
  const auto zeros_until = [&](int64_t end) {
    if (at == end) return;
    Sizes gap = sizes_of(first.gradient);
    gap[first.axis] = end - at;
    parts.push_back(full(gap, 0, dtype_of(first.gradient)));
  };
  for (const SliceGradient& s : sorted) {
    zeros_until(s.start);
    parts.push_back(s.gradient);
    at = s.start + length_of(s);
  }
  zeros_until(first.extent);
  return cat(parts, first.axis);
}
}  // namespace

const Var& GradientSum::settle() {
  std::vector<SliceGradient> slices = std::exchange(slices_, {});
  std::vector<SliceGradient> sorted = slices;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  if (beside_each_other(sorted)) {
    add(joined(sorted));
  } else {
    for (const SliceGradient& s : slices) {
      const SiteScope line(s.site);
      add(unslice(s.gradient, s.axis, s.start, 1, s.extent));
    }
  }
  return sum_;
}

}  // namespace frit::tracer
