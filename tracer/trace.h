// Traces and the recorder. emit() appends a node to the thread's open trace; a flush makes its roots real. In eager
// mode each op is a trace of one op: it is flushed by its own call.
//
//   Cell      what handles share: the identity of a tensor {count, its node, its value, gradient, base of a view}
//   Trace     nodes with their size ids and bound arguments; open (one per thread), or kept: flushed, but a live handle's
//             gradient can reach it, with the values that its rows save
//   Recorder  one per thread: the open trace and the modes
//
// A cell is deferred (trace open, no value), real (value), or real with a past (value, and {trace, node} that says how it
// was made, for gradients). Start reading at Recorder::emit; gradients are in gradient.cpp.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>
#include "tracer/op_table.h"
#include "tracer/value.h"
#include "tracer/var.h"

namespace frit::tracer {

using Extents = std::span<const int64_t>;
struct Trace;
class Capture;
class Follower;
struct FlushRecord;

// How to take a view again after its base was written.
struct ViewRecipe {
  Call call;
  std::vector<uint64_t> args;
};
// register_hook and retain_grad. On a gradient leaf's cell, or at a node of a kept trace.
struct Hooks {
  std::vector<std::pair<uint64_t, std::function<Var(const Var&)>>> functions;  // by handle
  Cell* retained = nullptr;  // not counted: whose grad() is to be set; cleared when the cell dies
};

enum CellFlag : uint8_t { gradient_leaf = 1, inference_tensor = 2 };
struct Cell {
  std::atomic<uint32_t> refs{1};
  uint8_t flags = 0;
  bool deferred = false;      // `trace` is open and `node` has no value yet
  uint32_t node = 0;          // in `trace`
  Trace* trace = nullptr;     // deferred: not counted (owner[node] points back); else kept: counted
  Value* value = nullptr;     // null while deferred
  std::atomic<uint64_t> entered{0};  // instance << 20 | node: its leaf in an open trace
  Cell* grad = nullptr;
  Cell* base = nullptr;       // of a view
  ViewRecipe* recipe = nullptr;
  uint32_t writes = 0;        // of a root base: times it was renamed by in-place ops
  uint32_t seen = 0;          // of a view: the root base's `writes` when it was taken
  int64_t* shape = nullptr;   // of a deferred tensor: its extents, once somebody asked
  std::shared_ptr<Hooks> hooks;
};
void destroy(Cell* c) noexcept;

// One entry of a trace from outside: a real tensor, and where its gradient goes on.
struct Leaf {
  uint32_t node;
  Cell* cell = nullptr;    // counted: a gradient leaf, where the gradient ends
  Trace* trace = nullptr;  // counted: the kept trace in which the value was made, or null
  uint32_t trace_node = 0;
};

struct Trace {
  std::atomic<uint32_t> refs{1};
  uint64_t instance = 0;                // unique while open
  uint64_t order = ~0ull;               // when it was flushed; its inputs' traces come before (~0: open)
  std::vector<Node> nodes;
  std::vector<int64_t> extent;          // by size id
  std::vector<SizeId> parent;           // union-find over size ids
  std::vector<uint8_t> derived;         // by size id: a product, quotient or sum of others: it has no bucket of its own
  std::vector<uint16_t> name;           // by size id: of the axis, 0 for none
  bool has_names = false;
  uint32_t joins = 0;
  struct Join { SizeId child, parent; uint16_t name; };  // name: the parent's before
  std::vector<Join> joined;             // the latest joins, so that a call that fails can take its own back
  uint64_t bytes = 0;                   // of the results so far, as if all were kept
  std::vector<uint64_t> args;           // numbers (bits of a double or int64), extents and other whole numbers
  std::vector<uint32_t> lists;          // operands of list ops
  std::vector<Value*> value;            // by node, counted; after a flush only what rows save
  std::vector<uint32_t> version;        // by node: the storage's version when the value was made (or entered)
  std::vector<Cell*> owner;             // by node: the live cell that shows it (open traces)
  std::vector<uint32_t> written;        // nodes that write in place, in order (open traces)
  std::vector<Leaf> leaves;
  std::vector<Storage*> pending;        // whose `pending` this trace has raised; a leaf's value holds each
  std::vector<std::pair<uint32_t, std::shared_ptr<Hooks>>> hooks;  // by node where any
  std::vector<std::unique_ptr<FlushRecord>>* records = nullptr;  // during a flush: what is known of such flushes, or null (follow.h)
  std::vector<bool> walked;             // by node: a backward without retain_graph went through

  SizeId find(SizeId s) const { while (parent[s] != s) s = parent[s]; return s; }
  uint16_t name_of(SizeId s) const { return s < 2 ? 0 : name[find(s)]; }
  int rank_of(uint32_t n) const { return nodes[n].result.rank; }
  void sizes(uint32_t n, int64_t* out) const {
    const Result& r = nodes[n].result;
    for (int i = 0; i < r.rank; ++i) out[i] = extent[r.size[i]];
  }
  std::vector<int64_t> sizes(uint32_t n) const {
    std::vector<int64_t> e(nodes[n].result.rank);
    sizes(n, e.data());
    return e;
  }
  int64_t numel(uint32_t n) const {
    int64_t k = 1;
    const Result& r = nodes[n].result;
    for (int i = 0; i < r.rank; ++i) k *= extent[r.size[i]];
    return k;
  }
  int input_count(uint32_t n) const {
    const int count = inputs_of(nodes[n].call.op);
    return count < 0 ? int(nodes[n].call.in[1]) : count;
  }
  uint32_t input(uint32_t n, int k) const {  // a node, or scalar_operand
    const Call& c = nodes[n].call;
    return inputs_of(c.op) < 0 ? lists[c.in[0] + k] : c.in[k];
  }
  const Leaf* leaf(uint32_t n) const;
  Storage* outer_storage(uint32_t n) const;  // that a view or write of n shares with a leaf; null: made in this trace
  SizeId new_size(int64_t e, bool is_derived = false);
  void join(SizeId a, SizeId b);
  struct Mark { size_t sizes, lists; uint32_t joins; };
  Mark mark() const { return {extent.size(), lists.size(), joins}; }
  void rewind(const Mark& m);
  void settle();                            // what was pending is run, or given up
  void clear();                             // as new, with its memory kept
};
Trace* new_trace();
void release(Trace* t) noexcept;
inline void retain(Trace* t) { t->refs.fetch_add(1, std::memory_order_relaxed); }

// What a later backward through node n reads of its operands and result (Saved bits): by which operands want gradients.
uint8_t saved_of(const Trace& t, uint32_t n);

// Results and extents of a call, from its inputs; throws the user's errors. Appends size ids and joins only.
void infer(Trace& t, const Call& call, Result& out, bool grad_enabled);

struct Recorder {
  Trace* open;
  uint8_t mode = grad_mode;
  bool eager = true;
  bool inference = false;
  bool foreground = false;        // inside compile(): plans are compiled at once, in the foreground
  const void* site = nullptr;     // the user's call in progress, set by the outermost public function

  // Checks and appends. On an error nothing is left behind, arguments bound for the call included.
  uint32_t emit(const Call& call);
  uint32_t append(const Call& call);  // emit, where the caller changes the node and settles it with `follow`
  uint32_t node_of(Cell* c);      // in the open trace; a real tensor enters as a leaf at its first use
  Cell* show(uint32_t node);      // a new cell for a node
  uint32_t bind(std::initializer_list<uint64_t> words);  // appends arguments, returns the first slot
  uint32_t bind(const int64_t* words, size_t count);
  uint32_t bind_list(const std::vector<uint32_t>& nodes);
  // A call complete: in eager mode the trace is flushed.
  Var finish(uint32_t node);
  Var finish_view(uint32_t node, Cell* base);
  void finish_write(Cell* target, uint32_t node);  // in place: the cell takes the node
  void flush(const char* cause);

  uint32_t push(const Node& node);
  void begin_following();
  uint32_t enter(Cell* c);
  void enter_as(Cell* c, uint32_t node);  // c's value is that of node, a leaf that is there
  void touch(uint32_t node, Storage* s, bool writes);  // node shows or writes memory from outside
  void make_view(Cell* c, Cell* base, const ViewRecipe& recipe);
  void refresh(Cell* view);
  void write(Cell* target, uint32_t node);
  void rename(Cell* c, uint32_t node);
  bool full() const;
  void abandon();                 // after an error: in eager mode nothing is pending
  Follower* follow = nullptr;     // null until something is deferred
  Capture* capture = nullptr;     // see freeze.h
  std::vector<std::unique_ptr<FlushRecord>>* replayed = nullptr;  // the open trace is a recording's: its records
  size_t args_bound = 0, lists_bound = 0;  // arguments and list entries that belong to appended nodes
};
Recorder& recorder();
void set_eager_default(bool on);  // the mode in which new threads start

// The upper floor's executor: makes roots real, that is, fills trace.value. Set once, at load.
using Executor = void (*)(Trace& t, const char* cause);
void set_executor(Executor e);

Cell* new_cell();
Cell* new_cell(Value* v);                    // takes the value
Value& value_of(Cell* c, const char* cause); // flushes if deferred
// Axis names (interned by the upper floor): a view of `a` whose axes have these names, and the names of a tensor's axes.
Var with_names(const Var& a, const std::vector<uint16_t>& names);
std::vector<uint16_t> axis_names(Cell* c);
using NameText = const std::string& (*)(uint16_t);
void set_name_text(NameText f);              // for messages
const std::string& name_text(uint16_t name);
int rank_of(const Cell* c);
Sizes sizes_of(const Cell* c);
const int64_t* shape_of(Cell* c);            // rank_of(c) extents, alive as long as the cell; does not flush
struct Strides { int64_t stride[max_rank]; bool contiguous; };
Strides predict_strides(const Trace& t, uint32_t n);
Strides strides_of(Cell* c);                 // strides that the value has or will have; does not flush
Dtype dtype_of(const Cell* c);
bool wants_gradient(const Cell* c);
Var take_view(const Var& base, const ViewRecipe& recipe);
void check_writable(Cell* c, const char* op);   // throws AutogradError or ValueError
// The strides of a view of `v` with these extents, or false when it would have to be copied. out may be null.
bool reshape_strides(const Value& v, const Sizes& extents, int64_t* out);
inline Cell* root_base(Cell* c) { while (c->base) c = c->base; return c; }

// ---- text, checks, oracle ------------------------------------------------------------------------------------------
std::string text(const Trace& t);                          // one line a node
std::unique_ptr<Trace, void (*)(Trace*)> parse_trace(const std::string& s);  // text(parse_trace(x)) == x; throws Error with the line
void verify(const Trace& t);                               // re-runs the shape rules; throws InternalError with the text
// Evaluates node n from its inputs' values, one element at a time, by the rows' expressions: the test oracle, and what runs
// on processors without AVX2. Returns a new contiguous value (in-place nodes too: the caller copies).
ValueRef interpret(const Trace& t, uint32_t n, Value* const* inputs);

}  // namespace frit::tracer
