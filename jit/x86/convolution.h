// Convolutions on the products' micro-kernels: a panel of the unfolded operand is packed straight from the images, and nothing larger than
// that is ever made. See tracer/convolution.h for what they compute.
#pragma once
#include "jit/x86/product.h"
#include "tracer/convolution.h"

namespace frit::jit {

// Of floating types. op: Op::convolution (input, weight), convolution_input (gradient, weight), convolution_weight (gradient, input). The weight
// is contiguous, and in convolution_weight the gradient's rows continue each other. The result is contiguous. Parallel over images, groups and
// blocks. Throws std::bad_alloc when a packing buffer cannot be had. then, where the op tells_blocks: is told the result's blocks as they are finished;
// rows are channels, those of one image after the other's, and columns places.
void convolution_x86(tracer::Op op, const tracer::Convolution& c, const tracer::Images& a, const tracer::Images& b, void* result, Epilogue* then = nullptr);
bool tells_blocks(tracer::Op op, const tracer::Convolution& c);

}  // namespace frit::jit
