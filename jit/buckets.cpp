// Bucket policies and the process's table of them.
#include "jit/buckets.h"
#include <algorithm>
#include <atomic>
#include <bit>
#include <climits>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include "runtime/error.h"

namespace frit::jit {

BucketPolicy BucketPolicy::multiple_of(int64_t k) {
  if (k < 1) throw ValueError("Buckets::multiple_of: " + std::to_string(k) + " is no step. Give 1 or more.");
  BucketPolicy p(Kind::multiple_of);
  p.numbers_ = {k};
  return p;
}
BucketPolicy BucketPolicy::edges(std::vector<int64_t> e) {
  if (e.empty() || e[0] < 1 || std::adjacent_find(e.begin(), e.end(), std::greater_equal<>()) != e.end())
    throw ValueError("Buckets::edges: the edges must be ascending and at least 1. Sort them and drop what repeats.");
  BucketPolicy p(Kind::edges);
  p.numbers_ = std::move(e);
  return p;
}
BucketPolicy::Bucket BucketPolicy::bucket(int64_t extent) const {
  switch (kind_) {
    case Kind::pow2: {
      const int64_t high = extent <= 1 ? extent : int64_t(std::bit_ceil(uint64_t(extent)));
      return {high / 2, high};
    }
    case Kind::exact: return {extent - 1, extent};
    case Kind::dynamic: return {1, INT64_MAX};
    case Kind::multiple_of: {
      const int64_t k = numbers_[0], i = (extent + k - 1) / k;
      return {(i - 1) * k, i * k};
    }
    case Kind::edges: {
      const auto at = std::lower_bound(numbers_.begin(), numbers_.end(), extent);
      return {at == numbers_.begin() ? 0 : at[-1], at == numbers_.end() ? INT64_MAX : *at};
    }
  }
  __builtin_unreachable();
}
std::string BucketPolicy::text() const {
  std::string s;
  switch (kind_) {
    case Kind::pow2: return "pow2";
    case Kind::exact: return "exact";
    case Kind::dynamic: return "dynamic";
    case Kind::multiple_of: return "multiple_of(" + std::to_string(numbers_[0]) + ")";
    case Kind::edges:
      for (int64_t e : numbers_) s += (s.empty() ? "" : ", ") + std::to_string(e);
      return "edges{" + s + "}";
  }
  __builtin_unreachable();
}
std::string bucket_text(BucketPolicy::Bucket b) {
  if (b.high == INT64_MAX) return "(" + std::to_string(b.low) + ", inf)";
  if (b.high == b.low + 1) return std::to_string(b.high);
  return "(" + std::to_string(b.low) + ", " + std::to_string(b.high) + "]";
}

namespace {
struct Table {
  std::shared_mutex lock;
  std::deque<std::string> names{""};  // references to its elements stay valid
  std::vector<BucketPolicy> policies{BucketPolicy::pow2()};
  std::vector<bool> own{true};  // false: follows the default
  std::vector<bool> pinned{false};
  std::atomic<uint64_t> generation{1};
};
Table& table() {
  static Table* t = new Table;  // never destroyed
  return *t;
}
uint16_t intern(Table& t, const std::string& name) {
  for (size_t i = 1; i < t.names.size(); ++i)
    if (t.names[i] == name) return uint16_t(i);
  if (t.names.size() >= 0xffff) throw ValueError("axis names: 65,535 names are in use. Use fewer.");
  t.names.push_back(name);
  t.policies.push_back(t.policies[0]);
  t.own.push_back(false);
  t.pinned.push_back(false);
  return uint16_t(t.names.size() - 1);
}
}  // namespace

uint16_t axis_name_id(const std::string& name) {
  Table& t = table();
  const std::unique_lock hold(t.lock);
  return intern(t, name);
}
const std::string& axis_name(uint16_t id) {
  Table& t = table();
  const std::shared_lock hold(t.lock);
  return t.names[id];
}
void set_policy(const std::string& name, const BucketPolicy& p) {
  Table& t = table();
  const std::unique_lock hold(t.lock);
  const uint16_t id = intern(t, name);
  if (t.pinned[id]) return;
  t.policies[id] = p, t.own[id] = true;
  ++t.generation;
}
void set_default_policy(const BucketPolicy& p) {
  Table& t = table();
  const std::unique_lock hold(t.lock);
  if (t.pinned[0]) return;
  t.policies[0] = p;
  for (size_t i = 1; i < t.policies.size(); ++i)
    if (!t.own[i]) t.policies[i] = p;
  ++t.generation;
}
void pin_policy(const std::string& name, const BucketPolicy& p) {
  name.empty() ? set_default_policy(p) : set_policy(name, p);
  Table& t = table();
  const std::unique_lock hold(t.lock);
  t.pinned[name.empty() ? 0 : intern(t, name)] = true;
}
BucketPolicy policy_of(uint16_t name) {
  Table& t = table();
  const std::shared_lock hold(t.lock);
  return t.policies[name];
}
std::map<std::string, BucketPolicy> all_policies() {
  Table& t = table();
  const std::shared_lock hold(t.lock);
  std::map<std::string, BucketPolicy> m;
  for (size_t i = 0; i < t.names.size(); ++i)
    if (t.own[i]) m.emplace(t.names[i], t.policies[i]);
  return m;
}
uint64_t policy_generation() { return table().generation; }

}  // namespace frit::jit
