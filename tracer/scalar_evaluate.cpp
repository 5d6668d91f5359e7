// Evaluates scalar functions: the oracle that both code generators are compared with. A node is computed for a whole
// block of elements before the next one, so that the dispatch is paid once a block. The scratch holds one row of `count`
// values a node; a value is the bit pattern in the node's own type, extended to 64 bits (wrap and value below convert).
// Start with evaluate_block; the meaning of each primitive is in apply_float and apply_integer.
#include <bit>
#include <cmath>
#include <type_traits>

#include "runtime/error.h"
#include "tracer/scalar.h"

namespace frit::scalar {
namespace {

template <class T> T value(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(uint32_t(bits));
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
  else if constexpr (std::is_same_v<T, bool>) return bits != 0;
  else return T(bits);
}
template <class T> uint64_t wrap(T v) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(v);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(v);
  else return uint64_t(int64_t(v));
}

// One node's operands and result, for a block.
struct Rows {
  uint64_t* out;
  const uint64_t *a, *b, *c;
  size_t count;
};

template <class R, class T, class F> void map1(const Rows& r, F f) {
  for (size_t i = 0; i < r.count; ++i) r.out[i] = wrap<R>(f(value<T>(r.a[i])));
}
template <class R, class T, class F> void map2(const Rows& r, F f) {
  for (size_t i = 0; i < r.count; ++i) r.out[i] = wrap<R>(f(value<T>(r.a[i]), value<T>(r.b[i])));
}

template <class T> bool apply_any(Prim p, const Rows& r) {
  switch (p) {
    case Prim::min: map2<T, T>(r, [](T a, T b) { return a < b ? a : b; }); return true;
    case Prim::max: map2<T, T>(r, [](T a, T b) { return a > b ? a : b; }); return true;
    case Prim::eq: map2<bool, T>(r, [](T a, T b) { return a == b; }); return true;
    case Prim::ne: map2<bool, T>(r, [](T a, T b) { return a != b; }); return true;
    case Prim::lt: map2<bool, T>(r, [](T a, T b) { return a < b; }); return true;
    case Prim::le: map2<bool, T>(r, [](T a, T b) { return a <= b; }); return true;
    default: return false;
  }
}

template <class T> bool apply_float(Prim p, const Rows& r) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr Bits sign = Bits(1) << (8 * sizeof(T) - 1);
  switch (p) {
    case Prim::add: map2<T, T>(r, [](T a, T b) { return a + b; }); return true;
    case Prim::sub: map2<T, T>(r, [](T a, T b) { return a - b; }); return true;
    case Prim::mul: map2<T, T>(r, [](T a, T b) { return a * b; }); return true;
    case Prim::div: map2<T, T>(r, [](T a, T b) { return a / b; }); return true;
    case Prim::fma:
      for (size_t i = 0; i < r.count; ++i) r.out[i] = wrap<T>(std::fma(value<T>(r.a[i]), value<T>(r.b[i]), value<T>(r.c[i])));
      return true;
    case Prim::neg: for (size_t i = 0; i < r.count; ++i) r.out[i] = r.a[i] ^ sign; return true;
    case Prim::abs: for (size_t i = 0; i < r.count; ++i) r.out[i] = r.a[i] & Bits(~sign); return true;
    case Prim::sqrt: map1<T, T>(r, [](T a) { return std::sqrt(a); }); return true;
    case Prim::floor: map1<T, T>(r, [](T a) { return std::floor(a); }); return true;
    case Prim::ceil: map1<T, T>(r, [](T a) { return std::ceil(a); }); return true;
    case Prim::trunc: map1<T, T>(r, [](T a) { return std::trunc(a); }); return true;
    case Prim::rint: map1<T, T>(r, [](T a) { return std::nearbyint(a); }); return true;
    case Prim::round_float16:
    case Prim::round_bfloat16:
      if constexpr (sizeof(T) == 8) return false;
      else map1<T, T>(r, [p](T a) { return p == Prim::round_float16 ? float(Half(a)) : float(BFloat16(a)); });
      return true;
    default: return apply_any<T>(p, r);
  }
}

template <class T> bool apply_integer(Prim p, const Rows& r) {
  using Unsigned = std::make_unsigned_t<T>;
  // Shifts happen at 32 or 64 bits; the result wraps to T.
  using Wide = std::conditional_t<(sizeof(T) < 8), int32_t, int64_t>;
  using UnsignedWide = std::make_unsigned_t<Wide>;
  constexpr UnsignedWide count_mask = 8 * sizeof(Wide) - 1;
  constexpr uint64_t ones = ~uint64_t(0);
  switch (p) {
    case Prim::add: map2<T, T>(r, [](T a, T b) { return T(uint64_t(a) + uint64_t(b)); }); return true;
    case Prim::sub: map2<T, T>(r, [](T a, T b) { return T(uint64_t(a) - uint64_t(b)); }); return true;
    case Prim::mul: map2<T, T>(r, [](T a, T b) { return T(uint64_t(a) * uint64_t(b)); }); return true;
    case Prim::div:
      map2<T, T>(r, [](T a, T b) { return b == 0 ? T(0) : T(-1) < T(0) && b == T(-1) ? T(uint64_t(0) - uint64_t(a)) : T(a / b); });
      return true;
    case Prim::rem:
      map2<T, T>(r, [](T a, T b) { return b == 0 || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b); });
      return true;
    case Prim::neg: map1<T, T>(r, [](T a) { return T(uint64_t(0) - uint64_t(a)); }); return true;
    case Prim::abs: map1<T, T>(r, [](T a) { return a < 0 ? T(uint64_t(0) - uint64_t(a)) : a; }); return true;
    case Prim::floor: case Prim::ceil: case Prim::trunc: case Prim::rint: map1<T, T>(r, [](T a) { return a; }); return true;
    case Prim::bit_and: map2<T, T>(r, [](T a, T b) { return T(a & b); }); return true;
    case Prim::bit_or: map2<T, T>(r, [](T a, T b) { return T(a | b); }); return true;
    case Prim::bit_xor: map2<T, T>(r, [](T a, T b) { return T(a ^ b); }); return true;
    case Prim::bit_not: map1<T, T>(r, [](T a) { return T(uint64_t(a) ^ ones); }); return true;
    case Prim::shl: map2<T, T>(r, [](T a, T b) { return T(UnsignedWide(a) << (UnsignedWide(b) & count_mask)); }); return true;
    case Prim::shr: map2<T, T>(r, [](T a, T b) { return T(Wide(a) >> (UnsignedWide(b) & count_mask)); }); return true;
    case Prim::ushr:
      map2<T, T>(r, [](T a, T b) { return T(UnsignedWide(Unsigned(a)) >> (UnsignedWide(b) & count_mask)); });
      return true;
    case Prim::mulhi_u32:
      map2<T, T>(r, [](T a, T b) { return T(int32_t(uint64_t(uint32_t(a)) * uint32_t(b) >> 32)); });
      return true;
    default: return apply_any<T>(p, r);
  }
}

bool apply_bool(Prim p, const Rows& r) {
  switch (p) {
    case Prim::bit_and: map2<bool, bool>(r, [](bool a, bool b) { return a && b; }); return true;
    case Prim::bit_or: map2<bool, bool>(r, [](bool a, bool b) { return a || b; }); return true;
    case Prim::bit_xor: map2<bool, bool>(r, [](bool a, bool b) { return a != b; }); return true;
    case Prim::bit_not: map1<bool, bool>(r, [](bool a) { return !a; }); return true;
    default: return apply_any<bool>(p, r);
  }
}

template <class To, class From> To convert_value(From v) {
  if constexpr (std::is_same_v<To, bool>) return v != From(0);
  else if constexpr (std::is_floating_point_v<To> || !std::is_floating_point_v<From>) return To(v);
  else {
    using Wide = std::conditional_t<(sizeof(To) < 8), int32_t, int64_t>;
    constexpr double limit = sizeof(Wide) == 4 ? 0x1p31 : 0x1p63;
    const double t = std::trunc(double(v));
    return To(t >= -limit && t < limit ? Wide(t) : Wide(uint64_t(1) << (8 * sizeof(Wide) - 1)));
  }
}

// Calls f with a value of the C++ type of d.
template <class F> bool with_type(Dtype d, F f) {
  switch (d) {
    case Dtype::Bool: f(bool{}); return true;
    case Dtype::UInt8: f(uint8_t{}); return true;
    case Dtype::Int8: f(int8_t{}); return true;
    case Dtype::Int16: f(int16_t{}); return true;
    case Dtype::Int32: f(int32_t{}); return true;
    case Dtype::Int64: f(int64_t{}); return true;
    case Dtype::Float32: f(float{}); return true;
    case Dtype::Float64: f(double{}); return true;
    default: return false;
  }
}

bool convert_rows(Dtype to, Dtype from, const Rows& r) {
  return with_type(to, [&](auto t) {
    with_type(from, [&](auto s) { map1<decltype(t), decltype(s)>(r, [](auto v) { return convert_value<decltype(t)>(v); }); });
  });
}

bool table_rows(uint64_t number, const Rows& r) {
  const Table& t = tables().at(number);
  return with_type(t.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < r.count; ++i) {
      if (r.a[i] >= t.size) throw InternalError(std::string("scalar table ") + t.name + ": index out of range");
      r.out[i] = wrap<T>(static_cast<const T*>(t.data)[r.a[i]]);
    }
  });
}

bool apply_typed(Prim p, Dtype operands, const Rows& r) {
  switch (operands) {
    case Dtype::Bool: return apply_bool(p, r);
    case Dtype::UInt8: return apply_integer<uint8_t>(p, r);
    case Dtype::Int8: return apply_integer<int8_t>(p, r);
    case Dtype::Int16: return apply_integer<int16_t>(p, r);
    case Dtype::Int32: return apply_integer<int32_t>(p, r);
    case Dtype::Int64: return apply_integer<int64_t>(p, r);
    case Dtype::Float32: return apply_float<float>(p, r);
    case Dtype::Float64: return apply_float<double>(p, r);
    default: return false;
  }
}

bool apply_node(const Function& f, const Node& n, const Rows& r) {
  switch (n.prim) {
    case Prim::constant:
      for (size_t i = 0; i < r.count; ++i) r.out[i] = n.imm;
      return true;
    case Prim::select:
      for (size_t i = 0; i < r.count; ++i) r.out[i] = r.a[i] ? r.b[i] : r.c[i];
      return true;
    case Prim::bitcast:
      if (n.dtype == Dtype::Int32) map1<int32_t, int32_t>(r, [](int32_t a) { return a; });
      else if (n.dtype == Dtype::Float32) for (size_t i = 0; i < r.count; ++i) r.out[i] = uint32_t(r.a[i]);
      else for (size_t i = 0; i < r.count; ++i) r.out[i] = r.a[i];
      return true;
    case Prim::convert: return convert_rows(n.dtype, f.nodes[n.in[0]].dtype, r);
    case Prim::table: return table_rows(n.imm, r);
    default: return apply_typed(n.prim, f.nodes[n.in[0]].dtype, r);
  }
}

}  // namespace

void evaluate_block(const Function& f, const uint64_t* const* inputs, const uint64_t* params, uint64_t* const* results, size_t count,
                    std::vector<uint64_t>& scratch) {
  scratch.resize(f.nodes.size() * count);
  const auto row = [&](size_t id) { return scratch.data() + id * count; };
  for (size_t id = 0; id < f.nodes.size(); ++id) {
    const Node& n = f.nodes[id];
    uint64_t* out = row(id);
    if (n.prim == Prim::input) {
      for (size_t i = 0; i < count; ++i) out[i] = inputs[n.imm][i];
    } else if (n.prim == Prim::param) {
      for (size_t i = 0; i < count; ++i) out[i] = params[n.imm];
    } else if (!apply_node(f, n, {out, row(n.in[0]), row(n.in[1]), row(n.in[2]), count})) {
      throw InternalError(std::string("scalar evaluate: ") + prim_name(n.prim) + " of " + dtype_name(n.dtype) + " in\n" + f.text());
    }
  }
  for (size_t k = 0; k < f.results.size(); ++k) {
    const uint64_t* from = row(f.results[k]);
    for (size_t i = 0; i < count; ++i) results[k][i] = from[i];
  }
}

void evaluate(const Function& f, const uint64_t* inputs, const uint64_t* params, uint64_t* results, std::vector<uint64_t>& scratch) {
  constexpr size_t most = 16;
  if (f.results.size() > most) throw InternalError("scalar evaluate: too many results");
  const uint64_t* in[most] = {};
  uint64_t* out[most] = {};
  for (const Node& n : f.nodes) {
    if (n.prim == Prim::input && n.imm >= most) throw InternalError("scalar evaluate: too many inputs");
    if (n.prim == Prim::input) in[n.imm] = inputs + n.imm;
  }
  for (size_t k = 0; k < f.results.size(); ++k) out[k] = results + k;
  evaluate_block(f, in, params, out, 1, scratch);
}

}  // namespace frit::scalar
