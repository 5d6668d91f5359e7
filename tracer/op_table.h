// The op table as data: what ops.def says, one row an op.
#pragma once
#include "tracer/node.h"
#include "tracer/scalar.h"
#include "tracer/var.h"

namespace frit::tracer {

enum class RowKind : uint8_t { pointwise, source, view, alias, copy, reduce, product, convolution, pool, cat, gather, scatter, unslice, flip, scan, library, attention, companion };
enum class TypeRule : uint8_t {
  // pointwise: inputs promote to one compute type
  arithmetic, numeric /* no Bool */, counted /* Bool as Int64 */, floating /* integers compute in Float32 */, rounding /* integers pass through */, compare /* Bool
  result */, bits /* integers and Bool */, shifts /* integers */, choice /* first operand Bool, the others promote */,
  assign /* the first operand's type */,
  // structural
  leaf, kind, first, same, list, leading /* the first of a list */, sum /* integers and Bool to Int64 */, index /* Int64 */, truth /* Bool */
};

// The operands of a derivative: t (gradient or tangent), the inputs, the result.
struct Operands {
  const Operand &t, &a, &b, &c, &out;
};
struct OpRow {
  const char* name;
  int8_t inputs;  // -1: a list
  RowKind kind;
  TypeRule type;
  uint8_t saved;
  scalar::Expr (*expression)(scalar::Expr a, scalar::Expr b, scalar::Expr c);
  Var (*derivative[3])(const Operands&);  // null: no gradient flows there
  double low, high;                       // test domain
  uint8_t reads[3];                       // per derivative: which of `saved` it reads
};
extern const OpRow op_rows[size_t(Op::count)];
inline const OpRow& row(Op op) { return op_rows[size_t(op)]; }
// What recording reads of a row, close together.
inline constexpr int8_t op_inputs[] = {
#define UNARY(...) 1,
#define BINARY(...) 2,
#define TERNARY(...) 3,
#define STRUCTURAL(name, inputs, ...) inputs,
#include "tracer/ops.def"
};
inline constexpr RowKind op_kinds[] = {
#define UNARY(...) RowKind::pointwise,
#define BINARY(...) RowKind::pointwise,
#define TERNARY(...) RowKind::pointwise,
#define STRUCTURAL(name, inputs, shape, type, saved, kind) RowKind::kind,
#include "tracer/ops.def"
};
inline int8_t inputs_of(Op op) { return op_inputs[size_t(op)]; }
inline RowKind kind_of(Op op) { return op_kinds[size_t(op)]; }
inline const char* op_name(Op op) { return row(op).name; }
Op find_op(const char* name);  // Op::count when there is none

// The row's expression over `compute` (inputs 0, 1, 2; `where`'s first is Bool).
scalar::Function pointwise_function(Op op, Dtype compute);
// What `copy` makes of an element: scalar.h's convert, but a float beyond an integer type becomes its nearest number, and NaN 0.
scalar::Function copy_function(Dtype from, Dtype to);

}  // namespace frit::tracer
