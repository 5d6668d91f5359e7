// Padding, convolution and pooling: options, functions. Inputs are [batch, channels, spatial axes...] or, without a batch,
// [channels, spatial axes...]. Errors name the function, the shapes and the remedy.
#pragma once
#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <tuple>
#include <vector>
#include "frit/nn/options.h"

namespace frit {

// What stands outside an input: the constant, or the input itself mirrored, continued, or repeated from its other end.
enum class PadMode : uint8_t { constant, reflect, replicate, circular };
inline constexpr PadMode kConstant = PadMode::constant, kZeros = PadMode::constant, kReflect = PadMode::reflect,
                         kReplicate = PadMode::replicate, kCircular = PadMode::circular;
// Padding of a convolution by its effect: the output as large as the input, or no padding.
enum class PaddingName : uint8_t { valid, same };
inline constexpr PaddingName kValid = PaddingName::valid, kSame = PaddingName::same;

namespace nn {
[[noreturn]] void throw_wrong_count(size_t given, size_t wanted);
// One number for each of D axes; a single one stands for all.
template <size_t D, class T = int64_t> class ExpandingArray {
 public:
  ExpandingArray(std::initializer_list<T> list) : ExpandingArray(std::vector<T>(list)) {}
  ExpandingArray(const std::vector<T>& list) {
    if (list.size() == 1) values_.fill(list[0]);
    else if (list.size() != D) throw_wrong_count(list.size(), D);
    else std::copy(list.begin(), list.end(), values_.begin());
  }
  ExpandingArray(const std::array<T, D>& values) : values_(values) {}
  template <std::convertible_to<T> One> ExpandingArray(One one) { values_.fill(T(one)); }
  operator IntArrayRef() const requires std::same_as<T, int64_t> { return {values_.data(), D}; }
  const T& operator[](size_t i) const { return values_[i]; }
  T& operator[](size_t i) { return values_[i]; }
  const T* begin() const { return values_.data(); }
  const T* end() const { return values_.data() + D; }
  static constexpr size_t size() { return D; }
  std::vector<T> vec() const { return {begin(), end()}; }

 private:
  std::array<T, D> values_;
};

// Amounts, or kSame or kValid.
template <size_t D> struct ConvPadding {
  ConvPadding(std::initializer_list<int64_t> list) : amount(list) {}
  ConvPadding(const std::vector<int64_t>& list) : amount(list) {}
  ConvPadding(const ExpandingArray<D>& amounts) : amount(amounts) {}
  template <std::integral One> ConvPadding(One one) : amount(int64_t(one)) {}
  ConvPadding(PaddingName name) : amount(0), name(name) {}
  ExpandingArray<D> amount;
  std::optional<PaddingName> name;
};

// ---- options of the layers
template <size_t D> struct ConvOptions {
  ConvOptions(int64_t in_channels, int64_t out_channels, ExpandingArray<D> kernel_size)
      : in_channels_(in_channels), out_channels_(out_channels), kernel_size_(kernel_size) {}
  FRIT_ARG(int64_t, in_channels);
  FRIT_ARG(int64_t, out_channels);
  FRIT_ARG(ExpandingArray<D>, kernel_size);
  FRIT_ARG(ExpandingArray<D>, stride) = 1;
  FRIT_ARG(ConvPadding<D>, padding) = 0;
  FRIT_ARG(ExpandingArray<D>, dilation) = 1;
  FRIT_ARG(int64_t, groups) = 1;
  FRIT_ARG(bool, bias) = true;
  FRIT_ARG(PadMode, padding_mode) = kZeros;
};
using Conv1dOptions = ConvOptions<1>;
using Conv2dOptions = ConvOptions<2>;
// The stride is the kernel's size unless given.
template <size_t D> struct MaxPoolOptions {
  MaxPoolOptions(ExpandingArray<D> kernel_size) : kernel_size_(kernel_size), stride_(kernel_size) {}
  FRIT_ARG(ExpandingArray<D>, kernel_size);
  FRIT_ARG(ExpandingArray<D>, stride);
  FRIT_ARG(ExpandingArray<D>, padding) = 0;
  FRIT_ARG(ExpandingArray<D>, dilation) = 1;
  FRIT_ARG(bool, ceil_mode) = false;
};
using MaxPool1dOptions = MaxPoolOptions<1>;
using MaxPool2dOptions = MaxPoolOptions<2>;
template <size_t D> struct AvgPoolOptions {
  AvgPoolOptions(ExpandingArray<D> kernel_size) : kernel_size_(kernel_size), stride_(kernel_size) {}
  FRIT_ARG(ExpandingArray<D>, kernel_size);
  FRIT_ARG(ExpandingArray<D>, stride);
  FRIT_ARG(ExpandingArray<D>, padding) = 0;
  FRIT_ARG(bool, ceil_mode) = false;
  FRIT_ARG(bool, count_include_pad) = true;
  FRIT_ARG(std::optional<int64_t>, divisor_override) = std::nullopt;
};
using AvgPool1dOptions = AvgPoolOptions<1>;
using AvgPool2dOptions = AvgPoolOptions<2>;
// An absent extent is the input's.
template <size_t D> struct AdaptiveAvgPoolOptions {
  AdaptiveAvgPoolOptions(ExpandingArray<D, std::optional<int64_t>> output_size) : output_size_(output_size) {}
  AdaptiveAvgPoolOptions(std::initializer_list<std::optional<int64_t>> output_size) : output_size_(output_size) {}
  template <std::convertible_to<int64_t> One> AdaptiveAvgPoolOptions(One one) : output_size_(std::optional<int64_t>(int64_t(one))) {}
  using Output = ExpandingArray<D, std::optional<int64_t>>;
  FRIT_ARG(Output, output_size);
};
using AdaptiveAvgPool1dOptions = AdaptiveAvgPoolOptions<1>;
using AdaptiveAvgPool2dOptions = AdaptiveAvgPoolOptions<2>;

namespace functional {
template <size_t D> struct ConvFuncOptions {
  FRIT_ARG(Tensor, bias);
  FRIT_ARG(ExpandingArray<D>, stride) = 1;
  FRIT_ARG(ConvPadding<D>, padding) = 0;
  FRIT_ARG(ExpandingArray<D>, dilation) = 1;
  FRIT_ARG(int64_t, groups) = 1;
};
using Conv1dFuncOptions = ConvFuncOptions<1>;
using Conv2dFuncOptions = ConvFuncOptions<2>;
using MaxPool1dFuncOptions = MaxPool1dOptions;
using MaxPool2dFuncOptions = MaxPool2dOptions;
using AvgPool1dFuncOptions = AvgPool1dOptions;
using AvgPool2dFuncOptions = AvgPool2dOptions;
using AdaptiveAvgPool1dFuncOptions = AdaptiveAvgPool1dOptions;
using AdaptiveAvgPool2dFuncOptions = AdaptiveAvgPool2dOptions;
struct PadFuncOptions {
  PadFuncOptions(std::vector<int64_t> pad) : pad_(std::move(pad)) {}
  FRIT_ARG(std::vector<int64_t>, pad);  // before and after the last axis, then the one before it, ...; negative: cut away
  FRIT_ARG(PadMode, mode) = kConstant;
  FRIT_ARG(double, value) = 0;
};
}  // namespace functional
}  // namespace nn

// ---- ATen's names
Tensor constant_pad_nd(const Tensor& input, IntArrayRef pad, const Scalar& value = 0);
Tensor pad(const Tensor& input, IntArrayRef pad, const std::string& mode = "constant", std::optional<double> value = std::nullopt);

// weight: [out channels, in channels / groups, kernel...]; bias: [out channels].
Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, IntArrayRef stride = 1, IntArrayRef padding = 0, IntArrayRef dilation = 1, int64_t groups = 1);
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, IntArrayRef stride = 1, IntArrayRef padding = 0, IntArrayRef dilation = 1, int64_t groups = 1);
namespace detail {
Tensor convolve(const char* op, const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride, const std::string& padding, IntArrayRef dilation, int64_t groups);
// A template, so that the number 0 is not taken for a null text.
template <class T> concept Text = std::convertible_to<T, std::string> && !std::is_arithmetic_v<T>;
}  // namespace detail
// padding: "same" (of a stride of 1) or "valid".
template <detail::Text T> Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride, const T& padding, IntArrayRef dilation = 1, int64_t groups = 1) {
  return detail::convolve("conv1d", input, weight, bias, stride, padding, dilation, groups);
}
template <detail::Text T> Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride, const T& padding, IntArrayRef dilation = 1, int64_t groups = 1) {
  return detail::convolve("conv2d", input, weight, bias, stride, padding, dilation, groups);
}

// An empty stride is the kernel's size. Padding stands for values below all others, at most half a kernel wide. The gradient goes
// to the first greatest element of a window.
Tensor max_pool1d(const Tensor& input, IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0, IntArrayRef dilation = 1, bool ceil_mode = false);
Tensor max_pool2d(const Tensor& input, IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0, IntArrayRef dilation = 1, bool ceil_mode = false);
// And where each element stood among those of its channel, row-major.
std::tuple<Tensor, Tensor> max_pool1d_with_indices(const Tensor& input, IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0, IntArrayRef dilation = 1, bool ceil_mode = false);
std::tuple<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input, IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0, IntArrayRef dilation = 1, bool ceil_mode = false);
Tensor avg_pool1d(const Tensor& input, IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0, bool ceil_mode = false, bool count_include_pad = true);
Tensor avg_pool2d(const Tensor& input, IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0, bool ceil_mode = false, bool count_include_pad = true, std::optional<int64_t> divisor_override = std::nullopt);
// Means over output_size parts of each axis, as equal as can be.
Tensor adaptive_avg_pool1d(const Tensor& input, IntArrayRef output_size);
Tensor adaptive_avg_pool2d(const Tensor& input, IntArrayRef output_size);

namespace nn::functional {
Tensor pad(const Tensor& input, const PadFuncOptions& options);
Tensor conv1d(const Tensor& input, const Tensor& weight, const Conv1dFuncOptions& options = {});
Tensor conv2d(const Tensor& input, const Tensor& weight, const Conv2dFuncOptions& options = {});
inline Tensor max_pool1d(const Tensor& input, const MaxPool1dFuncOptions& o) { return frit::max_pool1d(input, o.kernel_size(), o.stride(), o.padding(), o.dilation(), o.ceil_mode()); }
inline Tensor max_pool2d(const Tensor& input, const MaxPool2dFuncOptions& o) { return frit::max_pool2d(input, o.kernel_size(), o.stride(), o.padding(), o.dilation(), o.ceil_mode()); }
inline std::tuple<Tensor, Tensor> max_pool1d_with_indices(const Tensor& input, const MaxPool1dFuncOptions& o) {
  return frit::max_pool1d_with_indices(input, o.kernel_size(), o.stride(), o.padding(), o.dilation(), o.ceil_mode());
}
inline std::tuple<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input, const MaxPool2dFuncOptions& o) {
  return frit::max_pool2d_with_indices(input, o.kernel_size(), o.stride(), o.padding(), o.dilation(), o.ceil_mode());
}
inline Tensor avg_pool1d(const Tensor& input, const AvgPool1dFuncOptions& o) { return frit::avg_pool1d(input, o.kernel_size(), o.stride(), o.padding(), o.ceil_mode(), o.count_include_pad()); }
inline Tensor avg_pool2d(const Tensor& input, const AvgPool2dFuncOptions& o) {
  return frit::avg_pool2d(input, o.kernel_size(), o.stride(), o.padding(), o.ceil_mode(), o.count_include_pad(), o.divisor_override());
}
Tensor adaptive_avg_pool1d(const Tensor& input, const AdaptiveAvgPool1dFuncOptions& options);
Tensor adaptive_avg_pool2d(const Tensor& input, const AdaptiveAvgPool2dFuncOptions& options);
}  // namespace nn::functional

}  // namespace frit
