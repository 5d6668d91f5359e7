// idx: the reader takes paths, so each input becomes a file in memory.
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include "runtime/error.h"
#include "runtime/idx.h"
#include "tests/fuzz/target.h"

using namespace frit;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const int file = memfd_create("frit-fuzz", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  fuzz::require(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, bytes, size, 0) == ssize_t(size), "the file could not be made");
  try {
    const IdxArray array = read_idx(path);
    size_t count = size_of(array.dtype);
    for (int64_t e : array.extents) count *= size_t(e);
    fuzz::require(array.bytes.size() == count, "its bytes do not fit its extents");
  } catch (const FileError&) {
  }
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> list;
  for (const auto& [type, width] : {std::pair{0x08, 1}, {0x09, 1}, {0x0b, 2}, {0x0c, 4}, {0x0d, 4}, {0x0e, 8}}) {
    const std::string header{0, 0, char(type), 2, 0, 0, 0, 2, 0, 0, 0, 3};
    list.push_back(header + std::string(size_t(6 * width), '\x3f'));
  }
  const std::string plain = list[0];
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(200, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  z.avail_in = unsigned(plain.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = unsigned(packed.size());
  deflate(&z, Z_FINISH);
  packed.resize(z.total_out);
  deflateEnd(&z);
  list.push_back(packed);
  return list;
}
