// Convolutions and pooling over one or two spatial axes: the problems, and oracles that follow the definitions.
//
//   convolution          y(n, o, p) = sum over k of weight(o, k) * x(n, k's channel, where k's element of window p lies); k counts the group's
//                        channels and within them the kernel's elements, row-major
//   convolution_input    dx(n, c, q) = sum over k of weight(k) * g(n, k's output channel, the place whose window has k's element at q); k counts
//                        the group's output channels and within them those of the kernel's elements, row-major, whose distance from q meets the
//                        stride along every axis
//   convolution_weight   dw(o, c, e) = sum over the images in order, and over each image's places, row-major, of g(n, o, p) * x(n, c, where e lies)
//
// Every sum is one of tracer/product.h's panels: 256 terms, one fma chain each from +0, panels added in order; each image of
// convolution_weight begins a panel of its own. There is no other rule for a single row or column. What lies outside takes part as zero.
// Types are as in product.h: half formats are widened and rounded once, integers wrap, booleans are or'ed.
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>
#include "runtime/dtype.h"
#include "tracer/trace.h"

namespace frit::tracer {

struct Convolution {
  struct Axis {
    int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, low = 0;
  };
  Dtype dtype;
  int64_t batch, groups, in_channels, out_channels;  // channels: of one group
  Axis axis[2];                                      // rows and columns; of one spatial axis: a single row
  int64_t elements() const { return axis[0].kernel * axis[1].kernel; }
  int64_t places() const { return axis[0].out * axis[1].out; }
  int64_t pixels() const { return axis[0].in * axis[1].in; }
};
Convolution convolution_of(const Trace& t, uint32_t n);

// An operand: [batch or output channels, channels, rows, columns], strides in elements.
struct Images {
  const char* data;
  int64_t stride[4];
};
Images images_of(const Value& v);

// By the op that asks: its operands in its order, and the contiguous result.
void convolution_reference(Op op, const Convolution& c, const Images& a, const Images& b, void* result);

// Windows over each channel's rows and columns. The first NaN, or else the first greatest element (zeros are equal), and its place in the channel.
struct Pooling {
  struct Axis {
    int64_t in = 1, kernel = 1, stride = 1, dilation = 1, low = 0, out = 1;
  };
  Dtype dtype;
  int64_t batch, channels;
  Axis axis[2];
};
Pooling pooling_of(const Trace& t, uint32_t n);
template <class T> T lowest_value() {
  if constexpr (std::is_same_v<T, bool>) return false;
  else if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::min();
  else return T(-std::numeric_limits<float>::infinity());
}

}  // namespace frit::tracer
