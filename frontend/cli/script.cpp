// Compiled scripts and their cache. An entry is a folder named by a hash of all that decides its content; a script's is made beside its place and
// renamed into it, a support's is whole once its list `files` is there:
//
//   support-<hash>/  frit.h precompiled, and the main of scripts that have none; by headers, compiler, flags
//   script-<hash>/   program; `files` says it was made from, each with a hash of its content
//
// An entry counts only while its files have the content that it was made from, its own bytes are whole, and nobody else can write
// it. Start at compile_script.
#include "frontend/cli/script.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "frit/compile.h"
#include "frontend/cli/console.h"
#include "runtime/disk_cache.h"
#include "runtime/settings.h"

namespace frit::cli {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {
std::string hash_of(const std::string& bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(h.high64), static_cast<unsigned long long>(h.low64));
  return text;
}
std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}
bool is_ours(const fs::path& path) {
  struct stat s {};
  return ::lstat(path.c_str(), &s) == 0 && s.st_uid == ::geteuid() && !(s.st_mode & (S_IWGRP | S_IWOTH)) && !S_ISLNK(s.st_mode);
}

// ---- entries -------------------------------------------------------------------------------------------------------------------
// `files`: {"script": …, "of": {path: hash}, "whole": {name: hash}}
constexpr const char* list_name = "files";
struct Entry {
  fs::path folder;
  bool sound(std::vector<std::string>* sources, bool compare_sources = true) const {
    if (!is_ours(folder)) return false;
    const json list = json::parse(bytes_of(folder / list_name), nullptr, false);
    if (!list.is_object() || !list.contains("of") || !list.contains("whole")) return false;
    for (const auto& [name, hash] : list["whole"].items())
      if (!is_ours(folder / name) || hash_of(bytes_of(folder / name)) != hash) return false;
    for (const auto& [path, hash] : list["of"].items()) {
      if (compare_sources && hash_of(bytes_of(path)) != hash) return false;
      if (sources) sources->push_back(path);
    }
    return true;
  }
  void touch() const { ::utimensat(AT_FDCWD, folder.c_str(), nullptr, 0); }
};
// begun: when the compiler was started. A file saved since then may not be what it read: the entry serves once.
void write_list(const fs::path& folder, const std::string& script, const std::vector<std::string>& sources, const std::vector<std::string>& names, fs::file_time_type begun) {
  json list{{"script", script}, {"of", json::object()}, {"whole", json::object()}};
  std::error_code error;
  for (const std::string& s : sources) list["of"][s] = fs::last_write_time(s, error) < begun && !error ? hash_of(bytes_of(s)) : "changed meanwhile";
  for (const std::string& n : names) list["whole"][n] = hash_of(bytes_of(folder / n));
  write_file((folder / list_name).string(), list.dump());
}
// Moves what was made into its place. Another tool's, just as good, may stand there.
void settle(const std::string& made, const fs::path& place) {
  std::error_code error;
  fs::rename(made, place, error);
  if (!error || Entry{place}.sound(nullptr)) return;
  fs::remove_all(place, error);
  fs::rename(made, place, error);
}
// The cache's folder if it can be written to; else a folder for this time alone.
struct Place {
  static constexpr uintmax_t enough = 160 << 20;  // bytes: a precompiled header of g++ and more
  std::string parent;
  std::shared_ptr<Folder> folder;
  explicit Place(const std::string& cache) {
    std::error_code error;
    if (!cache.empty()) {
      fs::create_directories(cache, error);
      if (!error) fs::permissions(cache, fs::perms::owner_all, error);
    }
    const bool writable = !cache.empty() && is_ours(cache) && ::access(cache.c_str(), W_OK | X_OK) == 0;
    const bool full = writable && fs::space(cache, error).available < enough && fs::space(fs::temp_directory_path(error), error).available >= enough;
    if (writable && !full) {
      parent = cache;
    } else {
      if (!cache.empty()) note("compiled scripts are not kept: " + cache + (full ? " has no room" : " cannot be written"));
      folder = std::make_shared<Folder>();
      parent = folder->path;
    }
  }
};

// ---- compiling -----------------------------------------------------------------------------------------------------------------
std::vector<std::string> base_flags(const Compiler& c, const std::string& more) {
  std::vector<std::string> flags{"-std=c++20", "-O1", "-g1", "-ffp-contract=off", "-fno-omit-frame-pointer", "-pthread"};
  for (const std::string& folder : installation().includes) flags.insert(flags.end(), {"-isystem", folder});
  if (c.clang) flags.push_back("-Wno-unknown-warning-option");
  for (const std::string& flag : words(more)) flags.push_back(flag);
  return flags;
}
std::string joined(const std::vector<std::string>& list) {
  std::string s;
  for (const std::string& w : list) s += w + '\n';
  return s;
}
Ended compile(std::vector<std::string> command, const std::string& errors) {
  Program p;
  p.command = std::move(command);
  p.error = errors;
  p.timeout = 600;
  return run_program(p);
}
const char* const support_main = "#include <frit/bench.h>\n__attribute__((weak)) int main(int count, char** words) { return frit::bench::run_bodies(count, words); }\n";

// One tool at a time makes the support (clang's precompiled header cannot be moved, so it is made in its place), or removes entries; many
// may compile with it.
struct Lock {
  int fd;
  explicit Lock(const fs::path& folder, int how) : fd(::open((folder / "lock").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {
    while (fd >= 0 && ::flock(fd, how) && errno == EINTR) check_interrupted();
  }
  ~Lock() { if (fd >= 0) ::close(fd); }
  Lock(const Lock&) = delete;
};
// The precompiled header and the main. False when this compiler cannot compile the header.
bool make_support(const Compiler& c, const std::vector<std::string>& flags, const fs::path& place, std::string& said) {
  if (Entry{place}.sound(nullptr)) return Entry{place}.touch(), true;
  const Lock lock(place.parent_path(), LOCK_EX);
  if (Entry{place}.sound(nullptr)) return true;
  const Progress progress("precompiling frit/frit.h with " + c.name);
  std::error_code error;
  fs::remove_all(place, error);
  fs::create_directories(place, error);
  fs::permissions(place, fs::perms::owner_all, error);
  const Folder scratch;
  const std::string errors = scratch.path + "/errors", header = (place / "start.h").string(), main = (place / "main.cpp").string();
  write_file(header, "#include <frit/frit.h>\n");
  write_file(main, support_main);
  std::vector<std::string> command{c.path};
  command.insert(command.end(), flags.begin(), flags.end());
  std::vector<std::string> main_command = command;
  if (c.clang) command.push_back("-fpch-instantiate-templates");
  command.insert(command.end(), {"-x", "c++-header", header, "-o", header + (c.clang ? ".pch" : ".gch")});
  main_command.insert(main_command.end(), {"-c", main, "-o", (place / "main.o").string()});
  if (!compile(command, errors).good() || !compile(main_command, errors).good()) {
    said = bytes_of(errors);
    fs::remove_all(place, error);
    return false;
  }
  write_list(place, "", {}, {"start.h", c.clang ? "start.h.pch" : "start.h.gch", "main.o"}, fs::file_time_type::clock::now());
  return true;
}
// What the compiler says it read (a make rule), without Frit's own and the system's headers.
std::vector<std::string> user_files(const std::string& rule) {
  std::vector<std::string> files;
  std::string text = rule.substr(std::min(rule.find(": "), rule.size()));
  std::string word;
  const auto take = [&] {
    std::error_code error;
    if (!word.empty() && word != ":" && word.find("/start.h") == word.npos) files.push_back(fs::absolute(word, error).lexically_normal().string());
    word.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      if (text[i] != '\n') word += text[i];
    } else if (text[i] == ' ' || text[i] == '\n') {
      take();
    } else {
      word += text[i];
    }
  }
  take();
  return files;
}
bool includes_frit_first(const std::string& source) {
  std::istringstream in(source);
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find_first_not_of(" \t");
    if (at == line.npos || line.compare(at, 2, "//") == 0) continue;
    if (line[at] != '#') return false;
    const auto w = words(line);
    if (line.find("<frit/frit.h>") != line.npos || line.find("<frit/torch.h>") != line.npos) return true;
    if (line.find("include") == line.npos) return false;  // a definition may change what a header means
  }
  return false;
}
std::string hint(const std::string& said) {
  if (said.find("frit::bench::run_bodies") != said.npos) return "the script has neither a main nor FRIT_BENCH bodies";
  return "";
}
}  // namespace

std::string script_cache_folder() {
  const std::string base = cache_folder();
  return base.empty() || !settings().cache ? "" : base + "/scripts";
}

Compiled compile_script(const ScriptOptions& options) {
  std::error_code error;
  Compiled result;
  if (fs::is_directory(options.file, error)) throw UsageError(options.file + " is a folder. Name a C++ file.");
  if (!fs::exists(options.file, error)) throw UsageError(options.file + ": there is no such file");
  if (::access(options.file.c_str(), R_OK)) throw UsageError(options.file + " cannot be read. Check its permissions.");
  if (!options.buckets.empty() && !fs::exists(options.buckets, error)) throw UsageError(options.buckets + ": there is no such policy file. frit tune writes one.");
  try {  // here nothing depends on it: a damaged one is told before the script is compiled
    if (!options.buckets.empty()) buckets::load(options.buckets);
  } catch (const Error& e) {
    const std::string text = e.what();
    throw UsageError(options.buckets + ": " + text.substr(0, text.find(" (called at")));  // the line would be this one
  }
  const std::string source = bytes_of(options.file), path = fs::canonical(options.file, error).string();
  const auto candidates = compilers(options.compiler);
  if (candidates.empty()) throw UsageError("no C++ compiler is there: neither clang++ nor g++. Install one (apt-get install clang, or g++).");
  const Place place(script_cache_folder());
  result.folder = place.folder;
  const double start = seconds_now();
  std::string said;
  for (const Compiler& c : candidates) {
    const std::vector<std::string> flags = base_flags(c, options.flags);
    const std::string made_with = c.identity + '\0' + joined(flags) + installation().headers_hash + installation().library + support_main;
    const fs::path entry = fs::path(place.parent) / ("script-" + hash_of(made_with + '\0' + path + '\0' + options.file + '\0' + fs::current_path(error).string()));
    result.program = (entry / "program").string();
    if (Entry{entry}.sound(&result.files)) {
      Entry{entry}.touch();
      result.from_cache = true;
      return result;
    }
    result.files = {path};
    const fs::path support = fs::path(place.parent) / ("support-" + hash_of(made_with));
    std::unique_ptr<Lock> reading;
    bool made = true;
    for (int tries = 0; tries < 3 && made && !reading; ++tries) {  // somebody may remove it in between
      made = make_support(c, flags, support, said);
      if (made) reading = std::make_unique<Lock>(place.parent, LOCK_SH);
      if (made && tries < 2 && !Entry{support}.sound(nullptr)) reading.reset();
    }
    if (!made) {
      if (!options.flags.empty()) break;  // the flags may be wrong
      continue;
    }
    const Progress progress("compiling " + options.file + " with " + c.name);
    Folder beside(place.parent);
    std::vector<std::string> command{c.path};
    command.insert(command.end(), flags.begin(), flags.end());
    if (includes_frit_first(source)) {
      if (c.clang) command.insert(command.end(), {"-include-pch", (support / "start.h.pch").string()});
      else command.insert(command.end(), {"-include", (support / "start.h").string()});
    }
    const std::string library = fs::path(installation().library).parent_path().string();
    command.insert(command.end(), {"-fdiagnostics-color=" + std::string(is_terminal(2) ? "always" : "never"), "-MMD", "-MF", beside.path + "/rule", "-x", "c++", options.file, "-x", "none",
                                   (support / "main.o").string(), installation().library, "-Wl,-rpath," + library, "-o", beside.path + "/program"});
    command.insert(command.end(), c.linker.begin(), c.linker.end());
    const auto begun = fs::file_time_type::clock::now();
    const Folder scratch;
    const Ended ended = compile(command, scratch.path + "/errors");
    said = bytes_of(scratch.path + "/errors");
    if (!ended.good()) {
      const std::string more = hint(said);
      std::fputs(said.c_str(), stderr);
      throw ScriptError(options.file + " does not compile (" + c.name + ")" + (!more.empty() ? ": " + more : said.empty() ? ": it does not say why (is the disk of " + fs::temp_directory_path(error).string() + " full?)" : ""));
    }
    std::fputs(said.c_str(), stderr);  // warnings
    result.files = user_files(bytes_of(beside.path + "/rule"));
    fs::remove(beside.path + "/rule", error);
    write_list(beside.path, path, result.files, {"program"}, begun);
    settle(beside.path, entry);
    reading.reset();
    if (!place.folder) sweep_scripts(2 * settings().cache_limit);
    result.seconds = seconds_now() - start;
    return result;
  }
  std::fputs(said.c_str(), stderr);
  throw ScriptError(options.file + " does not compile: " + (options.flags.empty() ? "no compiler here can compile frit/frit.h" + std::string(said.empty() ? "; none of them says why (is the disk full?)" : "") : "the compiler refuses frit/frit.h with the flags " + options.flags));
}

void run_script(const Compiled& compiled, const ScriptOptions& options, std::map<std::string, std::string> more, const std::string& output) {
  Program p;
  p.command = {compiled.program};
  p.command.insert(p.command.end(), options.arguments.begin(), options.arguments.end());
  p.setting = std::move(more);
  p.timeout = options.timeout;
  if (!options.mode.empty()) p.setting["FRIT_MODE"] = options.mode;
  else if (environment_variable("FRIT_MODE").empty()) p.setting["FRIT_MODE"] = "automatic";
  if (!options.buckets.empty()) p.setting["FRIT_BUCKETS"] = fs::absolute(options.buckets).lexically_normal().string();
  p.output = output;
  std::fflush(stdout);
  const Ended ended = run_program(p);
  if (!ended.good()) throw ScriptError(options.file + " " + ended.text(options.timeout));
}

std::vector<ScriptEntry> list_scripts(bool check) {
  std::vector<ScriptEntry> list;
  std::error_code error;
  for (fs::directory_iterator at(script_cache_folder(), error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with("script-") && !name.starts_with("support-") && !name.starts_with("frit-")) continue;
    ScriptEntry e;
    e.path = at->path().string();
    const json files = json::parse(bytes_of(at->path() / list_name), nullptr, false);
    if (files.is_object()) e.script = files.value("script", "");
    struct stat s {};
    if (::lstat(e.path.c_str(), &s) == 0) e.used = s.st_mtim.tv_sec;
    std::error_code inner;
    for (fs::recursive_directory_iterator in(at->path(), inner), last; !inner && in != last; in.increment(inner))
      if (in->is_regular_file(inner)) e.bytes += int64_t(in->file_size(inner));
    e.sound = !name.starts_with("frit-") && (!check || Entry{at->path()}.sound(nullptr, false));
    list.push_back(std::move(e));
  }
  return list;
}
namespace {
int64_t seconds_of_day() { return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count(); }
// Of a tool that was killed, or at work now: a compile does not take an hour.
bool may_be_in_use(const ScriptEntry& e) { return fs::path(e.path).filename().string().starts_with("frit-") && seconds_of_day() - e.used < 3600; }
}  // namespace
std::vector<ScriptEntry> verify_scripts() {
  const Lock lock(script_cache_folder(), LOCK_EX);
  std::vector<ScriptEntry> list = list_scripts(true);
  std::erase_if(list, may_be_in_use);
  for (const ScriptEntry& e : list) {
    std::error_code error;
    if (!e.sound) fs::remove_all(e.path, error);
  }
  return list;
}
int64_t sweep_scripts(int64_t limit) {
  const Lock lock(script_cache_folder(), LOCK_EX);
  std::vector<ScriptEntry> list = list_scripts(false);
  std::sort(list.begin(), list.end(), [](const ScriptEntry& a, const ScriptEntry& b) { return a.used < b.used; });
  int64_t total = 0, freed = 0;
  for (const ScriptEntry& e : list) total += e.bytes;
  for (const ScriptEntry& e : list) {
    const bool left_behind = fs::path(e.path).filename().string().starts_with("frit-");
    if (left_behind ? may_be_in_use(e) : total - freed <= limit) continue;
    std::error_code error;
    fs::remove_all(e.path, error);
    if (!error) freed += e.bytes;
  }
  return freed;
}

}  // namespace frit::cli
