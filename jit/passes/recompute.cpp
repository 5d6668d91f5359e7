// What is cheap is computed again where it is read, when that moves fewer bytes than storing it: a kernel of the backward pass that
// reads x anyway need not be given x - mean as well. The groups that fusion makes say what would be stored; of what they store,
// each tensor whose parts are at hand (stored for others, or small) is a candidate. Start at recompute.
#include <algorithm>
#include <map>
#include "jit/fuse.h"
#include "jit/passes/passes.h"

namespace frit::jit {

using namespace tracer;

namespace {
constexpr int most_ops = 8;             // in place of one tensor
constexpr int64_t smallest = 1 << 12;   // elements

class Recomputing {
 public:
  explicit Recomputing(Graph& g) : g_(g), t_(g.trace()), fusion_(fuse(t_, g.needed, g.roots, g.order(), g.rewrite.checks, g.apart)), group_(g.count(), none), outputs_(g.count()) {
    g.number_nodes();
    for (uint32_t i = 0; i < fusion_.groups.size(); ++i) {
      for (uint32_t n : fusion_.groups[i].nodes) group_[n] = i;
      for (uint32_t n : fusion_.groups[i].outputs) outputs_[n] = true;
      inputs_.push_back(fusion_.groups[i].inputs);
    }
  }
  void run() {
    for (uint32_t a = 0; a < fusion_.groups.size(); ++a) {
      const std::vector<uint32_t> nodes = fusion_.groups[a].nodes;  // in order: whether what a node reads stays stored is known by then
      for (uint32_t n : nodes)
        if (outputs_[n]) consider(n);
    }
  }

 private:
  static constexpr uint32_t none = ~0u;
  struct Parts {
    std::vector<uint32_t> ops;     // in order
    std::vector<uint32_t> reads;
  };
  bool is_pointwise(uint32_t n) const { return row(t_.nodes[n].call.op).kind == RowKind::pointwise; }
  int64_t bytes(uint32_t n) const { return t_.numel(n) * int64_t(size_of(t_.nodes[n].result.dtype)); }
  bool fused(uint32_t group) const { return group != none && fusion_.groups[group].kind != GroupKind::single; }
  // A number to kernels, or a source that each of them computes.
  bool is_free(uint32_t n) const {
    const uint32_t base = view_base(t_, n);
    return t_.nodes[n].call.op == Op::full || (base < fusion_.computed.size() && fusion_.computed[base]);
  }
  // Is the value kept in memory, whatever becomes of `of`?
  bool at_hand(uint32_t n) const {
    const uint32_t base = view_base(t_, n);
    return t_.nodes[base].call.op == Op::leaf || (outputs_[base] && !g_.written(base));
  }
  // What has to be stored, because something reads it that is no kernel of this kind, or the user sees it.
  bool stays(uint32_t n) const {
    if (t_.nodes[n].call.op == Op::leaf || g_.roots[n] || !is_pointwise(n)) return true;
    for (uint32_t r : g_.readers(n))
      if (g_.needed[r] && (!fused(group_[r]) || !is_fusable_reader(r) || ((t_.nodes[r].call.mode & in_place) && t_.nodes[r].call.in[0] == n))) return true;
    return false;
  }
  bool is_fusable_reader(uint32_t r) const { return is_pointwise(r) || row(t_.nodes[r].call.op).kind == RowKind::reduce; }
  bool is_small_reduction(uint32_t n, uint32_t origin) const {
    return row(t_.nodes[n].call.op).kind == RowKind::reduce && !g_.written(n) && t_.numel(n) * 8 <= t_.numel(origin);
  }
  bool collect(uint32_t n, uint32_t origin, uint32_t until, Parts& p) const {
    if (std::find(p.ops.begin(), p.ops.end(), n) != p.ops.end() || std::find(p.reads.begin(), p.reads.end(), n) != p.reads.end()) return true;
    if (n != origin && at_hand(n)) return p.reads.push_back(n), g_.unwritten(n, origin, until);
    if (is_small_reduction(n, origin)) return p.reads.push_back(n), true;  // one more result of its kernel
    if (is_free(n)) return p.reads.push_back(n), true;
    if (!is_pointwise(n) || !g_.repeatable(n, until) || group_[n] == none || !fused(group_[n]) || p.ops.size() >= size_t(most_ops)) return false;
    if (t_.nodes[n].call.op == Op::pow || t_.nodes[n].call.op == Op::lgamma) return false;
    for (int k = 0; k < t_.input_count(n); ++k)
      if (const uint32_t in = t_.input(n, k); !g_.is_number(in) && !collect(in, origin, until, p)) return false;
    p.ops.push_back(n);
    return true;
  }

  void consider(uint32_t n) {
    if (!g_.needed[n] || !is_pointwise(n) || g_.written(n) || stays(n) || t_.numel(n) < smallest) return;
    std::vector<uint32_t> groups;  // that read it from outside
    for (uint32_t r : g_.readers(n)) {
      if (!g_.needed[r]) continue;
      const uint32_t b = group_[r];
      if (b == none || b == group_[n] || std::find(groups.begin(), groups.end(), b) != groups.end()) continue;
      groups.push_back(b);
    }
    Parts p;
    uint32_t until = n;  // the last that would read it
    for (uint32_t b : groups)
      for (uint32_t m : fusion_.groups[b].nodes)
        if (g_.position(m) > g_.position(until)) until = m;
    if (groups.empty() || !collect(n, n, until, p)) return;
    int64_t before = bytes(n), after = 0;
    for (uint32_t b : groups) {
      before += bytes(n);
      for (uint32_t r : p.reads)
        if (std::find(inputs_[b].begin(), inputs_[b].end(), r) == inputs_[b].end()) after += is_free(r) ? 0 : bytes(r);
    }
    if (after >= before) return;
    for (uint32_t b : groups) again(n, b, p);
    for (uint32_t r : p.reads) outputs_[r] = true;
    outputs_[n] = false;
  }
  // Copies of the parts before the first of the group's nodes that reads n; those read the copy. Copies that are there by then
  // serve again.
  void again(uint32_t n, uint32_t b, const Parts& p) {
    std::vector<std::pair<uint32_t, uint32_t>>& made = made_[b];
    const uint32_t first = first_reader(n, b);
    const auto before = [&](uint32_t node) {
      for (uint32_t other : g_.order())
        if (other == node || other == first) return other == node;
      return false;
    };
    const auto copy_of = [&](uint32_t of) {
      for (const auto& [from, to] : made)
        if (from == of && before(to)) return to;
      return of;
    };
    for (uint32_t op : p.ops) {
      if (copy_of(op) != op) continue;
      const Node node = t_.nodes[op];
      Call call = node.call;
      for (int k = 0; k < t_.input_count(op); ++k)
        if (!g_.is_number(call.in[k])) call.in[k] = copy_of(call.in[k]);
      const uint32_t at = g_.append_before(call, node.result.dtype, node.result.compute, op, op, first);
      g_.apart.resize(g_.count(), no_node);
      g_.apart[at] = op;
      made.push_back({op, at});
      group_.push_back(b), outputs_.push_back(false);
      g_.number_nodes();
    }
    const uint32_t copy = copy_of(n);
    for (uint32_t r : fusion_.groups[b].nodes) g_.redirect(r, n, copy);
    for (uint32_t r : p.reads)
      if (std::find(inputs_[b].begin(), inputs_[b].end(), r) == inputs_[b].end()) inputs_[b].push_back(r);
  }
  uint32_t first_reader(uint32_t n, uint32_t b) const {  // in order
    const std::vector<uint32_t>& readers = g_.readers(n);
    for (uint32_t r : g_.order())
      if (group_[r] == b && std::find(readers.begin(), readers.end(), r) != readers.end()) return r;
    return none;
  }

  Graph& g_;
  const Trace& t_;
  Fusion fusion_;
  std::vector<uint32_t> group_;                 // by node
  std::vector<bool> outputs_;                   // by node: stored
  std::vector<std::vector<uint32_t>> inputs_;   // by group
  std::map<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>> made_;  // by group
};
}  // namespace

void recompute(Graph& g) {
  g.drop_unneeded();
  Recomputing(g).run();
}

}  // namespace frit::jit
