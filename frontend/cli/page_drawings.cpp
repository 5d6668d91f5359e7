// The drawings of a run's page: time, buckets, roofline (memory has a file of its own). Each has a viewBox and is as wide as its place. Start at draw_timeline.
#include <algorithm>
#include <cmath>
#include <map>
#include "frontend/cli/console.h"
#include "frontend/cli/drawing.h"
#include "frontend/cli/page.h"

namespace frit::cli {

using nlohmann::json;

namespace {
struct Span { double start, end; std::string title; int count = 1; };
// Neighbours that would be drawn thinner than `least` are drawn as one.
std::vector<Span> merged(std::vector<Span> spans, double least) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.start < b.start; });
  std::vector<Span> out;
  for (Span& s : spans) {
    Span* const last = out.empty() ? nullptr : &out.back();
    if (last && s.start - last->end < least && s.end - last->start < 8 * least && s.end - s.start < 4 * least) last->end = std::max(last->end, s.end), ++last->count;
    else out.push_back(std::move(s));
  }
  return out;
}
}  // namespace

std::string draw_timeline(const json& record) {
  struct Lane { const char* kind; std::vector<Span> spans; };
  std::map<std::pair<int, int>, Lane> lanes;  // thread, place in it
  double first = 1e300, last = 0;
  const auto add = [&](const json& e, int place, const char* kind, std::string title) {
    const double start = e["start"], seconds = e["seconds"];
    first = std::min(first, start), last = std::max(last, start + seconds);
    Lane& lane = lanes[{e["thread"].get<int>(), place}];
    lane.kind = kind;
    lane.spans.push_back({start, start + seconds, std::move(title)});
  };
  for (const json& f : record["flushes"]) add(f, 0, "flush", "flush (" + f["cause"].get<std::string>() + "), " + std::to_string(f["ops"].get<int>()) + " ops, " + seconds_text(f["seconds"]));
  for (const json& l : record["launches"]) add(l, 1, "launch", l["kernel"].get<std::string>() + ", " + seconds_text(l["seconds"]));
  for (const json& c : record["compiles"]) add(c, 2, "compile", c["what"].get<std::string>() + ", " + seconds_text(c["seconds"]) + (c["disk"].get<bool>() ? " from disk" : ""));
  if (lanes.empty()) return "<p>Nothing was recorded and run.</p>\n";
  last = std::max(last, first + 1e-6);
  const double scale = (wide - left - right) / (last - first), row = 24;
  std::string in;
  double y = 6;
  const double bottom = y + double(lanes.size()) * row;
  for (double t : ticks(0, last - first, 8)) in += line(left + t * scale, 2, left + t * scale, bottom, "grid") + label(left + t * scale, bottom + 16, seconds_text(t), "middle");
  for (auto& [key, lane] : lanes) {
    in += label(4, y + 14, "thread " + std::to_string(key.first) + " " + lane.kind);
    for (const Span& s : merged(std::move(lane.spans), 0.7 / scale))
      in += rect(left + (s.start - first) * scale, y, std::max(0.4, (s.end - s.start) * scale), row - 6, lane.kind, s.count == 1 ? s.title : std::to_string(s.count) + " times, the first: " + s.title);
    y += row;
  }
  return svg(wide, bottom + 24, "timeline of flushes, launches and compiles by thread", in);
}

std::string draw_buckets(const json& record, const std::string& axis) {
  const json& extents = record["histogram"][axis];
  const double least = extents.front()[0], largest = extents.back()[0], span = std::max(1.0, largest - least), height = 130;
  constexpr int bars = 120;
  std::vector<double> sum(bars, 0);
  for (const json& e : extents) sum[size_t(std::min<double>(bars - 1, (e[0].get<double>() - least) / span * bars))] += e[1].get<double>();
  const double most = *std::max_element(sum.begin(), sum.end()), scale = (wide - left - right) / span, bar = (wide - left - right) / bars;
  std::string in;
  for (int i = 0; i < bars; ++i)
    if (sum[size_t(i)] > 0) {
      const double h = std::max(1.0, sum[size_t(i)] / most * (height - 10));
      in += rect(left + i * bar, height - h, bar * 0.9, h, "bar", "extents from " + number_text(least + i * span / bars, 6) + ": met " + number_text(sum[size_t(i)], 9) + " times");
    }
  // The edges, as the flushes met them.
  std::map<int64_t, int64_t> highs;
  for (const json& f : record["flushes"])
    for (const json& a : f["axes"])
      if (a[0] == axis) highs[a[3].get<int64_t>()] = a[2];
  for (const auto& [high, low] : highs)
    for (int64_t edge : {low, high})
      if (double(edge) >= least && double(edge) <= largest && highs.size() < 300) in += line(left + (double(edge) - least) * scale, 4, left + (double(edge) - least) * scale, height, "edge");
  for (double t : ticks(least, largest, 8)) in += label(left + (t - least) * scale, height + 16, number_text(t, 6), "middle");
  in += label(left - 6, 14, number_text(most, 6), "end") + line(left, height, wide - right, height, "grid");
  return svg(wide, height + 24, "extents met, and the edges of the buckets", in);
}

std::vector<KernelSum> kernels_of(const json& record) {
  std::map<std::string, KernelSum> by_name;
  for (const json& l : record["launches"]) {
    KernelSum& k = by_name[l["kernel"]];
    k.name = l["kernel"], k.tier = std::max(k.tier, l["tier"].get<int>());
    ++k.launches, k.bytes += l["bytes"].get<int64_t>(), k.flops += l["flops"].get<int64_t>(), k.seconds += l["seconds"].get<double>();
    if (l.contains("lines"))
      for (const json& at : l["lines"]) k.lines.insert(at.get<std::string>());
  }
  std::vector<KernelSum> list;
  for (auto& [name, k] : by_name) list.push_back(std::move(k));
  std::sort(list.begin(), list.end(), [](const KernelSum& a, const KernelSum& b) { return a.seconds > b.seconds; });
  return list;
}

std::string draw_roofline(const std::vector<KernelSum>& kernels, const MachineLimits& limits) {
  std::vector<const KernelSum*> drawn;
  double most_seconds = 0;
  for (const KernelSum& k : kernels)
    if (k.flops > 0 && k.bytes > 0 && k.seconds > 0) drawn.push_back(&k), most_seconds = std::max(most_seconds, k.seconds);
  if (drawn.empty() || limits.flops <= 0) return "<p>No launch with arithmetic was recorded.</p>\n";
  double x0 = 0.03, x1 = 30, y0 = 1e300;  // operations per byte; GFLOP/s
  for (const KernelSum* k : drawn) {
    const double x = double(k->flops) / double(k->bytes), y = double(k->flops) / k->seconds / 1e9;
    x0 = std::min(x0, x / 1.5), x1 = std::max(x1, x * 1.5), y0 = std::min(y0, y / 2);
  }
  const double y1 = limits.flops / 1e9 * 2, height = 320;
  y0 = std::min(y0, y1 / 100);
  const auto px = [&](double v) { return left + std::log(v / x0) / std::log(x1 / x0) * (wide - left - right); };
  const auto py = [&](double v) { return height - std::log(v / y0) / std::log(y1 / y0) * (height - 10); };
  std::string in;
  for (double p = std::pow(10, std::ceil(std::log10(x0))); p <= x1; p *= 10) in += line(px(p), 8, px(p), height, "grid") + label(px(p), height + 16, number_text(p), "middle");
  for (double p = std::pow(10, std::ceil(std::log10(y0))); p <= y1; p *= 10) in += line(left, py(p), wide - right, py(p), "grid") + label(left - 6, py(p) + 4, number_text(p), "end");
  const auto roof = [&](double bandwidth, const char* name) {
    const double knee = limits.flops / bandwidth, at = std::max(x0, y0 * 1e9 / bandwidth);
    in += line(px(at), py(at * bandwidth / 1e9), px(std::min(knee, x1)), py(std::min(knee, x1) * bandwidth / 1e9), "roof") + label(px(at) + 6, py(at * bandwidth / 1e9) - 8, name);
    if (knee < x1) in += line(px(knee), py(limits.flops / 1e9), px(x1), py(limits.flops / 1e9), "roof");
  };
  roof(limits.memory_bandwidth, "memory");
  if (limits.cache_bandwidth > limits.memory_bandwidth) roof(limits.cache_bandwidth, "second cache");
  for (const KernelSum* k : drawn) {
    const double x = double(k->flops) / double(k->bytes), y = double(k->flops) / k->seconds / 1e9;
    in += "<circle class=\"" + std::string(k->tier ? "launch" : "eager") + "\" cx=\"" + fixed(px(x)) + "\" cy=\"" + fixed(py(std::max(y, y0))) + "\" r=\"" + fixed(3 + 9 * std::sqrt(k->seconds / most_seconds)) + "\"><title>" +
          escaped(k->name + ": " + number_text(y) + " GFLOP/s, " + number_text(double(k->bytes) / k->seconds / 1e9) + " GB/s, " + seconds_text(k->seconds) + " in all") + "</title></circle>";
  }
  in += label(wide - right, height + 32, "operations for each byte", "end") + label(left, height + 32, "GFLOP/s; the larger, the longer in all; hollow: by itself (tier 0)");
  return svg(wide, height + 40, "roofline", in);
}

}  // namespace frit::cli
