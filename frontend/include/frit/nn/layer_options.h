// Options of the layers and of their functional forms.
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "frit/nn/options.h"

namespace frit::nn {

struct LinearOptions {
  LinearOptions(int64_t in_features, int64_t out_features) : in_features_(in_features), out_features_(out_features) {}
  FRIT_ARG(int64_t, in_features);
  FRIT_ARG(int64_t, out_features);
  FRIT_ARG(bool, bias) = true;
};
struct FlattenOptions {
  FRIT_ARG(int64_t, start_dim) = 1;
  FRIT_ARG(int64_t, end_dim) = -1;
};
struct EmbeddingOptions {
  EmbeddingOptions(int64_t num_embeddings, int64_t embedding_dim) : num_embeddings_(num_embeddings), embedding_dim_(embedding_dim) {}
  FRIT_ARG(int64_t, num_embeddings);
  FRIT_ARG(int64_t, embedding_dim);
  FRIT_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;  // a row of zeros that gets no gradient
  FRIT_ARG(Tensor, _weight);                                     // used instead of a random one
};
struct LayerNormOptions {
  LayerNormOptions(std::vector<int64_t> normalized_shape) : normalized_shape_(std::move(normalized_shape)) {}
  FRIT_ARG(std::vector<int64_t>, normalized_shape);
  FRIT_ARG(double, eps) = 1e-5;
  FRIT_ARG(bool, elementwise_affine) = true;
  FRIT_ARG(bool, bias) = true;
};
struct RMSNormOptions {
  RMSNormOptions(std::vector<int64_t> normalized_shape) : normalized_shape_(std::move(normalized_shape)) {}
  FRIT_ARG(std::vector<int64_t>, normalized_shape);
  FRIT_ARG(std::optional<double>, eps) = std::nullopt;  // absent: the epsilon of the type that it computes in
  FRIT_ARG(bool, elementwise_affine) = true;
};
struct BatchNormOptions {
  BatchNormOptions(int64_t num_features) : num_features_(num_features) {}
  FRIT_ARG(int64_t, num_features);
  FRIT_ARG(double, eps) = 1e-5;
  FRIT_ARG(std::optional<double>, momentum) = 0.1;      // absent: the average of all batches
  FRIT_ARG(bool, affine) = true;
  FRIT_ARG(bool, track_running_stats) = true;
};
using BatchNorm1dOptions = BatchNormOptions;
struct DropoutOptions {
  DropoutOptions(double p = 0.5) : p_(p) {}
  FRIT_ARG(double, p) = 0.5;
  FRIT_ARG(bool, inplace) = false;
};
struct ReLUOptions {
  ReLUOptions(bool inplace = false) : inplace_(inplace) {}
  FRIT_ARG(bool, inplace) = false;
};
struct LeakyReLUOptions {
  FRIT_ARG(double, negative_slope) = 0.01;
};
struct GELUOptions {
  FRIT_ARG(std::string, approximate) = "none";          // or "tanh"
};
struct SoftmaxOptions {
  SoftmaxOptions(int64_t dim) : dim_(dim) {}
  FRIT_ARG(int64_t, dim);
};
using LogSoftmaxOptions = SoftmaxOptions;

struct CrossEntropyLossOptions {
  FRIT_ARG(Tensor, weight);                             // of the classes
  FRIT_ARG(int64_t, ignore_index) = -100;
  FRIT_ARG(Reduction::Kind, reduction) = kMean;
  FRIT_ARG(double, label_smoothing) = 0;
};
struct NLLLossOptions {
  FRIT_ARG(Tensor, weight);
  FRIT_ARG(int64_t, ignore_index) = -100;
  FRIT_ARG(Reduction::Kind, reduction) = kMean;
};
struct MSELossOptions {
  MSELossOptions(Reduction::Kind reduction = kMean) : reduction_(reduction) {}
  FRIT_ARG(Reduction::Kind, reduction) = kMean;
};
using L1LossOptions = MSELossOptions;
struct BCEWithLogitsLossOptions {
  FRIT_ARG(Tensor, weight);
  FRIT_ARG(Reduction::Kind, reduction) = kMean;
  FRIT_ARG(Tensor, pos_weight);
};

namespace functional {
struct DropoutFuncOptions {
  FRIT_ARG(double, p) = 0.5;
  FRIT_ARG(bool, training) = false;
  FRIT_ARG(bool, inplace) = false;
};
struct SoftmaxFuncOptions {
  SoftmaxFuncOptions(int64_t dim) : dim_(dim) {}
  FRIT_ARG(int64_t, dim);
  FRIT_ARG(std::optional<Dtype>, dtype) = std::nullopt;
};
using LogSoftmaxFuncOptions = SoftmaxFuncOptions;
struct EmbeddingFuncOptions {
  FRIT_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
};
struct LayerNormFuncOptions {
  LayerNormFuncOptions(std::vector<int64_t> normalized_shape) : normalized_shape_(std::move(normalized_shape)) {}
  FRIT_ARG(std::vector<int64_t>, normalized_shape);
  FRIT_ARG(Tensor, weight);
  FRIT_ARG(Tensor, bias);
  FRIT_ARG(double, eps) = 1e-5;
};
struct BatchNormFuncOptions {
  FRIT_ARG(Tensor, weight);
  FRIT_ARG(Tensor, bias);
  FRIT_ARG(bool, training) = false;
  FRIT_ARG(std::optional<double>, momentum) = 0.1;
  FRIT_ARG(double, eps) = 1e-5;
};
using ReLUFuncOptions = ReLUOptions;
using LeakyReLUFuncOptions = LeakyReLUOptions;
using GELUFuncOptions = GELUOptions;
using CrossEntropyFuncOptions = CrossEntropyLossOptions;
using NLLLossFuncOptions = NLLLossOptions;
using MSELossFuncOptions = MSELossOptions;
using L1LossFuncOptions = L1LossOptions;
using BinaryCrossEntropyWithLogitsFuncOptions = BCEWithLogitsLossOptions;
}  // namespace functional

}  // namespace frit::nn
