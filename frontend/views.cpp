// Views beyond the plain ones of tensor.cpp: any strides, windows, lists of parts, several axes moved at once, diagonals.
// Start at as_strided.
#include <algorithm>
#include "frontend/detail.h"
#include "runtime/error.h"

namespace frit {

using namespace detail;

Tensor Tensor::as_strided(IntArrayRef extents, IntArrayRef strides, std::optional<int64_t> offset) const {
  cell_of(*this, "as_strided");
  return tracer::as_strided(*this, extents.vec(), strides.vec(), offset ? *offset : storage_offset());
}
Tensor Tensor::unfold(int64_t axis, int64_t size, int64_t step) const {
  const int a = wrap_axis(axis, dim(), "unfold");
  const int64_t n = dim() ? sizes()[a] : 1;
  if (size < 0 || size > n)
    throw ValueError("unfold: windows of size " + std::to_string(size) + " do not fit axis " + std::to_string(a) + " of " + shape_text(sizes()) + ". Give a size of 0 to " + std::to_string(n) + ".");
  if (step < 1) throw ValueError("unfold: step " + std::to_string(step) + " is not positive. Give at least 1.");
  Sizes e = sizes().vec(), s = this->strides().vec();
  const int64_t along = dim() ? s[size_t(a)] : 1;
  if (dim()) e[size_t(a)] = (n - size) / step + 1, s[size_t(a)] = along * step;
  e.push_back(size), s.push_back(along);
  return as_strided(e, s);
}

Tensor Tensor::squeeze(IntArrayRef axes) const {
  if (axes.empty()) return view(sizes());
  const uint64_t mask = axis_mask(axes, dim(), "squeeze");
  Sizes e;
  for (int64_t i = 0; i < dim(); ++i)
    if (!(mask >> i & 1) || sizes()[size_t(i)] != 1) e.push_back(sizes()[size_t(i)]);
  return view(e);
}
Tensor Tensor::movedim(IntArrayRef from, IntArrayRef to) const {
  if (from.size() != to.size())
    throw ValueError("movedim: " + std::to_string(from.size()) + " axes are moved to " + std::to_string(to.size()) + " places. Give one place per axis.");
  if (!from.empty()) axis_mask(from, dim(), "movedim"), axis_mask(to, dim(), "movedim");
  Sizes order(size_t(dim()), -1);
  std::vector<bool> moved(size_t(dim()), false);
  for (size_t i = 0; i < from.size(); ++i) {
    const int a = wrap_axis(from[i], dim(), "movedim");
    if (dim()) order[size_t(wrap_axis(to[i], dim(), "movedim"))] = a, moved[size_t(a)] = true;
  }
  int64_t next = 0;
  for (int64_t& o : order) {
    if (o >= 0) continue;
    while (moved[size_t(next)]) ++next;
    o = next++;
  }
  return permute(order);
}

TensorList Tensor::tensor_split(int64_t sections, int64_t axis) const {
  if (dim() == 0) throw ShapeError("tensor_split: a tensor without axes cannot be split. unsqueeze it first.");
  if (sections < 1) throw ValueError("tensor_split: " + std::to_string(sections) + " sections were asked for. Give at least 1.");
  const int64_t n = size(axis);
  Sizes lengths;
  for (int64_t i = 0; i < sections; ++i) lengths.push_back(n / sections + (i < n % sections));
  return split(lengths, axis);
}
TensorList Tensor::tensor_split(IntArrayRef indices, int64_t axis) const {
  if (dim() == 0) throw ShapeError("tensor_split: a tensor without axes cannot be split. unsqueeze it first.");
  TensorList parts;
  int64_t start = 0;
  for (int64_t i : indices) {
    parts.push_back(slice(axis, start, i));
    start = i;
  }
  parts.push_back(slice(axis, start));
  return parts;
}
TensorList broadcast_tensors(const TensorList& tensors) {
  Sizes e;
  for (const Tensor& t : tensors) {
    cell_of(t, "broadcast_tensors");
    const Sizes own = t.sizes().vec();
    while (e.size() < own.size()) e.insert(e.begin(), 1);
    for (size_t i = 0; i < own.size(); ++i) {
      int64_t& x = e[e.size() - own.size() + i];
      if (x == 1) x = own[i];
      else if (own[i] != 1 && own[i] != x)
        throw ShapeError("broadcast_tensors: " + shape_text(own) + " does not broadcast with " + shape_text(e) + ". Axes are aligned from the right; make the extents equal or 1.");
    }
  }
  TensorList r;
  for (const Tensor& t : tensors) r.push_back(t.expand(e));
  return r;
}
TensorList meshgrid(const TensorList& axes, const std::string& indexing) {
  if (indexing != "ij" && indexing != "xy") throw ValueError("meshgrid: indexing \"" + indexing + "\" is not known. Use \"ij\" or \"xy\".");
  Sizes e;
  for (const Tensor& t : axes) {
    if (t.dim() > 1) throw ShapeError("meshgrid: an axis has shape " + shape_text(t.sizes()) + ". Lists or numbers are needed.");
    e.push_back(t.numel());
  }
  const bool swap = indexing == "xy" && axes.size() >= 2;
  TensorList r;
  for (size_t i = 0; i < axes.size(); ++i) {
    Sizes own(axes.size(), 1);
    own[i] = e[i];
    const Tensor grid = axes[i].reshape(own).expand(e);
    r.push_back(swap ? grid.transpose(0, 1) : grid);
  }
  return r;
}

Tensor Tensor::diag_embed(int64_t offset, int64_t axis1, int64_t axis2) const {
  const int a = wrap_axis(axis1, dim() + 1, "diag_embed"), b = wrap_axis(axis2, dim() + 1, "diag_embed");
  if (a == b) throw ValueError("diag_embed: axis " + std::to_string(a) + " is named twice. Name two axes.");
  if (dim() == 0) throw ShapeError("diag_embed: a tensor without axes has no diagonal. unsqueeze it first.");
  const int64_t n = sizes().back() + std::abs(offset);
  return tracer::undiagonal(*this, offset, a, b, n, n);
}
Tensor Tensor::diag(int64_t offset) const {
  if (dim() == 1) return diag_embed(offset);
  if (dim() != 2) throw ShapeError("diag: the tensor has shape " + shape_text(sizes()) + ". A list or a matrix is needed; use diagonal or diag_embed.");
  return diagonal(offset).clone();
}

}  // namespace frit
