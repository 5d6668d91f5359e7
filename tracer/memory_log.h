// Who holds memory, and when: every storage that is made, let go, or found to serve a purpose, in order of time. Off, it costs one load for
// each of these. A storage's purpose is known late (a sum turns out to be a gradient), so it counts for the storage's whole life: the log
// is kept, and added up afterwards.
#pragma once
#include <array>
#include <atomic>
#include <string>
#include <vector>
#include "tracer/trace.h"

namespace frit::tracer {

// The later one outweighs the earlier one. other: there before the log began, and none of those below.
enum class MemoryUse : uint8_t { other, temporary, saved, gradient, optimizer_state, parameter, packed, count };
constexpr size_t memory_uses = size_t(MemoryUse::count);
const char* memory_use_name(MemoryUse u);

struct MemoryLog {
  struct Block {
    int64_t bytes;
    MemoryUse use = MemoryUse::temporary;
    bool before = false;               // made before the log began
    bool shaped = false;               // the following is known: of the first value seen in it
    Dtype dtype{};
    uint8_t rank = 0;
    int64_t extent[max_rank] = {};
    Op op = Op::leaf;                  // that made it; leaf: not known
    const CallSite* site = nullptr;
  };
  struct Event {
    uint32_t block;
    bool freed;
    double time;                       // seconds since the log began
  };
  std::vector<Block> blocks;
  std::vector<Event> events;
  int64_t before = 0;                  // bytes that were handed out when it began
  bool complete = true;                // not when there were too many events
};
// Logs until as many have stopped as started. Returns where the events of this one begin.
size_t start_memory_log();
MemoryLog stop_memory_log();           // what was logged
MemoryLog memory_log();                // so far

// Sums at a moment: bytes by use.
struct MemorySums : std::array<int64_t, memory_uses> {
  int64_t total() const;
};
struct MemoryHolder {
  MemoryUse use;
  std::string what, line;              // "tanh f32[64, 256]"; where the op was called
  int64_t bytes = 0, blocks = 0;
};
struct MemorySummary {
  MemorySums highest{}, at_peak{};     // each use's own highest; all of them when their sum was
  double peak_time = 0;
  std::vector<MemoryHolder> holders;   // at that moment, by what and where they were made; the largest first
  struct Point { double time; MemorySums held; };
  std::vector<Point> points;           // of so many stretches of time as asked for: the highest sum, and the last
};
MemorySummary summarize(const MemoryLog& log, size_t first_event, size_t points = 0);

namespace detail {
extern std::atomic<bool> logging_memory;
void log_made(const Storage* s, Dtype dtype, const int64_t* extents, int rank) noexcept;
void log_gone(const Storage* s) noexcept;
}  // namespace detail
inline bool memory_logged() { return detail::logging_memory.load(std::memory_order_relaxed); }
void log_use(const Value& v, MemoryUse use);  // of its storage, unless that serves a later one
void log_gradient(const Cell* grad);          // a leaf's gradient: now, or when it is real

// What this thread makes inside is made by node n.
class MakingScope {
 public:
  MakingScope(const Trace& t, uint32_t n) {
    if (memory_logged()) [[unlikely]] begin(t, n);
  }
  ~MakingScope() {
    if (on_) [[unlikely]] end();
  }
  MakingScope(const MakingScope&) = delete;

 private:
  void begin(const Trace& t, uint32_t n);
  void end();
  bool on_ = false;
  const Trace* trace_;
  uint32_t node_;
};

// Around the run of a trace: what its nodes' memory serves, as far as the trace tells.
class UseScope {
 public:
  explicit UseScope(const Trace& t) {
    if (memory_logged()) [[unlikely]] begin(t);
  }
  ~UseScope() {
    if (trace_) [[unlikely]] end();
  }
  UseScope(const UseScope&) = delete;
  static void made(const Trace& t, uint32_t n) {  // n's value is there
    if (memory_logged()) [[unlikely]] note(t, n);
  }

 private:
  void begin(const Trace& t);
  void end();
  static void note(const Trace& t, uint32_t n);
  const Trace* trace_ = nullptr;
  UseScope* before_ = nullptr;
  std::vector<MemoryUse> use_;  // by node
};

}  // namespace frit::tracer
