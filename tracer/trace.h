// Traces and the recorder. emit() appends a node to the thread's open trace; a flush makes its roots real. In eager
// mode each op is a trace of one op: it is flushed by its own call.
//
//   Cell      what handles share: the identity of a tensor {count, its node, its value, gradient, base of a view}
//   Trace     nodes with their size ids and bound arguments; open (one per thread), or kept: flushed, but a live handle's
//             gradient can reach it, with the values that its rows save
//   Recorder  one per thread: the open trace and the modes. A thread that needs what another has deferred claims that one's
//             recorder and flushes it (ownership.h)
//
// A cell is deferred (trace open, no value), real (value), or real with a past (value, and {trace, node} that says how it
// was made, for gradients). Start reading at Recorder::emit; gradients are in gradient.cpp.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>
#include "tracer/op_table.h"
#include "tracer/ownership.h"
#include "tracer/value.h"
#include "tracer/var.h"

namespace frit::tracer {

using Extents = std::span<const int64_t>;
struct Trace;
class Capture;
class Follower;
struct FlushRecord;
struct Recorder;

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
  std::atomic<bool> deferred{false};  // `trace` is open and `node` has no value yet
  uint32_t node = 0;          // in `trace`
  Trace* trace = nullptr;     // deferred: not counted (owner[node] points back); else kept: counted
  Value* value = nullptr;     // null while deferred
  Recorder* home = nullptr;   // that deferred it last
  std::atomic<uint64_t> entered{0};  // instance << 20 | node: its leaf in an open trace, or how it is read there since it was written
  Cell* grad = nullptr;
  Cell* base = nullptr;       // of a view
  ViewRecipe* recipe = nullptr;
  uint32_t writes = 0;        // of a root base: times it was renamed by in-place ops
  uint32_t seen = 0;          // of a view: the root base's `writes` when it was taken
  int64_t* shape = nullptr;   // of a deferred tensor: its extents, once somebody asked
  std::shared_ptr<Hooks> hooks;
};
void destroy(Cell* c) noexcept;
bool try_retain_cell(Cell* c);  // false: its last handle is gone

// What axes carry: a name and where it was given. Labels are numbers; 0 is none.
uint16_t axis_label(uint16_t name, const CallSite* site);
uint16_t label_name(uint16_t label);
const CallSite* label_site(uint16_t label);

// One entry of a trace from outside: a real tensor, and where its gradient goes on.
struct Leaf {
  uint32_t node;
  Cell* cell = nullptr;    // counted: a gradient leaf, where the gradient ends
  Trace* trace = nullptr;  // counted: the kept trace in which the value was made, or null
  uint32_t trace_node = 0;
};

// The leaves of an open trace by cell. (Cell::entered answers first, but threads that use one tensor overwrite it in turn.)
class LeafTable {
 public:
  static constexpr uint32_t none = ~0u;
  uint32_t find(const Cell* c) const;
  void set(const Cell* c, uint32_t node);
  void clear();

 private:
  struct Slot { const Cell* cell = nullptr; uint32_t node = 0; };
  Slot& place(const Cell* c);
  std::vector<Slot> slots_;
  size_t used_ = 0;
};

struct Trace {
  std::atomic<uint32_t> refs{1};
  uint64_t instance = 0;                // unique while open
  uint64_t order = ~0ull;               // when it was flushed; its inputs' traces come before (~0: open)
  std::vector<Node> nodes;
  std::vector<int64_t> extent;          // by size id
  std::vector<SizeId> parent;           // union-find over size ids
  std::vector<uint8_t> derived;         // by size id: a product, quotient or sum of others: it has no bucket of its own
  std::vector<uint16_t> name;           // by size id, not by its class: the axis's label, 0 for none
  bool has_names = false;
  bool fast_math = false;               // its plan may round otherwise than the ops one by one
  uint32_t joins = 0;
  struct Join { SizeId child, parent; };
  std::vector<Join> joined;             // in order; a call that fails takes its own back
  uint64_t entered_bytes = 0;           // of the leaves' memory, whoever else holds it
  uint64_t entered_most = 1 << 30;      // at more it is looked at who does
  size_t period_end = 0;                // of a trace that is full: the number of ops at which its latest period ends (0: not known)
  std::vector<uint64_t> args;           // numbers (bits of a double or int64), extents and other whole numbers
  std::vector<uint32_t> lists;          // operands of list ops
  std::vector<Value*> value;            // by node, counted; after a flush only what rows save
  std::vector<uint32_t> version;        // by node: the storage's version when the value was made (or entered)
  std::vector<Cell*> owner;             // by node: the live cell that shows it (open traces)
  std::vector<uint32_t> written;        // nodes that write in place, in order (open traces)
  std::vector<Leaf> leaves;
  LeafTable entered;                    // (open traces)
  std::vector<Storage*> pending;        // whose `pending` this trace has raised; a leaf's value holds each
  std::vector<std::pair<uint32_t, std::shared_ptr<Hooks>>> hooks;  // by node where any
  std::vector<std::unique_ptr<FlushRecord>>* records = nullptr;  // during a flush: what is known of such flushes, or null (follow.h)
  std::vector<bool> walked;             // by node: a backward without retain_graph went through

  SizeId find(SizeId s) const { while (parent[s] != s) s = parent[s]; return s; }
  uint16_t label_of(SizeId s) const { return s < 2 ? 0 : name[s]; }
  uint16_t name_of(SizeId s) const { return label_name(label_of(s)); }
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

// The memory that node n of an open trace shows: storage from outside, or the node that makes it.
std::pair<const Storage*, uint32_t> memory_place(const Trace& t, uint32_t n);

// What a later backward through node n reads of its operands and result (Saved bits): by which operands want gradients.
uint8_t saved_of(const Trace& t, uint32_t n);

// Results and extents of a call, from its inputs; throws the user's errors. Appends size ids and joins only.
void infer(Trace& t, const Call& call, Result& out, bool grad_enabled);

// DetectAnomalyGuard: what it watches, and the first op whose result had a NaN that its operands had not.
struct Anomaly {
  bool on = false, check_nan = false;
  bool looking = true;            // not while a backward emits
  bool found = false;
  Op op{};
  const CallSite* site = nullptr;
};

struct Recorder {
  Trace* open;
  uint8_t mode = grad_mode;
  bool eager = true;
  bool inference = false;
  bool fast_math = false;         // inside a compile() that allows it
  bool foreground = false;        // inside compile(): plans are compiled at once, in the foreground
  bool cut = false;               // the trace has memory that the user can reach: it is run when the call is complete
  const CallSite* site = nullptr; // whose line new nodes take: null for the call in progress
  Anomaly anomaly;

  // Checks and appends. On an error nothing is left behind, arguments bound for the call included.
  uint32_t emit(const Call& call);
  uint32_t append(const Call& call);  // emit, where the caller changes the node and settles it with `follow`
  uint32_t node_of(Cell* c, bool anew = true);  // in the open trace; a real tensor enters as a leaf at its first use
  Cell* show(uint32_t node);      // a new cell for a node
  uint32_t bind(std::initializer_list<uint64_t> words);  // appends arguments, returns the first slot
  uint32_t bind(const int64_t* words, size_t count);
  uint32_t bind_list(const std::vector<uint32_t>& nodes);
  // A call complete: in eager mode the trace is flushed.
  Var finish(uint32_t node);
  Var finish_view(uint32_t node, Cell* base);
  void finish_write(Cell* target, uint32_t node);  // in place: the cell takes the node
  void flush(const char* cause);
  void run_open(const char* cause);
  void bury_orphans();

  uint32_t push(const Node& node);
  void begin_following();
  void complete();
  uint32_t leaf_of(Cell* c);
  uint32_t enter(Cell* c);
  uint32_t read_anew(Cell* c);
  void enter_as(Cell* c, uint32_t node);  // c's value is that of node, a leaf that is there
  void touch(uint32_t node, Storage* s, bool writes);  // node shows or writes memory from outside
  void make_view(Cell* c, Cell* base, const ViewRecipe& recipe);
  void refresh(Cell* view);
  void write(Cell* target, uint32_t node);
  void rename(Cell* c, uint32_t node);
  bool full() {
    const Trace& t = *open;
    return (t.nodes.size() >= 8192 || t.extent.size() >= 32768 || t.entered_bytes > t.entered_most) && full_at_period();
  }
  bool full_at_period();
  bool flush_writes_to(const Storage* s);  // if there are any
  void abandon();                 // after an error: in eager mode nothing is pending
  Follower* follow = nullptr;     // null until something is deferred
  Capture* capture = nullptr;     // see freeze.h
  std::vector<std::unique_ptr<FlushRecord>>* replayed = nullptr;  // the open trace is a recording's: its records
  size_t args_bound = 0, lists_bound = 0;  // arguments and list entries that belong to appended nodes
  Ownership ownership;
  std::mutex orphans_lock;
  std::vector<Cell*> orphans;     // deferred here, and let go by other threads: destroyed after the next flush
};
Recorder& recorder();
// A call of this thread's recorder: no other thread flushes it meanwhile.
struct Turn {
  Recorder& r;
  Turn() : r(recorder()) { r.ownership.enter(); }
  ~Turn() { r.ownership.leave(); }
  Turn(const Turn&) = delete;
};
// Makes a tensor real that another thread has deferred, and its bases. To be called before a Turn.
void settle_elsewhere(Cell* c);
inline void settle(const Cell* c) {
  if (c->deferred.load(std::memory_order_acquire) && c->home != &recorder()) settle_elsewhere(const_cast<Cell*>(c));
}
// Reading a cell: while it is deferred, nobody runs its trace.
struct Reading {
  Recorder* r = nullptr;
  explicit Reading(const Cell* c) {
    settle(c);
    if (c->deferred.load(std::memory_order_acquire)) r = &recorder(), r->ownership.enter();
  }
  ~Reading() { if (r) r->ownership.leave(); }
  Reading(const Reading&) = delete;
};
void settle_operand(Cell* c);                // as an operand: with its bases, and with writes of its memory that others recorded
void set_eager_default(bool on);  // the mode in which new threads start

// The upper floor's executor: makes roots real, that is, fills trace.value. Set once, at load.
using Executor = void (*)(Trace& t, const char* cause);
void set_executor(Executor e);

Cell* new_cell();
Cell* new_cell(Value* v);                    // takes the value
Value& value_of(Cell* c, const char* cause); // flushes if deferred
void set_value(Cell* c, Value* v);           // takes the value, for a real cell, which is no view any more
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
void check_writable(Cell* c, Op written);   // throws AutogradError or ValueError
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
