// Convolution: the checks, and one op (tracer/convolution.h says what it sums). Start at convolution.
#include "frontend/nn/windows.h"
#include "runtime/error.h"

namespace frit {

using detail::shape_text;
using detail::Sizes;

namespace {

struct Geometry {
  std::vector<tracer::WindowAxis> axes;
  size_t channel;  // axis of the input
};

void check_operands(const char* op, const Sizes& in, const Sizes& w, size_t channel, int64_t groups, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (groups < 1) throw ValueError(std::string(op) + ": groups is " + std::to_string(groups) + ". Give at least 1.");
  if (w[0] % groups) throw ShapeError(std::string(op) + ": the weight of shape " + shape_text(w) + " makes " + std::to_string(w[0]) + " channels, which " + std::to_string(groups) + " groups do not divide. Choose groups that do.");
  if (in[channel] != w[1] * groups)
    throw ShapeError(std::string(op) + ": the input of shape " + shape_text(in) + " has " + std::to_string(in[channel]) + " channels, the weight of shape " + shape_text(w) + " with " + std::to_string(groups) +
                     " groups takes " + std::to_string(w[1] * groups) + ". Change the input's channels or the weight.");
  nn::check_parameter(bias, op, "bias", {w[0]});
  nn::check_types(input, weight, bias, op);
}

Geometry geometry(const char* op, const Sizes& in, const Sizes& w, IntArrayRef stride, IntArrayRef padding, bool same, IntArrayRef dilation) {
  const size_t n = w.size() - 2;
  Geometry g;
  g.channel = nn::channel_axis(in, n, op);
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
    g.axes.push_back({v.stride, v.dilation, v.low, v.high});
  }
  return g;
}

Tensor convolution(const char* op, size_t n, const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride, IntArrayRef padding, bool same, IntArrayRef dilation, int64_t groups) {
  const Sizes in = nn::shape_of(input, op), w = nn::shape_of(weight, op);
  if (w.size() != n + 2) throw ShapeError(std::string(op) + ": the weight has shape " + shape_text(w) + ". Give one of [out channels, in channels / groups, " + (n == 1 ? "length]." : "height, width]."));
  check_operands(op, in, w, nn::channel_axis(in, n, op), groups, input, weight, bias);
  const Geometry g = geometry(op, in, w, stride, padding, same, dilation);
  Tensor out(tracer::convolution(g.channel ? input : input.unsqueeze(0), weight, g.axes, groups));
  if (!g.channel) out = out.squeeze(0);
  if (!bias.defined()) return out;
  Sizes along(n + 1, 1);
  along[0] = w[0];
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
