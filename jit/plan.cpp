// Building and running plans. Running a fused step: outputs are allocated, the operands' strides are laid over the group's
// iteration space, neighbouring axes are merged, and the kernel for that layout is launched; where there is none yet, the
// group's ops run one by one and the kernel is asked for. Start at run_plan.
#include "jit/plan.h"
#include <algorithm>
#include <chrono>
#include <climits>
#include "jit/eager_kernels.h"
#include "jit/execute_parts.h"
#include "jit/history.h"
#include "jit/tiers.h"
#include "runtime/error.h"
#include "runtime/source_line.h"
#include "runtime/stats.h"
#include "tracer/memory_log.h"
#include "tracer/numbers.h"

namespace frit::jit {

using namespace tracer;
using kernels::Slot;

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

// ---- building -----------------------------------------------------------------------------------------------------------
std::shared_ptr<Plan> build_plan(const Trace& recorded, const std::vector<bool>& needed_nodes, const std::vector<bool>& root_nodes, bool assumes) {
  auto p = std::make_shared<Plan>();
  Graph graph(recorded, needed_nodes, root_nodes, assumes);
  p->passes = run_passes(graph);
  p->rewrite = graph.rewrite;
  if (!p->rewrite.equal.empty()) p->needed = needed_nodes, p->recorded_roots = root_nodes;
  const Trace& t = graph.trace();
  const std::vector<bool>&needed = graph.needed, &roots = graph.roots;
  p->pure = pure_writes(t);
  p->fast_math = t.fast_math;
  Fusion f = fuse(t, needed, roots, graph.order(), p->rewrite.checks, graph.apart);
  p->why_not = std::move(f.why_not);
  const auto is_fused = [&](const Group& g) {
    return g.nodes.size() > 1 || std::any_of(g.inputs.begin(), g.inputs.end(), [&](uint32_t n) { return f.computed[view_base(t, n)]; });
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

// ---- running -------------------------------------------------------------------------------------------------------------
namespace {
constexpr int max_pointers = int(max_group_pointers), max_slots = max_pointers * (max_rank + 7) + 3 * int(max_group_nodes) + 2 * max_rank;

// The group's iteration space with every pointer's strides over it.
struct Placement {
  int rank = 0, pointers = 0;
  int64_t extent[max_rank];
  int64_t stride[max_pointers][max_rank];
  int64_t reduced = 1, reduced_stride[max_pointers];
  void move(int to, int from) {
    extent[to] = extent[from];
    for (int p = 0; p < pointers; ++p) stride[p][to] = stride[p][from];
  }
  bool merges(int outer, int inner) const {
    for (int p = 0; p < pointers; ++p)
      if (stride[p][outer] != stride[p][inner] * extent[inner]) return false;
    return true;
  }
};

// Which axis of the space each axis of a kept shape is, unit axes aside (-1).
void kept_axes(const Trace& t, const GroupPlan& g, uint32_t n, int* map) {
  const Result &s = t.nodes[g.space].result, &r = t.nodes[n].result;
  int j = 0;
  for (int k = 0; k < r.rank; ++k) map[k] = -1;
  for (int i = 0; i < s.rank; ++i) {
    if ((i >= g.first && i < g.last) || s.size[i] == 1) continue;
    while (j < r.rank && r.size[j] == 1) ++j;
    if (j < r.rank) map[j++] = i;
  }
}
void lay(const Trace& t, const GroupPlan& g, const Layout& v, uint32_t consumer, bool kept, int rank, int64_t* out) {
  std::fill_n(out, rank, 0);
  int map[max_rank];
  const int shape = t.nodes[consumer].result.rank;
  if (kept) kept_axes(t, g, consumer, map);
  for (int j = 0; j < v.rank; ++j) {
    const int axis = j + shape - v.rank;
    const int at = kept ? map[axis] : axis;
    if (at >= 0 && v.extent[j] != 1) out[at] = v.stride[j];
  }
}

// Drops unit axes, orders (elements only), merges. False when a reduced run does not merge.
bool simplify(Placement& s, GroupKind kind, int first, int last) {
  if (kind == GroupKind::elements) {
    int n = 0;
    for (int i = 0; i < s.rank; ++i)
      if (s.extent[i] != 1) s.move(n++, i);
    s.rank = n;
    for (int i = 1; i < s.rank; ++i)
      for (int j = i; j > 0 && std::abs(s.stride[0][j - 1]) < std::abs(s.stride[0][j]); --j) {
        std::swap(s.extent[j - 1], s.extent[j]);
        for (int p = 0; p < s.pointers; ++p) std::swap(s.stride[p][j - 1], s.stride[p][j]);
      }
    n = 0;
    for (int i = 1; i < s.rank; ++i) {
      if (s.merges(n, i)) {
        s.extent[n] *= s.extent[i];
        for (int p = 0; p < s.pointers; ++p) s.stride[p][n] = s.stride[p][i];
      } else if (++n != i) {
        s.move(n, i);
      }
    }
    if (s.rank) s.rank = n + 1;
    else s.rank = 1, s.extent[0] = 1, std::for_each_n(s.stride, s.pointers, [](auto& row_of) { row_of[0] = 1; });
    return true;
  }
  // The reduced run becomes one axis.
  s.reduced = 1;
  std::fill_n(s.reduced_stride, s.pointers, 0);
  for (int i = last; i-- > first;) {
    if (s.extent[i] == 1) continue;
    if (s.reduced == 1) {
      for (int p = 0; p < s.pointers; ++p) s.reduced_stride[p] = s.stride[p][i];
    } else {
      for (int p = 0; p < s.pointers; ++p)
        if (s.stride[p][i] != s.reduced_stride[p] * s.reduced) return false;
    }
    s.reduced *= s.extent[i];
  }
  // What remains, outermost first; for columns the last kept axis stays the block axis.
  const int block = kind == GroupKind::columns ? s.rank - 1 : -1;
  int n = 0;
  int64_t block_extent = 0, block_stride[max_pointers];
  if (block >= 0) {
    block_extent = s.extent[block];
    for (int p = 0; p < s.pointers; ++p) block_stride[p] = s.stride[p][block];
  }
  for (int i = 0; i < s.rank; ++i) {
    if ((i >= first && i < last) || i == block || s.extent[i] == 1) continue;
    s.move(n, i);
    if (n > 0 && s.merges(n - 1, n)) {
      s.extent[n - 1] *= s.extent[n];
      for (int p = 0; p < s.pointers; ++p) s.stride[p][n - 1] = s.stride[p][n];
    } else {
      ++n;
    }
  }
  s.extent[n] = block >= 0 ? block_extent : s.reduced;
  for (int p = 0; p < s.pointers; ++p) s.stride[p][n] = block >= 0 ? block_stride[p] : s.reduced_stride[p];
  s.rank = n + 1;
  return true;
}

Slot number_slot(const Trace& t, const GroupPlan::NumberSource& s) {
  const Call& call = t.nodes[s.node].call;
  uint64_t w = number_word(t.args[call.arg + s.slot], Category(s.category), s.type);
  if (is_half(s.type)) {  // a constant tensor of a half format holds rounded values
    const float f = word_value<float>(w);
    w = value_word<float>(s.type == Dtype::Float16 ? float(Half(f)) : float(BFloat16(f)));
  }
  const size_t bits = 8 * size_of(compute_dtype(s.type));
  return bits == 64 ? w : w & ((uint64_t(1) << bits) - 1);
}

// In place of a pointer: the first index and what the numbers are made from, which every call draws anew.
void push_source(const Trace& t, const GroupPlan::Use& u, const Layout& l, Slot* slot, int& count) {
  slot[count++] = Slot(l.offset);
  for (int k = 0; k < u.params; ++k) slot[count++] = t.args[t.nodes[u.source].call.arg + uint32_t(k)];
}

// Kernels for a layout. The first who asks compiles it or has it compiled; null: the group runs op by op.
std::shared_ptr<CpuKernel> try_compile(const PlanGroup& g, const GroupLayout& layout) {
  try {
    return compile_group_kernel(g.group.code, layout);
  } catch (const std::exception& e) {
    note_compile_failure(e);
    return nullptr;
  }
}
std::shared_ptr<CpuKernel> find_variant(const std::shared_ptr<Plan>& plan, PlanGroup& g, const GroupLayout& layout, CompileWhere where) {
  const std::string key = layout.bytes();
  const auto known = [&]() -> KernelVariant* {  // under the lock
    for (KernelVariant& v : g.variants)
      if (v.layout == key) return &v;
    return nullptr;
  };
  const auto fill = [&](std::shared_ptr<CpuKernel> k) {
    const std::lock_guard hold(plan->lock);
    KernelVariant* v = known();
    if (!v) g.variants.push_back({key, nullptr, false}), v = &g.variants.back();
    v->kernel = std::move(k);
    v->failed = !v->kernel;
  };
  {
    const std::lock_guard hold(plan->lock);
    if (const KernelVariant* v = known(); v && (v->kernel || v->failed || where == CompileWhere::background)) return v->kernel;
  }
  if (std::shared_ptr<CpuKernel> k = cached_group_kernel(g.code, key)) {
    fill(k);
    return k;
  }
  if (where == CompileWhere::foreground) {
    std::shared_ptr<CpuKernel> k = try_compile(g, layout);
    fill(k);
    return k;
  }
  {
    const std::lock_guard hold(plan->lock);
    if (const KernelVariant* v = known()) return v->kernel;
    g.variants.push_back({key, nullptr, false});
  }
  compile_in_background([plan, &g, layout, key] {
    std::shared_ptr<CpuKernel> k = try_compile(g, layout);
    const std::lock_guard hold(plan->lock);
    for (KernelVariant& v : g.variants)
      if (v.layout == key && !v.kernel) v.failed = !k, v.kernel = k;
  });
  return nullptr;
}

void run_one_by_one(const Plan& plan, Trace& t, const PlanGroup& g) {
  for (uint32_t n : g.nodes.nodes) run_single(t, n, plan.pure[n]);
}

uint64_t shape_hash(const Placement& s) {
  uint64_t h = uint64_t(s.rank) << 32 | uint64_t(s.pointers);
  const auto add = [&](int64_t v) { h = (h ^ uint64_t(v)) * 0x9e3779b97f4a7c15, h ^= h >> 29; };
  for (int i = 0; i < s.rank; ++i) {
    add(s.extent[i]);
    for (int p = 0; p < s.pointers; ++p) add(s.stride[p][i]);
  }
  add(s.reduced);
  return h;
}
// False: it is to run op by op.
bool run_group(const std::shared_ptr<Plan>& plan, Trace& t, PlanGroup& g, CompileWhere where, int& tier) {
  const GroupPlan& gp = g.group;
  Placement s;
  s.rank = t.rank_of(gp.space);
  t.sizes(gp.space, s.extent);
  bool empty = false;
  for (int i = 0; i < s.rank; ++i) empty |= s.extent[i] == 0;
  for (const GroupPlan::Use& u : gp.operands)
    if (u.source == no_node) make_value(t, u.node);
  std::vector<ValueRef> outputs;
  Slot slot[max_slots];
  int count = 0;
  for (const GroupPlan::Output& o : gp.outputs) {
    ValueRef v;
    if (o.in_place) {
      uint32_t target = t.nodes[o.node].call.in[0];
      while (!t.value[target] && (t.nodes[target].call.mode & in_place)) target = t.nodes[target].call.in[0];
      make_value(t, target);
      v = ValueRef::share(t.value[target]);
    } else {
      int64_t e[max_rank];
      t.sizes(o.node, e);
      Strides strides = predict_strides(t, o.node);
      const MakingScope making(t, o.node);
      v = ValueRef::take(new_value(t.nodes[o.node].result.dtype, e, t.rank_of(o.node)));
      std::copy_n(strides.stride, t.rank_of(o.node), v->stride);
    }
    lay(t, gp, layout_of(*v), o.node, o.kept, s.rank, s.stride[s.pointers++]);
    slot[count++] = Slot(v->data());
    outputs.push_back(std::move(v));
  }
  for (const GroupPlan::Use& u : gp.operands) {
    Layout l;
    if (u.source == no_node) l = layout_of(*t.value[u.node]), slot[count++] = Slot(t.value[u.node]->data());
    else if (source_layout(t, u.node, l)) push_source(t, u, l, slot, count);
    else throw InternalError("plan: a view of a source that is never stored has to copy it\n" + text(t));
    lay(t, gp, l, u.consumer, u.kept, s.rank, s.stride[s.pointers++]);
  }
  if (empty) return false;  // identities and nothing at all: op by op
  if (!simplify(s, gp.code.kind, gp.first, gp.last)) return false;
  for (const GroupPlan::NumberSource& n : gp.numbers) slot[count++] = number_slot(t, n);
  GroupLayout layout;
  const bool columns = gp.code.kind == GroupKind::columns;
  const int last = s.rank - 1;
  layout.outer = uint8_t(last);
  int64_t instances = 1;
  for (int i = 0; i < last; ++i) instances *= s.extent[i];
  // One long row: its own op shares it between threads.
  if (gp.code.kind == GroupKind::row && instances < 8 && s.extent[last] > (1 << 17)) return false;
  for (int p = 0; p < s.pointers; ++p) {
    const int64_t step = s.stride[p][last];
    layout.inner.push_back(step == 0 ? Step::none : step == 1 ? Step::one : Step::strided);
    if (columns) layout.reduced.push_back(s.reduced_stride[p] == 0 ? Step::none : Step::strided);
  }
  const std::shared_ptr<CpuKernel> kernel = find_variant(plan, g, layout, where);
  if (!kernel) return false;
  if (columns) slot[count++] = Slot(s.reduced);
  slot[count++] = Slot(s.extent[last]);
  if (last) slot[count++] = Slot(instances);
  for (int i = 1; i < last; ++i) slot[count++] = Slot(s.extent[i]);
  for (int p = 0; p < s.pointers; ++p) {
    for (int i = 0; i < last; ++i) slot[count++] = Slot(s.stride[p][i]);
    if (columns && layout.reduced[p] != Step::none) slot[count++] = Slot(s.reduced_stride[p]);
    if (layout.inner[p] == Step::strided) slot[count++] = Slot(s.stride[p][last]);
  }
  Tuner::Pick pick = g.tuner.pick(shape_hash(s), kernel, gp.code, layout);
  tier = pick.tier;
  if (pick.candidate < 0) {
    launch(*pick.kernel, slot, instances, s.extent[last], columns ? s.reduced : 1);
  } else {
    const auto start = std::chrono::steady_clock::now();
    launch(*pick.kernel, slot, instances, s.extent[last], columns ? s.reduced : 1);
    g.tuner.report(pick, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    Value*& place = t.value[gp.outputs[o].node];
    if (place) release(place);
    place = outputs[o].leave();
    UseScope::made(t, gp.outputs[o].node);
  }
  return true;
}
}  // namespace

namespace {
void run_step(const std::shared_ptr<Plan>& plan, Trace& t, const PlanStep& step, CompileWhere where) {
  if (step.fused) {
    PlanGroup& g = plan->groups[step.index];
    LaunchScope scope(t, g.nodes.nodes.data(), g.nodes.nodes.size());
    if (!run_group(plan, t, g, where, scope.tier)) scope.cancel(), run_one_by_one(*plan, t, g);
  } else {
    run_single(t, step.index, step.pure);
  }
}
// After a failure: does the step need what failed? Then it fails too.
bool spread(const Plan& plan, const PlanStep& step, Failures& failures) {
  if (!step.fused) {
    const bool reached = failures.reach_inputs(step.index);
    if (reached) failures.spread(step.index);
    return reached;
  }
  const std::vector<uint32_t>& nodes = plan.groups[step.index].nodes.nodes;
  const bool reached = std::any_of(nodes.begin(), nodes.end(), [&](uint32_t n) { return failures.reach_inputs(n); });
  if (reached)
    for (uint32_t n : nodes) failures.spread(n);
  return reached;
}
}  // namespace

std::shared_ptr<Plan> plan_that_holds(const std::shared_ptr<Plan>& plan, const Trace& t, CompileWhere where) {
  if (plan->rewrite.holds(t)) return plan;
  const auto build = [](Plan& p, const Trace& like) {
    std::shared_ptr<Plan> other;
    try {
      other = build_plan(like, p.needed, p.recorded_roots, false);
    } catch (const std::exception& e) {
      note_compile_failure(e);
    }
    const std::lock_guard hold(p.lock);
    p.otherwise = std::move(other);
  };
  {
    const std::lock_guard hold(plan->lock);
    if (plan->otherwise || plan->wants_other) return plan->otherwise;
    plan->wants_other = true;
  }
  if (where == CompileWhere::background) {
    compile_in_background([plan, copy = snapshot(t), build] { build(*plan, *copy); });
    return nullptr;
  }
  build(*plan, t);
  const std::lock_guard hold(plan->lock);
  return plan->otherwise;
}

void run_plan(const std::shared_ptr<Plan>& plan, Trace& t, CompileWhere where) {
  plan->runs.fetch_add(1, std::memory_order_relaxed);
  Rewritten as_planned(plan->rewrite, t);
  WriteCounts::Storages written(plan->writes.memories.size());
  Failures failures(t);
  for (const PlanStep& step : plan->steps) {
    if (failures.any() && spread(*plan, step, failures)) continue;
    try {
      run_step(plan, t, step, where);
    } catch (...) {
      const auto fail = [&](uint32_t n) {
        failures.add(n, (t.nodes[n].call.mode & in_place) && !plan->pure[n]);
        for (const auto& [check, after] : plan->rewrite.checks)
          if (check == n) failures.spread(after);
        if (t.value[n]) release(std::exchange(t.value[n], nullptr));
      };
      if (step.fused) std::for_each(plan->groups[step.index].nodes.nodes.begin(), plan->groups[step.index].nodes.nodes.end(), fail);
      else fail(step.index);
    }
    for (const PlanStep::Wrote& w : step.wrote)
      if (t.value[w.node]) written[w.memory] = t.value[w.node]->storage;
    for (uint32_t n : step.drop)
      if (t.value[n] && t.nodes[n].call.op != Op::leaf) release(std::exchange(t.value[n], nullptr));
  }
  for (uint32_t n : plan->roots)
    if (!failures.any() || !failures.reach(n)) make_value(t, n);
  as_planned.finish();
  plan->writes.finish(t, written);
  failures.rethrow();
}

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
      s += std::string("  ") + op_name(t.nodes[step.index].call.op) + extents_of(t, step.index) + lines_of(t, {step.index}) + "\n";
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
    s += ")" + lines_of(t, g.nodes.nodes) + "\n";
  }
  return s;
}

}  // namespace frit::jit
