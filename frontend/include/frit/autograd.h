// Gradients: modes, autograd::grad, jvp, vjp, hvp, gradcheck.
#pragma once
#include "frit/functions.h"

namespace frit {

// Recording for gradients on or off in a scope, on this thread.
class AutoGradMode {
 public:
  explicit AutoGradMode(bool on);
  ~AutoGradMode();
  AutoGradMode(const AutoGradMode&) = delete;
  static bool is_enabled();

 private:
  bool before_;
};
struct NoGradGuard : AutoGradMode { NoGradGuard() : AutoGradMode(false) {} };
// No gradients, and tensors made inside take no part in gradients afterwards.
class InferenceMode {
 public:
  explicit InferenceMode(bool on = true);
  ~InferenceMode();

 private:
  AutoGradMode grad_;
  bool before_;
};

namespace autograd {
using variable_list = std::vector<Tensor>;

// Gradients of the outputs' sum (weighted by grad_outputs; ones for outputs of one element) in the inputs. Throws AutogradError
// when an input takes no part, unless allow_unused (then it is undefined).
variable_list grad(const variable_list& outputs, const variable_list& inputs, const variable_list& grad_outputs = {},
                   std::optional<bool> retain_graph = std::nullopt, bool create_graph = false, bool allow_unused = false);
// create_graph: the gradients can be differentiated again. A leaf whose gradient has such a graph is part of it, so that both live
// until the gradient is taken from the leaf (zero_grad, set_grad); autograd::grad leaves no such circle.
void backward(const variable_list& tensors, const variable_list& grad_tensors = {}, std::optional<bool> retain_graph = std::nullopt,
              bool create_graph = false, const variable_list& inputs = {});

using TensorFunction = std::function<variable_list(const variable_list&)>;
// {f(inputs), derivative of f at the inputs along the tangents}. Differentiable again.
std::pair<variable_list, variable_list> jvp(const TensorFunction& f, const variable_list& inputs, const variable_list& tangents);
// {f(inputs), the transposed derivative applied to the cotangents}.
std::pair<variable_list, variable_list> vjp(const TensorFunction& f, const variable_list& inputs, const variable_list& cotangents);
// {f(inputs), Hessian of the scalar f times v}.
std::pair<Tensor, variable_list> hvp(const TensorFunction& f, const variable_list& inputs, const variable_list& v);
// Compares derivatives of f with central differences in Float64, along random directions. Throws AutogradError with the first
// difference.
bool gradcheck(const TensorFunction& f, const variable_list& inputs, double eps = 1e-6, double atol = 1e-5, double rtol = 1e-3);
bool gradgradcheck(const TensorFunction& f, const variable_list& inputs, double eps = 1e-6, double atol = 1e-5, double rtol = 1e-3);

// f(inputs), whose intermediate values are not kept for backward: backward calls f again, with the same random numbers. Gradients reach the
// inputs and the parameters that f captures; tensors made before it should come in as inputs. f does the same each time and writes no input in
// place (AutogradError). Checkpoints may be nested and differentiated again.
variable_list checkpoint(const TensorFunction& f, const variable_list& inputs);
template <class F> requires std::is_invocable_r_v<Tensor, F&, const Tensor&>
Tensor checkpoint(F f, const Tensor& input) {
  return checkpoint(TensorFunction([f](const variable_list& in) mutable -> variable_list { return {f(in[0])}; }), {input})[0];
}

// Watches for NaNs in a scope, on this thread: backward() throws AutogradError at the first gradient that has one, naming the op, the
// line of its call, and the first op of the forward computation whose result had a NaN that its operands had not (where the guard was there).
// Every op's result is looked at, so everything runs op by op. check_nan false: nothing is looked for.
class AnomalyMode {
 public:
  static bool is_enabled();
  static bool should_check_nan();
  static void set_enabled(bool enabled, bool check_nan = true);
};
class DetectAnomalyGuard {
 public:
  explicit DetectAnomalyGuard(bool check_nan = true);
  ~DetectAnomalyGuard();
  DetectAnomalyGuard(const DetectAnomalyGuard&) = delete;

 private:
  bool on_, check_nan_;
};
}  // namespace autograd
using autograd::DetectAnomalyGuard;

namespace jit {
enum class Mode : uint8_t { eager, automatic };
void set_mode(Mode m);   // of the process; eager runs each op at its call
Mode mode();
class ModeGuard {        // of this thread, in a scope
 public:
  explicit ModeGuard(Mode m);
  ~ModeGuard();

 private:
  bool before_;
};
}  // namespace jit
void synchronize();      // runs what is deferred on this thread

namespace memory {
struct Stats { int64_t current, peak, reserved, allocations; double fragmentation; };
Stats stats(DeviceType device = kCPU);
void reset_peak();
void empty_cache();      // gives cached memory back to the system
}  // namespace memory

}  // namespace frit
