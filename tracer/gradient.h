// Gradients: backward, grad and jvp walk recorded graphs and emit nodes into the thread's open trace.
#pragma once
#include <functional>
#include <memory>
#include <vector>
#include "tracer/trace.h"

namespace frit::tracer {

// A node whose gradient a rule passes on: its operands as handles, made when asked for.
class RuleContext {
 public:
  RuleContext(Trace& t, uint32_t n) : trace_(t), node_(n), call_(t.nodes[n].call) {}
  const Call& call() const { return call_; }
  Op op() const { return call_.op; }
  int input_count() const { return trace_.input_count(node_); }
  bool wants(int k) const;
  const Var& input(int k);              // its value: only what the row saves
  const Var& output();
  Sizes input_sizes(int k) const { return trace_.sizes(trace_.input(node_, k)); }
  Dtype input_dtype(int k) const { return trace_.nodes[trace_.input(node_, k)].result.dtype; }
  Sizes output_sizes() const { return trace_.sizes(node_); }
  Dtype output_dtype() const { return trace_.nodes[node_].result.dtype; }
  int64_t arg(int k) const { return int64_t(trace_.args[call_.arg + k]); }
  bool is_number(int k) const { return trace_.input(node_, k) == scalar_operand; }
  Number number(int k) const;
  uint32_t input_node(int k) const { return trace_.input(node_, k); }
  Trace& trace() const { return trace_; }

 private:
  Trace& trace_;
  uint32_t node_;
  Call call_;  // a copy: emitting may move the trace's nodes
  Var made_[5];  // the inputs, and at 4 the output
};
// A handle of a node's value with its past, for the derivative of node `by` (of the row `reader`); throws when it was overwritten.
Var handle_of(Trace& t, uint32_t n, Op reader, uint32_t by = no_node);

// vjp: for output gradient g, the gradients of the inputs (undefined where none flows). jvp: the output's tangent from
// the inputs' (undefined = zero).
std::vector<Var> vjp_rule(RuleContext& c, const Var& g);
Var jvp_rule(RuleContext& c, const std::vector<Var>& tangents);

struct BackwardOptions {
  bool retain_graph = false, create_graph = false;
  bool accumulate = true;           // into the leaves' grad()
  bool allow_unused = false;
};
// Roots with their gradients (undefined: ones, for a tensor of one element). With `inputs`, returns their gradients and
// accumulates nothing. Throws AutogradError.
std::vector<Var> run_backward(const std::vector<Var>& roots, const std::vector<Var>& gradients, const std::vector<Var>& inputs,
                              const BackwardOptions& options);
// Tangents of outputs given those of inputs, by a forward walk over the recorded graph; undefined where none arrives.
std::vector<Var> run_forward(const std::vector<Var>& outputs, const std::vector<Var>& inputs, const std::vector<Var>& tangents);

uint64_t add_hook(Cell* c, std::function<Var(const Var&)> f);
void remove_hook(Cell* c, uint64_t handle);
void retain_grad(Cell* c);

struct ModeScope {  // sets the recorder's mode bits for a scope
  uint8_t before;
  explicit ModeScope(bool grad) : before(recorder().mode) { recorder().mode = grad ? before | grad_mode : before & uint8_t(~grad_mode); }
  ~ModeScope() { recorder().mode = before; }
};

}  // namespace frit::tracer
