// A plan's peak is lowered: values that are held while it is reached, only to be read later, are computed again by who reads them, from what is held
// anyway or from less. Of gelu and its slope neither is kept for the backward pass, but the sum that both come from; of scores and probabilities one.
//
// The plan is made as it stands and its memory is gone through (plan_memory). At the step with the peak, a minimum cut chooses what is held: to cut a
// value's vertex is to hold it, at a price in time for its bytes; to leave an op behind the cut is to compute it again, for what that costs; what cannot be
// computed again hangs on the source, what later steps read on the sink. That is done to a copy of the graph, whose plan is made and gone through
// again; then comes the step that has the peak now. The graph with the lowest peak is taken. Start at hold_less.
#include <algorithm>
#include <map>
#include <set>
#include "jit/passes/minimum_cut.h"
#include "jit/passes/passes.h"
#include "jit/plan.h"
#include "jit/plan_memory.h"
#include "runtime/buffer.h"
#include "runtime/settings.h"

namespace frit::jit {

using namespace tracer;

namespace {
// What a part of the peak may cost, as a part of the plan's time: who runs out of memory halves the batch, which costs some percent; and memory that is not
// touched is not paged in. One percent of the time has to save six of the peak.
constexpr double exchange = 1.0 / 6;
constexpr double least_gain = 0.03;       // of the peak, or all stays as it was
constexpr double most_time = 0.025;       // of the plan's
constexpr double flops_per_byte = 10;     // of a product, in the time of a byte
constexpr double drawing = 30;            // an element of a source, in bytes
constexpr double least_cut = 0.02;        // of the peak, by which one cut lowers it
constexpr int most_cuts = 12;
constexpr size_t most_values = 400;       // in one network
constexpr int64_t least_part = 1024;      // of the peak, in bytes, that is worth it

int64_t bytes_of(const Trace& t, uint32_t n) { return t.numel(n) * int64_t(size_of(t.nodes[n].result.dtype)); }
bool is_pointwise(const Trace& t, uint32_t n) { return row(t.nodes[n].call.op).kind == RowKind::pointwise; }

// What a plan takes, in bytes moved in the same time.
double time_of(const Plan& p, const Trace& t) {
  double time = 0;
  for (const PlanStep& s : p.steps) {
    if (s.fused) {
      const Group& g = p.groups[s.index].nodes;
      for (uint32_t n : g.inputs) time += double(bytes_of(t, n));
      for (uint32_t n : g.outputs) time += writing_cost * double(bytes_of(t, n));
      for (uint32_t n : g.nodes)
        if (is_pointwise(t, n)) time += pointwise_cost(t.nodes[n]) * double(t.numel(n));
      continue;
    }
    const Node& node = t.nodes[s.index];
    time += writing_cost * double(bytes_of(t, s.index));
    for (int k = 0; k < t.input_count(s.index); ++k)
      if (const uint32_t in = t.input(s.index, k); in != scalar_operand) time += double(bytes_of(t, in));
    if (row(node.call.op).kind == RowKind::product && t.rank_of(node.call.in[0]) > 0) time += 2 * double(t.numel(s.index)) * double(t.sizes(node.call.in[0]).back()) / flops_per_byte;
  }
  return time;
}

class Holding {
 public:
  Holding(Graph& g, const Plan& p, const PlanMemory& m, double price, double most) : g_(g), t_(g.trace()), plan_(p), peak_(m.step), least_(m.peak / least_part), price_(price), most_(most), step_(g.count(), none), stored_(g.count()) {
    g_.number_nodes();
    for (uint32_t s = 0; s < p.steps.size(); ++s) {
      for (uint32_t n : nodes(s)) step_[n] = s;
      for (uint32_t n : outputs(s)) stored_[n] = true;
    }
  }
  // False: nothing held at the peak is worth it.
  bool lower() {
    if (peak_ >= plan_.steps.size()) return false;
    find_wanted();
    find_early();
    return !wanted_.empty() && choose() && (make(), true);
  }

 private:
  static constexpr uint32_t none = ~0u;
  struct Wanted {         // a value that was there at the peak, and a later step that reads it
    uint32_t value, step;
    std::vector<uint32_t> as;  // it, or views of it
  };
  std::vector<uint32_t> nodes(uint32_t s) const { return plan_.steps[s].fused ? plan_.groups[plan_.steps[s].index].nodes.nodes : std::vector<uint32_t>{plan_.steps[s].index}; }
  std::vector<uint32_t> outputs(uint32_t s) const { return plan_.steps[s].fused ? plan_.groups[plan_.steps[s].index].nodes.outputs : std::vector<uint32_t>{plan_.steps[s].index}; }
  std::vector<uint32_t> inputs(uint32_t s) const {
    if (plan_.steps[s].fused) return plan_.groups[plan_.steps[s].index].nodes.inputs;
    std::vector<uint32_t> in;
    for (int k = 0; k < t_.input_count(plan_.steps[s].index); ++k)
      if (const uint32_t n = t_.input(plan_.steps[s].index, k); !g_.is_number(n)) in.push_back(n);
    return in;
  }
  bool is_early(uint32_t n) const { return step_[n] != none && step_[n] <= peak_; }
  bool is_view(uint32_t n) const { return row(t_.nodes[n].call.op).kind == RowKind::view; }
  bool shares_memory(uint32_t n) const { return (t_.nodes[n].call.mode & in_place) || is_view(n) || row(t_.nodes[n].call.op).kind == RowKind::alias; }
  bool is_source(uint32_t n) const { return row(t_.nodes[n].call.op).kind == RowKind::source; }

  void find_wanted() {
    wanted_value_.assign(g_.count(), false), shared_.assign(g_.count(), false), until_.assign(g_.count(), none), users_.assign(g_.count(), {}), at_peak_.assign(g_.count(), false);
    for (uint32_t n : inputs(uint32_t(peak_))) at_peak_[view_base(t_, n)] = true;
    for (uint32_t s = uint32_t(peak_) + 1; s < plan_.steps.size(); ++s)
      for (uint32_t in : inputs(s)) {
        const uint32_t v = view_base(t_, in);
        if (!is_early(v)) continue;
        const auto known = std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& w) { return w.value == v && w.step == s; });
        if (known == wanted_.end()) wanted_.push_back({v, s, {in}});
        else known->as.push_back(in);
        for (uint32_t n : nodes(s)) {
          later(v, n);
          shared_[v] = shared_[v] || (shares_memory(n) && view_base(t_, t_.nodes[n].call.in[0]) == v);
        }
        users_[v].insert(s), wanted_value_[v] = true;
      }
    // What an op is computed from has to last as long.
    for (size_t i = g_.order().size(); i-- > 0;) {
      const uint32_t n = g_.order()[i];
      if (until_[n] == none || !is_pointwise(t_, n)) continue;
      for (int k = 0; k < t_.input_count(n); ++k)
        if (const uint32_t in = t_.input(n, k); !g_.is_number(in)) {
          const uint32_t base = view_base(t_, in);
          later(base, until_[n]);
          users_[base].insert(users_[n].begin(), users_[n].end());
        }
    }
  }
  void later(uint32_t n, uint32_t reader) {
    if (until_[n] == none || g_.position(reader) > g_.position(until_[n])) until_[n] = reader;
  }
  // Ops until the peak that are wanted until then: what is only read later is computed later, at no cost.
  void find_early() {
    early_.assign(g_.count(), false);
    for (size_t i = g_.order().size(); i-- > 0;) {
      const uint32_t n = g_.order()[i];
      early_[n] = g_.roots[n] || !(is_pointwise(t_, n) || is_view(n)) || (t_.nodes[n].call.mode & in_place);
      for (uint32_t r : g_.readers(n))
        if (g_.needed[r]) early_[n] = early_[n] || (is_view(r) ? early_[r] : is_early(r) && early_[r]);
    }
  }
  bool repeats(uint32_t n) const {
    if (!is_pointwise(t_, n) || !is_early(n) || shared_[n] || bytes_of(t_, n) < least_ || !g_.repeatable(n, until_[n])) return false;
    for (int k = 0; k < t_.input_count(n); ++k)  // a view of what is computed again has to pass through the kernel
      if (const uint32_t in = t_.input(n, k); !g_.is_number(in) && is_view(in) && is_pointwise(t_, view_base(t_, in)) && !passes_through(t_, in)) return false;
    return true;
  }
  double hold_price(uint32_t n) const {
    if (t_.nodes[n].call.op == Op::leaf || t_.nodes[n].call.op == Op::full) return 0;
    if (step_[n] == none) return is_source(n) && t_.nodes[n].call.op != Op::arange ? drawing * double(t_.numel(n)) : 0;  // computed where it is read
    if (!is_early(n) || at_peak_[n] || g_.shown(n) || g_.written(n)) return 0;
    return double(bytes_of(t_, n)) * (price_ + (stored_[n] ? 0 : writing_cost));
  }
  bool readable(uint32_t n) const {
    if (step_[n] == none || t_.nodes[n].call.op == Op::leaf) return true;
    const RowKind k = row(t_.nodes[n].call.op).kind;
    if (wanted_value_[n]) return true;  // and is read
    const bool storable = plan_.steps[step_[n]].fused && (k == RowKind::pointwise || k == RowKind::reduce) && !g_.written(n);
    return (stored_[n] || storable) && g_.unwritten(n, n, until_[n]);
  }
  // Each who reads it computes it by itself; whoever is no kernel of ours has it stored, and reads it as it did.
  double repeat_price(uint32_t n) const {
    double kernels = double(users_[n].size()), stores = 0;
    for (const Wanted& w : wanted_) stores += w.value == n && !inside(w);
    if (!early_[n]) kernels -= 1, stores -= stored_[n];  // it is there once in any case
    return std::max(0.0, kernels) * pointwise_cost(t_.nodes[n]) * double(t_.numel(n)) + std::max(0.0, stores) * writing_cost * double(bytes_of(t_, n));
  }
  // Is it computed within the step that reads it?
  bool inside(const Wanted& w) const {
    return plan_.steps[w.step].fused && std::all_of(w.as.begin(), w.as.end(), [&](uint32_t n) { return n == w.value || passes_through(t_, n); });
  }

  struct Place { int in, out; };
  bool choose() {
    Network network;
    const int source = network.vertex(), sink = network.vertex();
    std::map<uint32_t, Place> place;
    const auto visit = [&](auto&& self, uint32_t n) -> void {
      if (place.count(n)) return;
      const Place p{network.vertex(), network.vertex()};
      place[n] = p;
      network.edge(p.in, p.out, readable(n) ? hold_price(n) : Network::infinite);
      const bool again = place.size() < most_values && repeats(n);
      network.edge(source, p.in, again ? repeat_price(n) : Network::infinite);
      if (!again) return;
      for (int k = 0; k < t_.input_count(n); ++k)
        if (const uint32_t in = t_.input(n, k); !g_.is_number(in)) {
          const uint32_t base = view_base(t_, in);
          self(self, base);
          network.edge(place[base].out, p.in, Network::infinite);
        }
    };
    double before = 0;
    std::set<uint32_t> seen;
    for (const Wanted& w : wanted_) {
      if (!seen.insert(w.value).second) continue;
      visit(visit, w.value);
      network.edge(place[w.value].out, sink, Network::infinite);
      before += hold_price(w.value);
    }
    if (!network.cut(source, sink) || network.flow() >= before * 0.999) return false;
    for (const auto& [n, p] : place)
      if (!network.on_source_side(p.in)) again_.insert(n);
    keep_best();
    return !again_.empty();
  }
  // Of what is independent, the parts that lower the peak most for their time, as long as there is some.
  void keep_best() {
    std::map<uint32_t, uint32_t> part;  // by node: a node that stands for those which are chosen together
    const auto find = [&](uint32_t n) {
      for (part.try_emplace(n, n); part[n] != n;) n = part[n];
      return n;
    };
    for (uint32_t n : again_) find(n);
    for (uint32_t n : again_)
      for (int k = 0; k < t_.input_count(n); ++k)
        if (const uint32_t in = t_.input(n, k); !g_.is_number(in))
          if (const uint32_t base = view_base(t_, in); again_.count(base) || (!wanted_value_[base] && hold_price(base) > 0)) part[find(base)] = find(n);
    struct Part {
      double saved = 0, cost = 0;
    };
    std::map<uint32_t, Part> parts;
    for (const auto& [n, unused] : std::map<uint32_t, uint32_t>(part)) {
      Part& p = parts[find(n)];
      if (!again_.count(n)) p.saved -= double(bytes_of(t_, n));
      else p.cost += repeat_price(n), p.saved += wanted_value_[n] && hold_price(n) > 0 ? double(bytes_of(t_, n)) : 0;
    }
    std::vector<std::pair<uint32_t, Part>> sorted(parts.begin(), parts.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.saved * b.second.cost > b.second.saved * a.second.cost; });
    double left = most_;
    std::set<uint32_t> taken;
    for (const auto& [n, p] : sorted)
      if (p.cost <= left) left -= p.cost, taken.insert(n);
    std::erase_if(again_, [&](uint32_t n) { return !taken.count(find(n)); });
  }

  // Copies for the step, before the first of its nodes that reads one of them.
  void make() {
    std::map<uint32_t, std::vector<const Wanted*>> by_step;
    for (const Wanted& w : wanted_)
      if (again_.count(w.value)) by_step[w.step].push_back(&w);
    std::vector<uint32_t> ordered(again_.begin(), again_.end());
    std::sort(ordered.begin(), ordered.end(), [&](uint32_t a, uint32_t b) { return g_.position(a) < g_.position(b); });
    for (const auto& [step, all] : by_step) {
      const std::vector<uint32_t> readers = nodes(step);
      const size_t limit = max_group_nodes - std::min(max_group_nodes, readers.size());
      std::map<uint32_t, uint32_t> made;
      std::vector<const Wanted*> within;
      for (const Wanted* w : all)
        if (inside(*w) && sources(*w).size() <= limit) within.push_back(w);
        else copy({w}, sources(*w), readers, no_node);
      std::set<uint32_t> ops;
      for (const Wanted* w : within)
        for (uint32_t n : sources(*w)) ops.insert(n);
      if (within.empty()) continue;
      if (ops.size() <= limit) copy(within, ops, readers, readers[0]);
      else for (const Wanted* w : within) copy({w}, sources(*w), readers, no_node);
    }
    g_.drop_unneeded();
  }
  std::set<uint32_t> sources(const Wanted& w) const {  // the ops that it is computed by
    std::set<uint32_t> ops;
    const auto add = [&](auto&& self, uint32_t n) -> void {
      if (!again_.count(n) || !ops.insert(n).second) return;
      for (int k = 0; k < t_.input_count(n); ++k)
        if (const uint32_t in = t_.input(n, k); !g_.is_number(in)) self(self, view_base(t_, in));
    };
    add(add, w.value);
    return ops;
  }
  // home: of the kernel that they are part of; no_node: their own.
  void copy(const std::vector<const Wanted*>& wanted, const std::set<uint32_t>& which, const std::vector<uint32_t>& readers, uint32_t home) {
    std::vector<uint32_t> ops(which.begin(), which.end());
    std::sort(ops.begin(), ops.end(), [&](uint32_t a, uint32_t b) { return g_.position(a) < g_.position(b); });
    const std::map<uint32_t, uint32_t> first = first_to_need(g_, ops, readers);
    g_.home.resize(g_.count(), no_node);
    if (home != no_node)
      for (uint32_t r : readers) g_.home[r] = home;
    std::map<uint32_t, uint32_t> made;
    const auto stands_for = [&](auto&& self, uint32_t in) -> uint32_t {  // the same view of the copy
      if (const auto at = made.find(in); at != made.end()) return at->second;
      if (!is_view(in)) return in;
      const uint32_t shown = self(self, t_.nodes[in].call.in[0]);
      if (shown == t_.nodes[in].call.in[0]) return in;
      const Node view = t_.nodes[in];
      Call call = view.call;
      call.in[0] = shown;
      return made[in] = g_.append(call, view.result.dtype, view.result.compute, in, in, shown);
    };
    for (uint32_t op : ops) {
      if (!first.count(op)) continue;
      const Node node = t_.nodes[op];
      Call call = node.call;
      for (int k = 0; k < t_.input_count(op); ++k)
        if (!g_.is_number(call.in[k])) call.in[k] = stands_for(stands_for, call.in[k]);
      const uint32_t at = made[op] = g_.append_before(call, node.result.dtype, node.result.compute, op, op, first.at(op));
      g_.home.resize(g_.count(), no_node);
      if (home == no_node) home = at;
      g_.home[at] = home;
    }
    for (const Wanted* w : wanted)
      for (uint32_t in : w->as) {
        const uint32_t to = stands_for(stands_for, in);
        for (uint32_t r : readers) g_.redirect(r, in, to);
      }
  }

  Graph& g_;
  const Trace& t_;
  const Plan& plan_;
  const size_t peak_;
  const int64_t least_;                         // bytes of what is worth it
  const double price_;                          // of a byte held, in bytes moved
  const double most_;                           // bytes moved that all may cost
  std::vector<uint32_t> step_;                  // by node: that computes it
  std::vector<bool> stored_, early_, at_peak_, wanted_value_, shared_;  // by node; shared: a later step writes or shows its memory
  std::vector<uint32_t> until_;                 // by node: the last that would read it
  std::vector<std::set<uint32_t>> users_;       // by node: later steps that would compute it
  std::vector<Wanted> wanted_;
  std::set<uint32_t> again_;
};
struct State {
  Graph graph;
  std::shared_ptr<Plan> plan;
  PlanMemory memory;
  explicit State(const Graph& g) : graph(g), plan(plan_of(graph)), memory(plan_memory(*plan, graph.trace())) {}
  State(const State&) = default;
  State& operator=(State&&) = default;
};
}  // namespace

void hold_less(Graph& g) {
  int64_t all = 0;
  for (uint32_t n = 0; n < g.count(); ++n)
    if (g.needed[n] && row(g.node(n).call.op).kind != RowKind::view && g.node(n).call.op != Op::leaf) all += bytes_of(g.trace(), n);
  const int64_t least_peak = settings().lower_peak;
  if (all < least_peak) return;
  g.drop_unneeded();
  State best(g), now(g);
  if (best.memory.peak < least_peak) return;
  const int64_t before = best.memory.peak;
  const double time = time_of(*best.plan, g.trace());
  const double price = exchange * time / double(before);
  double spent = 0, most = time * most_time;
  int idle = 0;  // cuts since the peak fell by much: one may only move it to another step
  for (int cut = 0; cut < most_cuts && idle < 2 && Holding(now.graph, *now.plan, now.memory, price, most - spent).lower(); ++cut) {
    now.graph.verify();
    now = State(now.graph);
    const bool dear = time_of(*now.plan, now.graph.trace()) - time > time * most_time;
    idle = !dear && double(now.memory.peak) > double(best.memory.peak) * (1 - least_cut) ? idle + 1 : 0;
    if (dear) now = State(best), most = (most + spent) / 2;  // it costs more than it seemed
    else if (now.memory.peak < best.memory.peak) best = State(now);
    spent = time_of(*now.plan, now.graph.trace()) - time;
  }
  if (double(best.memory.peak) > double(before) * (1 - least_gain)) return;
  g = std::move(best.graph);
  g.note = "at most " + readable_bytes(best.memory.peak) + " above what is read, not " + readable_bytes(before);
}

}  // namespace frit::jit
