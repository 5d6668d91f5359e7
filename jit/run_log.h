// What a run did, in order of time, for the record that FRIT_REPORT asks for: flushes with their extents, compiles, plans. Off, it costs one
// load a flush. Launches are kept beside it (history.h).
#pragma once
#include <atomic>
#include <chrono>
#include <string>
#include <vector>
#include "jit/key.h"
#include "jit/plan.h"
#include "runtime/source_line.h"

namespace frit::jit {

using LogClock = std::chrono::steady_clock;

struct LoggedFlush {
  const char* cause;
  uint32_t ops = 0;
  int tier = 0;
  bool new_plan = false;           // its key was met for the first time
  double start = 0, seconds = 0;   // start: since the log began
  uint32_t thread = 0;
  struct Axis { std::string name; int64_t extent, low, high; };
  std::vector<Axis> axes;
  uint64_t structure = 0;          // a hash of its structure
};
struct LoggedCompile {
  std::string what;                // "plan of 12 ops", a kernel's name
  double start = 0, seconds = 0;
  uint32_t thread = 0;
  int64_t bytes = 0;               // of code
  bool from_disk = false;
};
struct LoggedPlan {
  std::string text;                // as explain writes it
  struct Op { std::string name, shape; const CallSite* site; };
  struct Step {
    std::string kind;              // elements, row, columns; or op
    std::vector<Op> ops;
    std::vector<uint32_t> inputs, outputs;  // nodes; inputs past views
  };
  struct Source { uint32_t node; std::string shape; };
  std::vector<Step> steps;
  std::vector<Source> sources;     // what comes from outside
  std::vector<uint32_t> roots;
  struct Memory {                  // as predicted (plan_memory.h): bytes above what the plan reads
    int64_t peak = 0, kept = 0;
    std::vector<int64_t> during;   // by step
    struct Holder { Op op; int64_t bytes; };
    std::vector<Holder> holders;   // the largest eight at the peak
  } memory;
};
struct RunLog {
  LogClock::time_point began;
  std::vector<LoggedFlush> flushes;
  std::vector<LoggedCompile> compiles;
  std::vector<LoggedPlan> plans;
  int64_t flushes_left_out = 0, compiles_left_out = 0, plans_left_out = 0;
};
void start_run_log();              // anew
void stop_run_log();
RunLog run_log();                  // so far

namespace detail {
extern std::atomic<bool> logging;
}
inline bool run_logged() { return detail::logging.load(std::memory_order_relaxed); }

class FlushScope {                 // around a flush
 public:
  explicit FlushScope(const char* cause);
  ~FlushScope() { if (on_) [[unlikely]] end(); }
  FlushScope(const FlushScope&) = delete;
  bool on() const { return on_; }
  LoggedFlush note;
  double logging = 0;              // seconds in it that the log itself took: left out

 private:
  void end() noexcept;
  bool on_;
  LogClock::time_point start_;
};
std::vector<LoggedFlush::Axis> logged_axes(const std::vector<TraceKey::Axis>& axes);
void log_compile(const std::string& what, LogClock::time_point start, int64_t bytes, bool from_disk);
double log_plan(const Plan& p, Trace& t, const TraceKey& key);  // seconds that it took: source lines are looked up

}  // namespace frit::jit
