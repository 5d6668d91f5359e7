// What the tool says and how: messages, tables, colours and progress (on a terminal only), and its two kinds of failure.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace frit::cli {

constexpr int done = 0, script_failed = 1, wrong_usage = 2;  // exit codes

struct UsageError : std::runtime_error { using std::runtime_error::runtime_error; };   // exit code 2
struct ScriptError : std::runtime_error { using std::runtime_error::runtime_error; };  // exit code 1

// Text in a colour where that output is a terminal, else as it is. NO_COLOR turns colours off.
enum class Tone { plain, bold, good, bad, faint };
std::string toned(const std::string& text, Tone tone, int output = 1);
bool is_terminal(int output);

void complain(const std::string& text);  // "frit: text" on the standard error output
void note(const std::string& text);      // the same, not an error

// A line on the terminal that says what is being done, until it is replaced or goes; nothing where there is no terminal.
class Progress {
 public:
  explicit Progress(const std::string& text) { show(text); }
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  void show(const std::string& text);
  void clear();

 private:
  bool shown_ = false;
};

// Rows of equal length; numbers to the right. The first row is the head.
class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;
  std::string markdown() const;

 private:
  std::vector<std::string> padded(bool markdown) const;
  std::vector<std::vector<std::string>> rows_;
};

std::string seconds_text(double s);       // "1.25 ms"
std::string bytes_text(double b);         // "3.2 MiB"
std::string number_text(double v, int digits = 3);

// Whole or not at all: written beside its place and renamed. UsageError when the place cannot be written.
void write_file(const std::string& path, const std::string& bytes);
void check_writable(const std::string& path);    // before long work whose result goes there
std::string read_file(const std::string& path);  // UsageError when it cannot be read

}  // namespace frit::cli
