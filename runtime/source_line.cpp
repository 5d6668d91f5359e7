// Where the user's program called. call_site() walks the chain of saved frame pointers to the first return addresses outside the
// library's text, a few nanoseconds, and interns them; source_line() asks libbacktrace (where the build found it) for the frames of
// each address, inlined ones included, and takes the first that is the user's. Only the first address is certain: the user's program may
// be built without frame pointers, so the further ones are kept only while they lie in this thread's stack, and believed only when
// a call stands before them. Start at call_site.
#include "runtime/source_line.h"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include "runtime/error.h"
#ifdef FRIT_HAS_LIBBACKTRACE
#include <backtrace.h>
#endif

namespace frit {

namespace {
struct Range {
  uintptr_t low = 0, high = 0;
  bool contains(uintptr_t a) const { return a - low < high - low; }
};

// The executable segments of the module that holds `address`; `main` tells whether that is the program itself.
struct Module {
  uintptr_t address;
  Range text;
  bool main = false;
};
int find_module(dl_phdr_info* info, size_t, void* data) {
  Module& m = *static_cast<Module*>(data);
  Range text{UINTPTR_MAX, 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& h = info->dlpi_phdr[i];
    if (h.p_type != PT_LOAD || !(h.p_flags & PF_X)) continue;
    const uintptr_t low = info->dlpi_addr + h.p_vaddr;
    text.low = std::min(text.low, low), text.high = std::max(text.high, uintptr_t(low + h.p_memsz));
  }
  if (text.low > text.high || !text.contains(m.address)) return 0;
  m.text = text;
  m.main = !info->dlpi_name || !*info->dlpi_name;
  return 1;
}
Range text_of(uintptr_t address, bool* main = nullptr) {
  Module m{address, {}, false};
  dl_iterate_phdr(&find_module, &m);
  if (main) *main = m.main;
  return m.text;
}

Range this_stack() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes)) return {};
  void* low = nullptr;
  size_t size = 0;
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  return {uintptr_t(low), uintptr_t(low) + size};
}

// The library's own text, empty where the library is part of the program: nothing tells a user's frame then.
const Range library = [] {
  bool main = false;
  const Range text = text_of(uintptr_t(&call_site), &main);
  return main ? Range{} : text;
}();

struct Less {
  bool operator()(const CallSite& a, const CallSite& b) const { return std::memcmp(&a, &b, sizeof a) < 0; }
};
struct Sites {
  std::mutex lock;
  std::map<CallSite, const CallSite*, Less> known;
};
const CallSite* intern(const CallSite& s) {
  static Sites* sites = new Sites;  // never destroyed
  const std::lock_guard hold(sites->lock);
  const CallSite*& at = sites->known[s];
  if (!at) at = new CallSite(s);
  return at;
}

struct Thread {
  static constexpr size_t recent_size = 64;
  Range stack;
  bool ready = false;
  const void* scope = nullptr;  // a CallScope's
  const CallSite* recent[recent_size];
};
thread_local Thread thread;
}  // namespace

bool in_library(const void* pc) noexcept { return library.contains(uintptr_t(pc)); }
CallScope::CallScope(const void* return_address) noexcept : before_(std::exchange(thread.scope, return_address)) {}
CallScope::~CallScope() { thread.scope = before_; }

[[gnu::noinline, gnu::no_sanitize("address", "thread")]] const CallSite* call_site(const char* op) noexcept {
  if (library.high == 0) return nullptr;
  Thread& mine = thread;
  if (!mine.ready) [[unlikely]] {
    mine.stack = this_stack();
    mine.ready = true;
  }
  const uintptr_t* frame = static_cast<const uintptr_t*>(__builtin_frame_address(0));
  const bool on_stack = mine.stack.contains(uintptr_t(frame));  // not on a coroutine's
  CallSite s{};
  uintptr_t hash = uintptr_t(op);
  s.op = op;
  int found = 0;
  for (int steps = 0; steps < 48; ++steps) {
    const uintptr_t next = frame[0], back = frame[1];
    if (!library.contains(back)) {
      s.pc[found++] = reinterpret_cast<const void*>(back);
      hash = hash * 31 + back;
      if (found == CallSite::depth - 1 || !on_stack) break;
    }
    if (next <= uintptr_t(frame) || next % sizeof(uintptr_t) || next + 2 * sizeof(uintptr_t) > mine.stack.high) {
      if (found || on_stack) break;
      if (next == 0) break;  // a coroutine's outermost
    }
    frame = reinterpret_cast<const uintptr_t*>(next);
  }
  if (!found) return nullptr;
  if (mine.scope) s.pc[found] = mine.scope, hash = hash * 31 + uintptr_t(mine.scope);
  const CallSite*& recent = mine.recent[(hash ^ hash >> 9) % Thread::recent_size];
  if (!recent || std::memcmp(recent, &s, sizeof s)) [[unlikely]] try {
    recent = intern(s);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return recent;
}

// ---- lines -------------------------------------------------------------------------------------------------------------------
namespace {
bool ends_with_call(uintptr_t back) {
  const Range text = text_of(back);
  if (!text.contains(back) || back - text.low < 8) return false;
  const auto* b = reinterpret_cast<const unsigned char*>(back);
  if (b[-5] == 0xe8) return true;                       // call rel32
  for (int length : {2, 3, 4, 6, 7})                    // call through a register or memory: ff /2
    if (b[-length] == 0xff && (b[1 - length] >> 3 & 7) == 2) return true;
  return false;
}
bool of_a_header(const char* file) {
  // Public headers, the op table and the handles that they are made of, the standard library.
  for (const char* part : {"/include/frit/", "/include/frit-internal/", "/include/c++/", "/tracer/ops.def", "/tracer/var.h", "/runtime/source_line.h"})
    if (std::strstr(file, part)) return true;
  return !std::strncmp(file, "frontend/include/frit/", 22) || !std::strncmp(file, "tracer/ops.def", 14) || !std::strncmp(file, "tracer/var.h", 12);
}
std::string short_path(const char* file) {
  char folder[4096];
  const size_t n = getcwd(folder, sizeof folder) ? std::strlen(folder) : 0;
  return n > 1 && !std::strncmp(file, folder, n) && file[n] == '/' ? file + n + 1 : file;
}

struct Found {
  std::string line;
  bool any = false;  // debug information was there
};
#ifdef FRIT_HAS_LIBBACKTRACE
int on_frame(void* data, uintptr_t, const char* file, int line, const char*) {
  Found& f = *static_cast<Found*>(data);
  if (!file) return 0;
  f.any = true;
  if (of_a_header(file)) return 0;
  f.line = short_path(file) + ":" + std::to_string(line);
  return 1;
}
void on_error(void*, const char*, int) {}

int count_modules(dl_phdr_info* info, size_t, void* data) {
  *static_cast<unsigned long long*>(data) = info->dlpi_adds;
  return 1;
}
// Libbacktrace reads the list of loaded files once; libraries that were opened later need a new state. (States are never freed.)
backtrace_state* state() {
  static backtrace_state* s = nullptr;
  static unsigned long long loaded = 0;
  unsigned long long now = 0;
  dl_iterate_phdr(&count_modules, &now);
  if (!s || now != loaded) s = backtrace_create_state(nullptr, 1, &on_error, nullptr), loaded = now;
  return s;
}
Found lookup(uintptr_t pc) {
  Found f;
  if (backtrace_state* s = state()) backtrace_pcinfo(s, pc, &on_frame, &on_error, &f);
  return f;
}
#else
Found lookup(uintptr_t) { return {}; }
#endif

std::string symbol(uintptr_t pc) {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(pc), &info) || !info.dli_fname) return {};
  const char* slash = std::strrchr(info.dli_fname, '/');
  char text[512];
  if (info.dli_sname) std::snprintf(text, sizeof text, "%s(%s+0x%lx)", slash ? slash + 1 : info.dli_fname, info.dli_sname, static_cast<unsigned long>(pc - uintptr_t(info.dli_saddr)));
  else std::snprintf(text, sizeof text, "%s(+0x%lx)", slash ? slash + 1 : info.dli_fname, static_cast<unsigned long>(pc - uintptr_t(info.dli_fbase)));
  return text;
}
std::string resolve(const CallSite& s) {
  for (int i = 0; i < CallSite::depth && s.pc[i]; ++i) {
    const uintptr_t back = uintptr_t(s.pc[i]);
    if (i && !ends_with_call(back)) continue;
    const Found f = lookup(back - 1);
    if (!f.line.empty()) return f.line;
    if (!f.any) return symbol(back - 1);
  }
  return {};
}
}  // namespace

std::string source_line(const CallSite* site) {
  struct Lines {
    std::mutex lock;
    std::unordered_map<const CallSite*, std::string> known;
  };
  static Lines* lines = new Lines;  // never destroyed
  if (!site) return {};
  const std::lock_guard hold(lines->lock);
  const auto [at, is_new] = lines->known.try_emplace(site);
  if (is_new) at->second = resolve(*site);
  return at->second;
}
std::exception_ptr with_line(const CallSite* site) {
  try {
    throw;
  } catch (Error& e) {
    if (site) e.called_at(site);
    return std::current_exception();
  } catch (...) {
    return std::current_exception();
  }
}
std::string called_at(const CallSite* site) {
  const std::string line = source_line(site);
  return line.empty() ? line : " (called at " + line + ")";
}

}  // namespace frit
