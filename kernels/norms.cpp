// The norms as block programs: see norms.h.
#include "kernels/norms.h"
#include "kernels/rows.h"

namespace frit::kernels {

namespace {
// 1 / sqrt(mean(c²) + epsilon)
Value scale_of(RowBuilder& b, Value c, Value epsilon) { return b.call(tracer::Op::rsqrt, b.add(b.mean(b.square(c)), epsilon)); }

Program norm(const char* name, Dtype storage, bool centred) {
  RowBuilder b(name, storage);
  const Value result = b.out(), in = b.in(), weight = b.in(), bias = centred ? b.in() : Value(), epsilon = b.number(b.type);
  b.start();
  const Value x = b.load(in, b.at), c = centred ? b.sub(x, b.mean(x)) : x;
  const Value y = b.mul(b.mul(c, scale_of(b, c, epsilon)), b.load(weight, b.lane));
  b.store(result, b.at, centred ? b.add(y, b.load(bias, b.lane)) : y);
  return b.finish();
}
Program norm_gradient(const char* name, Dtype storage, bool centred) {
  RowBuilder b(name, storage);
  const Value result = b.out(), in = b.in(), weight = b.in(), gradient = b.in(), epsilon = b.number(b.type);
  b.start();
  const Value x = b.load(in, b.at), c = centred ? b.sub(x, b.mean(x)) : x, r = scale_of(b, c, epsilon), n = b.mul(c, r);
  const Value h = b.mul(b.load(gradient, b.at), b.load(weight, b.lane)), along = b.mul(n, b.mean(b.mul(h, n)));
  b.store(result, b.at, b.mul(r, b.sub(centred ? b.sub(h, b.mean(h)) : h, along)));
  return b.finish();
}
}  // namespace

Program layer_norm(Dtype storage) { return norm("layer_norm", storage, true); }
Program layer_norm_gradient(Dtype storage) { return norm_gradient("layer_norm_gradient", storage, true); }
Program rms_norm(Dtype storage) { return norm("rms_norm", storage, false); }
Program rms_norm_gradient(Dtype storage) { return norm_gradient("rms_norm_gradient", storage, false); }

Program norm_parameter_gradients(Dtype storage) {
  RowBuilder b("norm_parameter_gradients", storage);
  const Value of_weight = b.out(), of_bias = b.out(), in = b.in(), gradient = b.in(), means = b.pointer(b.type), scales = b.pointer(b.type);
  const Value columns = b.integer(), rows = b.integer();
  const int row = b.axis(AxisKind::block, rows), column = b.axis(AxisKind::block, columns);
  const Value i = b.index(row), j = b.index(column), at = b.add(b.mul(i, columns), j);
  const Value g = b.load(gradient, at), n = b.mul(b.sub(b.load(in, at), b.load(means, i)), b.load(scales, i));
  b.store(of_weight, j, b.reduce(Reduce::sum, b.mul(g, n), row));
  b.store(of_bias, j, b.reduce(Reduce::sum, g, row));
  return b.finish();
}

}  // namespace frit::kernels
