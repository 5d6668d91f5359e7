// Archives: flat maps of dotted names, kept in a safetensors file whose metadata has the values (as JSON text) and the flags. Start at
// OutputArchive::save_to and InputArchive::load_from; what modules and optimisers write is in checkpoint.cpp.
#include <cmath>
#include <istream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include "frit/serialize.h"
#include "frontend/files/elements.h"
#include "frontend/files/safetensors.h"

namespace frit::serialize {
namespace {

using Json = nlohmann::json;
constexpr const char* format_key = "format";
constexpr const char* format_name = "frit";
constexpr const char* values_key = "values";
constexpr const char* flags_key = "requires_grad";

// Shortest decimals give doubles back exactly; what is not finite is spelled out, since JSON lacks it.
Json to_json(const Value& value) {
  if (const double* d = std::get_if<double>(&value); d && !std::isfinite(*d)) return {{"double", std::isnan(*d) ? "nan" : *d > 0 ? "inf" : "-inf"}};
  return std::visit([](const auto& v) { return Json(v); }, value);
}
std::optional<Value> from_json(const Json& j) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number_unsigned()) {
    if (j.get<uint64_t>() > uint64_t(INT64_MAX)) return std::nullopt;
    return j.get<int64_t>();
  }
  if (j.is_number_integer()) return j.get<int64_t>();
  if (j.is_number_float()) return j.get<double>();
  if (j.is_string()) return j.get<std::string>();
  if (!j.is_object() || j.size() != 1 || !j.contains("double")) return std::nullopt;
  const Json& name = j["double"];
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (name == "inf") return infinity;
  if (name == "-inf") return -infinity;
  return std::nullopt;
}

// Nesting is bounded before the parser builds anything.
Json parse_flat(const std::string& text, const char* what, const std::string& source) {
  constexpr int deepest = 2;
  const auto shallow = [](int depth, Json::parse_event_t, Json&) {
    if (depth > deepest) throw FileError("nesting");
    return true;
  };
  try {
    return Json::parse(text, shallow);
  } catch (const std::exception&) {
    throw FileError("cannot read " + source + ": expected flat JSON as the metadata " + what);
  }
}

detail::Content content_of(const files::Source& source) {
  detail::Content c;
  c.source = source.name();
  StringMap metadata;
  c.tensors = files::read_safetensors(source, &metadata);
  if (const auto at = metadata.find(values_key); at != metadata.end() && metadata[format_key] == format_name) {
    const Json values = parse_flat(at->second, values_key, c.source);
    if (!values.is_object()) throw FileError("cannot read " + c.source + ": expected an object as the metadata values");
    for (const auto& [name, json] : values.items()) {
      const auto value = from_json(json);
      if (!value) throw FileError("cannot read " + c.source + ": value " + files::name_text(name) + " is no bool, number or text");
      c.values[name] = *value;
    }
  }
  if (const auto at = metadata.find(flags_key); at != metadata.end() && metadata[format_key] == format_name) {
    const Json flags = parse_flat(at->second, flags_key, c.source);
    if (!flags.is_array()) throw FileError("cannot read " + c.source + ": expected a list as the metadata requires_grad");
    for (const Json& name : flags) {
      const auto t = name.is_string() ? c.tensors.find(name.get<std::string>()) : c.tensors.end();
      if (t == c.tensors.end() || !t->second.is_floating_point()) throw FileError("cannot read " + c.source + ": the metadata requires_grad names what is no floating tensor");
      c.with_gradient.insert(name.get<std::string>());
    }
  }
  return c;
}

void write_content(files::Sink& sink, const detail::Content& c) {
  StringMap metadata{{format_key, format_name}};
  try {
    if (!c.values.empty()) {
      Json values = Json::object();
      for (const auto& [name, value] : c.values) values[name] = to_json(value);
      metadata[values_key] = values.dump();
    }
    if (!c.with_gradient.empty()) metadata[flags_key] = Json(c.with_gradient).dump();
  } catch (const Json::exception&) {
    throw ValueError("save: a name or a text is no UTF-8. Change it.");
  }
  files::write_safetensors(sink, c.tensors, metadata);
}

class StreamSink : public files::Sink {
 public:
  explicit StreamSink(std::ostream& stream) : stream_(stream) {}
  using Sink::write;
  void write(const void* bytes, uint64_t n) override {
    if (!stream_.write(static_cast<const char*>(bytes), std::streamsize(n))) throw FileError("save: the stream takes no more bytes. What it got so far is not complete.");
  }

 private:
  std::ostream& stream_;
};

}  // namespace

// ---- writing ------------------------------------------------------------------------------------------------------------
void OutputArchive::check_new(const std::string& key) const {
  if (content_.tensors.count(key) || content_.values.count(key)) throw ValueError("save: the archive has '" + key + "' already. Choose another name.");
}
void OutputArchive::put(const std::string& key, Value value) {
  check_new(key);
  content_.values[key] = std::move(value);
}
void OutputArchive::write(const std::string& key, const Tensor& tensor, bool) {
  check_new(key);
  if (!tensor.defined()) return;
  content_.tensors[key] = tensor;
  if (tensor.requires_grad()) content_.with_gradient.insert(key);
}
void OutputArchive::write(const std::string& key, const OutputArchive& nested) {
  const detail::Content copy = nested.content_;  // it may be this archive
  for (const auto& [name, t] : copy.tensors) write(key + "." + name, t);
  for (const auto& [name, v] : copy.values) put(key + "." + name, v);
}
void OutputArchive::save_to(const std::string& path) const {
  files::AtomicFile file(path);
  write_content(file, content_);
  file.commit();
}
void OutputArchive::save_to(std::ostream& stream) const {
  StreamSink sink(stream);
  write_content(sink, content_);
}

// ---- reading ------------------------------------------------------------------------------------------------------------
InputArchive::InputArchive() : content_(std::make_shared<detail::Content>()) {}
void InputArchive::load_from(const std::string& path) {
  content_ = std::make_shared<detail::Content>(content_of(files::Source::open(path)));
  prefix_.clear();
}
void InputArchive::load_from(const void* bytes, size_t size) {
  content_ = std::make_shared<detail::Content>(content_of(files::Source::memory("memory", bytes, size)));
  prefix_.clear();
}
void InputArchive::load_from(std::istream& stream) {
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  if (stream.bad()) throw FileError("load: the stream cannot be read");
  content_ = std::make_shared<detail::Content>(content_of(files::Source::memory("a stream", bytes.data(), bytes.size())));
  prefix_.clear();
}
void InputArchive::fail(const std::string& reason) const { throw FileError("load: " + content_->source + ": " + reason + "."); }

bool InputArchive::try_read(const std::string& key, Tensor& tensor, bool) {
  const std::string name = prefix_ + key;
  const auto at = content_->tensors.find(name);
  if (at == content_->tensors.end()) return false;
  const Tensor& stored = at->second;
  NoGradGuard no_grad;
  if (!tensor.defined()) {
    tensor = stored.clone();                // the archive may be read again
    tensor.requires_grad_(content_->with_gradient.count(name) != 0);
    return true;
  }
  if (tensor.sizes() != stored.sizes() || tensor.dtype() != stored.dtype())
    throw ShapeError("load: tensor '" + name + "' of " + content_->source + " is " + dtype_name(stored.dtype()) + " " + files::extents_text(stored.sizes().vec()) + ", the one to fill " +
                     dtype_name(tensor.dtype()) + " " + files::extents_text(tensor.sizes().vec()) + ". Build the same model, or convert it with to() first.");
  tensor.copy_(stored);
  return true;
}
void InputArchive::read(const std::string& key, Tensor& tensor, bool is_buffer) {
  if (!try_read(key, tensor, is_buffer)) {
    std::string names;
    for (const std::string& k : keys()) names += (names.empty() ? "" : ", ") + k;
    fail("it holds no tensor '" + prefix_ + key + "'. It has: " + (names.empty() ? "nothing" : names));
  }
}
bool InputArchive::try_read(const std::string& key, InputArchive& nested) const {
  const std::string prefix = prefix_ + key + ".";
  const auto inside = [&](const auto& map) {
    const auto at = map.lower_bound(prefix);
    return at != map.end() && at->first.compare(0, prefix.size(), prefix) == 0;
  };
  if (!inside(content_->tensors) && !inside(content_->values)) return false;
  nested.content_ = content_;
  nested.prefix_ = prefix;
  return true;
}
void InputArchive::read(const std::string& key, InputArchive& nested) const {
  if (!try_read(key, nested)) fail("it holds nothing under '" + prefix_ + key + "'");
}
bool InputArchive::try_read(const std::string& key, Value& value) const {
  const auto at = content_->values.find(prefix_ + key);
  if (at == content_->values.end()) return false;
  value = at->second;
  return true;
}
std::vector<std::string> InputArchive::keys() const {
  std::set<std::string> names;
  const auto add = [&](const auto& map) {
    for (auto at = map.lower_bound(prefix_); at != map.end() && at->first.compare(0, prefix_.size(), prefix_) == 0; ++at)
      names.insert(at->first.substr(prefix_.size(), at->first.find('.', prefix_.size()) - prefix_.size()));
  };
  add(content_->tensors);
  add(content_->values);
  return {names.begin(), names.end()};
}

}  // namespace frit::serialize
