// Reports on the standard error output, by category; FRIT_LOG names the categories that are wanted. Where a category is
// off, FRIT_LOG_LINE costs one branch and does not build its text.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace frit {

enum class LogCategory : uint8_t { trace, fusion, kernels, recompiles, cache };

namespace detail {
extern std::atomic<uint32_t> log_mask;  // bit = category; log_unread until the setting was read
constexpr uint32_t log_unread = 1u << 31;
bool log_on_slow(LogCategory category);
}  // namespace detail

inline bool log_on(LogCategory category) {
  const uint32_t wanted = detail::log_unread | 1u << unsigned(category);
  return (detail::log_mask.load(std::memory_order_relaxed) & wanted) != 0 && detail::log_on_slow(category);
}
void log_line(LogCategory category, const std::string& text);  // "[frit fusion] text", whole lines even from many threads
void log_warning(const std::string& text);                     // always
void set_log_sink(void (*sink)(const std::string& line));      // instead of the standard error output; null restores it
void set_log_category(LogCategory category, bool on);

}  // namespace frit

#define FRIT_LOG_LINE(category, text)                                    \
  do {                                                                   \
    if (::frit::log_on(::frit::LogCategory::category)) [[unlikely]]      \
      ::frit::log_line(::frit::LogCategory::category, text);             \
  } while (false)
