// Are the tests of automatic mode sharp? Every fault of faults.cmake is turned on by itself, in a process of its own, and has to be
// found by the checks of the key or by random programs, within so many. Without a fault nothing is found.
// FRIT_FAULT: a part of the names of the faults to try (all that are not called rare). FRIT_CACHE=0 has to be set: faulty kernels must not reach the disk.
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <csignal>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>
#include "jit/tiers.h"
#include "runtime/settings.h"
#include "tests/faults/planted.h"
#include "tests/support/follow_checks.h"
#include "tests/support/key_checks.h"
#include "tests/support/random_program.h"

namespace frit::testing {
int planted_fault = 0;
}
using namespace frit;
using namespace frit::testing;

namespace {
const char* const fault_names[] = {
    "none",
#include "fault_names.inc"
};
constexpr int most_programs = 400, most_when_named = 5000, fault_count = int(std::size(fault_names));

// 0: nothing was found; 1: the checks of the key complain; 2: those of repetition; 2 + n: the n-th program shows something else, or fails inside.
int look_for_it(int programs) {
  if (!fields_that_the_key_misses().empty() || !what_the_key_sees_too_much().empty() || !what_the_key_misses_of_policies().empty()) return 1;
  if (!what_repetition_gets_wrong().empty()) return 2;
  jit::tier_settings().hot = 2;
  for (int seed = 1; seed <= programs; ++seed) {
    const TensorProgram p = random_tensor_program(uint64_t(seed));
    try {
      const std::vector<Shown> wanted = run_eager(p);
      for (const Way way : all_ways)
        if (!compare(p, wanted, way).empty()) return 2 + seed;
    } catch (const std::exception&) {
      return 2 + seed;
    }
  }
  return 0;
}

struct Found {
  bool found = false;
  std::string how = "by nothing";
};
// In a child, which may crash: that counts as found.
struct Child {
  pid_t pid;
  int pipe_end;
};
Child start(int fault, int programs) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(240);
    // A fault may destroy the heap: what the test program does at a crash would wait for the heap's lock.
    for (int s : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(s, SIG_DFL);
    planted_fault = fault;
    const int result = look_for_it(programs);
    const ssize_t written = write(ends[1], &result, sizeof result);
    _exit(written == ssize_t(sizeof result) ? 0 : 1);
  }
  close(ends[1]);
  return {pid, ends[0]};
}
Found finish(const Child& c) {
  int result = 0, status = 0;
  const bool reported = read(c.pipe_end, &result, sizeof result) == ssize_t(sizeof result);
  close(c.pipe_end);
  waitpid(c.pid, &status, 0);
  if (!reported && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return {false, "nothing in the time it has"};
  if (!reported) return {true, "by a crash"};
  if (result == 0) return {};
  return {true, result == 1 ? "by the key" : result == 2 ? "by repetition" : "by program " + std::to_string(result - 2)};
}

}  // namespace

// Case E06: the results are those of eager mode, what failed is told, and afterwards everything is compiled again.
TEST_CASE("a compile that fails leaves everything usable", "[automatic][faults]") {
  REQUIRE_FALSE(settings().cache);
  const auto names = std::begin(fault_names);
  for (const char* name : {"kernel_compiles_fail", "plan_compiles_fail"}) {
    INFO(name);
    const Child c = [&] {
      int ends[2];
      if (pipe(ends) != 0) throw std::runtime_error("pipe");
      const pid_t pid = fork();
      if (pid == 0) {
        alarm(240);
        int wrong = 0;
        for (const bool fails : {true, false})
          for (int seed = 1; seed <= 30; ++seed) {
            planted_fault = fails ? int(std::find_if(names, std::end(fault_names), [&](const char* n) { return std::string(n) == name; }) - names) : 0;
            jit::forget_kernels();
            const TensorProgram p = random_tensor_program(uint64_t(seed));
            const std::vector<Shown> wanted = run_eager(p);
            for (const Way way : all_ways) {
              const std::string text = compare(p, wanted, way);
              wrong += !text.empty() && !(fails && text == "a compile failed: planted");
            }
          }
        if (jit::compile_failures().empty()) ++wrong;
        const ssize_t written = write(ends[1], &wrong, sizeof wrong);
        _exit(written == ssize_t(sizeof wrong) ? 0 : 1);
      }
      close(ends[1]);
      return Child{pid, ends[0]};
    }();
    CHECK(finish(c).how == "by nothing");
  }
}
TEST_CASE("the tests of automatic mode find every planted fault", "[automatic][faults]") {
  REQUIRE_FALSE(settings().cache);
  const char* wanted = std::getenv("FRIT_FAULT");
  std::map<int, Child> running;
  std::map<int, Found> found;
  const auto finish_one = [&] {
    const auto first = running.begin();
    found[first->first] = finish(first->second);
    running.erase(first);
  };
  for (int fault = 0; fault < fault_count; ++fault) {
    const std::string name = fault_names[fault];
    if (wanted ? name.find(wanted) == std::string::npos : name.starts_with("rare_")) continue;
    if (running.size() >= 2) finish_one();
    running[fault] = start(fault, !fault ? 100 : wanted ? most_when_named : most_programs);
  }
  while (!running.empty()) finish_one();
  for (const auto& [fault, f] : found) {
    std::printf("%-42s found %s\n", fault_names[fault], f.how.c_str());
    INFO(fault_names[fault] << ", found " << f.how);
    CHECK(f.found == (fault != 0));
  }
  if (!wanted) CHECK(found.size() >= 21);
}
