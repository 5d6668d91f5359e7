// Shape buckets: policies map an extent to the interval that shares plans and kernels with it. Policies belong to axis names;
// an axis without a name has the default policy.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace frit::jit {

class BucketPolicy {
 public:
  enum class Kind : uint8_t { pow2, exact, multiple_of, edges, dynamic };
  static BucketPolicy pow2() { return BucketPolicy(Kind::pow2); }          // (2^(k-1), 2^k]
  static BucketPolicy exact() { return BucketPolicy(Kind::exact); }        // one extent each
  static BucketPolicy dynamic() { return BucketPolicy(Kind::dynamic); }    // one bucket for all
  static BucketPolicy multiple_of(int64_t k);                              // ((i-1)k, ik]; ValueError when k < 1
  static BucketPolicy edges(std::vector<int64_t> e);                       // (e0, e1] …; ValueError unless ascending and >= 1
  // The bucket (low, high] that holds an extent of 2 or more.
  struct Bucket { int64_t low, high; bool operator==(const Bucket&) const = default; };
  Bucket bucket(int64_t extent) const;
  std::string text() const;                                                // "pow2", "multiple_of(64)", "edges{64, 128}"
  bool operator==(const BucketPolicy&) const = default;
  Kind kind() const { return kind_; }
  const std::vector<int64_t>& numbers() const { return numbers_; }

 private:
  explicit BucketPolicy(Kind k) : kind_(k) {}
  Kind kind_;
  std::vector<int64_t> numbers_;
};
std::string bucket_text(BucketPolicy::Bucket b);  // "(64, 128]"

// The process's policies. Name 0 is "no name".
uint16_t axis_name_id(const std::string& name);    // interned; 1 and up
const std::string& axis_name(uint16_t id);
void set_policy(const std::string& name, const BucketPolicy& p);
void set_default_policy(const BucketPolicy& p);
void pin_policy(const std::string& name, const BucketPolicy& p);  // sets it ("": the default) so that later sets of this name change nothing
BucketPolicy policy_of(uint16_t name);
std::map<std::string, BucketPolicy> all_policies();  // "" is the default
uint64_t policy_generation();                        // changes with every set

}  // namespace frit::jit
