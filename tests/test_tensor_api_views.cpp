// The public tensor's shapes: every view with its elements and that writes through it reach the base; joins and copies;
// index() and index_put_() with every kind of index; the ops by index; their errors.
#include "runtime/error.h"
#include "tests/support/tensor_check.h"

using namespace frit;
using namespace frit::testing;
using namespace frit::indexing;
using Catch::Matchers::Contains;

namespace {
// The view of arange over `shape` has these elements, and what is written through it is seen in the base at those places alone.
void view_case(const char* name, const std::vector<int64_t>& shape, Tensor (*view)(const Tensor&), const std::vector<int64_t>& want_shape, const std::vector<double>& want) {
  INFO(name);
  for (const jit::Mode mode : {jit::Mode::eager, jit::Mode::automatic}) {
    jit::ModeGuard guard(mode);
    int64_t n = 1;
    for (int64_t e : shape) n *= e;
    Tensor base = arange(n).reshape(shape).clone();
    Tensor v = view(base);
    CHECK(differs(v, kInt64, want_shape, want, 0) == "");
    CHECK(v.is_alias_of(base));
    v.add_(Scalar(1000));
    const Tensor flat = base.reshape({-1});
    for (int64_t i = 0; i < n; ++i) {
      const bool shown = std::find(want.begin(), want.end(), double(i)) != want.end();
      if (flat[i].item<int64_t>() != i + (shown ? 1000 : 0)) FAIL("element " << i << " of the base is " << flat[i].item<int64_t>());
    }
    base.zero_();
    CHECK(v.eq(0).all().item<bool>());
  }
}
}  // namespace

TEST_CASE("api: views show their base and write to it") {
  using T = const Tensor&;
  view_case("view", {2, 3}, [](T t) { return t.view({3, -1}); }, {3, 2}, {0, 1, 2, 3, 4, 5});
  view_case("view_as", {6}, [](T t) { return t.view_as(zeros({2, 3})); }, {2, 3}, {0, 1, 2, 3, 4, 5});
  view_case("reshape", {2, 3}, [](T t) { return t.reshape({6}); }, {6}, {0, 1, 2, 3, 4, 5});
  view_case("reshape function", {2, 3}, [](T t) { return frit::reshape(t, {3, 2}); }, {3, 2}, {0, 1, 2, 3, 4, 5});
  view_case("reshape_as", {6}, [](T t) { return t.reshape_as(zeros({3, 2})); }, {3, 2}, {0, 1, 2, 3, 4, 5});
  view_case("transpose", {2, 3}, [](T t) { return t.transpose(0, -1); }, {3, 2}, {0, 3, 1, 4, 2, 5});
  view_case("transpose function", {2, 3}, [](T t) { return frit::transpose(t, 0, 1); }, {3, 2}, {0, 3, 1, 4, 2, 5});
  view_case("swapaxes", {2, 3}, [](T t) { return frit::swapdims(t.swapaxes(0, 1).swapdims(0, 1), 0, 1); }, {3, 2}, {0, 3, 1, 4, 2, 5});
  view_case("swapaxes function", {2, 3}, [](T t) { return frit::swapaxes(t, 0, 1); }, {3, 2}, {0, 3, 1, 4, 2, 5});
  view_case("permute", {2, 1, 3}, [](T t) { return frit::permute(t.permute({2, 0, -2}), {0, 1, 2}); }, {3, 2, 1}, {0, 3, 1, 4, 2, 5});
  view_case("t", {2, 3}, [](T t) { return t.t(); }, {3, 2}, {0, 3, 1, 4, 2, 5});
  view_case("t function", {3}, [](T t) { return frit::t(t); }, {3}, {0, 1, 2});
  view_case("T", {1, 2, 2}, [](T t) { return t.T(); }, {2, 2, 1}, {0, 2, 1, 3});
  view_case("mT", {2, 1, 2}, [](T t) { return t.mT(); }, {2, 2, 1}, {0, 1, 2, 3});
  view_case("squeeze", {1, 2, 1}, [](T t) { return t.squeeze(); }, {2}, {0, 1});
  view_case("squeeze of an axis", {1, 2, 1}, [](T t) { return frit::squeeze(t.squeeze(0), 0); }, {2, 1}, {0, 1});
  view_case("squeeze of axes", {1, 2, 1}, [](T t) { return t.squeeze(IntArrayRef({0, 2})); }, {2}, {0, 1});
  view_case("squeeze function", {1, 2}, [](T t) { return frit::squeeze(t); }, {2}, {0, 1});
  view_case("unsqueeze", {2}, [](T t) { return frit::unsqueeze(t.unsqueeze(0), -1); }, {1, 2, 1}, {0, 1});
  view_case("in place forms of views", {1, 2}, [](T t) { Tensor v = t.view({1, 2}); v.squeeze_(0).unsqueeze_(1).transpose_(0, 1).t_(); return v; }, {2, 1}, {0, 1});
  view_case("squeeze_", {1, 2}, [](T t) { Tensor v = t.view({1, 2}); v.squeeze_(); return v; }, {2}, {0, 1});
  view_case("narrow", {2, 4}, [](T t) { return t.narrow(1, 1, 2); }, {2, 2}, {1, 2, 5, 6});
  view_case("narrow function", {4}, [](T t) { return frit::narrow(t, 0, -2, 2); }, {2}, {2, 3});
  view_case("select", {2, 3}, [](T t) { return t.select(1, -1); }, {2}, {2, 5});
  view_case("select function", {2, 3}, [](T t) { return frit::select(t, 0, 1); }, {3}, {3, 4, 5});
  view_case("slice", {7}, [](T t) { return t.slice(0, 1, 6, 2); }, {3}, {1, 3, 5});
  view_case("slice function", {3, 2}, [](T t) { return frit::slice(t, 0, -2); }, {2, 2}, {2, 3, 4, 5});
  view_case("flatten", {2, 2, 2}, [](T t) { return frit::flatten(t.flatten(1), 0, -1); }, {8}, {0, 1, 2, 3, 4, 5, 6, 7});
  view_case("unflatten", {4}, [](T t) { return t.unflatten(0, {2, -1}); }, {2, 2}, {0, 1, 2, 3});
  view_case("unflatten function", {4}, [](T t) { return frit::unflatten(t, 0, {2, 2}); }, {2, 2}, {0, 1, 2, 3});
  view_case("ravel", {2, 2}, [](T t) { return frit::ravel(t.ravel()); }, {4}, {0, 1, 2, 3});
  view_case("movedim", {2, 1, 3}, [](T t) { return t.movedim(0, 2); }, {1, 3, 2}, {0, 3, 1, 4, 2, 5});
  view_case("movedim of axes", {2, 1, 3}, [](T t) { return t.movedim(IntArrayRef({0, 2}), IntArrayRef({2, 0})); }, {3, 1, 2}, {0, 3, 1, 4, 2, 5});
  view_case("movedim functions", {2, 3}, [](T t) { return frit::movedim(frit::movedim(t, 0, 1), IntArrayRef({0}), IntArrayRef({0})); }, {3, 2}, {0, 3, 1, 4, 2, 5});
  view_case("diagonal", {3, 3}, [](T t) { return t.diagonal(1); }, {2}, {1, 5});
  view_case("diagonal below", {3, 4}, [](T t) { return frit::diagonal(t, -1); }, {2}, {4, 9});
  view_case("as_strided", {6}, [](T t) { return t.as_strided({2, 2}, {3, 1}, 1); }, {2, 2}, {1, 2, 4, 5});
  view_case("as_strided function", {6}, [](T t) { return frit::as_strided(t, {3}, {2}); }, {3}, {0, 2, 4});
  view_case("unfold without overlap", {6}, [](T t) { return t.unfold(0, 2, 3); }, {2, 2}, {0, 1, 3, 4});
  view_case("split", {5}, [](T t) { return t.split(2)[1]; }, {2}, {2, 3});
  view_case("split by sizes", {5}, [](T t) { return frit::split(t, IntArrayRef({1, 4}), 0)[1]; }, {4}, {1, 2, 3, 4});
  view_case("split function", {5}, [](T t) { return frit::split(t, 2)[2]; }, {1}, {4});
  view_case("chunk", {5}, [](T t) { return t.chunk(2)[0]; }, {3}, {0, 1, 2});
  view_case("chunk function", {2, 4}, [](T t) { return frit::chunk(t, 2, 1)[1]; }, {2, 2}, {2, 3, 6, 7});
  view_case("unbind", {2, 2}, [](T t) { return t.unbind(1)[1]; }, {2}, {1, 3});
  view_case("unbind function", {2, 2}, [](T t) { return frit::unbind(t)[1]; }, {2}, {2, 3});
  view_case("tensor_split", {5}, [](T t) { return t.tensor_split(3)[0]; }, {2}, {0, 1});
  view_case("tensor_split at indices", {5}, [](T t) { return frit::tensor_split(t, IntArrayRef({1, 3}))[1]; }, {2}, {1, 2});
  view_case("detach", {2}, [](T t) { return frit::detach(t); }, {2}, {0, 1});
  view_case("operator[]", {2, 3}, [](T t) { return t[1]; }, {3}, {3, 4, 5});
  view_case("index with slices", {3, 4}, [](T t) { return t.index({Slice(1, None), Slice(None, None, 2)}); }, {2, 2}, {4, 6, 8, 10});
  view_case("index with a number, None and an ellipsis", {2, 3}, [](T t) { return t.index({1, None, Ellipsis}); }, {1, 3}, {3, 4, 5});
  view_case("index with dots", {2, 3}, [](T t) { return t.index({"...", 0}); }, {2}, {0, 3});
}

TEST_CASE("api: repeated views") {
  const Tensor column = tensor({{1}, {2}});
  IS(column.expand({2, 3}), kInt64, {2, 3}, {1, 1, 1, 2, 2, 2});
  IS(column.expand({2, -1, 2}), kInt64, {2, 2, 2}, {1, 1, 2, 2, 1, 1, 2, 2});
  IS(column.expand_as(zeros({2, 2})), kInt64, {2, 2}, {1, 1, 2, 2});
  IS(column.broadcast_to({2, 2}), kInt64, {2, 2}, {1, 1, 2, 2});
  IS(frit::broadcast_to(column, {2, 1}), kInt64, {2, 1}, {1, 2});
  CHECK(broadcast_tensors({column, arange(3)})[1].sizes() == IntArrayRef({2, 3}));
  IS(arange(4).unfold(0, 3, 1), kInt64, {2, 3}, {0, 1, 2, 1, 2, 3});
  CHECK_THAT(thrown<ValueError>([&] { column.expand({2, 3}).add_(Scalar(1)); }), Contains("add") && Contains("expanded") && Contains("clone()"));
}

TEST_CASE("api: joins, copies and rearrangements") {
  const Tensor a = tensor({{1, 2}, {3, 4}}), line = tensor({1, 2, 3});
  IS(frit::cat({a, a.narrow(0, 0, 1)}), kInt64, {3, 2}, {1, 2, 3, 4, 1, 2});
  IS(frit::concat({a, a}, -1), kInt64, {2, 4}, {1, 2, 1, 2, 3, 4, 3, 4});
  IS(frit::cat({line, tensor({0.5})}), kFloat32, {4}, {1, 2, 3, 0.5});
  IS(frit::cat({empty({0}), a}), kInt64, {2, 2}, {1, 2, 3, 4});
  IS(frit::stack({line, line}, 1), kInt64, {3, 2}, {1, 1, 2, 2, 3, 3});
  IS(hstack({line, line}), kInt64, {6}, {1, 2, 3, 1, 2, 3});
  IS(vstack({line, line}), kInt64, {2, 3}, {1, 2, 3, 1, 2, 3});
  IS(a.repeat({2, 1, 2}), kInt64, {2, 2, 4}, {1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4});
  IS(a.tile({2}), kInt64, {2, 4}, {1, 2, 1, 2, 3, 4, 3, 4});
  IS(frit::tile(line, {2}), kInt64, {6}, {1, 2, 3, 1, 2, 3});
  IS(line.repeat_interleave(2), kInt64, {6}, {1, 1, 2, 2, 3, 3});
  IS(frit::repeat_interleave(a, 2, 1), kInt64, {2, 4}, {1, 1, 2, 2, 3, 3, 4, 4});
  IS(line.repeat_interleave(tensor({2, 0, 1})), kInt64, {3}, {1, 1, 3});
  IS(a.flip({0, 1}), kInt64, {2, 2}, {4, 3, 2, 1});
  IS(frit::flip(a, {1}), kInt64, {2, 2}, {2, 1, 4, 3});
  IS(fliplr(a), kInt64, {2, 2}, {2, 1, 4, 3});
  IS(flipud(a), kInt64, {2, 2}, {3, 4, 1, 2});
  IS(line.roll(1), kInt64, {3}, {3, 1, 2});
  IS(frit::roll(a, {1, -1}, {0, 1}), kInt64, {2, 2}, {4, 3, 2, 1});
  const Tensor square = arange(9).reshape({3, 3});
  IS(square.tril(), kInt64, {3, 3}, {0, 0, 0, 3, 4, 0, 6, 7, 8});
  IS(frit::tril(square, -1), kInt64, {3, 3}, {0, 0, 0, 3, 0, 0, 6, 7, 0});
  IS(frit::triu(square, 1), kInt64, {3, 3}, {0, 1, 2, 0, 0, 5, 0, 0, 0});
  Tensor w = square.clone();
  IS(w.tril_().triu_(), kInt64, {3, 3}, {0, 0, 0, 0, 4, 0, 0, 0, 8});
  IS(frit::diag(square), kInt64, {3}, {0, 4, 8});
  IS(tensor({1, 2}).diag(1), kInt64, {3, 3}, {0, 1, 0, 0, 0, 2, 0, 0, 0});
  IS(tensor({1, 2}).diag_embed(), kInt64, {2, 2}, {1, 0, 0, 2});
  IS(frit::diag_embed(tensor({1, 2})), kInt64, {2, 2}, {1, 0, 0, 2});
  CHECK(!frit::clone(a).is_alias_of(a));
}

TEST_CASE("api: every kind of index") {
  for (const jit::Mode mode : {jit::Mode::eager, jit::Mode::automatic}) {
    jit::ModeGuard guard(mode);
    const Tensor t = arange(24).reshape({2, 3, 4}), rows = tensor({1, 0}), far = tensor({-1, 0}), mask = tensor({true, false, true});
    IS(t.index({1, 2, 3}), kInt64, {}, {23});
    IS(t.index({Ellipsis, -1}), kInt64, {2, 3}, {3, 7, 11, 15, 19, 23});
    IS(t.index({Slice(), 1, Slice(2)}), kInt64, {2, 2}, {4, 5, 16, 17});
    IS(t.index({rows}), kInt64, {2, 3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    IS(t[rows].select(0, 1).select(0, 0), kInt64, {4}, {0, 1, 2, 3});
    IS(t.index({rows, far}), kInt64, {2, 4}, {20, 21, 22, 23, 0, 1, 2, 3});
    IS(t.index({Slice(), far, Slice(0, 1)}), kInt64, {2, 2, 1}, {8, 0, 20, 12});
    IS(t.index({rows, Slice(), far}), kInt64, {2, 3}, {15, 19, 23, 0, 4, 8});
    IS(t.index({rows.unsqueeze(1), far.unsqueeze(0), 0}), kInt64, {2, 2}, {20, 12, 8, 0});
    IS(t.index({0, mask}), kInt64, {2, 4}, {0, 1, 2, 3, 8, 9, 10, 11});
    IS(t.index({t.gt(Scalar(20))}), kInt64, {3}, {21, 22, 23});
    IS(t.index({Slice(), mask, 1}), kInt64, {2, 2}, {1, 9, 13, 21});
    IS(t.index({true, 0, 0}), kInt64, {1, 4}, {0, 1, 2, 3});
    CHECK(t.index({false, 0}).numel() == 0);
    IS(t.index({None, 0, None, 0, Slice(0, 2)}), kInt64, {1, 1, 2}, {0, 1});
    IS(t.index({tensor({0, 1}).to(kInt32), 0, 0}), kInt64, {2}, {0, 12});
    CHECK(t.index({tensor(std::vector<int64_t>{})}).sizes() == IntArrayRef({0, 3, 4}));
    IS(t.index(std::vector<TensorIndex>{size_t(1), int64_t(0)}), kInt64, {4}, {12, 13, 14, 15});

    Tensor w = zeros({2, 3}, kInt64);
    w.index_put_({0, 1}, 5);
    w.index_put_({Slice(), 2}, tensor({7, 8}));
    IS(w, kInt64, {2, 3}, {0, 5, 7, 0, 0, 8});
    w.index_put_({rows, far}, tensor({1, 2}));
    IS(w, kInt64, {2, 3}, {2, 5, 7, 0, 0, 1});
    w.index_put_({w.gt(Scalar(4))}, -1);
    IS(w, kInt64, {2, 3}, {2, -1, -1, 0, 0, 1});
    w.index_put_({1, mask}, tensor({4, 4}));
    IS(w, kInt64, {2, 3}, {2, -1, -1, 4, 0, 4});
    w.index_put_({Ellipsis}, tensor({1, 2, 3}));
    IS(w, kInt64, {2, 3}, {1, 2, 3, 1, 2, 3});
    w.index_put_(std::vector<TensorIndex>{Slice(None, None), tensor({0, 1})}, tensor({{9}, {8}}));
    IS(w, kInt64, {2, 3}, {9, 9, 3, 8, 8, 3});
    w.t().index_put_({0}, 0);
    IS(w, kInt64, {2, 3}, {0, 9, 3, 0, 8, 3});
    IS(w.index_put({0}, tensor(6)), kInt64, {2, 3}, {6, 6, 6, 0, 8, 3});
    IS(w, kInt64, {2, 3}, {0, 9, 3, 0, 8, 3});
    Tensor view = w.select(0, 1);
    view.index_put_({tensor({2, 0})}, 5);
    IS(w, kInt64, {2, 3}, {0, 9, 3, 5, 8, 5});
  }
}

TEST_CASE("api: ops by index") {
  const Tensor t = tensor({{1., 2., 3.}, {4., 5., 6.}}), index = tensor({2, 0});
  IS(t.index_select(1, index), kFloat32, {2, 2}, {3, 1, 6, 4});
  IS(frit::index_select(t, 0, tensor({1})), kFloat32, {1, 3}, {4, 5, 6});
  IS(t.gather(1, tensor({{0, 0}, {2, -1}})), kFloat32, {2, 2}, {1, 1, 6, 6});
  IS(frit::gather(t, 0, tensor({{1, 0, 1}})), kFloat32, {1, 3}, {4, 2, 6});
  IS(t.scatter(1, tensor({{2}, {0}}), tensor({{9.}, {8.}})), kFloat32, {2, 3}, {1, 2, 9, 8, 5, 6});
  IS(frit::scatter(t, 1, tensor({{2}, {0}}), Scalar(7)), kFloat32, {2, 3}, {1, 2, 7, 7, 5, 6});
  IS(frit::scatter(t, 1, tensor({{2}, {0}}), tensor({{9.}, {8.}})), kFloat32, {2, 3}, {1, 2, 9, 8, 5, 6});
  IS(t.scatter_add(0, tensor({{0, 0, 0}, {0, 1, 0}}), ones({2, 3})), kFloat32, {2, 3}, {3, 3, 5, 4, 6, 6});
  IS(frit::scatter_add(t, 0, tensor({{1, 1, 1}}), ones({1, 3})), kFloat32, {2, 3}, {1, 2, 3, 5, 6, 7});
  Tensor w = t.clone();
  IS(w.scatter_(0, tensor({{1}}), tensor({{0.}})), kFloat32, {2, 3}, {1, 2, 3, 0, 5, 6});
  IS(w.scatter_(0, tensor({{0}}), Scalar(9)), kFloat32, {2, 3}, {9, 2, 3, 0, 5, 6});
  IS(w.scatter_add_(1, tensor({{1, 1}}), ones({1, 2})), kFloat32, {2, 3}, {9, 4, 3, 0, 5, 6});
  IS(t.index_add(1, index, ones({2, 2})), kFloat32, {2, 3}, {2, 2, 4, 5, 5, 7});
  IS(frit::index_add(t, 0, tensor({1}), ones({1, 3})), kFloat32, {2, 3}, {1, 2, 3, 5, 6, 7});
  w = t.clone();
  IS(w.index_add_(0, tensor({0, 0}), ones({2, 3})), kFloat32, {2, 3}, {3, 4, 5, 4, 5, 6});
  IS(t.index_fill(1, index, 0), kFloat32, {2, 3}, {0, 2, 0, 0, 5, 0});
  IS(frit::index_fill(t, 1, index, 0), kFloat32, {2, 3}, {0, 2, 0, 0, 5, 0});
  w = t.clone();
  IS(w.index_fill_(0, tensor({1}), 9), kFloat32, {2, 3}, {1, 2, 3, 9, 9, 9});
  IS(t.index_copy(0, tensor({1}), zeros({1, 3})), kFloat32, {2, 3}, {1, 2, 3, 0, 0, 0});
  IS(frit::index_copy(t, 1, index, zeros({2, 2})), kFloat32, {2, 3}, {0, 2, 0, 0, 5, 0});
  IS(w.index_copy_(0, tensor({1}), zeros({1, 3})), kFloat32, {2, 3}, {1, 2, 3, 0, 0, 0});
  const Tensor mask = tensor({true, false, true});
  IS(t.masked_fill(mask, Scalar(0)), kFloat32, {2, 3}, {0, 2, 0, 0, 5, 0});
  IS(t.masked_fill(mask, tensor(9.)), kFloat32, {2, 3}, {9, 2, 9, 9, 5, 9});
  IS(frit::masked_fill(t, mask, Scalar(0)), kFloat32, {2, 3}, {0, 2, 0, 0, 5, 0});
  w = t.clone();
  IS(w.masked_fill_(mask, Scalar(1)), kFloat32, {2, 3}, {1, 2, 1, 1, 5, 1});
  IS(w.masked_fill_(mask, tensor(2.)), kFloat32, {2, 3}, {2, 2, 2, 2, 5, 2});
  IS(t.masked_scatter(mask, tensor({7., 8., 9., 10.})), kFloat32, {2, 3}, {7, 2, 8, 9, 5, 10});
  IS(frit::masked_scatter(t, mask, tensor({7., 8., 9., 10.})), kFloat32, {2, 3}, {7, 2, 8, 9, 5, 10});
  IS(w.masked_scatter_(mask, tensor({7., 8., 9., 10.})), kFloat32, {2, 3}, {7, 2, 8, 9, 5, 10});
  IS(t.masked_select(mask), kFloat32, {4}, {1, 3, 4, 6});
  IS(frit::masked_select(t, t.gt(Scalar(4))), kFloat32, {2}, {5, 6});
  IS(t.take(tensor({{5, 0}})), kFloat32, {1, 2}, {6, 1});
  IS(frit::take(t, tensor({-1})), kFloat32, {1}, {6});
  IS(t.take_along_dim(tensor({{0}, {2}}), 1), kFloat32, {2, 1}, {1, 6});
  IS(frit::take_along_dim(t, tensor({4})), kFloat32, {1}, {5});
  IS(tensor({{0, 3}, {4, 0}}).nonzero(), kInt64, {2, 2}, {0, 1, 1, 0});
  IS(frit::nonzero(tensor({0, 1})), kInt64, {1, 1}, {1});
  IS(argwhere(tensor({0, 1})), kInt64, {1, 1}, {1});
  IS(tensor(5).nonzero(), kInt64, {1, 0}, {});
}

TEST_CASE("api: errors of shapes and indices") {
  const Tensor t = arange(6).reshape({2, 3});
  struct {
    void (*call)(const Tensor&);
    std::vector<const char*> says;
  } const wrong[] = {
      {[](const Tensor& x) { x.view({4}); }, {"view", "[2, 3]", "6 elements", "[4]"}},
      {[](const Tensor& x) { x.t().view({6}); }, {"view", "not contiguous", "reshape()"}},
      {[](const Tensor& x) { x.reshape({-1, -1}); }, {"reshape", "[-1, -1]"}},
      {[](const Tensor& x) { x.reshape({4, -1}); }, {"reshape", "[4, -1]", "[2, 3]"}},
      {[](const Tensor& x) { x.transpose(0, 2); }, {"transpose", "axis 2", "-2 to 1"}},
      {[](const Tensor& x) { x.permute({0}); }, {"permute", "[2, 3]"}},
      {[](const Tensor& x) { x.permute({0, 0}); }, {"permute", "twice"}},
      {[](const Tensor& x) { x.expand({2}); }, {"expand", "fewer axes"}},
      {[](const Tensor& x) { x.expand({4, 3}); }, {"expand", "[2, 3]", "4"}},
      {[](const Tensor& x) { x.narrow(1, 2, 2); }, {"narrow", "start 2", "length 2", "[2, 3]"}},
      {[](const Tensor& x) { x.select(0, 2); }, {"select", "index 2", "[2, 3]", "-2 to 1"}},
      {[](const Tensor& x) { x.slice(0, 0, 2, 0); }, {"slice", "step 0", "flip"}},
      {[](const Tensor& x) { x.index({0, 0, 0}); }, {"index", "3 indices", "[2, 3]"}},
      {[](const Tensor& x) { x.index({tensor({5})}); synchronize(); }, {"index 5", "[2, 3]", "-2 to 1"}},
      {[](const Tensor& x) { x.index({tensor({0.5})}); }, {"index", "float32"}},
      {[](const Tensor& x) { x.index({tensor({true})}); }, {"mask", "[1]", "[2, 3]"}},
      {[](const Tensor& x) { x.index({"x"}); }, {"\"x\""}},
      {[](const Tensor& x) { x.masked_select(x); }, {"masked_select", "int64", "boolean"}},
      {[](const Tensor& x) { x.split(0); }, {"split", "size 0"}},
      {[](const Tensor& x) { x.split(IntArrayRef({1, 1}), 1); }, {"split", "[1, 1]", "sum to 2"}},
      {[](const Tensor& x) { x.diagonal(0, 1, 1); }, {"diagonal", "twice"}},
      {[](const Tensor& x) { frit::stack({x, x.t()}); }, {"stack", "[2, 3]", "[3, 2]"}},
      {[](const Tensor&) { frit::cat({}); }, {"cat", "empty"}},
      {[](const Tensor& x) { x.unflatten(1, {2, 2}); }, {"unflatten", "[2, 2]", "must be 3"}},
      {[](const Tensor& x) { x.repeat({2}); }, {"repeat", "[2, 3]"}},
      {[](const Tensor& x) { x.sum(IntArrayRef({0, 0})); }, {"sum", "twice"}},
      {[](const Tensor& x) { x.sum(5); }, {"sum", "axis 5"}},
      {[](const Tensor& x) { x.as_strided({3}, {3}, 0); }, {"as_strided"}},
      {[](const Tensor& x) { x.mm(x); }, {"mm", "[2, 3]"}},
      {[](const Tensor& x) { x.mv(x); }, {"mv", "[2, 3]"}},
      {[](const Tensor& x) { x.tril().select(0, 0).tril(); }, {"tril", "[3]"}},
      {[](const Tensor& x) { x.mean(); }, {"mean", "int64", "kFloat32"}},
      {[](const Tensor& x) { x.topk(4); }, {"topk", "k = 4"}},
  };
  for (const auto& w : wrong) {
    const std::string text = thrown<Error>([&] { w.call(t); });
    for (const char* word : w.says) CHECK_THAT(text, Contains(word));
  }
}
