// einsum against a nested loop over all labels in double: random equations (diagonals, broadcasts, ellipses, empty axes,
// many operands, odd layouts), gradients, the orders of contraction, and the texts of errors. Then tensordot and linalg.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "tests/support/cases.h"

using namespace frit;
using Catch::Matchers::Contains;

namespace {
// The oracle: labels as strings per axis ("a", or ".k" for an axis of an ellipsis, counted from the right).
std::vector<std::string> axis_labels(const std::string& term, int64_t rank) {
  std::vector<std::string> labels;
  int64_t named = 0;
  for (char c : term) named += c != '.';
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      for (int64_t k = rank - named; k > 0; --k) labels.push_back("." + std::to_string(k));
      i += 2;
    } else labels.push_back(std::string(1, term[i]));
  }
  return labels;
}
std::vector<std::string> split_terms(std::string s) {
  std::erase(s, ' ');
  std::vector<std::string> terms{""};
  for (char c : s) c == ',' ? terms.push_back("") : terms.back().push_back(c);
  return terms;
}
Tensor naive(const std::string& equation, const TensorList& operands, const std::vector<std::string>& output) {
  std::vector<std::vector<std::string>> labels;
  std::map<std::string, int64_t> extent;
  const auto terms = split_terms(equation.substr(0, equation.find("->")));
  for (size_t k = 0; k < operands.size(); ++k) {
    labels.push_back(axis_labels(terms[k], operands[k].dim()));
    for (size_t i = 0; i < labels[k].size(); ++i) {
      int64_t& e = extent.emplace(labels[k][i], 1).first->second;
      if (e == 1) e = operands[k].size(int64_t(i));
    }
  }
  std::vector<std::string> all = output;
  for (const auto& [name, e] : extent)
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  std::vector<int64_t> sizes, shape;
  int64_t total = 1, results = 1;
  for (const std::string& l : all) sizes.push_back(extent[l]), total *= extent[l];
  for (const std::string& l : output) shape.push_back(extent[l]), results *= extent[l];
  std::vector<double> out(size_t(results), 0);
  std::vector<Tensor> held;
  for (const Tensor& t : operands) held.push_back(t.detach().to(kFloat64).contiguous());
  for (int64_t i = 0; i < total; ++i) {
    std::map<std::string, int64_t> at;
    int64_t rest = i;
    for (size_t k = all.size(); k-- > 0; rest /= sizes[k]) at[all[k]] = rest % sizes[k];
    double p = 1;
    for (size_t k = 0; k < held.size(); ++k) {
      int64_t offset = 0;
      for (size_t a = 0; a < labels[k].size(); ++a) offset = offset * held[k].size(int64_t(a)) + (held[k].size(int64_t(a)) == 1 ? 0 : at[labels[k][a]]);
      p *= held[k].const_data_ptr<double>()[offset];
    }
    int64_t to = 0;
    for (size_t k = 0; k < output.size(); ++k) to = to * sizes[k] + at[all[k]];
    out[size_t(to)] += p;
  }
  return tensor(out, kFloat64).reshape(shape);
}

struct Case {
  std::string equation;
  TensorList operands;
  std::vector<std::string> output;
};
// The same elements in another layout.
Tensor in_layout(const Tensor& t, uint64_t r) {
  if (t.dim() == 0) return t;
  switch (r % 3) {
    case 0: return t;
    case 1: return t.transpose(0, -1).contiguous().transpose(0, -1);
    default: return stack({zeros_like(t), t}, -1).select(-1, 1);
  }
}
Case random_case(std::mt19937_64& r, int operands, int letters, int most_axes, bool empty_axes) {
  Case c;
  std::vector<int64_t> extent(size_t(letters), 0);
  for (int64_t& e : extent) e = int64_t(r() % 4) + (empty_axes && r() % 8 == 0 ? 0 : 1);
  const bool ellipses = r() % 3 == 0;
  const int64_t dots[] = {int64_t(r() % 3) + 1, int64_t(r() % 3) + 1};  // extents from the right
  int64_t covered = 0;
  std::map<std::string, int> times;
  for (int k = 0; k < operands; ++k) {
    std::string term;
    std::vector<int64_t> shape;
    std::map<char, int64_t> own;
    const int axes = int(r() % uint64_t(most_axes + 1));
    const bool has_dots = ellipses && r() % 4;
    const int place = has_dots ? int(r() % uint64_t(axes + 1)) : -1;
    for (int i = 0; i <= axes; ++i) {
      if (i == place) {
        const int64_t n = int64_t(r() % 3);
        term += "...";
        covered = std::max(covered, n);
        for (int64_t d = n; d > 0; --d) shape.push_back(r() % 4 == 0 ? 1 : dots[d - 1]), times["." + std::to_string(d)]++;
      }
      if (i == axes) break;
      const int l = int(r() % uint64_t(letters));
      const char name = char(l % 2 ? 'A' + l : 'a' + l);
      term += name;
      if (r() % 5 == 0) term += ' ';
      if (!own.count(name)) own[name] = r() % 8 == 0 && !empty_axes ? 1 : extent[size_t(l)];
      shape.push_back(own[name]);
      times[std::string(1, name)]++;
    }
    c.equation += (k ? "," : "") + term;
    Tensor t = randn(shape, kFloat64);
    c.operands.push_back(in_layout(t, r()));
  }
  std::vector<std::string> letters_used;
  for (const auto& [name, n] : times)
    if (name[0] != '.') letters_used.push_back(name);
  const auto put_dots = [&] {
    for (int64_t d = covered; d > 0; --d) c.output.push_back("." + std::to_string(d));
  };
  if (r() % 3 == 0) {  // implicit
    put_dots();
    for (const std::string& l : letters_used)
      if (times[l] == 1) c.output.push_back(l);
  } else {
    std::shuffle(letters_used.begin(), letters_used.end(), r);
    const size_t keep = std::min<size_t>(r() % (letters_used.size() + 1), 6);
    const size_t dots_at = r() % (keep + 1);
    const bool with_dots = ellipses && r() % 3;
    c.equation += "->";
    for (size_t i = 0; i <= keep; ++i) {
      if (i == dots_at && with_dots) c.equation += "...", put_dots();
      if (i < keep) c.equation += letters_used[i], c.output.push_back(letters_used[i]);
    }
  }
  if (c.output.size() > 8) c.output.clear(), c.operands.clear();
  return c;
}
void check_case(const Case& c, double rtol = 1e-9) {
  const Tensor expected = naive(c.equation, c.operands, c.output), got = einsum(c.equation, c.operands);
  INFO(c.equation);
  REQUIRE(got.sizes().vec() == expected.sizes().vec());
  CHECK(got.to(kFloat64).allclose(expected, rtol, 1e-9));
}
}  // namespace

TEST_CASE("einsum: random equations") {
  testing::in_each_mode([] {
    for (uint64_t seed = 0; seed < 100; ++seed) {
      std::mt19937_64 r(seed);
      manual_seed(seed);
      INFO("seed " << seed);
      const Case c = random_case(r, 1 + int(seed % 4), 3 + int(seed % 4), 4, seed % 10 == 9);
      if (!c.operands.empty()) check_case(c);
    }
  });
}
TEST_CASE("einsum: many operands, in the best order and greedily") {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    std::mt19937_64 r(1000 + seed);
    manual_seed(seed);
    INFO("seed " << seed);
    const Case c = random_case(r, seed % 2 ? 7 : 11, 6, 2, false);
    if (!c.operands.empty()) check_case(c);
  }
}
TEST_CASE("einsum: gradients") {
  jit::ModeGuard eager(jit::Mode::eager);
  for (const char* equation : {"ij,jk->ik", "ii->i", "ii", "i,i", "i,j->ij", "...ij,...jk->...ik", "bij,bjk,bk->bi", "iij,j->ij", "ij->", "a,ab,b->a", ",i->i"}) {
    std::string e = equation;
    const auto terms = split_terms(e.substr(0, e.find("->")));
    TensorList in;
    manual_seed(3);
    for (const std::string& t : terms) {
      std::vector<int64_t> shape;
      for (const std::string& l : axis_labels(t, int64_t(t.size()) - (t.find('.') == std::string::npos ? 0 : 2))) shape.push_back(l[0] == '.' ? 2 : 2 + (l[0] - 'a') % 3);
      in.push_back(randn(shape, kFloat64));
    }
    const autograd::TensorFunction f = [&](const autograd::variable_list& x) -> autograd::variable_list { return {einsum(e, x)}; };
    INFO(equation);
    CHECK(autograd::gradcheck(f, in));
    CHECK(autograd::gradgradcheck(f, in));
  }
}
TEST_CASE("einsum: known values, views, types") {
  const Tensor x = arange(6, kFloat32).reshape({2, 3});
  CHECK(einsum("ij->ji", {x}).is_alias_of(x));
  CHECK(einsum("ij->ji", {x}).equal(x.t()));
  CHECK(einsum("ba", {x}).equal(x.t()));              // implicit: sorted
  CHECK(einsum("bA", {x}).equal(x.t()));              // upper case first
  const Tensor square = arange(9, kFloat32).reshape({3, 3});
  CHECK(einsum("ii->i", {square}).is_alias_of(square));
  CHECK(einsum("ii", {square}).item<float>() == 12);
  CHECK(einsum("", {full({}, 5.0)}).item<float>() == 5);
  CHECK(einsum(",", {full({}, 5.0), full({}, 2.0)}).item<float>() == 10);
  const Tensor i = arange(6).reshape({2, 3});
  const Tensor p = einsum("ij,kj->ik", {i, i});
  CHECK(p.dtype() == kInt64);
  CHECK(p.equal(tensor({{5, 14}, {14, 50}})));
  CHECK(einsum("ij->i", {i.to(kInt32)}).dtype() == kInt32);
  CHECK(einsum("ij,jk->ik", {ones({2, 0}), ones({0, 3})}).equal(zeros({2, 3})));
  for (Dtype d : {kFloat16, kBFloat16}) CHECK(einsum("ij,kj->ik", {i.to(d), i.to(d)}).to(kInt64).equal(p));
}
TEST_CASE("einsum: the order of contraction") {
  const TensorList chain{ones({2, 100}), ones({100, 3}), ones({3, 50}), ones({50, 4})};
  const EinsumPath best = einsum_path("ab,bc,cd,de->ae", chain);
  // ((ab,bc),(cd,de)): 600 + 600 + 24
  CHECK(best.multiplications == 1224);
  CHECK(best.steps.size() == 3);
  // The cheapest order of every random chain, by trying them all recursively.
  std::mt19937_64 r(5);
  for (int round = 0; round < 20; ++round) {
    const size_t n = 3 + r() % 4;
    std::vector<int64_t> e;
    for (size_t i = 0; i <= n; ++i) e.push_back(int64_t(1 + r() % 30));
    TensorList m;
    std::string equation;
    for (size_t i = 0; i < n; ++i) m.push_back(ones({e[i], e[i + 1]})), equation += (i ? "," : "") + std::string{char('a' + i), char('a' + i + 1)};
    equation += std::string("->a") + char('a' + n);
    const auto cheapest = [&](const auto& self, size_t i, size_t j) -> double {
      if (i == j) return 0;
      double best_cost = 1e300;
      for (size_t s = i; s < j; ++s) best_cost = std::min(best_cost, self(self, i, s) + self(self, s + 1, j) + double(e[i] * e[s + 1] * e[j + 1]));
      return best_cost;
    };
    CHECK(einsum_path(equation, m).multiplications <= cheapest(cheapest, 0, n - 1));  // outer products may even be cheaper
    CHECK(einsum(equation, m).equal(linalg::multi_dot(m)));
  }
}
TEST_CASE("einsum: errors name the equation, the operand, the label and the extents") {
  const Tensor a = ones({2, 3}), b = ones({4, 5});
  CHECK_THROWS_WITH(einsum("ij,jk->ik", {a, b}), Contains("ij,jk->ik") && Contains("'j'") && Contains("operand 1") && Contains("4") && Contains("3") && Contains("[4, 5]"));
  CHECK_THROWS_WITH(einsum("ij->ii", {a}), Contains("'i'") && Contains("twice in the output"));
  CHECK_THROWS_WITH(einsum("ij->ik", {a}), Contains("'k'") && Contains("no operand"));
  CHECK_THROWS_WITH(einsum("ii->i", {a}), Contains("'i'") && Contains("twice in operand 0") && Contains("2") && Contains("3"));
  CHECK_THROWS_WITH(einsum("i->i", {a}), Contains("operand 0") && Contains("2 axes") && Contains("names 1"));
  CHECK_THROWS_WITH(einsum("ijk...->i", {a}), Contains("operand 0") && Contains("names 3"));
  CHECK_THROWS_WITH(einsum("ij,jk", {a}), Contains("2 operands") && Contains("1 tensors"));
  CHECK_THROWS_WITH(einsum("i1->i", {a}), Contains("'1'"));
  CHECK_THROWS_WITH(einsum("i..->i", {a}), Contains("three dots"));
  CHECK_THROWS_WITH(einsum("......->", {a}), Contains("more than one ellipsis"));
  CHECK_THROWS_WITH(einsum("ij", {}), Contains("no operand"));
  CHECK_THROWS_WITH(einsum("ij,jk", {a, ones({3, 2}, kFloat64)}), Contains("float32") && Contains("float64"));
  CHECK_THROWS_AS(einsum("ij", {Tensor()}), ValueError);
}
TEST_CASE("tensordot and multi_dot") {
  manual_seed(1);
  const Tensor a = randn({2, 3, 4}, kFloat64), b = randn({4, 3, 5}, kFloat64);
  CHECK(tensordot(a, b, {1, 2}, {1, 0}).allclose(einsum("ijk,kjl->il", {a, b})));
  CHECK(tensordot(a, b, {-1}, {0}).allclose(einsum("ijk,klm->ijlm", {a, b})));
  CHECK(tensordot(a, b, {}, {}).sizes().vec() == std::vector<int64_t>{2, 3, 4, 4, 3, 5});
  CHECK_THROWS_WITH(tensordot(a, b, {0}, {0}), Contains("[2, 3, 4]") && Contains("[4, 3, 5]"));
  const Tensor v = randn({4}, kFloat64), w = randn({5}, kFloat64), m = randn({4, 6}, kFloat64), n = randn({6, 5}, kFloat64);
  CHECK(linalg::multi_dot({v, m, n, w}).allclose(v.matmul(m).matmul(n).dot(w)));
  CHECK(linalg::multi_dot({v, m}).sizes().vec() == std::vector<int64_t>{6});
  CHECK(linalg::multi_dot({n, w}).sizes().vec() == std::vector<int64_t>{6});
  CHECK_THROWS_WITH(linalg::multi_dot({m, m}), Contains("[4, 6]") && Contains("rows of the next"));
  CHECK_THROWS_WITH(linalg::multi_dot({m}), Contains("at least 2"));
  const autograd::TensorFunction f = [](const autograd::variable_list& x) -> autograd::variable_list { return {linalg::multi_dot(x)}; };
  CHECK(autograd::gradcheck(f, {m, n, w}));
}
TEST_CASE("linalg: norms") {
  const Tensor m = tensor({{1., -2.}, {-3., 4.}});
  CHECK(linalg::norm(m).item<float>() == Approx(std::sqrt(30.0)));
  CHECK(linalg::norm(m, 1).item<float>() == 6);
  CHECK(linalg::norm(m, -1).item<float>() == 4);
  CHECK(linalg::norm(m, INFINITY).item<float>() == 7);
  CHECK(linalg::norm(m, -INFINITY).item<float>() == 3);
  CHECK(linalg::norm(m, "fro").item<float>() == Approx(std::sqrt(30.0)));
  CHECK(linalg::vector_norm(m, 3).item<float>() == Approx(std::cbrt(100.0)));
  CHECK(linalg::vector_norm(m, INFINITY, IntArrayRef({1})).equal(tensor({2., 4.})));
  CHECK(linalg::matrix_norm(m.expand({3, 2, 2}), 1, {1, 2}, true).sizes().vec() == std::vector<int64_t>{3, 1, 1});
  CHECK(linalg::vecdot(m, m).equal(tensor({5., 25.})));
}
