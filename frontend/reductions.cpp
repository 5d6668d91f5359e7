// Reductions and what is made of them: sums, means, variances, norms, extremes, softmax and its kin. Half formats compute
// inside in Float32 and round once. Start at reduced.
#include <cmath>
#include <limits>
#include "frit/autograd.h"
#include "frontend/detail.h"
#include "runtime/error.h"

namespace frit {

using namespace detail;
using tracer::ReduceOp;

namespace {
Tensor reduced(ReduceOp op, const Tensor& t, OptionalIntArrayRef axes, bool keepdim, const char* name) {
  return tracer::reduce(op, t, axis_mask(axes, t.dim(), name), keepdim);
}
// Before a reduction and after it: sums of whole numbers are Int64 unless a type is asked for.
Tensor typed(const Tensor& t, std::optional<Dtype> type) { return type ? t.to(*type) : t; }
int64_t count_of(const Tensor& t, uint64_t mask) {
  int64_t n = 1;
  for (int64_t i = 0; i < t.dim(); ++i)
    if (mask >> i & 1) n *= t.sizes()[i];
  return n;
}
Tensor nothing_means_all(const Tensor& t, ReduceOp op, std::optional<int64_t> axis, bool keepdim, const char* name) {
  if (axis) return tracer::reduce(op, t, axis_mask(IntArrayRef(*axis), t.dim(), name), keepdim);
  return tracer::reduce(op, t, axis_mask(std::nullopt, t.dim(), name), keepdim);
}
void need_floating(const Tensor& t, const char* op) {
  if (!t.is_floating_point()) throw DtypeError(std::string(op) + ": the tensor holds " + dtype_name(t.dtype()) + "; a floating type is needed. Convert with to(kFloat32).");
}
}  // namespace

Tensor Tensor::sum(std::optional<Dtype> type) const { return sum(std::nullopt, false, type); }
Tensor Tensor::sum(OptionalIntArrayRef axes, bool keepdim, std::optional<Dtype> type) const {
  return typed(reduced(ReduceOp::sum, typed(*this, type), axes, keepdim, "sum"), type);
}
Tensor Tensor::mean(std::optional<Dtype> type) const {
  const UserCall call("mean", {this});
  return mean(std::nullopt, false, type);
}
Tensor Tensor::mean(OptionalIntArrayRef axes, bool keepdim, std::optional<Dtype> type) const {
  const UserCall call("mean", {this});
  const Tensor t = typed(*this, type);
  need_floating(t, "mean");
  if (is_half(t.dtype())) return t.to(kFloat32).mean(axes, keepdim).to(t.dtype());
  return t.sum(axes, keepdim).div(Scalar(double(count_of(t, axis_mask(axes, t.dim(), "mean")))));
}
Tensor Tensor::nansum() const {
  const UserCall call("nansum", {this});
  return nansum(std::nullopt);
}
Tensor Tensor::nansum(OptionalIntArrayRef axes, bool keepdim, std::optional<Dtype> type) const {
  const UserCall call("nansum", {this});
  return is_floating_point() ? frit::where(isnan(), Scalar(0), *this).sum(axes, keepdim, type) : sum(axes, keepdim, type);
}
Tensor Tensor::nanmean(OptionalIntArrayRef axes, bool keepdim, std::optional<Dtype> type) const {
  const UserCall call("nanmean", {this});
  need_floating(*this, "nanmean");
  return nansum(axes, keepdim, type).div(isnan().logical_not().sum(axes, keepdim));
}
Tensor Tensor::prod(std::optional<Dtype> type) const { return typed(reduced(ReduceOp::prod, typed(*this, type), std::nullopt, false, "prod"), type); }
Tensor Tensor::prod(int64_t axis, bool keepdim, std::optional<Dtype> type) const { return typed(reduced(ReduceOp::prod, typed(*this, type), IntArrayRef(axis), keepdim, "prod"), type); }
Tensor Tensor::amax(IntArrayRef axes, bool keepdim) const { return reduced(ReduceOp::amax, *this, axes, keepdim, "amax"); }
Tensor Tensor::amin(IntArrayRef axes, bool keepdim) const { return reduced(ReduceOp::amin, *this, axes, keepdim, "amin"); }
Tensor Tensor::max() const {
  const UserCall call("max", {this});
  return reduced(ReduceOp::amax, *this, std::nullopt, false, "max");
}
Tensor Tensor::min() const {
  const UserCall call("min", {this});
  return reduced(ReduceOp::amin, *this, std::nullopt, false, "min");
}
namespace {
// The values are those at the indices, so that gradients go to one element each, as in LibTorch.
std::tuple<Tensor, Tensor> extreme_with_index(const Tensor& t, ReduceOp op, int64_t axis, bool keepdim, const char* name) {
  if (t.dim() == 0) return {t.clone(), Tensor(tracer::full({}, 0, kInt64))};
  const int a = wrap_axis(axis, t.dim(), name);
  const Tensor index = tracer::reduce(op, t, uint64_t(1) << a, true), value = t.gather(a, index);
  return keepdim ? std::tuple{value, index} : std::tuple{value.squeeze(a), index.squeeze(a)};
}
}  // namespace
std::tuple<Tensor, Tensor> Tensor::max(int64_t axis, bool keepdim) const {
  const UserCall call("max", {this});
  return extreme_with_index(*this, ReduceOp::argmax, axis, keepdim, "max");
}
std::tuple<Tensor, Tensor> Tensor::min(int64_t axis, bool keepdim) const {
  const UserCall call("min", {this});
  return extreme_with_index(*this, ReduceOp::argmin, axis, keepdim, "min");
}
Tensor Tensor::argmax(std::optional<int64_t> axis, bool keepdim) const {
  const UserCall call("argmax", {this});
  return nothing_means_all(*this, ReduceOp::argmax, axis, keepdim, "argmax");
}
Tensor Tensor::argmin(std::optional<int64_t> axis, bool keepdim) const {
  const UserCall call("argmin", {this});
  return nothing_means_all(*this, ReduceOp::argmin, axis, keepdim, "argmin");
}
Tensor Tensor::any() const { return nothing_means_all(*this, ReduceOp::any, std::nullopt, false, "any"); }
Tensor Tensor::any(int64_t axis, bool keepdim) const { return nothing_means_all(*this, ReduceOp::any, axis, keepdim, "any"); }
Tensor Tensor::any(OptionalIntArrayRef axes, bool keepdim) const { return reduced(ReduceOp::any, *this, axes, keepdim, "any"); }
Tensor Tensor::all(OptionalIntArrayRef axes, bool keepdim) const { return reduced(ReduceOp::all, *this, axes, keepdim, "all"); }
std::tuple<Tensor, Tensor> Tensor::aminmax(std::optional<int64_t> axis, bool keepdim) const {
  return {nothing_means_all(*this, ReduceOp::amin, axis, keepdim, "aminmax"), nothing_means_all(*this, ReduceOp::amax, axis, keepdim, "aminmax")};
}
Tensor Tensor::all() const { return nothing_means_all(*this, ReduceOp::all, std::nullopt, false, "all"); }
Tensor Tensor::all(int64_t axis, bool keepdim) const { return nothing_means_all(*this, ReduceOp::all, axis, keepdim, "all"); }
// ---- variances -----------------------------------------------------------------------------------------------------------
namespace {
Tensor variance(const Tensor& t, const Tensor& average, OptionalIntArrayRef axes, double correction, bool keepdim) {
  const int64_t n = count_of(t, axis_mask(axes, t.dim(), "var"));
  return t.sub(average).square().sum(axes, keepdim).div(Scalar(std::max(0.0, double(n) - correction)));
}
// Its derivative at 0 is taken as 0, where that of sqrt is infinite.
Tensor root(const Tensor& t) {
  if (!AutoGradMode::is_enabled() || !t.requires_grad()) return t.sqrt();
  const Tensor zero = t.eq(Scalar(0));
  return frit::where(zero, Scalar(0.0), frit::where(zero, Scalar(1.0), t).sqrt());
}
Tensor var_of(const Tensor& t, OptionalIntArrayRef axes, double correction, bool keepdim) {
  need_floating(t, "var");
  if (is_half(t.dtype())) return var_of(t.to(kFloat32), axes, correction, keepdim).to(t.dtype());
  return variance(t, t.mean(axes, true), axes, correction, keepdim);
}
// In Float64 inside: the squares of small deviations do not vanish, nor those of large ones overflow.
Tensor std_of(const Tensor& t, OptionalIntArrayRef axes, double correction, bool keepdim) {
  need_floating(t, "std");
  return root(var_of(t.to(kFloat64), axes, correction, keepdim)).to(t.dtype());
}
double correction_of(const std::optional<Scalar>& c) { return c ? c->to_double() : 1; }
}  // namespace
Tensor Tensor::var(OptionalIntArrayRef axes, const std::optional<Scalar>& correction, bool keepdim) const {
  const UserCall call("var", {this});
  return var_of(*this, axes, correction_of(correction), keepdim);
}
Tensor Tensor::std(OptionalIntArrayRef axes, const std::optional<Scalar>& correction, bool keepdim) const {
  const UserCall call("std", {this});
  return std_of(*this, axes, correction_of(correction), keepdim);
}
std::tuple<Tensor, Tensor> var_mean(const Tensor& a, OptionalIntArrayRef axes, const std::optional<Scalar>& correction, bool keepdim) { return {a.var(axes, correction, keepdim), a.mean(axes, keepdim)}; }
std::tuple<Tensor, Tensor> std_mean(const Tensor& a, OptionalIntArrayRef axes, const std::optional<Scalar>& correction, bool keepdim) { return {a.std(axes, correction, keepdim), a.mean(axes, keepdim)}; }

// ---- norms ---------------------------------------------------------------------------------------------------------------
Tensor Tensor::norm(const Scalar& p) const {
  const UserCall call("norm", {this});
  return norm(p, {}, false);
}
Tensor Tensor::norm(const std::optional<Scalar>& p, IntArrayRef axes, bool keepdim, std::optional<Dtype> type) const {
  const UserCall call("norm", {this});
  const Tensor t = typed(*this, type);
  need_floating(t, "norm");
  if (is_half(t.dtype())) return t.to(kFloat32).norm(p, axes, keepdim).to(t.dtype());
  const double power = p ? p->to_double() : 2;
  const OptionalIntArrayRef over = axes.empty() ? OptionalIntArrayRef() : OptionalIntArrayRef(axes);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (power == 2) return root(t.square().sum(over, keepdim));
  if (power == 1) return t.abs().sum(over, keepdim);
  if (power == infinity) return t.abs().amax(axes, keepdim);
  if (power == -infinity) return t.abs().amin(axes, keepdim);
  if (power == 0) return t.ne(Scalar(0)).to(t.dtype()).sum(over, keepdim);
  const Tensor total = t.abs().pow(*p).sum(over, keepdim);
  if (!AutoGradMode::is_enabled() || !total.requires_grad()) return total.pow(Scalar(1 / power));
  const Tensor zero = total.eq(Scalar(0));
  return frit::where(zero, Scalar(power > 0 ? 0.0 : infinity), frit::where(zero, Scalar(1.0), total).pow(Scalar(1 / power)));
}

// ---- softmax and its kin -----------------------------------------------------------------------------------------------------
namespace {
// The maximum to subtract: 0 where it is infinite, so that rows of -inf keep their value and +inf gives NaN or inf as it should.
Tensor row_maximum(const Tensor& t, IntArrayRef axes) {
  NoGradGuard no_grad;
  return t.detach().amax(axes, true);
}
}  // namespace
Tensor Tensor::logsumexp(IntArrayRef axes, bool keepdim) const {
  const UserCall call("logsumexp", {this});
  cell_of(*this, "logsumexp");
  if (!is_floating_point()) return to(kFloat32).logsumexp(axes, keepdim);
  if (is_half(dtype())) return to(kFloat32).logsumexp(axes, keepdim).to(dtype());
  const uint64_t mask = axis_mask(axes, dim(), "logsumexp");
  if (dim() == 0) return clone();
  bool nothing = false;
  Sizes e;
  for (int64_t i = 0; i < dim(); ++i) {
    if (!(mask >> i & 1)) e.push_back(sizes()[i]);
    else nothing |= sizes()[i] == 0;
  }
  if (nothing) return exp().sum(axes, keepdim).log();  // of no elements: minus infinity
  const Tensor high = row_maximum(*this, axes), safe = frit::where(high.isfinite(), high, Scalar(0));
  const Tensor total = sub(safe).exp().sum(axes, true).log().add(safe);
  return keepdim ? total : total.reshape(e);
}
// Half formats compute inside in float32 and round once.
Tensor Tensor::softmax(int64_t axis, std::optional<Dtype> type) const {
  const UserCall call("softmax", {this});
  const Tensor t = typed(*this, type);
  need_floating(t, "softmax");
  if (is_half(t.dtype())) return t.to(kFloat32).softmax(axis).to(t.dtype());
  if (t.dim() == 0) return t.sub(t).exp();
  const int64_t a = wrap_axis(axis, t.dim(), "softmax");
  if (t.sizes()[a] == 0) return t.clone();
  const Tensor e = t.sub(row_maximum(t, a)).exp();
  return e.div(e.sum(a, true));
}
Tensor Tensor::log_softmax(int64_t axis, std::optional<Dtype> type) const {
  const UserCall call("log_softmax", {this});
  const Tensor t = typed(*this, type);
  need_floating(t, "log_softmax");
  if (is_half(t.dtype())) return t.to(kFloat32).log_softmax(axis).to(t.dtype());
  if (t.dim() == 0) return t.sub(t);
  const int64_t a = wrap_axis(axis, t.dim(), "log_softmax");
  if (t.sizes()[a] == 0) return t.clone();
  const Tensor centered = t.sub(row_maximum(t, a));
  return centered.sub(centered.exp().sum(a, true).log());
}
Tensor Tensor::trace() const {
  const UserCall call("trace", {this});
  if (dim() != 2) throw ShapeError("trace: the tensor has shape " + shape_text(sizes()) + ". A matrix is needed.");
  return diagonal().sum();
}
Tensor Tensor::count_nonzero() const { return ne(Scalar(0)).sum(); }
Tensor Tensor::count_nonzero(int64_t axis) const { return ne(Scalar(0)).sum(axis); }
Tensor Tensor::count_nonzero(IntArrayRef axes) const { return ne(Scalar(0)).sum(axes); }
bool Tensor::equal(const Tensor& o) const { return sizes() == o.sizes() && eq(o).all().item<bool>(); }
Tensor Tensor::isclose(const Tensor& o, double rtol, double atol, bool equal_nan) const {
  if (!is_floating_point() && !o.is_floating_point()) {
    if (rtol == 0 && atol == 0) return eq(o);
    return to(kFloat64).isclose(o.to(kFloat64), rtol, atol);
  }
  const Tensor near = eq(o).logical_or(sub(o).abs().le(o.abs().mul(rtol).add(atol)).logical_and(o.isfinite()));
  return equal_nan ? near.logical_or(isnan().logical_and(o.isnan())) : near;
}
bool Tensor::allclose(const Tensor& o, double rtol, double atol, bool equal_nan) const { return isclose(o, rtol, atol, equal_nan).all().item<bool>(); }

}  // namespace frit
