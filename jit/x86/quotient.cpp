// Quotients by what is the same for a whole strip of 16: a row's sum, a deviation, a number. The divider takes ten cycles for 16 floats; with the
// reciprocal at hand the same bits are had from four fused multiply-adds. After Markstein: where y is 1/b rounded correctly and q a
// quotient less than one unit in the last place away, q + (a - q b) y rounds to a/b correctly; the remainder is exact. Holds as long as nothing
// leaves the normal range (which would cost a hundred cycles, too): a strip that has elements outside [2^-70, 2^100] other than zero, and
// every strip where the divisor is outside [2^-24, 2^24], is divided as usual.
// prepare_quotients adds what the divisors need to a program; emit_quotient is the division.
#include <bit>
#include "jit/x86/levels.h"
#include "runtime/cpu.h"

namespace frit::jit::x86_code {

namespace {
constexpr float least_divisor = 0x1p-24f, greatest_divisor = 0x1p24f;
constexpr uint32_t least_bits = (127 - 70) << 23, span_bits = 170u << 23;  // of the dividends

Id push(Program& p, Prim prim, Dtype d, uint8_t axes, std::initializer_list<Id> in, uint64_t imm = 0) {
  Instr i;
  i.prim = prim, i.dtype = d, i.axes = axes, i.imm = imm;
  std::copy(in.begin(), in.end(), i.in);
  p.instrs.push_back(i);
  return Id(p.instrs.size() - 1);
}
}  // namespace

Quotients prepare_quotients(Program& p) {
  Quotients quotients;
  if (!uses_avx512() || kernels::has_tiles(p)) return quotients;
  const Analysis a(p);
  std::map<Id, Quotient> known;  // by divisor
  const size_t count = p.instrs.size();
  for (size_t v = 0; v < count; ++v) {
    const Instr i = p.instrs[v];
    if (i.op != Op::scalar || i.prim != Prim::div || i.dtype != Dtype::Float32) continue;
    const Id divisor = i.in[1];
    if (!(a.depends[i.in[0]] & a.block_axes) || a.depends[divisor] & a.block_axes) continue;
    const auto [at, is_new] = known.try_emplace(divisor);
    if (is_new) {
      const uint8_t axes = p.instrs[divisor].axes;
      const auto number = [&](float x) { return push(p, Prim::constant, Dtype::Float32, 0, {}, std::bit_cast<uint32_t>(x)); };
      const auto integer = [&](uint32_t x) { return push(p, Prim::constant, Dtype::Int32, 0, {}, x); };
      Quotient& q = at->second;
      const Id one = number(1);
      q.reciprocal = push(p, Prim::div, Dtype::Float32, axes, {one, divisor});
      const Id negative = push(p, Prim::neg, Dtype::Float32, axes, {divisor});
      const Id error = push(p, Prim::fma, Dtype::Float32, axes, {negative, q.reciprocal, one});
      q.rest = push(p, Prim::mul, Dtype::Float32, axes, {error, q.reciprocal});
      const Id not_small = push(p, Prim::le, Dtype::Bool, axes, {number(least_divisor), divisor});
      const Id not_great = push(p, Prim::le, Dtype::Bool, axes, {divisor, number(greatest_divisor)});
      const Id both = push(p, Prim::bit_and, Dtype::Bool, axes, {not_small, not_great});
      q.unfit = push(p, Prim::select, Dtype::Int32, axes, {both, integer(0), integer(~0u)});
    }
    quotients.emplace(Id(v), at->second);
  }
  return quotients;
}

bool Emitter::emit_quotient(Id v, Level* l) {
  const auto found = quotients_.find(v);
  if (!zmm_ || found == quotients_.end()) return false;
  const Quotient& by = found->second;
  const Ymm a = lanes(instr(v).in[0], l), b = lanes(instr(v).in[1], l), y = lanes(by.reciprocal, l), rest = lanes(by.rest, l), unfit = lanes(by.unfit, l);
  const Ymm q = new_lanes(), magnitude = move(a), remainder = new_lanes();
  cc_.emit(Inst::kIdVpternlogd, magnitude, unfit, constant32(0x7fffffff), asmjit::Imm(0xec));  // all ones where the divisor does not fit
  const KReg zero_lanes = cc_.newKw(), fit = cc_.newKw();
  cc_.emit(Inst::kIdVptestnmd, zero_lanes, magnitude, magnitude);
  cc_.emit(Inst::kIdVpsubd, magnitude, magnitude, constant32(least_bits));
  cc_.emit(Inst::kIdVpcmpud, fit, magnitude, constant32(span_bits), asmjit::Imm(1));
  const Label all_fit = cc_.newLabel(), done = cc_.newLabel();
  cc_.kortestw(zero_lanes, fit);
  cc_.jc(all_fit);
  cc_.vdivps(q, a, b);
  cc_.jmp(done);
  cc_.bind(all_fit);
  cc_.vmulps(q, a, rest);
  cc_.vmovaps(remainder, a);
  cc_.vfmadd231ps(q, a, y);
  cc_.vfnmadd231ps(remainder, q, b);
  cc_.vfmadd231ps(q, remainder, y);
  cc_.emit(Inst::kIdVpternlogd, q, a, constant32(0x80000000), asmjit::Imm(0xd8));  // a's sign: zeros would lose it
  cc_.bind(done);
  new_rep(v, l).v[0] = q;
  return true;
}

}  // namespace frit::jit::x86_code
