// frit tune: chooses bucket edges for a script from what it measures, and shows that they are better, or that they are not. Its runs compile in the
// foreground and keep nothing on disk, so that what a plan costs is seen, and the same each time.
//
//   observe   the script as it is, with every extent a bucket of its own, and with one bucket for all: extents, steady times, what a new plan costs
//   choose    the cheapest edges by the model made of it (tune_model.h)
//   show      histogram, edges, what other numbers of buckets would cost, and replays: measured, by turns, before and after
//
// Start at tune_command.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include "frontend/cli/commands.h"
#include "frontend/cli/record.h"
#include "frontend/cli/tune_measure.h"
#include "runtime/settings.h"

namespace frit::cli {

using nlohmann::json;

namespace {
using Policies = std::map<std::string, std::string>;  // axis name ("": the default) -> policy
std::string axis_text(const std::string& axis) { return axis.empty() ? "(no name)" : "\"" + axis + "\""; }
std::string edges_text(const Edges& edges) {
  std::string s;
  for (int64_t e : edges) s += (s.empty() ? "" : ", ") + std::to_string(e);
  return "edges{" + s + "}";
}
struct Measured {
  Policies policies;
  double seconds = 0, flushing = 0, compile = 0;  // of the process; in flushes of the tuned axes; in the compiler
  int64_t plans = 0, fresh = 0, recompiles = 0, memory = 0, flushes = 0;  // plans: of the whole run; fresh: met by those flushes
  json record;
  std::vector<Flush> list;
};

class Tuner {
 public:
  explicit Tuner(const TuneOptions& o) : options_(o) {}
  int go();

 private:
  Measured run(const Policies& policies, const std::string& what);
  void choose_axes(const json& record);
  void build_model(const std::vector<const Measured*>& wide, const Measured& exact, const Measured& now);
  void show_histogram(const json& record) const;
  void show_what_if(const std::vector<Edges>& chosen);
  void show_others(const Measured& now) const;
  void show_replay(const std::vector<Edges>& chosen, const Measured& now);
  void show_random(const std::vector<Edges>& chosen);
  Policies policies_of(const std::vector<Edges>& edges) const;
  std::vector<std::vector<Edges>> by_number() const;
  std::vector<Edges> choose() const;
  double measured_slowdown(const Measured& m) const;

  const TuneOptions& options_;
  Compiled compiled_;
  Folder folder_;
  Progress progress_{"compiling"};
  std::vector<std::string> axes_;
  CostModel model_;
  std::map<Place, double> base_;  // steady seconds with buckets of one extent
};

Measured Tuner::run(const Policies& policies, const std::string& what) {
  progress_.show("running " + options_.file + ": " + what);
  std::map<std::string, std::string> setting{{"FRIT_CACHE", "0"}, {"FRIT_COMPILE", "foreground"}, {"FRIT_REPORT_LAUNCHES", "0"}};
  if (!policies.empty()) {
    const std::string file = folder_.path + "/policy.json";
    write_file(file, json{{"buckets", policies}}.dump());
    setting["FRIT_BUCKETS"] = file;
  }
  Recorded r(compiled_, options_, setting, "/dev/null");
  Measured m;
  m.policies = policies, m.seconds = r.seconds;
  const json& stats = r.json["stats"];
  m.compile = stats["compile_ns"].get<double>() / 1e9, m.plans = stats["plans_compiled"], m.recompiles = stats["recompiles"], m.memory = r.json["memory"]["peak"];
  m.record = std::move(r.json);
  if (!axes_.empty()) m.list = flushes_of(m.record, axes_);
  for (const Flush& f : m.list) m.flushing += f.seconds, m.fresh += f.fresh, ++m.flushes;
  progress_.clear();
  return m;
}

void Tuner::choose_axes(const json& record) {
  const json& histogram = record["histogram"];
  axes_ = options_.axes;
  for (std::string& axis : axes_)
    if (axis == "default") axis = "";
  if (axes_.empty()) {
    for (const auto& [axis, extents] : histogram.items())
      if (!axis.empty() && extents.size() > 1) axes_.push_back(axis);
    if (axes_.empty() && histogram.contains("") && histogram[""].size() > 1) axes_.push_back("");
    if (axes_.empty()) throw ScriptError(options_.file + " has no axis with more than one extent: there is nothing to tune (axes get their names from frit::named)");
  }
  for (const std::string& axis : axes_) {
    if (histogram.contains(axis)) continue;
    std::string met;
    for (const auto& [name, extents] : histogram.items()) met += (met.empty() ? "" : ", ") + axis_text(name);
    throw UsageError("--axis " + axis + ": " + options_.file + " has no such axis. " + (met.empty() ? "It compiled nothing." : "Its axes: " + met + ". Write --axis default for those without a name."));
  }
}

void Tuner::build_model(const std::vector<const Measured*>& wide, const Measured& exact, const Measured& now) {
  base_ = steady_times(exact.list);
  std::vector<const std::vector<Flush>*> lists;
  for (const Measured* w : wide) lists.push_back(&w->list);
  model_.slope = fit_slope(lists, base_);
  model_.runs = options_.runs;
  // Extents that came once have no steady time of their own when each is a bucket: theirs is that of the wide buckets, made narrower.
  for (const Measured* w : wide) {
    std::map<Place, double> width;
    for (const Flush& f : w->list) {
      double& sum = width[{f.structure, f.extents}];
      sum = 0;
      for (double x : f.widths) sum += x;
    }
    for (const auto& [place, seconds] : steady_times(w->list)) base_.try_emplace(place, seconds / (1 + model_.slope * width[place]));
  }
  std::map<Place, double> times;
  std::set<uint64_t> hot;  // a structure that came once has no plan, whatever the policy
  for (const Flush& f : now.list)
    if (f.compiled) hot.insert(f.alone);
  for (const Flush& f : now.list)
    if (hot.count(f.alone)) ++times[{f.structure, f.extents}];
  for (const auto& [place, count] : times) model_.samples.push_back({place.first, place.second, count, nearest_time(base_, place)});
  model_.compile = plan_cost(exact.list, base_);
}

void Tuner::show_histogram(const json& record) const {
  for (const std::string& axis : axes_) {
    const json& extents = record["histogram"][axis];
    int64_t least = extents.front()[0], largest = extents.back()[0], times = 0;
    for (const json& e : extents) times += e[1].get<int64_t>();
    std::printf("%s: %zu extents from %lld to %lld, met %lld times\n", toned("axis " + axis_text(axis), Tone::bold).c_str(), extents.size(), static_cast<long long>(least), static_cast<long long>(largest), static_cast<long long>(times));
    const int rows = int(std::min<size_t>(extents.size(), 12));
    std::vector<int64_t> sum(size_t(rows), 0);
    const auto row_of = [&](int64_t e) { return largest == least ? 0 : std::min<int64_t>(rows - 1, (e - least) * rows / (largest - least)); };
    for (const json& e : extents) sum[size_t(row_of(e[0]))] += e[1].get<int64_t>();
    const int64_t most = std::max<int64_t>(1, *std::max_element(sum.begin(), sum.end()));
    for (int r = 0; r < rows; ++r) {
      const int64_t from = least + (r * (largest - least) + rows - 1) / rows, to = r == rows - 1 ? largest : least + ((r + 1) * (largest - least) - 1) / rows;
      std::printf("  %6lld to %-6lld %8lld %s\n", static_cast<long long>(from), static_cast<long long>(to), static_cast<long long>(sum[size_t(r)]), std::string(size_t(sum[size_t(r)] * 40 / most), '#').c_str());
    }
  }
}

Policies Tuner::policies_of(const std::vector<Edges>& edges) const {
  Policies p;
  for (size_t a = 0; a < axes_.size(); ++a)
    if (!edges[a].empty()) p[axes_[a]] = edges_text(edges[a]);
  return p;
}
// For one axis by exactly that many buckets; for several, with at most that many of each.
std::vector<std::vector<Edges>> Tuner::by_number() const {
  std::vector<std::vector<Edges>> all;
  if (axes_.size() == 1) {
    for (Edges& e : best_edges(model_, {{}}, 0, options_.buckets)) all.push_back({std::move(e)});
    return all;
  }
  for (int k = 1; k <= options_.buckets; k *= 2)
    if (auto policy = best_policy(model_, k); all.empty() || policy != all.back()) all.push_back(std::move(policy));
  return all;
}
// The fewest buckets whose cost is within the model's own uncertainty of the cheapest.
std::vector<Edges> Tuner::choose() const {
  constexpr double uncertain = 1.02;
  const auto all = by_number();
  double cheapest = 1e300;
  for (const auto& edges : all) cheapest = std::min(cheapest, cost_of(model_, edges).total);
  return *std::find_if(all.begin(), all.end(), [&](const auto& edges) { return cost_of(model_, edges).total <= cheapest * uncertain; });
}
double Tuner::measured_slowdown(const Measured& m) const {
  std::map<Place, int> times;
  for (const Flush& f : m.list) times[{f.structure, f.extents}] += f.compiled && !f.fresh;
  double expected = 0, taken = 0;
  for (const auto& [place, seconds] : steady_times(m.list))
    if (const double base = nearest_time(base_, place); base > 0) expected += times[place] * base, taken += times[place] * seconds;
  return expected > 0 ? taken / expected : NAN;
}

void Tuner::show_what_if(const std::vector<Edges>& chosen) {
  std::printf("\nmeasured, compiling in the foreground: a new plan costs %s beyond its run; a flush takes %s%% longer for each doubling within its bucket\n\n", seconds_text(model_.compile).c_str(), number_text(100 * model_.slope, 2).c_str());
  Table t({"buckets", "plans", "cost by the model", "slowdown", "plans measured", "in flushes", "slowdown measured", "memory peak", "edges"});
  const auto all = by_number();
  for (const auto& edges : all) {
    const Cost c = cost_of(model_, edges);
    std::string number, text;
    for (size_t a = 0; a < edges.size(); ++a) number += (a ? " x " : "") + std::to_string(edges[a].size()), text += (a ? " x " : "") + edges_text(edges[a]);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    std::vector<std::string> row{number + (edges == chosen ? " *" : ""), number_text(c.plans, 6), seconds_text(c.total), number_text(c.slowdown, 4)};
    if (options_.log.empty() && !compiled_.program.empty()) {
      const Measured m = run(policies_of(edges), number + " buckets");
      row.insert(row.end(), {std::to_string(m.fresh), seconds_text(m.flushing), number_text(measured_slowdown(m), 4), bytes_text(double(m.memory))});
    } else {
      row.insert(row.end(), {"-", "-", "-", "-"});
    }
    row.push_back(text);
    t.add(std::move(row));
  }
  std::printf("%s", t.text().c_str());
}
// Where the buckets of other axes make more plans than the structures need, no policy of these axes can do without them.
void Tuner::show_others(const Measured& now) const {
  std::set<uint64_t> alone, with;
  std::map<std::string, std::set<int64_t>> others;
  for (const Flush& f : now.list)
    if (f.compiled) alone.insert(f.alone), with.insert(f.structure);
  if (with.size() <= alone.size()) return;
  for (const json& f : now.record["flushes"])
    for (const json& a : f["axes"])
      if (std::find(axes_.begin(), axes_.end(), a[0].get<std::string>()) == axes_.end()) others[a[0]].insert(a[3].get<int64_t>());
  std::printf("\n%zu structures need %zu plans, however these axes are divided: other axes have several buckets:", alone.size(), with.size());
  for (const auto& [axis, highs] : others)
    if (highs.size() > 1) std::printf(" %s %zu", axis_text(axis).c_str(), highs.size());
  std::printf("\n");
}

void Tuner::show_replay(const std::vector<Edges>& chosen, const Measured& now) {
  Policies pow2, current;
  for (const std::string& axis : axes_) pow2[axis] = "pow2", current[axis] = now.record["policies"].value(axis, now.record["policies"].value("", "pow2"));
  std::vector<std::pair<std::string, Policies>> ways;
  if (current != pow2) ways.push_back({"before", {}});
  ways.push_back({current == pow2 ? "before (pow2)" : "pow2", pow2});
  ways.push_back({"after", policies_of(chosen)});
  std::vector<std::vector<Measured>> all(ways.size());
  for (int round = 0; round < 3; ++round)
    for (size_t w = 0; w < ways.size(); ++w) all[w].push_back(run(ways[w].second, ways[w].first + ", round " + std::to_string(round + 1) + " of 3"));
  Table t({"policy", "plans", "recompiles", "whole run", "in flushes", "for one flush", "in the compiler", "memory peak"});
  for (size_t w = 0; w < ways.size(); ++w) {
    const auto middle = [&](auto f) {
      std::vector<double> v;
      for (const Measured& m : all[w]) v.push_back(double(f(m)));
      return median(v);
    };
    t.add({ways[w].first, number_text(middle([](auto& m) { return m.plans; }), 9), number_text(middle([](auto& m) { return m.recompiles; }), 9), seconds_text(middle([](auto& m) { return m.seconds; })),
           seconds_text(middle([](auto& m) { return m.flushing; })), seconds_text(middle([](auto& m) { return m.flushes ? m.flushing / double(m.flushes) : 0; })),
           seconds_text(middle([](auto& m) { return m.compile; })), bytes_text(middle([](auto& m) { return m.memory; }))});
  }
  std::printf("\nreplayed three times each, by turns; medians\n%s", t.text().c_str());
}

// The chosen policy, pow2, and the best five by the model of 1,000 random ones of the same size, each measured three times by turns. One bucket can be
// had in one way only: then the best policy of as many buckets as were allowed stands against random ones of its size.
void Tuner::show_random(const std::vector<Edges>& chosen) {
  std::vector<Edges> ours = chosen;
  if (std::all_of(chosen.begin(), chosen.end(), [](const Edges& e) { return e.size() < 2; })) ours = by_number().back();
  std::mt19937_64 random(1);
  std::set<std::pair<double, std::vector<Edges>>> tries;  // different ones, the cheapest first
  for (int i = 0; i < 1000; ++i) {
    std::vector<Edges> policy;
    for (size_t a = 0; a < axes_.size(); ++a) {
      std::vector<int64_t> met = model_.extents(a);
      Edges e;
      const int64_t last = met.back();
      met.pop_back();
      std::sample(met.begin(), met.end(), std::back_inserter(e), ours[a].size() - 1, random);
      e.push_back(last);
      policy.push_back(std::move(e));
    }
    tries.emplace(cost_of(model_, policy).total, std::move(policy));
  }
  struct Way {
    std::string name, cost;
    Policies policies;
    std::vector<double> flushing, slowdown;
    int64_t fresh = 0;
  };
  std::vector<Way> ways;
  const auto add = [&](const std::string& name, const std::vector<Edges>& edges) { ways.push_back({name, seconds_text(cost_of(model_, edges).total), policies_of(edges), {}, {}}); };
  add("chosen", chosen);
  if (ours != chosen) {
    std::string size;
    for (size_t a = 0; a < ours.size(); ++a) size += (a ? " x " : "") + std::to_string(ours[a].size());
    add("the best of " + size + " buckets", ours);
  }
  Policies pow2;
  for (const std::string& axis : axes_) pow2[axis] = "pow2";
  ways.push_back({"pow2", "-", pow2, {}, {}});
  int place = 0;
  for (auto at = tries.begin(); at != tries.end() && place < 5; ++at) add("random, place " + std::to_string(++place), at->second);
  for (int round = 0; round < 3; ++round)
    for (Way& w : ways) {
      const Measured m = run(w.policies, w.name + ", round " + std::to_string(round + 1) + " of 3");
      w.flushing.push_back(m.flushing), w.slowdown.push_back(measured_slowdown(m)), w.fresh = m.fresh;
    }
  Table t({"policy", "cost by the model", "plans", "in flushes", "the shortest", "slowdown measured"});
  for (const Way& w : ways) t.add({w.name, w.cost, std::to_string(w.fresh), seconds_text(median(w.flushing)), seconds_text(*std::min_element(w.flushing.begin(), w.flushing.end())), number_text(median(w.slowdown), 4)});
  std::printf("\nagainst the best five, by the model, of 1,000 random policies of the same size (%zu different ones); measured three times each, by turns; medians\n%s", tries.size(), t.text().c_str());
}

int Tuner::go() {
  check_writable(options_.output);
  Measured now;
  if (options_.log.empty()) {
    compiled_ = compile_script(options_);
    now = run({}, "as it is");
  } else {
    now.record = read_record(options_.log);
  }
  choose_axes(now.record);
  now.list = flushes_of(now.record, axes_);
  if (now.list.empty()) throw ScriptError(options_.file + " flushed nothing that has these axes: there is nothing to tune");
  if (options_.log.empty()) {
    Policies exact, one;
    for (const std::string& axis : axes_) exact[axis] = "exact", one[axis] = "dynamic";
    Measured narrow = run(exact, "a bucket for each extent"), wide = run(one, "one bucket for all");
    for (auto [to, policies] : {std::pair{&narrow, &exact}, {&wide, &one}}) {  // once more, by turns: both under what else the machine does
      const Measured again = run(*policies, "once more");
      to->list.insert(to->list.end(), again.list.begin(), again.list.end());
    }
    build_model({&wide, &now}, narrow, now);
  } else {
    build_model({&now}, now, now);
  }
  show_histogram(now.record);
  if (model_.samples.empty()) throw ScriptError(options_.file + " compiled nothing that has these axes: no trace of them came often enough");
  const std::vector<Edges> chosen = choose();
  show_what_if(chosen);
  show_others(now);
  const Policies policy = policies_of(chosen);
  for (const auto& [axis, text] : policy) std::printf("\nchosen for axis %s (the fewest buckets within 2%% of the cheapest): %s\n", axis_text(axis).c_str(), toned(text, Tone::good).c_str());
  if (options_.log.empty()) {
    show_replay(chosen, now);
    if (options_.random) show_random(chosen);
  }
  write_file(options_.output, json{{"buckets", policy}}.dump(2) + "\n");
  std::printf("\nwrote %s; FRIT_BUCKETS=%s applies it, or buckets::load\n", options_.output.c_str(), std::filesystem::absolute(options_.output).lexically_normal().c_str());
  return done;
}
}  // namespace

int tune_command(const TuneOptions& options) {
  Tuner tuner(options);
  return tuner.go();
}

}  // namespace frit::cli
