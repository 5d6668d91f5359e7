// What convolution and pooling share: checked lists of one number per axis, padding, and the windows of an input as slices: the
// elements at one place of every window are a slice of the input. Slices stay views, are recorded without a flush, and have cheap
// gradients; a strided view of all windows at once would have none of the three.
#pragma once
#include <string>
#include "frit/nn/spatial.h"
#include "frontend/detail.h"

namespace frit::nn {

using frit::detail::Sizes;

inline Sizes shape_of(const Tensor& t, const char* op) { return tracer::sizes_of(frit::detail::cell_of(t, op)); }
void check_parameter(const Tensor& t, const char* op, const char* what, const Sizes& wanted);
void check_types(const Tensor& input, const Tensor& weight, const Tensor& bias, const char* op);  // one for all
void check_floating(const Tensor& t, const char* op);
// One number for each of n axes, none below `least`.
Sizes per_axis(IntArrayRef given, size_t n, int64_t least, const char* op, const char* what);
// The channels' axis: the rank is n + 1 or n + 2, and nothing but the batch may be empty.
size_t channel_axis(const Sizes& shape, size_t n, const char* op);

// `low` elements before and `high` after an axis; negative: cut away.
Tensor padded(const Tensor& x, int64_t axis, int64_t low, int64_t high, PadMode mode, const Scalar& value, const char* op);

struct Window {
  int64_t kernel, stride, low, high, dilation, count;  // high: may be negative, where windows leave elements out
  int64_t span() const { return dilation * (kernel - 1) + 1; }
};
// Element i of every window along an axis that is padded already.
Tensor window_slice(const Tensor& x, int64_t axis, const Window& w, int64_t i);

}  // namespace frit::nn
