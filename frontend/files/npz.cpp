// npz: npy files in a zip file, each read from its packed bytes straight into its tensor.
#include "frontend/files/npz.h"
#include "frontend/files/elements.h"
#include "frontend/files/npy.h"
#include "frontend/files/zip.h"

namespace frit::files {

constexpr std::string_view ending = ".npy";

std::map<std::string, Tensor> read_npz(const Source& source) {
  std::map<std::string, Tensor> tensors;
  const std::vector<ZipEntry> entries = read_zip_directory(source);
  for (const ZipEntry& e : entries)
    if (!std::string_view(e.name).ends_with(ending)) source.fail(e.header_at, "expected arrays with names that end in .npy, found entry " + name_text(e.name));
  for (const ZipEntry& e : entries) {
    const auto in = open_zip_entry(source, e);
    tensors.emplace(e.name.substr(0, e.name.size() - ending.size()), read_npy(*in));
  }
  return tensors;
}

}  // namespace frit::files

namespace frit {

void save_npz(const std::string& path, const std::map<std::string, Tensor>& tensors, bool compress) {
  files::AtomicFile file(path);
  files::ZipWriter zip(file, compress);
  for (const auto& [name, t] : tensors) {
    if (name.size() > 0xffff - files::ending.size()) throw ValueError("save_npz: the name " + files::name_text(name) + " is longer than a zip file allows. Shorten it.");
    const Tensor whole = files::contiguous_elements(t, "save_npz");
    zip.add(name + std::string(files::ending), {files::npy_header(whole), {static_cast<const char*>(files::elements_of(whole)), whole.nbytes()}});
  }
  zip.finish();
  file.commit();
}
std::map<std::string, Tensor> load_npz(const std::string& path) { return files::read_npz(files::Source::open(path)); }

}  // namespace frit
