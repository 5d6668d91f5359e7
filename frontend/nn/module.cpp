// Modules: registration, the walks over parameters and children, conversion, copies, printing. Every walk is Module::visit,
// which goes to a module, then to its children in the order of their registration.
#include "frit/nn/module.h"
#include <cxxabi.h>
#include <cstdlib>
#include <ostream>
#include "frontend/detail.h"

namespace frit::nn {

namespace {

std::string demangled(const char* mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  const std::string s = status == 0 ? text : mangled;
  std::free(text);
  return s;
}
std::string joined(const std::string& prefix, const std::string& name) { return prefix.empty() ? name : prefix + "." + name; }

void check_name(const char* what, const std::string& name) {
  if (name.empty()) throw ValueError(std::string(what) + " name must not be empty. Give it a name.");
  if (name.find('.') != name.npos) throw ValueError(std::string(what) + " name must not contain a dot (got '" + name + "'). Dots join the names of modules and their parts.");
}
template <class Convert> void convert(OrderedDict<std::string, Tensor>& list, Convert f) {
  NoGradGuard no_grad;
  for (auto& item : list) {
    Tensor& t = item.value();
    if (!t.defined()) continue;
    Tensor grad = t.grad();
    t.set_grad({});
    t.set_data(f(t.detach()));
    if (grad.defined()) t.set_grad(f(grad));
  }
}

}  // namespace

namespace detail {
void empty_holder(const char* mangled_type) {
  throw ValueError("there is no module of type " + demangled(mangled_type) + " here: the holder is empty, or the module has another type. Give it a module first.");
}
}  // namespace detail

const std::string& Module::name() const {
  if (name_.empty()) name_ = demangled(typeid(*this).name());
  return name_;
}

// ---- registering ----------------------------------------------------------------------------------------------------
Tensor& Module::register_parameter(std::string name, Tensor tensor, bool requires_grad) {
  check_name("Parameter", name);
  if (buffers_.contains(name)) throw ValueError("Parameter '" + name + "' already defined as a buffer. Choose another name.");
  if (tensor.defined()) tensor.requires_grad_(requires_grad);
  return parameters_.insert(std::move(name), std::move(tensor));
}
Tensor& Module::register_buffer(std::string name, Tensor tensor) {
  check_name("Buffer", name);
  if (parameters_.contains(name)) throw ValueError("Buffer '" + name + "' already defined as a parameter. Choose another name.");
  return buffers_.insert(std::move(name), std::move(tensor));
}
void Module::add_child(std::string name, std::shared_ptr<Module> module) {
  check_name("Submodule", name);
  if (!module) throw ValueError("register_module: the module '" + name + "' is null. Construct it first.");
  children_.insert(std::move(name), std::move(module));
}

// ---- walks ----------------------------------------------------------------------------------------------------------
void Module::visit(const std::string& prefix, const std::function<void(const std::string&, const Module&)>& f) const {
  f(prefix, *this);
  for (const auto& child : children_) child.value()->visit(joined(prefix, child.key()), f);
}
OrderedDict<std::string, Tensor> Module::named_parameters(bool recurse) const {
  OrderedDict<std::string, Tensor> list("Parameter");
  const auto add = [&](const std::string& prefix, const Module& m) {
    for (const auto& p : m.parameters_)
      if (p.value().defined()) list.insert(joined(prefix, p.key()), p.value());
  };
  recurse ? visit({}, add) : add({}, *this);
  return list;
}
OrderedDict<std::string, Tensor> Module::named_buffers(bool recurse) const {
  OrderedDict<std::string, Tensor> list("Buffer");
  const auto add = [&](const std::string& prefix, const Module& m) {
    for (const auto& b : m.buffers_)
      if (b.value().defined()) list.insert(joined(prefix, b.key()), b.value());
  };
  recurse ? visit({}, add) : add({}, *this);
  return list;
}
std::vector<Tensor> Module::parameters(bool recurse) const { return named_parameters(recurse).values(); }
std::vector<Tensor> Module::buffers(bool recurse) const { return named_buffers(recurse).values(); }
OrderedDict<std::string, std::shared_ptr<Module>> Module::named_modules(const std::string& name_prefix, bool include_self) const {
  OrderedDict<std::string, std::shared_ptr<Module>> list("Submodule");
  visit(name_prefix, [&](const std::string& name, const Module& m) {
    if (&m == this && !include_self) return;
    auto shared = std::const_pointer_cast<Module>(m.weak_from_this().lock());
    if (!shared)
      throw ValueError("modules: " + m.name() + " itself cannot be listed, since no shared_ptr owns it. Make it with std::make_shared or a holder, or ask for modules(/*include_self=*/false).");
    list.insert(name, std::move(shared));
  });
  return list;
}
std::vector<std::shared_ptr<Module>> Module::modules(bool include_self) const { return named_modules({}, include_self).values(); }
std::vector<std::shared_ptr<Module>> Module::children() const { return children_.values(); }
void Module::apply(const std::function<void(Module&)>& f) {
  f(*this);
  for (auto& child : children_) child.value()->apply(f);
}
void Module::apply(const std::function<void(const std::string&, Module&)>& f, const std::string& name_prefix) {
  f(name_prefix, *this);
  for (auto& child : children_) child.value()->apply(f, joined(name_prefix, child.key()));
}

// ---- what is done to it ---------------------------------------------------------------------------------------------
void Module::train(bool on) {
  for (auto& child : children_) child.value()->train(on);
  is_training_ = on;
}
void Module::to(Device device, Dtype dtype, bool non_blocking) {
  to(device, non_blocking);
  to(dtype, non_blocking);
}
void Module::to(Dtype dtype, bool non_blocking) {
  if (!is_floating(dtype)) throw DtypeError(name() + ": a module cannot become " + dtype_name(dtype) + ". Choose a floating type.");
  for (auto& child : children_) child.value()->to(dtype, non_blocking);
  const auto f = [&](const Tensor& t) { return t.is_floating_point() ? t.to(dtype, non_blocking) : t; };
  convert(parameters_, f);
  convert(buffers_, f);
}
void Module::to(Device device, bool non_blocking) {
  for (auto& child : children_) child.value()->to(device, non_blocking);
  const auto f = [&](const Tensor& t) { return t.to(device, non_blocking); };
  convert(parameters_, f);
  convert(buffers_, f);
}
void Module::zero_grad(bool set_to_none) {
  for (auto& child : children_) child.value()->zero_grad(set_to_none);
  for (auto& p : parameters_)
    if (p.value().defined()) p.value().zero_grad(set_to_none);
}

// ---- copies ---------------------------------------------------------------------------------------------------------
std::shared_ptr<Module> Module::clone(const std::optional<Device>&) const {
  throw Error("clone: " + name() + " does not know how to copy itself. Derive it from nn::Cloneable<T>, and register its parts in reset().");
}
void Module::forget() {
  parameters_.clear();
  buffers_.clear();
  children_.clear();
}
void Module::copy_values(const Module& from, const std::optional<Device>& device) {
  const auto check = [&](size_t mine, size_t theirs, const char* what) {
    if (mine != theirs)
      throw Error("clone: the copy of " + name() + " has " + std::to_string(mine) + " " + what + ", the original " + std::to_string(theirs) + ". Register them all in reset(), not in the constructor.");
  };
  check(parameters_.size(), from.parameters_.size(), "parameters");
  check(buffers_.size(), from.buffers_.size(), "buffers");
  check(children_.size(), from.children_.size(), "submodules");
  const auto copy = [&](OrderedDict<std::string, Tensor>& mine, const OrderedDict<std::string, Tensor>& theirs) {
    for (const auto& item : theirs) {
      Tensor& t = mine[item.key()];
      if (!item.value().defined() || !t.defined()) continue;
      Tensor data = item.value().detach().clone();
      if (device) data = data.to(*device);
      t.set_data(data);
      if (t.requires_grad() != item.value().requires_grad()) t.requires_grad_(item.value().requires_grad());
    }
  };
  copy(parameters_, from.parameters_);
  copy(buffers_, from.buffers_);
  for (const auto& child : from.children_) children_[child.key()]->copy_values(*child.value(), device);
}

// ---- printing -------------------------------------------------------------------------------------------------------
void Module::pretty_print(std::ostream& stream) const { stream << name(); }
void Module::print(std::ostream& stream, const std::string& indent) const {
  pretty_print(stream);
  if (children_.is_empty()) return;
  stream << "(\n";
  for (const auto& child : children_) {
    stream << indent << "  (" << child.key() << "): ";
    child.value()->print(stream, indent + "  ");
    stream << "\n";
  }
  stream << indent << ")";
}
std::ostream& operator<<(std::ostream& stream, const Module& module) {
  module.print(stream, {});
  return stream;
}

}  // namespace frit::nn
