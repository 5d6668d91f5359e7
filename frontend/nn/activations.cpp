// Activations and distances, each a line of the table's ops; and how the modules print.
#include "frit/nn/activations.h"
#include <ostream>
#include "frit/functions.h"
#include "frontend/detail.h"

namespace frit::nn {

using frit::detail::shape_text;

namespace functional {
namespace {
Tensor placed(Tensor& input, const Tensor& result, bool in_place) { return in_place ? input.copy_(result) : result; }
}  // namespace
Tensor elu(Tensor input, const ELUFuncOptions& o) { return placed(input, input.elu(Scalar(o.alpha())), o.inplace()); }
Tensor selu(Tensor input, const SELUFuncOptions& o) { return placed(input, frit::selu(input), o.inplace()); }
Tensor celu(Tensor input, const CELUFuncOptions& o) { return placed(input, frit::celu(input, Scalar(o.alpha())), o.inplace()); }
Tensor relu6(Tensor input, const ReLU6FuncOptions& o) { return o.inplace() ? input.relu6_() : input.relu6(); }
Tensor softplus(const Tensor& input, const SoftplusFuncOptions& o) { return input.softplus(Scalar(o.beta()), Scalar(o.threshold())); }
Tensor hardtanh(Tensor input, const HardtanhFuncOptions& o) {
  if (o.min_val() > o.max_val()) throw ValueError("hardtanh: min_val " + std::to_string(o.min_val()) + " is above max_val " + std::to_string(o.max_val()) + ". Exchange them.");
  return o.inplace() ? input.clamp_(Scalar(o.min_val()), Scalar(o.max_val())) : input.clamp(Scalar(o.min_val()), Scalar(o.max_val()));
}
Tensor hardswish(const Tensor& input) { return input.hardswish(); }
Tensor hardsigmoid(const Tensor& input) { return frit::hardsigmoid(input); }
Tensor mish(const Tensor& input) { return input.mish(); }
Tensor logsigmoid(const Tensor& input) { return frit::log_sigmoid(input); }
Tensor softsign(const Tensor& input) { return input.div(input.abs().add(Scalar(1.0))); }
Tensor tanhshrink(const Tensor& input) { return input.sub(input.tanh()); }
Tensor prelu(const Tensor& input, const Tensor& weight) { return frit::prelu(input, weight); }
Tensor glu(const Tensor& input, const GLUFuncOptions& o) {
  const int axis = frit::detail::wrap_axis(o.dim(), input.dim(), "glu");
  const int64_t n = input.size(axis);
  if (n % 2) throw ShapeError("glu: axis " + std::to_string(axis) + " of the input's shape " + shape_text(input.sizes()) + " is not even, so it has no halves. Choose another axis.");
  return input.narrow(axis, 0, n / 2).mul(input.narrow(axis, n / 2, n / 2).sigmoid());
}
Tensor normalize(const Tensor& input, const NormalizeFuncOptions& o) {
  return input.div(input.norm(Scalar(o.p()), IntArrayRef(o.dim()), true).clamp_min(Scalar(o.eps())));
}
Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineSimilarityFuncOptions& o) {
  const Scalar eps(o.eps());
  const IntArrayRef axis(o.dim());
  const Tensor x = a.norm(Scalar(2), axis).clamp_min(eps), y = b.norm(Scalar(2), axis).clamp_min(eps);
  return a.mul(b).sum(axis).div(x.mul(y));
}
Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseDistanceFuncOptions& o) {
  return a.sub(b).add(Scalar(o.eps())).norm(Scalar(o.p()), IntArrayRef(int64_t(-1)), o.keepdim());
}
}  // namespace functional

PReLUImpl::PReLUImpl(const PReLUOptions& o) : options(o) { PReLUImpl::reset(); }
void PReLUImpl::reset() {
  if (options.num_parameters() < 1) throw ValueError("PReLU: " + std::to_string(options.num_parameters()) + " parameters. Give 1, or one for each channel.");
  weight = register_parameter("weight", full({options.num_parameters()}, Scalar(options.init())));
}

namespace {
const char* flag(bool on) { return on ? "true" : "false"; }
}  // namespace
void ELUImpl::pretty_print(std::ostream& s) const { s << "frit::nn::ELU(alpha=" << options.alpha() << (options.inplace() ? ", inplace=true" : "") << ")"; }
void SELUImpl::pretty_print(std::ostream& s) const { s << "frit::nn::SELU(" << (options.inplace() ? "inplace=true" : "") << ")"; }
void CELUImpl::pretty_print(std::ostream& s) const { s << "frit::nn::CELU(alpha=" << options.alpha() << (options.inplace() ? ", inplace=true" : "") << ")"; }
void ReLU6Impl::pretty_print(std::ostream& s) const { s << "frit::nn::ReLU6(" << (options.inplace() ? "inplace=true" : "") << ")"; }
void SoftplusImpl::pretty_print(std::ostream& s) const { s << "frit::nn::Softplus(beta=" << options.beta() << ", threshold=" << options.threshold() << ")"; }
void HardtanhImpl::pretty_print(std::ostream& s) const { s << "frit::nn::Hardtanh(min_val=" << options.min_val() << ", max_val=" << options.max_val() << ", inplace=" << flag(options.inplace()) << ")"; }
void GLUImpl::pretty_print(std::ostream& s) const { s << "frit::nn::GLU(dim=" << options.dim() << ")"; }
void HardswishImpl::pretty_print(std::ostream& s) const { s << "frit::nn::Hardswish()"; }
void HardsigmoidImpl::pretty_print(std::ostream& s) const { s << "frit::nn::Hardsigmoid()"; }
void MishImpl::pretty_print(std::ostream& s) const { s << "frit::nn::Mish()"; }
void LogSigmoidImpl::pretty_print(std::ostream& s) const { s << "frit::nn::LogSigmoid()"; }
void SoftsignImpl::pretty_print(std::ostream& s) const { s << "frit::nn::Softsign()"; }
void TanhshrinkImpl::pretty_print(std::ostream& s) const { s << "frit::nn::Tanhshrink()"; }
void PReLUImpl::pretty_print(std::ostream& s) const { s << "frit::nn::PReLU(num_parameters=" << options.num_parameters() << ")"; }
void CosineSimilarityImpl::pretty_print(std::ostream& s) const { s << "frit::nn::CosineSimilarity(dim=" << options.dim() << ", eps=" << options.eps() << ")"; }

}  // namespace frit::nn
