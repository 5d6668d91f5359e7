// Pointwise members and functions, generated from the op table, and the pointwise composites. Start at the rows.
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
// alpha takes part in no promotion: it has to be a number of the result's kind.
Tensor scaled(const char* op, const Tensor& t, const Tensor& o, const Scalar& alpha) {
  using handle::Category;
  cell_of(t, op), cell_of(o, op);
  const auto holds = [&](bool (*is)(Dtype)) { return is(t.dtype()) || is(o.dtype()); };
  const bool floating = holds(&is_floating), boolean = t.dtype() == kBool && o.dtype() == kBool;
  if (alpha.category() == Category::floating && !floating)
    throw DtypeError(std::string(op) + ": alpha is a floating number, the tensors hold " + dtype_name(t.dtype()) + " and " + dtype_name(o.dtype()) + ". Use a whole number, or convert a tensor with to(kFloat32).");
  if (alpha.category() == Category::boolean && !boolean)
    throw DtypeError(std::string(op) + ": alpha is a truth value, the tensors hold " + dtype_name(t.dtype()) + " and " + dtype_name(o.dtype()) + ". Use a number.");
  if (boolean) return alpha.to_double() != 0 ? o : zeros_like(o);
  return is_one(alpha) ? o : o.mul(alpha);
}
Tensor times(const Tensor& t, const Scalar& value) { return is_one(value) ? t : t.mul(value); }
}  // namespace

Tensor Tensor::add(const Tensor& o, const Scalar& alpha) const { return add(scaled("add", *this, o, alpha)); }
Tensor& Tensor::add_(const Tensor& o, const Scalar& alpha) { return add_(scaled("add_", *this, o, alpha)); }
Tensor Tensor::sub(const Tensor& o, const Scalar& alpha) const { return sub(scaled("sub", *this, o, alpha)); }
Tensor& Tensor::sub_(const Tensor& o, const Scalar& alpha) { return sub_(scaled("sub_", *this, o, alpha)); }
Tensor Tensor::div(const Tensor& o, const std::optional<std::string>& mode) const {
  if (!mode) return div(o);
  if (*mode == "floor") return floor_divide(o);
  if (*mode == "trunc") return trunc_divide(o);
  throw ValueError("div: rounding_mode \"" + *mode + "\" is not known. Use \"floor\" or \"trunc\".");
}
Tensor Tensor::div(const Scalar& o, const std::optional<std::string>& mode) const {
  if (!mode) return div(o);
  if (*mode == "floor") return floor_divide(o);
  if (*mode == "trunc") return trunc_divide(o);
  return div(Tensor(tracer::full({}, o, kFloat32)), mode);  // throws
}
Tensor& Tensor::div_(const Tensor& o, const std::optional<std::string>& mode) { return !mode ? div_(o) : *mode == "floor" ? floor_divide_(o) : *mode == "trunc" ? trunc_divide_(o) : copy_(div(o, mode)); }
Tensor& Tensor::div_(const Scalar& o, const std::optional<std::string>& mode) { return !mode ? div_(o) : *mode == "floor" ? floor_divide_(o) : *mode == "trunc" ? trunc_divide_(o) : copy_(div(o, mode)); }

// ---- pow: the exponent picks the row at the call, in every mode --------------------------------------------------------
namespace {
enum class PowRow : uint8_t { general, same, square, cube, fourth, reciprocal, sqrt, rsqrt };
// Products round at each step, so half formats, which round once, take the general row for them.
PowRow pow_row(const Tensor& t, const Scalar& exponent) {
  const double e = exponent.to_double();
  if (t.dtype() == kBool) return PowRow::general;
  if (e == 1) return PowRow::same;
  if (e == 2) return PowRow::square;
  if (!t.is_floating_point()) return PowRow::general;
  if (e == -1) return PowRow::reciprocal;
  if (e == 0.5) return PowRow::sqrt;
  if (e == -0.5) return PowRow::rsqrt;
  if (is_half(t.dtype())) return PowRow::general;
  return e == 3 ? PowRow::cube : e == 4 ? PowRow::fourth : PowRow::general;
}
void check_exponent(const Tensor& t, const Scalar& exponent) {
  if (!t.is_floating_point() && exponent.category() != handle::Category::floating && exponent.to_int() < 0)
    throw ValueError("pow: a tensor of " + std::string(dtype_name(t.dtype())) + " cannot be raised to " + std::to_string(exponent.to_int()) + ": the result is not whole. Convert it with to(kFloat32).");
}
}  // namespace
Tensor Tensor::pow(const Tensor& exponent) const { return tracer::emit_pointwise(Op::pow, {*this, exponent}); }
Tensor& Tensor::pow_(const Tensor& exponent) {
  tracer::emit_pointwise_(Op::pow, *this, {exponent});
  return *this;
}
Tensor pow(const Scalar& a, const Tensor& b) { return tracer::emit_pointwise(Op::pow, {a, b}); }
Tensor Tensor::pow(const Scalar& exponent) const {
  cell_of(*this, "pow");
  check_exponent(*this, exponent);
  const Tensor t = exponent.category() == handle::Category::floating && !is_floating_point() ? to(kFloat32) : *this;
  switch (pow_row(t, exponent)) {
    case PowRow::same: return t.clone();
    case PowRow::square: return t.square();
    case PowRow::cube: return t.square().mul(t);
    case PowRow::fourth: return t.square().square();
    case PowRow::reciprocal: return t.reciprocal();
    case PowRow::sqrt: return t.sqrt();
    case PowRow::rsqrt: return t.rsqrt();
    case PowRow::general: break;
  }
  return tracer::emit_pointwise(Op::pow, {t, exponent});
}
Tensor& Tensor::pow_(const Scalar& exponent) {
  cell_of(*this, "pow_");
  check_exponent(*this, exponent);
  const bool widens = exponent.category() == handle::Category::floating && !is_floating_point();
  switch (widens ? PowRow::general : pow_row(*this, exponent)) {
    case PowRow::same: return *this;
    case PowRow::square: return square_();
    case PowRow::cube: return mul_((requires_grad() ? clone() : *this).square());  // the gradient of square() reads the old content
    case PowRow::fourth: return square_().square_();
    case PowRow::reciprocal: return reciprocal_();
    case PowRow::sqrt: return sqrt_();
    case PowRow::rsqrt: return rsqrt_();
    case PowRow::general: break;
  }
  tracer::emit_pointwise_(Op::pow, *this, {exponent});
  return *this;
}

// ---- bounds ------------------------------------------------------------------------------------------------------------
namespace {
// A bound beyond an integer type's range is as good as the range's end; converted as it stands it would wrap.
std::optional<Scalar> bound(const Tensor& t, const std::optional<Scalar>& b) {
  if (!b || b->category() == handle::Category::floating || !is_integral(t.dtype())) return b;
  return dispatch(t.dtype(), [&](auto type) -> Scalar {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) return Scalar(std::clamp<int64_t>(b->to_int(), int64_t(std::numeric_limits<T>::min()), int64_t(std::numeric_limits<T>::max())));
    else return *b;
  });
}
}  // namespace
Tensor Tensor::clamp(std::optional<Scalar> low, std::optional<Scalar> high) const {
  if (!low && !high) throw ValueError("clamp: neither a lower nor an upper bound is given. Give at least one.");
  cell_of(*this, "clamp");
  low = bound(*this, low), high = bound(*this, high);
  if (low && high) return tracer::clamp(*this, *low, *high);
  return low ? tracer::maximum(*this, *low) : tracer::minimum(*this, *high);
}
Tensor& Tensor::clamp_(std::optional<Scalar> low, std::optional<Scalar> high) {
  if (!low && !high) throw ValueError("clamp_: neither a lower nor an upper bound is given. Give at least one.");
  cell_of(*this, "clamp_");
  low = bound(*this, low), high = bound(*this, high);
  if (low && high) tracer::emit_pointwise_(Op::clamp, *this, {*low, *high});
  else if (low) tracer::emit_pointwise_(Op::maximum, *this, {*low});
  else tracer::emit_pointwise_(Op::minimum, *this, {*high});
  return *this;
}
Tensor Tensor::clamp(const std::optional<Tensor>& low, const std::optional<Tensor>& high) const {
  if (!low && !high) throw ValueError("clamp: neither a lower nor an upper bound is given. Give at least one.");
  if (low && high) return tracer::clamp(*this, *low, *high);
  return low ? maximum(*low) : minimum(*high);
}
Tensor& Tensor::clamp_(const std::optional<Tensor>& low, const std::optional<Tensor>& high) {
  if (!low && !high) throw ValueError("clamp_: neither a lower nor an upper bound is given. Give at least one.");
  if (low && high) tracer::emit_pointwise_(Op::clamp, *this, {*low, *high});
  else if (low) tracer::emit_pointwise_(Op::maximum, *this, {*low});
  else tracer::emit_pointwise_(Op::minimum, *this, {*high});
  return *this;
}

// ---- activations and others ------------------------------------------------------------------------------------------------
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
Tensor& Tensor::lerp_(const Tensor& end, const Tensor& w) {
  tracer::emit_pointwise_(Op::lerp, *this, {end, w});
  return *this;
}
Tensor Tensor::softplus(const Scalar& beta, const Scalar& threshold) const {
  const Tensor scaled_input = mul(beta);
  return frit::where(scaled_input.gt(threshold), *this, scaled_input.softplus().div(beta));
}
Tensor Tensor::elu(const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) const {
  return frit::where(gt(Scalar(0)), mul(scale), mul(input_scale).expm1().mul(Scalar(alpha.to_double() * scale.to_double())));
}
Tensor Tensor::round(int64_t decimals) const {
  if (!is_floating_point()) return clone();
  const Scalar power(std::pow(10.0, double(std::abs(decimals))));
  return decimals >= 0 ? mul(power).round().div(power) : div(power).round().mul(power);
}
Tensor celu(const Tensor& a, const Scalar& alpha) { return a.elu(alpha, 1.0, Scalar(1 / alpha.to_double())); }
Tensor hardsigmoid(const Tensor& a) { return a.add(Scalar(3.0)).clamp(Scalar(0.0), Scalar(6.0)).div(Scalar(6.0)); }
Tensor log_sigmoid(const Tensor& a) { return a.neg().softplus().neg(); }
Tensor prelu(const Tensor& a, const Tensor& weight) {
  Tensor w = weight;
  if (weight.numel() != 1) {
    const int64_t channels = a.dim() > 1 ? a.sizes()[1] : 1;
    if (weight.dim() != 1 || weight.numel() != channels)
      throw ShapeError("prelu: weights of shape " + shape_text(weight.sizes()) + " do not fit " + shape_text(a.sizes()) + ". Give one, or " + std::to_string(channels) + " (one per channel).");
    Sizes e(size_t(a.dim()), 1);
    e[1] = channels;
    w = weight.reshape(e);
  }
  return frit::where(a.gt(Scalar(0)), a, a.mul(w));
}
Tensor threshold(const Tensor& a, const Scalar& threshold, const Scalar& value) { return frit::where(a.le(threshold), value, a).to(a.dtype()); }
// The larger side is taken out, so that no square overflows; equal infinities and zeros have no quotient.
Tensor hypot(const Tensor& a, const Tensor& b) {
  const Tensor x = a.abs(), y = b.abs(), high = x.maximum(y), low = x.minimum(y);
  const Tensor plain = high.eq(Scalar(0)).logical_or(high.isinf());
  const Tensor ratio = low.div(frit::where(plain, Scalar(1), high));
  const Tensor infinite = x.isinf().logical_or(y.isinf());
  return frit::where(infinite, Scalar(std::numeric_limits<double>::infinity()), high.mul(ratio.square().add(Scalar(1.0)).sqrt()));
}
Tensor xlogy(const Tensor& a, const Tensor& b) {
  const Tensor nothing = a.eq(Scalar(0)).logical_and(b.isnan().logical_not());
  return frit::where(nothing, Scalar(0.0), a.mul(frit::where(nothing, Scalar(1), b).log()));
}
Tensor logaddexp2(const Tensor& a, const Tensor& b) {
  constexpr double log_2 = 0.69314718055994530942;
  return a.mul(Scalar(log_2)).logaddexp(b.mul(Scalar(log_2))).div(Scalar(log_2));
}
Tensor logit(const Tensor& a, std::optional<double> eps) {
  const Tensor p = eps ? a.clamp(Scalar(*eps), Scalar(1 - *eps)) : a;
  return p.div(sub(Scalar(1.0), p)).log();
}
Tensor sinc(const Tensor& a) {
  const Tensor zero = a.eq(Scalar(0)), x = frit::where(zero, Scalar(1.0), a).mul(Scalar(3.14159265358979323846));
  return frit::where(zero, Scalar(1.0), x.sin().div(x));
}
Tensor heaviside(const Tensor& a, const Tensor& at_zero) {
  return frit::where(a.eq(Scalar(0)), at_zero, frit::where(a.gt(Scalar(0)), Scalar(1), frit::where(a.isnan(), a, zeros_like(a)))).to(a.dtype());
}
Tensor isposinf(const Tensor& a) { return a.isinf().logical_and(a.gt(Scalar(0))); }
Tensor isneginf(const Tensor& a) { return a.isinf().logical_and(a.lt(Scalar(0))); }
Tensor signbit(const Tensor& a) { return a.is_floating_point() ? frit::copysign(Scalar(1.0), a).lt(Scalar(0)) : a.lt(Scalar(0)); }
Tensor fmax(const Tensor& a, const Tensor& b) { return frit::where(a.isnan(), b, frit::where(b.isnan(), a, a.maximum(b))); }
Tensor fmin(const Tensor& a, const Tensor& b) { return frit::where(a.isnan(), b, frit::where(b.isnan(), a, a.minimum(b))); }
Tensor Tensor::where(const Tensor& condition, const Tensor& other) const { return tracer::where(condition, *this, other); }
Tensor where(const Tensor& c, const Tensor& a, const Tensor& b) { return tracer::where(c, a, b); }
Tensor where(const Tensor& c, const Scalar& a, const Tensor& b) { return tracer::where(c, a, b); }
Tensor where(const Tensor& c, const Tensor& a, const Scalar& b) { return tracer::where(c, a, b); }
Tensor where(const Tensor& c, const Scalar& a, const Scalar& b) { return tracer::where(c, a, b); }
Tensor Tensor::addcmul(const Tensor& a, const Tensor& b, const Scalar& value) const { return tracer::addcmul(*this, times(a, value), b); }
Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, const Scalar& value) { return add_(times(a, value).mul(b)); }
Tensor Tensor::addcdiv(const Tensor& a, const Tensor& b, const Scalar& value) const { return add(a.mul(value).div(b)); }
Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, const Scalar& value) { return add_(a.mul(value).div(b)); }
Tensor Tensor::nan_to_num(std::optional<double> nan, std::optional<double> posinf, std::optional<double> neginf) const {
  if (!is_floating_point()) return clone();
  const double largest = dtype() == kFloat64 ? std::numeric_limits<double>::max() : dtype() == kFloat16 ? 65504.0 : dtype() == kBFloat16 ? 0x1.fep127 : double(std::numeric_limits<float>::max());
  const double high = posinf.value_or(largest), low = neginf.value_or(-largest);
  const Tensor t = tracer::nan_to_num(*this, nan.value_or(0), high);
  return low == -high ? t : frit::where(isneginf(*this), Scalar(low), t);
}

Tensor dropout(const Tensor& a, double p, bool train) {
  if (!(p >= 0 && p <= 1)) throw ValueError("dropout: probability " + std::to_string(p) + " is not in [0, 1].");
  if (!train || p == 0) return a;
  if (p == 1) return frit::where(zeros({}, kBool), a, Scalar(0.0));  // not a product: infinities are dropped too
  const Tensor keep = Tensor(tracer::random_uniform(a.sizes().vec(), kFloat32)).ge(Scalar(p));
  return frit::where(keep, a.mul(Scalar(1 / (1 - p))), Scalar(0.0));
}

}  // namespace frit
