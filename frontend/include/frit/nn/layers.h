// Layers, activations and losses as modules: nn::Linear is a holder of nn::LinearImpl, and so on.
#pragma once
#include "frit/nn/functional.h"
#include "frit/nn/layer_kinds.h"
#include "frit/nn/module.h"

namespace frit::nn {

class LinearImpl : public Cloneable<LinearImpl> {
 public:
  LinearImpl(int64_t in_features, int64_t out_features) : LinearImpl(LinearOptions(in_features, out_features)) {}
  explicit LinearImpl(const LinearOptions& options);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return frit::linear(input, weight, bias); }

  LinearOptions options;
  Tensor weight;  // [out, in]
  Tensor bias;
};
FRIT_MODULE(Linear);

class EmbeddingImpl : public Cloneable<EmbeddingImpl> {
 public:
  EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim) : EmbeddingImpl(EmbeddingOptions(num_embeddings, embedding_dim)) {}
  explicit EmbeddingImpl(EmbeddingOptions options);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& indices) { return frit::embedding(weight, indices, options.padding_idx()); }

  EmbeddingOptions options;
  Tensor weight;  // [rows, dimension]
};
FRIT_MODULE(Embedding);

class LayerNormImpl : public Cloneable<LayerNormImpl> {
 public:
  LayerNormImpl(std::vector<int64_t> normalized_shape) : LayerNormImpl(LayerNormOptions(std::move(normalized_shape))) {}
  explicit LayerNormImpl(LayerNormOptions options);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return frit::layer_norm(input, options.normalized_shape(), weight, bias, options.eps()); }

  LayerNormOptions options;
  Tensor weight, bias;
};
FRIT_MODULE(LayerNorm);

class RMSNormImpl : public Cloneable<RMSNormImpl> {
 public:
  RMSNormImpl(std::vector<int64_t> normalized_shape) : RMSNormImpl(RMSNormOptions(std::move(normalized_shape))) {}
  explicit RMSNormImpl(RMSNormOptions options);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return frit::rms_norm(input, options.normalized_shape(), weight, options.eps()); }

  RMSNormOptions options;
  Tensor weight;
};
FRIT_MODULE(RMSNorm);

class BatchNorm1dImpl : public Cloneable<BatchNorm1dImpl> {
 public:
  BatchNorm1dImpl(int64_t num_features) : BatchNorm1dImpl(BatchNormOptions(num_features)) {}
  explicit BatchNorm1dImpl(BatchNormOptions options);
  void reset() override;
  void reset_parameters();
  void reset_running_stats();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);  // [batch, features] or [batch, features, length]

  BatchNormOptions options;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;
};
FRIT_MODULE(BatchNorm1d);

class DropoutImpl : public Cloneable<DropoutImpl> {
 public:
  DropoutImpl(double p) : DropoutImpl(DropoutOptions(p)) {}
  explicit DropoutImpl(const DropoutOptions& options = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(Tensor input) { return functional::dropout(std::move(input), options.p(), is_training(), options.inplace()); }

  DropoutOptions options;
};
FRIT_MODULE(Dropout);

class FlattenImpl : public Cloneable<FlattenImpl> {
 public:
  explicit FlattenImpl(const FlattenOptions& options = {}) : options(options) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return input.flatten(options.start_dim(), options.end_dim()); }

  FlattenOptions options;
};
FRIT_MODULE(Flatten);

class IdentityImpl : public Cloneable<IdentityImpl> {
 public:
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return input; }
};
FRIT_MODULE(Identity);

// ---- activations
class ReLUImpl : public Cloneable<ReLUImpl> {
 public:
  explicit ReLUImpl(const ReLUOptions& options = {}) : options(options) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(Tensor input) { return functional::relu(std::move(input), options); }

  ReLUOptions options;
};
FRIT_MODULE(ReLU);

class LeakyReLUImpl : public Cloneable<LeakyReLUImpl> {
 public:
  explicit LeakyReLUImpl(const LeakyReLUOptions& options = {}) : options(options) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return functional::leaky_relu(input, options); }

  LeakyReLUOptions options;
};
FRIT_MODULE(LeakyReLU);

class GELUImpl : public Cloneable<GELUImpl> {
 public:
  explicit GELUImpl(GELUOptions options = {}) : options(std::move(options)) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return functional::gelu(input, options); }

  GELUOptions options;
};
FRIT_MODULE(GELU);

FRIT_PLAIN_LAYER(SiLU, input.silu())
FRIT_PLAIN_LAYER(Sigmoid, input.sigmoid())
FRIT_PLAIN_LAYER(Tanh, input.tanh())

class SoftmaxImpl : public Cloneable<SoftmaxImpl> {
 public:
  explicit SoftmaxImpl(int64_t dim) : SoftmaxImpl(SoftmaxOptions(dim)) {}
  explicit SoftmaxImpl(const SoftmaxOptions& options) : options(options) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return input.softmax(options.dim()); }

  SoftmaxOptions options;
};
FRIT_MODULE(Softmax);

class LogSoftmaxImpl : public Cloneable<LogSoftmaxImpl> {
 public:
  explicit LogSoftmaxImpl(int64_t dim) : LogSoftmaxImpl(LogSoftmaxOptions(dim)) {}
  explicit LogSoftmaxImpl(const LogSoftmaxOptions& options) : options(options) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return input.log_softmax(options.dim()); }

  LogSoftmaxOptions options;
};
FRIT_MODULE(LogSoftmax);

// ---- losses
FRIT_LOSS_LAYER(MSELoss, mse_loss)
FRIT_LOSS_LAYER(L1Loss, l1_loss)
FRIT_WEIGHTED_LOSS_LAYER(CrossEntropyLoss, cross_entropy, weight)
FRIT_WEIGHTED_LOSS_LAYER(NLLLoss, nll_loss, weight)
FRIT_WEIGHTED_LOSS_LAYER(BCEWithLogitsLoss, binary_cross_entropy_with_logits, weight, pos_weight)

}  // namespace frit::nn
