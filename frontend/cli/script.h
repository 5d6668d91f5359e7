// Scripts: C++ files compiled against the Frit that this tool belongs to, and kept by their content.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include "frontend/cli/process.h"

namespace frit::cli {

struct ScriptOptions {
  std::string file;                     // "-": the standard input
  std::vector<std::string> arguments;   // for the script
  std::string mode, device, compiler, flags, buckets, trace;  // as given; empty: not given
  double timeout = 0;
};

// Where headers and library are: beside the tool (installed), or in the tree that it was built from.
struct Installation {
  std::vector<std::string> includes;
  std::string library;                  // the file that is loaded
  std::string headers_hash;             // of all their content
};
const Installation& installation();     // UsageError when the headers are not there
struct Compiler {
  std::string path, name, identity;     // identity: path, size and time
  std::vector<std::string> linker;      // -fuse-ld=…
  bool clang = false;
};
std::vector<Compiler> compilers(const std::string& wanted);  // what is found, the preferred first; wanted: a name or path, empty for any

// The program of a script, compiled if need be. ScriptError, with what the compiler said, when it does not compile; UsageError when
// the file cannot be read.
struct Compiled {
  std::string program;
  bool from_cache = false;
  double seconds = 0;                   // of compiling
  std::vector<std::string> files;       // the script, and what it includes of the user's own
  std::shared_ptr<Folder> folder;       // where it lies when there is no cache
};
Compiled compile_script(const ScriptOptions& options);

// Runs a compiled script with the settings that the options ask for, and more; its output goes to that file, where one is named. ScriptError, with how it ended, unless it ended well.
void run_script(const Compiled& compiled, const ScriptOptions& options, std::map<std::string, std::string> more = {}, const std::string& output = "");

// The folder of compiled scripts; empty when nothing is kept.
std::string script_cache_folder();
struct ScriptEntry {
  std::string path, script;
  int64_t bytes = 0, used = 0;
  bool sound = false;
};
std::vector<ScriptEntry> list_scripts(bool check);
std::vector<ScriptEntry> verify_scripts();         // removes what is not sound; nothing that a tool may be making now
int64_t sweep_scripts(int64_t limit);   // the least recently used go; bytes freed

}  // namespace frit::cli
