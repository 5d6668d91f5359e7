// Sequential, ModuleList and Functional: what does not depend on the modules' types.
#include "frit/nn/containers.h"
#include <ostream>

namespace frit::nn {

namespace detail {
void wrong_input_count(const Module& module, size_t given) {
  throw ValueError(module.name() + ": forward does not take " + std::to_string(given) + " tensors. In a Sequential each module after the first takes one.");
}
}  // namespace detail

void SequentialImpl::push_back(std::string name, AnyModule module) {
  if (module.is_empty()) throw ValueError("Sequential: the module '" + name + "' is empty. Construct it first.");
  register_module(std::move(name), module.ptr());
  modules_.push_back(std::move(module));
}
Tensor SequentialImpl::run(const std::vector<Tensor>& inputs) {
  if (modules_.empty()) throw ValueError("Sequential: forward of an empty Sequential. Add a module with push_back first.");
  Tensor x = modules_.front().forward_all(inputs);
  for (size_t i = 1; i < modules_.size(); ++i) x = modules_[i].forward(x);
  return x;
}
std::shared_ptr<Module> SequentialImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<SequentialImpl>(*this);
  copy->forget();
  copy->modules_.clear();
  const auto names = named_children().keys();
  for (size_t i = 0; i < modules_.size(); ++i) copy->push_back(names[i], modules_[i].clone(device));
  return copy;
}
void SequentialImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::Sequential"; }

void ModuleListImpl::append(std::shared_ptr<Module> module) {
  register_module(std::to_string(list_.size()), module);
  list_.push_back(std::move(module));
}
std::shared_ptr<Module> ModuleListImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<ModuleListImpl>(*this);
  copy->forget();
  copy->list_.clear();
  for (const auto& module : list_) copy->append(module->clone(device));
  return copy;
}
void ModuleListImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::ModuleList"; }
void FunctionalImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::Functional()"; }

}  // namespace frit::nn
