// Real tensors: storage with dtype, extents, strides and offset.
#pragma once
#include <atomic>
#include <cstdint>
#include "runtime/dtype.h"
#include "tracer/node.h"

namespace frit::tracer {

// Bytes that values share. `version` counts writes in place, so that an overwritten saved value is noticed.
struct Storage {
  std::atomic<uint32_t> refs{1};
  std::atomic<uint32_t> version{0};
  std::atomic<uint32_t> pending{0};  // writes that are recorded and not yet run: who reads the bytes has to flush
  std::atomic<uint32_t> watched{0};  // an identity, once somebody asked for one: he is told of writes and of the end
  void* data = nullptr;
  size_t bytes = 0;
  void (*free_foreign)(void* context) = nullptr;  // storage that Frit does not own
  void* context = nullptr;
  bool foreign = false;
  std::atomic<bool> reachable{false};  // the user has a pointer to the bytes: who reads or writes them does so at his call
  std::atomic<uint16_t> written_by{0};               // the latest recorded write: an Op, for messages
  std::atomic<const CallSite*> written_at{nullptr};  // and its line
};

struct Value {
  std::atomic<uint32_t> refs{1};
  Dtype dtype;
  uint8_t rank;
  Storage* storage;
  int64_t offset;  // in elements
  int64_t extent[max_rank], stride[max_rank];
  uint16_t name[max_rank] = {};  // the axes' labels; 0: none
  Value* companion[2] = {};      // counted: what its node made beside it (attention's logsumexp; its gradients of key and value)

  char* data() const { return static_cast<char*>(storage->data) + offset * int64_t(size_of(dtype)); }
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= extent[i];
    return n;
  }
  bool contiguous() const {
    int64_t step = 1;
    for (int i = rank; i-- > 0;) {
      if (extent[i] == 0) return true;
      if (extent[i] != 1 && stride[i] != step) return false;
      step *= extent[i];
    }
    return true;
  }
};

// What is made from a storage's bytes and kept beside it. The identity is no other storage's, not even of one at the same address later; 0: there
// are no more. `changed` is called when a write is recorded, and when the storage goes; any thread.
uint32_t watch(Storage& s);
using StorageWatcher = void (*)(uint32_t identity, bool gone) noexcept;
void set_storage_watcher(StorageWatcher changed);
void tell_watcher(const Storage& s, bool gone) noexcept;

Value* companion_of(const Value& v, int which);  // throws InternalError where there is none
void retain(Value* v);
void release(Value* v) noexcept;
void retain(Storage* s);
void release(Storage* s) noexcept;

// Contiguous, uninitialised. Throws OutOfMemoryError, or ValueError when the byte count overflows.
Value* new_value(Dtype dtype, const int64_t* extents, int rank);
// The same with strides in the order of `like`'s (LibTorch keeps the memory order of pointwise operands).
Value* new_value_ordered(Dtype dtype, const int64_t* extents, int rank, const Value& like);
void ordered_strides(const int64_t* extents, int rank, const Value& like, int64_t* out);
// Another view of the same storage; the caller fills extents, strides and offset.
Value* new_alias(const Value& of, int rank);
// Storage of the user's: free_foreign(context) runs when the last value goes.
Value* new_foreign_value(void* data, Dtype dtype, const int64_t* extents, const int64_t* strides, int rank, void (*free_foreign)(void*),
                         void* context);
bool overlaps_itself(const Value& v);                    // two indices reach one element (expanded)
bool may_overlap(const Value& a, const Value& b);        // byte ranges intersect in one storage
bool same_layout(const Value& a, const Value& b);        // the same elements in the same order

// A counted reference.
class ValueRef {
 public:
  ValueRef() = default;
  static ValueRef take(Value* v) { ValueRef r; r.value_ = v; return r; }
  static ValueRef share(Value* v) { if (v) retain(v); return take(v); }
  ValueRef(const ValueRef& o) : value_(o.value_) { if (value_) retain(value_); }
  ValueRef(ValueRef&& o) noexcept : value_(o.value_) { o.value_ = nullptr; }
  ValueRef& operator=(ValueRef o) noexcept { Value* v = value_; value_ = o.value_; o.value_ = v; return *this; }
  ~ValueRef() { if (value_) release(value_); }
  Value* get() const { return value_; }
  Value* operator->() const { return value_; }
  Value& operator*() const { return *value_; }
  explicit operator bool() const { return value_ != nullptr; }
  Value* leave() { Value* v = value_; value_ = nullptr; return v; }

 private:
  Value* value_ = nullptr;
};

}  // namespace frit::tracer
