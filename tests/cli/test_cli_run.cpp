// frit run, doctor and cache as a user meets them: the built tool as a process, with right and wrong input of every kind.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <pty.h>
#include <set>
#include "runtime/settings.h"
#include "tests/cli/tool.h"

using namespace tool;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {
const std::string cases = std::string(FRIT_SOURCE_DIR) + "/tests/cli/scripts/cases.cpp";
std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& e : fs::directory_iterator(folder)) names.insert(e.path().filename().string());
  return names;
}
}  // namespace

TEST_CASE("cli: help everywhere, with examples, and nothing on the error output") {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"--help"}, {"run", "--help"}, {"doctor", "--help"}, {"cache", "--help"}, {"cache", "prune", "--help"}}) {
    const Result r = call(words);
    CAPTURE(words, r.out);
    CHECK(r.code == 0);
    CHECK(r.error.empty());
    CHECK_THAT(r.out, Contains("--help"));
    CHECK(r.out.find('\033') == std::string::npos);
  }
  CHECK_THAT(call({"run", "--help"}).out, Contains("script.cpp [arguments of the script]") && Contains("Examples:"));
  CHECK_THAT(call({"--version"}).out, Contains("frit 0."));
}

TEST_CASE("cli: wrong usage has exit code 2, and says what is wrong and what would be right") {
  const Folder folder;
  struct Wrong { std::vector<std::string> words; Environment environment; std::string said; };
  const std::vector<Wrong> all{
      {{}, {}, "Usage"},
      {{"ruin"}, {}, "frit --help"},
      {{"run"}, {}, "needs a script"},
      {{"run", "--fast", cases}, {}, "no option --fast"},
      {{"run", "--mode", "lazy", cases}, {}, "eager"},
      {{"run", "--timeout", "-1", cases}, {}, "--timeout"},
      {{"run", "--timeout"}, {}, "--timeout"},
      {{"run", "--device", "cuda", cases}, {}, "Use --device cpu"},
      {{"bench", "--suite", "--device", "cuda"}, {}, "Use --device cpu"},
      {{"explain", cases, "--device", "cuda"}, {}, "--device cuda"},
      {{"run", "--device", "tpu", cases}, {}, "cpu"},
      {{"run", folder.path / "absent.cpp"}, {}, "absent.cpp: there is no such file"},
      {{"run", folder.path}, {}, "is a folder"},
      {{"run", "--compiler", "no-such-compiler", cases}, {}, "no-such-compiler is not there"},
      {{"run", cases}, {{"FRIT_MODE", "fast"}}, "automatic, eager"},
      {{"run", cases}, {{"FRIT_CACHE_DIR", "relative"}}, "a path from the root"},
      {{"run", "--policy", folder.path / "absent.json", cases}, {}, "absent.json"},
      {{"run", "--trace", folder.path / "no/such/folder/t.json", cases}, {}, "cannot be written"},
      {{"cache"}, {}, "subcommand"},
      {{"cache", "empty"}, {}, "frit --help"},
      {{"cache", "prune", "--limit", "many"}, {}, "512M"},
      {{"doctor", "--deep"}, {}, "--deep"},
  };
  for (const Wrong& w : all) {
    const Result r = call(w.words, w.environment);
    CAPTURE(w.words, r.error);
    CHECK(r.code == 2);
    CHECK(r.out.empty());
    CHECK_THAT(r.error, Contains(w.said));
  }
}

TEST_CASE("cli: a script's arguments, output and modes are its own") {
  const Result r = call({"run", cases, "words", "--mode", "a b", "--help", ""});
  CHECK(r.code == 0);
  CHECK(r.out == "[--mode][a b][--help][]");
  CHECK(r.error.empty());
  CHECK(call({"run", cases, "mode"}, {{"FRIT_MODE", ""}}).out == "automatic");
  CHECK(call({"run", cases, "mode"}, {{"FRIT_MODE", "eager"}}).out == "eager");
  CHECK(call({"run", "--mode", "eager", cases, "mode"}, {{"FRIT_MODE", "automatic"}}).out == "eager");
  const Result eager = call({"run", "--mode", "eager", cases, "compute"}), automatic = call({"run", "--mode", "automatic", cases, "compute"});
  CHECK(eager.code == 0);
  CHECK(eager.out.size() > 20);
  CHECK(eager.out == automatic.out);
}

TEST_CASE("cli: a script that fails has exit code 1, and is said to have failed in which way") {
  const auto failing = [&](const std::vector<std::string>& words, const std::string& said) {
    const Result r = call(words);
    CAPTURE(words, r.error);
    CHECK(r.code == 1);
    CHECK_THAT(r.error, Contains(said));
  };
  failing({"run", cases, "three"}, "ended with exit code 3");
  failing({"run", cases, "throw"}, "[2, 3]");
  failing({"run", cases, "throw"}, "killed by signal 6");
  failing({"run", cases, "die"}, "killed by signal 9");
  failing({"run", "--timeout", "0.3", cases, "loop"}, "did not end within 0.3");
}

TEST_CASE("cli: a script that does not compile shows the user's own line and leaves nothing behind") {
  const Folder folder;
  const std::string bad = folder.write("bad.cpp", "#include <frit/frit.h>\n\nint main() { return frit::tenzor(1); }\n");
  const Result r = call({"run", bad});
  CAPTURE(r.error);
  CHECK(r.code == 1);
  CHECK_THAT(r.error, Contains(bad + ":3:") && Contains("tenzor") && Contains("does not compile"));
  const std::string empty = folder.write("empty.cpp", "#include <frit/frit.h>\n");
  const Result e = call({"run", empty});
  CHECK(e.code == 1);
  CHECK_THAT(e.error, Contains("neither a main nor FRIT_BENCH bodies"));
  // Others may be at work in this cache: what is looked at are those that name this script.
  for (const auto& entry : fs::directory_iterator(shared_cache() + "/scripts")) CHECK(slurp(entry.path() / "files").find(bad) == std::string::npos);
}

TEST_CASE("cli: what was compiled is kept by content, and compiled anew when any of it changes or is damaged") {
  const Folder folder;
  const std::string script = folder.write("kept.cpp", "#include <cstdio>\n#include \"value.h\"\nint main() { std::printf(\"%d\", value); }\n");
  folder.write("value.h", "constexpr int value = 1;\n");
  const auto run = [&](const std::string& expected, bool compiled) {
    const Result r = call({"run", "-v", script});
    CAPTURE(r.error);
    CHECK(r.code == 0);
    CHECK(r.out == expected);
    CHECK((r.error.find("compiled in") != std::string::npos) == compiled);
    const size_t at = r.error.find('/');
    return at == std::string::npos ? std::string() : r.error.substr(at, r.error.find('\n') - at);
  };
  run("1", true);
  const std::string program = run("1", false);
  folder.write("value.h", "constexpr int value = 2;\n");
  run("2", true);
  run("2", false);
  const std::string whole = slurp(program);
  spit(program, whole.substr(0, whole.size() / 2));
  run("2", true);
  run("2", false);
  std::string flipped = slurp(program);
  flipped[flipped.size() / 3] = char(flipped[flipped.size() / 3] ^ 1);
  spit(program, flipped);
  run("2", true);
  spit(fs::path(program).parent_path() / "files", "{\"of\": [");
  run("2", true);
  fs::permissions(program, fs::perms::others_write, fs::perm_options::add);  // somebody else could have changed it
  run("2", true);
  fs::remove_all(fs::path(program).parent_path());
  spit(fs::path(program).parent_path(), "not a folder");
  run("2", true);
  run("2", false);
}

TEST_CASE("cli: without a place for the cache a script runs all the same") {
  const Folder folder;
  const std::string script = folder.write("plain.cpp", "int main() { return 0; }\n"), file = folder.write("file", "");
  const Result r = call({"run", script}, {{"FRIT_CACHE_DIR", file}});
  CAPTURE(r.error);
  CHECK(r.code == 0);
  CHECK_THAT(r.error, Contains("not kept"));
  CHECK(slurp(file).empty());
}

TEST_CASE("cli: Ctrl-C ends the script, then the tool, and what was half made is gone") {
  Started s;
  start(s, {"run", "--trace", "/dev/null", cases, "loop"});
  for (int i = 0; i < 2000 && slurp(s.folder.path / "out").empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(names_in(s.folder.path).size() == 3);  // out, error, and the folder for the record
  ::kill(s.pid, SIGINT);
  const Result r = finish(s);
  CHECK(r.signal == SIGINT);
  CHECK(r.out == "looping\n");
  CHECK(names_in(s.folder.path) == std::set<std::string>{"error", "out"});
}

TEST_CASE("cli: --trace writes what ran in Chrome's format, and a full disk is told") {
  const Folder folder;
  const std::string file = folder.path / "t.json";
  const Result r = call({"run", "--trace", file, cases, "compute"});
  CHECK(r.code == 0);
  const json trace = json::parse(slurp(file));
  int launches = 0, flushes = 0, compiles = 0;
  for (const json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    CHECK(e.at("dur").get<double>() >= 0);
    CHECK(e.at("ts").get<double>() >= 0);
    launches += e.at("cat") == "launch", flushes += e.at("cat") == "flush", compiles += e.at("cat") == "compile";
  }
  CHECK(flushes == 4);
  CHECK(launches >= 4);
  CHECK(compiles >= 1);
  const Result full = call({"run", "--trace", "/dev/full", cases, "compute"});
  CHECK(full.code == 2);
  CHECK_THAT(full.error, Contains("/dev/full cannot be written"));
  CHECK(full.out == r.out);
  const Result output = call({"doctor", "--settings"}, {}, "/dev/full");
  CHECK(output.code == 2);
  CHECK_THAT(output.error, Contains("cannot be written"));
  // What stood there before stays when the script fails.
  spit(file, "before");
  CHECK(call({"run", "--trace", file, cases, "three"}).code == 1);
  CHECK(slurp(file) == "before");
}

TEST_CASE("cli: doctor says what there is, as text and as JSON, and lists every setting with its origin") {
  const Result text = call({"doctor", "--quick"}, {{"FRIT_THREADS", "1"}});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Contains("processor") && Contains("compiler") && Contains("FRIT_THREADS=1"));
  const json j = json::parse(call({"doctor", "--json"}).out);
  CHECK(j.at("processor").at("name").get<std::string>().size() > 3);
  for (const json& l : j.at("limits")) {
    CHECK(l.at("memory_bandwidth").get<double>() > 1e8);
    CHECK(l.at("cache_bandwidth").get<double>() > 1e8);
  }
  const std::string settings = call({"doctor", "--settings"}, {{"FRIT_SEED", "7"}, {"FRIT_NONSENSE", "1"}}).out;
  for (const auto& row : frit::setting_rows()) CHECK_THAT(settings, Contains(row.name + "="));
  CHECK_THAT(settings, Contains("FRIT_SEED=7  (environment") && Contains("FRIT_NONSENSE is set, but no such setting exists"));
}

TEST_CASE("cli: the cache is listed, verified and pruned; an old or damaged one harms nothing") {
  const Folder folder;
  const Environment own{{"FRIT_CACHE_DIR", folder.path}};
  CHECK_THAT(call({"cache", "list"}, own).out, Contains("kernels: 0"));
  fs::create_directories(folder.path / "scripts");
  // Kernels by running a program that was compiled before.
  const Result r = call({"run", "-v", cases, "compute"});
  const size_t at = r.error.find("/");
  REQUIRE(at != std::string::npos);
  const std::string program = r.error.substr(at, r.error.find('\n') - at);
  REQUIRE(std::system(("FRIT_CACHE=1 FRIT_MODE=automatic FRIT_CACHE_DIR=" + folder.path.string() + " " + program + " compute > /dev/null").c_str()) == 0);
  fs::create_directory(folder.path / "scripts/script-old");
  spit(folder.path / "scripts/script-old/files", "{\"format\": \"of another version\"}");
  std::vector<fs::path> kernels;
  for (const auto& e : fs::recursive_directory_iterator(folder.path))
    if (e.path().extension() == ".kernel") kernels.push_back(e.path());
  REQUIRE(kernels.size() >= 1);
  spit(kernels[0], "damaged");
  const Result list = call({"cache", "list"}, own);
  CHECK(list.code == 0);
  CHECK_THAT(list.out, Contains("kernels: " + std::to_string(kernels.size())) && Contains("scripts: 1 "));
  const Result verify = call({"cache", "verify"}, own);
  CHECK(verify.code == 0);
  CHECK_THAT(verify.out, Contains("1 damaged") && Contains("compiled scripts: 0 sound, 1 damaged"));
  CHECK(!fs::exists(kernels[0]));
  CHECK(!fs::exists(folder.path / "scripts/script-old"));
  CHECK(call({"cache", "prune", "--all"}, own).code == 0);
  CHECK_THAT(call({"cache", "list"}, own).out, Contains("kernels: 0"));
  CHECK_THAT(call({"cache", "list"}, {{"FRIT_CACHE", "0"}}).out, Contains("FRIT_CACHE=0"));
}

TEST_CASE("cli: the man page and the completion know every command and option of the help texts, and no others") {
  const std::string folder = std::string(FRIT_SOURCE_DIR) + "/frontend/cli/";
  std::string manual = slurp(folder + "frit.1");
  for (size_t at; (at = manual.find("\\-")) != std::string::npos;) manual.erase(at, 1);
  const auto options_in = [](const std::string& text) {
    std::set<std::string> names;
    for (size_t at = text.find("--"); at != text.npos; at = text.find("--", at + 2)) {
      size_t end = at + 2;
      while (end < text.size() && (std::islower(static_cast<unsigned char>(text[end])))) ++end;
      if (end > at + 3) names.insert(text.substr(at, end - at));
    }
    return names;
  };
  std::set<std::string> all{"--version", "--steps"};  // --steps: the script's, in examples
  for (const std::string command : {"run", "bench", "tune", "explain", "report", "doctor", "cache"}) {
    CHECK_THAT(manual, Contains(command));
    std::set<std::string> options = options_in(call({command, "--help"}).out);
    if (command == "cache") options.merge(options_in(call({"cache", "prune", "--help"}).out));
    CAPTURE(command);
    CHECK(options.size() > 1);
    for (const std::string& option : options) {
      all.insert(option);
      if (option == "--help" || option == "--steps") continue;
      CHECK_THAT(manual, Contains(option));
      // As bash would ask.
      const std::string word = command == "cache" ? "cache prune " + option : command + " " + option;
      const std::string last = command == "cache" ? "3" : "2";
      const std::string ask = "bash -c '. " + folder + "completion.bash; COMP_WORDS=(frit " + word + "); COMP_CWORD=" + last + "; _frit; printf \"%s\\n\" \"${COMPREPLY[@]}\"'";
      FILE* pipe = ::popen(ask.c_str(), "r");
      REQUIRE(pipe);
      std::string answer;
      for (int c; (c = std::fgetc(pipe)) != EOF;) answer += char(c);
      ::pclose(pipe);
      CAPTURE(option, answer);
      CHECK(("\n" + answer).find("\n" + option + "\n") != std::string::npos);
    }
  }
  for (const std::string& option : options_in(manual)) CHECK(all.count(option) == 1);
}

TEST_CASE("cli: colours on a terminal only, and NO_COLOR turns them off") {
  const auto on_terminal = [](const char* no_color) {
    int terminal = -1;
    const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (pid == 0) {
      ::setenv("TERM", "xterm", 1);
      ::setenv("NO_COLOR", no_color, 1);
      ::execl(FRIT_TOOL, FRIT_TOOL, "doctor", "--quick", static_cast<char*>(nullptr));
      ::_exit(126);
    }
    std::string text;
    char part[512];
    for (ssize_t n; (n = ::read(terminal, part, sizeof part)) > 0;) text.append(part, size_t(n));
    int status = 0;
    ::waitpid(pid, &status, 0);
    ::close(terminal);
    CHECK(status == 0);
    CHECK_THAT(text, Contains("processor"));
    return text.find("\033[") != std::string::npos;
  };
  CHECK(on_terminal(""));
  CHECK(!on_terminal("1"));
  CHECK(call({"doctor", "--quick"}, {{"TERM", "xterm"}}).out.find('\033') == std::string::npos);
}

TEST_CASE("cli: --watch runs a script again when it, or what it includes, is saved, also after an error") {
  const Folder folder;
  const std::string script = folder.write("watched.cpp", "#include <cstdio>\n#include \"value.h\"\nint main() { std::printf(\"<%d>\", value); std::fflush(stdout); }\n");
  folder.write("value.h", "constexpr int value = 1;\n");
  Started s;
  start(s, {"run", "--watch", script});
  const auto wait_for = [&](const char* output, const std::string& text) {
    for (int i = 0; i < 4000; ++i) {
      if (slurp(s.folder.path / output).find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  };
  CHECK(wait_for("out", "<1>"));
  CHECK(wait_for("error", "waiting for a change"));
  folder.write("value.h", "constexpr int value = 22;\n");
  CHECK(wait_for("out", "<22>"));
  folder.write("watched.cpp", "int main() { return nothing; }\n");
  CHECK(wait_for("error", "does not compile"));
  folder.write("watched.cpp", "#include <cstdio>\nint main() { std::printf(\"<again>\"); }\n");
  CHECK(wait_for("out", "<again>"));
  ::kill(s.pid, SIGINT);
  CHECK(finish(s).signal == SIGINT);
}
