// From a block program with loops and dots to a plan. Each instruction runs in a region, the turn of a nest of loops, and there at a stage: a
// stage is generated kernels for what can be computed, then the dots and inner loops that wait for it. What varies along rows alone is
// computed by kernels whose lanes are the rows, all at once; the rest row by row; so what is made of a row's sum is another stage. Index
// arithmetic and loads of what nobody writes are done again wherever they are needed; other values that cross from one kernel to another,
// or to a dot, have a tile.
// Start at compile_tiles; Planner::place decides, Writer writes the kernels (tiles_kernels.cpp).
#include <algorithm>
#include <climits>
#include <stdexcept>
#include "jit/x86/tiles.h"
#include "jit/x86/tiles_planner.h"

namespace frit::jit {
namespace tiles {

// ---- facts --------------------------------------------------------------------------------------------------------------
Kind Planner::classify(Id v) const {
  const Instr& i = at(v);
  const auto cheap = [&](Id u) { return u == no_value || kind_[u] == Kind::cheap || kind_[u] == Kind::uniform_load; };
  const bool operands = cheap(i.in[0]) && cheap(i.in[1]) && cheap(i.in[2]) && cheap(i.in[3]);
  switch (i.op) {
    case Op::pointer:
    case Op::integer:
    case Op::number:
    case Op::index: return Kind::cheap;
    case Op::scalar: {
      const bool whole = i.dtype == Dtype::Int64 || i.dtype == Dtype::Bool || (i.dtype == Dtype::Int32 && i.prim == Prim::convert);
      return operands && (!block_axes(v) || whole) ? Kind::cheap : Kind::computed;
    }
    case Op::load:
      if (written(i.in[0]) || !operands) return Kind::computed;
      return block_axes(v) ? Kind::reload : Kind::uniform_load;
    case Op::store: return Kind::store;
    case Op::dot: return Kind::dot;
    case Op::carry: return Kind::carry;
    case Op::next: return Kind::next;
    case Op::last: return Kind::last;
    default: return Kind::computed;
  }
}

void Planner::facts() {
  const size_t count = p_.instrs.size();
  for (size_t a = 0; a < p_.axes.size(); ++a)
    if (p_.axes[a].kind == AxisKind::block) blocks_ = uint8_t(blocks_ | 1u << a);
    else if (p_.axes[a].kind == AxisKind::sequential) refuse("sequential axes and dots do not go together");
  users_.resize(count), taken_.assign(count, false), stage_.assign(count, -1), tile_.assign(count, -1), uniform_.assign(count, -1);
  for (size_t v = 0; v < count; ++v) {
    const Instr& i = at(Id(v));
    uint16_t depends = i.op == Op::index && !(blocks_ >> i.imm & 1) ? uint16_t(1u << i.imm) : 0;
    if (i.op == Op::index) depends = uint16_t(depends | (at(p_.axes[i.imm].extent).axes & ~blocks_));
    for (Id in : i.in)
      if (in != no_value) depends = uint16_t(depends | depends_[in]), users_[in].push_back(Id(v));
    depends_.push_back(depends);
    kind_.push_back(classify(Id(v)));
    region_.push_back(kernels::loops_of(p_, nest_, i));
  }
}

// The axis along which an offset steps by exactly one element, or -1.
int Planner::unit_axis(Id offset) const {
  std::map<Id, std::map<int, bool>> known;
  const auto steps = [&](auto&& self, Id v) -> std::map<int, bool> {  // axis: by one
    const Instr& i = at(v);
    std::map<int, bool> s;
    if (!block_axes(v)) return s;
    if (i.op == Op::index) return {{int(i.imm), true}};
    if (i.op != Op::scalar || (i.prim != Prim::add && i.prim != Prim::sub && i.prim != Prim::mul)) refuse("an offset that a dot reads at is not affine");
    for (int k = 0; k < 2; ++k)
      for (const auto& [axis, one] : self(self, i.in[k])) s[axis] = one && i.prim == Prim::add && !s.count(axis);
    return s;
  };
  for (const auto& [axis, one] : steps(steps, offset))
    if (one) return axis;
  return -1;
}

// Dots that add to memory and store there again.
void Planner::absorb() {
  for (size_t v = 0; v < p_.instrs.size(); ++v) {
    if (kind_[v] != Kind::dot || at(Id(v)).in[2] == no_value || users_[v].size() != 1) continue;
    const Id to = at(Id(v)).in[2], store = users_[v][0];
    const Instr &l = at(to), &s = at(store);
    if (l.op != Op::load || s.op != Op::store || users_[to].size() != 1 || l.in[0] != s.in[0] || l.in[1] != s.in[1] || l.in[2] != no_value || s.in[3] != no_value) continue;
    if (p_.params[at(l.in[0]).imm].dtype != at(Id(v)).dtype || unit_axis(l.in[1]) < 0) continue;
    kind_[to] = kind_[store] = Kind::absorbed;
  }
}

// ---- stages -------------------------------------------------------------------------------------------------------------
// The first stage at which a kernel (or a dot) of the region can read u.
int Planner::ready(Id u, uint8_t region, bool dot) const {
  if (region_[u] != region) return 0;
  switch (kind_[u]) {
    case Kind::computed: return after(u);
    case Kind::dot: return stage_[u] + !dot;
    case Kind::last: return loop_stage_.at(int(at(at(u).in[0]).imm & 7)) + 1;
    default: return 0;
  }
}
int Planner::stage_of_loop(int loop) {
  const auto known = loop_stage_.find(loop);
  if (known != loop_stage_.end()) return known->second;
  const uint8_t outer = uint8_t(nest_[size_t(loop)] & ~(1u << loop));
  int stage = 0;
  for (size_t v = 0; v < p_.instrs.size(); ++v)
    if (region_[v] >> loop & 1)
      for (Id in : at(Id(v)).in)
        if (in != no_value && region_[in] == outer) stage = std::max(stage, stage_of(in) + (kind_[in] == Kind::dot || at(in).op == Op::reduce));
  return loop_stage_[loop] = stage;
}
// A reduction of what is kept anyway reads it, rather than to compute it twice.
bool Planner::reads_kept(Id reduce, Id v) const {
  return at(reduce).op == Op::reduce && kind_[v] == Kind::computed && at(v).op == Op::scalar && region_[v] == region_[reduce] && users_[v].size() > 1 && block_axes(v) == (block_axes(reduce) | 1u << at(reduce).imm);
}
int Planner::stage_of(Id v) {
  if (stage_[v] >= 0) return stage_[v];
  if (kind_[v] == Kind::last) return stage_of_loop(int(at(at(v).in[0]).imm & 7)) + 1;
  if (kind_[v] != Kind::computed && kind_[v] != Kind::dot && kind_[v] != Kind::store && kind_[v] != Kind::next) return 0;
  int stage = 0;
  for (Id in : at(v).in) {
    if (in == no_value || region_[in] != region_[v]) continue;
    if (kind_[v] == Kind::next && in == at(v).in[0]) continue;
    stage_of(in);
    stage = std::max(stage, ready(in, region_[v], kind_[v] == Kind::dot) + reads_kept(v, in));
  }
  return stage_[v] = stage;
}

// What can wait is computed where it is read, so that fewer values have to be kept.
void Planner::postpone() {
  for (size_t v = p_.instrs.size(); v-- > 0;) {
    if (kind_[v] != Kind::computed || (at(Id(v)).op == Op::load && written(at(Id(v)).in[0])) || users_[v].empty()) continue;
    int latest = INT_MAX;
    for (Id u : users_[v]) {
      const int loop = kind_[u] == Kind::carry ? int(at(u).imm & 7) : region_[u] != region_[v] ? child(region_[v], region_[u]) : -1;
      latest = std::min(latest, loop >= 0 ? loop_stage_.at(loop) : stage_[u] - reads_kept(u, Id(v)));
    }
    stage_[v] = std::max(stage_[v], latest - (at(Id(v)).op == Op::reduce));
  }
}
// A value of rows alone that is no reduction has nothing but such values in it.
bool Planner::by_rows(Id v) const {
  if (kind_[v] == Kind::next) v = at(v).in[1];
  if (kind_[v] == Kind::store) return std::popcount(block_axes(v)) != 1;
  return std::popcount(block_axes(v)) != 1 || (kind_[v] == Kind::computed && at(v).op == Op::reduce);
}

// ---- places -------------------------------------------------------------------------------------------------------------
int Planner::new_tile(Id v) {
  const uint8_t axes = block_axes(v);
  if (std::popcount(axes) > 2 || axes == 0) refuse("a value that has to be kept varies along no axis, or along more than two");
  const int rows = std::countr_zero(axes), columns = std::popcount(axes) == 2 ? 15 - std::countl_zero(uint16_t(axes)) : -1;
  plan_.tiles.push_back({plan_.slots, rows, columns, at(v).dtype});
  plan_.slots += 2;
  return int(plan_.tiles.size()) - 1;
}
// Is v read outside of the kernel that computes it?
bool Planner::crosses(Id v) const {
  return std::any_of(users_[v].begin(), users_[v].end(), [&](Id u) {
    if (kind_[u] == Kind::dot) return true;
    if (kind_[u] == Kind::carry) {
      const int loop = int(at(u).imm & 7);
      return group_of(v) != Group(uint8_t(nest_[size_t(loop)] & ~(1u << loop)), loop_stage_.at(loop), plan_.tiles[size_t(tile_[u])].columns >= 0);
    }
    return group_of(u) != group_of(v);
  });
}

// The tile of a value that is read for the last time where v is computed, element by element; -1: there is none.
int Planner::taken_over(Id v) {
  if (!in_place_) return -1;
  for (Id u = 0; u < v; ++u) {
    if (tile_[u] < 0 || taken_[u] || (kind_[u] != Kind::dot && kind_[u] != Kind::computed) || region_[u] != region_[v]) continue;
    if (block_axes(u) != block_axes(v) || std::popcount(block_axes(v)) != 2 || at(u).dtype != at(v).dtype) continue;
    if (group_of(u) == group_of(v) && kind_[u] == Kind::computed) continue;
    bool here = false, only = true;
    for (Id w : users_[u]) {
      const bool reads = kind_[w] != Kind::dot && kind_[w] != Kind::next && kind_[w] != Kind::carry && group_of(w) == group_of(v);
      const bool own = kind_[u] == Kind::computed && kind_[w] != Kind::dot && kind_[w] != Kind::next && kind_[w] != Kind::carry && group_of(w) == group_of(u);
      here |= reads, only &= reads || own;
    }
    if (!here || !only) continue;
    taken_[u] = true;
    return tile_[u];
  }
  return -1;
}

void Planner::place_carries() {
  for (size_t v = 0; v < p_.instrs.size(); ++v) {
    if (kind_[v] != Kind::carry) continue;
    tile_[v] = new_tile(Id(v));
    const int loop = int(at(Id(v)).imm & 7);
    sinks_[{uint8_t(nest_[size_t(loop)] & ~(1u << loop)), stage_of_loop(loop), plan_.tiles[size_t(tile_[v])].columns >= 0}].push_back({tile_[v], at(Id(v)).in[0]});
    Id next = no_value;
    std::vector<Id> readers;
    for (Id u : users_[v])
      if (kind_[u] == Kind::next && at(u).in[0] == v) next = u;
      else if (kind_[u] != Kind::last) readers.push_back(u);
    const Id value = at(next).in[1];
    const bool from_dot = kind_[value] == Kind::dot && at(value).in[2] != no_value && region_[value] == region_[next];
    const Id summand = from_dot ? at(value).in[2] : no_value;
    // A dot that adds to the carry itself; or one kernel reads it once and writes it.
    if (summand == v && readers.size() == 1) {
      next_tile_[Id(v)] = tile_[value] = tile_[v];
      continue;
    }
    const bool summand_alone = from_dot && kind_[summand] == Kind::computed && region_[summand] == region_[value] && users_[summand].size() == 1;
    const Id made = summand_alone ? summand : next;
    const bool once = in_place_ && readers.size() == 1 && kind_[readers[0]] == Kind::computed && group_of(readers[0]) == group_of(made);
    const int tile = once ? tile_[v] : new_tile(Id(v));
    next_tile_[Id(v)] = tile;
    if (summand_alone) tile_[summand] = tile_[value] = tile;
    else sinks_[group_of(next)].push_back({tile, value});
    if (!once) plan_.loops[size_t(std::find_if(plan_.loops.begin(), plan_.loops.end(), [&](const Loop& l) { return l.axis == loop; }) - plan_.loops.begin())].swapped.emplace_back(plan_.tiles[size_t(tile_[v])].slot, plan_.tiles[size_t(tile)].slot);
  }
}

Matrix Planner::matrix(Id access, int first, int second) {
  const Instr& i = at(access);
  Matrix m;
  m.pointer = int(at(i.in[0]).imm), m.axis[0] = first, m.axis[1] = second, m.storage = p_.params[at(i.in[0]).imm].dtype;
  m.offset = plan_.slots++, m.step[0] = plan_.slots++, m.step[1] = plan_.slots++;
  m.depends = depends_[i.in[1]];
  matrices_[region_[access]].emplace_back(i.in[1], m);
  return m;
}
Operand Planner::operand(Id v, int first, int second) {
  Operand o;
  if (kind_[v] == Kind::reload && at(v).in[2] == no_value) {
    unit_axis(at(v).in[1]);
    o.matrix = matrix(v, first, second);
    o.packed = plan_.packs++;
    return o;
  }
  if (kind_[v] == Kind::last) v = at(v).in[0];
  if (kind_[v] == Kind::reload || kind_[v] == Kind::cheap) {  // masked: by way of a kernel
    refuse("a dot's operand is a masked load or a number of its place");
  }
  o.tile = tile_[v];
  o.packed = plan_.packs++;
  return o;
}
void Planner::place_dots() {
  for (size_t v = 0; v < p_.instrs.size(); ++v) {
    if (kind_[v] != Kind::dot) continue;
    const Instr& i = at(Id(v));
    const uint8_t c = block_axes(Id(v)), contracted = uint8_t(1u << i.imm);
    if (std::popcount(c) != 2) refuse("a dot's result has not two axes");
    int rows = std::countr_zero(c), columns = 15 - std::countl_zero(uint16_t(c));
    const bool in_memory = i.in[2] != no_value && kind_[i.in[2]] == Kind::absorbed;
    if (in_memory && unit_axis(at(i.in[2]).in[1]) == rows) std::swap(rows, columns);
    Id a = i.in[0], b = i.in[1];
    if (block_axes(a) != (contracted | 1u << rows)) std::swap(a, b);
    if (block_axes(a) != (contracted | 1u << rows) || block_axes(b) != (contracted | 1u << columns)) refuse("a dot's operands have not one axis of the result each");
    Dot d;
    d.type = i.dtype, d.m = rows, d.n = columns, d.k = int(i.imm);
    d.a = operand(a, rows, int(i.imm)), d.b = operand(b, int(i.imm), columns);
    d.adds = i.in[2] != no_value;
    if (in_memory) {
      d.c.matrix = matrix(i.in[2], rows, columns);
    } else {
      if (tile_[v] < 0 && d.adds) {
        if (kind_[i.in[2]] != Kind::computed || users_[i.in[2]].size() != 1) refuse("what a dot adds to is used elsewhere too");
        tile_[v] = tile_[i.in[2]];
      }
      if (tile_[v] < 0) refuse("a dot's result is not kept");
      d.c.tile = tile_[v];
    }
    waiting_[{region_[v], stage_[v]}].push_back({Step::Kind::dot, int(plan_.dots.size())});
    plan_.dots.push_back(d);
  }
}

void Planner::place() {
  for (size_t v = 0; v < p_.instrs.size(); ++v) stage_of(Id(v));
  for (size_t a = 0; a < p_.axes.size(); ++a)
    if (p_.axes[a].kind == AxisKind::loop) stage_of_loop(int(a)), plan_.loops.push_back({int(a), {}, {}});
  postpone();
  place_carries();
  for (size_t v = 0; v < p_.instrs.size(); ++v) {
    const Kind k = kind_[v];
    if (k == Kind::uniform_load) uniform_[v] = plan_.slots++, uniforms_[region_[v]].push_back(Id(v));
    if (k == Kind::dot && tile_[v] < 0 && at(Id(v)).in[2] == no_value) tile_[v] = new_tile(Id(v));
    if (k == Kind::computed) {
      if (tile_[v] < 0 && crosses(Id(v))) tile_[v] = taken_over(Id(v));
      if (tile_[v] < 0 && crosses(Id(v))) tile_[v] = new_tile(Id(v));
      if (tile_[v] >= 0) sinks_[group_of(Id(v))].push_back({tile_[v], Id(v)});
    }
    if (k == Kind::store) sinks_[group_of(Id(v))].push_back({-1, Id(v)});
  }
  place_dots();
  for (size_t l = 0; l < plan_.loops.size(); ++l) {
    const int axis = plan_.loops[l].axis;
    waiting_[{uint8_t(nest_[size_t(axis)] & ~(1u << axis)), loop_stage_.at(axis)}].push_back({Step::Kind::loop, int(l)});
  }
}

// ---- steps --------------------------------------------------------------------------------------------------------------
Block Planner::block(uint8_t region) {
  Block b;
  const std::string name = p_.name + "_" + std::to_string(region);
  b.uniforms = int(plan_.kernels.size());
  plan_.kernels.push_back(Writer(*this, name + "_uniform").uniforms(region));
  for (size_t a = 0; a < p_.axes.size(); ++a)
    if (blocks_ >> a & 1 && kernels::loops_of(p_, nest_, at(p_.axes[a].extent)) == region) b.bounded.push_back(int(a));
  int last = -1;
  for (const auto& [at, sinks] : sinks_)
    if (std::get<0>(at) == region) last = std::max(last, std::get<1>(at));
  for (const auto& [at, steps] : waiting_)
    if (at.first == region) last = std::max(last, at.second);
  for (int s = 0; s <= last; ++s) {
    for (const bool row_by_row : {false, true}) {
      std::map<int, std::vector<Sink>> of_rows;
      for (const Sink& sink : sinks_[{region, s, row_by_row}]) {
        const uint8_t axes = sink.tile >= 0 ? uint8_t(1u << plan_.tiles[size_t(sink.tile)].rows) : block_axes(sink.value);
        if (!axes) refuse("a store of one element stands beside tiles");
        of_rows[std::countr_zero(axes)].push_back(sink);
      }
      for (const auto& [rows, sinks] : of_rows) {
        b.steps.push_back({Step::Kind::kernel, int(plan_.kernels.size()), rows, row_by_row});
        plan_.kernels.push_back(Writer(*this, name + "_" + std::to_string(s) + (row_by_row ? "_tile" : "_rows")).rows(rows, row_by_row, sinks));
      }
    }
    for (const Step& step : waiting_[{region, s}]) b.steps.push_back(step);
  }
  return b;
}

Plan Planner::run() {
  facts();
  absorb();
  plan_.slots = plan_.ramp_slot() + 1;
  place();
  frame_ = p_.params;
  frame_.resize(size_t(plan_.slots), {ParamKind::integer, Dtype::Int64, false});
  for (Dtype d : {Dtype::Int64, Dtype::Float32, Dtype::Float64}) frame_[size_t(plan_.self_slot(d))] = {ParamKind::pointer, d, false};
  frame_[size_t(plan_.ramp_slot())] = {ParamKind::pointer, Dtype::Int32, false};
  for (const Tile& t : plan_.tiles) frame_[size_t(t.slot)] = {ParamKind::pointer, t.type, false};
  for (size_t v = 0; v < p_.instrs.size(); ++v)
    if (uniform_[v] >= 0 && at(Id(v)).dtype != Dtype::Int64) frame_[size_t(uniform_[v])] = {ParamKind::number, at(Id(v)).dtype, false};
  for (Param& f : frame_) f.written = false;
  plan_.root = block(0);
  for (Loop& l : plan_.loops) {
    Block body = block(nest_[size_t(l.axis)]);
    l.body = std::move(body);
  }
  return std::move(plan_);
}

}  // namespace tiles

TileKernel compile_tiles(const kernels::Program& program) {
  verify(program);
  try {
    return {std::make_shared<tiles::Plan>(tiles::Planner(program, true).run())};
  } catch (const std::runtime_error&) {  // a kernel that cannot write where it reads
    return {std::make_shared<tiles::Plan>(tiles::Planner(program, false).run())};
  }
}

}  // namespace frit::jit
