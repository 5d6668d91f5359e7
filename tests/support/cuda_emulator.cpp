// The emulator's runtime. Scheduler runs one thread block at a time: `ready_` holds the fibers that can go on, the
// functions behind Hooks move the running fiber out of it and others back into it. Start with Scheduler::run_block.
#include "tests/support/cuda_emulator.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>

extern "C" {
// Present in a build with a sanitizer, which has to know the stacks.
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake, const void* bottom, size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake, const void** bottom, size_t* size);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* begin, size_t size);
__attribute__((weak)) void* __tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void* fiber);
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void __tsan_switch_to_fiber(void* fiber, unsigned flags);

void frit_switch_stack(void** save, void* to);
}
// Saves what a function has to keep on the old stack, and takes it from the new one.
asm(R"(
.text
.local frit_switch_stack
.type frit_switch_stack,@function
frit_switch_stack:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp,(%rdi)
  mov %rsi,%rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size frit_switch_stack,.-frit_switch_stack
)");

namespace cuda_emulator {
namespace {

constexpr size_t stack_bytes = 64 << 10, guard_bytes = 4096;
enum class State { ready, at_barrier, in_exchange, ended };

// A stack with what a switch has to remember.
struct Stack {
  void* pointer = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;
  void* fake = nullptr;  // the address sanitizer's
  void* tsan = nullptr;
};

struct Fiber {
  Stack stack;
  char* memory = nullptr;
  Thread thread{};
  State state = State::ended;
  int line = 0;  // where it waits
  unsigned number = 0;
};

struct Warp {
  alignas(16) unsigned char slots[2][32 * slot_bytes];  // by generation: the quick write the next while the slow still read
  unsigned generation = 0, arrived = 0, mask = 0;
  int line = 0;
};

void switch_stacks(Stack& from, Stack& to, bool leaves_for_ever = false) {
  if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(leaves_for_ever ? nullptr : &from.fake, to.bottom, to.size);
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(to.tsan, 0);
  frit_switch_stack(&from.pointer, to.pointer);
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
}

class Scheduler {
 public:
  static Scheduler& instance() {
    static Scheduler* const scheduler = new Scheduler;
    return *scheduler;
  }
  Hooks hooks{};

  void run(KernelEntry entry, void** arguments, unsigned blocks, unsigned threads, uint64_t seed, unsigned char* shared, unsigned char* shared_end) {
    entry_ = entry, arguments_ = arguments;
    random_ = seed ? seed * 0x9e3779b97f4a7c15u | 1 : 0;
    if (__tsan_get_current_fiber) main_.tsan = __tsan_get_current_fiber();
    while (fibers_.size() < threads) fibers_.push_back(make_fiber(unsigned(fibers_.size())));
    warps_.resize((threads + 31) / 32);
    for (unsigned block = 0; block < blocks; ++block) {
      for (unsigned char* at = shared; at + 4 <= shared_end; at += 4) std::memcpy(at, "\xad\xde\xc0\x7f", 4);
      run_block({block, 0, 0}, {threads, 1, 1}, {blocks, 1, 1});
    }
  }

 private:
  Scheduler() {
    hooks.barrier = [](int line) { instance().barrier(line); };
    hooks.exchange = [](unsigned mask, const void* value, unsigned bytes, int line) { return instance().exchange(mask, value, bytes, line); };
    hooks.lane = [] { return instance().current_->number % 32; };
  }

  std::unique_ptr<Fiber> make_fiber(unsigned number) {
    auto f = std::make_unique<Fiber>();
    f->number = number;
    f->memory = static_cast<char*>(mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (f->memory == MAP_FAILED) throw std::bad_alloc();
    mprotect(f->memory, guard_bytes, PROT_NONE);
    restart(*f);
    return f;
  }

  // The stack of a fiber that begins in fiber_main.
  void restart(Fiber& f) {
    f.stack.bottom = f.memory + guard_bytes;
    f.stack.size = stack_bytes - guard_bytes;
    f.stack.fake = nullptr;
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(f.stack.bottom, f.stack.size);
    void** top = reinterpret_cast<void**>(f.memory + stack_bytes - 64);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(&fiber_main);
    for (int k = 0; k < 6; ++k) *--top = nullptr;
    f.stack.pointer = top;
    if (__tsan_create_fiber) {
      if (f.stack.tsan) __tsan_destroy_fiber(f.stack.tsan);
      f.stack.tsan = __tsan_create_fiber(0);
    }
  }

  // A fiber serves one thread after another, block by block.
  static void fiber_main() {
    Scheduler& s = instance();
    if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(nullptr, &s.main_.bottom, &s.main_.size);
    for (;;) {
      s.entry_(s.arguments_);
      s.current_->state = State::ended;
      --s.live_;
      s.leave();
    }
  }

  void leave() { switch_stacks(current_->stack, main_); }

  void run_block(Index3 block, Index3 block_extent, Index3 grid_extent) {
    failure_.clear();
    ready_.clear();
    live_ = block_extent.x, at_barrier_ = 0;
    for (Warp& w : warps_) w.arrived = 0;
    for (unsigned t = 0; t < block_extent.x; ++t) {
      Fiber& f = *fibers_[t];
      f.thread = {{t, 0, 0}, block, block_extent, grid_extent};
      f.state = State::ready;
      ready_.push_back(t);
    }
    size_t head = 0;  // in order, ready_ is a queue
    while (live_ && failure_.empty()) {
      if (head == ready_.size()) {
        failure_ = "deadlock" + waiting();
        break;
      }
      unsigned next;
      if (random_) {
        const size_t at = draw() % ready_.size();
        next = ready_[at];
        ready_[at] = ready_.back();
        ready_.pop_back();
      } else {
        next = ready_[head++];
        if (head == ready_.size()) ready_.clear(), head = 0;
      }
      current_ = fibers_[next].get();
      hooks.current = &current_->thread;
      switch_stacks(main_, current_->stack);
    }
    if (failure_.empty()) return;
    for (auto& f : fibers_) restart(*f);  // some stopped in the middle
    throw std::runtime_error("CUDA emulator, block " + std::to_string(block.x) + ": " + failure_);
  }

  std::string waiting() const {
    std::map<std::string, int> where;
    for (const auto& f : fibers_)
      if (f->state == State::at_barrier) ++where["in __syncthreads at line " + std::to_string(f->line)];
      else if (f->state == State::in_exchange) ++where["in a warp exchange at line " + std::to_string(f->line)];
      else if (f->state == State::ended) ++where["ended"];
    std::string out;
    for (const auto& [what, count] : where) out += "; " + std::to_string(count) + " threads " + what;
    return out;
  }

  uint64_t draw() {
    random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
    return random_ >> 11;
  }

  // Called by a fiber, which does not come back: the block stops with this message.
  void fail(const char* message) {
    describe(message);
    leave();
  }
  // Apart from fail, so that no string lives on a stack that is given up.
  __attribute__((noinline)) void describe(const char* message) {
    failure_ = std::string(message) + " (thread " + std::to_string(current_->number) + ")" + waiting();
  }

  void barrier(int line) {
    current_->line = line;
    current_->state = State::at_barrier;
    if (at_barrier_ && line != barrier_line_) return fail("divergent __syncthreads");
    barrier_line_ = line;
    if (++at_barrier_ == current_->thread.block_extent.x) {
      at_barrier_ = 0;
      for (auto& f : fibers_)
        if (f->state == State::at_barrier) make_ready(*f);
    }
    leave();
  }

  void make_ready(Fiber& f) {
    f.state = State::ready;
    ready_.push_back(f.number);
  }

  const unsigned char* exchange(unsigned mask, const void* value, unsigned bytes, int line) {
    Warp& w = warps_[current_->number / 32];
    const unsigned lane = current_->number % 32;
    current_->line = line;
    current_->state = State::in_exchange;
    if (!(mask >> lane & 1)) fail("a warp exchange without its own lane");
    if (w.arrived && (w.mask != mask || w.line != line)) fail("divergent warp exchange");
    unsigned char* slots = w.slots[w.generation & 1];
    std::memcpy(slots + slot_bytes * lane, value, bytes);
    w.mask = mask, w.line = line;
    w.arrived |= 1u << lane;
    if (w.arrived == mask) {
      w.arrived = 0;
      ++w.generation;
      for (unsigned l = 0; l < 32; ++l)
        if (mask >> l & 1) make_ready(*fibers_[current_->number / 32 * 32 + l]);
    }
    leave();
    return slots;
  }

  KernelEntry entry_ = nullptr;
  void** arguments_ = nullptr;
  Stack main_;
  Fiber* current_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Warp> warps_;
  std::vector<unsigned> ready_;
  unsigned live_ = 0, at_barrier_ = 0;
  int barrier_line_ = 0;
  uint64_t random_ = 0;
  std::string failure_;
};

std::string whole_file(const std::filesystem::path& path) {
  std::ostringstream s;
  s << std::ifstream(path).rdbuf();
  return s.str();
}

// A new directory that goes with the object.
struct TemporaryDirectory {
  std::filesystem::path path;
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "frit-cuda-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary directory");
    path = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

template <class F> F symbol(void* library, const std::string& name) {
  void* address = dlsym(library, name.c_str());
  if (!address) throw std::runtime_error("CUDA emulator: no symbol " + name);
  return reinterpret_cast<F>(address);
}

}  // namespace

Module::Module(const std::vector<frit::jit::CudaSource>& sources) {
  const TemporaryDirectory directory;
  const auto source = directory.path / "kernels.cpp", library = directory.path / "kernels.so", log = directory.path / "log";
  std::ofstream out(source);
  out << "#include \"cuda_emulator_device.h\"\n";
  for (const auto& s : sources)
    out << s.text << "FRIT_EMULATED_ENTRY(program_" << s.name.substr(5) << ", " << s.name << ")\n";
  out.close();
  const std::string command = "c++ -std=c++17 -O0 -w -fPIC -shared -fvisibility=hidden -ffp-contract=off -fwrapv -I '" FRIT_SOURCE_DIR "/tests/support' '" +
                              source.string() + "' -o '" + library.string() + "' > '" + log.string() + "' 2>&1";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("CUDA emulator: the host compiler failed\n" + whole_file(log).substr(0, 8000));
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw std::runtime_error(std::string("CUDA emulator: ") + dlerror());
  symbol<SetHooks>(library_, "frit_set_hooks")(&Scheduler::instance().hooks);
}

Module::~Module() {
  if (library_) dlclose(library_);
}

void Module::launch(const std::string& kernel, unsigned blocks, unsigned threads, void** arguments, uint64_t seed) const {
  unsigned char *shared = nullptr, *shared_end = nullptr;
  symbol<void (*)(unsigned char**, unsigned char**)>(library_, "frit_shared_range")(&shared, &shared_end);
  Scheduler::instance().run(symbol<KernelEntry>(library_, kernel + "_entry"), arguments, blocks, threads, seed, shared, shared_end);
}

}  // namespace cuda_emulator
