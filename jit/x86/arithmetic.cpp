// Operations on one register of lanes: `binary`, `unary`, comparisons, and the pieces that they are made of. See emitter.h
// for how each type is held.
#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
using asmjit::Imm;

// AVX comparison predicates, quiet.
enum Predicate : int { equal_oq = 0, unordered = 3, unequal_uq = 4, less_oq = 17, less_equal_oq = 18 };

}  // namespace

// ---- small pieces -------------------------------------------------------------------------------------------------

// Names differ where AVX-512 tells the width of the lanes.
Inst::Id Emitter::zmm_form(Inst::Id id) {
  switch (id) {
    case Inst::kIdVpand: return Inst::kIdVpandd;
    case Inst::kIdVpandn: return Inst::kIdVpandnd;
    case Inst::kIdVpor: return Inst::kIdVpord;
    case Inst::kIdVpxor: return Inst::kIdVpxord;
    case Inst::kIdVroundps: return Inst::kIdVrndscaleps;
    default: return id;
  }
}

Ymm Emitter::emit1(Inst::Id id, const Operand& a) {
  const Ymm d = new_lanes();
  cc_.emit(id, d, a);
  return d;
}
Ymm Emitter::emit2(Inst::Id id, const Operand& a, const Operand& b) {
  const Ymm d = new_lanes();
  cc_.emit(zmm_ ? zmm_form(id) : id, d, a, b);
  return d;
}
Ymm Emitter::emit3(Inst::Id id, const Operand& a, const Operand& b, const Operand& c) {
  const Ymm d = new_lanes();
  cc_.emit(id, d, a, b, c);
  return d;
}

Ymm Emitter::move(const Operand& o) { return zmm_ && o.isMem() ? load_constant(o.as<Mem>()) : emit1(Inst::kIdVmovaps, o); }
Ymm Emitter::load_constant(const Mem& m) {
  if (!zmm_) return emit1(Inst::kIdVmovaps, m);
  Mem one = m;
  one.resetBroadcast();
  return emit1(Inst::kIdVbroadcastss, one);
}

// d's lanes of the mask become v's: lanes or a constant. (A blend into a third register would wait for what that held before.)
void Emitter::merge(const Ymm& d, const asmjit::x86::KReg& mask, const Operand& v) {
  if (!v.isMem()) return (void)cc_.k(mask).emit(Inst::kIdVmovaps, d, v);
  Mem one = v.as<Mem>();
  one.resetBroadcast();
  cc_.k(mask).emit(Inst::kIdVbroadcastss, d, one);
}

asmjit::x86::KReg Emitter::mask_register(const Ymm& mask) {
  const asmjit::x86::KReg k = cc_.newKw();
  cc_.vpmovd2m(k, mask);
  return k;
}
Ymm Emitter::from_mask_register(const asmjit::x86::KReg& k) { return emit1(Inst::kIdVpmovm2d, k); }

asmjit::x86::KReg Emitter::compare_to_mask(Prim p, Dtype t, const Ymm& a, const Operand& b) {
  const asmjit::x86::KReg k = cc_.newKw();
  if (t == Dtype::Float32) {
    const int predicate = p == Prim::eq ? equal_oq : p == Prim::ne ? unequal_uq : p == Prim::lt ? less_oq : less_equal_oq;
    cc_.emit(Inst::kIdVcmpps, k, a, b, Imm(predicate));
  } else {  // true is all ones: by unsigned comparison more than false
    const int predicate = p == Prim::eq ? 0 : p == Prim::ne ? 4 : p == Prim::lt ? 1 : 2;
    cc_.emit(t == Dtype::Bool ? Inst::kIdVpcmpud : Inst::kIdVpcmpd, k, a, b, Imm(predicate));
  }
  return k;
}

Ymm Emitter::zero() {
  const Ymm z = new_lanes();
  cc_.emit(zmm_ ? Inst::kIdVpxord : Inst::kIdVpxor, z, z, z);
  return z;
}
Ymm Emitter::ones() {
  const Ymm z = new_lanes();
  if (zmm_) cc_.emit(Inst::kIdVpternlogd, z, z, z, Imm(0xff));
  else cc_.vpcmpeqd(z, z, z);
  return z;
}
void Emitter::invert(const Ymm& v) { cc_.vpxor(v, v, constant32(~0u)); }

Mem Emitter::constant_float(double v, Dtype d) {
  if (d == Dtype::Float64) return constant64(std::bit_cast<uint64_t>(v));
  return constant32(std::bit_cast<uint32_t>(float(v)));
}

// Brings the lanes of a narrow integer type back into its range.
void Emitter::wrap(const Ymm& v, Dtype t) {
  switch (t) {
    case Dtype::UInt8: cc_.emit(zmm_ ? Inst::kIdVpandd : Inst::kIdVpand, v, v, constant32(0xff)); break;
    case Dtype::Int8: cc_.vpslld(v, v, 24), cc_.vpsrad(v, v, 24); break;
    case Dtype::Int16: cc_.vpslld(v, v, 16), cc_.vpsrad(v, v, 16); break;
    default: break;
  }
}

Ymm Emitter::pack(const Ymm& low, const Ymm& high) {
  const Ymm d = emit3(Inst::kIdVshufps, low, high, Imm(0x88));
  cc_.vpermq(d, d, 0xd8);
  return d;
}

Ymm Emitter::widen(const Ymm& v, int half) {
  const Ymm d = cc_.newYmm();
  if (half == 0) {
    cc_.vpmovsxdq(d, v.xmm());
  } else {
    cc_.vextracti128(d.xmm(), v, 1);
    cc_.vpmovsxdq(d, d.xmm());
  }
  return d;
}

void Emitter::widen(const Ymm& v, Ymm& low, Ymm& high) { low = widen(v, 0), high = widen(v, 1); }

Ymm Emitter::blend(const Ymm& a, const Operand& b, const Ymm& mask) {
  if (!zmm_) return emit3(Inst::kIdVblendvps, a, b, mask);
  const Ymm d = move(a);
  merge(d, mask_register(mask), b);
  return d;
}
Ymm Emitter::blend_wide(const Ymm& a, const Operand& b, const Ymm& mask) { return emit3(Inst::kIdVblendvpd, a, b, mask); }

// Lane 0 to a general register. Not by vmovd and vmovq: AsmJit makes invalid instructions of them when it has spilled the
// source.
void Emitter::low_word(const Gp& d, const Ymm& from) {
  if (d.size() == 8) cc_.vpextrq(d, from.xmm(), 0);
  else cc_.vpextrd(d, from.xmm(), 0);
}

// ---- one operation on one register ----------------------------------------------------------------------------------

Ymm Emitter::binary(Prim p, Dtype t, const Ymm& a, const Operand& b) {
  const bool wide = t == Dtype::Float64;
  if (!is_floating(t)) return t == Dtype::Int64 ? binary64(p, a, b) : binary32(p, t, a, b);
  switch (p) {
    case Prim::add: return emit2(wide ? Inst::kIdVaddpd : Inst::kIdVaddps, a, b);
    case Prim::sub: return emit2(wide ? Inst::kIdVsubpd : Inst::kIdVsubps, a, b);
    case Prim::mul: return emit2(wide ? Inst::kIdVmulpd : Inst::kIdVmulps, a, b);
    case Prim::div: return emit2(wide ? Inst::kIdVdivpd : Inst::kIdVdivps, a, b);
    case Prim::min: return emit2(wide ? Inst::kIdVminpd : Inst::kIdVminps, a, b);
    case Prim::max: return emit2(wide ? Inst::kIdVmaxpd : Inst::kIdVmaxps, a, b);
    default: throw std::runtime_error("block program " + p_.name + ": no float code for " + scalar::prim_name(p));
  }
}

Ymm Emitter::binary32(Prim p, Dtype t, const Ymm& a, const Operand& b) {
  const bool mask = t == Dtype::Bool;
  Ymm d;
  switch (p) {
    case Prim::add: d = emit2(Inst::kIdVpaddd, a, b); break;
    case Prim::sub: d = emit2(Inst::kIdVpsubd, a, b); break;
    case Prim::mul: d = emit2(Inst::kIdVpmulld, a, b); break;
    case Prim::min: return emit2(mask ? Inst::kIdVpand : Inst::kIdVpminsd, a, b);
    case Prim::max: return emit2(mask ? Inst::kIdVpor : Inst::kIdVpmaxsd, a, b);
    case Prim::bit_and: return emit2(Inst::kIdVpand, a, b);
    case Prim::bit_or: return emit2(Inst::kIdVpor, a, b);
    case Prim::bit_xor: return emit2(Inst::kIdVpxor, a, b);
    case Prim::shl: case Prim::shr: case Prim::ushr: return shift32(p, t, a, b);
    case Prim::div: case Prim::rem: return divide32(p, t, a, b.isMem() ? load_constant(b.as<Mem>()) : b.as<Ymm>());
    case Prim::mulhi_u32: return multiply_high(a, b);
    default: throw std::runtime_error("block program " + p_.name + ": no integer code for " + scalar::prim_name(p));
  }
  wrap(d, t);
  return d;
}

Ymm Emitter::shift32(Prim p, Dtype t, const Ymm& a, const Operand& b) {
  const Ymm count = move(b);
  cc_.emit(zmm_ ? Inst::kIdVpandd : Inst::kIdVpand, count, count, constant32(31));
  Ymm d;
  if (p == Prim::shl) d = emit2(Inst::kIdVpsllvd, a, count);
  else if (p == Prim::shr) d = emit2(Inst::kIdVpsravd, a, count);
  else d = emit2(Inst::kIdVpsrlvd, as_unsigned(a, t), count);
  wrap(d, t);
  return d;
}

// The lanes of a narrow signed type as its bits without a sign.
Ymm Emitter::as_unsigned(const Ymm& a, Dtype t) {
  return t == Dtype::Int16 || t == Dtype::Int8 ? emit2(Inst::kIdVpand, a, constant32(t == Dtype::Int16 ? 0xffff : 0xff)) : a;
}

// By a count known now. Not valid where AVX2 has no such shift.
Ymm Emitter::shift_by(Prim p, Dtype t, const Ymm& a, uint64_t count) {
  Ymm d;
  if (t == Dtype::Int64) {
    if (p == Prim::shr) return d;
    return emit2(p == Prim::shl ? Inst::kIdVpsllq : Inst::kIdVpsrlq, a, Imm(count & 63));
  }
  if (p == Prim::shl) d = emit2(Inst::kIdVpslld, a, Imm(count & 31));
  else if (p == Prim::shr) d = emit2(Inst::kIdVpsrad, a, Imm(count & 31));
  else d = emit2(Inst::kIdVpsrld, as_unsigned(a, t), Imm(count & 31));
  wrap(d, t);
  return d;
}

// 32-bit quotients are exact in double: a non-integer quotient differs from an integer by more than a rounding.
Ymm Emitter::divide32(Prim p, Dtype t, const Ymm& a, const Ymm& b) {
  const Ymm by_zero = emit2(Inst::kIdVpcmpeqd, b, zero());
  Ymm q[2];
  for (int h = 0; h < 2; ++h) {
    const Ymm x = cc_.newYmm(), y = cc_.newYmm();
    if (h == 0) {
      cc_.vcvtdq2pd(x, a.xmm()), cc_.vcvtdq2pd(y, b.xmm());
    } else {
      cc_.vextracti128(x.xmm(), a, 1), cc_.vextracti128(y.xmm(), b, 1);
      cc_.vcvtdq2pd(x, x.xmm()), cc_.vcvtdq2pd(y, y.xmm());
    }
    cc_.vdivpd(x, x, y);
    cc_.vcvttpd2dq(x.xmm(), x);
    q[h] = x;
  }
  Ymm d = cc_.newYmm();
  cc_.vinserti128(d, q[0], q[1].xmm(), 1);
  if (p == Prim::rem) {
    cc_.vpmulld(d, d, b);
    cc_.vpsubd(d, a, d);
  }
  cc_.vpandn(d, by_zero, d);
  wrap(d, t);
  return d;
}

// A constant has the same word everywhere.
Ymm Emitter::multiply_high(const Ymm& a, const Operand& b) {
  Operand by = b, by_upper = b;
  if (!b.isMem()) by_upper = emit2(Inst::kIdVpsrlq, b, Imm(32));
  else if (zmm_) by = by_upper = pair_of(b.as<Mem>());
  const Ymm even = emit2(Inst::kIdVpmuludq, a, by), odd = emit2(Inst::kIdVpsrlq, a, Imm(32));
  cc_.emit(Inst::kIdVpmuludq, odd, odd, by_upper);
  cc_.emit(Inst::kIdVpsrlq, even, even, Imm(32));
  if (!zmm_) return emit3(Inst::kIdVpblendd, even, odd, Imm(0xaa));
  cc_.emit(Inst::kIdVpternlogq, even, odd, pair_of(constant64(uint64_t(0xffffffff) << 32)), Imm(0xd8));  // where the mask is set, odd
  return even;
}

Ymm Emitter::multiply64(const Ymm& a, const Operand& b) {
  const Ymm y = b.isMem() ? load_constant(b.as<Mem>()) : b.as<Ymm>();
  const Ymm cross = emit2(Inst::kIdVpsrlq, a, Imm(32)), other = emit2(Inst::kIdVpsrlq, y, Imm(32));
  cc_.vpmuludq(cross, cross, y);
  cc_.vpmuludq(other, other, a);
  cc_.vpaddq(cross, cross, other);
  cc_.vpsllq(cross, cross, 32);
  const Ymm low = emit2(Inst::kIdVpmuludq, a, y);
  cc_.vpaddq(low, low, cross);
  return low;
}

Ymm Emitter::binary64(Prim p, const Ymm& a, const Operand& b) {
  const auto shift_count = [&] {
    const Ymm c = move(b);
    cc_.vpand(c, c, constant64(63));
    return c;
  };
  switch (p) {
    case Prim::add: return emit2(Inst::kIdVpaddq, a, b);
    case Prim::sub: return emit2(Inst::kIdVpsubq, a, b);
    case Prim::mul: return multiply64(a, b);
    case Prim::bit_and: return emit2(Inst::kIdVpand, a, b);
    case Prim::bit_or: return emit2(Inst::kIdVpor, a, b);
    case Prim::bit_xor: return emit2(Inst::kIdVpxor, a, b);
    case Prim::min: return blend_wide(a, b, emit2(Inst::kIdVpcmpgtq, a, b));
    case Prim::max: {
      const Ymm y = move(b);
      return blend_wide(y, a, emit2(Inst::kIdVpcmpgtq, a, y));
    }
    case Prim::shl: return emit2(Inst::kIdVpsllvq, a, shift_count());
    case Prim::ushr: return emit2(Inst::kIdVpsrlvq, a, shift_count());
    case Prim::shr: {  // ((a >>> n) ^ m) - m with m the moved sign bit
      const Ymm n = shift_count();
      const Ymm sign = load_constant(constant64(uint64_t(1) << 63));
      cc_.vpsrlvq(sign, sign, n);
      const Ymm d = emit2(Inst::kIdVpsrlvq, a, n);
      cc_.vpxor(d, d, sign);
      cc_.vpsubq(d, d, sign);
      return d;
    }
    default: throw std::runtime_error("block program " + p_.name + ": no integer code for " + scalar::prim_name(p));
  }
}

Ymm Emitter::unary(Prim p, Dtype t, const Ymm& a) {
  const bool wide = is_wide(t);
  if (is_floating(t)) {
    const auto round = [&](int mode) { return emit2(wide ? Inst::kIdVroundpd : Inst::kIdVroundps, a, Imm(8 | mode)); };
    switch (p) {
      case Prim::neg: return emit2(Inst::kIdVxorps, a, wide ? constant64(uint64_t(1) << 63) : constant32(1u << 31));
      case Prim::abs: return emit2(Inst::kIdVandps, a, wide ? constant64(~(uint64_t(1) << 63)) : constant32(~(1u << 31)));
      case Prim::sqrt: return emit1(wide ? Inst::kIdVsqrtpd : Inst::kIdVsqrtps, a);
      case Prim::rint: return round(0);
      case Prim::floor: return round(1);
      case Prim::ceil: return round(2);
      case Prim::trunc: return round(3);
      case Prim::round_float16: return rounded_float16(a);
      case Prim::round_bfloat16: return rounded_bfloat16(a);
      default: break;
    }
  } else {
    Ymm d;
    switch (p) {
      case Prim::neg: d = emit2(wide ? Inst::kIdVpsubq : Inst::kIdVpsubd, zero(), a); break;
      case Prim::abs:
        if (wide) {
          const Ymm sign = emit2(Inst::kIdVpcmpgtq, zero(), a);
          d = emit2(Inst::kIdVpxor, a, sign);
          cc_.vpsubq(d, d, sign);
        } else {
          d = emit1(Inst::kIdVpabsd, a);
        }
        break;
      case Prim::bit_not: d = emit2(Inst::kIdVpxor, a, constant32(~0u)); break;
      case Prim::floor: case Prim::ceil: case Prim::trunc: case Prim::rint: return move(a);
      default: break;
    }
    if (d.isValid()) {
      wrap(d, t);
      return d;
    }
  }
  throw std::runtime_error("block program " + p_.name + ": no code for " + scalar::prim_name(p));
}

Ymm Emitter::rounded_float16(const Ymm& a) {
  if (zmm_) {
    const Ymm words = cc_.newYmm();
    cc_.vcvtps2ph(words, a.as<asmjit::x86::Zmm>(), 0);
    return emit1(Inst::kIdVcvtph2ps, words);
  }
  const Xmm words = cc_.newXmm();
  cc_.vcvtps2ph(words, a, 0);
  return emit1(Inst::kIdVcvtph2ps, words);
}

// To nearest even by integers: half a unit less one is added, and one more where the last kept bit is set. NaN becomes one whose lower half is zero.
Ymm Emitter::rounded_bfloat16(const Ymm& a) {
  if (!zmm_) {
    Ymm sum = emit2(Inst::kIdVpsrld, a, Imm(16));
    sum = emit2(Inst::kIdVpand, sum, constant32(1));
    cc_.vpaddd(sum, sum, constant32(0x7fff));
    cc_.vpaddd(sum, sum, a);
    cc_.vpand(sum, sum, constant32(0xffff0000));
    return blend(sum, constant32(0x7fc00000), emit3(Inst::kIdVcmpps, a, a, Imm(3)));
  }
  const asmjit::x86::KReg number = cc_.newKw();
  const Ymm sum = bfloat16_sum(a, number), d = load_constant(constant32(0x7fc00000));
  cc_.k(number).emit(Inst::kIdVpandd, d, sum, constant32(0xffff0000));
  return d;
}

// 16 lanes: the bits whose upper halves are the rounded values, where `number` says that they are.
Ymm Emitter::bfloat16_sum(const Ymm& a, const asmjit::x86::KReg& number) {
  const asmjit::x86::KReg odd = cc_.newKw();
  cc_.emit(Inst::kIdVptestmd, odd, a, constant32(0x10000));
  const Ymm sum = emit2(Inst::kIdVpaddd, a, constant32(0x7fff));
  cc_.k(odd).emit(Inst::kIdVpaddd, sum, sum, constant32(1));
  cc_.emit(Inst::kIdVcmpps, number, a, a, Imm(7));
  return sum;
}

Ymm Emitter::compare32(Prim p, Dtype t, const Ymm& a, const Operand& b) {
  if (t == Dtype::Float32) {
    const int predicate = p == Prim::eq ? equal_oq : p == Prim::ne ? unequal_uq : p == Prim::lt ? less_oq : less_equal_oq;
    return emit3(Inst::kIdVcmpps, a, b, Imm(predicate));
  }
  Ymm d;
  if (p == Prim::eq || p == Prim::ne) {
    d = emit2(Inst::kIdVpcmpeqd, a, b);
    if (p == Prim::ne) invert(d);
  } else if (t == Dtype::Bool) {  // lt: not a and b; le: not a or b
    d = emit2(Inst::kIdVpandn, a, b);
    if (p == Prim::le) {
      const Ymm both = emit2(Inst::kIdVpcmpeqd, a, b);
      cc_.vpor(d, d, both);
    }
  } else if (p == Prim::le) {
    d = emit2(Inst::kIdVpcmpgtd, a, b);
    invert(d);
  } else {
    d = emit2(Inst::kIdVpcmpgtd, b.isMem() ? load_constant(b.as<Mem>()) : b.as<Ymm>(), a);
  }
  return d;
}

Ymm Emitter::compare64(Prim p, Dtype t, const Ymm& a, const Operand& b) {
  if (t == Dtype::Float64) {
    const int predicate = p == Prim::eq ? equal_oq : p == Prim::ne ? unequal_uq : p == Prim::lt ? less_oq : less_equal_oq;
    return emit3(Inst::kIdVcmppd, a, b, Imm(predicate));
  }
  Ymm d;
  if (p == Prim::eq || p == Prim::ne) d = emit2(Inst::kIdVpcmpeqq, a, b);
  else if (p == Prim::le) d = emit2(Inst::kIdVpcmpgtq, a, b);
  else d = emit2(Inst::kIdVpcmpgtq, b.isMem() ? load_constant(b.as<Mem>()) : b.as<Ymm>(), a);
  if (p == Prim::ne || p == Prim::le) invert(d);
  return d;
}

}  // namespace frit::jit::x86_code
