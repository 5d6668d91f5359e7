// Tier 0: a trace's needed nodes in order, each by its op's kernel (or the interpreter, where no code can be generated).
// Views are aliases and cost no kernel; in-place nodes write their operand's storage. Start at execute(), then run_node().
#include "jit/execute.h"
#include <algorithm>
#include <atomic>
#include <optional>
#include "jit/attention.h"
#include "jit/execute_parts.h"
#include "jit/history.h"
#include "jit/repeat.h"
#include "jit/run_log.h"
#include "jit/verify.h"
#include "runtime/cpu.h"
#include "runtime/error.h"
#include "runtime/settings.h"
#include "runtime/stats.h"
#include "tracer/custom.h"
#include "tracer/memory_log.h"

namespace frit::jit {

using namespace tracer;

namespace {
std::atomic<bool> interpret_all{false};

const bool installed = [] {
  set_executor(&execute);
  set_name_text(&axis_name);
  at_load([] {
    set_eager_default(settings().mode == "eager");
    if (settings().seed) set_random_seed(uint64_t(settings().seed));
  });
  if (!cpu_info().generates_code()) interpret_all = true;
  return true;
}();

// What must be real afterwards (what a live handle shows, what a later backward reads), and what must be computed for it.
// Writes to memory that somebody else can see always are.
struct Work {
  std::vector<bool> roots, needed;
  explicit Work(const Trace& t) : roots(t.nodes.size()), needed(t.nodes.size()) {
    const uint32_t count = uint32_t(t.nodes.size());
    std::vector<bool> reached(count), pure;
    if (!t.written.empty()) pure = pure_writes(t);
    for (uint32_t n = count; n-- > 0;) {
      const Node& node = t.nodes[n];
      if (t.owner[n]) roots[n] = true;
      if (t.owner[n] && node.result.flags & wants_grad) reached[n] = true;
      if (node.call.mode & new_leaf) reached[n] = false;  // a gradient ends at a leaf that was written
      if (reached[n] && is_custom(t, n)) reach_custom(t, n, reached);
      const bool walked = n < t.walked.size() && t.walked[n];  // by a backward after which nothing is read again
      const uint8_t saved = reached[n] && !walked ? saved_of(t, n) : 0;
      if (saved & Out) roots[n] = true;
      if (roots[n] || ((node.call.mode & in_place) && !(pure.size() && pure[n]))) needed[n] = true;
      for (int k = 0; k < t.input_count(n); ++k) {
        const uint32_t in = t.input(n, k);
        if (in == scalar_operand) continue;
        if (saved & saved_input(k)) roots[in] = true;
        if (needed[n] || roots[in]) needed[in] = true;
        if (reached[n] && t.nodes[in].result.flags & wants_grad) reached[in] = true;
      }
    }
  }
};

}  // namespace

void make_value(Trace& t, uint32_t n) {
  if (t.value[n]) return;
  const Call& call = t.nodes[n].call;
  const RowKind kind = row(call.op).kind;
  if (kind != RowKind::view && kind != RowKind::alias && kind != RowKind::source)
    throw InternalError(std::string("plan: the value of ") + op_name(call.op) + " is read before it is made\n" + text(t));
  run_single(t, n);
}
void run_single(Trace& t, uint32_t n, bool pure) {
  Value* small[4];
  std::vector<Value*> many;
  const int count = t.input_count(n);
  Value** inputs = small;
  if (count > 4) many.resize(count), inputs = many.data();
  for (int k = 0; k < count; ++k) {
    const uint32_t in = t.input(n, k);
    if (in != scalar_operand) make_value(t, in);
    inputs[k] = in == scalar_operand ? nullptr : t.value[in];
  }
  if (t.value[n]) release(std::exchange(t.value[n], nullptr));
  // Versions of memory from outside were counted when the writes were recorded.
  const RowKind kind = kind_of(t.nodes[n].call.op);
  {
    LaunchScope scope(t, &n, 1);
    const MakingScope making(t, n);
    if (kind == RowKind::view || kind == RowKind::alias) scope.cancel();
    t.value[n] = run_node(t, n, inputs, pure).leave();
  }
  UseScope::made(t, n);
  const bool shares = kind == RowKind::view || kind == RowKind::alias || (t.nodes[n].call.mode & in_place);
  if (!shares || !t.outer_storage(n)) t.version[n] = t.value[n]->storage->version.load(std::memory_order_relaxed);
}

void set_interpreter_only(bool on) { interpret_all = on || !cpu_info().generates_code(); }
bool interpreter_only() { return interpret_all; }

namespace {
// By node, the values that nothing reads after it: the memory of a trace that waited is what an eager program would have held.
// (A value that is real already is not the trace's to drop; neither are roots. A view holds the memory it shows by itself, and so does what was
// written in place: an optimiser's step would else hold every intermediate of every update.)
class LastReads {
 public:
  LastReads(const Trace& t, const Work& work) : first_(t.nodes.size() + 1), after_(t.nodes.size(), ~0u) {
    for (uint32_t n = 0; n < t.nodes.size(); ++n) {
      if (!work.needed[n]) continue;
      if (t.nodes[n].call.op != Op::leaf) after_[n] = n;
      for (int k = 0; k < t.input_count(n); ++k)
        if (const uint32_t in = t.input(n, k); in != scalar_operand && after_[in] != ~0u) after_[in] = n;
    }
    for (uint32_t n = 0; n < t.nodes.size(); ++n)
      if (work.roots[n] || t.value[n]) after_[n] = ~0u;
    for (const uint32_t n : after_)
      if (n != ~0u) ++first_[n + 1];
    for (size_t n = 1; n < first_.size(); ++n) first_[n] += first_[n - 1];
    dropped_.resize(first_.back());
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    for (uint32_t n = 0; n < after_.size(); ++n)
      if (after_[n] != ~0u) dropped_[next[after_[n]]++] = n;
  }
  void drop(Trace& t, uint32_t n) const {
    for (uint32_t i = first_[n]; i < first_[n + 1]; ++i)
      if (Value*& v = t.value[dropped_[i]]) release(std::exchange(v, nullptr));
  }

 private:
  std::vector<uint32_t> first_, after_, dropped_;
};

// In recorded order. work: null for all of it.
void run_op_by_op(Trace& t, const Work* work) {
  const std::vector<bool>* needed = work ? &work->needed : nullptr;
  std::optional<LastReads> last;
  if (work) last.emplace(t, *work);
  Failures failures(t);
  WriteCounts counts;
  WriteCounts::Storages storages;
  std::vector<uint32_t> memory;  // by node
  std::vector<bool> pure;
  if (needed && !t.written.empty()) {
    pure = pure_writes(t);
    counts = count_writes(t, pure);
    storages.resize(counts.memories.size());
    memory.assign(t.nodes.size(), no_memory);
    for (const WriteCounts::Node& n : counts.nodes) memory[n.node] = n.memory;
  }
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    if (t.nodes[n].call.op == Op::leaf || (needed && !(*needed)[n]) || t.value[n]) continue;
    if (failures.any() && failures.reach_inputs(n)) {
      failures.spread(n);
      continue;
    }
    const bool writes = t.nodes[n].call.mode & in_place, apart = writes && !pure.empty() && pure[n];
    try {
      run_single(t, n, apart);
      if (writes && !memory.empty() && memory[n] != no_memory) storages[memory[n]] = t.value[n]->storage;
    } catch (...) {
      failures.add(n, writes && !apart);
    }
    if (last && !failures.any()) last->drop(t, n);
  }
  counts.finish(t, storages);
  failures.rethrow();
}
void run(const PlanUse& use, Trace& t, const Work* work, CompileWhere where) {
  const std::shared_ptr<Plan> plan = plan_that_holds(use.plan, t, where);
  if (!plan) {
    const Work& w = work ? *work : Work(t);
    return run_op_by_op(t, &w);
  }
  if (plan->fast_math || !verify_due()) return run_plan(plan, t, where);
  const Work& w = work ? *work : Work(t);
  run_verified(use, plan, t, w.needed, w.roots, where);
}
}  // namespace

void execute(Trace& t, const char* cause) {
  frit::count(&Counters::flushes);
  FlushScope scope(cause);
  const UseScope uses(t);
  const Recorder& r = recorder();
  t.fast_math = r.fast_math || fast_math();
  const CompileWhere where = r.foreground ? CompileWhere::foreground : tier_settings().where;
  RepeatedFlush* seen = r.eager || r.anomaly.on || explains() ? nullptr : repeated_flush(t);
  if (seen)
    if (const PlanUse use = seen->plan(t); use.plan) {
      note_flush(cause, seen->ops(), 1);
      if (scope.on()) scope.note.ops = seen->ops(), scope.note.tier = 1, scope.note.structure = seen->structure(), scope.note.axes = logged_axes(seen->axes(t));
      return run(use, t, nullptr, where);
    }
  uint32_t ops = 0;
  for (const Node& n : t.nodes) ops += n.call.op != Op::leaf;
  scope.note.ops = ops;
  if (r.eager || r.anomaly.on || (ops == 1 && !r.foreground) || interpret_all) {
    frit::count(&Counters::tier0_flushes);
    frit::count(&Counters::eager_ops, ops);
    if (r.eager || r.anomaly.on || (ops == 1 && t.owner.back())) return run_op_by_op(t, nullptr);  // an anomaly is looked for in every op's result
    const Work work(t);
    return run_op_by_op(t, &work);
  }
  const Work work(t);
  const TraceKey key = make_key(t, work.roots);
  PlanUse use;
  std::exception_ptr refused;  // a RecompileGuard allows no plan: the values are made all the same
  try {
    use = plan_for(t, key, work.needed, work.roots, r.foreground);
  } catch (const RecompileError&) {
    refused = std::current_exception();
  }
  note_flush(cause, ops, use.plan ? 1 : 0);
  if (scope.on()) {
    scope.note.tier = use.plan ? 1 : 0, scope.note.new_plan = use.fresh, scope.note.structure = hash_of(key.structure), scope.note.axes = logged_axes(key.axes);
    if (use.fresh) scope.logging = log_plan(*use.plan, t, key);
  }
  if (use.plan) {
    if (!seen) seen = remember_flush(t, key, ops);
    if (seen) seen->add(key, use);
    if (explains())
      if (const std::shared_ptr<Plan> plan = plan_that_holds(use.plan, t, where)) explain_run(*plan, t, key);
    return run(use, t, &work, where);
  }
  frit::count(&Counters::tier0_flushes);
  frit::count(&Counters::eager_ops, ops);
  run_op_by_op(t, &work);
  if (refused) std::rethrow_exception(refused);
}

ValueRef run_node(Trace& t, uint32_t n, Value* const* inputs, bool pure) {
  const Node& node = t.nodes[n];
  const RowKind kind = row(node.call.op).kind;
  if (kind == RowKind::view) {
    ValueRef v = run_view(t, n, *inputs[0]);
    if (v) return v;
    return run_reshape_copy(t, n, *inputs[0]);
  }
  if (kind == RowKind::alias) return ValueRef::share(inputs[0]);
  const bool writes = (node.call.mode & in_place) && !pure;
  if (writes && !t.outer_storage(n)) inputs[0]->storage->version.fetch_add(1, std::memory_order_relaxed);
  if (interpret_all) {
    ValueRef v = interpret(t, n, inputs);
    if (!writes) return v;
    copy_interpreted(*v, *inputs[0]);
    return ValueRef::share(inputs[0]);
  }
  switch (kind) {
    case RowKind::pointwise: return run_pointwise(t, n, inputs, writes);
    case RowKind::copy: return run_copy(t, n, *inputs[0]);
    case RowKind::source: return run_source(t, n);
    case RowKind::reduce: return run_reduce(t, n, *inputs[0]);
    case RowKind::product: return run_product(t, n, *inputs[0], *inputs[1]);
    case RowKind::convolution: return run_convolution(t, n, *inputs[0], *inputs[1]);
    case RowKind::pool: return run_pool(t, n, *inputs[0]);
    case RowKind::attention: return node.call.op == Op::attention ? run_attention(t, n, inputs) : run_attention_gradient(t, n, inputs);
    case RowKind::companion: return ValueRef::share(companion_of(*inputs[0], node.call.kind));
    case RowKind::cat: return run_cat(t, n, inputs);
    case RowKind::gather: return run_gather(t, n, *inputs[0], *inputs[1]);
    case RowKind::scatter: return run_scatter(t, n, *inputs[0], *inputs[1], *inputs[2], writes);
    case RowKind::unslice: return run_unslice(t, n, *inputs[0]);
    case RowKind::flip: return run_flip(t, n, *inputs[0]);
    default: return interpret(t, n, inputs);  // scans, sorts: plain loops, nothing to generate
  }
}

}  // namespace frit::jit
