// Samplers, and the threads that prepare batches ahead. Workers: a queue of numbered jobs, and their results by number.
#include "frit/data/loader.h"
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include "frit/autograd.h"

namespace frit::data {

namespace samplers {

void SequentialSampler::reset(std::optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  index_ = 0;
}
std::optional<std::vector<size_t>> SequentialSampler::next(size_t batch_size) {
  const size_t n = std::min(batch_size, size_ - index_);
  if (n == 0) return std::nullopt;
  std::vector<size_t> batch(n);
  for (size_t& i : batch) i = index_++;
  return batch;
}

void RandomSampler::reset(std::optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  index_ = 0;
  const Tensor order = randperm(int64_t(size_));
  const int64_t* p = order.const_data_ptr<int64_t>();
  order_.assign(p, p + size_);
  drawn_ = true;
}
std::optional<std::vector<size_t>> RandomSampler::next(size_t batch_size) {
  if (!drawn_) reset();
  const size_t n = std::min(batch_size, size_ - index_);
  if (n == 0) return std::nullopt;
  const auto first = order_.begin() + std::ptrdiff_t(index_);
  index_ += n;
  return std::vector<size_t>(first, first + std::ptrdiff_t(n));
}

}  // namespace samplers

namespace detail {

void check(const DataLoaderOptions& options) {
  if (options.batch_size() == 0) throw ValueError("DataLoader: the batch size is 0. Give 1 or more.");
  if (options.max_jobs() == 0u) throw ValueError("DataLoader: max_jobs is 0, so nothing would be loaded. Give 1 or more.");
}

struct Workers::State {
  struct Result {
    std::shared_ptr<void> value;
    std::exception_ptr error;
  };
  std::mutex mutex;
  std::condition_variable work, done;
  std::deque<std::pair<size_t, std::vector<size_t>>> queue;
  std::unordered_map<size_t, Result> results;
  size_t pushed = 0, popped = 0;
  bool stop = false;
  std::vector<std::thread> threads;

  void run(const Job& job) {
    for (std::unique_lock lock(mutex);;) {
      work.wait(lock, [&] { return stop || !queue.empty(); });
      if (stop) return;
      auto [number, request] = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      Result r;
      try {
        r.value = job(request);
        synchronize();  // another thread will read the batch
      } catch (...) {
        r.error = std::current_exception();
      }
      lock.lock();
      results.emplace(number, std::move(r));
      done.notify_one();
    }
  }
};

Workers::Workers(std::vector<Job> one_per_thread) : state_(std::make_unique<State>()) {
  for (Job& job : one_per_thread) state_->threads.emplace_back([state = state_.get(), job = std::move(job)] { state->run(job); });
}
Workers::~Workers() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->work.notify_all();
  for (std::thread& t : state_->threads) t.join();
}
void Workers::push(std::vector<size_t> request) {
  std::lock_guard lock(state_->mutex);
  state_->queue.emplace_back(state_->pushed++, std::move(request));
  state_->work.notify_one();
}
std::shared_ptr<void> Workers::pop() {
  std::unique_lock lock(state_->mutex);
  const size_t number = state_->popped++;
  state_->done.wait(lock, [&] { return state_->results.count(number) != 0; });
  State::Result r = std::move(state_->results[number]);
  state_->results.erase(number);
  if (r.error) std::rethrow_exception(r.error);
  return r.value;
}
size_t Workers::in_flight() const {
  std::lock_guard lock(state_->mutex);
  return state_->pushed - state_->popped;
}
void Workers::drain() {
  std::unique_lock lock(state_->mutex);
  State& s = *state_;
  const size_t waiting = s.queue.size();
  s.queue.clear();
  s.done.wait(lock, [&] { return s.results.size() + waiting == s.pushed - s.popped; });
  s.results.clear();
  s.popped = s.pushed;
}

}  // namespace detail
}  // namespace frit::data
