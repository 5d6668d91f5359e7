// A fused group as code: what its kernel computes, free of the trace it came from. Two groups with equal bytes share their
// kernels, whatever program they appear in.
#pragma once
#include <string>
#include <vector>
#include "jit/fuse.h"
#include "jit/lower.h"

namespace frit::jit {

struct Reference {  // where an item's operand comes from
  enum class Kind : uint8_t { none, item, operand, number } kind = Kind::none;
  uint8_t index = 0;
};
struct Item {
  Op op{};
  Dtype compute{}, in{}, result{};  // of the row; of a reduction's or copy's operand; of the value afterwards (half formats round)
  bool reduces = false;
  Reference refs[3];
};
struct GroupCode {
  GroupKind kind = GroupKind::elements;
  bool fast_math = false;           // a product that is only added to or subtracted from is not rounded by itself
  std::vector<Item> items;
  struct Operand {
    Dtype memory;
    Op source = Op::leaf;           // a source that the kernel computes: it moves as if it were stored, contiguous, and has no pointer
    bool floating = false;          // arange: of its numbers
    bool operator==(const Operand&) const = default;
  };
  std::vector<Operand> operands;
  struct Output { uint8_t item; Dtype memory; };
  std::vector<Output> outputs;
  std::vector<Dtype> numbers;       // compute types
  std::string bytes() const;
  std::string name() const;         // of the kernel: the ops in order
};
// A source's elements by their index; the function's params are the source's first arguments.
scalar::Function source_function(const GroupCode::Operand& o);
// How the outputs, then the operands move: see Space.
struct GroupLayout {
  uint8_t outer = 0;
  std::vector<Step> inner;          // along the last axis
  std::vector<Step> reduced;        // columns: along the reduced axis
  bool operator==(const GroupLayout&) const = default;
  std::string bytes() const;
};
// Arguments: outputs' pointers, the operands' (of a source that the kernel computes: its first index, then its params), numbers, extents (columns: reduced extent, width; else the block's), grid extent
// (outer > 0), outer extents but the first, per output and operand: outer strides, [columns: stride along the reduced axis when it has
// one], stride along the last axis when strided.
kernels::Program lower_group(const GroupCode& g, const GroupLayout& l);

// The code of a trace's group, and where its operands and numbers are found in every trace with the same key.
struct GroupPlan {
  GroupCode code;
  uint32_t space = 0;               // a node of the full iteration space
  uint8_t first = 0, last = 0;
  struct Use {                      // an operand: a node's value, read as an operand of `consumer` broadcasts
    uint32_t node, consumer;
    bool kept;
    uint32_t source = tracer::no_node;  // that the kernel computes; node is a view of it
    uint8_t params = 0;
  };
  std::vector<Use> operands;
  struct Output {
    uint32_t node;
    bool kept, in_place, contiguous;
  };
  std::vector<Output> outputs;
  struct NumberSource {             // the argument slot of a node, as a number of type `type`, seen as `compute`
    uint32_t node;
    uint8_t slot;
    uint8_t category;
    Dtype type;
  };
  std::vector<NumberSource> numbers;
};
GroupPlan plan_group(const Trace& t, const Group& g, const std::vector<bool>& pure, const Fusion& f);

}  // namespace frit::jit
