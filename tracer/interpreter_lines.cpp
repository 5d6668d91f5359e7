// The interpreter's rows that work along one axis: cumsum, cumprod, sort and argsort (a line at a time), gather and scatter (an
// index element at a time, in row-major order, so that each destination sees ascending indices).
#include <cstring>
#include <numeric>
#include "runtime/error.h"
#include "tracer/interpreter_detail.h"

namespace frit::tracer::interpreter {

namespace {
// Lines of the input along the row's axis, with the same line of the contiguous result.
template <class F> void for_each_line(const Evaluation& e, F f) {
  const Value& v = e.in(0);
  if (v.rank == 0) return f(v.offset, 0, e.out.offset, 0, 1);
  const int axis = int(e.call().attr);
  const Layout from = without_axis(layout_of(v), axis), to = without_axis(layout_of(e.out), axis);
  const int64_t lines = from.numel();
  Cursor read(from), write(to);
  for (int64_t i = 0; i < lines; ++i, read.next(), write.next())
    f(read.offset(), v.stride[axis], write.offset(), e.out.stride[axis], v.extent[axis]);
}

template <class T> std::vector<int64_t> sorted(const std::vector<T>& x, bool descending) {
  std::vector<int64_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const T &a = x[i], &b = x[j];
    if (descending) return b < a || (a != a && b == b);
    return a < b || (b != b && a == a);
  });
  return order;
}
std::vector<int64_t> order_of_line(const Value& v, int64_t first, int64_t step, int64_t count, bool descending) {
  return dispatch(v.dtype, [&]<class M>(M) {
    using Sortable = std::conditional_t<std::is_same_v<M, bool>, uint8_t, ComputeType<M>>;
    const M* const data = static_cast<const M*>(v.storage->data);
    std::vector<Sortable> x(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) x[i] = Sortable(data[first + i * step]);
    return sorted(x, descending);
  });
}

// Walks an index tensor with the places in `to` (the indexed axis stands still there) and in `source`.
template <class F> void for_each_index(const Evaluation& e, const Value& to, const Value* source, F f) {
  const Value& index = e.in(1);
  const int axis = int(e.call().attr);
  const Layout li = layout_of(index);
  Layout lt = layout_of(to), ls = source ? layout_of(*source) : li;
  std::copy_n(li.extent, li.rank, lt.extent);
  std::copy_n(li.extent, li.rank, ls.extent);
  const int64_t extent = index.rank ? to.extent[axis] : 1, stride = index.rank ? to.stride[axis] : 0;
  if (index.rank) lt.stride[axis] = 0;
  const int64_t total = li.numel();
  Cursor at_index(li), at_to(lt), at_source(ls);
  for (int64_t k = 0; k < total; ++k, at_index.next(), at_to.next(), at_source.next()) {
    uint64_t w;
    const int64_t offset = at_index.offset();
    load_words(index.storage->data, index.dtype, &offset, 1, Dtype::Int64, &w);
    int64_t i = int64_t(w);
    if (i < -extent || i >= extent)
      throw IndexError(std::string(op_name(e.call().op)) + ": index " + std::to_string(i) + " is out of range for axis " + std::to_string(axis) +
                       " of extent " + std::to_string(extent) + ". Give indices from " + std::to_string(-extent) + " to " +
                       std::to_string(extent - 1) + ".");
    if (i < 0) i += extent;
    f(at_to.offset() + i * stride, at_source.offset());
  }
}

template <class M> M accumulate(M to, M source) {
  using T = ComputeType<M>;
  if constexpr (std::is_same_v<M, bool>) return to || source;
  else if constexpr (std::is_floating_point_v<T>) return M(T(to) + T(source));
  else return M(uint64_t(to) + uint64_t(source));
}
}  // namespace

// In Float64 from the left, rounded at each element; integers wrap in Int64. Lines whose elements lie apart go together, a
// row of them at a time, so that memory is read in order.
void scan(const Evaluation& e) {
  constexpr size_t most = 64;
  struct Line { int64_t read, write; };
  std::vector<Line> lines;
  int64_t read_step = 0, write_step = 0, count = 0;
  for_each_line(e, [&](int64_t read, int64_t rs, int64_t write, int64_t ws, int64_t n) {
    lines.push_back({read, write});
    read_step = rs, write_step = ws, count = n;
  });
  const bool product = e.call().op == Op::cumprod;
  dispatch(e.in(0).dtype, [&]<class M>(M) {
    using T = ComputeType<M>;
    using Out = std::conditional_t<std::is_floating_point_v<T>, M, int64_t>;
    using Total = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
    const M* const in = static_cast<const M*>(e.in(0).storage->data);
    Out* const out = static_cast<Out*>(e.out.storage->data);
    const auto step = [&](Total total, const Line& line, int64_t i) {
      const Total v = Total(T(in[line.read + i * read_step]));
      total = product ? total * v : total + v;
      if constexpr (std::is_floating_point_v<T>) out[line.write + i * write_step] = Out(T(total));
      else out[line.write + i * write_step] = int64_t(total);
      return total;
    };
    const Total start = product ? 1 : 0;
    if (read_step == 1) {
      for (const Line& line : lines) {
        Total total = start;
        for (int64_t i = 0; i < count; ++i) total = step(total, line, i);
      }
      return;
    }
    for (size_t first = 0; first < lines.size(); first += most) {
      const size_t here = std::min(most, lines.size() - first);
      Total total[most];
      std::fill_n(total, here, start);
      for (int64_t i = 0; i < count; ++i)
        for (size_t k = 0; k < here; ++k) total[k] = step(total[k], lines[first + k], i);
    }
  });
}

void library(const Evaluation& e) {
  const bool positions = e.call().op == Op::argsort;
  const Value& v = e.in(0);
  const size_t size = size_of(v.dtype);
  for_each_line(e, [&](int64_t read, int64_t read_step, int64_t write, int64_t write_step, int64_t count) {
    const std::vector<int64_t> order = order_of_line(v, read, read_step, count, e.call().kind);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t to = write + i * write_step;
      if (positions) static_cast<int64_t*>(e.out.storage->data)[to] = order[i];
      else std::memcpy(static_cast<char*>(e.out.storage->data) + to * int64_t(size),
                       static_cast<const char*>(v.storage->data) + (read + order[i] * read_step) * int64_t(size), size);
    }
  });
}

void gather(const Evaluation& e) {
  const int64_t size = int64_t(size_of(e.out.dtype));
  for_each_index(e, e.in(0), &e.out, [&](int64_t from, int64_t to) {
    std::memcpy(static_cast<char*>(e.out.storage->data) + to * size, static_cast<const char*>(e.in(0).storage->data) + from * size, size_t(size));
  });
}

void scatter(const Evaluation& e) {
  move(e.out, layout_of(e.out), e.in(0), layout_of(e.in(0)));
  const bool adds = e.call().op == Op::scatter_add;
  const Value& source = e.in(2);
  dispatch(e.out.dtype, [&]<class M>(M) {
    M* const to = static_cast<M*>(e.out.storage->data);
    const M* const from = static_cast<const M*>(source.storage->data);
    for_each_index(e, e.out, &source, [&](int64_t i, int64_t k) { to[i] = adds ? accumulate(to[i], from[k]) : from[k]; });
  });
}

}  // namespace frit::tracer::interpreter
