// New tensors, and those made of others by copying: creation, from_blob, cat, one_hot and the like.
#include <algorithm>
#include <cmath>
#include <cstring>
#include "frit/autograd.h"
#include "frontend/detail.h"
#include "runtime/error.h"

namespace frit {

using namespace detail;

namespace {
Tensor finished(Tensor t, const TensorOptions& o) {
  if (!o.device().is_cpu()) throw Error("device " + o.device().str() + " is not there: this build runs on the CPU only. Use kCPU.");
  if (o.requires_grad_) t.requires_grad_();
  return t;
}
Dtype dtype_of(const Scalar& s, const TensorOptions& o) {
  if (o.dtype_) return *o.dtype_;
  return s.category() == handle::Category::floating ? kFloat32 : s.category() == handle::Category::integer ? kInt64 : kBool;
}
void check_sizes(IntArrayRef sizes, const char* op) {
  if (sizes.size() > tracer::max_rank) throw ShapeError(std::string(op) + ": " + std::to_string(sizes.size()) + " axes were asked for. At most 8 are supported.");
  for (int64_t e : sizes)
    if (e < 0) throw ValueError(std::string(op) + ": extent " + std::to_string(e) + " in " + shape_text(sizes) + " is negative. Give extents of 0 or more.");
}
TensorOptions like(const Tensor& t, const TensorOptions& o) {
  TensorOptions r = o;
  if (!r.dtype_) r.dtype_ = t.dtype();
  return r;
}
void need_floating(const TensorOptions& o, const char* op) {
  if (!is_floating(o.dtype())) throw DtypeError(std::string(op) + ": " + dtype_name(o.dtype()) + " is not a floating type. Ask for one, or use randint.");
}
}  // namespace

Tensor empty(IntArrayRef sizes, const TensorOptions& o) {
  check_sizes(sizes, "empty");
  return finished(Var::take(tracer::new_cell(tracer::new_value(o.dtype(), sizes.data(), int(sizes.size())))), o);
}
Tensor full(IntArrayRef sizes, const Scalar& value) { return full(sizes, value, TensorOptions()); }
Tensor full(IntArrayRef sizes, const Scalar& value, const TensorOptions& o) {
  check_sizes(sizes, "full");
  return finished(tracer::full(sizes.vec(), value, dtype_of(value, o)), o);
}
Tensor zeros(IntArrayRef sizes, const TensorOptions& o) { return full(sizes, 0, o.dtype(o.dtype())); }
Tensor ones(IntArrayRef sizes, const TensorOptions& o) { return full(sizes, 1, o.dtype(o.dtype())); }
Tensor rand(IntArrayRef sizes, const TensorOptions& o) {
  check_sizes(sizes, "rand"), need_floating(o, "rand");
  return finished(tracer::random_uniform(sizes.vec(), o.dtype()), o);
}
Tensor randn(IntArrayRef sizes, const TensorOptions& o) {
  check_sizes(sizes, "randn"), need_floating(o, "randn");
  return finished(tracer::random_normal(sizes.vec(), o.dtype()), o);
}
Tensor randint(int64_t high, IntArrayRef sizes, const TensorOptions& o) { return randint(0, high, sizes, o); }
Tensor randint(int64_t low, int64_t high, IntArrayRef sizes, const TensorOptions& o) {
  check_sizes(sizes, "randint");
  return finished(tracer::random_integer(sizes.vec(), low, high, o.dtype_.value_or(kInt64)), o);
}
// The order of 64-bit random keys: equal keys (unlikely) keep their places.
Tensor randperm(int64_t n, const TensorOptions& o) {
  if (n < 0) throw ValueError("randperm: " + std::to_string(n) + " is negative. Give 0 or more.");
  const Tensor keys = tracer::random_integer({n}, INT64_MIN, INT64_MAX, kInt64);
  return finished(Tensor(tracer::argsort(keys, 0, false)).to(o.dtype_.value_or(kInt64)), o);
}
Tensor arange(const Scalar& end) { return arange(Scalar(0), end, Scalar(1), TensorOptions()); }
Tensor arange(const Scalar& end, const TensorOptions& o) { return arange(Scalar(0), end, Scalar(1), o); }
Tensor arange(const Scalar& start, const Scalar& end) { return arange(start, end, Scalar(1), TensorOptions()); }
Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& o) { return arange(start, end, Scalar(1), o); }
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step) { return arange(start, end, step, TensorOptions()); }
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const TensorOptions& o) {
  const auto floating = [](const Scalar& s) { return s.category() == handle::Category::floating; };
  const bool real = floating(start) || floating(end) || floating(step);
  const Dtype d = o.dtype_.value_or(real ? kFloat32 : kInt64);
  if (step.to_double() == 0) throw ValueError("arange: the step is zero. Give a step that leads from start to end.");
  if ((end.to_double() - start.to_double()) * step.to_double() < 0)
    throw ValueError("arange: from " + std::to_string(start.to_double()) + " the step " + std::to_string(step.to_double()) + " leads away from " + std::to_string(end.to_double()) + ". Change its sign.");
  int64_t count;
  if (real) count = int64_t(std::ceil((end.to_double() - start.to_double()) / step.to_double()));
  else count = (end.to_int() - start.to_int() + step.to_int() - (step.to_int() > 0 ? 1 : -1)) / step.to_int();
  return finished(tracer::arange(start, step, std::max<int64_t>(count, 0), d), o);
}
Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps, const TensorOptions& o) {
  if (steps < 0) throw ValueError("linspace: " + std::to_string(steps) + " steps were asked for. Give 0 or more.");
  const double a = start.to_double(), b = end.to_double(), step = steps > 1 ? (b - a) / double(steps - 1) : 0;
  // From both ends, so that the last is `end` itself.
  const Tensor low = tracer::arange(a, step, steps, kFloat64), high = tracer::arange(b - step * double(steps - 1), step, steps, kFloat64);
  const Tensor index = tracer::arange(0, 1, steps, kInt64);
  const Tensor exact = frit::where(index.eq(Scalar(steps - 1)).logical_and(Tensor(tracer::full({}, steps > 1, kBool))), Scalar(b), frit::where(index.lt(Scalar(steps / 2 + 1)), low, high));
  return finished(exact.to(o.dtype()), o);
}
Tensor eye(int64_t n, const TensorOptions& o) { return eye(n, n, o); }
Tensor eye(int64_t n, int64_t m, const TensorOptions& o) {
  if (n < 0 || m < 0) throw ValueError("eye: " + std::to_string(n) + " by " + std::to_string(m) + " is negative. Give extents of 0 or more.");
  const Tensor row = arange(n).unsqueeze(1), column = arange(m);
  return finished(row.eq(column).to(o.dtype()), o);
}
Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset, const TensorOptions& o) {
  std::vector<int64_t> r, c;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns && j <= i + offset; ++j) r.push_back(i), c.push_back(j);
  return stack({tensor(r, kInt64), tensor(c, kInt64)}).to(o.dtype_.value_or(kInt64));
}
Tensor bincount(const Tensor& a, const Tensor& weights, int64_t minlength) {
  cell_of(a, "bincount");
  if (!is_integral(a.dtype()) && a.dtype() != kBool) throw DtypeError(std::string("bincount: the tensor holds ") + dtype_name(a.dtype()) + ". Convert it with to(kInt64).");
  if (a.dim() != 1) throw ShapeError("bincount: the tensor has shape " + shape_text(a.sizes()) + ". Give one axis, with flatten().");
  if (minlength < 0) throw ValueError("bincount: minlength is " + std::to_string(minlength) + ". Give 0 or more.");
  if (weights.defined() && weights.sizes() != a.sizes())
    throw ShapeError("bincount: the weights have shape " + shape_text(weights.sizes()) + ", the numbers " + shape_text(a.sizes()) + ". Their shapes must be equal.");
  const Tensor index = a.to(kInt64);
  const int64_t lowest = a.numel() ? index.min().item<int64_t>() : 0, highest = a.numel() ? index.max().item<int64_t>() : -1;
  if (lowest < 0) throw ValueError("bincount: the number " + std::to_string(lowest) + " is negative. Give numbers from 0.");
  const Tensor counted = !weights.defined() ? ones_like(index) : weights.dtype() == kFloat32 ? weights : weights.to(kFloat64);
  return zeros({std::max(highest + 1, minlength)}, counted.dtype()).index_add_(0, index, counted);
}
Tensor one_hot(const Tensor& classes, int64_t count) {
  if (!is_integral(classes.dtype())) throw DtypeError(std::string("one_hot: the classes have type ") + dtype_name(classes.dtype()) + ". Convert with to(kInt64).");
  if (classes.numel() && classes.min().item<int64_t>() < 0) throw ValueError("one_hot: a class is negative. Classes count from 0.");
  const int64_t highest = classes.numel() ? classes.max().item<int64_t>() : -1;
  if (count == -1) {
    if (highest < 0) throw ValueError("one_hot: the tensor is empty, so the number of classes is unknown. Give it.");
    count = highest + 1;
  }
  if (highest >= count) throw ValueError("one_hot: class " + std::to_string(highest) + " does not fit " + std::to_string(count) + " classes. Give more.");
  return classes.unsqueeze(-1).eq(arange(count)).to(kInt64);
}
Tensor empty_like(const Tensor& t, const TensorOptions& o) { return empty(t.sizes(), like(t, o)); }
Tensor zeros_like(const Tensor& t, const TensorOptions& o) { return zeros(t.sizes(), like(t, o)); }
Tensor ones_like(const Tensor& t, const TensorOptions& o) { return ones(t.sizes(), like(t, o)); }
Tensor full_like(const Tensor& t, const Scalar& v, const TensorOptions& o) { return full(t.sizes(), v, like(t, o)); }
Tensor rand_like(const Tensor& t, const TensorOptions& o) { return rand(t.sizes(), like(t, o)); }
Tensor randn_like(const Tensor& t, const TensorOptions& o) { return randn(t.sizes(), like(t, o)); }

// ---- the user's memory ----------------------------------------------------------------------------------------------------
namespace {
Tensor blob(void* data, IntArrayRef sizes, IntArrayRef strides, void (*release)(void*), void* context, const TensorOptions& o) {
  return finished(Var::take(tracer::new_cell(tracer::new_foreign_value(data, o.dtype(), sizes.data(), strides.data(), int(sizes.size()), release, context))), o);
}
Sizes contiguous_strides(IntArrayRef sizes) {
  Sizes s(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0; step *= std::max<int64_t>(sizes[i], 1)) s[i] = step;
  return s;
}
}  // namespace
Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& o) {
  check_sizes(sizes, "from_blob");
  return blob(data, sizes, contiguous_strides(sizes), nullptr, nullptr, o);
}
Tensor from_blob(void* data, IntArrayRef sizes, const std::function<void(void*)>& deleter, const TensorOptions& o) {
  check_sizes(sizes, "from_blob");
  struct Owner {
    std::function<void(void*)> free;
    void* data;
  };
  auto* owner = new Owner{deleter, data};
  return blob(data, sizes, contiguous_strides(sizes), [](void* p) {
    auto* own = static_cast<Owner*>(p);
    own->free(own->data);
    delete own;
  }, owner, o);
}
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& o) {
  check_sizes(sizes, "from_blob");
  if (strides.size() != sizes.size()) throw ShapeError("from_blob: " + std::to_string(sizes.size()) + " sizes and " + std::to_string(strides.size()) + " strides are given. Give one stride per axis.");
  return blob(data, sizes, strides, nullptr, nullptr, o);
}
void manual_seed(uint64_t seed) { tracer::set_random_seed(seed); }

// ---- literals ----------------------------------------------------------------------------------------------------------------
TensorData::TensorData(std::initializer_list<TensorData> parts) {
  sizes_ = {int64_t(parts.size())};
  if (parts.size()) sizes_.insert(sizes_.end(), parts.begin()->sizes_.begin(), parts.begin()->sizes_.end());
  for (const TensorData& p : parts) {
    if (p.sizes_ != parts.begin()->sizes_)
      throw ValueError("tensor: the lists have different lengths (" + shape_text(parts.begin()->sizes_) + " and " + shape_text(p.sizes_) + "). Make them equal.");
    numbers_.insert(numbers_.end(), p.numbers_.begin(), p.numbers_.end());
  }
}
Dtype TensorData::natural_dtype() const {
  handle::Category c = numbers_.empty() ? category_ : handle::Category::boolean;
  for (const Scalar& s : numbers_) c = std::max(c, s.category());
  return c == handle::Category::floating ? kFloat32 : c == handle::Category::integer ? kInt64 : kBool;
}
Tensor tensor(const TensorData& data, const TensorOptions& o) {
  const Dtype d = o.dtype_.value_or(data.natural_dtype());
  Tensor t = empty(data.sizes(), o.requires_grad(false).dtype(d));
  dispatch(d, [&](auto type) {
    using T = decltype(type);
    T* out = reinterpret_cast<T*>(detail::value_of(t, "tensor").data());
    for (const Scalar& s : data.numbers()) {
      if constexpr (std::is_same_v<T, bool>) *out++ = s.to_double() != 0;
      else if constexpr (std::is_integral_v<T>) *out++ = T(s.to_int());
      else if constexpr (std::is_same_v<T, double>) *out++ = s.to_double();
      else *out++ = T(float(s.to_double()));
    }
  });
  return finished(t, o);
}

// ---- from others ---------------------------------------------------------------------------------------------------------------
Tensor cat(const TensorList& parts, int64_t axis) {
  std::vector<Var> given;
  int64_t rank = -1;
  for (const Tensor& p : parts) {
    cell_of(p, "cat");
    if (p.dim() == 0) throw ShapeError("cat: a tensor without axes cannot be joined. Use stack.");
    if (p.dim() == 1 && p.numel() == 0 && parts.size() > 1) continue;  // LibTorch skips old-style empty tensors
    given.push_back(p);
    if (rank < 0) rank = p.dim();
  }
  if (given.empty() && !parts.empty()) return parts[0];
  return tracer::cat(given, wrap_axis(axis, std::max<int64_t>(rank, 1), "cat"));
}
Tensor stack(const TensorList& parts, int64_t axis) {
  const UserCall call("stack", {});
  if (parts.empty()) throw ValueError("stack: the list of tensors is empty. Give at least one.");
  TensorList with_axis;
  const int a = wrap_axis(axis, parts[0].dim(), "stack", true);
  for (const Tensor& p : parts) {
    if (p.sizes() != parts[0].sizes()) throw ShapeError("stack: shapes " + shape_text(parts[0].sizes()) + " and " + shape_text(p.sizes()) + " differ. They must be equal.");
    with_axis.push_back(p.unsqueeze(a));
  }
  return cat(with_axis, a);
}
Tensor Tensor::repeat(IntArrayRef times) const {
  if (int64_t(times.size()) < dim()) throw ShapeError("repeat: " + std::to_string(times.size()) + " counts are given for " + shape_text(sizes()) + ". Give one per axis.");
  Sizes folded, full_extent, result;
  const size_t added = times.size() - size_t(dim());
  for (size_t i = 0; i < times.size(); ++i) {
    const int64_t e = i < added ? 1 : sizes()[i - added];
    if (times[i] < 0) throw ValueError("repeat: the count " + std::to_string(times[i]) + " is negative. Give 0 or more.");
    result.push_back(e * times[i]);
  }
  // One axis at a time: [.., 1, e, ..] expanded to [.., n, e, ..].
  Tensor t = *this;
  for (size_t i = 0; i < added; ++i) t = t.unsqueeze(0);
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] == 1) continue;
    Sizes e = t.sizes().vec(), merged = e;
    e.insert(e.begin() + int64_t(i), times[i]);
    merged[i] *= times[i];
    t = t.unsqueeze(int64_t(i)).expand(e).reshape(merged);
  }
  return t.is_same(*this) ? clone() : t;
}
Tensor Tensor::tile(IntArrayRef times) const {
  Sizes n = times.vec();
  while (int64_t(n.size()) < dim()) n.insert(n.begin(), 1);
  return repeat(n);
}
Tensor Tensor::repeat_interleave(int64_t times, std::optional<int64_t> axis) const {
  if (!axis) return flatten().repeat_interleave(times, 0);
  const int a = wrap_axis(*axis, dim(), "repeat_interleave");
  Sizes e = sizes().vec(), merged = e;
  e.insert(e.begin() + a + 1, times);
  merged[a] *= times;
  return unsqueeze(a + 1).expand(e).reshape(merged);
}
Tensor Tensor::flip(IntArrayRef axes) const { return axes.empty() ? clone() : Tensor(tracer::flip(*this, axis_mask(axes, dim(), "flip"))); }
Tensor Tensor::roll(IntArrayRef shifts, IntArrayRef axes) const {
  if (axes.empty()) {
    if (shifts.size() != 1) throw ValueError("roll: without axes one shift is needed. Name the axes.");
    return flatten().roll(shifts, {0}).reshape(sizes());
  }
  if (shifts.size() != axes.size()) throw ValueError("roll: " + std::to_string(shifts.size()) + " shifts and " + std::to_string(axes.size()) + " axes are given. Give one each.");
  Tensor t = *this;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int a = wrap_axis(axes[i], dim(), "roll");
    const int64_t n = sizes()[a];
    if (n == 0) continue;
    const int64_t s = ((shifts[i] % n) + n) % n;
    if (s) t = cat({t.narrow(a, n - s, s), t.narrow(a, 0, n - s)}, a);
  }
  return t.is_same(*this) ? clone() : t;
}
namespace {
Tensor triangle(const Tensor& t, int64_t diagonal, bool lower, const char* op) {
  if (t.dim() < 2) throw ShapeError(std::string(op) + ": the tensor has shape " + shape_text(t.sizes()) + ". At least 2 axes are needed.");
  const Tensor row = arange(t.size(-2)).unsqueeze(1).add(Scalar(diagonal)), column = arange(t.size(-1));
  const Tensor inside = lower ? column.le(row) : column.ge(row);
  return t.dtype() == kBool ? inside.logical_and(t) : frit::where(inside, t, Scalar(0));
}
}  // namespace
Tensor Tensor::tril(int64_t d) const { return triangle(*this, d, true, "tril"); }
Tensor Tensor::triu(int64_t d) const { return triangle(*this, d, false, "triu"); }
Tensor Tensor::cumsum(int64_t axis, std::optional<Dtype> type) const {
  const int a = wrap_axis(axis, dim(), "cumsum");
  return type ? Tensor(tracer::cumsum(to(*type), a)).to(*type) : Tensor(tracer::cumsum(*this, a));
}
Tensor Tensor::cumprod(int64_t axis, std::optional<Dtype> type) const {
  const int a = wrap_axis(axis, dim(), "cumprod");
  return type ? Tensor(tracer::cumprod(to(*type), a)).to(*type) : Tensor(tracer::cumprod(*this, a));
}
std::tuple<Tensor, Tensor> Tensor::sort(int64_t axis, bool descending) const {
  if (dim() == 0) return {clone(), Tensor(tracer::full({}, 0, kInt64))};
  const int a = wrap_axis(axis, dim(), "sort");
  const Tensor order = tracer::argsort(*this, a, descending);
  return {gather(a, order), order};
}
Tensor Tensor::argsort(int64_t axis, bool descending) const {
  if (dim() == 0) return tracer::full({}, 0, kInt64);
  return tracer::argsort(*this, wrap_axis(axis, dim(), "argsort"), descending);
}
std::tuple<Tensor, Tensor> Tensor::topk(int64_t k, int64_t axis, bool largest, bool) const {
  if (dim() == 0) return {clone(), Tensor(tracer::full({}, 0, kInt64))};
  const int a = wrap_axis(axis, dim(), "topk");
  if (k < 0 || k > sizes()[a]) throw ValueError("topk: k = " + std::to_string(k) + " is out of range for axis " + std::to_string(a) + " of " + shape_text(sizes()) + ".");
  const Tensor order = Tensor(tracer::argsort(*this, a, largest)).narrow(a, 0, k).contiguous();
  return {gather(a, order), order};
}

}  // namespace frit
