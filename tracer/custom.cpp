// Custom calls in traces: how they are recorded (attach_custom), and what walks ask of them. Start at attach_custom.
#include "tracer/custom.h"
#include <algorithm>
#include "runtime/error.h"

namespace frit::tracer {

namespace {
constexpr uint32_t first_output = 1;  // after the gathering node

// Several nodes of one trace, also where each op is flushed by itself.
struct OneTrace {
  Recorder& r = recorder();
  bool eager = std::exchange(r.eager, false);
  ~OneTrace() { r.eager = eager; }
};
// As expand to its own extents, but no view: it does not follow the input's later writes.
Var alias(const Var& a) {
  settle_operand(a.cell());
  const Turn turn;
  Recorder& r = turn.r;
  const Sizes e = sizes_of(a);
  Call call{.op = Op::expand, .attr = e.size()};
  call.in[0] = r.node_of(a.cell());
  call.arg = r.bind(e.data(), e.size());
  return r.finish(r.emit(call));
}
uint32_t emit_gather(Recorder& r) {
  Call call{.op = Op::full, .mode = custom_gradient, .kind = uint8_t(Dtype::Float32), .attr = uint64_t(Category::floating) << 8};
  call.arg = r.bind({Number(0.0).word()});
  return r.emit(call);
}
uint32_t emit_output(Recorder& r, uint32_t made) {
  Call call{.op = Op::detach, .mode = custom_gradient};
  call.in[0] = made;
  call.arg = r.bind({});
  return r.emit(call);
}
size_t place_of(const std::vector<Var>& list, const Var& v) {
  return size_t(std::find_if(list.begin(), list.end(), [&](const Var& l) { return l.cell() == v.cell(); }) - list.begin());
}
}  // namespace

Var past_of(const Var& input) { return input.defined() && wants_gradient(input.cell()) ? alias(input) : Var(); }

std::vector<Var> attach_custom(std::shared_ptr<CustomGradient> custom, const CustomParts& parts) {
  Recorder& r = recorder();
  // All that may flush comes first, so that the numbers of nodes below stay those of one trace.
  std::vector<Var> saved_past;
  for (const Var& v : parts.saved) {
    SavedTensor s;
    if (v.defined()) s.content = detach(v);
    custom->saved.push_back(s);
    const bool known = !v.defined() || place_of(parts.made, v) < parts.made.size() || place_of(parts.inputs, v) < parts.inputs.size();
    saved_past.push_back(known ? Var() : past_of(v));
  }
  for (const auto* list : {&parts.pasts, &parts.made, &std::as_const(saved_past)})
    for (const Var& v : *list)
      if (v.defined()) settle_operand(v.cell());
  const Turn turn;
  const OneTrace one;
  for (const Var& v : parts.pasts) custom->inputs.push_back(v.defined() ? r.node_of(v.cell()) : no_node);
  std::vector<uint32_t> made;
  for (const Var& v : parts.made) made.push_back(r.node_of(v.cell()));
  for (size_t i = 0; i < parts.saved.size(); ++i) {
    SavedTensor& s = custom->saved[i];
    if (!s.content.defined()) continue;
    if (s.content.cell()->deferred) s.taken = s.content.cell()->node;
    else s.version = s.content.cell()->value->storage->version.load(std::memory_order_relaxed);
    if (saved_past[i].defined()) s.past = r.node_of(saved_past[i].cell());
    else if (const size_t k = place_of(parts.inputs, parts.saved[i]); k < parts.inputs.size()) s.past = custom->inputs[k];
  }
  const uint32_t gather = emit_gather(r);
  for (uint32_t n : made) emit_output(r, n);
  custom->outputs = uint32_t(made.size());
  for (size_t i = 0; i < parts.saved.size(); ++i)
    if (const size_t k = place_of(parts.made, parts.saved[i]); custom->saved[i].content.defined() && k < made.size()) custom->saved[i].past = gather + first_output + uint32_t(k);
  r.open->hooks.emplace_back(gather, custom);
  std::vector<Var> outputs;
  for (uint32_t k = 0; k < made.size(); ++k) {
    if (parts.dirty[k]) r.write(parts.made[k].cell(), gather + first_output + k), outputs.push_back(parts.made[k]);
    else outputs.push_back(Var::take(r.show(gather + first_output + k)));
  }
  if (one.eager) r.flush("eager");
  else if (r.full()) r.flush("full trace");
  return outputs;
}

Var CustomCall::saved(size_t i) const {
  const SavedTensor& s = gradient.saved.at(i);
  if (!s.content.defined()) return {};
  if (trace.order == ~0ull && s.past != no_node) return handle_of(trace, s.past, Op::detach);
  if (trace.order == ~0ull && s.taken != no_node) return handle_of(trace, s.taken, Op::detach);
  Value& v = value_of(s.content.cell(), "backward");
  if (v.storage->version.load(std::memory_order_relaxed) != (s.taken == no_node ? s.version : trace.version[s.taken]))
    throw AutogradError(std::string("backward: ") + gradient.name + " saved a tensor that was overwritten in place afterwards. Write a clone(), or write before it is used.");
  if (s.past == no_node) return s.content;
  Trace* from = &trace;
  uint32_t node = s.past;
  if (const Leaf* l = trace.leaf(node)) {
    if (l->cell) return Var::share(l->cell);
    from = l->trace, node = l->trace_node;
  }
  retain(&v);
  Cell* c = new_cell(&v);
  c->trace = from, c->node = node;
  retain(c->trace);
  return Var::take(c);
}

// ---- for the walks ---------------------------------------------------------------------------------------------------------------
uint32_t gather_of(const Trace& t, uint32_t n) {
  while (t.nodes[n].call.op != Op::full) --n;
  return n;
}
CustomGradient* custom_at(const Trace& t, uint32_t gather) {
  for (const auto& [node, hooks] : t.hooks)
    if (node == gather) return static_cast<CustomGradient*>(hooks.get());
  return nullptr;
}
void reach_custom(const Trace& t, uint32_t n, std::vector<bool>& reached) {
  if (const CustomGradient* c = custom_at(t, gather_of(t, n)))
    for (uint32_t in : c->inputs)
      if (in != no_node) reached[in] = true;
}
std::vector<Var> custom_jvp(Trace& t, uint32_t gather, const std::vector<Var>& tangents) {
  const CustomGradient& custom = *custom_at(t, gather);
  if (!custom.backward) throw AutogradError(std::string("jvp: what ") + custom.name + " saved was freed by a backward. Pass retain_graph=true to it.");
  const bool again = recorder().mode & grad_mode;
  const ModeScope mode(true);
  std::vector<Var> seeds, roots, weights;
  for (uint32_t k = 0; k < custom.outputs; ++k) {
    const uint32_t n = gather + first_output + k;
    Var u = full(t.sizes(n), 0, t.nodes[n].result.dtype);
    value_of(u.cell(), "jvp");
    u.cell()->flags |= gradient_leaf;
    seeds.push_back(u);
  }
  const std::vector<Var> given = custom.backward(CustomCall{t, gather, custom}, seeds);
  for (size_t i = 0; i < given.size() && i < tangents.size(); ++i) {
    if (!given[i].defined() || !tangents[i].defined()) continue;
    if (!wants_gradient(given[i].cell()))
      throw AutogradError(std::string("jvp: the backward of ") + custom.name + " is not made of differentiable ops, so it has no forward derivative. Use tensors' ops on the gradients that it is given.");
    roots.push_back(given[i]), weights.push_back(tangents[i]);
  }
  if (roots.empty()) return std::vector<Var>(custom.outputs);
  return run_backward(roots, weights, seeds, {.retain_graph = again, .create_graph = again, .allow_unused = true});
}

}  // namespace frit::tracer
