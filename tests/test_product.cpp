// product_x86 against product_reference, bit for bit (all NaNs are one value): shapes around every tile and panel edge, layouts,
// batches, types, special values, threads, both instruction sets. Operands end or begin at an unmapped page, so that a read past them crashes; C is
// compared with everything between its elements.
#include <catch2/catch.hpp>
#include <sys/mman.h>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>
#include "jit/x86/product.h"
#include "runtime/cpu.h"
#include "runtime/launch.h"
#include "tracer/product.h"

using namespace frit;

namespace {

using Random = std::mt19937_64;
int64_t between(Random& r, int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(r); }
bool chance(Random& r, double p) { return std::uniform_real_distribution<>(0, 1)(r) < p; }

// Memory between two unmapped pages; the data touch one of them.
class Guarded {
 public:
  Guarded(size_t bytes, bool at_end) : bytes_(bytes) {
    const size_t page = 4096, inner = (bytes + page - 1) / page * page;
    mapped_ = inner + 2 * page;
    base_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    if (inner) mprotect(base_ + page, inner, PROT_READ | PROT_WRITE);
    data_ = base_ + page + (at_end ? inner - bytes : 0);
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  char *base_, *data_;
  size_t bytes_, mapped_;
};

enum class Layout { RowMajor, ColumnMajor, PaddedRows, PaddedColumns, NegativeRows, NegativeColumns, Stepped, SameRow, SameColumn, OneValue };
constexpr int distinct_layouts = 7, all_layouts = 10;
const char* const layout_names[] = {"rows",           "columns", "padded rows", "padded columns", "negative rows",
                                    "negative columns", "stepped", "same row",    "same column",    "one value"};

struct Strides {
  int64_t row, col;
};
Strides strides_of(Layout l, int64_t rows, int64_t cols) {
  const int64_t r = std::max<int64_t>(rows, 1), c = std::max<int64_t>(cols, 1);
  switch (l) {
    case Layout::RowMajor: return {c, 1};
    case Layout::ColumnMajor: return {1, r};
    case Layout::PaddedRows: return {c + 5, 1};
    case Layout::PaddedColumns: return {1, r + 3};
    case Layout::NegativeRows: return {-c, 1};
    case Layout::NegativeColumns: return {c, -1};
    case Layout::Stepped: return {2 * c * 3, 2};
    case Layout::SameRow: return {0, 1};
    case Layout::SameColumn: return {1, 0};
    default: return {0, 0};
  }
}

// An operand's place: the lowest and highest element that its matrices touch, batch by batch.
struct Place {
  Strides s;
  std::vector<int64_t> offsets;
  int64_t low = 0, count = 0;  // elements in memory; element i of the product lies at i - low
  Place(Layout l, int64_t rows, int64_t cols, int64_t batch, bool shared) : s(strides_of(l, rows, cols)) {
    int64_t high = 0;
    const int64_t r = std::max<int64_t>(rows - 1, 0), c = std::max<int64_t>(cols - 1, 0);
    for (int64_t x : {r * s.row, c * s.col, r * s.row + c * s.col}) low = std::min(low, x), high = std::max(high, x);
    const int64_t span = high - low + 1;
    for (int64_t i = 0; i < batch; i++) offsets.push_back(shared ? 0 : i * span);
    count = rows && cols ? (shared ? span : span * batch) : 0;
  }
};

template <class T>
void fill(T* p, size_t count, Random& r, double special) {
  for (size_t i = 0; i < count; i++) {
    if constexpr (std::is_same_v<T, bool>) {
      p[i] = chance(r, 0.1);
    } else if constexpr (std::is_integral_v<T>) {
      p[i] = T(r());
    } else {
      const double specials[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-40, -1e-42, 6e4, -3e38, std::ldexp(1, -24), -std::ldexp(1, -130)};
      const double value = chance(r, special) ? specials[r() % 11] : std::uniform_real_distribution<>(-1, 1)(r);
      if constexpr (std::is_same_v<T, double>)
        p[i] = value;
      else
        p[i] = T(float(value));
    }
  }
}

template <class T>
bool same(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    return x == y;
  } else if constexpr (sizeof(T) == 2) {
    return x.bits == y.bits || (std::isnan(float(x)) && std::isnan(float(y)));
  } else {
    return std::memcmp(&x, &y, sizeof(T)) == 0 || (std::isnan(x) && std::isnan(y));
  }
}

struct Case {
  Dtype dtype = Dtype::Float32;
  int64_t m = 1, n = 1, k = 1, batch = 1;
  Layout a = Layout::RowMajor, b = Layout::RowMajor, c = Layout::RowMajor;
  bool share_a = false, share_b = false, at_end = true;
  double special = 0;
  std::string text() const {
    return std::string(dtype_name(dtype)) + " m " + std::to_string(m) + " n " + std::to_string(n) + " k " + std::to_string(k) + " batch " +
           std::to_string(batch) + ", A " + layout_names[int(a)] + (share_a ? " shared" : "") + ", B " + layout_names[int(b)] +
           (share_b ? " shared" : "") + ", C " + layout_names[int(c)] + (at_end ? ", at the end" : ", at the beginning") +
           (special > 0 ? ", special values" : "");
  }
};

// Returns "" or what differs.
std::string compare(const Case& t, uint64_t seed, bool packs = true) {
  Random random(seed);
  const Place pa(t.a, t.m, t.k, t.batch, t.share_a), pb(t.b, t.k, t.n, t.batch, t.share_b), pc(t.c, t.m, t.n, t.batch, false);
  return dispatch(t.dtype, [&]<class T>(T) -> std::string {
    const Guarded a(size_t(pa.count) * sizeof(T), t.at_end), b(size_t(pb.count) * sizeof(T), t.at_end), c(size_t(pc.count) * sizeof(T), t.at_end);
    fill(reinterpret_cast<T*>(a.data()), size_t(pa.count), random, t.special);
    fill(reinterpret_cast<T*>(b.data()), size_t(pb.count), random, t.special);
    fill(reinterpret_cast<T*>(c.data()), size_t(pc.count), random, 0);
    const std::vector<char> before(c.data(), c.data() + c.bytes());
    std::vector<char> expected = before;
    const Product p{t.dtype, t.m, t.n, t.k, pa.s.row, pa.s.col, pb.s.row, pb.s.col, pc.s.row, pc.s.col, t.batch,
                    t.share_a && seed % 2 ? nullptr : pa.offsets.data(), t.share_b && seed % 2 ? nullptr : pb.offsets.data(),
                    t.batch == 1 && seed % 2 ? nullptr : pc.offsets.data()};
    const auto origin = [](const char* data, const Place& place) { return data - place.low * int64_t(sizeof(T)); };
    product_reference(p, origin(a.data(), pa), origin(b.data(), pb), expected.data() - pc.low * int64_t(sizeof(T)));
    const T *got = reinterpret_cast<const T*>(c.data()), *want = reinterpret_cast<const T*>(expected.data());
    static const bool wide = uses_avx512();
    for (const int run : {0, 1, 2, 3, 4, 5}) {  // twice each, since a product of a known shape takes a shorter way; then with B packed before
      const bool with_avx512 = run >= 2 && run != 4;
      use_avx512(with_avx512);
      const size_t packed = run >= 4 && packs ? jit::packed_right_bytes(p) : 0;
      if ((with_avx512 && !uses_avx512()) || (run >= 4 && !packed)) continue;
      std::copy(before.begin(), before.end(), c.data());
      const Guarded kept(packed, true);
      if (packed) jit::pack_right(p, origin(b.data(), pb), kept.data());
      jit::product_x86(p, origin(a.data(), pa), packed ? nullptr : origin(b.data(), pb), const_cast<char*>(origin(c.data(), pc)), nullptr, nullptr, packed ? kept.data() : nullptr);
      use_avx512(wide);
      for (int64_t i = 0; i < pc.count; i++)
        if (!same(got[i], want[i]))
          return t.text() + ", seed " + std::to_string(seed) + (with_avx512 ? ", AVX-512" : ", AVX2") + (packed ? ", packed before" : "") + ": element " + std::to_string(i) + " of C's memory differs";
    }
    return "";
  });
}

void check(const Case& t, uint64_t seed) {
  INFO(t.text() << ", seed " << seed);
  const std::string difference = compare(t, seed);
  REQUIRE(difference == "");
}

struct Threads {  // for one scope
  int before = num_threads();
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
};

constexpr Dtype floats[] = {Dtype::Float32, Dtype::Float64, Dtype::Float16, Dtype::BFloat16};

Case random_case(Random& r, Dtype dtype, int64_t largest) {
  const int64_t edges[] = {255, 256, 257, 513, 1025};
  const auto extent = [&] { return chance(r, 0.05) ? edges[between(r, 0, 4)] : between(r, 1, largest); };
  Case t;
  t.dtype = dtype;
  t.m = extent(), t.n = extent(), t.k = extent();
  if (t.m * t.n * t.k > 4000000) t.m = between(r, 1, 20);
  t.a = Layout(between(r, 0, all_layouts - 1));
  t.b = Layout(between(r, 0, all_layouts - 1));
  t.c = Layout(between(r, 0, distinct_layouts - 1));
  if (chance(r, 0.5)) t.a = Layout(between(r, 0, 3)), t.b = Layout(between(r, 0, 3)), t.c = Layout::RowMajor;
  t.at_end = chance(r, 0.7);
  t.special = chance(r, 0.2) ? 0.02 : 0;
  return t;
}

}  // namespace

TEST_CASE("the oracle agrees with products worked out by hand", "[product]") {
  SECTION("small exact values") {
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9, 10, 11, 12};
    float c[4] = {};
    const Product p{Dtype::Float32, 2, 2, 3, 3, 1, 2, 1, 2, 1};
    product_reference(p, a, b, c);
    CHECK((c[0] == 58 && c[1] == 64 && c[2] == 139 && c[3] == 154));
  }
  SECTION("panels of 256 are summed apart") {  // one chain over all of k would lose every 1 to the 2^24
    std::vector<float> a(2 * 512, 1.0f), b(512 * 2, 1.0f), c(4);
    a[0] = 16777216.0f;
    const Product p{Dtype::Float32, 2, 2, 512, 512, 1, 2, 1, 2, 1};
    product_reference(p, a.data(), b.data(), c.data());
    CHECK(c[0] == 16777216.0f + 256.0f);
    CHECK(c[2] == 512.0f);
  }
  SECTION("a vector product has eight lanes and chunks of 1024") {
    std::vector<float> a(2048, 1.0f), b(2048, 1.0f);
    float c = 0;
    a[0] = 16777216.0f;  // lane 0 of chunk 0 loses its own 127 ones, lane 4's 128 are added to it
    const Product p{Dtype::Float32, 1, 1, 2048, 2048, 1, 1, 1, 1, 1};
    product_reference(p, a.data(), b.data(), &c);
    CHECK(c == 16777216.0f + 128.0f * 7 + 1024.0f);
  }
  SECTION("integers wrap") {
    const int8_t a[] = {100, 100}, b[] = {2, 3};
    int8_t c = 0;
    product_reference({Dtype::Int8, 1, 1, 2, 2, 1, 1, 1, 1, 1}, a, b, &c);
    CHECK(c == int8_t(500));
  }
}

TEST_CASE("products of every small shape", "[product]") {
  const Threads one(1);
  for (int64_t m = 1; m <= 14; m++)
    for (int64_t n = 1; n <= 34; n += n < 12 ? 1 : 3)
      for (int64_t k : {1, 2, 3, 4, 5, 9, 17}) {
        check({.dtype = floats[(m + n + k) % 4], .m = m, .n = n, .k = k}, uint64_t(m * 1000 + n * 10 + k));
        check({.dtype = Dtype::Float32, .m = m, .n = n, .k = k, .a = Layout::ColumnMajor, .b = Layout::ColumnMajor}, uint64_t(m * 1000 + n * 10 + k));
      }
}

TEST_CASE("random products in every layout", "[product]") {
  const Threads one(1);
  const uint64_t first = std::random_device{}();
  for (Dtype dtype : floats)
    for (uint64_t i = 0; i < 220; i++) {
      Random r(first + i);
      check(random_case(r, dtype, 70), first + i);
    }
}

TEST_CASE("random products of integers and bool", "[product]") {
  const uint64_t first = std::random_device{}();
  for (Dtype dtype : {Dtype::Bool, Dtype::UInt8, Dtype::Int8, Dtype::Int16, Dtype::Int32, Dtype::Int64})
    for (uint64_t i = 0; i < 25; i++) {
      Random r(first + i);
      check(random_case(r, dtype, 40), first + i);
    }
}

TEST_CASE("every schedule of the matrix driver", "[product]") {
  const Threads one(1);
  const Layout rows = Layout::RowMajor, columns = Layout::ColumnMajor, padded = Layout::PaddedRows;
  const int64_t shapes[][3] = {{2, 100, 300},  {3, 65, 513},   {8, 97, 600},   {12, 130, 257}, {32, 64, 100},  {40, 1030, 1030},
                               {97, 300, 257}, {145, 50, 513}, {600, 25, 100}, {515, 72, 64},  {103, 257, 300}, {50, 24, 1025}, {60, 200, 257}, {49, 65, 270}, {14, 40, 300},
                               {4, 100, 513},  {29, 33, 520}, {150, 150, 270}, {130, 113, 100}, {200, 160, 300}, {300, 450, 300}, {130, 770, 300}};
  uint64_t seed = 1;
  for (const auto& s : shapes)
    for (Dtype dtype : floats) {
      const bool heavy = s[0] * s[1] * s[2] > 20000000;
      if (heavy && dtype != Dtype::Float32) continue;
      check({.dtype = dtype, .m = s[0], .n = s[1], .k = s[2], .a = rows, .b = padded, .c = seed % 3 ? rows : columns}, seed);
      if (!heavy) check({.dtype = dtype, .m = s[0], .n = s[1], .k = s[2], .a = columns, .b = columns, .c = seed % 2 ? padded : Layout::Stepped}, seed);
      seed++;
    }
  for (const int64_t m : {2, 7, 16, 30, 47, 64})  // few rows times a matrix whose columns are contiguous
    for (Dtype dtype : floats) check({.dtype = dtype, .m = m, .n = 211, .k = 300, .b = m % 2 ? columns : Layout::PaddedColumns, .c = m % 3 ? rows : padded}, seed++);
  check({.dtype = Dtype::BFloat16, .m = 150, .n = 9, .k = 70000}, 8);  // packed B is too large to be kept
}

// Above 1 GFLOP a block of C is finished before the next. The oracle computes every 37th row.
TEST_CASE("a large product", "[product]") {
  const int64_t m = 770, n = 400, k = 1700, first = 29, step = 37, some = 21;
  std::vector<float> a(size_t(m * k)), b(size_t(k * n)), c(size_t(m * n)), want(size_t(some * n));
  Random random(5);
  fill(a.data(), a.size(), random, 0), fill(b.data(), b.size(), random, 0);
  product_reference({Dtype::Float32, some, n, k, step * k, 1, n, 1, n, 1}, a.data() + first * k, b.data(), want.data());
  for (int threads : {1, 2}) {
    const Threads these(threads);
    jit::product_x86({Dtype::Float32, m, n, k, k, 1, n, 1, n, 1}, a.data(), b.data(), c.data());
    int wrong = 0;
    for (int64_t i = 0; i < some; i++) wrong += std::memcmp(&c[size_t((first + i * step) * n)], &want[size_t(i * n)], size_t(n) * 4) != 0;
    CHECK(wrong == 0);
  }
}

TEST_CASE("products with a vector", "[product]") {
  const Threads one(1);
  uint64_t seed = 1;
  for (Dtype dtype : floats)
    for (int64_t k : {1, 7, 8, 9, 100, 1023, 1024, 1025, 3000, 5121, 9000})
      for (int64_t extent : {1, 2, 3, 5, 8, 13, 31, 67, 1029}) {
        if (extent * k > 400000) continue;
        const Layout l = Layout(seed % all_layouts), x = Layout(seed / 3 % all_layouts);
        check({.dtype = dtype, .m = extent, .n = 1, .k = k, .a = l, .b = x, .at_end = seed % 3 != 0}, seed);
        check({.dtype = dtype, .m = 1, .n = extent, .k = k, .a = x, .b = l, .c = Layout(seed % distinct_layouts), .at_end = seed % 3 != 0}, seed);
        check({.dtype = dtype, .m = 1, .n = extent, .k = k, .special = seed % 4 ? 0 : 0.001}, seed);
        seed++;
      }
}

// Columns in registers and in blocks of lanes, with every number of registers, the last of them full or not.
TEST_CASE("a vector times a matrix of many widths", "[product]") {
  const Threads one(1);
  uint64_t seed = 1;
  for (Dtype dtype : floats)
    for (int64_t k : {3, 8, 77, 300, 1030})
      for (int64_t n : {1, 7, 16, 17, 32, 40, 63, 65, 81, 96, 97, 113, 129, 144, 160, 161, 177, 192, 193, 250, 400, 1100, 4100, 4200}) {
        if (n * k > 400000) continue;
        check({.dtype = dtype, .m = 1, .n = n, .k = k, .b = seed % 2 ? Layout::RowMajor : Layout::PaddedRows, .at_end = seed % 3 == 0, .special = seed % 5 ? 0 : 0.01}, seed);
        seed++;
      }
}

TEST_CASE("a lane keeps a negative zero past the end of a vector product", "[product]") {
  for (int64_t n : {1, 3, 9})
    for (Layout l : {Layout::RowMajor, Layout::ColumnMajor}) {
      const int64_t k = 9, columns = n;
      std::vector<float> a(size_t(k), 1e-30f), b(size_t(k * n), -1e-30f), c(size_t(n), 1.0f), want(size_t(n), 1.0f);
      const Strides s = strides_of(l, k, columns);
      const Product p{Dtype::Float32, 1, n, k, k, 1, s.row, s.col, n, 1};
      product_reference(p, a.data(), b.data(), want.data());
      jit::product_x86(p, a.data(), b.data(), c.data());
      CHECK(std::signbit(want[0]));
      CHECK(std::memcmp(c.data(), want.data(), c.size() * 4) == 0);
    }
}

TEST_CASE("empty products", "[product]") {
  for (Dtype dtype : {Dtype::Float32, Dtype::Float16, Dtype::Int32})
    for (Layout c : {Layout::RowMajor, Layout::Stepped}) {
      for (int64_t m : {1, 5})
        for (int64_t n : {1, 7}) check({.dtype = dtype, .m = m, .n = n, .k = 0, .batch = 3, .c = c}, 1);
      check({.dtype = dtype, .m = 0, .n = 5, .k = 4, .c = c}, 2);
      check({.dtype = dtype, .m = 5, .n = 0, .k = 4, .c = c}, 2);
      check({.dtype = dtype, .m = 5, .n = 5, .k = 4, .batch = 0, .c = c}, 2);
    }
}

TEST_CASE("batches with and without shared operands", "[product]") {
  const uint64_t first = std::random_device{}();
  for (int threads : {1, 2}) {
    const Threads some(threads);
    for (uint64_t i = 0; i < 200; i++) {
      Random r(first + i);
      Case t = random_case(r, floats[i % 4], i % 5 ? 24 : 70);
      t.batch = between(r, 1, 9);
      t.share_a = chance(r, 0.3), t.share_b = chance(r, 0.5);
      if (t.m * t.n * t.k * t.batch > 3000000) t.batch = 2;
      check(t, first + i);
    }
  }
}

TEST_CASE("bits do not depend on threads", "[product]") {
  for (int threads : {2, 3}) {  // the other cases are run on one
    const Threads some(threads);
    uint64_t seed = 11;
    for (Dtype dtype : floats) {
      check({.dtype = dtype, .m = 145, .n = 131, .k = 270}, seed);
      check({.dtype = dtype, .m = 141, .n = 45, .k = 513, .a = Layout::ColumnMajor, .c = Layout::ColumnMajor}, seed);
      check({.dtype = dtype, .m = 5, .n = 1300, .k = 310, .b = Layout::PaddedColumns}, seed);
      check({.dtype = dtype, .m = 1, .n = 1500, .k = 1500}, seed);
      check({.dtype = dtype, .m = 1500, .n = 1, .k = 1500}, seed);
      check({.dtype = dtype, .m = 64, .n = 60, .k = 70, .batch = 20, .share_b = true}, seed);
      seed++;
    }
    check({.dtype = Dtype::Int32, .m = 145, .n = 131, .k = 300}, seed);
  }
}

TEST_CASE("products on many threads at once, with buffers released between", "[product]") {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int w = 0; w < 4; w++)
    threads.emplace_back([&, w] {
      for (int i = 0; i < 12; i++) {
        Random r(uint64_t(w * 100 + i));
        Case t = random_case(r, floats[(w + i) % 4], 90);
        if (compare(t, uint64_t(i), false) != "") wrong++;  // the threads switch the instruction set for each other: what one packed is not read by another's
        jit::release_product_buffers();
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("parallel_for covers the range once, in grains", "[launch]") {
  for (int threads : {1, 2, 4}) {
    const Threads some(threads);
    CHECK(num_threads() == threads);
    for (int64_t count : {0, 1, 7, 64, 1000, 4097})
      for (int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
        std::atomic<int> misplaced{0};
        parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          if (begin % grain || (end != count && end % grain) || begin >= end) misplaced++;
          for (int64_t i = begin; i < end; i++) hits[size_t(i)]++;
        });
        int wrong = 0;
        for (auto& h : hits) wrong += h != 1;
        CHECK(wrong == 0);
        CHECK(misplaced == 0);
      }
  }
}

TEST_CASE("parallel_for nests, throws and keeps the float mode", "[launch]") {
  const Threads two(2);
  std::atomic<int64_t> sum{0};
  std::atomic<int> split{0};
  parallel_for(100, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
      parallel_for(1000, 10, [&](int64_t b, int64_t e) {
        split += b != 0 || e != 1000;
        sum += e - b;
      });
  });
  CHECK(sum == 100000);
  CHECK(split == 0);  // the inner loop is serial
  const auto thrower = [](int64_t begin, int64_t) {
    if (begin >= 50) throw std::runtime_error("from a body");
  };
  CHECK_THROWS_AS(parallel_for(100, 1, thrower), std::runtime_error);
  CHECK_THROWS_AS(set_num_threads(0), std::invalid_argument);
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040);  // denormals to zero
  std::atomic<int> flushed{0};
  for (int64_t count : {1, 64})
    parallel_for(count, 1, [&](int64_t, int64_t) {
      volatile float tiny = 1e-38f;
      flushed += tiny * 0.25f == 0;
    });
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  CHECK(flushed == 0);
  CHECK((after & 0x8040) == 0x8040);
}
