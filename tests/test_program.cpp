// Block programs: sharing in the builder, the text form, and every rule of the verifier (each broken once).
#include <catch2/catch.hpp>

#include <functional>
#include <random>

#include "kernels/program.h"
#include "tests/support/program_random.h"

using namespace frit;
using namespace frit::kernels;

namespace {

// softmax over the rows of [n0, n1]
Program softmax() {
  ProgramBuilder b("softmax_f32");
  const Value x = b.pointer(Dtype::Float32), y = b.pointer(Dtype::Float32, true), rows = b.integer(), columns = b.integer();
  const int row = b.axis(AxisKind::grid, rows), column = b.axis(AxisKind::block, columns);
  const Value offset = b.add(b.mul(b.index(row), columns), b.index(column));
  const Value v = b.load(x, offset);
  const Value top = b.reduce(Reduce::max, v, column);
  scalar::Builder s;
  const scalar::Expr d = s.input(0, Dtype::Float32) - s.input(1, Dtype::Float32);
  const scalar::Function exp = s.finish({1.0 / (1.0 - d * (1.0 - d * 0.5))});  // near enough for a test of structure
  const Value e = b.expand(exp, {v, top}, {})[0];
  b.store(y, offset, b.apply(Prim::div, Dtype::Float32, {e, b.reduce(Reduce::sum, e, column)}));
  return b.finish();
}

Program everything() {
  ProgramBuilder b("everything");
  const Value h = b.pointer(Dtype::Float16), out = b.pointer(Dtype::Int64, true), n = b.integer(), scale = b.number(Dtype::Float32);
  b.number(Dtype::Bool);  // a parameter that nothing uses keeps its place
  const Value twice = b.mul(n, b.integer_constant(2));
  b.axis(AxisKind::grid, n);
  b.axis(AxisKind::sequential, twice);
  const int i = b.axis(AxisKind::block, n), j = b.axis(AxisKind::block, twice);
  const Value mask = b.apply(Prim::lt, Dtype::Bool, {b.index(i), b.index(j)});
  const Value v = b.load(h, b.index(j), mask, b.constant(-0.0, Dtype::Float32));
  const Value product = b.mul(v, scale);
  const Value s = b.reduce(Reduce::sum, product, j, mask, Order::lanes, true);
  const Value p = b.reduce(Reduce::prod, b.apply(Prim::fma, Dtype::Float32, {v, scale, s}), j, {}, Order::pairwise);
  const Value any = b.reduce(Reduce::any, mask, j);
  const Value best = b.reduce(Reduce::argmax, b.apply(Prim::select, Dtype::Float32, {any, p, b.constant(0.1, Dtype::Float32)}, 1), i);
  b.store(out, b.index(0), b.add(best, b.convert(b.constant(200, Dtype::UInt8), Dtype::Int64)));
  b.store(out, b.index(i), b.convert(p, Dtype::Int64), b.reduce(Reduce::all, mask, j));
  return b.finish();
}

}  // namespace

TEST_CASE("block program: text round trip") {
  for (const Program& p : {softmax(), everything()}) {
    INFO(p.text());
    verify(p);
    CHECK(parse_program(p.text()) == p);
    CHECK(parse_program(p.text()).text() == p.text());
  }
  CHECK(parse_program("  # nothing\nprogram a # c\n\nparam 0 integer i64\n%0 = integer 0 : i64\n").instrs.size() == 1);
}

TEST_CASE("block program: constants keep their bits in text") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    Program p;
    p.name = "c";
    Instr i;
    const Dtype types[] = {Dtype::Bool, Dtype::UInt8, Dtype::Int8, Dtype::Int16, Dtype::Int32, Dtype::Int64, Dtype::Float32, Dtype::Float64};
    i.dtype = types[random() % 8];
    i.imm = round % 3 == 0 ? random() : round % 3 == 1 ? random() % 300 : uint64_t(-int64_t(random() % 300));
    p.instrs.push_back(i);
    INFO(p.text());
    REQUIRE(parse_program(p.text()) == p);
  }
  for (double v : {0.1, -0.0, 1e-45, 3e38, double(INFINITY), double(NAN)}) {
    ProgramBuilder b("c");
    const Value n = b.integer();
    const Value c = b.constant(v, Dtype::Float32);
    b.axis(AxisKind::block, n);
    b.store(b.pointer(Dtype::Float32, true), b.index(0), c);
    const Program p = b.finish();
    INFO(p.text());
    CHECK(parse_program(p.text()) == p);
  }
}

TEST_CASE("block program: parse errors name the line") {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      parse_program(text);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  const std::string head = "program a\nparam 0 integer i64\n";
  CHECK(error_of(head + "%0 = integer 0 : i65\n").find("line 3") != std::string::npos);
  for (const char* bad : {"%1 = integer 0 : i64", "%0 = integre 0 : i64", "%0 = integer x : i64", "%0 = integer 0 i64", "%0 = integer 0 : i64 {9}",
                          "%0 = integer 0 : i64 {0", "%0 = integer 0 : i64 {} ", "%0 = integer 0 : i64 {0} 1", "%0 = constant : i64",
                          "%0 = constant 300 : u8", "%0 = constant 1.5 : i32", "%0 = constant 0xg : i32", "%0 = add %1 : i64", "axis 1 grid %0",
                          "axis 0 gird %0", "param 2 integer i64", "%0 = load %1 : f32", "%0 = reduce som %1 axis=0 : f32", "%0 = reduce sum %1 : f32",
                          "%99999 = integer 0 : i64", "%0 = add %70000 %0 : i64", "what"}) {
    INFO(bad);
    CHECK(error_of(head + bad + "\n").find("line 3") != std::string::npos);
  }
  CHECK_FALSE(error_of("").empty());
}

TEST_CASE("block program: equal pure instructions are shared, loads not across stores") {
  ProgramBuilder b("sharing");
  const Value x = b.pointer(Dtype::Float32, true), n = b.integer();
  b.axis(AxisKind::block, n);
  const Value i = b.index(0), one = b.constant(1, Dtype::Float32);
  CHECK(b.index(0).id == i.id);
  CHECK(b.constant(1, Dtype::Float32).id == one.id);
  CHECK(b.constant(1, Dtype::Float64).id != one.id);
  CHECK(b.constant(-0.0, Dtype::Float32).id != b.constant(0.0, Dtype::Float32).id);
  const Value a = b.load(x, i);
  CHECK(b.load(x, i).id == a.id);
  CHECK(b.add(a, one).id == b.add(a, one).id);
  CHECK(b.add(a, one).id != b.add(one, a).id);
  b.store(x, i, b.add(a, one));
  const Value again = b.load(x, i);
  CHECK(again.id != a.id);
  CHECK(b.load(x, i).id == again.id);
  b.store(x, i, b.add(again, one));
  b.mul(again, again);  // nothing needs it
  const Program p = b.finish();
  CHECK(p.text() ==
        "program sharing\nparam 0 pointer f32 written\nparam 1 integer i64\naxis 0 block %1\n%0 = pointer 0 : f32\n%1 = integer 1 : i64\n"
        "%2 = index 0 : i64 {0}\n%3 = constant 1 : f32\n%4 = load %0 %2 : f32 {0}\n%5 = add %4 %3 : f32 {0}\n%6 = store %0 %2 %5 : f32 {0}\n"
        "%7 = load %0 %2 : f32 {0}\n%8 = add %7 %3 : f32 {0}\n%9 = store %0 %2 %8 : f32 {0}\n");
}

TEST_CASE("block program: extents from arguments") {
  const Program p = everything();
  const Slot args[] = {0, 0, 21, 0, 0};
  CHECK(extents(p, args) == std::vector<int64_t>{21, 42, 21, 42});
}

TEST_CASE("block program: the verifier refuses each broken rule") {
  const Program good = everything();
  verify(good);
  const auto find = [&](Op op, int nth = 0) {
    for (size_t k = 0; k < good.instrs.size(); ++k)
      if (good.instrs[k].op == op && nth-- == 0) return k;
    throw std::logic_error("no such instruction");
  };
  const auto find_prim = [&](Prim prim) {  // the last one
    for (size_t k = good.instrs.size(); k-- > 0;)
      if (good.instrs[k].op == Op::scalar && good.instrs[k].prim == prim) return k;
    throw std::logic_error("no such primitive");
  };
  const size_t load = find(Op::load), store = find(Op::store), reduce = find(Op::reduce), select = find_prim(Prim::select), pointer = find(Op::pointer),
               mul = find_prim(Prim::mul), constant = find_prim(Prim::constant), convert = find_prim(Prim::convert), less = find_prim(Prim::lt);
  const std::vector<std::pair<const char*, std::function<void(Program&)>>> breaks = {
      {"C identifier", [&](Program& p) { p.name = "a b"; }},
      {"C identifier", [&](Program& p) { p.name = "9"; }},
      {"C identifier", [&](Program& p) { p.name = ""; }},
      {"integer parameter", [&](Program& p) { p.params[2].dtype = Dtype::Int32; }},
      {"number parameter", [&](Program& p) { p.params[3].dtype = Dtype::Float16; }},
      {"only a pointer is written", [&](Program& p) { p.params[2].written = true; }},
      {"more than 8 axes", [&](Program& p) { p.axes.resize(9, p.axes.back()); }},
      {"extent is not a value", [&](Program& p) { p.axes[0].extent = no_value; }},
      {"come before block", [&](Program& p) { p.axes[2].kind = AxisKind::grid, p.axes[1].kind = AxisKind::block; }},
      {"uniform Int64", [&](Program& p) { p.axes[0].extent = Id(load); }},
      {"more than arguments", [&](Program& p) { p.axes[1].extent = Id(find(Op::index, 2)); }},
      {"operand is missing", [&](Program& p) { p.instrs[load].in[1] = no_value; }},
      {"too many operands", [&](Program& p) { p.instrs[mul].in[2] = p.instrs[mul].in[0]; }},
      {"earlier value", [&](Program& p) { p.instrs[mul].in[0] = Id(mul); }},
      {"first operand of load", [&](Program& p) { p.instrs[load].in[0] = p.instrs[load].in[1]; }},
      {"first operand of load", [&](Program& p) { p.instrs[mul].in[0] = Id(pointer); }},
      {"store has no value", [&](Program& p) { p.instrs.back().in[2] = Id(store); }},
      {"no such parameter", [&](Program& p) { p.instrs[pointer].imm = 77; }},
      {"another kind", [&](Program& p) { p.instrs[pointer].imm = 2; }},
      {"has a primitive", [&](Program& p) { p.instrs[load].prim = Prim::add; }},
      {"has a kind", [&](Program& p) { p.instrs[load].fused = true; }},
      {"no such axis", [&](Program& p) { p.instrs[find(Op::index)].imm = 8; }},
      {"compute type", [&](Program& p) { p.instrs[load].dtype = Dtype::Float16; }},
      {"dtype is not what follows", [&](Program& p) { p.instrs[reduce].dtype = Dtype::Float64; }},
      {"axes are not what follows", [&](Program& p) { p.instrs[load].axes = 0; }},
      {"no immediate", [&](Program& p) { p.instrs[load].imm = 1; }},
      {"no immediate", [&](Program& p) { p.instrs[store].imm = 1; }},
      {"no immediate", [&](Program& p) { p.instrs[mul].imm = 1; }},
      {"offset is Int64", [&](Program& p) { p.instrs[load].in[1] = p.instrs[load].in[3]; }},
      {"mask is Bool", [&](Program& p) { p.instrs[load].in[2] = p.instrs[load].in[3]; }},
      {"only with a mask", [&](Program& p) { p.instrs[load].in[2] = no_value; }},
      {"`other` has", [&](Program& p) { p.instrs[load].in[3] = p.instrs[load].in[2]; }},
      {"stored value", [&](Program& p) { p.instrs[store].in[2] = Id(load); }},
      {"marked written", [&](Program& p) { p.params[1].written = false; }},
      {"reduced axis is a block axis", [&](Program& p) { p.instrs[reduce].imm = 0; }},
      {"does not vary along", [&](Program& p) { p.instrs[reduce].in[0] = Id(find(Op::number)), p.instrs[reduce].in[1] = no_value; }},
      {"any and all take Bool", [&](Program& p) { p.instrs[reduce].kind = Reduce::any, p.instrs[reduce].fused = false; }},
      {"only any and all", [&](Program& p) { p.instrs[reduce].in[0] = p.instrs[reduce].in[1]; }},
      {"is fused", [&](Program& p) { p.instrs[reduce].kind = Reduce::max; }},
      {"is fused", [&](Program& p) { p.instrs[reduce].in[0] = Id(load); }},
      {"input and param", [&](Program& p) { p.instrs[constant].prim = Prim::input; }},
      {"one numeric type", [&](Program& p) { p.instrs[mul].in[1] = Id(less); }},
      {"select takes", [&](Program& p) { p.instrs[select].in[0] = p.instrs[select].in[1]; }},
      {"bitcast joins", [&](Program& p) { p.instrs[convert].prim = Prim::bitcast; }},
      {"comparison takes", [&](Program& p) { p.instrs[less].dtype = Dtype::Int64; }},
      {"takes integers", [&](Program& p) { p.instrs[mul].prim = Prim::shl; }},
      {"takes floats", [&](Program& p) { p.instrs[find_prim(Prim::fma)].dtype = Dtype::Int64; }},
      {"integers or Bool", [&](Program& p) { p.instrs[mul].prim = Prim::bit_xor; }},
      {"mulhi_u32 takes", [&](Program& p) { p.instrs[mul].prim = Prim::mulhi_u32; }},
      {"no such table", [&](Program& p) { p.instrs[convert].prim = Prim::table, p.instrs[convert].imm = 1u << 20; }},
  };
  for (const auto& [what, apply] : breaks) {
    Program p = good;
    apply(p);
    const std::string message = test::refusal(p);
    INFO("expected: " << what << "\ngot: " << message);
    CHECK(message.find(what) != std::string::npos);
    CHECK(message.find("program ") != std::string::npos);
  }
}
