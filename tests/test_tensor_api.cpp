// The public tensor: every row of the op table as member, function and in place with a value known by hand; what a tensor
// is; creation; types and promotion; text; errors. And that every name that the headers declare is called by some test.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include "frit/print.h"
#include "runtime/error.h"
#include "tests/support/tensor_check.h"
#include "tracer/op_table.h"

using namespace frit;
using namespace frit::testing;
using Catch::Matchers::Contains;

namespace {
constexpr double infinity = INFINITY;

struct Unary {
  const char* name;
  Tensor (*member)(const Tensor&);
  Tensor (*function)(const Tensor&);
  Tensor& (*write)(Tensor&);
};
const Unary unary_rows[] = {
#define UNARY(name, ...) {#name, [](const Tensor& a) { return a.name(); }, [](const Tensor& a) { return frit::name(a); }, [](Tensor& a) -> Tensor& { return a.name##_(); }},
#include "tracer/ops.def"
};
struct Binary {
  const char* name;
  Tensor (*member)(const Tensor&, const Tensor&);
  Tensor (*member_number)(const Tensor&, const Scalar&);
  Tensor (*function)(const Tensor&, const Tensor&);
  Tensor (*function_right)(const Tensor&, const Scalar&);
  Tensor (*function_left)(const Scalar&, const Tensor&);
  Tensor& (*write)(Tensor&, const Tensor&);
  Tensor& (*write_number)(Tensor&, const Scalar&);
};
const Binary binary_rows[] = {
#define BINARY(name, ...)                                                                                                        \
  {#name, [](const Tensor& a, const Tensor& b) { return a.name(b); }, [](const Tensor& a, const Scalar& b) { return a.name(b); }, \
   [](const Tensor& a, const Tensor& b) { return frit::name(a, b); }, [](const Tensor& a, const Scalar& b) { return frit::name(a, b); }, \
   [](const Scalar& a, const Tensor& b) { return frit::name(a, b); },                                                              \
   [](Tensor& a, const Tensor& b) -> Tensor& { return a.name##_(b); }, [](Tensor& a, const Scalar& b) -> Tensor& { return a.name##_(b); }},
#define HIDDEN_BINARY(...)
#include "tracer/ops.def"
};

// name, arguments, result. Integer rows have whole arguments.
const std::map<std::string, std::vector<double>> known = {
    {"logical_not", {3, 0}}, {"isnan", {NAN, 1}}, {"isinf", {-infinity, 1}}, {"isfinite", {2, 1}}, {"bitwise_not", {5, -6}},
    {"neg", {2.5, -2.5}}, {"abs", {-2.5, 2.5}}, {"sign", {-7, -1}}, {"square", {-3, 9}}, {"floor", {-1.5, -2}}, {"ceil", {-1.5, -1}}, {"trunc", {-1.7, -1}},
    {"round", {2.5, 2}}, {"frac", {-1.75, -0.75}}, {"reciprocal", {4, 0.25}}, {"sqrt", {9, 3}}, {"rsqrt", {4, 0.5}}, {"exp", {1, 2.718281828459045}},
    {"exp2", {3, 8}}, {"expm1", {1e-9, 1.0000000005e-9}}, {"log", {10, 2.302585092994046}}, {"log2", {8, 3}}, {"log10", {1000, 3}}, {"log1p", {1e-9, 9.999999995e-10}},
    {"sin", {1, 0.8414709848078965}}, {"cos", {1, 0.5403023058681398}}, {"tan", {1, 1.5574077246549023}}, {"asin", {0.5, 0.5235987755982989}},
    {"acos", {0.5, 1.0471975511965979}}, {"atan", {1, 0.7853981633974483}}, {"sinh", {1, 1.1752011936438014}}, {"cosh", {1, 1.5430806348152437}},
    {"tanh", {1, 0.7615941559557649}}, {"asinh", {1, 0.881373587019543}}, {"acosh", {2, 1.3169578969248166}}, {"atanh", {0.5, 0.5493061443340549}},
    {"erf", {1, 0.8427007929497149}}, {"erfc", {1, 0.15729920705028513}}, {"lgamma", {5, 3.1780538303479458}}, {"digamma", {1, -0.5772156649015329}},
    {"sigmoid", {1, 0.7310585786300049}}, {"relu", {-2, 0}}, {"relu6", {9, 6}}, {"softplus", {1, 1.3132616875182228}}, {"gelu", {1, 0.8413447460685429}},
    {"gelu_tanh", {1, 0.8411919906082768}}, {"silu", {1, 0.7310585786300049}}, {"mish", {1, 0.8650983882673103}}, {"hardswish", {1, 0.6666666666666666}},
    {"add", {5, 3, 8}}, {"sub", {5, 3, 2}}, {"mul", {5, 3, 15}}, {"div", {7, 2, 3.5}}, {"floor_divide", {-7, 2, -4}}, {"trunc_divide", {-7, 2, -3}},
    {"remainder", {-7, 3, 2}}, {"fmod", {-7, 3, -1}}, {"maximum", {2, 5, 5}}, {"minimum", {2, 5, 2}}, {"atan2", {1, -1, 2.356194490192345}},
    {"logaddexp", {1, 2, 2.313261687518223}}, {"copysign", {3, -0.5, -3}}, {"eq", {2, 2, 1}}, {"ne", {2, 2, 0}}, {"lt", {1, 2, 1}}, {"le", {2, 2, 1}},
    {"gt", {1, 2, 0}}, {"ge", {3, 2, 1}}, {"logical_and", {2, 0, 0}}, {"logical_or", {2, 0, 1}}, {"logical_xor", {2, 3, 0}}, {"bitwise_and", {12, 10, 8}},
    {"bitwise_or", {12, 10, 14}}, {"bitwise_xor", {12, 10, 6}}, {"bitwise_left_shift", {3, 4, 48}}, {"bitwise_right_shift", {-16, 2, -4}},
    {"leaky_relu", {-2, 0.1, -0.2}}, {"elu", {-1, 2, -1.2642411176571153}}};

bool whole(const std::string& name) { return name.rfind("bitwise", 0) == 0; }
Tensor one(double x, bool integer) { return integer ? full({2}, int64_t(x), kInt64) : full({2}, x, kFloat64); }
Scalar number(double x, bool integer) { return integer ? Scalar(int64_t(x)) : Scalar(x); }
bool near(const Tensor& t, double want) {
  const double got = t.to(kFloat64).select(0, 1).item<double>();
  return std::abs(got - want) <= 1e-14 + 4e-15 * std::abs(want);
}
}  // namespace

TEST_CASE("api: every unary row by a known value") {
  for (const Unary& r : unary_rows) {
    INFO(r.name);
    REQUIRE(known.count(r.name));
    const std::vector<double>& v = known.at(r.name);
    Tensor a = one(v[0], whole(r.name));
    CHECK(near(r.member(a), v[1]));
    CHECK(near(r.function(a), v[1]));
    CHECK(&r.write(a) == &a);
    CHECK(near(a, v[1]));
    CHECK(a.dtype() == (whole(r.name) ? kInt64 : kFloat64));
  }
}
TEST_CASE("api: every binary row by a known value") {
  for (const Binary& r : binary_rows) {
    INFO(r.name);
    REQUIRE(known.count(r.name));
    const std::vector<double>& v = known.at(r.name);
    const bool w = whole(r.name);
    const Tensor a = one(v[0], w), b = one(v[1], w);
    CHECK(near(r.member(a, b), v[2]));
    CHECK(near(r.member_number(a, number(v[1], w)), v[2]));
    CHECK(near(r.function(a, b), v[2]));
    CHECK(near(r.function_right(a, number(v[1], w)), v[2]));
    CHECK(near(r.function_left(number(v[0], w), b), v[2]));
    Tensor c = a.clone(), d = a.clone();
    CHECK(&r.write(c, b) == &c);
    CHECK(near(c, v[2]));
    CHECK(near(r.write_number(d, number(v[1], w)), v[2]));
  }
}
TEST_CASE("api: rows of three operands, and rows under other names") {
  const Tensor a = tensor({1., 2.}, kFloat64), b = tensor({3., 6.}, kFloat64), c = tensor({0.5, 0.25}, kFloat64), yes = tensor({true, false});
  IS(a.lerp(b, 0.5), kFloat64, {2}, {2, 4});
  IS(frit::lerp(a, b, c), kFloat64, {2}, {2, 3});
  IS(frit::lerp(a, b, Scalar(0.25)), kFloat64, {2}, {1.5, 3});
  Tensor w = a.clone();
  IS(w.lerp_(b, 0.5), kFloat64, {2}, {2, 4});
  IS(w.lerp_(b, c), kFloat64, {2}, {2.5, 4.5});
  IS(frit::where(yes, a, b), kFloat64, {2}, {1, 6});
  IS(frit::where(yes, Scalar(7), b), kFloat64, {2}, {7, 6});
  IS(frit::where(yes, a, Scalar(7)), kFloat64, {2}, {1, 7});
  IS(frit::where(yes, Scalar(1), Scalar(0)), kInt64, {2}, {1, 0});
  IS(frit::where(yes, Scalar(1.5), Scalar(0.5)), kFloat32, {2}, {1.5, 0.5});
  IS(a.where(yes, b), kFloat64, {2}, {1, 6});
  IS(frit::where(yes)[0], kInt64, {1}, {0});
  IS(a.addcmul(b, c), kFloat64, {2}, {2.5, 3.5});
  IS(frit::addcmul(a, b, c, 2), kFloat64, {2}, {4, 5});
  w = a.clone();
  IS(w.addcmul_(b, c, 2), kFloat64, {2}, {4, 5});
  IS(a.addcdiv(b, c), kFloat64, {2}, {7, 26});
  IS(frit::addcdiv(a, b, c, 0.5), kFloat64, {2}, {4, 14});
  w = a.clone();
  IS(w.addcdiv_(b, c), kFloat64, {2}, {7, 26});
  const Tensor x = tensor({-2., 0.5, 9., NAN});
  IS(x.clamp(Scalar(-1), Scalar(1)), kFloat32, {4}, {-1, 0.5, 1, NAN});
  IS(frit::clamp(x, Scalar(0)), kFloat32, {4}, {0, 0.5, 9, NAN});
  IS(x.clamp(std::nullopt, Scalar(0)), kFloat32, {4}, {-2, 0, 0, NAN});
  IS(x.clamp(std::optional<Tensor>(tensor({0., 1., 2., 3.})), std::optional<Tensor>(tensor({5., 6., 7., 8.}))), kFloat32, {4}, {0, 1, 7, NAN});
  IS(x.clamp_min(Scalar(0)), kFloat32, {4}, {0, 0.5, 9, NAN});
  IS(x.clamp_max(Scalar(0)), kFloat32, {4}, {-2, 0, 0, NAN});
  IS(frit::clamp_min(x, 0), kFloat32, {4}, {0, 0.5, 9, NAN});
  IS(frit::clamp_max(x, 0), kFloat32, {4}, {-2, 0, 0, NAN});
  IS(x.clamp_min(tensor(1.)), kFloat32, {4}, {1, 1, 9, NAN});
  IS(x.clip(Scalar(-1), Scalar(1)), kFloat32, {4}, {-1, 0.5, 1, NAN});
  IS(frit::clip(x, Scalar(-1), Scalar(1)), kFloat32, {4}, {-1, 0.5, 1, NAN});
  w = x.clone();
  IS(w.clamp_(Scalar(-1), Scalar(2)), kFloat32, {4}, {-1, 0.5, 2, NAN});
  IS(w.clamp_min_(0), kFloat32, {4}, {0, 0.5, 2, NAN});
  IS(w.clamp_max_(1), kFloat32, {4}, {0, 0.5, 1, NAN});
  IS(x.hardtanh(), kFloat32, {4}, {-1, 0.5, 1, NAN});
  const Tensor odd = tensor({NAN, INFINITY, -INFINITY, 2.});
  IS(odd.nan_to_num(7, 8, 9), kFloat32, {4}, {7, 8, 9, 2});
  IS(frit::nan_to_num(odd), kFloat32, {4}, {0, 3.4028234663852886e38, -3.4028234663852886e38, 2});
  w = odd.clone();
  IS(w.nan_to_num_(1, 2, 3), kFloat32, {4}, {1, 2, 3, 2});
  IS(a.gelu("tanh"), kFloat64, {2}, {0.8411919906082768, 1.954597694087775});
  IS(frit::gelu(a, "none"), kFloat64, {2}, {0.8413447460685429, 1.9544997361036416});
  IS(frit::elu(tensor({-1., 2.})), kFloat32, {2}, {-0.6321205588285577, 2});
  IS(frit::leaky_relu(tensor({-1., 2.})), kFloat32, {2}, {-0.01, 2});
  IS(frit::selu(tensor({-1., 2.})), kFloat32, {2}, {-1.1113307378125625, 2.101401974711089});
  IS(a.pow(2), kFloat64, {2}, {1, 4});
  IS(a.pow(b), kFloat64, {2}, {1, 64});
  IS(frit::pow(a, b), kFloat64, {2}, {1, 64});
  IS(frit::pow(a, Scalar(-1)), kFloat64, {2}, {1, 0.5});
  IS(frit::pow(2, b), kFloat64, {2}, {8, 64});
  w = b.clone();
  IS(w.pow_(Scalar(2)), kFloat64, {2}, {9, 36});
  IS(w.pow_(a), kFloat64, {2}, {9, 1296});
  IS(a.add(b, 10), kFloat64, {2}, {31, 62});
  IS(frit::sub(a, b, 10), kFloat64, {2}, {-29, -58});
  IS(frit::add(a, b, 2), kFloat64, {2}, {7, 14});
  IS(a.sub(b, 2), kFloat64, {2}, {-5, -10});
  w = a.clone();
  IS(w.add_(b, 2).sub_(b, 1), kFloat64, {2}, {4, 8});
  IS(b.div(tensor({2., -4.}, kFloat64), "floor"), kFloat64, {2}, {1, -2});
  IS(frit::div(b, tensor({2., -4.}, kFloat64), "trunc"), kFloat64, {2}, {1, -1});
  IS(b.div(Scalar(4), "floor"), kFloat64, {2}, {0, 1});
  IS(tensor({-7, 7}).div(Scalar(2), "floor"), kInt64, {2}, {-4, 3});
  IS(tensor({-7, 7}).div(Scalar(2), "trunc"), kInt64, {2}, {-3, 3});
  IS(a.multiply(b), kFloat64, {2}, {3, 12});
  IS(a.subtract(b), kFloat64, {2}, {-2, -4});
  IS(b.divide(a), kFloat64, {2}, {3, 3});
  IS(b.true_divide(a), kFloat64, {2}, {3, 3});
  IS(a.negative(), kFloat64, {2}, {-1, -2});
  IS((-a).absolute(), kFloat64, {2}, {1, 2});
  IS(a.greater(b), kBool, {2}, {0, 0});
  IS(a.less(b), kBool, {2}, {1, 1});
}

TEST_CASE("api: operators") {
  const Tensor a = tensor({7, 8}), b = tensor({2, 3});
  IS(a + b, kInt64, {2}, {9, 11});
  IS(a - 1, kInt64, {2}, {6, 7});
  IS(10 - a, kInt64, {2}, {3, 2});
  IS(a * 0.5, kFloat32, {2}, {3.5, 4});
  IS(a / b, kFloat32, {2}, {3.5, 8. / 3});
  IS(a % b, kInt64, {2}, {1, 2});
  IS(1.0 / b, kFloat32, {2}, {0.5, 1. / 3});
  IS(a == 7, kBool, {2}, {1, 0});
  IS(a != b, kBool, {2}, {1, 1});
  IS(a < 8, kBool, {2}, {1, 0});
  IS(8 <= a, kBool, {2}, {0, 1});
  IS(a > 7, kBool, {2}, {0, 1});
  IS(a >= b, kBool, {2}, {1, 1});
  IS(a & b, kInt64, {2}, {2, 0});
  IS(a | b, kInt64, {2}, {7, 11});
  IS(a ^ b, kInt64, {2}, {5, 11});
  IS(a << b, kInt64, {2}, {28, 64});
  IS(a >> 1, kInt64, {2}, {3, 4});
  IS(-a, kInt64, {2}, {-7, -8});
  IS(~a, kInt64, {2}, {-8, -9});
  IS(~tensor({true, false}), kBool, {2}, {0, 1});
  Tensor c = a.clone();
  c += b, c -= 1, c *= b;
  IS(c, kInt64, {2}, {16, 30});
  c %= 7, c |= 8, c &= tensor({14, 15}), c ^= 1, c <<= 2, c >>= 1;
  IS(c, kInt64, {2}, {22, 22});
  Tensor d = tensor({3., 4.});
  d /= 2, d += tensor({1., 1.}), d *= 2, d -= tensor({0.5, 0.5}), d /= tensor({0.5, 0.25});
  IS(d, kFloat32, {2}, {9, 22});
}

TEST_CASE("api: what a tensor is") {
  Tensor none;
  CHECK(!none.defined());
  CHECK_THAT(thrown<ValueError>([&] { none.sizes(); }), Contains("undefined") && Contains("Give it a value first"));
  const Tensor t = arange(24, kFloat32).reshape({2, 3, 4}), s = t.slice(2, 1, 4, 2);
  CHECK(t.defined());
  CHECK(t.sizes() == IntArrayRef({2, 3, 4}));
  CHECK(t.strides() == IntArrayRef({12, 4, 1}));
  CHECK(t.size(-1) == 4);
  CHECK(t.stride(1) == 4);
  CHECK(t.dim() == 3);
  CHECK(t.ndimension() == 3);
  CHECK(t.numel() == 24);
  CHECK(t.storage_offset() == 0);
  CHECK(t.dtype() == kFloat32);
  CHECK(t.scalar_type() == kFloat32);
  CHECK(t.device().is_cpu());
  CHECK(t.options().dtype() == kFloat32);
  CHECK(t.element_size() == 4);
  CHECK(t.itemsize() == 4);
  CHECK(t.nbytes() == 96);
  CHECK(t.is_contiguous());
  CHECK(t.is_floating_point());
  CHECK(!t.is_cuda());
  CHECK(t.is_cpu());
  CHECK(t.is_same(t));
  CHECK(!t.is_same(s));
  CHECK(t.is_alias_of(s));
  CHECK(!t.is_alias_of(t.clone()));
  CHECK(s.strides() == IntArrayRef({12, 4, 2}));
  CHECK(s.storage_offset() == 1);
  CHECK(!s.is_contiguous());
  CHECK(t[1][2][3].item<float>() == 23);
  CHECK(t[0][0][1].item().to_double() == 1);
  CHECK(tensor({3}).item().category() == handle::Category::integer);
  CHECK(tensor(true).item<bool>());
  CHECK(t.data_ptr<float>()[5] == 5);
  CHECK(s.const_data_ptr<float>()[0] == 1);
  CHECK(t.data_ptr() == t.data_ptr<float>());
  CHECK_THAT(thrown<ValueError>([&] { t.item(); }), Contains("[2, 3, 4]") && Contains("24 elements"));
  CHECK_THAT(thrown<DtypeError>([&] { t.data_ptr<double>(); }), Contains("float32") && Contains("float64") && Contains("to()"));
  Tensor v = zeros({2});
  const uint64_t version = v._version();
  v.add_(Scalar(1));
  CHECK(v._version() == version + 1);
  v.detach().add_(Scalar(1));
  CHECK(v._version() == version + 2);
}

TEST_CASE("api: types, devices, copies") {
  const Tensor t = tensor({1.7, -1.7, 300., 0.});
  IS(t.to(kInt32), kInt32, {4}, {1, -1, 300, 0});
  IS(t.to(kBool), kBool, {4}, {1, 1, 1, 0});
  IS(t.to(kFloat16), kFloat16, {4}, {1.7001953125, -1.7001953125, 300, 0});
  IS(t.to(kBFloat16), kBFloat16, {4}, {1.703125, -1.703125, 300, 0});
  IS(tensor({300, -1}).to(kUInt8), kUInt8, {2}, {44, 255});
  CHECK(t.to(kFloat32).is_same(t));
  CHECK(!t.to(kFloat32, false, true).is_alias_of(t));
  CHECK(t.to(Device(kCPU)).is_same(t));
  IS(t.to(Device(kCPU), kInt64), kInt64, {4}, {1, -1, 300, 0});
  IS(t.to(TensorOptions(kInt64)), kInt64, {4}, {1, -1, 300, 0});
  IS(t.to(tensor({1})), kInt64, {4}, {1, -1, 300, 0});
  IS(t.type_as(tensor({1})), kInt64, {4}, {1, -1, 300, 0});
  CHECK(t.cpu().is_same(t));
  CHECK_THAT(thrown<Error>([&] { t.cuda(); }), Contains("CPU"));
  const Tensor m = arange(6).reshape({2, 3}).t();
  CHECK(m.contiguous().strides() == IntArrayRef({2, 1}));
  CHECK(m.clone().strides() == IntArrayRef({1, 3}));  // keeps the order of the strides
  CHECK(!m.clone().is_alias_of(m));
  CHECK(arange(3).contiguous().is_contiguous());
  Tensor c = zeros({2, 3});
  IS(c.copy_(tensor({1, 2, 3})), kFloat32, {2, 3}, {1, 2, 3, 1, 2, 3});
  IS(c.fill_(2.5), kFloat32, {2, 3}, {2.5, 2.5, 2.5, 2.5, 2.5, 2.5});
  IS(c.fill_(tensor(4)), kFloat32, {2, 3}, {4, 4, 4, 4, 4, 4});
  IS(c.zero_(), kFloat32, {2, 3}, {0, 0, 0, 0, 0, 0});
  manual_seed(3);
  CHECK(c.uniform_(2, 3).min().item<float>() >= 2);
  CHECK(c.max().item<float>() < 3);
  CHECK(std::abs(zeros({5000}).normal_(10, 2).mean().item<float>() - 10) < 0.2);
  IS(c.bernoulli_(1), kFloat32, {2, 3}, {1, 1, 1, 1, 1, 1});
  IS(tensor({0., 1.}).bernoulli(), kFloat32, {2}, {0, 1});
  IS(frit::bernoulli(tensor({1., 0.})), kFloat32, {2}, {1, 0});
  IS(tensor({0., 1., 0.}).multinomial(2, true), kInt64, {2}, {1, 1});
  IS(frit::multinomial(tensor({0., 1.}), 1), kInt64, {1}, {1});
  CHECK(c.detach().is_alias_of(c));
  CHECK(c.variable_data().is_alias_of(c));
  CHECK(c.data().is_alias_of(c));
  CHECK(c.new_empty({4}).sizes() == IntArrayRef({4}));
  IS(c.new_zeros({1}), kFloat32, {1}, {0});
  IS(c.new_ones({1}, kInt64), kInt64, {1}, {1});
  IS(c.new_full({2}, 3), kFloat32, {2}, {3, 3});
}

TEST_CASE("api: creation") {
  CHECK(empty({2, 0, 3}).numel() == 0);
  IS(zeros({2}), kFloat32, {2}, {0, 0});
  IS(ones({2}, kInt8), kInt8, {2}, {1, 1});
  IS(full({2}, 3), kInt64, {2}, {3, 3});
  IS(full({2}, 2.5), kFloat32, {2}, {2.5, 2.5});
  IS(full({1}, true), kBool, {1}, {1});
  IS(full({}, 3, kFloat64), kFloat64, {}, {3});
  IS(arange(3), kInt64, {3}, {0, 1, 2});
  IS(arange(2.5), kFloat32, {3}, {0, 1, 2});
  IS(arange(1, 4), kInt64, {3}, {1, 2, 3});
  IS(arange(5, 0, -2), kInt64, {3}, {5, 3, 1});
  IS(arange(0, 1, 0.25, kFloat64), kFloat64, {4}, {0, 0.25, 0.5, 0.75});
  IS(arange(3, kFloat32), kFloat32, {3}, {0, 1, 2});
  IS(arange(1, 3, kInt32), kInt32, {2}, {1, 2});
  IS(linspace(0, 1, 5), kFloat32, {5}, {0, 0.25, 0.5, 0.75, 1});
  IS(linspace(3, 3, 1), kFloat32, {1}, {3});
  IS(eye(2), kFloat32, {2, 2}, {1, 0, 0, 1});
  IS(eye(2, 3, kInt64), kInt64, {2, 3}, {1, 0, 0, 0, 1, 0});
  IS(tril_indices(2, 3), kInt64, {2, 3}, {0, 1, 1, 0, 0, 1});
  IS(triu_indices(2, 3), kInt64, {2, 5}, {0, 0, 0, 1, 1, 0, 1, 2, 1, 2});
  IS(one_hot(tensor({2, 0})), kInt64, {2, 3}, {0, 0, 1, 1, 0, 0});
  IS(one_hot(tensor({1}), 2), kInt64, {1, 2}, {0, 1});
  const Tensor like = zeros({2, 1}, kInt16);
  CHECK(empty_like(like).dtype() == kInt16);
  IS(zeros_like(like), kInt16, {2, 1}, {0, 0});
  IS(ones_like(like, kFloat32), kFloat32, {2, 1}, {1, 1});
  IS(full_like(like, 7), kInt16, {2, 1}, {7, 7});
  CHECK(rand_like(like, kFloat32).sizes() == like.sizes());
  CHECK(randn_like(like, kFloat64).dtype() == kFloat64);
  CHECK(randint_like(like, 5).dtype() == kInt16);
  CHECK(randint_like(like, 4, 5).select(0, 0).item<int>() == 4);
  IS(scalar_tensor(2), kFloat32, {}, {2});
  CHECK(rand({3, 4}).sizes() == IntArrayRef({3, 4}));
  CHECK(randn({3}, kFloat16).dtype() == kFloat16);
  CHECK(randint(5, {4}).dtype() == kInt64);
  CHECK(randint(3, 4, {2}).eq(3).all().item<bool>());
  CHECK(std::get<0>(randperm(9).sort()).equal(arange(9)));
  const TensorList grid = meshgrid({arange(2), arange(3)});
  IS(grid[0], kInt64, {2, 3}, {0, 0, 0, 1, 1, 1});
  IS(grid[1], kInt64, {2, 3}, {0, 1, 2, 0, 1, 2});
  IS(tensor(2.5), kFloat32, {}, {2.5});
  IS(tensor({1, 2}), kInt64, {2}, {1, 2});
  IS(tensor({{1., 2.}, {3., 4.}}), kFloat32, {2, 2}, {1, 2, 3, 4});
  IS(tensor({true, false}), kBool, {2}, {1, 0});
  IS(tensor(std::vector<double>{1, 2}), kFloat32, {2}, {1, 2});
  IS(tensor({1.9, -1.9}, kInt32), kInt32, {2}, {1, -1});
  CHECK(tensor({1.}, frit::requires_grad()).requires_grad());
  float data[] = {1, 2, 3, 4, 5, 6};
  Tensor blob = from_blob(data, {2, 3});
  blob.mul_(2);
  CHECK(data[5] == 12);
  IS(from_blob(data, {3, 2}, {1, 3}), kFloat32, {3, 2}, {2, 8, 4, 10, 6, 12});
  int freed = 0;
  {
    Tensor owned = from_blob(data, {6}, [&](void* p) { freed += p == data; });
    const Tensor view = owned[2];
    owned = {};
    CHECK(freed == 0);
    CHECK(view.item<float>() == 6);
  }
  CHECK(freed == 1);
  CHECK_THAT(thrown<ValueError>([] { zeros({2, -1}); }), Contains("-1") && Contains("[2, -1]"));
  CHECK_THAT(thrown<ShapeError>([] { zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}); }), Contains("9 axes") && Contains("8"));
  CHECK_THAT(thrown<ValueError>([] { arange(0, 1, 0); }), Contains("step is zero"));
  CHECK_THAT(thrown<ValueError>([] { arange(0, 1, -1); }), Contains("leads away"));
  CHECK_THAT(thrown<DtypeError>([] { rand({2}, kInt64); }), Contains("int64") && Contains("randint"));
  CHECK_THAT(thrown<ValueError>([] { randint(3, 3, {1}); }), Contains("empty"));
  CHECK_THAT(thrown<ValueError>([] { tensor({{1, 2}, {3}}); }), Contains("different lengths"));
  CHECK_THAT(thrown<ValueError>([] { one_hot(tensor({3}), 2); }), Contains("class 3"));
  CHECK_THAT(thrown<Error>([] { zeros({1}, Device(kCUDA)); }), Contains("CPU"));
}

TEST_CASE("api: promotion") {
  // LibTorch's table: the type of a + b for tensors with axes.
  constexpr Dtype types[] = {kBool, kUInt8, kInt8, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};
  constexpr Dtype sums[10][10] = {
      {kBool, kUInt8, kInt8, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64},
      {kUInt8, kUInt8, kInt16, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64},
      {kInt8, kInt16, kInt8, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64},
      {kInt16, kInt16, kInt16, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64},
      {kInt32, kInt32, kInt32, kInt32, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64},
      {kInt64, kInt64, kInt64, kInt64, kInt64, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64},
      {kFloat16, kFloat16, kFloat16, kFloat16, kFloat16, kFloat16, kFloat16, kFloat32, kFloat32, kFloat64},
      {kBFloat16, kBFloat16, kBFloat16, kBFloat16, kBFloat16, kBFloat16, kFloat32, kBFloat16, kFloat32, kFloat64},
      {kFloat32, kFloat32, kFloat32, kFloat32, kFloat32, kFloat32, kFloat32, kFloat32, kFloat32, kFloat64},
      {kFloat64, kFloat64, kFloat64, kFloat64, kFloat64, kFloat64, kFloat64, kFloat64, kFloat64, kFloat64}};
  for (int i = 0; i < 10; ++i)
    for (int j = 0; j < 10; ++j) {
      INFO(dtype_name(types[i]) << " " << dtype_name(types[j]));
      CHECK((ones({2}, types[i]) + ones({2}, types[j])).dtype() == sums[i][j]);
      CHECK((ones({}, types[i]) + ones({}, types[j])).dtype() == sums[i][j]);
      // A tensor without axes counts only when its category is higher.
      const auto category = [](Dtype d) { return is_floating(d) ? 2 : d == kBool ? 0 : 1; };
      CHECK((ones({2}, types[i]) + ones({}, types[j])).dtype() == (category(types[j]) > category(types[i]) ? types[j] : types[i]));
    }
  CHECK((ones({2}, kUInt8) + 300).dtype() == kUInt8);
  CHECK((ones({2}, kInt32) + 0.5).dtype() == kFloat32);
  CHECK((ones({2}, kFloat16) + 0.5).dtype() == kFloat16);
  CHECK((ones({2}, kBool) + 1).dtype() == kInt64);
  CHECK((ones({2}, kBool) + true).dtype() == kBool);
  CHECK((ones({2}, kInt64) / ones({2}, kInt64)).dtype() == kFloat32);
  CHECK(ones({2}, kInt64).exp().dtype() == kFloat32);
  CHECK(ones({2}, kInt32).sum().dtype() == kInt64);
  CHECK(ones({2}, kFloat16).sum().dtype() == kFloat16);
  CHECK((ones({2}, kFloat64) > 1).dtype() == kBool);
}

TEST_CASE("api: text") {
  CHECK(Tensor().str() == "[ Tensor (undefined) ]");
  CHECK(tensor({1, 20, 3}).str() == "  1\n 20\n  3\n[ CPULongType{3} ]");
  CHECK(tensor({{1.5, -2.}, {0.25, 100.}}).str() == "   1.5000   -2.0000\n   0.2500  100.0000\n[ CPUFloatType{2,2} ]");
  CHECK(tensor(2.5).str() == "2.5\n[ CPUFloatType{} ]");
  CHECK(zeros({0, 3}).str() == "[ CPUFloatType{0,3} ]");
  CHECK(tensor({true, false}).str() == " 1\n 0\n[ CPUBoolType{2} ]");
  CHECK(arange(4).reshape({2, 1, 2}).str() == "(1,.,.) = \n  0  1\n\n(2,.,.) = \n  2  3\n[ CPULongType{2,1,2} ]");
  CHECK(tensor({1e-3, 1000000.}).str() == " 1.0000e-03\n 1.0000e+06\n[ CPUFloatType{2} ]");
  CHECK(tensor({NAN, 1.5}, kFloat64).str() == "    nan\n 1.5000\n[ CPUDoubleType{2} ]");
  CHECK(tensor({1, 2}).t().to(kFloat16).str() == " 1\n 2\n[ CPUHalfType{2} ]");
  std::ostringstream out;
  out << tensor({7}) << ' ' << IntArrayRef({2, 3}) << ' ' << kFloat32 << ' ' << Device(kCPU);
  CHECK(out.str() == " 7\n[ CPULongType{1} ] [2, 3] Float cpu");
}

TEST_CASE("api: gradients, modes, memory") {
  Tensor x = tensor({2., 3.}, kFloat64).requires_grad_(), y = x * x;
  CHECK(x.requires_grad());
  CHECK(x.is_leaf());
  CHECK(!y.is_leaf());
  y.sum().backward();
  IS(x.grad(), kFloat64, {2}, {4, 6});
  x.set_grad(ones({2}, kFloat64));
  IS(x.grad(), kFloat64, {2}, {1, 1});
  x.zero_grad(false);
  IS(x.grad(), kFloat64, {2}, {0, 0});
  x.zero_grad();
  CHECK(!x.grad().defined());
  (x * 3.0).backward(tensor({1., 2.}, kFloat64));
  IS(x.grad(), kFloat64, {2}, {3, 6});
  CHECK(!x.detach().requires_grad());
  Tensor z = x * 2.0;
  CHECK(!z.detach_().requires_grad());
  CHECK(!tensor({1.}).set_requires_grad(true).set_requires_grad(false).requires_grad());
  Tensor a = x * 2.0;
  a.retain_grad();
  double seen = 0;
  const uint64_t handle = a.register_hook([&](const Tensor& g) { seen += g.sum().item<double>(); });
  a.sum().backward({}, true);
  CHECK(seen == 2);
  IS(a.grad(), kFloat64, {2}, {1, 1});
  a.remove_hook(handle);
  a.sum().backward();
  CHECK(seen == 2);
  CHECK(AutoGradMode::is_enabled());
  {
    NoGradGuard none;
    CHECK(!AutoGradMode::is_enabled());
    CHECK(!(x * 2.0).requires_grad());
    AutoGradMode again(true);
    CHECK((x * 2.0).requires_grad());
  }
  {
    InferenceMode inference;
    CHECK(!(x * 2.0).requires_grad());
  }
  using autograd::variable_list;
  const autograd::TensorFunction cube = [](const variable_list& in) -> variable_list { return {(in[0] * in[0] * in[0]).sum()}; };
  const Tensor p = tensor({2., 3.}, kFloat64), v = tensor({1., -1.}, kFloat64);
  IS(autograd::grad({(x * x).sum()}, {x})[0], kFloat64, {2}, {4, 6});
  IS(autograd::jvp(cube, {p}, {v}).second[0], kFloat64, {}, {12 - 27});
  IS(autograd::vjp(cube, {p}, {tensor(2., kFloat64)}).second[0], kFloat64, {2}, {24, 54});
  IS(autograd::hvp(cube, {p}, {v}).first, kFloat64, {}, {35});
  IS(autograd::hvp(cube, {p}, {v}).second[0], kFloat64, {2}, {12, -18});
  CHECK(autograd::gradcheck(cube, {p}));
  CHECK(autograd::gradgradcheck(cube, {p}));
  CHECK_THAT(thrown<AutogradError>([&] { autograd::gradcheck([](const variable_list& in) -> variable_list { return {in[0] * in[0].detach()}; }, {p}); }), Contains("gradcheck") && Contains("central differences"));
  x.zero_grad();
  autograd::backward({(x * x).sum(), (x * 1.0).sum()}, {Tensor(), tensor(10., kFloat64)});
  IS(x.grad(), kFloat64, {2}, {14, 16});
  const jit::Mode before = jit::mode();
  jit::set_mode(jit::Mode::automatic);
  CHECK(jit::mode() == jit::Mode::automatic);
  {
    jit::ModeGuard guard(jit::Mode::eager);
    CHECK(jit::mode() == jit::Mode::eager);
  }
  CHECK(jit::mode() == jit::Mode::automatic);
  jit::set_mode(before);
  const Tensor large = zeros({1 << 18});
  synchronize();
  CHECK(memory::stats().current >= 1 << 20);
  memory::reset_peak();
  CHECK(memory::stats().peak >= memory::stats().current);
  memory::empty_cache();
  CHECK(memory::stats().reserved >= memory::stats().current);
}

TEST_CASE("api: a literal's own type, triangles of booleans") {
  CHECK(TensorData({1, 2}).natural_dtype() == kInt64);
  CHECK(TensorData({1, 2.5}).natural_dtype() == kFloat32);
  CHECK(TensorData({true, false}).natural_dtype() == kBool);
  const Tensor mask = ones({2, 2}, kBool).tril();
  CHECK(mask.dtype() == kBool);
  CHECK(mask.equal(tensor({{true, false}, {true, true}})));
}

// Every name that the three headers declare occurs in a test with a call or as a macro's row.
TEST_CASE("api: every declared name is called somewhere") {
  namespace fs = std::filesystem;
  const auto content = [](const fs::path& p) {
    std::ifstream in(p);
    std::ostringstream s;
    s << in.rdbuf();
    return s.str();
  };
  const fs::path root = FRIT_SOURCE_DIR;
  std::set<std::string> called;
  const std::regex call("([A-Za-z_]\\w*)\\s*(?:<[\\w:, ]+>)?\\s*\\(");
  for (const auto& file : fs::directory_iterator(root / "tests")) {
    if (file.path().extension() != ".cpp") continue;
    const std::string text = content(file.path());
    for (std::sregex_iterator i(text.begin(), text.end(), call), end; i != end; ++i) called.insert((*i)[1]);
  }
  const std::regex declaration("^\\s*(?:(?:template|static|inline|explicit)\\b[^(]*?)?(?:[\\w:<>,&*]+(?: const)?[&*]? )+([a-z_]\\w*)\\(", std::regex::multiline);
  std::string missing;
  for (const char* header : {"tensor.h", "functions.h", "autograd.h"}) {
    std::istringstream lines(content(root / "frontend/include/frit" / header));
    std::string line;
    while (std::getline(lines, line)) {
      std::smatch m;
      if (line.rfind("#", 0) == 0 || line.find('\\') != std::string::npos || line.find("private") != std::string::npos) continue;
      if (!std::regex_search(line, m, declaration)) continue;
      const std::string name = m[1];
      static const std::set<std::string> inner = {"data_pointer", "add_hook", "category", "return", "mutable_grad", "f", "value", "check_rank"};
      if (!called.count(name) && !inner.count(name)) missing += name + " ";
    }
  }
  CHECK(missing == "");
}
