// The text form of block programs, one line an instruction:
//
//   program scale
//   param 0 pointer f32
//   param 1 pointer f32 written
//   param 2 integer i64
//   param 3 number f32
//   axis 0 block %2
//   %0 = pointer 0 : f32
//   …
//   %4 = index 0 : i64 {0}
//   %5 = load %0 %4 : f32 {0}
//   %6 = mul %5 %3 : f32 {0}
//   %7 = store %1 %4 %6 : f32 {0}
//
// After the colon stand the result's dtype and, in braces, the block axes it varies along. `mask=%n` and `other=%n` name
// the optional operands of load, store and reduce; `reduce sum %5 axis=0 [mask=%n] [pairwise] [fused]`; `dot %5 %6 axis=1
// [to=%7]`, `carry %5 axis=3`, `next %8 %9`, `last %8`; a select whose
// first value is rarely chosen ends in `rare`; constants are decimal where that gives back the same bits, else 0x and the
// bits. '#' starts a comment. Parsing accepts any program that can be written so; verify() is a step of its own.
// Program::text prints, TextReader parses.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "kernels/program.h"

namespace frit::kernels {
namespace {

const char* const op_names[] = {"pointer", "integer", "number", "scalar", "index", "load", "store", "reduce", "dot", "carry", "next", "last"};
const char* const reduce_names[] = {"sum", "prod", "max", "min", "argmax", "argmin", "any", "all"};
const char* const axis_names[] = {"grid", "sequential", "block", "loop"};
const char* const param_names[] = {"pointer", "integer", "number"};

// ---- constants ----------------------------------------------------------------------------------------------------

std::string hex(uint64_t bits) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(bits));
  return text;
}

template <class T> std::string shortest(T value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

std::string decimal(uint64_t bits, Dtype d) {
  switch (d) {
    case Dtype::Bool:
    case Dtype::UInt8: return std::to_string(uint8_t(bits));
    case Dtype::Int8: return std::to_string(int8_t(bits));
    case Dtype::Int16: return std::to_string(int16_t(bits));
    case Dtype::Int32: return std::to_string(int32_t(bits));
    case Dtype::Int64: return std::to_string(int64_t(bits));
    case Dtype::Float32: {
      float f;
      const uint32_t word = uint32_t(bits);
      std::memcpy(&f, &word, 4);
      return std::isfinite(f) ? shortest(f) : "";
    }
    case Dtype::Float64: {
      double f;
      std::memcpy(&f, &bits, 8);
      return std::isfinite(f) ? shortest(f) : "";
    }
    default: return "";
  }
}

template <class T> bool parse_all(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Decimal text to the bits that scalar.h defines for the type; false when it is not a number of that type.
bool decimal_bits(const std::string& text, Dtype d, uint64_t& bits) {
  bits = 0;
  if (d == Dtype::Float32) {
    float f;
    if (!parse_all(text, f)) return false;
    std::memcpy(&bits, &f, 4);
    return true;
  }
  if (d == Dtype::Float64) {
    double f;
    if (!parse_all(text, f)) return false;
    std::memcpy(&bits, &f, 8);
    return true;
  }
  int64_t v;
  if (is_half(d) || !parse_all(text, v)) return false;
  bits = uint64_t(v);
  return decimal(bits, d) == std::to_string(v);
}

std::string constant_text(uint64_t bits, Dtype d) {
  const std::string text = decimal(bits, d);
  uint64_t back;
  return !text.empty() && decimal_bits(text, d, back) && back == bits ? text : hex(bits);
}

// ---- printing -----------------------------------------------------------------------------------------------------

std::string operand(Id id) { return id == no_value ? "_" : "%" + std::to_string(id); }

void print_optional(std::string& out, const char* name, Id id) {
  if (id != no_value) out += std::string(" ") + name + "=" + operand(id);
}

std::string instr_text(const Instr& i) {
  std::string out = i.op == Op::scalar ? scalar::prim_name(i.prim) : op_names[size_t(i.op)];
  switch (i.op) {
    case Op::pointer:
    case Op::integer:
    case Op::number:
    case Op::index: out += " " + std::to_string(i.imm); break;
    case Op::scalar:
      if (i.prim == Prim::constant) out += " " + constant_text(i.imm, i.dtype);
      if (i.prim == Prim::table) out += " " + std::to_string(i.imm);
      for (int k = 0; k < scalar::prim_arity(i.prim); ++k) out += " " + operand(i.in[k]);
      if (i.prim == Prim::select && i.imm) out += " rare";
      break;
    case Op::load:
      out += " " + operand(i.in[0]) + " " + operand(i.in[1]);
      print_optional(out, "mask", i.in[2]);
      print_optional(out, "other", i.in[3]);
      break;
    case Op::store:
      out += " " + operand(i.in[0]) + " " + operand(i.in[1]) + " " + operand(i.in[2]);
      print_optional(out, "mask", i.in[3]);
      break;
    case Op::reduce:
      out += std::string(" ") + reduce_names[size_t(i.kind)] + " " + operand(i.in[0]) + " axis=" + std::to_string(i.imm);
      print_optional(out, "mask", i.in[1]);
      if (i.order == Order::pairwise) out += " pairwise";
      if (i.fused) out += " fused";
      break;
    case Op::dot:
      out += " " + operand(i.in[0]) + " " + operand(i.in[1]) + " axis=" + std::to_string(i.imm);
      print_optional(out, "to", i.in[2]);
      break;
    case Op::carry: out += " " + operand(i.in[0]) + " axis=" + std::to_string(i.imm & 0xff); break;
    case Op::next: out += " " + operand(i.in[0]) + " " + operand(i.in[1]); break;
    case Op::last: out += " " + operand(i.in[0]); break;
  }
  out += std::string(" : ") + dtype_short_name(i.dtype);
  if (i.axes) {
    out += " {";
    for (int a = 0; a < 8; ++a)
      if (i.axes >> a & 1) out += (out.back() == '{' ? "" : ",") + std::to_string(a);
    out += "}";
  }
  return out;
}

// ---- parsing ------------------------------------------------------------------------------------------------------

class TextReader {
 public:
  explicit TextReader(const std::string& text) : stream_(text) {}

  Program read() {
    while (std::getline(stream_, line_)) {
      ++number_;
      split();
      if (!words_.empty()) read_line();
    }
    if (program_.name.empty()) fail("no `program` line");
    return std::move(program_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw std::invalid_argument("block program, line " + std::to_string(number_) + ": " + why + ": " + line_);
  }

  void split() {
    words_.clear();
    at_ = 0;
    std::istringstream s(line_.substr(0, line_.find('#')));
    for (std::string w; s >> w;) words_.push_back(w);
  }
  bool more() const { return at_ < words_.size(); }
  const std::string& next(const char* what) {
    if (!more()) fail(std::string("missing ") + what);
    return words_[at_++];
  }
  bool accept(const char* word) {
    if (!more() || words_[at_] != word) return false;
    ++at_;
    return true;
  }
  template <size_t n> uint8_t one_of(const char* const (&names)[n], const char* what) {
    const std::string& word = next(what);
    for (size_t k = 0; k < n; ++k)
      if (word == names[k]) return uint8_t(k);
    fail(std::string("unknown ") + what);
  }
  uint64_t natural(const std::string& word, uint64_t limit) const {
    uint64_t v;
    if (!parse_all(word, v) || v > limit) fail("bad number `" + word + "`");
    return v;
  }
  Id value(const std::string& word) const {
    if (word == "_") return no_value;
    if (word.size() < 2 || word[0] != '%') fail("expected a value, not `" + word + "`");
    return Id(natural(word.substr(1), no_value - 1));
  }
  Dtype dtype() {
    const std::string& word = next("dtype");
    for (int d = 0; d < dtype_count; ++d)
      if (word == dtype_short_name(Dtype(d))) return Dtype(d);
    fail("unknown dtype");
  }
  // `name=` and its text, when it comes next.
  bool accept_named(const char* name, std::string& text) {
    const std::string prefix = std::string(name) + "=";
    if (!more() || words_[at_].compare(0, prefix.size(), prefix) != 0) return false;
    text = words_[at_++].substr(prefix.size());
    return true;
  }
  Id optional(const char* name) {
    std::string text;
    return accept_named(name, text) ? value(text) : no_value;
  }

  void read_line() {
    if (accept("program")) {
      program_.name = next("name");
    } else if (accept("param")) {
      if (natural(next("number"), no_value) != program_.params.size()) fail("parameters are numbered in order");
      Param q{};
      q.kind = ParamKind(one_of(param_names, "kind of parameter"));
      q.dtype = dtype();
      q.written = accept("written");
      program_.params.push_back(q);
    } else if (accept("axis")) {
      if (natural(next("number"), 8) != program_.axes.size()) fail("axes are numbered in order");
      Axis a{};
      a.kind = AxisKind(one_of(axis_names, "kind of axis"));
      a.extent = value(next("extent"));
      program_.axes.push_back(a);
    } else {
      if (value(next("value")) != program_.instrs.size()) fail("values are numbered in order");
      if (!accept("=")) fail("expected =");
      program_.instrs.push_back(read_instr());
    }
    if (more()) fail("unexpected `" + words_[at_] + "`");
  }

  void read_name(Instr& i, const std::string& word) const {
    for (int k = 0; k < int(std::size(op_names)); ++k)
      if (Op(k) != Op::scalar && word == op_names[k]) {
        i.op = Op(k);
        return;
      }
#define X(name, arity)        \
  if (word == #name) {        \
    i.op = Op::scalar;        \
    i.prim = Prim::name;      \
    return;                   \
  }
    FRIT_FOR_EACH_PRIM(X)
#undef X
    fail("unknown instruction `" + word + "`");
  }

  Instr read_instr() {
    Instr i;
    read_name(i, next("instruction"));
    std::string constant;
    switch (i.op) {
      case Op::pointer:
      case Op::integer:
      case Op::number:
      case Op::index: i.imm = natural(next("number"), no_value); break;
      case Op::scalar:
        if (i.prim == Prim::constant) constant = next("constant");
        if (i.prim == Prim::table) i.imm = natural(next("table"), no_value);
        for (int k = 0; k < scalar::prim_arity(i.prim); ++k) i.in[k] = value(next("operand"));
        if (i.prim == Prim::select) i.imm = accept("rare");
        break;
      case Op::load:
        for (int k = 0; k < 2; ++k) i.in[k] = value(next("operand"));
        i.in[2] = optional("mask");
        i.in[3] = optional("other");
        break;
      case Op::store:
        for (int k = 0; k < 3; ++k) i.in[k] = value(next("operand"));
        i.in[3] = optional("mask");
        break;
      case Op::reduce: read_reduce(i); break;
      case Op::dot:
        for (int k = 0; k < 2; ++k) i.in[k] = value(next("operand"));
        i.imm = axis_number(no_value);
        i.in[2] = optional("to");
        break;
      case Op::carry:
        i.in[0] = value(next("operand"));
        i.imm = axis_number(7);
        break;
      case Op::next:
        for (int k = 0; k < 2; ++k) i.in[k] = value(next("operand"));
        break;
      case Op::last: i.in[0] = value(next("operand")); break;
    }
    if (!accept(":")) fail("expected :");
    i.dtype = dtype();
    if (more()) i.axes = axes(next("axes"));
    if (i.op == Op::carry) i.imm |= uint64_t(i.axes & ~(1u << i.imm)) << 8;
    if (!constant.empty()) i.imm = constant_bits(constant, i.dtype);
    return i;
  }

  uint64_t axis_number(uint64_t most) {
    std::string axis;
    if (!accept_named("axis", axis)) fail("expected axis=");
    return natural(axis, most);
  }

  void read_reduce(Instr& i) {
    i.kind = Reduce(one_of(reduce_names, "kind of reduce"));
    i.in[0] = value(next("operand"));
    i.imm = axis_number(no_value);
    i.in[1] = optional("mask");
    if (accept("pairwise")) i.order = Order::pairwise;
    i.fused = accept("fused");
  }

  uint64_t constant_bits(const std::string& text, Dtype d) const {
    uint64_t bits = 0;
    if (text.compare(0, 2, "0x") == 0) {
      const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
      if (error != std::errc() || end != text.data() + text.size()) fail("bad bits `" + text + "`");
    } else if (!decimal_bits(text, d, bits)) {
      fail("bad constant `" + text + "`");
    }
    return bits;
  }

  uint8_t axes(const std::string& text) const {
    if (text.size() < 3 || text.front() != '{' || text.back() != '}') fail("expected {axes}");
    uint8_t bits = 0;
    for (size_t k = 1; k < text.size(); k += 2) {
      const bool ends = k + 1 == text.size() - 1;
      if (text[k] < '0' || text[k] > '7' || (!ends && text[k + 1] != ',')) fail("expected {axes}");
      bits = uint8_t(bits | 1u << (text[k] - '0'));
      if (ends) return bits;
    }
    fail("expected {axes}");
  }

  std::istringstream stream_;
  std::string line_;
  int number_ = 0;
  std::vector<std::string> words_;
  size_t at_ = 0;
  Program program_;
};

}  // namespace

std::string Program::text() const {
  std::string out = "program " + name + "\n";
  for (size_t k = 0; k < params.size(); ++k)
    out += "param " + std::to_string(k) + " " + param_names[size_t(params[k].kind)] + " " + dtype_short_name(params[k].dtype) +
           (params[k].written ? " written\n" : "\n");
  for (size_t k = 0; k < axes.size(); ++k)
    out += "axis " + std::to_string(k) + " " + axis_names[size_t(axes[k].kind)] + " " + operand(axes[k].extent) + "\n";
  for (size_t k = 0; k < instrs.size(); ++k) out += "%" + std::to_string(k) + " = " + instr_text(instrs[k]) + "\n";
  return out;
}

Program parse_program(const std::string& text) { return TextReader(text).read(); }

}  // namespace frit::kernels
