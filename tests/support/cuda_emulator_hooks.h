// What the emulator's two sides share: the runtime in the test and the kernels in a library compiled by the test.
#pragma once

namespace cuda_emulator {

struct Index3 {
  unsigned x, y, z;
};
struct Thread {
  Index3 thread, block, block_extent, grid_extent;
};
constexpr unsigned slot_bytes = 16;  // the largest value of a warp exchange

struct Hooks {
  const Thread* current;      // the thread that runs
  void (*barrier)(int line);  // line: of the call, in the generated source
  // Leaves a value for the warp and returns when all lanes of `mask` have: their values, slot_bytes apart.
  const unsigned char* (*exchange)(unsigned mask, const void* value, unsigned bytes, int line);
  unsigned (*lane)();
};
using KernelEntry = void (*)(void** arguments);
using SetHooks = void (*)(Hooks*);

}  // namespace cuda_emulator
