// Initial values of parameters.
#include "frit/nn/init.h"
#include <cmath>
#include "frit/autograd.h"
#include "frontend/detail.h"

namespace frit::nn::init {

std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& tensor) {
  const auto s = tracer::sizes_of(frit::detail::cell_of(tensor, "init"));
  if (s.size() < 2)
    throw ShapeError("init: a tensor of shape " + frit::detail::shape_text(s) + " has no fan-in and fan-out. Give one of two axes or more: [out, in, ...].");
  int64_t field = 1;
  for (size_t i = 2; i < s.size(); ++i) field *= s[i];
  return {s[1] * field, s[0] * field};
}
double calculate_gain(Nonlinearity nonlinearity, double parameter) {
  switch (nonlinearity) {
    case Nonlinearity::tanh: return 5.0 / 3.0;
    case Nonlinearity::relu: return std::sqrt(2.0);
    case Nonlinearity::leaky_relu: return std::sqrt(2.0 / (1 + parameter * parameter));
    default: return 1;
  }
}

Tensor zeros_(Tensor tensor) { return constant_(std::move(tensor), 0); }
Tensor ones_(Tensor tensor) { return constant_(std::move(tensor), 1); }
Tensor constant_(Tensor tensor, Scalar value) {
  NoGradGuard no_grad;
  return tensor.fill_(value);
}
Tensor eye_(Tensor matrix) {
  NoGradGuard no_grad;
  if (matrix.dim() != 2) throw ShapeError("eye_: a tensor of shape " + frit::detail::shape_text(matrix.sizes()) + " is no matrix. Give one with two axes.");
  return matrix.copy_(frit::eye(matrix.size(0), matrix.size(1), matrix.options()));
}
Tensor uniform_(Tensor tensor, double low, double high) {
  NoGradGuard no_grad;
  return tensor.uniform_(low, high);
}
Tensor normal_(Tensor tensor, double mean, double deviation) {
  NoGradGuard no_grad;
  return tensor.normal_(mean, deviation);
}
Tensor xavier_uniform_(Tensor tensor, double gain) {
  const auto [in, out] = _calculate_fan_in_and_fan_out(tensor);
  const double bound = std::sqrt(3.0) * gain * std::sqrt(2.0 / double(in + out));
  return uniform_(std::move(tensor), -bound, bound);
}
Tensor xavier_normal_(Tensor tensor, double gain) {
  const auto [in, out] = _calculate_fan_in_and_fan_out(tensor);
  return normal_(std::move(tensor), 0, gain * std::sqrt(2.0 / double(in + out)));
}

static double kaiming_deviation(const Tensor& tensor, double a, FanMode mode, Nonlinearity nonlinearity) {
  const auto [in, out] = _calculate_fan_in_and_fan_out(tensor);
  const int64_t fan = mode == kFanIn ? in : out;
  return fan ? calculate_gain(nonlinearity, a) / std::sqrt(double(fan)) : 0;  // fan 0: there is no element
}
Tensor kaiming_uniform_(Tensor tensor, double a, FanMode mode, Nonlinearity nonlinearity) {
  const double bound = std::sqrt(3.0) * kaiming_deviation(tensor, a, mode, nonlinearity);
  return uniform_(std::move(tensor), -bound, bound);
}
Tensor kaiming_normal_(Tensor tensor, double a, FanMode mode, Nonlinearity nonlinearity) {
  const double deviation = kaiming_deviation(tensor, a, mode, nonlinearity);
  return normal_(std::move(tensor), 0, deviation);
}

}  // namespace frit::nn::init
