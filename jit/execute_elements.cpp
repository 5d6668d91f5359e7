// Tier 0's elementwise steps: views as aliases, pointwise rows, copies and conversions, sources, and what is made of
// them (cat, unslice, flip). A step describes its operands as a Space, takes the kernel for that layout class, and
// launches it. Start at run_pointwise.
#include <algorithm>
#include "jit/execute.h"
#include "jit/execute_parts.h"
#include "runtime/error.h"
#include "tracer/layout.h"
#include "tracer/numbers.h"

namespace frit::jit {

using namespace tracer;
using kernels::Slot;

// ---- iteration spaces -------------------------------------------------------------------------------------------------
void Space::start(const Value& result) {
  rank = result.rank;
  operands = 1;
  for (int i = 0; i < rank; ++i) {
    extent[i] = result.extent[i], stride[0][i] = result.stride[i];
    empty |= extent[i] == 0;
  }
}
void Space::add(const Value& v) {
  const int missing = rank - v.rank;
  for (int i = 0; i < rank; ++i) {
    const int j = i - missing;
    stride[operands][i] = j < 0 || v.extent[j] == 1 ? 0 : v.stride[j];
  }
  ++operands;
}
void Space::add_strides(const int64_t* strides) { std::copy_n(strides, rank, stride[operands++]); }
void Space::simplify(bool reorder) {
  const auto move = [&](int to, int from) {
    extent[to] = extent[from];
    for (int p = 0; p < operands; ++p) stride[p][to] = stride[p][from];
  };
  int n = 0;
  for (int i = 0; i < rank; ++i)
    if (extent[i] != 1) move(n++, i);
  rank = n;
  if (reorder) {  // insertion sort by the result's strides, outermost first; most often nothing moves
    for (int i = 1; i < rank; ++i)
      for (int j = i; j > 0 && std::abs(stride[0][j - 1]) < std::abs(stride[0][j]); --j) {
        std::swap(extent[j - 1], extent[j]);
        for (int p = 0; p < operands; ++p) std::swap(stride[p][j - 1], stride[p][j]);
      }
  }
  n = 0;
  for (int i = 1; i < rank; ++i) {
    bool merges = true;
    for (int p = 0; p < operands && merges; ++p) merges = stride[p][n] == stride[p][i] * extent[i];
    if (merges) {
      extent[n] *= extent[i];
      for (int p = 0; p < operands; ++p) stride[p][n] = stride[p][i];
    } else if (++n != i) {
      move(n, i);
    }
  }
  if (rank) rank = n + 1;
}
Step Space::step(int operand) const {
  if (rank == 0) return Step::one;
  const int64_t s = stride[operand][rank - 1];
  return s == 0 ? Step::none : s == 1 ? Step::one : Step::strided;
}
int64_t Space::outer_count() const {
  int64_t n = 1;
  for (int i = 0; i + 1 < rank; ++i) n *= extent[i];
  return n;
}

namespace {
// A number's slot: its bits in the type that the row takes, zero-extended.
Slot number_bits(uint64_t argument, Category c, Dtype d) {
  const uint64_t w = number_word(argument, c, d);
  const size_t bits = 8 * size_of(compute_dtype(d));
  return bits == 64 ? w : w & ((uint64_t(1) << bits) - 1);
}

// Binds extents and strides in lower_elements' order.
struct Arguments {
  Slot slot[64];
  int count = 0;
  void push(const void* p) { slot[count++] = reinterpret_cast<Slot>(p); }
  void push(int64_t v) { slot[count++] = Slot(v); }
  void push_space(const Space& s, const Step* steps) {
    push(s.inner_extent());
    const int outer = std::max(0, s.rank - 1);
    if (outer) push(s.outer_count());
    for (int i = 1; i < outer; ++i) push(s.extent[i]);
    for (int p = 0; p < s.operands; ++p) {
      for (int i = 0; i < outer; ++i) push(s.stride[p][i]);
      if (steps[p] == Step::strided) push(s.inner_stride(p));
    }
  }
};

// Rows over scalars (one element) take every operand as contiguous.
void run_elements(ElementSpec& spec, Space& space, Arguments& a, const int* spec_slot) {
  Step steps[max_operands];
  spec.outer = uint8_t(std::max(0, space.rank - 1));
  for (int p = 0; p < space.operands; ++p) {
    steps[p] = space.step(p);
    spec.step[spec_slot[p]] = steps[p];
  }
  a.push_space(space, steps);
  launch(find_kernel(spec), a.slot, space.outer_count(), space.inner_extent());
}

Value* result_for(const Trace& t, uint32_t n, Value* const* inputs, int count) {
  int64_t e[max_rank];
  t.sizes(n, e);
  const Node& node = t.nodes[n];
  // Memory order follows the first operand of the full shape.
  for (int k = 0; k < count; ++k)
    if (inputs[k] && inputs[k]->rank == node.result.rank && std::equal(e, e + node.result.rank, inputs[k]->extent))
      return new_value_ordered(node.result.dtype, e, node.result.rank, *inputs[k]);
  return new_value(node.result.dtype, e, node.result.rank);
}
}  // namespace

// ---- pointwise ---------------------------------------------------------------------------------------------------------
ValueRef run_pointwise(Trace& t, uint32_t n, Value* const* inputs, bool writes) {
  const Node& node = t.nodes[n];
  const OpRow& r = row(node.call.op);
  ElementSpec spec;
  spec.op = node.call.op, spec.compute = node.result.compute;
  ValueRef result, held[3];
  Value* in[3] = {inputs[0], r.inputs > 1 ? inputs[1] : nullptr, r.inputs > 2 ? inputs[2] : nullptr};
  if (writes) {
    result = ValueRef::share(inputs[0]);
    if ((node.result.flags & wants_grad) && !(node.call.mode & new_leaf) && (saved_of(t, n) & In0)) {  // the gradient will read the old content
      held[0] = ValueRef::take(new_value_ordered(inputs[0]->dtype, inputs[0]->extent, inputs[0]->rank, *inputs[0]));
      copy_values(*inputs[0], *held[0]);
      const uint32_t old = t.input(n, 0);
      release(std::exchange(t.value[old], held[0].get()));
      t.version[old] = 0;
      retain(held[0].get());
      t.version[old] = held[0]->storage->version.load(std::memory_order_relaxed);
      in[0] = held[0].get();
    }
    for (int k = 1; k < r.inputs; ++k)  // an operand that overlaps the target in another way is read before the write
      if (in[k] && may_overlap(*in[k], *result) && !same_layout(*in[k], *result)) {
        held[k] = ValueRef::take(new_value(in[k]->dtype, in[k]->extent, in[k]->rank));
        copy_values(*in[k], *held[k]);
        in[k] = held[k].get();
      }
  } else {
    result = ValueRef::take(result_for(t, n, inputs, r.inputs));
  }
  Space space;
  space.start(*result);
  Arguments a;
  a.push(result->data());
  spec.memory[0] = result->dtype;
  int slots[max_operands] = {0};
  for (int k = 0; k < r.inputs; ++k) {
    if (in[k]) {
      slots[space.operands] = k + 1;
      space.add(*in[k]);
      a.push(in[k]->data());
      spec.memory[k + 1] = in[k]->dtype;
    } else {
      spec.numbers |= uint8_t(1 << k);
      spec.memory[k + 1] = r.type == TypeRule::choice && k == 0 ? Dtype::Bool : spec.compute;
    }
  }
  if (space.empty) return result;
  if (spec.numbers) {
    int slot = 0;
    for (int k = 0; k < r.inputs; ++k)
      if (spec.numbers >> k & 1)
        a.push(int64_t(number_bits(t.args[node.call.arg + slot++], Category(node.call.kind >> (2 * k) & 3), spec.memory[k + 1])));
  }
  space.simplify();
  run_elements(spec, space, a, slots);
  return result;
}

// ---- copies -------------------------------------------------------------------------------------------------------------
void copy_values(const Value& from, Value& to) {
  ElementSpec spec;
  spec.op = Op::copy, spec.compute = compute_dtype(to.dtype);
  spec.memory[0] = to.dtype, spec.memory[1] = from.dtype;
  Space space;
  space.start(to);
  space.add(from);
  if (space.empty) return;
  Arguments a;
  a.push(to.data());
  a.push(from.data());
  space.simplify();
  const int slots[] = {0, 1};
  run_elements(spec, space, a, slots);
}
ValueRef run_copy(Trace& t, uint32_t n, Value& in) {
  const Node& node = t.nodes[n];
  ValueRef out = ValueRef::take(node.call.attr ? new_value(node.result.dtype, in.extent, in.rank)
                                               : new_value_ordered(node.result.dtype, in.extent, in.rank, in));
  copy_values(in, *out);
  return out;
}
ValueRef run_reshape_copy(Trace& t, uint32_t n, Value& in) {
  ValueRef flat = ValueRef::take(new_value(in.dtype, in.extent, in.rank));
  if (interpreter_only()) copy_interpreted(in, *flat);
  else copy_values(in, *flat);
  return run_view(t, n, *flat);
}
ValueRef run_cat(Trace& t, uint32_t n, Value* const* inputs) {
  const int axis = int(t.nodes[n].call.attr), count = t.input_count(n);
  int64_t e[max_rank];
  t.sizes(n, e);
  ValueRef out = ValueRef::take(new_value(t.nodes[n].result.dtype, e, t.rank_of(n)));
  int64_t at = 0;
  for (int k = 0; k < count; ++k) {
    ValueRef part = ValueRef::take(new_alias(*out, out->rank));
    std::copy_n(out->extent, out->rank, part->extent);
    std::copy_n(out->stride, out->rank, part->stride);
    part->extent[axis] = inputs[k]->extent[axis];
    part->offset += at * out->stride[axis];
    at += inputs[k]->extent[axis];
    copy_values(*inputs[k], *part);
  }
  return out;
}
ValueRef run_flip(Trace& t, uint32_t n, Value& in) {
  ValueRef back = ValueRef::take(new_alias(in, in.rank)), out = ValueRef::take(new_value(in.dtype, in.extent, in.rank));
  for (int i = 0; i < in.rank; ++i) {
    back->extent[i] = in.extent[i], back->stride[i] = in.stride[i];
    if (t.nodes[n].call.attr >> i & 1 && in.extent[i] > 0) {
      back->offset += in.stride[i] * (in.extent[i] - 1);
      back->stride[i] = -in.stride[i];
    }
  }
  copy_values(*back, *out);
  return out;
}

// ---- sources --------------------------------------------------------------------------------------------------------------
namespace {
void fill(Value& to, Op op, Category category, std::initializer_list<Slot> numbers) {
  ElementSpec spec;
  spec.op = op, spec.compute = compute_dtype(to.dtype), spec.category = uint8_t(category);
  spec.memory[0] = to.dtype;
  Space space;
  space.start(to);
  if (space.empty) return;
  Arguments a;
  a.push(to.data());
  for (Slot s : numbers) a.push(int64_t(s));
  space.simplify();
  const int slots[] = {0};
  run_elements(spec, space, a, slots);
}
}  // namespace

ValueRef run_source(Trace& t, uint32_t n) {
  const Call& call = t.nodes[n].call;
  int64_t e[max_rank];
  t.sizes(n, e);
  ValueRef out = ValueRef::take(new_value(t.nodes[n].result.dtype, e, t.rank_of(n)));
  const auto arg = [&](int k) { return t.args[call.arg + k]; };
  const Category category = Category(call.attr >> 8 & 3);
  switch (call.op) {
    case Op::full: fill(*out, call.op, Category::boolean, {number_bits(arg(0), category, compute_dtype(out->dtype))}); break;
    case Op::arange: fill(*out, call.op, category, {arg(0), arg(1)}); break;
    case Op::random_integer: fill(*out, call.op, Category::boolean, {arg(0), arg(1), arg(2), arg(3)}); break;
    default: fill(*out, call.op, Category::boolean, {arg(0), arg(1)});
  }
  return out;
}
ValueRef run_unslice(Trace& t, uint32_t n, Value& in) {
  const Call& call = t.nodes[n].call;
  int64_t e[max_rank];
  t.sizes(n, e);
  ValueRef out = ValueRef::take(new_value(t.nodes[n].result.dtype, e, t.rank_of(n)));
  fill(*out, Op::full, Category::boolean, {0});
  ValueRef region = ValueRef::take(new_alias(*out, in.rank));
  const auto arg = [&](int k) { return int64_t(t.args[call.arg + k]); };
  if (call.op == Op::unslice) {
    std::copy_n(in.extent, in.rank, region->extent);
    std::copy_n(out->stride, in.rank, region->stride);
    region->offset += arg(0) * out->stride[call.attr];
    region->stride[call.attr] *= arg(1);
  } else {
    const int x = int(call.attr & 15), y = int(call.attr >> 4 & 15);
    int k = 0;
    for (int i = 0; i < out->rank; ++i)
      if (i != x && i != y) region->extent[k] = out->extent[i], region->stride[k++] = out->stride[i];
    region->extent[k] = in.extent[k], region->stride[k] = out->stride[x] + out->stride[y];
    region->offset += arg(0) >= 0 ? arg(0) * out->stride[y] : -arg(0) * out->stride[x];
  }
  copy_values(in, *region);
  return out;
}

// ---- views ------------------------------------------------------------------------------------------------------------------
ValueRef run_view(Trace& t, uint32_t n, Value& in) {
  const Call& call = t.nodes[n].call;
  const auto layout = view_layout(call, t.args.data() + call.arg, in);
  if (!layout) return {};
  return ValueRef::take(new_alias(in, *layout));
}

// ---- the interpreter's results -------------------------------------------------------------------------------------------------
void copy_interpreted(const Value& from, Value& to) {
  const size_t size = size_of(to.dtype);
  const int64_t count = to.numel();
  int64_t at[max_rank] = {};
  for (int64_t i = 0; i < count; ++i) {
    int64_t source = 0, target = 0;
    for (int k = 0; k < to.rank; ++k) source += at[k] * from.stride[k], target += at[k] * to.stride[k];
    std::memcpy(to.data() + target * int64_t(size), from.data() + source * int64_t(size), size);
    for (int k = to.rank; k-- > 0 && ++at[k] == to.extent[k];) at[k] = 0;
  }
}

}  // namespace frit::jit
