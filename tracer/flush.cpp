// When a trace is run, and what becomes of it: a flush asks the executor for values, hands them to the cells that are still alive,
// and keeps the trace when a live handle's gradient can reach it. Start at Recorder::flush.
#include <algorithm>
#include <mutex>
#include "runtime/error.h"
#include "tracer/anomaly.h"
#include "tracer/custom.h"
#include "tracer/follow.h"
#include "tracer/freeze.h"
#include "tracer/gradient_detail.h"
#include "tracer/memory_report.h"
#include "tracer/trace.h"

namespace frit::tracer {

namespace {
std::atomic<uint64_t> next_order{1};
Executor executor = nullptr;
}  // namespace
void set_executor(Executor e) { executor = e; }
uint64_t next_flush_order() { return next_order.load(std::memory_order_relaxed); }

// ---- full traces ------------------------------------------------------------------------------------------------------
// Node and size ids are small, and a trace keeps its operands alive: what the user has let go of since would be free by now.
// (What it defers costs nothing yet.) A loop that reads nothing is cut between two of its turns, so that all its traces are alike.
namespace {
uint64_t held_alone(const Trace& t) {
  uint64_t bytes = 0;
  for (const Value* v : t.value)
    if (v && v->refs.load(std::memory_order_relaxed) == 1 && v->storage->refs.load(std::memory_order_relaxed) == 1) bytes += v->storage->bytes;
  return bytes;
}
// The ops as they repeat: what they are, and how far back their operands lie. Leaves do not count: some enter in the first turn only.
std::vector<uint64_t> op_pattern(const Trace& t) {
  std::vector<uint64_t> pattern;
  std::vector<uint32_t> place(t.nodes.size());
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    const Node& node = t.nodes[n];
    place[n] = uint32_t(pattern.size());
    if (node.call.op == Op::leaf) continue;
    uint64_t h = uint64_t(node.call.op) | uint64_t(node.call.kind) << 16 | uint64_t(node.call.mode) << 24 | uint64_t(node.result.rank) << 40;
    for (int k = 0; k < t.input_count(n); ++k)
      if (const uint32_t in = t.input(n, k); in != scalar_operand && t.nodes[in].call.op != Op::leaf)
        h = (h ^ (place[n] - place[in])) * 0x9e3779b97f4a7c15u;
    pattern.push_back(h);
  }
  return pattern;
}
size_t period_of(const std::vector<uint64_t>& pattern) {
  const size_t count = pattern.size();
  for (size_t p = 1; p <= 2048 && 3 * p <= count; ++p) {
    const size_t checked = std::min(std::max<size_t>(2 * p, 64), count - p);
    if (std::equal(pattern.end() - std::ptrdiff_t(checked), pattern.end(), pattern.end() - std::ptrdiff_t(checked + p))) return p;
  }
  return 1;
}
}  // namespace
bool Recorder::full_at_period() {
  Trace& t = *open;
  if (t.entered_bytes > t.entered_most) {
    if (held_alone(t) > uint64_t(512) << 20) return true;
    t.entered_most = t.entered_bytes + (uint64_t(1) << 30);
  }
  if (t.nodes.size() < 8192 && t.extent.size() < 32768) return false;
  if (t.nodes.size() >= 12288 || t.extent.size() >= 49152) return true;
  if (!t.period_end) {
    const std::vector<uint64_t> pattern = op_pattern(t);
    const size_t p = period_of(pattern);
    t.period_end = (pattern.size() + p - 1) / p * p;
  }
  const size_t ops = size_t(std::count_if(t.nodes.begin(), t.nodes.end(), [](const Node& n) { return n.call.op != Op::leaf; }));
  return ops >= t.period_end;
}

// ---- flush ------------------------------------------------------------------------------------------------------------
namespace {
// What a later backward can read: walks from the live handles that want a gradient; drops every other value.
void keep_saved(Trace& t, std::vector<bool>& reached) {
  std::vector<bool> saved(t.nodes.size());
  for (uint32_t n = uint32_t(t.nodes.size()); n-- > 0;) {
    if (!reached[n] || (t.nodes[n].call.mode & new_leaf)) continue;  // a gradient ends at a leaf that was written
    if (is_custom(t, n)) reach_custom(t, n, reached);
    const uint8_t what = n < t.walked.size() && t.walked[n] ? 0 : saved_of(t, n);
    for (int k = 0; k < t.input_count(n); ++k) {
      const uint32_t in = t.input(n, k);
      if (in == scalar_operand) continue;
      if (t.nodes[in].result.flags & wants_grad) reached[in] = true;
      if (what & saved_input(k)) saved[in] = true;
    }
    if (what & Out) saved[n] = true;
  }
  for (uint32_t n = 0; n < t.nodes.size(); ++n)
    if (t.value[n] && !saved[n]) release(std::exchange(t.value[n], nullptr));
}

// Another thread's trace is run here as a deferred one, whatever this thread's mode.
struct ForAnother {
  Recorder &mine = recorder();
  const bool eager = std::exchange(mine.eager, false), foreground = std::exchange(mine.foreground, false), fast_math = std::exchange(mine.fast_math, false);
  ~ForAnother() { mine.eager = eager, mine.foreground = foreground, mine.fast_math = fast_math; }
};
}  // namespace
void Recorder::flush(const char* cause) {
  if (this != &recorder()) {  // claimed
    const ForAnother another;
    return open->nodes.empty() ? void() : run_open(cause);
  }
  const Turn turn;
  if (!open->nodes.empty()) run_open(cause);
}
void Recorder::bury_orphans() {
  std::vector<Cell*> dead;
  {
    const std::lock_guard hold(orphans_lock);
    dead.swap(orphans);
  }
  for (Cell* c : dead) {
    if (c->deferred.load(std::memory_order_relaxed)) {
      if (Cell*& place = open->owner[c->node]; place == c) place = nullptr;
      c->trace = nullptr;
      c->deferred.store(false, std::memory_order_relaxed);
    }
    destroy(c);
  }
}
void Recorder::run_open(const char* cause) {
  bury_orphans();
  cut = false;
  Trace& t = *open;
  t.records = nullptr;
  if (follow) {
    if (eager) follow->stop();
    else if (replayed) follow->stop();
    else t.records = follow->end(t);
  }
  if (replayed) t.records = std::exchange(replayed, nullptr);
  std::exception_ptr failure;
  try {
    executor(t, cause);
  } catch (const OutOfMemoryError& e) {
    OutOfMemoryError told(e.msg() + memory_report(t));
    told.called_at(e.site());
    failure = std::make_exception_ptr(told);
  } catch (...) {  // what could be made is real; the rest is poisoned
    failure = std::current_exception();
  }
  if (anomaly.check_nan) find_first_nan(t, anomaly);
  t.settle();
  bool keep = false;
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    if (t.has_names && t.value[n] && t.nodes[n].call.op != Op::leaf)  // saved ones too: gradients carry the names on
      for (int i = 0; i < t.value[n]->rank; ++i)
        if (const uint16_t name = t.label_of(t.nodes[n].result.size[i]); t.value[n]->name[i] != name) t.value[n]->name[i] = name;
    Cell* c = t.owner[n];
    if (!c) continue;
    if (!t.value[n]) {
      c->trace = nullptr;
      t.owner[n] = nullptr;
      c->deferred.store(false, std::memory_order_release);
      continue;
    }
    c->value = t.value[n];
    retain(c->value);
    const Node& node = t.nodes[n];
    const bool past = (node.result.flags & wants_grad) && !(node.call.mode & new_leaf);
    if (!past) c->trace = nullptr;
    keep |= past;
    // Who sees this from another thread sees what is above. (Where the trace is kept, below.)
    if (!past) c->deferred.store(false, std::memory_order_release);
  }
  args_bound = 0, lists_bound = 0;
  if (!keep) {
    t.clear();
    if (failure) std::rethrow_exception(failure);
    return;
  }
  std::vector<bool> reached(t.nodes.size());
  for (uint32_t n = 0; n < t.nodes.size(); ++n)
    if (Cell* c = t.owner[n]; c && c->trace) reached[n] = true, retain(&t), c->deferred.store(false, std::memory_order_release);
  keep_saved(t, reached);
  for (Leaf& l : t.leaves) {  // where no gradient goes, nothing is kept alive
    if (reached[l.node]) continue;
    if (l.cell) release_cell(std::exchange(l.cell, nullptr));
    if (l.trace) frit::tracer::release(std::exchange(l.trace, nullptr));
  }
  t.owner.clear();
  t.order = next_order.fetch_add(1, std::memory_order_relaxed);
  open = new_trace();
  release(&t);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace frit::tracer
