// Following known traces: see follow.h. Start at Follower::expect.
#include "tracer/follow.h"
#include <algorithm>
#include <string_view>
#include "runtime/stats.h"

namespace frit::tracer {

namespace {
constexpr size_t most_nodes = 1 << 17, most_traces = 1 << 10, most_ends = 8;
constexpr uint32_t pause_after_churn = 1 << 10;

// Shape rules that make no size ids and read no arguments: a call's result follows from its operands' ids.
constexpr bool is_plain_rule(std::string_view rule) { return rule == "like0" || rule == "permute" || rule == "select" || rule == "reduce" || rule == "matmul"; }
constexpr bool plain_ops[] = {
#define UNARY(...) true,
#define BINARY(...) true,
#define TERNARY(...) true,
#define STRUCTURAL(name, inputs, shape, ...) is_plain_rule(#shape),
#include "tracer/ops.def"
};

// Field by field: a call that was just written would stall if it were read back in wider words.
bool equal_calls(const Call& a, const Call& b) {
  return a.op == b.op && a.mode == b.mode && a.kind == b.kind && a.arg == b.arg && a.in[0] == b.in[0] && a.in[1] == b.in[1] && a.in[2] == b.in[2] &&
         a.in[3] == b.in[3] && a.attr == b.attr;
}
}  // namespace

Follower::Follower() { forget(); }
Follower::~Follower() = default;

void Follower::forget() {
  known_.clear();
  known_.push_back(std::make_unique<Known>());
  predicted_ = known_[0].get();
  at_ = left_ = last_ = nullptr;
  nodes_ = 0, traces_ = 0, agreed_ = 0;
}

bool Follower::same_call(const Known& k, const Trace& t, uint32_t n, const Call& call) const {
  if (n >= k.nodes.size() || !equal_calls(k.nodes[n].call, call)) return false;
  if (inputs_of(call.op) >= 0) return true;
  const size_t first = call.in[0], count = call.in[1];
  return k.lists.size() >= first + count && std::equal(t.lists.begin() + first, t.lists.begin() + first + count, k.lists.begin() + first);
}
bool Follower::agrees(const Known& k, const Trace& t, uint32_t n) const {
  const Node& node = t.nodes[n];
  if (!same_call(k, t, n, node.call)) return false;
  const Result &a = k.nodes[n].result, &b = node.result;
  if (a.dtype != b.dtype || a.rank != b.rank || a.flags != b.flags || a.compute != b.compute || a.size_end != b.size_end || a.join_end != b.join_end ||
      !std::equal(a.size, a.size + a.rank, b.size))
    return false;
  if (!t.has_names && k.declared.empty()) return true;
  for (int i = 0; i < b.rank; ++i)
    if (const SizeId s = b.size[i]; s >= 2 && (n == 0 || s >= t.nodes[n - 1].result.size_end) && t.name[s] != (s < k.declared.size() ? k.declared[s] : 0)) return false;
  return true;
}
// Another known trace that begins as the open one did, and whose node n matches. All that part after the same n nodes are branches of
// the trace that n-th node was first in.
template <class F> bool Follower::branch(uint32_t n, F&& matches) {
  Known* const from = at_;
  Known* owner = from;
  while (owner->parent && n <= owner->shared) owner = owner->parent;
  if (owner != from && matches(*owner)) return at_ = owner, true;
  for (const auto& [at, other] : owner->branches)
    if (at == n && other != from && matches(*other)) return at_ = other, true;
  left_ = owner, left_at_ = n, at_ = nullptr;
  return false;
}

const Node* Follower::expect(Trace& t, const Call& call) {
  const uint32_t n = uint32_t(t.nodes.size());
  if (!plain_ops[size_t(call.op)]) return nullptr;
  if (!same_call(*at_, t, n, call) && !branch(n, [&](const Known& k) { return same_call(k, t, n, call); })) return nullptr;
  const Node& known = at_->nodes[n];
  for (uint32_t j = t.joins; j < known.result.join_end; ++j)
    if (const Trace::Join& join = at_->joined[j]; t.extent[join.child] != t.extent[join.parent]) return nullptr;  // infer() will say it in the user's words
  for (uint32_t j = t.joins; j < known.result.join_end; ++j) t.join(at_->joined[j].child, at_->joined[j].parent);
  ++calls_;
  return &known;
}
void Follower::settle(const Trace& t, uint32_t n) {
  if (!agrees(*at_, t, n)) branch(n, [&](const Known& k) { return agrees(k, t, n); });
}
void Follower::settle_leaf(uint32_t n, bool leaf) {
  if (std::binary_search(at_->leaves.begin(), at_->leaves.end(), n) != leaf) stop();
}

FlushRecords* Follower::end(const Trace& t) {
  count(&Counters::ops_followed, std::exchange(calls_, 0));
  if (pause_) {
    --pause_;
    return nullptr;
  }
  ++traces_;
  Known* k = at_;
  const uint32_t nodes = uint32_t(t.nodes.size());
  if (k) ++agreed_;
  else if (left_) k = remember(t);
  at_ = left_ = nullptr;
  if (!k) return nullptr;
  if (last_) last_->next = k;
  last_ = k;
  predicted_ = k->next ? k->next : known_[0].get();
  for (const auto& e : k->ends)
    if (e->nodes == nodes) return &e->records;
  if (k->ends.size() >= most_ends) return nullptr;
  k->ends.push_back(std::make_unique<Known::End>(Known::End{nodes, {}}));
  return &k->ends.back()->records;
}
Known* Follower::remember(const Trace& t) {
  if (nodes_ + t.nodes.size() > most_nodes || known_.size() >= most_traces) {
    const bool churn = agreed_ < traces_ / 2;
    forget();
    if (churn) pause_ = pause_after_churn;
    return nullptr;
  }
  auto made = std::make_unique<Known>();
  Known& k = *made;
  k.nodes = t.nodes, k.lists = t.lists, k.joined = t.joined;
  for (uint32_t n = 0; n < k.nodes.size(); ++n)
    if (Node& node = k.nodes[n]; node.call.mode & new_leaf) {
      k.leaves.push_back(n);
      node.call.mode &= uint8_t(~new_leaf), node.result.flags &= uint8_t(~wants_grad);
    }
  if (t.has_names) k.declared = t.name;
  k.parent = left_, k.shared = left_at_;
  left_->branches.push_back({left_at_, &k});
  nodes_ += k.nodes.size();
  known_.push_back(std::move(made));
  return &k;
}

}  // namespace frit::tracer
