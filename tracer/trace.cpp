// Recording: cells, traces and the recorder. An op's way: node_of() for its operands (a real tensor enters the open trace
// as a leaf), emit() (shapes.cpp checks and infers; one node is appended), finish() (a cell for the node; in eager mode the
// trace of one op is flushed at once; flush.cpp). Start at Recorder::emit.
#include "tracer/trace.h"
#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include "runtime/error.h"
#include "runtime/source_line.h"
#include "tracer/anomaly.h"
#include "tracer/axis_labels.h"
#include "tracer/custom.h"
#include "tracer/follow.h"
#include "tracer/freeze.h"
#include "tracer/gradient_detail.h"
#include "tracer/memory_report.h"
#include "tracer/user_call.h"

namespace frit::tracer {

namespace {
std::atomic<uint64_t> next_instance{1};
std::atomic<bool> eager_default{true};

// Free lists of dead objects, one per thread. Objects move between threads freely: a list only holds dead ones.
template <class T> struct Pool {
  std::vector<T*> free;
  ~Pool() {
    for (T* t : free) delete t;
    alive() = false;
  }
  static bool& alive() { static thread_local bool a = true; return a; }
  static Pool& mine() { static thread_local Pool p; return p; }
  static T* take() {
    if (alive() && !mine().free.empty()) {
      T* t = mine().free.back();
      mine().free.pop_back();
      return t;
    }
    return new T;
  }
  static void give(T* t) {
    if (alive() && mine().free.size() < 4096) mine().free.push_back(t);
    else delete t;
  }
};
}  // namespace

// ---- cells -------------------------------------------------------------------------------------------------------
Cell* new_cell() {
  Cell* c = Pool<Cell>::take();
  c->refs.store(1, std::memory_order_relaxed);
  c->flags = 0;
  c->deferred.store(false, std::memory_order_relaxed);
  c->node = 0, c->writes = 0, c->seen = 0;
  c->trace = nullptr, c->value = nullptr, c->grad = nullptr, c->base = nullptr, c->recipe = nullptr, c->shape = nullptr, c->home = nullptr;
  c->entered.store(0, std::memory_order_relaxed);
  return c;
}
Cell* new_cell(Value* v) {
  Cell* c = new_cell();
  c->value = v;
  return c;
}
void retain_cell(Cell* c) { c->refs.fetch_add(1, std::memory_order_relaxed); }
bool try_retain_cell(Cell* c) {
  uint32_t n = c->refs.load(std::memory_order_relaxed);
  while (n && !c->refs.compare_exchange_weak(n, n + 1, std::memory_order_relaxed)) {}
  return n;
}
void release_cell(Cell* c) noexcept {
  if (c->deferred.load(std::memory_order_relaxed) && c->home != &recorder()) {  // its thread may take it up again meanwhile
    if (c->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(c);
    return;
  }
  if (c->refs.load(std::memory_order_acquire) == 1 || c->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(c);
}
void destroy(Cell* c) noexcept {
  if (c->deferred.load(std::memory_order_acquire) && c->home != &recorder()) {  // its thread may be recording: it lets go of it
    const std::lock_guard hold(c->home->orphans_lock);
    c->home->orphans.push_back(c);
    return;
  }
  if (c->deferred.load(std::memory_order_relaxed)) {  // while no other thread runs the trace: it would have made the cell real
    c->home->ownership.enter();
    if (c->deferred.load(std::memory_order_relaxed)) {
      c->trace->owner[c->node] = nullptr;
      c->trace = nullptr;
    }
    c->home->ownership.leave();
  }
  if (c->hooks) {
    if (c->hooks->retained == c) c->hooks->retained = nullptr;
    c->hooks.reset();
  }
  if (c->value) release(c->value);
  if (c->trace) release(c->trace);
  if (c->grad) release_cell(c->grad);
  if (c->base) release_cell(c->base);
  if (c->recipe) Pool<ViewRecipe>::give(c->recipe);
  delete[] c->shape;
  Pool<Cell>::give(c);
}
void set_value(Cell* c, Value* v) {
  if (c->base) release_cell(std::exchange(c->base, nullptr));
  if (c->recipe) Pool<ViewRecipe>::give(std::exchange(c->recipe, nullptr));
  release(std::exchange(c->value, v));
  c->entered.store(0, std::memory_order_relaxed);
}
Value& value_of(Cell* c, const char* cause) {
  settle(c);
  if (c->deferred || (c->value && c->value->storage->pending.load(std::memory_order_relaxed))) {
    recorder().flush(cause);
    settle_operand(c);
  }
  if (!c->value) throw Error("this tensor has no value: the op that makes it failed when it was evaluated");
  return *c->value;
}
const int64_t* shape_of(Cell* c) {
  const Reading reading(c);
  if (c->value) return c->value->extent;
  if (!c->trace) throw Error("this tensor has no value: the op that makes it failed when it was evaluated");
  if (!c->shape) {
    c->shape = new int64_t[max_rank];
    c->trace->sizes(c->node, c->shape);
  }
  return c->shape;
}
int rank_of(const Cell* c) {
  const Reading reading(c);
  if (c->value) return c->value->rank;
  if (!c->trace) throw Error("this tensor has no value: the op that makes it failed when it was evaluated");
  return c->trace->rank_of(c->node);
}
Sizes sizes_of(const Cell* c) {
  const Reading reading(c);
  if (c->value) return Sizes(c->value->extent, c->value->extent + c->value->rank);
  if (!c->trace) throw Error("this tensor has no value: the op that makes it failed when it was evaluated");
  return c->trace->sizes(c->node);
}
Dtype dtype_of(const Cell* c) {
  const Reading reading(c);
  if (c->value) return c->value->dtype;
  if (!c->trace) throw Error("this tensor has no value: the op that makes it failed when it was evaluated");
  return c->trace->nodes[c->node].result.dtype;
}
bool wants_gradient(const Cell* c) {
  const Reading reading(c);
  return (c->flags & gradient_leaf) || (c->trace && (c->trace->nodes[c->node].result.flags & wants_grad));
}

// ---- traces -------------------------------------------------------------------------------------------------------
Trace* new_trace() {
  Trace* t = Pool<Trace>::take();
  t->refs.store(1, std::memory_order_relaxed);
  t->clear();
  return t;
}
LeafTable::Slot& LeafTable::place(const Cell* c) {
  for (size_t at = (reinterpret_cast<uintptr_t>(c) >> 4) * 0x9e3779b97f4a7c15 >> 40;; ++at)
    if (Slot& s = slots_[at & (slots_.size() - 1)]; s.cell == c || !s.cell) return s;
}
uint32_t LeafTable::find(const Cell* c) const {
  if (!used_) return none;
  const Slot& s = const_cast<LeafTable*>(this)->place(c);
  return s.cell ? s.node : none;
}
void LeafTable::set(const Cell* c, uint32_t node) {
  if (2 * (used_ + 1) > slots_.size()) {
    std::vector<Slot> old(std::max<size_t>(16, 2 * slots_.size()));
    old.swap(slots_);
    for (const Slot& s : old)
      if (s.cell) place(s.cell) = s;
  }
  Slot& s = place(c);
  used_ += !s.cell;
  s = {c, node};
}
void LeafTable::clear() {
  if (used_) std::fill(slots_.begin(), slots_.end(), Slot{});
  used_ = 0;
}
void Trace::settle() {
  for (Storage* s : pending) s->pending.fetch_sub(1, std::memory_order_relaxed);
  pending.clear();
}
void Trace::clear() {
  settle();
  for (Value*& v : value)
    if (v) frit::tracer::release(v), v = nullptr;
  value.clear();
  for (Leaf& l : leaves) {
    if (l.cell) release_cell(l.cell);
    if (l.trace) frit::tracer::release(l.trace);
  }
  leaves.clear();
  entered_bytes = 0, entered_most = 1 << 30, period_end = 0;
  nodes.clear(), args.clear(), lists.clear(), version.clear(), owner.clear(), hooks.clear(), walked.clear(), written.clear();
  extent.assign({0, 1});
  parent.assign({0, 1});
  derived.assign({0, 0});
  name.assign({0, 0});
  has_names = false, fast_math = false;
  joins = 0;
  joined.clear();
  entered.clear();
  order = ~0ull;
  instance = next_instance.fetch_add(1, std::memory_order_relaxed);
}
// A chain of kept traces is as long as the user's loop: it is taken down iteratively.
void release(Trace* t) noexcept {
  if (t->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  static thread_local std::vector<Trace*>* dying = nullptr;
  if (dying) {
    dying->push_back(t);
    return;
  }
  std::vector<Trace*> queue{t};
  dying = &queue;
  while (!queue.empty()) {
    Trace* next = queue.back();
    queue.pop_back();
    next->clear();
    Pool<Trace>::give(next);
  }
  dying = nullptr;
}
Storage* Trace::outer_storage(uint32_t n) const {
  for (;;) {
    const Call& c = nodes[n].call;
    if (c.op == Op::leaf) return value[n] ? value[n]->storage : nullptr;
    const RowKind k = kind_of(c.op);
    if (k != RowKind::view && k != RowKind::alias && !(c.mode & in_place)) return nullptr;
    n = c.in[0];
  }
}
const Leaf* Trace::leaf(uint32_t n) const {
  for (const Leaf& l : leaves)
    if (l.node == n) return &l;
  return nullptr;
}
uint8_t saved_of(const Trace& t, uint32_t n) {
  const OpRow& r = row(t.nodes[n].call.op);
  if (r.inputs < 0) return r.saved;
  uint8_t what = 0;
  for (int k = 0; k < r.inputs && k < 3; ++k)
    if (const uint32_t in = t.input(n, k); in < t.nodes.size() && t.nodes[in].result.flags & wants_grad) what |= r.reads[k];
  return what;
}
SizeId Trace::new_size(int64_t e, bool is_derived) {
  if (e >= 0 && e < 2) return SizeId(e);
  if (extent.size() >= 0xffff) throw InternalError("a trace has too many size ids");
  extent.push_back(e);
  parent.push_back(SizeId(parent.size()));
  derived.push_back(is_derived);
  name.push_back(0);
  return SizeId(extent.size() - 1);
}
void Trace::join(SizeId a, SizeId b) {  // the smaller names the class
  a = find(a), b = find(b);
  if (a == b) return;
  if (a > b) std::swap(a, b);
  joined.push_back({b, a});
  parent[b] = a;
  ++joins;
}
void Trace::rewind(const Mark& m) {
  for (; joins > m.joins; --joins) {
    parent[joined.back().child] = joined.back().child;
    joined.pop_back();
  }
  extent.resize(m.sizes), parent.resize(m.sizes), derived.resize(m.sizes), name.resize(m.sizes);
}

// ---- recording ----------------------------------------------------------------------------------------------------
void set_eager_default(bool on) { eager_default = on; }

namespace {
// Recorders outlive their threads; one with nothing deferred serves the next thread.
struct IdleRecorders {
  std::mutex lock;
  std::vector<Recorder*> idle, all;
};
IdleRecorders& idle_recorders() {
  static IdleRecorders* r = new IdleRecorders;  // never destroyed
  return *r;
}
struct ThreadExit {
  Recorder* mine = nullptr;
  ~ThreadExit() {
    if (!mine || !mine->open->nodes.empty()) return;
    IdleRecorders& r = idle_recorders();
    const std::lock_guard hold(r.lock);
    r.idle.push_back(mine);
  }
};
Recorder* idle_recorder() {
  IdleRecorders& r = idle_recorders();
  const std::lock_guard hold(r.lock);
  if (r.idle.empty()) return nullptr;
  Recorder* reused = r.idle.back();
  r.idle.pop_back();
  reused->mode = grad_mode;
  reused->inference = reused->foreground = false;
  reused->site = nullptr;
  reused->cut = false;
  reused->capture = nullptr, reused->replayed = nullptr;
  return reused;
}
}  // namespace

Recorder& recorder() {
  static thread_local Recorder* mine = nullptr;
  if (!mine) [[unlikely]] {  // recorders outlive their thread: a tensor may
    static thread_local ThreadExit at_exit;
    mine = idle_recorder();
    if (!mine) {
      mine = new Recorder;
      mine->open = new_trace();
      IdleRecorders& r = idle_recorders();
      const std::lock_guard hold(r.lock);
      r.all.push_back(mine);
    }
    at_exit.mine = mine;
    mine->eager = eager_default;
  }
  return *mine;
}
void settle_elsewhere(Cell* c) {
  Recorder& home = *c->home;
  const Ownership::Claim claim(home.ownership);
  if (c->deferred.load(std::memory_order_relaxed)) home.flush("another thread");
}
bool Recorder::flush_writes_to(const Storage* s) {
  if (std::find(open->pending.begin(), open->pending.end(), s) == open->pending.end()) return false;
  flush("another thread");
  return true;
}
void settle_operand(Cell* c) {
  for (Cell* b = c; b; b = b->base) settle(b);
  if (c->deferred.load(std::memory_order_acquire)) return;  // here: another thread may be making it real just now
  if (!c->value || !c->value->storage->pending.load(std::memory_order_relaxed)) return;
  const Storage* s = c->value->storage;
  Recorder& mine = recorder();
  if (mine.ownership.in_call()) return;  // settled before the call
  const auto own = uint32_t(std::count(mine.open->pending.begin(), mine.open->pending.end(), s));
  if (s->pending.load(std::memory_order_relaxed) == own) return;
  std::vector<Recorder*> others;
  {
    IdleRecorders& r = idle_recorders();
    const std::lock_guard hold(r.lock);
    others = r.all;
  }
  for (Recorder* r : others) {
    if (r == &mine) continue;
    const Ownership::Claim claim(r->ownership);
    r->flush_writes_to(s);
  }
}
uint32_t Recorder::bind(std::initializer_list<uint64_t> words) {
  const uint32_t first = uint32_t(open->args.size());
  open->args.insert(open->args.end(), words);
  return first;
}
uint32_t Recorder::bind(const int64_t* words, size_t count) {
  const uint32_t first = uint32_t(open->args.size());
  open->args.insert(open->args.end(), words, words + count);
  return first;
}
uint32_t Recorder::bind_list(const std::vector<uint32_t>& nodes) {
  const uint32_t first = uint32_t(open->lists.size());
  open->lists.insert(open->lists.end(), nodes.begin(), nodes.end());
  return first;
}
void Recorder::abandon() {
  open->args.resize(args_bound), open->lists.resize(lists_bound);
  if (!eager) return;
  // Views that were taken again for the failed call are as real as before.
  if (std::any_of(open->owner.begin(), open->owner.end(), [](Cell* c) { return c != nullptr; })) flush("error");
  else open->clear(), args_bound = lists_bound = 0;
}
uint32_t Recorder::emit(const Call& call) {
  const bool known = follow && follow->following();
  const size_t count = open->nodes.size();
  if (known)
    if (Call asked = call; asked.mode |= mode, true)
      if (const Node* n = follow->expect(*open, asked)) return push(*n);
  const uint32_t n = append(call);
  if (!known && count == 0) begin_following();
  if (follow && follow->following()) follow->settle(*open, n);
  return n;
}
uint32_t Recorder::append(const Call& call) {
  Trace& t = *open;
  Node n;
  n.call = call;
  n.call.mode |= mode;
  const Trace::Mark before = t.mark();
  try {
    infer(t, n.call, n.result, mode & grad_mode);
  } catch (...) {
    t.rewind(before);
    abandon();
    throw;
  }
  n.result.size_end = uint16_t(t.extent.size()), n.result.join_end = uint16_t(t.joins);
  return push(n);
}
uint32_t Recorder::push(const Node& node) {
  Trace& t = *open;
  t.nodes.push_back(node);
  Node& n = t.nodes.back();
  n.result.site = site ? site : call_site(UserCall::name_or(nullptr));
  t.value.push_back(nullptr);
  t.owner.push_back(nullptr);
  t.version.push_back(0);
  // A write is counted when it is recorded, so that a gradient that saved the old content notices before it is run.
  const RowKind kind = kind_of(n.call.op);
  const bool writes = n.call.mode & in_place;
  if (kind == RowKind::view || kind == RowKind::alias || writes)
    if (Storage* s = t.outer_storage(uint32_t(t.nodes.size() - 1))) touch(uint32_t(t.nodes.size() - 1), s, writes && kind != RowKind::alias);
  if (writes && kind != RowKind::alias) t.written.push_back(uint32_t(t.nodes.size() - 1));
  args_bound = t.args.size(), lists_bound = t.lists.size();
  return uint32_t(t.nodes.size() - 1);
}
void Recorder::touch(uint32_t node, Storage* s, bool writes) {
  if (writes) {
    s->version.fetch_add(1, std::memory_order_relaxed);
    if (s->watched.load(std::memory_order_relaxed)) [[unlikely]] tell_watcher(*s, false);
    const Node& n = open->nodes[node];
    s->written_by.store(uint16_t(n.call.op), std::memory_order_relaxed), s->written_at.store(n.result.site, std::memory_order_relaxed);
    if (!eager) s->pending.fetch_add(1, std::memory_order_relaxed), open->pending.push_back(s);
  }
  open->version[node] = s->version.load(std::memory_order_relaxed);
}
void Recorder::begin_following() {
  if (eager) return;
  if (!follow) follow = new Follower;  // as long as the recorder: for ever
  follow->begin();
}
namespace {
// Written through another handle since node n was recorded.
bool is_stale(const Trace& t, uint32_t n) {
  if (t.written.empty() || t.written.back() <= n) return false;
  const auto place = memory_place(t, n);
  for (size_t k = t.written.size(); k-- > 0 && t.written[k] > n;)
    if (memory_place(t, t.written[k]) == place) return true;
  return false;
}
}  // namespace
std::pair<const Storage*, uint32_t> memory_place(const Trace& t, uint32_t n) {
  for (;; n = t.nodes[n].call.in[0]) {
    const Call& c = t.nodes[n].call;
    const RowKind kind = kind_of(c.op);
    if (c.op == Op::leaf) return {t.value[n]->storage, 0};  // one memory may have entered as several leaves
    if (kind != RowKind::view && kind != RowKind::alias && !(c.mode & in_place)) return {nullptr, n};
  }
}

// Who uses a tensor that was written through another handle uses its new content: a view of its own tells that from what was
// saved before the write. The tensor's place in the graph stays where it was.
uint32_t Recorder::read_anew(Cell* c) {
  const uint64_t e = c->entered.load(std::memory_order_relaxed);
  const uint32_t latest = e >> 20 == open->instance ? uint32_t(e & 0xfffff) : c->node;
  if (!is_stale(*open, latest)) return latest;
  Call call{.op = Op::detach, .in = {latest, no_node, no_node, no_node}};
  if (wants_gradient(c)) {  // an expand to the same extents, which gradients pass
    const Sizes e = open->sizes(latest);
    call.op = Op::expand, call.attr = e.size();
    call.arg = bind(e.data(), e.size());
  }
  const uint8_t before = mode;
  mode |= grad_mode;  // whoever is the first to use it
  const uint32_t now = emit(call);
  mode = before;
  c->entered.store(open->instance << 20 | now, std::memory_order_relaxed);
  return now;
}
uint32_t Recorder::node_of(Cell* c, bool anew) {
  if (c->base && root_base(c)->writes != c->seen) refresh(c);
  if (c->deferred) {
    if (c->trace == open) [[likely]] {
      return anew && !eager && !open->written.empty() ? read_anew(c) : c->node;
    }
    throw Error("this tensor is deferred on another thread: call synchronize() there before it is used here");
  }
  const uint64_t e = c->entered.load(std::memory_order_relaxed);
  if (e >> 20 == open->instance) {
    const uint32_t n = uint32_t(e & 0xfffff);
    if (eager || !c->value || open->version[n] == c->value->storage->version.load(std::memory_order_relaxed)) return n;
  }
  return eager ? enter(c) : leaf_of(c);
}
// The table speaks of addresses: another cell may have come to the place of one that died.
uint32_t Recorder::leaf_of(Cell* c) {
  const uint32_t n = open->entered.find(c);
  if (n != LeafTable::none && c->value && open->value[n] == c->value && open->version[n] == c->value->storage->version.load(std::memory_order_relaxed) &&
      bool(open->nodes[n].result.flags & wants_grad) == wants_gradient(c)) {
    const Leaf* l = open->leaf(n);
    if (!l || (c->flags & gradient_leaf ? l->cell == c : l->trace == c->trace && l->trace_node == c->node)) {
      c->entered.store(open->instance << 20 | n, std::memory_order_relaxed);
      return n;
    }
  }
  const uint32_t fresh = enter(c);
  open->entered.set(c, fresh);
  return fresh;
}
uint32_t Recorder::enter(Cell* c) {
  if (!c->value) value_of(c, "use");  // throws: the tensor is poisoned
  const Value& v = *c->value;
  // What an op binds before its operands enter must stay behind the leaf's own arguments: leaves take none.
  Call call{.op = Op::leaf, .kind = uint8_t(v.dtype)};
  call.attr = uint64_t(v.rank) | uint64_t(wants_gradient(c)) << 8;
  Trace& t = *open;
  Node n;
  n.call = call;
  n.result = Result{v.dtype, v.rank, uint8_t(wants_gradient(c) ? wants_grad : 0), v.dtype, 0, 0, {}, nullptr};
  for (int i = 0; i < v.rank; ++i) {
    const SizeId s = n.result.size[i] = t.new_size(v.extent[i]);
    if (v.name[i] && s >= 2) t.name[s] = v.name[i], t.has_names = true;
  }
  n.result.size_end = uint16_t(t.extent.size()), n.result.join_end = uint16_t(t.joins);
  const uint32_t node = uint32_t(t.nodes.size());
  t.nodes.push_back(n);
  t.value.push_back(nullptr);
  cut |= v.storage->reachable.load(std::memory_order_relaxed);
  t.owner.push_back(nullptr);
  t.version.push_back(0);
  enter_as(c, node);
  if (capture) capture->entered(node, c);
  if (node == 0) begin_following();
  if (follow && follow->following()) follow->settle(t, node);
  return node;
}
void Recorder::enter_as(Cell* c, uint32_t node) {
  Trace& t = *open;
  retain(t.value[node] = c->value);
  t.entered_bytes += c->value->storage->bytes;
  t.version[node] = c->value->storage->version.load(std::memory_order_relaxed);
  if (t.nodes[node].result.flags & wants_grad) {
    Leaf l{node, nullptr, nullptr, 0};
    if (c->flags & gradient_leaf) l.cell = c, retain_cell(c);
    else l.trace = c->trace, l.trace_node = c->node, retain(c->trace);
    t.leaves.push_back(l);
  }
  c->entered.store(t.instance << 20 | node, std::memory_order_relaxed);
}
Cell* Recorder::show(uint32_t node) {
  Cell* c = new_cell();
  c->home = this;
  c->deferred.store(true, std::memory_order_relaxed);
  c->trace = open, c->node = node;
  if (inference) c->flags |= inference_tensor;
  return open->owner[node] = c;
}
Var Recorder::finish(uint32_t node) {
  Var v = Var::take(show(node));
  complete();
  return v;
}
void Recorder::complete() {
  if (eager) flush("eager");
  else if (cut) flush("memory that the user can reach");
  else if (full()) flush("full trace");
}
Var Recorder::finish_view(uint32_t node, Cell* base) {
  Cell* c = show(node);
  Var v = Var::take(c);
  const Call& call = open->nodes[node].call;
  static thread_local ViewRecipe recipe;
  recipe.call = call;
  recipe.args.assign(open->args.begin() + std::ptrdiff_t(std::min<size_t>(call.arg, open->args.size())), open->args.end());
  make_view(c, base, recipe);
  if (eager) flush("eager");
  return v;
}
void Recorder::make_view(Cell* c, Cell* base, const ViewRecipe& recipe) {
  retain_cell(base);
  c->base = base;
  c->seen = root_base(base)->writes;
  c->recipe = Pool<ViewRecipe>::take();
  *c->recipe = recipe;
}

// ---- in place -------------------------------------------------------------------------------------------------------
void Recorder::rename(Cell* c, uint32_t node) {
  if (c->deferred) c->trace->owner[c->node] = nullptr;
  else if (c->trace) release(c->trace);
  if (c->value) release(std::exchange(c->value, nullptr));  // the leaf's entry keeps it
  c->home = this;
  c->deferred.store(true, std::memory_order_relaxed);
  c->trace = open, c->node = node;
  c->entered.store(0, std::memory_order_relaxed);
  open->owner[node] = c;
}
// A written view makes its base another tensor too: for gradients the base is the result of write_view. The bytes were
// shared all along.
void Recorder::write(Cell* target, uint32_t node) {
  rename(target, node);
  const bool leaf = (target->flags & gradient_leaf) && !eager;
  if (follow && follow->following()) follow->settle_leaf(node, leaf);
  if (leaf) {  // a leaf written under no_grad is a leaf again for what follows
    Node& n = open->nodes[node];
    n.result.flags |= wants_grad;
    n.call.mode |= new_leaf;
    retain_cell(target);
    open->leaves.push_back({node, target, nullptr, 0});
  }
  if (!target->base) {
    ++target->writes;
    return;
  }
  const bool grad = (open->nodes[node].result.flags & wants_grad) || wants_gradient(target->base);
  if (!grad) return;
  const uint32_t base = node_of(target->base, false);
  // The recipe is bound as arguments: {op | kind << 16, attr, its own arguments}.
  const ViewRecipe& recipe = *target->recipe;
  Call call{.op = Op::write_view, .mode = in_place, .in = {base, node, no_node, no_node}};
  call.arg = bind({uint64_t(recipe.call.op) | uint64_t(recipe.call.kind) << 16, recipe.call.attr, recipe.args.size()});
  bind(reinterpret_cast<const int64_t*>(recipe.args.data()), recipe.args.size());
  write(target->base, emit(call));
  target->seen = root_base(target)->writes;
}
void Recorder::finish_write(Cell* target, uint32_t node) {
  write(target, node);
  complete();
}
// The base was written: take the view again.
void Recorder::refresh(Cell* view) {
  const uint32_t in = node_of(view->base);
  Call call = view->recipe->call;
  call.in[0] = in;
  call.mode = 0;
  call.arg = bind(reinterpret_cast<const int64_t*>(view->recipe->args.data()), view->recipe->args.size());
  const bool named = call.op == Op::expand && call.kind;
  const std::vector<uint16_t> names = named ? axis_names(view) : std::vector<uint16_t>();
  const uint32_t now = append(call);
  name_axes(*open, now, names);
  if (follow && follow->following()) follow->settle(*open, now);
  rename(view, now);
  view->seen = root_base(view)->writes;
}

}  // namespace frit::tracer
