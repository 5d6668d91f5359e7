// See drawing.h.
#include "frontend/cli/drawing.h"
#include <cmath>
#include "frontend/cli/page.h"

namespace frit::cli {

std::string fixed(double v) {
  char s[32];
  std::snprintf(s, sizeof s, "%.2f", v);
  return s;
}
std::string svg(double width, double height, const std::string& what, const std::string& inside) {
  return "<svg viewBox=\"0 0 " + fixed(width) + " " + fixed(height) + "\" role=\"img\" aria-label=\"" + escaped(what) + "\">" + inside + "</svg>\n";
}
std::string rect(double x, double y, double w, double h, const std::string& kind, const std::string& title) {
  return "<rect class=\"" + kind + "\" x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\" width=\"" + fixed(w) + "\" height=\"" + fixed(h) + "\"><title>" + escaped(title) + "</title></rect>";
}
std::string line(double x1, double y1, double x2, double y2, const std::string& kind) {
  return "<line class=\"" + kind + "\" x1=\"" + fixed(x1) + "\" y1=\"" + fixed(y1) + "\" x2=\"" + fixed(x2) + "\" y2=\"" + fixed(y2) + "\"/>";
}
std::string label(double x, double y, const std::string& text, const std::string& anchor) {
  return "<text x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\" text-anchor=\"" + anchor + "\">" + escaped(text) + "</text>";
}
std::vector<double> ticks(double from, double to, int about) {
  std::vector<double> t;
  if (!(to > from)) return {from};
  const double rough = (to - from) / about, power = std::pow(10, std::floor(std::log10(rough))), step = power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : rough / power < 7.5 ? 5 : 10);
  for (double v = std::ceil(from / step) * step; v <= to + step * 1e-9; v += step) t.push_back(v);
  return t;
}

}  // namespace frit::cli
