// Fusion's last steps: sums of columns that read the same tensor are joined, sources that only kernels read are found, and the groups are put
// in order, at first by their first nodes, then so that less memory is held. Start at Builder::order.
#include <algorithm>
#include <bit>
#include <utility>
#include "jit/fuse_parts.h"

namespace frit::jit {
bool tells_rows(const Trace& t, uint32_t n) {
  using namespace tracer;
  const Op op = t.nodes[n].call.op;
  return row(op).kind == RowKind::product || ((op == Op::convolution || op == Op::convolution_input) && is_floating(t.nodes[n].result.dtype));
}
}  // namespace frit::jit

namespace frit::jit::fusing {

// Sums of columns that read the same tensor are one kernel, whatever lies between them: it is read once.
void Builder::join_columns() {
  const auto may_join = [&](uint32_t a, uint32_t b) {
    const Draft &x = drafts_[a], &y = drafts_[b];
    if (y.group.kind != GroupKind::columns || x.group.first != y.group.first || x.group.last != y.group.last || !same_shape(x.group.space, y.group.space)) return false;
    if (depends(a, b) || depends(b, a) || x.group.nodes.size() + y.group.nodes.size() > max_group_nodes) return false;
    size_t shared = 0;
    for (uint32_t n : x.read) shared += std::find(y.read.begin(), y.read.end(), n) != y.read.end() && is_full(x, n);
    if (shared == 0 || x.read.size() + y.read.size() - shared > max_group_operands) return false;
    return true;
  };
  for (uint32_t a = 0; a < drafts_.size(); ++a) {
    if (drafts_[a].group.kind != GroupKind::columns) continue;
    for (uint32_t b = a + 1; b < drafts_.size(); ++b) {
      if (!may_join(a, b)) continue;
      Draft &x = drafts_[a], &y = drafts_[b];
      for (uint32_t n : std::exchange(y.group.nodes, {})) x.group.nodes.push_back(n), group_of_[n] = a;
      std::stable_partition(x.group.nodes.begin(), x.group.nodes.end(), [&](uint32_t n) { return is_full(x, n); });
      for (uint32_t n : y.read)
        if (std::find(x.read.begin(), x.read.end(), n) == x.read.end()) x.read.push_back(n);
      y.group.kind = GroupKind::single;
      for (uint32_t h = 0; h < drafts_.size(); ++h) {
        if (depends(b, h)) add_dependence(a, h);
        if (depends(h, b)) add_dependence(h, a);
      }
    }
  }
}

Fusion Builder::order() {
  // By the first node, as far as dependences allow.
  std::vector<bool> done(drafts_.size());
  for (uint32_t g = 0; g < drafts_.size(); ++g) done[g] = drafts_[g].group.nodes.empty();
  std::vector<std::pair<uint32_t, bool>> stack;
  std::vector<uint32_t> draft;  // of each group
  for (uint32_t start = 0; start < drafts_.size(); ++start) {
    stack.push_back({start, false});
    while (!stack.empty()) {
      auto [g, expanded] = stack.back();
      stack.pop_back();
      if (done[g]) continue;
      if (expanded) {
        done[g] = true;
        Group& group = drafts_[g].group;
        finish(group);
        if (2 * group.inputs.size() + group.outputs.size() <= max_group_pointers) {
          fusion_.groups.push_back(std::move(group)), draft.push_back(g);
          continue;
        }
        fusion_.why_not.push_back(std::to_string(group.nodes.size()) + " ops run alone: one kernel would write " + std::to_string(group.outputs.size()) + " tensors");
        for (uint32_t n : group.nodes) {
          Group single;
          single.nodes = {n}, single.space = n;
          finish(single);
          fusion_.groups.push_back(std::move(single)), draft.push_back(g);
        }
        continue;
      }
      stack.push_back({g, true});
      for (uint32_t h = uint32_t(drafts_.size()); h-- > 0;)
        if (depends(g, h) && !done[h]) stack.push_back({h, false});
    }
  }
  find_computed();
  lower_peak(draft);
  return std::move(fusion_);
}

// Sources that nobody but kernels of groups reads need no memory: a kernel computes the elements that it reads.
void Builder::find_computed() {
  const uint32_t count = uint32_t(t_.nodes.size());
  fusion_.computed.assign(count, false);
  for (uint32_t n = 0; n < count; ++n) fusion_.computed[n] = needed_[n] && is_indexed_source(t_, n) && !written_[storage_[n]];
  for (uint32_t n = 0; n < count; ++n)
    if (roots_[n]) fusion_.computed[view_base(t_, n)] = false;
  for (const Group& g : fusion_.groups)
    for (uint32_t in : g.inputs)
      if (const uint32_t base = view_base(t_, in); fusion_.computed[base] && !computable(in, g)) fusion_.computed[base] = false;
}
bool Builder::computable(uint32_t in, const Group& g) const {
  if (g.kind == GroupKind::single) return false;
  bool repeats = false;
  for (uint32_t v = in; row(t_.nodes[v].call.op).kind == RowKind::view; v = t_.nodes[v].call.in[0]) {
    const Op op = t_.nodes[v].call.op;
    repeats |= op == Op::expand || op == Op::as_strided;
    if (op != Op::reshape || only_unit_axes(t_, v)) continue;
    // A reshape of what lies in order is a view whatever the extents are.
    for (uint32_t u = t_.nodes[v].call.in[0]; row(t_.nodes[u].call.op).kind == RowKind::view; u = t_.nodes[u].call.in[0])
      if (t_.nodes[u].call.op != Op::reshape && t_.nodes[u].call.op != Op::detach) return false;
  }
  if (t_.nodes[view_base(t_, in)].call.op == Op::arange) return true;
  // Drawing costs some hundred instructions: a number that is read over and over is drawn once.
  Draft d;
  d.group.kind = g.kind, d.group.space = g.space, d.group.first = g.first, d.group.last = g.last;
  return !repeats && (is_full(d, in) || (g.kind == GroupKind::row && is_kept(d, in)));
}

namespace {
// The groups as the search for an order sees them. Positions are those at its beginning.
struct Ordering {
  std::vector<int64_t> made;                         // by group: bytes of its results
  std::vector<std::vector<uint32_t>> inputs;         // by group: tensors that are dropped when the last has read them
  std::vector<std::vector<uint32_t>> readers;        // by tensor: groups
  std::vector<int64_t> bytes;                        // by tensor
  std::vector<uint32_t> at;                          // by group: where it stands
  std::vector<uint32_t> order;                       // groups
  // The most that is held, above what was held before, while these run where order[first] stands and what stands before it has run. each: how much
  // is held before each of them.
  int64_t highest(const uint32_t* groups, size_t count, uint32_t first, int64_t now = 0, int64_t* each = nullptr) const {
    int64_t most = 0;
    for (size_t i = 0; i < count; ++i) {
      if (each) each[i] = now;
      now += made[groups[i]];
      most = std::max(most, now);
      for (uint32_t tensor : inputs[groups[i]]) {
        const auto done = [&](uint32_t g) { return at[g] < first || std::find(groups, groups + i + 1, g) != groups + i + 1; };
        if (std::all_of(readers[tensor].begin(), readers[tensor].end(), done)) now -= bytes[tensor];
      }
    }
    return most;
  }
};
constexpr uint32_t longest_run = 3;
constexpr double near_peak = 0.5;  // what holds less stays in the program's order, in which results are read while they are in the cache
}  // namespace

// A product or a convolution, and a kernel that goes over its rows as they are finished.
bool Builder::runs_with(const Group& product, const Group& g) const {
  if (product.kind != GroupKind::single || !tells_rows(t_, product.nodes[0]) || (g.kind != GroupKind::elements && g.kind != GroupKind::row)) return false;
  return std::any_of(g.inputs.begin(), g.inputs.end(), [&](uint32_t n) { return view_base(t_, n) == product.nodes[0]; });
}

// Short runs of groups that do not depend on each other change places where less memory is needed then: a product that is the last to read
// a large tensor comes before one that only makes another, and what it reads is made for it. The extents are those of the trace at hand.
void Builder::lower_peak(const std::vector<uint32_t>& draft) {
  std::vector<Group>& groups = fusion_.groups;
  const uint32_t count = uint32_t(groups.size());
  const auto bytes = [&](uint32_t n) { return t_.numel(n) * int64_t(size_of(t_.nodes[n].result.dtype)); };
  std::vector<bool> stays(t_.nodes.size());
  for (uint32_t n = 0; n < t_.nodes.size(); ++n)
    if (roots_[n]) stays[view_base(t_, n)] = true;
  Ordering o;
  std::vector<uint32_t> tensor(t_.nodes.size(), none);
  o.inputs.resize(count), o.made.resize(count), o.at.resize(count), o.order.resize(count);
  for (uint32_t p = 0; p < count; ++p) {
    o.at[p] = o.order[p] = p;
    for (uint32_t n : groups[p].outputs) o.made[p] += writes_in_place(n) || fusion_.computed[n] ? 0 : bytes(n);
    for (uint32_t n : groups[p].inputs) {
      const uint32_t base = view_base(t_, n);
      if (t_.nodes[base].call.op == Op::leaf || fusion_.computed[base] || stays[base] || written_[storage_[base]]) continue;
      if (tensor[base] == none) tensor[base] = uint32_t(o.bytes.size()), o.bytes.push_back(bytes(base)), o.readers.emplace_back();
      std::vector<uint32_t>& readers = o.readers[tensor[base]];
      if (readers.empty() || readers.back() != p) readers.push_back(p), o.inputs[p].push_back(tensor[base]);
    }
  }
  std::vector<int64_t> held(count);  // by place: before the group there runs
  int64_t peak = 0;
  const auto together = [&](uint32_t p) { return p > 0 && p < count && runs_with(groups[o.order[p - 1]], groups[o.order[p]]); };
  // The run [p, q) and the one after it, [q, r).
  const auto better = [&](uint32_t p, uint32_t q, uint32_t r) {
    for (uint32_t b = q; b < r; ++b)
      for (uint32_t a = p; a < q; ++a)
        if (draft[o.order[a]] == draft[o.order[b]] || depends(draft[o.order[b]], draft[o.order[a]])) return false;
    std::vector<uint32_t> turned(o.order.begin() + q, o.order.begin() + r);
    turned.insert(turned.end(), o.order.begin() + p, o.order.begin() + q);
    const int64_t most = o.highest(&o.order[p], r - p, p);
    return double(held[p] + most) > near_peak * double(peak) && o.highest(turned.data(), turned.size(), p) < most && !together(p) && !together(q) && !together(r);
  };
  const auto swap_from = [&](uint32_t p) {
    for (uint32_t first = 1; first <= longest_run; ++first)
      for (uint32_t second = 1; second <= longest_run && p + first + second <= count; ++second) {
        if (!better(p, p + first, p + first + second)) continue;
        std::rotate(o.order.begin() + p, o.order.begin() + p + first, o.order.begin() + p + first + second);
        for (uint32_t i = p; i < p + first + second; ++i) o.at[o.order[i]] = i;
        o.highest(&o.order[p], first + second, p, held[p], &held[p]);
        return true;
      }
    return false;
  };
  bool changed = true;
  for (int sweep = 0; sweep < 8 && std::exchange(changed, false); ++sweep) {
    peak = o.highest(o.order.data(), count, 0, 0, held.data());
    for (uint32_t p = 0; p + 1 < count; ++p) changed |= swap_from(p);
  }
  std::vector<Group> ordered;
  for (uint32_t g : o.order) ordered.push_back(std::move(groups[g]));
  groups = std::move(ordered);
}

}  // namespace frit::jit::fusing
