// Layer and RMS normalisation over the last axis, as block programs: matrices [rows, columns] in order, weight and bias [columns]. Half formats
// compute in float32 and round once. Each takes its pointers in the order named, [epsilon,] then the columns and rows; g is the result's gradient.
#pragma once
#include "kernels/program.h"

namespace frit::kernels {

Program layer_norm(Dtype storage);           // result, x, weight, bias; epsilon
// result: gradient of x; x, weight, g; epsilon. With c = x - mean(x), r = 1 / sqrt(mean(c²) + epsilon), n = c r, h = g weight: r (h - mean(h) - n mean(h n))
Program layer_norm_gradient(Dtype storage);
Program rms_norm(Dtype storage);             // result, x, weight; epsilon
Program rms_norm_gradient(Dtype storage);    // as above with c = x and without mean(h)
// Of weight and bias, the sums over rows of g n and of g: gradient of weight, of bias [columns], x, g, mean and r of each row. Computed side by side.
Program norm_parameter_gradients(Dtype storage);

}  // namespace frit::kernels
