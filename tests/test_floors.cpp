// The house's rules, read from the #include lines of the tree: which floor may see which, where a library may be used, and
// what public headers must not carry. Start at check_file; the first test shows what each rule catches.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <catch2/catch.hpp>

namespace {

namespace fs = std::filesystem;
const fs::path root = FRIT_SOURCE_DIR;
const std::vector<std::string> floors{"runtime", "tracer", "kernels", "jit", "frontend"};  // each may include those before it

struct Include {
  int line;
  std::string name;
  bool quoted;
};
struct LibraryRule {
  const char *headers, *only_in, *reason;  // regular expressions: of the header's name, of the file's path
};
const LibraryRule library_rules[] = {
    {"asmjit/.*", "jit/x86/.*|runtime/code_memory.*", "AsmJit belongs to jit/x86 and the code memory"},
    {"nvrtc\\.h", "jit/cuda/.*", "NVRTC belongs to jit/cuda"},
    {"cublas.*", "kernels/.*cublas.*", "cuBLAS belongs to one adaptor in kernels"},
    {"cuda\\.h|cuda_runtime.*", "runtime/.*cuda.*", "the CUDA runtime belongs to runtime/*cuda*"},
    {"tbb/.*|oneapi/.*", "runtime/launch\\.cpp", "oneTBB belongs to the launcher"},
    {"zlib\\.h", "runtime/idx\\.cpp|frontend/files/zip\\.cpp", "zlib belongs to the idx reader and to zip files"},
    {"CLI/.*", "frontend/cli/.*", "CLI11 belongs to the command line"},
    {"quadmath\\.h|catch2/.*", "never", "only tests use it"},
};
const char* const heavy_headers = "iostream|ostream|istream|sstream|fstream|iomanip|regex|filesystem|fmt/.*|nlohmann/.*";
const char* const may_be_heavy = "frontend/include/frit/(print|torch)\\.h";

bool matches(const std::string& text, const char* pattern) { return std::regex_match(text, std::regex(pattern)); }

int floor_of(const std::string& path) {
  const std::string first = path.substr(0, path.find('/'));
  if (first == "frit") return int(floors.size()) - 1;  // <frit/…>: the public headers
  const auto at = std::find(floors.begin(), floors.end(), first);
  return at == floors.end() ? -1 : int(at - floors.begin());
}

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex pattern("^\\s*#\\s*include\\s*([\"<])([^\">]+)[\">].*");
  std::vector<Include> list;
  std::istringstream in(text);
  std::string line;
  std::smatch m;
  for (int number = 1; std::getline(in, line); ++number)
    if (std::regex_match(line, m, pattern)) list.push_back({number, m[2], m[1] == "\""});
  return list;
}

std::string where(const std::string& path, int line) { return path + ":" + std::to_string(line) + ": "; }

// What is wrong with one file; `exists` tells whether a path from the root is there.
template <class Exists> std::vector<std::string> check_file(const std::string& path, const std::string& text, Exists exists) {
  std::vector<std::string> wrong;
  const int own = floor_of(path);
  for (const Include& include : includes_of(text)) {
    const auto complain = [&](const std::string& why) {
      wrong.push_back(where(path, include.line) + "includes " + include.name + ": " + why);
    };
    const int other = floor_of(include.name);
    if (other > own) complain(floors[size_t(other)] + " lies above " + floors[size_t(own)]);
    if (include.quoted && other < 0) complain("quoted names start at the repository's root");
    if (include.quoted && other >= 0 && !exists(include.name) && !exists("frontend/include/" + include.name))
      complain("there is no such file");
    for (const LibraryRule& rule : library_rules)
      if (matches(include.name, rule.headers) && !matches(path, rule.only_in)) complain(rule.reason);
  }
  std::istringstream in(text);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string code = line.substr(0, line.find("//"));
    if (path != "runtime/settings.cpp" && std::regex_search(code, std::regex("\\b(secure_)?getenv\\b")))
      wrong.push_back(where(path, number) + "getenv: settings are read in runtime/settings.cpp alone");
  }
  return wrong;
}

std::string content(const std::string& path) {
  std::ifstream in(root / path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<std::string> sources(const std::string& folder) {
  std::vector<std::string> list;
  if (!fs::exists(root / folder)) return list;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder))
    if (entry.is_regular_file() && matches(entry.path().extension().string(), "\\.(h|cpp|def|cuh|inc)"))
      list.push_back(fs::relative(entry.path(), root).string());
  std::sort(list.begin(), list.end());
  return list;
}

bool exists_in_tree(const std::string& path) { return fs::exists(root / path); }

// Every header that `path` reaches: heavy ones are reported with the line that brings them.
void check_light(const std::string& path, const std::string& from, std::set<std::string>& seen, std::vector<std::string>& wrong) {
  if (!seen.insert(path).second) return;
  for (const Include& include : includes_of(content(path))) {
    if (matches(include.name, heavy_headers))
      wrong.push_back(where(path, include.line) + "includes " + include.name + ", and " + from + " reaches it");
    for (const std::string& file : {include.name, "frontend/include/" + include.name})
      if (fs::is_regular_file(root / file)) check_light(file, from, seen, wrong);
  }
}

std::string joined(const std::vector<std::string>& lines) {
  std::string s;
  for (const auto& line : lines) s += line + "\n";
  return s;
}

}  // namespace

TEST_CASE("floors: the rules catch what they are for") {
  const auto wrong = [](const std::string& path, const std::string& text) {
    return joined(check_file(path, text, [](const std::string& p) { return p.find("absent") == p.npos; }));
  };
  using Catch::Matchers::Contains;
  CHECK(wrong("jit/fuse.cpp", "#include \"kernels/program.h\"\n#include <vector>\n#include \"jit/key.h\"\n") == "");
  CHECK_THAT(wrong("tracer/node.h", "\n#include \"jit/key.h\"\n"), Contains("tracer/node.h:2: includes jit/key.h: jit lies above tracer"));
  CHECK_THAT(wrong("jit/key.cpp", "#include <frit/frit.h>"), Contains("frontend lies above jit"));
  CHECK_THAT(wrong("runtime/a.cpp", "# include \"tracer/node.h\""), Contains("tracer lies above runtime"));
  CHECK_THAT(wrong("jit/a.cpp", "#include \"key.h\""), Contains("jit/a.cpp:1: includes key.h: quoted names start"));
  CHECK_THAT(wrong("jit/a.cpp", "#include \"runtime/absent.h\""), Contains("there is no such file"));
  CHECK_THAT(wrong("jit/lower.cpp", "#include <asmjit/x86.h>"), Contains("AsmJit belongs"));
  CHECK(wrong("jit/x86/emit.cpp", "#include <asmjit/x86.h>") == "");
  CHECK_THAT(wrong("jit/x86/a.cpp", "#include <nvrtc.h>"), Contains("NVRTC belongs"));
  CHECK_THAT(wrong("kernels/a.cpp", "#include <tbb/parallel_for.h>"), Contains("oneTBB belongs"));
  CHECK(wrong("runtime/launch.cpp", "#include <tbb/parallel_for.h>") == "");
  CHECK_THAT(wrong("runtime/buffer_cuda.cpp", "#include <cublas_v2.h>"), Contains("cuBLAS belongs"));
  CHECK_THAT(wrong("frontend/a.cpp", "#include <cuda_runtime.h>"), Contains("CUDA runtime belongs"));
  CHECK_THAT(wrong("tracer/a.cpp", "#include <quadmath.h>"), Contains("only tests use it"));
  CHECK_THAT(wrong("jit/a.cpp", "int a;\nauto* e = std::getenv(\"X\");"), Contains("jit/a.cpp:2: getenv"));
  CHECK(wrong("jit/a.cpp", "// getenv is elsewhere") == "");
  CHECK(wrong("runtime/settings.cpp", "std::getenv(name)") == "");
}

TEST_CASE("floors: a file includes only its own floor or lower ones, and libraries stay where they belong") {
  size_t files = 0;
  std::vector<std::string> wrong;
  for (const std::string& floor : floors)
    for (const std::string& path : sources(floor)) {
      ++files;
      for (auto& line : check_file(path, content(path), exists_in_tree)) wrong.push_back(line);
    }
  CHECK(files > 20);
  INFO(joined(wrong));
  CHECK(wrong.empty());
}

TEST_CASE("floors: public headers stay light, also through what they include") {
  std::vector<std::string> wrong;
  for (const std::string& path : sources("frontend/include")) {
    std::set<std::string> seen;
    if (!matches(path, may_be_heavy)) check_light(path, path, seen, wrong);
  }
  INFO(joined(wrong));
  CHECK(wrong.empty());
}

TEST_CASE("floors: examples use the public headers alone") {
  std::vector<std::string> wrong;
  for (const std::string& path : sources("examples"))
    for (const Include& include : includes_of(content(path)))
      if (floor_of(include.name) >= 0 && include.name.rfind("frit/", 0) != 0)
        wrong.push_back(where(path, include.line) + "includes " + include.name);
  INFO(joined(wrong));
  CHECK(wrong.empty());
}
