// Softmax and its kin along the last axis, as block programs: matrices [rows, columns] in order. Half formats compute in float32 and round once.
// Each takes its pointers in the order named, then the columns and rows. What the gradients compute is said beside them; g is the result's.
#pragma once
#include "kernels/program.h"

namespace frit::kernels {

Program softmax(Dtype storage);               // result, x
Program softmax_gradient(Dtype storage);      // gradient of x, y, g: y (g - sum(y g))
Program log_softmax(Dtype storage);           // result, x
Program log_softmax_gradient(Dtype storage);  // gradient of x, y, g: g - e^y sum(g)
Program logsumexp(Dtype storage);             // result [rows], x; infinite maxima are not subtracted
Program logsumexp_gradient(Dtype storage);    // gradient of x, x, result [rows], g [rows]: g e^(x - result)
// The part of a row: minus the logarithm of the target's probability; 0 where the target is `ignored`, a parameter after the pointers.
Program cross_entropy(Dtype storage);           // result [rows], x, target [rows] (Int64)
Program cross_entropy_gradient(Dtype storage);  // gradient of x, x, target [rows], g [rows]: g (softmax(x) - [column = target])

}  // namespace frit::kernels
