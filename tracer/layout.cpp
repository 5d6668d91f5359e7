// Layouts of views: each view op moves the offset, and picks, repeats or combines strides. Start at view_layout.
#include "tracer/layout.h"
#include "runtime/error.h"
#include "tracer/trace.h"

namespace frit::tracer {

Layout layout_of(const Value& v) {
  Layout l;
  l.rank = v.rank, l.offset = v.offset;
  std::copy_n(v.extent, v.rank, l.extent);
  std::copy_n(v.stride, v.rank, l.stride);
  return l;
}
Layout broadcast(Layout l, const int64_t* extents, int rank) {
  Layout out;
  out.rank = rank, out.offset = l.offset;
  for (int i = 0; i < rank; ++i) {
    const int j = i - (rank - l.rank);
    out.extent[i] = extents[i];
    out.stride[i] = j < 0 || l.extent[j] != extents[i] ? 0 : l.stride[j];
  }
  return out;
}
Layout without_axis(Layout l, int axis) {
  for (int i = axis + 1; i < l.rank; ++i) l.extent[i - 1] = l.extent[i], l.stride[i - 1] = l.stride[i];
  --l.rank;
  return l;
}
Value* new_alias(const Value& of, const Layout& l) {
  Value* v = new_alias(of, l.rank);
  v->offset = l.offset;
  std::copy_n(l.extent, l.rank, v->extent);
  std::copy_n(l.stride, l.rank, v->stride);
  return v;
}

namespace {
Layout permuted(const Layout& l, uint64_t attr) {
  Layout out = l;
  for (int i = 0; i < l.rank; ++i) {
    const int from = int(attr >> (4 * i) & 15);
    out.extent[i] = l.extent[from], out.stride[i] = l.stride[from];
  }
  return out;
}
Layout diagonal_of(const Layout& l, uint64_t attr, int64_t offset, int64_t length) {
  const int x = int(attr & 15), y = int(attr >> 4 & 15);
  Layout out;
  out.offset = l.offset + (length == 0 ? 0 : offset >= 0 ? offset * l.stride[y] : -offset * l.stride[x]);
  for (int i = 0; i < l.rank; ++i)
    if (i != x && i != y) out.extent[out.rank] = l.extent[i], out.stride[out.rank++] = l.stride[i];
  out.extent[out.rank] = length, out.stride[out.rank++] = l.stride[x] + l.stride[y];
  return out;
}
}  // namespace

std::optional<Layout> view_layout(const Call& call, const uint64_t* args, const Value& base) {
  Layout l = layout_of(base);
  const auto arg = [&](int k) { return int64_t(args[k]); };
  const int axis = int(call.attr);
  switch (call.op) {
    case Op::detach: return l;
    case Op::permute: return permuted(l, call.attr);
    case Op::expand: return broadcast(l, reinterpret_cast<const int64_t*>(args), axis);
    case Op::reshape: {
      const Sizes extents(reinterpret_cast<const int64_t*>(args), reinterpret_cast<const int64_t*>(args) + call.kind);
      Layout out = l;
      out.rank = call.kind;
      std::copy(extents.begin(), extents.end(), out.extent);
      if (!reshape_strides(base, extents, out.stride)) return std::nullopt;
      return out;
    }
    case Op::slice:
      if (arg(1) > 0) l.offset += arg(0) * l.stride[axis];
      l.extent[axis] = arg(1);
      l.stride[axis] *= arg(2);
      return l;
    case Op::select:
      l.offset += arg(0) * l.stride[axis];
      return without_axis(l, axis);
    case Op::diagonal: return diagonal_of(l, call.attr, arg(0), arg(1));
    case Op::as_strided:
      l.rank = axis, l.offset = arg(0);
      for (int i = 0; i < axis; ++i) l.extent[i] = arg(1 + i), l.stride[i] = arg(1 + axis + i);
      return l;
    default: throw InternalError(std::string("view_layout: ") + op_name(call.op) + " is no view");
  }
}

}  // namespace frit::tracer
