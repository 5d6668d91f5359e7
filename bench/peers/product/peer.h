// What a peer's module for bench/product answers: one float32 product, all matrices dense and row-major (A^T and B^T: their transposes
// are). Each library is opened by itself (several define the same names), so each has a module of its own.
#pragma once
#include <stdint.h>

extern "C" {
struct PeerProduct {
  int64_t m, n, k, batch;  // the batch's matrices lie one after the other
  bool transpose_a, transpose_b;
  const float *a, *b;
  float* c;
};
const char* peer_name(int threads);               // with its version and what it says of the processor; called first
void* peer_prepare(const struct PeerProduct*);    // null: this peer has no such product
void peer_run(void*);
void peer_release(void*);
}
