// The interpreter: known values of every structural row, the orders that are defined, conversions against the scalar
// evaluator, and every pointwise row over strided, broadcast and number operands.
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <random>

#include "runtime/error.h"
#include "tests/interpreter_executor.h"
#include "tracer/random.h"
#include "tracer/scalar_math.h"

using namespace frit;
using namespace frit::testing;

namespace {
using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;
using Bools = std::vector<bool>;
constexpr float inf = std::numeric_limits<float>::infinity(), NaN = std::numeric_limits<float>::quiet_NaN();
constexpr Dtype all_types[] = {kBool, kUInt8, kInt8, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};
constexpr Dtype compute_types[] = {kBool, kUInt8, kInt8, kInt16, kInt32, kInt64, kFloat32, kFloat64};

uint64_t canonical(uint64_t w, Dtype d) { return dispatch_compute(d, [&]<class T>(T) { return value_word(word_value<T>(w)); }); }
bool same_word(uint64_t a, uint64_t b, Dtype d) {
  return a == b || dispatch_compute(d, [&]<class T>(T) { return word_value<T>(a) != word_value<T>(a) && word_value<T>(b) != word_value<T>(b); });
}
std::vector<uint64_t> special_words(Dtype d) {
  std::vector<uint64_t> w;
  for (double v : {0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 127.0, 128.0, 255.0, 256.0, 32768.0, 65504.0, 65520.0, 1e5, 2147483648.0, -2147483649.0, 1e19, 1e40,
                   1e-40, double(inf), -double(inf), double(NaN)})
    w.push_back(convert_word(value_word(v), kFloat64, d));
  for (uint64_t v : {0ull, 1ull, 0x7full, 0x80ull, 0xffull, 0x7fffull, 0x8000ull, 0x7fffffffull, 0x80000000ull, 0x7fffffffffffffffull, 0x8000000000000000ull, ~0ull})
    w.push_back(canonical(v, d));
  return w;
}
Var random_tensor(std::mt19937_64& r, const Ints& extents, Dtype d, double low, double high) {
  int64_t n = 1;
  for (int64_t e : extents) n *= e;
  Doubles v;
  for (int64_t i = 0; i < n; ++i) {
    const double x = low + (high - low) * double(r() >> 11) * 0x1p-53;
    v.push_back(is_floating(d) ? x : d == kBool ? double(r() & 1) : std::floor(d == kUInt8 ? std::abs(x) : x));
  }
  if (is_floating(d) && n > 4 && r() % 2) v[r() % n] = double(NaN), v[r() % n] = double(inf), v[r() % n] = -0.0;
  return tensor<double>(extents, v, d);
}
}  // namespace

TEST_CASE("numbers: conversions are the scalar evaluator's") {
  std::mt19937_64 random(11);
  std::vector<uint64_t> scratch;
  for (Dtype from : compute_types)
    for (Dtype to : compute_types) {
      scalar::Builder b;
      const scalar::Function f = b.finish({scalar::convert(b.input(0, from), to)});
      std::vector<uint64_t> words = special_words(from);
      for (int k = 0; k < 100; ++k) words.push_back(canonical(random() >> random() % 64, from));
      for (uint64_t w : words) {
        uint64_t expected;
        scalar::evaluate(f, &w, nullptr, &expected, scratch);
        INFO(dtype_name(from) << " " << std::hex << w << " to " << dtype_name(to));
        REQUIRE(same_word(convert_word(w, from, to), expected, to));
      }
    }
}

TEST_CASE("numbers: memory, and the user's numbers") {
  for (Dtype d : all_types)
    for (uint64_t w : special_words(compute_dtype(d))) {
      char element[8];
      store_word(element, d, w);
      const uint64_t once = load_word(element, d);
      if (!is_half(d)) CHECK(once == w);
      store_word(element, d, once);
      CHECK(same_word(load_word(element, d), once, compute_dtype(d)));
      uint64_t many;
      const int64_t offset = 0;
      load_words(element, d, &offset, 1, compute_dtype(d), &many);
      CHECK(same_word(many, once, compute_dtype(d)));
    }
  CHECK(number_word(value_word(0.1), Category::floating, kFloat32) == value_word(0.1f));
  CHECK(number_word(value_word(0.1), Category::floating, kBFloat16) == value_word(0.1f));
  CHECK(number_word(uint64_t(16777217), Category::integer, kFloat32) == value_word(16777216.0f));
  CHECK(number_word(uint64_t(-3), Category::integer, kFloat64) == value_word(-3.0));
  CHECK(number_word(1, Category::boolean, kFloat32) == value_word(1.0f));
  CHECK(number_word(value_word(-2.9), Category::floating, kInt32) == value_word(int32_t(-2)));
}

TEST_CASE("interpreter: every pointwise row over strided, broadcast and number operands") {
  const uint64_t seed = 20240607;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<uint64_t> scratch;
  for (int o = 0; o < int(Op::count); ++o) {
    const Op op = Op(o);
    const OpRow& r = row(op);
    if (r.kind != RowKind::pointwise || r.type == TypeRule::assign) continue;
    for (Dtype d : all_types) {
      // An operand in its order, one permuted and broadcast, one a slice with a step, or a number.
      const Var whole = random_tensor(random, {3, 5, 7}, d, r.low, r.high);
      const Var turned = transpose(random_tensor(random, {7, 1, 3}, d, r.low, r.high), 0, 2);
      const Var stepped = slice(random_tensor(random, {5, 15}, d, r.low, r.high), 1, 1, 7, 2);
      Var in[3] = {whole, turned, stepped};
      if (r.type == TypeRule::choice) in[0] = random_tensor(random, {5, 7}, kBool, 0, 1), in[1] = whole;
      const bool number = r.inputs > 1 && random() % 2;
      const Number last = is_floating(d) ? Number(r.low + (r.high - r.low) * 0.375) : d == kBool ? Number(true) : Number(3);
      std::vector<Operand> operands;
      for (int k = 0; k < r.inputs; ++k) operands.push_back(number && k == r.inputs - 1 ? Operand(last) : Operand(in[k]));
      Var made;
      try {
        made = r.inputs == 1 ? emit_pointwise(op, {operands[0]}) : r.inputs == 2 ? emit_pointwise(op, {operands[0], operands[1]})
                                                                                 : emit_pointwise(op, {operands[0], operands[1], operands[2]});
      } catch (const DtypeError&) {
        continue;
      }
      INFO(r.name << " " << dtype_name(d) << (number ? " and a number" : ""));
      const Dtype compute = r.type == TypeRule::floating && !is_floating(d) ? kFloat32
                            : !is_floating(d) && (op == Op::isnan || op == Op::isinf || op == Op::isfinite) ? kFloat32
                            : r.type == TypeRule::counted && d == kBool ? kInt64
                            : number && d == kBool && r.type != TypeRule::choice ? kBool
                                                                              : compute_dtype(d);
      if (r.type == TypeRule::rounding && !is_floating(d)) {
        CHECK(read<int64_t>(made) == read<int64_t>(whole));
        continue;
      }
      const scalar::Function f = pointwise_function(op, compute);
      const Dtype result = f.nodes[f.results[0]].dtype;
      REQUIRE(dtype_of(made) == (r.type == TypeRule::compare ? kBool : is_half(d) && r.type != TypeRule::compare ? d : r.type == TypeRule::counted && d == kBool ? kInt64 : result));
      // Element by element from the definition, in doubles that hold every value of these domains.
      const Sizes e = sizes_of(made);
      const Doubles got = read<double>(made);
      const auto element = [&](int k, int64_t i, int64_t j, int64_t l) {
        if (number && k == r.inputs - 1) return number_word(last.word(), last.category(), compute);
        const Value& v = value_of(in[k].cell(), "test");
        const int64_t at[3] = {i, j, l};
        int64_t offset = v.offset;
        for (int x = 0; x < v.rank; ++x) offset += v.extent[x] == 1 ? 0 : at[3 - v.rank + x] * v.stride[x];
        const Dtype as = r.type == TypeRule::choice && k == 0 ? kBool : compute;
        return convert_word(load_word(static_cast<char*>(v.storage->data) + offset * int64_t(size_of(v.dtype)), v.dtype), compute_dtype(v.dtype), as);
      };
      size_t at = 0;
      bool right = true;
      for (int64_t i = 0; i < e[0]; ++i)
        for (int64_t j = 0; j < (e.size() > 1 ? e[1] : 1); ++j)
          for (int64_t l = 0; l < (e.size() > 2 ? e[2] : 1); ++l, ++at) {
            const uint64_t words[3] = {element(0, i, j, l), r.inputs > 1 ? element(1, i, j, l) : 0, r.inputs > 2 ? element(2, i, j, l) : 0};
            uint64_t out;
            scalar::evaluate(f, words, nullptr, &out, scratch);
            char memory[8];
            store_word(memory, dtype_of(made), convert_word(out, result, compute_dtype(dtype_of(made))));
            const double expected = word_value<double>(convert_word(load_word(memory, dtype_of(made)), compute_dtype(dtype_of(made)), kFloat64));
            right = right && (expected == got[at] || (expected != expected && got[at] != got[at]));
          }
      CHECK(at == got.size());
      CHECK(right);
    }
  }
}

TEST_CASE("interpreter: pointwise known values") {
  CHECK(read<float>(add(tensor<float>({3}, {1, 2, 3}), tensor<float>({2, 1}, {10, 20}))) == Floats{11, 12, 13, 21, 22, 23});
  CHECK(read<float>(sub(1.0, tensor<float>({2}, {0.25f, 3}))) == Floats{0.75f, -2});
  CHECK(read<float>(div(tensor<int64_t>({2}, {1, 3}), 2)) == Floats{0.5f, 1.5f});
  CHECK(read<int64_t>(floor_divide(tensor<int64_t>({4}, {7, -7, 7, 5}), tensor<int64_t>({4}, {2, 2, -2, 0}))) == Ints{3, -4, -4, 0});
  CHECK(read<bool>(lt(tensor<float>({3}, {1, NaN, -0.0f}), 1.5)) == Bools{true, false, true});
  CHECK(read<float>(where(tensor<bool>({2, 1}, {true, false}), tensor<float>({2}, {1, 2}), -1.0)) == Floats{1, 2, -1, -1});
  CHECK(read<float>(clamp(tensor<float>({4}, {-5, 0.5f, 5, NaN}), -1.0, 1.0))[2] == 1);
  CHECK(read<bool>(add(tensor<bool>({3}, {true, true, false}), tensor<bool>({3}, {true, false, false}))) == Bools{true, true, false});
  // 2049 is halfway between two halves; the even one is taken, once.
  CHECK(read<float>(add(tensor<float>({1}, {2048}, kFloat16), tensor<float>({1}, {1}, kFloat16))) == Floats{2048});
  CHECK(read<float>(add(tensor<float>({1}, {2048}, kFloat16), 3.0)) == Floats{2052});
  CHECK(read<float>(mul(tensor<float>({0, 3}, {}), 2.0)).empty());
  CHECK(read<float>(mul(tensor<float>({}, {3}), 2.0)) == Floats{6});
}

TEST_CASE("interpreter: in place") {
  Var x = tensor<int32_t>({4}, {1, 2, 3, 4});
  emit_pointwise_(Op::mul, x, {3});
  CHECK(dtype_of(x) == kInt32);
  CHECK(read<int32_t>(x) == std::vector<int32_t>{3, 6, 9, 12});
  Var column = slice(x, 0, 1, 2, 2);  // elements 1 and 3
  emit_pointwise_(Op::add, column, {tensor<int64_t>({1}, {100})});
  CHECK(read<int32_t>(x) == std::vector<int32_t>{3, 106, 9, 112});
  copy_(column, tensor<float>({2}, {7.9f, -7.9f}));
  CHECK(read<int32_t>(x) == std::vector<int32_t>{3, 7, 9, -7});
  Var square = tensor<float>({2, 2}, {1, 2, 3, 4});
  emit_pointwise_(Op::add, square, {transpose(square, 0, 1)});  // reads all before it writes
  CHECK(read<float>(square) == Floats{2, 5, 5, 8});
  Var flags = tensor<bool>({2}, {false, true});
  emit_pointwise_(Op::eq, flags, {tensor<bool>({2}, {false, false})});
  CHECK(read<bool>(flags) == Bools{true, false});
  Var y = tensor<float>({2}, {1, 5});
  emit_pointwise_(Op::gt, y, {2.0});  // a Bool result in a float tensor
  CHECK(read<float>(y) == Floats{0, 1});
}

TEST_CASE("interpreter: full and arange") {
  set_executor(interpret_trace);
  CHECK(read<float>(full({2, 2}, 0.1, kFloat32)) == Floats(4, 0.1f));
  CHECK(read<float>(full({}, 3, kBFloat16)) == Floats{3});
  CHECK(read<int64_t>(full({2}, -2.5, kInt64)) == Ints{-2, -2});
  CHECK(read<bool>(full({2}, 0.5, kBool)) == Bools{true, true});
  CHECK(read<int64_t>(full({300}, int64_t(INT64_MIN), kInt64)) == Ints(300, INT64_MIN));
  CHECK(read<float>(full({0}, 1, kFloat32)).empty());
  CHECK(read<int64_t>(arange(10, -3, 4, kInt64)) == Ints{10, 7, 4, 1});
  CHECK(read<float>(arange(0.5, 0.1, 3, kFloat32)) == Floats{0.5f, float(0.5 + 0.1), float(0.5 + 2 * 0.1)});
  CHECK(read<float>(arange(0.0, 1e-8, 1000, kFloat32))[999] == float(999 * 1e-8));
  CHECK(read<int64_t>(arange(INT64_MAX, 1, 2, kInt64)) == Ints{INT64_MAX, INT64_MIN});
  CHECK(read<uint8_t>(arange(254, 1, 4, kUInt8)) == std::vector<uint8_t>{254, 255, 0, 1});
}

TEST_CASE("interpreter: random numbers are functions of seed, stream and index") {
  set_executor(interpret_trace);
  set_random_seed(5);
  const Floats first = read<float>(random_uniform({1000}, kFloat32)), second = read<float>(random_uniform({1000}, kFloat32));
  CHECK(first != second);
  set_random_seed(5);
  const Floats matrix = read<float>(random_uniform({20, 25}, kFloat32));
  CHECK(std::equal(matrix.begin(), matrix.end(), first.begin()));
  CHECK(read<float>(random_uniform({1000}, kFloat32)) == second);
  set_random_seed(6);
  CHECK(read<float>(random_uniform({1000}, kFloat32)) != first);
  for (Dtype d : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    INFO(dtype_name(d));
    const Doubles u = read<double>(random_uniform({20000}, d)), z = read<double>(random_normal({20000}, d));
    double mean = 0, square = 0, fourth = 0, middle = 0, high = 0;
    for (double v : u) middle += v / 20000, high = std::max(high, v);
    CHECK(*std::min_element(u.begin(), u.end()) >= 0);
    CHECK(high < 1);
    CHECK(high > 0.99);
    CHECK(std::abs(middle - 0.5) < 0.01);
    for (double v : z) mean += v / 20000, square += v * v / 20000, fourth += v * v * v * v / 20000;
    CHECK(std::abs(mean) < 0.03);
    CHECK(std::abs(square - 1) < 0.05);
    CHECK(std::abs(fourth - 3) < 0.3);
  }
  // Half formats: every value is a whole multiple of the last place below one, and the top one occurs.
  for (const auto& [d, steps] : {std::pair{kFloat16, 2048.0}, std::pair{kBFloat16, 256.0}}) {
    double high = 0;
    bool whole = true;
    for (double v : read<double>(random_uniform({100000}, d))) whole = whole && v * steps == std::floor(v * steps), high = std::max(high, v);
    CHECK(whole);
    CHECK(high == (steps - 1) / steps);
  }
}

TEST_CASE("interpreter: random integers take 64 bits modulo the span") {
  std::mt19937_64 random(3);
  std::vector<uint64_t> scratch;
  const scalar::Function f = random_function(Op::random_integer, kInt64);
  scalar::Builder b;
  const scalar::Random4 words = scalar::philox(b.param(0, kInt64), b.param(1, kInt64), b.input(0, kInt64));
  const scalar::Function raw = b.finish({words.word[0], words.word[1]});
  for (uint64_t span : {uint64_t(1), uint64_t(2), uint64_t(10), uint64_t(1) << 32, (uint64_t(1) << 63) - 1, uint64_t(1) << 63, (uint64_t(1) << 63) + 1, ~uint64_t(0)})
    for (int k = 0; k < 50; ++k) {
      const uint64_t index = random() % 1000, low = random(), params[] = {random(), random() % 7, low, span};
      uint64_t got, bits[2];
      scalar::evaluate(f, &index, params, &got, scratch);
      scalar::evaluate(raw, &index, params, bits, scratch);
      INFO("span " << span << " index " << index);
      REQUIRE(got == low + ((bits[0] << 32 | (bits[1] & 0xffffffff)) % span));
    }
  set_executor(interpret_trace);
  set_random_seed(1);
  int counts[6] = {};
  for (int64_t v : read<int64_t>(random_integer({6000}, -3, 3, kInt32))) {
    REQUIRE((v >= -3 && v < 3));
    ++counts[v + 3];
  }
  for (int c : counts) CHECK(std::abs(c - 1000) < 150);
  for (float v : read<float>(random_integer({100}, 0, 5, kFloat16))) CHECK((v == std::floor(v) && v >= 0 && v < 5));
}

TEST_CASE("interpreter: views") {
  // By the executor these are aliases; as nodes of a trace they are copies with the same elements.
  const Var x = iota({2, 3, 4});
  const auto as_node = [](const Var& v) {  // the same view node again, interpreted
    const Deferred deferred;
    const Var base = iota({2, 3, 4});
    Call call = v.cell()->recipe->call;
    Recorder& r = recorder();
    call.in[0] = r.node_of(base.cell());
    call.arg = r.bind(reinterpret_cast<const int64_t*>(v.cell()->recipe->args.data()), v.cell()->recipe->args.size());
    const uint32_t n = r.emit(call);
    Value* in[] = {&value_of(base.cell(), "test")};
    const ValueRef out = interpret(*r.open, n, in);
    CHECK(out->contiguous());
    CHECK(Sizes(out->extent, out->extent + out->rank) == sizes_of(v));
    return Floats(reinterpret_cast<float*>(out->data()), reinterpret_cast<float*>(out->data()) + out->numel());
  };
  const auto check = [&](const Var& v, const Sizes& extents, const Floats& elements) {
    CHECK(sizes_of(v) == extents);
    CHECK(read<float>(v) == elements);
    CHECK(as_node(v) == elements);
  };
  check(slice(x, 2, 1, 2, 2), {2, 3, 2}, {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23});
  check(slice(x, 1, 3, 0, 1), {2, 0, 4}, {});
  check(select(x, 1, 2), {2, 4}, {8, 9, 10, 11, 20, 21, 22, 23});
  CHECK(read<float>(permute(select(x, 0, 1), {1, 0})) == Floats{12, 16, 20, 13, 17, 21, 14, 18, 22, 15, 19, 23});
  check(permute(x, {2, 0, 1}), {4, 2, 3}, {0, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23});
  check(diagonal(x, 0, 1, 2), {2, 3}, {0, 5, 10, 12, 17, 22});
  check(diagonal(x, 2, 1, 2), {2, 2}, {2, 7, 14, 19});
  check(diagonal(x, -1, 1, 2), {2, 2}, {4, 9, 16, 21});
  check(diagonal(x, 1, 2, 0), {3, 1}, {12, 16, 20});
  check(diagonal(x, 9, 1, 2), {2, 0}, {});
  check(reshape(x, {4, 6}), {4, 6}, read<float>(x));
  CHECK(read<float>(detach(transpose(x, 0, 2))) == read<float>(transpose(x, 0, 2)));
}

TEST_CASE("interpreter: expand, and a reshape that copies") {
  const Var x = tensor<float>({2, 1}, {1, 2});
  CHECK(read<float>(expand(x, {2, 2, 3})) == Floats{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
  const Var turned = transpose(iota({2, 3}), 0, 1), flat = reshape(turned, {6});
  CHECK(flat.cell()->base == nullptr);
  CHECK(read<float>(flat) == Floats{0, 3, 1, 4, 2, 5});
  CHECK(read<float>(reshape(expand(x, {2, 3}), {3, 2})) == Floats{1, 1, 1, 2, 2, 2});
  CHECK(read<float>(reshape(iota({4, 6}), {2, 2, 6})) == read<float>(iota({24})));
}

TEST_CASE("interpreter: write_view puts the region's new content into its base") {
  const Deferred deferred;
  Recorder& r = recorder();
  const Var base = iota({3, 4}), fresh = tensor<float>({3, 2}, {-1, -2, -3, -4, -5, -6});
  // The recipe of slice(base, 1, 0, 2, 2).
  Call call{.op = Op::write_view, .mode = in_place};
  call.in[0] = r.node_of(base.cell()), call.in[1] = r.node_of(fresh.cell());
  call.arg = r.bind({uint64_t(Op::slice), 1, 3, 0, 2, 2});
  const uint32_t n = r.emit(call);
  Value* in[] = {&value_of(base.cell(), "test"), &value_of(fresh.cell(), "test")};
  const ValueRef out = interpret(*r.open, n, in);
  const float* p = reinterpret_cast<float*>(out->data());
  CHECK(Floats(p, p + 12) == Floats{-1, 1, -2, 3, -3, 5, -4, 7, -5, 9, -6, 11});
  verify(*r.open);
}

TEST_CASE("interpreter: copies convert") {
  const Floats values{0, -0.0f, 1.5f, -1.5f, 3e9f, NaN, inf, 65520, 1e-8f};
  const Var x = tensor<float>({9}, values);
  CHECK(read<bool>(copy(convert(x, kBool))) == Bools{false, false, true, true, true, true, true, true, true});
  const Ints i = read<int64_t>(convert(x, kInt32));
  CHECK(i == Ints{0, 0, 1, -1, INT32_MAX, 0, INT32_MAX, 65520, 0});
  const Floats h = read<float>(convert(x, kFloat16));
  CHECK((h[7] == inf && h[4] == inf && h[8] == 0 && h[2] == 1.5f));
  CHECK(read<float>(convert(tensor<double>({1}, {1e300}), kFloat32)) == Floats{inf});
  CHECK(read<float>(copy(transpose(iota({2, 3}), 0, 1))) == Floats{0, 3, 1, 4, 2, 5});
  CHECK(read<int64_t>(convert(tensor<int64_t>({1}, {300}), kUInt8)) == Ints{44});
}

TEST_CASE("interpreter: reductions, known values") {
  const Var x = iota({2, 3, 4});
  CHECK(read<float>(sum(x, 0b111, false)) == Floats{276});
  CHECK(read<float>(sum(x, 0b010, false)) == Floats{12, 15, 18, 21, 48, 51, 54, 57});
  CHECK(sizes_of(sum(x, 0b101, true)) == Sizes{1, 3, 1});
  CHECK(read<float>(sum(x, 0b101, true)) == Floats{60, 92, 124});
  CHECK(read<float>(sum(transpose(x, 0, 2), 0b001, false)) == Floats{6, 54, 22, 70, 38, 86});
  CHECK(read<float>(reduce(ReduceOp::prod, tensor<float>({4}, {1, 2, -3, 4}), 1, false)) == Floats{-24});
  CHECK(read<float>(reduce(ReduceOp::amax, x, 0b100, false)) == Floats{3, 7, 11, 15, 19, 23});
  CHECK(read<float>(reduce(ReduceOp::amin, x, 0b110, false)) == Floats{0, 12});
  CHECK(read<int64_t>(reduce(ReduceOp::argmax, tensor<float>({2, 3}, {1, 5, 5, 7, 2, 7}), 0b10, false)) == Ints{1, 0});
  CHECK(read<int64_t>(reduce(ReduceOp::argmin, tensor<float>({2, 3}, {4, 1, 1, 3, -2, -2}), 0b11, false)) == Ints{4});
  CHECK(read<int64_t>(reduce(ReduceOp::argmax, transpose(tensor<float>({2, 3}, {4, 1, 1, 3, 9, -2}), 0, 1), 0b11, false)) == Ints{3});
  CHECK(read<bool>(reduce(ReduceOp::any, tensor<float>({2, 2}, {0, -0.0f, 0, NaN}), 0b10, false)) == Bools{false, true});
  CHECK(read<bool>(reduce(ReduceOp::all, tensor<int64_t>({2, 2}, {1, 256, 3, 0}), 0b10, false)) == Bools{true, false});
}

TEST_CASE("interpreter: reductions, types and special values") {
  CHECK(dtype_of(sum(tensor<uint8_t>({3}, {200, 200, 200}), 1, false)) == kInt64);
  CHECK(read<int64_t>(sum(tensor<uint8_t>({3}, {200, 200, 200}), 1, false)) == Ints{600});
  CHECK(read<int64_t>(sum(tensor<bool>({3}, {true, true, false}), 1, false)) == Ints{2});
  CHECK(read<int64_t>(sum(tensor<int64_t>({2}, {INT64_MAX, 1}), 1, false)) == Ints{INT64_MIN});
  CHECK(read<bool>(reduce(ReduceOp::amax, tensor<bool>({2}, {false, true}), 1, false)) == Bools{true});
  CHECK(read<int8_t>(reduce(ReduceOp::amin, tensor<int8_t>({2}, {-128, 5}), 1, false)) == std::vector<int8_t>{-128});
  const Var empty = tensor<float>({0}, {});
  CHECK(read<float>(sum(empty, 1, false)) == Floats{0});
  CHECK(read<float>(reduce(ReduceOp::prod, empty, 1, false)) == Floats{1});
  CHECK(read<bool>(reduce(ReduceOp::any, empty, 1, false)) == Bools{false});
  CHECK(read<bool>(reduce(ReduceOp::all, empty, 1, false)) == Bools{true});
  CHECK_THROWS_AS(reduce(ReduceOp::amax, empty, 1, false), ValueError);
  const Var special = tensor<float>({4}, {1, NaN, inf, NaN});
  CHECK(std::isnan(read<float>(reduce(ReduceOp::amax, special, 1, false))[0]));
  CHECK(std::isnan(read<float>(reduce(ReduceOp::amin, special, 1, false))[0]));
  CHECK(read<int64_t>(reduce(ReduceOp::argmin, special, 1, false)) == Ints{1});
  CHECK(read<float>(reduce(ReduceOp::amax, tensor<float>({2}, {-inf, -inf}), 1, false)) == Floats{-inf});
  CHECK(read<int64_t>(reduce(ReduceOp::argmax, tensor<float>({2}, {-inf, -inf}), 1, false)) == Ints{0});
  CHECK(read<int64_t>(reduce(ReduceOp::argmax, tensor<float>({2}, {-0.0f, 0.0f}), 1, false)) == Ints{0});
  for (const Floats& zeros : {Floats{-0.0f, 0.0f}, Floats{0.0f, -0.0f}}) {
    CHECK(!std::signbit(read<float>(reduce(ReduceOp::amax, tensor<float>({2}, zeros), 1, false))[0]));
    CHECK(std::signbit(read<float>(reduce(ReduceOp::amin, tensor<float>({2}, zeros), 1, false))[0]));
  }
  CHECK(!std::signbit(read<float>(sum(tensor<float>({2}, {-0.0f, -0.0f}), 1, false))[0]));  // lanes start at +0
  // Halves are summed in float32 and rounded once.
  CHECK(read<float>(sum(full({4096}, 1.0, kFloat16), 1, false)) == Floats{4096});
  CHECK(read<float>(sum(full({70000}, 1.0, kFloat16), 1, false)) == Floats{inf});
}

namespace {
// The order written down a second time, by position.
template <class T> T lane_sum(const std::vector<T>& x, size_t first, size_t last, size_t lane) {
  T s = 0;
  for (size_t i = first; i < last; ++i)
    if ((i - first) % 8 == lane) s = s + x[i];
  return s;
}
template <class T> T ordered_sum(const std::vector<T>& x, size_t first, size_t last) {
  const size_t chunks = (last - first + 1023) / 1024;
  if (chunks <= 1) {
    T l[8];
    for (size_t k = 0; k < 8; ++k) l[k] = lane_sum(x, first, last, k);
    const T a = (l[0] + l[4]) + (l[2] + l[6]), b = (l[1] + l[5]) + (l[3] + l[7]);
    return a + b;
  }
  size_t left = 1;
  while (left * 2 < chunks) left *= 2;
  const T a = ordered_sum(x, first, first + left * 1024), b = ordered_sum(x, first + left * 1024, last);
  return a + b;
}
}  // namespace

TEST_CASE("interpreter: sums follow lanes, chunks and pairs") {
  std::mt19937_64 random(77);
  for (int64_t n : {1, 7, 8, 9, 63, 1023, 1024, 1025, 2049, 5000, 10241}) {
    INFO("count " << n);
    Floats x;
    for (int64_t i = 0; i < n; ++i) x.push_back(std::ldexp(float(random() % 1000) - 500, int(random() % 40) - 20));
    const Var flat = tensor<float>({n}, x);
    const float expected = n ? ordered_sum(x, 0, size_t(n)) : 0;
    CHECK(read<float>(sum(flat, 1, false))[0] == expected);
    // The same elements through a stride, and over two axes.
    Floats spread;
    for (float v : x) spread.push_back(v), spread.push_back(NaN);
    CHECK(read<float>(sum(slice(tensor<float>({2 * n}, spread), 0, 0, n, 2), 1, false))[0] == expected);
    if (n % 3 == 0) CHECK(read<float>(sum(transpose(reshape(copy(transpose(reshape(flat, {3, n / 3}), 0, 1), true), {n / 3, 3}), 0, 1), 3, false))[0] == expected);
    Doubles wide(x.begin(), x.end());
    CHECK(read<double>(sum(tensor<double>({n}, wide), 1, false))[0] == ordered_sum(wide, 0, size_t(n)));
  }
}

TEST_CASE("interpreter: matmul") {
  const Var a = iota({2, 3}), b = tensor<float>({3, 2}, {1, 0, 0, 1, 1, 1});
  CHECK(read<float>(matmul(a, b)) == Floats{2, 3, 8, 9});
  CHECK(read<float>(matmul(transpose(b, 0, 1), transpose(a, 0, 1))) == Floats{2, 8, 3, 9});
  const Var stack = iota({2, 1, 2, 2}, kInt64), more = iota({3, 2, 1}, kInt64);
  const Var c = matmul(stack, more);
  CHECK(sizes_of(c) == Sizes{2, 3, 2, 1});
  CHECK(read<int64_t>(c) == Ints{1, 3, 3, 13, 5, 23, 5, 7, 23, 33, 41, 59});
  CHECK(read<float>(matmul(tensor<float>({2, 0}, {}), tensor<float>({0, 2}, {}))) == Floats{0, 0, 0, 0});
  CHECK(read<float>(matmul(tensor<float>({0, 2}, {}), tensor<float>({2, 2}, {1, 2, 3, 4}))).empty());
  CHECK(read<int64_t>(matmul(slice(iota({2, 4}, kInt64), 1, 1, 2, 2), select(iota({2, 2, 2}, kInt64), 0, 1))) == Ints{1 * 4 + 3 * 6, 1 * 5 + 3 * 7, 5 * 4 + 7 * 6, 5 * 5 + 7 * 7});
}

TEST_CASE("interpreter: cat") {
  CHECK(read<float>(cat({iota({2, 1}), transpose(iota({2, 2}), 0, 1)}, 1)) == Floats{0, 0, 2, 1, 1, 3});
  const Var mixed = cat({tensor<int64_t>({2}, {1, 2}), tensor<float>({1}, {0.5f}), tensor<bool>({1}, {true}), tensor<float>({0}, {})}, 0);
  CHECK(dtype_of(mixed) == kFloat32);
  CHECK(read<float>(mixed) == Floats{1, 2, 0.5f, 1});
}

TEST_CASE("interpreter: gather and scatter") {
  const Var x = iota({3, 4});
  CHECK(read<float>(gather(x, 1, tensor<int64_t>({3, 2}, {0, 3, -1, -4, 1, 1}))) == Floats{0, 3, 7, 4, 9, 9});
  CHECK(read<float>(gather(x, 0, tensor<int32_t>({1, 3}, {2, 0, -1}))) == Floats{8, 1, 10});
  CHECK(read<float>(gather(transpose(x, 0, 1), 0, tensor<int64_t>({2, 3}, {3, 3, 3, 0, 1, 2}))) == Floats{3, 7, 11, 0, 5, 10});
  const auto message = [&](auto f) {
    try {
      f();
    } catch (const IndexError& e) {
      return std::string(e.what_without_backtrace());
    }
    return std::string();
  };
  CHECK(message([&] { gather(x, 1, tensor<int64_t>({1, 1}, {4})); }) == "gather: index 4 is out of range for axis 1 of extent 4. Give indices from -4 to 3.");
  CHECK(message([&] { gather(x, 0, tensor<int64_t>({1, 1}, {-4})); }) == "gather: index -4 is out of range for axis 0 of extent 3. Give indices from -3 to 2.");
  CHECK(message([&] { scatter(x, 0, tensor<int64_t>({1, 1}, {3}), x); }).find("scatter: index 3") == 0);
  CHECK(message([&] { scatter_add(tensor<float>({0}, {}), 0, tensor<int64_t>({1}, {0}), tensor<float>({1}, {1})); }).find("scatter_add: index 0") == 0);

  const Var zero = full({4}, 0, kFloat32), index = tensor<int64_t>({5}, {1, 3, 1, -1, 1}), source = tensor<float>({5}, {1, 2, 4, 8, 16});
  CHECK(read<float>(scatter_add(zero, 0, index, source)) == Floats{0, 21, 0, 10});
  CHECK(read<float>(scatter(zero, 0, index, source)) == Floats{0, 16, 0, 8});  // the last one stays
  CHECK(read<float>(zero) == Floats(4, 0));
  // Only the index's part of the source is read.
  CHECK(read<float>(scatter(full({2, 2}, 9, kFloat32), 1, tensor<int64_t>({1, 1}, {1}), iota({2, 3}))) == Floats{9, 0, 9, 9});
  CHECK(read<float>(scatter_add(transpose(iota({2, 2}), 0, 1), 0, tensor<int64_t>({2, 2}, {0, 1, 0, 1}), full({2, 2}, 10, kFloat32))) == Floats{20, 2, 1, 23});
  // Ascending order, rounded at each step: 2048 + 1 + 1 stays 2048 in float16, 1 + 1 + 2048 is 2050.
  const Var three = tensor<int64_t>({3}, {0, 0, 0});
  CHECK(read<float>(scatter_add(full({1}, 0, kFloat16), 0, three, tensor<float>({3}, {2048, 1, 1}, kFloat16))) == Floats{2048});
  CHECK(read<float>(scatter_add(full({1}, 0, kFloat16), 0, three, tensor<float>({3}, {1, 1, 2048}, kFloat16))) == Floats{2050});
  CHECK(read<int8_t>(scatter_add(full({1}, 127, kInt8), 0, tensor<int64_t>({1}, {0}), full({1}, 1, kInt8))) == std::vector<int8_t>{-128});
  CHECK(read<bool>(scatter_add(full({1}, true, kBool), 0, tensor<int64_t>({1}, {0}), full({1}, true, kBool))) == Bools{true});
  Var target = iota({2, 3});
  scatter_(Op::scatter_add, transpose(target, 0, 1), 0, tensor<int64_t>({1, 2}, {2, 0}), full({1, 2}, 100, kFloat32));
  CHECK(read<float>(target) == Floats{0, 1, 102, 103, 4, 5});
}

TEST_CASE("interpreter: unslice, undiagonal, flip") {
  CHECK(read<float>(unslice(tensor<float>({2, 2}, {1, 2, 3, 4}), 1, 1, 2, 5)) == Floats{0, 1, 0, 2, 0, 0, 3, 0, 4, 0});
  CHECK(read<float>(unslice(tensor<float>({0}, {}), 0, 0, 1, 2)) == Floats{0, 0});
  CHECK(read<float>(undiagonal(tensor<float>({2}, {1, 2}), 1, 0, 1, 2, 3)) == Floats{0, 1, 0, 0, 0, 2});
  CHECK(read<float>(undiagonal(tensor<float>({2}, {1, 2}), -1, 0, 1, 3, 2)) == Floats{0, 0, 1, 0, 0, 2});
  // The two axes around a third: diagonal(undiagonal(x)) is x.
  const Var x = iota({4, 2});
  const Var spread = undiagonal(x, 0, 2, 0, 2, 3);
  CHECK(sizes_of(spread) == Sizes{3, 4, 2});
  CHECK(read<float>(diagonal(spread, 0, 2, 0)) == read<float>(x));
  CHECK(read<float>(sum(spread, 7, false)) == Floats{28});
  CHECK(read<float>(flip(iota({2, 3}), 0b10)) == Floats{2, 1, 0, 5, 4, 3});
  CHECK(read<float>(flip(transpose(iota({2, 3}), 0, 1), 0b11)) == Floats{5, 2, 4, 1, 3, 0});
  CHECK(read<float>(flip(tensor<float>({0, 3}, {}), 0b11)).empty());
}

TEST_CASE("interpreter: cumsum") {
  CHECK(read<float>(cumsum(iota({2, 3}), 1)) == Floats{0, 1, 3, 3, 7, 12});
  CHECK(read<float>(cumsum(iota({2, 3}), 0)) == Floats{0, 1, 2, 3, 5, 7});
  CHECK(read<int64_t>(cumsum(tensor<uint8_t>({3}, {200, 100, 1}), 0)) == Ints{200, 300, 301});
  CHECK(read<int64_t>(cumsum(tensor<int64_t>({2}, {INT64_MAX, 1}), 0)) == Ints{INT64_MAX, INT64_MIN});
  CHECK(read<float>(cumsum(tensor<float>({}, {4}), 0)) == Floats{4});
  // In float64: ones below float32's last place are not lost.
  const Floats c = read<float>(cumsum(tensor<float>({4}, {16777216, 1, 1, 1}), 0));
  CHECK(c == Floats{16777216, 16777216, 16777218, 16777220});
  const Floats s = read<float>(cumsum(tensor<float>({4}, {1, inf, -inf, 2}), 0));
  CHECK((s[0] == 1 && s[1] == inf && std::isnan(s[2]) && std::isnan(s[3])));
}

TEST_CASE("interpreter: cumsum over many lines is each line's") {
  std::mt19937_64 random(12);
  const Var x = random_tensor(random, {7, 150}, kFloat32, -3, 3);
  const Floats across = read<float>(cumsum(x, 0)), down = read<float>(cumsum(copy(transpose(x, 0, 1), true), 1)), in = read<float>(x);
  bool right = true;
  for (size_t j = 0; j < 150; ++j) {
    double total = 0;
    for (size_t i = 0; i < 7; ++i) {
      total += in[i * 150 + j];
      const float wanted = float(total), a = across[i * 150 + j], b = down[j * 7 + i];
      right = right && (wanted != wanted ? a != a && b != b : a == wanted && b == wanted);
    }
  }
  CHECK(right);
}

TEST_CASE("interpreter: cumprod") {
  CHECK(read<float>(cumprod(tensor<float>({2, 3}, {1, 2, 3, -1, 4, 0.5f}), 1)) == Floats{1, 2, 6, -1, -4, -2});
  CHECK(read<float>(cumprod(transpose(tensor<float>({2, 3}, {1, 2, 3, -1, 4, 0.5f}), 0, 1), 0)) == Floats{1, -1, 2, -4, 6, -2});
  CHECK(read<int64_t>(cumprod(tensor<int8_t>({3}, {100, 100, -2}), 0)) == Ints{100, 10000, -20000});
  CHECK(read<int64_t>(cumprod(tensor<int64_t>({2}, {INT64_MIN, 3}), 0)) == Ints{INT64_MIN, INT64_MIN});
  CHECK(read<int64_t>(cumprod(tensor<bool>({3}, {true, false, true}), 0)) == Ints{1, 0, 0});
  // In float64: what leaves float32's range on the way comes back.
  CHECK(read<float>(cumprod(tensor<float>({3}, {1e30f, 1e30f, 1e-30f}), 0)) == Floats{1e30f, inf, 1e30f});
}

TEST_CASE("interpreter: as_strided, and writing through it") {
  Var x = iota({3, 4});
  const Var turned = transpose(x, 0, 1);
  CHECK(read<float>(as_strided(turned, {2, 2, 2}, {4, 1, 1}, 1)) == Floats{1, 2, 2, 3, 5, 6, 6, 7});
  Var part = as_strided(turned, {2, 2}, {5, 2}, 3);
  CHECK(read<float>(part) == Floats{3, 5, 8, 10});
  emit_pointwise_(Op::mul, part, {-1.0});
  CHECK(read<float>(x) == Floats{0, 1, 2, -3, 4, -5, 6, 7, -8, 9, -10, 11});
  // As a node: the base read again from its own layout.
  const Deferred deferred;
  Recorder& r = recorder();
  const Var base = transpose(iota({2, 3}), 0, 1), fresh = tensor<float>({2}, {-7, -8});
  const uint32_t in0 = r.node_of(base.cell()), in1 = r.node_of(fresh.cell());
  Call call{.op = Op::write_view, .mode = in_place, .in = {in0, in1, no_node, no_node}};
  call.arg = r.bind({uint64_t(Op::as_strided), 1, 6, 1, 2, 3, 0, 1, 3});  // offset 1, extent 2, stride 3; the base: offset 0, strides 1 and 3
  const uint32_t n = r.emit(call);
  Value* in[] = {&value_of(base.cell(), "test"), &value_of(fresh.cell(), "test")};
  const ValueRef out = interpret(*r.open, n, in);
  const float* p = reinterpret_cast<float*>(out->data());
  CHECK(Floats(p, p + 6) == Floats{0, 3, -7, -8, 2, 5});
}

TEST_CASE("interpreter: sort and argsort") {
  const Var x = tensor<float>({2, 5}, {3, NaN, -inf, 0.0f, -0.0f, 2, 2, 1, 2, NaN});
  const Floats up = read<float>(sort(x, 1, false)), down = read<float>(sort(x, 1, true));
  CHECK(Floats(up.begin(), up.begin() + 4) == Floats{-inf, 0, 0, 3});
  CHECK(std::isnan(up[4]));
  CHECK((!std::signbit(up[1]) && std::signbit(up[2])));  // stable: zeros are equal
  CHECK(std::isnan(down[0]));
  CHECK(Floats(down.begin() + 1, down.begin() + 5) == Floats{3, 0, 0, -inf});
  CHECK(read<int64_t>(argsort(x, 1, false)) == Ints{2, 3, 4, 0, 1, 2, 0, 1, 3, 4});
  CHECK(read<int64_t>(argsort(x, 1, true)) == Ints{1, 0, 3, 4, 2, 4, 0, 1, 3, 2});
  CHECK(read<int64_t>(argsort(tensor<int64_t>({2, 2}, {INT64_MIN, 1, INT64_MAX, 0}), 0, false)) == Ints{0, 1, 1, 0});
  CHECK(read<bool>(sort(tensor<bool>({3}, {true, false, true}), 0, false)) == Bools{false, true, true});
  CHECK(read<float>(sort(tensor<float>({3}, {3, 1, 2}, kBFloat16), 0, true)) == Floats{3, 2, 1});
  CHECK(read<float>(sort(transpose(iota({2, 3}), 0, 1), 1, true)) == Floats{3, 0, 4, 1, 5, 2});
  CHECK(read<float>(sort(tensor<float>({}, {4}), 0, false)) == Floats{4});
  std::mt19937_64 random(9);
  Floats many;
  for (int i = 0; i < 3000; ++i) many.push_back(random() % 50 == 0 ? NaN : float(int(random() % 200)) - 100);
  const Ints order = read<int64_t>(argsort(tensor<float>({3000}, many), 0, false));
  bool right = true;
  for (size_t i = 1; i < order.size(); ++i) {
    const float a = many[size_t(order[i - 1])], b = many[size_t(order[i])];
    right = right && (a < b || (b != b && a == a) || ((a == b || (a != a && b != b)) && order[i - 1] < order[i]));
  }
  CHECK(right);
}

TEST_CASE("interpreter: a leaf has no definition") {
  const Deferred deferred;
  const Var x = iota({2});
  const uint32_t n = recorder().node_of(x.cell());
  CHECK_THROWS_AS(interpret(*recorder().open, n, nullptr), InternalError);
}
