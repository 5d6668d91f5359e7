// A plan: what a trace's structure compiles to. Steps in order, each a fused group or one op; it speaks of node numbers, so it
// runs every trace with that structure, whatever its extents. Kernels are looked up by code and layout when it runs.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "jit/group.h"
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
};
struct PlanStep {
  bool fused = false, pure = false;   // pure: a write in place that makes a new value
  uint32_t index = 0;                 // of a group, or the node
  std::vector<uint32_t> drop;         // nodes whose values are not needed any more
};
struct Plan {
  std::vector<PlanStep> steps;
  std::vector<PlanGroup> groups;
  std::vector<uint32_t> roots;
  std::vector<std::string> why_not;
  struct Write { uint32_t node, count; };           // a storage written in place: a node in it, and how often
  std::vector<Write> writes;
  std::vector<std::pair<uint32_t, uint32_t>> version;  // node, writes before it
  std::vector<bool> pure;             // pure_writes of the trace
  uint32_t ops = 0;                   // recorded ops that it stands for
  std::mutex lock;                    // variants
  std::atomic<uint64_t> runs{0};
};

std::shared_ptr<Plan> build_plan(const Trace& t, const std::vector<bool>& needed, const std::vector<bool>& roots);

enum class CompileWhere : uint8_t { foreground, background };
void run_plan(const std::shared_ptr<Plan>& plan, Trace& t, CompileWhere where);
std::string plan_text(const Plan& p, const Trace& t);  // one line a step

// In execute.cpp: one node by its own kernel; views and numbers that it needs are made first.
void run_single(Trace& t, uint32_t n, bool pure = false);
void make_value(Trace& t, uint32_t n);

}  // namespace frit::jit
