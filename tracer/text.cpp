// A trace as text, one line a node:
//
//   %0 = leaf f32[s2:64, s3:128] grad
//   %1 = leaf f32[s4:128]
//   %2 = mul f32[s2:64, s3:128] %0, %1 grad joins=1
//   %3 = sum f32[s2:64] %2 axes=[1] grad
//   %4 = add f32[s2:64] %3, 2.0 grad in_place
//   join s4 = s3
//
// After the op stand the result's dtype and extents (0, 1, or size id and extent; s5*:6 is derived from others, s5:6@1 has the
// axis name of that number), the operands (%n; a number: 2.0, 2, true,
// or its bits when no decimal gives them, floating:0x…), other arguments in parentheses, and what differs from the usual:
//   axis= axes= groups= contiguous keepdim descending   attr and kind, by their form (call_form.h); attr=0x… kind=n else
//   no_grad in_place new_leaf (mode=n)   grad (flags=n)   compute=dtype   at=n list=n: slots   sizes=n joins=n: made so far
// `words (…)` and `nodes […]` are arguments and list entries that no node before claims, `size sN:extent` a size id that no
// result shows, `join sB = sA` an edge of the union-find. parse.cpp reads it. Printing must not fail on a broken trace: the
// verifier's message is made here. Start at text.
#include <charconv>
#include <cinttypes>
#include "tracer/call_form.h"

namespace frit::tracer {

namespace {

std::string hex(uint64_t v) {
  char s[32];
  std::snprintf(s, sizeof s, "0x%" PRIx64, v);
  return s;
}
std::string number_text(uint64_t word, Category c) {
  if (c == Category::integer) return std::to_string(int64_t(word));
  if (c == Category::boolean) return word > 1 ? "boolean:" + hex(word) : word ? "true" : "false";
  const double d = __builtin_bit_cast(double, word);
  if (d != d) return word == 0x7ff8000000000000 ? "nan" : "floating:" + hex(word);
  char s[40];
  std::string text(s, std::to_chars(s, s + sizeof s, d).ptr);
  if (text.find_first_of(".ein") == std::string::npos) text += ".0";
  return text;
}
template <class F> std::string joined(int count, F f) {
  std::string s;
  for (int i = 0; i < count; ++i) s += (i ? ", " : "") + f(i);
  return s;
}

std::string size_text(const Trace& t, size_t s) {
  if (s < 2) return std::to_string(s);
  if (s >= t.extent.size() || s >= t.derived.size() || s >= t.name.size()) return "s" + std::to_string(s) + ":?";
  return "s" + std::to_string(s) + (t.derived[s] ? "*:" : ":") + std::to_string(t.extent[s]) + (t.name[s] ? "@" + std::to_string(label_name(t.name[s])) : "");
}

// One node; `known` tells which of its parts can be read.
struct Printer {
  const Trace& t;
  uint32_t n;
  const Call& call = t.nodes[n].call;
  const Result& result = t.nodes[n].result;
  const bool known = call.op < Op::count;
  const int rank = std::min<int>(result.rank, max_rank);
  const size_t count = known ? argument_count(t, n) : 0;
  const bool readable = call.arg <= t.args.size() && count <= t.args.size() - call.arg;

  uint64_t word(size_t k) const { return t.args[call.arg + k]; }
  static std::string dtype(Dtype d) { return size_t(d) < dtype_count ? dtype_short_name(d) : "dtype" + std::to_string(int(d)); }
  static std::string node(uint32_t k) { return k == no_node ? "_" : "%" + std::to_string(k); }
  std::string operands() const {
    if (row(call.op).inputs < 0) {
      std::string s = "[";
      for (uint64_t k = 0; k < call.in[1]; ++k) {
        if (call.in[0] + k >= t.lists.size()) return s + "?]";
        s += (k ? ", " : "") + node(t.lists[call.in[0] + k]);
      }
      return s + "]";
    }
    int numbers = 0;
    return joined(row(call.op).inputs, [&](int k) {
      if (call.in[k] != scalar_operand) return node(call.in[k]);
      return readable && row(call.op).kind == RowKind::pointwise ? number_text(word(size_t(numbers++)), Category(call.kind >> (2 * k) & 3)) : "?";
    });
  }
  std::string arguments() const {
    if (row(call.op).kind == RowKind::pointwise || count == 0) return "";
    if (!readable) return " (?)";
    const uint64_t category = call.attr >> 8;
    std::string s = " (";
    for (size_t k = 0; k < count; ++k) {
      s += k ? ", " : "";
      if (int(k) < leading_numbers(call.op) && category <= 2) s += number_text(word(k), Category(category));
      else if (k == 0 && call.op == Op::write_view && word(0) >> 24 == 0 && (word(0) & 0xffff) < uint64_t(Op::count))
        s += op_name(Op(word(0) & 0xffff)) + (word(0) >> 16 ? ":" + std::to_string(word(0) >> 16) : "");
      else s += std::to_string(int64_t(word(k)));
    }
    return s + ")";
  }

  std::string fields(uint64_t bits, int many) const {
    return joined(many, [&](int i) { return std::to_string(bits >> (4 * i) & 15); });
  }
  std::string attribute() const {
    const uint64_t a = call.attr;
    const std::string raw = " attr=" + hex(a);
    switch (attr_form(call.op)) {
      case AttrForm::none:
      case AttrForm::attention: return a == 0 ? "" : raw;
      case AttrForm::leaf: return a == (uint64_t(result.rank) | uint64_t(result.flags == wants_grad) << 8) ? "" : raw;
      case AttrForm::source: return (a & 0xff) == result.rank && (a >> 8) <= (leading_numbers(call.op) && readable ? 2 : 0) ? "" : raw;
      case AttrForm::rank: return a == result.rank ? "" : raw;
      case AttrForm::axis: return a < max_rank ? " axis=" + std::to_string(a) : raw;
      case AttrForm::pair: return a < 256 ? " axes=[" + fields(a, 2) + "]" : raw;
      case AttrForm::permutation: return a >> (4 * rank) == 0 ? " axes=[" + fields(a, rank) + "]" : raw;
      case AttrForm::contiguous: return a > 1 ? raw : a ? " contiguous" : "";
      case AttrForm::mask: {
        if (a >> max_rank) return raw;
        std::string s;
        for (int i = 0; i < max_rank; ++i)
          if (a >> i & 1) s += (s.empty() ? "" : ", ") + std::to_string(i);
        return " axes=[" + s + "]";
      }
      case AttrForm::groups: {
        if (call.in[0] >= n) return raw;
        const int inner = std::min<int>(t.rank_of(call.in[0]), max_rank);
        if ((a & 0xffffffff) >> (4 * rank) || a >> 32 >> (4 * inner)) return raw;
        return " groups=[" + fields(a >> 32, inner) + "] -> [" + fields(a, rank) + "]";
      }
    }
    return raw;
  }
  std::string kind() const {
    const std::string raw = " kind=" + std::to_string(call.kind);
    switch (kind_form(call.op)) {
      case KindForm::none: return call.kind == 0 ? "" : raw;
      case KindForm::dtype: return call.kind == uint8_t(result.dtype) ? "" : raw;
      case KindForm::rank: return call.kind == result.rank ? "" : raw;
      case KindForm::keepdim: return call.kind == 0 ? "" : call.kind == 1 ? " keepdim" : raw;
      case KindForm::descending: return call.kind == 0 ? "" : call.kind == 1 ? " descending" : raw;
      case KindForm::categories: {
        uint8_t shown = 0;
        for (int k = 0; k < row(call.op).inputs; ++k)
          if (call.in[k] == scalar_operand && (call.kind >> (2 * k) & 3) < 3) shown |= uint8_t(3 << (2 * k));
        return (call.kind & ~shown) == 0 ? "" : raw;
      }
    }
    return raw;
  }
  std::string modes() const {
    if (call.mode > 7 || (call.op == Op::leaf && call.mode & grad_mode)) return " mode=" + std::to_string(call.mode);
    return std::string(call.op == Op::leaf || call.mode & grad_mode ? "" : " no_grad") + (call.mode & in_place ? " in_place" : "") +
           (call.mode & new_leaf ? " new_leaf" : "");
  }
  std::string flags() const {
    const Dtype usual = call.op == Op::leaf ? result.dtype : compute_dtype(result.dtype);
    return (result.flags == wants_grad ? " grad" : result.flags ? " flags=" + std::to_string(result.flags) : "") +
           (result.compute == usual ? "" : " compute=" + dtype(result.compute));
  }
  std::string line(size_t bound, size_t bound_lists, uint32_t sizes, uint32_t joins) const {
    std::string s = "%" + std::to_string(n) + " = " + (known ? op_name(call.op) : "op" + std::to_string(int(call.op))) + " " + dtype(result.dtype) +
                    "[" + joined(rank, [&](int i) { return size_text(t, result.size[i]); }) + "]";
    if (known) {
      const std::string in = operands();
      s += (in.empty() ? "" : " " + in) + arguments() + attribute() + kind() + modes();
      if (call.arg != usual_slot(call.op, count, bound)) s += " at=" + std::to_string(call.arg);
      if (row(call.op).inputs < 0 && call.in[0] != bound_lists) s += " list=" + std::to_string(call.in[0]);
    }
    s += flags();
    for (int i = 0; i < rank; ++i) sizes = std::max<uint32_t>(sizes, result.size[i] + 1);
    if (result.size_end != sizes) s += " sizes=" + std::to_string(result.size_end);
    if (result.join_end != joins) s += " joins=" + std::to_string(result.join_end);
    return s;
  }
};

struct Lines {
  const Trace& t;
  std::string out;
  size_t bound = 0, bound_lists = 0;
  void words_until(size_t slot) {
    if (slot <= bound) return;
    out += "words (" + joined(int(slot - bound), [&](int i) { return std::to_string(int64_t(t.args[bound + size_t(i)])); }) + ")\n";
    bound = slot;
  }
  void nodes_until(size_t slot) {
    if (slot <= bound_lists) return;
    out += "nodes [" + joined(int(slot - bound_lists), [&](int i) { return Printer::node(t.lists[bound_lists + size_t(i)]); }) + "]\n";
    bound_lists = slot;
  }
  void node(uint32_t n) {
    const Printer p{t, n};
    const bool list = p.known && row(p.call.op).inputs < 0 && p.call.in[0] <= t.lists.size() && p.call.in[1] <= t.lists.size() - p.call.in[0];
    if (p.readable && p.count) words_until(p.call.arg);
    if (list) nodes_until(p.call.in[0]);
    const Result* before = n ? &t.nodes[n - 1].result : nullptr;
    out += p.line(bound, bound_lists, before ? before->size_end : 2, before ? before->join_end : 0) + "\n";
    if (p.readable && p.count) bound = std::max(bound, p.call.arg + p.count);
    if (list) bound_lists = std::max<size_t>(bound_lists, size_t(p.call.in[0]) + p.call.in[1]);
  }
};

}  // namespace

std::string node_text(const Trace& t, uint32_t n) {
  Lines l{t, {}};
  for (uint32_t k = 0; k < n; ++k) l.node(k);
  l.out.clear();
  l.node(n);
  l.out.pop_back();
  return l.out;
}

std::string text(const Trace& t) {
  Lines l{t, {}};
  std::vector<bool> shown(std::max<size_t>(t.extent.size(), 2));
  shown[0] = shown[1] = true;
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    l.node(n);
    const Result& r = t.nodes[n].result;
    for (int i = 0; i < std::min<int>(r.rank, max_rank); ++i)
      if (r.size[i] < shown.size()) shown[r.size[i]] = true;
  }
  l.words_until(t.args.size());
  l.nodes_until(t.lists.size());
  for (size_t s = 2; s < t.extent.size(); ++s)
    if (!shown[s]) l.out += "size " + size_text(t, s) + "\n";
  for (size_t s = 2; s < t.parent.size(); ++s)
    if (t.parent[s] != s) l.out += "join s" + std::to_string(s) + " = s" + std::to_string(t.parent[s]) + "\n";
  return l.out;
}

}  // namespace frit::tracer
