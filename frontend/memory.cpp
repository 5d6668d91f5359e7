// memory::ledger: the tracer's log of who holds memory (tracer/memory_log.h), around a function, in the user's words. Start at ledger.
#include "frit/memory.h"
#include <cstdio>
#include <ostream>
#include "frit/optim.h"
#include "jit/packed_weights.h"
#include "runtime/buffer.h"
#include "tracer/memory_log.h"

namespace frit::memory {

namespace {
Held held_of(const tracer::MemorySums& s) {
  using tracer::MemoryUse;
  const auto at = [&](MemoryUse u) { return s[size_t(u)]; };
  return {at(MemoryUse::parameter), at(MemoryUse::optimizer_state), at(MemoryUse::gradient), at(MemoryUse::saved), at(MemoryUse::temporary), at(MemoryUse::other), at(MemoryUse::packed)};
}
// Logs in its scope.
struct Logged {
  const size_t first = tracer::start_memory_log();
  bool on = true;
  tracer::MemoryLog stop() { return on = false, tracer::stop_memory_log(); }
  ~Logged() {
    if (on) tracer::stop_memory_log();
  }
};
}  // namespace

Ledger ledger(const std::function<void()>& f) {
  synchronize();  // what was deferred before is not f's
  Logged logged;
  optim::detail::log_memory_of_all();
  jit::log_packed_weights();
  f();
  synchronize();
  optim::detail::log_memory_of_all();
  const tracer::MemoryLog log = logged.stop();
  const tracer::MemorySummary sum = tracer::summarize(log, logged.first);
  Ledger l;
  static_cast<Held&>(l) = held_of(sum.highest);
  l.at_peak = held_of(sum.at_peak);
  l.peak = l.at_peak.total();
  l.complete = log.complete;
  for (const tracer::MemoryHolder& h : sum.holders) l.holders.push_back({tracer::memory_use_name(h.use), h.what, h.line, h.bytes, h.blocks});
  return l;
}

std::string Ledger::text() const {
  std::string s = "memory                     highest      at the peak\n";
  const auto add = [&](const char* name, int64_t bytes, int64_t peak_bytes) {
    char row[96];
    std::snprintf(row, sizeof row, "%-20s %13s %16s\n", name, readable_bytes(bytes).c_str(), readable_bytes(peak_bytes).c_str());
    s += row;
  };
  add("parameters", parameters, at_peak.parameters);
  add("optimiser state", optimizer_state, at_peak.optimizer_state);
  add("gradients", gradients, at_peak.gradients);
  add("saved for backward", saved, at_peak.saved);
  add("temporaries", temporaries, at_peak.temporaries);
  add("others", others, at_peak.others);
  if (packed_weights) add("packed weights", packed_weights, at_peak.packed_weights);
  s += "the peak was " + readable_bytes(peak) + "; its largest holders:\n";
  for (size_t i = 0; i < holders.size() && i < 10; ++i) {
    const Holder& h = holders[i];
    s += "  " + readable_bytes(h.bytes) + "  " + h.kind + ": " + h.what + (h.tensors > 1 ? ", " + std::to_string(h.tensors) + " of them" : "") + (h.line.empty() ? "" : "  at " + h.line) + "\n";
  }
  if (holders.size() > 10) s += "  and " + std::to_string(holders.size() - 10) + " more\n";
  if (!complete) s += "(there were more events than are kept: the later ones do not count)\n";
  return s;
}
std::ostream& operator<<(std::ostream& out, const Ledger& l) { return out << l.text(); }

}  // namespace frit::memory
