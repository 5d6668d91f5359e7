// What fusion makes of user code: the groups of its plan, as code that a program can be lowered from.
#pragma once
#include <functional>
#include <vector>
#include "frit/frit.h"
#include "jit/group.h"

namespace frit::test {

struct FusedGroup {
  jit::GroupCode code;
  std::vector<kernels::Slot> numbers;
};
// The body is recorded; what it returns is what is kept of it.
std::vector<FusedGroup> fused_groups(const std::function<std::vector<Tensor>()>& body);
// In order: every pointer goes along the last axis, a row kernel's rows lie in one outer axis. broadcast: the operands that are one row for all.
kernels::Program program_of(const FusedGroup& g, const std::vector<bool>& broadcast = {});

}  // namespace frit::test
