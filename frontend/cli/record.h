// The record of a run as the library writes it (frontend/run_record.cpp says what is in it), and what is made of it.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include "frontend/cli/script.h"

namespace frit::cli {

// Runs a script and reads its record. ScriptError when the script fails, or leaves no record (it ended without exit, say).
struct Recorded {
  Recorded(const Compiled& compiled, const ScriptOptions& options, const std::map<std::string, std::string>& setting, const std::string& output = "");
  nlohmann::json json;
  double seconds = 0;  // of the whole process
};
nlohmann::json read_record(const std::string& path);  // UsageError when it is none

std::string chrome_trace(const nlohmann::json& record);  // for chrome://tracing and Perfetto

}  // namespace frit::cli
