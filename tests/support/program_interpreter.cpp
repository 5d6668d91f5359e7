// See program_interpreter.h. A value is a dense array over the block axes that it varies along, row-major; Interpreter
// holds one for each instruction. Start with interpret().
#include "tests/support/program_interpreter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

namespace frit::test {
namespace {

using namespace kernels;
using Words = std::vector<uint64_t>;

template <class T> T value_of(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(uint32_t(bits));
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
  else return T(bits);
}
template <class T> uint64_t bits_of(T v) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(v);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(v);
  else return uint64_t(int64_t(v));
}

uint64_t read_element(Dtype memory, const char* p) {
  return dispatch(memory, [&](auto zero) -> uint64_t {
    using T = decltype(zero);
    T v;
    std::memcpy(&v, p, sizeof v);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) return bits_of(float(v));
    else return bits_of(v);
  });
}

void write_element(Dtype memory, char* p, uint64_t bits) {
  dispatch(memory, [&](auto zero) {
    using T = decltype(zero);
    T v;
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) v = T(value_of<float>(bits));
    else v = value_of<T>(bits);
    std::memcpy(p, &v, sizeof v);
  });
}

template <class T> T add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a + b;
  else return T(uint64_t(a) + uint64_t(b));
}
template <class T> T multiply(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a * b;
  else return T(uint64_t(a) * uint64_t(b));
}
template <class T> T extreme(T a, T b, bool max) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) == max ? b : a;
  }
  return max ? (a > b ? a : b) : (a < b ? a : b);
}

struct Element {
  uint64_t value, left, right;  // left and right: the factors of a fused sum
  int64_t index;
  bool takes_part;
};

template <class T> struct Tree {
  const Instr& r;
  const std::vector<Element>& elements;

  T identity() const {
    using Limits = std::numeric_limits<T>;
    switch (r.kind) {
      case Reduce::prod: return T(1);
      case Reduce::max: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
      case Reduce::min: return Limits::has_infinity ? Limits::infinity() : Limits::max();
      default: return T(0);
    }
  }
  T combine(T a, T b) const {
    switch (r.kind) {
      case Reduce::sum: return add(a, b);
      case Reduce::prod: return multiply(a, b);
      default: return extreme(a, b, r.kind == Reduce::max);
    }
  }
  T chunk(size_t begin, size_t end) const {
    T l[8];
    std::fill(l, l + 8, identity());
    for (size_t i = begin; i < end; ++i) {
      const Element& e = elements[i];
      T& lane = l[i % 8];
      if (!e.takes_part) continue;
      if constexpr (std::is_floating_point_v<T>) {
        if (r.fused) {
          lane = std::fma(value_of<T>(e.left), value_of<T>(e.right), lane);
          continue;
        }
      }
      lane = combine(lane, value_of<T>(e.value));
    }
    return combine(combine(combine(l[0], l[4]), combine(l[2], l[6])), combine(combine(l[1], l[5]), combine(l[3], l[7])));
  }
  // Units [begin, end): chunks of 1024 elements, or elements.
  T pairwise(size_t begin, size_t end) const {
    if (end - begin > 1) {
      const size_t left = std::bit_floor(end - begin - 1);
      return combine(pairwise(begin, begin + left), pairwise(begin + left, end));
    }
    if (r.order == Order::lanes) return chunk(begin * 1024, std::min(elements.size(), (begin + 1) * 1024));
    return elements[begin].takes_part ? value_of<T>(elements[begin].value) : identity();
  }
  T result() const {
    const size_t units = r.order == Order::lanes ? (elements.size() + 1023) / 1024 : elements.size();
    return units ? pairwise(0, units) : identity();
  }
};

template <class T> int64_t argument(const std::vector<Element>& elements, bool max) {
  int64_t best = -1;
  T value{};
  for (const Element& e : elements) {
    if (!e.takes_part) continue;
    const T v = value_of<T>(e.value);
    if (best >= 0) {
      if (std::isnan(double(value))) break;
      if (!std::isnan(double(v)) && !(max ? v > value : v < value)) continue;
    }
    best = e.index;
    value = v;
  }
  return std::max<int64_t>(best, 0);
}

class Interpreter {
 public:
  Interpreter(const Program& p, const std::vector<Slot>& args) : p_(p), args_(args), extents_(extents(p, args.data())), nest_(loop_nest(p)) {}

  void run() {
    int64_t instances = 1;
    for (size_t a = 0; a < p_.axes.size(); ++a)
      if (!inner(a)) instances *= extents_[a];
    for (int64_t n = 0; n < instances; ++n) {
      instance_.assign(p_.axes.size(), 0);
      int64_t rest = n;
      for (size_t a = p_.axes.size(); a-- > 0;) {
        if (inner(a)) continue;
        instance_[a] = rest % extents_[a];
        rest /= extents_[a];
      }
      values_.assign(p_.instrs.size(), {});
      run_turn(0);
    }
  }

 private:
  bool inner(size_t axis) const { return p_.axes[axis].kind == AxisKind::block || p_.axes[axis].kind == AxisKind::loop; }

  // What runs inside of exactly these loops, in order; a loop among them where its first instruction stands.
  void run_turn(uint8_t open) {
    extents_ = extents(p_, args_.data(), instance_.data());
    uint8_t done = 0;
    for (size_t v = 0; v < p_.instrs.size(); ++v) {
      const uint8_t loops = loops_of(p_, nest_, p_.instrs[v]), more = uint8_t(loops & ~open);
      if (loops == open) {
        if (p_.instrs[v].op == Op::last) values_[v] = values_[p_.instrs[v].in[0]];
        else run_instr(Id(v));
      } else if (more && (loops & open) == open && !(done >> std::countr_zero(more) & 1)) {
        const size_t loop = size_t(std::countr_zero(more));
        done = uint8_t(done | 1u << loop);
        before_loop(Id(v), open);
        run_loop(loop, uint8_t(open | 1u << loop));
      }
    }
  }
  // What a loop's instructions need of later ones that do not vary along it.
  void before_loop(Id first, uint8_t open) {
    for (size_t v = first; v < p_.instrs.size(); ++v) {
      const Instr& i = p_.instrs[v];
      if (i.op != Op::last && i.op != Op::store && loops_of(p_, nest_, i) == open && ready(i)) run_instr(Id(v));
    }
  }
  bool ready(const Instr& i) const {
    for (Id in : i.in)
      if (in != no_value && p_.instrs[in].op != Op::pointer && values_[in].empty() && count(shape(p_.instrs[in].axes))) return false;
    return true;
  }
  void run_loop(size_t loop, uint8_t open) {
    for (size_t v = 0; v < p_.instrs.size(); ++v)
      if (p_.instrs[v].op == Op::carry && (p_.instrs[v].imm & 0xff) == loop) values_[v] = spread(p_.instrs[v].in[0], p_.instrs[v].axes);
    const int64_t turns = extents_[loop];
    for (int64_t turn = 0; turn < turns; ++turn) {
      instance_[loop] = turn;
      run_turn(open);
      std::vector<std::pair<Id, Words>> after;
      for (const Instr& i : p_.instrs)
        if (i.op == Op::next && (p_.instrs[i.in[0]].imm & 0xff) == loop) after.emplace_back(i.in[0], spread(i.in[1], p_.instrs[i.in[0]].axes));
      for (auto& [carry, words] : after) values_[carry] = std::move(words);
    }
    instance_[loop] = 0;
    extents_ = extents(p_, args_.data(), instance_.data());
  }

  std::vector<int64_t> shape(uint8_t axes) const {
    std::vector<int64_t> s(p_.axes.size(), 1);
    for (size_t a = 0; a < s.size(); ++a)
      if (axes >> a & 1 && p_.axes[a].kind == AxisKind::block) s[a] = extents_[a];
    return s;
  }
  static size_t count(const std::vector<int64_t>& shape) {
    size_t n = 1;
    for (int64_t e : shape) n *= size_t(e);
    return n;
  }

  // The operand for every point of the given axes.
  Words spread(Id v, uint8_t axes) const {
    const std::vector<int64_t> to = shape(axes), from = shape(p_.instrs[v].axes);
    std::vector<int64_t> point(to.size(), 0);
    Words out(count(to));
    for (uint64_t& word : out) {
      size_t at = 0;
      for (size_t a = 0; a < to.size(); ++a) at = at * size_t(from[a]) + size_t(from[a] == to[a] && (p_.instrs[v].axes >> a & 1) ? point[a] : 0);
      word = values_[v][at];
      for (size_t a = to.size(); a-- > 0;) {
        if (++point[a] < to[a]) break;
        point[a] = 0;
      }
    }
    return out;
  }

  char* address(Id pointer, uint64_t offset) const {
    const size_t number = p_.instrs[pointer].imm;
    return reinterpret_cast<char*>(args_[number]) + int64_t(offset) * int64_t(size_of(p_.params[number].dtype));
  }

  void run_instr(Id v) {
    const Instr& i = p_.instrs[v];
    if (i.op == Op::carry || i.op == Op::next) return;
    Words& out = values_[v];
    out.clear();
    switch (i.op) {
      case Op::pointer: return;
      case Op::integer: out = {args_[i.imm]}; return;
      case Op::number: out = {bits_of_argument(i)}; return;
      case Op::index:
        if (p_.axes[i.imm].kind == AxisKind::block)
          for (int64_t k = 0; k < extents_[i.imm]; ++k) out.push_back(uint64_t(k));
        else out = {uint64_t(instance_[i.imm])};
        return;
      case Op::scalar: return run_scalar(v);
      case Op::load: {
        const Words offset = spread(i.in[1], i.axes);
        const Words mask = i.in[2] == no_value ? Words(offset.size(), 1) : spread(i.in[2], i.axes);
        const Words other = i.in[3] == no_value ? Words(offset.size(), 0) : spread(i.in[3], i.axes);
        const Dtype memory = p_.params[p_.instrs[i.in[0]].imm].dtype;
        for (size_t k = 0; k < offset.size(); ++k) out.push_back(mask[k] ? read_element(memory, address(i.in[0], offset[k])) : other[k]);
        return;
      }
      case Op::store: {
        const Words offset = spread(i.in[1], i.axes), value = spread(i.in[2], i.axes);
        const Words mask = i.in[3] == no_value ? Words(offset.size(), 1) : spread(i.in[3], i.axes);
        const Dtype memory = p_.params[p_.instrs[i.in[0]].imm].dtype;
        for (size_t k = 0; k < offset.size(); ++k)
          if (mask[k]) write_element(memory, address(i.in[0], offset[k]), value[k]);
        return;
      }
      case Op::reduce: return run_reduce(v);
      case Op::dot: return run_dot(v);
      case Op::carry:
      case Op::next:
      case Op::last: return;
    }
  }

  void run_dot(Id v) {
    const Instr& i = p_.instrs[v];
    const uint8_t along = uint8_t(i.axes | 1u << i.imm);
    const Words a = spread(i.in[0], along), b = spread(i.in[1], along);
    Words to;
    if (i.in[2] != no_value) to = spread(i.in[2], i.axes);
    const std::vector<int64_t> from = shape(along);
    size_t inner = 1, outer = 1;
    const size_t length = size_t(from[i.imm]);
    for (size_t x = 0; x < from.size(); ++x) (x < i.imm ? outer : inner) *= x == i.imm ? 1 : size_t(from[x]);
    for (size_t o = 0; o < outer; ++o)
      for (size_t n = 0; n < inner; ++n)
        values_[v].push_back(i.dtype == Dtype::Float64 ? contract<double>(a, b, to, o, n, length, inner) : contract<float>(a, b, to, o, n, length, inner));
  }
  template <class T> static uint64_t contract(const Words& a, const Words& b, const Words& to, size_t o, size_t n, size_t length, size_t inner) {
    bool any = !to.empty();
    T sum = any ? value_of<T>(to[o * inner + n]) : T(0);
    for (size_t first = 0; first < length; first += 256) {
      T part = 0;
      for (size_t k = first; k < std::min(length, first + 256); ++k) part = std::fma(value_of<T>(a[(o * length + k) * inner + n]), value_of<T>(b[(o * length + k) * inner + n]), part);
      sum = any ? sum + part : part;
      any = true;
    }
    return bits_of(sum);
  }

  uint64_t bits_of_argument(const Instr& i) const {
    return dispatch(i.dtype, [&](auto zero) -> uint64_t {
      using T = decltype(zero);
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) return 0;
      else if constexpr (std::is_same_v<T, bool>) return (args_[i.imm] & 0xff) != 0;
      else return bits_of(value_of<T>(args_[i.imm]));
    });
  }

  void run_scalar(Id v) {
    const Instr& i = p_.instrs[v];
    scalar::Function f;
    scalar::Node node{i.prim, i.dtype, {}, i.imm};
    std::vector<Words> operands;
    for (Id in : i.in) {
      if (in == no_value) break;
      node.in[operands.size()] = uint16_t(f.nodes.size());
      f.nodes.push_back({scalar::Prim::input, p_.instrs[in].dtype, {}, operands.size()});
      operands.push_back(spread(in, i.axes));
    }
    f.results = {uint16_t(f.nodes.size())};
    f.nodes.push_back(node);
    std::vector<const uint64_t*> inputs;
    for (const Words& w : operands) inputs.push_back(w.data());
    values_[v].resize(count(shape(i.axes)));
    uint64_t* results[] = {values_[v].data()};
    std::vector<uint64_t> scratch;
    scalar::evaluate_block(f, inputs.data(), nullptr, results, values_[v].size(), scratch);
  }

  void run_reduce(Id v) {
    const Instr& i = p_.instrs[v];
    const uint8_t along = uint8_t(i.axes | 1u << i.imm);
    const Words value = spread(i.in[0], along);
    const Words mask = i.in[1] == no_value ? Words(value.size(), 1) : spread(i.in[1], along);
    Words left, right;
    if (i.fused) left = spread(p_.instrs[i.in[0]].in[0], along), right = spread(p_.instrs[i.in[0]].in[1], along);
    const std::vector<int64_t> from = shape(along);
    size_t inner = 1, outer = 1;
    const size_t length = size_t(from[i.imm]);
    for (size_t a = 0; a < from.size(); ++a) (a < i.imm ? outer : inner) *= a == i.imm ? 1 : size_t(from[a]);
    for (size_t o = 0; o < outer; ++o) {
      for (size_t n = 0; n < inner; ++n) {
        std::vector<Element> elements;
        for (size_t k = 0; k < length; ++k) {
          const size_t at = (o * length + k) * inner + n;
          elements.push_back({value[at], i.fused ? left[at] : 0, i.fused ? right[at] : 0, int64_t(k), mask[at] != 0});
        }
        values_[v].push_back(reduce(i, elements));
      }
    }
  }

  uint64_t reduce(const Instr& i, const std::vector<Element>& elements) const {
    if (i.kind == Reduce::any || i.kind == Reduce::all) {
      bool result = i.kind == Reduce::all;
      for (const Element& e : elements)
        if (e.takes_part && (e.value != 0) != result && (i.kind == Reduce::any) == (e.value != 0)) result = e.value != 0;
      return result;
    }
    return dispatch(p_.instrs[i.in[0]].dtype, [&](auto zero) -> uint64_t {
      using T = decltype(zero);
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, bool>) {
        throw std::logic_error("reduce of a type without arithmetic");
      } else {
        if (i.kind == Reduce::argmax || i.kind == Reduce::argmin) return uint64_t(argument<T>(elements, i.kind == Reduce::argmax));
        return bits_of(Tree<T>{i, elements}.result());
      }
    });
  }

  const Program& p_;
  const std::vector<Slot>& args_;
  std::vector<int64_t> extents_, instance_;
  std::vector<uint8_t> nest_;
  std::vector<Words> values_;
};

}  // namespace

void interpret(const Program& program, const std::vector<Slot>& args) { Interpreter(program, args).run(); }

bool same_value(Dtype memory, const void* a, const void* b) {
  if (!std::memcmp(a, b, size_of(memory))) return true;
  return is_floating(memory) && dispatch(memory, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      return false;
    } else {
      T x, y;
      std::memcpy(&x, a, sizeof x);
      std::memcpy(&y, b, sizeof y);
      return std::isnan(double(x)) && std::isnan(double(y));
    }
  });
}

}  // namespace frit::test
