// The readers and writers of safetensors, npy and npz: round trips of every dtype and layout, the bytes of Python's own libraries, atomic writing.
// Damaged files are in test_files_damage.cpp.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <functional>
#include <catch2/catch.hpp>
#include "tests/support/python_files.h"

using namespace frit;
using namespace frit::test;
using Catch::Matchers::Contains;

namespace {

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
