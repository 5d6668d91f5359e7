// Frozen calls of compiled functions: which recording a call has, when the function is run all the same and compared.
// Start at replay(), then FrozenRun.
#include <algorithm>
#include <bit>
#include <mutex>
#include "frit/compile.h"
#include "frontend/detail.h"
#include "runtime/stats.h"
#include "tracer/freeze.h"

namespace frit::jit::detail {

using frit::detail::cell_of;

namespace {
constexpr size_t most_recordings = 64;
constexpr uint64_t always_sampled = 1024;

std::vector<tracer::Var> vars(const std::vector<Tensor>& tensors) {
  std::vector<tracer::Var> v;
  for (const Tensor& t : tensors) v.push_back(t.defined() ? tracer::Var(t) : tracer::Var());
  return v;
}
bool all_defined(const std::vector<Tensor>& tensors) { return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.defined(); }); }
}  // namespace

struct FrozenCalls {
  struct Known {
    std::string numbers;
    std::shared_ptr<tracer::Recording> recording;
    std::shared_ptr<const void> prototype;
    uint64_t calls = 1;
  };
  std::mutex lock;
  std::vector<std::shared_ptr<Known>> known;  // the latest used last
  std::string why_not;

  std::shared_ptr<Known> find(const FrozenCall& call, const std::vector<tracer::Var>& arguments) {  // under the lock
    for (size_t i = known.size(); i-- > 0;) {
      if (known[i]->numbers != call.numbers || !known[i]->recording->fits(tracer::recorder(), arguments)) continue;
      std::rotate(known.begin() + std::ptrdiff_t(i), known.begin() + std::ptrdiff_t(i) + 1, known.end());
      return known.back();
    }
    return nullptr;
  }
};
std::shared_ptr<FrozenCalls> new_frozen_calls() { return std::make_shared<FrozenCalls>(); }
std::string why_not_frozen(FrozenCalls& calls) {
  const std::lock_guard hold(calls.lock);
  return calls.why_not;
}

std::shared_ptr<const void> replay(FrozenCalls& calls, const FrozenCall& call, std::vector<Tensor>& results) {
  if (!all_defined(call.arguments)) return nullptr;
  const std::vector<tracer::Var> arguments = vars(call.arguments);
  std::shared_ptr<FrozenCalls::Known> known;
  {
    const std::lock_guard hold(calls.lock);
    known = calls.find(call, arguments);
    if (!known || !known->prototype) return nullptr;
    const uint64_t n = ++known->calls;
    if (std::has_single_bit(n) || n % always_sampled == 0) return nullptr;
  }
  for (tracer::Var& v : known->recording->replay(tracer::recorder(), arguments)) results.emplace_back(std::move(v));
  count(&Counters::frozen_calls);
  return {known, known->prototype.get()};
}

struct FrozenRun::State {
  tracer::Capture capture{tracer::recorder()};
  std::vector<tracer::Var> arguments;
  std::shared_ptr<FrozenCalls::Known> known;  // to be compared with, or new
  std::string difference;
};
FrozenRun::FrozenRun(FrozenCalls& calls, const FrozenCall& call) : calls_(calls), call_(call), state_(std::make_unique<State>()) {
  state_->arguments = vars(call.arguments);
  if (!all_defined(call.arguments)) return;
  const std::lock_guard hold(calls.lock);
  state_->known = calls.find(call, state_->arguments);
}
FrozenRun::~FrozenRun() = default;
bool FrozenRun::recorded(const std::vector<Tensor>& results) {
  tracer::Recorder& r = tracer::recorder();
  if (state_->known) {
    state_->difference = state_->capture.interrupted() ? "it reads a value now" : state_->known->recording->difference(r);
    return false;
  }
  std::string why;
  std::shared_ptr<tracer::Recording> made;
  if (!all_defined(call_.arguments) || !all_defined(results)) why = "an argument or result is an undefined tensor";
  else made = tracer::Recording::take(r, state_->capture, state_->arguments, vars(results), why);
  const std::lock_guard hold(calls_.lock);
  calls_.why_not = why;
  if (!made) return false;
  state_->known = std::make_shared<FrozenCalls::Known>(FrozenCalls::Known{call_.numbers, std::move(made), nullptr});
  return true;
}
void FrozenRun::keep(std::shared_ptr<const void> prototype) {
  const std::lock_guard hold(calls_.lock);
  state_->known->prototype = std::move(prototype);
  if (calls_.known.size() >= most_recordings) calls_.known.erase(calls_.known.begin());
  calls_.known.push_back(state_->known);
}
void FrozenRun::check() const {
  if (state_->difference.empty()) return;
  {
    const std::lock_guard hold(calls_.lock);
    std::erase(calls_.known, state_->known);
  }
  throw FrozenError("compile: a frozen function recorded something else than at an earlier call with such tensors: " + state_->difference +
                    ". Earlier calls since the last comparison may have used what it was. Pass what changes as a tensor, or leave out frozen().");
}

}  // namespace frit::jit::detail
