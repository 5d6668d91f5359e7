// Reductions, scans, sorting and products.
#include "oracle.h"

namespace oracle {

namespace {
struct Reduction {
  const char* name;
  std::function<std::vector<Tensor>(const Tensor&)> f;
  bool differentiable = true;
};
std::vector<Tensor> list(const std::tuple<Tensor, Tensor>& t) { return {std::get<0>(t), std::get<1>(t)}; }
#define OP(name, ...) {name, [](const Tensor& a) -> std::vector<Tensor> { return {__VA_ARGS__}; }}
#define FLAT(name, ...) {name, [](const Tensor& a) -> std::vector<Tensor> { return {__VA_ARGS__}; }, false}
#define PAIR(name, ...) {name, [](const Tensor& a) -> std::vector<Tensor> { return list(__VA_ARGS__); }}
const std::vector<Reduction>& table() {
  static const std::vector<Reduction> ops{
      OP("sum", a.sum()), OP("sum 0", a.sum(0)), OP("sum -1 keep", a.sum(-1, true)), OP("sum 0,2", a.sum(torch::IntArrayRef({0, 2}))), OP("mean", a.mean()), OP("mean 1", a.mean(1)),
      OP("mean 0,1 keep", a.mean(torch::IntArrayRef({0, 1}), true)), OP("prod", a.prod()), OP("prod 1", a.prod(1)), OP("amax 1", a.amax(1)), OP("amin 0,2", a.amin({0, 2})), OP("max", a.max()),
      OP("min", a.min()), PAIR("max 1", a.max(1)), PAIR("min 0 keep", a.min(0, true)), FLAT("argmax", a.argmax()), FLAT("argmax 1", a.argmax(1)), FLAT("argmin 2 keep", a.argmin(2, true)),
      FLAT("any", a.any()), FLAT("any 1", a.any(1)), FLAT("all", a.all()), FLAT("all 0", a.all(0)), OP("var", a.var()), OP("var 1", a.var(1)), OP("var biased", a.var(false)),
      OP("std 0,2", a.std(torch::IntArrayRef({0, 2}), true)), OP("std", a.std()), OP("norm", a.norm()), OP("norm 1 over 1", a.norm(1, 1)), OP("norm 3 over 0", a.norm(3, 0)), OP("logsumexp 1", a.logsumexp(1)),
      OP("logsumexp 0,2", a.logsumexp(torch::IntArrayRef({0, 2}))), OP("softmax 1", a.softmax(1)), OP("softmax -1", a.softmax(-1)), OP("log_softmax 0", a.log_softmax(0)), OP("nansum", a.nansum()),
      OP("nansum 1", a.nansum(1)), FLAT("count_nonzero", a.count_nonzero()), FLAT("count_nonzero 1", a.count_nonzero(torch::IntArrayRef({1}))), OP("cumsum 1", a.cumsum(1)), OP("cumprod 2", a.cumprod(2)),
      PAIR("sort", a.sort(torch::optional<bool>(true), -1, false)), PAIR("sort descending", a.sort(torch::optional<bool>(true), 1, true)), FLAT("argsort", a.argsort(torch::optional<bool>(true).value(), 1, false)),
      PAIR("kthvalue", a.kthvalue(2, 1)), OP("topk values", std::get<0>(a.topk(2, 1))), OP("topk smallest", std::get<0>(a.topk(3, 2, false))), OP("median", a.median()),
      OP("median 1", std::get<0>(a.median(1))), FLAT("sum float64", a.sum(torch::kFloat64)), FLAT("mean float32", a.mean(torch::kFloat32)), FLAT("softmax float64", a.softmax(1, torch::kFloat64)),
      FLAT("prod float32", a.prod(torch::kFloat32)), FLAT("equal", torch::tensor(int64_t(a.equal(a.clone())))), FLAT("nonzero", a.nonzero()), FLAT("unique", std::get<0>(torch::_unique2(a))),
      OP("trace", a[0].trace()), OP("dist", a.dist(a * 0.5, 2)),
  };
  return ops;
}

struct Product {
  const char* name;
  std::vector<int64_t> left, right;
  Tensor (*f)(const Tensor&, const Tensor&);
};
#define PRODUCT(name, left, right, ...) {name, left, right, [](const Tensor& a, const Tensor& b) -> Tensor { return __VA_ARGS__; }}
#define SHAPE(...) {__VA_ARGS__}
const std::vector<Product>& products() {
  static const std::vector<Product> ops{
      PRODUCT("matmul 2 2", SHAPE(3, 5), SHAPE(5, 4), torch::matmul(a, b)), PRODUCT("matmul 1 1", SHAPE(5), SHAPE(5), torch::matmul(a, b)),
      PRODUCT("matmul 2 1", SHAPE(3, 5), SHAPE(5), torch::matmul(a, b)), PRODUCT("matmul 1 2", SHAPE(5), SHAPE(5, 4), torch::matmul(a, b)),
      PRODUCT("matmul 3 3", SHAPE(2, 3, 5), SHAPE(2, 5, 4), torch::matmul(a, b)), PRODUCT("matmul broadcast", SHAPE(2, 1, 3, 5), SHAPE(3, 5, 2), torch::matmul(a, b)),
      PRODUCT("matmul 3 1", SHAPE(2, 3, 5), SHAPE(5), torch::matmul(a, b)), PRODUCT("matmul mismatch", SHAPE(3, 5), SHAPE(4, 5), torch::matmul(a, b)),
      PRODUCT("matmul inner 0", SHAPE(3, 0), SHAPE(0, 4), torch::matmul(a, b)), PRODUCT("mm", SHAPE(3, 5), SHAPE(5, 4), torch::mm(a, b)),
      PRODUCT("mm rank", SHAPE(2, 3, 5), SHAPE(5, 4), torch::mm(a, b)), PRODUCT("bmm", SHAPE(2, 3, 5), SHAPE(2, 5, 4), torch::bmm(a, b)),
      PRODUCT("mv", SHAPE(3, 5), SHAPE(5), torch::mv(a, b)), PRODUCT("dot", SHAPE(5), SHAPE(5), torch::dot(a, b)), PRODUCT("dot mismatch", SHAPE(5), SHAPE(4), torch::dot(a, b)),
      PRODUCT("outer", SHAPE(3), SHAPE(4), torch::outer(a, b)), PRODUCT("inner", SHAPE(3, 5), SHAPE(2, 5), torch::inner(a, b)),
      PRODUCT("addmm", SHAPE(3, 5), SHAPE(5, 4), torch::addmm(torch::ones({4}, a.options()), a, b, 2, 3)),
      PRODUCT("baddbmm", SHAPE(2, 3, 5), SHAPE(2, 5, 4), torch::baddbmm(torch::ones({3, 4}, a.options()), a, b)),
      PRODUCT("addmv", SHAPE(3, 5), SHAPE(5), torch::addmv(torch::ones({3}, a.options()), a, b)), PRODUCT("addr", SHAPE(3), SHAPE(4), torch::addr(torch::ones({3, 4}, a.options()), a, b)),
      PRODUCT("einsum ij,jk", SHAPE(3, 5), SHAPE(5, 4), torch::einsum("ij,jk->ki", {a, b})), PRODUCT("einsum batch", SHAPE(2, 3, 5), SHAPE(2, 4, 5), torch::einsum("bij,bkj->bik", {a, b})),
      PRODUCT("einsum ellipsis", SHAPE(2, 3, 5), SHAPE(5, 4), torch::einsum("...j,jk->...k", {a, b})), PRODUCT("einsum diagonal", SHAPE(4, 4), SHAPE(4), torch::einsum("ii,i->i", {a, b})),
      PRODUCT("einsum implicit", SHAPE(3, 5), SHAPE(5), torch::einsum("ij,j", {a, b})), PRODUCT("einsum sum", SHAPE(3, 5), SHAPE(3, 5), torch::einsum("ij,ij->", {a, b})),
      PRODUCT("multi_dot", SHAPE(3, 5), SHAPE(5, 4), torch::linalg::multi_dot({a, b, b.t()})),
  };
  return ops;
}
}  // namespace

void reductions() {
  for (const Reduction& op : table()) {
    for (const auto& [type_name, type] : types())
      for (const Layout layout : layouts) {
        const std::string name = std::string(op.name) + " " + type_name + " " + layout_name(layout);
        Numbers n(name);
        const Tensor a = make(n, {2, 3, 4}, type, -2, 2, layout);
        record(name, [&] { return op.f(a); });
      }
    Numbers n(op.name);
    const Tensor empty = make(n, {0, 3, 4}, torch::kFloat32, 0, 1), none = make(n, {2, 0, 4}, torch::kFloat32, 0, 1);
    record(std::string(op.name) + " empty 0", [&] { return op.f(empty); });
    record(std::string(op.name) + " empty 1", [&] { return op.f(none); });
    std::vector<double> odd(24, 0.5);
    odd[3] = std::nan(""), odd[7] = INFINITY, odd[13] = -INFINITY;
    record(std::string(op.name) + " special", [&] { return op.f(from_values(odd, {2, 3, 4}, torch::kFloat64)); });
    if (op.differentiable) record_gradients(op.name, [&](const std::vector<Tensor>& in) { return op.f(in[0])[0]; }, {make(n, {2, 3, 4}, torch::kFloat64, -2, 2)});
  }
  for (const Product& op : products()) {
    for (const auto& [type_name, type] : types())
      for (const Layout layout : {Layout::contiguous, Layout::transposed, Layout::strided, Layout::expanded}) {
        const std::string name = std::string(op.name) + " " + type_name + " " + layout_name(layout);
        Numbers n(name);
        const Tensor a = make(n, op.left, type, -3, 3, layout), b = make(n, op.right, type, -3, 3, layout);
        record(name, [&] { return op.f(a, b); });
      }
    Numbers n(op.name);
    record_gradients(op.name, [&](const std::vector<Tensor>& in) { return op.f(in[0], in[1]); },
                     {make(n, op.left, torch::kFloat64, -2, 2), make(n, op.right, torch::kFloat64, -2, 2)});
  }
}

}  // namespace oracle
