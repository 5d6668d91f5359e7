// The interpreter's reductions and products. A result's elements are read in row-major order of the reduced axes, cut in
// chunks of 1024 of 8 lanes each; folds say what happens within a chunk and between chunks. Start at reduce.
#include <limits>
#include "runtime/error.h"
#include "tracer/interpreter_detail.h"
#include "tracer/product.h"

namespace frit::tracer::interpreter {

namespace {
constexpr int64_t chunk = 1024, lanes = 8;

// One result's elements: base + each offset of the reduced axes.
struct Elements {
  const Value& v;
  const Layout& reduced;
  int64_t base, count;
  template <class T> T at(const Cursor& c) const {
    const int64_t size = int64_t(size_of(v.dtype));
    const char* p = static_cast<const char*>(v.storage->data) + (base + c.offset()) * size;
    return dispatch(v.dtype, [&]<class M>(M) { return convert_value<T>(ComputeType<M>(*reinterpret_cast<const M*>(p))); });
  }
};

template <class T, class F> T pairwise(const T* parts, int64_t count, F f) {
  if (count == 1) return parts[0];
  int64_t half = 1;
  while (half * 2 < count) half *= 2;
  return f(pairwise(parts, half, f), pairwise(parts + half, count - half, f));
}
template <class T, class F> T fold(const Elements& x, T identity, F f) {
  std::vector<uint64_t> parts;  // words: std::vector<bool> has no data()
  Cursor c(x.reduced);
  for (int64_t first = 0; first < x.count; first += chunk) {
    T l[lanes];
    std::fill_n(l, lanes, identity);
    const int64_t here = std::min(chunk, x.count - first);
    for (int64_t i = 0; i < here; ++i, c.next()) l[i % lanes] = f(l[i % lanes], x.at<T>(c));
    parts.push_back(value_word(T(f(f(f(l[0], l[4]), f(l[2], l[6])), f(f(l[1], l[5]), f(l[3], l[7]))))));
  }
  if (parts.empty()) return identity;
  return word_value<T>(pairwise(parts.data(), int64_t(parts.size()), [&](uint64_t a, uint64_t b) {
    return value_word(T(f(word_value<T>(a), word_value<T>(b))));
  }));
}

template <class T> T add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a + b;
  else return T(uint64_t(a) + uint64_t(b));
}
template <class T> T multiply(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a * b;
  else return T(uint64_t(a) * uint64_t(b));
}
// scalar_math.h's maximum and minimum: NaN wins; +0 is more than -0.
template <class T> T greater(T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  if constexpr (std::is_floating_point_v<T>)
    if (a == b) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}
template <class T> T lesser(T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  if constexpr (std::is_floating_point_v<T>)
    if (a == b) return std::signbit(a) ? a : b;
  return b < a ? b : a;
}
template <class T> T lowest() {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  else return std::numeric_limits<T>::min();
}
template <class T> T highest() {
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::infinity();
  else return std::numeric_limits<T>::max();
}

// The first NaN, else the lowest index of the extreme value; zeros are equal.
template <class T> int64_t position(const Elements& x, bool of_greatest) {
  Cursor c(x.reduced);
  int64_t best = 0;
  T value{};
  for (int64_t i = 0; i < x.count; ++i, c.next()) {
    const T v = x.at<T>(c);
    if (v != v) return i;
    if (i == 0 || (of_greatest ? value < v : v < value)) best = i, value = v;
  }
  return best;
}

// The reduction of one result, as a word of `type`.
uint64_t reduced(Op op, const Elements& x, Dtype type) {
  switch (op) {
    case Op::any: return value_word(fold(x, false, [](bool a, bool b) { return a || b; }));
    case Op::all: return value_word(fold(x, true, [](bool a, bool b) { return a && b; }));
    case Op::argmax:
    case Op::argmin:
      return value_word(dispatch_compute(x.v.dtype, [&]<class T>(T) { return position<T>(x, op == Op::argmax); }));
    default: break;
  }
  return dispatch_compute(type, [&]<class T>(T) {
    switch (op) {
      case Op::sum: return value_word(fold(x, T(0), add<T>));
      case Op::prod: return value_word(fold(x, T(1), multiply<T>));
      case Op::amax: return value_word(fold(x, lowest<T>(), greater<T>));
      case Op::amin: return value_word(fold(x, highest<T>(), lesser<T>));
      default: throw InternalError(std::string("interpret: ") + op_name(op) + " is no reduction");
    }
  });
}
}  // namespace

void reduce(const Evaluation& e) {
  const Layout whole = layout_of(e.in(0));
  Layout kept, inner;
  kept.offset = whole.offset;
  for (int i = 0; i < whole.rank; ++i) {
    Layout& l = e.call().attr >> i & 1 ? inner : kept;
    l.extent[l.rank] = whole.extent[i], l.stride[l.rank++] = whole.stride[i];
  }
  const Dtype type = compute_dtype(e.out.dtype);
  const int64_t results = kept.numel();
  Cursor c(kept);
  for (int64_t i = 0; i < results; ++i, c.next()) {
    const uint64_t w = reduced(e.call().op, {e.in(0), inner, c.offset(), inner.numel()}, type);
    store_words(e.out.data(), e.out.dtype, i, 1, type, &w);
  }
}

void product(const Evaluation& e) {
  const Value &a = e.in(0), &b = e.in(1), &c = e.out;
  Product p{c.dtype, c.extent[c.rank - 2], c.extent[c.rank - 1], a.extent[a.rank - 1],
            a.stride[a.rank - 2], a.stride[a.rank - 1], b.stride[b.rank - 2], b.stride[b.rank - 1],
            c.extent[c.rank - 1], 1};
  const auto batches = [&](const Value& v) {
    Layout l = layout_of(v);
    l.rank -= 2;
    return broadcast(l, c.extent, c.rank - 2);
  };
  const Layout lc = batches(c);
  std::vector<int64_t> offsets[3];
  p.batch = lc.numel();
  const Layout all[] = {batches(a), batches(b), lc};
  for (int k = 0; k < 3; ++k) {
    offsets[k].resize(size_t(p.batch));
    Cursor(all[k]).take(offsets[k].data(), offsets[k].size());
  }
  p.a_offset = offsets[0].data(), p.b_offset = offsets[1].data(), p.c_offset = offsets[2].data();
  product_reference(p, a.storage->data, b.storage->data, c.storage->data);
}

}  // namespace frit::tracer::interpreter
