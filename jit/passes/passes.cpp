// The list of passes, the graph that they work on, and the rewriting of a trace that runs. Start at `passes`.
#include "jit/passes/passes.h"
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include "jit/fuse.h"
#include "jit/passes/attention_mask.h"
#include "runtime/error.h"
#include "tracer/call_form.h"
#include "tracer/memory_log.h"
#include "tracer/numbers.h"

namespace frit::jit {

using namespace tracer;

const Pass passes[] = {
    {"recognise_attention", recognise_attention, "under fast_math, attention written out by hand is one op"},
    {"simplify", simplify, "no op undoes or repeats the one before it"},
    {"merge_equal", merge_equal, "equal ops without arguments of their own are one"},
    {"reshape_early", reshape_early, "ops of one shape follow each other"},
    {"sink_gathers", sink_gathers, "one index a row is taken of what was read, not of what was computed from it"},
    {"compare_for_scatters", compare_for_scatters, "one index a row is scattered by comparing"},
    {"turn_products", turn_products, "a product that is only wanted turned is made so"},
    {"recompute", recompute, "what is cheap and at hand is computed where it is read"},
    {"hold_less", hold_less, "what is held where most memory is, and is cheap to compute again, is not"},
    {"drop_dead", drop_dead, "every op is needed"},
};
const size_t pass_count = std::size(passes);

std::string run_passes(Graph& g) {
  std::string done;
  for (const Pass& pass : passes) {
    const size_t appended = g.rewrite.appended.size(), changes = g.rewrite.changes.size();
    const auto start = std::chrono::steady_clock::now();
    pass.run(g);
    g.verify();
    const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    if (g.rewrite.appended.size() == appended && g.rewrite.changes.size() == changes) continue;
    done += std::string("  pass ") + pass.name + ": " + std::to_string(g.rewrite.appended.size() - appended) + " ops made, " + std::to_string(g.rewrite.changes.size() - changes) + " operands changed (" +
            std::to_string(int(us)) + " us)" + (g.note.empty() ? "" : ": " + std::exchange(g.note, {})) + "\n";
  }
  return done;
}

std::shared_ptr<Trace> snapshot(const Trace& t) {
  std::shared_ptr<Trace> s(new_trace(), [](Trace* p) { release(p); });
  s->nodes = t.nodes, s->extent = t.extent, s->parent = t.parent, s->derived = t.derived, s->name = t.name, s->args = t.args, s->lists = t.lists;
  s->version = t.version, s->fast_math = t.fast_math;
  s->owner.assign(t.nodes.size(), nullptr);
  // Of the leaves' values only what is one memory, and how they lie in it: the user's bytes are not kept alive.
  const std::vector<uint32_t> memory = leaf_memory(t);
  std::vector<ValueRef> example(t.nodes.size());
  s->value.assign(t.nodes.size(), nullptr);
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    if (memory[n] == no_memory) continue;
    const int64_t none = 0;
    const Value& v = *t.value[n];
    ValueRef& first = example[memory[n]];
    if (!first) first = ValueRef::take(new_value(v.dtype, &none, 1));
    s->value[n] = new_alias(*first, v.rank);
    s->value[n]->dtype = v.dtype;
    std::copy_n(v.extent, v.rank, s->value[n]->extent);
    std::copy_n(v.stride, v.rank, s->value[n]->stride);
  }
  return s;
}

// ---- a trace that runs --------------------------------------------------------------------------------------------------
double number_at(const Trace& t, uint32_t n, uint32_t slot) {
  const Call& c = t.nodes[n].call;
  const uint64_t word = t.args[c.arg + slot];
  Category category = Category::floating;
  if (row(c.op).kind == RowKind::source) category = slot < uint32_t(leading_numbers(c.op)) ? Category(c.attr >> 8 & 3) : Category::integer;
  else
    for (int k = 0, at = 0; k < t.input_count(n); ++k)
      if (t.input(n, k) == scalar_operand && uint32_t(at++) == slot) category = Category(c.kind >> (2 * k) & 3);
  return std::bit_cast<double>(number_word(word, category, Dtype::Float64));
}
namespace {
uint32_t& operand_of(Trace& t, uint32_t n, int k) {
  Call& c = t.nodes[n].call;
  return inputs_of(c.op) < 0 ? t.lists[c.in[0] + uint32_t(k)] : c.in[k];
}
void shape_like(const Trace& t, uint32_t shape, int axis, Result& out) {
  const Result& from = t.nodes[shape].result;
  out.rank = axis < 0 ? from.rank : 1;
  if (axis < 0) std::copy_n(from.size, from.rank, out.size);
  else out.size[0] = from.size[axis];
  if (axis == swapped_axes) std::swap(out.size[out.rank - 2], out.size[out.rank - 1]);
}
uint64_t word_of(const Trace& t, const Rewrite::Argument& a) {
  if (a.form == Rewrite::Form::argument) return t.args[t.nodes[a.node].call.arg + a.word];
  if (a.form != Rewrite::Form::plain) {
    const double v = number_at(t, a.node, uint32_t(a.word));
    return std::bit_cast<uint64_t>(a.form == Rewrite::Form::number ? v : 1 / v);
  }
  return a.node == no_node ? a.word : uint64_t(t.extent[t.nodes[a.node].result.size[a.word]]);
}
}  // namespace

bool Rewrite::Known::of(const Trace& t) const {
  if (is == Is::word) return t.args[t.nodes[at.node].call.arg + at.slot] == than;
  const double v = number_at(t, at.node, at.slot);
  if (is == Is::at_most) return v <= std::bit_cast<double>(than);
  const double o = number_at(t, other.node, other.slot);
  return is == Is::same ? v == o : std::fabs(v * (1 - o) - 1) < 1e-6;
}

Rewritten::Rewritten(const Rewrite& r, Trace& t) : rewrite_(r), trace_(t), arguments_(t.args.size()), lists_(t.lists.size()) {
  if (r.empty()) return;
  if (t.nodes.size() != r.nodes) throw InternalError("a plan for " + std::to_string(r.nodes) + " nodes was to run a trace of " + std::to_string(t.nodes.size()));
  for (const Rewrite::Appended& a : r.appended) {
    Node n = a.node;
    shape_like(t, a.shape, a.axis, n.result);
    n.result.site = t.nodes[a.like].result.site;
    n.call.arg = a.argument < 0 ? t.nodes[a.like].call.arg : uint32_t(arguments_) + uint32_t(a.argument);
    if (inputs_of(n.call.op) < 0) n.call.in[0] += uint32_t(lists_);
    t.nodes.push_back(n);
  }
  for (const Rewrite::Argument& a : r.arguments) t.args.push_back(word_of(t, a));
  t.lists.insert(t.lists.end(), r.lists.begin(), r.lists.end());
  t.value.resize(t.nodes.size(), nullptr);
  t.version.resize(t.nodes.size(), 0);
  if (!t.owner.empty()) t.owner.resize(t.nodes.size(), nullptr);
  before_.reserve(r.changes.size());
  for (const Rewrite::Change& c : r.changes) before_.push_back(std::exchange(operand_of(t, c.node, c.operand), c.to));
}
void Rewritten::finish() {
  for (const auto& [root, by] : rewrite_.same)
    if (!trace_.value[root] && trace_.value[by]) retain(trace_.value[root] = trace_.value[by]), UseScope::made(trace_, root);
}
Rewritten::~Rewritten() {
  if (rewrite_.empty()) return;
  Trace& t = trace_;
  for (size_t i = before_.size(); i-- > 0;) operand_of(t, rewrite_.changes[i].node, rewrite_.changes[i].operand) = before_[i];
  for (size_t n = rewrite_.nodes; n < t.nodes.size(); ++n)
    if (t.value[n]) release(t.value[n]);
  t.nodes.resize(rewrite_.nodes), t.value.resize(rewrite_.nodes), t.version.resize(rewrite_.nodes);
  if (!t.owner.empty()) t.owner.resize(rewrite_.nodes);
  t.args.resize(arguments_), t.lists.resize(lists_);
}

// ---- the graph ----------------------------------------------------------------------------------------------------------
Graph::Graph(const Trace& t, std::vector<bool> needed_, std::vector<bool> roots_, bool assumes)
    : needed(std::move(needed_)), roots(std::move(roots_)), trace_(snapshot(t)), assumes_(assumes) {
  rewrite.nodes = t.nodes.size();
  order_.resize(count());
  for (uint32_t n = 0; n < count(); ++n) order_[n] = n;
  const std::vector<bool> pure = pure_writes(t);
  memory_ = memory_classes(t, &pure);
  writers_.resize(count() + 1);
  for (uint32_t n = 0; n < count(); ++n)
    if (node(n).call.mode & in_place) writers_[memory_[n]].push_back(n);
  written_.resize(count());
  for (uint32_t n = 0; n < count(); ++n) written_[n] = !writers_[memory_[n]].empty();
  collect();
  read_before_.resize(count());
  for (uint32_t n = 0; n < count(); ++n) read_before_[n] = !readers_[n].empty();
}
Graph::Graph(const Graph& o)
    : needed(o.needed), roots(o.roots), rewrite(o.rewrite), note(o.note), home(o.home), trace_(snapshot(*o.trace_)), assumes_(o.assumes_), order_(o.order_), readers_(o.readers_), written_(o.written_), memory_(o.memory_),
      writers_(o.writers_), position_(o.position_), read_before_(o.read_before_) {}
void Graph::collect() {
  readers_.assign(count(), {});
  for (uint32_t n : order_)
    if (needed[n])
      for (int k = 0; k < trace_->input_count(n); ++k)
        if (const uint32_t in = trace_->input(n, k); !is_number(in) && (readers_[in].empty() || readers_[in].back() != n)) readers_[in].push_back(n);
}
bool Graph::pure(uint32_t n) const {
  const RowKind k = row(node(n).call.op).kind;
  if (k == RowKind::source || k == RowKind::view || k == RowKind::alias) return false;
  if ((node(n).call.mode & in_place) || written_[n]) return false;
  for (int i = 0; i < trace_->input_count(n); ++i)
    if (const uint32_t in = trace_->input(n, i); !is_number(in) && written_[in]) return false;
  return true;
}
void Graph::number_nodes() {
  position_.resize(count());
  for (uint32_t i = 0; i < order_.size(); ++i) position_[order_[i]] = i;
}
bool Graph::unwritten(uint32_t n, uint32_t after, uint32_t until) const {
  if (n >= rewrite.nodes) return true;
  return std::none_of(writers_[memory_[n]].begin(), writers_[memory_[n]].end(), [&](uint32_t w) { return position_[w] > position_[after] && position_[w] <= position_[until]; });
}
bool Graph::repeatable(uint32_t n, uint32_t until) const {
  const RowKind k = row(node(n).call.op).kind;
  if (k == RowKind::source || k == RowKind::view || k == RowKind::alias || (node(n).call.mode & in_place) || written_[n]) return false;
  for (int i = 0; i < trace_->input_count(n); ++i)
    if (const uint32_t in = trace_->input(n, i); !is_number(in) && !unwritten(in, n, until)) return false;
  return true;
}
bool Graph::same_shape(uint32_t a, uint32_t b) const {
  const Result &x = node(a).result, &y = node(b).result;
  return x.rank == y.rank && std::equal(x.size, x.size + x.rank, y.size, [&](SizeId i, SizeId j) { return same_size(i, j); });
}
bool Graph::equal(uint32_t a, int axis_a, uint32_t b, int axis_b, bool take) {
  const SizeId x = node(a).result.size[axis_a], y = node(b).result.size[axis_b];
  if (same_size(x, y)) return true;
  if (!assumes_ || trace_->extent[x] != trace_->extent[y] || x < 2 || y < 2 || a >= rewrite.nodes || b >= rewrite.nodes) return false;
  if (!take) return true;
  rewrite.equal.push_back({{a, axis_a}, {b, axis_b}});
  trace_->join(x, y);
  return true;
}
bool Graph::shown(uint32_t n) const {
  if (roots[n]) return true;
  return std::any_of(readers_[n].begin(), readers_[n].end(), [&](uint32_t r) { return row(node(r).call.op).kind == RowKind::view && shown(r); });
}
bool Graph::replaceable(uint32_t n) const {
  for (uint32_t r : readers_[n]) {
    const RowKind k = row(node(r).call.op).kind;
    if (k == RowKind::alias || (node(r).call.mode & in_place)) return false;
    if (k == RowKind::view && (shown(r) || !replaceable(r))) return false;
  }
  return !written_[n];
}

uint32_t Graph::append(Call call, Dtype dtype, Dtype compute, uint32_t shape, uint32_t like, uint32_t after, int axis) {
  Node n;
  n.call = call, n.result = Result{}, n.result.dtype = dtype, n.result.compute = compute;
  n.call.arg = node(like).call.arg;
  return place(n, shape, like, after, axis, -1);
}
uint32_t Graph::append(Call call, Dtype dtype, Dtype compute, uint32_t shape, uint32_t like, uint32_t after, int axis, const std::vector<Rewrite::Argument>& arguments) {
  Node n;
  n.call = call, n.result = Result{}, n.result.dtype = dtype, n.result.compute = compute;
  n.call.arg = uint32_t(trace_->args.size());
  const int first = int(rewrite.arguments.size());
  for (const Rewrite::Argument& a : arguments) rewrite.arguments.push_back(a), trace_->args.push_back(word_of(*trace_, a));
  return place(n, shape, like, after, axis, first);
}
uint32_t Graph::append(Call call, const std::vector<uint32_t>& operands, Dtype dtype, uint32_t shape, uint32_t like, uint32_t after, const std::vector<Rewrite::Argument>& arguments) {
  call.in[0] = uint32_t(trace_->lists.size()), call.in[1] = uint32_t(operands.size());
  trace_->lists.insert(trace_->lists.end(), operands.begin(), operands.end());
  rewrite.lists.insert(rewrite.lists.end(), operands.begin(), operands.end());
  return append(call, dtype, compute_dtype(dtype), shape, like, after, all_axes, arguments);
}
namespace {
int swapped(int axis, int rank) { return axis == rank - 1 ? rank - 2 : axis == rank - 2 ? rank - 1 : axis; }
}  // namespace
bool swaps_last_two(const Node& n) {
  const int rank = n.result.rank;
  if (n.call.op != Op::permute || rank < 2) return false;
  for (int i = 0; i < rank; ++i)
    if (int(n.call.attr >> (4 * i) & 15) != swapped(i, rank)) return false;
  return true;
}
uint32_t Graph::append_turned(uint32_t n, uint32_t like, uint32_t after) {
  const Result r = node(n).result;
  Call call{.op = Op::permute};
  for (int i = 0; i < r.rank; ++i) call.attr |= uint64_t(swapped(i, r.rank)) << (4 * i);
  call.in[0] = n;
  return append(call, r.dtype, r.compute, n, like, after, swapped_axes);
}
void Graph::want_gradient(uint32_t appended) {
  trace_->nodes[appended].result.flags |= wants_grad;
  rewrite.appended[appended - rewrite.nodes].node.result.flags |= wants_grad;
}
void Graph::set_operand(uint32_t reader, int k, uint32_t to) {
  operand_of(*trace_, reader, k) = to;
  if (reader < rewrite.nodes) {
    rewrite.changes.push_back({reader, k, to});
    return;
  }
  Call& call = rewrite.appended[reader - rewrite.nodes].node.call;
  if (inputs_of(call.op) < 0) rewrite.lists[call.in[0] + uint32_t(k)] = to;
  else call.in[k] = to;
}
uint32_t Graph::place(Node n, uint32_t shape, uint32_t like, uint32_t after, int axis, int argument) {
  Trace& t = *trace_;
  const uint32_t at = count();
  rewrite.appended.push_back({n, like, shape, axis, argument});
  if (inputs_of(n.call.op) < 0) rewrite.appended.back().node.call.in[0] -= uint32_t(trace_->lists.size() - rewrite.lists.size());
  shape_like(t, shape, axis, n.result);
  n.result.site = t.nodes[like].result.site;
  t.nodes.push_back(n), t.value.push_back(nullptr), t.version.push_back(0), t.owner.push_back(nullptr);
  order_.insert(std::find(order_.begin(), order_.end(), after) + 1, at);
  needed.push_back(true), roots.push_back(false), written_.push_back(false), read_before_.push_back(true);
  readers_.emplace_back();
  for (int k = 0; k < t.input_count(at); ++k)
    if (const uint32_t in = t.input(at, k); !is_number(in)) readers_[in].push_back(at);
  return at;
}
uint32_t Graph::append_before(Call call, Dtype dtype, Dtype compute, uint32_t shape, uint32_t like, uint32_t before) {
  const auto at = std::find(order_.begin(), order_.end(), before);
  return append(call, dtype, compute, shape, like, *std::prev(at));  // never the first: what is computed reads something
}
void Graph::redirect(uint32_t reader, uint32_t from, uint32_t to) {
  Trace& t = *trace_;
  bool changed = false;
  for (int k = 0; k < t.input_count(reader); ++k)
    if (t.input(reader, k) == from) {
      set_operand(reader, k, to), changed = true;
    }
  if (!changed) return;
  std::erase(readers_[from], reader);
  readers_[to].push_back(reader);
}
// Views of n are made anew over `by`, so that a view always comes after what it shows.
void Graph::replace(uint32_t n, uint32_t by) {
  Trace& t = *trace_;
  for (uint32_t r : std::exchange(readers_[n], {})) {
    if (r == by) {  // it computes from n
      readers_[n].push_back(r);
      continue;
    }
    if (row(node(r).call.op).kind == RowKind::view) {
      const Node shown_as = node(r);
      Call call = shown_as.call;
      call.in[0] = by;
      const uint32_t view = append(call, shown_as.result.dtype, shown_as.result.compute, r, r, by);
      replace(r, view);
      needed[r] = false;
      continue;
    }
    for (int k = 0; k < t.input_count(r); ++k)
      if (t.input(r, k) == n) {
        set_operand(r, k, by);
      }
    readers_[by].push_back(r);
  }
  if (roots[n]) {
    roots[n] = false, roots[by] = true;
    rewrite.same.push_back({n, by});
  }
  if (readers_[n].empty()) needed[n] = false;
}
void Graph::drop_unneeded() {
  for (bool again = true; std::exchange(again, false);) {
    collect();
    for (size_t i = order_.size(); i-- > 0;) {
      const uint32_t n = order_[i];
      if (!needed[n] || roots[n] || !read_before_[n] || !readers_[n].empty() || (node(n).call.mode & in_place) || row(node(n).call.op).kind == RowKind::alias || node(n).call.op == Op::leaf) continue;
      needed[n] = false, again = true;
    }
  }
}

// Every operand is there before, and inferring an appended call again gives what the pass said.
void Graph::verify() const {
  const Trace& t = *trace_;
  const auto fail = [&](const std::string& why, uint32_t n) { throw InternalError("passes: " + why + "\n  in " + node_text(t, n) + "\nThe trace:\n" + text(t)); };
  std::vector<bool> there(count());
  const std::shared_ptr<Trace> copy = snapshot(t);
  for (uint32_t n : order_) {
    there[n] = true;
    if (!needed[n]) continue;
    for (int k = 0; k < t.input_count(n); ++k)
      if (const uint32_t in = t.input(n, k); !is_number(in) && !there[in]) fail("an operand does not come before its node", n);
    if (n < rewrite.nodes) continue;
    Result r;
    infer(*copy, t.nodes[n].call, r, false);
    const Result& own = t.nodes[n].result;
    if (r.dtype != own.dtype || r.compute != own.compute) fail("an appended op has another type", n);
    bool same = r.rank == own.rank;
    for (int i = 0; same && i < r.rank; ++i) same = copy->extent[r.size[i]] == t.extent[own.size[i]];
    if (!same) fail("an appended op has another shape", n);
  }
}

}  // namespace frit::jit
