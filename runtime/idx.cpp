// Reads idx files through zlib, which passes plain files on unchanged. Start at read_idx; File checks every read.
#include "runtime/idx.h"
#include <zlib.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include "runtime/error.h"

namespace frit {
namespace {

class File {
 public:
  explicit File(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) fail(errno ? std::strerror(errno) : "cannot be opened");
  }
  ~File() { gzclose_r(file_); }
  File(const File&) = delete;

  [[noreturn]] void fail(const std::string& reason) const { throw FileError("cannot read " + path_ + ": " + reason); }

  // Exactly `bytes` bytes of `what`.
  void read(uint8_t* to, size_t bytes, const char* what) {
    if (read_some(to, bytes) < bytes) fail(std::string("it ends in the middle of ") + what);
  }
  // Nothing may follow; zlib compares its checksum when it sees the end.
  void expect_end() {
    uint8_t extra;
    if (read_some(&extra, 1)) fail("it has more elements than its header says");
  }

 private:
  size_t read_some(uint8_t* to, size_t bytes) {
    errno = 0;
    const int got = gzread(file_, to, unsigned(bytes));
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (code == Z_BUF_ERROR) fail("the compressed data is truncated");
    if (code == Z_ERRNO || (got < 0 && code == Z_OK)) fail(std::strerror(errno));
    if (got < 0 || code < 0) fail(std::string("the compressed data is damaged (") + text + ")");
    return size_t(got);
  }

  std::string path_;
  gzFile file_;
};

constexpr uint8_t no_type = 0xff;

uint8_t dtype_of_code(uint8_t code) {
  switch (code) {
    case 0x08: return uint8_t(Dtype::UInt8);
    case 0x09: return uint8_t(Dtype::Int8);
    case 0x0b: return uint8_t(Dtype::Int16);
    case 0x0c: return uint8_t(Dtype::Int32);
    case 0x0d: return uint8_t(Dtype::Float32);
    case 0x0e: return uint8_t(Dtype::Float64);
  }
  return no_type;
}

void swap_bytes(std::vector<uint8_t>& bytes, size_t element) {
  static_assert(std::endian::native == std::endian::little);
  if (element == 1) return;
  for (size_t i = 0; i < bytes.size(); i += element) std::reverse(&bytes[i], &bytes[i] + element);
}

}  // namespace

IdxArray read_idx(const std::string& path) {
  File file(path);
  uint8_t magic[4];
  file.read(magic, 4, "its header");
  const uint8_t dtype = dtype_of_code(magic[2]);
  if (magic[0] || magic[1] || dtype == no_type || !magic[3]) file.fail("it is no idx file");

  IdxArray array;
  array.dtype = Dtype(dtype);
  size_t total = size_of(array.dtype);
  bool overflow = false;
  for (int i = 0; i < magic[3]; ++i) {
    uint8_t b[4];
    file.read(b, 4, "its header");
    const uint32_t extent = uint32_t(b[0]) << 24 | uint32_t(b[1]) << 16 | uint32_t(b[2]) << 8 | b[3];
    array.extents.push_back(extent);
    overflow |= __builtin_mul_overflow(total, size_t(extent), &total);
  }
  if (overflow || total > PTRDIFF_MAX) file.fail("its header claims more elements than any memory holds");

  constexpr size_t first_step = 1 << 20, largest_step = 1 << 28;
  while (array.bytes.size() < total) {
    const size_t done = array.bytes.size(), step = std::min(total - done, std::clamp(done, first_step, largest_step));
    array.bytes.resize(done + step);
    file.read(&array.bytes[done], step, "its elements");
  }
  file.expect_end();
  swap_bytes(array.bytes, size_of(array.dtype));
  return array;
}

}  // namespace frit
