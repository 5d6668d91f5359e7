// For the tests of what runs beside products and convolutions.
#pragma once
#include <frit/frit.h>

namespace frit::testing {

// So many threads as long as it lives.
struct Threads {
  int before = num_threads();
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
};
// Values in [-scale, scale), each another.
inline Tensor spread(IntArrayRef sizes, double scale = 0.5, Dtype d = kFloat32) {
  int64_t n = 1;
  for (int64_t e : sizes) n *= e;
  return ((arange(n).to(kFloat64) * 0.754877666).frac() * 2.0 - 1.0).mul(scale).to(d).reshape(sizes);
}

}  // namespace frit::testing
