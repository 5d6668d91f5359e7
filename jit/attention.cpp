// The attention rows on the CPU: see attention.h. Half formats' gradients are summed in Float32 and rounded once. Start at run_attention.
#include "jit/attention.h"
#include <bit>
#include <cstring>
#include <mutex>
#include "jit/execute_parts.h"
#include "jit/x86/tiles.h"
#include "runtime/cpu.h"
#include "runtime/error.h"
#include "runtime/launch.h"
#include "runtime/stats.h"

namespace frit::jit {

using namespace tracer;
using kernels::AttentionKind;
using kernels::Slot;

namespace {
AttentionKind kind_of_problem(const AttentionProblem& p, Value* const* mask) {
  AttentionKind k;
  k.storage = p.storage, k.causal = p.causal, k.dropout = p.dropout;
  k.mask = AttentionKind::Mask(p.mask);
  if (mask) k.mask_type = (*mask)->dtype;
  return k;
}
const TileKernel& kernel_for(const AttentionKind& kind, bool gradient) {
  struct Known {
    AttentionKind kind;
    bool gradient, wide;  // wide: registers
    std::unique_ptr<TileKernel> kernel;
  };
  static std::mutex* lock = new std::mutex;
  static auto* known = new std::vector<std::unique_ptr<Known>>;
  const bool wide = uses_avx512();
  const std::lock_guard hold(*lock);
  for (const auto& k : *known)
    if (k->kind == kind && k->gradient == gradient && k->wide == wide) return *k->kernel;
  auto made = std::make_unique<TileKernel>(compile_tiles(gradient ? kernels::attention_gradient(kind) : kernels::attention_forward(kind)));
  known->push_back(std::make_unique<Known>(Known{kind, gradient, wide, std::move(made)}));
  return *known->back()->kernel;
}
Slot number(double v, Dtype d) { return d == Dtype::Float64 ? std::bit_cast<Slot>(v) : Slot(std::bit_cast<uint32_t>(float(v))); }

// Work that is not worth a second thread, in instances of the grid.
int64_t grain_of(const AttentionProblem& p, bool gradient) {
  const double block = 4.0 * double(std::min<int64_t>(p.queries, gradient ? p.queries : attention_block)) * double(p.keys) * double(p.depth + p.width);
  return std::max<int64_t>(1, int64_t(2e6 / std::max(block, 1.0)));
}
// sums: [instances, queries, 2], of each row of the scores; null: the row's result alone.
void forward(const AttentionProblem& p, Value* const* inputs, Value* const* mask, Value& out, Value* sums) {
  AttentionKind kind = kind_of_problem(p, mask);
  kind.logsumexp = sums != nullptr;
  AttentionArguments a = attention_arguments(p, inputs[0]->data(), inputs[1]->data(), inputs[2]->data(), mask ? (*mask)->data() : nullptr);
  a.push(out.data());
  a.push(sums ? sums->data() : nullptr);
  run_tiles(kernel_for(kind, false), a.slots.data(), grain_of(p, false));
}
Value* new_sums(const AttentionProblem& p) {
  const int64_t extents[] = {p.instances, p.queries, 2};
  return new_value(p.compute, extents, 3);
}
Value* zeros_like(const Value& like, Dtype d) {
  Value* v = new_value(d, like.extent, like.rank);
  std::memset(v->data(), 0, size_t(v->numel()) * size_of(d));
  return v;
}
ValueRef rounded(ValueRef v, Dtype d) {
  if (v->dtype == d) return v;
  ValueRef narrow = ValueRef::take(new_value(d, v->extent, v->rank));
  copy_values(*v, *narrow);
  return narrow;
}
}  // namespace

AttentionArguments attention_arguments(const AttentionProblem& p, const void* query, const void* key, const void* value, const void* mask) {
  AttentionArguments a;
  for (const void* pointer : {query, key, value, mask}) a.push(pointer);
  for (const AttentionProblem::Matrix* m : {&p.query, &p.key, &p.value, &p.masks}) a.push(m->at.data());
  for (const AttentionProblem::Matrix* m : {&p.query, &p.key, &p.value, &p.masks}) a.push(m->at.empty() ? 0 : m->row), a.push(m->at.empty() ? 0 : m->column);
  for (int64_t v : {p.instances, p.share, p.queries, p.keys, p.depth, p.width}) a.push(v);
  a.slots.push_back(number(p.scale, p.compute));
  a.slots.push_back(number(p.rate, Dtype::Float32));
  a.slots.push_back(number(1 / (1 - p.rate), p.compute));
  a.slots.push_back(p.seed);
  a.slots.push_back(p.stream);
  return a;
}

ValueRef run_attention(Trace& t, uint32_t n, Value* const* inputs) {
  const AttentionProblem p = attention_problem(t, n, inputs);
  int64_t e[max_rank];
  t.sizes(n, e);
  ValueRef out = ValueRef::take(new_value(p.storage, e, t.rank_of(n)));
  if (t.nodes[n].result.flags & wants_grad) out->companion[0] = new_sums(p);
  if (out->numel() == 0 && !out->companion[0]) return out;
  count(&Counters::library_calls);
  forward(p, inputs, t.input_count(n) > 3 ? inputs + 3 : nullptr, *out, out->companion[0]);
  return out;
}

ValueRef run_attention_gradient(Trace& t, uint32_t n, Value* const* inputs) {
  const AttentionProblem p = attention_problem(t, n, inputs);
  Value* const* mask = t.input_count(n) > 5 ? inputs + 5 : nullptr;
  ValueRef sums = ValueRef::share(inputs[3]->companion[0]);
  if (!sums) {  // the result was made elsewhere
    sums = ValueRef::take(new_sums(p));
    ValueRef again = ValueRef::take(new_value(p.storage, inputs[3]->extent, inputs[3]->rank));
    forward(p, inputs, mask, *again, sums.get());
  }
  ValueRef given[3];
  given[0] = ValueRef::take(new_value(p.compute, inputs[0]->extent, inputs[0]->rank));
  for (int k = 1; k < 3; ++k) given[k] = ValueRef::take(zeros_like(*inputs[k], p.compute));
  AttentionArguments a = attention_arguments(p, inputs[0]->data(), inputs[1]->data(), inputs[2]->data(), mask ? (*mask)->data() : nullptr);
  a.push(inputs[3]->data());
  a.push(inputs[4]->data());
  for (const AttentionProblem::Matrix* m : {&p.result, &p.gradient}) a.push(m->at.data());
  for (const AttentionProblem::Matrix* m : {&p.result, &p.gradient}) a.push(m->row), a.push(m->column);
  a.push(sums->data());
  for (const ValueRef& g : given) a.push(g->data());
  count(&Counters::library_calls);
  run_tiles(kernel_for(kind_of_problem(p, mask), true), a.slots.data(), grain_of(p, true));
  ValueRef query = rounded(std::move(given[0]), p.storage);
  for (int k = 0; k < 2; ++k) query->companion[k] = rounded(std::move(given[k + 1]), p.storage).leave();
  return query;
}

}  // namespace frit::jit
