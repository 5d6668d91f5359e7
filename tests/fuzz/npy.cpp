// npy: what is accepted comes back from its own file.
#include "frit/files.h"
#include "frontend/files/npy.h"
#include "tests/fuzz/target.h"
#include "tests/support/files.h"

using namespace frit;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const files::Source source = files::Source::memory("x", bytes, size);
    files::SourceStream in(source);
    const Tensor t = files::read_npy(in);
    fuzz::require(t.nbytes() <= size, "it has more elements than bytes");
    const std::string written = files::npy_header(t) + test::bytes_of(t);
    const files::Source again = files::Source::memory("x", written.data(), written.size());
    files::SourceStream back(again);
    fuzz::require(test::same(files::read_npy(back), t), "it changed when it was written");
  } catch (const FileError&) {
  }
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> list;
  for (int d = 0; d < dtype_count; ++d)
    for (const Tensor& t : {zeros({2, 3}, Dtype(d)), ones({}, Dtype(d)), zeros({0, 4}, Dtype(d)), ones({1, 2, 1, 2, 1, 2, 1, 2}, Dtype(d))})
      list.push_back(files::npy_header(t) + test::bytes_of(t));
  const std::string dictionary = "{'descr': '>f8', 'fortran_order': True, 'shape': (2L, 1), }\n";
  list.push_back(std::string("\x93NUMPY\x02\x00", 8) + test::little(dictionary.size(), 4) + dictionary + std::string(16, '\x40'));
  list.push_back(std::string("\x93NUMPY\x03\x00", 8) + test::little(dictionary.size(), 4) + dictionary + std::string(16, '\x40'));
  return list;
}
