// Compiling: regions, bucket policies, axis names, statistics and what the compiler decided.
#pragma once
#include <map>
#include <memory>
#include <type_traits>
#include <utility>
#include "frit/autograd.h"
#include "frit/visit_tensors.h"

namespace frit {

// A bucket policy: which extents of an axis share a plan.
class Buckets {
 public:
  static Buckets exact();
  static Buckets pow2();                              // the default: (2^(k-1), 2^k]
  static Buckets multiple_of(int64_t k);              // ValueError when k < 1
  static Buckets edges(std::vector<int64_t> e);       // ValueError unless ascending and at least 1
  static Buckets dynamic();                           // one bucket
  std::string text() const { return text_; }

 private:
  explicit Buckets(std::string text) : text_(std::move(text)) {}
  std::string text_;
};
namespace buckets {
void set(const std::string& axis, const Buckets& policy);   // axis "": the default of axes without a policy. An axis named in FRIT_BUCKETS keeps that policy
Buckets get(const std::string& axis);
void save(const std::string& path);                  // JSON; FileError
void load(const std::string& path);                  // FileError, ValueError; on an error nothing is changed
}  // namespace buckets

// The same tensor with axis names, one word each ("_": none). Ops carry them; axes whose names differ do not meet (ShapeError).
Tensor named(const Tensor& t, const std::string& names);
std::vector<std::string> names(const Tensor& t);     // "" where an axis has none

namespace jit {

class Options {
 public:
  Options& bucket(const std::string& axis, const Buckets& policy) { buckets_.emplace_back(axis, policy); return *this; }
  // Compiled code may round otherwise than eager mode where that is faster (a product that is added to is not rounded first). explain says so.
  Options& fast_math(bool on = true) { fast_math_ = on; return *this; }
  // A call with tensors that look like an earlier call's does not run the function: it records what that call recorded. Numbers, captured C++ values and
  // what else the function decides are those of then; random numbers are drawn anew. The 2nd, 4th, 8th … call, and every 1024th, runs
  // the function and compares: FrozenError names the op and line that differ. A function that reads values, keeps tensors elsewhere (gradients
  // too), has hooks or custom gradients is run at every call: see Compiled::why_not_frozen.
  Options& frozen(bool on = true) { frozen_ = on; return *this; }
  const std::vector<std::pair<std::string, Buckets>>& bucket_policies() const { return buckets_; }
  bool is_fast_math() const { return fast_math_; }
  bool is_frozen() const { return frozen_; }

 private:
  std::vector<std::pair<std::string, Buckets>> buckets_;
  bool fast_math_ = false, frozen_ = false;
};

// A frozen function recorded something else than before.
struct FrozenError : Error { using Error::Error; };

struct Stats {
  int64_t plans_compiled, kernels_compiled, recompiles, plan_hits, kernels_launched, flushes, tier0_flushes, eager_ops, eager_kernels, library_calls,
      cache_bytes, disk_hits, evicted, ops_followed, frozen_calls, tier2_kernels, tier2_kept,
      weights_packed, packed_reads;                   // to be kept while they do not change; products that read such a one
  double compile_ms;
  double waited_compile_ms;                           // of these for plans and fused kernels, in the program's own threads: 0 when compiles are in the background
};
Stats stats();                                       // of the process so far
struct RecompileRecord { std::string reason, line; };      // line: "file:line" of the call that flushed, empty where it is not known
std::vector<RecompileRecord> recompiles();
struct FlushRecord { std::string cause; int64_t ops; int tier; std::string line; };
std::vector<FlushRecord> flushes();                  // the latest 1,024 of automatic mode
// One launch: of a fused kernel (tier 1 or 2), or of an op by itself (tier 0). bytes: each input and output once; flops: one per element and op, two
// per multiply-and-add of a product; start: seconds since record_history; lines: of the calls that it computes.
struct LaunchRecord {
  std::string kernel;
  int tier;
  int64_t bytes, flops;
  double seconds, start;
  std::vector<std::string> lines;
  int64_t thread;
};
void record_history(int64_t launches);               // keeps the latest so many; 0: none, as at the start. ValueError when negative
std::vector<LaunchRecord> history();
std::map<std::string, std::map<int64_t, int64_t>> histogram();  // axis name -> extent -> times seen
void set_fast_math(bool on);                         // Options::fast_math for all compiled code of the process; FRIT_FAST_MATH=1 does the same
void wait_for_compiles();                            // until the background thread has nothing left

// In its scope, on this thread, at most `allowed` plans are compiled: the flush that asks for more throws RecompileError.
class RecompileGuard {
 public:
  explicit RecompileGuard(int64_t allowed);
  ~RecompileGuard();
  RecompileGuard(const RecompileGuard&) = delete;

 private:
  int64_t allowed_;
  int64_t* before_;
};

// Fused groups, kernels and why not fused, of the traces that f makes; f runs once, what it returns is kept until then.
std::string explain(const std::function<void()>& f);
template <class F>
  requires(!std::is_void_v<std::invoke_result_t<const F&>>)
std::string explain(const F& f) {
  std::optional<std::decay_t<std::invoke_result_t<const F&>>> kept;
  return explain(std::function<void()>([&] { kept.emplace(f()); }));
}

namespace detail {
class Region {  // a call of a compiled function: what it records is compiled at once
 public:
  explicit Region(const Options& o);
  ~Region();
  void finish();  // flushes; throws what values throw
  bool outermost() const { return outermost_; }

 private:
  bool outermost_, eager_before_, finished_ = false;
};
}  // namespace detail

namespace detail {
using frit::detail::visit_tensors;
struct FrozenCalls;  // the recordings of one compiled function, by the look of their arguments
struct FrozenCall {
  std::vector<Tensor> arguments;
  std::string numbers;  // bytes of what is no tensor among the arguments
  template <class T> void operator()(T& t) { arguments.push_back(t); }
  template <class T> void number(const T& v) { numbers.append(reinterpret_cast<const char*>(&v), sizeof v); }
};
std::shared_ptr<FrozenCalls> new_frozen_calls();
// Records an earlier call again: its tensors, and its result without them; null: run the function inside of a FrozenRun.
std::shared_ptr<const void> replay(FrozenCalls& calls, const FrozenCall& call, std::vector<Tensor>& results);
std::string why_not_frozen(FrozenCalls& calls);
class FrozenRun {
 public:
  FrozenRun(FrozenCalls& calls, const FrozenCall& call);
  ~FrozenRun();
  // Before the region's flush. Is there a new recording, which wants the result without its tensors?
  bool recorded(const std::vector<Tensor>& results);
  void keep(std::shared_ptr<const void> prototype);
  void check() const;  // after it: throws FrozenError

 private:
  FrozenCalls& calls_;
  const FrozenCall& call_;
  struct State;
  std::unique_ptr<State> state_;
};
}  // namespace detail

template <class F> class Compiled {
 public:
  Compiled(F f, Options o) : f_(std::move(f)), options_(std::move(o)) {
    if (options_.is_frozen()) frozen_ = detail::new_frozen_calls();
  }
  // In the caller's frame, so that what its flush reports finds the user's line also without frame pointers.
  template <class... A> [[gnu::always_inline]] auto operator()(A&&... a) {
    using R = std::invoke_result_t<F&, A...>;
    detail::Region region(options_);
    if constexpr (std::is_void_v<R>) {
      f_(std::forward<A>(a)...);
      region.finish();
    } else {
      if constexpr (std::is_copy_constructible_v<R> && frit::detail::has_visitable_tensors<std::decay_t<R>>() && (frit::detail::has_visitable_tensors<std::decay_t<A>>() && ...))
        if (frozen_ && region.outermost()) return frozen<R>(region, std::forward<A>(a)...);
      auto result = f_(std::forward<A>(a)...);
      region.finish();
      return result;
    }
  }
  // Why the function is run at every call all the same; empty when it is not, or was not called yet.
  std::string why_not_frozen() const { return frozen_ ? detail::why_not_frozen(*frozen_) : "it is not compiled with frozen()"; }

 private:
  template <class R, class... A> std::decay_t<R> frozen(detail::Region& region, A&&... a) {
    static constexpr char type = 0;  // its address tells these types from others that f is called with
    using Result = std::decay_t<R>;
    detail::FrozenCall call;
    call.number(&type);
    (detail::visit_tensors(a, call), ...);
    std::vector<Tensor> results;
    if (const std::shared_ptr<const void> known = detail::replay(*frozen_, call, results)) {
      region.finish();
      Result result = *static_cast<const Result*>(known.get());
      size_t next = 0;
      detail::visit_tensors(result, [&](auto& t) { static_cast<Tensor&>(t) = results[next++]; });
      return result;
    }
    detail::FrozenRun run(*frozen_, call);
    Result result = f_(std::forward<A>(a)...);
    detail::visit_tensors(result, [&](auto& t) { results.push_back(t); });
    if (run.recorded(results)) {
      auto prototype = std::make_shared<Result>(result);
      detail::visit_tensors(*prototype, [](auto& t) { static_cast<Tensor&>(t) = Tensor(); });
      run.keep(std::move(prototype));
    }
    region.finish();
    run.check();
    return result;
  }
  F f_;
  Options options_;
  std::shared_ptr<detail::FrozenCalls> frozen_;
};
}  // namespace jit

// f, compiled: each call records its body as one region that is compiled in the foreground at first sight and followed
// by structure and buckets afterwards.
template <class F> jit::Compiled<std::decay_t<F>> compile(F&& f, const jit::Options& options = {}) {
  return jit::Compiled<std::decay_t<F>>(std::forward<F>(f), options);
}

}  // namespace frit
