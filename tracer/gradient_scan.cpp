// Gradients of cumulative products without a division, so that zeros need no case of their own at any order of derivative.
// With E_i the product of what comes before i, the gradient of x_i is E_i * R_i, where R_i = g_i + x_{i+1} R_{i+1}. Such a
// recurrence takes log2(n) steps, each of which doubles how far an element sees. Start at recurrence.
#include "tracer/gradient_detail.h"

namespace frit::tracer {

namespace {
int64_t extent_of(const Var& x, int axis) { return sizes_of(x)[size_t(axis)]; }
Var part(const Var& x, int axis, int64_t start, int64_t end) { return slice(x, axis, start, end - start); }
Var reversed(const Var& x, int axis) { return flip(x, uint64_t(1) << axis); }

// R_i = b_i + a_i R_{i+1}; a has one element less than b.
Var recurrence(Var a, Var b, int axis) {
  const int64_t n = extent_of(b, axis);
  for (int64_t d = 1; d < n; d *= 2) {
    b = cat({part(b, axis, 0, n - d) + a * part(b, axis, d, n), part(b, axis, n - d, n)}, axis);
    if (2 * d < n) a = part(a, axis, 0, n - 2 * d) * part(a, axis, d, n - d);
  }
  return b;
}
// Per element the product of what comes before it.
Var product_before(const Var& x, int axis) {
  Sizes one = sizes_of(x);
  const int64_t n = one[size_t(axis)];
  one[size_t(axis)] = 1;
  const Var ones = full(one, 1, dtype_of(x));
  return n == 1 ? ones : cat({ones, part(cumprod(x, axis), axis, 0, n - 1)}, axis);
}
bool trivial(const Var& x, int axis) { return sizes_of(x).empty() || extent_of(x, axis) == 0; }
}  // namespace

Var cumprod_vjp(const Var& x, const Var& g, int axis) {
  if (trivial(x, axis)) return g;
  const int64_t n = extent_of(x, axis);
  return product_before(x, axis) * recurrence(part(x, axis, 1, n), g, axis);
}
Var cumprod_jvp(const Var& x, const Var& tangent, int axis) {
  if (trivial(x, axis)) return tangent;
  const int64_t n = extent_of(x, axis);
  const Var terms = reversed(tangent * product_before(x, axis), axis);
  return reversed(recurrence(part(reversed(x, axis), axis, 0, n - 1), terms, axis), axis);
}
Var product_of_others(const Var& x, uint64_t axes) {
  const Sizes e = sizes_of(x);
  const int rank = int(e.size());
  if (rank == 0) return full(e, 1, dtype_of(x));
  std::vector<int> order, back(e.size());
  Sizes moved, flat;
  int64_t reduced = 1;
  for (int turn = 0; turn < 2; ++turn)
    for (int i = 0; i < rank; ++i)
      if (int(axes >> i & 1) == turn) {
        back[size_t(i)] = int(order.size());
        order.push_back(i), moved.push_back(e[size_t(i)]);
        if (turn) reduced *= e[size_t(i)];
        else flat.push_back(e[size_t(i)]);
      }
  const int axis = int(flat.size());
  flat.push_back(reduced);
  if (reduced == 0) return full(e, 1, dtype_of(x));
  const Var line = reshape(permute(x, order), flat);
  const Var others = product_before(line, axis) * reversed(product_before(reversed(line, axis), axis), axis);
  return permute(reshape(others, moved), back);
}

}  // namespace frit::tracer
