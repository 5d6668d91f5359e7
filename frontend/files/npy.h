// NumPy's npy format on streams and sinks: a magic, a version, a Python dictionary as text, the elements.
#pragma once
#include "frit/files.h"
#include "frontend/files/bytes.h"

namespace frit::files {

struct NpyHeader {
  Dtype dtype = kFloat32;
  bool reversed_bytes = false, fortran_order = false;
  std::vector<int64_t> extents;
};
// The dictionary's text, whose first byte is the file's byte `at`.
NpyHeader parse_npy_dictionary(const std::string& text, const Stream& in, uint64_t at);
Tensor read_npy(Stream& in);                // checks the shape against what is left before it allocates
std::string npy_header(const Tensor& t);    // of version 1, with NumPy's own padding

}  // namespace frit::files
