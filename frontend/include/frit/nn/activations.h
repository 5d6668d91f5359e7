// Activations and distances beyond functional.h, with LibTorch's options, and the activations as modules. Pointwise: the result has the
// input's shape. Errors: DtypeError where a floating type is needed, ShapeError where weights do not fit.
#pragma once
#include "frit/nn/layer_kinds.h"
#include "frit/nn/options.h"

namespace frit::nn {

struct ELUOptions {
  ELUOptions(double alpha = 1.0) : alpha_(alpha) {}
  FRIT_ARG(double, alpha) = 1.0;
  FRIT_ARG(bool, inplace) = false;
};
struct SELUOptions {
  SELUOptions(bool inplace = false) : inplace_(inplace) {}
  FRIT_ARG(bool, inplace) = false;
};
using ReLU6Options = SELUOptions;
struct CELUOptions {
  FRIT_ARG(double, alpha) = 1.0;
  FRIT_ARG(bool, inplace) = false;
};
struct SoftplusOptions {
  FRIT_ARG(double, beta) = 1.0;
  FRIT_ARG(double, threshold) = 20.0;  // above it (times beta) the function is the identity
};
struct HardtanhOptions {
  FRIT_ARG(double, min_val) = -1.0;
  FRIT_ARG(double, max_val) = 1.0;
  FRIT_ARG(bool, inplace) = false;
};
struct GLUOptions {
  GLUOptions(int64_t dim = -1) : dim_(dim) {}
  FRIT_ARG(int64_t, dim) = -1;
};
struct PReLUOptions {
  FRIT_ARG(int64_t, num_parameters) = 1;
  FRIT_ARG(double, init) = 0.25;
};
struct CosineSimilarityOptions {
  FRIT_ARG(int64_t, dim) = 1;
  FRIT_ARG(double, eps) = 1e-8;
};
struct PairwiseDistanceOptions {
  FRIT_ARG(double, p) = 2.0;
  FRIT_ARG(double, eps) = 1e-6;
  FRIT_ARG(bool, keepdim) = false;
};

namespace functional {
using ELUFuncOptions = ELUOptions;
using SELUFuncOptions = SELUOptions;
using CELUFuncOptions = CELUOptions;
using ReLU6FuncOptions = ReLU6Options;
using SoftplusFuncOptions = SoftplusOptions;
using HardtanhFuncOptions = HardtanhOptions;
using GLUFuncOptions = GLUOptions;
using CosineSimilarityFuncOptions = CosineSimilarityOptions;
using PairwiseDistanceFuncOptions = PairwiseDistanceOptions;
struct NormalizeFuncOptions {
  FRIT_ARG(double, p) = 2.0;
  FRIT_ARG(int64_t, dim) = 1;
  FRIT_ARG(double, eps) = 1e-12;
};

Tensor elu(Tensor input, const ELUFuncOptions& options = {});
Tensor selu(Tensor input, const SELUFuncOptions& options = {});
Tensor celu(Tensor input, const CELUFuncOptions& options = {});
Tensor relu6(Tensor input, const ReLU6FuncOptions& options = {});
Tensor softplus(const Tensor& input, const SoftplusFuncOptions& options = {});
Tensor hardtanh(Tensor input, const HardtanhFuncOptions& options = {});
Tensor hardswish(const Tensor& input);
Tensor hardsigmoid(const Tensor& input);
Tensor mish(const Tensor& input);
Tensor logsigmoid(const Tensor& input);
Tensor softsign(const Tensor& input);
Tensor tanhshrink(const Tensor& input);
Tensor prelu(const Tensor& input, const Tensor& weight);
Tensor glu(const Tensor& input, const GLUFuncOptions& options = {});  // the first half of an axis times the sigmoid of the second
// x / max(norm, eps) along an axis.
Tensor normalize(const Tensor& input, const NormalizeFuncOptions& options = {});
Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineSimilarityFuncOptions& options = {});
Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseDistanceFuncOptions& options = {});
}  // namespace functional

FRIT_OPTIONS_LAYER(ELU, elu, = {})
FRIT_OPTIONS_LAYER(SELU, selu, = {})
FRIT_OPTIONS_LAYER(CELU, celu, = {})
FRIT_OPTIONS_LAYER(ReLU6, relu6, = {})
FRIT_OPTIONS_LAYER(Softplus, softplus, = {})
FRIT_OPTIONS_LAYER(Hardtanh, hardtanh, = {})
FRIT_OPTIONS_LAYER(GLU, glu, = {})
FRIT_PLAIN_LAYER(Hardswish, functional::hardswish(input))
FRIT_PLAIN_LAYER(Hardsigmoid, functional::hardsigmoid(input))
FRIT_PLAIN_LAYER(Mish, functional::mish(input))
FRIT_PLAIN_LAYER(LogSigmoid, functional::logsigmoid(input))
FRIT_PLAIN_LAYER(Softsign, functional::softsign(input))
FRIT_PLAIN_LAYER(Tanhshrink, functional::tanhshrink(input))

class PReLUImpl : public Cloneable<PReLUImpl> {
 public:
  explicit PReLUImpl(const PReLUOptions& options = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return functional::prelu(input, weight); }
  PReLUOptions options;
  Tensor weight;
};
FRIT_MODULE(PReLU);

class CosineSimilarityImpl : public Cloneable<CosineSimilarityImpl> {
 public:
  explicit CosineSimilarityImpl(const CosineSimilarityOptions& options = {}) : options(options) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& a, const Tensor& b) { return functional::cosine_similarity(a, b, options); }
  CosineSimilarityOptions options;
};
FRIT_MODULE(CosineSimilarity);

}  // namespace frit::nn
