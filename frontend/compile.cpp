// Regions of compiled functions, bucket policies and axis names, and the compiler's records as users read them.
#include "frit/compile.h"
#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include "frontend/detail.h"
#include "frontend/run_record.h"
#include "jit/buckets.h"
#include "jit/history.h"
#include "jit/tiers.h"
#include "runtime/error.h"
#include "runtime/source_line.h"
#include "runtime/stats.h"

namespace frit {

using namespace detail;

// ---- buckets --------------------------------------------------------------------------------------------------------------
namespace {
jit::BucketPolicy parse_policy(const std::string& text) {
  using P = jit::BucketPolicy;
  if (text == "pow2") return P::pow2();
  if (text == "exact") return P::exact();
  if (text == "dynamic") return P::dynamic();
  std::vector<int64_t> numbers;
  const size_t open = text.find_first_of("({");
  if (open != std::string::npos) {
    std::string inner = text.substr(open + 1, text.size() - open - 2);
    std::replace(inner.begin(), inner.end(), ',', ' ');
    std::istringstream in(inner);
    for (int64_t v; in >> v;) numbers.push_back(v);
    if (in.eof()) {
      if (text.starts_with("multiple_of(") && numbers.size() == 1) return P::multiple_of(numbers[0]);
      if (text.starts_with("edges{")) return P::edges(numbers);
    }
  }
  throw ValueError("buckets: \"" + text + "\" is no policy. Use pow2, exact, dynamic, multiple_of(k) or edges{a, b, …}.");
}
}  // namespace
Buckets Buckets::exact() { return Buckets("exact"); }
Buckets Buckets::pow2() { return Buckets("pow2"); }
Buckets Buckets::dynamic() { return Buckets("dynamic"); }
Buckets Buckets::multiple_of(int64_t k) { return Buckets(jit::BucketPolicy::multiple_of(k).text()); }
Buckets Buckets::edges(std::vector<int64_t> e) { return Buckets(jit::BucketPolicy::edges(std::move(e)).text()); }

namespace buckets {
void set(const std::string& axis, const Buckets& policy) {
  if (axis.empty()) jit::set_default_policy(parse_policy(policy.text()));
  else jit::set_policy(axis, parse_policy(policy.text()));
}
Buckets get(const std::string& axis) {
  const jit::BucketPolicy p = axis.empty() ? jit::policy_of(0) : jit::policy_of(jit::axis_name_id(axis));
  switch (p.kind()) {
    case jit::BucketPolicy::Kind::exact: return Buckets::exact();
    case jit::BucketPolicy::Kind::dynamic: return Buckets::dynamic();
    case jit::BucketPolicy::Kind::multiple_of: return Buckets::multiple_of(p.numbers()[0]);
    case jit::BucketPolicy::Kind::edges: return Buckets::edges(p.numbers());
    default: return Buckets::pow2();
  }
}
void save(const std::string& path) {
  nlohmann::json j;
  for (const auto& [axis, policy] : jit::all_policies()) j["buckets"][axis] = policy.text();
  std::ofstream out(path);
  out << j.dump(2) << '\n';
  out.flush();
  if (!out) throw FileError("buckets::save: " + path + " could not be written. Check the folder and its permissions.");
}
namespace {
std::vector<std::pair<std::string, jit::BucketPolicy>> read_policies(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw FileError("buckets::load: " + path + " could not be opened. Check the path.");
  std::vector<std::pair<std::string, jit::BucketPolicy>> read;
  try {
    const nlohmann::json j = nlohmann::json::parse(in);
    for (const auto& [axis, policy] : j.at("buckets").items()) read.emplace_back(axis, parse_policy(policy.get<std::string>()));
  } catch (const nlohmann::json::exception& e) {
    throw FileError("buckets::load: " + path + " is no policy file (" + e.what() + "). Write one with buckets::save.");
  }
  return read;
}
}  // namespace
void load(const std::string& path) {
  for (const auto& [axis, policy] : read_policies(path)) axis.empty() ? jit::set_default_policy(policy) : jit::set_policy(axis, policy);
}
}  // namespace buckets
void detail::pin_buckets(const std::string& path) {
  try {
    for (const auto& [axis, policy] : buckets::read_policies(path)) jit::pin_policy(axis, policy);
  } catch (const ValueError& e) {
    throw ValueError("FRIT_BUCKETS=" + path + ": " + e.msg());
  }
}

// ---- axis names --------------------------------------------------------------------------------------------------------------
Tensor named(const Tensor& t, const std::string& names) {
  cell_of(t, "named");
  std::istringstream in(names);
  std::vector<uint16_t> ids;
  std::vector<std::string> words;
  for (std::string word; in >> word; words.push_back(word)) {
    if (std::any_of(word.begin(), word.end(), [](unsigned char c) { return !std::isalnum(c) && c != '_'; }))
      throw ValueError("named: \"" + word + "\" is no axis name. Use letters, digits and underscores.");
    if (word != "_" && std::find(words.begin(), words.end(), word) != words.end()) throw ValueError("named: the name \"" + word + "\" stands twice in \"" + names + "\". Name each axis once.");
    ids.push_back(word == "_" ? 0 : jit::axis_name_id(word));
  }
  if (int64_t(ids.size()) != t.dim())
    throw ShapeError("named: \"" + names + "\" has " + std::to_string(ids.size()) + " names, the tensor has shape " + shape_text(t.sizes()) + ". Give one name per axis (\"_\" for none).");
  return tracer::with_names(t, ids);
}
std::vector<std::string> names(const Tensor& t) {
  std::vector<std::string> result;
  for (uint16_t id : tracer::axis_names(cell_of(t, "names"))) result.push_back(id ? jit::axis_name(id) : "");
  return result;
}

// ---- records ----------------------------------------------------------------------------------------------------------------
namespace jit {
Stats stats() {
  const frit::Stats s = stats_snapshot();
  Stats r{};
  r.plans_compiled = s.plans_compiled, r.kernels_compiled = s.kernels_compiled, r.recompiles = s.recompiles, r.plan_hits = s.plan_hits;
  r.kernels_launched = s.kernels_launched, r.flushes = s.flushes, r.tier0_flushes = s.tier0_flushes, r.eager_ops = s.eager_ops, r.eager_kernels = s.eager_kernels;
  r.library_calls = s.library_calls, r.cache_bytes = s.cache_bytes, r.disk_hits = s.disk_hits, r.evicted = s.evicted, r.ops_followed = s.ops_followed, r.frozen_calls = s.frozen_calls, r.tier2_kernels = s.tier2_kernels, r.tier2_kept = s.tier2_kept;
  r.weights_packed = s.weights_packed, r.packed_reads = s.packed_reads;
  r.compile_ms = double(s.compile_ns) / 1e6, r.waited_compile_ms = double(s.waited_compile_ns) / 1e6;
  return r;
}
std::vector<RecompileRecord> recompiles() {
  std::vector<RecompileRecord> r;
  for (const Recompile& x : recompile_history()) r.push_back({x.reason, source_line(x.site)});
  return r;
}
std::vector<FlushRecord> flushes() {
  std::vector<FlushRecord> r;
  for (const auto& x : flush_history()) r.push_back({x.cause, x.ops, x.tier, source_line(x.site)});
  return r;
}
void record_history(int64_t launches) {
  if (launches < 0) throw ValueError("record_history: " + std::to_string(launches) + " launches cannot be kept. Give 0 or more.");
  keep_launches(size_t(launches));
}
std::vector<LaunchRecord> history() {
  std::vector<LaunchRecord> all;
  for (const Launched& r : launch_history()) {
    std::vector<std::string> lines;
    for (const CallSite* site : r.sites)
      if (std::string line = source_line(site); !line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
    all.push_back({r.kernel, r.tier, r.bytes, r.flops, r.seconds, r.start, std::move(lines), int64_t(r.thread)});
  }
  return all;
}
std::map<std::string, std::map<int64_t, int64_t>> histogram() { return axis_histogram(); }
void wait_for_compiles() { wait_for_background(); }
RecompileGuard::RecompileGuard(int64_t allowed) : allowed_(allowed), before_(set_recompile_guard(&allowed_)) {}
RecompileGuard::~RecompileGuard() { set_recompile_guard(before_); }

// ---- regions ------------------------------------------------------------------------------------------------------------------
namespace detail {
Region::Region(const Options& o) {
  tracer::Recorder& r = tracer::recorder();
  outermost_ = !r.foreground;
  eager_before_ = r.eager;
  for (const auto& [axis, policy] : o.bucket_policies())
    if (buckets::get(axis).text() != policy.text()) buckets::set(axis, policy);
  if (!outermost_) return;
  r.flush("compile");
  r.eager = false, r.foreground = true, r.fast_math = o.is_fast_math();
}
void Region::finish() {
  finished_ = true;
  if (outermost_) tracer::recorder().flush("return");
}
Region::~Region() {
  tracer::Recorder& r = tracer::recorder();
  if (!outermost_) return;
  r.foreground = false;
  if (!finished_) {  // the body threw: what it did until then is done, as in eager mode
    try {
      r.flush("exception");
    } catch (const std::exception&) {  // what failed is poisoned; the body's exception is the one that is told
    }
  }
  r.eager = eager_before_, r.fast_math = false;
}
}  // namespace detail

std::string explain(const std::function<void()>& f) {
  std::string text;
  {
    ExplainScope scope(&text);
    detail::Region region(Options{});
    f();
    region.finish();
  }
  return text;
}
}  // namespace jit

}  // namespace frit
