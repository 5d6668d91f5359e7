// Claims on recorders of other threads; see ownership.h. Start at Claim.
#include "tracer/ownership.h"
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <thread>

namespace frit::tracer {

namespace {
bool command(int c) { return syscall(__NR_membarrier, c, 0, 0) == 0; }
}  // namespace

const bool Ownership::fences_ = !command(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);

Ownership::Claim::Claim(Ownership& o) : o_(o) {
  o.lock_.lock();
  o.claimed_.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!fences_) command(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  while (o.busy_.load(std::memory_order_acquire)) std::this_thread::yield();
}
Ownership::Claim::~Claim() {
  o_.claimed_.store(false, std::memory_order_release);
  o_.lock_.unlock();
}
void Ownership::give_way() {
  do {
    busy_.store(false, std::memory_order_release);
    { const std::lock_guard wait(lock_); }
    busy_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } while (claimed_.load(std::memory_order_acquire));
}

}  // namespace frit::tracer
