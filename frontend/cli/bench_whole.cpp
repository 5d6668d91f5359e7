// frit bench on a script with a main of its own: it is run whole, eager, automatic, and automatic with compiles in the foreground, by turns.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include "frontend/cli/commands.h"
#include "frontend/cli/record.h"

namespace frit::cli {

using nlohmann::json;

namespace {
struct Way {
  const char *name, *mode, *where;
};
constexpr Way ways[] = {{"eager", "eager", "background"}, {"automatic", "automatic", "background"}, {"automatic, compiled in the foreground", "automatic", "foreground"}};

double middle(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v[size_t(q * double(v.size() - 1) + 0.5)];
}
}  // namespace

json measure_whole(const Compiled& compiled, const BenchOptions& options) {
  std::map<std::string, std::vector<double>> seconds;
  std::map<std::string, json> last;
  std::map<std::string, std::string> printed;
  Progress progress("running " + options.file);
  double total = 0;
  int rounds = 0;
  bool equal = true;
  for (; rounds < 15 && (rounds < 3 || total < 30 * options.seconds); ++rounds)
    for (const Way& w : ways) {
      progress.show("running " + options.file + " " + w.name + ", round " + std::to_string(rounds + 1));
      const Folder folder;
      ScriptOptions script = options;
      script.mode = w.mode;
      Recorded run(compiled, script, {{"FRIT_CACHE", "0"}, {"FRIT_REPORT_LAUNCHES", "0"}, {"FRIT_COMPILE", w.where}}, folder.path + "/output");
      seconds[w.name].push_back(run.seconds);
      total += run.seconds;
      printed[w.name] = read_file(folder.path + "/output");
      equal &= printed[w.name] == printed[ways[0].name];
      last[w.name] = std::move(run.json);
    }
  json all{{"equal", equal}, {"rounds", rounds}, {"ways", json::array()}};
  for (const Way& w : ways) {
    const json& r = last[w.name];
    const std::vector<double>& s = seconds[w.name];
    all["ways"].push_back({{"name", w.name}, {"median", middle(s, 0.5)}, {"low", middle(s, 0.25)}, {"high", middle(s, 0.75)}, {"stats", r["stats"]}, {"memory_peak", r["memory"]["peak"]}});
  }
  return all;
}
Table whole_table(const json& whole) {
  Table t({"mode", "whole run", "speed-up", "in the compiler", "plans", "kernels made", "launches", "memory peak"});
  const double eager = whole["ways"][0]["median"];
  for (const json& w : whole["ways"]) {
    const double median = w["median"];
    const json& s = w["stats"];
    t.add({w["name"], seconds_text(median) + " ±" + number_text(50 * (w["high"].get<double>() - w["low"].get<double>()) / median, 2) + "%", number_text(eager / median) + "x", seconds_text(s["compile_ns"].get<double>() / 1e9),
           std::to_string(s["plans_compiled"].get<int64_t>()), std::to_string(s["kernels_compiled"].get<int64_t>() + s["eager_kernels"].get<int64_t>()), std::to_string(s["kernels_launched"].get<int64_t>()), bytes_text(w["memory_peak"].get<double>())});
  }
  return t;
}

}  // namespace frit::cli
