// CUDA source: golden text, what the emulator catches, and NVRTC where the toolkit is there. (What the kernels compute is
// in test_cuda_kernels.cpp.) Run with FRIT_UPDATE_GOLDEN=1 to write the golden files anew after a wanted change.
#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "jit/cuda/generate.h"
#include "tests/support/cuda_emulator.h"
#include "tracer/scalar_math.h"

using namespace frit;
using namespace frit::kernels;

namespace {

// y = max(x * scale + bias[column], 0), rows by columns
Program bias_relu(Dtype d) {
  ProgramBuilder b(std::string("bias_relu_") + dtype_short_name(d));
  const Value x = b.pointer(d), bias = b.pointer(d), y = b.pointer(d, true), rows = b.integer(), columns = b.integer();
  const Value scale = b.number(compute_dtype(d));
  b.axis(AxisKind::grid, rows);
  b.axis(AxisKind::block, columns);
  const Value at = b.add(b.mul(b.index(0), columns), b.index(1));
  const Value v = b.add(b.mul(b.load(x, at), scale), b.load(bias, b.index(1)));
  b.store(y, at, b.apply(Prim::max, b.dtype(v), {v, b.constant(0, b.dtype(v))}));
  return b.finish();
}

// softmax over the axis that varies fastest, or over the other one
Program softmax(Dtype d, bool fastest) {
  ProgramBuilder b(std::string("softmax_") + dtype_short_name(d) + (fastest ? "" : "_columns"));
  const Value x = b.pointer(d), y = b.pointer(d, true), kept = b.integer(), reduced = b.integer();
  int row, column;
  if (fastest) {
    row = b.axis(AxisKind::grid, kept);
    column = b.axis(AxisKind::block, reduced);
  } else {
    column = b.axis(AxisKind::block, reduced);
    row = b.axis(AxisKind::block, kept);
  }
  const Value at = fastest ? b.add(b.mul(b.index(row), reduced), b.index(column)) : b.add(b.mul(b.index(column), kept), b.index(row));
  const Value v = b.load(x, at), top = b.reduce(Reduce::max, v, column);
  scalar::Builder s;
  const scalar::Function shifted = s.finish({scalar::exp(s.input(0, b.dtype(v)) - s.input(1, b.dtype(v)))});
  const Value e = b.expand(shifted, {v, top}, {})[0];
  b.store(y, at, b.apply(Prim::div, b.dtype(v), {e, b.reduce(Reduce::sum, e, column)}));
  return b.finish();
}

Program gelu_chain(Dtype d) {
  ProgramBuilder b(std::string("gelu_chain_") + dtype_short_name(d));
  const Value x = b.pointer(d), y = b.pointer(d, true), n = b.integer();
  b.axis(AxisKind::block, n);
  scalar::Builder s;
  const scalar::Expr e = s.input(0, compute_dtype(d));
  b.store(y, b.index(0), b.expand(s.finish({scalar::gelu(scalar::sin(e) * scalar::tanh(e)) + scalar::log1p(scalar::exp(e))}), {b.load(x, b.index(0))}, {})[0]);
  return b.finish();
}

Program argmax_any(Dtype d) {
  ProgramBuilder b(std::string("argmax_any_") + dtype_short_name(d));
  const Value x = b.pointer(d), best = b.pointer(Dtype::Int64, true), zero = b.pointer(Dtype::Bool, true), rows = b.integer(), columns = b.integer();
  b.axis(AxisKind::grid, rows);
  b.axis(AxisKind::block, columns);
  const Value v = b.load(x, b.add(b.mul(b.index(0), columns), b.index(1)));
  b.store(best, b.index(0), b.reduce(Reduce::argmax, v, 1));
  b.store(zero, b.index(0), b.reduce(Reduce::any, b.apply(Prim::eq, Dtype::Bool, {v, b.constant(0, b.dtype(v))}), 1));
  return b.finish();
}

Program scatter_add() {
  ProgramBuilder b("scatter_add");
  const Value index = b.pointer(Dtype::Int64), source = b.pointer(Dtype::Float32), target = b.pointer(Dtype::Float32, true), steps = b.integer(), width = b.integer();
  b.axis(AxisKind::sequential, steps);
  b.axis(AxisKind::block, width);
  const Value at = b.add(b.mul(b.load(index, b.index(0)), width), b.index(1));
  b.store(target, at, b.add(b.load(target, at), b.load(source, b.add(b.mul(b.index(0), width), b.index(1)))));
  return b.finish();
}

// Sums over both block axes: a reduction inside another's loop.
Program nested_sum(Dtype d) {
  ProgramBuilder b(std::string("nested_sum_") + dtype_short_name(d));
  const Value x = b.pointer(d), y = b.pointer(d, true), rows = b.integer(), columns = b.integer();
  b.axis(AxisKind::block, rows);
  b.axis(AxisKind::block, columns);
  const Value v = b.load(x, b.add(b.mul(b.index(0), columns), b.index(1)));
  b.store(y, b.integer_constant(0), b.reduce(Reduce::sum, b.reduce(Reduce::max, v, 1), 0));
  return b.finish();
}

std::vector<Program> representative_programs() {
  std::vector<Program> out = {scatter_add()};
  for (Dtype d : {Dtype::Float32, Dtype::Float16, Dtype::BFloat16, Dtype::Float64}) {
    out.push_back(bias_relu(d));
    out.push_back(softmax(d, true));
    out.push_back(softmax(d, false));
    out.push_back(gelu_chain(d));
    out.push_back(argmax_any(d));
    out.push_back(nested_sum(d));
  }
  return out;
}

struct Compiled {
  int kernels = 0, most_registers = 0, spill_bytes = 0;
};
Compiled compile_all(const std::vector<Program>& programs, int arch) {
  Compiled c;
  for (const Program& p : programs) {
    const jit::CudaImage image = jit::compile_cuda(jit::generate_cuda(p), arch);
    INFO(p.name << "\n" << image.log);
    REQUIRE(image.cubin.size() > 500);
    REQUIRE(std::string(image.cubin.data() + 1, 3) == "ELF");
    REQUIRE(image.registers > 0);
    CHECK(image.spill_bytes == 0);
    ++c.kernels;
    c.most_registers = std::max(c.most_registers, image.registers);
    c.spill_bytes += image.spill_bytes;
  }
  return c;
}

void check_golden(const Program& p) {
  const std::string path = std::string(FRIT_SOURCE_DIR) + "/tests/golden/" + p.name + ".cu", text = jit::generate_cuda(p).text;
  if (const char* update = std::getenv("FRIT_UPDATE_GOLDEN"); update && std::string(update) == "1") std::ofstream(path) << text;
  std::ifstream file(path);
  INFO("golden file " << path << "; FRIT_UPDATE_GOLDEN=1 writes it");
  REQUIRE(file.good());
  std::ostringstream golden;
  golden << file.rdbuf();
  CHECK(golden.str() == text);
}

jit::CudaSource by_hand(const std::string& name, const std::string& body) {
  jit::CudaSource s;
  s.name = "frit_" + name;
  s.text = "namespace program_" + name + " {\nextern \"C\" __global__ void frit_" + name + "(float* p) {\n" + body + "\n}\n}\n";
  return s;
}

}  // namespace

TEST_CASE("cuda: golden source") {
  check_golden(bias_relu(Dtype::Float32));
  check_golden(softmax(Dtype::BFloat16, true));
  check_golden(softmax(Dtype::Float32, false));
}

TEST_CASE("cuda: source is a function of the program") {
  for (const Program& p : representative_programs()) CHECK(jit::generate_cuda(p).text == jit::generate_cuda(parse_program(p.text())).text);
  CHECK_THROWS_AS(jit::generate_cuda(Program{}), std::logic_error);
}

TEST_CASE("cuda: what a launch needs to know") {
  const jit::CudaSource lanes = jit::generate_cuda(bias_relu(Dtype::Float32)), row = jit::generate_cuda(softmax(Dtype::Float32, true)),
                        columns = jit::generate_cuda(softmax(Dtype::Float32, false));
  CHECK((!lanes.row_block && lanes.item_axes == 0b11 && lanes.block_items == 256));
  CHECK((row.row_block && row.item_axes == 0b01 && row.block_items == 1));
  CHECK((columns.row_block && columns.item_axes == 0b10 && columns.block_items == 32));
}

TEST_CASE("cuda emulator: catches divergence, deadlock, missing barriers and unset shared memory") {
  using Catch::Matchers::Contains;
  const cuda_emulator::Module module({
      by_hand("two_barriers", "if (threadIdx.x < 7) __syncthreads();\nelse\n  __syncthreads();"),
      by_hand("left_early", "if (threadIdx.x == 5) return;\n__syncthreads();"),
      by_hand("half_warp", "if (threadIdx.x < 16) p[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);"),
      by_hand("no_barrier", "__shared__ float s[64];\ns[threadIdx.x] = threadIdx.x;\np[threadIdx.x] = s[63 - threadIdx.x];"),
      by_hand("barrier", "__shared__ float s[64];\ns[threadIdx.x] = threadIdx.x;\n__syncthreads();\np[threadIdx.x] = s[63 - threadIdx.x];"),
      by_hand("shuffle", "p[threadIdx.x] = __shfl_xor_sync(0xffffffffu, (float)threadIdx.x, 3);"),
  });
  std::vector<float> out(64);
  float* pointer = out.data();
  void* arguments[] = {&pointer};
  const auto launch = [&](const std::string& name, uint64_t seed) { module.launch("frit_" + name, 2, 64, arguments, seed); };
  for (uint64_t seed = 0; seed < 5; ++seed) {
    INFO("seed " << seed);
    CHECK_THROWS_WITH(launch("two_barriers", seed), Contains("divergent __syncthreads"));
    CHECK_THROWS_WITH(launch("left_early", seed), Contains("deadlock") && Contains("63 threads in __syncthreads") && Contains("1 threads ended"));
    CHECK_THROWS_WITH(launch("half_warp", seed), Contains("deadlock") && Contains("16 threads in a warp exchange"));
    launch("barrier", seed);  // works again after a failure
    for (int k = 0; k < 64; ++k) CHECK(out[size_t(k)] == float(63 - k));
    launch("shuffle", seed);
    for (int k = 0; k < 64; ++k) CHECK(out[size_t(k)] == float(k ^ 3));
    launch("no_barrier", seed);
    if (seed == 0) CHECK(std::isnan(out[0]));  // in order, thread 0 reads what nobody has written
    int unset = 0;
    for (float v : out) unset += std::isnan(v);
    CHECK(unset > 0);
  }
  CHECK_THROWS_WITH(cuda_emulator::Module({by_hand("wrong", "no_such_function();")}), Contains("no_such_function"));
}

TEST_CASE("cuda: NVRTC compiles without spills") {
  if (!jit::nvrtc_available()) {
    CHECK_THROWS_AS(jit::compile_cuda(jit::generate_cuda(scatter_add()), 80), std::runtime_error);
    WARN("no NVRTC here: kernels were not compiled for any GPU");
    return;
  }
  for (int arch : {80, 90, 120}) {
    const Compiled c = compile_all(arch == 90 ? representative_programs() : std::vector<Program>{bias_relu(Dtype::BFloat16), softmax(Dtype::Float16, true), softmax(Dtype::Float32, false)}, arch);
    std::printf("sm_%d: %d kernels compiled, at most %d registers, %d bytes spilled\n", arch, c.kernels, c.most_registers, c.spill_bytes);
    CHECK(c.kernels >= 3);
  }
  jit::CudaSource wrong = jit::generate_cuda(bias_relu(Dtype::Float32));
  wrong.text += "not C++;\n";
  CHECK_THROWS_WITH(jit::compile_cuda(wrong, 90), Catch::Matchers::Contains("error") && Catch::Matchers::Contains("not C++"));
}
