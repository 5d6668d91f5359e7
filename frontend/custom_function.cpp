// autograd::Function: checks around the user's forward and backward. How a call is recorded is tracer/custom.h's.
#include "frit/custom_function.h"
#include <algorithm>
#include <cxxabi.h>
#include <mutex>
#include <set>
#include "frontend/detail.h"
#include "runtime/error.h"
#include "tracer/custom.h"

namespace frit {

using namespace detail;

void IValue::fail(const char* wanted) { throw DtypeError(std::string("saved_data: the value is not ") + wanted + ". Ask for what was stored."); }

namespace autograd {

namespace {
// The name of the user's type, kept for good.
const char* readable(const char* mangled) {
  static std::mutex mutex;
  static std::set<std::string>& names = *new std::set<std::string>;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? text.get() : mangled;
  if (const size_t space = name.rfind("::"); space != std::string::npos) name.erase(0, space + 2);
  const std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}
bool holds(const variable_list& l, const Tensor& t) {
  return std::any_of(l.begin(), l.end(), [&](const Tensor& o) { return o.is_same(t); });
}
// What is known of a tensor when it is gone.
struct Form {
  Sizes sizes;
  Dtype dtype;
  explicit Form(const Tensor& t) : sizes(t.sizes().vec()), dtype(t.dtype()) {}
};
// A gradient in the input's form; a broadcast input gets the sum.
Tensor fitted(const Tensor& g, const Form& form, const char* name, size_t argument) {
  const Sizes have = g.sizes().vec();
  bool fits = have.size() >= form.sizes.size();
  for (size_t i = 0; fits && i < form.sizes.size(); ++i) {
    const int64_t wanted = form.sizes[form.sizes.size() - 1 - i];
    fits = wanted == 1 || wanted == have[have.size() - 1 - i];
  }
  if (!fits)
    throw ShapeError(std::string(name) + ": the gradient that backward returned for argument " + std::to_string(argument) + " has shape " + shape_text(have) +
                     ", the argument " + shape_text(form.sizes) + ". Return one of the argument's shape.");
  return tracer::convert(tracer::sum_to(g, form.sizes), form.dtype);
}
}  // namespace

void AutogradContext::save_for_backward(variable_list tensors) { saved_ = std::move(tensors); }
variable_list AutogradContext::get_saved_variables() const {
  if (!call_) throw AutogradError("get_saved_variables: saved tensors are there while backward runs. Call it in backward.");
  const auto& call = *static_cast<const tracer::CustomCall*>(call_);
  variable_list list;
  for (size_t i = 0; i < call.gradient.saved.size(); ++i) list.push_back(call.saved(i));
  return list;
}
bool AutogradContext::needs_input_grad(size_t i) const {
  if (i >= wanted_.size()) throw IndexError("needs_input_grad: forward has " + std::to_string(wanted_.size()) + " tensors. Give a smaller number.");
  return wanted_[i];
}

// The inputs as they are now: forward may write them.
void FunctionCall::begin() {
  for (const Tensor& t : inputs) {
    pasts.push_back(t.defined() && AutoGradMode::is_enabled() ? Tensor(tracer::past_of(t)) : Tensor());
    context->wanted_.push_back(pasts.back().defined());
  }
}

variable_list FunctionCall::finish(variable_list made, Backward backward) {
  const char* name = readable(mangled_name);
  AutogradContext& ctx = *context;
  const variable_list saved = std::move(ctx.saved_), dirty = std::move(ctx.dirty_), constant = std::move(ctx.constant_);
  ctx.saved_.clear(), ctx.dirty_.clear(), ctx.constant_.clear();
  for (const Tensor& t : made)
    if (!t.defined()) throw AutogradError(std::string(name) + ": forward returned an undefined tensor. Return tensors that have values.");
  for (const Tensor& t : dirty) {
    if (!holds(inputs, t)) throw AutogradError(std::string(name) + ": a tensor of mark_dirty is no argument of forward. Mark the arguments that it wrote.");
    if (t.requires_grad() && t.is_leaf() && AutoGradMode::is_enabled())
      throw AutogradError(std::string(name) + ": forward wrote a leaf that requires a gradient. Write a clone() of it.");
  }
  if (std::none_of(pasts.begin(), pasts.end(), [](const Tensor& t) { return t.defined(); })) return made;

  // Outputs that take part; the others are as they were made.
  std::vector<Var> attached;
  std::vector<bool> is_dirty;
  std::vector<int> place;                       // by output: among the attached, or -1
  std::vector<Form> forms;                      // of all outputs
  for (const Tensor& t : made) {
    forms.emplace_back(t);
    const bool joins = is_floating(t.dtype()) && !holds(constant, t);
    place.push_back(joins ? int(attached.size()) : -1);
    if (joins) attached.push_back(t), is_dirty.push_back(holds(dirty, t));
  }
  std::vector<std::optional<Form>> inputs_forms;
  for (const Tensor& t : pasts) inputs_forms.push_back(t.defined() ? std::optional<Form>(t) : std::nullopt);

  auto custom = std::make_shared<tracer::CustomGradient>();
  custom->name = name;
  custom->backward = [ctx = context, backward, name, place, forms, inputs_forms, is_tensor = is_tensor](const tracer::CustomCall& call, std::vector<Var> gradients) {
    variable_list given;
    for (size_t i = 0; i < forms.size(); ++i) {
      Tensor g = place[i] >= 0 ? Tensor(gradients[size_t(place[i])]) : Tensor();
      if (!g.defined() && ctx->materialize_) g = zeros(forms[i].sizes, is_floating(forms[i].dtype) ? forms[i].dtype : kFloat32);
      given.push_back(g);
    }
    struct Inside {
      const void*& slot;
      const void* before;
      Inside(const void*& s, const void* now) : slot(s), before(std::exchange(s, now)) {}
      ~Inside() { slot = before; }
    };
    variable_list returned;
    {
      const Inside inside(ctx->call_, &call);
      returned = backward(ctx.get(), std::move(given));
    }
    for (size_t i = is_tensor.size(); i < returned.size(); ++i)
      if (returned[i].defined())
        throw AutogradError(std::string(name) + ": backward returned " + std::to_string(returned.size()) + " gradients, forward has " + std::to_string(is_tensor.size()) +
                            " arguments. Return one for each.");
    if (returned.size() < is_tensor.size())
      throw AutogradError(std::string(name) + ": backward returned " + std::to_string(returned.size()) + " gradients, forward has " + std::to_string(is_tensor.size()) +
                          " arguments. Return one for each, Tensor() where there is none.");
    std::vector<Var> result;
    size_t tensor = 0;
    for (size_t i = 0; i < is_tensor.size(); ++i) {
      if (!is_tensor[i]) {
        if (returned[i].defined()) throw AutogradError(std::string(name) + ": backward returned a gradient for argument " + std::to_string(i) + ", which is no tensor. Return Tensor() there.");
        continue;
      }
      const auto& form = inputs_forms[tensor++];
      result.push_back(returned[i].defined() && form ? Var(fitted(returned[i], *form, name, i)) : Var());
    }
    return result;
  };
  const auto vars = [](const variable_list& l) { return std::vector<Var>(l.begin(), l.end()); };
  const std::vector<Var> in = vars(inputs), before = vars(pasts), keep = vars(saved);
  const std::vector<Var> out = tracer::attach_custom(custom, {in, before, attached, keep, is_dirty});
  for (size_t i = 0; i < made.size(); ++i)
    if (place[i] >= 0) made[i] = out[size_t(place[i])];
  return made;
}

}  // namespace autograd
}  // namespace frit
