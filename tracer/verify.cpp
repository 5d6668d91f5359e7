// Checks a trace: that its tables are sane, that each call can be inferred at all (operands before it, arguments in their
// table, axes in range), and that inferring it again, on a copy that grows node by node, gives the recorded result and in the
// end the recorded union-find. What fails is a bug, so the error shows the line and the whole text. Start at verify.
#include "runtime/error.h"
#include "tracer/call_form.h"

namespace frit::tracer {

namespace {
struct Verifier {
  const Trace& t;
  Trace& copy;
  uint32_t n = 0;

  [[noreturn]] void fail(const std::string& why) const {
    std::string s = "verify: " + why;
    if (n < t.nodes.size()) s += "\n  in " + node_text(t, n);
    throw InternalError(s + "\nThe trace:\n" + text(t));
  }
  void require(bool holds, const char* why) const {
    if (!holds) fail(why);
  }

  void tables() const {
    require(t.derived.size() == t.extent.size() && t.name.size() == t.extent.size(), "the size ids' tables differ in length");
    require(t.extent.size() == t.parent.size() && t.extent.size() >= 2 && t.extent.size() <= 0xffff, "the size ids' tables differ in length");
    require(t.extent[0] == 0 && t.extent[1] == 1 && t.parent[0] == 0 && t.parent[1] == 1, "size ids 0 and 1 are not the extents 0 and 1");
    uint32_t joins = 0;
    for (size_t s = 2; s < t.parent.size(); ++s) {
      const std::string name = "size id s" + std::to_string(s);
      if (t.parent[s] > s || (t.parent[s] < 2)) fail(name + " has a parent that is no earlier size id");
      if (t.extent[s] < 2) fail(name + " has an extent below 2");
      if (t.extent[t.parent[s]] != t.extent[s]) fail(name + " was joined with another extent");
      joins += t.parent[s] != s;
    }
    require(joins == t.joins, "the count of joins is wrong");
  }

  // ---- one call -------------------------------------------------------------------------------------------------------
  const Call& call() const { return t.nodes[n].call; }
  const Result& result() const { return t.nodes[n].result; }
  const Result& in(int k) const { return t.nodes[call().in[k]].result; }
  int64_t extent_of(int k, uint64_t axis) const { return t.extent[in(k).size[axis]]; }
  int64_t arg(int k) const { return int64_t(t.args[call().arg + uint32_t(k)]); }

  void operands() const {
    const OpRow& r = row(call().op);
    if (r.inputs < 0) {
      require(!(call().mode & in_place), "what it writes in place is no tensor");
      require(call().in[1] > 0 && call().in[0] <= t.lists.size() && call().in[1] <= t.lists.size() - call().in[0], "the list of operands is out of its table");
      for (uint32_t k = 0; k < call().in[1]; ++k) require(t.lists[call().in[0] + k] < n, "an operand does not come before its node");
      return;
    }
    int nodes = 0;
    for (int k = 0; k < 4; ++k) {
      if (k >= r.inputs) require(call().in[k] == no_node, "there are more operands than the row has");
      else if (call().in[k] == scalar_operand) require(r.kind == RowKind::pointwise && (call().kind >> (2 * k) & 3) < 3, "an operand is a number where none can be");
      else require(call().in[k] < n, "an operand does not come before its node"), ++nodes;
    }
    require(nodes > 0 || r.inputs == 0, "all operands are numbers");
    if (call().mode & in_place) require(r.inputs > 0 && call().in[0] < n, "what it writes in place is no tensor");
    if (r.kind == RowKind::companion) require(call().kind < 2 && t.nodes[call().in[0]].call.op == Op::attention_gradient, "its first operand makes nothing beside its value");
    if (r.type == TypeRule::assign) require(call().mode & in_place, "assign is not in place");
  }
  void axes() const {
    const uint64_t a = call().attr;
    const int inputs = row(call().op).kind == RowKind::pointwise ? 0 : row(call().op).inputs;
    const uint64_t rank = inputs > 0 ? in(0).rank : inputs < 0 ? t.nodes[t.lists[call().in[0]]].result.rank : 0;
    switch (attr_form(call().op)) {
      case AttrForm::axis: {
        const RowKind kind = row(call().op).kind;
        const bool line = kind == RowKind::scan || kind == RowKind::library || kind == RowKind::gather || kind == RowKind::scatter;
        require(a < std::max<uint64_t>(rank, line), "the axis is out of range");
        break;
      }
      case AttrForm::permutation: {
        uint64_t seen = 0;
        for (uint64_t i = 0; i < rank; ++i) seen |= uint64_t(1) << (a >> (4 * i) & 15);
        require(seen == (uint64_t(1) << rank) - 1, "the axes are no permutation");
        break;
      }
      case AttrForm::pair: {
        const uint64_t axes = rank + (call().op == Op::undiagonal);
        require(axes <= max_rank, "the rank is too large");
        require((a & 15) < axes && (a >> 4) < axes && (a & 15) != a >> 4, "the two axes are not two of the tensor's");
        require(call().op == Op::diagonal || rank >= 1, "the two axes are not two of the tensor's");
        break;
      }
      case AttrForm::source: require((a & 0xff) == result().rank && a >> 8 < 3, "attr is not the rank and a category"); break;
      case AttrForm::rank: require(a == result().rank, "attr is not the rank"); break;
      case AttrForm::attention: require(a <= 7, "attr is no form of attention"); break;
      case AttrForm::none: require(a == 0, "attr is not used by this row"); break;
      default: break;
    }
    if (kind_form(call().op) == KindForm::rank) require(call().kind == result().rank, "kind is not the rank");
    if (kind_form(call().op) == KindForm::dtype) require(call().kind < dtype_count, "kind is no element type");
  }
  // A view's or its reverse's arguments, against the extents. Length, start, step as slice takes them.
  bool fits(int64_t start, int64_t length, int64_t step, int64_t extent) const {
    return length >= 0 && (length == 0 || (start >= 0 && step >= 1 && start < extent && length - 1 <= (extent - 1 - start) / step));
  }
  int64_t diagonal_length(int64_t offset, int64_t rows, int64_t columns) const {
    if (offset <= -rows || offset >= columns) return 0;
    return offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns);
  }
  // Each group of axes, and so the whole, keeps its number of elements.
  void reshape() const {
    for (uint64_t group = 0; group < 16; ++group) {
      int64_t wanted = 1, given = 1;
      bool overflow = false;
      for (int i = 0; i < result().rank; ++i)
        if ((call().attr >> (4 * i) & 15) == group) overflow |= arg(i) < 0 || __builtin_mul_overflow(wanted, arg(i), &wanted);
      for (int i = 0; i < in(0).rank; ++i)
        if ((call().attr >> (32 + 4 * i) & 15) == group) overflow |= __builtin_mul_overflow(given, extent_of(0, uint64_t(i)), &given);
      require(!overflow && wanted == given, "a group of axes changes its number of elements");
    }
  }
  void arguments() const {
    const size_t count = argument_count(t, n);
    require(call().arg <= t.args.size() && count <= t.args.size() - call().arg, "the arguments are out of their table");
    const uint64_t a = call().attr;
    switch (call().op) {
      case Op::slice: require(fits(arg(0), arg(1), arg(2), extent_of(0, a)), "the slice is out of range"); break;
      case Op::select: require(arg(0) >= 0 && arg(0) < extent_of(0, a), "the index is out of range"); break;
      case Op::diagonal: require(arg(1) == diagonal_length(arg(0), extent_of(0, a & 15), extent_of(0, a >> 4)), "the diagonal's length is wrong"); break;
      case Op::unslice: require(arg(2) >= 0 && fits(arg(0), extent_of(0, a), arg(1), arg(2)), "the slice is out of range"); break;
      case Op::undiagonal:
        require(arg(1) >= 0 && arg(2) >= 0 && extent_of(0, uint64_t(in(0).rank - 1)) == diagonal_length(arg(0), arg(1), arg(2)), "the diagonal's length is wrong");
        break;
      case Op::reshape: reshape(); break;
      case Op::convolution:
      case Op::convolution_input:
      case Op::convolution_weight:
      case Op::pool_max:
      case Op::pool_argmax: require(in(0).rank == result().rank && result().rank > 2 && result().rank < 5, "there are one or two spatial axes"); break;
      case Op::as_strided:
        for (int i = 1; i <= 2 * result().rank; ++i) require(arg(i) >= 0, "an extent or a stride is not possible");
        break;
      case Op::expand:
        for (int i = 0; i < result().rank; ++i) require(arg(i) >= 0, "an extent is not possible");
        break;
      default: break;
    }
  }
  void leaf() const {
    const Result& r = result();
    require(call().kind == uint8_t(r.dtype) && r.compute == r.dtype, "the leaf's type is not its kind");
    require(call().attr == (uint64_t(r.rank) | uint64_t(r.flags == wants_grad) << 8) && r.flags <= wants_grad, "the leaf's attr is not its rank and flag");
    for (int i = 0; i < r.rank; ++i) {
      require(r.size[i] < t.extent.size(), "a size id is out of its table");
      require(copy.new_size(t.extent[r.size[i]]) == r.size[i], "the leaf's size ids are not new");
    }
  }

  void compare(const Result& got) const {
    const Result& r = result();
    const auto type = [](Dtype d) { return std::string(dtype_name(d)); };
    if (got.dtype != r.dtype) fail("the type should be " + type(got.dtype));
    if (got.compute != r.compute) fail("it should compute in " + type(got.compute));
    if (got.rank != r.rank) fail("the rank should be " + std::to_string(got.rank));
    for (int i = 0; i < r.rank; ++i)
      if (got.size[i] != r.size[i] || copy.extent[got.size[i]] != t.extent[r.size[i]])
        fail("axis " + std::to_string(i) + " should be size id " + std::to_string(got.size[i]) + " of extent " + std::to_string(copy.extent[got.size[i]]));
    const uint8_t flags = call().mode & new_leaf ? got.flags | wants_grad : got.flags;
    if (flags != r.flags) fail(flags & wants_grad ? "it should want a gradient" : "it should not want a gradient");
  }
  void infer_again(const Call& c, Result& out, const char* what) const {
    try {
      infer(copy, c, out, c.mode & grad_mode);
    } catch (const Error& e) {
      fail(std::string(what) + ": " + e.what());
    }
  }
  // The region that a written view replaced must be a view of the base with the new content's extents.
  void recipe() const {
    const uint64_t op = uint64_t(arg(0)) & 0xffff;
    require(op < uint64_t(Op::count) && row(Op(op)).kind == RowKind::view, "the recipe is no view");
    Trace& scratch = *new_trace();
    const std::unique_ptr<Trace, void (*)(Trace*)> keep(&scratch, [](Trace* dead) { release(dead); });
    scratch.extent = copy.extent, scratch.parent = copy.parent, scratch.joins = copy.joins;
    scratch.derived = copy.derived, scratch.name = copy.name;
    scratch.nodes = copy.nodes, scratch.args = t.args;
    Node view;
    view.call = Call{.op = Op(op), .kind = uint8_t(arg(0) >> 16), .arg = call().arg + 3, .attr = uint64_t(arg(1))};
    view.call.in[0] = call().in[0];
    const Result& content = in(1);
    view.result = Result{};
    view.result.rank = content.rank;
    scratch.nodes.push_back(view);
    const Verifier v{scratch, scratch, n};
    try {
      v.axes(), v.arguments();
      infer(scratch, view.call, view.result, false);
    } catch (const std::exception&) {
      fail("the recipe does not fit its base");
    }
    bool same = view.result.rank == content.rank;
    for (int i = 0; same && i < content.rank; ++i) same = scratch.extent[view.result.size[i]] == t.extent[content.size[i]];
    require(same, "the recipe's extents are not those of the written view");
  }
  void node() {
    const Node& recorded = t.nodes[n];
    require(call().op < Op::count, "there is no such op");
    require(result().rank <= max_rank && size_t(result().dtype) < dtype_count && size_t(result().compute) < dtype_count, "the result is no tensor");
    for (int i = 0; i < result().rank; ++i) require(result().size[i] < t.extent.size(), "a size id is out of its table");
    operands();
    axes();
    arguments();
    if (call().op == Op::leaf) leaf();
    else {
      Result r;
      infer_again(call(), r, "its shape rule refuses it");
      compare(r);
      if (call().op == Op::write_view) recipe();
    }
    require(result().size_end == copy.extent.size(), "the count of size ids is wrong");
    copy.name.assign(t.name.begin(), t.name.begin() + ptrdiff_t(copy.extent.size()));  // given, not inferred
    require(result().join_end == copy.joins, "the count of joins is wrong");
    copy.nodes.push_back(recorded);
  }
  void end() const {
    require(copy.extent == t.extent, "there are size ids that no node makes");
    for (size_t s = 2; s < t.derived.size(); ++s)
      if (copy.derived[s] != t.derived[s]) fail("size id s" + std::to_string(s) + (copy.derived[s] ? " should" : " should not") + " be derived from others");
    for (size_t s = 2; s < t.parent.size(); ++s)
      if (t.find(SizeId(s)) != copy.find(SizeId(s))) fail("size id s" + std::to_string(s) + " should be joined with s" + std::to_string(copy.find(SizeId(s))));
  }
};
}  // namespace

void verify(const Trace& t) {
  const std::unique_ptr<Trace, void (*)(Trace*)> copy(new_trace(), [](Trace* dead) { release(dead); });
  copy->args = t.args, copy->lists = t.lists;
  Verifier v{t, *copy};
  v.n = uint32_t(t.nodes.size());  // no node yet
  v.tables();
  for (v.n = 0; v.n < t.nodes.size(); ++v.n) v.node();
  v.end();
}

}  // namespace frit::tracer
