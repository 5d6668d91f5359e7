// What the interpreter's files share. Not an interface for other parts.
#pragma once
#include "tracer/layout.h"
#include "tracer/numbers.h"
#include "tracer/trace.h"

namespace frit::tracer::interpreter {

// One node's evaluation: its operands' values and the contiguous result to fill.
struct Evaluation {
  const Trace& t;
  uint32_t n;
  Value* const* inputs;
  Value& out;

  const Call& call() const { return t.nodes[n].call; }
  const Result& result() const { return t.nodes[n].result; }
  const Value& in(int k) const { return *inputs[k]; }
  const uint64_t* args() const { return t.args.data() + call().arg; }
  int64_t arg(int k) const { return int64_t(args()[k]); }
};

// Copies `from`'s elements to `to`'s, each in row-major order of its own extents; converts when the types differ.
void move(const Value& to, const Layout& to_layout, const Value& from, const Layout& from_layout);

void reduce(const Evaluation& e);   // interpreter_reduce.cpp
void product(const Evaluation& e);
void convolution(const Evaluation& e);  // interpreter_windows.cpp
void pool(const Evaluation& e);
void scan(const Evaluation& e);     // interpreter_lines.cpp
void library(const Evaluation& e);
void attention(const Evaluation& e);           // interpreter_attention.cpp
void attention_gradient(const Evaluation& e);  // gives the value its companions
void gather(const Evaluation& e);
void scatter(const Evaluation& e);

}  // namespace frit::tracer::interpreter
