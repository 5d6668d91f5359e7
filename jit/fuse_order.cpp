// Fusion's last steps: sums of columns that read the same tensor are joined, sources that only kernels read are found, and the groups are put
// in order, at first by their first nodes, then so that less memory is held. Start at Builder::order.
#include <algorithm>
#include <bit>
#include "jit/fuse_parts.h"

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

// Neighbours that do not depend on each other change places where less memory is needed then: a product that is the last to read
// a large tensor comes before one that only makes another. The extents are those of the trace at hand.
void Builder::lower_peak(std::vector<uint32_t>& draft) {
  std::vector<Group>& groups = fusion_.groups;
  std::vector<std::vector<uint32_t>> reads(t_.nodes.size());  // positions, by the node whose memory is read
  const auto bytes = [&](uint32_t n) { return t_.numel(n) * int64_t(size_of(t_.nodes[n].result.dtype)); };
  std::vector<bool> stays(t_.nodes.size());
  for (uint32_t n = 0; n < t_.nodes.size(); ++n)
    if (roots_[n]) stays[view_base(t_, n)] = true;
  std::vector<std::vector<uint32_t>> inputs(groups.size());  // as they are dropped
  for (uint32_t p = 0; p < groups.size(); ++p) {
    for (uint32_t n : groups[p].inputs) {
      const uint32_t base = view_base(t_, n);
      if (t_.nodes[base].call.op != Op::leaf && !fusion_.computed[base] && !stays[base] && !written_[storage_[base]] && std::find(inputs[p].begin(), inputs[p].end(), base) == inputs[p].end()) inputs[p].push_back(base);
    }
    for (uint32_t base : inputs[p]) reads[base].push_back(p);
  }
  const auto made = [&](uint32_t p) {
    int64_t sum = 0;
    for (uint32_t n : groups[p].outputs) sum += writes_in_place(n) || fusion_.computed[n] ? 0 : bytes(n);
    return sum;
  };
  const auto freed = [&](uint32_t p, uint32_t other) {  // by p where it comes before other
    int64_t sum = 0;
    for (uint32_t base : inputs[p])
      if (std::all_of(reads[base].begin(), reads[base].end(), [&](uint32_t r) { return r <= std::max(p, other) && r != other; })) sum += bytes(base);
    return sum;
  };
  for (int sweep = 0; sweep < 8; ++sweep) {
    bool changed = false;
    for (uint32_t p = 0; p + 1 < groups.size(); ++p) {
      if (draft[p] == draft[p + 1] || depends(draft[p + 1], draft[p])) continue;
      const int64_t a = made(p), b = made(p + 1);
      if (std::max(a, a - freed(p, p + 1) + b) <= std::max(b, b - freed(p + 1, p) + a)) continue;
      for (uint32_t base : inputs[p])
        std::replace(reads[base].begin(), reads[base].end(), p, ~0u);
      for (uint32_t base : inputs[p + 1]) std::replace(reads[base].begin(), reads[base].end(), p + 1, p);
      for (uint32_t base : inputs[p]) std::replace(reads[base].begin(), reads[base].end(), ~0u, p + 1);
      std::swap(groups[p], groups[p + 1]), std::swap(inputs[p], inputs[p + 1]), std::swap(draft[p], draft[p + 1]);
      changed = true;
    }
    if (!changed) return;
  }
}

}  // namespace frit::jit::fusing
