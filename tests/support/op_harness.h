// What the op tests share: operands in every layout, an executor that compares each node with the interpreter bit for bit,
// and the counts of what was crossed.
//
//   Random    a stream of the run's seed (environment variable FRIT_TEST_SEED; printed), named so that tests are independent
//   Layout    how a tensor lies in memory; make_tensor makes one of any shape, type and layout
//   Checked   while it lives, each flush of this thread is run by the library and again by the interpreter on a copy of the
//             memory; values, aliases and bytes that nobody may write are compared
//   Tally     rows, types, layouts and elements compared
#pragma once
#include <array>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>
#include "frit/autograd.h"
#include "tracer/trace.h"

namespace frit::testing {

using tracer::Op;
using tracer::OpRow;
using tracer::Operand;
using tracer::row;
using tracer::RowKind;
using tracer::Sizes;
using tracer::TypeRule;
using handle::Category;
using handle::Number;
using handle::Var;

constexpr Dtype all_dtypes[] = {kBool, kUInt8, kInt8, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};
constexpr Dtype floating_dtypes[] = {kFloat16, kBFloat16, kFloat32, kFloat64};

uint64_t run_seed();
class Random {
 public:
  explicit Random(const std::string& stream);
  uint64_t bits() { return engine_(); }
  int64_t below(int64_t n) { return int64_t(engine_() % uint64_t(n)); }
  double uniform(double low, double high) { return low + (high - low) * double(engine_() >> 11) * 0x1p-53; }
  template <class C> auto& pick(C& c) { return c[size_t(below(int64_t(std::size(c))))]; }

 private:
  std::mt19937_64 engine_;
};

enum class Layout : uint8_t { contiguous, transposed, permuted, stepped, rows_of_wider, expanded, misaligned, reversed, windows, outer_stepped };
constexpr int layout_count = 10;
const char* layout_name(Layout l);
inline bool writable(Layout l) { return l != Layout::expanded && l != Layout::windows; }

// domain: uniform in [low, high]; hostile: a quarter special values (NaN, infinities, zeros, subnormals, extremes), some
// random bits.
enum class Data : uint8_t { domain, hostile };
Var make_tensor(Random& r, Dtype d, const Sizes& shape, Layout l, double low, double high, Data data = Data::hostile);
Var make_index(Random& r, Dtype d, const Sizes& shape, Layout l, int64_t extent);  // in [-extent, extent)
Layout random_layout(Random& r);
const std::vector<Sizes>& shapes();            // odd tails, zeros, ones, ranks 0 to 5
Sizes broadcastable(Random& r, const Sizes& shape);  // some axes 1, some leading ones away

struct Tally {
  size_t combinations = 0, flushes = 0, nodes = 0, elements = 0, gradients = 0;
  std::map<Op, std::set<Dtype>> rows;
  std::set<std::string> layouts;
  std::vector<std::string> mismatches;
  const char* mode = "";
  std::string text(const std::string& what) const;
};
Tally& tally();
void report(const std::string& what);          // prints the tally; fails when there are mismatches
std::vector<Op> rows_where(bool (*chosen)(const OpRow&));
void require_covered(const std::vector<Op>& rows);  // each ran under Checked

// automatic: ops are collected until a flush, which runs them one by one as long as the trace is not hot; compiled: each
// flush is fused and compiled at once, as inside compile().
enum class RunMode : uint8_t { eager, automatic, compiled };
constexpr RunMode all_modes[] = {RunMode::eager, RunMode::automatic, RunMode::compiled};
const char* mode_name(RunMode m);
class InMode {
 public:
  explicit InMode(RunMode m);
  ~InMode();
  InMode(const InMode&) = delete;

 private:
  jit::ModeGuard mode_;
  bool before_;
};
class Checked {
 public:
  explicit Checked(RunMode mode, tracer::Executor library = nullptr);  // null: the library's own
  ~Checked();
  Checked(const Checked&) = delete;

 private:
  InMode mode_;
};

// The rule of promotion from LibTorch's documentation, written again: operands with axes first, then without, then numbers.
struct Typed {
  Dtype dtype;
  int level;  // 0 with axes, 1 without, 2 number
};
Dtype promoted(const std::vector<Typed>& operands);
struct Expectation {
  bool taken;
  Dtype dtype;
};
Expectation expected_type(const OpRow& r, const std::vector<Typed>& operands);  // operands in the row's order

Var emit(Op op, const std::vector<Operand>& in);
void emit_in_place(Op op, Var& target, const std::vector<Operand>& rest);

bool same_bits(const Var& a, const Var& b);     // type, shape and elements; all NaNs are one
std::string sizes_text(const Sizes& s);
std::vector<double> doubles(const Var& a);

}  // namespace frit::testing
