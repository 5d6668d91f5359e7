// Fused groups: from a trace's nodes to code (plan_group), and from code and a layout to a block program (lower_group).
#include "jit/group.h"
#include <algorithm>
#include <array>
#include "runtime/error.h"
#include "tracer/random.h"
#include "tracer/scalar_math.h"

namespace frit::jit {

using namespace kernels;
using tracer::Call;
using tracer::Node;
using tracer::RowKind;
using tracer::row;
using tracer::scalar_operand;

// ---- code ---------------------------------------------------------------------------------------------------------------
std::string GroupCode::bytes() const {
  std::string s;
  const auto put = [&](auto v) { s.append(reinterpret_cast<const char*>(&v), sizeof v); };
  put(kind), put(fast_math);
  put(uint8_t(items.size()));
  for (const Item& i : items) {
    put(i.op), put(i.compute), put(i.in), put(i.result), put(i.reduces);
    for (const Reference& r : i.refs) put(r.kind), put(r.index);
  }
  put(uint8_t(operands.size()));
  for (const Operand& o : operands) put(o.memory), put(o.source), put(o.floating);
  put(uint8_t(outputs.size()));
  for (const Output& o : outputs) put(o.item), put(o.memory);
  for (Dtype d : numbers) put(d);
  return s;
}
std::string GroupCode::name() const {
  std::string s = "fused";
  const auto add = [&](Op op) {
    if (s.ends_with("_etc")) return;
    s += s.size() > 60 ? "_etc" : std::string("_") + tracer::op_name(op);
  };
  for (const Operand& o : operands)
    if (o.source != Op::leaf) add(o.source);
  for (const Item& i : items) add(i.op);
  return s;
}
std::string GroupLayout::bytes() const {
  std::string s(1, char(outer));
  for (Step x : inner) s += char(x);
  for (Step x : reduced) s += char(x);
  return s;
}

scalar::Function source_function(const GroupCode::Operand& o) {
  return o.source == Op::arange ? tracer::arange_function(o.floating, o.memory) : tracer::random_function(o.source, o.memory);
}

GroupPlan plan_group(const Trace& t, const Group& g, const std::vector<bool>& pure, const Fusion& f) {
  GroupPlan p;
  p.space = g.space, p.first = g.first, p.last = g.last;
  p.code.kind = g.kind, p.code.fast_math = t.fast_math;
  const auto item_of = [&](uint32_t n) { return std::find(g.nodes.begin(), g.nodes.end(), n) - g.nodes.begin(); };
  const auto mine = [&](uint32_t n) { return item_of(n) != ptrdiff_t(g.nodes.size()); };
  const auto same_size = [&](uint32_t a, uint32_t b) {
    const auto &x = t.nodes[a].result, &y = t.nodes[b].result;
    return x.rank == y.rank && std::equal(x.size, x.size + x.rank, y.size, [&](auto i, auto j) { return t.find(i) == t.find(j); });
  };
  const auto kept = [&](uint32_t n) { return !same_size(n, g.space); };
  const auto number = [&](uint32_t node, int slot, int category, Dtype type) {
    p.numbers.push_back({node, uint8_t(slot), uint8_t(category), type});
    p.code.numbers.push_back(compute_dtype(type));
    return Reference{Reference::Kind::number, uint8_t(p.numbers.size() - 1)};
  };
  for (uint32_t n : g.nodes) {
    const Node& node = t.nodes[n];
    const Call& call = node.call;
    Item item;
    item.op = call.op;
    item.reduces = row(call.op).kind == RowKind::reduce;
    item.compute = call.op == Op::copy ? node.result.compute : item.reduces ? compute_dtype(node.result.dtype) : node.result.compute;
    item.result = node.result.dtype;
    int slot = 0;
    const int count = t.input_count(n);
    std::vector<bool> used(3, true);
    if (!item.reduces && call.op != Op::copy) {
      std::fill(used.begin(), used.end(), false);
      for (const scalar::Node& s : tracer::pointwise_function(call.op, node.result.compute).nodes)
        if (s.prim == Prim::input) used[s.imm] = true;
    }
    for (int k = 0; k < count; ++k) {
      uint32_t in = t.input(n, k);
      while (in != scalar_operand && t.nodes[in].call.op == Op::detach) in = t.nodes[in].call.in[0];  // one operand with what it shows
      if (in == scalar_operand) {
        const int category = call.kind >> (2 * k) & 3;
        const Dtype type = row(call.op).type == tracer::TypeRule::choice && k == 0 ? Dtype::Bool : node.result.compute;
        item.refs[k] = number(n, slot++, category, type);
        continue;
      }
      if (!used[k]) continue;
      if (k == 0) item.in = t.nodes[in].result.dtype;
      const uint32_t base = passes_through(t, in) ? view_base(t, in) : in;
      if (mine(base)) item.refs[k] = {Reference::Kind::item, uint8_t(item_of(base))};
      else if (f.constant[in]) item.refs[k] = number(in, 0, int(t.nodes[in].call.attr >> 8 & 3), t.nodes[in].result.dtype);
      else {
        const bool through_kept = kept(n) && !item.reduces;
        size_t o = 0;
        while (o < p.operands.size() && !(p.operands[o].node == in && p.operands[o].kept == through_kept && t.nodes[p.operands[o].consumer].result.rank == node.result.rank)) ++o;
        if (o == p.operands.size()) {
          p.operands.push_back({in, item.reduces ? g.space : n, through_kept});
          p.code.operands.push_back({t.nodes[in].result.dtype});
          if (const uint32_t source = view_base(t, in); f.computed[source]) {
            const Call& drawn = t.nodes[source].call;
            GroupCode::Operand& operand = p.code.operands.back();
            operand.source = drawn.op;
            operand.floating = drawn.op == Op::arange && tracer::Category(drawn.attr >> 8 & 3) == tracer::Category::floating;
            p.operands.back().source = source, p.operands.back().params = uint8_t(param_types(source_function(operand)).size());
          }
        }
        item.refs[k] = {Reference::Kind::operand, uint8_t(o)};
      }
    }
    p.code.items.push_back(item);
  }
  for (uint32_t n : g.outputs) {
    p.outputs.push_back({n, kept(n), (t.nodes[n].call.mode & tracer::in_place) && !pure[n], true});
    p.code.outputs.push_back({uint8_t(item_of(n)), t.nodes[n].result.dtype});
  }
  return p;
}

// ---- lowering ---------------------------------------------------------------------------------------------------------------
namespace {
Reduce reduce_kind(Op op) {
  switch (op) {
    case Op::sum: return Reduce::sum;
    case Op::prod: return Reduce::prod;
    case Op::amax: return Reduce::max;
    case Op::amin: return Reduce::min;
    case Op::any: return Reduce::any;
    default: return Reduce::all;
  }
}

class GroupLowering {
 public:
  GroupLowering(const GroupCode& g, const GroupLayout& l) : g_(g), l_(l), b_(g.name()) {}
  Program run();

 private:
  Value offset(size_t pointer);
  Value operand(const Reference& r, Dtype wanted);
  void compute(size_t i);
  void find_products();
  bool multiply_add(size_t i);
  bool varies(const Reference& r) const;
  void set(size_t i, Value v);

  const GroupCode& g_;
  const GroupLayout& l_;
  ProgramBuilder b_;
  Value source(size_t operand);

  std::vector<Value> pointer_, number_, at_;  // pointer_: a computed source has its first index there
  std::vector<std::vector<Value>> source_param_;
  std::vector<Value> source_value_;  // of operands, once they are computed
  std::vector<std::vector<Value>> outer_stride_;
  std::vector<Value> reduced_stride_, inner_stride_;
  Value lane_, turn_;      // indices along the last axis and (columns) the reduced one
  int reduced_axis_ = 0;
  std::vector<Value> value_;  // of each item
  std::vector<Value> unrounded_;  // the same, where a store rounds it
  std::vector<bool> varies_;  // of each item: along the reduced axis
  std::vector<bool> product_; // of each item: its value is only part of a fused multiply-add
  std::vector<std::array<Value, 2>> factors_;  // of those
};

// fast_math: a mul that exactly one add or sub of the same type reads. (Half formats round every value: they are left alone.)
void GroupLowering::find_products() {
  product_.assign(g_.items.size(), false), factors_.resize(g_.items.size());
  if (!g_.fast_math) return;
  std::vector<int> readers(g_.items.size()), sums(g_.items.size());
  const auto plain = [](const Item& i) { return !i.reduces && is_floating(i.compute) && i.result == i.compute; };
  for (const Item& i : g_.items)
    for (const Reference& r : i.refs)
      if (r.kind == Reference::Kind::item) {
        ++readers[r.index];
        sums[r.index] += (i.op == Op::add || i.op == Op::sub) && plain(i) && i.compute == g_.items[r.index].compute;
      }
  for (const auto& o : g_.outputs) ++readers[o.item];
  for (size_t i = 0; i < g_.items.size(); ++i) product_[i] = g_.items[i].op == Op::mul && plain(g_.items[i]) && readers[i] == 1 && sums[i] == 1;
}
bool GroupLowering::multiply_add(size_t i) {
  const Item& item = g_.items[i];
  if (product_[i]) {
    factors_[i] = {operand(item.refs[0], item.compute), operand(item.refs[1], item.compute)};
    return true;
  }
  if (!g_.fast_math || (item.op != Op::add && item.op != Op::sub)) return false;
  for (int k = 1; k >= 0; --k) {
    const Reference &r = item.refs[k], &other = item.refs[1 - k];
    if (r.kind != Reference::Kind::item || !product_[r.index] || (other.kind == Reference::Kind::item && product_[other.index] && k == 0)) continue;
    auto [a, b] = factors_[r.index];
    Value c = other.kind == Reference::Kind::item && product_[other.index]
                  ? b_.mul(factors_[other.index][0], factors_[other.index][1])  // of two products one is rounded
                  : operand(other, item.compute);
    if (item.op == Op::sub) (k == 0 ? c : a) = b_.apply(Prim::neg, item.compute, {k == 0 ? c : a});
    value_[i] = b_.apply(Prim::fma, item.compute, {a, b, c});
    return true;
  }
  return false;
}

Value GroupLowering::offset(size_t p) {
  Value sum;
  const auto add = [&](Value index, Value stride) {
    const Value term = stride.id == no_value ? index : b_.mul(index, stride);
    sum = sum.id == no_value ? term : b_.add(sum, term);
  };
  for (size_t i = 0; i < at_.size(); ++i) add(at_[i], outer_stride_[p][i]);
  if (g_.kind == GroupKind::columns && l_.reduced[p] != Step::none) add(turn_, reduced_stride_[p]);
  if (l_.inner[p] != Step::none) add(lane_, inner_stride_[p]);
  return sum.id == no_value ? b_.integer_constant(0) : sum;
}
// What would be loaded if the source were stored.
Value GroupLowering::source(size_t operand) {
  const GroupCode::Operand& o = g_.operands[operand];
  Value& v = source_value_[operand];
  if (v.id != no_value) return v;
  const size_t p = g_.outputs.size() + operand;
  v = b_.convert(b_.expand(source_function(o), {b_.add(pointer_[p], offset(p))}, source_param_[operand])[0], compute_dtype(o.memory));
  if (is_half(o.memory)) v = b_.apply(o.memory == Dtype::Float16 ? Prim::round_float16 : Prim::round_bfloat16, Dtype::Float32, {v});
  return v;
}
Value GroupLowering::operand(const Reference& r, Dtype wanted) {
  switch (r.kind) {
    case Reference::Kind::item: return b_.convert(value_[r.index], wanted);
    case Reference::Kind::number: return b_.convert(number_[r.index], wanted);
    case Reference::Kind::operand:
      if (g_.operands[r.index].source != Op::leaf) return b_.convert(source(r.index), wanted);
      return b_.convert(b_.load(pointer_[g_.outputs.size() + r.index], offset(g_.outputs.size() + r.index)), wanted);
    default: return b_.constant(0, wanted);
  }
}
bool GroupLowering::varies(const Reference& r) const {
  if (r.kind == Reference::Kind::item) return varies_[r.index];
  return r.kind == Reference::Kind::operand && (g_.kind == GroupKind::columns ? l_.reduced : l_.inner)[g_.outputs.size() + r.index] != Step::none;
}
// Half formats round every value.
void GroupLowering::set(size_t i, Value v) {
  const Dtype d = g_.items[i].result;
  value_[i] = v;
  if (!is_half(d) || b_.is_rounded(v, d)) return;
  unrounded_[i] = v;
  value_[i] = b_.apply(d == Dtype::Float16 ? Prim::round_float16 : Prim::round_bfloat16, Dtype::Float32, {v});
}
void GroupLowering::compute(size_t i) {
  const Item& item = g_.items[i];
  const Dtype out = compute_dtype(item.result);
  varies_[i] = !item.reduces && (varies(item.refs[0]) || varies(item.refs[1]) || varies(item.refs[2]));
  if (item.reduces) {
    Value v = operand(item.refs[0], accumulator_dtype(item.op, item.in));
    if (!varies(item.refs[0])) {  // a number, or one element repeated: each lane has a copy
      const Value index = g_.kind == GroupKind::columns ? turn_ : lane_;
      v = b_.apply(Prim::select, b_.dtype(v), {b_.apply(Prim::lt, Dtype::Bool, {index, b_.integer_constant(0)}), b_.constant(0, b_.dtype(v)), v});
    }
    set(i, b_.convert(b_.reduce(reduce_kind(item.op), v, reduced_axis_), out));
    return;
  }
  if (item.op == Op::copy) {
    const Value v = operand(item.refs[0], compute_dtype(item.in));
    set(i, b_.convert(b_.expand(tracer::copy_function(item.in, item.result), {v}, {})[0], out));
    return;
  }
  if (multiply_add(i)) return;
  const bool choice = row(item.op).type == tracer::TypeRule::choice;
  std::vector<Value> in;
  for (int k = 0; k < row(item.op).inputs; ++k) in.push_back(operand(item.refs[k], choice && k == 0 ? Dtype::Bool : item.compute));
  set(i, b_.convert(b_.expand(tracer::pointwise_function(item.op, item.compute), in, {})[0], out));
}
Program GroupLowering::run() {
  const size_t pointers = g_.outputs.size() + g_.operands.size();
  for (const auto& o : g_.outputs) pointer_.push_back(b_.pointer(o.memory, true));
  source_param_.resize(g_.operands.size()), source_value_.resize(g_.operands.size());
  for (size_t i = 0; i < g_.operands.size(); ++i) {
    const GroupCode::Operand& o = g_.operands[i];
    pointer_.push_back(o.source == Op::leaf ? b_.pointer(o.memory) : b_.integer());
    if (o.source != Op::leaf)
      for (Dtype d : param_types(source_function(o))) source_param_[i].push_back(b_.number(d));
  }
  for (Dtype d : g_.numbers) number_.push_back(b_.number(d));
  const bool columns = g_.kind == GroupKind::columns;
  Value reduced_extent;
  if (columns) reduced_extent = b_.integer();
  const Value block_extent = b_.integer();
  Value grid;
  if (l_.outer) grid = b_.integer();
  std::vector<Value> inner_extents;
  for (int i = 1; i < l_.outer; ++i) inner_extents.push_back(b_.integer());
  outer_stride_.resize(pointers), reduced_stride_.resize(pointers), inner_stride_.resize(pointers);
  for (size_t p = 0; p < pointers; ++p) {
    for (int i = 0; i < l_.outer; ++i) outer_stride_[p].push_back(b_.integer());
    if (columns && l_.reduced[p] != Step::none) reduced_stride_[p] = b_.integer();
    if (l_.inner[p] == Step::strided) inner_stride_[p] = b_.integer();
  }
  if (l_.outer) {
    Value linear = b_.index(b_.axis(AxisKind::grid, grid));
    at_.resize(l_.outer);
    for (int i = l_.outer - 1; i > 0; --i) {
      at_[i] = b_.apply(Prim::rem, Dtype::Int64, {linear, inner_extents[i - 1]});
      linear = b_.apply(Prim::div, Dtype::Int64, {linear, inner_extents[i - 1]});
    }
    at_[0] = linear;
  }
  if (columns) {
    reduced_axis_ = b_.axis(AxisKind::block, reduced_extent);
    turn_ = b_.index(reduced_axis_);
  }
  const int block = b_.axis(AxisKind::block, block_extent);
  lane_ = b_.index(block);
  if (!columns) reduced_axis_ = block;
  value_.resize(g_.items.size()), unrounded_.resize(g_.items.size()), varies_.resize(g_.items.size());
  find_products();
  for (size_t i = 0; i < g_.items.size(); ++i) compute(i);
  for (size_t o = 0; o < g_.outputs.size(); ++o) {
    const uint8_t item = g_.outputs[o].item;
    b_.store(pointer_[o], offset(o), unrounded_[item].id == no_value ? value_[item] : unrounded_[item]);
  }
  return b_.finish();
}
}  // namespace

Program lower_group(const GroupCode& g, const GroupLayout& l) { return GroupLowering(g, l).run(); }

}  // namespace frit::jit
