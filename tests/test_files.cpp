// The readers and writers of safetensors, npy and npz: round trips of every dtype and layout, the bytes of Python's own libraries, damage
// of every byte and at every length, hostile headers, atomic writing.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <functional>
#include <catch2/catch.hpp>
#include "frit/files.h"
#include "frontend/files/bytes.h"
#include "frontend/files/npy.h"
#include "frontend/files/npz.h"
#include "frontend/files/safetensors.h"
#include "tests/support/files.h"

using namespace frit;
using namespace frit::test;
using Catch::Matchers::Contains;
using Tensors = std::map<std::string, Tensor>;

namespace {

// Written by NumPy 2.4 and safetensors 0.8: a = (-1, 0.5, 2, 3.5, 5, 6.5) as [2, 3], bools (true, false, true), n = (-2, 1),
// z = 300 zeros; the npy files count -2, 1, 4 and on.
const std::string small_safetensors = base64(
    "yAAAAAAAAAB7Il9fbWV0YWRhdGFfXyI6eyJrIjoidlwiXG4ifSwibiI6eyJkdHlwZSI6Ikk2NCIsInNoYXBlIjpbMl0sImRhdGFfb2Zmc2V0cyI6WzAsMTZdfSwiYSI6"
    "eyJkdHlwZSI6IkYzMiIsInNoYXBlIjpbMiwzXSwiZGF0YV9vZmZzZXRzIjpbMTYsNDBdfSwiw7wiOnsiZHR5cGUiOiJCT09MIiwic2hhcGUiOlszXSwiZGF0YV9vZmZz"
    "ZXRzIjpbNDAsNDNdfX0gIP7/////////AQAAAAAAAAAAAIC/AAAAPwAAAEAAAGBAAACgQAAA0EABAAE=");
const std::string small_npz = base64(
    "UEsDBC0AAAAAAAAAIQCoFMIO//////////8FABQAYS5ucHkBABAAmAAAAAAAAACYAAAAAAAAAJNOVU1QWQEAdgB7J2Rlc2NyJzogJzxmNCcsICdmb3J0cmFuX29yZGVy"
    "JzogRmFsc2UsICdzaGFwZSc6ICgyLCAzKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAKAACAvwAAAD8A"
    "AABAAABgQAAAoEAAANBAUEsDBC0AAAAAAAAAIQAWk4y7//////////8FABQAYi5ucHkBABAAgwAAAAAAAACDAAAAAAAAAJNOVU1QWQEAdgB7J2Rlc2NyJzogJ3xiMScs"
    "ICdmb3J0cmFuX29yZGVyJzogRmFsc2UsICdzaGFwZSc6ICgzLCksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAKAQABUEsBAi0DLQAAAAAAAAAhAKgUwg6YAAAAmAAAAAUAAAAAAAAAAAAAAIABAAAAAGEubnB5UEsBAi0DLQAAAAAAAAAhABaTjLuDAAAAgwAAAAUAAAAAAAAA"
    "AAAAAIABzwAAAGIubnB5UEsFBgAAAAACAAIAZgAAAIkBAAAAAA==");
const std::string deflated_npz = base64(
    "UEsDBC0AAAAIAAAAIQCoFMIO//////////8FABQAYS5ucHkBABAAmAAAAAAAAABaAAAAAAAAAJvsF+obEMnIUMZQrZ6SWpxcpG6loG6TZqKuo6Cell9UUpSYF59flJIK"
    "EndLzClOBYoXZyQWpAL5GkY6CsaaOgq1CmQDLgaGhv0MDAz2QOzAwJAAxAuA+IIDAFBLAwQtAAAACAAAACEAdKiYgf//////////BQAUAHoubnB5AQAQAOAJAAAAAAAA"
    "WAAAAAAAAACb7BfqGxDJyFDGUK2eklqcXKRupaBuk2ahrqOgnpZfVFKUmBefX5SSChJ3S8wpTgWKF2ckFqQC+RrGBgY6mjoKtQpkAy6GUTAKRsEoGAWjYBSMglFAVQAA"
    "UEsBAi0DLQAAAAgAAAAhAKgUwg5aAAAAmAAAAAUAAAAAAAAAAAAAAIABAAAAAGEubnB5UEsBAi0DLQAAAAgAAAAhAHSomIFYAAAA4AkAAAUAAAAAAAAAAAAAAIABkQAA"
    "AHoubnB5UEsFBgAAAAACAAIAZgAAACABAAAAAA==");
const std::string fortran_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGk0JywgJ2ZvcnRyYW5fb3JkZXInOiBUcnVlLCAnc2hhcGUnOiAoMiwgMyksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAr+////BwAAAAEAAAAKAAAABAAAAA0AAAA=");
const std::string big_endian_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPmY4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAq/8AAAAAAAAD/gAAAAAAAAQAAAAAAAAABADAAAAAAAAEAUAAAAAAAAQBoAAAAAAAA=");
const std::string version2_npy = base64(
    "k05VTVBZAgB0AAAAeydkZXNjcic6ICc8aTInLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMywpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAr+/wEABAA=");
const std::string version3_npy = base64(
    "k05VTVBZAwB0AAAAeydkZXNjcic6ICc8aTInLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMywpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAr+/wEABAA=");
const std::string float32_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAIC/AAAAPwAAAEAAAGBAAACgQAAA0EA=");
const std::string bfloat16_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPFYyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDUsKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAqAvwA/AEBgQKBA");
const std::string scalar_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGYyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKCksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAvA==");
const std::string object_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiAnfE8nLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMSwpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAqABJWLAAAAAAAAAIwWbnVtcHkuX2NvcmUubXVsdGlhcnJheZSMDF9yZWNvbnN0cnVjdJSTlIwFbnVtcHmUjAdu"
    "ZGFycmF5lJOUSwCFlEMBYpSHlFKUKEsBSwGFlGgDjAVkdHlwZZSTlIwCTziUiYiHlFKUKEsDjAF8lE5OTkr/////Sv////9LP3SUYoldlH2UYXSUYi4=");
const std::string structured_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiBbKCdhJywgJzxpNCcpLCAoJ2InLCAnPGY0JyldLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMiwpLCB9ICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAAAAAAAAAAAAAA");

Tensors read_safetensors(const std::string& bytes) { return files::read_safetensors(files::Source::memory("x", bytes.data(), bytes.size())); }
Tensors read_npz(const std::string& bytes) { return files::read_npz(files::Source::memory("x", bytes.data(), bytes.size())); }
Tensor read_npy(const std::string& bytes) {
  const files::Source source = files::Source::memory("x", bytes.data(), bytes.size());
  files::SourceStream in(source);
  return files::read_npy(in);
}
std::string safetensors_bytes(const Tensors& t, const StringMap& metadata = {}) {
  files::TextSink sink;
  files::write_safetensors(sink, t, metadata);
  return sink.text;
}
std::string safetensors_with(const std::string& header, const std::string& elements = {}) { return little(header.size(), 8) + header + elements; }
std::string npy_with(const std::string& dictionary, const std::string& elements = {}, int version = 1) {
  return std::string("\x93NUMPY") + char(version) + '\0' + little(dictionary.size(), version == 1 ? 2 : 4) + dictionary + elements;
}

// One tensor in many layouts; the first is contiguous.
std::vector<Tensor> layouts(Dtype d, std::mt19937_64& random) {
  const Tensor t = random_bits({4, 3, 5}, d, random);
  return {t, t.permute({2, 0, 1}), t.slice(0, 1, 4, 2), t.slice(2, 0, 5, 3), t.select(1, 1), t.unsqueeze(1).expand({4, 2, 3, 5}), t.narrow(0, 1, 2),
          random_bits({}, d, random), random_bits({0, 3}, d, random), random_bits({3, 0}, d, random), random_bits({0}, d, random), random_bits({7}, d, random),
          random_bits({1, 2, 1, 2, 1, 2, 1, 2}, d, random), t.select(0, 2).t(), t.diagonal(0, 0, 1)};
}
void each_dtype(const std::function<void(Dtype)>& f) {
  for (int d = 0; d < dtype_count; ++d) f(Dtype(d));
}

}  // namespace

TEST_CASE("every dtype and layout comes back with its bits", "[files]") {
  Folder folder;
  std::mt19937_64 random(7);
  Tensors all;
  each_dtype([&](Dtype d) {
    CAPTURE(dtype_name(d));
    int i = 0;
    for (const Tensor& t : layouts(d, random)) {
      all[std::string(dtype_name(d)) + std::to_string(i++)] = t;
      save_npy(folder / "t.npy", t);
      const Tensor back = load_npy(folder / "t.npy");
      CHECK(same(back, t));
      CHECK(back.is_contiguous());
    }
  });
  save_safetensors(folder / "t.safetensors", all, {{"who", "\u00fc \"quoted\" \n"}, {"", ""}});
  CHECK(same(load_safetensors(folder / "t.safetensors"), all));
  CHECK(load_safetensors_metadata(folder / "t.safetensors") == StringMap{{"who", "\u00fc \"quoted\" \n"}, {"", ""}});
  for (const bool compress : {false, true}) {
    save_npz(folder / "t.npz", all, compress);
    CHECK(same(load_npz(folder / "t.npz"), all));
  }
  CHECK(folder.count() == 3);
}

TEST_CASE("files without tensors, and names of all kinds", "[files]") {
  Folder folder;
  const Tensors none, odd{{"", ones({2})}, {"a b/c.d", zeros({1})}, {"\xc3\xbc", ones({3}, kBool)}, {std::string(300, 'x'), arange(4)}, {"quote\"\\\n\x01", eye(2)}};
  for (const Tensors& t : {none, odd}) {
    save_safetensors(folder / "s", t);
    CHECK(same(load_safetensors(folder / "s"), t));
    save_npz(folder / "z", t);
    CHECK(same(load_npz(folder / "z"), t));
  }
  CHECK(safetensors_bytes({}) == safetensors_with("{}      "));
  CHECK_THROWS_AS(save_safetensors(folder / "n", {{"\xff", ones({1})}}), ValueError);
  CHECK_THROWS_AS(save_safetensors(folder / "n", {{"__metadata__", ones({1})}}), ValueError);
  CHECK_THROWS_AS(save_safetensors(folder / "n", {{"x", Tensor()}}), ValueError);
  CHECK_THROWS_AS(save_npy(folder / "n", Tensor()), ValueError);
  CHECK_THROWS_AS(save_npz(folder / "n", {{std::string(70000, 'x'), ones({1})}}), ValueError);
  CHECK(folder.count() == 2);
}

TEST_CASE("tensors that are deferred or need gradients are saved by their values", "[files]") {
  Folder folder;
  const Tensor w = ones({3}, dtype(kFloat32).requires_grad(true));
  save_npy(folder / "w.npy", w * 2 + 1);
  const Tensor back = load_npy(folder / "w.npy");
  CHECK(back.equal(full({3}, 3.0)));
  CHECK_FALSE(back.requires_grad());
}

TEST_CASE("files of Python's libraries are read, and written with the same bytes", "[files]") {
  const Tensor a = tensor({{-1.0, 0.5, 2.0}, {3.5, 5.0, 6.5}}), bools = tensor({true, false, true}), n = tensor({-2, 1}, kInt64);
  const Tensors three{{"a", a}, {"n", n}, {"\xc3\xbc", bools}};
  CHECK(same(read_safetensors(small_safetensors), three));
  CHECK(safetensors_bytes(three, {{"k", "v\"\n"}}) == small_safetensors);

  Folder folder;
  const Tensors two{{"a", a}, {"b", bools}};
  CHECK(same(read_npz(small_npz), two));
  save_npz(folder / "x.npz", two);
  CHECK(file_bytes(folder / "x.npz") == small_npz);
  CHECK(same(read_npz(deflated_npz), {{"a", a}, {"z", zeros({300}, kFloat64)}}));

  const auto written = [&](const Tensor& t) {
    save_npy(folder / "x.npy", t);
    return file_bytes(folder / "x.npy");
  };
  const Tensor fives = tensor({-1.0, 0.5, 2.0, 3.5, 5.0});
  CHECK(same(read_npy(float32_npy), a));
  CHECK(written(a) == float32_npy);
  CHECK(same(read_npy(bfloat16_npy), fives.to(kBFloat16)));
  CHECK(written(fives.to(kBFloat16)) == bfloat16_npy);
  CHECK(same(read_npy(scalar_npy), tensor(-1.0).to(kFloat16)));
  CHECK(written(tensor(-1.0).to(kFloat16)) == scalar_npy);
  CHECK(same(read_npy(version2_npy), tensor({-2, 1, 4}, kInt16)));
  CHECK(same(read_npy(version3_npy), tensor({-2, 1, 4}, kInt16)));
  CHECK(same(read_npy(big_endian_npy), a.to(kFloat64)));
  const Tensor fortran = read_npy(fortran_npy);
  CHECK(same(fortran, tensor({{-2, 1, 4}, {7, 10, 13}}, kInt32)));
  CHECK(fortran.strides() == IntArrayRef{1, 2});
  CHECK_THROWS_WITH(read_npy(object_npy), Contains("'|O'") && Contains("pickles"));
  CHECK_THROWS_WITH(read_npy(structured_npy), Contains("structured"));
}

TEST_CASE("either byte order and axis order of every type", "[files]") {
  std::mt19937_64 random(11);
  const char* kinds[] = {"b1", "u1", "i1", "i2", "i4", "i8", "f2", "V2", "f4", "f8"};
  each_dtype([&](Dtype d) {
    const Tensor t = random_bits({2, 3, 4}, d, random), turned = t.permute({2, 1, 0});
    std::string swapped = bytes_of(t);
    const size_t n = size_of(d);
    for (size_t i = 0; i < swapped.size(); i += n) std::reverse(swapped.begin() + std::ptrdiff_t(i), swapped.begin() + std::ptrdiff_t(i + n));
    for (const char order : {'<', '>', '=', '|'})
      for (const bool fortran : {false, true}) {
        const std::string text = std::string("{'descr':'") + order + kinds[size_t(d)] + "','shape':" + (fortran ? "(4,3,2)" : "(2, 3, 4,)") + ",\"fortran_order\": " + (fortran ? "True" : "False") + "}";
        CHECK(same(read_npy(npy_with(text, order == '>' ? swapped : bytes_of(t))), fortran ? turned : t));
      }
  });
}

// ---- damage -----------------------------------------------------------------------------------------------------------------
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
  };
  static Entry entry(const std::string& name, const std::string& plain, bool deflate = false) {
    const auto* p = reinterpret_cast<const Bytef*>(plain.data());
    return {name, deflate ? raw_deflate(plain) : plain, plain.size(), uint32_t(crc32(0, p, unsigned(plain.size()))), deflate ? 8 : 0};
  }
  std::vector<Entry> entries;
  bool end64 = false, descriptors = false;
  std::string comment;
  int claimed_entries = -1;

  std::string bytes() const {
    std::string s, directory;
    for (const Entry& e : entries) {
      const std::string both = little(e.size, 8) + little(e.packed.size(), 8);
      const std::string extra = e.zip64 ? little(1, 2) + little(16, 2) + both : "";
      const uint64_t at = s.size(), escape = 0xffffffff;
      const int flags = e.flags | (descriptors ? 8 : 0);
      const uint64_t packed = e.zip64 ? escape : e.packed.size(), size = e.zip64 ? escape : e.size;
      const std::string fixed = little(45, 2) + little(uint64_t(flags), 2) + little(uint64_t(e.method), 2) + little(0, 4);
      s += "PK\3\4" + fixed + (descriptors ? little(0, 12) : little(e.checksum, 4) + little(packed, 4) + little(size, 4)) + little(e.local_name.size(), 2) +
           little(descriptors ? 0 : extra.size(), 2) + e.local_name + (descriptors ? "" : extra) + e.packed;
      if (descriptors) s += "PK\7\10" + little(e.checksum, 4) + little(e.packed.size(), 4) + little(e.size, 4);
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
        ZipFile zip{{ZipFile::entry("a.npy", float32_npy, deflate), ZipFile::entry("b.npy", version2_npy, deflate)}, zip64, descriptors, zip64 ? "a PK\5\6 comment" : "", -1};
        for (auto& e : zip.entries) e.zip64 = zip64;
        CHECK(same(read_npz(zip.bytes()), {{"a", a}, {"b", tensor({-2, 1, 4}, kInt16)}}));
      }
}

TEST_CASE("hostile zip files are errors that name place and reason", "[files]") {
  const auto good = [] { return ZipFile{{ZipFile::entry("a.npy", float32_npy), ZipFile::entry("b.npy", float32_npy, true)}, false, false, "", -1}; };
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
  expect("share bytes", [](ZipFile& z) { z.entries[1] = z.entries[0], z.entries[1].name = "a.npy2.npy", z.entries[1].at = 0; z.entries[0].name = "x.npy"; });
  expect("local header", [](ZipFile& z) { z.entries[1].at = 1; });
  expect("local header", [](ZipFile& z) { z.entries[1].at = 0xfffffff0; });
  expect("goes on after", [](ZipFile& z) { z.claimed_entries = 1; });
  expect("middle of an entry", [](ZipFile& z) { z.claimed_entries = 3; z.entries[0].name = z.entries[0].local_name = std::string(60, 'n') + ".npy"; });
  expect("no room for 60000 entries", [](ZipFile& z) { z.claimed_entries = 60000; });
  expect("\\x93NUMPY", [](ZipFile& z) { z.entries[0] = ZipFile::entry("a.npy", "no npy, but long enough"); });
  expect("it ends at byte 0", [](ZipFile& z) { z.entries[0] = ZipFile::entry("a.npy", ""); });
  CHECK_THROWS_WITH(read_npz("x" + good().bytes()), Contains("the directory should be at byte"));
  // A bomb of one kernel of zeros under many names.
  ZipFile quilt;
  const ZipFile::Entry kernel = ZipFile::entry("0.npy", npy_with("{'descr':'|u1','fortran_order':False,'shape':(1000000,)}", std::string(1000000, '\0')), true);
  quilt.entries.push_back(kernel);
  for (int i = 1; i < 100; ++i) {
    ZipFile::Entry e = kernel;
    e.name = e.local_name = std::to_string(i) + ".npy";
    e.packed.clear(), e.method = 8;
    quilt.entries.push_back(e);
  }
  CHECK_THROWS_AS(read_npz(quilt.bytes()), FileError);
}

TEST_CASE("entries that share bytes are refused before anything is unpacked", "[files]") {
  // A thousand entries with one long local header.
  const std::string name(2000, 'n');
  ZipFile zip;
  for (int i = 0; i < 1000; ++i) {
    ZipFile::Entry e = ZipFile::entry(name + std::to_string(i) + ".npy", "");
    e.at = 0;
    e.local_name = name + "0.npy";
    if (i) e.local_name = "";
    zip.entries.push_back(e);
  }
  CHECK_THROWS_AS(read_npz(zip.bytes()), FileError);
}

// ---- files as such ----------------------------------------------------------------------------------------------------------
TEST_CASE("what cannot be opened is an error with the path and the reason", "[files]") {
  Folder folder;
  CHECK_THROWS_WITH(load_npy(folder / "none.npy"), Contains("none.npy") && Contains("No such file"));
  CHECK_THROWS_WITH(load_npz(folder / ""), Contains("no regular file"));
  CHECK_THROWS_WITH(load_safetensors("/dev/zero"), Contains("no regular file"));
  CHECK_THROWS_AS(load_npy(std::string("a\0b", 3)), FileError);
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(load_npy(folder / "pipe"), Contains("no regular file"));
  const Tensor t = ones({2});
  CHECK_THROWS_WITH(save_npy(folder / "no/x.npy", t), Contains("no/x.npy") && Contains("No such file"));
  CHECK_THROWS_AS(save_npy(folder / "", t), FileError);
  CHECK_THROWS_AS(save_npy("", t), FileError);
  CHECK_THROWS_WITH(save_npy("/dev/full", t), Contains("no regular file"));
  CHECK_THROWS_WITH(save_npy(folder / "pipe", t), Contains("no regular file"));
}

TEST_CASE("an error while writing leaves the old file whole and nothing beside it", "[files]") {
  Folder folder;
  const std::string path = folder / "x";
  const Tensor small = arange(10), large = arange(100000);
  // A disk that is full, as far as this process can tell.
  struct sigaction ignore {}, before {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &ignore, &before);
  rlimit limit{}, old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  limit = old_limit;
  limit.rlim_cur = 4096;
  using Save = std::function<void(const Tensor&)>;
  for (const Save& save : {Save([&](const Tensor& t) { save_npy(path, t); }), Save([&](const Tensor& t) { save_npz(path, {{"a", t}}); }),
                           Save([&](const Tensor& t) { save_npz(path, {{"a", t}}, true); }), Save([&](const Tensor& t) { save_safetensors(path, {{"a", t}}); })}) {
    save(small);
    const std::string old = file_bytes(path);
    setrlimit(RLIMIT_FSIZE, &limit);
    CHECK_THROWS_AS(save(large), FileError);
    CHECK_THROWS_WITH(save(large), Contains(path) && Contains("File too large") && Contains("unchanged"));
    setrlimit(RLIMIT_FSIZE, &old_limit);
    CHECK(file_bytes(path) == old);
    CHECK(folder.count() == 1);
    save(large);
    CHECK(file_bytes(path).size() > 4096);
  }
  sigaction(SIGXFSZ, &before, nullptr);

  // A folder that may not be written. (Root may write everywhere, so it becomes somebody else.)
  const std::string old = file_bytes(path);
  const bool root = geteuid() == 0;
  chmod((folder / "").c_str(), 0555);
  if (root) REQUIRE(seteuid(65534) == 0);
  CHECK_THROWS_WITH(save_npy(path, small), Contains("Permission denied"));
  if (root) REQUIRE(seteuid(0) == 0);
  chmod((folder / "").c_str(), 0755);
  CHECK(file_bytes(path) == old);
  CHECK(folder.count() == 1);
}

TEST_CASE("a file that is replaced keeps its rights, its link, and its readers", "[files]") {
  Folder folder;
  save_npy(folder / "x", arange(3));
  chmod((folder / "x").c_str(), 0640);
  std::filesystem::create_symlink("x", folder / "link");
  const files::Source reader = files::Source::open(folder / "link");
  save_npy(folder / "link", arange(5));
  struct stat info {};
  REQUIRE(stat((folder / "x").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0640);
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(load_npy(folder / "x").numel() == 5);
  files::SourceStream in(reader);
  CHECK(files::read_npy(in).numel() == 3);
  CHECK(folder.count() == 2);
}
