// The interpreter: a node's value from its inputs' values, by the rows' expressions and the orders that DESIGN section 4
// defines, whatever the layout. It is the oracle that kernels are compared with, and what runs where they cannot. Pointwise
// rows and sources are evaluated a block of elements at a time; whatever moves elements is one move() between two layouts.
// Start at interpret.
#include <cstring>
#include <unordered_map>
#include "runtime/error.h"
#include "tracer/interpreter_detail.h"
#include "tracer/random.h"

namespace frit::tracer {
namespace interpreter {

namespace {
constexpr size_t block = 256;

// One operand of a pointwise row, as blocks of words: a walked value, or a number that never changes.
struct Stream {
  Dtype as;
  const Value* value = nullptr;
  Cursor cursor;
  std::vector<uint64_t> words = std::vector<uint64_t>(block);
  void fill(int64_t* offsets, size_t count) {
    if (!value) return;
    cursor.take(offsets, count);
    load_words(value->storage->data, value->dtype, offsets, count, as, words.data());
  }
};

Stream open_stream(const Evaluation& e, int k, int& numbers) {
  const OpRow& r = row(e.call().op);
  Stream s;
  s.as = r.type == TypeRule::choice && k == 0 ? Dtype::Bool : e.result().compute;
  if (e.call().in[k] == scalar_operand) {
    std::fill(s.words.begin(), s.words.end(), number_word(e.args()[numbers++], Category(e.call().kind >> (2 * k) & 3), s.as));
  } else {
    s.value = &e.in(k);
    s.cursor = Cursor(broadcast(layout_of(*s.value), e.out.extent, e.out.rank));
  }
  return s;
}

void pointwise(const Evaluation& e) {
  const int count = row(e.call().op).inputs;
  const scalar::Function f = pointwise_function(e.call().op, e.result().compute);
  const Dtype made = f.nodes[f.results[0]].dtype;
  std::vector<Stream> streams;
  int numbers = 0;
  for (int k = 0; k < count; ++k) streams.push_back(open_stream(e, k, numbers));
  const uint64_t* inputs[3] = {};
  for (int k = 0; k < count; ++k) inputs[k] = streams[k].words.data();
  std::vector<uint64_t> result(block), scratch;
  uint64_t* const results[] = {result.data()};
  int64_t offsets[block];
  const int64_t total = e.out.numel();
  for (int64_t at = 0; at < total; at += block) {
    const size_t here = size_t(std::min<int64_t>(block, total - at));
    for (Stream& s : streams) s.fill(offsets, here);
    scalar::evaluate_block(f, inputs, nullptr, results, here, scratch);
    store_words(e.out.data(), e.out.dtype, at, here, made, result.data());
  }
}

// A function of the element's index.
void indexed(const Evaluation& e, const scalar::Function& f, const uint64_t* params) {
  std::vector<uint64_t> index(block), result(block), scratch;
  const uint64_t* const inputs[] = {index.data()};
  uint64_t* const results[] = {result.data()};
  const int64_t total = e.out.numel();
  for (int64_t at = 0; at < total; at += block) {
    const size_t here = size_t(std::min<int64_t>(block, total - at));
    for (size_t i = 0; i < here; ++i) index[i] = uint64_t(at) + i;
    scalar::evaluate_block(f, inputs, params, results, here, scratch);
    store_words(e.out.data(), e.out.dtype, at, here, compute_dtype(e.out.dtype), result.data());
  }
}

void source(const Evaluation& e) {
  const Category category = Category(e.call().attr >> 8 & 3);
  if (e.call().op == Op::arange) return indexed(e, arange_function(category == Category::floating, e.out.dtype), e.args());
  if (e.call().op != Op::full) return indexed(e, random_function(e.call().op, e.out.dtype), e.args());
  const std::vector<uint64_t> words(block, number_word(e.args()[0], category, e.out.dtype));
  const int64_t total = e.out.numel();
  for (int64_t at = 0; at < total; at += block)
    store_words(e.out.data(), e.out.dtype, at, size_t(std::min<int64_t>(block, total - at)), compute_dtype(e.out.dtype), words.data());
}

void copy_whole(const Evaluation& e) { move(e.out, layout_of(e.out), e.in(0), layout_of(e.in(0))); }

void view(const Evaluation& e) {
  const std::optional<Layout> l = view_layout(e.call(), e.args(), e.in(0));
  move(e.out, layout_of(e.out), e.in(0), l ? *l : layout_of(e.in(0)));  // a reshape keeps the row-major order
}

// The result is contiguous, the recipe speaks of the base's own storage: places there lead back to elements of the base.
void write_strided(const Evaluation& e, const Call& recipe) {
  const Value& base = e.in(0);
  Layout from = layout_of(base);
  const int64_t* own = reinterpret_cast<const int64_t*>(e.args()) + 3 + 1 + 2 * recipe.attr;
  from.offset = own[0];
  std::copy_n(own + 1, base.rank, from.stride);
  std::unordered_map<int64_t, int64_t> element;
  Cursor at(from), content(layout_of(e.in(1)));
  for (int64_t i = 0, n = base.numel(); i < n; ++i, at.next()) element.emplace(at.offset(), i);
  Cursor place(*view_layout(recipe, e.args() + 3, base));
  const size_t size = size_of(e.out.dtype);
  for (int64_t i = 0, n = e.in(1).numel(); i < n; ++i, place.next(), content.next())
    if (const auto found = element.find(place.offset()); found != element.end())
      std::memcpy(e.out.data() + size_t(found->second) * size, static_cast<const char*>(e.in(1).storage->data) + size_t(content.offset()) * size, size);
}

void write_view(const Evaluation& e) {
  copy_whole(e);
  Call recipe;
  recipe.op = Op(e.args()[0] & 0xffff), recipe.kind = uint8_t(e.args()[0] >> 16), recipe.attr = e.args()[1];
  if (recipe.op == Op::as_strided) return write_strided(e, recipe);
  const std::optional<Layout> region = view_layout(recipe, e.args() + 3, e.out);
  if (!region) throw InternalError("write_view: a contiguous base has every view");
  move(e.out, *region, e.in(1), layout_of(e.in(1)));
}

void cat(const Evaluation& e) {
  const int axis = int(e.call().attr);
  int64_t at = 0;
  for (int k = 0; k < e.t.input_count(e.n); ++k) {
    Layout part = layout_of(e.out);
    part.offset += at * part.stride[axis];
    part.extent[axis] = e.in(k).extent[axis];
    move(e.out, part, e.in(k), layout_of(e.in(k)));
    at += part.extent[axis];
  }
}

void unslice(const Evaluation& e) {
  std::memset(e.out.data(), 0, size_t(e.out.numel()) * size_of(e.out.dtype));
  Call into;
  into.attr = e.call().attr;
  uint64_t args[3] = {e.args()[0]};
  if (e.call().op == Op::unslice) {
    into.op = Op::slice;
    args[1] = uint64_t(e.in(0).extent[e.call().attr]), args[2] = e.args()[1];
  } else {
    into.op = Op::diagonal;
    args[1] = uint64_t(e.in(0).extent[e.in(0).rank - 1]);
  }
  move(e.out, *view_layout(into, args, e.out), e.in(0), layout_of(e.in(0)));
}

void flip(const Evaluation& e) {
  Layout l = layout_of(e.in(0));
  for (int i = 0; i < l.rank; ++i)
    if (e.call().attr >> i & 1 && l.extent[i] > 0) l.offset += (l.extent[i] - 1) * l.stride[i], l.stride[i] = -l.stride[i];
  move(e.out, layout_of(e.out), e.in(0), l);
}
}  // namespace

void move(const Value& to, const Layout& to_layout, const Value& from, const Layout& from_layout) {
  const int64_t total = to_layout.numel();
  if (total != from_layout.numel()) throw InternalError("interpreter: a move between different numbers of elements");
  Cursor write(to_layout), read(from_layout);
  char* const to_data = static_cast<char*>(to.storage->data);
  const char* const from_data = static_cast<const char*>(from.storage->data);
  const int64_t to_size = int64_t(size_of(to.dtype)), from_size = int64_t(size_of(from.dtype));
  const Dtype to_compute = compute_dtype(to.dtype), from_compute = compute_dtype(from.dtype);
  for (int64_t i = 0; i < total; ++i, write.next(), read.next()) {
    char* const p = to_data + write.offset() * to_size;
    const char* const q = from_data + read.offset() * from_size;
    if (to.dtype == from.dtype) std::memcpy(p, q, size_t(to_size));
    else store_word(p, to.dtype, copied_word(load_word(q, from.dtype), from_compute, to_compute));
  }
}

}  // namespace interpreter

Value* companion_of(const Value& v, int which) {
  if (!v.companion[which]) throw InternalError("companion: nothing was made beside the value");
  return v.companion[which];
}

ValueRef interpret(const Trace& t, uint32_t n, Value* const* inputs) {
  const Result& r = t.nodes[n].result;
  int64_t extents[max_rank];
  t.sizes(n, extents);
  ValueRef out = ValueRef::take(new_value(r.dtype, extents, r.rank));
  const interpreter::Evaluation e{t, n, inputs, *out};
  const Op op = e.call().op;
  if (op == Op::leaf) throw InternalError("interpret: a leaf has its value already");
  switch (row(op).kind) {
    case RowKind::pointwise: interpreter::pointwise(e); break;
    case RowKind::source: interpreter::source(e); break;
    case RowKind::view: interpreter::view(e); break;
    case RowKind::alias: interpreter::write_view(e); break;
    case RowKind::copy: interpreter::copy_whole(e); break;
    case RowKind::reduce: interpreter::reduce(e); break;
    case RowKind::product: interpreter::product(e); break;
    case RowKind::convolution: interpreter::convolution(e); break;
    case RowKind::pool: interpreter::pool(e); break;
    case RowKind::attention: op == Op::attention ? interpreter::attention(e) : interpreter::attention_gradient(e); break;
    case RowKind::companion: return ValueRef::share(companion_of(*inputs[0], e.call().kind));
    case RowKind::cat: interpreter::cat(e); break;
    case RowKind::gather: interpreter::gather(e); break;
    case RowKind::scatter: interpreter::scatter(e); break;
    case RowKind::unslice: interpreter::unslice(e); break;
    case RowKind::flip: interpreter::flip(e); break;
    case RowKind::scan: interpreter::scan(e); break;
    case RowKind::library: interpreter::library(e); break;
  }
  return out;
}

}  // namespace frit::tracer
