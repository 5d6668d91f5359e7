// Finding attention written out by hand, and its recorded gradient: see attention.cpp. Forward reads from the last product to the first, Backward
// from the gradient of the softmax's input to those of the products' operands. What is passed on the way is `inside`, and may have no
// other readers. Start at match_attention.
#include "jit/passes/attention_match.h"
#include <algorithm>
#include <bit>

namespace frit::jit {

using namespace tracer;

namespace {
using Known = Rewrite::Known;
using Is = Known::Is;
constexpr double lowest_score = -1e4;  // its exponential vanishes beside that of any score near 0

// One op between the first product and the softmax.
struct ScoreStep {
  enum class Kind : uint8_t { convert, scale, add, keep /* where(mask, scores, number) */, fill /* where(mask, number, scores) */ };
  Kind kind;
  uint32_t node, from, mask = no_node;
};

class Matcher {
 public:
  explicit Matcher(Graph& g) : g_(g) {}
  bool forward(uint32_t product);
  bool backward();       // also true where there is none
  bool alone() const;
  AttentionMatch m;

 private:
  const Node& node(uint32_t n) const { return g_.node(n); }
  uint32_t in(uint32_t n, int k) const { return node(n).call.in[k]; }
  Dtype dtype(uint32_t n) const { return node(n).result.dtype; }
  bool is(uint32_t n, Op op) const { return !g_.is_number(n) && node(n).call.op == op && !(node(n).call.mode & in_place); }
  bool is_number(uint32_t n, int k) const { return g_.is_number(in(n, k)); }
  bool over_last_axis(uint32_t n) const { return node(n).call.attr == uint64_t(1) << (node(in(n, 0)).result.rank - 1) && node(n).call.kind == 1; }
  bool passed(uint32_t n) { return inside_.push_back(n), true; }
  uint32_t converted_from(uint32_t n) {
    while (is(n, Op::copy) && is_floating(dtype(n)) && is_floating(dtype(in(n, 0)))) passed(n), n = in(n, 0);
    return n;
  }
  bool zero(uint32_t n) {  // its number
    const bool is_zero = number_at(g_.trace(), n, 0) == 0;
    m.known.push_back({{n, 0}, Is::word, g_.trace().args[node(n).call.arg]});
    return is_zero;
  }
  void same_number(uint32_t n, uint32_t as) { m.known.push_back({{n, 0}, Is::same, 0, {as, 0}}); }

  bool dropout(uint32_t& p);
  bool softmax(uint32_t p);
  bool scores(uint32_t n);
  bool scores_through(ScoreStep step) {
    const size_t passed_before = inside_.size(), steps_before = steps_.size();
    steps_.push_back(step), passed(step.node);
    if (scores(step.from)) return true;
    return inside_.resize(passed_before), steps_.resize(steps_before), false;
  }
  bool operands() const;
  bool choose_masks();
  bool choose_mask(const ScoreStep& s);
  bool fits(uint32_t mask) const;

  template <class F> uint32_t reader(uint32_t n, F&& wanted) const {
    for (uint32_t r : g_.readers(n))
      if (wanted(r)) return r;
    return no_node;
  }
  bool softmax_gradient(uint32_t ds);
  bool probability_gradient(uint32_t dp);
  bool score_gradient(uint32_t ds);
  bool takes_gradient(uint32_t n) { return m.gradient == no_node ? m.gradient = n, true : m.gradient == n; }

  Graph& g_;
  uint32_t left_ = no_node;        // of the last product
  uint32_t factor_ = no_node;      // dropout's product
  uint32_t p_ = no_node, e_ = no_node, total_ = no_node, first_ = no_node;
  std::vector<ScoreStep> steps_;   // the last first
  std::vector<uint32_t> inside_;
};

// ---- forward ------------------------------------------------------------------------------------------------------------
bool Matcher::forward(uint32_t product) {
  m.product = product, m.value = in(product, 1), left_ = in(product, 0);
  uint32_t p = converted_from(left_);
  if (is(p, Op::where) && !dropout(p)) return false;
  return softmax(p) && operands() && choose_masks();
}
// where(random >= rate, p * factor, 0)
bool Matcher::dropout(uint32_t& p) {
  const uint32_t chosen = p;
  m.keep = in(chosen, 0), factor_ = in(chosen, 1);
  if (!is_number(chosen, 2) || !is(m.keep, Op::ge) || !is_number(m.keep, 1) || !is(factor_, Op::mul) || !zero(chosen)) return false;
  m.random = in(m.keep, 0);
  if (!is(m.random, Op::random_uniform) || dtype(m.random) != Dtype::Float32 || !g_.same_shape(m.random, chosen) || !is_number(factor_, 1)) return false;
  m.known.push_back({{factor_, 0}, Is::keep_factor, 0, {m.keep, 0}});
  passed(chosen), passed(factor_);
  p = converted_from(in(factor_, 0));
  return true;
}
bool Matcher::softmax(uint32_t p) {
  if (!is(p, Op::div) || is_number(p, 0) || is_number(p, 1)) return false;
  p_ = p, e_ = in(p, 0), total_ = in(p, 1);
  if (!is(e_, Op::exp) || !is(total_, Op::sum) || in(total_, 0) != e_ || !over_last_axis(total_)) return false;
  const uint32_t centred = in(e_, 0);
  if (!is(centred, Op::sub) || is_number(centred, 0) || is_number(centred, 1)) return false;
  const uint32_t s = in(centred, 0), top = in(centred, 1);
  if (!is(top, Op::amax) || !over_last_axis(top)) return false;
  uint32_t of = in(top, 0);
  if (is(of, Op::detach)) passed(of), of = in(of, 0);
  if (of != s || dtype(e_) != compute_dtype(dtype(e_))) return false;
  return passed(p), passed(e_), passed(total_), passed(centred), passed(top), scores(s);
}
// From the softmax's operand down to the first product.
bool Matcher::scores(uint32_t n) {
  using Kind = ScoreStep::Kind;
  if (steps_.size() > 8 || g_.is_number(n)) return false;
  if (is(n, Op::matmul)) {
    first_ = n, m.query = in(n, 0), m.turned = in(n, 1);
    return g_.same_shape(n, e_) && passed(n);
  }
  if (is(n, Op::copy)) return is_floating(dtype(in(n, 0))) && scores_through({Kind::convert, n, in(n, 0)});
  if (is(n, Op::div)) return is_number(n, 1) && scores_through({Kind::scale, n, in(n, 0)});
  if (is(n, Op::mul)) return (is_number(n, 0) || is_number(n, 1)) && scores_through({Kind::scale, n, in(n, is_number(n, 0) ? 1 : 0)});
  if (is(n, Op::add) && !is_number(n, 0) && !is_number(n, 1)) return scores_through({Kind::add, n, in(n, 0), in(n, 1)}) || scores_through({Kind::add, n, in(n, 1), in(n, 0)});
  if (is(n, Op::where) && is_number(n, 2)) return !is_number(n, 1) && scores_through({Kind::keep, n, in(n, 1), in(n, 0)});
  if (is(n, Op::where) && is_number(n, 1)) return scores_through({Kind::fill, n, in(n, 2), in(n, 0)});
  return false;
}
bool Matcher::operands() const {
  const Dtype d = dtype(m.product);
  const Result &s = node(first_).result, &q = node(m.query).result, &k = node(m.turned).result, &v = node(m.value).result;
  if (!is_floating(d) || q.dtype != d || k.dtype != d || v.dtype != d || q.rank != s.rank || k.rank != s.rank || v.rank != s.rank) return false;
  if (dtype(e_) != compute_dtype(d)) return false;
  for (int i = 0; i + 2 < s.rank; ++i)
    if (!g_.same_size(q.size[i], s.size[i]) || !g_.same_size(k.size[i], s.size[i]) || !g_.same_size(v.size[i], s.size[i])) return false;
  return true;
}
// Does it broadcast to the scores?
bool Matcher::fits(uint32_t mask) const {
  const Result &r = node(mask).result, &s = node(first_).result;
  if (r.rank > s.rank) return false;
  for (int i = 1; i <= r.rank; ++i)
    if (r.size[r.rank - i] != 1 && !g_.same_size(r.size[r.rank - i], s.size[s.rank - i])) return false;
  return true;
}
bool Matcher::choose_masks() {
  using Kind = ScoreStep::Kind;
  for (size_t i = steps_.size(); i-- > 0;) {  // from the product on
    const ScoreStep& s = steps_[i];
    if (s.kind == Kind::convert) continue;
    if (s.kind != Kind::scale) {
      if (!choose_mask(s)) return false;
    } else if (m.scale != no_node || m.mask != no_node || m.causal) return false;
    else m.scale = s.node;
  }
  return true;
}
bool Matcher::choose_mask(const ScoreStep& s) {
  using Kind = ScoreStep::Kind;
  if (g_.is_number(s.mask) || !fits(s.mask)) return false;
  const std::optional<Pattern> pattern = pattern_of(g_, s.mask);
  const bool triangle = pattern && pattern->shape == Pattern::Shape::triangle && pattern->offset == 0;
  if (s.kind == Kind::add) {
    if (triangle && pattern->inside == 0 && pattern->outside <= lowest_score) {
      m.causal = true;
      m.known.insert(m.known.end(), pattern->known.begin(), pattern->known.end());
      return true;
    }
    const Dtype d = dtype(s.mask);
    if (m.mask != no_node || (d != dtype(m.query) && d != compute_dtype(dtype(m.query)))) return false;
    m.mask = s.mask;
    return true;
  }
  const double number = number_at(g_.trace(), s.node, 0);
  if (!(number <= lowest_score) || dtype(s.mask) != Dtype::Bool) return false;
  const bool forbids = s.kind == Kind::fill;
  m.known.push_back({{s.node, 0}, Is::at_most, std::bit_cast<uint64_t>(lowest_score)});
  if (triangle && (pattern->inside != 0) != forbids && (pattern->outside != 0) == forbids) {
    m.causal = true;
    m.known.insert(m.known.end(), pattern->known.begin(), pattern->known.end());
    return true;
  }
  if (m.mask != no_node) return false;
  m.mask = s.mask, m.forbids = forbids;
  return true;
}

// ---- backward -----------------------------------------------------------------------------------------------------------
bool Matcher::backward() {
  for (uint32_t r : g_.readers(left_)) {
    if (!swaps_last_two(node(r))) continue;
    m.of_value = reader(r, [&](uint32_t n) { return is(n, Op::matmul) && in(n, 0) == r; });
    if (m.of_value == no_node || !takes_gradient(in(m.of_value, 1))) return false;
    passed(r);
  }
  const uint32_t ds = reader(e_, [&](uint32_t n) { return is(n, Op::mul); });
  return ds == no_node || (softmax_gradient(ds) && score_gradient(ds));
}
// (dp / total + expand(sum(-dp * (e / total / total)))) * e
bool Matcher::softmax_gradient(uint32_t ds) {
  passed(ds);
  const uint32_t both = in(ds, in(ds, 0) == e_ ? 1 : 0);
  if (!is(both, Op::add) || is_number(both, 0) || is_number(both, 1)) return false;
  passed(both);
  const int direct = is(in(both, 0), Op::div) ? 0 : 1;
  const uint32_t quotient = in(both, direct);
  if (!is(quotient, Op::div) || in(quotient, 1) != total_ || is_number(quotient, 0)) return false;
  const uint32_t dp = in(quotient, 0);
  uint32_t spread = in(both, 1 - direct);
  passed(quotient);
  for (; is(spread, Op::expand) || is(spread, Op::reshape); spread = in(spread, 0)) {
    const Result &r = node(spread).result, &of = node(total_).result;
    if (r.rank != of.rank || !std::equal(r.size, r.size + r.rank - 1, of.size, [&](SizeId a, SizeId b) { return g_.same_size(a, b); })) return false;
    passed(spread);
  }
  if (!is(spread, Op::sum) || !over_last_axis(spread)) return false;
  const uint32_t term = in(spread, 0);
  if (!is(term, Op::mul) || is_number(term, 0) || is_number(term, 1)) return false;
  const int negative = is(in(term, 0), Op::neg) ? 0 : 1;
  const uint32_t neg = in(term, negative), twice = in(term, 1 - negative);
  if (!is(neg, Op::neg) || in(neg, 0) != dp || !is(twice, Op::div) || in(twice, 1) != total_) return false;
  const uint32_t once = in(twice, 0);
  if (!is(once, Op::div) || in(once, 0) != e_ || in(once, 1) != total_) return false;
  return passed(spread), passed(term), passed(neg), passed(twice), passed(once), probability_gradient(dp);
}
bool Matcher::probability_gradient(uint32_t dp) {
  dp = converted_from(dp);
  if (m.keep != no_node) {
    if (!is(dp, Op::mul) || !is_number(dp, 1)) return false;
    same_number(dp, factor_);
    passed(dp), dp = converted_from(in(dp, 0));
    if (!is(dp, Op::where) || in(dp, 0) != m.keep || is_number(dp, 1) || !is_number(dp, 2) || !zero(dp)) return false;
    passed(dp), dp = converted_from(in(dp, 1));
  }
  if (!is(dp, Op::matmul)) return false;
  const uint32_t turned = in(dp, 1);
  return swaps_last_two(node(turned)) && in(turned, 0) == m.value && takes_gradient(in(dp, 0)) && passed(dp);
}
// From the gradient of the softmax's operand to that of the first product, and what comes of it.
bool Matcher::score_gradient(uint32_t ds) {
  using Kind = ScoreStep::Kind;
  for (const ScoreStep& s : steps_) {
    uint32_t next = ds;
    if (s.kind == Kind::scale)
      next = reader(ds, [&](uint32_t n) { return is(n, node(s.node).call.op) && (n != s.node) && (is_number(n, 0) || is_number(n, 1)); });
    else if (s.kind == Kind::keep || s.kind == Kind::fill)
      next = reader(ds, [&](uint32_t n) { return is(n, Op::where) && in(n, 0) == s.mask && is_number(n, s.kind == Kind::keep ? 2 : 1) && in(n, s.kind == Kind::keep ? 1 : 2) == ds; });
    if (next == no_node) return false;
    if (s.kind == Kind::scale) {
      if (node(s.node).call.op == Op::div && in(next, 0) != ds) return false;
      same_number(next, s.node);
    } else if (next != ds && !zero(next)) return false;
    if (next != ds) passed(ds = next);
    if (dtype(ds) == dtype(s.from)) continue;
    ds = reader(ds, [&](uint32_t n) { return is(n, Op::copy) && dtype(n) == dtype(s.from); });
    if (ds == no_node) return false;
    passed(ds);
  }
  m.of_query = reader(ds, [&](uint32_t n) { return is(n, Op::matmul) && in(n, 0) == ds && swaps_last_two(node(in(n, 1))) && in(in(n, 1), 0) == m.turned; });
  m.of_turned = reader(ds, [&](uint32_t n) { return is(n, Op::matmul) && in(n, 1) == ds && swaps_last_two(node(in(n, 0))) && in(in(n, 0), 0) == m.query; });
  return m.of_query != no_node || m.of_turned != no_node;
}

// Nobody else sees what goes away, and what the rows read is not written meanwhile.
bool Matcher::alone() const {
  std::vector<uint32_t> known = inside_;
  const uint32_t made[] = {m.product, m.of_query, m.of_turned, m.of_value};
  uint32_t last = m.product;
  for (uint32_t n : made) {
    if (n == no_node) continue;
    if (!g_.replaceable(n)) return false;
    known.push_back(n);
    if (g_.position(n) > g_.position(last)) last = n;
  }
  std::sort(known.begin(), known.end());
  for (uint32_t n : inside_) {
    if (g_.shown(n) || g_.written(n) || !g_.needed[n]) return false;
    for (uint32_t r : g_.readers(n))
      if (!std::binary_search(known.begin(), known.end(), r)) return false;
  }
  for (uint32_t n : {m.query, m.turned, m.value, m.mask})
    if (n != no_node && !g_.unwritten(n, first_, last)) return false;
  return m.gradient == no_node || (dtype(m.gradient) == dtype(m.product) && g_.same_shape(m.gradient, m.product) && g_.unwritten(m.gradient, m.gradient, last));
}
}  // namespace

std::optional<AttentionMatch> match_attention(Graph& g, uint32_t product) {
  Matcher matcher(g);
 
  if (product >= g.rewrite.nodes || (g.node(product).call.mode & in_place) || g.written(product)) return {};
  if (!matcher.forward(product)) return {};
  if (!matcher.backward()) return {};
  if (!matcher.alone()) return {};
  if (!matcher.m.known.empty() && !g.assumes()) return {};
  return matcher.m;
}

}  // namespace frit::jit
