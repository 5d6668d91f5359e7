// The header of a safetensors file. It is parsed as events (nlohmann's SAX), so that memory grows with what is there and every error
// knows its byte. HeaderEvents is a small machine over the five places that the format has; start at read_safetensors_header.
#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include "frontend/files/elements.h"
#include "frontend/files/safetensors.h"

namespace frit::files {
namespace {

constexpr uint64_t longest_header = 100'000'000;  // as in the format's own library
constexpr uint64_t header_at = 8;

// Reads the header's text and says how far the parser came.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  CountingIterator(const char* p, const char** seen) : p_(p), seen_(seen) {}
  reference operator*() const { return *p_; }
  CountingIterator& operator++() {
    *seen_ = ++p_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& o) const { return p_ == o.p_; }
  bool operator!=(const CountingIterator& o) const { return p_ != o.p_; }

 private:
  const char* p_;
  const char** seen_;
};

struct NamedDtype {
  const char* name;
  Dtype dtype;
};
constexpr std::array<NamedDtype, dtype_count> dtypes{{{"BOOL", kBool}, {"U8", kUInt8}, {"I8", kInt8}, {"I16", kInt16}, {"I32", kInt32}, {"I64", kInt64},
                                                      {"F16", kFloat16}, {"BF16", kBFloat16}, {"F32", kFloat32}, {"F64", kFloat64}}};

class HeaderEvents {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  HeaderEvents(const Source& source, SafetensorsHeader& header, const char* begin, const char* const* seen)
      : source_(source), header_(header), begin_(begin), seen_(seen) {}

  bool start_object(size_t) {
    if (place_ == Place::outside) place_ = Place::names;
    else if (place_ == Place::value_of_name) start_entry();
    else unexpected("an object");
    return true;
  }
  bool key(string_t& text) {
    key_ = text;
    if (place_ == Place::names) {
      if (!names_.insert(text).second) fail("the name " + name_text(text) + " is there twice");
      place_ = Place::value_of_name;
    } else if (place_ == Place::metadata) {
      if (header_.metadata.count(text)) fail("the metadata has " + name_text(text) + " twice");
    } else {
      const uint8_t bit = text == "dtype" ? 1 : text == "shape" ? 2 : text == "data_offsets" ? 4 : 0;
      if (!bit) fail("expected dtype, shape or data_offsets of tensor " + name_text(entry_.name) + ", found " + name_text(text));
      if (given_ & bit) fail("tensor " + name_text(entry_.name) + " has two of " + text);
      given_ |= bit;
    }
    return true;
  }
  bool end_object() {
    if (place_ == Place::entry) {
      if (given_ != 7) fail("tensor " + name_text(entry_.name) + " lacks " + (given_ & 1 ? given_ & 2 ? "data_offsets" : "shape" : "dtype"));
      entry_.header_at = position();
      header_.entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::names ? Place::outside : Place::names;
    return true;
  }
  bool string(string_t& text) {
    if (place_ == Place::metadata) header_.metadata[key_] = std::move(text);
    else if (place_ == Place::entry && key_ == "dtype") entry_.dtype = dtype_of(text);
    else unexpected("a text");
    return true;
  }
  bool start_array(size_t) {
    if (place_ != Place::entry || key_ == "dtype") unexpected("a list");
    place_ = Place::list;
    offsets_ = 0;
    return true;
  }
  bool end_array() {
    if (key_ == "data_offsets" && offsets_ != 2) fail("data_offsets of tensor " + name_text(entry_.name) + " needs two numbers, begin and end");
    place_ = Place::entry;
    return true;
  }
  bool number_unsigned(number_unsigned_t n) {
    if (place_ != Place::list) unexpected("a number");
    if (key_ == "shape") {
      if (n > uint64_t(INT64_MAX)) fail("an extent of tensor " + name_text(entry_.name) + " is too large");
      if (entry_.extents.size() == max_axes) fail("tensor " + name_text(entry_.name) + " has more than 8 axes");
      entry_.extents.push_back(int64_t(n));
    } else {
      if (offsets_ == 2) fail("data_offsets of tensor " + name_text(entry_.name) + " needs two numbers, begin and end");
      (offsets_++ ? entry_.end : entry_.begin) = n;
    }
    return true;
  }
  bool number_integer(number_integer_t) { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) { unexpected("a fraction or a number that is too large"); }
  bool boolean(bool) { unexpected("true or false"); }
  bool null() { unexpected("null"); }
  bool binary(binary_t&) { unexpected("bytes"); }
  bool parse_error(size_t, const std::string& last_token, const nlohmann::json::exception&) {
    fail("the header is no JSON near " + name_text(last_token));
  }

 private:
  enum class Place : uint8_t { outside, names, value_of_name, metadata, entry, list };

  uint64_t position() const { return header_at + uint64_t(*seen_ - begin_); }
  [[noreturn]] void fail(const std::string& reason) const { source_.fail(position(), reason); }
  [[noreturn]] void unexpected(const char* what) const {
    static constexpr const char* expected[] = {"an object", "a name", "an object with dtype, shape and data_offsets", "a text as metadata",
                                               "a text as dtype and lists as shape and data_offsets", "a whole number, 0 or more"};
    fail(std::string("expected ") + expected[size_t(place_)] + ", found " + what);
  }
  void start_entry() {
    if (key_ == "__metadata__") {
      place_ = Place::metadata;
      return;
    }
    entry_ = {};
    entry_.name = key_;
    given_ = 0;
    place_ = Place::entry;
  }
  Dtype dtype_of(const std::string& text) const {
    for (const NamedDtype& d : dtypes)
      if (text == d.name) return d.dtype;
    fail("tensor " + name_text(entry_.name) + " has dtype " + name_text(text) + ", which Frit lacks: expected BOOL, U8, I8, I16, I32, I64, F16, BF16, F32 or F64");
  }

  const Source& source_;
  SafetensorsHeader& header_;
  const char* begin_;
  const char* const* seen_;
  Place place_ = Place::outside;
  std::set<std::string> names_;
  std::string key_;
  SafetensorsEntry entry_;
  uint8_t given_ = 0;
  int offsets_ = 0;
};

// The entries follow each other without gaps or overlaps, each as long as its shape says, up to the end of the file.
void check_entries(const Source& source, SafetensorsHeader& header) {
  auto& entries = header.entries;
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  const uint64_t available = source.size() - header.elements_at;
  uint64_t next = 0;
  for (const SafetensorsEntry& e : entries) {
    const auto fail = [&](const std::string& reason) { source.fail(e.header_at, "tensor " + name_text(e.name) + " " + reason); };
    if (e.end < e.begin) fail("ends at " + std::to_string(e.end) + ", before its begin at " + std::to_string(e.begin));
    if (e.end > available) fail("ends at " + std::to_string(e.end) + ", but the file has only " + std::to_string(available) + " bytes of elements");
    if (e.begin < next) fail("begins at " + std::to_string(e.begin) + ", inside the tensor before it, which ends at " + std::to_string(next));
    if (e.begin > next) fail("begins at " + std::to_string(e.begin) + ", but the tensor before it ends at " + std::to_string(next) + ": no gaps are allowed");
    const auto bytes = byte_count(e.extents, e.dtype);
    if (!bytes || *bytes != e.end - e.begin)
      fail("of shape " + extents_text(e.extents) + " and type " + dtype_name(e.dtype) + " needs " + (bytes ? std::to_string(*bytes) : "more than 2^63") +
           " bytes, its data_offsets give it " + std::to_string(e.end - e.begin));
    next = e.end;
  }
  if (next != available) source.fail(header.elements_at + next, "here the last tensor ends, but " + std::to_string(available - next) + " more bytes follow");
}

}  // namespace

SafetensorsHeader read_safetensors_header(const Source& source) {
  uint8_t raw[8];
  source.read(0, raw, 8, "the header's length");
  uint64_t length = 0;
  for (int i = 8; i-- > 0;) length = length << 8 | raw[i];
  if (length > longest_header || length > source.size() - header_at)
    source.fail(0, "the header should have " + std::to_string(length) + " bytes, but " +
                       (length > longest_header ? "at most 100000000 are allowed" : "only " + std::to_string(source.size() - header_at) + " follow"));
  std::string text(length, '\0');
  source.read(header_at, text.data(), length, "the header");
  if (text.empty() || text[0] != '{') source.fail(header_at, "expected { as the header's beginning");

  SafetensorsHeader header;
  header.elements_at = header_at + length;
  const char* begin = text.data();
  const char* seen = begin;
  HeaderEvents events(source, header, begin, &seen);
  nlohmann::json::sax_parse(CountingIterator(begin, &seen), CountingIterator(begin + length, &seen), &events);
  // The parser takes a zero byte for the end.
  if (const size_t zero = text.find('\0'); zero != text.npos) source.fail(header_at + zero, "the header holds a zero byte");
  check_entries(source, header);
  return header;
}

}  // namespace frit::files
