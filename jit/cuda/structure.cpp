// Analysis for the CUDA generator: the form of the kernel, levels of reductions, address arithmetic, rarely chosen sides.
#include "jit/cuda/structure.h"

#include <algorithm>

namespace frit::jit::cuda {

using namespace kernels;

Structure::Structure(const Program& p) : p_(p) {
  find_address_arithmetic();
  find_levels_and_uses();
  choose_form();
}

void Structure::find_address_arithmetic() {
  address.assign(p_.instrs.size(), true);
  for (size_t n = p_.instrs.size(); n-- > 0;) {
    const Instr& i = p_.instrs[n];
    const bool plain = i.op == Op::scalar && i.dtype == Dtype::Int64 && address[n] &&
                       (i.prim == Prim::add || i.prim == Prim::sub || i.prim == Prim::mul);
    for (int k = 0; k < 4; ++k) {
      const bool offset = (i.op == Op::load || i.op == Op::store) && k == 1;
      if (i.in[k] != no_value && !plain && !offset) address[i.in[k]] = false;
    }
  }
}

void Structure::find_levels_and_uses() {
  level.assign(p_.instrs.size(), 0);
  uses.assign(p_.instrs.size(), {});
  for (size_t n = 0; n < p_.instrs.size(); ++n) {
    for (Id in : p_.instrs[n].in) {
      if (in == no_value) continue;
      level[n] = std::max(level[n], level[in]);
      uses[in].push_back(Id(n));
    }
    level[n] += p_.instrs[n].op == Op::reduce;
    deepest = std::max(deepest, level[n]);
  }
}

void Structure::choose_form() {
  uint8_t block = 0, kept = 0xff;
  bool reduces = false, ordered = false;
  for (size_t a = 0; a < p_.axes.size(); ++a) {
    const uint8_t bit = uint8_t(1u << a);
    if (p_.axes[a].kind == AxisKind::block) block |= bit;
    if (p_.axes[a].kind == AxisKind::grid) item_axes |= bit;
    ordered |= p_.axes[a].kind == AxisKind::sequential;
  }
  for (const Instr& i : p_.instrs) {
    if (i.op == Op::store) kept &= i.axes;
    if (i.op == Op::reduce) kept &= uint8_t(~(1u << i.imm));
    reduces |= i.op == Op::reduce;
  }
  if (!reduces && (!ordered || block == 0)) {
    item_axes |= block;
    return;
  }
  shared_axes = ordered ? 0 : uint8_t(kept & block);  // with an order, lanes must not run ahead of each other
  item_axes |= shared_axes;
  form = shared_axes >> (p_.axes.size() - 1) & 1 ? Form::columns : Form::row;
}

bool Structure::is_rare_select(Id id) const {
  const Instr& i = p_.instrs[id];
  return i.op == Op::scalar && i.prim == Prim::select && i.imm == 1;
}

std::vector<RareGroup> Structure::rare_groups(const std::vector<Id>& list, const Done& done) const {
  std::vector<RareGroup> out;
  Done covered = done;
  for (size_t k = list.size(); k-- > 0;) {
    if (covered[list[k]] || !is_rare_select(list[k])) continue;
    const Instr& last = p_.instrs[list[k]];
    RareGroup g{{list[k]}, {}};
    // Earlier ones join while none of the group needs what comes after its first.
    Id least = std::max(last.in[1], last.in[2]);
    for (size_t j = k; j-- > 0 && list[j] > least;) {
      const Instr& other = p_.instrs[list[j]];
      if (covered[list[j]] || !is_rare_select(list[j]) || other.in[0] != last.in[0]) continue;
      g.selects.insert(g.selects.begin(), list[j]);
      least = std::max({least, other.in[1], other.in[2]});
    }
    g.side = rare_side(g.selects, list, covered);
    for (Id id : g.selects) covered[id] = true;
    for (Id id : g.side) covered[id] = true;
    out.push_back(std::move(g));
  }
  return out;
}

std::vector<Id> Structure::rare_side(const std::vector<Id>& selects, const std::vector<Id>& list, const Done& covered) const {
  Done inside(p_.instrs.size(), false);
  std::vector<Id> side;
  for (size_t k = list.size(); k-- > 0;) {
    const Id id = list[k];
    const Instr& i = p_.instrs[id];
    if (id >= selects[0] || covered[id] || (i.op != Op::scalar && i.op != Op::load) || uses[id].empty()) continue;
    const bool only = std::all_of(uses[id].begin(), uses[id].end(), [&](Id user) {
      const Instr& u = p_.instrs[user];
      const bool in_group = std::find(selects.begin(), selects.end(), user) != selects.end();
      return inside[user] || (in_group && u.in[0] != id && u.in[2] != id);
    });
    if (!only) continue;
    inside[id] = true;
    side.insert(side.begin(), id);
  }
  return side;
}

}  // namespace frit::jit::cuda
