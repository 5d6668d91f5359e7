// Exponentials end by 2^n (1 + e), which has to round once where the result is below the normal range: see scale_full in tracer/scalar_exp.cpp.
// find_scalings knows the product by its form; emit_scaling emits it for strips of 16.
#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
class Match {
 public:
  explicit Match(const Program& p) : p_(p) {}
  bool scaling(Id v, Scaling& out) const {
    const Instr* product = is(v, Prim::mul, Dtype::Float32);
    const Instr* first = product ? is(product->in[0], Prim::fma, Dtype::Float32) : nullptr;
    if (!first || first->in[1] != first->in[2]) return false;
    const Id half = exponent_of(first->in[1]), rest = exponent_of(product->in[1]);
    const Instr *shifted = is(half, Prim::ushr, Dtype::Int32), *difference = is(rest, Prim::sub, Dtype::Int32);
    if (!shifted || !difference || constant(shifted->in[1]) != 1 || difference->in[0] != shifted->in[0] || difference->in[1] != half) return false;
    const Instr* bits = is(shifted->in[0], Prim::bitcast, Dtype::Int32);
    if (!bits) return false;
    for (size_t n = 0; n < p_.instrs.size(); ++n)  // t - 1.5 * 2^23, whose low bits count
      if (const Instr* number = is(Id(n), Prim::sub, Dtype::Float32); number && number->in[0] == bits->in[0] && constant(number->in[1]) == 0x4b400000) {
        out = {first->in[0], Id(n)};
        return true;
      }
    return false;
  }

 private:
  const Instr* is(Id v, Prim prim, Dtype d) const {
    if (v == no_value) return nullptr;
    const Instr& i = p_.instrs[v];
    return i.op == Op::scalar && i.prim == prim && i.dtype == d ? &i : nullptr;
  }
  int64_t constant(Id v) const {
    if (v == no_value) return -1;
    const Instr& i = p_.instrs[v];
    return i.op == Op::scalar && i.prim == Prim::constant ? int64_t(uint32_t(i.imm)) : -1;
  }
  // The n of 2^n as it is put together: (n << 23) + (127 << 23).
  Id exponent_of(Id v) const {
    const Instr* power = is(v, Prim::bitcast, Dtype::Float32);
    const Instr* sum = power ? is(power->in[0], Prim::add, Dtype::Int32) : nullptr;
    const Instr* shifted = sum ? is(sum->in[0], Prim::shl, Dtype::Int32) : nullptr;
    return shifted && constant(sum->in[1]) == int64_t(127) << 23 && constant(shifted->in[1]) == 23 ? shifted->in[0] : no_value;
  }
  const Program& p_;
};
}  // namespace

Scalings find_scalings(const Program& p) {
  Scalings found;
  const Match match(p);
  for (size_t v = 0; v < p.instrs.size(); ++v)
    if (Scaling s; match.scaling(Id(v), s)) found.emplace(Id(v), s);
  return found;
}

bool Emitter::emit_scaling(Id v, Level* l) {
  const auto found = scalings_.find(v);
  if (!zmm_ || found == scalings_.end()) return false;
  const Ymm e = lanes(found->second.e, l), n = lanes(found->second.n, l);
  const Ymm y = emit2(Inst::kIdVaddps, e, constant_float(1, Dtype::Float32));
  // Masked scores end here as exact zeros: scaling so far down would cost a hundred cycles. Below 2^-150 (1 + e) all is 0.
  const KReg counts = cc_.newKw();
  cc_.emit(Inst::kIdVcmpps, counts, n, constant_float(-150.5, Dtype::Float32), asmjit::Imm(0x16));  // greater, or NaN
  cc_.k(counts).z().emit(Inst::kIdVscalefps, y, y, n);
  new_rep(v, l).v[0] = y;
  return true;
}

}  // namespace frit::jit::x86_code
