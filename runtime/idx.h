// The idx format of the MNIST family: a header with type and extents, then big-endian elements; gzipped or plain.
#pragma once
#include <cstdint>
#include <string>
#include <vector>
#include "runtime/dtype.h"

namespace frit {

struct IdxArray {
  Dtype dtype = Dtype::UInt8;
  std::vector<int64_t> extents;  // row-major
  std::vector<uint8_t> bytes;    // the elements, in this processor's byte order
};
// Throws FileError, with the path and the reason, for a file that is missing, truncated, damaged or no idx file. Memory
// grows with the data that is really there, whatever the header claims.
IdxArray read_idx(const std::string& path);

}  // namespace frit
