// Printing to streams, as PyTorch prints.
#pragma once
#include <ostream>
#include "frit/tensor.h"

namespace frit {
std::ostream& operator<<(std::ostream& out, const Tensor& t);
std::ostream& operator<<(std::ostream& out, IntArrayRef sizes);
std::ostream& operator<<(std::ostream& out, Dtype d);
std::ostream& operator<<(std::ostream& out, const Device& d);
}  // namespace frit
