// How compile_tiles decides (Planner, tiles_plan.cpp) and writes the kernels of what it decided (Writer, tiles_kernels.cpp). Not an interface for
// other parts.
#pragma once
#include <bit>
#include <map>
#include <string>
#include <tuple>
#include "jit/x86/tiles_parts.h"

namespace frit::jit::tiles {

using kernels::AxisKind;
using kernels::Instr;
using kernels::no_value;
using kernels::Op;
using kernels::Param;
using kernels::ParamKind;
using kernels::Prim;
using kernels::ProgramBuilder;
using kernels::Value;

// cheap: done again where it is needed · uniform_load: of a table, once a turn · reload: of what nobody writes, where it is needed, or by a dot in
// place · computed: once, by a kernel · absorbed: done by a dot that adds to memory
enum class Kind : uint8_t { cheap, uniform_load, reload, computed, dot, carry, last, next, store, absorbed };
struct Sink {  // what a kernel stores: a value in a tile, or a store of the program's
  int tile;
  Id value;
};

class Planner {
 public:
  Planner(const Program& program, bool in_place) : p_(program), in_place_(in_place), nest_(kernels::loop_nest(program)) { plan_.program = program, plan_.extents = kernels::extents_function(program); }
  Plan run();

 private:
  friend class Writer;
  using Stage = std::pair<uint8_t, int>;  // region, stage
  using Group = std::tuple<uint8_t, int, bool>;  // and: row by row (what the others of the stage make is there)

  [[noreturn]] void refuse(const std::string& why) const { throw std::runtime_error("block program " + p_.name + ": " + why); }
  const Instr& at(Id v) const { return p_.instrs[v]; }
  uint8_t block_axes(Id v) const { return at(v).axes & blocks_; }
  bool written(Id pointer) const { return p_.params[at(pointer).imm].written; }
  Kind classify(Id v) const;
  void facts();
  void absorb();
  int unit_axis(Id offset) const;
  int ready(Id u, uint8_t region, bool dot) const;
  int after(Id u) const { return stage_[u] + (kind_[u] == Kind::dot || at(u).op == Op::reduce); }
  int child(uint8_t region, uint8_t inside) const { return std::countr_zero(uint8_t(inside & ~region)); }
  void postpone();
  bool by_rows(Id v) const;
  Group group_of(Id v) const { return {region_[v], stage_[v], by_rows(v)}; }
  int stage_of_loop(int loop);
  bool reads_kept(Id reduce, Id v) const;
  int stage_of(Id v);
  void place();
  void place_carries();
  void place_dots();
  int new_tile(Id v);
  int taken_over(Id v);
  bool crosses(Id v) const;
  Operand operand(Id v, int first, int second);
  Matrix matrix(Id access, int first, int second);
  Block block(uint8_t region);

  const Program& p_;
  const bool in_place_;
  std::vector<uint8_t> nest_;
  uint8_t blocks_ = 0;
  std::vector<Kind> kind_;
  std::vector<uint8_t> region_;
  std::vector<uint16_t> depends_;
  std::vector<std::vector<Id>> users_;
  std::vector<int> stage_, tile_, uniform_;    // by value; -1
  std::vector<bool> taken_;                    // by value: its tile is another's from here on
  std::map<int, int> loop_stage_;
  std::map<Id, int> next_tile_;                // by carry: where its next value goes
  std::map<Group, std::vector<Sink>> sinks_;
  std::map<uint8_t, std::vector<Id>> uniforms_;  // by region: uniform loads
  std::map<uint8_t, std::vector<std::pair<Id, Matrix>>> matrices_;
  std::map<Stage, std::vector<Step>> waiting_;
  std::vector<Param> frame_;
  Plan plan_;
};

// Writes one kernel of the plan: all have the same parameters.
class Writer {
 public:
  Writer(const Planner& planner, const std::string& name) : q_(planner), b_(name) {
    for (const Param& f : q_.frame_)
      slot_.push_back(f.kind == ParamKind::pointer ? b_.pointer(f.dtype) : f.kind == ParamKind::integer ? b_.integer() : b_.number(f.dtype));
  }
  CpuKernel rows(int row_axis, bool row_by_row, const std::vector<Sink>& sinks);
  CpuKernel uniforms(uint8_t region);

 private:
  struct Affine {
    Value base;
    std::map<int, Value> step;
  };
  Value value(Id v);
  Value make(Id v);
  Value axis_index(int axis);
  Value tile_element(int tile, bool load, Value stored = {});
  Affine affine(Id v);
  Value sum(Value a, Value b) { return a.id == no_value ? b : b.id == no_value ? a : b_.add(a, b); }
  void keep(int slot, Value v);

  const Planner& q_;
  ProgramBuilder b_;
  std::vector<Value> slot_;
  int row_axis_ = -1;
  std::map<int, int> axis_;       // of the program to the kernel's
  std::map<Id, Value> known_;
  const std::vector<Sink>* sinks_ = nullptr;
};

}  // namespace frit::jit::tiles
