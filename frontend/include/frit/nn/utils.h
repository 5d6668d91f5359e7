// Gradient clipping.
#pragma once
#include <vector>
#include "frit/tensor.h"

namespace frit::nn::utils {

// The norm of all gradients before they were scaled. It is read only when it is used as a number.
class TotalNorm {
 public:
  explicit TotalNorm(Tensor value) : value_(std::move(value)) {}
  operator double() const { return value_.item<double>(); }
  const Tensor& tensor() const { return value_; }

 private:
  Tensor value_;
};

// Scales the gradients so that their joint norm is at most max_norm. norm_type may be infinity. Parameters without a gradient
// are passed over.
TotalNorm clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2, bool error_if_nonfinite = false);
TotalNorm clip_grad_norm_(const Tensor& parameter, double max_norm, double norm_type = 2, bool error_if_nonfinite = false);
// Clamps every element to [-clip_value, clip_value].
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);
void clip_grad_value_(const Tensor& parameter, double clip_value);

}  // namespace frit::nn::utils
