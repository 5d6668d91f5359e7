// Compiling: regions, bucket policies, axis names, statistics and what the compiler decided.
#pragma once
#include <map>
#include <type_traits>
#include <utility>
#include "frit/autograd.h"

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
void set(const std::string& axis, const Buckets& policy);   // axis "": the default of axes without a policy
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
  Options& fast_math(bool on = true) { fast_math_ = on; return *this; }
  Options& frozen(bool on = true) { frozen_ = on; return *this; }
  const std::vector<std::pair<std::string, Buckets>>& bucket_policies() const { return buckets_; }
  bool is_fast_math() const { return fast_math_; }
  bool is_frozen() const { return frozen_; }

 private:
  std::vector<std::pair<std::string, Buckets>> buckets_;
  bool fast_math_ = false, frozen_ = false;
};

struct Stats {
  int64_t plans_compiled, kernels_compiled, recompiles, plan_hits, kernels_launched, flushes, tier0_flushes, eager_ops, eager_kernels, library_calls,
      cache_bytes, disk_hits, evicted;
  double compile_ms;
};
Stats stats();                                       // of the process so far
struct RecompileRecord { std::string reason; };
std::vector<RecompileRecord> recompiles();
struct FlushRecord { std::string cause; int64_t ops; int tier; };
std::vector<FlushRecord> flushes();                  // the latest 1,024 of automatic mode
std::map<std::string, std::map<int64_t, int64_t>> histogram();  // axis name -> extent -> times seen
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

 private:
  bool outermost_, eager_before_, finished_ = false;
};
}  // namespace detail

template <class F> class Compiled {
 public:
  Compiled(F f, Options o) : f_(std::move(f)), options_(std::move(o)) {}
  template <class... A> auto operator()(A&&... a) {
    detail::Region region(options_);
    if constexpr (std::is_void_v<std::invoke_result_t<F&, A...>>) {
      f_(std::forward<A>(a)...);
      region.finish();
    } else {
      auto result = f_(std::forward<A>(a)...);
      region.finish();
      return result;
    }
  }

 private:
  F f_;
  Options options_;
};
}  // namespace jit

// f, compiled: each call records its body as one region that is compiled in the foreground at first sight and followed
// by structure and buckets afterwards.
template <class F> jit::Compiled<std::decay_t<F>> compile(F&& f, const jit::Options& options = {}) {
  return jit::Compiled<std::decay_t<F>>(std::forward<F>(f), options);
}

}  // namespace frit
