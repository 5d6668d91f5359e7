// Started by test_disk_cache: computes with compiled and eager kernels, and prints the results and what came from disk.
#include <frit/frit.h>
#include <cstdio>

using namespace frit;

int main() {
  const Tensor x = tensor({1.0, 2.0, 3.0}, kFloat32);
  auto f = compile([](const Tensor& t) { return t * 3.0 - 1.0; });
  auto g = compile([](const Tensor& t) { return tanh(t).sum() + t.exp().max(); });
  // Functions with tables and without, over operands on both sides of every branch.
  auto h = compile([](const Tensor& t) { return (t.log() + t.sin() + t.pow(t) + t.erf() + (t * 1e6).cos() + t.lgamma() + t.atan()).sum(); });
  const Tensor y = f(x), z = g(x) + h(x), e = (x + x).sqrt() + x.log1p() + x.tan();
  for (int i = 0; i < 3; ++i) std::printf("%.9g ", double(y[i].item<float>()));
  std::printf("%.9g %.9g\n", double(z.item<float>()), double(e.sum().item<float>()));
  const jit::Stats s = jit::stats();
  std::printf("disk_hits %lld compiled %lld eager %lld\n", static_cast<long long>(s.disk_hits), static_cast<long long>(s.kernels_compiled), static_cast<long long>(s.eager_kernels));
}
