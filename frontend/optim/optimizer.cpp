// What all optimisers share: groups, the walk over parameters with gradients, learning-rate schedules. Start at Optimizer::step.
#include "frit/optim.h"
#include <algorithm>
#include <mutex>
#include <set>
#include <typeinfo>
#include "frontend/detail.h"
#include "tracer/memory_log.h"

namespace frit::optim {

namespace {
struct Registry {
  std::mutex lock;
  std::set<const Optimizer*> all;
};
Registry& registry() {
  static Registry* r = new Registry;  // never destroyed: an optimiser may be static
  return *r;
}
}  // namespace

Optimizer::Optimizer(const char* name, std::vector<OptimizerParamGroup> groups, std::unique_ptr<OptimizerOptions> defaults)
    : name_(name), defaults_(std::move(defaults)) {
  for (const OptimizerParamGroup& g : groups) add_param_group(g);
  const std::lock_guard hold(registry().lock);
  registry().all.insert(this);
}
Optimizer::~Optimizer() {
  const std::lock_guard hold(registry().lock);
  registry().all.erase(this);
}
void Optimizer::log_memory() const {
  const auto log = [](const Tensor& t, tracer::MemoryUse use) {
    if (const tracer::Cell* c = t.cell(); c && !c->deferred.load(std::memory_order_acquire) && c->value) tracer::log_use(*c->value, use);
  };
  for (const OptimizerParamGroup& g : groups_)
    for (const Tensor& p : g.params()) {
      log(p, tracer::MemoryUse::parameter);
      tracer::log_gradient(p.cell()->grad);
    }
  for (const auto& [cell, s] : state_)
    for (const Tensor* t : {&s.momentum_buffer, &s.exp_avg, &s.exp_avg_sq, &s.max_exp_avg_sq, &s.square_avg, &s.grad_avg}) log(*t, tracer::MemoryUse::optimizer_state);
}
void detail::log_memory_of_all() {
  if (!tracer::memory_logged()) return;
  const std::lock_guard hold(registry().lock);
  for (const Optimizer* o : registry().all) o->log_memory();
}

void Optimizer::add_param_group(const OptimizerParamGroup& group) {
  OptimizerParamGroup own(group);
  if (!own.has_options()) own.set_options(defaults_->clone());
  if (const OptimizerOptions &given = own.options(), &mine = *defaults_; typeid(given) != typeid(mine))
    throw ValueError(std::string(name_) + ": a parameter group has another optimiser's options. Give it " + name_ + "Options.");
  own.params().clear();
  const auto holds = [](const OptimizerParamGroup& g, const Tensor& p) {
    return std::any_of(g.params().begin(), g.params().end(), [&](const Tensor& q) { return q.is_same(p); });
  };
  for (const Tensor& p : group.params()) {
    if (!p.defined()) throw ValueError(std::string(name_) + ": a parameter is undefined. Leave it out.");
    if (!p.is_leaf()) throw ValueError(std::string(name_) + ": a tensor of shape " + frit::detail::shape_text(p.sizes()) + " was computed. Only leaves can be optimised: use detach().");
    for (const OptimizerParamGroup& g : groups_)
      if (holds(g, p)) throw ValueError(std::string(name_) + ": a parameter of shape " + frit::detail::shape_text(p.sizes()) + " is in more than one group. Leave it in one.");
    if (!holds(own, p)) own.params().push_back(p);  // shared between modules: updated once
  }
  groups_.push_back(std::move(own));
}

Tensor Optimizer::step(LossClosure closure) {
  Tensor loss;
  if (closure) {
    AutoGradMode on(true);
    loss = closure();
  }
  NoGradGuard no_grad;
  for (OptimizerParamGroup& group : groups_) {
    check(group.options());
    for (Tensor& p : group.params()) {
      const Tensor grad = p.grad();
      if (!grad.defined()) continue;
      ParamState& state = state_[p.cell()];
      ++state.step;
      update(p, grad, state, group.options());
    }
  }
  tracer::recorder().flush("optimizer.step()");
  if (tracer::memory_logged()) log_memory();
  return loss;
}
void Optimizer::zero_grad(bool set_to_none) {
  for (OptimizerParamGroup& group : groups_)
    for (Tensor& p : group.params()) p.zero_grad(set_to_none);
}
std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> list;
  for (const OptimizerParamGroup& group : groups_) list.insert(list.end(), group.params().begin(), group.params().end());
  return list;
}
size_t Optimizer::size() const noexcept {
  size_t n = 0;
  for (const OptimizerParamGroup& group : groups_) n += group.params().size();
  return n;
}
const ParamState* Optimizer::state(const Tensor& parameter) const {
  const auto at = state_.find(parameter.cell());
  return at == state_.end() ? nullptr : &at->second;
}

// ---- learning rates -----------------------------------------------------------------------------------------------------
void LRScheduler::step() {
  const std::vector<double> rates = get_lrs();
  auto& groups = optimizer_.param_groups();
  if (rates.size() != groups.size())
    throw ValueError("LRScheduler: there are " + std::to_string(rates.size()) + " learning rates for " + std::to_string(groups.size()) + " parameter groups. get_lrs() must return one for each.");
  for (size_t i = 0; i < rates.size(); ++i) groups[i].options().set_lr(rates[i]);
  ++step_count_;
}
std::vector<double> LRScheduler::get_current_lrs() const {
  std::vector<double> rates;
  for (const OptimizerParamGroup& group : optimizer_.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

StepLR::StepLR(Optimizer& optimizer, unsigned step_size, double gamma) : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  if (step_size == 0) throw ValueError("StepLR: the step size is 0. Give 1 or more.");
}
std::vector<double> StepLR::get_lrs() {
  std::vector<double> rates = get_current_lrs();
  if (step_count_ && step_count_ % step_size_ == 0)
    for (double& r : rates) r *= gamma_;
  return rates;
}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(unsigned)> factor) : LRScheduler(optimizer), initial_(get_current_lrs()), factor_(std::move(factor)) {}
std::vector<double> LambdaLR::get_lrs() {
  std::vector<double> rates = initial_;
  for (double& r : rates) r *= factor_(step_count_ + 1);
  return rates;
}

}  // namespace frit::optim
