// The record of a run: one JSON object with what the compiler did and what ran, written when the process ends (FRIT_REPORT). The command
// line's bench, tune, explain and report, and anybody else, read it.
//
//   {"version", "build", "cpu", "threads", "seconds", "settings": {…}, "stats": {…}, "memory": {…, held: {uses, highest, at_peak, peak_time, holders, points: [[time, [by use]]]}},
//    "policies": {axis: policy},
//    "histogram": {axis: [[extent, times], …]}, "recompiles": [reason], "failures": [text],
//    "flushes": [{cause, ops, tier, new, start, seconds, thread, structure, axes: [[name, extent, low, high]]}],
//    "compiles": [{what, start, seconds, thread, bytes, disk}], "plans": [{text, steps: [{kind, ops: [[name, shape, line]], inputs, outputs}], sources: [[node, shape]], roots,
//    memory: {peak, kept, during: [by step], holders: [[name, shape, line, bytes]]}}],
//    "launches": [{kernel, tier, bytes, flops, seconds, start, thread, memory, lines}], "bench": […], "left_out": {…}}
//
// Times are seconds since the library was loaded. Also here: the policies of FRIT_BUCKETS. Start at write_record.
#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include "frit/compile.h"
#include "frontend/run_record.h"
#include "jit/history.h"
#include "jit/run_log.h"
#include "jit/tiers.h"
#include "runtime/buffer.h"
#include "runtime/cpu.h"
#include "runtime/disk_cache.h"
#include "runtime/launch.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "runtime/stats.h"
#include "tracer/memory_log.h"

namespace frit::detail {

using nlohmann::json;

namespace {
json flush_json(const jit::LoggedFlush& f) {
  json axes = json::array();
  for (const auto& a : f.axes) axes.push_back({a.name, a.extent, a.low, a.high});
  return {{"cause", f.cause}, {"ops", f.ops}, {"tier", f.tier}, {"new", f.new_plan}, {"start", f.start}, {"seconds", f.seconds}, {"thread", f.thread}, {"structure", f.structure}, {"axes", std::move(axes)}};
}
json plan_json(const jit::LoggedPlan& p) {
  json steps = json::array(), sources = json::array();
  for (const auto& s : p.steps) {
    json ops = json::array();
    for (const auto& op : s.ops) ops.push_back({op.name, op.shape, source_line(op.site)});
    steps.push_back({{"kind", s.kind}, {"ops", std::move(ops)}, {"inputs", s.inputs}, {"outputs", s.outputs}});
  }
  for (const auto& s : p.sources) sources.push_back({s.node, s.shape});
  json holders = json::array();
  for (const auto& h : p.memory.holders) holders.push_back({h.op.name, h.op.shape, source_line(h.op.site), h.bytes});
  return {{"text", p.text}, {"steps", std::move(steps)}, {"sources", std::move(sources)}, {"roots", p.roots},
          {"memory", {{"peak", p.memory.peak}, {"kept", p.memory.kept}, {"during", p.memory.during}, {"holders", std::move(holders)}}}};
}
json launches_json(jit::LogClock::time_point began) {
  const double shift = std::chrono::duration<double>(jit::launches_began() - began).count();
  json list = json::array();
  const auto records = jit::launch_history();
  const auto with_lines = jit::history();
  for (size_t i = 0; i < records.size(); ++i) {
    const jit::Launched& l = records[i];
    list.push_back({{"kernel", l.kernel}, {"tier", l.tier}, {"bytes", l.bytes}, {"flops", l.flops}, {"seconds", l.seconds}, {"start", l.start + shift}, {"thread", l.thread}, {"memory", l.memory}});
    if (i < with_lines.size() && !with_lines[i].lines.empty()) list.back()["lines"] = with_lines[i].lines;
  }
  return list;
}
json held_json(const tracer::MemorySums& sums) {
  json j = json::object();
  for (size_t u = 0; u < tracer::memory_uses; ++u) j[tracer::memory_use_name(tracer::MemoryUse(u))] = sums[u];
  return j;
}
// Who held memory: sums by use at moments, and the holders when there was most.
json held_json() {
  const tracer::MemoryLog log = tracer::memory_log();
  const tracer::MemorySummary s = tracer::summarize(log, 0, 500);
  json points = json::array(), holders = json::array();
  for (const auto& p : s.points) points.push_back({p.time, p.held});
  for (size_t i = 0; i < s.holders.size() && i < 100; ++i) {
    const tracer::MemoryHolder& h = s.holders[i];
    holders.push_back({{"use", tracer::memory_use_name(h.use)}, {"what", h.what}, {"line", h.line}, {"bytes", h.bytes}, {"tensors", h.blocks}});
  }
  json uses = json::array();
  for (size_t u = 0; u < tracer::memory_uses; ++u) uses.push_back(tracer::memory_use_name(tracer::MemoryUse(u)));
  return {{"uses", std::move(uses)}, {"highest", held_json(s.highest)}, {"at_peak", held_json(s.at_peak)}, {"peak_time", s.peak_time}, {"holders", std::move(holders)}, {"points", std::move(points)}, {"complete", log.complete}};
}
json histogram_json() {
  json all = json::object();
  for (const auto& [axis, extents] : jit::axis_histogram()) {
    json list = json::array();
    for (const auto& [extent, times] : extents) list.push_back({extent, times});
    all[axis] = std::move(list);
  }
  return all;
}
json record_of_run() {
  const jit::RunLog log = jit::run_log();
  json r{{"version", 1}, {"cpu", cpu_info().text()}, {"threads", num_threads()}, {"bench", bench_results()}};
  r["seconds"] = std::chrono::duration<double>(jit::LogClock::now() - log.began).count();
  for (const SettingRow& row : setting_rows()) r["settings"][row.name] = row.value;
  const Stats stats = stats_snapshot();
#define X(name, help) r["stats"][#name] = stats.name;
  FRIT_FOR_EACH_COUNTER(X)
#undef X
  const MemoryStats memory = memory_stats();
  r["memory"] = {{"current", memory.current}, {"peak", memory.peak}, {"reserved", memory.reserved}, {"allocations", memory.allocations}};
  if (tracer::memory_logged()) r["memory"]["held"] = held_json();
  for (const auto& [axis, policy] : jit::all_policies()) r["policies"][axis] = policy.text();
  r["histogram"] = histogram_json();
  r["recompiles"] = json::array();
  for (const auto& x : jit::recompile_history()) r["recompiles"].push_back(x.reason);
  r["failures"] = jit::compile_failures();
  r["flushes"] = r["compiles"] = r["plans"] = json::array();
  for (const auto& f : log.flushes) r["flushes"].push_back(flush_json(f));
  for (const auto& c : log.compiles)
    r["compiles"].push_back({{"what", c.what}, {"start", c.start}, {"seconds", c.seconds}, {"thread", c.thread}, {"bytes", c.bytes}, {"disk", c.from_disk}});
  for (const auto& p : log.plans) r["plans"].push_back(plan_json(p));
  r["launches"] = launches_json(log.began);
  r["left_out"] = {{"flushes", log.flushes_left_out}, {"compiles", log.compiles_left_out}, {"plans", log.plans_left_out}};
  return r;
}
void write_record(const std::string& path) {
  const std::string bytes = record_of_run().dump(-1, ' ', false, json::error_handler_t::replace), beside = path + ".tmp-" + std::to_string(::getpid());
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool good = fd >= 0;
  for (size_t at = 0; good && at < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    good = n > 0;
    if (good) at += size_t(n);
  }
  good = good && ::rename(beside.c_str(), path.c_str()) == 0;
  if (!good) {
    log_warning("the record of the run was not written to " + path + ": " + std::strerror(errno));
    ::unlink(beside.c_str());
  }
  if (fd >= 0) ::close(fd);
}

pid_t recorded_process = 0;  // a forked child writes none
const bool started = [] {
  at_load([] {
    if (!settings().buckets.empty()) pin_buckets(settings().buckets);
    if (settings().report.empty()) return;
    recorded_process = ::getpid();
    jit::start_run_log();
    jit::keep_launches(size_t(settings().report_launches));
    if (settings().report_launches) tracer::start_memory_log();
    std::atexit([] {
      if (::getpid() != recorded_process) return;
      try {
        write_record(settings().report);
      } catch (const std::exception& e) {
        log_warning(std::string("the record of the run was not written: ") + e.what());
      }
    });
  });
  return true;
}();
}  // namespace

void record_nothing() {
  recorded_process = 0;
  jit::stop_run_log();
  jit::keep_launches(0);
  if (tracer::memory_logged()) tracer::stop_memory_log();
}
bool run_is_recorded() { return recorded_process == ::getpid(); }

}  // namespace frit::detail
