// Gradients that users write. A custom call's outputs are aliases of what its forward made. Their nodes stand in a row of the trace:
// one without a value, at which the outputs' gradients gather, then one for each output. What these nodes pass on is not in their
// operands but in a CustomGradient, which the trace keeps among its hooks at the gathering node.
#pragma once
#include <functional>
#include "tracer/gradient.h"

namespace frit::tracer {

struct CustomGradient;

// A custom call, inside its backward.
struct CustomCall {
  Trace& trace;
  uint32_t gather;
  const CustomGradient& gradient;
  Var saved(size_t i) const;  // with its past. Throws AutogradError when it was overwritten.
};
// From the outputs' gradients (undefined where none arrived) to those of the inputs.
using CustomBackward = std::function<std::vector<Var>(const CustomCall& call, std::vector<Var> gradients)>;

// What a call keeps for its backward: the elements alone. Where they came from is a node of the trace that holds the call, so that
// nothing keeps itself alive.
struct SavedTensor {
  Var content;
  uint32_t past = no_node;         // the node whose value it is, where that wants a gradient
  uint32_t taken = no_node;        // the content's node in the trace, while the version is not known yet
  uint32_t version = 0;
};
struct CustomGradient : Hooks {
  const char* name = "";           // for messages; lives as long as the program
  std::vector<uint32_t> inputs;    // nodes before the call's own, or no_node
  std::vector<SavedTensor> saved;
  uint32_t outputs = 0;
  CustomBackward backward;         // empty once a walk that keeps nothing went through
};

// A handle of what the input is now, with its past, that later writes to the input do not move. Undefined where no gradient flows.
Var past_of(const Var& input);
// The call's outputs, from inputs as past_of gives them. `made` was made under no gradients; a dirty one is an input that the forward
// wrote, and becomes its own output. `saved` are inputs, outputs, or neither.
struct CustomParts {
  const std::vector<Var>&inputs, &pasts, &made, &saved;
  const std::vector<bool>& dirty;  // by made
};
std::vector<Var> attach_custom(std::shared_ptr<CustomGradient> custom, const CustomParts& parts);

// ---- for the walks -----------------------------------------------------------------------------------------------------------
inline bool is_custom(const Trace& t, uint32_t n) { return t.nodes[n].call.mode & custom_gradient; }
uint32_t gather_of(const Trace& t, uint32_t n);                 // of any of a call's nodes
CustomGradient* custom_at(const Trace& t, uint32_t gather);     // null in a trace that was parsed
void reach_custom(const Trace& t, uint32_t n, std::vector<bool>& reached);  // marks the inputs of n's call that want gradients
// The outputs' tangents from the inputs': the transpose of the backward, which is a linear map of gradients.
std::vector<Var> custom_jvp(Trace& t, uint32_t gather, const std::vector<Var>& tangents);

}  // namespace frit::tracer
