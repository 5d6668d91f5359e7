// LibTorch as a second oracle. The tables of this folder are built into two programs, one against each library (one process cannot
// hold both); here their results are compared: types and shapes exactly, elements within a tolerance of the type, and what is refused.
// Differences that are meant stand in `known`, with the reason. The program port.cpp is compared by what it prints.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

struct Known {
  const char* cases;   // a regular expression, of whole names
  const char* reason;
};
const Known known[] = {
#include "known_differences.inc"
};

std::string folder() {
  static const std::string path = [] {
    const auto p = std::filesystem::temp_directory_path() / ("frit_libtorch_" + std::to_string(getpid()));
    std::filesystem::create_directories(p);
    return p.string();
  }();
  return path;
}
void run(const std::string& command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}
std::string text_of(const std::string& path) {
  std::ifstream in(path);
  REQUIRE(in);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// ---- results ----------------------------------------------------------------------------------------------------------------
using Results = std::map<std::string, std::vector<std::string>>;
Results results_of(const std::string& path) {
  std::ifstream in(path);
  REQUIRE(in);
  Results all;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> parts;
    std::stringstream stream(line);
    for (std::string part; std::getline(stream, part, '\t');) parts.push_back(part);
    const std::string name = parts.at(0);
    parts.erase(parts.begin());
    INFO(name);
    REQUIRE(all.emplace(name, parts).second);  // names are unique
  }
  return all;
}
struct Parsed {
  std::string head;  // type and shape
  std::vector<double> values;
};
Parsed parse(const std::string& text) {
  Parsed p;
  const size_t bracket = text.find(']');
  p.head = text.substr(0, bracket == std::string::npos ? text.size() : bracket + 1);
  if (bracket == std::string::npos) return p;
  const char* at = text.c_str() + bracket + 1;
  for (char* end = nullptr; *at; at = end) p.values.push_back(std::strtod(at, &end));
  return p;
}
struct Tolerance {
  double relative, of_largest;
};
Tolerance tolerance_of(const std::string& head) {
  if (head.starts_with("float64")) return {1e-11, 1e-13};
  if (head.starts_with("float32")) return {2e-5, 1e-6};
  if (head.starts_with("float16")) return {4e-3, 2e-3};
  if (head.starts_with("bfloat16")) return {3e-2, 1e-2};
  return {0, 0};
}
// Empty when they agree.
std::string difference(const std::vector<std::string>& torch, const std::vector<std::string>& frit) {
  const bool torch_threw = torch.size() == 1 && torch[0] == "refused", frit_threw = frit.size() == 1 && (frit[0] == "refused" || frit[0] == "unsupported");
  if (torch_threw || frit_threw) return torch_threw == frit_threw ? "" : torch_threw ? "LibTorch refuses, Frit does not" : "Frit refuses, LibTorch does not";
  if (torch.size() != frit.size()) return std::to_string(torch.size()) + " results, Frit " + std::to_string(frit.size());
  for (size_t i = 0; i < torch.size(); ++i) {
    const Parsed a = parse(torch[i]), b = parse(frit[i]);
    if (a.head != b.head) return "result " + a.head + ", Frit " + b.head;
    double largest = 0;
    for (double v : a.values)
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    const Tolerance t = tolerance_of(a.head);
    for (size_t k = 0; k < a.values.size(); ++k) {
      const double x = a.values[k], y = b.values[k];
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (!(std::abs(x - y) <= t.relative * std::abs(x) + t.of_largest * std::max(largest, 1e-2))) {
        char text[160];
        std::snprintf(text, sizeof text, "%s, element %zu: %.9g, Frit %.9g", a.head.c_str(), k, x, y);
        return text;
      }
    }
  }
  return "";
}

void compare(const Results& torch, const Results& frit, const std::string& mode) {
  static std::vector<std::pair<std::regex, const char*>> patterns;
  if (patterns.empty())
    for (const Known& k : known) patterns.emplace_back(k.cases, k.reason);
  size_t equal = 0, refused = 0, more = 0;
  std::map<std::string, std::vector<std::string>> listed;
  std::vector<std::string> unknown;
  for (const auto& [name, result] : torch) {
    const auto found = frit.find(name);
    INFO(name);
    REQUIRE(found != frit.end());
    if (result.size() == 1 && result[0] == "unsupported") {
      ++more;
      continue;
    }
    const std::string what = difference(result, found->second);
    if (what.empty()) {
      ++(result.size() == 1 && result[0] == "refused" ? refused : equal);
      continue;
    }
    const char* reason = nullptr;
    for (const auto& [pattern, why] : patterns)
      if (std::regex_match(name, pattern)) {
        reason = why;
        break;
      }
    if (reason) listed[reason].push_back(name + ": " + what);
    else unknown.push_back(name + ": " + what);
  }
  std::printf("%s: %zu cases equal, %zu refused by both, %zu that LibTorch has no kernel for\n", mode.c_str(), equal, refused, more);
  static std::set<std::string> told;  // both modes mostly say the same
  for (const auto& [reason, cases] : listed)
    if (!told.insert(reason + std::to_string(cases.size())).second) listed[reason].clear();
  for (const auto& [reason, cases] : listed)
    if (!cases.empty()) std::printf("  %4zu  %s\n        such as %s\n", cases.size(), reason.c_str(), cases[0].c_str());
  if (!unknown.empty()) {
    std::string text;
    for (const std::string& u : unknown) text += "  " + u + "\n";
    FAIL(unknown.size() << " differences without a known reason, in mode " << mode << ":\n" << text);
  }
}
}  // namespace

TEST_CASE("libtorch: every op's types, shapes and values are those of LibTorch") {
  run(std::string(FRIT_ORACLE_TORCH) + " " + folder() + "/torch");
  const Results torch = results_of(folder() + "/torch");
  CHECK(torch.size() > 10000);
  for (const std::string mode : {"eager", "automatic"}) {
    run(std::string(FRIT_ORACLE_FRIT) + " " + folder() + "/" + mode + " " + mode);
    const Results frit = results_of(folder() + "/" + mode);
    CHECK(frit.size() == torch.size());
    compare(torch, frit, mode);
  }
  std::filesystem::remove_all(folder());
}

// Words must be equal, numbers nearly so.
TEST_CASE("libtorch: programs built against both libraries print the same") {
  std::filesystem::create_directories(folder());
  std::stringstream ports(FRIT_PORTS);
  for (std::string port; std::getline(ports, port, ',');) {
    const std::string program = FRIT_PORT_FOLDER "/" + port, where = "PORT_FOLDER=" + folder() + " ";
    run(where + program + "_torch > " + folder() + "/" + port + "_torch");
    for (const std::string mode : {"eager", "automatic"}) {
      run(where + "FRIT_MODE=" + mode + " " + program + "_frit > " + folder() + "/" + port + "_frit");
      std::stringstream torch(text_of(folder() + "/" + port + "_torch")), frit(text_of(folder() + "/" + port + "_frit"));
      std::string a, b;
      size_t words = 0;
      while (torch >> a) {
        INFO(port << ", word " << words << ", mode " << mode);
        REQUIRE(frit >> b);
        ++words;
        char *end_a = nullptr, *end_b = nullptr;
        const double x = std::strtod(a.c_str(), &end_a), y = std::strtod(b.c_str(), &end_b);
        if (*end_a || *end_b) CHECK(a == b);
        else CHECK(y == Approx(x).epsilon(2e-3).margin(1e-4));
      }
      CHECK_FALSE(frit >> b);
      CHECK(words > 30);
    }
  }
  std::filesystem::remove_all(folder());
}
