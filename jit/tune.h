// Tier 2: a fused group that runs again and again with one exact shape gets kernels with other schedules for it. They are tried on
// the runs themselves (a schedule never changes a result), in turn with the bucket's kernel; the fastest stays where its
// median is at least 3 % below, else the bucket's kernel does and the others are dropped.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "jit/group.h"
#include "jit/x86/compile.h"

namespace frit::jit {

struct TuneSettings {
  int hot = 256;             // runs with one shape before its kernels are compiled; 0: never
  int samples = 9;           // of each kernel
  double worth_seconds = 4e-6;  // a kernel that is quicker is left alone
};
TuneSettings& tune_settings();

class Tuner {
 public:
  struct Pick {
    std::shared_ptr<CpuKernel> kernel;
    int tier = 1;
    int candidate = -1;      // being tried: report() its time
    uint64_t shape = 0;
  };
  // Which kernel runs this shape now. `code` and `layout` are the group's.
  Pick pick(uint64_t shape, const std::shared_ptr<CpuKernel>& usual, const GroupCode& code, const GroupLayout& layout);
  void report(const Pick& pick, double seconds);
  std::string text() const;  // "2 shapes tuned, 1 kept, 4 kernels tried"; empty when nothing was tried

 private:
  enum class Stage : uint8_t { counting, timing, compiling, trial, settled };
  struct Candidate {
    std::shared_ptr<CpuKernel> kernel;
    std::vector<double> seconds;
  };
  struct Shape {
    uint64_t hash = 0;
    Stage stage = Stage::counting;
    int runs = 0, next = 0;
    uint64_t used = 0;
    std::vector<Candidate> candidates;  // the first is the bucket's
    std::shared_ptr<CpuKernel> best;    // settled: null where the bucket's stays
  };
  struct State {
    mutable std::mutex lock;
    std::vector<Shape> shapes;
    uint64_t clock = 0;
    int settled = 0, kept = 0, tried = 0;
  };
  static Shape* find(State& s, uint64_t hash);
  static void settle(State& s, Shape& shape);
  std::shared_ptr<State> state_ = std::make_shared<State>();  // a compile in the background holds it too
};

}  // namespace frit::jit
