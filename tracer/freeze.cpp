// Frozen calls: see freeze.h. A recording is refused when something that it did cannot be done again from its arguments and
// from the tensors that it captured: results that escaped, tensors of its own that were real, hooks and custom gradients.
#include "tracer/freeze.h"
#include <algorithm>
#include "tracer/custom.h"

namespace frit::tracer {

Capture::Capture(Recorder& r) : recorder_(r), instance_(r.open->instance) { r.capture = this; }
Capture::~Capture() { recorder_.capture = nullptr; }
void Capture::entered(uint32_t node, Cell* c) {
  retain_cell(c);
  entries.push_back({node, Var::take(c), c->writes});
}
bool Capture::interrupted() const { return recorder_.open->instance != instance_; }

namespace {
bool draws(Op op) { return op == Op::random_uniform || op == Op::random_normal || op == Op::random_integer; }
bool is_stale_view(Cell* c) { return c->base && root_base(c)->writes != c->seen; }
}  // namespace

Cell* Recording::cell_of(const Source& s, const std::vector<Var>& arguments) const { return s.argument < 0 ? s.captured.cell() : arguments[size_t(s.argument)].cell(); }
int Recording::source_of(const Cell* c, const std::vector<Var>& arguments) const {
  for (size_t i = 0; i < sources_.size(); ++i)
    if (cell_of(sources_[i], arguments) == c) return int(i);
  return -1;
}
bool Recording::looks(const Source& s, Cell* c) const {
  if (!c || c->deferred || !c->value || is_stale_view(c) || c->value->storage->reachable.load(std::memory_order_relaxed)) return false;
  const Value& v = *c->value;
  return v.dtype == s.dtype && v.rank == s.extents.size() && std::equal(s.extents.begin(), s.extents.end(), v.extent) && std::equal(s.strides.begin(), s.strides.end(), v.stride) &&
         std::equal(s.names.begin(), s.names.end(), v.name) && wants_gradient(c) == s.wants_gradient && bool(c->flags & gradient_leaf) == s.leaf &&
         !v.storage->pending.load(std::memory_order_relaxed);
}

std::shared_ptr<Recording> Recording::take(Recorder& r, const Capture& capture, const std::vector<Var>& arguments, const std::vector<Var>& results, std::string& why_not) {
  const auto refuse = [&](const char* why) -> std::shared_ptr<Recording> { return why_not = why, nullptr; };
  Trace& t = *r.open;
  if (capture.interrupted()) return refuse("it reads a value");
  if (t.nodes.empty()) return refuse("it records nothing");
  if (!t.hooks.empty()) return refuse("it has hooks or custom gradients");
  for (uint32_t n = 0; n < t.nodes.size(); ++n)
    if (is_custom(t, n)) return refuse("it has hooks or custom gradients");

  auto made = std::shared_ptr<Recording>(new Recording);
  Recording& rec = *made;
  rec.mode_ = r.mode, rec.inference_ = r.inference;
  const auto look = [&](Cell* c, int argument) {
    Source s{};
    s.argument = argument;
    if (argument < 0) retain_cell(c), s.captured = Var::take(c);
    s.dtype = dtype_of(c), s.extents = sizes_of(c), s.names = axis_names(c);
    const Strides strides = strides_of(c);
    s.strides.assign(strides.stride, strides.stride + s.extents.size());
    s.wants_gradient = wants_gradient(c), s.leaf = c->flags & gradient_leaf;
    return s;
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      if (arguments[i].cell() == arguments[j].cell()) return refuse("two of its arguments are one tensor");
    rec.sources_.push_back(look(arguments[i].cell(), int(i)));
  }
  for (const Capture::Entry& e : capture.entries) {
    Cell* c = e.tensor.cell();
    int i = rec.source_of(c, arguments);
    if (i < 0) {
      if (c->refs.load() == 1) return refuse("it makes a tensor from values, or goes through an earlier gradient");
      i = int(rec.sources_.size());
      rec.sources_.push_back(look(c, -1));
    }
    Source& s = rec.sources_[size_t(i)];
    if (s.node != no_node) return refuse("a tensor was written elsewhere while it ran");
    s.node = e.node;
    s.wants_gradient = t.nodes[e.node].result.flags & wants_grad;
    if (c->deferred && c->trace == &t) {  // written
      if (c->base || t.nodes[e.node].result.rank != s.extents.size()) return refuse("it writes a view that it did not make");
      s.written = c->node, s.writes = c->writes - e.writes, s.new_leaf = t.nodes[c->node].call.mode & new_leaf;
      std::copy_n(t.value[e.node]->stride, s.strides.size(), s.strides.begin());
    }
  }
  std::vector<Cell*> cells;  // of made_
  const auto note = [&](Cell* c, auto&& again) -> int {
    if (const auto at = std::find(cells.begin(), cells.end(), c); at != cells.end()) return int(at - cells.begin());
    if (!c->deferred || c->trace != &t) return -1;
    Made m{c->node, -1, -1, nullptr};
    if (c->base) {
      m.base_source = rec.source_of(c->base, arguments);
      if (m.base_source < 0 && (m.base_made = again(c->base, again)) < 0) return -1;
      m.recipe = std::make_unique<ViewRecipe>(*c->recipe);
    }
    rec.made_.push_back(std::move(m));
    cells.push_back(c);
    return int(cells.size()) - 1;
  };
  for (const Var& v : results) {
    const int source = rec.source_of(v.cell(), arguments), of_made = source < 0 ? note(v.cell(), note) : -1;
    if (source < 0 && of_made < 0) return refuse("a result comes from elsewhere");
    rec.results_.push_back({source < 0, source < 0 ? of_made : source});
  }
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    Cell* c = t.owner[n];
    if (!c || std::find(cells.begin(), cells.end(), c) != cells.end()) continue;
    const int i = rec.source_of(c, arguments);
    if (i < 0 || rec.sources_[size_t(i)].written != n) return refuse("a tensor that it made is kept outside of its results (a gradient, perhaps)");
  }
  for (size_t i = 0; i < rec.sources_.size(); ++i)
    if (Cell* g = rec.cell_of(rec.sources_[i], arguments)->grad)
      if (const int of = rec.source_of(g, arguments); of >= 0) rec.gradients_.push_back({int(i), of});
  for (const Leaf& l : t.leaves)
    if (t.nodes[l.node].call.op != Op::leaf && rec.source_of(l.cell, arguments) < 0) return refuse("it writes a parameter that it did not capture");
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    const Call& call = t.nodes[n].call;
    if (draws(call.op)) rec.random_.push_back(n);
    const RowKind kind = kind_of(call.op);
    const bool writes = (call.mode & in_place) && kind != RowKind::alias;
    if (call.op == Op::leaf || !(kind == RowKind::view || kind == RowKind::alias || writes) || !t.outer_storage(n)) continue;
    uint32_t leaf = n;
    while (t.nodes[leaf].call.op != Op::leaf) leaf = t.nodes[leaf].call.in[0];
    rec.outer_.push_back({n, leaf, writes});
  }
  Trace* copy = rec.trace_ = new_trace();
  copy->nodes = t.nodes, copy->extent = t.extent, copy->parent = t.parent, copy->derived = t.derived, copy->name = t.name, copy->has_names = t.has_names;
  copy->joins = t.joins, copy->joined = t.joined, copy->args = t.args, copy->lists = t.lists, copy->written = t.written, copy->walked = t.walked;
  return made;
}

bool Recording::fits(const Recorder& r, const std::vector<Var>& arguments) const {
  if (r.mode != mode_ || r.inference != inference_ || !r.open->nodes.empty()) return false;
  size_t given = 0;
  for (const Source& s : sources_) {
    given += s.argument >= 0;
    if (s.argument >= int(arguments.size()) || !looks(s, cell_of(s, arguments))) return false;
  }
  if (given != arguments.size()) return false;
  for (const auto& [leaf, gradient] : gradients_)
    if (cell_of(sources_[size_t(leaf)], arguments)->grad != cell_of(sources_[size_t(gradient)], arguments)) return false;
  for (size_t i = 0; i < arguments.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (arguments[i].cell() == arguments[j].cell()) return false;
  return true;
}

std::vector<Var> Recording::replay(Recorder& r, const std::vector<Var>& arguments) {
  const Turn turn;
  Trace& t = *r.open;
  const Trace& of = *trace_;
  const size_t count = of.nodes.size();
  t.nodes = of.nodes, t.extent = of.extent, t.parent = of.parent, t.derived = of.derived, t.name = of.name, t.has_names = of.has_names;
  t.joins = of.joins, t.joined = of.joined, t.args = of.args, t.lists = of.lists, t.written = of.written, t.walked = of.walked;
  t.value.assign(count, nullptr), t.owner.assign(count, nullptr), t.version.assign(count, 0);
  r.args_bound = t.args.size(), r.lists_bound = t.lists.size();
  for (const Source& s : sources_)
    if (s.node != no_node) r.enter_as(cell_of(s, arguments), s.node);
  for (const Outer& o : outer_) r.touch(o.node, t.value[o.leaf]->storage, o.writes);
  for (uint32_t n : random_) {
    const auto [seed, stream] = draw_stream();
    t.args[t.nodes[n].call.arg] = seed, t.args[t.nodes[n].call.arg + 1] = stream;
  }
  for (const Source& s : sources_) {
    if (s.written == no_node) continue;
    Cell* c = cell_of(s, arguments);
    r.rename(c, s.written);
    c->writes += s.writes;
    if (s.new_leaf) retain_cell(c), t.leaves.push_back({s.written, c, nullptr, 0});
  }
  std::vector<Var> made;
  for (const Made& m : made_) {
    Cell* c = r.show(m.node);
    made.push_back(Var::take(c));
    if (!m.recipe) continue;
    Cell* base = m.base_source >= 0 ? cell_of(sources_[size_t(m.base_source)], arguments) : made[size_t(m.base_made)].cell();
    r.make_view(c, base, *m.recipe);
  }
  std::vector<Var> results;
  for (const auto& [is_made, i] : results_) {
    if (is_made) {
      results.push_back(made[size_t(i)]);
      continue;
    }
    Cell* c = cell_of(sources_[size_t(i)], arguments);
    retain_cell(c);
    results.push_back(Var::take(c));
  }
  const std::lock_guard hold(lock_);
  auto at = std::find_if(records_.begin(), records_.end(), [&](const auto& e) { return e.first == &r; });
  if (at == records_.end()) at = records_.insert(at, {&r, std::make_unique<FlushRecords>()});
  r.replayed = at->second.get();
  return results;
}

std::string Recording::difference(const Recorder& r) const {
  const Trace &now = *r.open, &then = *trace_;
  const auto say = [&](uint32_t n, const std::string& what) {
    const Node& node = n < now.nodes.size() ? now.nodes[n] : then.nodes[n];
    return "op " + std::to_string(n) + ", " + op_name(node.call.op) + ": " + what;
  };
  const size_t count = std::min(now.nodes.size(), then.nodes.size());
  for (uint32_t n = 0; n < count; ++n) {
    const Call &a = then.nodes[n].call, &b = now.nodes[n].call;
    if (a.op != b.op) return say(n, std::string("was ") + op_name(a.op));
    if (a.mode != b.mode || a.kind != b.kind || a.attr != b.attr || a.arg != b.arg || (inputs_of(a.op) >= 0 && !std::equal(a.in, a.in + 4, b.in))) return say(n, "is called otherwise");
    if (inputs_of(a.op) < 0)
      for (uint32_t k = 0; k < a.in[1]; ++k)
        if (then.lists[a.in[0] + k] != now.lists[b.in[0] + k]) return say(n, "is called with other tensors");
  }
  if (now.nodes.size() != then.nodes.size()) return say(uint32_t(count), now.nodes.size() > count ? "is new" : "is not called any more");
  // Arguments belong to the last node that binds some and whose first slot is not behind them.
  const auto binds = [&](const Call& c) {
    return c.op != Op::leaf && (kind_of(c.op) != RowKind::pointwise || std::count(c.in, c.in + inputs_of(c.op), scalar_operand));
  };
  std::vector<bool> random(then.args.size() + 2);
  for (uint32_t n : random_) random[then.nodes[n].call.arg] = random[then.nodes[n].call.arg + 1] = true;
  for (uint32_t slot = 0; slot < std::min(then.args.size(), now.args.size()); ++slot) {
    if (then.args[slot] == now.args[slot] || random[slot]) continue;
    uint32_t owner = 0;
    for (uint32_t n = 0; n < count; ++n)
      if (binds(now.nodes[n].call) && now.nodes[n].call.arg <= slot && now.nodes[n].call.arg >= now.nodes[owner].call.arg) owner = n;
    return say(owner, "has another number");
  }
  if (then.args.size() != now.args.size()) return say(uint32_t(count - 1), "has other numbers");
  return "";
}

}  // namespace frit::tracer
