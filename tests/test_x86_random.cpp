// Random block programs, compiled, against the interpreter, bit for bit (all NaNs are one value).
#include <catch2/catch.hpp>

#include <algorithm>

#include "jit/x86/compile.h"
#include "runtime/cpu.h"
#include "tests/support/program_random.h"

using namespace frit;
using namespace frit::kernels;

namespace {

int64_t instances(const Program& p, const std::vector<int64_t>& extents) {
  int64_t n = 1;
  for (size_t a = 0; a < p.axes.size(); ++a)
    if (p.axes[a].kind != AxisKind::block) n *= extents[a];
  return n;
}

// Runs the kernel in one call, or in pieces of the grid and of the lanes.
void run_in_pieces(const test::RandomProgram& p, const jit::CpuKernel& kernel, const Slot* args, uint64_t seed) {
  const std::vector<int64_t> all = extents(p.program, args);
  const int64_t count = instances(p.program, all);
  if (seed % 3 == 0) return kernel.run(args, 0, count, 0, INT64_MAX);
  std::mt19937_64 random(seed);
  for (int64_t begin = 0; begin < count;) {
    const int64_t end = std::min(count, begin + 1 + int64_t(random() % 40));
    if (kernel.lane_split && random() % 2) {
      const int64_t lanes = all.back();
      for (int64_t from = 0; from < lanes;) {
        const int64_t to = std::min(lanes, from + 1 + int64_t(random() % 2000));
        kernel.run(args, begin, end, from, to == lanes && random() % 2 ? INT64_MAX : to);
        from = to;
      }
    } else {
      kernel.run(args, begin, end, 0, INT64_MAX);
    }
    begin = end;
  }
}

std::string check(uint64_t seed) {
  const test::RandomProgram p = test::random_program(seed);
  jit::CpuSchedule schedule;
  schedule.unroll = uint8_t(seed % 5 == 0 ? 1 + seed % 3 : 0);
  static const bool wide = uses_avx512();
  for (const bool avx512 : {false, true}) {
    use_avx512(avx512);
    if (avx512 && !uses_avx512()) break;
    const jit::CpuKernel kernel = jit::compile_x86(p.program, schedule);
    const std::string wrong = test::difference(p, [&](const Slot* args) { run_in_pieces(p, kernel, args, seed); });
    use_avx512(wide);
    if (!wrong.empty()) return "seed " + std::to_string(seed) + (avx512 ? ", AVX-512: " : ", AVX2: ") + wrong + "\n" + p.program.text();
  }
  return "";
}

}  // namespace

#ifndef FRIT_FIRST_SEED
#define FRIT_FIRST_SEED 1
#define FRIT_SEEDS 400
#endif

TEST_CASE("random programs give the interpreter's bits", "[x86]") {
  for (uint64_t seed = FRIT_FIRST_SEED; seed < FRIT_FIRST_SEED + FRIT_SEEDS; ++seed) {
    INFO("seed " << seed);
    REQUIRE(check(seed) == "");
  }
}
