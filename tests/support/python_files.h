// Small files that Python's own libraries wrote, and the readers and writers on bytes in memory.
#pragma once
#include "frit/files.h"
#include "frontend/files/bytes.h"
#include "frontend/files/npy.h"
#include "frontend/files/npz.h"
#include "frontend/files/safetensors.h"
#include "tests/support/files.h"

namespace frit::test {

using Tensors = std::map<std::string, Tensor>;

// Written by NumPy 2.4 and safetensors 0.8: a = (-1, 0.5, 2, 3.5, 5, 6.5) as [2, 3], bools (true, false, true), n = (-2, 1),
// z = 300 zeros; the npy files count -2, 1, 4 and on.
inline const std::string small_safetensors = base64(
    "yAAAAAAAAAB7Il9fbWV0YWRhdGFfXyI6eyJrIjoidlwiXG4ifSwibiI6eyJkdHlwZSI6Ikk2NCIsInNoYXBlIjpbMl0sImRhdGFfb2Zmc2V0cyI6WzAsMTZdfSwiYSI6"
    "eyJkdHlwZSI6IkYzMiIsInNoYXBlIjpbMiwzXSwiZGF0YV9vZmZzZXRzIjpbMTYsNDBdfSwiw7wiOnsiZHR5cGUiOiJCT09MIiwic2hhcGUiOlszXSwiZGF0YV9vZmZz"
    "ZXRzIjpbNDAsNDNdfX0gIP7/////////AQAAAAAAAAAAAIC/AAAAPwAAAEAAAGBAAACgQAAA0EABAAE=");
inline const std::string small_npz = base64(
    "UEsDBC0AAAAAAAAAIQCoFMIO//////////8FABQAYS5ucHkBABAAmAAAAAAAAACYAAAAAAAAAJNOVU1QWQEAdgB7J2Rlc2NyJzogJzxmNCcsICdmb3J0cmFuX29yZGVy"
    "JzogRmFsc2UsICdzaGFwZSc6ICgyLCAzKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAKAACAvwAAAD8A"
    "AABAAABgQAAAoEAAANBAUEsDBC0AAAAAAAAAIQAWk4y7//////////8FABQAYi5ucHkBABAAgwAAAAAAAACDAAAAAAAAAJNOVU1QWQEAdgB7J2Rlc2NyJzogJ3xiMScs"
    "ICdmb3J0cmFuX29yZGVyJzogRmFsc2UsICdzaGFwZSc6ICgzLCksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAKAQABUEsBAi0DLQAAAAAAAAAhAKgUwg6YAAAAmAAAAAUAAAAAAAAAAAAAAIABAAAAAGEubnB5UEsBAi0DLQAAAAAAAAAhABaTjLuDAAAAgwAAAAUAAAAAAAAA"
    "AAAAAIABzwAAAGIubnB5UEsFBgAAAAACAAIAZgAAAIkBAAAAAA==");
inline const std::string deflated_npz = base64(
    "UEsDBC0AAAAIAAAAIQCoFMIO//////////8FABQAYS5ucHkBABAAmAAAAAAAAABaAAAAAAAAAJvsF+obEMnIUMZQrZ6SWpxcpG6loG6TZqKuo6Cell9UUpSYF59flJIK"
    "EndLzClOBYoXZyQWpAL5GkY6CsaaOgq1CmQDLgaGhv0MDAz2QOzAwJAAxAuA+IIDAFBLAwQtAAAACAAAACEAdKiYgf//////////BQAUAHoubnB5AQAQAOAJAAAAAAAA"
    "WAAAAAAAAACb7BfqGxDJyFDGUK2eklqcXKRupaBuk2ahrqOgnpZfVFKUmBefX5SSChJ3S8wpTgWKF2ckFqQC+RrGBgY6mjoKtQpkAy6GUTAKRsEoGAWjYBSMglFAVQAA"
    "UEsBAi0DLQAAAAgAAAAhAKgUwg5aAAAAmAAAAAUAAAAAAAAAAAAAAIABAAAAAGEubnB5UEsBAi0DLQAAAAgAAAAhAHSomIFYAAAA4AkAAAUAAAAAAAAAAAAAAIABkQAA"
    "AHoubnB5UEsFBgAAAAACAAIAZgAAACABAAAAAA==");
inline const std::string fortran_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGk0JywgJ2ZvcnRyYW5fb3JkZXInOiBUcnVlLCAnc2hhcGUnOiAoMiwgMyksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAr+////BwAAAAEAAAAKAAAABAAAAA0AAAA=");
inline const std::string big_endian_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPmY4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAq/8AAAAAAAAD/gAAAAAAAAQAAAAAAAAABADAAAAAAAAEAUAAAAAAAAQBoAAAAAAAA=");
inline const std::string version2_npy = base64(
    "k05VTVBZAgB0AAAAeydkZXNjcic6ICc8aTInLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMywpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAr+/wEABAA=");
inline const std::string version3_npy = base64(
    "k05VTVBZAwB0AAAAeydkZXNjcic6ICc8aTInLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMywpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAr+/wEABAA=");
inline const std::string float32_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAIC/AAAAPwAAAEAAAGBAAACgQAAA0EA=");
inline const std::string bfloat16_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPFYyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDUsKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAqAvwA/AEBgQKBA");
inline const std::string scalar_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGYyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKCksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAvA==");
inline const std::string object_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiAnfE8nLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMSwpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAqABJWLAAAAAAAAAIwWbnVtcHkuX2NvcmUubXVsdGlhcnJheZSMDF9yZWNvbnN0cnVjdJSTlIwFbnVtcHmUjAdu"
    "ZGFycmF5lJOUSwCFlEMBYpSHlFKUKEsBSwGFlGgDjAVkdHlwZZSTlIwCTziUiYiHlFKUKEsDjAF8lE5OTkr/////Sv////9LP3SUYoldlH2UYXSUYi4=");
inline const std::string structured_npy = base64(
    "k05VTVBZAQB2AHsnZGVzY3InOiBbKCdhJywgJzxpNCcpLCAoJ2InLCAnPGY0JyldLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMiwpLCB9ICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAAAAAAAAAAAAAA");


inline Tensors read_safetensors(const std::string& bytes) { return files::read_safetensors(files::Source::memory("x", bytes.data(), bytes.size())); }
inline Tensors read_npz(const std::string& bytes) { return files::read_npz(files::Source::memory("x", bytes.data(), bytes.size())); }
inline Tensor read_npy(const std::string& bytes) {
  const files::Source source = files::Source::memory("x", bytes.data(), bytes.size());
  files::SourceStream in(source);
  return files::read_npy(in);
}
inline std::string safetensors_bytes(const Tensors& t, const StringMap& metadata = {}) {
  files::TextSink sink;
  files::write_safetensors(sink, t, metadata);
  return sink.text;
}
inline std::string safetensors_with(const std::string& header, const std::string& elements = {}) { return little(header.size(), 8) + header + elements; }
inline std::string npy_with(const std::string& dictionary, const std::string& elements = {}, int version = 1) {
  return std::string("\x93NUMPY") + char(version) + '\0' + little(dictionary.size(), version == 1 ? 2 : 4) + dictionary + elements;
}

}  // namespace frit::test
