// The shadow check's findings (FRIT_VERIFY=n), and how its programs show them again.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace frit::jit {

struct VerifyFinding {
  std::string op;          // the first op whose compiled value differs from the one computed node by node
  std::string difference;  // which element, and its bits on both sides
  std::string trace;       // the smallest trace that shows it, as text
  std::string program;     // path of a C++ program that shows it
  double oracle_error;     // FRIT_VERIFY_ORACLE: of the values that count, against float64, relative to the largest element
};
std::vector<VerifyFinding> verify_findings();
int64_t verified_runs();   // plan runs that were checked so far

struct ReproductionLeaf {
  uint32_t node;
  std::vector<int64_t> strides;
  int64_t offset;
  std::string bytes;       // of its storage, two hex digits each
};
// Runs a trace compiled and node by node; prints what differs and returns 1, or 0.
int reproduce(const std::string& trace, const std::vector<uint32_t>& roots, const std::vector<ReproductionLeaf>& leaves);

}  // namespace frit::jit
