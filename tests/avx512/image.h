// A disk image that runs calls of this process's machine code on a bare processor: the pages that the calls need lie at the same
// addresses there, so nothing is relocated. What the calls left in their buffers comes out of port 0xE9, in hexadecimal digits.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace frit::avx512 {

struct Processor {  // what CPUID says of AVX-512, leaf 7
  uint32_t ebx = 0, ecx = 0, edx = 0, more = 0;  // more: eax of its second part
  std::string text() const;
};
struct Outcome {
  Processor processor;
  std::vector<std::string> left;  // by call that returned: the bytes of its buffers, one after the other
  bool ended = false;
};

class Image {
 public:
  // Called as a System V function with up to six whole numbers.
  void call(const void* entry, std::vector<uint64_t> arguments, std::vector<std::pair<const void*, size_t>> buffers);
  void bring(const void* from, size_t bytes);  // whatever a call reads beside its buffers; the pages as they are at write()
  void bring_buffer(const void* from, size_t bytes);  // with zeros in the pages beside it
  void bring_region(const void* code);         // the whole mapping around an address
  void write(const std::string& path);
  size_t bytes() const { return bytes_; }
  static Outcome read(const std::string& output);

 private:
  struct Call {
    uint64_t entry, arguments[6], first_buffer, buffers;
  };
  struct Buffer {
    uint64_t at, bytes;
  };
  std::vector<Call> calls_;
  std::vector<Buffer> buffers_;
  std::map<uint64_t, uint64_t> pages_;  // by virtual page: physical
  std::set<uint64_t> zeros_;            // virtual pages beside buffers
  size_t bytes_ = 0;
};

}  // namespace frit::avx512
