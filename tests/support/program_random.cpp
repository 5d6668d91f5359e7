// See program_random.h. Generator holds the program under construction and a pool of values that later instructions take
// their operands from. Start with random_program.
#include "tests/support/program_random.h"

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "tests/support/program_interpreter.h"

namespace frit::test {

using namespace kernels;

GuardedBuffer::GuardedBuffer(Dtype memory, size_t count, bool at_end) : memory_(memory), count_(count) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE)), inside = (bytes() + page - 1) / page * page;
  mapped_ = inside + 2 * page;
  void* p = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<char*>(p);
  if (inside && mprotect(mapping_ + page, inside, PROT_READ | PROT_WRITE)) throw std::bad_alloc();
  data_ = at_end ? mapping_ + page + inside - bytes() : mapping_ + page;
}
GuardedBuffer::~GuardedBuffer() { munmap(mapping_, mapped_); }

namespace {

template <class T> uint64_t random_float(std::mt19937_64& random) {
  using Limits = std::numeric_limits<T>;
  const T special[] = {T(0), -T(0), T(1), T(-1), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::denorm_min(), Limits::max(),
                       Limits::lowest(), T(0.5), T(1.5), T(2.5), T(-2.5), T(2147483648.0), T(-2147483649.0), T(0x1p51), T(-0x1p52), T(0x1p63), T(-0x1p63)};
  T v;
  switch (random() % 8) {
    case 0: v = special[random() % std::size(special)]; break;
    case 1: v = T(int(random() % 9) - 4); break;
    case 2: v = T(std::ldexp(double(int64_t(random())), int(random() % 80) - 90)); break;
    default: v = T(std::uniform_real_distribution<double>(-4, 4)(random)); break;
  }
  if constexpr (sizeof(T) == 4) return std::bit_cast<uint32_t>(v);
  else return std::bit_cast<uint64_t>(v);
}

}  // namespace

uint64_t random_value(Dtype d, std::mt19937_64& random) {
  switch (d) {
    case Dtype::Bool: return random() & 1;
    case Dtype::Float32: return random_float<float>(random);
    case Dtype::Float64: return random_float<double>(random);
    case Dtype::Float16: return random() % 4 ? Half(std::bit_cast<float>(uint32_t(random_float<float>(random)))).bits : random() & 0xffff;
    case Dtype::BFloat16: return std::bit_cast<float>(uint32_t(random_float<float>(random))) == 0 ? 0x8000 : random_float<float>(random) >> 16;
    default: break;
  }
  const int bits = int(8 * size_of(d));
  int64_t v = int64_t(random());
  switch (random() % 8) {
    case 0: v = int64_t((uint64_t(1) << (random() % unsigned(bits))) - random() % 3); break;
    case 1: v = int64_t(-(uint64_t(1) << (random() % unsigned(bits))) + random() % 3); break;
    case 2: v = int64_t(random() % 3) - 1; break;
    case 3: case 4: v = int64_t(random() % 200) - 100; break;
    case 5: v >>= random() % 60; break;
    default: break;
  }
  switch (d) {
    case Dtype::UInt8: return uint8_t(v);
    case Dtype::Int8: return uint64_t(int64_t(int8_t(v)));
    case Dtype::Int16: return uint64_t(int64_t(int16_t(v)));
    case Dtype::Int32: return uint64_t(int64_t(int32_t(v)));
    default: return uint64_t(v);
  }
}

void fill_random(const GuardedBuffer& b, std::mt19937_64& random) {
  for (size_t k = 0; k < b.count(); ++k) {
    const uint64_t v = random_value(b.memory(), random);
    std::memcpy(b.data() + k * size_of(b.memory()), &v, size_of(b.memory()));
  }
}

namespace {

constexpr Dtype compute_types[] = {Dtype::Bool, Dtype::UInt8, Dtype::Int8, Dtype::Int16, Dtype::Int32, Dtype::Int64, Dtype::Float32, Dtype::Float64,
                                   Dtype::Float32, Dtype::Float32, Dtype::Float64};
constexpr Dtype memory_types[] = {Dtype::Bool, Dtype::UInt8, Dtype::Int8, Dtype::Int16, Dtype::Int32, Dtype::Int64, Dtype::Float16, Dtype::BFloat16,
                                  Dtype::Float32, Dtype::Float64, Dtype::Float32, Dtype::Float32};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed), b_("random") {}

  RandomProgram run() {
    make_axes();
    const int loads = 1 + pick(4), ops = pick(3) ? pick(14) : pick(50);
    for (int n = 0; n < loads; ++n) pool_.push_back(make_load());
    if (chance(3)) pool_.push_back(make_number());
    if (chance(4)) pool_.push_back(b_.index(pick(int(extents_.size()))));
    for (int n = 0; n < ops; ++n) step();
    const int stores = 1 + pick(3);
    for (int n = 0; n < stores; ++n) make_store(n ? any() : pool_.back());
    out_.program = b_.finish();
    return std::move(out_);
  }

 private:
  int pick(int n) { return int(random_() % uint64_t(n)); }
  bool chance(int n) { return pick(n) == 0; }
  Value any() { return pool_[size_t(pick(int(pool_.size())))]; }

  // The block axes of the values, which the builder keeps to itself.
  uint8_t axes(Value v) const { return v.id < axes_.size() ? axes_[v.id] : 0; }
  Value noted(Value v, std::initializer_list<Value> operands, int without = 8) {
    if (axes_.size() <= v.id) axes_.resize(v.id + size_t(1), 0);
    for (Value o : operands) axes_[v.id] |= axes(o);
    axes_[v.id] &= uint8_t(~(1u << without));
    return v;
  }
  Value index(int axis) {
    const Value v = noted(b_.index(axis), {});
    axes_[v.id] = uint8_t(1u << axis & block_);
    return v;
  }
  Value apply(Prim p, Dtype d, std::initializer_list<Value> in, uint64_t imm = 0) { return noted(b_.apply(p, d, in, imm), in); }
  Value convert(Value a, Dtype d) { return noted(b_.convert(a, d), {a}); }
  Value load(Value p, Value at, Value mask = {}, Value other = {}) { return noted(b_.load(p, at, mask, other), {at, mask, other}); }

  Value integer(int64_t v) {
    if (chance(4)) return b_.integer_constant(v);
    out_.args.push_back(uint64_t(v));
    return b_.integer();
  }

  void make_axes() {
    const int grid = pick(3), block = pick(4);
    static constexpr int64_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 255, 256, 257, 1023, 1024, 1025, 2048, 4095, 4096, 4100, 8193, 9217};
    int64_t room = 12000;
    const int total = std::max(1, grid + block);
    std::vector<int64_t> chosen;
    for (int a = 0; a < total; ++a) {
      int64_t e;
      do e = lengths[pick(std::size(lengths))];
      while (e > room || (e == 0 && !chance(8)) || (total > 2 && e > 300));
      chosen.push_back(e);
      room /= std::max<int64_t>(e, 1);
    }
    std::shuffle(chosen.begin(), chosen.end(), random_);
    for (int a = 0; a < total; ++a) {
      const AxisKind kind = a >= grid ? AxisKind::block : chance(4) ? AxisKind::sequential : AxisKind::grid;
      b_.axis(kind, integer(chosen[size_t(a)]));
      extents_.push_back(chosen[size_t(a)]);
      if (kind == AxisKind::block) block_ |= 1u << a;
    }
  }

  // A pointer whose element of least offset is the first of a new buffer of `count` elements.
  Value pointer(Dtype memory, size_t count, bool written) {
    auto buffer = std::make_shared<GuardedBuffer>(memory, count, pick(3) != 0);
    fill_random(*buffer, random_);
    out_.args.push_back(reinterpret_cast<uint64_t>(buffer->data()));
    out_.buffers.push_back(std::move(buffer));
    return b_.pointer(memory, written);
  }

  // An offset along these axes, every point at an element of its own; `count` becomes the size of the memory.
  Value offset(std::vector<int> axes, bool plain, size_t& count) {
    if (!plain && chance(3)) std::shuffle(axes.begin(), axes.end(), random_);
    Value at;
    int64_t stride = !plain && chance(4) ? 1 + pick(3) : 1, base = 0, last = 0;
    std::vector<Value> terms;
    bool empty = false;
    for (size_t k = axes.size(); k-- > 0;) {
      const int a = axes[k];
      const int64_t extent = extents_[size_t(a)];
      Value term = index(a);
      if (!plain && chance(10)) {
        base += stride * std::max<int64_t>(extent - 1, 0);
        term = apply(Prim::mul, Dtype::Int64, {term, integer(-stride)});
      } else if (stride != 1 || chance(12)) {
        term = apply(Prim::mul, Dtype::Int64, {term, integer(stride)});
      }
      terms.push_back(term);
      last += stride * (extent - 1);
      empty |= extent == 0;
      stride *= std::max<int64_t>(extent, 1);
    }
    if (base || terms.empty()) terms.push_back(integer(base));
    for (size_t k = terms.size(); k-- > 0;) at = at.id == no_value ? terms[k] : apply(Prim::add, Dtype::Int64, {at, terms[k]});
    count = empty ? 0 : size_t(last + 1);
    return at;
  }

  std::vector<int> some_axes(uint32_t always) {
    std::vector<int> axes;
    for (int a = 0; a < int(extents_.size()); ++a)
      if (always >> a & 1 || !chance(3)) axes.push_back(a);
    return axes;
  }

  Value make_load() {
    const Dtype memory = memory_types[pick(std::size(memory_types))];
    size_t count = 0;
    if (chance(6)) {  // through an index that is loaded
      const int64_t length = 1 + pick(50);
      const Value at = offset(some_axes(0), false, count);
      const Value indices = pointer(Dtype::Int64, count, false);
      for (size_t k = 0; k < count; ++k) {
        const int64_t index = pick(int(length));
        std::memcpy(out_.buffers.back()->data() + 8 * k, &index, 8);
      }
      const Value element = load(indices, at);
      return load(pointer(memory, size_t(length), false), element);
    }
    const std::vector<int> along = some_axes(chance(3) ? 0 : block_);
    const Value at = offset(along, false, count);
    if (along.empty() || count == 0 || !chance(5)) return load(pointer(memory, count, false), at);
    // Masked: the memory ends where the mask does.
    const int64_t end = pick(int(count) + 1);
    const Value mask = apply(Prim::lt, Dtype::Bool, {at, integer(end)});
    const Value p = pointer(memory, size_t(end), false);
    if (chance(2) || pool_.empty()) return load(p, at, mask);
    return load(p, at, mask, convert(any(), compute_dtype(memory)));
  }

  Value make_number() {
    const Dtype d = compute_types[pick(std::size(compute_types))];
    uint64_t bits = random_value(d, random_);
    const size_t size = size_of(d);
    if (size < 8) bits &= (uint64_t(1) << (8 * size)) - 1;
    out_.args.push_back(bits);
    return b_.number(d);
  }

  Value operand(Dtype d) {
    if (chance(5)) return apply(Prim::constant, d, {}, random_value(d, random_));
    for (int n = 0; n < 4; ++n) {
      const Value v = any();
      if (b_.dtype(v) == d) return v;
    }
    return convert(any(), d);
  }

  Value any_of(Dtype d) { return convert(any(), d); }

  void step() {
    if (chance(5) && block_) {
      if (make_reduce()) return;
    }
    if (chance(20)) return pool_.push_back(make_load());
    if (chance(12)) return make_sides();
    const Value a = any();
    const Dtype d = b_.dtype(a);
    pool_.push_back(chance(6) ? convert(a, compute_types[pick(std::size(compute_types))]) : chance(5) ? compare(d) : primitive(a, d));
  }

  // Long computations that only one side of some selects uses; some share parts, and the sides nest.
  void make_sides() {
    const Dtype d = chance(3) ? Dtype::Float64 : Dtype::Float32;
    const Value x = operand(d);
    const Value condition = chance(4) ? compare(d) : apply(Prim::lt, Dtype::Bool, {b_.constant(chance(2) ? 1e6 : 0.0, d), x});
    const auto chain = [&](Value v, int length) {
      for (int n = 0; n < length; ++n) v = chance(8) ? apply(Prim::fma, d, {v, x, v}) : apply(chance(2) ? Prim::add : Prim::mul, d, {v, chance(3) ? x : b_.constant(n + 0.5, d)});
      return v;
    };
    const Value shared = chain(x, 6 + pick(12));
    Value one = chain(shared, pick(9)), two = apply(Prim::floor, d, {chain(shared, pick(9))});
    if (chance(3)) one = apply(Prim::select, d, {compare(d), chain(one, 14), one});
    const auto choose = [&](Value side) {
      const Value other = operand(d);
      return chance(3) ? apply(Prim::select, d, {condition, other, side}) : apply(Prim::select, d, {condition, side, other});
    };
    const Value first = choose(one);
    if (chance(4)) two = chain(apply(Prim::add, d, {two, first}), 12);
    pool_.push_back(first);
    pool_.push_back(choose(two));
    if (chance(2)) {  // what is reduced is wanted again afterwards
      const Value costly = chain(any_of(d), 18);
      pool_.push_back(costly);
      for (int a = 0; a < int(extents_.size()); ++a) {
        if (!(axes(costly) >> a & 1) || chance(3)) continue;
        const Value total = noted(b_.reduce(chance(2) ? Reduce::sum : Reduce::max, costly, a), {costly}, a);
        pool_.push_back(apply(Prim::sub, d, {costly, total}));
        break;
      }
    }
    if (chance(4)) pool_.push_back(shared);
  }

  Value compare(Dtype d) {
    static constexpr Prim prims[] = {Prim::eq, Prim::ne, Prim::lt, Prim::le};
    return apply(prims[pick(4)], Dtype::Bool, {operand(d), operand(d)});
  }

  Value primitive(Value a, Dtype d) {
    if (chance(8)) return apply(Prim::select, d, {operand(Dtype::Bool), chance(2) ? a : operand(d), operand(d)});
    const auto unary = [&](std::initializer_list<Prim> prims) { return apply(prims.begin()[pick(int(prims.size()))], d, {a}); };
    const auto binary = [&](std::initializer_list<Prim> prims) {
      const Value b = operand(d);
      return chance(2) ? apply(prims.begin()[pick(int(prims.size()))], d, {a, b}) : apply(prims.begin()[pick(int(prims.size()))], d, {b, a});
    };
    if (d == Dtype::Bool) return chance(4) ? unary({Prim::bit_not}) : binary({Prim::bit_and, Prim::bit_or, Prim::bit_xor, Prim::min, Prim::max});
    if (is_floating(d)) {
      if (d == Dtype::Float32 && chance(8)) return unary({Prim::round_float16, Prim::round_bfloat16});
      if (chance(3)) return unary({Prim::neg, Prim::abs, Prim::sqrt, Prim::floor, Prim::ceil, Prim::trunc, Prim::rint});
      if (chance(3)) return apply(Prim::fma, d, {operand(d), chance(4) ? a : operand(d), operand(d)});
      if (chance(8)) {  // not of NaN, whose bits are not defined
        const Value number = apply(Prim::select, d, {apply(Prim::eq, Dtype::Bool, {a, a}), a, b_.constant(1, d)});
        return apply(Prim::bitcast, d == Dtype::Float32 ? Dtype::Int32 : Dtype::Int64, {number});
      }
      return binary({Prim::add, Prim::sub, Prim::mul, Prim::div, Prim::min, Prim::max});
    }
    if (chance(4)) return unary({Prim::neg, Prim::abs, Prim::bit_not, Prim::floor, Prim::rint});
    if (d == Dtype::Int32 && chance(6)) {
      if (chance(2)) return binary({Prim::mulhi_u32});
      const int number = pick(int(scalar::tables().size()));
      const scalar::Table& t = scalar::tables()[size_t(number)];
      const Value element = apply(Prim::bit_and, d, {a, b_.constant(double(std::bit_floor(t.size) - 1), d)});
      return apply(Prim::table, t.dtype, {element}, uint64_t(number));
    }
    if (chance(10) && (d == Dtype::Int32 || d == Dtype::Int64)) return apply(Prim::bitcast, d == Dtype::Int32 ? Dtype::Float32 : Dtype::Float64, {a});
    return binary({Prim::add, Prim::sub, Prim::mul, Prim::div, Prim::rem, Prim::min, Prim::max, Prim::bit_and, Prim::bit_or, Prim::bit_xor,
                   Prim::shl, Prim::shr, Prim::ushr});
  }

  bool make_reduce() {
    const Value v = any();
    const Dtype d = b_.dtype(v);
    Value mask;
    if (chance(4)) mask = operand(Dtype::Bool);
    const uint8_t all = uint8_t(axes(v) | axes(mask));
    std::vector<int> candidates;
    for (int a = 0; a < int(extents_.size()); ++a)
      if (all >> a & 1) candidates.push_back(a);
    if (candidates.empty()) return false;
    const int axis = candidates[size_t(pick(int(candidates.size())))];
    if (d == Dtype::Bool) {
      pool_.push_back(noted(b_.reduce(chance(2) ? Reduce::any : Reduce::all, v, axis, mask), {v, mask}, axis));
      return true;
    }
    static constexpr Reduce kinds[] = {Reduce::sum, Reduce::sum, Reduce::prod, Reduce::max, Reduce::min, Reduce::argmax, Reduce::argmin};
    Value value = v;
    bool fused = false;
    Reduce kind = kinds[pick(std::size(kinds))];
    const Order order = chance(4) ? Order::pairwise : Order::lanes;
    if (is_floating(d) && chance(4)) {
      value = apply(Prim::mul, d, {v, operand(d)});
      kind = Reduce::sum;
      fused = order == Order::lanes;
    }
    pool_.push_back(noted(b_.reduce(kind, value, axis, mask, order, fused), {value, mask}, axis));
    return true;
  }

  void make_store(Value v) {
    const Dtype d = b_.dtype(v);
    Dtype memory = d;
    if (d == Dtype::Float32) memory = std::array{Dtype::Float32, Dtype::Float32, Dtype::Float16, Dtype::BFloat16}[size_t(pick(4))];
    uint32_t always = axes(v) | (((1u << extents_.size()) - 1) & ~block_);
    Value mask;
    if (chance(5)) {
      mask = operand(Dtype::Bool);
      always |= axes(mask);
    }
    std::vector<int> along;
    for (int a = 0; a < int(extents_.size()); ++a)
      if (always >> a & 1 || chance(6)) along.push_back(a);
    size_t count = 0;
    const Value at = offset(along, false, count);
    b_.store(pointer(memory, count, true), at, v, mask);
  }

  std::mt19937_64 random_;
  ProgramBuilder b_;
  RandomProgram out_;
  std::vector<int64_t> extents_;
  uint32_t block_ = 0;
  std::vector<Value> pool_;
  std::vector<uint8_t> axes_;
};

}  // namespace

std::string refusal(const kernels::Program& p) {
  try {
    kernels::verify(p);
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "";
}

RandomProgram random_program(uint64_t seed) { return Generator(seed).run(); }

std::string compare_with_interpreter(const RandomProgram& p, void (*kernel)(void*, const Slot*), void* context) {
  std::vector<std::vector<char>> before, expected;
  for (const auto& b : p.buffers) before.emplace_back(b->data(), b->data() + b->bytes());
  interpret(p.program, p.args);
  for (size_t n = 0; n < p.buffers.size(); ++n) {
    const GuardedBuffer& b = *p.buffers[n];
    expected.emplace_back(b.data(), b.data() + b.bytes());
    if (b.bytes()) std::memcpy(b.data(), before[n].data(), b.bytes());
  }
  kernel(context, p.args.data());
  for (size_t n = 0; n < p.buffers.size(); ++n) {
    const GuardedBuffer& b = *p.buffers[n];
    const size_t size = size_of(b.memory());
    for (size_t k = 0; k < b.count(); ++k) {
      const char *want = expected[n].data() + k * size, *got = b.data() + k * size;
      if (same_value(b.memory(), want, got)) continue;
      char text[200];
      uint64_t w = 0, g = 0;
      std::memcpy(&w, want, size), std::memcpy(&g, got, size);
      std::snprintf(text, sizeof text, "buffer %zu (%s) element %zu of %zu: expected %llx, got %llx", n, dtype_name(b.memory()), k, b.count(),
                    static_cast<unsigned long long>(w), static_cast<unsigned long long>(g));
      return text;
    }
  }
  return "";
}

}  // namespace frit::test
