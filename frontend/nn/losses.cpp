// More losses, made of the table's ops; and how their modules print.
#include "frit/nn/losses.h"
#include <ostream>
#include "frit/functions.h"
#include "frontend/detail.h"

namespace frit::nn {

using frit::detail::shape_text;

namespace {
Tensor reduced(const Tensor& loss, Reduction::Kind kind) { return kind == kNone ? loss : kind == kSum ? loss.sum() : loss.mean(); }
const char* text(Reduction::Kind kind) { return kind == kNone ? "none" : kind == kSum ? "sum" : "mean"; }
double positive(double v, const char* op, const char* what) {
  if (!(v >= 0)) throw ValueError(std::string(op) + ": " + what + " is " + std::to_string(v) + ". Give 0 or more.");
  return v;
}
}  // namespace

namespace functional {
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BinaryCrossEntropyFuncOptions& o) {
  if (input.sizes() != target.sizes())
    throw ShapeError("binary_cross_entropy: the input has shape " + shape_text(input.sizes()) + ", the target " + shape_text(target.sizes()) + ". Their shapes must be equal.");
  const Scalar least(-100.0);
  Tensor loss = (target - Scalar(1.0)) * (Scalar(1.0) - input).log().clamp_min(least) - target * input.log().clamp_min(least);
  if (o.weight().defined()) loss = loss * o.weight();
  return reduced(loss, o.reduction());
}
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossFuncOptions& o) {
  const double beta = positive(o.beta(), "smooth_l1_loss", "beta");
  const Tensor d = (input - target).abs();
  if (beta == 0) return reduced(d, o.reduction());
  return reduced(frit::where(d < Scalar(beta), d.square() * Scalar(0.5 / beta), d - Scalar(0.5 * beta)), o.reduction());
}
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossFuncOptions& o) {
  const double delta = o.delta();
  if (!(delta > 0)) throw ValueError("huber_loss: delta is " + std::to_string(delta) + ". Give more than 0.");
  const Tensor d = (input - target).abs();
  return reduced(frit::where(d <= Scalar(delta), d.square() * Scalar(0.5), (d - Scalar(0.5 * delta)) * Scalar(delta)), o.reduction());
}
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivFuncOptions& o) {
  Tensor loss;
  if (o.log_target()) {
    loss = target.exp() * (target - input);
  } else {  // 0 log 0 is 0, and so is its gradient
    const Tensor positive_target = target > Scalar(0);
    loss = frit::where(positive_target, target * (frit::where(positive_target, target, Scalar(1.0)).log() - input), Scalar(0.0));
  }
  const KLDivReduction& r = o.reduction();
  if (!r.over_batch) return reduced(loss, r.kind);
  if (input.dim() == 0) throw ShapeError("kl_div: kBatchMean divides by the first axis, and the input has none. Use kSum.");
  return loss.sum() / Scalar(double(input.size(0)));
}
}  // namespace functional

void BCELossImpl::pretty_print(std::ostream& s) const { s << "frit::nn::BCELoss(reduction=" << text(options.reduction()) << ")"; }
void SmoothL1LossImpl::pretty_print(std::ostream& s) const { s << "frit::nn::SmoothL1Loss(reduction=" << text(options.reduction()) << ", beta=" << options.beta() << ")"; }
void HuberLossImpl::pretty_print(std::ostream& s) const { s << "frit::nn::HuberLoss(reduction=" << text(options.reduction()) << ", delta=" << options.delta() << ")"; }
void KLDivLossImpl::pretty_print(std::ostream& s) const { s << "frit::nn::KLDivLoss(reduction=" << (options.reduction().over_batch ? "batchmean" : text(options.reduction().kind)) << ")"; }

}  // namespace frit::nn
