// The log of a run: three bounded lists under one lock. Start at FlushScope::end; log_plan draws a plan's steps and what flows between them.
#include "jit/run_log.h"
#include <algorithm>
#include <map>
#include <mutex>
#include "jit/history.h"
#include "jit/plan_memory.h"
#include "jit/tiers.h"
#include "tracer/call_form.h"

namespace frit::jit {

using namespace tracer;

namespace detail {
std::atomic<bool> logging{false};
}
namespace {
constexpr size_t most_flushes = 1 << 17, most_compiles = 1 << 14, most_plans = 256;
struct State {
  std::mutex lock;
  RunLog log;
};
State& state() {
  static State* s = new State;  // never destroyed
  return *s;
}
double since(LogClock::time_point from, LogClock::time_point to) { return std::chrono::duration<double>(to - from).count(); }
template <class T> void add(std::vector<T>& list, T entry, size_t most, int64_t& left_out) {
  if (list.size() < most) list.push_back(std::move(entry));
  else ++left_out;
}
std::string shape_of(const Trace& t, uint32_t n) {
  std::string s = dtype_short_name(t.nodes[n].result.dtype);
  s += "[";
  for (int i = 0; i < t.rank_of(n); ++i) s += (i ? ", " : "") + std::to_string(t.extent[t.nodes[n].result.size[i]]);
  return s + "]";
}
// The node whose memory a view shows.
uint32_t past_views(const Trace& t, uint32_t n) {
  while (kind_of(t.nodes[n].call.op) == RowKind::view || kind_of(t.nodes[n].call.op) == RowKind::alias) n = t.nodes[n].call.in[0];
  return n;
}
}  // namespace

void start_run_log() {
  State& s = state();
  const std::lock_guard hold(s.lock);
  s.log = RunLog{};
  s.log.began = LogClock::now();
  detail::logging = true;
}
void stop_run_log() { detail::logging = false; }
RunLog run_log() {
  State& s = state();
  const std::lock_guard hold(s.lock);
  return s.log;
}

FlushScope::FlushScope(const char* cause) : on_(run_logged()) {
  note.cause = cause;
  if (on_) [[unlikely]] start_ = LogClock::now();
}
void FlushScope::end() noexcept {
  note.seconds = since(start_, LogClock::now()) - logging;
  note.thread = thread_number();
  State& s = state();
  const std::lock_guard hold(s.lock);
  note.start = since(s.log.began, start_);
  add(s.log.flushes, std::move(note), most_flushes, s.log.flushes_left_out);
}
std::vector<LoggedFlush::Axis> logged_axes(const std::vector<TraceKey::Axis>& axes) {
  std::vector<LoggedFlush::Axis> list;
  for (const TraceKey::Axis& a : axes) list.push_back({axis_name(a.name), a.extent, a.bucket.low, a.bucket.high});
  return list;
}
void log_compile(const std::string& what, LogClock::time_point start, int64_t bytes, bool from_disk) {
  if (!run_logged()) return;
  LoggedCompile c{what, 0, since(start, LogClock::now()), thread_number(), bytes, from_disk};
  State& s = state();
  const std::lock_guard hold(s.lock);
  c.start = since(s.log.began, start);
  add(s.log.compiles, std::move(c), most_compiles, s.log.compiles_left_out);
}

double log_plan(const Plan& p, Trace& t, const TraceKey& key) {
  if (!run_logged()) return 0;
  const LogClock::time_point start = LogClock::now();
  LoggedPlan plan;
  {
    ExplainScope scope(&plan.text);
    explain_run(p, t, key);
  }
  const Rewritten as_planned(p.rewrite, t);
  std::vector<bool> source(t.nodes.size());
  const auto read = [&](LoggedPlan::Step& step, uint32_t n) {
    n = past_views(t, n);
    if (std::find(step.inputs.begin(), step.inputs.end(), n) != step.inputs.end()) return;
    step.inputs.push_back(n);
    if (t.nodes[n].call.op == Op::leaf && !source[n]) source[n] = true, plan.sources.push_back({n, shape_of(t, n)});
  };
  const char* const kinds[] = {"single", "elements", "row", "columns"};
  for (const PlanStep& from : p.steps) {
    LoggedPlan::Step step;
    const auto add_op = [&](uint32_t n) { step.ops.push_back({op_name(t.nodes[n].call.op), shape_of(t, n), t.nodes[n].result.site}); };
    if (from.fused) {
      const PlanGroup& g = p.groups[from.index];
      step.kind = kinds[int(g.nodes.kind)];
      for (uint32_t n : g.nodes.nodes) add_op(n);
      for (const auto& use : g.group.operands)
        if (use.source == no_node) read(step, use.node);
      for (const auto& o : g.group.outputs) step.outputs.push_back(o.node);
    } else {
      step.kind = "op";
      add_op(from.index);
      for (int k = 0; k < t.input_count(from.index); ++k)
        if (const uint32_t in = t.input(from.index, k); in != scalar_operand) read(step, in);
      step.outputs.push_back(from.index);
    }
    plan.steps.push_back(std::move(step));
  }
  for (uint32_t n : p.roots) plan.roots.push_back(past_views(t, n));
  PlanMemory memory = plan_memory(p, t);
  plan.memory = {memory.peak, memory.kept, std::move(memory.during), {}};
  for (size_t i = 0; i < memory.holders.size() && i < 8; ++i) {
    const uint32_t n = memory.holders[i].node;
    plan.memory.holders.push_back({{op_name(t.nodes[n].call.op), shape_of(t, n), t.nodes[n].result.site}, memory.holders[i].bytes});
  }
  State& s = state();
  const std::lock_guard hold(s.lock);
  add(s.log.plans, std::move(plan), most_plans, s.log.plans_left_out);
  return since(start, LogClock::now());
}

}  // namespace frit::jit
