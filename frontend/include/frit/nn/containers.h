// Modules made of modules: Sequential (any mix, called one after the other), ModuleList, and functions as modules.
#pragma once
#include "frit/nn/module.h"
#include "runtime/source_line.h"

namespace frit::nn {

// A module of any type whose forward takes one to four tensors and returns a tensor.
class AnyModule {
 public:
  AnyModule() = default;
  template <class M>
    requires std::is_base_of_v<Module, M>
  AnyModule(std::shared_ptr<M> module) : module_(std::move(module)), call_(&call<M>) {}
  template <detail::Holder H> AnyModule(const H& holder) : AnyModule(std::shared_ptr<typename H::ContainedType>(holder.ptr())) {}
  template <class M>
    requires(std::is_base_of_v<Module, std::remove_cvref_t<M>>)
  AnyModule(M&& module) : AnyModule(std::make_shared<std::remove_cvref_t<M>>(std::forward<M>(module))) {}

  template <class... A> Tensor forward(const A&... inputs) const { return call_(*module_, {Tensor(inputs)...}); }
  Tensor forward_all(const std::vector<Tensor>& inputs) const { return call_(*module_, inputs); }
  const std::shared_ptr<Module>& ptr() const { return module_; }
  template <class T> auto& get() const {
    auto* m = module_ ? module_->as<T>() : nullptr;
    if (!m) detail::empty_holder(typeid(T).name());
    return *m;
  }
  bool is_empty() const { return !module_; }
  AnyModule clone(const std::optional<Device>& device = std::nullopt) const {
    AnyModule copy(*this);
    copy.module_ = module_->clone(device);
    return copy;
  }

 private:
  using Call = Tensor (*)(Module&, const std::vector<Tensor>&);
  template <class M> static Tensor call(Module& module, const std::vector<Tensor>& in);

  std::shared_ptr<Module> module_;
  Call call_ = nullptr;
};
namespace detail {
[[noreturn]] void wrong_input_count(const Module& module, size_t given);
}
template <class M> Tensor AnyModule::call(Module& module, const std::vector<Tensor>& in) {
  M& m = static_cast<M&>(module);
  constexpr bool takes1 = requires { m.forward(in[0]); }, takes2 = requires { m.forward(in[0], in[1]); },
                 takes3 = requires { m.forward(in[0], in[1], in[2]); }, takes4 = requires { m.forward(in[0], in[1], in[2], in[3]); };
  static_assert(takes1 || takes2 || takes3 || takes4, "the module needs a public forward of one to four tensors");
  if constexpr (takes1) if (in.size() == 1) return m.forward(in[0]);
  if constexpr (takes2) if (in.size() == 2) return m.forward(in[0], in[1]);
  if constexpr (takes3) if (in.size() == 3) return m.forward(in[0], in[1], in[2]);
  if constexpr (takes4) if (in.size() == 4) return m.forward(in[0], in[1], in[2], in[3]);
  detail::wrong_input_count(module, in.size());
}

class NamedAnyModule {
 public:
  template <class M> NamedAnyModule(std::string name, M&& module) : name_(std::move(name)), module_(std::forward<M>(module)) {}
  const std::string& name() const { return name_; }
  const AnyModule& module() const { return module_; }

 private:
  std::string name_;
  AnyModule module_;
};

class SequentialImpl : public Cloneable<SequentialImpl> {
 public:
  SequentialImpl() = default;
  SequentialImpl(std::initializer_list<NamedAnyModule> named) {
    for (const NamedAnyModule& m : named) push_back(m.name(), m.module());
  }
  template <class... M>
    requires(sizeof...(M) > 0 && !(std::is_same_v<std::remove_cvref_t<M>, SequentialImpl> || ...) && (std::is_constructible_v<AnyModule, M> && ...))
  explicit SequentialImpl(M&&... modules) {
    (push_back(AnyModule(std::forward<M>(modules))), ...);
  }
  void reset() override {}
  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override;
  void pretty_print(std::ostream& stream) const override;

  // Unnamed modules are named by their place: 0, 1, …
  void push_back(AnyModule module) { push_back(std::to_string(modules_.size()), std::move(module)); }
  void push_back(std::string name, AnyModule module);
  void extend(const SequentialImpl& other) {
    for (const AnyModule& m : other.modules_) push_back(m);
  }
  // The first module may take several tensors.
  template <class... A> [[gnu::noinline]] Tensor forward(const A&... inputs) {
    const CallScope scope(__builtin_return_address(0));
    return run({Tensor(inputs)...});
  }
  std::shared_ptr<Module> ptr(size_t i) const { return modules_.at(i).ptr(); }
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  template <class T> auto& at(size_t i) const { return modules_.at(i).template get<T>(); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }

 private:
  Tensor run(const std::vector<Tensor>& inputs);
  std::vector<AnyModule> modules_;
};
class Sequential : public ModuleHolder<SequentialImpl> {
 public:
  using ModuleHolder<SequentialImpl>::ModuleHolder;
  using Impl = SequentialImpl;
  Sequential() = default;
  Sequential(std::initializer_list<NamedAnyModule> named) : ModuleHolder(std::make_shared<SequentialImpl>(named)) {}
};

class ModuleListImpl : public Cloneable<ModuleListImpl> {
 public:
  ModuleListImpl() = default;
  template <class... M>
    requires(sizeof...(M) > 0 && ((detail::Holder<M> || std::is_convertible_v<M, std::shared_ptr<Module>>) && ...))
  explicit ModuleListImpl(const M&... modules) {
    (push_back(modules), ...);
  }
  void reset() override {}
  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override;
  void pretty_print(std::ostream& stream) const override;

  template <class M>
    requires std::is_base_of_v<Module, M>
  void push_back(std::shared_ptr<M> module) { append(std::move(module)); }
  template <class M> void push_back(const ModuleHolder<M>& holder) { append(holder.ptr()); }
  void extend(const ModuleListImpl& other) {
    for (const auto& m : other.list_) append(m);
  }
  std::shared_ptr<Module> ptr(size_t i) const { return list_.at(i); }
  template <class T> std::shared_ptr<typename detail::ImplOf<T>::type> ptr(size_t i) const { return std::dynamic_pointer_cast<typename detail::ImplOf<T>::type>(list_.at(i)); }
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  template <class T> auto& at(size_t i) const {
    auto* m = list_.at(i)->as<T>();
    if (!m) detail::empty_holder(typeid(T).name());
    return *m;
  }
  size_t size() const noexcept { return list_.size(); }
  bool is_empty() const noexcept { return list_.empty(); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

 private:
  void append(std::shared_ptr<Module> module);
  std::vector<std::shared_ptr<Module>> list_;
};
FRIT_MODULE(ModuleList);

// A function as a module, with the arguments that follow the tensor bound: nn::Functional(elu, 1.0).
class FunctionalImpl : public Cloneable<FunctionalImpl> {
 public:
  template <class F, class... A>
    requires std::is_invocable_r_v<Tensor, F, Tensor, A...>
  explicit FunctionalImpl(F f, A... bound) : function_([f, bound...](Tensor x) -> Tensor { return f(std::move(x), bound...); }) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(Tensor input) { return function_(std::move(input)); }

 private:
  std::function<Tensor(Tensor)> function_;
};
FRIT_MODULE(Functional);

}  // namespace frit::nn
