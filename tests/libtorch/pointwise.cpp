// Pointwise ops: every type, every layout, special values, gradients; broadcasting; promotion among types, tensors without axes and
// numbers, also in place.
#include "oracle.h"

namespace oracle {

namespace {
struct Unary {
  const char* name;
  Tensor (*f)(const Tensor&);
  double low, high;
  bool differentiable = true;
};
#define OP(name, low, high) {#name, [](const Tensor& a) -> Tensor { return torch::name(a); }, low, high}
#define FLAT(name, low, high) {#name, [](const Tensor& a) -> Tensor { return torch::name(a); }, low, high, false}
#define FORM(name, low, high, ...) {name, [](const Tensor& a) -> Tensor { return __VA_ARGS__; }, low, high}
const Unary unary[] = {
    OP(exp, -4, 4), OP(exp2, -4, 4), OP(expm1, -2, 2), OP(log, 0.1, 9), OP(log2, 0.1, 9), OP(log10, 0.1, 9), OP(log1p, -0.9, 9), OP(sqrt, 0.1, 9), OP(rsqrt, 0.1, 9),
    OP(abs, -9, 9), OP(neg, -9, 9), OP(sin, -6, 6), OP(cos, -6, 6), OP(tan, -1.4, 1.4), OP(asin, -0.95, 0.95), OP(acos, -0.95, 0.95), OP(atan, -5, 5),
    OP(sinh, -3, 3), OP(cosh, -3, 3), OP(tanh, -3, 3), OP(asinh, -5, 5), OP(acosh, 1.1, 9), OP(atanh, -0.95, 0.95), OP(erf, -2.5, 2.5), OP(erfc, -2.5, 2.5),
    OP(lgamma, 0.2, 9), OP(digamma, 0.2, 9), OP(sigmoid, -6, 6), OP(relu, -3, 3), OP(gelu, -4, 4), OP(silu, -6, 6), OP(softplus, -6, 6), OP(leaky_relu, -3, 3),
    OP(elu, -3, 3), OP(hardswish, -5, 5), OP(mish, -4, 4), OP(reciprocal, 0.2, 9), OP(square, -9, 9), OP(frac, -9, 9), OP(selu, -3, 3), OP(hardsigmoid, -5, 5),
    OP(log_sigmoid, -5, 5), OP(celu, -3, 3), OP(sinc, -3, 3), OP(logit, 0.1, 0.9), OP(hardtanh, -3, 3),
    FLAT(sign, -9, 9), FLAT(floor, -9, 9), FLAT(ceil, -9, 9), FLAT(round, -9, 9), FLAT(trunc, -9, 9), FLAT(isnan, -9, 9), FLAT(isinf, -9, 9), FLAT(isfinite, -9, 9),
    FLAT(logical_not, -2, 2), FLAT(bitwise_not, -9, 9), FLAT(signbit, -9, 9), FLAT(isposinf, -9, 9), FLAT(isneginf, -9, 9),
    FORM("relu6", -3, 9, torch::clamp(a, 0, 6)), FORM("gelu_tanh", -4, 4, torch::gelu(a, "tanh")), FORM("nan_to_num", -9, 9, torch::nan_to_num(a)),
    FORM("nan_to_num given", -9, 9, torch::nan_to_num(a, 1.5, 7.0, -7.0)), FORM("clamp", -9, 9, torch::clamp(a, -2, 3)), FORM("clamp_min", -9, 9, torch::clamp_min(a, 1)),
    FORM("pow 2", -3, 3, torch::pow(a, 2)), FORM("pow 3", -3, 3, torch::pow(a, 3)), FORM("pow 0.5", 0.1, 9, torch::pow(a, 0.5)), FORM("pow -1", 0.3, 3, torch::pow(a, -1.0)),
    FORM("pow 2.5", 0.1, 4, torch::pow(a, 2.5)), FORM("2 pow", -3, 3, torch::pow(2, a)), FORM("a + 2", -9, 9, a + 2), FORM("a - 1.5", -9, 9, a - 1.5),
    FORM("1 - a", -9, 9, 1 - a), FORM("a * 3", -9, 9, a * 3), FORM("a / 4", -9, 9, a / 4), FORM("5 / a", 0.5, 9, 5 / a), FORM("a % 3", -9, 9, torch::remainder(a, 3)),
    FORM("floor_divide 2", -9, 9, torch::floor_divide(a, 2)), FORM("a > 1", -9, 9, a > 1), FORM("a == 2", -3, 3, a == 2), FORM("leaky_relu 0.2", -3, 3, torch::leaky_relu(a, 0.2)),
    FORM("elu 0.7", -3, 3, torch::elu(a, 0.7)), FORM("threshold", -3, 3, torch::threshold(a, 0.5, -1)), FORM("softplus 2", -3, 3, torch::softplus(a, 2)),
};

struct Binary {
  const char* name;
  Tensor (*f)(const Tensor&, const Tensor&);
  double low, high;
  bool differentiable = true;
};
#undef OP
#undef FLAT
#undef FORM
#define OP(name, low, high) {#name, [](const Tensor& a, const Tensor& b) -> Tensor { return torch::name(a, b); }, low, high}
#define FLAT(name, low, high) {#name, [](const Tensor& a, const Tensor& b) -> Tensor { return torch::name(a, b); }, low, high, false}
#define FORM(name, low, high, ...) {name, [](const Tensor& a, const Tensor& b) -> Tensor { return __VA_ARGS__; }, low, high}
const Binary binary[] = {
    OP(add, -9, 9), OP(sub, -9, 9), OP(mul, -9, 9), OP(div, 1, 9), OP(remainder, 1, 9), OP(fmod, 1, 9), OP(pow, 0.5, 3), OP(maximum, -9, 9), OP(minimum, -9, 9),
    OP(atan2, -5, 5), OP(logaddexp, -5, 5), OP(logaddexp2, -5, 5), OP(copysign, -5, 5), OP(hypot, -5, 5), OP(fmax, -9, 9), OP(fmin, -9, 9), OP(xlogy, 0.1, 5),
    FLAT(floor_divide, 1, 9), FLAT(eq, -2, 2), FLAT(ne, -2, 2), FLAT(lt, -2, 2), FLAT(le, -2, 2), FLAT(gt, -2, 2), FLAT(ge, -2, 2), FLAT(logical_and, -1, 1),
    FLAT(logical_or, -1, 1), FLAT(logical_xor, -1, 1), FLAT(bitwise_and, -9, 9), FLAT(bitwise_or, -9, 9), FLAT(bitwise_xor, -9, 9), FLAT(bitwise_left_shift, 0, 3),
    FLAT(bitwise_right_shift, 0, 3), FLAT(heaviside, -2, 2),
    FORM("add alpha 2", -9, 9, torch::add(a, b, 2)), FORM("sub alpha 3", -9, 9, torch::sub(a, b, 3)), FORM("div trunc", 1, 9, torch::div(a, b, "trunc")),
    FORM("div floor", 1, 9, torch::div(a, b, "floor")), FORM("lerp", -3, 3, torch::lerp(a, b, 0.3)), FORM("where", -3, 3, torch::where(a > 0, a, b)),
    FORM("addcmul", -3, 3, torch::addcmul(a, a, b, 2)), FORM("addcdiv", 1, 3, torch::addcdiv(a, a, b, 0.5)), FORM("clamp tensor", -3, 3, torch::clamp(a, b, b + 1)),
    FORM("prelu", -3, 3, torch::prelu(a, b.flatten().narrow(0, 0, 1))),
};

void special(const std::string& name, const std::function<Tensor(const std::vector<Tensor>&)>& f, int inputs) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values{0.0, -0.0, 1, -1, 0.5, -0.5, inf, -inf, nan, 1e-310, 1e-40, 3e38, -3e38, 1e300, 88.5, -104, 2, 3, 1e5, 20.25};
  std::vector<double> a, b;
  for (double x : values)
    for (double y : values) a.push_back(x), b.push_back(y);
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    const int64_t n = int64_t(values.size());
    if (inputs == 1) record(name + " special " + name_of(type), [&] { return f({from_values(values, {n}, type)}); });
    else record(name + " special " + name_of(type), [&] { return f({from_values(a, {n * n}, type), from_values(b, {n * n}, type)}); });
  }
}
}  // namespace

void pointwise() {
  for (const Unary& op : unary) {
    for (const auto& [type_name, type] : types())
      for (const Layout layout : layouts) {
        const std::string name = std::string(op.name) + " " + type_name + " " + layout_name(layout);
        Numbers n(name);
        const Tensor a = make(n, {3, 4}, type, op.low, op.high, layout);
        record(name, [&] { return op.f(a); });
      }
    Numbers n(op.name);
    const Tensor none = make(n, {}, torch::kFloat32, op.low, op.high), empty = make(n, {0, 3}, torch::kFloat32, op.low, op.high);
    record(std::string(op.name) + " no axes", [&] { return op.f(none); });
    record(std::string(op.name) + " empty", [&] { return op.f(empty); });
    special(op.name, [&](const std::vector<Tensor>& in) { return op.f(in[0]); }, 1);
    if (op.differentiable) record_gradients(op.name, [&](const std::vector<Tensor>& in) { return op.f(in[0]); }, {make(n, {2, 3}, torch::kFloat64, op.low, op.high)});
  }
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> shapes{{{3, 4}, {3, 4}}, {{3, 4}, {4}}, {{3, 1}, {1, 4}}, {{2, 3, 4}, {3, 1}}, {{3, 4}, {}}, {{0, 4}, {4}}, {{3, 4}, {3, 5}}, {{2, 3}, {4}}};
  for (const Binary& op : binary) {
    for (const auto& [type_name, type] : types())
      for (const Layout layout : layouts) {
        const std::string name = std::string(op.name) + " " + type_name + " " + layout_name(layout);
        Numbers n(name);
        const Tensor a = make(n, {3, 4}, type, op.low, op.high), b = make(n, {3, 4}, type, op.low, op.high, layout);
        record(name, [&] { return op.f(a, b); });
      }
    int number = 0;
    for (const auto& [left, right] : shapes) {
      Numbers n(op.name);
      const bool whole = std::string(op.name).find("bitwise") == 0;
      const auto type = whole ? torch::kInt64 : torch::kFloat32;
      const Tensor a = make(n, left, type, op.low, op.high), b = make(n, right, type, op.low, op.high);
      record(std::string(op.name) + " broadcast " + std::to_string(number++), [&] { return op.f(a, b); });
    }
    special(op.name, [&](const std::vector<Tensor>& in) { return op.f(in[0], in[1]); }, 2);
    if (op.differentiable) {
      Numbers n(op.name);
      record_gradients(op.name, [&](const std::vector<Tensor>& in) { return op.f(in[0], in[1]); },
                       {make(n, {2, 3}, torch::kFloat64, op.low, op.high), make(n, {3}, torch::kFloat64, op.low, op.high)});
    }
  }
}

// Result types, for each pair of types and each way that a tensor can be an operand.
void promotion() {
  const Binary ops[] = {OP(add, 0, 0), OP(sub, 0, 0), OP(mul, 0, 0), OP(div, 0, 0), OP(floor_divide, 0, 0), OP(remainder, 0, 0), OP(pow, 0, 0), OP(maximum, 0, 0), OP(gt, 0, 0), OP(atan2, 0, 0),
                        OP(bitwise_and, 0, 0), OP(logical_and, 0, 0), FORM("where", 0, 0, torch::where(torch::ones_like(a, torch::kBool), a, b)), FORM("cat", 0, 0, torch::cat({a, b}, 0)),
                        FORM("stack", 0, 0, torch::stack({a, b}, 0)), FORM("matmul", 0, 0, torch::matmul(a, b)),
                        FORM("add_", 0, 0, a.clone().add_(b)), FORM("mul_", 0, 0, a.clone().mul_(b)), FORM("div_", 0, 0, a.clone().div_(b)), FORM("copy_", 0, 0, a.clone().copy_(b)),
                        FORM("gt_", 0, 0, a.clone().gt_(b)), FORM("masked_fill", 0, 0, a.masked_fill(torch::ones_like(a, torch::kBool), b.flatten()[0]))};
  for (const Binary& op : ops)
    for (const auto& [left_name, left] : types())
      for (const auto& [right_name, right] : types()) {
        const std::string name = std::string("promotion ") + op.name + " " + left_name + " " + right_name;
        const Tensor a = from_values({1, 3, 2, 1}, {2, 2}, left), b = from_values({1, 1, 3, 2}, {2, 2}, right);
        record(name, [&] { return op.f(a, b); });
        record(name + " right without axes", [&] { return op.f(a, b[1][0]); });
        record(name + " left without axes", [&] { return op.f(a[0][1], b); });
        record(name + " both without axes", [&] { return op.f(a[0][1], b[1][0]); });
      }
  struct Number {
    const char* name;
    torch::Scalar value;
  };
  const Number numbers[] = {{"2", 2}, {"2.5", 2.5}, {"true", true}, {"-1", -1}};
  for (const auto& [type_name, type] : types())
    for (const Number& n : numbers) {
      const std::string name = std::string("promotion number ") + type_name + " " + n.name;
      const Tensor a = from_values({1, 3, 2, 1}, {2, 2}, type);
      record(name + " +", [&] { return a + n.value; });
      record(name + " -", [&] { return a - n.value; });
      record(name + " *", [&] { return a * n.value; });
      record(name + " /", [&] { return a / n.value; });
      record(name + " reversed -", [&] { return n.value - a; });
      record(name + " reversed /", [&] { return n.value / a; });
      record(name + " pow", [&] { return torch::pow(a, n.value); });
      record(name + " reversed pow", [&] { return torch::pow(n.value, a); });
      record(name + " remainder", [&] { return torch::remainder(a, n.value); });
      record(name + " floor_divide", [&] { return torch::floor_divide(a, n.value); });
      record(name + " lt", [&] { return a < n.value; });
      record(name + " clamp", [&] { return torch::clamp_min(a, n.value); });
      record(name + " masked_fill", [&] { return a.masked_fill(a == 1, n.value); });
      record(name + " full_like", [&] { return torch::full_like(a, n.value); });
      record(name + " full", [&] { return torch::full({2}, n.value, type); });
      record(name + " +=", [&] { return a.clone().add_(n.value); });
      record(name + " *=", [&] { return a.clone().mul_(n.value); });
      record(name + " /=", [&] { return a.clone().div_(n.value); });
      record(name + " no axes +", [&] { return a[0][1] + n.value; });
    }
  for (const auto& [from_name, from] : types())
    for (const auto& [to_name, to] : types()) {
      const Tensor a = from_values({0, 1, 2.75, 100, 3}, {5}, from);
      record(std::string("to ") + from_name + " " + to_name, [&, to = to] { return a.to(to); });
    }
}

}  // namespace oracle
