// Traces that differ in one thing each, and their keys. Start at fields_that_the_key_misses.
#include "tests/support/key_checks.h"
#include <cmath>
#include <map>
#include "jit/key.h"
#include "tests/support/automatic.h"

namespace frit::testing {

namespace {

// The key of what f records; the tensors that it returns are the roots.
std::string key_of(const std::function<TensorList()>& f) {
  const jit::ModeGuard automatic(jit::Mode::automatic);
  synchronize();
  const TensorList kept = f();
  const tracer::Trace& t = *tracer::recorder().open;
  std::vector<bool> roots(t.nodes.size());
  for (size_t n = 0; n < roots.size(); ++n) roots[n] = t.owner[n] != nullptr;
  std::string key = jit::make_key(t, roots).bytes();
  synchronize();
  return key;
}
Tensor real(IntArrayRef sizes, Dtype d = kFloat32) {
  const Tensor t = numbers(sizes).to(d);
  synchronize();
  return t;
}

struct Complaints {
  std::vector<std::string> list;
  void operator()(bool holds, const char* what) {
    if (!holds) list.push_back(std::string("it does not hold that ") + what);
  }
};
#define EXPECT(...) check(__VA_ARGS__, #__VA_ARGS__)
}  // namespace

std::vector<std::string> fields_that_the_key_misses() {
  std::vector<std::string> missed;
  const Tensor x = real({5, 7}), y = real({5, 7}), row = real({7}), i = real({5, 7}, kInt64);
  std::map<std::string, std::function<TensorList()>> programs;
  const auto add = [&](const char* name, std::function<TensorList()> f) { programs.emplace(name, std::move(f)); };
  add("base", [&] { return TensorList{x.add(y).exp()}; });
  add("another op", [&] { return TensorList{x.sub(y).exp()}; });
  add("one op more", [&] { return TensorList{x.add(y).exp().neg()}; });
  add("fast_math", [&] { return tracer::recorder().open->fast_math = true, TensorList{x.add(y).exp()}; });
  add("another order of operands", [&] { return TensorList{y.add(x).exp(), x.neg()}; });
  add("its counterpart", [&] { return TensorList{y.add(x).exp(), y.neg()}; });
  add("one operand twice", [&] { return TensorList{x.add(x).exp()}; });
  add("another type", [&] { return TensorList{real({5, 7}, kFloat64).add(real({5, 7}, kFloat64)).exp()}; });
  add("a half type", [&] { return TensorList{real({5, 7}, kFloat16).add(real({5, 7}, kFloat16)).exp()}; });
  add("the other half type", [&] { return TensorList{real({5, 7}, kBFloat16).add(real({5, 7}, kBFloat16)).exp()}; });
  add("one operand of another type", [&] { return TensorList{x.add(i).exp()}; });
  add("a conversion", [&] { return TensorList{x.add(y).to(kFloat16)}; });
  add("another conversion", [&] { return TensorList{x.add(y).to(kBFloat16)}; });
  add("another rank", [&] { return TensorList{real({7}).add(real({7})).exp()}; });
  add("a higher rank", [&] { return TensorList{real({5, 7, 3}).add(real({5, 7, 3})).exp()}; });
  add("a broadcast", [&] { return TensorList{x.add(row).exp()}; });
  add("a broadcast of one", [&] { return TensorList{x.add(real({1, 7})).exp()}; });
  add("a broadcast of the other axis", [&] { return TensorList{x.add(real({5, 1})).exp()}; });
  add("an extent 1", [&] { return TensorList{real({1, 7}).add(real({1, 7})).exp()}; });
  add("an extent 1 elsewhere", [&] { return TensorList{real({5, 1}).add(real({5, 1})).exp()}; });
  add("an extent 0", [&] { return TensorList{real({0, 7}).add(real({0, 7})).exp()}; });
  add("another bucket", [&] { return TensorList{real({9, 7}).add(real({9, 7})).exp()}; });
  add("another bucket elsewhere", [&] { return TensorList{real({5, 9}).add(real({5, 9})).exp()}; });
  add("a lower bucket", [&] { return TensorList{real({4, 7}).add(real({4, 7})).exp()}; });
  add("a transposed input", [&] { return TensorList{real({7, 5}).t().add(y).exp()}; });
  {
    const Tensor turned = real({7, 5}).t(), sliced = real({5, 14}).slice(1, 0, 14, 2), rows = real({5, 9}).slice(1, 0, 7), wide = real({1, 7}).expand({5, 7}),
                 tall = real({5, 1}).expand({5, 7});
    synchronize();
    add("a permuted leaf", [=] { return TensorList{turned.add(y).exp()}; });
    add("a strided leaf", [=] { return TensorList{sliced.add(y).exp()}; });
    add("rows of a wider leaf", [=] { return TensorList{rows.add(y).exp()}; });
    add("an expanded leaf", [=] { return TensorList{wide.add(y).exp()}; });
    add("a leaf expanded elsewhere", [=] { return TensorList{tall.add(y).exp()}; });
  }
  add("an intermediate root", [&] {
    const Tensor s = x.add(y);
    return TensorList{s, s.exp()};
  });
  add("the other root alone", [&] {
    const Tensor s = x.add(y);
    (void)s.exp();
    return TensorList{s};
  });
  add("no gradient mode", [&] {
    const NoGradGuard no_grad;
    return TensorList{x.add(y).exp()};
  });
  {
    const Tensor g = real({5, 7}).requires_grad_(), h = real({5, 7}).requires_grad_(), alias = x.detach(), part = x.slice(0, 0, 5);
    synchronize();
    add("a gradient", [=] { return TensorList{g.add(y).exp()}; });
    add("a gradient of the other", [=] { return TensorList{x.add(g).exp()}; });
    add("gradients of both", [=] { return TensorList{g.add(h).exp()}; });
    add("two leaves in one memory", [=] { return TensorList{x.add(alias).exp()}; });
    add("a leaf written under no_grad", [=]() mutable {
      const NoGradGuard no_grad;
      return TensorList{Tensor(g).add_(y).exp()};
    });
    add("another tensor written there", [&] {
      const NoGradGuard no_grad;
      return TensorList{Tensor(x).add_(y).exp()};
    });
  }
  add("in place", [&] { return TensorList{Tensor(x).add_(y).exp()}; });
  add("in place, the other", [&] { return TensorList{x.add(y).exp_()}; });
  add("in place through a view", [&] {
    Tensor s = x.add(y);
    s.slice(0, 1, 3).exp_();
    return TensorList{s};
  });
  add("a number", [&] { return TensorList{x.add(2.5).exp()}; });
  add("a number of another category", [&] { return TensorList{x.add(2).exp()}; });
  add("a number on the other side", [&] { return TensorList{frit::add(2.5, x).exp()}; });
  add("a boolean number", [&] { return TensorList{x.add(true).exp()}; });
  add("a sum", [&] { return TensorList{x.sum({1})}; });
  add("a sum of the other axis", [&] { return TensorList{x.sum({0})}; });
  add("a sum of both", [&] { return TensorList{x.sum({0, 1})}; });
  add("a sum that keeps", [&] { return TensorList{x.sum({1}, true)}; });
  add("a maximum", [&] { return TensorList{x.amax({1})}; });
  add("a permutation", [&] { return TensorList{real({3, 5, 7}).permute({1, 0, 2}).exp()}; });
  add("another permutation", [&] { return TensorList{real({3, 5, 7}).permute({2, 1, 0}).exp()}; });
  add("a reshape", [&] { return TensorList{real({3, 5, 7}).reshape({15, 7}).exp()}; });
  add("another reshape", [&] { return TensorList{real({3, 5, 7}).reshape({3, 35}).exp()}; });
  add("a slice", [&] { return TensorList{x.slice(1, 0, 5).exp()}; });
  add("a slice of the other axis", [&] { return TensorList{x.slice(0, 0, 3).exp()}; });
  add("a select", [&] { return TensorList{x.select(0, 1).exp()}; });
  add("a select of the other axis", [&] { return TensorList{x.select(1, 1).exp()}; });
  add("cat", [&] { return TensorList{cat({x, y}, 0)}; });
  add("cat along the other axis", [&] { return TensorList{cat({x, y}, 1)}; });
  add("cat of three", [&] { return TensorList{cat({x, y, x}, 0)}; });
  add("a random tensor", [&] { return TensorList{rand({5, 7})}; });
  add("a normal one", [&] { return TensorList{randn({5, 7})}; });
  add("a running sum", [&] { return TensorList{x.cumsum(1)}; });
  add("a running sum of the other axis", [&] { return TensorList{x.cumsum(0)}; });
  add("backwards", [&] { return TensorList{x.flip({1})}; });
  add("backwards along the other axis", [&] { return TensorList{x.flip({0})}; });
  add("the order along the other axis", [&] { return TensorList{x.argsort(0, false)}; });
  add("descending order", [&] { return TensorList{x.argsort(1, true)}; });
  add("ascending order", [&] { return TensorList{x.argsort(1, false)}; });
  add("a name", [&] { return TensorList{named(x, "batch seq").add(y).exp()}; });
  add("another name", [&] { return TensorList{named(x, "batch time").add(y).exp()}; });
  add("no name", [&] { return TensorList{named(x, "_ _").add(y).exp()}; });
  std::map<std::string, std::string> seen;
  for (const auto& [name, f] : programs) {
    const std::string key = key_of(f);
    if (!seen[key].empty()) missed.push_back(name + " has the key of " + seen[key]);
    seen[key] = name;
    if (key_of(f) != key) missed.push_back(name + " has another key the second time");
  }
  return missed;
}

std::vector<std::string> what_the_key_sees_too_much() {
  Complaints check;
  const auto f = [](const Tensor& x, const Tensor& y, double s, int64_t first) {
    return TensorList{x.add(y).mul(s).exp().sum({1}), y.slice(0, first, first + 3).select(1, first)};
  };
  const Tensor u = real({6, 7}), v = real({6, 7});
  const std::string key = key_of([&] { return f(u, v, 2.5, 0); });
  for (const int64_t rows : {5, 6, 8})
    for (const int64_t width : {5, 7, 8})
      for (const int64_t first : {0, 1, 2}) {
        const Tensor x = real({rows, width}) + double(first), y = real({rows, width});
        synchronize();
        EXPECT(key_of([&] { return f(x, y, first == 1 ? NAN : 0.25 * double(rows), first); }) == key);
      }
  // Extents that are equal by coincidence are not in the key.
  const Tensor a = real({6, 7}), b = real({6, 7}), c = real({7, 5});
  EXPECT(key_of([&] { return TensorList{a.exp(), b.exp()}; }) == key_of([&] { return TensorList{a.exp(), c.exp()}; }));
  EXPECT(key_of([&] { return TensorList{a.exp(), b.exp()}; }) != key_of([&] { return TensorList{a.exp(), a.exp()}; }));
  EXPECT(key_of([&] { return TensorList{a.exp(), b.exp()}; }) != key_of([&] { return TensorList{(a + b).exp()}; }));
  // A product follows its factors: [5, 6] as one axis has no bucket of its own.
  EXPECT(key_of([&] { return TensorList{real({5, 6}).reshape({30}).exp()}; }) == key_of([&] { return TensorList{real({8, 7}).reshape({56}).exp()}; }));
  return check.list;
}

std::vector<std::string> what_the_key_misses_of_policies() {
  Complaints check;
  const auto f = [](int64_t n) {
    return key_of([n] { return TensorList{named(real({n, 3}), "key_axis _").exp()}; });
  };
  using frit::Buckets;
  const std::string before = f(100);
  EXPECT(f(128) == before);
  buckets::set("key_axis", Buckets::exact());
  EXPECT(f(100) != before);
  EXPECT(f(100) == f(100));
  EXPECT(f(100) != f(101));
  buckets::set("key_axis", Buckets::multiple_of(50));
  EXPECT(f(51) == f(100));
  EXPECT(f(50) != f(51));
  EXPECT(f(100) != f(101));
  buckets::set("key_axis", Buckets::edges({10, 100}));
  EXPECT(f(11) == f(100));
  EXPECT(f(10) != f(11));
  EXPECT(f(2) == f(10));
  EXPECT(f(101) == f(100000));
  EXPECT(f(100) != f(101));
  buckets::set("key_axis", Buckets::dynamic());
  EXPECT(f(2) == f(4097));
  EXPECT(f(1) != f(2));  // one is structure
  EXPECT(f(0) != f(1));
  buckets::set("key_axis", Buckets::pow2());
  EXPECT(f(65) == f(128));
  EXPECT(f(64) != f(65));
  EXPECT(f(128) != f(129));
  return check.list;
}

}  // namespace frit::testing
