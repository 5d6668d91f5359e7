// Random block programs with their arguments, for differential tests: every type, primitive, kind of reduction and way
// of addressing, on memory that ends at an inaccessible page, so that an access outside of it is a crash.
#pragma once
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>
#include "kernels/program.h"

namespace frit::test {

// `count` elements between two inaccessible pages: the first or the last element touches one of them.
class GuardedBuffer {
 public:
  GuardedBuffer(Dtype memory, size_t count, bool at_end);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  Dtype memory() const { return memory_; }
  size_t count() const { return count_; }
  size_t bytes() const { return count_ * size_of(memory_); }
  char* data() const { return data_; }

 private:
  Dtype memory_;
  size_t count_, mapped_;
  char *mapping_, *data_;
};

// Bits of a random value of a compute or memory type, special ones among them.
uint64_t random_value(Dtype d, std::mt19937_64& random);
void fill_random(const GuardedBuffer& b, std::mt19937_64& random);

struct RandomProgram {
  kernels::Program program;
  std::vector<kernels::Slot> args;
  std::vector<std::shared_ptr<GuardedBuffer>> buffers;
};
RandomProgram random_program(uint64_t seed);

std::string refusal(const kernels::Program& p);  // why the verifier refuses it; empty when it does not

// Runs `kernel(args)` and the interpreter on equal memory; the first difference in words, or nothing.
template <class Kernel> std::string difference(const RandomProgram& p, Kernel kernel);

std::string compare_with_interpreter(const RandomProgram& p, void (*kernel)(void* context, const kernels::Slot* args), void* context);
template <class Kernel> std::string difference(const RandomProgram& p, Kernel kernel) {
  return compare_with_interpreter(
      p, [](void* context, const kernels::Slot* args) { (*static_cast<Kernel*>(context))(args); }, &kernel);
}

}  // namespace frit::test
