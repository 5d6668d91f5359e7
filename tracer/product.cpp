// The oracle of matrix products: element by element, in the order of the definition in product.h. Start at
// product_reference. Traits say how a storage type accumulates.
#include "tracer/product.h"
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

namespace frit {
namespace {

constexpr int64_t panel = 256, chunk = 1024;

template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

// One element's operands: a row of A and a column of B.
template <class T>
struct Operands {
  const T *a, *b;
  int64_t a_step, b_step, k;
  Accumulator<T> left(int64_t i) const { return Accumulator<T>(a[i * a_step]); }
  Accumulator<T> right(int64_t i) const { return Accumulator<T>(b[i * b_step]); }
};

template <class T>
Accumulator<T> fma_chain(const Operands<T>& x, int64_t begin, int64_t end, int64_t step) {
  Accumulator<T> sum = 0;
  for (int64_t i = begin; i < end; i += step) sum = std::fma(x.left(i), x.right(i), sum);
  return sum;
}

template <class T>
Accumulator<T> panels_in_order(const Operands<T>& x) {
  Accumulator<T> sum = 0;
  for (int64_t p = 0; p < x.k; p += panel) {
    const Accumulator<T> part = fma_chain(x, p, std::min(x.k, p + panel), 1);
    sum = p == 0 ? part : sum + part;
  }
  return sum;
}

template <class A>
A pairwise(const A* parts, int64_t count) {
  if (count == 1) return parts[0];
  int64_t half = 1;
  while (half * 2 < count) half *= 2;
  return pairwise(parts, half) + pairwise(parts + half, count - half);
}

template <class T>
Accumulator<T> lanes_and_chunks(const Operands<T>& x) {
  std::vector<Accumulator<T>> parts;
  for (int64_t c = 0; c < x.k; c += chunk) {
    Accumulator<T> l[8];
    for (int64_t lane = 0; lane < 8; lane++) l[lane] = fma_chain(x, c + lane, std::min(x.k, c + chunk), 8);
    parts.push_back(((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7])));
  }
  return parts.empty() ? Accumulator<T>(0) : pairwise(parts.data(), int64_t(parts.size()));
}

template <class T>
T integer_sum(const Operands<T>& x) {
  if constexpr (std::is_same_v<T, bool>) {
    for (int64_t i = 0; i < x.k; i++)
      if (x.left(i) && x.right(i)) return true;
    return false;
  } else {
    uint64_t sum = 0;  // the low bits of a wide unsigned sum are the wrapped sum
    for (int64_t i = 0; i < x.k; i++) sum += uint64_t(x.left(i)) * uint64_t(x.right(i));
    return T(sum);
  }
}

template <class T>
void reference(const Product& p, const T* a, const T* b, T* c) {
  const bool vector = p.m == 1 || p.n == 1;
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      const Operands<T> x{a + i * p.a_row, b + j * p.b_col, p.a_col, p.b_row, p.k};
      T& out = c[i * p.c_row + j * p.c_col];
      if constexpr (std::is_floating_point_v<Accumulator<T>>)
        out = T(vector ? lanes_and_chunks(x) : panels_in_order(x));
      else
        out = integer_sum(x);
    }
}

}  // namespace

void product_reference(const Product& p, const void* a, const void* b, void* c) {
  dispatch(p.dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < p.batch; i++)
      reference(p, static_cast<const T*>(a) + (p.a_offset ? p.a_offset[i] : 0),
                static_cast<const T*>(b) + (p.b_offset ? p.b_offset[i] : 0), static_cast<T*>(c) + (p.c_offset ? p.c_offset[i] : 0));
  });
}

}  // namespace frit
