// Matrix products on generated AVX2 micro-kernels: packing, blocking, the batch and vector cases. See tracer/product.h
// for what they compute.
#pragma once
#include "tracer/product.h"

namespace frit::jit {

// What is to be done with C where it is finished, while it is still in the caches.
class Epilogue {
 public:
  virtual ~Epilogue() = default;
  // Of the batch's matrices one below the other: rows [row, row + rows), columns [column, column + columns). Every element is in one such
  // call; several threads make them.
  virtual void run(int64_t row, int64_t rows, int64_t column, int64_t columns) = 0;
};

// What makes A, row by row, just before it is read.
class Prologue {
 public:
  virtual ~Prologue() = default;
  // Rows of the batch's matrices one below the other. Every row is in one such call; several threads make them.
  virtual void begin(int64_t row, int64_t rows) = 0;
};

// Float32, Float64, Float16, BFloat16 on generated code; integers by plain loops. Parallel over batches and blocks of C.
// Throws std::bad_alloc when a packing buffer cannot be had. kept: B as pack_right made it; then b is not read.
void product_x86(const Product& p, const void* a, const void* b, void* c, Epilogue* then = nullptr, Prologue* before = nullptr, const char* kept = nullptr);
// B once more as the micro-kernels read it, for all products with that B, whatever their A. Bytes of it; 0: p has to be made without.
size_t packed_right_bytes(const Product& p);
bool gains_from_packed(const Product& p);  // where it was measured to be faster
void pack_right(const Product& p, const void* b, char* out);
void release_product_buffers();  // gives the packing buffers of all threads that are not in use back to the system

}  // namespace frit::jit
