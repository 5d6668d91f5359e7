// Runs a target without libFuzzer: its seeds, then seeded random mutations of them. Usage: fuzz_x [iterations [seed]], or
// fuzz_x --corpus FOLDER, which writes the seeds as files for libFuzzer, or fuzz_x FILE…, which runs these. The input that runs is
// written to a file when it ends the process.
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include "tests/fuzz/target.h"

namespace {

std::string current;                        // for the handler
std::string crash_path;

void keep_input(int signal) {
  std::ofstream(crash_path, std::ios::binary) << current;
  std::fprintf(stderr, "signal %d: the input is in %s\n", signal, crash_path.c_str());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}
void run(std::string input) {
  current = std::move(input);
  // A copy of its own, so that reads beyond its end are seen by sanitizers.
  std::vector<uint8_t> bytes(current.begin(), current.end());
  bytes.shrink_to_fit();
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

// Changes with a meaning for headers: bits, bytes, whole numbers at their limits, digits, pieces cut, doubled and taken from another.
std::string mutated(const std::vector<std::string>& seeds, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return n ? size_t(random() % n) : 0; };
  std::string s = seeds[below(seeds.size())];
  static const uint64_t odd[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff, uint64_t(1) << 32, uint64_t(1) << 62, INT64_MAX, uint64_t(1) << 63, UINT64_MAX};
  static const char* words[] = {"18446744073709551615", "9223372036854775807", "-1", "0", "1e9", "null", "[", "]", "{", "}", "(", ")", "'", "\"", ",", ":", "\\u0000", "\\ud800", "True", "False", "[0,0]", "\"F32\"", "PK\x01\x02", "PK\x05\x06"};
  for (size_t changes = 1 + below(4); changes-- > 0;) {
    const size_t at = below(s.size() + 1), n = std::min(below(16), s.size() - at);
    switch (below(9)) {
      case 0: if (at < s.size()) s[at] = char(s[at] ^ 1 << below(8)); break;
      case 1: if (at < s.size()) s[at] = char(random()); break;
      case 2: {
        const uint64_t v = odd[below(std::size(odd))] + below(3) - 1;
        const size_t width = std::min<size_t>(size_t(1) << below(4), s.size() - at);
        std::memcpy(s.data() + at, &v, width);
        break;
      }
      case 3: s.resize(at); break;
      case 4: s.erase(at, n); break;
      case 5: s.insert(at, s.substr(at, n)); break;
      case 6: s.insert(at, words[below(std::size(words))]); break;
      case 7: if (const size_t digit = s.find_first_of("0123456789", at); digit != s.npos) s[digit] = char('0' + below(10)); break;
      case 8: {
        const std::string& other = seeds[below(seeds.size())];
        const size_t from = below(other.size() + 1);
        s = s.substr(0, at) + other.substr(from);
        break;
      }
    }
  }
  return s;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> seeds = frit::fuzz::seeds();
  if (count == 3 && std::strcmp(arguments[1], "--corpus") == 0) {
    std::filesystem::create_directories(arguments[2]);
    for (size_t i = 0; i < seeds.size(); ++i) std::ofstream(std::string(arguments[2]) + "/" + std::to_string(i), std::ios::binary) << seeds[i];
    return 0;
  }
  crash_path = (std::filesystem::temp_directory_path() / "frit-fuzz-crash").string();
  for (int s : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) std::signal(s, keep_input);
  if (count > 1 && !std::isdigit(static_cast<unsigned char>(arguments[1][0]))) {
    for (int i = 1; i < count; ++i) {
      std::ifstream in(arguments[i], std::ios::binary);
      run({std::istreambuf_iterator<char>(in), {}});
    }
    return 0;
  }
  const long iterations = count > 1 ? std::atol(arguments[1]) : 20000;
  const unsigned long seed = count > 2 ? std::strtoul(arguments[2], nullptr, 10) : 1;
  for (const std::string& s : seeds) run(s);
  std::mt19937_64 random(seed);
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < iterations; ++i) run(mutated(seeds, random));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("seed %lu: %ld inputs in %.2f s\n", seed, iterations, seconds);
}
