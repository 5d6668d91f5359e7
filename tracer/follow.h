// Following: a trace that repeats a known one is compared with it, call by call, and not inferred again.
//
//   Known      a trace seen before: calls, results, and the joins of its size ids. Known traces that begin alike share that
//              beginning by branches: together they are a trie, and none holds anything alive.
//   Follower   one per recorder: the known trace that agrees with the open one so far. The open trace is always whole, so
//              that leaving a path costs nothing: the next call is inferred.
//   End        where known traces ended (were flushed), with what the executor found out about such a flush
//
// Ids of sizes are numbered by the calls alone, so equal calls before make equal ids now; extents are not compared, except
// where a call requires two of them to be equal. Start at Recorder::emit, then Follower::expect and settle.
#pragma once
#include <memory>
#include <utility>
#include <vector>
#include "tracer/trace.h"

namespace frit::tracer {

struct FlushRecord {
  virtual ~FlushRecord() = default;
};
using FlushRecords = std::vector<std::unique_ptr<FlushRecord>>;

struct Known {
  std::vector<Node> nodes;               // new_leaf taken out of the modes: `leaves` has it
  std::vector<uint32_t> lists;
  std::vector<uint32_t> leaves;          // nodes that became gradient leaves by a write, ascending
  std::vector<uint16_t> declared;        // by size id: its axis' name when the id was made
  std::vector<Trace::Join> joined;
  Known* parent = nullptr;
  uint32_t shared = 0;                   // nodes that are the parent's too
  std::vector<std::pair<uint32_t, Known*>> branches;  // by where they leave
  struct End {
    uint32_t nodes;
    FlushRecords records;
  };
  std::vector<std::unique_ptr<End>> ends;
  Known* next = nullptr;                 // the one that was followed, or made, after it
};

class Follower {
 public:
  Follower();
  ~Follower();
  Follower(const Follower&) = delete;

  void begin() { at_ = pause_ ? nullptr : predicted_; left_ = nullptr; }  // at the first node of a trace
  void stop() { at_ = left_ = nullptr; }                                  // nothing is followed until the next trace begins
  bool following() const { return at_ != nullptr; }

  // The known node for a call whose result follows from the call and its operands alone, after the joins that it makes in t
  // were repeated; null: infer it.
  const Node* expect(Trace& t, const Call& call);
  // After node n of t was inferred or entered: does it agree?
  void settle(const Trace& t, uint32_t n);
  // Node n of t became a gradient leaf by a write, or was written and did not.
  void settle_leaf(uint32_t n, bool leaf);
  // At a flush: what is recorded about such flushes, or null. A trace that is new becomes known.
  FlushRecords* end(const Trace& t);

 private:
  bool agrees(const Known& k, const Trace& t, uint32_t n) const;
  bool same_call(const Known& k, const Trace& t, uint32_t n, const Call& call) const;
  template <class F> bool branch(uint32_t n, F&& matches);
  Known* remember(const Trace& t);
  void forget();

  std::vector<std::unique_ptr<Known>> known_;  // the first is the empty trace
  Known* at_ = nullptr;
  Known* left_ = nullptr;      // whose path was left at node left_at_
  Known* predicted_ = nullptr;
  Known* last_ = nullptr;
  uint32_t left_at_ = 0;
  size_t nodes_ = 0;           // in all known traces
  int64_t calls_ = 0;          // that were followed, in the open trace
  uint32_t traces_ = 0, agreed_ = 0;  // since the last time that all was forgotten
  uint32_t pause_ = 0;         // traces that are not followed: paths diverge too often
};

}  // namespace frit::tracer
