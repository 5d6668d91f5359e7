// The generator of random programs: its state, and what every statement is made from. random_program.cpp: the program as a whole,
// inputs, gradients and reads · random_program_ops.cpp: statements that compute, show and write.
#pragma once
#include <algorithm>
#include <cctype>
#include <sstream>
#include "tests/support/random_program.h"

namespace frit::testing {

using Dims = std::vector<int>;
inline std::string constant(Dtype d) {
  const std::string n = dtype_name(d);
  const size_t capitals = n[0] == 'u' || n == "bfloat16" ? 2 : 1;
  std::string s = "k";
  for (size_t i = 0; i < n.size(); ++i) s += i < capitals ? char(std::toupper(n[i])) : n[i];
  return s;
}
template <class Rows> size_t row_named(const Rows& rows, const std::string& name) {
  for (size_t i = 0; i < std::size(rows); ++i)
    if (rows[i].name == name) return i;
  return 0;
}
struct Slot {
  Dims dims;
  bool live = true, view = false, kept = false;
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15 + 1) { p_.seed = seed; }
  TensorProgram program();

 private:
  using Run = std::function<void(Machine&)>;
  int64_t below(int64_t n) { return int64_t(random_() % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class C> auto& pick(const C& c) { return c[size_t(below(int64_t(std::size(c))))]; }

  // ---- dims
  int dim(Dim d) {
    p_.dims.push_back(d);
    m_.enter(0);
    return int(p_.dims.size() - 1);
  }
  int one() { return base_extents; }
  bool is_one(int d) const { return p_.dims[size_t(d)].kind == Dim::constant && p_.dims[size_t(d)].a == 1; }
  int any_dim(bool fixed) {
    if (chance(12)) return one();
    return few_dims_ ? (fixed ? 0 : int(2 * below(2))) : int(below(fixed ? 2 : base_extents));
  }
  Dims any_dims(bool fixed) {
    Dims d;
    for (int64_t r = pick(std::vector<int>{0, 1, 1, 2, 2, 2, 2, 3, 3, 4}); r > 0; --r) d.push_back(any_dim(fixed));
    return d;
  }
  std::string names(const Dims& d) const {
    std::string s = "{";
    for (size_t i = 0; i < d.size(); ++i) s += (i ? ", " : "") + (is_one(d[i]) ? "1" : "e" + std::to_string(d[i]));
    return s + "}";
  }
  bool small_enough(const Dims& d) {
    Machine m;
    m.program = &p_;
    for (int r = 0; r < int(p_.extents.size()); ++r) {
      m.enter(r);
      int64_t n = 1;
      for (int64_t e : m.sizes(d)) n *= e;
      if (n > limit_) return false;
    }
    return true;
  }
  // b's shape broadcasts to a's (or they broadcast together, when both ways are allowed).
  static bool fits(const Generator& g, const Dims& to, const Dims& b) {
    if (b.size() > to.size()) return false;
    for (size_t i = 0; i < b.size(); ++i)
      if (const int x = to[to.size() - b.size() + i]; b[i] != x && !g.is_one(b[i])) return false;
    return true;
  }
  bool meet(const Dims& a, const Dims& b, Dims& out) const {
    out.assign(std::max(a.size(), b.size()), base_extents);
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t r = out.size() - 1 - i;
      const int x = i < a.size() ? a[a.size() - 1 - i] : base_extents, y = i < b.size() ? b[b.size() - 1 - i] : base_extents;
      if (!is_one(x) && !is_one(y) && x != y) return false;
      out[r] = is_one(x) ? y : x;
    }
    return true;
  }

  // ---- slots
  const Tensor& at(int s) const { return m_.slot[size_t(s)]; }
  template <class F> std::vector<int> slots_where(F wanted) {
    std::vector<int> r;
    for (size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].live && m_.slot[i].defined() && wanted(int(i))) r.push_back(int(i));
    return r;
  }
  int any_slot() {
    const std::vector<int> all = slots_where([](int) { return true; });
    if (all.empty()) return -1;
    // Recent ones most often, so that chains grow.
    return chance(60) ? all[all.size() - 1 - size_t(below(std::min<int64_t>(int64_t(all.size()), 4)))] : pick(all);
  }
  template <class F> int slot_where(F wanted) {
    const std::vector<int> all = slots_where(wanted);
    if (all.empty()) return -1;
    return chance(50) ? all[all.size() - 1 - size_t(below(std::min<int64_t>(int64_t(all.size()), 3)))] : pick(all);
  }
  bool floating(int s) const { return is_floating(at(s).dtype()); }
  static std::string name(int s) { return "t" + std::to_string(s); }
  std::string number(Scalar& s) {
    const int k = int(below(14));
    const double values[] = {0.5, 2, -1.3, 0.1, 3, -0.0, 0, NAN, INFINITY};
    std::ostringstream t;
    if (k < 9) {
      const double v = k >= 7 && chance(70) ? 0.7 : values[k];
      s = Scalar(v), t << (std::isnan(v) ? "NAN" : std::isinf(v) ? "INFINITY" : "") ;
      if (std::isfinite(v)) t << v << (v == double(int64_t(v)) ? ".0" : "");
    } else if (k < 13) {
      const int64_t v = below(9) - 3;
      s = Scalar(v), t << v;
    } else {
      s = Scalar(true), t << "true";
    }
    return t.str();
  }

  // ---- statements. Each runs here; what throws is left out, most often.
  bool add(const std::string& text, std::vector<int> in, Run run) {
    Instruction i;
    i.text = text, i.run = std::move(run), i.in = std::move(in);
    i.once = once_;
    if (!once_ && !plain_ && chance(6)) i.when = int(below(2));
    if (p_.gradients && !once_ && no_grad_) i.no_grad = true;
    m_.instruction = int(p_.instructions.size());
    bool threw = false;
    try {
      m_.run(i);
    } catch (const Error&) {
      threw = true;
    }
    if (threw && chance(90)) return false;
    p_.instructions.push_back(std::move(i));
    p_.skipped.push_back(false);
    return true;
  }
  // A statement with a result in a slot of its own.
  int make(const Dims& dims, const std::string& text, std::vector<int> in, std::function<Tensor(Machine&)> f, bool view = false) {
    if (dims.size() > 5 || !small_enough(dims)) return -1;
    const int s = int(slots_.size());
    m_.slot.resize(size_t(s) + 1);
    no_grad_ = p_.gradients && chance(5);
    const bool kept = add("Tensor " + name(s) + " = " + text + ";", std::move(in), [s, f](Machine& m) { m.slot[size_t(s)] = f(m); });
    no_grad_ = false;
    if (!kept) {
      m_.slot.resize(slots_.size());
      return -1;
    }
    slots_.push_back({dims, true, view, once_});
    if (!m_.slot[size_t(s)].defined()) {  // it throws here, perhaps not elsewhere
      slots_.back().live = false;
      return -1;
    }
    check(s, text);
    return s;
  }
  void check(int s, const std::string& text) {  // the dims say what the tensor has
    if (m_.sizes(slots_[size_t(s)].dims) != at(s).sizes().vec()) throw std::logic_error("random program " + std::to_string(p_.seed) + ": wrong dims for " + text);
  }

  void input(bool fixed);
  void unary();
  void binary() { binary_of(any_slot()); }
  void binary_of(int a);
  void ternary();
  void reduce();
  void rows();
  void norm();
  void rename();
  void optimizer();
  void train();
  void product();
  void windows();
  void attention();
  int view(int of = -1);
  void shape();
  void write(int target = -1);
  void write_view();
  void index();
  void write_index();
  void join();
  void source();
  void convert();
  void backward();
  void gradient();
  void update();
  void hook();
  void drop();
  void read();

  std::mt19937_64 random_;
  TensorProgram p_;
  Machine m_;
  std::vector<Shown> shown_;
  std::vector<Slot> slots_;
  int64_t limit_ = 4096;
  int special_ = 0;
  bool once_ = false, plain_ = false, no_grad_ = false;
  bool few_dims_ = false;  // so that different axes often have one extent
  int optimizers_ = 0;
  std::vector<Dtype> types_;
};

}  // namespace frit::testing
