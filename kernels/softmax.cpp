// Softmax and its kin as block programs: see softmax.h.
#include "kernels/softmax.h"
#include "kernels/rows.h"

namespace frit::kernels {

namespace {
struct Centred {
  Value x, total;  // x - max(x); the sum of its exponentials
};
Centred centred(RowBuilder& b, Value x) {
  const Value c = b.sub(x, b.greatest(x));
  return {c, b.sum(b.exp(c))};
}
Value is(RowBuilder& b, Value x, Value y) { return b.apply(Prim::eq, Dtype::Bool, {x, y}); }
}  // namespace

Program softmax(Dtype storage) {
  RowBuilder b("softmax", storage);
  const Value result = b.out(), in = b.in();
  b.start();
  const Centred c = centred(b, b.load(in, b.at));
  b.store(result, b.at, b.div(b.exp(c.x), c.total));
  return b.finish();
}
Program softmax_gradient(Dtype storage) {
  RowBuilder b("softmax_gradient", storage);
  const Value result = b.out(), probabilities = b.in(), gradient = b.in();
  b.start();
  const Value y = b.load(probabilities, b.at), g = b.load(gradient, b.at);
  b.store(result, b.at, b.mul(y, b.sub(g, b.sum(b.mul(y, g)))));
  return b.finish();
}

Program log_softmax(Dtype storage) {
  RowBuilder b("log_softmax", storage);
  const Value result = b.out(), in = b.in();
  b.start();
  const Centred c = centred(b, b.load(in, b.at));
  b.store(result, b.at, b.sub(c.x, b.log(c.total)));
  return b.finish();
}
Program log_softmax_gradient(Dtype storage) {
  RowBuilder b("log_softmax_gradient", storage);
  const Value result = b.out(), logarithms = b.in(), gradient = b.in();
  b.start();
  const Value y = b.load(logarithms, b.at), g = b.load(gradient, b.at);
  b.store(result, b.at, b.sub(g, b.mul(b.exp(y), b.sum(g))));
  return b.finish();
}

Program logsumexp(Dtype storage) {
  RowBuilder b("logsumexp", storage);
  const Value result = b.out(), in = b.in();
  b.start();
  const Value x = b.load(in, b.at), top = b.greatest(x);
  const Value safe = b.pick(b.call(tracer::Op::isfinite, top), top, b.constant(0, b.type));
  b.store(result, b.row, b.add(b.log(b.sum(b.exp(b.sub(x, safe)))), safe));
  return b.finish();
}
Program logsumexp_gradient(Dtype storage) {
  RowBuilder b("logsumexp_gradient", storage);
  const Value result = b.out(), in = b.in(), sums = b.in(), gradient = b.in();
  b.start();
  const Value share = b.exp(b.sub(b.load(in, b.at), b.load(sums, b.row)));
  b.store(result, b.at, b.mul(b.load(gradient, b.row), share));
  return b.finish();
}

Program cross_entropy(Dtype storage) {
  RowBuilder b("cross_entropy", storage);
  const Value result = b.out(), in = b.in(), targets = b.pointer(Dtype::Int64), ignored = b.integer();
  b.start();
  const Value target = b.load(targets, b.row), counts = b.apply(Prim::ne, Dtype::Bool, {target, ignored});
  const Value x = b.load(in, b.at), top = b.greatest(x), total = b.sum(b.exp(b.sub(x, top)));
  const Value picked = b.load(in, b.add(b.mul(b.row, b.columns), target), counts);
  const Value loss = b.neg(b.sub(b.sub(picked, top), b.log(total)));
  b.store(result, b.row, b.pick(counts, loss, b.constant(0, b.type)));
  return b.finish();
}
Program cross_entropy_gradient(Dtype storage) {
  RowBuilder b("cross_entropy_gradient", storage);
  const Value result = b.out(), in = b.in(), targets = b.pointer(Dtype::Int64), gradient = b.in(), ignored = b.integer();
  b.start();
  const Value target = b.load(targets, b.row), zero = b.constant(0, b.type);
  const Value g = b.pick(b.apply(Prim::ne, Dtype::Bool, {target, ignored}), b.load(gradient, b.row), zero);
  const Centred c = centred(b, b.load(in, b.at));
  const Value share = b.div(b.exp(c.x), c.total), wanted = b.pick(is(b, b.lane, target), b.constant(1, b.type), zero);
  b.store(result, b.at, b.mul(g, b.sub(share, wanted)));
  return b.finish();
}

}  // namespace frit::kernels
