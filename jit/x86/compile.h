// Block programs to x86-64 machine code (AVX2, FMA, F16C) with AsmJit.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include "kernels/program.h"

namespace frit::jit {

// Runs instances [begin, end) of the linearised grid axes (row-major) and, along the last block axis, lanes
// [lane_begin, lane_end); lane_end = INT64_MAX means all. Only a `lane_split` kernel may be given part of the lanes. scratch: work space for those
// that have some; 1: nothing is stored past the caches, however large the whole result is.
using CpuEntry = void (*)(const kernels::Slot* args, int64_t begin, int64_t end, int64_t lane_begin, int64_t lane_end, char* scratch);

struct CpuKernel {
  CpuEntry entry = nullptr;
  bool lane_split = false;     // every value along the last block axis is independent of its neighbours
  bool ordered = false;        // has a sequential axis: the grid may be split only along axes before it
  bool fixed_address = false;  // the code names an address of this process (a table): no other process may run it
  uint32_t code_bytes = 0;
  // Work space: so many bytes for each element of the axis whose extent is this argument.
  uint32_t scratch_bytes = 0, scratch_slot = 0;
  std::string name;
  std::shared_ptr<void> code;  // owns the executable memory

  void run(const kernels::Slot* args, int64_t begin, int64_t end, int64_t lane_begin = 0, int64_t lane_end = INT64_MAX) const {
    scratch_bytes ? run_with_scratch(args, begin, end, lane_begin, lane_end) : entry(args, begin, end, lane_begin, lane_end, nullptr);
  }
  // A block that lies in the caches.
  void run_near(const kernels::Slot* args, int64_t begin, int64_t end, int64_t lane_begin = 0, int64_t lane_end = INT64_MAX) const {
    scratch_bytes ? run_with_scratch(args, begin, end, lane_begin, lane_end) : entry(args, begin, end, lane_begin, lane_end, reinterpret_cast<char*>(1));
  }

 private:
  void run_with_scratch(const kernels::Slot* args, int64_t begin, int64_t end, int64_t lane_begin, int64_t lane_end) const;
};

// The choices that change the code but never its result.
struct CpuSchedule {
  uint8_t unroll = 0;  // strips of 8 lanes per iteration; 0: chosen
  bool operator==(const CpuSchedule&) const = default;
};

// Throws std::runtime_error when the program cannot be compiled (the caller falls back and logs once).
CpuKernel compile_x86(const kernels::Program& program, const CpuSchedule& schedule = {});
std::string disassembly_x86(const kernels::Program& program, const CpuSchedule& schedule = {});  // AsmJit's log

}  // namespace frit::jit
