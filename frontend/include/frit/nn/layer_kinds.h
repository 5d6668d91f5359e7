// The kinds of small layers: classes that differ in a name and a function, each kind declared here once. What prints and resets them is in the
// library (frontend/nn).
#pragma once
#include "frit/nn/module.h"

// Without options; `expression` is of the Tensor `input`.
#define FRIT_PLAIN_LAYER(Name, expression)                                               \
  class Name##Impl : public Cloneable<Name##Impl> {                                      \
   public:                                                                               \
    void reset() override {}                                                             \
    void pretty_print(std::ostream& stream) const override;                              \
    Tensor forward(const Tensor& input) { return expression; }                           \
  };                                                                                     \
  FRIT_MODULE(Name);

// functional::function(input, options). What follows is the options' default, as in `= {}`, or nothing.
#define FRIT_OPTIONS_LAYER(Name, function, ...)                                          \
  class Name##Impl : public Cloneable<Name##Impl> {                                      \
   public:                                                                               \
    explicit Name##Impl(const Name##Options& o __VA_ARGS__) : options(o) {}              \
    void reset() override {}                                                             \
    void pretty_print(std::ostream& stream) const override;                              \
    Tensor forward(const Tensor& input) { return functional::function(input, options); } \
    Name##Options options;                                                               \
  };                                                                                     \
  FRIT_MODULE(Name);

// functional::function(input, target, options).
#define FRIT_LOSS_LAYER(Name, function)                                                  \
  class Name##Impl : public Cloneable<Name##Impl> {                                      \
   public:                                                                               \
    explicit Name##Impl(Name##Options o = {}) : options(std::move(o)) {}                 \
    void reset() override {}                                                             \
    void pretty_print(std::ostream& stream) const override;                              \
    Tensor forward(const Tensor& input, const Tensor& target) { return functional::function(input, target, options); } \
    Name##Options options;                                                               \
  };                                                                                     \
  FRIT_MODULE(Name);

// The same with weights, which are buffers: they follow to().
#define FRIT_WEIGHTED_LOSS_LAYER(Name, function, ...)                                    \
  class Name##Impl : public Cloneable<Name##Impl> {                                      \
   public:                                                                               \
    explicit Name##Impl(Name##Options options = {});                                     \
    void reset() override;                                                               \
    void pretty_print(std::ostream& stream) const override;                              \
    Tensor forward(const Tensor& input, const Tensor& target) { return functional::function(input, target, options); } \
    Name##Options options;                                                               \
    Tensor __VA_ARGS__;                                                                  \
  };                                                                                     \
  FRIT_MODULE(Name);

// Over D spatial axes. weight: [out channels, in channels / groups, kernel...], transposed [in channels, out channels / groups, kernel...].
#define FRIT_CONVOLUTION_LAYER(Name, D)                                                  \
  class Name##Impl : public Cloneable<Name##Impl> {                                      \
   public:                                                                               \
    Name##Impl(int64_t in_channels, int64_t out_channels, ExpandingArray<D> kernel_size) \
        : Name##Impl(Name##Options(in_channels, out_channels, kernel_size)) {}           \
    explicit Name##Impl(Name##Options options);                                          \
    void reset() override;                                                               \
    void reset_parameters();                                                             \
    void pretty_print(std::ostream& stream) const override;                              \
    Tensor forward(const Tensor& input);                                                 \
    Name##Options options;                                                               \
    Tensor weight, bias;                                                                 \
  };                                                                                     \
  FRIT_MODULE(Name);
