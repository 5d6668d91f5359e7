// The kernels of a plan of tiles: ordinary block programs over the rows of tiles, for the generator of machine code. All have the same
// parameters, the plan's slots. Start at Writer::rows and Writer::uniforms.
#include <algorithm>
#include "jit/x86/tiles_planner.h"

namespace frit::jit::tiles {

Value Writer::axis_index(int axis) {
  const auto at = axis_.find(axis);
  if (at == axis_.end()) q_.refuse("a kernel needs an axis that it does not have");
  return b_.index(at->second);
}
Value Writer::value(Id v) {
  const auto known = known_.find(v);
  if (known != known_.end()) return known->second;
  return known_[v] = make(v);
}
Value Writer::make(Id v) {
  const Instr& i = q_.at(v);
  switch (i.op) {
    case Op::pointer:
    case Op::integer:
    case Op::number: return slot_[i.imm];
    case Op::index: return q_.blocks_ >> i.imm & 1 ? axis_index(int(i.imm)) : slot_[size_t(q_.plan_.index_slot(int(i.imm)))];
    default: break;
  }
  if (q_.kind_[v] == Kind::uniform_load && q_.uniform_[v] >= 0 && row_axis_ >= 0) return slot_[size_t(q_.uniform_[v])];
  const Id from = i.op == Op::last ? i.in[0] : v;
  if (q_.kind_[from] == Kind::carry || q_.kind_[from] == Kind::dot) return tile_element(q_.tile_[from], true);
  if (q_.kind_[v] == Kind::computed && q_.tile_[v] >= 0) {  // by another kernel?
    const bool own = sinks_ && std::any_of(sinks_->begin(), sinks_->end(), [&](const Sink& s) { return s.value == v && s.tile == q_.tile_[v]; });
    if (!own) return tile_element(q_.tile_[v], true);
  }
  // Indices of lanes in Int32 are read: so they take as many lanes as Float32.
  if (i.op == Op::scalar && i.prim == Prim::convert && i.dtype == Dtype::Int32 && q_.at(i.in[0]).op == Op::index && q_.block_axes(i.in[0]) && q_.at(i.in[0]).imm != uint64_t(row_axis_))
    return b_.load(slot_[size_t(q_.plan_.ramp_slot())], value(i.in[0]));
  const auto in = [&](int k) { return i.in[k] == no_value ? Value{} : value(i.in[k]); };
  switch (i.op) {
    case Op::scalar:
      switch (scalar::prim_arity(i.prim)) {
        case 0: return b_.apply(i.prim, i.dtype, {}, i.imm);
        case 1: return b_.apply(i.prim, i.dtype, {in(0)}, i.imm);
        case 2: return b_.apply(i.prim, i.dtype, {in(0), in(1)}, i.imm);
        default: return b_.apply(i.prim, i.dtype, {in(0), in(1), in(2)}, i.imm);
      }
    case Op::load: return b_.load(in(0), in(1), in(2), in(3));
    case Op::reduce: {
      const Value of = in(0), mask = in(1);
      if (!axis_.count(int(i.imm)) || int(i.imm) == row_axis_) q_.refuse("a reduce along the rows of a tile");
      return b_.reduce(i.kind, of, axis_.at(int(i.imm)), mask, i.order, i.fused);
    }
    default: q_.refuse("an instruction stands where none can be computed");
  }
}
Value Writer::tile_element(int tile, bool load, Value stored) {
  const Tile& t = q_.plan_.tiles[size_t(tile)];
  if (t.rows != row_axis_) q_.refuse("a tile is read along its columns outside of dots");
  Value offset = axis_index(t.rows);
  if (t.columns >= 0) offset = b_.add(b_.mul(offset, slot_[size_t(t.slot + 1)]), axis_index(t.columns));
  if (load) return b_.load(slot_[size_t(t.slot)], offset);
  b_.store(slot_[size_t(t.slot)], offset, stored);
  return {};
}

CpuKernel Writer::rows(int row_axis, bool row_by_row, const std::vector<Sink>& sinks) {
  row_axis_ = row_axis, sinks_ = &sinks;
  const auto add_axis = [&](int a, AxisKind kind) { axis_[a] = b_.axis(kind, slot_[size_t(q_.plan_.extent_slot(a))]); };
  if (row_by_row) add_axis(row_axis, AxisKind::grid);
  else b_.axis(AxisKind::grid, b_.integer_constant(1)), add_axis(row_axis, AxisKind::block);
  // Every block axis that the sinks need; axes that nothing uses would only be in the way.
  uint8_t used = 0;
  std::vector<bool> seen(q_.p_.instrs.size());
  const auto visit = [&](auto&& self, Id v) -> void {
    if (v == no_value || seen[v]) return;
    seen[v] = true;
    used = uint8_t(used | q_.block_axes(v));
    const bool own = q_.kind_[v] != Kind::carry && q_.kind_[v] != Kind::dot && q_.kind_[v] != Kind::last;
    if (own)
      for (Id in : q_.at(v).in) self(self, in);
  };
  for (const Sink& s : sinks) {
    visit(visit, s.value);
    if (s.tile >= 0 && q_.plan_.tiles[size_t(s.tile)].columns >= 0) used = uint8_t(used | 1u << q_.plan_.tiles[size_t(s.tile)].columns);
  }
  for (int a = 0; a < 8; ++a)
    if (used >> a & 1 && a != row_axis) add_axis(a, AxisKind::block);
  std::vector<std::pair<const Sink*, Value>> values;
  for (const Sink& s : sinks) values.emplace_back(&s, value(s.tile >= 0 ? s.value : q_.at(s.value).in[2]));
  for (const auto& [s, v] : values) {
    if (s->tile >= 0) {
      tile_element(s->tile, false, v);
      continue;
    }
    const Instr& i = q_.at(s->value);
    b_.store(value(i.in[0]), value(i.in[1]), v, i.in[3] == no_value ? Value{} : value(i.in[3]));
  }
  return compile_x86(b_.finish());
}

void Writer::keep(int slot, Value v) {
  const Dtype d = b_.dtype(v);
  b_.store(slot_[size_t(q_.plan_.self_slot(d))], b_.integer_constant(d == Dtype::Float32 ? 2 * slot : slot), v);
}
Writer::Affine Writer::affine(Id v) {
  const Instr& i = q_.at(v);
  if (!q_.block_axes(v)) return {value(v), {}};
  if (i.op == Op::index) return {{}, {{int(i.imm), b_.integer_constant(1)}}};
  Affine x = affine(i.in[0]), y = affine(i.in[1]);
  if (i.prim == Prim::mul) {
    if (!x.step.empty() && !y.step.empty()) q_.refuse("an offset that a dot reads at is not affine");
    if (x.step.empty()) std::swap(x, y);
    if (x.base.id != no_value) x.base = b_.mul(x.base, y.base);
    for (auto& [axis, step] : x.step) step = b_.mul(step, y.base);
    return x;
  }
  if (i.prim == Prim::sub) {
    if (!y.step.empty()) q_.refuse("an offset that a dot reads at is not affine");
    return {b_.apply(Prim::sub, Dtype::Int64, {x.base.id == no_value ? b_.integer_constant(0) : x.base, y.base}), x.step};
  }
  x.base = sum(x.base, y.base);
  for (auto& [axis, step] : y.step) x.step[axis] = sum(x.step[axis], step);
  return x;
}
CpuKernel Writer::uniforms(uint8_t region) {
  std::vector<std::pair<int, Value>> kept;
  for (size_t a = 0; a < q_.p_.axes.size(); ++a)
    if (const Id extent = q_.p_.axes[a].extent; kernels::loops_of(q_.p_, q_.nest_, q_.at(extent)) == region) kept.emplace_back(q_.plan_.extent_slot(int(a)), value(extent));
  if (const auto at = q_.uniforms_.find(region); at != q_.uniforms_.end())
    for (Id v : at->second) kept.emplace_back(q_.uniform_[v], value(v));
  if (const auto at = q_.matrices_.find(region); at != q_.matrices_.end())
    for (const auto& [offset, m] : at->second) {
      const Affine x = affine(offset);
      kept.emplace_back(m.offset, x.base.id == no_value ? b_.integer_constant(0) : x.base);
      for (int k = 0; k < 2; ++k) kept.emplace_back(m.step[k], x.step.count(m.axis[k]) ? x.step.at(m.axis[k]) : b_.integer_constant(0));
    }
  if (kept.empty()) return {};
  b_.axis(AxisKind::grid, b_.integer_constant(1));
  for (const auto& [slot, v] : kept) keep(slot, v);
  return compile_x86(b_.finish());
}

}  // namespace frit::jit::tiles
