// Pooled maxima and their places, in one pass over the input. See tracer/convolution.h for what they are.
#pragma once
#include "tracer/convolution.h"

namespace frit::jit {

// places: int64 places in the channel; else the elements. The result is contiguous. Parallel over channels.
void pool_x86(bool places, const tracer::Pooling& p, const tracer::Images& in, void* out);

}  // namespace frit::jit
