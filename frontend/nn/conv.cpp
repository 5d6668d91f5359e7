// Convolution: the windows are written as columns, one copy, and each group is a matrix product,
//   [out channels / groups, K] x [batch, groups, K, places] -> [batch, groups, out channels / groups, places],
// K being the channels of a group times the kernel's elements. The result is contiguous as it comes. Start at convolution.
#include "frontend/nn/windows.h"
#include "runtime/error.h"

namespace frit {

using detail::shape_text;
using detail::Sizes;

namespace {

struct Geometry {
  std::vector<nn::Window> windows;
  size_t channel;                 // axis of the input
  int64_t batch, kernel = 1, places = 1;
  std::vector<int64_t> extents;   // of the result, after its channels
};

void check_operands(const char* op, const Sizes& in, const Sizes& w, size_t channel, int64_t groups, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (groups < 1) throw ValueError(std::string(op) + ": groups is " + std::to_string(groups) + ". Give at least 1.");
  if (w[0] % groups) throw ShapeError(std::string(op) + ": the weight of shape " + shape_text(w) + " makes " + std::to_string(w[0]) + " channels, which " + std::to_string(groups) + " groups do not divide. Choose groups that do.");
  if (in[channel] != w[1] * groups)
    throw ShapeError(std::string(op) + ": the input of shape " + shape_text(in) + " has " + std::to_string(in[channel]) + " channels, the weight of shape " + shape_text(w) + " with " + std::to_string(groups) +
                     " groups takes " + std::to_string(w[1] * groups) + ". Change the input's channels or the weight.");
  nn::check_parameter(bias, op, "bias", {w[0]});
  if (input.dtype() != weight.dtype() || (bias.defined() && bias.dtype() != input.dtype()))
    throw DtypeError(std::string(op) + ": the input holds " + dtype_name(input.dtype()) + ", the weight " + dtype_name(weight.dtype()) + (bias.defined() ? std::string(", the bias ") + dtype_name(bias.dtype()) : std::string()) + ". Convert them to one type with to().");
}

Geometry geometry(const char* op, const Sizes& in, const Sizes& w, IntArrayRef stride, IntArrayRef padding, bool same, IntArrayRef dilation) {
  const size_t n = w.size() - 2;
  Geometry g;
  g.channel = nn::channel_axis(in, n, op);
  g.batch = g.channel ? in[0] : 1;
  const Sizes step = nn::per_axis(stride, n, 1, op, "stride"), apart = nn::per_axis(dilation, n, 1, op, "dilation");
  const Sizes around = nn::per_axis(padding, n, 0, op, "padding");
  for (size_t i = 0; i < n; ++i) {
    nn::Window v{w[2 + i], step[i], around[i], around[i], apart[i], 0};
    if (same) {
      if (step[i] != 1) throw ValueError(std::string(op) + ": padding \"same\" with stride " + shape_text(step) + ". It needs a stride of 1; give the padding as numbers.");
      v.low = (v.span() - 1) / 2, v.high = v.span() - 1 - v.low;
    }
    const int64_t room = in[g.channel + 1 + i] + v.low + v.high - v.span();
    if (v.kernel < 1 || room < 0)
      throw ShapeError(std::string(op) + ": the kernel of shape " + shape_text(Sizes(w.begin() + 2, w.end())) + (v.dilation > 1 ? " with dilation " + shape_text(apart) : "") + " does not fit the input of shape " +
                       shape_text(in) + " padded by " + shape_text(around) + ". Give a larger input, more padding or a smaller kernel.");
    v.count = room / v.stride + 1;
    g.kernel *= v.kernel, g.places *= v.count;
    g.extents.push_back(v.count);
    g.windows.push_back(v);
  }
  return g;
}

// [batch, channels, kernel's elements, places...] of an input [batch, channels, spatial axes...].
Tensor columns(Tensor x, const Geometry& g, const char* op) {
  for (size_t i = 0; i < g.windows.size(); ++i) x = nn::padded(x, int64_t(2 + i), g.windows[i].low, g.windows[i].high, kZeros, 0, op);
  TensorList parts{x.unsqueeze(2)};
  for (size_t i = 0; i < g.windows.size(); ++i) {
    const nn::Window& w = g.windows[i];
    TensorList finer;
    for (const Tensor& p : parts)
      for (int64_t k = 0; k < w.kernel; ++k) finer.push_back(nn::window_slice(p, int64_t(3 + i), w, k));
    parts = std::move(finer);
  }
  return parts.size() == 1 ? parts[0] : cat(parts, 2);
}

Tensor convolution(const char* op, size_t n, const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride, IntArrayRef padding, bool same, IntArrayRef dilation, int64_t groups) {
  const Sizes in = nn::shape_of(input, op), w = nn::shape_of(weight, op);
  if (w.size() != n + 2) throw ShapeError(std::string(op) + ": the weight has shape " + shape_text(w) + ". Give one of [out channels, in channels / groups, " + (n == 1 ? "length]." : "height, width]."));
  check_operands(op, in, w, nn::channel_axis(in, n, op), groups, input, weight, bias);
  const Geometry g = geometry(op, in, w, stride, padding, same, dilation);
  const int64_t out_channels = w[0], inner = w[1] * g.kernel;

  const Tensor c = columns(g.channel ? input : input.unsqueeze(0), g, op);
  Tensor out;
  if (groups == 1) out = weight.reshape({out_channels, inner}).matmul(c.reshape({g.batch, inner, g.places}));
  else out = weight.reshape({groups, out_channels / groups, inner}).matmul(c.reshape({g.batch, groups, inner, g.places}));
  Sizes extents = g.extents;
  extents.insert(extents.begin(), out_channels);
  if (g.channel) extents.insert(extents.begin(), g.batch);
  out = out.reshape(extents);
  if (!bias.defined()) return out;
  Sizes along(n + 1, 1);
  along[0] = out_channels;
  return out.add(bias.reshape(along));
}

}  // namespace

Tensor detail::convolve(const char* op, const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride, const std::string& padding, IntArrayRef dilation, int64_t groups) {
  if (padding != "same" && padding != "valid") throw ValueError(std::string(op) + ": the padding \"" + padding + "\" is not known. Use \"same\", \"valid\" or numbers.");
  return convolution(op, op[4] == '1' ? 1 : 2, input, weight, bias, stride, 0, padding == "same", dilation, groups);
}
Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups) {
  return convolution("conv1d", 1, input, weight, bias, stride, padding, false, dilation, groups);
}
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups) {
  return convolution("conv2d", 2, input, weight, bias, stride, padding, false, dilation, groups);
}
namespace nn::functional {
Tensor conv1d(const Tensor& input, const Tensor& weight, const Conv1dFuncOptions& o) {
  return convolution("conv1d", 1, input, weight, o.bias(), o.stride(), o.padding().amount, o.padding().name == kSame, o.dilation(), o.groups());
}
Tensor conv2d(const Tensor& input, const Tensor& weight, const Conv2dFuncOptions& o) {
  return convolution("conv2d", 2, input, weight, o.bias(), o.stride(), o.padding().amount, o.padding().name == kSame, o.dilation(), o.groups());
}
}  // namespace nn::functional

}  // namespace frit
