// Conversions between types, and the 64-bit operations that AVX2 lacks: where all lanes are small enough they go through
// double, else lane by lane. Start with emit_convert.
#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
using asmjit::Imm;
using asmjit::x86::ptr;
// 1.5 * 2^52: adding it to a double of magnitude below 2^51 leaves the integer in the low bits.
constexpr uint64_t magic = 0x4338000000000000;
constexpr double limit = 0x1p51;
}  // namespace

// Exact up to one rounding, for all of Int64: the halves are doubles with known exponents.
Ymm Emitter::int64_to_float64(const Ymm& v) {
  const Ymm high = emit2(Inst::kIdVpsrlq, v, Imm(32));
  cc_.vpxor(high, high, constant64(0x4530000080000000));
  const Ymm low = emit3(Inst::kIdVpblendd, v, constant64(0x4330000000000000), Imm(0xaa));
  cc_.vsubpd(high, high, constant64(0x4530000080100000));
  cc_.vaddpd(high, high, low);
  return high;
}

void Emitter::emit_convert(Id v, Level* l) {
  const Instr& i = instr(v);
  const Id a = i.in[0];
  const Dtype from = instr(a).dtype, to = i.dtype;
  if (to == Dtype::Bool && from != Dtype::Bool) return convert_to_bool(v, l);
  if (from == Dtype::Int64 && l->kind != LevelKind::strip) return convert_uniform_integer(v, l);
  if (to == Dtype::Int64) return convert_to_int64(v, l);
  if (is_wide(from) && to != Dtype::Float64) return convert_narrow(v, l);
  Ymm out[2];
  if (from == to) {
    for (int h = 0; h < halves(to, l); ++h) out[h] = own(a, l, h);
  } else if (from == Dtype::Int64) {  // to Float64
    for (int h = 0; h < 2; ++h) out[h] = int64_to_float64(lanes(a, l, h));
  } else {
    Ymm x = lanes(a, l);
    if (from == Dtype::Bool) x = emit2(Inst::kIdVpsrld, x, Imm(31));
    if (to == Dtype::Float64) {
      for (int h = 0; h < halves(to, l); ++h) {
        Ymm part = x;
        if (h == 1) {
          part = cc_.newYmm();
          cc_.vextracti128(part.xmm(), x, 1);
        }
        out[h] = emit1(from == Dtype::Float32 ? Inst::kIdVcvtps2pd : Inst::kIdVcvtdq2pd, part.xmm());
      }
    } else if (to == Dtype::Float32) {
      out[0] = emit1(Inst::kIdVcvtdq2ps, x);
    } else {
      out[0] = from == Dtype::Float32 ? emit1(Inst::kIdVcvttps2dq, x) : move(x);
      wrap(out[0], to);
    }
  }
  Rep& r = new_rep(v, l);
  r.v[0] = out[0], r.v[1] = out[1];
}

void Emitter::convert_to_bool(Id v, Level* l) {
  const Id a = instr(v).in[0];
  const Dtype from = instr(a).dtype;
  if (from == Dtype::Int64 && l->kind != LevelKind::strip) {
    const Gp flag = cc_.newGpd(), x = gp(a, l);
    cc_.xor_(flag, flag);
    cc_.test(x, x);
    cc_.setne(flag.r8());
    cc_.neg(flag);
    const Ymm m = cc_.newYmm();
    cc_.vmovd(m.xmm(), flag);
    cc_.vpbroadcastd(m, m.xmm());
    new_rep(v, l).v[0] = m;
    return;
  }
  if (l->zmm) {
    const asmjit::x86::KReg k = compare_to_mask(Prim::ne, from, lanes(a, l), zero());
    new_rep(v, l).mask = k;
    return;
  }
  Ymm out[2];
  for (int h = 0; h < halves(from, l); ++h) {
    const Ymm x = lanes(a, l, h);
    out[h] = is_wide(from) ? compare64(Prim::ne, from, x, zero()) : compare32(Prim::ne, from, x, zero());
  }
  Rep& r = new_rep(v, l);
  if (is_wide(from) && l->kind == LevelKind::strip) r.wide[0] = out[0], r.wide[1] = out[1];
  else r.v[0] = out[0];
}

void Emitter::convert_uniform_integer(Id v, Level* l) {
  const Dtype to = instr(v).dtype;
  const Gp x = gp(instr(v).in[0], l);
  if (to == Dtype::Int64) {
    const Gp g = cc_.newGpq();
    cc_.mov(g, x);
    new_rep(v, l).g = g;
    return;
  }
  const Ymm d = cc_.newYmm();
  if (is_floating(to)) {
    cc_.vxorps(d.xmm(), d.xmm(), d.xmm());
    if (to == Dtype::Float64) {
      cc_.vcvtsi2sd(d.xmm(), d.xmm(), x);
      cc_.vbroadcastsd(d, d.xmm());
    } else {
      cc_.vcvtsi2ss(d.xmm(), d.xmm(), x);
      cc_.vbroadcastss(d, d.xmm());
    }
  } else {
    cc_.vmovd(d.xmm(), x.r32());
    cc_.vpbroadcastd(d, d.xmm());
    wrap(d, to);
  }
  new_rep(v, l).v[0] = d;
}

// From Int64 lanes or Float64 to Float32 and integers of up to 32 bits.
void Emitter::convert_narrow(Id v, Level* l) {
  const Id a = instr(v).in[0];
  const Dtype from = instr(a).dtype, to = instr(v).dtype;
  Ymm out;
  if (from == Dtype::Float64) {
    const Inst::Id id = to == Dtype::Float32 ? Inst::kIdVcvtpd2ps : Inst::kIdVcvttpd2dq;
    out = cc_.newYmm();
    cc_.emit(id, out.xmm(), lanes(a, l, 0));
    if (l->kind == LevelKind::strip) {
      const Ymm high = cc_.newYmm();
      cc_.emit(id, high.xmm(), lanes(a, l, 1));
      cc_.vinserti128(out, out, high.xmm(), 1);
    } else {
      cc_.vpbroadcastd(out, out.xmm());
    }
    wrap(out, to);
  } else if (to != Dtype::Float32) {
    out = pack(lanes(a, l, 0), lanes(a, l, 1));
    wrap(out, to);
  } else {
    // Through double rounds twice once an integer has more than 53 bits.
    const Label slow = cc_.newLabel(), done = cc_.newLabel();
    Ymm x[2] = {lanes(a, l, 0), lanes(a, l, 1)};
    const Ymm low = emit2(Inst::kIdVpaddq, x[0], constant64(uint64_t(1) << 51));
    const Ymm high = emit2(Inst::kIdVpaddq, x[1], constant64(uint64_t(1) << 51));
    cc_.vpor(low, low, high);
    cc_.vptest(low, constant64(0xfff0000000000000));
    out = cc_.newYmm();
    cc_.jnz(slow);
    {
      const Ymm p = int64_to_float64(x[0]), q = int64_to_float64(x[1]);
      cc_.vcvtpd2ps(out.xmm(), p);
      cc_.vcvtpd2ps(q.xmm(), q);
      cc_.vinserti128(out, out, q.xmm(), 1);
    }
    cc_.jmp(done);
    cc_.bind(slow);
    store_memory(slot(0), {Dtype::Int64}, x);
    const Gp bits = cc_.newGpd();
    cc_.mov(bits, 0xff);
    lane_loop(bits, [&](const Gp& lane) {
      const Xmm one = cc_.newXmm();
      Mem from_lane = slot(0), to_lane = slot(1);
      from_lane.setIndex(lane, 3), to_lane.setIndex(lane, 2);
      cc_.vxorps(one, one, one);
      cc_.vcvtsi2ss(one, one, sized(from_lane, 8));
      cc_.vmovss(sized(to_lane, 4), one);
    });
    cc_.vmovups(out, sized(slot(1), 32));
    cc_.bind(done);
  }
  new_rep(v, l).v[0] = out;
}

void Emitter::convert_to_int64(Id v, Level* l) {
  const Id a = instr(v).in[0];
  const Dtype from = instr(a).dtype;
  Ymm x[2];
  if (l->kind != LevelKind::strip) {
    x[0] = lanes(a, l);
    const Gp g = cc_.newGpq();
    if (from == Dtype::Float64) {
      cc_.vcvttsd2si(g, x[0].xmm());
    } else if (from == Dtype::Float32) {
      cc_.vcvttss2si(g, x[0].xmm());
    } else {
      low_word(g.r32(), x[0]);
      if (from == Dtype::Bool) cc_.neg(g.r32());
      cc_.movsxd(g, g.r32());
    }
    new_rep(v, l).g = g;
    return;
  }
  Ymm out[2];
  if (!is_floating(from)) {
    x[0] = from == Dtype::Int64 ? lanes(a, l, 0) : lanes(a, l);
    if (from == Dtype::Int64) {
      out[0] = move(x[0]), out[1] = move(lanes(a, l, 1));
    } else {
      if (from == Dtype::Bool) x[0] = emit2(Inst::kIdVpsrld, x[0], Imm(31));
      widen(x[0], out[0], out[1]);
    }
    Rep& r = new_rep(v, l);
    r.v[0] = out[0], r.v[1] = out[1];
    return;
  }
  for (int h = 0; h < 2; ++h) {
    if (from == Dtype::Float64) {
      x[h] = lanes(a, l, h);
    } else {
      x[h] = cc_.newYmm();
      const Ymm all = lanes(a, l);
      if (h == 0) {
        cc_.vcvtps2pd(x[h], all.xmm());
      } else {
        cc_.vextractf128(x[h].xmm(), all, 1);
        cc_.vcvtps2pd(x[h], x[h].xmm());
      }
    }
    out[h] = cc_.newYmm();
  }
  const Label slow = cc_.newLabel(), done = cc_.newLabel();
  const Ymm in_range = emit2(Inst::kIdVandpd, x[0], constant64(~(uint64_t(1) << 63)));
  const Ymm in_range_high = emit2(Inst::kIdVandpd, x[1], constant64(~(uint64_t(1) << 63)));
  cc_.vcmppd(in_range, in_range, constant_float(limit, Dtype::Float64), 17);
  cc_.vcmppd(in_range_high, in_range_high, constant_float(limit, Dtype::Float64), 17);
  cc_.vandpd(in_range, in_range, in_range_high);
  const Gp bits = cc_.newGpd();
  cc_.vmovmskpd(bits, in_range);
  cc_.cmp(bits, 15);
  cc_.jne(slow);
  for (int h = 0; h < 2; ++h) {
    cc_.vroundpd(out[h], x[h], 8 | 3);
    cc_.vaddpd(out[h], out[h], constant64(magic));
    cc_.vpsubq(out[h], out[h], constant64(magic));
  }
  cc_.jmp(done);
  cc_.bind(slow);
  store_memory(slot(0), {Dtype::Float64}, x);
  cc_.mov(bits, 0xff);
  lane_loop(bits, [&](const Gp& lane) {
    const Gp g = cc_.newGpq();
    Mem at = slot(0);
    at.setIndex(lane, 3);
    cc_.vcvttsd2si(g, sized(at, 8));
    cc_.mov(sized(at, 8), g);
  });
  cc_.vmovups(out[0], sized(slot(0), 32));
  cc_.vmovups(out[1], sized(slot(0).cloneAdjusted(32), 32));
  cc_.bind(done);
  Rep& r = new_rep(v, l);
  r.v[0] = out[0], r.v[1] = out[1];
}

// Int64 quotient or remainder of a strip. Dividends below 2^51 have exact quotients in double.
void Emitter::emit_divide64(Id v, Level* l) {
  const Instr& i = instr(v);
  Ymm a[2], b[2], out[2];
  for (int h = 0; h < 2; ++h) a[h] = lanes(i.in[0], l, h), b[h] = lanes(i.in[1], l, h), out[h] = cc_.newYmm();
  const Label slow = cc_.newLabel(), done = cc_.newLabel();
  const Ymm range = emit2(Inst::kIdVpaddq, a[0], constant64(uint64_t(1) << 51));
  for (const Ymm& x : {a[1], b[0], b[1]}) cc_.vpor(range, range, emit2(Inst::kIdVpaddq, x, constant64(uint64_t(1) << 51)));
  cc_.vptest(range, constant64(0xfff0000000000000));
  cc_.jnz(slow);
  for (int h = 0; h < 2; ++h) {
    const Ymm x = emit2(Inst::kIdVpaddq, a[h], constant64(magic)), y = emit2(Inst::kIdVpaddq, b[h], constant64(magic));
    cc_.vsubpd(x, x, constant64(magic));
    cc_.vsubpd(y, y, constant64(magic));
    cc_.vdivpd(x, x, y);
    cc_.vroundpd(x, x, 8 | 3);
    cc_.vaddpd(x, x, constant64(magic));
    cc_.vpsubq(out[h], x, constant64(magic));
    if (i.prim == Prim::rem) {
      const Ymm product = multiply64(out[h], b[h]);
      cc_.vpsubq(out[h], a[h], product);
    }
    const Ymm by_zero = emit2(Inst::kIdVpcmpeqq, b[h], zero());
    cc_.vpandn(out[h], by_zero, out[h]);
  }
  cc_.jmp(done);
  cc_.bind(slow);
  store_memory(slot(0), {Dtype::Int64}, a);
  store_memory(slot(1), {Dtype::Int64}, b);
  const Gp bits = cc_.newGpd();
  cc_.mov(bits, 0xff);
  lane_loop(bits, [&](const Gp& lane) {
    Mem x = slot(0), y = slot(1);
    x.setIndex(lane, 3), y.setIndex(lane, 3);
    const Gp p = cc_.newGpq(), q = cc_.newGpq();
    cc_.mov(p, sized(x, 8));
    cc_.mov(q, sized(y, 8));
    cc_.mov(sized(x, 8), divide(p, q, i.prim == Prim::rem));
  });
  cc_.vmovups(out[0], sized(slot(0), 32));
  cc_.vmovups(out[1], sized(slot(0).cloneAdjusted(32), 32));
  cc_.bind(done);
  Rep& r = new_rep(v, l);
  r.v[0] = out[0], r.v[1] = out[1];
}

}  // namespace frit::jit::x86_code
