// What the file formats share about tensors: bounded sizes, memory to read into, contiguous bytes to write from.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "frit/tensor.h"

namespace frit::files {

constexpr size_t max_axes = 8;

// Bytes of a contiguous tensor; nothing where they (or its strides) leave 63 bits.
std::optional<uint64_t> byte_count(const std::vector<int64_t>& extents, Dtype dtype);
std::string extents_text(const std::vector<int64_t>& extents);  // "[2, 3]"
// A name from a file, fit for a message: short, without control characters.
std::string name_text(std::string_view name);
Tensor new_tensor(const std::vector<int64_t>& extents, Dtype dtype);
void* elements_of(const Tensor& t);       // of a contiguous tensor that is real
// The tensor itself when it is contiguous, otherwise a copy; real. `op` names the caller in errors.
Tensor contiguous_elements(const Tensor& t, const std::string& op);
// The first element that is no bool: neither 0 nor 1.
std::optional<uint64_t> first_bad_bool(const Tensor& t);
void reverse_bytes(const Tensor& t);      // of each element

}  // namespace frit::files
