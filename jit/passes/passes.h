// Passes: what a compile does to a trace before it is fused. They work on a copy of the trace: nodes are appended, operands are
// changed, and what was done is kept as a Rewrite, which does the same to every trace with that key while its plan runs.
#pragma once
#include <string>
#include <utility>
#include <vector>
#include "tracer/trace.h"

namespace frit::jit {

using tracer::Trace;

constexpr int all_axes = -1, swapped_axes = -2;
struct Rewrite {
  enum class Form : uint8_t { plain, argument, number, reciprocal };
  struct Argument {      // of an appended node
    uint64_t word;       // as it is, or
    uint32_t node;       // the extent of this node's axis `word`; no_node
    Form form = Form::plain;  // else of this node's argument at slot `word`: it, the number that it is as a double, 1 / that
  };
  struct Appended {
    tracer::Node node;   // without its shape, line and arguments
    uint32_t like;       // whose line it has
    uint32_t shape;      // whose extents
    int axis;            // only this one of them; all_axes, or with the last two swapped
    int argument;        // its first in `arguments`; -1: those of `like`
  };
  struct Change {        // operand `operand` of an original node
    uint32_t node;
    int operand;
    uint32_t to;
  };
  struct Slot {          // an argument of a node
    uint32_t node, slot;
  };
  // What was taken for granted of an argument.
  struct Known {
    enum class Is : uint8_t { word /* bit for bit */, same /* number as `other` */, at_most /* the double `than` */, keep_factor /* 1 / (1 - other) */ };
    Slot at;
    Is is;
    uint64_t than = 0;
    Slot other = {};
    bool of(const Trace& t) const;
  };
  struct Extent {
    uint32_t node;
    int axis;
    int64_t of(const Trace& t) const { return t.extent[t.nodes[node].result.size[axis]]; }
  };
  size_t nodes = 0;      // of the trace
  std::vector<Appended> appended;
  std::vector<Argument> arguments;
  std::vector<uint32_t> lists;  // operands of appended list ops, whose in[0] counts from the first of them
  std::vector<Change> changes;
  std::vector<std::pair<uint32_t, uint32_t>> same;  // a root, and the node whose value it has
  std::vector<std::pair<uint32_t, uint32_t>> checks;  // a node, and one that is run after it and fails when it fails
  std::vector<std::pair<Extent, Extent>> equal;     // what was taken to be equal; a trace where it is not needs another plan
  std::vector<Known> known;                         // likewise of arguments
  bool assumes() const { return !equal.empty() || !known.empty(); }
  bool holds(const Trace& t) const {
    for (const Known& k : known)
      if (!k.of(t)) return false;
    for (const auto& [a, b] : equal)
      if (a.of(t) != b.of(t)) return false;
    return true;
  }
  bool empty() const { return appended.empty() && changes.empty() && same.empty(); }
};

// A trace as the plan sees it, as long as this lives.
class Rewritten {
 public:
  Rewritten(const Rewrite& r, Trace& t);
  ~Rewritten();
  Rewritten(const Rewritten&) = delete;
  void finish();         // the roots get their values

 private:
  const Rewrite& rewrite_;
  Trace& trace_;
  std::vector<uint32_t> before_;  // operands
  size_t arguments_ = 0, lists_ = 0;
};

// What passes work on.
class Graph {
 public:
  // assumes: passes may take extents for equal that are, although nothing requires it (a batch of indices as long as that of values).
  Graph(const Trace& t, std::vector<bool> needed, std::vector<bool> roots, bool assumes);
  Graph(const Graph& o);  // with a trace of its own
  Graph& operator=(Graph&&) = default;

  Trace& trace() { return *trace_; }
  const Trace& trace() const { return *trace_; }
  const std::vector<uint32_t>& readers(uint32_t n) const { return readers_[n]; }
  const tracer::Node& node(uint32_t n) const { return trace_->nodes[n]; }
  uint32_t count() const { return uint32_t(trace_->nodes.size()); }
  const std::vector<uint32_t>& order() const { return order_; }  // every node after its operands
  std::vector<bool> needed, roots;
  Rewrite rewrite;
  std::string note;                       // what the pass says of its work, for explain
  std::vector<uint32_t> home;             // by node: nodes with the same number stay in one kernel, as it was when what they read was chosen; no_node

  // A pure computation: no view, no leaf, nothing drawn, not in place, and neither its memory nor what it reads is ever written.
  bool pure(uint32_t n) const;
  // Computed again just before `until`, would it give the same? Nothing writes what it reads in between.
  bool repeatable(uint32_t n, uint32_t until) const;
  bool unwritten(uint32_t n, uint32_t after, uint32_t until) const;  // n's memory, between these two
  void number_nodes();  // before asking for that, after the order changed
  uint32_t position(uint32_t n) const { return position_[n]; }
  bool is_number(uint32_t operand) const { return operand == tracer::scalar_operand; }
  bool same_shape(uint32_t a, uint32_t b) const;
  bool same_size(tracer::SizeId a, tracer::SizeId b) const { return trace_->find(a) == trace_->find(b); }
  bool equal(uint32_t a, int axis_a, uint32_t b, int axis_b, bool take = false);  // take: it is relied on
  bool shown(uint32_t n) const;          // it, or a view of it, is a root
  bool replaceable(uint32_t n) const;    // nobody writes it, and no root is a view of it

  // A node after `after`. The call's operands are nodes; its arguments are `like`'s, or those given.
  uint32_t append(tracer::Call call, Dtype dtype, Dtype compute, uint32_t shape, uint32_t like, uint32_t after, int axis = all_axes);
  uint32_t append(tracer::Call call, Dtype dtype, Dtype compute, uint32_t shape, uint32_t like, uint32_t after, int axis, const std::vector<Rewrite::Argument>& arguments);
  // Of a list op: its operands.
  uint32_t append(tracer::Call call, const std::vector<uint32_t>& operands, Dtype dtype, uint32_t shape, uint32_t like, uint32_t after, const std::vector<Rewrite::Argument>& arguments);
  void want_gradient(uint32_t appended);  // it makes what its gradient reads
  bool assumes() const { return assumes_; }
  uint32_t append_turned(uint32_t n, uint32_t like, uint32_t after);  // a view of n with the last two axes swapped
  uint32_t append_before(tracer::Call call, Dtype dtype, Dtype compute, uint32_t shape, uint32_t like, uint32_t before);
  void redirect(uint32_t reader, uint32_t from, uint32_t to);  // one reader's operand
  void replace(uint32_t n, uint32_t by);  // everybody reads `by` instead; n must be replaceable
  bool written(uint32_t n) const { return written_[n]; }  // its memory, somewhere in the trace
  void keep(uint32_t n) { read_before_[n] = false; }      // although nobody reads it
  void drop_unneeded();                   // what nobody reads any more
  void verify() const;                    // throws InternalError with the text

 private:
  uint32_t place(tracer::Node node, uint32_t shape, uint32_t like, uint32_t after, int axis, int argument);
  void collect();
  void set_operand(uint32_t reader, int k, uint32_t to);
  std::shared_ptr<Trace> trace_;
  bool assumes_;
  std::vector<uint32_t> order_;
  std::vector<std::vector<uint32_t>> readers_;  // needed ones
  std::vector<bool> written_;                   // by node: its memory is written somewhere
  std::vector<uint32_t> memory_;                // by node of the trace
  std::vector<std::vector<uint32_t>> writers_;  // by memory
  std::vector<uint32_t> position_;              // by node; when they were asked for
  std::vector<bool> read_before_;               // by node: it had readers in the beginning
};

bool swaps_last_two(const tracer::Node& n);  // a view, of that kind

struct Pass {
  const char* name;
  void (*run)(Graph& g);
  const char* afterwards;  // what holds then
};
extern const Pass passes[];
extern const size_t pass_count;
std::string run_passes(Graph& g);  // each, verified; a line for each that changed something

// What planning reads of a trace, and nothing that can change meanwhile.
std::shared_ptr<Trace> snapshot(const Trace& t);

void recognise_attention(Graph& g);
void merge_equal(Graph& g);
void simplify(Graph& g);
void sink_gathers(Graph& g);
void compare_for_scatters(Graph& g);
void reshape_early(Graph& g);
void turn_products(Graph& g);
void recompute(Graph& g);
void hold_less(Graph& g);
void drop_dead(Graph& g);

}  // namespace frit::jit
