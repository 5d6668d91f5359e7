// Gradients of as_strided. The view may show an element several times, or none of the base's, and the base may be any view
// itself; so all go through a line of storage that spans both: the base's elements are put there by their positions and the
// view's taken from there, each by gather and scatter, which have gradients of their own. Start at take_strided.
#include <algorithm>
#include "tracer/gradient_detail.h"

namespace frit::tracer {

namespace {
int64_t count(const Sizes& e) {
  int64_t n = 1;
  for (int64_t x : e) n *= x;
  return n;
}
int64_t last_place(const Sizes& e, const Sizes& strides, int64_t offset) {
  if (count(e) == 0) return offset;
  for (size_t i = 0; i < e.size(); ++i) offset += (e[i] - 1) * strides[i];
  return offset;
}
int64_t first(const StridedView& s) { return std::min(s.base_offset, s.offset); }
int64_t span(const StridedView& s) { return std::max(last_place(s.base, s.base_strides, s.base_offset), last_place(s.extents, s.strides, s.offset)) + 1 - first(s); }

// The places of a geometry's elements in the line, row-major.
Var places(const Sizes& e, const Sizes& strides, int64_t offset) {
  Var at = full(Sizes(e.size(), 1), Number(offset), kInt64);
  for (size_t i = 0; i < e.size(); ++i) {
    if (e[i] < 2 || strides[i] == 0) continue;
    Sizes along(e.size(), 1);
    along[i] = e[i];
    at = add(at, reshape(arange(0, Number(strides[i]), e[i], kInt64), along));
  }
  return reshape(expand(at, e), {count(e)});
}
Var base_places(const StridedView& s) { return places(s.base, s.base_strides, s.base_offset - first(s)); }
Var view_places(const StridedView& s) { return places(s.extents, s.strides, s.offset - first(s)); }
Var line(const StridedView& s, Dtype d) { return full({span(s)}, 0, d); }
bool base_repeats(const StridedView& s) {
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (size_t i = 0; i < s.base.size(); ++i)
    if (s.base[i] > 1) axes.emplace_back(s.base_strides[i], s.base[i]);
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;
  for (const auto& [stride, extent] : axes) {
    if (stride <= reach) return true;
    reach += stride * (extent - 1);
  }
  return false;
}
}  // namespace

StridedView strided_view(const Sizes& base_extents, const int64_t* args, int rank) {
  StridedView s;
  s.base = base_extents;
  s.offset = args[0];
  s.extents.assign(args + 1, args + 1 + rank);
  s.strides.assign(args + 1 + rank, args + 1 + 2 * rank);
  s.base_offset = args[1 + 2 * rank];
  s.base_strides.assign(args + 2 + 2 * rank, args + 2 + 2 * rank + base_extents.size());
  return s;
}
Var take_strided(const StridedView& s, const Var& base) {
  const Var all = scatter(line(s, dtype_of(base)), 0, base_places(s), reshape(base, {count(s.base)}));
  return reshape(gather(all, 0, view_places(s)), s.extents);
}
Var put_strided(const StridedView& s, const Var& base, const Var& content) {
  const Var at = base_places(s);
  const Var all = scatter(line(s, dtype_of(base)), 0, at, reshape(base, {count(s.base)}));
  const Var written = scatter(all, 0, view_places(s), reshape(content, {count(s.extents)}));
  return reshape(gather(written, 0, at), s.base);
}
Var strided_gradient(const StridedView& s, const Var& g) {
  const Var at = base_places(s);
  Var given = gather(scatter_add(line(s, dtype_of(g)), 0, view_places(s), reshape(g, {count(s.extents)})), 0, at);
  if (base_repeats(s)) {  // elements that share a place share its gradient evenly, as in LibTorch
    const Var times = scatter_add(line(s, dtype_of(g)), 0, at, full({count(s.base)}, 1, dtype_of(g)));
    given = given / gather(times, 0, at);
  }
  return reshape(given, s.base);
}

}  // namespace frit::tracer
