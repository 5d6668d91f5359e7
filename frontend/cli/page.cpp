// The page around the drawings. Start at report_page.
#include "frontend/cli/page.h"
#include <algorithm>
#include <map>
#include "frontend/cli/console.h"

namespace frit::cli {

using nlohmann::json;

std::string escaped(const std::string& text) {
  std::string s;
  for (char c : text) s += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return s;
}

namespace {
const char* const style = R"(<style>
:root{color-scheme:light dark;--ink:#1b1d21;--soft:#6a7078;--line:#d9dde2;--back:#fff;--box:#f4f6f8;--launch:#2a78c2;--flush:#9fb4c8;--compile:#d97a1e;--edge:#c02f4f;--m0:#c9ced4;--m1:#e8a33d;--m2:#d9642b;--m3:#a03d8f;--m4:#5a57b8;--m5:#2a78c2}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--soft:#9aa2ab;--line:#3a4048;--back:#16181b;--box:#1f2328;--launch:#5ba3e6;--flush:#54677a;--compile:#e59a4f;--edge:#ef6f8b;--m0:#4a5058;--m1:#d99a3c;--m2:#d06a38;--m3:#b35ba4;--m4:#7a78d0;--m5:#5ba3e6}}
*{box-sizing:border-box}body{margin:0 auto;padding:16px;max-width:1100px;font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back)}
h1{font-size:1.4em;margin:.2em 0;overflow-wrap:anywhere}h2{font-size:1.1em;margin:1.8em 0 .4em}p{margin:.4em 0}.soft{color:var(--soft)}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:8px;margin:12px 0}.facts div{background:var(--box);border-radius:6px;padding:8px 10px}.facts b{display:block;font-size:1.15em}
.scroll{overflow-x:auto;max-width:100%}table{border-collapse:collapse;font-size:.92em}th,td{padding:3px 10px 3px 0;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}td.n,th.n{text-align:right}td.w{white-space:normal;min-width:180px;overflow-wrap:anywhere}
svg{width:100%;height:auto;display:block}.wide>svg{min-width:640px}svg.graph{height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--ink)}
.grid{stroke:var(--line)}.edge{stroke:var(--edge)}.roof{stroke:var(--compile);stroke-width:2}.flow{fill:none;stroke:var(--soft)}.m0{fill:var(--m0)}.m1{fill:var(--m1)}.m2{fill:var(--m2)}.m3{fill:var(--m3)}.m4{fill:var(--m4)}.m5{fill:var(--m5)}.most{fill:var(--compile)}
.legend span{display:inline-block;margin-right:14px}.legend i{display:inline-block;width:11px;height:11px;vertical-align:-1px}
.launch,.bar{fill:var(--launch)}.flush{fill:var(--flush)}.compile{fill:var(--compile)}circle{fill-opacity:.6}.eager{fill:none;stroke:var(--launch)}
.fused rect{fill:var(--box);stroke:var(--launch);stroke-width:1.5}.single rect{fill:var(--box);stroke:var(--soft)}.source rect{fill:none;stroke:var(--line);stroke-dasharray:4}
pre{background:var(--box);padding:10px;border-radius:6px;overflow-x:auto;font-size:.85em;margin:.4em 0}summary{cursor:pointer}
</style>
)";
std::string page(const std::string& title, const std::string& body) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" + escaped(title) + "</title>\n" + style + "</head><body>\n<h1>" + escaped(title) + "</h1>\n" +
         body + "</body></html>\n";
}
std::string section(const std::string& name, const std::string& title, const std::string& inside) { return "<section id=\"" + name + "\"><h2>" + title + "</h2>\n" + inside + "</section>\n"; }
std::string wide_drawing(const std::string& drawing) { return "<div class=\"scroll wide\">" + drawing + "</div>\n"; }
struct Rows {
  std::string html = "<div class=\"scroll\"><table>\n";
  // A column's name begins with # where it holds numbers, with * where its text may be broken.
  std::vector<std::string> columns;
  explicit Rows(std::vector<std::string> names) : columns(std::move(names)) {
    html += "<tr>";
    for (const std::string& c : columns) html += (c[0] == '#' ? "<th class=\"n\">" : "<th>") + escaped(c.substr(c[0] == '#' || c[0] == '*')) + "</th>";
    html += "</tr>\n";
  }
  void add(const std::vector<std::string>& cells) {
    html += "<tr>";
    for (size_t i = 0; i < cells.size(); ++i) html += (columns[i][0] == '#' ? "<td class=\"n\">" : columns[i][0] == '*' ? "<td class=\"w\">" : "<td>") + escaped(cells[i]) + "</td>";
    html += "</tr>\n";
  }
  std::string done() { return html + "</table></div>\n"; }
};

std::string facts(const json& r) {
  const json& s = r["stats"];
  std::string html = "<div class=\"facts\">";
  const auto add = [&](const std::string& name, const std::string& value) { html += "<div><b>" + escaped(value) + "</b>" + escaped(name) + "</div>"; };
  const auto count = [&](const char* key) { return std::to_string(s[key].get<int64_t>()); };
  add("the whole run", seconds_text(r["seconds"]));
  add("flushes (" + count("tier0_flushes") + " op by op)", count("flushes"));
  add("plans (" + count("recompiles") + " recompiles)", count("plans_compiled"));
  add("kernels compiled (" + count("disk_hits") + " more from disk)", std::to_string(s["kernels_compiled"].get<int64_t>() + s["eager_kernels"].get<int64_t>()));
  add("in the compiler", seconds_text(s["compile_ns"].get<double>() / 1e9));
  add("launches", count("kernels_launched"));
  add("memory peak", bytes_text(r["memory"]["peak"].get<double>()));
  add("threads", std::to_string(r["threads"].get<int>()));
  return html + "</div>\n<p class=\"soft\">" + escaped(r["cpu"]) + "</p>\n";
}
std::string kernel_table(const std::vector<KernelSum>& kernels, const MachineLimits& limits) {
  double total = 0;
  for (const KernelSum& k : kernels) total += k.seconds;
  Rows rows({"*kernel", "#launches", "#time", "#share", "#bytes", "#GB/s", "#GFLOP/s", "#of the roof", "#tier", "*lines"});
  for (size_t i = 0; i < std::min<size_t>(kernels.size(), 40); ++i) {
    const KernelSum& k = kernels[i];
    const double roof = std::min(limits.flops, k.bytes ? limits.memory_bandwidth * double(k.flops) / double(k.bytes) : limits.flops), rate = double(k.flops) / k.seconds;
    std::string lines;
    size_t shown = 0;
    for (const std::string& l : k.lines)
      if (++shown <= 4) lines += (lines.empty() ? "" : ", ") + l;
    if (k.lines.size() > 4) lines += " and " + std::to_string(k.lines.size() - 4) + " more";
    rows.add({k.name, std::to_string(k.launches), seconds_text(k.seconds), number_text(100 * k.seconds / total, 2) + "%", bytes_text(double(k.bytes)), number_text(double(k.bytes) / k.seconds / 1e9), number_text(rate / 1e9),
              k.flops && roof > 0 ? number_text(100 * rate / roof, 2) + "%" : "-", std::to_string(k.tier), lines});
  }
  return rows.done() + (kernels.size() > 40 ? "<p class=\"soft\">and " + std::to_string(kernels.size() - 40) + " more</p>\n" : "") + "<p class=\"soft\">The roof is memory's; a kernel whose data lies in a cache may be above it.</p>\n";
}
// What a plan was to need, as known before it ran.
std::string plan_memory(const json& plan) {
  if (!plan.contains("memory") || plan["memory"]["peak"] == 0) return "";
  return "<p>Memory by step, as predicted: at most " + escaped(bytes_text(plan["memory"]["peak"].get<double>())) + " above what it reads.</p>\n" + wide_drawing(draw_plan_memory(plan));
}
// Who held memory when there was most.
std::string memory_section(const json& r) {
  std::string html = wide_drawing(draw_memory(r));
  if (!r["memory"].contains("held")) return html;
  const json& held = r["memory"]["held"];
  Rows uses({"kind", "#highest", "#at the peak"});
  for (const json& u : held["uses"]) {
    const std::string name = u;
    uses.add({name, bytes_text(held["highest"][name].get<double>()), bytes_text(held["at_peak"][name].get<double>())});
  }
  html += uses.done();
  Rows holders({"*tensor", "kind", "#bytes", "#tensors", "*line"});
  const json& all = held["holders"];
  for (size_t i = 0; i < std::min<size_t>(all.size(), 20); ++i)
    holders.add({all[i]["what"], all[i]["use"], bytes_text(all[i]["bytes"].get<double>()), std::to_string(all[i]["tensors"].get<int64_t>()), all[i]["line"]});
  html += "<p class=\"soft\">Where there was most:</p>\n" + holders.done();
  if (all.size() > 20) html += "<p class=\"soft\">and more</p>\n";
  if (!held["complete"]) html += "<p class=\"soft\">There were more events than are kept: the later ones are not drawn.</p>\n";
  return html;
}
std::string plan_section(const json& r, size_t most) {
  const json& plans = r["plans"];
  std::string html;
  for (size_t i = 0; i < std::min(most, plans.size()); ++i)
    html += "<details" + std::string(i == 0 ? " open" : "") + "><summary>plan " + std::to_string(i + 1) + ": " + std::to_string(plans[i]["steps"].size()) + " steps</summary>\n" +
            (plans[i]["steps"].size() <= 400 ? draw_plan(plans[i]) : "<p>Too many steps to draw.</p>\n") + plan_memory(plans[i]) + "<pre>" + escaped(plans[i]["text"]) + "</pre></details>\n";
  const int64_t left_out = int64_t(plans.size()) - int64_t(most) + r["left_out"]["plans"].get<int64_t>();
  if (plans.empty()) html += "<p>No plan was compiled: no trace became hot, or the mode was eager.</p>\n";
  if (left_out > 0) html += "<p class=\"soft\">and " + std::to_string(left_out) + " more</p>\n";
  return html;
}
std::string bucket_section(const json& r) {
  std::string html;
  for (const auto& [axis, extents] : r["histogram"].items()) {
    if (extents.empty()) continue;
    const std::string policy = r["policies"].value(axis, r["policies"].value("", "pow2"));
    html += "<p>" + (axis.empty() ? "axes without a name" : "axis <b>" + escaped(axis) + "</b>") + ", " + escaped(policy) + ": " + std::to_string(extents.size()) + " extents</p>\n" + wide_drawing(draw_buckets(r, axis));
  }
  return html.empty() ? "<p>No plan was looked up.</p>\n" : html;
}
std::string recompile_section(const json& r) {
  std::map<std::string, int> times;
  for (const json& x : r["recompiles"]) ++times[x];
  if (times.empty()) return "<p>None.</p>\n";
  Rows rows({"*reason", "#times"});
  size_t shown = 0;
  for (const auto& [reason, n] : times)
    if (shown++ < 200) rows.add({reason, std::to_string(n)});
  return rows.done();
}
std::string flush_section(const json& r) {
  struct Sum { int64_t times = 0, ops = 0; double seconds = 0; };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const json& f : r["flushes"]) {
    Sum& s = sums[{f["cause"], f["tier"] == 0 ? "op by op" : f["new"] ? "a new plan" : "a known plan"}];
    ++s.times, s.ops += f["ops"].get<int64_t>(), s.seconds += f["seconds"].get<double>();
  }
  if (sums.empty()) return "<p>None.</p>\n";
  Rows rows({"cause", "ran", "#times", "#ops", "#time"});
  for (const auto& [key, s] : sums) rows.add({key.first, key.second, std::to_string(s.times), std::to_string(s.ops), seconds_text(s.seconds)});
  return rows.done();
}
}  // namespace

std::string report_page(const json& r, const std::string& title, const MachineLimits& limits) {
  const auto kernels = kernels_of(r);
  std::string body = facts(r);
  body += section("timeline", "Time", wide_drawing(draw_timeline(r)));
  body += section("kernels", "Kernels", kernel_table(kernels, limits) + wide_drawing(draw_roofline(kernels, limits)));
  body += section("graph", "Plans", plan_section(r, 8));
  body += section("buckets", "Buckets", bucket_section(r));
  body += section("memory", "Memory", memory_section(r));
  body += section("recompiles", "Recompiles", recompile_section(r));
  body += section("flushes", "Flushes", flush_section(r));
  if (!r["failures"].empty()) {
    std::string text;
    for (const json& f : r["failures"]) text += f.get<std::string>() + "\n";
    body += section("failures", "Compiles that failed", "<pre>" + escaped(text) + "</pre>\n");
  }
  return page(title, body);
}
std::string explain_page(const json& r, const std::string& title) { return page(title, section("graph", "Plans", plan_section(r, 64)) + section("recompiles", "Recompiles", recompile_section(r))); }

}  // namespace frit::cli
