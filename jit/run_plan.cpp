// Running plans. A fused step: outputs are allocated, the operands' strides are laid over the group's iteration space, neighbouring axes are
// merged, and the kernel for that layout is launched; where there is none yet, the group's ops run one by one and the kernel is asked for. A
// kernel that goes over the rows of a product or a convolution runs on each block of them as soon as it is finished. Start at run_plan.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include "jit/eager_kernels.h"
#include "jit/execute.h"
#include "jit/execute_parts.h"
#include "jit/history.h"
#include "jit/packed_weights.h"
#include "jit/plan.h"
#include "jit/tiers.h"
#include "runtime/error.h"
#include "runtime/stats.h"
#include "tracer/memory_log.h"
#include "tracer/numbers.h"

namespace frit::jit {

using namespace tracer;
using kernels::Slot;

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
// A fused step, ready to be launched.
struct GroupRun {
  PlanGroup& group;
  Placement space;
  std::vector<ValueRef> outputs;
  GroupLayout layout;
  std::shared_ptr<CpuKernel> kernel;
  int64_t instances = 1;
  int count = 0;
  Slot slot[max_slots];
  explicit GroupRun(PlanGroup& g) : group(g) {}
  bool columns() const { return group.group.code.kind == GroupKind::columns; }
  int64_t lanes() const { return space.extent[space.rank - 1]; }
};

// The memory of an operand that dies here, as the result's; null: it is still needed by somebody, or lies otherwise.
ValueRef take_over(const Plan& plan, const Trace& t, const PlanStep& step, const PlanGroup& g, const GroupPlan::Output& o, const Strides& strides) {
  const int k = reused_operand(plan, t, step);
  if (k < 0) return {};
  const Value& v = *t.value[g.group.operands[size_t(k)].node];
  const Storage& s = *v.storage;
  if (!v.contiguous() || !strides.contiguous || s.foreign || s.reachable.load(std::memory_order_relaxed) || s.pending.load(std::memory_order_relaxed) ||
      s.version.load(std::memory_order_relaxed) || s.bytes != size_t(v.numel()) * size_of(v.dtype))
    return {};
  uint32_t holders = 0;
  for (uint32_t n : step.drop)
    if (const Value* held = t.value[n]; held && held->storage == &s) {
      if (held->refs.load(std::memory_order_relaxed) != 1) return {};
      ++holders;
    }
  if (holders != s.refs.load(std::memory_order_relaxed)) return {};
  Value* out = new_alias(v, t.rank_of(o.node));
  out->dtype = t.nodes[o.node].result.dtype;
  t.sizes(o.node, out->extent);
  std::copy_n(strides.stride, out->rank, out->stride);
  return ValueRef::take(out);
}

// False: it is to run op by op.
bool prepare_group(const std::shared_ptr<Plan>& plan, Trace& t, const PlanStep& step, CompileWhere where, GroupRun& r) {
  PlanGroup& g = r.group;
  const GroupPlan& gp = g.group;
  Placement& s = r.space;
  Slot* const slot = r.slot;
  int& count = r.count;
  s.rank = t.rank_of(gp.space);
  t.sizes(gp.space, s.extent);
  bool empty = false;
  for (int i = 0; i < s.rank; ++i) empty |= s.extent[i] == 0;
  for (const GroupPlan::Use& u : gp.operands)
    if (u.source == no_node) make_value(t, u.node);
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
      if (!o.kept && !empty) v = take_over(*plan, t, step, g, o, strides);
      if (!v) {
        v = ValueRef::take(new_value(t.nodes[o.node].result.dtype, e, t.rank_of(o.node)));
        std::copy_n(strides.stride, t.rank_of(o.node), v->stride);
      }
    }
    lay(t, gp, layout_of(*v), o.node, o.kept, s.rank, s.stride[s.pointers++]);
    slot[count++] = Slot(v->data());
    r.outputs.push_back(std::move(v));
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
  const bool columns = r.columns();
  const int last = s.rank - 1;
  layout.outer = uint8_t(last);
  for (int i = 0; i < last; ++i) r.instances *= s.extent[i];
  if (is_long_row(gp, r.instances, s.extent[last])) return false;
  for (int p = 0; p < s.pointers; ++p) {
    const int64_t step_of = s.stride[p][last];
    layout.inner.push_back(step_of == 0 ? Step::none : step_of == 1 ? Step::one : Step::strided);
    if (columns) layout.reduced.push_back(s.reduced_stride[p] == 0 ? Step::none : Step::strided);
  }
  r.kernel = find_variant(plan, g, layout, where);
  if (!r.kernel) return false;
  if (columns) slot[count++] = Slot(s.reduced);
  slot[count++] = Slot(s.extent[last]);
  if (last) slot[count++] = Slot(r.instances);
  for (int i = 1; i < last; ++i) slot[count++] = Slot(s.extent[i]);
  for (int p = 0; p < s.pointers; ++p) {
    for (int i = 0; i < last; ++i) slot[count++] = Slot(s.stride[p][i]);
    if (columns && layout.reduced[p] != Step::none) slot[count++] = Slot(s.reduced_stride[p]);
    if (layout.inner[p] == Step::strided) slot[count++] = Slot(s.stride[p][last]);
  }
  r.layout = std::move(layout);
  return true;
}
void launch_group(GroupRun& r, int& tier) {
  const Tuner::Pick pick = r.group.tuner.pick(shape_hash(r.space), r.kernel, r.group.group.code, r.layout);
  tier = pick.tier;
  const int64_t cost = r.columns() ? r.space.reduced : 1;
  if (pick.candidate < 0) return launch(*pick.kernel, r.slot, r.instances, r.lanes(), cost);
  const auto start = std::chrono::steady_clock::now();
  launch(*pick.kernel, r.slot, r.instances, r.lanes(), cost);
  r.group.tuner.report(pick, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}
void keep_outputs(Trace& t, GroupRun& r) {
  for (size_t o = 0; o < r.outputs.size(); ++o) {
    const uint32_t n = r.group.group.outputs[o].node;
    if (t.value[n]) release(t.value[n]);
    t.value[n] = r.outputs[o].leave();
    UseScope::made(t, n);
  }
}

// A fused step on the blocks of a product or a convolution, as they are finished, or on the rows that a product reads. The matrix's elements are the step's, in the same order: as rows of n, and
// as instances of so many lanes.
class GroupOnRows : public Epilogue, public Prologue {
 public:
  GroupOnRows(const GroupRun& r, int64_t m, int64_t n) : kernel_(*r.kernel), slot_(r.slot), n_(n), lanes_(r.lanes()) {
    if (!(kernel_.lane_split && lanes_ % n == 0)) done_ = std::vector<std::atomic<int64_t>>(size_t(m));
  }
  void begin(int64_t row, int64_t rows) override { run(row, rows, 0, n_); }
  void run(int64_t row, int64_t rows, int64_t column, int64_t columns) override {
    if (!done_.empty()) return whole_rows(row, rows, columns);
    if (lanes_ == n_) return kernel_.run_near(slot_, row, row + rows, column, column + columns);
    if (columns == n_ && row * n_ / lanes_ == ((row + rows) * n_ - 1) / lanes_) return part(row, rows * n_, 0);
    for (int64_t r = row; r < row + rows; ++r) part(r, columns, column);
  }

 private:
  void part(int64_t row, int64_t count, int64_t column) const {
    const int64_t instance = row * n_ / lanes_, lane = row * n_ % lanes_ + column;
    kernel_.run_near(slot_, instance, instance + 1, lane, lane + count);
  }
  // Rows that all columns of are there now.
  void whole_rows(int64_t row, int64_t rows, int64_t columns) {
    const int64_t per_row = n_ / lanes_;
    int64_t begin = row;
    for (int64_t r = row; r < row + rows; ++r) {
      if (done_[size_t(r)].fetch_add(columns, std::memory_order_acq_rel) + columns == n_) continue;
      if (begin < r) kernel_.run_near(slot_, begin * per_row, r * per_row);
      begin = r + 1;
    }
    if (begin < row + rows) kernel_.run_near(slot_, begin * per_row, (row + rows) * per_row);
  }
  const CpuKernel& kernel_;
  const Slot* slot_;
  const int64_t n_, lanes_;
  std::vector<std::atomic<int64_t>> done_;  // by row: finished columns
};

// Does the step's kernel go over a matrix of n columns in its order, where this is one of its pointers?
bool goes_over_rows(const GroupRun& r, size_t pointer, int64_t numel, int64_t n) {
  const Placement& s = r.space;
  if (r.kernel->ordered || n == 0 || r.lanes() == 0 || (r.lanes() % n && n % r.lanes()) || (r.lanes() > n && !r.kernel->lane_split)) return false;
  int64_t dense = 1;
  for (int i = s.rank; i-- > 0; dense *= s.extent[i])
    if (s.extent[i] != 1 && s.stride[pointer][i] != dense) return false;
  return dense == numel;
}
// Of a product that it reads.
bool follows_rows(const Trace& t, const GroupRun& r, uint32_t product, int64_t n) {
  bool found = false;
  const std::vector<GroupPlan::Use>& operands = r.group.group.operands;
  for (size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].source != no_node || t.value[operands[k].node]->storage != t.value[product]->storage) continue;
    if (t.value[operands[k].node]->offset != t.value[product]->offset || !goes_over_rows(r, r.outputs.size() + k, t.value[product]->numel(), n)) return false;
    found = true;
  }
  return found;
}

// A weight: what outlives the run, as its leaves may.
std::shared_ptr<const PackedWeight> kept_right(Plan& plan, const Trace& t, uint32_t n, const Product& p, uint64_t run) {
  const uint32_t right = t.nodes[n].call.in[1];
  if (t.nodes[view_base(t, right)].call.op != Op::leaf) return nullptr;
  std::shared_ptr<const PackedWeight> kept = packed_weight(p, *t.value[right], &plan, run);
  if (kept) plan.reads_packed.store(true, std::memory_order_relaxed);
  return kept;
}
// A product or a convolution, ready to be run.
struct RowMaker {
  std::optional<PreparedProduct> product;
  std::optional<PreparedConvolution> convolution;
  RowMaker(Trace& t, uint32_t n) {
    Value &a = *t.value[t.nodes[n].call.in[0]], &b = *t.value[t.nodes[n].call.in[1]];
    const MakingScope making(t, n);
    if (row(t.nodes[n].call.op).kind == RowKind::product) product.emplace(t, n, a, b);
    else convolution.emplace(t, n, a, b);
  }
  ValueRef& out() { return product ? product->out : convolution->out; }
  int64_t rows() const { return product ? product->p.batch * product->p.m : convolution->rows; }
  int64_t columns() const { return product ? product->p.n : convolution->columns; }
  bool tells_blocks() const { return product ? product->p.m > 1 && product->p.n > 1 : convolution->tells_blocks(); }
};
// One of these, with what makes the rows of a product's left side, if that is not yet done, and the step after it, if there is one. False: that one is still to be run.
bool run_with_rows(const std::shared_ptr<Plan>& plan, Trace& t, GroupRun* made_by, const PlanStep& step, const PlanStep* next, CompileWhere where, uint64_t run) {
  const uint32_t n = step.index;
  for (int k = 0; k < 2; ++k) make_value(t, t.nodes[n].call.in[k]);
  RowMaker maker(t, n);
  if (t.value[n]) release(t.value[n]);
  t.value[n] = maker.out().leave();
  std::vector<uint32_t> nodes;  // empty: n alone
  std::optional<GroupOnRows> before, then;
  if (made_by) {
    before.emplace(*made_by, maker.rows(), maker.product->p.k);
    nodes = made_by->group.nodes.nodes;
    nodes.push_back(n);
  }
  std::optional<GroupRun> r;
  if (next) {
    r.emplace(plan->groups[next->index]);
    if (maker.tells_blocks()) try {
        if (prepare_group(plan, t, *next, where, *r) && follows_rows(t, *r, n, maker.columns())) then.emplace(*r, maker.rows(), maker.columns());
      } catch (const std::exception&) {  // it will fail again by itself
      }
    if (then) {
      if (nodes.empty()) nodes.push_back(n);
      nodes.insert(nodes.end(), r->group.nodes.nodes.begin(), r->group.nodes.nodes.end());
    } else {
      r->outputs.clear();
    }
  }
  const std::shared_ptr<const PackedWeight> kept = maker.product ? kept_right(*plan, t, n, maker.product->p, run) : nullptr;
  {
    LaunchScope scope(t, nodes.empty() ? &n : nodes.data(), std::max<size_t>(1, nodes.size()));
    scope.tier = before || then ? 1 : 0;
    GroupOnRows* const after = then ? &*then : nullptr;
    if (maker.product) maker.product->run(after, before ? &*before : nullptr, kept ? kept->data() : nullptr);
    else maker.convolution->run(after);
  }
  UseScope::made(t, n);
  t.version[n] = t.value[n]->storage->version.load(std::memory_order_relaxed);
  if (!then) return false;
  frit::count(&Counters::kernels_launched);
  keep_outputs(t, *r);
  return true;
}
// A fused step, and the product after it with what comes after that. How many steps were run: none, when the first is to be run by itself.
size_t run_before_product(const std::shared_ptr<Plan>& plan, Trace& t, size_t at, CompileWhere where, uint64_t run) {
  const PlanStep &step = plan->steps[at], &next = plan->steps[at + 1];
  const uint32_t left = t.nodes[next.index].call.in[0], base = view_base(t, left);
  GroupRun r(plan->groups[step.index]);
  if (!prepare_group(plan, t, step, where, r)) return 0;
  size_t pointer = 0;
  while (r.group.group.outputs[pointer].node != base) ++pointer;
  const Value& result = *r.outputs[pointer];
  if (!result.contiguous() || !goes_over_rows(r, pointer, result.numel(), t.sizes(left).back())) return 0;
  for (const GroupPlan::Use& u : r.group.group.operands)  // should the product fail, the kernel has to be able to run again
    for (const ValueRef& out : r.outputs)
      if (u.source == no_node && t.value[u.node]->storage == out->storage) return 0;
  keep_outputs(t, r);
  int tier = 1;
  try {
    make_value(t, left);
    const Value& a = *t.value[left];
    const int64_t columns = t.sizes(next.index).back();
    if (a.contiguous() && columns > 0 && a.numel() == t.numel(next.index) / columns * a.extent[a.rank - 1]) {
      frit::count(&Counters::kernels_launched);
      const bool third = next.then && at + 2 < plan->steps.size();
      return run_with_rows(plan, t, &r, next, third ? &plan->steps[at + 2] : nullptr, where, run) ? 3 : 2;
    }
  } catch (const std::exception&) {  // the product will fail again by itself
  }
  launch_group(r, tier);
  return 1;
}
}  // namespace

namespace {
void run_step(const std::shared_ptr<Plan>& plan, Trace& t, const PlanStep& step, CompileWhere where, uint64_t run) {
  if (step.fused) {
    PlanGroup& g = plan->groups[step.index];
    GroupRun r(g);
    LaunchScope scope(t, g.nodes.nodes.data(), g.nodes.nodes.size());
    if (prepare_group(plan, t, step, where, r)) {
      launch_group(r, scope.tier);
      keep_outputs(t, r);
    } else {
      r.outputs.clear();
      scope.cancel(), run_one_by_one(*plan, t, g);
    }
  } else if (row(t.nodes[step.index].call.op).kind == RowKind::product && !interpreter_only()) {
    run_with_rows(plan, t, nullptr, step, nullptr, where, run);
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
  const uint64_t number = plan->runs.fetch_add(1, std::memory_order_relaxed);
  Rewritten as_planned(plan->rewrite, t);
  WriteCounts::Storages written(plan->writes.memories.size());
  Failures failures(t);
  const auto finished = [&](const PlanStep& step) {
    for (const PlanStep::Wrote& w : step.wrote)
      if (t.value[w.node]) written[w.memory] = t.value[w.node]->storage;
    for (uint32_t n : step.drop)
      if (t.value[n] && t.nodes[n].call.op != Op::leaf) release(std::exchange(t.value[n], nullptr));
  };
  for (size_t i = 0; i < plan->steps.size(); ++i) {
    const PlanStep& step = plan->steps[i];
    if (failures.any() && spread(*plan, step, failures)) continue;
    try {
      const size_t together = step.before && !failures.any() ? run_before_product(plan, t, i, where, number) : 0;
      if (together) {
        for (size_t k = 0; k < together; ++k) finished(plan->steps[i + k]);
        i += together - 1;
        continue;
      }
      if (!step.then || failures.any()) {
        run_step(plan, t, step, where, number);
      } else if (run_with_rows(plan, t, nullptr, step, &plan->steps[i + 1], where, number)) {
        finished(step);
        finished(plan->steps[++i]);
        continue;
      }
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
    finished(step);
  }
  for (uint32_t n : plan->roots)
    if (!failures.any() || !failures.reach(n)) make_value(t, n);
  as_planned.finish();
  plan->writes.finish(t, written);
  failures.rethrow();
}

}  // namespace frit::jit
