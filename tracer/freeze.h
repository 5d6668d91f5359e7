// Frozen calls: what a function recorded, kept so that later calls with tensors of the same look record it again in one piece,
// without running the function. Numbers are those of the recording; random numbers are drawn anew.
//
//   Capture    while a function runs: which cells entered the open trace
//   Recording  the trace between the function's end and its flush, and where its tensors come from and go to
//
// Start at Recording::take.
#pragma once
#include <memory>
#include <mutex>
#include "tracer/follow.h"

namespace frit::tracer {

class Capture {
 public:
  explicit Capture(Recorder& r);   // the open trace must be empty
  ~Capture();
  Capture(const Capture&) = delete;
  void entered(uint32_t node, Cell* c);
  bool interrupted() const;        // a flush came in between

  struct Entry {
    uint32_t node;
    Var tensor;
    uint32_t writes;               // of the cell, when it entered
  };
  std::vector<Entry> entries;

 private:
  Recorder& recorder_;
  uint64_t instance_;
};

class Recording {
 public:
  // Null, and why, when a call could not be told by its arguments alone.
  static std::shared_ptr<Recording> take(Recorder& r, const Capture& capture, const std::vector<Var>& arguments, const std::vector<Var>& results,
                                         std::string& why_not);
  // Would a call with these arguments, on this thread and now, record the same?
  bool fits(const Recorder& r, const std::vector<Var>& arguments) const;
  // Records it, in an empty trace. The results; a flush makes them real.
  std::vector<Var> replay(Recorder& r, const std::vector<Var>& arguments);
  // What the open trace says otherwise, in words; empty when it is the same. Numbers count, random streams do not.
  std::string difference(const Recorder& r) const;

 private:
  struct Source {                  // an argument, or a captured tensor
    int argument;                  // -1: captured
    Var captured;
    Dtype dtype;
    Sizes extents, strides;
    std::vector<uint16_t> names;
    bool wants_gradient, leaf;
    uint32_t node = no_node;       // its leaf; an argument may have none
    uint32_t writes = 0;           // how often it is written
    uint32_t written = no_node;    // the node that it shows afterwards
    bool new_leaf = false;
  };
  struct Made {                    // a tensor that the function made, and that its results need
    uint32_t node;
    int base_source = -1, base_made = -1;  // of a view
    std::unique_ptr<ViewRecipe> recipe;
  };
  struct Outer { uint32_t node, leaf; bool writes; };  // views and writes of memory from outside
  Cell* cell_of(const Source& s, const std::vector<Var>& arguments) const;
  bool looks(const Source& s, Cell* c) const;
  int source_of(const Cell* c, const std::vector<Var>& arguments) const;

  uint8_t mode_ = 0;
  bool inference_ = false;
  Trace* trace_ = nullptr;         // nodes, sizes and arguments; no values
  std::vector<Source> sources_;
  std::vector<Made> made_;
  std::vector<std::pair<bool, int>> results_;  // of made_, or of sources_
  std::vector<std::pair<int, int>> gradients_;  // of sources_: a leaf, and the tensor that is its gradient
  std::vector<Outer> outer_;
  std::vector<uint32_t> random_;   // nodes that draw
  std::mutex lock_;
  std::vector<std::pair<Recorder*, std::unique_ptr<FlushRecords>>> records_;

 public:
  ~Recording() { if (trace_) release(trace_); }
};

}  // namespace frit::tracer
