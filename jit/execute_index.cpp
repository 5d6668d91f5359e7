// Tier 0's indexed steps (gather, scatter) and matrix products.
#include <algorithm>
#include <string>
#include "jit/execute_parts.h"
#include "jit/x86/product.h"
#include "runtime/error.h"
#include "runtime/launch.h"
#include "runtime/stats.h"
#include "tracer/user_call.h"

namespace frit::jit {

using namespace tracer;
using kernels::Slot;

void check_indices(const Node& of, const Value& index, int64_t extent) {
  const int64_t count = index.numel();
  const auto check = [&](int64_t i) {
    if (i < -extent || i >= extent)
      throw IndexError(shown_name(of) + ": index " + std::to_string(i) + " is out of range for an axis of extent " + std::to_string(extent) +
                       ". Valid indices are " + std::to_string(-extent) + " to " + std::to_string(extent - 1) + ".");
  };
  const auto walk = [&](auto* p) {
    if (index.contiguous()) {
      for (int64_t i = 0; i < count; ++i) check(p[i]);
      return;
    }
    // An axis that repeats (expanded) needs one look.
    int64_t at[max_rank] = {}, e[max_rank], total = count ? 1 : 0;
    for (int k = 0; k < index.rank; ++k) e[k] = index.stride[k] == 0 ? std::min<int64_t>(1, index.extent[k]) : index.extent[k], total *= e[k];
    for (int64_t i = 0; i < total; ++i) {
      int64_t offset = 0;
      for (int k = 0; k < index.rank; ++k) offset += at[k] * index.stride[k];
      check(p[offset]);
      for (int k = index.rank; k-- > 0 && ++at[k] == e[k];) at[k] = 0;
    }
  };
  if (index.dtype == Dtype::Int64) walk(reinterpret_cast<const int64_t*>(index.data()));
  else walk(reinterpret_cast<const int32_t*>(index.data()));
}

namespace {
struct Slots {
  Slot slot[64];
  int count = 0;
  void push(const void* p) { slot[count++] = reinterpret_cast<Slot>(p); }
  void push(int64_t v) { slot[count++] = Slot(v); }
};
}  // namespace

ValueRef run_gather(Trace& t, uint32_t n, Value& in, Value& index) {
  const Call& call = t.nodes[n].call;
  const int axis = int(call.attr);
  const int64_t extent = in.rank ? in.extent[axis] : 1, moved = in.rank ? in.stride[axis] : 0;
  check_indices(t.nodes[n], index, extent);
  ValueRef out = ValueRef::take(new_value(in.dtype, index.extent, index.rank));
  Space space;
  space.start(*out);
  space.add(index);
  int64_t other[max_rank];
  std::copy_n(in.stride, in.rank, other);
  if (in.rank) other[axis] = 0;
  space.add_strides(other);
  if (space.empty) return out;
  space.simplify();
  IndexSpec spec;
  spec.op = Op::gather, spec.memory = in.dtype, spec.index = index.dtype, spec.outer = uint8_t(std::max(0, space.rank - 1));
  Slots s;
  s.push(out->data());
  s.push(index.data());
  s.push(in.data());
  s.push(extent);
  s.push(moved);
  s.push(space.inner_extent());
  if (spec.outer) s.push(space.outer_count());
  for (int i = 1; i < spec.outer; ++i) s.push(space.extent[i]);
  for (int p = 0; p < 3; ++p) {
    spec.step[p] = space.step(p);
    for (int i = 0; i < spec.outer; ++i) s.push(space.stride[p][i]);
    if (spec.step[p] == Step::strided) s.push(space.inner_stride(p));
  }
  launch(find_kernel(spec), s.slot, space.outer_count(), space.inner_extent());
  return out;
}

// Along the last axis, whose elements lie beside each other: line by line in plain loops, since the lanes of a kernel would be a line apart.
namespace {
template <class T>
void scatter_lines(bool adds, Value& out, const Value& where, const Value& from) {
  const int last = where.rank - 1;
  const int64_t count = where.extent[last], extent = out.extent[last], lines = where.numel() / count, where_step = where.stride[last], from_step = from.stride[last];
  T* const to = reinterpret_cast<T*>(out.data());
  parallel_for(lines, std::max<int64_t>(1, (1 << 15) / count), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      int64_t rest = line, offset[3] = {};
      for (int i = last; i-- > 0; rest /= where.extent[i]) {
        const int64_t at = rest % where.extent[i];
        offset[0] += at * out.stride[i], offset[1] += at * where.stride[i], offset[2] += at * from.stride[i];
      }
      T* const row = to + offset[0];
      const int64_t* const index = reinterpret_cast<const int64_t*>(where.data()) + offset[1];
      const T* const source = reinterpret_cast<const T*>(from.data()) + offset[2];
      for (int64_t i = 0; i < count; ++i) {
        const int64_t given = index[i * where_step], at = given < 0 ? given + extent : given;
        const T x = source[i * from_step];
        row[at] = adds ? row[at] + x : x;
      }
    }
  });
}
}  // namespace

ValueRef run_scatter(Trace& t, uint32_t n, Value& self, Value& index, Value& source, bool writes) {
  const Node& node = t.nodes[n];
  const int axis = int(node.call.attr);
  ValueRef out;
  if (writes) {
    out = ValueRef::share(&self);
  } else {
    out = ValueRef::take(node.call.mode & in_place ? new_value_ordered(self.dtype, self.extent, self.rank, self) : new_value(self.dtype, self.extent, self.rank));
    copy_values(self, *out);
  }
  ValueRef source_held, index_held;
  Value *from = &source, *where = &index;
  if (may_overlap(source, *out)) {
    source_held = ValueRef::take(new_value(source.dtype, source.extent, source.rank));
    copy_values(source, *source_held);
    from = source_held.get();
  }
  if (may_overlap(index, *out)) {  // the writes must not change the indices to come
    index_held = ValueRef::take(new_value(index.dtype, index.extent, index.rank));
    copy_values(index, *index_held);
    where = index_held.get();
  }
  check_indices(node, index, self.rank ? self.extent[axis] : 1);
  if (index.numel() == 0) return out;
  if (axis == index.rank - 1 && index.dtype == Dtype::Int64 && out->stride[axis] == 1 && (self.dtype == Dtype::Float32 || self.dtype == Dtype::Float64)) {
    count(&Counters::library_calls);
    const bool adds = node.call.op == Op::scatter_add;
    self.dtype == Dtype::Float32 ? scatter_lines<float>(adds, *out, *where, *from) : scatter_lines<double>(adds, *out, *where, *from);
    return out;
  }
  // The index's iteration space without the indexed axis: its last axis is the block, the indexed one is sequential.
  Space space;
  space.rank = 0, space.operands = 3;
  int64_t turns = 1, along_index = 0, along_source = 0;
  for (int i = 0; i < index.rank; ++i) {
    if (i == axis) {
      turns = index.extent[i], along_index = where->stride[i], along_source = from->stride[i];
      continue;
    }
    space.extent[space.rank] = index.extent[i];
    space.stride[0][space.rank] = out->stride[i], space.stride[1][space.rank] = where->stride[i], space.stride[2][space.rank] = from->stride[i];
    ++space.rank;
  }
  space.simplify(false);
  IndexSpec spec;
  spec.op = node.call.op, spec.memory = self.dtype, spec.index = index.dtype, spec.outer = uint8_t(std::max(0, space.rank - 1));
  Slots s;
  s.push(out->data());
  s.push(where->data());
  s.push(from->data());
  s.push(self.rank ? self.extent[axis] : 1);
  s.push(self.rank ? out->stride[axis] : 0);
  s.push(space.inner_extent());
  if (spec.outer) s.push(space.outer_count());
  s.push(turns);
  for (int i = 1; i < spec.outer; ++i) s.push(space.extent[i]);
  for (int p = 0; p < 3; ++p) {
    spec.step[p] = space.step(p);
    for (int i = 0; i < spec.outer; ++i) s.push(space.stride[p][i]);
    if (p > 0) s.push(p == 1 ? along_index : along_source);
    if (spec.step[p] == Step::strided) s.push(space.inner_stride(p));
  }
  launch(find_kernel(spec), s.slot, space.outer_count() * turns, space.inner_extent());
  return out;
}

PreparedProduct::PreparedProduct(Trace& t, uint32_t n, const Value& a, const Value& b) : a_(a.data()), b_(b.data()) {
  int64_t e[max_rank];
  t.sizes(n, e);
  const int rank = t.rank_of(n);
  out = ValueRef::take(new_value(t.nodes[n].result.dtype, e, rank));
  p.dtype = a.dtype;
  p.m = e[rank - 2], p.n = e[rank - 1], p.k = a.extent[a.rank - 1];
  p.a_row = a.stride[a.rank - 2], p.a_col = a.stride[a.rank - 1];
  p.b_row = b.stride[b.rank - 2], p.b_col = b.stride[b.rank - 1];
  p.c_row = out->stride[rank - 2], p.c_col = out->stride[rank - 1];
  for (int i = 0; i < rank - 2; ++i) p.batch *= e[i];
  c_ = out->data();
  if (p.batch <= 1 || out->numel() == 0) return;
  const Value* operands[] = {&a, &b, out.get()};
  for (int k = 0; k < 3; ++k) {
    const Value& v = *operands[k];
    offsets_[k].resize(size_t(p.batch));
    for (int64_t i = 0; i < p.batch; ++i) {
      int64_t rest = i, offset = 0;
      for (int d = rank - 2; d-- > 0;) {
        const int64_t at = rest % e[d];
        rest /= e[d];
        const int j = d - (rank - v.rank);
        if (j >= 0 && v.extent[j] != 1) offset += at * v.stride[j];
      }
      offsets_[k][size_t(i)] = offset;
    }
  }
  p.a_offset = offsets_[0].data(), p.b_offset = offsets_[1].data(), p.c_offset = offsets_[2].data();
}
void PreparedProduct::run(Epilogue* then, Prologue* before, const char* kept) const {
  if (p.m == 0 || p.n == 0 || p.batch == 0) {
    if (before) before->begin(0, p.batch * p.m);
    return;
  }
  count(&Counters::library_calls);
  product_x86(p, a_, b_, c_, then, before, kept);
}
ValueRef run_product(Trace& t, uint32_t n, Value& a, Value& b) {
  PreparedProduct product(t, n, a, b);
  product.run();
  return std::move(product.out);
}

}  // namespace frit::jit
