// Layers as functions, made of the ops of the table. Each checks its shapes first, so that a message speaks of the layer and not
// of the product or sum inside. Shapes are asked of the cells, which does not make a deferred tensor real.
#include "frit/nn/functional.h"
#include <limits>
#include "frit/autograd.h"
#include "frontend/detail.h"
#include "frontend/nn/checks.h"

namespace frit {

using detail::cell_of;
using detail::shape_text;
using detail::Sizes;
using detail::UserCall;

namespace {

Sizes shape(const Tensor& t, const char* op) { return tracer::sizes_of(cell_of(t, op)); }

void check_floating(const Tensor& t, const char* op) {
  if (!t.is_floating_point()) throw DtypeError(std::string(op) + ": the input holds " + dtype_name(t.dtype()) + ". Convert it to a floating type with to().");
}
void check_parameter(const Tensor& t, const char* op, const char* what, const Sizes& wanted) {
  if (t.defined() && shape(t, op) != wanted)
    throw ShapeError(std::string(op) + ": the " + what + " has shape " + shape_text(shape(t, op)) + ". Give one of " + shape_text(wanted) + ".");
}
// The last axes, when their extents are those that are normalised.
std::vector<int64_t> last_axes(const Tensor& input, IntArrayRef normalized, const char* op) {
  const Sizes s = shape(input, op);
  const size_t n = normalized.size();
  if (n == 0) throw ValueError(std::string(op) + ": normalized_shape is empty. Name the extents of at least one axis.");
  if (s.size() < n || !(IntArrayRef(s.data() + (s.size() - n), n) == normalized))
    throw ShapeError(std::string(op) + ": normalized_shape is " + shape_text(normalized) + ", but the input has shape " + shape_text(s) +
                     ". The input's last extents must be the normalized ones.");
  std::vector<int64_t> axes(n);
  for (size_t i = 0; i < n; ++i) axes[i] = int64_t(s.size() - n + i);
  return axes;
}
Tensor widened(const Tensor& t) { return t.defined() ? t.to(compute_dtype(t.dtype())) : t; }

}  // namespace

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const UserCall call("linear", {&input, &weight, &bias});
  const Sizes in = shape(input, "linear"), w = shape(weight, "linear");
  if (w.size() != 2) throw ShapeError("linear: the weight has shape " + shape_text(w) + ". Give a matrix [out_features, in_features].");
  if (in.empty() || in.back() != w[1])
    throw ShapeError("linear: the input has shape " + shape_text(in) + ", the weight " + shape_text(w) + ". Give an input of [..., " + std::to_string(w[1]) +
                     "], or a layer of in_features " + (in.empty() ? "1" : std::to_string(in.back())) + ".");
  check_parameter(bias, "linear", "bias", {w[0]});
  if (input.dtype() != weight.dtype())
    throw DtypeError(std::string("linear: the input holds ") + dtype_name(input.dtype()) + ", the weight " + dtype_name(weight.dtype()) + ". Convert one of them with to().");
  // More than two axes are one product of many rows: the weight's gradient is then one product too.
  Tensor rows = input;
  if (in.size() != 2) {
    int64_t n = 1;
    for (size_t i = 0; i + 1 < in.size(); ++i) n *= in[i];
    rows = input.reshape({n, w[1]});
  }
  Tensor out = rows.matmul(weight.t());
  if (bias.defined()) out = out.add(bias);
  if (in.size() == 2) return out;
  Sizes extents = in;
  extents.back() = w[0];
  return out.reshape(extents);
}

Tensor embedding(const Tensor& weight, const Tensor& indices, std::optional<int64_t> padding_idx) {
  const UserCall call("embedding", {&weight, &indices});
  const Sizes w = shape(weight, "embedding");
  Sizes extents = shape(indices, "embedding");
  if (w.size() != 2) throw ShapeError("embedding: the weight has shape " + shape_text(w) + ". Give a matrix [rows, dimension].");
  if (indices.dtype() != kInt64 && indices.dtype() != kInt32)
    throw DtypeError(std::string("embedding: the indices hold ") + dtype_name(indices.dtype()) + ". Convert them to int64 with to(kInt64).");
  if (const auto wrong = nn::wrong_index(indices, w[0]))
    throw IndexError("embedding: the index " + std::to_string(*wrong) + " is out of range for " + std::to_string(w[0]) + " rows. Give indices from 0 to " + std::to_string(w[0] - 1) + ".");
  const Tensor flat = indices.reshape({-1});
  const Tensor from_start = frit::where(flat.lt(Scalar(0)), Scalar(w[0]), flat);  // out of range: no row is counted from the end
  Tensor rows = weight.index_select(0, from_start);
  extents.push_back(w[1]);
  rows = rows.reshape(extents);
  if (!padding_idx || !weight.requires_grad()) return rows;
  if (*padding_idx < -w[0] || *padding_idx >= w[0])
    throw IndexError("embedding: padding_idx " + std::to_string(*padding_idx) + " is out of range for " + std::to_string(w[0]) + " rows.");
  const Tensor is_padding = indices.eq(Scalar(*padding_idx < 0 ? *padding_idx + w[0] : *padding_idx)).unsqueeze(-1);
  return frit::where(is_padding, rows.detach(), rows);
}

// ---- normalisation ----------------------------------------------------------------------------------------------------
Tensor layer_norm(const Tensor& input, IntArrayRef normalized_shape, const Tensor& weight, const Tensor& bias, double eps) {
  const UserCall call("layer_norm", {&input, &weight, &bias});
  const auto axes = last_axes(input, normalized_shape, "layer_norm");
  check_floating(input, "layer_norm");
  check_parameter(weight, "layer_norm", "weight", normalized_shape.vec());
  check_parameter(bias, "layer_norm", "bias", normalized_shape.vec());
  const Tensor x = widened(input);
  const Tensor centred = x - x.mean(axes, true);
  Tensor y = centred * (centred.square().mean(axes, true) + Scalar(eps)).rsqrt();
  if (weight.defined()) y = y * widened(weight);
  if (bias.defined()) y = y + widened(bias);
  return y.to(input.dtype());
}
Tensor rms_norm(const Tensor& input, IntArrayRef normalized_shape, const Tensor& weight, std::optional<double> eps) {
  const UserCall call("rms_norm", {&input, &weight});
  const auto axes = last_axes(input, normalized_shape, "rms_norm");
  check_floating(input, "rms_norm");
  check_parameter(weight, "rms_norm", "weight", normalized_shape.vec());
  const Tensor x = widened(input);
  const double standard = x.dtype() == kFloat64 ? std::numeric_limits<double>::epsilon() : double(std::numeric_limits<float>::epsilon());
  Tensor y = x * (x.square().mean(axes, true) + Scalar(eps.value_or(standard))).rsqrt();
  if (weight.defined()) y = y * widened(weight);
  return y.to(input.dtype());
}
Tensor batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, Tensor running_mean, Tensor running_var, bool training, double momentum, double eps) {
  const UserCall call("batch_norm", {&input, &weight, &bias});
  const Sizes s = shape(input, "batch_norm");
  if (s.size() < 2) throw ShapeError("batch_norm: the input has shape " + shape_text(s) + ". Give one of [batch, channels, ...].");
  check_floating(input, "batch_norm");
  const Sizes channels{s[1]};
  check_parameter(weight, "batch_norm", "weight", channels);
  check_parameter(bias, "batch_norm", "bias", channels);
  check_parameter(running_mean, "batch_norm", "running mean", channels);
  check_parameter(running_var, "batch_norm", "running variance", channels);
  if (!training && (!running_mean.defined() || !running_var.defined()))
    throw ValueError("batch_norm: there are no running statistics to use. Give running_mean and running_var, or set training.");
  Sizes along(s.size(), 1);
  along[1] = s[1];
  Sizes axes{0};
  int64_t count = s[0];
  for (size_t i = 2; i < s.size(); ++i) axes.push_back(int64_t(i)), count *= s[i];

  const Tensor x = widened(input);
  Tensor mean, variance;
  if (training) {
    if (count <= 1) throw ValueError("batch_norm: the input has shape " + shape_text(s) + ", one value per channel, which has no variance. Give more, or call eval().");
    mean = x.mean(axes, true);
    variance = (x - mean).square().mean(axes, true);
    NoGradGuard no_grad;
    if (running_mean.defined()) running_mean.mul_(Scalar(1 - momentum)).add_(mean.reshape(channels).to(running_mean.dtype()), Scalar(momentum));
    if (running_var.defined())
      running_var.mul_(Scalar(1 - momentum)).add_(variance.reshape(channels).to(running_var.dtype()), Scalar(momentum * double(count) / double(count - 1)));
  } else {
    mean = widened(running_mean).reshape(along);
    variance = widened(running_var).reshape(along);
  }
  Tensor y = (x - mean) * (variance + Scalar(eps)).rsqrt();
  if (weight.defined()) y = y * widened(weight).reshape(along);
  if (bias.defined()) y = y + widened(bias).reshape(along);
  return y.to(input.dtype());
}

namespace nn::functional {
Tensor dropout(Tensor input, double p, bool training, bool inplace) {
  if (!(p >= 0 && p <= 1)) throw ValueError("dropout: the probability is " + std::to_string(p) + ". Choose one between 0 and 1.");
  Tensor out = frit::dropout(input, p, training);
  return inplace ? input.copy_(out) : out;
}
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var, const BatchNormFuncOptions& options) {
  if (!options.momentum()) throw ValueError("batch_norm: the function needs a momentum. nn::BatchNorm1d counts batches where it is absent.");
  return frit::batch_norm(input, options.weight(), options.bias(), running_mean, running_var, options.training(), *options.momentum(), options.eps());
}
}  // namespace nn::functional

}  // namespace frit
