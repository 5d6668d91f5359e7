// Fusion's parts: see fuse.cpp, fuse_order.cpp.
#pragma once
#include "jit/fuse.h"

namespace frit::jit::fusing {

using namespace tracer;

constexpr uint32_t none = ~0u;

struct Draft {
  Group group;
  std::vector<uint32_t> read;     // tensors from outside, each once
  std::vector<uint64_t> depends;  // bit per group, transitive
  uint32_t home = no_node;        // of its nodes that have one
  bool reduced = false;           // columns: no full node may follow that reads what was reduced
};

class Builder {
 public:
  Builder(const Trace& t, const std::vector<bool>& needed, const std::vector<bool>& roots, const Checks& checks, const std::vector<uint32_t>& home)
      : t_(t), needed_(needed), roots_(roots), checks_(checks), home_(home), pure_(pure_writes(t)) {}
  Fusion run(const std::vector<uint32_t>& order);

 private:
  struct Dependence { uint32_t node; bool same_group_allowed; };
  void classify_storage();
  std::vector<Dependence> dependences(uint32_t n);
  bool writes_in_place(uint32_t n) const { return (t_.nodes[n].call.mode & in_place) && !pure_[n]; }
  bool fusable(uint32_t n) const;
  bool is_pointwise(uint32_t n) const;
  bool fits(Draft& d, uint32_t n, bool commit);
  bool same_shape(uint32_t a, uint32_t b) const;
  bool is_full(const Draft& d, uint32_t n) const { return same_shape(n, d.group.space); }
  bool is_kept(const Draft& d, uint32_t n) const;
  bool operands_align(const Draft& d, uint32_t n, bool full) const;
  bool fills_run(const Draft& d, uint32_t n, int first, int last) const;
  bool reads_reduced(const Draft& d, uint32_t n) const;
  bool serves_columns(const Draft& d, uint32_t n, int depth = 8) const;
  void shown_axes(uint32_t in, uint32_t base, int* axes) const;
  uint32_t home_of(uint32_t n) const { return n < home_.size() ? home_[n] : no_node; }
  bool depends(uint32_t g, uint32_t on) const { return drafts_[g].depends[on / 64] >> (on % 64) & 1; }
  void add_dependence(uint32_t g, uint32_t on);
  uint32_t new_group(GroupKind kind, uint32_t n);
  size_t new_operands(uint32_t g, uint32_t n, std::vector<uint32_t>* add = nullptr) const;
  void place(uint32_t n);
  void join_columns();
  Fusion order();
  void lower_peak(const std::vector<uint32_t>& draft);
  bool runs_with(const Group& product, const Group& g) const;
  void finish(Group& g) const;
  void find_computed();
  bool computable(uint32_t n, const Group& g) const;

  const Trace& t_;
  const std::vector<bool>&needed_, &roots_;
  const Checks& checks_;
  const std::vector<uint32_t>& home_;
  const std::vector<bool> pure_;
  std::vector<Draft> drafts_;
  std::vector<uint32_t> group_of_;
  std::vector<uint32_t> storage_;            // by node: its storage class
  struct Access { uint32_t node; bool write; };
  std::vector<std::vector<Access>> accesses_;  // by storage class, since the last write
  std::vector<std::vector<uint32_t>> consumers_;
  std::vector<bool> written_;                // storage classes that something writes in place
  std::vector<bool> placed_;                 // by node: a view that is an op of its own
  Fusion fusion_;
  size_t words_ = 0;
};

}  // namespace frit::jit::fusing
