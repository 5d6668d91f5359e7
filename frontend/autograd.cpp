// The public calls on gradients and modes, and what is made of them: jvp, vjp, hvp, gradcheck.
#include "frit/autograd.h"
#include <cmath>
#include <string>
#include "frontend/detail.h"
#include "runtime/buffer.h"
#include "runtime/error.h"
#include "runtime/settings.h"
#include "tracer/checkpoint.h"
#include "tracer/gradient.h"

namespace frit {

using namespace detail;

// ---- modes ------------------------------------------------------------------------------------------------------------
AutoGradMode::AutoGradMode(bool on) : before_(is_enabled()) {
  tracer::Recorder& r = tracer::recorder();
  r.mode = on ? r.mode | tracer::grad_mode : r.mode & uint8_t(~tracer::grad_mode);
}
AutoGradMode::~AutoGradMode() {
  tracer::Recorder& r = tracer::recorder();
  r.mode = before_ ? r.mode | tracer::grad_mode : r.mode & uint8_t(~tracer::grad_mode);
}
bool AutoGradMode::is_enabled() { return tracer::recorder().mode & tracer::grad_mode; }
InferenceMode::InferenceMode(bool on) : grad_(on ? false : AutoGradMode::is_enabled()), before_(tracer::recorder().inference) { tracer::recorder().inference = on; }
InferenceMode::~InferenceMode() { tracer::recorder().inference = before_; }

namespace jit {
void set_mode(Mode m) {
  tracer::set_eager_default(m == Mode::eager);
  tracer::Recorder& r = tracer::recorder();
  if (m == Mode::eager) r.flush("set_mode");
  r.eager = m == Mode::eager;
}
Mode mode() { return tracer::recorder().eager ? Mode::eager : Mode::automatic; }
ModeGuard::ModeGuard(Mode m) : before_(tracer::recorder().eager) {
  tracer::Recorder& r = tracer::recorder();
  if (m == Mode::eager) r.flush("ModeGuard");
  r.eager = m == Mode::eager;
}
ModeGuard::~ModeGuard() {
  tracer::Recorder& r = tracer::recorder();
  // A destructor does not flush: what is deferred stays so until the next op runs.
  r.eager = before_;
}
}  // namespace jit
void synchronize() { tracer::recorder().flush("synchronize"); }

namespace memory {
Stats stats(DeviceType device) {
  if (device != kCPU) throw Error("memory::stats: device " + Device(device).str() + " is not there: this build runs on the CPU only. Use kCPU.");
  const MemoryStats s = memory_stats();
  return {s.current, s.peak, s.reserved, s.allocations, s.fragmentation};
}
void reset_peak() { reset_memory_peak(); }
void empty_cache() { release_cached_memory(); }
}  // namespace memory

// ---- gradients ----------------------------------------------------------------------------------------------------------
namespace autograd {
namespace {
std::vector<Var> vars(const variable_list& l) { return {l.begin(), l.end()}; }
variable_list tensors(const std::vector<Var>& v) { return {v.begin(), v.end()}; }

// Copies that record their own gradients, apart from the user's graph unless it is to be differentiated again.
variable_list recorded_inputs(const variable_list& inputs) {
  variable_list r;
  for (const Tensor& t : inputs) {
    cell_of(t, "autograd");
    r.push_back(t.requires_grad() ? t.view(t.sizes()) : t.detach().requires_grad_());
  }
  return r;
}
}  // namespace

variable_list grad(const variable_list& outputs, const variable_list& inputs, const variable_list& grad_outputs, std::optional<bool> retain_graph,
                   bool create_graph, bool allow_unused) {
  if (inputs.empty()) throw AutogradError("grad: no inputs are given. Name the tensors whose gradients are wanted.");
  for (const Tensor& t : outputs) cell_of(t, "grad");
  return tensors(tracer::run_backward(vars(outputs), vars(grad_outputs), vars(inputs),
                                      {.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph, .allow_unused = allow_unused}));
}
void backward(const variable_list& outputs, const variable_list& grad_tensors, std::optional<bool> retain_graph, bool create_graph,
              const variable_list& inputs) {
  for (const Tensor& t : outputs) cell_of(t, "backward");
  if (inputs.empty()) {
    tracer::run_backward(vars(outputs), vars(grad_tensors), {}, {.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph});
    return;
  }
  const variable_list g = grad(outputs, inputs, grad_tensors, retain_graph, create_graph, true);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (g[i].defined()) inputs[i].set_grad(inputs[i].grad().defined() ? inputs[i].grad() + g[i] : g[i]);
}

std::pair<variable_list, variable_list> jvp(const TensorFunction& f, const variable_list& inputs, const variable_list& tangents) {
  if (inputs.size() != tangents.size())
    throw ValueError("jvp: " + std::to_string(inputs.size()) + " inputs and " + std::to_string(tangents.size()) + " tangents are given. Give one each.");
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].sizes() != tangents[i].sizes())
      throw ShapeError("jvp: input " + std::to_string(i) + " has shape " + shape_text(inputs[i].sizes()) + ", its tangent " + shape_text(tangents[i].sizes()) + ". They must be equal.");
  AutoGradMode recording(true);
  const variable_list in = recorded_inputs(inputs);
  const variable_list out = f(in);
  variable_list t = tensors(tracer::run_forward(vars(out), vars(in), vars(tangents)));
  for (size_t i = 0; i < t.size(); ++i)
    if (!t[i].defined()) t[i] = zeros_like(out[i]);
  return {out, t};
}
std::pair<variable_list, variable_list> vjp(const TensorFunction& f, const variable_list& inputs, const variable_list& cotangents) {
  AutoGradMode recording(true);
  const variable_list in = recorded_inputs(inputs);
  const variable_list out = f(in);
  variable_list g = grad(out, in, cotangents, true, true, true);
  for (size_t i = 0; i < g.size(); ++i)
    if (!g[i].defined()) g[i] = zeros_like(in[i]);
  return {out, g};
}
std::pair<Tensor, variable_list> hvp(const TensorFunction& f, const variable_list& inputs, const variable_list& v) {
  AutoGradMode recording(true);
  const variable_list in = recorded_inputs(inputs);
  const Tensor y = f(in).at(0);
  const variable_list g = grad({y}, in, {}, true, true, true);
  Tensor product;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!g[i].defined() || !g[i].requires_grad()) continue;
    const Tensor term = (g[i] * v[i]).sum();
    product = product.defined() ? product + term : term;
  }
  variable_list h = product.defined() ? grad({product}, in, {}, true, true, true) : variable_list(in.size());
  for (size_t i = 0; i < h.size(); ++i)
    if (!h[i].defined()) h[i] = zeros_like(in[i]);
  return {y, h};
}

variable_list checkpoint(const TensorFunction& f, const variable_list& inputs) {
  return tensors(tracer::checkpoint([f](const std::vector<Var>& in) { return vars(f(tensors(in))); }, vars(inputs)));
}

// ---- anomalies ----------------------------------------------------------------------------------------------------------------
bool AnomalyMode::is_enabled() { return tracer::recorder().anomaly.on; }
bool AnomalyMode::should_check_nan() { return tracer::recorder().anomaly.check_nan; }
void AnomalyMode::set_enabled(bool enabled, bool check_nan) {
  tracer::Recorder& r = tracer::recorder();
  if (enabled && !r.anomaly.on) r.flush("DetectAnomalyGuard");  // what came before is not watched
  r.anomaly = {.on = enabled, .check_nan = enabled && check_nan};
}
DetectAnomalyGuard::DetectAnomalyGuard(bool check_nan) : on_(AnomalyMode::is_enabled()), check_nan_(AnomalyMode::should_check_nan()) {
  AnomalyMode::set_enabled(true, check_nan);
}
DetectAnomalyGuard::~DetectAnomalyGuard() { tracer::recorder().anomaly = {.on = on_, .check_nan = check_nan_}; }

// ---- gradcheck -------------------------------------------------------------------------------------------------------------
namespace {
double inner(const variable_list& a, const variable_list& b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].defined() && b[i].defined() && a[i].numel()) total += (a[i].to(kFloat64) * b[i].to(kFloat64)).sum().item<double>();
  return total;
}
variable_list directions(const variable_list& like) {
  variable_list d;
  for (const Tensor& t : like) d.push_back(is_floating(t.dtype()) ? randn(t.sizes(), t.dtype()) : Tensor());
  return d;
}
variable_list moved(const variable_list& x, const variable_list& d, double by) {
  variable_list r;
  for (size_t i = 0; i < x.size(); ++i) r.push_back(d[i].defined() ? x[i].detach() + d[i] * by : x[i].detach());
  return r;
}
}  // namespace

bool gradcheck(const TensorFunction& f, const variable_list& inputs, double eps, double atol, double rtol) {
  variable_list fixed;
  for (const Tensor& t : inputs) {
    if (is_floating(t.dtype()) && t.dtype() != kFloat64)
      throw DtypeError(std::string("gradcheck: an input has type ") + dtype_name(t.dtype()) + "; central differences need float64. Convert with to(kFloat64).");
    fixed.push_back(t.detach());
  }
  AutoGradMode recording(true);
  for (int trial = 0; trial < 3; ++trial) {
    const variable_list d = directions(fixed);
    const variable_list high = f(moved(fixed, d, eps)), low = f(moved(fixed, d, -eps));
    const variable_list weights = directions(high);
    variable_list difference;
    for (size_t i = 0; i < high.size(); ++i) difference.push_back(weights[i].defined() ? (high[i].detach() - low[i].detach()) / (2 * eps) : Tensor());
    const double numeric = inner(difference, weights);
    variable_list in;
    for (const Tensor& t : fixed) in.push_back(is_floating(t.dtype()) ? t.detach().requires_grad_() : t);
    const variable_list out = f(in);
    variable_list roots, seeds, wanted;
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i].requires_grad()) roots.push_back(out[i]), seeds.push_back(weights[i]);
    for (const Tensor& t : in)
      if (t.requires_grad()) wanted.push_back(t);
    double reverse = 0, forward = 0;
    if (!roots.empty()) {
      const variable_list g = grad(roots, wanted, seeds, true, false, true);
      variable_list along;
      for (size_t i = 0; i < in.size(); ++i)
        if (in[i].requires_grad()) along.push_back(d[i]);
      reverse = inner(g, along);
      const std::vector<Var> t = tracer::run_forward(vars(roots), vars(wanted), vars(along));
      forward = inner(tensors(t), seeds);
    }
    const double bound = atol + rtol * std::abs(numeric);
    const auto check = [&](double analytic, const char* name) {
      if (!(std::abs(analytic - numeric) <= bound))
        throw AutogradError(std::string("gradcheck: the ") + name + " derivative along a random direction is " + std::to_string(analytic) + ", central differences give " +
                            std::to_string(numeric) + ".");
    };
    check(reverse, "reverse"), check(forward, "forward");
  }
  return true;
}
bool gradgradcheck(const TensorFunction& f, const variable_list& inputs, double eps, double atol, double rtol) {
  variable_list weights;
  const TensorFunction first = [&](const variable_list& x) -> variable_list {
    variable_list in;
    for (const Tensor& t : x) in.push_back(is_floating(t.dtype()) && !t.requires_grad() ? t.detach().requires_grad_() : t);
    const variable_list out = f(in);
    if (weights.empty()) weights = directions(out);
    variable_list roots, seeds, wanted;
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i].requires_grad()) roots.push_back(out[i]), seeds.push_back(weights[i]);
    for (const Tensor& t : in)
      if (t.requires_grad()) wanted.push_back(t);
    variable_list g = grad(roots, wanted, seeds, true, true, true);
    for (size_t i = 0; i < g.size(); ++i)
      if (!g[i].defined()) g[i] = zeros_like(wanted[i]);
    return g;
  };
  return gradcheck(first, inputs, eps, atol, rtol);
}

}  // namespace autograd
}  // namespace frit
