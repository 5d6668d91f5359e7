// Reading and writing of safetensors. Tensors are read straight into their memory; the header's checks are in
// safetensors_header.cpp.
#include "frontend/files/safetensors.h"
#include <algorithm>
#include <nlohmann/json.hpp>
#include "frontend/files/elements.h"

namespace frit::files {
namespace {

constexpr const char* names[dtype_count] = {"BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64"};
// The order in which the format's own library writes, so that wide elements come first and are aligned.
constexpr int order[dtype_count] = {0, 1, 2, 3, 6, 9, 4, 5, 7, 8};

std::string json_text(const std::string& text, const char* what) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw ValueError(std::string("save_safetensors: the ") + what + " " + name_text(text) + " is no UTF-8. Rename it.");
  }
}

std::string header_text(const std::vector<std::pair<std::string, Tensor>>& tensors, const StringMap& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) text += json_text(key, "metadata key") + ":" + json_text(value, "metadata value") + ",";
    text.back() = '}';
    text += ',';
  }
  uint64_t at = 0;
  for (const auto& [name, t] : tensors) {
    text += json_text(name, "name") + ":{\"dtype\":\"" + names[size_t(t.dtype())] + "\",\"shape\":[";
    for (int64_t e : t.sizes()) text += std::to_string(e) + ",";
    if (t.dim()) text.pop_back();
    text += "],\"data_offsets\":[" + std::to_string(at) + ",";
    at += t.nbytes();
    text += std::to_string(at) + "]},";
  }
  if (text.back() == ',') text.pop_back();
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::map<std::string, Tensor> read_safetensors(const Source& source, StringMap* metadata) {
  SafetensorsHeader header = read_safetensors_header(source);
  std::map<std::string, Tensor> tensors;
  for (const SafetensorsEntry& e : header.entries) {
    const Tensor t = new_tensor(e.extents, e.dtype);
    source.read(header.elements_at + e.begin, elements_of(t), e.end - e.begin, "a tensor's elements");
    if (e.dtype == kBool)
      if (const auto bad = first_bad_bool(t)) source.fail(header.elements_at + e.begin + *bad, "expected 0 or 1 as an element of the bool tensor " + name_text(e.name));
    tensors.emplace(e.name, t);
  }
  if (metadata) *metadata = std::move(header.metadata);
  return tensors;
}

void write_safetensors(Sink& sink, const std::map<std::string, Tensor>& tensors, const StringMap& metadata) {
  std::vector<std::pair<std::string, Tensor>> sorted;
  for (const auto& [name, t] : tensors) {
    if (name == "__metadata__") throw ValueError("save_safetensors: the name __metadata__ is taken by the format. Rename the tensor.");
    if (!t.defined()) throw ValueError("save_safetensors: tensor " + name_text(name) + " is undefined. Give it a value first.");
    sorted.emplace_back(name, t);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return order[size_t(a.second.dtype())] > order[size_t(b.second.dtype())]; });
  const std::string header = header_text(sorted, metadata);
  uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = uint8_t(uint64_t(header.size()) >> (8 * i));
  sink.write(length, 8);
  sink.write(header);
  for (const auto& [name, t] : sorted) {
    const Tensor whole = contiguous_elements(t, "save_safetensors");
    sink.write(elements_of(whole), whole.nbytes());
  }
}

}  // namespace frit::files

namespace frit {

void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors, const StringMap& metadata) {
  files::AtomicFile file(path);
  files::write_safetensors(file, tensors, metadata);
  file.commit();
}
std::map<std::string, Tensor> load_safetensors(const std::string& path) { return files::read_safetensors(files::Source::open(path)); }
StringMap load_safetensors_metadata(const std::string& path) { return files::read_safetensors_header(files::Source::open(path)).metadata; }

}  // namespace frit
