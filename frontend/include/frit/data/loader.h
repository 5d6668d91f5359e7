// Samplers choose the order of indices, loaders make batches of them. With workers, threads of their own prepare the next
// batches; they come in the same order as without.
#pragma once
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>
#include "frit/autograd.h"
#include "frit/data/dataset.h"
#include "frit/nn/options.h"

namespace frit::data {

namespace samplers {

class Sampler {
 public:
  using BatchRequestType = std::vector<size_t>;
  virtual ~Sampler() = default;
  virtual void reset(std::optional<size_t> new_size = std::nullopt) = 0;
  // At most batch_size further indices; nothing at the end.
  virtual std::optional<std::vector<size_t>> next(size_t batch_size) = 0;
};
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(size_t size) : size_(size) {}
  void reset(std::optional<size_t> new_size = std::nullopt) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  size_t index() const noexcept { return index_; }

 private:
  size_t size_, index_ = 0;
};
// Each index once, in an order that is drawn anew (from manual_seed's numbers) at each reset.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(size_t size) : size_(size) {}
  void reset(std::optional<size_t> new_size = std::nullopt) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  size_t index() const noexcept { return index_; }

 private:
  size_t size_, index_ = 0;
  std::vector<size_t> order_;
  bool drawn_ = false;
};

}  // namespace samplers

struct DataLoaderOptions {
  DataLoaderOptions(size_t batch_size = 1) : batch_size_(batch_size) {}
  FRIT_ARG(size_t, batch_size);
  FRIT_ARG(size_t, workers) = 0;
  FRIT_ARG(std::optional<size_t>, max_jobs) = std::nullopt;  // batches prepared ahead; absent: two for each worker
  FRIT_ARG(bool, enforce_ordering) = true;                   // batches come in order in either case
  FRIT_ARG(bool, drop_last) = false;                         // leave out a last batch that is too short
};

namespace detail {
// Threads that turn requests into results; pop gives them in the order of the requests, and throws what the job threw.
class Workers {
 public:
  using Job = std::function<std::shared_ptr<void>(const std::vector<size_t>&)>;
  explicit Workers(std::vector<Job> one_per_thread);
  ~Workers();
  void push(std::vector<size_t> request);
  std::shared_ptr<void> pop();
  size_t in_flight() const;
  void drain();

 private:
  struct State;
  std::unique_ptr<State> state_;
};
void check(const DataLoaderOptions& options);
}  // namespace detail

template <class Set, class Order> class DataLoader {
 public:
  using BatchType = typename Set::BatchType;

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = BatchType;
    using difference_type = std::ptrdiff_t;
    using pointer = BatchType*;
    using reference = BatchType&;
    Iterator() = default;
    explicit Iterator(DataLoader* loader) : loader_(loader) { ++*this; }
    BatchType& operator*() { return *batch_; }
    BatchType* operator->() { return &*batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      if (!batch_) loader_ = nullptr;
      return *this;
    }
    bool operator==(const Iterator& o) const { return loader_ == o.loader_; }

   private:
    DataLoader* loader_ = nullptr;
    std::optional<BatchType> batch_;
  };

  DataLoader(Set dataset, Order sampler, DataLoaderOptions options) : dataset_(std::move(dataset)), sampler_(std::move(sampler)), options_(std::move(options)) {
    detail::check(options_);
    std::vector<detail::Workers::Job> jobs;
    for (size_t i = 0; i < options_.workers(); ++i)
      jobs.push_back([own = std::make_shared<Set>(dataset_)](const std::vector<size_t>& request) -> std::shared_ptr<void> {
        return std::make_shared<BatchType>(own->get_batch(request));
      });
    if (jobs.empty()) return;
    synchronize();  // what the dataset holds is real before other threads read it
    workers_ = std::make_unique<detail::Workers>(std::move(jobs));
  }
  // Starts anew. One iterator at a time.
  Iterator begin() {
    if (workers_) workers_->drain();
    sampler_.reset();
    return Iterator(this);
  }
  Iterator end() { return {}; }
  const DataLoaderOptions& options() const { return options_; }
  const Set& dataset() const { return dataset_; }

 private:
  std::optional<std::vector<size_t>> request() {
    auto indices = sampler_.next(options_.batch_size());
    if (!indices || (options_.drop_last() && indices->size() < options_.batch_size())) return std::nullopt;
    return indices;
  }
  std::optional<BatchType> next() {
    if (!workers_) {
      auto indices = request();
      return indices ? std::optional<BatchType>(dataset_.get_batch(*indices)) : std::nullopt;
    }
    while (workers_->in_flight() < options_.max_jobs().value_or(2 * options_.workers())) {
      auto indices = request();
      if (!indices) break;
      workers_->push(std::move(*indices));
    }
    if (!workers_->in_flight()) return std::nullopt;
    return std::move(*std::static_pointer_cast<BatchType>(workers_->pop()));
  }

  Set dataset_;
  Order sampler_;
  DataLoaderOptions options_;
  std::unique_ptr<detail::Workers> workers_;
};
template <class Set, class Order> using StatelessDataLoader = DataLoader<Set, Order>;

template <class Set, class Order> std::unique_ptr<DataLoader<Set, Order>> make_data_loader(Set dataset, Order sampler, DataLoaderOptions options = {}) {
  return std::make_unique<DataLoader<Set, Order>>(std::move(dataset), std::move(sampler), std::move(options));
}
template <class Order = samplers::RandomSampler, class Set>
  requires std::is_constructible_v<Order, size_t>
std::unique_ptr<DataLoader<Set, Order>> make_data_loader(Set dataset, DataLoaderOptions options = {}) {
  const std::optional<size_t> size = dataset.size();
  if (!size) throw ValueError("make_data_loader: the dataset does not know its size. Give a sampler.");
  return make_data_loader(std::move(dataset), Order(*size), std::move(options));
}

}  // namespace frit::data
