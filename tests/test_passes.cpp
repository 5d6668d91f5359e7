// Passes: what they do to a trace (seen in explain's text, in launches and in memory), that the bits stay eager mode's, that
// errors stay, and that the verifier stops a pass that is wrong.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include "frit/frit.h"
#include "jit/passes/passes.h"
#include "runtime/error.h"
#include "tracer/trace.h"

using namespace frit;

namespace {
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }
std::string bits(const Tensor& t) {
  const Tensor c = (t.is_floating_point() ? where(t.detach().isnan(), Scalar(NAN), t.detach()) : t.detach()).contiguous();  // all NaNs are one value
  return dispatch(c.dtype(), [&](auto type) {
    using T = decltype(type);
    return std::string(reinterpret_cast<const char*>(c.const_data_ptr<T>()), size_t(c.numel()) * sizeof(T));
  });
}
using Body = std::function<std::vector<Tensor>()>;
std::vector<std::string> eagerly(const Body& f) {
  jit::ModeGuard eager(jit::Mode::eager);
  std::vector<std::string> all;
  for (const Tensor& t : f()) all.push_back(bits(t));
  return all;
}
std::vector<std::string> compiled(const Body& f) {
  auto c = compile(f);
  std::vector<std::string> all;
  for (const Tensor& t : c()) all.push_back(bits(t));
  return all;
}
Tensor odd_numbers(IntArrayRef sizes, Dtype d = kFloat32) {
  manual_seed(3);
  Tensor t = randn(sizes);
  t = where(rand(sizes).lt(0.1), Scalar(-0.0), t);
  return where(rand(sizes).lt(0.05), Scalar(INFINITY), t).to(d);
}
}  // namespace

TEST_CASE("what undoes or repeats the op before it is left out, with the same bits", "[passes]") {
  const Tensor x = odd_numbers({5, 37});
  const std::pair<const char*, std::function<Tensor()>> cases[] = {
      {"neg neg", [&] { return x.exp().neg().neg() * 2; }},       {"relu relu", [&] { return x.sin().relu().relu() + 1; }},
      {"abs neg", [&] { return x.sin().neg().abs() + 1; }},        {"square neg", [&] { return x.sin().neg().square() - 1; }},
      {"floor floor", [&] { return (x * 3).floor().floor() + x; }}, {"sign sign", [&] { return x.sin().sign().sign() - x; }},
  };
  for (const auto& [name, f] : cases) {
    INFO(name);
    CHECK(has(jit::explain(f), "pass simplify"));
    CHECK((compiled([&] { return std::vector<Tensor>{f()}; }) == eagerly([&] { return std::vector<Tensor>{f()}; })));
  }
  // What the user sees keeps memory of its own.
  auto two = compile([&] {
    const Tensor a = x.sin().relu(), b = a.relu();
    return std::vector<Tensor>{a, b};
  });
  std::vector<Tensor> pair = two();
  const std::string before = bits(pair[0]);
  pair[1].add_(1);
  CHECK((bits(pair[0]) == before));
}

TEST_CASE("equal ops are one, but two that are seen", "[passes]") {
  const Tensor x = odd_numbers({64, 48}), w = odd_numbers({48, 48});
  const auto f = [&] { return (x.matmul(w).exp() + 1).matmul(w) + (x.matmul(w) * 2).matmul(w); };
  CHECK(has(jit::explain(f), "pass merge_equal"));
  CHECK((compiled([&] { return std::vector<Tensor>{f()}; }) == eagerly([&] { return std::vector<Tensor>{f()}; })));
  auto g = compile([&] { return std::vector<Tensor>{x.exp(), x.exp()}; });
  std::vector<Tensor> pair = g();
  const std::string before = bits(pair[0]);
  pair[1].mul_(2);
  CHECK((bits(pair[0]) == before));
  CHECK((bits(pair[1]) != before));
  // An op between which the memory is written is another one.
  const auto written = [&] {
    Tensor t = x.clone();
    Tensor view = t.narrow(0, 0, 8);
    const Tensor a = t.exp();
    view.mul_(2);
    return std::vector<Tensor>{a + 1, t.exp() + 1};
  };
  CHECK((compiled(written) == eagerly(written)));
}

TEST_CASE("one index a row: gathered before it is computed, scattered by comparing", "[passes]") {
  for (Dtype d : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    Tensor x = odd_numbers({37, 41}, d).clone().requires_grad_();
    const Tensor index = (arange(37, kInt64) * 7).remainder(41) - where(arange(37, kInt64).remainder(3).eq(0), Scalar(int64_t(41)), Scalar(int64_t(0)));
    synchronize();
    const Body f = [&] {
      const Tensor picked = x.log_softmax(-1).gather(1, index.unsqueeze(1));
      x.set_grad({});
      (picked * -0.0 + picked).sum().backward();
      return std::vector<Tensor>{picked, x.grad()};
    };
    INFO(dtype_name(d));
    std::vector<Tensor> kept;
    const std::string text = jit::explain([&] { return (kept = f())[1]; });
    INFO(text);
    if (d == kFloat32 || d == kFloat64) {
      CHECK(has(text, "pass sink_gathers"));
      CHECK(has(text, "pass compare_for_scatters"));
      CHECK(!has(text, "scatter_add "));
    }
    CHECK((compiled(f) == eagerly(f)));
  }
}

TEST_CASE("extents that were taken to be equal and are not", "[passes]") {
  Tensor x = odd_numbers({40, 33}).clone().requires_grad_();
  auto f = compile([&](const Tensor& index) {
    const Tensor picked = (x.exp() * 2).gather(1, index);
    x.set_grad({});
    picked.sum().backward();
    return std::vector<Tensor>{picked, x.grad()};
  });
  for (int64_t rows : {40, 36, 40, 33}) {  // one bucket
    const Tensor index = (arange(rows, kInt64) * 5).remainder(33).unsqueeze(1);
    synchronize();
    std::vector<std::string> got;
    for (const Tensor& t : f(index)) got.push_back(bits(t));
    jit::ModeGuard eager(jit::Mode::eager);
    const Tensor picked = (x.exp() * 2).gather(1, index);
    x.set_grad({});
    picked.sum().backward();
    INFO(rows);
    CHECK((got == std::vector<std::string>{bits(picked), bits(x.grad())}));
  }
}

TEST_CASE("extents that were taken to be equal: while the other plan is compiled in the background, ops run one by one", "[passes]") {
  jit::ModeGuard automatic(jit::Mode::automatic);
  const Tensor x = odd_numbers({40, 33});
  const auto picked = [&](int64_t rows) {
    const Tensor index = (arange(rows, kInt64) * 5).remainder(33).unsqueeze(1);
    return bits((x.exp() * 3).gather(1, index).sum(1));
  };
  const auto wanted = [&](int64_t rows) {
    jit::ModeGuard eager(jit::Mode::eager);
    return picked(rows);
  };
  const std::string all = wanted(40), some = wanted(36);
  for (int turn = 0; turn < 40; ++turn) {
    CHECK((picked(40) == all));
    if (turn > 5) CHECK((picked(36) == some));
    if (turn % 10 == 9) jit::wait_for_compiles();
  }
}

TEST_CASE("an index out of range is refused as in eager mode, and so is what depends on it", "[passes]") {
  Tensor x = odd_numbers({6, 10}).clone().requires_grad_();
  Tensor index = full({6, 1}, Scalar(int64_t(3)), kInt64);
  auto f = compile([&](const Tensor& at) {
    x.set_grad({});
    x.sin().gather(1, at).sum().backward();
    return std::vector<Tensor>{x.grad(), x.cos()};
  });
  for (int turn = 0; turn < 3; ++turn) {
    Tensor at = index.clone();
    at.select(0, 2).fill_(Scalar(int64_t(turn == 1 ? 10 : 9)));
    synchronize();
    if (turn != 1) {
      CHECK_NOTHROW(f(at));
      continue;
    }
    CHECK_THROWS_WITH(f(at), Catch::Contains("index 10 is out of range for an axis of extent 10"));
  }
}

TEST_CASE("the loss of a classifier never holds probabilities or a scattered gradient", "[passes]") {
  const int64_t rows = 128, classes = 2048;
  Tensor x = randn({rows, classes}).requires_grad_();
  const Tensor target = randint(0, classes, {rows}, kInt64);
  auto step = compile([&] {
    x.set_grad({});
    const Tensor loss = nn::functional::cross_entropy(x, target);
    loss.backward();
    return loss;
  });
  for (int i = 0; i < 3; ++i) step().item<float>();
  synchronize();
  x.set_grad({});
  memory::reset_peak();
  const int64_t before = int64_t(memory::stats(kCPU).current);
  step().item<float>();
  const int64_t one = rows * classes * 4;
  CHECK(int64_t(memory::stats(kCPU).peak) - before < one + one / 8);
}

TEST_CASE("the verifier stops a pass that is wrong", "[passes]") {
  jit::ModeGuard automatic(jit::Mode::automatic);
  const Tensor x = odd_numbers({4, 6});
  synchronize();
  const Tensor y = x.exp(), z = y.sin();
  tracer::Trace& t = *tracer::recorder().open;
  const uint32_t last = uint32_t(t.nodes.size()) - 1, first = last - 1;
  REQUIRE(t.nodes[last].call.op == tracer::Op::sin);
  std::vector<bool> needed(t.nodes.size(), true), roots(t.nodes.size());
  roots[last] = true;
  const auto graph = [&] { return jit::Graph(t, needed, roots, true); };
  {
    jit::Graph g = graph();
    CHECK_NOTHROW(g.verify());
    tracer::Call call = t.nodes[last].call;
    g.append(call, Dtype::Float32, Dtype::Float32, last, last, last);
    CHECK_NOTHROW(g.verify());
  }
  {
    jit::Graph g = graph();
    g.append(t.nodes[last].call, Dtype::Float64, Dtype::Float32, last, last, last);
    CHECK_THROWS_WITH(g.verify(), Catch::Contains("another type"));
  }
  {
    jit::Graph g = graph();
    g.append(t.nodes[last].call, Dtype::Float32, Dtype::Float32, last, last, last, 0);
    CHECK_THROWS_WITH(g.verify(), Catch::Contains("another shape"));
  }
  {
    jit::Graph g = graph();
    const uint32_t late = g.append(t.nodes[first].call, Dtype::Float32, Dtype::Float32, first, first, last);
    g.replace(first, late);  // sin would read what comes after it
    CHECK_THROWS_WITH(g.verify(), Catch::Contains("does not come before"));
  }
  CHECK((bits(z) == bits(x.exp().sin())));
}
