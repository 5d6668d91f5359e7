// Small types of the public API: shapes, numbers, options, devices.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>
#include "runtime/device.h"
#include "runtime/dtype.h"
#include "runtime/error.h"
#include "tracer/var.h"

namespace frit {

using Scalar = handle::Number;

// A borrowed list of whole numbers: sizes, strides, axes.
class IntArrayRef {
 public:
  constexpr IntArrayRef() = default;
  constexpr IntArrayRef(const int64_t* data, size_t size) : data_(data), size_(size) {}
  IntArrayRef(const std::vector<int64_t>& v) : data_(v.data()), size_(v.size()) {}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Winit-list-lifetime"  // an argument: it lives until the call ends
  constexpr IntArrayRef(const std::initializer_list<int64_t>& l) : data_(l.begin()), size_(l.size()) {}
#pragma GCC diagnostic pop
  constexpr IntArrayRef(const int64_t& one) : data_(&one), size_(1) {}
  const int64_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const int64_t* begin() const { return data_; }
  const int64_t* end() const { return data_ + size_; }
  int64_t operator[](size_t i) const { return data_[i]; }
  int64_t front() const { return data_[0]; }
  int64_t back() const { return data_[size_ - 1]; }
  std::vector<int64_t> vec() const { return {begin(), end()}; }
  friend bool operator==(IntArrayRef a, IntArrayRef b) {
    if (a.size_ != b.size_) return false;
    for (size_t i = 0; i < a.size_; ++i)
      if (a.data_[i] != b.data_[i]) return false;
    return true;
  }
  friend bool operator!=(IntArrayRef a, IntArrayRef b) { return !(a == b); }
  bool equals(IntArrayRef o) const { return *this == o; }

 private:
  const int64_t* data_ = nullptr;
  size_t size_ = 0;
};
// Axes that may be left out: an absent list means all of them.
class OptionalIntArrayRef {
 public:
  OptionalIntArrayRef() = default;
  OptionalIntArrayRef(std::nullopt_t) {}
  OptionalIntArrayRef(IntArrayRef v) : value_(v) {}
  OptionalIntArrayRef(std::initializer_list<int64_t> l) : value_(l) {}
  OptionalIntArrayRef(const std::vector<int64_t>& v) : value_(IntArrayRef(v)) {}
  OptionalIntArrayRef(const int64_t& one) : value_(IntArrayRef(one)) {}
  bool has_value() const { return value_.has_value(); }
  IntArrayRef value() const { return *value_; }

 private:
  std::optional<IntArrayRef> value_;
};

// dtype, device and requires_grad of a new tensor; what is unset has its default (float32, CPU, false).
struct TensorOptions {
  std::optional<Dtype> dtype_;
  std::optional<Device> device_;
  bool requires_grad_ = false;
  TensorOptions() = default;
  TensorOptions(Dtype d) : dtype_(d) {}
  TensorOptions(Device d) : device_(d) {}
  TensorOptions(DeviceType d) : device_(d) {}
  TensorOptions dtype(Dtype d) const { TensorOptions o = *this; o.dtype_ = d; return o; }
  TensorOptions device(Device d) const { TensorOptions o = *this; o.device_ = d; return o; }
  TensorOptions device(DeviceType d, int index = -1) const { return device(Device(d, index)); }
  TensorOptions requires_grad(bool on = true) const { TensorOptions o = *this; o.requires_grad_ = on; return o; }
  Dtype dtype() const { return dtype_.value_or(kFloat32); }
  Device device() const { return device_.value_or(Device()); }
};
inline TensorOptions dtype(Dtype d) { return TensorOptions(d); }
inline TensorOptions device(Device d) { return TensorOptions(d); }
inline TensorOptions requires_grad(bool on = true) { return TensorOptions().requires_grad(on); }

}  // namespace frit
