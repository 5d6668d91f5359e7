// Building and checking block programs (their text form is in program_text.cpp).
//
// infer() is the one place that knows what an instruction's result is: its dtype and the block axes it varies along.
// The builder calls it for each appended instruction; the verifier calls it again and compares. Start with `infer`, then
// ProgramBuilder::push (sharing) and `Verifier`.
#include "kernels/program.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <stdexcept>

namespace frit::kernels {
namespace {

uint8_t union_of_axes(const Program& p, const Instr& i) {
  uint8_t axes = 0;
  for (Id in : i.in)
    if (in != no_value) axes |= p.instrs[in].axes;
  return axes;
}

// Axes of the result; for a store those of its lanes.
uint8_t infer_axes(const Program& p, const Instr& i) {
  if (i.op == Op::index) {
    if (p.axes[i.imm].kind != AxisKind::block && p.axes[i.imm].kind != AxisKind::loop) return 0;
    const Id extent = p.axes[i.imm].extent;  // lanes whose number changes from turn to turn vary along the loop
    return uint8_t(1u << i.imm | (extent < p.instrs.size() ? p.instrs[extent].axes : 0));
  }
  const uint8_t axes = union_of_axes(p, i);
  switch (i.op) {
    case Op::reduce:
    case Op::dot: return uint8_t(axes & ~(1u << i.imm));
    case Op::carry: return uint8_t(axes | 1u << (i.imm & 7) | i.imm >> 8);
    case Op::last: return uint8_t(axes & ~(1u << (p.instrs[i.in[0]].imm & 7)));
    default: return axes;
  }
}

// A scalar primitive's result is part of the instruction (convert); everything else follows from operands and params.
Dtype infer_dtype(const Program& p, const Instr& i) {
  switch (i.op) {
    case Op::pointer:
    case Op::number: return p.params[i.imm].dtype;
    case Op::integer:
    case Op::index: return Dtype::Int64;
    case Op::scalar: return i.dtype;
    case Op::load: return compute_dtype(p.instrs[i.in[0]].dtype);
    case Op::store: return p.instrs[i.in[2]].dtype;
    case Op::next: return p.instrs[i.in[1]].dtype;
    case Op::dot:
    case Op::carry:
    case Op::last: return p.instrs[i.in[0]].dtype;
    case Op::reduce:
      return i.kind == Reduce::argmax || i.kind == Reduce::argmin ? Dtype::Int64 : p.instrs[i.in[0]].dtype;
  }
  return i.dtype;
}

uint64_t hash_of(const Instr& i) {
  uint64_t h = 0x9e3779b97f4a7c15ull;
  const auto mix = [&](uint64_t v) {
    h = (h ^ v) * 0xff51afd7ed558ccdull;
    h ^= h >> 32;
  };
  mix(uint64_t(i.op) | uint64_t(i.prim) << 8 | uint64_t(i.dtype) << 16 | uint64_t(i.axes) << 24 | uint64_t(i.kind) << 32 |
      uint64_t(i.order) << 40 | uint64_t(i.fused) << 48);
  mix(uint64_t(i.in[0]) | uint64_t(i.in[1]) << 16 | uint64_t(i.in[2]) << 32 | uint64_t(i.in[3]) << 48);
  mix(i.imm);
  return h;
}

// A constant's bits as scalar.h holds them: sign-extended, or zero-extended when the type has no sign.
uint64_t canonical(uint64_t bits, Dtype d) {
  switch (d) {
    case Dtype::Bool: return bits != 0;
    case Dtype::UInt8: return uint8_t(bits);
    case Dtype::Int8: return uint64_t(int64_t(int8_t(bits)));
    case Dtype::Int16: return uint64_t(int64_t(int16_t(bits)));
    case Dtype::Int32: return uint64_t(int64_t(int32_t(bits)));
    case Dtype::Float32: return uint32_t(bits);
    default: return bits;
  }
}

}  // namespace

// ---- builder ------------------------------------------------------------------------------------------------------

Value ProgramBuilder::push(Instr i) {
  for (Id in : i.in)
    if (in != no_value && in >= program_.instrs.size())
      throw std::logic_error("block program " + program_.name + ": an operand is not a value of this builder");
  i.dtype = infer_dtype(program_, i);
  i.axes = infer_axes(program_, i);
  const Id id = Id(program_.instrs.size());
  if (i.op == Op::store) {
    loads_from_ = id + size_t(1);
  } else if (i.op != Op::carry && i.op != Op::next) {  // two carries that begin alike are two
    const uint64_t h = hash_of(i);
    const auto [first, last] = known_.equal_range(h);
    for (auto it = first; it != last; ++it)
      if (program_.instrs[it->second] == i && (i.op != Op::load || it->second >= loads_from_)) return {it->second};
    known_.emplace(h, id);
  }
  if (id == no_value) throw std::length_error("block program " + program_.name + " has too many instructions");
  program_.instrs.push_back(i);
  return {id};
}

Value ProgramBuilder::pointer(Dtype memory, bool written) {
  program_.params.push_back({ParamKind::pointer, memory, written});
  Instr i;
  i.op = Op::pointer;
  i.imm = program_.params.size() - 1;
  return push(i);
}

Value ProgramBuilder::integer() {
  program_.params.push_back({ParamKind::integer, Dtype::Int64, false});
  Instr i;
  i.op = Op::integer;
  i.imm = program_.params.size() - 1;
  return push(i);
}

Value ProgramBuilder::number(Dtype compute) {
  program_.params.push_back({ParamKind::number, compute, false});
  Instr i;
  i.op = Op::number;
  i.imm = program_.params.size() - 1;
  return push(i);
}

int ProgramBuilder::axis(AxisKind kind, Value extent) {
  if (program_.axes.size() == 8) throw std::length_error("block program " + program_.name + " has more than 8 axes");
  program_.axes.push_back({kind, extent.id});
  return int(program_.axes.size()) - 1;
}

Value ProgramBuilder::index(int axis) {
  if (axis < 0 || size_t(axis) >= program_.axes.size())
    throw std::logic_error("block program " + program_.name + " has no axis " + std::to_string(axis));
  Instr i;
  i.op = Op::index;
  i.imm = uint64_t(axis);
  return push(i);
}

Value ProgramBuilder::constant(double v, Dtype d) {
  scalar::Builder rounding;  // the same rounding as in a scalar expression
  return apply(Prim::constant, d, {}, rounding.node(rounding.constant(v, d).id).imm);
}

Value ProgramBuilder::integer_constant(int64_t v) { return apply(Prim::constant, Dtype::Int64, {}, uint64_t(v)); }

Value ProgramBuilder::apply(Prim p, Dtype result, std::initializer_list<Value> in, uint64_t imm) {
  if (in.size() != size_t(scalar::prim_arity(p)))
    throw std::logic_error("block program " + program_.name + ": " + scalar::prim_name(p) + " takes another number of operands");
  Instr i;
  i.op = Op::scalar;
  i.prim = p;
  i.dtype = result;
  i.imm = p == Prim::constant ? canonical(imm, result) : imm;
  size_t k = 0;
  for (Value v : in) i.in[k++] = v.id;
  return push(i);
}

std::vector<Value> ProgramBuilder::expand(const scalar::Function& f, const std::vector<Value>& inputs,
                                          const std::vector<Value>& params) {
  std::vector<bool> needed(f.nodes.size(), false);
  for (uint16_t r : f.results) needed[r] = true;
  for (size_t n = f.nodes.size(); n-- > 0;)
    if (needed[n])
      for (int k = 0; k < scalar::prim_arity(f.nodes[n].prim); ++k) needed[f.nodes[n].in[k]] = true;
  std::vector<Value> values(f.nodes.size());
  for (size_t n = 0; n < f.nodes.size(); ++n) {
    const scalar::Node& node = f.nodes[n];
    if (!needed[n]) continue;
    if (node.prim == Prim::input) {
      values[n] = inputs.at(node.imm);
    } else if (node.prim == Prim::param) {
      values[n] = params.at(node.imm);
    } else {
      const Value a = values[node.in[0]], b = values[node.in[1]], c = values[node.in[2]];
      switch (scalar::prim_arity(node.prim)) {
        case 0: values[n] = apply(node.prim, node.dtype, {}, node.imm); break;
        case 1: values[n] = apply(node.prim, node.dtype, {a}, node.imm); break;
        case 2: values[n] = apply(node.prim, node.dtype, {a, b}, node.imm); break;
        default: values[n] = apply(node.prim, node.dtype, {a, b, c}, node.imm); break;
      }
    }
  }
  std::vector<Value> results;
  for (uint16_t r : f.results) results.push_back(values[r]);
  return results;
}

Value ProgramBuilder::convert(Value a, Dtype d) { return dtype(a) == d ? a : apply(Prim::convert, d, {a}); }

Value ProgramBuilder::load(Value pointer, Value offset, Value mask, Value other) {
  if (!belongs(pointer) || program_.instrs[pointer.id].op != Op::pointer)
    throw std::logic_error("block program " + program_.name + ": load needs a pointer");
  Instr i;
  i.op = Op::load;
  i.in[0] = pointer.id, i.in[1] = offset.id, i.in[2] = mask.id, i.in[3] = other.id;
  return push(i);
}

void ProgramBuilder::store(Value pointer, Value offset, Value value, Value mask) {
  if (!belongs(pointer) || program_.instrs[pointer.id].op != Op::pointer || !belongs(value))
    throw std::logic_error("block program " + program_.name + ": store needs a pointer and a value");
  program_.params[program_.instrs[pointer.id].imm].written = true;
  Instr i;
  i.op = Op::store;
  i.in[0] = pointer.id, i.in[1] = offset.id, i.in[2] = value.id, i.in[3] = mask.id;
  push(i);
}

Value ProgramBuilder::reduce(Reduce kind, Value v, int axis, Value mask, Order order, bool fused) {
  if (!belongs(v)) throw std::logic_error("block program " + program_.name + ": reduce needs a value");
  Instr i;
  i.op = Op::reduce;
  i.kind = kind;
  i.order = order;
  i.fused = fused;
  i.in[0] = v.id, i.in[1] = mask.id;
  i.imm = uint64_t(axis);
  return push(i);
}

Value ProgramBuilder::dot(Value a, Value b, int axis, Value to) {
  Instr i;
  i.op = Op::dot;
  i.in[0] = a.id, i.in[1] = b.id, i.in[2] = to.id;
  i.imm = uint64_t(axis);
  return push(i);
}

Value ProgramBuilder::carry(int loop, Value first, std::initializer_list<int> along) {
  if (!belongs(first)) throw std::logic_error("block program " + program_.name + ": carry needs a value");
  Instr i;
  i.op = Op::carry;
  i.in[0] = first.id;
  uint64_t axes = program_.instrs[first.id].axes;
  for (int a : along) axes |= uint64_t(1) << a;
  i.imm = uint64_t(loop) | axes << 8;
  return push(i);
}

void ProgramBuilder::next(Value carry, Value value) {
  Instr i;
  i.op = Op::next;
  i.in[0] = carry.id, i.in[1] = value.id;
  push(i);
}

Value ProgramBuilder::last(Value carry) {
  if (!belongs(carry) || program_.instrs[carry.id].op != Op::carry) throw std::logic_error("block program " + program_.name + ": last needs a carry");
  Instr i;
  i.op = Op::last;
  i.in[0] = carry.id;
  return push(i);
}

Dtype ProgramBuilder::memory_dtype(Value pointer) const {
  return program_.params.at(program_.instrs.at(pointer.id).imm).dtype;
}

Program ProgramBuilder::finish() {
  Program p = std::move(program_);
  program_ = {};
  known_.clear();
  loads_from_ = 0;
  std::vector<bool> needed(p.instrs.size(), false);
  for (const Axis& a : p.axes)
    if (a.extent < needed.size()) needed[a.extent] = true;
  for (size_t n = p.instrs.size(); n-- > 0;) {
    needed[n] = needed[n] || p.instrs[n].op == Op::store || p.instrs[n].op == Op::next;
    if (!needed[n]) continue;
    for (Id in : p.instrs[n].in)
      if (in != no_value) needed[in] = true;
  }
  std::vector<Id> moved(p.instrs.size(), no_value);
  Id count = 0;
  for (size_t n = 0; n < p.instrs.size(); ++n) {
    if (!needed[n]) continue;
    Instr i = p.instrs[n];
    for (Id& in : i.in)
      if (in != no_value) in = moved[in];
    moved[n] = count;
    p.instrs[count++] = i;
  }
  p.instrs.resize(count);
  for (Axis& a : p.axes)
    if (a.extent < moved.size()) a.extent = moved[a.extent];
  verify(p);
  return p;
}

// ---- verifier -----------------------------------------------------------------------------------------------------

namespace {

class Verifier {
 public:
  explicit Verifier(const Program& p) : p_(p) {}

  void run() {
    check_frame();
    for (at_ = 0; at_ < p_.instrs.size(); ++at_) check_instr(p_.instrs[at_]);
    in_instr_ = false;
    check_extents();
  }

 private:
  void require(bool ok, const char* rule) const {
    if (ok) return;
    const std::string where = in_instr_ ? " (at %" + std::to_string(at_) + ")" : "";
    throw std::logic_error("invalid block program: " + std::string(rule) + where + "\n" + p_.text());
  }

  void check_frame() {
    in_instr_ = false;
    const std::string& name = p_.name;
    const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
    require(!name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
      return letter(c) || (c >= '0' && c <= '9');
    }), "the name is not a C identifier");
    require(p_.instrs.size() < no_value, "too many instructions");
    for (const Param& q : p_.params) {
      require(q.kind != ParamKind::integer || q.dtype == Dtype::Int64, "an integer parameter is Int64");
      require(q.kind != ParamKind::number || !is_half(q.dtype), "a number parameter has a compute type");
      require(q.kind == ParamKind::pointer || !q.written, "only a pointer is written");
    }
    require(p_.axes.size() <= 8, "more than 8 axes");
    for (size_t a = 0; a < p_.axes.size(); ++a) {
      require(p_.axes[a].extent < p_.instrs.size(), "an extent is not a value");
      require(a == 0 || inner(a) || !inner(a - 1), "grid and sequential axes come before block axes");
    }
    in_instr_ = true;
  }

  bool inner(size_t axis) const { return p_.axes[axis].kind == AxisKind::block || p_.axes[axis].kind == AxisKind::loop; }

  // An extent comes from arguments and constants, inside of an instance also from indices of the grid and of loops before it.
  void check_extents() {
    for (size_t a = 0; a < p_.axes.size(); ++a) {
      const Axis& axis = p_.axes[a];
      std::vector<bool> early(p_.instrs.size());
      for (size_t n = 0; n < p_.instrs.size(); ++n) {
        const Instr& i = p_.instrs[n];
        const bool index = i.op == Op::index && inner(a) && i.imm < a && p_.axes[i.imm].kind != AxisKind::block;
        early[n] = i.op == Op::integer || i.op == Op::number || i.op == Op::scalar || index;
        for (Id in : i.in)
          if (in != no_value && !early[in]) early[n] = false;
      }
      require(p_.instrs[axis.extent].dtype == Dtype::Int64 && !(p_.instrs[axis.extent].axes & blocks()), "an extent is a uniform Int64");
      require(early[axis.extent], "an extent depends on more than arguments");
    }
  }
  uint8_t blocks() const {
    uint8_t bits = 0;
    for (size_t a = 0; a < p_.axes.size(); ++a)
      if (p_.axes[a].kind == AxisKind::block) bits = uint8_t(bits | 1u << a);
    return bits;
  }

  const Instr& operand(const Instr& i, int k) const { return p_.instrs[i.in[k]]; }
  Dtype type(const Instr& i, int k) const { return operand(i, k).dtype; }

  // The operands from `first` on are absent or values before this one; only those below `pointers` are pointers.
  void check_operands(const Instr& i, int required, int allowed, int pointers) const {
    for (int k = 0; k < 4; ++k) {
      if (i.in[k] == no_value) {
        require(k >= required, "an operand is missing");
        continue;
      }
      require(k < allowed, "too many operands");
      require(i.in[k] < at_, "an operand is not an earlier value");
      require((operand(i, k).op == Op::pointer) == (k < pointers), "pointers are the first operand of load and store, and nothing else");
      require(operand(i, k).op != Op::store, "a store has no value");
      require(operand(i, k).op != Op::next, "a next has no value");
    }
  }

  void check_param(const Instr& i, ParamKind kind) const {
    check_operands(i, 0, 0, 0);
    require(i.imm < p_.params.size(), "no such parameter");
    require(p_.params[i.imm].kind == kind, "the parameter is of another kind");
  }

  void check_instr(const Instr& i) const {
    require(i.op == Op::scalar || i.prim == Prim::constant, "only a scalar instruction has a primitive");
    require(i.op == Op::reduce || (i.kind == Reduce::sum && i.order == Order::lanes && !i.fused),
            "only a reduce has a kind and an order");
    switch (i.op) {
      case Op::pointer: check_param(i, ParamKind::pointer); break;
      case Op::integer: check_param(i, ParamKind::integer); break;
      case Op::number: check_param(i, ParamKind::number); break;
      case Op::scalar: check_scalar(i); break;
      case Op::index:
        check_operands(i, 0, 0, 0);
        require(i.imm < p_.axes.size(), "no such axis");
        break;
      case Op::load: check_load(i); break;
      case Op::store: check_store(i); break;
      case Op::reduce: check_reduce(i); break;
      case Op::dot: check_dot(i); break;
      case Op::carry: check_carry(i); break;
      case Op::next: check_next(i); break;
      case Op::last:
        check_operands(i, 1, 1, 0);
        require(operand(i, 0).op == Op::carry, "last takes a carry");
        check_finished(operand(i, 0).imm & 7);
        break;
    }
    require(i.op == Op::pointer || !is_half(i.dtype), "a half format is not a compute type");
    require(i.dtype == infer_dtype(p_, i), "the dtype is not what follows from the operands");
    require(i.axes == infer_axes(p_, i), "the axes are not what follows from the operands");
  }

  void check_load(const Instr& i) const {
    check_operands(i, 2, 4, 1);
    require(i.imm == 0, "a load has no immediate");
    require(type(i, 1) == Dtype::Int64, "an offset is Int64");
    require(i.in[2] == no_value || type(i, 2) == Dtype::Bool, "a mask is Bool");
    require(i.in[3] == no_value || i.in[2] != no_value, "a load has `other` only with a mask");
    require(i.in[3] == no_value || type(i, 3) == compute_dtype(type(i, 0)), "`other` has the compute type of the pointer");
  }

  void check_store(const Instr& i) const {
    check_operands(i, 3, 4, 1);
    require(i.imm == 0, "a store has no immediate");
    require(type(i, 1) == Dtype::Int64, "an offset is Int64");
    require(type(i, 2) == compute_dtype(type(i, 0)), "a stored value has the compute type of the pointer");
    require(i.in[3] == no_value || type(i, 3) == Dtype::Bool, "a mask is Bool");
    require(p_.params[operand(i, 0).imm].written, "the pointer of a store is marked written");
  }

  void check_reduce(const Instr& i) const {
    check_operands(i, 1, 2, 0);
    const Dtype d = type(i, 0);
    require(i.in[1] == no_value || type(i, 1) == Dtype::Bool, "a mask is Bool");
    require(i.imm < p_.axes.size() && p_.axes[i.imm].kind == AxisKind::block, "a reduced axis is a block axis");
    require(union_of_axes(p_, i) >> i.imm & 1, "the reduced value does not vary along the axis");
    if (i.kind == Reduce::any || i.kind == Reduce::all) require(d == Dtype::Bool, "any and all take Bool");
    else require(d != Dtype::Bool, "only any and all take Bool");
    require(!i.fused || (i.kind == Reduce::sum && operand(i, 0).op == Op::scalar && operand(i, 0).prim == Prim::mul &&
                         is_floating(d)), "only a float sum of a product is fused");
  }

  void check_dot(const Instr& i) const {
    check_operands(i, 2, 3, 0);
    require(is_floating(i.dtype) && type(i, 1) == i.dtype && (i.in[2] == no_value || type(i, 2) == i.dtype), "dot takes floats of one type");
    require(i.imm < p_.axes.size() && p_.axes[i.imm].kind == AxisKind::block, "a contracted axis is a block axis");
    require((operand(i, 0).axes & operand(i, 1).axes) >> i.imm & 1, "both of dot's values vary along the contracted axis");
    require(i.in[2] == no_value || !(operand(i, 2).axes >> i.imm & 1), "what dot adds to does not vary along the contracted axis");
  }

  void check_carry(const Instr& i) const {
    check_operands(i, 1, 1, 0);
    const uint64_t loop = i.imm & 0xff;
    require(loop < p_.axes.size() && p_.axes[loop].kind == AxisKind::loop, "a carry belongs to a loop");
    require(!(operand(i, 0).axes >> loop & 1), "a carry begins with what does not vary along its loop");
    require(i.imm >> 8 == uint64_t(i.axes & ~(1u << loop)), "a carry names the axes along which it varies");
    for (size_t a = 0; a < p_.axes.size(); ++a)
      require(!(i.axes >> a & 1) || a == loop || !(p_.instrs[p_.axes[a].extent].axes >> loop & 1), "a carry has as many lanes in each turn");
    size_t nexts = 0;
    for (const Instr& n : p_.instrs) nexts += n.op == Op::next && n.in[0] == at_;
    require(nexts == 1, "a carry has one next");
  }

  void check_next(const Instr& i) const {
    check_operands(i, 2, 2, 0);
    require(operand(i, 0).op == Op::carry, "next takes a carry");
    require(operand(i, 0).dtype == type(i, 1), "a carry's next value has its type");
    require(!(operand(i, 1).axes & ~operand(i, 0).axes), "a carry's next value varies along its axes alone");
  }

  void check_finished(uint64_t loop) const {
    for (size_t n = at_; n < p_.instrs.size(); ++n) require(!(p_.instrs[n].axes >> loop & 1), "last comes after all that varies along its loop");
  }

  void check_scalar(const Instr& i) const {
    require(i.prim != Prim::input && i.prim != Prim::param, "input and param are replaced when a function is expanded");
    const int arity = scalar::prim_arity(i.prim);
    check_operands(i, arity, arity, 0);
    require(i.prim == Prim::constant || i.prim == Prim::table || i.imm <= (i.prim == Prim::select), "the primitive has no immediate");
    const Dtype d = i.dtype;
    const auto all = [&](Dtype want) {
      for (int k = 0; k < arity; ++k)
        if (type(i, k) != want) return false;
      return true;
    };
    switch (i.prim) {
      case Prim::add: case Prim::sub: case Prim::mul: case Prim::div: case Prim::neg: case Prim::abs:
      case Prim::floor: case Prim::ceil: case Prim::trunc: case Prim::rint:
        require(d != Dtype::Bool && all(d), "arithmetic takes operands of one numeric type");
        break;
      case Prim::min: case Prim::max: require(all(d), "min and max take operands of one type"); break;
      case Prim::fma: case Prim::sqrt: require(is_floating(d) && all(d), "the primitive takes floats"); break;
      case Prim::round_float16: case Prim::round_bfloat16: require(d == Dtype::Float32 && all(d), "the roundings to half formats take Float32"); break;
      case Prim::rem: case Prim::shl: case Prim::shr: case Prim::ushr:
        require(is_integral(d) && all(d), "the primitive takes integers");
        break;
      case Prim::bit_and: case Prim::bit_or: case Prim::bit_xor: case Prim::bit_not:
        require(!is_floating(d) && all(d), "bit operations take integers or Bool");
        break;
      case Prim::mulhi_u32: require(d == Dtype::Int32 && all(d), "mulhi_u32 takes Int32"); break;
      case Prim::eq: case Prim::ne: case Prim::lt: case Prim::le:
        require(d == Dtype::Bool && all(type(i, 0)), "a comparison takes equal types and gives Bool");
        break;
      case Prim::select:
        require(type(i, 0) == Dtype::Bool && type(i, 1) == d && type(i, 2) == d, "select takes Bool and two values of its type");
        break;
      case Prim::bitcast: {
        const Dtype from = type(i, 0);
        require((d == Dtype::Int32 && from == Dtype::Float32) || (d == Dtype::Float32 && from == Dtype::Int32) ||
                    (d == Dtype::Int64 && from == Dtype::Float64) || (d == Dtype::Float64 && from == Dtype::Int64),
                "bitcast joins Int32 with Float32 and Int64 with Float64");
        break;
      }
      case Prim::table:
        require(i.imm < scalar::tables().size(), "no such table");
        require(type(i, 0) == Dtype::Int32 && d == scalar::tables()[i.imm].dtype, "a table takes Int32 and gives its own type");
        break;
      default: break;  // constant, convert: any types
    }
  }

  const Program& p_;
  size_t at_ = 0;
  bool in_instr_ = true;
};

}  // namespace

void verify(const Program& p) { Verifier(p).run(); }

bool is_rounded(const Program& p, Id v, Dtype half) {
  const Instr& i = p.instrs[v];
  const auto all = [&](std::initializer_list<int> operands) {
    return std::all_of(operands.begin(), operands.end(), [&](int k) { return is_rounded(p, i.in[k], half); });
  };
  if (i.dtype != Dtype::Float32) return false;
  if (i.op == Op::load) return p.instrs[i.in[0]].dtype == half && (i.in[3] == no_value || all({3}));
  if (i.op == Op::reduce) return (i.kind == Reduce::max || i.kind == Reduce::min) && all({0});
  if (i.op != Op::scalar) return false;
  switch (i.prim) {
    case Prim::round_float16: return half == Dtype::Float16;
    case Prim::round_bfloat16: return half == Dtype::BFloat16;
    case Prim::constant: {
      const float x = std::bit_cast<float>(uint32_t(i.imm));
      return half == Dtype::BFloat16 ? !(i.imm & 0xffff) : float(Half(x)) == x;
    }
    case Prim::neg: case Prim::abs: return all({0});
    case Prim::min: case Prim::max: return all({0, 1});
    case Prim::select: return all({1, 2});
    default: return false;
  }
}

std::vector<uint8_t> loop_nest(const Program& p) {
  std::vector<uint8_t> nest(p.axes.size());
  uint8_t loops = 0;
  for (size_t a = 0; a < p.axes.size(); ++a)
    if (p.axes[a].kind == AxisKind::loop) loops = uint8_t(loops | 1u << a), nest[a] = uint8_t(1u << a);
  const auto join = [&](uint8_t axes) {
    const uint8_t bits = axes & loops;
    for (size_t a = 0; a < nest.size(); ++a)
      if (bits >> a & 1) nest[a] = uint8_t(nest[a] | (bits & ((2u << a) - 1)));
  };
  for (const Instr& i : p.instrs) join(i.axes);
  for (size_t a = 0; a < nest.size(); ++a)
    if (nest[a]) join(uint8_t(p.instrs[p.axes[a].extent].axes | 1u << a));
  for (size_t a = 0; a < nest.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (nest[a] >> b & 1) nest[a] = uint8_t(nest[a] | nest[b]);
  return nest;
}

uint8_t loops_of(const Program& p, const std::vector<uint8_t>& nest, const Instr& i) {
  uint8_t bits = 0;
  for (size_t a = 0; a < p.axes.size(); ++a)
    if (i.axes >> a & 1) bits = uint8_t(bits | nest[a]);
  return bits;
}

bool has_tiles(const Program& p) {
  for (const Axis& a : p.axes) {
    if (a.kind == AxisKind::loop) return true;
    std::vector<Id> reached{a.extent};
    while (!reached.empty()) {
      const Instr& i = p.instrs[reached.back()];
      reached.pop_back();
      if (i.op == Op::index) return true;
      for (Id in : i.in)
        if (in != no_value) reached.push_back(in);
    }
  }
  return std::any_of(p.instrs.begin(), p.instrs.end(), [](const Instr& i) { return i.op == Op::dot; });
}

scalar::Function extents_function(const Program& p) {
  std::vector<bool> needed(p.instrs.size(), false);
  for (const Axis& a : p.axes) needed[a.extent] = true;
  for (size_t n = p.instrs.size(); n-- > 0;)
    for (Id in : p.instrs[n].in)
      if (needed[n] && in != no_value) needed[in] = true;
  // What an extent needs is arguments, indices and scalar primitives: a scalar function of the arguments and, after them, the indices.
  scalar::Function f;
  std::vector<uint16_t> place(p.instrs.size());
  for (size_t n = 0; n < p.instrs.size(); ++n) {
    const Instr& i = p.instrs[n];
    if (!needed[n]) continue;
    scalar::Node node{i.prim, i.dtype, {}, i.imm};
    if (i.op != Op::scalar) node.prim = Prim::param;
    if (i.op == Op::index) node.imm += p.params.size();
    for (int k = 0; k < 3; ++k)
      if (i.in[k] != no_value) node.in[k] = place[i.in[k]];
    place[n] = uint16_t(f.nodes.size());
    f.nodes.push_back(node);
  }
  for (const Axis& a : p.axes) f.results.push_back(place[a.extent]);
  return f;
}

std::vector<int64_t> extents(const Program& p, const Slot* args, const int64_t* indices) {
  std::vector<Slot> params(args, args + p.params.size());
  for (size_t a = 0; a < p.axes.size(); ++a) params.push_back(indices ? Slot(indices[a]) : 0);
  std::vector<uint64_t> results(p.axes.size()), scratch;
  scalar::evaluate(extents_function(p), nullptr, params.data(), results.data(), scratch);
  return {results.begin(), results.end()};
}

}  // namespace frit::kernels
