// Batches of samples of like length: the lengths are grouped by the buckets of an axis, and a batch never mixes two of them.
//
//   data::samplers::BucketSampler sampler(lengths, {64, 128, 256}, data::BucketSamplerOptions().seed(1));
//   auto loader = data::make_data_loader(std::move(set), std::move(sampler), data::DataLoaderOptions(32));
#pragma once
#include "frit/data/loader.h"

namespace frit::data {

struct BucketSamplerOptions {
  FRIT_ARG(bool, shuffle) = true;
  FRIT_ARG(std::optional<uint64_t>, seed) = std::nullopt;  // absent: drawn from manual_seed's numbers at each epoch
};

namespace samplers {

// A length is in the first bucket whose edge it does not exceed; what is longer than the last edge makes one more bucket. Each epoch
// has every sample once: full batches first, then the short one of each bucket, so that DataLoaderOptions::drop_last drops just
// those. With a seed the order is a function of the seed and the epoch.
class BucketSampler : public Sampler {
 public:
  BucketSampler(const std::vector<int64_t>& lengths, std::vector<int64_t> edges, BucketSamplerOptions options = {});
  // The next epoch. The number of samples is that of the lengths and cannot be changed.
  void reset(std::optional<size_t> new_size = std::nullopt) override;
  // The whole next batch of the plan. The batch size stays the same within an epoch.
  std::optional<std::vector<size_t>> next(size_t batch_size) override;

  size_t bucket_of(size_t sample) const { return bucket_.at(sample); }
  size_t bucket_count() const noexcept { return edges_.size() + 1; }
  // The number of the epoch that runs, from 0; a resumed run sets it before the loader's begin().
  uint64_t epoch() const noexcept { return epoch_; }
  void set_epoch(uint64_t next);

 private:
  void plan(size_t batch_size);
  std::vector<int64_t> edges_;
  std::vector<size_t> bucket_;              // by sample
  BucketSamplerOptions options_;
  uint64_t epoch_ = 0;
  bool started_ = false;                    // the epoch epoch_ has begun, so reset() goes on to the next
  size_t batch_size_ = 0;                   // of the plan; 0: none yet
  std::vector<std::vector<size_t>> batches_;
  size_t at_ = 0;
};

}  // namespace samplers
using samplers::BucketSampler;

}  // namespace frit::data
