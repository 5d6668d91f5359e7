// Counter-based random numbers: Philox4x32-10 (Salmon et al., 2011) and the distributions made from its words.
#include "tracer/scalar_detail.h"

namespace frit::scalar {

using namespace detail;

namespace {

Expr low_word(Expr a) { return convert(a, Dtype::Int32); }
Expr high_word(Expr a) { return convert(ushr(a, 32.0), Dtype::Int32); }
Expr word(Expr like_this, uint32_t value) { return like_this.builder->bits(value, Dtype::Int32); }

// (cos(2 pi u)) as an odd polynomial in v = 1/4 - |u|: (sin(2 pi v) / v), in v^2
constexpr double sin_turn_f32[] = {0x1.921fb6p+2, -0x1.4abbfp+5, 0x1.466f3ep+6, -0x1.32e974p+6, 0x1.4701dcp+5};
constexpr double sin_turn_f64[] = {
    0x1.921fb54442d18p+2, -0x1.4abbce625be52p+5, 0x1.466bc6775aa6ep+6, -0x1.32d2cce627543p+6, 0x1.5078348519119p+5,
    -0x1.e3074ddd1f4dcp+3, 0x1.e8f35e9dbc269p+1, -0x1.6f7977160a349p-1, 0x1.9d1b873554bfcp-4};

}  // namespace

// The counter is (index low, index high, stream low, stream high), the key (seed low, seed high).
Random4 philox(Expr seed, Expr stream, Expr counter) {
  Expr c[4] = {low_word(counter), high_word(counter), low_word(stream), high_word(stream)};
  Expr key0 = low_word(seed), key1 = high_word(seed);
  const Expr m0 = word(seed, 0xd2511f53), m1 = word(seed, 0xcd9e8d57);
  const Expr weyl0 = word(seed, 0x9e3779b9), weyl1 = word(seed, 0xbb67ae85);
  for (int round = 0; round < 10; ++round) {
    const Expr high0 = mulhi_u32(m0, c[0]), low0 = m0 * c[0], high1 = mulhi_u32(m1, c[2]), low1 = m1 * c[2];
    const Expr next[4] = {high1 ^ c[1] ^ key0, low1, high0 ^ c[3] ^ key1, low0};
    for (int k = 0; k < 4; ++k) c[k] = next[k];
    key0 = key0 + weyl0;
    key1 = key1 + weyl1;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

Expr uniform_from_bits(Expr word32, Dtype d) {
  if (d == Dtype::Float64) return (convert(word32, d) + 0x1p31) * 0x1p-32;
  return convert(ushr(word32, 8.0), d) * 0x1p-24;
}

Expr uniform_from_bits(Expr high32, Expr low32, Dtype d) {
  if (d == Dtype::Float32) return uniform_from_bits(high32, d);
  return fma(convert(ushr(high32, 5.0), d), 0x1p26, convert(ushr(low32, 6.0), d)) * 0x1p-53;
}

// sqrt(-2 log u) cos(2 pi v), u in (0, 1], v in [-1/2, 1/2]. All 32 bits of word_a count, so that the tail reaches 6.6.
Expr normal_from_bits(Expr word_a, Expr word_b, Dtype d) {
  const bool single = d == Dtype::Float32;
  const Expr u = single ? fma(convert(ushr(word_a, 1.0), d), 0x1p-31, 0x1p-32) : fma(convert(word_a, d), 0x1p-32, 0.5 + 0x1p-33);
  const Expr radius = sqrt(log_positive(u) * -2.0);
  const Expr v = 0.25 - abs(convert(word_b, d) * 0x1p-32), z = v * v;
  return radius * ((single ? polynomial(z, sin_turn_f32) : polynomial(z, sin_turn_f64)) * v);
}

}  // namespace frit::scalar
