// What the tables of the oracle are written with. Built once against LibTorch and once against Frit; each program runs every case of
// the same tables on the same numbers and writes what came out: name, type, shape and elements, one result a line. test_libtorch
// compares the two files.
#pragma once
#ifdef USE_TORCH
#include <torch/torch.h>
#else
#include <frit/torch.h>
#endif
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

namespace oracle {

using torch::Tensor;
using Type = decltype(torch::kFloat32);
inline const std::vector<std::pair<const char*, torch::Dtype>>& types() {
  static const std::vector<std::pair<const char*, torch::Dtype>> all{
      {"float64", torch::kFloat64}, {"float32", torch::kFloat32}, {"float16", torch::kFloat16}, {"bfloat16", torch::kBFloat16}, {"int64", torch::kInt64},
      {"int32", torch::kInt32},     {"int16", torch::kInt16},     {"int8", torch::kInt8},       {"uint8", torch::kUInt8},       {"bool", torch::kBool}};
  return all;
}
inline const char* name_of(torch::Dtype d) {
  for (const auto& [name, type] : types())
    if (type == d) return name;
  return "?";
}
inline bool is_float(torch::Dtype d) { return d == torch::kFloat64 || d == torch::kFloat32 || d == torch::kFloat16 || d == torch::kBFloat16; }

// ---- the results
extern FILE* out;
// The text of a case is complete, or says that it threw: because it is wrong, or because the library has no such kernel.
struct Record {
  std::string text;
  void add(const Tensor& t) {
    if (!t.defined()) return void(text += "\tundefined");
    text += std::string("\t") + name_of(t.scalar_type()) + " [";
    for (int64_t i = 0; i < t.dim(); ++i) text += (i ? "," : "") + std::to_string(t.size(i));
    text += "]";
    const Tensor values = t.detach().to(torch::kFloat64).contiguous();
    const double* p = values.data_ptr<double>();
    char number[40];
    for (int64_t i = 0; i < values.numel(); ++i) std::snprintf(number, sizeof number, " %a", p[i]), text += number;
  }
  void add(const std::vector<Tensor>& list) {
    for (const Tensor& t : list) add(t);
  }
  template <class... T> void add(const std::tuple<T...>& results) {
    std::apply([&](const auto&... r) { (add(r), ...); }, results);
  }
  void add(bool b) { text += b ? "\ttrue" : "\tfalse"; }
};
// Whether it did not throw.
template <class F> bool record(const std::string& name, F f) {
  Record r;
  bool done = false;
  try {
    r.add(f());
    done = true;
  } catch (const std::exception& e) {
    r.text = std::string(e.what()).find("not implemented for") != std::string::npos ? "\tunsupported" : "\trefused";
  }
  std::fprintf(out, "%s%s\n", name.c_str(), r.text.c_str());
  return done;
}

// ---- the numbers: a function of a seed alone
class Numbers {
 public:
  explicit Numbers(const std::string& name) {
    for (char c : name) state_ = (state_ ^ uint64_t(static_cast<unsigned char>(c))) * 0x100000001b3ull;
  }
  double uniform(double low, double high) {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull, z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return low + (high - low) * (double((z ^ z >> 31) >> 11) * 0x1p-53);
  }
  // Of a type, within its range; whole numbers for whole types.
  double value(torch::Dtype d, double low, double high) {
    if (is_float(d)) return uniform(low, high);
    if (d == torch::kBool) return uniform(0, 1) < 0.5;
    if (d == torch::kUInt8) low = std::max(low, 0.0);
    return std::floor(uniform(std::ceil(low), std::max(std::floor(high), std::ceil(low)) + 1));
  }

 private:
  uint64_t state_ = 0xcbf29ce484222325ull;
};
inline Tensor from_values(const std::vector<double>& v, const std::vector<int64_t>& sizes, torch::Dtype d) {
  return torch::tensor(v, torch::kFloat64).view(sizes).to(d);
}
enum class Layout { contiguous, transposed, strided, expanded, offset };
inline const char* layout_name(Layout l) {
  constexpr const char* names[] = {"contiguous", "transposed", "strided", "expanded", "offset"};
  return names[int(l)];
}
inline constexpr Layout layouts[] = {Layout::contiguous, Layout::transposed, Layout::strided, Layout::expanded, Layout::offset};

inline Tensor make(Numbers& n, std::vector<int64_t> sizes, torch::Dtype d, double low, double high, Layout layout = Layout::contiguous) {
  std::vector<int64_t> stored = sizes;
  if (sizes.empty()) layout = Layout::contiguous;
  if (layout == Layout::transposed) std::reverse(stored.begin(), stored.end());
  if (layout == Layout::strided) stored.back() *= 2;
  if (layout == Layout::expanded) stored.front() = 1;
  if (layout == Layout::offset) stored.front() += 1;
  int64_t count = 1;
  for (int64_t e : stored) count *= e;
  std::vector<double> v(static_cast<size_t>(count));
  for (double& x : v) x = n.value(d, low, high);
  const Tensor t = from_values(v, stored, d);
  switch (layout) {
    case Layout::transposed: {
      std::vector<int64_t> axes;
      for (int64_t i = int64_t(sizes.size()); i-- > 0;) axes.push_back(i);
      return t.permute(axes);
    }
    case Layout::strided: return t.slice(-1, 1, torch::nullopt, 2);
    case Layout::expanded: return t.expand(sizes);
    case Layout::offset: return t.narrow(0, 1, sizes.front());
    default: return t;
  }
}

// The gradients of a weighted sum of f's result, and of their own weighted sum once more. Absent and zero are one: the libraries drop
// terms at different places, and what depends on no input has no second gradient to speak of.
template <class F> void record_gradients(const std::string& name, F f, const std::vector<Tensor>& inputs) {
  const auto weighted = [](const std::vector<Tensor>& list) {
    Tensor total;
    for (const Tensor& t : list) {
      if (!t.defined() || !is_float(t.scalar_type()) || !t.requires_grad()) continue;
      const Tensor w = torch::cos(torch::arange(t.numel(), torch::kFloat64) + 1).view(t.sizes()).to(t.scalar_type());
      const Tensor term = (t * w).sum();
      total = total.defined() ? total + term : term;
    }
    return total;
  };
  std::vector<Tensor> leaves, first, zeros;
  for (const Tensor& t : inputs) leaves.push_back(t.detach().clone().requires_grad_()), zeros.push_back(torch::zeros_like(t));
  const auto gradients = [&](const Tensor& of) {
    std::vector<Tensor> g = of.defined() ? torch::autograd::grad({of}, leaves, {}, true, true, true) : std::vector<Tensor>(leaves.size());
    for (size_t i = 0; i < g.size(); ++i)
      if (!g[i].defined()) g[i] = zeros[i];
    return g;
  };
  if (!record(name + " gradient", [&] { return first = gradients(weighted({f(leaves)})); })) first.clear();
  record(name + " second gradient", [&] { return gradients(weighted(first)); });
}

void pointwise();
void promotion();
void reductions();
void shapes();
void layers();

}  // namespace oracle
