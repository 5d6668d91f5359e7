// What tensors, lists, modules, optimisers and the random numbers write into archives. Loading collects every new value first and
// stores them last, so that a file that does not fit changes nothing.
#include <cstring>
#include <utility>
#include "frit/serialize.h"
#include "frontend/detail.h"

namespace frit {

Tensor get_rng_state() {
  const auto [seed, stream] = tracer::random_state();
  const Tensor state = empty({16}, kUInt8);
  char* bytes = detail::value_of(state, "get_rng_state").data();
  std::memcpy(bytes, &seed, 8);
  std::memcpy(bytes + 8, &stream, 8);
  return state;
}
void set_rng_state(const Tensor& state) {
  if (!state.defined() || state.dtype() != kUInt8 || state.numel() != 16) throw ValueError("set_rng_state: expected the 16 bytes that get_rng_state gave.");
  const Tensor whole = state.contiguous();
  const char* bytes = detail::value_of(whole, "set_rng_state").data();
  uint64_t seed, stream;
  std::memcpy(&seed, bytes, 8);
  std::memcpy(&stream, bytes + 8, 8);
  tracer::set_random_state({seed, stream});
}

namespace serialize {
namespace {

constexpr const char* only = "0";           // the name of what is saved alone, as in LibTorch

std::string numbered(size_t i) { return std::to_string(i); }

// ---- options of optimisers: one list of names for both directions
template <class F> void each_option(optim::SGDOptions& o, F f) {
  f("momentum", o.momentum()), f("dampening", o.dampening()), f("weight_decay", o.weight_decay()), f("nesterov", o.nesterov());
}
template <class Options, class F> void each_adam_option(Options& o, F f) {
  f("beta1", std::get<0>(o.betas())), f("beta2", std::get<1>(o.betas())), f("eps", o.eps()), f("weight_decay", o.weight_decay()), f("amsgrad", o.amsgrad());
}
template <class F> void each_option(optim::AdamOptions& o, F f) { each_adam_option(o, f); }
template <class F> void each_option(optim::AdamWOptions& o, F f) { each_adam_option(o, f); }
template <class F> void each_option(optim::RMSpropOptions& o, F f) {
  f("alpha", o.alpha()), f("eps", o.eps()), f("weight_decay", o.weight_decay()), f("momentum", o.momentum()), f("centered", o.centered());
}
// Options of a type that is not known here keep their learning rate alone.
template <class F> std::string each_option_of(optim::OptimizerOptions& o, F f) {
  double rate = o.get_lr();
  f("lr", rate);
  o.set_lr(rate);
  std::string kind = "other";
  const auto known = [&](auto* options, const char* name) {
    if (!options) return;
    each_option(*options, f);
    kind = name;
  };
  known(dynamic_cast<optim::SGDOptions*>(&o), "SGD");
  known(dynamic_cast<optim::AdamOptions*>(&o), "Adam");
  known(dynamic_cast<optim::AdamWOptions*>(&o), "AdamW");
  known(dynamic_cast<optim::RMSpropOptions*>(&o), "RMSprop");
  return kind;
}
template <class State, class F> void each_tensor_of(State& s, F f) {
  f("momentum_buffer", s.momentum_buffer), f("exp_avg", s.exp_avg), f("exp_avg_sq", s.exp_avg_sq);
  f("max_exp_avg_sq", s.max_exp_avg_sq), f("square_avg", s.square_avg), f("grad_avg", s.grad_avg);
}

// The group's parameters in the archive have to be those of the optimiser in number and, where they have a state, in shape.
optim::ParamState read_state(InputArchive& archive, const std::string& name, const Tensor& parameter) {
  optim::ParamState s;
  archive.read("step", s.step);
  each_tensor_of(s, [&](const char* key, Tensor& t) {
    if (archive.try_read(key, t) && t.dim() && t.sizes() != parameter.sizes())
      archive.fail(std::string(key) + " of parameter " + name + " has shape " + frit::detail::shape_text(t.sizes()) + ", the parameter " + frit::detail::shape_text(parameter.sizes()) +
                   ": the optimiser has to hold the same parameters in the same order");
  });
  return s;
}

}  // namespace

// ---- tensors and lists ----------------------------------------------------------------------------------------------------
OutputArchive& operator<<(OutputArchive& archive, const Tensor& tensor) {
  if (!tensor.defined()) throw ValueError("save: the tensor is undefined. Give it a value first.");
  archive.write(only, tensor);
  return archive;
}
InputArchive& operator>>(InputArchive& archive, Tensor& tensor) {
  Tensor loaded;                            // as in LibTorch, the tensor becomes another
  archive.read(only, loaded);
  tensor = loaded;
  return archive;
}
OutputArchive& operator<<(OutputArchive& archive, const std::vector<Tensor>& list) {
  archive.write("size", int64_t(list.size()));
  for (size_t i = 0; i < list.size(); ++i) archive.write(numbered(i), list[i]);
  return archive;
}
InputArchive& operator>>(InputArchive& archive, std::vector<Tensor>& list) {
  int64_t size = 0;
  Value stored;
  if (archive.try_read("size", stored)) {
    archive.read("size", size);
  } else {                                  // a file of others: the names count
    for (Tensor t; archive.try_read(numbered(size_t(size)), t); t = {}) ++size;
  }
  std::vector<Tensor> loaded;
  // The number is only a claim: undefined ones are left out, but not at the end without limit.
  const int64_t names = int64_t(archive.keys().size());
  if (size < 0 || size > names * 1000 + 1000) archive.fail("its list claims " + std::to_string(size) + " tensors, but it has " + std::to_string(names) + " names");
  for (int64_t i = 0; i < size; ++i) archive.try_read(numbered(size_t(i)), loaded.emplace_back());
  list = std::move(loaded);
  return archive;
}

// ---- modules --------------------------------------------------------------------------------------------------------------
OutputArchive& operator<<(OutputArchive& archive, const nn::Module& module) {
  for (const auto& p : module.named_parameters()) archive.write(p.key(), p.value());
  for (const auto& b : module.named_buffers()) archive.write(b.key(), b.value(), true);
  return archive;
}
InputArchive& operator>>(InputArchive& archive, nn::Module& module) {
  std::vector<std::pair<Tensor, Tensor>> changes;
  const auto collect = [&](const auto& named) {
    for (const auto& item : named) {
      const Tensor& mine = item.value();
      Tensor stored;
      archive.read(item.key(), stored);
      if (mine.sizes() != stored.sizes() || mine.dtype() != stored.dtype())
        throw ShapeError("load: " + module.name() + " has '" + item.key() + "' as " + dtype_name(mine.dtype()) + " " + frit::detail::shape_text(mine.sizes()) + ", the file as " +
                         dtype_name(stored.dtype()) + " " + frit::detail::shape_text(stored.sizes()) + ". Build the same model, or convert it with to() first.");
      changes.emplace_back(mine, stored);
    }
  };
  collect(module.named_parameters());
  collect(module.named_buffers());
  NoGradGuard no_grad;
  for (auto& [mine, stored] : changes) mine.copy_(stored);
  synchronize();                            // the file's tensors are let go here
  return archive;
}

// ---- optimisers -----------------------------------------------------------------------------------------------------------
OutputArchive& operator<<(OutputArchive& archive, const optim::Optimizer& optimizer) {
  OutputArchive groups, states;
  size_t number = 0;
  for (size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    const optim::OptimizerParamGroup& group = optimizer.param_groups()[g];
    OutputArchive own;
    own.write("count", int64_t(group.params().size()));
    own.write("kind", each_option_of(*group.options().clone(), [&](const char* name, const auto& value) { own.write(name, value); }));
    groups.write(numbered(g), own);
    for (const Tensor& p : group.params()) {
      const std::string name = numbered(number++);
      const optim::ParamState* state = optimizer.state(p);
      if (!state) continue;
      OutputArchive one;
      one.write("step", state->step);
      each_tensor_of(*state, [&](const char* key, const Tensor& t) { one.write(key, t); });
      states.write(name, one);
    }
  }
  archive.write("group_count", int64_t(optimizer.param_groups().size()));
  archive.write("groups", groups);
  archive.write("state", states);
  return archive;
}
InputArchive& operator>>(InputArchive& archive, optim::Optimizer& optimizer) {
  auto& groups = optimizer.param_groups();
  int64_t count = 0;
  archive.read("group_count", count);
  if (count != int64_t(groups.size())) archive.fail("it has " + std::to_string(count) + " parameter groups, the optimiser " + std::to_string(groups.size()) + ": add the same groups first");
  std::vector<std::unique_ptr<optim::OptimizerOptions>> options;
  std::vector<std::pair<Tensor, optim::ParamState>> states;
  size_t number = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    InputArchive own;
    archive.read("groups." + numbered(g), own);
    own.read("count", count);
    if (count != int64_t(groups[g].params().size()))
      archive.fail("its parameter group " + numbered(g) + " has " + std::to_string(count) + " parameters, the optimiser's " + std::to_string(groups[g].params().size()));
    std::string kind;
    own.read("kind", kind);
    options.push_back(groups[g].options().clone());
    const std::string mine = each_option_of(*options.back(), [](const char*, auto&) {});
    if (kind != mine) archive.fail("it was saved by another kind of optimiser (" + kind + ", this is " + mine + ")");
    each_option_of(*options.back(), [&](const char* name, auto& value) { own.read(name, value); });
    for (const Tensor& p : groups[g].params()) {
      const std::string name = numbered(number++);
      InputArchive one;
      if (archive.try_read("state." + name, one)) states.emplace_back(p, read_state(one, name, p));
    }
  }
  for (size_t g = 0; g < groups.size(); ++g) groups[g].set_options(std::move(options[g]));
  optimizer.clear_state();
  for (auto& [p, state] : states) optimizer.set_state(p, std::move(state));
  return archive;
}

}  // namespace serialize
namespace nn {
void Module::save(serialize::OutputArchive& archive) const { archive << *this; }
void Module::load(serialize::InputArchive& archive) { archive >> *this; }
}  // namespace nn
namespace optim {
void Optimizer::save(serialize::OutputArchive& archive) const { archive << *this; }
void Optimizer::load(serialize::InputArchive& archive) { archive >> *this; }
}  // namespace optim
namespace serialize {

// ---- under a name ---------------------------------------------------------------------------------------------------------
template <class T> static void write_nested(OutputArchive& archive, const std::string& key, const T& value) {
  OutputArchive nested;
  nested << value;
  archive.write(key, nested);
}
template <class T> static void read_nested(const InputArchive& archive, const std::string& key, T& value) {
  InputArchive nested;
  archive.read(key, nested);
  nested >> value;
}
void OutputArchive::write(const std::string& key, const std::vector<Tensor>& list) { write_nested(*this, key, list); }
void OutputArchive::write(const std::string& key, const nn::Module& module) { write_nested(*this, key, module); }
void OutputArchive::write(const std::string& key, const optim::Optimizer& optimizer) { write_nested(*this, key, optimizer); }
void InputArchive::read(const std::string& key, std::vector<Tensor>& list) const { read_nested(*this, key, list); }
void InputArchive::read(const std::string& key, nn::Module& module) const {
  if (module.named_parameters().is_empty() && module.named_buffers().is_empty()) return;
  read_nested(*this, key, module);
}
void InputArchive::read(const std::string& key, optim::Optimizer& optimizer) const { read_nested(*this, key, optimizer); }

}  // namespace serialize
}  // namespace frit
