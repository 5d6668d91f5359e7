// Convolution, pooling and the norms over channels as modules: nn::Conv2d is a holder of nn::Conv2dImpl, and so on.
#pragma once
#include "frit/nn/layers.h"
#include "frit/nn/norms.h"
#include "frit/nn/spatial.h"

namespace frit::nn {

FRIT_CONVOLUTION_LAYER(Conv1d, 1)
FRIT_CONVOLUTION_LAYER(Conv2d, 2)

#define FRIT_POOL(Name, function, D)                                                                    \
  class Name##Impl : public Cloneable<Name##Impl> {                                                     \
   public:                                                                                              \
    Name##Impl(ExpandingArray<D> kernel_size) : Name##Impl(Name##Options(kernel_size)) {}               \
    explicit Name##Impl(const Name##Options& o) : options(o) {}                                         \
    void reset() override {}                                                                            \
    void pretty_print(std::ostream& stream) const override;                                             \
    Tensor forward(const Tensor& input) { return functional::function(input, options); }                \
    Name##Options options;                                                                              \
  };                                                                                                    \
  FRIT_MODULE(Name);
FRIT_POOL(MaxPool1d, max_pool1d, 1)
FRIT_POOL(MaxPool2d, max_pool2d, 2)
FRIT_POOL(AvgPool1d, avg_pool1d, 1)
FRIT_POOL(AvgPool2d, avg_pool2d, 2)
#undef FRIT_POOL
FRIT_OPTIONS_LAYER(AdaptiveAvgPool1d, adaptive_avg_pool1d)
FRIT_OPTIONS_LAYER(AdaptiveAvgPool2d, adaptive_avg_pool2d)

class BatchNorm2dImpl : public Cloneable<BatchNorm2dImpl> {
 public:
  BatchNorm2dImpl(int64_t num_features) : BatchNorm2dImpl(BatchNorm2dOptions(num_features)) {}
  explicit BatchNorm2dImpl(BatchNorm2dOptions options);
  void reset() override;
  void reset_parameters();
  void reset_running_stats();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);  // [batch, features, height, width]

  BatchNorm2dOptions options;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;
};
FRIT_MODULE(BatchNorm2d);

class GroupNormImpl : public Cloneable<GroupNormImpl> {
 public:
  GroupNormImpl(int64_t num_groups, int64_t num_channels) : GroupNormImpl(GroupNormOptions(num_groups, num_channels)) {}
  explicit GroupNormImpl(const GroupNormOptions& options);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return frit::group_norm(input, options.num_groups(), weight, bias, options.eps()); }

  GroupNormOptions options;
  Tensor weight, bias;
};
FRIT_MODULE(GroupNorm);

}  // namespace frit::nn
