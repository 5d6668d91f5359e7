// The process counters: their storage, differences and text, all from the list in stats.h.
#include "runtime/stats.h"

namespace frit {

constinit Counters counters;

Stats stats_snapshot() {
  Stats s;
#define X(name, help) s.name = counters.name.load(std::memory_order_relaxed);
  FRIT_FOR_EACH_COUNTER(X)
#undef X
  return s;
}

Stats Stats::operator-(const Stats& earlier) const {
  Stats s;
#define X(name, help) s.name = name - earlier.name;
  FRIT_FOR_EACH_COUNTER(X)
#undef X
  return s;
}

std::string Stats::text() const {
  std::string s;
#define X(name, help) \
  if (name) s += #name ": " + std::to_string(name) + " (" help ")\n";
  FRIT_FOR_EACH_COUNTER(X)
#undef X
  return s;
}

}  // namespace frit
