// Source lines of calls. A call's site is the return addresses of the public function in progress outside the library, found by
// the frame pointers that the library is built with; it is turned into a file and a line only when somebody reads it.
#pragma once
#include <exception>
#include <string>

namespace frit {

// The innermost first, zero-terminated unless full. Interned and never freed: equal sites have equal addresses.
struct CallSite {
  static constexpr int depth = 4;
  const void* pc[depth];
  const char* op;               // the public op's name where it is made of others, else null
};
// The user's call in progress on this thread; null where it cannot be told (a program that holds the library itself).
const CallSite* call_site(const char* op = nullptr) noexcept;

bool in_library(const void* pc) noexcept;
// In functions of public headers that are too large to be inlined: who called them, in case the frames do not tell.
//   [[gnu::noinline]] … { const CallScope scope(__builtin_return_address(0)); … }
class CallScope {
 public:
  explicit CallScope(const void* return_address) noexcept;
  ~CallScope();
  CallScope(const CallScope&) = delete;

 private:
  const void* before_;
};

// "train.cpp:31": the innermost frame that is no header of Frit's or of the standard library's. Without debug information "train(main+0x1f)".
// Empty when nothing is known. Paths under the working directory are given from there.
std::string source_line(const CallSite* site);

// " (called at train.cpp:31)", or empty.
std::string called_at(const CallSite* site);
// In a handler: the exception in flight, which tells this line from now on if it is one of Frit's.
std::exception_ptr with_line(const CallSite* site);

}  // namespace frit
