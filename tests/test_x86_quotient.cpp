// Division by what is the same for a whole strip, done with reciprocals on wide registers: every bit against the processor's divider.
#include <catch2/catch.hpp>
#include <bit>
#include <cmath>
#include <random>
#include <vector>
#include <frit/frit.h>

using namespace frit;

namespace {
std::vector<float> dividends(std::mt19937& random) {
  std::vector<float> x{0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f, 0x1.fffffep-127f, 0x1p-126f, 0x1p-101f, 0x1.fffffep-101f, 0x1p-100f, 0x1.fffffep99f, 0x1p100f, 0x1p127f, 0x1.fffffep127f};
  while (x.size() < 1000) x.push_back(std::bit_cast<float>(uint32_t(random())));  // every exponent
  while (x.size() < 4000) x.push_back(std::ldexp(1.0f + float(random() & 0x7fffff) * 0x1p-23f, int(random() % 40) - 20) * (random() & 1 ? 1.0f : -1.0f));
  while (x.size() < 4099) x.push_back(std::ldexp(float((1 << 24) - 1 - int(random() % 8)), int(random() % 9) - 28));  // full significands: the hard cases
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
}  // namespace

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
