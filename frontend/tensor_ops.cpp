// Pointwise members and functions (generated from the op table), reductions, softmax and its kin, products.
#include <cmath>
#include <limits>
#include "frit/autograd.h"
#include "frontend/detail.h"
#include "runtime/error.h"

namespace frit {

using namespace detail;
using tracer::Op;
using tracer::Operand;
using tracer::ReduceOp;

// ---- the rows ---------------------------------------------------------------------------------------------------------
#define UNARY(name, ...)                                                              \
  Tensor Tensor::name() const { return tracer::emit_pointwise(Op::name, {*this}); }   \
  Tensor& Tensor::name##_() {                                                         \
    tracer::emit_pointwise_(Op::name, *this, {});                                     \
    return *this;                                                                     \
  }
#define BINARY(name, ...)                                                                                \
  Tensor Tensor::name(const Tensor& o) const { return tracer::emit_pointwise(Op::name, {*this, o}); }    \
  Tensor Tensor::name(const Scalar& o) const { return tracer::emit_pointwise(Op::name, {*this, o}); }    \
  Tensor& Tensor::name##_(const Tensor& o) {                                                             \
    tracer::emit_pointwise_(Op::name, *this, {o});                                                       \
    return *this;                                                                                        \
  }                                                                                                      \
  Tensor& Tensor::name##_(const Scalar& o) {                                                             \
    tracer::emit_pointwise_(Op::name, *this, {o});                                                       \
    return *this;                                                                                        \
  }                                                                                                      \
  Tensor name(const Scalar& a, const Tensor& b) { return tracer::emit_pointwise(Op::name, {a, b}); }
#define HIDDEN_BINARY(...)
#include "tracer/ops.def"

namespace {
bool is_one(const Scalar& s) { return s.to_double() == 1; }
Tensor scaled(const Tensor& t, const Scalar& alpha) { return is_one(alpha) ? t : t.mul(alpha); }
}  // namespace

Tensor Tensor::add(const Tensor& o, const Scalar& alpha) const { return add(scaled(o, alpha)); }
Tensor& Tensor::add_(const Tensor& o, const Scalar& alpha) { return add_(scaled(o, alpha)); }
Tensor Tensor::sub(const Tensor& o, const Scalar& alpha) const { return sub(scaled(o, alpha)); }
Tensor& Tensor::sub_(const Tensor& o, const Scalar& alpha) { return sub_(scaled(o, alpha)); }
Tensor Tensor::div(const Tensor& o, const std::optional<std::string>& mode) const {
  if (!mode) return div(o);
  if (*mode == "floor") return floor_divide(o);
  if (*mode == "trunc") return trunc_divide(o);
  throw ValueError("div: rounding_mode \"" + *mode + "\" is not known. Use \"floor\" or \"trunc\".");
}
Tensor Tensor::div(const Scalar& o, const std::optional<std::string>& mode) const { return div(Tensor(tracer::full({}, o, o.category() == handle::Category::floating ? kFloat64 : kInt64)), mode); }
Tensor Tensor::clamp(std::optional<Scalar> low, std::optional<Scalar> high) const {
  if (!low && !high) throw ValueError("clamp: neither a lower nor an upper bound is given. Give at least one.");
  if (low && high) return tracer::clamp(*this, *low, *high);
  return low ? tracer::maximum(*this, *low) : tracer::minimum(*this, *high);
}
Tensor& Tensor::clamp_(std::optional<Scalar> low, std::optional<Scalar> high) {
  if (!low && !high) throw ValueError("clamp_: neither a lower nor an upper bound is given. Give at least one.");
  if (low) tracer::emit_pointwise_(Op::maximum, *this, {*low});
  if (high) tracer::emit_pointwise_(Op::minimum, *this, {*high});
  return *this;
}
Tensor Tensor::gelu(const std::string& approximate) const {
  if (approximate == "none") return gelu();
  if (approximate == "tanh") return gelu_tanh();
  throw ValueError("gelu: approximation \"" + approximate + "\" is not known. Use \"none\" or \"tanh\".");
}
Tensor Tensor::lerp(const Tensor& end, const Scalar& w) const { return tracer::lerp(*this, end, w); }
Tensor Tensor::lerp(const Tensor& end, const Tensor& w) const { return tracer::lerp(*this, end, w); }
Tensor& Tensor::lerp_(const Tensor& end, const Scalar& w) {
  tracer::emit_pointwise_(Op::lerp, *this, {end, w});
  return *this;
}
Tensor Tensor::where(const Tensor& condition, const Tensor& other) const { return tracer::where(condition, *this, other); }
Tensor where(const Tensor& c, const Tensor& a, const Tensor& b) { return tracer::where(c, a, b); }
Tensor where(const Tensor& c, const Scalar& a, const Tensor& b) { return tracer::where(c, a, b); }
Tensor where(const Tensor& c, const Tensor& a, const Scalar& b) { return tracer::where(c, a, b); }
Tensor where(const Tensor& c, const Scalar& a, const Scalar& b) { return tracer::where(c, a, b); }
Tensor Tensor::addcmul(const Tensor& a, const Tensor& b, const Scalar& value) const { return tracer::addcmul(*this, a, scaled(b, value)); }
Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, const Scalar& value) { return add_(a.mul(b).mul(value)); }
Tensor Tensor::addcdiv(const Tensor& a, const Tensor& b, const Scalar& value) const { return add(a.mul(value).div(b)); }
Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, const Scalar& value) { return add_(a.mul(value).div(b)); }
Tensor Tensor::nan_to_num(double nan, std::optional<double> inf) const {
  if (!is_floating_point()) return clone();
  const double largest = dtype() == kFloat64 ? std::numeric_limits<double>::max() : dtype() == kFloat16 ? 65504.0 : dtype() == kBFloat16 ? 0x1.fep127 : double(std::numeric_limits<float>::max());
  return tracer::nan_to_num(*this, nan, inf.value_or(largest));
}

// ---- reductions -----------------------------------------------------------------------------------------------------------
namespace {
Tensor reduced(ReduceOp op, const Tensor& t, OptionalIntArrayRef axes, bool keepdim, const char* name) {
  return tracer::reduce(op, t, axis_mask(axes, t.dim(), name), keepdim);
}
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
  return reduced(ReduceOp::sum, typed(*this, type), axes, keepdim, "sum");
}
Tensor Tensor::mean(std::optional<Dtype> type) const { return mean(std::nullopt, false, type); }
Tensor Tensor::mean(OptionalIntArrayRef axes, bool keepdim, std::optional<Dtype> type) const {
  const Tensor t = typed(*this, type);
  need_floating(t, "mean");
  return t.sum(axes, keepdim).div(Scalar(double(count_of(t, axis_mask(axes, t.dim(), "mean")))));
}
Tensor Tensor::nansum() const { return frit::where(isnan(), Scalar(0), *this).sum(); }
Tensor Tensor::prod() const { return reduced(ReduceOp::prod, *this, std::nullopt, false, "prod"); }
Tensor Tensor::prod(int64_t axis, bool keepdim) const { return reduced(ReduceOp::prod, *this, IntArrayRef(axis), keepdim, "prod"); }
Tensor Tensor::amax(IntArrayRef axes, bool keepdim) const { return reduced(ReduceOp::amax, *this, axes, keepdim, "amax"); }
Tensor Tensor::amin(IntArrayRef axes, bool keepdim) const { return reduced(ReduceOp::amin, *this, axes, keepdim, "amin"); }
Tensor Tensor::max() const { return reduced(ReduceOp::amax, *this, std::nullopt, false, "max"); }
Tensor Tensor::min() const { return reduced(ReduceOp::amin, *this, std::nullopt, false, "min"); }
namespace {
// The values are those at the indices, so that gradients go to one element each, as in LibTorch.
std::tuple<Tensor, Tensor> extreme_with_index(const Tensor& t, ReduceOp op, int64_t axis, bool keepdim, const char* name) {
  if (t.dim() == 0) return {t.clone(), Tensor(tracer::full({}, 0, kInt64))};
  const int a = wrap_axis(axis, t.dim(), name);
  const Tensor index = tracer::reduce(op, t, uint64_t(1) << a, true), value = t.gather(a, index);
  return keepdim ? std::tuple{value, index} : std::tuple{value.squeeze(a), index.squeeze(a)};
}
}  // namespace
std::tuple<Tensor, Tensor> Tensor::max(int64_t axis, bool keepdim) const { return extreme_with_index(*this, ReduceOp::argmax, axis, keepdim, "max"); }
std::tuple<Tensor, Tensor> Tensor::min(int64_t axis, bool keepdim) const { return extreme_with_index(*this, ReduceOp::argmin, axis, keepdim, "min"); }
Tensor Tensor::argmax(std::optional<int64_t> axis, bool keepdim) const { return nothing_means_all(*this, ReduceOp::argmax, axis, keepdim, "argmax"); }
Tensor Tensor::argmin(std::optional<int64_t> axis, bool keepdim) const { return nothing_means_all(*this, ReduceOp::argmin, axis, keepdim, "argmin"); }
Tensor Tensor::any() const { return nothing_means_all(*this, ReduceOp::any, std::nullopt, false, "any"); }
Tensor Tensor::any(int64_t axis, bool keepdim) const { return nothing_means_all(*this, ReduceOp::any, axis, keepdim, "any"); }
Tensor Tensor::all() const { return nothing_means_all(*this, ReduceOp::all, std::nullopt, false, "all"); }
Tensor Tensor::all(int64_t axis, bool keepdim) const { return nothing_means_all(*this, ReduceOp::all, axis, keepdim, "all"); }
Tensor Tensor::var(bool unbiased) const { return var(std::nullopt, unbiased); }
Tensor Tensor::var(OptionalIntArrayRef axes, bool unbiased, bool keepdim) const {
  need_floating(*this, "var");
  const int64_t n = count_of(*this, axis_mask(axes, dim(), "var"));
  const Tensor centered = sub(mean(axes, true));
  return centered.square().sum(axes, keepdim).div(Scalar(double(std::max<int64_t>(0, n - unbiased))));
}
Tensor Tensor::std(bool unbiased) const { return var(unbiased).sqrt(); }
Tensor Tensor::std(OptionalIntArrayRef axes, bool unbiased, bool keepdim) const { return var(axes, unbiased, keepdim).sqrt(); }
Tensor Tensor::norm(const Scalar& p) const { return norm(p, {}, false); }
Tensor Tensor::norm(const Scalar& p, IntArrayRef axes, bool keepdim) const {
  need_floating(*this, "norm");
  const double power = p.to_double();
  const OptionalIntArrayRef over = axes.empty() ? OptionalIntArrayRef() : OptionalIntArrayRef(axes);
  if (power == 2) return square().sum(over, keepdim).sqrt();
  if (power == 1) return abs().sum(over, keepdim);
  if (power == std::numeric_limits<double>::infinity()) return abs().amax(axes, keepdim);
  if (power == -std::numeric_limits<double>::infinity()) return abs().amin(axes, keepdim);
  if (power == 0) return ne(Scalar(0)).to(dtype()).sum(over, keepdim);
  return abs().pow(p).sum(over, keepdim).pow(Scalar(1 / power));
}
namespace {
// The maximum to subtract: 0 where it is infinite, so that rows of -inf keep their value and +inf gives NaN or inf as it should.
Tensor row_maximum(const Tensor& t, IntArrayRef axes) {
  NoGradGuard no_grad;
  return t.detach().amax(axes, true);
}
}  // namespace
Tensor Tensor::logsumexp(IntArrayRef axes, bool keepdim) const {
  need_floating(*this, "logsumexp");
  if (dim() == 0) return clone();
  const Tensor high = row_maximum(*this, axes), safe = frit::where(high.isfinite(), high, Scalar(0));
  const Tensor total = sub(safe).exp().sum(axes, true).log().add(safe);
  if (keepdim) return total;
  Sizes e;
  const uint64_t mask = axis_mask(axes, dim(), "logsumexp");
  for (int64_t i = 0; i < dim(); ++i)
    if (!(mask >> i & 1)) e.push_back(sizes()[i]);
  return total.reshape(e);
}
// Half formats compute inside in float32 and round once.
Tensor Tensor::softmax(int64_t axis, std::optional<Dtype> type) const {
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
  if (dim() != 2) throw ShapeError("trace: the tensor has shape " + shape_text(sizes()) + ". A matrix is needed.");
  return diagonal().sum();
}
Tensor Tensor::count_nonzero() const { return ne(Scalar(0)).sum(); }
bool Tensor::equal(const Tensor& o) const { return sizes() == o.sizes() && eq(o).all().item<bool>(); }
bool Tensor::allclose(const Tensor& o, double rtol, double atol, bool equal_nan) const {
  if (!is_floating_point()) return eq(o).all().item<bool>();
  const Tensor near = eq(o).logical_or(sub(o).abs().le(o.abs().mul(rtol).add(atol)).logical_and(o.isfinite()));
  return (equal_nan ? near.logical_or(isnan().logical_and(o.isnan())) : near).all().item<bool>();
}

// ---- products ---------------------------------------------------------------------------------------------------------------
namespace {
void need_axes(const char* op, const Tensor& a, int64_t rank_a, const Tensor& b, int64_t rank_b) {
  if (a.dim() != rank_a || b.dim() != rank_b)
    throw ShapeError(std::string(op) + ": the operands have shapes " + shape_text(a.sizes()) + " and " + shape_text(b.sizes()) + "; " + std::to_string(rank_a) + " and " +
                     std::to_string(rank_b) + " axes are needed. Use matmul, or reshape.");
}
}  // namespace
Tensor Tensor::matmul(const Tensor& o) const {
  cell_of(*this, "matmul"), cell_of(o, "matmul");
  if (dim() == 0 || o.dim() == 0) throw ShapeError("matmul: the operands have shapes " + shape_text(sizes()) + " and " + shape_text(o.sizes()) + "; both need an axis. Use mul for numbers.");
  if (dim() >= 2 && o.dim() >= 2) {
    // One matrix for all batches: the batch axes join the rows, one large product instead of many small ones. The bits are the same.
    if (dim() > 2 && o.dim() == 2 && is_contiguous() && numel() > 0) {
      Sizes e = sizes().vec();
      const Tensor flat = reshape({-1, e.back()});
      if (flat.sizes()[0] != 1) {
        e.back() = o.sizes()[1];
        return Tensor(tracer::matmul(flat, o)).reshape(e);
      }
    }
    return tracer::matmul(*this, o);
  }
  if (dim() == 1 && o.dim() == 1) return dot(o);
  if (dim() == 1) return Tensor(tracer::matmul(unsqueeze(0), o)).squeeze(-2);
  return Tensor(tracer::matmul(*this, o.unsqueeze(-1))).squeeze(-1);
}
Tensor Tensor::mm(const Tensor& o) const {
  need_axes("mm", *this, 2, o, 2);
  return tracer::matmul(*this, o);
}
Tensor Tensor::bmm(const Tensor& o) const {
  need_axes("bmm", *this, 3, o, 3);
  if (sizes()[0] != o.sizes()[0]) throw ShapeError("bmm: the batches of " + shape_text(sizes()) + " and " + shape_text(o.sizes()) + " differ. Use matmul to broadcast.");
  return tracer::matmul(*this, o);
}
Tensor Tensor::mv(const Tensor& o) const {
  need_axes("mv", *this, 2, o, 1);
  return Tensor(tracer::matmul(*this, o.unsqueeze(1))).squeeze(1);
}
Tensor Tensor::dot(const Tensor& o) const {
  need_axes("dot", *this, 1, o, 1);
  return Tensor(tracer::matmul(unsqueeze(0), o.unsqueeze(1))).reshape({});
}
Tensor Tensor::outer(const Tensor& o) const {
  need_axes("outer", *this, 1, o, 1);
  return unsqueeze(1).mul(o);
}
Tensor Tensor::addmm(const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) const {
  return scaled(a.mm(b), alpha).add(scaled(*this, beta));
}
Tensor baddbmm(const Tensor& t, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return scaled(a.bmm(b), alpha).add(scaled(t, beta));
}

Tensor dropout(const Tensor& a, double p, bool train) {
  if (!(p >= 0 && p <= 1)) throw ValueError("dropout: probability " + std::to_string(p) + " is not in [0, 1].");
  if (!train || p == 0) return a;
  if (p == 1) return a.mul(Scalar(0.0));
  const Tensor keep = Tensor(tracer::random_uniform(a.sizes().vec(), kFloat32)).ge(Scalar(p));
  return frit::where(keep, a.mul(Scalar(1 / (1 - p))), Scalar(0.0));
}

}  // namespace frit
