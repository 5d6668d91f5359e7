// Gradients by walking traces. A place is {trace, node}; kept traces are ordered by when they were flushed, nodes by
// index, so visiting the highest place first is a reverse topological order over all of them. Each visit asks the row's
// rule for the inputs' gradients, which are emitted like any other op; where a place is a leaf, the walk goes on in the
// trace that made the leaf's value, or ends at a gradient leaf. Start at run_backward.
#include "tracer/gradient_detail.h"
#include <map>
#include <unordered_map>
#include "runtime/error.h"
#include "runtime/source_line.h"
#include "tracer/anomaly.h"
#include "tracer/custom.h"
#include "tracer/gradient_slices.h"
#include "tracer/memory_log.h"
#include "tracer/user_call.h"

namespace frit::tracer {

Origin origin_of(Trace& t, uint32_t n) {
  if (t.nodes[n].call.op != Op::leaf && !(t.nodes[n].call.mode & new_leaf)) return {{&t, n}, nullptr};
  const Leaf* l = t.leaf(n);
  if (!l) return {};
  if (l->cell) return {{nullptr, 0}, l->cell};
  return {{l->trace, l->trace_node}, nullptr};
}
Origin origin_of(Cell* c) {
  settle_operand(c);
  const Turn turn;
  if (c->base && root_base(c)->writes != c->seen && wants_gradient(root_base(c))) {
    Recorder& r = turn.r;
    r.node_of(c);                       // takes the view again
    if (r.eager) r.flush("eager");
  }
  if (c->flags & gradient_leaf) return {{nullptr, 0}, c};
  if (c->trace) return origin_of(*c->trace, c->node);
  return {};
}

namespace {
std::shared_ptr<Hooks> hooks_at(Trace& t, uint32_t n) {
  for (auto& [node, h] : t.hooks)
    if (node == n) return h;
  return nullptr;
}
Var add_gradients(const Var& a, const Var& b) { return a.defined() ? add(a, b) : b; }

// Anomaly mode: the gradients are made real as they come.
void check_gradients(const std::string& name, const Trace& t, uint32_t n, const std::vector<Var>& given) {
  for (size_t k = 0; k < given.size(); ++k) {
    if (!given[k].defined() || !has_nan(value_of(given[k].cell(), "anomaly"))) continue;
    const std::string line = source_line(t.nodes[n].result.site);
    throw AutogradError("backward: " + name + (line.empty() ? "" : " (called at " + line + ")") + " gives NaN as the gradient of its operand " + std::to_string(k) + "." +
                        first_nan_text(recorder().anomaly) + " Keep the operands inside the function's domain, with clamp or where.");
  }
}

class Walk {
 public:
  explicit Walk(const BackwardOptions& options, bool ends_at_wanted = false) : options_(options), ends_at_wanted_(ends_at_wanted) {}
  void seed(const Var& root, const Var& gradient);
  void run();
  Var gradient_at(const Origin& o) const;
  void want(const Origin& o) { o.leaf ? void(wanted_leaves_.insert({o.leaf, true})) : void(wanted_.insert({o.place, true})); }
  void accumulate();

 private:
  GradientSum& sum_at(const Origin& o);
  void give(const Origin& o, const Var& g) {
    if (o.leaf || o.place.trace) sum_at(o).add(g);
  }
  void visit(Place p, const Var& g);
  void visit_custom(Place p, const Var& g);
  void done(Place p);
  Var through_hooks(const std::shared_ptr<Hooks>& h, Var g);

  BackwardOptions options_;
  bool ends_at_wanted_;
  std::map<Place, GradientSum> pending_;
  std::vector<Trace*> held_;  // counted: traces in pending_
  std::vector<std::pair<Cell*, GradientSum>> leaves_;  // in order of arrival
  std::unordered_map<Cell*, size_t> leaf_index_;
  std::map<Place, bool> wanted_;
  std::unordered_map<Cell*, bool> wanted_leaves_;
  std::map<Place, Var> kept_;
  std::map<Place, std::vector<Var>> gathered_;  // of custom calls, by the gathering node: the outputs' gradients

 public:
  ~Walk() {
    for (auto& [c, g] : leaves_) release_cell(c);
    pending_.clear();
    kept_.clear();
    for (Trace* t : held_) release(t);
  }
};

void Walk::seed(const Var& root, const Var& gradient) {
  const Origin o = origin_of(root.cell());
  if (!o.leaf && !(o.place.trace && wants(*o.place.trace, o.place.node)))
    throw AutogradError("backward: the tensor does not require a gradient and was not made from one that does. Call requires_grad_() on an input, and record outside NoGradGuard.");
  Var g = gradient;
  const Sizes e = sizes_of(root);
  if (!g.defined()) {
    int64_t n = 1;
    for (int64_t x : e) n *= x;
    if (n != 1) throw AutogradError("backward: the tensor has " + std::to_string(n) + " elements, so its gradient is not implied. Pass one of the same shape, or reduce to a scalar first.");
    g = full(e, 1, dtype_of(root));
  } else if (sizes_of(g) != e) {
    throw ShapeError("backward: the gradient's shape differs from the tensor's. Pass one of the same shape.");
  }
  give(o, g);
}
GradientSum& Walk::sum_at(const Origin& o) {
  if (o.leaf) {
    const auto [at, is_new] = leaf_index_.try_emplace(o.leaf, leaves_.size());
    if (is_new) {
      retain_cell(o.leaf);
      leaves_.emplace_back(o.leaf, GradientSum());
    }
    return leaves_[at->second].second;
  }
  const auto [at, is_new] = pending_.try_emplace(o.place);
  if (is_new) retain(o.place.trace), held_.push_back(o.place.trace);
  return at->second;
}
Var Walk::through_hooks(const std::shared_ptr<Hooks>& h, Var g) {
  const auto functions = h->functions;  // a hook may change the list
  for (const auto& [handle, f] : functions) {
    Var changed = f(g);
    if (changed.defined()) g = changed;
  }
  return g;
}
void Walk::run() {
  while (!pending_.empty()) {
    const auto last = std::prev(pending_.end());
    const Place p = last->first;
    Var g = last->second.settle();
    pending_.erase(last);
    if (ends_at_wanted_ && wanted_.count(p)) {
      kept_[p] = std::move(g);
      continue;
    }
    if (const auto h = hooks_at(*p.trace, p.node)) {
      g = through_hooks(h, g);
      if (h->retained && options_.accumulate) {
        Cell* c = h->retained;
        Var old = Var::take(c->grad);
        c->grad = nullptr;
        c->grad = add_gradients(old, g).leave();
      }
    }
    if (wanted_.count(p)) kept_[p] = g;
    visit(p, g);
  }
  for (auto& [c, sum] : leaves_) {
    const Var& g = sum.settle();
    if (c->hooks && !ends_at_wanted_) sum = GradientSum(through_hooks(c->hooks, g));
  }
}
void Walk::visit(Place p, const Var& g) {
  Trace& t = *p.trace;
  if (is_custom(t, p.node)) return visit_custom(p, g);
  const Turn turn;
  if (t.walked.size() < t.nodes.size()) t.walked.resize(t.nodes.size());
  if (t.walked[p.node] && saved_of(t, p.node))
    throw AutogradError(std::string("backward: the graph at ") + op_name(t.nodes[p.node].call.op) +
                        " was walked before and what it saved was freed. Pass retain_graph=true the first time.");
  RuleContext c(t, p.node);
  if (c.op() == Op::slice && c.arg(2) == 1) {
    if (const Origin o = origin_of(t, c.input_node(0)); c.wants(0) && (o.leaf || o.place.trace)) {
      const int axis = int(c.call().attr);
      sum_at(o).add({axis, c.arg(0), c.input_sizes(0)[axis], g, t.nodes[p.node].result.site});
    }
    return done(p);
  }
  std::vector<Var> given;
  {
    const SiteScope line(t.nodes[p.node].result.site);  // what the rule emits stands for the forward op
    given = vjp_rule(c, g);
  }
  if (recorder().anomaly.check_nan) check_gradients(shown_name(t.nodes[p.node]), t, p.node, given);
  for (size_t k = 0; k < given.size(); ++k)
    if (given[k].defined() && c.wants(int(k))) give(origin_of(t, c.input_node(int(k))), std::move(given[k]));
  done(p);
}
// The outputs' gradients wait at the gathering node, which comes before them all; there the user's function is called.
void Walk::visit_custom(Place p, const Var& g) {
  Trace& t = *p.trace;
  const uint32_t gather = gather_of(t, p.node);
  CustomGradient& custom = *custom_at(t, gather);
  if (!custom.backward)
    throw AutogradError(std::string("backward: the graph at ") + custom.name + " was walked before and what it saved was freed. Pass retain_graph=true the first time.");
  const Place at{&t, gather};
  if (p.node != gather) {
    std::vector<Var>& all = gathered_[at];
    all.resize(custom.outputs);
    all[p.node - gather - 1] = g;
    if (!pending_.count(at)) give({at, nullptr}, g);
    return done(p);
  }
  const auto found = gathered_.find(at);
  std::vector<Var> gradients = std::move(found->second);
  gathered_.erase(found);
  std::vector<Var> given = custom.backward(CustomCall{t, gather, custom}, std::move(gradients));
  if (recorder().anomaly.check_nan) check_gradients(custom.name, t, gather, given);
  for (size_t k = 0; k < given.size() && k < custom.inputs.size(); ++k)
    if (given[k].defined() && custom.inputs[k] != no_node) give(origin_of(t, custom.inputs[k]), std::move(given[k]));
  if (!options_.retain_graph) custom.backward = nullptr, custom.saved.clear();
  done(p);
}
void Walk::done(Place p) {
  if (options_.retain_graph) return;
  const Turn turn;
  Trace& t = *p.trace;
  t.walked.resize(std::max(t.walked.size(), t.nodes.size()));
  t.walked[p.node] = true;
  if (t.order == ~0ull) return;  // deferred: nothing is held yet
  bool all = true;
  for (uint32_t n = 0; n < t.nodes.size() && all; ++n) all = t.walked[n] || t.nodes[n].call.op == Op::leaf || !wants(t, n);
  if (all)
    for (Value*& v : t.value)
      if (v) release(std::exchange(v, nullptr));
}
Var Walk::gradient_at(const Origin& o) const {
  if (o.leaf) {
    const auto at = leaf_index_.find(o.leaf);
    return at == leaf_index_.end() ? Var() : leaves_[at->second].second.settled();
  }
  const auto at = kept_.find(o.place);
  return at == kept_.end() ? Var() : at->second;
}
// A gradient is its own tensor; without create_graph one is added in place to what is there, as LibTorch does.
void Walk::accumulate() {
  for (auto& [c, sum] : leaves_) {
    Var g = sum.take();
    if (!c->grad) {
      // The first gradient is taken over when nobody else sees its storage, nor a graph that was asked for; copied otherwise.
      const bool shared = options_.create_graph || g.cell()->refs.load() > 1 || g.cell()->base || (g.cell()->value && (g.cell()->value->storage->refs.load() > 1 || overlaps_itself(*g.cell()->value)));
      // It lies as its tensor does: a gradient that comes turned, as that of a linear layer's weight, is laid out anew.
      const bool turned = rank_of(g.cell()) > 1 && strides_of(c).contiguous && !strides_of(g.cell()).contiguous;
      c->grad = (turned || shared ? copy(g, turned) : g).leave();
    } else if (options_.create_graph) {
      Var sum_of = add(Var::share(c->grad), g);
      release_cell(c->grad);
      c->grad = sum_of.leave();
    } else {
      Var old = Var::share(c->grad);
      emit_pointwise_(Op::add, old, {g});
    }
    log_gradient(c->grad);
  }
}
}  // namespace

// ---- operands for rules -----------------------------------------------------------------------------------------------
namespace {
// "exp (called at train.cpp:31)"; of a leaf, what made it before it entered this trace.
std::string made_by(const Trace& t, uint32_t n) {
  const Trace* from = &t;
  if (t.nodes[n].call.op == Op::leaf) {
    const Leaf* l = t.leaf(n);
    if (!l || !l->trace) return "a leaf";
    from = l->trace, n = l->trace_node;
  }
  return "made by " + shown_name(from->nodes[n]) + called_at(from->nodes[n].result.site);
}
// `by`: the node that reads; `write`: the node that wrote where it is in the same trace, or what the storage remembers of its latest write.
[[noreturn, gnu::cold]] void overwritten(const Trace& t, uint32_t n, Op reader, uint32_t by, uint32_t write) {
  std::string writer;
  if (write != no_node) {
    writer = " by " + shown_name(t.nodes[write]) + called_at(t.nodes[write].result.site);
  } else if (const Storage* s = t.value[n] ? t.value[n]->storage : nullptr; s && s->written_at.load(std::memory_order_relaxed)) {
    writer = " by " + shown_name(Call{.op = Op(s->written_by.load(std::memory_order_relaxed)), .mode = in_place}) + called_at(s->written_at.load(std::memory_order_relaxed));
  }
  throw AutogradError("backward: " + (by == no_node ? std::string(op_name(reader)) : shown_name(t.nodes[by])) + (by == no_node ? "" : called_at(t.nodes[by].result.site)) + " saved a tensor (" + made_by(t, n) +
                      ") that was overwritten in place afterwards" + writer + ". Write a clone(), or write before it is used.");
}
// In an open trace nothing has run, so versions do not tell: is there a later write to the memory that n shows?
void check_unwritten(const Trace& t, uint32_t n, Op reader, uint32_t by) {
  if (t.value[n] && t.value[n]->storage->version.load(std::memory_order_relaxed) != t.version[n]) overwritten(t, n, reader, by, no_node);
  if (t.written.empty() || t.written.back() <= n) return;
  if (by != no_node && (t.nodes[by].call.mode & in_place) && t.nodes[by].call.in[0] == n) return;  // a write keeps what it reads of its target
  const auto own = memory_place(t, n);
  for (size_t k = t.written.size(); k-- > 0 && t.written[k] > n;)
    if (memory_place(t, t.written[k]) == own) overwritten(t, n, reader, by, t.written[k]);
}
}  // namespace
Var handle_of(Trace& t, uint32_t n, Op reader, uint32_t by) {
  const Turn turn;
  if (t.order == ~0ull) {
    check_unwritten(t, n, reader, by);
    return Var::take(t.owner[n] && try_retain_cell(t.owner[n]) ? t.owner[n] : turn.r.show(n));
  }
  Value* v = t.value[n];
  if (!v) throw InternalError(std::string("backward: ") + op_name(reader) + " reads the value of " + op_name(t.nodes[n].call.op) + ", which its row does not save");
  if (v->storage->version.load(std::memory_order_relaxed) != t.version[n]) overwritten(t, n, reader, by, no_node);
  const Origin o = origin_of(t, n);
  if (o.leaf && o.leaf->value && same_layout(*o.leaf->value, *v)) return Var::share(o.leaf);
  retain(v);
  Cell* c = new_cell(v);
  if (o.place.trace && wants(*o.place.trace, o.place.node)) c->trace = o.place.trace, c->node = o.place.node, retain(c->trace);
  return Var::take(c);
}
bool RuleContext::wants(int k) const {
  const uint32_t n = trace_.input(node_, k);
  return n != scalar_operand && (trace_.nodes[n].result.flags & wants_grad);
}
const Var& RuleContext::input(int k) {
  if (!made_[k].defined()) made_[k] = handle_of(trace_, trace_.input(node_, k), op(), node_);
  return made_[k];
}
const Var& RuleContext::output() {
  if (!made_[4].defined()) made_[4] = handle_of(trace_, node_, op(), node_);
  return made_[4];
}
Number RuleContext::number(int k) const {
  int slot = 0;
  for (int j = 0; j < k; ++j) slot += is_number(j);
  const uint64_t word = uint64_t(arg(slot));
  switch (Category(call_.kind >> (2 * k) & 3)) {
    case Category::floating: return Number(__builtin_bit_cast(double, word));
    case Category::integer: return Number(int64_t(word));
    default: return Number(word != 0);
  }
}

// ---- entries ------------------------------------------------------------------------------------------------------------
namespace {
// The forward computation is looked through before the walk; what the walk makes is looked at gradient by gradient.
struct AnomalyWalk {
  Recorder& r = recorder();
  bool before = r.anomaly.looking;
  AnomalyWalk() {
    if (!r.anomaly.check_nan) return;
    if (before) r.flush("anomaly");
    r.anomaly.looking = false;
  }
  ~AnomalyWalk() { r.anomaly.looking = before; }
};
}  // namespace

std::vector<Var> gradients_at(const std::vector<Origin>& ends, const std::vector<Var>& roots, const std::vector<Var>& weights, bool create_graph) {
  const ModeScope mode(create_graph);
  Walk walk({.retain_graph = create_graph, .create_graph = create_graph, .accumulate = false}, true);
  for (const Origin& o : ends) walk.want(o);
  for (size_t i = 0; i < roots.size(); ++i) walk.seed(roots[i], weights[i]);
  walk.run();
  std::vector<Var> result;
  for (const Origin& o : ends) result.push_back(walk.gradient_at(o));
  return result;
}

std::vector<Var> run_backward(const std::vector<Var>& roots, const std::vector<Var>& gradients, const std::vector<Var>& inputs,
                              const BackwardOptions& options) {
  BackwardOptions o = options;
  if (!inputs.empty()) o.accumulate = false;
  const AnomalyWalk anomaly;
  ModeScope mode(options.create_graph);
  Walk walk(o);
  std::vector<Origin> wanted;
  for (const Var& v : inputs) {
    if (!v.defined()) throw AutogradError("grad: an input is an undefined tensor. Give it a value first.");
    wanted.push_back(origin_of(v.cell()));
    if (!wanted.back().leaf && !(wanted.back().place.trace && wants(*wanted.back().place.trace, wanted.back().place.node)))
      throw AutogradError("grad: an input does not require a gradient. Call requires_grad_() on it before it is used.");
    walk.want(wanted.back());
  }
  for (size_t i = 0; i < roots.size(); ++i) walk.seed(roots[i], i < gradients.size() ? gradients[i] : Var());
  walk.run();
  if (o.accumulate) walk.accumulate();
  std::vector<Var> result;
  for (const Origin& w : wanted) {
    result.push_back(walk.gradient_at(w));
    if (!result.back().defined() && !options.allow_unused)
      throw AutogradError("grad: one of the inputs was not used to make the outputs. Pass allow_unused=true to get an undefined tensor for it.");
  }
  return result;
}

std::vector<Var> run_forward(const std::vector<Var>& outputs, const std::vector<Var>& inputs, const std::vector<Var>& tangents) {
  for (const std::vector<Var>* list : {&outputs, &inputs, &tangents})
    for (const Var& v : *list)
      if (v.defined()) settle_operand(v.cell());
  const Turn turn;
  std::map<Place, bool> reached;
  std::vector<Place> stack;
  const auto reach = [&](const Origin& o) {
    if (o.place.trace && wants(*o.place.trace, o.place.node) && reached.insert({o.place, true}).second) stack.push_back(o.place);
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
  std::map<Place, Var> tangent;
  std::unordered_map<Cell*, Var> leaf_tangent;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Origin o = origin_of(inputs[i].cell());
    if (o.leaf) leaf_tangent[o.leaf] = tangents[i];
    else if (o.place.trace) tangent[o.place] = tangents[i];
  }
  const auto tangent_of = [&](const Origin& o) -> Var {
    if (o.leaf) {
      const auto at = leaf_tangent.find(o.leaf);
      return at == leaf_tangent.end() ? Var() : at->second;
    }
    const auto at = tangent.find(o.place);
    return at == tangent.end() ? Var() : at->second;
  };
  for (const auto& [p, unused] : reached) {  // ascending: inputs first
    if (tangent.count(p)) continue;
    if (is_custom(*p.trace, p.node)) {
      const uint32_t gather = gather_of(*p.trace, p.node);
      std::vector<Var> in;
      bool any = false;
      for (uint32_t n : custom_at(*p.trace, gather)->inputs) {
        in.push_back(n == no_node ? Var() : tangent_of(origin_of(*p.trace, n)));
        any |= in.back().defined();
      }
      if (!any) continue;
      const std::vector<Var> out = custom_jvp(*p.trace, gather, in);
      for (uint32_t k = 0; k < out.size(); ++k)
        if (out[k].defined()) tangent[{p.trace, gather + 1 + k}] = out[k];
      continue;
    }
    RuleContext c(*p.trace, p.node);
    std::vector<Var> in;
    bool any = false;
    for (int k = 0; k < c.input_count(); ++k) {
      in.push_back(c.wants(k) ? tangent_of(origin_of(*p.trace, c.input_node(k))) : Var());
      any |= in.back().defined();
    }
    if (any) tangent[p] = jvp_rule(c, in);
  }
  std::vector<Var> result;
  for (const Var& v : outputs) result.push_back(tangent_of(origin_of(v.cell())));
  return result;
}

uint64_t add_hook(Cell* c, std::function<Var(const Var&)> f) {
  static std::atomic<uint64_t> next{1};
  settle_operand(c);
  const Turn turn;
  if (!wants_gradient(c)) throw AutogradError("register_hook: the tensor does not require a gradient. Call requires_grad_() first.");
  if (!c->hooks) c->hooks = std::make_shared<Hooks>();
  if (!(c->flags & gradient_leaf) && !hooks_at(*c->trace, c->node)) c->trace->hooks.emplace_back(c->node, c->hooks);
  c->hooks->functions.emplace_back(next, std::move(f));
  return next++;
}
void remove_hook(Cell* c, uint64_t handle) {
  if (c->hooks) std::erase_if(c->hooks->functions, [&](const auto& h) { return h.first == handle; });
}
void retain_grad(Cell* c) {
  settle_operand(c);
  const Turn turn;
  if (!wants_gradient(c)) throw AutogradError("retain_grad: the tensor does not require a gradient. Call requires_grad_() first.");
  if (c->flags & gradient_leaf) return;
  if (!c->hooks) c->hooks = std::make_shared<Hooks>();
  if (!hooks_at(*c->trace, c->node)) c->trace->hooks.emplace_back(c->node, c->hooks);
  c->hooks->retained = c;
}

}  // namespace frit::tracer
