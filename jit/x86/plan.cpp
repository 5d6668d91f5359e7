// The plan of a strip: what it needs, how often, and which parts only one side of a select wants. Scalar functions are
// written without branches; where a costly part serves lanes that are rare (the large arguments of sin), the strip jumps
// over it when it has none of them. The bits are the same: the select would not have taken them. Start with plan_of.
#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
constexpr int region_cost = 12;  // below, computing is cheaper than asking
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

StripPlan Emitter::plan_of(const std::vector<Id>& roots, int axis) const {
  StripPlan plan;
  plan.needed = a_.needed(roots);
  plan.uses.assign(p_.instrs.size(), 0);
  plan.region_of.assign(p_.instrs.size(), -1);
  for (Id r : roots) plan.uses[r] = 0x7fff;
  for (Id v : plan.needed) {
    if (a_.varies(v, axis) && !(instr(v).dtype == Dtype::Int64 && a_.affine(v, axis))) plan.cost += cost_of(v);
    if (instr(v).op == Op::reduce) continue;
    for (Id in : instr(v).in)
      if (in != no_value && plan.uses[in] < 0x7fff) ++plan.uses[in];
  }
  find_regions(plan, axis);
  return plan;
}

int Emitter::unroll_for(const StripPlan& plan) const {
  if (schedule_.unroll) return schedule_.unroll;
  return plan.cost <= 6 ? 4 : plan.cost <= 16 ? 2 : 1;
}

void Emitter::find_regions(StripPlan& plan, int axis) const {
  if (plan.cost < region_cost) return;
  std::vector<bool> done(p_.instrs.size(), false);
  for (size_t n = 0; n < plan.needed.size(); ++n) {
    const auto is_select = [&](Id v) {
      return instr(v).op == Op::scalar && instr(v).prim == Prim::select && a_.varies(instr(v).in[0], axis);
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

// Members are used by members and on this side of the selects, and nowhere else.
void Emitter::add_region(StripPlan& plan, const std::vector<Id>& selects, bool when, int axis) const {
  Region r;
  r.condition = instr(selects[0]).in[0];
  r.when = when;
  std::vector<uint16_t> inside(p_.instrs.size(), 0);  // uses by members and selects
  for (Id s : selects) ++inside[instr(s).in[when ? 1 : 2]];
  const auto may = [&](Id v) {
    return instr(v).op == Op::scalar && instr(v).prim != Prim::constant && a_.varies(v, axis) && inside[v] && inside[v] == plan.uses[v];
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
  plan.regions.push_back(std::move(r));
}

// Leaves the outputs in registers of `home`; they are zero when the region was skipped.
void Emitter::emit_region(const Region& r, Level* home) {
  const Label skip = cc_.newLabel();
  const Ymm mask = lanes(r.condition, home);
  std::vector<Rep> outputs(r.outputs.size());
  for (size_t n = 0; n < outputs.size(); ++n)
    for (int h = 0; h < halves(instr(r.outputs[n]).dtype, home); ++h) outputs[n].v[h] = zero();
  suspend(*home);
  const Gp bits = cc_.newGpd();
  cc_.vmovmskps(bits, mask);
  if (r.when) cc_.test(bits, bits);
  else cc_.cmp(bits, 0xff);
  cc_.je(skip);
  {
    Level inside = open(LevelKind::strip, home, home->axis, home->index, home->displacement);
    inside.plan = home->plan;
    inside.region = &r;
    inside.tail = home->tail;
    inside.uses = home->uses;
    for (size_t n = 0; n < outputs.size(); ++n)
      for (int h = 0; h < halves(instr(r.outputs[n]).dtype, home); ++h) cc_.vmovaps(outputs[n].v[h], lanes(r.outputs[n], &inside, h));
  }
  resume(*home);
  cc_.bind(skip);
  for (size_t n = 0; n < outputs.size(); ++n) {
    Rep& rep = new_rep(r.outputs[n], home);
    rep.v[0] = outputs[n].v[0], rep.v[1] = outputs[n].v[1];
  }
}

}  // namespace frit::jit::x86_code
