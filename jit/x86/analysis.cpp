// Facts about a block program: what each value depends on, which offsets are affine, which stores share a loop nest, which
// reduces share a loop. Start with Analysis::Analysis.
#include "jit/x86/analysis.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace frit::jit::x86_code {

using kernels::AxisKind;
using kernels::no_value;
using kernels::Op;
using kernels::Order;
using kernels::Prim;
using kernels::Reduce;

bool has_tree(const Instr& r) { return (r.kind == Reduce::sum || r.kind == Reduce::prod) && is_floating(r.dtype); }
bool is_argument(const Instr& r) { return r.kind == Reduce::argmax || r.kind == Reduce::argmin; }

Analysis::Analysis(const Program& p) : program(p), depends(p.instrs.size()) {
  if (kernels::has_tiles(p)) throw std::runtime_error("block program " + p.name + ": loops and dots are for compile_tiles");
  for (size_t a = 0; a < p.axes.size(); ++a) {
    if (p.axes[a].kind == AxisKind::block) {
      block_axes |= axis_bit(int(a));
      last_block = int(a);
    } else {
      grid_axes |= axis_bit(int(a));
      ++grid_count;
    }
    ordered |= p.axes[a].kind == AxisKind::sequential;
  }
  for (size_t v = 0; v < p.instrs.size(); ++v) {
    const Instr& i = p.instrs[v];
    AxisMask mask = i.op == Op::index ? axis_bit(int(i.imm)) : 0;
    for (Id in : i.in)
      if (in != no_value) mask |= depends[in];
    if (i.op == Op::reduce) mask &= AxisMask(~axis_bit(int(i.imm)));
    // What is stored is read anew by every instance.
    if (i.op == Op::load && p.params[p.instrs[i.in[0]].imm].written) mask |= grid_axes;
    depends[v] = mask;
  }
  lane_split = last_block >= 0;
  for (size_t v = 0; v < p.instrs.size(); ++v) {
    const Instr& i = p.instrs[v];
    if (i.op == Op::reduce && int(i.imm) == last_block) lane_split = false;
    if (i.op == Op::store && lane_split && !varies(Id(v), last_block)) lane_split = false;
  }
  find_sinks();
  check_order();
}

// A load through a pointer that was stored before starts a new segment: the whole block has stored by then.
void Analysis::find_sinks() {
  std::vector<bool> stored(program.params.size(), false);
  int segment = 0;
  for (size_t v = 0; v < program.instrs.size(); ++v) {
    const Instr& i = program.instrs[v];
    if (i.op == Op::load && stored[program.instrs[i.in[0]].imm]) {
      ++segment;
      stored.assign(stored.size(), false);
    }
    if (i.op != Op::store) continue;
    stored[program.instrs[i.in[0]].imm] = true;
    const AxisMask axes = depends[v] & block_axes;
    const auto same = std::find_if(sinks.begin(), sinks.end(),
                                   [&](const SinkGroup& g) { return g.axes == axes && g.segment == segment; });
    if (same != sinks.end()) same->stores.push_back(Id(v));
    else sinks.push_back({axes, segment, {Id(v)}});
  }
  // Within a segment narrow groups first: they store what was reduced from data that a wide one may overwrite.
  std::stable_sort(sinks.begin(), sinks.end(), [](const SinkGroup& a, const SinkGroup& b) {
    return a.segment != b.segment ? a.segment < b.segment : std::popcount(a.axes) < std::popcount(b.axes);
  });
}

// A value that varies along a block axis is computed again wherever it is needed, so what it loads must not have been
// overwritten by a group that ran before.
void Analysis::check_order() const {
  for (size_t g = 1; g < sinks.size(); ++g) {
    std::vector<bool> seen(program.instrs.size(), false);
    for (Id s : sinks[g].stores) seen[s] = true;
    for (size_t v = program.instrs.size(); v-- > 0;)
      for (Id in : program.instrs[v].in)
        if (seen[v] && in != no_value) seen[in] = true;
    for (size_t v = 0; v < program.instrs.size(); ++v) {
      if (!seen[v] || program.instrs[v].op != Op::load) continue;
      const Id pointer = program.instrs[v].in[0];
      for (size_t before = 0; before < g; ++before)
        for (Id s : sinks[before].stores)
          if (s > v && program.instrs[s].in[0] == pointer)
            throw std::runtime_error("block program " + program.name + ": a value loaded before a store is needed after it");
    }
  }
}

bool Analysis::affine(Id v, int axis) const {
  if (!varies(v, axis)) return true;
  const Instr& i = program.instrs[v];
  if (i.op == Op::index) return true;
  if (i.op != Op::scalar || i.dtype != Dtype::Int64) return false;
  switch (i.prim) {
    case Prim::neg: return affine(i.in[0], axis);
    case Prim::add:
    case Prim::sub: return affine(i.in[0], axis) && affine(i.in[1], axis);
    case Prim::mul:
      return (!varies(i.in[0], axis) && affine(i.in[1], axis)) || (!varies(i.in[1], axis) && affine(i.in[0], axis));
    default: return false;
  }
}

std::vector<Id> Analysis::needed(const std::vector<Id>& roots, const std::vector<Id>& leaves) const {
  std::vector<bool> seen(program.instrs.size(), false);
  std::vector<bool> root(program.instrs.size(), false);
  Id last = 0;
  for (Id r : roots) seen[r] = root[r] = true, last = std::max(last, r);
  std::vector<Id> result;
  for (int v = last; v >= 0; --v) {
    if (!seen[v]) continue;
    result.push_back(Id(v));
    if (program.instrs[v].op == Op::reduce || std::find(leaves.begin(), leaves.end(), Id(v)) != leaves.end()) continue;
    for (Id in : program.instrs[v].in)
      if (in != no_value) seen[in] = true;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

bool Analysis::reaches(Id from, Id to) const {
  if (from < to) return false;
  std::vector<bool> seen(from + 1, false);
  seen[from] = true;
  for (int v = from; v >= to; --v) {
    if (!seen[v]) continue;
    if (v == to) return true;
    for (Id in : program.instrs[v].in)
      if (in != no_value) seen[in] = true;
  }
  return false;
}

std::vector<Id> Analysis::companions(Id r) const {
  const Instr& first = program.instrs[r];
  const auto all_axes = [&](Id v) { return AxisMask(depends[v] | axis_bit(int(program.instrs[v].imm))); };
  const auto class_of = [&](const Instr& i) { return is_argument(i) ? 3 : !has_tree(i) ? 2 : i.order == Order::pairwise ? 1 : 0; };
  std::vector<Id> group{r};
  if (class_of(first) == 1) return group;
  for (size_t v = 0; v < program.instrs.size() && group.size() < 4; ++v) {
    const Instr& i = program.instrs[v];
    if (v == r || i.op != Op::reduce || i.imm != first.imm || all_axes(Id(v)) != all_axes(r) || class_of(i) != class_of(first)) continue;
    bool independent = true;
    for (Id g : group) independent &= !reaches(Id(v), g) && !reaches(g, Id(v));
    // A load between the two that sees a store must not move before it.
    for (size_t s = std::min<size_t>(v, r); s < std::max<size_t>(v, r); ++s) independent &= program.instrs[s].op != Op::store;
    if (independent) group.push_back(Id(v));
  }
  return group;
}

}  // namespace frit::jit::x86_code
