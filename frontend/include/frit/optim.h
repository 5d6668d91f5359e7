// Optimisers: SGD, Adam, AdamW, RMSprop with LibTorch's options and formulas; parameter groups; learning-rate schedules.
//
//   optim::AdamW optimizer(net->parameters(), optim::AdamWOptions(1e-3).weight_decay(0.05));
//   optimizer.zero_grad(); loss.backward(); optimizer.step();
#pragma once
#include <functional>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>
#include "frit/nn/module.h"
#include "frit/nn/options.h"

namespace frit::optim {

class OptimizerOptions {
 public:
  virtual ~OptimizerOptions() = default;
  virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
  virtual double get_lr() const = 0;
  virtual void set_lr(double lr) = 0;
};
template <class Derived> class OptimizerCloneableOptions : public OptimizerOptions {
 public:
  std::unique_ptr<OptimizerOptions> clone() const override { return std::make_unique<Derived>(static_cast<const Derived&>(*this)); }
  double get_lr() const override { return static_cast<const Derived&>(*this).lr(); }
  void set_lr(double lr) override { static_cast<Derived&>(*this).lr(lr); }
};

// Parameters with options of their own; without options they take the optimiser's.
class OptimizerParamGroup {
 public:
  OptimizerParamGroup(std::vector<Tensor> params) : params_(std::move(params)) {}
  OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options) : params_(std::move(params)), options_(std::move(options)) {}
  OptimizerParamGroup(const OptimizerParamGroup& o) : params_(o.params_), options_(o.options_ ? o.options_->clone() : nullptr) {}
  OptimizerParamGroup(OptimizerParamGroup&&) = default;
  bool has_options() const { return options_ != nullptr; }
  OptimizerOptions& options() { return *options_; }
  const OptimizerOptions& options() const { return *options_; }
  void set_options(std::unique_ptr<OptimizerOptions> options) { options_ = std::move(options); }
  std::vector<Tensor>& params() { return params_; }
  const std::vector<Tensor>& params() const { return params_; }

 private:
  std::vector<Tensor> params_;
  std::unique_ptr<OptimizerOptions> options_;
};

// What an optimiser keeps of one parameter; what it does not use is undefined.
struct ParamState {
  int64_t step = 0;
  Tensor momentum_buffer, exp_avg, exp_avg_sq, max_exp_avg_sq, square_avg, grad_avg;
};

namespace detail {
void log_memory_of_all();  // what every optimiser's parameters, gradients and state hold, for memory::ledger
}

class Optimizer {
 public:
  using LossClosure = std::function<Tensor()>;
  Optimizer(const Optimizer&) = delete;
  virtual ~Optimizer();

  // One update of every parameter that has a gradient; with a closure, which computes the loss and its gradients, its value.
  // What is pending on this thread runs at its end.
  Tensor step(LossClosure closure = nullptr);
  void zero_grad(bool set_to_none = true);
  void add_param_group(const OptimizerParamGroup& group);
  std::vector<OptimizerParamGroup>& param_groups() noexcept { return groups_; }
  const std::vector<OptimizerParamGroup>& param_groups() const noexcept { return groups_; }
  const OptimizerOptions& defaults() const noexcept { return *defaults_; }
  OptimizerOptions& defaults() noexcept { return *defaults_; }
  std::vector<Tensor> parameters() const;
  size_t size() const noexcept;
  // Of a parameter; null before its first step.
  const ParamState* state(const Tensor& parameter) const;
  void set_state(const Tensor& parameter, ParamState state) { state_[parameter.cell()] = std::move(state); }
  void clear_state() { state_.clear(); }
  // Options and state to and from an archive (frit/serialize.h). load throws FileError or ShapeError, and has changed nothing then.
  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);

 protected:
  Optimizer(const char* name, std::vector<OptimizerParamGroup> groups, std::unique_ptr<OptimizerOptions> defaults);
  // Updates p in place by its gradient, without recording gradients.
  virtual void update(Tensor& p, Tensor grad, ParamState& state, const OptimizerOptions& options) = 0;
  virtual void check(const OptimizerOptions& options) const = 0;  // throws ValueError

  const char* name_;

 private:
  friend void detail::log_memory_of_all();
  void log_memory() const;
  std::vector<OptimizerParamGroup> groups_;
  std::unique_ptr<OptimizerOptions> defaults_;
  std::unordered_map<const void*, ParamState> state_;  // by the parameter's cell, which the groups keep alive
};

// The constructors and overrides that every optimiser has. The groups of the second must hold their own options or use the defaults.
#define FRIT_OPTIMIZER(Name)                                                                                       \
 public:                                                                                                           \
  explicit Name(std::vector<OptimizerParamGroup> groups, Name##Options defaults = {}) : Optimizer(#Name, std::move(groups), defaults.clone()) { begin(); } \
  explicit Name(std::vector<Tensor> params, Name##Options defaults = {}) : Name(one_group(std::move(params)), std::move(defaults)) {} \
                                                                                                                   \
 protected:                                                                                                        \
  void update(Tensor& p, Tensor grad, ParamState& state, const OptimizerOptions& options) override;                \
  void check(const OptimizerOptions& options) const override;                                                      \
                                                                                                                   \
 private:                                                                                                          \
  static std::vector<OptimizerParamGroup> one_group(std::vector<Tensor> params) {                                  \
    std::vector<OptimizerParamGroup> groups;                                                                       \
    groups.emplace_back(std::move(params));                                                                        \
    return groups;                                                                                                 \
  }                                                                                                                \
  void begin() {                                                                                                   \
    check(defaults());                                                                                             \
    for (const auto& g : param_groups()) check(g.options());                                                       \
  }

struct SGDOptions : OptimizerCloneableOptions<SGDOptions> {
  SGDOptions(double lr = 1e-3) : lr_(lr) {}
  FRIT_ARG(double, lr);
  FRIT_ARG(double, momentum) = 0;
  FRIT_ARG(double, dampening) = 0;
  FRIT_ARG(double, weight_decay) = 0;
  FRIT_ARG(bool, nesterov) = false;
};
class SGD : public Optimizer { FRIT_OPTIMIZER(SGD) };

struct AdamOptions : OptimizerCloneableOptions<AdamOptions> {
  using Betas = std::tuple<double, double>;
  AdamOptions(double lr = 1e-3) : lr_(lr) {}
  FRIT_ARG(double, lr);
  FRIT_ARG(Betas, betas) = {0.9, 0.999};
  FRIT_ARG(double, eps) = 1e-8;
  FRIT_ARG(double, weight_decay) = 0;  // added to the gradient
  FRIT_ARG(bool, amsgrad) = false;
};
class Adam : public Optimizer { FRIT_OPTIMIZER(Adam) };

struct AdamWOptions : OptimizerCloneableOptions<AdamWOptions> {
  using Betas = std::tuple<double, double>;
  AdamWOptions(double lr = 1e-3) : lr_(lr) {}
  FRIT_ARG(double, lr);
  FRIT_ARG(Betas, betas) = {0.9, 0.999};
  FRIT_ARG(double, eps) = 1e-8;
  FRIT_ARG(double, weight_decay) = 1e-2;  // shrinks the parameter itself
  FRIT_ARG(bool, amsgrad) = false;
};
class AdamW : public Optimizer { FRIT_OPTIMIZER(AdamW) };

struct RMSpropOptions : OptimizerCloneableOptions<RMSpropOptions> {
  RMSpropOptions(double lr = 1e-2) : lr_(lr) {}
  FRIT_ARG(double, lr);
  FRIT_ARG(double, alpha) = 0.99;
  FRIT_ARG(double, eps) = 1e-8;
  FRIT_ARG(double, weight_decay) = 0;
  FRIT_ARG(double, momentum) = 0;
  FRIT_ARG(bool, centered) = false;
};
class RMSprop : public Optimizer { FRIT_OPTIMIZER(RMSprop) };
#undef FRIT_OPTIMIZER

// ---- learning rates -----------------------------------------------------------------------------------------------------
class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  void step();
  unsigned step_count() const noexcept { return step_count_; }  // calls of step() so far; a checkpoint keeps it
  void set_step_count(unsigned n) noexcept { step_count_ = n; }

 protected:
  explicit LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {}
  virtual std::vector<double> get_lrs() = 0;  // of the groups, for step number step_count_
  std::vector<double> get_current_lrs() const;
  unsigned step_count_ = 0;

 private:
  Optimizer& optimizer_;
};
// Multiplies every rate by gamma at each multiple of step_size. As in LibTorch the calls of step() are numbered from 0 and
// the first changes nothing.
class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, unsigned step_size, double gamma = 0.1);

 private:
  std::vector<double> get_lrs() override;
  unsigned step_size_;
  double gamma_;
};
// Rates that are those at its construction times factor(number of the call of step, from 1).
class LambdaLR : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(unsigned)> factor);

 private:
  std::vector<double> get_lrs() override;
  std::vector<double> initial_;
  std::function<double(unsigned)> factor_;
};

}  // namespace frit::optim
