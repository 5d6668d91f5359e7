// Executable memory: code placed there runs, no mapping is writable and executable at once, memory comes back, and a forked
// child places code without touching its parent's.
#include <catch2/catch.hpp>
#include <asmjit/x86.h>
#include <sys/wait.h>
#include <unistd.h>
#include <fstream>
#include <string>
#include <thread>
#include <vector>
#include "runtime/code_memory.h"

using namespace frit;

namespace {

Code returns(int value) {
  asmjit::CodeHolder code;
  code.init(asmjit::Environment::host());
  asmjit::x86::Assembler a(&code);
  a.mov(asmjit::x86::eax, value);
  a.ret();
  return place_code(code, "returns_" + std::to_string(value));
}
int call(const Code& code) { return reinterpret_cast<int (*)()>(reinterpret_cast<uintptr_t>(code.entry))(); }

}  // namespace

TEST_CASE("placed code runs and is never writable where it is executable", "[code]") {
  const Code seven = returns(7), eight = returns(8);
  CHECK(call(seven) == 7);
  CHECK(call(eight) == 8);
  std::ifstream maps("/proc/self/maps");
  int writable_and_executable = 0, lines = 0;
  for (std::string line; std::getline(maps, line); lines++) {
    const size_t space = line.find(' ');
    writable_and_executable += line[space + 2] == 'w' && line[space + 3] == 'x';
  }
  CHECK(lines > 0);
  CHECK(writable_and_executable == 0);
}

TEST_CASE("code memory is counted and given back with the last owner", "[code]") {
  const size_t before = code_bytes_in_use();
  {
    Code first = returns(1);
    const Code copy = first;
    CHECK(code_bytes_in_use() == before + first.bytes);
    first = {};
    CHECK(code_bytes_in_use() == before + copy.bytes);
    CHECK(call(copy) == 1);
  }
  CHECK(code_bytes_in_use() == before);
}

TEST_CASE("a forked child leaves its parent's code alone", "[code]") {
  Code mine = returns(5);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    mine = {};  // frees the slot in the child's books only
    std::vector<Code> own;
    for (int i = 0; i < 100; i++) own.push_back(returns(100 + i));
    int wrong = 0;
    for (int i = 0; i < 100; i++) wrong += call(own[size_t(i)]) != 100 + i;
    _exit(wrong);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(call(mine) == 5);
}

TEST_CASE("code is placed from many threads at once", "[code]") {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; t++)
    threads.emplace_back([t, &wrong] {
      for (int i = 0; i < 200; i++) wrong[size_t(t)] += call(returns(t * 1000 + i)) != t * 1000 + i;
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == std::vector<int>(4));
}
