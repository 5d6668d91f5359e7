// npz: what is accepted comes back from its own file, stored and deflated.
#include <unistd.h>
#include "frit/files.h"
#include "frontend/files/npz.h"
#include "tests/fuzz/target.h"
#include "tests/support/files.h"

using namespace frit;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const auto tensors = files::read_npz(files::Source::memory("x", bytes, size));
    size_t total = 0;
    for (const auto& [name, t] : tensors) total += t.nbytes();
    fuzz::require(total <= size * 1032, "it has more elements than deflate can pack");
  } catch (const FileError&) {
  }
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> list;
  const test::Folder folder;
  for (const bool compress : {false, true}) {
    const std::string path = folder / "x.npz";
    save_npz(path, {{"a", arange(6).reshape({2, 3})}, {"b", ones({3}, kBool)}, {"long name", zeros({40})}}, compress);
    list.push_back(test::file_bytes(path));
    save_npz(path, {}, compress);
    list.push_back(test::file_bytes(path));
    save_npz(path, {{"", zeros({0}, kFloat16)}}, compress);
    list.push_back(test::file_bytes(path));
  }
  return list;
}
