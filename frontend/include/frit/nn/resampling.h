// Layers that change the resolution: transposed convolution, interpolation, windows as columns. Inputs are [batch, channels, spatial axes...]; a
// transposed convolution takes one without a batch too. Errors name the function, the shapes and the remedy.
#pragma once
#include "frit/nn/layers.h"
#include "frit/nn/spatial.h"

namespace frit {

// kLinear, which is a nonlinearity's name too, stands for the mode of one axis.
class InterpolateMode {
 public:
  enum Kind : uint8_t { nearest, linear, bilinear };
  constexpr InterpolateMode(Kind kind) : kind_(kind) {}
  constexpr InterpolateMode(Nonlinearity name);  // ValueError unless kLinear
  constexpr operator Kind() const { return kind_; }

 private:
  Kind kind_;
};
inline constexpr InterpolateMode::Kind kNearest = InterpolateMode::nearest, kBilinear = InterpolateMode::bilinear;
constexpr InterpolateMode::InterpolateMode(Nonlinearity name)
    : kind_(name == kLinear ? linear : throw ValueError("interpolate: the mode is no name of a mode. Use kNearest, kLinear or kBilinear.")) {}

// The transpose of a convolution with this weight, of [in channels, out channels / groups, kernel...].
Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, IntArrayRef stride = 1, IntArrayRef padding = 0, IntArrayRef output_padding = 0, int64_t groups = 1, IntArrayRef dilation = 1);
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, IntArrayRef stride = 1, IntArrayRef padding = 0, IntArrayRef output_padding = 0, int64_t groups = 1, IntArrayRef dilation = 1);
// The windows of [batch, channels, height, width] as columns: [batch, channels * kernel's elements, windows].
Tensor im2col(const Tensor& input, IntArrayRef kernel_size, IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride);

namespace nn {

template <size_t D> struct ConvTransposeOptions {
  ConvTransposeOptions(int64_t in_channels, int64_t out_channels, ExpandingArray<D> kernel_size)
      : in_channels_(in_channels), out_channels_(out_channels), kernel_size_(std::move(kernel_size)) {}
  FRIT_ARG(int64_t, in_channels);
  FRIT_ARG(int64_t, out_channels);
  FRIT_ARG(ExpandingArray<D>, kernel_size);
  FRIT_ARG(ExpandingArray<D>, stride) = 1;
  FRIT_ARG(ExpandingArray<D>, padding) = 0;
  FRIT_ARG(ExpandingArray<D>, output_padding) = 0;
  FRIT_ARG(int64_t, groups) = 1;
  FRIT_ARG(bool, bias) = true;
  FRIT_ARG(ExpandingArray<D>, dilation) = 1;
};
using ConvTranspose1dOptions = ConvTransposeOptions<1>;
using ConvTranspose2dOptions = ConvTransposeOptions<2>;

struct InterpolateOptions {
  FRIT_ARG(std::optional<std::vector<int64_t>>, size) = std::nullopt;            // one of size and scale_factor
  FRIT_ARG(std::optional<std::vector<double>>, scale_factor) = std::nullopt;
  FRIT_ARG(InterpolateMode, mode) = InterpolateMode(kNearest);
  FRIT_ARG(std::optional<bool>, align_corners) = std::nullopt;
  FRIT_ARG(std::optional<bool>, recompute_scale_factor) = std::nullopt;
};
using UpsampleOptions = InterpolateOptions;

struct UnfoldOptions {
  UnfoldOptions(ExpandingArray<2> kernel_size) : kernel_size_(std::move(kernel_size)) {}
  FRIT_ARG(ExpandingArray<2>, kernel_size);
  FRIT_ARG(ExpandingArray<2>, dilation) = 1;
  FRIT_ARG(ExpandingArray<2>, padding) = 0;
  FRIT_ARG(ExpandingArray<2>, stride) = 1;
};

namespace functional {
using InterpolateFuncOptions = InterpolateOptions;
using UnfoldFuncOptions = UnfoldOptions;
// Of one or two spatial axes.
Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& options = {});
inline Tensor unfold(const Tensor& input, const UnfoldFuncOptions& o) { return im2col(input, o.kernel_size(), o.dilation(), o.padding(), o.stride()); }
}  // namespace functional

FRIT_CONVOLUTION_LAYER(ConvTranspose1d, 1)
FRIT_CONVOLUTION_LAYER(ConvTranspose2d, 2)

class UpsampleImpl : public Cloneable<UpsampleImpl> {
 public:
  explicit UpsampleImpl(UpsampleOptions options = {}) : options(std::move(options)) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return functional::interpolate(input, options); }
  UpsampleOptions options;
};
FRIT_MODULE(Upsample);

}  // namespace nn
}  // namespace frit
