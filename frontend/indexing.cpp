// Indexing: index() and index_put_() with slices, numbers, None, Ellipsis and index tensors, and the ops by index. Basic
// indices are views; index tensors gather from the flattened indexed axes through one linear index. Start at basic_index.
#include <algorithm>
#include "frit/autograd.h"
#include "frontend/detail.h"
#include "runtime/error.h"

namespace frit {

using namespace detail;
using indexing::TensorIndex;
using Kind = TensorIndex::Kind;

TensorIndex::TensorIndex(const char* dots) : kind(Kind::ellipsis) {
  if (std::string(dots) != "...") throw ValueError(std::string("index: the text \"") + dots + "\" is no index. Only \"...\" is.");
}

namespace {
struct Indexed {
  Tensor view;                       // after the basic indices
  std::vector<Tensor> index;         // per axis of view; undefined: all of it
  bool any() const {
    return std::any_of(index.begin(), index.end(), [](const Tensor& t) { return t.defined(); });
  }
};

// A boolean mask stands for as many axes as it has: the indices of its true elements.
std::vector<Tensor> mask_indices(const Tensor& mask) {
  const Tensor at = mask.nonzero();
  std::vector<Tensor> result;
  for (int64_t k = 0; k < mask.dim(); ++k) result.push_back(at.select(1, k).contiguous());
  return result;
}

Indexed basic_index(const Tensor& t, const std::vector<TensorIndex>& at) {
  int64_t named = 0;
  for (const TensorIndex& i : at) {
    if (i.kind == Kind::integer || i.kind == Kind::slice) ++named;
    else if (i.kind == Kind::tensor) named += i.tensor.dtype() == kBool ? i.tensor.dim() : 1;
  }
  if (named > t.dim())
    throw IndexError("index: " + std::to_string(named) + " indices are given for a tensor of shape " + shape_text(t.sizes()) + ". Give at most one per axis.");
  Indexed r{t, {}};
  int axis = 0;
  for (const TensorIndex& i : at) switch (i.kind) {
      case Kind::integer: r.view = r.view.select(axis, i.integer); break;
      case Kind::slice:
        if (i.slice.start || i.slice.stop || i.slice.step != 1) r.view = r.view.slice(axis, i.slice.start, i.slice.stop, i.slice.step);
        r.index.push_back({});
        ++axis;
        break;
      case Kind::none:
        r.view = r.view.unsqueeze(axis++);
        r.index.push_back({});
        break;
      case Kind::boolean: {
        r.view = r.view.unsqueeze(axis++);
        r.index.push_back(i.integer ? arange(1) : arange(0));
        break;
      }
      case Kind::ellipsis:
        for (int64_t k = t.dim() - named; k > 0; --k, ++axis) r.index.push_back({});
        break;
      case Kind::tensor: {
        std::vector<Tensor> parts = i.tensor.dtype() == kBool ? mask_indices(i.tensor) : std::vector<Tensor>{i.tensor};
        if (i.tensor.dtype() == kBool)
          for (int64_t k = 0; k < i.tensor.dim(); ++k)
            if (i.tensor.sizes()[k] != r.view.sizes()[axis + k])
              throw IndexError("index: a mask of shape " + shape_text(i.tensor.sizes()) + " does not fit axes from " + std::to_string(axis) + " of " + shape_text(r.view.sizes()) + ". Their extents must be equal.");
        for (Tensor& p : parts) {
          if (!is_integral(p.dtype())) throw DtypeError(std::string("index: an index tensor has type ") + dtype_name(p.dtype()) + ". Use integers or a boolean mask.");
          r.index.push_back(p.to(kInt64));
          ++axis;
        }
        break;
      }
    }
  while (int64_t(r.index.size()) < r.view.dim()) r.index.push_back({});
  return r;
}

// The indexed axes brought to one place and flattened, with a linear index over them.
struct Flattened {
  Tensor flat;     // [before..., indexed product, after...]
  Tensor linear;   // the broadcast index shape
  int axis;
  std::vector<int> order;  // of view's axes in flat before flattening
};
Flattened flatten_indexed(const Indexed& r) {
  std::vector<int> indexed, others;
  for (size_t i = 0; i < r.index.size(); ++i) (r.index[i].defined() ? indexed : others).push_back(int(i));
  const bool adjacent = indexed.back() - indexed.front() + 1 == int(indexed.size());
  const int axis = adjacent ? indexed.front() : 0;  // apart, the index's axes come first, as in NumPy
  Flattened f;
  f.axis = axis;
  for (int k = 0; k < axis; ++k) f.order.push_back(others[size_t(k)]);
  f.order.insert(f.order.end(), indexed.begin(), indexed.end());
  f.order.insert(f.order.end(), others.begin() + axis, others.end());
  const Sizes e = r.view.sizes().vec();
  Sizes flat_extents;
  for (int k = 0; k < axis; ++k) flat_extents.push_back(e[size_t(others[size_t(k)])]);
  int64_t product = 1;
  for (int i : indexed) {
    const int64_t n = e[size_t(i)];
    Tensor index = r.index[size_t(i)];
    if (index.numel()) {
      const auto range = real_range(index);
      const int64_t low = range ? range->first : index.min().item<int64_t>(), high = range ? range->second : index.max().item<int64_t>();
      if (low < -n || high >= n)
        throw IndexError("index: index " + std::to_string(low < -n ? low : high) + " is out of range for axis " + std::to_string(i) + " of " + shape_text(r.view.sizes()) + ". Valid indices are " +
                         std::to_string(-n) + " to " + std::to_string(n - 1) + ".");
      if (low < 0) index = frit::where(index.lt(Scalar(0)), index.add(Scalar(n)), index);
    }
    f.linear = f.linear.defined() ? f.linear.mul(Scalar(n)).add(index) : index;
    product *= n;
  }
  flat_extents.push_back(product);
  for (size_t k = size_t(axis); k < others.size(); ++k) flat_extents.push_back(e[size_t(others[k])]);
  Sizes order(f.order.begin(), f.order.end());
  f.flat = r.view.permute(order).reshape(flat_extents);
  return f;
}
// index repeated over the other axes of `shape`.
Tensor index_along(const Tensor& index, int axis, const Sizes& shape) {
  Sizes e(shape.size(), 1);
  e[size_t(axis)] = index.numel();
  return index.reshape(e).expand(shape);
}
Tensor take_along(const Tensor& t, int axis, const Tensor& index) {
  Sizes e = t.sizes().vec();
  e[size_t(axis)] = index.numel();
  return t.gather(axis, index_along(index, axis, e));
}
}  // namespace

Tensor Tensor::operator[](const Tensor& i) const { return index({TensorIndex(i)}); }
Tensor Tensor::index(std::initializer_list<TensorIndex> at) const {
  const UserCall call("index", {this});
  return index(std::vector<TensorIndex>(at));
}
Tensor Tensor::index(const std::vector<TensorIndex>& at) const {
  const UserCall call("index", {this});
  cell_of(*this, "index");
  const Indexed r = basic_index(*this, at);
  if (!r.any()) return r.view.is_same(*this) ? r.view.view(sizes()) : r.view;
  const Flattened f = flatten_indexed(r);
  const Tensor taken = take_along(f.flat, f.axis, f.linear);
  Sizes e = taken.sizes().vec();
  e.erase(e.begin() + f.axis);
  const Sizes inner = f.linear.sizes().vec();
  e.insert(e.begin() + f.axis, inner.begin(), inner.end());
  return taken.reshape(e);
}
Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> at, const Tensor& v) {
  const UserCall call("index_put_", {this, &v});
  return index_put_(std::vector<TensorIndex>(at), v);
}
Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> at, const Scalar& v) {
  const UserCall call("index_put_", {this});
  return index_put_(std::vector<TensorIndex>(at), Tensor(tracer::full({}, v, dtype())));
}
Tensor& Tensor::index_put_(const std::vector<TensorIndex>& at, const Tensor& v) {
  const UserCall call("index_put_", {this, &v});
  cell_of(*this, "index_put_"), cell_of(v, "index_put_");
  Indexed r = basic_index(*this, at);
  if (!r.any()) {
    // LibTorch takes leading axes of extent 1 away when the value has too many.
    Tensor source = v;
    while (source.dim() > r.view.dim() && source.sizes()[0] == 1) source = source.squeeze(0);
    Tensor target = r.view.is_same(*this) ? r.view.view(sizes()) : r.view;
    target.copy_(source);
    return *this;
  }
  const Flattened f = flatten_indexed(r);
  Sizes e = f.flat.sizes().vec(), wanted = e;
  const Sizes inner = f.linear.sizes().vec();
  wanted.erase(wanted.begin() + f.axis);
  wanted.insert(wanted.begin() + f.axis, inner.begin(), inner.end());
  e[size_t(f.axis)] = f.linear.numel();
  const Tensor source = v.to(dtype()).expand(wanted).reshape(e);
  const Tensor changed = f.flat.scatter(f.axis, index_along(f.linear, f.axis, e), source);
  Sizes permuted, back(f.order.size());
  for (size_t k = 0; k < f.order.size(); ++k) permuted.push_back(r.view.sizes()[size_t(f.order[k])]), back[size_t(f.order[k])] = int64_t(k);
  Tensor target = r.view.is_same(*this) ? r.view.view(sizes()) : r.view;
  target.copy_(changed.reshape(permuted).permute(back));
  return *this;
}

Tensor Tensor::index_select(int64_t axis, const Tensor& i) const {
  const UserCall call("index_select", {this, &i});
  if (i.dim() > 1) throw ShapeError("index_select: the index has shape " + shape_text(i.sizes()) + ". A list is needed; use gather or index.");
  if (dim() == 0) return gather(0, i.reshape({}));
  const int a = wrap_axis(axis, dim(), "index_select");
  check_real_index(i, sizes()[a], "index_select");
  return take_along(*this, a, i);
}
Tensor Tensor::gather(int64_t axis, const Tensor& i) const {
  cell_of(*this, "gather"), cell_of(i, "gather");
  const int a = wrap_axis(axis, dim(), "gather");
  if (dim()) check_real_index(i, sizes()[a], "gather");
  return tracer::gather(*this, a, i);
}
namespace {
int scatter_axis(const Tensor& t, int64_t axis, const Tensor& i, const Tensor& source, const char* op) {
  cell_of(t, op), cell_of(i, op), cell_of(source, op);
  const int a = wrap_axis(axis, t.dim(), op);
  if (t.dim() && t.dtype() == source.dtype()) check_real_index(i, t.sizes()[a], op);
  return a;
}
}  // namespace
Tensor Tensor::scatter(int64_t axis, const Tensor& i, const Tensor& source) const { return tracer::scatter(*this, scatter_axis(*this, axis, i, source, "scatter"), i, source); }
Tensor Tensor::scatter(int64_t axis, const Tensor& i, const Scalar& v) const { return scatter(axis, i, Tensor(tracer::full({}, v, dtype())).expand(i.sizes())); }
Tensor& Tensor::scatter_(int64_t axis, const Tensor& i, const Tensor& source) {
  tracer::scatter_(tracer::Op::scatter, *this, scatter_axis(*this, axis, i, source, "scatter_"), i, source);
  return *this;
}
Tensor& Tensor::scatter_(int64_t axis, const Tensor& i, const Scalar& v) { return scatter_(axis, i, Tensor(tracer::full({}, v, dtype())).expand(i.sizes())); }
Tensor Tensor::scatter_add(int64_t axis, const Tensor& i, const Tensor& source) const { return tracer::scatter_add(*this, scatter_axis(*this, axis, i, source, "scatter_add"), i, source); }
Tensor& Tensor::scatter_add_(int64_t axis, const Tensor& i, const Tensor& source) {
  tracer::scatter_(tracer::Op::scatter_add, *this, scatter_axis(*this, axis, i, source, "scatter_add_"), i, source);
  return *this;
}
namespace {
Tensor add_index(int axis, const Tensor& i, const Tensor& source) {
  if (i.dim() > 1 || i.numel() != source.size(axis))
    throw ShapeError("index_add: the index has shape " + shape_text(i.sizes()) + ", the source " + shape_text(source.sizes()) + ". One index per slice along axis " + std::to_string(axis) + " is needed.");
  return index_along(i, axis, source.sizes().vec());
}
}  // namespace
Tensor Tensor::index_add(int64_t axis, const Tensor& i, const Tensor& source) const {
  const UserCall call("index_add", {this, &i, &source});
  const int a = scatter_axis(*this, axis, i, source, "index_add");
  return scatter_add(a, add_index(a, i, source), source);
}
Tensor& Tensor::index_add_(int64_t axis, const Tensor& i, const Tensor& source) {
  const UserCall call("index_add_", {this, &i, &source});
  const int a = scatter_axis(*this, axis, i, source, "index_add_");
  return scatter_add_(a, add_index(a, i, source), source);
}
Tensor Tensor::masked_fill(const Tensor& mask, const Scalar& v) const {
  const UserCall call("masked_fill", {this, &mask});
  return frit::where(mask, v, *this).to(dtype());
}
Tensor Tensor::masked_fill(const Tensor& mask, const Tensor& v) const {
  const UserCall call("masked_fill", {this, &mask, &v});
  return frit::where(mask, v.to(dtype()), *this);
}
Tensor& Tensor::masked_fill_(const Tensor& mask, const Scalar& v) {
  const UserCall call("masked_fill_", {this, &mask});
  return copy_(masked_fill(mask, v));
}
Tensor Tensor::masked_select(const Tensor& mask) const {
  const UserCall call("masked_select", {this, &mask});
  if (mask.dtype() != kBool) throw DtypeError(std::string("masked_select: the mask has type ") + dtype_name(mask.dtype()) + ". Use a boolean mask.");
  const int64_t rank = std::max(dim(), mask.dim());
  Sizes e;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t x = i - (rank - dim()), y = i - (rank - mask.dim());
    const int64_t ex = x < 0 ? 1 : sizes()[x], ey = y < 0 ? 1 : mask.sizes()[y];
    e.push_back(ex == 1 ? ey : ex);
  }
  const Tensor at = mask.expand(e).reshape({-1}).nonzero().reshape({-1});
  return expand(e).reshape({-1}).index_select(0, at);
}
Tensor Tensor::take(const Tensor& i) const {
  const UserCall call("take", {this, &i});
  check_real_index(i, numel(), "take");
  return reshape({numel()}).gather(0, i.reshape({i.numel()})).reshape(i.sizes());
}
// The result's shape depends on values: the tensor is read.
Tensor Tensor::nonzero() const {
  const Tensor flags = ne(Scalar(0)).contiguous();
  const bool* p = flags.const_data_ptr<bool>();
  const int64_t n = numel(), rank = dim();
  std::vector<int64_t> found;
  for (int64_t i = 0; i < n; ++i) {
    if (!p[i]) continue;
    int64_t rest = i;
    found.resize(found.size() + size_t(rank));
    for (int64_t k = rank; k-- > 0; rest /= sizes()[k]) found[found.size() - size_t(rank - k)] = rest % sizes()[k];
  }
  if (rank == 0) return empty({p[0] ? 1 : 0, 0}, kInt64);
  const Tensor result = empty({int64_t(found.size()) / rank, rank}, kInt64);
  std::copy(found.begin(), found.end(), reinterpret_cast<int64_t*>(detail::value_of(result, "nonzero").data()));
  return result;
}

}  // namespace frit
