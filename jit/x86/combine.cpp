// The operations of one reduce: its identity, taking in a strip, combining accumulators and lanes, publishing the result.
// Start with combine_into and accumulate.
//
// Combining is commutative in every bit (NaN is NaN), so a butterfly leaves the result in all lanes.
#include <limits>

#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
using asmjit::Imm;

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
  for (int h = 0; h < parts(t, strip); ++h) {
    const Ymm sum = acc.v[strip->zmm ? 0 : h], next = m.any ? cc_.newYmm() : sum;
    const auto operand = [&](Id v) -> Operand { return is_constant(v) ? Operand(constant_of(v)) : Operand(part(v, strip, h)); };
    if (r.fused && r.order == Order::lanes) {
      const Id a = is_constant(product.in[0]) ? product.in[1] : product.in[0];
      const Id b = a == product.in[0] ? product.in[1] : product.in[0];
      const Ymm x = part(a, strip, h);
      const Operand y = operand(b);
      if (m.any) cc_.vmovaps(next, sum);
      cc_.emit(is_wide(t) ? Inst::kIdVfmadd231pd : Inst::kIdVfmadd231ps, next, x, y);
    } else {
      combine_into(r, next, sum, operand(r.in[0]));
    }
    if (!m.any) continue;
    if (is_wide(t)) cc_.vblendvpd(sum, sum, next, wide(m, h));
    else cc_.vblendvps(sum, sum, next, narrow(m));
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

// ---- quick extremes -----------------------------------------------------------------------------------------------------
// The processor's max and min forget NaN and take either zero. So they run over the elements as they are; whether there was
// a NaN, and which signs there were, is collected beside them (NaN in two strips by one comparison) and put right at the end.

bool Emitter::is_quick_extreme(const Instr& r) const {
  return (r.kind == Reduce::max || r.kind == Reduce::min) && is_floating(value_dtype(r)) && r.in[1] == no_value;
}

// All sets of accumulators share the signs and the NaNs.
void Emitter::start_extremes(const Group& g, std::vector<Accumulators>& accs) {
  for (size_t n = 0; n < g.ids.size(); ++n) {
    const Instr& r = instr(g.ids[n]);
    if (!is_quick_extreme(r)) continue;
    for (int h = 0; h < (is_wide(value_dtype(r)) ? 2 : 1); ++h) {
      Ymm* shared = h ? accs[0][n].more : accs[0][n].index;
      shared[0] = r.kind == Reduce::max ? ones() : zero();
      shared[1] = zero();
    }
    if (g.plan.zmm) {
      const auto spread = [&](const Ymm& eight) {
        const Ymm all = cc_.newZmm().as<Ymm>();
        cc_.vbroadcastss(all, eight.xmm());
        return all;
      };
      const Ymm signs = spread(accs[0][n].index[0]);
      const KReg nan = cc_.newKw();
      cc_.kxorw(nan, nan, nan);
      for (Accumulators& each : accs) each[n].sixteen[0] = spread(each[n].v[0]), each[n].sixteen[1] = signs, each[n].nan = nan;
    }
    for (Accumulators& other : accs)
      for (int k = 0; k < 2; ++k) other[n].index[k] = accs[0][n].index[k], other[n].more[k] = accs[0][n].more[k];
  }
}

void Emitter::accumulate_extreme(Id id, size_t number, Accumulator& acc, Level* strip, int u) {
  const Instr& r = instr(id);
  const bool wide_type = is_wide(value_dtype(r)), max = r.kind == Reduce::max;
  const Inst::Id extreme = wide_type ? (max ? Inst::kIdVmaxpd : Inst::kIdVminpd) : (max ? Inst::kIdVmaxps : Inst::kIdVminps);
  const Inst::Id compare = wide_type ? Inst::kIdVcmppd : Inst::kIdVcmpps, blend = wide_type ? Inst::kIdVblendvpd : Inst::kIdVblendvps;
  const Inst::Id gather = max ? Inst::kIdVandps : Inst::kIdVorps;  // a sign survives if all have it, or if one has it
  if (strip->zmm) {
    const Ymm x = lanes(r.in[0], strip, 0);
    cc_.emit(extreme, acc.sixteen[0], x, acc.sixteen[0]);
    cc_.emit(max ? Inst::kIdVpandd : Inst::kIdVpord, acc.sixteen[1], acc.sixteen[1], x);
    Ymm& pending = pending_[number][0];
    const bool paired = strip->width % 2 == 0;
    if (paired && u % 2 == 0) {
      pending = x;
    } else {
      const KReg nan = cc_.newKw();
      cc_.emit(compare, nan, paired ? pending : x, x, Imm(3));
      cc_.korw(acc.nan, acc.nan, nan);
    }
    return;
  }
  Mask m = mask_of(no_value, strip);
  for (int h = 0; h < (wide_type ? 2 : 1); ++h) {
    Ymm* shared = h ? acc.more : acc.index;
    const Ymm x = lanes(r.in[0], strip, h);
    if (m.any) {
      const Ymm& mask = wide_type ? wide(m, h) : narrow(m);
      const Ymm next = emit2(extreme, x, acc.v[h]), signs = emit2(gather, shared[0], x), nan = emit3(compare, x, x, Imm(3));
      cc_.emit(blend, acc.v[h], acc.v[h], next, mask);
      cc_.emit(blend, shared[0], shared[0], signs, mask);
      cc_.vandps(nan, nan, mask);
      cc_.vorps(shared[1], shared[1], nan);
      continue;
    }
    cc_.emit(extreme, acc.v[h], x, acc.v[h]);  // of NaN and acc: acc
    cc_.emit(gather, shared[0], shared[0], x);
    Ymm& pending = pending_[number][size_t(h)];
    const bool paired = strip->width % 2 == 0;
    if (paired && u % 2 == 0) {
      pending = x;
    } else {
      const Ymm nan = emit3(compare, paired ? pending : x, x, Imm(3));
      cc_.vorps(shared[1], shared[1], nan);
    }
  }
}

void Emitter::finish_extreme(const Instr& r, std::vector<Accumulators>& accs, size_t n) {
  const bool wide_type = is_wide(value_dtype(r)), max = r.kind == Reduce::max;
  const Inst::Id extreme = wide_type ? (max ? Inst::kIdVmaxpd : Inst::kIdVminpd) : (max ? Inst::kIdVmaxps : Inst::kIdVminps);
  for (int h = 0; h < (wide_type ? 2 : 1); ++h) {
    const Ymm v = accs[0][n].v[h];
    for (size_t u = 1; u < accs.size(); ++u) cc_.emit(extreme, v, v, accs[u][n].v[h]);
    Ymm* shared = h ? accs[0][n].more : accs[0][n].index;
    if (const Accumulator& first = accs[0][n]; first.nan.isValid()) {  // their halves join the eights
      const auto join = [&](Inst::Id op, const Ymm& to, const Ymm& sixteen) {
        const Ymm high = cc_.newYmm();
        cc_.vextractf64x4(high, sixteen.as<asmjit::x86::Zmm>(), 1);
        cc_.emit(op, to, to, sixteen.ymm());
        cc_.emit(op, to, to, high);
      };
      for (const Accumulators& each : accs) join(extreme, v, each[n].sixteen[0]);
      join(max ? Inst::kIdVandps : Inst::kIdVorps, shared[0], first.sixteen[1]);
      const Ymm nan = cc_.newZmm().as<Ymm>();
      cc_.vpmovm2d(nan.as<asmjit::x86::Zmm>(), first.nan);
      join(Inst::kIdVorps, shared[1], nan);
    }
    cc_.vandps(shared[0], shared[0], wide_type ? constant64(uint64_t(1) << 63) : constant32(1u << 31));
    const Ymm is_zero = emit3(wide_type ? Inst::kIdVcmppd : Inst::kIdVcmpps, v, zero(), Imm(0));
    cc_.emit(wide_type ? Inst::kIdVblendvpd : Inst::kIdVblendvps, v, v, shared[0], is_zero);
    cc_.vorps(v, v, shared[1]);
  }
}

// ---- lanes ------------------------------------------------------------------------------------------------------------

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

}  // namespace frit::jit::x86_code
