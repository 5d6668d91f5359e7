// The groups of a recorded trace's plan: see fused_groups.h.
#include "tests/support/fused_groups.h"
#include "jit/plan.h"
#include "runtime/error.h"
#include "tracer/numbers.h"
#include "tracer/trace.h"

namespace frit::test {

using namespace tracer;

std::vector<FusedGroup> fused_groups(const std::function<std::vector<Tensor>()>& body) {
  synchronize();
  jit::ModeGuard automatic(jit::Mode::automatic);
  const std::vector<Tensor> kept = body();
  const Trace& t = *recorder().open;
  std::vector<bool> roots(t.nodes.size()), needed(t.nodes.size());
  for (const Tensor& k : kept)
    for (uint32_t n = 0; n < t.nodes.size(); ++n)
      if (t.owner[n] == k.cell()) roots[n] = needed[n] = true;
  for (uint32_t n = uint32_t(t.nodes.size()); n-- > 0;)
    for (int k = 0; needed[n] && k < t.input_count(n); ++k)
      if (t.input(n, k) != scalar_operand) needed[t.input(n, k)] = true;
  const std::shared_ptr<jit::Plan> plan = jit::build_plan(t, needed, roots);
  std::vector<FusedGroup> groups;
  for (const jit::PlanGroup& g : plan->groups) {
    FusedGroup f{g.group.code, {}};
    for (const jit::GroupPlan::NumberSource& n : g.group.numbers) {
      if (n.node >= t.nodes.size()) throw InternalError("a number of an op that a pass made");
      const uint64_t w = number_word(t.args[t.nodes[n.node].call.arg + n.slot], Category(n.category), n.type);
      const size_t bits = 8 * size_of(compute_dtype(n.type));
      f.numbers.push_back(bits == 64 ? w : w & ((uint64_t(1) << bits) - 1));
    }
    groups.push_back(std::move(f));
  }
  synchronize();
  return groups;
}

kernels::Program program_of(const FusedGroup& g, const std::vector<bool>& broadcast) {
  jit::GroupLayout l;
  const size_t pointers = g.code.outputs.size() + g.code.operands.size();
  l.outer = g.code.kind == jit::GroupKind::elements ? 0 : 1;
  l.inner.assign(pointers, jit::Step::one);
  if (g.code.kind == jit::GroupKind::columns) l.outer = 0, l.reduced.assign(pointers, jit::Step::strided);
  for (size_t k = 0; k < broadcast.size(); ++k)
    if (broadcast[k]) l.inner[g.code.outputs.size() + k] = jit::Step::none;
  std::vector<bool> varies;
  for (const jit::Item& item : g.code.items) {
    bool v = false;
    for (const jit::Reference& r : item.refs)
      v = v || (r.kind == jit::Reference::Kind::item && varies[r.index]) || (r.kind == jit::Reference::Kind::operand && !(r.index < broadcast.size() && broadcast[r.index]));
    varies.push_back(v && !item.reduces);
  }
  for (size_t o = 0; o < g.code.outputs.size(); ++o)
    if (!varies[g.code.outputs[o].item]) (g.code.kind == jit::GroupKind::columns ? l.reduced : l.inner)[o] = jit::Step::none;
  return jit::lower_group(g.code, l);
}

}  // namespace frit::test
