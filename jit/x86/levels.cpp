// Levels and values: where a value is emitted, in which forms it is at hand, and arithmetic on uniform integers.
// Start with Emitter::rep. See emitter.h.
#include <algorithm>

#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

using asmjit::x86::ptr;

Level Emitter::open(LevelKind kind, Level* parent, int axis, const Gp& index, int64_t displacement) {
  Level l;
  l.kind = kind;
  l.parent = parent;
  l.axis = axis;
  l.index = index;
  l.displacement = displacement;
  l.bound = parent ? parent->bound : AxisMask(0);
  if (axis >= 0 && kind != LevelKind::columns) l.bound |= axis_bit(axis);
  if (kind == LevelKind::instance) l.bound |= a_.grid_axes;
  l.slots.assign(p_.instrs.size(), -1);
  return l;
}

// A loop further out may run over the same axis: what varies along it must not be taken from there.
Level Emitter::open_reduction(Level* parent, int axis) {
  Level l = open(LevelKind::loop, parent, -1, Gp());
  l.bound &= AxisMask(~axis_bit(axis));
  return l;
}

Level Emitter::open_strip(Level* parent, int axis, const Gp& index, int64_t displacement, const StripPlan& plan) {
  Level l = open(LevelKind::strip, parent, axis, index, displacement);
  l.uses = plan.uses;
  l.plan = &plan;
  return l;
}

// The outermost level from `from` outwards where all these axes are bound.
Level* Emitter::placement(AxisMask depends, Level* from) const {
  Level* l = from;
  while (l->parent && !(depends & ~l->parent->bound)) l = l->parent;
  return l;
}

Rep& Emitter::new_rep(Id v, Level* home) {
  home->slots[v] = int32_t(reps_.size());
  reps_.emplace_back();
  reps_.back().home = home;
  return reps_.back();
}

Rep& Emitter::rep(Id v, Level* l) {
  Level* home = placement(a_.depends[v], l);
  Level* eight = nullptr;  // a part of 8 lanes of a strip of 16 that asks for a value from outside
  if (home->kind == LevelKind::strip) {  // or the innermost region that it belongs to
    for (; l != home && !l->region->members[v]; l = l->parent) {
      if (l->slots[v] >= 0) return reps_[size_t(l->slots[v])];
      if (!l->zmm && l->parent->zmm) eight = l;
    }
    home = l;
  }
  if (home->slots[v] < 0) {
    At at(*this, home);
    if (const Stash* s = home->plan ? home->plan->stash_of(v) : nullptr) {
      read_stash(*s, home);
      return reps_[size_t(home->slots[v])];
    }
    // Regions may need each other's outputs: one that is being emitted already is not entered again.
    const int number = home->plan ? home->plan->region_of[v] : -1;
    const Region* region = number >= 0 ? &home->plan->regions[size_t(number)] : nullptr;
    if (region && std::find(open_regions_.begin(), open_regions_.end(), region) == open_regions_.end()) emit_region(*region, home);
    else emit_value(v, home);
  }
  Rep& found = reps_[size_t(home->slots[v])];
  return eight ? eight_of(v, found, eight) : found;
}

Rep& Emitter::eight_of(Id v, const Rep& sixteen, Level* l) {
  At at(*this, l);
  Ymm all = sixteen.v[0];
  if (!all.isValid()) {
    all = cc_.newZmm().as<Ymm>();
    cc_.vpmovm2d(all.as<asmjit::x86::Zmm>(), sixteen.mask);
  }
  const Ymm out = cc_.newYmm();
  if (l->displacement == l->parent->displacement) cc_.vmovaps(out, all.ymm());
  else cc_.vextractf64x4(out, all.as<asmjit::x86::Zmm>(), 1);
  Rep& r = new_rep(v, l);
  r.v[0] = out;
  return r;
}

void Emitter::emit_value(Id v, Level* home) {
  const Instr& i = instr(v);
  switch (i.op) {
    case Op::pointer:
    case Op::integer: {
      const Gp g = cc_.newGpq();
      cc_.mov(g, ptr(args_, int32_t(8 * i.imm)));
      new_rep(v, home).g = g;
      return;
    }
    case Op::number: return emit_number(v, home);
    case Op::index: return emit_index(v, home);
    case Op::scalar:
      if (i.dtype == Dtype::Int64 && home->kind != LevelKind::strip) emit_uniform_integer(v, home);
      else emit_scalar(v, home);
      return;
    case Op::load: return emit_load(v, home);
    case Op::reduce: return emit_reduce(v, home);
    default: return;  // stores have no value; tiles are not for this generator
  }
}

// An argument slot holds the number's bits in its own type: reading so many bytes is reading a memory of that type.
void Emitter::emit_number(Id v, Level* l) {
  Rep out;
  broadcast_memory(instr(v).dtype, ptr(args_, int32_t(8 * instr(v).imm)), out, true);
  Rep& r = new_rep(v, l);
  r.v[0] = out.v[0];
  r.g = out.g;
}

void Emitter::emit_index(Id v, Level* l) {
  if (l->kind == LevelKind::strip && int(instr(v).imm) == l->axis) {
    const Ymm low = strip_index(l, 0), high = strip_index(l, 1);
    Rep& r = new_rep(v, l);
    r.v[0] = low, r.v[1] = high;
    return;
  }
  // The level that binds the axis; grid indices are entered by the instance loop.
  new_rep(v, l).g = l->index;
}

Ymm Emitter::strip_index(Level* l, int half) {
  const Ymm all = cc_.newYmm();
  cc_.vmovq(all.xmm(), l->index);
  cc_.vpbroadcastq(all, all.xmm());
  const uint64_t first = uint64_t(l->displacement) + uint64_t(4 * half);
  cc_.vpaddq(all, all, constant_bytes({first, first + 1, first + 2, first + 3}));
  return all;
}

// ---- forms --------------------------------------------------------------------------------------------------------

std::optional<int64_t> Emitter::integer_constant(Id v) const {
  if (!is_constant(v) || instr(v).dtype != Dtype::Int64) return std::nullopt;
  return int64_t(instr(v).imm);
}

Gp Emitter::gp(Id v, Level* l) { return rep(v, l).g; }

// In a strip of 16: what is uniform is spread once more, at its own level.
Ymm Emitter::lanes(Id v, Level* l, int half) {
  if (is_constant(v)) return load_constant(constant_of(v));
  Rep& r = rep(v, l);
  if (zmm_ && r.home->zmm && !r.v[0].isValid()) {
    At at(*this, r.home);
    r.v[0] = from_mask_register(r.mask);
  }
  if (zmm_ && !r.home->zmm) {
    if (r.sixteen.isValid()) return r.sixteen;
    At at(*this, r.home);
    const Ymm eight = lanes(v, r.home);
    r.sixteen = cc_.newZmm().as<Ymm>();
    cc_.vbroadcastss(r.sixteen, eight.xmm());
    return r.sixteen;
  }
  if (r.v[half].isValid()) return r.v[half];
  if (r.v[0].isValid()) return r.v[0];  // uniform
  At at(*this, r.home);
  if (r.g.isValid()) {
    r.v[0] = cc_.newYmm();
    cc_.vmovq(r.v[0].xmm(), r.g);
    cc_.vpbroadcastq(r.v[0], r.v[0].xmm());
  } else {
    r.v[0] = pack(r.wide[0], r.wide[1]);
  }
  return r.v[0];
}

Ymm Emitter::wide_mask(Id v, Level* l, int half) {
  if (is_constant(v)) return load_constant(constant_of(v));
  Rep& r = rep(v, l);
  if (r.home->kind != LevelKind::strip) return lanes(v, l);  // all lanes are equal
  if (!r.wide[half].isValid()) {
    At at(*this, r.home);
    r.wide[half] = widen(r.v[0], half);
  }
  return r.wide[half];
}

// Reductions have eight lanes: they take a strip of 16 in two parts.
Ymm Emitter::part(Id v, Level* strip, int half) {
  if (!strip->zmm || is_constant(v)) return lanes(v, strip, half);
  Rep& r = rep(v, strip);
  if (!r.home->zmm) return lanes(v, strip);
  if (!r.v[0].isValid()) {
    At at(*this, r.home);
    r.v[0] = from_mask_register(r.mask);
  }
  if (half == 0) return r.v[0].ymm();
  if (!r.v[1].isValid()) {
    At at(*this, r.home);
    r.v[1] = cc_.newYmm();
    cc_.vextractf64x4(r.v[1], r.v[0].as<asmjit::x86::Zmm>(), 1);
  }
  return r.v[1];
}

asmjit::x86::KReg Emitter::mask_register(Id v, Level* l) {
  if (is_constant(v)) return mask_register(lanes(v, l));
  Rep& r = rep(v, l);
  if (!r.mask.isValid()) {
    const Ymm mask = lanes(v, l);
    At at(*this, r.home);
    if (r.home->zmm) return r.mask = mask_register(mask);
    return mask_register(mask);
  }
  return r.mask;
}

Operand Emitter::source(Id v, Level* l, int half) {
  if (is_constant(v)) return constant_of(v);
  return lanes(v, l, half);
}

Ymm Emitter::own(Id v, Level* l, int half) {
  if (is_constant(v)) return load_constant(constant_of(v));
  const Ymm r = lanes(v, l, half);
  if (dies(v, l)) return r;
  return move(r);
}

void Emitter::count_operands(Id v, Level* l) {
  if (l->uses.empty()) return;
  for (Id in : instr(v).in)
    if (in != no_value && l->uses[in]) --l->uses[in];
}

bool Emitter::dies(Id v, Level* l) {
  return !l->uses.empty() && l->uses[v] == 0 && l->slots[v] >= 0;
}

// ---- constants ----------------------------------------------------------------------------------------------------

Mem Emitter::constant_bytes(const std::array<uint64_t, 4>& bytes) {
  const auto [it, fresh] = pool_index_.emplace(bytes, int(pool_.size()));
  if (fresh) pool_.push_back(bytes);
  return ptr(pool_label_, 32 * it->second, 32);
}

Mem Emitter::constant_of(Id v) {
  const Instr& i = instr(v);
  switch (i.dtype) {
    case Dtype::Bool: return constant32(i.imm ? ~0u : 0u);
    case Dtype::UInt8: return constant32(uint8_t(i.imm));
    case Dtype::Int8: return constant32(uint32_t(int32_t(int8_t(i.imm))));
    case Dtype::Int16: return constant32(uint32_t(int32_t(int16_t(i.imm))));
    case Dtype::Int64:
    case Dtype::Float64: return constant64(i.imm);
    default: return constant32(uint32_t(i.imm));
  }
}

// ---- uniform integers -----------------------------------------------------------------------------------------------

// Truncating division that is defined everywhere: x/0 = 0, x rem 0 = 0, MIN/-1 = MIN, x rem -1 = 0.
Gp Emitter::divide(const Gp& a, const Gp& b, bool remainder) {
  const Gp low = cc_.newGpq(), high = cc_.newGpq();
  const Label special = cc_.newLabel(), minus_one = cc_.newLabel(), done = cc_.newLabel();
  cc_.lea(high, ptr(b, 1));  // 0 for -1, 1 for 0
  cc_.cmp(high, 1);
  cc_.mov(low, a);
  cc_.jbe(special);
  cc_.cqo(high, low);
  cc_.idiv(high, low, b);
  if (remainder) cc_.mov(low, high);
  cc_.jmp(done);
  cc_.bind(special);
  if (!remainder) {
    cc_.jb(minus_one);
    cc_.xor_(low, low);
    cc_.jmp(done);
    cc_.bind(minus_one);
    cc_.neg(low);
  } else {
    cc_.bind(minus_one);
    cc_.xor_(low, low);
  }
  cc_.bind(done);
  return low;
}

void Emitter::emit_uniform_integer(Id v, Level* l) {
  const Instr& i = instr(v);
  if (i.prim == Prim::convert || i.prim == Prim::bitcast || i.prim == Prim::table || i.prim == Prim::select)
    return emit_scalar(v, l);
  if (i.prim == Prim::constant) {
    const Gp g = cc_.newGpq();
    if (i.imm == 0) cc_.xor_(g, g);
    else cc_.mov(g, int64_t(i.imm));
    new_rep(v, l).g = g;
    return;
  }
  const Gp a = gp(i.in[0], l);
  Gp b;
  Operand ob;  // the second operand: a small constant or a register
  if (scalar::prim_arity(i.prim) > 1) {
    const auto c = integer_constant(i.in[1]);
    const bool takes_constant = i.prim != Prim::div && i.prim != Prim::rem && i.prim != Prim::min && i.prim != Prim::max;
    if (c && *c == int32_t(*c) && takes_constant) {
      ob = asmjit::Imm(*c);
    } else {
      b = gp(i.in[1], l);
      ob = b;
    }
  }
  if (i.prim == Prim::div || i.prim == Prim::rem) {
    const Gp g = divide(a, b, i.prim == Prim::rem);
    new_rep(v, l).g = g;
    return;
  }
  const Gp g = cc_.newGpq();
  if (i.prim == Prim::mul && ob.isImm()) {
    cc_.imul(g, a, ob.as<asmjit::Imm>());
    new_rep(v, l).g = g;
    return;
  }
  cc_.mov(g, a);
  const auto shift = [&](Inst::Id id) {
    if (ob.isImm()) {
      cc_.emit(id, g, asmjit::Imm(ob.as<asmjit::Imm>().value() & 63));
    } else {
      const Gp count = cc_.newGpq();
      cc_.mov(count, b);
      cc_.emit(id, g, count.r8());
    }
  };
  switch (i.prim) {
    case Prim::add: cc_.emit(Inst::kIdAdd, g, ob); break;
    case Prim::sub: cc_.emit(Inst::kIdSub, g, ob); break;
    case Prim::mul: cc_.imul(g, b); break;
    case Prim::bit_and: cc_.emit(Inst::kIdAnd, g, ob); break;
    case Prim::bit_or: cc_.emit(Inst::kIdOr, g, ob); break;
    case Prim::bit_xor: cc_.emit(Inst::kIdXor, g, ob); break;
    case Prim::neg: cc_.neg(g); break;
    case Prim::bit_not: cc_.not_(g); break;
    case Prim::floor: case Prim::ceil: case Prim::trunc: case Prim::rint: break;
    case Prim::abs: {
      cc_.neg(g);
      cc_.cmovs(g, a);
      break;
    }
    case Prim::min: cc_.cmp(a, b), cc_.cmovge(g, b); break;
    case Prim::max: cc_.cmp(a, b), cc_.cmovle(g, b); break;
    case Prim::shl: shift(Inst::kIdShl); break;
    case Prim::shr: shift(Inst::kIdSar); break;
    case Prim::ushr: shift(Inst::kIdShr); break;
    default: throw std::runtime_error("block program " + p_.name + ": no integer code for " + scalar::prim_name(i.prim));
  }
  new_rep(v, l).g = g;
}

}  // namespace frit::jit::x86_code
