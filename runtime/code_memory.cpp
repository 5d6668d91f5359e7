// Executable memory: finished AsmJit code is relocated to its executable address and written through the writable view of
// the same pages (dual mapping), so no mapping is ever writable and executable at once. Start at place_code. The
// structure: one CodeStore per process, never destroyed, because kernels may outlive every static object; each Code
// holds a Block, which gives its memory back to the store when the last copy goes.
#include "runtime/code_memory.h"
#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include "runtime/settings.h"

namespace frit {
namespace {

struct CodeStore {
  asmjit::JitAllocator allocator;
  const pid_t process = getpid();
  explicit CodeStore(const asmjit::JitAllocator::CreateParams& params) : allocator(&params) {}
};

std::mutex store_mutex;
std::atomic<size_t> bytes_in_use{0};

// The two views share their pages with a forked child, which must not write there: it gets a store of its own.
CodeStore& store() {
  static CodeStore* current = nullptr;
  std::lock_guard lock(store_mutex);
  if (!current || current->process != getpid()) {
    asmjit::JitAllocator::CreateParams params;
    params.options = asmjit::JitAllocatorOptions::kUseDualMapping;
    current = new CodeStore(params);
  }
  return *current;
}

struct Block {
  CodeStore& from;
  void* executable = nullptr;
  size_t bytes = 0;
  explicit Block(CodeStore& store) : from(store) {}
  Block(const Block&) = delete;
  ~Block() {
    if (!executable) return;
    bytes_in_use -= bytes;
    from.allocator.release(executable);
  }
};

void check(asmjit::Error error) {
  if (error) throw std::bad_alloc();
}

// One line "address size name" in hex, as perf expects it. The file belongs to the process that writes it.
void write_perf_line(const void* entry, size_t bytes, const std::string& name) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  if (FILE* file = std::fopen(path.c_str(), "ae")) {
    std::fprintf(file, "%zx %zx %s\n", size_t(entry), bytes, name.c_str());
    std::fclose(file);
  }
}

}  // namespace

namespace {
// `fill` writes the code through the writable view, for its executable address.
template <class F> Code place(size_t bytes, const std::string& name, F&& fill) {
  auto block = std::make_shared<Block>(store());
  void* writable = nullptr;
  check(block->from.allocator.alloc(&block->executable, &writable, bytes ? bytes : 1));
  block->bytes = bytes;
  bytes_in_use += bytes;
  fill(block->executable, writable);
  asmjit::VirtMem::flushInstructionCache(block->executable, bytes);
  if (settings().perf) write_perf_line(block->executable, bytes, name);
  const void* entry = block->executable;
  return {entry, bytes, std::move(block)};
}
}  // namespace

Code place_code(asmjit::CodeHolder& code, const std::string& name) {
  check(code.flatten());
  check(code.resolveUnresolvedLinks());
  const size_t bytes = code.codeSize();
  return place(bytes, name, [&](void* executable, void* writable) {
    check(code.relocateToBase(uint64_t(executable)));
    check(code.copyFlattenedData(writable, bytes, asmjit::CopySectionFlags::kPadSectionBuffer));
  });
}
Code place_bytes(const void* bytes, size_t count, const std::string& name) {
  return place(count, name, [&](void*, void* writable) { std::memcpy(writable, bytes, count); });
}
size_t code_bytes_in_use() { return bytes_in_use; }

}  // namespace frit
