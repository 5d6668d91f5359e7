// What the tests of numeric cases share: each body runs in both modes, cold and compiled, and inputs come in every layout of the same elements.
#pragma once
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "frit/autograd.h"
#include "frit/compile.h"
#include "frit/einsum.h"
#include "jit/tiers.h"

namespace frit::testing {

constexpr double inf = std::numeric_limits<double>::infinity(), NaN = std::numeric_limits<double>::quiet_NaN();
using Shape = std::vector<int64_t>;
using Doubles = std::vector<double>;

// Eager; automatic as first met, and again until it runs compiled, with compiles in the background and in the foreground; as the
// body of a compiled function, whose reads split it, on its first call and later.
template <class F> void in_each_mode(F f) {
  {
    jit::ModeGuard guard(jit::Mode::eager);
    INFO("eager");
    f();
  }
  for (const jit::CompileWhere where : {jit::CompileWhere::background, jit::CompileWhere::foreground}) {
    const jit::TierSettings before = jit::tier_settings();
    jit::tier_settings().where = where;
    jit::forget_plans();
    for (int round = 0; round < 3; ++round) {
      jit::ModeGuard guard(jit::Mode::automatic);
      INFO((where == jit::CompileWhere::background ? "automatic, time " : "automatic, compiled at once, time ") << round);
      f();
      synchronize();
      jit::wait_for_compiles();
    }
    jit::tier_settings() = before;
  }
  auto compiled = compile([&] { f(); });
  for (int round = 0; round < 2; ++round) {
    INFO("compiled, time " << round);
    compiled();
  }
}
// Contiguous, transposed, every second of a larger one, behind an offset; and expanded where the elements allow.
inline TensorList layouts(const Tensor& t) {
  TensorList l{t.contiguous()};
  if (t.dim() == 0) return l;
  if (t.dim() > 1) l.push_back(t.transpose(0, -1).contiguous().transpose(0, -1));
  l.push_back(stack({zeros_like(t), t}, -1).select(-1, 1));
  l.push_back(cat({zeros_like(t), t}, 0).slice(0, t.size(0)));
  if (t.size(0) > 1 && t.numel() && t.eq(t[0]).all().item<bool>()) l.push_back(t[0].expand(t.sizes()));
  return l;
}
inline Doubles read(const Tensor& t) {
  const Tensor d = t.detach().to(kFloat64).contiguous();
  const double* p = d.const_data_ptr<double>();
  return Doubles(p, p + d.numel());
}
// The same numbers; NaN equals NaN, and zeros have signs when asked for.
inline bool same(const Tensor& t, const Doubles& expected, double rtol = 0, double atol = 0, bool signs = false) {
  const Doubles got = read(t);
  bool equal = got.size() == expected.size();
  for (size_t i = 0; equal && i < got.size(); ++i) {
    if (std::isnan(expected[i])) equal = std::isnan(got[i]);
    else if (std::isinf(expected[i]) || std::isinf(got[i])) equal = got[i] == expected[i];
    else equal = std::abs(got[i] - expected[i]) <= atol + rtol * std::abs(expected[i]) && (!signs || std::signbit(got[i]) == std::signbit(expected[i]));
    if (!equal) UNSCOPED_INFO("element " << i << " is " << got[i] << ", expected " << expected[i]);
  }
  if (got.size() != expected.size()) UNSCOPED_INFO(got.size() << " elements, expected " << expected.size());
  return equal;
}
inline Tensor floats(const Doubles& v, Dtype d = kFloat32) { return tensor(v, kFloat64).to(d); }
inline Tensor parameter(const Doubles& v, Dtype d = kFloat32) { return floats(v, d).requires_grad_(); }

}  // namespace frit::testing
