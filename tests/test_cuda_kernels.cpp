// Generated CUDA kernels on the CPU: pointwise results bit for bit what scalar::evaluate gives, reductions bit for bit in
// the order that jit/cuda/generate.h promises, for several schedules of the threads and launches. All programs are
// compiled in one go (suite()); a case is a program with the arguments of one launch.
#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>

#include "jit/cuda/generate.h"
#include "tests/support/cuda_emulator.h"
#include "tests/support/cuda_reference.h"
#include "tests/support/program_interpreter.h"
#include "tests/support/program_random.h"
#include "tracer/scalar_math.h"

using namespace frit;
using namespace frit::kernels;

namespace {

constexpr Dtype compute_types[] = {Dtype::Bool, Dtype::UInt8, Dtype::Int8, Dtype::Int16, Dtype::Int32, Dtype::Int64, Dtype::Float32, Dtype::Float64};
constexpr uint64_t seed = 20240917;

// ---- memory with values that are worth testing -------------------------------------------------------------------

const std::vector<double> special_floats = {0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, 1e-40, -1e-45, 1e30, -1e30, 3e38, 2147483647, 2147483648.0, -2147483648.0,
                                            -2147483649.0, -2147483648.5, 4294967296.0, 9.3e18, -9.3e18, 127.5, 300, -200, 1e300, NAN, INFINITY, -INFINITY, 0.1, 7};

void put(std::vector<char>& memory, size_t at, Dtype d, std::mt19937_64& random, bool plain) {
  const double special = special_floats[random() % special_floats.size()];
  const double usual = std::ldexp(double(int64_t(random())) , -63 + int(random() % 5));
  const double v = !plain && random() % 2 ? special : usual;
  dispatch(d, [&](auto zero) {
    using T = decltype(zero);
    T element;
    if constexpr (std::is_integral_v<T>) {
      const uint64_t r = random();
      const int64_t choice = plain ? int64_t(r >> 8) % 7 - 3 : r % 3 == 0 ? int64_t(random()) : r % 3 == 1 ? int64_t(r >> 8) % 70 - 35 : r % 2 ? INT64_MIN >> (64 - 8 * sizeof(T)) : -1;
      element = std::is_same_v<T, bool> ? T(choice & 1) : T(choice);
    } else if constexpr (sizeof(T) == 2) {
      element = T(float(v));
    } else {
      element = T(v);
    }
    std::memcpy(memory.data() + at * sizeof(T), &element, sizeof(T));
  });
}

struct Argument {
  ParamKind kind;
  Dtype dtype;
  Slot value = 0;
  std::vector<char> memory;
};
struct Case {
  std::string kernel, what;
  const Program* program;
  std::vector<Argument> arguments;
};

// Arguments in the order of the program's parameters.
struct Arguments {
  std::vector<Argument> list;
  std::mt19937_64& random;
  bool plain = false;  // no special values
  Arguments& memory(Dtype d, int64_t elements) {
    Argument a{ParamKind::pointer, d, 0, std::vector<char>(size_t(elements) * size_of(d))};
    for (int64_t k = 0; k < elements; ++k) put(a.memory, size_t(k), d, random, plain);
    list.push_back(std::move(a));
    return *this;
  }
  Arguments& indices(int64_t elements, int64_t below) {
    Argument a{ParamKind::pointer, Dtype::Int64, 0, std::vector<char>(size_t(elements) * 8)};
    for (int64_t k = 0; k < elements; ++k) {
      const int64_t v = int64_t(random() % uint64_t(below));
      std::memcpy(a.memory.data() + 8 * k, &v, 8);
    }
    list.push_back(std::move(a));
    return *this;
  }
  Arguments& integer(int64_t v) {
    list.push_back({ParamKind::integer, Dtype::Int64, Slot(v), {}});
    return *this;
  }
  Arguments& number(Dtype d, uint64_t bits) {
    list.push_back({ParamKind::number, d, bits, {}});
    return *this;
  }
};

uint64_t element_bits(const std::vector<char>& memory, size_t at, size_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, memory.data() + at * bytes, bytes);
  return bits;
}

bool is_nan_bits(uint64_t bits, Dtype d) {
  switch (d) {
    case Dtype::Float16: return (bits & 0x7fff) > 0x7c00;
    case Dtype::BFloat16: return (bits & 0x7fff) > 0x7f80;
    case Dtype::Float32: return (bits & 0x7fffffff) > 0x7f800000;
    case Dtype::Float64: return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
    default: return false;
  }
}

// The first difference, or nothing; all NaNs are one value.
std::string difference(const Case& c, const std::vector<Argument>& got, const std::vector<Argument>& want) {
  for (size_t k = 0; k < got.size(); ++k) {
    const Dtype d = got[k].dtype;
    for (size_t at = 0; at * size_of(d) < got[k].memory.size(); ++at) {
      const uint64_t g = element_bits(got[k].memory, at, size_of(d)), w = element_bits(want[k].memory, at, size_of(d));
      if (g == w || (is_nan_bits(g, d) && is_nan_bits(w, d))) continue;
      char text[200];
      std::snprintf(text, sizeof text, "%s (%s): parameter %zu, element %zu of type %s: got %llx, expected %llx", c.kernel.c_str(), c.what.c_str(), k, at,
                    dtype_name(d), static_cast<unsigned long long>(g), static_cast<unsigned long long>(w));
      return text;
    }
  }
  return "";
}

std::vector<Slot> slots(std::vector<Argument>& arguments) {
  std::vector<Slot> out;
  for (Argument& a : arguments) out.push_back(a.kind == ParamKind::pointer ? reinterpret_cast<Slot>(a.memory.data()) : a.value);
  return out;
}

// ---- programs ------------------------------------------------------------------------------------------------------

// Every primitive for one operand type, each with an output of its own.
Program every_primitive(Dtype d) {
  ProgramBuilder b(std::string("primitives_") + dtype_short_name(d));
  const Value n = b.integer();
  b.axis(AxisKind::block, n);
  const Value i = b.index(0);
  Value in[3];
  for (Value& v : in) v = b.load(b.pointer(d), i);
  const auto out = [&](Prim p, Dtype result, std::initializer_list<Value> operands) { b.store(b.pointer(result, true), i, b.apply(p, result, operands)); };
  const bool floating = is_floating(d), integral = is_integral(d);
  if (d != Dtype::Bool)
    for (Prim p : {Prim::add, Prim::sub, Prim::mul, Prim::div}) out(p, d, {in[0], in[1]});
  if (d != Dtype::Bool)
    for (Prim p : {Prim::neg, Prim::abs, Prim::floor, Prim::ceil, Prim::trunc, Prim::rint}) out(p, d, {in[0]});
  if (d == Dtype::Float32)
    for (Prim p : {Prim::round_float16, Prim::round_bfloat16}) out(p, d, {in[0]});
  for (Prim p : {Prim::min, Prim::max}) out(p, d, {in[0], in[1]});
  for (Prim p : {Prim::eq, Prim::ne, Prim::lt, Prim::le}) out(p, Dtype::Bool, {in[0], in[1]});
  out(Prim::select, d, {b.apply(Prim::lt, Dtype::Bool, {in[0], in[2]}), in[1], in[2]});
  if (floating) out(Prim::fma, d, {in[0], in[1], in[2]});
  if (floating) out(Prim::sqrt, d, {in[0]});
  if (!floating)
    for (Prim p : {Prim::bit_and, Prim::bit_or, Prim::bit_xor}) out(p, d, {in[0], in[1]});
  if (!floating) out(Prim::bit_not, d, {in[0]});
  if (integral)
    for (Prim p : {Prim::rem, Prim::shl, Prim::shr, Prim::ushr}) out(p, d, {in[0], in[1]});
  if (d == Dtype::Int32) out(Prim::mulhi_u32, d, {in[0], in[1]});
  for (Dtype to : compute_types) out(Prim::convert, to, {in[0]});
  if (size_of(d) >= 4) out(Prim::bitcast, d == Dtype::Int32 ? Dtype::Float32 : d == Dtype::Float32 ? Dtype::Int32 : d == Dtype::Int64 ? Dtype::Float64 : Dtype::Int64, {in[0]});
  return b.finish();
}

// All pairs of special values are rare among random ones; n is large enough to see them.
Arguments primitive_arguments(const Program& p, std::mt19937_64& random, int64_t n) {
  Arguments a{{}, random};
  for (const Param& q : p.params) q.kind == ParamKind::integer ? a.integer(n) : a.memory(q.dtype, n);
  return a;
}

Program half_round_trip() {
  ProgramBuilder b("halves");
  const Value n = b.integer();
  b.axis(AxisKind::block, n);
  const Value f = b.load(b.pointer(Dtype::Float32), b.index(0)), h = b.load(b.pointer(Dtype::Float16), b.index(0)), w = b.load(b.pointer(Dtype::BFloat16), b.index(0));
  b.store(b.pointer(Dtype::Float16, true), b.index(0), f);
  b.store(b.pointer(Dtype::BFloat16, true), b.index(0), f);
  b.store(b.pointer(Dtype::Float32, true), b.index(0), h);
  b.store(b.pointer(Dtype::Float32, true), b.index(0), w);
  return b.finish();
}

Program scalar_functions(Dtype d) {
  ProgramBuilder b(std::string("functions_") + dtype_short_name(d));
  const Value n = b.integer();
  b.axis(AxisKind::block, n);
  const Value x = b.load(b.pointer(d), b.index(0));
  using Function1 = scalar::Expr (*)(scalar::Expr);
  for (Function1 f : {Function1(scalar::exp), Function1(scalar::log), Function1(scalar::tanh), Function1(scalar::erf), Function1(scalar::sin), Function1(scalar::cos),
                      Function1(scalar::gelu), Function1(scalar::sigmoid), Function1(scalar::log1p), Function1(scalar::expm1)}) {
    scalar::Builder s;
    b.store(b.pointer(d, true), b.index(0), b.expand(s.finish({f(s.input(0, d))}), {x}, {})[0]);
  }
  return b.finish();
}

// A random graph over [rows, columns] with broadcast, permuted, masked and gathered reads.
Program random_pointwise(int number, std::mt19937_64& random) {
  ProgramBuilder b("random" + std::to_string(number));
  const Value rows = b.integer(), columns = b.integer(), gather = b.pointer(Dtype::Int64);
  const bool grid = random() % 2;
  b.axis(grid ? AxisKind::grid : AxisKind::block, rows);
  b.axis(AxisKind::block, columns);
  const Value i = b.index(0), j = b.index(1), linear = b.add(b.mul(i, columns), j);
  std::vector<Value> pool = {b.number(Dtype::Float32), b.number(Dtype::Int32), j};
  const Value offsets[] = {linear, j, i, b.add(b.mul(j, rows), i), b.load(gather, linear)};
  const Dtype memories[] = {Dtype::Float16, Dtype::BFloat16, Dtype::Float32, Dtype::Float64, Dtype::Int32, Dtype::Int64, Dtype::UInt8, Dtype::Bool};
  const Value mask = b.apply(Prim::lt, Dtype::Bool, {b.convert(j, Dtype::Int32), pool[1]});
  pool.push_back(mask);
  for (int k = 0; k < 4; ++k) {
    const Value p = b.pointer(memories[random() % 8]), at = offsets[random() % 5];
    const Dtype d = compute_dtype(b.memory_dtype(p));
    pool.push_back(random() % 3 ? b.load(p, at) : random() % 2 ? b.load(p, at, mask) : b.load(p, at, mask, b.constant(1, d)));
  }
  for (int k = 0; k < 24; ++k) {
    const Value x = pool[random() % pool.size()];
    const Dtype d = b.dtype(x);
    const Value y = b.convert(pool[random() % pool.size()], d), z = b.convert(pool[random() % pool.size()], d);
    const Prim arithmetic[] = {Prim::add, Prim::sub, Prim::mul, Prim::div, Prim::min, Prim::max};
    switch (random() % 6) {
      case 0: pool.push_back(b.convert(x, compute_types[random() % 8])); break;
      case 1: pool.push_back(b.apply(Prim::le, Dtype::Bool, {x, y})); break;
      case 2: pool.push_back(b.apply(Prim::select, d, {b.convert(z, Dtype::Bool), x, y}, random() % 2)); break;
      case 3:
        if (is_floating(d)) pool.push_back(b.apply(Prim::fma, d, {x, y, z}));
        else pool.push_back(b.apply(Prim::bit_xor, d, {x, y}));
        break;
      default:
        if (d == Dtype::Bool) pool.push_back(b.apply(Prim::bit_and, d, {x, y}));
        else pool.push_back(b.apply(arithmetic[random() % 6], d, {x, y}));
    }
  }
  for (int k = 0; k < 3; ++k) {
    const Value p = b.pointer(memories[random() % 8], true);
    const Value v = b.convert(pool[pool.size() - 1 - size_t(k)], compute_dtype(b.memory_dtype(p)));
    if (k == 2) b.store(p, b.load(gather, linear), v, b.apply(Prim::bit_and, Dtype::Bool, {mask, b.apply(Prim::eq, Dtype::Bool, {b.load(gather, linear), linear})}));
    else b.store(p, linear, v);
  }
  return b.finish();
}

enum class Kept { grid, block_before, block_last };

// Reductions of [rows, columns], one along the columns per kind; the rows are kept.
Program reductions(Dtype memory, Kept kept, Order order, bool masked) {
  static const char* const names[] = {"grid", "before", "last"};
  ProgramBuilder b(std::string("reduce_") + dtype_short_name(memory) + "_" + names[int(kept)] + (order == Order::lanes ? "_lanes" : "_pairwise") + (masked ? "_masked" : ""));
  const Value rows = b.integer(), columns = b.integer(), x = b.pointer(memory);
  int row, column;
  if (kept == Kept::block_last) {
    column = b.axis(AxisKind::block, columns);
    row = b.axis(AxisKind::block, rows);
  } else {
    row = b.axis(kept == Kept::grid ? AxisKind::grid : AxisKind::block, rows);
    column = b.axis(AxisKind::block, columns);
  }
  const Value v = b.load(x, b.add(b.mul(b.index(row), columns), b.index(column)));
  const Dtype d = b.dtype(v);
  Value mask;
  if (masked) mask = b.apply(Prim::ne, Dtype::Bool, {b.apply(Prim::rem, Dtype::Int64, {b.add(b.index(column), b.index(row)), b.integer_constant(3)}), b.integer_constant(0)});
  const auto out = [&](Value result) { b.store(b.pointer(b.dtype(result), true), b.index(row), result); };
  if (d == Dtype::Bool) {
    for (Reduce kind : {Reduce::any, Reduce::all}) out(b.reduce(kind, v, column, mask, order));
    return b.finish();
  }
  for (Reduce kind : {Reduce::sum, Reduce::prod, Reduce::max, Reduce::min, Reduce::argmax, Reduce::argmin}) out(b.reduce(kind, v, column, mask, order));
  if (is_floating(d)) out(b.reduce(Reduce::sum, b.mul(v, b.add(v, b.constant(0.3, d))), column, mask, Order::lanes, true));
  return b.finish();
}

// (x - mean) / sqrt(variance + epsilon): reductions that wait for each other, and a store along the reduced axis.
Program normalise(const char* name, Kept kept) {
  ProgramBuilder b(name);
  const Value rows = b.integer(), columns = b.integer(), x = b.pointer(Dtype::BFloat16), y = b.pointer(Dtype::BFloat16, true), means = b.pointer(Dtype::Float32, true);
  const bool last = kept == Kept::block_last;
  if (last) b.axis(AxisKind::block, columns);
  b.axis(kept == Kept::grid ? AxisKind::grid : AxisKind::block, rows);
  if (!last) b.axis(AxisKind::block, columns);
  const int row = last ? 1 : 0, column = 1 - row;
  const Value offset = b.add(b.mul(b.index(row), columns), b.index(column)), v = b.load(x, offset);
  const Value count = b.convert(columns, Dtype::Float32);
  const Value mean = b.apply(Prim::div, Dtype::Float32, {b.reduce(Reduce::sum, v, column), count});
  const Value centred = b.apply(Prim::sub, Dtype::Float32, {v, mean});
  const Value variance = b.apply(Prim::div, Dtype::Float32, {b.reduce(Reduce::sum, b.mul(centred, centred), column), count});
  const Value deviation = b.apply(Prim::sqrt, Dtype::Float32, {b.add(variance, b.constant(1e-5, Dtype::Float32))});
  b.store(y, offset, b.apply(Prim::div, Dtype::Float32, {centred, deviation}));
  b.store(means, b.index(row), mean);
  return b.finish();
}

// A reduction of a reduction, over two block axes of one instance; and what varies along one of them, stored.
Program nested() {
  ProgramBuilder b("nested");
  const Value rows = b.integer(), columns = b.integer(), x = b.pointer(Dtype::Float32), by_row = b.pointer(Dtype::Float32, true), total = b.pointer(Dtype::Float64, true);
  const int row = b.axis(AxisKind::block, rows), column = b.axis(AxisKind::block, columns);
  const Value v = b.load(x, b.add(b.mul(b.index(row), columns), b.index(column)));
  const Value sum = b.reduce(Reduce::sum, v, column), top = b.reduce(Reduce::max, sum, row);
  b.store(by_row, b.index(row), b.apply(Prim::sub, Dtype::Float32, {sum, top}));
  b.store(total, b.integer_constant(0), b.reduce(Reduce::sum, b.convert(sum, Dtype::Float64), row));
  return b.finish();
}

// target[index[s], lane] += source[s, lane], in ascending s; `lanes` 0: without a block axis.
Program scatter(bool lanes) {
  ProgramBuilder b(lanes ? "scatter_lanes" : "scatter");
  const Value outer = b.integer(), steps = b.integer(), width = b.integer(), size = b.integer();
  const Value index = b.pointer(Dtype::Int64), source = b.pointer(Dtype::Float32), target = b.pointer(Dtype::Float32, true);
  const int o = b.axis(AxisKind::grid, outer), s = b.axis(AxisKind::sequential, steps);
  const Value step = b.add(b.mul(b.index(o), steps), b.index(s));
  const Value place = b.add(b.mul(b.index(o), size), b.load(index, step));
  Value lane = b.integer_constant(0);
  if (lanes) lane = b.index(b.axis(AxisKind::block, width));
  const Value at = b.add(b.mul(place, width), lane);
  b.store(target, at, b.add(b.load(target, at), b.load(source, b.add(b.mul(step, width), lane))));
  return b.finish();
}

// Each step reads what the other lanes wrote in the step before: row[s + 1, lane] = row[s, lane + 1 mod width] + lane
Program recurrence() {
  ProgramBuilder b("recurrence");
  const Value steps = b.integer(), width = b.integer(), rows = b.pointer(Dtype::Float32, true);
  b.axis(AxisKind::sequential, steps);
  const Value lane = b.index(b.axis(AxisKind::block, width)), one = b.integer_constant(1);
  const Value next = b.apply(Prim::rem, Dtype::Int64, {b.add(lane, one), width});
  const Value before = b.load(rows, b.add(b.mul(b.index(0), width), next));
  b.store(rows, b.add(b.mul(b.add(b.index(0), one), width), lane), b.add(before, b.convert(lane, Dtype::Float32)));
  return b.finish();
}

// Stores along different sets of axes, none of them reduced.
Program several_sets() {
  ProgramBuilder b("several_sets");
  const Value rows = b.integer(), columns = b.integer(), all = b.pointer(Dtype::Int64, true), row_out = b.pointer(Dtype::Int64, true), one = b.pointer(Dtype::Int64, true);
  b.axis(AxisKind::block, rows);
  b.axis(AxisKind::block, columns);
  b.store(all, b.add(b.mul(b.index(0), columns), b.index(1)), b.mul(b.index(0), b.index(1)));
  b.store(row_out, b.index(0), b.mul(b.index(0), b.index(0)));
  b.store(one, b.integer_constant(0), rows);
  return b.finish();
}

// ---- the suite ----------------------------------------------------------------------------------------------------

struct Suite {
  std::deque<Program> programs;
  std::map<std::string, jit::CudaSource> sources;
  std::map<std::string, std::vector<Case>> cases;
  std::unique_ptr<cuda_emulator::Module> module;
  std::mt19937_64 random{seed};

  const Program* add(Program p) {
    sources[p.name] = jit::generate_cuda(p);
    programs.push_back(std::move(p));
    return &programs.back();
  }
  void add_case(const std::string& group, const Program* p, const std::string& what, Arguments a) { cases[group].push_back({"frit_" + p->name, what, p, std::move(a.list)}); }

  Suite() {
    pointwise();
    reduced();
    special();
    std::vector<jit::CudaSource> list;
    for (const auto& [name, source] : sources) list.push_back(source);
    module = std::make_unique<cuda_emulator::Module>(list);
  }

  void pointwise() {
    for (Dtype d : compute_types) {
      const Program* p = add(every_primitive(d));
      add_case("primitives", p, "1500 elements", primitive_arguments(*p, random, 1500));
    }
    for (Dtype d : {Dtype::Float32, Dtype::Float64}) {
      const Program* p = add(scalar_functions(d));
      add_case("functions", p, "500 elements", primitive_arguments(*p, random, 500));
    }
    const Program* halves = add(half_round_trip());
    Argument f{ParamKind::pointer, Dtype::Float32, 0, std::vector<char>(4 * 65536)}, h{ParamKind::pointer, Dtype::Float16, 0, std::vector<char>(2 * 65536)}, w = h;
    w.dtype = Dtype::BFloat16;
    for (uint32_t k = 0; k < 65536; ++k) {
      // Floats around every float16: the value, the tie to the next and its neighbours, small ones included.
      const uint32_t bits = k % 4 == 0 ? uint32_t(random()) : std::bit_cast<uint32_t>(float(std::bit_cast<Half>(uint16_t(random())))) + (k % 4 == 1 ? 0x1000u : 0) + uint32_t(random() % 3) - 1;
      std::memcpy(f.memory.data() + 4 * k, &bits, 4);
      std::memcpy(h.memory.data() + 2 * k, &k, 2);
      std::memcpy(w.memory.data() + 2 * k, &k, 2);
    }
    Arguments a{{}, random};
    a.integer(65536);
    a.list.insert(a.list.end(), {f, h, w});
    a.memory(Dtype::Float16, 65536).memory(Dtype::BFloat16, 65536).memory(Dtype::Float32, 65536).memory(Dtype::Float32, 65536);
    add_case("halves", halves, "every half", a);
    for (int k = 0; k < 40; ++k) {
      const Program* p = add(random_pointwise(k, random));
      for (auto [rows, columns] : {std::pair<int64_t, int64_t>{7, 13}, {1, 300}, {37, 1}, {0, 5}}) add_random_case(p, rows, columns);
    }
  }

  void add_random_case(const Program* p, int64_t rows, int64_t columns) {
    const int64_t n = rows * columns;
    Arguments a{{}, random};
    for (const Param& q : p->params) {
      if (q.kind == ParamKind::integer) a.integer(a.list.empty() ? rows : columns);
      else if (q.kind == ParamKind::number && q.dtype == Dtype::Int32) a.number(q.dtype, uint64_t(columns / 2));
      else if (q.kind == ParamKind::number) a.number(q.dtype, std::bit_cast<uint32_t>(1.7f));
      else if (a.list.size() == 2) a.indices(n, std::max<int64_t>(1, n));
      else a.memory(q.dtype, std::max({n, rows, columns}));
    }
    add_case("random", p, std::to_string(rows) + " x " + std::to_string(columns), a);
  }

  void reduced() {
    for (Dtype d : {Dtype::Float32, Dtype::Float64, Dtype::Float16, Dtype::Int32, Dtype::UInt8, Dtype::Int64, Dtype::Bool})
      for (Kept kept : {Kept::grid, Kept::block_before, Kept::block_last})
        for (Order order : {Order::lanes, Order::pairwise})
          for (bool masked : {false, true}) {
            if (d != Dtype::Float32 && (order == Order::pairwise || masked)) continue;
            const Program* p = add(reductions(d, kept, order, masked));
            for (auto [rows, columns] : {std::pair<int64_t, int64_t>{3, 0}, {3, 1}, {2, 31}, {35, 5}, {2, 300}, {1, 1027}}) add_reduction(p, rows, columns);
            if (d == Dtype::Float32 && kept != Kept::block_before && !masked && order == Order::lanes) add_reduction(p, 1, 131072 + 700);
          }
  }

  void add_reduction(const Program* p, int64_t rows, int64_t columns) {
    for (int values = 0; values < 3; ++values) {  // plain ones, plain ones and a NaN in each row, special ones
      if (values < 2 && columns < 31) continue;
      Arguments a{{}, random, values < 2};
      for (size_t k = 0; k < p->params.size(); ++k) {
        if (k < 2) a.integer(k == 0 ? rows : columns);
        else a.memory(p->params[k].dtype, k == 2 ? rows * columns : rows);
      }
      if (values == 1 && is_floating(p->params[2].dtype))
        for (int64_t row = 0; row < rows; ++row) {
          const int64_t bytes = int64_t(size_of(p->params[2].dtype)), late = columns - 1 - int64_t(random() % uint64_t(columns / 8 + 1));
          std::memset(a.list[2].memory.data() + (row * columns + late) * bytes, 0xff, size_t(bytes));
        }
      add_case(columns > 65536 ? "long reductions" : "reductions", p, std::to_string(rows) + " x " + std::to_string(columns), a);
    }
  }

  void special() {
    for (auto [name, kept] : {std::pair{"normalise_grid", Kept::grid}, {"normalise_before", Kept::block_before}, {"normalise_last", Kept::block_last}}) {
      const Program* p = add(normalise(name, kept));
      for (auto [rows, columns] : {std::pair<int64_t, int64_t>{2, 257}, {40, 9}, {1, 1}}) {
        Arguments a{{}, random, true};
        a.integer(rows).integer(columns).memory(Dtype::BFloat16, rows * columns).memory(Dtype::BFloat16, rows * columns).memory(Dtype::Float32, rows);
        add_case("phases", p, std::to_string(rows) + " x " + std::to_string(columns), a);
      }
    }
    const Program* two = add(nested());
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{5, 300}, {300, 5}, {1, 1}}) {
      Arguments a{{}, random, true};
      a.integer(rows).integer(columns).memory(Dtype::Float32, rows * columns).memory(Dtype::Float32, rows).memory(Dtype::Float64, 1);
      add_case("phases", two, std::to_string(rows) + " x " + std::to_string(columns), a);
    }
    for (bool lanes : {false, true}) {
      const Program* p = add(scatter(lanes));
      const int64_t width = lanes ? 300 : 1;
      Arguments a{{}, random, true};
      a.integer(3).integer(40).integer(width).integer(4).indices(120, 4).memory(Dtype::Float32, 120 * width).memory(Dtype::Float32, 12 * width);
      add_case("ordered", p, "3 x 40 x " + std::to_string(width), a);
    }
    const Program* steps = add(recurrence());
    for (int64_t width : {5, 300}) {
      Arguments a{{}, random, true};
      a.integer(6).integer(width).memory(Dtype::Float32, 7 * width);
      add_case("ordered", steps, "6 x " + std::to_string(width), a);
    }
    const Program* sets = add(several_sets());
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{4, 70}, {3, 0}}) {
      Arguments a{{}, random};
      a.integer(rows).integer(columns).memory(Dtype::Int64, rows * columns).memory(Dtype::Int64, rows).memory(Dtype::Int64, 1);
      add_case("ordered", sets, std::to_string(rows) + " x " + std::to_string(columns), a);
    }
  }
};

const Suite& suite() {
  static const Suite s;
  return s;
}

// Every case of the group under some of the schedules, each with its own number of thread blocks; cases take turns.
void check_group(const std::string& group, int schedules) {
  const Suite& s = suite();
  const auto found = s.cases.find(group);
  REQUIRE(found != s.cases.end());
  int turn = 0;
  for (const Case& c : found->second) {
    ++turn;
    std::vector<Argument> want = c.arguments;
    cuda_reference::run(*c.program, slots(want));
    for (int k = 0; k < schedules; ++k) {
      std::vector<Argument> got = c.arguments;
      std::vector<Slot> values = slots(got);
      std::vector<void*> pointers;
      for (Slot& v : values) pointers.push_back(&v);
      const jit::CudaSource& source = s.sources.at(c.program->name);
      const int schedule = (turn + k) % 3;
      const unsigned blocks = schedule == 0 ? 1 : schedule == 1 ? 3 : 5;
      INFO("seed " << seed << ", schedule " << schedule << ", " << c.kernel << ", " << c.what << "\n" << c.program->text());
      REQUIRE_NOTHROW(s.module->launch(c.kernel, blocks, source.threads, pointers.data(), uint64_t(schedule)));
      const std::string wrong = difference(c, got, want);
      INFO(wrong << "\n" << source.text.substr(source.text.find("extern \"C\"")));
      REQUIRE(wrong.empty());
    }
  }
}

}  // namespace

TEST_CASE("cuda kernels: every primitive of every type") { check_group("primitives", 2); }
TEST_CASE("cuda kernels: half formats") { check_group("halves", 1); }
TEST_CASE("cuda kernels: scalar functions have the CPU's bits") { check_group("functions", 1); }
TEST_CASE("cuda kernels: random pointwise programs") { check_group("random", 2); }
TEST_CASE("cuda kernels: reductions in the promised order") { check_group("reductions", 1); }
TEST_CASE("cuda kernels: sums are near the exact ones") {
  for (const Case& c : suite().cases.at("long reductions")) {
    if (c.program->params[2].dtype != Dtype::Float32) continue;
    const std::vector<char>& in = c.arguments[2].memory;
    double exact = 0, magnitude = 0;
    for (size_t k = 0; k < in.size() / 4; ++k) {
      const float v = std::bit_cast<float>(uint32_t(element_bits(in, k, 4)));
      exact += v;
      magnitude += std::abs(v);
    }
    std::vector<Argument> got = c.arguments;
    std::vector<Slot> values = slots(got);
    std::vector<void*> pointers;
    for (Slot& v : values) pointers.push_back(&v);
    suite().module->launch(c.kernel, 2, 256, pointers.data(), 99);
    const float sum = std::bit_cast<float>(uint32_t(element_bits(got[3].memory, 0, 4)));  // the first output
    INFO(c.kernel << ", " << c.what << ", seed " << seed << ": " << sum << " for " << exact);
    if (std::isfinite(magnitude)) CHECK(std::abs(sum - exact) <= 1e-6 * magnitude);
    else CHECK(!std::isfinite(sum));
  }
}
TEST_CASE("cuda kernels: reductions over several chunks") { check_group("long reductions", 1); }
TEST_CASE("cuda kernels: reductions that wait for each other") { check_group("phases", 4); }
TEST_CASE("cuda kernels: ordered axes and several sets of stores") { check_group("ordered", 3); }

// Whether several lanes may store to one place: then the order of the lanes would count, and CUDA has none.
bool stores_overlap(const Program& p) {
  return std::any_of(p.instrs.begin(), p.instrs.end(), [&](const Instr& i) { return i.op == Op::store && p.instrs[i.in[1]].axes != i.axes; });
}

// Programs that the x86 generator is tested with, too: any mix of axes, reductions and addressing.
TEST_CASE("cuda kernels: random programs of every kind") {
  std::vector<frit::test::RandomProgram> programs;
  std::vector<jit::CudaSource> sources;
  for (uint64_t k = 0; programs.size() < 50; ++k) {
    frit::test::RandomProgram p = frit::test::random_program(seed + k);
    if (stores_overlap(p.program)) continue;
    programs.push_back(std::move(p));
    programs.back().program.name += "_seed_" + std::to_string(seed + k);
    sources.push_back(jit::generate_cuda(programs.back().program));
  }
  const cuda_emulator::Module module(sources);
  const auto contents = [](const frit::test::RandomProgram& p) {
    std::vector<std::vector<char>> out;
    for (const auto& b : p.buffers) out.emplace_back(b->data(), b->data() + b->bytes());
    return out;
  };
  const auto restore = [](const frit::test::RandomProgram& p, const std::vector<std::vector<char>>& from) {
    for (size_t k = 0; k < from.size(); ++k) std::copy(from[k].begin(), from[k].end(), p.buffers[k]->data());
  };
  for (size_t k = 0; k < programs.size(); ++k) {
    frit::test::RandomProgram& p = programs[k];
    const auto before = contents(p);
    cuda_reference::run(p.program, p.args);
    const auto want = contents(p);
    restore(p, before);
    std::vector<void*> pointers;
    for (Slot& slot : p.args) pointers.push_back(&slot);
    INFO(p.program.text() << sources[k].text.substr(sources[k].text.find("extern")));
    REQUIRE_NOTHROW(module.launch(sources[k].name, 1 + unsigned(k % 3), 256, pointers.data(), k % 4));
    std::string wrong;
    for (size_t b = 0; b < want.size() && wrong.empty(); ++b)
      for (size_t at = 0; at < p.buffers[b]->count() && wrong.empty(); ++at) {
        const Dtype d = p.buffers[b]->memory();
        if (!frit::test::same_value(d, p.buffers[b]->data() + at * size_of(d), want[b].data() + at * size_of(d)))
          wrong = "buffer " + std::to_string(b) + ", element " + std::to_string(at);
      }
    REQUIRE(wrong == "");
  }
}
