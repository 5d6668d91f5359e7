// The header of npy files. The text is a literal Python dictionary with the keys descr, fortran_order and shape; Literal reads that much
// of Python and no more, and says at which byte it stopped. Start at parse_npy_dictionary.
#include <cctype>
#include "frontend/files/elements.h"
#include "frontend/files/npy.h"

namespace frit::files {
namespace {

class Literal {
 public:
  Literal(const std::string& text, const Stream& in, uint64_t at) : text_(text), in_(in), start_(at) {}

  [[noreturn]] void fail(const std::string& reason) const { in_.fail(start_ + at_, reason); }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    const bool there = peek() == c && at_ < text_.size();
    at_ += there;
    return there;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected ") + c + " in the header" + found());
  }
  std::string string(const char* what) {
    const char quote = peek();
    if (quote == '[' || quote == '(') fail(std::string("expected a text as ") + what + ": structured arrays are not read, save their fields one by one");
    if (quote != '\'' && quote != '"') fail(std::string("expected a text as ") + what + found());
    const size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) fail(std::string("the text of ") + what + " does not end");
    const std::string s = text_.substr(at_ + 1, end - at_ - 1);
    if (s.find_first_of("\\\n") != s.npos) fail(std::string("the text of ") + what + " holds a backslash or line end");
    at_ = end + 1;
    return s;
  }
  bool boolean(const char* what) {
    peek();
    for (const bool value : {false, true}) {
      const std::string word = value ? "True" : "False";
      if (text_.compare(at_, word.size(), word) == 0 && !name_goes_on(at_ + word.size())) {
        at_ += word.size();
        return value;
      }
    }
    fail(std::string("expected True or False as ") + what + found());
  }
  int64_t extent() {
    const char first = peek();
    if (first < '0' || first > '9') fail("expected an extent, a whole number of 0 or more" + found());
    int64_t n = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, text_[at_] - '0', &n)) fail("the extent is too large");
    if (first == '0' && at_ - begin > 1) fail("an extent begins with 0");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2's long numbers
    if (name_goes_on(at_)) fail("expected an extent, a whole number of 0 or more");
    return n;
  }
  std::vector<int64_t> tuple() {
    expect('(');
    std::vector<int64_t> extents;
    bool comma = true;
    while (!take(')')) {
      if (!comma) fail("expected , or ) in the shape" + found());
      if (extents.size() == max_axes) fail("the array has more than 8 axes");
      extents.push_back(extent());
      comma = take(',');
    }
    if (extents.size() == 1 && !comma) fail("expected a comma: (n) is no tuple");
    return extents;
  }
  void end() {
    peek();
    if (at_ < text_.size()) fail("the header goes on after its dictionary");
  }

 private:
  bool name_goes_on(size_t i) const { return i < text_.size() && (std::isalnum(uint8_t(text_[i])) || text_[i] == '_' || text_[i] == '.'); }
  std::string found() {
    peek();
    return at_ < text_.size() ? ", found " + name_text(text_.substr(at_, 16)) : ", found its end";
  }

  const std::string& text_;
  const Stream& in_;
  uint64_t start_;
  size_t at_ = 0;
};

struct Kind {
  const char* text;
  Dtype dtype;
};
constexpr Kind kinds[] = {{"b1", kBool}, {"?", kBool}, {"u1", kUInt8}, {"B", kUInt8}, {"i1", kInt8}, {"b", kInt8}, {"i2", kInt16}, {"i4", kInt32}, {"i8", kInt64},
                          {"f2", kFloat16}, {"f4", kFloat32}, {"f8", kFloat64}, {"V2", kBFloat16}};

void set_type(NpyHeader& header, const std::string& descr, const Literal& in) {
  const bool marked = !descr.empty() && std::string("<>|=").find(descr[0]) != std::string::npos;
  const std::string kind = marked ? descr.substr(1) : descr;
  for (const Kind& k : kinds)
    if (kind == k.text) {
      header.dtype = k.dtype;
      header.reversed_bytes = descr[0] == '>' && size_of(k.dtype) > 1;
      return;
    }
  const char c = kind.empty() ? '\0' : kind[0];
  const std::string type = "the array has type " + name_text(descr);
  if (c == 'O') in.fail(type + ": Python objects are not read, since their pickles can run code. Save numbers");
  if (c == 'u') in.fail(type + ", which Frit lacks. Save it as a signed integer, or as uint8");
  if (c == 'c') in.fail(type + ", complex numbers, which Frit lacks. Save real and imaginary parts");
  if (c == 'U' || c == 'S' || c == 'a') in.fail(type + ", which is text. Save numbers");
  if (c == 'M' || c == 'm') in.fail(type + ", which is time. Save it as int64");
  in.fail(type + ": expected bool, uint8, int8 to int64, float16 to float64");
}

}  // namespace

NpyHeader parse_npy_dictionary(const std::string& text, const Stream& stream, uint64_t at) {
  Literal in(text, stream, at);
  NpyHeader header;
  uint8_t given = 0;
  in.expect('{');
  for (bool comma = true; !in.take('}');) {
    if (!comma) in.fail("expected , or } in the header");
    const std::string key = in.string("a key");
    const uint8_t bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
    if (!bit) in.fail("expected the keys descr, fortran_order and shape, found " + name_text(key));
    if (given & bit) in.fail("the key " + key + " is there twice");
    given |= bit;
    in.expect(':');
    if (bit == 1) set_type(header, in.string("descr"), in);
    else if (bit == 2) header.fortran_order = in.boolean("fortran_order");
    else header.extents = in.tuple();
    comma = in.take(',');
  }
  if (given != 7) in.fail("the header lacks " + std::string(given & 1 ? given & 2 ? "shape" : "fortran_order" : "descr"));
  in.end();
  return header;
}

std::string npy_header(const Tensor& t) {
  static constexpr const char* descr[dtype_count] = {"|b1", "|u1", "|i1", "<i2", "<i4", "<i8", "<f2", "<V2", "<f4", "<f8"};
  std::string text = std::string("{'descr': '") + descr[size_t(t.dtype())] + "', 'fortran_order': False, 'shape': (";
  for (int64_t i = 0; i < t.dim(); ++i) text += (i ? ", " : "") + std::to_string(t.size(i));
  text += t.dim() == 1 ? ",), }" : "), }";
  constexpr size_t widest_extent = 21;  // NumPy leaves room for an array that grows in its first axis
  if (t.dim()) text.append(widest_extent - std::to_string(t.size(0)).size(), ' ');
  constexpr size_t preamble = 10, alignment = 64;
  text.append(alignment - (preamble + text.size() + 1) % alignment, ' ');
  text += '\n';
  const char start[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, char(text.size()), char(text.size() >> 8)};
  return std::string(start, preamble) + text;
}

}  // namespace frit::files
