// Batches of like lengths. A plan holds a whole epoch: samples are shuffled, dealt to their buckets, cut into batches, and the batches
// are shuffled. Start at BucketSampler::plan.
#include "frit/data/bucket_sampler.h"
#include <algorithm>
#include <random>
#include <string>

namespace frit::data::samplers {
namespace {

// The standard fixes the engine's numbers but not those of its distributions and shuffles, so these are spelled out.
uint64_t below(std::mt19937_64& random, uint64_t limit) {
  const uint64_t rejected = (0 - limit) % limit;  // the numbers from there on are a whole multiple of the limit
  uint64_t r;
  do r = random();
  while (r < rejected);
  return r % limit;
}
template <class T> void shuffle(std::vector<T>& list, std::mt19937_64& random) {
  for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(random, i)]);
}

}  // namespace

BucketSampler::BucketSampler(const std::vector<int64_t>& lengths, std::vector<int64_t> edges, BucketSamplerOptions options)
    : edges_(std::move(edges)), options_(std::move(options)) {
  for (size_t i = 1; i < edges_.size(); ++i)
    if (edges_[i] <= edges_[i - 1])
      throw ValueError("BucketSampler: edge " + std::to_string(edges_[i]) + " follows edge " + std::to_string(edges_[i - 1]) + ". Give them in ascending order, each once.");
  bucket_.reserve(lengths.size());
  for (int64_t n : lengths) {
    if (n < 0) throw ValueError("BucketSampler: sample " + std::to_string(bucket_.size()) + " has length " + std::to_string(n) + ". Give lengths of 0 or more.");
    bucket_.push_back(size_t(std::lower_bound(edges_.begin(), edges_.end(), n) - edges_.begin()));
  }
}

void BucketSampler::reset(std::optional<size_t> new_size) {
  if (new_size && *new_size != bucket_.size())
    throw ValueError("BucketSampler: it has the lengths of " + std::to_string(bucket_.size()) + " samples, so its size cannot become " + std::to_string(*new_size) + ". Make another one.");
  if (started_) ++epoch_;
  started_ = true;
  batch_size_ = 0;
}
void BucketSampler::set_epoch(uint64_t next) {
  epoch_ = next;
  started_ = false;
  batch_size_ = 0;
}

std::optional<std::vector<size_t>> BucketSampler::next(size_t batch_size) {
  if (batch_size == 0) throw ValueError("BucketSampler: the batch size is 0. Give 1 or more.");
  if (!batch_size_) plan(batch_size);
  if (batch_size != batch_size_)
    throw ValueError("BucketSampler: the batch size changed from " + std::to_string(batch_size_) + " to " + std::to_string(batch_size) + " within an epoch. Call reset() first.");
  if (at_ == batches_.size()) return std::nullopt;
  return std::move(batches_[at_++]);
}

void BucketSampler::plan(size_t batch_size) {
  started_ = true;
  batch_size_ = batch_size;
  at_ = 0;
  batches_.clear();
  std::vector<size_t> order(bucket_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::mt19937_64 random;
  if (options_.shuffle()) {
    const uint64_t seed = options_.seed() ? *options_.seed() : uint64_t(randint(INT64_MIN, INT64_MAX, {}).item<int64_t>());
    std::seed_seq mixed{uint32_t(seed), uint32_t(seed >> 32), uint32_t(epoch_), uint32_t(epoch_ >> 32)};
    random.seed(mixed);
    shuffle(order, random);
  }
  std::vector<std::vector<size_t>> open(bucket_count());
  for (size_t sample : order) {
    std::vector<size_t>& batch = open[bucket_[sample]];
    batch.push_back(sample);
    if (batch.size() == batch_size) batches_.push_back(std::exchange(batch, {}));
  }
  std::erase_if(open, [](const auto& batch) { return batch.empty(); });
  if (options_.shuffle()) shuffle(batches_, random), shuffle(open, random);
  for (auto& batch : open) batches_.push_back(std::move(batch));
}

}  // namespace frit::data::samplers
