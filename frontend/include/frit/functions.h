// Free functions: creation, the ops of the table, composites. Names, defaults and rules are LibTorch's.
#pragma once
#include "frit/tensor.h"

namespace frit {

// ---- creation. Sizes are extents; errors: ValueError for negative ones, OutOfMemoryError.
Tensor empty(IntArrayRef sizes, const TensorOptions& options = {});
Tensor zeros(IntArrayRef sizes, const TensorOptions& options = {});
Tensor ones(IntArrayRef sizes, const TensorOptions& options = {});
Tensor full(IntArrayRef sizes, const Scalar& value);                   // the value's own category: Int64, Bool or Float32
Tensor full(IntArrayRef sizes, const Scalar& value, const TensorOptions& options);
Tensor rand(IntArrayRef sizes, const TensorOptions& options = {});     // [0, 1)
Tensor randn(IntArrayRef sizes, const TensorOptions& options = {});
Tensor randint(int64_t high, IntArrayRef sizes, const TensorOptions& options = kInt64);
Tensor randint(int64_t low, int64_t high, IntArrayRef sizes, const TensorOptions& options = kInt64);
Tensor randperm(int64_t n, const TensorOptions& options = kInt64);
Tensor arange(const Scalar& end);
Tensor arange(const Scalar& end, const TensorOptions& options);
Tensor arange(const Scalar& start, const Scalar& end);
Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options);
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step);
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const TensorOptions& options);
Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps, const TensorOptions& options = {});
Tensor eye(int64_t n, const TensorOptions& options = {});
Tensor eye(int64_t n, int64_t m, const TensorOptions& options = {});
Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset = 0, const TensorOptions& options = kInt64);
Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset = 0, const TensorOptions& options = kInt64);
Tensor one_hot(const Tensor& classes, int64_t count = -1);
// How often each number from 0 occurs in a tensor of whole ones and one axis, or the sums of its weights; at least `minlength` counts.
Tensor bincount(const Tensor& a, const Tensor& weights = {}, int64_t minlength = 0);
Tensor empty_like(const Tensor& t, const TensorOptions& options = {});
Tensor zeros_like(const Tensor& t, const TensorOptions& options = {});
Tensor ones_like(const Tensor& t, const TensorOptions& options = {});
Tensor full_like(const Tensor& t, const Scalar& v, const TensorOptions& options = {});
Tensor rand_like(const Tensor& t, const TensorOptions& options = {});
Tensor randn_like(const Tensor& t, const TensorOptions& options = {});
Tensor randint_like(const Tensor& t, int64_t high, const TensorOptions& options = {});
Tensor randint_like(const Tensor& t, int64_t low, int64_t high, const TensorOptions& options = {});
Tensor scalar_tensor(const Scalar& v, const TensorOptions& options = {});
TensorList meshgrid(const TensorList& axes, const std::string& indexing = "ij");
inline Tensor bernoulli(const Tensor& p) { return p.bernoulli(); }
inline Tensor multinomial(const Tensor& weights, int64_t count, bool replacement = false) { return weights.multinomial(count, replacement); }
// Shares the user's memory (strides in elements; contiguous when absent); the deleter runs when the last user goes.
Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {});
Tensor from_blob(void* data, IntArrayRef sizes, const std::function<void(void*)>& deleter, const TensorOptions& options = {});
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {});
void manual_seed(uint64_t seed);

// A number, a list of numbers, or lists of lists: tensor(2.5), tensor({3, 1, 2}), tensor({{1., 2.}, {3., 4.}}).
class TensorData {
 public:
  TensorData(double v) : numbers_{v} {}
  TensorData(float v) : numbers_{v} {}
  TensorData(int v) : numbers_{v} {}
  TensorData(long v) : numbers_{v} {}
  TensorData(long long v) : numbers_{v} {}
  TensorData(bool v) : numbers_{v} {}
  TensorData(std::initializer_list<TensorData> parts);
  template <class T> TensorData(const std::vector<T>& v) : sizes_{int64_t(v.size())}, numbers_(v.begin(), v.end()), category_(category<T>()) {}
  const std::vector<int64_t>& sizes() const { return sizes_; }
  const std::vector<Scalar>& numbers() const { return numbers_; }
  Dtype natural_dtype() const;

 private:
  template <class T> static handle::Category category() {
    return std::is_same_v<T, bool> ? handle::Category::boolean : std::is_integral_v<T> ? handle::Category::integer : handle::Category::floating;
  }
  std::vector<int64_t> sizes_;
  std::vector<Scalar> numbers_;
  handle::Category category_ = handle::Category::floating;  // of an empty list
};
Tensor tensor(const TensorData& data, const TensorOptions& options = {});

// ---- every pointwise row of the op table
#define UNARY(name, ...)                                        \
  inline Tensor name(const Tensor& a) { return a.name(); }      \
  inline Tensor& name##_(Tensor& a) { return a.name##_(); }
#define BINARY(name, ...)                                                             \
  inline Tensor name(const Tensor& a, const Tensor& b) { return a.name(b); }          \
  inline Tensor name(const Tensor& a, const Scalar& b) { return a.name(b); }          \
  Tensor name(const Scalar& a, const Tensor& b);
#define HIDDEN_BINARY(...)
#include "tracer/ops.def"
inline Tensor pow(const Tensor& a, const Tensor& b) { return a.pow(b); }
inline Tensor pow(const Tensor& a, const Scalar& b) { return a.pow(b); }
Tensor pow(const Scalar& a, const Tensor& b);
inline Tensor add(const Tensor& a, const Tensor& b, const Scalar& alpha) { return a.add(b, alpha); }
inline Tensor sub(const Tensor& a, const Tensor& b, const Scalar& alpha) { return a.sub(b, alpha); }
inline Tensor div(const Tensor& a, const Tensor& b, const std::optional<std::string>& rounding_mode) { return a.div(b, rounding_mode); }
inline Tensor div(const Tensor& a, const Scalar& b, const std::optional<std::string>& rounding_mode) { return a.div(b, rounding_mode); }
inline Tensor true_divide(const Tensor& a, const Tensor& b) { return a.div(b); }
inline Tensor rsub(const Tensor& a, const Tensor& b) { return b.sub(a); }
inline Tensor rsub(const Tensor& a, const Scalar& b) { return sub(b, a); }
inline Tensor multiply(const Tensor& a, const Tensor& b) { return a.mul(b); }
inline Tensor subtract(const Tensor& a, const Tensor& b) { return a.sub(b); }
inline Tensor divide(const Tensor& a, const Tensor& b) { return a.div(b); }
inline Tensor negative(const Tensor& a) { return a.neg(); }
inline Tensor absolute(const Tensor& a) { return a.abs(); }
inline Tensor fix(const Tensor& a) { return a.trunc(); }
inline Tensor sgn(const Tensor& a) { return a.sign(); }
inline Tensor arcsin(const Tensor& a) { return a.asin(); }
inline Tensor arccos(const Tensor& a) { return a.acos(); }
inline Tensor arctan(const Tensor& a) { return a.atan(); }
inline Tensor arctan2(const Tensor& a, const Tensor& b) { return a.atan2(b); }
inline Tensor arcsinh(const Tensor& a) { return a.asinh(); }
inline Tensor arccosh(const Tensor& a) { return a.acosh(); }
inline Tensor arctanh(const Tensor& a) { return a.atanh(); }
inline Tensor deg2rad(const Tensor& a) { return a.mul(Scalar(0.017453292519943295769)); }
inline Tensor rad2deg(const Tensor& a) { return a.mul(Scalar(57.295779513082320877)); }
inline Tensor round(const Tensor& a, int64_t decimals) { return a.round(decimals); }
inline Tensor clamp(const Tensor& a, const std::optional<Tensor>& low, const std::optional<Tensor>& high = std::nullopt) { return a.clamp(low, high); }
inline Tensor clip(const Tensor& a, std::optional<Scalar> low, std::optional<Scalar> high = std::nullopt) { return a.clamp(low, high); }
inline Tensor clamp_min(const Tensor& a, const Scalar& low) { return a.clamp(low); }
inline Tensor clamp_max(const Tensor& a, const Scalar& high) { return a.clamp(std::nullopt, high); }
inline Tensor nan_to_num(const Tensor& a, std::optional<double> nan = std::nullopt, std::optional<double> posinf = std::nullopt, std::optional<double> neginf = std::nullopt) { return a.nan_to_num(nan, posinf, neginf); }
inline Tensor softplus(const Tensor& a, const Scalar& beta, const Scalar& threshold = 20) { return a.softplus(beta, threshold); }
inline Tensor elu(const Tensor& a, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale = 1) { return a.elu(alpha, scale, input_scale); }
inline Tensor hardtanh(const Tensor& a, const Scalar& low = -1, const Scalar& high = 1) { return a.clamp(low, high); }
Tensor celu(const Tensor& a, const Scalar& alpha = 1.0);
Tensor hardsigmoid(const Tensor& a);
Tensor log_sigmoid(const Tensor& a);
Tensor prelu(const Tensor& a, const Tensor& weight);      // one weight, or one per channel (axis 1)
Tensor threshold(const Tensor& a, const Scalar& threshold, const Scalar& value);
Tensor hypot(const Tensor& a, const Tensor& b);           // no overflow on the way
Tensor xlogy(const Tensor& a, const Tensor& b);           // 0 where a is 0, whatever b (unless NaN)
Tensor logaddexp2(const Tensor& a, const Tensor& b);
Tensor logit(const Tensor& a, std::optional<double> eps = std::nullopt);
Tensor sinc(const Tensor& a);
Tensor heaviside(const Tensor& a, const Tensor& at_zero);
Tensor isposinf(const Tensor& a);
Tensor isneginf(const Tensor& a);
Tensor signbit(const Tensor& a);
Tensor fmax(const Tensor& a, const Tensor& b);            // NaN only where both are
Tensor fmin(const Tensor& a, const Tensor& b);
inline Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) { return a.isclose(b, rtol, atol, equal_nan); }
inline Tensor greater(const Tensor& a, const Tensor& b) { return a.gt(b); }
inline Tensor greater_equal(const Tensor& a, const Tensor& b) { return a.ge(b); }
inline Tensor less(const Tensor& a, const Tensor& b) { return a.lt(b); }
inline Tensor less_equal(const Tensor& a, const Tensor& b) { return a.le(b); }
inline Tensor not_equal(const Tensor& a, const Tensor& b) { return a.ne(b); }
inline Tensor clamp(const Tensor& a, std::optional<Scalar> low, std::optional<Scalar> high = std::nullopt) { return a.clamp(low, high); }
inline Tensor gelu(const Tensor& a, const std::string& approximate) { return a.gelu(approximate); }
inline Tensor lerp(const Tensor& a, const Tensor& end, const Scalar& weight) { return a.lerp(end, weight); }
inline Tensor lerp(const Tensor& a, const Tensor& end, const Tensor& weight) { return a.lerp(end, weight); }
inline Tensor addcmul(const Tensor& t, const Tensor& a, const Tensor& b, const Scalar& value = 1) { return t.addcmul(a, b, value); }
inline Tensor addcdiv(const Tensor& t, const Tensor& a, const Tensor& b, const Scalar& value = 1) { return t.addcdiv(a, b, value); }
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Scalar& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, const Scalar& b);
Tensor where(const Tensor& condition, const Scalar& a, const Scalar& b);
TensorList where(const Tensor& condition);  // the indices of what is true, one list per axis
inline Tensor max(const Tensor& a, const Tensor& b) { return a.maximum(b); }
inline Tensor min(const Tensor& a, const Tensor& b) { return a.minimum(b); }
inline Tensor selu(const Tensor& a) { return a.elu(Scalar(1.6732632423543772848)).mul(Scalar(1.0507009873554804934)); }
inline Tensor elu(const Tensor& a) { return a.elu(Scalar(1.0)); }
inline Tensor leaky_relu(const Tensor& a) { return a.leaky_relu(Scalar(0.01)); }

// ---- reductions and composites
inline Tensor sum(const Tensor& a, std::optional<Dtype> type = std::nullopt) { return a.sum(type); }
inline Tensor sum(const Tensor& a, OptionalIntArrayRef axes, bool keepdim = false, std::optional<Dtype> type = std::nullopt) { return a.sum(axes, keepdim, type); }
inline Tensor mean(const Tensor& a, std::optional<Dtype> type = std::nullopt) { return a.mean(type); }
inline Tensor mean(const Tensor& a, OptionalIntArrayRef axes, bool keepdim = false, std::optional<Dtype> type = std::nullopt) { return a.mean(axes, keepdim, type); }
inline Tensor prod(const Tensor& a, std::optional<Dtype> type = std::nullopt) { return a.prod(type); }
inline Tensor prod(const Tensor& a, int64_t axis, bool keepdim = false, std::optional<Dtype> type = std::nullopt) { return a.prod(axis, keepdim, type); }
inline std::tuple<Tensor, Tensor> aminmax(const Tensor& a, std::optional<int64_t> axis = std::nullopt, bool keepdim = false) { return a.aminmax(axis, keepdim); }
inline Tensor amax(const Tensor& a, IntArrayRef axes = {}, bool keepdim = false) { return a.amax(axes, keepdim); }
inline Tensor amin(const Tensor& a, IntArrayRef axes = {}, bool keepdim = false) { return a.amin(axes, keepdim); }
inline Tensor max(const Tensor& a) { return a.max(); }
inline Tensor min(const Tensor& a) { return a.min(); }
inline std::tuple<Tensor, Tensor> max(const Tensor& a, int64_t axis, bool keepdim = false) { return a.max(axis, keepdim); }
inline std::tuple<Tensor, Tensor> min(const Tensor& a, int64_t axis, bool keepdim = false) { return a.min(axis, keepdim); }
inline Tensor argmax(const Tensor& a, std::optional<int64_t> axis = std::nullopt, bool keepdim = false) { return a.argmax(axis, keepdim); }
inline Tensor argmin(const Tensor& a, std::optional<int64_t> axis = std::nullopt, bool keepdim = false) { return a.argmin(axis, keepdim); }
inline Tensor any(const Tensor& a) { return a.any(); }
inline Tensor any(const Tensor& a, int64_t axis, bool keepdim = false) { return a.any(axis, keepdim); }
inline Tensor any(const Tensor& a, OptionalIntArrayRef axes, bool keepdim = false) { return a.any(axes, keepdim); }
inline Tensor all(const Tensor& a) { return a.all(); }
inline Tensor all(const Tensor& a, int64_t axis, bool keepdim = false) { return a.all(axis, keepdim); }
inline Tensor all(const Tensor& a, OptionalIntArrayRef axes, bool keepdim = false) { return a.all(axes, keepdim); }
template <ExactlyBool B> Tensor var(const Tensor& a, B unbiased) { return a.var(unbiased); }
template <ExactlyBool B> Tensor var(const Tensor& a, OptionalIntArrayRef axes, B unbiased, bool keepdim = false) { return a.var(axes, unbiased, keepdim); }
inline Tensor var(const Tensor& a, OptionalIntArrayRef axes = std::nullopt, const std::optional<Scalar>& correction = std::nullopt, bool keepdim = false) { return a.var(axes, correction, keepdim); }
template <ExactlyBool B> Tensor std(const Tensor& a, B unbiased) { return a.std(unbiased); }
template <ExactlyBool B> Tensor std(const Tensor& a, OptionalIntArrayRef axes, B unbiased, bool keepdim = false) { return a.std(axes, unbiased, keepdim); }
inline Tensor std(const Tensor& a, OptionalIntArrayRef axes = std::nullopt, const std::optional<Scalar>& correction = std::nullopt, bool keepdim = false) { return a.std(axes, correction, keepdim); }
std::tuple<Tensor, Tensor> var_mean(const Tensor& a, OptionalIntArrayRef axes = std::nullopt, const std::optional<Scalar>& correction = std::nullopt, bool keepdim = false);
std::tuple<Tensor, Tensor> std_mean(const Tensor& a, OptionalIntArrayRef axes = std::nullopt, const std::optional<Scalar>& correction = std::nullopt, bool keepdim = false);
template <ExactlyBool B> std::tuple<Tensor, Tensor> var_mean(const Tensor& a, B unbiased) { return var_mean(a, std::nullopt, Scalar(int(unbiased))); }
template <ExactlyBool B> std::tuple<Tensor, Tensor> std_mean(const Tensor& a, B unbiased) { return std_mean(a, std::nullopt, Scalar(int(unbiased))); }
template <ExactlyBool B> std::tuple<Tensor, Tensor> var_mean(const Tensor& a, OptionalIntArrayRef axes, B unbiased, bool keepdim = false) {
  return var_mean(a, axes, std::optional<Scalar>(int(unbiased)), keepdim);
}
template <ExactlyBool B> std::tuple<Tensor, Tensor> std_mean(const Tensor& a, OptionalIntArrayRef axes, B unbiased, bool keepdim = false) {
  return std_mean(a, axes, std::optional<Scalar>(int(unbiased)), keepdim);
}
inline Tensor norm(const Tensor& a, const Scalar& p = 2) { return a.norm(p); }
inline Tensor norm(const Tensor& a, const std::optional<Scalar>& p, IntArrayRef axes, bool keepdim = false, std::optional<Dtype> type = std::nullopt) { return a.norm(p, axes, keepdim, type); }
inline Tensor dist(const Tensor& a, const Tensor& b, const Scalar& p = 2) { return a.dist(b, p); }
inline Tensor trace(const Tensor& a) { return a.trace(); }
inline Tensor logsumexp(const Tensor& a, IntArrayRef axes, bool keepdim = false) { return a.logsumexp(axes, keepdim); }
inline Tensor softmax(const Tensor& a, int64_t axis, std::optional<Dtype> type = std::nullopt) { return a.softmax(axis, type); }
inline Tensor log_softmax(const Tensor& a, int64_t axis, std::optional<Dtype> type = std::nullopt) { return a.log_softmax(axis, type); }
inline Tensor nansum(const Tensor& a) { return a.nansum(); }
inline Tensor nansum(const Tensor& a, OptionalIntArrayRef axes, bool keepdim = false, std::optional<Dtype> type = std::nullopt) { return a.nansum(axes, keepdim, type); }
inline Tensor nanmean(const Tensor& a, OptionalIntArrayRef axes = std::nullopt, bool keepdim = false, std::optional<Dtype> type = std::nullopt) { return a.nanmean(axes, keepdim, type); }
inline Tensor count_nonzero(const Tensor& a) { return a.count_nonzero(); }
inline Tensor count_nonzero(const Tensor& a, int64_t axis) { return a.count_nonzero(axis); }
inline Tensor count_nonzero(const Tensor& a, IntArrayRef axes) { return a.count_nonzero(axes); }
inline Tensor cumsum(const Tensor& a, int64_t axis, std::optional<Dtype> type = std::nullopt) { return a.cumsum(axis, type); }
inline Tensor cumprod(const Tensor& a, int64_t axis, std::optional<Dtype> type = std::nullopt) { return a.cumprod(axis, type); }
inline Tensor median(const Tensor& a) { return a.median(); }
inline std::tuple<Tensor, Tensor> median(const Tensor& a, int64_t axis, bool keepdim = false) { return a.median(axis, keepdim); }
inline std::tuple<Tensor, Tensor> kthvalue(const Tensor& a, int64_t k, int64_t axis = -1, bool keepdim = false) { return a.kthvalue(k, axis, keepdim); }
inline bool equal(const Tensor& a, const Tensor& b) { return a.equal(b); }
inline bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) { return a.allclose(b, rtol, atol, equal_nan); }

// ---- shapes and indices
inline Tensor reshape(const Tensor& a, IntArrayRef extents) { return a.reshape(extents); }
inline Tensor transpose(const Tensor& a, int64_t i, int64_t j) { return a.transpose(i, j); }
inline Tensor permute(const Tensor& a, IntArrayRef axes) { return a.permute(axes); }
inline Tensor squeeze(const Tensor& a) { return a.squeeze(); }
inline Tensor squeeze(const Tensor& a, int64_t axis) { return a.squeeze(axis); }
inline Tensor squeeze(const Tensor& a, IntArrayRef axes) { return a.squeeze(axes); }
inline Tensor as_strided(const Tensor& a, IntArrayRef extents, IntArrayRef strides, std::optional<int64_t> offset = std::nullopt) { return a.as_strided(extents, strides, offset); }
inline Tensor unflatten(const Tensor& a, int64_t axis, IntArrayRef extents) { return a.unflatten(axis, extents); }
inline Tensor ravel(const Tensor& a) { return a.ravel(); }
inline Tensor swapaxes(const Tensor& a, int64_t i, int64_t j) { return a.transpose(i, j); }
inline Tensor swapdims(const Tensor& a, int64_t i, int64_t j) { return a.transpose(i, j); }
inline Tensor select(const Tensor& a, int64_t axis, int64_t index) { return a.select(axis, index); }
inline Tensor slice(const Tensor& a, int64_t axis = 0, std::optional<int64_t> start = std::nullopt, std::optional<int64_t> stop = std::nullopt, int64_t step = 1) { return a.slice(axis, start, stop, step); }
inline Tensor broadcast_to(const Tensor& a, IntArrayRef extents) { return a.expand(extents); }
TensorList broadcast_tensors(const TensorList& tensors);
inline Tensor detach(const Tensor& a) { return a.detach(); }
inline Tensor diag(const Tensor& a, int64_t offset = 0) { return a.diag(offset); }
inline Tensor diag_embed(const Tensor& a, int64_t offset = 0, int64_t axis1 = -2, int64_t axis2 = -1) { return a.diag_embed(offset, axis1, axis2); }
inline Tensor movedim(const Tensor& a, IntArrayRef from, IntArrayRef to) { return a.movedim(from, to); }
inline TensorList tensor_split(const Tensor& a, int64_t sections, int64_t axis = 0) { return a.tensor_split(sections, axis); }
inline TensorList tensor_split(const Tensor& a, IntArrayRef indices, int64_t axis = 0) { return a.tensor_split(indices, axis); }
inline Tensor fliplr(const Tensor& a) { return a.flip({1}); }
inline Tensor flipud(const Tensor& a) { return a.flip({0}); }
inline Tensor scatter(const Tensor& a, int64_t axis, const Tensor& index, const Tensor& source) { return a.scatter(axis, index, source); }
inline Tensor scatter(const Tensor& a, int64_t axis, const Tensor& index, const Scalar& v) { return a.scatter(axis, index, v); }
inline Tensor scatter_add(const Tensor& a, int64_t axis, const Tensor& index, const Tensor& source) { return a.scatter_add(axis, index, source); }
inline Tensor index_add(const Tensor& a, int64_t axis, const Tensor& index, const Tensor& source) { return a.index_add(axis, index, source); }
inline Tensor index_fill(const Tensor& a, int64_t axis, const Tensor& index, const Scalar& v) { return a.index_fill(axis, index, v); }
inline Tensor index_copy(const Tensor& a, int64_t axis, const Tensor& index, const Tensor& source) { return a.index_copy(axis, index, source); }
inline Tensor masked_scatter(const Tensor& a, const Tensor& mask, const Tensor& source) { return a.masked_scatter(mask, source); }
inline Tensor take_along_dim(const Tensor& a, const Tensor& index, std::optional<int64_t> axis = std::nullopt) { return a.take_along_dim(index, axis); }
inline Tensor argwhere(const Tensor& a) { return a.nonzero(); }
inline Tensor unsqueeze(const Tensor& a, int64_t axis) { return a.unsqueeze(axis); }
inline Tensor flatten(const Tensor& a, int64_t start = 0, int64_t end = -1) { return a.flatten(start, end); }
inline Tensor clone(const Tensor& a) { return a.clone(); }
inline Tensor t(const Tensor& a) { return a.t(); }
inline Tensor diagonal(const Tensor& a, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1) { return a.diagonal(offset, axis1, axis2); }
inline Tensor movedim(const Tensor& a, int64_t from, int64_t to) { return a.movedim(from, to); }
inline Tensor narrow(const Tensor& a, int64_t axis, int64_t start, int64_t length) { return a.narrow(axis, start, length); }
inline TensorList chunk(const Tensor& a, int64_t chunks, int64_t axis = 0) { return a.chunk(chunks, axis); }
inline TensorList split(const Tensor& a, int64_t size, int64_t axis = 0) { return a.split(size, axis); }
inline TensorList split(const Tensor& a, IntArrayRef sizes, int64_t axis) { return a.split(sizes, axis); }
inline TensorList unbind(const Tensor& a, int64_t axis = 0) { return a.unbind(axis); }
inline Tensor gather(const Tensor& a, int64_t axis, const Tensor& index) { return a.gather(axis, index); }
inline Tensor index_select(const Tensor& a, int64_t axis, const Tensor& index) { return a.index_select(axis, index); }
inline Tensor masked_fill(const Tensor& a, const Tensor& mask, const Scalar& v) { return a.masked_fill(mask, v); }
inline Tensor masked_fill(const Tensor& a, const Tensor& mask, const Tensor& v) { return a.masked_fill(mask, v); }
inline Tensor masked_select(const Tensor& a, const Tensor& mask) { return a.masked_select(mask); }
inline Tensor nonzero(const Tensor& a) { return a.nonzero(); }
inline Tensor tril(const Tensor& a, int64_t diagonal = 0) { return a.tril(diagonal); }
inline Tensor triu(const Tensor& a, int64_t diagonal = 0) { return a.triu(diagonal); }
inline Tensor flip(const Tensor& a, IntArrayRef axes) { return a.flip(axes); }
inline Tensor roll(const Tensor& a, IntArrayRef shifts, IntArrayRef axes = {}) { return a.roll(shifts, axes); }
inline std::tuple<Tensor, Tensor> sort(const Tensor& a, std::optional<bool> stable, int64_t axis = -1, bool descending = false) { return a.sort(stable, axis, descending); }
inline std::tuple<Tensor, Tensor> sort(const Tensor& a, int64_t axis = -1, bool descending = false) { return a.sort(axis, descending); }
inline std::tuple<Tensor, Tensor> topk(const Tensor& a, int64_t k, int64_t axis = -1, bool largest = true, bool sorted = true) { return a.topk(k, axis, largest, sorted); }
inline Tensor argsort(const Tensor& a, int64_t axis = -1, bool descending = false) { return a.argsort(axis, descending); }
inline Tensor take(const Tensor& a, const Tensor& index) { return a.take(index); }
// Different elements, ascending; where each element went; how often each occurs (undefined where not asked for).
std::tuple<Tensor, Tensor, Tensor> _unique2(const Tensor& a, bool sorted = true, bool return_inverse = false, bool return_counts = false);
inline Tensor unique(const Tensor& a) { return std::get<0>(_unique2(a)); }
Tensor cat(const TensorList& parts, int64_t axis = 0);
inline Tensor concat(const TensorList& parts, int64_t axis = 0) { return cat(parts, axis); }
Tensor stack(const TensorList& parts, int64_t axis = 0);
Tensor hstack(const TensorList& parts);
Tensor vstack(const TensorList& parts);
inline Tensor tile(const Tensor& a, IntArrayRef times) { return a.tile(times); }
inline Tensor repeat_interleave(const Tensor& a, const Tensor& times, std::optional<int64_t> axis = std::nullopt) { return a.repeat_interleave(times, axis); }
inline Tensor repeat_interleave(const Tensor& a, int64_t times, std::optional<int64_t> axis = std::nullopt) { return a.repeat_interleave(times, axis); }

// ---- products
inline Tensor matmul(const Tensor& a, const Tensor& b) { return a.matmul(b); }
inline Tensor mm(const Tensor& a, const Tensor& b) { return a.mm(b); }
inline Tensor bmm(const Tensor& a, const Tensor& b) { return a.bmm(b); }
inline Tensor mv(const Tensor& a, const Tensor& b) { return a.mv(b); }
inline Tensor dot(const Tensor& a, const Tensor& b) { return a.dot(b); }
inline Tensor outer(const Tensor& a, const Tensor& b) { return a.outer(b); }
inline Tensor addmm(const Tensor& t, const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) { return t.addmm(a, b, beta, alpha); }
inline Tensor baddbmm(const Tensor& t, const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) { return t.baddbmm(a, b, beta, alpha); }
inline Tensor addmv(const Tensor& t, const Tensor& m, const Tensor& v, const Scalar& beta = 1, const Scalar& alpha = 1) { return t.addmv(m, v, beta, alpha); }
inline Tensor addr(const Tensor& t, const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) { return t.addr(a, b, beta, alpha); }
inline Tensor addbmm(const Tensor& t, const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) { return t.addbmm(a, b, beta, alpha); }
inline Tensor inner(const Tensor& a, const Tensor& b) { return a.inner(b); }
inline Tensor vdot(const Tensor& a, const Tensor& b) { return a.dot(b); }
inline Tensor ger(const Tensor& a, const Tensor& b) { return a.outer(b); }

// ---- random
Tensor dropout(const Tensor& a, double p, bool train);

// ---- operators
#define FRIT_OPERATOR(sign, name)                                                           \
  inline Tensor operator sign(const Tensor& a, const Tensor& b) { return a.name(b); }       \
  inline Tensor operator sign(const Tensor& a, const Scalar& b) { return a.name(b); }       \
  inline Tensor operator sign(const Scalar& a, const Tensor& b) { return frit::name(a, b); }
FRIT_OPERATOR(+, add) FRIT_OPERATOR(-, sub) FRIT_OPERATOR(*, mul) FRIT_OPERATOR(/, div) FRIT_OPERATOR(%, remainder)
FRIT_OPERATOR(==, eq) FRIT_OPERATOR(!=, ne) FRIT_OPERATOR(<, lt) FRIT_OPERATOR(<=, le) FRIT_OPERATOR(>, gt) FRIT_OPERATOR(>=, ge)
FRIT_OPERATOR(&, bitwise_and) FRIT_OPERATOR(|, bitwise_or) FRIT_OPERATOR(^, bitwise_xor)
FRIT_OPERATOR(<<, bitwise_left_shift) FRIT_OPERATOR(>>, bitwise_right_shift)
#undef FRIT_OPERATOR
inline Tensor Tensor::operator~() const { return dtype() == kBool ? logical_not() : bitwise_not(); }

}  // namespace frit
