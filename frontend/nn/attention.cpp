// Attention composed of products and a softmax. Grouped heads are an axis of their own, so that keys and values are not copied for
// each head of the query. Start at scaled_dot_product_attention.
#include "frit/nn/attention.h"
#include <cmath>
#include <limits>
#include "frit/autograd.h"
#include "frontend/nn/windows.h"
#include "runtime/error.h"

namespace frit {

using detail::shape_text;
using detail::Sizes;

namespace {

constexpr const char* op = "scaled_dot_product_attention";
constexpr double infinity = std::numeric_limits<double>::infinity();

std::string shapes_text(const Sizes& q, const Sizes& k, const Sizes& v) { return "query " + shape_text(q) + ", key " + shape_text(k) + ", value " + shape_text(v); }

// Returns how many heads of the query share one of the keys'.
int64_t check_operands(const Tensor& query, const Tensor& key, const Tensor& value, bool enable_gqa) {
  const Sizes q = nn::shape_of(query, op), k = nn::shape_of(key, op), v = nn::shape_of(value, op);
  const std::string shapes = shapes_text(q, k, v);
  nn::check_floating(query, op);
  if (query.dtype() != key.dtype() || query.dtype() != value.dtype())
    throw DtypeError(std::string(op) + ": the query holds " + dtype_name(query.dtype()) + ", the key " + dtype_name(key.dtype()) + ", the value " + dtype_name(value.dtype()) + ". Convert them to one type with to().");
  if (q.size() < 2 || k.size() < 2 || v.size() < 2) throw ShapeError(std::string(op) + ": " + shapes + ". Give [..., length, dimension] each.");
  if (q.back() != k.back()) throw ShapeError(std::string(op) + ": " + shapes + ". Query and key need the same last extent.");
  if (k[k.size() - 2] != v[v.size() - 2]) throw ShapeError(std::string(op) + ": " + shapes + ". Key and value need the same length, axis -2.");
  if (!enable_gqa) return 1;
  if (q.size() < 3 || k.size() < 3 || v.size() < 3) throw ShapeError(std::string(op) + ": " + shapes + " with enable_gqa. Give [..., heads, length, dimension] each.");
  const int64_t heads = q[q.size() - 3], groups = k[k.size() - 3];
  if (groups != v[v.size() - 3] || groups == 0 || heads % groups)
    throw ShapeError(std::string(op) + ": " + shapes + " with enable_gqa. Key and value need as many heads, axis -3, and these must divide the query's.");
  return heads / groups;
}
void check_mask(const Tensor& mask, const Tensor& query, const Sizes& scores) {
  const Sizes m = nn::shape_of(mask, op);
  bool fits = m.size() <= scores.size();
  for (size_t i = 0; fits && i < m.size(); ++i) fits = m[m.size() - 1 - i] == 1 || m[m.size() - 1 - i] == scores[scores.size() - 1 - i];
  if (!fits) throw ShapeError(std::string(op) + ": the mask has shape " + shape_text(m) + ", the scores " + shape_text(scores) + ". Give a mask that broadcasts to the scores.");
  if (mask.dtype() != kBool && mask.dtype() != query.dtype() && mask.dtype() != kFloat32)
    throw DtypeError(std::string(op) + ": the mask holds " + dtype_name(mask.dtype()) + ". Give bool, float32 or the query's type, " + dtype_name(query.dtype()) + ".");
}
// Probabilities; rows of -inf alone become zeros, without a gradient (softmax would make them NaN).
Tensor softmax_or_zero(const Tensor& scores) {
  if (tracer::sizes_of(scores.cell()).back() == 0) return scores.softmax(-1);
  Tensor dead;
  {
    NoGradGuard no_grad;
    dead = scores.detach().amax(-1, true).eq(Scalar(-infinity));
  }
  return frit::where(dead, Scalar(0.0), frit::where(dead, Scalar(0.0), scores).softmax(-1));
}
// [..., heads, L, E] with its heads in groups: [..., heads / share, share, L, E].
Tensor grouped(const Tensor& t, int64_t share) {
  const Sizes s = tracer::sizes_of(t.cell());
  return t.unflatten(-3, {s[s.size() - 3] / share, share});
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, bool enable_gqa) {
  const int64_t share = check_operands(query, key, value, enable_gqa);
  const bool masked = attn_mask && attn_mask->defined();
  if (masked && is_causal) throw ValueError(std::string(op) + ": both attn_mask and is_causal are given. Give one; a mask may be made causal with tril().");
  if (!(dropout_p >= 0 && dropout_p <= 1)) throw ValueError(std::string(op) + ": dropout_p is " + std::to_string(dropout_p) + ". Choose one between 0 and 1.");
  if (is_half(query.dtype())) {
    std::optional<Tensor> wide = attn_mask;
    if (masked && attn_mask->dtype() != kBool) wide = attn_mask->to(kFloat32);
    return scaled_dot_product_attention(query.to(kFloat32), key.to(kFloat32), value.to(kFloat32), wide, dropout_p, is_causal, scale, enable_gqa).to(query.dtype());
  }
  const Sizes s = tracer::sizes_of(query.cell());
  const double factor = scale.value_or(s.back() ? 1 / std::sqrt(double(s.back())) : 1);

  const Tensor q = query * Scalar(factor);
  const Tensor product = share == 1 ? q.matmul(key.mT()) : grouped(q, share).matmul(key.mT().unsqueeze(-3)).flatten(-4, -3);
  const Sizes extents = tracer::sizes_of(product.cell());
  Tensor weights;
  if (masked) {
    check_mask(*attn_mask, query, extents);
    const bool choice = attn_mask->dtype() == kBool;
    weights = softmax_or_zero(choice ? frit::where(*attn_mask, product, Scalar(-infinity)) : product + attn_mask->to(product.dtype()));
  } else if (is_causal) {
    const Tensor rows = arange(Scalar(extents[extents.size() - 2])).unsqueeze(1), columns = arange(Scalar(extents.back()));
    weights = frit::where(rows.ge(columns), product, Scalar(-infinity)).softmax(-1);
  } else {
    weights = product.softmax(-1);
  }
  if (dropout_p > 0) weights = dropout(weights, dropout_p, true);
  if (share == 1) return weights.matmul(value);
  return grouped(weights, share).matmul(value.unsqueeze(-3)).flatten(-4, -3);
}

}  // namespace frit
