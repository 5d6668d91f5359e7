// Stands in for AsmJit's globals.cpp. Debian builds libasmjit.a for executables; that one file of it reads `stderr` in a way
// that a shared library cannot, so its three functions are defined here and the linker leaves the packaged ones out.
#include <cstdio>
#include <cstdlib>
#include <asmjit/core.h>

ASMJIT_BEGIN_NAMESPACE
namespace DebugUtils {

const char* errorAsString(Error error) noexcept {
  static thread_local char text[32];
  std::snprintf(text, sizeof(text), "AsmJit error %u", unsigned(error));
  return text;
}

void debugOutput(const char* text) noexcept { std::fputs(text, stderr); }

void assertionFailed(const char* file, int line, const char* message) noexcept {
  std::fprintf(stderr, "AsmJit assertion failed at %s:%d: %s\n", file, line, message);
  std::abort();
}

}  // namespace DebugUtils
ASMJIT_END_NAMESPACE
