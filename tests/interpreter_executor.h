// An executor for tests: every node by the interpreter, views as aliases, in-place nodes into their target's storage. And
// helpers to make tensors from literals and read them back.
#pragma once
#include <cstring>
#include <string>
#include <vector>
#include "tracer/layout.h"
#include "tracer/numbers.h"
#include "tracer/trace.h"

namespace frit::testing {
using namespace frit::tracer;

inline void store(Value& to, const Value& contiguous) {
  Cursor at(layout_of(to));
  const int64_t size = int64_t(size_of(to.dtype)), total = to.numel();
  for (int64_t i = 0; i < total; ++i, at.next())
    std::memcpy(static_cast<char*>(to.storage->data) + at.offset() * size, contiguous.data() + i * size, size_t(size));
  to.storage->version.fetch_add(1);
}

// The same elements with the strides that the recorder predicts: in the order of the first operand of these extents.
inline Value* in_order(Value& made, const std::vector<Value*>& in) {
  for (const Value* v : in) {
    if (!v || v->rank != made.rank || !std::equal(v->extent, v->extent + v->rank, made.extent)) continue;
    Value* ordered = new_value_ordered(made.dtype, made.extent, made.rank, *v);
    store(*ordered, made);
    return ordered;
  }
  retain(&made);
  return &made;
}
inline Value* interpret_node(Trace& t, uint32_t n) {
  std::vector<Value*> in;
  for (int k = 0; k < t.input_count(n); ++k) in.push_back(t.input(n, k) == scalar_operand ? nullptr : t.value[t.input(n, k)]);
  const Call& call = t.nodes[n].call;
  const RowKind kind = row(call.op).kind;
  if (kind == RowKind::view) {
    if (const auto l = view_layout(call, t.args.data() + call.arg, *in[0])) return new_alias(*in[0], *l);
  }
  if (kind != RowKind::alias) {
    ValueRef made = interpret(t, n, in.data());
    if (!(call.mode & in_place)) return kind == RowKind::pointwise || (kind == RowKind::copy && !call.attr) ? in_order(*made, in) : made.leave();
    store(*in[0], *made);
  }
  retain(in[0]);
  return in[0];
}
inline void interpret_trace(Trace& t, const char*) {
  for (uint32_t n = 0; n < t.nodes.size(); ++n)
    if (!t.value[n]) t.value[n] = interpret_node(t, n);
}

// Ops are collected until a read while it lives.
struct Deferred {
  Deferred() { set_executor(interpret_trace), recorder().eager = false; }
  ~Deferred() {
    recorder().flush("test");
    recorder().eager = true;
  }
};

template <class T> Var tensor(const std::vector<int64_t>& extents, const std::vector<T>& elements, Dtype d = DtypeOf<T>::value) {
  set_executor(interpret_trace);
  Value* v = new_value(d, extents.data(), int(extents.size()));
  for (size_t i = 0; i < elements.size(); ++i)
    store_word(v->data() + i * size_of(d), d, convert_word(value_word<T>(elements[i]), DtypeOf<T>::value, compute_dtype(d)));
  return Var::take(new_cell(v));
}
inline Var iota(const std::vector<int64_t>& extents, Dtype d = kFloat32) {
  int64_t n = 1;
  for (int64_t e : extents) n *= e;
  std::vector<int64_t> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(i);
  return tensor<int64_t>(extents, v, d);
}
template <class T> std::vector<T> read(const Var& a) {
  const Value& v = value_of(a.cell(), "read");
  std::vector<T> out;
  Cursor at(layout_of(v));
  for (int64_t i = v.numel(); i-- > 0; at.next())
    out.push_back(word_value<T>(convert_word(load_word(static_cast<char*>(v.storage->data) + at.offset() * int64_t(size_of(v.dtype)), v.dtype),
                                             compute_dtype(v.dtype), DtypeOf<T>::value)));
  return out;
}

}  // namespace frit::testing
