// Transposed convolution is the gradient of a convolution's input. Interpolation picks, or mixes,
// elements along one axis after the other. Both are made of ops that have their gradients. Start at transposed and interpolate.
#include "frit/nn/resampling.h"
#include <algorithm>
#include <cmath>
#include <ostream>
#include "frit/nn/functional.h"
#include "frit/nn/init.h"
#include "frontend/nn/windows.h"
#include "runtime/error.h"

namespace frit {

using detail::shape_text;
using detail::Sizes;

namespace {
std::string text(IntArrayRef v) { return shape_text(v); }

Tensor transposed(const char* op, size_t n, const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride, IntArrayRef padding, IntArrayRef output_padding, int64_t groups, IntArrayRef dilation) {
  const Sizes in = nn::shape_of(input, op), w = nn::shape_of(weight, op);
  if (w.size() != n + 2) throw ShapeError(std::string(op) + ": the weight has shape " + text(w) + ". Give one of [in channels, out channels / groups, " + (n == 1 ? "length]." : "height, width]."));
  const size_t channel = nn::channel_axis(in, n, op);
  if (groups < 1 || w[0] % groups) throw ValueError(std::string(op) + ": " + std::to_string(groups) + " groups do not divide the " + std::to_string(w[0]) + " channels of the weight of shape " + text(w) + ". Choose groups that do.");
  if (in[channel] != w[0])
    throw ShapeError(std::string(op) + ": the input of shape " + text(in) + " has " + std::to_string(in[channel]) + " channels, the weight of shape " + text(w) + " takes " + std::to_string(w[0]) + ". Change the input's channels or the weight.");
  nn::check_parameter(bias, op, "bias", {w[1] * groups});
  nn::check_types(input, weight, bias, op);
  const Sizes step = nn::per_axis(stride, n, 1, op, "stride"), around = nn::per_axis(padding, n, 0, op, "padding"), extra = nn::per_axis(output_padding, n, 0, op, "output padding"),
              apart = nn::per_axis(dilation, n, 1, op, "dilation");
  std::vector<tracer::WindowAxis> axes;
  Sizes extents;
  for (size_t i = 0; i < n; ++i) {
    const size_t axis = 2 + i;
    if (extra[i] >= std::max(step[i], apart[i]))
      throw ValueError(std::string(op) + ": the output padding " + text(extra) + " is not below the stride " + text(step) + " or the dilation " + text(apart) + ". Give less.");
    const int64_t reach = apart[i] * (w[axis] - 1), wide = (in[channel + 1 + i] - 1) * step[i] + 1;
    extents.push_back(wide + reach - 2 * around[i] + extra[i]);
    if (w[axis] < 1 || extents.back() < 1)
      throw ShapeError(std::string(op) + ": padding of " + text(around) + " leaves nothing of an input of shape " + text(in) + " under a weight of shape " + text(w) + ". Pad less.");
    axes.push_back({step[i], apart[i], around[i], around[i] - extra[i]});
  }
  Tensor out(tracer::convolution_input(channel ? input : input.unsqueeze(0), weight, axes, groups, extents));
  if (!channel) out = out.squeeze(0);
  if (!bias.defined()) return out;
  Sizes along(n + 1, 1);
  along[0] = w[1] * groups;
  return out.add(bias.reshape(along));
}

// ---- interpolation -----------------------------------------------------------------------------------------------------------
struct Sampling {
  double scale;        // of the source's places by the result's
  bool aligned;
};
Tensor pick_nearest(const Tensor& x, int axis, int64_t out, const Sampling& s) {
  const int64_t n = x.size(axis);
  std::vector<int64_t> at(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) at[size_t(i)] = std::min<int64_t>(int64_t(float(i) * float(s.scale)), n - 1);
  return x.index_select(axis, tensor(at, kInt64));
}
Tensor mix_linear(const Tensor& x, int axis, int64_t out, const Sampling& s) {
  const int64_t n = x.size(axis);
  std::vector<int64_t> low(static_cast<size_t>(out)), high(low);
  std::vector<double> weight(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const double at = s.aligned ? double(i) * s.scale : std::max(0.0, (double(i) + 0.5) * s.scale - 0.5);
    const int64_t first = std::min<int64_t>(int64_t(at), n - 1);
    low[size_t(i)] = first, high[size_t(i)] = std::min(first + 1, n - 1), weight[size_t(i)] = std::min(1.0, at - double(first));
  }
  Sizes along(size_t(x.dim()), 1);
  along[size_t(axis)] = out;
  const Tensor w = tensor(weight, kFloat64).to(x.dtype()).view(along);
  return x.index_select(axis, tensor(low, kInt64)) * (Scalar(1.0) - w) + x.index_select(axis, tensor(high, kInt64)) * w;
}
}  // namespace

Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride, IntArrayRef padding, IntArrayRef output_padding, int64_t groups, IntArrayRef dilation) {
  return transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation);
}
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride, IntArrayRef padding, IntArrayRef output_padding, int64_t groups, IntArrayRef dilation) {
  return transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation);
}
Tensor im2col(const Tensor& input, IntArrayRef kernel_size, IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride) {
  const Sizes in = nn::shape_of(input, "unfold"), kernel = nn::per_axis(kernel_size, 2, 1, "unfold", "kernel size"), apart = nn::per_axis(dilation, 2, 1, "unfold", "dilation"),
              around = nn::per_axis(padding, 2, 0, "unfold", "padding"), step = nn::per_axis(stride, 2, 1, "unfold", "stride");
  const size_t channel = nn::channel_axis(in, 2, "unfold");
  Tensor x = channel ? input : input.unsqueeze(0);
  nn::Window w[2];
  for (size_t i = 0; i < 2; ++i) {
    w[i] = {kernel[i], step[i], around[i], around[i], apart[i], 0};
    const int64_t room = in[channel + 1 + i] + 2 * around[i] - w[i].span();
    if (room < 0) throw ShapeError("unfold: the kernel of shape " + text(kernel) + " does not fit the input of shape " + text(in) + " padded by " + text(around) + ". Give a larger input, more padding or a smaller kernel.");
    w[i].count = room / step[i] + 1;
    x = nn::padded(x, int64_t(2 + i), around[i], around[i], kZeros, 0, "unfold");
  }
  TensorList parts;
  for (int64_t a = 0; a < kernel[0]; ++a)
    for (int64_t b = 0; b < kernel[1]; ++b) parts.push_back(nn::window_slice(nn::window_slice(x, 2, w[0], a), 3, w[1], b));
  const Tensor columns = stack(parts, 2).reshape({x.size(0), x.size(1) * kernel[0] * kernel[1], w[0].count * w[1].count});
  return channel ? columns : columns.squeeze(0);
}

namespace nn {
namespace functional {
Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& o) {
  const Sizes in = shape_of(input, "interpolate");
  if (in.size() != 3 && in.size() != 4) throw ShapeError("interpolate: the input has shape " + text(in) + ". Give one of [batch, channels, length] or [batch, channels, height, width].");
  const size_t n = in.size() - 2;
  if (o.mode() == InterpolateMode::linear && n != 1) throw ValueError("interpolate: mode kLinear takes one spatial axis, the input of shape " + text(in) + " has two. Use kBilinear.");
  if (o.mode() == kBilinear && n != 2) throw ValueError("interpolate: mode kBilinear takes two spatial axes, the input of shape " + text(in) + " has one. Use kLinear.");
  if (o.size().has_value() == o.scale_factor().has_value()) throw ValueError("interpolate: one of size and scale_factor is needed. Give one of them.");
  if (o.mode() == kNearest && o.align_corners()) throw ValueError("interpolate: align_corners has no meaning for kNearest. Leave it out.");
  check_floating(input, "interpolate");
  if (is_half(input.dtype()) && o.mode() != kNearest) return interpolate(input.to(kFloat32), o).to(input.dtype());  // rounded once
  const size_t given = o.size() ? o.size()->size() : o.scale_factor()->size();
  if (given != 1 && given != n) throw ValueError("interpolate: " + std::to_string(given) + " numbers are given for " + std::to_string(n) + " spatial axes. Give one, or one for each axis.");
  Tensor x = input;
  for (size_t i = 0; i < n; ++i) {
    const int axis = int(2 + i);
    const int64_t from = in[size_t(axis)];
    const double factor = o.size() ? 0 : (*o.scale_factor())[given == 1 ? 0 : i];
    const int64_t out = o.size() ? (*o.size())[given == 1 ? 0 : i] : int64_t(std::floor(double(from) * factor));
    if (from < 1 || out < 1) throw ShapeError("interpolate: axis " + std::to_string(axis) + " of the input's shape " + text(in) + " cannot become " + std::to_string(out) + ". Give a size of 1 or more.");
    const bool aligned = o.align_corners().value_or(false), by_factor = !o.size() && !o.recompute_scale_factor().value_or(false);
    Sampling s{by_factor ? 1 / factor : double(from) / double(out), aligned};
    if (aligned) s.scale = out > 1 ? double(from - 1) / double(out - 1) : 0;
    x = o.mode() == kNearest ? pick_nearest(x, axis, out, s) : mix_linear(x, axis, out, s);
  }
  return x;
}
}  // namespace functional

namespace {
template <class Options> std::vector<int64_t> weight_shape(const char* layer, const Options& o) {
  const int64_t in = o.in_channels(), out = o.out_channels(), groups = o.groups();
  if (in < 1 || out < 1 || groups < 1 || in % groups || out % groups)
    throw ValueError(std::string(layer) + ": " + std::to_string(in) + " in channels, " + std::to_string(out) + " out channels, " + std::to_string(groups) + " groups. The groups must divide both, and all be 1 or more.");
  std::vector<int64_t> e{in, out / groups};
  e.insert(e.end(), o.kernel_size().begin(), o.kernel_size().end());
  return e;
}
template <class Options> void print_transposed(std::ostream& stream, const char* name, const Options& o) {
  stream << "frit::nn::" << name << "(" << o.in_channels() << ", " << o.out_channels() << ", kernel_size=" << text(o.kernel_size()) << ", stride=" << text(o.stride()) << ", padding=" << text(o.padding())
         << ", output_padding=" << text(o.output_padding()) << ", dilation=" << text(o.dilation()) << ", groups=" << o.groups() << ", bias=" << (o.bias() ? "true" : "false") << ")";
}
}  // namespace
#define FRIT_CONVOLUTION(Name, function)                                                                              \
  Name##Impl::Name##Impl(Name##Options o) : options(std::move(o)) { Name##Impl::reset(); }                            \
  void Name##Impl::reset() {                                                                                          \
    weight = register_parameter("weight", frit::empty(weight_shape(#Name, options)));                                 \
    bias = register_parameter("bias", options.bias() ? frit::empty({options.out_channels()}) : Tensor(), options.bias()); \
    reset_parameters();                                                                                               \
  }                                                                                                                   \
  void Name##Impl::reset_parameters() {                                                                               \
    init::kaiming_uniform_(weight, std::sqrt(5.0));                                                                   \
    if (!bias.defined()) return;                                                                                      \
    const double bound = 1 / std::sqrt(double(std::get<0>(init::_calculate_fan_in_and_fan_out(weight))));             \
    init::uniform_(bias, -bound, bound);                                                                              \
  }                                                                                                                   \
  void Name##Impl::pretty_print(std::ostream& stream) const { print_transposed(stream, #Name, options); }                        \
  Tensor Name##Impl::forward(const Tensor& input) {                                                                   \
    return function(input, weight, bias, options.stride(), options.padding(), options.output_padding(), options.groups(), options.dilation()); \
  }
FRIT_CONVOLUTION(ConvTranspose1d, conv_transpose1d)
FRIT_CONVOLUTION(ConvTranspose2d, conv_transpose2d)
#undef FRIT_CONVOLUTION

void UpsampleImpl::pretty_print(std::ostream& stream) const {
  stream << "frit::nn::Upsample(";
  if (options.size()) stream << "size=" << text(*options.size());
  else if (options.scale_factor())
    for (size_t i = 0; i < options.scale_factor()->size(); ++i) stream << (i ? " " : "scale_factor=") << (*options.scale_factor())[i];
  stream << ", mode=" << (options.mode() == kNearest ? "nearest" : options.mode() == kBilinear ? "bilinear" : "linear") << ")";
}

}  // namespace nn
}  // namespace frit
