// What the tests of automatic mode share.
#pragma once
#include <cstring>
#include <functional>
#include <string>
#include <vector>
#include "frit/compile.h"
#include "jit/tiers.h"

namespace frit::testing {

// Automatic mode in a scope, compiles in the foreground, with no plans known. hot: how often a structure is seen before it is
// compiled.
class Automatic {
 public:
  explicit Automatic(int hot = 2, jit::CompileWhere where = jit::CompileWhere::foreground) : mode_(jit::Mode::automatic), before_(jit::tier_settings()) {
    synchronize();
    jit::tier_settings().hot = hot, jit::tier_settings().where = where;
    jit::forget_plans();
    jit::forget_kernels();
    failures_before = jit::compile_failures();
  }
  ~Automatic() {
    synchronize();
    jit::tier_settings() = before_;
  }
  Automatic(const Automatic&) = delete;
  std::vector<std::string> failures_before;

 private:
  jit::ModeGuard mode_;
  jit::TierSettings before_;
};

template <class F> auto in_eager(F f) {
  const jit::ModeGuard eager(jit::Mode::eager);
  return f();
}
// A real tensor of changing numbers, the same in each run of a program.
inline Tensor numbers(IntArrayRef sizes) {
  int64_t n = 1;
  for (int64_t e : sizes) n *= e;
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = float((i * 37 + 11) % 64) / 16 - 2;
  const Tensor t = from_blob(v.data(), sizes).clone();
  synchronize();
  return t;
}
// Type, shape and elements in row-major order.
inline std::string bits_of(const Tensor& t) {
  std::string s = dtype_name(t.dtype());
  const Tensor c = t.contiguous();
  (void)c.strides();
  dispatch(t.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* from = c.const_data_ptr<T>();
    for (int64_t i = 0, n = c.numel(); i < n; ++i) {
      T v = from[i];
      if constexpr (std::is_floating_point_v<T>) { if (v != v) v = std::numeric_limits<T>::quiet_NaN(); }
      else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) { if (float(v) != float(v)) v = T(std::numeric_limits<float>::quiet_NaN()); }
      s.append(reinterpret_cast<const char*>(&v), sizeof v);
    }
  });
  for (int64_t e : t.sizes()) s += "," + std::to_string(e);
  return s;
}
// Of each, and its strides.
inline std::string bits_and_strides(const std::vector<Tensor>& list) {
  std::string s;
  for (const Tensor& t : list) {
    s += bits_of(t) + "|";
    for (int64_t x : t.strides()) s += std::to_string(x) + ",";
  }
  return s;
}
template <class F> bool same_bits(const Tensor& got, F wanted) {
  const std::string bits = bits_of(got);
  return bits == in_eager([&] { return bits_of(wanted()); });
}
inline jit::Stats minus(jit::Stats a, const jit::Stats& b) {
  a.plans_compiled -= b.plans_compiled, a.kernels_compiled -= b.kernels_compiled, a.recompiles -= b.recompiles, a.plan_hits -= b.plan_hits;
  a.kernels_launched -= b.kernels_launched, a.flushes -= b.flushes, a.tier0_flushes -= b.tier0_flushes, a.eager_ops -= b.eager_ops;
  a.eager_kernels -= b.eager_kernels, a.library_calls -= b.library_calls, a.evicted -= b.evicted;
  a.weights_packed -= b.weights_packed, a.packed_reads -= b.packed_reads;
  a.compile_ms -= b.compile_ms, a.waited_compile_ms -= b.waited_compile_ms;
  return a;
}

}  // namespace frit::testing
