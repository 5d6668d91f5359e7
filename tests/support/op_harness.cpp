// The harness of the op tests. The checking executor: before a flush the memory of every leaf is copied; the library runs
// the trace; then the interpreter makes each node that got a value, in the copies, and both are compared element by
// element. Start at Shadow.
#include "tests/support/op_harness.h"
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_map>
#include "jit/execute.h"
#include "runtime/error.h"
#include "tracer/call_form.h"
#include "tracer/layout.h"
#include "tracer/numbers.h"

namespace frit::testing {

using namespace tracer;

// ---- random numbers and data -------------------------------------------------------------------------------------------
uint64_t run_seed() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("FRIT_TEST_SEED");
    const uint64_t s = given ? std::strtoull(given, nullptr, 0) : 20250611;
    std::printf("seed %llu (FRIT_TEST_SEED)\n", static_cast<unsigned long long>(s));
    return s;
  }();
  return seed;
}
Random::Random(const std::string& stream) {
  uint64_t h = run_seed() * 0x9e3779b97f4a7c15;
  for (char c : stream) h = (h ^ uint8_t(c)) * 0x100000001b3;
  engine_.seed(h);
}

const char* layout_name(frit::testing::Layout l) {
  constexpr const char* names[] = {"contiguous", "transposed", "permuted", "stepped", "rows of wider", "expanded", "misaligned", "reversed", "windows", "outer stepped"};
  return names[int(l)];
}
frit::testing::Layout random_layout(Random& r) { return frit::testing::Layout(r.below(layout_count)); }

const std::vector<Sizes>& shapes() {
  static const std::vector<Sizes> list = {{},     {1},     {7},       {9},       {15},      {17},      {33},         {64},           {0},    {131},
                                          {1, 7}, {9, 1},  {3, 5},    {4, 8},    {5, 33},   {17, 3},   {2, 3, 5},    {5, 1, 9},      {1, 1, 1}, {2, 0, 3},
                                          {3, 9, 2}, {16, 16}, {2, 3, 4, 5}, {3, 1, 5, 7}, {2, 3, 2, 3, 5}, {1, 2, 1, 3, 9}};
  return list;
}
Sizes broadcastable(Random& r, const Sizes& shape) {
  Sizes s = shape;
  for (int64_t& e : s)
    if (r.below(3) == 0) e = 1;
  if (!s.empty() && r.below(3) == 0) s.erase(s.begin(), s.begin() + 1 + r.below(int64_t(s.size())));
  return s;
}

namespace {
template <class T> T special(Random& r) {
  if constexpr (std::is_same_v<T, bool>) return r.bits() & 1;
  else if constexpr (std::is_integral_v<T>) {
    const T values[] = {0, 1, 2, T(-1), T(-2), 7, 8, 15, 31, 32, 63, 64, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T(std::numeric_limits<T>::max() - 1), T(std::numeric_limits<T>::min() + 1)};
    return r.pick(values);
  } else {
    using L = std::numeric_limits<T>;
    const T values[] = {0, T(-0.0), 1, -1, T(0.5), T(-0.5), T(1.5), T(2.5), 2, -2, 3, 6, -3, L::infinity(), -L::infinity(), L::quiet_NaN(), L::max(), L::lowest(), L::min(), -L::min(), L::denorm_min(), -L::denorm_min(),
                        L::denorm_min() * 77, L::epsilon(), T(1) - L::epsilon(), T(1e5), T(-1e5), T(2147483648.0), T(-2147483649.0), T(1e19), T(1e-5), T(88.7), T(-104), T(709.8), T(0.70710678)};
    return r.pick(values);
  }
}
uint64_t element_word(Random& r, Dtype d, double low, double high, Data data) {  // of d's compute type
  return dispatch_compute(d, [&]<class T>(T) -> uint64_t {
    const int64_t kind = data == Data::domain ? 9 : r.below(10);
    if (kind < 3) return value_word(special<T>(r));
    if (kind < 4) {
      const uint64_t w = r.bits() >> r.below(64);
      return value_word(word_value<T>(w));
    }
    const double x = r.uniform(low, high);
    if constexpr (std::is_same_v<T, bool>) return r.bits() & 1;
    else if constexpr (std::is_integral_v<T>) return value_word(T(int64_t(std::floor(std::is_signed_v<T> ? x : std::abs(x)))));
    else return value_word(T(x));
  });
}

// Memory of the test's own, with guards around; checked when the library lets go of it.
struct Guarded {
  static constexpr size_t guard = 64;
  std::vector<unsigned char> bytes;
  size_t begin, length;
  static void* make(size_t length, size_t shift, Guarded*& g) {
    g = new Guarded;
    g->bytes.resize(length + 2 * guard + 128);
    const uintptr_t base = reinterpret_cast<uintptr_t>(g->bytes.data());
    g->begin = size_t((base + guard + 63) / 64 * 64 - base) + shift, g->length = length;
    std::memset(g->bytes.data(), 0xa5, g->bytes.size());
    return g->bytes.data() + g->begin;
  }
  static void free(void* context) {
    auto* g = static_cast<Guarded*>(context);
    bool whole = true;
    for (size_t i = 0; i < g->bytes.size(); ++i)
      if (i < g->begin || i >= g->begin + g->length) whole = whole && g->bytes[i] == 0xa5;
    if (!whole) tally().mismatches.push_back("bytes beside the user's memory were written");
    delete g;
  }
};

// A value with the shape and layout asked for, over memory that is all filled.
ValueRef lay_out(Random& r, Dtype d, const Sizes& shape, frit::testing::Layout l) {
  using L = frit::testing::Layout;
  const int rank = int(shape.size());
  Sizes base = shape;  // extents of the memory, and how the value lies in it
  std::vector<int> axis(shape.size());
  std::iota(axis.begin(), axis.end(), 0);
  Sizes start(shape.size(), 0), step(shape.size(), 1);
  switch (l) {
    case L::transposed: std::reverse(axis.begin(), axis.end()); break;
    case L::permuted:
      for (int i = rank; i-- > 1;) std::swap(axis[size_t(i)], axis[size_t(r.below(i + 1))]);
      break;
    case L::stepped:
      for (int i = 0; i < rank; ++i) start[i] = r.below(3), step[i] = 1 + (i + 1 == rank ? 1 + r.below(2) : r.below(2));
      break;
    case L::outer_stepped:
      for (int i = 0; i + 1 < rank; ++i) start[i] = r.below(2), step[i] = 2;
      break;
    case L::rows_of_wider:
      if (rank) start[size_t(rank - 1)] = 1 + r.below(3);
      break;
    default: break;
  }
  if (l == L::misaligned || l == L::windows) {  // foreign memory at an odd element
    const int64_t n = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
    Sizes strides(shape.size(), 1);
    if (l == L::misaligned)
      for (int i = rank - 1; i > 0; --i) strides[size_t(i - 1)] = strides[size_t(i)] * std::max<int64_t>(shape[size_t(i)], 1);
    Guarded* g;
    void* p = Guarded::make(size_t(std::max<int64_t>(n, 1)) * size_of(d), size_of(d) * size_t(1 + 2 * r.below(3)), g);
    return ValueRef::take(new_foreign_value(p, d, shape.data(), strides.data(), rank, &Guarded::free, g));
  }
  Sizes memory(shape.size());
  for (int i = 0; i < rank; ++i) {
    const int a = axis[size_t(i)];
    const bool repeats = l == L::expanded && (rank == 1 || i % 2 == 0 || r.below(2));
    base[size_t(a)] = repeats ? 1 : start[size_t(a)] + shape[size_t(a)] * step[size_t(a)] + (l == L::rows_of_wider && i + 1 == rank ? 2 : 0);
    memory[size_t(i)] = base[size_t(a)];
  }
  ValueRef whole = ValueRef::take(new_value(d, memory.data(), rank));
  ValueRef v = ValueRef::take(new_alias(*whole, rank));
  for (int i = 0; i < rank; ++i) {
    const size_t a = size_t(axis[size_t(i)]);
    v->extent[a] = shape[a];
    v->stride[a] = base[a] == 1 && l == L::expanded ? 0 : whole->stride[i] * step[a];
    if (shape[a]) v->offset += start[a] * whole->stride[i];
    if (l == L::reversed && shape[a] > 0 && (i + 1 == rank || r.below(2))) v->offset += (shape[a] - 1) * v->stride[a], v->stride[a] = -v->stride[a];
  }
  return v;
}
}  // namespace

Var make_tensor(Random& r, Dtype d, const Sizes& shape, frit::testing::Layout l, double low, double high, Data data) {
  ValueRef v = lay_out(r, d, shape, l);
  const int64_t size = int64_t(size_of(d));
  char* p = static_cast<char*>(v->storage->data);
  for (int64_t i = 0; i < int64_t(v->storage->bytes) / size; ++i) store_word(p + i * size, d, element_word(r, d, low, high, data));
  tally().layouts.insert(layout_name(l));
  return Var::take(new_cell(v.leave()));
}
Var make_index(Random& r, Dtype d, const Sizes& shape, frit::testing::Layout l, int64_t extent) {
  ValueRef v = lay_out(r, d, shape, l);
  const int64_t size = int64_t(size_of(d));
  char* p = static_cast<char*>(v->storage->data);
  for (int64_t i = 0; i < int64_t(v->storage->bytes) / size; ++i) store_word(p + i * size, d, uint64_t(extent ? r.below(2 * extent) - extent : 0));
  return Var::take(new_cell(v.leave()));
}

// ---- comparing ---------------------------------------------------------------------------------------------------------
namespace {
bool same_element(Dtype d, const void* a, const void* b) {
  if (!std::memcmp(a, b, size_of(d))) return true;
  return is_floating(d) && dispatch_compute(d, [&]<class T>(T) {
           const T x = word_value<T>(load_word(a, d)), y = word_value<T>(load_word(b, d));
           return x != x && y != y;
         });
}
std::string word_text(Dtype d, const void* p) {
  char text[64];
  const uint64_t w = load_word(p, d);
  const double x = word_value<double>(convert_word(w, compute_dtype(d), kFloat64));
  std::snprintf(text, sizeof text, "%.9g (%llx)", x, static_cast<unsigned long long>(w));
  return text;
}
// The first place where two values of one type and shape differ, or nothing.
std::string difference(const Value& a, const Value& b) {
  Cursor x(layout_of(a)), y(layout_of(b));
  const int64_t size = int64_t(size_of(a.dtype)), total = a.numel();
  for (int64_t i = 0; i < total; ++i, x.next(), y.next()) {
    const char *p = static_cast<char*>(a.storage->data) + x.offset() * size, *q = static_cast<char*>(b.storage->data) + y.offset() * size;
    if (!same_element(a.dtype, p, q)) return "element " + std::to_string(i) + " is " + word_text(a.dtype, p) + ", the interpreter has " + word_text(a.dtype, q);
  }
  return {};
}
std::string layout_text(const Value& v) {
  std::string s = std::string(dtype_name(v.dtype)) + "[";
  for (int i = 0; i < v.rank; ++i) s += (i ? " " : "") + std::to_string(v.extent[i]) + ":" + std::to_string(v.stride[i]);
  return s + "]+" + std::to_string(v.offset);
}

class Shadow {
 public:
  explicit Shadow(Trace& t) : t_(t), value_(t.nodes.size()), real_(t.nodes.size()) {
    for (uint32_t n = 0; n < t.nodes.size(); ++n)
      if (t.value[n]) {
        real_[n] = ValueRef::share(t.value[n]);
        value_[n] = over(*real_[n], true);
        leaf_storages_.insert(real_[n]->storage);
      }
  }
  void run() {
    const uint32_t count = uint32_t(t_.nodes.size());
    std::vector<bool> wanted(count);
    for (uint32_t n = count; n-- > 0;) {
      if (t_.value[n] || (t_.nodes[n].call.mode & in_place)) wanted[n] = true, writes_ |= t_.nodes[n].call.mode & in_place;
      for (int k = 0; wanted[n] && k < t_.input_count(n); ++k)
        if (t_.input(n, k) != scalar_operand) wanted[t_.input(n, k)] = true;
    }
    shared_.assign(count, false);  // memory that others than the last write's result can see
    for (uint32_t n = 0; n < count; ++n)
      if (const Op op = t_.nodes[n].call.op; op == Op::leaf || row(op).kind == RowKind::view || row(op).kind == RowKind::alias) shared_[root(n)] = true;
    for (uint32_t n = 0; n < count; ++n)
      if (wanted[n] && !value_[n]) make(n);
    for (uint32_t n = 0; n < count; ++n)
      if (real_[n]) compare(n);
    if (writes_) compare_storages();
  }

 private:
  void complain(uint32_t n, const std::string& what) {
    std::string s = std::string(tally().mode) + " " + node_text(t_, n) + ": " + what;
    for (int k = 0; k < t_.input_count(n); ++k)
      if (const uint32_t in = t_.input(n, k); in != scalar_operand && value_[in]) s += "\n    operand " + std::to_string(k) + " " + layout_text(*value_[in]);
    if (real_[n]) s += "\n    result " + layout_text(*real_[n]);
    tally().mismatches.push_back(s);
  }
  // The copy of a real value: the same layout in the copy of its storage.
  ValueRef over(const Value& v, bool with_content) {
    ValueRef& bytes = storages_[v.storage];
    if (!bytes) {
      const int64_t length = int64_t(v.storage->bytes);
      bytes = ValueRef::take(new_value(kUInt8, &length, 1));
      held_.push_back(ValueRef::share(const_cast<Value*>(&v)));  // the address stays its own
      if (length) with_content ? std::memcpy(bytes->data(), v.storage->data, size_t(length)) : std::memset(bytes->data(), 0x5a, size_t(length));
    }
    ValueRef copy = ValueRef::take(new_alias(*bytes, v.rank));
    copy->dtype = v.dtype, copy->offset = v.offset;
    std::copy_n(v.extent, v.rank, copy->extent);
    std::copy_n(v.stride, v.rank, copy->stride);
    return copy;
  }
  void make(uint32_t n) {
    std::vector<Value*> in;
    for (int k = 0; k < t_.input_count(n); ++k) in.push_back(t_.input(n, k) == scalar_operand ? nullptr : value_[t_.input(n, k)].get());
    const Call& call = t_.nodes[n].call;
    if (!t_.value[n] && row(call.op).kind == RowKind::alias) {
      value_[n] = value_[t_.input(n, 0)];
      return;
    }
    if (!t_.value[n] && row(call.op).kind == RowKind::view)
      if (const auto l = view_layout(call, t_.args.data() + call.arg, *in[0])) {
        value_[n] = ValueRef::take(new_alias(*in[0], *l));
        return;
      }
    ValueRef made;
    try {
      made = interpret(t_, n, in.data());
    } catch (const std::exception& e) {
      complain(n, std::string("the interpreter refuses: ") + e.what());
      int64_t extents[max_rank];
      t_.sizes(n, extents);
      made = ValueRef::take(new_value(t_.nodes[n].result.dtype, extents, t_.rank_of(n)));
    }
    if (!t_.value[n]) {  // nobody sees it, but what it wrote may be seen
      value_[n] = made;
      if (call.mode & in_place && shared_[root(n)]) {
        value_[n] = value_[t_.input(n, 0)];
        store(*value_[n], *made);
      }
      return;
    }
    real_[n] = ValueRef::share(t_.value[n]);
    const Value& v = *real_[n];
    if (v.dtype != made->dtype || v.rank != made->rank || !std::equal(v.extent, v.extent + v.rank, made->extent)) {
      complain(n, "the value is " + layout_text(v) + ", the interpreter's " + layout_text(*made));
      value_[n] = made, real_[n] = ValueRef();
      return;
    }
    const bool known = storages_.count(v.storage);
    value_[n] = over(v, false);
    for (int k = 0; k < 2; ++k)  // what was made beside it belongs to the value
      if (made->companion[k]) retain(value_[n]->companion[k] = made->companion[k]);
    const RowKind kind = row(t_.nodes[n].call.op).kind;
    if (!known && (kind == RowKind::view || kind == RowKind::alias || (call.mode & in_place))) take_over(n, v);
    if (known && (kind == RowKind::view || kind == RowKind::alias)) {  // it must show what lies there already
      const std::string d = difference(*value_[n], *made);
      if (!d.empty()) complain(n, "the view lies elsewhere: " + d);
      return;
    }
    store(*value_[n], *made);
  }
  // The first real value in memory whose earlier ones were dropped: what they held is what the interpreter has there.
  void take_over(uint32_t n, const Value& v) {
    const Value& shown = *value_[t_.input(n, 0)];
    if (shown.storage != v.storage && shown.storage->bytes == v.storage->bytes) std::memcpy(value_[n]->storage->data, shown.storage->data, v.storage->bytes);
  }
  static void store(Value& to, const Value& contiguous) {
    Cursor at(layout_of(to));
    const int64_t size = int64_t(size_of(to.dtype)), total = to.numel();
    for (int64_t i = 0; i < total; ++i, at.next()) std::memcpy(static_cast<char*>(to.storage->data) + at.offset() * size, contiguous.data() + i * size, size_t(size));
  }
  // The node whose memory n shows: a leaf, or the op that made it.
  uint32_t root(uint32_t n) const {
    for (;; n = t_.input(n, 0)) {
      const RowKind kind = row(t_.nodes[n].call.op).kind;
      if (kind != RowKind::view && kind != RowKind::alias && !(t_.nodes[n].call.mode & in_place)) return n;
    }
  }
  void compare(uint32_t n) {
    const Op op = t_.nodes[n].call.op;
    tally().nodes += op != Op::leaf;
    tally().elements += size_t(real_[n]->numel());
    tally().rows[op].insert(real_[n]->dtype);
    std::string d = difference(*real_[n], *value_[n]);
    if (!d.empty()) complain(n, d);
  }
  // Bytes between the elements of written values stay as they were.
  void compare_storages() {
    for (uint32_t n = 0; n < t_.nodes.size(); ++n) {
      if (!real_[n] || !leaf_storages_.erase(real_[n]->storage)) continue;
      const Storage& s = *real_[n]->storage;
      const size_t size = size_of(real_[n]->dtype);
      const char *p = static_cast<char*>(s.data), *q = storages_[real_[n]->storage]->data();
      for (size_t i = 0; i + size <= s.bytes; i += size)
        if (!same_element(real_[n]->dtype, p + i, q + i)) {
          complain(n, "memory at element " + std::to_string(i / size) + " holds " + word_text(real_[n]->dtype, p + i) + ", the interpreter has " + word_text(real_[n]->dtype, q + i));
          break;
        }
    }
  }

  Trace& t_;
  std::vector<ValueRef> value_, real_;  // by node: the interpreter's, the library's
  std::unordered_map<Storage*, ValueRef> storages_;
  std::vector<ValueRef> held_;
  std::set<Storage*> leaf_storages_;
  std::vector<bool> shared_;
  bool writes_ = false;
};

Executor library = &jit::execute;
void checked_execute(Trace& t, const char* cause) {
  Shadow shadow(t);
  library(t, cause);
  shadow.run();
  ++tally().flushes;
}
}  // namespace

const char* mode_name(RunMode m) {
  constexpr const char* names[] = {"eager", "automatic", "compiled"};
  return names[int(m)];
}
InMode::InMode(RunMode m) : mode_(m == RunMode::eager ? jit::Mode::eager : jit::Mode::automatic), before_(recorder().foreground) { recorder().foreground = m == RunMode::compiled; }
InMode::~InMode() {
  synchronize();
  recorder().foreground = before_;
}

Checked::Checked(RunMode mode, Executor given) : mode_(mode) {
  library = given ? given : &jit::execute;
  tally().mode = mode_name(mode);
  set_executor(&checked_execute);
}
Checked::~Checked() {
  synchronize();
  set_executor(&jit::execute);
}

// ---- counts --------------------------------------------------------------------------------------------------------------
Tally& tally() {
  static Tally* t = new Tally;
  return *t;
}
std::string Tally::text(const std::string& what) const {
  std::set<Dtype> types;
  size_t pairs = 0;
  for (const auto& [op, d] : rows) types.insert(d.begin(), d.end()), pairs += d.size();
  return what + ": " + std::to_string(rows.size()) + " rows, " + std::to_string(types.size()) + " types (" + std::to_string(pairs) + " pairs), " + std::to_string(layouts.size()) + " layouts, " +
         std::to_string(combinations) + " combinations, " + std::to_string(flushes) + " flushes, " + std::to_string(nodes) + " nodes, " + std::to_string(elements) +
         " elements compared, " + std::to_string(mismatches.size()) + " mismatches, " + std::to_string(gradients) + " gradients checked";
}
void report(const std::string& what) {
  if (jit::interpreter_only()) std::printf("this processor runs no generated code: the interpreter was compared with itself\n");
  std::printf("%s\n", tally().text(what).c_str());
  std::fflush(stdout);
  std::string first;
  for (size_t i = 0; i < tally().mismatches.size() && i < 12; ++i) first += tally().mismatches[i] + "\n";
  INFO("seed " << run_seed() << "\n" << first);
  const size_t count = tally().mismatches.size();
  tally().mismatches.clear();
  CHECK(count == 0);
}
std::vector<Op> rows_where(bool (*chosen)(const OpRow&)) {
  std::vector<Op> list;
  for (int i = 0; i < int(Op::count); ++i)
    if (chosen(row(Op(i)))) list.push_back(Op(i));
  return list;
}
void require_covered(const std::vector<Op>& rows) {
  for (Op op : rows) {
    INFO(op_name(op) << " never ran");
    CHECK(tally().rows.count(op));
  }
}

// ---- types ----------------------------------------------------------------------------------------------------------------
namespace {
int category_of(Dtype d) { return is_floating(d) ? 2 : d == kBool ? 0 : 1; }
}
Dtype promoted(const std::vector<Typed>& operands) {
  // Among those of the highest category, the lowest level decides; its operands of that category promote.
  int category = 0;
  for (const Typed& o : operands) category = std::max(category, category_of(o.dtype));
  int level = 3;
  for (const Typed& o : operands)
    if (category_of(o.dtype) == category) level = std::min(level, o.level);
  Dtype d{};
  bool first = true;
  for (const Typed& o : operands)
    if (o.level == level && category_of(o.dtype) == category) d = first ? o.dtype : promote(d, o.dtype), first = false;
  return d;
}
Expectation expected_type(const OpRow& r, const std::vector<Typed>& operands) {
  std::vector<Typed> values = operands;
  if (r.type == TypeRule::choice) {
    if (values[0].level < 2 && values[0].dtype != kBool) return {false, kBool};
    values.erase(values.begin());
  }
  const Dtype d = promoted(values);
  switch (r.type) {
    case TypeRule::numeric: return {d != kBool, d};
    case TypeRule::counted: return {true, d == kBool ? kInt64 : d};
    case TypeRule::floating: return {true, is_floating(d) ? d : kFloat32};
    case TypeRule::compare: return {true, kBool};
    case TypeRule::bits: return {!is_floating(d), d};
    case TypeRule::shifts: return {!is_floating(d) && d != kBool, d};
    case TypeRule::assign: return {true, operands[0].dtype};
    default: return {true, d};
  }
}

// ---- emitting, reading ------------------------------------------------------------------------------------------------------
Var emit(Op op, const std::vector<Operand>& in) {
  switch (in.size()) {
    case 1: return emit_pointwise(op, {in[0]});
    case 2: return emit_pointwise(op, {in[0], in[1]});
    default: return emit_pointwise(op, {in[0], in[1], in[2]});
  }
}
void emit_in_place(Op op, Var& target, const std::vector<Operand>& rest) {
  if (op == Op::assign) copy_(target, *rest[0].var);
  else if (rest.empty()) emit_pointwise_(op, target, {});
  else if (rest.size() == 1) emit_pointwise_(op, target, {rest[0]});
  else emit_pointwise_(op, target, {rest[0], rest[1]});
}
std::string sizes_text(const Sizes& s) {
  std::string t = "[";
  for (size_t i = 0; i < s.size(); ++i) t += (i ? ", " : "") + std::to_string(s[i]);
  return t + "]";
}
bool same_bits(const Var& a, const Var& b) {
  const Value &x = value_of(a.cell(), "test"), &y = value_of(b.cell(), "test");
  return x.dtype == y.dtype && x.rank == y.rank && std::equal(x.extent, x.extent + x.rank, y.extent) && difference(x, y).empty();
}
std::vector<double> doubles(const Var& a) {
  const Value& v = value_of(a.cell(), "test");
  std::vector<double> out;
  Cursor at(layout_of(v));
  for (int64_t i = v.numel(); i-- > 0; at.next())
    out.push_back(word_value<double>(convert_word(load_word(static_cast<char*>(v.storage->data) + at.offset() * int64_t(size_of(v.dtype)), v.dtype), compute_dtype(v.dtype), kFloat64)));
  return out;
}

}  // namespace frit::testing
