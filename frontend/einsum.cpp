// einsum. Three steps: parse the equation to labels (an axis of the ellipsis is a label too); bring each operand to distinct
// labels (diagonals, sums of what occurs in it alone); contract pair by pair in the cheapest order, each pair as one
// matrix product [batch..., m, k] x [batch..., k, n], or as an elementwise product where nothing is summed. Labels are bits
// of a 64-bit set: 52 letters and up to 8 axes of the ellipsis. Start at einsum; tensordot and multi_dot stand at the end.
#include "frit/einsum.h"
#include <algorithm>
#include <bit>
#include <limits>
#include "frontend/detail.h"
#include "runtime/error.h"

namespace frit {

using namespace detail;

namespace {
using Set = uint64_t;
constexpr int letters = 52;
Set bit(int label) { return Set(1) << label; }

// ---- the equation -------------------------------------------------------------------------------------------------------
int label_of(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c - 'a' + 26; }
std::string name_of(int label) {
  return label >= letters ? "an axis of the ellipsis" : std::string("'") + char(label < 26 ? 'A' + label : 'a' + label - 26) + "'";
}
struct Term {
  std::vector<int> labels;  // letters; -1 where the ellipsis stands
  bool ellipsis = false;
};
struct Equation {
  std::string text;
  std::vector<std::vector<int>> operands;  // a label per axis
  std::vector<int> output;
  int64_t extent[64];
  Set output_set = 0;
};
[[noreturn]] void fail(const std::string& equation, const std::string& why) { throw ValueError("einsum(\"" + equation + "\"): " + why); }

Term parse_term(const std::string& equation, const std::string& part, const std::string& where) {
  Term t;
  for (size_t i = 0; i < part.size(); ++i) {
    const char c = part[i];
    if (c == ' ') continue;
    if (c == '.') {
      if (part.compare(i, 3, "...") != 0) fail(equation, "a '.' in " + where + " is not part of an ellipsis. Write three dots, \"...\".");
      if (t.ellipsis) fail(equation, where + " has more than one ellipsis. Write \"...\" once per term.");
      t.ellipsis = true;
      t.labels.push_back(-1);
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      t.labels.push_back(label_of(c));
    } else {
      fail(equation, std::string("'") + c + "' in " + where + " is no letter. Labels are a-z and A-Z.");
    }
  }
  return t;
}

Equation parse(const std::string& text, const TensorList& operands) {
  Equation e;
  e.text = text;
  std::fill(std::begin(e.extent), std::end(e.extent), int64_t(-1));
  if (operands.empty()) fail(text, "there is no operand. Give at least one tensor.");
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::vector<Term> terms;
  for (size_t start = 0;;) {
    const size_t comma = left.find(',', start);
    terms.push_back(parse_term(text, left.substr(start, comma - start), "operand " + std::to_string(terms.size())));
    if (comma == std::string::npos) break;
    start = comma + 1;
  }
  if (terms.size() != operands.size())
    fail(text, "the equation names " + std::to_string(terms.size()) + " operands, " + std::to_string(operands.size()) + " tensors are given. The counts must be equal.");
  // How many axes each ellipsis covers.
  int covered = 0;
  std::vector<int> covers(terms.size());
  for (size_t k = 0; k < terms.size(); ++k) {
    cell_of(operands[k], "einsum");
    const int named = int(terms[k].labels.size()) - terms[k].ellipsis, rank = int(operands[k].dim());
    if (terms[k].ellipsis ? named > rank : named != rank)
      fail(text, "operand " + std::to_string(k) + " of shape " + shape_text(operands[k].sizes()) + " has " + std::to_string(rank) + " axes, its term names " + std::to_string(named) +
                     (terms[k].ellipsis ? " besides the ellipsis. Name at most as many." : ". Name each axis, or add \"...\"."));
    covers[k] = rank - named;
    if (terms[k].ellipsis) covered = std::max(covered, covers[k]);
  }
  // Labels per axis, and their extents: 1 broadcasts between operands.
  int times[64] = {}, first[64] = {};
  for (size_t k = 0; k < terms.size(); ++k) {
    std::vector<int> axes;
    for (int label : terms[k].labels) {
      if (label >= 0) axes.push_back(label);
      else
        for (int i = covered - covers[k]; i < covered; ++i) axes.push_back(letters + i);
    }
    const IntArrayRef sizes = operands[k].sizes();
    for (size_t i = 0; i < axes.size(); ++i) {
      const int label = axes[i];
      for (size_t j = 0; j < i; ++j)
        if (axes[j] == label && sizes[j] != sizes[i])
          fail(text, "label " + name_of(label) + " stands twice in operand " + std::to_string(k) + " of shape " + shape_text(sizes) + ", for extents " + std::to_string(sizes[j]) + " and " +
                         std::to_string(sizes[i]) + ". A diagonal needs equal extents.");
      int64_t& known = e.extent[label];
      if (known == -1 || (known == 1 && sizes[i] != 1)) known = sizes[i], first[label] = int(k);
      else if (sizes[i] != known && sizes[i] != 1)
        fail(text, "label " + name_of(label) + " has extent " + std::to_string(sizes[i]) + " in operand " + std::to_string(k) + " of shape " + shape_text(sizes) + ", but " + std::to_string(known) +
                       " in operand " + std::to_string(first[label]) + " of shape " + shape_text(operands[size_t(first[label])].sizes()) + ". They must be equal or 1.");
      ++times[label];
    }
    e.operands.push_back(std::move(axes));
  }
  const auto put = [&](int label) { e.output.push_back(label), e.output_set |= bit(label); };
  if (arrow == std::string::npos) {
    for (int i = 0; i < covered; ++i) put(letters + i);
    for (int label = 0; label < letters; ++label)
      if (times[label] == 1) put(label);
  } else {
    const Term out = parse_term(text, text.substr(arrow + 2), "the output");
    for (int label : out.labels) {
      if (label < 0) {
        for (int i = 0; i < covered; ++i) put(letters + i);
        continue;
      }
      if (times[label] == 0) fail(text, "label " + name_of(label) + " of the output is in no operand. Name only axes of the operands.");
      if (e.output_set & bit(label)) fail(text, "label " + name_of(label) + " stands twice in the output. Name each axis once; use diag_embed to write a diagonal.");
      put(label);
    }
  }
  if (e.output.size() > size_t(tracer::max_rank)) fail(text, "the output has " + std::to_string(e.output.size()) + " axes. At most 8 are supported.");
  return e;
}

// ---- operands with distinct labels ------------------------------------------------------------------------------------------
struct Labelled {
  Tensor tensor;
  std::vector<int> labels;
  Set set() const {
    Set s = 0;
    for (int l : labels) s |= bit(l);
    return s;
  }
  int64_t axis(int label) const { return std::find(labels.begin(), labels.end(), label) - labels.begin(); }
};
void take_diagonals(Labelled& x) {
  for (size_t i = 0; i < x.labels.size(); ++i)
    for (size_t j = i + 1; j < x.labels.size();) {
      if (x.labels[j] != x.labels[i]) {
        ++j;
        continue;
      }
      x.tensor = x.tensor.diagonal(0, int64_t(i), int64_t(j)).movedim(-1, int64_t(i));  // the diagonal comes last: back to its place
      x.labels.erase(x.labels.begin() + int64_t(j));
    }
}
void sum_away(Labelled& x, Set gone) {
  Sizes axes;
  for (size_t i = 0; i < x.labels.size(); ++i)
    if (gone & bit(x.labels[i])) axes.push_back(int64_t(i));
  if (axes.empty()) return;
  x.tensor = x.tensor.sum(axes, false, x.tensor.is_floating_point() ? std::nullopt : std::optional<Dtype>(x.tensor.dtype()));
  std::erase_if(x.labels, [&](int l) { return gone & bit(l); });
}
// Axes of extent 1 whose label is larger elsewhere do not take part: what they lack is broadcast.
void drop_broadcast(Labelled& x, Set larger) {
  Sizes axes;
  std::vector<int> kept;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (x.tensor.sizes()[i] == 1 && larger & bit(x.labels[i])) axes.push_back(int64_t(i));
    else kept.push_back(x.labels[i]);
  }
  if (axes.empty()) return;
  x.tensor = x.tensor.squeeze(IntArrayRef(axes));
  x.labels = kept;
}
Tensor ordered(const Labelled& x, const std::vector<int>& labels) {
  Sizes order;
  for (int l : labels) order.push_back(x.axis(l));
  bool same = true;
  for (size_t i = 0; i < order.size(); ++i) same &= order[i] == int64_t(i);
  return same ? x.tensor : x.tensor.permute(order);
}

// ---- a pair -----------------------------------------------------------------------------------------------------------------
int64_t product(const std::vector<int>& labels, const Labelled& x) {
  int64_t n = 1;
  for (int l : labels) n *= x.tensor.sizes()[size_t(x.axis(l))];
  return n;
}
// x with each group of axes as one axis, batch axes apart unless they are too many.
Tensor grouped(const Labelled& x, const std::vector<int>& batch, bool flat_batch, const std::vector<int>& rows, const std::vector<int>& columns) {
  std::vector<int> all = batch;
  all.insert(all.end(), rows.begin(), rows.end());
  all.insert(all.end(), columns.begin(), columns.end());
  Sizes e;
  if (flat_batch) e.push_back(product(batch, x));
  else
    for (int l : batch) e.push_back(x.tensor.sizes()[size_t(x.axis(l))]);
  e.push_back(product(rows, x));
  e.push_back(product(columns, x));
  const Tensor t = ordered(x, all);
  return t.sizes() == IntArrayRef(e) ? t : t.reshape(e);
}
// The product of two operands, with the labels in `keep` left.
Labelled contract(Labelled a, Labelled b, Set keep) {
  Set larger_in_a = 0, larger_in_b = 0;
  const auto larger = [](const Labelled& x) {
    Set s = 0;
    for (size_t i = 0; i < x.labels.size(); ++i)
      if (x.tensor.sizes()[i] != 1) s |= bit(x.labels[i]);
    return s;
  };
  larger_in_a = larger(a), larger_in_b = larger(b);
  drop_broadcast(a, larger_in_b);
  drop_broadcast(b, larger_in_a);
  sum_away(a, a.set() & ~b.set() & ~keep);
  sum_away(b, b.set() & ~a.set() & ~keep);
  const Set both = a.set() & b.set();
  std::vector<int> batch, summed, rows, columns;
  for (int l : a.labels) (!(both & bit(l)) ? rows : keep & bit(l) ? batch : summed).push_back(l);
  for (int l : b.labels)
    if (!(both & bit(l))) columns.push_back(l);
  Labelled out;
  out.labels = batch;
  out.labels.insert(out.labels.end(), rows.begin(), rows.end());
  out.labels.insert(out.labels.end(), columns.begin(), columns.end());
  Sizes extents;
  for (int l : out.labels) extents.push_back(both & bit(l) || std::find(rows.begin(), rows.end(), l) != rows.end() ? a.tensor.sizes()[size_t(a.axis(l))] : b.tensor.sizes()[size_t(b.axis(l))]);
  if (summed.empty()) {  // elementwise
    std::vector<int> left = batch, right = batch;
    left.insert(left.end(), rows.begin(), rows.end());
    right.insert(right.end(), columns.begin(), columns.end());
    Tensor x = ordered(a, left), y = ordered(b, right);
    for (size_t i = 0; i < columns.size(); ++i) x = x.unsqueeze(-1);
    for (size_t i = 0; i < rows.size(); ++i) y = y.unsqueeze(int64_t(batch.size()));
    out.tensor = x.mul(y);
    return out;
  }
  const bool flat_batch = batch.size() + 2 > size_t(tracer::max_rank);
  const Tensor p = grouped(a, batch, flat_batch, rows, summed).matmul(grouped(b, batch, flat_batch, summed, columns));
  out.tensor = p.sizes() == IntArrayRef(extents) ? p : p.reshape(extents);
  return out;
}

// ---- the order --------------------------------------------------------------------------------------------------------------
double size_of_set(Set s, const int64_t* extent) {
  double n = 1;
  for (; s; s &= s - 1) n *= double(extent[std::countr_zero(s)]);
  return n;
}
bool fits(Set s) { return std::popcount(s) <= tracer::max_rank; }

// Exact, over all subsets: the cheapest way to each subset's result.
EinsumPath best_path(const std::vector<Set>& sets, Set output, const int64_t* extent) {
  const int n = int(sets.size());
  const uint32_t all = (1u << n) - 1;
  std::vector<Set> inside(all + 1, 0), left(all + 1, 0);  // labels in a subset; those that its result has
  std::vector<double> cost(all + 1, std::numeric_limits<double>::infinity());
  std::vector<uint32_t> split(all + 1, 0);
  for (uint32_t s = 1; s <= all; ++s) inside[s] = inside[s & (s - 1)] | sets[size_t(std::countr_zero(s))];
  for (uint32_t s = 1; s <= all; ++s) left[s] = inside[s] & (output | inside[all & ~s]);
  for (uint32_t s = 1; s <= all; ++s) {
    if (!(s & (s - 1))) {
      cost[s] = 0;
      continue;
    }
    if (!fits(left[s])) continue;
    const uint32_t low = s & -s;  // in the first part: each partition is seen once
    for (uint32_t part = (s - 1) & s; part; part = (part - 1) & s) {
      if (!(part & low)) continue;
      const double c = cost[part] + cost[s & ~part] + size_of_set(left[part] | left[s & ~part], extent);
      if (c < cost[s]) cost[s] = c, split[s] = part;
    }
  }
  EinsumPath path;
  path.multiplications = cost[all];
  if (cost[all] == std::numeric_limits<double>::infinity()) return path;
  const auto walk = [&](const auto& self, uint32_t s) -> int {
    if (!(s & (s - 1))) return std::countr_zero(s);
    const int a = self(self, split[s]), b = self(self, s & ~split[s]);
    path.steps.emplace_back(a, b);
    return n + int(path.steps.size()) - 1;
  };
  walk(walk, all);
  return path;
}
// Greedy: the pair that makes the results smallest, then the cheapest.
EinsumPath greedy_path(const std::vector<Set>& sets, Set output, const int64_t* extent) {
  std::vector<std::pair<int, Set>> open;
  for (size_t k = 0; k < sets.size(); ++k) open.emplace_back(int(k), sets[k]);
  EinsumPath path;
  while (open.size() > 1) {
    double best = std::numeric_limits<double>::infinity(), best_work = best;
    size_t x = 0, y = 0;
    Set best_left = 0;
    for (size_t i = 0; i < open.size(); ++i)
      for (size_t j = i + 1; j < open.size(); ++j) {
        Set others = output;
        for (size_t k = 0; k < open.size(); ++k)
          if (k != i && k != j) others |= open[k].second;
        const Set inside = open[i].second | open[j].second, left = inside & others;
        if (!fits(left)) continue;
        const double growth = size_of_set(left, extent) - size_of_set(open[i].second, extent) - size_of_set(open[j].second, extent);
        const double work = size_of_set(inside, extent);
        if (growth < best || (growth == best && work < best_work)) best = growth, best_work = work, x = i, y = j, best_left = left;
      }
    if (x == y) {
      path.multiplications = std::numeric_limits<double>::infinity();
      return path;
    }
    path.steps.emplace_back(open[x].first, open[y].first);
    path.multiplications += best_work;
    open.erase(open.begin() + int64_t(y));
    open[x] = {int(sets.size() + path.steps.size()) - 1, best_left};
  }
  return path;
}
EinsumPath path_of(const Equation& e, const std::vector<Set>& sets) {
  if (sets.size() == 1) return {};
  const EinsumPath p = sets.size() <= 10 ? best_path(sets, e.output_set, e.extent) : greedy_path(sets, e.output_set, e.extent);
  if (p.steps.empty()) fail(e.text, "every order of contraction has an intermediate result of more than 8 axes. Contract in several calls.");
  return p;
}
// Labels of each operand after what occurs in it alone was summed.
std::vector<Set> label_sets(const Equation& e) {
  std::vector<Set> sets;
  for (const auto& labels : e.operands) {
    Set s = 0;
    for (int l : labels) s |= bit(l);
    sets.push_back(s);
  }
  std::vector<Set> alone = sets;
  for (size_t k = 0; k < sets.size(); ++k) {
    Set others = e.output_set;
    for (size_t j = 0; j < sets.size(); ++j)
      if (j != k) others |= sets[j];
    alone[k] &= others;
  }
  return alone;
}
}  // namespace

EinsumPath einsum_path(const std::string& equation, const TensorList& operands) {
  const Equation e = parse(equation, operands);
  return path_of(e, label_sets(e));
}
Tensor einsum(const std::string& equation, const TensorList& operands) {
  const Equation e = parse(equation, operands);
  for (size_t k = 1; k < operands.size(); ++k)
    if (operands[k].dtype() != operands[0].dtype())
      throw DtypeError("einsum(\"" + equation + "\"): operand 0 has type " + dtype_name(operands[0].dtype()) + ", operand " + std::to_string(k) + " " + dtype_name(operands[k].dtype()) + ". Convert one with to().");
  const std::vector<Set> sets = label_sets(e);
  std::vector<Labelled> open;
  for (size_t k = 0; k < operands.size(); ++k) {
    open.push_back({operands[k], e.operands[k]});
    take_diagonals(open[k]);
    sum_away(open[k], open[k].set() & ~sets[k]);
  }
  for (const auto& [a, b] : path_of(e, sets).steps) {
    Set keep = e.output_set;
    for (size_t k = 0; k < open.size(); ++k)
      if (int(k) != a && int(k) != b) keep |= open[k].set();
    open.push_back(contract(open[size_t(a)], open[size_t(b)], keep));
    open[size_t(a)] = {}, open[size_t(b)] = {};
  }
  return ordered(open.back(), e.output);
}

Tensor tensordot(const Tensor& a, const Tensor& b, IntArrayRef axes_a, IntArrayRef axes_b) {
  if (axes_a.size() != axes_b.size())
    throw ValueError("tensordot: " + std::to_string(axes_a.size()) + " axes of the first and " + std::to_string(axes_b.size()) + " of the second are named. Name as many of each.");
  Labelled x{a, {}}, y{b, {}};
  if (a.dim() + b.dim() - 2 * int64_t(axes_a.size()) > tracer::max_rank) throw ShapeError("tensordot: the result has more than 8 axes. At most 8 are supported.");
  if (!axes_a.empty()) axis_mask(axes_a, a.dim(), "tensordot"), axis_mask(axes_b, b.dim(), "tensordot");
  for (int64_t i = 0; i < a.dim(); ++i) x.labels.push_back(int(i));
  for (int64_t i = 0; i < b.dim(); ++i) y.labels.push_back(int(16 + i));
  Set keep = ~Set(0);
  for (size_t k = 0; k < axes_a.size(); ++k) {
    const int i = wrap_axis(axes_a[k], a.dim(), "tensordot"), j = wrap_axis(axes_b[k], b.dim(), "tensordot");
    const int64_t p = a.sizes()[size_t(i)], q = b.sizes()[size_t(j)];
    if (p != q && p != 1 && q != 1)
      throw ShapeError("tensordot: axis " + std::to_string(i) + " of " + shape_text(a.sizes()) + " meets axis " + std::to_string(j) + " of " + shape_text(b.sizes()) + ". Their extents must be equal or 1.");
    y.labels[size_t(j)] = i;
    keep &= ~bit(i);
  }
  return contract(x, y, keep).tensor;
}

}  // namespace frit
