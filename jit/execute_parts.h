// The steps of tier 0 by kind of row. Each takes real operands and returns the node's value.
#pragma once
#include <vector>
#include "jit/eager_kernels.h"
#include "jit/x86/product.h"
#include "tracer/convolution.h"
#include "tracer/trace.h"

namespace frit::jit {

using tracer::Trace;
using tracer::Value;
using tracer::ValueRef;

ValueRef run_view(Trace& t, uint32_t n, Value& in);            // null when a reshape must copy
ValueRef run_reshape_copy(Trace& t, uint32_t n, Value& in);
ValueRef run_pointwise(Trace& t, uint32_t n, Value* const* inputs, bool writes);  // writes: inputs[0], in place
ValueRef run_copy(Trace& t, uint32_t n, Value& in);
ValueRef run_source(Trace& t, uint32_t n);
ValueRef run_reduce(Trace& t, uint32_t n, Value& in);
ValueRef run_product(Trace& t, uint32_t n, Value& a, Value& b);
// A matmul with its result's memory, not computed yet; made where it lies, since it points into itself.
struct PreparedProduct {
  PreparedProduct(Trace& t, uint32_t n, const Value& a, const Value& b);
  PreparedProduct(const PreparedProduct&) = delete;
  void run(Epilogue* then = nullptr, Prologue* before = nullptr, const char* kept = nullptr) const;  // kept: B, packed
  Product p{};
  ValueRef out;  // whoever runs it keeps that alive

 private:
  const void *a_, *b_;
  void* c_;
  std::vector<int64_t> offsets_[3];
};
ValueRef run_convolution(Trace& t, uint32_t n, Value& a, Value& b);
// Likewise a convolution of floating type.
struct PreparedConvolution {
  PreparedConvolution(Trace& t, uint32_t n, Value& a, Value& b);
  PreparedConvolution(const PreparedConvolution&) = delete;
  void run(Epilogue* then = nullptr) const;
  bool tells_blocks() const;  // whose rows are images' channels, and whose columns are places
  int64_t rows = 0, columns = 0;
  ValueRef out;

 private:
  tracer::Op op_;
  tracer::Convolution c_;
  ValueRef inputs_[2];
  void* result_;
};
ValueRef run_pool(Trace& t, uint32_t n, Value& in);
ValueRef run_cat(Trace& t, uint32_t n, Value* const* inputs);
ValueRef run_gather(Trace& t, uint32_t n, Value& in, Value& index);
ValueRef run_scatter(Trace& t, uint32_t n, Value& self, Value& index, Value& source, bool writes);
ValueRef run_unslice(Trace& t, uint32_t n, Value& in);
ValueRef run_flip(Trace& t, uint32_t n, Value& in);

// Plain strided copy without generated code, for the interpreter's results.
void copy_interpreted(const Value& from, Value& to);
// to's elements = from's, converted; from broadcasts to to's extents.
void copy_values(const Value& from, Value& to);
// Throws IndexError naming the op, the index and the extent.
void check_indices(const tracer::Node& of, const Value& index, int64_t extent);

// An iteration space shared by several operands (the result first): axes of extent 1 dropped, ordered for the result's
// memory, neighbours merged where every operand allows it. The last axis is the innermost.
struct Space {
  int rank = 0;
  int operands = 0;
  int64_t extent[tracer::max_rank];
  int64_t stride[max_operands][tracer::max_rank];
  bool empty = false;

  void start(const Value& result);
  void add(const Value& v);       // broadcasts from the right
  void add_strides(const int64_t* strides);
  void simplify(bool reorder = true);
  Step step(int operand) const;
  int64_t inner_stride(int operand) const { return rank ? stride[operand][rank - 1] : 1; }
  int64_t inner_extent() const { return rank ? extent[rank - 1] : 1; }
  int64_t outer_count() const;
};

}  // namespace frit::jit
