// Reading records, and writing one as a trace for Chrome's viewer. Start at Recorded.
#include "frontend/cli/record.h"
#include <chrono>
#include <filesystem>
#include "frontend/cli/console.h"

namespace frit::cli {

using nlohmann::json;

Recorded::Recorded(const Compiled& compiled, const ScriptOptions& options, const std::map<std::string, std::string>& setting, const std::string& output) {
  const Folder folder;
  const std::string file = folder.path + "/record.json";
  std::map<std::string, std::string> all = setting;
  all["FRIT_REPORT"] = file;
  const auto start = std::chrono::steady_clock::now();
  run_script(compiled, options, all, output);
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::error_code error;
  if (!std::filesystem::exists(file, error)) throw ScriptError(options.file + " left no record: it did not end by returning from main or by exit, or the record could not be written");
  json = read_record(file);
}
json read_record(const std::string& path) {
  const nlohmann::json j = nlohmann::json::parse(read_file(path), nullptr, false);
  if (!j.is_object() || j.value("version", 0) != 1 || !j.contains("flushes") || !j.contains("launches") || !j.contains("compiles"))
    throw UsageError(path + " is no record of a run. FRIT_REPORT=" + path + " makes a program write one.");
  return j;
}

// Complete events ("X") by thread: launches inside of flushes; compiles on their own threads; memory as a counter ("C").
std::string chrome_trace(const json& record) {
  json events = json::array();
  const auto micro = [](const json& seconds) { return seconds.get<double>() * 1e6; };
  const auto event = [&](const std::string& name, const char* kind, const json& from, json arguments) {
    events.push_back({{"name", name}, {"cat", kind}, {"ph", "X"}, {"ts", micro(from["start"])}, {"dur", micro(from["seconds"])}, {"pid", 1}, {"tid", from["thread"]}, {"args", std::move(arguments)}});
  };
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", "frit"}}}});
  for (const json& f : record["flushes"]) {
    json axes = json::object();
    for (const json& a : f["axes"]) axes[a[0].get<std::string>().empty() ? "size" : a[0].get<std::string>()] = a[1];
    event("flush: " + f["cause"].get<std::string>(), "flush", f, {{"ops", f["ops"]}, {"tier", f["tier"]}, {"new plan", f["new"]}, {"axes", axes}});
  }
  for (const json& c : record["compiles"]) event(c["what"], "compile", c, {{"bytes", c["bytes"]}, {"from disk", c["disk"]}});
  for (const json& l : record["launches"]) {
    json arguments{{"tier", l["tier"]}, {"bytes", l["bytes"]}, {"flops", l["flops"]}};
    if (l.contains("lines")) arguments["lines"] = l["lines"];
    event(l["kernel"], "launch", l, std::move(arguments));
    events.push_back({{"name", "memory"}, {"ph", "C"}, {"ts", micro(l["start"]) + micro(l["seconds"])}, {"pid", 1}, {"args", {{"bytes", l["memory"]}}}});
  }
  return json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace frit::cli
