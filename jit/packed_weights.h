// Right sides of products that stay what they are from run to run, kept as the micro-kernels read them. A weight is packed in the third run in a
// row that finds the same bytes: the same storage, which nobody wrote (its version, and no pointer to it that the user has), read the same way.
// All that is kept is bounded together (FRIT_PACKED_WEIGHTS), is tensors' memory, and goes when the weight is written or goes, when every
// plan that read it is gone, and when memory is short. No bit depends on it.
#pragma once
#include <memory>
#include "tracer/product.h"
#include "tracer/value.h"

namespace frit::jit {

class PackedWeight {
 public:
  explicit PackedWeight(tracer::ValueRef memory) : memory_(std::move(memory)) {}
  const char* data() const { return memory_->data(); }
  const tracer::Value& memory() const { return *memory_; }

 private:
  tracer::ValueRef memory_;
};

// B of a product in a run of a plan, if it is kept, or is to be from now on. The run's number tells one run from the next.
std::shared_ptr<const PackedWeight> packed_weight(const Product& p, const tracer::Value& b, const void* plan, uint64_t run);
void forget_packed_of(const void* plan) noexcept;  // the plan is gone
int64_t packed_weight_bytes();                     // kept now
void set_packed_weight_limit(int64_t bytes);       // FRIT_PACKED_WEIGHTS at the start; what is kept goes
void log_packed_weights();                         // in the log of memory: what they are

}  // namespace frit::jit
