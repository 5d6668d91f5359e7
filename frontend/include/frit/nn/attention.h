// Attention: the function, and the layers made of it, with LibTorch's names. (batch_first, which LibTorch's C++ layers lack, is
// Python's.)
#pragma once
#include <functional>
#include "frit/nn/layers.h"

namespace frit {

// softmax(query keyᵀ scale + mask) value, over the last two axes; the axes before broadcast. attn_mask broadcasts with
// [..., queries, keys]: true where a key may be seen, or numbers to be added. A query that sees no key gets zeros, and gives no
// gradient. is_causal: query i sees keys 0 to i. The scale is 1 / sqrt(last extent) unless given. enable_gqa: axis -3 of key and
// value may be shorter, each head of theirs serving as many of the query's in turn. Half types compute in float32. The scores are
// never held, nor are they for the gradient (a mask's own gradient, and one that is recorded itself, hold them).
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& attn_mask = {}, double dropout_p = 0,
                                    bool is_causal = false, std::optional<double> scale = std::nullopt, bool enable_gqa = false);

struct GeluName {};
inline constexpr GeluName kGELU{};

namespace nn {
namespace functional {
inline Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& attn_mask = {}, double dropout_p = 0,
                                           bool is_causal = false, std::optional<double> scale = std::nullopt, bool enable_gqa = false) {
  return frit::scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
}
}  // namespace functional

struct MultiheadAttentionOptions {
  MultiheadAttentionOptions(int64_t embed_dim, int64_t num_heads) : embed_dim_(embed_dim), num_heads_(num_heads), kdim_(embed_dim), vdim_(embed_dim) {}
  FRIT_ARG(int64_t, embed_dim);
  FRIT_ARG(int64_t, num_heads);
  FRIT_ARG(double, dropout) = 0;
  FRIT_ARG(bool, bias) = true;
  FRIT_ARG(bool, add_bias_kv) = false;    // a learned key and value after the others
  FRIT_ARG(bool, add_zero_attn) = false;  // a key and value of zeros after the others
  FRIT_ARG(int64_t, kdim);
  FRIT_ARG(int64_t, vdim);
  FRIT_ARG(bool, batch_first) = false;
};

class MultiheadAttentionImpl : public Cloneable<MultiheadAttentionImpl> {
 public:
  MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads) : MultiheadAttentionImpl(MultiheadAttentionOptions(embed_dim, num_heads)) {}
  explicit MultiheadAttentionImpl(const MultiheadAttentionOptions& options);
  void reset() override;
  void _reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  // query [length, batch, embed_dim], key and value [keys, batch, kdim or vdim] (batch before length with batch_first).
  // key_padding_mask [batch, keys] and attn_mask [length, keys] or [batch * heads, length, keys] are true where a key may not be
  // seen, or numbers to be added. Gives the output and, with need_weights, the weights: their mean over the heads
  // [batch, length, keys], or [batch, heads, length, keys]. As in LibTorch, a query that sees no key gives NaN with need_weights,
  // zeros without.
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& key_padding_mask = {}, bool need_weights = true,
                                     const Tensor& attn_mask = {}, bool average_attn_weights = true);

  MultiheadAttentionOptions options;
  Tensor in_proj_weight, in_proj_bias, bias_k, bias_v;  // [3 * embed_dim, embed_dim], when all have that extent
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;   // otherwise
  Linear out_proj{nullptr};
  int64_t head_dim = 0;

 private:
  std::vector<Tensor> projected(const Tensor& query, const Tensor& key, const Tensor& value) const;
  bool same_extents() const { return options.kdim() == options.embed_dim() && options.vdim() == options.embed_dim(); }
};
FRIT_MODULE(MultiheadAttention);

// kReLU, kGELU, or a function.
struct Activation {
  Activation(Nonlinearity name);
  Activation(GeluName) : function([](const Tensor& x) { return x.gelu(); }) {}
  template <class F>
    requires std::is_invocable_r_v<Tensor, F, const Tensor&>
  Activation(F f) : function(std::move(f)) {}
  std::function<Tensor(const Tensor&)> function;
};
struct TransformerEncoderLayerOptions {
  TransformerEncoderLayerOptions(int64_t d_model, int64_t nhead) : d_model_(d_model), nhead_(nhead) {}
  FRIT_ARG(int64_t, d_model);
  FRIT_ARG(int64_t, nhead);
  FRIT_ARG(int64_t, dim_feedforward) = 2048;
  FRIT_ARG(double, dropout) = 0.1;
  FRIT_ARG(Activation, activation) = kReLU;
  FRIT_ARG(bool, batch_first) = false;
};
// Attention, then two linear layers, each added to its input and normalised.
class TransformerEncoderLayerImpl : public Cloneable<TransformerEncoderLayerImpl> {
 public:
  TransformerEncoderLayerImpl(int64_t d_model, int64_t nhead) : TransformerEncoderLayerImpl(TransformerEncoderLayerOptions(d_model, nhead)) {}
  explicit TransformerEncoderLayerImpl(TransformerEncoderLayerOptions options);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& src, const Tensor& src_mask = {}, const Tensor& src_key_padding_mask = {});

  TransformerEncoderLayerOptions options;
  MultiheadAttention self_attn{nullptr};
  Linear linear1{nullptr}, linear2{nullptr};
  Dropout dropout{nullptr}, dropout1{nullptr}, dropout2{nullptr};
  LayerNorm norm1{nullptr}, norm2{nullptr};
};
FRIT_MODULE(TransformerEncoderLayer);

}  // namespace nn
}  // namespace frit
