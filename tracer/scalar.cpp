// Building scalar expressions: the hash-consing Builder, the Expr operators and the text form. Evaluation is in
// scalar_evaluate.cpp. Start with Builder::push: every node passes through it.
#include "tracer/scalar.h"

#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "runtime/error.h"

namespace frit::scalar {
namespace {

constexpr int arities[] = {
#define X(name, arity) arity,
    FRIT_FOR_EACH_PRIM(X)
#undef X
};
constexpr const char* names[] = {
#define X(name, arity) #name,
    FRIT_FOR_EACH_PRIM(X)
#undef X
};
constexpr uint16_t empty = 0xffff;
constexpr size_t most_nodes = 0xfff0;

[[noreturn]] void fail(Prim p, const std::string& what) {
  throw InternalError(std::string("scalar expression: ") + prim_name(p) + ": " + what);
}

// The value as evaluate holds it: sign- or zero-extended, Bool 0 or 1.
uint64_t canonical(uint64_t value, Dtype d) {
  switch (d) {
    case Dtype::Bool: return value != 0;
    case Dtype::UInt8: return uint8_t(value);
    case Dtype::Int8: return uint64_t(int64_t(int8_t(value)));
    case Dtype::Int16: return uint64_t(int64_t(int16_t(value)));
    case Dtype::Int32: return uint64_t(int64_t(int32_t(value)));
    case Dtype::Float32: return uint32_t(value);
    default: return value;
  }
}

size_t hash(const Node& n) {
  uint64_t h = uint64_t(n.prim) | uint64_t(n.dtype) << 8 | uint64_t(n.in[0]) << 16 | uint64_t(n.in[1]) << 32 | uint64_t(n.in[2]) << 48;
  h = (h ^ n.imm * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
  return size_t(h ^ h >> 32);
}

Expr binary(Prim p, Expr a, Expr b) {
  if (a.dtype() != b.dtype()) fail(p, std::string("operands of types ") + dtype_name(a.dtype()) + " and " + dtype_name(b.dtype()));
  return a.builder->apply(p, a.dtype(), {a, b});
}
Expr compare(Prim p, Expr a, Expr b) {
  if (a.dtype() != b.dtype()) fail(p, std::string("operands of types ") + dtype_name(a.dtype()) + " and " + dtype_name(b.dtype()));
  return a.builder->apply(p, Dtype::Bool, {a, b});
}
Expr unary(Prim p, Expr a) { return a.builder->apply(p, a.dtype(), {a}); }

}  // namespace

const char* prim_name(Prim p) { return names[size_t(p)]; }
int prim_arity(Prim p) { return arities[size_t(p)]; }

Expr Builder::push(const Node& given) {
  Node n = given;
  if (is_half(n.dtype)) fail(n.prim, "half formats exist only in memory");
  if (n.prim == Prim::constant) n.imm = canonical(n.imm, n.dtype);
  std::vector<Node>& nodes = function_.nodes;
  if (slots_.size() < 2 * (nodes.size() + 1)) {
    slots_.assign(slots_.empty() ? 64 : 2 * slots_.size(), empty);
    for (size_t id = 0; id < nodes.size(); ++id) slots_[free_slot(nodes[id])] = uint16_t(id);
  }
  const size_t slot = free_slot(n);
  if (slots_[slot] == empty) {
    if (nodes.size() >= most_nodes) fail(n.prim, "too many nodes");
    slots_[slot] = uint16_t(nodes.size());
    nodes.push_back(n);
  }
  return Expr{this, slots_[slot]};
}

// The slot that holds a node equal to n, or the empty one where it belongs.
size_t Builder::free_slot(const Node& n) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash(n) & mask;
  while (slots_[slot] != empty && function_.nodes[slots_[slot]] != n) slot = (slot + 1) & mask;
  return slot;
}

Expr Builder::constant(double value, Dtype d) {
  if (d == Dtype::Float64) return bits(std::bit_cast<uint64_t>(value), d);
  if (d == Dtype::Float32) return bits(std::bit_cast<uint32_t>(float(value)), d);
  if (d == Dtype::Bool) return bits(value != 0, d);
  if (!(std::abs(value) < 0x1p63) || std::trunc(value) != value) fail(Prim::constant, "integer constant " + std::to_string(value));
  return bits(uint64_t(int64_t(value)), d);
}

Expr Builder::apply(Prim p, Dtype result, std::initializer_list<Expr> in, uint64_t imm) {
  if (int(in.size()) != prim_arity(p)) fail(p, "wrong number of operands");
  Node n{p, result, {}, imm};
  int k = 0;
  for (const Expr e : in) {
    if (e.builder != this) fail(p, "operand of another builder");
    n.in[k++] = e.id;
  }
  return push(n);
}

// Only what the results need is kept.
Function Builder::finish(std::initializer_list<Expr> results) {
  const std::vector<Node>& nodes = function_.nodes;
  std::vector<uint16_t> place(nodes.size(), empty);
  for (const Expr e : results) place[e.id] = 0;
  for (size_t id = nodes.size(); id-- > 0;) {
    if (place[id] == empty) continue;
    for (int k = 0; k < prim_arity(nodes[id].prim); ++k) place[nodes[id].in[k]] = 0;
  }
  Function out;
  for (size_t id = 0; id < nodes.size(); ++id) {
    if (place[id] == empty) continue;
    place[id] = uint16_t(out.nodes.size());
    Node n = nodes[id];
    for (int k = 0; k < prim_arity(n.prim); ++k) n.in[k] = place[n.in[k]];
    out.nodes.push_back(n);
  }
  for (const Expr e : results) out.results.push_back(place[e.id]);
  return out;
}

// %0 = input f32 0 · %1 = constant f32 0x3f800000 · %2 = add f32 %0 %1 · return %2
std::string Function::text() const {
  std::string out;
  char number[32];
  for (size_t id = 0; id < nodes.size(); ++id) {
    const Node& n = nodes[id];
    out += "%" + std::to_string(id) + " = " + prim_name(n.prim) + " " + dtype_short_name(n.dtype);
    for (int k = 0; k < prim_arity(n.prim); ++k) out += " %" + std::to_string(n.in[k]);
    if (n.prim == Prim::constant) {
      std::snprintf(number, sizeof number, " 0x%" PRIx64, n.imm);
      out += number;
    } else if (n.prim == Prim::input || n.prim == Prim::param || n.prim == Prim::table || n.imm != 0) {
      out += " " + std::to_string(n.imm);
    }
    out += "\n";
  }
  out += "return";
  for (const uint16_t id : results) out += " %" + std::to_string(id);
  return out + "\n";
}

Expr operator+(Expr a, Expr b) { return binary(Prim::add, a, b); }
Expr operator-(Expr a, Expr b) { return binary(Prim::sub, a, b); }
Expr operator*(Expr a, Expr b) { return binary(Prim::mul, a, b); }
Expr operator/(Expr a, Expr b) { return binary(Prim::div, a, b); }
Expr operator%(Expr a, Expr b) {
  if (is_floating(a.dtype())) fail(Prim::rem, "of integers only (fmod for floating types)");
  return binary(Prim::rem, a, b);
}
Expr operator-(Expr a) { return unary(Prim::neg, a); }
Expr operator&(Expr a, Expr b) { return binary(Prim::bit_and, a, b); }
Expr operator|(Expr a, Expr b) { return binary(Prim::bit_or, a, b); }
Expr operator^(Expr a, Expr b) { return binary(Prim::bit_xor, a, b); }
Expr operator~(Expr a) { return unary(Prim::bit_not, a); }
Expr operator<<(Expr a, Expr b) { return binary(Prim::shl, a, b); }
Expr operator>>(Expr a, Expr b) { return binary(Prim::shr, a, b); }
Expr operator==(Expr a, Expr b) { return compare(Prim::eq, a, b); }
Expr operator!=(Expr a, Expr b) { return compare(Prim::ne, a, b); }
Expr operator<(Expr a, Expr b) { return compare(Prim::lt, a, b); }
Expr operator<=(Expr a, Expr b) { return compare(Prim::le, a, b); }
Expr operator>(Expr a, Expr b) { return b < a; }
Expr operator>=(Expr a, Expr b) { return b <= a; }

Expr fma(Expr a, Expr b, Expr c) {
  if (a.dtype() != b.dtype() || a.dtype() != c.dtype() || !is_floating(a.dtype())) fail(Prim::fma, "operands must be of one floating type");
  return a.builder->apply(Prim::fma, a.dtype(), {a, b, c});
}
Expr fma(Expr a, Expr b, double c) { return fma(a, b, a.builder->constant(c, a.dtype())); }
Expr fma(Expr a, double b, Expr c) { return fma(a, a.builder->constant(b, a.dtype()), c); }
Expr fma(Expr a, double b, double c) { return fma(a, b, a.builder->constant(c, a.dtype())); }
Expr abs(Expr a) { return unary(Prim::abs, a); }
Expr sqrt(Expr a) { return unary(Prim::sqrt, a); }
Expr min_raw(Expr a, Expr b) { return binary(Prim::min, a, b); }
Expr max_raw(Expr a, Expr b) { return binary(Prim::max, a, b); }
Expr floor(Expr a) { return unary(Prim::floor, a); }
Expr ceil(Expr a) { return unary(Prim::ceil, a); }
Expr trunc(Expr a) { return unary(Prim::trunc, a); }
Expr rint(Expr a) { return unary(Prim::rint, a); }
Expr ushr(Expr a, Expr b) { return binary(Prim::ushr, a, b); }
Expr ushr(Expr a, double b) { return ushr(a, a.builder->constant(b, a.dtype())); }
Expr mulhi_u32(Expr a, Expr b) { return binary(Prim::mulhi_u32, a, b); }
Expr select(Expr cond, Expr a, Expr b) {
  if (cond.dtype() != Dtype::Bool || a.dtype() != b.dtype()) fail(Prim::select, "needs a Bool and two values of one type");
  return a.builder->apply(Prim::select, a.dtype(), {cond, a, b});
}
Expr select(Expr cond, Expr a, double b) { return select(cond, a, a.builder->constant(b, a.dtype())); }
Expr select(Expr cond, double a, Expr b) { return select(cond, b.builder->constant(a, b.dtype()), b); }
Expr select_rare(Expr cond, Expr rare, Expr usual) {
  if (cond.dtype() != Dtype::Bool || rare.dtype() != usual.dtype()) fail(Prim::select, "needs a Bool and two values of one type");
  return rare.builder->apply(Prim::select, rare.dtype(), {cond, rare, usual}, 1);
}
Expr convert(Expr a, Dtype d) { return a.dtype() == d ? a : a.builder->apply(Prim::convert, d, {a}); }
Expr bitcast(Expr a, Dtype d) {
  if (size_of(a.dtype()) != size_of(d)) fail(Prim::bitcast, "types of different sizes");
  return a.dtype() == d ? a : a.builder->apply(Prim::bitcast, d, {a});
}
Expr lookup(int table, Expr index) {
  if (index.dtype() != Dtype::Int32 || size_t(table) >= tables().size()) fail(Prim::table, "needs a known table and an Int32 index");
  return index.builder->apply(Prim::table, tables()[size_t(table)].dtype, {index}, uint64_t(table));
}

}  // namespace frit::scalar
