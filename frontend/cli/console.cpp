// Messages, tables and files of the tool. Start at Table::padded, write_file.
#include "frontend/cli/console.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include "runtime/settings.h"

namespace frit::cli {

bool is_terminal(int output) {
  const std::string kind = environment_variable("TERM");
  return ::isatty(output) && !kind.empty() && kind != "dumb";
}
std::string toned(const std::string& text, Tone tone, int output) {
  static const bool wanted = environment_variable("NO_COLOR").empty();
  const char* code[] = {"", "1", "32", "31", "2"};
  if (tone == Tone::plain || !wanted || !is_terminal(output)) return text;
  return std::string("\033[") + code[int(tone)] + "m" + text + "\033[0m";
}
void complain(const std::string& text) { std::fprintf(stderr, "%s %s\n", toned("frit:", Tone::bad, 2).c_str(), text.c_str()); }
void note(const std::string& text) { std::fprintf(stderr, "%s %s\n", toned("frit:", Tone::faint, 2).c_str(), text.c_str()); }

void Progress::show(const std::string& text) {
  if (!is_terminal(2)) return;
  std::fprintf(stderr, "\r\033[K%s", toned(text, Tone::faint, 2).c_str());
  std::fflush(stderr);
  shown_ = true;
}
void Progress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

namespace {
size_t width(const std::string& s) {  // of UTF-8, without control sequences
  size_t n = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '\033') i = std::min(s.find('m', i), s.size());
    else if ((static_cast<unsigned char>(s[i]) & 0xc0) != 0x80) ++n;
  }
  return n;
}
bool looks_like_number(const std::string& s) { return !s.empty() && (std::isdigit(static_cast<unsigned char>(s[0])) || s[0] == '-' || s[0] == '+'); }
}  // namespace

std::vector<std::string> Table::padded(bool markdown) const {
  const size_t columns = rows_[0].size();
  std::vector<size_t> widest(columns);
  std::vector<bool> right(columns, rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r)
    for (size_t c = 0; c < columns; ++c) {
      widest[c] = std::max(widest[c], width(rows_[r][c]));
      if (r && !looks_like_number(rows_[r][c])) right[c] = false;
    }
  std::vector<std::string> lines;
  for (const auto& row : rows_) {
    std::string line = markdown ? "|" : "";
    for (size_t c = 0; c < columns; ++c) {
      const std::string space(widest[c] - width(row[c]), ' ');
      const std::string cell = right[c] ? space + row[c] : row[c] + space;
      line += markdown ? " " + cell + " |" : (c ? "  " : "") + cell;
    }
    if (!markdown) line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(line);
    if (markdown && lines.size() == 1) {
      std::string rule = "|";
      for (size_t c = 0; c < columns; ++c) rule += std::string(widest[c] + 1, '-') + (right[c] ? ":|" : "-|");
      lines.push_back(rule);
    }
  }
  return lines;
}
std::string Table::text() const {
  std::string s;
  for (const std::string& line : padded(false)) s += s.empty() ? toned(line, Tone::bold) + "\n" : line + "\n";
  return s;
}
std::string Table::markdown() const {
  std::string s;
  for (const std::string& line : padded(true)) s += line + "\n";
  return s;
}

std::string number_text(double v, int digits) {
  if (!std::isfinite(v)) return "-";
  char s[64];
  const double size = std::fabs(v);
  if (v == std::floor(v) && size < 1e15) return std::to_string(static_cast<long long>(v));
  std::snprintf(s, sizeof s, "%.*f", size == 0 ? 0 : std::clamp(digits - 1 - int(std::floor(std::log10(size))), 0, 6), v);
  return s;
}
std::string seconds_text(double s) {
  if (!std::isfinite(s)) return "-";
  const double size = std::fabs(s);
  if (size < 1e-6) return number_text(s * 1e9) + " ns";
  if (size < 1e-3) return number_text(s * 1e6) + " us";
  if (size < 1) return number_text(s * 1e3) + " ms";
  return number_text(s) + " s";
}
std::string bytes_text(double b) {
  const char* unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  while (std::fabs(b) >= 1024 && u < 4) b /= 1024, ++u;
  return number_text(b) + " " + unit[u];
}

void write_file(const std::string& path, const std::string& bytes) {
  struct stat s;
  const bool plain = ::stat(path.c_str(), &s) != 0 || S_ISREG(s.st_mode);  // a pipe or a device is written as it is
  const std::string beside = plain ? path + ".tmp-" + std::to_string(::getpid()) : path;
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (plain ? O_TRUNC : 0), 0666);
  const auto refuse = [&] {
    const std::string why = std::strerror(errno);
    if (fd >= 0) ::close(fd);
    if (plain && fd >= 0) ::unlink(beside.c_str());
    throw UsageError(path + " cannot be written: " + why);
  };
  if (fd < 0) refuse();
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) refuse();
    at += size_t(n);
  }
  if (plain && ::rename(beside.c_str(), path.c_str())) refuse();
  ::close(fd);
}
void check_writable(const std::string& path) {
  struct stat s;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
  if (::stat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode)) throw UsageError(path + " cannot be written: it is a folder");
  const std::string& place = ::stat(path.c_str(), &s) == 0 && !S_ISREG(s.st_mode) ? path : folder;
  if (::access(place.c_str(), W_OK)) {
    const std::string why = std::strerror(errno);
    throw UsageError(path + " cannot be written: " + why);
  }
}
std::string read_file(const std::string& path) {
  struct stat s;
  if (::stat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode)) throw UsageError(path + " cannot be read: it is a folder");
  std::ifstream in(path, std::ios::binary);
  const std::string why = in ? "" : std::strerror(errno);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!why.empty() || in.bad()) throw UsageError(path + " cannot be read: " + (why.empty() ? "an error in the middle" : why));
  return bytes;
}

}  // namespace frit::cli
