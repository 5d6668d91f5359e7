// The memory of a plan by the lifetimes that it states: its steps are gone through as run_plan would, with counts in place of values.
// Start at plan_memory.
#include "jit/plan_memory.h"
#include <algorithm>
#include "jit/fuse.h"
#include "runtime/buffer.h"
#include "runtime/source_line.h"

namespace frit::jit {

using namespace tracer;

namespace {
constexpr uint32_t outside = ~0u;

// A reshape that the strides of its operand do not allow as a view.
bool copies(const Trace& t, uint32_t n) {
  if (t.nodes[n].call.op != Op::reshape) return false;
  const uint32_t in = t.nodes[n].call.in[0];
  Value v{};
  v.dtype = t.nodes[in].result.dtype, v.rank = uint8_t(t.rank_of(in));
  t.sizes(in, v.extent);
  std::copy_n(predict_strides(t, in).stride, v.rank, v.stride);
  return !reshape_strides(v, t.sizes(n), nullptr);
}

class Walk {
 public:
  explicit Walk(const Plan& p, const Trace& t) : plan_(p), t_(t), place_(t.nodes.size(), unknown), held_(t.nodes.size()), refs_(t.nodes.size()), takes_(t.nodes.size(), unknown) {
    for (const PlanStep& step : p.steps)
      if (const int k = reused_operand(p, t, step); k >= 0)
        for (const GroupPlan::Output& o : p.groups[step.index].group.outputs)
          if (!o.kept) takes_[o.node] = p.groups[step.index].group.operands[size_t(k)].node;
    for (uint32_t n = 0; n < t.nodes.size(); ++n) {
      place(n);
      held_[n] = t.nodes[n].call.op == Op::leaf;
    }
  }
  PlanMemory go() {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      if (step.fused) {
        const GroupPlan& g = plan_.groups[step.index].group;
        for (const GroupPlan::Use& u : g.operands)
          if (u.source == no_node) make(u.node);
        for (const GroupPlan::Output& o : g.outputs) hold(o.node);
        if (by_ops(g))
          for (uint32_t n : plan_.groups[step.index].nodes.nodes) hold(n);
      } else {
        for (int k = 0; k < t_.input_count(step.index); ++k)
          if (const uint32_t in = t_.input(step.index, k); in != scalar_operand) make(in);
        hold(step.index);
      }
      m_.during.push_back(now_);
      if (now_ > m_.peak) m_.peak = now_, m_.step = s, note_holders();
      if (runs_with_next(s)) continue;
      if (s > 0 && runs_with_next(s - 1))
        for (uint32_t n : plan_.steps[s - 1].drop) drop(n);
      for (uint32_t n : step.drop) drop(n);
    }
    for (uint32_t n : plan_.roots) make(n);
    m_.kept = now_;
    if (now_ > m_.peak) m_.peak = now_, m_.step = plan_.steps.size(), note_holders();
    std::stable_sort(m_.holders.begin(), m_.holders.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    return std::move(m_);
  }

 private:
  static constexpr uint32_t unknown = ~0u - 1;
  uint32_t place(uint32_t n) {
    if (place_[n] != unknown) return place_[n];
    const Call& call = t_.nodes[n].call;
    const RowKind k = row(call.op).kind;
    const bool shares = k == RowKind::view || k == RowKind::alias || ((call.mode & in_place) && !plan_.pure[n]);
    const uint32_t found = call.op == Op::leaf ? outside : takes_[n] != unknown ? place(takes_[n]) : shares && !copies(t_, n) ? place(call.in[0]) : n;
    return place_[n] = found;
  }
  int64_t bytes(uint32_t n) const { return t_.numel(n) * int64_t(size_of(t_.nodes[n].result.dtype)); }
  // Every op's result is stored until the step is done.
  bool by_ops(const GroupPlan& g) const {
    int64_t lanes = 1;
    for (int i = g.first; i < g.last; ++i) lanes *= t_.sizes(g.space)[size_t(i)];
    return lanes > 0 && is_long_row(g, t_.numel(g.space) / lanes, lanes);
  }
  bool runs_with_next(size_t s) const { return plan_.steps[s].then && !by_ops(plan_.groups[plan_.steps[s + 1].index].group); }
  // Views and numbers are made when they are read.
  void make(uint32_t n) {
    if (held_[n]) return;
    const RowKind k = row(t_.nodes[n].call.op).kind;
    if (k == RowKind::view || k == RowKind::alias) make(t_.nodes[n].call.in[0]);
    hold(n);
  }
  void hold(uint32_t n) {
    if (held_[n]) return;
    held_[n] = true;
    if (place_[n] != outside && refs_[place_[n]]++ == 0) now_ += bytes(place_[n]);
  }
  void drop(uint32_t n) {
    if (!held_[n] || t_.nodes[n].call.op == Op::leaf) return;
    held_[n] = false;
    if (place_[n] != outside && --refs_[place_[n]] == 0) now_ -= bytes(place_[n]);
  }
  void note_holders() {
    m_.holders.clear();
    for (uint32_t n = 0; n < t_.nodes.size(); ++n)
      if (refs_[n]) m_.holders.push_back({n, bytes(n)});
  }

  const Plan& plan_;
  const Trace& t_;
  std::vector<uint32_t> place_;        // by node: the node that makes its memory
  std::vector<bool> held_;             // by node: it has a value
  std::vector<uint32_t> refs_;         // by place: nodes that hold it
  std::vector<uint32_t> takes_;        // by node: the one whose memory it takes over
  int64_t now_ = 0;
  PlanMemory m_;
};
}  // namespace

PlanMemory plan_memory(const Plan& p, const Trace& t) { return Walk(p, t).go(); }

std::string memory_text(const PlanMemory& m, const Plan& p, const Trace& t) {
  std::string s = "memory: at most " + readable_bytes(m.peak) + " above what it reads";
  if (!m.holders.empty()) s += ", at step " + std::to_string(std::min(m.step + 1, p.steps.size())) + ":";
  for (size_t i = 0; i < m.holders.size() && i < 3; ++i) {
    const std::string line = source_line(t.nodes[m.holders[i].node].result.site);
    s += std::string(i ? ", " : " ") + op_name(t.nodes[m.holders[i].node].call.op) + (line.empty() ? "" : " at " + line) + " (" + readable_bytes(m.holders[i].bytes) + ")";
  }
  if (m.holders.size() > 3) s += ", and " + std::to_string(m.holders.size() - 3) + " more";
  return s + "; " + readable_bytes(m.kept) + " when it is done\n";
}

}  // namespace frit::jit
