// The safetensors format on sources and sinks: an eight-byte length, a JSON header, the elements without gaps.
#pragma once
#include "frit/files.h"
#include "frontend/files/bytes.h"

namespace frit::files {

struct SafetensorsEntry {
  std::string name;
  Dtype dtype = kFloat32;
  std::vector<int64_t> extents;
  uint64_t begin = 0, end = 0;              // in the elements
  uint64_t header_at = 0;                   // where its entry ends in the file, for messages
};
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;    // in the order of their elements
  StringMap metadata;
  uint64_t elements_at = 0;
};
// Checks everything but the elements themselves: after it, the entries cover the file exactly.
SafetensorsHeader read_safetensors_header(const Source& source);
std::map<std::string, Tensor> read_safetensors(const Source& source, StringMap* metadata = nullptr);
void write_safetensors(Sink& sink, const std::map<std::string, Tensor>& tensors, const StringMap& metadata);

}  // namespace frit::files
