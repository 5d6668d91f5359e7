// Layers and losses as functions.
#include "oracle.h"

namespace oracle {

namespace F = torch::nn::functional;

namespace {
struct Layer {
  const char* name;
  std::vector<std::vector<int64_t>> inputs;  // of the differentiable tensors
  std::function<Tensor(const std::vector<Tensor>&)> f;
};
#define LAYER(name, shapes, ...) {name, shapes, [](const std::vector<Tensor>& in) -> Tensor { return __VA_ARGS__; }}
#define SHAPES(...) {__VA_ARGS__}
Tensor classes(std::vector<double> v, std::vector<int64_t> sizes) { return from_values(v, sizes, torch::kInt64); }
const std::vector<Layer>& table() {
  using S = std::vector<int64_t>;
  static const std::vector<Layer> all{
      LAYER("linear", SHAPES(S{2, 3, 4}, S{5, 4}, S{5}), torch::linear(in[0], in[1], in[2])), LAYER("linear plain", SHAPES(S{4}, S{5, 4}), torch::linear(in[0], in[1])),
      LAYER("linear wrong", SHAPES(S{2, 3}, S{5, 4}), torch::linear(in[0], in[1])), LAYER("layer_norm", SHAPES(S{2, 3, 4}, S{4}, S{4}), torch::layer_norm(in[0], {4}, in[1], in[2])),
      LAYER("layer_norm two axes", SHAPES(S{2, 3, 4}), torch::layer_norm(in[0], {3, 4})), LAYER("layer_norm wrong", SHAPES(S{2, 3}), torch::layer_norm(in[0], {4})),
      LAYER("group_norm", SHAPES(S{2, 4, 3}, S{4}, S{4}), torch::group_norm(in[0], 2, in[1], in[2])), LAYER("group_norm wrong", SHAPES(S{2, 4, 3}), torch::group_norm(in[0], 3)),
      LAYER("batch_norm", SHAPES(S{3, 4, 2}, S{4}, S{4}),
            F::batch_norm(in[0], torch::zeros({4}, in[0].options()), torch::ones({4}, in[0].options()), F::BatchNormFuncOptions().weight(in[1]).bias(in[2]).training(true))),
      LAYER("batch_norm eval", SHAPES(S{3, 4, 2}),
            F::batch_norm(in[0], torch::full({4}, 0.5, in[0].options()), torch::full({4}, 2, in[0].options()), F::BatchNormFuncOptions().training(false))),
      LAYER("conv1d", SHAPES(S{2, 3, 7}, S{4, 3, 3}, S{4}), torch::conv1d(in[0], in[1], in[2], 2, 1)), LAYER("conv2d", SHAPES(S{2, 3, 5, 6}, S{4, 3, 3, 2}, S{4}), torch::conv2d(in[0], in[1], in[2])),
      LAYER("conv2d options", SHAPES(S{2, 4, 6, 6}, S{6, 2, 3, 3}), torch::conv2d(in[0], in[1], {}, {2, 1}, {1, 2}, {1, 2}, 2)), LAYER("conv2d wrong", SHAPES(S{2, 3, 5, 5}, S{4, 2, 3, 3}), torch::conv2d(in[0], in[1])),
      LAYER("max_pool2d", SHAPES(S{2, 3, 6, 5}), torch::max_pool2d(in[0], {2, 2})), LAYER("max_pool2d options", SHAPES(S{2, 3, 6, 5}), torch::max_pool2d(in[0], {3, 2}, {2, 1}, {1, 1})),
      LAYER("avg_pool2d", SHAPES(S{2, 3, 6, 5}), torch::avg_pool2d(in[0], {2, 2})), LAYER("avg_pool2d options", SHAPES(S{2, 3, 6, 5}), torch::avg_pool2d(in[0], {3, 3}, {2, 2}, {1, 1}, false, false)),
      LAYER("embedding", SHAPES(S{5, 3}), torch::embedding(in[0], classes({4, 0, 4, 2}, {2, 2}))), LAYER("embedding wrong", SHAPES(S{5, 3}), torch::embedding(in[0], classes({5}, {1}))),
      LAYER("cross_entropy", SHAPES(S{3, 4}), F::cross_entropy(in[0], classes({1, 3, 0}, {3}))),
      LAYER("cross_entropy options", SHAPES(S{3, 4}), F::cross_entropy(in[0], classes({1, -100, 0}, {3}), F::CrossEntropyFuncOptions().label_smoothing(0.1).reduction(torch::kSum))),
      LAYER("cross_entropy weights", SHAPES(S{3, 4}),
            F::cross_entropy(in[0], classes({1, 3, 1}, {3}), F::CrossEntropyFuncOptions().weight(torch::arange(1, 5).to(in[0].scalar_type())).label_smoothing(0.2))),
      LAYER("cross_entropy images", SHAPES(S{2, 3, 2, 2}), F::cross_entropy(in[0], classes({0, 1, 2, 0, 1, 1, 2, 2}, {2, 2, 2}), F::CrossEntropyFuncOptions().reduction(torch::kNone))),
      LAYER("cross_entropy probabilities", SHAPES(S{3, 4}), F::cross_entropy(in[0], torch::full({3, 4}, 0.25, in[0].options()))),
      LAYER("cross_entropy wrong", SHAPES(S{3, 4}), F::cross_entropy(in[0], classes({1, 3}, {2}))), LAYER("cross_entropy class", SHAPES(S{3, 4}), F::cross_entropy(in[0], classes({1, 4, 0}, {3}))),
      LAYER("nll_loss", SHAPES(S{3, 4}), F::nll_loss(in[0], classes({1, 3, 0}, {3}))), LAYER("nll_loss ignored", SHAPES(S{3, 4}), F::nll_loss(in[0], classes({1, 2, 0}, {3}), F::NLLLossFuncOptions().ignore_index(2))),
      LAYER("mse_loss", SHAPES(S{3, 4}, S{3, 4}), F::mse_loss(in[0], in[1])), LAYER("mse_loss sum", SHAPES(S{3, 4}, S{3, 4}), F::mse_loss(in[0], in[1], F::MSELossFuncOptions(torch::kSum))),
      LAYER("l1_loss", SHAPES(S{3, 4}, S{3, 4}), F::l1_loss(in[0], in[1])),
      LAYER("bce_with_logits", SHAPES(S{3, 4}), F::binary_cross_entropy_with_logits(in[0], torch::full({3, 4}, 0.3, in[0].options()))),
      LAYER("bce_with_logits weights", SHAPES(S{3, 4}),
            F::binary_cross_entropy_with_logits(in[0], torch::full({3, 4}, 0.3, in[0].options()), F::BinaryCrossEntropyWithLogitsFuncOptions().pos_weight(torch::full({4}, 2, in[0].options())))),
      LAYER("softmax", SHAPES(S{3, 4}), F::softmax(in[0], F::SoftmaxFuncOptions(1))), LAYER("dropout off", SHAPES(S{3, 4}), F::dropout(in[0], F::DropoutFuncOptions().p(0.5).training(false))),
      LAYER("F::elu", SHAPES(S{3, 4}), F::elu(in[0], F::ELUFuncOptions().alpha(0.7))), LAYER("F::selu", SHAPES(S{3, 4}), F::selu(in[0])), LAYER("F::celu", SHAPES(S{3, 4}), F::celu(in[0], F::CELUFuncOptions().alpha(1.3))),
      LAYER("F::softplus", SHAPES(S{3, 4}), F::softplus(in[0], F::SoftplusFuncOptions().beta(2.0).threshold(3.0))), LAYER("F::hardtanh", SHAPES(S{3, 4}), F::hardtanh(in[0], F::HardtanhFuncOptions().min_val(-0.5).max_val(0.7))),
      LAYER("F::relu6", SHAPES(S{3, 4}), F::relu6(in[0] * 4)), LAYER("F::logsigmoid", SHAPES(S{3, 4}), F::logsigmoid(in[0])), LAYER("F::softsign", SHAPES(S{3, 4}), F::softsign(in[0])), LAYER("F::tanhshrink", SHAPES(S{3, 4}), F::tanhshrink(in[0])),
      LAYER("F::prelu", SHAPES(S{3, 4}, S{4}), F::prelu(in[0], in[1])), LAYER("F::glu", SHAPES(S{3, 4}), F::glu(in[0])), LAYER("F::glu wrong", SHAPES(S{3, 4}), F::glu(in[0], F::GLUFuncOptions(0))),
      LAYER("F::normalize", SHAPES(S{3, 4}), F::normalize(in[0], F::NormalizeFuncOptions().p(2).dim(1))), LAYER("F::cosine_similarity", SHAPES(S{3, 4}, S{3, 4}), F::cosine_similarity(in[0], in[1])),
      LAYER("F::pairwise_distance", SHAPES(S{3, 4}, S{3, 4}), F::pairwise_distance(in[0], in[1])),
      LAYER("binary_cross_entropy", SHAPES(S{3, 4}), F::binary_cross_entropy(in[0].sigmoid(), torch::full({3, 4}, 0.3, in[0].options()))),
      LAYER("binary_cross_entropy weight", SHAPES(S{3, 4}), F::binary_cross_entropy(in[0].sigmoid(), torch::zeros({3, 4}, in[0].options()), F::BinaryCrossEntropyFuncOptions().weight(torch::full({4}, 2, in[0].options())).reduction(torch::kSum))),
      LAYER("smooth_l1_loss", SHAPES(S{3, 4}, S{3, 4}), F::smooth_l1_loss(in[0], in[1])), LAYER("smooth_l1_loss beta", SHAPES(S{3, 4}, S{3, 4}), F::smooth_l1_loss(in[0], in[1], F::SmoothL1LossFuncOptions(torch::kSum).beta(0.3))),
      LAYER("huber_loss", SHAPES(S{3, 4}, S{3, 4}), F::huber_loss(in[0], in[1], F::HuberLossFuncOptions().delta(0.6))),
      LAYER("kl_div", SHAPES(S{3, 4}, S{3, 4}), F::kl_div(in[0].log_softmax(1), in[1].softmax(1), F::KLDivFuncOptions().reduction(torch::kBatchMean))),
      LAYER("kl_div log", SHAPES(S{3, 4}, S{3, 4}), F::kl_div(in[0].log_softmax(1), in[1].log_softmax(1), F::KLDivFuncOptions().reduction(torch::kSum).log_target(true))),
      LAYER("conv_transpose1d", SHAPES(S{2, 3, 5}, S{3, 4, 3}, S{4}), torch::conv_transpose1d(in[0], in[1], in[2], 2, 1, 1)),
      LAYER("conv_transpose2d", SHAPES(S{2, 3, 4, 5}, S{3, 2, 3, 2}), torch::conv_transpose2d(in[0], in[1])),
      LAYER("conv_transpose2d options", SHAPES(S{2, 4, 3, 4}, S{4, 3, 3, 3}, S{6}), torch::conv_transpose2d(in[0], in[1], in[2], {2, 1}, {1, 2}, {1, 0}, 2, {1, 2})),
      LAYER("conv_transpose2d wrong", SHAPES(S{2, 3, 4, 5}, S{2, 2, 3, 3}), torch::conv_transpose2d(in[0], in[1])),
      LAYER("interpolate nearest", SHAPES(S{2, 3, 4, 5}), F::interpolate(in[0], F::InterpolateFuncOptions().size(std::vector<int64_t>{7, 3}).mode(torch::kNearest))),
      LAYER("interpolate factor", SHAPES(S{2, 3, 4, 5}), F::interpolate(in[0], F::InterpolateFuncOptions().scale_factor(std::vector<double>{2.0, 1.5}).mode(torch::kNearest))),
      LAYER("interpolate bilinear", SHAPES(S{2, 3, 4, 5}), F::interpolate(in[0], F::InterpolateFuncOptions().size(std::vector<int64_t>{7, 3}).mode(torch::kBilinear).align_corners(false))),
      LAYER("interpolate corners", SHAPES(S{2, 3, 4, 5}), F::interpolate(in[0], F::InterpolateFuncOptions().scale_factor(std::vector<double>{2.0, 2.0}).mode(torch::kBilinear).align_corners(true))),
      LAYER("interpolate linear", SHAPES(S{2, 3, 5}), F::interpolate(in[0], F::InterpolateFuncOptions().size(std::vector<int64_t>{8}).mode(torch::kLinear).align_corners(false))),
      LAYER("F::unfold", SHAPES(S{2, 3, 5, 6}), F::unfold(in[0], F::UnfoldFuncOptions({2, 3}).padding(1).stride({1, 2}).dilation({2, 1}))),
  };
  return all;
}
}  // namespace

void layers() {
  for (const Layer& layer : table()) {
    for (const auto& [type_name, type] : types()) {
      if (!is_float(type)) continue;
      for (const Layout layout : layouts) {
        const std::string name = std::string(layer.name) + " " + type_name + " " + layout_name(layout);
        Numbers n(name);
        std::vector<Tensor> in;
        for (const auto& sizes : layer.inputs) in.push_back(make(n, sizes, type, -2, 2, layout));
        record(name, [&] { return layer.f(in); });
      }
    }
    Numbers n(layer.name);
    std::vector<Tensor> in;
    for (const auto& sizes : layer.inputs) in.push_back(make(n, sizes, torch::kFloat64, -2, 2));
    record_gradients(layer.name, [&](const std::vector<Tensor>& leaves) { return layer.f(leaves); }, in);
  }
}

}  // namespace oracle
