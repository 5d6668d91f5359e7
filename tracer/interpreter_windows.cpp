// The interpreter's convolutions and pooling.
#include "tracer/convolution.h"
#include "tracer/interpreter_detail.h"

namespace frit::tracer::interpreter {

void convolution(const Evaluation& e) {
  convolution_reference(e.call().op, convolution_of(e.t, e.n), images_of(e.in(0)), images_of(e.in(1)), e.out.data());
}

void pool(const Evaluation& e) {
  const Pooling p = pooling_of(e.t, e.n);
  const Images in = images_of(e.in(0));
  const Pooling::Axis &rows = p.axis[0], &columns = p.axis[1];
  const bool places = e.call().op == Op::pool_argmax;
  dispatch(p.dtype, [&]<class T>(T) {
    int64_t* place = reinterpret_cast<int64_t*>(e.out.data());
    T* value = reinterpret_cast<T*>(e.out.data());
    for (int64_t plane = 0; plane < p.batch * p.channels; ++plane) {
      const T* const x = reinterpret_cast<const T*>(in.data) + plane / p.channels * in.stride[0] + plane % p.channels * in.stride[1];
      for (int64_t i = 0; i < rows.out; ++i)
        for (int64_t j = 0; j < columns.out; ++j) {
          int64_t best = -1;
          T most = lowest_value<T>();
          for (int64_t r = 0; r < rows.kernel; ++r)
            for (int64_t s = 0; s < columns.kernel; ++s) {
              const int64_t row = i * rows.stride - rows.low + r * rows.dilation, column = j * columns.stride - columns.low + s * columns.dilation;
              if (row < 0 || row >= rows.in || column < 0 || column >= columns.in) continue;
              const T element = x[row * in.stride[2] + column * in.stride[3]];
              const auto v = ComputeType<T>(element), m = ComputeType<T>(most);
              if (best < 0 || (m == m && (v > m || v != v))) best = row * columns.in + column, most = element;
            }
          if (places) *place++ = best;
          else *value++ = most;
        }
    }
  });
}

}  // namespace frit::tracer::interpreter
