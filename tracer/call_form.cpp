// The forms of attr, kind and arguments: one case a structural row; pointwise rows have none but their numbers.
#include "tracer/call_form.h"
#include <algorithm>

namespace frit::tracer {

AttrForm attr_form(Op op) {
  const RowKind kind = row(op).kind;
  if (kind == RowKind::reduce) return AttrForm::mask;
  if (kind == RowKind::source) return op == Op::leaf ? AttrForm::leaf : AttrForm::source;
  switch (op) {
    case Op::permute: return AttrForm::permutation;
    case Op::expand:
    case Op::as_strided: return AttrForm::rank;
    case Op::reshape: return AttrForm::groups;
    case Op::diagonal:
    case Op::undiagonal: return AttrForm::pair;
    case Op::copy: return AttrForm::contiguous;
    case Op::flip: return AttrForm::mask;
    case Op::attention:
    case Op::attention_gradient: return AttrForm::attention;
    case Op::slice:
    case Op::select:
    case Op::cat:
    case Op::gather:
    case Op::scatter_add:
    case Op::scatter:
    case Op::unslice:
    case Op::cumsum:
    case Op::cumprod:
    case Op::sort:
    case Op::argsort: return AttrForm::axis;
    default: return AttrForm::none;
  }
}

KindForm kind_form(Op op) {
  const OpRow& r = row(op);
  if (r.kind == RowKind::pointwise) return KindForm::categories;
  if (r.type == TypeRule::leaf || r.type == TypeRule::kind) return KindForm::dtype;
  if (r.kind == RowKind::reduce) return KindForm::keepdim;
  if (r.kind == RowKind::library) return KindForm::descending;
  return op == Op::reshape ? KindForm::rank : KindForm::none;
}

int leading_numbers(Op op) { return op == Op::full ? 1 : op == Op::arange ? 2 : 0; }

size_t argument_count(const Trace& t, uint32_t n) {
  const Call& c = t.nodes[n].call;
  const OpRow& r = row(c.op);
  if (r.kind == RowKind::pointwise) {
    size_t numbers = 0;
    for (int k = 0; k < r.inputs; ++k) numbers += c.in[k] == scalar_operand;
    return numbers;
  }
  const size_t rank = t.nodes[n].result.rank;
  switch (c.op) {
    case Op::full: return 1 + rank;
    case Op::arange:
    case Op::random_uniform:
    case Op::random_normal: return 2 + rank;
    case Op::random_integer: return 4 + rank;
    case Op::expand:
    case Op::reshape: return rank;
    case Op::slice:
    case Op::unslice:
    case Op::undiagonal: return 3;
    case Op::convolution: return 1 + 4 * (std::max<size_t>(rank, 2) - 2);
    case Op::convolution_input:
    case Op::convolution_weight: return 1 + 5 * (std::max<size_t>(rank, 2) - 2);
    case Op::pool_max:
    case Op::pool_argmax: return 5 * (std::max<size_t>(rank, 2) - 2);
    case Op::attention:
    case Op::attention_gradient: return 4;
    case Op::select: return 1;
    case Op::diagonal: return 2;
    case Op::as_strided: return 2 + 2 * rank + (c.in[0] < n ? size_t(t.rank_of(c.in[0])) : 0);
    case Op::write_view: return 3 + (size_t(c.arg) + 2 < t.args.size() ? size_t(t.args[c.arg + 2]) : 0);
    default: return 0;
  }
}

}  // namespace frit::tracer
