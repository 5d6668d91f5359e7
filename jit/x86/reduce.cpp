// Reductions along the vector axis. The order of the elements is that of kernels/program.h: chunks of 1024, lane = index
// mod 8, lanes combined in one tree, chunks pairwise. Where order does not matter (integers, extremes, any, all) several
// independent accumulators run over the whole axis. Start with emit_reduce.
#include <algorithm>

#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
using asmjit::x86::ptr;

constexpr int chunk = 1024;
constexpr int stack_levels = 54;
}  // namespace

// ---- groups -----------------------------------------------------------------------------------------------------------

Emitter::Group Emitter::make_group(Id v, Level* l, int vector_axis, const SinkGroup* stores) {
  Group g;
  g.axis = int(instr(v).imm);
  g.stores = stores;
  for (Id c : a_.companions(v)) {
    const bool busy = std::find(in_progress_.begin(), in_progress_.end(), c) != in_progress_.end();
    if (c == v || (!busy && l->slots[c] < 0 && a_.depends[c] == a_.depends[v])) g.ids.push_back(c);
  }
  std::vector<Id> roots;
  for (Id id : g.ids) {
    const Instr& r = instr(id);
    if (r.fused && r.order == Order::lanes) roots.insert(roots.end(), {instr(r.in[0]).in[0], instr(r.in[0]).in[1]});
    else roots.push_back(r.in[0]);
    if (r.in[1] != no_value) roots.push_back(r.in[1]);
    g.registers += (is_wide(value_dtype(r)) ? 2 : 1) + (is_argument(r) ? 2 : 0);
  }
  for (const Stash& s : stashes_)
    if (std::find(g.ids.begin(), g.ids.end(), s.filler) != g.ids.end()) roots.push_back(s.value);
  if (stores) roots.insert(roots.end(), stores->stores.begin(), stores->stores.end());
  in_progress_.insert(in_progress_.end(), g.ids.begin(), g.ids.end());
  const Stashes stashes = vector_axis == g.axis ? stashes_for(roots, g.axis, l) : Stashes();
  in_progress_.resize(in_progress_.size() - g.ids.size());
  g.plan = plan_of(roots, vector_axis, stashes);
  g.plan.zmm &= vector_axis == g.axis;  // columns keep eight lanes apart in memory
  for (Id id : g.ids) {
    const Instr& r = instr(id);
    g.plan.zmm &= !is_wide(value_dtype(r)) && r.in[1] == no_value && !is_argument(r) && !(has_tree(r) && r.order == Order::pairwise);
  }
  return g;
}

template <class Body>
void Emitter::group_strips(const Group& g, Level& parent, const Gp& begin, const Gp& end, int unroll, Body body) {
  const Gp i = cc_.newGpq();
  if (!wants_columns(g.plan.needed, g.axis)) {
    cc_.mov(i, begin);
    return strips(parent, g.axis, i, end, unroll, g.plan, body);
  }
  blocks_of_columns(parent, g.axis, begin, end, [&](Level& block) {
    cc_.mov(i, block.index);
    strips(block, g.axis, i, block.end, unroll, g.plan, body);
  });
}

void Emitter::emit_reduce(Id v, Level* l) {
  if (l->kind == LevelKind::strip) return emit_column_reduce(v, l);
  Group g = make_group(v, l, int(instr(v).imm));
  const size_t outer = in_progress_.size();
  in_progress_.insert(in_progress_.end(), g.ids.begin(), g.ids.end());
  const Instr& r = instr(v);
  if (!has_tree(r)) reduce_free(g, l);
  else if (r.order == Order::pairwise) reduce_pairwise(g, l);
  else reduce_tree(g, l);
  in_progress_.resize(outer);
}

void Emitter::accumulate_free(const Group& g, Accumulators& accs, Level& strip, int u) {
  for (size_t n = 0; n < g.ids.size(); ++n) {
    if (is_quick_extreme(instr(g.ids[n]))) accumulate_extreme(g.ids[n], n, accs[n], &strip, u);
    else accumulate(g.ids[n], accs[n], &strip);
  }
  fill_stashes(g, strip);
}

// As many streams as there are accumulators, a chunk apart, while the axis has so many chunks.
void Emitter::free_interleaved(Group& g, Level& inside, const Gp& k, const Gp& extent, std::vector<Accumulators>& accs) {
  const int ways = int(accs.size());
  const Label top = cc_.newLabel(), next = cc_.newLabel(), row = cc_.newLabel();
  const Gp limit = cc_.newGpq(), i = cc_.newGpq(), stop = cc_.newGpq();
  suspend(inside);
  cc_.lea(limit, ptr(extent, -ways * chunk));
  cc_.cmp(k, limit);
  cc_.jg(next);
  cc_.bind(top);
  cc_.mov(i, k);
  cc_.lea(stop, ptr(k, chunk));
  cc_.align(asmjit::AlignMode::kCode, 32);
  cc_.bind(row);
  for (int q = 0; q < ways; ++q) {
    Level strip = open_strip(&inside, g.axis, i, q * chunk, g.plan);
    strip.width = ways;
    accumulate_free(g, accs[size_t(q)], strip, q);
  }
  cc_.add(i, 8);
  cc_.cmp(i, stop);
  cc_.jl(row);
  cc_.add(k, ways * chunk);
  cc_.cmp(k, limit);
  cc_.jle(top);
  cc_.bind(next);
  resume(inside);
}

// The order of the elements does not matter.
void Emitter::reduce_free(Group& g, Level* l) {
  const bool argument = is_argument(instr(g.ids[0]));
  int unroll = argument ? 1 : g.plan.unroll;
  while (unroll > 1 && unroll * g.registers > 8) unroll /= 2;
  const Gp extent = gp(p_.axes[size_t(g.axis)].extent, l), k = cc_.newGpq();
  std::vector<Accumulators> accs;
  for (int u = 0; u < unroll; ++u) accs.push_back(start(g));
  start_extremes(g, accs);
  std::vector<std::array<Ymm, 2>> outer(g.ids.size());  // a reduce that this one needs may be emitted inside of it
  std::swap(pending_, outer);
  suspend(*l);
  cc_.xor_(k, k);
  Level inside = open_reduction(l, g.axis);
  if (unroll == 4 && !fills_stash(g) && !wants_columns(g.plan.needed, g.axis)) free_interleaved(g, inside, k, extent, accs);
  group_strips(g, inside, k, extent, unroll, [&](Level& strip, int u) { accumulate_free(g, accs[size_t(u)], strip, u); });
  std::swap(pending_, outer);
  resume(*l);
  for (size_t n = 0; n < g.ids.size(); ++n) {
    const Instr& r = instr(g.ids[n]);
    Accumulator& acc = accs[0][n];
    if (argument) {
      combine_argument(r, acc);
    } else {
      if (is_quick_extreme(r)) finish_extreme(r, accs, n);
      for (int step = unroll / 2; step > 0 && !is_quick_extreme(r); step /= 2)
        for (int u = 0; u < step; ++u)
          for (int h = 0; h < (is_wide(value_dtype(r)) ? 2 : 1); ++h)
            combine_into(r, accs[size_t(u)][n].v[h], accs[size_t(u)][n].v[h], accs[size_t(u + step)][n].v[h]);
      combine_lanes(r, acc);
    }
    publish(g.ids[n], acc, l);
  }
}

// ---- chunks -----------------------------------------------------------------------------------------------------------

Emitter::Stack Emitter::open_stack(const Group& g) {
  Stack s;
  s.entry = int(32 * g.ids.size());
  const Mem memory = cc_.newStack(uint32_t(s.entry * stack_levels), 32);
  s.base = cc_.newGpq(), s.count = cc_.newGpq(), s.top = cc_.newGpq();
  cc_.lea(s.base, memory);
  cc_.xor_(s.count, s.count);
  cc_.xor_(s.top, s.top);
  return s;
}

// A binary counter: as many merges as the count has trailing ones.
void Emitter::push(const Group& g, Stack& s, Accumulators& values) {
  const Label top = cc_.newLabel(), done = cc_.newLabel();
  const Gp c = cc_.newGpq();
  cc_.mov(c, s.count);
  cc_.bind(top);
  cc_.test(c.r8(), 1);
  cc_.jz(done);
  cc_.sub(s.top, s.entry);
  for (size_t n = 0; n < g.ids.size(); ++n) {
    const Ymm earlier = emit1(Inst::kIdVmovups, ptr(s.base, s.top, 0, int32_t(32 * n), 32));
    combine_into(instr(g.ids[n]), values[n].v[0], earlier, values[n].v[0]);
  }
  cc_.shr(c, 1);
  cc_.jmp(top);
  cc_.bind(done);
  for (size_t n = 0; n < g.ids.size(); ++n) cc_.vmovups(ptr(s.base, s.top, 0, int32_t(32 * n), 32), values[n].v[0]);
  cc_.add(s.top, s.entry);
  cc_.inc(s.count);
}

// The counts of what is on the stack are descending powers of two: later ones first.
void Emitter::fold(const Group& g, Stack& s, Accumulators& values) {
  const Label top = cc_.newLabel(), done = cc_.newLabel();
  cc_.sub(s.top, s.entry);
  for (size_t n = 0; n < g.ids.size(); ++n) cc_.vmovups(values[n].v[0], ptr(s.base, s.top, 0, int32_t(32 * n), 32));
  cc_.bind(top);
  cc_.test(s.top, s.top);
  cc_.jz(done);
  cc_.sub(s.top, s.entry);
  for (size_t n = 0; n < g.ids.size(); ++n) {
    const Ymm earlier = emit1(Inst::kIdVmovups, ptr(s.base, s.top, 0, int32_t(32 * n), 32));
    combine_into(instr(g.ids[n]), values[n].v[0], earlier, values[n].v[0]);
  }
  cc_.jmp(top);
  cc_.bind(done);
}

// Four chunks at once while there are four, so that the latency of an addition does not bind.
void Emitter::tree_interleaved(Group& g, Level& inside, const Gp& k, const Gp& extent, Stack& stack, Accumulators& values) {
  constexpr int ways = 4;
  const Label top = cc_.newLabel(), next = cc_.newLabel(), row = cc_.newLabel();
  const Gp limit = cc_.newGpq(), i = cc_.newGpq(), stop = cc_.newGpq();
  suspend(inside);
  cc_.lea(limit, ptr(extent, -ways * chunk));
  cc_.cmp(k, limit);
  cc_.jg(next);
  cc_.bind(top);
  std::vector<Accumulators> accs;
  for (int q = 0; q < ways; ++q) accs.push_back(start(g));
  cc_.mov(i, k);
  cc_.lea(stop, ptr(k, chunk));
  cc_.align(asmjit::AlignMode::kCode, 32);
  cc_.bind(row);
  for (int q = 0; q < ways; ++q) {
    Level strip = open_strip(&inside, g.axis, i, q * chunk, g.plan);
    for (size_t n = 0; n < g.ids.size(); ++n) accumulate(g.ids[n], accs[size_t(q)][n], &strip);
  }
  cc_.add(i, 8);
  cc_.cmp(i, stop);
  cc_.jl(row);
  for (int q = 0; q < ways; ++q) {
    for (size_t n = 0; n < g.ids.size(); ++n) {
      combine_lanes(instr(g.ids[n]), accs[size_t(q)][n]);
      cc_.vmovaps(values[n].v[0], accs[size_t(q)][n].v[0]);
    }
    push(g, stack, values);
  }
  cc_.add(k, ways * chunk);
  cc_.cmp(k, limit);
  cc_.jle(top);
  cc_.bind(next);
  resume(inside);
}

void Emitter::reduce_tree(Group& g, Level* l) {
  const Gp extent = gp(p_.axes[size_t(g.axis)].extent, l), k = cc_.newGpq(), stop = cc_.newGpq();
  const Label again = cc_.newLabel(), keep = cc_.newLabel(), last = cc_.newLabel(), done = cc_.newLabel();
  suspend(*l);
  Level inside = open_reduction(l, g.axis);
  Stack stack = open_stack(g);
  Accumulators values(g.ids.size());
  for (Accumulator& v : values) v.v[0] = cc_.newYmm();
  cc_.xor_(k, k);
  if (g.plan.cost <= 8 && g.registers <= 2 && !fills_stash(g) && !wants_columns(g.plan.needed, g.axis)) {
    tree_interleaved(g, inside, k, extent, stack, values);
    const Label rest = cc_.newLabel();
    cc_.test(stack.count, stack.count);
    cc_.jz(rest);
    cc_.cmp(k, extent);
    cc_.jge(last);
    cc_.bind(rest);
  }
  cc_.bind(again);
  cc_.lea(stop, ptr(k, chunk));
  cc_.cmp(stop, extent);
  cc_.cmovg(stop, extent);
  Accumulators accs = start(g);
  group_strips(g, inside, k, stop, std::min(g.plan.unroll, 2), [&](Level& strip, int) {
    for (size_t n = 0; n < g.ids.size(); ++n) accumulate(g.ids[n], accs[n], &strip);
    fill_stashes(g, strip);
  });
  for (size_t n = 0; n < g.ids.size(); ++n) {
    combine_lanes(instr(g.ids[n]), accs[n]);
    cc_.vmovaps(values[n].v[0], accs[n].v[0]);
  }
  cc_.cmp(stop, extent);  // the only chunk: that is it
  cc_.jne(keep);
  cc_.test(stack.count, stack.count);
  cc_.jz(done);
  cc_.bind(keep);
  push(g, stack, values);
  cc_.mov(k, stop);
  cc_.cmp(k, extent);
  cc_.jl(again);
  cc_.bind(last);
  fold(g, stack, values);
  cc_.bind(done);
  resume(*l);
  for (size_t n = 0; n < g.ids.size(); ++n) publish(g.ids[n], values[n], l);
}

// ---- pairwise ---------------------------------------------------------------------------------------------------------

Ymm Emitter::participating(Id id, Level* strip, int half) {
  const Instr& r = instr(id);
  const Ymm v = lanes(r.in[0], strip, half);
  if (r.in[1] == no_value) return move(v);
  const Ymm none = load_constant(identity(r));
  if (is_wide(value_dtype(r))) return blend_wide(none, v, wide_mask(r.in[1], strip, half));
  return blend(none, v, lanes(r.in[1], strip));
}

// Strips of 8 combine by adjacent pairs and count as one; the elements of the last, partial strip follow one by one.
void Emitter::reduce_pairwise(Group& g, Level* l) {
  const Id id = g.ids[0];
  const Instr& r = instr(id);
  const bool wide = is_wide(value_dtype(r));
  const Gp extent = gp(p_.axes[size_t(g.axis)].extent, l), begin = cc_.newGpq();
  const Label done = cc_.newLabel();
  suspend(*l);
  Level inside = open_reduction(l, g.axis);
  Stack stack = open_stack(g);
  Accumulators values(1);
  values[0].v[0] = cc_.newYmm();
  cc_.xor_(begin, begin);
  group_strips(g, inside, begin, extent, 1, [&](Level& strip, int) {
    Accumulator acc;
    for (int h = 0; h < (wide ? 2 : 1); ++h) acc.v[h] = participating(id, &strip, h);
    if (!strip.tail.isValid()) {
      combine_adjacent(r, acc);
      cc_.vmovaps(values[0].v[0], acc.v[0]);
      return push(g, stack, values);
    }
    const Gp bits = cc_.newGpd();
    cc_.vmovmskps(bits, strip.tail);
    store_memory(slot(0), {value_dtype(r)}, acc.v);
    cc_.xor_(stack.count, stack.count);
    lane_loop(bits, [&](const Gp& lane) {
      Mem element = slot(0);
      element.setIndex(lane, wide ? 3 : 2);
      if (wide) cc_.vbroadcastsd(values[0].v[0], sized(element, 8));
      else cc_.vbroadcastss(values[0].v[0], sized(element, 4));
      push(g, stack, values);
    });
  });
  cc_.vmovaps(values[0].v[0], identity(r));
  cc_.test(stack.top, stack.top);
  cc_.jz(done);
  fold(g, stack, values);
  cc_.bind(done);
  resume(*l);
  publish(id, values[0], l);
}

}  // namespace frit::jit::x86_code
