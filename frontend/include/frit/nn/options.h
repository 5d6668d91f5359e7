// How options are written: nn::LinearOptions(784, 64).bias(false). FRIT_ARG(type, name) declares a setter that returns the
// options, a getter, and the member name_.
#pragma once
#include <cstdint>
#include <utility>
#include "frit/tensor.h"

#define FRIT_ARG(T, name)                                                                          \
 public:                                                                                           \
  inline auto name(const T& new_##name) -> decltype(*this) { this->name##_ = new_##name; return *this; } \
  inline auto name(T&& new_##name) -> decltype(*this) { this->name##_ = std::move(new_##name); return *this; } \
  inline const T& name() const noexcept { return this->name##_; }                                  \
  inline T& name() noexcept { return this->name##_; }                                              \
                                                                                                   \
 private:                                                                                          \
  T name##_

namespace frit {

// What a loss does with its elements. The numbers are those of LibTorch's at::Reduction.
struct Reduction {
  enum Kind : int64_t { None, Mean, Sum };
};
inline constexpr Reduction::Kind kNone = Reduction::None, kMean = Reduction::Mean, kSum = Reduction::Sum;

enum class Nonlinearity : uint8_t { linear, conv1d, conv2d, conv3d, sigmoid, tanh, relu, leaky_relu };
inline constexpr Nonlinearity kLinear = Nonlinearity::linear, kConv1D = Nonlinearity::conv1d, kConv2D = Nonlinearity::conv2d,
                              kConv3D = Nonlinearity::conv3d, kSigmoid = Nonlinearity::sigmoid, kTanh = Nonlinearity::tanh,
                              kReLU = Nonlinearity::relu, kLeakyReLU = Nonlinearity::leaky_relu;
enum class FanMode : uint8_t { fan_in, fan_out };
inline constexpr FanMode kFanIn = FanMode::fan_in, kFanOut = FanMode::fan_out;

}  // namespace frit
