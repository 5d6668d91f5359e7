// Whose turn it is at a recorder. Its own thread marks its calls, at the cost of two stores and a load; another thread that
// claims it waits until no call is in progress, and holds the next one up. What makes the stores and the load enough is that the
// claiming thread has every processor of the process pass a memory barrier (membarrier; where that is missing, the owner pays
// for a fence). Claims are made outside calls, so that no two threads wait for each other.
#pragma once
#include <atomic>
#include <mutex>

namespace frit::tracer {

class Ownership {
 public:
  void enter() {
    if (depth_++) return;
    busy_.store(true, std::memory_order_relaxed);
    if (fences_) std::atomic_thread_fence(std::memory_order_seq_cst);
    else std::atomic_signal_fence(std::memory_order_seq_cst);
    if (claimed_.load(std::memory_order_acquire)) [[unlikely]] give_way();
  }
  void leave() {
    if (--depth_ == 0) busy_.store(false, std::memory_order_release);
  }

  bool in_call() const { return depth_ > 0; }  // asked by its own thread

  class Claim {  // by another thread
   public:
    explicit Claim(Ownership& o);
    ~Claim();
    Claim(const Claim&) = delete;

   private:
    Ownership& o_;
  };

 private:
  void give_way();
  static const bool fences_;
  std::atomic<bool> busy_{false}, claimed_{false};
  int depth_ = 0;
  std::mutex lock_;  // of claims
};

}  // namespace frit::tracer
