// A value is found by recursion over its operands and kept under (instruction, the indices it depends on) until the
// instance ends or a store runs. Sums follow the definition literally: lists of lanes and chunks, joined by `pairwise`.
#include "tests/support/cuda_reference.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <unordered_map>

namespace cuda_reference {
namespace {

using namespace frit;
using namespace frit::kernels;

uint64_t load_bits(const void* base, int64_t at, Dtype d) {
  const char* p = static_cast<const char*>(base) + at * int64_t(size_of(d));
  return dispatch(d, [&](auto zero) -> uint64_t {
    using T = decltype(zero);
    T v;
    std::memcpy(&v, p, sizeof v);
    if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>) return std::bit_cast<uint32_t>(float(v));
    else if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(v);
    else if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(v);
    else return uint64_t(int64_t(v));
  });
}

void store_bits(void* base, int64_t at, Dtype d, uint64_t bits) {
  char* p = static_cast<char*>(base) + at * int64_t(size_of(d));
  if (d == Dtype::Float16 || d == Dtype::BFloat16) {
    const float v = std::bit_cast<float>(uint32_t(bits));
    const uint16_t half = d == Dtype::Float16 ? Half(v).bits : BFloat16(v).bits;
    std::memcpy(p, &half, 2);
  } else {
    std::memcpy(p, &bits, size_of(d));
  }
}

class Run {
 public:
  Run(const Program& p, const std::vector<Slot>& arguments) : p_(p), arguments_(arguments), extent_(extents(p, arguments.data())) {}

  void all() {
    uint8_t outer = 0;
    for (size_t a = 0; a < p_.axes.size(); ++a)
      if (p_.axes[a].kind != AxisKind::block) outer |= uint8_t(1u << a);
    over(outer, [&] {
      known_.clear();
      for (size_t n = 0; n < p_.instrs.size(); ++n)
        if (p_.instrs[n].op == Op::store) over(p_.instrs[n].axes, [&] { store(p_.instrs[n]); });
    });
  }

 private:
  void over(uint8_t axes, const std::function<void()>& body, size_t axis = 0) {
    if (axis == p_.axes.size()) return body();
    if (!(axes >> axis & 1)) return over(axes, body, axis + 1);
    for (at_[axis] = 0; at_[axis] < extent_[axis]; ++at_[axis]) over(axes, body, axis + 1);
    at_[axis] = 0;
  }

  void* address(Id pointer) const { return reinterpret_cast<void*>(arguments_[p_.instrs[pointer].imm]); }

  void store(const Instr& i) {
    if (i.in[3] != no_value && !value(i.in[3])) return;
    const int64_t offset = int64_t(value(i.in[1]));
    const uint64_t bits = value(i.in[2]);
    store_bits(address(i.in[0]), offset, p_.instrs[i.in[0]].dtype, bits);
  }

  uint64_t value(Id id) {
    const Instr& i = p_.instrs[id];
    uint64_t key = 0;
    for (size_t a = 0; a < p_.axes.size(); ++a)
      if (i.axes >> a & 1) key = key * uint64_t(extent_[a]) + uint64_t(at_[a]);
    key = key << 16 | id;
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    const uint64_t v = compute(i);
    known_[key] = v;
    return v;
  }

  uint64_t compute(const Instr& i) {
    switch (i.op) {
      case Op::integer:
      case Op::number: return arguments_[i.imm];
      case Op::index: return uint64_t(at_[i.imm]);
      case Op::load:
        if (i.in[2] != no_value && !value(i.in[2])) return i.in[3] == no_value ? 0 : value(i.in[3]);
        return load_bits(address(i.in[0]), int64_t(value(i.in[1])), p_.instrs[i.in[0]].dtype);
      case Op::scalar: {
        uint64_t operands[3];
        Dtype types[3];
        const int arity = scalar::prim_arity(i.prim);
        for (int k = 0; k < arity; ++k) operands[k] = value(i.in[k]), types[k] = p_.instrs[i.in[k]].dtype;
        return scalar_value(i.prim, i.dtype, i.imm, operands, types);
      }
      case Op::reduce: return reduce(i);
      default: throw std::logic_error("no value");
    }
  }

  uint64_t scalar_value(Prim prim, Dtype d, uint64_t imm, const uint64_t* operands, const Dtype* types) {
    const int arity = scalar::prim_arity(prim);
    uint64_t key = uint64_t(prim) << 56 ^ uint64_t(d) << 48 ^ imm * 0x9e3779b97f4a7c15u;
    if (arity) key ^= uint64_t(types[0]) << 40;
    scalar::Function& f = functions_[key];
    if (f.nodes.empty()) {
      scalar::Node node{prim, d, {}, imm};
      for (int k = 0; k < arity; ++k) {
        node.in[k] = uint16_t(k);
        f.nodes.push_back({Prim::input, types[k], {}, uint64_t(k)});
      }
      f.nodes.push_back(node);
      f.results = {uint16_t(arity)};
    }
    uint64_t result;
    scalar::evaluate(f, operands, nullptr, &result, scratch_);
    return result;
  }

  uint64_t joined(Prim prim, Dtype d, uint64_t a, uint64_t b, uint64_t c = 0) {
    const uint64_t operands[3] = {a, b, c};
    const Dtype types[3] = {d, d, d};
    return scalar_value(prim, d, 0, operands, types);
  }

  static double as_number(uint64_t bits, Dtype d) {
    return d == Dtype::Float32 ? double(std::bit_cast<float>(uint32_t(bits))) : std::bit_cast<double>(bits);
  }

  // Whether a comes before b as the extreme value; a NaN before all else.
  static bool beats(uint64_t a, uint64_t b, Dtype d, bool largest) {
    if (!is_floating(d)) return largest ? int64_t(a) > int64_t(b) : int64_t(a) < int64_t(b);
    const double x = as_number(a, d), y = as_number(b, d);
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && !std::isnan(y);
    return largest ? x > y : x < y;
  }

  uint64_t reduce(const Instr& r) {
    const int64_t kept = at_[r.imm], count = extent_[r.imm];
    std::vector<int64_t> places;
    for (int64_t k = 0; k < count; ++k) {
      at_[r.imm] = k;
      if (r.in[1] == no_value || value(r.in[1])) places.push_back(k);
    }
    const uint64_t result = reduce_places(r, places, count);
    at_[r.imm] = kept;
    return result;
  }

  uint64_t element(const Instr& r, int64_t place) {
    at_[r.imm] = place;
    return value(r.in[0]);
  }

  uint64_t reduce_places(const Instr& r, const std::vector<int64_t>& places, int64_t count) {
    const Dtype d = p_.instrs[r.in[0]].dtype;
    switch (r.kind) {
      case Reduce::any:
      case Reduce::all: {
        bool result = r.kind == Reduce::all;
        for (int64_t k : places) result = r.kind == Reduce::all ? result && element(r, k) : result || element(r, k);
        return result;
      }
      case Reduce::argmax:
      case Reduce::argmin: {
        int64_t best = places.empty() ? 0 : places[0];
        for (int64_t k : places)
          if (beats(element(r, k), element(r, best), d, r.kind == Reduce::argmax)) best = k;
        return uint64_t(best);
      }
      case Reduce::max:
      case Reduce::min: return extreme(r, places, d);
      default: return r.order == Order::pairwise ? by_position(r, places, count, d) : by_lanes(r, places, count, d);
    }
  }

  uint64_t extreme(const Instr& r, const std::vector<int64_t>& places, Dtype d) {
    const bool largest = r.kind == Reduce::max;
    if (places.empty()) return empty_extreme(d, largest);
    uint64_t best = element(r, places[0]);
    for (int64_t k : places) {
      const uint64_t v = element(r, k);
      const bool zeros = is_floating(d) && as_number(v, d) == 0 && as_number(best, d) == 0;
      if (zeros ? std::signbit(as_number(v, d)) != largest : beats(v, best, d, largest)) best = v;
    }
    return best;
  }
  static uint64_t empty_extreme(Dtype d, bool largest) {
    if (d == Dtype::Float32) return largest ? 0xff800000u : 0x7f800000u;
    if (d == Dtype::Float64) return largest ? 0xfff0000000000000u : 0x7ff0000000000000u;
    if (d == Dtype::UInt8) return largest ? 0 : 255;
    const int64_t least = INT64_MIN >> (64 - 8 * size_of(d));
    return uint64_t(largest ? least : ~least);
  }

  uint64_t identity(const Instr& r, Dtype d) const {
    if (r.kind == Reduce::sum) return 0;
    return d == Dtype::Float32 ? std::bit_cast<uint32_t>(1.0f) : d == Dtype::Float64 ? std::bit_cast<uint64_t>(1.0) : 1;
  }
  uint64_t join(const Instr& r, Dtype d, uint64_t a, uint64_t b) { return joined(r.kind == Reduce::sum ? Prim::add : Prim::mul, d, a, b); }

  // Splits at the largest power of two below the count.
  uint64_t pairwise(const Instr& r, Dtype d, const uint64_t* v, size_t count) {
    if (count == 1) return v[0];
    size_t left = 1;
    while (2 * left < count) left *= 2;
    return join(r, d, pairwise(r, d, v, left), pairwise(r, d, v + left, count - left));
  }

  uint64_t by_position(const Instr& r, const std::vector<int64_t>& places, int64_t count, Dtype d) {
    if (count == 0) return identity(r, d);
    std::vector<uint64_t> v(size_t(count), identity(r, d));
    for (int64_t k : places) v[size_t(k)] = element(r, k);
    return pairwise(r, d, v.data(), v.size());
  }

  uint64_t by_lanes(const Instr& r, const std::vector<int64_t>& places, int64_t count, Dtype d) {
    std::vector<uint64_t> chunks(size_t(std::max<int64_t>(1, (count + 65535) / 65536)));
    std::vector<std::array<uint64_t, 256>> lanes(chunks.size());
    for (auto& l : lanes) l.fill(identity(r, d));
    for (int64_t k : places) {
      uint64_t& lane = lanes[size_t(k / 65536)][size_t(k % 256)];
      if (r.fused) {
        at_[r.imm] = k;
        const Instr& product = p_.instrs[r.in[0]];
        lane = joined(Prim::fma, d, value(product.in[0]), value(product.in[1]), lane);
      } else {
        lane = join(r, d, lane, element(r, k));
      }
    }
    for (size_t c = 0; c < chunks.size(); ++c) chunks[c] = pairwise(r, d, lanes[c].data(), 256);
    return pairwise(r, d, chunks.data(), chunks.size());
  }

  const Program& p_;
  const std::vector<Slot>& arguments_;
  std::vector<int64_t> extent_;
  std::array<int64_t, 8> at_{};
  std::unordered_map<uint64_t, uint64_t> known_;  // by index and instruction
  std::unordered_map<uint64_t, scalar::Function> functions_;
  std::vector<uint64_t> scratch_;
};

}  // namespace

void run(const Program& program, const std::vector<Slot>& arguments) { Run(program, arguments).all(); }

}  // namespace cuda_reference
