// Micro-kernels of the matrix product, written with AsmJit's Assembler. Start at TileEmitter::emit. A kernel holds a tile of
// C in registers, runs down one K panel (one fma chain per element, ascending k, from +0), then stores or adds to C; it
// walks `tiles` row tiles in one call. Kernels are found in a flat table of atomic pointers and live for ever.
//
// Registers: rdi arguments · r13 A of this tile · rax, rbp A of rows 0..2 and 3..5 · r8, rsi A's row and column steps ·
// r15 B · r10 B's row step · r9 packed strip being written · rcx C · r11 C's row step · r14 tiles left · rdx k left ·
// r12 bytes to prefetch ahead in B · rbx mask, or next rows to prefetch. The accumulators are the highest ymm registers.
#include <asmjit/x86.h>
#include <atomic>
#include <mutex>
#include <new>
#include <string>
#include <vector>
#include "jit/x86/product_parts.h"
#include "runtime/code_memory.h"
#include "runtime/error.h"

namespace frit::jit::products {

alignas(64) const int32_t mask_words[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

namespace {
using namespace asmjit::x86;
using asmjit::Label;

constexpr int unroll = 4;
constexpr int register_bytes = 32;

class TileEmitter {
 public:
  TileEmitter(Assembler& assembler, const TileKey& key)
      : a(assembler),
        q(key),
        size(key.wide ? 8 : 4),
        first_accumulator(16 - key.rows * key.vectors),
        row_bytes(key.vectors * register_bytes),
        prefetch_next(key.prefetch && key.right == RightMode::Packed) {}
  void emit();

 private:
  Ymm accumulator(int row, int vector) const { return ymm(first_accumulator + row * q.vectors + vector); }
  void broadcast(Ymm d, const Mem& m) { q.wide ? a.vbroadcastsd(d, m) : a.vbroadcastss(d, m); }
  void fma(Ymm sum, Ymm x, Ymm y) { q.wide ? a.vfmadd231pd(sum, x, y) : a.vfmadd231ps(sum, x, y); }
  template <class X>
  void add(Ymm d, Ymm x, const X& y) { q.wide ? a.vaddpd(d, x, y) : a.vaddps(d, x, y); }
  Mem argument(size_t offset) const { return ptr(rdi, int32_t(offset)); }
  void load_arguments();
  void start_tile();
  void load_left(Ymm d, int step, int row);
  void load_right(Ymm d, int step, int vector);
  void one_step(int step);
  void advance(int steps);
  void panel();
  void finish_tile();

  Assembler& a;
  const TileKey q;
  const int size, first_accumulator, row_bytes;
  const bool prefetch_next;
};

void TileEmitter::load_arguments() {
  a.mov(r13, argument(offsetof(TileArgs, a)));
  a.mov(rcx, argument(offsetof(TileArgs, c)));
  a.mov(r14, argument(offsetof(TileArgs, tiles)));
  a.mov(r8, argument(offsetof(TileArgs, a_row)));
  a.mov(rsi, argument(offsetof(TileArgs, a_col)));
  a.mov(r10, argument(offsetof(TileArgs, b_row)));
  a.mov(r11, argument(offsetof(TileArgs, c_row)));
  if (q.prefetch && !prefetch_next) a.imul(r12, r10, prefetch_rows);
  if (prefetch_next) a.mov(rbx, argument(offsetof(TileArgs, next)));
  if (q.masked && q.right != RightMode::Packed) a.mov(rbx, argument(offsetof(TileArgs, mask)));
}

void TileEmitter::start_tile() {
  for (int i = first_accumulator; i < 16; i++) a.vxorps(ymm(i), ymm(i), ymm(i));
  a.mov(rax, r13);
  if (q.left == LeftMode::Rows && q.rows > 3) {
    a.lea(rbp, ptr(rax, r8, 1));
    a.add(rbp, r8);
  }
  a.mov(r15, argument(offsetof(TileArgs, b)));
  if (q.right == RightMode::PackOnUse) a.mov(r9, argument(offsetof(TileArgs, packed)));
  if (!q.accumulate) return;
  a.mov(rdx, rcx);
  for (int i = 0; i < q.rows; i++) {
    for (int line = 0; line < row_bytes; line += 64) a.prefetcht0(ptr(rdx, line));
    a.add(rdx, r11);
  }
}

void TileEmitter::load_left(Ymm d, int step, int row) {
  if (q.left == LeftMode::Packed) return broadcast(d, ptr(rax, (step * q.rows + row) * size));
  if (q.left == LeftMode::Columns) return broadcast(d, ptr(rax, row * size));
  const Gp base = row < 3 ? rax : rbp;
  if (row % 3 == 0) return broadcast(d, ptr(base, step * size));
  broadcast(d, ptr(base, r8, row % 3 - 1, step * size));
}

void TileEmitter::load_right(Ymm d, int step, int vector) {
  const int packed_offset = step * row_bytes + vector * register_bytes;
  if (q.right == RightMode::Packed) return (void)a.vmovaps(d, ptr(r15, packed_offset));
  if (q.masked && vector == q.vectors - 1) {  // the mask goes through the destination: no register is held for it
    a.vmovups(d, ptr(rbx));
    a.vmaskmovps(d, d, ptr(r15, vector * register_bytes));
  } else {
    a.vmovups(d, ptr(r15, vector * register_bytes));
  }
  if (q.right == RightMode::PackOnUse) a.vmovaps(ptr(r9, packed_offset), d);
}

// The side with fewer operands is held in registers, the other passes through.
void TileEmitter::one_step(int step) {
  if (q.rows < q.vectors) {
    for (int i = 0; i < q.rows; i++) load_left(ymm(i), step, i);
    const int free = first_accumulator - q.rows;
    for (int v = 0; v < q.vectors; v++) {
      const Ymm b = ymm(q.rows + v % free);
      load_right(b, step, v);
      for (int i = 0; i < q.rows; i++) fma(accumulator(i, v), b, ymm(i));
    }
  } else {
    for (int v = 0; v < q.vectors; v++) load_right(ymm(v), step, v);
    const int free = first_accumulator - q.vectors;
    for (int i = 0; i < q.rows; i++) {
      const Ymm x = ymm(q.vectors + i % free);
      load_left(x, step, i);
      for (int v = 0; v < q.vectors; v++) fma(accumulator(i, v), ymm(v), x);
    }
  }
  if (q.right != RightMode::Packed) {
    if (q.prefetch)
      for (int line = 0; line < row_bytes; line += 64) a.prefetcht0(ptr(r15, r12, 0, line));
    a.add(r15, r10);
  }
  if (q.left == LeftMode::Columns) a.add(rax, rsi);
}

void TileEmitter::advance(int steps) {
  if (q.left == LeftMode::Packed) a.add(rax, steps * q.rows * size);
  if (q.left == LeftMode::Rows) a.add(rax, steps * size);
  if (q.left == LeftMode::Rows && q.rows > 3) a.add(rbp, steps * size);
  if (q.right == RightMode::Packed) a.add(r15, steps * row_bytes);
  if (q.right == RightMode::PackOnUse) a.add(r9, steps * row_bytes);
}

void TileEmitter::panel() {
  const Label loop = a.newLabel(), tail = a.newLabel(), tail_loop = a.newLabel(), end = a.newLabel();
  a.mov(rdx, argument(offsetof(TileArgs, k)));
  a.sub(rdx, unroll);
  a.jl(tail);
  a.align(asmjit::AlignMode::kCode, 32);
  a.bind(loop);
  for (int step = 0; step < unroll; step++) one_step(step);
  if (prefetch_next) {  // one row of the next strip for each round
    for (int line = 0; line < row_bytes; line += 64) a.prefetcht1(ptr(rbx, line));
    a.add(rbx, r10);
  }
  advance(unroll);
  a.sub(rdx, unroll);
  a.jge(loop);
  a.bind(tail);
  a.add(rdx, unroll);
  a.jz(end);
  a.bind(tail_loop);
  one_step(0);
  advance(1);
  a.dec(rdx);
  a.jnz(tail_loop);
  a.bind(end);
}

void TileEmitter::finish_tile() {
  const Ymm mask = ymm(0), old = ymm(1);  // operands are no longer needed
  if (q.masked) {
    a.mov(rdx, argument(offsetof(TileArgs, mask)));
    a.vmovups(mask, ptr(rdx));
  }
  for (int i = 0; i < q.rows; i++) {
    for (int v = 0; v < q.vectors; v++) {
      const Ymm x = accumulator(i, v);
      const Mem place = ptr(rcx, v * register_bytes);
      const bool part = q.masked && v == q.vectors - 1;
      if (q.accumulate && part) {
        a.vmaskmovps(old, mask, place);
        add(x, old, x);
      } else if (q.accumulate) {
        add(x, x, place);
      }
      if (part)
        a.vmaskmovps(place, mask, x);
      else
        a.vmovups(place, x);
    }
    a.add(rcx, r11);
  }
}

void TileEmitter::emit() {
  const Gp saved[] = {rbx, rbp, r12, r13, r14, r15};
  for (const Gp& r : saved) a.push(r);
  load_arguments();
  const Label tile = a.newLabel();
  a.bind(tile);
  start_tile();
  panel();
  finish_tile();
  a.add(r13, argument(offsetof(TileArgs, a_step)));
  a.dec(r14);
  a.jnz(tile);
  a.vzeroupper();
  for (int i = 5; i >= 0; i--) a.pop(saved[i]);
  a.ret();
}

std::string kernel_name(const TileKey& q) {
  static const char* const left[] = {"packed", "rows", "columns"};
  static const char* const right[] = {"packed", "rows", "packonuse"};
  return std::string("product_") + (q.wide ? "f64_" : "f32_") + std::to_string(q.rows) + "x" + std::to_string(q.vectors * (q.wide ? 4 : 8)) +
         "_" + left[int(q.left)] + "_" + right[int(q.right)] + (q.accumulate ? "_add" : "") + (q.masked ? "_masked" : "") +
         (q.prefetch ? "_prefetch" : "");
}

size_t table_index(const TileKey& q) {
  size_t i = size_t(q.wide);
  i = i * (max_tile_rows + 1) + size_t(q.rows);
  i = i * (max_tile_vectors + 1) + size_t(q.vectors);
  i = i * 3 + size_t(q.left);
  i = i * 3 + size_t(q.right);
  return ((i * 2 + q.accumulate) * 2 + q.masked) * 2 + q.prefetch;
}
constexpr size_t table_size = 2 * (max_tile_rows + 1) * (max_tile_vectors + 1) * 3 * 3 * 8;
std::atomic<TileKernel> table[table_size];

struct ErrorThrower : asmjit::ErrorHandler {
  void handleError(asmjit::Error, const char* message, asmjit::BaseEmitter*) override {
    throw InternalError(std::string("product kernel: ") + message);
  }
};

TileKernel build(const TileKey& key) {
  static std::mutex mutex;
  static auto* kept = new std::vector<Code>;
  std::lock_guard lock(mutex);
  std::atomic<TileKernel>& slot = table[table_index(key)];
  if (TileKernel found = slot.load(std::memory_order_acquire)) return found;
  asmjit::CodeHolder code;
  ErrorThrower thrower;
  code.init(asmjit::Environment::host());
  code.setErrorHandler(&thrower);
  Assembler assembler(&code);
  TileEmitter(assembler, key).emit();
  kept->push_back(place_code(code, kernel_name(key)));
  const auto entry = reinterpret_cast<TileKernel>(reinterpret_cast<uintptr_t>(kept->back().entry));
  slot.store(entry, std::memory_order_release);
  return entry;
}

}  // namespace

TileKernel tile_kernel(const TileKey& key) {
  const TileKernel found = table[table_index(key)].load(std::memory_order_acquire);
  return found ? found : build(key);
}

}  // namespace frit::jit::products
