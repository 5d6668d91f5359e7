// Pieces shared by the files that write the scalar functions: polynomials, powers of two, the cores of exp and log, and
// the reduction of large angles. Not an interface for other parts.
#pragma once
#include <cstddef>

#include "tracer/scalar.h"
#include "tracer/scalar_math.h"

namespace frit::scalar::detail {

inline bool is_single(Expr a) { return a.dtype() == Dtype::Float32; }
inline Dtype bits_type(Dtype d) { return d == Dtype::Float32 ? Dtype::Int32 : Dtype::Int64; }
inline Expr bits_of(Expr a) { return bitcast(a, bits_type(a.dtype())); }
inline Expr float_of(Expr bits) { return bitcast(bits, bits.dtype() == Dtype::Int32 ? Dtype::Float32 : Dtype::Float64); }
inline Expr like(Expr a, double value) { return a.builder->constant(value, a.dtype()); }
inline Expr integer_like(Expr bits, uint64_t value) { return bits.builder->bits(value, bits.dtype()); }
inline double infinity() { return __builtin_inf(); }

// c[0] + c[1] x + … by Horner's rule.
template <size_t n> Expr polynomial(Expr x, const double (&c)[n]) {
  Expr p = like(x, c[n - 1]);
  for (size_t k = n - 1; k-- > 0;) p = fma(p, x, like(x, c[k]));
  return p;
}

Expr sign_bit(Expr a);                  // the sign alone, as an integer
Expr with_sign(Expr a, Expr sign);      // a (not negative) with the sign bits of `sign`, an integer from sign_bit, set
Expr minus_abs(Expr a);                 // -|a|

// x = n ln 2 + r, |r| <= ln 2 / 2. n is held as a float and in the low bits of an integer whose other bits are noise that
// shifts away. Right for |n| < 2^20.
struct Reduced {
  Expr n, bits, r;
};
Reduced reduce_ln2(Expr x);
Expr expm1_core(Expr r);                // e^r - 1 for |r| <= ln 2 / 2
Expr power_of_two(Expr bits, int add = 0);  // 2^(n + add) as a normal number, from Reduced::bits

Expr exp2_pair(Expr high, Expr low);     // 2^(high + low), low far smaller; |high| < 2^20

// log(m 2^k) pieces of a positive normal number: m in [2/3, 4/3) (Float32) or [sqrt 1/2, sqrt 2) (Float64), f = m - 1.
struct Split {
  Expr k, f;
};
Split split_exponent(Expr positive);    // subnormals included
Expr log_positive(Expr a);              // log of a positive finite number
Expr log1p_positive(Expr a);            // a >= 0; infinity gives infinity

Expr sin_polynomial(Expr r);            // sin(r), |r| <= pi / 2; the sign of zero is lost
Expr tan_polynomial(Expr r);            // tan(r), |r| <= pi / 4; likewise

// f in [-1/2, 1/2] and n with |x| * units / pi + shift = n + f (mod 2), for any finite x whose magnitude is large (a NaN, or an
// infinity, gives NaN). Float64 whatever x is. For the rare side of a select.
struct Angle {
  Expr n, f;
};
Angle reduce_large_angle(Expr x, double units, double shift);

}  // namespace frit::scalar::detail
