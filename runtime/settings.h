// Every FRIT_* environment variable, in one table; they are read once, at first use.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace frit {

// member, kind, default, values (for a choice or a list: the words allowed), help
//   choice: one of the words · words: several of them, by commas · count: a whole number >= 0
//   bytes: a count with K, M, G or T (powers of 1024) · flag: 0 or 1
//   path: a file or folder, from the root
#define FRIT_FOR_EACH_SETTING(X)                                                                                     \
  X(mode, choice, "automatic", "automatic|eager", "automatic: hot traces are compiled; eager: each op runs at its call") \
  X(compile, choice, "background", "background|foreground", "where hot traces are compiled; foreground: the caller waits") \
  X(fast_math, flag, "0", "", "compiled code may round otherwise than eager mode where that is faster")             \
  X(isa, choice, "best", "best|avx2", "the instruction set of generated code; avx2: no AVX-512 where the processor has it") \
  X(threads, count, "0", "", "threads for one op; 0: all processors that the process may use")                       \
  X(seed, count, "0", "", "seed of the random numbers until manual_seed is called")                                  \
  X(memory_limit, bytes, "0", "", "bytes that tensors may hold from the system; 0: no limit")                        \
  X(lower_peak, bytes, "1M", "", "plans that hold so many bytes of their own compute values again where they hold less then") \
  X(packed_weights, bytes, "1G", "", "bytes that weights may take once more, laid out for products while they do not change; 0: none are kept") \
  X(tune, flag, "1", "", "tries kernels of their own for shapes that come again and again (tier 2)")                     \
  X(verify, count, "0", "", "every n-th run of a plan is repeated op by op and compared bit for bit; 0: none")          \
  X(verify_oracle, flag, "0", "", "those runs are compared with float64 too")                                         \
  X(verify_dir, path, "", "", "the folder for the programs that show a difference; by itself the working folder")     \
  X(cache, flag, "1", "", "keeps compiled kernels on disk for the next process")                                      \
  X(cache_dir, path, "", "", "the folder for them; by itself $XDG_CACHE_HOME/frit or ~/.cache/frit")                 \
  X(cache_limit, bytes, "256M", "", "bytes that they may take there; the least recently used go")                     \
  X(buckets, path, "", "", "a policy file (frit tune, buckets::save) that is loaded at the start; its axes keep it") \
  X(report, path, "", "", "a file for the record of the run, written when it ends (frit report reads it)")           \
  X(report_launches, count, "65536", "", "launches that the record holds: the latest so many; 0: none")                \
  X(log, words, "", "trace|fusion|kernels|recompiles|cache|all", "what is reported on the standard error output")    \
  X(perf, flag, "0", "", "names generated kernels for Linux perf")

namespace setting_kind {
using choice = std::string;
using words = std::vector<std::string>;
using path = std::string;
using count = int64_t;
using bytes = int64_t;
using flag = bool;
}  // namespace setting_kind

struct Settings {
#define X(member, kind, standard, values, help) setting_kind::kind member{};
  FRIT_FOR_EACH_SETTING(X)
#undef X
};
struct SettingRow {
  std::string name, kind, value, standard, values, help;  // name: FRIT_… · value: as given, or the default
  bool from_environment = false;
};
using SettingLookup = std::function<const char*(const char* name)>;  // null where the variable is not set

const Settings& settings();                          // throws ValueError, which names variable, value and what is allowed
std::vector<SettingRow> setting_rows();
std::string settings_text();                         // the table, printable; names FRIT_* variables that mean nothing
std::string environment_variable(const char* name);  // one that is not ours, such as HOME; empty where it is not set
void at_load(const std::function<void()>& start);     // while the library is loaded, where nobody can catch: an error is told, and ends the process
Settings parse_settings(const SettingLookup& lookup);

}  // namespace frit
