// Tier 0: runs a trace node by node, each by the kernel of its own op.
#pragma once
#include "tracer/trace.h"

namespace frit::jit {

// The recorder's executor: fills trace.value of every node that is needed. Throws the errors that depend on values.
void execute(tracer::Trace& t, const char* cause);
// One node on its operands' values (null for numbers). In-place nodes write inputs[0]'s storage and return it.
// pure: an in-place node makes a new value instead.
tracer::ValueRef run_node(tracer::Trace& t, uint32_t n, tracer::Value* const* inputs, bool pure = false);
void set_interpreter_only(bool on);  // every op by the interpreter: for tests, and where no code can be generated
bool interpreter_only();

}  // namespace frit::jit
