// A program of a user who has installed Frit.
#include <cstdio>
#include <frit/frit.h>

int main() {
  using namespace frit;
  Tensor x = arange(6).to(kFloat32).reshape({2, 3});
  x.requires_grad_(true);
  Tensor sum = (x + 1.0).sum();
  sum.backward();
  std::printf("sum = %g, gradient %g\n", double(sum.item<float>()), double(x.grad().sum().item<float>()));
  return sum.item<float>() == 21 && x.grad().sum().item<float>() == 6 ? 0 : 1;
}
