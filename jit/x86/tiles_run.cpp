// Running a plan of tiles: each thread goes through its instances with slots and scratch memory of its own. Operands that have to be packed keep
// what was packed as long as nothing that it depends on changes; where an outer loop or the grid comes back to it, one for each index of their
// innermost loop is kept. Start at run_tiles; Runner::run is one turn.
#include <algorithm>
#include <bit>
#include <climits>
#include <numeric>
#include "jit/x86/tiles.h"
#include "jit/x86/tiles_parts.h"
#include "runtime/cpu.h"
#include "runtime/error.h"
#include "runtime/launch.h"

namespace frit::jit {
namespace tiles {
namespace {
constexpr int most_slots = 192, most_packs = 24, most_axes = 8;
constexpr int64_t most_kept_bytes = int64_t(16) << 20;  // of one operand, packed

int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

struct Pack {
  size_t bytes = 0, data = 0, stamps = 0;  // of one; where in the scratch memory
  int64_t count = 1;
  int loop = -1;                           // by whose index they are kept; -1: there is one
  uint16_t rest = 0;                       // the other axes on which it depends
};

// What all threads share: bounds of the extents, and where things lie in the scratch memory.
struct Layout {
  const Plan& plan;
  const Slot* args;
  int64_t bound[most_axes] = {}, grid[most_axes] = {};
  int grids = 0;
  int64_t instances = 1;
  size_t tile[most_slots / 2] = {}, ramp = 0, bytes = 0;
  int64_t longest = 0;                     // block axis
  int64_t pitch[most_slots / 2] = {};
  Pack pack[most_packs];

  Layout(const Plan& p, const Slot* a) : plan(p), args(a) {
    bounds();
    for (size_t t = 0; t < plan.tiles.size(); ++t) {
      const Tile& tile_of = plan.tiles[t];
      pitch[t] = tile_of.columns < 0 ? 1 : round_up(std::max<int64_t>(bound[tile_of.columns], 1), 16);
      tile[t] = take(size_t(pitch[t] * std::max<int64_t>(bound[tile_of.rows], 1)) * size_of(tile_of.type));
    }
    for (size_t a = 0; a < plan.program.axes.size(); ++a)
      if (plan.program.axes[a].kind == kernels::AxisKind::block) longest = std::max(longest, bound[a]);
    ramp = take(size_t(longest) * sizeof(int32_t));
    for (const Dot& d : plan.dots) plan_pack(d, d.a, false), plan_pack(d, d.b, true);
  }

 private:
  size_t take(size_t size) {
    const size_t at = bytes;
    bytes += size_t(round_up(int64_t(size) + 64, 64));
    return at;
  }
  // Extents at the first indices and at the last: no axis is longer anywhere else.
  void bounds() {
    const auto& axes = plan.program.axes;
    const size_t params = plan.program.params.size();
    Slot known[most_slots], extent[most_axes];
    std::copy_n(args, params, known);
    Slot* const index = known + params;
    std::fill_n(index, axes.size(), Slot(0));
    thread_local std::vector<uint64_t> words;
    for (bool changed = true; changed;) {
      scalar::evaluate(plan.extents, nullptr, known, extent, words);
      changed = false;
      for (size_t a = 0; a < axes.size(); ++a) {
        if (int64_t(extent[a]) <= bound[a]) continue;
        bound[a] = int64_t(extent[a]), changed = true;
        if (axes[a].kind != kernels::AxisKind::block) index[a] = Slot(bound[a] - 1);
      }
    }
    for (size_t a = 0; a < axes.size() && axes[a].kind == kernels::AxisKind::grid; ++a) grid[grids++] = bound[a], instances *= bound[a];
  }
  void plan_pack(const Dot& d, const Operand& o, bool right) {
    if (o.packed < 0 || (o.tile >= 0 && !(right && plan.tiles[size_t(o.tile)].rows == d.n))) return;
    Pack& p = pack[o.packed];
    const bool wide = d.type == Dtype::Float64;
    p.bytes = right ? packed_right_bytes(wide, bound[d.k], bound[d.n]) : size_t(bound[d.m] * round_up(bound[d.k], 16)) * size_of(d.type) + 64;
    p.bytes = size_t(round_up(int64_t(p.bytes), 64));
    if (o.tile < 0) {
      p.rest = o.matrix.depends;
      const unsigned loops = unsigned(o.matrix.depends) >> grids << grids;
      const int innermost = loops ? 31 - std::countl_zero(loops) : -1;
      bool again = false;
      for (int a = 0; a < innermost; ++a)
        again |= !(o.matrix.depends >> a & 1) && bound[a] > 1 && plan.program.axes[size_t(a)].kind != kernels::AxisKind::block;
      if (again && int64_t(p.bytes) * bound[innermost] <= most_kept_bytes) p.loop = innermost, p.count = bound[innermost], p.rest = uint16_t(p.rest & ~(1u << innermost));
    }
    p.data = take(p.bytes * size_t(p.count));
    p.stamps = take(size_t(p.count) * sizeof(Slot));
  }
};

class Runner {
 public:
  Runner(const Layout& layout, char* scratch) : l_(layout), plan_(layout.plan), scratch_(scratch) {
    std::copy_n(l_.args, plan_.program.params.size(), slot_);
    for (Dtype d : {Dtype::Int64, Dtype::Float32, Dtype::Float64}) slot_[plan_.self_slot(d)] = reinterpret_cast<Slot>(slot_);
    int32_t* const ramp = reinterpret_cast<int32_t*>(scratch + l_.ramp);
    std::iota(ramp, ramp + l_.longest, 0);
    slot_[plan_.ramp_slot()] = reinterpret_cast<Slot>(ramp);
    for (size_t t = 0; t < plan_.tiles.size(); ++t) {
      slot_[plan_.tiles[t].slot] = reinterpret_cast<Slot>(scratch + l_.tile[t]);
      slot_[plan_.tiles[t].slot + 1] = Slot(l_.pitch[t]);
    }
    for (const Pack& p : l_.pack)
      if (p.bytes) std::fill_n(reinterpret_cast<Slot*>(scratch + p.stamps), p.count, 0);
  }
  void instances(int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      int64_t rest = n;
      for (int a = l_.grids; a-- > 0; rest /= l_.grid[a]) slot_[plan_.index_slot(a)] = Slot(rest % l_.grid[a]);
      run(plan_.root);
    }
  }

 private:
  int64_t extent(int axis) const { return int64_t(slot_[plan_.extent_slot(axis)]); }
  void run(const Block& b) {
    if (const CpuKernel& k = plan_.kernels[size_t(b.uniforms)]; k.entry) k.run(slot_, 0, 1);
    for (int axis : b.bounded)
      if (extent(axis) > l_.bound[axis]) throw InternalError("block program " + plan_.program.name + ": an axis is longer than at its first and last indices");
    for (const Step& s : b.steps) {
      switch (s.kind) {
        case Step::Kind::kernel:
          if (extent(s.rows) > 0) plan_.kernels[size_t(s.index)].run(slot_, 0, s.row_by_row ? extent(s.rows) : 1);
          break;
        case Step::Kind::dot: dot(plan_.dots[size_t(s.index)]); break;
        case Step::Kind::loop: {
          const Loop& loop = plan_.loops[size_t(s.index)];
          const int64_t turns = extent(loop.axis);
          for (int64_t turn = 0; turn < turns; ++turn) {
            slot_[plan_.index_slot(loop.axis)] = Slot(turn);
            run(loop.body);
            for (const auto& [a, c] : loop.swapped) std::swap(slot_[a], slot_[c]);
          }
          break;
        }
      }
    }
  }
  const char* address(const Matrix& m) const {
    return reinterpret_cast<const char*>(slot_[m.pointer]) + int64_t(slot_[m.offset]) * int64_t(size_of(m.storage));
  }
  // Where the operand is to be packed, and whether it is there already.
  std::pair<char*, bool> packed(int number) {
    const Pack& p = l_.pack[number];
    const int64_t at = p.loop < 0 ? 0 : int64_t(slot_[plan_.index_slot(p.loop)]);
    Slot stamp = 0;
    for (int a = 0; a < int(plan_.program.axes.size()); ++a)
      if (p.rest >> a & 1) stamp = stamp * Slot(l_.bound[a]) + slot_[plan_.index_slot(a)];
    Slot& known = reinterpret_cast<Slot*>(scratch_ + p.stamps)[at];
    const bool there = known == stamp + 1;
    known = stamp + 1;
    return {scratch_ + p.data + size_t(at) * p.bytes, there};
  }
  void left(const Dot& d, TileProduct& p) {
    const int64_t size = int64_t(size_of(d.type));
    if (d.a.tile >= 0) {
      const Tile& t = plan_.tiles[size_t(d.a.tile)];
      p.a = reinterpret_cast<const char*>(slot_[t.slot]);
      const int64_t pitch = int64_t(slot_[t.slot + 1]) * size;
      p.a_row = t.rows == d.m ? pitch : size, p.a_column = t.rows == d.m ? size : pitch;
      return;
    }
    const Matrix& m = d.a.matrix;
    const int64_t row = int64_t(slot_[m.step[0]]), column = int64_t(slot_[m.step[1]]);
    if (m.storage == d.type && (column == 1 || p.k == 1 || row == 1)) {
      const bool rows = column == 1 || p.k == 1;
      p.a = address(m), p.a_row = row * size, p.a_column = rows ? size : column * size;
      return;
    }
    const int64_t stride = round_up(p.k, 16);
    const auto [to, there] = packed(d.a.packed);
    if (!there) products::pack_strip(m.storage)(to, address(m), row, column, p.m, p.k, stride);
    p.a = to, p.a_row = stride * size, p.a_column = size;
  }
  void right(const Dot& d, TileProduct& p) {
    const int64_t size = int64_t(size_of(d.type));
    int64_t step_k, step_n;
    const char* from;
    Dtype storage = d.type;
    if (d.b.tile >= 0) {
      const Tile& t = plan_.tiles[size_t(d.b.tile)];
      const int64_t pitch = int64_t(slot_[t.slot + 1]);
      step_k = t.rows == d.k ? pitch : 1, step_n = t.rows == d.k ? 1 : pitch;
      from = reinterpret_cast<const char*>(slot_[t.slot]);
    } else {
      step_k = int64_t(slot_[d.b.matrix.step[0]]), step_n = int64_t(slot_[d.b.matrix.step[1]]);
      from = address(d.b.matrix), storage = d.b.matrix.storage;
    }
    // Rows that lie far apart fall into few sets of the cache.
    const bool near = d.b.tile >= 0 || step_k * size <= 1024 || step_k <= 2 * p.n || p.k == 1;
    if (storage == d.type && (step_n == 1 || p.n == 1) && near) {
      p.b = from, p.b_row = step_k * size, p.packed = false;
      return;
    }
    const auto [to, there] = packed(d.b.packed);
    if (!there || d.b.tile >= 0) pack_right(storage, to, from, step_k, step_n, p.k, p.n);
    p.b = to, p.b_row = 0, p.packed = true;
  }
  void dot(const Dot& d) {
    TileProduct p{};
    p.wide = d.type == Dtype::Float64, p.adds = d.adds;
    p.m = extent(d.m), p.n = extent(d.n), p.k = extent(d.k);
    if (p.m <= 0 || p.n <= 0) return;
    const int64_t size = int64_t(size_of(d.type));
    if (d.c.tile >= 0) {
      const Tile& t = plan_.tiles[size_t(d.c.tile)];
      p.c = reinterpret_cast<char*>(slot_[t.slot]), p.c_row = int64_t(slot_[t.slot + 1]) * size;
    } else {
      p.c = const_cast<char*>(address(d.c.matrix)), p.c_row = int64_t(slot_[d.c.matrix.step[0]]) * size;
    }
    left(d, p);
    right(d, p);
    multiply(p);
  }

  const Layout& l_;
  const Plan& plan_;
  char* scratch_;
  Slot slot_[most_slots] = {};
};

}  // namespace
}  // namespace tiles

void run_tiles(const TileKernel& kernel, const kernels::Slot* args, int64_t grain) {
  const tiles::Plan& plan = *kernel.plan;
  if (plan.slots > tiles::most_slots || plan.packs > tiles::most_packs) throw std::runtime_error("block program " + plan.program.name + ": it keeps too many values");
  const tiles::Layout layout(plan, args);
  if (layout.instances <= 0) return;
  if (grain <= 0) grain = std::max<int64_t>(1, layout.instances / (8 * num_threads()));
  parallel_for(layout.instances, grain, [&](int64_t begin, int64_t end) {
    const products::Scratch scratch(layout.bytes);
    tiles::Runner(layout, scratch.data()).instances(begin, end);
  });
}

}  // namespace frit::jit
