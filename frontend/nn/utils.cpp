// Gradient clipping. The norm stays a tensor: nothing is read unless the caller asks for a number.
#include "frit/nn/utils.h"
#include <cmath>
#include "frit/autograd.h"

namespace frit::nn::utils {

static std::vector<Tensor> gradients(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> list;
  for (const Tensor& p : parameters)
    if (Tensor g = p.grad(); g.defined()) list.push_back(g);
  return list;
}

TotalNorm clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type, bool error_if_nonfinite) {
  NoGradGuard no_grad;
  std::vector<Tensor> list = gradients(parameters), norms;
  if (list.empty()) return TotalNorm(zeros({}));
  const bool infinite = std::isinf(norm_type);
  for (const Tensor& g : list) norms.push_back(infinite ? g.abs().amax() : g.norm(Scalar(norm_type)));
  for (Tensor& n : norms) n = n.to(norms[0].dtype());
  const Tensor total = norms.size() == 1 ? norms[0] : infinite ? stack(norms).amax() : stack(norms).norm(Scalar(norm_type));
  if (error_if_nonfinite && !std::isfinite(total.item<double>()))
    throw ValueError("clip_grad_norm_: the gradients' norm of order " + std::to_string(norm_type) + " is not finite, so they cannot be scaled. Look for the op that made it, or set error_if_nonfinite to false.");
  const Tensor scale = (Scalar(max_norm) / (total + Scalar(1e-6))).clamp(std::nullopt, Scalar(1.0));
  for (Tensor& g : list) g.mul_(g.dtype() == scale.dtype() ? scale : scale.to(g.dtype()));
  return TotalNorm(total);
}
TotalNorm clip_grad_norm_(const Tensor& parameter, double max_norm, double norm_type, bool error_if_nonfinite) {
  return clip_grad_norm_(std::vector<Tensor>{parameter}, max_norm, norm_type, error_if_nonfinite);
}
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  NoGradGuard no_grad;
  for (Tensor& g : gradients(parameters)) g.clamp_(Scalar(-clip_value), Scalar(clip_value));
}
void clip_grad_value_(const Tensor& parameter, double clip_value) { clip_grad_value_(std::vector<Tensor>{parameter}, clip_value); }

}  // namespace frit::nn::utils
