// Reading and writing of npy. Start at read_npy: the header is checked against the file's length, then the elements are read straight
// into the tensor.
#include "frontend/files/npy.h"
#include <cstring>
#include "frontend/files/elements.h"

namespace frit::files {
namespace {

constexpr uint64_t longest_header = 1 << 16;

NpyHeader read_header(Stream& in) {
  uint8_t start[8], raw[4] = {};
  in.read(start, 8, "the magic and version");
  if (std::memcmp(start, "\x93NUMPY", 6) != 0) in.fail(0, "expected \\x93NUMPY, the beginning of an npy file");
  if (start[6] < 1 || start[6] > 3 || start[7] != 0)
    in.fail(6, "expected format version 1.0, 2.0 or 3.0, found " + std::to_string(start[6]) + "." + std::to_string(start[7]));
  in.read(raw, start[6] == 1 ? 2 : 4, "the header's length");
  const uint64_t length = raw[0] | raw[1] << 8 | raw[2] << 16 | uint64_t(raw[3]) << 24, at = in.at();
  if (length > longest_header || length > in.left())
    in.fail(8, "the header should have " + std::to_string(length) + " bytes, but " +
                   (length > longest_header ? "at most 65536 are allowed" : "only " + std::to_string(in.left()) + " follow"));
  std::string text(length, '\0');
  in.read(text.data(), length, "the header");
  return parse_npy_dictionary(text, in, at);
}

}  // namespace

Tensor read_npy(Stream& in) {
  const NpyHeader header = read_header(in);
  const auto bytes = byte_count(header.extents, header.dtype);
  if (!bytes || *bytes != in.left())
    in.fail(in.at(), "an array of shape " + extents_text(header.extents) + " and type " + dtype_name(header.dtype) + " needs " +
                         (bytes ? std::to_string(*bytes) : "more than 2^63") + " bytes, but " + std::to_string(in.left()) + " follow");
  std::vector<int64_t> extents = header.extents;
  if (header.fortran_order) extents.assign(header.extents.rbegin(), header.extents.rend());
  const uint64_t at = in.at();
  Tensor t = new_tensor(extents, header.dtype);
  in.read(elements_of(t), *bytes, "the elements");
  in.finish();
  if (header.reversed_bytes) reverse_bytes(t);
  if (header.dtype == kBool)
    if (const auto bad = first_bad_bool(t)) in.fail(at + *bad, "expected 0 or 1 as an element of a bool array");
  if (header.fortran_order && extents.size() > 1) {
    std::vector<int64_t> axes;
    for (size_t i = extents.size(); i-- > 0;) axes.push_back(int64_t(i));
    t = t.permute(axes);
  }
  return t;
}

}  // namespace frit::files

namespace frit {

void save_npy(const std::string& path, const Tensor& tensor) {
  const Tensor whole = files::contiguous_elements(tensor, "save_npy");
  files::AtomicFile file(path);
  file.write(files::npy_header(whole));
  file.write(files::elements_of(whole), whole.nbytes());
  file.commit();
}
Tensor load_npy(const std::string& path) {
  const files::Source source = files::Source::open(path);
  files::SourceStream in(source);
  return files::read_npy(in);
}

}  // namespace frit
