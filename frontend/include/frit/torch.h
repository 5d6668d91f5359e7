// LibTorch's names for Frit's: a script ports by including this in place of <torch/torch.h>. Unlike frit/frit.h it brings
// iostream, and printing.
#pragma once
#include <cmath>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>
#include "frit/frit.h"
#include "frit/print.h"

namespace frit {

using std::make_optional;
using std::nullopt;
using std::optional;

inline int get_num_threads() { return num_threads(); }

// The arguments written one behind the other.
template <class... A> std::string str(const A&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

namespace cuda {  // no tensor lives on a GPU yet
inline bool is_available() { return false; }
inline size_t device_count() { return 0; }
}  // namespace cuda

}  // namespace frit

namespace torch = frit;
namespace at = frit;
namespace c10 = frit;

#define TORCH_CHECK(condition, ...)                                                                                    \
  do {                                                                                                                 \
    if (!(condition)) [[unlikely]]                                                                                     \
      throw ::frit::Error(::frit::str("" __VA_OPT__(, ) __VA_ARGS__).empty() ? ::frit::str("Expected " #condition " to be true, but got false.") \
                                                                             : ::frit::str("" __VA_OPT__(, ) __VA_ARGS__));                     \
  } while (false)
#define TORCH_INTERNAL_ASSERT(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define AT_ASSERT(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_MODULE(Name) FRIT_MODULE(Name)
#define TORCH_MODULE_IMPL(Name, ImplType) FRIT_MODULE_IMPL(Name, ImplType)
#define TORCH_ARG(T, name) FRIT_ARG(T, name)
