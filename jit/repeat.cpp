// Repeated flushes: see repeat.h. What Work and make_key read of a trace beyond its nodes is compared here: which handles are
// alive, which nodes a backward walked, how leaves lie and which share memory, fast_math, and the generation of the bucket policies.
// Start at RepeatedFlush::matches.
#include "jit/repeat.h"
#include <algorithm>
#include "tracer/custom.h"

namespace frit::jit {

using namespace tracer;

namespace {
constexpr size_t most_records = 8, most_variants = 64;
}

RepeatedFlush::RepeatedFlush(const Trace& t, const TraceKey& key, uint32_t ops)
    : generation_(policy_generation()), fast_math_(t.fast_math), ops_(ops), structure_(hash_of(key.structure)), owned_(t.nodes.size()), walked_(t.walked) {
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    owned_[n] = t.owner[n] != nullptr;
    if (t.nodes[n].call.op != Op::leaf) continue;
    leaves_.push_back(n);
    strides_.push_back(stride_class(*t.value[n]));
  }
  memory_ = memory_of(t, leaves_);
  for (const TraceKey::Axis& a : key.axes) axes_.push_back({a.id, a.name, AxisCount(a.name)});
}
bool RepeatedFlush::matches(const Trace& t) const {
  unsigned other = generation_ != policy_generation() || fast_math_ != t.fast_math || t.walked != walked_;
  for (size_t n = 0; n < owned_.size(); ++n) other |= unsigned(t.owner[n] != nullptr) ^ owned_[n];
  if (other) return false;
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (stride_class(*t.value[leaves_[i]]) != strides_[i]) return false;
  return memory_of(t, leaves_) == memory_;
}
PlanUse RepeatedFlush::plan(const Trace& t) {
  const auto holds = [&](const Variant& v) {
    for (size_t i = 0; i < axes_.size(); ++i)
      if (const int64_t e = t.extent[axes_[i].id]; e <= v.buckets[i].low || e > v.buckets[i].high) return false;
    return true;
  };
  const auto at = std::find_if(variants_.begin(), variants_.end(), holds);
  if (at == variants_.end()) return {};
  PlanUse p = PlanUse{at->plan.lock(), at->life, false}.again();
  if (!p.plan) {
    variants_.erase(at);
    return {};
  }
  for (Axis& a : axes_) a.count.add(t.extent[a.id]);
  return p;
}
std::vector<TraceKey::Axis> RepeatedFlush::axes(const Trace& t) const {
  std::vector<TraceKey::Axis> list;
  for (const Axis& a : axes_) list.push_back({a.name, a.id, t.extent[a.id], policy_of(a.name).bucket(t.extent[a.id])});
  return list;
}
void RepeatedFlush::add(const TraceKey& key, const PlanUse& use) {
  if (variants_.size() >= most_variants) variants_.erase(variants_.begin());
  Variant v{{}, use.plan, use.life};
  for (const TraceKey::Axis& a : key.axes) v.buckets.push_back(a.bucket);
  variants_.push_back(std::move(v));
}

RepeatedFlush* repeated_flush(const Trace& t) {
  if (!t.records) return nullptr;
  for (const auto& r : *t.records)
    if (auto* seen = static_cast<RepeatedFlush*>(r.get()); seen->matches(t)) return seen;
  return nullptr;
}
RepeatedFlush* remember_flush(const Trace& t, const TraceKey& key, uint32_t ops) {
  if (!t.records) return nullptr;
  for (uint32_t n = 0; n < t.nodes.size(); ++n)
    if (is_custom(t, n)) return nullptr;
  if (t.records->size() >= most_records) t.records->erase(t.records->begin());
  t.records->push_back(std::make_unique<RepeatedFlush>(t, key, ops));
  return static_cast<RepeatedFlush*>(t.records->back().get());
}

}  // namespace frit::jit
