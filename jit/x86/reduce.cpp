// Reductions along the vector axis. The order of the elements is that of kernels/program.h: chunks of 1024, lane = index
// mod 8, lanes combined in one tree, chunks pairwise. Where order does not matter (integers, extremes, any, all) several
// independent accumulators run over the whole axis. Start with emit_reduce.
//
// Combining is commutative in every bit (NaN is NaN), so a butterfly leaves the result in all lanes.
#include <algorithm>
#include <limits>

#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
using asmjit::Imm;
using asmjit::x86::ptr;

constexpr int chunk = 1024;
constexpr int stack_levels = 54;
constexpr uint64_t no_index = uint64_t(std::numeric_limits<int64_t>::max());

uint64_t least(Dtype d) {
  switch (d) {
    case Dtype::Float32: return 0xff800000;
    case Dtype::Float64: return 0xfff0000000000000;
    case Dtype::Int64: return uint64_t(1) << 63;
    case Dtype::Int32: return 0x80000000;
    case Dtype::Int16: return uint64_t(int64_t(-32768));
    case Dtype::Int8: return uint64_t(int64_t(-128));
    default: return 0;
  }
}
uint64_t greatest(Dtype d) {
  switch (d) {
    case Dtype::Float32: return 0x7f800000;
    case Dtype::Float64: return 0x7ff0000000000000;
    case Dtype::Int64: return no_index;
    case Dtype::Int32: return 0x7fffffff;
    case Dtype::Int16: return 32767;
    case Dtype::Int8: return 127;
    default: return 255;
  }
}
}  // namespace

// ---- one reduce -------------------------------------------------------------------------------------------------------

Mem Emitter::identity(const Instr& r) {
  const Dtype d = value_dtype(r);
  uint64_t bits = 0;
  switch (r.kind) {
    case Reduce::sum:
    case Reduce::any: break;
    case Reduce::all: return constant32(~0u);
    case Reduce::prod:
      if (is_floating(d)) return constant_float(1, d);
      bits = 1;
      break;
    case Reduce::max:
    case Reduce::argmax: bits = least(d); break;
    case Reduce::min:
    case Reduce::argmin: bits = greatest(d); break;
  }
  return is_wide(d) ? constant64(bits) : constant32(uint32_t(bits));
}

// NaN-propagating; of two zeros max gives +0 and min gives -0, whichever comes first.
void Emitter::extreme_into(const Instr& r, const Ymm& d, const Ymm& a, const Operand& b) {
  const Dtype t = value_dtype(r);
  const bool max = r.kind == Reduce::max;
  if (t == Dtype::Int64) {
    const Ymm greater = emit2(Inst::kIdVpcmpgtq, a, b);
    if (max) cc_.vpxor(greater, greater, constant32(~0u));
    cc_.emit(Inst::kIdVblendvpd, d, a, b, greater);
  } else if (!is_floating(t)) {
    cc_.emit(max ? Inst::kIdVpmaxsd : Inst::kIdVpminsd, d, a, b);
  } else {
    const bool wide = t == Dtype::Float64;
    const Ymm y = b.isMem() ? load_constant(b.as<Mem>()) : b.as<Ymm>();
    const Inst::Id id = wide ? (max ? Inst::kIdVmaxpd : Inst::kIdVminpd) : (max ? Inst::kIdVmaxps : Inst::kIdVminps);
    const Ymm one = emit2(id, a, y), other = emit2(id, y, a);
    const Ymm nan = emit3(wide ? Inst::kIdVcmppd : Inst::kIdVcmpps, a, y, Imm(3));
    cc_.emit(max ? Inst::kIdVandps : Inst::kIdVorps, one, one, other);
    cc_.vorps(d, one, nan);
  }
}

// d = a (+) b. Narrow integers are wrapped when the reduce is done.
void Emitter::combine_into(const Instr& r, const Ymm& d, const Ymm& a, const Operand& b) {
  const Dtype t = value_dtype(r);
  Inst::Id id = Inst::kIdNone;
  switch (r.kind) {
    case Reduce::sum:
      id = t == Dtype::Float32 ? Inst::kIdVaddps : t == Dtype::Float64 ? Inst::kIdVaddpd : is_wide(t) ? Inst::kIdVpaddq : Inst::kIdVpaddd;
      break;
    case Reduce::prod:
      if (t == Dtype::Int64) {
        const Ymm product = multiply64(a, b);
        cc_.vmovaps(d, product);
        return;
      }
      id = t == Dtype::Float32 ? Inst::kIdVmulps : t == Dtype::Float64 ? Inst::kIdVmulpd : Inst::kIdVpmulld;
      break;
    case Reduce::any: id = Inst::kIdVpor; break;
    case Reduce::all: id = Inst::kIdVpand; break;
    default: return extreme_into(r, d, a, b);
  }
  cc_.emit(id, d, a, b);
}

Emitter::Accumulators Emitter::start(const Group& g) {
  Accumulators accs(g.ids.size());
  for (size_t n = 0; n < g.ids.size(); ++n) {
    const Instr& r = instr(g.ids[n]);
    for (int h = 0; h < (is_wide(value_dtype(r)) ? 2 : 1); ++h) accs[n].v[h] = load_constant(identity(r));
    if (is_argument(r))
      for (Ymm& i : accs[n].index) i = load_constant(constant64(no_index));
  }
  return accs;
}

void Emitter::accumulate(Id id, Accumulator& acc, Level* strip) {
  const Instr& r = instr(id);
  if (is_argument(r)) return accumulate_argument(id, acc, strip);
  const Dtype t = value_dtype(r);
  const Instr& product = instr(r.in[0]);
  Mask m = mask_of(r.in[1], strip);
  for (int h = 0; h < (is_wide(t) ? 2 : 1); ++h) {
    const Ymm next = m.any ? cc_.newYmm() : acc.v[h];
    if (r.fused && r.order == Order::lanes) {
      const Id a = is_constant(product.in[0]) ? product.in[1] : product.in[0];
      const Id b = a == product.in[0] ? product.in[1] : product.in[0];
      const Ymm x = lanes(a, strip, h);
      const Operand y = source(b, strip, h);
      if (m.any) cc_.vmovaps(next, acc.v[h]);
      cc_.emit(is_wide(t) ? Inst::kIdVfmadd231pd : Inst::kIdVfmadd231ps, next, x, y);
    } else {
      combine_into(r, next, acc.v[h], source(r.in[0], strip, h));
    }
    if (!m.any) continue;
    if (is_wide(t)) cc_.vblendvpd(acc.v[h], acc.v[h], next, wide(m, h));
    else cc_.vblendvps(acc.v[h], acc.v[h], next, narrow(m));
  }
}

// The index of the lanes along the reduced axis: of the strip, or of the row that it lies in.
void Emitter::accumulate_argument(Id id, Accumulator& acc, Level* strip) {
  const Instr& r = instr(id);
  const Dtype t = value_dtype(r);
  const bool max = r.kind == Reduce::argmax;
  Mask m = mask_of(r.in[1], strip);
  Ymm index[2];
  if (strip->axis == int(r.imm)) {
    index[0] = strip_index(strip, 0), index[1] = strip_index(strip, 1);
  } else {
    const Level* row = strip;
    while (row->kind != LevelKind::loop || row->axis != int(r.imm)) row = row->parent;
    index[0] = index[1] = cc_.newYmm();
    cc_.vmovq(index[0].xmm(), row->index);
    cc_.vpbroadcastq(index[0], index[0].xmm());
  }
  Ymm better[2];
  const int halves = is_wide(t) ? 2 : 1;
  for (int h = 0; h < halves; ++h) {
    const Ymm v = lanes(r.in[0], strip, h);
    if (is_floating(t)) {  // not (v <= acc), and acc is no NaN
      const Inst::Id compare = is_wide(t) ? Inst::kIdVcmppd : Inst::kIdVcmpps;
      better[h] = emit3(compare, v, acc.v[h], Imm(max ? 0x16 : 0x19));
      cc_.vandps(better[h], better[h], emit3(compare, acc.v[h], acc.v[h], Imm(7)));
    } else {
      const Inst::Id greater = is_wide(t) ? Inst::kIdVpcmpgtq : Inst::kIdVpcmpgtd;
      better[h] = max ? emit2(greater, v, acc.v[h]) : emit2(greater, acc.v[h], v);
    }
  }
  if (r.in[1] != no_value) {  // with a mask, the first lane that takes part may equal the identity
    Ymm fresh[2];
    for (int h = 0; h < 2; ++h) fresh[h] = emit2(Inst::kIdVpcmpeqq, acc.index[h], constant64(no_index));
    if (!is_wide(t)) fresh[0] = pack(fresh[0], fresh[1]);
    for (int h = 0; h < halves; ++h) cc_.vpor(better[h], better[h], fresh[h]);
  }
  for (int h = 0; h < halves; ++h) {
    if (m.any) cc_.vpand(better[h], better[h], is_wide(t) ? wide(m, h) : narrow(m));
    cc_.emit(is_wide(t) ? Inst::kIdVblendvpd : Inst::kIdVblendvps, acc.v[h], acc.v[h], lanes(r.in[0], strip, h), better[h]);
  }
  if (!is_wide(t)) {
    const Ymm all = better[0];
    widen(all, better[0], better[1]);
  }
  for (int h = 0; h < 2; ++h) cc_.vblendvpd(acc.index[h], acc.index[h], index[h], better[h]);
}

void Emitter::combine_lanes(const Instr& r, Accumulator& acc) {
  const Ymm v = acc.v[0], moved = cc_.newYmm();
  if (is_wide(value_dtype(r))) combine_into(r, v, v, acc.v[1]);
  cc_.vpermq(moved, v, 0x4e);
  combine_into(r, v, v, moved);
  cc_.vpshufd(moved, v, 0x4e);
  combine_into(r, v, v, moved);
  if (is_wide(value_dtype(r))) return;
  cc_.vpshufd(moved, v, 0xb1);
  combine_into(r, v, v, moved);
}

void Emitter::combine_adjacent(const Instr& r, Accumulator& acc) {
  const Ymm moved = cc_.newYmm();
  const bool wide = is_wide(value_dtype(r));
  for (int h = 0; h < (wide ? 2 : 1); ++h) {
    const Ymm v = acc.v[h];
    if (!wide) {
      cc_.vpshufd(moved, v, 0xb1);
      combine_into(r, v, v, moved);
    }
    cc_.vpshufd(moved, v, 0x4e);
    combine_into(r, v, v, moved);
    cc_.vpermq(moved, v, 0x4e);
    combine_into(r, v, v, moved);
  }
  if (wide) combine_into(r, acc.v[0], acc.v[0], acc.v[1]);
}

// a = the better of a and b, where both are Float64 or Int64 lanes; ties go to the lower index.
void Emitter::merge_argument(const Instr& r, const Ymm& a, const Ymm& a_index, const Ymm& b, const Ymm& b_index) {
  const bool max = r.kind == Reduce::argmax;
  Ymm better, tie;
  if (is_floating(value_dtype(r))) {
    better = emit3(Inst::kIdVcmppd, b, a, Imm(max ? 0x16 : 0x19));
    cc_.vandpd(better, better, emit3(Inst::kIdVcmppd, a, a, Imm(7)));
    tie = emit3(Inst::kIdVcmppd, a, a, Imm(3));
    cc_.vandpd(tie, tie, emit3(Inst::kIdVcmppd, b, b, Imm(3)));
    cc_.vorpd(tie, tie, emit3(Inst::kIdVcmppd, a, b, Imm(0)));
  } else {
    better = max ? emit2(Inst::kIdVpcmpgtq, b, a) : emit2(Inst::kIdVpcmpgtq, a, b);
    tie = emit2(Inst::kIdVpcmpeqq, a, b);
  }
  cc_.vpand(tie, tie, emit2(Inst::kIdVpcmpgtq, a_index, b_index));
  cc_.vpor(better, better, tie);
  cc_.vblendvpd(a, a, b, better);
  cc_.vblendvpd(a_index, a_index, b_index, better);
}

void Emitter::combine_argument(const Instr& r, Accumulator& acc) {
  const Dtype t = value_dtype(r);
  if (!is_wide(t)) {
    const Ymm all = acc.v[0];
    if (t == Dtype::Float32) {
      acc.v[0] = emit1(Inst::kIdVcvtps2pd, all.xmm());
      const Ymm high = cc_.newYmm();
      cc_.vextractf128(high.xmm(), all, 1);
      cc_.vcvtps2pd(high, high.xmm());
      acc.v[1] = high;
    } else {
      widen(all, acc.v[0], acc.v[1]);
    }
  }
  merge_argument(r, acc.v[0], acc.index[0], acc.v[1], acc.index[1]);
  const Ymm moved = cc_.newYmm(), moved_index = cc_.newYmm();
  cc_.vpermq(moved, acc.v[0], 0x4e);
  cc_.vpermq(moved_index, acc.index[0], 0x4e);
  merge_argument(r, acc.v[0], acc.index[0], moved, moved_index);
  cc_.vpshufd(moved, acc.v[0], 0x4e);
  cc_.vpshufd(moved_index, acc.index[0], 0x4e);
  merge_argument(r, acc.v[0], acc.index[0], moved, moved_index);
}

void Emitter::publish(Id id, const Accumulator& acc, Level* l) {
  const Instr& r = instr(id);
  Gp g;
  if (is_argument(r)) {
    g = cc_.newGpq();
    const Gp none = cc_.newGpq(), nothing = cc_.newGpq();
    low_word(g, acc.index[0]);
    cc_.mov(none, no_index);
    cc_.xor_(nothing, nothing);
    cc_.cmp(g, none);
    cc_.cmove(g, nothing);
  } else if (r.dtype == Dtype::Int64) {
    g = cc_.newGpq();
    low_word(g, acc.v[0]);
  } else {
    wrap(acc.v[0], r.dtype);
  }
  Rep& out = new_rep(id, l);
  if (g.isValid()) out.g = g;
  else out.v[0] = acc.v[0];
}

// ---- groups -----------------------------------------------------------------------------------------------------------

Emitter::Group Emitter::make_group(Id v, Level* l, int vector_axis) {
  Group g;
  g.axis = int(instr(v).imm);
  for (Id c : a_.companions(v)) {
    const bool busy = std::find(in_progress_.begin(), in_progress_.end(), c) != in_progress_.end();
    if (c == v || (!busy && l->slots[c] < 0 && a_.depends[c] == a_.depends[v])) g.ids.push_back(c);
  }
  std::vector<Id> roots;
  for (Id id : g.ids) {
    const Instr& r = instr(id);
    if (r.fused && r.order == Order::lanes) roots.insert(roots.end(), {instr(r.in[0]).in[0], instr(r.in[0]).in[1]});
    else roots.push_back(r.in[0]);
    if (r.in[1] != no_value) roots.push_back(r.in[1]);
    g.registers += (is_wide(value_dtype(r)) ? 2 : 1) + (is_argument(r) ? 2 : 0);
  }
  for (const Stash& s : stashes_)
    if (std::find(g.ids.begin(), g.ids.end(), s.filler) != g.ids.end()) roots.push_back(s.value);
  g.plan = plan_of(roots, vector_axis);
  return g;
}

template <class Body>
void Emitter::group_strips(const Group& g, Level& parent, const Gp& begin, const Gp& end, int unroll, Body body) {
  const Gp i = cc_.newGpq();
  if (!wants_columns(g.plan.needed, g.axis)) {
    cc_.mov(i, begin);
    return strips(parent, g.axis, i, end, unroll, g.plan, body);
  }
  blocks_of_columns(parent, g.axis, begin, end, [&](Level& block) {
    cc_.mov(i, block.index);
    strips(block, g.axis, i, block.end, unroll, g.plan, body);
  });
}

void Emitter::emit_reduce(Id v, Level* l) {
  if (l->kind == LevelKind::strip) return emit_column_reduce(v, l);
  Group g = make_group(v, l, int(instr(v).imm));
  const size_t outer = in_progress_.size();
  in_progress_.insert(in_progress_.end(), g.ids.begin(), g.ids.end());
  const Instr& r = instr(v);
  if (!has_tree(r)) reduce_free(g, l);
  else if (r.order == Order::pairwise) reduce_pairwise(g, l);
  else reduce_tree(g, l);
  in_progress_.resize(outer);
}

// The order of the elements does not matter.
void Emitter::reduce_free(Group& g, Level* l) {
  const bool argument = is_argument(instr(g.ids[0]));
  int unroll = argument ? 1 : g.plan.unroll;
  while (unroll > 1 && unroll * g.registers > 8) unroll /= 2;
  const Gp extent = gp(p_.axes[size_t(g.axis)].extent, l), begin = cc_.newGpq();
  std::vector<Accumulators> accs;
  for (int u = 0; u < unroll; ++u) accs.push_back(start(g));
  suspend(*l);
  cc_.xor_(begin, begin);
  Level inside = open_reduction(l, g.axis);
  group_strips(g, inside, begin, extent, unroll, [&](Level& strip, int u) {
    for (size_t n = 0; n < g.ids.size(); ++n) accumulate(g.ids[n], accs[size_t(u)][n], &strip);
    fill_stashes(g, strip);
  });
  resume(*l);
  for (size_t n = 0; n < g.ids.size(); ++n) {
    const Instr& r = instr(g.ids[n]);
    Accumulator& acc = accs[0][n];
    if (argument) {
      combine_argument(r, acc);
    } else {
      for (int step = unroll / 2; step > 0; step /= 2)
        for (int u = 0; u < step; ++u)
          for (int h = 0; h < (is_wide(value_dtype(r)) ? 2 : 1); ++h)
            combine_into(r, accs[size_t(u)][n].v[h], accs[size_t(u)][n].v[h], accs[size_t(u + step)][n].v[h]);
      combine_lanes(r, acc);
    }
    publish(g.ids[n], acc, l);
  }
}

// ---- chunks -----------------------------------------------------------------------------------------------------------

Emitter::Stack Emitter::open_stack(const Group& g) {
  Stack s;
  s.entry = int(32 * g.ids.size());
  const Mem memory = cc_.newStack(uint32_t(s.entry * stack_levels), 32);
  s.base = cc_.newGpq(), s.count = cc_.newGpq(), s.top = cc_.newGpq();
  cc_.lea(s.base, memory);
  cc_.xor_(s.count, s.count);
  cc_.xor_(s.top, s.top);
  return s;
}

// A binary counter: as many merges as the count has trailing ones.
void Emitter::push(const Group& g, Stack& s, Accumulators& values) {
  const Label top = cc_.newLabel(), done = cc_.newLabel();
  const Gp c = cc_.newGpq();
  cc_.mov(c, s.count);
  cc_.bind(top);
  cc_.test(c.r8(), 1);
  cc_.jz(done);
  cc_.sub(s.top, s.entry);
  for (size_t n = 0; n < g.ids.size(); ++n) {
    const Ymm earlier = emit1(Inst::kIdVmovups, ptr(s.base, s.top, 0, int32_t(32 * n), 32));
    combine_into(instr(g.ids[n]), values[n].v[0], earlier, values[n].v[0]);
  }
  cc_.shr(c, 1);
  cc_.jmp(top);
  cc_.bind(done);
  for (size_t n = 0; n < g.ids.size(); ++n) cc_.vmovups(ptr(s.base, s.top, 0, int32_t(32 * n), 32), values[n].v[0]);
  cc_.add(s.top, s.entry);
  cc_.inc(s.count);
}

// The counts of what is on the stack are descending powers of two: later ones first.
void Emitter::fold(const Group& g, Stack& s, Accumulators& values) {
  const Label top = cc_.newLabel(), done = cc_.newLabel();
  cc_.sub(s.top, s.entry);
  for (size_t n = 0; n < g.ids.size(); ++n) cc_.vmovups(values[n].v[0], ptr(s.base, s.top, 0, int32_t(32 * n), 32));
  cc_.bind(top);
  cc_.test(s.top, s.top);
  cc_.jz(done);
  cc_.sub(s.top, s.entry);
  for (size_t n = 0; n < g.ids.size(); ++n) {
    const Ymm earlier = emit1(Inst::kIdVmovups, ptr(s.base, s.top, 0, int32_t(32 * n), 32));
    combine_into(instr(g.ids[n]), values[n].v[0], earlier, values[n].v[0]);
  }
  cc_.jmp(top);
  cc_.bind(done);
}

// Four chunks at once while there are four, so that the latency of an addition does not bind.
void Emitter::tree_interleaved(Group& g, Level& inside, const Gp& k, const Gp& extent, Stack& stack, Accumulators& values) {
  constexpr int ways = 4;
  const Label top = cc_.newLabel(), next = cc_.newLabel(), row = cc_.newLabel();
  const Gp limit = cc_.newGpq(), i = cc_.newGpq(), stop = cc_.newGpq();
  suspend(inside);
  cc_.lea(limit, ptr(extent, -ways * chunk));
  cc_.cmp(k, limit);
  cc_.jg(next);
  cc_.bind(top);
  std::vector<Accumulators> accs;
  for (int q = 0; q < ways; ++q) accs.push_back(start(g));
  cc_.mov(i, k);
  cc_.lea(stop, ptr(k, chunk));
  cc_.align(asmjit::AlignMode::kCode, 32);
  cc_.bind(row);
  for (int q = 0; q < ways; ++q) {
    Level strip = open_strip(&inside, g.axis, i, q * chunk, g.plan);
    for (size_t n = 0; n < g.ids.size(); ++n) accumulate(g.ids[n], accs[size_t(q)][n], &strip);
  }
  cc_.add(i, 8);
  cc_.cmp(i, stop);
  cc_.jl(row);
  for (int q = 0; q < ways; ++q) {
    for (size_t n = 0; n < g.ids.size(); ++n) {
      combine_lanes(instr(g.ids[n]), accs[size_t(q)][n]);
      cc_.vmovaps(values[n].v[0], accs[size_t(q)][n].v[0]);
    }
    push(g, stack, values);
  }
  cc_.add(k, ways * chunk);
  cc_.cmp(k, limit);
  cc_.jle(top);
  cc_.bind(next);
  resume(inside);
}

void Emitter::reduce_tree(Group& g, Level* l) {
  const Gp extent = gp(p_.axes[size_t(g.axis)].extent, l), k = cc_.newGpq(), stop = cc_.newGpq();
  const Label again = cc_.newLabel(), keep = cc_.newLabel(), last = cc_.newLabel(), done = cc_.newLabel();
  suspend(*l);
  Level inside = open_reduction(l, g.axis);
  Stack stack = open_stack(g);
  Accumulators values(g.ids.size());
  for (Accumulator& v : values) v.v[0] = cc_.newYmm();
  cc_.xor_(k, k);
  if (g.plan.cost <= 8 && g.registers <= 2 && !wants_columns(g.plan.needed, g.axis)) {
    tree_interleaved(g, inside, k, extent, stack, values);
    const Label rest = cc_.newLabel();
    cc_.test(stack.count, stack.count);
    cc_.jz(rest);
    cc_.cmp(k, extent);
    cc_.jge(last);
    cc_.bind(rest);
  }
  cc_.bind(again);
  cc_.lea(stop, ptr(k, chunk));
  cc_.cmp(stop, extent);
  cc_.cmovg(stop, extent);
  Accumulators accs = start(g);
  group_strips(g, inside, k, stop, std::min(g.plan.unroll, 2), [&](Level& strip, int) {
    for (size_t n = 0; n < g.ids.size(); ++n) accumulate(g.ids[n], accs[n], &strip);
    fill_stashes(g, strip);
  });
  for (size_t n = 0; n < g.ids.size(); ++n) {
    combine_lanes(instr(g.ids[n]), accs[n]);
    cc_.vmovaps(values[n].v[0], accs[n].v[0]);
  }
  cc_.cmp(stop, extent);  // the only chunk: that is it
  cc_.jne(keep);
  cc_.test(stack.count, stack.count);
  cc_.jz(done);
  cc_.bind(keep);
  push(g, stack, values);
  cc_.mov(k, stop);
  cc_.cmp(k, extent);
  cc_.jl(again);
  cc_.bind(last);
  fold(g, stack, values);
  cc_.bind(done);
  resume(*l);
  for (size_t n = 0; n < g.ids.size(); ++n) publish(g.ids[n], values[n], l);
}

// ---- pairwise ---------------------------------------------------------------------------------------------------------

Ymm Emitter::participating(Id id, Level* strip, int half) {
  const Instr& r = instr(id);
  const Ymm v = lanes(r.in[0], strip, half);
  if (r.in[1] == no_value) return move(v);
  const Ymm none = load_constant(identity(r));
  if (is_wide(value_dtype(r))) return blend_wide(none, v, wide_mask(r.in[1], strip, half));
  return blend(none, v, lanes(r.in[1], strip));
}

// Strips of 8 combine by adjacent pairs and count as one; the elements of the last, partial strip follow one by one.
void Emitter::reduce_pairwise(Group& g, Level* l) {
  const Id id = g.ids[0];
  const Instr& r = instr(id);
  const bool wide = is_wide(value_dtype(r));
  const Gp extent = gp(p_.axes[size_t(g.axis)].extent, l), begin = cc_.newGpq();
  const Label done = cc_.newLabel();
  suspend(*l);
  Level inside = open_reduction(l, g.axis);
  Stack stack = open_stack(g);
  Accumulators values(1);
  values[0].v[0] = cc_.newYmm();
  cc_.xor_(begin, begin);
  group_strips(g, inside, begin, extent, 1, [&](Level& strip, int) {
    Accumulator acc;
    for (int h = 0; h < (wide ? 2 : 1); ++h) acc.v[h] = participating(id, &strip, h);
    if (!strip.tail.isValid()) {
      combine_adjacent(r, acc);
      cc_.vmovaps(values[0].v[0], acc.v[0]);
      return push(g, stack, values);
    }
    const Gp bits = cc_.newGpd();
    cc_.vmovmskps(bits, strip.tail);
    store_memory(value_dtype(r), slot(0), acc.v);
    cc_.xor_(stack.count, stack.count);
    lane_loop(bits, [&](const Gp& lane) {
      Mem element = slot(0);
      element.setIndex(lane, wide ? 3 : 2);
      if (wide) cc_.vbroadcastsd(values[0].v[0], sized(element, 8));
      else cc_.vbroadcastss(values[0].v[0], sized(element, 4));
      push(g, stack, values);
    });
  });
  cc_.vmovaps(values[0].v[0], identity(r));
  cc_.test(stack.top, stack.top);
  cc_.jz(done);
  fold(g, stack, values);
  cc_.bind(done);
  resume(*l);
  publish(id, values[0], l);
}

}  // namespace frit::jit::x86_code
