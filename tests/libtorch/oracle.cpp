// Runs all tables and writes the results to the file that is named. Frit's program takes the mode as a second argument.
#include "oracle.h"
#include <cstring>

namespace oracle {
FILE* out = nullptr;
}

int main(int argc, char** argv) {
  if (argc < 2 || !(oracle::out = std::fopen(argv[1], "w"))) {
    std::fprintf(stderr, "oracle: name a file that can be written\n");
    return 2;
  }
#ifndef USE_TORCH
  if (argc > 2) torch::jit::set_mode(std::strcmp(argv[2], "eager") == 0 ? torch::jit::Mode::eager : torch::jit::Mode::automatic);
#endif
  torch::manual_seed(0);
  oracle::pointwise();
  oracle::promotion();
  oracle::reductions();
  oracle::shapes();
  oracle::layers();
  return std::fclose(oracle::out) == 0 ? 0 : 1;
}
