// Losses beyond functional.h, with LibTorch's options, and as modules. input and target broadcast unless it says otherwise; the result is a
// scalar, or has the elements' shape with kNone. Errors name the loss, the shapes and the remedy.
#pragma once
#include "frit/nn/layer_kinds.h"
#include "frit/nn/options.h"

namespace frit {

// kl_div's own reduction: the sum over the batch's size.
struct BatchMean {};
inline constexpr BatchMean kBatchMean{};

namespace nn {

struct BCELossOptions {
  FRIT_ARG(Tensor, weight);
  FRIT_ARG(Reduction::Kind, reduction) = kMean;
};
struct SmoothL1LossOptions {
  SmoothL1LossOptions(Reduction::Kind reduction = kMean) : reduction_(reduction) {}
  FRIT_ARG(Reduction::Kind, reduction) = kMean;
  FRIT_ARG(double, beta) = 1.0;
};
struct HuberLossOptions {
  HuberLossOptions(Reduction::Kind reduction = kMean) : reduction_(reduction) {}
  FRIT_ARG(Reduction::Kind, reduction) = kMean;
  FRIT_ARG(double, delta) = 1.0;
};
struct KLDivReduction {
  KLDivReduction(Reduction::Kind kind = kMean) : kind(kind) {}
  KLDivReduction(BatchMean) : kind(kSum), over_batch(true) {}
  Reduction::Kind kind;
  bool over_batch = false;
};
struct KLDivLossOptions {
  KLDivLossOptions(KLDivReduction reduction = kMean) : reduction_(reduction) {}
  FRIT_ARG(KLDivReduction, reduction) = kMean;
  FRIT_ARG(bool, log_target) = false;
};

namespace functional {
using BinaryCrossEntropyFuncOptions = BCELossOptions;
using SmoothL1LossFuncOptions = SmoothL1LossOptions;
using HuberLossFuncOptions = HuberLossOptions;
using KLDivFuncOptions = KLDivLossOptions;

// Of probabilities in [0, 1], in one shape; logarithms are not below -100.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BinaryCrossEntropyFuncOptions& options = {});
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossFuncOptions& options = {});
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossFuncOptions& options = {});
// input: logarithms of probabilities. target: probabilities, or their logarithms.
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivFuncOptions& options = {});
}  // namespace functional

FRIT_LOSS_LAYER(BCELoss, binary_cross_entropy)
FRIT_LOSS_LAYER(SmoothL1Loss, smooth_l1_loss)
FRIT_LOSS_LAYER(HuberLoss, huber_loss)
FRIT_LOSS_LAYER(KLDivLoss, kl_div)

}  // namespace nn
}  // namespace frit
