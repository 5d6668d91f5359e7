// The key of a trace: one byte string that holds all that changes its plan. Two traces with equal keys run the same plan
// with other extents, numbers and data. `structure` is the key without its buckets.
#pragma once
#include <string>
#include <vector>
#include "jit/buckets.h"
#include "tracer/trace.h"

namespace frit::jit {

using tracer::Trace;

struct TraceKey {
  std::string structure;
  struct Axis {               // an independent size class, in order of first use
    uint16_t name;
    tracer::SizeId id;        // its class in the trace
    int64_t extent;
    BucketPolicy::Bucket bucket;
  };
  std::vector<Axis> axes;
  std::string bytes() const;  // structure and buckets
};

// roots: by node, what must be real afterwards. The trace's size classes are read, nothing is changed.
// How a leaf's strides lie: 0 contiguous; else per axis its place in the order of strides, or that it repeats.
uint64_t hash_of(const std::string& structure);
uint64_t stride_class(const tracer::Value& v);
TraceKey make_key(const Trace& t, const std::vector<bool>& roots);

}  // namespace frit::jit
