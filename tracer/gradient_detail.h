// What the gradient rules' files share. Not an interface for other parts.
#pragma once
#include "tracer/gradient.h"

namespace frit::tracer {

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

// ---- products along an axis, right with zeros at every order ------------------------------------------------------------------
Var cumprod_vjp(const Var& x, const Var& g, int axis);
Var cumprod_jvp(const Var& x, const Var& tangent, int axis);
Var product_of_others(const Var& x, uint64_t axes);  // per element: the product of all others along the axes

}  // namespace frit::tracer
