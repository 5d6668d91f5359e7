// frit explain and frit report: a script is run once with its record on, and what the compiler did is shown: as text, as a graph for dot, as a page.
#include <map>
#include "frontend/cli/commands.h"
#include "frontend/cli/machine.h"
#include "frontend/cli/page.h"
#include "frontend/cli/record.h"
#include "runtime/settings.h"

namespace frit::cli {

using nlohmann::json;

namespace {
std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
void explain_text(const json& r) {
  const json& plans = r["plans"];
  int number = 0;
  for (const json& p : plans) std::printf("%s\n%s\n", toned("plan " + std::to_string(++number) + " of " + std::to_string(plans.size()), Tone::bold).c_str(), p["text"].get<std::string>().c_str());
  if (plans.empty()) std::printf("no plan was compiled: no trace became hot, or the mode was eager\n\n");
  std::map<std::string, int> reasons;
  for (const json& x : r["recompiles"]) ++reasons[x];
  std::printf("%s %zu\n", toned("recompiles:", Tone::bold).c_str(), r["recompiles"].size());
  for (const auto& [reason, times] : reasons) std::printf("  %s%s\n", reason.c_str(), times > 1 ? (" (" + std::to_string(times) + " times)").c_str() : "");
  std::map<std::string, std::pair<int, double>> causes;
  for (const json& f : r["flushes"]) {
    auto& [times, seconds] = causes[f["cause"].get<std::string>() + (f["tier"] == 0 ? ", op by op" : f["new"] ? ", a new plan" : ", a known plan")];
    ++times, seconds += f["seconds"].get<double>();
  }
  std::printf("%s %zu\n", toned("flushes:", Tone::bold).c_str(), r["flushes"].size());
  for (const auto& [cause, sum] : causes) std::printf("  %s: %d, %s\n", cause.c_str(), sum.first, seconds_text(sum.second).c_str());
  for (const json& f : r["failures"]) std::printf("a compile failed: %s\n", f.get<std::string>().c_str());
}
}  // namespace

int explain_command(const ExplainOptions& options) {
  for (const std::string& file : {options.dot, options.html})
    if (!file.empty()) check_writable(file);
  std::map<std::string, std::string> setting;  // a short run shows its plans too, unless the user wants it otherwise
  if (environment_variable("FRIT_COMPILE").empty()) setting["FRIT_COMPILE"] = "foreground";
  const Recorded run(compile_script(options), options, setting, "/dev/null");
  explain_text(run.json);
  if (!options.dot.empty()) write_file(options.dot, plans_dot(run.json));
  if (!options.html.empty()) write_file(options.html, explain_page(run.json, file_name(options.file)));
  return done;
}

int report_command(const ReportOptions& options) {
  check_writable(options.output);
  for (const std::string& file : {options.keep, options.trace})
    if (!file.empty()) check_writable(file);
  const json record = options.record.empty() ? Recorded(compile_script(options), options, {}).json : read_record(options.record);
  Progress progress("measuring the machine");
  const MachineLimits limits = measure_machine(record["threads"].get<int>());
  progress.clear();
  write_file(options.output, report_page(record, file_name(options.record.empty() ? options.file : options.record), limits));
  if (!options.keep.empty()) write_file(options.keep, record.dump() + "\n");
  if (!options.trace.empty()) write_file(options.trace, chrome_trace(record));
  note("wrote " + options.output);
  return done;
}

}  // namespace frit::cli
