// Sums of products by Einstein's notation, and the order in which products of many operands are cheapest.
#pragma once
#include "frit/functions.h"

namespace frit {

// "ij,jk->ik": a letter (a-z, A-Z) names an axis of each operand; what is not in the output is summed. A letter twice in one
// operand takes the diagonal. "..." stands for any axes, aligned from the right and broadcast. Without "->" the output has
// the ellipsis' axes, then the letters that occur once, sorted. Extents of one letter must be equal or 1. Any number of
// operands: up to 10 are contracted in the order of fewest multiplications, more greedily.
Tensor einsum(const std::string& equation, const TensorList& operands);

// The order einsum takes: each step contracts two results (operands are 0, 1, …; step k makes operand count + k).
struct EinsumPath {
  std::vector<std::pair<int, int>> steps;
  double multiplications = 0;
};
EinsumPath einsum_path(const std::string& equation, const TensorList& operands);

// Contracts axes_a of a with axes_b of b, pair by pair; the others follow in order.
Tensor tensordot(const Tensor& a, const Tensor& b, IntArrayRef axes_a, IntArrayRef axes_b);

namespace linalg {
Tensor multi_dot(const TensorList& matrices);  // the product in its cheapest order; the first and last may be vectors
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor vecdot(const Tensor& a, const Tensor& b, int64_t axis = -1);
Tensor norm(const Tensor& a, const std::optional<Scalar>& order = std::nullopt, OptionalIntArrayRef axes = std::nullopt, bool keepdim = false,
            std::optional<Dtype> type = std::nullopt);  // of vectors, or (two axes) of matrices: 1, -1, inf, -inf
Tensor norm(const Tensor& a, const std::string& order, OptionalIntArrayRef axes = std::nullopt, bool keepdim = false, std::optional<Dtype> type = std::nullopt);  // "fro"
Tensor vector_norm(const Tensor& a, const Scalar& order = 2, OptionalIntArrayRef axes = std::nullopt, bool keepdim = false, std::optional<Dtype> type = std::nullopt);
Tensor matrix_norm(const Tensor& a, const Scalar& order, IntArrayRef axes = {-2, -1}, bool keepdim = false, std::optional<Dtype> type = std::nullopt);
Tensor matrix_norm(const Tensor& a, const std::string& order = "fro", IntArrayRef axes = {-2, -1}, bool keepdim = false, std::optional<Dtype> type = std::nullopt);
// Text in quotes: as a pointer it would convert to a number too.
inline Tensor norm(const Tensor& a, const char* order, OptionalIntArrayRef axes = std::nullopt, bool keepdim = false, std::optional<Dtype> type = std::nullopt) {
  return norm(a, std::string(order), axes, keepdim, type);
}
inline Tensor matrix_norm(const Tensor& a, const char* order, IntArrayRef axes = {-2, -1}, bool keepdim = false, std::optional<Dtype> type = std::nullopt) {
  return matrix_norm(a, std::string(order), axes, keepdim, type);
}
Tensor diagonal(const Tensor& a, int64_t offset = 0, int64_t axis1 = -2, int64_t axis2 = -1);
}  // namespace linalg

}  // namespace frit
