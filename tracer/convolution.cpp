// The oracle of the convolutions, sum by sum in the order of convolution.h's definitions. Start at convolution_reference.
#include "tracer/convolution.h"
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

namespace frit::tracer {

namespace {
template <class T> using Accumulator = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, std::conditional_t<is_floating(DtypeOf<T>::value), T, uint64_t>>;

// A sum that is given its terms in order.
template <class T> class Sum {
 public:
  using A = Accumulator<T>;
  void take(T x, T y) {
    if constexpr (std::is_same_v<T, bool>) {
      sum_ |= A(x && y);
    } else if constexpr (!std::is_floating_point_v<A>) {
      sum_ += A(x) * A(y);
    } else {
      if (depth_ == 256) end_panel();
      part_ = std::fma(A(x), A(y), part_);
      ++depth_;
    }
  }
  void end_panel() {
    if (depth_ == 0) return;
    sum_ = begun_ ? sum_ + part_ : part_;
    begun_ = true, part_ = 0, depth_ = 0;
  }
  T total() {
    end_panel();
    return T(sum_);
  }

 private:
  A part_ = 0, sum_ = 0;
  int depth_ = 0;
  bool begun_ = false;
};

template <class T> struct Oracle {
  const Convolution& c;
  const Images &a, &b;
  T* out;

  static T at(const Images& v, int64_t n, int64_t channel, int64_t row, int64_t column) {
    return reinterpret_cast<const T*>(v.data)[n * v.stride[0] + channel * v.stride[1] + row * v.stride[2] + column * v.stride[3]];
  }
  T pixel(const Images& v, int64_t n, int64_t channel, int64_t row, int64_t column) const {
    if (row < 0 || row >= c.axis[0].in || column < 0 || column >= c.axis[1].in) return T(0);
    return at(v, n, channel, row, column);
  }
  int64_t seen(int axis, int64_t place, int64_t element) const { return place * c.axis[axis].stride - c.axis[axis].low + element * c.axis[axis].dilation; }

  // Every element of the images that result, in order: terms(sum, image, channel, row, column).
  template <class F> void images(int64_t channels, int64_t rows, int64_t columns, F terms) const {
    T* y = out;
    for (int64_t n = 0; n < c.batch; ++n)
      for (int64_t o = 0; o < channels; ++o)
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j) {
            Sum<T> sum;
            terms(sum, n, o, i, j);
            *y++ = sum.total();
          }
  }
  void forward() const {
    images(c.groups * c.out_channels, c.axis[0].out, c.axis[1].out, [&](Sum<T>& sum, int64_t n, int64_t o, int64_t i, int64_t j) {
      for (int64_t k = 0; k < c.in_channels; ++k)
        for (int64_t r = 0; r < c.axis[0].kernel; ++r)
          for (int64_t s = 0; s < c.axis[1].kernel; ++s)
            sum.take(at(b, o, k, r, s), pixel(a, n, o / c.out_channels * c.in_channels + k, seen(0, i, r), seen(1, j, s)));
    });
  }
  // Of one axis the kernel's elements that lie on q for some place, which may be outside.
  struct Meeting {
    int64_t element, place;
  };
  std::vector<Meeting> meetings(int axis, int64_t q) const {
    std::vector<Meeting> m;
    const Convolution::Axis& x = c.axis[axis];
    for (int64_t k = 0; k < x.kernel; ++k)
      if (const int64_t from = q + x.low - k * x.dilation; from % x.stride == 0) m.push_back({k, from / x.stride});
    return m;
  }
  T gradient(int64_t n, int64_t o, int64_t row, int64_t column) const {
    if (row < 0 || row >= c.axis[0].out || column < 0 || column >= c.axis[1].out) return T(0);
    return at(a, n, o, row, column);
  }
  void input() const {
    images(c.groups * c.in_channels, c.axis[0].in, c.axis[1].in, [&](Sum<T>& sum, int64_t n, int64_t channel, int64_t i, int64_t j) {
      const auto rows = meetings(0, i), columns = meetings(1, j);
      const int64_t first = channel / c.in_channels * c.out_channels;
      for (int64_t o = first; o < first + c.out_channels; ++o)
        for (const Meeting& r : rows)
          for (const Meeting& s : columns) sum.take(at(b, o, channel % c.in_channels, r.element, s.element), gradient(n, o, r.place, s.place));
    });
  }
  void weight() const {
    T* w = out;
    for (int64_t o = 0; o < c.groups * c.out_channels; ++o)
      for (int64_t k = 0; k < c.in_channels; ++k)
        for (int64_t r = 0; r < c.axis[0].kernel; ++r)
          for (int64_t s = 0; s < c.axis[1].kernel; ++s) {
            Sum<T> sum;
            for (int64_t n = 0; n < c.batch; ++n) {
              for (int64_t i = 0; i < c.axis[0].out; ++i)
                for (int64_t j = 0; j < c.axis[1].out; ++j) sum.take(at(a, n, o, i, j), pixel(b, n, o / c.out_channels * c.in_channels + k, seen(0, i, r), seen(1, j, s)));
              sum.end_panel();
            }
            *w++ = sum.total();
          }
  }
};
}  // namespace

void convolution_reference(Op op, const Convolution& c, const Images& a, const Images& b, void* result) {
  dispatch(c.dtype, [&]<class T>(T) {
    const Oracle<T> oracle{c, a, b, static_cast<T*>(result)};
    op == Op::convolution ? oracle.forward() : op == Op::convolution_input ? oracle.input() : oracle.weight();
  });
}

Images images_of(const Value& v) {
  Images i{v.data(), {v.stride[0], v.stride[1], 0, 0}};
  for (int k = v.rank; k-- > 2;) i.stride[k + 4 - v.rank] = v.stride[k];
  return i;
}

Convolution convolution_of(const Trace& t, uint32_t n) {
  const Call& call = t.nodes[n].call;
  const auto arg = [&](int k) { return int64_t(t.args[call.arg + k]); };
  const uint32_t in = call.op == Op::convolution ? call.in[0] : call.op == Op::convolution_input ? n : call.in[1];
  const uint32_t out = call.op == Op::convolution ? n : call.in[0], weight = call.op == Op::convolution_weight ? n : call.in[1];
  const auto extent = [&](uint32_t node, int k) { return t.extent[t.nodes[node].result.size[k]]; };
  Convolution c;
  c.dtype = t.nodes[n].result.dtype;
  c.batch = extent(in, 0), c.groups = arg(0), c.in_channels = extent(weight, 1), c.out_channels = extent(weight, 0) / c.groups;
  const int axes = t.rank_of(n) - 2;
  for (int i = 0; i < axes; ++i) {
    const int k = 1 + 4 * i;
    c.axis[2 - axes + i] = {extent(in, 2 + i), extent(out, 2 + i), extent(weight, 2 + i), arg(k), arg(k + 1), arg(k + 2)};
  }
  return c;
}
Pooling pooling_of(const Trace& t, uint32_t n) {
  const Call& call = t.nodes[n].call;
  const auto arg = [&](int k) { return int64_t(t.args[call.arg + k]); };
  const Result& in = t.nodes[call.in[0]].result;
  Pooling p;
  p.dtype = in.dtype, p.batch = t.extent[in.size[0]], p.channels = t.extent[in.size[1]];
  const int axes = in.rank - 2;
  for (int i = 0; i < axes; ++i) {
    const int k = 5 * i;
    p.axis[2 - axes + i] = {t.extent[in.size[2 + i]], arg(k), arg(k + 1), arg(k + 2), arg(k + 3), arg(k + 4)};
  }
  return p;
}

}  // namespace frit::tracer
