// Attention written out by hand, as it stands in a trace.
#pragma once
#include <optional>
#include "jit/passes/attention_mask.h"

namespace frit::jit {

struct AttentionMatch {
  uint32_t product = tracer::no_node, query = tracer::no_node, turned = tracer::no_node, value = tracer::no_node;  // turned: the key, its last two axes swapped
  uint32_t scale = tracer::no_node;      // a mul or div by a number
  uint32_t mask = tracer::no_node;       // of booleans, or added
  bool forbids = false;                  // true in the mask forbids
  bool causal = false;
  uint32_t keep = tracer::no_node, random = tracer::no_node;  // dropout: random >= its number
  std::vector<Rewrite::Known> known;     // of arguments
  uint32_t gradient = tracer::no_node;   // the result's, where it is asked for; then what was asked for:
  uint32_t of_query = tracer::no_node, of_turned = tracer::no_node, of_value = tracer::no_node;

  uint32_t first_gradient() const { return of_query != tracer::no_node ? of_query : of_turned != tracer::no_node ? of_turned : of_value; }
};
// product: of probabilities and values. The graph's nodes are numbered.
std::optional<AttentionMatch> match_attention(Graph& g, uint32_t product);

}  // namespace frit::jit
