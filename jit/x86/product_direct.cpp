// Small products of known shapes: for one of 32 x 32 x 32 the way through the cases and the driver took a tenth of its time. A thread
// keeps the kernel calls of the latest shapes for which nothing is packed, and makes them at once. Start at multiply_known.
#include <utility>
#include "jit/x86/product_parts.h"
#include "runtime/cpu.h"

namespace frit::jit::products {
namespace {

constexpr size_t known_shapes = 16;

struct Shape {
  int64_t m, n, k, a_row, a_col, b_row, b_col, c_row, c_col, kind;
  explicit Shape(const Product& p)
      : m(p.m), n(p.n), k(p.k), a_row(p.a_row), a_col(p.a_col), b_row(p.b_row), b_col(p.b_col), c_row(p.c_row), c_col(p.c_col),
        kind(int64_t(p.dtype) * 2 + int64_t(uses_avx512())) {}
  Shape() : m(0), n(0), k(0), a_row(0), a_col(0), b_row(0), b_col(0), c_row(0), c_col(0), kind(0) {}
  size_t slot() const { return uint64_t(m + 3 * n + 7 * k + 13 * b_row + 17 * a_row) * 0x9e3779b97f4a7c15u >> 60; }
  bool operator==(const Shape&) const = default;
};
static_assert(known_shapes == 16, "slot() has four bits");

struct Known {
  Shape shape;
  bool transposed = false;
  TileCalls calls;  // none: the driver is needed
};

thread_local Known* known = nullptr;  // the array lies on the heap: thread-local memory is scarce in libraries
thread_local bool ending = false;     // the thread's other objects may still need products
struct Owner {
  Owner() { known = new Known[known_shapes]; }
  ~Owner() {
    ending = true;
    delete[] std::exchange(known, nullptr);
  }
};

void make_calls(Known& k, const char* a, const char* b, char* c) {
  if (k.transposed) std::swap(a, b);
  for (int i = 0; i < k.calls.count; i++) {
    TileCalls::Call& call = k.calls.calls[i];
    call.args.a = a + call.a;
    call.args.b = b + call.b;
    call.args.c = c + call.c;
    call.kernel(&call.args);
  }
}

}  // namespace

bool multiply_known(const Product& p, const void* a, const void* b, void* c) {
  if (!known) return false;
  const Shape shape(p);
  Known& k = known[shape.slot()];
  if (k.calls.count == 0 || !(k.shape == shape)) return false;
  const int64_t size = int64_t(size_of(p.dtype));
  const auto at = [&](const int64_t* offset, int64_t i) { return offset ? offset[i] * size : 0; };
  for (int64_t i = 0; i < p.batch; i++)
    make_calls(k, static_cast<const char*>(a) + at(p.a_offset, i), static_cast<const char*>(b) + at(p.b_offset, i), static_cast<char*>(c) + at(p.c_offset, i));
  return true;
}

void remember(const Product& p, const View& v, bool transposed) {
  if (ending) return;
  static thread_local Owner owner;
  const Shape shape(p);
  Known& k = known[shape.slot()];
  if (k.shape == shape) return;  // it was tried
  TileCalls calls;
  if (!list_calls(v, calls)) calls.count = 0;
  k = {shape, transposed, calls};
}

}  // namespace frit::jit::products
