// Elements by their indices, without checks: auto a = t.accessor<float, 2>(); a[i][j]. The tensor has to live as long.
#pragma once
#include <cstddef>
#include <cstdint>
#include "frit/types.h"

namespace frit {

template <class T, size_t N> class TensorAccessor {
 public:
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides) : data_(data), sizes_(sizes), strides_(strides) {}
  IntArrayRef sizes() const { return {sizes_, N}; }
  IntArrayRef strides() const { return {strides_, N}; }
  int64_t size(size_t axis) const { return sizes_[axis]; }
  int64_t stride(size_t axis) const { return strides_[axis]; }
  T* data() const { return data_; }
  decltype(auto) operator[](int64_t i) const {
    if constexpr (N == 1) return static_cast<T&>(data_[i * strides_[0]]);
    else return TensorAccessor<T, N - 1>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
  }

 private:
  T* data_;
  const int64_t *sizes_, *strides_;
};

}  // namespace frit
