// Loads and stores. An offset that is base + coefficient * index along the vector axis gives contiguous or strided
// accesses, any other one is gathered and scattered with 64-bit addresses. No lane that is masked or does not exist is
// touched: 4- and 8-byte elements by masked moves, smaller ones lane by lane through a slot on the stack.
// Start with emit_load and emit_store.
#include <algorithm>

#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
using asmjit::Imm;
using asmjit::x86::ptr;
}  // namespace

Mem Emitter::slot(int which) {
  if (!slots_[which].hasBase()) slots_[which] = cc_.newStack(64, 32);
  return slots_[which];
}

// ---- elements and lanes ---------------------------------------------------------------------------------------------

void Emitter::expand(Dtype memory, const Operand& from, Ymm out[2], const KReg& exists) {
  const bool in_memory = from.isMem();
  const auto load = [&](Inst::Id id, uint32_t bytes) {
    const Operand operand = in_memory ? Operand(sized(from.as<Mem>(), zmm_ ? 2 * bytes : bytes)) : from;
    if (!exists.isValid()) return emit1(id, operand);
    const Ymm d = new_lanes();
    cc_.k(exists).z().emit(id, d, operand);
    return d;
  };
  switch (memory) {
    case Dtype::Float32:
    case Dtype::Int32: out[0] = load(Inst::kIdVmovups, 32); break;
    case Dtype::Float64:
    case Dtype::Int64:
      out[0] = load(Inst::kIdVmovups, 32);
      out[1] = emit1(Inst::kIdVmovups, sized(from.as<Mem>().cloneAdjusted(32), 32));
      break;
    case Dtype::Float16: out[0] = load(Inst::kIdVcvtph2ps, 16); break;
    case Dtype::BFloat16:
      out[0] = load(Inst::kIdVpmovzxwd, 16);
      cc_.vpslld(out[0], out[0], 16);
      break;
    case Dtype::Int16: out[0] = load(Inst::kIdVpmovsxwd, 16); break;
    case Dtype::Int8: out[0] = load(Inst::kIdVpmovsxbd, 8); break;
    case Dtype::UInt8: out[0] = load(Inst::kIdVpmovzxbd, 8); break;
    case Dtype::Bool:
      out[0] = load(Inst::kIdVpmovzxbd, 8);
      if (zmm_) out[0] = from_mask_register(compare_to_mask(Prim::ne, Dtype::Int32, out[0], zero()));
      else cc_.vpcmpgtd(out[0], out[0], zero());
      break;
  }
}

// The upper halves, to nearest even by integers; NaN stays one.
Ymm Emitter::bfloat16_words(const Ymm& v, bool rounded) {
  if (rounded) return emit2(Inst::kIdVpsrld, v, Imm(16));
  if (zmm_) {
    const asmjit::x86::KReg number = cc_.newKw();
    const Ymm sum = bfloat16_sum(v, number), d = load_constant(constant32(0x7fc0));
    cc_.k(number).emit(Inst::kIdVpsrld, d, sum, Imm(16));
    return d;
  }
  Ymm words = emit2(Inst::kIdVpsrld, v, Imm(16));
  words = emit2(Inst::kIdVpand, words, constant32(1));
  cc_.vpaddd(words, words, constant32(0x7fff));
  cc_.vpaddd(words, words, v);
  cc_.vpsrld(words, words, 16);
  return blend(words, constant32(0x7fc0), emit3(Inst::kIdVcmpps, v, v, Imm(3)));
}

Xmm Emitter::shrink(Dtype memory, const Ymm& v, bool rounded) {
  const Xmm d = cc_.newXmm();
  if (memory == Dtype::Float16) {
    cc_.vcvtps2ph(d, v, 0);
    return d;
  }
  const Ymm from = memory == Dtype::BFloat16 ? bfloat16_words(v, rounded) : v;
  const Xmm high = cc_.newXmm();
  cc_.vextracti128(high, from, 1);
  if (memory == Dtype::BFloat16) cc_.vpackusdw(d, from.xmm(), high);
  else cc_.vpackssdw(d, from.xmm(), high);
  if (memory == Dtype::UInt8) cc_.vpackuswb(d, d, d);
  if (memory == Dtype::Int8 || memory == Dtype::Bool) cc_.vpacksswb(d, d, d);
  if (memory == Dtype::Bool) cc_.vpabsb(d, d);
  return d;
}

// 16 lanes. Past the caches go elements of 4 bytes alone: the others fill half a line.
void Emitter::store_sixteen(const Mem& m, const Storing& how, const Ymm& in) {
  const Dtype memory = how.memory;
  const uint32_t bytes = uint32_t(16 * size_of(memory));
  const Ymm from = memory == Dtype::BFloat16 ? bfloat16_words(in, how.rounded) : memory == Dtype::Bool ? emit2(Inst::kIdVpsrld, in, Imm(31)) : in;
  const Mem to = sized(m, bytes);
  if (how.exists.isValid()) cc_.k(how.exists);
  if (bytes == 64) cc_.emit(how.streaming ? Inst::kIdVmovntps : Inst::kIdVmovups, to, from);
  else if (memory == Dtype::Float16) cc_.emit(Inst::kIdVcvtps2ph, to, from, Imm(0));
  else cc_.emit(bytes == 32 ? Inst::kIdVpmovdw : Inst::kIdVpmovdb, to, from);
}

void Emitter::store_memory(const Mem& m, const Storing& how, const Ymm in[2]) {
  const auto lanes_at = how.streaming ? Inst::kIdVmovntps : Inst::kIdVmovups;
  switch (size_of(how.memory)) {
    case 8:
      cc_.emit(lanes_at, sized(m, 32), in[0]);
      cc_.emit(lanes_at, sized(m.cloneAdjusted(32), 32), in[1]);
      break;
    case 4: cc_.emit(lanes_at, sized(m, 32), in[0]); break;
    case 2:
      if (how.memory == Dtype::Float16) cc_.vcvtps2ph(sized(m, 16), in[0], 0);
      else cc_.vmovdqu(sized(m, 16), shrink(how.memory, in[0], how.rounded));
      break;
    default: cc_.vmovq(sized(m, 8), shrink(how.memory, in[0])); break;
  }
}

void Emitter::copy_element(size_t size, const Mem& to, const Mem& from) {
  const Gp t = cc_.newGpq();
  switch (size) {
    case 8: cc_.mov(t, sized(from, 8)), cc_.mov(sized(to, 8), t); break;
    case 4: cc_.mov(t.r32(), sized(from, 4)), cc_.mov(sized(to, 4), t.r32()); break;
    case 2: cc_.movzx(t.r32(), sized(from, 2)), cc_.mov(sized(to, 2), t.r16()); break;
    default: cc_.movzx(t.r32(), sized(from, 1)), cc_.mov(sized(to, 1), t.r8()); break;
  }
}

// An Int64 goes to a general register where it is uniform.
void Emitter::broadcast_memory(Dtype memory, const Mem& m, Rep& out, bool integer_in_gp) {
  if (memory == Dtype::Int64 && integer_in_gp) {
    out.g = cc_.newGpq();
    cc_.mov(out.g, sized(m, 8));
    return;
  }
  const Ymm d = cc_.newYmm();
  out.v[0] = d;
  switch (memory) {
    case Dtype::Float32: cc_.vbroadcastss(d, sized(m, 4)); break;
    case Dtype::Int32: cc_.vpbroadcastd(d, sized(m, 4)); break;
    case Dtype::Float64: cc_.vbroadcastsd(d, sized(m, 8)); break;
    case Dtype::Int64: cc_.vpbroadcastq(d, sized(m, 8)); break;
    case Dtype::Float16:
      cc_.vpbroadcastw(d.xmm(), sized(m, 2));
      cc_.vcvtph2ps(d, d.xmm());
      break;
    case Dtype::BFloat16:
      cc_.vpbroadcastw(d, sized(m, 2));
      cc_.vpslld(d, d, 16);
      break;
    case Dtype::Int16:
      cc_.vpbroadcastw(d, sized(m, 2));
      cc_.vpsrad(d, d, 16);
      break;
    case Dtype::Int8:
      cc_.vpbroadcastb(d, sized(m, 1));
      cc_.vpsrad(d, d, 24);
      break;
    case Dtype::UInt8:
      cc_.vpbroadcastb(d, sized(m, 1));
      cc_.vpsrld(d, d, 24);
      break;
    case Dtype::Bool:
      cc_.vpbroadcastb(d, sized(m, 1));
      cc_.vpsrld(d, d, 24);
      cc_.vpcmpgtd(d, d, zero());
      break;
  }
}

// ---- loads ----------------------------------------------------------------------------------------------------------

template <class Body> void Emitter::each_lane(const Access& x, Mask& m, Body body) {
  if (x.kind == Access::scattered) store_memory(slot(2), {Dtype::Int64}, x.offsets);
  const Gp first = first_address(x), bits = mask_bits(m);
  lane_loop(bits, [&](const Gp& lane) {
    if (x.kind == Access::contiguous) return body(lane, ptr(first, lane, uint32_t(x.shift())));
    if (x.kind == Access::uniform) return body(lane, ptr(first));
    const Gp t = cc_.newGpq();
    if (x.kind == Access::strided) {
      cc_.mov(t, lane);
      cc_.imul(t, x.stride);
      return body(lane, ptr(first, t));
    }
    Mem offset = slot(2);
    offset.setIndex(lane, 3);
    cc_.mov(t, sized(offset, 8));
    body(lane, ptr(first, t, uint32_t(x.shift())));
  });
}

void Emitter::load_lanes(Dtype memory, const Access& x, Mask& m, Ymm out[2]) {
  const int shift = x.shift();
  if (m.any) {
    const Ymm z = zero();
    cc_.vmovups(sized(slot(0), 32), z);
    if (shift == 3) cc_.vmovups(sized(slot(0).cloneAdjusted(32), 32), z);
  }
  each_lane(x, m, [&](const Gp& lane, const Mem& from) {
    Mem to = slot(0);
    to.setIndex(lane, uint32_t(shift));
    copy_element(size_of(memory), to, from);
  });
  load_memory(memory, slot(0), out);
}

void Emitter::load_masked(Dtype memory, const Access& x, Mask& m, Ymm out[2]) {
  if (x.kind != Access::contiguous || size_of(memory) < 4) return load_lanes(memory, x, m, out);
  if (size_of(memory) == 4) {
    out[0] = emit2(Inst::kIdVmaskmovps, narrow(m), sized(x.at(), 32));
    return;
  }
  out[0] = emit2(Inst::kIdVmaskmovpd, wide(m, 0), sized(x.at(), 32));
  out[1] = emit2(Inst::kIdVmaskmovpd, wide(m, 1), sized(x.at().cloneAdjusted(32), 32));
}

// One element for all lanes, read when any lane wants it.
void Emitter::load_broadcast(Dtype memory, const Access& x, Mask& m, Ymm out[2]) {
  const int count = is_wide(memory) ? 2 : 1;
  const Label skip = cc_.newLabel();
  const Ymm all = zero();
  if (m.any) {
    if (count == 2) wide(m, 0), wide(m, 1);
    const Gp bits = mask_bits(m);
    cc_.test(bits, bits);
    cc_.jz(skip);
  }
  Rep one;
  broadcast_memory(memory, ptr(x.base), one, false);
  cc_.vmovaps(all, one.v[0]);
  if (m.any) cc_.bind(skip);
  for (int h = 0; h < count; ++h)
    out[h] = m.any ? emit2(Inst::kIdVandps, all, count == 2 ? wide(m, h) : narrow(m)) : all;
}

void Emitter::load_strided(Dtype memory, const Access& x, Ymm out[2]) {
  const Gp p = first_address(x), q = cc_.newGpq(), triple = cc_.newGpq(), s = x.stride;
  cc_.lea(triple, ptr(s, s, 1));
  cc_.lea(q, ptr(p, s, 2));
  const Mem at[8] = {ptr(p), ptr(p, s), ptr(p, s, 1), ptr(p, triple), ptr(q), ptr(q, s), ptr(q, s, 1), ptr(q, triple)};
  const size_t size = size_of(memory);
  if (size == 8) {
    for (int h = 0; h < 2; ++h) {
      const Xmm low = cc_.newXmm(), high = cc_.newXmm();
      cc_.vmovsd(low, sized(at[4 * h], 8));
      cc_.vmovhpd(low, low, sized(at[4 * h + 1], 8));
      cc_.vmovsd(high, sized(at[4 * h + 2], 8));
      cc_.vmovhpd(high, high, sized(at[4 * h + 3], 8));
      out[h] = cc_.newYmm();
      cc_.vinsertf128(out[h], low.ymm(), high, 1);
    }
  } else if (size == 4) {
    Xmm half[2];
    for (int h = 0; h < 2; ++h) {
      half[h] = cc_.newXmm();
      cc_.vmovd(half[h], sized(at[4 * h], 4));
      for (int k = 1; k < 4; ++k) cc_.vpinsrd(half[h], half[h], sized(at[4 * h + k], 4), k);
    }
    out[0] = cc_.newYmm();
    cc_.vinserti128(out[0], half[0].ymm(), half[1], 1);
  } else {
    const Xmm all = cc_.newXmm();
    cc_.vpxor(all, all, all);
    for (int k = 0; k < 8; ++k) {
      if (size == 2) cc_.vpinsrw(all, all, sized(at[k], 2), k);
      else cc_.vpinsrb(all, all, sized(at[k], 1), k);
    }
    expand(memory, all, out);
  }
}

void Emitter::load_gathered(Dtype memory, const Access& x, Mask& m, Ymm out[2]) {
  if (size_of(memory) < 4) return load_lanes(memory, x, m, out);
  Ymm part[2];
  for (int h = 0; h < 2; ++h) {
    part[h] = zero();
    Ymm mask;
    if (!m.any) {
      mask = ones();
    } else if (size_of(memory) == 8) {
      mask = move(wide(m, h));
    } else {
      mask = cc_.newYmm();
      if (h == 0) cc_.vmovaps(mask, narrow(m));
      else cc_.vextracti128(mask.xmm(), narrow(m), 1);
    }
    if (size_of(memory) == 8) cc_.vgatherqpd(part[h], ptr(x.base, x.offsets[h], 3), mask);
    else cc_.vgatherqps(part[h].xmm(), ptr(x.base, x.offsets[h], 2), mask.xmm());
  }
  if (size_of(memory) == 8) {
    out[0] = part[0], out[1] = part[1];
  } else {
    out[0] = cc_.newYmm();
    cc_.vinserti128(out[0], part[0], part[1].xmm(), 1);
  }
}

// The first loop over a row reads it from memory, those after it from the first cache: while the second one computes, the next row comes in.
bool Emitter::prefetches_here(Id pointer, Id offset, const Level* l) {
  if (!zmm_ || a_.grid_count == 0 || !(a_.depends[offset] & a_.grid_axes) || p_.params[instr(pointer).imm].written) return false;
  const auto [at, is_new] = prefetched_in_.try_emplace(pointer, no_value);
  if (is_new) {
    std::vector<Id> readers;  // reduces along the axis, in the order of their loops
    for (size_t r = 0; r < p_.instrs.size(); ++r) {
      if (!a_.is_reduce(Id(r)) || int(instr(Id(r)).imm) != l->axis) continue;
      for (Id v : a_.needed({instr(Id(r)).in[0]}))
        if (instr(v).op == Op::load && instr(v).in[0] == pointer) {
          readers.push_back(Id(r));
          break;
        }
    }
    if (readers.empty()) return at->second = pointer, false;  // a single loop: the processor does it
    const std::vector<Id> first = a_.companions(readers[0]);
    for (Id r : readers)
      if (std::find(first.begin(), first.end(), r) == first.end()) {
        at->second = r;
        break;
      }
  }
  if (in_progress_.empty() || at->second == no_value) return in_progress_.empty() && at->second == no_value;
  const std::vector<Id> group = a_.companions(in_progress_.back());
  return std::find(group.begin(), group.end(), at->second) != group.end();
}

void Emitter::emit_load(Id v, Level* l) {
  const Instr& i = instr(v);
  if (l->kind != LevelKind::strip) return emit_uniform_load(v, l);
  const Dtype memory = memory_dtype(i.in[0]);
  for (int k = 2; k < 4; ++k)
    if (i.in[k] != no_value && !is_constant(i.in[k])) rep(i.in[k], l);
  const Access x = access(i.in[0], i.in[1], l);
  count_operands(v, l);
  Mask m = mask_of(i.in[2], l);
  Ymm out[2];
  if (x.kind == Access::uniform) load_broadcast(memory, x, m, out);
  else if (x.kind == Access::scattered) load_gathered(memory, x, m, out);
  else if (m.any) load_masked(memory, x, m, out);
  else if (x.kind == Access::strided) load_strided(memory, x, out);
  else load_memory(memory, x.at(), out, l->exists);
  if (x.kind == Access::contiguous && x.next_row.isValid()) {
    Access next = x;
    next.base = x.next_row;
    cc_.prefetcht0(next.at());
  }
  if (i.in[3] != no_value) {
    for (int h = 0; h < (is_wide(memory) ? 2 : 1); ++h) {
      const Ymm other = lanes(i.in[3], l, h);
      out[h] = is_wide(memory) ? blend_wide(other, out[h], wide_mask(i.in[2], l, h)) : blend(other, out[h], lanes(i.in[2], l));
    }
  }
  Rep& r = new_rep(v, l);
  r.v[0] = out[0], r.v[1] = out[1];
}

// One element, the same for all lanes.
void Emitter::emit_uniform_load(Id v, Level* l) {
  const Instr& i = instr(v);
  const Dtype memory = memory_dtype(i.in[0]);
  const Gp p = gp(i.in[0], l);
  const uint32_t shift = uint32_t(std::countr_zero(size_of(memory)));
  const auto c = integer_constant(i.in[1]);
  const bool near = c && *c >= -(1 << 24) && *c < (1 << 24);
  const Mem from = near ? ptr(p, int32_t(*c) << shift) : ptr(p, gp(i.in[1], l), shift);
  Rep out;
  if (i.in[2] == no_value) {
    broadcast_memory(memory, from, out, true);
  } else {
    const bool integer = memory == Dtype::Int64;
    const Label skip = cc_.newLabel();
    const Gp flag = cc_.newGpd();
    cc_.vmovmskps(flag, lanes(i.in[2], l));
    Rep read;
    if (integer) {
      out.g = cc_.newGpq();
      if (i.in[3] != no_value) cc_.mov(out.g, gp(i.in[3], l));
      else cc_.xor_(out.g, out.g);
    } else {
      out.v[0] = i.in[3] != no_value ? move(lanes(i.in[3], l)) : zero();
    }
    cc_.test(flag, flag);
    cc_.jz(skip);
    broadcast_memory(memory, from, read, true);
    if (integer) cc_.mov(out.g, read.g);
    else cc_.vmovaps(out.v[0], read.v[0]);
    cc_.bind(skip);
  }
  Rep& r = new_rep(v, l);
  r.v[0] = out.v[0], r.g = out.g;
}

// ---- stores ---------------------------------------------------------------------------------------------------------

void Emitter::store_lanes(Dtype memory, const Access& x, Mask& m, const Ymm in[2]) {
  if (m.any) narrow(m);
  store_memory(slot(0), {memory}, in);
  each_lane(x, m, [&](const Gp& lane, const Mem& to) {
    Mem from = slot(0);
    from.setIndex(lane, uint32_t(x.shift()));
    copy_element(size_of(memory), to, from);
  });
}

void Emitter::store_masked(Dtype memory, const Access& x, Mask& m, const Ymm in[2]) {
  if (x.kind != Access::contiguous || size_of(memory) < 4) return store_lanes(memory, x, m, in);
  if (size_of(memory) == 4) {
    cc_.vmaskmovps(sized(x.at(), 32), narrow(m), in[0]);
    return;
  }
  cc_.vmaskmovpd(sized(x.at(), 32), wide(m, 0), in[0]);
  cc_.vmaskmovpd(sized(x.at().cloneAdjusted(32), 32), wide(m, 1), in[1]);
}

void Emitter::store_strided(Dtype memory, const Access& x, const Ymm in[2]) {
  const Gp p = first_address(x), q = cc_.newGpq(), triple = cc_.newGpq(), s = x.stride;
  cc_.lea(triple, ptr(s, s, 1));
  cc_.lea(q, ptr(p, s, 2));
  const Mem at[8] = {ptr(p), ptr(p, s), ptr(p, s, 1), ptr(p, triple), ptr(q), ptr(q, s), ptr(q, s, 1), ptr(q, triple)};
  const size_t size = size_of(memory);
  if (size >= 4) {
    const int per = size == 8 ? 2 : 4;  // elements in an xmm
    for (int k = 0; k < 8; k += per) {
      const Ymm& from = size == 8 ? in[k / 4] : in[0];
      Xmm part = from.xmm();
      if (k & (size == 8 ? 2 : 4)) {
        part = cc_.newXmm();
        cc_.vextractf128(part, from, 1);
      }
      if (size == 8) {
        cc_.vmovlpd(sized(at[k], 8), part);
        cc_.vmovhpd(sized(at[k + 1], 8), part);
      } else {
        cc_.vmovss(sized(at[k], 4), part);
        for (int j = 1; j < 4; ++j) cc_.vextractps(sized(at[k + j], 4), part, j);
      }
    }
    return;
  }
  const Xmm all = shrink(memory, in[0]);
  for (int k = 0; k < 8; ++k) {
    if (size == 2) cc_.vpextrw(sized(at[k], 2), all, k);
    else cc_.vpextrb(sized(at[k], 1), all, k);
  }
}

void Emitter::emit_store(Id v, Level* l) {
  const At at(*this, l);
  const Instr& i = instr(v);
  if (l->kind != LevelKind::strip) return emit_uniform_store(v, l);
  const Dtype memory = memory_dtype(i.in[0]);
  Ymm in[2];
  for (int h = 0; h < (is_wide(memory) ? 2 : 1); ++h) in[h] = lanes(i.in[2], l, h);
  if (i.in[3] != no_value && !is_constant(i.in[3])) rep(i.in[3], l);
  const Access x = access(i.in[0], i.in[1], l);
  count_operands(v, l);
  Mask m = mask_of(i.in[3], l);
  const Storing how{memory, memory == Dtype::BFloat16 && kernels::is_rounded(p_, i.in[2], memory), l->plan && l->plan->streaming, l->exists};
  if (l->zmm) {
    store_sixteen(x.at(), how, in[0]);
  } else if (x.kind == Access::uniform || x.kind == Access::scattered) {
    store_lanes(memory, x, m, in);
  } else if (m.any) {
    store_masked(memory, x, m, in);
  } else if (x.kind == Access::strided) {
    store_strided(memory, x, in);
  } else {
    store_memory(x.at(), how, in);
  }
}

void Emitter::emit_uniform_store(Id v, Level* l) {
  const Instr& i = instr(v);
  const Dtype memory = memory_dtype(i.in[0]);
  const Gp p = gp(i.in[0], l);
  const uint32_t shift = uint32_t(std::countr_zero(size_of(memory)));
  const Mem to = ptr(p, gp(i.in[1], l), shift);
  Ymm value;
  Gp integer;
  if (memory == Dtype::Int64) integer = gp(i.in[2], l);
  else value = lanes(i.in[2], l);
  const Label skip = cc_.newLabel();
  if (i.in[3] != no_value) {
    const Gp flag = cc_.newGpd();
    cc_.vmovmskps(flag, lanes(i.in[3], l));
    cc_.test(flag, flag);
    cc_.jz(skip);
  }
  switch (size_of(memory)) {
    case 8:
      if (integer.isValid()) cc_.mov(sized(to, 8), integer);
      else cc_.vmovlpd(sized(to, 8), value.xmm());
      break;
    case 4: cc_.vmovss(sized(to, 4), value.xmm()); break;
    case 2: cc_.vpextrw(sized(to, 2), shrink(memory, value), 0); break;
    default: cc_.vpextrb(sized(to, 1), shrink(memory, value), 0); break;
  }
  cc_.bind(skip);
}

}  // namespace frit::jit::x86_code
