// Where a strip's elements lie, and which of its lanes take part. Start with Emitter::access.
#include "jit/x86/levels.h"

namespace frit::jit::x86_code {

using asmjit::x86::ptr;

// ---- addresses ------------------------------------------------------------------------------------------------------

// The offset at index 0; none when that is 0. Emitted at l, where all but the axis is bound.
std::optional<Gp> Emitter::affine_base(Id offset, int axis, Level* l) {
  if (!a_.varies(offset, axis)) {
    if (integer_constant(offset) == 0) return std::nullopt;
    return gp(offset, l);
  }
  const Instr& i = instr(offset);
  if (i.op == Op::index) return std::nullopt;
  const auto a = affine_base(i.in[0], axis, l);
  if (i.prim == Prim::neg) {
    if (!a) return a;
    const Gp g = cc_.newGpq();
    cc_.mov(g, *a);
    cc_.neg(g);
    return g;
  }
  const auto b = affine_base(i.in[1], axis, l);
  if (i.prim == Prim::mul) {
    if (!a || !b) return std::nullopt;
  } else {
    if (!b) return a;
    if (!a && i.prim == Prim::add) return b;
  }
  const Gp g = cc_.newGpq();
  if (a) cc_.mov(g, *a);
  else cc_.xor_(g, g);
  if (i.prim == Prim::mul) cc_.imul(g, *b);
  else if (i.prim == Prim::add) cc_.add(g, *b);
  else cc_.sub(g, *b);
  return g;
}

Coefficient Emitter::coefficient(Id offset, int axis, Level* l) {
  if (!a_.varies(offset, axis)) return {};
  const Instr& i = instr(offset);
  if (i.op == Op::index) return {true, 1, {}};
  const auto in_register = [&](const Coefficient& c) {
    const Gp g = cc_.newGpq();
    if (c.constant) cc_.mov(g, c.value);
    else cc_.mov(g, c.g);
    return g;
  };
  if (i.prim == Prim::mul) {
    const bool first = a_.varies(i.in[0], axis);
    const Coefficient c = coefficient(first ? i.in[0] : i.in[1], axis, l);
    const Id factor = first ? i.in[1] : i.in[0];
    const auto known = integer_constant(factor);
    if (c.constant && known) return {true, int64_t(uint64_t(c.value) * uint64_t(*known)), {}};
    if (c.constant && c.value == 1) return {false, 0, gp(factor, l)};
    const Gp g = in_register(c);
    cc_.imul(g, gp(factor, l));
    return {false, 0, g};
  }
  const Coefficient a = coefficient(i.in[0], axis, l);
  const Coefficient b = i.prim == Prim::neg ? Coefficient{} : coefficient(i.in[1], axis, l);
  if (a.constant && b.constant) {
    if (i.prim == Prim::neg) return {true, -a.value, {}};
    return {true, i.prim == Prim::add ? a.value + b.value : a.value - b.value, {}};
  }
  const Gp g = in_register(a);
  if (i.prim == Prim::neg) cc_.neg(g);
  else if (i.prim == Prim::add) cc_.add(g, in_register(b));
  else cc_.sub(g, in_register(b));
  return {false, 0, g};
}

Access Emitter::access(Id pointer, Id offset, Level* l) {
  Access x;
  x.memory = memory_dtype(pointer);
  x.index = l->index;
  x.displacement = l->displacement;
  const int size = int(size_of(x.memory)), axis = l->axis;
  if (!a_.affine(offset, axis)) {
    x.kind = Access::scattered;
    x.base = gp(pointer, l);
    x.offsets[0] = lanes(offset, l, 0), x.offsets[1] = lanes(offset, l, 1);
    return x;
  }
  Level* outer = placement(AxisMask(a_.depends[offset] & ~axis_bit(axis)), l);
  const auto derive = [&](uint64_t key, auto make) -> Level::Derived {
    for (const auto& d : outer->derived)
      if (d.key == key) return d;
    At at(*this, outer);
    Level::Derived d = make();
    d.key = key;
    outer->derived.push_back(d);
    return d;
  };
  const uint64_t key = uint64_t(offset) << 8 | uint64_t(axis) << 4;
  x.base = derive(key | uint64_t(pointer) << 32 | 1, [&] {
    const auto base = affine_base(offset, axis, outer);
    const Gp p = gp(pointer, outer);
    if (!base) return Level::Derived{0, p, 0, false};
    const Gp g = cc_.newGpq();
    cc_.lea(g, ptr(p, *base, uint32_t(x.shift())));
    return Level::Derived{0, g, 0, false};
  }).g;
  if (prefetches_here(pointer, offset, l))
    x.next_row = derive(key | uint64_t(pointer) << 32 | 3, [&] {
      const Gp g = cc_.newGpq();
      cc_.lea(g, ptr(x.base, gp(p_.axes[size_t(axis)].extent, outer), uint32_t(x.shift())));
      return Level::Derived{0, g, 0, false};
    }).g;
  const auto stride = derive(key | uint64_t(size) << 32 | 2, [&] {
    const Coefficient c = coefficient(offset, axis, outer);
    Level::Derived d{0, {}, c.value, c.constant};
    if (c.constant && (c.value == 0 || c.value == 1)) return d;
    d.g = cc_.newGpq();
    if (c.constant) cc_.mov(d.g, c.value * size);
    else cc_.imul(d.g, c.g, size);
    return d;
  });
  x.kind = !stride.is_constant ? Access::strided
           : stride.constant == 0 ? Access::uniform
           : stride.constant == 1 ? Access::contiguous
                                  : Access::strided;
  x.stride = stride.g;
  return x;
}

// Of the strip's first element; the pointer for scattered accesses.
Gp Emitter::first_address(const Access& x) {
  if (x.kind == Access::uniform || x.kind == Access::scattered) return x.base;
  const Gp p = cc_.newGpq();
  if (x.kind == Access::contiguous) {
    cc_.lea(p, x.at());
    return p;
  }
  if (x.displacement) cc_.lea(p, ptr(x.index, int32_t(x.displacement)));
  else cc_.mov(p, x.index);
  cc_.imul(p, x.stride);
  cc_.add(p, x.base);
  return p;
}

// ---- masks ----------------------------------------------------------------------------------------------------------

// The lanes that exist and, when a mask is given, are true in it.
Mask Emitter::mask_of(Id mask, Level* l) {
  Mask m;
  m.explicit_mask = mask;
  m.level = l;
  m.any = mask != no_value || l->tail.isValid();
  return m;
}

const Ymm& Emitter::narrow(Mask& m) {
  if (m.narrow.isValid()) return m.narrow;
  const Ymm& tail = m.level->tail;
  if (m.explicit_mask == no_value) m.narrow = tail;
  else if (!tail.isValid()) m.narrow = lanes(m.explicit_mask, m.level);
  else m.narrow = emit2(Inst::kIdVpand, tail, source(m.explicit_mask, m.level));
  return m.narrow;
}

const Ymm& Emitter::wide(Mask& m, int half) {
  if (m.wide[half].isValid()) return m.wide[half];
  const bool has_tail = m.level->tail.isValid();
  Ymm tail;
  if (has_tail) {
    Ymm& t = m.level->tail_wide[half];
    if (!t.isValid()) t = widen(m.level->tail, half);
    tail = t;
  }
  if (m.explicit_mask == no_value) m.wide[half] = tail;
  else if (!has_tail) m.wide[half] = wide_mask(m.explicit_mask, m.level, half);
  else m.wide[half] = emit2(Inst::kIdVpand, tail, wide_mask(m.explicit_mask, m.level, half));
  return m.wide[half];
}

Gp Emitter::mask_bits(Mask& m) {
  const Gp bits = cc_.newGpd();
  if (m.any) cc_.vmovmskps(bits, narrow(m));
  else cc_.mov(bits, 0xff);
  return bits;
}

}  // namespace frit::jit::x86_code
