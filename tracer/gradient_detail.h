// What the gradient rules' files share. Not an interface for other parts.
#pragma once
#include "tracer/gradient.h"

namespace frit::tracer {

// ---- walks ---------------------------------------------------------------------------------------------------------------
struct Place {
  Trace* trace;
  uint32_t node;
  bool operator<(const Place& o) const {
    return trace->order != o.trace->order ? trace->order < o.trace->order : trace != o.trace ? trace < o.trace : node < o.node;
  }
};
// Where a handle's value was made: its deferred node, its kept node, or itself when it is a gradient leaf. Neither: no gradient goes there.
struct Origin {
  Place place{nullptr, 0};
  Cell* leaf = nullptr;
};
Origin origin_of(Trace& t, uint32_t n);  // a leaf's origin is where it came from
Origin origin_of(Cell* c);
inline bool wants(const Trace& t, uint32_t n) { return n != scalar_operand && (t.nodes[n].result.flags & wants_grad); }
// The gradients of the weighted roots at these origins, where the walk ends: nothing before them is visited, their hooks are not called, and no
// leaf's grad() is touched. Undefined where none arrives.
std::vector<Var> gradients_at(const std::vector<Origin>& ends, const std::vector<Var>& roots, const std::vector<Var>& weights, bool create_graph);
uint64_t next_flush_order();             // traces that are kept from now on have this order or a higher one

// ---- as_strided, by elements: both geometries speak of one storage --------------------------------------------------------
struct StridedView {
  Sizes base, extents;               // extents
  Sizes base_strides, strides;
  int64_t base_offset = 0, offset = 0;
};
// args as the row has them: offset, extents, strides, the base's offset and strides.
StridedView strided_view(const Sizes& base_extents, const int64_t* args, int rank);
Var take_strided(const StridedView& s, const Var& base);                      // what the view shows of a base with these elements
Var put_strided(const StridedView& s, const Var& base, const Var& content);   // the base after the view was written
Var strided_gradient(const StridedView& s, const Var& g);                     // of the base; where elements overlap it is summed

// ---- attention (gradient_attention.cpp) --------------------------------------------------------------------------------------
std::vector<Var> attention_vjp(RuleContext& c, const Var& g);
Var attention_jvp(RuleContext& c, const std::vector<Var>& tangents);

// ---- products along an axis, right with zeros at every order ------------------------------------------------------------------
Var cumprod_vjp(const Var& x, const Var& g, int axis);
Var cumprod_jvp(const Var& x, const Var& tangent, int axis);
Var product_of_others(const Var& x, uint64_t axes);  // per element: the product of all others along the axes

}  // namespace frit::tracer
