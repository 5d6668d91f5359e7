// Norms over groups of channels: one reshape makes of each group a row.
#include "frit/nn/norms.h"
#include "frit/autograd.h"
#include "frontend/nn/windows.h"
#include "runtime/error.h"

namespace frit {

using detail::shape_text;
using detail::Sizes;

Tensor group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps, bool) {
  const Sizes s = nn::shape_of(input, "group_norm");
  if (s.size() < 2) throw ShapeError("group_norm: the input has shape " + shape_text(s) + ". Give one of [batch, channels, ...].");
  nn::check_floating(input, "group_norm");
  if (num_groups < 1 || s[1] % num_groups)
    throw ValueError("group_norm: " + std::to_string(num_groups) + " groups do not divide the " + std::to_string(s[1]) + " channels of an input of shape " + shape_text(s) + ". Choose groups that do.");
  nn::check_parameter(weight, "group_norm", "weight", {s[1]});
  nn::check_parameter(bias, "group_norm", "bias", {s[1]});
  int64_t elements = s[1] / num_groups;
  for (size_t i = 2; i < s.size(); ++i) elements *= s[i];

  const Dtype type = compute_dtype(input.dtype());
  const Tensor rows = input.to(type).reshape({s[0], num_groups, elements});
  const Tensor centred = rows - rows.mean(-1, true);
  Tensor y = (centred * (centred.square().mean(-1, true) + Scalar(eps)).rsqrt()).reshape(s);
  Sizes along(s.size() - 1, 1);
  along[0] = s[1];
  if (weight.defined()) y = y * weight.to(type).reshape(along);
  if (bias.defined()) y = y + bias.to(type).reshape(along);
  return y.to(input.dtype());
}

Tensor instance_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, Tensor running_mean, Tensor running_var, bool use_input_stats, double momentum, double eps, bool) {
  const Sizes s = nn::shape_of(input, "instance_norm");
  if (s.size() < 3) throw ShapeError("instance_norm: the input has shape " + shape_text(s) + ". Give one of [batch, channels, spatial axes...].");
  if (running_mean.defined() != running_var.defined()) throw ValueError("instance_norm: one of running_mean and running_var is given. Give both or none.");
  if (!use_input_stats && !running_mean.defined()) throw ValueError("instance_norm: there are no running statistics to use. Give running_mean and running_var, or set use_input_stats.");
  for (const auto& [t, what] : {std::pair{weight, "weight"}, {bias, "bias"}, {running_mean, "running mean"}, {running_var, "running variance"}}) nn::check_parameter(t, "instance_norm", what, {s[1]});
  int64_t elements = 1;
  for (size_t i = 2; i < s.size(); ++i) elements *= s[i];
  if (use_input_stats && elements <= 1)
    throw ValueError("instance_norm: the input has shape " + shape_text(s) + ", one value per channel, which has no variance. Give more, or use running statistics.");

  // Samples and channels are the channels of one sample.
  const auto repeated = [&](const Tensor& t) { return t.defined() ? t.repeat({s[0]}) : t; };
  Sizes joined = s;
  joined[0] = 1, joined[1] = s[0] * s[1];
  const Tensor mean = repeated(running_mean), variance = repeated(running_var);
  const Tensor y = batch_norm(input.reshape(joined), repeated(weight), repeated(bias), mean, variance, use_input_stats, momentum, eps).reshape(s);
  if (use_input_stats && running_mean.defined()) {
    NoGradGuard no_grad;
    running_mean.copy_(mean.reshape({s[0], s[1]}).mean(0));
    running_var.copy_(variance.reshape({s[0], s[1]}).mean(0));
  }
  return y;
}

}  // namespace frit
