// Counting: see count.h. What only addresses need is found from the stores backwards: their values' operands, masks
// among them, count.
#include "kernels/count.h"

namespace frit::kernels {

Count count(const Program& p) {
  Count c;
  std::vector<bool> counts(p.instrs.size()), fixed(p.instrs.size());  // fixed: the same for all instances
  for (size_t n = 0; n < p.instrs.size(); ++n) {
    const Instr& i = p.instrs[n];
    fixed[n] = i.op == Op::integer || i.op == Op::number || i.op == Op::scalar;
    for (Id v : i.in) fixed[n] = fixed[n] && (v == no_value || fixed[v]);
  }
  const auto need = [&](Id v) { if (v != no_value) counts[v] = true; };
  for (size_t n = p.instrs.size(); n-- > 0;) {
    const Instr& i = p.instrs[n];
    if (i.op == Op::store) {
      ++c.stores;
      need(i.in[2]), need(i.in[3]);
    }
    if (i.op == Op::next) need(i.in[1]);
    if (!counts[n]) continue;
    if (i.op == Op::load) need(i.in[2]), need(i.in[3]), ++c.loads;
    else if (i.op != Op::store)
      for (Id v : i.in) need(v);
    if (i.op == Op::reduce || i.op == Op::dot) ++c.reductions;
    if (i.op == Op::scalar && !fixed[n]) ++(i.axes ? c.primitives : c.row_primitives);
  }
  return c;
}

}  // namespace frit::kernels
