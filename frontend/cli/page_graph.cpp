// A plan as a graph: its steps in layers, each below what it reads. Start at draw_plan; plans_dot writes the same for dot.
#include <algorithm>
#include <cmath>
#include <map>
#include "frontend/cli/page.h"

namespace frit::cli {

using nlohmann::json;

namespace {
struct Box {
  std::string title, text, kind;
  std::vector<size_t> reads;
  int layer = 0;
  double x = 0, y = 0, width = 0, wish = 0;
};
std::string shortened(const std::string& s, size_t most) { return s.size() <= most ? s : s.substr(0, most - 3) + "..."; }

std::vector<Box> boxes_of(const json& plan) {
  std::vector<Box> boxes;
  std::map<uint32_t, size_t> made_by;
  for (const json& s : plan["sources"]) {
    made_by[s[0].get<uint32_t>()] = boxes.size();
    boxes.push_back({"from outside: " + s[1].get<std::string>(), s[1], "source", {}});
  }
  for (const json& s : plan["steps"]) {
    Box b;
    std::string names;
    for (const json& op : s["ops"]) {
      names += (names.empty() ? "" : " ") + op[0].get<std::string>();
      b.title += op[0].get<std::string>() + " " + op[1].get<std::string>() + (op[2] == "" ? "" : "  " + op[2].get<std::string>()) + "\n";
    }
    b.kind = s["kind"] == "op" ? "single" : "fused";
    b.text = (b.kind == "fused" ? s["kind"].get<std::string>() + ": " : "") + names;
    if (b.kind == "fused") b.title = s["kind"].get<std::string>() + " kernel of " + std::to_string(s["ops"].size()) + " ops\n" + b.title;
    for (const json& in : s["inputs"])
      if (const auto at = made_by.find(in.get<uint32_t>()); at != made_by.end()) b.reads.push_back(at->second);
    for (const json& out : s["outputs"]) made_by[out.get<uint32_t>()] = boxes.size();
    boxes.push_back(std::move(b));
  }
  return boxes;
}
}  // namespace

std::string draw_plan(const json& plan) {
  std::vector<Box> boxes = boxes_of(plan);
  std::map<int, std::vector<size_t>> layers;
  for (size_t i = 0; i < boxes.size(); ++i) {
    for (size_t r : boxes[i].reads) boxes[i].layer = std::max(boxes[i].layer, boxes[r].layer + 1);
  }
  // What comes from outside stands just above its first reader.
  std::vector<int> first(boxes.size(), 1 << 20);
  for (const Box& b : boxes)
    for (size_t r : b.reads) first[r] = std::min(first[r], b.layer);
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].kind == "source" && first[i] < 1 << 20) boxes[i].layer = first[i] - 1;
    boxes[i].width = 14 + 7.0 * double(shortened(boxes[i].text, 44).size());
    layers[boxes[i].layer].push_back(i);
  }
  double widest = 0;
  int row = 0;
  for (auto& [layer, members] : layers) {
    for (size_t i : members) {
      Box& b = boxes[i];
      b.wish = 0;
      for (size_t r : b.reads) b.wish += (boxes[r].x + boxes[r].width / 2) / double(b.reads.size());
    }
    std::stable_sort(members.begin(), members.end(), [&](size_t a, size_t b) { return boxes[a].wish < boxes[b].wish; });
    double x = 8;
    for (size_t i : members) {
      boxes[i].x = x, boxes[i].y = 8 + 56.0 * row;
      x += boxes[i].width + 12;
    }
    widest = std::max(widest, x);
    ++row;
  }
  for (const auto& [layer, members] : layers) {  // each row in the middle
    const double end = boxes[members.back()].x + boxes[members.back()].width + 20;
    for (size_t i : members) boxes[i].x += (widest - end) / 2;
  }
  std::string in;
  char s[256];
  for (const Box& b : boxes)
    for (size_t r : b.reads) {
      const Box& from = boxes[r];
      const double x1 = from.x + from.width / 2, y1 = from.y + 30, x2 = b.x + b.width / 2, y2 = b.y, middle = (y1 + y2) / 2;
      std::snprintf(s, sizeof s, "<path class=\"flow\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>", x1, y1, x1, middle, x2, middle, x2, y2);
      in += s;
    }
  for (const Box& b : boxes) {
    std::snprintf(s, sizeof s, "<g class=\"%s\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"30\" rx=\"5\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", b.kind.c_str(), b.x, b.y, b.width, b.x + b.width / 2, b.y + 19);
    in += s + escaped(shortened(b.text, 44)) + "</text><title>" + escaped(b.title) + "</title></g>";
  }
  const int width = int(std::ceil(std::max(widest, 60.0))), height = 56 * row + 8;
  return "<div class=\"scroll\"><svg class=\"graph\" style=\"width:" + std::to_string(width) + "px\" viewBox=\"0 0 " + std::to_string(width) + " " + std::to_string(height) + "\" role=\"img\" aria-label=\"plan\">" + in + "</svg></div>\n";
}

std::string plans_dot(const json& record) {
  const auto quoted = [](const std::string& text) {
    std::string s = "\"";
    for (char c : text) s += c == '"' || c == '\\' ? std::string("\\") + c : c == '\n' ? "\\n" : std::string(1, c);
    return s + "\"";
  };
  std::string s = "digraph frit {\n  node [shape=box, fontname=\"sans-serif\"];\n";
  int number = 0;
  for (const json& plan : record["plans"]) {
    const std::string prefix = "p" + std::to_string(number++) + "_";
    s += "  subgraph cluster_" + std::to_string(number) + " {\n    label=" + quoted("plan " + std::to_string(number)) + ";\n";
    const std::vector<Box> boxes = boxes_of(plan);
    for (size_t i = 0; i < boxes.size(); ++i)
      s += "    " + prefix + std::to_string(i) + " [label=" + quoted(boxes[i].text) + (boxes[i].kind == "source" ? ", style=dashed" : boxes[i].kind == "fused" ? ", style=filled, fillcolor=lightgrey" : "") + "];\n";
    for (size_t i = 0; i < boxes.size(); ++i)
      for (size_t r : boxes[i].reads) s += "    " + prefix + std::to_string(r) + " -> " + prefix + std::to_string(i) + ";\n";
    s += "  }\n";
  }
  return s + "}\n";
}

}  // namespace frit::cli
