// Which memory a trace's values lie in, and what views show of it. Start at memory_classes.
#include <algorithm>
#include "jit/fuse.h"

namespace frit::jit {

using namespace tracer;

namespace {
// Storages of leaves by address, and which of the foreign ones overlap.
class StorageTable {
 public:
  StorageTable(size_t leaves, bool by_bytes) : by_bytes_(by_bytes), slots_(std::bit_ceil(2 * leaves + 2)) {}
  uint32_t find(const Storage* s) {
    size_t at = (reinterpret_cast<uintptr_t>(s) >> 4) * 0x9e3779b97f4a7c15 >> 32;
    for (;; ++at) {
      Slot& slot = slots_[at & (slots_.size() - 1)];
      if (slot.storage == s) return slot.memory;
      if (slot.storage) continue;
      slot = {s, by_bytes_ && s->foreign ? overlapping(s) : next_++};
      return slot.memory;
    }
  }

 private:
  struct Slot { const Storage* storage; uint32_t memory; };
  struct Range { const char *first, *last; uint32_t memory; };
  uint32_t overlapping(const Storage* s) {
    const char *first = static_cast<const char*>(s->data), *last = first + s->bytes;
    uint32_t memory = no_memory;
    for (const Range& r : foreign_)
      if (memory == no_memory && first < r.last && r.first < last) memory = r.memory;
    if (memory == no_memory) memory = next_++;
    foreign_.push_back({first, last, memory});
    return memory;
  }
  bool by_bytes_;
  std::vector<Slot> slots_;
  std::vector<Range> foreign_;
  uint32_t next_ = 0;
};
}  // namespace

std::vector<uint32_t> memory_of(const Trace& t, const std::vector<uint32_t>& leaves, bool by_bytes) {
  StorageTable table(leaves.size(), by_bytes);
  std::vector<uint32_t> memory;
  memory.reserve(leaves.size());
  for (uint32_t n : leaves) memory.push_back(table.find(t.value[n]->storage));
  return memory;
}
std::vector<uint32_t> leaf_memory(const Trace& t, bool by_bytes) {
  std::vector<uint32_t> leaves;
  for (uint32_t n = 0; n < t.nodes.size(); ++n)
    if (t.nodes[n].call.op == Op::leaf) leaves.push_back(n);
  const std::vector<uint32_t> of_leaves = memory_of(t, leaves, by_bytes);
  std::vector<uint32_t> memory(t.nodes.size(), no_memory);
  for (size_t i = 0; i < leaves.size(); ++i) memory[leaves[i]] = of_leaves[i];
  return memory;
}
std::vector<uint32_t> memory_classes(const Trace& t, const std::vector<bool>* pure, bool by_bytes) {
  std::vector<uint32_t> memory = leaf_memory(t, by_bytes);
  uint32_t next = 0;
  for (uint32_t m : memory)
    if (m != no_memory) next = std::max(next, m + 1);
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    const Call& call = t.nodes[n].call;
    if (call.op == Op::leaf) continue;
    const RowKind k = row(call.op).kind;
    const bool shares = k == RowKind::view || k == RowKind::alias || ((call.mode & in_place) && !(pure && (*pure)[n]));
    memory[n] = shares ? memory[call.in[0]] : next++;
  }
  return memory;
}

std::vector<bool> pure_writes(const Trace& t) {
  const uint32_t count = uint32_t(t.nodes.size());
  std::vector<uint32_t> first(count);
  std::vector<bool> shared(count), pure(count);
  for (uint32_t n = 0; n < count; ++n) {
    const Call& call = t.nodes[n].call;
    const RowKind k = row(call.op).kind;
    const bool view = k == RowKind::view || k == RowKind::alias;
    first[n] = view || (call.mode & in_place) ? first[call.in[0]] : n;
    if (view || call.op == Op::leaf) shared[first[n]] = true;
  }
  for (uint32_t n = 0; n < count; ++n) pure[n] = (t.nodes[n].call.mode & in_place) && !shared[first[n]];
  return pure;
}
uint32_t view_base(const Trace& t, uint32_t n) {
  for (;;) {
    const RowKind k = row(t.nodes[n].call.op).kind;
    if (k == RowKind::view) n = t.nodes[n].call.in[0];
    else if (k == RowKind::alias) n = t.nodes[n].call.in[1];  // the base after a view was written: made by that write
    else return n;
  }
}
bool is_indexed_source(const Trace& t, uint32_t n) {
  const Op op = t.nodes[n].call.op;
  return row(op).kind == RowKind::source && op != Op::leaf && op != Op::full;
}
bool source_layout(const Trace& t, uint32_t n, Layout& out) {
  const Call& call = t.nodes[n].call;
  Value v{};
  v.dtype = t.nodes[n].result.dtype, v.rank = uint8_t(t.rank_of(n));
  if (row(call.op).kind == RowKind::view) {
    Layout in;
    if (!source_layout(t, call.in[0], in)) return false;
    v.rank = uint8_t(in.rank), v.offset = in.offset;
    std::copy_n(in.extent, in.rank, v.extent);
    std::copy_n(in.stride, in.rank, v.stride);
    const std::optional<Layout> l = view_layout(call, t.args.data() + call.arg, v);
    if (l) out = *l;
    return l.has_value();
  }
  t.sizes(n, v.extent);
  int64_t step = 1;
  for (int i = v.rank; i-- > 0; step *= std::max<int64_t>(v.extent[i], 1)) v.stride[i] = step;
  out = layout_of(v);
  return true;
}
// A reshape to the same axes, unit ones aside.
bool only_unit_axes(const Trace& t, uint32_t n) {
  const Result &out = t.nodes[n].result, &in = t.nodes[t.nodes[n].call.in[0]].result;
  int i = 0, j = 0;
  for (;; ++i, ++j) {
    while (i < in.rank && in.size[i] == 1) ++i;
    while (j < out.rank && out.size[j] == 1) ++j;
    if (i == in.rank || j == out.rank) break;
    if (t.find(in.size[i]) != t.find(out.size[j])) return false;
  }
  return i == in.rank && j == out.rank;
}
bool passes_through(const Trace& t, uint32_t n) {
  const Node* node = &t.nodes[n];
  if (row(node->call.op).kind != RowKind::view) return false;
  while (row(node->call.op).kind == RowKind::view) {
    const Op op = node->call.op;
    if (op != Op::expand && op != Op::reshape && op != Op::detach) return false;
    if (op == Op::reshape && !only_unit_axes(t, uint32_t(node - t.nodes.data()))) return false;
    node = &t.nodes[node->call.in[0]];
  }
  return true;
}

}  // namespace frit::jit
