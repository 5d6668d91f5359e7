// Walks from the trace that found no memory through the kept traces before it and adds up the storages they hold, each once, by the op
// that made them. Start at memory_report.
#include "tracer/memory_report.h"
#include <algorithm>
#include <map>
#include <set>
#include "runtime/buffer.h"
#include "runtime/source_line.h"

namespace frit::tracer {

namespace {
struct Holders {
  std::set<const Trace*> seen;
  std::set<const Storage*> counted;
  std::map<std::pair<std::string, const CallSite*>, int64_t> made;
  int64_t saved = 0, leaves = 0, inputs = 0;

  // The op that made node n's value: a leaf's is in the trace it came from.
  void add(const Trace& t, uint32_t n) {
    const Storage* s = t.value[n]->storage;
    if (!counted.insert(s).second) return;
    const Leaf* l = t.nodes[n].call.op == Op::leaf ? t.leaf(n) : nullptr;
    if (t.nodes[n].call.op == Op::leaf && !(l && l->trace)) {
      (l ? leaves : inputs) += int64_t(s->bytes);
      return;
    }
    const Node& maker = l ? l->trace->nodes[l->trace_node] : t.nodes[n];
    made[{op_name(maker.call.op), maker.result.site}] += int64_t(s->bytes);
    saved += int64_t(s->bytes);
  }
  void walk(const Trace& first) {
    std::vector<const Trace*> stack{&first};
    while (!stack.empty()) {
      const Trace& t = *stack.back();
      stack.pop_back();
      if (!seen.insert(&t).second) continue;
      for (uint32_t n = 0; n < t.nodes.size(); ++n)
        if (t.value[n]) add(t, n);
      for (const Leaf& l : t.leaves) {
        if (l.trace) stack.push_back(l.trace);
        else if (l.cell && l.cell->value && counted.insert(l.cell->value->storage).second) leaves += int64_t(l.cell->value->storage->bytes);
      }
    }
  }
};
}  // namespace

std::string memory_report(const Trace& t) {
  Holders h;
  h.walk(t);
  std::string text;
  if (h.saved) {
    std::vector<std::pair<int64_t, std::string>> largest;
    for (const auto& [who, bytes] : h.made) {
      const std::string line = source_line(who.second);
      largest.emplace_back(bytes, who.first + (line.empty() ? "" : " at " + line));
    }
    std::sort(largest.begin(), largest.end(), std::greater<>());
    text += " Results and what is saved for backward: " + readable_bytes(h.saved) + ", most by ";
    for (size_t i = 0; i < largest.size() && i < 3; ++i) text += (i ? ", " : "") + largest[i].second + " (" + readable_bytes(largest[i].first) + ")";
    text += ".";
  }
  if (h.leaves) text += " Leaves that require gradients: " + readable_bytes(h.leaves) + ".";
  if (h.inputs) text += " Other operands: " + readable_bytes(h.inputs) + ".";
  return text;
}

}  // namespace frit::tracer
