// Other programs, run and waited for; folders that go when they are done with; and Ctrl-C, which ends what is running and then the tool.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace frit::cli {

struct Interrupted {  // thrown where the tool was asked to end
  int signal;
};
void watch_signals();      // from now on: they are noted, and passed on to the program that runs
void check_interrupted();  // throws Interrupted

struct Program {
  std::vector<std::string> command;           // the first is a path, or looked up in PATH
  std::map<std::string, std::string> setting;  // environment variables beside the tool's own; an empty value takes one away
  double timeout = 0;                          // seconds; 0: none
  std::string output, error;                   // files for its standard outputs; empty: the tool's own
};
struct Ended {
  int code = 0, signal = 0;
  bool late = false;                           // it was ended after the timeout
  bool good() const { return code == 0 && signal == 0 && !late; }
  std::string text(double timeout) const;      // "exit code 3", "killed by signal 11 (Segmentation fault)"
};
Ended run_program(const Program& program);     // throws Interrupted when a signal ended the tool's work
struct Captured {
  Ended ended;
  std::string text;
};
Captured capture(const std::vector<std::string>& command);  // both outputs as one text
std::string find_program(const std::string& name);          // its path; empty when there is none

class Folder {  // fresh, of our own, removed with all in it
 public:
  explicit Folder(const std::string& parent = "");  // empty: where temporary files go. UsageError when it cannot be made
  ~Folder();
  Folder(const Folder&) = delete;
  std::string path;
};

}  // namespace frit::cli
