// The pattern language: einops' own identities on random tensors and layouts, known values, views, gradients, and a table of
// malformed patterns with what their errors must say.
#include <catch2/catch.hpp>

#include "frit/einops.h"
#include "tests/support/cases.h"

using namespace frit;
using namespace frit::indexing;
using Catch::Matchers::Contains;

namespace {
using testing::Shape;
Tensor numbers(const Shape& shape) {
  int64_t n = 1;
  for (int64_t e : shape) n *= e;
  return arange(n, kFloat32).reshape(shape);
}
}  // namespace

TEST_CASE("einops: rearrange") {
  testing::in_each_mode([] {
    const Tensor x = numbers({2, 3, 4, 6});
    CHECK(rearrange(x, "b c h w -> b h w c").equal(x.permute({0, 2, 3, 1})));
    CHECK(rearrange(x, "b c h w -> (b h) w c").equal(x.permute({0, 2, 3, 1}).reshape({8, 6, 3})));
    CHECK(rearrange(x, "b c h w -> b (c h w)").equal(x.reshape({2, 72})));
    CHECK(rearrange(x, "b c (h h1) (w w1) -> (b h1 w1) c h w", {{"h1", 2}, {"w1", 2}}).equal(x.reshape({2, 3, 2, 2, 3, 2}).permute({0, 3, 5, 1, 2, 4}).reshape({8, 3, 2, 3})));
    CHECK(rearrange(x, "b ... -> ... b").equal(x.permute({1, 2, 3, 0})));
    CHECK(rearrange(x, "b ... w -> w (...) b").equal(x.permute({3, 1, 2, 0}).reshape({6, 12, 2})));
    CHECK(rearrange(x, "... -> (...)").equal(x.reshape({-1})));
    CHECK(rearrange(x, "a b c d -> a 1 b () c d 1").sizes().vec() == Shape{2, 1, 3, 1, 4, 6, 1});
    CHECK(rearrange(x.unsqueeze(1), "a 1 b c d -> d c b a").equal(x.permute({3, 2, 1, 0})));
    CHECK(rearrange(x.unsqueeze(1), "a () b c d -> d c b a").equal(x.permute({3, 2, 1, 0})));
    CHECK(rearrange(numbers({8}), "(a b) -> b a", {{"a", 2}}).equal(numbers({2, 4}).t()));
    CHECK(rearrange(numbers({8}), "(a b)->b a", {{"b", 4}}).equal(numbers({2, 4}).t()));
    CHECK(rearrange(full({}, 3.0), " -> 1").sizes().vec() == Shape{1});
    // A view, where strides allow.
    CHECK(rearrange(x, "b c h w -> b h w c").is_alias_of(x));
    CHECK(rearrange(x, "b c (h k) w -> b c h k w", {{"k", 2}}).is_alias_of(x));
    CHECK(!rearrange(x, "b c h w -> b (w h c)").is_alias_of(x));
    // There and back, in other layouts.
    for (const Tensor& y : {x, x.transpose(1, 3), numbers({4, 3, 8, 6}).slice(0, 0, 4, 2).slice(2, 1, 8, 2), numbers({1, 3, 4, 6}).expand({2, 3, 4, 6})}) {
      const Tensor there = rearrange(y, "b c h w -> (w b) (h c)");
      CHECK(rearrange(there, "(w b) (h c) -> b c h w", {{"b", y.size(0)}, {"c", y.size(1)}}).equal(y));
    }
    // A list is stacked.
    const TensorList parts{numbers({2, 3}), numbers({2, 3}) + 10, numbers({2, 3}) + 20};
    CHECK(rearrange(parts, "k a b -> a b k").equal(stack(parts, -1)));
    CHECK(rearrange(parts, "k a b -> a (k b)").equal(cat(parts, 1)));
    // Empty axes.
    CHECK(rearrange(zeros({0, 4}), "a (b c) -> c (a b)", {{"b", 2}}).sizes().vec() == Shape{2, 0});
    const Tensor h = numbers({2, 5, 24});
    CHECK(rearrange(h, "b l (h d) -> b h l d", {{"h", 8}}).equal(h.reshape({2, 5, 8, 3}).transpose(1, 2)));
  });
}
TEST_CASE("einops: reduce") {
  testing::in_each_mode([] {
    const Tensor x = numbers({2, 3, 4, 6});
    CHECK(einops_reduce(x, "b c h w -> b c", "mean").equal(x.mean({2, 3})));
    CHECK(einops_reduce(x, "b c (h 2) (w 2) -> b c h w", "max").equal(x.reshape({2, 3, 2, 2, 3, 2}).amax({3, 5})));
    CHECK(einops_reduce(x, "b c (h h2) w -> h2 b", "sum", {{"h2", 2}}).equal(x.reshape({2, 3, 2, 2, 6}).sum({1, 2, 4}).t()));
    CHECK(einops_reduce(x, "b ... -> b", "min").equal(x.amin({1, 2, 3})));
    CHECK(einops_reduce(x, "b c h w -> b c 1 1", "mean").equal(x.mean({2, 3}, true)));
    CHECK(einops_reduce(x, "... -> ", "sum").item<float>() == x.sum().item<float>());
    CHECK(einops_reduce(x, "a b c d -> d c b a", "sum").equal(x.permute({3, 2, 1, 0})));
    CHECK(einops_reduce(tensor({{1., 2.}, {3., 4.}}), "a b -> ", "prod").item<float>() == 24);
    CHECK(einops_reduce(x.gt(71), "b ... -> b", "any").equal(tensor({false, true})));
    CHECK(einops_reduce(x.ge(0), "b ... -> b", "all").equal(tensor({true, true})));
    const TensorList parts{numbers({2, 3}), numbers({2, 3}) + 10};
    CHECK(einops_reduce(parts, "k a b -> a b", "mean").equal(numbers({2, 3}) + 5));
    CHECK_THROWS_AS(einops_reduce(arange(4), "a -> ", "mean"), DtypeError);
  });
}
TEST_CASE("einops: repeat") {
  testing::in_each_mode([] {
    const Tensor x = numbers({2, 3});
    CHECK(einops_repeat(x, "h w -> h w c", {{"c", 4}}).equal(x.unsqueeze(-1).expand({2, 3, 4})));
    CHECK(einops_repeat(x, "h w -> h w c", {{"c", 4}}).is_alias_of(x));  // expanded, not copied
    CHECK(einops_repeat(x, "h w -> (r h) w", {{"r", 2}}).equal(x.repeat({2, 1})));
    CHECK(einops_repeat(x, "h w -> (h r) w", {{"r", 2}}).equal(x.repeat_interleave(2, 0)));
    CHECK(einops_repeat(x, "h w -> h (w 3)").equal(x.repeat_interleave(3, 1)));
    CHECK(einops_repeat(x, "h w -> 2 w h 1").equal(x.t().unsqueeze(0).unsqueeze(-1).expand({2, 3, 2, 1})));
    CHECK(einops_repeat(x, "... -> ... 2").equal(x.unsqueeze(-1).expand({2, 3, 2})));
    // The reverse of reduce.
    const Tensor big = einops_repeat(x, "h w -> (h a) b w", {{"a", 2}, {"b", 3}});
    CHECK(einops_reduce(big, "(h a) b w -> h w", "mean", {{"a", 2}}).equal(x));
  });
}
TEST_CASE("einops: gradients") {
  manual_seed(2);
  const Tensor x = randn({2, 4, 3}, kFloat64);
  const auto check = [&](auto f) {
    const autograd::TensorFunction g = [&](const autograd::variable_list& in) -> autograd::variable_list { return {f(in[0]).sin()}; };
    CHECK(autograd::gradcheck(g, {x}));
    CHECK(autograd::gradgradcheck(g, {x}));
  };
  check([](const Tensor& t) { return rearrange(t, "a (b c) d -> (d b) a c", {{"b", 2}}); });
  check([](const Tensor& t) { return einops_reduce(t, "a (b 2) d -> d b", "mean"); });
  check([](const Tensor& t) { return einops_reduce(t, "a (b 2) d -> d b", "prod"); });
  check([](const Tensor& t) { return einops_repeat(t, "a b d -> b (d 2) a 3"); });
}
TEST_CASE("einops: errors") {
  const Tensor x = numbers({2, 3, 4});
  struct Row { const char* pattern; AxisSizes sizes; const char* says; };
  const Row rows[] = {
      {"a b c", {}, "two sides"},
      {"a b c -> a b c -> a", {}, "two sides"},
      {"a b -> b a", {}, "the tensor 3"},
      {"a b c d -> d c b a", {}, "the left side has 4 axes, the tensor 3"},
      {"a b c d ... -> d c b a ...", {}, "besides the ellipsis"},
      {"a b b -> a b", {}, "\"b\" stands twice"},
      {"a b c -> a b c b", {}, "\"b\" stands twice"},
      {"a b c -> a b", {}, "one side only: c"},
      {"a b c -> a b c d", {}, "one side only: d"},
      {"a b c -> ... a b c", {}, "right side has an ellipsis"},
      {"a ... -> a", {}, "left side has an ellipsis"},
      {"(a ...) c -> c a ...", {}, "parentheses on the left"},
      {"a ... ... -> a ...", {}, "more than one ellipsis"},
      {"a .. b -> a b", {}, "three dots"},
      {"a (b (c)) d -> a b c d", {}, "one level"},
      {"a (b c -> a b c", {}, "no ')'"},
      {"a b) c -> a b c", {}, "no '('"},
      {"a b c! -> a b c", {}, "'!'"},
      {"a b 2c -> a b 2c", {}, "begin with a digit"},
      {"_a b c -> _a b c", {}, "underscore"},
      {"a_ b c -> a_ b c", {}, "underscore"},
      {"a b 4 -> a b 4", {}, "without a name (4, 4)"},
      {"a b 0 -> a b", {}, "extent 0"},
      {"a 1 c -> a c", {}, "axis 1 of extent 3 does not match the pattern, which says 1"},
      {"a b (c d) -> a b c d", {}, "sizes of c, d cannot be inferred from axis 2 of extent 4"},
      {"a b (c d) -> a b c d", {{"c", 3}}, "axis 2 of extent 4 cannot be divided into parts of 3"},
      {"a b (c d) -> a b c d", {{"c", 2}, {"d", 3}}, "axis 2 of extent 4 does not match the pattern, which says c=2 * d=3"},
      {"a b c -> a b c", {{"b", 5}}, "axis 1 of extent 3 does not match the pattern, which says b=5"},
      {"a b c -> a b c", {{"z", 5}}, "\"z\", which is not in the pattern"},
      {"a b c -> a b c", {{"b", -3}}, "negative"},
  };
  for (const Row& row : rows) {
    INFO(row.pattern);
    CHECK_THROWS_WITH(rearrange(x, row.pattern, row.sizes), Contains(row.says) && Contains(row.pattern) && Contains("rearrange"));
  }
  CHECK_THROWS_WITH(einops_reduce(x, "a b c -> a d", "sum"), Contains("right side are not on the left: d"));
  CHECK_THROWS_WITH(einops_reduce(x, "a b c -> a 2", "sum"), Contains("2"));
  CHECK_THROWS_WITH(einops_reduce(x, "a b c -> a", "median"), Contains("\"median\" is not known"));
  CHECK_THROWS_WITH(einops_reduce(x, "a b (c 3) -> a", "sum"), Contains("parts of 3"));
  CHECK_THROWS_WITH(einops_repeat(x, "a b c -> a b"), Contains("left side are not on the right: c"));
  CHECK_THROWS_WITH(einops_repeat(x, "a b c -> a b c d"), Contains("no size: d"));
  CHECK_THROWS_WITH(einops_repeat(x, "a b 4 -> a b"), Contains("4"));
  CHECK_THROWS_WITH(rearrange(TensorList{}, "a b -> b a"), Contains("list of tensors is empty"));
  CHECK_THROWS_AS(rearrange(TensorList{ones({2}), ones({3})}, "a b -> b a"), ShapeError);
  CHECK_THROWS_AS(rearrange(Tensor(), "a -> a"), ValueError);
}
