// Two kinds of failure: a user's error is one of these types, with op, shapes and remedy in its text; a bug is an
// InternalError.
#pragma once
#include <stdexcept>
#include <string>

namespace frit {

struct Error : std::runtime_error {  // base of all; what LibTorch calls c10::Error
  using std::runtime_error::runtime_error;
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
