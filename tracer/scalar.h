// Scalar expressions: what a pointwise row computes for one element. A row's expression is written once, with the Expr
// operators below; building it appends to a small graph (Function), and the interpreter and both code generators
// expand that graph. So a pointwise result has the same bits everywhere.
//
// Types inside an expression: Bool, UInt8, Int8, Int16, Int32, Int64, Float32, Float64. Half formats exist only in
// memory: rows convert on load and round once on store.
//
// Every primitive is exactly defined:
//   integers wrap; div and rem truncate, x/0 = 0, x rem 0 = 0, MIN/-1 = MIN, MIN rem -1 = 0
//   min(a,b) = a < b ? a : b, max(a,b) = a > b ? a : b (so b when either is NaN, and b of two zeros)
//   lt, le, eq are false and ne is true on NaN
//   shl, shr: shift counts are taken modulo the width (32 for types up to Int32, 64 for Int64); shr is arithmetic for
//   signed types, ushr logical on the type's own width
//   convert: to a float rounds to nearest even; float to Int32/Int64 truncates, and gives MIN when out of range or NaN;
//   float to a narrower integer goes through Int32 and wraps; anything to Bool is != 0; Bool to anything is 0 or 1
//   rint and the roundings to half formats go to nearest even; fma rounds once; div and sqrt are correctly rounded; denormals are kept
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>
#include "runtime/dtype.h"

namespace frit::scalar {

// name, number of operands
#define FRIT_FOR_EACH_PRIM(X)                                                                                       \
  X(input, 0)    /* imm: operand number */                                                                          \
  X(param, 0)    /* imm: scalar argument number, bound at run time */                                               \
  X(constant, 0) /* imm: the value's bits in its own type */                                                        \
  X(add, 2) X(sub, 2) X(mul, 2) X(div, 2) X(rem, 2) X(fma, 3) /* a*b+c */ X(neg, 1) X(abs, 1) X(sqrt, 1)            \
  X(min, 2) X(max, 2) X(floor, 1) X(ceil, 1) X(trunc, 1) X(rint, 1)                                                 \
  X(round_float16, 1) X(round_bfloat16, 1) /* Float32 to the nearest value of the half format, as Float32 */         \
  X(bit_and, 2) X(bit_or, 2) X(bit_xor, 2) X(bit_not, 1) X(shl, 2) X(shr, 2) X(ushr, 2)                             \
  X(mulhi_u32, 2) /* Int32 operands taken as unsigned: high half of the product */                                  \
  X(eq, 2) X(ne, 2) X(lt, 2) X(le, 2) /* Bool results; dtype of the comparison is that of the operands */           \
  X(select, 3)  /* Bool, a, b; imm 1: a is rarely chosen (a hint only) */                                            \
  X(convert, 1) X(bitcast, 1) /* Int32 <-> Float32, Int64 <-> Float64 */                                            \
  X(table, 1)   /* imm: table number (tables()), operand: Int32 index in range */

enum class Prim : uint8_t {
#define X(name, arity) name,
  FRIT_FOR_EACH_PRIM(X)
#undef X
};
const char* prim_name(Prim p);
int prim_arity(Prim p);

struct Node {
  Prim prim;
  Dtype dtype;  // of the result
  uint16_t in[3] = {0, 0, 0};
  uint64_t imm = 0;
  bool operator==(const Node&) const = default;
};

// Nodes are in dependency order; results name nodes.
struct Function {
  std::vector<Node> nodes;
  std::vector<uint16_t> results;
  std::string text() const;  // one line a node; for golden tests
};

// A constant table read by Prim::table. Tables live for ever at fixed addresses.
struct Table {
  const char* name;
  Dtype dtype;
  const void* data;
  uint32_t size;
};
const std::vector<Table>& tables();

class Builder;
// A value under construction. Operators need equal types on both sides; plain numbers convert to the other side's type.
struct Expr {
  Builder* builder = nullptr;
  uint16_t id = 0;
  Dtype dtype() const;
};

class Builder {
 public:
  Expr input(int k, Dtype d) { return push({Prim::input, d, {}, uint64_t(k)}); }
  Expr param(int k, Dtype d) { return push({Prim::param, d, {}, uint64_t(k)}); }
  Expr constant(double value, Dtype d);             // rounded to d
  Expr bits(uint64_t value, Dtype d) { return push({Prim::constant, d, {}, value}); }
  Expr apply(Prim p, Dtype result, std::initializer_list<Expr> in, uint64_t imm = 0);
  Expr push(const Node& n);                         // equal nodes are shared
  Function finish(std::initializer_list<Expr> results);
  const Node& node(uint16_t id) const { return function_.nodes[id]; }

 private:
  size_t free_slot(const Node& n) const;
  Function function_;
  std::vector<uint16_t> slots_;  // hash table of node numbers
};
inline Dtype Expr::dtype() const { return builder->node(id).dtype; }

// ---- operators --------------------------------------------------------------------------------------------------
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator%(Expr a, Expr b);  // rem
Expr operator-(Expr a);
Expr operator&(Expr a, Expr b);
Expr operator|(Expr a, Expr b);
Expr operator^(Expr a, Expr b);
Expr operator~(Expr a);
Expr operator<<(Expr a, Expr b);
Expr operator>>(Expr a, Expr b);
Expr operator==(Expr a, Expr b);
Expr operator!=(Expr a, Expr b);
Expr operator<(Expr a, Expr b);
Expr operator<=(Expr a, Expr b);
Expr operator>(Expr a, Expr b);   // b < a
Expr operator>=(Expr a, Expr b);
#define FRIT_MIXED(op)                                                                                     \
  inline Expr operator op(Expr a, double b) { return a op a.builder->constant(b, a.dtype()); }             \
  inline Expr operator op(double a, Expr b) { return b.builder->constant(a, b.dtype()) op b; }
FRIT_MIXED(+) FRIT_MIXED(-) FRIT_MIXED(*) FRIT_MIXED(/) FRIT_MIXED(%) FRIT_MIXED(&) FRIT_MIXED(|) FRIT_MIXED(^) FRIT_MIXED(<<)
FRIT_MIXED(>>) FRIT_MIXED(==) FRIT_MIXED(!=) FRIT_MIXED(<) FRIT_MIXED(<=) FRIT_MIXED(>) FRIT_MIXED(>=)
#undef FRIT_MIXED
// Primitives by name (the raw ones of the table above).
Expr fma(Expr a, Expr b, Expr c);
Expr fma(Expr a, Expr b, double c);
Expr fma(Expr a, double b, Expr c);
Expr fma(Expr a, double b, double c);
Expr abs(Expr a);
Expr sqrt(Expr a);
Expr min_raw(Expr a, Expr b);
Expr max_raw(Expr a, Expr b);
Expr floor(Expr a);
Expr ceil(Expr a);
Expr trunc(Expr a);
Expr rint(Expr a);
Expr ushr(Expr a, Expr b);
Expr ushr(Expr a, double b);
Expr mulhi_u32(Expr a, Expr b);
Expr select(Expr cond, Expr a, Expr b);
Expr select(Expr cond, Expr a, double b);
Expr select(Expr cond, double a, Expr b);
// The same value, with the hint that cond is almost always false: a generator may skip what only `rare` needs.
Expr select_rare(Expr cond, Expr rare, Expr usual);
Expr convert(Expr a, Dtype d);
Expr bitcast(Expr a, Dtype d);
Expr lookup(int table, Expr index);

// Evaluates a function for one element: the oracle. Values are bit patterns in the node's own type (sign- or
// zero-extended to 64 bits; Bool is 0 or 1). `scratch` is resized to nodes.size() and may be reused.
void evaluate(const Function& f, const uint64_t* inputs, const uint64_t* params, uint64_t* results, std::vector<uint64_t>& scratch);
// The same for `count` elements: inputs[k] and results[k] point at count values each; params are shared.
void evaluate_block(const Function& f, const uint64_t* const* inputs, const uint64_t* params, uint64_t* const* results, size_t count,
                    std::vector<uint64_t>& scratch);

}  // namespace frit::scalar
