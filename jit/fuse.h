// Fusion: which nodes of a trace become one kernel. The result speaks of node numbers only, so it serves every trace with the
// same key.
#pragma once
#include <string>
#include <vector>
#include "tracer/layout.h"
#include "tracer/trace.h"

namespace frit::jit {

using tracer::Trace;

enum class GroupKind : uint8_t {
  single,    // one op by its own means: a product, an indexed op, a library step, or a lone kernel
  elements,  // pointwise nodes over one iteration space
  row,       // the same, with reductions of the last axis and what is computed from them
  columns,   // pointwise nodes, then reductions of axes before the last, then pointwise nodes over what is kept
};
struct Group {
  GroupKind kind = GroupKind::single;
  std::vector<uint32_t> nodes;    // in order
  std::vector<uint32_t> inputs;   // real tensors that it reads, each once
  std::vector<uint32_t> outputs;  // nodes that others need: stored
  uint32_t space = 0;             // a node of the full iteration space
  uint8_t first = 0, last = 0;    // row, columns: the reduced run of axes [first, last) of the space
};
struct Fusion {
  std::vector<Group> groups;              // in an order that respects every dependence
  std::vector<bool> constant;             // by node: a `full` that nothing writes: a number to the kernels that read it
  std::vector<bool> computed;             // by node: a source that only kernels read, each computing what it needs of it: never stored
  std::vector<std::string> why_not;       // "add, sum: …": pairs that were not fused, and why
};

constexpr size_t max_group_nodes = 96, max_group_operands = 28, max_group_pointers = 96;

// needed: nodes to compute; roots: nodes whose values must be real afterwards; order: all nodes, each after its operands;
// checks: nodes, and others that come after them, in another kernel; home: see Graph.
using Checks = std::vector<std::pair<uint32_t, uint32_t>>;
Fusion fuse(const Trace& t, const std::vector<bool>& needed, const std::vector<bool>& roots, const std::vector<uint32_t>& order, const Checks& checks, const std::vector<uint32_t>& home);

// By node: written in place, and nobody can tell: the memory was made in this trace and no view of it was taken. Such a
// write makes a new value instead.
std::vector<bool> pure_writes(const Trace& t);

// By node: the memory that its value lies in, numbered in order of first use. Views and writes in place share their operand's
// (a pure write has its own where `pure` is given); leaves share whose storage is one, or (by bytes) foreign and overlapping.
constexpr uint32_t no_memory = ~0u;
std::vector<uint32_t> memory_classes(const Trace& t, const std::vector<bool>* pure = nullptr, bool by_bytes = true);
// Of leaves alone; no_memory elsewhere.
std::vector<uint32_t> leaf_memory(const Trace& t, bool by_bytes = true);
// Of these leaves, in their order.
std::vector<uint32_t> memory_of(const Trace& t, const std::vector<uint32_t>& leaves, bool by_bytes = true);

// The node whose value a chain of views shows.
uint32_t view_base(const Trace& t, uint32_t n);
// A product, or a convolution, whose rows are the channels of images: a kernel may go over them as they are finished.
bool tells_rows(const Trace& t, uint32_t n);
// Is it written by one op that reads nothing, whose elements are a function of their index?
bool is_indexed_source(const Trace& t, uint32_t n);
// Where the elements of a source, or of a view of one, lie in the source as it would be stored (contiguous): nothing where a
// reshape would have to copy it. `out` has no storage.
bool source_layout(const Trace& t, uint32_t n, tracer::Layout& out);
// Does a reshape only add or drop axes of extent 1?
bool only_unit_axes(const Trace& t, uint32_t n);
// Inside a group, a view that only repeats or drops unit axes is its operand; returns the node that it stands for.
bool passes_through(const Trace& t, uint32_t n);

}  // namespace frit::jit
