// Tier 0: a trace's needed nodes in order, each by its op's kernel (or the interpreter, where no code can be generated).
// Views are aliases and cost no kernel; in-place nodes write their operand's storage. Start at execute(), then run_node().
#include "jit/execute.h"
#include <algorithm>
#include <atomic>
#include "jit/execute_parts.h"
#include "runtime/cpu.h"
#include "runtime/error.h"
#include "runtime/settings.h"
#include "runtime/stats.h"

namespace frit::jit {

using namespace tracer;

namespace {
std::atomic<bool> interpret_all{false};

const bool installed = [] {
  set_executor(&execute);
  if (!cpu_info().generates_code()) interpret_all = true;
  return true;
}();

// Which nodes must be computed: those that a live handle shows or that write in place, what a later backward reads, and
// what these need.
std::vector<bool> needed_nodes(const Trace& t) {
  const uint32_t count = uint32_t(t.nodes.size());
  std::vector<bool> needed(count), reached(count);
  for (uint32_t n = count; n-- > 0;) {
    const Node& node = t.nodes[n];
    if (t.owner[n] || (node.call.mode & in_place)) needed[n] = true;
    if (t.owner[n] && node.result.flags & wants_grad) reached[n] = true;
    const uint8_t saved = reached[n] ? row(node.call.op).saved : 0;
    if (saved & Out) needed[n] = true;
    for (int k = 0; k < t.input_count(n); ++k) {
      const uint32_t in = t.input(n, k);
      if (in == scalar_operand) continue;
      if (needed[n] || (k < 3 && saved & (In0 << k))) needed[in] = true;
      if (reached[n] && t.nodes[in].result.flags & wants_grad) reached[in] = true;
    }
  }
  return needed;
}

void run(Trace& t, uint32_t n) {
  Value* small[4];
  std::vector<Value*> many;
  const int count = t.input_count(n);
  Value** inputs = small;
  if (count > 4) many.resize(count), inputs = many.data();
  for (int k = 0; k < count; ++k) {
    const uint32_t in = t.input(n, k);
    inputs[k] = in == scalar_operand ? nullptr : t.value[in];
  }
  t.value[n] = run_node(t, n, inputs).leave();
  t.version[n] = t.value[n]->storage->version.load(std::memory_order_relaxed);
}
}  // namespace

void set_interpreter_only(bool on) { interpret_all = on || !cpu_info().generates_code(); }
bool interpreter_only() { return interpret_all; }

void execute(Trace& t, const char*) {
  const uint32_t count = uint32_t(t.nodes.size());
  frit::count(&Counters::flushes);
  frit::count(&Counters::tier0_flushes);
  uint32_t ops = 0;
  for (uint32_t n = 0; n < count; ++n) ops += t.nodes[n].call.op != Op::leaf;
  frit::count(&Counters::eager_ops, ops);
  if (ops == 1) {  // eager mode
    for (uint32_t n = 0; n < count; ++n)
      if (t.nodes[n].call.op != Op::leaf) run(t, n);
    return;
  }
  const std::vector<bool> needed = needed_nodes(t);
  for (uint32_t n = 0; n < count; ++n)
    if (needed[n] && t.nodes[n].call.op != Op::leaf) run(t, n);
}

ValueRef run_node(Trace& t, uint32_t n, Value* const* inputs) {
  const Node& node = t.nodes[n];
  const RowKind kind = row(node.call.op).kind;
  if (kind == RowKind::view) {
    ValueRef v = run_view(t, n, *inputs[0]);
    if (v) return v;
    return run_reshape_copy(t, n, *inputs[0]);
  }
  if (kind == RowKind::alias) return ValueRef::share(inputs[0]);
  const bool writes = node.call.mode & in_place;
  if (writes) inputs[0]->storage->version.fetch_add(1, std::memory_order_relaxed);
  if (interpret_all) {
    ValueRef v = interpret(t, n, inputs);
    if (!writes) return v;
    copy_interpreted(*v, *inputs[0]);
    return ValueRef::share(inputs[0]);
  }
  switch (kind) {
    case RowKind::pointwise: return run_pointwise(t, n, inputs);
    case RowKind::copy: return run_copy(t, n, *inputs[0]);
    case RowKind::source: return run_source(t, n);
    case RowKind::reduce: return run_reduce(t, n, *inputs[0]);
    case RowKind::product: return run_product(t, n, *inputs[0], *inputs[1]);
    case RowKind::cat: return run_cat(t, n, inputs);
    case RowKind::gather: return run_gather(t, n, *inputs[0], *inputs[1]);
    case RowKind::scatter: return run_scatter(t, n, *inputs[0], *inputs[1], *inputs[2]);
    case RowKind::unslice: return run_unslice(t, n, *inputs[0]);
    case RowKind::flip: return run_flip(t, n, *inputs[0]);
    default: return interpret(t, n, inputs);  // scans, sorts: plain loops, nothing to generate
  }
}

}  // namespace frit::jit
