// The norms over groups of channels; those over last axes and over batches are in functional.h.
#pragma once
#include "frit/nn/functional.h"

namespace frit {

namespace nn {
using BatchNorm2dOptions = BatchNormOptions;
struct GroupNormOptions {
  GroupNormOptions(int64_t num_groups, int64_t num_channels) : num_groups_(num_groups), num_channels_(num_channels) {}
  FRIT_ARG(int64_t, num_groups);
  FRIT_ARG(int64_t, num_channels);
  FRIT_ARG(double, eps) = 1e-5;
  FRIT_ARG(bool, affine) = true;
};
namespace functional {
struct GroupNormFuncOptions {
  GroupNormFuncOptions(int64_t num_groups) : num_groups_(num_groups) {}
  FRIT_ARG(int64_t, num_groups);
  FRIT_ARG(Tensor, weight);
  FRIT_ARG(Tensor, bias);
  FRIT_ARG(double, eps) = 1e-5;
};
struct InstanceNormFuncOptions {
  FRIT_ARG(Tensor, running_mean);
  FRIT_ARG(Tensor, running_var);
  FRIT_ARG(Tensor, weight);
  FRIT_ARG(Tensor, bias);
  FRIT_ARG(bool, use_input_stats) = true;
  FRIT_ARG(double, momentum) = 0.1;
  FRIT_ARG(double, eps) = 1e-5;
};
}  // namespace functional
}  // namespace nn

// Over the channels of a group and all spatial axes, for each sample; weight and bias belong to channels. Half types compute in
// float32.
Tensor group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5, bool cudnn_enabled = true);
// Over the spatial axes, for each sample and channel. Running statistics, where given, are the means of the samples'.
Tensor instance_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, Tensor running_mean, Tensor running_var, bool use_input_stats, double momentum, double eps, bool cudnn_enabled = true);

namespace nn::functional {
inline Tensor group_norm(const Tensor& input, const GroupNormFuncOptions& o) { return frit::group_norm(input, o.num_groups(), o.weight(), o.bias(), o.eps()); }
inline Tensor instance_norm(const Tensor& input, const InstanceNormFuncOptions& o = {}) {
  return frit::instance_norm(input, o.weight(), o.bias(), o.running_mean(), o.running_var(), o.use_input_stats(), o.momentum(), o.eps());
}
}  // namespace nn::functional

}  // namespace frit
