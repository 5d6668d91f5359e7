// The shadow check as users see it: jit/verify.cpp does it.
#include "frit/verify.h"
#include <cstdio>
#include "jit/verify.h"

namespace frit::jit {

std::vector<VerifyFinding> verify_findings() {
  std::vector<VerifyFinding> all;
  for (const VerifyReport& r : verify_reports()) all.push_back({r.op, r.difference, r.trace, r.program, r.oracle_error});
  return all;
}
int reproduce(const std::string& trace, const std::vector<uint32_t>& roots, const std::vector<ReproductionLeaf>& leaves) {
  std::vector<LeafBytes> values;
  for (const ReproductionLeaf& l : leaves) values.push_back({l.node, l.strides, l.offset, l.bytes});
  const std::string d = compare_trace(trace, roots, values);
  std::printf("%s\n", d.empty() ? "no difference" : d.c_str());
  return d.empty() ? 0 : 1;
}

}  // namespace frit::jit
