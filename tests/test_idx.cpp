// The idx reader: every type, plain and gzipped, and files that are damaged in every way.
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <catch2/catch.hpp>
#include "runtime/error.h"
#include "runtime/idx.h"

using namespace frit;

namespace {

using Bytes = std::vector<uint8_t>;

class TemporaryFile {
 public:
  explicit TemporaryFile(const Bytes& content) {
    const std::string name = "frit_idx_" + std::to_string(getpid()) + "_" + std::to_string(next_++);
    path_ = (std::filesystem::temp_directory_path() / name).string();
    std::ofstream(path_, std::ios::binary).write(reinterpret_cast<const char*>(content.data()), std::streamsize(content.size()));
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  static inline int next_ = 0;
  std::string path_;
};

Bytes gzip(const Bytes& plain) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes out(deflateBound(&z, plain.size()) + 32);
  z.next_in = const_cast<uint8_t*>(plain.data());
  z.avail_in = unsigned(plain.size());
  z.next_out = out.data();
  z.avail_out = unsigned(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

Bytes header(uint8_t type, std::initializer_list<uint32_t> extents) {
  Bytes b{0, 0, type, uint8_t(extents.size())};
  for (uint32_t e : extents)
    for (int shift = 24; shift >= 0; shift -= 8) b.push_back(uint8_t(e >> shift));
  return b;
}

template <class T> Bytes encode(uint8_t type, std::initializer_list<uint32_t> extents, const std::vector<T>& values) {
  Bytes b = header(type, extents);
  for (T v : values) {
    uint8_t raw[sizeof(T)];
    std::memcpy(raw, &v, sizeof(T));
    for (size_t i = sizeof(T); i-- > 0;) b.push_back(raw[i]);
  }
  return b;
}

template <class T> void round_trip(uint8_t type, Dtype dtype, const std::vector<T>& values) {
  const uint32_t half = uint32_t(values.size() / 2);
  const Bytes plain = encode(type, {2, half}, values);
  for (const Bytes& content : {plain, gzip(plain)}) {
    const IdxArray a = read_idx(TemporaryFile(content).path());
    CHECK(a.dtype == dtype);
    CHECK(a.extents == std::vector<int64_t>{2, half});
    REQUIRE(a.bytes.size() == values.size() * sizeof(T));
    CHECK(std::memcmp(a.bytes.data(), values.data(), a.bytes.size()) == 0);
  }
}

std::string failure(const Bytes& content) {
  TemporaryFile file(content);
  try {
    read_idx(file.path());
  } catch (const FileError& e) {
    CHECK(std::string(e.what()).find(file.path()) != std::string::npos);
    return e.what();
  }
  return "nothing was thrown";
}

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("idx: every element type, plain and gzipped") {
  round_trip<uint8_t>(0x08, kUInt8, {0, 1, 127, 128, 254, 255});
  round_trip<int8_t>(0x09, kInt8, {0, 1, 127, -128, -1, 5});
  round_trip<int16_t>(0x0b, kInt16, {0, 1, 32767, -32768, -1, 258});
  round_trip<int32_t>(0x0c, kInt32, {0, 1, INT32_MAX, INT32_MIN, -1, 0x01020304});
  round_trip<float>(0x0d, kFloat32, {0.f, -0.f, 1.5f, -3e38f, 1e-40f, 7.f});
  round_trip<double>(0x0e, kFloat64, {0., -0., 1.5, -1e308, 5e-324, 7.});
}

TEST_CASE("idx: many dimensions, zero extents, sizes around the reading step") {
  const Bytes five_axes = encode<uint8_t>(0x08, {1, 2, 1, 3, 1}, {1, 2, 3, 4, 5, 6});
  CHECK(read_idx(TemporaryFile(five_axes).path()).extents == std::vector<int64_t>{1, 2, 1, 3, 1});
  const IdxArray empty = read_idx(TemporaryFile(header(0x0d, {0, 28, 28})).path());
  CHECK(empty.bytes.empty());
  CHECK(empty.extents == std::vector<int64_t>{0, 28, 28});
  for (size_t size : {size_t(1 << 20) - 1, size_t(1 << 20), size_t(1 << 20) + 1, size_t(3 << 20) + 7}) {
    std::vector<uint8_t> values(size);
    std::mt19937 random{unsigned(size)};
    for (auto& v : values) v = uint8_t(random());
    CHECK(read_idx(TemporaryFile(gzip(encode(0x08, {uint32_t(size)}, values))).path()).bytes == values);
  }
}

TEST_CASE("idx: missing files and folders") {
  CHECK_THROWS_WITH(read_idx("/nonexistent/file.gz"), Contains("/nonexistent/file.gz") && Contains("No such file"));
  CHECK_THROWS_AS(read_idx(std::filesystem::temp_directory_path().string()), FileError);
}

TEST_CASE("idx: damaged headers") {
  CHECK_THAT(failure({}), Contains("ends in the middle of its header"));
  CHECK_THAT(failure({0, 0, 8}), Contains("ends in the middle of its header"));
  CHECK_THAT(failure({0, 0, 8, 2, 0, 0, 0, 1, 0}), Contains("ends in the middle of its header"));
  CHECK_THAT(failure({1, 0, 8, 1, 0, 0, 0, 1, 7}), Contains("no idx file"));
  CHECK_THAT(failure({0, 0, 10, 1, 0, 0, 0, 1, 7}), Contains("no idx file"));
  CHECK_THAT(failure({0, 0, 8, 0, 7}), Contains("no idx file"));
}

TEST_CASE("idx: truncated anywhere, prolonged, or with flipped bits") {
  std::vector<uint8_t> values(3000);
  std::mt19937 random(7);
  for (auto& v : values) v = uint8_t(random() % 5);
  const Bytes plain = encode(0x08, {3, 1000}, values), packed = gzip(plain);
  for (size_t cut = 0; cut < packed.size(); cut += cut < 40 || cut + 20 > packed.size() ? 1 : 37) {
    INFO("gzipped file cut to " << cut << " bytes");
    CHECK_THAT(failure(Bytes(packed.begin(), packed.begin() + long(cut))), Contains("cannot read"));
  }
  for (size_t cut : {size_t(4), size_t(11), size_t(12), size_t(13), plain.size() - 1})
    CHECK_THAT(failure(Bytes(plain.begin(), plain.begin() + long(cut))), Contains("ends in the middle"));
  Bytes longer = plain;
  longer.push_back(0);
  CHECK_THAT(failure(longer), Contains("more elements than its header says"));
  CHECK_THAT(failure(gzip(longer)), Contains("more elements than its header says"));
  for (size_t at = 12; at < packed.size(); at += 29) {
    Bytes bad = packed;
    bad[at] ^= 0x10;
    INFO("bit flipped at " << at);
    CHECK_THAT(failure(bad), Contains("cannot read"));
  }
}

TEST_CASE("idx: a header that claims too much neither allocates nor overflows") {
  const auto peak_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = peak_kib();
  CHECK_THAT(failure(header(0x08, {0xffffffff, 0xffffffff, 0xffffffff})), Contains("more elements than any memory holds"));
  CHECK_THAT(failure(header(0x0e, {0xffffffff, 0x7fffffff})), Contains("more elements than any memory holds"));
  CHECK_THAT(failure(header(0x08, {0xffffffff, 0xffff})), Contains("ends in the middle of its elements"));
  CHECK(peak_kib() - before < 64 << 10);
}

TEST_CASE("idx: Fashion-MNIST as Debian packages it") {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  if (!std::filesystem::exists(folder)) {
    WARN("dataset-fashion-mnist is not installed");
    return;
  }
  const IdxArray images = read_idx(folder + "t10k-images-idx3-ubyte.gz"), labels = read_idx(folder + "t10k-labels-idx1-ubyte.gz");
  CHECK(images.extents == std::vector<int64_t>{10000, 28, 28});
  CHECK(images.bytes.size() == 7840000);
  REQUIRE(labels.bytes.size() == 10000);
  int64_t of_class[10] = {};
  for (uint8_t label : labels.bytes) ++of_class[label % 10];
  for (int64_t n : of_class) CHECK(n == 1000);
}
