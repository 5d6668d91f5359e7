// Kernels from the disk cache, or compiled and kept there. Generated code does not depend on its own address, so that an entry is the code
// itself; code that reads a table at an address of the process is not kept.
#pragma once
#include <functional>
#include <memory>
#include <string_view>
#include "jit/x86/compile.h"

namespace frit::jit {

// `kind` tells apart keys that could be equal. What was made is written to disk by the background thread.
std::shared_ptr<CpuKernel> load_or_compile(char kind, std::string_view key, const std::function<kernels::Program()>& lower, bool& loaded);

}  // namespace frit::jit
