// Runs the built tool as a process, in a folder and with a cache of the test's own, and tells what came of it.
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace tool {

namespace fs = std::filesystem;

inline std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void spit(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes; }

struct Folder {
  fs::path path;
  Folder() {
    std::string pattern = fs::temp_directory_path() / "frit_cli_XXXXXX";
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string write(const std::string& name, const std::string& text) const {
    spit(path / name, text);
    return (path / name).string();
  }
};

struct Result {
  int code = -1, signal = 0;
  std::string out, error;
};
using Environment = std::map<std::string, std::string>;

// The cache that all tests share, so that the header is precompiled once.
inline std::string shared_cache() { return FRIT_TEST_CACHE; }

struct Started {
  pid_t pid;
  Folder folder;  // for the outputs
};
inline void start(Started& s, const std::vector<std::string>& words, const Environment& environment = {}, const std::string& output = "") {
  s.pid = ::fork();
  if (s.pid == 0) {
    ::setenv("FRIT_CACHE_DIR", shared_cache().c_str(), 1);
    ::setenv("FRIT_CACHE", "1", 1);
    ::setenv("TMPDIR", s.folder.path.c_str(), 1);
    for (const auto& [name, value] : environment) value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    const int out = ::open(output.empty() ? (s.folder.path / "out").c_str() : output.c_str(), O_WRONLY | O_CREAT, 0600), error = ::open((s.folder.path / "error").c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(out, 1), ::dup2(error, 2);
    ::close(0);
    std::vector<char*> pointers{const_cast<char*>(FRIT_TOOL)};
    for (const std::string& w : words) pointers.push_back(const_cast<char*>(w.c_str()));
    pointers.push_back(nullptr);
    ::execv(FRIT_TOOL, pointers.data());
    ::_exit(126);
  }
}
inline Result finish(Started& s) {
  int status = 0;
  ::waitpid(s.pid, &status, 0);
  Result r;
  if (WIFSIGNALED(status)) r.signal = WTERMSIG(status);
  else r.code = WEXITSTATUS(status);
  r.out = slurp(s.folder.path / "out"), r.error = slurp(s.folder.path / "error");
  return r;
}
inline Result call(const std::vector<std::string>& words, const Environment& environment = {}, const std::string& output = "") {
  Started s;
  start(s, words, environment, output);
  return finish(s);
}

}  // namespace tool
