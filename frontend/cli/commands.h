// The subcommands: what the command line asked for, and one function each that returns the exit code. They throw UsageError (exit code 2),
// ScriptError (1) and Interrupted.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include "frontend/cli/console.h"
#include "frontend/cli/script.h"

namespace frit::cli {

struct RunOptions : ScriptOptions {
  bool watch = false, verbose = false;
};
int run_command(const RunOptions& options);

struct DoctorOptions {
  bool settings = false, quick = false, json = false;
};
int doctor_command(const DoctorOptions& options);
void check_device(const std::string& device);  // UsageError where tensors cannot be made there: what is missing

struct CacheOptions {
  std::string action;       // list, verify or prune
  std::string limit;        // prune: what may stay
  bool all = false;
};
int cache_command(const CacheOptions& options);

struct BenchOptions : ScriptOptions {
  bool suite = false;
  std::vector<std::string> names;             // of bodies; empty: all
  std::string json, markdown, baseline;       // files; empty: none
  double seconds = 0.4;                       // for the samples of one body
};
int bench_command(const BenchOptions& options);
// Of a script with a main of its own: whole runs, by turns, in processes of their own; what they print is compared.
nlohmann::json measure_whole(const Compiled& compiled, const BenchOptions& options);
Table whole_table(const nlohmann::json& whole);
int suite_bodies(const std::vector<std::string>& words);  // the built-in bodies, in a process of their own

struct TuneOptions : ScriptOptions {
  std::vector<std::string> axes;
  int buckets = 8;
  double runs = 1;                            // how many runs like this one a policy is to serve
  std::string output = "policy.json", log;    // log: a record to read in place of a run
  bool random = false;                        // also measures the best five of 1,000 random policies
};
int tune_command(const TuneOptions& options);

struct ExplainOptions : ScriptOptions {
  std::string dot, html;
};
int explain_command(const ExplainOptions& options);

struct ReportOptions : ScriptOptions {
  std::string output = "report.html", record, keep;  // record: to be read in place of a run; keep: where the record is written
};
int report_command(const ReportOptions& options);

}  // namespace frit::cli
