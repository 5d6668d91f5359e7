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

// The least and the greatest element of a real tensor of whole numbers; nothing where it is empty, deferred, or of another type.
std::optional<std::pair<int64_t, int64_t>> real_range(const Tensor& index);
// An index that is real already is checked at the call: throws IndexError. (Another one is when it is run; in eager mode that is the call.)
void check_real_index(const Tensor& index, int64_t extent, const char* op);

}  // namespace frit::detail
