// The op table on CUDA: every pointwise row, lowered as the CPU's kernels are, runs on the emulator and has the bits of the
// row's scalar expression; with the toolkit, NVRTC compiles the same sources for three architectures without spills.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include "jit/cuda/generate.h"
#include "jit/lower.h"
#include "tests/support/cuda_emulator.h"
#include "tracer/numbers.h"
#include "tracer/op_table.h"

using namespace frit;
using namespace frit::tracer;

namespace {

constexpr int64_t count = 45;
constexpr uint64_t seed = 71;

bool takes(const OpRow& r, Dtype d) {
  switch (r.type) {
    case TypeRule::numeric: return d != Dtype::Bool;
    case TypeRule::floating:
    case TypeRule::rounding: return is_floating(d);
    case TypeRule::bits: return !is_floating(d);
    case TypeRule::shifts: return is_integral(d);
    default: return true;
  }
}

struct RowCase {
  Op op;
  Dtype dtype;
  jit::ElementSpec spec;
  kernels::Program program;
  jit::CudaSource source;
};

std::vector<RowCase>& cases() {
  static std::vector<RowCase> all = [] {
    std::vector<RowCase> made;
    for (size_t i = 0; i < size_t(Op::count); ++i) {
      const Op op = Op(i);
      const OpRow& r = row(op);
      if (r.kind != RowKind::pointwise) continue;
      for (Dtype d : {Dtype::Float32, Dtype::Float64, Dtype::BFloat16, Dtype::Float16, Dtype::Int64, Dtype::Int32, Dtype::UInt8, Dtype::Bool}) {
        if (!takes(r, d)) continue;
        RowCase c{op, d, {}, {}, {}};
        c.spec.op = op;
        c.spec.compute = compute_dtype(d);
        if ((op == Op::isnan || op == Op::isinf || op == Op::isfinite) && !is_floating(c.spec.compute)) c.spec.compute = Dtype::Float32;
        for (int k = 0; k <= r.inputs; ++k) {
          c.spec.memory[k] = k == 0 ? (r.type == TypeRule::compare ? Dtype::Bool : d) : r.type == TypeRule::choice && k == 1 ? Dtype::Bool : d;
          c.spec.step[k] = k == 2 ? jit::Step::none : jit::Step::one;  // the second operand repeats
        }
        c.program = jit::lower_elements(c.spec);
        c.program.name += "_" + std::to_string(made.size());
        c.source = jit::generate_cuda(c.program);
        made.push_back(std::move(c));
      }
    }
    return made;
  }();
  return all;
}

struct Column {
  Dtype dtype;
  std::vector<char> bytes;
};
Column random_column(Dtype d, const OpRow& r, std::mt19937_64& random) {
  Column o{d, std::vector<char>(size_t(count) * size_of(d))};
  const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, 1e30, -1};
  for (int64_t i = 0; i < count; ++i) {
    const double unit = double(random() >> 11) * 0x1p-53;
    const double v = random() % 5 == 0 ? special[random() % 8] : r.low + (r.high - r.low) * unit;
    dispatch(d, [&](auto zero) {
      using T = decltype(zero);
      T x;
      if constexpr (std::is_same_v<T, bool>) x = random() & 1;
      else if constexpr (std::is_integral_v<T>) x = random() % 6 == 0 ? std::numeric_limits<T>::min() : T(int64_t(random() % 41) - 20);
      else if constexpr (std::is_same_v<T, double>) x = v;
      else x = T(float(v));
      std::memcpy(o.bytes.data() + size_t(i) * sizeof(T), &x, sizeof(T));
    });
  }
  return o;
}
// Words are equal, or both are NaN.
bool same(Dtype d, uint64_t a, uint64_t b) {
  if (a == b) return true;
  if (d == Dtype::Float64) return std::isnan(word_value<double>(a)) && std::isnan(word_value<double>(b));
  return compute_dtype(d) == Dtype::Float32 && std::isnan(word_value<float>(a)) && std::isnan(word_value<float>(b));
}

}  // namespace

TEST_CASE("cuda rows: every pointwise row has the CPU's bits") {
  std::vector<jit::CudaSource> sources;
  for (const RowCase& c : cases()) sources.push_back(c.source);
  const cuda_emulator::Module module(sources);
  size_t compared = 0;
  for (const RowCase& c : cases()) {
    std::mt19937_64 random(seed + uint64_t(c.op) * 16 + uint64_t(c.dtype));
    const OpRow& r = row(c.op);
    std::vector<Column> in;
    for (int k = 0; k < r.inputs; ++k) in.push_back(random_column(c.spec.memory[k + 1], r, random));
    std::vector<char> out(size_t(count) * size_of(c.spec.memory[0]), char(0x5a));
    std::vector<void*> pointers{out.data()};
    for (Column& o : in) pointers.push_back(o.bytes.data());
    int64_t n = count;
    std::vector<void*> arguments;
    for (void*& p : pointers) arguments.push_back(&p);
    arguments.push_back(&n);
    module.launch(c.source.name, 2, c.source.threads, arguments.data(), seed);

    const scalar::Function f = pointwise_function(c.op, c.spec.compute);
    std::vector<uint64_t> scratch;
    for (int64_t i = 0; i < count; ++i) {
      uint64_t word[3] = {}, result = 0;
      for (int k = 0; k < r.inputs; ++k) {
        const Dtype d = in[k].dtype;
        const char* element = in[k].bytes.data() + (k == 1 ? 0 : size_t(i) * size_of(d));
        const bool condition = r.type == TypeRule::choice && k == 0;
        word[k] = convert_word(load_word(element, d), compute_dtype(d), condition ? Dtype::Bool : c.spec.compute);
      }
      scalar::evaluate(f, word, nullptr, &result, scratch);
      const Dtype stored = c.spec.memory[0];
      uint64_t rounded = result;
      if (stored == Dtype::Float16) rounded = value_word<float>(float(Half(word_value<float>(result))));
      if (stored == Dtype::BFloat16) rounded = value_word<float>(float(BFloat16(word_value<float>(result))));
      const uint64_t got = load_word(out.data() + size_t(i) * size_of(stored), stored);
      INFO(r.name << " " << dtype_name(c.dtype) << " element " << i << ": " << std::hex << got << ", expected " << rounded);
      REQUIRE(same(stored, got, rounded));
      ++compared;
    }
  }
  std::printf("emulated: %zu rows x dtypes, %zu elements compared bit for bit\n", cases().size(), compared);
}

TEST_CASE("cuda rows: NVRTC compiles them for each architecture without spills") {
  if (!jit::nvrtc_available()) {
    std::printf("no NVRTC: not compiled\n");
    return;
  }
  for (int arch : {80, 90, 120}) {
    int kernels = 0, spills = 0, most = 0;
    // Every row in float32; on the architectures beside the first a sample.
    for (const RowCase& c : cases()) {
      if (c.dtype != Dtype::Float32 || (arch != 90 && size_t(c.op) % 8)) continue;
      const jit::CudaImage image = jit::compile_cuda(c.source, arch);
      INFO(c.source.name << "\n" << image.log);
      REQUIRE(image.registers > 0);
      CHECK(image.spill_bytes == 0);
      ++kernels, spills += image.spill_bytes, most = std::max(most, image.registers);
    }
    std::printf("sm_%d: %d rows compiled, %d bytes spilled, at most %d registers\n", arch, kernels, spills, most);
    CHECK(kernels >= 8);
  }
}
