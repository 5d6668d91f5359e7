// Micro-kernels of the matrix product, written with AsmJit's Assembler. Start at TileEmitter::emit. A kernel holds a tile of
// C in registers, runs down one K panel (one fma chain per element, ascending k, from +0), then stores or adds to C; it
// walks `tiles` row tiles in one call, and `strips` of each where B is read in place. Kernels are found in a flat table of atomic pointers and live for ever. With AVX-512 the
// same code has registers twice as wide and twice as many, and opmasks; each element's chain is the same.
//
// Registers: rdi arguments · r13 A of this tile · rax, rbp, r11 A of rows 0, 5 and 10 (Rows) · r8, rsi A's row and column
// steps (Rows: three row steps) · r15 B · r10 B's row step · r9 packed strip being written · rcx C · r11 C's row step at the end of a tile ·
// r14 tiles left · rdx k left · r12 bytes to prefetch ahead in B · rbx mask, or next rows to prefetch · k1 mask (AVX-512). The
// accumulators are the highest vector registers.
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
const int32_t mask_bits[16] = {0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095, 8191, 16383, 32767};

namespace {
using namespace asmjit::x86;
using asmjit::Label;

constexpr int unroll = 4;

class TileEmitter {
 public:
  TileEmitter(Assembler& assembler, const TileKey& key)
      : a(assembler),
        q(key),
        size(key.wide ? 8 : 4),
        register_bytes(key.zmm ? 64 : 32),
        registers(key.zmm ? 32 : 16),
        first_accumulator(registers - key.rows * key.vectors),
        row_bytes(key.vectors * register_bytes),
        prefetch_next(key.prefetch && key.right == RightMode::Packed) {}
  void emit();

 private:
  using Reg = asmjit::x86::Vec;
  using InstId = asmjit::InstId;
  Reg vector(int i) const { return q.zmm ? Reg(zmm(uint32_t(i))) : Reg(ymm(uint32_t(i))); }
  Reg accumulator(int row, int column) const { return vector(first_accumulator + row * q.vectors + column); }
  InstId of_type(InstId narrow, InstId wide) const { return q.wide ? wide : narrow; }
  void broadcast(const Reg& d, const Mem& m) { a.emit(of_type(Inst::kIdVbroadcastss, Inst::kIdVbroadcastsd), d, m); }
  template <class X>
  void fma(const Reg& sum, const Reg& x, const X& y) { a.emit(of_type(Inst::kIdVfmadd231ps, Inst::kIdVfmadd231pd), sum, x, y); }
  template <class X>
  void add(const Reg& d, const Reg& x, const X& y) { a.emit(of_type(Inst::kIdVaddps, Inst::kIdVaddpd), d, x, y); }
  template <class To, class From>
  void move(const To& to, const From& from) { a.emit(Inst::kIdVmovups, to, from); }
  void move_part(const Reg& d, const Mem& m, const Gp& mask);
  Mem every_lane(const Mem& m) const { return q.wide ? m._1to8() : m._1to16(); }
  Mem argument(size_t offset) const { return ptr(rdi, int32_t(offset)); }
  bool walks_strips() const { return q.right == RightMode::Rows; }
  bool partial(int column) const { return q.masked && column == q.vectors - 1; }
  void load_arguments();
  void start_tile();
  Mem left_at(int step, int row) const;
  void load_right(const Reg& d, int step, int column);
  void one_step(int step);
  void advance(int steps);
  void panel();
  void finish_tile();

  Assembler& a;
  const TileKey q;
  const int size, register_bytes, registers, first_accumulator, row_bytes;
  const bool prefetch_next;
};

void TileEmitter::load_arguments() {
  a.mov(r13, argument(offsetof(TileArgs, a)));
  a.mov(rcx, argument(offsetof(TileArgs, c)));
  a.mov(r14, argument(offsetof(TileArgs, tiles)));
  a.mov(r8, argument(offsetof(TileArgs, a_row)));
  if (q.left == LeftMode::Rows)
    a.lea(rsi, ptr(r8, r8, 1));
  else
    a.mov(rsi, argument(offsetof(TileArgs, a_col)));
  a.mov(r10, argument(offsetof(TileArgs, b_row)));
  if (q.prefetch && !prefetch_next) a.imul(r12, r10, prefetch_rows);
  if (prefetch_next) a.mov(rbx, argument(offsetof(TileArgs, next)));
  if (!q.masked) return;
  if (q.zmm) {
    a.mov(rdx, argument(offsetof(TileArgs, mask)));
    a.kmovw(k1, ptr(rdx));
  } else if (q.right != RightMode::Packed) {
    a.mov(rbx, argument(offsetof(TileArgs, mask)));
  }
}

void TileEmitter::start_tile() {
  for (int i = first_accumulator; i < registers; i++) {
    const Reg r = vector(i);
    q.zmm ? a.emit(Inst::kIdVpxord, r, r, r) : a.emit(Inst::kIdVxorps, r, r, r);
  }
  a.mov(rax, r13);
  if (q.left == LeftMode::Rows && q.rows > 5) {
    a.lea(rbp, ptr(rax, r8, 1));
    a.add(rbp, rsi);
    if (q.rows > 10) {
      a.lea(r11, ptr(rbp, r8, 1));
      a.add(r11, rsi);
    }
  }
  a.mov(r15, walks_strips() ? ptr(rsp, 8) : argument(offsetof(TileArgs, b)));
  if (q.right == RightMode::PackOnUse) a.mov(r9, argument(offsetof(TileArgs, packed)));
  if (!q.accumulate) return;
  a.mov(rdx, rcx);
  for (int i = 0; i < q.rows; i++) {
    for (int line = 0; line < row_bytes; line += 64) a.prefetcht0(ptr(rdx, line));
    a.add(rdx, argument(offsetof(TileArgs, c_row)));
  }
}

Mem TileEmitter::left_at(int step, int row) const {
  if (q.left == LeftMode::Packed) return ptr(rax, (step * q.rows + row) * size);
  if (q.left == LeftMode::Columns) return ptr(rax, row * size);
  const Gp base = row < 5 ? rax : row < 10 ? rbp : r11;
  switch (row % 5) {
    case 0: return ptr(base, step * size);
    case 3: return ptr(base, rsi, 0, step * size);
    default: return ptr(base, r8, uint32_t(row % 5 == 1 ? 0 : row % 5 / 2), step * size);
  }
}

// With AVX2 the mask goes through the destination: no register is held for it.
void TileEmitter::move_part(const Reg& d, const Mem& m, const Gp& mask) {
  if (q.zmm) {
    a.k(k1).z().emit(of_type(Inst::kIdVmovups, Inst::kIdVmovupd), d, m);
    return;
  }
  move(d, ptr(mask));
  a.emit(Inst::kIdVmaskmovps, d, d, m);
}

void TileEmitter::load_right(const Reg& d, int step, int column) {
  const int packed_offset = step * row_bytes + column * register_bytes;
  if (q.right == RightMode::Packed) return move(d, ptr(r15, packed_offset));
  const Mem place = ptr(r15, column * register_bytes);
  partial(column) ? move_part(d, place, rbx) : move(d, place);
  if (q.right == RightMode::PackOnUse) move(ptr(r9, packed_offset), d);
}

// The side with fewer operands is held in registers, the other passes through.
void TileEmitter::one_step(int step) {
  if (q.rows < q.vectors) {
    for (int i = 0; i < q.rows; i++) broadcast(vector(i), left_at(step, i));
    const int free = first_accumulator - q.rows;
    for (int v = 0; v < q.vectors; v++) {
      const Reg b = vector(q.rows + v % free);
      load_right(b, step, v);
      for (int i = 0; i < q.rows; i++) fma(accumulator(i, v), b, vector(i));
    }
  } else {
    for (int v = 0; v < q.vectors; v++) load_right(vector(v), step, v);
    const int free = first_accumulator - q.vectors;
    for (int i = 0; i < q.rows; i++) {
      if (q.zmm && q.vectors == 1) {
        fma(accumulator(i, 0), vector(0), every_lane(left_at(step, i)));
        continue;
      }
      const Reg x = vector(q.vectors + i % free);
      broadcast(x, left_at(step, i));
      for (int v = 0; v < q.vectors; v++) fma(accumulator(i, v), vector(v), x);
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
  if (q.left == LeftMode::Rows) {
    a.add(rax, steps * size);
    if (q.rows > 5) a.add(rbp, steps * size);
    if (q.rows > 10) a.add(r11, steps * size);
  }
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
  const Reg mask = vector(0), old = vector(1);  // operands are no longer needed
  if (q.masked && !q.zmm) {
    a.mov(rdx, argument(offsetof(TileArgs, mask)));
    move(mask, ptr(rdx));
  }
  a.mov(r11, argument(offsetof(TileArgs, c_row)));
  for (int i = 0; i < q.rows; i++) {
    for (int v = 0; v < q.vectors; v++) {
      const Reg x = accumulator(i, v);
      const Mem place = ptr(rcx, v * register_bytes);
      if (q.accumulate && partial(v)) {
        if (q.zmm)
          move_part(old, place, rdx);
        else
          a.emit(Inst::kIdVmaskmovps, old, mask, place);
        add(x, old, x);
      } else if (q.accumulate) {
        add(x, x, place);
      }
      if (!partial(v))
        move(place, x);
      else if (q.zmm)
        a.k(k1).emit(of_type(Inst::kIdVmovups, Inst::kIdVmovupd), place, x);
      else
        a.emit(Inst::kIdVmaskmovps, place, mask, x);
    }
    a.add(rcx, r11);
  }
}

void TileEmitter::emit() {
  const Gp saved[] = {rbx, rbp, r12, r13, r14, r15};
  for (const Gp& r : saved) a.push(r);
  load_arguments();
  const Label tile = a.newLabel(), strip = a.newLabel(), next = a.newLabel();
  if (walks_strips()) a.sub(rsp, 24);  // strips left · B of this strip · C of this strip
  a.bind(tile);
  if (walks_strips()) {
    a.mov(rdx, argument(offsetof(TileArgs, strips)));
    a.mov(ptr(rsp), rdx);
    a.mov(rdx, argument(offsetof(TileArgs, b)));
    a.mov(ptr(rsp, 8), rdx);
    a.bind(strip);
    a.mov(ptr(rsp, 16), rcx);
  }
  start_tile();
  panel();
  finish_tile();
  if (walks_strips()) {
    a.dec(qword_ptr(rsp));
    a.jz(next);
    a.add(qword_ptr(rsp, 8), row_bytes);
    a.mov(rcx, ptr(rsp, 16));
    a.add(rcx, row_bytes);
    a.jmp(strip);
    a.bind(next);
    a.mov(rdx, argument(offsetof(TileArgs, strips)));
    a.dec(rdx);
    a.imul(rdx, rdx, row_bytes);
    a.sub(rcx, rdx);
  }
  a.add(r13, argument(offsetof(TileArgs, a_step)));
  a.dec(r14);
  a.jnz(tile);
  if (walks_strips()) a.add(rsp, 24);
  a.vzeroupper();
  for (int i = 5; i >= 0; i--) a.pop(saved[i]);
  a.ret();
}

std::string kernel_name(const TileKey& q) {
  static const char* const left[] = {"packed", "rows", "columns"};
  static const char* const right[] = {"packed", "rows", "packonuse"};
  return std::string("product_") + (q.wide ? "f64_" : "f32_") + (q.zmm ? "avx512_" : "") + std::to_string(q.rows) + "x" +
         std::to_string(q.vectors * (q.zmm ? 64 : 32) / (q.wide ? 8 : 4)) + "_" + left[int(q.left)] + "_" + right[int(q.right)] + (q.accumulate ? "_add" : "") + (q.masked ? "_masked" : "") +
         (q.prefetch ? "_prefetch" : "");
}

size_t table_index(const TileKey& q) {
  size_t i = size_t(q.wide) * 2 + size_t(q.zmm);
  i = i * (max_tile_rows + 1) + size_t(q.rows);
  i = i * (max_tile_vectors + 1) + size_t(q.vectors);
  i = i * 3 + size_t(q.left);
  i = i * 3 + size_t(q.right);
  return ((i * 2 + q.accumulate) * 2 + q.masked) * 2 + q.prefetch;
}
constexpr size_t table_size = 4 * (max_tile_rows + 1) * (max_tile_vectors + 1) * 3 * 3 * 8;
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
