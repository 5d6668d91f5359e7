// Checkpoints: a function whose intermediate values are not kept for its gradient but made again in backward.
#pragma once
#include <functional>
#include "tracer/var.h"

namespace frit::tracer {

using CheckpointFunction = std::function<std::vector<Var>(const std::vector<Var>&)>;
// f(inputs). Its backward calls f again, with the same random numbers; gradients reach the inputs and whatever f captures. f must do
// the same each time and may not write its inputs in place. Throws AutogradError.
std::vector<Var> checkpoint(CheckpointFunction f, const std::vector<Var>& inputs);

}  // namespace frit::tracer
