// A node: one recorded op. Call is what was asked (the half that following compares), Result what was inferred.
#pragma once
#include <cstdint>
#include <cstring>
#include "runtime/dtype.h"

namespace frit {
struct CallSite;
}

namespace frit::tracer {

constexpr int max_rank = 8;
constexpr uint32_t no_node = ~0u, scalar_operand = ~0u - 1;  // in Call.in: no operand; an operand bound as a number

enum class Op : uint16_t {
#define UNARY(name, ...) name,
#define BINARY(name, ...) name,
#define TERNARY(name, ...) name,
#define STRUCTURAL(name, ...) name,
#include "tracer/ops.def"
  count
};

enum Mode : uint8_t { grad_mode = 1, in_place = 2, new_leaf = 4 /* a gradient leaf written under no_grad */, custom_gradient = 8 /* see custom.h */ };
enum ResultFlag : uint8_t { wants_grad = 1 };
enum Saved : uint8_t { In0 = 1, In1 = 2, In2 = 4, Out = 8, In3 = 16 };
constexpr uint8_t saved_input(int k) { return k < 3 ? uint8_t(In0 << k) : k == 3 ? In3 : 0; }
enum class Category : uint8_t { boolean, integer, floating };  // of a number, for promotion

struct alignas(32) Call {
  Op op;
  uint8_t mode = 0;
  uint8_t kind = 0;   // pointwise: 2 bits (Category) per operand bound as a number; others: see ops.def
  uint32_t arg = 0;   // first slot in the trace's arguments (numbers, extents, …)
  uint32_t in[4] = {no_node, no_node, no_node, no_node};  // a list: in[0] first slot in the trace's lists, in[1] count
  uint64_t attr = 0;  // structure: what changes the code
};

using SizeId = uint16_t;  // 0 and 1 are the ids of those extents
struct Result {
  Dtype dtype;
  uint8_t rank, flags;
  Dtype compute;                // pointwise: the type in which the row computes
  uint16_t size_end, join_end;  // size ids and joins made up to here: what leaving a followed path rewinds to
  SizeId size[max_rank];
  const CallSite* site;         // the user's call (runtime/source_line.h); no part of a key
};

struct Node {
  Call call;
  Result result;
};
static_assert(sizeof(Call) == 32 && sizeof(Node) == 64);

}  // namespace frit::tracer
