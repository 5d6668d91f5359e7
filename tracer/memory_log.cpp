// The log of who holds memory, and its sums. Start at UseScope::begin, which tells from a trace what its memory serves, and at summarize.
#include "tracer/memory_log.h"
#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <unordered_map>
#include "runtime/buffer.h"
#include "runtime/source_line.h"
#include "tracer/custom.h"

namespace frit::tracer {

namespace detail {
std::atomic<bool> logging_memory{false};
}
namespace {
using Clock = std::chrono::steady_clock;
constexpr size_t most_events = 1 << 22;

struct State {
  std::mutex lock;
  int users = 0;
  MemoryLog log;
  std::unordered_map<const Storage*, uint32_t> live;
  Clock::time_point began;

  void event(uint32_t block, bool freed) {
    if (log.events.size() >= most_events) log.complete = false;
    else log.events.push_back({block, freed, std::chrono::duration<double>(Clock::now() - began).count()});
  }
  // Of a storage that the log has not seen being made.
  uint32_t found(const Storage* s) {
    const auto [at, fresh] = live.try_emplace(s, uint32_t(log.blocks.size()));
    if (fresh) {
      MemoryLog::Block b{.bytes = int64_t(s->bytes)};
      b.before = true, b.use = MemoryUse::other;
      log.blocks.push_back(b);
    }
    return at->second;
  }
};
State& state() {
  static State* s = new State;  // never destroyed: tensors may die after every static object
  return *s;
}
struct Maker {
  const Trace* trace = nullptr;
  uint32_t node = 0;
};
thread_local Maker maker;
thread_local UseScope* current_scope = nullptr;
// Gradients that were recorded and have no value yet.
struct Awaited {
  uint64_t instance;
  uint32_t node;
};
thread_local std::vector<Awaited> awaited;
}  // namespace

const char* memory_use_name(MemoryUse u) {
  static const char* const names[memory_uses] = {"others", "temporaries", "saved for backward", "gradients", "optimiser state", "parameters", "packed weights"};
  return names[size_t(u)];
}
int64_t MemorySums::total() const {
  int64_t n = 0;
  for (int64_t b : *this) n += b;
  return n;
}

size_t start_memory_log() {
  State& s = state();
  const std::lock_guard hold(s.lock);
  if (s.users++ == 0) {
    s.log = MemoryLog{};
    s.live.clear();
    s.log.before = memory_stats().current;
    s.began = Clock::now();
    detail::logging_memory = true;
  }
  return s.log.events.size();
}
MemoryLog stop_memory_log() {
  State& s = state();
  const std::lock_guard hold(s.lock);
  if (--s.users) return s.log;
  detail::logging_memory = false;
  s.live.clear();
  return std::exchange(s.log, MemoryLog{});
}
MemoryLog memory_log() {
  State& s = state();
  const std::lock_guard hold(s.lock);
  return s.log;
}

// ---- logging ------------------------------------------------------------------------------------------------------------
void detail::log_made(const Storage* storage, Dtype dtype, const int64_t* extents, int rank) noexcept {
  MemoryLog::Block b{.bytes = int64_t(storage->bytes), .shaped = true, .dtype = dtype, .rank = uint8_t(rank)};
  std::copy_n(extents, rank, b.extent);
  if (maker.trace) {
    const Node& n = maker.trace->nodes[maker.node];
    b.op = n.call.op, b.site = n.result.site;
  }
  State& s = state();
  const std::lock_guard hold(s.lock);
  if (!s.users || !s.log.complete) return;
  try {
    s.live[storage] = uint32_t(s.log.blocks.size());
    s.log.blocks.push_back(b);
    s.event(uint32_t(s.log.blocks.size() - 1), false);
  } catch (const std::bad_alloc&) {
    s.log.complete = false;
  }
}
void detail::log_gone(const Storage* storage) noexcept {
  if (storage->foreign) return;
  State& s = state();
  const std::lock_guard hold(s.lock);
  if (!s.users || !s.log.complete) return;
  try {
    s.event(s.found(storage), true);
    s.live.erase(storage);
  } catch (const std::bad_alloc&) {
    s.log.complete = false;
  }
}
void log_use(const Value& v, MemoryUse use) {
  if (v.storage->foreign) return;
  State& s = state();
  const std::lock_guard hold(s.lock);
  if (!s.users || !s.log.complete) return;
  MemoryLog::Block& b = s.log.blocks[s.found(v.storage)];
  b.use = std::max(b.use, use);
  if (!b.shaped) b.shaped = true, b.dtype = v.dtype, b.rank = v.rank, std::copy_n(v.extent, v.rank, b.extent);
}
void log_gradient(const Cell* grad) {
  if (!grad || !memory_logged()) return;
  if (!grad->deferred.load(std::memory_order_acquire)) {
    if (grad->value) log_use(*grad->value, MemoryUse::gradient);
  } else if (grad->home == &recorder()) {
    awaited.push_back({grad->trace->instance, grad->node});
  }
}

void MakingScope::begin(const Trace& t, uint32_t n) {
  on_ = true;
  trace_ = maker.trace, node_ = maker.node;
  maker = {&t, n};
}
void MakingScope::end() { maker = {trace_, node_}; }

void UseScope::begin(const Trace& t) {
  trace_ = &t;
  before_ = std::exchange(current_scope, this);
  const size_t count = t.nodes.size();
  use_.assign(count, MemoryUse::temporary);
  const auto raise = [&](uint32_t n, MemoryUse use) { use_[n] = std::max(use_[n], use); };
  const auto raise_cell = [&](const Cell* c, MemoryUse use) {
    if (c->deferred.load(std::memory_order_relaxed)) {
      if (c->trace == &t) raise(c->node, use);
    } else if (c->value) {
      log_use(*c->value, use);
    }
  };
  // What a backward reads: one that went through here already, or that a live handle still allows.
  std::vector<bool> reached(count);
  for (uint32_t n = uint32_t(count); n-- > 0;) {
    const Node& node = t.nodes[n];
    if (n < t.owner.size() && t.owner[n] && node.result.flags & wants_grad) reached[n] = true;
    if (node.call.mode & new_leaf) reached[n] = false;  // a gradient ends at a leaf that was written
    const bool read = reached[n] || (n < t.walked.size() && t.walked[n]);
    if (!read) continue;
    if (is_custom(t, n)) {
      reach_custom(t, n, reached);
      if (const CustomGradient* c = custom_at(t, gather_of(t, n)))
        for (const SavedTensor& s : c->saved)
          if (s.content.defined()) raise_cell(s.content.cell(), MemoryUse::saved);
    }
    const uint8_t saved = saved_of(t, n);
    if (saved & Out) raise(n, MemoryUse::saved);
    for (int k = 0; k < t.input_count(n); ++k) {
      const uint32_t in = t.input(n, k);
      if (in == scalar_operand) continue;
      if (saved & saved_input(k)) raise(in, MemoryUse::saved);
      if (reached[n] && t.nodes[in].result.flags & wants_grad) reached[in] = true;
    }
  }
  for (const Leaf& l : t.leaves) {
    if (!l.cell || t.nodes[l.node].call.op != Op::leaf) continue;
    if (t.value[l.node]) log_use(*t.value[l.node], MemoryUse::parameter);
    if (l.cell->grad) raise_cell(l.cell->grad, MemoryUse::gradient);
  }
  std::erase_if(awaited, [&](const Awaited& a) {
    if (a.instance == t.instance && a.node < count) raise(a.node, MemoryUse::gradient);
    return a.instance <= t.instance;
  });
  for (uint32_t n = uint32_t(count); n-- > 0;) {
    const RowKind kind = kind_of(t.nodes[n].call.op);
    if (kind == RowKind::view || kind == RowKind::alias) raise(t.nodes[n].call.in[0], use_[n]);
    if (t.value[n]) note(t, n);
  }
}
void UseScope::end() { current_scope = before_; }
void UseScope::note(const Trace& t, uint32_t n) {
  const UseScope* s = current_scope;
  if (!s || s->trace_ != &t || n >= s->use_.size() /* made by a pass */ || s->use_[n] == MemoryUse::temporary || !t.value[n]) return;
  log_use(*t.value[n], s->use_[n]);
}

// ---- sums ---------------------------------------------------------------------------------------------------------------
namespace {
struct Replay {
  const MemoryLog& log;
  std::vector<bool> live, older;  // older: there before the events that count
  MemorySums now{};
  int64_t unknown;                // bytes that were there before and that nothing is known of

  Replay(const MemoryLog& l, size_t first) : log(l), live(l.blocks.size()), older(l.blocks.size()), unknown(l.before) {
    for (size_t i = 0; i < log.blocks.size(); ++i)
      if (log.blocks[i].before) live[i] = true, unknown -= log.blocks[i].bytes;
    unknown = std::max<int64_t>(unknown, 0);
    for (size_t e = 0; e < first; ++e) live[log.events[e].block] = !log.events[e].freed;
    older = live;
    now[size_t(MemoryUse::other)] = unknown;
    for (size_t i = 0; i < live.size(); ++i)
      if (live[i]) now[size_t(use(i))] += log.blocks[i].bytes;
  }
  MemoryUse use(size_t block) const {
    const MemoryUse u = log.blocks[block].use;
    return u == MemoryUse::temporary && older[block] ? MemoryUse::other : u;
  }
  void step(size_t event) {
    const MemoryLog::Event& e = log.events[event];
    live[e.block] = !e.freed;
    now[size_t(use(e.block))] += e.freed ? -log.blocks[e.block].bytes : log.blocks[e.block].bytes;
  }
};
std::string what_of(const MemoryLog::Block& b) {
  std::string s = b.op == Op::leaf ? "" : std::string(op_name(b.op)) + " ";
  if (!b.shaped) return s + "of unknown shape";
  s += std::string(dtype_short_name(b.dtype)) + "[";
  for (int i = 0; i < b.rank; ++i) s += (i ? ", " : "") + std::to_string(b.extent[i]);
  return s + "]";
}
std::vector<MemoryHolder> holders_of(const Replay& r) {
  std::map<std::pair<MemoryUse, std::pair<std::string, const CallSite*>>, MemoryHolder> sums;
  for (size_t i = 0; i < r.live.size(); ++i) {
    const MemoryLog::Block& b = r.log.blocks[i];
    if (!r.live[i] || !b.bytes) continue;
    MemoryHolder& h = sums[{r.use(i), {what_of(b), b.site}}];
    h.use = r.use(i);
    h.bytes += b.bytes, ++h.blocks;
  }
  std::vector<MemoryHolder> list;
  for (auto& [key, h] : sums) {
    h.what = key.second.first, h.line = source_line(key.second.second);
    list.push_back(std::move(h));
  }
  if (r.unknown) list.push_back({MemoryUse::other, "made before, and not met since", "", r.unknown, 0});
  std::stable_sort(list.begin(), list.end(), [](const MemoryHolder& a, const MemoryHolder& b) { return a.bytes > b.bytes; });
  return list;
}
}  // namespace

MemorySummary summarize(const MemoryLog& log, size_t first, size_t points) {
  first = std::min(first, log.events.size());
  MemorySummary s;
  Replay r(log, first);
  s.highest = s.at_peak = r.now;
  size_t peak = first;  // events before it have happened
  const double start = first < log.events.size() ? log.events[first].time : 0, end = log.events.empty() ? 0 : log.events.back().time;
  s.peak_time = start;
  if (points) s.points.push_back({start, r.now});
  size_t stretch = 0;
  for (size_t e = first; e < log.events.size(); ++e) {
    const MemorySums before = r.now;
    const double last_time = e > first ? log.events[e - 1].time : start;
    r.step(e);
    for (size_t u = 0; u < memory_uses; ++u) s.highest[u] = std::max(s.highest[u], r.now[u]);
    const double time = log.events[e].time;
    if (r.now.total() > s.at_peak.total()) s.at_peak = r.now, s.peak_time = time, peak = e + 1;
    if (!points) continue;
    const size_t in = end > start ? size_t((time - start) / (end - start) * double(points)) : 0;
    if (in != stretch || s.points.size() == 1) {
      if (s.points.back().held != before) s.points.push_back({last_time, before});  // as the stretch ended
      stretch = in, s.points.push_back({time, r.now});
    } else if (r.now.total() > s.points.back().held.total()) s.points.back() = {time, r.now};
  }
  if (points) s.points.push_back({end, r.now});
  Replay at(log, first);
  for (size_t e = first; e < peak; ++e) at.step(e);
  s.holders = holders_of(at);
  return s;
}

}  // namespace frit::tracer
