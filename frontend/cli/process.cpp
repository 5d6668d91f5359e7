// Running other programs. While one runs, the tool only waits: a signal that asks the tool to end is passed on, the program's end
// is awaited, and then Interrupted is thrown, so that everything half made is cleaned away. Start at run_program.
#include "frontend/cli/process.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include "frontend/cli/console.h"
#include "runtime/settings.h"

namespace frit::cli {

namespace fs = std::filesystem;

namespace {
constexpr int watched[] = {SIGINT, SIGTERM, SIGHUP};
std::atomic<int> noted{0};
std::atomic<pid_t> running{0};

void on_signal(int signal) {
  noted = signal;
  const pid_t child = running;
  if (child > 0) ::kill(child, signal);
}
std::vector<std::string> environment_with(const std::map<std::string, std::string>& setting) {
  std::vector<std::string> all;
  for (char** entry = environ; entry && *entry; ++entry)
    if (!setting.count(std::string(*entry, std::strcspn(*entry, "=")))) all.push_back(*entry);
  for (const auto& [name, value] : setting)
    if (!value.empty()) all.push_back(name + "=" + value);
  return all;
}
std::vector<char*> pointers(const std::vector<std::string>& list) {
  std::vector<char*> p;
  for (const std::string& s : list) p.push_back(const_cast<char*>(s.c_str()));
  p.push_back(nullptr);
  return p;
}
void redirect(const std::string& file, int output) {
  if (file.empty()) return;
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (fd < 0 || ::dup2(fd, output) < 0) ::_exit(127);
  ::close(fd);
}
}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (int signal : watched) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
}
void check_interrupted() {
  if (noted) throw Interrupted{noted};
}

Ended run_program(const Program& program) {
  check_interrupted();
  const std::string path = find_program(program.command.at(0));
  if (path.empty()) throw ScriptError(program.command[0] + " cannot be run: no such program");
  const std::vector<std::string> environment = environment_with(program.setting);
  const std::vector<char*> arguments = pointers(program.command), variables = pointers(environment);
  // Until the new process has its own ways with signals, and this one knows it, they wait: a Ctrl-C in between would reach nobody.
  sigset_t waiting, usual;
  ::sigemptyset(&waiting);
  for (int signal : watched) ::sigaddset(&waiting, signal);
  ::sigprocmask(SIG_BLOCK, &waiting, &usual);
  if (noted) {
    ::sigprocmask(SIG_SETMASK, &usual, nullptr);
    check_interrupted();
  }
  const pid_t parent = ::getpid(), child = ::fork();
  const int why = errno;
  running = std::max(child, 0);
  if (child != 0) ::sigprocmask(SIG_SETMASK, &usual, nullptr);
  if (child < 0) throw ScriptError(std::string("no process can be started: ") + std::strerror(why));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    for (int signal : watched) {
      struct sigaction now {};
      ::sigaction(signal, nullptr, &now);
      if (now.sa_handler != SIG_IGN) ::signal(signal, SIG_DFL);
    }
    ::sigprocmask(SIG_SETMASK, &usual, nullptr);
    redirect(program.output, 1);
    redirect(program.error, 2);
    ::execve(path.c_str(), arguments.data(), variables.data());
    ::dprintf(2, "frit: %s cannot be run: %s\n", path.c_str(), std::strerror(errno));
    ::_exit(127);
  }
  Ended ended;
  const auto start = std::chrono::steady_clock::now();
  int status = 0;
  for (;;) {
    const pid_t got = ::waitpid(child, &status, program.timeout > 0 ? WNOHANG : 0);
    if (got == child) break;
    if (got < 0 && errno != EINTR) break;
    if (program.timeout > 0 && got == 0) {
      if (!ended.late && std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > program.timeout) ended.late = true, ::kill(child, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  running = 0;
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  else ended.code = WEXITSTATUS(status);
  check_interrupted();
  if (ended.signal == SIGINT) throw Interrupted{SIGINT};
  return ended;
}
std::string Ended::text(double timeout) const {
  if (late) return "did not end within " + number_text(timeout) + " s and was stopped";
  if (signal) return "was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  return "ended with exit code " + std::to_string(code);
}

Captured capture(const std::vector<std::string>& command) {
  const Folder folder;
  Program p{command, {}, 20, folder.path + "/text", folder.path + "/text"};
  Captured c;
  c.ended = run_program(p);
  c.text = read_file(p.output);
  return c;
}
std::string find_program(const std::string& name) {
  if (name.find('/') != name.npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const std::string path = environment_variable("PATH");
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const std::string candidate = path.substr(at, end - at) + "/" + name;
    if (end > at && ::access(candidate.c_str(), X_OK) == 0 && !fs::is_directory(candidate)) return candidate;
    at = end + 1;
  }
  return "";
}

Folder::Folder(const std::string& parent) {
  std::error_code error;
  const std::string base = parent.empty() ? fs::temp_directory_path(error).string() : parent;
  path = (base.empty() ? "/tmp" : base) + "/frit-XXXXXX";
  if (!::mkdtemp(path.data())) {
    const std::string why = std::strerror(errno);
    throw UsageError("no folder can be made in " + base + ": " + why);
  }
}
Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace frit::cli
