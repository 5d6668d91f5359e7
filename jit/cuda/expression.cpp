// Scalar primitives as CUDA C++ text, exactly as scalar.h defines them. Signed overflow is undefined in CUDA C++ as in
// C++, so integer arithmetic goes through the unsigned type of its width; the rest relies on the compiler's flags
// (no contraction, IEEE division and square root, denormals kept). Start with `expression`.
#include "jit/cuda/expression.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace frit::jit::cuda {

using kernels::Instr;
using scalar::Prim;

std::string value_type(Dtype d) {
  switch (d) {
    case Dtype::Bool: return "bool";
    case Dtype::UInt8: return "unsigned char";
    case Dtype::Int8: return "signed char";
    case Dtype::Int16: return "short";
    case Dtype::Int32: return "int";
    case Dtype::Int64: return "long long";
    case Dtype::Float64: return "double";
    default: return "float";
  }
}

std::string memory_type(Dtype d) {
  if (is_half(d)) return "unsigned short";
  return d == Dtype::Bool ? "unsigned char" : value_type(d);
}

namespace {

std::string unsigned_type(Dtype d) {
  switch (size_of(d)) {
    case 1: return "unsigned char";
    case 2: return "unsigned short";
    case 4: return "unsigned";
    default: return "unsigned long long";
  }
}

// Shortest decimal text that reads back as the value, as a floating literal.
template <class T> std::string float_text(T v) {
  char text[64];
  std::string s(text, std::to_chars(text, text + sizeof text, v).ptr);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::string hex(uint64_t bits) {
  char text[32];
  return std::string("0x") + std::string(text, std::to_chars(text, text + sizeof text, bits, 16).ptr);
}

std::string parenthesised(const std::string& s) { return s[0] == '-' ? "(" + s + ")" : s; }

}  // namespace

std::string literal(uint64_t bits, Dtype d) {
  switch (d) {
    case Dtype::Bool: return bits ? "true" : "false";
    case Dtype::UInt8: return "(unsigned char)" + std::to_string(uint8_t(bits));
    case Dtype::Int8: return "(signed char)" + parenthesised(std::to_string(int8_t(bits)));
    case Dtype::Int16: return "(short)" + parenthesised(std::to_string(int16_t(bits)));
    case Dtype::Int32:
      return int32_t(bits) == INT32_MIN ? "(-2147483647 - 1)" : parenthesised(std::to_string(int32_t(bits)));
    case Dtype::Int64:
      return int64_t(bits) == INT64_MIN ? "(-9223372036854775807ll - 1)" : parenthesised(std::to_string(int64_t(bits)) + "ll");
    case Dtype::Float64: {
      double v;
      std::memcpy(&v, &bits, 8);
      return std::isnormal(v) || v == 0 ? parenthesised(float_text(v)) : "__longlong_as_double(" + hex(bits) + ")";
    }
    default: {
      float v;
      const uint32_t word = uint32_t(bits);
      std::memcpy(&v, &word, 4);
      return std::isnormal(v) || v == 0 ? parenthesised(float_text(v) + "f") : "__int_as_float(" + hex(word) + ")";
    }
  }
}

std::string from_memory(Dtype d, const std::string& element) {
  switch (d) {
    case Dtype::Bool: return element + " != 0";
    case Dtype::Float16: return "half_to_float(" + element + ")";
    case Dtype::BFloat16: return "bfloat16_to_float(" + element + ")";
    default: return element;
  }
}

std::string to_memory(Dtype d, const std::string& value) {
  switch (d) {
    case Dtype::Float16: return "float_to_half(" + value + ")";
    case Dtype::BFloat16: return "float_to_bfloat16(" + value + ")";
    default: return value;
  }
}

namespace {

std::string binary(const std::string& a, const char* op, const std::string& b) { return a + " " + op + " " + b; }

// a op b of integers, wrapped: through int for the narrow types (where it cannot overflow), else through unsigned.
std::string wrapped(Dtype d, const std::string& a, const char* op, const std::string& b) {
  const std::string type = value_type(d), through = size_of(d) < 4 ? "" : "(" + unsigned_type(d) + ")";
  return "(" + type + ")(" + through + a + " " + op + " " + through + b + ")";
}

std::string shift(const Instr& i, const std::string& a, const std::string& b) {
  const Dtype d = i.dtype;
  const bool wide = size_of(d) == 8;
  std::string count = "((unsigned)" + b + (wide ? " & 63u)" : " & 31u)");
  if (b[0] >= '0' && b[0] <= '9') count = std::to_string(std::stoull(b) & (wide ? 63 : 31));
  const std::string type = "(" + value_type(d) + ")";
  if (i.prim == Prim::shl) return type + "((" + (wide ? "unsigned long long" : "unsigned") + ")" + a + " << " + count + ")";
  if (i.prim == Prim::shr) return type + "((" + (wide ? "long long" : "int") + ")" + a + " >> " + count + ")";
  return type + "((" + unsigned_type(d) + ")" + a + " >> " + count + ")";
}

std::string converted(Dtype to, Dtype from, const std::string& a) {
  if (to == Dtype::Bool) return from == Dtype::Bool ? a : a + " != 0";
  if (is_floating(from) && !is_floating(to)) {
    if (to == Dtype::Int64) return "to_int64(" + a + ")";
    return (to == Dtype::Int32 ? "" : "(" + value_type(to) + ")") + "to_int32(" + a + ")";
  }
  return "(" + value_type(to) + ")" + a;
}

std::string bits_as(Dtype to, const std::string& a) {
  switch (to) {
    case Dtype::Int32: return "__float_as_int(" + a + ")";
    case Dtype::Float32: return "__int_as_float(" + a + ")";
    case Dtype::Int64: return "__double_as_longlong(" + a + ")";
    default: return "__longlong_as_double(" + a + ")";
  }
}

std::string float_expression(const Instr& i, const std::vector<std::string>& in) {
  const std::string f = i.dtype == Dtype::Float32 ? "f" : "";
  const auto call = [&](const char* name) {
    std::string out = name + f + "(";
    for (size_t k = 0; k < in.size(); ++k) out += (k ? ", " : "") + in[k];
    return out + ")";
  };
  switch (i.prim) {
    case Prim::add: return binary(in[0], "+", in[1]);
    case Prim::sub: return binary(in[0], "-", in[1]);
    case Prim::mul: return binary(in[0], "*", in[1]);
    case Prim::div: return binary(in[0], "/", in[1]);
    case Prim::fma: return call("fma");
    case Prim::neg: return "-" + in[0];
    case Prim::abs: return call("fabs");
    case Prim::sqrt: return call("sqrt");
    case Prim::floor: return call("floor");
    case Prim::ceil: return call("ceil");
    case Prim::trunc: return call("trunc");
    case Prim::rint: return call("rint");
    case Prim::round_float16: return "half_to_float(float_to_half(" + in[0] + "))";
    case Prim::round_bfloat16: return "bfloat16_to_float(float_to_bfloat16(" + in[0] + "))";
    default: return "";
  }
}

std::string bool_expression(const Instr& i, const std::vector<std::string>& in) {
  switch (i.prim) {
    case Prim::bit_and: return binary(in[0], "&&", in[1]);
    case Prim::bit_or: return binary(in[0], "||", in[1]);
    case Prim::bit_xor: return binary(in[0], "!=", in[1]);
    case Prim::bit_not: return "!" + in[0];
    default: return "";
  }
}

std::string integer_expression(const Instr& i, const std::vector<std::string>& in, bool address) {
  const Dtype d = i.dtype;
  const std::string type = value_type(d), cast = size_of(d) < 4 ? "(" + type + ")" : "";
  const auto arithmetic = [&](const char* op) { return address ? binary(in[0], op, in[1]) : wrapped(d, in[0], op, in[1]); };
  const auto bitwise = [&](const char* op) {
    return cast.empty() ? binary(in[0], op, in[1]) : cast + "(" + binary(in[0], op, in[1]) + ")";
  };
  switch (i.prim) {
    case Prim::add: return arithmetic("+");
    case Prim::sub: return arithmetic("-");
    case Prim::mul: return arithmetic("*");
    case Prim::div: return "quotient<" + type + ">(" + in[0] + ", " + in[1] + ")";
    case Prim::rem: return "remainder_of<" + type + ">(" + in[0] + ", " + in[1] + ")";
    case Prim::neg: return wrapped(d, "0", "-", in[0]);
    case Prim::abs: return is_signed(d) ? in[0] + " < 0 ? " + wrapped(d, "0", "-", in[0]) + " : " + in[0] : in[0];
    case Prim::floor: case Prim::ceil: case Prim::trunc: case Prim::rint: return in[0];
    case Prim::bit_and: return bitwise("&");
    case Prim::bit_or: return bitwise("|");
    case Prim::bit_xor: return bitwise("^");
    case Prim::bit_not: return cast.empty() ? "~" + in[0] : cast + "~" + in[0];
    case Prim::shl: case Prim::shr: case Prim::ushr: return shift(i, in[0], in[1]);
    case Prim::mulhi_u32: return "(int)__umulhi((unsigned)" + in[0] + ", (unsigned)" + in[1] + ")";
    default: return "";
  }
}

}  // namespace

std::string expression(const Instr& i, const std::vector<std::string>& in, Dtype operands, bool address) {
  switch (i.prim) {
    case Prim::constant: return literal(i.imm, i.dtype);
    case Prim::min: return in[0] + " < " + in[1] + " ? " + in[0] + " : " + in[1];
    case Prim::max: return in[0] + " > " + in[1] + " ? " + in[0] + " : " + in[1];
    case Prim::eq: return binary(in[0], "==", in[1]);
    case Prim::ne: return binary(in[0], "!=", in[1]);
    case Prim::lt: return binary(in[0], "<", in[1]);
    case Prim::le: return binary(in[0], "<=", in[1]);
    case Prim::select: return in[0] + " ? " + in[1] + " : " + in[2];
    case Prim::convert: return converted(i.dtype, operands, in[0]);
    case Prim::bitcast: return bits_as(i.dtype, in[0]);
    case Prim::table: return std::string("table_") + scalar::tables()[i.imm].name + "[" + in[0] + "]";
    default: break;
  }
  const std::string text = is_floating(i.dtype)        ? float_expression(i, in)
                           : i.dtype == Dtype::Bool ? bool_expression(i, in)
                                                    : integer_expression(i, in, address);
  if (text.empty()) throw std::logic_error(std::string("no CUDA text for ") + prim_name(i.prim) + " of " + dtype_name(i.dtype));
  return text;
}

}  // namespace frit::jit::cuda
