// frit run: compiles a script (or takes it from the cache) and runs it; with --watch again and again, whenever a file of it changes.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <chrono>
#include <fstream>
#include <iostream>
#include <thread>
#include "frontend/cli/commands.h"
#include "frontend/cli/record.h"

namespace frit::cli {

namespace {
// Size and time of each file, as one text.
std::string look_of(const std::vector<std::string>& files) {
  std::string s;
  for (const std::string& f : files) {
    struct stat st {};
    if (::stat(f.c_str(), &st) == 0) s += f + ":" + std::to_string(st.st_size) + ":" + std::to_string(st.st_mtim.tv_sec) + "." + std::to_string(st.st_mtim.tv_nsec) + "\n";
  }
  return s;
}
void run_once(const RunOptions& options, std::vector<std::string>& files) {
  const Compiled compiled = compile_script(options);
  files = compiled.files;
  if (options.verbose) note(compiled.from_cache ? "compiled before: " + compiled.program : "compiled in " + seconds_text(compiled.seconds));
  if (options.trace.empty()) return run_script(compiled, options);
  const Recorded recorded(compiled, options, {}, false);
  write_file(options.trace, chrome_trace(recorded.json));
}
}  // namespace

int run_command(const RunOptions& options) {
  std::vector<std::string> files{options.file};
  if (!options.trace.empty()) check_writable(options.trace);
  if (!options.watch) return run_once(options, files), done;
  for (;;) {
    const std::string before = look_of(files);
    try {
      run_once(options, files);
    } catch (const ScriptError& e) {
      complain(e.what());
    }
    const std::string seen = files.size() == 1 ? before : look_of(files);
    note("waiting for a change of " + options.file);
    while (look_of(files) == seen) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      check_interrupted();
    }
  }
}

}  // namespace frit::cli
