// Values and their storage. Storage objects, values and data come from pools: an eager op makes one of each.
#include "tracer/value.h"
#include <algorithm>
#include <string>
#include <vector>
#include "runtime/buffer.h"
#include "runtime/error.h"
#include "tracer/memory_log.h"

namespace frit::tracer {

namespace {
// One block for a value and a storage of its own; a storage shared by views outlives the value that came with it, so the
// two are counted and pooled apart.
template <class T> T* take() { return new (allocate(sizeof(T))) T; }
template <class T> void give(T* t) noexcept {
  t->~T();
  deallocate(t, sizeof(T));
}

size_t byte_count(Dtype dtype, const int64_t* extents, int rank) {
  int64_t n = int64_t(size_of(dtype));
  bool overflow = false;
  for (int i = 0; i < rank; ++i)
    if (extents[i] == 0) return 0;
  for (int i = 0; i < rank; ++i) overflow |= __builtin_mul_overflow(n, extents[i], &n);
  if (overflow) {
    std::string s;
    for (int i = 0; i < rank; ++i) s += (i ? ", " : "") + std::to_string(extents[i]);
    throw ValueError("a tensor of shape [" + s + "] has more bytes than can be addressed. Check the extents.");
  }
  return size_t(n);
}

Value* make(Dtype dtype, const int64_t* extents, int rank) {
  const size_t bytes = byte_count(dtype, extents, rank);
  void* data = allocate(bytes);
  Storage* s = take<Storage>();
  s->data = data, s->bytes = bytes;
  Value* v = take<Value>();
  v->dtype = dtype, v->rank = uint8_t(rank);
  v->storage = s, v->offset = 0;
  std::copy_n(extents, rank, v->extent);
  if (memory_logged()) [[unlikely]] detail::log_made(s, dtype, extents, rank);
  return v;
}
}  // namespace

void retain(Value* v) { v->refs.fetch_add(1, std::memory_order_relaxed); }
void release(Value* v) noexcept {
  if (v->refs.load(std::memory_order_acquire) != 1 && v->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  for (Value* c : v->companion)
    if (c) release(c);
  release(v->storage);
  give(v);
}

namespace {
constinit std::atomic<StorageWatcher> watcher{nullptr};
constinit std::atomic<uint32_t> identities{0};
}  // namespace
uint32_t watch(Storage& s) {
  uint32_t now = s.watched.load(std::memory_order_acquire), next = identities.load(std::memory_order_relaxed);
  if (now) return now;
  do
    if (next == UINT32_MAX) return 0;
  while (!identities.compare_exchange_weak(next, next + 1, std::memory_order_relaxed));
  return s.watched.compare_exchange_strong(now, next + 1, std::memory_order_acq_rel) ? next + 1 : now;
}
void set_storage_watcher(StorageWatcher changed) { watcher.store(changed); }
void tell_watcher(const Storage& s, bool gone) noexcept {
  const uint32_t identity = s.watched.load(std::memory_order_acquire);
  if (identity)
    if (const StorageWatcher changed = watcher.load()) changed(identity, gone);
}

void retain(Storage* s) { s->refs.fetch_add(1, std::memory_order_relaxed); }
void release(Storage* s) noexcept {
  if (s->refs.load(std::memory_order_acquire) != 1 && s->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (s->watched.load(std::memory_order_relaxed)) [[unlikely]] tell_watcher(*s, true);
  if (memory_logged()) [[unlikely]] detail::log_gone(s);
  if (!s->foreign) deallocate(s->data, s->bytes);
  else if (s->free_foreign) s->free_foreign(s->context);
  give(s);
}

Value* new_value(Dtype dtype, const int64_t* extents, int rank) {
  Value* v = make(dtype, extents, rank);
  int64_t step = 1;
  for (int i = rank; i-- > 0;) {
    v->stride[i] = step;
    step *= std::max<int64_t>(extents[i], 1);
  }
  return v;
}
void ordered_strides(const int64_t* extents, int rank, const Value& like, int64_t* out) {
  int order[max_rank];
  for (int i = 0; i < rank; ++i) order[i] = i;
  // Outermost first; broadcast axes say nothing and keep their place. (Insertion sort: stable, whatever the comparison.)
  const auto before = [&](int a, int b) {
    if (like.stride[a] == 0 || like.stride[b] == 0 || like.extent[a] == 1 || like.extent[b] == 1) return false;
    return std::abs(like.stride[a]) > std::abs(like.stride[b]);
  };
  if (rank == like.rank && !like.contiguous())
    for (int i = 1; i < rank; ++i)
      for (int j = i; j > 0 && before(order[j], order[j - 1]); --j) std::swap(order[j], order[j - 1]);
  int64_t step = 1;
  for (int i = rank; i-- > 0; step *= std::max<int64_t>(extents[order[i]], 1)) out[order[i]] = step;
}
Value* new_value_ordered(Dtype dtype, const int64_t* extents, int rank, const Value& like) {
  Value* v = make(dtype, extents, rank);
  ordered_strides(extents, rank, like, v->stride);
  return v;
}
Value* new_alias(const Value& of, int rank) {
  Value* v = take<Value>();
  v->dtype = of.dtype, v->rank = uint8_t(rank);
  v->storage = of.storage, v->offset = of.offset;
  retain(v->storage);
  return v;
}
Value* new_foreign_value(void* data, Dtype dtype, const int64_t* extents, const int64_t* strides, int rank, void (*free_foreign)(void*),
                         void* context) {
  int64_t last = 0;
  for (int i = 0; i < rank; ++i) last += std::max<int64_t>(extents[i] - 1, 0) * strides[i];
  Storage* s = take<Storage>();
  const bool empty = std::find(extents, extents + rank, 0) != extents + rank;
  s->data = data, s->bytes = empty ? 0 : size_t(last + 1) * size_of(dtype);
  s->free_foreign = free_foreign, s->context = context, s->foreign = true;
  s->reachable.store(true, std::memory_order_relaxed);
  Value* v = take<Value>();
  v->dtype = dtype, v->rank = uint8_t(rank);
  v->storage = s, v->offset = 0;
  std::copy_n(extents, rank, v->extent);
  std::copy_n(strides, rank, v->stride);
  return v;
}

bool overlaps_itself(const Value& v) {
  // Exact for what views make: sorted by stride, each axis must step past everything the smaller ones reach.
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (int i = 0; i < v.rank; ++i) {
    if (v.extent[i] == 0) return false;
    if (v.extent[i] > 1) axes.emplace_back(std::abs(v.stride[i]), v.extent[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;
  for (const auto& [stride, extent] : axes) {
    if (stride <= reach) return true;
    reach += stride * (extent - 1);
  }
  return false;
}
namespace {
std::pair<int64_t, int64_t> byte_range(const Value& v) {
  int64_t low = v.offset, high = v.offset;
  for (int i = 0; i < v.rank; ++i) {
    if (v.extent[i] == 0) return {0, 0};
    (v.stride[i] < 0 ? low : high) += v.stride[i] * (v.extent[i] - 1);
  }
  const int64_t size = int64_t(size_of(v.dtype));
  return {low * size, (high + 1) * size};
}
}  // namespace
bool may_overlap(const Value& a, const Value& b) {
  if (a.storage != b.storage) return a.storage->foreign || b.storage->foreign ? [&] {
    // Two foreign buffers may be one: compare addresses.
    const auto x = byte_range(a), y = byte_range(b);
    const char *p = static_cast<char*>(a.storage->data), *q = static_cast<char*>(b.storage->data);
    return p + x.first < q + y.second && q + y.first < p + x.second;
  }() : false;
  const auto x = byte_range(a), y = byte_range(b);
  return x.first < y.second && y.first < x.second;
}
bool same_layout(const Value& a, const Value& b) {
  if (a.storage->data != b.storage->data || a.offset != b.offset || a.dtype != b.dtype || a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a.extent[i] != b.extent[i] || (a.extent[i] > 1 && a.stride[i] != b.stride[i])) return false;
  return true;
}

}  // namespace frit::tracer
