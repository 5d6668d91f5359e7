// The plan of a strip: what it needs, how often, and which parts only one side of a select wants. Scalar functions are
// written without branches; where a costly part serves lanes that are rare (the large arguments of sin), the strip jumps
// over it when it has none of them. The bits are the same: the select would not have taken them. Start with plan_of.
#include <algorithm>

#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
constexpr int region_cost = 12;       // below, computing is cheaper than asking
constexpr int interleaved_strips = 2;
constexpr int stash_cost = 12;         // what is cheaper is computed again
constexpr int most_stashes = 4;
constexpr int stash_overhang = 16;     // elements
}

// In instructions of about one micro-operation.
int Emitter::cost_of(Id v) const {
  const Instr& i = instr(v);
  const int registers = is_wide(i.dtype) ? 2 : 1;
  if (i.op == Op::load || i.op == Op::store || i.op == Op::reduce) return registers;
  if (i.op != Op::scalar || i.prim == Prim::constant) return 0;
  const bool integer64 = i.dtype == Dtype::Int64;
  switch (i.prim) {
    case Prim::div:
    case Prim::rem: return (is_floating(i.dtype) ? 4 : 16) * registers;
    case Prim::sqrt: return 4 * registers;
    case Prim::mul: return integer64 ? 8 * registers : registers;
    case Prim::table: return 12 * registers;
    default: return registers;
  }
}

StripPlan Emitter::plan_of(const std::vector<Id>& roots, int axis, const Stashes& stashes) const {
  StripPlan plan;
  plan.stashes = stashes;
  std::vector<Id> leaves;
  for (const Stash* s : stashes) leaves.push_back(s->value);
  plan.needed = a_.needed(roots, leaves);
  plan.uses.assign(p_.instrs.size(), 0);
  plan.region_of.assign(p_.instrs.size(), -1);
  for (Id r : roots) plan.uses[r] = 0x7fff;
  for (Id v : plan.needed) {
    if (!plan.stash_of(v) && a_.varies(v, axis) && !(instr(v).dtype == Dtype::Int64 && a_.affine(v, axis))) plan.cost += cost_of(v);
    if (instr(v).op == Op::reduce || plan.stash_of(v)) continue;
    if (const auto scaling = scalings_.find(v); scaling != scalings_.end() && plan.uses[scaling->second.n] < 0x7fff) ++plan.uses[scaling->second.n];
    for (Id in : instr(v).in)
      if (in != no_value && plan.uses[in] < 0x7fff) ++plan.uses[in];
  }
  find_regions(plan, axis);
  plan.zmm = avx512_ && fits_zmm(plan, axis);
  const bool branches = !plan.regions.empty();
  plan.unroll = plan.cost >= long_body ? interleaved_strips : branches ? 1 : plan.cost <= 6 ? 4 : plan.cost <= 16 ? 2 : 1;
  if (plan.cost >= long_body) make_schedule(plan, roots, axis);
  return plan;
}

bool Emitter::has_form_for_16(Id v, int axis) const {
  const Instr& i = instr(v);
  if (i.dtype == Dtype::Int64 && a_.affine(v, axis)) return true;  // an address
  if (is_index_use(v, axis) || is_upper_word(v, axis)) return true;
  if (i.op != Op::scalar || is_wide(i.dtype)) return false;
  for (Id in : i.in)
    if (in != no_value && is_wide(instr(in).dtype)) return false;
  const bool division = i.prim == Prim::div || i.prim == Prim::rem;
  return i.prim != Prim::table && (!division || is_floating(i.dtype));
}

// All that varies is of 32 bits and fewer, or an address; no lane is masked; and each operation has a form for 16 lanes, but for
// those in regions: they only have to be entered and left by such values.
bool Emitter::fits_zmm(StripPlan& plan, int axis) const {
  if (plan.cost == 0) return false;
  std::vector<bool> in_region(p_.instrs.size(), false);
  for (Region& r : plan.regions) {
    for (Id v : plan.needed) {
      if (!r.members[v]) continue;
      in_region[v] = true;
      r.by_eights |= !has_form_for_16(v, axis);
    }
  }
  for (Id v : plan.needed) {
    const Instr& i = instr(v);
    if (i.op == Op::store || (i.op == Op::load && a_.varies(v, axis))) {
      if (is_wide(memory_dtype(i.in[0])) || !a_.affine(i.in[1], axis)) return false;
      if (i.in[3] != no_value || (i.op == Op::load && i.in[2] != no_value)) return false;
      continue;
    }
    if (!a_.varies(v, axis) || plan.stash_of(v)) continue;
    if (!in_region[v]) {
      if (!has_form_for_16(v, axis)) return false;
      continue;
    }
    for (Id in : i.in)
      if (in != no_value && !in_region[in] && !is_constant(in) && a_.varies(in, axis) && is_wide(instr(in).dtype)) return false;
  }
  for (const Region& r : plan.regions)
    for (Id o : r.outputs)
      if (is_wide(instr(o).dtype)) return false;
  return true;
}

bool Emitter::all_contiguous(Level& parent, int axis, const Gp& i, const StripPlan& plan) {
  for (Id v : plan.needed) {
    const Instr& memory = instr(v);
    if (memory.op != Op::store && !(memory.op == Op::load && a_.varies(v, axis))) continue;
    Level probe = open_strip(&parent, axis, i, 0, plan);
    if (access(memory.in[0], memory.in[1], &probe).kind != Access::contiguous) return false;
  }
  return true;
}

void Emitter::find_regions(StripPlan& plan, int axis) const {
  if (plan.cost < region_cost) return;
  std::vector<bool> done(p_.instrs.size(), false);
  for (size_t n = 0; n < plan.needed.size(); ++n) {
    const auto is_select = [&](Id v) {  // that is evaluated in the strip: one that is read from the stash needs neither of its sides
      return !plan.stash_of(v) && instr(v).op == Op::scalar && instr(v).prim == Prim::select && a_.varies(instr(v).in[0], axis);
    };
    const Id v = plan.needed[n];
    if (!is_select(v) || done[instr(v).in[0]]) continue;
    done[instr(v).in[0]] = true;
    std::vector<Id> selects;  // all with this condition
    for (size_t m = n; m < plan.needed.size(); ++m)
      if (is_select(plan.needed[m]) && instr(plan.needed[m]).in[0] == instr(v).in[0]) selects.push_back(plan.needed[m]);
    add_region(plan, selects, true, axis);
    add_region(plan, selects, false, axis);
  }
}

// Operands before their users, the operand that needs more registers first (Sethi and Ullman). Members of regions are left
// to their regions. Empty when a load follows a store: then the order of the instructions counts.
void Emitter::make_schedule(StripPlan& plan, const std::vector<Id>& roots, int axis) const {
  bool stored = false;
  for (Id v : plan.needed) {
    if (stored && instr(v).op == Op::load) return;
    stored |= instr(v).op == Op::store;
  }
  std::vector<bool> member(p_.instrs.size(), false), done(p_.instrs.size(), false);
  for (const Region& r : plan.regions)
    for (size_t v = 0; v < member.size(); ++v) member[v] = member[v] || r.members[v];
  std::vector<uint8_t> registers(p_.instrs.size(), 0);
  const auto operands = [&](Id v, Id out[4]) {  // those that are evaluated in the strip, most registers first
    int count = 0;
    if (instr(v).op == Op::reduce || plan.stash_of(v) || is_index_use(v, axis)) return count;
    const auto scaling = plan.zmm ? scalings_.find(v) : scalings_.end();
    for (int k = 0; k < 4; ++k) {
      const Id in = scaling == scalings_.end() ? instr(v).in[k] : k == 0 ? scaling->second.e : k == 1 ? scaling->second.n : no_value;
      if (in == no_value || is_constant(in) || !a_.varies(in, axis) || instr(in).op == Op::pointer) continue;
      const bool address = (instr(v).op == Op::load || instr(v).op == Op::store) && k == 1;
      if (!address || !a_.affine(in, axis)) out[count++] = in;
    }
    std::sort(out, out + count, [&](Id a, Id b) { return registers[a] > registers[b]; });
    return count;
  };
  for (Id v : plan.needed) {
    Id in[4];
    const int count = operands(v, in);
    int most = 1;
    for (int k = 0; k < count; ++k) most = std::max(most, registers[in[k]] + k);
    registers[v] = uint8_t(std::min(most, 255));
  }
  const auto visit = [&](auto&& self, Id v) -> void {
    if (done[v]) return;
    done[v] = true;
    const int region = plan.region_of[v];
    if (member[v] && region < 0) return;
    if (region >= 0) {
      self(self, plan.regions[size_t(region)].condition);
    } else {
      Id in[4];
      const int count = operands(v, in);
      for (int k = 0; k < count; ++k) self(self, in[k]);
    }
    if (instr(v).op != Op::store && a_.varies(v, axis) && !is_constant(v)) plan.schedule.push_back(v);
  };
  for (Id r : roots) visit(visit, r);
}

// Members are used by members and on this side of the selects, and nowhere else.
void Emitter::add_region(StripPlan& plan, const std::vector<Id>& selects, bool when, int axis) const {
  Region r;
  r.condition = instr(selects[0]).in[0];
  r.when = when;
  std::vector<uint16_t> inside(p_.instrs.size(), 0);  // uses by members and selects
  for (Id s : selects) ++inside[instr(s).in[when ? 1 : 2]];
  const auto may = [&](Id v) {
    return instr(v).op == Op::scalar && instr(v).prim != Prim::constant && a_.varies(v, axis) && inside[v] && inside[v] == plan.uses[v] &&
           !plan.stash_of(v);
  };
  r.members.assign(p_.instrs.size(), false);
  int cost = 0;
  for (int v = selects.back() - 1; v >= 0; --v) {
    if (!may(Id(v))) continue;
    bool output = false, dependent = false;
    for (Id s : selects) {
      output |= instr(s).in[when ? 1 : 2] == v;
      dependent |= s == v;
    }
    // What one of the selects gives cannot be computed before it.
    for (Id s : selects) dependent |= output && s < v && a_.reaches(Id(v), s);
    if (dependent) continue;
    r.members[size_t(v)] = true;
    cost += cost_of(Id(v));
    if (output) r.outputs.push_back(Id(v));
    for (Id in : instr(Id(v)).in)
      if (in != no_value) ++inside[in];
  }
  if (cost < region_cost) return;
  for (Id o : r.outputs) plan.region_of[o] = int16_t(plan.regions.size());
  plan.cost -= cost;
  plan.regions.push_back(std::move(r));
}

// ---- stashes ----------------------------------------------------------------------------------------------------------
int Emitter::cost_of_loop(const std::vector<Id>& roots, int axis, const std::vector<Id>& leaves) const {
  int cost = 0;
  for (Id v : a_.needed(roots, leaves)) {
    if (!a_.varies(v, axis) || instr(v).op != Op::scalar || a_.affine(v, axis) || std::find(leaves.begin(), leaves.end(), v) != leaves.end()) continue;
    cost += cost_of(v) + (instr(v).prim == Prim::div ? 4 : 0);
  }
  return cost;
}

// The loops over the axis are the reduces that the roots need, then the roots themselves. A value that several of them compute is kept by
// the first of them where that saves enough; the one that saves most first.
void Emitter::plan_stashes(const std::vector<Id>& roots, int axis, Level& level) {
  const Instr& extent = instr(p_.axes[size_t(axis)].extent);
  if (extent.op != Op::integer || (scratch_axis_ >= 0 && scratch_axis_ != axis)) return;
  std::vector<bool> seen(p_.instrs.size(), false);
  const auto look = [&](auto&& self, const std::vector<Id>& at) -> void {
    for (Id v : a_.needed(at)) {
      if (!a_.is_reduce(v) || seen[v]) continue;
      seen[v] = true;
      self(self, {instr(v).in[0]});
    }
  };
  look(look, roots);
  struct Loop {
    Id filler;
    std::vector<Id> roots, needed;
  };
  std::vector<Loop> loops;
  std::vector<bool> taken(p_.instrs.size(), false);
  for (size_t r = 0; r < p_.instrs.size(); ++r) {
    if (!seen[r] || taken[r]) continue;
    const Instr& i = instr(Id(r));
    if (int(i.imm) != axis || (has_tree(i) && i.order == Order::pairwise)) continue;
    if (placement(a_.depends[r], &level) != &level || level.slots[r] >= 0) continue;
    Loop loop{Id(r), {}, {}};
    for (Id c : a_.companions(Id(r)))
      if (seen[c]) loop.roots.push_back(instr(c).in[0]), taken[c] = true;
    loops.push_back(std::move(loop));
  }
  if (loops.empty()) return;
  loops.push_back({no_value, roots, {}});
  std::vector<Id> leaves;
  for (int count = 0; count < most_stashes; ++count) {
    for (Loop& l : loops) l.needed = a_.needed(l.roots, leaves);
    Stash best;
    int most = stash_cost - 1;
    for (size_t v = 0; v < p_.instrs.size(); ++v) {
      const Instr& value = instr(Id(v));
      if (value.op != Op::scalar || value.prim == Prim::constant || value.dtype == Dtype::Bool || is_wide(value.dtype) || !a_.varies(Id(v), axis) || a_.affine(Id(v), axis)) continue;
      if (std::find(leaves.begin(), leaves.end(), Id(v)) != leaves.end()) continue;
      Id filler = no_value;
      int saved = -1;  // storing it
      std::vector<Id> with = leaves;
      with.push_back(Id(v));
      for (const Loop& l : loops) {
        if (!std::binary_search(l.needed.begin(), l.needed.end(), Id(v))) continue;
        if (filler == no_value) {
          filler = l.filler;
          if (filler == no_value) break;
          continue;
        }
        saved += cost_of_loop(l.roots, axis, leaves) - cost_of_loop(l.roots, axis, with) - 1;
      }
      if (filler != no_value && saved > most) most = saved, best.value = Id(v), best.filler = filler;
    }
    if (best.value == no_value) return;
    leaves.push_back(best.value);
    scratch_axis_ = axis;
    // One after the other, each as long as the axis and a cache line more: the last strip is stored whole.
    At at(*this, root_);
    const Gp end = gp(p_.axes[size_t(axis)].extent, root_);
    best.base = cc_.newGpq();
    cc_.lea(best.base, asmjit::x86::ptr(end, int32_t(stash_overhang)));
    cc_.imul(best.base, best.base, int32_t(4 * stashes_.size()));
    cc_.add(best.base, scratch_);
    stashes_.push_back(best);
  }
}

Stashes Emitter::stashes_for(const std::vector<Id>& roots, int axis, Level* l) {
  Stashes found;
  if (axis != scratch_axis_) return found;
  std::vector<Id> needed = a_.needed(roots);
  for (const Stash& s : stashes_) {  // in the order of what they save
    if (!std::binary_search(needed.begin(), needed.end(), s.value)) continue;
    if (std::find(in_progress_.begin(), in_progress_.end(), s.filler) != in_progress_.end()) continue;
    rep(s.filler, l);
    found.push_back(&s);
  }
  return found;
}

bool Emitter::fills_stash(const Group& g) const {
  return std::any_of(stashes_.begin(), stashes_.end(), [&](const Stash& s) { return std::find(g.ids.begin(), g.ids.end(), s.filler) != g.ids.end(); });
}

void Emitter::fill_stashes(const Group& g, Level& strip) {
  for (const Stash& s : stashes_) {
    if (std::find(g.ids.begin(), g.ids.end(), s.filler) == g.ids.end() || strip.axis != g.axis) continue;
    const Ymm v = lanes(s.value, &strip, 0);
    cc_.emit(Inst::kIdVmovups, asmjit::x86::ptr(s.base, strip.index, 2, int32_t(strip.displacement << 2), strip.zmm ? 64 : 32), v);
  }
}

void Emitter::read_stash(const Stash& s, Level* l) {
  const Ymm v = emit1(Inst::kIdVmovups, asmjit::x86::ptr(s.base, l->index, 2, int32_t(l->displacement << 2), zmm_ ? 64 : 32));
  new_rep(s.value, l).v[0] = v;
}

// ---- regions ----------------------------------------------------------------------------------------------------------

// Leaves the outputs in registers of `home`; they are zero when the region was skipped.
void Emitter::emit_region(const Region& r, Level* home) {
  open_regions_.push_back(&r);
  const Label skip = cc_.newLabel();
  Ymm mask;
  asmjit::x86::KReg condition;
  if (home->zmm) condition = mask_register(r.condition, home);
  else mask = lanes(r.condition, home);
  std::vector<Rep> outputs(r.outputs.size());
  for (size_t n = 0; n < outputs.size(); ++n)
    for (int h = 0; h < halves(instr(r.outputs[n]).dtype, home); ++h) outputs[n].v[h] = zero();
  suspend(*home);
  const Gp bits = cc_.newGpd();
  if (home->zmm) cc_.kmovw(bits, condition);
  else cc_.vmovmskps(bits, mask);
  if (r.when) cc_.test(bits, bits);
  else cc_.cmp(bits, home->zmm ? 0xffff : 0xff);
  cc_.je(skip);
  const bool in_parts = home->zmm && r.by_eights;
  for (int part = 0; part < (in_parts ? 2 : 1); ++part) {
    Level inside = open(LevelKind::strip, home, home->axis, home->index, home->displacement + 8 * part);
    inside.plan = home->plan;
    inside.zmm = home->zmm && !in_parts;
    inside.region = &r;
    inside.tail = home->tail;
    inside.uses = home->uses;
    const At at(*this, &inside);
    for (size_t n = 0; n < outputs.size(); ++n) {
      Ymm* out = outputs[n].v;
      for (int h = 0; h < halves(instr(r.outputs[n]).dtype, home); ++h) {
        const Ymm value = lanes(r.outputs[n], &inside, h);
        if (part == 0) cc_.vmovaps(in_parts ? out[h].ymm() : out[h], value);
        else cc_.vinsertf64x4(out[h].as<asmjit::x86::Zmm>(), out[h].as<asmjit::x86::Zmm>(), value, 1);
      }
    }
  }
  resume(*home);
  cc_.bind(skip);
  open_regions_.pop_back();
  for (size_t n = 0; n < outputs.size(); ++n) {
    Rep& rep = new_rep(r.outputs[n], home);
    rep.v[0] = outputs[n].v[0], rep.v[1] = outputs[n].v[1];
  }
}

}  // namespace frit::jit::x86_code
