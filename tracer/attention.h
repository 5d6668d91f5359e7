// The attention row's meaning, for whoever computes it. With T the type in which the storage type computes, for each query row i:
//
//   q'    = q * scale, rounded to T
//   over key blocks of 64 keys in ascending order (causal: those whose first key is not after i), m = -inf, l = 0, acc = 0 before:
//     s_j = dot(q', k_j), then + mask, or -inf where a boolean mask or causality (j > i) forbids the key
//     m'  = max(m, max_j s_j)                      safe = m' or, where that is -inf, 0
//     p_j = e(s_j - safe), a = e(m - safe)
//     l   = l * a + sum_j p_j                      (the sum in the order of reductions, the key's index within its block counting)
//     p_j = where(u_j >= dropout, p_j * (1 / (1 - dropout)), 0)   with dropout: u is random_uniform's float32 at the element's index in the scores
//     acc = acc * a + dot(p, v);  m = m'
//   result = acc / l, 0 where l is 0; kept for the gradients: m, +inf where l is 0, and log(l), 0 there. (Their sum would lose log(l) where a mask
//   puts every score of a row far below.)
//
// e(x) is exp(x), but 0 where x < lowest_exponent: exp is no subnormal number there yet, and these are slow.
// dot is DESIGN section 4's chain of fmas from +0 in ascending order, panels of 256 added in order (also where there is one row).
// The gradients, with g the result's gradient: d_i = sum_e g * result (a reduction; of the rounded result), then over query heads in ascending order,
// within each over query blocks of 64 rows, for each key block as above
//     p = e((s - m) - log(l)), z = p, or dropped as above;  dp = dot(g, v), dropped likewise;  ds = p * (dp - d)
//     dv += dot(z^T, g);  dk += dot(ds^T, q');  dq += dot(ds, k)      all from +0;  dq = dq * scale in the end
// so that nothing depends on threads, layout or mode. Half formats are widened when they are read and rounded once, at the end.
#pragma once
#include <vector>
#include "tracer/trace.h"

namespace frit::tracer {

constexpr int64_t attention_block = 64;
constexpr double lowest_exponent(Dtype compute) { return compute == Dtype::Float64 ? -708 : -87; }
enum AttentionForm : uint64_t { causal_attention = 1, attention_dropout = 2, grouped_attention = 4 };

// One node's problem: extents, numbers, and where the matrices lie. Offsets are in elements from the values' data().
struct AttentionProblem {
  Dtype storage, compute;
  bool causal, dropout;
  enum class Mask : uint8_t { none, choice, added } mask;
  int64_t instances = 1;              // leading extents of the result: batch and heads
  int64_t share = 1;                  // query heads that share one of key and value
  int64_t queries, keys, depth, width;  // L, S, E, and the values' last extent
  double scale, rate;
  uint64_t seed, stream;
  struct Matrix { int64_t row, column; std::vector<int64_t> at; };  // by instance; of key and value by instance / share
  Matrix query, key, value, masks, result, gradient;
};
// result and gradient are filled in for attention_gradient.
AttentionProblem attention_problem(const Trace& t, uint32_t n, Value* const* inputs);

}  // namespace frit::tracer
