// Damaged and hostile files: every byte changed, every length cut, headers that lie. Each is a FileError with place and reason, or
// is read right; nothing is allocated that the file could not fill.
#include <zlib.h>
#include <functional>
#include <catch2/catch.hpp>
#include "tests/support/python_files.h"

using namespace frit;
using namespace frit::test;
using Catch::Matchers::Contains;

namespace {

// Every file that is cut short is an error, of this type and with the path.
template <class Read> void cut_everywhere(const std::string& whole, Read read) {
  for (size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    CHECK_THROWS_AS(read(whole.substr(0, n)), FileError);
    CHECK_THROWS_WITH(read(whole.substr(0, n)), Contains("cannot read x: "));
  }
  CHECK_THROWS_AS(read(whole + '\0'), FileError);
}
// Calls check(result) for every variant that still can be read: each byte with each bit flipped, cleared, set, and as a digit.
template <class Read, class Check> void damage_everywhere(const std::string& whole, Read read, Check check) {
  int variants = 0, accepted = 0;
  for (size_t at = 0; at < whole.size(); ++at)
    for (int change = 0; change < 12; ++change) {
      std::string s = whole;
      s[at] = change < 8 ? char(s[at] ^ 1 << change) : "\x00\xff""9 "[change - 8];
      if (s == whole) continue;
      ++variants;
      CAPTURE(at, change);
      try {
        const auto result = read(s);
        ++accepted;
        check(result, s);
      } catch (const FileError& e) {
        if (std::string(e.what()).find("cannot read x: ") != 0) FAIL_CHECK(e.what());
      } catch (const std::exception& e) {
        FAIL_CHECK("another error: " << e.what());
      }
    }
  CHECK(variants > 1000);
  CHECK(accepted < variants);
}

}  // namespace

TEST_CASE("files that are cut short are errors at every length", "[files]") {
  cut_everywhere(small_safetensors, read_safetensors);
  cut_everywhere(small_npz, read_npz);
  cut_everywhere(deflated_npz, read_npz);
  for (const std::string& npy : {float32_npy, fortran_npy, big_endian_npy, version2_npy, scalar_npy}) cut_everywhere(npy, read_npy);
}

// The format has no checksums: what is read is whatever the file now says, no byte more or less.
TEST_CASE("damaged safetensors are errors or give their own elements", "[files]") {
  damage_everywhere(small_safetensors, read_safetensors, [](const Tensors& t, const std::string& s) {
    const auto header = files::read_safetensors_header(files::Source::memory("x", s.data(), s.size()));
    std::string elements;
    for (const auto& e : header.entries) elements += bytes_of(t.at(e.name));
    CHECK(elements == s.substr(header.elements_at));
  });
}
TEST_CASE("damaged npy files are errors or give their own elements", "[files]") {
  for (const std::string& npy : {float32_npy, version3_npy})
    damage_everywhere(npy, read_npy, [&](const Tensor& t, const std::string& s) {
      const size_t at = s.size() - t.nbytes();
      CHECK((at == 128 || s.substr(at) == npy.substr(at)));
      if (s.find('>') == s.npos && s.find("True") == s.npos) CHECK(bytes_of(t) == s.substr(at));
    });
  damage_everywhere(fortran_npy, read_npy, [](const Tensor& t, const std::string&) { CHECK(t.numel() == 6); });
}
// npz has checksums and says everything twice.
TEST_CASE("damaged npz files are errors or read right", "[files]") {
  for (const std::string& npz : {small_npz, deflated_npz}) {
    const Tensors right = read_npz(npz);
    damage_everywhere(npz, read_npz, [&](const Tensors& t, const std::string&) { CHECK(same(t, right)); });
  }
}

// ---- hostile headers --------------------------------------------------------------------------------------------------------
TEST_CASE("hostile safetensors headers are errors that name byte and reason", "[files]") {
  struct Case {
    std::string header, elements, says;
  };
  const std::string f32 = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string deep(200000, '['), eight(8, 'x');
  for (const Case& c : std::vector<Case>{
           {"[]", "", "at byte 8: expected {"},
           {" {}", "", "at byte 8: expected {"},
           {"\xef\xbb\xbf{}", "", "at byte 8: expected {"},
           {"", "", "at byte 8: expected {"},
           {std::string("{}\0 ", 4), "", "zero byte"},
           {"{}{}", "", "no JSON"},
           {"{\"a\":" + deep, "", "found a list"},
           {R"({"a":)" + std::string(1000, '{'), "", "JSON"},
           {f32 + R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", eight, "'a' is there twice"},
           {R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", eight, "two of dtype"},
           {R"({"__metadata__":{"k":"1","k":"2"}})", "", "'k' twice"},
           {R"({"__metadata__":{"k":1}})", "", "expected a text as metadata"},
           {R"({"__metadata__":[]})", "", "found a list"},
           {R"({"a":{"dtype":"F32","shape":[2]}})", eight, "lacks data_offsets"},
           {R"({"a":{"shape":[2],"data_offsets":[0,8]}})", eight, "lacks dtype"},
           {R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", eight, "lacks shape"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", eight, "found 'x'"},
           {R"({"a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})", eight, "which Frit lacks"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", eight, "two numbers"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", eight, "two numbers"},
           {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", eight, "negative"},
           {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", eight, "fraction"},
           {R"({"a":{"dtype":"F32","shape":[true],"data_offsets":[0,8]}})", eight, "found true"},
           {R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", eight, "found a list"},
           {R"({"a":{"dtype":"F32","shape":null,"data_offsets":[0,8]}})", eight, "found null"},
           {R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", eight, "found a number"},
           {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", eight, "needs 12 bytes"},
           {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}})", eight, "more than 8 axes"},
           {R"({"a":{"dtype":"F32","shape":[4611686018427387904,2],"data_offsets":[0,8]}})", eight, "more than 2^63"},
           {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "", "more than 2^63"},
           {R"({"a":{"dtype":"U8","shape":[9223372036854775807,9223372036854775807,0],"data_offsets":[0,0]}})", "", "more than 2^63"},
           {R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8]}})", eight, "too large"},
           {R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,8]}})", eight, "too large"},
           {R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})", eight, "only 8 bytes of elements"},
           {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[18446744073709551608,18446744073709551615]}})", eight, "only 8 bytes of elements"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", eight, "before its begin"},
           {f32 + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight, "inside the tensor before it"},
           {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight, "no gaps"},
           {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", eight, "4 more bytes follow"},
           {R"({"a":{"dtype":"BOOL","shape":[8],"data_offsets":[0,8]}})", std::string("\0\1\0\2\0\0\0\0", 8), "expected 0 or 1"},
           {"{\"\xff\":1}", "", "no JSON"},
           {"{\"" + std::string(500, 'n') + "\":7}", "", "expected an object"}}) {
    CAPTURE(c.header.substr(0, 200));
    memory::reset_peak();
    const int64_t before = memory::stats().peak;
    CHECK_THROWS_AS(read_safetensors(safetensors_with(c.header, c.elements)), FileError);
    CHECK_THROWS_WITH(read_safetensors(safetensors_with(c.header, c.elements)), Contains("cannot read x: at byte ") && Contains(c.says));
    CHECK(memory::stats().peak - before < 65536);
  }
  for (const uint64_t length : {uint64_t(3), uint64_t(100000001), uint64_t(1) << 40, ~uint64_t(0), ~uint64_t(7)})
    CHECK_THROWS_WITH(read_safetensors(little(length, 8) + "{}"), Contains("the header should have " + std::to_string(length)));
}

TEST_CASE("hostile npy headers are errors that name byte and reason", "[files]") {
  struct Case {
    std::string dictionary, says;
  };
  const auto shaped = [](const std::string& shape) { return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}"; };
  const auto typed = [](const std::string& descr) { return "{'descr': " + descr + ", 'fortran_order': False, 'shape': (2,)}"; };
  for (const Case& c : std::vector<Case>{
           {"", "expected {"},
           {"{}", "lacks descr"},
           {"{'descr': '<f4', 'shape': (2,)}", "lacks fortran_order"},
           {"{'descr': '<f4', 'fortran_order': False}", "lacks shape"},
           {"{'descr': '<f4', 'descr': '<f4'}", "there twice"},
           {"{'x': 1}", "found 'x'"},
           {"{'descr' '<f4'}", "expected :"},
           {"{'descr': '<f4' 'shape': (2,)}", "expected , or }"},
           {"{'descr': '<f4", "does not end"},
           {"{'descr': '<f\\x34'}", "backslash"},
           {shaped("(2,)") + "x", "goes on"},
           {shaped("(2)"), "no tuple"},
           {shaped("2"), "expected ("},
           {shaped("(,)"), "expected an extent"},
           {shaped("(2,,)"), "expected an extent"},
           {shaped("(-2,)"), "expected an extent"},
           {shaped("(02,)"), "begins with 0"},
           {shaped("(2.0,)"), "expected an extent"},
           {shaped("(2e3,)"), "expected an extent"},
           {shaped("(99999999999999999999,)"), "too large"},
           {shaped("(1,1,1,1,1,1,1,1,2)"), "more than 8 axes"},
           {shaped("(2, 2)"), "needs 16 bytes, but 8 follow"},
           {shaped("(1,)"), "needs 4 bytes, but 8 follow"},
           {shaped("(1099511627776, 1024)"), "bytes, but 8 follow"},
           {shaped("(4611686018427387904, 2)"), "more than 2^63"},
           {shaped("(9223372036854775807, 9223372036854775807, 0)"), "more than 2^63"},
           {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", "expected True or False"},
           {"{'descr': '<f4', 'fortran_order': Falsey, 'shape': (2,)}", "expected True or False"},
           {typed("'|O'"), "pickles"},
           {typed("'<u2'"), "which Frit lacks"},
           {typed("'<c8'"), "complex"},
           {typed("'<U3'"), "text"},
           {typed("'<M8[s]'"), "time"},
           {typed("'<f16'"), "expected bool"},
           {typed("''"), "expected bool"},
           {typed("'<'"), "expected bool"},
           {typed("[('a', '<i4')]"), "structured"},
           {typed("7"), "expected a text as descr"},
           {typed("__import__('os')"), "expected a text as descr"},
           {std::string(60000, '('), "expected {"}}) {
    CAPTURE(c.dictionary.substr(0, 200));
    memory::reset_peak();
    const int64_t before = memory::stats().peak;
    CHECK_THROWS_AS(read_npy(npy_with(c.dictionary, "12345678")), FileError);
    CHECK_THROWS_WITH(read_npy(npy_with(c.dictionary, "12345678")), Contains("cannot read x: at byte ") && Contains(c.says));
    CHECK(memory::stats().peak - before < 65536);
  }
  CHECK(same(read_npy(npy_with(" { 'shape' : ( 2L , ) ,\n\"descr\":\t'f4','fortran_order':False , } \n", "12345678")), read_npy(npy_with(shaped("(2,)"), "12345678"))));
  CHECK_THROWS_WITH(read_npy(npy_with(shaped("(2,)"), "12345678", 4)), Contains("at byte 6") && Contains("4.0"));
  CHECK_THROWS_WITH(read_npy(std::string("\x93NUMPY\2\0\xff\xff\xff\xff{}", 14)), Contains("at most 65536"));
  CHECK_THROWS_WITH(read_npy("PK\3\4 and so on"), Contains("\\x93NUMPY"));
  CHECK_THROWS_WITH(read_npy(npy_with("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\1\2")), Contains("expected 0 or 1"));
}

// ---- hostile zip files ------------------------------------------------------------------------------------------------------
namespace {

std::string raw_deflate(const std::string& plain) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&z, plain.size()) + 16, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  z.avail_in = unsigned(plain.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = unsigned(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}
struct ZipFile {
  struct Entry {
    std::string name, packed;
    uint64_t size = 0;
    uint32_t checksum = 0;
    int method = 0, flags = 0;
    bool zip64 = false;
    std::optional<uint64_t> at = std::nullopt;  // claims this place
    std::string local_name = name;
    bool only_in_directory = false;
  };
  static Entry entry(const std::string& name, const std::string& plain, bool deflate = false) {
    const auto* p = reinterpret_cast<const Bytef*>(plain.data());
    return {name, deflate ? raw_deflate(plain) : plain, plain.size(), uint32_t(crc32(0, p, unsigned(plain.size()))), deflate ? 8 : 0};
  }
  std::vector<Entry> entries;
  bool end64 = false, descriptors = false;
  std::string comment;
  int claimed_entries = -1;
  size_t directory_entries = SIZE_MAX;      // the rest has no entry in it

  std::string bytes() const {
    std::string s, directory;
    for (const Entry& e : entries) {
      const std::string both = little(e.size, 8) + little(e.packed.size(), 8);
      const std::string extra = e.zip64 ? little(1, 2) + little(16, 2) + both : "";
      const uint64_t at = s.size(), escape = 0xffffffff;
      const int flags = e.flags | (descriptors ? 8 : 0);
      const uint64_t packed = e.zip64 ? escape : e.packed.size(), size = e.zip64 ? escape : e.size;
      const std::string fixed = little(45, 2) + little(uint64_t(flags), 2) + little(uint64_t(e.method), 2) + little(0, 4);
      if (!e.only_in_directory) s += "PK\3\4" + fixed + (descriptors ? little(0, 12) : little(e.checksum, 4) + little(packed, 4) + little(size, 4)) + little(e.local_name.size(), 2) +
           little(descriptors ? 0 : extra.size(), 2) + e.local_name + (descriptors ? "" : extra) + e.packed;
      if (descriptors && !e.only_in_directory) s += "PK\7\10" + little(e.checksum, 4) + little(e.packed.size(), 4) + little(e.size, 4);
      if (size_t(&e - entries.data()) < directory_entries)
        directory += "PK\1\2" + little(45, 2) + fixed + little(e.checksum, 4) + little(packed, 4) + little(size, 4) + little(e.name.size(), 2) + little(extra.size(), 2) +
                     little(0, 2) + little(0, 2) + little(0, 2) + little(0, 4) + little(e.at.value_or(at), 4) + e.name + extra;
    }
    const uint64_t at = s.size(), count = claimed_entries < 0 ? entries.size() : uint64_t(claimed_entries);
    s += directory;
    if (end64) {
      const uint64_t end = s.size();
      s += "PK\6\6" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 8) + little(count, 8) + little(count, 8) + little(directory.size(), 8) + little(at, 8);
      s += "PK\6\7" + little(0, 4) + little(end, 8) + little(1, 4);
    }
    const uint64_t short_count = end64 ? 0xffff : count;
    return s + "PK\5\6" + little(0, 4) + little(short_count, 2) + little(short_count, 2) + little(end64 ? 0xffffffff : directory.size(), 4) + little(end64 ? 0xffffffff : at, 4) +
           little(comment.size(), 2) + comment;
  }
};

}  // namespace

TEST_CASE("zip files of other writers are read", "[files]") {
  const Tensor a = tensor({{-1.0, 0.5, 2.0}, {3.5, 5.0, 6.5}});
  for (const bool deflate : {false, true})
    for (const bool zip64 : {false, true})
      for (const bool descriptors : {false, true}) {
        ZipFile zip{{ZipFile::entry("a.npy", float32_npy, deflate), ZipFile::entry("b.npy", version2_npy, deflate)}, zip64, descriptors, zip64 ? "a PK\5\6 comment" : ""};
        for (auto& e : zip.entries) e.zip64 = zip64;
        CHECK(same(read_npz(zip.bytes()), {{"a", a}, {"b", tensor({-2, 1, 4}, kInt16)}}));
      }
}

TEST_CASE("hostile zip files are errors that name place and reason", "[files]") {
  const auto good = [] { return ZipFile{{ZipFile::entry("a.npy", float32_npy), ZipFile::entry("b.npy", float32_npy, true)}, false, false, ""}; };
  CHECK(read_npz(good().bytes()).size() == 2);
  const auto expect = [&](const char* says, const std::function<void(ZipFile&)>& change) {
    CAPTURE(says);
    ZipFile zip = good();
    change(zip);
    memory::reset_peak();
    const int64_t before = memory::stats().peak;
    CHECK_THROWS_AS(read_npz(zip.bytes()), FileError);
    CHECK_THROWS_WITH(read_npz(zip.bytes()), Contains("cannot read x: ") && Contains(says));
    CHECK(memory::stats().peak - before < 65536);
  };
  expect("there twice", [](ZipFile& z) { z.entries[1].name = z.entries[1].local_name = "a.npy"; });
  expect("another name", [](ZipFile& z) { z.entries[1].local_name = "c.npy"; });
  expect("end in .npy", [](ZipFile& z) { z.entries[1].name = z.entries[1].local_name = "b.txt"; });
  expect("encrypted", [](ZipFile& z) { z.entries[0].flags = 1; });
  expect("method 12", [](ZipFile& z) { z.entries[0].method = 12; });
  expect("two different sizes", [](ZipFile& z) { z.entries[0].size = 5; });
  expect("more than its", [](ZipFile& z) { z.entries[1].size = uint64_t(1) << 31; });
  expect("more than its", [](ZipFile& z) { z.entries[1].size = uint64_t(1) << 50, z.entries[1].zip64 = true; });
  expect("bytes, but", [](ZipFile& z) { z.entries[1].size = 5000; });
  expect("checksum", [](ZipFile& z) { z.entries[0].checksum ^= 1; });
  expect("checksum", [](ZipFile& z) { z.entries[1].checksum ^= 1; });
  expect("damaged", [](ZipFile& z) { z.entries[1].packed[0] = '\xff'; });
  expect("end in the middle", [](ZipFile& z) { z.entries[1].packed.resize(20); });
  expect("follow their own end", [](ZipFile& z) { z.entries[1].packed += "x"; });
  // A file of one entry, whole, as the content of another entry, and in the directory too.
  const std::string inner = ZipFile{{ZipFile::entry("b.npy", float32_npy)}, false, false, ""}.bytes();
  expect("shares bytes", [&](ZipFile& z) { z.entries[0] = ZipFile::entry("a.npy", inner), z.entries[1] = ZipFile::entry("b.npy", float32_npy), z.entries[1].at = 35, z.entries[1].only_in_directory = true; });
  expect("share bytes", [&](ZipFile& z) {
    z.entries[0] = ZipFile::entry("a.npy", inner), z.entries[1] = ZipFile::entry("b.npy", float32_npy), z.entries[1].at = 35, z.entries[1].only_in_directory = true;
    z.entries.push_back(ZipFile::entry("c.txt", std::string(1000, 'x')));
    z.claimed_entries = 2, z.directory_entries = 2;
  });
  expect("local header", [](ZipFile& z) { z.entries[1].at = 1; });
  expect("local header", [](ZipFile& z) { z.entries[1].at = 0xfffffff0; });
  expect("goes on after", [](ZipFile& z) { z.claimed_entries = 1; });
  expect("middle of an entry", [](ZipFile& z) { z.claimed_entries = 3; z.entries[0].name = z.entries[0].local_name = std::string(60, 'n') + ".npy"; });
  expect("no room for 60000 entries", [](ZipFile& z) { z.claimed_entries = 60000; });
  expect("\\x93NUMPY", [](ZipFile& z) { z.entries[0] = ZipFile::entry("a.npy", "no npy, but long enough"); });
  expect("it ends at byte 0", [](ZipFile& z) { z.entries[0] = ZipFile::entry("a.npy", ""); });
  CHECK_THROWS_WITH(read_npz("x" + good().bytes()), Contains("the directory should be at byte"));
}
