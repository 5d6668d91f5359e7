// Making a trace's key. Per node: what was asked (without the slots of its arguments), the inferred type, and the canonical
// number of each size class; per leaf also how its strides lie and which leaves share storage. Start at make_key.
#include "jit/key.h"
#include <cstring>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "jit/fuse.h"

namespace frit::jit {

using namespace tracer;

namespace {
class Writer {
 public:
  explicit Writer(std::string& s) : s_(s) {}
  template <class T> void put(T v) { s_.append(reinterpret_cast<const char*>(&v), sizeof v); }

 private:
  std::string& s_;
};

}  // namespace

uint64_t stride_class(const Value& v) {
  if (v.contiguous()) return 0;
  uint64_t c = 1;
  for (int i = 0; i < v.rank; ++i) {
    uint64_t place = 0;
    if (v.stride[i] == 0) place = 15;
    else if (v.stride[i] == 1) place = 14;
    else
      for (int j = 0; j < v.rank; ++j) place += std::abs(v.stride[j]) > std::abs(v.stride[i]);
    c = c << 4 | place;
  }
  return c;
}

std::string TraceKey::bytes() const {
  std::string s = structure;
  Writer w(s);
  for (const Axis& a : axes) w.put(a.bucket.low), w.put(a.bucket.high);
  return s;
}

TraceKey make_key(const Trace& t, const std::vector<bool>& roots) {
  TraceKey key;
  key.structure.reserve(t.nodes.size() * 48);
  Writer w(key.structure);
  w.put(uint8_t(t.fast_math));
  std::vector<uint16_t> number(t.extent.size(), 0), name(t.extent.size(), 0);
  std::vector<uint8_t> independent(t.extent.size(), 0);
  number[0] = 0, number[1] = 1;
  for (size_t s = 2; s < t.extent.size(); ++s) {
    const SizeId root = t.find(SizeId(s));
    if (!t.derived[s]) independent[root] = 1;
    if (!name[root]) name[root] = label_name(t.name[s]);  // the class has the policy of its first name
  }
  uint16_t next = 2;
  const std::vector<uint32_t> memory = leaf_memory(t);
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    const auto& [call, result] = t.nodes[n];
    w.put(call.op);
    w.put(uint8_t(call.mode | uint8_t(roots[n]) << 7));
    w.put(call.kind);
    w.put(call.attr);
    for (int k = 0; k < t.input_count(n); ++k) w.put(t.input(n, k));
    w.put(result.dtype);
    w.put(result.rank);
    w.put(result.flags);
    for (int i = 0; i < result.rank; ++i) {
      const SizeId s = t.find(result.size[i]);
      if (s >= 2 && !number[s]) {
        number[s] = next++;
        w.put(number[s]);  // a new number is followed by its name
        w.put(name[s]);
        if (independent[s]) {
          const int64_t e = t.extent[s];
          key.axes.push_back({name[s], s, e, policy_of(name[s]).bucket(e)});
        }
        continue;
      }
      w.put(number[s]);
    }
    if (call.op == Op::leaf) {
      const Value& v = *t.value[n];
      w.put(stride_class(v));
      w.put(memory[n]);
    }
  }
  return key;
}

uint64_t hash_of(const std::string& structure) { return XXH3_64bits(structure.data(), structure.size()); }

}  // namespace frit::jit
