// Layers: what they register, how they are initialised (as LibTorch does), how they print.
#include "frit/nn/layers.h"
#include <cmath>
#include <ostream>
#include "frit/nn/init.h"
#include "frontend/detail.h"

namespace frit::nn {

namespace {
const char* text(bool b) { return b ? "true" : "false"; }
void check_extents(const char* layer, std::initializer_list<int64_t> extents) {
  for (int64_t e : extents)
    if (e < 0) throw ValueError(std::string(layer) + ": an extent of " + std::to_string(e) + " is negative. Give 0 or more.");
}
const char* text(Reduction::Kind k) { return k == kNone ? "none" : k == kSum ? "sum" : "mean"; }
}  // namespace

// ---- Linear ---------------------------------------------------------------------------------------------------------
LinearImpl::LinearImpl(const LinearOptions& o) : options(o) { LinearImpl::reset(); }
void LinearImpl::reset() {
  check_extents("Linear", {options.in_features(), options.out_features()});
  weight = register_parameter("weight", empty({options.out_features(), options.in_features()}));
  bias = register_parameter("bias", options.bias() ? frit::empty({options.out_features()}) : Tensor(), options.bias());
  reset_parameters();
}
void LinearImpl::reset_parameters() {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const int64_t fan_in = options.in_features();
  const double bound = fan_in ? 1 / std::sqrt(double(fan_in)) : 0;
  init::uniform_(bias, -bound, bound);
}
void LinearImpl::pretty_print(std::ostream& stream) const {
  stream << "frit::nn::Linear(in_features=" << options.in_features() << ", out_features=" << options.out_features() << ", bias=" << text(options.bias()) << ")";
}

// ---- Embedding ------------------------------------------------------------------------------------------------------
EmbeddingImpl::EmbeddingImpl(EmbeddingOptions o) : options(std::move(o)) { EmbeddingImpl::reset(); }
void EmbeddingImpl::reset() {
  const int64_t rows = options.num_embeddings(), dimension = options.embedding_dim();
  check_extents("Embedding", {rows, dimension});
  if (auto& p = options.padding_idx()) {
    if (*p < -rows || *p >= rows) throw IndexError("Embedding: padding_idx " + std::to_string(*p) + " is out of range for " + std::to_string(rows) + " rows.");
    if (*p < 0) *p += rows;
  }
  if (options._weight().defined()) {
    if (!(options._weight().sizes() == IntArrayRef{rows, dimension}))
      throw ShapeError("Embedding: the weight has shape " + frit::detail::shape_text(options._weight().sizes()) + ". Give one of [" + std::to_string(rows) + ", " + std::to_string(dimension) + "].");
    weight = register_parameter("weight", options._weight().detach().clone());
    return;
  }
  weight = register_parameter("weight", empty({rows, dimension}));
  reset_parameters();
}
void EmbeddingImpl::reset_parameters() {
  init::normal_(weight);
  if (!options.padding_idx()) return;
  NoGradGuard no_grad;
  weight.select(0, *options.padding_idx()).fill_(0);
}
void EmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "frit::nn::Embedding(num_embeddings=" << options.num_embeddings() << ", embedding_dim=" << options.embedding_dim();
  if (options.padding_idx()) stream << ", padding_idx=" << *options.padding_idx();
  stream << ")";
}

// ---- normalisation ----------------------------------------------------------------------------------------------------
LayerNormImpl::LayerNormImpl(LayerNormOptions o) : options(std::move(o)) { LayerNormImpl::reset(); }
void LayerNormImpl::reset() {
  const bool affine = options.elementwise_affine(), with_bias = affine && options.bias();
  weight = register_parameter("weight", affine ? frit::empty(options.normalized_shape()) : Tensor(), affine);
  bias = register_parameter("bias", with_bias ? frit::empty(options.normalized_shape()) : Tensor(), with_bias);
  reset_parameters();
}
void LayerNormImpl::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}
void LayerNormImpl::pretty_print(std::ostream& stream) const {
  stream << "frit::nn::LayerNorm(" << frit::detail::shape_text(options.normalized_shape()) << ", eps=" << options.eps()
         << ", elementwise_affine=" << text(options.elementwise_affine()) << ")";
}

RMSNormImpl::RMSNormImpl(RMSNormOptions o) : options(std::move(o)) { RMSNormImpl::reset(); }
void RMSNormImpl::reset() {
  const bool affine = options.elementwise_affine();
  weight = register_parameter("weight", affine ? frit::empty(options.normalized_shape()) : Tensor(), affine);
  reset_parameters();
}
void RMSNormImpl::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
}
void RMSNormImpl::pretty_print(std::ostream& stream) const {
  stream << "frit::nn::RMSNorm(" << frit::detail::shape_text(options.normalized_shape()) << ", elementwise_affine=" << text(options.elementwise_affine()) << ")";
}

BatchNorm1dImpl::BatchNorm1dImpl(BatchNormOptions o) : options(std::move(o)) { BatchNorm1dImpl::reset(); }
void BatchNorm1dImpl::reset() {
  const int64_t n = options.num_features();
  check_extents("BatchNorm1d", {n});
  const bool affine = options.affine(), track = options.track_running_stats();
  weight = register_parameter("weight", affine ? frit::empty({n}) : Tensor(), affine);
  bias = register_parameter("bias", affine ? frit::empty({n}) : Tensor(), affine);
  running_mean = register_buffer("running_mean", track ? frit::empty({n}) : Tensor());
  running_var = register_buffer("running_var", track ? frit::empty({n}) : Tensor());
  num_batches_tracked = register_buffer("num_batches_tracked", track ? zeros({}, kInt64) : Tensor());
  reset_parameters();
}
void BatchNorm1dImpl::reset_running_stats() {
  if (!options.track_running_stats()) return;
  init::zeros_(running_mean);
  init::ones_(running_var);
  init::zeros_(num_batches_tracked);
}
void BatchNorm1dImpl::reset_parameters() {
  reset_running_stats();
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}
Tensor BatchNorm1dImpl::forward(const Tensor& input) {
  if (input.dim() != 2 && input.dim() != 3)
    throw ShapeError("BatchNorm1d: the input has shape " + frit::detail::shape_text(input.sizes()) + ". Give one of [batch, features] or [batch, features, length].");
  const bool track = options.track_running_stats(), update = is_training() && track;
  double momentum = options.momentum().value_or(0);
  if (update) {
    NoGradGuard no_grad;
    num_batches_tracked.add_(Scalar(1));
    if (!options.momentum()) momentum = 1 / num_batches_tracked.item<double>();
  }
  return frit::batch_norm(input, weight, bias, running_mean, running_var, is_training() || !track, momentum, options.eps());
}
void BatchNorm1dImpl::pretty_print(std::ostream& stream) const {
  stream << "frit::nn::BatchNorm1d(" << options.num_features() << ", eps=" << options.eps() << ", momentum=";
  if (options.momentum()) stream << *options.momentum();
  else stream << "none";
  stream << ", affine=" << text(options.affine()) << ", track_running_stats=" << text(options.track_running_stats()) << ")";
}

// ---- Dropout and what has no parameters -------------------------------------------------------------------------------
DropoutImpl::DropoutImpl(const DropoutOptions& o) : options(o) { DropoutImpl::reset(); }
void DropoutImpl::reset() {
  if (!(options.p() >= 0 && options.p() <= 1)) throw ValueError("Dropout: the probability is " + std::to_string(options.p()) + ". Choose one between 0 and 1.");
}
void DropoutImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::Dropout(p=" << options.p() << ", inplace=" << text(options.inplace()) << ")"; }
void FlattenImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::Flatten(start_dim=" << options.start_dim() << ", end_dim=" << options.end_dim() << ")"; }
void IdentityImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::Identity()"; }
void ReLUImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::ReLU(" << (options.inplace() ? "inplace" : "") << ")"; }
void LeakyReLUImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::LeakyReLU(negative_slope=" << options.negative_slope() << ")"; }
void GELUImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::GELU(approximate=" << options.approximate() << ")"; }
void SiLUImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::SiLU()"; }
void SigmoidImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::Sigmoid()"; }
void TanhImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::Tanh()"; }
void SoftmaxImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::Softmax(dim=" << options.dim() << ")"; }
void LogSoftmaxImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::LogSoftmax(dim=" << options.dim() << ")"; }

// ---- losses: a weight is copied, so that a clone does not share it ------------------------------------------------------
static Tensor own(Tensor& option) { return option.defined() ? option = option.detach().clone() : option; }
void MSELossImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::MSELoss(reduction=" << text(options.reduction()) << ")"; }
void L1LossImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::L1Loss(reduction=" << text(options.reduction()) << ")"; }

CrossEntropyLossImpl::CrossEntropyLossImpl(CrossEntropyLossOptions o) : options(std::move(o)) { CrossEntropyLossImpl::reset(); }
void CrossEntropyLossImpl::reset() { weight = register_buffer("weight", own(options.weight())); }
void CrossEntropyLossImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::CrossEntropyLoss(reduction=" << text(options.reduction()) << ")"; }
NLLLossImpl::NLLLossImpl(NLLLossOptions o) : options(std::move(o)) { NLLLossImpl::reset(); }
void NLLLossImpl::reset() { weight = register_buffer("weight", own(options.weight())); }
void NLLLossImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::NLLLoss(reduction=" << text(options.reduction()) << ")"; }
BCEWithLogitsLossImpl::BCEWithLogitsLossImpl(BCEWithLogitsLossOptions o) : options(std::move(o)) { BCEWithLogitsLossImpl::reset(); }
void BCEWithLogitsLossImpl::reset() {
  weight = register_buffer("weight", own(options.weight()));
  pos_weight = register_buffer("pos_weight", own(options.pos_weight()));
}
void BCEWithLogitsLossImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::BCEWithLogitsLoss(reduction=" << text(options.reduction()) << ")"; }

}  // namespace frit::nn
