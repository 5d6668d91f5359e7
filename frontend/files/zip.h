// The part of the zip format that npz needs: stored and deflated entries, zip64. Reading is strict: the directory and the local headers
// have to agree, no two entries may share bytes, and none may claim more than its packed bytes can hold.
#pragma once
#include <optional>
#include <vector>
#include "frontend/files/bytes.h"

namespace frit::files {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  uint32_t checksum = 0;
  uint64_t packed = 0, size = 0;            // bytes in the file, bytes unpacked
  uint64_t header_at = 0, bytes_at = 0;     // of the local header; of the packed bytes
};
std::vector<ZipEntry> read_zip_directory(const Source& source);

// An entry unpacked while it is read. finish() compares the checksum.
std::unique_ptr<Stream> open_zip_entry(const Source& source, const ZipEntry& entry);

class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file, bool deflate) : file_(file), deflate_(deflate) {}
  // The parts are the entry's bytes, one after the other.
  void add(const std::string& name, std::initializer_list<std::string_view> parts);
  void finish();

 private:
  AtomicFile& file_;
  bool deflate_;
  std::vector<ZipEntry> entries_;
};

}  // namespace frit::files
