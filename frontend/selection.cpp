// Picking, replacing and ordering elements: fills and copies by index, by mask, repeats by counts, different elements,
// order statistics, draws. What depends on values (repeats, unique) reads the tensor. Start at index_fill.
#include <algorithm>
#include <limits>
#include "frit/autograd.h"
#include "frontend/detail.h"
#include "runtime/error.h"

namespace frit {

using namespace detail;

// ---- by index -----------------------------------------------------------------------------------------------------------
namespace {
Tensor index_list(const Tensor& index, const char* op) {
  if (index.dim() > 1) throw ShapeError(std::string(op) + ": the index has shape " + shape_text(index.sizes()) + ". A list is needed.");
  if (index.dtype() != kInt64 && index.dtype() != kInt32) throw DtypeError(std::string(op) + ": the index has type " + dtype_name(index.dtype()) + ". Convert it with to(kInt64).");
  return index.reshape({index.numel()});
}
// The index repeated over the other axes of a source of this shape.
Tensor spread(const Tensor& index, int axis, const Sizes& shape) {
  Sizes e(shape.size(), 1);
  e[size_t(axis)] = index.numel();
  return index.reshape(e).expand(shape);
}
}  // namespace
Tensor Tensor::index_fill(int64_t axis, const Tensor& index, const Tensor& v) const {
  const UserCall call("index_fill", {this, &index, &v});
  if (v.dim() != 0) throw ShapeError("index_fill: the value has shape " + shape_text(v.sizes()) + ". One number is needed.");
  if (dim() == 0) return unsqueeze(0).index_fill(axis, index, v).squeeze(0);
  const int a = wrap_axis(axis, dim(), "index_fill");
  const Tensor list = index_list(index, "index_fill");
  Sizes e = sizes().vec();
  e[size_t(a)] = list.numel();
  return scatter(a, spread(list, a, e), v.to(dtype()).expand(e));
}
Tensor Tensor::index_fill(int64_t axis, const Tensor& index, const Scalar& v) const {
  const UserCall call("index_fill", {this, &index});
  return index_fill(axis, index, full({}, v, dtype()));
}
Tensor& Tensor::index_fill_(int64_t axis, const Tensor& index, const Scalar& v) {
  const UserCall call("index_fill_", {this, &index});
  return copy_(index_fill(axis, index, v));
}
Tensor Tensor::index_copy(int64_t axis, const Tensor& index, const Tensor& source) const {
  const UserCall call("index_copy", {this, &index, &source});
  if (dim() == 0) return unsqueeze(0).index_copy(axis, index, source.reshape({1})).squeeze(0);
  const int a = wrap_axis(axis, dim(), "index_copy");
  const Tensor list = index_list(index, "index_copy");
  Sizes e = sizes().vec();
  e[size_t(a)] = list.numel();
  if (source.sizes() != IntArrayRef(e))
    throw ShapeError("index_copy: the source has shape " + shape_text(source.sizes()) + " for " + std::to_string(list.numel()) + " indices into axis " + std::to_string(a) + " of " + shape_text(sizes()) + ". It must have shape " + shape_text(e) + ".");
  return scatter(a, spread(list, a, e), source);
}
Tensor& Tensor::index_copy_(int64_t axis, const Tensor& index, const Tensor& source) {
  const UserCall call("index_copy_", {this, &index, &source});
  return copy_(index_copy(axis, index, source));
}
Tensor Tensor::take_along_dim(const Tensor& index, std::optional<int64_t> axis) const {
  const UserCall call("take_along_dim", {this, &index});
  if (!axis) return reshape({numel()}).gather(0, index.reshape({index.numel()}));
  if (dim() != index.dim())
    throw ShapeError("take_along_dim: the tensor has shape " + shape_text(sizes()) + ", the index " + shape_text(index.sizes()) + ". They need as many axes.");
  const int a = wrap_axis(*axis, dim(), "take_along_dim");
  Sizes mine = sizes().vec(), its = index.sizes().vec();
  for (size_t i = 0; i < mine.size(); ++i) {
    if (int(i) == a) continue;
    if (mine[i] == 1) mine[i] = its[i];
    if (its[i] == 1) its[i] = mine[i];
  }
  return expand(mine).gather(a, index.expand(its));
}

// ---- by mask ------------------------------------------------------------------------------------------------------------
Tensor Tensor::masked_scatter(const Tensor& mask, const Tensor& source) const {
  const UserCall call("masked_scatter", {this, &mask, &source});
  if (mask.dtype() != kBool) throw DtypeError(std::string("masked_scatter: the mask has type ") + dtype_name(mask.dtype()) + ". Use a boolean mask.");
  if (source.dtype() != dtype()) throw DtypeError(std::string("masked_scatter: the tensor has type ") + dtype_name(dtype()) + ", the source " + dtype_name(source.dtype()) + ". Convert the source.");
  const TensorList both = broadcast_tensors({*this, mask});
  const Tensor flags = both[1].reshape({both[1].numel()});
  const Tensor at = flags.nonzero().reshape({-1});
  if (at.numel() > source.numel())
    throw ValueError("masked_scatter: the mask has " + std::to_string(at.numel()) + " true elements, the source only " + std::to_string(source.numel()) + " elements. Give more.");
  const Tensor flat = both[0].reshape({both[0].numel()});
  return flat.scatter(0, at, source.reshape({source.numel()}).narrow(0, 0, at.numel())).reshape(both[0].sizes());
}
Tensor& Tensor::masked_scatter_(const Tensor& mask, const Tensor& source) {
  const UserCall call("masked_scatter_", {this, &mask, &source});
  return copy_(masked_scatter(mask.expand(sizes()), source));
}
Tensor& Tensor::masked_fill_(const Tensor& mask, const Tensor& v) {
  const UserCall call("masked_fill_", {this, &mask, &v});
  if (v.dim() != 0) throw ShapeError("masked_fill_: the value has shape " + shape_text(v.sizes()) + ". One number is needed.");
  return copy_(masked_fill(mask, v));
}
TensorList where(const Tensor& condition) {
  if (condition.dim() == 0) return where(condition.reshape({1}));
  const Tensor at = condition.nonzero();
  TensorList r;
  for (int64_t k = 0; k < condition.dim(); ++k) r.push_back(at.select(1, k));
  return r;
}

// ---- repeats, different elements --------------------------------------------------------------------------------------------
Tensor Tensor::repeat_interleave(const Tensor& times, std::optional<int64_t> axis) const {
  const UserCall call("repeat_interleave", {this, &times});
  if (!axis) return reshape({numel()}).repeat_interleave(times, 0);
  if (!is_integral(times.dtype()) || times.dim() > 1)
    throw DtypeError(std::string("repeat_interleave: the counts are a tensor of ") + dtype_name(times.dtype()) + " of shape " + shape_text(times.sizes()) + ". A list of whole numbers is needed.");
  const int a = wrap_axis(*axis, dim(), "repeat_interleave");
  const int64_t n = dim() ? sizes()[size_t(a)] : 1;
  if (times.numel() != 1 && times.numel() != n)
    throw ShapeError("repeat_interleave: " + std::to_string(times.numel()) + " counts are given for axis " + std::to_string(a) + " of " + shape_text(sizes()) + ". Give one, or " + std::to_string(n) + ".");
  const Tensor counts = times.to(kInt64).reshape({times.numel()}).expand({n}).contiguous();
  const int64_t* p = counts.const_data_ptr<int64_t>();
  std::vector<int64_t> at;
  for (int64_t i = 0; i < n; ++i) {
    if (p[i] < 0) throw ValueError("repeat_interleave: the count " + std::to_string(p[i]) + " is negative. Give 0 or more.");
    at.insert(at.end(), size_t(p[i]), i);
  }
  return index_select(a, tensor(at, kInt64));
}
std::tuple<Tensor, Tensor, Tensor> _unique2(const Tensor& a, bool, bool return_inverse, bool return_counts) {
  const Tensor flat = a.detach().reshape({a.numel()});
  const int64_t n = flat.numel();
  if (n == 0) return {flat, return_inverse ? zeros(a.sizes(), kInt64) : Tensor(), return_counts ? zeros({0}, kInt64) : Tensor()};
  const auto [sorted, order] = flat.sort(0);
  const Tensor starts = cat({ones({1}, kBool), sorted.narrow(0, 1, n - 1).ne(sorted.narrow(0, 0, n - 1))});
  const Tensor at = starts.nonzero().reshape({-1});
  Tensor inverse, counts;
  if (return_inverse) inverse = zeros({n}, kInt64).scatter(0, order, starts.to(kInt64).cumsum(0).sub(Scalar(1))).reshape(a.sizes());
  if (return_counts) counts = cat({at.narrow(0, 1, at.numel() - 1), full({1}, n, kInt64)}).sub(at);
  return {sorted.index_select(0, at), inverse, counts};
}

// ---- order --------------------------------------------------------------------------------------------------------------
std::tuple<Tensor, Tensor> Tensor::sort(std::optional<bool>, int64_t axis, bool descending) const { return sort(axis, descending); }
std::tuple<Tensor, Tensor> Tensor::kthvalue(int64_t k, int64_t axis, bool keepdim) const {
  const UserCall call("kthvalue", {this});
  if (dim() == 0) return {clone(), zeros({}, kInt64)};
  const int a = wrap_axis(axis, dim(), "kthvalue");
  if (k < 1 || k > sizes()[size_t(a)])
    throw ValueError("kthvalue: k = " + std::to_string(k) + " is out of range for axis " + std::to_string(a) + " of " + shape_text(sizes()) + ". k counts from 1.");
  const Tensor at = argsort(a).narrow(a, k - 1, 1).contiguous(), value = gather(a, at);
  return keepdim ? std::tuple{value, at} : std::tuple{value.squeeze(a), at.squeeze(a)};
}
// The lower of two middle elements; NaN where there is one (it sorts last, so it is looked for).
std::tuple<Tensor, Tensor> Tensor::median(int64_t axis, bool keepdim) const {
  const UserCall call("median", {this});
  if (dim() == 0) return {clone(), zeros({}, kInt64)};
  const int a = wrap_axis(axis, dim(), "median");
  const int64_t n = sizes()[size_t(a)];
  if (n == 0) throw ValueError("median: axis " + std::to_string(a) + " of " + shape_text(sizes()) + " has no elements. Reduce over axes that are not empty.");
  const Tensor order = argsort(a);
  Tensor at = order.narrow(a, (n - 1) / 2, 1);
  if (is_floating_point()) {
    const Tensor bad = isnan();
    at = frit::where(bad.any(a, true), bad.to(kUInt8).argmax(a, true), at);
  }
  at = at.contiguous();
  const Tensor value = gather(a, at);
  return keepdim ? std::tuple{value, at} : std::tuple{value.squeeze(a), at.squeeze(a)};
}
Tensor Tensor::median() const {
  const UserCall call("median", {this});
  if (numel() == 0) return full({}, is_floating_point() ? Scalar(std::numeric_limits<double>::quiet_NaN()) : Scalar(0), dtype());
  return std::get<0>(reshape({numel()}).median(0));
}

// ---- draws ----------------------------------------------------------------------------------------------------------------
Tensor& Tensor::bernoulli_(double p) {
  if (!(p >= 0 && p <= 1)) throw ValueError("bernoulli_: probability " + std::to_string(p) + " is not in [0, 1].");
  return copy_(rand(sizes(), kFloat64).lt(Scalar(p)));
}
Tensor Tensor::bernoulli() const {
  if (!is_floating_point()) throw DtypeError(std::string("bernoulli: the probabilities have type ") + dtype_name(dtype()) + "; a floating type is needed. Convert with to(kFloat32).");
  return rand(sizes(), kFloat64).lt(detach().to(kFloat64)).to(dtype());
}
// The smallest of exponential waiting times with the weights as rates: the first to come is drawn; without replacement the
// next ones follow.
Tensor Tensor::multinomial(int64_t count, bool replacement) const {
  if (!is_floating_point()) throw DtypeError(std::string("multinomial: the weights have type ") + dtype_name(dtype()) + "; a floating type is needed. Convert with to(kFloat32).");
  if (dim() != 1 && dim() != 2) throw ShapeError("multinomial: the weights have shape " + shape_text(sizes()) + ". A list or a matrix is needed.");
  if (count < 1) throw ValueError("multinomial: " + std::to_string(count) + " draws were asked for. Give at least 1.");
  const Tensor w = detach().to(kFloat64);
  if (!w.isfinite().logical_and(w.ge(Scalar(0))).all().item<bool>()) throw ValueError("multinomial: a weight is negative, infinite or NaN. Give weights of 0 or more.");
  const Tensor positive = w.gt(Scalar(0)).sum(-1).min();
  const int64_t most = positive.item<int64_t>();
  if (most == 0) throw ValueError("multinomial: the weights of a row sum to 0. Give at least one above 0.");
  if (!replacement && count > most) throw ValueError("multinomial: " + std::to_string(count) + " draws without replacement from " + std::to_string(most) + " elements with a weight. Draw fewer.");
  if (!replacement) {
    const Tensor wait = rand(sizes(), kFloat64).neg().log1p().neg().div(w);
    return frit::where(wait.isnan(), Scalar(std::numeric_limits<double>::infinity()), wait).argsort(-1).narrow(-1, 0, count).contiguous();
  }
  Sizes e = sizes().vec();
  e.insert(e.end() - 1, count);
  const Tensor wait = rand(e, kFloat64).neg().log1p().neg().div(w.unsqueeze(-2));
  return frit::where(wait.isnan(), Scalar(std::numeric_limits<double>::infinity()), wait).argmin(-1);
}
Tensor& Tensor::fill_(const Tensor& v) {
  if (v.dim() != 0) throw ShapeError("fill_: the value has shape " + shape_text(v.sizes()) + ". One number is needed; use copy_.");
  return copy_(v);
}

// ---- like this one ----------------------------------------------------------------------------------------------------------
namespace {
TensorOptions as_mine(const Tensor& t, TensorOptions o) {
  if (!o.dtype_) o.dtype_ = t.dtype();
  return o;
}
}  // namespace
Tensor Tensor::new_empty(IntArrayRef sizes, const TensorOptions& o) const { return empty(sizes, as_mine(*this, o)); }
Tensor Tensor::new_zeros(IntArrayRef sizes, const TensorOptions& o) const { return zeros(sizes, as_mine(*this, o)); }
Tensor Tensor::new_ones(IntArrayRef sizes, const TensorOptions& o) const { return ones(sizes, as_mine(*this, o)); }
Tensor Tensor::new_full(IntArrayRef sizes, const Scalar& v, const TensorOptions& o) const { return full(sizes, v, as_mine(*this, o)); }
Tensor randint_like(const Tensor& t, int64_t high, const TensorOptions& o) { return randint(high, t.sizes(), as_mine(t, o)); }
Tensor randint_like(const Tensor& t, int64_t low, int64_t high, const TensorOptions& o) { return randint(low, high, t.sizes(), as_mine(t, o)); }
Tensor scalar_tensor(const Scalar& v, const TensorOptions& o) { return full({}, v, o.dtype(o.dtype())); }
Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset, const TensorOptions& o) {
  std::vector<int64_t> r, c;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = std::max<int64_t>(0, i + offset); j < columns; ++j) r.push_back(i), c.push_back(j);
  return stack({tensor(r, kInt64), tensor(c, kInt64)}).to(o.dtype_.value_or(kInt64));
}
Tensor hstack(const TensorList& parts) {
  TensorList p;
  for (const Tensor& t : parts) p.push_back(t.dim() == 0 ? t.reshape({1}) : t);
  return cat(p, p.empty() || p[0].dim() == 1 ? 0 : 1);
}
Tensor vstack(const TensorList& parts) {
  TensorList p;
  for (const Tensor& t : parts) p.push_back(t.dim() < 2 ? t.reshape({1, t.numel()}) : t);
  return cat(p, 0);
}

}  // namespace frit
