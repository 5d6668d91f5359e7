// Tensor: what it is, reading, views and indices. Argument checks happen here (axes, ranges, counts), with the user's
// numbers; everything else is one or a few ops on handles (tracer/var.h). Pointwise members are generated from the op table
// in tensor_ops.cpp.
#include <algorithm>
#include <cstring>
#include "frit/autograd.h"
#include "frit/functions.h"
#include "frontend/detail.h"
#include "runtime/error.h"
#include "tracer/gradient.h"
#include "tracer/trace.h"

namespace frit {

using namespace detail;

namespace detail {
tracer::Cell* cell_of(const Tensor& t, const char* op) {
  if (!t.cell()) throw ValueError(std::string(op) + ": the tensor is undefined. Give it a value first.");
  return t.cell();
}
tracer::Value& value_of(const Tensor& t, const char* op) { return tracer::value_of(cell_of(t, op), op); }
std::string shape_text(IntArrayRef s) {
  std::string t = "[";
  for (size_t i = 0; i < s.size(); ++i) t += (i ? ", " : "") + std::to_string(s[i]);
  return t + "]";
}
int wrap_axis(int64_t axis, int64_t rank, const char* op, bool insert) {
  const int64_t n = std::max<int64_t>(rank + insert, 1);
  if (axis < -n || axis >= n)
    throw IndexError(std::string(UserCall::name_or(op)) + ": axis " + std::to_string(axis) + " is out of range for a tensor with " + std::to_string(rank) + " axes. Valid axes are " +
                     std::to_string(-n) + " to " + std::to_string(n - 1) + ".");
  return int(axis < 0 ? axis + n : axis);
}
uint64_t axis_mask(OptionalIntArrayRef axes, int64_t rank, const char* op) {
  if (!axes.has_value() || axes.value().empty()) return rank ? (uint64_t(1) << rank) - 1 : 0;
  uint64_t mask = 0;
  for (int64_t a : axes.value()) {
    if (rank == 0) {
      wrap_axis(a, 0, op);
      continue;
    }
    const uint64_t bit = uint64_t(1) << wrap_axis(a, rank, op);
    if (mask & bit) throw ValueError(std::string(UserCall::name_or(op)) + ": axis " + std::to_string(a) + " is named twice. Name each axis once.");
    mask |= bit;
  }
  return mask;
}
std::optional<std::pair<int64_t, int64_t>> real_range(const Tensor& index) {
  const tracer::Cell* c = index.cell();
  if (!c || c->deferred || !c->value || c->value->storage->pending.load(std::memory_order_relaxed) || (c->base && c->base->writes != c->seen)) return std::nullopt;
  const tracer::Value& v = *c->value;
  const int64_t count = v.numel();
  if (!count) return std::nullopt;
  return dispatch(v.dtype, [&](auto type) -> std::optional<std::pair<int64_t, int64_t>> {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const T* p = reinterpret_cast<const T*>(v.data());
      int64_t low = int64_t(*p), high = low, at[tracer::max_rank] = {}, offset = 0;
      for (int64_t n = 0; n < count; ++n) {
        low = std::min(low, int64_t(p[offset])), high = std::max(high, int64_t(p[offset]));
        for (int i = v.rank; i-- > 0;) {
          offset += v.stride[i];
          if (++at[i] < v.extent[i]) break;
          offset -= v.stride[i] * at[i];
          at[i] = 0;
        }
      }
      return std::pair{low, high};
    }
    return std::nullopt;
  });
}
void check_real_index(const Tensor& index, int64_t extent, const char* op) {
  if (tracer::recorder().eager) return;
  const auto range = real_range(index);
  if (!range || (range->first >= -extent && range->second < extent)) return;
  throw IndexError(std::string(UserCall::name_or(op)) + ": index " + std::to_string(range->first < -extent ? range->first : range->second) + " is out of range for an axis of extent " + std::to_string(extent) +
                   ". Valid indices are " + std::to_string(-extent) + " to " + std::to_string(extent - 1) + ".");
}
}  // namespace detail

// ---- what it is -------------------------------------------------------------------------------------------------------
IntArrayRef Tensor::sizes() const {
  tracer::Cell* c = cell_of(*this, "sizes");
  return {tracer::shape_of(c), size_t(tracer::rank_of(c))};
}
IntArrayRef Tensor::strides() const {
  const tracer::Value& v = value_of(*this, "strides");
  return {v.stride, v.rank};
}
int64_t Tensor::size(int64_t axis) const { return sizes()[wrap_axis(axis, dim(), "size")]; }
int64_t Tensor::stride(int64_t axis) const { return strides()[wrap_axis(axis, dim(), "stride")]; }
int64_t Tensor::dim() const { return tracer::rank_of(cell_of(*this, "dim")); }
int64_t Tensor::numel() const {
  int64_t n = 1;
  for (int64_t e : tracer::sizes_of(cell_of(*this, "numel"))) n *= e;
  return n;
}
int64_t Tensor::storage_offset() const { return value_of(*this, "storage_offset").offset; }
Dtype Tensor::dtype() const { return tracer::dtype_of(cell_of(*this, "dtype")); }
bool Tensor::is_contiguous() const { return tracer::strides_of(cell_of(*this, "is_contiguous")).contiguous; }
bool Tensor::is_alias_of(const Tensor& o) const { return value_of(*this, "is_alias_of").storage == value_of(o, "is_alias_of").storage; }

// ---- reading --------------------------------------------------------------------------------------------------------------
Scalar Tensor::item() const {
  const tracer::Value& v = value_of(*this, "item");
  if (v.numel() != 1)
    throw ValueError("item: a tensor of shape " + shape_text(sizes()) + " has " + std::to_string(v.numel()) + " elements, not one. Index or reduce it first.");
  return dispatch(v.dtype, [&](auto type) -> Scalar {
    using T = decltype(type);
    T x;
    std::memcpy(&x, v.data(), sizeof x);
    if constexpr (std::is_same_v<T, bool>) return x;
    else if constexpr (std::is_integral_v<T>) return int64_t(x);
    else return double(x);
  });
}
void Tensor::check_rank(size_t rank) const {
  if (dim() != int64_t(rank))
    throw ShapeError("accessor: the tensor of shape " + shape_text(sizes()) + " has " + std::to_string(dim()) + " axes, the accessor " + std::to_string(rank) + ". Use accessor<T, " + std::to_string(dim()) + ">.");
}
void Tensor::set_data(const Tensor& data) const {
  tracer::Value& fresh = value_of(data, "set_data");
  tracer::Cell* c = cell_of(*this, "set_data");
  tracer::value_of(c, "set_data");
  if (c->trace && tracer::wants_gradient(c)) throw AutogradError("set_data: the tensor was computed from one that requires a gradient. Set the data of a leaf.");
  tracer::retain(&fresh);
  tracer::set_value(c, &fresh);
}
void* Tensor::data_pointer(Dtype wanted, bool exposed) const {
  const tracer::Value& v = value_of(*this, exposed ? "data_ptr" : "const_data_ptr");
  if (v.dtype != wanted)
    throw DtypeError(std::string("data_ptr: the tensor holds ") + dtype_name(v.dtype) + ", the pointer is to " + dtype_name(wanted) + ". Convert with to() first.");
  if (exposed) {  // what is recorded reads the bytes as they are now, and later calls do at once
    tracer::recorder().flush("data_ptr");
    v.storage->reachable.store(true, std::memory_order_relaxed);
  }
  return v.data();
}

// ---- gradients --------------------------------------------------------------------------------------------------------------
bool Tensor::requires_grad() const { return cell_ && tracer::wants_gradient(cell_); }
Tensor& Tensor::requires_grad_(bool on) {
  tracer::Cell* c = cell_of(*this, "requires_grad_");
  if (on && !is_floating(dtype()))
    throw AutogradError(std::string("requires_grad_: a tensor of ") + dtype_name(dtype()) + " cannot have gradients. Convert it to a floating type first.");
  if (c->flags & tracer::inference_tensor && on) throw AutogradError("requires_grad_: the tensor was made in InferenceMode. clone() it outside first.");
  if (c->trace && tracer::wants_gradient(c)) {
    if (!on) throw AutogradError("requires_grad_: only a leaf's flag can be cleared; this tensor was computed. Use detach().");
    return *this;
  }
  tracer::value_of(c, "requires_grad_");
  c->flags = uint8_t(on ? c->flags | tracer::gradient_leaf : c->flags & ~tracer::gradient_leaf);
  c->entered.store(0, std::memory_order_relaxed);
  return *this;
}
bool Tensor::is_leaf() const { return !requires_grad() || cell_->flags & tracer::gradient_leaf; }
Tensor Tensor::grad() const {
  tracer::Cell* c = cell_of(*this, "grad");
  return c->grad ? Tensor(Var::share(c->grad)) : Tensor();
}
void Tensor::set_grad(const Tensor& g) const {
  tracer::Cell* c = cell_of(*this, "set_grad");
  if (g.defined() && (g.sizes() != sizes() || g.dtype() != dtype()))
    throw ShapeError("set_grad: the gradient has shape " + shape_text(g.sizes()) + ", the tensor " + shape_text(sizes()) + ". Shapes and types must be equal.");
  Tensor old(Var::take(c->grad));
  c->grad = Tensor(g).leave();
}
void Tensor::zero_grad(bool set_to_none) const {
  if (set_to_none) return set_grad({});
  Tensor g = grad();
  if (g.defined()) {
    NoGradGuard no_grad;
    g.detach().zero_();
  }
}
void Tensor::backward(const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph) const {
  cell_of(*this, "backward");
  tracer::run_backward({*this}, {gradient}, {}, {.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph});
}
Tensor Tensor::detach() const { return tracer::detach(*this); }
Tensor& Tensor::detach_() { return *this = detach(); }
void Tensor::retain_grad() const { tracer::retain_grad(cell_of(*this, "retain_grad")); }
uint64_t Tensor::add_hook(std::function<Tensor(const Tensor&)> f) const {
  return tracer::add_hook(cell_of(*this, "register_hook"), [f](const Var& g) -> Var { return f(Tensor(g)); });
}
void Tensor::remove_hook(uint64_t handle) const { tracer::remove_hook(cell_of(*this, "remove_hook"), handle); }
uint64_t Tensor::_version() const { return value_of(*this, "_version").storage->version.load(); }

// ---- types and copies ---------------------------------------------------------------------------------------------------------
Tensor Tensor::to(Dtype d, bool, bool copy) const {
  cell_of(*this, "to");
  return d == dtype() ? copy ? clone() : *this : Tensor(tracer::convert(*this, d));
}
Tensor Tensor::to(Device d, bool, bool copy) const {
  if (!d.is_cpu()) throw Error("to: device " + d.str() + " is not there: this build runs on the CPU only. Use kCPU.");
  return copy ? clone() : *this;
}
Tensor Tensor::to(Device d, Dtype t, bool non_blocking, bool copy) const { return to(d).to(t, non_blocking, copy); }
Tensor Tensor::to(const TensorOptions& o, bool non_blocking, bool copy) const { return to(o.device()).to(o.dtype_.value_or(dtype()), non_blocking, copy); }
Tensor Tensor::contiguous() const { return is_contiguous() ? *this : Tensor(tracer::copy(*this, true)); }
Tensor Tensor::clone() const { return tracer::copy(*this); }
Tensor& Tensor::copy_(const Tensor& source, bool) {
  cell_of(source, "copy_");
  tracer::copy_(*this, source);
  return *this;
}
Tensor& Tensor::fill_(const Scalar& v) {
  cell_of(*this, "fill_");
  return copy_(Tensor(tracer::full({}, v, dtype())));
}
Tensor& Tensor::zero_() { return fill_(0); }
Tensor& Tensor::uniform_(double low, double high) {
  const Tensor u = tracer::random_uniform(sizes().vec(), dtype());
  return copy_(u * (high - low) + low);
}
Tensor& Tensor::normal_(double mean, double deviation) {
  const Tensor g = tracer::random_normal(sizes().vec(), dtype());
  return copy_(g * deviation + mean);
}

// ---- views ------------------------------------------------------------------------------------------------------------------------
Tensor Tensor::view(IntArrayRef extents) const { return tracer::reshape(*this, extents.vec(), false); }
Tensor Tensor::reshape(IntArrayRef extents) const { return tracer::reshape(*this, extents.vec()); }
Tensor Tensor::transpose(int64_t a, int64_t b) const {
  return tracer::transpose(*this, wrap_axis(a, dim(), "transpose"), wrap_axis(b, dim(), "transpose"));
}
Tensor Tensor::permute(IntArrayRef axes) const {
  if (int64_t(axes.size()) != dim())
    throw ShapeError("permute: " + std::to_string(axes.size()) + " axes are named for a tensor of shape " + shape_text(sizes()) + ". Name each of its axes once.");
  axis_mask(axes, dim(), "permute");
  std::vector<int> order;
  for (int64_t a : axes) order.push_back(wrap_axis(a, dim(), "permute"));
  return tracer::permute(*this, order);
}
Tensor Tensor::t() const {
  if (dim() > 2) throw ShapeError("t: the tensor has shape " + shape_text(sizes()) + "; t() takes at most 2 axes. Use transpose or mT.");
  return dim() < 2 ? *this : transpose(0, 1);
}
Tensor Tensor::T() const {
  std::vector<int> order;
  for (int64_t i = dim(); i-- > 0;) order.push_back(int(i));
  return tracer::permute(*this, order);
}
Tensor Tensor::mT() const {
  if (dim() < 2) throw ShapeError("mT: the tensor has shape " + shape_text(sizes()) + "; at least 2 axes are needed. Use unsqueeze.");
  return transpose(-2, -1);
}
Tensor Tensor::squeeze() const {
  Sizes e;
  for (int64_t x : sizes())
    if (x != 1) e.push_back(x);
  return tracer::reshape(*this, e, false);
}
Tensor Tensor::squeeze(int64_t axis) const {
  const int a = wrap_axis(axis, dim(), "squeeze");
  if (dim() == 0 || sizes()[a] != 1) return tracer::reshape(*this, sizes().vec(), false);
  Sizes e = sizes().vec();
  e.erase(e.begin() + a);
  return tracer::reshape(*this, e, false);
}
Tensor Tensor::unsqueeze(int64_t axis) const {
  Sizes e = sizes().vec();
  e.insert(e.begin() + wrap_axis(axis, dim(), "unsqueeze", true), 1);
  return tracer::reshape(*this, e, false);
}
Tensor Tensor::expand(IntArrayRef extents, bool) const {
  Sizes e = extents.vec();
  const Sizes from = sizes().vec();
  for (size_t i = 0; i < e.size(); ++i)
    if (e[i] == -1) {
      const int64_t j = int64_t(i) - int64_t(e.size() - from.size());
      if (e.size() < from.size() || j < 0) throw ShapeError("expand: -1 at axis " + std::to_string(i) + " of " + shape_text(extents) + " stands for no axis of " + shape_text(from) + ". Give the extent.");
      e[i] = from[size_t(j)];
    }
  return tracer::expand(*this, e);
}
Tensor Tensor::narrow(int64_t axis, int64_t start, int64_t length) const {
  if (dim() == 0) throw ShapeError("narrow: a tensor without axes cannot be narrowed. unsqueeze it first.");
  const int a = wrap_axis(axis, dim(), "narrow");
  const int64_t n = sizes()[a];
  if (start < 0) start += n;
  if (start < 0 || length < 0 || start + length > n)
    throw IndexError("narrow: start " + std::to_string(start) + " and length " + std::to_string(length) + " leave axis " + std::to_string(a) + " of " + shape_text(sizes()) +
                     ". start + length must be at most " + std::to_string(n) + ".");
  return tracer::slice(*this, a, start, length);
}
Tensor Tensor::select(int64_t axis, int64_t index) const {
  if (dim() == 0) throw IndexError("select: a tensor without axes cannot be indexed. Use item().");
  const int a = wrap_axis(axis, dim(), "select");
  const int64_t n = sizes()[a];
  if (index < -n || index >= n)
    throw IndexError("select: index " + std::to_string(index) + " is out of range for axis " + std::to_string(a) + " of " + shape_text(sizes()) + ". Valid indices are " + std::to_string(-n) +
                     " to " + std::to_string(n - 1) + ".");
  return tracer::select(*this, a, index < 0 ? index + n : index);
}
Tensor Tensor::slice(int64_t axis, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step) const {
  if (dim() == 0) throw IndexError("slice: a tensor without axes cannot be sliced. unsqueeze it first.");
  if (step < 1) throw ValueError("slice: step " + std::to_string(step) + " is not positive. Use flip to go backwards.");
  const int a = wrap_axis(axis, dim(), "slice");
  const int64_t n = sizes()[a];
  const auto clip = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
  const int64_t first = clip(start.value_or(0)), last = std::max(first, clip(stop.value_or(n)));
  return tracer::slice(*this, a, first, (last - first + step - 1) / step, step);
}
Tensor Tensor::flatten(int64_t start, int64_t end) const {
  if (dim() == 0) return reshape({1});
  const int a = wrap_axis(start, dim(), "flatten"), b = wrap_axis(end, dim(), "flatten");
  if (a > b) throw ValueError("flatten: start axis " + std::to_string(a) + " comes after end axis " + std::to_string(b) + ". Swap them.");
  if (a == b) return *this;
  Sizes e;
  int64_t product = 1;
  for (int i = 0; i < dim(); ++i) {
    if (i >= a && i <= b) product *= sizes()[i];
    if (i < a || i > b) e.push_back(sizes()[i]);
    else if (i == b) e.push_back(product);
  }
  return reshape(e);
}
Tensor Tensor::unflatten(int64_t axis, IntArrayRef extents) const {
  const int a = wrap_axis(axis, dim(), "unflatten");
  Sizes e = sizes().vec(), inner = extents.vec();
  int64_t known = 1;
  int open = -1;
  for (size_t i = 0; i < inner.size(); ++i) inner[i] == -1 ? void(open = int(i)) : void(known *= inner[i]);
  if (open >= 0 && known) inner[open] = e[a] / known, known *= inner[open];
  if (known != e[a]) throw ShapeError("unflatten: " + shape_text(extents) + " does not multiply to axis " + std::to_string(a) + " of " + shape_text(sizes()) + ". The product must be " + std::to_string(e[a]) + ".");
  e.erase(e.begin() + a);
  e.insert(e.begin() + a, inner.begin(), inner.end());
  return view(e);
}
Tensor Tensor::movedim(int64_t from, int64_t to) const {
  std::vector<int> order;
  const int a = wrap_axis(from, dim(), "movedim"), b = wrap_axis(to, dim(), "movedim");
  for (int i = 0; i < dim(); ++i)
    if (i != a) order.push_back(i);
  order.insert(order.begin() + b, a);
  return tracer::permute(*this, order);
}
Tensor Tensor::diagonal(int64_t offset, int64_t axis1, int64_t axis2) const {
  const int a = wrap_axis(axis1, dim(), "diagonal"), b = wrap_axis(axis2, dim(), "diagonal");
  if (a == b) throw ValueError("diagonal: axis " + std::to_string(a) + " is named twice. Name two axes of " + shape_text(sizes()) + ".");
  return tracer::diagonal(*this, offset, a, b);
}
TensorList Tensor::split(int64_t size, int64_t axis) const {
  const int a = wrap_axis(axis, dim(), "split");
  if (size < 1 && !(size == 0 && sizes()[a] == 0)) throw ValueError("split: size " + std::to_string(size) + " is not positive. Give at least 1.");
  TensorList parts;
  const int64_t n = sizes()[a];
  for (int64_t at = 0; at < n || parts.empty(); at += std::max<int64_t>(size, 1)) parts.push_back(narrow(a, at, std::min(size, n - at)));
  return parts;
}
TensorList Tensor::split(IntArrayRef lengths, int64_t axis) const {
  const int a = wrap_axis(axis, dim(), "split");
  int64_t total = 0;
  for (int64_t n : lengths) total += n;
  if (total != sizes()[a]) throw ValueError("split: the sizes " + shape_text(lengths) + " sum to " + std::to_string(total) + ", axis " + std::to_string(a) + " of " + shape_text(sizes()) + " has " + std::to_string(sizes()[a]) + ". They must be equal.");
  TensorList parts;
  int64_t at = 0;
  for (int64_t n : lengths) parts.push_back(narrow(a, at, n)), at += n;
  return parts;
}
TensorList Tensor::chunk(int64_t chunks, int64_t axis) const {
  if (chunks < 1) throw ValueError("chunk: " + std::to_string(chunks) + " chunks were asked for. Give at least 1.");
  const int64_t n = size(axis);
  return split(std::max<int64_t>(1, (n + chunks - 1) / chunks), axis);
}
TensorList Tensor::unbind(int64_t axis) const {
  TensorList parts;
  for (int64_t i = 0, n = size(axis); i < n; ++i) parts.push_back(select(axis, i));
  return parts;
}

}  // namespace frit
