// Views, copies, indexing and creation. What a call with wrong arguments throws is compared too (that it throws).
#include "oracle.h"

namespace oracle {

using torch::indexing::Ellipsis;
using torch::indexing::None;
using torch::indexing::Slice;

namespace {
struct Case {
  const char* name;
  std::function<std::vector<Tensor>(const Tensor&)> f;  // of a [2, 3, 4]
};
Tensor indices(std::vector<double> v) {
  const int64_t n = int64_t(v.size());
  return from_values(v, {n}, torch::kInt64);
}
#define CASE(name, ...) {name, [](const Tensor& a) -> std::vector<Tensor> { return {__VA_ARGS__}; }}
#define LIST(name, ...) {name, [](const Tensor& a) -> std::vector<Tensor> { return __VA_ARGS__; }}
const std::vector<Case>& views() {
  static const std::vector<Case> all{
      CASE("view", a.contiguous().view({4, 6})), CASE("view -1", a.contiguous().view({-1, 2})), CASE("view wrong", a.view({5, 5})), CASE("reshape", a.reshape({3, -1})), CASE("reshape wrong", a.reshape({-1, 7})),
      CASE("transpose", a.transpose(0, 2)), CASE("transpose -1", a.transpose(-1, 1)), CASE("transpose wrong", a.transpose(0, 3)), CASE("permute", a.permute({2, 0, 1})), CASE("permute wrong", a.permute({0, 0, 1})),
      CASE("t", a[0].t()), CASE("t wrong", a.t()), CASE("mT", a.mT()), CASE("squeeze", a.unsqueeze(0).unsqueeze(-1).squeeze()), CASE("squeeze 1", a.narrow(1, 0, 1).squeeze(1)), CASE("squeeze other", a.squeeze(0)),
      CASE("unsqueeze", a.unsqueeze(-1)), CASE("unsqueeze wrong", a.unsqueeze(4)), CASE("expand", a.narrow(1, 0, 1).expand({2, 5, 4})), CASE("expand -1", a.narrow(0, 0, 1).expand({3, -1, -1})),
      CASE("expand more", a.expand({2, 2, 3, 4})), CASE("expand wrong", a.expand({3, 3, 4})), CASE("narrow", a.narrow(2, 1, 2)), CASE("narrow negative", a.narrow(2, -2, 2)), CASE("narrow wrong", a.narrow(2, 3, 2)),
      CASE("select", a.select(1, -1)), CASE("select wrong", a.select(1, 3)), CASE("slice", a.slice(1, 1, 3)), CASE("slice beyond", a.slice(1, -10, 10, 2)), CASE("slice empty", a.slice(2, 3, 1)),
      CASE("unfold", a.unfold(2, 2, 1)), CASE("unfold wrong", a.unfold(2, 5, 1)), CASE("flatten", a.flatten()), CASE("flatten 1", a.flatten(1)), CASE("flatten wrong", a.flatten(2, 1)),
      CASE("unflatten", a.unflatten(2, {2, 2})), LIST("chunk", a.chunk(2, 2)), LIST("chunk uneven", a.chunk(2, 1)), LIST("chunk many", a.chunk(7, 1)), LIST("split", a.split(3, 2)),
      LIST("split sizes", a.split({1, 3}, 2)), LIST("split wrong", a.split({1, 2}, 2)), LIST("unbind", a.unbind(1)), LIST("tensor_split", a.tensor_split(3, 2)), CASE("diagonal", a.diagonal(0, 1, 2)),
      CASE("diagonal 1", a.diagonal(1, 0, 2)), CASE("diagonal -2", a.diagonal(-2, 1, 2)), CASE("movedim", a.movedim(0, 2)), CASE("movedims", torch::movedim(a, {0, 2}, {1, 0})), CASE("as_strided", a.contiguous().as_strided({2, 2}, {3, 2}, 1)),
      CASE("diag", a[0][0].diag()), CASE("diag 1", a[0].diag(1)), CASE("diag_embed", a[0].diag_embed()), CASE("swapaxes", a.swapaxes(0, 1)), CASE("ravel", a.ravel()),
  };
  return all;
}
const std::vector<Case>& copies() {
  static const std::vector<Case> all{
      CASE("contiguous", a.transpose(0, 2).contiguous()), CASE("clone", a.clone()), CASE("cat", torch::cat({a, a.narrow(1, 0, 1)}, 1)), CASE("cat -1", torch::cat({a, a}, -1)), CASE("cat wrong", torch::cat({a, a[0]}, 0)),
      CASE("cat with empty", torch::cat({a, torch::empty({0}, a.options())}, 0)), CASE("stack", torch::stack({a, a}, 1)), CASE("stack wrong", torch::stack({a, a[0]}, 0)), CASE("hstack", torch::hstack({a, a})),
      CASE("vstack", torch::vstack({a[0], a[1]})), CASE("tile", a.tile({2, 1})), CASE("repeat", a.repeat({1, 2, 1, 2})), CASE("repeat wrong", a.repeat({2, 2})), CASE("repeat_interleave", a.repeat_interleave(2, 1)),
      CASE("repeat_interleave counts", a.repeat_interleave(indices({1, 0, 2}), 1)), CASE("flip", a.flip({0, -1})), CASE("roll flat", a.roll({5})), CASE("roll", a.roll({1, -1}, {0, 2})),
      CASE("index_select", a.index_select(1, indices({2, 0, 2}))), CASE("index_select wrong", a.index_select(1, indices({3}))), CASE("gather", a.gather(2, indices({3, 1, 0, 2, 1, 1}).view({2, 3, 1}))),
      CASE("gather wrong", a.gather(2, indices({4}).view({1, 1, 1}))), CASE("scatter", a.scatter(1, indices({1, 0}).view({2, 1, 1}), a.narrow(1, 2, 1))), CASE("scatter value", a.scatter(2, indices({0, 3}).view({2, 1, 1}), 1)),
      CASE("scatter_add", a.scatter_add(2, indices({0, 0, 1, 3, 1, 1}).view({1, 3, 2}), a)), CASE("index_add", a.index_add(1, indices({0, 0}), a.narrow(1, 1, 2))),
      CASE("index_fill", a.index_fill(1, indices({2}), 1)), CASE("index_copy", a.index_copy(1, indices({2, 0}), a.narrow(1, 0, 2))), CASE("masked_fill", a.masked_fill(a > 0, 1)), CASE("masked_select", a.masked_select(a > 0)),
      CASE("masked_scatter", a.masked_scatter(a > 0, a.flip({0, 1, 2}))), CASE("take", a.take(indices({0, 23, -1, 5}))), CASE("take wrong", a.take(indices({24}))), CASE("take_along_dim", a.take_along_dim(a.argsort(1, false), 1)),
      CASE("tril", a.tril()), CASE("tril -1", a.tril(-1)), CASE("triu 1", a.triu(1)), CASE("fill_", a.clone().fill_(1)), CASE("zero_", a.clone().zero_()), CASE("copy_ broadcast", a.clone().copy_(a[0][0])),
      CASE("copy_ wrong", a.clone().copy_(a.narrow(2, 0, 3))), CASE("add_ expanded wrong", a[0][0].expand({2, 4}).add_(1)), CASE("one_hot", torch::one_hot(a.to(torch::kInt64).abs(), 5)), CASE("bincount-like", torch::zeros({5}, a.options()).index_add(0, indices({0, 3, 3, 1}), a[0][0])),
      CASE("zeros_like", torch::zeros_like(a)), CASE("ones_like", torch::ones_like(a)), CASE("full_like", torch::full_like(a, 1)), CASE("new_full", a.new_full({2}, 1)), CASE("broadcast_to", a.broadcast_to({2, 2, 3, 4})),
  };
  return all;
}
const std::vector<Case>& indexing() {
  static const std::vector<Case> all{
      CASE("[1]", a[1]), CASE("[-1]", a.index({-1})), CASE("[2] wrong", a.index({2})), CASE("[1:, ::2]", a.index({Slice(1, None), Slice(None, None, 2)})), CASE("[..., 0]", a.index({Ellipsis, 0})),
      CASE("[None, :, 1]", a.index({None, Slice(), 1})), CASE("[..., None]", a.index({Ellipsis, None})), CASE("[tensor]", a.index({indices({1, 0, 1})})), CASE("[:, tensor]", a.index({Slice(), indices({2, -1})})),
      CASE("[tensor, :, tensor]", a.index({indices({1, 0}), Slice(), indices({3, 2})})), CASE("[:, tensor, tensor]", a.index({Slice(), indices({1, 0}), indices({3, 2})})),
      CASE("[tensor broadcast]", a.index({indices({0, 1}).unsqueeze(1), indices({2, 0, 1})})), CASE("[tensor] wrong", a.index({indices({2})})), CASE("[mask]", a.index({a > 0})), CASE("[mask of two axes]", a.index({a.sum(2) > 0})),
      CASE("[mask] wrong", a.index({a.sum(0) > 0})), CASE("[:, mask]", a.index({Slice(), a[0].sum(1) > 0})), CASE("[1, tensor]", a.index({1, indices({0, 2})})), CASE("[0, :, tensor]", a.index({0, Slice(), indices({1, 1})})),
      CASE("[true]", a.index({true})), CASE("[0, 1, 2, 3] wrong", a.index({0, 1, 2, 3})),
      CASE("put number", a.clone().index_put_({0, Slice(None, 2)}, 1)), CASE("put mask", a.clone().index_put_({a > 0}, 1)), CASE("put tensor", a.clone().index_put_({Slice(), indices({2, 0})}, a.narrow(1, 0, 2))),
      CASE("put broadcast", a.clone().index_put_({indices({1, 0}), Slice(), indices({3, 2})}, a[0][0].narrow(0, 0, 3))), CASE("put wrong", a.clone().index_put_({0}, a.narrow(2, 0, 3)[0])),
  };
  return all;
}
void creation() {
  const auto create = [](const char* name, auto f) { record(std::string("create ") + name, f); };
  create("arange", [] { return torch::arange(5); });
  create("arange double", [] { return torch::arange(4.5); });
  create("arange 2 9 3", [] { return torch::arange(2, 9, 3); });
  create("arange 1 2 0.3", [] { return torch::arange(1, 2, 0.3); });
  create("arange down", [] { return torch::arange(5, 1, -2); });
  create("arange wrong", [] { return torch::arange(1, 5, -1); });
  create("arange int32", [] { return torch::arange(4, torch::kInt32); });
  create("linspace", [] { return torch::linspace(-1, 2, 7); });
  create("linspace 1", [] { return torch::linspace(3, 5, 1); });
  create("linspace wrong", [] { return torch::linspace(0, 1, -1); });
  create("eye", [] { return torch::eye(3); });
  create("eye 2 3", [] { return torch::eye(2, 3, torch::kInt64); });
  create("full int", [] { return torch::full({2}, 3); });
  create("full double", [] { return torch::full({2}, 3.5); });
  create("full bool", [] { return torch::full({2}, true); });
  create("zeros negative", [] { return torch::zeros({2, -1}); });
  create("tensor ints", [] { return torch::tensor({1, 2, 3}); });
  create("tensor doubles", [] { return torch::tensor({1.5, 2.0}); });
  create("tensor bool", [] { return torch::tensor({true, false}); });
  create("tensor nested", [] { return torch::tensor({{1, 2}, {3, 4}}); });
  create("tensor number", [] { return torch::tensor(2.5); });
  create("tril_indices", [] { return torch::tril_indices(3, 4, 1); });
  create("triu_indices", [] { return torch::triu_indices(3, 3); });
  create("one_hot", [] { return torch::one_hot(torch::tensor({0, 2, 1})); });
  create("one_hot wrong", [] { return torch::one_hot(torch::tensor({0, 2, 1}), 2); });
  create("meshgrid", [] { return torch::meshgrid({torch::arange(2), torch::arange(3)}, "ij"); });
  create("scalar_tensor", [] { return torch::scalar_tensor(4, torch::kFloat64); });
  create("where numbers", [] { return torch::where(torch::tensor({true, false}), 1.5, 2.5); });
  create("allclose", [] { return torch::allclose(torch::ones({2}), torch::ones({2}) + 1e-7); });
  create("isclose", [] { return torch::isclose(torch::ones({2}), torch::tensor({1.0f, 1.1f})); });
}
}  // namespace

void shapes() {
  for (const auto* table : {&views(), &copies(), &indexing()})
    for (const Case& c : *table) {
      for (const auto& [type_name, type] : types())
        for (const Layout layout : layouts) {
          const std::string name = std::string(c.name) + " " + type_name + " " + layout_name(layout);
          Numbers n(name);
          const Tensor a = make(n, {2, 3, 4}, type, -2, 2, layout);
          record(name, [&] { return c.f(a); });
        }
      if (std::string(c.name).find("wrong") != std::string::npos || std::string(c.name) == "one_hot") continue;
      Numbers n(c.name);
      record_gradients(c.name, [&](const std::vector<Tensor>& in) { return c.f(in[0])[0]; }, {make(n, {2, 3, 4}, torch::kFloat64, -2, 2)});
    }
  creation();
}

}  // namespace oracle
