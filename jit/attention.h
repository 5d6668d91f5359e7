// The attention rows on the CPU: their block programs, compiled once for each kind, with a node's values as arguments.
#pragma once
#include "kernels/attention.h"
#include "tracer/attention.h"

namespace frit::jit {

// Arguments of the block programs; `tables` keeps what they point at.
struct AttentionArguments {
  std::vector<kernels::Slot> slots;
  std::vector<std::vector<int64_t>> tables;
  void push(const void* p) { slots.push_back(reinterpret_cast<kernels::Slot>(p)); }
  void push(int64_t v) { slots.push_back(kernels::Slot(v)); }
};
AttentionArguments attention_arguments(const tracer::AttentionProblem& p, const void* query, const void* key, const void* value, const void* mask);

tracer::ValueRef run_attention(tracer::Trace& t, uint32_t n, tracer::Value* const* inputs);           // with its logsumexp where a gradient is wanted
tracer::ValueRef run_attention_gradient(tracer::Trace& t, uint32_t n, tracer::Value* const* inputs);  // with the key's and the value's gradients

}  // namespace frit::jit
