// Matrix products and what is made of them.
#include "frontend/detail.h"
#include "runtime/error.h"

namespace frit {

using namespace detail;

namespace {
void need_axes(const char* op, const Tensor& a, int64_t rank_a, const Tensor& b, int64_t rank_b) {
  if (a.dim() != rank_a || b.dim() != rank_b)
    throw ShapeError(std::string(op) + ": the operands have shapes " + shape_text(a.sizes()) + " and " + shape_text(b.sizes()) + "; " + std::to_string(rank_a) + " and " +
                     std::to_string(rank_b) + " axes are needed. Use matmul, or reshape.");
}
}  // namespace
Tensor Tensor::matmul(const Tensor& o) const {
  const UserCall call("matmul", {this, &o});
  cell_of(*this, "matmul"), cell_of(o, "matmul");
  if (dim() == 0 || o.dim() == 0) throw ShapeError("matmul: the operands have shapes " + shape_text(sizes()) + " and " + shape_text(o.sizes()) + "; both need an axis. Use mul for numbers.");
  if (dim() >= 2 && o.dim() >= 2) {
    // One matrix for all batches: the batch axes join the rows, one large product instead of many small ones. The bits are the same.
    if (dim() > 2 && o.dim() == 2 && is_contiguous() && numel() > 0) {
      Sizes e = sizes().vec();
      const Tensor flat = reshape({-1, e.back()});
      if (flat.sizes()[0] != 1) {
        e.back() = o.sizes()[1];
        return Tensor(tracer::matmul(flat, o)).reshape(e);
      }
    }
    return tracer::matmul(*this, o);
  }
  if (dim() == 1 && o.dim() == 1) return dot(o);
  if (dim() == 1) return Tensor(tracer::matmul(unsqueeze(0), o)).squeeze(-2);
  return Tensor(tracer::matmul(*this, o.unsqueeze(-1))).squeeze(-1);
}
Tensor Tensor::mm(const Tensor& o) const {
  const UserCall call("mm", {this, &o});
  need_axes("mm", *this, 2, o, 2);
  return tracer::matmul(*this, o);
}
Tensor Tensor::bmm(const Tensor& o) const {
  const UserCall call("bmm", {this, &o});
  need_axes("bmm", *this, 3, o, 3);
  if (sizes()[0] != o.sizes()[0]) throw ShapeError("bmm: the batches of " + shape_text(sizes()) + " and " + shape_text(o.sizes()) + " differ. Use matmul to broadcast.");
  return tracer::matmul(*this, o);
}
Tensor Tensor::mv(const Tensor& o) const {
  const UserCall call("mv", {this, &o});
  need_axes("mv", *this, 2, o, 1);
  return Tensor(tracer::matmul(*this, o.unsqueeze(1))).squeeze(1);
}
Tensor Tensor::dot(const Tensor& o) const {
  const UserCall call("dot", {this, &o});
  need_axes("dot", *this, 1, o, 1);
  return Tensor(tracer::matmul(unsqueeze(0), o.unsqueeze(1))).reshape({});
}
Tensor Tensor::outer(const Tensor& o) const {
  const UserCall call("outer", {this, &o});
  need_axes("outer", *this, 1, o, 1);
  return unsqueeze(1).mul(o);
}
namespace {
// beta * t + alpha * product. A beta of 0 means that t is not read, NaN or not.
Tensor accumulated(const Tensor& t, const Tensor& product, const Scalar& beta, const Scalar& alpha) {
  const auto times = [](const Tensor& x, const Scalar& s) { return s.to_double() == 1 ? x : x.mul(s); };
  const Tensor p = times(product, alpha);
  return beta.to_double() == 0 ? p : p.add(times(t, beta));
}
}  // namespace
Tensor Tensor::inner(const Tensor& o) const {
  const UserCall call("inner", {this, &o});
  if (dim() == 0 || o.dim() == 0) return mul(o);
  if (sizes().back() != o.sizes().back())
    throw ShapeError("inner: the last axes of " + shape_text(sizes()) + " and " + shape_text(o.sizes()) + " differ. They must be equal.");
  Sizes e(sizes().begin(), sizes().end() - 1);
  e.insert(e.end(), o.sizes().begin(), o.sizes().end() - 1);
  const auto rows = [&](const Tensor& t) { return t.dim() == 1 ? t.unsqueeze(0) : t.flatten(0, t.dim() - 2); };
  return rows(*this).matmul(rows(o).mT()).reshape(e);
}
Tensor Tensor::addmm(const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) const {
  const UserCall call("addmm", {this, &a, &b});
  return accumulated(*this, a.mm(b), beta, alpha);
}
Tensor Tensor::baddbmm(const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) const {
  const UserCall call("baddbmm", {this, &a, &b});
  return accumulated(*this, a.bmm(b), beta, alpha);
}
Tensor Tensor::addmv(const Tensor& m, const Tensor& v, const Scalar& beta, const Scalar& alpha) const {
  const UserCall call("addmv", {this, &m, &v});
  return accumulated(*this, m.mv(v), beta, alpha);
}
Tensor Tensor::addr(const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) const {
  const UserCall call("addr", {this, &a, &b});
  return accumulated(*this, a.outer(b), beta, alpha);
}
Tensor Tensor::addbmm(const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) const {
  const UserCall call("addbmm", {this, &a, &b});
  return accumulated(*this, a.bmm(b).sum(0), beta, alpha);
}

}  // namespace frit
