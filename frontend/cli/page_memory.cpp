// The drawings of memory: who held it over time, and what a plan's steps were to need. Start at draw_memory.
#include <algorithm>
#include "frontend/cli/console.h"
#include "frontend/cli/drawing.h"
#include "frontend/cli/page.h"

namespace frit::cli {

using nlohmann::json;

namespace {
constexpr double height = 200;
double y_of(double bytes, double most) { return 8 + (height - 8) * (1 - bytes / most); }
std::string bytes_axis(double most) {
  std::string in;
  for (int i = 0; i <= 4; ++i) in += line(left, y_of(most * i / 4, most), wide - right, y_of(most * i / 4, most), "grid") + label(left - 6, y_of(most * i / 4, most) + 4, bytes_text(most * i / 4), "end");
  return in;
}
}  // namespace

std::string draw_memory(const json& record) {
  const json none = json::object();
  const json& held = record["memory"].contains("held") ? record["memory"]["held"] : none;
  if (!held.contains("points") || held["points"].size() < 2) return "<p>No tensor was recorded.</p>\n";
  const json& points = held["points"];
  const double first = points.front()[0], last = std::max(points.back()[0].get<double>(), first + 1e-6);
  const size_t uses = held["uses"].size();
  double most = 1;
  for (const json& p : points) {
    double sum = 0;
    for (const json& b : p[1]) sum += b.get<double>();
    most = std::max(most, sum);
  }
  const auto x = [&](double t) { return left + (t - first) / (last - first) * (wide - left - right); };
  std::string in = bytes_axis(most);
  for (double t : ticks(0, last - first, 8)) in += label(x(first + t), height + 18, seconds_text(t), "middle");
  // Layers from below: what was there before, then the longest-lived. A value holds until the next.
  std::vector<size_t> order{0};
  for (size_t u = uses; u-- > 1;) order.push_back(u);
  std::vector<double> floor(points.size(), 0);
  for (size_t u : order) {
    std::string up, down;
    double area = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      const double low = floor[i], high = low + points[i][1][u].get<double>(), from = x(points[i][0]), to = x(i + 1 < points.size() ? points[i + 1][0].get<double>() : last);
      up += (i ? "L" : "M") + fixed(from) + " " + fixed(y_of(high, most)) + "H" + fixed(to);
      down = "L" + fixed(to) + " " + fixed(y_of(low, most)) + "H" + fixed(from) + down;
      area += high - low;
      floor[i] = high;
    }
    if (area > 0) in += "<path class=\"m" + std::to_string(u) + "\" d=\"" + up + down + "Z\"><title>" + escaped(held["uses"][u].get<std::string>()) + ", at most " + escaped(bytes_text(held["highest"][held["uses"][u].get<std::string>()].get<double>())) + "</title></path>";
  }
  const double peak = x(std::clamp(held["peak_time"].get<double>(), first, last));
  in += line(peak, 4, peak, height, "edge");
  std::string legend = "<p class=\"legend\">";
  for (size_t u : order)
    legend += "<span><i style=\"background:var(--m" + std::to_string(u) + ")\"></i> " + escaped(held["uses"][u].get<std::string>()) + "</span> ";
  return svg(wide, height + 26, "bytes held by tensors over time, by what they serve; the line: the most", in) + legend + "</p>\n";
}

std::string draw_plan_memory(const json& plan) {
  if (!plan.contains("memory") || plan["memory"]["during"].empty()) return "";
  const json& during = plan["memory"]["during"];
  const double most = std::max(1.0, plan["memory"]["peak"].get<double>()), step = (wide - left - right) / double(during.size());
  std::string in = bytes_axis(most);
  const json& steps = plan["steps"];
  for (size_t i = 0; i < during.size(); ++i) {
    const double bytes = during[i], h = height - y_of(bytes, most);
    if (bytes <= 0) continue;
    std::string names;
    for (const json& op : steps[i]["ops"]) names += " " + op[0].get<std::string>();
    in += rect(left + double(i) * step, height - h, std::max(0.3, step * 0.9), h, bytes >= most ? "bar most" : "bar", "step " + std::to_string(i + 1) + ":" + names + ": " + bytes_text(bytes));
  }
  return svg(wide, height + 6, "bytes that the plan needs above what it reads, step by step, as predicted", in);
}

}  // namespace frit::cli
