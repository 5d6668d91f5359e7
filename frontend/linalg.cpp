// linalg: chains of matrices in their cheapest order, and norms of vectors and matrices. What needs a decomposition is not
// here. Start at multi_dot.
#include <cmath>
#include <limits>
#include "frit/einsum.h"
#include "frontend/detail.h"
#include "runtime/error.h"

namespace frit::linalg {

using namespace frit::detail;

namespace {
// The product of matrices i..j, split where the table says.
Tensor chain(const TensorList& m, const std::vector<std::vector<size_t>>& split, size_t i, size_t j) {
  if (i == j) return m[i];
  return chain(m, split, i, split[i][j]).mm(chain(m, split, split[i][j] + 1, j));
}
}  // namespace

Tensor multi_dot(const TensorList& given) {
  if (given.size() < 2) throw ValueError("multi_dot: " + std::to_string(given.size()) + " tensors are given. Give at least 2.");
  TensorList m = given;
  const size_t n = m.size();
  for (const Tensor& t : m) cell_of(t, "multi_dot");
  const bool row = m.front().dim() == 1, column = m.back().dim() == 1;
  if (row) m.front() = m.front().unsqueeze(0);
  if (column) m.back() = m.back().unsqueeze(1);
  for (size_t k = 0; k < n; ++k) {
    if (m[k].dim() != 2)
      throw ShapeError("multi_dot: tensor " + std::to_string(k) + " has shape " + shape_text(given[k].sizes()) + ". Matrices are needed; the first and the last may be vectors.");
    if (k && m[k].sizes()[0] != m[k - 1].sizes()[1])
      throw ShapeError("multi_dot: tensors " + std::to_string(k - 1) + " and " + std::to_string(k) + " have shapes " + shape_text(given[k - 1].sizes()) + " and " + shape_text(given[k].sizes()) +
                       ". The columns of each must be the rows of the next.");
  }
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<size_t>> split(n, std::vector<size_t>(n, 0));
  for (size_t length = 2; length <= n; ++length)
    for (size_t i = 0; i + length <= n; ++i) {
      const size_t j = i + length - 1;
      cost[i][j] = std::numeric_limits<double>::infinity();
      for (size_t s = i; s < j; ++s) {
        const double c = cost[i][s] + cost[s + 1][j] + double(m[i].sizes()[0]) * double(m[s].sizes()[1]) * double(m[j].sizes()[1]);
        if (c < cost[i][j]) cost[i][j] = c, split[i][j] = s;
      }
    }
  Tensor p = chain(m, split, 0, n - 1);
  if (column) p = p.squeeze(1);
  return row ? p.squeeze(0) : p;
}
Tensor matmul(const Tensor& a, const Tensor& b) { return a.matmul(b); }
Tensor vecdot(const Tensor& a, const Tensor& b, int64_t axis) { return a.mul(b).sum(axis); }
Tensor diagonal(const Tensor& a, int64_t offset, int64_t axis1, int64_t axis2) { return a.diagonal(offset, axis1, axis2); }

Tensor vector_norm(const Tensor& a, const Scalar& order, OptionalIntArrayRef axes, bool keepdim, std::optional<Dtype> type) {
  if (!a.is_floating_point()) throw DtypeError(std::string("vector_norm: the tensor holds ") + dtype_name(a.dtype()) + "; a floating type is needed. Convert with to(kFloat32).");
  return a.norm(order, axes.has_value() ? axes.value() : IntArrayRef(), keepdim, type);
}
Tensor matrix_norm(const Tensor& a, const Scalar& order, IntArrayRef axes, bool keepdim, std::optional<Dtype> type) {
  if (a.dim() < 2 || axes.size() != 2) throw ShapeError("matrix_norm: " + std::to_string(axes.size()) + " axes of " + shape_text(a.sizes()) + " are named. Two axes are needed.");
  const double p = order.to_double();
  const bool rows = std::abs(p) == std::numeric_limits<double>::infinity();
  if (!rows && std::abs(p) != 1)
    throw ValueError("matrix_norm: order " + std::to_string(p) + " is not known. Use 1, -1, inf, -inf or \"fro\"; others need singular values.");
  int r = wrap_axis(axes[0], a.dim(), "matrix_norm"), c = wrap_axis(axes[1], a.dim(), "matrix_norm");
  if (r == c) throw ValueError("matrix_norm: axis " + std::to_string(r) + " is named twice. Name two axes.");
  if (rows) std::swap(r, c);
  const Tensor sums = (type ? a.to(*type) : a).abs().sum(r, true);
  const Tensor best = p > 0 ? sums.amax(c, true) : sums.amin(c, true);
  return keepdim ? best : best.squeeze(IntArrayRef(std::vector<int64_t>{r, c}));
}
Tensor matrix_norm(const Tensor& a, const std::string& order, IntArrayRef axes, bool keepdim, std::optional<Dtype> type) {
  if (order != "fro") throw ValueError("matrix_norm: order \"" + order + "\" is not known. Use \"fro\", or a number.");
  if (a.dim() < 2 || axes.size() != 2) throw ShapeError("matrix_norm: " + std::to_string(axes.size()) + " axes of " + shape_text(a.sizes()) + " are named. Two axes are needed.");
  return a.norm(Scalar(2), axes, keepdim, type);
}
Tensor norm(const Tensor& a, const std::optional<Scalar>& order, OptionalIntArrayRef axes, bool keepdim, std::optional<Dtype> type) {
  const bool matrix = order && (axes.has_value() ? axes.value().size() == 2 : a.dim() == 2);
  if (order && !axes.has_value() && a.dim() > 2) throw ShapeError("norm: an order for a tensor of shape " + shape_text(a.sizes()) + " needs one or two axes. Name them.");
  if (matrix) return matrix_norm(a, *order, axes.has_value() ? axes.value() : IntArrayRef({-2, -1}), keepdim, type);
  return vector_norm(a, order.value_or(2), axes, keepdim, type);
}
Tensor norm(const Tensor& a, const std::string& order, OptionalIntArrayRef axes, bool keepdim, std::optional<Dtype> type) {
  return matrix_norm(a, order, axes.has_value() ? axes.value() : IntArrayRef({-2, -1}), keepdim, type);
}

}  // namespace frit::linalg
