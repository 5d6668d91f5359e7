// The plan of a strip: what it needs, how often, and which parts only one side of a select wants. Scalar functions are
// written without branches; where a costly part serves lanes that are rare (the large arguments of sin), the strip jumps
// over it when it has none of them. The bits are the same: the select would not have taken them. Start with plan_of.
#include <algorithm>

#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
constexpr int region_cost = 12;       // below, computing is cheaper than asking
constexpr int interleaved_strips = 2;
constexpr int stash_cost = 16;         // what is cheaper is computed again
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

StripPlan Emitter::plan_of(const std::vector<Id>& roots, int axis, const Stash* stash) const {
  StripPlan plan;
  const Id leaf = stash ? stash->value : no_value;
  plan.stash = stash;
  plan.needed = a_.needed(roots, leaf);
  plan.uses.assign(p_.instrs.size(), 0);
  plan.region_of.assign(p_.instrs.size(), -1);
  for (Id r : roots) plan.uses[r] = 0x7fff;
  for (Id v : plan.needed) {
    if (v != leaf && a_.varies(v, axis) && !(instr(v).dtype == Dtype::Int64 && a_.affine(v, axis))) plan.cost += cost_of(v);
    if (instr(v).op == Op::reduce || v == leaf) continue;
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
  if (i.op != Op::scalar || is_wide(i.dtype)) return false;
  for (Id in : i.in)
    if (in != no_value && is_wide(instr(in).dtype)) return false;
  const bool division = i.prim == Prim::div || i.prim == Prim::rem;
  return i.prim != Prim::table && i.prim != Prim::mulhi_u32 && (!division || is_floating(i.dtype));
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
    if (!a_.varies(v, axis) || (plan.stash && plan.stash->value == v)) continue;
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
  return !plan.stash || !is_wide(instr(plan.stash->value).dtype);
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
      return !(plan.stash && plan.stash->value == v) && instr(v).op == Op::scalar && instr(v).prim == Prim::select && a_.varies(instr(v).in[0], axis);
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
    if (instr(v).op == Op::reduce || (plan.stash && plan.stash->value == v)) return count;
    for (int k = 0; k < 4; ++k) {
      const Id in = instr(v).in[k];
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
           !(plan.stash && plan.stash->value == v);
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

// The costliest value that a reduction along the axis, still to be emitted at this level, shares with the plan.
const Stash* Emitter::make_stash(const StripPlan& plan, int axis, Level& level) {
  Stash best;
  int best_cost = stash_cost - 1;
  std::vector<bool> wanted(p_.instrs.size(), false);
  for (Id v : plan.needed) wanted[v] = true;
  for (Id r : plan.needed) {
    const Instr& i = instr(r);
    if (i.op != Op::reduce || int(i.imm) != axis || (has_tree(i) && i.order == Order::pairwise)) continue;
    if (placement(a_.depends[r], &level) != &level || level.slots[r] >= 0) continue;
    const std::vector<Id> shared = a_.needed({i.in[0]});
    std::vector<bool> inner(p_.instrs.size(), false);  // values that the plan needs for other shared values alone
    for (Id v : shared) inner[v] = wanted[v];
    for (Id user : plan.needed) {
      if (std::binary_search(shared.begin(), shared.end(), user) || instr(user).op == Op::reduce) continue;
      for (Id in : instr(user).in)
        if (in != no_value) inner[in] = false;
    }
    for (Id v : shared) {
      const Instr& value = instr(v);
      if (!wanted[v] || inner[v] || value.op != Op::scalar || value.dtype == Dtype::Bool || !a_.varies(v, axis)) continue;
      int cost = 0;
      for (Id part : a_.needed({v}))
        if (a_.varies(part, axis) && instr(part).op == Op::scalar && !a_.affine(part, axis)) cost += cost_of(part);
      if (cost > best_cost) best_cost = cost, best.value = v, best.filler = r;
    }
  }
  if (best.value == no_value) return nullptr;
  best.base = cc_.newGpq();
  cc_.lea(best.base, cc_.newStack(uint32_t(stash_elements + 16) * (is_wide(instr(best.value).dtype) ? 8 : 4), 32));
  stashes_.push_back(best);
  return &stashes_.back();
}

// An axis that is longer than the stash writes over it, and nobody reads it.
void Emitter::fill_stashes(const Group& g, Level& strip) {
  for (const Stash& s : stashes_) {
    if (std::find(g.ids.begin(), g.ids.end(), s.filler) == g.ids.end() || strip.axis != g.axis) continue;
    const Dtype d = instr(s.value).dtype;
    const uint32_t shift = is_wide(d) ? 3 : 2;
    const Gp at = cc_.newGpq();
    cc_.mov(at, strip.index);
    cc_.and_(at, stash_elements - 1);
    for (int h = 0; h < parts(d, &strip); ++h)
      cc_.vmovups(asmjit::x86::ptr(s.base, at, shift, int32_t((strip.displacement << shift) + 32 * h), 32), part(s.value, &strip, h));
  }
}

void Emitter::read_stash(const Stash& s, Level* l) {
  const Dtype d = instr(s.value).dtype;
  const uint32_t shift = is_wide(d) ? 3 : 2;
  Ymm out[2];
  for (int h = 0; h < halves(d, l); ++h)
    out[h] = emit1(Inst::kIdVmovups, asmjit::x86::ptr(s.base, l->index, shift, int32_t((l->displacement << shift) + 32 * h), zmm_ ? 64 : 32));
  Rep& r = new_rep(s.value, l);
  r.v[0] = out[0], r.v[1] = out[1];
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
