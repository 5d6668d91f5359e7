// Executable memory for generated code. A page is never writable and executable through one mapping: code is written
// through a second, writable view of the same pages. Kernels are named in perf's map file when FRIT_PERF is set.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <asmjit/core.h>



namespace frit {

struct Code {
  const void* entry = nullptr;
  size_t bytes = 0;
  std::shared_ptr<void> owner;  // frees the memory when the last copy goes
};
// Relocates and copies finished code. Thread-safe. Throws std::bad_alloc.
Code place_code(asmjit::CodeHolder& code, const std::string& name);
// Code that does not depend on its address.
Code place_bytes(const void* bytes, size_t count, const std::string& name);
size_t code_bytes_in_use();

}  // namespace frit
