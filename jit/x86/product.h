// Matrix products on generated AVX2 micro-kernels: packing, blocking, the batch and vector cases. See tracer/product.h
// for what they compute.
#pragma once
#include "tracer/product.h"

namespace frit::jit {

// Float32, Float64, Float16, BFloat16 on generated code; integers by plain loops. Parallel over batches and blocks of C.
// Throws std::bad_alloc when a packing buffer cannot be had.
void product_x86(const Product& p, const void* a, const void* b, void* c);
void release_product_buffers();  // gives the packing buffers of all threads that are not in use back to the system

}  // namespace frit::jit
