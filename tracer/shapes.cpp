// Shape and type rules: what emit() checks and infers. A rule reads its inputs' size ids, joins ids where the op requires
// equal extents, and names the result's ids; extents are stored once per id. Errors name the op, the user's shapes and the
// remedy, and leave nothing behind. Start at infer().
#include <algorithm>
#include "runtime/error.h"
#include "runtime/source_line.h"
#include "tracer/trace.h"
#include "tracer/user_call.h"

namespace frit::tracer {

namespace {

std::string shape_text(const std::vector<int64_t>& e) {
  std::string s = "[";
  for (size_t i = 0; i < e.size(); ++i) s += (i ? ", " : "") + std::to_string(e[i]);
  return s + "]";
}

struct Rule {
  Trace& t;
  const Call& call;
  Result& out;

  const Result& in(int k) const { return t.nodes[call.in[k]].result; }
  int64_t arg(int k) const { return int64_t(t.args[call.arg + k]); }
  int64_t extent(SizeId s) const { return t.extent[s]; }
  std::string shapes() const {
    const OpRow& r = row(call.op);
    const int n = r.inputs < 0 ? int(call.in[1]) : r.inputs;
    std::string s;
    for (int k = 0; k < n; ++k) {
      const uint32_t node = r.inputs < 0 ? t.lists[call.in[0] + k] : call.in[k];
      if (node == no_node) continue;
      s += (s.empty() ? "" : ", ") + (node == scalar_operand ? std::string("a number") : shape_text(t.sizes(node)));
    }
    return s;
  }
  template <class E = ShapeError> [[noreturn, gnu::cold, gnu::noinline]] void fail(const std::string& why, const std::string& remedy) const {
    const UserCall* user = UserCall::current();
    const std::string s = user ? user->shapes() : shapes();
    throw E((user ? user->name() : shown_name(call)) + ": " + why + (s.empty() ? "" : " (got " + s + ")") + ". " + remedy);
  }
  SizeId require_equal(SizeId a, SizeId b, const char* why, const char* remedy) const {
    if (a == b) return a;
    if (extent(a) != extent(b)) fail(why, remedy);
    if (a < 2) return a;
    if (t.has_names) require_names(a, b);
    t.join(a, b);
    return t.name[a] ? a : t.name[b] ? b : std::min(a, b);  // what follows carries the name; the operands stay as they are
  }
  static std::string named_axis(uint16_t label) {
    const std::string line = source_line(label_site(label));
    return "axis \"" + name_text(label_name(label)) + "\"" + (line.empty() ? "" : " (named at " + line + ")");
  }
  // Axes that must be equal may not have different names: a swapped [B, L, D] is caught even where the extents agree.
  void require_names(SizeId a, SizeId b) const {
    const uint16_t x = t.label_of(a), y = t.label_of(b);
    if (label_name(x) && label_name(y) && label_name(x) != label_name(y))
      fail(named_axis(x) + " meets " + named_axis(y), "Axes with different names do not match; a transpose may be missing, or rename with named().");
  }
  void copy(const Result& from) const {
    out.rank = from.rank;
    std::copy_n(from.size, from.rank, out.size);
  }

  std::string wanted_shape() const {  // of expand
    std::vector<int64_t> e;
    for (int i = 0; i < int(call.attr); ++i) e.push_back(arg(i));
    return shape_text(e);
  }

  // ---- shape rules
  void leaf() const { out.rank = 0; }
  void wanted() const {
    const int first = call.op == Op::full ? 1 : call.op == Op::random_integer ? 4 : 2;
    if ((call.op == Op::random_uniform || call.op == Op::random_normal) && !is_floating(Dtype(call.kind)))
      fail<DtypeError>(std::string("the numbers drawn are no whole ones, and type ") + dtype_name(Dtype(call.kind)) + " was asked for",
                       "Use a floating type, or randint for whole numbers.");
    out.rank = uint8_t(call.attr & 0xff);
    for (int i = 0; i < out.rank; ++i) {
      if (arg(first + i) < 0) fail<ValueError>("extent " + std::to_string(arg(first + i)) + " is negative", "Give extents of 0 or more.");
      out.size[i] = t.new_size(arg(first + i));
    }
  }
  void like0() const { copy(in(0)); }
  void pointwise(int count) const {
    const Result* first = nullptr;
    int rank = 0;
    bool same = true;
    for (int k = 0; k < count; ++k) {
      if (call.in[k] == scalar_operand) continue;
      const Result& r = in(k);
      if (!first) first = &r;
      else same = same && r.rank == first->rank && std::equal(r.size, r.size + r.rank, first->size);
      rank = std::max<int>(rank, r.rank);
    }
    if (same) return copy(*first);
    out.rank = uint8_t(rank);
    for (int i = 0; i < rank; ++i) {
      SizeId s = 1;
      for (int k = 0; k < count; ++k) {
        if (call.in[k] == scalar_operand) continue;
        const Result& r = in(k);
        const int j = i - (rank - r.rank);
        if (j < 0 || r.size[j] == 1) continue;
        if (s == 1) s = r.size[j];
        else if (s != r.size[j]) {
          if (extent(s) != extent(r.size[j]))
            fail("shapes do not broadcast: extents " + std::to_string(extent(s)) + " and " + std::to_string(extent(r.size[j])) +
                     " meet at axis " + std::to_string(i - rank),
                 "Axes are aligned from the right; make the extents equal or 1, for instance with unsqueeze or transpose.");
          s = require_equal(s, r.size[j], "", "");
        }
      }
      out.size[i] = s;
    }
  }
  void permute() const {
    const Result& a = in(0);
    out.rank = a.rank;
    for (int i = 0; i < a.rank; ++i) out.size[i] = a.size[call.attr >> (4 * i) & 15];
  }
  // The same extent under an id that can have a name of its own.
  SizeId renamed(SizeId s) const {
    if (s < 2) return s;
    const SizeId fresh = t.new_size(extent(s));
    t.join(s, fresh);
    return fresh;
  }
  // kind 1: to be named.
  void expand() const {
    const Result& a = in(0);
    out.rank = uint8_t(call.attr);
    if (out.rank < a.rank) fail("a tensor cannot be expanded to fewer axes", "Give at least " + std::to_string(a.rank) + " extents.");
    for (int i = 0; i < out.rank; ++i) {
      const int j = i - (out.rank - a.rank);
      if (j < 0) out.size[i] = t.new_size(arg(i));
      else if (extent(a.size[j]) == arg(i)) out.size[i] = call.kind ? renamed(a.size[j]) : a.size[j];
      else if (a.size[j] == 1) out.size[i] = t.new_size(arg(i));
      else fail("axis " + std::to_string(j) + " of extent " + std::to_string(extent(a.size[j])) + " cannot become " + std::to_string(arg(i)) + " of the wanted " + wanted_shape(),
                "Only axes of extent 1 expand; pass -1 to keep an extent.");
    }
  }
  // attr: the group of each output axis (bits 0..31) and input axis (32..63), 4 bits each; kind: the output's rank. An axis
  // alone in its group on both sides keeps its id.
  void reshape() const {
    const Result& a = in(0);
    out.rank = call.kind;
    for (int j = 0; j < out.rank; ++j) {
      const unsigned g = call.attr >> (4 * j) & 15;
      int ins = 0, outs = 0, axis = 0;
      for (int i = 0; i < a.rank; ++i)
        if ((call.attr >> (32 + 4 * i) & 15) == g) ++ins, axis = i;
      for (int k = 0; k < out.rank; ++k) outs += (call.attr >> (4 * k) & 15) == g;
      out.size[j] = ins == 1 && outs == 1 ? a.size[axis] : t.new_size(arg(j), true);
    }
  }
  void slice() const {
    copy(in(0));
    const int axis = int(call.attr);
    const SizeId whole = out.size[axis];  // a slice that happens to be the whole axis is a slice like any other
    out.size[axis] = t.new_size(arg(1));
    if (whole >= 2 && out.size[axis] >= 2) t.name[out.size[axis]] = t.name[whole];
  }
  void select() const {
    const Result& a = in(0);
    out.rank = uint8_t(a.rank - 1);
    for (int i = 0, n = 0; i < a.rank; ++i)
      if (i != int(call.attr)) out.size[n++] = a.size[i];
  }
  void diagonal() const {
    const Result& a = in(0);
    const int x = int(call.attr & 15), y = int(call.attr >> 4 & 15);
    int n = 0;
    for (int i = 0; i < a.rank; ++i)
      if (i != x && i != y) out.size[n++] = a.size[i];
    out.size[n++] = t.new_size(arg(1));
    out.rank = uint8_t(n);
  }
  void as_strided() const {
    out.rank = uint8_t(call.attr);
    for (int i = 0; i < out.rank; ++i) out.size[i] = t.new_size(arg(1 + i));
  }
  void reduce() const {
    const Result& a = in(0);
    int n = 0;
    const bool needs_elements = call.op == Op::amax || call.op == Op::amin || call.op == Op::argmax || call.op == Op::argmin;
    for (int i = 0; i < a.rank; ++i)
      if (!(call.attr >> i & 1)) out.size[n++] = a.size[i];
      else {
        if (needs_elements && a.size[i] == 0) fail<ValueError>("axis " + std::to_string(i) + " has no elements", "Reduce over axes that are not empty.");
        if (call.kind) out.size[n++] = 1;
      }
    out.rank = uint8_t(n);
  }
  void matmul() const {
    const Result &a = in(0), &b = in(1);
    if (a.rank < 2 || b.rank < 2) fail("needs [..., m, k] and [..., k, n]", "Add an axis with unsqueeze, or use mv or dot.");
    require_equal(a.size[a.rank - 1], b.size[b.rank - 2], "inner extents differ",
                  "The last axis of the first must equal the last but one of the second; a transpose may be missing.");
    out.rank = std::max(a.rank, b.rank);
    for (int i = 0; i < out.rank - 2; ++i) {
      const int x = i - (out.rank - a.rank), y = i - (out.rank - b.rank);
      const SizeId sa = x < 0 ? SizeId(1) : a.size[x], sb = y < 0 ? SizeId(1) : b.size[y];
      out.size[i] = sa == 1 ? sb : sb == 1 ? sa : require_equal(sa, sb, "batch extents do not broadcast", "Make them equal or 1.");
    }
    out.size[out.rank - 2] = a.size[a.rank - 2];
    out.size[out.rank - 1] = b.size[b.rank - 1];
  }
  // ---- windows along the spatial axes, see ops.def
  int spatial_axes() const {
    const int n = in(0).rank - 2;
    if (n < 1 || n > 2 || (row(call.op).inputs == 2 && in(1).rank != in(0).rank)) fail("needs [N, C, spatial...] and as many axes of each operand", "Give one or two spatial axes.");
    return n;
  }
  int64_t bounded(int k, int64_t least, int64_t most = int64_t(1) << 31) const {
    const int64_t v = arg(k);
    if (v < least || v > most) fail<ValueError>("argument " + std::to_string(v) + " is out of range", "Give at least " + std::to_string(least) + ".");
    return v;
  }
  int64_t windows(int axis, int64_t length, int64_t kernel) const {
    constexpr int64_t any = -(int64_t(1) << 31);
    const int64_t stride = bounded(1 + 4 * axis, 1), dilation = bounded(2 + 4 * axis, 1), low = bounded(3 + 4 * axis, any), high = bounded(4 + 4 * axis, any);
    int64_t reach = 0;
    const bool beyond = kernel < 1 || __builtin_mul_overflow(dilation, kernel - 1, &reach);
    if (beyond || length + low + high <= reach) fail("the kernel does not fit the padded input", "Give a larger input, more padding or a smaller kernel.");
    return (length + low + high - reach - 1) / stride + 1;
  }
  // A spatial axis that follows from another carries its name.
  SizeId following(SizeId from, int64_t length) const {
    const SizeId s = t.new_size(length, true);
    if (s >= 2 && from >= 2) t.name[s] = t.name[from];
    return s;
  }
  int64_t grouped(int64_t channels) const {
    const int64_t groups = bounded(0, 1);
    if (channels % groups) fail(std::to_string(groups) + " groups do not divide " + std::to_string(channels) + " channels", "Choose groups that do.");
    return groups;
  }
  void convolution() const {
    const int n = spatial_axes();
    const Result &a = in(0), &w = in(1);
    const int64_t groups = grouped(extent(w.size[0]));
    if (groups == 1) require_equal(a.size[1], w.size[1], "the channels differ", "Change the input's channels or the weight.");
    else if (extent(a.size[1]) % groups || extent(a.size[1]) / groups != extent(w.size[1])) fail("the channels differ", "Change the input's channels or the weight.");
    out.rank = a.rank;
    out.size[0] = a.size[0], out.size[1] = w.size[0];
    for (int i = 0; i < n; ++i) out.size[2 + i] = following(a.size[2 + i], windows(i, extent(a.size[2 + i]), extent(w.size[2 + i])));
  }
  void convolution_input() const {
    const int n = spatial_axes();
    const Result &g = in(0), &w = in(1);
    const int64_t groups = grouped(extent(w.size[0]));
    require_equal(g.size[1], w.size[0], "the channels differ", "Change the gradient's channels or the weight.");
    out.rank = g.rank;
    out.size[0] = g.size[0];
    out.size[1] = groups == 1 ? w.size[1] : t.new_size(extent(w.size[1]) * groups, true);
    for (int i = 0; i < n; ++i) {
      const int64_t length = bounded(1 + 4 * n + i, 0, int64_t(1) << 48);
      if (windows(i, length, extent(w.size[2 + i])) != extent(g.size[2 + i])) fail("the gradient is not of such an input", "Give the extents of the input.");
      out.size[2 + i] = following(g.size[2 + i], length);
    }
  }
  void convolution_weight() const {
    const int n = spatial_axes();
    const Result &g = in(0), &a = in(1);
    const int64_t groups = grouped(extent(g.size[1]));
    grouped(extent(a.size[1]));
    require_equal(g.size[0], a.size[0], "the batches differ", "Give the input that the gradient belongs to.");
    out.rank = g.rank;
    out.size[0] = g.size[1];
    out.size[1] = groups == 1 ? a.size[1] : t.new_size(extent(a.size[1]) / groups, true);
    for (int i = 0; i < n; ++i) {
      const int64_t length = bounded(1 + 4 * n + i, 1, int64_t(1) << 48);
      if (windows(i, extent(a.size[2 + i]), length) != extent(g.size[2 + i])) fail("the gradient is not of such an input", "Give the extents of the kernel.");
      out.size[2 + i] = t.new_size(length, true);
    }
  }
  void pool() const {
    const int n = spatial_axes();
    const Result& a = in(0);
    out.rank = a.rank;
    out.size[0] = a.size[0], out.size[1] = a.size[1];
    for (int i = 0; i < n; ++i) {
      const int64_t kernel = bounded(5 * i, 1), stride = bounded(5 * i + 1, 1), dilation = bounded(5 * i + 2, 1), low = bounded(5 * i + 3, 0), count = bounded(5 * i + 4, 1);
      const int64_t length = extent(a.size[2 + i]), corner = (count - 1) * stride - low, reach = dilation * (kernel - 1);
      // The first element of the window from `at` on that is none of the padding, if it has any.
      const auto empty = [&](int64_t at) {
        const int64_t first = at < 0 ? at + (-at + dilation - 1) / dilation * dilation : at;
        return first >= length || first > at + reach;
      };
      bool none = length < 1;
      if (call.op == Op::pool_argmax) {
        none = none || empty(corner) || low > reach;
        for (int64_t at = -low; at < 0 && !none; at += stride) none = empty(at);
      }
      if (none) fail("a window holds nothing but padding", "Pad less, or dilate less.");
      out.size[2 + i] = following(a.size[2 + i], count);
    }
  }
  // in: query, key, value and a mask at `mask`.
  void attention_operands(int mask) const {
    const auto part = [&](int k) -> const Result& { return t.nodes[t.lists[call.in[0] + k]].result; };
    const int count = int(call.in[1]);
    if (count != mask && count != mask + 1) fail("query, key, value and perhaps a mask are needed", "Pass these.");
    const Result &q = part(0), &k = part(1), &v = part(2);
    const bool grouped = call.attr & 4;
    if (!is_floating(q.dtype) || q.dtype != k.dtype || q.dtype != v.dtype) fail<DtypeError>("query, key and value need one floating type", "Convert them with to().");
    if (q.rank < (grouped ? 3 : 2) || k.rank != q.rank || v.rank != q.rank) fail("query, key and value need as many axes, [..., length, dimension]", "Expand them.");
    for (int i = 0; i < q.rank - 2; ++i) {
      const bool heads = grouped && i == q.rank - 3;
      const SizeId shared = require_equal(k.size[i], v.size[i], "batch extents of key and value differ", "Expand them.");
      if (!heads) require_equal(q.size[i], shared, "batch extents of query and key differ", "Expand them.");
      else if (extent(shared) == 0 || extent(q.size[i]) % extent(shared)) fail("the heads of key and value do not divide the query's", "Give a multiple.");
    }
    require_equal(q.size[q.rank - 1], k.size[k.rank - 1], "the last extents of query and key differ", "They must be equal.");
    require_equal(k.size[k.rank - 2], v.size[v.rank - 2], "key and value differ in length", "They must be equal on axis -2.");
    if (count == mask) return;
    const Result& m = part(mask);
    if (m.dtype != Dtype::Bool && m.dtype != q.dtype && m.dtype != compute_dtype(q.dtype)) fail<DtypeError>(std::string("the mask has type ") + dtype_name(m.dtype), "Give booleans, or the query's type, or that in which the row computes.");
    if (m.rank > q.rank) fail("the mask has more axes than the scores", "Give a mask that broadcasts to them.");
    for (int i = 0; i < m.rank; ++i) {
      const int at = q.rank - m.rank + i;
      if (m.size[i] != 1) require_equal(m.size[i], at == q.rank - 1 ? k.size[k.rank - 2] : q.size[at], "the mask does not broadcast to the scores", "Give extents of the scores, or 1.");
    }
  }
  void attention() const {
    attention_operands(3);
    copy(t.nodes[t.lists[call.in[0]]].result);
    out.size[out.rank - 1] = t.nodes[t.lists[call.in[0] + 2]].result.size[out.rank - 1];
  }
  void attention_gradient() const {
    attention_operands(5);
    const Result &q = t.nodes[t.lists[call.in[0]]].result, &v = t.nodes[t.lists[call.in[0] + 2]].result;
    for (int k = 3; k < 5; ++k) {
      const Result& r = t.nodes[t.lists[call.in[0] + k]].result;
      if (r.dtype != q.dtype || r.rank != q.rank) fail("the result or its gradient is of another kind than the query", "Pass the row's own.");
      for (int i = 0; i < r.rank; ++i) require_equal(r.size[i], i == r.rank - 1 ? v.size[i] : q.size[i], "the result or its gradient has another shape", "Pass the row's own.");
    }
    copy(q);
  }
  void like1() const { copy(in(1)); }
  void cat() const {
    const int axis = int(call.attr), count = int(call.in[1]);
    const auto part = [&](int k) -> const Result& { return t.nodes[t.lists[call.in[0] + k]].result; };
    copy(part(0));
    int64_t total = 0;
    for (int k = 0; k < count; ++k) {
      const Result& p = part(k);
      if (p.rank != out.rank) fail("the tensors' ranks differ", "All must have the same number of axes.");
      for (int i = 0; i < out.rank; ++i)
        if (i != axis) out.size[i] = require_equal(out.size[i], p.size[i], "extents differ off the joined axis", "They must be equal on every other axis.");
      total += extent(p.size[axis]);
    }
    out.size[axis] = count == 1 ? part(0).size[axis] : t.new_size(total, true);
  }
  void check_index(const Result& index) const {
    if (index.dtype != Dtype::Int64 && index.dtype != Dtype::Int32)
      fail<DtypeError>(std::string("the index has type ") + dtype_name(index.dtype), "Convert it with to(kInt64).");
  }
  void gather() const {
    const Result &a = in(0), &index = in(1);
    check_index(index);
    if (a.rank != index.rank) fail("the index needs as many axes as the input", "Reshape or expand the index.");
    for (int i = 0; i < a.rank; ++i)
      if (i != int(call.attr) && extent(index.size[i]) > extent(a.size[i]))
        fail("the index is larger than the input at axis " + std::to_string(i), "Narrow the index there.");
    copy(index);
  }
  void scatter() const {
    const Result &a = in(0), &index = in(1), &source = in(2);
    check_index(index);
    if (a.rank != index.rank || a.rank != source.rank) fail("input, index and source need as many axes", "Reshape or expand them.");
    for (int i = 0; i < a.rank; ++i) {
      if (extent(index.size[i]) > extent(source.size[i])) fail("the index is larger than the source at axis " + std::to_string(i), "Narrow the index there.");
      if (i != int(call.attr) && extent(index.size[i]) > extent(a.size[i])) fail("the index is larger than the input at axis " + std::to_string(i), "Narrow the index there.");
    }
    if (a.dtype != source.dtype) fail<DtypeError>(std::string("input and source have types ") + dtype_name(a.dtype) + " and " + dtype_name(source.dtype), "Convert the source.");
    copy(a);
  }
  void unslice() const {
    copy(in(0));
    out.size[call.attr] = t.new_size(arg(2));
  }
  void undiagonal() const {
    const Result& a = in(0);
    out.rank = uint8_t(a.rank + 1);
    const int x = int(call.attr & 15), y = int(call.attr >> 4 & 15);
    for (int i = 0, n = 0; i < out.rank; ++i) out.size[i] = i == x ? t.new_size(arg(1)) : i == y ? t.new_size(arg(2)) : a.size[n++];
  }

  // ---- type rules
  Dtype promoted(int first, int count) const;
  void pointwise_type(const OpRow& r) const;
  void structural_type(const OpRow& r) const;
};

// LibTorch's promotion: tensors with axes decide, then tensors without, then numbers; a lower class counts only when its
// category (bool < integer < floating) is higher.
Dtype Rule::promoted(int first, int count) const {
  constexpr int none = -1;
  int of[3] = {none, none, none};
  for (int k = first; k < count; ++k) {
    Dtype d;
    int level;
    if (call.in[k] == scalar_operand) {
      const Category c = Category(call.kind >> (2 * k) & 3);
      d = c == Category::floating ? Dtype::Float32 : c == Category::integer ? Dtype::Int64 : Dtype::Bool;
      level = 2;
    } else {
      d = in(k).dtype;
      level = in(k).rank ? 0 : 1;
    }
    of[level] = of[level] == none ? int(d) : int(promote(Dtype(of[level]), d));
  }
  const auto combine = [&](int high, int low) {
    if (high == none) return low;
    if (low == none || is_floating(Dtype(high))) return high;
    if (Dtype(high) == Dtype::Bool || is_floating(Dtype(low))) return int(promote(Dtype(high), Dtype(low)));
    return high;
  };
  return Dtype(combine(of[0], combine(of[1], of[2])));
}

void Rule::pointwise_type(const OpRow& r) const {
  Dtype d = promoted(r.type == TypeRule::choice ? 1 : 0, r.inputs);
  const auto refuse = [&](const char* what, const char* remedy) {
    fail<DtypeError>(std::string("is not defined for ") + what + " (" + dtype_name(d) + ")", remedy);
  };
  switch (r.type) {
    case TypeRule::numeric:
      if (d == Dtype::Bool) refuse("booleans", "Use logical_not, logical_xor, or convert with to(kInt64).");
      break;
    case TypeRule::counted:
      if (d == Dtype::Bool) d = Dtype::Int64;
      break;
    case TypeRule::floating:
      if (!is_floating(d)) d = Dtype::Float32;
      break;
    case TypeRule::bits:
      if (is_floating(d)) refuse("floating types", "Convert to an integer type or to kBool.");
      break;
    case TypeRule::shifts:
      if (!is_integral(d)) refuse("this type", "Convert to an integer type.");
      break;
    case TypeRule::choice:
      if (call.in[0] != scalar_operand && in(0).dtype != Dtype::Bool)
        fail<DtypeError>(std::string("the condition has type ") + dtype_name(in(0).dtype), "Compare it with something, or use to(kBool).");
      break;
    case TypeRule::assign: d = in(0).dtype; break;
    default: break;
  }
  out.compute = compute_dtype(d);
  if ((call.op == Op::isnan || call.op == Op::isinf || call.op == Op::isfinite) && !is_floating(out.compute)) out.compute = Dtype::Float32;
  out.dtype = r.type == TypeRule::compare ? Dtype::Bool : d;
}

void Rule::structural_type(const OpRow& r) const {
  switch (r.type) {
    case TypeRule::kind: out.dtype = Dtype(call.kind); break;
    case TypeRule::same:
      if (in(0).dtype != in(1).dtype)
        fail<DtypeError>(std::string("the operands have types ") + dtype_name(in(0).dtype) + " and " + dtype_name(in(1).dtype), "Convert one with to().");
      out.dtype = in(0).dtype;
      break;
    case TypeRule::list: {
      Dtype d = t.nodes[t.lists[call.in[0]]].result.dtype;
      for (uint32_t k = 1; k < call.in[1]; ++k) d = promote(d, t.nodes[t.lists[call.in[0] + k]].result.dtype);
      out.dtype = d;
      break;
    }
    case TypeRule::leading: out.dtype = t.nodes[t.lists[call.in[0]]].result.dtype; break;
    case TypeRule::sum: out.dtype = is_floating(in(0).dtype) ? in(0).dtype : Dtype::Int64; break;
    case TypeRule::index: out.dtype = Dtype::Int64; break;
    case TypeRule::truth: out.dtype = Dtype::Bool; break;
    default: out.dtype = in(0).dtype;
  }
  out.compute = compute_dtype(out.dtype);
}

}  // namespace

void infer(Trace& t, const Call& call, Result& out, bool grad_enabled) {
  out = Result{};
  const OpRow& r = row(call.op);
  const Rule rule{t, call, out};
  if (r.kind == RowKind::pointwise) {
    rule.pointwise_type(r);
    rule.pointwise(r.inputs);
  } else {
    switch (call.op) {
#define STRUCTURAL(name, inputs, shape, ...) \
  case Op::name: rule.shape(); break;
#include "tracer/ops.def"
      default: break;
    }
    rule.structural_type(r);
  }
  if (call.mode & in_place) {
    const Result& target = rule.in(0);
    if (out.rank != target.rank || !std::equal(out.size, out.size + out.rank, target.size, [&](SizeId a, SizeId b) { return t.extent[a] == t.extent[b]; }))
      rule.fail("the result does not fit the tensor that is written in place", "Write the larger one, or use the form without the underscore.");
    const auto category = [](Dtype d) { return is_floating(d) ? 2 : d == Dtype::Bool ? 0 : 1; };
    if (r.type != TypeRule::assign && category(out.dtype) > category(target.dtype))
      rule.fail<DtypeError>(std::string("a result of type ") + dtype_name(out.dtype) + " cannot be written in place to " + dtype_name(target.dtype),
                            "Convert the tensor first, or use the form without the underscore.");
    out.dtype = target.dtype;
    rule.copy(target);  // its axes keep their names
  }
  bool grad = false;
  const int count = t.nodes.empty() ? 0 : r.inputs < 0 ? int(call.in[1]) : r.inputs;
  for (int k = 0; k < count && !grad; ++k) {
    const uint32_t n = r.inputs < 0 ? t.lists[call.in[0] + k] : call.in[k];
    grad = n != scalar_operand && t.nodes[n].result.flags & wants_grad;
  }
  if ((grad && grad_enabled && call.op != Op::detach && is_floating(out.dtype)) || call.mode & custom_gradient) out.flags = wants_grad;
}

// Input axes with extent > 1 are taken in runs that are contiguous among themselves; output axes must fill runs exactly.
bool reshape_strides(const Value& v, const Sizes& extents, int64_t* out) {
  int64_t scratch[max_rank];
  if (!out) out = scratch;
  const int64_t total = v.numel();
  if (total == 0) {
    int64_t step = 1;
    for (size_t j = extents.size(); j-- > 0; step *= std::max<int64_t>(extents[j], 1)) out[j] = step;
    return true;
  }
  int i = v.rank - 1, j = int(extents.size()) - 1;
  while (i >= 0 && v.extent[i] == 1) --i;
  int64_t base = i >= 0 ? v.stride[i] : 1, run = 1, filled = 1;
  // run: elements of the input's current contiguous run; filled: elements of it given to output axes.
  const auto extend = [&] {
    while (i >= 0) {
      if (v.extent[i] == 1) { --i; continue; }
      if (v.stride[i] != base * run) break;
      run *= v.extent[i--];
    }
  };
  extend();
  for (; j >= 0; --j) {
    if (extents[j] == 1) { out[j] = base * filled; continue; }
    if (filled == run) {
      if (i < 0) return false;
      base = v.stride[i], run = 1, filled = 1;
      extend();
    }
    out[j] = base * filled;
    filled *= extents[j];
    if (filled > run || run % filled) return false;
  }
  return true;
}

}  // namespace frit::tracer
