// What drawings are made of: pieces of SVG, as text.
#pragma once
#include <string>
#include <vector>

namespace frit::cli {

std::string fixed(double v);   // two places
std::string svg(double width, double height, const std::string& what, const std::string& inside);
std::string rect(double x, double y, double w, double h, const std::string& kind, const std::string& title);
std::string line(double x1, double y1, double x2, double y2, const std::string& kind);
std::string label(double x, double y, const std::string& text, const std::string& anchor = "start");
// Round numbers between two ends: 1, 2 or 5 times a power of ten apart.
std::vector<double> ticks(double from, double to, int about);
constexpr double wide = 1000, left = 112, right = 12;  // of a drawing, and of its margins

}  // namespace frit::cli
