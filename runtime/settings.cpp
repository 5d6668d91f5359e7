// Reads the FRIT_* environment variables by the table in settings.h: one parse function per kind. Start at
// parse_settings. This is the only file that asks for environment variables.
#include "runtime/settings.h"
#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include "runtime/error.h"

namespace frit {
namespace {

struct Row {
  const char *member, *kind, *standard, *values, *help;
  std::string variable() const {
    std::string name = "FRIT_";
    for (const char* c = member; *c; ++c) name += char(std::toupper(*c));
    return name;
  }
};

constexpr Row rows[] = {
#define X(member, kind, standard, values, help) {#member, #kind, standard, values, help},
    FRIT_FOR_EACH_SETTING(X)
#undef X
};

[[noreturn]] void refuse(const Row& row, const std::string& text, const std::string& allowed) {
  throw ValueError(row.variable() + "=" + text + ": expected " + allowed + " (" + row.help + ")");
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(by, at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

bool known(const Row& row, const std::string& word) {
  const auto allowed = split(row.values, '|');
  return std::find(allowed.begin(), allowed.end(), word) != allowed.end();
}

std::string alternatives(const Row& row) {
  std::string s;
  for (const auto& word : split(row.values, '|')) s += (s.empty() ? "" : ", ") + word;
  return s;
}

struct Parse {
  const Row& row;
  const std::string& text;

  void choice(std::string& to) const {
    if (!known(row, text)) refuse(row, text, "one of " + alternatives(row));
    to = text;
  }
  void words(std::vector<std::string>& to) const {
    to = split(text, ',');
    for (const auto& word : to)
      if (!known(row, word)) refuse(row, text, "a comma-separated list of " + alternatives(row));
  }
  void count(int64_t& to) const {
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, to);
    if (error != std::errc() || at != end || to < 0) refuse(row, text, "a whole number, 0 or more");
  }
  void bytes(int64_t& to) const {
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, to);
    int shift = 0;
    if (at + 1 == end) {
      const char* unit = std::strchr("KMGT", std::toupper(*at));
      shift = unit && *unit ? int(10 * (unit - std::strchr("KMGT", 'K') + 1)) : -1;
    }
    if (error != std::errc() || end - at > 1 || shift < 0 || to < 0 || to > INT64_MAX >> shift)
      refuse(row, text, "a number of bytes such as 1073741824, 512M or 8G");
    to <<= shift;
  }
  void path(std::string& to) const {
    if (!text.empty() && text[0] != '/') refuse(row, text, "a path from the root, such as /var/cache/frit");
    to = text;
  }
  void flag(bool& to) const {
    if (text != "0" && text != "1") refuse(row, text, "0 or 1");
    to = text == "1";
  }
};

const char* environment(const char* name) { return std::getenv(name); }

}  // namespace

std::string environment_variable(const char* name) {
  const char* const value = environment(name);
  return value ? value : "";
}

Settings parse_settings(const SettingLookup& lookup) {
  Settings s;
  const Row* row = rows;
#define X(member, kind, standard, values, help)                     \
  {                                                                 \
    const char* given = lookup(row->variable().c_str());            \
    const std::string text = given && *given ? given : standard;    \
    Parse{*row, text}.kind(s.member);                               \
    ++row;                                                          \
  }
  FRIT_FOR_EACH_SETTING(X)
#undef X
  return s;
}

void at_load(const std::function<void()>& start) {
  try {
    start();
  } catch (const Error& e) {
    const std::string line = std::string("frit: ") + e.what() + "\n";
    [[maybe_unused]] const ssize_t told = ::write(2, line.data(), line.size());
    ::_exit(2);
  }
}
const Settings& settings() {
  static const Settings* s = new Settings(parse_settings(environment));
  return *s;
}

std::vector<SettingRow> setting_rows() {
  std::vector<SettingRow> list;
  for (const Row& row : rows) {
    const char* given = environment(row.variable().c_str());
    const bool set = given && *given;
    list.push_back({row.variable(), row.kind, set ? given : row.standard, row.standard, row.values, row.help, set});
  }
  return list;
}

std::string settings_text() {
  const auto list = setting_rows();
  std::string s;
  for (const auto& row : list) {
    const std::string standard = row.standard.empty() ? "nothing" : row.standard;
    s += row.name + "=" + row.value + (row.from_environment ? "  (environment; default " + standard + ")" : "  (default)") + "\n    " +
         row.help + (row.values.empty() ? "" : " [" + row.values + "]") + "\n";
  }
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    const bool ours = name.rfind("FRIT_", 0) == 0;
    if (ours && std::none_of(list.begin(), list.end(), [&](const SettingRow& row) { return row.name == name; }))
      s += name + " is set, but no such setting exists\n";
  }
  return s;
}

}  // namespace frit
