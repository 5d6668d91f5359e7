// Measures FRIT_BENCH bodies in three modes: eager, automatic (traced, compiled in the background once hot) and compiled (compile()).
//
//   first     the first call of each mode, with nothing compiled before; compiled's comes before automatic's, and all plans and kernels are forgotten
//             between them
//   samples   interleaved: one of each mode in turn, each of as many calls as fill a fraction of a millisecond
//   apart     further calls with the log of flushes and launches on: run (inside launches), launch (the rest of the flush), record (the rest of the call)
//   equal     each mode starts from the same seed, with the body run anew; results are compared bit for bit, all NaNs as one value
//
// Start at Runner::time.
#include "frit/bench.h"
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include "frit/compile.h"
#include "frit/functions.h"
#include "frontend/run_record.h"
#include "jit/history.h"
#include "jit/run_log.h"
#include "jit/tiers.h"
#include "runtime/launch.h"
#include "runtime/stats.h"

namespace frit {

using nlohmann::json;

namespace detail {
namespace {
json& results() {
  static json* r = new json(json::array());
  return *r;
}
}  // namespace
json bench_results() { return results(); }
}  // namespace detail

namespace bench {

namespace {
using Clock = std::chrono::steady_clock;
double seconds(Clock::time_point from, Clock::time_point to) { return std::chrono::duration<double>(to - from).count(); }

std::vector<Body>& bodies() {
  static std::vector<Body>* b = new std::vector<Body>;
  return *b;
}
enum class Way { eager, automatic, compiled };
constexpr Way ways[] = {Way::eager, Way::automatic, Way::compiled};
constexpr const char* way_names[] = {"eager", "automatic", "compiled"};
constexpr uint64_t seed = 20240229;

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  const double at = q * double(v.size() - 1);
  const size_t low = size_t(at);
  return low + 1 < v.size() ? v[low] + (at - double(low)) * (v[low + 1] - v[low]) : v.back();
}
// Type, extents and elements; every NaN as the same one.
std::string canonical(const Tensor& given) {
  if (!given.defined()) return "undefined";
  const Tensor t = given.detach().contiguous();
  std::string s = std::string(dtype_name(t.dtype())) + json(t.sizes().vec()).dump() + ":";
  dispatch(t.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* p = t.const_data_ptr<T>();
    for (int64_t i = 0; i < t.numel(); ++i) {
      T v = p[i];
      if constexpr (!std::is_integral_v<T>)
        if (double(float(v)) != double(float(v)) && double(v) != double(v)) std::memset(static_cast<void*>(&v), 0xff, sizeof v);
      s.append(reinterpret_cast<const char*>(&v), sizeof v);
    }
  });
  return s;
}
}  // namespace

namespace detail {
struct Runner {
  const Body& body;
  int64_t argument;
  double budget;         // seconds for the samples
  json result;

  enum class Task { look, check } task = Task::look;
  bool measured = false;
  Way way = Way::eager;                 // check: of
  std::vector<std::string> values;      // check: what each call gave

  // One call in one mode, complete; the function keeps its values in `run`.
  static void call(Run& run, Way w, const std::function<void()>& f, jit::Compiled<std::function<void()>>& compiled) {
    run.kept_.clear();
    if (w == Way::compiled) {
      compiled();
    } else {
      const jit::ModeGuard mode(w == Way::eager ? jit::Mode::eager : jit::Mode::automatic);
      f();
      synchronize();
    }
  }
  void measure(Run& run, const std::function<void()>& f) {
    if (measured) throw ValueError("FRIT_BENCH(" + body.name + "): measure is called twice. Call it once, and write another body for the other.");
    measured = true;
    auto compiled = compile(f);
    if (task == Task::look) return time(run, f);
    for (int i = 0; i < 3; ++i) {
      call(run, way, f, compiled);
      std::string all;
      for (const Tensor& t : run.kept_) all += canonical(t);
      values.push_back(std::move(all));
    }
    run.kept_.clear();
  }

  static void forget() {
    jit::wait_for_compiles();
    jit::forget_plans();
    jit::forget_kernels();
  }
  json first_call(Run& run, Way w, const std::function<void()>& f, jit::Compiled<std::function<void()>>& compiled) {
    const frit::Stats before = stats_snapshot();
    const Clock::time_point start = Clock::now();
    call(run, w, f, compiled);
    json j{{"first", seconds(start, Clock::now())}};
    int calls = 1;
    if (w == Way::automatic) {  // until nothing new is compiled
      for (int64_t known = -1; calls < 12; ++calls) {
        jit::wait_for_compiles();
        const int64_t now = counters.plans_compiled + counters.kernels_compiled;
        if (now == known && calls > 3) break;
        known = now;
        call(run, w, f, compiled);
      }
    }
    const frit::Stats d = stats_snapshot() - before;
    j["calls_until_compiled"] = calls;
    j["compile"] = double(d.compile_ns) / 1e9, j["plans"] = d.plans_compiled, j["kernels_compiled"] = d.kernels_compiled + d.eager_kernels, j["from_disk"] = d.disk_hits;
    return j;
  }
  void apart(Run& run, Way w, const std::function<void()>& f, jit::Compiled<std::function<void()>>& compiled, json& j) {
    constexpr int least = 7, calls_at_most = 512;  // shapes may change from call to call: bytes are means, the memory peak is the highest
    constexpr size_t most = 1 << 14;
    std::vector<double> record, launch, run_time;
    int64_t kernels = 0, all_bytes = 0, all_flops = 0, peak = 0;
    double spent = 0;
    int calls = 0;
    for (; calls < least || (calls < calls_at_most && spent < 0.02); ++calls) {
      run.kept_.clear();
      const int64_t before = memory::stats().current;
      memory::reset_peak();
      jit::start_run_log();
      jit::keep_launches(most);
      const Clock::time_point start = Clock::now();
      call(run, w, f, compiled);
      const double whole = seconds(start, Clock::now());
      peak = std::max(peak, memory::stats().peak - before);
      spent += whole;
      double inside = 0, flushing = 0;
      int64_t bytes = 0, flops = 0;
      const auto launches = jit::launch_history();
      for (const auto& l : launches) inside += l.seconds, bytes += l.bytes, flops += l.flops;
      const auto log = jit::run_log();
      for (const auto& f : log.flushes) flushing += f.seconds;
      run_time.push_back(inside), launch.push_back(std::max(0.0, flushing - inside)), record.push_back(std::max(0.0, whole - std::max(flushing, inside)));
      kernels += int64_t(launches.size()), all_bytes += bytes, all_flops += flops;
    }
    j["kernels"] = (kernels + calls / 2) / calls, j["bytes"] = all_bytes / calls, j["flops"] = all_flops / calls, j["memory_peak"] = peak;
    jit::keep_launches(0);
    jit::stop_run_log();
    j["record"] = quantile(record, 0.5), j["launch"] = quantile(launch, 0.5), j["run"] = quantile(run_time, 0.5);
    run.kept_.clear();
  }
  void time(Run& run, const std::function<void()>& f) {
    auto compiled = compile(f);
    json j[3];
    jit::keep_launches(0);  // nothing is logged while the clock runs
    jit::stop_run_log();
    forget();
    j[2] = first_call(run, Way::compiled, f, compiled);
    j[0] = first_call(run, Way::eager, f, compiled);
    forget();
    j[1] = first_call(run, Way::automatic, f, compiled);
    run.kept_.clear();
    for (Way w : ways) apart(run, w, f, compiled, j[int(w)]);
    // How many calls make a sample, and how many samples there is time for.
    int calls[3];
    double round = 0;
    for (Way w : ways) {
      const Clock::time_point start = Clock::now();
      call(run, w, f, compiled);
      const double once = std::max(seconds(start, Clock::now()), 1e-7);
      calls[int(w)] = int(std::clamp(3e-4 / once, 1.0, 1000.0));
      round += once * calls[int(w)];
    }
    const int rounds = int(std::clamp(budget / round, 5.0, 101.0));
    std::vector<double> samples[3];
    for (int r = 0; r < rounds; ++r)
      for (Way w : ways) {
        const Clock::time_point start = Clock::now();
        for (int i = 0; i < calls[int(w)]; ++i) call(run, w, f, compiled);
        samples[int(w)].push_back(seconds(start, Clock::now()) / calls[int(w)]);
      }
    run.kept_.clear();
    for (Way w : ways) {
      json& to = j[int(w)];
      const auto& s = samples[int(w)];
      to["median"] = quantile(s, 0.5), to["low"] = quantile(s, 0.25), to["high"] = quantile(s, 0.75), to["samples"] = rounds, to["calls"] = calls[int(w)];
      result[way_names[int(w)]] = std::move(to);
    }
  }
  void start(Task t, Way w) {
    task = t, way = w, measured = false;
    values.clear();
    manual_seed(seed);
    Run run(*this);
    const jit::ModeGuard eager(jit::Mode::eager);  // what stands before measure
    body.function(run, argument);
    if (measured) return;
    run.kept_.clear();
    manual_seed(seed);
    measure(run, [&] { body.function(run, argument); });
  }
  void go() {
    start(Task::look, Way::eager);
    std::vector<std::string> eager;
    bool equal = true, values_kept = false;
    for (Way w : ways) {
      start(Task::check, w);
      if (w == Way::eager) eager = values;
      equal &= values == eager;
      for (const std::string& v : values) values_kept |= !v.empty();
    }
    result["equal"] = equal, result["kept"] = values_kept;
  }
};
}  // namespace detail

void Run::measure_function(const std::function<void()>& f) { runner_.measure(*this, f); }

Register::Register(const char* name, std::vector<int64_t> arguments, std::function<void(Run&, int64_t)> function) {
  bodies().push_back({name, std::move(arguments), std::move(function)});
}

namespace {
bool chosen(const std::string& name, const std::vector<std::string>& only) {
  return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
}
// One body with one argument. False when it throws.
bool measure_body(const Body& body, int64_t argument, double budget) {
  json base{{"name", body.name}};
  if (!body.arguments.empty()) base["argument"] = argument;
  detail::Runner runner{body, argument, budget, base, {}, false, Way::eager, {}};
  try {
    runner.go();
  } catch (const std::exception& e) {
    base["error"] = e.what();
    frit::detail::results().push_back(base);
    std::fprintf(stderr, "FRIT_BENCH(%s): %s\n", body.name.c_str(), e.what());
    return false;
  }
  frit::detail::results().push_back(std::move(runner.result));
  return true;
}
void run_once(const Body& body, int64_t argument) {
  const auto start = Clock::now();
  detail::Runner runner{body, argument, 0, {}, {}, false, Way::automatic, {}};
  runner.start(detail::Runner::Task::check, Way::automatic);
  std::printf("%s%s: ran in %.3f ms; frit bench measures it\n", body.name.c_str(), body.arguments.empty() ? "" : (" " + std::to_string(argument)).c_str(), 1e3 * seconds(start, Clock::now()));
}
}  // namespace

int run_bodies(int count, char** words) {
  std::vector<std::string> only;
  double budget = 0.4;
  bool list = false;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--seconds" && i + 1 < count) budget = std::atof(words[++i]);
    else if (word == "--list") list = true;
    else only.push_back(word);
  }
  if (bodies().empty()) {
    std::fprintf(stderr, "frit: the script has neither a main nor FRIT_BENCH bodies\n");
    return 2;
  }
  for (const std::string& name : only)
    if (std::none_of(bodies().begin(), bodies().end(), [&](const Body& b) { return b.name == name; })) {
      std::string names;
      for (const Body& b : bodies()) names += " " + b.name;
      std::fprintf(stderr, "frit: there is no FRIT_BENCH body %s; there are:%s\n", name.c_str(), names.c_str());
      return 2;
    }
  const bool progress = ::isatty(2) && frit::detail::run_is_recorded();
  bool good = true;
  for (const Body& body : bodies()) {
    if (!chosen(body.name, only)) continue;
    const std::vector<int64_t> arguments = body.arguments.empty() ? std::vector<int64_t>{0} : body.arguments;
    for (int64_t argument : arguments) {
      if (list) {
        std::printf("%s%s\n", body.name.c_str(), body.arguments.empty() ? "" : (" " + std::to_string(argument)).c_str());
        continue;
      }
      if (progress) std::fprintf(stderr, "\r\033[Kmeasuring %s", body.name.c_str());
      if (frit::detail::run_is_recorded()) {
        good &= measure_body(body, argument, budget);
      } else {
        try {
          run_once(body, argument);
        } catch (const std::exception& e) {
          std::fprintf(stderr, "FRIT_BENCH(%s): %s\n", body.name.c_str(), e.what());
          good = false;
        }
      }
    }
  }
  if (progress) std::fputs("\r\033[K", stderr);
  return good || frit::detail::run_is_recorded() ? 0 : 1;  // the record says which failed
}

}  // namespace bench
}  // namespace frit
