// Datasets, transforms, samplers, loaders, and idx files as tensors; the files are written by the tests.
#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <catch2/catch.hpp>
#include "frit/frit.h"
#include "frit/print.h"

using namespace frit;
using Catch::Matchers::Contains;
using data::DataLoaderOptions;
using data::make_data_loader;
namespace samplers = frit::data::samplers;
namespace transforms = frit::data::transforms;

namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("frit_test_data_" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, std::vector<uint32_t> extents, const std::vector<uint8_t>& bytes, uint8_t type = 0x08) {
    std::ofstream out(path / name, std::ios::binary);
    out.put(0).put(0).put(char(type)).put(char(extents.size()));
    for (uint32_t e : extents)
      for (int shift = 24; shift >= 0; shift -= 8) out.put(char(e >> shift));
    out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
    return (path / name).string();
  }
  // Seven images of 2 × 3: image i holds i * 6 … i * 6 + 5; its class is i % 3.
  void write_mnist(const std::string& prefix) {
    std::vector<uint8_t> pixels, classes;
    for (int i = 0; i < 42; ++i) pixels.push_back(uint8_t(i));
    for (int i = 0; i < 7; ++i) classes.push_back(uint8_t(i % 3));
    write(prefix + "-images-idx3-ubyte", {7, 2, 3}, pixels);
    write(prefix + "-labels-idx1-ubyte", {7}, classes);
  }
};

// Example i: the number i and its square.
struct Squares : data::Dataset<Squares> {
  size_t count, fails_at;
  explicit Squares(size_t n, size_t bad = size_t(-1)) : count(n), fails_at(bad) {}
  data::Example<> get(size_t i) override {
    if (i == fails_at) throw ValueError("no example " + std::to_string(i));
    return {full({2}, double(i), kFloat32), tensor(int64_t(i * i), kInt64)};
  }
  std::optional<size_t> size() const override { return count; }
};

template <class Loader> std::vector<std::vector<int64_t>> batches(Loader& loader) {
  std::vector<std::vector<int64_t>> list;
  for (auto& batch : loader) {
    REQUIRE(batch.data.size(0) == batch.target.size(0));
    const Tensor data = batch.data.contiguous(), target = batch.target.contiguous();
    std::vector<int64_t> indices;
    for (int64_t k = 0; k < data.size(0); ++k) {
      const int64_t i = int64_t(data.template const_data_ptr<float>()[k * data.stride(0)]);
      REQUIRE(target.template const_data_ptr<int64_t>()[k] == i * i);
      indices.push_back(i);
    }
    list.push_back(indices);
  }
  return list;
}
std::vector<int64_t> joined(const std::vector<std::vector<int64_t>>& list) {
  std::vector<int64_t> all;
  for (const auto& b : list) all.insert(all.end(), b.begin(), b.end());
  return all;
}
std::vector<int64_t> up_to(int64_t n) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

}  // namespace

TEST_CASE("data: a loader gives every example once, in batches") {
  const size_t workers = GENERATE(0, 1, 3);
  const bool drop = GENERATE(false, true);
  const size_t count = GENERATE(0, 1, 10, 12, 13);
  auto loader = make_data_loader<samplers::SequentialSampler>(Squares(count).map(transforms::Stack<>()), DataLoaderOptions(4).workers(workers).drop_last(drop));
  const int64_t expected = int64_t(drop ? count / 4 * 4 : count);
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto got = batches(*loader);
    CHECK(joined(got) == up_to(expected));
    CHECK(got.size() == size_t(expected + 3) / 4);
    for (size_t b = 0; b + 1 < got.size(); ++b) CHECK(got[b].size() == 4);
  }
}

TEST_CASE("data: a random order covers every example once, differs by epoch, and repeats with the seed") {
  const size_t workers = GENERATE(0, 2);
  const auto two_epochs = [&] {
    manual_seed(7);
    auto loader = make_data_loader(Squares(53).map(transforms::Stack<>()), DataLoaderOptions().batch_size(8).workers(workers));
    return std::pair(joined(batches(*loader)), joined(batches(*loader)));
  };
  const auto [first, second] = two_epochs();
  CHECK(first != second);
  CHECK(first != up_to(53));
  for (auto order : {first, second}) {
    std::sort(order.begin(), order.end());
    CHECK(order == up_to(53));
  }
  CHECK(two_epochs() == std::pair(first, second));
}

TEST_CASE("data: leaving a loop early, and errors in an example, leave the loader usable") {
  const size_t workers = GENERATE(0, 2);
  auto loader = make_data_loader<samplers::SequentialSampler>(Squares(20).map(transforms::Stack<>()), DataLoaderOptions(3).workers(workers));
  for (auto& batch : *loader) {
    CHECK(batch.target.size(0) == 3);
    break;
  }
  CHECK(joined(batches(*loader)) == up_to(20));
  auto broken = make_data_loader<samplers::SequentialSampler>(Squares(20, 10).map(transforms::Stack<>()), DataLoaderOptions(3).workers(workers));
  for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH(batches(*broken), Contains("no example 10"));
  CHECK_THROWS_WITH(make_data_loader(Squares(3), DataLoaderOptions(0)), Contains("batch size is 0"));
}

TEST_CASE("data: samplers") {
  samplers::SequentialSampler s(5);
  CHECK(s.next(3) == std::vector<size_t>{0, 1, 2});
  CHECK(s.next(3) == std::vector<size_t>{3, 4});
  CHECK(s.next(3) == std::nullopt);
  s.reset(2);
  CHECK(s.next(9) == std::vector<size_t>{0, 1});
  samplers::RandomSampler r(100);
  const auto part = r.next(60), rest = r.next(60);
  CHECK(rest->size() == 40);
  std::set<size_t> all(part->begin(), part->end());
  all.insert(rest->begin(), rest->end());
  CHECK(all.size() == 100);
  CHECK(*all.rbegin() == 99);
  CHECK(r.next(1) == std::nullopt);
  CHECK(r.index() == 100);
}

TEST_CASE("data: transforms follow one another") {
  auto set = Squares(4)
                 .map(transforms::Lambda<data::Example<>>([](data::Example<> e) {
                   e.target = e.target + Scalar(1);
                   return e;
                 }))
                 .map(transforms::TensorLambda<>([](Tensor x) { return x * 10.0; }))
                 .map(transforms::Stack<>());
  const auto batch = set.get_batch({3, 1});
  CHECK(batch.data.sizes() == IntArrayRef{2, 2});
  CHECK(batch.data.index({0, 1}).item<double>() == 30);
  CHECK(batch.target[0].item<int64_t>() == 10);
  CHECK(set.size() == 4u);
}

TEST_CASE("data: tensors as datasets") {
  const Tensor x = arange(12, kFloat32).reshape({6, 2}), y = arange(6, kInt64);
  data::datasets::PairDataset pairs(x, y);
  const auto stacked = pairs.map(transforms::Stack<>()).get_batch({5, 0, 5});
  CHECK(stacked.data.equal(tensor({10., 11., 0., 1., 10., 11.}, kFloat32).reshape({3, 2})));
  CHECK(stacked.target.equal(tensor({5, 0, 5}, kInt64)));
  CHECK(pairs.get(2).data.equal(x[2]));
  data::datasets::TensorDataset rows(x);
  CHECK(rows.get(1).data.equal(x[1]));
  CHECK(rows.map(transforms::Stack<data::TensorExample>()).get_batch({1, 2}).data.equal(x.slice(0, 1, 3)));
  CHECK_THROWS_WITH(data::datasets::PairDataset(x, arange(5, kInt64)), Contains("[6, 2]") && Contains("[5]"));
}

TEST_CASE("data: idx files and the MNIST family") {
  Folder folder;
  folder.write_mnist("train");
  folder.write_mnist("t10k");
  const Tensor raw = data::load_idx((folder.path / "train-images-idx3-ubyte").string());
  CHECK(raw.dtype() == kUInt8);
  CHECK(raw.sizes() == IntArrayRef{7, 2, 3});
  CHECK(raw.index({6, 1, 2}).item<int64_t>() == 41);
  CHECK(data::load_idx(folder.write("words", {2}, {0xff, 0xfe, 0x01, 0x00}, 0x0b)).equal(tensor({-2, 256}, kInt16)));

  data::datasets::MNIST train(folder.path.string());
  CHECK(train.is_train());
  CHECK_FALSE(data::datasets::MNIST(folder.path.string(), data::datasets::MNIST::Mode::kTest).is_train());
  CHECK(train.size() == 7u);
  CHECK(train.images().sizes() == IntArrayRef{7, 1, 2, 3});
  CHECK(train.targets().dtype() == kInt64);
  const auto example = train.get(4);
  CHECK(example.data.sizes() == IntArrayRef{1, 2, 3});
  CHECK(example.data.index({0, 1, 0}).item<float>() == 27 / 255.0f);
  CHECK(example.target.item<int64_t>() == 1);

  // Gathering a batch at once gives what an example at a time gives.
  const std::vector<size_t> at{6, 2, 2, 0};
  auto normalised = train.map(transforms::Normalize<>(0.25, 0.5));
  const auto slow = transforms::Stack<>().apply_batch(normalised.get_batch(at)), fast = normalised.map(transforms::Stack<>()).get_batch(at);
  CHECK(fast.data.sizes() == IntArrayRef{4, 1, 2, 3});
  CHECK(fast.data.equal(slow.data));
  CHECK(fast.target.equal(slow.target));
  CHECK(fast.data.index({1, 0, 0, 1}).item<float>() == Approx((13 / 255.0 - 0.25) / 0.5).epsilon(1e-6));
  // A transform that sees examples keeps the slow way.
  auto doubled = train.map(transforms::TensorLambda<>([](Tensor x) { return x * 2.0; })).map(transforms::Stack<>()).get_batch(at);
  CHECK(doubled.data.index({0, 0, 1, 2}).item<float>() == Approx(82 / 255.0));

  const std::string nowhere = (folder.path / "nowhere").string();
  CHECK_THROWS_WITH(data::datasets::MNIST(nowhere), Contains("train-images-idx3-ubyte") && Contains(nowhere));
  CHECK_THROWS_AS(data::datasets::FashionMNIST(data::datasets::MNIST::Mode::kTrain, nowhere), FileError);
  folder.write("train-labels-idx1-ubyte", {6}, {0, 1, 2, 3, 4, 5});
  CHECK_THROWS_WITH(data::datasets::MNIST(folder.path.string()), Contains("classes of 7 images"));
}
