// Reads a trace from its text (the form is described in text.cpp). Each line is scanned from left to right; what is not said
// has its usual value, so that the nodes are bit for bit those that were printed. Anything that cannot be a trace's text is a
// ValueError with the line and what was expected there. Blank lines and `#` comments are skipped. Start at parse_trace.
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>
#include "runtime/error.h"

#include "tracer/call_form.h"

namespace frit::tracer {

namespace {
constexpr size_t most_nodes = 1 << 20, most_sizes = 0xffff;

class Scanner {
 public:
  Scanner(std::string_view line, size_t number) : rest_(line), number_(number) {}
  [[noreturn]] void fail(const std::string& expected) {
    skip();
    const std::string found = rest_.empty() ? "the end of the line" : "\"" + std::string(rest_.substr(0, 24)) + "\"";
    throw ValueError("trace text, line " + std::to_string(number_) + ": expected " + expected + ", found " + found + ".");
  }
  bool at_end() {
    skip();
    return rest_.empty();
  }
  char peek() {
    skip();
    return rest_.empty() ? '\0' : rest_[0];
  }
  bool accept(std::string_view s) {
    skip();
    if (rest_.substr(0, s.size()) != s) return false;
    rest_.remove_prefix(s.size());
    return true;
  }
  void expect(std::string_view s) {
    if (!accept(s)) fail("\"" + std::string(s) + "\"");
  }
  std::string word() {  // of letters, digits and underscores
    skip();
    size_t n = 0;
    while (n < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[n])) || rest_[n] == '_')) ++n;
    const std::string w(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return w;
  }
  template <class T> T integer(const char* what, T low, T high) {
    skip();
    T v{};
    const bool hex = rest_.substr(0, 2) == "0x";
    const char* first = rest_.data() + (hex ? 2 : 0);
    const auto [end, error] = std::from_chars(first, rest_.data() + rest_.size(), v, hex ? 16 : 10);
    if (error != std::errc() || v < low || v > high) fail(what);
    rest_.remove_prefix(size_t(end - rest_.data()));
    return v;
  }
  int64_t whole(const char* what) { return integer<int64_t>(what, INT64_MIN, INT64_MAX); }
  uint64_t bits(const char* what) { return integer<uint64_t>(what, 0, UINT64_MAX); }
  uint64_t number(Category& c);  // of the user's, with its category

 private:
  void skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r')) rest_.remove_prefix(1);
  }
  std::string_view rest_;
  size_t number_;
};

uint64_t Scanner::number(Category& c) {
  c = Category::boolean;
  if (accept("true")) return 1;
  if (accept("false")) return 0;
  if (accept("boolean:")) return bits("the bits of a boolean");
  c = Category::floating;
  if (accept("floating:")) return bits("the bits of a float64");
  if (accept("nan")) return 0x7ff8000000000000;
  skip();
  const size_t length = std::min(rest_.find_first_not_of("0123456789+-.einf"), rest_.size());
  const std::string_view token = rest_.substr(0, length);
  const char *first = token.data(), *last = first + token.size();
  if (token.find_first_of(".ein") == std::string_view::npos) {
    c = Category::integer;
    int64_t v = 0;
    const auto [end, error] = std::from_chars(first, last, v);
    if (error != std::errc() || end != last) fail("a number");
    rest_.remove_prefix(length);
    return uint64_t(v);
  }
  double v = 0;
  const auto [end, error] = std::from_chars(first, last, v);
  if (error != std::errc() || end != last) fail("a number");
  rest_.remove_prefix(length);
  return __builtin_bit_cast(uint64_t, v);
}

class Parser {
 public:
  explicit Parser(Trace& t) : t_(t) { known_.assign(2, true); }
  void line(std::string_view text, size_t number);
  void finish(size_t lines);

 private:
  // One node's line. `given`: what a token said, over what follows from the rest of the line.
  struct Line {
    Node node;
    std::vector<uint64_t> words;  // of the node, in order
    std::vector<uint32_t> list;
    uint64_t category = 0;        // of a source's leading numbers
    std::optional<uint64_t> attr, kind, mode, flags, at, list_at, sizes, joins;
    std::optional<Dtype> compute;
    bool no_grad = false, in_place = false, new_leaf = false;
  };
  void node(Scanner& s);
  void result(Scanner& s, Result& r);
  SizeId size(Scanner& s);
  SizeId size_name(Scanner& s);
  uint32_t operand(Scanner& s) {
    if (t_.nodes.empty()) s.fail("no operand: this is the first node");
    s.expect("%");
    return s.integer<uint32_t>("an earlier node", 0, uint32_t(t_.nodes.size()) - 1);
  }
  uint32_t list_entry(Scanner& s) { s.expect("%"); return s.integer<uint32_t>("a node", 0, most_nodes - 1); }
  std::vector<uint32_t> node_list(Scanner& s, bool earlier);
  void operands(Scanner& s, Line& l);
  void arguments(Scanner& s, Line& l);
  void token(Scanner& s, Line& l);
  void axes(Scanner& s, Line& l);
  std::vector<int> fields(Scanner& s, int high);
  void complete(Scanner& s, Line& l);
  void place(Scanner& s, Line& l);
  static Dtype dtype(Scanner& s);
  void join(Scanner& s);

  Trace& t_;
  std::vector<bool> known_;  // by size id: its extent was seen
  uint32_t last_size_end_ = 2, last_join_end_ = 0;
};

Dtype Parser::dtype(Scanner& s) {
  const std::string w = s.word();
  for (int d = 0; d < dtype_count; ++d)
    if (w == dtype_short_name(Dtype(d))) return Dtype(d);
  s.fail("an element type (got \"" + w + "\")");
}
SizeId Parser::size_name(Scanner& s) {
  s.expect("s");
  return s.integer<SizeId>("a size id from 2", 2, most_sizes - 1);
}
SizeId Parser::size(Scanner& s) {
  if (s.peek() != 's') return s.integer<SizeId>("0, 1 or a size id", 0, 1);
  const SizeId id = size_name(s);
  const bool derived = s.accept("*");
  s.expect(":");
  const int64_t extent = s.integer<int64_t>("an extent below 2^60", 0, (int64_t(1) << 60) - 1);
  const uint16_t name = s.accept("@") ? axis_label(s.integer<uint16_t>("the number of an axis name", 1, UINT16_MAX), nullptr) : uint16_t(0);
  if (id >= t_.extent.size()) {
    known_.resize(size_t(id) + 1);
    t_.derived.resize(size_t(id) + 1), t_.name.resize(size_t(id) + 1);
    while (t_.extent.size() <= id) t_.parent.push_back(SizeId(t_.extent.size())), t_.extent.push_back(0);
  }
  if (known_[id] && t_.extent[id] != extent) s.fail("the extent " + std::to_string(t_.extent[id]) + " that s" + std::to_string(id) + " had before");
  if (known_[id] && (t_.derived[id] != derived || t_.name[id] != name)) s.fail("s" + std::to_string(id) + " as it was before, with or without \"*\" and name, before this");
  known_[id] = true, t_.extent[id] = extent, t_.derived[id] = derived, t_.name[id] = name;
  return id;
}
void Parser::result(Scanner& s, Result& r) {
  r.dtype = dtype(s);
  s.expect("[");
  while (!s.accept("]")) {
    if (r.rank) s.expect(",");
    if (r.rank == max_rank) s.fail("\"]\" after 8 extents");
    r.size[r.rank++] = size(s);
  }
}
std::vector<uint32_t> Parser::node_list(Scanner& s, bool earlier) {
  std::vector<uint32_t> list;
  s.expect("[");
  while (!s.accept("]")) {
    if (!list.empty()) s.expect(",");
    list.push_back(earlier ? operand(s) : list_entry(s));
  }
  return list;
}
void Parser::operands(Scanner& s, Line& l) {
  Call& c = l.node.call;
  const OpRow& r = row(c.op);
  if (r.inputs < 0) {
    l.list = node_list(s, true);
    return;
  }
  for (int k = 0; k < r.inputs; ++k) {
    if (k) s.expect(",");
    if (s.peek() == '%') {
      c.in[k] = operand(s);
    } else if (r.kind == RowKind::pointwise) {
      Category category;
      l.words.push_back(s.number(category));
      c.in[k] = scalar_operand;
      c.kind |= uint8_t(uint8_t(category) << (2 * k));
    } else s.fail("an operand");
  }
}
void Parser::arguments(Scanner& s, Line& l) {
  const Op op = l.node.call.op;
  if (row(op).kind == RowKind::pointwise || !s.accept("(")) return;
  for (int k = 0; !s.accept(")"); ++k) {
    if (k) s.expect(",");
    if (k < leading_numbers(op)) {
      Category category;
      l.words.push_back(s.number(category));
      if (k && uint64_t(category) != l.category) s.fail("numbers of one category before this");
      l.category = uint64_t(category);
    } else if (k == 0 && op == Op::write_view && std::isalpha(static_cast<unsigned char>(s.peek()))) {
      const Op recipe = find_op(s.word().c_str());
      if (recipe == Op::count) s.fail("an op");
      l.words.push_back(uint64_t(recipe) | (s.accept(":") ? s.integer<uint64_t>("a kind", 1, 255) << 16 : 0));
    } else l.words.push_back(uint64_t(s.whole("a whole number")));
  }
}
std::vector<int> Parser::fields(Scanner& s, int high) {
  std::vector<int> v;
  s.expect("[");
  while (!s.accept("]")) {
    if (!v.empty()) s.expect(",");
    if (v.size() == max_rank) s.fail("\"]\" after 8 axes");
    v.push_back(s.integer<int>("an axis", 0, high));
  }
  return v;
}
uint64_t packed(const std::vector<int>& v) {
  uint64_t bits = 0;
  for (size_t i = 0; i < v.size(); ++i) bits |= uint64_t(v[i]) << (4 * i);
  return bits;
}
void Parser::axes(Scanner& s, Line& l) {
  const AttrForm form = attr_form(l.node.call.op);
  const std::vector<int> v = fields(s, form == AttrForm::mask ? max_rank - 1 : 15);
  if (form == AttrForm::mask) {
    uint64_t bits = 0;
    for (int i : v) bits |= uint64_t(1) << i;
    l.attr = bits;
  } else if (form == AttrForm::pair ? v.size() == 2 : form == AttrForm::permutation && v.size() == l.node.result.rank) {
    l.attr = packed(v);
  } else s.fail("no such axes of " + std::string(op_name(l.node.call.op)) + " before this");
}
void Parser::token(Scanner& s, Line& l) {
  const Op op = l.node.call.op;
  const std::string w = s.word();
  const AttrForm form = attr_form(op);
  const KindForm kind = kind_form(op);
  if (w == "no_grad") l.no_grad = true;
  else if (w == "in_place") l.in_place = true;
  else if (w == "new_leaf") l.new_leaf = true;
  else if (w == "grad") l.flags = wants_grad;
  else if (w == "contiguous" && form == AttrForm::contiguous) l.attr = 1;
  else if (w == "keepdim" && kind == KindForm::keepdim) l.kind = 1;
  else if (w == "descending" && kind == KindForm::descending) l.kind = 1;
  else {
    s.expect("=");
    if (w == "axis" && form == AttrForm::axis) l.attr = s.integer<uint64_t>("an axis", 0, max_rank - 1);
    else if (w == "axes") axes(s, l);
    else if (w == "groups" && form == AttrForm::groups) {
      const uint64_t in = packed(fields(s, 15));
      s.expect("->");
      l.attr = packed(fields(s, 15)) | in << 32;
    } else if (w == "attr") l.attr = s.bits("the bits of attr");
    else if (w == "kind") l.kind = s.integer<uint64_t>("a kind", 0, 255);
    else if (w == "mode") l.mode = s.integer<uint64_t>("a mode", 0, 255);
    else if (w == "flags") l.flags = s.integer<uint64_t>("flags", 0, 255);
    else if (w == "compute") l.compute = dtype(s);
    else if (w == "at") l.at = s.integer<uint64_t>("a slot of the arguments", 0, UINT32_MAX);
    else if (w == "list") l.list_at = s.integer<uint64_t>("a slot of the lists", 0, t_.lists.size());
    else if (w == "sizes") l.sizes = s.integer<uint64_t>("a number of size ids", 0, most_sizes);
    else if (w == "joins") l.joins = s.integer<uint64_t>("a number of joins", 0, most_sizes);
    else s.fail("another word than \"" + w + "\" before this");
  }
}
// What follows from the rest of the line.
void Parser::complete(Scanner& s, Line& l) {
  Call& c = l.node.call;
  Result& r = l.node.result;
  r.flags = uint8_t(l.flags.value_or(0));
  r.compute = l.compute.value_or(c.op == Op::leaf ? r.dtype : compute_dtype(r.dtype));
  switch (attr_form(c.op)) {
    case AttrForm::leaf: c.attr = uint64_t(r.rank) | uint64_t(r.flags == wants_grad) << 8; break;
    case AttrForm::source: c.attr = uint64_t(r.rank) | l.category << 8; break;
    case AttrForm::rank: c.attr = r.rank; break;
    case AttrForm::none:
    case AttrForm::attention:
    case AttrForm::contiguous: break;
    default:
      if (!l.attr) s.fail("the axes of " + std::string(op_name(c.op)));
  }
  c.attr = l.attr.value_or(c.attr);
  if (kind_form(c.op) == KindForm::dtype) c.kind = uint8_t(r.dtype);
  if (kind_form(c.op) == KindForm::rank) c.kind = r.rank;
  c.kind = uint8_t(l.kind.value_or(c.kind));
  c.mode = uint8_t(l.mode.value_or((c.op == Op::leaf || l.no_grad ? 0 : grad_mode) | (l.in_place ? in_place : 0) | (l.new_leaf ? new_leaf : 0)));
  for (int i = 0; i < r.rank; ++i) last_size_end_ = std::max<uint32_t>(last_size_end_, r.size[i] + 1);
  r.size_end = uint16_t(last_size_end_ = uint32_t(l.sizes.value_or(last_size_end_)));
  r.join_end = uint16_t(last_join_end_ = uint32_t(l.joins.value_or(last_join_end_)));
}
// Puts the node's words and list entries in their slots.
void Parser::place(Scanner& s, Line& l) {
  Call& c = l.node.call;
  if (row(c.op).inputs < 0) {
    const size_t first = size_t(l.list_at.value_or(t_.lists.size())), here = std::min(l.list.size(), t_.lists.size() - first);
    if (!std::equal(l.list.begin(), l.list.begin() + std::ptrdiff_t(here), t_.lists.begin() + std::ptrdiff_t(first))) s.fail("the list entries that stand in those slots already");
    t_.lists.insert(t_.lists.end(), l.list.begin() + std::ptrdiff_t(here), l.list.end());
    c.in[0] = uint32_t(first), c.in[1] = uint32_t(l.list.size());
  }
  c.arg = uint32_t(l.at.value_or(usual_slot(c.op, l.words.size(), t_.args.size())));
  if (l.words.empty()) return;
  if (c.arg > t_.args.size()) s.fail("a slot that follows the arguments before it");
  const size_t here = std::min(l.words.size(), t_.args.size() - c.arg);
  if (!std::equal(l.words.begin(), l.words.begin() + std::ptrdiff_t(here), t_.args.begin() + c.arg)) s.fail("the arguments that stand in those slots already");
  t_.args.insert(t_.args.end(), l.words.begin() + std::ptrdiff_t(here), l.words.end());
}
void Parser::node(Scanner& s) {
  if (t_.nodes.size() == most_nodes) s.fail("no more nodes");
  s.expect("%");
  s.integer<size_t>(("node number " + std::to_string(t_.nodes.size())).c_str(), t_.nodes.size(), t_.nodes.size());
  s.expect("=");
  Line l{};
  const std::string name = s.word();
  l.node.call.op = find_op(name.c_str());
  if (l.node.call.op == Op::count) s.fail("an op (there is none named \"" + name + "\")");
  result(s, l.node.result);
  operands(s, l);
  arguments(s, l);
  while (!s.at_end()) token(s, l);
  complete(s, l);
  place(s, l);
  t_.nodes.push_back(l.node);
  const uint32_t n = uint32_t(t_.nodes.size() - 1);
  const size_t wanted = argument_count(t_, n);
  if (wanted != l.words.size()) s.fail(std::to_string(wanted) + " arguments of " + name + " (there are " + std::to_string(l.words.size()) + ")");
}
void Parser::join(Scanner& s) {
  const SizeId from = size_name(s);
  s.expect("=");
  const SizeId to = size_name(s);
  if (from >= t_.extent.size() || to >= from || !known_[from] || !known_[to] || t_.parent[from] != from || t_.extent[from] != t_.extent[to])
    s.fail("a join of two size ids of one extent, the later first, before this");
  t_.parent[from] = to;
  ++t_.joins;
}
void Parser::line(std::string_view text, size_t number) {
  Scanner s(text.substr(0, text.find('#')), number);
  if (s.at_end()) return;
  if (s.peek() == '%') node(s);
  else if (s.accept("words")) {
    s.expect("(");
    for (bool first = true; !s.accept(")"); first = false) {
      if (!first) s.expect(",");
      t_.args.push_back(uint64_t(s.whole("a whole number")));
    }
  } else if (s.accept("nodes")) {
    const std::vector<uint32_t> more = node_list(s, false);
    t_.lists.insert(t_.lists.end(), more.begin(), more.end());
  } else if (s.accept("size")) size(s);
  else if (s.accept("join")) join(s);
  else s.fail("\"%\", \"words\", \"nodes\", \"size\" or \"join\"");
  if (!s.at_end()) s.fail("the end of the line");
}
void Parser::finish(size_t lines) {
  for (size_t id = 2; id < known_.size(); ++id)
    if (!known_[id]) Scanner("", lines).fail("the extent of size id s" + std::to_string(id));
  t_.value.assign(t_.nodes.size(), nullptr);
  t_.owner.assign(t_.nodes.size(), nullptr);
}

}  // namespace

std::unique_ptr<Trace, void (*)(Trace*)> parse_trace(const std::string& s) {
  std::unique_ptr<Trace, void (*)(Trace*)> t(new_trace(), [](Trace* dead) { release(dead); });
  Parser parser(*t);
  size_t number = 0;
  for (size_t at = 0; at < s.size();) {
    const size_t end = std::min(s.find('\n', at), s.size());
    parser.line(std::string_view(s).substr(at, end - at), ++number);
    at = end + 1;
  }
  parser.finish(number);
  return t;
}

}  // namespace frit::tracer
