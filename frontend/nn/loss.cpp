// Losses. cross_entropy is log_softmax and nll_loss; start at nll_loss. Positions to ignore are masked, not taken out, so that no
// shape depends on values.
#include "frit/nn/functional.h"
#include "frontend/detail.h"
#include "frontend/nn/checks.h"

namespace frit {

using detail::cell_of;
using detail::shape_text;
using detail::Sizes;
using detail::UserCall;

namespace {

Sizes shape(const Tensor& t, const char* op) { return tracer::sizes_of(cell_of(t, op)); }

Tensor reduced(const Tensor& loss, int64_t reduction, const char* op) {
  switch (reduction) {
    case kNone: return loss;
    case kMean: return loss.mean();
    case kSum: return loss.sum();
  }
  throw ValueError(std::string(op) + ": reduction " + std::to_string(reduction) + " is none of kNone (0), kMean (1) and kSum (2).");
}
// Where the classes lie: [classes] or [batch, classes, ...].
int64_t class_axis(const Sizes& input, const char* op) {
  if (input.empty()) throw ShapeError(std::string(op) + ": the input has no axes. Give one of [classes] or [batch, classes, ...].");
  return input.size() == 1 ? 0 : 1;
}
void check_weight(const Tensor& weight, int64_t classes, const char* op) {
  if (weight.defined() && shape(weight, op) != Sizes{classes})
    throw ShapeError(std::string(op) + ": the weight has shape " + shape_text(shape(weight, op)) + " for " + std::to_string(classes) + " classes. Give one of [" + std::to_string(classes) + "].");
}
// What class-index losses share: the targets with ignored ones moved to class 0, where they are kept, and their weights (zero
// where ignored), all in the targets' shape.
struct Targets {
  int64_t axis, classes;
  Tensor index, keep, weight;
};
Targets prepare(const Tensor& input, const Tensor& target, const Tensor& weight, int64_t ignore_index, const char* op) {
  const Sizes in = shape(input, op), t = shape(target, op);
  const int64_t axis = class_axis(in, op);
  Sizes wanted = in;
  wanted.erase(wanted.begin() + axis);
  if (t != wanted)
    throw ShapeError(std::string(op) + ": the input has shape " + shape_text(in) + ", the target " + shape_text(t) + ". Give class indices of shape " + shape_text(wanted) +
                     (op == std::string("cross_entropy") ? ", or probabilities in the input's shape." : "."));
  if (!is_integral(target.dtype()))
    throw DtypeError(std::string(op) + ": the target holds " + dtype_name(target.dtype()) + ". Class indices are int64: convert them with to(kInt64).");
  const int64_t classes = in[size_t(axis)];
  check_weight(weight, classes, op);
  if (const auto wrong = nn::wrong_index(target, classes, ignore_index))
    throw IndexError(std::string(op) + ": the target " + std::to_string(*wrong) + " is no class. Give classes from 0 to " + std::to_string(classes - 1) + ", or ignore_index where there is none.");
  Targets r{axis, classes, {}, {}, {}};
  const Tensor index = target.to(kInt64);
  r.keep = index.ne(Scalar(ignore_index));
  r.index = frit::where(r.keep, index, Scalar(int64_t(0)));
  r.index = frit::where(r.index.lt(Scalar(0)), Scalar(classes), r.index);  // no class is counted from the end
  if (weight.defined()) {
    r.weight = weight.index_select(0, r.index.reshape({-1})).reshape(t);
    r.weight = frit::where(r.keep, r.weight, Scalar(0.0));
  }
  return r;
}
// The mean over the kept positions, by their weights.
Tensor weighted_mean(const Tensor& loss, const Targets& t) {
  const Tensor total = t.weight.defined() ? t.weight.sum() : t.keep.sum().to(loss.dtype());
  return loss.sum() / total;
}
Tensor finish(const Tensor& loss, const Targets& t, int64_t reduction, const char* op) {
  return reduction == kMean ? weighted_mean(loss, t) : reduced(loss, reduction, op);
}
Tensor negative_likelihood(const Tensor& log_probabilities, const Targets& t) {
  const Tensor picked = log_probabilities.gather(t.axis, t.index.unsqueeze(t.axis)).squeeze(t.axis);
  Tensor loss = picked.neg();
  if (t.weight.defined()) loss = loss * t.weight;
  return frit::where(t.keep, loss, Scalar(0.0));
}
Tensor along_classes(const Tensor& weight, size_t rank, int64_t axis) {
  Sizes extents(rank, 1);
  extents[size_t(axis)] = -1;
  return weight.reshape(extents);
}

Tensor probability_loss(const Tensor& input, Tensor target, const Tensor& weight, int64_t reduction, double smoothing) {
  constexpr const char* op = "cross_entropy";
  const Sizes in = shape(input, op);
  const int64_t axis = class_axis(in, op), classes = in[size_t(axis)];
  check_weight(weight, classes, op);
  if (smoothing > 0) target = target * Scalar(1 - smoothing) + Scalar(smoothing / double(classes));
  Tensor terms = input.log_softmax(axis) * target;
  if (weight.defined()) terms = terms * along_classes(weight, in.size(), axis);
  if (reduction == kNone) return terms.sum(axis).neg();
  Tensor total = terms.sum().neg();
  if (reduction == kSum) return total;
  if (reduction != kMean) return reduced(total, reduction, op);
  int64_t positions = 1;
  for (size_t i = 0; i < in.size(); ++i) positions *= int64_t(i) == axis ? 1 : in[i];
  return total / Scalar(double(positions));
}

}  // namespace

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const Tensor& weight, int64_t reduction, int64_t ignore_index) {
  const UserCall call("nll_loss", {&log_probabilities, &target, &weight});
  const Targets t = prepare(log_probabilities, target, weight, ignore_index, "nll_loss");
  return finish(negative_likelihood(log_probabilities, t), t, reduction, "nll_loss");
}

Tensor cross_entropy_loss(const Tensor& input, const Tensor& target, const Tensor& weight, int64_t reduction, int64_t ignore_index, double label_smoothing) {
  const UserCall call("cross_entropy", {&input, &target, &weight});
  constexpr const char* op = "cross_entropy";
  if (!(label_smoothing >= 0 && label_smoothing <= 1)) throw ValueError("cross_entropy: label_smoothing is " + std::to_string(label_smoothing) + ". Choose a value between 0 and 1.");
  const Sizes in = shape(input, op);
  if (!input.is_floating_point()) throw DtypeError(std::string("cross_entropy: the input holds ") + dtype_name(input.dtype()) + ". Convert it to a floating type with to().");
  if (in == shape(target, op) && target.is_floating_point()) return probability_loss(input, target, weight, reduction, label_smoothing);
  const Targets t = prepare(input, target, weight, ignore_index, op);
  const Tensor log_probabilities = input.log_softmax(t.axis);
  const Tensor likelihood = finish(negative_likelihood(log_probabilities, t), t, reduction, op);
  if (label_smoothing == 0) return likelihood;
  Tensor smooth = t.weight.defined() ? (log_probabilities * along_classes(weight, in.size(), t.axis)).sum(t.axis) : log_probabilities.sum(t.axis);
  smooth = frit::where(t.keep, smooth.neg(), Scalar(0.0));
  return likelihood * Scalar(1 - label_smoothing) + finish(smooth, t, reduction, op) * Scalar(label_smoothing / double(t.classes));
}

Tensor mse_loss(const Tensor& input, const Tensor& target, int64_t reduction) {
  const UserCall call("mse_loss", {&input, &target});
  return reduced((input - target).square(), reduction, "mse_loss");
}
Tensor l1_loss(const Tensor& input, const Tensor& target, int64_t reduction) {
  const UserCall call("l1_loss", {&input, &target});
  return reduced((input - target).abs(), reduction, "l1_loss");
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target, const Tensor& weight, const Tensor& pos_weight, int64_t reduction) {
  const UserCall call("binary_cross_entropy_with_logits", {&input, &target, &weight, &pos_weight});
  constexpr const char* op = "binary_cross_entropy_with_logits";
  if (shape(input, op) != shape(target, op))
    throw ShapeError(std::string(op) + ": the input has shape " + shape_text(shape(input, op)) + ", the target " + shape_text(shape(target, op)) + ". Their shapes must be equal.");
  const Tensor log_sigmoid = input.neg().softplus().neg();
  Tensor loss = (Scalar(1.0) - target) * input;
  loss = pos_weight.defined() ? loss - ((pos_weight - Scalar(1.0)) * target + Scalar(1.0)) * log_sigmoid : loss - log_sigmoid;
  if (weight.defined()) loss = loss * weight;
  return reduced(loss, reduction, op);
}

}  // namespace frit
