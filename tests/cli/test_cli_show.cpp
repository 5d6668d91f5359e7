// frit bench, tune, explain and report: what they print and write is what was measured, and wrong input harms nothing.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include "tests/cli/tool.h"

using namespace tool;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {
const std::string scripts = std::string(FRIT_SOURCE_DIR) + "/tests/cli/scripts/";
const std::string bodies = scripts + "bodies.cpp", lengths = scripts + "lengths.cpp", cases = scripts + "cases.cpp";
const json* body(const json& list, const std::string& name, int64_t argument = -1) {
  for (const json& b : list)
    if (b.at("name") == name && b.value("argument", int64_t(-1)) == argument) return &b;
  return nullptr;
}
// Every tag closed, in order; nothing fetched.
void check_page(const std::string& html) {
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != html.npos; at = html.find('<', at + 1)) {
    if (html[at + 1] == '!') continue;
    const size_t end = html.find('>', at);
    REQUIRE(end != html.npos);
    std::string tag = html.substr(at + 1, end - at - 1);
    const bool closing = tag[0] == '/', alone = tag.back() == '/';
    const std::string name = tag.substr(closing, tag.find_first_of(" />", closing) - closing);
    if (name == "meta" || alone) continue;
    if (!closing) {
      open.push_back(name);
    } else {
      REQUIRE(!open.empty());
      REQUIRE(open.back() == name);
      open.pop_back();
    }
  }
  CHECK(open.empty());
  for (const char* outside : {"http://", "https://", "src=", "<script", "@import", "url("}) CHECK(html.find(outside) == html.npos);
  CHECK_THAT(html, Contains("width=device-width"));
  CHECK(html.find("nan") == html.npos);
  CHECK(html.find("-inf") == html.npos);
}
}  // namespace

TEST_CASE("cli bench: bodies of every kind are measured in three modes; what differs or throws is told") {
  const Folder folder;
  const std::string file = folder.path / "now.json", markdown = folder.path / "now.md";
  const Result r = call({"bench", bodies, "--seconds", "0.01", "--only", "chain,rows,whole,training", "--json", file, "--markdown", markdown});
  CAPTURE(r.out, r.error);
  CHECK(r.code == 0);
  const json j = json::parse(slurp(file));
  CHECK(j.at("bench").size() == 6);
  for (const json& b : j.at("bench")) {
    CAPTURE(b.dump());
    CHECK(b.at("equal") == true);
    CHECK(b.at("kept") == true);
    for (const char* way : {"eager", "automatic", "compiled"}) {
      const json& w = b.at(way);
      for (const char* time : {"first", "median", "low", "high"}) CHECK(w.at(time).get<double>() > 0);
      CHECK(w.at("low").get<double>() <= w.at("median").get<double>());
      CHECK(w.at("median").get<double>() <= w.at("high").get<double>());
      for (const char* time : {"record", "launch", "run"}) CHECK(w.at(time).get<double>() >= 0);
      CHECK(w.at("samples").get<int>() >= 5);
      CHECK(w.at("kernels").get<int>() >= 1);
    }
    CHECK(b.at("compiled").at("compile").get<double>() > 0);
    CHECK(b.at("compiled").at("from_disk") == 0);
  }
  // Counts are exact: a chain of five ops is one kernel when compiled, and reads x once and writes the result once.
  const json& chain = *body(j.at("bench"), "chain");
  CHECK(chain.at("eager").at("kernels") == 5);
  for (const char* way : {"automatic", "compiled"}) {
    CHECK(chain.at(way).at("kernels") == 1);
    CHECK(chain.at(way).at("bytes") == 2 * 64 * 256 * 4);
    CHECK(chain.at(way).at("flops") == 5 * 64 * 256);
  }
  CHECK(chain.at("compiled").at("plans") == 1);
  CHECK(chain.at("automatic").at("calls_until_compiled").get<int>() >= 2);
  CHECK(body(j.at("bench"), "rows", 17));
  for (const std::string& text : {r.out, slurp(markdown)}) CHECK_THAT(text, Contains("chain") && Contains("rows 256") && Contains("training") && Contains("GFLOP/s"));
  CHECK(r.out.find('\033') == std::string::npos);

  // Against itself, with one body slower than before and one unknown.
  json old = j;
  old["bench"][0]["eager"]["median"] = old["bench"][0]["eager"]["median"].get<double>() * 1000, old["bench"][0]["eager"]["low"] = old["bench"][0]["eager"]["median"];
  old["bench"].erase(1);
  spit(file, old.dump());
  const Result again = call({"bench", bodies, "--seconds", "0.01", "--only", "chain,rows", "--baseline", file});
  CHECK(again.code == 0);
  CHECK_THAT(again.out, Contains("old time by new") && Contains("new"));

  const Result unequal = call({"bench", bodies, "--seconds", "0.01", "--only", "unequal"});
  CHECK(unequal.code == 1);
  CHECK_THAT(unequal.out, Contains("DIFFERENT"));
  CHECK_THAT(unequal.error, Contains("differ in: unequal"));
  const Result throwing = call({"bench", bodies, "--seconds", "0.01", "--only", "throwing,whole"});
  CHECK(throwing.code == 1);
  CHECK_THAT(throwing.out, Contains("whole") && Contains("equal") && Contains("failed"));
  CHECK_THAT(throwing.error, Contains("failed: throwing"));
  CHECK_THAT(throwing.error, Contains("throwing") && Contains("[2, 3]"));
}

TEST_CASE("cli bench: a script with a main of its own is run whole, in each mode") {
  const Folder folder;
  const std::string file = folder.path / "whole.json";
  const Result r = call({"bench", lengths, "--seconds", "0.001", "--json", file, "30"});
  CAPTURE(r.out, r.error);
  CHECK(r.code == 0);
  CHECK_THAT(r.out, Contains("eager") && Contains("automatic") && Contains("all modes print the same"));
  const json whole = json::parse(slurp(file)).at("whole");
  CHECK(whole.at("equal") == true);
  CHECK(whole.at("rounds") == 3);
  CHECK(whole.at("ways").at(0).at("stats").at("plans_compiled") == 0);
  CHECK(whole.at("ways").at(2).at("stats").at("plans_compiled").get<int>() >= 3);
  for (const json& w : whole.at("ways")) CHECK(w.at("median").get<double>() > 0);
  CHECK(call({"bench", lengths, "--baseline", file, "30"}).code == 2);
}

TEST_CASE("cli bench: wrong input") {
  const Folder folder;
  const std::string no_json = folder.write("old.json", "{\"bench\": 3"), old_format = folder.write("older.json", "{\"results\": []}");
  CHECK(call({"bench"}).code == 2);
  CHECK(call({"bench", bodies, "--seconds", "0"}).code == 2);
  CHECK(call({"bench", bodies, "--baseline", no_json}).code == 2);
  CHECK_THAT(call({"bench", bodies, "--baseline", old_format}).error, Contains("no result of frit bench"));
  CHECK_THAT(call({"bench", bodies, "--json", folder.path / "no/x.json"}).error, Contains("cannot be written"));
  const Result unknown = call({"bench", bodies, "--only", "nothing"});
  CHECK(unknown.code == 1);
  CHECK_THAT(unknown.error, Contains("no FRIT_BENCH body nothing") && Contains("chain"));
  CHECK(call({"bench", cases, "three"}).code == 1);
  CHECK(call({"bench", cases, "--only", "x", "words"}).code == 2);
  CHECK(call({"bench", "--suite", "no_such_body"}).code == 1);
}

TEST_CASE("cli bench: the suite has its nine families, each with the same bits in every mode and with all that is measured") {
  const Folder folder;
  const std::string file = folder.path / "suite.json";
  const Result r = call({"bench", "--suite", "--seconds", "0.001", "--json", file});
  CAPTURE(r.out, r.error);
  CHECK(r.code == 0);
  for (const char* column : {"speed-up", "memory peak", "bits", "first call", "compile", "record", "launch", "run", "kernels", "bytes", "flops", "GB/s", "GFLOP/s", "of the roof"}) CHECK_THAT(r.out, Contains(column));
  const json j = json::parse(slurp(file));
  CHECK(j.at("machine").at("flops").get<double>() > 0);
  std::set<std::string> families;
  for (const json& b : j.at("bench")) {
    CAPTURE(b.dump());
    families.insert(b.at("name"));
    CHECK(b.at("equal") == true);
    CHECK(b.at("kept") == true);
    for (const char* way : {"eager", "automatic", "compiled"}) {
      for (const char* what : {"kernels", "bytes", "flops", "memory_peak", "samples"}) CHECK(b.at(way).at(what).get<int64_t>() > 0);
      for (const char* what : {"first", "median", "run"}) CHECK(b.at(way).at(what).get<double>() > 0);
    }
    CHECK(b.at("compiled").at("kernels").get<int>() < b.at("eager").at("kernels").get<int>());
  }
  CHECK(families == std::set<std::string>{"pointwise", "norm", "softmax", "gemm", "attention", "mlp", "transformer", "decode", "shapes"});
  const Result names = call({"bench", "--suite", "none"});
  for (const std::string& name : families) CHECK_THAT(names.error, Contains(name));
}

TEST_CASE("cli tune: edges come from the extents met; the policy is applied without a rebuild, and the results stay") {
  const Folder folder;
  const std::string policy = folder.path / "policy.json";
  const Result r = call({"tune", lengths, "--axis", "seq", "--buckets", "4", "-o", policy});
  CAPTURE(r.out, r.error);
  REQUIRE(r.code == 0);
  CHECK_THAT(r.out, Contains("axis \"seq\"") && Contains("slowdown measured") && Contains("replayed") && Contains("after"));
  // What the model expects of plans is what replays met, but for the two structures that the first flushes have.
  int rows = 0;
  std::istringstream lines(r.out.substr(r.out.find("plans measured")));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.empty()) {
    std::string words = line;
    words.erase(std::remove(words.begin(), words.end(), '*'), words.end());
    int buckets = 0, expected = 0, measured = 0;
    double cost = 0, slowdown = 0;
    char unit[8];
    CAPTURE(line);
    REQUIRE(std::sscanf(words.c_str(), "%d %d %lf %7s %lf %d", &buckets, &expected, &cost, unit, &slowdown, &measured) == 6);
    CHECK(buckets == ++rows);
    CHECK(std::abs(expected - measured) <= 2);
    CHECK(measured >= buckets);
  }
  CHECK(rows == 4);
  const json j = json::parse(slurp(policy));
  const std::string text = j.at("buckets").at("seq");
  REQUIRE(text.starts_with("edges{"));
  // The last edge is the largest extent that was met.
  const Result plain = call({"run", lengths});
  const json record = [&] {
    const std::string file = folder.path / "record.json";
    CHECK(call({"report", lengths, "-o", folder.path / "r.html", "--keep", file}).code == 0);
    return json::parse(slurp(file));
  }();
  const json& met = record.at("histogram").at("seq");
  CHECK_THAT(text, Contains(std::to_string(met.back()[0].get<int64_t>()) + "}"));
  // Applied by the option and by the environment; plans are as many as buckets were met, and the numbers are the same.
  CHECK(call({"run", "--policy", policy, lengths}).out == plain.out);
  CHECK(call({"run", lengths}, {{"FRIT_BUCKETS", policy}}).out == plain.out);
  const std::string own = folder.write("two.json", "{\"buckets\": {\"seq\": \"edges{40, 200, 600}\"}}"), file = folder.path / "own.json";
  CHECK(call({"report", lengths, "-o", folder.path / "r.html", "--keep", file, "--policy", own}, {{"FRIT_COMPILE", "foreground"}}).code == 0);
  const json with = json::parse(slurp(file));
  std::set<int64_t> highs;
  for (const json& f : with.at("flushes"))
    for (const json& a : f.at("axes"))
      if (a[0] == "seq") highs.insert(a[3].get<int64_t>());
  CHECK(highs == std::set<int64_t>{40, 200, 600});
  CHECK(with.at("policies").at("seq") == "edges{40, 200, 600}");
  const Result random = call({"tune", lengths, "--axis", "seq", "--buckets", "2", "--random", "-o", folder.path / "r.json", "--", "40"});
  CHECK(random.code == 0);
  CHECK_THAT(random.out, Contains("pow2") && Contains("random, place 5") && Contains("of 1,000 random policies"));
  // How many buckets are chosen hangs on measured times; where it is one, the best two stand beside it.
  const bool two = json::parse(slurp(folder.path / "r.json")).at("buckets").at("seq").get<std::string>().find(',') != std::string::npos;
  CHECK((random.out.find("the best of 2 buckets") == std::string::npos) == two);
  // A record serves in place of a run.
  const Result log = call({"tune", "--log", file, "--axis", "seq", "-o", folder.path / "logged.json"});
  CAPTURE(log.error);
  CHECK(log.code == 0);
  CHECK(json::parse(slurp(folder.path / "logged.json")).at("buckets").contains("seq"));
}

TEST_CASE("cli tune: wrong input leaves the policy file as it was") {
  const Folder folder;
  const std::string policy = folder.write("policy.json", "before"), damaged = folder.write("damaged.json", "{\"buckets\": {\"seq\": \"edges{3, 2}\"}}");
  const Result axis = call({"tune", lengths, "--axis", "batch", "-o", policy});
  CHECK(axis.code == 2);
  CHECK_THAT(axis.error, Contains("no such axis") && Contains("seq"));
  const Result failing = call({"tune", cases, "-o", policy, "--", "three"});
  CHECK(failing.code == 1);
  const Result nothing = call({"tune", cases, "-o", policy, "--", "words"});
  CHECK(nothing.code == 1);
  CHECK_THAT(nothing.error, Contains("nothing to tune"));
  CHECK(call({"tune", lengths, "--buckets", "0", "-o", policy}).code == 2);
  CHECK(call({"tune", lengths, "-o", folder.path / "no/policy.json"}).code == 2);
  CHECK(call({"tune", "--log", policy, "-o", folder.path / "x.json"}).code == 2);
  CHECK(slurp(policy) == "before");
  const Result bad = call({"run", "--policy", damaged, lengths});
  CHECK(bad.code == 2);
  CHECK_THAT(bad.error, Contains("ascending"));
  const Result set = call({"run", lengths}, {{"FRIT_BUCKETS", damaged}});
  CHECK(set.code == 2);
  CHECK_THAT(set.error, Contains("ascending"));
}

TEST_CASE("cli explain: plans as text, dot and a page") {
  const Folder folder;
  const std::string dot = folder.path / "p.dot", html = folder.path / "p.html";
  const Result r = call({"explain", lengths, "--dot", dot, "--html", html, "--", "9"});
  CAPTURE(r.out, r.error);
  CHECK(r.code == 0);
  CHECK_THAT(r.out, Contains("tanh") && Contains("plan 1 of") && Contains("flushes: 9") && Contains("axis \"seq\"") && Contains("left bucket") && Contains("lengths.cpp:18"));
  const std::string graph = slurp(dot);
  CHECK_THAT(graph, Contains("digraph") && Contains("->") && Contains("cluster_1"));
  CHECK(std::count(graph.begin(), graph.end(), '{') == std::count(graph.begin(), graph.end(), '}'));
  check_page(slurp(html));
  const Result eager = call({"explain", "--mode", "eager", lengths, "--", "9"});
  CHECK(eager.code == 0);
  CHECK_THAT(eager.out, Contains("no plan was compiled"));
}

TEST_CASE("cli report: one page with everything inside, whatever the script is called") {
  const Folder folder;
  const std::string page = folder.path / "r.html", trace = folder.path / "t.json", odd = (folder.path / "<b>&\"odd name.cpp").string();
  fs::copy_file(lengths, odd);
  const Result r = call({"report", odd, "-o", page, "--trace", trace, "--", "30"}, {{"FRIT_COMPILE", "foreground"}});
  CAPTURE(r.error);
  CHECK(r.code == 0);
  CHECK(r.out == call({"run", lengths, "30"}).out);
  const std::string html = slurp(page);
  check_page(html);
  for (const char* part : {"id=\"timeline\"", "id=\"kernels\"", "id=\"graph\"", "id=\"buckets\"", "id=\"memory\"", "at the peak", "temporaries", "as predicted", "f32[", "id=\"recompiles\"", "id=\"flushes\"", "<svg", "left bucket", "tanh"}) CHECK_THAT(html, Contains(part));
  CHECK_THAT(html, Contains("&lt;b&gt;&amp;&quot;odd name.cpp:18"));
  CHECK(json::parse(slurp(trace)).at("traceEvents").size() > 30);
  // Nothing recorded: a page all the same.
  CHECK(call({"report", cases, "-o", page, "--", "words"}).code == 0);
  check_page(slurp(page));
  // A script that fails leaves the page that was there.
  spit(page, "before");
  CHECK(call({"report", cases, "-o", page, "--", "die"}).code == 1);
  CHECK(call({"report", "--record", page, "-o", page}).code == 2);
  CHECK(slurp(page) == "before");
}

TEST_CASE("cli report: in a browser the page fits the screen's width, at a desktop and on a phone") {
  const std::string browser = [] {
    for (const char* path : {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"})
      if (fs::exists(path)) return std::string(path);
    return std::string();
  }();
  if (browser.empty()) {
    WARN("no Chromium is installed: the page was not drawn");
    return;
  }
  const Folder folder;
  const std::string page = folder.path / "r.html";
  REQUIRE(call({"report", lengths, "-o", page, "--", "30"}, {{"FRIT_COMPILE", "foreground"}}).code == 0);
  // A copy that measures itself, inside of frames as wide as the screens.
  std::string html = slurp(page);
  const size_t end = html.find("</body>");
  REQUIRE(end != html.npos);
  html.insert(end, "<script>onload=()=>{const e=document.scrollingElement;let bad=0;for(const s of document.querySelectorAll('svg')){const b=s.getBoundingClientRect();if(!(b.width>20&&b.height>20)&&!s.closest('details:not([open])'))bad++}"
                   "parent.postMessage([innerWidth,e.scrollWidth,document.querySelectorAll('svg').length,bad,performance.getEntriesByType('resource').length],'*')}</script>");
  spit(page, html);
  const std::string outer = folder.write("outer.html",
                                         "<body><pre></pre><script>console.error('heard');onmessage=m=>{document.querySelector('pre').textContent+=' ['+m.data.join(',')+']'}</script>"
                                         "<iframe src=r.html style='width:1280px;height:800px;border:0'></iframe><iframe src=r.html style='width:390px;height:800px;border:0'></iframe></body>");
  const std::string ask = "HOME=" + folder.path.string() + " timeout 60 " + browser + " --headless --no-sandbox --disable-gpu --enable-logging=stderr --user-data-dir=" + (folder.path / "profile").string() + " --virtual-time-budget=5000 --dump-dom file://" + outer + " 2>" + (folder.path / "log").string();
  FILE* pipe = ::popen(ask.c_str(), "r");
  REQUIRE(pipe);
  std::string answer;
  for (int c; (c = std::fgetc(pipe)) != EOF;) answer += char(c);
  ::pclose(pipe);
  int seen = 0;
  for (int width : {1280, 390}) {
    const size_t at = answer.find("[" + std::to_string(width) + ",");
    CAPTURE(width, answer.substr(0, 300));
    REQUIRE(at != std::string::npos);
    int inner = 0, scroll = 0, drawings = 0, bad = 0, fetched = -1;
    REQUIRE(std::sscanf(answer.c_str() + at, "[%d,%d,%d,%d,%d]", &inner, &scroll, &drawings, &bad, &fetched) == 5);
    CHECK(fetched == 0);
    CHECK(scroll <= width);
    CHECK(drawings >= 5);
    CHECK(bad == 0);
    ++seen;
  }
  CHECK(seen == 2);
  // What the browser's console says: the outer page's own word, and nothing of the page.
  std::istringstream log(slurp(folder.path / "log"));
  int heard = 0, others = 0;
  for (std::string line; std::getline(log, line);)
    if (line.find("CONSOLE") != std::string::npos) (line.find("heard") != std::string::npos ? heard : others) += 1;
  CHECK(heard == 1);
  CHECK(others == 0);
}

TEST_CASE("cli: FRIT_REPORT makes a program write its record, the program and not the tool; FRIT_BUCKETS outweighs the program's own policies") {
  const Folder folder;
  const std::string file = folder.path / "run.json", policy = folder.write("policy.json", "{\"buckets\": {\"seq\": \"edges{100, 600}\"}}");
  const auto record = [&](const std::vector<std::string>& arguments, const Environment& more) {
    fs::remove(file);
    Environment all{{"FRIT_REPORT", file}, {"FRIT_COMPILE", "foreground"}};
    all.insert(more.begin(), more.end());
    std::vector<std::string> words{"run", lengths};
    words.insert(words.end(), arguments.begin(), arguments.end());
    CHECK(call(words, all).code == 0);
    return json::parse(slurp(file));
  };
  const json plain = record({"12"}, {});
  CHECK(plain.at("flushes").size() == 12);
  CHECK(plain.at("launches").size() >= 12);
  int64_t bytes = 0;
  for (const json& l : plain.at("launches")) bytes += l.at("bytes").get<int64_t>();
  CHECK(bytes > 12 * 20 * 16 * 4);
  for (const json& f : plain.at("flushes")) {
    CHECK(f.at("seconds").get<double>() >= 0);
    CHECK(f.at("start").get<double>() + f.at("seconds").get<double>() <= plain.at("seconds").get<double>());
  }
  CHECK(record({"12"}, {{"FRIT_REPORT_LAUNCHES", "5"}}).at("launches").size() == 5);
  CHECK(record({"12", "own"}, {}).at("policies").at("seq") == "multiple_of(3)");
  CHECK(record({"12", "own"}, {{"FRIT_BUCKETS", policy}}).at("policies").at("seq") == "edges{100, 600}");
  // Who held memory: the points' highest is the peak, which the holders add up to.
  const json& held = plain.at("memory").at("held");
  CHECK(held.at("complete") == true);
  int64_t peak = 0, by_kind = 0, by_holder = 0;
  for (const json& p : held.at("points")) {
    int64_t sum = 0;
    for (const json& b : p[1]) sum += b.get<int64_t>();
    peak = std::max(peak, sum);
  }
  for (const auto& [kind, bytes] : held.at("at_peak").items()) by_kind += bytes.get<int64_t>();
  for (const json& h : held.at("holders")) by_holder += h.at("bytes").get<int64_t>();
  CHECK(peak > 0);
  CHECK(peak == by_kind);
  CHECK(peak == by_holder);
  CHECK(peak <= plain.at("memory").at("peak").get<int64_t>());
  for (const json& p : plain.at("plans")) CHECK(p.at("memory").at("during").size() == p.at("steps").size());
  // A record that cannot be written harms nothing but itself.
  const Result full = call({"run", lengths, "3"}, {{"FRIT_REPORT", folder.path / "no/such/run.json"}});
  CHECK(full.code == 0);
  CHECK_THAT(full.error, Contains("was not written to"));
  CHECK(full.out == call({"run", lengths, "3"}).out);
}
