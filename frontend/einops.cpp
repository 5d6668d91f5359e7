// einops. A pattern's sides are lists of composed axes, each a list of elementary ones. The input is reshaped to its
// elementary axes, reduced over those that the right side lacks, permuted to the right side's order, expanded by its new
// axes and reshaped to its compositions. Start at transform.
#include "frit/einops.h"
#include <algorithm>
#include "frontend/detail.h"
#include "runtime/error.h"

namespace frit {

using namespace detail;

namespace {
enum class Operation : uint8_t { rearrange, reduce, repeat };

struct Axis {
  std::string name;        // empty: without a name
  int64_t number = -1;     // of an axis without a name
  bool is(const Axis& o) const { return !name.empty() && name == o.name; }
  std::string text() const { return name.empty() ? std::to_string(number) : name; }
};
struct Composed {
  std::vector<Axis> axes;  // none: an axis of extent 1
  bool ellipsis = false, parentheses = false;
};
struct Side {
  std::vector<Composed> composed;
  bool has_ellipsis = false;
};

// ---- parsing --------------------------------------------------------------------------------------------------------------
struct Context {
  const char* function;
  const std::string& pattern;
  std::string shape;
  template <class E = ValueError> [[noreturn]] void fail(const std::string& why) const {
    throw E(std::string(function) + "(\"" + pattern + "\")" + (shape.empty() ? "" : " on shape " + shape) + ": " + why);
  }
};
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(const Context& c, const std::string& text) : c_(c), text_(text) {}
  Side parse();

 private:
  void axis(const std::string& word);
  void put(const Axis& a);
  const Context& c_;
  const std::string& text_;
  Side side_;
  bool open_ = false;
};
void Parser::put(const Axis& a) {
  if (!a.name.empty())
    for (const Composed& p : side_.composed)
      for (const Axis& o : p.axes)
        if (o.is(a)) c_.fail("axis \"" + a.name + "\" stands twice on one side. Name each axis once.");
  if (!open_) side_.composed.push_back({});
  if (!(a.name.empty() && a.number == 1)) side_.composed.back().axes.push_back(a);
}
void Parser::axis(const std::string& word) {
  if (digit(word[0])) {
    if (!std::all_of(word.begin(), word.end(), digit)) c_.fail("\"" + word + "\" is no name of an axis: a name does not begin with a digit.");
    if (word.size() > 15) c_.fail("the number " + word + " is too large for an extent.");
    const int64_t n = std::stoll(word);
    if (n == 0) c_.fail("an axis without a name has extent 0. Give 1 or more.");
    return put({"", n});
  }
  if (word[0] == '_' || word.back() == '_') c_.fail("\"" + word + "\" is no name of an axis: a name neither begins nor ends with an underscore.");
  put({word, -1});
}
Side Parser::parse() {
  for (size_t i = 0; i < text_.size();) {
    const char ch = text_[i];
    if (ch == ' ') {
      ++i;
    } else if (ch == '(') {
      if (open_) c_.fail("parentheses stand in parentheses. Axes are composed on one level only.");
      open_ = true, ++i;
      side_.composed.push_back({});
      side_.composed.back().parentheses = true;
    } else if (ch == ')') {
      if (!open_) c_.fail("a ')' has no '('. Balance the parentheses.");
      open_ = false, ++i;
    } else if (ch == '.') {
      if (text_.compare(i, 3, "...") != 0) c_.fail("a '.' is not part of an ellipsis. Write three dots, \"...\".");
      if (side_.has_ellipsis) c_.fail("one side has more than one ellipsis. Write \"...\" once per side.");
      side_.has_ellipsis = true;
      if (!open_) side_.composed.push_back({});
      side_.composed.back().ellipsis = true;
      side_.composed.back().axes.push_back({"...", -1});
      i += 3;
    } else if (letter(ch) || digit(ch)) {
      size_t end = i;
      while (end < text_.size() && (letter(text_[end]) || digit(text_[end]))) ++end;
      axis(text_.substr(i, end - i));
      i = end;
    } else {
      c_.fail(std::string("unknown character '") + ch + "'. Patterns are made of names, numbers, parentheses and \"...\".");
    }
  }
  if (open_) c_.fail("a '(' has no ')'. Balance the parentheses.");
  return side_;
}

// ---- checks ---------------------------------------------------------------------------------------------------------------
bool contains(const Side& s, const Axis& a) {
  for (const Composed& p : s.composed)
    for (const Axis& o : p.axes)
      if (o.is(a)) return true;
  return false;
}
std::string missing(const Side& from, const Side& in, bool names, bool numbers) {
  std::string s;
  for (const Composed& p : from.composed)
    for (const Axis& a : p.axes)
      if (a.name.empty() ? numbers : names && a.name != "..." && !contains(in, a)) s += (s.empty() ? "" : ", ") + a.text();
  return s;
}
void check_sides(const Context& c, Operation op, const Side& left, const Side& right, const AxisSizes& sizes) {
  if (right.has_ellipsis && !left.has_ellipsis) c.fail("the right side has an ellipsis, the left side none. Write \"...\" on both.");
  if (op == Operation::rearrange && left.has_ellipsis != right.has_ellipsis) c.fail("the left side has an ellipsis, the right side none. Write \"...\" on both.");
  for (const Composed& p : left.composed)
    if (p.ellipsis && p.parentheses) c.fail("an ellipsis stands in parentheses on the left side. That is possible on the right only.");
  const std::string only_left = missing(left, right, true, op != Operation::reduce), only_right = missing(right, left, true, op != Operation::repeat);
  switch (op) {
    case Operation::rearrange: {
      const std::string left_numbers = missing(left, right, false, true), right_numbers = missing(right, left, false, true);
      const std::string numbers = left_numbers + (left_numbers.empty() || right_numbers.empty() ? "" : ", ") + right_numbers;
      if (!numbers.empty()) c.fail("axes without a name (" + numbers + ") cannot be rearranged, except those of extent 1. Give them names.");
      if (!only_left.empty() || !only_right.empty())
        c.fail("axes stand on one side only: " + only_left + (only_left.empty() || only_right.empty() ? "" : ", ") + only_right + ". Name each on both sides; use einops_reduce or einops_repeat to drop or add axes.");
      break;
    }
    case Operation::reduce:
      if (!only_right.empty()) c.fail("axes of the right side are not on the left: " + only_right + ". A reduction only drops axes.");
      break;
    case Operation::repeat: {
      if (!only_left.empty()) c.fail("axes of the left side are not on the right: " + only_left + ". A repetition only adds axes.");
      std::string unsized;
      for (const Composed& p : right.composed)
        for (const Axis& a : p.axes)
          if (!a.name.empty() && a.name != "..." && !contains(left, a) && std::none_of(sizes.begin(), sizes.end(), [&](const auto& s) { return s.first == a.name; }))
            unsized += (unsized.empty() ? "" : ", ") + a.name;
      if (!unsized.empty()) c.fail("the new axes have no size: " + unsized + ". Give their sizes.");
      break;
    }
  }
  for (const auto& [name, size] : sizes) {
    if (!contains(left, {name, -1}) && !contains(right, {name, -1})) c.fail("a size is given for axis \"" + name + "\", which is not in the pattern.");
    if (size < 0) c.fail("the size " + std::to_string(size) + " of axis \"" + name + "\" is negative.");
  }
}

// ---- extents -----------------------------------------------------------------------------------------------------------------
struct Elementary {
  Axis axis;
  int64_t extent = -1;
};
const int64_t* given_size(const AxisSizes& sizes, const Axis& a) {
  for (const auto& [name, size] : sizes)
    if (name == a.name && !a.name.empty()) return &size;
  return nullptr;
}
// The ellipsis of both sides becomes axes named ".0", ".1", …
void spread_ellipsis(Side& s, int64_t count) {
  std::vector<Composed> out;
  for (Composed& p : s.composed) {
    if (!p.ellipsis) {
      out.push_back(p);
      continue;
    }
    std::vector<Axis> axes;
    for (const Axis& a : p.axes) {
      if (a.name != "...") axes.push_back(a);
      else
        for (int64_t k = 0; k < count; ++k) axes.push_back({"." + std::to_string(k), -1});
    }
    if (p.parentheses) {
      out.push_back({axes, false, true});
    } else {
      for (const Axis& a : axes) out.push_back({{a}, false, false});
    }
  }
  s.composed = out;
}
std::vector<Elementary> elementary_axes(const Context& c, const Side& left, IntArrayRef shape, const AxisSizes& sizes) {
  std::vector<Elementary> all;
  for (size_t i = 0; i < left.composed.size(); ++i) {
    const Composed& p = left.composed[i];
    int64_t known = 1;
    std::vector<std::string> unknown;
    const size_t first = all.size();
    size_t open = 0;
    for (const Axis& a : p.axes) {
      Elementary e{a, a.number};
      if (const int64_t* s = given_size(sizes, a)) e.extent = *s;
      if (e.extent == -1) unknown.push_back(a.name), open = all.size();
      else known *= e.extent;
      all.push_back(e);
    }
    const std::string place = "axis " + std::to_string(i) + " of extent " + std::to_string(shape[i]);
    if (unknown.size() > 1) {
      std::string names;
      for (const std::string& n : unknown) names += (names.empty() ? "" : ", ") + n;
      c.fail<ShapeError>("the sizes of " + names + " cannot be inferred from " + place + ". Give all but one.");
    }
    if (unknown.size() == 1) {
      if (known == 0 || shape[i] % known) c.fail<ShapeError>(place + " cannot be divided into parts of " + std::to_string(known) + ". The extent must be a multiple.");
      all[open].extent = shape[i] / known;
    } else if (known != shape[i]) {
      std::string names;
      for (size_t k = first; k < all.size(); ++k) names += (names.empty() ? "" : " * ") + all[k].axis.text() + (all[k].axis.name.empty() ? "" : "=" + std::to_string(all[k].extent));
      c.fail<ShapeError>(place + " does not match the pattern, which says " + (names.empty() ? "1" : names) + ".");
    }
  }
  return all;
}

Tensor reduced(const Context& c, const Tensor& t, const std::string& reduction, const Sizes& axes) {
  if (reduction == "sum") return t.sum(axes);
  if (reduction == "mean") return t.mean(axes);
  if (reduction == "max") return t.amax(axes);
  if (reduction == "min") return t.amin(axes);
  if (reduction == "any") return t.any(OptionalIntArrayRef(axes));
  if (reduction == "all") return t.all(OptionalIntArrayRef(axes));
  if (reduction == "prod") return tracer::reduce(tracer::ReduceOp::prod, t, axis_mask(axes, t.dim(), "prod"), false);
  c.fail("reduction \"" + reduction + "\" is not known. Use mean, sum, max, min, prod, any or all.");
}

Tensor transform(Operation op, const char* function, const Tensor& x, const std::string& pattern, const std::string& reduction, const AxisSizes& sizes) {
  cell_of(x, function);
  const Context c{function, pattern, shape_text(x.sizes())};
  const size_t arrow = pattern.find("->");
  if (arrow == std::string::npos || pattern.find("->", arrow + 2) != std::string::npos) c.fail("a pattern has two sides, with \"->\" between them.");
  const std::string left_text = pattern.substr(0, arrow), right_text = pattern.substr(arrow + 2);
  Side left = Parser(c, left_text).parse(), right = Parser(c, right_text).parse();
  check_sides(c, op, left, right, sizes);
  const int64_t named = int64_t(left.composed.size()) - left.has_ellipsis;
  if (left.has_ellipsis ? named > x.dim() : named != x.dim())
    c.fail<ShapeError>("the left side has " + std::to_string(named) + " axes" + (left.has_ellipsis ? " besides the ellipsis" : "") + ", the tensor " + std::to_string(x.dim()) + ".");
  spread_ellipsis(left, x.dim() - named), spread_ellipsis(right, x.dim() - named);

  const std::vector<Elementary> from = elementary_axes(c, left, x.sizes(), sizes);
  Sizes extents;
  for (const Elementary& e : from) extents.push_back(e.extent);
  if (extents.size() > size_t(tracer::max_rank)) c.fail<ShapeError>("the left side has " + std::to_string(extents.size()) + " elementary axes. At most 8 are supported; rearrange in two calls.");
  Tensor t = x.sizes() == IntArrayRef(extents) ? x : x.reshape(extents);
  // What the right side lacks is reduced.
  std::vector<Axis> kept;
  Sizes gone;
  for (size_t k = 0; k < from.size(); ++k) contains(right, from[k].axis) ? kept.push_back(from[k].axis) : gone.push_back(int64_t(k));
  if (op == Operation::reduce) t = gone.empty() ? reduced(c, t.unsqueeze(0), reduction, {0}) : reduced(c, t, reduction, gone);
  // The right side's order, its new axes, its compositions.
  Sizes order, grown, composed;
  std::vector<size_t> added;
  bool same_order = true;
  for (const Composed& p : right.composed) {
    int64_t total = 1;
    for (const Axis& a : p.axes) {
      const auto found = std::find_if(kept.begin(), kept.end(), [&](const Axis& k) { return k.is(a); });
      int64_t e;
      if (found != kept.end()) {
        const size_t k = size_t(found - kept.begin());
        same_order &= order.size() == k;
        order.push_back(int64_t(k));
        e = t.sizes()[k];
      } else {
        added.push_back(grown.size());
        e = a.name.empty() ? a.number : *given_size(sizes, a);
      }
      grown.push_back(e);
      total *= e;
    }
    composed.push_back(total);
  }
  if (grown.size() > size_t(tracer::max_rank)) c.fail<ShapeError>("the right side has " + std::to_string(grown.size()) + " elementary axes. At most 8 are supported; repeat in two calls.");
  if (!same_order) t = t.permute(order);
  for (size_t k : added) t = t.unsqueeze(int64_t(k));
  if (!added.empty()) t = t.expand(grown);
  return t.sizes() == IntArrayRef(composed) ? t : t.reshape(composed);
}
Tensor stacked(const TensorList& parts, const char* function) {
  if (parts.empty()) throw ValueError(std::string(function) + ": the list of tensors is empty. Give at least one.");
  return stack(parts);
}
}  // namespace

Tensor rearrange(const Tensor& x, const std::string& pattern, const AxisSizes& sizes) { return transform(Operation::rearrange, "rearrange", x, pattern, "", sizes); }
Tensor rearrange(const TensorList& parts, const std::string& pattern, const AxisSizes& sizes) { return rearrange(stacked(parts, "rearrange"), pattern, sizes); }
Tensor einops_reduce(const Tensor& x, const std::string& pattern, const std::string& reduction, const AxisSizes& sizes) {
  return transform(Operation::reduce, "einops_reduce", x, pattern, reduction, sizes);
}
Tensor einops_reduce(const TensorList& parts, const std::string& pattern, const std::string& reduction, const AxisSizes& sizes) {
  return einops_reduce(stacked(parts, "einops_reduce"), pattern, reduction, sizes);
}
Tensor einops_repeat(const Tensor& x, const std::string& pattern, const AxisSizes& sizes) { return transform(Operation::repeat, "einops_repeat", x, pattern, "", sizes); }
Tensor einops_repeat(const TensorList& parts, const std::string& pattern, const AxisSizes& sizes) { return einops_repeat(stacked(parts, "einops_repeat"), pattern, sizes); }

}  // namespace frit
