// Errors know where the user called; their whole text is made when it is read.
#include "runtime/error.h"
#include <mutex>
#include "runtime/source_line.h"

namespace frit {

// The user's program may make errors of its own: they are told as they were written.
Error::Error(const std::string& text) : std::runtime_error(text), site_(in_library(__builtin_return_address(0)) ? call_site() : nullptr) {}
Error::Error(const char* text) : std::runtime_error(text), site_(in_library(__builtin_return_address(0)) ? call_site() : nullptr) {}

const char* Error::what() const noexcept {
  static std::mutex* lock = new std::mutex;  // never destroyed; an exception may be read by several threads
  try {
    const std::lock_guard hold(*lock);
    if (!whole_) whole_ = std::make_shared<const std::string>(std::runtime_error::what() + frit::called_at(site_));
    return whole_->c_str();
  } catch (const std::exception&) {  // a text without its line is better than none
    return std::runtime_error::what();
  }
}

}  // namespace frit
