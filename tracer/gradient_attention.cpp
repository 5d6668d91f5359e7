// Attention's gradients: one fused row where the walk itself is not recorded and no mask wants a gradient; else, and for jvp, the formula with the
// scores written out, whose ops have gradients of their own. Start at attention_vjp; Written is the formula.
#include <bit>
#include <limits>
#include "tracer/attention.h"
#include "tracer/gradient_detail.h"

namespace frit::tracer {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

int rank_of_var(const Var& a) { return int(sizes_of(a).size()); }
Var transposed(const Var& a) { return transpose(a, rank_of_var(a) - 2, rank_of_var(a) - 1); }
uint64_t last_axis(const Var& a) { return uint64_t(1) << (rank_of_var(a) - 1); }

// softmax(q k^T * scale, masked) and dropout's factors, in the type in which the row computes. Heads in groups become an axis of their own.
struct Written {
  RuleContext& c;
  const Dtype storage = c.input_dtype(0), type = compute_dtype(storage);
  const bool grouped = c.call().attr & grouped_attention, causal = c.call().attr & causal_attention;
  const double scale = std::bit_cast<double>(c.arg(0)), rate = std::bit_cast<double>(c.arg(1));
  Var q, k, v, p, factors;

  explicit Written(RuleContext& context) : c(context) {
    q = split(convert(c.input(0), type)), k = shared(convert(c.input(1), type)), v = shared(convert(c.input(2), type));
    Var s = matmul(q * scale, transposed(k));
    const Sizes extents = sizes_of(s);
    const int64_t rows = extents[extents.size() - 2], columns = extents.back();
    if (c.input_count() > 3) {
      const Var mask = split_mask();
      s = dtype_of(mask) == kBool ? where(mask, s, -infinity) : s + mask;
    }
    if (causal) s = where(ge(reshape(arange(0, 1, rows, kInt64), {rows, 1}), arange(0, 1, columns, kInt64)), s, -infinity);
    if (columns == 0) p = s;
    else {
      Var dead;  // rows that no key is allowed to
      {
        const ModeScope no_grad(false);
        dead = eq(reduce(ReduceOp::amax, detach(s), last_axis(s), true), -infinity);
      }
      s = where(dead, 0.0, s);
      Var top;
      {
        const ModeScope no_grad(false);
        top = reduce(ReduceOp::amax, detach(s), last_axis(s), true);
      }
      const Var e = exp(s - top);
      p = where(dead, 0.0, e / sum(e, last_axis(e), true));
    }
    if (c.call().attr & attention_dropout) {
      Sizes scores = c.output_sizes();
      scores.back() = columns;
      const Var u = random_uniform_of(scores, kFloat32, uint64_t(c.arg(2)), uint64_t(c.arg(3)));
      factors = split(where(ge(u, rate), full({}, rate < 1 ? 1 / (1 - rate) : 0.0, type), 0.0));
    }
  }
  // [.., heads, x, y] to [.., groups, share, x, y], and back.
  Sizes grouped_sizes() const {
    Sizes e = c.output_sizes();
    const int64_t groups = c.input_sizes(1)[e.size() - 3];
    e.insert(e.end() - 2, e[e.size() - 3] / groups);
    e[e.size() - 4] = groups;
    return e;
  }
  Var split(const Var& a) const {
    if (!grouped) return a;
    Sizes e = grouped_sizes();
    const Sizes own = sizes_of(a);
    e[e.size() - 2] = own[own.size() - 2], e.back() = own.back();
    return reshape(a, e);
  }
  Var joined(const Var& a) const {
    if (!grouped) return a;
    Sizes e = sizes_of(a);
    e[e.size() - 4] *= e[e.size() - 3];
    e.erase(e.end() - 3);
    return reshape(a, e);
  }
  // Key and value: one for all of a group's queries.
  Var shared(const Var& a) const {
    if (!grouped) return a;
    Sizes e = sizes_of(a);
    e.insert(e.end() - 2, 1);
    return reshape(a, e);
  }
  Var split_mask() const {
    const Var& mask = c.input(3);
    Sizes e = sizes_of(mask);
    if (!grouped || e.size() < 3) return mask;
    const bool one = e[e.size() - 3] == 1;
    e.insert(e.end() - 2, one ? 1 : grouped_sizes()[grouped_sizes().size() - 3]);
    if (!one) e[e.size() - 4] = c.input_sizes(1)[c.output_sizes().size() - 3];
    return reshape(mask, e);
  }
  Var dropped(const Var& a) const { return factors.defined() ? where(eq(factors, 0.0), 0.0, a * factors) : a; }
  Var to_input(int k, const Var& g) const { return convert(reshape(sum_to(g, k == 0 ? sizes_of(q) : k == 1 ? sizes_of(this->k) : sizes_of(v)), c.input_sizes(k)), storage); }
};

std::vector<Var> written_vjp(RuleContext& c, const Var& gradient) {
  const Written w(c);
  const Var g = w.split(convert(gradient, w.type));
  std::vector<Var> given(size_t(c.input_count()));
  if (c.wants(2)) given[2] = w.to_input(2, matmul(transposed(w.dropped(w.p)), g));
  const bool scores = c.wants(0) || c.wants(1) || (c.input_count() > 3 && c.wants(3));
  if (!scores) return given;
  const Var dp = w.dropped(matmul(g, transposed(w.v)));
  const Var ds = w.p * (dp - sum(w.p * dp, last_axis(dp), true));
  if (c.wants(0)) given[0] = w.to_input(0, matmul(ds, w.k) * w.scale);
  if (c.wants(1)) given[1] = w.to_input(1, matmul(transposed(ds), w.q) * w.scale);
  if (c.input_count() > 3 && c.wants(3)) given[3] = convert(sum_to(w.joined(ds), c.input_sizes(3)), c.input_dtype(3));
  return given;
}
}  // namespace

std::vector<Var> attention_vjp(RuleContext& c, const Var& g) {
  if ((recorder().mode & grad_mode) || (c.input_count() > 3 && c.wants(3))) return written_vjp(c, g);
  std::vector<Var> in{c.input(0), c.input(1), c.input(2), c.output(), g};
  if (c.input_count() > 3) in.push_back(c.input(3));
  std::vector<Var> given = attention_gradient(in, {c.call().attr, std::bit_cast<double>(c.arg(0)), std::bit_cast<double>(c.arg(1)), uint64_t(c.arg(2)), uint64_t(c.arg(3))});
  if (c.input_count() > 3) given.emplace_back();
  return given;
}

Var attention_jvp(RuleContext& c, const std::vector<Var>& tangents) {
  const Written w(c);
  Var ts;  // of the scores
  const auto gather = [](Var& total, const Var& term) { total = total.defined() ? total + term : term; };
  if (tangents[0].defined()) gather(ts, matmul(w.split(convert(tangents[0], w.type)) * w.scale, transposed(w.k)));
  if (tangents[1].defined()) gather(ts, matmul(w.q * w.scale, transposed(w.shared(convert(tangents[1], w.type)))));
  if (tangents.size() > 3 && tangents[3].defined()) {
    Sizes scores = c.output_sizes();
    scores.back() = c.input_sizes(1)[scores.size() - 2];
    gather(ts, w.split(expand(convert(tangents[3], w.type), scores)));
  }
  Var out;
  if (ts.defined()) gather(out, matmul(w.dropped(w.p * (ts - sum(w.p * ts, last_axis(ts), true))), w.v));
  if (tangents[2].defined()) gather(out, matmul(w.dropped(w.p), w.shared(convert(tangents[2], w.type))));
  return convert(w.joined(out), w.storage);
}

}  // namespace frit::tracer
