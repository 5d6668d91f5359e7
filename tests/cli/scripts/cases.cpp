// A script that does what its first argument says.
#include <frit/frit.h>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include "part.h"

using namespace frit;

int main(int count, char** words) {
  const auto asked = [&](const char* what) { return count > 1 && std::strcmp(words[1], what) == 0; };
  if (asked("words"))
    for (int i = 2; i < count; ++i) std::printf("[%s]", words[i]);
  if (asked("compute"))
    for (int i = 0; i < 4; ++i) {
      const Tensor x = arange(100 + i).to(kFloat32);
      std::printf("%g\n", double((tanh(x * 0.01) + offset).sum().item<float>()));
    }
  if (asked("mode")) std::printf("%s", jit::mode() == jit::Mode::eager ? "eager" : "automatic");
  if (asked("three")) return 3;
  if (asked("throw")) zeros({2, 3}).matmul(zeros({4, 5}));
  if (asked("die")) std::raise(SIGKILL);
  if (asked("loop")) {
    std::puts("looping");
    std::fflush(stdout);
    for (volatile bool on = true; on;) {}
  }
  return 0;
}
