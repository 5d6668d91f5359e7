// Block programs to machine code: the frame, the loop over instances, the loop nests of the stores. See emitter.h for how
// the code of a value finds its place. Start with compile_x86 and Emitter::run.
#include "jit/x86/compile.h"

#include <algorithm>
#include <stdexcept>

#include "jit/x86/levels.h"
#include "runtime/buffer.h"
#include "runtime/code_memory.h"
#include "runtime/cpu.h"

namespace frit::jit {
namespace x86_code {

namespace {
using asmjit::x86::ptr;

constexpr size_t most_frame_bytes = size_t(2) << 20;
// What is stored past the caches: more than the last one holds; or, where the second is so large that the one behind it is hardly quicker than
// memory (measured on Sapphire Rapids: results of 12 MiB a third quicker), than four of that.
size_t streaming_bytes() {
  const size_t l2 = size_t(cpu_info().l2_bytes);
  return uses_avx512() && l2 >= size_t(1) << 20 ? 4 * l2 : size_t(32) << 20;
}

}

Emitter::Emitter(const Program& p, Quotients quotients, const CpuSchedule& schedule, asmjit::CodeHolder& code)
    : p_(p), a_(p), quotients_(std::move(quotients)), scalings_(uses_avx512() ? find_scalings(p) : Scalings()), schedule_(schedule), avx512_(uses_avx512()), cc_(&code) {
  cc_.addEncodingOptions(asmjit::EncodingOptions::kOptimizeForSize);
}

void Emitter::run() {
  using asmjit::FuncSignatureT;
  asmjit::FuncNode* function =
      cc_.addFunc(FuncSignatureT<void, const void*, int64_t, int64_t, int64_t, int64_t, void*>(asmjit::CallConvId::kX64SystemV));
  function->frame().setAvxEnabled();
  function->frame().setAvxCleanup();
  if (avx512_) function->frame().setAvx512Enabled();
  args_ = cc_.newGpq(), begin_ = cc_.newGpq(), end_ = cc_.newGpq(), lane_begin_ = cc_.newGpq(), lane_end_ = cc_.newGpq(), scratch_ = cc_.newGpq();
  function->setArg(0, args_);
  function->setArg(1, begin_);
  function->setArg(2, end_);
  function->setArg(3, lane_begin_);
  function->setArg(4, lane_end_);
  function->setArg(5, scratch_);
  pool_label_ = cc_.newLabel();
  pool_ = {{~0ull, ~0ull, ~0ull, ~0ull}, {0, 0, 0, 0}};  // adjacent: the masks of tails are read across the two
  pool_index_ = {{pool_[0], 0}, {pool_[1], 1}};
  instance_loop();
  size_t frame = kept_bytes_;
  for (const Arena& a : arenas_) frame += a.bytes;
  if (frame > most_frame_bytes) throw std::runtime_error("block program " + p_.name + ": its nested reductions need too much of the stack");
  cc_.endFunc();
  cc_.align(asmjit::AlignMode::kData, 32);
  cc_.bind(pool_label_);
  cc_.embed(pool_.data(), pool_.size() * 32);
  cc_.finalize();
}

// Instances [begin, end) in ascending order; several grid axes are counted like an odometer.
void Emitter::instance_loop() {
  const Label top = cc_.newLabel(), done = cc_.newLabel(), next = cc_.newLabel();
  const int axes = a_.grid_count;
  cc_.cmp(begin_, end_);
  cc_.jge(done);
  Level root = open(LevelKind::root, nullptr, -1, Gp());
  root_ = &root;
  streamed_ = cc_.newGpq();
  std::vector<Gp> index(static_cast<size_t>(axes)), extent(static_cast<size_t>(axes));
  for (int a = 1; a < axes; ++a) extent[size_t(a)] = gp(p_.axes[size_t(a)].extent, &root);
  suspend(root);
  if (axes == 1) index[0] = begin_;
  if (axes > 1) {
    const Label started = cc_.newLabel();
    for (Gp& g : index) {
      g = cc_.newGpq();
      cc_.xor_(g, g);
    }
    cc_.test(begin_, begin_);
    cc_.jz(started);
    cc_.mov(index[0], begin_);
    for (int a = axes - 1; a > 0; --a) {
      cc_.xor_(index[size_t(a)], index[size_t(a)]);
      cc_.div(index[size_t(a)], index[0], extent[size_t(a)]);
    }
    cc_.bind(started);
  }
  cc_.bind(top);
  {
    Level instance = open(LevelKind::instance, &root, -1, Gp());
    for (size_t v = 0; v < p_.instrs.size(); ++v) {
      const Instr& i = p_.instrs[v];
      if (i.op == Op::index && int(i.imm) < axes) new_rep(Id(v), &instance).g = index[i.imm];
    }
    emit_instance(instance);
  }
  for (int a = axes - 1; a > 0; --a) {
    cc_.inc(index[size_t(a)]);
    cc_.cmp(index[size_t(a)], extent[size_t(a)]);
    cc_.jl(next);
    cc_.xor_(index[size_t(a)], index[size_t(a)]);
    if (a == 1) cc_.inc(index[0]);
  }
  cc_.bind(next);
  cc_.inc(begin_);
  cc_.cmp(begin_, end_);
  cc_.jl(top);
  resume(root);
  if (elements_in_all_.isValid()) {
    cc_.test(streamed_, streamed_);
    cc_.jz(done);
    cc_.sfence();
  }
  cc_.bind(done);
}

void Emitter::emit_instance(Level& instance) {
  std::vector<const SinkGroup*> done;
  for (const SinkGroup& g : a_.sinks) {
    if (std::find(done.begin(), done.end(), &g) != done.end()) continue;
    const SinkGroup* const beside = stores_beside(g);
    stores_beside_ = beside;
    emit_group(g, instance);
    if (beside && !std::exchange(stores_beside_, nullptr)) done.push_back(beside);
  }
}

// All that a group stores in one level. What an earlier instruction reads is read before a later store writes.
void Emitter::emit_stores(const SinkGroup& g, const std::vector<Id>& needed, Level* l) {
  size_t at = 0;
  for (size_t n = 0; n < g.stores.size(); ++n) {
    const Id s = g.stores[n];
    if (n + 1 < g.stores.size())
      for (; at < needed.size() && needed[at] < s; ++at)
        if (instr(needed[at]).op == Op::load || instr(needed[at]).op == Op::reduce) rep(needed[at], l);
    emit_store(s, l);
  }
}

// The product of all extents: about as many elements are written.
Gp Emitter::elements_in_all() {
  if (elements_in_all_.isValid()) return elements_in_all_;
  At at(*this, root_);
  cc_.xor_(streamed_, streamed_);
  const Gp first = gp(p_.axes[0].extent, root_);
  if (p_.axes.size() == 1) return elements_in_all_ = first;
  elements_in_all_ = cc_.newGpq();
  cc_.mov(elements_in_all_, first);
  for (size_t a = 1; a < p_.axes.size(); ++a) cc_.imul(elements_in_all_, gp(p_.axes[a].extent, root_));
  return elements_in_all_;
}

// Results that are larger than the caches bypass them where their addresses allow: that saves reading them first. What remains
// after the full strips, and the rest of the time all, goes the usual way.
template <class Run>
void Emitter::run_streaming(const SinkGroup& g, const StripPlan& plan, Level& level, const Gp& begin, const Gp& end, Run run) {
  const int axis = 15 - std::countl_zero(g.axes);
  const Gp i = cc_.newGpq();
  cc_.mov(i, begin);
  std::vector<Access> stores;
  for (Id store : g.stores) {
    const Instr& s = instr(store);
    if (size_of(memory_dtype(s.in[0])) < 4 || s.in[3] != no_value || !a_.affine(s.in[1], axis)) return run(plan, level, i, end, Rest::masked);
    Level probe = open_strip(&level, axis, begin, 0, plan);
    stores.push_back(access(s.in[0], s.in[1], &probe));
    if (stores.back().kind != Access::contiguous) return run(plan, level, i, end, Rest::masked);
  }
  const Gp all = elements_in_all();
  const Label normal = cc_.newLabel();
  suspend(level);
  cc_.test(scratch_.r8(), 1);
  cc_.jnz(normal);
  cc_.cmp(all, int32_t(streaming_bytes() / size_of(stores[0].memory)));
  cc_.jl(normal);
  const Gp misaligned = cc_.newGpq(), address = cc_.newGpq();
  for (const Access& x : stores) {
    cc_.lea(&x == &stores[0] ? misaligned : address, x.at());
    if (&x != &stores[0]) cc_.or_(misaligned, address);
  }
  cc_.test(misaligned.r8(), plan.zmm ? 63 : 31);
  cc_.jnz(normal);
  {
    StripPlan past_caches = plan;
    past_caches.streaming = true;
    Level inside = open(LevelKind::loop, &level, -1, Gp());
    cc_.mov(streamed_, 1);
    run(past_caches, inside, i, end, Rest::none);
  }
  cc_.bind(normal);
  {
    Level inside = open(LevelKind::loop, &level, -1, Gp());
    run(plan, inside, i, end, Rest::masked);
  }
  resume(level);
}

void Emitter::emit_group(const SinkGroup& g, Level& instance) {
  if (!g.axes) return emit_stores(g, a_.needed(g.stores), &instance);
  const int vector_axis = 15 - std::countl_zero(g.axes);
  const StripPlan plan = plan_of(g.stores, vector_axis);
  const std::vector<Id>& needed = plan.needed;
  // Column reduces want their block outside of the loops that they do not depend on.
  AxisMask first = AxisMask(g.axes & ~axis_bit(vector_axis)), last = 0;
  const bool columns = wants_columns(needed, vector_axis);
  if (columns) {
    AxisMask of_columns = 0;
    for (Id v : needed)
      if (a_.is_reduce(v) && a_.varies(v, vector_axis)) of_columns |= a_.depends[v];
    last = first & AxisMask(~of_columns);
    first &= of_columns;
  }
  const auto run_strips = [&](const StripPlan& with, Level& parent, const Gp& i, const Gp& end, Rest rest) {  // i is advanced
    const int unroll = schedule_.unroll ? schedule_.unroll : with.unroll;
    strips(parent, vector_axis, i, end, unroll, with, [&](Level& strip, int) { emit_stores(g, with.needed, &strip); }, rest);
  };
  const auto nest = [&](auto&& self, AxisMask axes, Level& level, auto&& inner) -> void {
    if (!axes) return inner(level);
    const int axis = std::countr_zero(axes);
    loop(level, axis, Gp(), gp(p_.axes[size_t(axis)].extent, &level),
         [&](Level& inside) { self(self, AxisMask(axes & (axes - 1)), inside, inner); });
  };
  nest(nest, first, instance, [&](Level& level) {
    Gp begin = cc_.newGpq(), end = gp(p_.axes[size_t(vector_axis)].extent, &level);
    if (a_.lane_split && vector_axis == a_.last_block) {
      const Gp stop = cc_.newGpq();
      cc_.mov(stop, end);
      cc_.cmp(stop, lane_end_);
      cc_.cmovg(stop, lane_end_);
      begin = lane_begin_, end = stop;
    } else {
      cc_.xor_(begin, begin);
    }
    if (!columns) {
      plan_stashes(g.stores, vector_axis, level);
      const Stashes stashes = stashes_for(g.stores, vector_axis, &level);
      return run_streaming(g, stashes.empty() ? plan : plan_of(g.stores, vector_axis, stashes), level, begin, end, run_strips);
    }
    blocks_of_columns(level, vector_axis, begin, end, [&](Level& block) {
      nest(nest, last, block, [&](Level& inside) {
        const Gp i = cc_.newGpq();
        cc_.mov(i, block.index);
        run_strips(plan, inside, i, block.end, Rest::masked);
      });
    });
  });
}

}  // namespace x86_code

namespace {

struct ThrowingHandler : asmjit::ErrorHandler {
  explicit ThrowingHandler(const std::string& program) : name(program) {}
  void handleError(asmjit::Error, const char* message, asmjit::BaseEmitter*) override {
    throw std::runtime_error("block program " + name + ": " + message);
  }
  const std::string& name;
};

// Emits the program into `code`; the rest of the kernel's description.
CpuKernel emit(const kernels::Program& program, const CpuSchedule& schedule, asmjit::CodeHolder& code) {
  if (!cpu_info().generates_code()) throw std::runtime_error("code generation needs a processor with AVX2, FMA and F16C");
  kernels::Program prepared = program;
  x86_code::Quotients quotients = x86_code::prepare_quotients(prepared);
  x86_code::Emitter emitter(prepared, std::move(quotients), schedule, code);
  emitter.run();
  CpuKernel kernel;
  kernel.lane_split = emitter.analysis().lane_split;
  kernel.ordered = emitter.analysis().ordered;
  kernel.fixed_address = emitter.fixed_address();
  kernel.scratch_bytes = emitter.scratch_bytes(), kernel.scratch_slot = emitter.scratch_slot();
  kernel.name = program.name;
  return kernel;
}

}  // namespace

// Of short rows the thread keeps it; what long ones need is tensors' memory, which is counted and given back.
void CpuKernel::run_with_scratch(const kernels::Slot* args, int64_t begin, int64_t end, int64_t lane_begin, int64_t lane_end) const {
  constexpr size_t line = 64, most_kept = size_t(256) << 10;
  const size_t bytes = (size_t(args[scratch_slot]) + line) * scratch_bytes;
  if (bytes > most_kept) {
    struct Memory {
      size_t bytes;
      void* data = allocate(bytes);
      ~Memory() { deallocate(data, bytes); }
    } const memory{bytes};
    return entry(args, begin, end, lane_begin, lane_end, static_cast<char*>(memory.data));
  }
  static thread_local std::vector<char> kept;
  if (kept.size() < bytes + line) kept = std::vector<char>(bytes + line);
  entry(args, begin, end, lane_begin, lane_end, kept.data() + (line - reinterpret_cast<uintptr_t>(kept.data()) % line));
}

CpuKernel compile_x86(const kernels::Program& program, const CpuSchedule& schedule) {
  ThrowingHandler handler(program.name);
  asmjit::CodeHolder code;
  code.init(asmjit::Environment::host());
  code.setErrorHandler(&handler);
  CpuKernel kernel = emit(program, schedule, code);
  const Code placed = place_code(code, program.name);
  kernel.entry = reinterpret_cast<CpuEntry>(reinterpret_cast<uintptr_t>(placed.entry));
  kernel.code_bytes = uint32_t(placed.bytes);
  kernel.code = placed.owner;
  return kernel;
}

std::string disassembly_x86(const kernels::Program& program, const CpuSchedule& schedule) {
  ThrowingHandler handler(program.name);
  asmjit::StringLogger logger;
  asmjit::CodeHolder code;
  code.init(asmjit::Environment::host());
  code.setErrorHandler(&handler);
  code.setLogger(&logger);
  emit(program, schedule, code);
  return logger.data();
}

}  // namespace frit::jit

// Debian's AsmJit is built with its self-checks. This one compares every register with every value at each jump, half of
// the time of a compile; being a weak symbol there, it gives way to this one. (Other builds have no such function.)
extern "C" bool frit_asmjit_assignment_verify(const void*) asm("_ZN6asmjit8_abi_1_912RAAssignment6verifyEv");
bool frit_asmjit_assignment_verify(const void*) { return true; }
