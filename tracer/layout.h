// Where the elements of a strided value lie: layouts, the layouts of views, and walking them in row-major order.
#pragma once
#include <algorithm>
#include <optional>
#include "tracer/value.h"

namespace frit::tracer {

struct Layout {
  int rank = 0;
  int64_t offset = 0;  // in elements from the storage's data
  int64_t extent[max_rank], stride[max_rank];
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= extent[i];
    return n;
  }
};
Layout layout_of(const Value& v);
Layout broadcast(Layout l, const int64_t* extents, int rank);  // aligned right; axes of extent 1 repeat
Layout without_axis(Layout l, int axis);

// The layout of a view of `base`: the call's op, kind and attr, and its arguments. Nothing when a reshape has to copy.
std::optional<Layout> view_layout(const Call& call, const uint64_t* args, const Value& base);
Value* new_alias(const Value& of, const Layout& l);

// Walks a layout's elements in row-major order.
class Cursor {
 public:
  Cursor() = default;
  explicit Cursor(const Layout& l) : layout_(l), offset_(l.offset) {}
  int64_t offset() const { return offset_; }
  void next() {
    for (int i = layout_.rank; i-- > 0;) {
      offset_ += layout_.stride[i];
      if (++index_[i] < layout_.extent[i]) return;
      offset_ -= layout_.stride[i] * layout_.extent[i];
      index_[i] = 0;
    }
  }
  void take(int64_t* offsets, size_t count) {
    for (size_t i = 0; i < count; ++i, next()) offsets[i] = offset_;
  }

 private:
  Layout layout_;
  int64_t offset_ = 0, index_[max_rank] = {};
};

}  // namespace frit::tracer
