// The log: a mask of categories, filled from FRIT_LOG at the first question, and a sink. Start at log_on_slow.
#include "runtime/log.h"
#include <unistd.h>
#include "runtime/settings.h"

namespace frit {
namespace {

constexpr const char* category_names[] = {"trace", "fusion", "kernels", "recompiles", "cache"};
constexpr int category_count = 5;

void write_to_stderr(const std::string& line) {
  size_t done = 0;  // one write keeps the line whole; the loop is for pipes that take a part
  while (done < line.size()) {
    const ssize_t n = write(2, line.data() + done, line.size() - done);
    if (n <= 0) return;
    done += size_t(n);
  }
}

constinit std::atomic<void (*)(const std::string&)> log_sink{write_to_stderr};

uint32_t mask_from_settings() {
  uint32_t mask = 0;
  for (const auto& word : settings().log)
    for (int i = 0; i < category_count; ++i)
      if (word == category_names[i] || word == "all") mask |= 1u << i;
  return mask;
}

void read_mask() {
  uint32_t unread = detail::log_unread;
  if (detail::log_mask.load() == unread) detail::log_mask.compare_exchange_strong(unread, mask_from_settings());
}

}  // namespace

namespace detail {
constinit std::atomic<uint32_t> log_mask{log_unread};

bool log_on_slow(LogCategory category) {
  read_mask();
  return log_mask.load(std::memory_order_relaxed) >> unsigned(category) & 1;
}
}  // namespace detail

void log_line(LogCategory category, const std::string& text) {
  log_sink.load()(std::string("[frit ") + category_names[int(category)] + "] " + text + "\n");
}

void log_warning(const std::string& text) { log_sink.load()("[frit warning] " + text + "\n"); }

void set_log_sink(void (*sink)(const std::string& line)) { log_sink = sink ? sink : write_to_stderr; }

void set_log_category(LogCategory category, bool on) {
  read_mask();
  const uint32_t bit = 1u << unsigned(category);
  on ? detail::log_mask.fetch_or(bit) : detail::log_mask.fetch_and(~bit);
}

}  // namespace frit
