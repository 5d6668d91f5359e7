// The rows' gradients: pointwise rows from their derivative column, structural rows each by a vjp and a jvp here.
#include <algorithm>
#include "runtime/error.h"
#include "tracer/gradient_detail.h"

namespace frit::tracer {

namespace {
std::vector<int> inverse(uint64_t permutation, int rank) {
  std::vector<int> p(rank);
  for (int i = 0; i < rank; ++i) p[permutation >> (4 * i) & 15] = i;
  return p;
}
std::vector<int> axes_of(uint64_t permutation, int rank) {
  std::vector<int> p(rank);
  for (int i = 0; i < rank; ++i) p[i] = int(permutation >> (4 * i) & 15);
  return p;
}
// A reduction's result (or its gradient) with the reduced axes back, to broadcast against the input.
Var keep_axes(RuleContext& c, const Var& a) {
  Sizes e = c.input_sizes(0);
  for (size_t i = 0; i < e.size(); ++i)
    if (c.call().attr >> i & 1) e[i] = 1;
  return reshape(a, e);
}
Var sum_again(RuleContext& c, const Var& a) { return sum(a, c.call().attr, c.call().kind); }
// The share of each element in an extreme: ties divide it evenly, as in LibTorch.
Var extreme_weights(RuleContext& c) {
  const Var ties = convert(eq(c.input(0), keep_axes(c, c.output())), c.input_dtype(0));
  return ties / sum(ties, c.call().attr, true);
}
// d prod / d x_i = the product of the others, right with zeros too: x_i's factor left out where it alone is zero. That
// shortcut has no second derivative at zeros, so with a graph to build it is the product itself.
Var prod_slope(RuleContext& c) {
  if (recorder().mode & grad_mode) return product_of_others(c.input(0), c.call().attr);
  const Var &x = c.input(0), zero = eq(x, 0.0);
  const Var zeros = sum(convert(zero, kInt64), c.call().attr, true);
  const Var others = reduce(ReduceOp::prod, where(zero, 1.0, x), c.call().attr, true);
  const Var none = keep_axes(c, c.output()) / where(zero, 1.0, x);
  return where(eq(zeros, 0), none, where(eq(zeros, 1) & zero, others, 0.0));
}
Var matrix_transpose(const Var& a) {
  const int r = int(sizes_of(a).size());
  return transpose(a, r - 2, r - 1);
}
Var suffix_sum(const Var& g, int axis) { return flip(cumsum(flip(g, uint64_t(1) << axis), axis), uint64_t(1) << axis); }

Var pointwise_term(RuleContext& c, int k, const Var& t) {
  const OpRow& r = row(c.op());
  Operand operands[3] = {0, 0, 0};
  for (int j = 0; j < r.inputs; ++j) {
    if (c.is_number(j)) operands[j] = Operand(c.number(j));
    else if (r.reads[k] & (In0 << j)) operands[j] = Operand(c.input(j));
  }
  const Var none;
  const Operand tangent(t), out(r.reads[k] & Out ? c.output() : none);
  return r.derivative[k](Operands{tangent, operands[0], operands[1], operands[2], out});
}
// A term has the result's type and shape; the input's are restored at the edge, once.
Var to_input(RuleContext& c, int k, const Var& g) { return convert(sum_to(g, c.input_sizes(k)), c.input_dtype(k)); }

std::vector<Var> pointwise_vjp(RuleContext& c, const Var& g) {
  const OpRow& r = row(c.op());
  std::vector<Var> given(r.inputs);
  for (int k = 0; k < r.inputs; ++k)
    if (c.wants(k) && r.derivative[k]) given[k] = to_input(c, k, pointwise_term(c, k, g));
  return given;
}
Var pointwise_jvp(RuleContext& c, const std::vector<Var>& tangents) {
  const OpRow& r = row(c.op());
  Var total;
  for (int k = 0; k < r.inputs; ++k) {
    if (!tangents[k].defined() || !r.derivative[k]) continue;
    const Var t = expand(convert(tangents[k], c.output_dtype()), c.output_sizes());
    const Var term = pointwise_term(c, k, t);
    total = total.defined() ? add(total, term) : term;
  }
  return total.defined() ? convert(total, c.output_dtype()) : full(c.output_sizes(), 0, c.output_dtype());
}
StridedView strided_of(RuleContext& c) {
  Sizes args;
  const size_t count = 2 + 2 * size_t(c.call().attr) + c.input_sizes(0).size();
  for (size_t k = 0; k < count; ++k) args.push_back(c.arg(int(k)));
  return strided_view(c.input_sizes(0), args.data(), int(c.call().attr));
}
// A scatter's source takes the gradients of its elements that the index names; the rest of it is not used.
Var source_gradient(RuleContext& c, const Var& g) {
  Var given = gather(g, int(c.call().attr), c.input(1));
  const Sizes index = c.input_sizes(1), source = c.input_sizes(2);
  for (size_t i = 0; i < source.size(); ++i)
    if (index[i] != source[i]) given = unslice(given, int(i), 0, 1, source[i]);
  return given;
}
// ---- convolutions: each of the three is linear in both operands, and its gradients are the two others
std::vector<WindowAxis> windows_of(RuleContext& c) {
  std::vector<WindowAxis> axes;
  for (size_t i = 0; i + 2 < c.output_sizes().size(); ++i) {
    const int k = 1 + 4 * int(i);
    axes.push_back({c.arg(k), c.arg(k + 1), c.arg(k + 2), c.arg(k + 3)});
  }
  return axes;
}
Sizes spatial(const Sizes& e) { return {e.begin() + 2, e.end()}; }
Var convolution_vjp(RuleContext& c, int k, const Var& g) {
  const std::vector<WindowAxis> axes = windows_of(c);
  const int64_t groups = c.arg(0);
  const Var& other = c.input(1 - k);
  const Sizes extents = spatial(c.input_sizes(k));
  switch (c.op()) {
    case Op::convolution: return k == 0 ? convolution_input(g, other, axes, groups, extents) : convolution_weight(g, other, axes, groups, extents);
    case Op::convolution_input: return k == 0 ? convolution(g, other, axes, groups) : convolution_weight(other, g, axes, groups, extents);
    default: return k == 0 ? convolution(other, g, axes, groups) : convolution_input(other, g, axes, groups, extents);
  }
}
Var convolution_again(RuleContext& c, const Var& first, const Var& second) {
  const std::vector<WindowAxis> axes = windows_of(c);
  const int64_t groups = c.arg(0);
  if (c.op() == Op::convolution) return convolution(first, second, axes, groups);
  const Sizes extents = spatial(c.output_sizes());
  return c.op() == Op::convolution_input ? convolution_input(first, second, axes, groups, extents) : convolution_weight(first, second, axes, groups, extents);
}
// ---- pooled maxima: the gradient goes to where each element stood
Sizes flat(const Sizes& e) {
  Sizes f{e[0], e[1], 1};
  for (size_t i = 2; i < e.size(); ++i) f[2] *= e[i];
  return f;
}
Var places_of_maxima(RuleContext& c) {
  std::vector<PoolAxis> axes;
  for (size_t i = 0; i + 2 < c.output_sizes().size(); ++i) {
    const int k = 5 * int(i);
    axes.push_back({c.arg(k), c.arg(k + 1), c.arg(k + 2), c.arg(k + 3), c.arg(k + 4)});
  }
  return reshape(pool_argmax(c.input(0), axes), flat(c.output_sizes()));
}
Var pool_vjp(RuleContext& c, const Var& g) {
  const Sizes in = c.input_sizes(0);
  return reshape(scatter_add(expand(full({1, 1, 1}, 0, c.input_dtype(0)), flat(in)), 2, places_of_maxima(c), reshape(g, flat(c.output_sizes()))), in);
}
Var pool_jvp(RuleContext& c, const Var& t) { return reshape(gather(reshape(t, flat(c.input_sizes(0))), 2, places_of_maxima(c)), c.output_sizes()); }
[[noreturn]] void no_gradient(RuleContext& c) {
  throw AutogradError(std::string(op_name(c.op())) + ": no gradient is defined for this op. detach() its input.");
}
ViewRecipe recipe_of(RuleContext& c) {
  ViewRecipe r;
  r.call.op = Op(c.arg(0) & 0xffff), r.call.kind = uint8_t(c.arg(0) >> 16), r.call.attr = uint64_t(c.arg(1));
  for (int64_t k = 0; k < c.arg(2); ++k) r.args.push_back(uint64_t(c.arg(int(3 + k))));
  return r;
}
// The base keeps what was not written; the view's new content takes the gradient of its region.
std::vector<Var> write_view_vjp(RuleContext& c, const Var& g) {
  const ViewRecipe recipe = recipe_of(c);
  std::vector<Var> given(2);
  if (recipe.call.op == Op::as_strided) {
    const StridedView s = strided_view(c.input_sizes(0), reinterpret_cast<const int64_t*>(recipe.args.data()), int(recipe.call.attr));
    if (c.wants(0)) given[0] = put_strided(s, g, full(s.extents, 0, dtype_of(g)));
    if (c.wants(1)) given[1] = take_strided(s, g);
    return given;
  }
  if (c.wants(0)) {
    given[0] = copy(g);
    Var region = take_view(given[0], recipe);
    copy_(region, full(sizes_of(region), 0, dtype_of(region)));
  }
  if (c.wants(1)) given[1] = take_view(g, recipe);
  return given;
}
Var write_view_jvp(RuleContext& c, const std::vector<Var>& tangents) {
  const ViewRecipe recipe = recipe_of(c);
  if (recipe.call.op == Op::as_strided)
    return put_strided(strided_view(c.input_sizes(0), reinterpret_cast<const int64_t*>(recipe.args.data()), int(recipe.call.attr)),
                       tangents[0].defined() ? tangents[0] : full(c.input_sizes(0), 0, c.input_dtype(0)),
                       tangents[1].defined() ? tangents[1] : full(c.input_sizes(1), 0, c.input_dtype(1)));
  Var base = tangents[0].defined() ? copy(tangents[0]) : full(c.input_sizes(0), 0, c.input_dtype(0));
  Var region = take_view(base, recipe);
  copy_(region, tangents[1].defined() ? tangents[1] : full(c.input_sizes(1), 0, c.input_dtype(1)));
  return base;
}
}  // namespace

std::vector<Var> vjp_rule(RuleContext& c, const Var& g) {
  const Call& call = c.call();
  if (row(c.op()).kind == RowKind::pointwise) return pointwise_vjp(c, g);
  switch (c.op()) {
    case Op::permute: return {permute(g, inverse(call.attr, int(c.output_sizes().size())))};
    case Op::expand: return {sum_to(g, c.input_sizes(0))};
    case Op::reshape: return {reshape(g, c.input_sizes(0))};
    case Op::slice: return {unslice(g, int(call.attr), c.arg(0), c.arg(2), c.input_sizes(0)[call.attr])};
    case Op::select: {
      Sizes e = c.output_sizes();
      e.insert(e.begin() + int(call.attr), 1);
      return {unslice(reshape(g, e), int(call.attr), c.arg(0), 1, c.input_sizes(0)[call.attr])};
    }
    case Op::diagonal: {
      const int x = int(call.attr & 15), y = int(call.attr >> 4 & 15);
      const Sizes e = c.input_sizes(0);
      return {undiagonal(g, c.arg(0), x, y, e[x], e[y])};
    }
    case Op::as_strided: return {strided_gradient(strided_of(c), g)};
    case Op::copy: return {convert(g, c.input_dtype(0))};
    case Op::sum: return {expand(keep_axes(c, convert(g, c.input_dtype(0))), c.input_sizes(0))};
    case Op::prod: return {keep_axes(c, g) * prod_slope(c)};
    case Op::amax:
    case Op::amin: return {keep_axes(c, g) * extreme_weights(c)};
    case Op::matmul: {
      std::vector<Var> given(2);
      if (c.wants(0)) given[0] = sum_to(matmul(g, matrix_transpose(c.input(1))), c.input_sizes(0));
      if (c.wants(1)) given[1] = sum_to(matmul(matrix_transpose(c.input(0)), g), c.input_sizes(1));
      return given;
    }
    case Op::convolution:
    case Op::convolution_input:
    case Op::convolution_weight: {
      std::vector<Var> given(2);
      for (int k = 0; k < 2; ++k)
        if (c.wants(k)) given[k] = convolution_vjp(c, k, g);
      return given;
    }
    case Op::pool_max: return {pool_vjp(c, g)};
    case Op::attention: return attention_vjp(c, g);
    case Op::cat: {
      std::vector<Var> given(c.input_count());
      int64_t at = 0;
      for (int k = 0; k < c.input_count(); ++k) {
        const int64_t n = c.input_sizes(k)[call.attr];
        if (c.wants(k)) given[k] = convert(slice(g, int(call.attr), at, n), c.input_dtype(k));
        at += n;
      }
      return given;
    }
    case Op::gather: return {scatter_add(full(c.input_sizes(0), 0, c.input_dtype(0)), int(call.attr), c.input(1), g), Var()};
    case Op::scatter_add: {
      std::vector<Var> given(3);
      given[0] = g;
      if (c.wants(2)) given[2] = source_gradient(c, g);
      return given;
    }
    case Op::scatter: {
      std::vector<Var> given(3);
      const Var zeros = full(c.input_sizes(1), 0, c.input_dtype(0));
      if (c.wants(0)) given[0] = scatter(g, int(call.attr), c.input(1), zeros);
      if (c.wants(2)) given[2] = source_gradient(c, g);
      return given;
    }
    case Op::unslice: {
      const int axis = int(call.attr);
      return {slice(g, axis, c.arg(0), c.input_sizes(0)[axis], c.arg(1))};
    }
    case Op::undiagonal: return {diagonal(g, c.arg(0), int(call.attr & 15), int(call.attr >> 4 & 15))};
    case Op::flip: return {flip(g, call.attr)};
    case Op::cumsum: return {suffix_sum(convert(g, c.input_dtype(0)), int(call.attr))};
    case Op::cumprod: return {cumprod_vjp(c.input(0), g, int(call.attr))};
    case Op::write_view: return write_view_vjp(c, g);
    case Op::sort: no_gradient(c);
    default: no_gradient(c);
  }
}

Var jvp_rule(RuleContext& c, const std::vector<Var>& tangents) {
  const Call& call = c.call();
  if (row(c.op()).kind == RowKind::pointwise) return pointwise_jvp(c, tangents);
  const Var& t = tangents[0];
  switch (c.op()) {
    case Op::permute: return permute(t, axes_of(call.attr, int(c.output_sizes().size())));
    case Op::expand: return expand(t, c.output_sizes());
    case Op::reshape: return reshape(t, c.output_sizes());
    case Op::slice: return slice(t, int(call.attr), c.arg(0), c.arg(1), c.arg(2));
    case Op::select: return select(t, int(call.attr), c.arg(0));
    case Op::diagonal: return diagonal(t, c.arg(0), int(call.attr & 15), int(call.attr >> 4 & 15));
    case Op::as_strided: return take_strided(strided_of(c), t);
    case Op::copy: return convert(t, c.output_dtype());
    case Op::sum: return sum_again(c, t);
    case Op::prod: return sum_again(c, t * prod_slope(c));
    case Op::amax:
    case Op::amin: return sum_again(c, t * extreme_weights(c));
    case Op::matmul: {
      Var total;
      if (t.defined()) total = matmul(t, c.input(1));
      if (tangents[1].defined()) {
        const Var right = matmul(c.input(0), tangents[1]);
        total = total.defined() ? add(total, right) : right;
      }
      return total;
    }
    case Op::convolution:
    case Op::convolution_input:
    case Op::convolution_weight: {
      Var total;
      for (int k = 0; k < 2; ++k) {
        if (!tangents[k].defined()) continue;
        const Var term = k == 0 ? convolution_again(c, tangents[0], c.input(1)) : convolution_again(c, c.input(0), tangents[1]);
        total = total.defined() ? add(total, term) : term;
      }
      return total;
    }
    case Op::pool_max: return pool_jvp(c, t);
    case Op::attention: return attention_jvp(c, tangents);
    case Op::cat: {
      std::vector<Var> parts;
      for (int k = 0; k < c.input_count(); ++k) parts.push_back(tangents[k].defined() ? tangents[k] : full(c.input_sizes(k), 0, c.input_dtype(k)));
      return cat(parts, int(call.attr));
    }
    case Op::gather: return gather(t, int(call.attr), c.input(1));
    case Op::scatter_add:
    case Op::scatter: {
      const Var base = t.defined() ? t : full(c.input_sizes(0), 0, c.input_dtype(0));
      const Var source = tangents[2].defined() ? tangents[2] : full(c.input_sizes(2), 0, c.input_dtype(0));
      return c.op() == Op::scatter ? scatter(base, int(call.attr), c.input(1), source) : scatter_add(base, int(call.attr), c.input(1), source);
    }
    case Op::unslice: return unslice(t, int(call.attr), c.arg(0), c.arg(1), c.arg(2));
    case Op::undiagonal: return undiagonal(t, c.arg(0), int(call.attr & 15), int(call.attr >> 4 & 15), c.arg(1), c.arg(2));
    case Op::flip: return flip(t, call.attr);
    case Op::cumsum: return cumsum(t, int(call.attr));
    case Op::cumprod: return cumprod_jvp(c.input(0), t, int(call.attr));
    case Op::write_view: return write_view_jvp(c, tangents);
    default: no_gradient(c);
  }
}

}  // namespace frit::tracer
