// frit cache: what lies on disk for the next process, kernels and compiled scripts: listed, checked, made smaller.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include "frontend/cli/commands.h"
#include "runtime/disk_cache.h"
#include "runtime/settings.h"

namespace frit::cli {

namespace {
std::string when(int64_t seconds) {
  const time_t t = time_t(seconds);
  tm local{};
  char text[32];
  ::localtime_r(&t, &local);
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  return text;
}
int64_t parse_bytes(const std::string& text) {
  // By the rules of the settings' table, which has such a setting.
  try {
    return parse_settings([&](const char* name) { return std::string(name) == "FRIT_CACHE_LIMIT" ? text.c_str() : nullptr; }).cache_limit;
  } catch (const std::exception&) {
    throw UsageError("--limit " + text + ": expected a number of bytes such as 1073741824, 512M or 8G");
  }
}
int list(const DiskCache& kernels) {
  auto entries = kernels.list();
  int64_t bytes = 0;
  for (const auto& e : entries) bytes += e.bytes;
  std::printf("%s\n  kernels: %zu, %s of at most %s", kernels.folder().c_str(), entries.size(), bytes_text(double(bytes)).c_str(), bytes_text(double(settings().cache_limit)).c_str());
  if (!entries.empty()) {
    const auto [oldest, newest] = std::minmax_element(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
    std::printf("; used between %s and %s", when(oldest->used).c_str(), when(newest->used).c_str());
  }
  const auto scripts = list_scripts(false);
  int64_t script_bytes = 0;
  for (const auto& s : scripts) script_bytes += s.bytes;
  std::printf("\n  scripts: %zu entries, %s of at most %s\n", scripts.size(), bytes_text(double(script_bytes)).c_str(), bytes_text(2.0 * double(settings().cache_limit)).c_str());
  if (scripts.empty()) return done;
  Table table({"entry", "bytes", "used", "made from"});
  for (const auto& s : scripts) table.add({std::filesystem::path(s.path).filename().string().substr(0, 15), bytes_text(double(s.bytes)), when(s.used), s.script.empty() ? "(frit.h precompiled)" : s.script});
  std::printf("%s", table.text().c_str());
  return done;
}
int verify(const DiskCache& kernels) {
  const auto entries = kernels.verify(true);
  const auto bad = std::count_if(entries.begin(), entries.end(), [](const auto& e) { return !e.sound; });
  int64_t bad_scripts = 0;
  const auto scripts = verify_scripts();
  for (const auto& s : scripts) bad_scripts += !s.sound;
  std::printf("%zu kernels: %zu sound, %lld damaged and removed\n%zu compiled scripts: %zu sound, %lld damaged and removed\n", entries.size(), entries.size() - size_t(bad), static_cast<long long>(bad),
              scripts.size(), scripts.size() - size_t(bad_scripts), static_cast<long long>(bad_scripts));
  return done;
}
int prune(DiskCache& kernels, const CacheOptions& options) {
  const int64_t limit = options.all ? 0 : options.limit.empty() ? settings().cache_limit : parse_bytes(options.limit);
  const int64_t freed = kernels.sweep(limit), freed_scripts = sweep_scripts(options.all || !options.limit.empty() ? limit : 2 * limit);
  std::printf("freed %s of kernels and %s of compiled scripts\n", bytes_text(double(freed)).c_str(), bytes_text(double(freed_scripts)).c_str());
  return done;
}
}  // namespace

int cache_command(const CacheOptions& options) {
  DiskCache* const kernels = kernel_disk_cache();
  if (!kernels) {
    std::printf("the cache on disk is off: %s\n", settings().cache ? "there is no folder for it; set FRIT_CACHE_DIR" : "FRIT_CACHE=0");
    return done;
  }
  if (options.action == "list") return list(*kernels);
  if (options.action == "verify") return verify(*kernels);
  return prune(*kernels, options);
}

}  // namespace frit::cli
