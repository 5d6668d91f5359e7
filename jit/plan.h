// A plan: what a trace's structure compiles to. Steps in order, each a fused group or one op; it speaks of node numbers, so it
// runs every trace with that structure, whatever its extents. Kernels are looked up by code and layout when it runs.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "jit/group.h"
#include "jit/passes/passes.h"
#include "jit/tune.h"
#include "jit/x86/compile.h"

namespace frit::jit {

struct KernelVariant {
  std::string layout;
  std::shared_ptr<CpuKernel> kernel;  // null: being compiled, or failed
  bool failed = false;
};
struct PlanGroup {
  GroupPlan group;
  Group nodes;
  std::string code;                   // group.code.bytes()
  std::vector<KernelVariant> variants;
  Tuner tuner;                        // tier 2
};
struct PlanStep {
  bool fused = false, pure = false;   // pure: a write in place that makes a new value
  bool before = false;                // a fused step whose result's rows the next one, a product, reads: it runs on each block of them before that
  bool then = false;                  // a product or convolution whose rows the next step, a fused one, goes over: it runs on each block of them
  uint32_t index = 0;                 // of a group, or the node
  std::vector<uint32_t> drop;         // nodes whose values are not needed any more
  std::vector<uint32_t> dying;        // operands whose memory the result may take over, as far as extents allow
  struct Wrote { uint32_t node, memory; };
  std::vector<Wrote> wrote;           // which storage a memory of WriteCounts is becomes known here
};
// How often memory made in the trace was written, as if every write of the program had happened by itself and in its order.
// (Writes to memory from outside are counted when they are recorded.)
struct WriteCounts {
  struct Memory { uint32_t count; bool pure; };
  struct Node { uint32_t node, memory, before; };              // before: writes before the node's value was made
  std::vector<Memory> memories;
  std::vector<Node> nodes;
  using Storages = std::vector<const tracer::Storage*>;        // by memory, as soon as a write has run
  void finish(Trace& t, const Storages& storages) const;
};
WriteCounts count_writes(const Trace& t, const std::vector<bool>& pure);

// What failed in a flush. What depends on it is not run, the rest is; then the first error is thrown.
class Failures {
 public:
  explicit Failures(const Trace& t) : trace_(t) {}
  bool any() const { return bool(first_); }
  void add(uint32_t node, bool writes);        // in a handler: the current exception is kept
  void spread(uint32_t node) { failed_[node] = true; }
  bool reach(uint32_t node) const;             // the node's value, or memory that it lies in
  bool reach_inputs(uint32_t node) const;
  void rethrow() const { if (first_) std::rethrow_exception(first_); }

 private:
  const Trace& trace_;
  std::exception_ptr first_;
  std::vector<bool> failed_;                   // by node
  std::vector<uint32_t> memory_;               // by node
  std::vector<uint32_t> lost_;                 // memories that were to be written
};

struct Plan {
  std::vector<PlanStep> steps;
  std::vector<PlanGroup> groups;
  std::vector<uint32_t> roots;
  Rewrite rewrite;                    // what the passes did: steps speak of the rewritten trace
  std::vector<bool> needed, recorded_roots;  // of the trace, where the rewrite takes extents to be equal
  std::shared_ptr<Plan> otherwise;    // for traces where they are not; null until it is compiled
  bool wants_other = false;           // somebody had it compiled
  std::string passes;                 // a line for each that did something
  std::vector<std::string> why_not;
  WriteCounts writes;
  std::vector<bool> pure;             // pure_writes of the trace
  bool fast_math = false;
  uint32_t ops = 0;                   // recorded ops that it stands for
  std::mutex lock;                    // variants
  std::atomic<uint64_t> runs{0};
  std::atomic<bool> reads_packed{false};  // packed_weights.h
  ~Plan();
};

// assumes: see Graph.
std::shared_ptr<Plan> build_plan(const Trace& t, const std::vector<bool>& needed, const std::vector<bool>& roots, bool assumes = true);
std::shared_ptr<Plan> plan_of(const Graph& g);  // as it stands, without passes

// The operand of a fused step whose memory its one whole result takes over: it is not needed any more, has as many bytes, and every element is
// read before the result's is written. -1: none.
int reused_operand(const Plan& p, const Trace& rewritten, const PlanStep& step);

// One long row: its ops run one by one, since they share it between threads.
bool is_long_row(const GroupPlan& g, int64_t instances, int64_t lanes);

enum class CompileWhere : uint8_t { foreground, background };
// The plan itself, or the one for traces whose extents are not equal where it took them to be; null: that one is being compiled.
std::shared_ptr<Plan> plan_that_holds(const std::shared_ptr<Plan>& plan, const Trace& t, CompileWhere where);
void run_plan(const std::shared_ptr<Plan>& plan, Trace& t, CompileWhere where);  // one that holds
std::string plan_text(const Plan& p, const Trace& rewritten);  // one line a step

// In execute.cpp: one node by its own kernel; views and numbers that it needs are made first.
void run_single(Trace& t, uint32_t n, bool pure = false);  // pure: see pure_writes
void make_value(Trace& t, uint32_t n);

}  // namespace frit::jit
