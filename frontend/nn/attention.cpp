// scaled_dot_product_attention: the checks, and one row of the op table. Start there.
#include "frit/nn/attention.h"
#include <algorithm>
#include <cmath>
#include <tuple>
#include "frontend/nn/windows.h"
#include "runtime/error.h"
#include "tracer/attention.h"

namespace frit {

using detail::shape_text;
using detail::Sizes;

namespace {

constexpr const char* op = "scaled_dot_product_attention";

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
// The leading extents of query, key and value, made equal (heads aside where they are grouped).
Tensor with_leading(const Tensor& t, const Sizes& leading, bool heads) {
  Sizes wanted = tracer::sizes_of(t.cell());
  const Sizes own = wanted;
  wanted.erase(wanted.begin(), wanted.end() - 2);
  wanted.insert(wanted.begin(), leading.begin(), leading.end());
  if (heads) wanted[leading.size() - 1] = own[own.size() - 3];
  return wanted == own ? t : t.expand(wanted);
}
Sizes broadcast_leading(const Sizes& q, const Sizes& k, const Sizes& v, bool heads) {
  const size_t count = std::max({q.size(), k.size(), v.size()}) - 2;
  Sizes leading(count, 1);
  for (const Sizes* s : {&q, &k, &v})
    for (size_t i = 0; i + 2 < s->size(); ++i) {
      int64_t& e = leading[count - (s->size() - 2) + i];
      const int64_t own = (*s)[i];
      if (heads && i + 3 == s->size()) {
        if (s == &q) e = own;
      } else if (e == 1) e = own;
      else if (own != 1 && own != e) throw ShapeError(std::string(op) + ": " + shapes_text(q, k, v) + ". The leading axes do not broadcast; make them equal or 1.");
    }
  return leading;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, bool enable_gqa) {
  const int64_t share = check_operands(query, key, value, enable_gqa);
  const bool masked = attn_mask && attn_mask->defined();
  if (masked && is_causal) throw ValueError(std::string(op) + ": both attn_mask and is_causal are given. Give one; a mask may be made causal with tril().");
  if (!(dropout_p >= 0 && dropout_p <= 1)) throw ValueError(std::string(op) + ": dropout_p is " + std::to_string(dropout_p) + ". Choose one between 0 and 1.");
  const Sizes q = tracer::sizes_of(query.cell()), k = tracer::sizes_of(key.cell()), v = tracer::sizes_of(value.cell());
  const Sizes leading = broadcast_leading(q, k, v, share != 1);
  std::vector<handle::Var> in{with_leading(query, leading, false), with_leading(key, leading, share != 1), with_leading(value, leading, share != 1)};
  if (masked) {
    Sizes scores = leading;
    scores.push_back(q[q.size() - 2]), scores.push_back(k[k.size() - 2]);
    check_mask(*attn_mask, query, scores);
    in.push_back(attn_mask->dtype() == kBool ? *attn_mask : attn_mask->to(compute_dtype(query.dtype())));
  }
  tracer::AttentionCall call;
  call.scale = scale.value_or(q.back() ? 1 / std::sqrt(double(q.back())) : 1);
  if (is_causal) call.attr |= tracer::causal_attention;
  if (share != 1) call.attr |= tracer::grouped_attention;
  if (dropout_p > 0) {
    call.attr |= tracer::attention_dropout;
    call.dropout = dropout_p;
    if (dropout_p < 1) std::tie(call.seed, call.stream) = tracer::RandomLog::take();
  }
  return Tensor(tracer::attention(in, call));
}

}  // namespace frit
