// What axes are called: labels (a name and the line that gave it) as numbers, and tensors that carry them. Start at with_names.
#include "tracer/axis_labels.h"
#include <map>
#include <mutex>
#include "runtime/error.h"
#include "tracer/follow.h"

namespace frit::tracer {

namespace {
NameText names_to_text = nullptr;
}
void set_name_text(NameText f) { names_to_text = f; }
const std::string& name_text(uint16_t name) { return names_to_text(name); }

namespace {
// Labels are read without a lock: an entry is written once, before its number is known to anybody.
struct Label {
  uint16_t name;
  const CallSite* site;
};
constexpr size_t most_labels = 1 << 16, most_with_sites = 1 << 15;
Label labels[most_labels];
struct LabelNumbers {
  std::mutex lock;
  std::map<std::pair<uint16_t, const CallSite*>, uint16_t> known;
};
}  // namespace
uint16_t axis_label(uint16_t name, const CallSite* site) {
  static LabelNumbers* numbers = new LabelNumbers;  // never destroyed
  if (!name) return 0;
  const std::lock_guard hold(numbers->lock);
  if (const auto at = numbers->known.find({name, site}); at != numbers->known.end()) return at->second;
  const size_t next = numbers->known.size() + 1;
  if (next >= most_with_sites) site = nullptr;  // names may stand in very many lines: the later ones are not told
  if (const auto at = numbers->known.find({name, site}); at != numbers->known.end()) return at->second;
  if (next >= most_labels) throw ValueError("axis names: too many different names are in use. Use fewer.");
  labels[next] = {name, site};
  return numbers->known[{name, site}] = uint16_t(next);
}
uint16_t label_name(uint16_t label) { return labels[label].name; }
const CallSite* label_site(uint16_t label) { return labels[label].site; }

std::vector<uint16_t> axis_names(Cell* c) {
  const Reading reading(c);
  std::vector<uint16_t> names(size_t(rank_of(c)));
  for (size_t i = 0; i < names.size(); ++i) names[i] = label_name(c->value ? c->value->name[i] : c->trace->label_of(c->trace->nodes[c->node].result.size[i]));
  return names;
}
void name_axes(Trace& t, uint32_t n, const std::vector<uint16_t>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    const SizeId s = t.nodes[n].result.size[i];
    if (s >= 2) t.name[s] = axis_label(names[i], t.nodes[n].result.site), t.has_names |= names[i] != 0;
  }
}
Var with_names(const Var& a, const std::vector<uint16_t>& names) {
  // A view with ids of its own, so that only what follows from it carries the names.
  settle_operand(a.cell());
  const Turn turn;
  Recorder& r = turn.r;
  const Sizes e = sizes_of(a);
  Call call{.op = Op::expand, .kind = 1, .attr = e.size()};
  call.in[0] = r.node_of(a.cell());
  call.arg = r.bind(e.data(), e.size());
  const uint32_t n = r.append(call);
  name_axes(*r.open, n, names);
  if (r.follow && r.follow->following()) r.follow->settle(*r.open, n);
  return r.finish_view(n, a.cell());
}

}  // namespace frit::tracer
