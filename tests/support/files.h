// What the tests of files share: folders of their own, bytes of tensors, base64, little-endian fields.
#pragma once
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include "frit/frit.h"
#include "frontend/files/elements.h"

namespace frit::test {

class Folder {
 public:
  Folder() {
    std::random_device random;
    path_ = std::filesystem::temp_directory_path() / ("frit_files_" + std::to_string(random()) + std::to_string(random()));
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ / name; }
  size_t count() const { return size_t(std::distance(std::filesystem::directory_iterator(path_), {})); }

 private:
  std::filesystem::path path_;
};

inline std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// The elements in row-major order.
inline std::string bytes_of(const Tensor& t) {
  const Tensor whole = files::contiguous_elements(t, "test");
  return {static_cast<const char*>(files::elements_of(whole)), whole.nbytes()};
}
inline bool same(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && a.sizes() == b.sizes() && bytes_of(a) == bytes_of(b); }
inline bool same(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); });
}
// Any bit pattern, NaNs of all kinds among them; bools are 0 or 1.
inline Tensor random_bits(const std::vector<int64_t>& extents, Dtype d, std::mt19937_64& random) {
  const Tensor t = files::new_tensor(extents, d);
  auto* p = static_cast<uint8_t*>(files::elements_of(t));
  for (size_t i = 0; i < t.nbytes(); ++i) p[i] = uint8_t(d == kBool ? random() & 1 : random());
  return t;
}

inline std::string base64(const std::string& text) {
  static const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0, count = 0;
  for (char c : text) {
    if (c == '=') break;
    bits = bits << 6 | uint32_t(digits.find(c));
    if ((count += 6) >= 8) out += char(bits >> (count -= 8));
  }
  return out;
}
inline std::string little(uint64_t v, int width) {
  std::string s;
  for (int i = 0; i < width; ++i) s += char(i < 8 ? v >> (8 * i) : 0);
  return s;
}

}  // namespace frit::test
