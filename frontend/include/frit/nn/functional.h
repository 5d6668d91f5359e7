// The layers as functions, with LibTorch's options; and, in frit, the ones that ATen has, with ATen's arguments. Errors name the
// function, the shapes and the remedy.
#pragma once
#include "frit/functions.h"
#include "frit/nn/layer_options.h"

namespace frit {

// ---- ATen's names
// x · weightᵀ + bias, for x of [..., in] and weight of [out, in].
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {});
// Rows of weight at the indices. The row padding_idx gets no gradient.
Tensor embedding(const Tensor& weight, const Tensor& indices, std::optional<int64_t> padding_idx = std::nullopt);
// Over the last axes, whose extents are normalized_shape. Half types compute in float32.
Tensor layer_norm(const Tensor& input, IntArrayRef normalized_shape, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
Tensor rms_norm(const Tensor& input, IntArrayRef normalized_shape, const Tensor& weight = {}, std::optional<double> eps = std::nullopt);
// Over every axis but axis 1. In training the batch's own statistics are used, and the running ones (where given) are updated.
Tensor batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, Tensor running_mean, Tensor running_var, bool training, double momentum, double eps);
// input of [batch, classes, ...] or [classes]. Targets: class indices of [batch, ...], or probabilities in the input's shape.
Tensor cross_entropy_loss(const Tensor& input, const Tensor& target, const Tensor& weight = {}, int64_t reduction = kMean, int64_t ignore_index = -100, double label_smoothing = 0);
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const Tensor& weight = {}, int64_t reduction = kMean, int64_t ignore_index = -100);
Tensor mse_loss(const Tensor& input, const Tensor& target, int64_t reduction = kMean);
Tensor l1_loss(const Tensor& input, const Tensor& target, int64_t reduction = kMean);
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target, const Tensor& weight = {}, const Tensor& pos_weight = {}, int64_t reduction = kMean);

namespace nn::functional {

inline Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {}) { return frit::linear(input, weight, bias); }
inline Tensor relu(Tensor input, const ReLUFuncOptions& options = {}) { return options.inplace() ? input.relu_() : input.relu(); }
inline Tensor leaky_relu(const Tensor& input, const LeakyReLUFuncOptions& options = {}) { return input.leaky_relu(Scalar(options.negative_slope())); }
inline Tensor gelu(const Tensor& input, const GELUFuncOptions& options = {}) { return input.gelu(options.approximate()); }
inline Tensor silu(const Tensor& input) { return input.silu(); }
inline Tensor softmax(const Tensor& input, const SoftmaxFuncOptions& options) { return input.softmax(options.dim(), options.dtype()); }
inline Tensor log_softmax(const Tensor& input, const LogSoftmaxFuncOptions& options) { return input.log_softmax(options.dim(), options.dtype()); }
Tensor dropout(Tensor input, double p, bool training, bool inplace = false);
inline Tensor dropout(Tensor input, const DropoutFuncOptions& options = {}) { return dropout(std::move(input), options.p(), options.training(), options.inplace()); }
inline Tensor embedding(const Tensor& indices, const Tensor& weight, const EmbeddingFuncOptions& options = {}) {
  return frit::embedding(weight, indices, options.padding_idx());
}
inline Tensor layer_norm(const Tensor& input, const LayerNormFuncOptions& options) {
  return frit::layer_norm(input, options.normalized_shape(), options.weight(), options.bias(), options.eps());
}
inline Tensor layer_norm(const Tensor& input, IntArrayRef shape, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5) {
  return frit::layer_norm(input, shape, weight, bias, eps);
}
inline Tensor rms_norm(const Tensor& input, IntArrayRef shape, const Tensor& weight = {}, std::optional<double> eps = std::nullopt) {
  return frit::rms_norm(input, shape, weight, eps);
}
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var, const BatchNormFuncOptions& options = {});
inline Tensor cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyFuncOptions& options = {}) {
  return cross_entropy_loss(input, target, options.weight(), options.reduction(), options.ignore_index(), options.label_smoothing());
}
inline Tensor nll_loss(const Tensor& input, const Tensor& target, const NLLLossFuncOptions& options = {}) {
  return frit::nll_loss(input, target, options.weight(), options.reduction(), options.ignore_index());
}
inline Tensor mse_loss(const Tensor& input, const Tensor& target, const MSELossFuncOptions& options = {}) {
  return frit::mse_loss(input, target, options.reduction());
}
inline Tensor l1_loss(const Tensor& input, const Tensor& target, const L1LossFuncOptions& options = {}) {
  return frit::l1_loss(input, target, options.reduction());
}
inline Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target, const BinaryCrossEntropyWithLogitsFuncOptions& options = {}) {
  return frit::binary_cross_entropy_with_logits(input, target, options.weight(), options.pos_weight(), options.reduction());
}
inline Tensor one_hot(const Tensor& classes, int64_t count = -1) { return frit::one_hot(classes, count); }

}  // namespace nn::functional
}  // namespace frit
