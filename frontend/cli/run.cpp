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
// files: of the script, as far as known; look: theirs when they were compiled.
void run_once(const RunOptions& options, std::vector<std::string>& files, std::string& look) {
  look = look_of(files);
  const Compiled compiled = compile_script(options);
  const bool changed = look_of(files) != look;  // meanwhile: it is to run once more
  files = compiled.files;
  look = look_of(files) + (changed ? "changed" : "");
  if (options.verbose) note(compiled.from_cache ? "compiled before: " + compiled.program : "compiled in " + seconds_text(compiled.seconds));
  if (options.trace.empty()) return run_script(compiled, options);
  const Recorded recorded(compiled, options, {});
  write_file(options.trace, chrome_trace(recorded.json));
}
}  // namespace

int run_command(const RunOptions& options) {
  std::vector<std::string> files{options.file};
  if (!options.trace.empty()) check_writable(options.trace);
  std::string look;
  if (!options.watch) return run_once(options, files, look), done;
  for (bool first = true;; first = false) {
    try {
      run_once(options, files, look);
    } catch (const ScriptError& e) {
      complain(e.what());
    } catch (const UsageError& e) {
      if (first) throw;
      complain(e.what());  // an editor may be about to put the file in its place
    }
    note("waiting for a change of " + options.file);
    while (look_of(files) == look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      check_interrupted();
    }
  }
}

}  // namespace frit::cli
