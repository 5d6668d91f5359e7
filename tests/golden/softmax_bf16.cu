namespace program_softmax_bf16 {

__device__ __forceinline__ float bfloat16_to_float(unsigned short bits) { return __int_as_float((int)((unsigned)bits << 16)); }

__device__ __forceinline__ unsigned short float_to_bfloat16(float value) {
  const unsigned bits = (unsigned)__float_as_int(value);
  if (value != value) return (unsigned short)(bits >> 16 | 0x40u);
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

__device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }
__device__ __forceinline__ float sum_of(float a, float b) { return a + b; }
__device__ __forceinline__ double sum_of(double a, double b) { return a + b; }
template <class T> __device__ __forceinline__ T sum_of(T a, T b) { return T((unsigned long long)a + (unsigned long long)b); }
template <class T> struct Sum {
  T v;
  __device__ __forceinline__ void take(T x) { v = sum_of(v, x); }
  __device__ __forceinline__ void take_product(T a, T b) { v = fused(a, b, v); }
  __device__ __forceinline__ Sum joined(Sum o) const { return {sum_of(v, o.v)}; }
  __device__ __forceinline__ T result() const { return v; }
};

// NaN wins, and +0 over -0.
__device__ __forceinline__ float both_bits(float a, float b) { return __int_as_float(__float_as_int(a) & __float_as_int(b)); }
__device__ __forceinline__ double both_bits(double a, double b) {
  return __longlong_as_double(__double_as_longlong(a) & __double_as_longlong(b));
}
template <class T> __device__ __forceinline__ T both_bits(T a, T b) { return T(a & b); }
template <class T> struct Maximum {
  T v;
  __device__ __forceinline__ void take(T x) {
    v = x != x ? x : v != v ? v : x > v ? x : x < v ? v : both_bits(x, v);
  }
  __device__ __forceinline__ Maximum joined(Maximum o) const {
    o.take(v);
    return o;
  }
  __device__ __forceinline__ T result() const { return v; }
};

// Joins what is pushed pairwise by position, as a binary counter carries.
template <class A, int levels> struct Stack {
  A level[levels];
  long long count;
  __device__ __forceinline__ void push(A a) {
    int k = 0;
    for (; count >> k & 1; ++k) a = level[k].joined(a);
    level[k] = a;
    ++count;
  }
  __device__ __forceinline__ A total() const {
    int k = 0;
    while (!(count >> k & 1)) ++k;
    A a = level[k];
    for (++k; count >> k; ++k)
      if (count >> k & 1) a = level[k].joined(a);
    return a;
  }
};

// Joins the eight groups' results of each column; all threads of a column get the total.
template <class A> __device__ __forceinline__ A join_groups(void* scratch, int group, int column, int columns, bool writes, A a) {
  A* s = (A*)scratch + column;
  if (writes) s[group * columns] = a;
  __syncthreads();
  const A low = s[0].joined(s[columns]).joined(s[2 * columns].joined(s[3 * columns]));
  const A high = s[4 * columns].joined(s[5 * columns]).joined(s[6 * columns].joined(s[7 * columns]));
  __syncthreads();
  return low.joined(high);
}

// Joins the 256 lanes of a thread block; every thread gets the total.
template <class A> __device__ __forceinline__ A join_row(void* scratch, A a) {
  for (int distance = 1; distance < 32; distance *= 2) {
    union Words {
      A a;
      unsigned word[(sizeof(A) + 3) / 4];
      __device__ Words() {}
    } other;
    other.a = a;
    for (unsigned k = 0; k < (sizeof(A) + 3) / 4; ++k) other.word[k] = __shfl_xor_sync(0xffffffffu, other.word[k], distance);
    a = a.joined(other.a);
  }
  return join_groups(scratch, (int)threadIdx.x / 32, 0, 1, threadIdx.x % 32 == 0, a);
}

extern "C" __global__ void __launch_bounds__(256, 1) frit_softmax_bf16(const unsigned short* p0, unsigned short* p1, long long p2, long long p3) {
  const long long n0 = p2;
  const long long n1 = p3;
  __shared__ unsigned long long scratch[16];
  const int lane = (int)threadIdx.x;
  for (long long item = blockIdx.x; item < n0; item += gridDim.x) {
    const long long i0 = item;
    const long long v6 = i0 * p3;
    Stack<Maximum<float>, 40> s9;
    s9.count = 0;
    for (long long c1 = 0; c1 == 0 || c1 < n1; c1 += 65536) {
      const long long e1 = n1 - c1 < 65536 ? n1 : c1 + 65536;
      Maximum<float> a9 = {__int_as_float(0xff800000)};
      for (long long i1 = c1 + lane; i1 < e1; i1 += 256) {
        const long long v7 = v6 + i1;
        const float v8 = bfloat16_to_float(p0[v7]);
        a9.take(v8);
      }
      s9.push(join_row(scratch, a9));
    }
    const float v9 = s9.total().result();
    Stack<Sum<float>, 40> s48;
    s48.count = 0;
    for (long long c1 = 0; c1 == 0 || c1 < n1; c1 += 65536) {
      const long long e1 = n1 - c1 < 65536 ? n1 : c1 + 65536;
      Sum<float> a48 = {0.0f};
      for (long long i1 = c1 + lane; i1 < e1; i1 += 256) {
        const long long v7 = v6 + i1;
        const float v8 = bfloat16_to_float(p0[v7]);
        const float v10 = v8 - v9;
        const float v12 = 89.0f < v10 ? 89.0f : v10;
        const float v14 = (-176.05939f) > v12 ? (-176.05939f) : v12;
        const float v17 = fmaf(v14, 1.442695f, 12582912.0f);
        const float v18 = v17 - 12582912.0f;
        const float v20 = fmaf(v18, (-0.6931472f), v14);
        const float v22 = fmaf(v18, 1.9046542e-09f, v20);
        const int v23 = __float_as_int(v17);
        const float v26 = fmaf(0.0013837831f, v22, 0.008367089f);
        const float v28 = fmaf(v26, v22, 0.04166775f);
        const float v30 = fmaf(v28, v22, 0.16666539f);
        const float v32 = fmaf(v30, v22, 0.49999997f);
        const float v33 = v22 * v22;
        const float v34 = fmaf(v32, v33, v22);
        const int v36 = (int)((unsigned)v23 >> 1);
        const int v39 = (int)((unsigned)v36 << 23);
        const int v40 = (int)((unsigned)v39 + (unsigned)1065353216);
        const float v41 = __int_as_float(v40);
        const int v42 = (int)((unsigned)v23 - (unsigned)v36);
        const int v43 = (int)((unsigned)v42 << 23);
        const int v44 = (int)((unsigned)v43 + (unsigned)1065353216);
        const float v45 = __int_as_float(v44);
        const float v46 = fmaf(v34, v41, v41);
        const float v47 = v46 * v45;
        a48.take(v47);
      }
      s48.push(join_row(scratch, a48));
    }
    const float v48 = s48.total().result();
    for (long long at = lane; at < n1; at += 256) {
      const long long i1 = at;
      const long long v7 = v6 + i1;
      const float v8 = bfloat16_to_float(p0[v7]);
      const float v10 = v8 - v9;
      const float v12 = 89.0f < v10 ? 89.0f : v10;
      const float v14 = (-176.05939f) > v12 ? (-176.05939f) : v12;
      const float v17 = fmaf(v14, 1.442695f, 12582912.0f);
      const float v18 = v17 - 12582912.0f;
      const float v20 = fmaf(v18, (-0.6931472f), v14);
      const float v22 = fmaf(v18, 1.9046542e-09f, v20);
      const int v23 = __float_as_int(v17);
      const float v26 = fmaf(0.0013837831f, v22, 0.008367089f);
      const float v28 = fmaf(v26, v22, 0.04166775f);
      const float v30 = fmaf(v28, v22, 0.16666539f);
      const float v32 = fmaf(v30, v22, 0.49999997f);
      const float v33 = v22 * v22;
      const float v34 = fmaf(v32, v33, v22);
      const int v36 = (int)((unsigned)v23 >> 1);
      const int v39 = (int)((unsigned)v36 << 23);
      const int v40 = (int)((unsigned)v39 + (unsigned)1065353216);
      const float v41 = __int_as_float(v40);
      const int v42 = (int)((unsigned)v23 - (unsigned)v36);
      const int v43 = (int)((unsigned)v42 << 23);
      const int v44 = (int)((unsigned)v43 + (unsigned)1065353216);
      const float v45 = __int_as_float(v44);
      const float v46 = fmaf(v34, v41, v41);
      const float v47 = v46 * v45;
      const float v49 = v47 / v48;
      p1[v7] = float_to_bfloat16(v49);
    }
  }
}

}  // namespace
