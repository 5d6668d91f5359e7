// What the frontend's files share: argument checks.
#pragma once
#include "frit/functions.h"
#include "tracer/trace.h"
#include "tracer/user_call.h"

namespace frit::detail {

using handle::Var;
using tracer::UserCall;
using tracer::Sizes;

tracer::Cell* cell_of(const Tensor& t, const char* op);    // throws ValueError when undefined
tracer::Value& value_of(const Tensor& t, const char* op);  // flushes when deferred
std::string shape_text(IntArrayRef s);
// Non-negative; throws IndexError. insert: the axis may be one past the last.
int wrap_axis(int64_t axis, int64_t rank, const char* op, bool insert = false);
uint64_t axis_mask(OptionalIntArrayRef axes, int64_t rank, const char* op);  // absent or empty: all

}  // namespace frit::detail
