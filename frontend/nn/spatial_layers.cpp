// Convolution, pooling and the norms over channels as modules: what they register, how they are initialised (as LibTorch does),
// how they print.
#include "frit/nn/spatial_layers.h"
#include <cmath>
#include <ostream>
#include "frit/nn/init.h"
#include "frontend/detail.h"
#include "runtime/error.h"

namespace frit::nn {

namespace {
const char* text(bool b) { return b ? "true" : "false"; }
std::string text(IntArrayRef v) { return frit::detail::shape_text(v); }
const char* text(PadMode m) { return m == kReflect ? "reflect" : m == kReplicate ? "replicate" : m == kCircular ? "circular" : "zeros"; }

// ---- convolutions -----------------------------------------------------------------------------------------------------
template <class Options> void check_convolution(const char* layer, const Options& o) {
  const int64_t in = o.in_channels(), out = o.out_channels(), groups = o.groups();
  if (in < 1 || out < 1 || groups < 1 || in % groups || out % groups)
    throw ValueError(std::string(layer) + ": " + std::to_string(in) + " in channels, " + std::to_string(out) + " out channels, " + std::to_string(groups) + " groups. The groups must divide both, and all be 1 or more.");
  for (int64_t k : o.kernel_size())
    if (k < 1) throw ValueError(std::string(layer) + ": the kernel size is " + text(o.kernel_size()) + ". Give at least 1 for each axis.");
  if (o.padding().name == kSame)
    for (int64_t s : o.stride())
      if (s != 1) throw ValueError(std::string(layer) + ": padding kSame with stride " + text(o.stride()) + ". It needs a stride of 1; give the padding as numbers.");
}
template <class Options> std::vector<int64_t> weight_shape(const Options& o) {
  std::vector<int64_t> e{o.out_channels(), o.in_channels() / o.groups()};
  e.insert(e.end(), o.kernel_size().begin(), o.kernel_size().end());
  return e;
}
void initialise(Tensor& weight, Tensor& bias) {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const double bound = 1 / std::sqrt(double(std::get<0>(init::_calculate_fan_in_and_fan_out(weight))));
  init::uniform_(bias, -bound, bound);
}
// What the mode puts outside is put there first; the convolution pads no more.
template <size_t D, class Function> Tensor convolve(const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvOptions<D>& o, Function f) {
  functional::ConvFuncOptions<D> options;
  options.bias(bias).stride(o.stride()).dilation(o.dilation()).groups(o.groups());
  if (o.padding_mode() == kZeros) return f(input, weight, options.padding(o.padding()));
  std::vector<int64_t> pad;
  for (size_t i = D; i-- > 0;) {
    int64_t low = o.padding().amount[i], high = low;
    if (o.padding().name == kSame) {
      const int64_t around = o.dilation()[i] * (o.kernel_size()[i] - 1);
      low = around / 2, high = around - low;
    }
    pad.push_back(low), pad.push_back(high);
  }
  return f(functional::pad(input, functional::PadFuncOptions(pad).mode(o.padding_mode())), weight, options);
}
template <size_t D> void print_convolution(std::ostream& stream, const char* name, const ConvOptions<D>& o) {
  stream << "frit::nn::" << name << "(" << o.in_channels() << ", " << o.out_channels() << ", kernel_size=" << text(o.kernel_size()) << ", stride=" << text(o.stride());
  if (o.padding().name) stream << ", padding=" << (o.padding().name == kSame ? "'same'" : "'valid'");
  else if (ExpandingArray<D>(0).vec() != o.padding().amount.vec()) stream << ", padding=" << text(o.padding().amount);
  if (ExpandingArray<D>(1).vec() != o.dilation().vec()) stream << ", dilation=" << text(o.dilation());
  if (o.groups() != 1) stream << ", groups=" << o.groups();
  if (!o.bias()) stream << ", bias=false";
  if (o.padding_mode() != kZeros) stream << ", padding_mode=" << text(o.padding_mode());
  stream << ")";
}
}  // namespace

#define FRIT_CONVOLUTION(Name, function)                                                                              \
  Name##Impl::Name##Impl(Name##Options o) : options(std::move(o)) { Name##Impl::reset(); }                            \
  void Name##Impl::reset() {                                                                                          \
    check_convolution(#Name, options);                                                                                \
    weight = register_parameter("weight", frit::empty(weight_shape(options)));                                              \
    bias = register_parameter("bias", options.bias() ? frit::empty({options.out_channels()}) : Tensor(), options.bias());   \
    reset_parameters();                                                                                               \
  }                                                                                                                   \
  void Name##Impl::reset_parameters() { initialise(weight, bias); }                                                   \
  void Name##Impl::pretty_print(std::ostream& stream) const { print_convolution(stream, #Name, options); }            \
  Tensor Name##Impl::forward(const Tensor& input) {                                                                   \
    return convolve(input, weight, bias, options, [](const Tensor& x, const Tensor& w, const auto& o) { return functional::function(x, w, o); }); \
  }
FRIT_CONVOLUTION(Conv1d, conv1d)
FRIT_CONVOLUTION(Conv2d, conv2d)
#undef FRIT_CONVOLUTION

// ---- pools --------------------------------------------------------------------------------------------------------------
namespace {
template <class Options> void print_pool(std::ostream& stream, const char* name, const Options& o) {
  stream << "frit::nn::" << name << "(kernel_size=" << text(o.kernel_size()) << ", stride=" << text(o.stride()) << ", padding=" << text(o.padding());
  if constexpr (requires { o.dilation(); }) stream << ", dilation=" << text(o.dilation());
  stream << ", ceil_mode=" << text(o.ceil_mode());
  if constexpr (requires { o.count_include_pad(); }) stream << ", count_include_pad=" << text(o.count_include_pad());
  stream << ")";
}
template <class Size> void print_adaptive(std::ostream& stream, const char* name, const Size& size) {
  stream << "frit::nn::" << name << "(output_size=[";
  for (size_t i = 0; i < size.size(); ++i) {
    stream << (i ? ", " : "");
    if (size[i]) stream << *size[i];
    else stream << "none";
  }
  stream << "])";
}
}  // namespace
void MaxPool1dImpl::pretty_print(std::ostream& stream) const { print_pool(stream, "MaxPool1d", options); }
void MaxPool2dImpl::pretty_print(std::ostream& stream) const { print_pool(stream, "MaxPool2d", options); }
void AvgPool1dImpl::pretty_print(std::ostream& stream) const { print_pool(stream, "AvgPool1d", options); }
void AvgPool2dImpl::pretty_print(std::ostream& stream) const { print_pool(stream, "AvgPool2d", options); }
void AdaptiveAvgPool1dImpl::pretty_print(std::ostream& stream) const { print_adaptive(stream, "AdaptiveAvgPool1d", options.output_size()); }
void AdaptiveAvgPool2dImpl::pretty_print(std::ostream& stream) const { print_adaptive(stream, "AdaptiveAvgPool2d", options.output_size()); }

// ---- norms --------------------------------------------------------------------------------------------------------------
BatchNorm2dImpl::BatchNorm2dImpl(BatchNorm2dOptions o) : options(std::move(o)) { BatchNorm2dImpl::reset(); }
void BatchNorm2dImpl::reset() {
  const int64_t n = options.num_features();
  if (n < 0) throw ValueError("BatchNorm2d: " + std::to_string(n) + " features. Give 0 or more.");
  const bool affine = options.affine(), track = options.track_running_stats();
  weight = register_parameter("weight", affine ? frit::empty({n}) : Tensor(), affine);
  bias = register_parameter("bias", affine ? frit::empty({n}) : Tensor(), affine);
  running_mean = register_buffer("running_mean", track ? frit::empty({n}) : Tensor());
  running_var = register_buffer("running_var", track ? frit::empty({n}) : Tensor());
  num_batches_tracked = register_buffer("num_batches_tracked", track ? zeros({}, kInt64) : Tensor());
  reset_parameters();
}
void BatchNorm2dImpl::reset_running_stats() {
  if (!options.track_running_stats()) return;
  init::zeros_(running_mean);
  init::ones_(running_var);
  init::zeros_(num_batches_tracked);
}
void BatchNorm2dImpl::reset_parameters() {
  reset_running_stats();
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}
Tensor BatchNorm2dImpl::forward(const Tensor& input) {
  if (input.dim() != 4)
    throw ShapeError("BatchNorm2d: the input has shape " + text(input.sizes()) + ". Give one of [batch, features, height, width].");
  const bool track = options.track_running_stats();
  double momentum = options.momentum().value_or(0);
  if (is_training() && track) {
    NoGradGuard no_grad;
    num_batches_tracked.add_(Scalar(1));
    if (!options.momentum()) momentum = 1 / num_batches_tracked.item<double>();
  }
  return frit::batch_norm(input, weight, bias, running_mean, running_var, is_training() || !track, momentum, options.eps());
}
void BatchNorm2dImpl::pretty_print(std::ostream& stream) const {
  stream << "frit::nn::BatchNorm2d(" << options.num_features() << ", eps=" << options.eps() << ", momentum=";
  if (options.momentum()) stream << *options.momentum();
  else stream << "none";
  stream << ", affine=" << text(options.affine()) << ", track_running_stats=" << text(options.track_running_stats()) << ")";
}

GroupNormImpl::GroupNormImpl(const GroupNormOptions& o) : options(o) { GroupNormImpl::reset(); }
void GroupNormImpl::reset() {
  const int64_t groups = options.num_groups(), channels = options.num_channels();
  if (groups < 1 || channels < 0 || channels % groups)
    throw ValueError("GroupNorm: " + std::to_string(groups) + " groups do not divide " + std::to_string(channels) + " channels. Choose groups that do.");
  const bool affine = options.affine();
  weight = register_parameter("weight", affine ? frit::empty({channels}) : Tensor(), affine);
  bias = register_parameter("bias", affine ? frit::empty({channels}) : Tensor(), affine);
  reset_parameters();
}
void GroupNormImpl::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}
void GroupNormImpl::pretty_print(std::ostream& stream) const {
  stream << "frit::nn::GroupNorm(" << options.num_groups() << ", " << options.num_channels() << ", eps=" << options.eps() << ", affine=" << text(options.affine()) << ")";
}

}  // namespace frit::nn
