// Attention and its gradients as block programs (the meaning: tracer/attention.h). They never make the scores' matrix.
#pragma once
#include "kernels/program.h"

namespace frit::kernels {

struct AttentionKind {
  enum class Mask : uint8_t { none, choice, added };
  Dtype storage = Dtype::Float32;
  Mask mask = Mask::none;
  Dtype mask_type = Dtype::Bool;
  bool causal = false, dropout = false;
  bool logsumexp = false;  // forward: stored
  bool operator==(const AttentionKind&) const = default;
};

// Parameters that both programs begin with, in this order. Tables give the offset of each matrix: of query, mask and whatever has the
// query's rows by instance, of key and value by group. Pointers that the kind has no use for are there all the same.
enum class AttentionSlot : uint8_t {
  query, key, value, mask,                          // pointers
  query_at, key_at, value_at, mask_at,              // tables, Int64
  query_row, query_column, key_row, key_column, value_row, value_column, mask_row, mask_column,
  instances, share, queries, keys, depth, width,    // as in AttentionProblem
  scale, rate, factor, seed, stream,                // numbers: the compute type; Float32; 1 / (1 - rate) in the compute type; Int64
  count
};
// Forward: after them pointers to the result [instances, queries, width] and the parts of the logsumexp, m and log(l) of tracer/attention.h, [instances, queries, 2].
Program attention_forward(const AttentionKind& kind);
// Gradient: after them pointers to the result, its gradient (storage), their tables, rows and columns (result_at, gradient_at, result_row,
// result_column, gradient_row, gradient_column), the logsumexp; then what is written, in the compute type: the query's gradient
// [instances, queries, depth], the key's and the value's [groups, keys, ...], both zeros before.
Program attention_gradient(const AttentionKind& kind);

}  // namespace frit::kernels
