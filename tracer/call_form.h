// What a call's attr, kind and arguments mean, row by row: what the printer, the parser and the verifier share.
#pragma once
#include "tracer/trace.h"

namespace frit::tracer {

enum class AttrForm : uint8_t {
  none,         // 0
  leaf,         // rank | wants_grad << 8
  source,       // rank | category of the first arguments << 8
  rank,         // of the result
  axis,
  mask,         // a bit an axis
  pair,         // two axes, 4 bits each
  permutation,  // 4 bits an axis
  groups,       // of the result's axes (bits 0..31) and the input's (32..63), 4 bits each
  contiguous,   // 0 or 1
  attention     // bits of AttentionForm (attention.h)
};
AttrForm attr_form(Op op);

enum class KindForm : uint8_t { none, categories /* of the numbers */, dtype, rank, keepdim, descending };
KindForm kind_form(Op op);

int leading_numbers(Op op);  // of a source: arguments that have the category in attr

// Arguments from call.arg on that belong to node n. The op, the operands and the result's rank must be sane; write_view's
// count stands in its own third argument.
size_t argument_count(const Trace& t, uint32_t n);

// Where the recorder puts the arguments of a node that has `count`, when `bound` are bound before it.
inline uint32_t usual_slot(Op op, size_t count, size_t bound) {
  const OpRow& r = row(op);
  return count > 0 || (r.kind != RowKind::pointwise && r.inputs == 1) ? uint32_t(bound) : 0;
}

std::string node_text(const Trace& t, uint32_t n);  // its line of text(t)

}  // namespace frit::tracer
