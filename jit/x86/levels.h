// The loops of the emitter, as templates over their bodies. See emitter.h.
#pragma once
#include "jit/x86/emitter.h"

namespace frit::jit::x86_code {

// Emits at `level`, suspended or live, until it goes out of scope.
struct Emitter::At {
  At(Emitter& e, Level* l) : emitter(e), level(l), suspended(l->point != nullptr), zmm(e.zmm_) {
    e.zmm_ = l->zmm;
    if (!suspended) return;
    saved = e.cc_.setCursor(l->point);
    l->point = nullptr;
  }
  ~At() {
    emitter.zmm_ = zmm;
    if (suspended) level->point = emitter.cc_.setCursor(saved);
  }
  At(const At&) = delete;
  Emitter& emitter;
  Level* level;
  bool suspended, zmm;
  asmjit::BaseNode* saved = nullptr;
};

constexpr int long_body = 64;  // in the measure of StripPlan::cost: strips are interleaved, code is not repeated

// body(Level&) for each index of [begin, end) in ascending order.
template <class Body> void Emitter::loop(Level& parent, int axis, const Gp& begin, const Gp& end, Body body) {
  suspend(parent);
  const Label top = cc_.newLabel(), done = cc_.newLabel();
  const Gp i = cc_.newGpq();
  if (begin.isValid()) cc_.mov(i, begin);
  else cc_.xor_(i, i);
  cc_.cmp(i, end);
  cc_.jge(done);
  cc_.bind(top);
  {
    Level l = open(LevelKind::loop, &parent, axis, i);
    body(l);
  }
  cc_.inc(i);
  cc_.cmp(i, end);
  cc_.jl(top);
  cc_.bind(done);
  resume(parent);
}

// body(Level& strip, u) for strips of 8 lanes from i on, the last one with a tail mask; i is advanced past the full strips.
// u counts the strips of one iteration. What remains is left where `rest` says so. Long bodies are evaluated in step: one alone would fill the processor's window with
// a single chain of dependent instructions.
template <class Body>
void Emitter::strips(Level& parent, int axis, const Gp& i, const Gp& end, int unroll, const StripPlan& plan, Body body, Rest rest) {
  if (plan.zmm && all_contiguous(parent, axis, i, plan)) {
    strips_of_16(parent, axis, i, end, unroll, plan, body, rest);
    if (rest != Rest::eights) return;
    if (plan.cost < long_body) unroll = 1;  // at most one full strip of 8 remains
  }
  strips_of({&parent}, axis, i, end, unroll, plan, [&](std::vector<Level>& strip, int u) { body(strip[0], u); }, rest);
}

// As strips, in strips of 16 lanes; Rest::eights: the full ones alone.
template <class Body>
void Emitter::strips_of_16(Level& parent, int axis, const Gp& i, const Gp& end, int unroll, const StripPlan& plan, Body body, Rest rest) {
  suspend(parent);
  const auto full = [&](int width) {
    const Label top = cc_.newLabel(), next = cc_.newLabel();
    const Gp limit = cc_.newGpq();
    cc_.lea(limit, asmjit::x86::ptr(end, -16 * width));
    cc_.cmp(i, limit);
    cc_.jg(next);
    cc_.align(asmjit::AlignMode::kCode, 32);
    cc_.bind(top);
    std::vector<Level> levels;
    for (int u = 0; u < width; ++u) {
      levels.push_back(open_strip(&parent, axis, i, 16 * u, plan));
      levels.back().width = width;
      levels.back().zmm = true;
    }
    if (width > 1)
      for (Id v : plan.schedule)
        for (Level& l : levels) rep(v, &l);
    for (int u = 0; u < width; ++u) body(levels[size_t(u)], u);
    cc_.add(i, 16 * width);
    cc_.cmp(i, limit);
    cc_.jle(top);
    cc_.bind(next);
  };
  full(unroll);
  if (unroll > 1 && (rest == Rest::eights || (rest == Rest::masked && plan.cost < long_body))) full(1);
  if (rest == Rest::masked) {
    const Label again = cc_.newLabel(), done = cc_.newLabel();
    const Gp bits = cc_.newGpd(), left = cc_.newGpq();
    cc_.mov(left, end);
    cc_.sub(left, i);
    cc_.jle(done);
    cc_.bind(again);
    cc_.mov(bits, -1);
    cc_.bzhi(bits, bits, left.r32());  // of 32 and more left: all
    Level l = open_strip(&parent, axis, i, 0, plan);
    l.zmm = true;
    l.exists = cc_.newKw();
    cc_.kmovw(l.exists, bits);
    body(l, 0);
    cc_.add(i, 16);
    cc_.sub(left, 16);
    cc_.jg(again);
    cc_.bind(done);
  }
  resume(parent);
}

// The same strip of several parents at a time (rows of a matrix): body(levels, u).
template <class Body>
void Emitter::strips_of(const std::vector<Level*>& parents, int axis, const Gp& i, const Gp& end, int unroll, const StripPlan& plan, Body body, Rest rest) {
  for (Level* p : parents) suspend(*p);
  const auto open_strips = [&](int u, int width) {
    std::vector<Level> levels;
    for (Level* p : parents) {
      levels.push_back(open_strip(p, axis, i, 8 * u, plan));
      levels.back().width = width;
    }
    return levels;
  };
  const auto full = [&](int width) {
    const Label top = cc_.newLabel(), next = cc_.newLabel();
    const Gp limit = cc_.newGpq();
    cc_.lea(limit, asmjit::x86::ptr(end, -8 * width));
    cc_.cmp(i, limit);
    cc_.jg(next);
    cc_.align(asmjit::AlignMode::kCode, 32);
    cc_.bind(top);
    std::vector<std::vector<Level>> levels;
    for (int u = 0; u < width; ++u) levels.push_back(open_strips(u, width));
    if (width > 1)
      for (Id v : plan.schedule)
        for (auto& of_one : levels)
          for (Level& l : of_one) rep(v, &l);
    for (int u = 0; u < width; ++u) body(levels[size_t(u)], u);
    cc_.add(i, 8 * width);
    cc_.cmp(i, limit);
    cc_.jle(top);
    cc_.bind(next);
  };
  full(unroll);
  if (rest == Rest::none) {
    for (Level* p : parents) resume(*p);
    return;
  }
  // Up to unroll - 1 full strips and one partial one remain; a long body is not emitted once more for the full ones.
  const bool masked_loop = unroll > 1 && plan.cost >= long_body;
  if (unroll > 1 && !masked_loop) full(1);
  const Label again = cc_.newLabel(), done = cc_.newLabel();
  const Gp left = cc_.newGpq(), table = cc_.newGpq(), eight = cc_.newGpq();
  if (masked_loop) {
    cc_.mov(eight, 8);
    cc_.bind(again);
  }
  cc_.mov(left, end);
  cc_.sub(left, i);
  cc_.jle(done);
  if (masked_loop) {
    cc_.cmp(left, eight);
    cc_.cmovg(left, eight);
  }
  {
    std::vector<Level> levels = open_strips(0, 1);
    cc_.lea(table, asmjit::x86::ptr(pool_label_, 32));  // after eight words of ones, eight of zeros
    cc_.shl(left, 2);
    cc_.sub(table, left);
    const Ymm tail = cc_.newYmm();
    cc_.vmovdqu(tail, asmjit::x86::ptr(table));
    for (Level& l : levels) l.tail = tail;
    body(levels, 0);
  }
  if (masked_loop) {
    cc_.add(i, 8);
    cc_.jmp(again);
  }
  cc_.bind(done);
  for (Level* p : parents) resume(*p);
}

constexpr int columns_in_block = 512;  // divides a chunk of 1024

// body(Level&) for blocks of columns: level.index is the first, level.end the end.
template <class Body>
void Emitter::blocks_of_columns(Level& parent, int axis, const Gp& begin, const Gp& end, Body body) {
  suspend(parent);
  const Label top = cc_.newLabel(), done = cc_.newLabel();
  const Gp first = cc_.newGpq(), stop = cc_.newGpq();
  cc_.mov(first, begin);
  cc_.cmp(first, end);
  cc_.jge(done);
  cc_.bind(top);
  cc_.lea(stop, asmjit::x86::ptr(first, columns_in_block));
  cc_.cmp(stop, end);
  cc_.cmovg(stop, end);
  {
    Level l = open(LevelKind::columns, &parent, axis, first);
    l.end = stop;
    body(l);
  }
  cc_.mov(first, stop);
  cc_.cmp(first, end);
  cc_.jl(top);
  cc_.bind(done);
  resume(parent);
}

// body(lane) for each set bit, lowest first. The bits are used up.
template <class Body> void Emitter::lane_loop(const Gp& bits, Body body) {
  const Label top = cc_.newLabel(), done = cc_.newLabel();
  const Gp lane = cc_.newGpq();
  cc_.test(bits, bits);
  cc_.jz(done);
  cc_.bind(top);
  cc_.tzcnt(lane.r32(), bits);
  body(lane);
  cc_.blsr(bits, bits);
  cc_.jnz(top);
  cc_.bind(done);
}

}  // namespace frit::jit::x86_code
