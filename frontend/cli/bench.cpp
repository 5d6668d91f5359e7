// frit bench: runs bodies in a process of their own, which leaves its measurements in the record (frontend/bench.cpp says how they are
// made), and shows them: a table, JSON, Markdown, ratios to an older JSON. Start at bench_command.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include "frontend/cli/commands.h"
#include "frontend/cli/machine.h"
#include "frontend/cli/record.h"
#include "runtime/cpu.h"
#include "runtime/launch.h"

namespace frit::cli {

using nlohmann::json;

namespace {
std::string name_of(const json& b) { return b["name"].get<std::string>() + (b.contains("argument") ? " " + std::to_string(b["argument"].get<int64_t>()) : ""); }
double number(const json& b, const char* way, const char* what) { return b[way][what].get<double>(); }
std::string spread(const json& b, const char* way) {
  return seconds_text(number(b, way, "median")) + " ±" + number_text(50 * (number(b, way, "high") - number(b, way, "low")) / number(b, way, "median"), 2) + "%";
}

Table times(const json& all) {
  Table t({"body", "eager", "automatic", "compiled", "speed-up", "memory peak", "bits"});
  for (const json& b : all) {
    if (b.contains("error")) {
      t.add({name_of(b), "failed", "", "", "", "", ""});
      continue;
    }
    const double best = std::min(number(b, "automatic", "median"), number(b, "compiled", "median"));
    t.add({name_of(b), spread(b, "eager"), spread(b, "automatic"), spread(b, "compiled"), number_text(number(b, "eager", "median") / best) + "x",
           bytes_text(number(b, "eager", "memory_peak")) + " > " + bytes_text(number(b, "automatic", "memory_peak")), !b["kept"] ? "nothing kept" : b["equal"] ? "equal" : "DIFFERENT"});
  }
  return t;
}
Table phases(const json& all) {
  Table t({"body", "mode", "first call", "compile", "kernels made", "record", "launch", "run"});
  for (const json& b : all) {
    if (b.contains("error")) continue;
    for (const char* way : {"eager", "automatic", "compiled"})
      t.add({name_of(b), way, seconds_text(number(b, way, "first")), seconds_text(number(b, way, "compile")), std::to_string(b[way]["kernels_compiled"].get<int64_t>()),
             seconds_text(number(b, way, "record")), seconds_text(number(b, way, "launch")), seconds_text(number(b, way, "run"))});
  }
  return t;
}
// What a call does, and how near to the machine's limits: bytes against memory's, operations against multiply-add's, and both against the roof
// (the lower one of multiply-add's, and memory's times operations for each byte). What lies in a cache may be above it.
Table work(const json& all, const json& machine) {
  Table t({"body", "mode", "kernels", "bytes", "flops", "GB/s", "of memory's", "GFLOP/s", "of multiply-add's", "of the roof"});
  const double bandwidth = machine["memory_bandwidth"], peak = machine["flops"];
  const auto share = [](double part) { return number_text(100 * part, 3) + "%"; };
  for (const json& b : all) {
    if (b.contains("error")) continue;
    for (const char* way : {"eager", "automatic", "compiled"}) {
      const double median = number(b, way, "median"), bytes = number(b, way, "bytes"), flops = number(b, way, "flops");
      const double roof = bytes > 0 ? std::min(peak, bandwidth * flops / bytes) : peak;
      t.add({name_of(b), way, std::to_string(b[way]["kernels"].get<int64_t>()), bytes_text(bytes), number_text(flops), number_text(bytes / median / 1e9), share(bytes / median / bandwidth), number_text(flops / median / 1e9),
             share(flops / median / peak), flops > 0 ? share(flops / median / roof) : share(bytes / median / bandwidth)});
    }
  }
  return t;
}
const json* same_body(const json& list, const json& b) {
  for (const json& other : list)
    if (other.value("name", "") == b["name"] && other.value("argument", json()) == b.value("argument", json()) && !other.contains("error")) return &other;
  return nullptr;
}
// Ratio of medians, old by new: above 1 is faster now. Within both spreads it is no difference.
Table ratios(const json& all, const json& old) {
  Table t({"body", "eager", "automatic", "compiled"});
  for (const json& b : all) {
    const json* before = b.contains("error") ? nullptr : same_body(old, b);
    if (!before) {
      t.add({name_of(b), "new", "new", "new"});
      continue;
    }
    std::vector<std::string> row{name_of(b)};
    for (const char* way : {"eager", "automatic", "compiled"}) {
      const bool overlap = number(b, way, "low") <= number(*before, way, "high") && number(*before, way, "low") <= number(b, way, "high");
      row.push_back(number_text(number(*before, way, "median") / number(b, way, "median")) + "x" + (overlap ? " (within the spread)" : ""));
    }
    t.add(std::move(row));
  }
  return t;
}
std::string machine_line(const json& m) {
  return m["cpu"].get<std::string>() + "\n" + std::to_string(m["threads"].get<int>()) + (m["threads"] == 1 ? " thread: " : " threads: ") + number_text(m["memory_bandwidth"].get<double>() / 1e9) + " GB/s copied in memory, " +
         number_text(m["cache_bandwidth"].get<double>() / 1e9) + " GB/s in the second cache, " + number_text(m["flops"].get<double>() / 1e9) + " GFLOP/s of multiply-add (measured before and after, the better one)";
}
json machine_json(const MachineLimits& a, const MachineLimits& b) {
  return {{"cpu", cpu_info().text()}, {"threads", a.threads}, {"memory_bandwidth", std::max(a.memory_bandwidth, b.memory_bandwidth)}, {"cache_bandwidth", std::max(a.cache_bandwidth, b.cache_bandwidth)}, {"flops", std::max(a.flops, b.flops)}};
}
json read_baseline(const std::string& path) {
  const json j = json::parse(read_file(path), nullptr, false);
  if (!j.is_object() || !j.contains("bench") || !j["bench"].is_array()) throw UsageError(path + " is no result of frit bench. Write one with --json.");
  return j["bench"];
}
}  // namespace

namespace {
int bench_whole(const Compiled& compiled, const BenchOptions& options) {
  if (!options.names.empty() || !options.baseline.empty()) throw UsageError(options.file + " has a main of its own, so that whole runs are measured: --only and --baseline are for FRIT_BENCH bodies");
  const json whole = measure_whole(compiled, options);
  const Table table = whole_table(whole);
  std::printf("%s: whole runs, by turns; it has a main of its own\n%s", options.file.c_str(), table.text().c_str());
  if (!options.json.empty()) write_file(options.json, json{{"cpu", cpu_info().text()}, {"whole", whole}}.dump(1) + "\n");
  if (!options.markdown.empty()) write_file(options.markdown, table.markdown());
  std::printf("%s\n", whole["equal"] ? "all modes print the same" : "the modes print different things (times and addresses may be among them)");
  return done;
}
}  // namespace

int bench_command(const BenchOptions& options) {
  for (const std::string& file : {options.json, options.markdown})
    if (!file.empty()) check_writable(file);
  const json old = options.baseline.empty() ? json() : read_baseline(options.baseline);
  ScriptOptions script = options;
  Compiled compiled;
  if (options.suite) {
    std::error_code error;
    compiled.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    script.file = "the suite";
    script.arguments = {"suite-bodies"};
  } else {
    compiled = compile_script(options);
    script.arguments.clear();
  }
  script.arguments.insert(script.arguments.end(), {"--seconds", std::to_string(options.seconds)});
  script.arguments.insert(script.arguments.end(), options.names.begin(), options.names.end());
  if (!options.suite) script.arguments.insert(script.arguments.end(), options.arguments.begin(), options.arguments.end());

  json all, machine;
  {
    Progress progress("measuring the machine");
    const MachineLimits before = measure_machine(num_threads());
    progress.clear();
    // What is compiled is compiled here and now: kernels on disk would hide what it costs.
    const Folder folder;
    Recorded run(compiled, script, {{"FRIT_CACHE", "0"}, {"FRIT_REPORT_LAUNCHES", "0"}}, folder.path + "/output");
    all = std::move(run.json["bench"]);
    if (all.empty()) return bench_whole(compiled, options);
    std::fputs(read_file(folder.path + "/output").c_str(), stdout);
    progress.show("measuring the machine");
    machine = machine_json(before, measure_machine(num_threads()));
  }
  std::string text = machine_line(machine) + "\n\n" + times(all).text() + "\n" + phases(all).text() + "\n" + work(all, machine).text();
  if (!old.is_null()) text += "\nold time by new, against " + options.baseline + "\n" + ratios(all, old).text();
  std::printf("%s", text.c_str());
  if (!options.json.empty()) write_file(options.json, json{{"machine", machine}, {"bench", all}}.dump(1) + "\n");
  if (!options.markdown.empty()) {
    std::string md = machine_line(machine) + "\n\n" + times(all).markdown() + "\n" + phases(all).markdown() + "\n" + work(all, machine).markdown();
    if (!old.is_null()) md += "\nold time by new, against " + options.baseline + "\n\n" + ratios(all, old).markdown();
    write_file(options.markdown, md);
  }
  std::string different, failed;
  for (const json& b : all) {
    if (b.contains("error")) failed += " " + name_of(b);
    else if (!b["equal"]) different += " " + name_of(b);
  }
  if (!failed.empty()) throw ScriptError("these bodies failed:" + failed);
  if (!different.empty()) throw ScriptError("eager and compiled results differ in:" + different);
  return done;
}

}  // namespace frit::cli
