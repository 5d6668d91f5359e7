// Scalar primitives as instructions of a program: operands are fetched, registers chosen, one or two halves computed.
// Start with emit_scalar.
#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
using asmjit::x86::ptr;

bool commutes(Prim p) {
  return p == Prim::add || p == Prim::mul || p == Prim::bit_and || p == Prim::bit_or || p == Prim::bit_xor || p == Prim::eq ||
         p == Prim::ne || p == Prim::mulhi_u32;
}
}  // namespace

void Emitter::emit_scalar(Id v, Level* l) {
  const Instr& i = instr(v);
  if (i.prim == Prim::constant) {
    const Ymm c = load_constant(constant_of(v));
    new_rep(v, l).v[0] = c;
    return;
  }
  if (l->zmm && is_index_use(v, l->axis)) return count_operands(v, l), emit_index_use(v, l);
  if (emit_scaling(v, l)) return;
  for (Id in : i.in)
    if (in != no_value && !is_constant(in)) rep(in, l);
  count_operands(v, l);
  switch (i.prim) {
    case Prim::fma: return emit_fma(v, l);
    case Prim::eq: case Prim::ne: case Prim::lt: case Prim::le: return emit_compare(v, l);
    case Prim::select: return emit_select(v, l);
    case Prim::convert: return emit_convert(v, l);
    case Prim::bitcast: return emit_bitcast(v, l);
    case Prim::table: return emit_table(v, l);
    default: break;
  }
  if (i.prim == Prim::div && emit_quotient(v, l)) return;
  if (i.dtype == Dtype::Int64 && (i.prim == Prim::div || i.prim == Prim::rem)) return emit_divide64(v, l);
  Ymm out[2];
  for (int h = 0; h < halves(i.dtype, l); ++h) {
    if (scalar::prim_arity(i.prim) == 1) {
      out[h] = unary(i.prim, i.dtype, lanes(i.in[0], l, h));
      continue;
    }
    Id a = i.in[0], b = i.in[1];
    if (commutes(i.prim) && is_constant(a) && !is_constant(b)) std::swap(a, b);
    const Ymm left = lanes(a, l, h);
    const bool shift = i.prim == Prim::shl || i.prim == Prim::shr || i.prim == Prim::ushr;
    if (shift && is_constant(b)) out[h] = shift_by(i.prim, i.dtype, left, instr(b).imm);
    if (!out[h].isValid()) out[h] = binary(i.prim, i.dtype, left, source(b, l, h));
  }
  Rep& r = new_rep(v, l);
  r.v[0] = out[0], r.v[1] = out[1];
}

// One operand's register is overwritten: best one that is not needed any more. A constant stays in memory, or is loaded
// into the register that is overwritten.
void Emitter::emit_fma(Id v, Level* l) {
  const Instr& i = instr(v);
  const int wide = i.dtype == Dtype::Float64;
  static constexpr Inst::Id multiply_by_memory[] = {Inst::kIdVfmadd132ps, Inst::kIdVfmadd132pd};
  static constexpr Inst::Id add_memory[] = {Inst::kIdVfmadd213ps, Inst::kIdVfmadd213pd};
  static constexpr Inst::Id accumulate[] = {Inst::kIdVfmadd231ps, Inst::kIdVfmadd231pd};
  Id a = i.in[0], b = i.in[1];
  const Id c = i.in[2];
  if (is_constant(a) || (!is_constant(b) && !dies(a, l) && dies(b, l))) std::swap(a, b);
  const bool add_dies = !is_constant(c) && dies(c, l) && c != a && c != b;
  const bool factor_dies = !is_constant(a) && dies(a, l) && a != b && a != c;
  Ymm out[2];
  for (int h = 0; h < halves(i.dtype, l); ++h) {
    if (add_dies && !factor_dies && !is_constant(a)) {
      out[h] = lanes(c, l, h);
      cc_.emit(accumulate[wide], out[h], lanes(a, l, h), source(b, l, h));
    } else if (is_constant(b) && factor_dies && !is_constant(c)) {
      out[h] = lanes(a, l, h);
      cc_.emit(multiply_by_memory[wide], out[h], lanes(c, l, h), source(b, l, h));
    } else if (is_constant(b) || !factor_dies) {
      out[h] = move(source(b, l, h));
      cc_.emit(add_memory[wide], out[h], lanes(a, l, h), source(c, l, h));
    } else {
      out[h] = lanes(a, l, h);
      cc_.emit(add_memory[wide], out[h], lanes(b, l, h), source(c, l, h));
    }
  }
  Rep& r = new_rep(v, l);
  r.v[0] = out[0], r.v[1] = out[1];
}

void Emitter::emit_compare(Id v, Level* l) {
  const Instr& i = instr(v);
  const Dtype t = instr(i.in[0]).dtype;
  const bool strip = l->kind == LevelKind::strip;
  if (t == Dtype::Int64 && !strip) {
    const Gp flag = cc_.newGpd();
    const Gp a = gp(i.in[0], l), b = gp(i.in[1], l);
    cc_.xor_(flag, flag);
    cc_.cmp(a, b);
    if (i.prim == Prim::eq) cc_.sete(flag.r8());
    else if (i.prim == Prim::ne) cc_.setne(flag.r8());
    else if (i.prim == Prim::lt) cc_.setl(flag.r8());
    else cc_.setle(flag.r8());
    cc_.neg(flag);
    const Ymm m = cc_.newYmm();
    cc_.vmovd(m.xmm(), flag);
    cc_.vpbroadcastd(m, m.xmm());
    new_rep(v, l).v[0] = m;
    return;
  }
  Id a = i.in[0], b = i.in[1];
  if (commutes(i.prim) && is_constant(a) && !is_constant(b)) std::swap(a, b);
  if (l->zmm) {
    const asmjit::x86::KReg k = compare_to_mask(i.prim, t, lanes(a, l), source(b, l));
    new_rep(v, l).mask = k;
    return;
  }
  Ymm out[2];
  for (int h = 0; h < halves(t, l); ++h) {
    const Ymm left = lanes(a, l, h);
    const Operand right = source(b, l, h);
    out[h] = is_wide(t) ? compare64(i.prim, t, left, right) : compare32(i.prim, t, left, right);
  }
  Rep& r = new_rep(v, l);
  if (is_wide(t) && strip) r.wide[0] = out[0], r.wide[1] = out[1];
  else r.v[0] = out[0];
}

void Emitter::emit_select(Id v, Level* l) {
  const Instr& i = instr(v);
  const Id c = i.in[0], a = i.in[1], b = i.in[2];
  if (i.dtype == Dtype::Int64 && l->kind != LevelKind::strip) {
    const Ymm mask = lanes(c, l);
    const Gp x = gp(a, l), y = gp(b, l), flag = cc_.newGpd(), g = cc_.newGpq();
    cc_.vmovmskps(flag, mask);
    cc_.mov(g, y);
    cc_.test(flag, flag);
    cc_.cmovnz(g, x);
    new_rep(v, l).g = g;
    return;
  }
  if (l->zmm) {
    const asmjit::x86::KReg k = mask_register(c, l);
    const Operand yes = source(a, l);  // may emit
    Ymm d;
    if (is_constant(b) && instr(b).imm == 0 && yes.isReg()) {
      d = new_lanes();
      cc_.k(k).z().emit(Inst::kIdVmovaps, d, yes);
    } else {
      d = own(b, l, 0);
      merge(d, k, yes);
    }
    new_rep(v, l).v[0] = d;
    return;
  }
  const bool wide = is_wide(i.dtype);
  Ymm out[2];
  for (int h = 0; h < halves(i.dtype, l); ++h) {
    const Ymm mask = wide ? wide_mask(c, l, h) : lanes(c, l);
    if (is_constant(b) && instr(b).imm == 0) {
      out[h] = emit2(Inst::kIdVandps, mask, source(a, l, h));
    } else if (is_constant(a) && instr(a).imm == 0) {
      out[h] = emit2(Inst::kIdVandnps, mask, source(b, l, h));
    } else {
      const Ymm no = lanes(b, l, h);
      const Operand yes = source(a, l, h);
      out[h] = wide ? blend_wide(no, yes, mask) : blend(no, yes, mask);
    }
  }
  Rep& r = new_rep(v, l);
  r.v[0] = out[0], r.v[1] = out[1];
}

// Lanes that do not exist may hold an index out of range: they read nothing.
void Emitter::emit_table(Id v, Level* l) {
  const Instr& i = instr(v);
  const scalar::Table& table = scalar::tables()[i.imm];
  const Gp base = cc_.newGpq();
  cc_.mov(base, uint64_t(table.data));
  fixed_address_ = true;
  Rep out;
  if (l->kind != LevelKind::strip) {
    const Gp index = cc_.newGpd();
    low_word(index, lanes(i.in[0], l));
    broadcast_memory(table.dtype, ptr(base, index.r64(), table.dtype == i.dtype && is_wide(i.dtype) ? 3 : 2), out, true);
  } else {
    Mask m = mask_of(no_value, l);
    const Ymm index = lanes(i.in[0], l);
    for (int h = 0; h < halves(i.dtype, l); ++h) {
      out.v[h] = zero();
      const Ymm mask = !m.any ? ones() : move(is_wide(i.dtype) ? wide(m, h) : narrow(m));
      if (!is_wide(i.dtype)) {
        cc_.vgatherdps(out.v[h], ptr(base, index, 2), mask);
      } else {
        const Xmm four = cc_.newXmm();
        cc_.vextracti128(four, index, h);
        cc_.vgatherdpd(out.v[h], ptr(base, four, 3), mask);
      }
    }
  }
  Rep& r = new_rep(v, l);
  r.v[0] = out.v[0], r.v[1] = out.v[1], r.g = out.g;
}

void Emitter::emit_bitcast(Id v, Level* l) {
  const Instr& i = instr(v);
  Ymm out[2];
  Gp g;
  if (is_wide(i.dtype) && l->kind != LevelKind::strip) {
    if (i.dtype == Dtype::Int64) {
      g = cc_.newGpq();
      low_word(g, lanes(i.in[0], l));
    } else {
      out[0] = cc_.newYmm();
      cc_.vmovq(out[0].xmm(), gp(i.in[0], l));
      cc_.vpbroadcastq(out[0], out[0].xmm());
    }
  } else {
    for (int h = 0; h < halves(i.dtype, l); ++h) out[h] = own(i.in[0], l, h);
  }
  Rep& r = new_rep(v, l);
  r.v[0] = out[0], r.v[1] = out[1], r.g = g;
}

}  // namespace frit::jit::x86_code
