// safetensors: what is accepted covers its file exactly and comes back from its own file.
#include "frit/files.h"
#include "frontend/files/safetensors.h"
#include "tests/fuzz/target.h"
#include "tests/support/files.h"

using namespace frit;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    StringMap metadata, metadata_back;
    const auto tensors = files::read_safetensors(files::Source::memory("x", bytes, size), &metadata);
    size_t total = 0;
    for (const auto& [name, t] : tensors) total += t.nbytes();
    fuzz::require(total <= size, "it has more elements than bytes");
    files::TextSink sink;
    files::write_safetensors(sink, tensors, metadata);
    const auto back = files::read_safetensors(files::Source::memory("x", sink.text.data(), sink.text.size()), &metadata_back);
    fuzz::require(test::same(back, tensors) && metadata == metadata_back, "it changed when it was written");
  } catch (const FileError&) {
  }
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> list;
  const auto add = [&](const std::map<std::string, Tensor>& tensors, const StringMap& metadata) {
    files::TextSink sink;
    files::write_safetensors(sink, tensors, metadata);
    list.push_back(sink.text);
  };
  add({}, {});
  add({{"a", arange(6).reshape({2, 3})}, {"b", ones({3}, kBool)}}, {{"format", "pt"}});
  std::map<std::string, Tensor> all;
  for (int d = 0; d < dtype_count; ++d) all[dtype_name(Dtype(d))] = ones({1, 2}, Dtype(d)), all[std::string("0") + dtype_name(Dtype(d))] = zeros({0}, Dtype(d));
  add(all, {});
  add({{"\xc3\xbc\"\\", tensor(1.5)}}, {{"a", "b"}, {"\n", ""}});
  return list;
}
