// Block programs to CUDA C++ text, in one of the three forms of structure.h.
//
// What an item determines (its values vary along no axis but the items') is computed once, level by level (level = the
// number of reductions that a value waits for); then each set of axes that stores have gets a loop of its own. Loops
// evaluate again what they need (emit_values); a reduction that still varies along an axis of the loop is a loop of its
// thread. `done` flags say which values the current scope can name. Start with Generator::run.
#include "jit/cuda/generate.h"

#include <algorithm>
#include <stdexcept>

#include "jit/cuda/expression.h"
#include "jit/cuda/structure.h"

namespace frit::jit {
namespace {

using namespace kernels;
using cuda::literal;
using cuda::value_type;

constexpr int chunk_elements = 65536;  // of a reduction, see generate.h
constexpr int pairwise_chunk = 256;    // one element a lane: no element meets another but by position
constexpr int column_count = 32;

using cuda::Done;
using cuda::Form;
using cuda::RareGroup;
using cuda::Structure;

std::string number(uint64_t n) { return std::to_string(n); }

class Generator {
 public:
  explicit Generator(const Program& p) : p_(p), structure_(p), form_(structure_.form), shared_axes_(structure_.shared_axes) {}

  CudaSource run() {
    signature();
    Done done(p_.instrs.size(), false);
    early_values(done);
    if (form_ == Form::lanes) lanes(done);
    else items(done);
    close();
    CudaSource s;
    s.name = "frit_" + p_.name;
    s.text = "namespace program_" + p_.name + " {\n" + cuda::prelude(body_) + "\n" + body_ + "\n}  // namespace\n";
    s.row_block = form_ != Form::lanes;
    s.item_axes = structure_.item_axes;
    s.block_items = form_ == Form::lanes ? 256 : form_ == Form::row ? 1 : column_count;
    return s;
  }

 private:
  // ---- text -------------------------------------------------------------------------------------------------------

  void line(const std::string& s) { body_ += std::string(size_t(2 * depth_), ' ') + s + "\n"; }
  void open(const std::string& s) {
    line(s + " {");
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }

  std::string operand(Id id) const {
    const Instr& i = p_.instrs[id];
    switch (i.op) {
      case Op::pointer:
      case Op::integer:
      case Op::number: return "p" + number(i.imm);
      case Op::index: return "i" + number(i.imm);
      case Op::scalar:
        if (i.prim == Prim::constant) return literal(i.imm, i.dtype);
        [[fallthrough]];
      default: return "v" + number(id);
    }
  }
  static bool named_by_itself(const Instr& i) {
    return i.op == Op::pointer || i.op == Op::integer || i.op == Op::number || i.op == Op::index ||
           (i.op == Op::scalar && i.prim == Prim::constant);
  }

  void signature() {
    std::string params;
    for (size_t k = 0; k < p_.params.size(); ++k) {
      const Param& q = p_.params[k];
      params += k ? ", " : "";
      if (q.kind == ParamKind::pointer) params += (q.written ? "" : "const ") + cuda::memory_type(q.dtype) + "* p" + number(k);
      else params += value_type(q.dtype) + " p" + number(k);
    }
    open("extern \"C\" __global__ void __launch_bounds__(256, 1) frit_" + p_.name + "(" + params + ")");
  }

  // Values that follow from arguments alone, and the extents.
  void early_values(Done& done) {
    std::vector<bool> early(p_.instrs.size(), false);
    for (size_t n = 0; n < p_.instrs.size(); ++n) {
      const Instr& i = p_.instrs[n];
      early[n] = i.op == Op::pointer || i.op == Op::integer || i.op == Op::number || i.op == Op::scalar;
      for (Id in : i.in)
        if (in != no_value && !early[in]) early[n] = false;
      if (early[n]) emit_value(Id(n), done);
    }
    for (size_t a = 0; a < p_.axes.size(); ++a) line("const long long n" + number(a) + " = " + operand(p_.axes[a].extent) + ";");
  }

  std::vector<size_t> axes_of(uint8_t mask) const {
    std::vector<size_t> out;
    for (size_t a = 0; a < p_.axes.size(); ++a)
      if (mask >> a & 1) out.push_back(a);
    return out;
  }
  std::string extent_product(uint8_t mask) const {
    std::string out;
    for (size_t a : axes_of(mask)) out += (out.empty() ? "n" : " * n") + number(a);
    return out.empty() ? "1" : out;
  }

  // The indices along the axes of `mask`, the last one fastest, from the linear index `from`.
  void split_index(uint8_t mask, const std::string& from) {
    const std::vector<size_t> axes = axes_of(mask);
    if (axes.empty()) return;
    if (axes.size() == 1) return line("const long long i" + number(axes[0]) + " = " + from + ";");
    const std::string rest = "rest" + number(axes[0]) + "_" + number(axes.back());
    line("long long " + rest + " = " + from + ";");
    for (size_t k = axes.size(); k-- > 1;)
      line("const long long i" + number(axes[k]) + " = take_index(" + rest + ", n" + number(axes[k]) + ");");
    line("const long long i" + number(axes[0]) + " = " + rest + ";");
  }

  // ---- values -----------------------------------------------------------------------------------------------------

  // What `roots` need and the scope lacks, reductions looked through; only values that the bound axes determine.
  std::vector<Id> needed(const std::vector<Id>& roots, uint8_t bound, const Done& done) const {
    std::vector<bool> seen(p_.instrs.size(), false);
    std::vector<Id> work = roots, out;
    while (!work.empty()) {
      const Id id = work.back();
      work.pop_back();
      if (seen[id] || done[id]) continue;
      seen[id] = true;
      for (Id in : p_.instrs[id].in)
        if (in != no_value) work.push_back(in);
      if ((p_.instrs[id].axes & ~bound) == 0) out.push_back(id);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  void emit_values(const std::vector<Id>& roots, uint8_t bound, Done& done) { emit_list(needed(roots, bound, done), bound, done); }

  void emit_list(const std::vector<Id>& list, uint8_t bound, Done& done) {
    const std::vector<RareGroup> groups = structure_.rare_groups(list, done);
    Done later(p_.instrs.size(), false);  // emitted with a group
    for (const RareGroup& g : groups) {
      for (Id id : g.selects) later[id] = true;
      for (Id id : g.side) later[id] = true;
    }
    for (Id id : list) {
      for (const RareGroup& g : groups)
        if (g.selects[0] == id) emit_rare(g, bound, done);
      if (later[id]) continue;
      if (p_.instrs[id].op == Op::reduce) emit_reduction({id}, bound, done, "0", "256", "");
      else emit_value(id, done);
    }
  }

  // The rarely chosen side is computed under its condition.
  void emit_rare(const RareGroup& g, uint8_t bound, Done& done) {
    for (Id id : g.selects) line(value_type(p_.instrs[id].dtype) + " v" + number(id) + " = " + operand(p_.instrs[id].in[2]) + ";");
    open("if (" + operand(p_.instrs[g.selects[0]].in[0]) + ")");
    emit_list(g.side, bound, done);
    for (Id id : g.selects) line("v" + number(id) + " = " + operand(p_.instrs[id].in[1]) + ";");
    close();
    for (Id id : g.selects) done[id] = true;
  }

  void emit_value(Id id, Done& done) {
    const Instr& i = p_.instrs[id];
    done[id] = true;
    if (named_by_itself(i)) return;
    if (i.op == Op::store) {
      const std::string element = operand(i.in[0]) + "[" + operand(i.in[1]) + "]";
      const std::string guard = i.in[3] == no_value ? "" : "if (" + operand(i.in[3]) + ") ";
      return line(store_guard_ + guard + element + " = " + cuda::to_memory(p_.instrs[i.in[0]].dtype, operand(i.in[2])) + ";");
    }
    line("const " + value_type(i.dtype) + " v" + number(id) + " = " + (i.op == Op::load ? load_text(i) : scalar_text(id)) + ";");
  }

  std::string load_text(const Instr& i) const {
    const std::string element = operand(i.in[0]) + "[" + operand(i.in[1]) + "]";
    const std::string value = cuda::from_memory(p_.instrs[i.in[0]].dtype, element);
    if (i.in[2] == no_value) return value;
    return operand(i.in[2]) + " ? " + value + " : " + (i.in[3] == no_value ? literal(0, i.dtype) : operand(i.in[3]));
  }

  std::string scalar_text(Id id) const {
    const Instr& i = p_.instrs[id];
    std::vector<std::string> in;
    for (int k = 0; k < scalar::prim_arity(i.prim); ++k) in.push_back(operand(i.in[k]));
    const Dtype operands = in.empty() ? i.dtype : p_.instrs[i.in[0]].dtype;
    return cuda::expression(i, in, operands, structure_.address[id]);
  }

  // ---- reductions -------------------------------------------------------------------------------------------------

  std::string accumulator(const Instr& r) const {
    const std::string type = value_type(p_.instrs[r.in[0]].dtype);
    switch (r.kind) {
      case Reduce::sum: return "Sum<" + type + ">";
      case Reduce::prod: return "Product<" + type + ">";
      case Reduce::max: return "Maximum<" + type + ">";
      case Reduce::min: return "Minimum<" + type + ">";
      case Reduce::argmax: return "Best<" + type + ", true>";
      case Reduce::argmin: return "Best<" + type + ", false>";
      case Reduce::any: return "Any";
      default: return "All";
    }
  }

  // Elements that meet by position alone are not to meet +0, which would turn -0 into +0.
  bool starts_at_minus_zero(const Instr& r) const {
    return r.order == Order::pairwise && r.kind == Reduce::sum && is_floating(r.dtype);
  }
  // The value that changes nothing.
  std::string identity(const Instr& r) const {
    const Dtype d = p_.instrs[r.in[0]].dtype;
    const uint64_t sign = uint64_t(1) << (8 * size_of(d) - 1);
    switch (r.kind) {
      case Reduce::sum: return literal(starts_at_minus_zero(r) ? sign : 0, d);
      case Reduce::prod: return d == Dtype::Float32 ? "1.0f" : d == Dtype::Float64 ? "1.0" : literal(1, d);
      case Reduce::max: return lowest(d, true);
      case Reduce::min: return lowest(d, false);
      case Reduce::any: return "false";
      case Reduce::all: return "true";
      default: return literal(0, d) + ", -1";
    }
  }
  static std::string lowest(Dtype d, bool negative) {
    if (d == Dtype::Float32) return literal(negative ? 0xff800000u : 0x7f800000u, d);
    if (d == Dtype::Float64) return literal(negative ? 0xfff0000000000000u : 0x7ff0000000000000u, d);
    const uint64_t sign = uint64_t(1) << (8 * size_of(d) - 1);
    if (!is_signed(d)) return literal(negative ? 0 : 2 * sign - 1, d);
    return literal(negative ? sign : sign - 1, d);
  }

  std::string take(Id id) const {
    const Instr& r = p_.instrs[id];
    const std::string guard = r.in[1] == no_value ? "" : "if (" + operand(r.in[1]) + ") ";
    if (r.fused && r.order == Order::lanes) {
      const Instr& product = p_.instrs[r.in[0]];
      return guard + "a" + number(id) + ".take_product(" + operand(product.in[0]) + ", " + operand(product.in[1]) + ");";
    }
    if (starts_at_minus_zero(r) && !guard.empty())  // a place that takes no part holds +0, as on the CPU
      return "a" + number(id) + ".take(" + operand(r.in[1]) + " ? " + operand(r.in[0]) + " : " + literal(0, r.dtype) + ");";
    const bool places = r.kind == Reduce::argmax || r.kind == Reduce::argmin;
    return guard + "a" + number(id) + ".take(" + operand(r.in[0]) + (places ? ", i" + number(r.imm) : "") + ");";
  }

  // Reductions along one axis, in one loop. This thread owns `lane_count` lanes from `first_lane` on ("" = the one lane
  // `first_lane`); `join` begins the call that joins the thread's lanes with those of the others.
  void emit_reduction(const std::vector<Id>& ids, uint8_t bound, Done& done, const std::string& first_lane,
                      const std::string& lane_count, const std::string& join) {
    const Instr& some = p_.instrs[ids[0]];
    const std::string a = number(some.imm), chunk = number(some.order == Order::lanes ? chunk_elements : pairwise_chunk);
    const std::string c = "c" + a, e = "e" + a, i = "i" + a, n = "n" + a, q = "q" + a;
    const auto stacks = [&](const char* type, const char* more, const char* name) {
      for (Id id : ids) {
        const std::string s = name + number(id);
        line(type + accumulator(p_.instrs[id]) + more + "> " + s + ";");
        line(s + ".count = 0;");
      }
    };
    stacks("Stack<", ", 40", "s");
    open("for (long long " + c + " = 0; " + c + " == 0 || " + c + " < " + n + "; " + c + " += " + chunk + ")");
    line("const long long " + e + " = " + n + " - " + c + " < " + chunk + " ? " + n + " : " + c + " + " + chunk + ";");
    std::string first = c + " + " + first_lane;
    if (!lane_count.empty()) {
      first += " + " + q;
      stacks("Lanes<", lane_count == "32" ? ", 6" : ", 9", "l");
      open("for (int " + q + " = 0; " + q + " < " + lane_count + " && (" + q + " == 0 || " + first + " < " + e + "); ++" + q + ")");
    }
    for (Id id : ids) line(accumulator(p_.instrs[id]) + " a" + number(id) + " = {" + identity(p_.instrs[id]) + "};");
    open("for (long long " + i + " = " + first + "; " + i + " < " + e + "; " + i + " += 256)");
    // Inside, the index along the axis is another one: what the scope has along it is computed again.
    Done inner = done;
    for (size_t id = 0; id < inner.size(); ++id)
      if (p_.instrs[id].axes >> some.imm & 1) inner[id] = false;
    emit_values(reduced_operands(ids), uint8_t(bound | 1u << some.imm), inner);
    for (Id id : ids) line(take(id));
    close();
    if (!lane_count.empty()) {
      for (Id id : ids) line("l" + number(id) + ".push(a" + number(id) + ");");
      close();
    }
    for (Id id : ids) {
      const std::string mine = lane_count.empty() ? "a" + number(id) : "l" + number(id) + ".total()";
      line("s" + number(id) + ".push(" + (join.empty() ? mine : join + mine + ")") + ");");
    }
    close();
    for (Id id : ids) {
      const Instr& r = p_.instrs[id];
      const std::string empty = starts_at_minus_zero(r) ? n + " == 0 ? " + literal(0, r.dtype) + " : " : "";
      line("const " + value_type(r.dtype) + " v" + number(id) + " = " + empty + "s" + number(id) + ".total().result();");
      done[id] = true;
    }
  }

  std::vector<Id> reduced_operands(const std::vector<Id>& ids) const {
    std::vector<Id> out;
    for (Id id : ids) {
      const Instr& r = p_.instrs[id];
      if (r.in[1] != no_value) out.push_back(r.in[1]);
      if (!r.fused || r.order == Order::pairwise) out.push_back(r.in[0]);
      else out.insert(out.end(), p_.instrs[r.in[0]].in, p_.instrs[r.in[0]].in + 2);
    }
    return out;
  }

  // ---- forms ------------------------------------------------------------------------------------------------------

  // Stores grouped by the axes they vary along, in order of first appearance.
  std::vector<std::pair<uint8_t, std::vector<Id>>> store_groups() const {
    std::vector<std::pair<uint8_t, std::vector<Id>>> groups;
    for (size_t n = 0; n < p_.instrs.size(); ++n) {
      if (p_.instrs[n].op != Op::store) continue;
      const uint8_t axes = p_.instrs[n].axes;
      auto at = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == axes; });
      if (at == groups.end()) at = groups.insert(groups.end(), {axes, {}});
      at->second.push_back(Id(n));
    }
    return groups;
  }

  int open_sequential() {
    int opened = 0;
    for (size_t a = 0; a < p_.axes.size(); ++a) {
      if (p_.axes[a].kind != AxisKind::sequential) continue;
      const std::string i = "i" + number(a);
      open("for (long long " + i + " = 0; " + i + " < n" + number(a) + "; ++" + i + ")");
      ++opened;
    }
    return opened;
  }

  uint8_t grid_axes() const {
    uint8_t mask = 0;
    for (size_t a = 0; a < p_.axes.size(); ++a)
      if (p_.axes[a].kind == AxisKind::grid) mask |= uint8_t(1u << a);
    return mask;
  }

  void lanes(const Done& early) {
    for (const auto& [axes, stores] : store_groups()) {
      const uint8_t mask = grid_axes() | axes;
      open("for (long long item = blockIdx.x * 256ll + threadIdx.x; item < " + extent_product(mask) + "; item += gridDim.x * 256ll)");
      split_index(mask, "item");
      const int opened = open_sequential();
      Done done = early;
      emit_values(stores, axes, done);
      for (int k = 0; k <= opened; ++k) close();
    }
  }

  // One item (row) or 32 neighbouring ones (columns) per thread block at a time.
  void items(const Done& early) {
    const uint8_t mask = grid_axes() | shared_axes_;
    const bool columns = form_ == Form::columns;
    if (structure_.deepest > 0) line("__shared__ unsigned long long scratch[" + number(columns ? 2 * 8 * column_count : 2 * 8) + "];");
    if (columns) {
      line("const int column = (int)threadIdx.x % 32, group = (int)threadIdx.x / 32;");
      line("const long long items = " + extent_product(mask) + ";");
      open("for (long long first = blockIdx.x * 32ll; first < items; first += gridDim.x * 32ll)");
      line("const bool active = first + column < items;");
      line("const long long item = active ? first + column : items - 1;");  // the idle ones compute the last item again
    } else {
      line("const int lane = (int)threadIdx.x;");
      open("for (long long item = blockIdx.x; item < " + extent_product(mask) + "; item += gridDim.x)");
    }
    split_index(mask, "item");
    const int opened = open_sequential();
    Done done = early;
    item_values(done);
    for (const auto& [axes, stores] : store_groups()) store_loop(axes, stores, done);
    if (opened) line("__syncthreads();  // the next step reads what this one wrote");
    for (int k = 0; k <= opened; ++k) close();
  }

  // What the item determines, level by level; reductions of one level along one axis share a loop.
  void item_values(Done& done) {
    std::vector<Id> all;
    for (size_t n = 0; n < p_.instrs.size(); ++n)
      if (p_.instrs[n].op != Op::store) all.push_back(Id(n));
    const std::vector<Id> wanted = needed(all, shared_axes_, done);
    for (int level = 0; level <= structure_.deepest; ++level) {
      std::vector<Id> reductions;
      for (Id id : wanted)
        if (structure_.level[id] == level && p_.instrs[id].op == Op::reduce) reductions.push_back(id);
      while (!reductions.empty()) {
        const Instr& r = p_.instrs[reductions[0]];
        std::vector<Id> together, rest;
        for (Id id : reductions)
          (p_.instrs[id].imm == r.imm && p_.instrs[id].order == r.order ? together : rest).push_back(id);
        if (form_ == Form::row) emit_reduction(together, shared_axes_, done, "lane", "", "join_row(scratch, ");
        else emit_reduction(together, shared_axes_, done, "group * 32", "32", "join_groups(scratch, group, column, 32, true, ");
        reductions = rest;
      }
      for (Id id : wanted)
        if (structure_.level[id] == level && p_.instrs[id].op != Op::reduce) emit_value(id, done);
    }
  }

  void store_loop(uint8_t axes, const std::vector<Id>& stores, const Done& item_done) {
    const uint8_t own = uint8_t(axes & ~shared_axes_);
    const bool columns = form_ == Form::columns;
    Done done = item_done;
    if (own == 0) {
      store_guard_ = columns ? "if (active && group == 0) " : "if (lane == 0) ";
      emit_values(stores, axes, done);
    } else {
      open(std::string("for (long long at = ") + (columns ? "group" : "lane") + "; at < " + extent_product(own) + "; at += " +
           (columns ? "8" : "256") + ")");
      split_index(own, "at");
      store_guard_ = columns ? "if (active) " : "";
      emit_values(stores, axes, done);
      close();
    }
    store_guard_.clear();
  }

  const Program& p_;
  const Structure structure_;
  const Form form_;
  const uint8_t shared_axes_;
  std::string body_, store_guard_;
  int depth_ = 0;
};

}  // namespace

CudaSource generate_cuda(const Program& program) {
  verify(program);
  if (has_tiles(program)) throw std::runtime_error("block program " + program.name + ": loops and dots are not generated for CUDA yet");
  return Generator(program).run();
}

}  // namespace frit::jit
