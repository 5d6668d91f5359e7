// Text of tensors in PyTorch's C++ format: a common width and scale for all elements, matrices in blocks of columns that
// fit 80 characters, higher ranks as a list of matrices.
#include "frit/print.h"
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include "frontend/detail.h"

namespace frit {

namespace {
struct Format {
  double scale = 1;
  int width = 0;
  std::ios_base::fmtflags flags{};
  int precision = 4;
};

Format choose_format(const std::vector<double>& v) {
  Format f;
  if (v.empty()) return f;
  bool whole = true;
  double low = INFINITY, high = 0;
  for (double x : v) {
    if (!std::isfinite(x)) continue;
    whole = whole && x == std::ceil(x);
    low = std::min(low, std::abs(x)), high = std::max(high, std::abs(x));
  }
  const auto digits = [](double x) { return x == 0 || !std::isfinite(x) ? 1 : int(std::floor(std::log10(x))) + 1; };
  const int most = digits(high), least = digits(low);
  if (whole) {
    if (most > 9) f.width = 11, f.flags = std::ios_base::scientific;
    else f.width = most + 1, f.flags = std::ios_base::fmtflags(0), f.precision = 6;
  } else if (most - least > 4) {
    f.width = 11 + (std::abs(most) > 99 || std::abs(least) > 99);
    f.flags = std::ios_base::scientific;
  } else {
    f.flags = std::ios_base::fixed;
    if (most > 5 || most < 0) f.width = 7, f.scale = std::pow(10.0, most - 1);
    else f.width = most == 0 ? 7 : most + 6;
  }
  return f;
}
void use_format(std::ostream& out, const Format& f) {
  out.setf(f.flags, std::ios_base::floatfield);
  out.precision(f.precision);
}
void print_scale(std::ostream& out, double scale) {
  std::ostringstream s;
  s << scale << " *";
  out << s.str() << '\n';
}

void print_matrix(std::ostream& out, const double* v, int64_t rows, int64_t columns, const Format& f, int indent) {
  const int64_t per_line = std::max<int64_t>(1, (80 - indent) / (f.width + 1));
  for (int64_t first = 0; first < columns; first += per_line) {
    const int64_t last = std::min(columns, first + per_line);
    if (per_line < columns) {
      if (first) out << '\n';
      out << "Columns " << first + 1 << " to " << last << ' ';
    }
    if (f.scale != 1) {
      print_scale(out, f.scale);
      out << std::string(size_t(indent), ' ');
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = first; c < last; ++c) {
        out << std::setw(f.width) << v[r * columns + c] / f.scale;
        if (c + 1 == last) {
          out << '\n';
          if (r + 1 != rows) out << std::string(size_t(indent), ' ');
        } else {
          out << ' ';
        }
      }
  }
}

const char* type_name(Dtype d) {
  constexpr const char* names[] = {"Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double"};
  return names[size_t(d)];
}
}  // namespace

std::string Tensor::str() const {
  std::ostringstream out;
  if (!defined()) return "[ Tensor (undefined) ]";
  const Tensor t = detach().contiguous().to(kFloat64);
  const double* p = t.const_data_ptr<double>();
  const std::vector<double> v(p, p + t.numel());
  const IntArrayRef e = sizes();
  if (e.size() == 0) {
    out << v[0] << '\n';
  } else if (numel() > 0) {
    const Format f = choose_format(v);
    use_format(out, f);
    if (e.size() == 1) {
      if (f.scale != 1) print_scale(out, f.scale);
      for (double x : v) out << std::setw(f.width) << x / f.scale << '\n';
    } else if (e.size() == 2) {
      print_matrix(out, v.data(), e[0], e[1], f, 0);
    } else {
      const int64_t rows = e[e.size() - 2], columns = e[e.size() - 1];
      std::vector<int64_t> at(e.size() - 2, 0);
      for (int64_t k = 0, n = numel() / (rows * columns); k < n; ++k) {
        if (k) out << '\n';
        out << '(';
        for (int64_t i : at) out << i + 1 << ',';
        out << ".,.) = \n ";
        print_matrix(out, v.data() + k * rows * columns, rows, columns, f, 1);
        for (size_t i = at.size(); i-- > 0 && ++at[i] == e[i];) at[i] = 0;
      }
    }
  }
  out << "[ CPU" << type_name(dtype()) << "Type{";
  for (size_t i = 0; i < e.size(); ++i) out << (i ? "," : "") << e[i];
  out << "} ]";
  return out.str();
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << t.str(); }
std::ostream& operator<<(std::ostream& out, IntArrayRef sizes) {
  out << '[';
  for (size_t i = 0; i < sizes.size(); ++i) out << (i ? ", " : "") << sizes[i];
  return out << ']';
}
std::ostream& operator<<(std::ostream& out, Dtype d) { return out << type_name(d); }
std::ostream& operator<<(std::ostream& out, const Device& d) { return out << d.str(); }

}  // namespace frit
