// Random rows over Philox: the counter is the element's index, so that an element's value is a function of (seed, stream,
// index) alone. Start at random_function.
#include "tracer/random.h"
#include "runtime/error.h"
#include "tracer/scalar_math.h"

namespace frit::tracer {

namespace {
using namespace scalar;

Expr low_word(Expr w) { return convert(w, Dtype::Int64) & w.builder->bits(0xffffffff, Dtype::Int64); }

// A half format takes only as many bits as it has, so that rounding never makes 1.
Expr uniform(const Random4& r, Dtype d) {
  if (d == Dtype::Float64) return uniform_from_bits(r.word[0], r.word[1], d);
  if (!is_half(d)) return uniform_from_bits(r.word[0], Dtype::Float32);
  const int bits = d == Dtype::Float16 ? 11 : 8;
  return convert(ushr(r.word[0], 32 - bits), Dtype::Float32) * (1.0 / (1 << bits));
}
// Box-Muller; Float64 spends all four words, 53 bits each on radius and angle.
Expr normal(const Random4& r, Dtype d) {
  if (d != Dtype::Float64) return normal_from_bits(r.word[0], r.word[1], Dtype::Float32);
  const Expr radius = 1.0 - uniform_from_bits(r.word[0], r.word[1], d), angle = uniform_from_bits(r.word[2], r.word[3], d);
  return sqrt(log(radius) * -2.0) * cos(angle * 6.28318530717958647693);
}
Expr less_unsigned(Expr a, Expr b) {
  const Expr top = a.builder->bits(uint64_t(1) << 63, Dtype::Int64);
  return (a ^ top) < (b ^ top);
}
// bits mod span, both unsigned. Signed division reaches it through half the dividend; a span of 2^63 or more is taken
// away at most once.
Expr modulo(Expr bits, Expr span) {
  const Expr half = ushr(bits, 1) % span;
  const Expr twice = half + half + (bits & 1);
  const Expr small = select(less_unsigned(twice, span), twice, twice - span);
  return select(span < 0.0, select(less_unsigned(bits, span), bits, bits - span), small);
}
}  // namespace

Function random_function(Op op, Dtype d) {
  Builder b;
  const Expr index = b.input(0, Dtype::Int64), seed = b.param(0, Dtype::Int64), stream = b.param(1, Dtype::Int64);
  const Random4 r = philox(seed, stream, index);
  switch (op) {
    case Op::random_uniform: return b.finish({convert(uniform(r, d), compute_dtype(d))});
    case Op::random_normal: return b.finish({convert(normal(r, d), compute_dtype(d))});
    case Op::random_integer: {
      const Expr bits = (low_word(r.word[0]) << 32) | low_word(r.word[1]);
      return b.finish({convert(b.param(2, Dtype::Int64) + modulo(bits, b.param(3, Dtype::Int64)), compute_dtype(d))});
    }
    default: throw InternalError("random_function: no random row");
  }
}

Function arange_function(bool floating, Dtype d) {
  Builder b;
  const Dtype t = floating ? Dtype::Float64 : Dtype::Int64;
  const Expr index = convert(b.input(0, Dtype::Int64), t);
  return b.finish({convert(b.param(0, t) + index * b.param(1, t), compute_dtype(d))});
}

}  // namespace frit::tracer
