// BucketSampler, alone and under a DataLoader with threads: what a batch may hold, what an epoch holds, what a seed fixes.
#include <algorithm>
#include <random>
#include <set>
#include <catch2/catch.hpp>
#include "frit/data/bucket_sampler.h"

using namespace frit;
using data::BucketSampler;
using data::BucketSamplerOptions;
using Batches = std::vector<std::vector<size_t>>;

namespace {

std::vector<int64_t> some_lengths(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> lengths(n);
  for (int64_t& l : lengths) l = int64_t(random() % 100);
  return lengths;
}
Batches rest(BucketSampler& sampler, size_t batch_size) {
  Batches all;
  while (auto batch = sampler.next(batch_size)) all.push_back(*batch);
  return all;
}
Batches epoch(BucketSampler& sampler, size_t batch_size) {
  sampler.reset();
  return rest(sampler, batch_size);
}

// A set whose data is one row per sample, of that sample's own length.
struct Ragged : data::Dataset<Ragged> {
  std::vector<int64_t> lengths;
  size_t broken = SIZE_MAX;
  explicit Ragged(std::vector<int64_t> l) : lengths(std::move(l)) {}
  data::Example<> get(size_t i) override {
    if (i == broken) throw ValueError("sample " + std::to_string(i) + " is broken");
    return {full({lengths[i]}, double(i)), tensor(int64_t(i))};
  }
  std::optional<size_t> size() const override { return lengths.size(); }
};

}  // namespace

TEST_CASE("an epoch has every sample once, in batches of one bucket each", "[bucket_sampler]") {
  for (const size_t n : {0, 1, 7, 200})
    for (const size_t batch_size : {1, 3, 32, 1000})
      for (const bool shuffle : {false, true}) {
        CAPTURE(n, batch_size, shuffle);
        BucketSampler sampler(some_lengths(n, 3), {0, 10, 30, 60}, BucketSamplerOptions().seed(9).shuffle(shuffle));
        CHECK(sampler.bucket_count() == 5);
        for (int e = 0; e < 2; ++e) {
          const Batches batches = epoch(sampler, batch_size);
          std::multiset<size_t> seen;
          bool short_ones = false;
          for (const auto& b : batches) {
            REQUIRE(!b.empty());
            CHECK(b.size() <= batch_size);
            CHECK((b.size() < batch_size || !short_ones));  // full batches come first
            short_ones |= b.size() < batch_size;
            for (size_t i : b) CHECK(sampler.bucket_of(i) == sampler.bucket_of(b[0]));
            seen.insert(b.begin(), b.end());
          }
          CHECK(seen.size() == n);
          CHECK(std::set<size_t>(seen.begin(), seen.end()).size() == n);
        }
      }
}

TEST_CASE("a length belongs to the first bucket that it does not exceed", "[bucket_sampler]") {
  const BucketSampler sampler({0, 10, 11, 30, 31, 1000000}, {10, 30});
  const size_t expected[] = {0, 0, 1, 1, 2, 2};
  for (size_t i = 0; i < 6; ++i) CHECK(sampler.bucket_of(i) == expected[i]);
  CHECK(BucketSampler({1, 2}, {}).bucket_count() == 1);
}

TEST_CASE("seed and epoch fix the order, and nothing else does", "[bucket_sampler]") {
  const auto lengths = some_lengths(100, 5);
  const auto make = [&](uint64_t seed) { return BucketSampler(lengths, {25, 50, 75}, BucketSamplerOptions().seed(seed)); };
  BucketSampler a = make(1), b = make(1), c = make(2);
  const Batches first = epoch(a, 8), second = epoch(a, 8);
  CHECK(a.epoch() == 1);
  manual_seed(77);
  CHECK(epoch(b, 8) == first);
  CHECK(epoch(b, 8) == second);
  CHECK(first != second);
  CHECK(epoch(c, 8) != first);
  BucketSampler resumed = make(1);
  resumed.set_epoch(1);
  CHECK(epoch(resumed, 8) == second);
  BucketSampler without_reset = make(1);
  CHECK(rest(without_reset, 8) == first);
  CHECK(epoch(without_reset, 8) == second);
  // These numbers are part of the promise: they may not change with the compiler or the platform.
  BucketSampler fixed({1, 1, 1, 1, 9, 9, 9}, {5}, BucketSamplerOptions().seed(1));
  CHECK(epoch(fixed, 2) == Batches{{0, 3}, {1, 2}, {4, 6}, {5}});

  const auto drawn = [&] {
    BucketSampler s(lengths, {25, 50, 75});
    return epoch(s, 8);
  };
  manual_seed(1);
  const Batches d = drawn(), e = drawn();
  manual_seed(1);
  CHECK(drawn() == d);
  CHECK(d != e);
  BucketSampler in_order(lengths, {25, 50, 75}, BucketSamplerOptions().shuffle(false));
  const Batches o = epoch(in_order, 8);
  CHECK(o == epoch(in_order, 8));
  for (const auto& batch : o) CHECK(std::is_sorted(batch.begin(), batch.end()));
}

TEST_CASE("wrong arguments of a BucketSampler are errors", "[bucket_sampler]") {
  CHECK_THROWS_AS(BucketSampler({1}, {5, 5}), ValueError);
  CHECK_THROWS_AS(BucketSampler({1}, {5, 4}), ValueError);
  CHECK_THROWS_AS(BucketSampler({1, -1}, {5}), ValueError);
  BucketSampler s(some_lengths(10, 1), {50});
  CHECK_THROWS_AS(s.reset(11), ValueError);
  s.reset(10);
  CHECK_THROWS_AS(s.next(0), ValueError);
  s.next(2);
  CHECK_THROWS_AS(s.next(3), ValueError);
}

TEST_CASE("loaders with and without threads give the sampler's batches in its order", "[bucket_sampler]") {
  const auto lengths = some_lengths(120, 8);
  const auto options = BucketSamplerOptions().seed(4);
  for (const size_t workers : {0, 1, 3}) {
    BucketSampler twin(lengths, {20, 40, 60, 80}, options);
    auto loader = data::make_data_loader(Ragged(lengths), BucketSampler(lengths, {20, 40, 60, 80}, options), data::DataLoaderOptions(8).workers(workers));
    for (int e = 0; e < 2; ++e) {
      const Batches expected = epoch(twin, 8);
      size_t at = 0;
      for (auto& batch : *loader) {
        REQUIRE(at < expected.size());
        REQUIRE(batch.size() == expected[at].size());
        for (size_t i = 0; i < batch.size(); ++i) {
          const size_t sample = expected[at][i];
          CHECK(batch[i].target.item<int64_t>() == int64_t(sample));
          CHECK(batch[i].data.equal(full({lengths[sample]}, double(sample))));
        }
        ++at;
      }
      CHECK(at == expected.size());
    }
  }
}

TEST_CASE("drop_last leaves out the short batches alone", "[bucket_sampler]") {
  const auto lengths = some_lengths(120, 8);
  BucketSampler twin(lengths, {20, 40, 60, 80}, BucketSamplerOptions().seed(4));
  size_t full_batches = 0, seen = 0;
  for (const auto& b : epoch(twin, 8)) full_batches += b.size() == 8;
  auto loader = data::make_data_loader(Ragged(lengths), BucketSampler(lengths, {20, 40, 60, 80}, BucketSamplerOptions().seed(4)), data::DataLoaderOptions(8).drop_last(true));
  for (auto& batch : *loader) seen += batch.size() == 8;
  CHECK(seen == full_batches);
}

TEST_CASE("a loader that is left half-way, or whose set throws, ends cleanly", "[bucket_sampler]") {
  const auto lengths = some_lengths(60, 2);
  for (int round = 0; round < 20; ++round) {
    Ragged set(lengths);
    set.broken = 30;
    auto loader = data::make_data_loader(std::move(set), BucketSampler(lengths, {50}, BucketSamplerOptions().seed(uint64_t(round))), data::DataLoaderOptions(4).workers(2).max_jobs(5));
    int taken = 0;
    bool thrown = false;
    try {
      for (auto& batch : *loader) {
        CHECK(batch.size() <= 4);
        if (++taken == round) break;
      }
    } catch (const ValueError& e) {
      thrown = true;
      CHECK(std::string(e.what()) == "sample 30 is broken");
    }
    CHECK((thrown || taken == round));
  }
}
