// The update rules: one function each, in LibTorch's order of operations. They work in place, take their numbers as scalars and
// read nothing, so that many updates can be one launch.
#include <cmath>
#include "frit/optim.h"

namespace frit::optim {

namespace {

void require(const char* optimizer, const char* what, double value, bool ok, const char* allowed) {
  if (!ok) throw ValueError(std::string(optimizer) + ": " + what + " is " + std::to_string(value) + ". Give " + allowed + ".");
}
void check_not_negative(const char* optimizer, const char* what, double value) { require(optimizer, what, value, value >= 0, "0 or more"); }
template <class Options> void check_adam(const char* optimizer, const Options& o) {
  check_not_negative(optimizer, "lr", o.lr());
  check_not_negative(optimizer, "eps", o.eps());
  check_not_negative(optimizer, "weight_decay", o.weight_decay());
  const auto [b1, b2] = o.betas();
  require(optimizer, "the first beta", b1, b1 >= 0 && b1 < 1, "at least 0 and less than 1");
  require(optimizer, "the second beta", b2, b2 >= 0 && b2 < 1, "at least 0 and less than 1");
}

// Adam and AdamW differ only in what weight decay does before.
template <class Options> void adam_update(Tensor& p, const Tensor& grad, ParamState& s, const Options& o) {
  const auto [beta1, beta2] = o.betas();
  if (!s.exp_avg.defined()) {
    s.exp_avg = zeros_like(p);
    s.exp_avg_sq = zeros_like(p);
  }
  if (o.amsgrad() && !s.max_exp_avg_sq.defined()) s.max_exp_avg_sq = zeros_like(p);
  const double correction1 = 1 - std::pow(beta1, double(s.step)), correction2 = 1 - std::pow(beta2, double(s.step));
  s.exp_avg.mul_(Scalar(beta1)).add_(grad, Scalar(1 - beta1));
  s.exp_avg_sq.mul_(Scalar(beta2)).addcmul_(grad, grad, Scalar(1 - beta2));
  if (o.amsgrad()) s.max_exp_avg_sq.maximum_(s.exp_avg_sq);
  const Tensor& second = o.amsgrad() ? s.max_exp_avg_sq : s.exp_avg_sq;
  Tensor denominator = second.sqrt().div_(Scalar(std::sqrt(correction2))).add_(Scalar(o.eps()));
  p.addcdiv_(s.exp_avg, denominator, Scalar(-(o.lr() / correction1)));
}

}  // namespace

void SGD::check(const OptimizerOptions& options) const {
  const auto& o = static_cast<const SGDOptions&>(options);
  check_not_negative(name_, "lr", o.lr());
  check_not_negative(name_, "momentum", o.momentum());
  check_not_negative(name_, "weight_decay", o.weight_decay());
  if (o.nesterov() && (o.momentum() <= 0 || o.dampening() != 0)) throw ValueError("SGD: Nesterov momentum needs a momentum and no dampening. Set momentum above 0 and dampening to 0.");
}
void SGD::update(Tensor& p, Tensor grad, ParamState& s, const OptimizerOptions& options) {
  const auto& o = static_cast<const SGDOptions&>(options);
  if (o.weight_decay() != 0) grad = grad.add(p, Scalar(o.weight_decay()));
  if (o.momentum() != 0) {
    if (!s.momentum_buffer.defined()) s.momentum_buffer = grad.clone();
    else s.momentum_buffer.mul_(Scalar(o.momentum())).add_(grad, Scalar(1 - o.dampening()));
    grad = o.nesterov() ? grad.add(s.momentum_buffer, Scalar(o.momentum())) : s.momentum_buffer;
  }
  p.add_(grad, Scalar(-o.lr()));
}

void Adam::check(const OptimizerOptions& options) const { check_adam(name_, static_cast<const AdamOptions&>(options)); }
void Adam::update(Tensor& p, Tensor grad, ParamState& s, const OptimizerOptions& options) {
  const auto& o = static_cast<const AdamOptions&>(options);
  if (o.weight_decay() != 0) grad = grad.add(p, Scalar(o.weight_decay()));
  adam_update(p, grad, s, o);
}

void AdamW::check(const OptimizerOptions& options) const { check_adam(name_, static_cast<const AdamWOptions&>(options)); }
void AdamW::update(Tensor& p, Tensor grad, ParamState& s, const OptimizerOptions& options) {
  const auto& o = static_cast<const AdamWOptions&>(options);
  if (o.weight_decay() != 0) p.mul_(Scalar(1 - o.lr() * o.weight_decay()));
  adam_update(p, grad, s, o);
}

void RMSprop::check(const OptimizerOptions& options) const {
  const auto& o = static_cast<const RMSpropOptions&>(options);
  check_not_negative(name_, "lr", o.lr());
  check_not_negative(name_, "alpha", o.alpha());
  check_not_negative(name_, "eps", o.eps());
  check_not_negative(name_, "momentum", o.momentum());
  check_not_negative(name_, "weight_decay", o.weight_decay());
}
void RMSprop::update(Tensor& p, Tensor grad, ParamState& s, const OptimizerOptions& options) {
  const auto& o = static_cast<const RMSpropOptions&>(options);
  if (o.weight_decay() != 0) grad = grad.add(p, Scalar(o.weight_decay()));
  if (!s.square_avg.defined()) s.square_avg = zeros_like(p);
  s.square_avg.mul_(Scalar(o.alpha())).addcmul_(grad, grad, Scalar(1 - o.alpha()));
  Tensor average;
  if (o.centered()) {
    if (!s.grad_avg.defined()) s.grad_avg = zeros_like(p);
    s.grad_avg.mul_(Scalar(o.alpha())).add_(grad, Scalar(1 - o.alpha()));
    average = s.square_avg.addcmul(s.grad_avg, s.grad_avg, Scalar(-1)).sqrt_().add_(Scalar(o.eps()));
  } else {
    average = s.square_avg.sqrt().add_(Scalar(o.eps()));
  }
  if (o.momentum() > 0) {
    if (!s.momentum_buffer.defined()) s.momentum_buffer = zeros_like(p);
    s.momentum_buffer.mul_(Scalar(o.momentum())).addcdiv_(grad, average);
    p.add_(s.momentum_buffer, Scalar(-o.lr()));
  } else {
    p.addcdiv_(grad, average, Scalar(-o.lr()));
  }
}

}  // namespace frit::optim
