// Each check repeats a program until it is followed and its flush known, then changes one thing that no call shows: which handles
// live, which leaves share memory, how they lie, their extents. Start at what_repetition_gets_wrong.
#include "tests/support/follow_checks.h"
#include <functional>
#include "tests/support/automatic.h"

namespace frit::testing {

namespace {
Tensor real(IntArrayRef sizes, double first) {
  const Tensor t = arange(1, kFloat32).add(first).add(arange(1, kFloat32)).expand(sizes).mul(1.5).add(arange(sizes[sizes.size() - 1], kFloat32).mul(0.3)).contiguous();
  synchronize();
  return t;
}
class Checks {
 public:
  // f(turn) makes its own inputs; turns 0 to 4 are alike, 5 is the other one, 6 is like the first.
  void same(const char* what, const std::function<TensorList(int)>& f) {
    for (int turn = 0; turn < 7; ++turn) {
      const std::string eager = in_eager([&] { return told(f, turn); }), automatic = told(f, turn);
      if (eager != automatic) return wrong.push_back(std::string(what) + ", turn " + std::to_string(turn));
    }
  }
  void holds(bool it, const char* what) {
    if (!it) wrong.push_back(what);
  }
  std::vector<std::string> wrong;

 private:
  static std::string told(const std::function<TensorList(int)>& f, int turn) {
    try {
      synchronize();
      const TensorList results = f(turn);
      synchronize();
      return bits_and_strides(results);
    } catch (const std::exception& e) {
      const std::string text = e.what();
      return text.substr(0, text.find(" at "));  // without the line
    }
  }
};
}  // namespace

std::vector<std::string> what_repetition_gets_wrong() {
  const Automatic automatic;
  Checks c;
  c.same("a handle that lives on", [](int turn) {
    const Tensor x = real({6}, turn);
    TensorList kept;
    Tensor a = x * 2.0, b = a.tanh();
    if (turn == 5) kept.push_back(a);
    a = Tensor();
    synchronize();
    kept.push_back(b);
    return kept;
  });
  c.same("a handle that died", [](int turn) {
    const Tensor x = real({6}, turn);
    Tensor a = x * 2.0, b = a.tanh();
    if (turn == 5) a = Tensor();
    synchronize();
    return a.defined() ? TensorList{a, b} : TensorList{b};
  });
  c.same("leaves that share memory", [](int turn) {
    const Tensor base = real({41}, turn), other = real({41}, turn + 1);
    Tensor x = base.narrow(0, 0, 40), y = (turn == 5 ? base : other).narrow(0, 1, 40);
    synchronize();
    const Tensor r = x * 3.0 + y;  // one kernel with the write, where the memories are two
    y.mul_(2.0);
    return TensorList{r, x, y, base, other};
  });
  c.same("leaves that lie otherwise", [](int turn) {
    const Tensor x = real({5, 5}, turn), y = turn == 5 ? real({5, 5}, turn).t() : real({5, 5}, turn);
    synchronize();
    const Tensor sum = x.t() + y.t();
    return TensorList{y * 2.0, y.exp() + 1.0, sum, sum.reshape({25}), (y.neg()).reshape({25}), y.sum(0), y.softmax(1)};
  });
  c.same("a leaf that repeats along an axis", [](int turn) {
    const Tensor row = real({7}, turn), y = turn == 5 ? row.expand({4, 7}) : row.expand({4, 7}).contiguous();
    synchronize();
    return TensorList{y * 2.0, y.sum(0), y.exp().sum(1)};
  });
  c.same("extents that do not fit", [](int turn) {
    const Tensor x = real({6}, turn), y = real({turn == 5 ? 7 : 6}, turn);
    synchronize();
    return TensorList{(x + y).exp()};
  });
  c.same("extents that fit otherwise", [](int turn) {
    const Tensor x = real({turn == 5 ? 1 : 6, 3}, turn), y = real({6, 3}, turn);
    synchronize();
    return TensorList{(x + y).exp()};
  });
  // Two that random programs seldom reach.
  c.same("a constant tensor of a half type", [](int turn) {
    const Tensor x = real({9}, turn).to(kBFloat16), y = real({9}, turn).to(kFloat16);
    synchronize();
    return TensorList{x * full({9}, 0.1, kBFloat16), y + full({9}, 0.3, kFloat16), x.to(kFloat32) * full({}, 1.7, kBFloat16)};
  });
  c.same("a kept value along another axis of the same extent", [](int turn) {
    const Tensor x = real({6, 6}, turn).mul(real({6}, 2).unsqueeze(1));
    synchronize();
    const Tensor kept = x.sum({1}), across = kept.expand({6, 6}), along = kept.unsqueeze(1).expand({6, 6});
    const Tensor y = (across * across).minimum(across), z = along * 2 + x;
    return TensorList{y, z, x + y + z, across.sum({1}) + x.amax({1})};
  });
  // A bucket that is left is another plan, and counted.
  const auto call = [](int64_t n) {
    const Tensor x = real({n}, 1);
    const jit::Stats before = jit::stats();
    const Tensor y = (x * 2.0).sin() + x;
    synchronize();
    return minus(jit::stats(), before);
  };
  for (int i = 0; i < 5; ++i) call(5 + i % 3);
  c.holds(call(6).plans_compiled == 0, "a bucket that is known has its plan");
  const jit::Stats other = call(100), again = call(101), back = call(7);
  c.holds(other.plans_compiled == 1 && other.recompiles == 1, "a bucket that is left is counted");
  c.holds(again.plans_compiled == 0 && back.plans_compiled == 0 && again.plan_hits == 1 && back.plan_hits == 1, "both buckets are known afterwards");
  // So is another stride class.
  const auto lie = [](bool transposed) {
    const Tensor x = transposed ? real({5, 9}, 1).t() : real({9, 5}, 1);
    synchronize();
    const jit::Stats before = jit::stats();
    const Tensor y = (x * 2.0).sin() + x;
    synchronize();
    return minus(jit::stats(), before);
  };
  for (int i = 0; i < 5; ++i) lie(false);
  c.holds(lie(false).plans_compiled == 0, "a stride class that is known has its plan");
  lie(true);  // a structure of its own: cold
  c.holds(lie(true).plans_compiled == 1, "another stride class has a plan of its own");
  c.holds(lie(true).plan_hits == 1 && lie(false).plan_hits == 1, "both stride classes are known afterwards");
  return c.wrong;
}

}  // namespace frit::testing
