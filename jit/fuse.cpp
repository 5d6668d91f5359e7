// Fusion, greedily in recorded order: a node joins the group of one of its producers when the shapes fit the group's
// iteration space and no path leads from that group through another back to the node. Writes in place add dependences
// between everything that touches the same storage. Start at fuse().
//
//   Draft     a group being made, with the set of groups that it depends on
//   Builder   node -> group, storage classes, and the rules of what fits
#include <algorithm>
#include <bit>
#include "jit/fuse_parts.h"

namespace frit::jit {

namespace fusing {
bool Builder::is_pointwise(uint32_t n) const {
  const RowKind k = row(t_.nodes[n].call.op).kind;
  return k == RowKind::pointwise || k == RowKind::copy;
}
bool Builder::fusable(uint32_t n) const {
  const Node& node = t_.nodes[n];
  if (writes_in_place(n)) {
    if ((node.result.flags & wants_grad) && !(node.call.mode & new_leaf)) return false;  // keeps a copy of what it overwrites
    for (int k = 1; k < t_.input_count(n); ++k)        // reads what it writes through another view: the operand is copied first
      if (const uint32_t in = t_.input(n, k); in != scalar_operand && in != node.call.in[0] && storage_[in] == storage_[n]) return false;
  }
  if (is_pointwise(n)) return true;
  if (row(node.call.op).kind != RowKind::reduce || node.call.op == Op::argmax || node.call.op == Op::argmin) return false;
  const Result& in = t_.nodes[node.call.in[0]].result;
  const uint64_t axes = node.call.attr;
  if (in.rank == 0 || axes == 0) return false;
  const uint64_t run = axes >> __builtin_ctzll(axes);
  return (run & (run + 1)) == 0;  // one run of axes
}
bool Builder::same_shape(uint32_t a, uint32_t b) const {
  const Result &x = t_.nodes[a].result, &y = t_.nodes[b].result;
  if (x.rank != y.rank) return false;
  for (int i = 0; i < x.rank; ++i)
    if (t_.find(x.size[i]) != t_.find(y.size[i])) return false;
  return true;
}
// The space without its reduced axes, unit axes aside.
bool Builder::is_kept(const Draft& d, uint32_t n) const {
  const Group& g = d.group;
  const Result &s = t_.nodes[g.space].result, &r = t_.nodes[n].result;
  int j = 0;
  for (int i = 0; i < s.rank; ++i) {
    if ((i >= g.first && i < g.last) || s.size[i] == 1) continue;
    while (j < r.rank && r.size[j] == 1) ++j;
    if (j == r.rank || t_.find(r.size[j]) != t_.find(s.size[i])) return false;
    ++j;
  }
  while (j < r.rank && r.size[j] == 1) ++j;
  return j == r.rank;
}
// Which axis of `base` each axis of `in` shows, where only views that pass through lie between them; -1: a repetition, or an
// extent of 1. Size classes do not tell: different axes may be of one class.
void Builder::shown_axes(uint32_t in, uint32_t base, int* axes) const {
  const Result& r = t_.nodes[in].result;
  if (in == base) {
    for (int i = 0; i < r.rank; ++i) axes[i] = r.size[i] == 1 ? -1 : i;
    return;
  }
  const Call& call = t_.nodes[in].call;
  if (row(call.op).kind == RowKind::alias) return shown_axes(call.in[1], base, axes);
  const Result& from = t_.nodes[call.in[0]].result;
  int inner[max_rank];
  shown_axes(call.in[0], base, inner);
  std::fill_n(axes, r.rank, -1);
  if (call.op == Op::expand || call.op == Op::detach) {
    for (int j = 0; j < from.rank; ++j) axes[j + r.rank - from.rank] = inner[j];
    return;
  }
  for (int i = 0, j = 0; i < from.rank; ++i) {  // a reshape: the same axes, unit ones aside
    if (from.size[i] == 1) continue;
    while (r.size[j] == 1) ++j;
    axes[j++] = inner[i];
  }
}
// Operands that come from the group itself must lie in the space as they broadcast: axis by axis, from the right.
bool Builder::operands_align(const Draft& d, uint32_t n, bool full) const {
  const Group& g = d.group;
  const Result& space = t_.nodes[g.space].result;
  for (int k = 0; k < t_.input_count(n); ++k) {
    uint32_t in = t_.input(n, k);
    if (in == scalar_operand) continue;
    const uint32_t base = passes_through(t_, in) ? view_base(t_, in) : in;
    if (group_of_[base] == none || &drafts_[group_of_[base]] != &d) continue;
    const Result& r = t_.nodes[in].result;
    if (!full) {
      if (!is_kept(d, in)) return false;
      continue;
    }
    if (is_full(d, base)) {
      if (!is_full(d, in)) return false;
      continue;
    }
    if (r.rank != space.rank) return false;  // a kept value needs its unit axes (or to be expanded) to meet the full space
    int shown[max_rank];
    shown_axes(in, base, shown);
    const Result& kept = t_.nodes[base].result;
    for (int i = 0, j = 0; i < r.rank; ++i) {
      if (space.size[i] == 1) continue;
      int own = -1;  // the kept value's axis that runs along this one
      if (i < g.first || i >= g.last) {
        while (kept.size[j] == 1) ++j;
        own = j++;
      }
      if (shown[i] != own) return false;
    }
  }
  return true;
}
bool Builder::reads_reduced(const Draft& d, uint32_t n) const {
  for (int k = 0; k < t_.input_count(n); ++k) {
    const uint32_t in = t_.input(n, k);
    if (in == scalar_operand) continue;
    const uint32_t base = passes_through(t_, in) ? view_base(t_, in) : in;
    if (group_of_[base] != none && &drafts_[group_of_[base]] == &d && (row(t_.nodes[base].call.op).kind == RowKind::reduce || !is_full(d, base))) return true;
  }
  return false;
}
// Is n wanted by sums of this kind, and by ops that read memory? What other kernels read is theirs to compute.
bool Builder::serves_columns(const Draft& d, uint32_t n, int depth) const {
  return depth > 0 && std::all_of(consumers_[n].begin(), consumers_[n].end(), [&](uint32_t c) {
    if (is_pointwise(c)) return is_full(d, c) && serves_columns(d, c, depth - 1);
    if (row(t_.nodes[c].call.op).kind == RowKind::reduce) return t_.nodes[c].call.attr == ((uint64_t(1) << d.group.last) - (uint64_t(1) << d.group.first));
    return row(t_.nodes[c].call.op).kind != RowKind::view || serves_columns(d, c, depth - 1);
  });
}
// Several reduced axes are one loop: what n reads from outside has all of them, or none.
bool Builder::fills_run(const Draft& d, uint32_t n, int first, int last) const {
  const Result& space = t_.nodes[d.group.space].result;
  for (int k = 0; k < t_.input_count(n); ++k) {
    const uint32_t in = t_.input(n, k);
    if (in == scalar_operand || fusion_.constant[in]) continue;
    const Result& r = t_.nodes[in].result;
    bool some = false, all = true;
    for (int i = first; i < last; ++i) {
      if (space.size[i] == 1) continue;
      const int j = i - (space.rank - r.rank);
      const bool has = j >= 0 && r.size[j] != 1;
      some |= has, all &= has;
    }
    if (some && !all) return false;
  }
  return true;
}
// May n join d? With commit, d takes the form that n gives it.
bool Builder::fits(Draft& d, uint32_t n, bool commit) {
  Group& g = d.group;
  if (g.kind == GroupKind::single || g.nodes.size() >= max_group_nodes) return false;
  const Node& node = t_.nodes[n];
  if (row(node.call.op).kind == RowKind::reduce) {
    if (!same_shape(node.call.in[0], g.space) || !operands_align(d, n, true)) return false;
    const int first = __builtin_ctzll(node.call.attr), last = 64 - __builtin_clzll(node.call.attr);
    const int rank = t_.nodes[g.space].result.rank;
    const GroupKind wanted = last == rank ? GroupKind::row : GroupKind::columns;
    for (uint32_t m : g.nodes)
      if (is_full(d, m) && !fills_run(d, m, first, last)) return false;
    if (g.kind == GroupKind::elements) {
      // Writes in place and reductions keep apart: the loop that stores would run after the one that reads.
      for (uint32_t m : g.nodes)
        if (writes_in_place(m)) return false;
    } else if (g.kind != wanted || g.first != first || g.last != last) {
      return false;
    }
    if (commit) g.kind = wanted, g.first = uint8_t(first), g.last = uint8_t(last), d.reduced = true;
    return true;
  }
  if (!is_pointwise(n)) return false;
  if (is_full(d, n)) {
    if (g.kind == GroupKind::columns && d.reduced && (reads_reduced(d, n) || !serves_columns(d, n))) return false;
    if (g.kind != GroupKind::elements && writes_in_place(n)) return false;
    return operands_align(d, n, true) && (g.kind == GroupKind::elements || fills_run(d, n, g.first, g.last));
  }
  if (g.kind != GroupKind::row && g.kind != GroupKind::columns) return false;
  return !writes_in_place(n) && is_kept(d, n) && operands_align(d, n, false);
}

void Builder::classify_storage() {
  const uint32_t count = uint32_t(t_.nodes.size());
  storage_ = memory_classes(t_, &pure_);
  accesses_.resize(count);
  written_.assign(count, false);
  for (uint32_t n = 0; n < count; ++n)
    if (writes_in_place(n)) written_[storage_[n]] = true;
  placed_.assign(count, false);
  fusion_.constant.assign(count, false);
  for (uint32_t n = 0; n < count; ++n) {
    // A reshape of memory that is written may have to copy it: it has its place in the order, as an op of its own.
    placed_[n] = t_.nodes[n].call.op == Op::reshape && written_[storage_[n]] && !passes_through(t_, n);
    fusion_.constant[n] = t_.nodes[n].call.op == Op::full && !written_[storage_[n]];
  }
}
// Producers, and the order of reads and writes of storage that is written in place.
std::vector<Builder::Dependence> Builder::dependences(uint32_t n) {
  std::vector<Dependence> d;
  for (const auto& [check, after] : checks_)
    if (after == n) d.push_back({check, false});
  const bool writes = writes_in_place(n);
  for (int k = 0; k < t_.input_count(n); ++k) {
    const uint32_t in = t_.input(n, k);
    if (in == scalar_operand) continue;
    const uint32_t base = view_base(t_, in);
    // The memory that a write goes to has to be there before: its maker is another kernel, unless it is a write too.
    const bool maker = writes && k == 0 && !writes_in_place(base);
    if (t_.nodes[base].call.op != Op::leaf) d.push_back({base, !maker && (in == base || passes_through(t_, in))});
    for (uint32_t v = in; row(t_.nodes[v].call.op).kind == RowKind::view; v = t_.nodes[v].call.in[0])
      if (placed_[v]) d.push_back({v, false});
    const uint32_t s = storage_[in];
    if (!written_[s]) continue;
    // A read comes after the last write; an elementwise read of the very node that was written may share its kernel.
    for (const Access& a : accesses_[s])
      if (a.write && a.node != n) d.push_back({a.node, a.node == in});
  }
  if (writes) {
    const uint32_t target = t_.nodes[n].call.in[0];
    // Memory that is written must be there: it is not made by the same kernel.
    uint32_t made = target;
    for (RowKind k = row(t_.nodes[made].call.op).kind; k == RowKind::view || k == RowKind::alias || writes_in_place(made); k = row(t_.nodes[made].call.op).kind)
      made = t_.nodes[made].call.in[0];
    if (t_.nodes[made].call.op != Op::leaf) d.push_back({made, false});
    for (const Access& a : accesses_[storage_[n]]) {
      bool same = a.node == target;
      if (!a.write && is_pointwise(a.node)) {  // a reader in the same kernel: only of exactly the elements that are written
        same = true;
        for (int k = 0; k < t_.input_count(a.node); ++k) {
          const uint32_t in = t_.input(a.node, k);
          if (in != scalar_operand && storage_[in] == storage_[n] && in != target) same = false;
        }
      }
      d.push_back({a.node, same});
    }
    accesses_[storage_[n]].clear();
    accesses_[storage_[n]].push_back({n, true});
  }
  for (int k = 0; k < t_.input_count(n); ++k) {
    const uint32_t in = t_.input(n, k);
    if (in != scalar_operand && written_[storage_[in]] && !(writes && storage_[in] == storage_[n])) accesses_[storage_[in]].push_back({n, false});
  }
  return d;
}

void Builder::add_dependence(uint32_t g, uint32_t on) {
  if (g == on || depends(g, on)) return;
  std::vector<uint64_t> more = drafts_[on].depends;
  more[on / 64] |= uint64_t(1) << on % 64;
  for (uint32_t h = 0; h < drafts_.size(); ++h)
    if (h == g || depends(h, g))
      for (size_t w = 0; w < words_; ++w) drafts_[h].depends[w] |= more[w];
}
uint32_t Builder::new_group(GroupKind kind, uint32_t n) {
  Draft d;
  d.group.kind = kind, d.group.space = n;
  d.depends.assign(words_, 0);
  drafts_.push_back(std::move(d));
  return uint32_t(drafts_.size() - 1);
}

// What n would read that the group does not read or make yet.
size_t Builder::new_operands(uint32_t g, uint32_t n, std::vector<uint32_t>* add) const {
  size_t count = 0;
  const std::vector<uint32_t>& read = drafts_[g].read;
  for (int k = 0; k < t_.input_count(n); ++k) {
    const uint32_t in = t_.input(n, k);
    if (in == scalar_operand || fusion_.constant[in] || group_of_[passes_through(t_, in) ? view_base(t_, in) : in] == g) continue;
    if (std::find(read.begin(), read.end(), in) != read.end()) continue;
    ++count;
    if (add) add->push_back(in);
  }
  return count;
}
void Builder::place(uint32_t n) {
  const std::vector<Dependence> deps = dependences(n);
  uint32_t chosen = none;
  const bool can = fusable(n);
  if (can) {
    std::vector<uint32_t> candidates;
    for (const Dependence& d : deps)
      if (group_of_[d.node] != none) candidates.push_back(group_of_[d.node]);
    std::sort(candidates.rbegin(), candidates.rend());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    // A sibling over the same space shares loads: the last few groups are tried too.
    int siblings = 4;
    for (uint32_t g = uint32_t(drafts_.size()); g-- > 0 && siblings > 0;) {
      if (drafts_[g].group.kind == GroupKind::single) continue;
      --siblings;
      if (std::find(candidates.begin(), candidates.end(), g) == candidates.end()) candidates.push_back(g);
    }
    for (uint32_t g : candidates) {
      if (home_of(n) != no_node && drafts_[g].home != home_of(n)) continue;
      const char* why = nullptr;
      if (!fits(drafts_[g], n, false)) why = "their shapes make no common iteration space";
      else if (new_operands(g, n) + drafts_[g].read.size() > max_group_operands) why = "one kernel would read too many tensors";
      for (const Dependence& d : deps) {
        const uint32_t h = group_of_[d.node];
        if (why || h == none) continue;
        if (h == g && !d.same_group_allowed) why = "one writes memory that the other reads through another view";
        else if (h != g && depends(h, g)) why = "another step lies between them";
      }
      if (!why) {
        chosen = g;
        break;
      }
      if (fusion_.why_not.size() < 256 && drafts_[g].group.kind != GroupKind::single)
        fusion_.why_not.push_back(std::string(op_name(t_.nodes[drafts_[g].group.nodes.back()].call.op)) + ", " + op_name(t_.nodes[n].call.op) + ": " + why);
    }
  }
  if (chosen == none) {
    // A reduction starts a group over its input's space, so that what follows can join.
    const bool reduces = row(t_.nodes[n].call.op).kind == RowKind::reduce;
    chosen = new_group(can ? GroupKind::elements : GroupKind::single, reduces ? t_.nodes[n].call.in[0] : n);
  }
  if (can) fits(drafts_[chosen], n, true), new_operands(chosen, n, &drafts_[chosen].read);
  drafts_[chosen].group.nodes.push_back(n);
  if (home_of(n) != no_node) drafts_[chosen].home = home_of(n);
  group_of_[n] = chosen;
  for (const Dependence& d : deps)
    if (group_of_[d.node] != none) add_dependence(chosen, group_of_[d.node]);
}

void Builder::finish(Group& g) const {
  const auto mine = [&](uint32_t n) { return std::find(g.nodes.begin(), g.nodes.end(), n) != g.nodes.end(); };
  for (uint32_t n : g.nodes) {
    for (int k = 0; k < t_.input_count(n); ++k) {
      uint32_t in = t_.input(n, k);
      if (in == scalar_operand) continue;
      if (g.kind != GroupKind::single) {
        if (mine(in) || (passes_through(t_, in) && mine(view_base(t_, in)))) continue;
        if (fusion_.constant[in]) continue;  // a number
      }
      if (std::find(g.inputs.begin(), g.inputs.end(), in) == g.inputs.end()) g.inputs.push_back(in);
    }
  }
  for (uint32_t n : g.nodes) {
    bool out = roots_[n] || g.kind == GroupKind::single;
    bool overwritten = false;
    for (uint32_t c : consumers_[n]) {
      if (writes_in_place(c) && t_.nodes[c].call.in[0] == n && mine(c)) overwritten = true;
      if (mine(c)) continue;
      // A view that only passes through is no consumer by itself; those who read it outside are.
      if (row(t_.nodes[c].call.op).kind == RowKind::view) {
        std::vector<uint32_t> stack{c};
        while (!stack.empty() && !out) {
          const uint32_t v = stack.back();
          stack.pop_back();
          out |= roots_[v];
          for (uint32_t user : consumers_[v]) {
            if (row(t_.nodes[user].call.op).kind == RowKind::view) stack.push_back(user);
            else out |= !mine(user) || !passes_through(t_, v);
          }
        }
      } else {
        out = true;
      }
    }
    // Of several writes to the same memory the last is stored; who reads an earlier one outside is ordered before it.
    if (writes_in_place(n) && !overwritten) out = true;
    if (out) g.outputs.push_back(n);
  }
}

Fusion Builder::run(const std::vector<uint32_t>& nodes) {
  const uint32_t count = uint32_t(t_.nodes.size());
  group_of_.assign(count, none);
  consumers_.resize(count);
  words_ = count / 64 + 1;
  classify_storage();
  for (uint32_t n = 0; n < count; ++n)
    if (needed_[n])
      for (int k = 0; k < t_.input_count(n); ++k)
        if (const uint32_t in = t_.input(n, k); in != scalar_operand) consumers_[in].push_back(n);
  for (uint32_t n : nodes) {
    const RowKind kind = row(t_.nodes[n].call.op).kind;
    if (!needed_[n] || t_.nodes[n].call.op == Op::leaf || (kind == RowKind::view && !placed_[n]) || kind == RowKind::alias) continue;
    place(n);
  }
  join_columns();
  return order();
}
}  // namespace fusing

Fusion fuse(const Trace& t, const std::vector<bool>& needed, const std::vector<bool>& roots, const std::vector<uint32_t>& order, const Checks& checks, const std::vector<uint32_t>& home) {
  return fusing::Builder(t, needed, roots, checks, home).run(order);
}

}  // namespace frit::jit
