// What g++ makes of the fused loops by itself (-O3 -march=native -ffast-math, with glibc's vector functions), and the memory's speed: a peer
// of bench/compare with the commands of bench/suite.cpp.
//   loops fused     P1's chains as one loop
//   loops memory    a copy (P4: a read) of as many bytes as a row must move, by the quickest of several ways
#include <immintrin.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace {
// By the wall, or the time that the process ran: the latter where others use the machine, too.
bool by_cpu_time = false;
double seconds() {
  timespec now;
  clock_gettime(by_cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

float* memory(size_t bytes) {
  auto* p = static_cast<float*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  std::memset(p, 1, bytes);
  return p;
}
float* numbers(size_t count, uint32_t from = 0, float scale = 1) {
  float* v = memory(count * 4);
  for (size_t i = 0; i < count; i++) v[i] = (float((uint32_t(i) + from) * 2654435761u >> 8 & 1023) / 1024 - 0.5f) * scale;
  return v;
}

void gelu(const float* __restrict x, const float* __restrict w, const float* __restrict b, float* __restrict y, size_t rows, size_t columns) {
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < columns; j++) {
      const float t = x[i * columns + j] * w[j] + b[j];
      y[i * columns + j] = 0.5f * t * (1.0f + erff(t * 0.70710678f));
    }
}
void chain(const float* __restrict x, float* __restrict y, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] = tanhf(sinf(x[i]) * 2 + 1) / (1 + expf(-x[i]));
}

// Copies: the library's, vector stores, vector stores past the caches.
void copy_plain(float* to, const float* from, size_t n) {
  for (size_t i = 0; i + 16 <= n; i += 16) {
    const __m256 a = _mm256_load_ps(from + i), b = _mm256_load_ps(from + i + 8);
    _mm256_store_ps(to + i, a);
    _mm256_store_ps(to + i + 8, b);
  }
}
void copy_past_caches(float* to, const float* from, size_t n) {
  for (size_t i = 0; i + 16 <= n; i += 16) {
    const __m256 a = _mm256_load_ps(from + i), b = _mm256_load_ps(from + i + 8);
    _mm256_stream_ps(to + i, a);
    _mm256_stream_ps(to + i + 8, b);
  }
  _mm_sfence();
}
float read_all(const float* from, size_t n) {
  __m256 s[8] = {};
  for (size_t i = 0; i + 64 <= n; i += 64)
    for (int j = 0; j < 8; j++) s[j] = _mm256_add_ps(s[j], _mm256_load_ps(from + i + 8 * j));
  for (int j = 1; j < 8; j++) s[0] = _mm256_add_ps(s[0], s[j]);
  return s[0][0];
}
volatile float kept;

struct Work {
  std::function<void()> run;
  float* result = nullptr;
  size_t count = 0;
};
Work fused(const std::string& row) {
  const auto gelu_of = [](size_t rows) -> Work {
    float *x = numbers(rows * 768, 0, 4), *w = numbers(768, 3), *b = numbers(768, 5), *y = memory(rows * 768 * 4);
    return {[=] { gelu(x, w, b, y, rows, 768); }, y, rows * 768};
  };
  const auto chain_of = [](size_t n) -> Work {
    float *x = numbers(n, 0, 4), *y = memory(n * 4);
    return {[=] { chain(x, y, n); }, y, n};
  };
  if (row == "P1 gelu(x w + b) [32,768]") return gelu_of(32);
  if (row == "P1 gelu(x w + b) [1024,768]") return gelu_of(1024);
  if (row == "P1 tanh(sin(x) 2 + 1) sigmoid(x) 1e5") return chain_of(100000);
  if (row == "P1 tanh(sin(x) 2 + 1) sigmoid(x) 1e7") return chain_of(10000000);
  return {};
}
Work moved(const std::string& row) {
  static const std::map<std::string, size_t> copies{{"P2 relu(x w + b) [8192,4096]", 8192 * 4096 * 4}, {"P3 softmax [1024,1024]", 1024 * 1024 * 4},
    {"P3 log_softmax [1024,1024]", 1024 * 1024 * 4}, {"P3 layer_norm [4096,768]", 4096 * 768 * 4}, {"P3 rms_norm by hand [4096,768]", 4096 * 768 * 4},
    {"P16 relu(x w + b) [8192,4096] bfloat16", 8192 * 4096 * 2}, {"P16 relu(x w + b) [8192,4096] float16", 8192 * 4096 * 2}};
  static const std::map<std::string, size_t> reads{{"P4 sum over dim 1 [4096,4096]", 4096 * 4096 * 4}, {"P4 sum over dim 0 [4096,4096]", 4096 * 4096 * 4},
    {"P3 cross_entropy [512,32000]", 512 * 32000 * 4}};
  if (const auto found = reads.find(row); found != reads.end()) {
    float* from = memory(found->second);
    return {[from, n = found->second / 4] { kept = read_all(from, n); }};
  }
  const auto found = copies.find(row);
  if (found == copies.end()) return {};
  const size_t n = found->second / 4;
  float *from = memory(n * 4), *to = memory(n * 4);
  const std::function<void()> ways[] = {[=] { std::memcpy(to, from, n * 4); }, [=] { copy_plain(to, from, n); }, [=] { copy_past_caches(to, from, n); }};
  const std::function<void()>* best = nullptr;
  double least = 1e9;
  for (int round = 0; round < 5; round++)
    for (const auto& way : ways) {
      const double start = seconds();
      way();
      const double took = seconds() - start;
      if (took < least) least = took, best = &way;
    }
  return {*best};
}
}  // namespace

int main(int count, char** words) {
  const std::string kind = count > 1 ? words[1] : "fused";
  by_cpu_time = count > 2 && std::string(words[2]) == "cpu";
  Work work;
  int repeat = 1;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "about") {
      std::cout << (kind == "fused" ? "g++ " __VERSION__ " -O3 -march=native -ffast-math" : "copy or read of the same bytes") << std::endl;
    } else if (line.rfind("prepare ", 0) == 0) {
      work = kind == "fused" ? fused(line.substr(8)) : moved(line.substr(8));
      if (!work.run) {
        std::cout << "no such row" << std::endl;
        continue;
      }
      for (int i = 0; i < 3; i++) work.run();
      const double start = seconds();
      work.run();
      repeat = std::max(1, int(4e-3 / std::max(seconds() - start, 1e-7)));
      std::string samples;
      size_t n = 0;
      for (size_t i = 0; i < work.count; i += std::max<size_t>(1, work.count / 8), n++) samples += " " + std::to_string(double(work.result[i]));
      std::cout << "ok 0 " << n << samples << std::endl;
    } else if (line == "time" && work.run) {
      const double start = seconds();
      for (int i = 0; i < repeat; i++) work.run();
      std::cout << (seconds() - start) / repeat << std::endl;
    } else {
      std::cout << "no such command" << std::endl;
    }
  }
}
