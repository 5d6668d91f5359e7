// Indices in strips of 16. What is computed from an index (random numbers, ranges, masks that compare positions) wants little of its 64 bits: one
// of its words, its float32, or how it compares. Two zmm hold 8 indices each, and from them these are made. is_index_use says which values
// are made so, emit_index_use makes them.
#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
using asmjit::Imm;
using asmjit::x86::ptr;
using asmjit::x86::Zmm;

bool compares(Prim p) { return p == Prim::eq || p == Prim::ne || p == Prim::lt || p == Prim::le; }
}  // namespace

// The operand of a shift to the upper word; v itself where it is none.
Id Emitter::above_shift(Id v) const {
  const Instr& i = instr(v);
  return i.op == Op::scalar && i.prim == Prim::ushr && i.dtype == Dtype::Int64 && integer_constant(i.in[1]) == 32 ? i.in[0] : v;
}
bool Emitter::is_upper_word(Id v, int axis) const {
  const Id index = above_shift(v);
  return index != v && a_.varies(index, axis) && a_.affine(index, axis);
}
bool Emitter::is_index_use(Id v, int axis) const {
  const Instr& i = instr(v);
  if (i.op != Op::scalar || !a_.varies(v, axis) || i.in[0] == no_value || instr(i.in[0]).dtype != Dtype::Int64) return false;
  if (i.prim == Prim::convert) return i.dtype == Dtype::Int32 ? a_.affine(above_shift(i.in[0]), axis) : i.dtype == Dtype::Float32 && a_.affine(i.in[0], axis);
  return compares(i.prim) && a_.affine(i.in[0], axis) && a_.affine(i.in[1], axis);
}

// Indices of the lanes 0 to 7 and 8 to 15 less that of lane 0: the same for all strips.
IndexLanes Emitter::index_lanes(Id index, int axis, Level* outer) {
  for (const IndexLanes& w : outer->index_lanes)
    if (w.index == index && w.axis == axis) return w;
  IndexLanes w{index, axis, {}, {}, {}, {}};
  const At here(*this, outer);
  const Coefficient c = coefficient(index, axis, outer);
  if (const auto base = affine_base(index, axis, outer)) w.base = *base;
  const Zmm first = cc_.newZmm(), second = cc_.newZmm();
  cc_.emit(Inst::kIdVpmovzxbq, first, sized(constant64(0x0706050403020100), 8));
  cc_.emit(Inst::kIdVpmovzxbq, second, sized(constant64(0x0f0e0d0c0b0a0908), 8));
  if (!c.constant || c.value != 1) {
    w.step = cc_.newGpq();
    if (c.constant) cc_.mov(w.step, c.value);
    else cc_.mov(w.step, c.g);
    const Zmm step = cc_.newZmm();
    cc_.emit(Inst::kIdVpbroadcastq, step, w.step);
    cc_.emit(Inst::kIdVpmullq, first, first, step);
    cc_.emit(Inst::kIdVpmullq, second, second, step);
  }
  w.first = first.as<Ymm>(), w.second = second.as<Ymm>();
  outer->index_lanes.push_back(w);
  return w;
}

// All 16 of an affine value, or of one that does not vary.
void Emitter::indices(Id v, Level* l, Ymm out[2]) {
  out[1] = new_lanes();
  if (is_constant(v) || !a_.varies(v, l->axis)) {
    if (is_constant(v)) cc_.emit(Inst::kIdVpbroadcastq, out[1], sized(constant64(instr(v).imm), 8));
    else cc_.emit(Inst::kIdVpbroadcastq, out[1], gp(v, l));
    out[0] = out[1];
    return;
  }
  const IndexLanes w = index_lanes(v, l->axis, placement(AxisMask(a_.depends[v] & ~axis_bit(l->axis)), l));
  const Gp start = cc_.newGpq();  // the index of lane 0
  if (l->displacement) cc_.lea(start, ptr(l->index, int32_t(l->displacement)));
  else cc_.mov(start, l->index);
  if (w.step.isValid()) cc_.imul(start, w.step);
  if (w.base.isValid()) cc_.add(start, w.base);
  out[0] = new_lanes();
  cc_.emit(Inst::kIdVpbroadcastq, out[1], start);
  cc_.emit(Inst::kIdVpaddq, out[0], out[1], w.first);
  cc_.emit(Inst::kIdVpaddq, out[1], out[1], w.second);
}

void Emitter::emit_index_use(Id v, Level* l) {
  const Instr& i = instr(v);
  Ymm a[2], b[2];
  if (compares(i.prim)) {
    indices(i.in[0], l, a), indices(i.in[1], l, b);
    const int predicate = i.prim == Prim::eq ? 0 : i.prim == Prim::ne ? 4 : i.prim == Prim::lt ? 1 : 2;
    const asmjit::x86::KReg low = cc_.newKw(), high = cc_.newKw();
    cc_.emit(Inst::kIdVpcmpq, low, a[0], b[0], Imm(predicate));
    cc_.emit(Inst::kIdVpcmpq, high, a[1], b[1], Imm(predicate));
    cc_.kunpckbw(low, high, low);
    new_rep(v, l).mask = low;
    return;
  }
  if (i.dtype == Dtype::Float32) {
    indices(i.in[0], l, a);
    const Ymm low = new_lanes(), high = cc_.newYmm();
    cc_.emit(Inst::kIdVcvtqq2ps, low.ymm(), a[0]);
    cc_.emit(Inst::kIdVcvtqq2ps, high, a[1]);
    cc_.emit(Inst::kIdVinserti64x4, low, low, high, Imm(1));
    new_rep(v, l).v[0] = low;
    return;
  }
  const Id index = above_shift(i.in[0]);
  indices(index, l, a);
  const Ymm pick = new_lanes();
  const bool upper = index != i.in[0];
  const Mem words = constant_bytes(upper ? std::array<uint64_t, 4>{0x0f0d0b0907050301, 0x1f1d1b1917151311, 0, 0} : std::array<uint64_t, 4>{0x0e0c0a0806040200, 0x1e1c1a1816141210, 0, 0});
  cc_.emit(Inst::kIdVpmovzxbd, pick, sized(words, 16));
  cc_.emit(Inst::kIdVpermt2d, a[0], pick, a[1]);
  new_rep(v, l).v[0] = a[0];
}

}  // namespace frit::jit::x86_code
