// Division by what is the same for a whole strip, done with reciprocals on wide registers: every bit against the processor's divider.
#include <catch2/catch.hpp>
#include <bit>
#include <cmath>
#include <random>
#include <vector>
#include <frit/frit.h>
#include "jit/execute.h"

using namespace frit;

namespace {
std::vector<float> dividends(std::mt19937& random) {
  std::vector<float> x{0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f, 0x1.fffffep-127f, 0x1p-126f, 0x1p-101f, 0x1.fffffep-101f, 0x1p-100f, 0x1.fffffep99f, 0x1p100f, 0x1p127f, 0x1.fffffep127f};
  while (x.size() < 1000) x.push_back(std::bit_cast<float>(uint32_t(random())));  // every exponent
  while (x.size() < 4000) x.push_back(std::ldexp(1.0f + float(random() & 0x7fffff) * 0x1p-23f, int(random() % 40) - 20) * (random() & 1 ? 1.0f : -1.0f));
  while (x.size() < 4099) x.push_back(std::ldexp(float((1 << 24) - 1 - int(random() % 8)), int(random() % 9) - 28));  // full significands: the hard cases
  while (x.size() < 4227) x.push_back(x.size() % 3 == 0 ? -0.0f : x.size() % 3 == 1 ? 0.0f : -1.5f);  // zeros among ordinary numbers keep their signs
  return x;
}
std::vector<float> divisors(std::mt19937& random) {
  std::vector<float> s{1.0f, 3.0f, 768.0f, 0x1.fffffep0f, 0x1.000002p0f, 0x1.fffffcp5f, 0x1p-24f, 0x1.fffffep-25f, 0x1p24f, 0x1.000002p24f, -3.0f, 0.0f, -0.0f, INFINITY, NAN, 0x1p-140f, 0x1p120f, 0x1p-120f};
  while (s.size() < 40) s.push_back(std::bit_cast<float>(uint32_t(random())));
  while (s.size() < 160) s.push_back(std::ldexp(1.0f + float(random() & 0x7fffff) * 0x1p-23f, int(random() % 48) - 24));
  return s;
}
int64_t differing(const Tensor& got, const std::vector<float>& x, const std::vector<float>& s) {
  const Tensor c = got.contiguous();
  const float* const g = c.data_ptr<float>();
  int64_t count = 0;
  for (size_t i = 0; i < s.size(); ++i)
    for (size_t k = 0; k < x.size(); ++k) {
      const float wanted = x[k] / s[i], is = g[i * x.size() + k];
      if (std::isnan(wanted) ? !std::isnan(is) : std::bit_cast<uint32_t>(wanted) != std::bit_cast<uint32_t>(is)) {
        if (++count <= 5) UNSCOPED_INFO(x[k] << " / " << s[i] << " is " << wanted << ", not " << is);
      }
    }
  return count;
}
// Dividends whose quotient by b lies as near to the middle of two floats as there is: a 2^24 = M b +- 1 with M odd.
void add_hard_pairs(uint32_t b, std::vector<float>& dividend, std::vector<float>& divisor) {
  uint64_t inverse = 1;  // of b modulo 2^24
  for (int i = 0; i < 5; ++i) inverse = inverse * (2 - b * inverse) & 0xffffff;
  for (const uint64_t low : {inverse, (uint64_t(1) << 24) - inverse}) {  // M b - 1, M b + 1
    const uint64_t m = (uint64_t(1) << 24) + low, a = (m * b + (low == inverse ? -1 : 1)) >> 24;
    if (a < (1u << 24)) dividend.push_back(float(a)), divisor.push_back(float(b));
  }
}
}  // namespace

TEST_CASE("quotients next to the middle of two floats have the divider's bits") {
  const uint32_t seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::vector<float> a, b;
  while (a.size() < 60000) add_hard_pairs((1u << 23) | (uint32_t(random()) & 0x7fffff) | 1, a, b);
  constexpr int64_t lanes = 32;
  const int64_t rows = int64_t(a.size());
  const NoGradGuard none;
  const Tensor by = from_blob(b.data(), {rows, 1}).clone();
  const Tensor scale = (arange(lanes).to(kFloat32) - 8).exp2();
  // Divisors of 24 bits are at the end of the range that is quick: halves of them and less are inside.
  const Tensor x = from_blob(a.data(), {rows, 1}).clone() * scale, s = by * 0x1p-12f;
  const Tensor got = x / s;
  const float *g = got.data_ptr<float>(), *from = x.data_ptr<float>();
  int64_t count = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < lanes; ++k) count += g[i * lanes + k] != from[i * lanes + k] / (b[size_t(i)] * 0x1p-12f);
  CHECK(count == 0);
}

// Strips of 16 scale by an instruction; what is taken for zero must be, and nothing else.
TEST_CASE("exponentials fade out as the interpreter says") {
  const NoGradGuard none;
  std::vector<float> v{-INFINITY, INFINITY, NAN, -1e30f, -1e4f, -177.0f, -104.0f, -103.9f, -87.4f, 88.7f, 88.8f, 0.0f, -0.0f};
  for (int i = 0; i < 20000; ++i) v.push_back(-108 + float(i) * 0.0012f);
  const Tensor x = from_blob(v.data(), {int64_t(v.size())}).clone();
  const auto all = [&] { return std::vector<Tensor>{exp(x), exp2(x * 1.4426950408f), sigmoid(x), expm1(x), softplus(x)}; };
  const std::vector<Tensor> got = all();
  synchronize();
  jit::set_interpreter_only(true);
  const std::vector<Tensor> wanted = all();
  synchronize();
  jit::set_interpreter_only(false);
  for (size_t k = 0; k < got.size(); ++k) {
    INFO(k);
    CHECK(got[k].nan_to_num(2e38).equal(wanted[k].nan_to_num(2e38)));
  }
}

TEST_CASE("a quotient by a value that rows share has the divider's bits") {
  const uint32_t seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::vector<float> x = dividends(random), s = divisors(random);
  const auto tensor_of = [](const std::vector<float>& v) { return from_blob(const_cast<float*>(v.data()), {int64_t(v.size())}).clone(); };
  const Tensor row = tensor_of(x).unsqueeze(0), by = tensor_of(s).unsqueeze(1);
  const NoGradGuard none;
  const auto by_column = [](const Tensor& a, const Tensor& b) { return a.div(b); };
  CHECK(differing(by_column(row, by), x, s) == 0);
  CHECK(differing(compile(by_column)(row, by), x, s) == 0);
  for (float one : {3.0f, 0x1.fffffep0f, 768.0f, 0.0f}) CHECK(differing(row.div(Scalar(double(one))), x, {one}) == 0);
  // Inside a row kernel, beside a reduction.
  const auto beside_sum = [](const Tensor& a, const Tensor& b) { return (a / b) * (a.isnan().sum(-1, true).ge(0)).to(kFloat32); };
  CHECK(differing(compile(beside_sum)(row.expand({int64_t(s.size()), int64_t(x.size())}).contiguous(), by), x, s) == 0);
}
