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
Tensor one_hot(const Tensor& classes, int64_t count = -1);
Tensor empty_like(const Tensor& t, const TensorOptions& options = {});
Tensor zeros_like(const Tensor& t, const TensorOptions& options = {});
Tensor ones_like(const Tensor& t, const TensorOptions& options = {});
Tensor full_like(const Tensor& t, const Scalar& v, const TensorOptions& options = {});
Tensor rand_like(const Tensor& t, const TensorOptions& options = {});
Tensor randn_like(const Tensor& t, const TensorOptions& options = {});
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
#define UNARY(name, ...) inline Tensor name(const Tensor& a) { return a.name(); }
#define BINARY(name, ...)                                                             \
  inline Tensor name(const Tensor& a, const Tensor& b) { return a.name(b); }          \
  inline Tensor name(const Tensor& a, const Scalar& b) { return a.name(b); }          \
  Tensor name(const Scalar& a, const Tensor& b);
#define HIDDEN_BINARY(...)
#include "tracer/ops.def"
inline Tensor add(const Tensor& a, const Tensor& b, const Scalar& alpha) { return a.add(b, alpha); }
inline Tensor sub(const Tensor& a, const Tensor& b, const Scalar& alpha) { return a.sub(b, alpha); }
inline Tensor div(const Tensor& a, const Tensor& b, const std::optional<std::string>& rounding_mode) { return a.div(b, rounding_mode); }
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
inline Tensor max(const Tensor& a, const Tensor& b) { return a.maximum(b); }
inline Tensor min(const Tensor& a, const Tensor& b) { return a.minimum(b); }
inline Tensor selu(const Tensor& a) { return a.elu(Scalar(1.6732632423543772848)).mul(Scalar(1.0507009873554804934)); }
inline Tensor elu(const Tensor& a) { return a.elu(Scalar(1.0)); }
inline Tensor leaky_relu(const Tensor& a) { return a.leaky_relu(Scalar(0.01)); }

// ---- reductions and composites
inline Tensor sum(const Tensor& a) { return a.sum(); }
inline Tensor sum(const Tensor& a, OptionalIntArrayRef axes, bool keepdim = false, std::optional<Dtype> type = std::nullopt) { return a.sum(axes, keepdim, type); }
inline Tensor mean(const Tensor& a) { return a.mean(); }
inline Tensor mean(const Tensor& a, OptionalIntArrayRef axes, bool keepdim = false) { return a.mean(axes, keepdim); }
inline Tensor prod(const Tensor& a) { return a.prod(); }
inline Tensor prod(const Tensor& a, int64_t axis, bool keepdim = false) { return a.prod(axis, keepdim); }
inline Tensor amax(const Tensor& a, IntArrayRef axes = {}, bool keepdim = false) { return a.amax(axes, keepdim); }
inline Tensor amin(const Tensor& a, IntArrayRef axes = {}, bool keepdim = false) { return a.amin(axes, keepdim); }
inline Tensor max(const Tensor& a) { return a.max(); }
inline Tensor min(const Tensor& a) { return a.min(); }
inline std::tuple<Tensor, Tensor> max(const Tensor& a, int64_t axis, bool keepdim = false) { return a.max(axis, keepdim); }
inline std::tuple<Tensor, Tensor> min(const Tensor& a, int64_t axis, bool keepdim = false) { return a.min(axis, keepdim); }
inline Tensor argmax(const Tensor& a, std::optional<int64_t> axis = std::nullopt, bool keepdim = false) { return a.argmax(axis, keepdim); }
inline Tensor argmin(const Tensor& a, std::optional<int64_t> axis = std::nullopt, bool keepdim = false) { return a.argmin(axis, keepdim); }
inline Tensor any(const Tensor& a) { return a.any(); }
inline Tensor all(const Tensor& a) { return a.all(); }
inline Tensor var(const Tensor& a, bool unbiased = true) { return a.var(unbiased); }
inline Tensor var(const Tensor& a, OptionalIntArrayRef axes, bool unbiased = true, bool keepdim = false) { return a.var(axes, unbiased, keepdim); }
inline Tensor std(const Tensor& a, bool unbiased = true) { return a.std(unbiased); }
inline Tensor norm(const Tensor& a, const Scalar& p = 2) { return a.norm(p); }
inline Tensor trace(const Tensor& a) { return a.trace(); }
inline Tensor logsumexp(const Tensor& a, IntArrayRef axes, bool keepdim = false) { return a.logsumexp(axes, keepdim); }
inline Tensor softmax(const Tensor& a, int64_t axis, std::optional<Dtype> type = std::nullopt) { return a.softmax(axis, type); }
inline Tensor log_softmax(const Tensor& a, int64_t axis, std::optional<Dtype> type = std::nullopt) { return a.log_softmax(axis, type); }
inline Tensor nansum(const Tensor& a) { return a.nansum(); }
inline Tensor count_nonzero(const Tensor& a) { return a.count_nonzero(); }
inline Tensor cumsum(const Tensor& a, int64_t axis) { return a.cumsum(axis); }
inline bool equal(const Tensor& a, const Tensor& b) { return a.equal(b); }
inline bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) { return a.allclose(b, rtol, atol, equal_nan); }

// ---- shapes and indices
inline Tensor reshape(const Tensor& a, IntArrayRef extents) { return a.reshape(extents); }
inline Tensor transpose(const Tensor& a, int64_t i, int64_t j) { return a.transpose(i, j); }
inline Tensor permute(const Tensor& a, IntArrayRef axes) { return a.permute(axes); }
inline Tensor squeeze(const Tensor& a) { return a.squeeze(); }
inline Tensor squeeze(const Tensor& a, int64_t axis) { return a.squeeze(axis); }
inline Tensor unsqueeze(const Tensor& a, int64_t axis) { return a.unsqueeze(axis); }
inline Tensor flatten(const Tensor& a, int64_t start = 0, int64_t end = -1) { return a.flatten(start, end); }
inline Tensor clone(const Tensor& a) { return a.clone(); }
inline Tensor t(const Tensor& a) { return a.t(); }
inline Tensor diagonal(const Tensor& a, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1) { return a.diagonal(offset, axis1, axis2); }
inline Tensor movedim(const Tensor& a, int64_t from, int64_t to) { return a.movedim(from, to); }
inline Tensor narrow(const Tensor& a, int64_t axis, int64_t start, int64_t length) { return a.narrow(axis, start, length); }
inline TensorList chunk(const Tensor& a, int64_t chunks, int64_t axis = 0) { return a.chunk(chunks, axis); }
inline TensorList split(const Tensor& a, int64_t size, int64_t axis = 0) { return a.split(size, axis); }
inline TensorList unbind(const Tensor& a, int64_t axis = 0) { return a.unbind(axis); }
inline Tensor gather(const Tensor& a, int64_t axis, const Tensor& index) { return a.gather(axis, index); }
inline Tensor index_select(const Tensor& a, int64_t axis, const Tensor& index) { return a.index_select(axis, index); }
inline Tensor masked_fill(const Tensor& a, const Tensor& mask, const Scalar& v) { return a.masked_fill(mask, v); }
inline Tensor masked_select(const Tensor& a, const Tensor& mask) { return a.masked_select(mask); }
inline Tensor nonzero(const Tensor& a) { return a.nonzero(); }
inline Tensor tril(const Tensor& a, int64_t diagonal = 0) { return a.tril(diagonal); }
inline Tensor triu(const Tensor& a, int64_t diagonal = 0) { return a.triu(diagonal); }
inline Tensor flip(const Tensor& a, IntArrayRef axes) { return a.flip(axes); }
inline Tensor roll(const Tensor& a, IntArrayRef shifts, IntArrayRef axes = {}) { return a.roll(shifts, axes); }
inline std::tuple<Tensor, Tensor> sort(const Tensor& a, int64_t axis = -1, bool descending = false) { return a.sort(axis, descending); }
inline std::tuple<Tensor, Tensor> topk(const Tensor& a, int64_t k, int64_t axis = -1, bool largest = true, bool sorted = true) { return a.topk(k, axis, largest, sorted); }
inline Tensor argsort(const Tensor& a, int64_t axis = -1, bool descending = false) { return a.argsort(axis, descending); }
Tensor take(const Tensor& a, const Tensor& index);  // of the flattened tensor
Tensor cat(const TensorList& parts, int64_t axis = 0);
Tensor stack(const TensorList& parts, int64_t axis = 0);
Tensor tile(const Tensor& a, IntArrayRef times);
inline Tensor repeat_interleave(const Tensor& a, int64_t times, std::optional<int64_t> axis = std::nullopt) { return a.repeat_interleave(times, axis); }

// ---- products
inline Tensor matmul(const Tensor& a, const Tensor& b) { return a.matmul(b); }
inline Tensor mm(const Tensor& a, const Tensor& b) { return a.mm(b); }
inline Tensor bmm(const Tensor& a, const Tensor& b) { return a.bmm(b); }
inline Tensor mv(const Tensor& a, const Tensor& b) { return a.mv(b); }
inline Tensor dot(const Tensor& a, const Tensor& b) { return a.dot(b); }
inline Tensor outer(const Tensor& a, const Tensor& b) { return a.outer(b); }
inline Tensor addmm(const Tensor& t, const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) { return t.addmm(a, b, beta, alpha); }
Tensor baddbmm(const Tensor& t, const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1);

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
