// Block programs as machine code: every type, primitive, conversion and reduction against the interpreter, bit for bit (all
// NaNs are one value), on memory that ends at an inaccessible page; then what the frame promises.
#include <catch2/catch.hpp>

#include <cstring>
#include <numeric>

#include "jit/x86/compile.h"
#include "tests/support/program_random.h"
#include "tracer/scalar_math.h"

using namespace frit;
using namespace frit::kernels;
using test::GuardedBuffer;

namespace {

constexpr Dtype memory_types[] = {Dtype::Bool, Dtype::UInt8, Dtype::Int8, Dtype::Int16, Dtype::Int32, Dtype::Int64, Dtype::Float16, Dtype::BFloat16,
                                  Dtype::Float32, Dtype::Float64};
constexpr Dtype compute_types[] = {Dtype::Bool, Dtype::UInt8, Dtype::Int8, Dtype::Int16, Dtype::Int32, Dtype::Int64, Dtype::Float32, Dtype::Float64};
constexpr int64_t sizes[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 40, 63, 64, 65, 1023, 1024, 1025};

// A program under construction, with its arguments.
struct Case {
  ProgramBuilder b{"case"};
  test::RandomProgram p;
  std::mt19937_64 random{7};

  Value integer(int64_t v) {
    p.args.push_back(uint64_t(v));
    return b.integer();
  }
  Value memory(Dtype d, int64_t count, bool written = false, bool at_end = true) {
    p.buffers.push_back(std::make_shared<GuardedBuffer>(d, size_t(count), at_end));
    test::fill_random(*p.buffers.back(), random);
    p.args.push_back(reinterpret_cast<uint64_t>(p.buffers.back()->data()));
    return b.pointer(d, written);
  }
  template <class T> T* data(size_t buffer) { return reinterpret_cast<T*>(p.buffers[buffer]->data()); }
  int64_t instances() {
    int64_t n = 1;
    const auto all = extents(p.program, p.args.data());
    for (size_t a = 0; a < all.size(); ++a)
      if (p.program.axes[a].kind != AxisKind::block) n *= all[a];
    return n;
  }
  std::string compare(const jit::CpuSchedule& schedule = {}) {
    if (p.program.instrs.empty()) p.program = b.finish();
    const jit::CpuKernel k = jit::compile_x86(p.program, schedule);
    const int64_t count = instances();
    const std::string wrong = test::difference(p, [&](const Slot* args) { k.run(args, 0, count, 0, INT64_MAX); });
    return wrong.empty() ? wrong : wrong + "\n" + p.program.text();
  }
};

bool takes(Prim prim, Dtype d) {
  switch (prim) {
    case Prim::fma: case Prim::sqrt: return is_floating(d);
    case Prim::rem: return is_integral(d);
    case Prim::floor: case Prim::ceil: case Prim::trunc: case Prim::rint: case Prim::neg: case Prim::abs: case Prim::add: case Prim::sub:
    case Prim::mul: case Prim::div: return d != Dtype::Bool;
    case Prim::bit_and: case Prim::bit_or: case Prim::bit_xor: case Prim::bit_not: return !is_floating(d);
    case Prim::shl: case Prim::shr: case Prim::ushr: return is_integral(d);
    case Prim::round_float16: case Prim::round_bfloat16: return d == Dtype::Float32;
    case Prim::mulhi_u32: return d == Dtype::Int32;
    case Prim::min: case Prim::max: case Prim::eq: case Prim::ne: case Prim::lt: case Prim::le: return true;
    default: return false;
  }
}
bool compares(Prim prim) { return prim == Prim::eq || prim == Prim::ne || prim == Prim::lt || prim == Prim::le; }

}  // namespace

TEST_CASE("loads and stores of every memory type, at every size and both ends of memory", "[x86]") {
  for (Dtype d : memory_types)
    for (int64_t n : sizes)
      for (bool at_end : {false, true}) {
        Case c;
        const Value in = c.memory(d, n, false, at_end), out = c.memory(d, n, true, at_end);
        const Value i = c.b.index(c.b.axis(AxisKind::block, c.integer(n)));
        c.b.store(out, i, c.b.load(in, i));
        INFO(dtype_name(d) << " " << n);
        REQUIRE(c.compare() == "");
      }
}

TEST_CASE("every primitive in every type it takes", "[x86]") {
  constexpr int64_t n = 3003;
  for (int number = 0; number <= int(Prim::le); ++number)
    for (Dtype d : compute_types) {
      const Prim prim = Prim(number);
      if (!takes(prim, d)) continue;
      // Operands that vary, that are the same for all lanes, and constants.
      for (int form = 0; form < 4; ++form) {
        Case c;
        const Value i = c.b.index(c.b.axis(AxisKind::block, c.integer(n)));
        const Dtype result = compares(prim) ? Dtype::Bool : d;
        const Value out = c.memory(result, n, true);
        Value in[3];
        for (int k = 0; k < 3; ++k) {
          const bool varies = form == 0 || (form == 1 && k != 1) || (form == 2 && k != 0);
          if (form != 3 && !varies) in[k] = c.b.apply(Prim::constant, d, {}, test::random_value(d, c.random));
          else in[k] = c.b.load(c.memory(d, varies ? n : 1), varies ? i : c.b.integer_constant(0));
        }
        const int arity = scalar::prim_arity(prim);
        const Value r = arity == 1 ? c.b.apply(prim, result, {in[0]}) : arity == 2 ? c.b.apply(prim, result, {in[0], in[1]}) : c.b.apply(prim, result, {in[0], in[1], in[2]});
        c.b.store(out, i, r);
        INFO(scalar::prim_name(prim) << " " << dtype_name(d) << " form " << form);
        REQUIRE(c.compare() == "");
      }
    }
}

TEST_CASE("every conversion, of lanes and of uniform values", "[x86]") {
  constexpr int64_t n = 2005;
  for (Dtype from : compute_types)
    for (Dtype to : compute_types)
      for (bool varies : {true, false}) {
        Case c;
        const Value in = c.memory(from, n), out = c.memory(to, n, true);
        const Value i = c.b.index(c.b.axis(varies ? AxisKind::block : AxisKind::grid, c.integer(n)));
        c.b.store(out, i, c.b.convert(c.b.load(in, i), to));
        INFO(dtype_name(from) << " to " << dtype_name(to) << (varies ? "" : ", uniform"));
        REQUIRE(c.compare() == "");
      }
}

TEST_CASE("conversions round the half formats once, to nearest even", "[x86]") {
  for (Dtype d : {Dtype::Float16, Dtype::BFloat16}) {
    Case c;
    constexpr int64_t n = 1 << 17;
    const Value in = c.memory(Dtype::Float32, n), out = c.memory(d, n, true);
    for (int64_t k = 0; k < n; ++k) {  // around every half way case
      const uint32_t bits = d == Dtype::BFloat16 ? uint32_t(k) << 15 : uint32_t(0x33000000 + (k << 12)) | (k & 3 ? 0u : 1u);
      std::memcpy(c.data<uint32_t>(0) + k, &bits, 4);
    }
    const Value i = c.b.index(c.b.axis(AxisKind::block, c.integer(n)));
    const Value x = c.b.load(in, i), rounded = c.b.apply(d == Dtype::Float16 ? Prim::round_float16 : Prim::round_bfloat16, Dtype::Float32, {x});
    c.b.store(out, i, x);
    c.b.store(c.memory(Dtype::Float32, n, true), i, rounded);
    const Value larger = c.b.apply(Prim::max, Dtype::Float32, {c.b.apply(Prim::neg, Dtype::Float32, {rounded}), c.b.constant(0.5, Dtype::Float32)});
    c.b.store(c.memory(d, n, true), i, larger);  // which needs no rounding
    REQUIRE(c.compare() == "");
  }
}

TEST_CASE("reductions of every kind and type, along the rows and along the columns", "[x86]") {
  constexpr Reduce kinds[] = {Reduce::sum, Reduce::prod, Reduce::max, Reduce::min, Reduce::argmax, Reduce::argmin, Reduce::any, Reduce::all};
  for (Reduce kind : kinds)
    for (Dtype d : compute_types) {
      if ((d == Dtype::Bool) != (kind == Reduce::any || kind == Reduce::all)) continue;
      const bool argument = kind == Reduce::argmax || kind == Reduce::argmin;
      for (Order order : {Order::lanes, Order::pairwise})
        for (auto [length, others] : {std::pair<int64_t, int64_t>{0, 3}, {1, 3}, {7, 9}, {8, 1}, {9, 17}, {33, 300}, {100, 8}, {1024, 2}, {1025, 9}, {2100, 5}, {5133, 3}, {9300, 1}}) {
          if (order == Order::pairwise && length > 2200) continue;
          for (bool masked : {false, true}) {
            Case c;
            const Value memory = c.memory(d, length * others), flags = c.memory(Dtype::Bool, length);
            const Dtype result = argument ? Dtype::Int64 : d;
            const Value rows = c.memory(result, others, true), columns = c.memory(result, others, true);
            const Value extent = c.integer(length), count = c.integer(others);
            const int outer = c.b.axis(AxisKind::block, count), along = c.b.axis(AxisKind::block, extent), inner = c.b.axis(AxisKind::block, count);
            const Value k = c.b.index(along);
            const Value mask = masked ? c.b.load(flags, k) : Value{};
            // The same elements in the same order, once contiguous along the reduced axis and once across it.
            const auto element = [&](int axis) { return c.b.load(memory, c.b.add(c.b.mul(k, count), c.b.index(axis))); };
            c.b.store(rows, c.b.index(outer), c.b.reduce(kind, element(outer), along, mask, order));
            c.b.store(columns, c.b.index(inner), c.b.reduce(kind, element(inner), along, mask, order));
            INFO(int(kind) << " " << dtype_name(d) << " [" << length << ", " << others << "]" << (masked ? " masked" : "") << (order == Order::pairwise ? " pairwise" : ""));
            REQUIRE(c.compare() == "");
          }
        }
    }
}

TEST_CASE("extremes propagate NaN and order the zeros, wherever they stand", "[x86]") {
  for (Reduce kind : {Reduce::max, Reduce::min, Reduce::argmax, Reduce::argmin})
    for (int64_t n : {9, 40, 70})
      for (int64_t place = 0; place < n; ++place)
        for (float special : {0.0f, -0.0f, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()}) {
          Case c;
          const bool argument = kind == Reduce::argmax || kind == Reduce::argmin;
          const Value in = c.memory(Dtype::Float32, n), out = c.memory(argument ? Dtype::Int64 : Dtype::Float32, 1, true);
          std::fill_n(c.data<float>(0), n, place % 2 ? 0.0f : -0.0f);
          c.data<float>(0)[place] = special;
          const int axis = c.b.axis(AxisKind::block, c.integer(n));
          c.b.store(out, c.b.integer_constant(0), c.b.reduce(kind, c.b.load(in, c.b.index(axis)), axis));
          INFO(int(kind) << " of " << n << ", " << special << " at " << place);
          REQUIRE(c.compare() == "");
        }
}

TEST_CASE("softmax by rows and by columns, in place too", "[x86]") {
  scalar::Builder s;
  const auto exponential = s.finish({scalar::exp(s.input(0, Dtype::Float32))});
  for (bool columns : {false, true})
    for (bool in_place : {false, true})
      for (auto [rows, width] : {std::pair<int64_t, int64_t>{5, 1027}, {300, 13}, {1, 1}, {3, 8}, {17, 600}, {2, 9000}}) {
        Case c;
        const Value in = c.memory(Dtype::Float32, rows * width, in_place);
        const Value out = in_place ? in : c.memory(Dtype::Float32, rows * width, true);
        for (int64_t k = 0; k < rows * width; ++k) c.data<float>(0)[k] = float(k * 7919 % 1009) / 50;
        const Value r = c.integer(rows), w = c.integer(width);
        const int first = c.b.axis(columns ? AxisKind::block : AxisKind::grid, r), second = c.b.axis(AxisKind::block, w), axis = columns ? first : second;
        const Value at = c.b.add(c.b.mul(c.b.index(first), w), c.b.index(second));
        const Value x = c.b.load(in, at);
        const Value shifted = c.b.apply(Prim::sub, Dtype::Float32, {x, c.b.reduce(Reduce::max, x, axis)});
        const Value e = c.b.expand(exponential, {shifted}, {})[0];
        c.b.store(out, at, c.b.apply(Prim::div, Dtype::Float32, {e, c.b.reduce(Reduce::sum, e, axis)}));
        INFO("[" << rows << ", " << width << "]" << (columns ? " columns" : "") << (in_place ? " in place" : ""));
        REQUIRE(c.compare() == "");
      }
}

TEST_CASE("large results go past the caches", "[x86]") {
  for (Dtype d : {Dtype::Float32, Dtype::Float64, Dtype::Float16})
    for (int64_t width : {8, 17, 24, 64, 100})
      for (bool at_end : {false, true}) {
        Case c;
        constexpr int64_t rows = 3;
        const Value in = c.memory(d, rows * width, false, at_end), out = c.memory(d, rows * width, true, at_end);
        const size_t extent = c.p.args.size();
        const int row = c.b.axis(AxisKind::grid, c.integer(rows));
        const Value w = c.integer(width), i = c.b.index(c.b.axis(AxisKind::block, w)), at = c.b.add(c.b.mul(c.b.index(row), w), i);
        c.b.store(out, at, c.b.add(c.b.load(in, at), c.b.load(in, at)));
        c.p.program = c.b.finish();
        const jit::CpuKernel k = jit::compile_x86(c.p.program);
        INFO(dtype_name(d) << " " << width);
        REQUIRE(test::difference(c.p, [&](const Slot* args) {  // as if there were many more rows
          std::vector<Slot> many(args, args + c.p.args.size());
          many[extent] = 1 << 24;
          k.run(many.data(), 0, rows, 0, INT64_MAX);
        }) == "");
        CHECK((jit::disassembly_x86(c.p.program).find("vmovntps") != std::string::npos) == (size_of(d) >= 4));
      }
}

TEST_CASE("parts that few lanes take, wherever those stand", "[x86]") {
  scalar::Builder builder;
  const scalar::Function sine = builder.finish({sin(builder.input(0, Dtype::Float32))});
  for (int64_t n : {8, 16, 24, 47, 96})
    for (int huge = 0; huge < 4; ++huge) {  // none, one, some, all
      Case c;
      const Value in = c.memory(Dtype::Float32, n), out = c.memory(Dtype::Float32, n, true);
      for (int64_t k = 0; k < n; ++k) c.data<float>(0)[k] = huge == 3 || (huge == 2 && c.random() % 5 == 0) || (huge == 1 && k == n - 3) ? 1e9f + float(k) * 1e7f : float(k) - 20;
      const Value i = c.b.index(c.b.axis(AxisKind::block, c.integer(n)));
      const Value x = c.b.load(in, i);
      const Value s = c.b.expand(sine, {x}, {})[0];
      const Value inner = c.b.expand(sine, {c.b.mul(s, x)}, {})[0];  // its rare lanes are others
      c.b.store(out, i, c.b.add(c.b.mul(inner, s), x));
      const std::string wrong = c.compare();
      INFO(n << " elements, huge " << huge);
      REQUIRE(wrong == "");
    }
}

TEST_CASE("offsets are 64 bits wide", "[x86]") {
  for (Dtype d : {Dtype::Float32, Dtype::Int64, Dtype::Int8, Dtype::Float16})
    for (int64_t far : {int64_t(1) << 33, -(int64_t(1) << 40), int64_t(3) << 31}) {
      Case c;
      constexpr int64_t n = 37;
      const Value contiguous = c.memory(d, n), gathered = c.memory(d, n), strided = c.memory(d, n), indices = c.memory(Dtype::Int64, n);
      std::iota(c.data<int64_t>(3), c.data<int64_t>(3) + n, far);
      c.p.args[0] -= uint64_t(far) * size_of(d), c.p.args[1] -= uint64_t(far) * size_of(d);
      const Value i = c.b.index(c.b.axis(AxisKind::block, c.integer(n)));
      const Value shift = c.integer(far), huge = c.integer(far), one_more = c.integer(far + 1);
      const Value a = c.b.load(contiguous, c.b.add(i, shift)), b = c.b.load(gathered, c.b.load(indices, i));
      // i * (far + 1) - i * far
      const Value s = c.b.load(strided, c.b.apply(Prim::sub, Dtype::Int64, {c.b.mul(i, one_more), c.b.mul(i, huge)}));
      for (Value v : {a, b, s}) c.b.store(c.memory(d, n, true), i, v);
      REQUIRE(c.compare() == "");
    }
}

TEST_CASE("a sequential axis runs in order: scatter-add", "[x86]") {
  Case c;
  constexpr int64_t n = 500, width = 37, places = 11;
  const Value source = c.memory(Dtype::Float32, n * width), indices = c.memory(Dtype::Int64, n), target = c.memory(Dtype::Float32, places * width, true);
  for (int64_t k = 0; k < n; ++k) c.data<int64_t>(1)[k] = k * k % places;
  const int sequence = c.b.axis(AxisKind::sequential, c.integer(n)), lanes = c.b.axis(AxisKind::block, c.integer(width));
  const Value w = c.integer(width), k = c.b.index(sequence), i = c.b.index(lanes);
  const Value at = c.b.add(c.b.mul(c.b.load(indices, k), w), i);
  c.b.store(target, at, c.b.add(c.b.load(target, at), c.b.load(source, c.b.add(c.b.mul(k, w), i))));
  REQUIRE(c.compare() == "");
  const jit::CpuKernel kernel = jit::compile_x86(c.p.program);
  CHECK(kernel.ordered);
  CHECK(kernel.lane_split);
}

TEST_CASE("a load sees what was stored before it by all lanes", "[x86]") {
  Case c;
  constexpr int64_t n = 100;
  const Value work = c.memory(Dtype::Int32, n, true), out = c.memory(Dtype::Int32, n, true);
  const Value extent = c.integer(n), i = c.b.index(c.b.axis(AxisKind::block, extent));
  c.b.store(work, i, c.b.convert(i, Dtype::Int32));
  const Value mirror = c.b.apply(Prim::sub, Dtype::Int64, {c.b.apply(Prim::sub, Dtype::Int64, {extent, c.b.integer_constant(1)}), i});
  c.b.store(out, i, c.b.load(work, mirror));
  REQUIRE(c.compare() == "");
}

TEST_CASE("what cannot be kept across a store is refused", "[x86]") {
  ProgramBuilder b("conflict");
  const Value p = b.pointer(Dtype::Float32, true), q = b.pointer(Dtype::Float32, true);
  const Value i = b.index(b.axis(AxisKind::block, b.integer()));
  const Value before = b.load(p, i);
  b.store(p, i, b.add(before, before));
  b.store(q, i, b.add(before, b.load(p, b.mul(i, b.integer_constant(2)))));
  const Program program = b.finish();
  CHECK_THROWS_AS(jit::compile_x86(program), std::runtime_error);
}

TEST_CASE("kernels say how they may be split", "[x86]") {
  const auto kernel = [](bool reduce, bool column) {
    ProgramBuilder b("split");
    const Value n = b.integer(), in = b.pointer(Dtype::Float32), out = b.pointer(Dtype::Float32, true);
    const int r = b.axis(AxisKind::block, n), l = b.axis(AxisKind::block, n);
    Value v = b.load(in, b.add(b.mul(b.index(r), n), b.index(l))), at = b.index(l);
    if (reduce) v = b.reduce(Reduce::sum, v, column ? r : l), at = b.index(column ? l : r);
    else at = b.add(b.mul(b.index(r), n), at);
    b.store(out, at, v);
    return jit::compile_x86(b.finish());
  };
  CHECK(kernel(false, false).lane_split);
  CHECK(kernel(true, true).lane_split);
  CHECK_FALSE(kernel(true, false).lane_split);
  CHECK_FALSE(kernel(false, false).ordered);
}

TEST_CASE("multiply and add stay two roundings", "[x86]") {
  ProgramBuilder b("two");
  const Value x = b.pointer(Dtype::Float32), y = b.pointer(Dtype::Float32, true), i = b.index(b.axis(AxisKind::block, b.integer()));
  const Value v = b.load(x, i);
  b.store(y, i, b.add(b.mul(v, v), v));
  const std::string text = jit::disassembly_x86(b.finish());
  CHECK(text.find("vfm") == std::string::npos);
  CHECK(text.find("vmulps") != std::string::npos);
  CHECK(text.find("vzeroupper") != std::string::npos);
}

TEST_CASE("a schedule changes no bits", "[x86]") {
  scalar::Builder s;
  const auto x = s.input(0, Dtype::Float32);
  const auto f = s.finish({scalar::tanh(scalar::sin(x) * 2.0 + 1.0) * scalar::sigmoid(x)});
  for (uint8_t unroll : {0, 1, 2, 3, 4})
    for (int64_t n : sizes) {
      Case c;
      const Value in = c.memory(Dtype::Float32, n), out = c.memory(Dtype::Float32, n, true);
      const Value i = c.b.index(c.b.axis(AxisKind::block, c.integer(n)));
      c.b.store(out, i, c.b.expand(f, {c.b.load(in, i)}, {})[0]);
      INFO("unroll " << int(unroll) << ", " << n);
      REQUIRE(c.compare({unroll}) == "");
    }
}
