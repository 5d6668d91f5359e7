// Matrix products C = A B for every layout: the problem, and the oracle that follows the definition. The bits are DESIGN
// section 4's and depend on nothing but the operands' values and m, n, k: K in panels of 256, each one fma chain in ascending k from
// +0, panels added in order ((p0 + p1) + p2 …); when m = 1 or n = 1 the product is a reduction whose lanes are fma chains
// (chunks of 1024, lane = k mod 8 within the chunk, lanes from +0 in ascending order, combined as
// ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)), chunks pairwise by position, split at the largest power of two below the count).
// Float32 accumulates in Float32, Float64 in Float64; half formats are widened to Float32 exactly, accumulate as Float32
// and round once at the end; integers wrap in their own width (any order).
#pragma once
#include <cstdint>
#include "runtime/dtype.h"

namespace frit {

struct Product {
  Dtype dtype;  // of A, B and C
  int64_t m, n, k;
  // Element strides; a_row is the step from one row of A to the next, a_col from one column to the next. Any values,
  // zero and negative included (views, broadcasts); C's elements are distinct and overlap neither A nor B.
  int64_t a_row, a_col, b_row, b_col, c_row, c_col;
  // Batch index i uses a + a_offset[i] …; a null array means 0 for every batch (a shared operand).
  int64_t batch = 1;
  const int64_t* a_offset = nullptr;
  const int64_t* b_offset = nullptr;
  const int64_t* c_offset = nullptr;
};

// k = 0 gives zeros.
void product_reference(const Product& p, const void* a, const void* b, void* c);

}  // namespace frit
