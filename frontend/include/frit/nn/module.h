// Modules: named parameters, buffers and children, in the order of their registration; holders, which share a module.
//
//   struct Net : nn::Module {
//     nn::Linear fc{nullptr};
//     Net() { fc = register_module("fc", nn::Linear(784, 10)); }
//     Tensor forward(const Tensor& x) { return fc(x); }
//   };
#pragma once
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>
#include "frit/autograd.h"
#include "frit/nn/ordered_dict.h"

namespace frit::serialize {
class OutputArchive;
class InputArchive;
}  // namespace frit::serialize

namespace frit::nn {

template <class Contained> class ModuleHolder;
template <class Derived> class Cloneable;

namespace detail {
struct HolderBase {};
template <class T> concept Holder = std::is_base_of_v<HolderBase, std::remove_cvref_t<T>>;
// What shares a module instead of making one.
template <class Contained, class Head, class... Tail> constexpr bool is_a_share() {
  using H = std::remove_cvref_t<Head>;
  if constexpr (sizeof...(Tail)) return false;
  else return std::is_base_of_v<ModuleHolder<Contained>, H> || std::is_same_v<H, std::shared_ptr<Contained>> || std::is_same_v<H, std::nullptr_t>;
}
// LinearImpl of nn::Linear and of LinearImpl itself.
template <class T, bool holder = std::is_base_of_v<HolderBase, T>> struct ImplOf { using type = T; };
template <class T> struct ImplOf<T, true> { using type = typename T::ContainedType; };
[[noreturn]] void empty_holder(const char* mangled_type);
}  // namespace detail

class Module : public std::enable_shared_from_this<Module> {
 public:
  Module() = default;
  explicit Module(std::string name) : name_(std::move(name)) {}
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  virtual ~Module() = default;
  const std::string& name() const;  // the type's, where none was given

  // ---- what it holds: its own in the order of registration, then each child's
  std::vector<Tensor> parameters(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_buffers(bool recurse = true) const;
  // With itself only when a shared_ptr or a holder owns it.
  std::vector<std::shared_ptr<Module>> modules(bool include_self = true) const;
  OrderedDict<std::string, std::shared_ptr<Module>> named_modules(const std::string& name_prefix = {}, bool include_self = true) const;
  std::vector<std::shared_ptr<Module>> children() const;
  OrderedDict<std::string, std::shared_ptr<Module>> named_children() const { return children_; }
  void apply(const std::function<void(Module&)>& f);
  void apply(const std::function<void(const std::string&, Module&)>& f, const std::string& name_prefix = {});

  // ---- what is done to it
  virtual void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const noexcept { return is_training_; }
  // Floating parameters and buffers change their type; the tensors keep their identity, so optimisers stay valid.
  virtual void to(Device device, Dtype dtype, bool non_blocking = false);
  virtual void to(Dtype dtype, bool non_blocking = false);
  virtual void to(Device device, bool non_blocking = false);
  virtual void zero_grad(bool set_to_none = true);
  // A deep copy, of modules that derive from Cloneable.
  virtual std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const;

  // The module as T, or null when it is another type. T may be a holder: as<nn::Linear>().
  template <class T> auto as() noexcept { return dynamic_cast<typename detail::ImplOf<T>::type*>(this); }
  template <class T> auto as() const noexcept { return dynamic_cast<const typename detail::ImplOf<T>::type*>(this); }

  virtual void pretty_print(std::ostream& stream) const;

  // All parameters and buffers to and from an archive (frit/serialize.h). load throws FileError or ShapeError, and has changed nothing then.
  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);

  // ---- registering, in constructors. Names may hold no dot and be used once.
  Tensor& register_parameter(std::string name, Tensor tensor, bool requires_grad = true);
  Tensor& register_buffer(std::string name, Tensor tensor);
  template <class M> std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    add_child(std::move(name), module);
    return module;
  }
  template <class M> std::shared_ptr<M> register_module(std::string name, ModuleHolder<M> holder) {
    return register_module(std::move(name), holder.ptr());
  }
  template <class M> std::shared_ptr<M> replace_module(const std::string& name, std::shared_ptr<M> module) {
    children_[name] = module;
    return module;
  }
  template <class M> std::shared_ptr<M> replace_module(const std::string& name, ModuleHolder<M> holder) {
    return replace_module(name, holder.ptr());
  }
  void unregister_module(const std::string& name) { children_.erase(name); }

 protected:
  OrderedDict<std::string, Tensor> parameters_{"Parameter"}, buffers_{"Buffer"};
  void add_child(std::string name, std::shared_ptr<Module> module);
  void forget();                            // registers nothing any more: a copy, before it registers its own
  void copy_values(const Module& from, const std::optional<Device>& device);

 private:
  void visit(const std::string& prefix, const std::function<void(const std::string&, const Module&)>& f) const;
  void print(std::ostream& stream, const std::string& indent) const;
  friend std::ostream& operator<<(std::ostream& stream, const Module& module);

  OrderedDict<std::string, std::shared_ptr<Module>> children_{"Submodule"};
  mutable std::string name_;
  bool is_training_ = true;
};
std::ostream& operator<<(std::ostream& stream, const Module& module);

// Gives clone() to a module whose reset() registers everything that it has.
template <class Derived> class Cloneable : public Module {
 public:
  using Module::Module;
  virtual void reset() = 0;
  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override {
    NoGradGuard no_grad;
    auto copy = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    Cloneable& c = *copy;
    c.forget();
    c.reset();
    c.copy_values(*this, device);
    return copy;
  }
};

// Shares one module: copies of a holder are the same module. nullptr: none yet.
template <class Contained> class ModuleHolder : public detail::HolderBase {
 public:
  using ContainedType = Contained;
  ModuleHolder() : impl_(std::make_shared<Contained>()) {}
  ModuleHolder(std::nullptr_t) {}
  ModuleHolder(std::shared_ptr<Contained> module) : impl_(std::move(module)) {}
  template <class Head, class... Tail>
    requires(!detail::is_a_share<Contained, Head, Tail...>() && std::is_constructible_v<Contained, Head, Tail...>)
  explicit ModuleHolder(Head&& head, Tail&&... tail) : impl_(std::make_shared<Contained>(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}

  explicit operator bool() const noexcept { return impl_ != nullptr; }
  bool is_empty() const noexcept { return impl_ == nullptr; }
  Contained* get() const {
    if (!impl_) detail::empty_holder(typeid(Contained).name());
    return impl_.get();
  }
  Contained* operator->() const { return get(); }
  Contained& operator*() const { return *get(); }
  const std::shared_ptr<Contained>& ptr() const {
    get();
    return impl_;
  }
  template <class... A> decltype(auto) operator()(A&&... inputs) const { return get()->forward(std::forward<A>(inputs)...); }
  template <class A> decltype(auto) operator[](A&& at) const { return (*get())[std::forward<A>(at)]; }
  auto begin() const { return get()->begin(); }
  auto end() const { return get()->end(); }

 private:
  std::shared_ptr<Contained> impl_;
};
template <class Contained> std::ostream& operator<<(std::ostream& stream, const ModuleHolder<Contained>& holder) { return stream << *holder; }

}  // namespace frit::nn

#define FRIT_MODULE_IMPL(Name, ImplType)                         \
  class Name : public ::frit::nn::ModuleHolder<ImplType> {       \
   public:                                                       \
    using ::frit::nn::ModuleHolder<ImplType>::ModuleHolder;      \
    using Impl = ImplType;                                       \
  }
// A holder Name of the module NameImpl.
#define FRIT_MODULE(Name) FRIT_MODULE_IMPL(Name, Name##Impl)
