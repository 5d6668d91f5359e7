// A flush like one before. A trace that was followed to its end (tracer/follow.h), with the same handles alive and its leaves
// lying in memory alike, has the key that it had then, its buckets aside: neither the key nor what is needed is found again.
#pragma once
#include <memory>
#include "jit/tiers.h"
#include "tracer/follow.h"

namespace frit::jit {

class RepeatedFlush final : public tracer::FlushRecord {
 public:
  RepeatedFlush(const Trace& t, const TraceKey& key, uint32_t ops);
  bool matches(const Trace& t) const;
  // The plan for the extents of t, when their buckets were met before and the plan is still kept.
  PlanUse plan(const Trace& t);
  void add(const TraceKey& key, const PlanUse& use);
  uint32_t ops() const { return ops_; }
  uint64_t structure() const { return structure_; }       // hash_of the key's
  std::vector<TraceKey::Axis> axes(const Trace& t) const;  // as the key's, for the extents of t

 private:
  struct Axis {
    tracer::SizeId id;
    uint16_t name;
    AxisCount count;                   // of the histogram
  };
  struct Variant {
    std::vector<BucketPolicy::Bucket> buckets;  // by axis
    std::weak_ptr<Plan> plan;                   // the cache's to keep
    std::shared_ptr<PlanUse::Life> life;
  };
  uint64_t generation_;
  bool fast_math_;
  uint32_t ops_;
  uint64_t structure_;
  std::vector<uint8_t> owned_;         // by node
  std::vector<bool> walked_;
  std::vector<uint32_t> leaves_, memory_;  // nodes, and which of them share memory
  std::vector<uint64_t> strides_;
  std::vector<Axis> axes_;
  std::vector<Variant> variants_;
};

// What a flush of this trace is known to need, or null.
RepeatedFlush* repeated_flush(const Trace& t);
// Null when such flushes are not to be told apart by their nodes (custom gradients), or the trace is not known.
RepeatedFlush* remember_flush(const Trace& t, const TraceKey& key, uint32_t ops);

}  // namespace frit::jit
