// Reductions whose result varies along the vector axis: sums over rows, one result a column. A block of columns runs over
// all rows before the next block, with its accumulators in memory (the first-level cache): per column one for each of the
// 8 lanes of a chunk, so that the order is that of reduce.cpp. Results stay in memory while the block lasts.
// Start with emit_column_reduce.
#include <algorithm>

#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

namespace {
using asmjit::Imm;
using asmjit::x86::ptr;

constexpr int chunk = 1024;
constexpr int lane_count = 8;
constexpr int stack_levels = 54;
constexpr int shared_rows = 4;        // rows of one accumulator that are added at a time
constexpr int shared_rows_cost = 12;  // for values that are not costlier than this
}  // namespace

// Addresses are those of column 0, so that they are indexed by the column itself. Rows of memory are columns_in_block long.
struct Emitter::Columns {
  Level* block = nullptr;
  std::vector<Gp> accumulators;  // per reduce: one row, or one per lane of a chunk
  std::vector<Gp> indices;       // argmax, argmin
  std::vector<Gp> stacks;        // chunk results
  std::vector<Gp> results;       // one row
  Gp count, top;                 // chunks so far; first free row of the stacks, in columns
};

bool Emitter::wants_columns(const std::vector<Id>& needed, int axis) const {
  for (Id v : needed)
    if (a_.is_reduce(v) && a_.varies(v, axis)) return true;
  return false;
}

void Emitter::emit_column_reduce(Id v, Level* strip) {
  const Instr& r = instr(v);
  Level* block = strip;
  while (block->kind != LevelKind::columns || block->axis != strip->axis) block = block->parent;
  // The outermost level inside the block that knows the other axes.
  Level* home = strip->parent;
  const AxisMask outer = AxisMask(a_.depends[v] & ~axis_bit(strip->axis));
  while (home != block && !(outer & ~home->parent->bound)) home = home->parent;
  if (home->slots[v] < 0) {
    At at(*this, home);
    fill_columns(v, home, block);
  }
  const Gp base = reps_[size_t(home->slots[v])].g;
  Ymm out[2];
  const int shift = is_wide(r.dtype) ? 3 : 2;
  for (int h = 0; h < (is_wide(r.dtype) ? 2 : 1); ++h)
    out[h] = emit1(Inst::kIdVmovups, ptr(base, strip->index, uint32_t(shift), int32_t((strip->displacement << shift) + 32 * h), 32));
  if (is_argument(r)) {
    for (Ymm& i : out) {
      const Ymm none = emit2(Inst::kIdVpcmpeqq, i, constant64(~uint64_t(0) >> 1));
      cc_.vpandn(i, none, i);
    }
  } else {
    wrap(out[0], r.dtype);
  }
  Rep& rep = new_rep(v, strip);
  rep.v[0] = out[0], rep.v[1] = out[1];
}

void Emitter::fill_columns(Id v, Level* l, Level* block) {
  const bool tree = has_tree(instr(v)), pairwise = tree && instr(v).order == Order::pairwise;
  const bool beside = stores_beside_ && !pairwise && stores_beside_->axes == (axis_bit(int(instr(v).imm)) | axis_bit(block->axis));
  Group g = make_group(v, l, block->axis, beside ? std::exchange(stores_beside_, nullptr) : nullptr);
  const size_t outer = in_progress_.size();
  in_progress_.insert(in_progress_.end(), g.ids.begin(), g.ids.end());
  const Gp extent = gp(p_.axes[size_t(g.axis)].extent, l), k = cc_.newGpq();
  suspend(*l);
  Level inside = open_reduction(l, g.axis);
  Columns c;
  c.block = block;
  // Results last as long as the block; the rest is shared by fills that follow one another.
  if (arenas_.size() <= fill_depth_) arenas_.push_back({cc_.newStack(32, 32), 32});
  Arena& arena = arenas_[fill_depth_++];
  uint32_t used = 0;
  const auto place = [&](Mem memory, int shift) {
    const Gp base = cc_.newGpq(), skipped = cc_.newGpq();
    cc_.lea(base, memory);
    cc_.mov(skipped, block->index);
    cc_.shl(skipped, shift);
    cc_.sub(base, skipped);
    return base;
  };
  const auto keep = [&](int shift) {
    kept_bytes_ += uint32_t(columns_in_block) << shift;
    return place(cc_.newStack(uint32_t(columns_in_block) << shift, 32), shift);
  };
  const auto borrow = [&](int rows, int shift) {
    const Gp base = place(arena.memory.cloneAdjusted(used), shift);
    used += uint32_t(rows * columns_in_block) << shift;
    return base;
  };
  for (Id id : g.ids) {
    const int shift = is_wide(value_dtype(instr(id))) ? 3 : 2;
    c.results.push_back(is_argument(instr(id)) ? keep(3) : keep(shift));
    c.accumulators.push_back(pairwise ? Gp() : tree ? borrow(lane_count, shift) : is_argument(instr(id)) ? borrow(1, shift) : c.results.back());
    c.indices.push_back(is_argument(instr(id)) ? c.results.back() : Gp());
    c.stacks.push_back(tree ? borrow(stack_levels, shift) : Gp());
  }
  if (used > arena.bytes) {
    arena.bytes = used;
    cc_.setStackSize(arena.memory.baseId(), used, 32);
  }
  c.count = cc_.newGpq(), c.top = cc_.newGpq();
  cc_.xor_(c.count, c.count);
  cc_.xor_(c.top, c.top);
  cc_.xor_(k, k);
  if (!tree || pairwise) {
    if (!pairwise) fill_identity(g, c, 1);
    if (pairwise) loop(inside, g.axis, k, extent, [&](Level& row) { push_row(g, c, row); });
    else column_rows(g, c, inside, k, extent);
    if (pairwise) {
      const Label some = cc_.newLabel(), filled = cc_.newLabel();
      cc_.test(c.count, c.count);
      cc_.jnz(some);
      c.accumulators = c.results;  // no rows: the identity
      fill_identity(g, c, 1);
      cc_.jmp(filled);
      cc_.bind(some);
      fold_columns(g, c);
      cc_.bind(filled);
    }
  } else {
    const Label again = cc_.newLabel();
    const Gp stop = cc_.newGpq();
    cc_.bind(again);
    cc_.lea(stop, ptr(k, chunk));
    cc_.cmp(stop, extent);
    cc_.cmovg(stop, extent);
    fill_identity(g, c, lane_count);
    column_rows(g, c, inside, k, stop);
    finish_chunk(g, c);
    cc_.mov(k, stop);
    cc_.cmp(k, extent);
    cc_.jl(again);
    fold_columns(g, c);
  }
  resume(*l);
  for (size_t n = 0; n < g.ids.size(); ++n)
    new_rep(g.ids[n], l).g = c.results[n];
  --fill_depth_;
  in_progress_.resize(outer);
}

// The first rows of the accumulators, all columns of the block.
void Emitter::fill_identity(const Group& g, Columns& c, int rows) {
  const Label top = cc_.newLabel(), done = cc_.newLabel();
  const Gp j = cc_.newGpq();
  cc_.mov(j, c.block->index);
  cc_.cmp(j, c.block->end);
  cc_.jge(done);
  cc_.bind(top);
  const Accumulators none = start(g);
  for (size_t n = 0; n < g.ids.size(); ++n) {
    const int shift = is_wide(value_dtype(instr(g.ids[n]))) ? 3 : 2;
    for (int row = 0; row < rows; ++row)
      for (int h = 0; h < (shift == 3 ? 2 : 1); ++h)
        cc_.vmovups(ptr(c.accumulators[n], j, uint32_t(shift), (row * columns_in_block << shift) + 32 * h, 32), none[n].v[h]);
    if (c.indices[n].isValid())
      for (int h = 0; h < 2; ++h) cc_.vmovups(ptr(c.indices[n], j, 3, 32 * h, 32), none[n].index[h]);
  }
  cc_.add(j, 8);
  cc_.cmp(j, c.block->end);
  cc_.jl(top);
  cc_.bind(done);
}

// Rows [k, end) go to their accumulators: four at a time that share them, so that an accumulator is loaded and stored once.
void Emitter::column_rows(const Group& g, Columns& c, Level& inside, const Gp& k, const Gp& end) {
  const Gp from = cc_.newGpq();
  cc_.mov(from, k);
  if (g.plan.cost <= shared_rows_cost) {
    const int step = has_tree(instr(g.ids[0])) ? lane_count : 1;  // between rows of the same accumulator
    const Label top = cc_.newLabel(), next = cc_.newLabel(), lane_top = cc_.newLabel();
    const Gp limit = cc_.newGpq(), stop = cc_.newGpq();
    suspend(inside);
    cc_.lea(limit, ptr(end, -shared_rows * step));
    cc_.cmp(from, limit);
    cc_.jg(next);
    cc_.bind(top);
    cc_.lea(stop, ptr(from, step));
    cc_.bind(lane_top);
    {
      std::vector<Level> rows;
      std::vector<Level*> parents;
      for (int q = 0; q < shared_rows; ++q) {
        const Gp index = cc_.newGpq();
        cc_.lea(index, ptr(from, q * step));
        rows.push_back(open(LevelKind::loop, &inside, g.axis, index));
      }
      for (Level& row : rows) parents.push_back(&row);
      column_row(g, c, parents);
    }
    cc_.inc(from);
    cc_.cmp(from, stop);
    cc_.jl(lane_top);
    cc_.add(from, (shared_rows - 1) * step);
    cc_.cmp(from, limit);
    cc_.jle(top);
    cc_.bind(next);
    resume(inside);
  }
  loop(inside, g.axis, from, end, [&](Level& row) { column_row(g, c, {&row}); });
}

// Every strip of some rows with the same accumulators goes to them, one row after the other.
void Emitter::column_row(const Group& g, Columns& c, const std::vector<Level*>& rows) {
  std::vector<Gp> bases = c.accumulators;
  for (size_t n = 0; n < g.ids.size(); ++n) {
    const Instr& r = instr(g.ids[n]);
    if (!has_tree(r)) continue;
    bases[n] = cc_.newGpq();
    cc_.mov(bases[n], rows[0]->index);
    cc_.and_(bases[n], lane_count - 1);
    cc_.imul(bases[n], bases[n], columns_in_block << (is_wide(value_dtype(r)) ? 3 : 2));
    cc_.add(bases[n], c.accumulators[n]);
  }
  const Gp i = cc_.newGpq();
  cc_.mov(i, c.block->index);
  const int unroll = rows.size() > 1 ? std::min(g.plan.unroll, 2) : g.plan.unroll;
  strips_of(rows, c.block->axis, i, c.block->end, unroll, g.plan, [&](std::vector<Level>& strips, int) {
    const Level& first = strips[0];
    for (size_t n = 0; n < g.ids.size(); ++n) {
      const Instr& r = instr(g.ids[n]);
      const bool wide = is_wide(value_dtype(r));
      Accumulator acc;
      const auto at = [&](const Gp& base, int shift, int h) {
        return ptr(base, first.index, uint32_t(shift), int32_t((first.displacement << shift) + 32 * h), 32);
      };
      for (int h = 0; h < (wide ? 2 : 1); ++h) acc.v[h] = emit1(Inst::kIdVmovups, at(bases[n], wide ? 3 : 2, h));
      if (is_argument(r))
        for (int h = 0; h < 2; ++h) acc.index[h] = emit1(Inst::kIdVmovups, at(c.indices[n], 3, h));
      for (Level& strip : strips) accumulate(g.ids[n], acc, &strip);
      for (int h = 0; h < (wide ? 2 : 1); ++h) cc_.vmovups(at(bases[n], wide ? 3 : 2, h), acc.v[h]);
      if (is_argument(r))
        for (int h = 0; h < 2; ++h) cc_.vmovups(at(c.indices[n], 3, h), acc.index[h]);
    }
    if (g.stores)
      for (Level& strip : strips) emit_stores(*g.stores, g.plan.needed, &strip);
  });
}

// What is stored for every row as well, when columns are reduced: its values are mostly the ones that are added up, and all of them are gone
// through once. Null where such stores need a result of a reduction.
const SinkGroup* Emitter::stores_beside(const SinkGroup& narrow) const {
  for (const SinkGroup& wide : a_.sinks) {
    if (wide.segment != narrow.segment || (wide.axes & narrow.axes) != narrow.axes || std::popcount(wide.axes) != std::popcount(narrow.axes) + 1) continue;
    if (!narrow.axes || std::countl_zero(wide.axes) != std::countl_zero(narrow.axes)) continue;
    const std::vector<Id> needed = a_.needed(wide.stores);
    if (std::none_of(needed.begin(), needed.end(), [&](Id v) { return a_.is_reduce(v); })) return &wide;
  }
  return nullptr;
}

// Pairwise: every row is a chunk of its own.
void Emitter::push_row(const Group& g, Columns& c, Level& row) {
  const Gp i = cc_.newGpq();
  cc_.mov(i, c.block->index);
  strips(row, c.block->axis, i, c.block->end, 1, g.plan, [&](Level& strip, int) {
    for (size_t n = 0; n < g.ids.size(); ++n) {
      Accumulator acc;
      for (int h = 0; h < (is_wide(value_dtype(instr(g.ids[n]))) ? 2 : 1); ++h) acc.v[h] = participating(g.ids[n], &strip, h);
      push_columns(instr(g.ids[n]), acc, c.stacks[n], strip.index, strip.displacement, c);
    }
  });
  advance_columns(c);
}

// Puts one strip of results on the stacks: merged as often as the count has trailing ones.
void Emitter::push_columns(const Instr& r, const Accumulator& acc, const Gp& base, const Gp& column, int64_t displacement, Columns& c) {
  const bool wide = is_wide(value_dtype(r));
  const int shift = wide ? 3 : 2;
  const Label top = cc_.newLabel(), done = cc_.newLabel();
  const Gp bits = cc_.newGpq(), at = cc_.newGpq();
  const auto slot_at = [&](int h) { return ptr(base, at, uint32_t(shift), int32_t((displacement << shift) + 32 * h), 32); };
  cc_.mov(bits, c.count);
  cc_.lea(at, ptr(c.top, column));
  cc_.bind(top);
  cc_.test(bits.r8(), 1);
  cc_.jz(done);
  cc_.sub(at, columns_in_block);
  for (int h = 0; h < (wide ? 2 : 1); ++h) {
    const Ymm earlier = emit1(Inst::kIdVmovups, slot_at(h));
    combine_into(r, acc.v[h], earlier, acc.v[h]);
  }
  cc_.shr(bits, 1);
  cc_.jmp(top);
  cc_.bind(done);
  for (int h = 0; h < (wide ? 2 : 1); ++h) cc_.vmovups(slot_at(h), acc.v[h]);
}

// After a push of every strip: top falls by a row for each merge and rises by one.
void Emitter::advance_columns(Columns& c) {
  const Gp merges = cc_.newGpq();
  cc_.mov(merges, c.count);
  cc_.not_(merges);
  cc_.tzcnt(merges, merges);
  cc_.imul(merges, merges, columns_in_block);
  cc_.sub(c.top, merges);
  cc_.add(c.top, columns_in_block);
  cc_.inc(c.count);
}

// Combines the 8 lanes of every column and puts the results on the stacks.
void Emitter::finish_chunk(const Group& g, Columns& c) {
  const Label top = cc_.newLabel(), done = cc_.newLabel();
  const Gp j = cc_.newGpq();
  cc_.mov(j, c.block->index);
  cc_.cmp(j, c.block->end);
  cc_.jge(done);
  cc_.bind(top);
  for (size_t n = 0; n < g.ids.size(); ++n) {
    const Instr& r = instr(g.ids[n]);
    const bool wide = is_wide(value_dtype(r));
    const int shift = wide ? 3 : 2;
    Accumulator acc;
    for (int h = 0; h < (wide ? 2 : 1); ++h) {
      const auto lane = [&](int k) { return ptr(c.accumulators[n], j, uint32_t(shift), (k * columns_in_block << shift) + 32 * h, 32); };
      const auto pair = [&](int k) {  // lanes k and k + 4
        const Ymm d = emit1(Inst::kIdVmovups, lane(k));
        combine_into(r, d, d, lane(k + 4));
        return d;
      };
      const auto four = [&](int k) {
        const Ymm d = pair(k);
        combine_into(r, d, d, pair(k + 2));
        return d;
      };
      acc.v[h] = four(0);
      combine_into(r, acc.v[h], acc.v[h], four(1));
    }
    push_columns(r, acc, c.stacks[n], j, 0, c);
  }
  cc_.add(j, 8);
  cc_.cmp(j, c.block->end);
  cc_.jl(top);
  cc_.bind(done);
  advance_columns(c);
}

// The rows of the stacks combine from the last to the first, into the results.
void Emitter::fold_columns(const Group& g, Columns& c) {
  const Label top = cc_.newLabel(), done = cc_.newLabel();
  const Gp j = cc_.newGpq(), at = cc_.newGpq();
  cc_.mov(j, c.block->index);
  cc_.cmp(j, c.block->end);
  cc_.jge(done);
  cc_.bind(top);
  for (size_t n = 0; n < g.ids.size(); ++n) {
    const Instr& r = instr(g.ids[n]);
    const bool wide = is_wide(value_dtype(r));
    const Label next = cc_.newLabel(), folded = cc_.newLabel();
    const auto slot_at = [&](const Gp& base, const Gp& column, int h) { return ptr(base, column, wide ? 3 : 2, 32 * h, 32); };
    Ymm v[2];
    cc_.lea(at, ptr(j, c.top, 0, -columns_in_block));
    for (int h = 0; h < (wide ? 2 : 1); ++h) v[h] = emit1(Inst::kIdVmovups, slot_at(c.stacks[n], at, h));
    cc_.bind(next);
    cc_.cmp(at, j);
    cc_.je(folded);
    cc_.sub(at, columns_in_block);
    for (int h = 0; h < (wide ? 2 : 1); ++h) {
      const Ymm earlier = emit1(Inst::kIdVmovups, slot_at(c.stacks[n], at, h));
      combine_into(r, v[h], earlier, v[h]);
    }
    cc_.jmp(next);
    cc_.bind(folded);
    for (int h = 0; h < (wide ? 2 : 1); ++h) cc_.vmovups(slot_at(c.results[n], j, h), v[h]);
  }
  cc_.add(j, 8);
  cc_.cmp(j, c.block->end);
  cc_.jl(top);
  cc_.bind(done);
}

}  // namespace frit::jit::x86_code
