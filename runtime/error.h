// Two kinds of failure: a user's error is one of these types, with op, shapes and remedy in its text, and the line of the user's call
// (source_line.h), which is looked up when the text is read; a bug is an InternalError.
#pragma once
#include <memory>
#include <stdexcept>
#include <string>

namespace frit {

struct CallSite;

class Error : public std::runtime_error {  // base of all; what LibTorch calls c10::Error
 public:
  explicit Error(const std::string& text);
  explicit Error(const char* text);
  // With " (called at train.cpp:31)" where the library made it, and the line is known.
  const char* what() const noexcept override;
  const char* what_without_backtrace() const noexcept { return std::runtime_error::what(); }
  std::string msg() const { return std::runtime_error::what(); }
  const CallSite* site() const { return site_; }
  void called_at(const CallSite* site) { site_ = site, whole_.reset(); }  // by default the call in progress where it was made

 private:
  const CallSite* site_;
  mutable std::shared_ptr<const std::string> whole_;
};
struct ShapeError : Error { using Error::Error; };       // extents, ranks, views that do not fit
struct DtypeError : Error { using Error::Error; };       // an element type that the op does not take
struct IndexError : Error { using Error::Error; };       // a dimension or index out of range
struct ValueError : Error { using Error::Error; };       // an argument with a wrong value
struct AutogradError : Error { using Error::Error; };    // gradients: overwritten saved tensors, missing graphs
struct OutOfMemoryError : Error { using Error::Error; };
struct RecompileError : Error { using Error::Error; };   // more compiles than a RecompileGuard allows
struct FileError : Error { using Error::Error; };        // missing, damaged or hostile files
struct InternalError : std::logic_error { using std::logic_error::logic_error; };

}  // namespace frit
