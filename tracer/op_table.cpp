// The op table's data: every row of ops.def with its expression and derivatives as functions. Helpers that rows name and
// that are no scalar functions of their own stand here.
#include "tracer/op_table.h"
#include <cstring>
#include <limits>
#include "tracer/scalar_math.h"
#include "tracer/var.h"

namespace frit::tracer {

namespace expressions {
using namespace scalar;
Expr number(Expr like, double v) { return like.builder->constant(v, like.dtype()); }
Expr relu(Expr a) { return select(a <= 0.0, number(a, 0), a); }  // NaN stays
Expr truncated_quotient(Expr a, Expr b) { return is_floating(a.dtype()) ? trunc(a / b) : a / b; }
Expr power(Expr a, Expr b) { return pow(a, b); }
Expr logaddexp(Expr a, Expr b) {
  const Expr high = maximum(a, b), gap = abs(a - b);
  return select(a == b, high + 0.69314718055994530942, high + log1p(exp(-gap)));  // equal infinities have no gap
}
Expr gelu_tanh(Expr a) {
  return a * 0.5 * (tanh((a + a * a * a * 0.044715) * 0.79788456080286535588) + 1.0);
}
Expr finite_or(Expr a, Expr nan, Expr inf) {
  return select(a != a, nan, select(is_inf(a), select(a < 0.0, -inf, inf), a));
}
// Counts beyond the width shift everything out, as in LibTorch.
Expr shift_left(Expr a, Expr b) {
  const double width = double(size_of(a.dtype()) * 8);
  return select((b < 0.0) | (b >= width), number(a, 0), a << b);
}
Expr shift_right(Expr a, Expr b) {
  const double last = double(size_of(a.dtype()) * 8 - 1);
  const Expr all = is_signed(a.dtype()) ? a >> number(a, last) : number(a, 0);
  return select((b < 0.0) | (b > last), all, is_signed(a.dtype()) ? a >> b : ushr(a, b));
}
#define UNARY(name, type, saved, expression, ...) \
  static Expr row_##name([[maybe_unused]] Expr a, Expr, Expr) { return expression; }
#define BINARY(name, type, saved, expression, ...) \
  static Expr row_##name([[maybe_unused]] Expr a, [[maybe_unused]] Expr b, Expr) { return expression; }
#define TERNARY(name, type, saved, expression, ...) \
  static Expr row_##name([[maybe_unused]] Expr a, [[maybe_unused]] Expr b, [[maybe_unused]] Expr c) { return expression; }
#include "tracer/ops.def"
}  // namespace expressions

namespace derivatives {
// NOTHING makes the derivative's type std::nullptr_t, so that the row holds a null pointer.
#define NOTHING nullptr
template <class F> constexpr auto as_derivative(F f) -> Var (*)(const Operands&) {
  if constexpr (std::is_same_v<decltype(f(std::declval<const Operands&>())), std::nullptr_t>) return nullptr;
  else return +[](const Operands& o) -> Var { return Var(F{}(o)); };
}
inline Var to_var(const Operand& o) { return *o.var; }
inline Var to_var(Var v) { return v; }
inline std::nullptr_t to_var(std::nullptr_t) { return nullptr; }
#define DERIVATIVE(expression)                                                         \
  as_derivative([](const Operands& o) {                                                \
    [[maybe_unused]] const Operand &t = o.t, &a = o.a, &b = o.b, &c = o.c, &out = o.out; \
    return to_var(expression);                                                         \
  })
#define UNARY(name, type, saved, expression, da, low, high) \
  static Var (*const row_##name[3])(const Operands&) = {DERIVATIVE(da), nullptr, nullptr};
#define BINARY(name, type, saved, expression, da, db, low, high) \
  static Var (*const row_##name[3])(const Operands&) = {DERIVATIVE(da), DERIVATIVE(db), nullptr};
#define TERNARY(name, type, saved, expression, da, db, dc, low, high) \
  static Var (*const row_##name[3])(const Operands&) = {DERIVATIVE(da), DERIVATIVE(db), DERIVATIVE(dc)};
#include "tracer/ops.def"
}  // namespace derivatives

namespace {
// Which operands a derivative names: the words a, b, c and out in its text.
constexpr uint8_t reads(const char* text) {
  uint8_t mask = 0;
  const auto part = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; };
  for (const char* p = text; *p;) {
    const char* const start = p;
    while (part(*p)) ++p;
    if (p - start == 1 && *start >= 'a' && *start <= 'c') mask |= uint8_t(In0 << (*start - 'a'));
    if (p - start == 3 && start[0] == 'o' && start[1] == 'u' && start[2] == 't') mask |= Out;
    if (p == start) ++p;
  }
  return mask;
}
// A product's gradient in one operand reads the other, and so does a convolution's.
constexpr uint8_t structural_reads(RowKind kind, uint8_t saved, int k) {
  return kind == RowKind::product || kind == RowKind::convolution ? k == 0 ? In1 : k == 1 ? In0 : 0 : saved;
}

#define ROW(name, inputs, type, saved, low, high, ...)                                                      \
  {#name, inputs, RowKind::pointwise, TypeRule::type, saved, expressions::row_##name,                       \
   {derivatives::row_##name[0], derivatives::row_##name[1], derivatives::row_##name[2]}, low, high, {__VA_ARGS__}},
#define UNARY(name, type, saved, expression, da, low, high) ROW(name, 1, type, saved, low, high, reads(#da))
#define BINARY(name, type, saved, expression, da, db, low, high) ROW(name, 2, type, saved, low, high, reads(#da), reads(#db))
#define TERNARY(name, type, saved, expression, da, db, dc, low, high) ROW(name, 3, type, saved, low, high, reads(#da), reads(#db), reads(#dc))
#define STRUCTURAL(name, inputs, shape, type, saved, kind)                                                       \
  {#name, inputs, RowKind::kind, TypeRule::type, saved, nullptr, {nullptr, nullptr, nullptr}, -3, 3, \
   {structural_reads(RowKind::kind, saved, 0), structural_reads(RowKind::kind, saved, 1), structural_reads(RowKind::kind, saved, 2)}},
}  // namespace

constinit const OpRow op_rows[] = {
#include "tracer/ops.def"
};

Op find_op(const char* name) {
  for (size_t i = 0; i < size_t(Op::count); ++i)
    if (!std::strcmp(op_rows[i].name, name)) return Op(i);
  return Op::count;
}

scalar::Function pointwise_function(Op op, Dtype compute) {
  scalar::Builder b;
  const OpRow& r = row(op);
  const bool choice = r.type == TypeRule::choice;
  // Arithmetic and comparison of booleans happen in Int32: true + true is true again.
  const bool widened = compute == Dtype::Bool && r.type != TypeRule::bits && r.type != TypeRule::assign && r.type != TypeRule::choice;
  const auto operand = [&](int k) {
    const scalar::Expr e = b.input(k, choice && k == 0 ? Dtype::Bool : compute);
    return widened ? scalar::convert(e, Dtype::Int32) : e;
  };
  const scalar::Expr first = operand(0), second = r.inputs > 1 ? operand(1) : first, third = r.inputs > 2 ? operand(2) : first;
  const scalar::Expr result = r.expression(first, second, third);
  return b.finish({widened ? scalar::convert(result, Dtype::Bool) : result});
}

scalar::Function copy_function(Dtype from, Dtype to) {
  scalar::Builder b;
  const scalar::Expr a = b.input(0, compute_dtype(from)), plain = scalar::convert(a, compute_dtype(to));
  if (!is_floating(from) || !is_integral(to)) return b.finish({plain});
  return dispatch(to, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      constexpr T high = std::numeric_limits<T>::max(), low = std::numeric_limits<T>::min();
      const auto number = [&](T v) { return b.bits(uint64_t(int64_t(v)), to); };
      const scalar::Expr within = scalar::select(a <= double(low), number(low), plain);
      return b.finish({scalar::select(a != a, number(0), scalar::select(a >= double(high), number(high), within))});
    } else {
      return b.finish({plain});
    }
  });
}

}  // namespace frit::tracer
