// What ran: a ring of the latest launches, off unless somebody asks for it.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>
#include "tracer/trace.h"

namespace frit::jit {

struct Launched {
  std::string kernel;            // the ops that it computes
  int tier = 0;
  int64_t bytes = 0, flops = 0;  // each input and output once; one per element and op, two per multiply and add of a product
  double seconds = 0, start = 0; // start: since recording began
  std::vector<const CallSite*> sites;
  uint32_t thread = 0;
  int64_t memory = 0;            // bytes in tensors afterwards
};
void keep_launches(size_t launches);  // the ring's size; 0: off. Forgets what was recorded
std::vector<Launched> launch_history();
std::chrono::steady_clock::time_point launches_began();
uint32_t thread_number();      // of this thread: 0, 1, … in the order in which they asked

namespace detail {
extern std::atomic<bool> recording;
}
// Around one launch of the work of some nodes, whose operands are real.
class LaunchScope {
 public:
  LaunchScope(const tracer::Trace& t, const uint32_t* nodes, size_t count) : trace_(t), nodes_(nodes), count_(count) {
    if (detail::recording.load(std::memory_order_relaxed)) [[unlikely]] begin();
  }
  ~LaunchScope() {
    if (on_) [[unlikely]] end();
  }
  void cancel() { on_ = false; }  // its nodes ran one by one
  int tier = 0;
  LaunchScope(const LaunchScope&) = delete;

 private:
  void begin();
  void end() noexcept;
  const tracer::Trace& trace_;
  const uint32_t* nodes_;
  size_t count_;
  bool on_ = false;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace frit::jit
