// Traces as text: golden texts, parse(text(x)) == x on recorded and on odd traces, malformed and mutated text; and the
// verifier: recorded traces pass, every planted fault is found.
#include <catch2/catch.hpp>

#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "runtime/error.h"
#include "tests/interpreter_executor.h"

using namespace frit;
using namespace frit::testing;

namespace {
using TraceRef = std::unique_ptr<Trace, void (*)(Trace*)>;

Trace& open_trace() { return *recorder().open; }

bool same_call(const Call& a, const Call& b) {
  return a.op == b.op && a.mode == b.mode && a.kind == b.kind && a.arg == b.arg && a.attr == b.attr && std::equal(a.in, a.in + 4, b.in);
}
bool same_result(const Result& a, const Result& b) {
  return a.dtype == b.dtype && a.rank == b.rank && a.flags == b.flags && a.compute == b.compute && a.size_end == b.size_end && a.join_end == b.join_end &&
         std::equal(a.size, a.size + a.rank, b.size);
}
void check_same(const Trace& a, const Trace& b) {
  REQUIRE(a.nodes.size() == b.nodes.size());
  for (size_t n = 0; n < a.nodes.size(); ++n) {
    INFO("node " << n);
    CHECK(same_call(a.nodes[n].call, b.nodes[n].call));
    CHECK(same_result(a.nodes[n].result, b.nodes[n].result));
  }
  CHECK(a.args == b.args);
  CHECK(a.lists == b.lists);
  CHECK(a.extent == b.extent);
  CHECK(a.parent == b.parent);
  CHECK(a.derived == b.derived);
  CHECK(a.name == b.name);
  CHECK(a.joins == b.joins);
}
void check_round_trip(const Trace& t) {
  const std::string s = text(t);
  INFO(s);
  const TraceRef again = parse_trace(s);
  check_same(t, *again);
  CHECK(text(*again) == s);
}
void check_golden(const std::string& name) {
  const std::string path = std::string(FRIT_SOURCE_DIR) + "/tests/golden/" + name + ".txt";
  std::ifstream file(path);
  INFO("The golden file is " << path);
  REQUIRE(file.good());
  std::stringstream wanted;
  wanted << file.rdbuf();
  CHECK(text(open_trace()) == wanted.str());
  check_round_trip(open_trace());
  verify(open_trace());
}
Var gradient_tensor(const std::vector<int64_t>& extents) {
  Var v = iota(extents);
  v.cell()->flags |= gradient_leaf;
  return v;
}
std::string parse_error(const std::string& s) {
  try {
    parse_trace(s);
  } catch (const ValueError& e) {
    return e.what();
  }
  return "";
}
}  // namespace

// ---- golden texts -----------------------------------------------------------------------------------------------------
TEST_CASE("trace text: pointwise, numbers, joins, in place") {
  const Deferred deferred;
  const Var x = gradient_tensor({64, 128}), w = iota({128}), h = iota({64, 1}, kBFloat16);
  const Var y = add(mul(x, w), 0.1);
  const Var z = where(lt(y, 3), y, false);
  Var total = add(z, h);
  emit_pointwise_(Op::add, total, {-2.0});
  Var whole = iota({3}, kInt32);
  emit_pointwise_(Op::add, whole, {iota({3}, kInt64)});
  copy_(whole, iota({1}));
  check_golden("pointwise");
}
TEST_CASE("trace text: views and what writes through them") {
  const Deferred deferred;
  const Var x = gradient_tensor({6, 4});
  const Var y = mul(x, 2.0);
  Var part = slice(y, 0, 1, 2, 3);
  emit_pointwise_(Op::add, part, {3});
  const Var line = select(transpose(y, 0, 1), 1, 5);
  const Var square = reshape(y, {2, 3, 4}), spread = expand(line, {5, 4});
  const Var d = diagonal(detach(square), -1, 1, 2);
  const Var back = undiagonal(d, -1, 0, 2, 3, 4), more = unslice(flip(back, 0b110), 1, 0, 2, 5);
  copy(more, true);
  convert(more, kFloat64);
  check_golden("views");
}
TEST_CASE("trace text: reductions, products, indices, lists") {
  const Deferred deferred;
  const Var a = iota({2, 3, 4}, kFloat16), b = iota({4, 5}, kFloat16), index = tensor<int64_t>({2, 1, 5}, std::vector<int64_t>(10, 2));
  const Var c = matmul(a, b);
  const Var s = sum(c, 0b101, true);
  const Var best = reduce(ReduceOp::argmax, c, 0b111, false), any = reduce(ReduceOp::any, index, 0, false);
  const Var joined = cat({c, iota({2, 1, 5}), c}, 1);
  const Var picked = gather(c, 1, index);
  const Var put = scatter_add(c, 1, index, picked), over = scatter(put, 2, index, picked);
  const Var run = cumsum(index, 2), up = sort(joined, 1, false), order = argsort(up, 2, true);
  check_golden("structural");
}
TEST_CASE("trace text: sources") {
  const Deferred deferred;
  set_random_seed(42);
  const Var a = full({2, 0, 1}, true, kBool), b = full({}, -0.5, kFloat16), c = full({3}, 7, kFloat64), d = arange(3, -1, 5, kInt16), e = arange(0.0, 0.25, 4, kFloat32);
  const Var u = random_uniform({3}, kFloat32), n = random_normal({3, 2}, kBFloat16), i = random_integer({}, -5, 10, kInt64);
  check_golden("sources");
}

// ---- round trip ---------------------------------------------------------------------------------------------------------
TEST_CASE("trace text: numbers keep their bits") {
  const Deferred deferred;
  const Var x = iota({2});
  std::mt19937_64 random(8);
  std::vector<double> values{0.0, -0.0, 0.1, 1e308, 5e-324, -1e-310, 1e23, double(INFINITY), -double(INFINITY), double(NAN), -double(NAN), 3.0, 1e15, 1e16, 123456789012345678.0};
  for (int k = 0; k < 300; ++k) values.push_back(__builtin_bit_cast(double, random()));
  values.push_back(__builtin_bit_cast(double, uint64_t(0x7ff0000000000001)));
  std::vector<Var> keep;
  for (double v : values) keep.push_back(mul(x, v));
  for (int64_t v : {INT64_MIN, INT64_MAX, int64_t(0), int64_t(-1), int64_t(1) << 53}) keep.push_back(mul(x, v));
  keep.push_back(mul(x, true)), keep.push_back(mul(x, false));
  keep.push_back(full({2}, double(NAN), kFloat32)), keep.push_back(arange(-0.0, 1e-320, 3, kFloat64));
  check_round_trip(open_trace());
  const std::string s = text(open_trace());
  for (const char* part : {" %0, -0.0\n", " %0, 0.1\n", " %0, inf\n", " %0, nan\n", " %0, floating:0x7ff0000000000001\n", " %0, -9223372036854775808\n", " %0, true\n", " (nan, 2)\n"}) {
    INFO(part << "\n" << s);
    CHECK(s.find(part) != std::string::npos);
  }
}

TEST_CASE("trace text: what the recorder would not write") {
  const Deferred deferred;
  const Var x = iota({4, 3}), y = iota({4, 3});
  const Var z = add(mul(x, y), 2.0), part = slice(z, 0, 1, 2), c = cat({x, y}, 0);
  const std::string before = text(open_trace());
  const std::function<void(Trace&)> changes[] = {
      [](Trace& t) { t.args.insert(t.args.begin(), 77), t.nodes[3].call.arg += 1, t.nodes[4].call.arg += 1; },
      [](Trace& t) { t.args.push_back(5), t.args.push_back(~0ull); },
      [](Trace& t) { t.lists.push_back(1), t.lists.push_back(999); },
      [](Trace& t) { t.lists.insert(t.lists.begin(), {4, 0}), t.nodes[5].call.in[0] = 2; },
      [](Trace& t) { t.new_size(9), t.new_size(10, true); },
      [](Trace& t) { t.derived[2] = 1; },
      [](Trace& t) { t.name[2] = axis_label(1, nullptr), t.name[3] = axis_label(65535, nullptr); },
      [](Trace& t) { t.nodes[2].call.attr = 12345; },
      [](Trace& t) { t.nodes[2].call.kind = 0x55; },
      [](Trace& t) { t.nodes[4].call.attr = 9; },
      [](Trace& t) { t.nodes[2].call.mode = 0xf1; },
      [](Trace& t) { t.nodes[0].call.mode = 1; },
      [](Trace& t) { t.nodes[2].call.mode = in_place | new_leaf; },
      [](Trace& t) { t.nodes[2].result.flags = 7; },
      [](Trace& t) { t.nodes[0].result.compute = kFloat64; },
      [](Trace& t) { t.nodes[0].call.attr = 0x107; },
      [](Trace& t) { t.nodes[0].call.kind = 200; },
      [](Trace& t) { t.nodes[2].result.size_end = 40; },
      [](Trace& t) { t.nodes[2].result.join_end = 0; },
      [](Trace& t) { t.nodes[1].call.arg = 17; },
      [](Trace& t) { t.nodes[4].call.arg = 0, t.args.resize(3), t.args[0] = value_word(2.0); },
  };
  int number = 0;
  for (const auto& change : changes) {
    INFO("change " << number++);
    const TraceRef t = parse_trace(before);
    change(*t);
    CHECK(text(*t) != before);
    check_round_trip(*t);
  }
}

TEST_CASE("trace text: printing a broken trace does not fail") {
  const Deferred deferred;
  const Var x = iota({4, 3}), z = add(mul(x, 2.0), x), c = cat({x, z}, 0), v = reshape(c, {24}), s = sum(c, 1, true);
  std::mt19937_64 random(20);
  const std::string before = text(open_trace());
  for (int k = 0; k < 3000; ++k) {
    const TraceRef t = parse_trace(before);
    for (int changes = 1 + int(random() % 3); changes-- > 0;) {
      unsigned char* bytes = reinterpret_cast<unsigned char*>(&t->nodes[random() % t->nodes.size()]);
      bytes[random() % 56] = uint8_t(random() >> random() % 8);
      if (random() % 8 == 0) t->args.resize(random() % 3);
      if (random() % 8 == 0) t->lists.resize(random() % 2);
      if (random() % 8 == 0) t->extent.resize(2 + random() % 3), t->parent.resize(2 + random() % 3);
    }
    CHECK(!text(*t).empty());
    // And whatever stands there, the verifier returns: it is a valid trace, or an internal error.
    try {
      verify(*t);
    } catch (const InternalError&) {
    }
  }
}

namespace {
// Records random ops over a pool of matrices.
struct RandomTrace {
  std::mt19937_64 random;
  std::vector<Var> pool, keep;
  uint64_t below(uint64_t n) { return random() % n; }
  const Var& any() { return pool[below(pool.size())]; }
  Var alike(const Var& a) {  // of a's shape, or to be broadcast to it
    for (int tries = 0; tries < 20; ++tries) {
      const Var& b = any();
      if (sizes_of(b) == sizes_of(a)) return b;
    }
    return full({sizes_of(a)[1]}, 1.5, kFloat32);
  }
  Operand operand(const Var& a, Var& hold) {
    switch (below(4)) {
      case 0: return Operand(Number(double(int64_t(random()) % 100) / 8));
      case 1: return below(2) ? Operand(3) : Operand(true);
      default: hold = alike(a); return Operand(hold);
    }
  }
  void pointwise() {
    const Op op = Op(below(uint64_t(Op::count)));
    const OpRow& r = row(op);
    if (r.kind != RowKind::pointwise || r.type == TypeRule::assign) return;
    const Var a = any();
    Var b, c;
    if (r.inputs == 1) pool.push_back(emit_pointwise(op, {a}));
    else if (r.inputs == 2) pool.push_back(emit_pointwise(op, {a, operand(a, b)}));
    else pool.push_back(emit_pointwise(op, {op == Op::where ? gt(a, 0.0) : a, operand(a, b), operand(a, c)}));
  }
  void in_place_op() {
    Var a = any();
    if (a.cell()->flags & gradient_leaf || !is_floating(dtype_of(a)) || a.cell()->base) return;
    Var b = alike(a), target = below(2) ? a : slice(a, 0, 0, sizes_of(a)[0]);
    if (target.cell() != a.cell() || b.cell() != a.cell()) emit_pointwise_(Op::add, target, {b});
    keep.push_back(target);
  }
  void structural() {
    const Var a = any();
    const int64_t m = sizes_of(a)[0], n = sizes_of(a)[1];
    const int axis = int(below(2));
    switch (below(16)) {
      case 14: {
        const Var image = reshape(a, {1, 1, m, n}), kernel = full({2, 1, 1, 2}, 0.5, dtype_of(a));
        if (n < 2) break;
        const std::vector<WindowAxis> axes{{1, 1, 1, 0}, {2, 1, 0, 1}};
        const Var y = convolution(image, kernel, axes, 1);
        keep.push_back(below(2) ? convolution_input(y, kernel, axes, 1, {m, n}) : convolution_weight(y, image, axes, 1, {1, 2}));
        break;
      }
      case 15: keep.push_back((below(2) ? pool_max : pool_argmax)(reshape(a, {1, m, n}), {{2, 1, 1, 1, n}})); break;
      case 0: pool.push_back(transpose(a, 0, 1)); break;
      case 1: if (m > 1) pool.push_back(slice(a, 0, 1, m - 1)); break;
      case 2: keep.push_back(select(a, axis, 0)); break;
      case 3: pool.push_back(reshape(a, {n, m})); break;
      case 4: pool.push_back(sum(a, 1 + below(3), true)); break;
      case 5: keep.push_back(reduce(ReduceOp(uint16_t(Op::sum) + below(8)), a, below(4), below(2))); break;
      case 6: if (dtype_of(a) != kBool) pool.push_back(matmul(a, transpose(a, 0, 1))); break;
      case 7: pool.push_back(cat({a, alike(a).cell() && below(2) ? a : a, a}, axis)); break;
      case 8: pool.push_back(flip(cumsum(a, axis), 1 + below(3))); break;
      case 9: pool.push_back(sort(a, axis, below(2))), pool.push_back(argsort(a, axis, below(2))); break;
      case 10: pool.push_back(unslice(a, axis, 1, 2, 2 * sizes_of(a)[size_t(axis)] + 1)); break;
      case 11: keep.push_back(undiagonal(diagonal(a, 0, 0, 1), 1, 0, 1, m + n, std::min(m, n) + 1)); break;
      case 12: {
        const Var index = full({1, n}, 0, kInt64);
        const Var picked = gather(a, 0, index);
        pool.push_back(below(2) ? scatter(a, 0, index, picked) : scatter_add(a, 0, index, picked));
        break;
      }
      default: pool.push_back(below(2) ? random_uniform({m, n}, kFloat32) : convert(a, Dtype(below(10)))); break;
    }
  }
  explicit RandomTrace(uint64_t seed, int steps) : random(seed) {
    for (int k = 0; k < 4; ++k) {
      const std::vector<int64_t> extents = k % 2 ? std::vector<int64_t>{3, 4} : std::vector<int64_t>{int64_t(below(3)) + 1, 4};
      pool.push_back(below(2) ? gradient_tensor(extents) : iota(extents, Dtype(below(10))));
    }
    for (int k = 0; k < steps; ++k) {
      recorder().mode = below(8) ? grad_mode : 0;
      try {
        below(2) ? pointwise() : below(5) ? structural() : in_place_op();
      } catch (const DtypeError&) {
      }
    }
    recorder().mode = grad_mode;
  }
};
}  // namespace

TEST_CASE("trace text: recorded traces come back and verify") {
  size_t nodes = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    const Deferred deferred;
    const RandomTrace recorded(seed, 30);
    check_round_trip(open_trace());
    REQUIRE_NOTHROW(verify(open_trace()));
    nodes += open_trace().nodes.size();
  }
  CHECK(nodes > 3000);
}

// ---- malformed text -------------------------------------------------------------------------------------------------------
TEST_CASE("trace text: errors name the line and what was expected") {
  const std::string start = "%0 = leaf f32[s2:4, s3:5]\n%1 = leaf f32[s4:4, s5:5]\n";
  const std::pair<const char*, const char*> cases[] = {
      {"%3 = neg f32[s2:4] %0", "line 3: expected node number 2, found \"3 = neg"},
      {"%2 = negate f32[s2:4] %0", "line 3: expected an op (there is none named \"negate\")"},
      {"%2 = neg f31[s2:4] %0", "line 3: expected an element type (got \"f31\")"},
      {"%2 = neg f32[s2:5] %0", "expected the extent 4 that s2 had before"},
      {"%2 = neg f32[s2:4, 3] %0", "expected 0, 1 or a size id, found \"3]"},
      {"%2 = neg f32[s2:-4] %0", "expected an extent"},
      {"%2 = neg f32[s70000:4] %0", "expected a size id from 2"},
      {"%2 = neg f32[s2*:4] %0", "expected s2 as it was before"},
      {"%2 = neg f32[s2:4@1] %0", "expected s2 as it was before"},
      {"%2 = neg f32[s2:4@0] %0", "expected the number of an axis name"},
      {"%2 = neg f32[s1:1] %0", "expected a size id from 2"},
      {"%2 = neg f32[1, 1, 1, 1, 1, 1, 1, 1, 1] %0", "expected \"]\" after 8 extents"},
      {"%2 = neg f32[s2:4, s3:5] %2", "expected an earlier node, found \"2\""},
      {"%2 = neg f32[s2:4, s3:5]", "expected a number, found the end of the line"},
      {"%2 = add f32[s2:4, s3:5] %0", "expected \",\""},
      {"%2 = add f32[s2:4, s3:5] %0, 1.2.3", "expected a number"},
      {"%2 = add f32[s2:4, s3:5] %0, 99999999999999999999", "expected a number"},
      {"%2 = sum f32[s2:4] %0", "expected the axes of sum"},
      {"%2 = sum f32[s2:4] %0 axes=[8]", "expected an axis"},
      {"%2 = sum f32[s2:4] %0 axis=1", "expected another word than \"axis\""},
      {"%2 = sum f32[s2:4] 1.0 axes=[1]", "expected an operand"},
      {"%2 = permute f32[s3:5, s2:4] %0 axes=[1]", "expected no such axes of permute"},
      {"%2 = slice f32[s2:4, s3:5] %0 (1, 2) axis=0", "expected 3 arguments of slice (there are 2)"},
      {"%2 = slice f32[s2:4, s3:5] %0 (1, 2, 3", "expected \",\", found the end of the line"},
      {"%2 = full f32[s2:4] (true)", "expected 2 arguments of full"},
      {"%2 = arange f32[s2:4] (1, 1.5, 4)", "expected numbers of one category"},
      {"%2 = neg f32[s2:4, s3:5] %0 kind=256", "expected a kind"},
      {"%2 = neg f32[s2:4, s3:5] %0 fast", "expected \"=\""},
      {"%2 = neg f32[s2:4, s3:5] %0 grad=1", "expected "},
      {"%2 = add f32[s2:4, s3:5] %0, 1.0 at=9", "expected a slot that follows"},
      {"%2 = cat f32[s2:4, s3:5] [%0, %9] axis=0", "expected an earlier node"},
      {"%2 = cat f32[s2:4, s3:5] [%0, %1] axis=0 list=1", "expected a slot of the lists"},
      {"%2 = write_view f32[s2:4, s3:5] %0, %1 (slices, 1, 0)", "expected an op"},
      {"%2 = write_view f32[s2:4, s3:5] %0, %1 (slice, 1, 9223372036854775807)", "arguments of write_view"},
      {"join s4 = s9", "expected a join"},
      {"join s4 = s60000", "expected a join"},  // far beyond the table
      {"join s2 = s4", "expected a join"},
      {"join s3 = s2", "expected a join"},
      {"%2 = neg f32[s7:4] %0", "expected the extent of size id s6"},
      {"words 1", "expected \"(\""},
      {"hello", "expected \"%\", \"words\", \"nodes\", \"size\" or \"join\", found \"hello\""},
      {"join s4 = s2 s3", "expected the end of the line"},
  };
  for (const auto& [line, wanted] : cases) {
    INFO(line);
    const std::string error = parse_error(start + line + "\n");
    CHECK(error.find("trace text, line 3: expected ") == 0);
    CHECK(error.find(wanted) != std::string::npos);
  }
  CHECK(parse_error("%0 = neg f32[] %0").find("this is the first node") != std::string::npos);
  CHECK(parse_error("%0 = cat f32[1] [%0] axis=0").find("this is the first node") != std::string::npos);
  CHECK(parse_error(start + "  # a comment\n\njoin s4 = s2  # and another").empty());
  CHECK(parse_error("").empty());
}

TEST_CASE("trace text: mutated text is refused or is another trace") {
  std::mt19937_64 random(31);
  std::vector<std::string> texts;
  for (uint64_t seed = 500; seed < 510; ++seed) {
    const Deferred deferred;
    const RandomTrace recorded(seed, 12);
    texts.push_back(text(open_trace()));
  }
  int accepted = 0, verified = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string s = texts[random() % texts.size()];
    for (int changes = 1 + int(random() % 3); changes-- > 0;) {
      const size_t at = random() % s.size();
      switch (random() % 5) {
        case 0: s[at] = char(random()); break;
        case 1: s.erase(at, 1 + random() % 4); break;
        case 2: s.insert(at, 1, "0123456789%s[](),=-.: \n"[random() % 23]); break;
        case 3: s.insert(at, s.substr(random() % s.size(), random() % 20)); break;
        default: s[at] = char('0' + random() % 10); break;
      }
    }
    try {
      const TraceRef t = parse_trace(s);
      ++accepted;
      const std::string again = text(*t);
      if (text(*parse_trace(again)) != again) FAIL(s << "\nprinted as\n" << again);
      verify(*t);
      ++verified;
    } catch (const ValueError& e) {
      REQUIRE(std::string(e.what()).find("trace text, line ") == 0);
    } catch (const InternalError&) {
    }
  }
  CHECK(accepted > 100);
  CHECK(verified < accepted);
}

// ---- the verifier -----------------------------------------------------------------------------------------------------------
namespace {
std::string verify_error(const Trace& t) {
  try {
    verify(t);
  } catch (const InternalError& e) {
    return e.what();
  }
  return "";
}
}  // namespace

TEST_CASE("verifier: a fault in any node's result is found") {
  const Deferred deferred;
  const RandomTrace recorded(4, 60);
  const std::string good = text(open_trace());
  const size_t nodes = open_trace().nodes.size();
  REQUIRE(verify_error(open_trace()).empty());
  const std::pair<const char*, std::function<bool(Node&)>> faults[] = {
      {"dtype", [](Node& n) { return n.result.dtype = n.result.dtype == kFloat32 ? kInt64 : kFloat32, true; }},
      {"compute", [](Node& n) { return n.result.compute = n.result.compute == kFloat64 ? kInt8 : kFloat64, true; }},
      {"rank", [](Node& n) { return n.result.size[n.result.rank++] = 1, true; }},
      {"less rank", [](Node& n) { return n.result.rank-- > 0; }},
      {"size", [](Node& n) { return n.result.rank > 0 && (n.result.size[0] = SizeId(n.result.size[0] == 2 ? 3 : 2), true); }},
      {"size out of range", [](Node& n) { return n.result.rank > 0 && (n.result.size[0] = 60000, true); }},
      {"gradient", [](Node& n) { return n.result.flags ^= wants_grad, true; }},
      {"flags", [](Node& n) { return n.result.flags |= 4, true; }},
      {"size ids made", [](Node& n) { return ++n.result.size_end, true; }},
      {"joins made", [](Node& n) { return ++n.result.join_end, true; }},
      {"a fourth operand", [](Node& n) { return n.call.in[3] = 0, row(n.call.op).inputs >= 0; }},
      {"an operand out of range", [](Node& n) { return n.call.in[0] = 500000, row(n.call.op).inputs != 0; }},
      {"no operand", [](Node& n) { return n.call.in[0] = no_node, row(n.call.op).inputs != 0; }},
      {"op", [](Node& n) { return n.call.op = Op(9999), true; }},
      {"axis", [](Node& n) { return n.call.attr = 200, (row(n.call.op).kind == RowKind::view && n.call.op != Op::reshape) || row(n.call.op).kind == RowKind::library || row(n.call.op).kind == RowKind::cat; }},
      {"kind", [](Node& n) { return n.call.kind ^= 1, row(n.call.op).type == TypeRule::kind || n.call.op == Op::leaf; }},
      {"arguments", [](Node& n) { return n.call.arg = 1000000, n.call.op == Op::slice || n.call.op == Op::select || n.call.op == Op::unslice || n.call.op == Op::full; }},
  };
  std::vector<int> planted(std::size(faults));
  for (uint32_t n = 0; n < nodes; ++n)
    for (size_t k = 0; k < std::size(faults); ++k) {
      const TraceRef t = parse_trace(good);
      if (!faults[k].second(t->nodes[n])) continue;
      ++planted[k];
      INFO("node " << n << ", " << faults[k].first << "\n" << good);
      const std::string error = verify_error(*t);
      REQUIRE(error.find("verify: ") == 0);
      CHECK(error.find("\n  in %") != std::string::npos);
      CHECK(error.find("The trace:\n%0 = ") != std::string::npos);
    }
  for (size_t k = 0; k < std::size(faults); ++k) {
    INFO(faults[k].first);
    CHECK(planted[k] > 0);
  }
}

TEST_CASE("verifier: faults in order, arguments and size ids") {
  const std::string good =
      "%0 = leaf f32[s2:4, s3:6]\n"
      "%1 = leaf f32[s4:4, s5:6]\n"
      "%2 = mul f32[s2:4, s3:6] %0, %1 joins=2\n"
      "%3 = slice f32[s6:2, s3:6] %2 (1, 2, 2) axis=0\n"
      "%4 = select f32[s3:6] %3 (1) axis=0\n"
      "%5 = reshape f32[s7*:3, s8*:8] %2 (3, 8) groups=[0, 0] -> [0, 0]\n"
      "%6 = diagonal f32[s9:3] %2 (3, 3) axes=[0, 1]\n"
      "%7 = undiagonal f32[s10:5, s11:3] %6 (-2, 5, 3) axes=[0, 1]\n"
      "%8 = unslice f32[s12:8, s3:6] %0 (1, 2, 8) axis=0\n"
      "%9 = cat f32[s13*:8, s3:6] [%0, %1] axis=0\n"
      "%10 = permute f32[s3:6, s2:4] %0 axes=[1, 0]\n"
      "%11 = mul f32[s6:2, s3:6] %3, 3.0 in_place\n"
      "%12 = write_view f32[s2:4, s3:6] %2, %11 (slice, 0, 3, 1, 2, 2) in_place\n"
      "join s4 = s2\njoin s5 = s3\n";
  REQUIRE(verify_error(*parse_trace(good)).empty());
  const std::tuple<const char*, const char*, const char*> faults[] = {
      {"(1, 2, 2) axis=0\n", "(1, 2, 3) axis=0\n", "the slice is out of range"},
      {"(1, 2, 2) axis=0\n", "(-1, 2, 2) axis=0\n", "the slice is out of range"},
      {"(1, 2, 2) axis=0\n", "(0, 3, 1) axis=0\n", "axis 0 should be size id"},
      {"%3 (1) axis=0", "%3 (2) axis=0", "the index is out of range"},
      {"(3, 8) groups", "(3, 7) groups", "a group of axes changes its number of elements"},
      {"s7*:3, s8*:8] %2 (3, 8)", "s7*:8, s8*:3] %2 (3, 8)", "axis 0 should be size id 7 of extent 3"},
      {"[0, 0] -> [0, 0]", "[0, 1] -> [0, 1]", "a group of axes changes its number of elements"},
      {"(3, 3) axes=[0, 1]", "(2, 3) axes=[0, 1]", "the diagonal's length is wrong"},
      {"(3, 3) axes=[0, 1]", "(3, 3) axes=[0, 0]", "the two axes are not two"},
      {"(-2, 5, 3)", "(-2, 4, 3)", "the diagonal's length is wrong"},
      {"%0 (1, 2, 8)", "%0 (2, 2, 8)", "the slice is out of range"},
      {"s13*:8, s3:6] [%0, %1]", "s13*:9, s3:6] [%0, %1]", "axis 0 should be size id 13 of extent 8"},
      {"s13*:8, s3:6] [%0, %1]", "s13*:8, s5:6] [%0, %1]", "axis 1 should be size id 3"},
      {"[%0, %1] axis=0", "[%0, %1] axis=2", "the axis is out of range"},
      {"[%0, %1] axis=0", "[%0, %4] axis=0", "its shape rule refuses it"},
      {"[%0, %1] axis=0", "[] axis=0", "the list of operands"},
      {"axes=[1, 0]\n", "axes=[1, 1]\n", "the axes are no permutation"},
      {"(slice, 0, 3, 1, 2, 2)", "(slice, 0, 3, 1, 1, 2)", "the recipe's extents are not those of the written view"},
      {"(slice, 0, 3, 1, 2, 2)", "(slice, 1, 3, 1, 2, 2)", "the recipe's extents"},
      {"(slice, 0, 3, 1, 2, 2)", "(slice, 0, 3, 3, 2, 2)", "the recipe does not fit its base"},
      {"(slice, 0, 3, 1, 2, 2)", "(neg, 0, 3, 1, 2, 2)", "the recipe is no view"},
      {"join s5 = s3\n", "", "size id s5 should be joined with s3"},
      {"%0, %1 joins=2", "%0, %1 joins=1", "the count of joins is wrong"},
      {"%2 (3, 8) groups", "%2 (3, 8) sizes=12 groups", "the count of size ids is wrong"},
      {"join s4 = s2", "size s14:5\njoin s4 = s2", "there are size ids that no node makes"},
      {"join s5 = s3\n", "join s7 = s6\n", "expected a join"},
      {"s13*:8", "s13:8", "size id s13 should be derived"},
      {"s9:3]", "s9*:3]", "size id s9 should not be derived"},
      {"join s5 = s3\n", "join s12 = s8\n", "size id s5 should be joined with s3"},
      {"%3, 3.0 in_place", "%3, 3.0 in_place grad", "it should not want a gradient"},
      {"%0, %1 joins=2", "%0, %1 joins=2 compute=f64", "it should compute in float32"},
      {"%3, 3.0 in_place", "3.0, %3 in_place", "what it writes in place is no tensor"},
      {"mul f32[s6:2, s3:6] %3, 3.0 in_place", "assign f32[s6:2, s3:6] %3, 3.0", "assign is not in place"},
      {"%3, 3.0 in_place", "1.0, 3.0", "all operands are numbers"},
      {"s4:4, s5:6]", "s4:4, s5:5]", "expected a join"},
  };
  for (const auto& [part, by, wanted] : faults) {
    std::string s = good;
    const size_t at = s.find(part);
    REQUIRE(at != std::string::npos);
    s.replace(at, std::string(part).size(), by);
    INFO(part << " -> " << by);
    std::string error = parse_error(s);
    if (error.empty()) error = verify_error(*parse_trace(s));
    INFO(error);
    CHECK(error.find(wanted) != std::string::npos);
  }
  // What text cannot say.
  const std::pair<std::function<void(Trace&)>, const char*> more[] = {
      {[](Trace& t) { t.nodes[2].call.in[1] = 2; }, "an operand does not come before its node"},
      {[](Trace& t) { t.nodes[2].call.in[1] = 7; }, "an operand does not come before its node"},
      {[](Trace& t) { t.lists[1] = 9; }, "an operand does not come before its node"},
      {[](Trace& t) { t.nodes[10].call.in[1] = scalar_operand; }, "more operands"},
      {[](Trace& t) { t.nodes[10].call.in[0] = scalar_operand; }, "a number where none can be"},
      {[](Trace& t) { std::swap(t.nodes[2], t.nodes[3]); }, "an operand does not come before its node"},
      {[](Trace& t) { t.extent[4] = 5; }, "was joined with another extent"},
      {[](Trace& t) { t.extent[6] = 1; }, "has an extent below 2"},
      {[](Trace& t) { t.derived.clear(); }, "the size ids' tables differ in length"},
      {[](Trace& t) { t.name.push_back(0); }, "the size ids' tables differ in length"},
      {[](Trace& t) { t.extent[0] = 2; }, "size ids 0 and 1"},
      {[](Trace& t) { t.parent[3] = 5; }, "no earlier size id"},
      {[](Trace& t) { t.parent[5] = 1; }, "no earlier size id"},
      {[](Trace& t) { t.joins = 1; }, "the count of joins is wrong"},
      {[](Trace& t) { t.extent.pop_back(); }, "the size ids' tables differ in length"},
      {[](Trace& t) { t.args.clear(); }, "the arguments are out of their table"},
  };
  for (const auto& [fault, wanted] : more) {
    const TraceRef t = parse_trace(good);
    fault(*t);
    const std::string error = verify_error(*t);
    INFO(error);
    CHECK(error.find(wanted) != std::string::npos);
  }
}

TEST_CASE("recorder: a call that fails leaves no size ids, joins or list entries behind") {
  const Deferred deferred;
  const Var a = iota({2, 3}), b = iota({2, 4}), c = iota({2, 3, 4}), d = iota({5, 4, 2});
  CHECK_THROWS_AS(add(a, b), ShapeError);
  CHECK_THROWS_AS(add(a, iota({3, 3})), ShapeError);
  CHECK_THROWS_AS(matmul(c, d), ShapeError);
  CHECK_THROWS_AS(cat({a, iota({2, 3}), b}, 0), ShapeError);
  CHECK_THROWS_AS(add(iota({3, 4, 7}), iota({5, 4, 7})), ShapeError);
  CHECK(open_trace().lists.empty());
  CHECK(open_trace().joins == 0);
  CHECK(verify_error(open_trace()).empty());
}
