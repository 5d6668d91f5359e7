// Functions with a gradient of the user's, as in LibTorch:
//
//   struct Cube : autograd::Function<Cube> {
//     static Tensor forward(autograd::AutogradContext* ctx, Tensor x) { ctx->save_for_backward({x}); return x * x * x; }
//     static autograd::variable_list backward(autograd::AutogradContext* ctx, autograd::variable_list g) {
//       const Tensor x = ctx->get_saved_variables()[0];
//       return {g[0] * 3 * x * x};
//     }
//   };
//   Tensor y = Cube::apply(x);
//
// forward records no gradients. backward returns one gradient for each argument of forward, undefined where there is none (for
// numbers always). Where backward is made of tensors' ops, the function has second derivatives and jvp too.
#pragma once
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <variant>
#include "frit/autograd.h"

namespace frit {

// A value of saved_data.
class IValue {
 public:
  IValue() = default;
  IValue(Tensor v) : value_(std::move(v)) {}
  IValue(bool v) : value_(v) {}
  IValue(int v) : value_(int64_t(v)) {}
  IValue(int64_t v) : value_(v) {}
  IValue(double v) : value_(v) {}
  IValue(const char* v) : value_(std::string(v)) {}
  IValue(std::string v) : value_(std::move(v)) {}
  IValue(std::vector<int64_t> v) : value_(std::move(v)) {}
  IValue(std::vector<double> v) : value_(std::move(v)) {}
  IValue(std::vector<Tensor> v) : value_(std::move(v)) {}
  IValue(IntArrayRef v) : value_(v.vec()) {}

  bool isNone() const { return value_.index() == 0; }
  bool isTensor() const { return std::holds_alternative<Tensor>(value_); }
  bool isBool() const { return std::holds_alternative<bool>(value_); }
  bool isInt() const { return std::holds_alternative<int64_t>(value_); }
  bool isDouble() const { return std::holds_alternative<double>(value_); }
  bool isString() const { return std::holds_alternative<std::string>(value_); }
  // Each throws DtypeError when the value is of another kind.
  const Tensor& toTensor() const { return get<Tensor>("a Tensor"); }
  bool toBool() const { return get<bool>("a bool"); }
  int64_t toInt() const { return get<int64_t>("a whole number"); }
  double toDouble() const { return get<double>("a floating number"); }
  const std::string& toStringRef() const { return get<std::string>("a text"); }
  const std::vector<int64_t>& toIntVector() const { return get<std::vector<int64_t>>("a list of whole numbers"); }
  const std::vector<double>& toDoubleVector() const { return get<std::vector<double>>("a list of floating numbers"); }
  const std::vector<Tensor>& toTensorVector() const { return get<std::vector<Tensor>>("a list of tensors"); }

 private:
  [[noreturn]] static void fail(const char* wanted);
  template <class T> const T& get(const char* wanted) const {
    if (const T* v = std::get_if<T>(&value_)) return *v;
    fail(wanted);
  }
  std::variant<std::monostate, Tensor, bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, std::vector<Tensor>> value_;
};

namespace autograd {

using Variable = Tensor;

// What forward leaves for backward.
class AutogradContext {
 public:
  AutogradContext() = default;
  AutogradContext(const AutogradContext&) = delete;

  // In forward, once: inputs and outputs are kept with their past, so that backward can be differentiated; others are constants.
  void save_for_backward(variable_list tensors);
  // In backward. Throws AutogradError when one was overwritten in place since.
  variable_list get_saved_variables() const;
  // In forward: inputs that it wrote in place (and returns), outputs without a gradient.
  void mark_dirty(const variable_list& inputs) { dirty_ = inputs; }
  void mark_non_differentiable(const variable_list& outputs) { constant_ = outputs; }
  // Whether backward gets zeros (as it does unless told otherwise) or undefined tensors where no gradient arrived.
  void set_materialize_grads(bool on) { materialize_ = on; }
  // By the number of the tensor among forward's.
  bool needs_input_grad(size_t i) const;
  // Any other value. A tensor of the call itself belongs into save_for_backward: kept here, it keeps its own graph alive.
  std::unordered_map<std::string, IValue> saved_data;

 private:
  friend struct FunctionCall;
  variable_list saved_, dirty_, constant_;
  bool materialize_ = true;
  std::vector<bool> wanted_;
  const void* call_ = nullptr;      // while backward runs
};

// One call of apply; what of it needs no template.
struct FunctionCall {
  using Backward = variable_list (*)(AutogradContext*, variable_list);
  explicit FunctionCall(const char* mangled_name) : mangled_name(mangled_name) {}
  void add(const Tensor& t) { add_tensor(t); }
  void add(const variable_list& l) {
    for (const Tensor& t : l) add_tensor(t);
  }
  template <class T> void add(const T&) { is_tensor.push_back(false); }
  void begin();                                         // after the arguments, before forward
  variable_list finish(variable_list made, Backward backward);

  const char* mangled_name;
  std::shared_ptr<AutogradContext> context = std::make_shared<AutogradContext>();

 private:
  void add_tensor(const Tensor& t) {
    is_tensor.push_back(true);
    inputs.push_back(t);
  }
  variable_list inputs, pasts;
  std::vector<bool> is_tensor;                          // by argument, lists counting their elements
};

template <class T> struct Function {
  // What forward returns, a tensor or a list of them, with its gradient.
  template <class X = T, class... A> static auto apply(A&&... arguments) -> decltype(X::forward(static_cast<AutogradContext*>(nullptr), std::forward<A>(arguments)...)) {
    using Result = decltype(X::forward(static_cast<AutogradContext*>(nullptr), std::forward<A>(arguments)...));
    FunctionCall call(typeid(X).name());
    (call.add(arguments), ...);
    call.begin();
    Result made = [&] {
      NoGradGuard no_grad;
      return X::forward(call.context.get(), std::forward<A>(arguments)...);
    }();
    if constexpr (std::is_convertible_v<Result, Tensor>) return call.finish({std::move(made)}, &X::backward)[0];
    else return call.finish(std::move(made), &X::backward);
  }
};

}  // namespace autograd
}  // namespace frit
