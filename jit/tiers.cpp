// Plans and kernels: caches, heat and the background thread.
//
//   structure  a trace's key without buckets: its heat, and the plan once compiled
//   entry      a plan of one key: shares its structure's steps (they hold no extent), so a new bucket of a known structure
//              costs one entry; counted, bounded, least recently used out; a structure goes with its last entry
// Start at plan_for.
#include "jit/tiers.h"
#include <sys/resource.h>
#include <sys/syscall.h>
#include <pthread.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "jit/kernel_store.h"
#include "jit/lower.h"
#include "jit/plan_memory.h"
#include "jit/run_log.h"
#include "runtime/error.h"
#include "runtime/kernel_cache.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "runtime/source_line.h"
#include "runtime/stats.h"

namespace frit::jit {

using namespace tracer;

namespace {
KernelCache& group_kernels() {
  static KernelCache* c = new KernelCache(1 << 14);
  return *c;
}
struct StringHash {
  size_t operator()(const std::string& s) const { return XXH3_64bits(s.data(), s.size()); }
};

thread_local bool in_background = false;
void count_compile(std::chrono::steady_clock::time_point start) {
  const int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  count(&Counters::compile_ns, ns);
  if (!in_background) count(&Counters::waited_compile_ns, ns);
}

// ---- the background thread -------------------------------------------------------------------------------------------------
// Compiles, and what is written to disk. A forked child has no such thread: it starts one of its own.
struct Background {
  std::mutex lock, working;  // working: held while a task runs, so that nobody forks in the middle of one
  std::condition_variable wake, idle;
  std::deque<std::function<void()>> tasks, writes;
  bool running = false, stop = false, started = false;
  std::thread thread;

  void run() {
    in_background = true;
    // A compile beside a parallel loop must not slow it; but it must end, also where the program keeps every processor busy: it
    // gets about a tenth of one. (With the lowest priority of all a plan of 8 ms was not there after a second.)
    setpriority(PRIO_PROCESS, pid_t(syscall(SYS_gettid)), 10);
    std::unique_lock hold(lock);
    for (;;) {
      wake.wait(hold, [&] { return stop || !tasks.empty() || !writes.empty(); });
      std::deque<std::function<void()>>& from = tasks.empty() ? writes : tasks;
      if (from.empty()) return;  // stopped: what was made has been written
      auto task = std::move(from.front());
      from.pop_front();
      running = true;
      hold.unlock();
      {
        const std::lock_guard busy(working);
        try {
          task();
        } catch (const std::exception& e) {
          note_compile_failure(e);
        }
        task = nullptr;
      }
      hold.lock();
      running = false;
      if (tasks.empty()) idle.notify_all();
    }
  }
  void finish() {
    {
      const std::lock_guard hold(lock);
      stop = true;
      tasks.clear();
      wake.notify_all();
      idle.notify_all();
    }
    if (thread.joinable()) thread.join();
  }
  void add(std::deque<std::function<void()>>& to, std::function<void()> task) {
    const std::lock_guard hold(lock);
    if (stop) return;
    if (!started) started = true, thread = std::thread([this] { run(); });
    to.push_back(std::move(task));
    wake.notify_one();
  }
};
void before_fork();
void after_fork_in_parent();
void after_fork_in_child();
Background*& background_place() {
  static Background* b = nullptr;
  return b;
}
Background& background() {
  static const bool made = [] {
    background_place() = new Background;  // never destroyed; its thread is stopped at exit
    std::atexit([] { background_place()->finish(); });
    pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
    return true;
  }();
  (void)made;
  return *background_place();
}

// ---- plans -----------------------------------------------------------------------------------------------------------------
struct Structure {
  int heat = 0;
  enum class Stage : uint8_t { cold, compiling, compiled, failed } stage = Stage::cold;
  std::shared_ptr<Plan> plan;
  std::vector<std::vector<TraceKey::Axis>> keys;  // of its plans, for reasons
  size_t entries = 0;
  std::string bytes;
};
struct Entry {
  std::string key;
  std::shared_ptr<Structure> structure;
  std::shared_ptr<PlanUse::Life> life = std::make_shared<PlanUse::Life>();
};
struct State {
  std::mutex lock;
  std::condition_variable compiled;
  std::unordered_map<std::string, std::shared_ptr<Structure>, StringHash> structures;
  std::list<Entry> entries;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator, StringHash> plans;
  std::vector<Recompile> recompiles;
  std::deque<FlushNote> flushes;
  std::map<uint16_t, std::map<int64_t, std::atomic<int64_t>>> histogram;  // by axis name; entries stay where they are
};
State& state() {
  static State* s = new State;
  return *s;
}

// How the new key differs from the nearest one of the same structure.
std::string reason(const Structure& s, const std::vector<TraceKey::Axis>& now) {
  const std::vector<TraceKey::Axis>* nearest = nullptr;
  size_t best = SIZE_MAX;
  for (const auto& old : s.keys) {
    size_t differ = 0;
    for (size_t i = 0; i < now.size() && i < old.size(); ++i) differ += !(old[i].bucket == now[i].bucket);
    if (differ < best) best = differ, nearest = &old;
  }
  if (!nearest) return "first plan of its structure";
  std::string text;
  for (size_t i = 0; i < now.size(); ++i)
    if (!((*nearest)[i].bucket == now[i].bucket)) {
      const std::string name = now[i].name ? "axis \"" + axis_name(now[i].name) + "\"" : "size " + std::to_string(i);
      text += (text.empty() ? "" : ", ") + name + ": " + std::to_string(now[i].extent) + " left bucket " + bucket_text((*nearest)[i].bucket);
    }
  return text;
}

std::string plan_text_of(const Plan& p, const Trace& t) {
  const std::shared_ptr<Trace> copy = snapshot(t);
  const Rewritten as_planned(p.rewrite, *copy);
  return plan_text(p, *copy);
}
std::shared_ptr<Plan> compile_plan(const Trace& t, const std::vector<bool>& needed, const std::vector<bool>& roots) {
  const auto start = std::chrono::steady_clock::now();
  std::shared_ptr<Plan> p = build_plan(t, needed, roots);
  count_compile(start);
  log_compile("plan of " + std::to_string(p->ops) + " ops", start, 0, false);
  FRIT_LOG_LINE(fusion, "plan of " + std::to_string(p->ops) + " ops in " + std::to_string(p->steps.size()) + " steps\n" + plan_text_of(*p, t));
  return p;
}
}  // namespace

namespace {
std::atomic<bool>& fast_math_flag() {
  static std::atomic<bool> on{settings().fast_math};
  return on;
}
}  // namespace
bool fast_math() { return fast_math_flag().load(std::memory_order_relaxed); }
void set_fast_math(bool on) {
  recorder().flush("fast_math");
  fast_math_flag() = on;
}

TierSettings& tier_settings() {
  static TierSettings s = [] {
    TierSettings made;
    if (settings().compile == "foreground") made.where = CompileWhere::foreground;
    return made;
  }();
  return s;
}

namespace {
// Nobody forks in the middle of a compile or a look-up. The child starts a thread of its own, and forgets plans: some were being compiled.
void before_fork() { background_place()->working.lock(), background_place()->lock.lock(), state().lock.lock(); }
void after_fork_in_parent() { state().lock.unlock(), background_place()->lock.unlock(), background_place()->working.unlock(); }
void after_fork_in_child() {
  state().lock.unlock();
  background_place() = new Background;
  forget_plans();
}
}  // namespace

void compile_in_background(std::function<void()> task) {
  Background& b = background();
  b.add(b.tasks, std::move(task));
}
void write_in_background(std::function<void()> task) {
  Background& b = background();
  b.add(b.writes, std::move(task));
}
void wait_for_background() {
  Background& b = background();
  std::unique_lock hold(b.lock);
  b.idle.wait(hold, [&] { return b.stop || (b.tasks.empty() && !b.running); });
}

std::shared_ptr<CpuKernel> cached_group_kernel(const std::string& code, const std::string& layout) {
  return std::static_pointer_cast<CpuKernel>(group_kernels().find(code + layout));
}
std::shared_ptr<CpuKernel> compile_group_kernel(const GroupCode& code, const GroupLayout& layout) {
  return std::static_pointer_cast<CpuKernel>(group_kernels().find_or_create(code.bytes() + layout.bytes(), [&]() -> std::shared_ptr<void> {
    const auto start = std::chrono::steady_clock::now();
    bool loaded;
    std::shared_ptr<CpuKernel> k = load_or_compile('g', code.bytes() + layout.bytes(), [&] { return lower_group(code, layout); }, loaded);
    count_compile(start);
    if (!loaded) count(&Counters::kernels_compiled);
    count(&Counters::cache_bytes, k->code_bytes);
    log_compile("kernel " + k->name, start, k->code_bytes, loaded);
    FRIT_LOG_LINE(kernels, "kernel " + k->name + ", " + std::to_string(k->code_bytes) + " bytes");
    return k;
  }));
}

namespace {
struct FailedCompiles {
  std::mutex lock;
  std::vector<std::string> texts;
};
FailedCompiles& failed_compiles() {
  static FailedCompiles* f = new FailedCompiles;
  return *f;
}

// Under the lock. The stage says who compiles: everybody else waits, or goes on op by op.
void finish_compile(State& s, Structure& st, std::shared_ptr<Plan> plan) {
  st.plan = std::move(plan);
  st.stage = st.plan ? Structure::Stage::compiled : Structure::Stage::failed;
  s.compiled.notify_all();
}
std::shared_ptr<Plan> try_compile(const Trace& t, const std::vector<bool>& needed, const std::vector<bool>& roots) {
  try {
    return compile_plan(t, needed, roots);
  } catch (const std::exception& e) {
    note_compile_failure(e);
    return nullptr;
  }
}
std::shared_ptr<PlanUse::Life> add_entry(State& s, const std::shared_ptr<Structure>& st, std::string bytes, const TraceKey& key) {
  if (!st->keys.empty()) {
    count(&Counters::recompiles);
    Recompile r{reason(*st, key.axes), 0, call_site()};
    FRIT_LOG_LINE(recompiles, r.reason + called_at(r.site));
    if (s.recompiles.size() < 4096) s.recompiles.push_back(std::move(r));
  }
  if (st->keys.size() < 256) st->keys.push_back(key.axes);
  count(&Counters::plans_compiled);
  ++st->entries;
  s.entries.push_front(Entry{bytes, st});
  s.plans.emplace(std::move(bytes), s.entries.begin());
  while (s.entries.size() > std::max<size_t>(tier_settings().plan_budget, 1)) {
    const Entry& last = s.entries.back();
    if (last.life->used.exchange(false, std::memory_order_relaxed)) {  // by a repeated flush, which takes no lock
      s.entries.splice(s.entries.begin(), s.entries, std::prev(s.entries.end()));
      continue;
    }
    last.life->dropped = true;
    s.plans.erase(last.key);
    if (--last.structure->entries == 0)  // with its plan; it is hot again when it comes again
      if (const auto at = s.structures.find(last.structure->bytes); at != s.structures.end() && at->second == last.structure) s.structures.erase(at);
    s.entries.pop_back();
    count(&Counters::evicted);
  }
  // Structures are bounded too: cold ones are forgotten when there are far more of them than plans.
  if (s.structures.size() > 4 * tier_settings().plan_budget)
    std::erase_if(s.structures, [&](const auto& e) { return e.second->stage == Structure::Stage::cold && e.second->heat < tier_settings().hot; });
  return s.entries.front().life;
}
}  // namespace

void note_compile_failure(const std::exception& e) {
  FailedCompiles& f = failed_compiles();
  const std::lock_guard hold(f.lock);
  if (f.texts.empty()) FRIT_LOG_LINE(kernels, std::string("compile failed, the op-by-op way stays: ") + e.what());
  if (f.texts.size() < 64) f.texts.push_back(e.what());
}
std::vector<std::string> compile_failures() {
  FailedCompiles& f = failed_compiles();
  const std::lock_guard hold(f.lock);
  return f.texts;
}
void forget_plans() {
  State& s = state();
  const std::lock_guard hold(s.lock);
  for (const Entry& e : s.entries) e.life->dropped = true;
  s.plans.clear(), s.entries.clear(), s.structures.clear();
}
void retire_plan(const std::shared_ptr<Plan>& plan) {
  State& s = state();
  const std::lock_guard hold(s.lock);
  for (auto e = s.entries.begin(); e != s.entries.end();) {
    if (e->structure->plan != plan) {
      ++e;
      continue;
    }
    e->structure->stage = Structure::Stage::failed;
    e->life->dropped = true;
    s.plans.erase(e->key);
    e = s.entries.erase(e);
  }
}
std::vector<std::shared_ptr<Plan>> kept_plans() {
  State& s = state();
  const std::lock_guard hold(s.lock);
  std::vector<std::shared_ptr<Plan>> plans;
  for (const Entry& e : s.entries)
    if (std::find(plans.begin(), plans.end(), e.structure->plan) == plans.end()) plans.push_back(e.structure->plan);
  return plans;
}
void forget_kernels() { group_kernels().clear(); }

PlanUse plan_for(const Trace& t, const TraceKey& key, const std::vector<bool>& needed, const std::vector<bool>& roots, bool foreground) {
  using Stage = Structure::Stage;
  State& s = state();
  const bool here = foreground || tier_settings().where == CompileWhere::foreground;
  std::unique_lock hold(s.lock);
  for (const TraceKey::Axis& a : key.axes) ++s.histogram[a.name][a.extent];
  std::string bytes = key.bytes();
  const auto known = [&]() -> PlanUse {
    const auto at = s.plans.find(bytes);
    if (at == s.plans.end()) return {};
    s.entries.splice(s.entries.begin(), s.entries, at->second);
    count(&Counters::plan_hits);
    return {at->second->structure->plan, at->second->life, false};
  };
  if (PlanUse u = known(); u.plan) return u;
  std::shared_ptr<Structure>& place = s.structures[key.structure];
  if (!place) place = std::make_shared<Structure>(), place->bytes = key.structure;
  const std::shared_ptr<Structure> st = place;
  ++st->heat;
  if (st->stage == Stage::cold && !foreground && st->heat < tier_settings().hot) return {};
  if (st->stage == Stage::compiling && here) {
    s.compiled.wait(hold, [&] { return st->stage != Stage::compiling; });
    if (PlanUse u = known(); u.plan) return u;
  }
  if (st->stage == Stage::cold) {
    check_recompile_guard();
    st->stage = Stage::compiling;
    hold.unlock();
    if (!here) {
      compile_in_background([copy = snapshot(t), needed, roots, st] {
        std::shared_ptr<Plan> p = try_compile(*copy, needed, roots);
        State& s = state();
        const std::lock_guard hold(s.lock);
        finish_compile(s, *st, std::move(p));
      });
      return {};
    }
    std::shared_ptr<Plan> p = try_compile(t, needed, roots);
    hold.lock();
    finish_compile(s, *st, std::move(p));
  } else if (st->stage == Stage::compiled && !st->keys.empty()) {
    check_recompile_guard();
  }
  if (st->stage != Stage::compiled) return {};
  const std::shared_ptr<Plan> plan = st->plan;
  return {plan, add_entry(s, st, std::move(bytes), key), true};
}
PlanUse PlanUse::again() const {
  if (!plan || !life || life->dropped.load(std::memory_order_relaxed)) return {};
  if (!life->used.load(std::memory_order_relaxed)) life->used.store(true, std::memory_order_relaxed);
  count(&Counters::plan_hits);
  return *this;
}
void AxisCount::add(int64_t extent) {
  if (extent != extent_) {
    State& s = state();
    const std::lock_guard hold(s.lock);
    count_ = &s.histogram[name_][extent];
    extent_ = extent;
  }
  count_->fetch_add(1, std::memory_order_relaxed);
}


// ---- guards ----------------------------------------------------------------------------------------------------------------
namespace {
thread_local int64_t* allowed_compiles = nullptr;
}
int64_t* set_recompile_guard(int64_t* allowed) { return std::exchange(allowed_compiles, allowed); }
void check_recompile_guard() {
  if (!allowed_compiles) return;
  if (*allowed_compiles <= 0)
    throw RecompileError("a plan would be compiled inside a RecompileGuard that allows no more. Warm the shapes up outside, widen their buckets, or allow more.");
  --*allowed_compiles;
}

// ---- explain -----------------------------------------------------------------------------------------------------------------
namespace {
thread_local std::string* explaining = nullptr;
}
ExplainScope::ExplainScope(std::string* text) : before_(std::exchange(explaining, text)) {}
ExplainScope::~ExplainScope() { explaining = before_; }
bool explains() { return explaining; }
void explain_run(const Plan& p, Trace& t, const TraceKey& key) {
  if (!explaining) return;
  const Rewritten as_planned(p.rewrite, t);
  std::string& s = *explaining;
  uint32_t fused = 0;
  for (const PlanStep& step : p.steps) fused += step.fused;
  s += "plan: " + std::to_string(p.ops) + " ops in " + std::to_string(p.steps.size()) + " steps, " + std::to_string(fused) + " of them fused kernels\n" + plan_text(p, t) + memory_text(plan_memory(p, t), p, t);
  if (p.fast_math) s += "fast_math: results may differ from eager mode's in their last digits\n";
  if (!key.axes.empty()) {
    s += "buckets:";
    for (const TraceKey::Axis& a : key.axes) s += " " + (a.name ? axis_name(a.name) : "size") + " " + std::to_string(a.extent) + " in " + bucket_text(a.bucket) + ";";
    s += "\n";
  }
  if (!p.why_not.empty()) {
    s += "not fused:\n";
    std::vector<std::pair<std::string, int>> reasons;  // in the order in which they came up
    for (const std::string& w : p.why_not) {
      const auto at = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == w; });
      if (at == reasons.end()) reasons.emplace_back(w, 1);
      else ++at->second;
    }
    for (const auto& [reason, times] : reasons) s += "  " + reason + (times > 1 ? " (" + std::to_string(times) + " times)" : "") + "\n";
  }
}

std::vector<Recompile> recompile_history() {
  State& s = state();
  const std::lock_guard hold(s.lock);
  return s.recompiles;
}
std::vector<FlushNote> flush_history() {
  State& s = state();
  const std::lock_guard hold(s.lock);
  return {s.flushes.begin(), s.flushes.end()};
}
void note_flush(const char* cause, uint32_t ops, int tier) {
  State& s = state();
  const std::lock_guard hold(s.lock);
  if (s.flushes.size() >= 1024) s.flushes.pop_front();
  s.flushes.push_back({cause, ops, tier, call_site()});
}
std::map<std::string, std::map<int64_t, int64_t>> axis_histogram() {
  State& s = state();
  const std::lock_guard hold(s.lock);
  std::map<std::string, std::map<int64_t, int64_t>> h;
  for (const auto& [name, extents] : s.histogram)
    for (const auto& [extent, times] : extents) h[axis_name(name)][extent] = times;
  return h;
}

}  // namespace frit::jit
