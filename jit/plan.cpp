// Building plans, and their text. Start at build_plan. run_plan.cpp runs them.
#include "jit/plan.h"
#include <algorithm>
#include <chrono>
#include "jit/packed_weights.h"
#include "runtime/source_line.h"

namespace frit::jit {

using namespace tracer;

// ---- writes -----------------------------------------------------------------------------------------------------------
WriteCounts count_writes(const Trace& t, const std::vector<bool>& pure) {
  WriteCounts w;
  const std::vector<uint32_t> memory = memory_classes(t, nullptr, false);
  std::vector<uint32_t> index(t.nodes.size() + 1, no_memory);  // by memory: in w.memories
  std::vector<bool> outer(t.nodes.size() + 1);
  const auto writes = [&](uint32_t n) { return (t.nodes[n].call.mode & in_place) && row(t.nodes[n].call.op).kind != RowKind::alias; };
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    if (t.nodes[n].call.op == Op::leaf) outer[memory[n]] = true;
    if (!writes(n) || outer[memory[n]] || index[memory[n]] != no_memory) continue;
    index[memory[n]] = uint32_t(w.memories.size());
    w.memories.push_back({0, pure[n]});
  }
  if (w.memories.empty()) return w;
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    const uint32_t m = index[memory[n]];
    if (m == no_memory) continue;
    w.memories[m].count += writes(n);
    w.nodes.push_back({n, m, w.memories[m].count});
  }
  return w;
}
void WriteCounts::finish(Trace& t, const Storages& storages) const {
  for (const Node& n : nodes) {
    const Value* v = t.value[n.node];
    // A reshape may have copied, and what a write keeps for its gradient is apart: both have memory of their own.
    if (!v || (v->storage != storages[n.memory] && !memories[n.memory].pure)) continue;
    v->storage->version.store(memories[n.memory].count, std::memory_order_relaxed);
    t.version[n.node] = n.before;
  }
}

// ---- failures ---------------------------------------------------------------------------------------------------------
void Failures::add(uint32_t node, bool writes) {
  if (!first_) {
    first_ = with_line(trace_.nodes[node].result.site);
    failed_.assign(trace_.nodes.size(), false);
    memory_ = memory_classes(trace_);
  }
  failed_[node] = true;
  if (writes) lost_.push_back(memory_[node]);
}
bool Failures::reach(uint32_t node) const {
  for (uint32_t n = node;; n = trace_.nodes[n].call.in[0]) {
    if (failed_[n]) return true;
    const RowKind k = row(trace_.nodes[n].call.op).kind;
    if (k == RowKind::alias && reach(trace_.nodes[n].call.in[1])) return true;
    if (k != RowKind::view && k != RowKind::alias) break;
  }
  return std::find(lost_.begin(), lost_.end(), memory_[node]) != lost_.end();
}
bool Failures::reach_inputs(uint32_t node) const {
  for (int k = 0; k < trace_.input_count(node); ++k)
    if (const uint32_t in = trace_.input(node, k); in != scalar_operand && reach(in)) return true;
  return false;
}

// ---- what shares memory, what shares rows -----------------------------------------------------------------------------------
namespace {
// The result that lies over all of the step's space, where there is one alone; null.
const GroupPlan::Output* whole_result(const GroupPlan& g) {
  const GroupPlan::Output* whole = nullptr;
  for (const GroupPlan::Output& o : g.outputs) {
    if (o.in_place || (whole && !o.kept)) return nullptr;
    if (!o.kept) whole = &o;
  }
  return g.code.kind == GroupKind::columns ? nullptr : whole;
}
std::vector<uint32_t> dying_operands(const Trace& t, const GroupPlan& g, const std::vector<uint32_t>& drop) {
  std::vector<uint32_t> found;
  const GroupPlan::Output* whole = whole_result(g);
  if (!whole) return found;
  const auto undetached = [&](uint32_t n) {  // the same elements in the same places
    while (t.nodes[n].call.op == Op::detach) n = t.nodes[n].call.in[0];
    return n;
  };
  const auto dies = [&](uint32_t n) { return std::find(drop.begin(), drop.end(), n) != drop.end(); };
  for (size_t k = 0; k < g.operands.size(); ++k) {
    const GroupPlan::Use& u = g.operands[k];
    if (u.source != no_node || u.kept) continue;
    const uint32_t base = view_base(t, u.node);
    const Node& made = t.nodes[base];
    const RowKind kind = row(made.call.op).kind;
    if (made.call.op == Op::leaf || (made.call.mode & in_place) || kind == RowKind::alias || kind == RowKind::companion) continue;
    if (size_of(made.result.dtype) != size_of(t.nodes[whole->node].result.dtype) || !dies(base) || (u.node != base && !dies(u.node))) continue;
    const bool alone = std::all_of(g.operands.begin(), g.operands.end(), [&](const GroupPlan::Use& o) { return undetached(o.node) == undetached(u.node) || o.source != no_node || view_base(t, o.node) != base; });
    if (alone) found.push_back(uint32_t(k));
  }
  return found;
}
// Views between the two change neither the elements' order nor their number.
bool keeps_order(const Trace& t, uint32_t n, uint32_t base) {
  for (; n != base; n = t.nodes[n].call.in[0])
    if (t.nodes[n].call.op != Op::reshape && t.nodes[n].call.op != Op::detach) return false;
  return true;
}
// A convolution is moved down to the fused step that reads it first, past small steps that neither read it nor write in place (the scale of a norm,
// say): the two can then be a pair.
void bring_together(Plan& p, const Trace& t) {
  const auto nodes_of = [&](const PlanStep& s) { return s.fused ? p.groups[s.index].nodes.nodes : std::vector<uint32_t>{s.index}; };
  const auto reads = [&](const PlanStep& s, uint32_t made) {
    const auto of_made = [&](uint32_t n) { return n != scalar_operand && view_base(t, n) == made; };
    for (uint32_t n : nodes_of(s))
      for (int k = 0; k < t.input_count(n); ++k)
        if (of_made(t.input(n, k))) return true;
    return false;
  };
  const auto passes = [&](const PlanStep& s, uint32_t made) {
    const std::vector<uint32_t> nodes = nodes_of(s);
    return std::none_of(nodes.begin(), nodes.end(), [&](uint32_t n) {
      return (t.nodes[n].call.mode & in_place) || row(t.nodes[n].call.op).kind == RowKind::alias || t.numel(n) * 8 > t.numel(made);
    });
  };
  for (size_t s = 0; s + 2 < p.steps.size(); ++s) {
    if (p.steps[s].fused || !tells_rows(t, p.steps[s].index) || row(t.nodes[p.steps[s].index].call.op).kind == RowKind::product) continue;
    const uint32_t made = p.steps[s].index;
    size_t reader = s + 1;
    while (reader < p.steps.size() && !reads(p.steps[reader], made) && passes(p.steps[reader], made)) ++reader;
    if (reader == s + 1 || reader == p.steps.size() || !p.steps[reader].fused || !reads(p.steps[reader], made)) continue;
    std::rotate(p.steps.begin() + ptrdiff_t(s), p.steps.begin() + ptrdiff_t(s) + 1, p.steps.begin() + ptrdiff_t(reader));
  }
}
// Which fused steps run on the rows of the product or convolution before them, or of the product after them.
void pair_with_products(Plan& p, const Trace& t) {
  const auto is_product = [&](const PlanStep& s) { return !s.fused && row(t.nodes[s.index].call.op).kind == RowKind::product; };
  const std::vector<uint32_t> memory = memory_classes(t, &p.pure);
  // While the product runs, its operands are not to change, but for the rows that are made for it.
  const auto reads = [&](uint32_t product, uint32_t n) { return memory[n] == memory[t.nodes[product].call.in[0]] || memory[n] == memory[t.nodes[product].call.in[1]]; };
  const auto writes_operand = [&](const GroupPlan& g, uint32_t product, uint32_t made) {
    return std::any_of(g.outputs.begin(), g.outputs.end(), [&](const GroupPlan::Output& o) { return o.node != made && reads(product, o.node); });
  };
  for (size_t s = 0; s + 1 < p.steps.size(); ++s) {
    PlanStep& step = p.steps[s];
    const PlanStep& next = p.steps[s + 1];
    if (step.fused == next.fused || !(step.fused ? is_product(next) : tells_rows(t, step.index))) continue;
    const GroupPlan& g = p.groups[step.fused ? step.index : next.index].group;
    if (g.code.kind == GroupKind::columns) continue;
    if (next.fused) {
      if (writes_operand(g, step.index, no_node)) continue;
      for (const GroupPlan::Use& u : g.operands)
        step.then |= u.source == no_node && !u.kept && view_base(t, u.node) == step.index && keeps_order(t, u.node, step.index);
      if (step.then) std::erase_if(p.steps[s + 1].dying, [&](uint32_t k) { return reads(step.index, g.operands[k].node); });
      continue;
    }
    if (s > 0 && p.steps[s - 1].then) continue;
    const uint32_t left = t.nodes[next.index].call.in[0], made = view_base(t, left);
    if (!keeps_order(t, left, made) || memory[made] == memory[t.nodes[next.index].call.in[1]] || writes_operand(g, next.index, made)) continue;
    for (const GroupPlan::Output& o : g.outputs) step.before |= !o.kept && !o.in_place && o.node == made;
    // What dies here would be held until the product is done.
    const std::vector<uint32_t>& own = p.groups[step.index].nodes.nodes;
    for (uint32_t n : step.drop) {
      const bool inside = std::find(own.begin(), own.end(), n) != own.end();  // never stored, or not read
      step.before &= inside || t.numel(n) * 8 <= t.numel(made) || t.nodes[view_base(t, n)].call.op == Op::leaf;
    }
  }
}
}  // namespace

Plan::~Plan() {
  if (reads_packed) forget_packed_of(this);
}

// ---- building -----------------------------------------------------------------------------------------------------------
std::shared_ptr<Plan> build_plan(const Trace& recorded, const std::vector<bool>& needed, const std::vector<bool>& roots, bool assumes) {
  Graph graph(recorded, needed, roots, assumes);
  std::string passes = run_passes(graph);
  std::shared_ptr<Plan> p = plan_of(graph);
  p->passes = std::move(passes);
  if (p->rewrite.assumes()) p->needed = needed, p->recorded_roots = roots;
  return p;
}

std::shared_ptr<Plan> plan_of(const Graph& graph) {
  auto p = std::make_shared<Plan>();
  p->rewrite = graph.rewrite;
  const Trace& t = graph.trace();
  const std::vector<bool>&needed = graph.needed, &roots = graph.roots;
  p->pure = pure_writes(t);
  p->fast_math = t.fast_math;
  Fusion f = fuse(t, needed, roots, graph.order(), p->rewrite.checks, graph.home);
  p->why_not = std::move(f.why_not);
  // A lone op is a kernel of this kind where it has something of that: it computes a source, or goes over the rows of a product or a convolution.
  const auto follows_rows = [&](const Group& g) {
    if (g.kind != GroupKind::elements || (t.nodes[g.nodes[0]].call.mode & in_place)) return false;
    return std::any_of(g.inputs.begin(), g.inputs.end(), [&](uint32_t n) { return tells_rows(t, view_base(t, n)) && t.numel(n) == t.numel(g.nodes[0]); });
  };
  const auto is_fused = [&](const Group& g) {
    return g.nodes.size() > 1 || follows_rows(g) || std::any_of(g.inputs.begin(), g.inputs.end(), [&](uint32_t n) { return f.computed[view_base(t, n)]; });
  };
  std::vector<bool> read(t.nodes.size());  // as a tensor
  for (const Group& g : f.groups)
    if (is_fused(g))
      for (uint32_t n : g.inputs) read[n] = true;
    else
      for (int k = 0; k < t.input_count(g.nodes[0]); ++k)
        if (t.input(g.nodes[0], k) != scalar_operand) read[t.input(g.nodes[0], k)] = true;
  for (uint32_t n = uint32_t(t.nodes.size()); n-- > 0;)
    if (read[n] && row(t.nodes[n].call.op).kind == RowKind::view) read[t.nodes[n].call.in[0]] = true;
  std::vector<bool> root_view(t.nodes.size());
  for (uint32_t n = uint32_t(t.nodes.size()); n-- > 0;)
    if ((roots[n] || root_view[n]) && row(t.nodes[n].call.op).kind == RowKind::view) root_view[t.nodes[n].call.in[0]] = true;
  for (Group& g : f.groups) {
    const uint32_t n = g.nodes[0];
    p->ops += uint32_t(g.nodes.size());
    // A constant that only fused kernels read is a number of theirs.
    if (f.constant[n] && !read[n] && !roots[n] && !root_view[n]) continue;
    if (f.computed[n]) continue;
    PlanStep s;
    s.fused = is_fused(g);
    if (s.fused) {
      s.index = uint32_t(p->groups.size());
      PlanGroup pg;
      pg.group = plan_group(t, g, p->pure, f);
      pg.code = pg.group.code.bytes();
      pg.nodes = std::move(g);
      p->groups.push_back(std::move(pg));
    } else {
      s.index = n, s.pure = p->pure[n];
    }
    p->steps.push_back(std::move(s));
  }
  bring_together(*p, t);
  for (uint32_t n = 0; n < t.nodes.size(); ++n)
    if (roots[n] && t.nodes[n].call.op != Op::leaf) p->roots.push_back(n);
  // Last uses. A view keeps its base's storage by itself, so only direct reads count.
  std::vector<uint32_t> last(t.nodes.size(), 0);
  const auto use = [&](uint32_t n, uint32_t step, auto&& again) -> void {
    last[n] = std::max(last[n], step + 1);
    const RowKind k = row(t.nodes[n].call.op).kind;
    if (k == RowKind::view) again(t.nodes[n].call.in[0], step, again);
    if (k == RowKind::alias) again(t.nodes[n].call.in[0], step, again), again(t.nodes[n].call.in[1], step, again);
  };
  for (uint32_t s = 0; s < p->steps.size(); ++s) {
    const PlanStep& step = p->steps[s];
    if (step.fused) {
      for (uint32_t n : p->groups[step.index].nodes.inputs) use(n, s, use);
      for (uint32_t n : p->groups[step.index].nodes.nodes) {
        use(n, s, use);
        if (t.nodes[n].call.mode & in_place) use(t.nodes[n].call.in[0], s, use);
      }
    } else {
      use(step.index, s, use);
      for (int k = 0; k < t.input_count(step.index); ++k)
        if (const uint32_t in = t.input(step.index, k); in != scalar_operand) use(in, s, use);
    }
  }
  for (uint32_t n : p->roots) use(n, uint32_t(p->steps.size()), use);
  for (uint32_t n = 0; n < t.nodes.size(); ++n)
    if (last[n] && last[n] <= p->steps.size() && !roots[n]) p->steps[last[n] - 1].drop.push_back(n);
  for (PlanStep& s : p->steps)
    if (s.fused) s.dying = dying_operands(t, p->groups[s.index].group, s.drop);
  pair_with_products(*p, t);
  p->writes = count_writes(t, p->pure);
  std::vector<uint32_t> memory_of(t.nodes.size(), no_memory);
  for (const WriteCounts::Node& n : p->writes.nodes)
    if (!p->writes.memories[n.memory].pure) memory_of[n.node] = n.memory;
  for (PlanStep& s : p->steps) {
    const auto note = [&](uint32_t n) {
      if (t.nodes[n].call.mode & in_place && memory_of[n] != no_memory) s.wrote.push_back({n, memory_of[n]});
    };
    if (s.fused) std::for_each(p->groups[s.index].nodes.outputs.begin(), p->groups[s.index].nodes.outputs.end(), note);
    else note(s.index);
  }
  return p;
}

int reused_operand(const Plan& p, const Trace& t, const PlanStep& step) {
  if (step.dying.empty()) return -1;
  const GroupPlan& g = p.groups[step.index].group;
  const int64_t count = t.numel(whole_result(g)->node);
  if (count != t.numel(g.space)) return -1;
  for (uint32_t k : step.dying)
    if (const uint32_t n = g.operands[k].node; t.numel(n) == count && t.numel(view_base(t, n)) == count) return int(k);
  return -1;
}

bool is_long_row(const GroupPlan& g, int64_t instances, int64_t lanes) { return g.code.kind == GroupKind::row && instances < 8 && lanes > (1 << 17); }

namespace {
// " [64, 512]"
std::string extents_of(const Trace& t, uint32_t n) {
  std::string s;
  for (int64_t e : t.sizes(n)) s += (s.empty() ? " [" : ", ") + std::to_string(e);
  return s.empty() ? " []" : s + "]";
}
// "  at train.cpp:31, train.cpp:33": where the user called these, each line once.
std::string lines_of(const Trace& t, const std::vector<uint32_t>& nodes) {
  std::vector<std::string> lines;
  for (uint32_t n : nodes)
    if (std::string line = source_line(t.nodes[n].result.site); !line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
  std::string s;
  for (const std::string& line : lines) s += (s.empty() ? "  at " : ", ") + line;
  return s;
}
}  // namespace
std::string plan_text(const Plan& p, const Trace& t) {
  std::string s = p.passes;
  for (const PlanStep& step : p.steps) {
    if (!step.fused) {
      s += std::string("  ") + op_name(t.nodes[step.index].call.op) + extents_of(t, step.index) + (step.then ? ", and on its rows as they are finished" : "") + lines_of(t, {step.index}) + "\n";
      continue;
    }
    const PlanGroup& g = p.groups[step.index];
    const char* kind[] = {"single", "elements", "row", "columns"};
    s += std::string("  ") + kind[int(g.nodes.kind)] + " kernel of " + std::to_string(g.nodes.nodes.size()) + " ops:";
    for (uint32_t n : g.nodes.nodes) s += std::string(" ") + op_name(t.nodes[n].call.op);
    size_t computed = 0;
    for (const GroupPlan::Use& u : g.group.operands)
      if (u.source != no_node) s += std::string(computed++ ? ", " : ", computing ") + op_name(t.nodes[u.source].call.op) + extents_of(t, u.source);
    s += "  (" + std::to_string(g.group.operands.size() - computed) + " inputs, " + std::to_string(g.group.outputs.size()) + " outputs";
    for (size_t o = 0; o < g.group.outputs.size(); ++o) s += (o ? ", " : ":") + extents_of(t, g.group.outputs[o].node);
    s += std::string(")") + (step.before ? ", on the rows of the next as they are wanted" : "") + lines_of(t, g.nodes.nodes) + "\n";
  }
  return s;
}

}  // namespace frit::jit
