// The shadow check (FRIT_VERIFY=n): every n-th run of a plan is done once more, node by node, on the inputs that it had, and compared
// bit for bit. Where they differ the values of the second run count, the plan is put out of use, and the first op that differs is
// reported, with a program that shows it.
#pragma once
#include <string>
#include <vector>
#include "jit/tiers.h"

namespace frit::jit {

struct VerifyReport {
  std::string op;            // the first root that differs
  std::string difference;    // where and what
  std::string trace;         // as small as it still differs, as text
  std::string program;       // path of the C++ program, empty when it could not be written
  double oracle_error = 0;   // of the values that count, against float64, in units of the result's largest element; 0: not asked for
};
std::vector<VerifyReport> verify_reports();
int64_t verified_runs();

bool verify_due();           // counts a run of a plan
void set_verify(int64_t every, bool oracle, std::string folder);  // what the settings say, otherwise; for tests
// plan: of the use, the one that holds for t; needed, roots: as it was made for.
void run_verified(const PlanUse& use, const std::shared_ptr<Plan>& plan, Trace& t, const std::vector<bool>& needed, const std::vector<bool>& roots, CompileWhere where);

// A leaf's value in a reproduction: its strides and its storage's bytes as hex.
struct LeafBytes {
  uint32_t node;
  std::vector<int64_t> strides;
  int64_t offset;
  std::string bytes;
};
// Runs a trace compiled and node by node; what differs, or empty.
std::string compare_trace(const std::string& text, const std::vector<uint32_t>& roots, const std::vector<LeafBytes>& leaves);

}  // namespace frit::jit
