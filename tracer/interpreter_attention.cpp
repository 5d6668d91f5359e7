// The interpreter's attention: a row at a time, element by element, as attention.h states it. Start at attention and
// attention_gradient; Rows holds the operands widened to the type in which the row computes.
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include "tracer/attention.h"
#include "tracer/interpreter_detail.h"
#include "tracer/random.h"

namespace frit::tracer::interpreter {

namespace {
constexpr int64_t panel = 256, chunk = 1024, lanes = 8;
template <class T> constexpr Dtype dtype_of_type = std::is_same_v<T, double> ? Dtype::Float64 : Dtype::Float32;
template <class T> constexpr T infinity = std::numeric_limits<T>::infinity();

template <class T> std::vector<T> widened(const Value& v, int64_t offset, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  std::vector<T> out(size_t(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const char* p = v.data() + (offset + i * row + j * column) * int64_t(size_of(v.dtype));
      out[size_t(i * columns + j)] = word_value<T>(convert_word(load_word(p, v.dtype), compute_dtype(v.dtype), dtype_of_type<T>));
    }
  return out;
}
template <class T> T chained(int64_t k, const T* a, int64_t a_step, const T* b, int64_t b_step) {
  T sum = 0;
  for (int64_t first = 0; first < k; first += panel) {
    T part = 0;
    for (int64_t i = first; i < std::min(k, first + panel); ++i) part = std::fma(a[i * a_step], b[i * b_step], part);
    sum = first == 0 ? part : sum + part;
  }
  return sum;
}
template <class T> T pairwise(const T* parts, int64_t count) {
  if (count == 1) return parts[0];
  int64_t half = 1;
  while (half * 2 < count) half *= 2;
  return pairwise(parts, half) + pairwise(parts + half, count - half);
}
template <class T, class F> T summed(int64_t count, F at) {
  std::vector<T> parts;
  for (int64_t first = 0; first < count; first += chunk) {
    T l[lanes] = {};
    for (int64_t i = first; i < std::min(count, first + chunk); ++i) l[(i - first) % lanes] += at(i);
    parts.push_back(((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7])));
  }
  return parts.empty() ? T(0) : pairwise(parts.data(), int64_t(parts.size()));
}
template <class T> T greater(T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  if (a == b) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}
// A row of the op table, of one operand.
template <class T> struct Function {
  explicit Function(Op op) : f(pointwise_function(op, dtype_of_type<T>)), quiet(op == Op::exp) {}
  scalar::Function f;
  bool quiet;  // attention.h's e
  void operator()(T* x, size_t count) {
    std::vector<uint64_t> in(count), out(count);
    for (size_t i = 0; i < count; ++i) in[i] = value_word(x[i]);
    const uint64_t* const inputs[] = {in.data()};
    uint64_t* const results[] = {out.data()};
    scalar::evaluate_block(f, inputs, nullptr, results, count, scratch);
    for (size_t i = 0; i < count; ++i) x[i] = quiet && x[i] < T(lowest_exponent(dtype_of_type<T>)) ? T(0) : word_value<T>(out[i]);
  }
  T operator()(T x) { return (*this)(&x, 1), x; }
  std::vector<uint64_t> scratch;
};

template <class T> struct Rows {
  const Evaluation& e;
  AttentionProblem p;
  Function<T> exp{Op::exp}, log{Op::log};
  std::vector<T> q, k, v;  // of one instance; q is scaled
  int64_t instance = 0;
  explicit Rows(const Evaluation& evaluation) : e(evaluation), p(attention_problem(e.t, e.n, e.inputs)) {}

  void open(int64_t i) {
    instance = i;
    q = widened<T>(e.in(0), p.query.at[size_t(i)], p.queries, p.depth, p.query.row, p.query.column);
    for (T& x : q) x *= T(p.scale);
    k = widened<T>(e.in(1), p.key.at[size_t(i / p.share)], p.keys, p.depth, p.key.row, p.key.column);
    v = widened<T>(e.in(2), p.value.at[size_t(i / p.share)], p.keys, p.width, p.value.row, p.value.column);
  }
  bool reaches(int64_t i, int64_t block) const { return !p.causal || block <= i; }
  int64_t end(int64_t block) const { return std::min(p.keys, block + attention_block); }
  std::vector<T> scores(int64_t i, int64_t block) const {
    std::vector<T> s;
    for (int64_t j = block; j < end(block); ++j) {
      T x = chained<T>(p.depth, q.data() + i * p.depth, 1, k.data() + j * p.depth, 1);
      if (p.mask != AttentionProblem::Mask::none) {
        const Value& m = *e.inputs[e.call().op == Op::attention ? 3 : 5];
        const uint64_t word = load_word(m.data() + (p.masks.at[size_t(instance)] + i * p.masks.row + j * p.masks.column) * int64_t(size_of(m.dtype)), m.dtype);
        if (p.mask == AttentionProblem::Mask::added) x += word_value<T>(word);
        else if (!word) x = -infinity<T>;
      }
      s.push_back(p.causal && j > i ? -infinity<T> : x);
    }
    return s;
  }
  std::vector<T> dropped(std::vector<T> x, int64_t i, int64_t block) const {
    if (!p.dropout) return x;
    static const scalar::Function uniform = random_function(Op::random_uniform, Dtype::Float32);
    const uint64_t params[] = {p.seed, p.stream};
    std::vector<uint64_t> scratch;
    for (size_t j = 0; j < x.size(); ++j) {
      const uint64_t index = uint64_t((instance * p.queries + i) * p.keys + block + int64_t(j));
      uint64_t u;
      const uint64_t* const inputs[] = {&index};
      uint64_t* const results[] = {&u};
      scalar::evaluate_block(uniform, inputs, params, results, 1, scratch);
      x[j] = word_value<float>(u) >= float(p.rate) ? x[j] * T(1 / (1 - p.rate)) : T(0);
    }
    return x;
  }
  // Fills the row's result, in T, when there is a place for it; gives the parts of its logsumexp.
  std::pair<T, T> row(int64_t i, T* result) {
    T m = -infinity<T>, l = 0;
    std::vector<T> acc(size_t(p.width));
    for (int64_t block = 0; block < p.keys && reaches(i, block); block += attention_block) {
      std::vector<T> s = scores(i, block);
      T top = m, best = -infinity<T>;
      for (T x : s) best = greater(best, x);
      top = greater(m, best);
      const T safe = top == -infinity<T> ? T(0) : top, a = exp(m - safe);
      for (T& x : s) x -= safe;
      exp(s.data(), s.size());
      l = l * a + summed<T>(int64_t(s.size()), [&](int64_t j) { return s[size_t(j)]; });
      s = dropped(std::move(s), i, block);
      for (int64_t f = 0; f < p.width; ++f) acc[size_t(f)] = acc[size_t(f)] * a + chained<T>(int64_t(s.size()), s.data(), 1, v.data() + block * p.width + f, p.width);
      m = top;
    }
    for (int64_t f = 0; result && f < p.width; ++f) result[f] = l == T(0) ? T(0) : acc[size_t(f)] / l;
    return l == T(0) ? std::pair(infinity<T>, T(0)) : std::pair(m, log(l));
  }
};

template <class T> void store(const Value& to, const std::vector<T>& from) {
  for (size_t i = 0; i < from.size(); ++i) store_word(to.data() + i * size_of(to.dtype), to.dtype, value_word(from[i]));
}

template <class T> void forward(const Evaluation& e) {
  Rows<T> rows(e);
  std::vector<T> out(size_t(e.out.numel()));
  for (int64_t n = 0; n < rows.p.instances && !out.empty(); ++n) {
    rows.open(n);
    for (int64_t i = 0; i < rows.p.queries; ++i) rows.row(i, out.data() + (n * rows.p.queries + i) * rows.p.width);
  }
  store(e.out, out);
}

template <class T> struct Gradients {
  Rows<T> rows;
  const AttentionProblem& p = rows.p;
  std::vector<T> dq, dk, dv;
  explicit Gradients(const Evaluation& e) : rows(e) {
    const int64_t groups = p.instances / p.share;
    dq.resize(size_t(p.instances * p.queries * p.depth)), dk.resize(size_t(groups * p.keys * p.depth)), dv.resize(size_t(groups * p.keys * p.width));
    for (int64_t n = 0; n < p.instances; ++n) instance(n);
  }
  void instance(int64_t n) {
    rows.open(n);
    const std::vector<T> out = widened<T>(rows.e.in(3), p.result.at[size_t(n)], p.queries, p.width, p.result.row, p.result.column);
    const std::vector<T> g = widened<T>(rows.e.in(4), p.gradient.at[size_t(n)], p.queries, p.width, p.gradient.row, p.gradient.column);
    for (int64_t first = 0; first < p.queries; first += attention_block) {
      const int64_t count = std::min(p.queries - first, attention_block);
      std::vector<std::pair<T, T>> sums;
      std::vector<T> d;
      for (int64_t i = first; i < first + count; ++i) {
        sums.push_back(rows.row(i, nullptr));
        d.push_back(summed<T>(p.width, [&](int64_t f) { return g[size_t(i * p.width + f)] * out[size_t(i * p.width + f)]; }));
      }
      for (int64_t block = 0; block < p.keys && rows.reaches(first + count - 1, block); block += attention_block) blocks(n, first, count, block, sums, d, g);
    }
    for (int64_t i = 0; i < p.queries * p.depth; ++i) dq[size_t(n * p.queries * p.depth + i)] *= T(p.scale);
  }
  void blocks(int64_t n, int64_t first, int64_t count, int64_t block, const std::vector<std::pair<T, T>>& sums, const std::vector<T>& d, const std::vector<T>& g) {
    const int64_t width = rows.end(block) - block;
    std::vector<T> z, ds;  // [count][width]
    for (int64_t i = first; i < first + count; ++i) {
      std::vector<T> prob = rows.scores(i, block), dp;
      for (T& x : prob) x = (x - sums[size_t(i - first)].first) - sums[size_t(i - first)].second;
      rows.exp(prob.data(), prob.size());
      for (int64_t j = 0; j < width; ++j) dp.push_back(chained<T>(p.width, g.data() + i * p.width, 1, rows.v.data() + (block + j) * p.width, 1));
      dp = rows.dropped(std::move(dp), i, block);
      for (int64_t j = 0; j < width; ++j) ds.push_back(prob[size_t(j)] * (dp[size_t(j)] - d[size_t(i - first)]));
      const std::vector<T> kept = rows.dropped(std::move(prob), i, block);
      z.insert(z.end(), kept.begin(), kept.end());
    }
    const int64_t group = n / p.share;
    for (int64_t j = 0; j < width; ++j) {
      for (int64_t f = 0; f < p.width; ++f)
        dv[size_t((group * p.keys + block + j) * p.width + f)] += chained<T>(count, z.data() + j, width, g.data() + first * p.width + f, p.width);
      for (int64_t f = 0; f < p.depth; ++f)
        dk[size_t((group * p.keys + block + j) * p.depth + f)] += chained<T>(count, ds.data() + j, width, rows.q.data() + first * p.depth + f, p.depth);
    }
    for (int64_t i = 0; i < count; ++i)
      for (int64_t f = 0; f < p.depth; ++f)
        dq[size_t((n * p.queries + first + i) * p.depth + f)] += chained<T>(width, ds.data() + i * width, 1, rows.k.data() + block * p.depth + f, p.depth);
  }
};
template <class T> void backward(const Evaluation& e) {
  const Gradients<T> g(e);
  store(e.out, g.dq);
  for (int k = 0; k < 2; ++k) {
    const Value& like = e.in(1 + k);
    e.out.companion[k] = new_value(like.dtype, like.extent, like.rank);
    store(*e.out.companion[k], k ? g.dv : g.dk);
  }
}
}  // namespace

void attention(const Evaluation& e) { e.result().compute == Dtype::Float64 ? forward<double>(e) : forward<float>(e); }
void attention_gradient(const Evaluation& e) { e.result().compute == Dtype::Float64 ? backward<double>(e) : backward<float>(e); }

}  // namespace frit::tracer::interpreter
