// Emits one kernel. A value is emitted on demand, at the outermost *level* where everything that it depends on is known;
// a level is a place in the code: the function's start, the body of the instance loop, of a loop over a block axis, of a
// strip of 8 lanes. A level whose inner loops are open is suspended: what is emitted for it lands before them. So loop
// invariants, address bases, broadcasts and whole reductions find their places by themselves.
//
// A strip holds 8 lanes: Float32 and integers up to 32 bits in one ymm (narrow integers extended and wrapped after each
// operation, Bool as 0 or -1), Float64 and Int64 in two. What does not vary along the vector axis has all lanes equal,
// in one ymm; but an Int64 of that kind lives in a general register, where addresses need it.
//
// With AVX-512, a strip loop whose values are all of 32 bits and fewer, and whose loads and stores are contiguous, first takes strips of
// 16 lanes: the same code with one zmm for each value (which the type Ymm holds, too), and opmasks for conditions; the rest of the axis goes as
// above, or as masked strips of 16 where there is nothing but stores. Which of the two is being emitted is said by `zmm_`. Rarely taken parts with wider values are done eight lanes at a time in both.
//
// levels.cpp: levels, values, uniform integers · plan.cpp: what a strip needs, and what it can skip · primitives.cpp,
// arithmetic.cpp, convert.cpp, quotient.cpp, scaling.cpp, words.cpp: primitives on 8 lanes · address.cpp, memory.cpp: loads and stores · combine.cpp, reduce.cpp,
// reduce_columns.cpp: reductions · compile.cpp: the frame, the instance loop, the stores.
#pragma once
#include <asmjit/x86.h>
#include <array>
#include <bit>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>
#include "jit/x86/analysis.h"
#include "jit/x86/compile.h"

namespace frit::jit::x86_code {

using asmjit::Label;
using asmjit::Operand;
using asmjit::x86::Gp;
namespace Inst = asmjit::x86::Inst;
using asmjit::x86::Mem;
using asmjit::x86::Xmm;
using asmjit::x86::Ymm;
using kernels::no_value;
using kernels::Op;
using kernels::Order;
using kernels::Prim;
using kernels::Reduce;

struct Level;

// The forms in which a value is at hand; each is made when first asked for.
struct Rep {
  Ymm v[2];        // lanes (Bool: 32-bit masks); the second of two is missing when all lanes are equal
  Ymm wide[2];     // Bool: 64-bit masks
  Ymm sixteen;     // all lanes equal, in a zmm
  asmjit::x86::KReg mask;  // Bool in a strip of 16
  Gp g;            // uniform Int64, pointers; column reduces: address of the result of column 0
  Level* home = nullptr;
};

enum class LevelKind : uint8_t { root, instance, loop, columns, strip };

// Remaining uses of each value in a strip; a value with none left gives its register away.
using Uses = std::vector<uint16_t>;

// What only one side of some selects with the same condition needs: skipped when no lane takes that side.
struct Region {
  Id condition = no_value;
  bool when = true;             // the side: condition true or false
  std::vector<Id> outputs;      // the selects' operands
  std::vector<bool> members;
  bool by_eights = false;       // has operations without a form for 16 lanes: in a strip of 16 it is done in two parts
};

// A costly value that a reduction computes along an axis and later loops want again: kept in the work space.
struct Stash {
  Id value = no_value, filler = no_value;  // the reduce that stores it
  Gp base;
};
using Stashes = std::vector<const Stash*>;

// What is known about the body of a strip loop before it is emitted.
struct StripPlan {
  Stashes stashes;                 // these values are read from there
  std::vector<Id> needed;
  Uses uses;
  std::vector<Region> regions;
  std::vector<int16_t> region_of;  // value -> the region that it is an output of, or -1
  std::vector<Id> schedule;        // the order of evaluation when strips are interleaved; else empty
  bool streaming = false;          // full strips are stored past the caches
  bool zmm = false;                // strips of 16 are possible, as far as types and operations go
  int cost = 0, unroll = 1;        // without the regions
  const Stash* stash_of(Id v) const {
    for (const Stash* s : stashes)
      if (s->value == v) return s;
    return nullptr;
  }
};

// What strips of 16 need of an affine index; see words.cpp.
struct IndexLanes {
  Id index = no_value;
  int axis = -1;
  Gp base, step;               // the index of element 0, and the step; not valid: 0 and 1
  Ymm first, second;           // zmm
};

struct Level {
  LevelKind kind = LevelKind::root;
  Level* parent = nullptr;
  AxisMask bound = 0;          // axes whose index is known here
  int axis = -1;
  Gp index;                    // loop: the index; strip: index of lane 0 less `displacement`; columns: first column
  int64_t displacement = 0;
  Gp end;                      // columns: end of the columns
  int width = 1;               // strip: as many are computed in one iteration
  bool zmm = false;            // strip: of 16 lanes
  Ymm tail, tail_wide[2];      // strip: mask of the lanes that exist; not valid: all of them
  asmjit::x86::KReg exists;    // the same of a strip of 16
  asmjit::BaseNode* point = nullptr;  // suspended here; null: live
  std::vector<int32_t> slots;  // value -> number in Emitter::reps_, or -1
  Uses uses;
  const StripPlan* plan = nullptr;
  const Region* region = nullptr;  // a strip within a strip: the code of a region
  struct Derived {
    uint64_t key;
    Gp g;
    int64_t constant;
    bool is_constant;
  };
  std::vector<Derived> derived;  // address bases and strides
  std::vector<IndexLanes> index_lanes;
};

// A lane mask in both widths.
struct Mask {
  bool any = false;
  Id explicit_mask = no_value;
  Level* level = nullptr;
  Ymm narrow, wide[2];
};

// coefficient * index: a number known now, or in a register.
struct Coefficient {
  bool constant = true;
  int64_t value = 0;
  Gp g;
};

struct Access;

// What a division by a value that does not vary along a strip is given beside it.
struct Quotient {
  Id reciprocal = no_value, rest = no_value;  // 1/b, and what rounding it has lost
  Id unfit = no_value;                        // Int32: all ones where b is out of range
};
using Quotients = std::map<Id, Quotient>;     // by the division
Quotients prepare_quotients(Program& p);      // appends to the program

// 2^n (1 + e), as exponentials end: scalar functions write it as a product of two powers of two put together from bits; strips of 16 have an
// instruction for it, which rounds where that product does.
struct Scaling {
  Id e = no_value, n = no_value;              // n: a whole number, as Float32
};
using Scalings = std::map<Id, Scaling>;       // by the product
Scalings find_scalings(const Program& p);

class Emitter {
 public:
  Emitter(const Program& p, Quotients quotients, const CpuSchedule& schedule, asmjit::CodeHolder& code);
  bool fixed_address() const { return fixed_address_; }
  void run();  // throws std::runtime_error
  const Analysis& analysis() const { return a_; }
  uint32_t scratch_bytes() const { return 4 * uint32_t(stashes_.size()); }  // for each element of the axis, see CpuKernel
  uint32_t scratch_slot() const { return scratch_axis_ < 0 ? 0 : uint32_t(instr(p_.axes[size_t(scratch_axis_)].extent).imm); }

 private:
  struct Group;  // reduces that share a loop

  // ---- levels.cpp
  struct At;  // emits at a suspended level while it lives
  Level open(LevelKind kind, Level* parent, int axis, const Gp& index, int64_t displacement = 0);
  Level open_reduction(Level* parent, int axis);  // the place of the loops over a reduced axis
  void suspend(Level& l) { l.point = cc_.cursor(); }
  void resume(Level& l) { l.point = nullptr; }
  Level* placement(AxisMask depends, Level* from) const;
  Rep& rep(Id v, Level* l);
  Rep& new_rep(Id v, Level* home);
  Rep& eight_of(Id v, const Rep& sixteen, Level* l);  // in a part of 8 lanes of a strip of 16
  void emit_value(Id v, Level* home);
  void emit_number(Id v, Level* l);
  void emit_index(Id v, Level* l);
  void emit_uniform_integer(Id v, Level* l);
  Gp divide(const Gp& a, const Gp& b, bool remainder);
  void count_operands(Id v, Level* l);
  bool dies(Id v, Level* l);
  Gp gp(Id v, Level* l);                        // uniform Int64 or pointer
  Ymm lanes(Id v, Level* l, int half = 0);      // Bool: 32-bit mask
  Ymm part(Id v, Level* strip, int half);       // as lanes; of a strip of 16 the lower or the upper eight
  int parts(Dtype d, const Level* strip) const { return strip->zmm ? 2 : halves(d, strip); }
  Ymm wide_mask(Id v, Level* l, int half);
  Operand source(Id v, Level* l, int half = 0); // lanes, or a constant in memory
  Ymm own(Id v, Level* l, int half);            // a register that may be overwritten, holding the value
  bool is_constant(Id v) const { return instr(v).op == Op::scalar && instr(v).prim == Prim::constant; }
  std::optional<int64_t> integer_constant(Id v) const;
  Ymm strip_index(Level* l, int half);          // Int64 indices of the lanes
  template <class Body> void loop(Level& parent, int axis, const Gp& begin, const Gp& end, Body body);
  // What is left over after the full strips: strips of 8 down to a masked one, masked strips of 16 where those are possible, or
  // left to the caller but for less than the strips of one iteration.
  enum class Rest : uint8_t { eights, masked, none };
  template <class Body>
  void strips(Level& parent, int axis, const Gp& i, const Gp& end, int unroll, const StripPlan& plan, Body body, Rest rest = Rest::eights);
  template <class Body>
  void strips_of(const std::vector<Level*>& parents, int axis, const Gp& i, const Gp& end, int unroll, const StripPlan& plan, Body body, Rest rest = Rest::eights);
  template <class Body>
  void strips_of_16(Level& parent, int axis, const Gp& i, const Gp& end, int unroll, const StripPlan& plan, Body body, Rest rest);
  bool all_contiguous(Level& parent, int axis, const Gp& i, const StripPlan& plan);
  Level open_strip(Level* parent, int axis, const Gp& index, int64_t displacement, const StripPlan& plan);

  // ---- plan.cpp
  StripPlan plan_of(const std::vector<Id>& roots, int axis, const Stashes& stashes = {}) const;
  // Those that the loop over `roots` may read; their fillers have run then.
  Stashes stashes_for(const std::vector<Id>& roots, int axis, Level* l);
  void plan_stashes(const std::vector<Id>& roots, int axis, Level& level);
  int cost_of_loop(const std::vector<Id>& roots, int axis, const std::vector<Id>& leaves) const;
  bool fills_stash(const Group& g) const;
  void fill_stashes(const Group& g, Level& strip);
  void read_stash(const Stash& s, Level* l);
  void find_regions(StripPlan& plan, int axis) const;
  void add_region(StripPlan& plan, const std::vector<Id>& selects, bool when, int axis) const;
  void emit_region(const Region& r, Level* home);
  int cost_of(Id v) const;
  bool fits_zmm(StripPlan& plan, int axis) const;
  bool has_form_for_16(Id v, int axis) const;
  void make_schedule(StripPlan& plan, const std::vector<Id>& roots, int axis) const;

  // ---- constants
  Mem constant_bytes(const std::array<uint64_t, 4>& bytes);
  Mem constant32(uint32_t v) {
    const uint64_t d = v | uint64_t(v) << 32;
    const Mem m = constant_bytes({d, d, d, d});
    return zmm_ ? sized(m, 4)._1to16() : m;
  }
  Mem constant64(uint64_t v) { return constant_bytes({v, v, v, v}); }
  static Mem pair_of(Mem constant) {  // of a constant whose words are all the same, or that is one of 64 bits: for 8 lanes of 64 bits
    constant.resetBroadcast();
    return sized(constant, 8)._1to8();
  }
  Mem constant_of(Id v);
  Mem constant_float(double v, Dtype d);

  // ---- arithmetic.cpp, convert.cpp
  void emit_scalar(Id v, Level* l);
  void emit_fma(Id v, Level* l);
  void emit_compare(Id v, Level* l);
  void emit_select(Id v, Level* l);
  void emit_table(Id v, Level* l);
  void emit_divide64(Id v, Level* l);
  bool emit_quotient(Id v, Level* l);       // quotient.cpp; false: not of that kind
  bool emit_scaling(Id v, Level* l);        // scaling.cpp; the same
  // words.cpp
  Id above_shift(Id v) const;
  bool is_upper_word(Id v, int axis) const;  // an affine index shifted down by 32 bits
  bool is_index_use(Id v, int axis) const;   // what strips of 16 make of affine indices
  IndexLanes index_lanes(Id index, int axis, Level* outer);
  void indices(Id v, Level* l, Ymm out[2]);
  void emit_index_use(Id v, Level* l);
  void emit_bitcast(Id v, Level* l);
  void emit_convert(Id v, Level* l);
  void convert_uniform_integer(Id v, Level* l);
  void convert_narrow(Id v, Level* l);      // Int64, Float64 to types of 32 bits and fewer
  void convert_to_int64(Id v, Level* l);
  void convert_to_bool(Id v, Level* l);
  Ymm unary(Prim p, Dtype t, const Ymm& a);
  Ymm rounded_float16(const Ymm& a);
  Ymm rounded_bfloat16(const Ymm& a);
  Ymm bfloat16_sum(const Ymm& a, const asmjit::x86::KReg& number);
  Ymm binary(Prim p, Dtype t, const Ymm& a, const Operand& b);
  Ymm binary32(Prim p, Dtype t, const Ymm& a, const Operand& b);
  Ymm binary64(Prim p, const Ymm& a, const Operand& b);
  Ymm shift32(Prim p, Dtype t, const Ymm& a, const Operand& b);
  Ymm shift_by(Prim p, Dtype t, const Ymm& a, uint64_t count);
  Ymm as_unsigned(const Ymm& a, Dtype t);
  Ymm divide32(Prim p, Dtype t, const Ymm& a, const Ymm& b);
  Ymm multiply64(const Ymm& a, const Operand& b);
  Ymm multiply_high(const Ymm& a, const Operand& b);
  Ymm compare32(Prim p, Dtype t, const Ymm& a, const Operand& b);
  Ymm compare64(Prim p, Dtype t, const Ymm& a, const Operand& b);
  void wrap(const Ymm& v, Dtype t);
  void invert(const Ymm& v);
  Ymm pack(const Ymm& low, const Ymm& high);           // low dwords of 8 qwords
  void widen(const Ymm& v, Ymm& low, Ymm& high);       // 8 signed dwords to 8 qwords
  Ymm widen(const Ymm& v, int half);
  Ymm blend(const Ymm& a, const Operand& b, const Ymm& mask);    // mask ? b : a, 32-bit lanes
  Ymm blend_wide(const Ymm& a, const Operand& b, const Ymm& mask);
  Ymm new_lanes() { return zmm_ ? cc_.newZmm().as<Ymm>() : cc_.newYmm(); }
  static Inst::Id zmm_form(Inst::Id id);
  asmjit::x86::KReg mask_register(Id v, Level* l);     // of a Bool, in a strip of 16
  asmjit::x86::KReg mask_register(const Ymm& mask);
  void merge(const Ymm& d, const asmjit::x86::KReg& mask, const Operand& v);
  Ymm from_mask_register(const asmjit::x86::KReg& k);
  asmjit::x86::KReg compare_to_mask(Prim p, Dtype t, const Ymm& a, const Operand& b);
  Ymm zero();
  Ymm ones();
  Ymm load_constant(const Mem& m);
  void low_word(const Gp& d, const Ymm& from);
  Ymm int64_to_float64(const Ymm& v);
  Ymm move(const Operand& o);
  Ymm emit2(Inst::Id id, const Operand& a, const Operand& b);
  Ymm emit3(Inst::Id id, const Operand& a, const Operand& b, const Operand& c);
  Ymm emit1(Inst::Id id, const Operand& a);

  // ---- memory.cpp
  void emit_load(Id v, Level* l);
  void emit_uniform_load(Id v, Level* l);
  void emit_store(Id v, Level* l);
  void emit_uniform_store(Id v, Level* l);
  Access access(Id pointer, Id offset, Level* l);
  bool prefetches_here(Id pointer, Id offset, const Level* l);
  std::optional<Gp> affine_base(Id offset, int axis, Level* l);
  Coefficient coefficient(Id offset, int axis, Level* l);
  Mask mask_of(Id mask, Level* l);
  const Ymm& narrow(Mask& m);
  const Ymm& wide(Mask& m, int half);
  Gp mask_bits(Mask& m);
  using KReg = asmjit::x86::KReg;
  // 8 elements in memory or an xmm to lanes; 16 elements: of those that exist.
  void expand(Dtype memory, const Operand& from, Ymm out[2], const KReg& exists = KReg());
  void load_memory(Dtype memory, const Mem& m, Ymm out[2], const KReg& exists = KReg()) { expand(memory, m, out, exists); }
  struct Storing {
    Dtype memory;
    bool rounded = false;    // bfloat16: the lanes hold such values already
    bool streaming = false;  // past the caches
    KReg exists;             // 16 lanes: those to be stored; not valid: all of them
  };
  void store_memory(const Mem& m, const Storing& how, const Ymm in[2]);
  void store_sixteen(const Mem& m, const Storing& how, const Ymm& in);
  Ymm bfloat16_words(const Ymm& v, bool rounded);
  Xmm shrink(Dtype memory, const Ymm& v, bool rounded = false);                        // 8 lanes to elements of 1 or 2 bytes
  void load_masked(Dtype memory, const Access& x, Mask& m, Ymm out[2]);
  void load_broadcast(Dtype memory, const Access& x, Mask& m, Ymm out[2]);
  void load_lanes(Dtype memory, const Access& x, Mask& m, Ymm out[2]);
  void store_lanes(Dtype memory, const Access& x, Mask& m, const Ymm in[2]);
  void store_masked(Dtype memory, const Access& x, Mask& m, const Ymm in[2]);
  void load_strided(Dtype memory, const Access& x, Ymm out[2]);
  void store_strided(Dtype memory, const Access& x, const Ymm in[2]);
  void load_gathered(Dtype memory, const Access& x, Mask& m, Ymm out[2]);
  void broadcast_memory(Dtype memory, const Mem& m, Rep& out, bool integer_in_gp);
  Gp first_address(const Access& x);
  template <class Body> void each_lane(const Access& x, Mask& m, Body body);  // body(lane, address of its element)
  void copy_element(size_t size, const Mem& to, const Mem& from);
  template <class Body> void lane_loop(const Gp& bits, Body body);  // body(lane); bits are used up
  Mem slot(int which);  // 64 bytes of scratch on the stack
  static Mem sized(Mem m, uint32_t bytes) { m.setSize(bytes); return m; }

  // ---- reduce.cpp, reduce_columns.cpp
  struct Accumulator {
    Ymm v[2];
    Ymm index[2];  // argmax, argmin; quick extremes: first one's sign bits and NaNs
    Ymm more[2];   // quick extremes: second half's
    Ymm sixteen[2];  // quick extremes: extremes and signs of strips of 16; valid where there are any
    KReg nan;        // and where they had NaN
  };
  using Accumulators = std::vector<Accumulator>;  // of a group
  struct Group {
    std::vector<Id> ids;
    int axis = 0;
    StripPlan plan;
    int registers = 0;                            // of one set of accumulators
    const SinkGroup* stores = nullptr;            // columns: are done in the same loop
  };
  struct Stack {  // of chunk results, in memory
    Gp base, count, top;
    int entry = 0;
  };
  void emit_reduce(Id v, Level* l);
  Group make_group(Id v, Level* l, int vector_axis, const SinkGroup* stores = nullptr);
  const SinkGroup* stores_beside(const SinkGroup& narrow) const;
  template <class Body>
  void group_strips(const Group& g, Level& parent, const Gp& begin, const Gp& end, int unroll, Body body);
  void reduce_free(Group& g, Level* l);
  void reduce_tree(Group& g, Level* l);
  void tree_interleaved(Group& g, Level& inside, const Gp& k, const Gp& extent, Stack& stack, Accumulators& values);
  void reduce_pairwise(Group& g, Level* l);
  Accumulators start(const Group& g);
  void accumulate(Id r, Accumulator& acc, Level* strip);
  void accumulate_argument(Id r, Accumulator& acc, Level* strip);
  bool is_quick_extreme(const Instr& r) const;
  void start_extremes(const Group& g, std::vector<Accumulators>& accs);
  void accumulate_extreme(Id r, size_t number, Accumulator& acc, Level* strip, int u);
  void finish_extreme(const Instr& r, std::vector<Accumulators>& accs, size_t n);
  void accumulate_free(const Group& g, Accumulators& accs, Level& strip, int u);
  void free_interleaved(Group& g, Level& inside, const Gp& k, const Gp& extent, std::vector<Accumulators>& accs);
  Ymm participating(Id r, Level* strip, int half);                     // the value, the identity where masked
  void combine_into(const Instr& r, const Ymm& d, const Ymm& a, const Operand& b);
  void extreme_into(const Instr& r, const Ymm& d, const Ymm& a, const Operand& b);
  void combine_lanes(const Instr& r, Accumulator& acc);                // afterwards all lanes of v[0] hold the result
  void combine_adjacent(const Instr& r, Accumulator& acc);             // the pairwise tree of 8 elements
  void combine_argument(const Instr& r, Accumulator& acc);
  void merge_argument(const Instr& r, const Ymm& a, const Ymm& a_index, const Ymm& b, const Ymm& b_index);
  void publish(Id r, const Accumulator& acc, Level* l);
  Mem identity(const Instr& r);
  Dtype value_dtype(const Instr& r) const { return instr(r.in[0]).dtype; }
  Stack open_stack(const Group& g);
  void push(const Group& g, Stack& s, Accumulators& values);
  void fold(const Group& g, Stack& s, Accumulators& values);
  // Reduces whose result varies along the vector axis.
  struct Columns;  // where such a group keeps its accumulators
  void emit_column_reduce(Id v, Level* strip);
  void fill_columns(Id v, Level* l, Level* columns);
  void fill_identity(const Group& g, Columns& c, int rows);
  void column_rows(const Group& g, Columns& c, Level& inside, const Gp& k, const Gp& end);
  void column_row(const Group& g, Columns& c, const std::vector<Level*>& rows);
  void push_row(const Group& g, Columns& c, Level& row);
  void finish_chunk(const Group& g, Columns& c);
  void fold_columns(const Group& g, Columns& c);
  void push_columns(const Instr& r, const Accumulator& acc, const Gp& base, const Gp& column, int64_t displacement, Columns& c);
  void advance_columns(Columns& c);
  bool wants_columns(const std::vector<Id>& needed, int axis) const;
  template <class Body> void blocks_of_columns(Level& parent, int axis, const Gp& begin, const Gp& end, Body body);

  // ---- compile.cpp
  void instance_loop();
  void emit_instance(Level& instance);
  void emit_group(const SinkGroup& g, Level& instance);
  template <class Run> void run_streaming(const SinkGroup& g, const StripPlan& plan, Level& level, const Gp& begin, const Gp& end, Run run);
  Gp elements_in_all();
  void emit_stores(const SinkGroup& g, const std::vector<Id>& needed, Level* l);

  const Instr& instr(Id v) const { return p_.instrs[v]; }
  Dtype memory_dtype(Id pointer) const { return p_.params[instr(pointer).imm].dtype; }
  static bool is_wide(Dtype d) { return d == Dtype::Int64 || d == Dtype::Float64; }
  // Two registers hold the value at this level.
  int halves(Dtype d, const Level* l) const { return is_wide(d) && l->kind == LevelKind::strip ? 2 : 1; }

  const Program& p_;
  const Analysis a_;
  const Quotients quotients_;
  const Scalings scalings_;
  const CpuSchedule schedule_;
  const bool avx512_;              // strips of 16 are wanted
  bool zmm_ = false;               // what is emitted now belongs to such a strip
  bool fixed_address_ = false;     // the code names an address of this process
  asmjit::x86::Compiler cc_;
  const SinkGroup* stores_beside_ = nullptr;  // to be done by the reduction that goes through the same elements
  std::deque<Rep> reps_;
  Gp args_, begin_, end_, lane_begin_, lane_end_;
  Gp streamed_;                                 // not zero once something was stored past the caches
  Level* root_ = nullptr;
  Gp elements_in_all_;
  Label pool_label_;
  std::vector<std::array<uint64_t, 4>> pool_;
  std::map<std::array<uint64_t, 4>, int> pool_index_;
  Mem slots_[3];
  struct Arena {                                // work space of the column reductions at one depth of nesting
    Mem memory;
    uint32_t bytes = 0;
  };
  std::deque<Arena> arenas_;
  size_t fill_depth_ = 0, kept_bytes_ = 0;
  std::vector<std::array<Ymm, 2>> pending_;     // quick extremes: values whose NaNs are looked for with the next strip's
  std::vector<const Region*> open_regions_;
  std::deque<Stash> stashes_;
  int scratch_axis_ = -1;                       // of the stashes
  Gp scratch_;
  std::vector<Id> in_progress_;                 // reduces being emitted
  std::map<Id, Id> prefetched_in_;              // pointer -> a reduce in whose loop its next row is prefetched; no_value: when storing
};

// One memory access along the vector axis of a strip: address of lane k = base + (index + displacement + k) * stride.
struct Access {
  enum Kind : uint8_t { uniform, contiguous, strided, scattered } kind = contiguous;
  Dtype memory = Dtype::Float32;
  Gp base;                    // address for index 0; scattered: the pointer
  Gp index;
  int64_t displacement = 0;   // elements
  Gp stride;                  // bytes; strided
  Ymm offsets[2];             // elements; scattered
  Gp next_row;                // where the next instance's elements most likely are; valid where they are to be prefetched
  int shift() const { return std::countr_zero(size_of(memory)); }
  Mem at() const {            // contiguous: the 8 elements
    return asmjit::x86::ptr(base, index, uint32_t(shift()), int32_t(displacement * int64_t(size_of(memory))));
  }
};

}  // namespace frit::jit::x86_code
