// Tiers: when a trace is run op by op, when its plan is compiled and where, and the caches of plans and kernels.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include "jit/group.h"
#include "jit/key.h"
#include "jit/plan.h"

namespace frit::jit {

// Kernels of fused groups, by code and layout.
std::shared_ptr<CpuKernel> cached_group_kernel(const std::string& code, const std::string& layout);
std::shared_ptr<CpuKernel> compile_group_kernel(const GroupCode& code, const GroupLayout& layout);

// Runs a task on the background thread (low priority).
void compile_in_background(std::function<void()> task);
void write_in_background(std::function<void()> task);  // after the compiles; done before the process ends
void wait_for_background();          // until nothing is queued or running
// A compile that failed leaves the op-by-op way in place; the first failure is logged.
void note_compile_failure(const std::exception& e);
std::vector<std::string> compile_failures();  // texts, the first 64 of the process
void retire_plan(const std::shared_ptr<Plan>& plan);  // its structure runs op by op from now on
std::vector<std::shared_ptr<Plan>> kept_plans();       // the latest used first
void forget_plans();                 // structures with their heat, and plans; those in use run on
void forget_kernels();               // of fused groups; likewise

struct TierSettings {
  int hot = 2;                       // times that a structure is seen before it is compiled
  CompileWhere where = CompileWhere::background;
  size_t plan_budget = 4096;         // plans kept; the least recently used leave
};
TierSettings& tier_settings();
bool fast_math();                    // of the process, FRIT_FAST_MATH at the start; a compile() may allow it for itself
void set_fast_math(bool on);         // what is pending is run before

// A kept plan, as its users hold it: until it is dropped from the cache.
struct PlanUse {
  struct Life {
    std::atomic<bool> dropped{false}, used{false};  // used: since eviction last looked
  };
  std::shared_ptr<Plan> plan;
  std::shared_ptr<Life> life;
  bool fresh = false;                // the key was met for the first time
  // The same once more, counted as a hit; nothing once it was dropped.
  PlanUse again() const;
};
// Counts an extent of an axis in the histogram; the same extent again costs one addition.
class AxisCount {
 public:
  explicit AxisCount(uint16_t name) : name_(name) {}
  void add(int64_t extent);

 private:
  uint16_t name_;
  int64_t extent_ = -1;
  std::atomic<int64_t>* count_ = nullptr;
};

// The plan for a trace with this key, or null when it is to run op by op (and was perhaps queued for compilation).
PlanUse plan_for(const Trace& t, const TraceKey& key, const std::vector<bool>& needed, const std::vector<bool>& roots, bool foreground);

// What was compiled again, and why, in the user's terms.
struct Recompile {
  std::string reason;                // axis "seq": 129 left bucket (64, 128]
  uint64_t plan = 0;
  const CallSite* site = nullptr;    // of the flush that asked for it
};
std::vector<Recompile> recompile_history();
struct FlushNote {
  const char* cause;                 // a literal
  uint32_t ops;
  int tier;
  const CallSite* site = nullptr;
};
std::vector<FlushNote> flush_history();
void note_flush(const char* cause, uint32_t ops, int tier);
std::map<std::string, std::map<int64_t, int64_t>> axis_histogram();  // name -> extent -> times seen

// Throws RecompileError (at a flush) when more compiles are asked for than a guard in scope allows.
void check_recompile_guard();
int64_t* set_recompile_guard(int64_t* allowed);  // of this thread; null: none. Returns the one before

// While it lives, on this thread, every plan that runs is described in *text.
class ExplainScope {
 public:
  explicit ExplainScope(std::string* text);
  ~ExplainScope();

 private:
  std::string* before_;
};
bool explains();                     // such a scope is open on this thread
void explain_run(const Plan& p, Trace& t, const TraceKey& key);

}  // namespace frit::jit
