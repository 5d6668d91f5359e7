// A counted handle to a tensor, and the ops on it: each emits one node (or a few) into the thread's trace. The public
// Tensor derives from it; gradient rules are written with it.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>
#include "tracer/node.h"

namespace frit::tracer {
struct Cell;
void retain_cell(Cell* c);
void release_cell(Cell* c) noexcept;
}  // namespace frit::tracer

// A namespace of its own, so that argument-dependent lookup on the public Tensor does not find the ops below.
namespace frit::handle {
using tracer::Cell;
using tracer::release_cell;
using tracer::retain_cell;
using tracer::Category;

// A number as the user wrote it: its category takes part in promotion, its value never in a key.
class Number {
 public:
  Number() : Number(int64_t(0)) {}
  Number(double v) : category_(Category::floating) { bits_.d = v; }
  Number(float v) : Number(double(v)) {}
  Number(int v) : Number(int64_t(v)) {}
  Number(unsigned v) : Number(int64_t(v)) {}
  Number(long v) : category_(Category::integer) { bits_.i = v; }
  Number(long long v) : Number(long(v)) {}
  Number(unsigned long v) : Number(long(v)) {}
  Number(unsigned long long v) : Number(long(v)) {}
  Number(bool v) : category_(Category::boolean) { bits_.i = v; }
  Category category() const { return category_; }
  double to_double() const { return category_ == Category::floating ? bits_.d : double(bits_.i); }
  int64_t to_int() const { return category_ == Category::floating ? int64_t(bits_.d) : bits_.i; }
  // As T. Throws ValueError where T cannot hold the value (fractions are cut off).
  template <class T> T to() const {
    if constexpr (std::is_same_v<T, bool>) {
      return category_ == Category::floating ? bits_.d != 0 : bits_.i != 0;
    } else if constexpr (std::is_integral_v<T>) {
      if (category_ == Category::floating) {
        const double whole = __builtin_trunc(bits_.d);
        if (!(whole >= double(std::numeric_limits<T>::min()) && whole < double(std::numeric_limits<T>::max()) + 1)) does_not_fit(std::is_signed_v<T>, sizeof(T));
        return T(whole);
      }
      if (std::is_unsigned_v<T> && sizeof(T) == 8 ? bits_.i < 0 : bits_.i < int64_t(std::numeric_limits<T>::min()) || bits_.i > int64_t(std::numeric_limits<T>::max()))
        does_not_fit(std::is_signed_v<T>, sizeof(T));
      return T(bits_.i);
    } else {
      return T(to_double());
    }
  }
  double toDouble() const { return to_double(); }
  float toFloat() const { return float(to_double()); }
  int toInt() const { return to<int>(); }
  int64_t toLong() const { return to<int64_t>(); }
  short toShort() const { return to<short>(); }
  int8_t toChar() const { return to<int8_t>(); }
  uint8_t toByte() const { return to<uint8_t>(); }
  bool toBool() const { return to<bool>(); }
  bool isFloatingPoint() const { return category_ == Category::floating; }
  bool isIntegral(bool include_bool) const { return category_ == Category::integer || (include_bool && isBoolean()); }
  bool isBoolean() const { return category_ == Category::boolean; }
  Dtype type() const { return category_ == Category::floating ? Dtype::Float64 : category_ == Category::integer ? Dtype::Int64 : Dtype::Bool; }
  template <class T> bool equal(T v) const { return category_ == Category::floating ? bits_.d == double(v) : double(bits_.i) == double(v); }
  Number operator-() const { return category_ == Category::floating ? Number(-bits_.d) : Number(-bits_.i); }
  uint64_t word() const { return category_ == Category::floating ? bit_pattern(bits_.d) : uint64_t(bits_.i); }

 private:
  [[noreturn]] void does_not_fit(bool has_sign, size_t bytes) const;
  static uint64_t bit_pattern(double d) { return __builtin_bit_cast(uint64_t, d); }
  Category category_;
  union { double d; int64_t i; } bits_;
};

class Var {
 public:
  Var() = default;
  static Var take(Cell* c) { Var v; v.cell_ = c; return v; }
  static Var share(Cell* c) { if (c) retain_cell(c); return take(c); }
  Var(const Var& o) : cell_(o.cell_) { if (cell_) retain_cell(cell_); }
  Var(Var&& o) noexcept : cell_(std::exchange(o.cell_, nullptr)) {}
  Var& operator=(const Var& o) { Var copy(o); std::swap(cell_, copy.cell_); return *this; }
  Var& operator=(Var&& o) noexcept { std::swap(cell_, o.cell_); return *this; }
  ~Var() { if (cell_) release_cell(cell_); }
  Cell* cell() const { return cell_; }
  Cell* leave() { return std::exchange(cell_, nullptr); }
  bool defined() const { return cell_ != nullptr; }

 protected:
  Cell* cell_ = nullptr;
};

}  // namespace frit::handle

namespace frit::tracer {
using handle::Number;
using handle::Var;

// An operand of a pointwise op: a tensor or a number.
struct Operand {
  const Var* var = nullptr;
  Number number = 0;
  Operand(const Var& v) : var(&v) {}
  Operand(Number n) : number(n) {}
  Operand(double n) : number(n) {}
  Operand(int n) : number(n) {}
  Operand(int64_t n) : number(n) {}
  Operand(bool n) : number(n) {}
};

using Sizes = std::vector<int64_t>;
using SizeSpan = std::initializer_list<int64_t>;

// ---- one node each -------------------------------------------------------------------------------------------------
Var emit_pointwise(Op op, std::initializer_list<Operand> in);
Var& emit_pointwise_(Op op, Var& target, std::initializer_list<Operand> rest);  // in place: target is the first operand
#define UNARY(name, ...) inline Var name(const Operand& a) { return emit_pointwise(Op::name, {a}); }
#define BINARY(name, ...) inline Var name(const Operand& a, const Operand& b) { return emit_pointwise(Op::name, {a, b}); }
#define TERNARY(name, ...) inline Var name(const Operand& a, const Operand& b, const Operand& c) { return emit_pointwise(Op::name, {a, b, c}); }
#include "tracer/ops.def"

Var& copy_(Var& target, const Var& source);
void set_random_seed(uint64_t seed);      // and starts the streams again
std::pair<uint64_t, uint64_t> random_state();  // the seed and the number of the next stream
std::pair<uint64_t, uint64_t> draw_stream();   // the seed and a stream for one random op
void set_random_state(std::pair<uint64_t, uint64_t> state);
// While it lives, this thread's random nodes take their numbers from it: new ones, which it keeps, or, after rewind(), those again.
class RandomLog {
 public:
  RandomLog() = default;
  RandomLog(const RandomLog&) = delete;
  struct Scope {
    explicit Scope(RandomLog& log);
    ~Scope();
    RandomLog* before;
  };
  void rewind() { next_ = 0; }
  static std::pair<uint64_t, uint64_t> take();  // {seed, stream} for a node of this thread

 private:
  std::pair<uint64_t, uint64_t> take_from(RandomLog* outer);
  std::vector<std::pair<uint64_t, uint64_t>> taken_;
  size_t next_ = 0;
  RandomLog* outer_ = nullptr;
};
Var full(const Sizes& extents, Number value, Dtype d);
Var arange(Number start, Number step, int64_t count, Dtype d);
Var random_uniform(const Sizes& extents, Dtype d);
Var random_uniform_of(const Sizes& extents, Dtype d, uint64_t seed, uint64_t stream);  // drawn again
Var random_normal(const Sizes& extents, Dtype d);
Var random_integer(const Sizes& extents, int64_t low, int64_t high, Dtype d);  // [low, high)
Var detach(const Var& a);
Var permute(const Var& a, const std::vector<int>& axes);
Var transpose(const Var& a, int i, int j);
Var expand(const Var& a, const Sizes& extents);
Var reshape(const Var& a, const Sizes& extents, bool copy_allowed = true);  // one extent may be -1; false: `view`
Var slice(const Var& a, int axis, int64_t start, int64_t length, int64_t step = 1);  // within range already
Var select(const Var& a, int axis, int64_t index);
Var diagonal(const Var& a, int64_t offset, int axis1, int axis2);
// Any view of a's storage; the offset counts from its start. Throws ValueError when it leaves the storage.
Var as_strided(const Var& a, const Sizes& extents, const Sizes& strides, int64_t offset);
Var copy(const Var& a, bool contiguous = false);
Var convert(const Var& a, Dtype d);       // a itself when it has that type
enum class ReduceOp : uint16_t { sum = uint16_t(Op::sum), prod = uint16_t(Op::prod), amax = uint16_t(Op::amax), amin = uint16_t(Op::amin),
  argmax = uint16_t(Op::argmax), argmin = uint16_t(Op::argmin), any = uint16_t(Op::any), all = uint16_t(Op::all) };
Var reduce(ReduceOp op, const Var& a, uint64_t axes, bool keepdim);  // bit mask of axes
Var sum(const Var& a, uint64_t axes, bool keepdim);
Var matmul(const Var& a, const Var& b);   // ranks >= 2, batch axes broadcast
// Convolutions over the spatial axes of input [N, C, spatial...], weight [O, C / groups, kernel...] and result or gradient [N, O, spatial...].
struct WindowAxis {
  int64_t stride = 1, dilation = 1, low = 0, high = 0;  // padding with zeros, before and after; negative: left out
};
Var convolution(const Var& input, const Var& weight, const std::vector<WindowAxis>& axes, int64_t groups);
Var convolution_input(const Var& gradient, const Var& weight, const std::vector<WindowAxis>& axes, int64_t groups, const Sizes& extents);   // the input's, spatial
Var convolution_weight(const Var& gradient, const Var& input, const std::vector<WindowAxis>& axes, int64_t groups, const Sizes& extents);  // the kernel's
struct PoolAxis {
  int64_t kernel, stride, dilation, low, count;  // count: of windows
};
Var pool_max(const Var& a, const std::vector<PoolAxis>& axes);     // of [N, C, spatial...]; a window of nothing but padding has the lowest value
Var pool_argmax(const Var& a, const std::vector<PoolAxis>& axes);  // row-major places in the channel; no window may be empty
Var cat(const std::vector<Var>& parts, int axis);
// attr and arguments as tracer/attention.h has them; in: query, key, value[, mask].
struct AttentionCall {
  uint64_t attr = 0;
  double scale = 1, dropout = 0;
  uint64_t seed = 0, stream = 0;
};
Var attention(const std::vector<Var>& in, const AttentionCall& call);
// in: query, key, value, result, gradient[, mask]. The gradients of query, key and value.
std::vector<Var> attention_gradient(const std::vector<Var>& in, const AttentionCall& call);
Var gather(const Var& a, int axis, const Var& index);
Var scatter_add(const Var& a, int axis, const Var& index, const Var& source);
Var scatter(const Var& a, int axis, const Var& index, const Var& source);
Var scatter_(Op op, const Var& a, int axis, const Var& index, const Var& source);  // in place, of either row
Var unslice(const Var& a, int axis, int64_t start, int64_t step, int64_t extent);
Var undiagonal(const Var& a, int64_t offset, int axis1, int axis2, int64_t extent1, int64_t extent2);
Var flip(const Var& a, uint64_t axes);
Var cumsum(const Var& a, int axis);
Var cumprod(const Var& a, int axis);
Var sort(const Var& a, int axis, bool descending);
Var argsort(const Var& a, int axis, bool descending);

// ---- composites that gradient rules use -----------------------------------------------------------------------------
Var zeros_of(const Operand& like);
Var sum_to(const Var& a, const Sizes& extents);  // undoes a broadcast
Var share(const Operand& wins, const Operand& ties);     // 1 where it wins, 1/2 where it ties
Var gelu_slope(const Operand& a);
Var gelu_tanh_slope(const Operand& a);
Var silu_slope(const Operand& a);
Var mish_slope(const Operand& a);
Var trigamma(const Operand& a);
#define FRIT_VAR_OPERATOR(sign, name) \
  inline Var operator sign(const Operand& a, const Operand& b) { return name(a, b); }
FRIT_VAR_OPERATOR(+, add) FRIT_VAR_OPERATOR(-, sub) FRIT_VAR_OPERATOR(*, mul) FRIT_VAR_OPERATOR(/, div)
FRIT_VAR_OPERATOR(==, eq) FRIT_VAR_OPERATOR(>, gt) FRIT_VAR_OPERATOR(<, lt) FRIT_VAR_OPERATOR(>=, ge) FRIT_VAR_OPERATOR(<=, le)
FRIT_VAR_OPERATOR(&, bitwise_and) FRIT_VAR_OPERATOR(|, bitwise_or)
#undef FRIT_VAR_OPERATOR
inline Var operator-(const Operand& a) { return neg(a); }

Sizes sizes_of(const Var& a);
Dtype dtype_of(const Var& a);

}  // namespace frit::tracer
