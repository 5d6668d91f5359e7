// The tensor. Copies of a Tensor share it; ops make new ones; names ending in _ write in place. Names, defaults and rules are
// LibTorch's. Errors are the types of runtime/error.h and name the op, the shapes and the remedy.
#pragma once
#include <functional>
#include <tuple>
#include "frit/accessor.h"
#include "frit/types.h"

namespace frit {

class Tensor;
using TensorList = std::vector<Tensor>;

// A flag that is no number: where an overload takes an axis too, a whole number is the axis.
template <class B> concept ExactlyBool = std::is_same_v<B, bool>;

namespace indexing {
struct NoneType {};
struct EllipsisType {};
inline constexpr NoneType None{};
inline constexpr EllipsisType Ellipsis{};
// start:stop:step along one axis; what is None has its default. Steps are positive.
struct Slice {
  std::optional<int64_t> start, stop;
  int64_t step = 1;
  struct Bound {
    std::optional<int64_t> value;
    Bound() = default;
    Bound(NoneType) {}
    Bound(int64_t v) : value(v) {}
    Bound(int v) : value(v) {}
    Bound(size_t v) : value(int64_t(v)) {}
  };
  Slice() = default;
  Slice(Bound first) : stop(first.value) {}
  Slice(Bound first, Bound last, Bound by = {}) : start(first.value), stop(last.value), step(by.value.value_or(1)) {}
};
struct TensorIndex;
}  // namespace indexing

class Tensor : public handle::Var {
 public:
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  // A name takes another tensor; what an expression returns, as t[i], is written: t[i] = 1.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  Tensor& operator=(const Tensor& content) && { return copy_(content); }
  Tensor& operator=(const Scalar& content) && { return fill_(content); }
  Tensor(handle::Var v) : handle::Var(std::move(v)) {}

  // ---- what it is
  bool defined() const { return cell_ != nullptr; }
  IntArrayRef sizes() const;
  IntArrayRef strides() const;
  int64_t size(int64_t axis) const;
  int64_t stride(int64_t axis) const;
  int64_t dim() const;
  int64_t ndimension() const { return dim(); }
  int64_t numel() const;
  int64_t storage_offset() const;
  Dtype dtype() const;
  Dtype scalar_type() const { return dtype(); }
  Device device() const { return Device(); }
  TensorOptions options() const { return TensorOptions(dtype()); }
  size_t element_size() const { return size_of(dtype()); }
  size_t itemsize() const { return size_of(dtype()); }
  size_t nbytes() const { return size_t(numel()) * element_size(); }
  bool is_contiguous() const;
  bool is_floating_point() const { return is_floating(dtype()); }
  bool is_cuda() const { return false; }
  bool is_cpu() const { return true; }
  bool is_same(const Tensor& o) const { return cell_ == o.cell_; }
  bool is_alias_of(const Tensor& o) const;  // shares storage

  // ---- reading
  template <class T> T item() const {
    const Scalar s = item();
    return s.category() == handle::Category::floating ? T(s.to_double()) : T(s.to_int());
  }
  Scalar item() const;                    // throws unless there is one element
  template <class T> T* data_ptr() const { return static_cast<T*>(data_pointer(DtypeOf<T>::value, true)); }
  template <class T> const T* const_data_ptr() const { return static_cast<const T*>(data_pointer(DtypeOf<T>::value, false)); }
  void* data_ptr() const { return data_pointer(dtype(), true); }
  // Unchecked access to the elements, of rank N. Throws DtypeError or ShapeError when T or N is another.
  template <class T, size_t N> TensorAccessor<T, N> accessor() const& {
    check_rank(N);
    T* data = data_ptr<T>();
    return {data, sizes().data(), strides().data()};
  }
  template <class T, size_t N> TensorAccessor<T, N> accessor() && = delete;

  // ---- gradients
  bool requires_grad() const;
  Tensor& requires_grad_(bool on = true);
  Tensor& set_requires_grad(bool on) { return requires_grad_(on); }
  bool is_leaf() const;
  Tensor grad() const;
  Tensor& mutable_grad() = delete;        // use set_grad
  void set_grad(const Tensor& g) const;
  void zero_grad(bool set_to_none = true) const;
  void backward(const Tensor& gradient = {}, std::optional<bool> retain_graph = std::nullopt, bool create_graph = false) const;
  Tensor detach() const;
  Tensor& detach_();
  void retain_grad() const;
  template <class F> uint64_t register_hook(F f) const {
    return add_hook([f](const Tensor& g) -> Tensor {
      if constexpr (std::is_void_v<decltype(f(g))>) { f(g); return {}; }
      else return f(g);
    });
  }
  void remove_hook(uint64_t handle) const;
  Tensor variable_data() const { return detach(); }
  Tensor data() const { return detach(); }
  void set_data(const Tensor& data) const;  // this tensor, for everyone who holds it, takes data's storage, type and shape
  uint64_t _version() const;

  // ---- types and copies
  Tensor to(Dtype d, bool non_blocking = false, bool copy = false) const;
  Tensor to(Device d, bool non_blocking = false, bool copy = false) const;
  Tensor to(DeviceType d, bool non_blocking = false, bool copy = false) const { return to(Device(d), non_blocking, copy); }
  Tensor to(Device d, Dtype t, bool non_blocking = false, bool copy = false) const;
  Tensor to(const TensorOptions& o, bool non_blocking = false, bool copy = false) const;
  Tensor to(const Tensor& like) const { return to(like.dtype()); }
  Tensor type_as(const Tensor& like) const { return to(like.dtype()); }
  Tensor cpu() const { return *this; }
  Tensor cuda() const { return to(Device(kCUDA)); }
  Tensor contiguous() const;
  Tensor clone() const;
  Tensor& copy_(const Tensor& source, bool non_blocking = false);
  Tensor& fill_(const Scalar& v);
  Tensor& fill_(const Tensor& v);         // of one element
  Tensor& bernoulli_(double p = 0.5);
  Tensor bernoulli() const;               // 1 with each element's probability
  Tensor multinomial(int64_t count, bool replacement = false) const;  // indices drawn by the weights of the last axis
  Tensor new_empty(IntArrayRef sizes, const TensorOptions& options = {}) const;
  Tensor new_zeros(IntArrayRef sizes, const TensorOptions& options = {}) const;
  Tensor new_ones(IntArrayRef sizes, const TensorOptions& options = {}) const;
  Tensor new_full(IntArrayRef sizes, const Scalar& v, const TensorOptions& options = {}) const;
  Tensor& zero_();
  Tensor& uniform_(double low = 0, double high = 1);
  Tensor& normal_(double mean = 0, double deviation = 1);

  // ---- views
  Tensor view(IntArrayRef extents) const;
  Tensor view_as(const Tensor& o) const { return view(o.sizes()); }
  Tensor reshape(IntArrayRef extents) const;
  Tensor reshape_as(const Tensor& o) const { return reshape(o.sizes()); }
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor swapaxes(int64_t a, int64_t b) const { return transpose(a, b); }
  Tensor permute(IntArrayRef axes) const;
  Tensor t() const;
  Tensor T() const;
  Tensor mT() const;
  Tensor squeeze() const;
  Tensor squeeze(int64_t axis) const;
  Tensor squeeze(IntArrayRef axes) const;
  Tensor unsqueeze(int64_t axis) const;
  Tensor& squeeze_() { return *this = squeeze(); }
  Tensor& squeeze_(int64_t axis) { return *this = squeeze(axis); }
  Tensor& unsqueeze_(int64_t axis) { return *this = unsqueeze(axis); }
  Tensor& transpose_(int64_t a, int64_t b) { return *this = transpose(a, b); }
  Tensor& t_() { return *this = t(); }
  Tensor expand(IntArrayRef extents, bool implicit = false) const;
  Tensor expand_as(const Tensor& o) const { return expand(o.sizes()); }
  Tensor broadcast_to(IntArrayRef extents) const { return expand(extents); }
  Tensor narrow(int64_t axis, int64_t start, int64_t length) const;
  Tensor select(int64_t axis, int64_t index) const;
  Tensor slice(int64_t axis = 0, std::optional<int64_t> start = std::nullopt, std::optional<int64_t> stop = std::nullopt, int64_t step = 1) const;
  Tensor flatten(int64_t start = 0, int64_t end = -1) const;
  Tensor unflatten(int64_t axis, IntArrayRef extents) const;
  Tensor ravel() const { return reshape({-1}); }
  Tensor movedim(int64_t from, int64_t to) const;
  Tensor movedim(IntArrayRef from, IntArrayRef to) const;
  Tensor swapdims(int64_t a, int64_t b) const { return transpose(a, b); }
  // Any view of the storage; the offset counts from the storage's start and is this tensor's own when left out.
  Tensor as_strided(IntArrayRef extents, IntArrayRef strides, std::optional<int64_t> offset = std::nullopt) const;
  Tensor unfold(int64_t axis, int64_t size, int64_t step) const;  // windows along an axis, as a last axis
  Tensor diag(int64_t offset = 0) const;
  Tensor diag_embed(int64_t offset = 0, int64_t axis1 = -2, int64_t axis2 = -1) const;
  Tensor diagonal(int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1) const;
  TensorList chunk(int64_t chunks, int64_t axis = 0) const;
  TensorList split(int64_t size, int64_t axis = 0) const;
  TensorList split(IntArrayRef sizes, int64_t axis) const;
  TensorList unbind(int64_t axis = 0) const;
  TensorList tensor_split(int64_t sections, int64_t axis = 0) const;
  TensorList tensor_split(IntArrayRef indices, int64_t axis = 0) const;

  // ---- indexing
  Tensor operator[](int64_t i) const { return select(0, i); }
  Tensor operator[](const Tensor& index) const;
  Tensor index(std::initializer_list<indexing::TensorIndex> at) const;
  Tensor index(const std::vector<indexing::TensorIndex>& at) const;
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> at, const Tensor& v);
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> at, const Scalar& v);
  Tensor& index_put_(const std::vector<indexing::TensorIndex>& at, const Tensor& v);
  Tensor index_select(int64_t axis, const Tensor& index) const;
  Tensor gather(int64_t axis, const Tensor& index) const;
  Tensor scatter(int64_t axis, const Tensor& index, const Tensor& source) const;
  Tensor scatter(int64_t axis, const Tensor& index, const Scalar& v) const;
  Tensor& scatter_(int64_t axis, const Tensor& index, const Tensor& source);
  Tensor& scatter_(int64_t axis, const Tensor& index, const Scalar& v);
  Tensor scatter_add(int64_t axis, const Tensor& index, const Tensor& source) const;
  Tensor& scatter_add_(int64_t axis, const Tensor& index, const Tensor& source);
  Tensor index_add(int64_t axis, const Tensor& index, const Tensor& source) const;
  Tensor& index_add_(int64_t axis, const Tensor& index, const Tensor& source);
  Tensor masked_fill(const Tensor& mask, const Scalar& v) const;
  Tensor masked_fill(const Tensor& mask, const Tensor& v) const;
  Tensor& masked_fill_(const Tensor& mask, const Scalar& v);
  Tensor& masked_fill_(const Tensor& mask, const Tensor& v);
  Tensor masked_scatter(const Tensor& mask, const Tensor& source) const;  // the source's elements in order where the mask is true
  Tensor& masked_scatter_(const Tensor& mask, const Tensor& source);
  Tensor index_fill(int64_t axis, const Tensor& index, const Scalar& v) const;
  Tensor index_fill(int64_t axis, const Tensor& index, const Tensor& v) const;
  Tensor& index_fill_(int64_t axis, const Tensor& index, const Scalar& v);
  Tensor index_copy(int64_t axis, const Tensor& index, const Tensor& source) const;
  Tensor& index_copy_(int64_t axis, const Tensor& index, const Tensor& source);
  Tensor index_put(const std::vector<indexing::TensorIndex>& at, const Tensor& v) const { return clone().index_put_(at, v); }
  Tensor take(const Tensor& index) const;                                 // of the flattened tensor
  Tensor take_along_dim(const Tensor& index, std::optional<int64_t> axis = std::nullopt) const;
  Tensor masked_select(const Tensor& mask) const;
  Tensor nonzero() const;
  Tensor repeat(IntArrayRef times) const;
  Tensor repeat_interleave(int64_t times, std::optional<int64_t> axis = std::nullopt) const;
  Tensor repeat_interleave(const Tensor& times, std::optional<int64_t> axis = std::nullopt) const;
  Tensor tile(IntArrayRef times) const;
  Tensor flip(IntArrayRef axes) const;
  Tensor roll(IntArrayRef shifts, IntArrayRef axes = {}) const;
  Tensor tril(int64_t diagonal = 0) const;
  Tensor triu(int64_t diagonal = 0) const;
  Tensor& tril_(int64_t diagonal = 0) { return copy_(tril(diagonal)); }
  Tensor& triu_(int64_t diagonal = 0) { return copy_(triu(diagonal)); }
  Tensor cumsum(int64_t axis, std::optional<Dtype> type = std::nullopt) const;
  Tensor cumprod(int64_t axis, std::optional<Dtype> type = std::nullopt) const;
  Tensor& cumsum_(int64_t axis) { return copy_(cumsum(axis)); }
  Tensor& cumprod_(int64_t axis) { return copy_(cumprod(axis)); }
  // Sorting is stable always; NaN comes last (first when descending).
  std::tuple<Tensor, Tensor> sort(int64_t axis = -1, bool descending = false) const;
  std::tuple<Tensor, Tensor> sort(std::optional<bool> stable, int64_t axis = -1, bool descending = false) const;
  std::tuple<Tensor, Tensor> kthvalue(int64_t k, int64_t axis = -1, bool keepdim = false) const;
  Tensor median() const;
  std::tuple<Tensor, Tensor> median(int64_t axis, bool keepdim = false) const;
  std::tuple<Tensor, Tensor> topk(int64_t k, int64_t axis = -1, bool largest = true, bool sorted = true) const;
  Tensor argsort(int64_t axis = -1, bool descending = false) const;
  template <ExactlyBool B>
  Tensor argsort(B, int64_t axis = -1, bool descending = false) const { return argsort(axis, descending); }

  // ---- reductions
  Tensor sum(std::optional<Dtype> type = std::nullopt) const;
  Tensor sum(OptionalIntArrayRef axes, bool keepdim = false, std::optional<Dtype> type = std::nullopt) const;
  Tensor mean(std::optional<Dtype> type = std::nullopt) const;
  Tensor mean(OptionalIntArrayRef axes, bool keepdim = false, std::optional<Dtype> type = std::nullopt) const;
  Tensor nansum() const;
  Tensor nansum(OptionalIntArrayRef axes, bool keepdim = false, std::optional<Dtype> type = std::nullopt) const;
  Tensor nanmean(OptionalIntArrayRef axes = std::nullopt, bool keepdim = false, std::optional<Dtype> type = std::nullopt) const;
  Tensor prod(std::optional<Dtype> type = std::nullopt) const;
  Tensor prod(int64_t axis, bool keepdim = false, std::optional<Dtype> type = std::nullopt) const;
  Tensor amax(IntArrayRef axes = {}, bool keepdim = false) const;
  Tensor amin(IntArrayRef axes = {}, bool keepdim = false) const;
  Tensor max() const;
  Tensor min() const;
  Tensor max(const Tensor& o) const { return maximum(o); }
  Tensor min(const Tensor& o) const { return minimum(o); }
  std::tuple<Tensor, Tensor> aminmax(std::optional<int64_t> axis = std::nullopt, bool keepdim = false) const;
  std::tuple<Tensor, Tensor> max(int64_t axis, bool keepdim = false) const;
  std::tuple<Tensor, Tensor> min(int64_t axis, bool keepdim = false) const;
  Tensor argmax(std::optional<int64_t> axis = std::nullopt, bool keepdim = false) const;
  Tensor argmin(std::optional<int64_t> axis = std::nullopt, bool keepdim = false) const;
  Tensor any() const;
  Tensor any(int64_t axis, bool keepdim = false) const;
  Tensor any(OptionalIntArrayRef axes, bool keepdim = false) const;
  Tensor all() const;
  Tensor all(int64_t axis, bool keepdim = false) const;
  Tensor all(OptionalIntArrayRef axes, bool keepdim = false) const;
  Tensor var(OptionalIntArrayRef axes = std::nullopt, const std::optional<Scalar>& correction = std::nullopt, bool keepdim = false) const;
  template <ExactlyBool B> Tensor var(B unbiased) const { return var(std::nullopt, Scalar(int(unbiased))); }
  template <ExactlyBool B> Tensor var(OptionalIntArrayRef axes, B unbiased, bool keepdim = false) const { return var(axes, std::optional<Scalar>(int(unbiased)), keepdim); }
  Tensor std(OptionalIntArrayRef axes = std::nullopt, const std::optional<Scalar>& correction = std::nullopt, bool keepdim = false) const;
  template <ExactlyBool B> Tensor std(B unbiased) const { return std(std::nullopt, Scalar(int(unbiased))); }
  template <ExactlyBool B> Tensor std(OptionalIntArrayRef axes, B unbiased, bool keepdim = false) const { return std(axes, std::optional<Scalar>(int(unbiased)), keepdim); }
  Tensor norm(const Scalar& p = 2) const;
  Tensor norm(const Scalar& p, Dtype type) const { return to(type).norm(p); }
  Tensor norm(const std::optional<Scalar>& p, IntArrayRef axes, bool keepdim = false, std::optional<Dtype> type = std::nullopt) const;
  Tensor logsumexp(IntArrayRef axes, bool keepdim = false) const;
  Tensor softmax(int64_t axis, std::optional<Dtype> type = std::nullopt) const;
  Tensor log_softmax(int64_t axis, std::optional<Dtype> type = std::nullopt) const;
  Tensor trace() const;
  Tensor count_nonzero() const;
  Tensor count_nonzero(int64_t axis) const;
  Tensor count_nonzero(IntArrayRef axes) const;
  Tensor dist(const Tensor& o, const Scalar& p = 2) const { return sub(o).norm(p); }
  bool equal(const Tensor& o) const;
  Tensor isclose(const Tensor& o, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;
  bool allclose(const Tensor& o, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;

  // ---- products
  Tensor matmul(const Tensor& o) const;
  Tensor mm(const Tensor& o) const;
  Tensor bmm(const Tensor& o) const;
  Tensor mv(const Tensor& o) const;
  Tensor dot(const Tensor& o) const;
  Tensor outer(const Tensor& o) const;
  Tensor inner(const Tensor& o) const;
  Tensor vdot(const Tensor& o) const { return dot(o); }
  // beta * this + alpha * the product; with beta 0 this is not read.
  Tensor addmm(const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) const;
  Tensor& addmm_(const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) { return copy_(addmm(a, b, beta, alpha)); }
  Tensor baddbmm(const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) const;
  Tensor& baddbmm_(const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) { return copy_(baddbmm(a, b, beta, alpha)); }
  Tensor addmv(const Tensor& m, const Tensor& v, const Scalar& beta = 1, const Scalar& alpha = 1) const;
  Tensor addr(const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) const;
  Tensor addbmm(const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) const;

  // ---- pointwise: every row of the op table as a member, and in place
#define UNARY(name, ...) \
  Tensor name() const;   \
  Tensor& name##_();
#define BINARY(name, ...)                 \
  Tensor name(const Tensor& o) const;     \
  Tensor name(const Scalar& o) const;     \
  Tensor& name##_(const Tensor& o);       \
  Tensor& name##_(const Scalar& o);
#define HIDDEN_BINARY(...)
#include "tracer/ops.def"
  // The exponent picks the row at the call: square, sqrt, reciprocal, rsqrt, products for 3 and 4, a copy for 1.
  Tensor pow(const Tensor& exponent) const;
  Tensor pow(const Scalar& exponent) const;
  Tensor& pow_(const Tensor& exponent);
  Tensor& pow_(const Scalar& exponent);
  Tensor add(const Tensor& o, const Scalar& alpha) const;
  Tensor& add_(const Tensor& o, const Scalar& alpha);
  Tensor sub(const Tensor& o, const Scalar& alpha) const;
  Tensor& sub_(const Tensor& o, const Scalar& alpha);
  Tensor div(const Tensor& o, const std::optional<std::string>& rounding_mode) const;
  Tensor div(const Scalar& o, const std::optional<std::string>& rounding_mode) const;
  Tensor clamp(std::optional<Scalar> low, std::optional<Scalar> high = std::nullopt) const;
  Tensor& clamp_(std::optional<Scalar> low, std::optional<Scalar> high = std::nullopt);
  Tensor clamp(const std::optional<Tensor>& low, const std::optional<Tensor>& high = std::nullopt) const;
  Tensor& clamp_(const std::optional<Tensor>& low, const std::optional<Tensor>& high = std::nullopt);
  Tensor clamp_min(const Tensor& low) const { return maximum(low); }
  Tensor clamp_max(const Tensor& high) const { return minimum(high); }
  Tensor& clamp_min_(const Scalar& low) { return clamp_(low); }
  Tensor& clamp_max_(const Scalar& high) { return clamp_(std::nullopt, high); }
  Tensor clamp_min(const Scalar& low) const { return clamp(low); }
  Tensor clamp_max(const Scalar& high) const { return clamp(std::nullopt, high); }
  Tensor clip(std::optional<Scalar> low, std::optional<Scalar> high = std::nullopt) const { return clamp(low, high); }
  Tensor gelu(const std::string& approximate) const;
  Tensor lerp(const Tensor& end, const Scalar& weight) const;
  Tensor lerp(const Tensor& end, const Tensor& weight) const;
  Tensor& lerp_(const Tensor& end, const Scalar& weight);
  Tensor& lerp_(const Tensor& end, const Tensor& weight);
  Tensor softplus(const Scalar& beta, const Scalar& threshold = 20) const;
  Tensor elu(const Scalar& alpha, const Scalar& scale, const Scalar& input_scale = 1) const;
  Tensor hardtanh(const Scalar& low = -1, const Scalar& high = 1) const { return clamp(low, high); }
  Tensor round(int64_t decimals) const;
  Tensor& div_(const Tensor& o, const std::optional<std::string>& rounding_mode);
  Tensor& div_(const Scalar& o, const std::optional<std::string>& rounding_mode);
  Tensor where(const Tensor& condition, const Tensor& other) const;
  Tensor addcmul(const Tensor& a, const Tensor& b, const Scalar& value = 1) const;
  Tensor& addcmul_(const Tensor& a, const Tensor& b, const Scalar& value = 1);
  Tensor addcdiv(const Tensor& a, const Tensor& b, const Scalar& value = 1) const;
  Tensor& addcdiv_(const Tensor& a, const Tensor& b, const Scalar& value = 1);
  // Infinities become the type's extremes when left out.
  Tensor nan_to_num(std::optional<double> nan = std::nullopt, std::optional<double> posinf = std::nullopt, std::optional<double> neginf = std::nullopt) const;
  Tensor& nan_to_num_(std::optional<double> nan = std::nullopt, std::optional<double> posinf = std::nullopt, std::optional<double> neginf = std::nullopt) { return copy_(nan_to_num(nan, posinf, neginf)); }
  Tensor multiply(const Tensor& o) const { return mul(o); }
  Tensor true_divide(const Tensor& o) const { return div(o); }
  Tensor greater_equal(const Tensor& o) const { return ge(o); }
  Tensor less_equal(const Tensor& o) const { return le(o); }
  Tensor not_equal(const Tensor& o) const { return ne(o); }
  Tensor subtract(const Tensor& o) const { return sub(o); }
  Tensor divide(const Tensor& o) const { return div(o); }
  Tensor negative() const { return neg(); }
  Tensor absolute() const { return abs(); }
  Tensor greater(const Tensor& o) const { return gt(o); }
  Tensor less(const Tensor& o) const { return lt(o); }

  Tensor operator-() const { return neg(); }
  Tensor operator~() const;
  Tensor& operator+=(const Tensor& o) { return add_(o); }
  Tensor& operator+=(const Scalar& o) { return add_(o); }
  Tensor& operator-=(const Tensor& o) { return sub_(o); }
  Tensor& operator-=(const Scalar& o) { return sub_(o); }
  Tensor& operator*=(const Tensor& o) { return mul_(o); }
  Tensor& operator*=(const Scalar& o) { return mul_(o); }
  Tensor& operator/=(const Tensor& o) { return div_(o); }
  Tensor& operator/=(const Scalar& o) { return div_(o); }
#define FRIT_IN_PLACE(sign, name)                                      \
  Tensor& operator sign(const Tensor& o) { return name(o); }           \
  Tensor& operator sign(const Scalar& o) { return name(o); }
  FRIT_IN_PLACE(%=, remainder_) FRIT_IN_PLACE(&=, bitwise_and_) FRIT_IN_PLACE(|=, bitwise_or_) FRIT_IN_PLACE(^=, bitwise_xor_)
  FRIT_IN_PLACE(<<=, bitwise_left_shift_) FRIT_IN_PLACE(>>=, bitwise_right_shift_)
#undef FRIT_IN_PLACE

  std::string str() const;   // as PyTorch prints it

 private:
  void check_rank(size_t rank) const;
  void* data_pointer(Dtype wanted, bool exposed) const;
  uint64_t add_hook(std::function<Tensor(const Tensor&)> f) const;
};

namespace indexing {
struct TensorIndex {
  enum class Kind : uint8_t { integer, slice, none, ellipsis, tensor, boolean } kind;
  int64_t integer = 0;
  Slice slice;
  Tensor tensor;
  TensorIndex(int64_t i) : kind(Kind::integer), integer(i) {}
  TensorIndex(int i) : kind(Kind::integer), integer(i) {}
  TensorIndex(size_t i) : kind(Kind::integer), integer(int64_t(i)) {}
  TensorIndex(bool b) : kind(Kind::boolean), integer(b) {}
  TensorIndex(NoneType) : kind(Kind::none) {}
  TensorIndex(EllipsisType) : kind(Kind::ellipsis) {}
  TensorIndex(const char* dots);  // "..."
  TensorIndex(Slice s) : kind(Kind::slice), slice(s) {}
  TensorIndex(Tensor t) : kind(Kind::tensor), tensor(std::move(t)) {}
};
}  // namespace indexing

}  // namespace frit
