// A fuzz target reads any bytes: it may throw FileError and nothing else, and what it accepts has to be consistent, or it aborts. Targets are
// libFuzzer's; seeds() gives the valid files that mutations start from.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);

namespace frit::fuzz {

std::vector<std::string> seeds();

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "a damaged file was accepted, but %s\n", what);
  std::abort();
}

}  // namespace frit::fuzz
