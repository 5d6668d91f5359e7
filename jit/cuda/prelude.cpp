// The device functions that generated kernels call: half formats, integer division, conversions, and the pieces of a
// reduction. Each is a snippet with the name by which a kernel mentions it; prelude() takes those that a kernel needs.
// Half conversions are inline PTX; FRIT_EMULATED is defined where a kernel is compiled for the host, by tests.
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "jit/cuda/expression.h"

namespace frit::jit::cuda {
namespace {

struct Snippet {
  const char* name;  // its mention in other text brings the snippet in
  const char* text;
};

// A snippet uses only those above it.
constexpr Snippet snippets[] = {
    {"half_to_float", R"(
__device__ __forceinline__ float half_to_float(unsigned short bits) {
#ifdef FRIT_EMULATED
  return emulated_half_to_float(bits);
#else
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#endif
}
)"},
    {"float_to_half", R"(
__device__ __forceinline__ unsigned short float_to_half(float value) {
#ifdef FRIT_EMULATED
  return emulated_float_to_half(value);
#else
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#endif
}
)"},
    {"bfloat16_to_float", R"(
__device__ __forceinline__ float bfloat16_to_float(unsigned short bits) { return __int_as_float((int)((unsigned)bits << 16)); }
)"},
    {"float_to_bfloat16", R"(
__device__ __forceinline__ unsigned short float_to_bfloat16(float value) {
  const unsigned bits = (unsigned)__float_as_int(value);
  if (value != value) return (unsigned short)(bits >> 16 | 0x40u);
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
)"},
    {"to_int32", R"(
__device__ __forceinline__ int to_int32(float v) { return v >= -2147483648.0f && v < 2147483648.0f ? (int)v : -2147483647 - 1; }
__device__ __forceinline__ int to_int32(double v) { return v > -2147483649.0 && v < 2147483648.0 ? (int)v : -2147483647 - 1; }
)"},
    {"to_int64", R"(
__device__ __forceinline__ long long to_int64(double v) {
  return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? (long long)v : -9223372036854775807ll - 1;
}
)"},
    {"quotient", R"(
template <class T> __device__ __forceinline__ T quotient(T a, T b) {
  if (b == T(0)) return T(0);
  if (T(-1) < T(0) && b == T(-1)) return T(0ull - (unsigned long long)a);
  return T(a / b);
}
)"},
    {"remainder_of", R"(
template <class T> __device__ __forceinline__ T remainder_of(T a, T b) {
  return b == T(0) || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}
)"},
    {"take_index", R"(
// The index along an axis of extent n: item mod n, and item becomes item / n.
__device__ __forceinline__ long long take_index(long long& item, long long n) {
  if (((item | n) >> 32) == 0) {
    const unsigned a = (unsigned)item, b = (unsigned)n, q = a / b;
    item = q;
    return a - q * b;
  }
  const long long q = item / n, r = item - q * n;
  item = q;
  return r;
}
)"},
    {"Sum", R"(
__device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }
__device__ __forceinline__ float sum_of(float a, float b) { return a + b; }
__device__ __forceinline__ double sum_of(double a, double b) { return a + b; }
template <class T> __device__ __forceinline__ T sum_of(T a, T b) { return T((unsigned long long)a + (unsigned long long)b); }
template <class T> struct Sum {
  T v;
  __device__ __forceinline__ void take(T x) { v = sum_of(v, x); }
  __device__ __forceinline__ void take_product(T a, T b) { v = fused(a, b, v); }
  __device__ __forceinline__ Sum joined(Sum o) const { return {sum_of(v, o.v)}; }
  __device__ __forceinline__ T result() const { return v; }
};
)"},
    {"Product", R"(
__device__ __forceinline__ float product_of(float a, float b) { return a * b; }
__device__ __forceinline__ double product_of(double a, double b) { return a * b; }
template <class T> __device__ __forceinline__ T product_of(T a, T b) { return T((unsigned long long)a * (unsigned long long)b); }
template <class T> struct Product {
  T v;
  __device__ __forceinline__ void take(T x) { v = product_of(v, x); }
  __device__ __forceinline__ Product joined(Product o) const { return {product_of(v, o.v)}; }
  __device__ __forceinline__ T result() const { return v; }
};
)"},
    {"Maximum", R"(
// NaN wins, and +0 over -0.
__device__ __forceinline__ float both_bits(float a, float b) { return __int_as_float(__float_as_int(a) & __float_as_int(b)); }
__device__ __forceinline__ double both_bits(double a, double b) {
  return __longlong_as_double(__double_as_longlong(a) & __double_as_longlong(b));
}
template <class T> __device__ __forceinline__ T both_bits(T a, T b) { return T(a & b); }
template <class T> struct Maximum {
  T v;
  __device__ __forceinline__ void take(T x) {
    v = x != x ? x : v != v ? v : x > v ? x : x < v ? v : both_bits(x, v);
  }
  __device__ __forceinline__ Maximum joined(Maximum o) const {
    o.take(v);
    return o;
  }
  __device__ __forceinline__ T result() const { return v; }
};
)"},
    {"Minimum", R"(
// NaN wins, and -0 over +0.
__device__ __forceinline__ float either_bits(float a, float b) { return __int_as_float(__float_as_int(a) | __float_as_int(b)); }
__device__ __forceinline__ double either_bits(double a, double b) {
  return __longlong_as_double(__double_as_longlong(a) | __double_as_longlong(b));
}
template <class T> __device__ __forceinline__ T either_bits(T a, T b) { return T(a | b); }
template <class T> struct Minimum {
  T v;
  __device__ __forceinline__ void take(T x) {
    v = x != x ? x : v != v ? v : x < v ? x : x > v ? v : either_bits(x, v);
  }
  __device__ __forceinline__ Minimum joined(Minimum o) const {
    o.take(v);
    return o;
  }
  __device__ __forceinline__ T result() const { return v; }
};
)"},
    {"Best", R"(
// The index of the extreme value: the first NaN, else the lowest index. place < 0: nothing was taken.
template <class T, bool largest> struct Best {
  T v;
  long long place;
  __device__ __forceinline__ void take(T x, long long at) {
    const bool x_nan = x != x, v_nan = v != v;
    const bool beats = x_nan != v_nan ? x_nan : !x_nan && x != v ? (largest ? x > v : x < v) : at < place;
    if (place < 0 || beats) v = x, place = at;
  }
  __device__ __forceinline__ Best joined(Best o) const {
    if (place >= 0) o.take(v, place);
    return o;
  }
  __device__ __forceinline__ long long result() const { return place < 0 ? 0 : place; }
};
)"},
    {"Any", R"(
struct Any {
  bool v;
  __device__ __forceinline__ void take(bool x) { v = v || x; }
  __device__ __forceinline__ Any joined(Any o) const { return {v || o.v}; }
  __device__ __forceinline__ bool result() const { return v; }
};
)"},
    {"All", R"(
struct All {
  bool v;
  __device__ __forceinline__ void take(bool x) { v = v && x; }
  __device__ __forceinline__ All joined(All o) const { return {v && o.v}; }
  __device__ __forceinline__ bool result() const { return v; }
};
)"},
    {"Stack", R"(
// Joins what is pushed pairwise by position, as a binary counter carries.
template <class A, int levels> struct Stack {
  A level[levels];
  long long count;
  __device__ __forceinline__ void push(A a) {
    int k = 0;
    for (; count >> k & 1; ++k) a = level[k].joined(a);
    level[k] = a;
    ++count;
  }
  __device__ __forceinline__ A total() const {
    int k = 0;
    while (!(count >> k & 1)) ++k;
    A a = level[k];
    for (++k; count >> k; ++k)
      if (count >> k & 1) a = level[k].joined(a);
    return a;
  }
};
)"},
    {"Lanes", R"(
// The same for the lanes of one thread, in registers.
template <class A, int levels> struct Lanes {
  A level[levels];
  unsigned count;
  __device__ __forceinline__ void push(A a) {
    bool carries = true;
#pragma unroll
    for (int k = 0; k < levels; ++k) {
      if (carries && (count >> k & 1)) {
        a = level[k].joined(a);
      } else if (carries) {
        level[k] = a;
        carries = false;
      }
    }
    ++count;
  }
  __device__ __forceinline__ A total() const {
    A a = level[0];
    bool found = false;
#pragma unroll
    for (int k = 0; k < levels; ++k) {
      if (!(count >> k & 1)) continue;
      a = found ? level[k].joined(a) : level[k];
      found = true;
    }
    return a;
  }
};
)"},
    {"join_groups", R"(
// Joins the eight groups' results of each column; all threads of a column get the total.
template <class A> __device__ __forceinline__ A join_groups(void* scratch, int group, int column, int columns, bool writes, A a) {
  A* s = (A*)scratch + column;
  if (writes) s[group * columns] = a;
  __syncthreads();
  const A low = s[0].joined(s[columns]).joined(s[2 * columns].joined(s[3 * columns]));
  const A high = s[4 * columns].joined(s[5 * columns]).joined(s[6 * columns].joined(s[7 * columns]));
  __syncthreads();
  return low.joined(high);
}
)"},
    {"join_row", R"(
// Joins the 256 lanes of a thread block; every thread gets the total.
template <class A> __device__ __forceinline__ A join_row(void* scratch, A a) {
  for (int distance = 1; distance < 32; distance *= 2) {
    union Words {
      A a;
      unsigned word[(sizeof(A) + 3) / 4];
      __device__ Words() {}
    } other;
    other.a = a;
    for (unsigned k = 0; k < (sizeof(A) + 3) / 4; ++k) other.word[k] = __shfl_xor_sync(0xffffffffu, other.word[k], distance);
    a = a.joined(other.a);
  }
  return join_groups(scratch, (int)threadIdx.x / 32, 0, 1, threadIdx.x % 32 == 0, a);
}
)"},
};

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

bool mentions(const std::string& text, const std::string& name) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

std::string table_text(const scalar::Table& t) {
  std::string out = "\n__device__ const " + value_type(t.dtype) + " table_" + t.name + "[" + std::to_string(t.size) + "] = {";
  for (uint32_t k = 0; k < t.size; ++k) {
    uint64_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(t.data) + k * size_of(t.dtype), size_of(t.dtype));
    const std::string text = literal(bits, t.dtype);
    if (text[0] == '_') throw std::logic_error(std::string("scalar table ") + t.name + " holds a value without a literal");
    out += (k ? (k % 8 ? ", " : ",\n  ") : "\n  ") + text;
  }
  return out + "};\n";
}

}  // namespace

std::string prelude(const std::string& body) {
  std::string out;
  for (const scalar::Table& t : scalar::tables())
    if (mentions(body, std::string("table_") + t.name)) out += table_text(t);
  std::string functions;
  for (size_t k = std::size(snippets); k-- > 0;)
    if (mentions(body, snippets[k].name) || mentions(functions, snippets[k].name)) functions = snippets[k].text + functions;
  return out + functions;
}

}  // namespace frit::jit::cuda
