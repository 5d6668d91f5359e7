// The 32-bit words of indices in strips of 16. Random numbers are made from the words of their index, and ranges may be of 32 bits: what is
// 64 bits wide in them is affine and wanted only as its lower or its upper word. Two zmm hold 8 indices each; a permutation picks the words.
// is_index_word says which values are made so, emit_index_word makes them.
#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
using asmjit::x86::ptr;
using asmjit::x86::Zmm;
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
bool Emitter::is_index_word(Id v, int axis) const {
  const Instr& i = instr(v);
  if (i.op != Op::scalar || i.prim != Prim::convert || i.dtype != Dtype::Int32 || instr(i.in[0]).dtype != Dtype::Int64) return false;
  const Id index = above_shift(i.in[0]);
  return a_.varies(index, axis) && a_.affine(index, axis);
}

// Indices of the lanes 0 to 7 and 8 to 15 less that of lane 0, and which words of them are wanted: the same for all strips.
IndexWords Emitter::index_words(Id index, bool upper, int axis, Level* outer) {
  for (const IndexWords& w : outer->words)
    if (w.index == index && w.axis == axis && w.upper == upper) return w;
  IndexWords w{index, axis, upper, {}, {}, {}, {}, {}};
  const At here(*this, outer);
  const auto bytes = [&](uint64_t low, uint64_t high, uint32_t size) { return sized(constant_bytes({low, high, 0, 0}), size); };
  const Coefficient c = coefficient(index, axis, outer);
  if (const auto base = affine_base(index, axis, outer)) w.base = *base;
  const bool one = c.constant && c.value == 1;
  Zmm first = cc_.newZmm(), second = cc_.newZmm();
  cc_.emit(Inst::kIdVpmovzxbq, first, bytes(0x0706050403020100, 0, 8));
  cc_.emit(Inst::kIdVpmovzxbq, second, bytes(0x0f0e0d0c0b0a0908, 0, 8));
  if (!one) {
    w.step = cc_.newGpq();
    if (c.constant) cc_.mov(w.step, c.value);
    else cc_.mov(w.step, c.g);
    const Zmm step = cc_.newZmm();
    cc_.emit(Inst::kIdVpbroadcastq, step, w.step);
    cc_.emit(Inst::kIdVpmullq, first, first, step);
    cc_.emit(Inst::kIdVpmullq, second, second, step);
  }
  const Zmm pick = cc_.newZmm();
  if (upper) cc_.emit(Inst::kIdVpmovzxbd, pick, bytes(0x0f0d0b0907050301, 0x1f1d1b1917151311, 16));
  else cc_.emit(Inst::kIdVpmovzxbd, pick, bytes(0x0e0c0a0806040200, 0x1e1c1a1816141210, 16));
  w.first = first.as<Ymm>(), w.second = second.as<Ymm>(), w.pick = pick.as<Ymm>();
  outer->words.push_back(w);
  return w;
}

void Emitter::emit_index_word(Id v, Level* l) {
  const Id operand = instr(v).in[0], index = above_shift(operand);
  Level* outer = placement(AxisMask(a_.depends[index] & ~axis_bit(l->axis)), l);
  const IndexWords w = index_words(index, index != operand, l->axis, outer);
  const Gp start = cc_.newGpq();  // the index of lane 0
  if (l->displacement) cc_.lea(start, ptr(l->index, int32_t(l->displacement)));
  else cc_.mov(start, l->index);
  if (w.step.isValid()) cc_.imul(start, w.step);
  if (w.base.isValid()) cc_.add(start, w.base);
  const Ymm low = new_lanes(), high = new_lanes();
  cc_.emit(Inst::kIdVpbroadcastq, high, start);
  cc_.emit(Inst::kIdVpaddq, low, high, w.first);
  cc_.emit(Inst::kIdVpaddq, high, high, w.second);
  cc_.emit(Inst::kIdVpermt2d, low, w.pick, high);
  new_rep(v, l).v[0] = low;
}

}  // namespace frit::jit::x86_code
