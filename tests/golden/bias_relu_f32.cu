namespace program_bias_relu_f32 {

// The index along an axis of extent n: item mod n, and item becomes item / n.
__device__ __forceinline__ long long take_index(long long& item, long long n) {
  if (((item | n) >> 32) == 0) {
    const unsigned a = (unsigned)item, b = (unsigned)n, q = a / b;
    item = q;
    return a - q * b;
  }
  const long long q = item / n, r = item - q * n;
  item = q;
  return r;
}

extern "C" __global__ void __launch_bounds__(256, 1) frit_bias_relu_f32(const float* p0, const float* p1, float* p2, long long p3, long long p4, float p5) {
  const long long n0 = p3;
  const long long n1 = p4;
  for (long long item = blockIdx.x * 256ll + threadIdx.x; item < n0 * n1; item += gridDim.x * 256ll) {
    long long rest0_1 = item;
    const long long i1 = take_index(rest0_1, n1);
    const long long i0 = rest0_1;
    const long long v8 = i0 * p4;
    const long long v9 = v8 + i1;
    const float v10 = p1[i1];
    const float v11 = p0[v9];
    const float v12 = v11 * p5;
    const float v13 = v12 + v10;
    const float v15 = v13 > 0.0f ? v13 : 0.0f;
    p2[v9] = v15;
  }
}

}  // namespace
