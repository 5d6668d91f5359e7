// The source rows as scalar functions of an element's linear index: what the interpreter evaluates and kernels are
// generated from.
#pragma once
#include "tracer/node.h"
#include "tracer/scalar.h"

namespace frit::tracer {

// random_uniform, random_normal, random_integer. Input 0: the index (Int64). Params: seed, stream, and for random_integer
// low and span (Int64 bits; span is unsigned). One result, in compute_dtype(d), which converts to d without leaving the
// interval. Integer types take the floating distributions truncated.
scalar::Function random_function(Op op, Dtype d);

// start + index * step, in Float64 or wrapping in Int64, converted to compute_dtype(d). Input 0: the index; params: start,
// step (Float64 bits when floating).
scalar::Function arange_function(bool floating, Dtype d);

}  // namespace frit::tracer
