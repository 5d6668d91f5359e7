// The numeric cases' class g, errors: what a message holds, that compiled functions say the same, and every documented failure of the public
// ops once, in each mode, with its type, the op's name, the bad value and the legal range; and that nothing is changed by it.
#include <catch2/catch.hpp>
#include <frit/frit.h>
#include "tests/support/tensor_check.h"

using namespace frit;
using namespace frit::indexing;
using autograd::variable_list;

namespace {
enum class Kind { shape, type, index, value, autograd };
struct Row {
  const char* what;
  Kind kind;
  std::vector<const char*> parts;     // all in the message
  std::function<Tensor()> f;
};
const char* name_of(Kind k) { constexpr const char* names[] = {"ShapeError", "DtypeError", "IndexError", "ValueError", "AutogradError"}; return names[int(k)]; }
// The type that was thrown and its text.
std::pair<std::string, std::string> outcome(const std::function<void()>& f) {
  try {
    f();
    synchronize();
    return {"nothing", ""};
  } catch (const ShapeError& e) { return {"ShapeError", e.what()};
  } catch (const DtypeError& e) { return {"DtypeError", e.what()};
  } catch (const IndexError& e) { return {"IndexError", e.what()};
  } catch (const ValueError& e) { return {"ValueError", e.what()};
  } catch (const AutogradError& e) { return {"AutogradError", e.what()};
  } catch (const Error& e) { return {"Error", e.what()};
  } catch (const std::exception& e) { return {"another", e.what()}; }
}
void check(const Row& row) {
  for (const char* mode : {"eager", "automatic", "compiled"}) {
    const jit::ModeGuard guard(mode[0] == 'e' ? jit::Mode::eager : jit::Mode::automatic);
    const Tensor x = randn({2, 3}), pending = x * 2;
    auto compiled = compile(row.f);
    const auto [type, text] = outcome([&] {
      const Tensor kept = mode[0] == 'c' ? compiled() : row.f();
      synchronize();
    });
    INFO(row.what << ", " << mode << ": " << text);
    CHECK(type == name_of(row.kind));
    for (const char* part : row.parts) CHECK_THAT(text, Catch::Matchers::Contains(part));
    CHECK(text.find("internal") == text.npos);
    CHECK(text.find(".cpp:") != text.npos);      // the line of the call
    const size_t stop = text.find(". ");
    CHECK(stop != text.npos);                    // what is wrong, then the remedy
    CHECK(equal(pending, x * 2));                // the engine goes on, and what was pending is right
  }
}
#define E(what, kind, ...) {what, Kind::kind, {__VA_ARGS__}, []() -> Tensor
Tensor r(IntArrayRef sizes) { return randn(sizes); }
Tensor ints(std::vector<int64_t> v) { return tensor(v, kInt64); }

const std::vector<Row>& shapes() {
  static const std::vector<Row> rows = {
      E("add", shape, "add", "[2, 4]", "[2]") { return r({2, 4}) + r({2}); }},
      E("matmul of a vector", shape, "matmul", "[15, 2048]", "[0]") { return matmul(r({15, 2048}), r({0})); }},
      E("matmul", shape, "matmul", "[2, 3]", "[4, 5]", "3", "4") { return matmul(r({2, 3}), r({4, 5})); }},
      E("reshape", shape, "reshape", "[2, 3]", "[4, -1]") { return r({2, 3}).reshape({4, -1}); }},
      E("expand", shape, "expand", "[2, 3]", "[2, 4]") { return r({2, 3}).expand({2, 4}); }},
      E("cat", shape, "cat", "[2, 3]", "[2, 4]") { return cat({r({2, 3}), r({2, 4})}, 0); }},
  };
  return rows;
}
const std::vector<Row>& failures() {
  static const std::vector<Row> rows = {
      // axes
      E("sum", index, "sum", "5", "-2 to 1") { return r({2, 3}).sum(5); }},
      E("mean", index, "mean", "-3", "-2 to 1") { return r({2, 3}).mean(-3); }},
      E("softmax", index, "softmax", "5", "-2 to 1") { return r({2, 3}).softmax(5); }},
      E("cumsum", index, "cumsum", "5") { return r({2, 3}).cumsum(5); }},
      E("argmax", index, "argmax", "5") { return r({2, 3}).argmax(5); }},
      E("max", index, "max", "5") { return std::get<0>(r({2, 3}).max(5)); }},
      E("sort", index, "sort", "5") { return std::get<0>(r({2, 3}).sort(5)); }},
      E("topk axis", index, "topk", "5") { return std::get<0>(r({2, 3}).topk(1, 5)); }},
      E("topk count", value, "topk", "4", "3") { return std::get<0>(r({2, 3}).topk(4)); }},
      E("kthvalue", value, "kthvalue", "4", "3") { return std::get<0>(r({2, 3}).kthvalue(4)); }},
      E("transpose", index, "transpose", "5", "-2 to 1") { return r({2, 3}).transpose(0, 5); }},
      E("unsqueeze", index, "unsqueeze", "5", "-3 to 2") { return r({2, 3}).unsqueeze(5); }},
      E("squeeze", index, "squeeze", "5") { return r({2, 3}).squeeze(5); }},
      E("permute count", shape, "permute", "[2, 3]") { return r({2, 3}).permute({0}); }},
      E("permute twice", value, "permute", "0", "twice") { return r({2, 3}).permute({0, 0}); }},
      E("sum twice", value, "sum", "1") { return r({2, 3}).sum({1, 1}); }},
      E("flip", index, "flip", "5") { return r({2, 3}).flip({5}); }},
      E("flip twice", value, "flip", "0") { return r({2, 3}).flip({0, 0}); }},
      E("roll", index, "roll", "5") { return r({2, 3}).roll({1}, {5}); }},
      E("movedim", index, "movedim", "5") { return r({2, 3}).movedim(0, 5); }},
      E("diagonal", index, "diagonal", "5") { return r({2, 3}).diagonal(0, 0, 5); }},
      E("stack", index, "stack", "5") { return stack({r({2, 3}), r({2, 3})}, 5); }},
      E("stack shapes", shape, "stack", "[2, 3]", "[2, 4]") { return stack({r({2, 3}), r({2, 4})}); }},
      E("stack nothing", value, "stack") { return stack({}); }},
      E("cat nothing", value, "cat") { return cat({}); }},
      E("cat axis", index, "cat", "5") { return cat({r({2, 3})}, 5); }},
      E("split", value, "split", "-2") { return r({2, 3}).split(-2)[0]; }},
      E("split sum", value, "split", "3", "[1, 1]") { return r({2, 3}).split({1, 1}, 1)[0]; }},
      E("chunk", value, "chunk", "0") { return r({2, 3}).chunk(0)[0]; }},
      E("unflatten", shape, "unflatten", "[2, 2]", "3") { return r({2, 3}).unflatten(1, {2, 2}); }},
      E("flatten", value, "flatten") { return r({2, 3, 4}).flatten(2, 1); }},
      E("t", shape, "t", "[2, 3, 4]") { return r({2, 3, 4}).t(); }},
      E("view", shape, "view", "reshape") { return r({2, 3}).t().view({6}); }},
      E("view count", shape, "view", "[2, 3]", "[4]") { return r({2, 3}).view({4}); }},
      E("view two -1", shape, "view", "[-1, -1]") { return r({2, 3}).view({-1, -1}); }},
      E("unfold", value, "unfold", "7", "3") { return r({2, 3}).unfold(1, 7, 1); }},
      E("as_strided", value, "as_strided") { return r({2, 3}).as_strided({9}, {9}); }},
      E("repeat", shape, "repeat", "[2, 3]") { return r({2, 3}).repeat({2}); }},
      // sizes and numbers
      E("zeros", value, "-2") { return zeros({2, -2}); }},
      E("rand", value, "-2") { return rand({-2}); }},
      E("arange", value, "arange", "zero") { return arange(0, 3, 0); }},
      E("linspace", value, "linspace", "-2") { return linspace(0, 1, -2); }},
      E("eye", value, "eye", "-2") { return eye(-2); }},
      E("randint", value, "randint", "[3, 3)") { return randint(3, 3, {2}); }},
      E("rand of whole numbers", type, "rand", "int64") { return rand({2}, kInt64); }},
      E("randn of whole numbers", type, "randn", "int32") { return randn({2}, kInt32); }},
      E("one_hot", value, "one_hot", "5", "3") { return one_hot(ints({5}), 3); }},
      E("dropout", value, "dropout", "1.5") { return dropout(r({2}), 1.5, true); }},
      E("clamp", value, "clamp") { return r({2}).clamp(std::optional<Scalar>(), std::optional<Scalar>()); }},
      E("pow", value, "pow", "int64", "-1") { return ints({1, 2}).pow(-1); }},
      E("div mode", value, "div", "up") { return r({2}).div(r({2}), "up"); }},
      E("gelu", value, "gelu", "fast") { return gelu(r({2}), "fast"); }},
      E("norm axis", index, "norm", "5") { return r({2, 3}).norm(Scalar(2), 5); }},
      // empty
      E("amax of nothing", value, "amax", "[0, 3]") { return r({0, 3}).amax(0); }},
      E("argmin of nothing", value, "argmin", "[0, 3]") { return r({0, 3}).argmin(0); }},
      E("max of nothing", value, "max") { return r({0}).max(); }},
      E("median of nothing", value, "median") { return std::get<0>(r({0, 3}).median(0)); }},
      // indices
      E("select", index, "select", "7", "3") { return r({2, 3}).select(1, 7); }},
      E("operator[]", index, "select", "-4", "3") { return r({3, 2})[-4]; }},
      E("narrow", index, "narrow", "7", "3") { return r({2, 3}).narrow(1, 7, 1); }},
      E("narrow length", index, "narrow", "4", "3") { return r({2, 3}).narrow(1, 0, 4); }},
      E("slice step", value, "slice", "0") { return r({2, 3}).slice(0, 0, 2, 0); }},
      E("index", index, "index", "7", "3") { return r({3}).index({7}); }},
      E("index count", index, "index", "[2, 3]") { return r({2, 3}).index({0, 0, 0}); }},
      E("index tensor", index, "7", "3") { return r({3}).index({ints({0, 7})}); }},
      E("index mask", index, "index", "[3]", "[2]") { return r({3}).index({tensor({true, false})}); }},
      E("index floating", type, "index", "float32") { return r({3}).index({r({2})}); }},
      E("index broadcast", shape, "index", "2", "3") { return r({4, 4}).index({ints({0, 1}), ints({0, 1, 2})}); }},
      E("index_select", index, "index_select", "7", "3") { return r({2, 3}).index_select(1, ints({7})); }},
      E("index_select rank", shape, "index_select", "[1, 1]") { return r({2, 3}).index_select(1, ints({1}).unsqueeze(0)); }},
      E("index_select type", type, "index_select", "float32") { return r({2, 3}).index_select(1, r({1})); }},
      E("gather", index, "gather", "7", "3") { return r({2, 3}).gather(1, ints({7}).unsqueeze(0)); }},
      E("gather rank", shape, "gather", "[2, 3]", "[1]") { return r({2, 3}).gather(1, ints({1})); }},
      E("scatter", index, "scatter", "7", "3") { return r({2, 3}).scatter(1, ints({7}).unsqueeze(0), r({1, 1})); }},
      E("scatter type", type, "scatter", "float32", "float64") { return r({2, 3}).scatter(1, ints({1}).unsqueeze(0), randn({1, 1}, kFloat64)); }},
      E("scatter_add", index, "scatter_add", "-5") { return r({2, 3}).scatter_add(1, ints({-5}).unsqueeze(0), r({1, 1})); }},
      E("index_add", shape, "index_add", "[2, 3]") { return r({2, 3}).index_add(0, ints({0}), r({2, 3})); }},
      E("index_put_", shape, "index_put_", "2", "[3]") { return r({4}).index_put_({ints({0, 1})}, r({3})); }},
      E("take", index, "take", "7", "6") { return r({2, 3}).take(ints({7})); }},
      E("embedding", index, "embedding", "7", "3") { return embedding(r({3, 2}), ints({7})); }},
      E("masked_fill", type, "masked_fill", "float32") { return r({2}).masked_fill(r({2}), 1); }},
      E("masked_fill shape", shape, "masked_fill", "[2]", "[3]") { return r({2}).masked_fill(ones({3}, kBool), 1); }},
      E("masked_select", type, "masked_select", "int64") { return r({2}).masked_select(ints({0, 1})); }},
      E("where", type, "where", "float32") { return where(r({2}), r({2}), r({2})); }},
      E("item", value, "item", "[2]") { return Tensor(tensor(r({2}).item<float>())); }},
      // types
      E("matmul types", type, "matmul", "float32", "float64") { return matmul(r({2, 2}), randn({2, 2}, kFloat64)); }},
      E("mean of whole numbers", type, "mean", "int64") { return ints({1, 2}).mean(); }},
      E("softmax of whole numbers", type, "softmax", "int64") { return ints({1, 2}).softmax(0); }},
      E("var of whole numbers", type, "var", "int64") { return ints({1, 2}).var(); }},
      E("bitwise_and", type, "bitwise_and", "float32") { return r({2}) & r({2}); }},
      E("shift", type, "bitwise_left_shift", "bool") { return tensor({true}) << tensor({true}); }},
      E("neg of booleans", type, "neg", "bool") { return -tensor({true}); }},
      E("sub of booleans", type, "sub", "bool") { return tensor({true}) - tensor({true}); }},
      E("alpha", type, "add", "alpha", "int64") { return add(ints({1}), ints({2}), 0.5); }},
      E("in place type", type, "add", "float32", "int64") { Tensor t = ints({1, 2}); return t.add_(r({2})); }},
      E("in place shape", shape, "add", "[2]", "[3, 2]") { Tensor t = r({2}); return t.add_(r({3, 2})); }},
      E("in place on expanded", value, "add_") { Tensor t = r({2, 1}).expand({2, 3}); return t.add_(1); }},
      // products, layers
      E("mm", shape, "mm", "[2, 3, 4]") { return mm(r({2, 3, 4}), r({4, 2})); }},
      E("bmm", shape, "bmm", "[2, 3]") { return bmm(r({2, 3}), r({3, 2})); }},
      E("mv", shape, "mv", "[2, 3]", "[2]") { return mv(r({2, 3}), r({2})); }},
      E("dot", shape, "dot", "[2]", "[3]") { return dot(r({2}), r({3})); }},
      E("addmm", shape, "addmm", "[7]", "[2, 3], [3, 4]") { return addmm(r({7}), r({2, 3}), r({3, 4})); }},
      E("trace", shape, "trace", "[2, 3, 4]") { return trace(r({2, 3, 4})); }},
      E("linear", shape, "linear", "[2, 3]", "[5, 4]") { return linear(r({2, 3}), r({5, 4})); }},
      E("layer_norm", shape, "layer_norm", "[2, 3]", "[4]") { return layer_norm(r({2, 3}), {4}); }},
      E("conv2d", shape, "conv2d", "[1, 3, 5, 5]", "[4, 2, 3, 3]") { return conv2d(r({1, 3, 5, 5}), r({4, 2, 3, 3})); }},
      E("conv2d stride", value, "conv2d", "stride", "0") { return conv2d(r({1, 2, 5, 5}), r({4, 2, 3, 3}), {}, 0); }},
      E("max_pool2d", value, "max_pool2d", "padding") { return max_pool2d(r({1, 2, 5, 5}), 2, 2, 2); }},
      E("cross_entropy", index, "cross_entropy", "7", "2") { return nn::functional::cross_entropy(r({1, 3}), ints({7})); }},
      E("cross_entropy shape", shape, "cross_entropy", "[2, 3]", "[3]") { return nn::functional::cross_entropy(r({2, 3}), ints({0, 1, 2})); }},
      E("attention", shape, "scaled_dot_product_attention", "[2, 3, 4]", "[2, 3, 5]") { return scaled_dot_product_attention(r({2, 3, 4}), r({2, 3, 5}), r({2, 3, 5})); }},
      E("glu", shape, "glu", "[3]") { return nn::functional::glu(r({3})); }},
      E("bincount", value, "bincount", "-2") { return bincount(ints({1, -2})); }},
      E("conv_transpose2d", shape, "conv_transpose2d", "[1, 3, 5, 5]", "[4, 2, 3, 3]") { return conv_transpose2d(r({1, 3, 5, 5}), r({4, 2, 3, 3})); }},
      // einsum, einops
      E("einsum label", value, "einsum", "ij,jk->il", "l") { return einsum("ij,jk->il", {r({2, 3}), r({3, 4})}); }},
      E("einsum output", value, "einsum", "i") { return einsum("ij->ii", {r({2, 2})}); }},
      E("einsum extent", value, "einsum", "[2, 3]", "[4, 5]", "j") { return einsum("ij,jk", {r({2, 3}), r({4, 5})}); }},
      E("einsum operands", value, "einsum", "2", "1") { return einsum("ij,jk", {r({2, 3})}); }},
      E("rearrange", shape, "rearrange", "a b c", "[2, 3]") { return rearrange(r({2, 3}), "a b c -> c b a"); }},
      E("rearrange extent", shape, "rearrange", "3", "2") { return rearrange(r({2, 3}), "a (b c) -> a b c", {{"b", 2}}); }},
      // gradients
      E("backward of a vector", autograd, "backward", "2") { const Tensor x = r({2}).requires_grad_(); (x * 2).backward(); return x; }},
      E("backward of a constant", autograd, "backward", "require") { r({2}).sum().backward(); return {}; }},
      E("backward twice", autograd, "backward", "retain_graph") { const Tensor x = r({2}).requires_grad_(); const Tensor y = x.exp().sum(); y.backward(); y.backward(); return x; }},
      E("grad unused", autograd, "grad", "allow_unused") { const Tensor x = r({2}).requires_grad_(), z = r({2}).requires_grad_(); return autograd::grad({x.sum()}, {z})[0]; }},
      E("leaf in place", autograd, "add_", "leaf") { Tensor x = r({2}).requires_grad_(); return x.add_(1); }},
      E("requires_grad_", autograd, "requires_grad_", "int64") { Tensor x = ints({1}); return x.requires_grad_(); }},
  };
  return rows;
}
}  // namespace

TEST_CASE("G01 a shape mismatch names the op and the user's shapes, in every mode, forward and backward") {
  for (const Row& row : shapes()) check(row);
  // In a backward: the gradient that a user's hook returns does not fit.
  for (const bool compiled : {false, true}) {
    const Tensor x = randn({2, 3}).requires_grad_();
    const auto body = [&] {
      const Tensor y = x.exp();
      y.register_hook([](const Tensor&) { return randn({4}); });
      y.sum().backward();
    };
    auto f = compile(body);
    const auto [type, text] = outcome([&] { compiled ? f() : body(); });
    INFO(text);
    CHECK(type == "ShapeError");
    CHECK_THAT(text, Catch::Matchers::Contains("[4]") && Catch::Matchers::Contains("[2, 3]"));
  }
}
TEST_CASE("G04 random numbers of whole types are refused by the op itself") {
  for (const bool uniform : {true, false}) {
    const auto [type, text] = outcome([&] { uniform ? tracer::random_uniform({2}, kInt64) : tracer::random_normal({2}, kBool); });
    CHECK(type == "DtypeError");
    CHECK_THAT(text, Catch::Matchers::Contains(uniform ? "random_uniform" : "random_normal") && Catch::Matchers::Contains(uniform ? "int64" : "bool"));
  }
}
TEST_CASE("G02 compiled functions tell users' errors, and take other ranks") {
  auto sum_of = compile([](const Tensor& t) { return (t * 2).sum(); });
  CHECK(sum_of(ones({2, 3})).item<float>() == 12);
  CHECK(sum_of(ones({2, 3, 4})).item<float>() == 48);
  auto alias = compile([](const Tensor& t) -> variable_list { const Tensor y = t.exp(); return {y, y.view({3, 2}), y.t()}; });
  const Tensor x = randn({2, 3});
  const variable_list out = alias(x);
  CHECK(out[1].is_alias_of(out[0]));
  CHECK(out[2].allclose(x.exp().t()));
  auto bits = compile([](const Tensor& a, const Tensor& b) { return (a * 2) & b; });
  const auto [type, text] = outcome([&] { bits(randn({3}), ones({3}, kInt64)); });
  CHECK(type == "DtypeError");
  CHECK_THAT(text, Catch::Matchers::Contains("bitwise_and") && Catch::Matchers::Contains("float32"));
  CHECK(bits(ones({3}, kInt64), ones({3}, kInt64)).sum().item<int64_t>() == 0);
}
TEST_CASE("G04 every documented failure has its type, the op, the bad value and the range") {
  for (const Row& row : failures()) check(row);
}
