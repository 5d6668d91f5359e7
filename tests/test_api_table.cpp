// Every op and layer of the public API by name: a name that is missing does not compile. Each row is tried with every element type, and its
// gradient and second order against central differences, its forward derivative against the reverse one; the table is printed with what was
// found, and the test fails where a row finds less than it promises.
#include <catch2/catch.hpp>

#include <cstdio>
#include <functional>
#include <string>

#include "frit/autograd.h"
#include "frit/einops.h"
#include "frit/einsum.h"
#include "frit/nn.h"

using namespace frit;
using namespace frit::indexing;

namespace {
struct In {
  Tensor x, y, z;  // [3, 4], [3, 4], [4, 3]
};
// gradient: the second order is zero by pieces, and checked all the same.
enum Promise : uint8_t { values = 0, gradient = 1, second = 2 };
struct Row {
  const char* name;
  Tensor (*f)(const In&);
  int promise;
  double low, high;
  int least_types;   // how many of the ten element types it takes
};
const Tensor index_of(std::initializer_list<TensorData> l) { return tensor(TensorData(l), kInt64); }
const std::optional<Tensor> no_tensor;

#define OP(name, promise, expression, low, high, types) {name, [](const In& i) -> Tensor { [[maybe_unused]] const Tensor &x = i.x, &y = i.y, &z = i.z; return expression; }, promise, low, high, types}
#define SMOOTH(name, expression) OP(name, second, expression, 0.3, 2, 4)
#define UNARY_OP(name, low, high) OP(#name, second, x.name() + frit::name(x), low, high, 4)
#define FLAT(name, expression) OP(name, values, expression, -3, 3, 4)
#define WHOLE(name, expression) OP(name, values, expression, 0, 4, 5)
#define MOVES(name, expression) OP(name, second, expression, -3, 3, 10)

const Row rows[] = {
    // creation
    FLAT("empty", zeros_like(empty({2, 3}))), FLAT("zeros", zeros({2})), FLAT("ones", ones({2})), FLAT("full", full({2}, 1.5)), FLAT("arange", arange(3) + arange(0, 3) + arange(0, 6, 2)),
    FLAT("linspace", linspace(0, 1, 5)), FLAT("eye", eye(3) + eye(3, 3)), FLAT("rand", rand({2})), FLAT("randn", randn({2})), FLAT("randint", randint(4, {2}) + randint(1, 4, {2})),
    FLAT("randperm", randperm(4)), FLAT("tril_indices", tril_indices(3, 3)), FLAT("one_hot", one_hot(index_of({0, 2}))), FLAT("tensor", tensor({1., 2.})),
    FLAT("from_blob", from_blob(new float[2]{1, 2}, {2}, [](void* p) { delete[] static_cast<float*>(p); })),
    FLAT("empty_like", zeros_like(empty_like(x))), FLAT("zeros_like", zeros_like(x)), FLAT("ones_like", ones_like(x)), FLAT("full_like", full_like(x, 1)), FLAT("rand_like", rand_like(x)), FLAT("randn_like", randn_like(x)),
    // views
    MOVES("view", x.view({4, 3})), MOVES("reshape", x.reshape({2, -1}) ), MOVES("transpose", x.transpose(0, 1)), MOVES("permute", x.permute({1, 0})), MOVES("t", x.t()), MOVES("T", x.T()), MOVES("mT", x.mT()),
    MOVES("squeeze", x.unsqueeze(0).squeeze(0)), MOVES("unsqueeze", x.unsqueeze(1)), MOVES("expand", x.unsqueeze(0).expand({2, 3, 4})), MOVES("narrow", x.narrow(1, 1, 2)), MOVES("select", x.select(0, 1)),
    MOVES("slice", x.slice(1, 0, 4, 2)), MOVES("unfold", x.unfold(1, 3, 1)), MOVES("flatten", x.flatten()), MOVES("unflatten", x.unflatten(1, {2, 2})), MOVES("chunk", x.chunk(2, 1)[1]),
    MOVES("split", x.split(2, 1)[0]), MOVES("diagonal", x.diagonal(1)), MOVES("movedim", x.movedim(0, 1)), MOVES("as_strided", x.as_strided({2, 3, 2}, {4, 1, 1})),
    MOVES("index", x.index({Slice(), 2, None})), MOVES("index (tensor)", x.index({index_of({0, 2, 0})})), MOVES("operator[]", x[1]),
    // copies
    MOVES("contiguous", x.t().contiguous()), MOVES("clone", x.clone()), MOVES("cat", cat({x, y}, 1)), MOVES("stack", stack({x, y})), MOVES("tile", tile(x, {2, 1})), MOVES("repeat", x.repeat({2, 1})),
    MOVES("repeat_interleave", x.repeat_interleave(2, 1)), MOVES("repeat_interleave (tensor)", x.repeat_interleave(index_of({2, 0, 1}), 0)), MOVES("flip", flip(x, {0})), MOVES("roll", roll(x, 1, 1)),
    MOVES("index_select", index_select(x, 1, index_of({3, 0, 3}))), MOVES("gather", gather(x, 1, index_of({{3, 0}, {1, 1}}))), MOVES("scatter", scatter(x, 1, index_of({{3, 0}, {1, 2}}), y.narrow(0, 0, 2))),
    MOVES("scatter_add", scatter_add(x, 1, index_of({{3, 0}, {1, 1}}), y)), MOVES("index_add", index_add(x, 0, index_of({1, 1, 0}), y)),
    MOVES("index_put_", x.clone().index_put_({index_of({0, 2})}, y.narrow(0, 0, 2))), MOVES("masked_fill", masked_fill(x, eye(3, 4, kBool), 1)),
    MOVES("masked_select", masked_select(x, eye(3, 4, kBool))), FLAT("nonzero", nonzero(x)), MOVES("where", where(eye(3, 4, kBool), x, y)), MOVES("take", take(x, index_of({0, 5, 5}))),
    MOVES("sort", std::get<0>(sort(x, 1))), MOVES("topk", std::get<0>(topk(x, 2, 1))), FLAT("argsort", argsort(x, 1)), OP("cumsum", second, cumsum(x, 1), -3, 3, 10), OP("cumprod", second, cumprod(x, 1), -3, 3, 10),
    MOVES("tril", tril(x)), MOVES("triu", triu(x, 1)),
    // arithmetic
    OP("add", second, x + y + add(x, y, 2) + (1 + x), -3, 3, 9), OP("sub", second, x - y - sub(x, y, 2) - (1 - x), -3, 3, 9), OP("mul", second, x * y * 2, -3, 3, 9), SMOOTH("div", x / y + 1 / x), FLAT("comparisons", (x == y) | (x != y) | (x < y) | (x <= 1) | (x > y) | (x >= y)),
    FLAT("logical", logical_and(x, y).logical_or(x).logical_xor(y).logical_not()), WHOLE("bit operations", ((x & y) | x) ^ (~y)), OP("shifts", values, (x << y) >> 1, 0, 4, 5),
    OP("floor_divide", values, floor_divide(x, y), 1, 4, 9), OP("remainder", gradient, remainder(x, y) + x % 3, 0.3, 2, 9), OP("fmod", gradient, fmod(x, y), 0.3, 2, 9),
    SMOOTH("pow", pow(x, y) + pow(x, 2) + pow(x, 3) + pow(x, 4) + pow(x, 0.5) + pow(x, -0.5) + pow(x, -1) + pow(x, 1) + pow(x, 1.7) + pow(2, x)),
    UNARY_OP(exp, -2, 2), UNARY_OP(exp2, -2, 2), UNARY_OP(expm1, -2, 2), UNARY_OP(log, 0.3, 2), UNARY_OP(log2, 0.3, 2), UNARY_OP(log1p, -0.5, 2), SMOOTH("logaddexp", logaddexp(x, y)), UNARY_OP(sqrt, 0.3, 2),
    UNARY_OP(rsqrt, 0.3, 2), OP("abs", second, x.abs() + abs(x), 0.3, 2, 9), OP("neg", second, -x + neg(x), -2, 2, 9), OP("sign", gradient, x.sign() + sign(x), 0.3, 2, 9), UNARY_OP(sin, -3, 3), UNARY_OP(cos, -3, 3), UNARY_OP(tan, -1, 1),
    UNARY_OP(asin, -0.8, 0.8), UNARY_OP(acos, -0.8, 0.8), UNARY_OP(atan, -3, 3), SMOOTH("atan2", atan2(x, y)), UNARY_OP(sinh, -2, 2), UNARY_OP(cosh, -2, 2), UNARY_OP(tanh, -2, 2), UNARY_OP(asinh, -2, 2),
    UNARY_OP(acosh, 1.3, 3), UNARY_OP(atanh, -0.8, 0.8), UNARY_OP(erf, -2, 2), UNARY_OP(erfc, -2, 2), UNARY_OP(lgamma, 0.5, 4), UNARY_OP(sigmoid, -3, 3), OP("relu", gradient, relu(x) + x.relu(), 0.3, 2, 9),
    OP("relu6", gradient, relu6(x), 0.3, 2, 9), SMOOTH("elu", elu(x) + elu(x - 3, 1.3)), SMOOTH("gelu", gelu(x) + gelu(x, "tanh")), UNARY_OP(silu, -3, 3), SMOOTH("softplus", softplus(x) + softplus(x, 2, 20)),
    OP("leaky_relu", gradient, leaky_relu(x) + leaky_relu(x - 5, 0.2), 0.3, 2, 4), OP("hardswish", gradient, hardswish(x), 0.3, 2, 4), UNARY_OP(mish, -3, 3), OP("clamp", gradient, clamp(x, 0.5, 1.5) + clamp(x, no_tensor, y) + x.clamp(0.7), 0.3, 2, 4),
    OP("minimum", gradient, minimum(x, y), -2, 2, 10), OP("maximum", gradient, maximum(x, y), -2, 2, 10), SMOOTH("lerp", lerp(x, y, 0.3) + lerp(x, y, x)), OP("floor", gradient, x.floor(), 0.3, 0.9, 9), OP("ceil", gradient, ceil(x), 0.3, 0.9, 9),
    OP("round", gradient, round(x), 0.6, 0.9, 9), OP("trunc", gradient, trunc(x), 0.3, 0.9, 9), OP("frac", gradient, frac(x), 0.3, 0.9, 4), FLAT("isnan", isnan(x)), FLAT("isinf", isinf(x)), FLAT("isfinite", isfinite(x)),
    OP("nan_to_num", gradient, nan_to_num(x), -2, 2, 10), UNARY_OP(reciprocal, 0.3, 2), OP("square", second, square(x), -2, 2, 9),
    // reductions
    OP("sum", second, sum(x) + sum(x, 1).sum() + x.sum({0, 1}), -2, 2, 10), SMOOTH("mean", mean(x, 1)), OP("prod", second, prod(x, 1) + prod(x), -2, 2, 10), OP("amax", gradient, amax(x, 1), -2, 2, 10), OP("amin", gradient, amin(x, {0, 1}), -2, 2, 10),
    OP("max", gradient, std::get<0>(max(x, 1)) + max(x) + max(x, y).sum(), -2, 2, 9), OP("min", gradient, std::get<0>(min(x, 1)) + min(x) + min(x, y).sum(), -2, 2, 9), FLAT("argmax", argmax(x, 1)), FLAT("argmin", argmin(x)), OP("any", values, any(x, 1), -2, 2, 10),
    OP("all", values, all(x) , -2, 2, 10), SMOOTH("var", var(x) + var(x, IntArrayRef({1})).sum()), SMOOTH("std", frit::std(x) + frit::std(x, IntArrayRef({0})).sum()), SMOOTH("norm", norm(x) + norm(x, 3) + norm(x, 1, 1).sum()), OP("trace", second, trace(x), -2, 2, 10),
    SMOOTH("logsumexp", logsumexp(x, 1)), SMOOTH("softmax", softmax(x, 1)), SMOOTH("log_softmax", log_softmax(x, 1)), OP("nansum", second, nansum(x), -2, 2, 10), OP("count_nonzero", values, count_nonzero(x), -2, 2, 10),
    // products
    OP("matmul", second, matmul(x, z), -2, 2, 9), OP("mm", second, mm(x, z), -2, 2, 9), OP("bmm", second, bmm(x.unsqueeze(0), z.unsqueeze(0)), -2, 2, 9), OP("mv", second, mv(x, y[0]), -2, 2, 9), OP("dot", second, dot(x[0], y[0]), -2, 2, 9),
    OP("outer", second, outer(x[0], y[1]), -2, 2, 10), OP("addmm", second, addmm(x.narrow(1, 0, 3), x, z, 2, 3), -2, 2, 9), OP("baddbmm", second, baddbmm(x.narrow(1, 0, 3).unsqueeze(0), x.unsqueeze(0), z.unsqueeze(0)), -2, 2, 9),
    OP("einsum", second, einsum("ij,jk,il->kl", {x, z, y}), -2, 2, 9), OP("linalg::multi_dot", second, linalg::multi_dot({x, z, y}), -2, 2, 9), OP("dropout", second, dropout(x, 0.5, false), -2, 2, 9),
    MOVES("rearrange", rearrange(x, "a (b c) -> c b a", {{"b", 2}})), OP("einops_reduce", second, einops_reduce(x, "a (b 2) -> a b", "sum"), -2, 2, 10), MOVES("einops_repeat", einops_repeat(x, "a b -> a b 2")),
    // layers
    SMOOTH("linear", linear(x, y, z[0])), SMOOTH("layer_norm", layer_norm(x, {4}, y[0], y[1])), SMOOTH("rms_norm", rms_norm(x, {4}, y[0])), SMOOTH("group_norm", group_norm(x.reshape({1, 4, 3}), 2, y[0], y[1])),
    SMOOTH("batch_norm", batch_norm(x, y[0], y[1], {}, {}, true, 0.1, 1e-5)), MOVES("embedding", embedding(x, index_of({2, 0, 2}))), OP("conv1d", second, conv1d(x.unsqueeze(0), y.reshape({2, 3, 2}), z[0].narrow(0, 0, 2)), -2, 2, 4),
    OP("conv2d", second, conv2d(x.reshape({1, 1, 3, 4}), y.narrow(1, 0, 2).reshape({1, 1, 3, 2})), -2, 2, 4), OP("max_pool2d", gradient, max_pool2d(x.reshape({1, 1, 3, 4}), 2), -2, 2, 4),
    OP("avg_pool2d", second, avg_pool2d(x.reshape({1, 1, 3, 4}), 2), -2, 2, 4), SMOOTH("scaled_dot_product_attention", scaled_dot_product_attention(x.unsqueeze(0), y.unsqueeze(0), (x + y).unsqueeze(0), {}, 0, true)),
    OP("cross_entropy", second, nn::functional::cross_entropy(x, index_of({0, 3, 1})), -2, 2, 4), OP("nll_loss", second, nn::functional::nll_loss(x, index_of({0, 3, 1})), -2, 2, 4), OP("mse_loss", second, nn::functional::mse_loss(x, y), -2, 2, 4),
    SMOOTH("binary_cross_entropy_with_logits", nn::functional::binary_cross_entropy_with_logits(x, y.sigmoid())), OP("conv_transpose2d", second, conv_transpose2d(x.reshape({1, 1, 3, 4}), y.narrow(1, 0, 2).reshape({1, 1, 3, 2}), {}, 2), -2, 2, 4),
    OP("interpolate", second, nn::functional::interpolate(x.unsqueeze(0), nn::functional::InterpolateFuncOptions().size(std::vector<int64_t>{7}).mode(kLinear)), -2, 2, 4),
    // in place: on a copy
    OP("in place", second, x.clone().mul_(y).add_(1).sub_(x).div_(y).neg_().clamp_(-50, 50).pow_(2).tanh_() + y.clone().fill_(2).copy_(x), 0.3, 2, 4),
};

const char* const short_names[] = {"b8", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
bool attempt(const std::function<void()>& f, std::string& why) {
  try {
    f();
    return true;
  } catch (const std::exception& e) {
    why = e.what();
    return false;
  }
}
}  // namespace

TEST_CASE("api table: names, element types, derivatives") {
  std::string table;
  int missing = 0;
  for (const Row& row : rows) {
    const auto input = [&](Dtype d) {
      manual_seed(7);
      const auto make = [&](Tensor t) {
        const Tensor v = t * (row.high - row.low) + row.low;
        return d == kBool ? v.gt((row.low + row.high) / 2) : (d == kUInt8 ? v.abs() : v).to(d);
      };
      const Tensor x = make(rand({3, 4}, kFloat64)), y = make(rand({3, 4}, kFloat64)), z = make(rand({4, 3}, kFloat64));
      return In{x, y, z};
    };
    std::string types, why, type_error;
    int count = 0;
    for (int d = 0; d < dtype_count; ++d) {
      if (!attempt([&] { synchronize(); row.f(input(Dtype(d))).numel(), synchronize(); }, why)) {
        type_error = why;
        continue;
      }
      types += std::string(types.empty() ? "" : " ") + short_names[d];
      ++count;
    }
    const In in = input(kFloat64);
    const autograd::TensorFunction f = [&](const autograd::variable_list& v) -> autograd::variable_list { return {row.f({v[0], v[1], v[2]})}; };
    bool first = false, twice = false, forward = false;
    std::string first_error, second_error, forward_error;
    if (row.promise >= gradient) {
      const autograd::variable_list leaves{in.x, in.y, in.z};
      first = attempt([&] { autograd::gradcheck(f, leaves); }, first_error);
      twice = attempt([&] { autograd::gradgradcheck(f, leaves); }, second_error);
      forward = attempt([&] {
        autograd::variable_list along;
        for (const Tensor& t : leaves) along.push_back(randn(t.sizes(), kFloat64));
        const auto [out, tangent] = autograd::jvp(f, leaves, along);
        const Tensor weight = randn(out[0].sizes(), kFloat64);
        const auto [again, back] = autograd::vjp(f, leaves, {weight});
        double pushed = (tangent[0] * weight).sum().item<double>(), pulled = 0;
        for (size_t i = 0; i < 3; ++i) pulled += (back[i] * along[i]).sum().item<double>();
        if (!(std::abs(pushed - pulled) <= 1e-9 * (1 + std::abs(pulled)))) throw Error("forward " + std::to_string(pushed) + ", reverse " + std::to_string(pulled));
      }, forward_error);
    }
    char line[200];
    std::snprintf(line, sizeof line, "%-28s %-40s %-8s %-8s %s\n", row.name, types.c_str(), row.promise >= gradient ? first ? "yes" : "NO" : "-", row.promise >= gradient ? twice ? "yes" : "NO" : "-",
                  row.promise >= gradient ? forward ? "yes" : "NO" : "-");
    table += line;
    INFO(row.name);
    INFO("types: " << types << " " << type_error);
    INFO("gradient: " << first_error);
    INFO("second order: " << second_error);
    INFO("forward: " << forward_error);
    const bool whole = count >= row.least_types && (row.promise < gradient || (first && twice && forward));
    CHECK(whole);
    missing += !whole;
  }
  std::printf("%-28s %-40s %-8s %-8s %s\n%s%zu ops present, %d with less than they promise\n", "op", "element types", "gradient", "second", "jvp", table.c_str(), std::size(rows), missing);
}
