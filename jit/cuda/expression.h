// Scalar instructions as CUDA C++ expressions, and the device functions that they call.
#pragma once
#include <string>
#include <vector>
#include "kernels/program.h"

namespace frit::jit::cuda {

std::string value_type(Dtype d);                     // of a value: float, long long …
std::string memory_type(Dtype d);                    // of an element in memory: half formats and Bool as their bits
std::string literal(uint64_t bits, Dtype d);         // an operand that needs no parentheses
std::string from_memory(Dtype d, const std::string& element);
std::string to_memory(Dtype d, const std::string& value);

// `in` are the operands' texts (names or literals), `operands` their type. Address arithmetic cannot overflow and is
// written plainly.
std::string expression(const kernels::Instr& i, const std::vector<std::string>& in, Dtype operands, bool address);

// The device functions and tables that a kernel's body mentions, in order of dependence.
std::string prelude(const std::string& body);

}  // namespace frit::jit::cuda
