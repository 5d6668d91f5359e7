// Running random programs: data, what is shown of a tensor, the comparison of two runs, and making a failure small.
#include <algorithm>
#include <iterator>
#include <regex>
#include <cmath>
#include <cstring>
#include <memory>
#include <sstream>
#include "jit/tiers.h"
#include "runtime/launch.h"
#include "tests/support/random_program.h"

namespace frit::testing {

namespace {
// Which op is named as the maker of a saved tensor, and whether its later writer is known, depends on where the trace was cut: a flushed one
// is a leaf. The lines are those of this file.
std::string without_maker(const Error& e) {
  std::string text = e.what_without_backtrace();
  for (const char* part : {" \\((called|named) at [^)]*\\)", " \\((made by \\w+|a leaf)\\)", " in place afterwards( by \\w+)?"}) text = std::regex_replace(text, std::regex(part), "");
  return text;
}

template <class T> void put_random(T& to, uint64_t bits, bool special) {
  if constexpr (std::is_same_v<T, bool>) {
    to = bits >> 20 & 1;
  } else if constexpr (std::is_integral_v<T>) {
    to = special ? (bits & 1 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min()) : T(int64_t(bits >> 20 & 31) - (std::is_signed_v<T> ? 12 : 0));
  } else {
    constexpr float odd[] = {NAN, INFINITY, -INFINITY, -0.f, 0.f, 1e-8f, 65504.f, -1e-3f};
    const double v = special ? odd[bits >> 20 & 7] : double(int64_t(bits >> 20 & 255) - 128) / 32 + double(bits >> 40 & 1023) / 8192;
    if constexpr (std::is_same_v<T, double>) to = v;
    else to = T(float(v));
  }
}
uint64_t mix(uint64_t x) {
  x ^= x >> 30, x *= 0xbf58476d1ce4e5b9, x ^= x >> 27, x *= 0x94d049bb133111eb;
  return x ^ x >> 31;
}
template <class F> Tensor filled(IntArrayRef sizes, Dtype d, F put) {
  int64_t n = 1;
  for (int64_t e : sizes) n *= e;
  auto* memory = new std::vector<char>(size_t(std::max<int64_t>(n, 1)) * size_of(d));
  dispatch(d, [&](auto type) {
    using T = decltype(type);
    T* to = reinterpret_cast<T*>(memory->data());
    for (int64_t i = 0; i < n; ++i) put(to[i], i);
  });
  return from_blob(memory->data(), sizes, [memory](void*) { delete memory; }, d);
}

template <class T> T one_nan(T v) {
  if constexpr (std::is_same_v<T, Half>) { if ((v.bits & 0x7fff) > 0x7c00) v.bits = 0x7e00; }
  else if constexpr (std::is_same_v<T, BFloat16>) { if ((v.bits & 0x7fff) > 0x7f80) v.bits = 0x7fc0; }
  else if constexpr (std::is_floating_point_v<T>) { if (v != v) v = std::numeric_limits<T>::quiet_NaN(); }
  return v;
}
}  // namespace

Tensor random_data(uint64_t seed, IntArrayRef sizes, Dtype d, int special) {
  return filled(sizes, d, [&](auto& to, int64_t i) {
    const uint64_t bits = mix(seed * 0x9e3779b97f4a7c15 + uint64_t(i));
    put_random(to, bits, special && mix(bits) % uint64_t(special) == 0);
  });
}
Tensor random_index(uint64_t seed, IntArrayRef sizes, int64_t extent) {
  if (extent == 0) throw ValueError("random_index: there is nothing to index");
  return filled(sizes, kInt64, [&](auto& to, int64_t i) {
    if constexpr (std::is_same_v<std::decay_t<decltype(to)>, int64_t>) to = int64_t(mix(seed * 0x9e3779b97f4a7c15 + uint64_t(i)) % uint64_t(extent));
    else (void)to;
  });
}

// ---- machine --------------------------------------------------------------------------------------------------------------
void Machine::enter(int r) {
  repetition = r;
  dim.clear();
  for (const Dim& d : program->dims) {
    const auto at = [&](int i) { return dim[size_t(i)]; };
    switch (d.kind) {
      case Dim::base: dim.push_back(program->extents[size_t(r)][size_t(d.a)]); break;
      case Dim::constant: dim.push_back(d.a); break;
      case Dim::product: dim.push_back(at(d.a) * at(d.b)); break;
      case Dim::sum: dim.push_back(at(d.a) + at(d.b)); break;
      case Dim::part: {
        const int64_t n = at(d.a), first = part_start(n, d.skip_front), last = std::max(first, n - part_start(n, d.skip_back));
        dim.push_back((last - first + d.step - 1) / d.step);
      }
    }
  }
}
std::vector<int64_t> Machine::sizes(const std::vector<int>& d) const {
  std::vector<int64_t> s;
  for (int i : d) s.push_back(dim[size_t(i)]);
  return s;
}
void Machine::show(const Tensor& t) {
  std::ostringstream what;
  std::string bits;
  const std::vector<int64_t> e = t.sizes().vec(), s = t.strides().vec();
  const int64_t n = t.numel();
  dispatch(t.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* from = t.const_data_ptr<T>();
    std::vector<int64_t> at(e.size());
    bits.reserve(size_t(n) * sizeof(T));
    for (int64_t i = 0; i < n; ++i) {
      int64_t offset = 0;
      for (size_t k = 0; k < e.size(); ++k) offset += at[k] * s[k];
      const T v = one_nan(from[offset]);
      bits.append(reinterpret_cast<const char*>(&v), sizeof v);
      for (size_t k = e.size(); k-- > 0 && ++at[k] == e[k];) at[k] = 0;
    }
  });
  what << dtype_name(t.dtype()) << " [";
  for (size_t i = 0; i < e.size(); ++i) what << (i ? ", " : "") << e[i];
  what << "] strides [";
  for (size_t i = 0; i < e.size(); ++i)
    if (n && e[i] != 1) what << " " << s[i];
  // Version numbers are not shown: a recorded write that nobody can see makes a new value instead, with a count of its own.
  what << " ]";
  for (const std::string& n : names(t)) what << (n.empty() ? "" : " " + n);
  what << (t.requires_grad() ? " grad" : "") << (t.is_leaf() ? " leaf" : "");
  shown->push_back({repetition, instruction, what.str(), std::move(bits)});
}

namespace {
bool in_circle(const Tensor& t) { return t.defined() && t.is_leaf() && t.grad().defined() && t.grad().requires_grad(); }
}  // namespace

void Machine::let_go(int first) {
  for (size_t s = size_t(first); s < slot.size(); ++s)
    if (in_circle(slot[s])) slot[s].set_grad({});
}
void Machine::run(const Instruction& i) {
  std::vector<Tensor> circles;
  std::copy_if(slot.begin(), slot.end(), std::back_inserter(circles), in_circle);
  struct LetGo {
    const Machine& machine;
    std::vector<Tensor>& before;
    ~LetGo() {
      for (Tensor& t : before)
        if (std::none_of(machine.slot.begin(), machine.slot.end(), [&](const Tensor& s) { return s.is_same(t); })) t.set_grad({});
    }
  } afterwards{*this, circles};
  if (!i.no_grad) return i.run(*this);
  NoGradGuard no_grad;
  i.run(*this);
}

std::vector<Shown> run_program(const TensorProgram& p, const Around& around) {
  std::vector<Shown> shown;
  Machine m;
  m.program = &p, m.shown = &shown;
  m.slot.resize(size_t(p.slots));
  for (int r = 0; r < int(p.extents.size()); ++r) {
    m.enter(r);
    around(r, [&] {
      for (size_t i = 0; i < p.instructions.size(); ++i) {
        const Instruction& in = p.instructions[i];
        if (p.skipped[i] || (in.once && r) || (in.when >= 0 && r % 2 != in.when)) continue;
        bool defined = true;
        for (int s : in.in) defined &= m.slot[size_t(s)].defined();
        if (!defined) continue;
        m.instruction = int(i);
        try {
          m.run(in);
        } catch (const Error& e) {
          m.show("error: " + without_maker(e));
        }
      }
    });
    m.let_go(p.kept_slots);
    for (int s = p.kept_slots; s < p.slots; ++s) m.slot[size_t(s)] = Tensor();
  }
  m.instruction = int(p.instructions.size());
  for (int s = 0; s < p.kept_slots; ++s)
    if (m.slot[size_t(s)].defined()) {
      try {
        m.show(m.slot[size_t(s)]);
        if (m.slot[size_t(s)].grad().defined()) m.show(m.slot[size_t(s)].grad());
      } catch (const Error& e) {
        m.show("error: " + without_maker(e));
      }
    }
  return shown;
}

// ---- ways to run -----------------------------------------------------------------------------------------------------------
const char* way_name(Way way) {
  const char* const names[] = {"automatic, compiled in the foreground", "automatic, compiled in the background", "compile(f)"};
  return names[int(way)];
}
std::vector<Shown> run_eager(const TensorProgram& p) {
  const jit::ModeGuard mode(jit::Mode::eager);
  set_num_threads(1);
  manual_seed(p.seed);
  return run_program(p, [](int, const std::function<void()>& body) { body(); });
}
namespace {
std::vector<Shown> run(const TensorProgram& p, Way way) {
  const jit::ModeGuard mode(way == Way::compiled ? jit::Mode::eager : jit::Mode::automatic);
  jit::tier_settings().where = way == Way::background ? jit::CompileWhere::background : jit::CompileWhere::foreground;
  set_num_threads(p.seed % 3 == 0 ? 2 : 1);
  jit::forget_plans();
  if (way == Way::background && p.seed % 4 == 0) jit::forget_kernels();
  manual_seed(p.seed);
  std::vector<Shown> shown;
  if (way == Way::compiled) {
    auto f = compile([](const std::function<void()>& body) { body(); });
    shown = run_program(p, [&](int, const std::function<void()>& body) { f(body); });
  } else {
    shown = run_program(p, [&](int, const std::function<void()>& body) {
      body();
      if (way == Way::background && p.waits) jit::wait_for_compiles();
    });
  }
  synchronize();
  return shown;
}
}  // namespace
std::string compare(const TensorProgram& p, const std::vector<Shown>& wanted, Way way) {
  const size_t failures = jit::compile_failures().size();
  const std::string text = difference(p, wanted, run(p, way));
  if (!text.empty()) return text;
  const std::vector<std::string> failed = jit::compile_failures();
  return failed.size() > failures ? "a compile failed: " + failed.back() : "";
}

// ---- comparison -----------------------------------------------------------------------------------------------------------
namespace {
std::string element(const Shown& s, size_t at) {
  std::string text = "?";
  for (int d = 0; d < dtype_count; ++d)
    if (s.what.starts_with(std::string(dtype_name(Dtype(d))) + " "))
      dispatch(Dtype(d), [&](auto type) {
        using T = decltype(type);
        T v;
        if ((at + 1) * sizeof(T) > s.bits.size()) return;
        std::memcpy(&v, s.bits.data() + at * sizeof(T), sizeof v);
        char buffer[64];
        std::snprintf(buffer, sizeof buffer, "%.17g", double(float(0) + v));
        text = buffer;
      });
  return text;
}
size_t element_size(const Shown& s) {
  for (int d = 0; d < dtype_count; ++d)
    if (s.what.starts_with(std::string(dtype_name(Dtype(d))) + " ")) return size_of(Dtype(d));
  return 1;
}
}  // namespace

std::string difference(const TensorProgram& p, const std::vector<Shown>& wanted, const std::vector<Shown>& got) {
  for (size_t i = 0; i < std::max(wanted.size(), got.size()); ++i) {
    if (i < wanted.size() && i < got.size() && wanted[i] == got[i]) continue;
    const Shown& at = i < wanted.size() ? wanted[i] : got[i];
    std::ostringstream s;
    s << "repetition " << at.repetition << ", statement " << at.instruction << ": "
      << (size_t(at.instruction) < p.instructions.size() ? p.instructions[size_t(at.instruction)].text : "at the end") << "\n";
    if (i >= wanted.size()) return s.str() + "shown, but not by the first: " + got[i].what;
    if (i >= got.size()) return s.str() + "not shown: " + wanted[i].what;
    s << "wanted " << wanted[i].what << "\ngot    " << got[i].what << "\n";
    if (wanted[i].bits != got[i].bits && wanted[i].bits.size() == got[i].bits.size()) {
      const size_t size = element_size(wanted[i]), count = wanted[i].bits.size() / size;
      size_t listed = 0, differ = 0;
      for (size_t k = 0; k < count; ++k) {
        if (!std::memcmp(wanted[i].bits.data() + k * size, got[i].bits.data() + k * size, size)) continue;
        if (++differ && listed++ < 4) s << "  element " << k << ": wanted " << element(wanted[i], k) << ", got " << element(got[i], k) << "\n";
      }
      s << "  " << differ << " of " << count << " elements differ\n";
    }
    return s.str();
  }
  return "";
}

TensorProgram shrink(TensorProgram p, const std::function<bool(const TensorProgram&)>& fails) {
  bool smaller = true;
  for (int round = 0; round < 4 && smaller; ++round) {
    smaller = false;
    for (size_t width = p.instructions.size() / 2; width > 0; width /= 2)
      for (size_t first = 0; first < p.instructions.size(); first += width) {
        TensorProgram q = p;
        bool any = false;
        for (size_t i = first; i < std::min(first + width, p.instructions.size()); ++i) any |= !q.skipped[i], q.skipped[i] = true;
        if (any && fails(q)) p = std::move(q), smaller = true;
      }
    for (size_t r = p.extents.size(); r-- > 1;) {  // fewer repetitions
      TensorProgram q = p;
      q.extents.erase(q.extents.begin() + ptrdiff_t(r));
      if (fails(q)) p = std::move(q), smaller = true;
    }
  }
  return p;
}

std::string TensorProgram::text() const {
  std::ostringstream s;
  s << "// seed " << seed << "; base extents by repetition:";
  for (const auto& e : extents) {
    s << " {";
    for (size_t i = 0; i < e.size(); ++i) s << (i ? ", " : "") << e[i];
    s << "}";
  }
  s << "\n";
  std::string body;
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (skipped[i]) continue;
    const Instruction& in = instructions[i];
    body += "  " + (in.when >= 0 ? "if (repetition % 2 == " + std::to_string(in.when) + ") " : "") + (in.once ? "if (repetition == 0) " : "") +
            (in.no_grad ? "{ NoGradGuard no_grad; " + in.text + " }" : in.text) + "  // " + std::to_string(i) + "\n";
  }
  for (size_t d = 0; d < dims.size(); ++d) {
    const std::string name = "e" + std::to_string(d);
    if (body.find(name) == std::string::npos && dims[d].kind != Dim::base) continue;
    const Dim& x = dims[d];
    const std::string a = "e" + std::to_string(x.a), b = "e" + std::to_string(x.b);
    s << "  const int64_t " << name << " = ";
    switch (x.kind) {
      case Dim::base: s << "base[repetition][" << x.a << "]"; break;
      case Dim::constant: s << x.a; break;
      case Dim::product: s << a << " * " << b; break;
      case Dim::sum: s << a << " + " << b; break;
      case Dim::part:
        s << "(" << a << " - " << a << " * " << x.skip_back << " / 8 - " << a << " * " << x.skip_front << " / 8 + " << x.step - 1 << ") / " << x.step;
    }
    s << ";\n";
  }
  return s.str() + body;
}

}  // namespace frit::testing
