// A checkpoint is a custom call (custom.h). f is recorded as usual; from its outputs a walk finds the ends, the origins outside of what f
// recorded that gradients reach (its inputs, the parameters and tensors that it captures); the record itself is then let go of, and the
// call's operands are the ends. Backward records f again and asks for the gradients at the same ends. Start at checkpoint.
#include "tracer/checkpoint.h"
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include "runtime/error.h"
#include "tracer/custom.h"
#include "tracer/gradient_detail.h"

namespace frit::tracer {

namespace {
// What is recorded from now on.
struct Since {
  uint64_t instance, order;
  uint32_t node;
  explicit Since(const Recorder& r) : instance(r.open->instance), order(next_flush_order()), node(uint32_t(r.open->nodes.size())) {}
  bool holds(const Place& p) const { return p.trace->instance == instance ? p.node >= node : p.trace->order >= order; }
};

std::vector<Origin> find_ends(const std::vector<Var>& outputs, const Since& inside) {
  std::vector<Origin> ends;
  std::set<Place> seen;
  std::set<Cell*> leaves;
  std::vector<Place> stack;
  const auto reach = [&](const Origin& o) {
    if (o.leaf) {
      if (leaves.insert(o.leaf).second) ends.push_back(o);
    } else if (o.place.trace && wants(*o.place.trace, o.place.node) && seen.insert(o.place).second) {
      if (inside.holds(o.place)) stack.push_back(o.place);
      else ends.push_back(o);
    }
  };
  for (const Var& v : outputs) reach(origin_of(v.cell()));
  while (!stack.empty()) {
    const Place p = stack.back();
    stack.pop_back();
    for (int k = 0; k < p.trace->input_count(p.node); ++k)
      if (const uint32_t in = p.trace->input(p.node, k); wants(*p.trace, in)) reach(origin_of(*p.trace, in));
    if (is_custom(*p.trace, p.node))
      for (uint32_t in : custom_at(*p.trace, gather_of(*p.trace, p.node))->inputs)
        if (in != no_node) reach(origin_of(*p.trace, in));
  }
  return ends;
}

// A handle with that origin. The value of a place in a kept trace is not there any more, and not needed: one element stands for all.
Var handle_at(const Origin& o) {
  if (o.leaf) return Var::share(o.leaf);
  Trace& t = *o.place.trace;
  Recorder& r = recorder();
  if (&t == r.open) return Var::take(t.owner[o.place.node] && try_retain_cell(t.owner[o.place.node]) ? t.owner[o.place.node] : r.show(o.place.node));
  const Result& made = t.nodes[o.place.node].result;
  const int64_t one = 1;
  const ValueRef element = ValueRef::take(new_value(made.dtype, &one, 1));
  std::memset(element->data(), 0, size_of(made.dtype));
  Value* v = new_alias(*element, made.rank);
  v->offset = 0;
  t.sizes(o.place.node, v->extent);
  std::fill_n(v->stride, made.rank, 0);
  Cell* c = new_cell(v);
  c->trace = &t, c->node = o.place.node;
  retain(&t);
  return Var::take(c);
}

// Writes to the inputs while f runs.
struct Versions {
  struct Version {
    uint32_t writes = 0;
    std::optional<uint32_t> storage;  // of a real tensor
  };
  std::vector<Version> at;
  explicit Versions(const std::vector<Var>& inputs) {
    for (const Var& v : inputs) {
      at.emplace_back();
      if (Cell* c = v.cell()) {
        at.back().writes = root_base(c)->writes;
        if (c->value) at.back().storage = c->value->storage->version.load(std::memory_order_relaxed);
      }
    }
  }
  bool differs(const Versions& o, size_t i) const { return at[i].writes != o.at[i].writes || (at[i].storage && o.at[i].storage && at[i].storage != o.at[i].storage); }
};
}  // namespace

std::vector<Var> checkpoint(CheckpointFunction f, const std::vector<Var>& inputs) {
  Recorder& r = recorder();
  if (!(r.mode & grad_mode)) return f(inputs);
  const auto log = std::make_shared<RandomLog>();
  std::vector<Var> made;
  std::vector<Origin> ends;
  {
    const Since start(r);
    const Versions before(inputs);
    {
      const RandomLog::Scope random(*log);
      made = f(inputs);
    }
    const Versions after(inputs);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (after.differs(before, i))
        throw AutogradError("checkpoint: the function wrote its input " + std::to_string(i) + " in place, so it cannot be run again on what it was given. Write a clone() of it.");
    for (size_t i = 0; i < made.size(); ++i)
      if (!made[i].defined()) throw AutogradError("checkpoint: output " + std::to_string(i) + " is an undefined tensor. Return tensors that have values.");
    for (const Var& v : made) settle_operand(v.cell());
    const Turn turn;
    ends = find_ends(made, start);
  }
  if (ends.empty()) return made;

  auto custom = std::make_shared<CustomGradient>();
  custom->name = "checkpoint";
  std::vector<Var> attached, passed, pasts;
  std::vector<int> place(made.size(), -1);  // by output: among the attached
  for (const Var& v : inputs) {             // first, so that a saved input finds its past by its position
    const bool joins = v.defined() && wants_gradient(v.cell());
    passed.push_back(v), pasts.push_back(joins ? v : Var());
  }
  const size_t first_end = passed.size();
  {
    const Turn turn;
    for (const Origin& o : ends) pasts.push_back(handle_at(o));
  }
  for (size_t i = 0; i < made.size(); ++i)
    if (wants_gradient(made[i].cell())) {
      place[i] = int(attached.size());
      attached.push_back(detach(made[i]));
    }
  custom->backward = [f = std::move(f), log, place, first_end](const CustomCall& call, std::vector<Var> gradients) {
    const bool again = recorder().mode & grad_mode;
    std::vector<Var> in, roots, weights;
    std::vector<Origin> wanted;
    for (size_t i = 0; i < first_end; ++i) in.push_back(call.saved(i));
    for (size_t k = first_end; k < call.gradient.inputs.size(); ++k) wanted.push_back(origin_of(call.trace, call.gradient.inputs[k]));
    std::vector<Var> out;
    {
      const ModeScope recording(true);
      const RandomLog::Scope random(*log);
      log->rewind();
      out = f(in);
    }
    if (out.size() != place.size())
      throw AutogradError("checkpoint: the function returned " + std::to_string(out.size()) + " tensors when it was run again, " + std::to_string(place.size()) + " before. It must do the same each time.");
    for (size_t i = 0; i < out.size(); ++i) {
      if (place[i] < 0 || !gradients[size_t(place[i])].defined()) continue;
      roots.push_back(out[i]), weights.push_back(gradients[size_t(place[i])]);
    }
    std::vector<Var> given(first_end);
    for (Var& g : gradients_at(wanted, roots, weights, again)) given.push_back(std::move(g));
    return given;
  };
  for (size_t i = 0; i < made.size(); ++i)
    if (place[i] >= 0) made[i] = Var();     // and with it what f recorded
  const std::vector<Var> outputs = attach_custom(custom, {passed, pasts, attached, inputs, std::vector<bool>(attached.size())});
  for (size_t i = 0; i < made.size(); ++i)
    if (place[i] >= 0) made[i] = outputs[size_t(place[i])];
  return made;
}

}  // namespace frit::tracer
