// Statements of random programs that compute, show and write: pointwise rows, reductions, products, views, writes in place, indices.
// Start at Generator::unary.
#include <algorithm>
#include "frit/nn/attention.h"
#include "frit/nn/spatial.h"
#include "tests/support/random_program_generator.h"

namespace frit::testing {

namespace {
template <class F> struct Named { const char* name; F f; };
using Unary = Tensor (*)(const Tensor&);
using UnaryWrite = void (*)(Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using BinaryNumber = Tensor (*)(const Tensor&, const Scalar&);
using NumberBinary = Tensor (*)(const Scalar&, const Tensor&);
using BinaryWrite = void (*)(Tensor&, const Tensor&);
using NumberWrite = void (*)(Tensor&, const Scalar&);

const Named<Unary> unary_rows[] = {
#define UNARY(n, ...) {#n, [](const Tensor& a) { return a.n(); }},
#include "tracer/ops.def"
};
const Named<UnaryWrite> unary_writes[] = {
#define UNARY(n, ...) {#n "_", [](Tensor& a) { a.n##_(); }},
#include "tracer/ops.def"
};
#define HIDDEN_BINARY(...)
const Named<Binary> binary_rows[] = {
#define HIDDEN_BINARY(...)
#define BINARY(n, ...) {#n, [](const Tensor& a, const Tensor& b) { return a.n(b); }},
#include "tracer/ops.def"
};
const Named<BinaryNumber> binary_number_rows[] = {
#define HIDDEN_BINARY(...)
#define BINARY(n, ...) {#n, [](const Tensor& a, const Scalar& b) { return a.n(b); }},
#include "tracer/ops.def"
};
const Named<NumberBinary> number_binary_rows[] = {
#define HIDDEN_BINARY(...)
#define BINARY(n, ...) {#n, [](const Scalar& a, const Tensor& b) { return frit::n(a, b); }},
#include "tracer/ops.def"
};
const Named<BinaryWrite> binary_writes[] = {
#define HIDDEN_BINARY(...)
#define BINARY(n, ...) {#n "_", [](Tensor& a, const Tensor& b) { a.n##_(b); }},
#include "tracer/ops.def"
};
const Named<NumberWrite> number_writes[] = {
#define HIDDEN_BINARY(...)
#define BINARY(n, ...) {#n "_", [](Tensor& a, const Scalar& b) { a.n##_(b); }},
#include "tracer/ops.def"
};
const char* const common_unary[] = {"exp", "tanh", "relu", "neg", "square", "sigmoid", "abs", "sin", "gelu", "sqrt", "sign", "isnan", "floor"};
const char* const common_binary[] = {"add", "sub", "mul", "add", "mul", "div", "maximum", "minimum", "lt", "ge", "eq"};
}  // namespace

// ---- pointwise --------------------------------------------------------------------------------------------------------------
void Generator::unary() {
  const int a = any_slot();
  if (a < 0) return;
  const size_t r = chance(75) ? row_named(unary_rows, pick(common_unary)) : size_t(below(int64_t(std::size(unary_rows))));
  const Unary f = unary_rows[r].f;
  make(slots_[size_t(a)].dims, name(a) + "." + unary_rows[r].name + "()", {a}, [=](Machine& m) { return f(m.slot[size_t(a)]); });
}
void Generator::binary_of(int a) {
  if (a < 0) return;
  const std::string row = chance(80) ? pick(common_binary) : binary_rows[below(int64_t(std::size(binary_rows)))].name;
  const size_t r = row_named(binary_rows, row);
  Scalar s = 0;
  if (chance(30)) {
    const std::string t = number(s);
    const bool changes = s.category() == handle::Category::floating && chance(30);  // a captured value that changes
    const auto value = [=](Machine& m) { return changes ? Scalar(s.to_double() + 0.25 * m.repetition) : s; };
    const std::string written = changes ? t + " + 0.25 * repetition" : t;
    if (chance(70)) {
      const BinaryNumber f = binary_number_rows[r].f;
      make(slots_[size_t(a)].dims, name(a) + "." + row + "(" + written + ")", {a}, [=](Machine& m) { return f(m.slot[size_t(a)], value(m)); });
    } else {
      const NumberBinary f = number_binary_rows[r].f;
      make(slots_[size_t(a)].dims, "frit::" + row + "(" + written + ", " + name(a) + ")", {a}, [=](Machine& m) { return f(value(m), m.slot[size_t(a)]); });
    }
    return;
  }
  Dims out;
  const int b = slot_where([&](int x) { return meet(slots_[size_t(a)].dims, slots_[size_t(x)].dims, out); });
  if (b < 0 || !meet(slots_[size_t(a)].dims, slots_[size_t(b)].dims, out)) return;
  const Binary f = binary_rows[r].f;
  make(out, name(a) + "." + row + "(" + name(b) + ")", {a, b}, [=](Machine& m) { return f(m.slot[size_t(a)], m.slot[size_t(b)]); });
}
void Generator::ternary() {
  const int a = any_slot();
  if (a < 0) return;
  Dims ab, out;
  const auto with = [&](const Dims& d) {
    Dims unused;
    return slot_where([&](int x) { return meet(d, slots_[size_t(x)].dims, unused); });
  };
  const int b = with(slots_[size_t(a)].dims);
  if (b < 0 || !meet(slots_[size_t(a)].dims, slots_[size_t(b)].dims, ab)) return;
  const int c = with(ab);
  if (c < 0 || !meet(ab, slots_[size_t(c)].dims, out)) return;
  const std::string list = name(b) + ", " + name(c) + ")";
  switch (below(5)) {
    case 0:
      make(out, "where(" + name(a) + ".gt(0), " + list, {a, b, c}, [=](Machine& m) { return frit::where(m.slot[size_t(a)].gt(0), m.slot[size_t(b)], m.slot[size_t(c)]); });
      break;
    case 1: make(out, name(a) + ".lerp(" + list, {a, b, c}, [=](Machine& m) { return m.slot[size_t(a)].lerp(m.slot[size_t(b)], m.slot[size_t(c)]); }); break;
    case 2: make(out, name(a) + ".addcmul(" + list, {a, b, c}, [=](Machine& m) { return m.slot[size_t(a)].addcmul(m.slot[size_t(b)], m.slot[size_t(c)]); }); break;
    case 3: make(slots_[size_t(a)].dims, name(a) + ".clamp(-1, 1.5)", {a}, [=](Machine& m) { return m.slot[size_t(a)].clamp(Scalar(-1), Scalar(1.5)); }); break;
    default: {
      const double e = pick(std::vector<double>{2, 0.5, 3, -1, 1, 4, 1.7});
      make(slots_[size_t(a)].dims, name(a) + ".pow(" + std::to_string(e) + ")", {a}, [=](Machine& m) { return m.slot[size_t(a)].pow(Scalar(e)); });
    }
  }
}
void Generator::convert() {
  const int a = any_slot();
  if (a < 0) return;
  const Dtype d = pick(types_);
  const Dims& dims = slots_[size_t(a)].dims;
  if (chance(70)) make(dims, name(a) + ".to(" + constant(d) + ")", {a}, [=](Machine& m) { return m.slot[size_t(a)].to(d); });
  else if (chance(50)) make(dims, name(a) + ".clone()", {a}, [=](Machine& m) { return m.slot[size_t(a)].clone(); });
  else make(dims, name(a) + ".contiguous()", {a}, [=](Machine& m) { return m.slot[size_t(a)].contiguous(); });
}

// ---- reductions, rows, products ---------------------------------------------------------------------------------------------
void Generator::reduce() {
  const int a = any_slot();
  if (a < 0) return;
  const Dims& from = slots_[size_t(a)].dims;
  std::vector<int64_t> axes;
  const bool all = chance(15) || from.empty(), keep = chance(50);
  Dims out;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool reduced = all || chance(45) || (axes.empty() && i + 1 == from.size());
    if (reduced) axes.push_back(int64_t(i));
    if (!reduced || keep) out.push_back(reduced ? one() : from[i]);
  }
  if (chance(20))
    for (int64_t& x : axes) x -= int64_t(from.size());
  std::string list = "{";
  for (size_t i = 0; i < axes.size(); ++i) list += (i ? ", " : "") + std::to_string(axes[i]);
  list += std::string("}, ") + (keep ? "true" : "false");
  const auto go = [&](const char* n, auto f) {
    make(out, name(a) + "." + n + "(" + list + ")", {a}, [=](Machine& m) { return f(m.slot[size_t(a)], IntArrayRef(axes), keep); });
  };
  using T = const Tensor&;
  switch (below(12)) {
    case 0: case 1: case 2: go("sum", [](T t, IntArrayRef x, bool k) { return t.sum(x, k); }); break;
    case 3: case 4: go("mean", [](T t, IntArrayRef x, bool k) { return t.mean(x, k); }); break;
    case 5: go("amax", [](T t, IntArrayRef x, bool k) { return t.amax(x, k); }); break;
    case 6: go("amin", [](T t, IntArrayRef x, bool k) { return t.amin(x, k); }); break;
    case 7: go("any", [](T t, IntArrayRef x, bool k) { return t.any(x, k); }); break;
    case 8: go("all", [](T t, IntArrayRef x, bool k) { return t.all(x, k); }); break;
    case 9: go("var", [](T t, IntArrayRef x, bool k) { return t.var(x, false, k); }); break;
    case 10: go("logsumexp", [](T t, IntArrayRef x, bool k) { return t.logsumexp(x, k); }); break;
    default: {
      if (axes.size() != 1) return;
      const int64_t axis = axes[0];
      const std::string arg = "(" + std::to_string(axis) + (keep ? ", true)" : ", false)");
      if (chance(50)) make(out, name(a) + ".prod" + arg, {a}, [=](Machine& m) { return m.slot[size_t(a)].prod(axis, keep); });
      else make(out, name(a) + ".argmax" + arg, {a}, [=](Machine& m) { return m.slot[size_t(a)].argmax(axis, keep); });
    }
  }
}
void Generator::rows() {
  const int a = slot_where([&](int s) { return !slots_[size_t(s)].dims.empty(); });
  if (a < 0) return;
  const Dims& d = slots_[size_t(a)].dims;
  const int64_t axis = chance(65) ? int64_t(d.size()) - 1 : below(int64_t(d.size()));
  const std::string arg = "(" + std::to_string(axis) + ")";
  switch (below(7)) {
    case 0: case 1: make(d, name(a) + ".softmax" + arg, {a}, [=](Machine& m) { return m.slot[size_t(a)].softmax(axis); }); break;
    case 2: make(d, name(a) + ".log_softmax" + arg, {a}, [=](Machine& m) { return m.slot[size_t(a)].log_softmax(axis); }); break;
    case 3: make(d, name(a) + ".cumsum" + arg, {a}, [=](Machine& m) { return m.slot[size_t(a)].cumsum(axis); }); break;
    case 4: make(d, name(a) + ".argsort" + arg, {a}, [=](Machine& m) { return m.slot[size_t(a)].argsort(axis); }); break;
    case 5: make(d, name(a) + ".flip" + arg, {a}, [=](Machine& m) { return m.slot[size_t(a)].flip({axis}); }); break;
    default:
      make(d, "dropout(" + name(a) + ", 0.4, true)", {a}, [=](Machine& m) { return dropout(m.slot[size_t(a)], 0.4, true); });
  }
}
void Generator::norm() {
  const int a = slot_where([&](int s) { return !slots_[size_t(s)].dims.empty() && floating(s); });
  if (a < 0) return;
  const Dims& d = slots_[size_t(a)].dims;
  const int last = d.back();
  const int w = slot_where([&](int s) { return slots_[size_t(s)].dims == Dims{last} && at(s).dtype() == at(a).dtype(); });
  const bool rms = chance(40), weighted = w >= 0 && chance(70);
  const std::string text = std::string(rms ? "rms_norm(" : "layer_norm(") + name(a) + ", " + names({last}) + (weighted ? ", " + name(w) + ")" : ")");
  make(d, text, weighted ? std::vector<int>{a, w} : std::vector<int>{a}, [=](Machine& m) {
    const Tensor weight = weighted ? m.slot[size_t(w)] : Tensor();
    const std::vector<int64_t> shape{m.dim[size_t(last)]};
    return rms ? rms_norm(m.slot[size_t(a)], shape, weight) : layer_norm(m.slot[size_t(a)], shape, weight);
  });
}
// Most often an axis has the name of its dim, so that what meets agrees; now and then another.
void Generator::rename() {
  const int a = slot_where([&](int s) { return !slots_[size_t(s)].dims.empty(); });
  if (a < 0) return;
  const Dims& d = slots_[size_t(a)].dims;
  std::string text;
  std::vector<std::string> used;
  for (int e : d) {
    std::string n = "axis" + std::to_string(chance(96) ? e : int(below(base_extents)));
    if (is_one(e) || chance(15) || std::find(used.begin(), used.end(), n) != used.end()) n = "_";
    else used.push_back(n);
    text += (text.empty() ? "" : " ") + n;
  }
  make(d, "named(" + name(a) + ", \"" + text + "\")", {a}, [=](Machine& m) { return named(m.slot[size_t(a)], text); }, true);
}
void Generator::product() {
  const int a = slot_where([&](int s) { return slots_[size_t(s)].dims.size() >= 2 && floating(s); });
  if (a < 0) return;
  const Dims& x = slots_[size_t(a)].dims;
  const auto inner = [&](const Dims& y, bool turned) { return y[y.size() - (turned ? 1 : 2)] == x.back(); };
  const bool turned = chance(40);
  int b = slot_where([&](int s) {
    const Dims& y = slots_[size_t(s)].dims;
    return y.size() >= 2 && at(s).dtype() == at(a).dtype() && inner(y, turned) && (y.size() == 2 || x.size() == 2 || Dims(x.begin(), x.end() - 2) == Dims(y.begin(), y.end() - 2));
  });
  bool flip_b = turned;
  if (b < 0) b = a, flip_b = true;
  const Dims& y = slots_[size_t(b)].dims;
  Dims out = x.size() >= y.size() ? Dims(x.begin(), x.end() - 2) : Dims(y.begin(), y.end() - 2);
  out.push_back(x[x.size() - 2]);
  out.push_back(y[y.size() - (flip_b ? 2 : 1)]);
  make(out, name(a) + ".matmul(" + name(b) + (flip_b ? ".transpose(-2, -1))" : ")"), {a, b},
       [=](Machine& m) { return m.slot[size_t(a)].matmul(flip_b ? m.slot[size_t(b)].transpose(-2, -1) : m.slot[size_t(b)]); });
}
// Convolution and pooling that keep the extents: stride 1 and padding by half a kernel.
void Generator::windows() {
  const int a = slot_where([&](int s) { return (slots_[size_t(s)].dims.size() == 2 || slots_[size_t(s)].dims.size() == 3) && floating(s); });
  if (a < 0) return;
  Dims out = slots_[size_t(a)].dims;
  const int64_t reach = 1 + below(2), kernel = 2 * reach + 1;
  const std::string k = std::to_string(kernel), p = std::to_string(reach);
  if (chance(40)) {
    const bool greatest = chance(70);
    make(out, std::string(greatest ? "max" : "avg") + "_pool1d(" + name(a) + ", " + k + ", 1, " + p + ")", {a}, [=](Machine& m) {
      const Tensor& x = m.slot[size_t(a)];
      return greatest ? max_pool1d(x, kernel, 1, reach) : avg_pool1d(x, kernel, 1, reach);
    });
    return;
  }
  // The weight is a matrix of channels, the same for each element of the kernel, or a turn of the input's own.
  const int channels = out[out.size() - 2];
  int b = slot_where([&](int s) { return slots_[size_t(s)].dims.size() == 2 && slots_[size_t(s)].dims[1] == channels && at(s).dtype() == at(a).dtype(); });
  bool turned = false;
  if (b < 0) {
    if (out.size() != 2) return;
    b = a, turned = true;
  }
  out[out.size() - 2] = slots_[size_t(b)].dims[turned ? 1 : 0];
  make(out, "conv1d(" + name(a) + ", " + name(b) + (turned ? ".t()" : "") + ".unsqueeze(-1).expand({-1, -1, " + k + "}), {}, 1, " + p + ")", {a, b}, [=](Machine& m) {
    const Tensor& w = m.slot[size_t(b)];
    return conv1d(m.slot[size_t(a)], (turned ? w.t() : w).unsqueeze(-1).expand({-1, -1, kernel}), {}, 1, reach);
  });
}

// Query, key and value from what is there: the same tensor may be all three.
void Generator::attention() {
  const int q = slot_where([&](int s) { return slots_[size_t(s)].dims.size() >= 2 && floating(s); });
  if (q < 0) return;
  const Dims& x = slots_[size_t(q)].dims;
  const auto fits = [&](int s) {
    const Dims& y = slots_[size_t(s)].dims;
    return y.size() == x.size() && at(s).dtype() == at(q).dtype() && Dims(x.begin(), x.end() - 2) == Dims(y.begin(), y.end() - 2);
  };
  int k = slot_where([&](int s) { return fits(s) && slots_[size_t(s)].dims.back() == x.back(); });
  if (k < 0) k = q;
  const int length = slots_[size_t(k)].dims[x.size() - 2];
  int v = slot_where([&](int s) { return fits(s) && slots_[size_t(s)].dims[x.size() - 2] == length; });
  if (v < 0) v = k;
  const bool causal = chance(40);
  const int m = causal || chance(60) ? -1 : slot_where([&](int s) {
    const Dims& y = slots_[size_t(s)].dims;
    return y.size() == 2 && y[0] == x[x.size() - 2] && y[1] == length && (at(s).dtype() == kBool || at(s).dtype() == at(q).dtype());
  });
  const double dropped = chance(20) ? 0.25 : 0;
  Dims out(x.begin(), x.end() - 1);
  out.push_back(slots_[size_t(v)].dims.back());
  const std::string mask = m >= 0 ? name(m) : "{}";
  make(out, "scaled_dot_product_attention(" + name(q) + ", " + name(k) + ", " + name(v) + ", " + mask + (dropped > 0 ? ", 0.25, " : ", 0.0, ") + (causal ? "true)" : "false)"),
       m >= 0 ? std::vector<int>{q, k, v, m} : std::vector<int>{q, k, v}, [=](Machine& machine) {
    const auto& s = machine.slot;
    return scaled_dot_product_attention(s[size_t(q)], s[size_t(k)], s[size_t(v)], m >= 0 ? std::optional<Tensor>(s[size_t(m)]) : std::nullopt, dropped, causal);
  });
}

// ---- views ------------------------------------------------------------------------------------------------------------------
int Generator::view(int of) {
  const int a = of >= 0 ? of : any_slot();
  if (a < 0) return -1;
  const Dims d = slots_[size_t(a)].dims;
  const int64_t rank = int64_t(d.size());
  const auto view_of = [&](const Dims& dims, const std::string& text, auto f) {
    return make(dims, name(a) + text, {a}, [=](Machine& m) { return f(m.slot[size_t(a)], m); }, true);
  };
  const int64_t axis = rank ? below(rank) : 0;
  const std::string x = std::to_string(axis);
  using T = const Tensor&;
  switch (rank ? below(13) : 12) {
    case 0: case 1: case 2: {  // part of an axis
      const Dim part{Dim::part, d[size_t(axis)], 0, int(below(5)), int(below(4)), int(pick(std::vector<int>{1, 1, 1, 2, 3}))};
      Dims out = d;
      out[size_t(axis)] = dim(part);
      const std::string n = "e" + std::to_string(part.a);
      return view_of(out, ".slice(" + x + ", " + n + " * " + std::to_string(part.skip_front) + " / 8, " + n + " - " + n + " * " + std::to_string(part.skip_back) + " / 8, " + std::to_string(part.step) + ")",
                     [=](T t, Machine& m) {
                       const int64_t e = m.dim[size_t(part.a)];
                       return t.slice(axis, part_start(e, part.skip_front), e - part_start(e, part.skip_back), part.step);
                     });
    }
    case 3: {
      const int64_t other = below(rank);
      Dims out = d;
      std::swap(out[size_t(axis)], out[size_t(other)]);
      return view_of(out, ".transpose(" + x + ", " + std::to_string(other) + ")", [=](T t, Machine&) { return t.transpose(axis, other); });
    }
    case 4: {
      std::vector<int64_t> order(static_cast<size_t>(rank));
      for (int64_t i = 0; i < rank; ++i) order[size_t(i)] = i;
      std::shuffle(order.begin(), order.end(), random_);
      Dims out;
      std::string list;
      for (int64_t i : order) out.push_back(d[size_t(i)]), list += (list.empty() ? "" : ", ") + std::to_string(i);
      return view_of(out, ".permute({" + list + "})", [=](T t, Machine&) { return t.permute(order); });
    }
    case 5: {  // an index that moves with the repetition
      Dims out = d;
      out.erase(out.begin() + axis);
      const int e = d[size_t(axis)];
      const int64_t k = below(4);
      return view_of(out, ".select(" + x + ", (repetition + " + std::to_string(k) + ") % max(e" + std::to_string(e) + ", 1))",
                     [=](T t, Machine& m) { return t.select(axis, (m.repetition + k) % std::max<int64_t>(m.dim[size_t(e)], 1)); });
    }
    case 6: {
      Dims out = d;
      const int64_t place = below(rank + 1);
      out.insert(out.begin() + place, one());
      return view_of(out, ".unsqueeze(" + std::to_string(place) + ")", [=](T t, Machine&) { return t.unsqueeze(place); });
    }
    case 7: {  // unit axes repeat, a new leading axis may come
      Dims out = d;
      for (int& e : out)
        if (is_one(e) && chance(70)) e = any_dim(false);
      if (chance(30) || out == d) out.insert(out.begin(), any_dim(false));
      return view_of(out, ".expand(" + names(out) + ")", [=](T t, Machine& m) { return t.expand(m.sizes(out)); });
    }
    case 8: case 9: {  // two neighbours become one
      if (rank < 2) return -1;
      const int64_t k = below(rank - 1);
      Dims out = d;
      out[size_t(k)] = is_one(d[size_t(k)]) ? d[size_t(k + 1)] : is_one(d[size_t(k + 1)]) ? d[size_t(k)] : dim({Dim::product, d[size_t(k)], d[size_t(k + 1)]});
      out.erase(out.begin() + k + 1);
      return view_of(out, ".reshape(" + names(out) + ")", [=](T t, Machine& m) { return t.reshape(m.sizes(out)); });
    }
    case 10: {  // a product falls apart again
      for (int64_t k = 0; k < rank; ++k) {
        const Dim& p = p_.dims[size_t(d[size_t(k)])];
        if (p.kind != Dim::product) continue;
        Dims out = d;
        out[size_t(k)] = p.a;
        out.insert(out.begin() + k + 1, p.b);
        return view_of(out, ".view(" + names(out) + ")", [=](T t, Machine& m) { return t.view(m.sizes(out)); });
      }
      return -1;
    }
    case 11: {
      const std::vector<int64_t> unit = [&] {
        std::vector<int64_t> u;
        for (int64_t i = 0; i < rank; ++i)
          if (is_one(d[size_t(i)])) u.push_back(i);
        return u;
      }();
      if (unit.empty()) return view_of(d, ".detach()", [](T t, Machine&) { return t.detach(); });
      const int64_t k = pick(unit);
      Dims out = d;
      out.erase(out.begin() + k);
      return view_of(out, ".squeeze(" + std::to_string(k) + ")", [=](T t, Machine&) { return t.squeeze(k); });
    }
    default: return view_of(d, ".detach()", [](T t, Machine&) { return t.detach(); });
  }
}
void Generator::shape() { view(); }

// ---- in place ----------------------------------------------------------------------------------------------------------------
void Generator::write(int target) {
  const int a = target >= 0 ? target : slot_where([&](int s) { return !(at(s).requires_grad() && at(s).is_leaf()) || chance(10); });
  if (a < 0) return;
  Scalar s = 0;
  const auto operand = [&] { return slot_where([&](int x) { return fits(*this, slots_[size_t(a)].dims, slots_[size_t(x)].dims); }); };
  switch (below(8)) {
    case 0: {
      const size_t r = chance(70) ? row_named(unary_writes, std::string(pick(common_unary)) + "_") : size_t(below(int64_t(std::size(unary_writes))));
      const UnaryWrite f = unary_writes[r].f;
      add(name(a) + "." + unary_writes[r].name + "();", {a}, [=](Machine& m) { f(m.slot[size_t(a)]); });
      break;
    }
    case 1: case 2: {
      const std::string row = pick(std::vector<const char*>{"add", "mul", "sub", "div", "maximum"});
      const NumberWrite f = number_writes[row_named(number_writes, row + "_")].f;
      const std::string t = number(s);
      add(name(a) + "." + row + "_(" + t + ");", {a}, [=](Machine& m) { f(m.slot[size_t(a)], s); });
      break;
    }
    case 3: case 4: case 5: {
      const int b = operand();
      if (b < 0) return;
      const std::string row = chance(75) ? pick(std::vector<const char*>{"add", "mul", "sub", "add", "minimum"}) : binary_rows[below(int64_t(std::size(binary_rows)))].name;
      const BinaryWrite f = binary_writes[row_named(binary_writes, row + "_")].f;
      add(name(a) + "." + row + "_(" + name(b) + ");", {a, b}, [=](Machine& m) { f(m.slot[size_t(a)], m.slot[size_t(b)]); });
      break;
    }
    case 6: {
      const int b = operand();
      if (b < 0) return;
      add(name(a) + ".copy_(" + name(b) + ");", {a, b}, [=](Machine& m) { m.slot[size_t(a)].copy_(m.slot[size_t(b)]); });
      break;
    }
    default: {
      const std::string t = number(s);
      if (chance(40)) {
        add(name(a) + ".fill_(" + t + ");", {a}, [=](Machine& m) { m.slot[size_t(a)].fill_(s); });
        return;
      }
      const int b = operand();
      if (b < 0) return;
      add(name(a) + ".masked_fill_(" + name(b) + ".lt(0.25), " + t + ");", {a, b}, [=](Machine& m) { m.slot[size_t(a)].masked_fill_(m.slot[size_t(b)].lt(0.25), s); });
    }
  }
}
void Generator::write_view() {
  const int a = slot_where([&](int s) { return !slots_[size_t(s)].dims.empty() && !(at(s).requires_grad() && at(s).is_leaf()); });
  if (a < 0) return;
  // Without its gradient, in one case of five: what was saved before notices all the same.
  int v = chance(20) ? make(slots_[size_t(a)].dims, name(a) + ".detach()", {a}, [=](Machine& m) { return m.slot[size_t(a)].detach(); }, true) : view(a);
  if (v >= 0 && chance(25)) v = view(v);
  if (v < 0) return;
  if (chance(25)) {  // a view written through another that overlaps it
    const int w = view(a);
    if (w >= 0 && fits(*this, slots_[size_t(v)].dims, slots_[size_t(w)].dims)) {
      add(name(v) + ".copy_(" + name(w) + ");", {v, w}, [=](Machine& m) { m.slot[size_t(v)].copy_(m.slot[size_t(w)]); });
      p_.view_writes = true;
      return;
    }
  }
  const size_t before = p_.instructions.size();
  if (chance(15) && slots_[size_t(a)].dims.size() > 1) {  // a reshape that has to copy, and is read after the write
    Dims d = slots_[size_t(a)].dims;
    std::swap(d[0], d[1]);
    d[0] = is_one(d[0]) ? d[1] : is_one(d[1]) ? d[0] : dim({Dim::product, d[0], d[1]});
    d.erase(d.begin() + 1);
    make(d, name(a) + ".transpose(0, 1).reshape(" + names(d) + ")", {a}, [=](Machine& m) { return m.slot[size_t(a)].transpose(0, 1).reshape(m.sizes(d)); });
  }
  write(v);
  p_.view_writes |= p_.instructions.size() > before;
}

// ---- by index, joined ----------------------------------------------------------------------------------------------------------
void Generator::index() {
  const int a = slot_where([&](int s) { return !slots_[size_t(s)].dims.empty(); });
  if (a < 0) return;
  Dims d = slots_[size_t(a)].dims;
  const int64_t axis = below(int64_t(d.size()));
  const int extent = d[size_t(axis)];
  const std::string x = std::to_string(axis);
  const int count = any_dim(false);
  if (chance(55)) {
    const int i = make({count}, "random_index(seed, {e" + std::to_string(count) + "}, e" + std::to_string(extent) + ")", {},
                       [=](Machine& m) { return random_index(m.data_seed(), {m.dim[size_t(count)]}, m.dim[size_t(extent)]); });
    if (i < 0) return;
    d[size_t(axis)] = count;
    make(d, name(a) + ".index_select(" + x + ", " + name(i) + ")", {a, i}, [=](Machine& m) { return m.slot[size_t(a)].index_select(axis, m.slot[size_t(i)]); });
  } else {
    d[size_t(axis)] = count;
    const int i = make(d, "random_index(seed, " + names(d) + ", e" + std::to_string(extent) + ")", {},
                       [=](Machine& m) { return random_index(m.data_seed(), m.sizes(d), m.dim[size_t(extent)]); });
    if (i < 0) return;
    make(d, name(a) + ".gather(" + x + ", " + name(i) + ")", {a, i}, [=](Machine& m) { return m.slot[size_t(a)].gather(axis, m.slot[size_t(i)]); });
  }
}
void Generator::write_index() {
  const int a = slot_where([&](int s) { return !slots_[size_t(s)].dims.empty() && !(at(s).requires_grad() && at(s).is_leaf()); });
  if (a < 0) return;
  const Dims d = slots_[size_t(a)].dims;
  const int64_t axis = below(int64_t(d.size()));
  const int extent = d[size_t(axis)];
  const std::string x = std::to_string(axis);
  if (chance(30)) {
    using indexing::Slice;
    Scalar s = 0;
    const std::string t = number(s);
    add(name(a) + ".index_put_({Slice(1, None, 2)}, " + t + ");", {a}, [=](Machine& m) { m.slot[size_t(a)].index_put_({Slice(1, indexing::None, 2)}, s); });
    p_.view_writes = true;
    return;
  }
  const int source = slot_where([&](int s) { return slots_[size_t(s)].dims == d && at(s).dtype() == at(a).dtype(); });
  if (source < 0) return;
  const bool by_rows = chance(40);
  const Dims shape = by_rows ? Dims{extent} : d;
  const int i = make(shape, "random_index(seed, " + names(shape) + ", e" + std::to_string(extent) + ")", {},
                     [=](Machine& m) { return random_index(m.data_seed(), m.sizes(shape), m.dim[size_t(extent)]); });
  if (i < 0) return;
  const std::string arg = x + ", " + name(i) + ", " + name(source) + ")";
  if (by_rows) add(name(a) + ".index_add_(" + arg + ";", {a, i, source}, [=](Machine& m) { m.slot[size_t(a)].index_add_(axis, m.slot[size_t(i)], m.slot[size_t(source)]); });
  else if (chance(50)) add(name(a) + ".scatter_add_(" + arg + ";", {a, i, source}, [=](Machine& m) { m.slot[size_t(a)].scatter_add_(axis, m.slot[size_t(i)], m.slot[size_t(source)]); });
  else make(d, name(a) + ".scatter(" + arg, {a, i, source}, [=](Machine& m) { return m.slot[size_t(a)].scatter(axis, m.slot[size_t(i)], m.slot[size_t(source)]); });
}
void Generator::join() {
  const int a = slot_where([&](int s) { return !slots_[size_t(s)].dims.empty(); });
  if (a < 0) return;
  Dims d = slots_[size_t(a)].dims;
  const size_t axis = size_t(below(int64_t(d.size())));
  const int b = slot_where([&](int s) {
    const Dims& y = slots_[size_t(s)].dims;
    if (y.size() != d.size()) return false;
    for (size_t i = 0; i < d.size(); ++i)
      if (i != axis && y[i] != d[i]) return false;
    return true;
  });
  if (b < 0) return;
  if (slots_[size_t(b)].dims == d && chance(40)) {
    d.insert(d.begin() + ptrdiff_t(axis), dim({Dim::constant, 2}));
    make(d, "stack({" + name(a) + ", " + name(b) + "}, " + std::to_string(axis) + ")", {a, b}, [=](Machine& m) { return stack({m.slot[size_t(a)], m.slot[size_t(b)]}, int64_t(axis)); });
    return;
  }
  d[axis] = dim({Dim::sum, d[axis], slots_[size_t(b)].dims[axis]});
  make(d, "cat({" + name(a) + ", " + name(b) + "}, " + std::to_string(axis) + ")", {a, b}, [=](Machine& m) { return cat({m.slot[size_t(a)], m.slot[size_t(b)]}, int64_t(axis)); });
}

}  // namespace frit::testing
