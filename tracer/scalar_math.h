// Scalar functions, written once over the primitives of scalar.h, for Float32 and Float64. Each is branch-free; its error
// in ulp over its domain is stated in the op table and measured by a test. Special values follow C's <math.h>.
#pragma once
#include "tracer/scalar.h"

namespace frit::scalar {

// NaN-propagating; minimum(-0,+0) = -0, maximum(-0,+0) = +0 whichever comes first.
Expr minimum(Expr a, Expr b);
Expr maximum(Expr a, Expr b);
Expr is_nan(Expr a);
Expr is_inf(Expr a);
Expr is_finite(Expr a);
Expr copysign(Expr magnitude, Expr sign);
Expr sign(Expr a);

Expr exp(Expr a);
Expr exp2(Expr a);
Expr expm1(Expr a);
Expr log(Expr a);
Expr log2(Expr a);
Expr log10(Expr a);
Expr log1p(Expr a);
Expr sin(Expr a);
Expr cos(Expr a);
Expr tan(Expr a);
Expr asin(Expr a);
Expr acos(Expr a);
Expr atan(Expr a);
Expr atan2(Expr y, Expr x);
Expr sinh(Expr a);
Expr cosh(Expr a);
Expr tanh(Expr a);
Expr asinh(Expr a);
Expr acosh(Expr a);
Expr atanh(Expr a);
Expr erf(Expr a);
Expr erfc(Expr a);
Expr lgamma(Expr a);
Expr digamma(Expr a);
Expr pow(Expr a, Expr b);    // integers too: wraps; negative exponents truncate
Expr sigmoid(Expr a);
Expr softplus(Expr a);      // log(1 + exp(a)), no overflow
Expr gelu(Expr a);          // a * Phi(a), by erfc: no cancellation in the negative tail
Expr fmod(Expr a, Expr b);  // C's; exact for float32, for float64 with |a/b| < 2^300, and for integers
Expr floor_divide(Expr a, Expr b);  // floor of the exact quotient; integers too (x//0 = 0)
Expr remainder(Expr a, Expr b);     // sign of the divisor; integers too

// Philox4x32-10 of counter (index, stream) under the seed: word `lane` (0..3). All operands Int64.
struct Random4 { Expr word[4]; };  // Int32
Random4 philox(Expr seed, Expr stream, Expr counter);
Expr uniform_from_bits(Expr word32, Dtype d);                     // [0, 1), 24 bits for Float32
Expr uniform_from_bits(Expr high32, Expr low32, Dtype d);         // [0, 1), 53 bits for Float64
Expr normal_from_bits(Expr word_a, Expr word_b, Dtype d);         // Box-Muller, cosine branch

}  // namespace frit::scalar
