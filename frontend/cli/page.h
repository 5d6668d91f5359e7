// The page of a run: one HTML file that needs nothing else, with drawings as inline SVG. And a plan as a graph for dot.
#pragma once
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>
#include "frontend/cli/machine.h"

namespace frit::cli {

std::string escaped(const std::string& text);  // for HTML and SVG

// ---- drawings (page_drawings.cpp, page_graph.cpp): each an <svg> element, or a sentence where there is nothing to draw
std::string draw_timeline(const nlohmann::json& record);
std::string draw_memory(const nlohmann::json& record);
std::string draw_plan_memory(const nlohmann::json& plan);             // as predicted, by step
std::string draw_buckets(const nlohmann::json& record, const std::string& axis);
struct KernelSum {
  std::string name;
  std::set<std::string> lines;                 // of the calls that it computes
  int64_t launches = 0, bytes = 0, flops = 0;  // of all launches
  double seconds = 0;
  int tier = 0;
};
std::vector<KernelSum> kernels_of(const nlohmann::json& record);  // the longest in total first
std::string draw_roofline(const std::vector<KernelSum>& kernels, const MachineLimits& limits);
std::string draw_plan(const nlohmann::json& plan);

std::string plans_dot(const nlohmann::json& record);              // a digraph, a cluster for each plan
std::string report_page(const nlohmann::json& record, const std::string& title, const MachineLimits& limits);
std::string explain_page(const nlohmann::json& record, const std::string& title);

}  // namespace frit::cli
