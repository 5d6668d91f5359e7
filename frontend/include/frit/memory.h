// Who holds memory while a function runs. (memory::stats, the sums alone, is in frit/autograd.h.)
//
//   std::cout << memory::ledger([&] { optimizer.zero_grad(); loss_of(net, x, y).backward(); optimizer.step(); });
#pragma once
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>
#include "frit/autograd.h"

namespace frit::memory {

// Bytes of tensors by what they serve; memory that serves several counts for the first of these.
struct Held {
  int64_t parameters = 0;       // leaves that require gradients, used meanwhile or known to an optimiser
  int64_t optimizer_state = 0;
  int64_t gradients = 0;        // of leaves
  int64_t saved = 0;            // what forward left for a backward to read: activations, and inputs of the model too
  int64_t temporaries = 0;      // all else that was made meanwhile, results too
  int64_t others = 0;           // all else that was there before
  int64_t packed_weights = 0;   // weights once more, as products read them; let go when the weight is written or goes, or memory is short
  int64_t total() const { return parameters + optimizer_state + gradients + saved + temporaries + others + packed_weights; }
};
struct Holder {
  std::string kind, what, line; // "saved for backward", "relu f32[64, 256]", "train.cpp:31"; the line is empty where it is not known
  int64_t bytes = 0, tensors = 0;
};
// The highest that each kind came to, by itself; `at_peak`: all of them at the moment when their sum was highest.
struct Ledger : Held {
  Held at_peak;
  int64_t peak = 0;             // at_peak.total()
  std::vector<Holder> holders;  // at that moment; the largest first
  bool complete = true;         // false: there were more than four million events, and the later ones do not count
  std::string text() const;     // a table, and the ten largest holders
};
std::ostream& operator<<(std::ostream& out, const Ledger& l);

// Runs f and what it leaves deferred on this thread. What other threads make meanwhile counts too. What f throws passes through.
Ledger ledger(const std::function<void()>& f);
// What f returns is kept until then.
template <class F>
  requires(!std::is_void_v<std::invoke_result_t<const F&>>)
Ledger ledger(const F& f) {
  std::optional<std::decay_t<std::invoke_result_t<const F&>>> kept;
  return ledger(std::function<void()>([&] { kept.emplace(f()); }));
}

}  // namespace frit::memory
