// What a kernel reads is chosen by a minimum cut: a value that is cheap to compute from what the kernel reads anyway, or from less, is computed
// again inside of it, and need not be stored where nobody else reads it. A kernel of the backward pass that reads x need not be given x - mean.
//
// For each kernel of the fusion that stands, the network holds what it reads and the ops upstream of that. To cut a value's vertex is to read it, for
// the bytes that are moved; to leave an op on the kernel's side is to compute it again, for what that costs; what cannot be computed again hangs on
// the source. Start at Recomputing::run.
#include <algorithm>
#include <map>
#include "jit/fuse.h"
#include "jit/passes/minimum_cut.h"
#include "jit/passes/passes.h"

namespace frit::jit {

using namespace tracer;

std::map<uint32_t, uint32_t> first_to_need(const Graph& g, const std::vector<uint32_t>& ops, const std::vector<uint32_t>& readers) {
  std::map<uint32_t, uint32_t> first;
  const auto needs = [&](uint32_t op, uint32_t reader) {
    const auto [at, is_new] = first.emplace(op, reader);
    if (!is_new && g.position(reader) < g.position(at->second)) at->second = reader;
  };
  const auto operands = [&](uint32_t n, uint32_t needed_by) {
    for (int k = 0; k < g.trace().input_count(n); ++k)
      if (const uint32_t in = g.trace().input(n, k); !g.is_number(in))
        if (const uint32_t base = view_base(g.trace(), in); std::find(ops.begin(), ops.end(), base) != ops.end()) needs(base, needed_by);
  };
  for (uint32_t r : readers) operands(r, r);
  for (size_t i = ops.size(); i-- > 0;)
    if (const auto at = first.find(ops[i]); at != first.end()) operands(ops[i], at->second);
  return first;
}

namespace {
constexpr size_t most_values = 96;      // in one network
constexpr int most_ops = 24;            // computed again by one kernel
constexpr int sweeps = 3;               // what one kernel no longer reads is dearer for the others

class Recomputing {
 public:
  explicit Recomputing(Graph& g) : g_(g), t_(g.trace()), fusion_(fuse(t_, g.needed, g.roots, g.order(), g.rewrite.checks, g.home)), group_(g.count(), none), outputs_(g.count()) {
    g.number_nodes();
    for (uint32_t i = 0; i < fusion_.groups.size(); ++i) {
      for (uint32_t n : fusion_.groups[i].nodes) group_[n] = i;
      for (uint32_t n : fusion_.groups[i].outputs) outputs_[n] = true;
      inputs_.push_back(fusion_.groups[i].inputs);
    }
  }
  void run() {
    bool changed = true;
    for (int sweep = 0; sweep < sweeps && std::exchange(changed, false); ++sweep)
      for (uint32_t b = 0; b < fusion_.groups.size(); ++b)
        if (fused(b)) changed |= consider(b);
  }

 private:
  static constexpr uint32_t none = ~0u;
  bool is_pointwise(uint32_t n) const { return row(t_.nodes[n].call.op).kind == RowKind::pointwise; }
  double bytes(uint32_t n) const { return double(t_.numel(n)) * double(size_of(t_.nodes[n].result.dtype)); }
  bool fused(uint32_t group) const { return group != none && fusion_.groups[group].kind != GroupKind::single; }
  // A number to kernels, or a source that each of them computes.
  bool is_free(uint32_t n) const {
    const uint32_t base = view_base(t_, n);
    return t_.nodes[n].call.op == Op::full || (base < fusion_.computed.size() && fusion_.computed[base]);
  }
  // Something reads it from memory that is no kernel of this kind, or the user sees it.
  bool stays(uint32_t n) const {
    const uint32_t base = view_base(t_, n);
    if (base != n || t_.nodes[n].call.op == Op::leaf || g_.roots[n] || !is_pointwise(n) || g_.written(n)) return true;
    for (uint32_t r : g_.readers(n)) {
      if (!g_.needed[r]) continue;
      const bool kernel = fused(group_[r]) && (is_pointwise(r) || row(t_.nodes[r].call.op).kind == RowKind::reduce);
      if (!kernel || ((t_.nodes[r].call.mode & in_place) && t_.nodes[r].call.in[0] == n)) return true;
    }
    return false;
  }
  bool is_stored(uint32_t n) const {
    const uint32_t base = view_base(t_, n);
    return t_.nodes[base].call.op == Op::leaf || outputs_[base];
  }
  // Can its kernel store it beside what it stores now?
  bool storable(uint32_t n) const {
    return view_base(t_, n) == n && fused(group_[n]) && !g_.written(n) && (is_pointwise(n) || row(t_.nodes[n].call.op).kind == RowKind::reduce);
  }
  bool repeats(uint32_t n, uint32_t until) const {
    return is_pointwise(n) && fused(group_[n]) && g_.repeatable(n, until);
  }
  double cost(const Node& n) {
    const auto [at, is_new] = costs_.try_emplace({n.call.op, n.result.compute}, 0.0);
    if (is_new) at->second = pointwise_cost(n);
    return at->second;
  }
  size_t groups_reading(uint32_t n) const {
    size_t count = 0;
    for (size_t b = 0; b < inputs_.size(); ++b) count += group_[n] != b && std::find(inputs_[b].begin(), inputs_[b].end(), n) != inputs_[b].end();
    return count;
  }
  double price(uint32_t n, uint32_t b) const {
    if (is_free(n)) return 0;
    if (is_stored(n) && stays(n)) return bytes(n);
    const bool reads = std::find(inputs_[b].begin(), inputs_[b].end(), n) != inputs_[b].end();
    return bytes(n) + writing_cost * bytes(n) / double(std::max<size_t>(1, groups_reading(n) + !reads));  // its part of writing it
  }

  struct Place {
    int in, out;
  };
  bool consider(uint32_t b) {
    const Group& group = fusion_.groups[b];
    uint32_t until = group.nodes[0];  // the last that would read it
    for (uint32_t m : group.nodes)
      if (g_.position(m) > g_.position(until)) until = m;
    Network network;
    const int source = network.vertex(), sink = network.vertex();
    std::map<uint32_t, Place> place;
    std::vector<uint32_t> order;
    const auto visit = [&](auto&& self, uint32_t n) -> void {
      if (place.count(n)) return;
      const Place p{network.vertex(), network.vertex()};
      place[n] = p;
      const bool known = std::find(inputs_[b].begin(), inputs_[b].end(), n) != inputs_[b].end();
      const bool readable = is_free(n) || known || ((is_stored(n) || storable(n)) && g_.unwritten(n, n, until));
      network.edge(p.in, p.out, readable ? price(n, b) : Network::infinite);
      const bool again = t_.numel(n) >= least_repeated && repeats(n, until) && place.size() < most_values;
      network.edge(source, p.in, again ? cost(t_.nodes[n]) * double(t_.numel(n)) : Network::infinite);
      if (again)
        for (int k = 0; k < t_.input_count(n); ++k)
          if (const uint32_t in = t_.input(n, k); !g_.is_number(in)) {
            self(self, in);
            network.edge(place[in].out, p.in, Network::infinite);
          }
      order.push_back(n);
    };
    double before = 0;
    for (uint32_t n : inputs_[b]) {
      visit(visit, n);
      network.edge(place[n].out, sink, Network::infinite);
      before += price(n, b);
    }
    if (!network.cut(source, sink) || network.flow() >= before * 0.999) return false;
    std::vector<uint32_t> ops, reads;
    for (uint32_t n : order) {  // operands first
      const Place p = place[n];
      if (network.on_source_side(p.out)) continue;
      if (network.on_source_side(p.in)) reads.push_back(n);
      else ops.push_back(n);
    }
    if (ops.empty() || ops.size() > size_t(most_ops) || group.nodes.size() + ops.size() > max_group_nodes || reads.size() > max_group_operands) return false;
    again(b, ops, reads);
    return true;
  }

  // A copy of each op before the first of the kernel's nodes that needs it; its nodes read the copies.
  void again(uint32_t b, const std::vector<uint32_t>& ops, const std::vector<uint32_t>& reads) {
    std::map<uint32_t, uint32_t>& made = made_[b];
    std::vector<uint32_t>& nodes = members_.try_emplace(b, fusion_.groups[b].nodes).first->second;
    const std::map<uint32_t, uint32_t> first = first_to_need(g_, ops, nodes);
    if (first.empty()) return;
    std::vector<uint32_t> copies;
    g_.home.resize(g_.count(), no_node);
    for (uint32_t n : nodes) g_.home[n] = fusion_.groups[b].nodes[0];
    for (uint32_t op : ops) {
      if (!first.count(op)) continue;
      const Node node = t_.nodes[op];
      Call call = node.call;
      for (int k = 0; k < t_.input_count(op); ++k)
        if (!g_.is_number(call.in[k]))
          if (const auto at = made.find(call.in[k]); at != made.end() && std::find(ops.begin(), ops.end(), call.in[k]) != ops.end()) call.in[k] = at->second;
      const uint32_t at = g_.append_before(call, node.result.dtype, node.result.compute, op, op, first.at(op));
      g_.home.resize(g_.count(), no_node);
      g_.home[at] = fusion_.groups[b].nodes[0];
      made[op] = at;
      copies.push_back(at);
      group_.push_back(b), outputs_.push_back(false);
      g_.number_nodes();
    }
    for (const auto& [op, reader] : first)
      for (uint32_t r : nodes) g_.redirect(r, op, made[op]);
    nodes.insert(nodes.end(), copies.begin(), copies.end());
    const std::vector<uint32_t> read_before = std::exchange(inputs_[b], reads);
    for (uint32_t n : reads) outputs_[view_base(t_, n)] = outputs_[view_base(t_, n)] || t_.nodes[view_base(t_, n)].call.op != Op::leaf;
    for (uint32_t n : read_before)
      if (!stays(n) && groups_reading(n) == 0) outputs_[n] = false;
  }

  Graph& g_;
  const Trace& t_;
  Fusion fusion_;
  std::vector<uint32_t> group_;                 // by node
  std::vector<bool> outputs_;                   // by node: stored
  std::vector<std::vector<uint32_t>> inputs_;   // by group
  std::map<uint32_t, std::map<uint32_t, uint32_t>> made_;     // by group: copies
  std::map<std::pair<Op, Dtype>, double> costs_;
  std::map<uint32_t, std::vector<uint32_t>> members_;         // by group that has copies: its nodes with them
};
}  // namespace

void recompute(Graph& g) {
  g.drop_unneeded();
  Recomputing(g).run();
}

}  // namespace frit::jit
