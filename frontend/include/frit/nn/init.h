// Initial values of parameters, written in place without gradients; the tensor is returned.
#pragma once
#include <tuple>
#include "frit/nn/options.h"

namespace frit::nn::init {

Tensor zeros_(Tensor tensor);
Tensor ones_(Tensor tensor);
Tensor constant_(Tensor tensor, Scalar value);
Tensor eye_(Tensor matrix);
Tensor uniform_(Tensor tensor, double low = 0, double high = 1);
Tensor normal_(Tensor tensor, double mean = 0, double deviation = 1);
// Variance 2 gain² / (fan_in + fan_out).
Tensor xavier_uniform_(Tensor tensor, double gain = 1);
Tensor xavier_normal_(Tensor tensor, double gain = 1);
// Variance gain² / fan, where the gain is the nonlinearity's (a: the negative slope of leaky_relu).
Tensor kaiming_uniform_(Tensor tensor, double a = 0, FanMode mode = kFanIn, Nonlinearity nonlinearity = kLeakyReLU);
Tensor kaiming_normal_(Tensor tensor, double a = 0, FanMode mode = kFanIn, Nonlinearity nonlinearity = kLeakyReLU);

double calculate_gain(Nonlinearity nonlinearity, double parameter = 0.01);
std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& tensor);

}  // namespace frit::nn::init
