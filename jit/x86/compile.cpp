// Block programs to machine code: the frame, the loop over instances, the loop nests of the stores. See emitter.h for how
// the code of a value finds its place. Start with compile_x86 and Emitter::run.
#include "jit/x86/compile.h"

#include <algorithm>
#include <stdexcept>

#include "jit/x86/levels.h"
#include "runtime/code_memory.h"
#include "runtime/cpu.h"

namespace frit::jit {
namespace x86_code {

namespace {
using asmjit::x86::ptr;
}

Emitter::Emitter(const Program& p, const CpuSchedule& schedule, asmjit::CodeHolder& code)
    : p_(p), a_(p), schedule_(schedule), cc_(&code) {
  cc_.addEncodingOptions(asmjit::EncodingOptions::kOptimizeForSize);
}

void Emitter::run() {
  using asmjit::FuncSignatureT;
  asmjit::FuncNode* function =
      cc_.addFunc(FuncSignatureT<void, const void*, int64_t, int64_t, int64_t, int64_t>(asmjit::CallConvId::kX64SystemV));
  function->frame().setAvxEnabled();
  function->frame().setAvxCleanup();
  args_ = cc_.newGpq(), begin_ = cc_.newGpq(), end_ = cc_.newGpq(), lane_begin_ = cc_.newGpq(), lane_end_ = cc_.newGpq();
  function->setArg(0, args_);
  function->setArg(1, begin_);
  function->setArg(2, end_);
  function->setArg(3, lane_begin_);
  function->setArg(4, lane_end_);
  pool_label_ = cc_.newLabel();
  pool_ = {{~0ull, ~0ull, ~0ull, ~0ull}, {0, 0, 0, 0}};  // adjacent: the masks of tails are read across the two
  pool_index_ = {{pool_[0], 0}, {pool_[1], 1}};
  instance_loop();
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
  cc_.bind(done);
}

void Emitter::emit_instance(Level& instance) {
  for (const SinkGroup& g : a_.sinks) emit_group(g, instance);
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
  const int unroll = unroll_for(plan);
  const auto run_strips = [&](Level& parent, const Gp& begin, const Gp& end) {
    const Gp i = cc_.newGpq();
    cc_.mov(i, begin);
    strips(parent, vector_axis, i, end, unroll, plan, [&](Level& strip, int) { emit_stores(g, needed, &strip); });
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
    if (!columns) return run_strips(level, begin, end);
    blocks_of_columns(level, vector_axis, begin, end, [&](Level& block) {
      nest(nest, last, block, [&](Level& inside) { run_strips(inside, block.index, block.end); });
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
  x86_code::Emitter emitter(program, schedule, code);
  emitter.run();
  CpuKernel kernel;
  kernel.lane_split = emitter.analysis().lane_split;
  kernel.ordered = emitter.analysis().ordered;
  kernel.name = program.name;
  return kernel;
}

}  // namespace

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
