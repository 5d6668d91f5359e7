// MultiheadAttention and the encoder layer made of it. Inside, tensors are [batch, heads, length, head_dim]. Start at
// MultiheadAttentionImpl::forward.
#include <cmath>
#include <limits>
#include <ostream>
#include "frit/nn/attention.h"
#include "frit/nn/init.h"
#include "frontend/nn/windows.h"
#include "runtime/error.h"

namespace frit::nn {

using frit::detail::shape_text;

namespace {
constexpr const char* layer = "MultiheadAttention";
const char* text(bool b) { return b ? "true" : "false"; }

// A mask that is true where a key may not be seen, or holds numbers, as numbers to be added.
Tensor as_numbers(const Tensor& mask, Dtype d) {
  if (mask.dtype() != kBool) return mask.to(d);
  return frit::where(mask, Scalar(-std::numeric_limits<double>::infinity()), Scalar(0.0)).to(d);
}
// One of both masks: bool (true: seen) when both are bool.
Tensor joined_mask(const Tensor& attention, const Tensor& padding, Dtype d) {
  const auto is_bool = [](const Tensor& t) { return !t.defined() || t.dtype() == kBool; };
  if (is_bool(attention) && is_bool(padding)) {
    const Tensor hidden = !attention.defined() ? padding : !padding.defined() ? attention : attention.logical_or(padding);
    return hidden.defined() ? hidden.logical_not() : hidden;
  }
  if (!attention.defined()) return as_numbers(padding, d);
  if (!padding.defined()) return as_numbers(attention, d);
  return as_numbers(attention, d) + as_numbers(padding, d);
}
// More keys that every query may see.
Tensor widened(const Tensor& mask, int64_t keys) { return mask.defined() && keys ? constant_pad_nd(mask, {0, keys}, Scalar(0)) : mask; }
}  // namespace

MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions& o) : options(o) { MultiheadAttentionImpl::reset(); }
void MultiheadAttentionImpl::reset() {
  const int64_t e = options.embed_dim(), heads = options.num_heads();
  if (e < 1 || heads < 1 || e % heads)
    throw ValueError(std::string(layer) + ": embed_dim is " + std::to_string(e) + ", num_heads " + std::to_string(heads) + ". The heads must divide embed_dim, and both be 1 or more.");
  head_dim = e / heads;
  const bool same = same_extents(), bias = options.bias(), more = options.add_bias_kv();
  in_proj_weight = register_parameter("in_proj_weight", same ? frit::empty({3 * e, e}) : Tensor(), same);
  q_proj_weight = register_parameter("q_proj_weight", same ? Tensor() : frit::empty({e, e}), !same);
  k_proj_weight = register_parameter("k_proj_weight", same ? Tensor() : frit::empty({e, options.kdim()}), !same);
  v_proj_weight = register_parameter("v_proj_weight", same ? Tensor() : frit::empty({e, options.vdim()}), !same);
  in_proj_bias = register_parameter("in_proj_bias", bias ? frit::empty({3 * e}) : Tensor(), bias);
  out_proj = register_module("out_proj", Linear(LinearOptions(e, e).bias(bias)));
  bias_k = register_parameter("bias_k", more ? frit::empty({1, 1, e}) : Tensor(), more);
  bias_v = register_parameter("bias_v", more ? frit::empty({1, 1, e}) : Tensor(), more);
  _reset_parameters();
}
void MultiheadAttentionImpl::_reset_parameters() {
  for (const Tensor& w : {in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight})
    if (w.defined()) init::xavier_uniform_(w);
  if (in_proj_bias.defined()) init::zeros_(in_proj_bias), init::zeros_(out_proj->bias);
  if (bias_k.defined()) init::xavier_normal_(bias_k), init::xavier_normal_(bias_v);
}
void MultiheadAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "frit::nn::MultiheadAttention(embed_dim=" << options.embed_dim() << ", num_heads=" << options.num_heads() << ", dropout=" << options.dropout() << ", batch_first=" << text(options.batch_first()) << ")";
}

// Query, key and value of embed_dim each. One product makes what comes of the same tensor.
std::vector<Tensor> MultiheadAttentionImpl::projected(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const int64_t e = options.embed_dim();
  const auto part = [&](const Tensor& t, int64_t from, int64_t count) { return t.defined() ? t.narrow(0, from * e, count * e) : t; };
  if (!same_extents()) {
    return {frit::linear(query, q_proj_weight, part(in_proj_bias, 0, 1)), frit::linear(key, k_proj_weight, part(in_proj_bias, 1, 1)), frit::linear(value, v_proj_weight, part(in_proj_bias, 2, 1))};
  }
  if (query.is_same(key) && key.is_same(value)) return frit::linear(query, in_proj_weight, in_proj_bias).chunk(3, -1);
  std::vector<Tensor> all{frit::linear(query, part(in_proj_weight, 0, 1), part(in_proj_bias, 0, 1))};
  if (key.is_same(value)) {
    for (const Tensor& t : frit::linear(key, part(in_proj_weight, 1, 2), part(in_proj_bias, 1, 2)).chunk(2, -1)) all.push_back(t);
    return all;
  }
  all.push_back(frit::linear(key, part(in_proj_weight, 1, 1), part(in_proj_bias, 1, 1)));
  all.push_back(frit::linear(value, part(in_proj_weight, 2, 1), part(in_proj_bias, 2, 1)));
  return all;
}

namespace {
struct Extents { int64_t length, keys, batch; };
Extents check_inputs(const Tensor& query, const Tensor& key, const Tensor& value, const MultiheadAttentionOptions& o) {
  const Sizes q = shape_of(query, layer), k = shape_of(key, layer), v = shape_of(value, layer);
  const size_t along = o.batch_first() ? 1 : 0, across = 1 - along;
  const std::string layout = o.batch_first() ? "[batch, length, " : "[length, batch, ";
  if (q.size() != 3 || k.size() != 3 || v.size() != 3 || q[2] != o.embed_dim() || k[2] != o.kdim() || v[2] != o.vdim() || k[along] != v[along] || q[across] != k[across] || q[across] != v[across])
    throw ShapeError(std::string(layer) + ": query " + shape_text(q) + ", key " + shape_text(k) + ", value " + shape_text(v) + ". Give a query of " + layout + std::to_string(o.embed_dim()) + "], a key of " + layout +
                     std::to_string(o.kdim()) + "] and a value of " + layout + std::to_string(o.vdim()) + "] with one batch; key and value need the same length.");
  return {q[along], k[along], q[across]};
}
Tensor attention_mask(const Tensor& mask, const Extents& e, int64_t heads) {
  if (!mask.defined()) return mask;
  const Sizes m = shape_of(mask, layer);
  if (m == Sizes{e.length, e.keys}) return mask;
  if (m == Sizes{e.batch * heads, e.length, e.keys}) return mask.reshape({e.batch, heads, e.length, e.keys});
  throw ShapeError(std::string(layer) + ": attn_mask has shape " + shape_text(m) + ". Give one of " + shape_text({e.length, e.keys}) + " or " + shape_text({e.batch * heads, e.length, e.keys}) + ".");
}
Tensor padding_mask(const Tensor& mask, const Extents& e) {
  if (!mask.defined()) return mask;
  const Sizes m = shape_of(mask, layer);
  if (m != Sizes{e.batch, e.keys}) throw ShapeError(std::string(layer) + ": key_padding_mask has shape " + shape_text(m) + ". Give one of " + shape_text({e.batch, e.keys}) + ".");
  return mask.reshape({e.batch, 1, 1, e.keys});
}
}  // namespace

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& key_padding_mask, bool need_weights, const Tensor& attn_mask,
                                                           bool average_attn_weights) {
  const Extents e = check_inputs(query, key, value, options);
  const int64_t heads = options.num_heads();
  const size_t along = options.batch_first() ? 1 : 0;
  for (const auto& [mask, what] : {std::pair{attn_mask, "attn_mask"}, {key_padding_mask, "key_padding_mask"}})
    if (mask.defined() && mask.dtype() != kBool && !mask.is_floating_point())
      throw DtypeError(std::string(layer) + ": " + what + " holds " + dtype_name(mask.dtype()) + ". Give bool (true where a key may not be seen) or numbers of a floating type to be added.");
  Tensor mask = joined_mask(attention_mask(attn_mask, e, heads), padding_mask(key_padding_mask, e), query.dtype());

  std::vector<Tensor> qkv = projected(query, key, value);
  const auto add_key = [&](const Tensor& k, const Tensor& v) {
    std::vector<int64_t> one{1, 1, options.embed_dim()};
    one[1 - along] = e.batch;
    qkv[1] = cat({qkv[1], k.expand(one)}, int64_t(along)), qkv[2] = cat({qkv[2], v.expand(one)}, int64_t(along));
  };
  if (bias_k.defined()) add_key(bias_k, bias_v);
  if (options.add_zero_attn()) add_key(zeros({1, 1, 1}, query.options()), zeros({1, 1, 1}, query.options()));
  const int64_t added = int64_t(bias_k.defined()) + int64_t(options.add_zero_attn()), keys = e.keys + added;
  if (mask.defined() && added) mask = mask.dtype() == kBool ? widened(mask.logical_not(), added).logical_not() : widened(mask, added);

  const auto in_heads = [&](const Tensor& t, int64_t length) {
    return options.batch_first() ? t.reshape({e.batch, length, heads, head_dim}).permute({0, 2, 1, 3}) : t.reshape({length, e.batch, heads, head_dim}).permute({1, 2, 0, 3});
  };
  const Tensor q = in_heads(qkv[0], e.length), k = in_heads(qkv[1], keys), v = in_heads(qkv[2], keys);
  const double p = is_training() ? options.dropout() : 0;
  Tensor out, weights;
  if (need_weights) {
    Tensor scores = (q * Scalar(1 / std::sqrt(double(head_dim)))).matmul(k.mT());
    if (mask.defined()) scores = mask.dtype() == kBool ? frit::where(mask, scores, Scalar(-std::numeric_limits<double>::infinity())) : scores + mask;
    weights = functional::dropout(scores.softmax(-1), p, true);
    out = weights.matmul(v);
    if (average_attn_weights) weights = weights.mean(1);
  } else {
    out = scaled_dot_product_attention(q, k, v, mask, p);
  }
  const Tensor rows = options.batch_first() ? out.permute({0, 2, 1, 3}).reshape({e.batch, e.length, options.embed_dim()}) : out.permute({2, 0, 1, 3}).reshape({e.length, e.batch, options.embed_dim()});
  return {out_proj(rows), weights};
}

// ---- the encoder layer --------------------------------------------------------------------------------------------------
Activation::Activation(Nonlinearity named) : function([](const Tensor& x) { return x.relu(); }) {
  if (named != kReLU) throw ValueError("Activation: only kReLU and kGELU are known by name. Give a function.");
}
TransformerEncoderLayerImpl::TransformerEncoderLayerImpl(TransformerEncoderLayerOptions o) : options(std::move(o)) { TransformerEncoderLayerImpl::reset(); }
void TransformerEncoderLayerImpl::reset() {
  const int64_t d = options.d_model(), inner = options.dim_feedforward();
  self_attn = register_module("self_attn", MultiheadAttention(MultiheadAttentionOptions(d, options.nhead()).dropout(options.dropout()).batch_first(options.batch_first())));
  linear1 = register_module("linear1", Linear(d, inner));
  dropout = register_module("dropout", Dropout(options.dropout()));
  linear2 = register_module("linear2", Linear(inner, d));
  norm1 = register_module("norm1", LayerNorm(std::vector<int64_t>{d}));
  norm2 = register_module("norm2", LayerNorm(std::vector<int64_t>{d}));
  dropout1 = register_module("dropout1", Dropout(options.dropout()));
  dropout2 = register_module("dropout2", Dropout(options.dropout()));
}
void TransformerEncoderLayerImpl::reset_parameters() {
  self_attn->_reset_parameters();
  linear1->reset_parameters(), linear2->reset_parameters();
  norm1->reset_parameters(), norm2->reset_parameters();
}
void TransformerEncoderLayerImpl::pretty_print(std::ostream& stream) const { stream << "frit::nn::TransformerEncoderLayer"; }
Tensor TransformerEncoderLayerImpl::forward(const Tensor& src, const Tensor& src_mask, const Tensor& src_key_padding_mask) {
  const Tensor attended = std::get<0>(self_attn->forward(src, src, src, src_key_padding_mask, false, src_mask));
  const Tensor x = norm1(src + dropout1(attended));
  return norm2(x + dropout2(linear2(dropout(options.activation().function(linear1(x))))));
}

}  // namespace frit::nn
