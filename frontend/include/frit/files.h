// Tensors in the files of others: safetensors, and NumPy's npy and npz. Every dtype, any layout (non-contiguous tensors are written
// row by row), empty tensors and those without axes.
//
// A file is written beside its final place, synced and renamed: an error (FileError) leaves the old file whole. A file that is
// missing, damaged or hostile is a FileError with the path, the byte and what was expected there; what is allocated is bounded by
// the file's own length (times what deflate can compress, in a compressed npz).
#pragma once
#include <map>
#include <string>
#include "frit/tensor.h"

namespace frit {

using StringMap = std::map<std::string, std::string>;

// The same bytes as Python's safetensors writes. The metadata is the format's own map of texts.
void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors, const StringMap& metadata = {});
std::map<std::string, Tensor> load_safetensors(const std::string& path);
StringMap load_safetensors_metadata(const std::string& path);

// Versions 1 to 3, either byte order; fortran_order gives a tensor with its axes stored in reverse. bfloat16, which NumPy lacks, is
// its two-byte void type, as ml_dtypes has it.
void save_npy(const std::string& path, const Tensor& tensor);
Tensor load_npy(const std::string& path);

// Names are those of the arrays, without ".npy". Stored or, with `compress`, deflated.
void save_npz(const std::string& path, const std::map<std::string, Tensor>& tensors, bool compress = false);
std::map<std::string, Tensor> load_npz(const std::string& path);

}  // namespace frit
